/* cublaslt.c: libcublasLt.so.13 for virtual GPUs: matmuls. What NVIDIA's library leaves to the caller is checked: an
 * algorithm is used for what it was asked for, with operands that are aligned as was said, and the workspace that it needs;
 * what gelu was made of has a pitch that the library takes, and is what a matmul with gelu has left there. */
#include "runtime/cuda/cublaslt.h"
#include "tests/vgpu/driver.h"
#include "tests/vgpu/half.h"

#include <math.h>
#include <stdlib.h>

#define PROTOTYPE(result, symbol, field, parameters) VGPU_API result symbol parameters;
CUBLASLT_FUNCTIONS(PROTOTYPE)
#undef PROTOTYPE

enum { LIBRARY_VERSION = 130000, MAGIC = 0x4C544D47, WORKSPACE_ALIGNMENT = 256 };
/* of an algorithm's data; alignments have 16 bits each, POINTERS are those of a bias or sums, and of what gelu is made of */
enum { KIND, PRODUCT, ALIGNMENTS, WORKSPACE, SLOWNESS, POINTERS };
enum { A, B, D };
enum { AUX = 128, GRADIENT = 64 /* of gelu */, BGRAD = 16 }; /* in epilogues */
enum { MOST_PADDING = 64 /* elements after a row */ };
enum { LIMIT = 16 /* bytes: more alignment of what is no matrix makes no difference */, AUX_PITCH = 8 /* elements */ };

struct cublasLtContext {
    VirtualDevice *device;
};
struct cublasLtMatmulDesc {
    int compute, scale;
    int32_t transposed[2];
    uint32_t epilogue;
    void *bias, *aux;  /* or sums; what gelu is made of */
    int32_t bias_type; /* -1: that of D */
    int64_t aux_pitch;
};
struct cublasLtMatrixLayout {
    int type;
    uint64_t rows, columns;
    int64_t pitch, member;
    int32_t members;
};
struct cublasLtMatmulPreference {
    uint64_t workspace;
    uint32_t schemes, alignment[4];
};

typedef struct Matmul { /* what is run */
    struct cublasLtMatmulDesc desc;
    struct cublasLtMatrixLayout layout[3];
    uintptr_t at[3], work;
    size_t work_bytes;
    uint64_t slowness;
    bool adds; /* to what is in D: beta is 1 */
} Matmul;

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

static double load(int type, uintptr_t at, int64_t i) { return vgpu_load(bytes_of(type), type == CUDA_R_16F, at, i); }

static void store(int type, uintptr_t at, int64_t i, double value)
{
    vgpu_store(bytes_of(type), type == CUDA_R_16F, at, i, value);
}

/* a result has what is after each of its rows, too: a buffer whose rows are padded holds nothing else there. One of a few of its
 * rows, or columns, has those alone */
static void touch(Op *op, const struct cublasLtMatrixLayout *l, uintptr_t at, bool writes)
{
    size_t each = bytes_of(l->type);
    bool whole = l->pitch == (int64_t)l->rows || (l->columns == 1 && !writes),
         padded_rows = l->pitch - (int64_t)l->rows < MOST_PADDING;
    if (writes && !whole && padded_rows) {
        struct cublasLtMatrixLayout padded = *l;
        padded.rows = (uint64_t)l->pitch;
        touch(op, &padded, at, true);
        return;
    }
    for (int m = 0; m < (l->member ? l->members : 1); m++)
        for (uint64_t c = 0; c < (whole ? 1 : l->columns); c++)
            vgpu_touch(op, at + (uintptr_t)(m * l->member + (int64_t)c * l->pitch) * each,
                       (whole ? l->rows * l->columns : l->rows) * each, writes);
}

static int vector_type(const struct cublasLtMatmulDesc *desc, const struct cublasLtMatrixLayout *d)
{
    return desc->bias_type < 0 ? d->type : desc->bias_type;
}

static bool writes_sums(const struct cublasLtMatmulDesc *desc)
{
    return desc->epilogue & (BGRAD | CUBLASLT_EPILOGUE_BGRADA | CUBLASLT_EPILOGUE_BGRADB);
}

static bool reads_bias(const struct cublasLtMatmulDesc *desc) { return desc->epilogue & CUBLASLT_EPILOGUE_BIAS; }
static bool reads_aux(const struct cublasLtMatmulDesc *desc) { return (desc->epilogue & (AUX | GRADIENT)) == (AUX | GRADIENT); }
static bool writes_aux(const struct cublasLtMatmulDesc *desc) { return (desc->epilogue & (AUX | GRADIENT)) == AUX; }

static double finish(const Matmul *p, int64_t row, int64_t column, double sum)
{
    const struct cublasLtMatmulDesc *desc = &p->desc;
    int type = p->layout[D].type;
    int64_t at = column * desc->aux_pitch + row;
    if (reads_bias(desc))
        sum += load(desc->bias_type, (uintptr_t)desc->bias, row);
    if (writes_aux(desc))
        store(type, (uintptr_t)desc->aux, at, sum);
    double x = reads_aux(desc) ? load(type, (uintptr_t)desc->aux, at) : sum,
           t = tanh(0.7978845608028654 * (x + 0.044715 * x * x * x));
    if (desc->epilogue & CUBLASLT_EPILOGUE_RELU)
        return x > 0 ? x : 0;
    if (desc->epilogue & CUBLASLT_EPILOGUE_GELU)
        return 0.5 * x * (1 + t);
    if (reads_aux(desc))
        return sum * (0.5 * (1 + t) + 0.5 * x * (1 - t * t) * 0.7978845608028654 * (1 + 3 * 0.044715 * x * x));
    return sum;
}

static double element(const Matmul *p, int which, int member, int64_t row, int64_t column)
{
    const struct cublasLtMatrixLayout *l = &p->layout[which];
    return load(l->type, p->at[which],
                member * l->member + (p->desc.transposed[which] ? row * l->pitch + column : column * l->pitch + row));
}

/* an operand as numbers that are multiplied: [depth, count], of its rows or columns; the caller frees it */
static double *widened(const Matmul *p, int which, int member, int64_t depth, int64_t count)
{
    double *all = malloc((size_t)(depth * count) * sizeof *all);
    bool tf32 = p->desc.compute == CUBLAS_COMPUTE_32F_FAST_TF32 && p->layout[A].type == CUDA_R_32F;
    for (int64_t k = 0; k < depth; k++)
        for (int64_t i = 0; i < count; i++) {
            double x = which == A ? element(p, A, member, i, k) : element(p, B, member, k, i);
            all[k * count + i] = tf32 ? vgpu_round_tf32(x) : x;
        }
    return all;
}

static void multiply(const Matmul *p, int member)
{
    const struct cublasLtMatrixLayout *a = &p->layout[A], *d = &p->layout[D];
    int64_t depth = (int64_t)(p->desc.transposed[A] ? a->rows : a->columns), rows = (int64_t)d->rows,
            columns = (int64_t)d->columns;
    double *x = widened(p, A, member, depth, rows), *y = widened(p, B, member, depth, columns),
           *sums = malloc((size_t)rows * sizeof *sums);
    for (int64_t c = 0; c < columns; c++) {
        memset(sums, 0, (size_t)rows * sizeof *sums);
        for (int64_t k = 0; k < depth; k++)
            for (int64_t r = 0; r < rows; r++)
                sums[r] += x[k * rows + r] * y[k * columns + c];
        for (int64_t r = 0; r < rows; r++) {
            int64_t at = member * d->member + c * d->pitch + r;
            store(d->type, p->at[D], at, finish(p, r, c, sums[r] + (p->adds ? load(d->type, p->at[D], at) : 0)));
        }
    }
    free(x);
    free(y);
    free(sums);
}

/* how many sums there are, or numbers of a bias */
static uint64_t vector_length(const Matmul *p)
{
    return p->desc.epilogue & CUBLASLT_EPILOGUE_BGRADB ? p->layout[D].columns : p->layout[D].rows;
}

static void add_up(const Matmul *p)
{
    const struct cublasLtMatrixLayout *a = &p->layout[A], *d = &p->layout[D];
    bool of_a = p->desc.epilogue & CUBLASLT_EPILOGUE_BGRADA, of_b = p->desc.epilogue & CUBLASLT_EPILOGUE_BGRADB;
    int64_t depth = (int64_t)(p->desc.transposed[A] ? a->rows : a->columns), count = of_a || of_b ? depth : (int64_t)d->columns;
    for (int64_t i = 0; i < (int64_t)vector_length(p); i++) {
        double sum = 0;
        for (int64_t k = 0; k < count; k++)
            sum += of_a ? element(p, A, 0, i, k) : of_b ? element(p, B, 0, k, i) : load(d->type, p->at[D], k * d->pitch + i);
        store(p->desc.bias_type, (uintptr_t)p->desc.bias, i, sum);
    }
}

/* ---- what matmuls with gelu have left for those with its gradient */

typedef struct Left {
    uintptr_t at;
    uint64_t hash;
} Left;
static Left *left;
static int left_count;

static uint64_t hash_of_aux(const Matmul *p)
{
    uint64_t hash = 14695981039346656037u;
    size_t column = p->layout[D].rows * bytes_of(p->layout[D].type),
           pitch = (size_t)p->desc.aux_pitch * bytes_of(p->layout[D].type);
    for (uint64_t c = 0; c < p->layout[D].columns; c++)
        for (size_t i = 0; i < column; i++)
            hash = (hash ^ ((const unsigned char *)p->desc.aux)[c * pitch + i]) * 1099511628211u;
    return hash;
}

static void leave_aux(const Matmul *p)
{
    int i = 0;
    while (i < left_count && left[i].at != (uintptr_t)p->desc.aux)
        i++;
    if (i == left_count)
        left = realloc(left, (size_t)++left_count * sizeof *left);
    left[i] = (Left){(uintptr_t)p->desc.aux, hash_of_aux(p)};
}

static bool was_left(const Matmul *p)
{
    for (int i = 0; i < left_count; i++)
        if (left[i].at == (uintptr_t)p->desc.aux)
            return left[i].hash == hash_of_aux(p);
    return false;
}

static void touch_aux(Op *op, const Matmul *p)
{
    struct cublasLtMatrixLayout aux = p->layout[D];
    aux.pitch = p->desc.aux_pitch;
    touch(op, &aux, (uintptr_t)p->desc.aux, writes_aux(&p->desc));
}

static void spoil_matrix(const struct cublasLtMatrixLayout *l, uintptr_t at, int64_t pitch)
{
    size_t each = bytes_of(l->type);
    for (int m = 0; m < l->members; m++)
        for (uint64_t c = 0; c < l->columns; c++)
            memset((void *)(at + (uintptr_t)(m * l->member + (int64_t)c * pitch) * each), 0xFF, l->rows * each);
}

/* what a matmul writes that is only timed: nobody may ever read it */
static void spoil(const Matmul *p)
{
    spoil_matrix(&p->layout[D], p->at[D], p->layout[D].pitch);
    if (writes_aux(&p->desc))
        spoil_matrix(&p->layout[D], (uintptr_t)p->desc.aux, p->desc.aux_pitch);
    if (writes_sums(&p->desc))
        memset(p->desc.bias, 0xFF, vector_length(p) * bytes_of(p->desc.bias_type));
}

static void compute(const Matmul *p)
{
    for (int m = 0; m < p->layout[D].members; m++)
        multiply(p, m);
    if (writes_aux(&p->desc))
        leave_aux(p);
    if (writes_sums(&p->desc))
        add_up(p);
}

static void run(Op *op)
{
    const Matmul *p = op->work.library.data;
    VirtualDevice *device = op->work.device;
    const struct cublasLtMatmulDesc *desc = &p->desc;
    bool timed = op->work.label && op->work.label->count < 0; /* nothing is said of what it is for */
    int error = vgpu_kernel_fault("cublasLtMatmul", op);
    if (error && error != VGPU_FORGOTTEN)
        device->failed = error;
    if (error)
        return;
    touch(op, &p->layout[A], p->at[A], false);
    touch(op, &p->layout[B], p->at[B], false);
    if (p->adds)
        touch(op, &p->layout[D], p->at[D], false);
    touch(op, &p->layout[D], p->at[D], true);
    if (reads_bias(desc) || writes_sums(desc))
        vgpu_touch(op, (uintptr_t)desc->bias, vector_length(p) * bytes_of(desc->bias_type), writes_sums(desc));
    if (desc->epilogue & AUX)
        touch_aux(op, p);
    if (p->work_bytes > 0) {
        vgpu_touch(op, p->work, p->work_bytes, true);
        memset((void *)p->work, 0xA5, p->work_bytes);
    }
    if (reads_aux(desc) && !timed && !was_left(p))
        vgpu_violation(device, CUDA_ERROR_LAUNCH_FAILED, "library",
                       "%s: cublasLtMatmul takes the gradient of gelu at what no matmul with gelu has left there",
                       op->work.label ? op->work.label->name : "a matmul");
    if (timed)
        spoil(p);
    else
        compute(p);
    op->end_us += vgpu_slowness(SLOW_CUBLASLT) * (double)p->slowness *
                  (5 + 1e-6 * (double)(p->layout[D].rows * p->layout[D].columns) * (double)p->layout[A].columns);
}

/* ---- what it takes */

/* bf16 and tf32 came with 8.0 (cuBLAS, supported data types; Guide, Compute Capabilities) */
static bool is_newer(const struct cublasLtMatmulDesc *desc, int type)
{
    return type == CUDA_R_16BF || desc->compute == CUBLAS_COMPUTE_32F_FAST_TF32;
}

static bool takes_types(const struct cublasLtMatmulDesc *desc, int a, int b, int d)
{
    bool half = a == CUDA_R_16F || a == CUDA_R_16BF;
    if (a != b || (d != a && !(half && d == CUDA_R_32F)))
        return false;
    if (a == CUDA_R_64F)
        return desc->compute == CUBLAS_COMPUTE_64F && desc->scale == CUDA_R_64F;
    return desc->scale == CUDA_R_32F &&
           (desc->compute == CUBLAS_COMPUTE_32F || (desc->compute == CUBLAS_COMPUTE_32F_FAST_TF32 && !half));
}

static bool fits(const struct cublasLtMatrixLayout *l)
{
    return l->rows > 0 && l->columns > 0 && l->pitch >= (int64_t)l->rows && l->members > 0 && bytes_of(l->type) > 0;
}

static bool takes_epilogue(const struct cublasLtMatmulDesc *desc)
{
    static const uint32_t KNOWN[] = {CUBLASLT_EPILOGUE_DEFAULT,     CUBLASLT_EPILOGUE_RELU,          CUBLASLT_EPILOGUE_BIAS,
                                     CUBLASLT_EPILOGUE_RELU_BIAS,   CUBLASLT_EPILOGUE_GELU,          CUBLASLT_EPILOGUE_GELU_BIAS,
                                     CUBLASLT_EPILOGUE_GELU_AUX,    CUBLASLT_EPILOGUE_GELU_AUX_BIAS, CUBLASLT_EPILOGUE_DGELU,
                                     CUBLASLT_EPILOGUE_DGELU_BGRAD, CUBLASLT_EPILOGUE_BGRADA,        CUBLASLT_EPILOGUE_BGRADB};
    bool known = false;
    for (size_t i = 0; i < sizeof KNOWN / sizeof *KNOWN; i++)
        known = known || KNOWN[i] == desc->epilogue;
    for (int i = 0; i < vgpu_machine.refused_count; i++)
        known = known && vgpu_machine.refused[i] != desc->epilogue;
    return known;
}

static cublasStatus_t look(const VirtualDevice *device, const struct cublasLtMatmulDesc *desc,
                           const struct cublasLtMatrixLayout *a, const struct cublasLtMatrixLayout *b,
                           const struct cublasLtMatrixLayout *d)
{
    if (!desc || !a || !b || !d || !fits(a) || !fits(b) || !fits(d))
        return CUBLAS_STATUS_INVALID_VALUE;
    uint64_t rows = desc->transposed[A] ? a->columns : a->rows, depth = desc->transposed[A] ? a->rows : a->columns;
    uint64_t columns = desc->transposed[B] ? b->rows : b->columns, others = desc->transposed[B] ? b->columns : b->rows;
    if (rows != d->rows || columns != d->columns || depth != others || a->members != d->members || b->members != d->members)
        return CUBLAS_STATUS_INVALID_VALUE;
    if (d->members > 1 && d->member < d->pitch * (int64_t)(d->columns - 1) + (int64_t)d->rows)
        return CUBLAS_STATUS_INVALID_VALUE;
    if (!takes_epilogue(desc) || (is_newer(desc, a->type) && device->major < 8))
        return CUBLAS_STATUS_NOT_SUPPORTED;
    bool vector = reads_bias(desc) || writes_sums(desc), half = d->type == CUDA_R_16F || d->type == CUDA_R_16BF;
    bool fits_type = vector_type(desc, d) == d->type || (half && vgpu_machine.wide_biases && desc->bias_type == CUDA_R_32F);
    if (vector && (!desc->bias || !fits_type || d->members != 1))
        return CUBLAS_STATUS_NOT_SUPPORTED;
    return takes_types(desc, a->type, b->type, d->type) ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
}

static uint64_t hash_of(const struct cublasLtMatmulDesc *desc, const struct cublasLtMatrixLayout *const layout[3])
{
    uint64_t hash = 14695981039346656037u;
    const int64_t own[] = {desc->compute,  desc->scale,     desc->transposed[A], desc->transposed[B],
                           desc->epilogue, desc->bias_type, desc->aux_pitch};
    for (int i = 0; i < 7; i++)
        hash = (hash ^ (uint64_t)own[i]) * 1099511628211u;
    for (int m = 0; m < 3; m++) {
        const int64_t of[] = {layout[m]->type,  (int64_t)layout[m]->rows, (int64_t)layout[m]->columns,
                              layout[m]->pitch, layout[m]->member,        layout[m]->members};
        for (int i = 0; i < 6; i++)
            hash = (hash ^ (uint64_t)of[i]) * 1099511628211u;
    }
    return hash;
}

/* of what the description points to, in bytes: it decides what algorithms there are */
static uint64_t alignments_of(const struct cublasLtMatmulDesc *desc)
{
    const uintptr_t at[] = {(uintptr_t)desc->bias | LIMIT, (uintptr_t)desc->aux | LIMIT};
    return (at[0] & -at[0]) | (at[1] & -at[1]) << 16;
}

/* NVIDIA's library would say no more than that a value is not valid, or fail later */
static bool takes_pointers(VirtualDevice *device, const struct cublasLtMatmulDesc *desc, const struct cublasLtMatrixLayout *d)
{
    uint64_t alignments = alignments_of(desc);
    bool vector = (reads_bias(desc) || writes_sums(desc)) && desc->bias;
    const char *why = vector && (alignments & 0xFFFF) < LIMIT ? "with a bias or sums that are not aligned to 16 bytes"
                      : !(desc->epilogue & AUX)               ? NULL
                      : !desc->aux                            ? "with no pointer to what gelu is made of"
                      : alignments >> 16 < LIMIT              ? "with what gelu is made of not aligned to 16 bytes"
                      : desc->aux_pitch < (int64_t)d->rows
                          ? "with less from column to column of what gelu is made of than there are rows"
                      : desc->aux_pitch % AUX_PITCH ? "with a pitch of what gelu is made of that is not divisible by 8"
                      : d->members != 1             ? "with gelu of a batch"
                                                    : NULL;
    if (why)
        vgpu_violation(device, CUDA_SUCCESS, "library", "cublasLtMatmulAlgoGetHeuristic is called %s", why);
    return !why;
}

static cublasStatus_t heuristic(VirtualDevice *device, cublasLtMatmulDesc_t desc,
                                const struct cublasLtMatrixLayout *const layout[3], cublasLtMatmulPreference_t preference,
                                int wanted, cublasLtMatmulHeuristicResult_t *results, int *count)
{
    if (wanted < 1 || !preference)
        return CUBLAS_STATUS_INVALID_VALUE;
    *count = 0;
    if (!takes_pointers(device, desc, layout[D]))
        return CUBLAS_STATUS_INVALID_VALUE;
    cublasStatus_t status = look(device, desc, layout[A], layout[B], layout[D]);
    if (status)
        return status;
    uint64_t work = layout[D]->rows * layout[D]->columns * 4, alignments = 0;
    for (int i = 0; i < 3; i++)
        alignments |= (uint64_t)preference->alignment[i == D ? 3 : i] << 16 * i;
    bool parts = (preference->schemes & CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE) && work <= preference->workspace;
    static const uint64_t SLOW[] = {2, 3, 1, 2}; /* the favourite is not the fastest; the last one does not run */
    for (; *count < wanted && *count < (int)(sizeof SLOW / sizeof *SLOW); ++*count) {
        results[*count] = (cublasLtMatmulHeuristicResult_t){.workspaceSize = parts ? work : 0, .wavesCount = 1};
        const uint64_t data[] = {*count == 3 ? MAGIC + 1 : MAGIC,
                                 hash_of(desc, layout),
                                 alignments,
                                 parts ? work : 0,
                                 SLOW[*count],
                                 alignments_of(desc)};
        memcpy(results[*count].algo.data, data, sizeof data);
    }
    return CUBLAS_STATUS_SUCCESS;
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
                   stream->label && stream->label->name ? stream->label->name : "a matmul", what);
    return CUBLAS_STATUS_INVALID_VALUE;
}

/* algorithms that have run on a device: their kernels are loaded */
typedef struct Loaded {
    const VirtualDevice *device;
    uint64_t product, slowness;
} Loaded;
static Loaded *loaded;
static int loaded_count;

static bool is_loaded(const VirtualDevice *device, const cublasLtMatmulAlgo_t *algo)
{
    for (int i = 0; i < loaded_count; i++)
        if (loaded[i].device == device && loaded[i].product == algo->data[PRODUCT] && loaded[i].slowness == algo->data[SLOWNESS])
            return true;
    return false;
}

static void note_loaded(const VirtualDevice *device, const cublasLtMatmulAlgo_t *algo)
{
    if (is_loaded(device, algo))
        return;
    loaded = realloc(loaded, (size_t)(loaded_count + 1) * sizeof *loaded);
    loaded[loaded_count++] = (Loaded){device, algo->data[PRODUCT], algo->data[SLOWNESS]};
}

static cublasStatus_t issue(cublasLtHandle_t handle, Matmul p, const cublasLtMatmulAlgo_t *algo, size_t workspace,
                            CUstream stream)
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
        return misused(device, stream, "is called with an algorithm for another matmul");
    for (int i = 0; i < 3; i++) {
        if (!inside(device, p.at[i], layout[i]))
            return misused(device, stream, "has a matrix that is not inside memory of its device");
        if (p.at[i] % (algo->data[ALIGNMENTS] >> 16 * i & 0xFFFF))
            return misused(device, stream, "has a matrix that is not aligned as was said when its algorithm was chosen");
    }
    uint64_t chosen = algo->data[POINTERS], is = alignments_of(&p.desc);
    if ((is & 0xFFFF) < (chosen & 0xFFFF) || is >> 16 < chosen >> 16)
        return misused(device, stream,
                       "has a bias, sums or what gelu is made of aligned less than when its algorithm was chosen");
    p.desc.bias_type = vector_type(&p.desc, &p.layout[D]);
    p.work_bytes = algo->data[WORKSPACE];
    p.slowness = algo->data[SLOWNESS];
    if (p.work_bytes > workspace)
        return misused(device, stream, "has too small a workspace");
    if (p.work % WORKSPACE_ALIGNMENT) /* "Must be 256B aligned (i.e. lowest 8 bits of address must be 0)" */
        return misused(device, stream, "has a workspace that is not aligned to 256 bytes");
    if (stream->capture && !is_loaded(device, algo)) /* "Loading a kernel might require context synchronization" */
        return misused(device, stream,
                       "is captured before its algorithm has run once, so its kernel is loaded inside the capture");
    note_loaded(device, algo);
    Work w = {.kind = OP_LIBRARY, .what = "cublasLtMatmul", .library = {.run = run, .bytes = sizeof p}};
    w.library.data = memcpy(malloc(sizeof p), &p, sizeof p);
    return vgpu_issue_or_capture(stream, w) ? CUBLAS_STATUS_EXECUTION_FAILED : CUBLAS_STATUS_SUCCESS;
}

/* ---- what the library exports */

size_t cublasLtGetVersion(void) { return LIBRARY_VERSION; }

const char *cublasLtGetStatusName(cublasStatus_t status)
{
    static const char *const NAMES[] = {[CUBLAS_STATUS_SUCCESS] = "CUBLAS_STATUS_SUCCESS",
                                        [CUBLAS_STATUS_NOT_INITIALIZED] = "CUBLAS_STATUS_NOT_INITIALIZED",
                                        [CUBLAS_STATUS_ALLOC_FAILED] = "CUBLAS_STATUS_ALLOC_FAILED",
                                        [CUBLAS_STATUS_INVALID_VALUE] = "CUBLAS_STATUS_INVALID_VALUE",
                                        [CUBLAS_STATUS_ARCH_MISMATCH] = "CUBLAS_STATUS_ARCH_MISMATCH",
                                        [CUBLAS_STATUS_EXECUTION_FAILED] = "CUBLAS_STATUS_EXECUTION_FAILED",
                                        [CUBLAS_STATUS_INTERNAL_ERROR] = "CUBLAS_STATUS_INTERNAL_ERROR",
                                        [CUBLAS_STATUS_NOT_SUPPORTED] = "CUBLAS_STATUS_NOT_SUPPORTED"};
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
    (*desc)->bias_type = -1;
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
    bool transposed = attribute == CUBLASLT_MATMUL_DESC_TRANSA || attribute == CUBLASLT_MATMUL_DESC_TRANSB;
    if (transposed && bytes == sizeof(int32_t))
        memcpy(&desc->transposed[attribute - CUBLASLT_MATMUL_DESC_TRANSA], value, bytes);
    else if (attribute == CUBLASLT_MATMUL_DESC_EPILOGUE && bytes == sizeof desc->epilogue)
        memcpy(&desc->epilogue, value, bytes);
    else if (attribute == CUBLASLT_MATMUL_DESC_BIAS_POINTER && bytes == sizeof desc->bias)
        memcpy(&desc->bias, value, bytes);
    else if (attribute == CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE && bytes == sizeof desc->bias_type)
        memcpy(&desc->bias_type, value, bytes);
    else if (attribute == CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER && bytes == sizeof desc->aux)
        memcpy(&desc->aux, value, bytes);
    else if (attribute == CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD && bytes == sizeof desc->aux_pitch)
        memcpy(&desc->aux_pitch, value, bytes);
    else
        status = CUBLAS_STATUS_INVALID_VALUE;
    return leave(status);
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *layout, int type, uint64_t rows, uint64_t columns,
                                          int64_t pitch)
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

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference, int attribute, const void *value,
                                                    size_t bytes)
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
                                              cublasLtMatmulPreference_t preference, int wanted,
                                              cublasLtMatmulHeuristicResult_t *results, int *count)
{
    cublasStatus_t status = enter("cublasLtMatmulAlgoGetHeuristic");
    const struct cublasLtMatrixLayout *const layout[] = {a, b, d};
    return leave(status              ? status
                 : !handle || c != d ? CUBLAS_STATUS_INVALID_VALUE
                                     : heuristic(handle->device, desc, layout, preference, wanted, results, count));
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, const void *alpha, const void *a,
                              cublasLtMatrixLayout_t a_layout, const void *b, cublasLtMatrixLayout_t b_layout, const void *beta,
                              const void *c, cublasLtMatrixLayout_t c_layout, void *d, cublasLtMatrixLayout_t d_layout,
                              const cublasLtMatmulAlgo_t *algo, void *workspace, size_t workspace_bytes, CUstream stream)
{
    cublasStatus_t status = enter("cublasLtMatmul");
    bool wide = desc && desc->scale == CUDA_R_64F;
    double one = wide ? *(const double *)alpha : (double)*(const float *)alpha,
           zero = wide ? *(const double *)beta : (double)*(const float *)beta;
    if (!status && (!handle || c != d || c_layout != d_layout || !algo || one != 1 || (zero != 0 && zero != 1)))
        status = CUBLAS_STATUS_INVALID_VALUE;
    if ((int)status == CUDA_ERROR_ILLEGAL_ADDRESS) { /* an error of the driver's: the device is lost before this call */
        handle->device->failed = CUDA_ERROR_ILLEGAL_ADDRESS;
        status = CUBLAS_STATUS_EXECUTION_FAILED;
    }
    if (!status && handle->device->failed)
        status = CUBLAS_STATUS_EXECUTION_FAILED;
    Matmul p = {.desc = *desc,
                .layout = {*a_layout, *b_layout, *d_layout},
                .at = {(uintptr_t)a, (uintptr_t)b, (uintptr_t)d},
                .work = (uintptr_t)workspace,
                .adds = zero == 1};
    return leave(status ? status : issue(handle, p, algo, workspace_bytes, stream));
}
