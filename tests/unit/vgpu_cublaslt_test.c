/* vgpu_cublaslt_test: the virtual GPU's cuBLASLt (tests/vgpu/cublaslt.c): matmuls, transposed and in batches, and their epilogues
 * against sums by hand; and what it says of calls that are wrong: a program that is right, and one with the planted bug. */
#include <math.h>

#include "runtime/cuda/cublaslt.h"
#include "vgpu_machine.h"

#define CUBLASLT_FIELD(result, symbol, field, parameters) result(*field) parameters;
static struct {
    CUBLASLT_FUNCTIONS(CUBLASLT_FIELD)
} lt;
static cublasLtHandle_t handle;

static void open_library(void)
{
    void *library = dlopen(MGPU_BINARY "/vgpu/libcublasLt.so.13", RTLD_NOW), *at;
#define LOOK_UP(result, symbol, field, parameters) memcpy(&lt.field, (at = dlsym(library, #symbol), &at), sizeof lt.field);
    CUBLASLT_FUNCTIONS(LOOK_UP)
    use(0);
    if (lt.create(&handle) != CUBLAS_STATUS_SUCCESS)
        _exit(9);
}

static void well(cublasStatus_t status, int line)
{
    if (status == CUBLAS_STATUS_SUCCESS || violation(0))
        return;
    printf("line %d: %s\n", line, lt.get_status_name(status));
    fflush(stdout);
    _exit(9);
}
#define WELL(call) well(call, __LINE__)

enum {
    ROWS = 5,
    COLUMNS = 7,
    DEPTH = 6,
    MEMBERS = 2,
    PITCH = 8,
    HAS_AUX = 128 /* of an epilogue */,
    AUX = 1024,
    SUMS = 2048 /* floats after b */
};

typedef struct Case {
    int transposed_a, transposed_b;
    uint32_t epilogue;
    uint32_t alignment, workspace;
} Case;
typedef struct Made {
    cublasLtMatmulDesc_t desc;
    cublasLtMatrixLayout_t layout[3];
    cublasLtMatmulHeuristicResult_t choice;
} Made;

static cublasLtMatrixLayout_t layout(int rows, int columns, int64_t member)
{
    cublasLtMatrixLayout_t l;
    int32_t members = member ? MEMBERS : 1;
    WELL(lt.layout_create(&l, CUDA_R_32F, (uint64_t)rows, (uint64_t)columns, rows));
    WELL(lt.layout_set(l, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &members, sizeof members));
    WELL(lt.layout_set(l, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &member, sizeof member));
    return l;
}

static void set_aux(cublasLtMatmulDesc_t desc, int64_t pitch)
{
    CUdeviceptr aux = gpu[0].b + 4 * AUX;
    WELL(lt.desc_set(desc, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, &aux, sizeof(void *)));
    WELL(lt.desc_set(desc, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, &pitch, sizeof pitch));
}

static Made make(const Case *c, int64_t apart, CUdeviceptr bias)
{
    Made m;
    cublasLtMatmulPreference_t preference;
    int32_t transposed[] = {c->transposed_a, c->transposed_b}, type = CUDA_R_32F;
    uint64_t workspace = c->workspace;
    int count;
    WELL(lt.desc_create(&m.desc, CUBLAS_COMPUTE_32F, CUDA_R_32F));
    for (int i = 0; i < 2; i++)
        WELL(lt.desc_set(m.desc, CUBLASLT_MATMUL_DESC_TRANSA + i, &transposed[i], sizeof transposed[i]));
    WELL(lt.desc_set(m.desc, CUBLASLT_MATMUL_DESC_EPILOGUE, &c->epilogue, sizeof c->epilogue));
    WELL(lt.desc_set(m.desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof(void *)));
    WELL(lt.desc_set(m.desc, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, &type, sizeof type));
    if (c->epilogue & HAS_AUX)
        set_aux(m.desc, PITCH);
    m.layout[0] = c->transposed_a ? layout(DEPTH, ROWS, apart) : layout(ROWS, DEPTH, apart);
    m.layout[1] = c->transposed_b ? layout(COLUMNS, DEPTH, apart) : layout(DEPTH, COLUMNS, apart);
    m.layout[2] = layout(ROWS, COLUMNS, apart);
    WELL(lt.preference_create(&preference));
    WELL(lt.preference_set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace, sizeof workspace));
    for (int i = 0; i < 4; i++)
        WELL(lt.preference_set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES + i, &c->alignment, sizeof c->alignment));
    WELL(lt.get_heuristic(handle, m.desc, m.layout[0], m.layout[1], m.layout[2], m.layout[2], preference, 1, &m.choice, &count));
    return m;
}

static void run(const Made *m, CUdeviceptr a, CUdeviceptr b, CUdeviceptr d, CUdeviceptr work, size_t bytes, int stream)
{
    static const float ONE = 1, ZERO = 0;
    void *at = (void *)(uintptr_t)d;
    WELL(lt.matmul(handle, m->desc, &ONE, (const void *)(uintptr_t)a, m->layout[0], (const void *)(uintptr_t)b, m->layout[1],
                   &ZERO, at, m->layout[2], at, m->layout[2], &m->choice.algo, (void *)(uintptr_t)work, bytes,
                   gpu[0].stream[stream]));
}

/* ---- values: a[i] = i as the machine has it, b = a, the bias begins at a[BIAS] */

enum { BIAS = 4 };

static double finish_by_hand(uint32_t epilogue, int row, double sum)
{
    if (epilogue & CUBLASLT_EPILOGUE_BIAS)
        sum += row + BIAS;
    if (epilogue & CUBLASLT_EPILOGUE_RELU)
        sum = fmax(sum, 0);
    if (epilogue & CUBLASLT_EPILOGUE_GELU)
        sum = 0.5 * sum * (1 + tanh(sqrt(2 / acos(-1)) * (sum + 0.044715 * pow(sum, 3))));
    return sum;
}

static Case values_of;

static void values(int wrong)
{
    enum { APART = 64 };
    float d[MEMBERS * APART];
    Case c = values_of;
    (void)wrong;
    open_library();
    Made m = make(&c, APART, gpu[0].a + 4 * BIAS);
    run(&m, gpu[0].a, gpu[0].a, gpu[0].b, gpu[0].w, 4 * FLOATS, 0);
    download(0, d, gpu[0].b, MEMBERS * APART);
    for (int member = 0; member < MEMBERS; member++)
        for (int col = 0; col < COLUMNS; col++)
            for (int row = 0; row < ROWS; row++) {
                double sum = 0;
                for (int k = 0; k < DEPTH; k++)
                    sum += (double)(member * APART + (c.transposed_a ? row * DEPTH + k : k * ROWS + row)) *
                           (double)(member * APART + (c.transposed_b ? k * COLUMNS + col : col * DEPTH + k));
                double is = (double)d[member * APART + col * ROWS + row], should = finish_by_hand(c.epilogue, row, sum);
                if (fabs(is - should) > 1e-6 * fabs(should))
                    printf("member %d, row %d, column %d: %g, not %g\n", member, row, col, is, should);
            }
}

static void expect(const char *what, int row, int col, float is, double should)
{
    if (fabs((double)is - should) > 1e-5 * fabs(should) + 1e-6)
        printf("%s, row %d, column %d: %g, not %g\n", what, row, col, (double)is, should);
}

static double slope(double x)
{
    return (finish_by_hand(CUBLASLT_EPILOGUE_GELU, 0, x + 1e-4) - finish_by_hand(CUBLASLT_EPILOGUE_GELU, 0, x - 1e-4)) / 2e-4;
}

/* of one row of A or one column of B */
static double sum_of(const float *from, int apart)
{
    double sum = 0;
    for (int k = 0; k < DEPTH; k++)
        sum += (double)from[k * apart];
    return sum;
}

/* a batch has no bias. A gradient of gelu is that at what a matmul with gelu has left before */
static void single_values(int wrong)
{
    float small[FLOATS], b[SUMS + COLUMNS];
    Case c = values_of, forward = {0, 0, CUBLASLT_EPILOGUE_GELU_AUX_BIAS, 4, 0};
    bool gradient = c.epilogue == CUBLASLT_EPILOGUE_DGELU || c.epilogue == CUBLASLT_EPILOGUE_DGELU_BGRAD,
         left = c.epilogue & HAS_AUX;
    bool of_a = c.epilogue == CUBLASLT_EPILOGUE_BGRADA, of_b = c.epilogue == CUBLASLT_EPILOGUE_BGRADB;
    (void)wrong;
    open_library();
    for (int i = 0; i < FLOATS; i++)
        small[i] = (float)(i % 7 - 3) / 4;
    MUST(cu->memcpy_htod_async(gpu[0].w, small, sizeof small, gpu[0].stream[0]));
    if (gradient) {
        Made m = make(&forward, 0, gpu[0].a + 4 * BIAS);
        run(&m, gpu[0].w, gpu[0].w, gpu[0].b, 0, 0, 0);
    }
    bool sums = of_a || of_b || c.epilogue == CUBLASLT_EPILOGUE_DGELU_BGRAD;
    Made m = make(&c, 0, sums ? gpu[0].b + 4 * SUMS : gpu[0].a + 4 * BIAS);
    run(&m, gpu[0].w, gpu[0].w, gpu[0].b, 0, 0, 0);
    download(0, b, gpu[0].b, SUMS + COLUMNS);
    double total[ROWS] = {0};
    for (int col = 0; col < COLUMNS; col++)
        for (int row = 0; row < ROWS; row++) {
            double sum = 0;
            for (int k = 0; k < DEPTH; k++)
                sum += (double)small[k * ROWS + row] * (double)small[col * DEPTH + k];
            double x = sum + (gradient || c.epilogue & CUBLASLT_EPILOGUE_BIAS ? row + BIAS : 0);
            double should = gradient ? sum * slope(x) : finish_by_hand(c.epilogue, row, sum);
            total[row] += should;
            expect("d", row, col, b[col * ROWS + row], should);
            if (left)
                expect("aux", row, col, b[AUX + col * PITCH + row], x);
        }
    for (int i = 0; sums && i < (of_b ? COLUMNS : ROWS); i++)
        expect("sums", i, 0, b[SUMS + i], of_a ? sum_of(small + i, ROWS) : of_b ? sum_of(small + i * DEPTH, 1) : total[i]);
}

static void test_values(void)
{
    char report[REPORT], title[80];
    for (int transposed = 0; transposed < 4; transposed++) {
        values_of = (Case){transposed & 1, transposed >> 1, CUBLASLT_EPILOGUE_DEFAULT, 16, 4 * FLOATS};
        int status = in_process(NULL, 1, "vgpu", values, 0, report);
        snprintf(title, sizeof title, "matmuls, transposed %d %d", transposed & 1, transposed >> 1);
        result(!status && !*report, title, report);
    }
    static const uint32_t EPILOGUES[] = {
        CUBLASLT_EPILOGUE_BIAS,        CUBLASLT_EPILOGUE_RELU,     CUBLASLT_EPILOGUE_RELU_BIAS,     CUBLASLT_EPILOGUE_GELU,
        CUBLASLT_EPILOGUE_GELU_BIAS,   CUBLASLT_EPILOGUE_GELU_AUX, CUBLASLT_EPILOGUE_GELU_AUX_BIAS, CUBLASLT_EPILOGUE_DGELU,
        CUBLASLT_EPILOGUE_DGELU_BGRAD, CUBLASLT_EPILOGUE_BGRADA,   CUBLASLT_EPILOGUE_BGRADB};
    for (int i = 0; i < COUNT(EPILOGUES); i++) {
        values_of = (Case){0, 0, EPILOGUES[i], 4, 0};
        int status = in_process(NULL, 1, "vgpu", single_values, 0, report);
        snprintf(title, sizeof title, "epilogue %u", EPILOGUES[i]);
        result(!status && !*report, title, report);
    }
}

/* ---- planted bugs */

static const Case PLAIN = {0, 0, CUBLASLT_EPILOGUE_DEFAULT, 16, 4 * FLOATS};

static void alignment(int wrong)
{
    open_library();
    Made m = make(&PLAIN, 0, 0);
    run(&m, gpu[0].a + (wrong ? 4u : 16u), gpu[0].a, gpu[0].b, gpu[0].w, 4 * FLOATS, 0);
}

static void other_algorithm(int wrong)
{
    Case transposed = PLAIN;
    transposed.transposed_a = 1;
    open_library();
    Made m = make(&PLAIN, 0, 0), other = make(&transposed, 0, 0);
    if (wrong)
        m.choice = other.choice;
    run(&m, gpu[0].a, gpu[0].a, gpu[0].b, gpu[0].w, 4 * FLOATS, 0);
}

static void workspace(int wrong)
{
    open_library();
    Made m = make(&PLAIN, 0, 0);
    run(&m, gpu[0].a, gpu[0].a, gpu[0].b, gpu[0].w, wrong ? 8 : 4 * FLOATS, 0);
}

static void workspace_alignment(int wrong)
{
    open_library();
    Made m = make(&PLAIN, 0, 0);
    run(&m, gpu[0].a, gpu[0].a, gpu[0].b, gpu[0].w + (wrong ? 64 : 256), 4 * FLOATS - 256, 0);
}

static void bias_alignment(int wrong)
{
    const Case c = {0, 0, CUBLASLT_EPILOGUE_BIAS, 4, 0};
    open_library();
    Made m = make(&c, 0, gpu[0].a + (wrong ? 8 : 16));
    if (!wrong)
        run(&m, gpu[0].a, gpu[0].a, gpu[0].b, 0, 0, 0);
}

static void sums_alignment(int wrong)
{
    const Case c = {0, 0, CUBLASLT_EPILOGUE_BGRADB, 4, 0};
    open_library();
    Made m = make(&c, 0, gpu[0].b + 4 * SUMS + (wrong ? 8 : 16));
    if (!wrong)
        run(&m, gpu[0].a, gpu[0].a, gpu[0].b, 0, 0, 0);
}

static void outside(int wrong)
{
    open_library();
    Made m = make(&PLAIN, 0, 0);
    run(&m, gpu[0].a, gpu[0].a, gpu[0].b + (wrong ? 4 * (FLOATS - 32) : 4 * (FLOATS - 64)), gpu[0].w, 4 * FLOATS, 0);
}

static void pitch(int wrong)
{
    const Case c = {0, 0, CUBLASLT_EPILOGUE_GELU_AUX, 4, 0};
    cublasLtMatmulHeuristicResult_t choice;
    cublasLtMatmulPreference_t preference;
    int count;
    open_library();
    Made m = make(&c, 0, 0);
    WELL(lt.preference_create(&preference));
    set_aux(m.desc, 3 * PITCH + (wrong ? 2 : 0));
    WELL(lt.get_heuristic(handle, m.desc, m.layout[0], m.layout[1], m.layout[2], m.layout[2], preference, 1, &choice, &count));
}

static void gradient(int wrong)
{
    const Case forward = {0, 0, CUBLASLT_EPILOGUE_GELU_AUX, 4, 0}, backward = {0, 0, CUBLASLT_EPILOGUE_DGELU, 4, 0};
    open_library();
    Made gelu = make(&forward, 0, 0), m = make(&backward, 0, 0);
    run(&gelu, gpu[0].a, gpu[0].a, gpu[0].b, 0, 0, 0);
    if (wrong)
        MUST(cu->memcpy_htod_async(gpu[0].b + 4 * AUX, (float[]){0.5f}, sizeof(float), gpu[0].stream[0]));
    run(&m, gpu[0].a, gpu[0].a, gpu[0].b, 0, 0, 0);
}

static void other_bias(int wrong)
{
    const Case c = {0, 0, CUBLASLT_EPILOGUE_BIAS, 4, 0};
    CUdeviceptr bias = gpu[0].a + (wrong ? 4 : 32);
    open_library();
    Made m = make(&c, 0, gpu[0].a + 16);
    WELL(lt.desc_set(m.desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof(void *)));
    run(&m, gpu[0].a, gpu[0].a, gpu[0].b, 0, 0, 0);
}

static void undeclared(int wrong)
{
    open_library();
    Made m = make(&PLAIN, 0, 0);
    const CudaRange ranges[] = {range_of(gpu[0].a, 0, 64, 0, "d0.a"),
                                range_of(gpu[0].b, 0, wrong ? ROWS * COLUMNS - 1 : ROWS * COLUMNS, 1, "d0.y"),
                                range_of(gpu[0].w, 0, FLOATS, 1, "d0.work")};
    declare(gpu[0].stream[0], "d0.c1", ranges, 3);
    run(&m, gpu[0].a, gpu[0].a, gpu[0].b, gpu[0].w, 4 * FLOATS, 0);
}

static void unordered(int wrong)
{
    CUevent e = new_event();
    open_library();
    Made m = make(&PLAIN, 0, 0);
    run(&m, gpu[0].a, gpu[0].a, gpu[0].b, gpu[0].w, 4 * FLOATS, 0);
    MUST(cu->event_record(e, gpu[0].stream[0]));
    if (!wrong)
        MUST(cu->stream_wait_event(gpu[0].stream[1], e, 0));
    run(&m, gpu[0].b, gpu[0].a, gpu[0].w + 1024, gpu[0].w + 2048, 4 * FLOATS - 2048, 1);
}

int main(void)
{
    open_scratch();
    test_values();
    both("a pitch of what gelu is made of", NULL, "vgpu", pitch, "library", "that is not divisible by 8");
    both("a gradient of gelu at something else", NULL, "vgpu", gradient, "library", "no matmul with gelu has left there");
    both("a bias that is aligned less", NULL, "vgpu", other_bias, "library", "aligned less than when its algorithm was chosen");
    both("an operand that is not aligned", NULL, "vgpu", alignment, "library", "not aligned as was said");
    both("an algorithm for another matmul", NULL, "vgpu", other_algorithm, "library", "an algorithm for another matmul");
    both("a workspace that is too small", NULL, "vgpu", workspace, "library", "too small a workspace");
    both("a workspace that 256 does not divide", NULL, "vgpu", workspace_alignment, "library",
         "a workspace that is not aligned to 256 bytes");
    both("a bias that 16 does not divide", NULL, "vgpu", bias_alignment, "library", "not aligned to 16 bytes");
    both("sums that 16 does not divide", NULL, "vgpu", sums_alignment, "library", "not aligned to 16 bytes");
    both("a result outside its memory", NULL, "vgpu", outside, "library", "not inside memory of its device");
    both("an access that is not declared", NULL, "vgpu", undeclared, "undeclared", "d0.c1 (cublasLtMatmul) writes");
    both("a wait that is missing", NULL, "vgpu", unordered, "race", "cublasLtMatmul");
    return failures != 0;
}
