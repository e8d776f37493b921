/* cudnn.c: libcudnn.so.9 for virtual GPUs: the backend API, of graphs of one convolution. Statuses are those that NVIDIA's
 * library gives for the same (tests/unit/cudnn_test.c holds the two against each other). What it leaves to the caller is checked:
 * pointers are aligned as their tensors said and inside memory of the device, a plan has run once before it is captured, weights
 * are in an order that the manual lists, and no engine is run that its notes warn of. */
#include "runtime/cuda/cudnn.h"
#include "tests/vgpu/driver.h"
#include "tests/vgpu/half.h"

#include <stdlib.h>

#define PROTOTYPE(result, symbol, field, parameters) VGPU_API result symbol parameters;
CUDNN_FUNCTIONS(PROTOTYPE)
#undef PROTOTYPE

enum { LIBRARY_VERSION = 91900, MOST_RANK = 5, MOST_VALUES = 8, TENSORS = 3 };
enum { Y, X, W };

/* ---- descriptors: attributes as they were set */

typedef struct Value {
    int attribute;
    int64_t count;
    void *elements;
} Value;
typedef struct Descriptor Descriptor;
struct Descriptor {
    int type;
    bool final;
    Value value[MOST_VALUES];
    int values;
    int engine; /* of an engine, and of its configuration; -1: not known yet */
    const Descriptor *graph;
    bool loaded; /* of a plan: it has run */
};

struct cudnnContext {
    VirtualDevice *device;
    CUstream stream;
};

/* what may be set; most: elements */
typedef struct Attribute {
    int descriptor, attribute, type;
    int64_t most;
} Attribute;
/* clang-format off */
#define OF(descriptor, attribute, type, most) {CUDNN_BACKEND_##descriptor##_DESCRIPTOR, CUDNN_ATTR_##attribute, CUDNN_TYPE_##type, most}
/* clang-format on */
#define OPERATION(descriptor, direction, x, w, y)                                                                                \
    OF(OPERATION_CONVOLUTION_##descriptor, OPERATION_CONVOLUTION_##direction##_ALPHA, FLOAT, 1),                                 \
        OF(OPERATION_CONVOLUTION_##descriptor, OPERATION_CONVOLUTION_##direction##_BETA, FLOAT, 1),                              \
        OF(OPERATION_CONVOLUTION_##descriptor, OPERATION_CONVOLUTION_##direction##_CONV_DESC, BACKEND_DESCRIPTOR, 1),            \
        OF(OPERATION_CONVOLUTION_##descriptor, OPERATION_CONVOLUTION_##direction##_##x, BACKEND_DESCRIPTOR, 1),                  \
        OF(OPERATION_CONVOLUTION_##descriptor, OPERATION_CONVOLUTION_##direction##_##w, BACKEND_DESCRIPTOR, 1),                  \
        OF(OPERATION_CONVOLUTION_##descriptor, OPERATION_CONVOLUTION_##direction##_##y, BACKEND_DESCRIPTOR, 1)
static const Attribute ATTRIBUTES[] = {
    OF(TENSOR, TENSOR_BYTE_ALIGNMENT, INT64, 1),
    OF(TENSOR, TENSOR_DATA_TYPE, DATA_TYPE, 1),
    OF(TENSOR, TENSOR_DIMENSIONS, INT64, MOST_RANK),
    OF(TENSOR, TENSOR_STRIDES, INT64, MOST_RANK),
    OF(TENSOR, TENSOR_UNIQUE_ID, INT64, 1),
    OF(CONVOLUTION, CONVOLUTION_COMP_TYPE, DATA_TYPE, 1),
    OF(CONVOLUTION, CONVOLUTION_CONV_MODE, CONVOLUTION_MODE, 1),
    OF(CONVOLUTION, CONVOLUTION_SPATIAL_DIMS, INT64, 1),
    OF(CONVOLUTION, CONVOLUTION_DILATIONS, INT64, 3),
    OF(CONVOLUTION, CONVOLUTION_FILTER_STRIDES, INT64, 3),
    OF(CONVOLUTION, CONVOLUTION_PRE_PADDINGS, INT64, 3),
    OF(CONVOLUTION, CONVOLUTION_POST_PADDINGS, INT64, 3),
    OPERATION(FORWARD, FORWARD, X, W, Y),
    OPERATION(BACKWARD_DATA, BWD_DATA, DX, W, DY),
    OPERATION(BACKWARD_FILTER, BWD_FILTER, X, DW, DY),
    OF(OPERATIONGRAPH, OPERATIONGRAPH_HANDLE, HANDLE, 1),
    OF(OPERATIONGRAPH, OPERATIONGRAPH_OPS, BACKEND_DESCRIPTOR, 1),
    OF(ENGINEHEUR, ENGINEHEUR_MODE, HEUR_MODE, 1),
    OF(ENGINEHEUR, ENGINEHEUR_OPERATION_GRAPH, BACKEND_DESCRIPTOR, 1),
    OF(EXECUTION_PLAN, EXECUTION_PLAN_HANDLE, HANDLE, 1),
    OF(EXECUTION_PLAN, EXECUTION_PLAN_ENGINE_CONFIG, BACKEND_DESCRIPTOR, 1),
    OF(VARIANT_PACK, VARIANT_PACK_UNIQUE_IDS, INT64, 8),
    OF(VARIANT_PACK, VARIANT_PACK_DATA_POINTERS, VOID_PTR, 8),
    OF(VARIANT_PACK, VARIANT_PACK_WORKSPACE, VOID_PTR, 1),
};

static size_t bytes_of_element(int type)
{
    return type == CUDNN_TYPE_INT64 || type == CUDNN_TYPE_VOID_PTR || type == CUDNN_TYPE_HANDLE ||
                   type == CUDNN_TYPE_BACKEND_DESCRIPTOR
               ? 8
               : 4;
}

static const Value *value_of(const Descriptor *d, int attribute)
{
    for (int i = 0; i < d->values; i++)
        if (d->value[i].attribute == attribute)
            return &d->value[i];
    return NULL;
}

static int64_t count_of(const Descriptor *d, int attribute)
{
    const Value *v = value_of(d, attribute);
    return v ? v->count : 0;
}

static int64_t number(const Descriptor *d, int attribute, int i)
{
    return ((const int64_t *)value_of(d, attribute)->elements)[i];
}
static int word(const Descriptor *d, int attribute) { return *(const int *)value_of(d, attribute)->elements; }

static const Descriptor *other(const Descriptor *d, int attribute) /* NULL: it was not set */
{
    const Value *v = value_of(d, attribute);
    return v ? *(const Descriptor *const *)v->elements : NULL;
}

static bool is_final(const Descriptor *d) { return d && d->final; }

static cudnnStatus_t set(Descriptor *d, int attribute, int type, int64_t count, const void *elements)
{
    const Attribute *a = NULL;
    for (size_t i = 0; i < sizeof ATTRIBUTES / sizeof *ATTRIBUTES; i++)
        if (ATTRIBUTES[i].descriptor == d->type && ATTRIBUTES[i].attribute == attribute)
            a = &ATTRIBUTES[i];
    if (d->final || !a)
        return CUDNN_STATUS_BAD_PARAM;
    if (a->type != type)
        return CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE;
    if (count < 1 || count > a->most || !elements)
        return CUDNN_STATUS_BAD_PARAM;
    Value *v = (Value *)value_of(d, attribute);
    if (!v)
        v = &d->value[d->values++];
    free(v->elements);
    *v = (Value){attribute, count, malloc((size_t)count * bytes_of_element(type))};
    memcpy(v->elements, elements, (size_t)count * bytes_of_element(type));
    return CUDNN_STATUS_SUCCESS;
}

/* ---- convolutions */

typedef struct Tensor {
    uintptr_t at;
    int type, rank;
    int64_t extent[MOST_RANK], stride[MOST_RANK], alignment;
} Tensor;
typedef struct Convolution {
    Tensor tensor[TENSORS];
    int result, dims, compute, engine;
    int64_t stride[3], dilation[3], low[3];
    uintptr_t work;
    size_t work_bytes;
} Convolution;

static size_t bytes_of(int type) { return type == CUDNN_DATA_DOUBLE ? 8 : type == CUDNN_DATA_FLOAT ? 4 : 2; }

static int64_t elements_of(const Tensor *t)
{
    int64_t count = 1;
    for (int i = 0; i < t->rank; i++)
        count *= t->extent[i];
    return count;
}

static int64_t reach_of(const Tensor *t) /* elements from the first to the last, both counted */
{
    int64_t last = 0;
    for (int i = 0; i < t->rank; i++)
        last += (t->extent[i] - 1) * t->stride[i];
    return last + 1;
}

static Tensor tensor_of(const Descriptor *d)
{
    Tensor t = {.type = word(d, CUDNN_ATTR_TENSOR_DATA_TYPE), .rank = (int)count_of(d, CUDNN_ATTR_TENSOR_DIMENSIONS)};
    t.alignment = number(d, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, 0);
    for (int i = 0; i < t.rank; i++) {
        t.extent[i] = number(d, CUDNN_ATTR_TENSOR_DIMENSIONS, i);
        t.stride[i] = number(d, CUDNN_ATTR_TENSOR_STRIDES, i);
    }
    return t;
}

/* attributes of the three operations: the windows, y, x, w */
static const int PARTS[][4] = {
    [CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR] = {CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
                                                                CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
                                                                CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
                                                                CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W},
    [CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR] = {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
                                                                      CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
                                                                      CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
                                                                      CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W},
    [CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR] = {
        CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
        CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW}};

static bool is_operation(int type)
{
    return type >= CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR &&
           type <= CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR;
}

static Convolution convolution_of(const Descriptor *operation)
{
    const int *part = PARTS[operation->type];
    const Descriptor *windows = other(operation, part[0]);
    Convolution c = {.dims = (int)number(windows, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, 0),
                     .compute = word(windows, CUDNN_ATTR_CONVOLUTION_COMP_TYPE)};
    c.result = operation->type == CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR         ? Y
               : operation->type == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR ? X
                                                                                                 : W;
    for (int i = 0; i < TENSORS; i++)
        c.tensor[i] = tensor_of(other(operation, part[1 + i]));
    for (int i = 0; i < c.dims; i++) {
        c.stride[i] = number(windows, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, i);
        c.dilation[i] = number(windows, CUDNN_ATTR_CONVOLUTION_DILATIONS, i);
        c.low[i] = number(windows, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, i);
    }
    return c;
}

/* ---- what is finished */

static cudnnStatus_t finish_tensor(const Descriptor *d)
{
    if (!count_of(d, CUDNN_ATTR_TENSOR_DIMENSIONS) ||
        count_of(d, CUDNN_ATTR_TENSOR_STRIDES) != count_of(d, CUDNN_ATTR_TENSOR_DIMENSIONS) ||
        !count_of(d, CUDNN_ATTR_TENSOR_DATA_TYPE) || !count_of(d, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT) ||
        !count_of(d, CUDNN_ATTR_TENSOR_UNIQUE_ID))
        return CUDNN_STATUS_BAD_PARAM;
    Tensor t = tensor_of(d);
    if (t.alignment <= 0 || t.alignment % (int64_t)bytes_of(t.type))
        return CUDNN_STATUS_BAD_PARAM;
    for (int i = 0; i < t.rank; i++)
        if (t.stride[i] < 0)
            return CUDNN_STATUS_BAD_PARAM;
    return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t finish_windows(const Descriptor *d)
{
    static const int LISTS[] = {CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_ATTR_CONVOLUTION_DILATIONS,
                                CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS};
    int64_t dims = count_of(d, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS) ? number(d, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, 0) : 0;
    bool good = dims > 0 && count_of(d, CUDNN_ATTR_CONVOLUTION_COMP_TYPE) && count_of(d, CUDNN_ATTR_CONVOLUTION_CONV_MODE);
    for (int k = 0; k < 4 && good; k++) {
        good = count_of(d, LISTS[k]) == dims;
        for (int i = 0; i < dims && good; i++)
            good = number(d, LISTS[k], i) >= (k < 2);
    }
    return good ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_BAD_PARAM;
}

static cudnnStatus_t finish_operation(const Descriptor *d)
{
    const Descriptor *windows = other(d, PARTS[d->type][0]);
    for (int i = 0; i < 4; i++)
        if (!is_final(other(d, PARTS[d->type][i])))
            return CUDNN_STATUS_BAD_PARAM;
    Convolution c = convolution_of(d);
    const Tensor *y = &c.tensor[Y], *x = &c.tensor[X], *w = &c.tensor[W];
    bool good = c.dims + 2 == x->rank && x->rank == w->rank && w->rank == y->rank && y->extent[0] == x->extent[0] &&
                y->extent[1] == w->extent[0] && w->extent[1] > 0 && x->extent[1] % w->extent[1] == 0 &&
                reach_of(w) == elements_of(w);
    for (int i = 0; i < c.dims && good; i++) {
        int64_t room = x->extent[2 + i] + c.low[i] + number(windows, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, i) -
                       c.dilation[i] * (w->extent[2 + i] - 1) - 1;
        good = room >= 0 && room / c.stride[i] + 1 == y->extent[2 + i];
    }
    return good ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_BAD_PARAM;
}

/* an axis's stride by which of the others follow it: channels last, or first */
static bool is_packed(const Tensor *t, bool last)
{
    int64_t next = last ? t->extent[1] : 1;
    if (last && t->extent[1] > 1 && t->stride[1] != 1)
        return false;
    for (int i = t->rank - 1; i >= (last ? 2 : 1); next *= t->extent[i--])
        if (t->extent[i] > 1 && t->stride[i] != next)
            return false;
    return t->extent[0] == 1 || t->stride[0] == next;
}

/* the library takes any stride; of weights the manual lists KCRS and KRSC, and what it makes of others is not known */
static cudnnStatus_t finish_graph(const Descriptor *d)
{
    const Descriptor *operation = other(d, CUDNN_ATTR_OPERATIONGRAPH_OPS);
    if (!is_final(operation))
        return CUDNN_STATUS_BAD_PARAM;
    Convolution c = convolution_of(operation);
    return is_packed(&c.tensor[W], true) || is_packed(&c.tensor[W], false) ? CUDNN_STATUS_SUCCESS
                                                                           : CUDNN_STATUS_NOT_SUPPORTED_LAYOUT;
}

static cudnnStatus_t finish_plan(const Descriptor *);

static cudnnStatus_t finish_pack(const Descriptor *d)
{
    return count_of(d, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS) == count_of(d, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS)
               ? CUDNN_STATUS_SUCCESS
               : CUDNN_STATUS_BAD_PARAM;
}

static cudnnStatus_t finish(Descriptor *d)
{
    cudnnStatus_t status = CUDNN_STATUS_BAD_PARAM;
    if (d->final)
        return status;
    switch (d->type) {
    case CUDNN_BACKEND_TENSOR_DESCRIPTOR: status = finish_tensor(d); break;
    case CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR: status = finish_windows(d); break;
    case CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR: status = finish_graph(d); break;
    case CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR:
        status = is_final(other(d, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH)) && count_of(d, CUDNN_ATTR_ENGINEHEUR_MODE)
                     ? CUDNN_STATUS_SUCCESS
                     : CUDNN_STATUS_BAD_PARAM;
        break;
    case CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR: status = finish_plan(d); break;
    case CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR: status = finish_pack(d); break;
    default: status = is_operation(d->type) ? finish_operation(d) : CUDNN_STATUS_BAD_PARAM;
    }
    d->final = status == CUDNN_STATUS_SUCCESS;
    return status;
}

/* ---- engines: the favourite is none that a program may use, and not the fastest of the others */

typedef struct Engine {
    int notes[3], note_count;
    bool fallback, refuses, exact; /* exact: for f32 and f64, too; f32 of others is rounded to tf32 */
    int64_t work;                  /* bytes for an element of the result; -1: more than anybody has */
    int slowness;
} Engine;
static const Engine ENGINES[] = {
    {{CUDNN_NUMERICAL_NOTE_TENSOR_CORE, CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC}, 2, .slowness = 1},
    {{CUDNN_NUMERICAL_NOTE_TENSOR_CORE}, 1, .work = -1, .slowness = 1},
    {{CUDNN_NUMERICAL_NOTE_TENSOR_CORE}, 1, .refuses = true, .slowness = 1},
    {{CUDNN_NUMERICAL_NOTE_TENSOR_CORE}, 1, .work = 4, .slowness = 3},
    {{CUDNN_NUMERICAL_NOTE_TENSOR_CORE}, 1, .slowness = 2},
    {{CUDNN_NUMERICAL_NOTE_TENSOR_CORE, CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION}, 2, .slowness = 1},
    {{CUDNN_NUMERICAL_NOTE_WINOGRAD}, 1, .exact = true, .slowness = 1},
    {{0}, 0, .exact = true, .work = 8, .slowness = 2},
    {{0}, 0, .fallback = true, .exact = true, .slowness = 3},
};
enum { ENGINE_COUNT = sizeof ENGINES / sizeof *ENGINES };

static int64_t work_of(int engine, const Convolution *c)
{
    return ENGINES[engine].work < 0 ? INT64_C(1) << 40 : ENGINES[engine].work * elements_of(&c->tensor[c->result]);
}

/* all of one type; bf16 and tf32 are for GPUs from 8.0 on */
static bool has_engines(const VirtualDevice *device, const Convolution *c)
{
    int type = c->tensor[X].type, compute = type == CUDNN_DATA_DOUBLE ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT;
    return c->tensor[W].type == type && c->tensor[Y].type == type && c->compute == compute &&
           (type != CUDNN_DATA_BFLOAT16 || device->major >= 8);
}

static bool suits(int engine, const Convolution *c, int mode)
{
    int type = c->tensor[X].type;
    return ENGINES[engine].fallback == (mode == CUDNN_HEUR_MODE_FALLBACK) && (type != CUDNN_DATA_DOUBLE || ENGINES[engine].exact);
}

static const struct cudnnContext *handle_of(const Descriptor *graph)
{
    return *(const struct cudnnContext *const *)value_of(graph, CUDNN_ATTR_OPERATIONGRAPH_HANDLE)->elements;
}

/* configurations are filled in */
static cudnnStatus_t results(const Descriptor *rules, int64_t wanted, int64_t *count, Descriptor *const *configuration)
{
    const Descriptor *graph = other(rules, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH);
    Convolution c = convolution_of(other(graph, CUDNN_ATTR_OPERATIONGRAPH_OPS));
    *count = 0;
    if (!value_of(graph, CUDNN_ATTR_OPERATIONGRAPH_HANDLE))
        return CUDNN_STATUS_BAD_PARAM;
    for (int i = 0; i < ENGINE_COUNT && has_engines(handle_of(graph)->device, &c); i++) {
        if (!suits(i, &c, word(rules, CUDNN_ATTR_ENGINEHEUR_MODE)))
            continue;
        if (*count < wanted) {
            configuration[*count]->engine = i;
            configuration[*count]->graph = graph;
            configuration[*count]->final = true;
        }
        ++*count;
    }
    return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t finish_plan(const Descriptor *d)
{
    const Descriptor *configuration = other(d, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
    if (!is_final(configuration))
        return configuration ? CUDNN_STATUS_BAD_PARAM : CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED;
    return ENGINES[configuration->engine].refuses ? CUDNN_STATUS_NOT_SUPPORTED : CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t get_notes(const Descriptor *engine, int64_t wanted, int64_t *count, int *notes)
{
    *count = ENGINES[engine->engine].note_count;
    for (int i = 0; i < *count && i < wanted; i++)
        notes[i] = ENGINES[engine->engine].notes[i];
    return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t get(const Descriptor *d, int attribute, int type, int64_t wanted, int64_t *count, void *elements)
{
    if (!d->final)
        return CUDNN_STATUS_NOT_INITIALIZED;
    if (attribute == CUDNN_ATTR_ENGINEHEUR_RESULTS && d->type == CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR)
        return type == CUDNN_TYPE_BACKEND_DESCRIPTOR ? results(d, wanted, count, elements)
                                                     : CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE;
    if (attribute == CUDNN_ATTR_ENGINECFG_ENGINE && d->type == CUDNN_BACKEND_ENGINECFG_DESCRIPTOR && wanted > 0) {
        Descriptor *engine = *(Descriptor **)elements;
        engine->engine = d->engine;
        engine->final = true;
        *count = 1;
        return type == CUDNN_TYPE_BACKEND_DESCRIPTOR ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE;
    }
    if (attribute == CUDNN_ATTR_ENGINE_NUMERICAL_NOTE && d->type == CUDNN_BACKEND_ENGINE_DESCRIPTOR)
        return type == CUDNN_TYPE_NUMERICAL_NOTE ? get_notes(d, wanted, count, elements) : CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE;
    if (attribute == CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE && d->type == CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR &&
        wanted > 0) {
        const Descriptor *configuration = other(d, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
        Convolution c = convolution_of(other(configuration->graph, CUDNN_ATTR_OPERATIONGRAPH_OPS));
        *(int64_t *)elements = work_of(configuration->engine, &c);
        *count = 1;
        return type == CUDNN_TYPE_INT64 ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE;
    }
    const Value *v = value_of(d, attribute);
    for (size_t i = 0; v && i < sizeof ATTRIBUTES / sizeof *ATTRIBUTES; i++)
        if (ATTRIBUTES[i].descriptor == d->type && ATTRIBUTES[i].attribute == attribute && ATTRIBUTES[i].type != type)
            return CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE;
    if (!v)
        return CUDNN_STATUS_BAD_PARAM;
    *count = v->count;
    memcpy(elements, v->elements, (size_t)(wanted < v->count ? wanted : v->count) * bytes_of_element(type));
    return CUDNN_STATUS_SUCCESS;
}

/* ---- what it does: each product once, in the order of y's places, then w's; in f64 */

static double load(const Convolution *c, const Tensor *t, int64_t i)
{
    double value = vgpu_load(bytes_of(t->type), t->type == CUDNN_DATA_HALF, t->at, i);
    return t->type == CUDNN_DATA_FLOAT && !ENGINES[c->engine].exact ? vgpu_round_tf32(value) : value;
}

/* the index of an element, of all elements in the order of the extents; digits: its indices */
static int64_t digits_of(const Tensor *t, int64_t element, int64_t digit[MOST_RANK])
{
    int64_t at = 0;
    for (int i = t->rank - 1; i >= 0; element /= t->extent[i--]) {
        digit[i] = element % t->extent[i];
        at += digit[i] * t->stride[i];
    }
    return at;
}

/* where x is that output y and weight w meet; -1: in the padding */
static int64_t meet(const Convolution *c, const int64_t *y, const int64_t *w)
{
    const Tensor *x = &c->tensor[X], *filter = &c->tensor[W];
    int64_t group = w[0] / (filter->extent[0] / (x->extent[1] / filter->extent[1])),
            at = y[0] * x->stride[0] + (group * filter->extent[1] + w[1]) * x->stride[1];
    for (int i = 0; i < c->dims; i++) {
        int64_t place = y[2 + i] * c->stride[i] + w[2 + i] * c->dilation[i] - c->low[i];
        if (place < 0 || place >= x->extent[2 + i])
            return -1;
        at += place * x->stride[2 + i];
    }
    return at;
}

/* adds all products of one output channel of one sample and place */
static void add_products(const Convolution *c, int64_t y_at, const int64_t *y, double *sums)
{
    const Tensor *filter = &c->tensor[W];
    int64_t each = elements_of(filter) / filter->extent[0], w[MOST_RANK];
    double slope = c->result == Y ? 0 : load(c, &c->tensor[Y], y_at);
    for (int64_t k = 0; k < each; k++) {
        int64_t w_at = digits_of(filter, y[1] * each + k, w), x_at = meet(c, y, w);
        if (x_at < 0)
            continue;
        if (c->result == Y)
            sums[y_at] += load(c, &c->tensor[X], x_at) * load(c, filter, w_at);
        else if (c->result == X)
            sums[x_at] += slope * load(c, filter, w_at);
        else
            sums[w_at] += slope * load(c, &c->tensor[X], x_at);
    }
}

static void convolve(const Convolution *c)
{
    const Tensor *result = &c->tensor[c->result];
    double *sums = calloc((size_t)reach_of(result), sizeof *sums);
    int64_t y[MOST_RANK];
    for (int64_t i = 0; i < elements_of(&c->tensor[Y]); i++) {
        int64_t at = digits_of(&c->tensor[Y], i, y);
        add_products(c, at, y, sums);
    }
    for (int64_t i = 0; i < elements_of(result); i++) {
        int64_t digit[MOST_RANK], at = digits_of(result, i, digit);
        vgpu_store(bytes_of(result->type), result->type == CUDNN_DATA_HALF, result->at, at, sums[at]);
    }
    free(sums);
}

static void run(Op *op)
{
    const Convolution *c = op->work.library.data;
    const Tensor *result = &c->tensor[c->result];
    /* nothing is said of what it is for: nobody may ever read what it writes */
    bool tried = op->work.label && op->work.label->count < 0;
    int error = vgpu_kernel_fault("cudnnBackendExecute", op);
    if (error && error != VGPU_FORGOTTEN)
        op->work.device->failed = error;
    if (error)
        return;
    for (int i = 0; i < TENSORS; i++)
        vgpu_touch(op, c->tensor[i].at, (size_t)reach_of(&c->tensor[i]) * bytes_of(c->tensor[i].type), i == c->result);
    if (c->work_bytes > 0) {
        vgpu_touch(op, c->work, c->work_bytes, true);
        memset((void *)c->work, 0xA5, c->work_bytes);
    }
    if (tried)
        memset((void *)result->at, 0xFF, (size_t)reach_of(result) * bytes_of(result->type));
    else
        convolve(c);
    int64_t weights = elements_of(&c->tensor[W]) / c->tensor[W].extent[0];
    op->end_us += vgpu_slowness(SLOW_CUDNN) * ENGINES[c->engine].slowness *
                  (1 + 1e-5 * (double)elements_of(&c->tensor[Y]) * (double)weights);
}

/* ---- what it is given */

static cudnnStatus_t misused(VirtualDevice *device, CUstream stream, const char *what)
{
    vgpu_violation(device, CUDA_ERROR_LAUNCH_FAILED, "library", "%s: cudnnBackendExecute %s",
                   stream->label && stream->label->name ? stream->label->name : "a convolution", what);
    return CUDNN_STATUS_EXECUTION_FAILED;
}

static bool is_inside(const VirtualDevice *device, uintptr_t address, size_t bytes)
{
    const Allocation *a = vgpu_find(address);
    return a && a->device == device && !a->freed && address + bytes <= a->base + a->bytes;
}

static bool find_pointers(const Descriptor *operation, const Descriptor *pack, Convolution *c)
{
    for (int i = 0; i < TENSORS; i++) {
        int64_t id = number(other(operation, PARTS[operation->type][1 + i]), CUDNN_ATTR_TENSOR_UNIQUE_ID, 0);
        for (int k = 0; k < count_of(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS); k++)
            if (number(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, k) == id)
                c->tensor[i].at = ((const uintptr_t *)value_of(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS)->elements)[k];
        if (!c->tensor[i].at)
            return false;
    }
    return true;
}

static const char *why_not(const VirtualDevice *device, const Convolution *c)
{
    for (int i = 0; i < TENSORS; i++) {
        const Tensor *t = &c->tensor[i];
        if (!is_inside(device, t->at, (size_t)reach_of(t) * bytes_of(t->type)))
            return "has a tensor that is not inside memory of its device";
        if (t->at % (uintptr_t)t->alignment)
            return "has a tensor that is not aligned as was said when its plan was made";
    }
    if (c->work_bytes && !is_inside(device, c->work, c->work_bytes))
        return "has a workspace that is not inside memory of its device";
    for (int i = 0; i < ENGINES[c->engine].note_count; i++)
        if (ENGINES[c->engine].notes[i] == CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC)
            return "runs an engine whose bits differ from run to run";
    return NULL;
}

static cudnnStatus_t issue(cudnnHandle_t handle, Descriptor *plan, const Descriptor *pack)
{
    const Descriptor *configuration = other(plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
    const Descriptor *operation = other(configuration->graph, CUDNN_ATTR_OPERATIONGRAPH_OPS);
    Convolution c = convolution_of(operation);
    CUstream stream = handle->stream;
    if (!stream || !find_pointers(operation, pack, &c))
        return CUDNN_STATUS_BAD_PARAM;
    if (stream->device != handle->device)
        return misused(handle->device, stream, "is issued to a stream of another device");
    c.engine = configuration->engine;
    c.work_bytes = (size_t)work_of(c.engine, &c);
    if (value_of(pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE))
        c.work = *(const uintptr_t *)value_of(pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE)->elements;
    const char *why = why_not(handle->device, &c);
    if (why)
        return misused(handle->device, stream, why);
    if (stream->capture && !plan->loaded) /* "Loading a kernel might require context synchronization" */
        return misused(handle->device, stream,
                       "is captured before its plan has run once, so its kernel is loaded inside the capture");
    plan->loaded = true;
    Work w = {.kind = OP_LIBRARY, .what = "cudnnBackendExecute", .library = {.run = run, .bytes = sizeof c}};
    w.library.data = memcpy(malloc(sizeof c), &c, sizeof c);
    return vgpu_issue_or_capture(stream, w) ? CUDNN_STATUS_EXECUTION_FAILED : CUDNN_STATUS_SUCCESS;
}

/* ---- what the library exports */

static cudnnStatus_t enter(const char *call)
{
    pthread_mutex_lock(&vgpu_lock);
    return vgpu_fault(call);
}

static cudnnStatus_t leave(cudnnStatus_t status)
{
    pthread_mutex_unlock(&vgpu_lock);
    return status == VGPU_FORGOTTEN ? CUDNN_STATUS_SUCCESS : status;
}

size_t cudnnGetVersion(void) { return LIBRARY_VERSION; }

const char *cudnnGetErrorString(cudnnStatus_t status)
{
#define S(name)                                                                                                                  \
    {                                                                                                                            \
#name, name                                                                                                              \
    }
    static const struct {
        const char *name;
        int status;
    } NAMES[] = {S(CUDNN_STATUS_SUCCESS),
                 S(CUDNN_STATUS_NOT_INITIALIZED),
                 S(CUDNN_STATUS_BAD_PARAM),
                 S(CUDNN_STATUS_BAD_PARAM_NULL_POINTER),
                 S(CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER),
                 S(CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED),
                 S(CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH),
                 S(CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE),
                 S(CUDNN_STATUS_NOT_SUPPORTED),
                 S(CUDNN_STATUS_NOT_SUPPORTED_LAYOUT),
                 S(CUDNN_STATUS_NOT_SUPPORTED_ARCH_MISMATCH),
                 S(CUDNN_STATUS_INTERNAL_ERROR),
                 S(CUDNN_STATUS_EXECUTION_FAILED)};
#undef S
    for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++)
        if (NAMES[i].status == status)
            return NAMES[i].name;
    return "CUDNN_UNKNOWN_STATUS";
}

cudnnStatus_t cudnnCreate(cudnnHandle_t *handle)
{
    cudnnStatus_t status = enter("cudnnCreate");
    if (!status && !vgpu_current())
        status = CUDNN_STATUS_NOT_INITIALIZED;
    if (!status) {
        *handle = calloc(1, sizeof **handle);
        (*handle)->device = vgpu_current()->device;
    }
    return leave(status);
}

cudnnStatus_t cudnnDestroy(cudnnHandle_t handle)
{
    free(handle);
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, CUstream stream)
{
    cudnnStatus_t status = enter("cudnnSetStream");
    if (!status && !handle)
        status = CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
    if (!status)
        handle->stream = stream;
    return leave(status);
}

cudnnStatus_t cudnnBackendCreateDescriptor(int type, cudnnBackendDescriptor_t *descriptor)
{
    cudnnStatus_t status = enter("cudnnBackendCreateDescriptor");
    Descriptor *d = calloc(1, sizeof *d);
    *d = (Descriptor){.type = type, .engine = -1};
    *descriptor = d;
    return leave(status);
}

cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t descriptor)
{
    Descriptor *d = descriptor;
    if (!d)
        return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
    for (int i = 0; i < d->values; i++)
        free(d->value[i].elements);
    free(d);
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t descriptor, int attribute, int type, int64_t count,
                                       const void *elements)
{
    cudnnStatus_t status = enter("cudnnBackendSetAttribute");
    return leave(status        ? status
                 : !descriptor ? CUDNN_STATUS_BAD_PARAM_NULL_POINTER
                               : set(descriptor, attribute, type, count, elements));
}

cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t descriptor, int attribute, int type, int64_t wanted,
                                       int64_t *count, void *elements)
{
    cudnnStatus_t status = enter("cudnnBackendGetAttribute");
    return leave(status        ? status
                 : !descriptor ? CUDNN_STATUS_BAD_PARAM_NULL_POINTER
                               : get(descriptor, attribute, type, wanted, count, elements));
}

cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t descriptor)
{
    cudnnStatus_t status = enter("cudnnBackendFinalize");
    return leave(status ? status : !descriptor ? CUDNN_STATUS_BAD_PARAM_NULL_POINTER : finish(descriptor));
}

cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan, cudnnBackendDescriptor_t pack)
{
    cudnnStatus_t status = enter("cudnnBackendExecute");
    if (!status && (!handle || !is_final(plan) || !is_final(pack)))
        status = CUDNN_STATUS_BAD_PARAM;
    if ((int)status == CUDA_ERROR_ILLEGAL_ADDRESS) { /* an error of the driver's: the device is lost before this call */
        handle->device->failed = CUDA_ERROR_ILLEGAL_ADDRESS;
        status = CUDNN_STATUS_EXECUTION_FAILED;
    }
    if (!status && handle->device->failed)
        status = CUDNN_STATUS_EXECUTION_FAILED;
    return leave(status ? status : issue(handle, plan, pack));
}
