/* channels.c: turns convolutions of few channels into ones of more, because a target copies several channels at a time.
 *
 * In: a graph. Out: the same graph, in which convolutions that the target computes faster so (convolution_cost in
 * kernel/target.h) have f positions of the last axis as one, each with c' channels:
 *
 *   x  [..., X, c]      ->  [..., X' / f, f c']        zeros after the channels, and after the last position
 *   w  [o, c, ..., k]   ->  [o, f c', ..., k' / f]     likewise; zeros before the first tap: windows begin at multiples of f
 *   y                       unchanged: the stride of its windows is a multiple of f
 *
 * This adds only products of zeros to a sum, and w's gradient is a slice of the new one's. For all other readers (variables and
 * results, too) x and w stay as they are: the padded copies are values of this phase. */
#include "compiler/ir/rebuild.h"
#include "compiler/kernel/fuse/fuse.h"

typedef struct Folding {
    int64_t places, channels;
} Folding; /* f, c' */

typedef struct ConvolutionAttributes { /* the attributes of a CONVOLVE or CONVOLVE_WEIGHT */
    bool weight;
    int dims, last; /* index of the last axis of positions */
    const Shape *x, *w, *y;
    const int64_t *stride, *low, *dilation, *input_dilation;
    int64_t groups;
} ConvolutionAttributes;

static ConvolutionAttributes view_of(const Node *n)
{
    ConvolutionAttributes v = {
        .weight = n->op == OP_CONVOLVE_WEIGHT, .dims = (int)n->ints[0], .last = (int)n->ints[0] - 1, .x = &n->in[0]->shape};
    v.w = v.weight ? &n->shape : &n->in[1]->shape;
    v.y = v.weight ? &n->in[1]->shape : &n->shape;
    v.stride = n->ints + 1;
    v.low = v.stride + v.dims;
    v.dilation = v.low + 2 * v.dims;
    v.input_dilation = v.dilation + v.dims;
    v.groups = v.input_dilation[v.dims];
    return v;
}

static int64_t round_up(int64_t a, int64_t b) { return (a + b - 1) / b * b; }

/* zeros before the first tap; then taps and positions of the padded convolution, in groups of f */
static int64_t taps_before(const ConvolutionAttributes *v, int64_t f) { return (f - v->low[v->last] % f) % f; }
static int64_t taps_of(const ConvolutionAttributes *v, int64_t f)
{
    return (v->w->extent[2 + v->last] + taps_before(v, f) + f - 1) / f;
}
static int64_t places_of(const ConvolutionAttributes *v, int64_t f) { return (v->x->extent[v->last] + f - 1) / f; }
static int64_t low_of(const ConvolutionAttributes *v, int64_t f) { return (v->low[v->last] + taps_before(v, f)) / f; }
static int64_t high_of(const ConvolutionAttributes *v, int64_t f)
{
    int64_t least = (v->y->extent[v->last] - 1) * (v->stride[v->last] / f) + taps_of(v, f) - low_of(v, f) - places_of(v, f);
    return least > 0 ? least : 0;
}

static bool may_fold(const ConvolutionAttributes *v, int64_t f)
{
    int last = v->last;
    if (f > 1 && (v->stride[last] % f || v->dilation[last] != 1 || v->input_dilation[last] != 1))
        return false;
    return f == 1 ||
           (low_of(v, f) + places_of(v, f) + high_of(v, f) - taps_of(v, f)) / (v->stride[last] / f) + 1 == v->y->extent[last];
}

/* ---- the cheapest folding */

static double count_of(const Shape *s, int from, int to)
{
    double count = 1;
    for (int i = from; i < to; i++)
        count *= (double)s->extent[i];
    return count;
}

/* stored: x is in memory without padding, too */
static double cost_of(const Program *p, const Node *n, const ConvolutionAttributes *v, Folding to, bool stored)
{
    double samples = (double)model_samples(n->graph->model),
           places = count_of(v->x, 0, v->last) * (double)places_of(v, to.places);
    int64_t own = v->x->extent[v->dims], channels = to.places * to.channels;
    bool padded = to.channels != own || v->x->extent[v->last] % to.places;
    double x = samples * places * (double)channels, before = samples * count_of(v->x, 0, v->dims + 1);
    ConvolutionSizes s = {.type = n->in[0]->dtype,
                          .tf32 = n->graph->model->tf32,
                          .channels = channels,
                          .rows = samples * count_of(v->y, 0, v->dims),
                          .columns = (double)v->w->extent[0],
                          .depth = count_of(v->w, 2, 1 + v->dims) * (double)(taps_of(v, to.places) * channels)};
    s.elements = x + s.rows * s.columns;
    s.moved = !padded ? 0 : stored ? x + before : x - before;
    s.kernels = (padded || to.places > 1) + (padded && stored); /* that copy the weight, and x */
    return p->target->convolution_cost(&s);
}

static Folding cheapest(const Program *p, const Node *n, bool stored)
{
    ConvolutionAttributes v = view_of(n);
    int64_t own = v.x->extent[v.dims], many = VECTOR_BYTES / dtype_bytes(n->in[0]->dtype);
    Folding best = {1, own}, to;
    if (v.dims < 1 || v.groups != 1 || own % many == 0 || own == 0)
        return best;
    double least = cost_of(p, n, &v, best, stored);
    for (to.places = 1; to.places <= v.stride[v.last] && to.places <= VECTOR_BYTES; to.places++)
        for (int64_t some = 1; some <= many && may_fold(&v, to.places); some *= 2) {
            to.channels = round_up(own, some);
            double cost = cost_of(p, n, &v, to, stored);
            best = cost < least ? to : best;
            least = cost < least ? cost : least;
        }
    return best;
}

/* ---- the new nodes */

/* Transposes a weight: its first two axes are moved to the end and swapped, or (back) the inverse. */
static Node *ordered(Graph *g, Node *n, bool back)
{
    int order[MAX_RANK], rank = n->shape.rank;
    for (int i = 0; i < rank; i++)
        order[i] = back ? (i < 2 ? rank - 1 - i : i - 2) : i < rank - 2 ? i + 2 : rank - 1 - i;
    return graph_transpose(g, n, order);
}

static Node *folded_x(Graph *g, const Node *x, const ConvolutionAttributes *v, Folding to)
{
    int64_t low[MAX_RANK] = {0}, high[MAX_RANK] = {0};
    high[v->last] = places_of(v, to.places) * to.places - v->x->extent[v->last];
    high[v->dims] = to.channels - v->x->extent[v->dims];
    Shape shape = *v->x;
    shape.extent[v->last] = places_of(v, to.places);
    shape.extent[v->dims] = to.places * to.channels;
    return graph_reshape(g, graph_pad(g, x->mapped, low, high, 0), shape);
}

/* Returns the weight's shape with so many taps along the last axis, in storage order [..., k, c, o]. */
static Shape stored_shape(const ConvolutionAttributes *v, int64_t taps, int64_t channels)
{
    Shape s = {.rank = v->dims + 2};
    for (int i = 0; i < v->dims; i++)
        s.extent[i] = i < v->last ? v->w->extent[2 + i] : taps;
    s.extent[v->dims] = channels;
    s.extent[v->dims + 1] = v->w->extent[0];
    return s;
}

static Node *folded_weight(Graph *g, const Node *w, const ConvolutionAttributes *v, Folding to)
{
    int64_t low[MAX_RANK] = {0}, high[MAX_RANK] = {0}, taps = taps_of(v, to.places);
    low[2 + v->last] = taps_before(v, to.places);
    high[1] = to.channels - v->w->extent[1];
    high[2 + v->last] = taps * to.places - low[2 + v->last] - v->w->extent[2 + v->last];
    Node *rows = ordered(g, graph_pad(g, w->mapped, low, high, 0), false);
    return ordered(g, graph_reshape(g, rows, stored_shape(v, taps, to.places * to.channels)), true);
}

static Node *unfolded_weight(Graph *g, Node *whole, const ConvolutionAttributes *v, Folding to)
{
    int64_t first[MAX_RANK] = {0}, step[MAX_RANK], taps = taps_of(v, to.places);
    for (int i = 0; i < MAX_RANK; i++)
        step[i] = 1;
    first[v->last] = taps_before(v, to.places);
    const Shape own = stored_shape(v, v->w->extent[2 + v->last], v->w->extent[1]);
    Node *rows = graph_reshape(g, ordered(g, whole, false), stored_shape(v, taps * to.places, to.channels));
    return ordered(g, graph_slice(g, rows, first, own.extent, step), true);
}

static Node *folded(Graph *g, const Node *n, Folding to)
{
    ConvolutionAttributes v = view_of(n);
    int64_t f = to.places, *ints = memcpy(NEW_ARRAY(int64_t, n->int_count), n->ints, sizeof *ints * (size_t)n->int_count);
    Node *in[] = {folded_x(g, n->in[0], &v, to), v.weight ? n->in[1]->mapped : folded_weight(g, n->in[1], &v, to)};
    ints[1 + v.last] = v.stride[v.last] / f;
    ints[1 + v.dims + v.last] = low_of(&v, f);
    ints[1 + 2 * v.dims + v.last] = f > 1 ? high_of(&v, f) : n->ints[1 + 2 * v.dims + v.last];
    if (v.weight)
        ints[2 + 5 * v.dims + v.last] = taps_of(&v, f);
    Node changed = *n;
    changed.ints = ints;
    Node *whole = graph_rebuild(g, &changed, in);
    return v.weight ? unfolded_weight(g, whole, &v, to) : whole;
}

/* by node: in memory anyway, or read other than as a convolution's x */
static bool *find_stored(const Graph *g)
{
    bool *stored = NEW_ARRAY(bool, g->node_count);
    for (int i = 0; i < g->node_count; i++) {
        const Node *n = g->nodes[i];
        bool convolves = n->op == OP_CONVOLVE || n->op == OP_CONVOLVE_WEIGHT;
        stored[i] = OP_INFO[n->op].op_class == LEAF || fuse_contracts(n);
        for (int k = convolves; k < n->inputs; k++)
            stored[n->in[k]->id] = true;
    }
    for (int i = 0; i < g->result_count; i++)
        stored[g->results[i].value->id] = true;
    return stored;
}

Graph *fuse_fold_channels(const Program *p, Graph *g)
{
    Memory *own = memory_new(), *outer = memory_use(own);
    Folding *to = NEW_ARRAY(Folding, g->node_count);
    bool *stored = find_stored(g), any = false;
    for (int i = 0; i < g->node_count && p->target->convolution_cost; i++) {
        const Node *n = g->nodes[i];
        if ((n->op != OP_CONVOLVE && n->op != OP_CONVOLVE_WEIGHT) || !n->in[0]->has_samples)
            continue;
        to[i] = cheapest(p, n, stored[n->in[0]->id]);
        if (to[i].places == 1 && to[i].channels == n->in[0]->shape.extent[n->ints[0]])
            to[i] = (Folding){0};
        any = any || to[i].places;
    }
    memory_use(outer);
    Graph *target = any ? graph_new(g->model, g->name, g->parent) : g;
    for (int i = 0; any && i < g->node_count; i++) {
        Node *n = g->nodes[i];
        if (!to[i].places) {
            graph_copy_node(target, n);
            continue;
        }
        set_position(target, n);
        map_node(n, folded(target, n, to[i]));
    }
    if (any)
        graph_copy_results(target, g);
    graph_place_again(target, g);
    memory_free(own);
    return target;
}
