/* subscript.c: x[...] of lists, strings and tensors; fields; unpacking a value into several names. */
#include "dsl/elaborate.h"
#include "dsl/foreign_names.h"

#include <inttypes.h>
#include <string.h>

typedef struct Range {
    int64_t start, count, step;
} Range;

/* Applies Python's rules for start:end:step to an axis of n elements. */
static Range range_of(const Place *at, const Value *start, const Value *end, const Value *step, int64_t n)
{
    int64_t c = step->kind == VALUE_NONE ? 1 : whole_of(at, step, "a step");
    if (c == 0)
        error_at(at, "the step of a slice must not be 0");
    int64_t a = c > 0 ? 0 : n - 1, b = c > 0 ? n : -1;
    if (start->kind != VALUE_NONE) {
        a = whole_of(at, start, "the start of a slice");
        a = a < 0 ? a + n : a;
        a = c > 0 ? (a < 0 ? 0 : a > n ? n : a) : (a < 0 ? -1 : a >= n ? n - 1 : a);
    }
    if (end->kind != VALUE_NONE) {
        b = whole_of(at, end, "the end of a slice");
        b = b < 0 ? b + n : b;
        b = c > 0 ? (b < 0 ? 0 : b > n ? n : b) : (b < 0 ? -1 : b >= n ? n - 1 : b);
    }
    int64_t span = c > 0 ? b - a : a - b, size = c > 0 ? c : c == INT64_MIN ? INT64_MAX : -c;
    int64_t count = span <= 0 ? 0 : (span - 1) / size + 1;
    return (Range){count ? a : 0, count, count > 1 ? c : 1};
}

static Range range_of_sub(const Sub *s, int64_t n) { return range_of(s->at, s->value, s->end, s->step, n); }

static Value *list_subscript(const Value *of, const Sub *sub, int count)
{
    if (count > 1)
        error_at(sub->at, "a list has one axis; write xs[i][j]");
    if (sub->kind == SUB_DOTS)
        error_at(sub->at, "'...' is for tensors; %s is a list", value_print(of));
    if (sub->kind == SUB_SLICE) {
        Range r = range_of_sub(sub, of->count);
        Value **items = NEW_ARRAY(Value *, r.count);
        for (int64_t k = 0; k < r.count; k++)
            items[k] = of->items[r.start + k * r.step];
        return value_list(items, (int)r.count);
    }
    if (has_tensor(sub->value))
        return NULL; /* the index is a tensor, so the list becomes one */
    int64_t i = whole_of(sub->at, sub->value, "an index");
    if (i < -of->count || i >= of->count)
        error_at(sub->at, "index %" PRId64 " is outside of a list of %d: 0 is its first element, -1 its last", i, of->count);
    return of->items[i < 0 ? i + of->count : i];
}

Value *take(Elaborator *e, const Place *at, Node *x, int axis, int64_t i)
{
    Graph *g = graph_at(e, at);
    int64_t start[MAX_RANK] = {0}, count[MAX_RANK], step[MAX_RANK];
    Shape dropped = {0};
    for (int k = 0; k < x->shape.rank; k++) {
        start[k] = k == axis ? i : 0;
        count[k] = k == axis ? 1 : x->shape.extent[k];
        step[k] = 1;
        if (k != axis)
            dropped.extent[dropped.rank++] = x->shape.extent[k];
    }
    return value_tensor(graph_reshape(g, graph_slice(g, x, start, count, step), dropped));
}

Value *slice_axis(Elaborator *e, const Place *at, Node *x, int axis, const Value *start, const Value *end, const Value *step)
{
    int64_t first[MAX_RANK] = {0}, count[MAX_RANK], by[MAX_RANK];
    for (int k = 0; k < x->shape.rank; k++)
        count[k] = x->shape.extent[k], by[k] = 1;
    Range r = range_of(at, start, end, step, x->shape.extent[axis]);
    if (r.start == 0 && r.step == 1 && r.count == x->shape.extent[axis])
        return value_tensor(x);
    first[axis] = r.start;
    count[axis] = r.count;
    by[axis] = r.step;
    return value_tensor(graph_slice(graph_at(e, at), x, first, count, by));
}

/* The effect of the subscripts on each axis of x: a slice, whether the axis is dropped, and where axes are added. */
typedef struct Plan {
    int64_t start[MAX_RANK], count[MAX_RANK], step[MAX_RANK];
    bool drop[MAX_RANK];
    int added[MAX_RANK + 1]; /* number of new axes of extent 1 before axis k of x */
    Node *index;             /* the one subscript that is a tensor of whole numbers, or NULL */
    int index_axis;          /* the axis of x that `index` selects from */
} Plan;

static int64_t place_of_index(const Place *at, int64_t i, int axis, int64_t n)
{
    if (i < -n || i >= n)
        error_at(at, "index %" PRId64 " is outside of axis %d, which has %" PRId64 " elements: 0 is the first, -1 the last", i,
                 axis, n);
    return i < 0 ? i + n : i;
}

/* Returns a list of indices whose values are known, as places of the axis, which has n elements. */
static Value *known_places(const Place *at, const Value *v, int axis, int64_t n)
{
    if (v->kind != VALUE_LIST)
        return value_whole(place_of_index(at, whole_of(at, v, "an index"), axis, n));
    Value **items = NEW_ARRAY(Value *, v->count);
    for (int k = 0; k < v->count; k++)
        items[k] = known_places(at, v->items[k], axis, n);
    return value_list(items, v->count);
}

static void plan_index(Elaborator *e, const Sub *sub, Node *x, int axis, Plan *plan)
{
    const Place *at = sub->at;
    const Value *v = sub->value;
    int64_t n = x->shape.extent[axis];
    if (v->kind == VALUE_TENSOR || v->kind == VALUE_LIST || v->kind == VALUE_WEIGHTED) {
        Node *i = node_of(e, at, v->kind == VALUE_LIST && !has_tensor(v) ? known_places(at, v, axis, n) : v, "an index");
        if (i->dtype == BOOL)
            error_at(at, "an index must be whole numbers, not true and false; where(mask, x, 0) keeps the shape");
        if (dtype_is_float(i->dtype) && !i->weak)
            error_at(at, "an index must be whole numbers, not %s; i32(...) makes them", dtype_name(i->dtype));
        if (i->weak)
            i = graph_strong(graph_at(e, at), i, I32);
        if (plan->index)
            error_at(at, "at most one subscript can be a tensor; write x[i][:, j]");
        plan->index = i;
        plan->index_axis = axis;
        return;
    }
    plan->start[axis] = place_of_index(at, whole_of(at, v, "an index"), axis, n);
    plan->count[axis] = 1;
    plan->drop[axis] = true;
}

static void plan_subscripts(Elaborator *e, const Subs *subs, Node *x, Plan *plan)
{
    int rank = x->shape.rank, used = 0, dots = 0, axis = 0;
    for (int k = 0; k < subs->count; k++) {
        used += subs->list[k].kind != SUB_DOTS && subs->list[k].kind != SUB_NEW;
        dots += subs->list[k].kind == SUB_DOTS;
    }
    const Place *at = subs->at;
    if (dots > 1)
        error_at(at, "'...' can be used only once in a subscript");
    if (used > rank)
        error_at(at, "%d subscripts for a tensor %s of %d ax%s", used, shape_text(&x->shape), rank, rank == 1 ? "is" : "es");
    for (int k = 0; k < rank; k++)
        plan->count[k] = x->shape.extent[k], plan->step[k] = 1;
    for (const Sub *s = subs->list; s < subs->list + subs->count; s++) {
        if (s->kind == SUB_DOTS) {
            axis += rank - used;
        } else if (s->kind == SUB_NEW) {
            plan->added[axis]++;
        } else if (s->kind == SUB_SLICE) {
            Range r = range_of_sub(s, x->shape.extent[axis]);
            plan->start[axis] = r.start;
            plan->count[axis] = r.count;
            plan->step[axis] = r.step;
            axis++;
        } else {
            plan_index(e, s, x, axis++, plan);
        }
    }
}

static Value *tensor_subscript(Elaborator *e, const Place *at, Node *x, const Subs *subs)
{
    Plan plan = {0};
    plan_subscripts(e, subs, x, &plan);
    Graph *g = graph_at(e, at);
    int rank = x->shape.rank;
    bool sliced = false;
    for (int k = 0; k < rank; k++)
        sliced |= plan.start[k] != 0 || plan.step[k] != 1 || plan.count[k] != x->shape.extent[k];
    Node *y = sliced ? graph_slice(g, x, plan.start, plan.count, plan.step) : x;
    if (plan.index)
        y = graph_node(g, OP_GATHER, (Node *[]){y, plan.index}, 2, (int64_t[]){plan.index_axis}, 1, NULL);
    Shape shape = {0};
    for (int k = 0; k <= rank; k++) {
        for (int n = 0; n < plan.added[k]; n++) {
            if (shape.rank == MAX_RANK)
                error_at(at, "a tensor has at most %d axes; here it would get one more", MAX_RANK);
            shape.extent[shape.rank++] = 1;
        }
        int axes = k == rank || plan.drop[k] ? 0 : plan.index && plan.index_axis == k ? plan.index->shape.rank : 1;
        for (int n = 0; n < axes; n++) {
            if (shape.rank == MAX_RANK)
                error_at(at, "a tensor has at most %d axes; here it would get one more", MAX_RANK);
            shape.extent[shape.rank++] = plan.index && plan.index_axis == k ? plan.index->shape.extent[n] : plan.count[k];
        }
    }
    return value_tensor(shape_equal(&shape, &y->shape) ? y : graph_reshape(graph_at(e, at), y, shape));
}

Value *subscript(Elaborator *e, const Place *at, Value *of, const Subs *subs)
{
    if (of->kind == VALUE_LIST) {
        Value *v = list_subscript(of, subs->list, subs->count);
        if (v)
            return v;
    }
    if (of->kind != VALUE_TENSOR && of->kind != VALUE_LIST)
        error_at(at, "%s has no elements to choose; lists and tensors have", value_describe(of));
    return tensor_subscript(e, at, node_of(e, at, of, "the list"), subs);
}

/* ---- fields */

static const char *const FIELDS[] = {"shape", "rank", "channels", "type", "classes", "ignore", "value", "weight"};

Value *field(Elaborator *e, const Place *at, Value *of, const char *name)
{
    bool number = of->kind == VALUE_NUMBER || of->kind == VALUE_BOOL;
    bool known = false;
    for (int k = 0; k < COUNT(FIELDS); k++)
        known |= strcmp(FIELDS[k], name) == 0;
    const char *near = did_you_mean(name, FIELDS, COUNT(FIELDS)), *here = function_called(name), *type = type_called(name);
    if (!known)
        error_at(at, "%s has no field '%s'%s", value_describe(of), name,
                 find_layer(e, name) ? format("; call it: %s(...), or ... |> %s()", name, name)
                 : here              ? format("; it is called '%s': %s(...), or ... |> %s()", here, here, here)
                 : type              ? format("; a cast is written %s(...)", type)
                 : near[0]           ? near
                                     : "; there are: shape rank channels type classes ignore value weight");
    if (strcmp(name, "value") == 0 && (number || of->kind == VALUE_TENSOR))
        return of;
    if (strcmp(name, "weight") == 0 && (number || of->kind == VALUE_TENSOR)) {
        if (number)
            return value_whole(1);
        return value_tensor(graph_fill(graph_at(e, at), 1, of->node->shape, F32));
    }
    if (of->kind == VALUE_WEIGHTED && strcmp(name, "value") == 0)
        return value_tensor(of->node);
    if (of->kind == VALUE_WEIGHTED && strcmp(name, "weight") == 0)
        return value_tensor(of->weight);
    if (number && strcmp(name, "rank") == 0)
        return value_whole(0);
    if (number && strcmp(name, "type") == 0)
        return value_type(of->kind == VALUE_BOOL ? BOOL : F32);
    if (number && strcmp(name, "shape") == 0)
        return value_list(NULL, 0);
    if (number && (strcmp(name, "classes") == 0 || strcmp(name, "ignore") == 0))
        return value_none();
    if (of->kind == VALUE_LIST && strcmp(name, "classes") != 0 && strcmp(name, "ignore") != 0)
        of = value_tensor(node_of(e, at, of, "the list"));
    if (of->kind != VALUE_TENSOR && of->kind != VALUE_WEIGHTED)
        error_at(at, "%s has no field '%s', which only tensors have", value_describe(of), name);
    const Node *n = of->node;
    if (strcmp(name, "shape") == 0)
        return value_of_shape(&n->shape);
    if (strcmp(name, "rank") == 0)
        return value_whole(n->shape.rank);
    if (strcmp(name, "channels") == 0) {
        if (n->shape.rank == 0)
            error_at(at, "a scalar has no channels: they are the last axis of a tensor");
        return value_whole(n->shape.extent[n->shape.rank - 1]);
    }
    if (strcmp(name, "type") == 0)
        return value_type(n->weak ? F32 : n->dtype);
    if (strcmp(name, "ignore") == 0) {
        int64_t ignore = of->kind == VALUE_TENSOR ? ignored_label(n) : NO_LABEL;
        return ignore != NO_LABEL ? value_whole(ignore) : value_none();
    }
    const Input *input = of->kind == VALUE_TENSOR ? class_input(n) : NULL;
    if (!input && (dtype_is_float(n->dtype) || n->weak))
        error_at(at, "%s has no classes: only an input of type class(n) has; i32(x) makes whole numbers of it",
                 value_describe(of));
    return input ? value_whole(input->classes) : value_none();
}

/* ---- unpacking */

void unpack(Elaborator *e, const Tree *names, Value *v)
{
    int count = tree_count(names), k = 0;
    const Place *at = place_of(e, names);
    if (v->kind == VALUE_RESULTS || v->kind == VALUE_LIST) {
        if (v->kind == VALUE_RESULTS ? count > v->count : count != v->count)
            error_at(at, "%d names for %d values", count, v->count);
        for (const Tree *n = names->first; n; n = n->next)
            set_name(e, n, v->items[k++]);
        return;
    }
    if (v->kind != VALUE_TENSOR)
        error_at(at, "%d names for %s", count, value_describe(v));
    Node *x = node_of(e, at, v, "the right side");
    if (x->shape.rank == 0 || x->shape.extent[0] != count)
        error_at(at, "%d names for a tensor %s: axis 0 must have %d elements", count, shape_text(&x->shape), count);
    for (const Tree *n = names->first; n; n = n->next)
        set_name(e, n, take(e, at, x, 0, k++));
}
