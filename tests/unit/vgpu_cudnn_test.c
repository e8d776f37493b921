/* vgpu_cudnn_test: the virtual GPU's cuDNN (tests/vgpu/cudnn.c): convolutions against sums by hand; the statuses of calls that
 * are wrong, which are those of NVIDIA's library (cudnn_test.c); and what it says of a plan that is misused: a program that is
 * right, and one with the planted bug. */
#include <math.h>

#include "cudnn_cases.h"
#include "vgpu_machine.h"

enum { SAMPLES = 2, IN = 2, OUT = 3, SIDE = 5, SIZE = 3, STRIDE_OF_WINDOWS = 2, OUTPUTS = 3, SAFE = 2048 /* floats after b */ };
static const DnnCase PLAIN = {FORWARD, CUDNN_DATA_FLOAT, CUDNN_DATA_FLOAT, SAMPLES, IN, OUT, SIDE, SIZE, STRIDE_OF_WINDOWS, 1, 1,
                              1};
static cudnnHandle_t handle;

static void well(cudnnStatus_t status, int line)
{
    if (status == CUDNN_STATUS_SUCCESS || violation(0))
        return;
    printf("line %d: %s\n", line, dnn.get_error_string(status));
    fflush(stdout);
    _exit(9);
}
#define WELL(call) well(call, __LINE__)

static void open_library(void)
{
    void *library = dlopen(MGPU_BINARY "/vgpu/libcudnn.so.9", RTLD_NOW);
    use(0);
    if (!library || !find_functions(library) || dnn.create(&handle) != CUDNN_STATUS_SUCCESS)
        _exit(9);
    WELL(dnn.set_stream(handle, gpu[0].stream[0]));
}

static bool has_note(cudnnBackendDescriptor_t configuration, int wanted)
{
    cudnnBackendDescriptor_t engine = new_descriptor(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
    int note[CUDNN_NUMERICAL_NOTE_TYPE_COUNT];
    int64_t count;
    WELL(dnn.get_attribute(configuration, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count, &engine));
    WELL(dnn.get_attribute(engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE, CUDNN_NUMERICAL_NOTE_TYPE_COUNT,
                           &count, note));
    for (int i = 0; i < count; i++)
        if (note[i] == wanted)
            return true;
    return false;
}

/* by the fallback's engine; wrong: by the rules' favourite, whose bits differ from run to run */
static cudnnBackendDescriptor_t new_plan(const DnnCase *c, bool favourite)
{
    int mode = favourite ? CUDNN_HEUR_MODE_A : CUDNN_HEUR_MODE_FALLBACK;
    cudnnStatus_t status;
    int64_t count;
    cudnnBackendDescriptor_t graph = new_graph(c, handle, &status), rules = new_descriptor(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    cudnnBackendDescriptor_t configuration = new_descriptor(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR),
                             plan = new_descriptor(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    WELL(status);
    WELL(dnn.set_attribute(rules, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &graph));
    WELL(dnn.set_attribute(rules, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode));
    WELL(dnn.finalize(rules));
    WELL(dnn.get_attribute(rules, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count, &configuration));
    if (has_note(configuration, CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC) != favourite)
        printf("the wrong engine comes first\n");
    WELL(dnn.set_attribute(plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle));
    WELL(dnn.set_attribute(plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &configuration));
    WELL(dnn.finalize(plan));
    return plan;
}

static void run(cudnnBackendDescriptor_t plan, CUdeviceptr y, CUdeviceptr x, CUdeviceptr w)
{
    cudnnBackendDescriptor_t pack = new_descriptor(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    void *const at[] = {(void *)(uintptr_t)y, (void *)(uintptr_t)x, (void *)(uintptr_t)w}, *work = (void *)(uintptr_t)gpu[0].w;
    WELL(dnn.set_attribute(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, 3, (int64_t[]){DNN_Y, DNN_X, DNN_W}));
    WELL(dnn.set_attribute(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, 3, at));
    WELL(dnn.set_attribute(pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &work));
    WELL(dnn.finalize(pack));
    WELL(dnn.execute(handle, plan, pack));
}

/* ---- values: operands are parts of a, a[i] = i */

enum {
    Y_COUNT = SAMPLES * OUTPUTS * OUTPUTS * OUT,
    X_COUNT = SAMPLES * SIDE * SIDE * IN,
    W_COUNT = OUT * SIZE * SIZE * IN,
    OTHER = 256 /* where the second begins */
};
static int values_of;

static void by_hand(int kind, double *y, double *x, double *w)
{
    for (int n = 0; n < SAMPLES; n++)
        for (int p = 0; p < OUTPUTS * OUTPUTS * OUT; p++)
            for (int k = 0; k < SIZE * SIZE * IN; k++) {
                int row = p / OUT / OUTPUTS * STRIDE_OF_WINDOWS + k / IN / SIZE - 1,
                    column = p / OUT % OUTPUTS * STRIDE_OF_WINDOWS + k / IN % SIZE - 1;
                if (row < 0 || row >= SIDE || column < 0 || column >= SIDE)
                    continue;
                double *of_y = &y[n * OUTPUTS * OUTPUTS * OUT + p], *of_x = &x[((n * SIDE + row) * SIDE + column) * IN + k % IN];
                double *of_w = &w[p % OUT * SIZE * SIZE * IN + k];
                *(kind == FORWARD ? of_y
                  : kind == DATA  ? of_x
                                  : of_w) += kind == FORWARD ? *of_x * *of_w
                                            : kind == DATA  ? *of_y * *of_w
                                                            : *of_y * *of_x;
            }
}

static void values(int wrong)
{
    static const int COUNTS[] = {Y_COUNT, X_COUNT, W_COUNT};
    double y[Y_COUNT] = {0}, x[X_COUNT] = {0}, w[W_COUNT] = {0}, *const all[] = {y, x, w};
    float is[X_COUNT + Y_COUNT + W_COUNT];
    DnnCase c = PLAIN;
    CUdeviceptr at[3], next = gpu[0].a;
    (void)wrong;
    c.kind = values_of;
    open_library();
    for (int i = 0; i < 3; i++) {
        at[i] = i == c.kind ? gpu[0].b : next;
        for (int k = 0; i != c.kind && k < COUNTS[i]; k++)
            all[i][k] = (double)((next - gpu[0].a) / 4) + k;
        next += i == c.kind ? 0 : 4 * OTHER;
    }
    run(new_plan(&c, false), at[DNN_Y], at[DNN_X], at[DNN_W]);
    by_hand(c.kind, y, x, w);
    download(0, is, gpu[0].b, COUNTS[c.kind]);
    for (int k = 0; k < COUNTS[c.kind]; k++)
        if (fabs((double)is[k] - all[c.kind][k]) > 1e-6 * fabs(all[c.kind][k]))
            printf("element %d: %g, not %g\n", k, (double)is[k], all[c.kind][k]);
}

static cudnnStatus_t without_context(void)
{
    cudnnHandle_t none;
    MUST(cu->ctx_set_current(NULL));
    cudnnStatus_t status = dnn.create(&none);
    use(0);
    return status;
}

/* [taps, in, out]: NVIDIA's library takes it, as if it were [out, taps, in] */
static cudnnStatus_t other_order(void)
{
    cudnnBackendDescriptor_t w = new_tensor(CUDNN_DATA_FLOAT, DNN_W, 16, (int64_t[]){6, 4, 3, 3}, (int64_t[]){1, 6, 72, 24}),
                             windows = new_windows(CUDNN_DATA_FLOAT, 2, 1, 1, 0, 0);
    cudnnBackendDescriptor_t graph = new_descriptor(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    WELL(dnn.finalize(w));
    WELL(dnn.finalize(windows));
    cudnnBackendDescriptor_t operation = new_operation(FORWARD, windows, new_packed(CUDNN_DATA_FLOAT, DNN_Y, 2, 6, 6),
                                                       new_packed(CUDNN_DATA_FLOAT, DNN_X, 2, 4, 8), w);
    WELL(dnn.finalize(operation));
    WELL(dnn.set_attribute(graph, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &operation));
    return dnn.finalize(graph);
}

static void statuses(int wrong)
{
    (void)wrong;
    open_library();
    DNN_CASE("a handle without a context", without_context(), NOT_INITIALIZED);
    DNN_CASE("weights in another order", other_order(), NOT_SUPPORTED_LAYOUT);
    test_statuses();
}

static void test_lines(void)
{
    static const char *const KIND[] = {"y", "x", "w"};
    char report[REPORT], title[80];
    for (values_of = FORWARD; values_of <= WEIGHTS; values_of++) {
        int status = in_process(NULL, 1, "vgpu", values, 0, report);
        snprintf(title, sizeof title, "convolutions, result %s", KIND[values_of]);
        result(!status && !*report, title, report);
    }
    int status = in_process(NULL, 1, "vgpu", statuses, 0, report);
    fputs(report, stdout);
    result(!status && strstr(report, "ok fewer pointers than ids") && !strstr(report, "not ok"),
           "statuses, most of them those of NVIDIA's library", "see above");
}

/* ---- planted bugs */

static void alignment(int wrong)
{
    open_library();
    run(new_plan(&PLAIN, false), gpu[0].b, gpu[0].a + (wrong ? 4u : 16u), gpu[0].a);
}

static void outside(int wrong)
{
    open_library();
    run(new_plan(&PLAIN, false), gpu[0].b + (wrong ? 4 * (FLOATS - 32) : 4 * (FLOATS - 64)), gpu[0].a, gpu[0].a);
}

static void engine(int wrong)
{
    open_library();
    run(new_plan(&PLAIN, wrong), gpu[0].b, gpu[0].a, gpu[0].a);
}

static void other_stream(int wrong)
{
    open_library();
    WELL(dnn.set_stream(handle, gpu[wrong].stream[1]));
    run(new_plan(&PLAIN, false), gpu[0].b, gpu[0].a, gpu[0].a);
}

static void captured(int wrong)
{
    CUgraph graph;
    open_library();
    cudnnBackendDescriptor_t plan = new_plan(&PLAIN, false);
    if (!wrong)
        run(plan, gpu[0].b, gpu[0].a, gpu[0].a);
    MUST(cu->stream_begin_capture(gpu[0].stream[0], CU_STREAM_CAPTURE_MODE_RELAXED));
    run(plan, gpu[0].b, gpu[0].a, gpu[0].a);
    MUST(cu->stream_end_capture(gpu[0].stream[0], &graph));
}

static void undeclared(int wrong)
{
    open_library();
    cudnnBackendDescriptor_t plan = new_plan(&PLAIN, false);
    const CudaRange ranges[] = {range_of(gpu[0].a, 0, OTHER, 0, "d0.a"),
                                range_of(gpu[0].b, 0, wrong ? Y_COUNT - 1 : Y_COUNT, 1, "d0.y"),
                                range_of(gpu[0].w, 0, FLOATS, 1, "d0.work")};
    declare(gpu[0].stream[0], "d0.c1", ranges, 3);
    run(plan, gpu[0].b, gpu[0].a, gpu[0].a);
}

/* weights in the workspace: the operation may read what it has written there before, and nothing else */
static void unwritten(int wrong)
{
    open_library();
    cudnnBackendDescriptor_t plan = new_plan(&PLAIN, false);
    const CudaRange ranges[] = {range_of(gpu[0].a, 0, OTHER, 0, "d0.a"), range_of(gpu[0].b, 0, FLOATS, 1, "d0.y"),
                                range_of(gpu[0].w, 0, FLOATS, 1, "d0.work")};
    declare(gpu[0].stream[0], "d0.c1", ranges, 3);
    if (!wrong)
        MUST(cu->memset_d8_async(gpu[0].b + 4 * SAFE, 0, 4 * W_COUNT, gpu[0].stream[0]));
    run(plan, gpu[0].b, gpu[0].a, gpu[0].b + 4 * SAFE);
}

int main(void)
{
    open_scratch();
    test_lines();
    both("a tensor that is not aligned", NULL, "vgpu", alignment, "library", "not aligned as was said");
    both("a result outside its memory", NULL, "vgpu", outside, "library", "not inside memory of its device");
    both("an engine whose bits differ", NULL, "vgpu", engine, "library", "bits differ from run to run");
    both("a convolution on another device's stream", NULL, "vgpu", other_stream, "library", "a stream of another device");
    both("a plan captured before it ran once", NULL, "vgpu", captured, "library", "captured before its plan has run once");
    both("an access that is not declared", NULL, "vgpu", undeclared, "undeclared", "d0.c1 (cudnnBackendExecute) writes");
    both("weights that nobody has written", NULL, "vgpu", unwritten, "undeclared", "d0.c1 (cudnnBackendExecute) reads");
    return failures != 0;
}
