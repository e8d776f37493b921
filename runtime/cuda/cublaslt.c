/* cublaslt.c: matmuls by cuBLASLt in place of a program's own kernels.
 *
 * In: the plan's calls of kernels that a library can compute (mgpu_library_matmul), and the alignment of their operands. Out,
 * when the device is opened: for each matmul and alignment the algorithm that the library's heuristics consider the fastest or,
 * with --tune, the fastest measured one. If there is none, or a trial is rejected or, with --tune, is slower, the kernel is used.
 * Split-K sums are added in f32 (or f64), in a fixed order. If an extent is no multiple of 16 bytes, such as 50,257 classes, the
 * library is called twice: for the largest multiple and for the rest (divide). A trained gelu and its gradient are both computed
 * by the library or both by kernels, since the two store different values in the buffer between them. */
#include "runtime/base/base.h"
#include "runtime/cuda/cublaslt.h"
#include "runtime/cuda/device_cuda.h"
#include "runtime/cuda/library.h"
#include "runtime/cuda/tuning.h"
#include "runtime/engine/engine.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_ALIGNMENT = 16 }; /* bytes: more makes no difference; the library requires it of biases, sums and gelu's buffer */
enum { CANDIDATES = 16 };     /* of --tune */
/* of a matmul: kernels can start early, the library's cannot. On an H100 lenet5, whose matmuls are as small, takes 0.95 of its
 * time without the library, and tests/models/attention.net 0.8 */
static const double SMALL_FLOPS = 1.5e7;
static const double LARGE_FLOPS = 2e9; /* of a matmul: above, a second call gains more than it costs */
enum { ROWS, COLUMNS, DEPTH, BATCH };
enum { A, B, D, MATRICES, VECTOR = MATRICES /* a bias, or sums */, AUX /* the buffer of gelu */, OPERANDS };

#define CUBLASLT_FIELD(result, symbol, field, parameters) result(*field) parameters;
#define CUBLASLT_SYMBOL(result, symbol, field, parameters) {#symbol, offsetof(Functions, field), false},
typedef struct Functions {
    CUBLASLT_FUNCTIONS(CUBLASLT_FIELD)
} Functions;
static const CudaSymbol SYMBOLS[] = {CUBLASLT_FUNCTIONS(CUBLASLT_SYMBOL)};
static const char *const NAMES[] = {"libcublasLt.so.13", "libcublasLt.so.12"};
static const char PACKAGE[] = "CUDA's package libcublas, such as libcublas-13-0, or pip's nvidia-cublas";

typedef struct MatmulCall {             /* one call of the library */
    int64_t extent[4], first[MATRICES]; /* first: elements, relative to the whole matmul */
    cublasLtMatrixLayout_t layout[MATRICES];
    cublasLtMatmulAlgo_t algo;
} MatmulCall;
typedef struct AlgorithmChoice AlgorithmChoice;
struct AlgorithmChoice { /* the algorithm for a kernel's matmul, for these alignments (0: no such operand) and this epilogue */
    int alignment[OPERANDS];
    uint32_t epilogue;
    cublasLtMatmulDesc_t desc;
    MatmulCall part[2];
    int parts; /* the second part is computed first */
    bool adds; /* the first part is added to the result of the second: they divide the K dimension */
    bool found;
    /* of --tune: by kernels, without the matmul of the previous call; by the library, all. own_us infinity: not timed */
    AlternativeTimes times;
    AlgorithmChoice *next;
};
typedef struct Operands {
    uint8_t *at[OPERANDS]; /* NULL: none */
    void *workspace;
    int64_t bytes;
} Operands;
typedef struct Done { /* an operation that the library computes */
    const mgpu_op *op;
    const mgpu_library_matmul *matmul;
    const AlgorithmChoice *choice; /* NULL: the next operation computes it, too */
    uint32_t epilogue;             /* CUBLASLT_EPILOGUE_... */
    int argument[OPERANDS];        /* of the call; -1: none */
} Done;
struct Cublaslt {
    Functions f;
    cublasLtHandle_t handle;
    AlgorithmChoice **choices; /* [kernel] */
    int kernels;
    Tuning *tuning; /* NULL: no --tune */
    bool all;       /* all matmuls, not only large ones */
    int refused;
    cublasStatus_t why; /* matmuls whose trial was rejected; the last reason */
    Done *done;
    int done_count; /* sorted by op */
};

/* ---- opening */
static char *open_named(const CudaDevice *d, const char *name, Cublaslt *l)
{
    CudaLibrary library = {name, PACKAGE, SYMBOLS, MGPU_COUNT(SYMBOLS), .toolkit = true, .folders = d->program->library_folders};
    char *why = mgpu_cuda_open(&library, &l->f);
    if (why)
        return why;
    mgpu_cuda_enter(d, -1);
    cublasStatus_t status = l->f.create(&l->handle);
    return status ? mgpu_format("cuBLASLt does not start: %s", l->f.get_status_name(status)) : NULL;
}

Cublaslt *mgpu_cublaslt_open(const CudaDevice *d, int kernels, char *description, size_t capacity)
{
    const char *wish = getenv("MGPU_CUBLASLT");
    if (wish && strcmp(wish, "off") == 0) {
        snprintf(description, capacity, "cuBLASLt is off");
        return NULL;
    }
    Cublaslt *l = mgpu_allocate(1, sizeof *l);
    bool named = wish && *wish && strcmp(wish, "on") != 0;
    char *why = open_named(d, named ? wish : NAMES[0], l);
    for (int i = 1; why && !named && i < MGPU_COUNT(NAMES); i++) {
        char *other = open_named(d, NAMES[i], l);
        if (!other) {
            free(why);
            why = NULL;
        }
        free(other);
    }
    if (why) {
        snprintf(description, capacity, "no cuBLASLt (%s)", why);
        free(why);
        free(l);
        return NULL;
    }
    l->kernels = kernels;
    l->all = wish && *wish;
    l->choices = mgpu_allocate((size_t)kernels, sizeof *l->choices);
    size_t version = l->f.get_version();
    snprintf(description, capacity, "cuBLASLt %zu.%zu.%zu", version / 10000, version / 100 % 100, version % 100);
    return l;
}

static void check(const Cublaslt *l, const CudaDevice *d, int lane, cublasStatus_t status, const char *call)
{
    if (status != CUBLAS_STATUS_SUCCESS)
        mgpu_cuda_library_failed(d, lane, call, l->f.get_status_name(status), "MGPU_CUBLASLT");
}

static void drop_choice(const Cublaslt *l, const CudaDevice *d, AlgorithmChoice *c)
{
    for (int i = 0; i < c->parts * MATRICES; i++)
        check(l, d, -1, l->f.layout_destroy(c->part[i / MATRICES].layout[i % MATRICES]), "cublasLtMatrixLayoutDestroy");
    check(l, d, -1, l->f.desc_destroy(c->desc), "cublasLtMatmulDescDestroy");
    free(c);
}

void mgpu_cublaslt_close(const CudaDevice *d, Cublaslt *l)
{
    if (!l)
        return;
    mgpu_cuda_enter(d, -1);
    for (int k = 0; k < l->kernels; k++)
        for (AlgorithmChoice *c = l->choices[k], *next; c; c = next) {
            next = c->next;
            drop_choice(l, d, c);
        }
    check(l, d, -1, l->f.destroy(l->handle), "cublasLtDestroy");
    free(l->choices);
    free(l->done);
    free(l);
}

/* ---- descriptions */
static int type_of(uint8_t type)
{
    return type == MGPU_F64 ? CUDA_R_64F : type == MGPU_F32 ? CUDA_R_32F : type == MGPU_F16 ? CUDA_R_16F : CUDA_R_16BF;
}

static int64_t extent_of(const mgpu_library_matmul *p, int which, int64_t samples)
{
    return p->sampled == which ? p->extent[which] * samples : p->extent[which];
}

static void set_extents(const mgpu_library_matmul *p, int64_t samples, int64_t extent[4])
{
    for (int i = 0; i < 4; i++)
        extent[i] = extent_of(p, i, samples);
}

/* part: extents of the part; whole: those of the matmul, which give the pitch of a matrix without gaps */
static cublasLtMatrixLayout_t make_layout(const Cublaslt *l, const CudaDevice *d, const mgpu_library_matrix *m,
                                          const int64_t *part, const int64_t *whole, int rows, int columns)
{
    cublasLtMatrixLayout_t layout = NULL;
    int64_t beside = part[m->transposed ? columns : rows], others = part[m->transposed ? rows : columns];
    int64_t pitch = m->pitch ? m->pitch : whole[m->transposed ? columns : rows];
    int32_t count = (int32_t)part[BATCH];
    check(l, d, -1, l->f.layout_create(&layout, type_of(m->type), (uint64_t)beside, (uint64_t)others, pitch),
          "cublasLtMatrixLayoutCreate");
    check(l, d, -1, l->f.layout_set(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof count),
          "cublasLtMatrixLayoutSetAttribute");
    check(l, d, -1,
          l->f.layout_set(layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &m->batch_stride, sizeof m->batch_stride),
          "cublasLtMatrixLayoutSetAttribute");
    return layout;
}

static void set(const Cublaslt *l, const CudaDevice *d, int lane, cublasLtMatmulDesc_t desc, int attribute, const void *value,
                size_t bytes)
{
    check(l, d, lane, l->f.desc_set(desc, attribute, value, bytes), "cublasLtMatmulDescSetAttribute");
}

static void describe_epilogue(const Cublaslt *l, const CudaDevice *d, const mgpu_library_matmul *p, const AlgorithmChoice *c)
{
    int32_t type = type_of(p->sums);
    int64_t pitch = p->d.pitch ? p->d.pitch : extent_of(p, ROWS, d->samples);
    set(l, d, -1, c->desc, CUBLASLT_MATMUL_DESC_EPILOGUE, &c->epilogue, sizeof c->epilogue);
    if (c->alignment[VECTOR])
        set(l, d, -1, c->desc, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, &type, sizeof type);
    if (c->alignment[AUX])
        set(l, d, -1, c->desc, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, &pitch, sizeof pitch);
}

/* Sets the pointers of vectors and gelu's buffer. The library also considers their alignment when it chooses. */
static void set_pointers(const Cublaslt *l, const CudaDevice *d, int lane, const AlgorithmChoice *c, const Operands *o)
{
    if (o->at[VECTOR])
        set(l, d, lane, c->desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &o->at[VECTOR], sizeof o->at[VECTOR]);
    if (o->at[AUX])
        set(l, d, lane, c->desc, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, &o->at[AUX], sizeof o->at[AUX]);
}

/* Returns whether rows or columns are contiguous; which: A, B or D. */
static int beside(const mgpu_library_matrix *m, int which)
{
    static const int ROWS_OF[] = {ROWS, DEPTH, ROWS}, COLUMNS_OF[] = {DEPTH, COLUMNS, COLUMNS};
    return m->transposed ? COLUMNS_OF[which] : ROWS_OF[which];
}

static double flops_of(const int64_t *extent)
{
    return 2 * (double)extent[ROWS] * (double)extent[COLUMNS] * (double)extent[DEPTH] * (double)extent[BATCH];
}

/* Returns the extent that is no multiple of 16 bytes in memory, if all rows begin at such multiples; -1 if there is none or it
 * does not matter. On an H100 GPT-2's three matmuls of 50,257 classes (bf16, 32,768 rows of 768) took 3.8, 3.3 and 3.2 ms in two
 * parts, in place of 28.2, 5.0 and 19.7. */
static int find_odd(const mgpu_library_matmul *p, const AlgorithmChoice *c, const int64_t *extent)
{
    const mgpu_library_matrix *matrix[] = {&p->a, &p->b, &p->d};
    int64_t unit = MOST_ALIGNMENT / mgpu_dtype_bytes(p->a.type);
    int odd = -1;
    if (mgpu_dtype_bytes(p->a.type) > 4 || (p->a.type == MGPU_F32 && !p->tf32) || c->epilogue != CUBLASLT_EPILOGUE_DEFAULT ||
        flops_of(extent) < LARGE_FLOPS)
        return -1;
    for (int i = 0; i < MATRICES; i++) {
        int axis = beside(matrix[i], i);
        int64_t pitch = matrix[i]->pitch ? matrix[i]->pitch : extent[axis];
        if (c->alignment[i] < MOST_ALIGNMENT || pitch % unit || matrix[i]->batch_stride % unit ||
            (odd >= 0 && odd != axis && extent[axis] % unit))
            return -1;
        if (extent[axis] % unit)
            odd = axis;
    }
    return odd >= 0 && extent[odd] > unit ? odd : -1;
}

/* Makes one part, or two: the largest multiple of 16 bytes, and the rest. */
static void divide(const mgpu_library_matmul *p, AlgorithmChoice *c, const int64_t *extent)
{
    static const int AXES[MATRICES][2] = {{ROWS, DEPTH}, {DEPTH, COLUMNS}, {ROWS, COLUMNS}};
    const mgpu_library_matrix *matrix[] = {&p->a, &p->b, &p->d};
    int odd = find_odd(p, c, extent);
    c->parts = odd >= 0 ? 2 : 1;
    c->adds = odd == DEPTH;
    for (int k = 0; k < c->parts; k++)
        memcpy(c->part[k].extent, extent, sizeof c->part[k].extent);
    if (odd < 0)
        return;
    c->part[1].extent[odd] = extent[odd] % (MOST_ALIGNMENT / mgpu_dtype_bytes(p->a.type));
    c->part[0].extent[odd] -= c->part[1].extent[odd];
    for (int i = 0; i < MATRICES; i++)
        if (AXES[i][0] == odd || AXES[i][1] == odd)
            c->part[1].first[i] = c->part[0].extent[odd] * (beside(matrix[i], i) == odd ? 1 : matrix[i]->pitch);
}

static void describe(const Cublaslt *l, const CudaDevice *d, const mgpu_library_matmul *p, AlgorithmChoice *c)
{
    int64_t extent[4];
    set_extents(p, d->samples, extent);
    int compute = p->sums == MGPU_F64 ? CUBLAS_COMPUTE_64F : p->tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
    int32_t transposed[] = {p->a.transposed ? CUBLAS_OP_T : CUBLAS_OP_N, p->b.transposed ? CUBLAS_OP_T : CUBLAS_OP_N};
    check(l, d, -1, l->f.desc_create(&c->desc, compute, type_of(p->sums)), "cublasLtMatmulDescCreate");
    for (int i = 0; i < 2; i++)
        set(l, d, -1, c->desc, CUBLASLT_MATMUL_DESC_TRANSA + i, &transposed[i], sizeof transposed[i]);
    if (c->epilogue != CUBLASLT_EPILOGUE_DEFAULT)
        describe_epilogue(l, d, p, c);
    divide(p, c, extent);
    for (int k = 0; k < c->parts; k++) {
        MatmulCall *part = &c->part[k];
        part->layout[A] = make_layout(l, d, &p->a, part->extent, extent, ROWS, DEPTH);
        part->layout[B] = make_layout(l, d, &p->b, part->extent, extent, DEPTH, COLUMNS);
        part->layout[D] = make_layout(l, d, &p->d, part->extent, extent, ROWS, COLUMNS);
    }
}

/* ---- the choice Finds algorithms that need at most this workspace, the library's favourite first, and returns their number. */
static int ask(const Cublaslt *l, const CudaDevice *d, int64_t workspace, const AlgorithmChoice *c, const MatmulCall *part,
               cublasLtMatmulHeuristicResult_t *results, int wanted)
{
    const cublasLtMatrixLayout_t *layout = part->layout;
    cublasLtMatmulPreference_t preference = NULL;
    uint64_t bytes = (uint64_t)workspace;
    uint32_t schemes = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    static const int OPERAND[] = {A, B, D, D}; /* of the attributes for A, B, C, D */
    int count = 0, usable = 0;
    check(l, d, -1, l->f.preference_create(&preference), "cublasLtMatmulPreferenceCreate");
    cublasStatus_t status = l->f.preference_set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &bytes, sizeof bytes);
    if (!status)
        status = l->f.preference_set(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &schemes, sizeof schemes);
    for (int i = 0; i < MGPU_COUNT(OPERAND) && !status; i++) {
        uint32_t alignment = (uint32_t)c->alignment[OPERAND[i]];
        status = l->f.preference_set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES + i, &alignment, sizeof alignment);
    }
    check(l, d, -1, status, "cublasLtMatmulPreferenceSetAttribute");
    status =
        l->f.get_heuristic(l->handle, c->desc, layout[A], layout[B], layout[D], layout[D], preference, wanted, results, &count);
    if (status != CUBLAS_STATUS_NOT_SUPPORTED && status != CUBLAS_STATUS_INVALID_VALUE)
        check(l, d, -1, status, "cublasLtMatmulAlgoGetHeuristic");
    for (int i = 0; i < count && status == CUBLAS_STATUS_SUCCESS; i++)
        if (results[i].state == CUBLAS_STATUS_SUCCESS && results[i].workspaceSize <= (size_t)workspace)
            results[usable++] = results[i];
    check(l, d, -1, l->f.preference_destroy(preference), "cublasLtMatmulPreferenceDestroy");
    return usable;
}

/* Likewise for the first part; the second one uses the library's favourite. */
static int ask_parts(const Cublaslt *l, const CudaDevice *d, int64_t workspace, AlgorithmChoice *c,
                     cublasLtMatmulHeuristicResult_t *results, int wanted)
{
    if (c->parts > 1 && !ask(l, d, workspace, c, &c->part[1], results, 1))
        return 0;
    c->part[1].algo = results[0].algo;
    return ask(l, d, workspace, c, &c->part[0], results, wanted);
}

static cublasStatus_t multiply_part(const CudaDevice *d, const Cublaslt *l, const mgpu_library_matmul *p,
                                    const AlgorithmChoice *c, const MatmulCall *part, const cublasLtMatmulAlgo_t *algo, bool adds,
                                    const Operands *o)
{
    static const double ONE[] = {0, 1};
    static const float ONE_F32[] = {0, 1};
    bool wide = p->sums == MGPU_F64;
    uint8_t *a = o->at[A] + part->first[A] * mgpu_dtype_bytes(p->a.type),
            *b = o->at[B] + part->first[B] * mgpu_dtype_bytes(p->b.type);
    uint8_t *to = o->at[D] + part->first[D] * mgpu_dtype_bytes(p->d.type);
    return l->f.matmul(l->handle, c->desc, wide ? (const void *)&ONE[1] : &ONE_F32[1], a, part->layout[A], b, part->layout[B],
                       wide ? (const void *)&ONE[adds] : &ONE_F32[adds], to, part->layout[D], to, part->layout[D], algo,
                       o->workspace, (size_t)o->bytes, d->stream[MGPU_COMP]);
}

/* algo: of the first part */
static cublasStatus_t multiply(const CudaDevice *d, const Cublaslt *l, const mgpu_library_matmul *p, const AlgorithmChoice *c,
                               const cublasLtMatmulAlgo_t *algo, const Operands *o)
{
    cublasStatus_t status =
        c->parts > 1 ? multiply_part(d, l, p, c, &c->part[1], &c->part[1].algo, false, o) : CUBLAS_STATUS_SUCCESS;
    return status ? status : multiply_part(d, l, p, c, &c->part[0], algo, c->adds, o);
}

/* The library's heuristics may offer what the call then rejects (a library older than the GPU). It is tried once where the kernel
 * can still be used instead, with the real operands in the unused arena, as --tune does. The trial also loads what cannot be
 * loaded during a capture. */
static bool is_refused(Cublaslt *l, cublasStatus_t status)
{
    bool refused = status == CUBLAS_STATUS_ARCH_MISMATCH || status == CUBLAS_STATUS_NOT_SUPPORTED;
    l->refused += refused;
    l->why = refused ? status : l->why;
    return refused;
}

static bool try_matmul(const CudaDevice *d, Cublaslt *l, const mgpu_library_matmul *p, const AlgorithmChoice *c,
                       const Operands *o)
{
    mgpu_cuda_declare(d, MGPU_COMP, "a matmul that is tried", NULL, -1);
    cublasStatus_t status = multiply(d, l, p, c, &c->part[0].algo, o);
    if (is_refused(l, status))
        return false;
    check(l, d, -1, status, "cublasLtMatmul of a matmul that is tried");
    return true;
}

/* ---- --tune */

static char *text_of_matrix(const mgpu_library_matrix *m, int alignment)
{
    return mgpu_format("%s%s/%lld/%lld@%d", mgpu_dtype_name(m->type), m->transposed ? "t" : "", (long long)m->pitch,
                       (long long)m->batch_stride, alignment);
}

/* Returns a key of everything that times depend on. The names of functions include what they are compiled for. */
static char *key_of(const CudaDevice *d, const Cublaslt *l, const Done *done, const AlgorithmChoice *c, int64_t workspace)
{
    const mgpu_library_matmul *p = done->matmul;
    char *matrix[] = {text_of_matrix(&p->a, c->alignment[A]), text_of_matrix(&p->b, c->alignment[B]),
                      text_of_matrix(&p->d, c->alignment[D])};
    char *key = mgpu_format("cublasLt %zu, %s: %lldx%lldx%lld of %lld, %s %s %s, sums %s%s, epilogue %u@%d@%d, work %lld%s",
                            l->f.get_version(), d->kernels[mgpu_cuda_row(d, done->op->target)].launch[0].function,
                            (long long)extent_of(p, ROWS, d->samples), (long long)extent_of(p, COLUMNS, d->samples),
                            (long long)extent_of(p, DEPTH, d->samples), (long long)extent_of(p, BATCH, d->samples), matrix[A],
                            matrix[B], matrix[D], mgpu_dtype_name(p->sums), p->tf32 ? " tf32" : "", c->epilogue,
                            c->alignment[VECTOR], c->alignment[AUX], (long long)workspace, c->parts > 1 ? ", in two" : "");
    for (int i = 0; i < MATRICES; i++)
        free(matrix[i]);
    return key;
}

typedef struct MatmulTrial { /* of a call */
    const Cublaslt *l;
    const mgpu_device_phase *phase;
    const Done *done;
    const AlgorithmChoice *choice;
    const cublasLtMatmulHeuristicResult_t *results;
    const Operands *operands;
} MatmulTrial;

static bool run_alternative(const CudaDevice *d, const void *context, int alternative)
{
    const MatmulTrial *t = context;
    if (alternative > 0)
        return multiply(d, t->l, t->done->matmul, t->choice, &t->results[alternative - 1].algo, t->operands) ==
               CUBLAS_STATUS_SUCCESS;
    mgpu_cuda_launch_first(d, t->phase, t->done->op);
    return true;
}

/* A result without samples must have the same bits on all devices, so all use the same algorithm. */
static bool may_differ(const CudaDevice *d, const mgpu_library_matmul *p) { return p->sampled >= 0 || d->plan->devices == 1; }

/* Chooses the fastest algorithm; returns false if none runs. */
static bool tune(const CudaDevice *d, Cublaslt *l, const MatmulTrial *t, AlgorithmChoice *c, int count)
{
    char *key = key_of(d, l, t->done, c, t->operands->bytes);
    c->times = mgpu_time_alternatives(
        d, l->tuning, &(Alternatives){.key = key, .count = 1 + count, .usual = 1, .run = run_alternative, .context = t});
    free(key);
    if (c->times.best > 0)
        c->part[0].algo = t->results[c->times.best - 1].algo;
    else
        is_refused(l, CUBLAS_STATUS_NOT_SUPPORTED);
    return c->times.best > 0;
}

static int64_t bytes_before(const mgpu_library_matmul *p, int which)
{
    const mgpu_library_matrix *m = which == A ? &p->a : which == B ? &p->b : &p->d;
    return which >= MATRICES ? 0 : m->first * mgpu_dtype_bytes(m->type);
}

static int alignment_of(uint64_t address)
{
    return (int)((address & -address & (MOST_ALIGNMENT - 1)) ? address & -address : MOST_ALIGNMENT);
}

static AlgorithmChoice *find_choice(const Cublaslt *l, int kernel, const AlgorithmChoice *like)
{
    AlgorithmChoice *c = l->choices[kernel];
    while (c && (memcmp(c->alignment, like->alignment, sizeof c->alignment) != 0 || c->epilogue != like->epilogue))
        c = c->next;
    return c;
}

static Operands operands_at(const CudaDevice *d, const mgpu_device_phase *p, const Done *done)
{
    const mgpu_op *op = done->op;
    Operands o = {.workspace = mgpu_cuda_argument(d, p, op, op->read_count + op->write_count - 2),
                  .bytes = mgpu_cuda_workspace(op)};
    for (int i = 0; i < OPERANDS; i++)
        if (done->argument[i] >= 0)
            o.at[i] = (uint8_t *)mgpu_cuda_argument(d, p, op, done->argument[i]) + bytes_before(done->matmul, i);
    return o;
}

static void add_done(Cublaslt *l, Done done) { MGPU_PUSH(l->done, l->done_count, done); }

static const AlgorithmChoice *choose(const CudaDevice *d, Cublaslt *l, const mgpu_device_phase *p, int kernel, const Done *done)
{
    AlgorithmChoice like = {.epilogue = done->epilogue}, *c;
    Operands o = operands_at(d, p, done);
    for (int i = 0; i < OPERANDS; i++)
        like.alignment[i] = o.at[i] ? alignment_of((uint64_t)(uintptr_t)o.at[i] - d->arena) : 0;
    for (int i = VECTOR; i <= AUX; i++)
        if (o.at[i] && like.alignment[i] < MOST_ALIGNMENT)
            return NULL;
    c = find_choice(l, kernel, &like);
    if (!c) {
        c = mgpu_allocate(1, sizeof *c);
        *c = like;
        describe(l, d, done->matmul, c);
        set_pointers(l, d, -1, c, &o);
        cublasLtMatmulHeuristicResult_t results[CANDIDATES] = {0};
        bool timed = l->tuning && may_differ(d, done->matmul);
        int count = ask_parts(l, d, o.bytes, c, results, timed ? CANDIDATES : 1);
        MatmulTrial trial = {l, p, done, c, results, &o};
        c->part[0].algo = results[0].algo;
        c->times.kernel_us = INFINITY;
        c->found = count > 0 && (!timed || tune(d, l, &trial, c, count)) && try_matmul(d, l, done->matmul, c, &o);
        c->next = l->choices[kernel];
        l->choices[kernel] = c;
    }
    return c->found ? c : NULL;
}

/* ---- calls that compute a matmul and what follows it */

/* stored: the library also stores something in the matmul's result; of_a: the sums are over A */
static uint32_t epilogue_of(const mgpu_epilogue *e, bool stored, bool of_a)
{
    uint32_t bias = e->bias >= 0 ? CUBLASLT_EPILOGUE_BIAS : 0;
    switch (e->kind) {
    case MGPU_EPILOGUE_BIAS: return CUBLASLT_EPILOGUE_BIAS;
    case MGPU_EPILOGUE_RELU: return CUBLASLT_EPILOGUE_RELU | bias;
    case MGPU_EPILOGUE_GELU: return (stored ? CUBLASLT_EPILOGUE_GELU_AUX : CUBLASLT_EPILOGUE_GELU) | bias;
    case MGPU_EPILOGUE_DGELU: return e->sums >= 0 ? CUBLASLT_EPILOGUE_DGELU_BGRAD : CUBLASLT_EPILOGUE_DGELU;
    case MGPU_EPILOGUE_BGRAD: return of_a ? CUBLASLT_EPILOGUE_BGRADA : CUBLASLT_EPILOGUE_BGRADB;
    default: return CUBLASLT_EPILOGUE_DEFAULT;
    }
}

static bool is_stored(const mgpu_epilogue *e, const mgpu_op *op) { return op->write_count == e->writes + 2; }

/* Describes how the library would compute the call; its choice is NULL if there is no algorithm. */
static Done joined(const CudaDevice *d, Cublaslt *l, const mgpu_device_phase *p, const mgpu_op *op)
{
    const mgpu_op *before = mgpu_comp_before(p, op);
    const mgpu_library_matmul *matmul = d->kernels[before->target].matmul;
    const mgpu_epilogue *e = &d->kernels[op->target].epilogue;
    int first = op->read_count - 1; /* of what is written: the step block is no argument */
    int y = first + e->y, sums = e->sums >= 0 ? first + e->sums : -1, result = first + e->writes;
    bool of_a = mgpu_access_of(op, e->x)->buffer == mgpu_access_of(op, e->reads + matmul->a.argument)->buffer,
         stored = is_stored(e, op);
    Done done = {.op = op, .matmul = matmul, .epilogue = epilogue_of(e, stored, of_a)};
    done.argument[A] = e->reads + matmul->a.argument;
    done.argument[B] = e->reads + matmul->b.argument;
    done.argument[D] = e->kind == MGPU_EPILOGUE_BGRAD ? result : y;
    done.argument[VECTOR] = e->kind == MGPU_EPILOGUE_DGELU || e->kind == MGPU_EPILOGUE_BGRAD ? sums : e->bias;
    done.argument[AUX] = e->kind == MGPU_EPILOGUE_DGELU ? e->before : e->kind == MGPU_EPILOGUE_GELU && stored ? result : -1;
    done.choice = choose(d, l, p, before->target, &done);
    return done;
}

/* The library computes the call, and the call of the matmul does nothing. */
static void replace(Cublaslt *l, const mgpu_device_phase *p, Done done)
{
    const mgpu_op *before = mgpu_comp_before(p, done.op);
    int i = 0;
    while (i < l->done_count && l->done[i].op != before)
        i++;
    if (i == l->done_count)
        add_done(l, (Done){0});
    l->done[i] = (Done){.op = before};
    add_done(l, done);
}

/* Returns the call of the gradient for which this gelu stores d + bias, or NULL if it is not trained. */
static const mgpu_op *find_gradient(const CudaDevice *d, const mgpu_device_phase *p, const mgpu_op *op)
{
    const mgpu_epilogue *e = &d->kernels[op->target].epilogue;
    int left = mgpu_access_of(op, op->read_count + e->writes)->buffer;
    for (const mgpu_op *later = op + 1; is_stored(e, op) && later < p->ops + p->op_count; later++) {
        const mgpu_gpu_kernel *k = later->verb == MGPU_CALL ? &d->kernels[later->target] : NULL;
        if (k && k->epilogue.kind == MGPU_EPILOGUE_DGELU && mgpu_is_joined(k, later) &&
            mgpu_access_of(later, k->epilogue.before)->buffer == left)
            return later;
    }
    return NULL;
}

/* Sets the times of both calls; `faster`: the library computes them. */
static void set_times(Cublaslt *l, const mgpu_device_phase *p, const Done *done, bool faster)
{
    const mgpu_op *before = mgpu_comp_before(p, done->op);
    const AlternativeTimes *t = &done->choice->times;
    double matmul_us = mgpu_tuning_us(l->tuning, before);
    if (isinf(t->kernel_us) || isinf(matmul_us))
        return;
    mgpu_tuning_set(l->tuning, before, t->usual_us, faster ? t->best_us : matmul_us);
    mgpu_tuning_set(l->tuning, done->op, 0, faster ? 0 : t->kernel_us);
}

/* Returns true if the library's calls, which include the matmuls before them, are faster than kernels after whatever computes the
 * matmuls. */
static bool are_faster(const Cublaslt *l, const mgpu_device_phase *p, const Done *const both[2])
{
    double together = 0, apart = 0;
    for (int i = 0; i < 2 && both[i]; i++) {
        together += both[i]->choice->times.best_us;
        apart += both[i]->choice->times.kernel_us + mgpu_tuning_us(l->tuning, mgpu_comp_before(p, both[i]->op));
    }
    return together < apart;
}

static double flops_of_matmul(const CudaDevice *d, const mgpu_library_matmul *p)
{
    int64_t extent[4];
    set_extents(p, d->samples, extent);
    return flops_of(extent);
}

/* Returns true if the matmul is left to our kernel. */
static bool is_left(const CudaDevice *d, const Cublaslt *l, const mgpu_library_matmul *p)
{
    return !l->tuning && !l->all && flops_of_matmul(d, p) < SMALL_FLOPS;
}

/* On an H100, large matmuls with sums of an operand took longer than a matmul and our kernel of sums: GPT-2's three shapes in
 * bf16 88.8, 218.6 and 225.8 us in place of 87.6, 211 and 207.6. */
static bool are_faster_apart(const CudaDevice *d, const mgpu_library_matmul *p) { return flops_of_matmul(d, p) >= LARGE_FLOPS; }

static void prepare_epilogue(const CudaDevice *d, Cublaslt *l, const mgpu_device_phase *p, const mgpu_op *op)
{
    uint8_t kind = d->kernels[op->target].epilogue.kind;
    if (kind == MGPU_EPILOGUE_DGELU) /* handled with the call of its gelu */
        return;
    const mgpu_library_matmul *matmul = d->kernels[mgpu_comp_before(p, op)->target].matmul;
    if (is_left(d, l, matmul) || (kind == MGPU_EPILOGUE_BGRAD && !l->tuning && are_faster_apart(d, matmul)))
        return;
    const mgpu_op *gradient = kind == MGPU_EPILOGUE_GELU ? find_gradient(d, p, op) : NULL;
    if (kind == MGPU_EPILOGUE_GELU && is_stored(&d->kernels[op->target].epilogue, op) && !gradient)
        return;
    Done done = joined(d, l, p, op), other = gradient ? joined(d, l, p, gradient) : done;
    if (!done.choice || !other.choice)
        return;
    const Done *both[] = {&done, gradient ? &other : NULL};
    bool faster = !l->tuning || are_faster(l, p, both);
    for (int i = 0; i < MGPU_COUNT(both) && both[i]; i++) {
        if (l->tuning)
            set_times(l, p, both[i], faster);
        if (faster)
            replace(l, p, *both[i]);
    }
}

static void prepare_matmul(const CudaDevice *d, Cublaslt *l, const mgpu_device_phase *p, const mgpu_op *op)
{
    const mgpu_library_matmul *matmul = d->kernels[op->target].matmul;
    if (is_left(d, l, matmul))
        return;
    Done done = {.op = op,
                 .matmul = matmul,
                 .epilogue = CUBLASLT_EPILOGUE_DEFAULT,
                 .argument = {matmul->a.argument, matmul->b.argument, 2, -1, -1}};
    done.choice = choose(d, l, p, op->target, &done);
    const AlternativeTimes *t = done.choice ? &done.choice->times : NULL;
    if (t && t->best_us < t->kernel_us)
        add_done(l, done);
    if (t && !isinf(t->kernel_us))
        mgpu_tuning_set(l->tuning, op, t->usual_us, t->best_us < t->kernel_us ? t->best_us : t->kernel_us);
}

/* First the calls of matmuls, then the calls with epilogues. */
static void prepare_phase(const CudaDevice *d, Cublaslt *l, const mgpu_device_phase *p)
{
    for (int joined = 0; joined < 2; joined++)
        for (const mgpu_op *op = p->ops; op < p->ops + p->op_count; op++) {
            const mgpu_gpu_kernel *kernel = op->verb == MGPU_CALL ? &d->kernels[op->target] : NULL;
            if (kernel && !joined && kernel->matmul)
                prepare_matmul(d, l, p, op);
            else if (kernel && joined && mgpu_is_joined(kernel, op))
                prepare_epilogue(d, l, p, op);
        }
}

static int by_operation(const void *a, const void *b)
{
    uintptr_t x = (uintptr_t)((const Done *)a)->op, y = (uintptr_t)((const Done *)b)->op;
    return (x > y) - (x < y);
}

void mgpu_cublaslt_prepare(const CudaDevice *d, Cublaslt *l, Tuning *tuning, char *description, size_t capacity)
{
    mgpu_cuda_enter(d, -1);
    l->tuning = tuning;
    for (int k = 0; k < d->plan->phase_count; k++)
        prepare_phase(d, l, &d->plan->phases[k].devices[d->number]);
    l->tuning = NULL;
    mgpu_cuda_check(d, -1, d->cuda->stream_synchronize(d->stream[MGPU_COMP]), "cuStreamSynchronize of matmuls that are tried");
    size_t used = strlen(description);
    if (l->refused)
        snprintf(description + used, capacity - used, ", %d matmul%s by kernels (%s)", l->refused, l->refused == 1 ? "" : "s",
                 l->f.get_status_name(l->why));
    if (l->done_count)
        qsort(l->done, (size_t)l->done_count, sizeof *l->done, by_operation);
}

static const Done *find_done(const Cublaslt *l, const mgpu_op *op)
{
    Done key = {.op = op};
    return l->done_count ? bsearch(&key, l->done, (size_t)l->done_count, sizeof key, by_operation) : NULL;
}

int mgpu_cublaslt_run(const CudaDevice *d, const Cublaslt *l, const DeviceCall *call)
{
    const Done *done = find_done(l, call->op);
    if (!done || !done->choice)
        return done ? 0 : -1;
    Operands o = {.workspace = call->argument[call->arguments - 1], .bytes = mgpu_cuda_workspace(call->op)};
    for (int i = 0; i < OPERANDS; i++)
        if (done->argument[i] >= 0)
            o.at[i] = (uint8_t *)call->argument[done->argument[i]] + bytes_before(done->matmul, i);
    set_pointers(l, d, MGPU_COMP, done->choice, &o);
    check(l, d, MGPU_COMP, multiply(d, l, done->matmul, done->choice, &done->choice->part[0].algo, &o), "cublasLtMatmul");
    return done->choice->parts;
}
