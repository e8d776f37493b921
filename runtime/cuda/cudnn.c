/* cudnn.c: convolutions by cuDNN in place of a program's own kernels.
 *
 * In: the plan's calls of kernels that a library can compute (mgpu_library_convolution). Out, when the device is opened: an
 * execution plan for each: the first of the engines that the library's heuristics name that is deterministic, rounds no more than
 * the model allows and needs at most the workspace. If there is none, or a trial is rejected, the kernel is used. With --tune it
 * is the fastest of these, or the kernel. The library requires weights as [out, taps, in]. Weights in another order are
 * transposed to the beginning of the workspace before (or the gradient from there after) the convolution. A device has one
 * workspace, outside its arena, since the lane comp computes one convolution at a time. Programs that do not use the library do
 * not allocate it. */
#include "runtime/base/base.h"
#include "runtime/abi/mgpu_transposed.h"
#include "runtime/cuda/cudnn.h"
#include "runtime/cuda/device_cuda.h"
#include "runtime/cuda/library.h"
#include "runtime/cuda/tuning.h"

#include <stdlib.h>
#include <string.h>

/* clang-format off */
enum { ALIGNMENT = 16 /* bytes: of x, w, y */, WORKSPACE_ALIGNMENT = 256, CONFIGURATIONS = 32, MOST_BLOCKS = 4096, MOST_RANK = 5 };
/* clang-format on */
enum { CANDIDATES = 16 };                                             /* of --tune */
enum { HOPPER = 9, LARGE_WORKSPACE = 32 << 20, WORKSPACE = 4 << 20 }; /* bytes without transposed weights, as for matmuls */
enum { Y, X, W, TENSORS }; /* as MGPU_CONVOLUTION_...; also their ids in graphs and variant packs */

#define CUDNN_FIELD(result, symbol, field, parameters) result(*field) parameters;
#define CUDNN_SYMBOL(result, symbol, field, parameters) {#symbol, offsetof(Functions, field), false},
typedef struct Functions {
    CUDNN_FUNCTIONS(CUDNN_FIELD)
} Functions;
static const CudaSymbol SYMBOLS[] = {CUDNN_FUNCTIONS(CUDNN_SYMBOL)};
static const char NAME[] = "libcudnn.so.9";
static const double LARGE_STEP = 5e11; /* operations: below that, opening the library, which takes a second, is not worth it */
enum { MANY_CHANNELS = 32 };
static const char PACKAGE[] = "cuDNN's package, such as libcudnn9-cuda-13, or pip's nvidia-cudnn-cu13";

typedef struct PlanChoice { /* the execution plan for a kernel's convolution */
    bool asked;
    cudnnBackendDescriptor_t plan; /* NULL: there is none */
    cudnnBackendDescriptor_t candidate[CANDIDATES];
    int candidates; /* the plans to choose from */
    cudnnBackendDescriptor_t *made;
    int made_count;         /* all descriptors created for it */
    AlternativeTimes times; /* of --tune: by the kernel, and by the chosen plan */
} PlanChoice;
struct Cudnn {
    Functions f;
    cudnnHandle_t handle;
    CUfunction transpose[3]; /* of elements of 2, 4, 8 bytes; NULL: not needed */
    PlanChoice *choices;     /* [kernel] */
    int kernels;
    bool all; /* every convolution that it supports, not only those known to be faster */
    CUdeviceptr work;
    int64_t work_bytes; /* 0: not allocated yet */
    Tuning *tuning;     /* NULL: no --tune */
    int done;           /* convolutions that it computes */
    int refused;
    cudnnStatus_t why; /* convolutions that it rejected; the last reason */
};

/* ---- calls */

static void check(const Cudnn *l, const CudaDevice *d, int lane, cudnnStatus_t status, const char *call)
{
    if (status != CUDNN_STATUS_SUCCESS)
        mgpu_cuda_library_failed(d, lane, call, l->f.get_error_string(status), "MGPU_CUDNN");
}

static bool is_refusal(cudnnStatus_t status)
{
    return status >= CUDNN_STATUS_NOT_SUPPORTED && status < CUDNN_STATUS_INTERNAL_ERROR;
}

static cudnnBackendDescriptor_t make(const Cudnn *l, const CudaDevice *d, PlanChoice *c, int type)
{
    c->made = mgpu_resize(c->made, (size_t)(c->made_count + 1) * sizeof *c->made);
    check(l, d, -1, l->f.descriptor_create(type, &c->made[c->made_count]), "cudnnBackendCreateDescriptor");
    return c->made[c->made_count++];
}

static void set(const Cudnn *l, const CudaDevice *d, int lane, cudnnBackendDescriptor_t to, int attribute, int type,
                int64_t count, const void *value)
{
    check(l, d, lane, l->f.set_attribute(to, attribute, type, count, value), "cudnnBackendSetAttribute");
}

static void set_descriptor(const Cudnn *l, const CudaDevice *d, cudnnBackendDescriptor_t to, int attribute,
                           cudnnBackendDescriptor_t value)
{
    set(l, d, -1, to, attribute, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &value);
}

static void set_numbers(const Cudnn *l, const CudaDevice *d, cudnnBackendDescriptor_t to, int attribute, int64_t count,
                        const int64_t *value)
{
    set(l, d, -1, to, attribute, CUDNN_TYPE_INT64, count, value);
}

/* ---- opening */

static char *open_named(CudaDevice *d, const char *name, Cudnn *l)
{
    CudaLibrary library = {name, PACKAGE, SYMBOLS, MGPU_COUNT(SYMBOLS), .toolkit = true, .folders = d->program->library_folders};
    char *why = mgpu_cuda_open(&library, &l->f);
    if (why)
        return why;
    mgpu_cuda_enter(d, -1);
    cudnnStatus_t status = l->f.create(&l->handle);
    return status ? mgpu_format("cuDNN does not start: %s", l->f.get_error_string(status)) : NULL;
}

static void find_transpositions(CudaDevice *d, Cudnn *l)
{
    static const char *const FUNCTION[] = {"mgpu_transpose_2", "mgpu_transpose_4", "mgpu_transpose_8"};
    bool any = false;
    for (int k = 0; k < l->kernels; k++)
        any = any || (d->kernels[k].convolution && d->kernels[k].convolution->filter != MGPU_FILTER_OUT_TAPS_IN);
    for (int i = 0; i < MGPU_COUNT(FUNCTION) && any; i++)
        l->transpose[i] = mgpu_cuda_function(d, FUNCTION[i]);
}

static int64_t bytes_of(uint8_t type) { return type == MGPU_F64 ? 8 : type == MGPU_F32 ? 4 : 2; }

static int64_t taps_of(const mgpu_library_convolution *v)
{
    int64_t taps = 1;
    for (int i = 0; i < v->dims; i++)
        taps *= v->taps[i];
    return taps;
}

/* Returns the bytes of weights in the library's order; 0 if they are in that order already. */
static int64_t filter_bytes(const mgpu_library_convolution *v)
{
    int64_t bytes = v->filter == MGPU_FILTER_OUT_TAPS_IN ? 0 : taps_of(v) * v->out * (v->in / v->groups) * bytes_of(v->type);
    return (bytes + WORKSPACE_ALIGNMENT - 1) / WORKSPACE_ALIGNMENT * WORKSPACE_ALIGNMENT;
}

static void open_workspace(CudaDevice *d, Cudnn *l, int64_t outside_arena)
{
    int64_t weights = 0;
    for (int k = 0; k < l->kernels; k++) {
        int64_t own = d->kernels[k].convolution ? filter_bytes(d->kernels[k].convolution) : 0;
        weights = own > weights ? own : weights;
    }
    l->work_bytes = weights + (d->gpu->major >= HOPPER ? LARGE_WORKSPACE : WORKSPACE);
    l->work = mgpu_cuda_allocate(d, l->work_bytes, l->work_bytes + outside_arena,
                                 "besides its arena, cuDNN (MGPU_CUDNN=off goes without it) takes");
    d->outside_arena_bytes += l->work_bytes;
}

static bool wants_all(bool tuned)
{
    const char *wish = getenv("MGPU_CUDNN");
    return tuned || (wish && *wish);
}

/* On an H100, for ResNet-50's 21 convolutions in bf16 that it supports, the library's first engine was faster than the kernel in
 * all but the one of few channels (546 us by the kernel, 1,787 by the library). */
static bool is_known_faster(const mgpu_library_convolution *v)
{
    bool matrix = v->type == MGPU_BF16 || v->type == MGPU_F16 || (v->type == MGPU_F32 && v->tf32);
    return matrix && v->in / v->groups >= MANY_CHANNELS && v->out / v->groups >= MANY_CHANNELS;
}

static double operations_of(const mgpu_library_convolution *v, int64_t samples)
{
    double all = 2 * (double)samples * (double)v->out * ((double)v->in / (double)v->groups);
    for (int i = 0; i < v->dims; i++)
        all *= (double)v->outputs[i] * (double)v->taps[i];
    return all;
}

static bool is_large(const CudaDevice *d)
{
    double most = 0;
    for (int k = 0; k < d->plan->phase_count; k++) {
        const mgpu_device_phase *p = &d->plan->phases[k].devices[d->number];
        double all = 0;
        for (const mgpu_op *op = p->ops; op < p->ops + p->op_count; op++) {
            const mgpu_library_convolution *v = op->verb == MGPU_CALL ? d->kernels[op->target].convolution : NULL;
            all += v && is_known_faster(v) ? operations_of(v, d->samples) : 0;
        }
        most = all > most ? all : most;
    }
    return most >= LARGE_STEP;
}

bool mgpu_cudnn_wanted(const CudaDevice *d, bool tuned)
{
    const char *wish = getenv("MGPU_CUDNN");
    return wants_all(tuned) ? !wish || strcmp(wish, "off") != 0 : is_large(d);
}

Cudnn *mgpu_cudnn_open(CudaDevice *d, int kernels, int64_t outside_arena, char *description, size_t capacity)
{
    const char *wish = getenv("MGPU_CUDNN");
    Cudnn *l = mgpu_allocate(1, sizeof *l);
    char *why = open_named(d, wish && strchr(wish, '/') ? wish : NAME, l);
    if (why) {
        snprintf(description, capacity, "no cuDNN (%s)", why);
        free(why);
        free(l);
        return NULL;
    }
    l->kernels = kernels;
    l->choices = mgpu_allocate((size_t)kernels, sizeof *l->choices);
    find_transpositions(d, l);
    open_workspace(d, l, outside_arena);
    check(l, d, -1, l->f.set_stream(l->handle, d->stream[MGPU_COMP]), "cudnnSetStream");
    size_t version = l->f.get_version();
    snprintf(description, capacity, "cuDNN %zu.%zu.%zu", version / 10000, version / 100 % 100, version % 100);
    return l;
}

CudaRange mgpu_cudnn_workspace(const Cudnn *l)
{
    return (CudaRange){l->work, l->work + (uint64_t)l->work_bytes, true, "cuDNN's workspace"};
}

static void drop_choice(const Cudnn *l, const CudaDevice *d, PlanChoice *c)
{
    while (c->made_count > 0)
        check(l, d, -1, l->f.descriptor_destroy(c->made[--c->made_count]), "cudnnBackendDestroyDescriptor");
    free(c->made);
    *c = (PlanChoice){.asked = true};
}

void mgpu_cudnn_close(const CudaDevice *d, Cudnn *l)
{
    if (!l)
        return;
    mgpu_cuda_enter(d, -1);
    for (int k = 0; k < l->kernels; k++)
        drop_choice(l, d, &l->choices[k]);
    check(l, d, -1, l->f.destroy(l->handle), "cudnnDestroy");
    mgpu_cuda_check(d, -1, d->cuda->mem_free(l->work), "cuMemFree");
    free(l->choices);
    free(l);
}

/* ---- descriptions */

static int type_of(uint8_t type)
{
    return type == MGPU_F64   ? CUDNN_DATA_DOUBLE
           : type == MGPU_F32 ? CUDNN_DATA_FLOAT
           : type == MGPU_F16 ? CUDNN_DATA_HALF
                              : CUDNN_DATA_BFLOAT16;
}

/* Extents are in the library's order, with channels second; in memory channels are innermost. */
static cudnnBackendDescriptor_t describe_tensor(const Cudnn *l, const CudaDevice *d, const mgpu_library_convolution *v,
                                                PlanChoice *c, int which)
{
    cudnnBackendDescriptor_t to = make(l, d, c, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    const int64_t *places = which == X ? v->inputs : which == W ? v->taps : v->outputs, id = which, alignment = ALIGNMENT;
    int64_t extent[MOST_RANK] = {which == W ? v->out : d->samples, which == X ? v->in : which == W ? v->in / v->groups : v->out};
    int64_t stride[MOST_RANK] = {0, 1}, next = extent[1];
    int type = type_of(v->type);
    for (int i = v->dims - 1; i >= 0; i--) {
        extent[2 + i] = places[i];
        stride[2 + i] = next;
        next *= places[i];
    }
    stride[0] = next;
    set(l, d, -1, to, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
    set_numbers(l, d, to, CUDNN_ATTR_TENSOR_DIMENSIONS, v->dims + 2, extent);
    set_numbers(l, d, to, CUDNN_ATTR_TENSOR_STRIDES, v->dims + 2, stride);
    set_numbers(l, d, to, CUDNN_ATTR_TENSOR_UNIQUE_ID, 1, &id);
    set_numbers(l, d, to, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, 1, &alignment);
    check(l, d, -1, l->f.finalize(to), "cudnnBackendFinalize of a tensor");
    return to;
}

static cudnnBackendDescriptor_t describe_windows(const Cudnn *l, const CudaDevice *d, const mgpu_library_convolution *v,
                                                 PlanChoice *c)
{
    cudnnBackendDescriptor_t to = make(l, d, c, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
    int type = v->type == MGPU_F64 ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT, mode = CUDNN_CROSS_CORRELATION;
    int64_t dims = v->dims;
    set(l, d, -1, to, CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
    set(l, d, -1, to, CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1, &mode);
    set_numbers(l, d, to, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, 1, &dims);
    set_numbers(l, d, to, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, dims, v->stride);
    set_numbers(l, d, to, CUDNN_ATTR_CONVOLUTION_DILATIONS, dims, v->dilation);
    set_numbers(l, d, to, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, dims, v->low);
    set_numbers(l, d, to, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, dims, v->high);
    check(l, d, -1, l->f.finalize(to), "cudnnBackendFinalize of a convolution");
    return to;
}

static cudnnBackendDescriptor_t describe_operation(const Cudnn *l, const CudaDevice *d, const mgpu_library_convolution *v,
                                                   PlanChoice *c)
{
    static const struct {
        int descriptor, alpha, beta, windows, tensor[TENSORS];
    } OPERATION[] = {
        [MGPU_CONVOLUTION_Y] = {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
                                CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
                                CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA,
                                CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
                                {CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
                                 CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W}},
        [MGPU_CONVOLUTION_X] = {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
                                CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
                                CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA,
                                CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
                                {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
                                 CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W}},
        [MGPU_CONVOLUTION_W] = {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
                                CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
                                CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA,
                                CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
                                {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
                                 CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW}}};
    static const float ONE = 1, ZERO = 0;
    cudnnBackendDescriptor_t to = make(l, d, c, OPERATION[v->result].descriptor);
    set(l, d, -1, to, OPERATION[v->result].alpha, CUDNN_TYPE_FLOAT, 1, &ONE);
    set(l, d, -1, to, OPERATION[v->result].beta, CUDNN_TYPE_FLOAT, 1, &ZERO);
    set_descriptor(l, d, to, OPERATION[v->result].windows, describe_windows(l, d, v, c));
    for (int i = 0; i < TENSORS; i++)
        set_descriptor(l, d, to, OPERATION[v->result].tensor[i], describe_tensor(l, d, v, c, i));
    check(l, d, -1, l->f.finalize(to), "cudnnBackendFinalize of an operation");
    return to;
}

/* ---- the choice */

/* Results that are not deterministic, or rounding beyond what the model allows: tensor cores round f32 to tf32. */
static bool is_unwanted(const mgpu_library_convolution *v, int note)
{
    return note == CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC || note == CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS ||
           note == CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION || note == CUDNN_NUMERICAL_NOTE_FFT ||
           note == CUDNN_NUMERICAL_NOTE_WINOGRAD || (note == CUDNN_NUMERICAL_NOTE_TENSOR_CORE && v->type == MGPU_F32 && !v->tf32);
}

static bool may_use(const Cudnn *l, const CudaDevice *d, const mgpu_library_convolution *v, PlanChoice *c,
                    cudnnBackendDescriptor_t configuration)
{
    cudnnBackendDescriptor_t engine = make(l, d, c, CUDNN_BACKEND_ENGINE_DESCRIPTOR);
    int note[CUDNN_NUMERICAL_NOTE_TYPE_COUNT];
    int64_t count = 0;
    bool may = true;
    check(l, d, -1,
          l->f.get_attribute(configuration, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count, &engine),
          "cudnnBackendGetAttribute of an engine");
    check(l, d, -1,
          l->f.get_attribute(engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE, MGPU_COUNT(note), &count, note),
          "cudnnBackendGetAttribute of an engine's notes");
    for (int i = 0; i < count; i++)
        may = may && !is_unwanted(v, note[i]);
    return may;
}

/* Returns NULL if the engine does not support it here, or needs more than `workspace`. */
static cudnnBackendDescriptor_t make_plan(Cudnn *l, const CudaDevice *d, PlanChoice *c, cudnnBackendDescriptor_t configuration,
                                          int64_t workspace)
{
    cudnnBackendDescriptor_t plan = make(l, d, c, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    int64_t bytes = 0, count;
    set(l, d, -1, plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &l->handle);
    set_descriptor(l, d, plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, configuration);
    cudnnStatus_t status = l->f.finalize(plan);
    if (status) {
        l->why = status;
        return NULL;
    }
    check(l, d, -1, l->f.get_attribute(plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, &count, &bytes),
          "cudnnBackendGetAttribute of a workspace");
    return bytes <= workspace ? plan : NULL;
}

/* Gets configurations of engines by one of the library's heuristics, the best first; returns their number. */
static int ask(Cudnn *l, const CudaDevice *d, PlanChoice *c, cudnnBackendDescriptor_t graph, int mode,
               cudnnBackendDescriptor_t *configuration)
{
    cudnnBackendDescriptor_t rules = make(l, d, c, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    int64_t count = 0;
    set_descriptor(l, d, rules, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph);
    set(l, d, -1, rules, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
    cudnnStatus_t status = l->f.finalize(rules);
    for (int i = 0; i < CONFIGURATIONS && !status; i++)
        configuration[i] = make(l, d, c, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    if (!status)
        status = l->f.get_attribute(rules, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, CONFIGURATIONS, &count,
                                    configuration);
    l->why = status ? status : l->why;
    if (!is_refusal(status))
        check(l, d, -1, status, "cudnnBackendGetAttribute of engines");
    return status ? 0 : (int)(count < CONFIGURATIONS ? count : CONFIGURATIONS);
}

static void choose(Cudnn *l, const CudaDevice *d, const mgpu_library_convolution *v, PlanChoice *c, int64_t workspace)
{
    static const int MODE[] = {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK};
    cudnnBackendDescriptor_t operation = describe_operation(l, d, v, c),
                             graph = make(l, d, c, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    cudnnBackendDescriptor_t configuration[CONFIGURATIONS];
    set(l, d, -1, graph, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &l->handle);
    set_descriptor(l, d, graph, CUDNN_ATTR_OPERATIONGRAPH_OPS, operation);
    cudnnStatus_t status = l->f.finalize(graph);
    if (!is_refusal(status))
        check(l, d, -1, status, "cudnnBackendFinalize of a graph");
    l->why = status ? status : l->why;
    int wanted = l->tuning ? CANDIDATES : 1;
    for (int k = 0; k < MGPU_COUNT(MODE) && !status && c->candidates < wanted; k++) {
        int count = ask(l, d, c, graph, MODE[k], configuration);
        for (int i = 0; i < count && c->candidates < wanted; i++) {
            cudnnBackendDescriptor_t plan =
                may_use(l, d, v, c, configuration[i]) ? make_plan(l, d, c, configuration[i], workspace) : NULL;
            if (plan)
                c->candidate[c->candidates++] = plan;
        }
    }
    c->plan = c->candidate[0];
}

/* ---- running */

/* matrices that are transposed between memory and the library's order */
typedef struct Transposition {
    int64_t count, rows, columns, from_pitch, from_apart, to_pitch, to_apart;
} Transposition;

static Transposition transposition_of(const mgpu_library_convolution *v)
{
    int64_t taps = taps_of(v), in = v->in / v->groups, out = v->out;
    if (v->filter == MGPU_FILTER_TAPS_IN_OUT)
        return (Transposition){taps, in, out, out, in * out, taps * in, in};
    return (Transposition){out, in, taps, taps, in * taps, in, taps * in};
}

static Transposition inverse(Transposition t)
{
    return (Transposition){t.count, t.columns, t.rows, t.to_pitch, t.to_apart, t.from_pitch, t.from_apart};
}

static void transpose(const Cudnn *l, const CudaDevice *d, int lane, const mgpu_library_convolution *v, void *to,
                      const void *from, Transposition t)
{
    int64_t tiles =
        t.count * ((t.rows + MGPU_TRANSPOSED - 1) / MGPU_TRANSPOSED) * ((t.columns + MGPU_TRANSPOSED - 1) / MGPU_TRANSPOSED);
    void *parameters[] = {&to, &from, &t.count, &t.rows, &t.columns, &t.from_pitch, &t.from_apart, &t.to_pitch, &t.to_apart};
    CUfunction function = l->transpose[v->type == MGPU_F64 ? 2 : v->type == MGPU_F32];
    mgpu_cuda_check(d, lane,
                    d->cuda->launch_kernel(function, (unsigned)(tiles < MOST_BLOCKS ? tiles : MOST_BLOCKS), 1, 1,
                                           MGPU_TRANSPOSED * MGPU_TRANSPOSED_ROWS, 1, 1, 0, d->stream[MGPU_COMP], parameters,
                                           NULL),
                    "cuLaunchKernel");
}

static cudnnStatus_t execute(const Cudnn *l, const CudaDevice *d, int lane, cudnnBackendDescriptor_t plan,
                             void *const at[TENSORS], void *work)
{
    static const int64_t ID[] = {Y, X, W};
    PlanChoice pack = {0};
    cudnnBackendDescriptor_t p = make(l, d, &pack, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    set(l, d, lane, p, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, TENSORS, ID);
    set(l, d, lane, p, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, TENSORS, at);
    set(l, d, lane, p, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &work);
    check(l, d, lane, l->f.finalize(p), "cudnnBackendFinalize of pointers");
    cudnnStatus_t status = l->f.execute(l->handle, plan, p);
    drop_choice(l, d, &pack);
    return status;
}

/* argument: as in the call. Transposes weights as necessary, and returns the library's status. */
static cudnnStatus_t convolve(const Cudnn *l, const CudaDevice *d, int lane, const mgpu_library_convolution *v,
                              cudnnBackendDescriptor_t plan, void *const *argument)
{
    void *work = (void *)(uintptr_t)l->work, *w = argument[v->w], *own = filter_bytes(v) ? work : w;
    void *const at[] = {[Y] = argument[v->y], [X] = argument[v->x], [W] = own};
    if (own != w && v->result != MGPU_CONVOLUTION_W)
        transpose(l, d, lane, v, own, w, transposition_of(v));
    cudnnStatus_t status = execute(l, d, lane, plan, at, (uint8_t *)work + filter_bytes(v));
    if (own != w && v->result == MGPU_CONVOLUTION_W && !status)
        transpose(l, d, lane, v, w, own, inverse(transposition_of(v)));
    return status;
}

/* Weights in the library's order are read in place; a transposed copy is aligned. */
static bool is_aligned(const mgpu_library_convolution *v, void *const *argument)
{
    uintptr_t places = (uintptr_t)argument[v->x] | (uintptr_t)argument[v->y] | (filter_bytes(v) ? 0 : (uintptr_t)argument[v->w]);
    return places % ALIGNMENT == 0;
}

/* Tries the convolution once, where the kernel can still be used instead, with the real operands in the unused arena. The trial
 * also loads what cannot be loaded during a capture. */
static void try_convolution(const CudaDevice *d, Cudnn *l, const mgpu_library_convolution *v, PlanChoice *c,
                            void *const *argument)
{
    mgpu_cuda_declare(d, MGPU_COMP, "a convolution that is tried", NULL, -1);
    cudnnStatus_t status = convolve(l, d, -1, v, c->plan, argument);
    if (!is_refusal(status))
        check(l, d, -1, status, "cudnnBackendExecute of a convolution that is tried");
    l->why = status ? status : l->why;
    if (status)
        drop_choice(l, d, c);
}

/* ---- --tune */

/* Returns a key of everything that times depend on. The name of the function includes what it is compiled for. */
static char *key_of(const CudaDevice *d, const Cudnn *l, const mgpu_op *op)
{
    const mgpu_library_convolution *v = d->kernels[op->target].convolution;
    char *key =
        mgpu_format("cudnn %zu, %s: convolution %d of %s%s, weights %d, samples %lld, channels %lld %lld by %lld, work %lld:",
                    l->f.get_version(), d->kernels[mgpu_cuda_row(d, op->target)].launch[0].function, v->result,
                    mgpu_dtype_name(v->type), v->tf32 ? " tf32" : "", v->filter, (long long)d->samples, (long long)v->in,
                    (long long)v->out, (long long)v->groups, (long long)l->work_bytes);
    for (int i = 0; i < v->dims; i++) {
        char *longer = mgpu_format("%s %lldx%lld=%lld/%lld/%lld+%lld+%lld", key, (long long)v->inputs[i], (long long)v->taps[i],
                                   (long long)v->outputs[i], (long long)v->stride[i], (long long)v->dilation[i],
                                   (long long)v->low[i], (long long)v->high[i]);
        free(key);
        key = longer;
    }
    return key;
}

typedef struct ConvolutionTrial {
    const Cudnn *l;
    const mgpu_device_phase *phase;
    const mgpu_op *op;
    const PlanChoice *choice;
    void *const *argument;
} ConvolutionTrial;

static bool run_alternative(const CudaDevice *d, const void *context, int alternative)
{
    const ConvolutionTrial *t = context;
    if (alternative > 0)
        return convolve(t->l, d, -1, d->kernels[t->op->target].convolution, t->choice->candidate[alternative - 1], t->argument) ==
               CUDNN_STATUS_SUCCESS;
    mgpu_cuda_launch_first(d, t->phase, t->op);
    return true;
}

static void tune(const CudaDevice *d, Cudnn *l, const ConvolutionTrial *t, PlanChoice *c)
{
    char *key = key_of(d, l, t->op);
    c->times = mgpu_time_alternatives(
        d, l->tuning, &(Alternatives){.key = key, .count = 1 + c->candidates, .usual = 0, .run = run_alternative, .context = t});
    free(key);
    bool faster = c->times.best > 0 && c->times.best_us < c->times.kernel_us;
    c->plan = faster ? c->candidate[c->times.best - 1] : NULL;
    c->times.best_us = faster ? c->times.best_us : c->times.kernel_us;
}

static void prepare_kernel(const CudaDevice *d, Cudnn *l, const mgpu_device_phase *p, const mgpu_op *op, PlanChoice *c)
{
    const mgpu_library_convolution *v = d->kernels[op->target].convolution;
    void *argument[3];
    for (int i = 0; i < MGPU_COUNT(argument); i++)
        argument[i] = mgpu_cuda_argument(d, p, op, i);
    if (c->asked || !is_aligned(v, argument) || !(l->all || is_known_faster(v)))
        return;
    c->asked = true;
    choose(l, d, v, c, l->work_bytes - filter_bytes(v));
    bool tuned = c->plan && l->tuning;
    if (tuned)
        tune(d, l, &(ConvolutionTrial){l, p, op, c, argument}, c);
    if (c->plan)
        try_convolution(d, l, v, c, argument);
    else if (!tuned)
        drop_choice(l, d, c);
    l->done += c->plan != NULL;
    l->refused += !c->plan && !tuned;
}

static void prepare_phase(const CudaDevice *d, Cudnn *l, const mgpu_device_phase *p)
{
    for (const mgpu_op *op = p->ops; op < p->ops + p->op_count; op++) {
        if (op->verb != MGPU_CALL || !d->kernels[op->target].convolution)
            continue;
        PlanChoice *c = &l->choices[op->target];
        prepare_kernel(d, l, p, op, c);
        if (l->tuning && c->times.kernel_us > 0)
            mgpu_tuning_set(l->tuning, op, mgpu_tuning_usual_us(l->tuning, op, c->times.usual_us), c->times.best_us);
    }
}

void mgpu_cudnn_prepare(const CudaDevice *d, Cudnn *l, Tuning *tuning, char *description, size_t capacity)
{
    mgpu_cuda_enter(d, -1);
    l->tuning = tuning;
    l->all = wants_all(tuning != NULL);
    for (int k = 0; k < d->plan->phase_count; k++)
        prepare_phase(d, l, &d->plan->phases[k].devices[d->number]);
    l->tuning = NULL;
    mgpu_cuda_check(d, -1, d->cuda->stream_synchronize(d->stream[MGPU_COMP]),
                    "cuStreamSynchronize of convolutions that are tried");
    size_t used = strlen(description);
    snprintf(description + used, capacity - used, ", %d convolution%s", l->done, l->done == 1 ? "" : "s");
    used = strlen(description);
    if (l->refused)
        snprintf(description + used, capacity - used, l->why ? ", %d by kernels (%s)" : ", %d by kernels", l->refused,
                 l->f.get_error_string(l->why));
}

int mgpu_cudnn_run(const CudaDevice *d, const Cudnn *l, const DeviceCall *call)
{
    const mgpu_library_convolution *v = d->kernels[call->op->target].convolution;
    const PlanChoice *c = &l->choices[call->op->target];
    if (!c->plan || !is_aligned(v, call->argument))
        return 0;
    check(l, d, MGPU_COMP, convolve(l, d, MGPU_COMP, v, c->plan, call->argument), "cudnnBackendExecute");
    return 1 + (filter_bytes(v) > 0);
}
