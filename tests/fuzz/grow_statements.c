/* grow_statements.c: statements of random models; see grow.c. Every grow_x adds one, or returns false if nothing in the pool
 * is fit for it. */
#include "tests/fuzz/grow_parts.h"

#include <string.h>

int below(Grower *g, int n) { return (int)random_below(&g->r, (size_t)n); }
bool chance(Grower *g, int percent) { return below(g, 100) < percent; }

/* ---- values */
int64_t elements(const Value *v)
{
    int64_t n = 1;
    for (int i = 0; i < v->rank; i++)
        n *= v->e[i];
    return n;
}

Value *pick(Grower *g)
{
    for (;;) {
        int i = below(g, g->count), k = below(g, g->count);
        Value *v = &g->pool[i > k ? i : k];
        if (v->kind == FLOAT) /* there always is one: an input */
            return v;
    }
}

Value *pick_of(Grower *g, unsigned kinds, int least, int most)
{
    for (int tries = 0; tries < 24; tries++) {
        int i = below(g, g->count), k = below(g, g->count);
        Value *v = &g->pool[i > k ? i : k];
        if ((kinds >> v->kind & 1) && v->rank >= least && v->rank <= most)
            return v;
    }
    return NULL;
}

Value *pick_rank(Grower *g, int least, int most)
{
    for (int tries = 0; tries < 12; tries++) {
        Value *v = pick(g);
        if (v->rank >= least && v->rank <= most)
            return v;
    }
    return NULL;
}

const char *new_name(Grower *g, const char *letter) { return format("%s%d", letter, ++g->names); }

/* a new value; NULL if it would be too large. The caller writes its statement. */
Value *keep(Grower *g, Value v)
{
    if (v.rank > RANK || elements(&v) > MOST_ELEMENTS || g->count == MOST_VALUES)
        return NULL;
    v.name = new_name(g, "v");
    v.once = false;
    g->pool[g->count] = v;
    return &g->pool[g->count++];
}

Value like(const Value *v) { return *v; }

Value of_rank1(int64_t n, bool sample) { return (Value){.rank = 1, .e = {n}, .sample = sample}; }

/* v = EXPRESSION, where the value is `shape` */
bool define(Grower *g, Value shape, const char *expression)
{
    static const char *const NO_COUNTERPART[] = {"progress", "epoch", "shift_", "scatter_", "batch_", "random_normal"};
    for (int i = 0; g->evaluation && i < COUNT(NO_COUNTERPART); i++)
        if (strstr(expression, NO_COUNTERPART[i]))
            return false;
    Value *v = keep(g, shape);
    if (v)
        SAY("    %s = %s\n", v->name, expression);
    return v != NULL;
}

const char *shape_list(const Value *v)
{
    Text t = {0};
    for (int i = 0; i < v->rank; i++)
        text_add(&t, "%s%lld", i ? ", " : "", (long long)v->e[i]);
    return format("[%s]", text_of(&t));
}

/* ---- element-wise */
const char *activation(Grower *g)
{
    static const char *const SMOOTH[] = {"tanh", "sigmoid", "gelu", "silu", "mish", "sin", "cos", "erf"};
    static const char *const ANY[] = {"relu",      "leaky_relu",  "elu", "selu",     "celu",    "relu6",
                                      "hardswish", "hardsigmoid", "abs", "softplus", "softsign"};
    int n = below(g, g->smooth ? COUNT(SMOOTH) : COUNT(SMOOTH) + COUNT(ANY));
    return n < COUNT(SMOOTH) ? SMOOTH[n] : ANY[n - COUNT(SMOOTH)];
}

static bool grow_unary(Grower *g)
{
    const Value *x = pick(g);
    const char *n = x->name;
    switch (below(g, 10)) {
    case 9: return define(g, like(x), format("%s * (0.5 + %s)", n, chance(g, 50) ? "progress" : "epoch / 3"));
    case 0: return define(g, like(x), format("sqrt(%s ** 2 + 0.1)", n));
    case 1: return define(g, like(x), format("exp(-%s ** 2)", n));
    case 2: return define(g, like(x), format("log(1 + %s ** 2)", n));
    case 3: return define(g, like(x), format("tanh(%s ** %d - %s)", n, 1 + below(g, 4), n));
    case 4: return define(g, like(x), format("-%s / %d", n, 1 + below(g, 3)));
    case 5: return define(g, like(x), format("(%s * %d + 0.25) / 3", n, below(g, 3)));
    case 6: return !g->smooth && define(g, like(x), format("where(%s > 0.%d, %s, 0.5 * %s)", n, 1 + below(g, 8), n, n));
    default: return define(g, like(x), format("%s(%s)", activation(g), n));
    }
}

bool broadcasts(const Value *a, const Value *b, Value *out)
{
    out->rank = a->rank > b->rank ? a->rank : b->rank;
    for (int i = 1; i <= out->rank; i++) {
        int64_t x = i <= a->rank ? a->e[a->rank - i] : 1, y = i <= b->rank ? b->e[b->rank - i] : 1;
        if (x != y && x != 1 && y != 1)
            return false;
        out->e[out->rank - i] = x == 1 ? y : x;
    }
    out->sample = a->sample || b->sample;
    return true;
}

static bool grow_binary(Grower *g)
{
    static const char *const FORMS[] = {"%s + %s",         "%s - %s",        "%s * %s", "tanh(%s + 2 * %s)", "%s / (1 + %s ** 2)",
                                        "minimum(%s, %s)", "maximum(%s, %s)"};
    for (int tries = 0; tries < 12; tries++) {
        const Value *a = pick(g), *b = pick(g);
        Value out;
        if (!broadcasts(a, b, &out))
            continue;
        if (!g->smooth && chance(g, 15))
            return define(
                g, out, format("where(%s > 0.%d and not (%s < -0.5), %s, %s)", a->name, below(g, 7), a->name, a->name, b->name));
        const char *form = FORMS[below(g, g->smooth || a == b ? 5 : COUNT(FORMS))];
        Text t = {0};
        for (const char *p = form, *name = a->name; *p; p++) {
            if (p[0] == '%' && p[1] == 's') {
                text_add(&t, "%s", name);
                name = b->name;
                p++;
            } else {
                text_bytes(&t, p, 1);
            }
        }
        return define(g, out, chance(g, 40) ? format("tanh(%s)", text_of(&t)) : text_of(&t));
    }
    return false;
}

/* ---- reductions */
static bool grow_reduction(Grower *g)
{
    const Value *x = pick_rank(g, 1, RANK);
    if (!x)
        return false;
    if (chance(g, 15))
        return define(g, like(x), format("tanh(cumsum(%s, %d))", x->name, below(g, 2 * x->rank) - x->rank));
    bool drop[RANK], all = true, any = false, keeps = chance(g, 30);
    for (int i = 0; i < x->rank; i++) {
        drop[i] = chance(g, 50);
        any = any || drop[i];
        all = all && drop[i];
    }
    if (!any)
        drop[below(g, x->rank)] = true;
    Value y = {.sample = x->sample};
    Text axes = {0};
    int count = 0;
    for (int i = 0; i < x->rank; i++) {
        if (drop[i])
            text_add(&axes, "%s%d", count++ ? ", " : "", chance(g, 30) ? i - x->rank : i);
        if (!drop[i] || keeps)
            y.e[y.rank++] = drop[i] ? 1 : x->e[i];
    }
    const char *list = count == 1 && chance(g, 50) ? text_of(&axes) : format("[%s]", text_of(&axes)),
               *kept = keeps ? ", keep = true" : "";
    int form = below(g, g->smooth ? 5 : 7);
    switch (form) {
    case 0: return define(g, y, format("mean(%s, %s%s)", x->name, list, kept));
    case 1: return define(g, y, format("variance(%s, %s%s)", x->name, list, kept));
    case 2: return define(g, y, format("tanh(sum(%s, %s%s))", x->name, list, kept));
    case 3: return define(g, y, format("logsumexp(%s, %s%s)", x->name, list, kept));
    case 4: return define(g, y, format("sqrt(0.1 + sum(%s ** 2, %s%s))", x->name, list, kept));
    case 5: return define(g, y, format("max(%s, %s%s)", x->name, list, kept));
    default: return define(g, y, format("min(%s, %s%s)", x->name, list, kept));
    }
}

/* ---- views: in graphs (grow_graph.c) of values of any kind */
static Value *pick_viewed(Grower *g, int least, int most) { return pick_of(g, g->graph ? ~0u : 1u << FLOAT, least, most); }

bool grow_slice(Grower *g)
{
    const Value *x = pick_viewed(g, 1, RANK);
    if (!x)
        return false;
    Value y = {.sample = x->sample, .kind = x->kind};
    Text t = {0};
    text_add(&t, "%s[", x->name);
    for (int i = 0; i < x->rank; i++) {
        int n = (int)x->e[i], from = below(g, n), to = from + 1 + below(g, n - from), step = 1 + below(g, 3);
        if (i)
            text_add(&t, ", ");
        if (chance(g, 8) && y.rank + x->rank - i < RANK) {
            text_add(&t, "none, ");
            y.e[y.rank++] = 1;
        }
        switch (below(g, 6)) {
        case 0: text_add(&t, "%d", chance(g, 40) ? from - n : from); continue;
        case 1:
            text_add(&t, "%d:%d", from, to);
            y.e[y.rank++] = to - from;
            continue;
        case 2:
            text_add(&t, "%d:%d:%d", from, to, step);
            y.e[y.rank++] = (to - from + step - 1) / step;
            continue;
        case 3:
            text_add(&t, "::-%d", step);
            y.e[y.rank++] = (n + step - 1) / step;
            continue;
        case 4:
            text_add(&t, "%d:", from - n);
            y.e[y.rank++] = n - from;
            continue;
        default: text_add(&t, ":"); y.e[y.rank++] = n;
        }
    }
    text_add(&t, "]");
    return define(g, y, text_of(&t));
}

bool grow_reshape(Grower *g)
{
    const Value *x = pick_viewed(g, 0, RANK);
    if (!x)
        return false;
    Value y = {.sample = x->sample, .kind = x->kind};
    int64_t left = elements(x);
    while (y.rank < RANK - 1 && left > 1) {
        int64_t d = 2 + below(g, 5);
        if (left % d == 0) {
            y.e[y.rank++] = d;
            left /= d;
        } else if (chance(g, 30)) {
            break;
        }
    }
    if (left > 1 || y.rank == 0 || chance(g, 10))
        y.e[y.rank++] = left;
    if (y.rank > RANK)
        return false;
    Value shown = y;
    if (chance(g, 30))
        shown.e[below(g, y.rank)] = -1;
    return define(g, y,
                  y.rank == 1 && chance(g, 50) ? format("flatten(%s)", x->name)
                                               : format("%s |> reshape(%s)", x->name, shape_list(&shown)));
}

bool grow_transpose(Grower *g)
{
    const Value *x = pick_viewed(g, 2, RANK);
    if (!x)
        return false;
    Value y = like(x), order = like(x);
    for (int i = 0; i < x->rank; i++)
        order.e[i] = i;
    for (int i = x->rank - 1; i > 0; i--) {
        int k = below(g, i + 1);
        int64_t t = order.e[i];
        order.e[i] = order.e[k];
        order.e[k] = t;
    }
    for (int i = 0; i < x->rank; i++)
        y.e[i] = x->e[order.e[i]];
    return define(g, y, format("transpose(%s, %s)", x->name, shape_list(&order)));
}

bool grow_view(Grower *g)
{
    const Value *x = pick_viewed(g, 1, RANK);
    if (!x)
        return false;
    Value y = like(x);
    int axis = below(g, x->rank);
    const char *other = x->kind == FLOAT ? "tanh(-%s)" : x->kind == FLAGS ? "not %s" : "-%s";
    switch (below(g, 7)) {
    case 0: y.e[axis] *= 2; return define(g, y, format("concat([%s, %s], axis = %d)", x->name, format(other, x->name), axis));
    case 1: {
        Text t = {0};
        for (int i = 0; i < x->rank; i++) {
            int before = below(g, 2), after = below(g, 3);
            text_add(&t, "%s[%d, %d]", i ? ", " : "", before, after);
            y.e[i] += before + after;
        }
        return define(g, y, format("pad(%s, [%s], value = %d)", x->name, text_of(&t), below(g, 2)));
    }
    case 2: {
        if (x->rank == RANK)
            return false;
        for (int i = y.rank++; i > 0; i--)
            y.e[i] = y.e[i - 1];
        y.e[0] = 1 + below(g, 3);
        return define(g, y, format("broadcast(%s, %s)", x->name, shape_list(&y)));
    }
    case 3: return define(g, y, format("flip(%s, %d)", x->name, axis));
    case 4: { /* stack */
        if (x->rank == RANK)
            return false;
        for (int i = y.rank++; i > axis; i--)
            y.e[i] = y.e[i - 1];
        y.e[axis] = 2;
        return define(
            g, y, format("stack([%s, %s], axis = %d)", x->name, format(x->kind == FLOAT ? "0.5 * %s" : other, x->name), axis));
    }
    case 5: { /* two halves */
        if (x->e[axis] % 2 || g->count + 2 > MOST_VALUES)
            return false;
        y.e[axis] /= 2;
        const Value *a = keep(g, y), *b = keep(g, y);
        if (!a || !b)
            return false;
        SAY("    %s, %s = split(%s, 2, axis = %d)\n", a->name, b->name, x->name, axis);
        return true;
    }
    default: { /* rows in an order that is computed, some twice, some outside */
        int64_t n = 1 + below(g, 4);
        y.e[0] = n;
        return define(g, y,
                      format("%s[(arange(%lld) * %d + %d) %% %lld]", x->name, (long long)n, 1 + below(g, 3), below(g, 3),
                             (long long)x->e[0] + below(g, 2)));
    }
    }
}

/* ---- products */
bool grow_dense(Grower *g)
{
    const Value *x = pick_rank(g, 1, 3);
    if (!x)
        return false;
    Value y = like(x);
    y.e[y.rank - 1] = 1 + below(g, 7);
    Text t = {0};
    text_add(&t, "%s |> dense(%lld", x->name, (long long)y.e[y.rank - 1]);
    if (chance(g, 30))
        text_add(&t, ", bias = false");
    if (chance(g, 50))
        text_add(&t, ", act = %s", activation(g));
    if (chance(g, 20))
        text_add(&t, ", init = |> normal(0.3)");
    if (chance(g, 20))
        text_add(&t, ", name = \"%s\"", new_name(g, "d"));
    text_add(&t, ")");
    return define(g, y, text_of(&t));
}

/* "td,sd->ts" of two values: axes of one extent may be the same letter; what is left out is summed */
bool grow_einsum(Grower *g)
{
    const Value *a = pick_rank(g, 1, 3), *b = pick_rank(g, 1, 3);
    if (!a || !b)
        return false;
    char left[RANK + 1] = "", right[RANK + 1] = "", out[2 * RANK + 1] = "";
    Value y = {.sample = a->sample || b->sample};
    for (int i = 0; i < a->rank; i++)
        left[i] = (char)('a' + i);
    for (int i = 0; i < b->rank; i++) {
        right[i] = (char)('p' + i);
        for (int k = 0; k < a->rank; k++)
            if (a->e[k] == b->e[i] && !strchr(right, left[k]) && chance(g, 70))
                right[i] = left[k];
    }
    for (int i = 0; i < a->rank + b->rank; i++) {
        char c = i < a->rank ? left[i] : right[i - a->rank];
        if (strchr(out, c) || y.rank == RANK || chance(g, 40))
            continue;
        y.e[y.rank] = i < a->rank ? a->e[i] : b->e[i - a->rank];
        out[y.rank++] = c;
    }
    return define(g, y, format("tanh(einsum(\"%s,%s->%s\", %s, %s))", left, right, out, a->name, b->name));
}

bool grow_matmul(Grower *g)
{
    const Value *x = pick_rank(g, 2, 2);
    if (!x)
        return false;
    if (chance(g, 40)) {
        Value y = like(x);
        y.e[1] = x->e[0];
        return define(g, y, format("tanh(%s @ transpose(%s))", x->name, x->name));
    }
    Value y = like(x);
    y.e[1] = 1 + below(g, 5);
    const char *w = new_name(g, "w");
    if (chance(g, 50))
        SAY("    weight %s: f32[%lld, %lld] = normal(0.4)\n", w, (long long)x->e[1], (long long)y.e[1]);
    else
        SAY("    weight %s: f32[%lld, %lld] = glorot\n", w, (long long)x->e[1], (long long)y.e[1]);
    if (!define(g, y, format("%s @ %s", x->name, w)))
        return false;
    const char *last = g->pool[g->count - 1].name;
    if (chance(g, 40)) /* the same weight again */
        define(g, like(x), format("tanh(%s @ transpose(%s))", last, w));
    return true;
}

/* ---- all of them; grow_layers.c has the others */
static Growth *const GROWTHS[] = {
    grow_unary,       grow_unary,   grow_binary,    grow_binary,    grow_binary,         grow_reduction, grow_slice,
    grow_slice,       grow_reshape, grow_view,      grow_view,      grow_dense,          grow_dense,     grow_einsum,
    grow_matmul,      grow_conv,    grow_conv,      grow_transpose, grow_conv_transpose, grow_pool,      grow_image,
    grow_norm,        grow_norm,    grow_noise,     grow_sequence,  grow_sequence,       grow_lookup,    grow_weight,
    grow_whole,       grow_scatter, grow_state,     grow_cube,      grow_cube,           grow_loop,      grow_shared,
    grow_users_layer, grow_gather,  grow_largest,   grow_bilinear,  grow_scatter_own,    grow_scan,      grow_scan,
    grow_scan,        grow_scan,    grow_recurrent, grow_recurrent, grow_walk,           grow_ctc};

void grow_statement(Grower *g)
{
    if (g->graph) {
        grow_graph_statement(g);
        return;
    }
    for (int tries = 0; tries < 8 && !GROWTHS[below(g, COUNT(GROWTHS))](g); tries++)
        ;
}
