/* cudnn_test: NVIDIA's cuDNN, where the machine has it, without a GPU: it takes descriptors, refuses what is wrong with the
 * statuses of cudnn_cases.h, and from 9.8 on plans for a GPU whose properties it is told. So the convolutions that a program may
 * ask for are planned for an H100 here: for each kind and type there is an engine that runtime/cuda/cudnn.c would take; and there
 * is none for an f32 gradient of operands in 16 bits, which compiler/target/cuda/convolution.c leaves to kernels. What it
 * computes is not seen. */
#include "cudnn_cases.h"

enum {
    CUDNN_TYPE_CHAR = 24,
    CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR = 38,
    CUDNN_ATTR_ENGINEHEUR_DEVICEPROP = 204,
    CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP = 407,
    CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION = 2702,
    MOST = 64,
    WORKSPACE = 32 << 20
};

static const char H100[] =
    "{\"maxGridSize\":[2147483647,65535,65535],\"maxBlockSize\":[1024,1024,64],\"regsPerBlock\":65536,\"multiProcessorCount\":132,\"warpSize\":32,"
    "\"maxSharedMemoryPerBlock\":49152,\"maxSharedMemoryPerBlockOptin\":232448,\"reservedSharedMemoryPerBlock\":1024,\"maxRegistersPerSM\":65536,"
    "\"maxCtasPerSM\":32,\"maxThreadsPerBlock\":1024,\"maxThreadsPerSM\":2048,\"pciDeviceId\":0,\"isTccDriver\":0,\"supportCoopLaunch\":1,"
    "\"totalGlobalMem\":85000000000,\"smClockRateKHz\":1980000,\"memClockRateKHz\":2619000,\"l2CacheSize\":52428800,\"cudaDeviceId\":0,"
    "\"deviceVer\":900,\"driverVer\":13000,\"deviceName\":\"NVIDIA H100 80GB HBM3\"}";

static cudnnBackendDescriptor_t gpu;

static bool describe_gpu(void)
{
    return !dnn.descriptor_create(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, &gpu) &&
           !dnn.set_attribute(gpu, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR, sizeof H100 - 1, H100) &&
           !dnn.finalize(gpu);
}

/* as is_unwanted of runtime/cuda/cudnn.c, with precision = f32 or tf32 */
static bool may_use(cudnnBackendDescriptor_t configuration, bool exact)
{
    cudnnBackendDescriptor_t engine = new_descriptor(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
    int note[CUDNN_NUMERICAL_NOTE_TYPE_COUNT];
    int64_t count = 0;
    bool may =
        !dnn.get_attribute(configuration, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count, &engine) &&
        !dnn.get_attribute(engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE, CUDNN_NUMERICAL_NOTE_TYPE_COUNT,
                           &count, note);
    for (int i = 0; i < count; i++)
        may = may && !(note[i] >= CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS && note[i] <= CUDNN_NUMERICAL_NOTE_WINOGRAD) &&
              !(note[i] == CUDNN_NUMERICAL_NOTE_TENSOR_CORE && exact);
    return may;
}

static bool has_plan(cudnnBackendDescriptor_t configuration)
{
    cudnnBackendDescriptor_t plan = new_descriptor(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    int64_t count, bytes = 0;
    return !dnn.set_attribute(plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &configuration) &&
           !dnn.set_attribute(plan, CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &gpu) &&
           !dnn.finalize(plan) &&
           !dnn.get_attribute(plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, &count, &bytes) &&
           bytes <= WORKSPACE;
}

/* an engine that a program would take; -1: the library refuses the graph. named: what its rules name */
static int usable(const DnnCase *c, bool exact, int64_t *named)
{
    static const int MODE[] = {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK};
    cudnnStatus_t status;
    cudnnBackendDescriptor_t graph = new_graph(c, NULL, &status), configuration[MOST];
    *named = 0;
    for (int k = 0; k < 2 && !status; k++) {
        cudnnBackendDescriptor_t rules = new_descriptor(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
        int64_t count = 0;
        dnn.set_attribute(rules, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &graph);
        dnn.set_attribute(rules, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &MODE[k]);
        dnn.set_attribute(rules, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &gpu);
        if (dnn.finalize(rules))
            continue;
        for (int i = 0; i < MOST; i++)
            configuration[i] = new_descriptor(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
        if (dnn.get_attribute(rules, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, MOST, &count, configuration))
            count = 0;
        for (int i = 0; i < count && i < MOST; i++, ++*named)
            if (may_use(configuration[i], exact) && has_plan(configuration[i]))
                return 1;
    }
    return status ? -1 : 0;
}

static void test_plans(void)
{
    static const struct {
        const char *name;
        int type, weights;
        bool exact;
    } TYPES[] = {{"bf16", CUDNN_DATA_BFLOAT16, CUDNN_DATA_BFLOAT16, false},
                 {"f16", CUDNN_DATA_HALF, CUDNN_DATA_HALF, false},
                 {"f32", CUDNN_DATA_FLOAT, CUDNN_DATA_FLOAT, true},
                 {"tf32", CUDNN_DATA_FLOAT, CUDNN_DATA_FLOAT, false},
                 {"f64", CUDNN_DATA_DOUBLE, CUDNN_DATA_DOUBLE, false}};
    static const char *const KIND[] = {"forward", "data", "weights"};
    static const DnnCase SHAPES[] = {
        {.samples = 32, .in = 64, .out = 64, .side = 56, .size = 3, .stride = 1, .low = 1, .high = 1, .groups = 1},
        {.samples = 32, .in = 128, .out = 128, .side = 56, .size = 3, .stride = 2, .low = 1, .high = 1, .groups = 1},
        {.samples = 32, .in = 256, .out = 512, .side = 56, .size = 1, .stride = 2, .low = 0, .high = 0, .groups = 1},
        {.samples = 32, .in = 3, .out = 64, .side = 224, .size = 7, .stride = 2, .low = 3, .high = 3, .groups = 1},
        {.samples = 33, .in = 3, .out = 5, .side = 13, .size = 4, .stride = 1, .low = 2, .high = 1, .groups = 1},
        {.samples = 16, .in = 64, .out = 64, .side = 28, .size = 3, .stride = 1, .low = 1, .high = 1, .groups = 4}};
    int64_t named;
    for (int t = 0; t < (int)(sizeof TYPES / sizeof *TYPES); t++)
        for (int kind = FORWARD; kind <= WEIGHTS; kind++) {
            int with = 0, count = (int)(sizeof SHAPES / sizeof *SHAPES);
            for (int i = 0; i < count; i++) {
                DnnCase c = SHAPES[i];
                c.kind = kind;
                c.type = TYPES[t].type;
                c.weights_type = TYPES[t].weights;
                with += usable(&c, TYPES[t].exact, &named) > 0;
                free_descriptors();
            }
            printf("%s plans on an H100, %s %s: %d of %d\n", with == count ? "ok" : "not ok", TYPES[t].name, KIND[kind], with,
                   count);
        }
    DnnCase mixed = SHAPES[0];
    mixed.kind = WEIGHTS;
    mixed.type = CUDNN_DATA_BFLOAT16;
    mixed.weights_type = CUDNN_DATA_FLOAT;
    int found = usable(&mixed, false, &named);
    printf("%s no plan on an H100 for f32 weights' gradients of bf16: %d of %d\n", found <= 0 ? "ok" : "not ok", found,
           (int)named);
    free_descriptors();
    dnn.descriptor_destroy(gpu);
}

int main(void)
{
    static const char *const NAMES[] = {"libcudnn.so.9", "/usr/local/cuda/lib64/libcudnn.so.9",
                                        "/usr/local/cuda/lib/libcudnn.so.9", "/usr/local/cuda-13.0/lib/libcudnn.so.9"};
    void *library = NULL;
    for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES && !library; i++)
        library = dlopen(NAMES[i], RTLD_LAZY | RTLD_LOCAL);
    if (!library) {
        printf("skip cudnn_test: there is no cuDNN here\n");
        return 0;
    }
    if (!find_functions(library))
        return 0;
    printf("%s version %zu\n", dnn.get_version() >= 90000 && dnn.get_version() < 100000 ? "ok" : "not ok", dnn.get_version());
    test_statuses();
    if (describe_gpu())
        test_plans();
    else
        printf("skip plans on an H100: this cuDNN plans for GPUs that are here only\n");
    return 0;
}
