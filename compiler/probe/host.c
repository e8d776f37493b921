/* host.c: measure the host of this machine, in a few seconds, or in about one (PROBE_SHORT).
 *
 * All threads measure at the same time, as the devices of a run compute at the same time. A thread's work is divided by its own
 * processor time, so that other programs matter as little as possible. Each number is the median of several measurements,
 * followed by the lowest and the highest.
 *
 *   arithmetic  multiply-adds in registers, with the widest vectors of the processor
 *   matmul      512 x 512 x 512 in f32 by the runtime's own kernels, one for each thread
 *   bandwidth   y = a x + b over 4 MiB for each thread, near caches included: what element-wise kernels reach
 *   barrier, step, meeting, idle meeting: steps.c; the lowest counts, since other programs only add to it
 *   decode      pictures, by the runtime's own decoder (pictures.c)
 *   disk        a file is written, dropped from memory, and read */
#include "compiler/link/translation_units.h"
#include "compiler/probe/probe.h"
#include "runtime/abi/mgpu_gemm.h"
#include "runtime/base/base.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { CHAINS = 12, STEPS = 400000, ELEMENTS = 1 << 19, SIDE = 512 /* SIDE x SIDE: half of the elements */, MATMULS = 8 };
static const struct Amount {
    int rounds, passes, pictures, disk_rounds, disk_bytes;
} AMOUNT[PROBE_LENGTHS] = {
    [PROBE_SHORT] = {3, 10, 8, 1, 16 << 20},
    [PROBE_LONG] = {9, 40, 16, 3, 64 << 20},
};

#if defined(__x86_64__)
#define WIDE512 __attribute__((target("avx512f,avx512dq,avx512vl,fma"), noinline))
#define WIDE256 __attribute__((target("avx2,fma"), noinline))
#endif
#define WIDE __attribute__((noinline))

/* Computes CHAINS independent sums, each of a vector of `bytes` bytes; returns a value that needs all of them. */
#define CHAIN_LOOP(name, how, type, bytes)                                                                                       \
    how static double name(void)                                                                                                 \
    {                                                                                                                            \
        typedef type Vector __attribute__((vector_size(bytes)));                                                                 \
        Vector a0 = {1}, a1 = {2}, a2 = {3}, a3 = {4}, a4 = {5}, a5 = {6}, a6 = {7}, a7 = {8}, a8 = {9}, a9 = {10};              \
        Vector a10 = {11}, a11 = {12}, factor = {0}, step = {1};                                                                 \
        for (int i = 0; i < STEPS; i++) {                                                                                        \
            a0 = a0 * factor + step, a1 = a1 * factor + step, a2 = a2 * factor + step, a3 = a3 * factor + step;                  \
            a4 = a4 * factor + step, a5 = a5 * factor + step, a6 = a6 * factor + step, a7 = a7 * factor + step;                  \
            a8 = a8 * factor + step, a9 = a9 * factor + step, a10 = a10 * factor + step, a11 = a11 * factor + step;              \
            __asm__ volatile("" : "+x"(factor));                                                                                 \
        }                                                                                                                        \
        Vector all = a0 + a1 + a2 + a3 + a4 + a5 + a6 + a7 + a8 + a9 + a10 + a11;                                                \
        return (double)all[0];                                                                                                   \
    }
#if defined(__x86_64__)
CHAIN_LOOP(chain512_f32, WIDE512, float, 64)
CHAIN_LOOP(chain512_f64, WIDE512, double, 64)
CHAIN_LOOP(chain256_f32, WIDE256, float, 32)
CHAIN_LOOP(chain256_f64, WIDE256, double, 32)
CHAIN_LOOP(chain128_f32, WIDE, float, 16)
CHAIN_LOOP(chain128_f64, WIDE, double, 16)
#endif

typedef double Chain(void);
typedef struct Chains {
    Chain *f32, *f64;
    int bytes;
} Chains;

static Chains widest(void)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
        return (Chains){chain512_f32, chain512_f64, 64};
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        return (Chains){chain256_f32, chain256_f64, 32};
    return (Chains){chain128_f32, chain128_f64, 16};
#else
    return (Chains){0};
#endif
}

/* ---- threads */
typedef struct Pool Pool;
typedef struct ProbeWorker {
    pthread_t thread;
    Pool *pool;
    float *x, *y;
    void *work;                               /* of a matmul */
    double f32, f64, matmul, bytes, pictures; /* per second, in the last round */
    double sink;
} ProbeWorker;
struct Pool {
    int count;
    ProbeWorker *workers;
    Chains chains;
    const struct Amount *amount;
    Picture picture;
    atomic_int arrived, round;
};

static double seconds(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void wait_at_barrier(Pool *t)
{
    int round = atomic_load(&t->round);
    if (atomic_fetch_add(&t->arrived, 1) + 1 == t->count) {
        atomic_store(&t->arrived, 0);
        atomic_fetch_add(&t->round, 1);
        return;
    }
    for (int spins = 0; atomic_load(&t->round) == round; spins++)
        if (spins > 10000) { /* the other thread may have no core */
            struct timespec nap = {0, 1000};
            nanosleep(&nap, NULL);
        }
}

static double chain_rate(ProbeWorker *w, Chain *chain, int bytes, int element)
{
    double begin = seconds(CLOCK_THREAD_CPUTIME_ID);
    w->sink += chain();
    return 2.0 * CHAINS * STEPS * bytes / element / (seconds(CLOCK_THREAD_CPUTIME_ID) - begin);
}

static double matmul_rate(ProbeWorker *w)
{
    static const mgpu_axis axis[] = {{SIDE, SIDE, 0, SIDE, 0, 0}, {SIDE, 0, 1, 1, 0, 0}, {SIDE, 1, SIDE, 0, 0, 0}};
    static const mgpu_contraction table = {
        .m = 1, .n = 1, .k = 1, .axis = axis, .type = MGPU_F32, .copy = MGPU_COPY_BYTES, .packed = MGPU_PACKED_BYTES};
    void *argument[] = {w->x, w->x + SIDE * SIDE, w->y, w->work};
    const mgpu_part part = {.samples = 1, .end = 1, .threads = 1, .first = true};
    double begin = 0;
    for (int i = -MATMULS / 4; i < MATMULS; i++) { /* the first ones meet empty caches and a slow clock */
        if (i == 0)
            begin = seconds(CLOCK_THREAD_CPUTIME_ID);
        mgpu_contract(&table, argument, &part);
    }
    return 2.0 * SIDE * SIDE * SIDE * MATMULS / (seconds(CLOCK_THREAD_CPUTIME_ID) - begin);
}

static double stream_rate(ProbeWorker *w, int passes)
{
    double begin = seconds(CLOCK_THREAD_CPUTIME_ID);
    for (int pass = 0; pass < passes; pass++) {
        for (int i = 0; i < ELEMENTS; i++)
            w->y[i] = 1.5f * w->x[i] + 2;
        __asm__ volatile("" : : "r"(w->y) : "memory");
    }
    return 8.0 * ELEMENTS * passes / (seconds(CLOCK_THREAD_CPUTIME_ID) - begin);
}

static void *measure(void *argument)
{
    ProbeWorker *w = argument;
    Pool *t = w->pool;
    wait_at_barrier(t);
    w->f32 = t->chains.f32 ? chain_rate(w, t->chains.f32, t->chains.bytes, 4) : 0;
    w->f64 = t->chains.f64 ? chain_rate(w, t->chains.f64, t->chains.bytes, 8) : 0;
    wait_at_barrier(t);
    w->matmul = matmul_rate(w);
    wait_at_barrier(t);
    w->bytes = stream_rate(w, t->amount->passes);
    wait_at_barrier(t);
    w->pictures = pictures_per_second(&t->picture, t->amount->pictures);
    return NULL;
}

/* Runs one round: every thread makes each measurement once. */
static void run_round(Pool *t)
{
    for (int i = 1; i < t->count; i++)
        if (pthread_create(&t->workers[i].thread, NULL, measure, &t->workers[i]))
            fail(3, "mgpuc probe cannot start %d threads: %m", t->count);
    measure(&t->workers[0]);
    for (int i = 1; i < t->count; i++)
        pthread_join(t->workers[i].thread, NULL);
}

/* ---- load: one thread for each core does nothing but wait for a time to pass, and measures for how much of it it had its
 * core */
typedef struct Spinner {
    pthread_t thread;
    double share;
} Spinner;

static void *spin(void *argument)
{
    static const double SPIN_S = .02;
    Spinner *s = argument;
    double begin = seconds(CLOCK_MONOTONIC), own = seconds(CLOCK_THREAD_CPUTIME_ID), passed = 0;
    while (passed < SPIN_S)
        passed = seconds(CLOCK_MONOTONIC) - begin;
    s->share = (seconds(CLOCK_THREAD_CPUTIME_ID) - own) / passed;
    return NULL;
}

int probe_load(void)
{
    const char *known = getenv("MGPUC_LOAD");
    if (known && *known)
        return atoi(known);
    int count = cores_available();
    Spinner *spinners = NEW_ARRAY(Spinner, count);
    double had = 0;
    for (int i = 1; i < count; i++)
        if (pthread_create(&spinners[i].thread, NULL, spin, &spinners[i]))
            fail(3, "mgpuc probe cannot start %d threads: %m", count);
    spin(&spinners[0]);
    for (int i = 1; i < count; i++)
        pthread_join(spinners[i].thread, NULL);
    for (int i = 0; i < count; i++)
        had += spinners[i].share / count;
    return had < 1 ? (int)(100 * (1 - had) + .5) : 0;
}

/* ---- numbers */
void add_measurement(Measurements *m, double value)
{
    if (value > 0)
        APPEND(m->values, m->count, value);
}

double median_of(const Measurements *m)
{
    double *sorted = NEW_ARRAY(double, m->count);
    for (int i = 0; i < m->count; i++)
        sorted[i] = m->values[i];
    qsort(sorted, (size_t)m->count, sizeof *sorted, mgpu_compare_doubles);
    return m->count ? sorted[m->count / 2] : 0;
}

void write_measured(Text *t, const char *what, Measurements *m, Choice choice, double unit, const char *unit_name,
                    const char *emulated)
{
    char day[16];
    time_t now = time(NULL);
    if (!m->count)
        return;
    strftime(day, sizeof day, "%Y-%m-%d", localtime(&now));
    qsort(m->values, (size_t)m->count, sizeof *m->values, mgpu_compare_doubles);
    text_add(t, "%s %.4g%s %s%s    # %s%s%.4g to %.4g\n", what, m->values[choice == CHOOSE_LOWEST ? 0 : m->count / 2] / unit,
             unit_name, emulated ? "nominal" : "measured ", emulated ? "" : day, emulated ? emulated : "", emulated ? ": " : "",
             m->values[0] / unit, m->values[m->count - 1] / unit);
}

static double disk_rate(const char *folder, int size)
{
    char *path = strdup(format("%s/mgpuc.probe.XXXXXX", folder));
    int file = path ? mkstemp(path) : -1;
    char *bytes = calloc(1, (size_t)size);
    double rate = 0;
    if (file >= 0 && bytes && write(file, bytes, (size_t)size) == size && fsync(file) == 0 &&
        posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED) == 0) {
        double begin = seconds(CLOCK_MONOTONIC);
        ssize_t got = 0;
        for (ssize_t n; got < size && (n = pread(file, bytes, 1 << 20, got)) > 0;)
            got += n;
        rate = got == size ? size / (seconds(CLOCK_MONOTONIC) - begin) : 0;
    }
    if (file >= 0) {
        close(file);
        unlink(path);
    }
    free(bytes);
    free(path);
    return rate;
}

static Pool *new_pool(ProbeLength length)
{
    Pool *p = NEW(Pool);
    *p = (Pool){.count = cores_available(), .chains = widest(), .amount = &AMOUNT[length], .picture = probe_picture()};
    p->workers = NEW_ARRAY(ProbeWorker, p->count);
    for (int i = 0; i < p->count; i++) {
        ProbeWorker *w = &p->workers[i];
        *w = (ProbeWorker){.pool = p,
                           .x = NEW_ARRAY(float, ELEMENTS),
                           .y = NEW_ARRAY(float, ELEMENTS),
                           .work = mgpu_allocate_aligned(64, MGPU_COPY_BYTES + MGPU_PACKED_BYTES)};
        for (int k = 0; k < ELEMENTS; k++)
            w->x[k] = (float)k, w->y[k] = 0;
    }
    return p;
}

void probe_host(Text *t, ProbeLength length, double memory)
{
    Pool *pool = new_pool(length);
    const struct Amount *a = pool->amount;
    int cores = pool->count;
    Measurements f32 = {0}, f64 = {0}, matmul = {0}, bytes = {0}, pictures = {0}, disk = {0}, barrier = {0}, step = {0},
                 meeting = {0}, idle = {0};
    for (int round = 0; round < a->rounds; round++) {
        double all[5] = {0};
        run_round(pool);
        for (int i = 0; i < cores; i++) {
            all[0] += pool->workers[i].f32;
            all[1] += pool->workers[i].f64;
            all[2] += pool->workers[i].bytes;
            all[3] += pool->workers[i].pictures;
            all[4] += pool->workers[i].matmul;
        }
        add_measurement(&f32, all[0] / cores);
        add_measurement(&f64, all[1] / cores);
        add_measurement(&matmul, all[4] / cores);
        add_measurement(&bytes, all[2]);
        add_measurement(&pictures, all[3] / cores);
        StepCosts costs = probe_steps(cores);
        add_measurement(&barrier, costs.barrier_us);
        add_measurement(&step, costs.step_us);
        add_measurement(&meeting, costs.synchronize_us);
        add_measurement(&idle, costs.idle_synchronize_us);
    }
    const char *folder = getenv("TMPDIR");
    for (int round = 0; round < a->disk_rounds; round++)
        add_measurement(&disk, disk_rate(folder && *folder ? folder : "/tmp", a->disk_bytes));
    text_add(t, "host cores %d\nhost memory %.0fMiB\n", cores, memory / 0x1p20);
    write_measured(t, "host bandwidth", &bytes, CHOOSE_MEDIAN, 1e9, "GB/s", NULL);
    write_measured(t, "host arithmetic f32", &f32, CHOOSE_MEDIAN, 1e9, "GFLOP/s", NULL);
    write_measured(t, "host arithmetic f64", &f64, CHOOSE_MEDIAN, 1e9, "GFLOP/s", NULL);
    write_measured(t, "host matmul", &matmul, CHOOSE_MEDIAN, 1e9, "GFLOP/s", NULL);
    write_measured(t, "host barrier", &barrier, CHOOSE_LOWEST, 1, "us", NULL);
    write_measured(t, "host step", &step, CHOOSE_LOWEST, 1, "us", NULL);
    write_measured(t, "host meeting", &meeting, CHOOSE_LOWEST, 1, "us", NULL);
    write_measured(t, "host idle-meeting", &idle, CHOOSE_LOWEST, 1, "us", NULL);
    if (pictures.count)
        write_measured(t, "host decode", &pictures, CHOOSE_MEDIAN, 1, "/s", NULL);
    else
        text_add(t, "host decode 600/s nominal    # libturbojpeg is not here\n");
    write_measured(t, "host disk", &disk, CHOOSE_MEDIAN, 1e6, "MB/s", NULL);
}
