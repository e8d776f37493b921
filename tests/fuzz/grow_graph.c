/* grow_graph.c: the other style of random models: graphs of primitives, of small odd extents, in which nothing keeps values
 * apart or in bounds but what a derivative needs. Views, reductions over any axes, indices that are computed, sums over the
 * batch, values of every type (grow_types.c) and layers of the library follow each other in any order, in loops too.
 * Every value that no other one uses becomes a loss, times a state of random numbers: so each has a gradient, which differs
 * from element to element, and the weights show it after a step. Where values grow beyond all bounds, or hang on rounding,
 * models.c finds it out and leaves the model out. */
#include "tests/fuzz/grow_parts.h"

#include <ctype.h>
#include <string.h>

/* `$` and `#` in a form are the two names */
const char *filled(const char *form, const char *a, const char *b)
{
    Text t = {0};
    for (const char *p = form; *p; p++)
        if (*p == '$' || *p == '#')
            text_add(&t, "%s", *p == '$' ? a : b);
        else
            text_bytes(&t, p, 1);
    return text_take(&t);
}

/* a new value that the form makes of a and b, which are `both` together */
bool define_of(Grower *g, const Value *a, const Value *b, Value both, const char *form)
{
    Value y = strchr(form, '#') ? both : like(a);
    y.kind = both.kind;
    return define(g, y, filled(form, a->name, b->name));
}

/* two values that broadcast; false: none were found */
bool pick_pair(Grower *g, unsigned first, unsigned second, const Value **a, const Value **b, Value *out)
{
    for (int tries = 0; tries < 16; tries++) {
        *a = pick_of(g, first, 0, RANK);
        *b = pick_of(g, second, 0, RANK);
        if (!*a || !*b || !broadcasts(*a, *b, out))
            continue;
        out->kind = (*a)->kind;
        return true;
    }
    return false;
}

/* ---- element-wise */
static bool grow_one(Grower *g)
{
    static const char *const FORMS[] = {"$ * 0.7 - 0.1",
                                        "-$",
                                        "1 - $ / 3",
                                        "abs($)",
                                        "$ - floor($)",
                                        "sqrt(abs($) + 0.1)",
                                        "sqrt($ ** 2 + 0.01)",
                                        "exp(-abs($))",
                                        "exp(tanh($))",
                                        "log(abs($) + 0.3)",
                                        "sin($)",
                                        "cos(2 * $)",
                                        "tanh($)",
                                        "erf($)",
                                        "0.3 * $ ** 3",
                                        "$ ** 2",
                                        "(abs($) + 0.2) ** 1.5",
                                        "2 ** tanh($)",
                                        "$ % 0.75",
                                        "$ // 0.4 * 0.1 + $",
                                        "sign($) * $",
                                        "round($ * 2) - $",
                                        "clamp($, -0.5, 0.7)",
                                        "minimum($, 0.3)",
                                        "maximum(-0.2, $)",
                                        "stop_gradient($) * $",
                                        "gelu($, approximate = true)",
                                        "leaky_relu($, slope = 0.2)",
                                        "where($ > 0.1, $, -$)",
                                        "where($ <= 0, exp($), 1 + $)",
                                        "1 / ($ ** 2 + 0.5)",
                                        "log(1 + exp(-abs($)))",
                                        "$ * progress",
                                        "softplus($)",
                                        "sigmoid($)",
                                        "elu($)",
                                        "log(sigmoid(tanh($)))",
                                        "tan(tanh($))",
                                        "atan($)",
                                        "asin(0.9 * tanh($))",
                                        "acos(0.9 * tanh($))"};
    const Value *x = pick(g);
    return define(g, like(x),
                  chance(g, 20) ? format("%s(%s)", activation(g), x->name) : filled(FORMS[below(g, COUNT(FORMS))], x->name, ""));
}

static bool grow_two(Grower *g)
{
    static const char *const FORMS[] = {"$ + #",
                                        "$ - #",
                                        "$ * #",
                                        "$ + #",
                                        "$ * #",
                                        "$ / (# ** 2 + 0.5)",
                                        "$ / (abs(#) + 0.4)",
                                        "minimum($, #)",
                                        "maximum($, #)",
                                        "where($ > #, $, #)",
                                        "where($ < 0.2, #, $ * #)",
                                        "$ % (abs(#) + 0.5)",
                                        "(abs($) + 0.2) ** tanh(#)",
                                        "lerp($, #, 0.3)",
                                        "lerp($, #, sigmoid(#))",
                                        "sqrt($ ** 2 + # ** 2 + 0.01)",
                                        "where(($ > 0) == (# > 0.1), $, #)",
                                        "$ * tanh(#)",
                                        "exp(-($ - #) ** 2)",
                                        "huber($, #)",
                                        "mae($, #)",
                                        "atan2($, #)",
                                        "atan2($, abs(#) + 0.3)",
                                        "binary_cross_entropy($, sigmoid(#))"};
    const Value *a, *b;
    Value out;
    return pick_pair(g, 1u << FLOAT, 1u << FLOAT, &a, &b, &out) && (a != b || chance(g, 20)) &&
           define_of(g, a, b, out, FORMS[below(g, COUNT(FORMS))]);
}

/* ---- reductions, of values of any kind */

/* axes of x, any of them: the text of the argument, and the shape without them; of keep: with 1 in their place */
static const char *some_axes(Grower *g, const Value *x, bool keeps, Value *y)
{
    int least = below(g, x->rank), most = chance(g, 50) ? least : x->rank - 1, count = 0;
    Text axes = {0};
    y->rank = 0;
    for (int i = 0; i < x->rank; i++) {
        bool drop = i == least || (i <= most && chance(g, 60));
        if (drop)
            text_add(&axes, "%s%d", count++ ? ", " : "", chance(g, 30) ? i - x->rank : i);
        if (!drop || keeps)
            y->e[y->rank++] = drop ? 1 : x->e[i];
    }
    return count == 1 && chance(g, 30) ? text_of(&axes) : format("[%s]", text_of(&axes));
}

static bool grow_reduced(Grower *g)
{
    static const char *const OF_FLOATS[] = {"sum", "mean",      "max", "min",  "variance", "norm", "logsumexp",
                                            "max", "logsumexp", "min", "norm", "max",      "prod"};
    static const char *const OF_ALL[] = {"max", "min", "sum", "max", "min"};
    const Value *x = pick_of(g, chance(g, 75) ? 1u << FLOAT : ~0u, 1, RANK);
    if (!x)
        return false;
    Value y = like(x);
    bool keeps = chance(g, 40), inside = x->kind == FLOAT && chance(g, 15);
    const char *axes = some_axes(g, x, keeps || inside, &y);
    const char *f = x->kind == FLOAT ? OF_FLOATS[below(g, COUNT(OF_FLOATS))] : OF_ALL[below(g, COUNT(OF_ALL))];
    if (x->kind == FLAGS && strcmp(f, "sum") == 0)
        y.kind = WHOLE;
    if (x->kind == FLAGS && strcmp(f, "min") == 0) {
        y.kind = WHOLE;
        return define(g, y, format("i32(min(%s, %s%s))", x->name, axes, keeps ? ", keep = true" : ""));
    }
    if (inside)
        return define(g, like(x), format("%s %s %s(%s, %s, keep = true)", x->name, chance(g, 50) ? "-" : "*", f, x->name, axes));
    if (chance(g, 8) && x->kind == FLOAT)
        return define(g, (Value){.sample = x->sample}, format("%s(%s)", strcmp(f, "logsumexp") ? f : "sum", x->name));
    return define(g, y, format("%s(%s, %s%s)", f, x->name, axes, keeps ? ", keep = true" : ""));
}

/* the largest or least of a value that is computed anew for it: of two values, or of one that looks at the whole of itself */
static bool grow_extreme(Grower *g)
{
    static const char *const OF_TWO[] = {"$ * # + 0.3 * $", "$ - # / (abs(#) + 0.7)", "tanh($) * # + exp(-#)",
                                         "$ + 0.3 * tanh(# * $)"};
    static const char *const OF_ONE[] = {"($ - mean($)) / sqrt(variance($) + 0.02)", "0.6 * $ + sin($ * mean($))",
                                         "$ / (norm($) + 0.3)", "softmax($, -1) * $", "$ - logsumexp($, -1, keep = true)"};
    static const char *const OUT[] = {"max", "min", "norm", "logsumexp", "max", "variance"};
    const Value *a, *b;
    Value out;
    if (!pick_pair(g, 1u << FLOAT, 1u << FLOAT, &a, &b, &out))
        return false;
    bool two = a != b && chance(g, 50);
    if (!two)
        out = *a;
    if (out.rank < 1 ||
        !define(g, out, filled(two ? OF_TWO[below(g, COUNT(OF_TWO))] : OF_ONE[below(g, COUNT(OF_ONE))], a->name, b->name)))
        return false;
    const Value *x = &g->pool[g->count - 1];
    Value y = like(x);
    bool keeps = chance(g, 40);
    const char *axes = some_axes(g, x, keeps, &y);
    return define(g, y, format("%s(%s, %s%s)", OUT[below(g, COUNT(OUT))], x->name, axes, keeps ? ", keep = true" : ""));
}

/* along one axis: softmax, running sums, the largest and their places */
static bool grow_along(Grower *g)
{
    const Value *x = pick_of(g, chance(g, 75) ? 1u << FLOAT : ~0u, 1, RANK);
    if (!x)
        return false;
    Value y = like(x);
    int axis = below(g, x->rank), said = chance(g, 40) ? axis - x->rank : axis;
    int64_t n = x->e[axis];
    switch (below(g, x->kind == FLOAT ? 6 : 4)) {
    case 0: y.kind = x->kind == FLAGS ? WHOLE : x->kind; return define(g, y, format("cumsum(%s, %d)", x->name, said));
    case 1: {
        y.kind = WHOLE;
        y.rank--;
        memmove(y.e + axis, y.e + axis + 1, (size_t)(y.rank - axis) * sizeof *y.e);
        return define(g, y, format("argmax(%s, %d)", x->name, said));
    }
    case 2:
    case 3: {
        if (x->kind == FLAGS || g->smooth)
            return false;
        int64_t k = y.e[axis] = 1 + below(g, (int)n);
        const Value *v = keep(g, y);
        y.kind = WHOLE;
        const Value *at = v ? keep(g, y) : NULL;
        if (!at) {
            g->count -= v != NULL;
            return false;
        }
        SAY("    %s, %s = top_k(%s, %lld, axis = %d)\n", v->name, at->name, x->name, (long long)k, said);
        return true;
    }
    case 4: return define(g, y, format("log_softmax(%s, %d)", x->name, said));
    default: return define(g, y, format("softmax(%s, %d)", x->name, said));
    }
}

/* ---- views that grow_statements.c lacks */
static bool grow_joined(Grower *g) /* two values that differ in one axis */
{
    for (int tries = 0; tries < 16; tries++) {
        const Value *a = pick_of(g, ~0u, 1, RANK), *b = a ? pick_of(g, 1u << a->kind, a->rank, a->rank) : NULL;
        int differ = 0, axis = a ? below(g, a->rank) : 0;
        for (int i = 0; b && i < a->rank; i++)
            differ += i != axis && a->e[i] != b->e[i];
        if (!b || differ)
            continue;
        Value y = like(a);
        y.sample = a->sample || b->sample;
        if (a->e[axis] == b->e[axis] && a->rank < RANK && chance(g, 60)) {
            memmove(y.e + axis + 1, y.e + axis, (size_t)(a->rank - axis) * sizeof *y.e);
            y.e[axis] = 2;
            y.rank++;
            return define(g, y, format("stack([%s, %s], axis = %d)", a->name, b->name, axis));
        }
        y.e[axis] += b->e[axis];
        return define(g, y, format("concat([%s, %s], axis = %d)", a->name, b->name, axis - (chance(g, 30) ? a->rank : 0)));
    }
    return false;
}

static bool grow_broad(Grower *g) /* 1 becomes more, axes come in front */
{
    const Value *x = pick_of(g, ~0u, 0, RANK - 1);
    if (!x)
        return false;
    Value y = {.sample = x->sample, .kind = x->kind};
    int more = below(g, RANK - x->rank < 3 ? RANK - x->rank : 3);
    for (int i = 0; i < more; i++)
        y.e[y.rank++] = 1 + below(g, 3);
    for (int i = 0; i < x->rank; i++)
        y.e[y.rank++] = x->e[i] == 1 ? 1 + below(g, 4) : x->e[i];
    return define(g, y, format("broadcast(%s, %s)", x->name, shape_list(&y)));
}

static bool grow_backwards(Grower *g) /* slices whose steps are negative, with both ends */
{
    const Value *x = pick_of(g, ~0u, 1, RANK);
    if (!x)
        return false;
    Value y = {.sample = x->sample, .kind = x->kind};
    Text t = {0};
    for (int i = 0; i < x->rank; i++) {
        int n = (int)x->e[i], from = below(g, n), to = below(g, from + 1), step = 1 + below(g, 3);
        text_add(&t, "%s", i ? ", " : "");
        if (chance(g, 45) || from == to) {
            text_add(&t, chance(g, 10) && n == 1 ? "0" : ":");
            if (t.data[t.length - 1] == ':')
                y.e[y.rank++] = n;
            continue;
        }
        bool end = chance(g, 60);
        text_add(&t, end ? "%d:%d:-%d" : "%d::-%d", from, end ? to : step, step);
        y.e[y.rank++] = ((end ? from - to : from + 1) + step - 1) / step;
    }
    return define(g, y, format("%s[%s]", x->name, text_of(&t)));
}

/* ---- by index */
static const char *index_of(Grower *g, const Value *i, int64_t n)
{
    static const char *const FORMS[] = {"$", "$ % #", "($ * 3 + 1) % #", "$ % #", "# - 1 - $ % #"};
    return filled(FORMS[below(g, COUNT(FORMS))], i->name, format("%lld", (long long)n + below(g, 2)));
}

static bool grow_rows(Grower *g)
{
    const Value *x = pick_of(g, ~0u, 1, RANK), *i = pick_of(g, 1u << WHOLE, 0, 2);
    if (!x || !i || x->rank - 1 + i->rank > RANK)
        return false;
    Value y = {.sample = x->sample || i->sample, .kind = x->kind};
    int axis = below(g, x->rank);
    Text t = {0};
    for (int k = 0; k < x->rank; k++) {
        text_add(&t, "%s%s", k ? ", " : "", k == axis ? index_of(g, i, x->e[k]) : ":");
        if (k == axis)
            memcpy(y.e + y.rank, i->e, (size_t)i->rank * sizeof *y.e);
        y.rank += k == axis ? i->rank : 1;
        if (k != axis)
            y.e[y.rank - 1] = x->e[k];
        if (k == axis && chance(g, 50))
            while (++k < x->rank) /* what is after need not be said */
                y.e[y.rank++] = x->e[k];
    }
    return define(g, y, format("%s[%s]", x->name, text_of(&t)));
}

static bool grow_added(Grower *g)
{
    const Value *x = pick_of(g, chance(g, 70) ? 1u << FLOAT : ~(1u << FLAGS), 1, 3), *i = pick_of(g, 1u << WHOLE, 0, 2);
    if (!x || !i)
        return false;
    Value y = like(x);
    for (int tries = 0; tries < 12; tries++) {
        const Value *v = pick_of(g, 1u << x->kind, 0, RANK);
        bool fits = v && v->rank == i->rank + x->rank - 1;
        for (int k = 0; fits && k < v->rank; k++)
            fits = v->e[k] == (k < i->rank ? i->e[k] : x->e[k - i->rank + 1]);
        if (!v || (!fits && tries < 9))
            continue;
        y.sample = x->sample || i->sample || v->sample;
        static const char *const HOW[] = {"add", "add", "add", "set", "max", "mul"};
        return define(g, y,
                      format("scatter_%s(%s, %s, %s)", HOW[x->kind == FLOAT ? below(g, COUNT(HOW)) : 0], x->name,
                             index_of(g, i, x->e[0]), fits ? v->name : format("max(%s)", v->name)));
    }
    return false;
}

/* ---- the batch */
static bool grow_batch(Grower *g)
{
    static const char *const FORMS[] = {"if training then tanh(batch_sum($#) / 4) else 0.5 * $",
                                        "if training then ($ - batch_sum($#) / batch_sum(1#)) else $",
                                        "if training then ($ / sqrt(batch_sum($ ** 2#) / batch_sum(1#) + 0.1)) else $",
                                        "if training then $ * exp(-batch_sum($ ** 2#) / batch_sum(1#)) else $",
                                        "if training then $ - f32(batch_moments($)[..., 1]) else 0.5 * $"};
    const Value *x = pick(g);
    if (!x->sample || (g->accumulate > 1 && !g->groups) || (g->scans && x - g->pool >= g->free_values))
        return false;
    int form = below(g, COUNT(FORMS));
    if (g->accumulate > 1 && !strchr(FORMS[form], '#')) /* moments of the batch have no groups */
        return false;
    Value y = like(x);
    y.sample = form != 0 || g->groups;
    return define(g, y, filled(FORMS[form], x->name, g->groups ? format(", group = %d", g->groups) : ""));
}

/* each sample beside others of the batch */
static bool grow_gathered(Grower *g)
{
    static const char *const FORMS[] = {
        "if training then $ - 0.3 * batch_gather(tanh($))[batch_place() // 2] else $",
        "if training then where(batch_gather($ > 0)[batch_place() // 3], $, -0.5 * $) else $",
        "if training then sum(batch_gather($ ** 2), 0) * $ / (batch_sum(1) + sum(f32(batch_gather(true)))) else $",
        "if training then logsumexp(where(batch_gather(true), 0.5 * (batch_gather($) @ $), -1e30)) else sum($)"};
    const Value *x = pick(g);
    int form = below(g, x->rank == 1 ? COUNT(FORMS) : COUNT(FORMS) - 1);
    if (!x->sample || g->accumulate > 1 || g->groups || (g->scans && x - g->pool >= g->free_values))
        return false;
    Value y = form == COUNT(FORMS) - 1 ? (Value){.sample = true} : like(x);
    return define(g, y, filled(FORMS[form], x->name, ""));
}

/* ---- layers, of more shapes than grow_layers.c has them */
static bool grow_normed(Grower *g)
{
    const Value *x = pick_rank(g, 1, RANK);
    if (!x)
        return false;
    int64_t c = x->e[x->rank - 1], groups = 1 + below(g, (int)c);
    switch (below(g, 6)) {
    case 0:
        return x->rank > 1 && c % groups == 0 &&
               define(g, like(x), format("groupnorm(%s, %lld, eps = 0.01)", x->name, (long long)groups));
    case 1: return x->rank > 1 && define(g, like(x), format("instancenorm(%s)", x->name));
    case 2: return x->rank == 3 && define(g, like(x), format("local_response_norm(%s, size = 3)", x->name));
    case 3: return define(g, like(x), format("rmsnorm(%s, eps = 0.02)", x->name));
    case 4: return define(g, like(x), format("layernorm(%s, eps = 0.01)", x->name));
    default: return grow_norm(g);
    }
}

/* queries, keys and values that are views of something: [t, h, d], [s, k, d], [s, k, e], h a multiple of k */
static bool grow_attention(Grower *g)
{
    const Value *q = pick_rank(g, 3, 3), *k = pick_rank(g, 3, 3);
    if (!q || !k || q->e[2] != k->e[2])
        return false;
    bool turned = chance(g, 40); /* k as [heads, s, d] */
    int64_t s = k->e[turned ? 1 : 0], heads = k->e[turned ? 0 : 1];
    if (q->e[1] % heads)
        return false;
    Value y = like(q);
    y.sample = q->sample || k->sample;
    const char *form = turned ? "transpose(%s, [1, 0, 2])" : "%s", *keys = format(form, k->name),
               *values = chance(g, 50) ? format("flip(%s, 0)", keys) : keys;
    return define(g, y,
                  format("attention(%s, %s, %s%s%s)", q->name, keys, values,
                         chance(g, 30) && q->e[0] <= s ? ", causal = true" : "",
                         chance(g, 20) ? format(", window = %d", 1 + below(g, 3)) : ""));
}

static bool grow_pooled(Grower *g) /* windows over any axes */
{
    const Value *x = pick_rank(g, 1, g->evaluation ? 3 : 4);
    if (!x)
        return false;
    Value y = like(x);
    Text size = {0}, stride = {0}, padding = {0};
    bool high = chance(g, 50), pads = chance(g, 50);
    for (int i = 0; i < x->rank; i++) {
        int k = 1 + below(g, x->e[i] < 3 ? (int)x->e[i] : 3), s = 1 + below(g, 2), before = pads && k > 1 ? below(g, k) : 0,
            after = pads && k > 1 ? below(g, k) : 0;
        text_add(&size, "%s%d", i ? ", " : "", k);
        text_add(&stride, "%s%d", i ? ", " : "", s);
        text_add(&padding, "%s[%d, %d]", i ? ", " : "", before, after);
        y.e[i] = (x->e[i] + before + after - k) / s + 1;
    }
    return define(g, y,
                  format("window_%s(%s, [%s], [%s], [%s])", high ? "max" : "sum", x->name, text_of(&size), text_of(&stride),
                         text_of(&padding)));
}

static bool grow_sampled(Grower *g) /* signals and pictures */
{
    const Value *x = pick_rank(g, 1, 3), *y = pick_rank(g, 3, 3);
    if (!x)
        return false;
    Value z = like(x);
    if (x->rank == 3 && y && y->e[2] == 2 && x != y) {
        z = *y;
        z.e[2] = x->e[2];
        z.sample = x->sample || y->sample;
        return define(g, z,
                      format("grid_sample(%s, tanh(%s)%s)", x->name, y->name, chance(g, 50) ? ", padding = \"border\"" : ""));
    }
    z.e[z.rank - 1] = z.e[z.rank - 1] / 2 + 1;
    return define(g, z, format("rfft(%s)", x->name));
}

static bool grow_scored(Grower *g) /* losses as values */
{
    const Value *x = pick_rank(g, 1, 1);
    if (!x || !g->classes)
        return false;
    static const char *const FORMS[] = {"cross_entropy($ |> dense(#), label)", "focal($ |> dense(#), label)",
                                        "hinge($ |> dense(#), label)", "cross_entropy($ |> dense(#), label, smoothing = 0.1)"};
    Value y = {.sample = true};
    const char *form = FORMS[below(g, COUNT(FORMS))];
    return !g->ignore && define(g, y, filled(form, x->name, format("%d", g->classes)));
}

static Growth *const GROWTHS[] = {grow_one,       grow_one,       grow_one,        grow_two,
                                  grow_two,       grow_two,       grow_two,        grow_reduced,
                                  grow_reduced,   grow_reduced,   grow_extreme,    grow_extreme,
                                  grow_along,     grow_along,     grow_slice,      grow_reshape,
                                  grow_transpose, grow_transpose, grow_view,       grow_view,
                                  grow_joined,    grow_broad,     grow_backwards,  grow_rows,
                                  grow_rows,      grow_added,     grow_batch,      grow_batch,
                                  grow_gathered,  grow_gathered,  grow_normed,     grow_normed,
                                  grow_attention, grow_pooled,    grow_scored,     grow_sampled,
                                  grow_to_whole,  grow_to_whole,  grow_whole_math, grow_whole_math,
                                  grow_compare,   grow_logic,     grow_from_whole, grow_from_whole,
                                  grow_half,      grow_half,      grow_from_half,  grow_einsum,
                                  grow_matmul,    grow_dense,     grow_conv,       grow_conv_transpose,
                                  grow_pool,      grow_image,     grow_sequence,   grow_lookup,
                                  grow_weight,    grow_state,     grow_scan,       grow_recurrent,
                                  grow_noise,     grow_bilinear,  grow_loop,       grow_users_layer,
                                  grow_cube};

void grow_graph_statement(Grower *g)
{
    for (int tries = 0; tries < 8 && !GROWTHS[below(g, COUNT(GROWTHS))](g); tries++)
        ;
}

/* ---- the rest of the model */
static void grow_leaves(Grower *g)
{
    int floats = 1 + below(g, 2), wholes = below(g, 3), weights = 1 + below(g, 3);
    for (int i = 0; i < floats; i++) {
        Value v = {.rank = 1 + below(g, 4), .sample = true};
        for (int k = 0; k < v.rank; k++)
            v.e[k] = 1 + below(g, v.rank == 4 ? 4 : 6);
        v.name = new_name(g, "x");
        text_add(&g->inputs, "    input %s: f32%s\n", v.name, shape_list(&v));
        g->pool[g->count++] = v;
    }
    g->input_values = g->count;
    if (chance(g, 60)) {
        g->classes = 2 + below(g, 4);
        text_add(&g->inputs, "    input label: class(%d)\n", g->classes);
    }
    for (int i = 0; i < wholes; i++)
        grow_whole_input(g);
    for (int i = 0; i < weights; i++) {
        Value v = {.rank = below(g, 5)};
        const Value *x = &g->pool[below(g, g->input_values)];
        if (i == 0 || chance(g, 50))
            v = *x; /* one that goes with an input */
        for (int k = 0; k < v.rank && v.name == NULL; k++)
            v.e[k] = 1 + below(g, v.rank == 4 ? 4 : 6);
        v.sample = false;
        if (!keep(g, v))
            continue;
        Value *w = &g->pool[g->count - 1], both;
        w->once = true;
        SAY("    weight %s: f32%s = %s\n", w->name, shape_list(w), chance(g, 50) ? "normal(0.7)" : "uniform(-1, 1)");
        if (broadcasts(x, w, &both))
            define(g, both, format(chance(g, 50) ? "%s + %s" : "%s * %s", x->name, w->name));
    }
}

static int occurrences(const char *text, const char *name)
{
    int count = 0;
    size_t length = strlen(name);
    for (const char *at = text; (at = strstr(at, name)); at += length)
        count += !isalnum((unsigned char)at[length]) && (at == text || !isalnum((unsigned char)at[-1]));
    return count;
}

/* an output has a value for each sample */
static const char *output_of(Grower *g, const Value *v)
{
    if (v->sample)
        return v->name;
    const char *all = format("flatten(%s)[0] < 99", g->pool[0].name);
    return format(v->kind == FLAGS ? "%s and %s" : "where(%s, %s, 0)", all, v->name);
}

/* what no other value uses, and a few that are used */
static void grow_ends(Grower *g, const char *factor)
{
    for (int i = 0; i < g->count; i++) {
        const Value *v = &g->pool[i];
        bool end = v->name[0] == 'v' && occurrences(text_of(&g->body), v->name) == 1;
        if (!end && !chance(g, 7))
            continue;
        if (g->evaluation) {
            text_add(&g->losses, "    output o%s = %s\n", v->name, output_of(g, v));
            continue;
        }
        const char *as_float = v->kind == FLOAT   ? v->name
                               : v->kind == WHOLE ? format("(f32(%s %% 97) / 31 - 1)", v->name)
                                                  : format("f32(%s)", v->name);
        const char *c = new_name(g, "c");
        text_add(&g->losses, "    state %s: f32%s = uniform(-1, 1)\n    loss l%s = %s%s * %s\n", c, shape_list(v), c, factor,
                 as_float, c);
        if (v->sample && chance(g, 50))
            text_add(&g->losses, "    output o%s = %s\n", c, v->kind == FLOAT ? v->name : as_float);
        if (v->sample && chance(g, 15))
            text_add(&g->losses,
                     chance(g, 70) ? "    metric m%s = mean(%s)\n" : "    metric m%s = total(sum(%s)) / maximum(1, total(2))\n",
                     c, as_float);
    }
    text_add(&g->losses,
             "    output first = %s |> flatten() |> dense(1)\n    loss base = %smse(%s |> flatten() |> dense(1, name = "
             "\"base\"), 0.5)\n",
             g->pool[0].name, factor, g->pool[0].name);
}

const char *grow_graph(Grower *g, uint64_t seed, int statements)
{
    static const char *const PRECISIONS[] = {"f32", "bf16", "f16", "f32"};
    g->graph = true;
    const char *precision = g->evaluation || chance(g, 70) ? "f64" : PRECISIONS[below(g, COUNT(PRECISIONS))];
    g->halves = strcmp(precision, "f64") && chance(g, 60);
    g->accumulate = !g->evaluation && chance(g, 20) ? 2 : 1;
    g->groups = g->accumulate > 1 || chance(g, 10) ? 1 + below(g, 3) : 0;
    grow_leaves(g);
    statements = statements ? statements : 4 + below(g, 16);
    for (int i = 0; i < statements; i++)
        grow_graph_statement(g);
    /* f16: gradients are computed 65,536 times as large; what is too large then is no mistake */
    bool scaled = strcmp(precision, "f16") == 0;
    grow_ends(g, scaled ? "1e-4 * " : "");
    Text t = {0};
    text_add(&t, "# grown from the seed %llu\n%smodel grown {\n%s\n%s\n%s}\n\n", (unsigned long long)seed, text_of(&g->layers),
             text_of(&g->inputs), text_of(&g->body), text_of(&g->losses));
    text_add(
        &t,
        "train {\n    batch = %d\n    steps = 4\n    precision = %s\n    lr = %s\n    optimizer = %s\n    on_nan = \"ignore\"\n",
        g->batch, precision,
        scaled                     ? "200"
        : strcmp(precision, "f64") ? "0.02"
                                   : "0.1",
        chance(g, 80) ? "sgd()" : "adam(eps = 1e-2)");
    if (g->accumulate > 1)
        text_add(&t, "    accumulate = %d\n", g->accumulate);
    text_add(&t, "}\n");
    return copy_text(text_of(&t), t.length);
}
