/* probe.c: what the host of this machine does, measured: the text of a machine file. Takes a few seconds.
 *
 * All threads measure at the same time, as the devices of a run compute. What a thread did is divided by its own processor time, so that
 * other programs count as little as they can. Of each number there are several measurements: the median is the number, and the lowest
 * and the highest stand behind it.
 *
 *   arithmetic  multiply-adds in registers, as wide as the processor has them
 *   bandwidth   y = a x + b over 4 MiB for each thread, near caches included: what element-wise kernels reach
 *   barrier     all threads wait for each other; the lowest counts, since others only add to it
 *   meeting     two threads for each core: one computes, the other one meets those of the other cores; until the first one goes on
 *   disk        a file is written, thrown out of memory, and read */
#include "compiler/machine/machine.h"

#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { ROUNDS = 9, CHAINS = 12, STEPS = 400000, ELEMENTS = 1 << 19, PASSES = 40, MEETINGS = 400, DISK_BYTES = 64 << 20 };

#if defined(__x86_64__)
#define WIDE512 __attribute__((target("avx512f,avx512dq,avx512vl,fma"), noinline))
#define WIDE256 __attribute__((target("avx2,fma"), noinline))
#endif
#define WIDE __attribute__((noinline))

/* CHAINS sums that do not wait for each other, each of a vector of `bytes` bytes; returns something of them, so that all are needed */
#define CHAIN_LOOP(name, how, type, bytes)                                                                             \
    how static double name(void)                                                                                       \
    {                                                                                                                  \
        typedef type Vector __attribute__((vector_size(bytes)));                                                       \
        Vector a0 = {1}, a1 = {2}, a2 = {3}, a3 = {4}, a4 = {5}, a5 = {6}, a6 = {7}, a7 = {8}, a8 = {9}, a9 = {10};    \
        Vector a10 = {11}, a11 = {12}, factor = {0}, step = {1};                                                       \
        for (int i = 0; i < STEPS; i++) {                                                                              \
            a0 = a0 * factor + step, a1 = a1 * factor + step, a2 = a2 * factor + step, a3 = a3 * factor + step;        \
            a4 = a4 * factor + step, a5 = a5 * factor + step, a6 = a6 * factor + step, a7 = a7 * factor + step;        \
            a8 = a8 * factor + step, a9 = a9 * factor + step, a10 = a10 * factor + step, a11 = a11 * factor + step;    \
            __asm__ volatile("" : "+x"(factor));                                                                       \
        }                                                                                                              \
        Vector all = a0 + a1 + a2 + a3 + a4 + a5 + a6 + a7 + a8 + a9 + a10 + a11;                                      \
        return (double)all[0];                                                                                         \
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
typedef struct Chains { Chain *f32, *f64; int bytes; } Chains;

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
typedef struct Worker {
    pthread_t thread;
    Pool *pool;
    float *x, *y;
    double f32, f64, bytes;     /* a second, of the last round */
    double sink;
} Worker;
struct Pool {
    int count;
    Worker *workers;
    Chains chains;
    atomic_int arrived, round;
    double barrier_us, meetings[MEETINGS];
};

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double seconds(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void meet(Pool *t)
{
    int round = atomic_load(&t->round);
    if (atomic_fetch_add(&t->arrived, 1) + 1 == t->count) {
        atomic_store(&t->arrived, 0);
        atomic_fetch_add(&t->round, 1);
        return;
    }
    for (int spins = 0; atomic_load(&t->round) == round; spins++)
        if (spins > 10000) { /* the one who is waited for may have no core */
            struct timespec nap = {0, 1000};
            nanosleep(&nap, NULL);
        }
}

static double chain_rate(Worker *w, Chain *chain, int bytes, int element)
{
    double begin = seconds(CLOCK_THREAD_CPUTIME_ID);
    w->sink += chain();
    return 2.0 * CHAINS * STEPS * bytes / element / (seconds(CLOCK_THREAD_CPUTIME_ID) - begin);
}

static double stream_rate(Worker *w)
{
    double begin = seconds(CLOCK_THREAD_CPUTIME_ID);
    for (int pass = 0; pass < PASSES; pass++) {
        for (int i = 0; i < ELEMENTS; i++)
            w->y[i] = 1.5f * w->x[i] + 2;
        __asm__ volatile("" : : "r"(w->y) : "memory");
    }
    return 8.0 * ELEMENTS * PASSES / (seconds(CLOCK_THREAD_CPUTIME_ID) - begin);
}

static void *measure(void *argument)
{
    Worker *w = argument;
    Pool *t = w->pool;
    meet(t);
    w->f32 = t->chains.f32 ? chain_rate(w, t->chains.f32, t->chains.bytes, 4) : 0;
    w->f64 = t->chains.f64 ? chain_rate(w, t->chains.f64, t->chains.bytes, 8) : 0;
    meet(t);
    w->bytes = stream_rate(w);
    meet(t);
    for (int i = 0; i < MEETINGS; i++) {
        double begin = seconds(CLOCK_MONOTONIC);
        meet(t);
        if (w == t->workers)
            t->meetings[i] = (seconds(CLOCK_MONOTONIC) - begin) * 1e6;
    }
    return NULL;
}

/* ---- meetings of host devices: a thread of each core computes, then wakes a second one, which meets those of the others and wakes it */
typedef struct Pair {
    struct Pairs *all;
    sem_t computed, arrived, met;
    double us[MEETINGS];        /* from the end of its computation until it goes on */
} Pair;
typedef struct Pairs { int count; Pair *each; } Pairs;

static void *compute(void *argument)
{
    const double WORK = 2e-4; /* seconds between two meetings */
    Pair *p = argument;
    for (int i = 0; i < MEETINGS; i++) {
        double begin = seconds(CLOCK_THREAD_CPUTIME_ID);
        while (seconds(CLOCK_THREAD_CPUTIME_ID) - begin < WORK)
            ;
        begin = seconds(CLOCK_MONOTONIC);
        sem_post(&p->computed);
        sem_wait(&p->met);
        p->us[i] = (seconds(CLOCK_MONOTONIC) - begin) * 1e6;
    }
    return NULL;
}

static void *communicate(void *argument)
{
    Pair *p = argument;
    for (int i = 0; i < MEETINGS; i++) {
        sem_wait(&p->computed);
        for (int k = 0; k < p->all->count; k++)
            sem_post(&p->all->each[k].arrived);
        for (int k = 0; k < p->all->count; k++)
            sem_wait(&p->arrived);
        sem_post(&p->met);
    }
    return NULL;
}

/* the mean of what a meeting takes: late threads are part of it */
static double meeting_us(int cores)
{
    Pairs all = {cores, NEW_ARRAY(Pair, cores)};
    pthread_t *thread = NEW_ARRAY(pthread_t, 2 * cores);
    double us = 0;
    for (int i = 0; i < cores; i++) {
        all.each[i].all = &all;
        sem_init(&all.each[i].computed, 0, 0);
        sem_init(&all.each[i].arrived, 0, 0);
        sem_init(&all.each[i].met, 0, 0);
    }
    for (int i = 0; i < 2 * cores; i++)
        if (pthread_create(&thread[i], NULL, i < cores ? compute : communicate, &all.each[i % cores]))
            fail(3, "mgpuc probe cannot start %d threads: %m", 2 * cores);
    for (int i = 0; i < 2 * cores; i++)
        pthread_join(thread[i], NULL);
    for (int i = 0; i < cores; i++)
        for (int k = 0; k < MEETINGS; k++)
            us += all.each[i].us[k] / MEETINGS / cores;
    return us;
}

/* one round: all threads, each measurement once */
static void run_round(Pool *t)
{
    for (int i = 1; i < t->count; i++)
        if (pthread_create(&t->workers[i].thread, NULL, measure, &t->workers[i]))
            fail(3, "mgpuc probe cannot start %d threads: %m", t->count);
    measure(&t->workers[0]);
    for (int i = 1; i < t->count; i++)
        pthread_join(t->workers[i].thread, NULL);
    qsort(t->meetings, MEETINGS, sizeof *t->meetings, compare); /* most are not disturbed */
    t->barrier_us = t->meetings[MEETINGS / 2];
}

/* ---- numbers */
typedef struct Sample { double values[ROUNDS]; int count; } Sample;

static void add_value(Sample *s, double v) { s->values[s->count++] = v; }

/* place: which one of the sorted ones; ROUNDS: the median. "host bandwidth 61.2GB/s measured 2026-11-23   # 60.1 to 61.9" */
static void write_fact(Text *t, const char *what, Sample *s, int place, double unit, const char *unit_name, const char *day)
{
    if (!s->count || s->values[0] <= 0)
        return;
    qsort(s->values, (size_t)s->count, sizeof *s->values, compare);
    text_add(t, "host %s %.4g%s measured %s    # %.4g to %.4g\n", what, s->values[place < s->count ? place : s->count / 2] / unit, unit_name, day, s->values[0] / unit,
             s->values[s->count - 1] / unit);
}

static double disk_rate(const char *folder)
{
    char *path = strdup(format("%s/mgpuc.probe.XXXXXX", folder));
    int file = path ? mkstemp(path) : -1;
    char *bytes = calloc(1, DISK_BYTES);
    double rate = 0;
    if (file >= 0 && bytes && write(file, bytes, DISK_BYTES) == DISK_BYTES && fsync(file) == 0 && posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED) == 0) {
        double begin = seconds(CLOCK_MONOTONIC);
        ssize_t got = 0;
        for (ssize_t n; got < DISK_BYTES && (n = pread(file, bytes, 1 << 20, got)) > 0;)
            got += n;
        rate = got == DISK_BYTES ? DISK_BYTES / (seconds(CLOCK_MONOTONIC) - begin) : 0;
    }
    if (file >= 0) {
        close(file);
        unlink(path);
    }
    free(bytes);
    free(path);
    return rate;
}

const char *machine_probe(const char *name, int cores, double memory, const char *folder)
{
    Pool pool = {.count = cores, .workers = NEW_ARRAY(Worker, cores), .chains = widest()};
    Sample f32 = {0}, f64 = {0}, bytes = {0}, barrier = {0}, meeting = {0}, disk = {0};
    for (int i = 0; i < cores; i++) {
        Worker *w = &pool.workers[i];
        *w = (Worker){.pool = &pool, .x = NEW_ARRAY(float, ELEMENTS), .y = NEW_ARRAY(float, ELEMENTS)};
        for (int k = 0; k < ELEMENTS; k++)
            w->x[k] = (float)k, w->y[k] = 0;
    }
    for (int round = 0; round < ROUNDS; round++) {
        double all[3] = {0};
        run_round(&pool);
        for (int i = 0; i < cores; i++) {
            all[0] += pool.workers[i].f32;
            all[1] += pool.workers[i].f64;
            all[2] += pool.workers[i].bytes;
        }
        add_value(&f32, all[0] / cores);
        add_value(&f64, all[1] / cores);
        add_value(&bytes, all[2]);
        add_value(&barrier, pool.barrier_us);
        if (cores > 1)
            add_value(&meeting, meeting_us(cores));
    }
    for (int round = 0; round < 3; round++)
        add_value(&disk, disk_rate(folder));
    char day[16];
    time_t now = time(NULL);
    strftime(day, sizeof day, "%Y-%m-%d", localtime(&now));
    Text t = {0};
    text_add(&t, "# Made by mgpuc probe. Behind each number: the lowest and the highest of its measurements.\nmachine %s\ndevices 0\nhost cores %d\n", name, cores);
    text_add(&t, "host memory %.0fMiB\n", memory / 0x1p20);
    write_fact(&t, "bandwidth", &bytes, ROUNDS, 1e9, "GB/s", day);
    write_fact(&t, "arithmetic f32", &f32, ROUNDS, 1e9, "GFLOP/s", day);
    write_fact(&t, "arithmetic f64", &f64, ROUNDS, 1e9, "GFLOP/s", day);
    write_fact(&t, "barrier", &barrier, 0, 1, "us", day);
    write_fact(&t, "meeting", &meeting, ROUNDS, 1, "us", day);
    text_add(&t, "host decode 600/s nominal\n");
    write_fact(&t, "disk", &disk, ROUNDS, 1e6, "MB/s", day);
    return text_take(&t);
}
