/* cublaslt.c: libcublasLt.so.13 for virtual GPUs: matrix products. What NVIDIA's library leaves to the caller is checked: an
 * algorithm is used for what it was asked for, with operands that are aligned as was said, and the workspace that it needs. */
#include "runtime/cublaslt.h"
#include "tests/vgpu/driver.h"
#include "tests/vgpu/half.h"

#include <math.h>
#include <stdlib.h>

#define PROTOTYPE(result, symbol, field, parameters) VGPU_API result symbol parameters;
CUBLASLT_FUNCTIONS(PROTOTYPE)
#undef PROTOTYPE

enum { LIBRARY_VERSION = 130000, MAGIC = 0x4C544D47, WORKSPACE_ALIGNMENT = 16 };
enum { KIND, PRODUCT, ALIGNMENTS, WORKSPACE, SLOWNESS }; /* of an algorithm's data */
enum { A, B, D };

struct cublasLtContext { VirtualDevice *device; };
struct cublasLtMatmulDesc { int compute, scale; int32_t turned[2]; uint32_t epilogue; const void *bias; int32_t bias_type; };
struct cublasLtMatrixLayout { int type; uint64_t rows, columns; int64_t pitch, member; int32_t members; };
struct cublasLtMatmulPreference { uint64_t workspace; uint32_t schemes, alignment[4]; };

typedef struct Product { /* what is run */
    struct cublasLtMatmulDesc desc;
    struct cublasLtMatrixLayout layout[3];
    uintptr_t at[3], work;
    size_t work_bytes;
    uint64_t slowness;
} Product;

static cublasStatus_t enter(const char *call)
{
    pthread_mutex_lock(&vgpu_lock);
    return vgpu_fault(call);
}

static cublasStatus_t leave(cublasStatus_t status)
{
    pthread_mutex_unlock(&vgpu_lock);
    return status == VGPU_FORGOTTEN ? CUBLAS_STATUS_SUCCESS : status;
}

static size_t bytes_of(int type)
{
    return type == CUDA_R_64F ? 8 : type == CUDA_R_32F ? 4 : type == CUDA_R_16F || type == CUDA_R_16BF ? 2 : 0;
}

/* ---- what it does */

static double load(int type, uintptr_t at, int64_t i)
{
    const void *p = (const void *)at;
    return type == CUDA_R_64F ? ((const double *)p)[i] : type == CUDA_R_32F ? (double)((const float *)p)[i]
                              : (double)vgpu_widen(type == CUDA_R_16F, ((const uint16_t *)p)[i]);
}

static void store(int type, uintptr_t at, int64_t i, double value)
{
    void *p = (void *)at;
    if (type == CUDA_R_64F)
        ((double *)p)[i] = value;
    else if (type == CUDA_R_32F)
        ((float *)p)[i] = (float)value;
    else
        ((uint16_t *)p)[i] = vgpu_narrow(type == CUDA_R_16F, (float)value);
}

static double round_tf32(double value)
{
    float narrow = (float)value;
    uint32_t bits;
    memcpy(&bits, &narrow, sizeof bits);
    if ((bits & 0x7F800000) != 0x7F800000)
        bits = (bits + 0xFFF + (bits >> 13 & 1)) & ~0x1FFFu;
    memcpy(&narrow, &bits, sizeof bits);
    return (double)narrow;
}

static void touch(Op *op, const struct cublasLtMatrixLayout *l, uintptr_t at, bool writes)
{
    size_t each = bytes_of(l->type);
    bool whole = l->pitch == (int64_t)l->rows || l->columns == 1;
    for (int m = 0; m < (l->member ? l->members : 1); m++)
        for (uint64_t c = 0; c < (whole ? 1 : l->columns); c++)
            vgpu_touch(op, at + (uintptr_t)(m * l->member + (int64_t)c * l->pitch) * each, (whole ? l->rows * l->columns : l->rows) * each, writes);
}

static double finish(const Product *p, int64_t row, double sum)
{
    if (p->desc.epilogue & CUBLASLT_EPILOGUE_BIAS)
        sum += load(p->desc.bias_type, (uintptr_t)p->desc.bias, row);
    if (p->desc.epilogue & CUBLASLT_EPILOGUE_RELU)
        sum = sum > 0 ? sum : 0;
    if (p->desc.epilogue & CUBLASLT_EPILOGUE_GELU)
        sum = 0.5 * sum * (1 + tanh(0.7978845608028654 * (sum + 0.044715 * sum * sum * sum)));
    return sum;
}

static void multiply(const Product *p, int member)
{
    const struct cublasLtMatrixLayout *a = &p->layout[A], *b = &p->layout[B], *d = &p->layout[D];
    int64_t terms = (int64_t)(p->desc.turned[A] ? a->rows : a->columns);
    bool tf32 = p->desc.compute == CUBLAS_COMPUTE_32F_FAST_TF32 && a->type == CUDA_R_32F;
    for (int64_t c = 0; c < (int64_t)d->columns; c++)
        for (int64_t r = 0; r < (int64_t)d->rows; r++) {
            double sum = 0;
            for (int64_t k = 0; k < terms; k++) {
                double x = load(a->type, p->at[A], member * a->member + (p->desc.turned[A] ? r * a->pitch + k : k * a->pitch + r));
                double y = load(b->type, p->at[B], member * b->member + (p->desc.turned[B] ? k * b->pitch + c : c * b->pitch + k));
                sum += tf32 ? round_tf32(x) * round_tf32(y) : x * y;
            }
            sum = finish(p, r, sum);
            store(d->type, p->at[D], member * d->member + c * d->pitch + r, sum);
        }
}

static void run(Op *op)
{
    const Product *p = op->work.library.data;
    VirtualDevice *device = op->work.device;
    int error = vgpu_kernel_fault("cublasLtMatmul");
    if (error && error != VGPU_FORGOTTEN)
        device->failed = error;
    if (error)
        return;
    touch(op, &p->layout[A], p->at[A], false);
    touch(op, &p->layout[B], p->at[B], false);
    touch(op, &p->layout[D], p->at[D], true);
    if (p->desc.epilogue & CUBLASLT_EPILOGUE_BIAS)
        vgpu_touch(op, (uintptr_t)p->desc.bias, p->layout[D].rows * bytes_of(p->desc.bias_type), false);
    if (p->work_bytes > 0) {
        vgpu_touch(op, p->work, p->work_bytes, true);
        memset((void *)p->work, 0xA5, p->work_bytes);
    }
    for (int m = 0; m < p->layout[D].members; m++)
        multiply(p, m);
    op->end_us += (double)p->slowness * (5 + 1e-6 * (double)(p->layout[D].rows * p->layout[D].columns) * (double)p->layout[A].columns);
}

/* ---- what it takes */

static bool takes_types(const struct cublasLtMatmulDesc *desc, int a, int b, int d)
{
    bool half = a == CUDA_R_16F || a == CUDA_R_16BF;
    if (a != b || (d != a && !(half && d == CUDA_R_32F)))
        return false;
    if (a == CUDA_R_64F)
        return desc->compute == CUBLAS_COMPUTE_64F && desc->scale == CUDA_R_64F;
    return desc->scale == CUDA_R_32F && (desc->compute == CUBLAS_COMPUTE_32F || (desc->compute == CUBLAS_COMPUTE_32F_FAST_TF32 && !half));
}

static bool fits(const struct cublasLtMatrixLayout *l)
{
    return l->rows > 0 && l->columns > 0 && l->pitch >= (int64_t)l->rows && l->members > 0 && bytes_of(l->type) > 0;
}

static cublasStatus_t look(const struct cublasLtMatmulDesc *desc, const struct cublasLtMatrixLayout *a, const struct cublasLtMatrixLayout *b,
                           const struct cublasLtMatrixLayout *d)
{
    if (!desc || !a || !b || !d || !fits(a) || !fits(b) || !fits(d))
        return CUBLAS_STATUS_INVALID_VALUE;
    uint64_t rows = desc->turned[A] ? a->columns : a->rows, terms = desc->turned[A] ? a->rows : a->columns;
    uint64_t columns = desc->turned[B] ? b->rows : b->columns, others = desc->turned[B] ? b->columns : b->rows;
    if (rows != d->rows || columns != d->columns || terms != others || a->members != d->members || b->members != d->members)
        return CUBLAS_STATUS_INVALID_VALUE;
    if (d->members > 1 && d->member < d->pitch * (int64_t)(d->columns - 1) + (int64_t)d->rows)
        return CUBLAS_STATUS_INVALID_VALUE;
    bool biased = (desc->epilogue & CUBLASLT_EPILOGUE_BIAS) != 0;
    if (biased && (!desc->bias || desc->bias_type != d->type || d->members != 1))
        return CUBLAS_STATUS_NOT_SUPPORTED;
    return takes_types(desc, a->type, b->type, d->type) ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
}

static uint64_t hash_of(const struct cublasLtMatmulDesc *desc, const struct cublasLtMatrixLayout *const layout[3])
{
    uint64_t hash = 14695981039346656037u;
    const int64_t own[] = {desc->compute, desc->scale, desc->turned[A], desc->turned[B], desc->epilogue, desc->bias_type};
    for (int i = 0; i < 6; i++)
        hash = (hash ^ (uint64_t)own[i]) * 1099511628211u;
    for (int m = 0; m < 3; m++) {
        const int64_t of[] = {layout[m]->type, (int64_t)layout[m]->rows, (int64_t)layout[m]->columns, layout[m]->pitch, layout[m]->member, layout[m]->members};
        for (int i = 0; i < 6; i++)
            hash = (hash ^ (uint64_t)of[i]) * 1099511628211u;
    }
    return hash;
}

static cublasStatus_t heuristic(cublasLtMatmulDesc_t desc, const struct cublasLtMatrixLayout *const layout[3],
                                cublasLtMatmulPreference_t preference, int wanted, cublasLtMatmulHeuristicResult_t *results, int *count)
{
    if (wanted < 1 || !preference)
        return CUBLAS_STATUS_INVALID_VALUE;
    *count = 0;
    cublasStatus_t status = look(desc, layout[A], layout[B], layout[D]);
    if (status)
        return status;
    uint64_t work = layout[D]->rows * layout[D]->columns * 4, alignments = 0;
    for (int i = 0; i < 3; i++)
        alignments |= (uint64_t)preference->alignment[i == D ? 3 : i] << 16 * i;
    bool parts = (preference->schemes & CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE) && work <= preference->workspace;
    static const uint64_t SLOW[] = {2, 3, 1, 2}; /* the favourite is not the fastest; the last one does not run */
    for (; *count < wanted && *count < (int)(sizeof SLOW / sizeof *SLOW); ++*count) {
        results[*count] = (cublasLtMatmulHeuristicResult_t){.workspaceSize = parts ? work : 0, .wavesCount = 1};
        const uint64_t data[] = {*count == 3 ? MAGIC + 1 : MAGIC, hash_of(desc, layout), alignments, parts ? work : 0, SLOW[*count]};
        memcpy(results[*count].algo.data, data, sizeof data);
    }
    return CUBLAS_STATUS_SUCCESS;
}

static cublasStatus_t look_at_algorithm(cublasLtMatmulDesc_t desc, const struct cublasLtMatrixLayout *const layout[3],
                                        const cublasLtMatmulAlgo_t *algo, cublasLtMatmulHeuristicResult_t *result)
{
    cublasStatus_t status = look(desc, layout[A], layout[B], layout[D]);
    if (!status && (algo->data[KIND] != MAGIC || algo->data[PRODUCT] != hash_of(desc, layout)))
        status = CUBLAS_STATUS_NOT_SUPPORTED;
    if (!status)
        *result = (cublasLtMatmulHeuristicResult_t){.algo = *algo, .workspaceSize = algo->data[WORKSPACE], .wavesCount = 1};
    return status;
}

static bool inside(const VirtualDevice *device, uintptr_t address, const struct cublasLtMatrixLayout *l)
{
    const Allocation *a = vgpu_find(address);
    int64_t last = (l->members - 1) * l->member + (int64_t)(l->columns - 1) * l->pitch + (int64_t)l->rows;
    return a && a->device == device && !a->freed && address + (uintptr_t)last * bytes_of(l->type) <= a->base + a->bytes;
}

static cublasStatus_t misused(VirtualDevice *device, CUstream stream, const char *what)
{
    vgpu_violation(device, CUDA_ERROR_LAUNCH_FAILED, "library", "%s: cublasLtMatmul %s",
                   stream->label && stream->label->name ? stream->label->name : "a product", what);
    return CUBLAS_STATUS_INVALID_VALUE;
}

static cublasStatus_t issue(cublasLtHandle_t handle, Product p, const cublasLtMatmulAlgo_t *algo, size_t workspace, CUstream stream)
{
    const struct cublasLtMatrixLayout *const layout[] = {&p.layout[A], &p.layout[B], &p.layout[D]};
    VirtualDevice *device = handle->device;
    if (!stream)
        return CUBLAS_STATUS_INVALID_VALUE;
    if (stream->device != device)
        return misused(device, stream, "is issued to a stream of another device");
    if (algo->data[KIND] == MAGIC + 1)
        return CUBLAS_STATUS_NOT_SUPPORTED;
    if (algo->data[KIND] != MAGIC || algo->data[PRODUCT] != hash_of(&p.desc, layout))
        return misused(device, stream, "is called with an algorithm for another product");
    for (int i = 0; i < 3; i++) {
        if (!inside(device, p.at[i], layout[i]))
            return misused(device, stream, "has a matrix that is not inside memory of its device");
        if (p.at[i] % (algo->data[ALIGNMENTS] >> 16 * i & 0xFFFF))
            return misused(device, stream, "has a matrix that is not aligned as was said when its algorithm was chosen");
    }
    p.work_bytes = algo->data[WORKSPACE];
    p.slowness = algo->data[SLOWNESS];
    if (p.work_bytes > workspace || (p.work_bytes > 0 && p.work % WORKSPACE_ALIGNMENT))
        return misused(device, stream, "has too small a workspace, or one that is not aligned");
    Work w = {.kind = OP_LIBRARY, .what = "cublasLtMatmul", .library = {.run = run, .bytes = sizeof p}};
    w.library.data = memcpy(malloc(sizeof p), &p, sizeof p);
    return vgpu_issue_or_capture(stream, w) ? CUBLAS_STATUS_EXECUTION_FAILED : CUBLAS_STATUS_SUCCESS;
}

/* ---- what the library exports */

size_t cublasLtGetVersion(void) { return LIBRARY_VERSION; }

const char *cublasLtGetStatusName(cublasStatus_t status)
{
    static const char *const NAMES[] = {[CUBLAS_STATUS_SUCCESS] = "CUBLAS_STATUS_SUCCESS", [CUBLAS_STATUS_NOT_INITIALIZED] = "CUBLAS_STATUS_NOT_INITIALIZED",
                                        [CUBLAS_STATUS_ALLOC_FAILED] = "CUBLAS_STATUS_ALLOC_FAILED", [CUBLAS_STATUS_INVALID_VALUE] = "CUBLAS_STATUS_INVALID_VALUE",
                                        [CUBLAS_STATUS_ARCH_MISMATCH] = "CUBLAS_STATUS_ARCH_MISMATCH", [CUBLAS_STATUS_EXECUTION_FAILED] = "CUBLAS_STATUS_EXECUTION_FAILED",
                                        [CUBLAS_STATUS_INTERNAL_ERROR] = "CUBLAS_STATUS_INTERNAL_ERROR", [CUBLAS_STATUS_NOT_SUPPORTED] = "CUBLAS_STATUS_NOT_SUPPORTED"};
    return status >= 0 && status <= CUBLAS_STATUS_NOT_SUPPORTED && NAMES[status] ? NAMES[status] : "an unknown status";
}

cublasStatus_t cublasLtCreate(cublasLtHandle_t *handle)
{
    cublasStatus_t status = enter("cublasLtCreate");
    if (!status && !vgpu_current())
        status = CUBLAS_STATUS_NOT_INITIALIZED;
    if (!status) {
        *handle = calloc(1, sizeof **handle);
        (*handle)->device = vgpu_current()->device;
    }
    return leave(status);
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle)
{
    free(handle);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *desc, int compute_type, int scale_type)
{
    cublasStatus_t status = enter("cublasLtMatmulDescCreate");
    *desc = calloc(1, sizeof **desc);
    (*desc)->compute = compute_type;
    (*desc)->scale = scale_type;
    (*desc)->epilogue = CUBLASLT_EPILOGUE_DEFAULT;
    return leave(status);
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t desc)
{
    free(desc);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc, int attribute, const void *value, size_t bytes)
{
    cublasStatus_t status = enter("cublasLtMatmulDescSetAttribute");
    bool turned = attribute == CUBLASLT_MATMUL_DESC_TRANSA || attribute == CUBLASLT_MATMUL_DESC_TRANSB;
    if (turned && bytes == sizeof(int32_t))
        memcpy(&desc->turned[attribute - CUBLASLT_MATMUL_DESC_TRANSA], value, bytes);
    else if (attribute == CUBLASLT_MATMUL_DESC_EPILOGUE && bytes == sizeof desc->epilogue)
        memcpy(&desc->epilogue, value, bytes);
    else if (attribute == CUBLASLT_MATMUL_DESC_BIAS_POINTER && bytes == sizeof desc->bias)
        memcpy(&desc->bias, value, bytes);
    else if (attribute == CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE && bytes == sizeof desc->bias_type)
        memcpy(&desc->bias_type, value, bytes);
    else
        status = CUBLAS_STATUS_INVALID_VALUE;
    return leave(status);
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *layout, int type, uint64_t rows, uint64_t columns, int64_t pitch)
{
    cublasStatus_t status = enter("cublasLtMatrixLayoutCreate");
    *layout = calloc(1, sizeof **layout);
    **layout = (struct cublasLtMatrixLayout){.type = type, .rows = rows, .columns = columns, .pitch = pitch, .members = 1};
    return leave(status);
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout)
{
    free(layout);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout, int attribute, const void *value, size_t bytes)
{
    cublasStatus_t status = enter("cublasLtMatrixLayoutSetAttribute");
    if (attribute == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT && bytes == sizeof layout->members)
        memcpy(&layout->members, value, bytes);
    else if (attribute == CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET && bytes == sizeof layout->member)
        memcpy(&layout->member, value, bytes);
    else
        status = CUBLAS_STATUS_INVALID_VALUE;
    return leave(status);
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *preference)
{
    cublasStatus_t status = enter("cublasLtMatmulPreferenceCreate");
    *preference = calloc(1, sizeof **preference);
    **preference = (struct cublasLtMatmulPreference){.schemes = 7, .alignment = {256, 256, 256, 256}};
    return leave(status);
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference)
{
    free(preference);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference, int attribute, const void *value, size_t bytes)
{
    cublasStatus_t status = enter("cublasLtMatmulPreferenceSetAttribute");
    int operand = attribute - CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES;
    if (attribute == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES && bytes == sizeof preference->workspace)
        memcpy(&preference->workspace, value, bytes);
    else if (attribute == CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK && bytes == sizeof preference->schemes)
        memcpy(&preference->schemes, value, bytes);
    else if (operand >= 0 && operand < 4 && bytes == sizeof preference->alignment[0])
        memcpy(&preference->alignment[operand], value, bytes);
    else
        status = CUBLAS_STATUS_INVALID_VALUE;
    return leave(status);
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, cublasLtMatrixLayout_t a,
                                              cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int wanted, cublasLtMatmulHeuristicResult_t *results,
                                              int *count)
{
    cublasStatus_t status = enter("cublasLtMatmulAlgoGetHeuristic");
    const struct cublasLtMatrixLayout *const layout[] = {a, b, d};
    return leave(status ? status : !handle || c != d ? CUBLAS_STATUS_INVALID_VALUE : heuristic(desc, layout, preference, wanted, results, count));
}

cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                       cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d, const cublasLtMatmulAlgo_t *algo,
                                       cublasLtMatmulHeuristicResult_t *result)
{
    cublasStatus_t status = enter("cublasLtMatmulAlgoCheck");
    const struct cublasLtMatrixLayout *const layout[] = {a, b, d};
    return leave(status ? status : !handle || c != d ? CUBLAS_STATUS_INVALID_VALUE : look_at_algorithm(desc, layout, algo, result));
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, const void *alpha, const void *a,
                              cublasLtMatrixLayout_t a_layout, const void *b, cublasLtMatrixLayout_t b_layout, const void *beta, const void *c,
                              cublasLtMatrixLayout_t c_layout, void *d, cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t *algo,
                              void *workspace, size_t workspace_bytes, CUstream stream)
{
    cublasStatus_t status = enter("cublasLtMatmul");
    bool wide = desc && desc->scale == CUDA_R_64F;
    double one = wide ? *(const double *)alpha : (double)*(const float *)alpha, zero = wide ? *(const double *)beta : (double)*(const float *)beta;
    if (!status && (!handle || c != d || c_layout != d_layout || !algo || one != 1 || zero != 0))
        status = CUBLAS_STATUS_INVALID_VALUE;
    if (!status && handle->device->failed)
        status = CUBLAS_STATUS_EXECUTION_FAILED;
    Product p = {.desc = *desc, .layout = {*a_layout, *b_layout, *d_layout}, .at = {(uintptr_t)a, (uintptr_t)b, (uintptr_t)d},
                 .work = (uintptr_t)workspace};
    return leave(status ? status : issue(handle, p, algo, workspace_bytes, stream));
}
