/* grow_rows.c: statements of random models: rows that are looked up, added to, sorted and summed up; see grow.c.
 * Every grow_x adds one statement, or returns false if nothing in the pool is fit for it. */
#include "tests/fuzz/grow_parts.h"

#include <string.h>

/* an index that every sample has of its own: text, and its axes in `index`; NULL: there is none */
static const char *sample_index(Grower *g, int64_t n, Value *index)
{
    int64_t room = n + below(g, 2); /* some outside */
    *index = (Value){.sample = true};
    if (g->tokens && (chance(g, 60) || !g->classes)) {
        index->rank = 1;
        index->e[0] = g->tokens;
        return format("i32(token) * %d %% %lld", 1 + below(g, 3), (long long)room);
    }
    if (!g->classes)
        return NULL;
    if (chance(g, 50))
        return format("i32(label) %% %lld", (long long)room);
    index->rank = 1;
    index->e[0] = 1 + below(g, 3);
    return format("(i32(label) + arange(%lld) * %d) %% %lld", (long long)index->e[0], below(g, 3), (long long)room);
}

/* rows of x, of the sample's own choice: along the first axis, or the last */
bool grow_gather(Grower *g)
{
    const Value *x = pick_rank(g, 1, 3);
    Value index, y = {.sample = true};
    if (!x)
        return false;
    bool last = x->rank > 1 && chance(g, 40);
    const char *i = sample_index(g, x->e[last ? x->rank - 1 : 0], &index);
    if (!i || x->rank - 1 + index.rank > RANK)
        return false;
    for (int k = 0; k < x->rank; k++) {
        if (k == (last ? x->rank - 1 : 0)) {
            memcpy(y.e + y.rank, index.e, (size_t)index.rank * sizeof *y.e);
            y.rank += index.rank;
        } else {
            y.e[y.rank++] = x->e[k];
        }
    }
    return define(g, y, format(last ? "%s[..., %s]" : "%s[%s]", x->name, i));
}

/* rows of one value added to rows of another, some to the same one, some to none */
bool grow_scatter(Grower *g)
{
    const Value *x = pick_rank(g, 1, 3), *v = pick_rank(g, 1, 3);
    if (!x || !v || x->rank != v->rank)
        return false;
    for (int i = 1; i < x->rank; i++)
        if (x->e[i] != v->e[i])
            return false;
    Value y = like(x);
    y.sample = x->sample || v->sample;
    return define(g, y,
                  format("scatter_add(%s, (arange(%lld) * %d) %% %lld, %s)", x->name, (long long)v->e[0], 1 + below(g, 3),
                         (long long)x->e[0] + below(g, 2), v->name));
}

/* the same by an index that every sample has of its own; of numbers, or of rows */
bool grow_scatter_own(Grower *g)
{
    const Value *x = pick_rank(g, 1, 3), *v = pick_rank(g, 1, 3);
    Value index;
    const char *i = x ? sample_index(g, x->e[0], &index) : NULL;
    if (!i || !v)
        return false;
    Value y = like(x);
    y.sample = true;
    bool rows = v->rank == index.rank + x->rank - 1;
    for (int k = 0; k < v->rank && rows; k++)
        rows = v->e[k] == (k < index.rank ? index.e[k] : x->e[k - index.rank + 1]);
    return define(g, y, format("scatter_add(%s, %s, %s)", x->name, i, rows ? v->name : format("mean(%s)", v->name)));
}

/* the largest of computed values, which a slope keeps apart, and where they are */
bool grow_largest(Grower *g)
{
    const Value *x = pick_rank(g, 1, 1);
    if (!x || g->smooth)
        return false;
    int64_t n = x->e[0], k = 1 + below(g, (int)n);
    Value y = of_rank1(k, x->sample);
    const char *name = x->name;
    const Value *v = keep(g, y), *at = v ? keep(g, y) : NULL;
    if (!at)
        return false;
    SAY("    %s, %s = top_k(tanh(%s) + 0.37 * arange(%lld), %lld)\n    %s = %s[%s]\n", v->name, at->name, name, (long long)n,
        (long long)k, at->name, name, at->name);
    return true;
}

/* a product of three */
bool grow_bilinear(Grower *g)
{
    const Value *a = pick_rank(g, 1, 2), *b = pick_rank(g, 1, 2);
    if (!a || !b)
        return false;
    int64_t width = 1 + below(g, 3), n = a->e[a->rank - 1], m = b->e[b->rank - 1];
    const char *w = new_name(g, "w"), *left = a->rank == 2 ? "ti" : "i", *right = b->rank == 2 ? "sj" : "j";
    Value y = {.sample = a->sample || b->sample};
    if (a->rank == 2)
        y.e[y.rank++] = a->e[0];
    if (b->rank == 2)
        y.e[y.rank++] = b->e[0];
    y.e[y.rank++] = width;
    SAY("    weight %s: f32[%lld, %lld, %lld] = normal(0.4)\n", w, (long long)width, (long long)n, (long long)m);
    return define(g, y,
                  format("tanh(einsum(\"%s,oij,%s->%s%so\", %s, %s, %s))", left, right, a->rank == 2 ? "t" : "",
                         b->rank == 2 ? "s" : "", a->name, w, b->name));
}
