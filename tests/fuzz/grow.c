/* grow.c: seed -> the text of a valid model with a train block.
 *
 * A pool holds the tensors that the text has made so far, with their shapes; a statement takes some of them and adds
 * what it makes. Extents are small, 1 and odd ones among them. Values are kept within bounds (tanh), so that rounding
 * stays rounding: two ways to compute the same agree to 1e-10 after some steps of training. For the same reason nothing
 * jumps where two computed values are equal, and no optimizer divides by a gradient that may be zero but for rounding.
 *
 * In the text: inputs of several types and ranks; element-wise operations, broadcasting, reductions, views, slices with
 * steps, concat, pad, windows, convolutions (stride, dilation, groups, transposed), gathers, einsum, attention, norms,
 * dropout, random numbers; weights of its own, shared ones, values that are the same for all samples; layers of the user,
 * pipelines, if, for; scans (grow_scans.c), in each other too, and layers that loop; several losses, weighted ones, ignored
 * labels, regularisers, metrics, totals, outputs; and the train block (grow_train.c). */
#include "tests/fuzz/grow.h"
#include "tests/fuzz/grow_parts.h"

/* ---- the rest of the model */
static void grow_inputs(Grower *g)
{
    int count = 1 + below(g, 3);
    for (int i = 0; i < count; i++) {
        Value v = {.rank = chance(g, 10) ? 4 : 1 + below(g, 3), .sample = true};
        for (int k = 0; k < v.rank; k++)
            v.e[k] = 1 + below(g, v.rank == 4 ? 4 : v.rank == 3 ? 5 : 7);
        bool pixels = chance(g, 25);
        const char *name = new_name(g, pixels ? "image" : "x");
        text_add(&g->inputs, "    input %s: %s%s\n", name, pixels ? "u8" : "f32", shape_list(&v));
        if (pixels) {
            define(g, v, format("%s / 255", name));
        } else {
            v.name = name;
            g->pool[g->count++] = v;
        }
    }
    g->input_values = g->count;
    if (chance(g, 70)) {
        g->classes = 2 + below(g, 4);
        g->ignore = chance(g, 25);
        text_add(&g->inputs, g->ignore ? "    input label: class(%d, ignore = %d)\n" : "    input label: class(%d)\n", g->classes,
                 g->classes);
    }
    if (chance(g, 30)) {
        g->tokens = 1 + below(g, 6);
        g->token_classes = 2 + below(g, 6);
        text_add(&g->inputs, "    input token: class(%d)[%d]\n", g->token_classes, g->tokens);
    }
}

static void grow_loss(Grower *g)
{
    const Value *x = pick(g);
    Text *t = &g->losses;
    const char *name = new_name(g, "l");
    int kind = below(g, 6);
    bool sample = x->sample;
    if (kind <= 1 && g->classes && x->rank >= 1) {
        const char *logits = new_name(g, "logits");
        text_add(t, "    %s = %s |> flatten() |> dense(%d)\n", logits, x->name, g->classes);
        text_add(t, "    loss %s = %scross_entropy(%s, label%s)\n", name, kind ? "0.5 * " : "", logits,
                 chance(g, 30) ? ", smoothing = 0.1" : "");
        if (chance(g, 60))
            text_add(t, "    metric a%s = accuracy(%s, label)\n", name, logits);
        if (chance(g, 40))
            text_add(t, "    metric p%s = exp(average(cross_entropy(%s, label)))\n", name, logits);
        if (sample && chance(g, 60))
            text_add(t, "    output o%s = softmax(%s)\n", name, logits);
        if (chance(g, 30))
            text_add(t, "    metric t%s = total(sum(%s ** 2)) / maximum(1, total(1))\n", name, logits);
    } else if (kind == 2) {
        const Value *w = &g->pool[0]; /* weights that depend on inputs alone go with micro-batches too */
        Value out;
        if (broadcasts(x, w, &out) && elements(&out) == elements(x))
            text_add(t, "    loss %s = weighted((%s - 0.3) ** 2, %s ** 2 + 0.01)\n", name, x->name, w->name);
        else
            text_add(t, "    loss %s = weighted(%s ** 2, 0.5 + tanh(sum(%s)) ** 2)\n", name, x->name, w->name);
    } else if (kind == 3) {
        text_add(t, "    loss %s = 1e-2 * sum(%s ** 2)\n", name, x->name);
    } else if (kind == 4 && !g->smooth) {
        text_add(t, "    loss %s = huber(%s, 0.2, delta = 0.5)\n", name, x->name);
        text_add(t, "    metric m%s = max(abs(%s))\n", name, x->name);
    } else {
        text_add(t, "    loss %s = mse(tanh(%s), 0.1)\n", name, x->name);
        if (sample && chance(g, 50))
            text_add(t, "    output o%s = %s\n", name, x->name);
        if (chance(g, 30))
            text_add(t, "    metric r%s = total(sum(%s)) / maximum(1, total(sum(%s ** 2)))\n", name, x->name, x->name);
    }
}

/* a loss that is not finite where a number of the sample is large: such steps are left out */
static void grow_trap(Grower *g)
{
    const char *x = g->pool[below(g, g->input_values)].name, *last = pick(g)->name, *name = new_name(g, "trap");
    double limit = 2 - 1.0 / g->batch; /* of numbers in [-2, 2): about every fourth step has one above */
    switch (below(g, 3)) {
    case 0: text_add(&g->losses, "    loss %s = 0.1 * log(%.3f - flatten(%s)[0])\n", name, limit, x); break;
    case 1: text_add(&g->losses, "    loss %s = 0.1 * sqrt(%.3f - flatten(%s)[0]) * mean(%s)\n", name, limit, x, last); break;
    default:
        text_add(&g->losses, "    loss %s = 0.1 * mean(%s ** 2 + 1) / where(flatten(%s)[0] > %.3f, 0, 1)\n", name, last, x,
                 limit);
    }
}

const char *grow_model(uint64_t seed, const GrowOptions *options)
{
    Random start = {seed ^ 0x6d67707563u}; /* neighbours must not be the same numbers, shifted */
    Grower grower = {.r = {random_bits(&start)}, .smooth = options->smooth}, *g = &grower;
    static const int BATCHES[] = {1, 2, 3, 4, 5, 7, 8, 11};
    g->batch = BATCHES[below(g, COUNT(BATCHES))];
    if (options->style == GROW_WIDE)
        return grow_wide(g, seed);
    g->evaluation = options->style == GROW_EVALUATION;
    if (options->style == GROW_GRAPH || g->evaluation || (options->style == GROW_ANY && !g->smooth && chance(g, 60)))
        return grow_graph(g, seed, options->statements);
    g->groups = chance(g, 40) ? 1 + below(g, 3) : 0;
    g->accumulate = chance(g, 30) ? 2 + below(g, 2) : 1;
    g->traps = !g->smooth && chance(g, 15);
    grow_inputs(g);
    int statements = options->statements ? options->statements : 3 + below(g, 18);
    for (int i = 0; i < statements; i++)
        grow_statement(g);
    bool chosen = g->smooth && chance(g, 50) && grow_choice(g); /* and only some samples have a loss */
    /* the last value counts, others may */
    const Value *last = &g->pool[g->count - 1];
    const char *loss = format("mse(%s |> flatten() |> dense(2), 0.5)", last->name);
    text_add(&g->losses, chosen ? "    loss weighted(%s, flatten(%s)[0] > 0)\n" : "    loss %s\n", loss, g->pool[0].name);
    if (g->traps)
        grow_trap(g);
    if (!last->sample)
        text_add(&g->losses, "    loss base = mse(tanh(%s), 0.2)\n", g->pool[0].name);
    else
        text_add(&g->losses, "    output last = %s\n", last->name);
    for (int i = chosen ? 0 : below(g, 4); i > 0; i--)
        grow_loss(g);
    Text t = {0};
    text_add(&t, "# grown from the seed %llu\n%smodel grown {\n%s\n%s\n%s}\n\n", (unsigned long long)seed, text_of(&g->layers),
             text_of(&g->inputs), text_of(&g->body), text_of(&g->losses));
    grow_train(g, &t);
    return copy_text(text_of(&t), t.length);
}
