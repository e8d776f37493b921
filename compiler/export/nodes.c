/* nodes.c: the values of the nodes of the IR, with channels last, as in the model, with channels first, or in both orders. */
#include "compiler/export/lowering.h"

Lowered *lowered(Lowering *l, const Node *n) { return &l->values[n->id]; }

int axis_of(const Node *n, int axis, bool first)
{
    return !first ? axis + n->has_samples : axis == n->shape.rank - 1 ? 1 : axis + 2;
}

bool is_first(Lowering *l, const Node *n) { return lowered(l, n)->first && !lowered(l, n)->last; }

/* Moves channels to the front, or back. */
const Value *reordered(Lowering *l, const Value *x, bool first)
{
    int64_t order[EXPORTED_RANK] = {0};
    for (int i = 1; i < x->rank; i++)
        order[i] = first ? i == 1 ? x->rank - 1 : i - 1 : i == x->rank - 1 ? 1 : i + 1;
    return transpose(l, x, order);
}

const Value *value_of(Lowering *l, const Node *n)
{
    Lowered *v = lowered(l, n);
    if (!v->last && v->raw)
        v->last = cast(l, v->raw, carried(l, n->dtype));
    if (!v->last && v->first)
        v->last = reordered(l, v->first, false);
    if (!v->last)
        die("'%s' of '%s' is read before it is exported", OP_INFO[n->op].name, n->path ? n->path : "");
    return v->last;
}

const Value *whole_value(Lowering *l, const Node *n)
{
    Lowered *v = lowered(l, n);
    const Value *x = value_of(l, n);
    Extents e = extents(n->has_samples, &n->shape), wide = e;
    for (int i = 0; i < e.rank - x->rank; i++)
        wide.extent[i] = 1;
    for (int i = 0; i < x->rank; i++)
        wide.extent[e.rank - x->rank + i] = x->extent[i];
    return v->last = expand(l, reshape(l, x, wide), e);
}

const Value *channels_first(Lowering *l, const Node *n)
{
    Lowered *v = lowered(l, n);
    if (!v->first)
        v->first = reordered(l, whole_value(l, n), true);
    Extents e = extents(true, &n->shape), f = e;
    for (int i = 1; i < e.rank; i++)
        f.extent[i] = e.extent[i == 1 ? e.rank - 1 : i - 1];
    return v->first = expand(l, v->first, f);
}

const Value *index_value(Lowering *l, const Node *n)
{
    const Value *raw = lowered(l, n)->raw;
    if (raw && (raw->dtype == I32 || raw->dtype == I64))
        return raw;
    return whole_value(l, n);
}

void set_lowered(Lowering *l, const Node *n, const Value *v, bool first)
{
    if (first && n->shape.rank > 1)
        lowered(l, n)->first = v;
    else
        lowered(l, n)->last = v;
}
