/* floor.c: how fast this machine multiplies matrices: the best of a few ways, for bench/host's floor.
 *
 *     OMP_NUM_THREADS=2 floor 2 [f32|bf16] [SIZE] [SECONDS]
 *
 * In: threads, element type, rows = columns = depth of the contraction (2048), seconds to spend (1). Out: one line of JSON: the
 * library, its version, GFLOP/s of the best contraction. The library is oneDNN, opened when the program runs, its operands
 * as they lie or in the form that it prefers; where there is none, the contraction of the runtime (f32 alone). */
#include "runtime/abi/mgpu_gemm.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#if __has_include(<dnnl.h>)
#include <dnnl.h>
#endif

typedef struct Task {
    int threads, size;
    bool bf16;
    double budget_s;
    double best_s; /* of one contraction */
    char library[64];
} Task;

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void *filled(const Task *t, size_t bytes)
{
    void *memory = aligned_alloc(64, (bytes + 63) / 64 * 64);
    if (!memory) {
        fprintf(stderr, "floor: no memory for %zu bytes\n", bytes);
        exit(3);
    }
    for (size_t i = 0; i < bytes / (t->bf16 ? 2 : 4); i++) { /* -1 ... 1: neither zero nor denormal */
        float value = (float)(i * 2654435761u % 2001) / 1000 - 1 + 0.0003f;
        if (t->bf16)
            memcpy((char *)memory + 2 * i, (char *)&value + 2, 2);
        else
            memcpy((char *)memory + 4 * i, &value, 4);
    }
    return memory;
}

/* the shortest time of `contraction`, called until half of the budget is spent */
static void measure(Task *t, void (*contraction)(void *context), void *context)
{
    contraction(context);
    double begin = seconds();
    for (int turn = 0; turn < 3 || seconds() - begin < t->budget_s / 2; turn++) {
        double from = seconds();
        contraction(context);
        double took = seconds() - from;
        t->best_s = took < t->best_s ? took : t->best_s;
    }
}

/* ---- the runtime's contraction */
typedef struct Own {
    const Task *task;
    const mgpu_contraction *table;
    void *operand[3], *work;
    int64_t stride;
} Own;
typedef struct OwnShare {
    const Own *own;
    int thread;
    pthread_t id;
} OwnShare;

static void *own_share(void *context)
{
    const OwnShare *s = context;
    const Own *o = s->own;
    void *argument[] = {o->operand[0], o->operand[1], o->operand[2], (char *)o->work + s->thread * o->stride};
    mgpu_part part = {
        .samples = 1, .end = 1, .thread = s->thread, .threads = o->task->threads, .first = true, .stride = o->stride};
    mgpu_contract(o->table, argument, &part);
    return NULL;
}

static void own_contraction(void *context)
{
    const Own *o = context;
    OwnShare share[64];
    for (int i = 0; i < o->task->threads; i++)
        share[i] = (OwnShare){o, i, 0};
    for (int i = 1; i < o->task->threads; i++)
        if (pthread_create(&share[i].id, NULL, own_share, &share[i]) != 0)
            exit(3);
    own_share(&share[0]);
    for (int i = 1; i < o->task->threads; i++)
        pthread_join(share[i].id, NULL);
}

static void measure_own(Task *t)
{
    int64_t n = t->size;
    const mgpu_axis axis[] = {{n, n, 0, n, 0, 0}, {n, 0, 1, 1, 0, 0}, {n, 1, n, 0, 0, 0}};
    const mgpu_contraction table = {
        .m = 1, .n = 1, .k = 1, .axis = axis, .type = MGPU_F32, .copy = MGPU_COPY_BYTES, .packed = MGPU_PACKED_BYTES};
    Own own = {.task = t, .table = &table, .stride = MGPU_COPY_BYTES + MGPU_PACKED_BYTES};
    for (int i = 0; i < 3; i++)
        own.operand[i] = filled(t, (size_t)(n * n) * 4);
    own.work = filled(t, (size_t)(own.stride * t->threads));
    snprintf(t->library, sizeof t->library, "mgpuc %s", MGPU_VERSION);
    measure(t, own_contraction, &own);
    for (int i = 0; i < 3; i++)
        free(own.operand[i]);
    free(own.work);
}

/* ---- oneDNN; versions 2 and 3 describe a contraction differently */
#ifdef DNNL_VERSION_MAJOR
/* clang-format off */
#define DNNL_FUNCTIONS(F)                                                                                              \
    F(dnnl_version) F(dnnl_engine_create) F(dnnl_stream_create) F(dnnl_stream_wait) F(dnnl_primitive_create)           \
    F(dnnl_primitive_desc_query_md) F(dnnl_memory_create) F(dnnl_memory_desc_get_size) F(dnnl_primitive_execute)       \
    DNNL_FUNCTIONS_OF_VERSION(F)
/* clang-format on */
#if DNNL_VERSION_MAJOR >= 3
#define DNNL_FUNCTIONS_OF_VERSION(F) F(dnnl_memory_desc_create_with_tag) F(dnnl_matmul_primitive_desc_create)
#else
#define DNNL_FUNCTIONS_OF_VERSION(F) F(dnnl_memory_desc_init_by_tag) F(dnnl_matmul_desc_init) F(dnnl_primitive_desc_create)
#endif
#define DECLARE(name) __typeof__(&name) name##_;
typedef struct Dnnl {
    DNNL_FUNCTIONS(DECLARE)
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    dnnl_primitive_t primitive;
    dnnl_exec_arg_t args[3];
} Dnnl;

static bool open_dnnl(Dnnl *d)
{
    char name[32];
    snprintf(name, sizeof name, "libdnnl.so.%d", DNNL_VERSION_MAJOR);
    void *handle = dlopen(name, RTLD_NOW);
    bool all = handle != NULL;
#define FIND(name) all = all && (*(void **)&d->name##_ = dlsym(handle, #name)) != NULL;
    DNNL_FUNCTIONS(FIND)
    return all && d->dnnl_engine_create_(&d->engine, dnnl_cpu, 0) == dnnl_success &&
           d->dnnl_stream_create_(&d->stream, d->engine, dnnl_stream_default_flags) == dnnl_success;
}

static bool describe(Dnnl *d, const Task *t, dnnl_memory_desc_t form[3], dnnl_format_tag_t tag,
                     dnnl_primitive_desc_t *contraction)
{
    const dnnl_dims_t dims = {t->size, t->size};
    dnnl_data_type_t type = t->bf16 ? dnnl_bf16 : dnnl_f32;
    bool good = true;
#if DNNL_VERSION_MAJOR >= 3
    for (int i = 0; i < 3; i++)
        good = good && d->dnnl_memory_desc_create_with_tag_(&form[i], 2, dims, type, tag) == dnnl_success;
    return good &&
           d->dnnl_matmul_primitive_desc_create_(contraction, d->engine, form[0], form[1], NULL, form[2], NULL) == dnnl_success;
#else
    dnnl_matmul_desc_t matmul;
    for (int i = 0; i < 3; i++)
        good = good && d->dnnl_memory_desc_init_by_tag_(&form[i], 2, dims, type, tag) == dnnl_success;
    return good && d->dnnl_matmul_desc_init_(&matmul, &form[0], &form[1], NULL, &form[2]) == dnnl_success &&
           d->dnnl_primitive_desc_create_(contraction, &matmul, NULL, d->engine, NULL) == dnnl_success;
#endif
}

static void dnnl_matmul(void *context)
{
    Dnnl *d = context;
    if (d->dnnl_primitive_execute_(d->primitive, d->stream, 3, d->args) != dnnl_success ||
        d->dnnl_stream_wait_(d->stream) != dnnl_success)
        exit(3);
}

static bool measure_dnnl_as(Dnnl *d, Task *t, dnnl_format_tag_t tag)
{
    static const dnnl_query_t QUERY[] = {dnnl_query_src_md, dnnl_query_weights_md, dnnl_query_dst_md};
    static const int ARGUMENT[] = {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST};
    dnnl_memory_desc_t form[3];
    dnnl_primitive_desc_t contraction;
    if (!describe(d, t, form, tag, &contraction) || d->dnnl_primitive_create_(&d->primitive, contraction) != dnnl_success)
        return false;
    void *memory[3];
    for (int i = 0; i < 3; i++) {
        __typeof__(d->dnnl_primitive_desc_query_md_(contraction, QUERY[i], 0)) chosen =
            d->dnnl_primitive_desc_query_md_(contraction, QUERY[i], 0);
        memory[i] = filled(t, d->dnnl_memory_desc_get_size_(chosen));
        d->args[i].arg = ARGUMENT[i];
        if (d->dnnl_memory_create_(&d->args[i].memory, chosen, d->engine, memory[i]) != dnnl_success)
            return false;
    }
    measure(t, dnnl_matmul, d);
    for (int i = 0; i < 3; i++)
        free(memory[i]);
    return true;
}

static bool measure_dnnl(Task *t)
{
    Dnnl d;
    if (!open_dnnl(&d))
        return false;
    const dnnl_version_t *version = d.dnnl_version_();
    snprintf(t->library, sizeof t->library, "oneDNN %d.%d.%d", version->major, version->minor, version->patch);
    bool as_it_lies = measure_dnnl_as(&d, t, dnnl_ab);
    return measure_dnnl_as(&d, t, dnnl_format_tag_any) || as_it_lies;
}
#else
static bool measure_dnnl(Task *t)
{
    (void)t;
    return false;
}
#endif

int main(int argc, char **argv)
{
    Task t = {.threads = argc > 1 ? atoi(argv[1]) : 1,
              .size = argc > 3 ? atoi(argv[3]) : 2048,
              .bf16 = argc > 2 && strcmp(argv[2], "bf16") == 0,
              .budget_s = argc > 4 ? atof(argv[4]) : 1,
              .best_s = 1e30};
    if (t.threads < 1 || t.threads > 64 || t.size < 1 || t.size > 16384) {
        fprintf(stderr, "usage: floor THREADS [f32|bf16] [SIZE] [SECONDS]\n");
        return 2;
    }
    if (!measure_dnnl(&t)) {
        if (t.bf16) {
            fprintf(stderr, "floor: no oneDNN that multiplies bf16 here\n");
            return 1;
        }
        measure_own(&t);
    }
    printf("{\"library\": \"%s\", \"precision\": \"%s\", \"threads\": %d, \"gflops\": %.1f}\n", t.library,
           t.bf16 ? "bf16" : "fp32", t.threads, 2e-9 * t.size * t.size * t.size / t.best_s);
    return 0;
}
