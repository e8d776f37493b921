/* grow_scans.c: loops at run time in random models: scans whose bodies are grown like the rest, and recurrent layers; see
 * grow.c. Every grow_x adds one statement, or returns false if nothing in the pool is fit for it.
 *
 * In a body the pool has, beside what was there before (captured), the slices and what is carried. What the body adds to it
 * is stacked afterwards; slices and carries have their last values. Only what is before the carries in the pool is
 * sure not to depend on one (`free_values`): sums over samples of the rest are refused, rightly, if a carry depends on them. */
#include "tests/fuzz/grow_parts.h"

#include <string.h>

enum { DEEPEST = 2, MOST_CARRIES = 3, MOST_STEPS = 9 };

typedef enum CarryKind { TENSOR, NUMBER, PAIR, COUNTER, FLAG } CarryKind;
typedef struct Carry {
    CarryKind kind;
    Value v; /* of a pair: both are like it */
    int at;  /* in the pool; -1: it is not there */
} Carry;

/* ---- what is carried */
static Carry new_carry(Grower *g, const Value *slice)
{
    Carry c = {.kind = TENSOR, .v = {.rank = 1, .e = {1 + below(g, 4)}}, .at = -1};
    c.v.name = new_name(g, "c");
    const Value *x = pick_rank(g, 0, 2);
    if (chance(g, 40)) {
        c.v.rank = slice->rank;
        memcpy(c.v.e, slice->e, sizeof c.v.e);
    }
    switch (below(g, 10)) {
    case 0:
        c.kind = NUMBER;
        c.v.rank = 0;
        SAY("    %s = %s\n", c.v.name, chance(g, 50) ? "0" : "0.5");
        break;
    case 1:
        c.kind = COUNTER;
        c.v.rank = 0;
        SAY("    %s = %d\n", c.v.name, below(g, 3));
        break;
    case 2:
        c.kind = FLAG;
        c.v.rank = 0;
        SAY("    %s = %s\n", c.v.name, chance(g, 50) ? "false" : "true");
        break;
    case 3:
        c.kind = PAIR;
        SAY("    %s = [zeros(%s), ones(%s)]\n", c.v.name, shape_list(&c.v), shape_list(&c.v));
        break;
    case 4: { /* a weight */
        const char *w = new_name(g, "w");
        SAY("    weight %s: f32%s = normal(0.4)\n    %s = %s\n", w, shape_list(&c.v), c.v.name, w);
        break;
    }
    case 5:
    case 6:
        if (x) {
            const char *name = c.v.name;
            c.v = *x;
            c.v.name = name;
            c.v.once = false;
            SAY("    %s = tanh(%s)\n", name, x->name);
            break;
        }
        /* fall through */
    default: SAY("    %s = zeros(%s)\n", c.v.name, shape_list(&c.v));
    }
    return c;
}

/* something of the body as a tensor of the carry's shape, or a scalar */
static const char *fitting(Grower *g, const Value *c, bool *sample)
{
    for (int tries = 0; tries < 12; tries++) {
        const Value *v = pick(g);
        Value both;
        *sample = v->sample;
        if (broadcasts(c, v, &both) && both.rank == c->rank && memcmp(both.e, c->e, (size_t)c->rank * sizeof *c->e) == 0)
            return v->name;
        if (v->rank == c->rank + 1 && memcmp(v->e + 1, c->e, (size_t)c->rank * sizeof *c->e) == 0 && chance(g, 50))
            return format("%s[%d]", v->name, below(g, (int)v->e[0]));
        if (tries > 6)
            return format("mean(%s)", v->name);
    }
    return "0.3";
}

static const char *next_tensor(Grower *g, const char *name, const Value *c, const char *weight, bool *sample)
{
    const char *v = fitting(g, c, sample);
    switch (below(g, g->smooth ? 7 : 10)) {
    case 0: return format("0.5 * %s + %s", name, v);
    case 1:
        return c->rank == 1 ? format("tanh(%s + %s |> dense(%lld, bias = false))", v, name, (long long)c->e[0])
                            : format("tanh(%s - %s)", v, name);
    case 2:
    case 3: return weight ? format("tanh(%s + %s @ %s)", v, name, weight) : format("sin(%s + 0.7 * %s)", v, name);
    case 4: return format("sigmoid(%s) * %s + (1 - sigmoid(%s)) * tanh(%s + 0.1)", v, name, v, name);
    case 5: return c->rank ? format("tanh(softmax(%s) + %s)", name, v) : format("%s * cos(%s)", name, v);
    case 6:
        return c->rank ? format("(%s + %s) |> layernorm(eps = 1e-2, bias = false)", name, v) : format("tanh(%s + %s)", name, v);
    case 7: return format("maximum(%s - 0.1, %s)", name, v);
    case 8: return format("where(%s > 0.2%d, tanh(%s), %s)", v, below(g, 10), v, name);
    default: return format("relu(0.9 * %s + %s)", name, v);
    }
}

static void move_carry(Grower *g, Carry *c, const char *slice)
{
    const char *n = c->v.name, *s = chance(g, 60) ? slice : pick(g)->name;
    bool sample = false, other = false;
    switch (c->kind) {
    case TENSOR:
    case NUMBER: {
        const char *w = NULL;
        if (c->v.rank == 1 && chance(g, 70)) {
            w = new_name(g, "w");
            SAY("    weight %s: f32[%lld, %lld] = %s\n", w, (long long)c->v.e[0], (long long)c->v.e[0],
                chance(g, 50) ? "normal(0.5)" : "glorot");
        }
        const char *next = next_tensor(g, n, &c->v, w, &sample);
        if (c->v.rank == 0) /* what began as a number becomes a float */
            next = format("f32(%s)", next);
        SAY("    %s = %s\n", n, next);
        break;
    }
    case PAIR: {
        const char *a = fitting(g, &c->v, &sample), *b = fitting(g, &c->v, &other);
        SAY("    %s = [tanh(%s[1] + %s), %s[0] * 0.7 - 0.2 * %s]\n", n, n, a, n, b);
        break;
    }
    case COUNTER: SAY(chance(g, 50) ? "    %s = %s + %d\n" : "    %s = (3 * %s + %d) %% 7\n", n, n, 1 + below(g, 2)); break;
    case FLAG: SAY(chance(g, 50) ? "    %s = %s or mean(%s) > 0.21\n" : "    %s = not %s and mean(%s) > -0.37\n", n, n, s); break;
    }
    if (c->at >= 0)
        g->pool[c->at].sample = g->pool[c->at].sample || sample;
}

/* ---- the body */

static void see_carry(Grower *g, Carry *c)
{
    if (c->kind == PAIR || g->count == MOST_VALUES)
        return;
    c->at = g->count;
    if (c->kind == COUNTER || c->kind == FLAG) { /* as a float */
        Value v = {.name = new_name(g, "v")};
        SAY("    %s = f32(%s) / 4\n", v.name, c->v.name);
        g->pool[g->count++] = v;
        c->at = -1;
        return;
    }
    g->pool[g->count++] = c->v;
}

static void say_result(Grower *g) /* of every step */
{
    const Value *x = pick(g);
    const char *name = new_name(g, "l");
    switch (below(g, 4)) {
    case 0: SAY("    loss %s = mse(tanh(%s), 0.2)\n", name, x->name); break;
    case 1: SAY("    loss %s = weighted(%s ** 2, 0.3 + mean(%s) ** 2)\n", name, x->name, g->pool[0].name); break;
    case 2: SAY("    metric %s = mean(%s)\n", name, x->name); break;
    default:
        if (x->sample)
            SAY("    output %s = %s\n", name, x->name);
    }
}

/* the pool after the body: what was there before it stays; `stacked`: from here on values are stacked */
static void leave_body(Grower *g, int first, const int *last, int last_count, int64_t steps)
{
    int kept = first;
    for (int i = first; i < g->count; i++) {
        Value v = g->pool[i];
        bool once = v.once;
        for (int k = 0; k < last_count; k++)
            once = once || last[k] == i;
        if (!once) {
            if (v.rank == RANK || elements(&v) * steps > MOST_ELEMENTS)
                continue;
            memmove(v.e + 1, v.e, (size_t)v.rank * sizeof *v.e);
            v.e[0] = steps;
            v.rank++;
        }
        g->pool[kept++] = v;
    }
    g->count = kept;
}

static const Value *another_sequence(Grower *g, const Value *x)
{
    for (int tries = 0; tries < 12; tries++) {
        const Value *y = pick(g);
        if (y->rank >= 1 && y->e[0] == x->e[0] && y != x)
            return y;
    }
    return NULL;
}

static Value slice_of(Grower *g, const Value *x, const char *letter)
{
    Value v = *x;
    v.rank--;
    memmove(v.e, v.e + 1, (size_t)v.rank * sizeof *v.e);
    v.name = new_name(g, letter);
    v.once = false;
    return v;
}

bool grow_scan(Grower *g)
{
    const Value *x = pick_rank(g, 1, RANK), *y;
    if (!x || g->scans == DEEPEST || x->e[0] > (g->scans ? 4 : MOST_STEPS) || g->count + 16 > MOST_VALUES)
        return false;
    int64_t steps = x->e[0];
    int first = g->count, free_before = g->free_values, carries = below(g, MOST_CARRIES + 1), last[2 + MOST_CARRIES], lasts = 0;
    Value slice = slice_of(g, x, "s"), second = {0};
    Carry carry[MOST_CARRIES];
    for (int i = 0; i < carries; i++)
        carry[i] = new_carry(g, &slice);
    y = chance(g, 30) ? another_sequence(g, x) : NULL;
    Text names = {0}, over = {0};
    text_add(&names, "%s", slice.name);
    text_add(&over, chance(g, 25) ? "reverse(%s)" : "%s", x->name);
    if (y) {
        second = slice_of(g, y, "s");
        text_add(&names, ", %s", second.name);
        text_add(&over, chance(g, 25) ? ", flip(%s, 0)" : ", %s", y->name);
    }
    const char *number = chance(g, 20) ? new_name(g, "k") : NULL;
    if (number) {
        text_add(&names, ", %s", number);
        text_add(&over, ", arange(%lld)", (long long)steps);
    }
    SAY("    scan %s in %s {\n", text_of(&names), text_of(&over));
    g->scans++;
    last[lasts++] = g->count;
    g->pool[g->count++] = slice;
    if (y) {
        last[lasts++] = g->count;
        g->pool[g->count++] = second;
    }
    if (number)
        define(g, (Value){.rank = 0}, format("f32(%s) / %lld", number, (long long)steps));
    for (int i = below(g, 3); i > 0; i--) {
        g->free_values = g->scans == 1 ? g->count : free_before;
        grow_statement(g);
    }
    g->free_values = g->scans == 1 ? g->count : free_before;
    for (int i = 0; i < carries; i++)
        see_carry(g, &carry[i]);
    for (int i = 0; i < carries; i++)
        if (carry[i].at >= 0)
            last[lasts++] = carry[i].at;
    for (int i = below(g, 4); i > 0; i--)
        grow_statement(g);
    for (int i = 0; i < carries; i++) {
        if (carry[i].kind == TENSOR && chance(g, 10))
            continue; /* never assigned: captured after all */
        move_carry(g, &carry[i], slice.name);
        if (chance(g, 30))
            grow_statement(g);
    }
    if (g->count < MOST_VALUES && chance(g, 70)) { /* a state of every step */
        const Value *h = &g->pool[g->count - 1];
        define(g, like(h), format(h->kind == FLAGS ? "true and %s" : "1 * %s", h->name));
    }
    if (chance(g, 25))
        say_result(g);
    if (chance(g, 10))
        SAY("    %s = 2 * %s\n", slice.name, slice.name);
    SAY("    }\n");
    g->scans--;
    leave_body(g, first, last, lasts, steps);
    g->free_values = free_before;
    for (int i = 0; i < carries; i++)
        if (carry[i].kind == PAIR && g->count + 2 < MOST_VALUES)
            define(g, carry[i].v, format("%s[0] - 0.5 * %s[1]", carry[i].v.name, carry[i].v.name));
    return true;
}

/* steps that choose by what they carry, before a matmul, among values that depend on a weight */
bool grow_choice(Grower *g)
{
    static const char *const FORMS[] = {"exp(-%s * %s)", "%s * %s", "sqrt((%s * %s) ** 2 + 0.1)", "sin(%s * %s)"};
    static const char *const OTHERS[] = {"0", "0", "0.5 * %s", "-%s"};
    const Value *x = pick_rank(g, 2, 2);
    if (!x || x->e[0] > MOST_STEPS || g->count + 4 > MOST_VALUES)
        return false;
    const char *w = new_name(g, "w"), *u = new_name(g, "w"), *h = new_name(g, "c"), *s = new_name(g, "s");
    const char *values = format(FORMS[below(g, COUNT(FORMS))], x->name, w), *other = format(OTHERS[below(g, COUNT(OTHERS))], s);
    long long k = x->e[1], width = k + below(g, 3);
    bool sample = x->sample;
    SAY("    weight %s: f32[%lld] = normal(0.5)\n    weight %s: f32[%lld, %lld] = normal(0.7)\n", w, k, u, width, k);
    SAY("    %s = 0.3 * ones([%lld])\n    scan %s in %s {\n", h, width, s, values);
    SAY("        %s = tanh(0.5 * %s + %s @ where(%s[:%lld] > 0.1, %s, %s) + 0.1)\n    }\n", h, h, u, h, k, s, other);
    return define(g, of_rank1(width, sample), format("1 * %s", h));
}

/* ---- layers with loops */

static const char *recurrent_cell(Grower *g, int64_t width)
{
    switch (below(g, 4)) {
    case 0: return format("rnn(%lld)", (long long)width);
    case 1: return format("rnn(%lld, act = %s)", (long long)width, chance(g, 50) ? "sin" : "|> sigmoid()");
    case 2: return format("lstm(%lld%s)", (long long)width, chance(g, 20) ? ", init = |> normal(0.3)" : "");
    default: return format("gru(%lld)", (long long)width);
    }
}

bool grow_recurrent(Grower *g)
{
    const Value *x = pick_rank(g, 2, 2);
    if (!x || x->e[0] > MOST_STEPS || (g->scans && x->e[0] > 4) || g->count + 4 > MOST_VALUES)
        return false;
    int64_t width = 1 + below(g, 4);
    Value y = like(x);
    y.e[1] = width;
    y.once = false;
    switch (below(g, 6)) {
    case 0: { /* all that it returns */
        bool lstm = chance(g, 60);
        const char *name = x->name;
        const Value *seen = keep(g, y), *h = seen ? keep(g, of_rank1(width, x->sample)) : NULL,
                    *cell = h && lstm ? keep(g, of_rank1(width, x->sample)) : NULL;
        if (!seen || !h)
            return false;
        if (cell)
            SAY("    %s, %s, %s = %s |> lstm(%lld)\n", seen->name, h->name, cell->name, name, (long long)width);
        else
            SAY("    %s, %s = %s |> %s\n", seen->name, h->name, name, recurrent_cell(g, width));
        return true;
    }
    case 1: y.e[1] = 2 * width; return define(g, y, format("%s |> bidirectional(|> %s)", x->name, recurrent_cell(g, width)));
    case 2: return define(g, y, format("reverse(reverse(%s) |> %s)", x->name, recurrent_cell(g, width)));
    case 3:
        return define(
            g, y,
            format("%s |> %s |> dropout(0.2) |> %s", x->name, recurrent_cell(g, 1 + below(g, 3)), recurrent_cell(g, width)));
    default: return define(g, y, format("%s |> %s", x->name, recurrent_cell(g, width)));
    }
}

/* a layer of the user that loops, called in several ways */
bool grow_walk(Grower *g)
{
    const Value *x = pick_rank(g, 2, 2);
    if (!x || x->e[0] > MOST_STEPS || g->scans || g->count + 4 > MOST_VALUES)
        return false;
    if (!g->has_walk)
        text_add(
            &g->layers,
            "layer walk(x: [t, c], width, act = tanh, rate = 0, again = 1) {\n    weight across: f32[width, width] = "
            "glorot\n    weight first: f32[width] = normal(0.3)\n    state seen: f32[width] = 0.1\n    z = x |> dense(width)\n"
            "    h = first\n    for i in range(again) {\n        scan a in z {\n            h = act(a + h @ across + seen) "
            "|> dropout(rate)\n            y = h\n        }\n        z = y\n    }\n    if training { update seen = 0.9 * seen + "
            "0.1 * batch_sum(h) / batch_sum(1) }\n    return y, h\n}\n\n");
    g->has_walk = true;
    Value y = like(x);
    y.once = false;
    y.e[1] = 1 + below(g, 4);
    const char *call = format("walk(%lld, act = %s%s%s)", (long long)y.e[1], activation(g), chance(g, 30) ? ", rate = 0.2" : "",
                              chance(g, 30) ? ", again = 2" : "");
    int form = below(g, 4);
    /* the second call reads what the first has set, a sum over the whole batch, which is not known in micro-batches */
    switch (form == 1 && g->accumulate > 1 ? 3 : form) {
    case 0: {
        const char *name = x->name;
        const Value *seen = keep(g, y), *h = seen ? keep(g, of_rank1(y.e[1], x->sample)) : NULL;
        if (!h)
            return false;
        SAY("    %s, %s = %s |> %s\n", seen->name, h->name, name, call);
        return true;
    }
    case 1: {
        const char *f = new_name(g, "layer");
        SAY("    %s = shared(|> %s)\n", f, call);
        return define(g, y, format("%s(%s) - %s(0.5 * %s)", f, x->name, f, x->name));
    }
    case 2: y.e[1] *= 2; return define(g, y, format("%s |> bidirectional(|> %s)", x->name, call));
    default: return define(g, y, format("%s |> %s", x->name, call));
    }
}

/* connectionist temporal classification: a loop over the frames, of whole numbers that are computed */
bool grow_ctc(Grower *g)
{
    const Value *x = pick_rank(g, 2, 2);
    if (!x || x->e[0] > MOST_STEPS || g->scans)
        return false;
    int n = 1 + below(g, 3), classes = 2 + below(g, 3);
    const char *label = g->classes ? format("1 + (i32(label) + arange(%d)) %% %d", n, classes - 1)
                                   : format("1 + arange(%d) %% %d", n, classes - 1);
    const char *length = g->classes && n > 1 ? format("1 + i32(label) %% %d", n) : format("%d", n);
    if (x->e[0] < 2 * n)
        return false;
    const char *name = new_name(g, "l");
    text_add(&g->losses, "    loss %s = 0.1 * ctc(%s |> dense(%d), %s, %s, %lld)\n", name, x->name, classes, label, length,
             (long long)x->e[0] - (x->e[0] > 2 * n && chance(g, 50)));
    return true;
}
