/* Thread pools (runtime/engine/pool.c): every thread does its part of every run, what was written before a barrier is seen
 * after it, and nobody sleeps for ever; with more threads than cores, with threads that are late, with pools side by side, beside
 * programs that have the cores, too. */
#include "runtime/base/base.h"
#include "runtime/base/cores.h"
#include "runtime/engine/pool.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { MOST = 64 };

static int failed;

static void say(const char *name, const char *why)
{
    if (why)
        printf("not ok %s: %s\n", name, why);
    else
        printf("ok %s\n", name);
    failed += why != NULL;
    fflush(stdout);
}

static void pause_us(long us)
{
    struct timespec time = {0, us * 1000};
    nanosleep(&time, NULL);
}

/* ---- the work: rounds in which each thread passes a number on to the next one. No slot is atomic: only the barriers, and
 * the begin and the end of a run, order what the threads do to them. */
typedef struct Slot {
    int64_t value, runs, wrong;
    char apart[104];
} Slot;
typedef struct Relay {
    ThreadPool *pool;
    int threads, barriers, late; /* barriers: pairs of them in a run; late: thread that keeps the others waiting; -1 */
    int64_t run;
    Slot slot[MOST];
} Relay;

static void pass_on(void *context, int thread)
{
    Relay *w = context;
    Slot *own = &w->slot[thread], *next = &w->slot[(thread + 1) % w->threads];
    own->runs++;
    own->wrong += own->runs != w->run; /* written by thread 0 ahead of the run */
    for (int i = 0; i < w->barriers; i++) {
        if (w->late == thread)
            pause_us(300);
        own->value = w->run * 1000 + i * 100 + thread;
        mgpu_pool_barrier(w->pool, thread);
        own->wrong += next->value != w->run * 1000 + i * 100 + (thread + 1) % w->threads;
        mgpu_pool_barrier(w->pool, thread);
    }
    own->value = -w->run;
}

static const char *run_work(Relay *w, int barriers, int late)
{
    w->barriers = barriers;
    w->late = late;
    w->run++;
    mgpu_pool_run(w->pool, pass_on, w);
    for (int t = 0; t < w->threads; t++)
        if (w->slot[t].value != -w->run || w->slot[t].runs != w->run || w->slot[t].wrong)
            return "a thread has missed a run, or what another one had written";
    return NULL;
}

static Relay *open_work(int threads, bool spin)
{
    Relay *w = mgpu_allocate(1, sizeof *w);
    w->threads = threads;
    w->pool = mgpu_pool_open(&(PoolPlan){.threads = threads, .spin = spin});
    return w;
}

static void close_work(Relay *w)
{
    mgpu_pool_close(w->pool);
    free(w);
}

static void test_runs(int threads, bool spin, int runs)
{
    Relay *w = open_work(threads, spin);
    const char *why = mgpu_pool_threads(w->pool) == threads ? NULL : "the number of threads";
    for (int i = 0; i < runs && !why; i++)
        why = run_work(w, i % 4, -1);
    close_work(w);
    char *name = mgpu_format("runs/%d-threads%s", threads, spin ? "-spinning" : "");
    say(name, why);
    free(name);
}

/* ---- sleep: who waits long sleeps, and is woken by the next run, the last one at the barrier, or the end */
static void test_sleep(int threads, bool spin)
{
    Relay *w = open_work(threads, spin);
    const char *why = NULL;
    for (int i = 0; i < 60 && !why; i++) {
        if (i % 3 == 0)
            pause_us(i % 2 ? 100 : 3000); /* all others sleep, or are about to */
        why = run_work(w, 1 + i % 2, i % 3 == 1 ? i % threads : -1);
    }
    pause_us(3000);
    close_work(w);
    char *name = mgpu_format("sleep/%d-threads%s", threads, spin ? "-spinning" : "");
    say(name, why);
    free(name);
}

/* ---- opening and closing */
typedef struct Visits {
    int entered[MOST], left[MOST];
    pthread_t thread[MOST];
} Visits;

static void enter(void *context, int thread)
{
    Visits *v = context;
    v->entered[thread]++;
    v->thread[thread] = pthread_self();
}

static void leave(void *context, int thread)
{
    Visits *v = context;
    v->left[thread] += pthread_equal(v->thread[thread], pthread_self()) != 0;
}

static void do_nothing(void *context, int thread) { (void)context, (void)thread; }

static void test_visits(void)
{
    const char *why = NULL;
    for (int i = 0; i < 200 && !why; i++) {
        Visits v = {{0}, {0}, {0}};
        int threads = 1 + i % 6;
        ThreadPool *pool =
            mgpu_pool_open(&(PoolPlan){.threads = threads, .spin = i % 2, .enter = enter, .leave = leave, .context = &v});
        for (int k = 0; k < i % 3; k++)
            mgpu_pool_run(pool, do_nothing, NULL);
        mgpu_pool_close(pool);
        for (int t = 0; t < threads; t++)
            if (v.entered[t] != (t > 0) || v.left[t] != (t > 0))
                why = "a thread does not enter and leave once";
    }
    say("enter-and-leave", why);
}

static void note_core(void *context, int thread)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    pthread_getaffinity_np(pthread_self(), sizeof set, &set);
    for (int core = 0; core < CPU_SETSIZE; core++)
        if (CPU_COUNT(&set) == 1 && CPU_ISSET((size_t)core, &set))
            ((int *)context)[thread] = core;
}

typedef struct Pinning {
    int *cores, count;
    const char *why;
} Pinning;

/* in a thread of its own, as thread 0 stays on its core too. The list of cores is the caller's, and gone when pools run. */
static void *pin(void *argument)
{
    Pinning *p = argument;
    int threads = p->count < MOST ? p->count : MOST, found[MOST], *cores = mgpu_allocate((size_t)threads, sizeof *cores);
    for (int t = 0; t < threads; t++) {
        cores[t] = p->cores[threads - 1 - t];
        found[t] = -1;
    }
    ThreadPool *pool = mgpu_pool_open(&(PoolPlan){.threads = threads, .cores = cores});
    memset(cores, 0xff, sizeof *cores * (size_t)threads);
    free(cores);
    mgpu_pool_run(pool, note_core, found);
    mgpu_pool_close(pool);
    for (int t = 0; t < threads; t++)
        if (found[t] != p->cores[threads - 1 - t])
            p->why = "a thread is not on its core";
    return NULL;
}

static void test_cores(void)
{
    Pinning p = {NULL, 0, NULL};
    pthread_t thread;
    p.cores = mgpu_cores_allowed(&p.count);
    if (p.count > 0 && pthread_create(&thread, NULL, pin, &p) == 0)
        pthread_join(thread, NULL);
    say("cores", p.count > 0 ? p.why : "no cores");
    free(p.cores);
}

/* ---- another program has the core of thread 1: the thread is moved to that of thread 0, which waits, and goes back when it is
 * alone again */
typedef struct Guest {
    int cores[2];
    _Atomic int ran_on;
    _Atomic bool busy;
} Guest;

static void *hold_core(void *argument)
{
    Guest *g = argument;
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET((size_t)g->cores[1], &set);
    pthread_setaffinity_np(pthread_self(), sizeof set, &set);
    while (atomic_load(&g->busy))
        ;
    return NULL;
}

static double cpu_seconds(void)
{
    struct timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static void compute(void *context, int thread)
{
    Guest *g = context;
    double began = cpu_seconds();
    while (thread == 1 && cpu_seconds() < began + 5e-3)
        ;
    if (thread == 1)
        atomic_store(&g->ran_on, sched_getcpu());
}

static bool comes_to(ThreadPool *pool, Guest *g, int core)
{
    double began = mgpu_seconds();
    atomic_store(&g->ran_on, -1);
    while (atomic_load(&g->ran_on) != core && mgpu_seconds() < began + 15)
        mgpu_pool_run(pool, compute, g);
    return atomic_load(&g->ran_on) == core;
}

/* in a thread of its own, as thread 0 stays on its core */
static void *be_moved(void *argument)
{
    enum { OTHERS = 2 };
    Guest *g = argument;
    pthread_t other[OTHERS];
    const char *why = NULL;
    ThreadPool *pool = mgpu_pool_open(&(PoolPlan){.threads = 2, .cores = g->cores, .spin = true});
    atomic_store(&g->busy, true);
    for (int i = 0; i < OTHERS; i++)
        mgpu_start_thread(&other[i], hold_core, g);
    if (!comes_to(pool, g, g->cores[0]))
        why = "a thread waits on its core until others leave it, while the pool waits for that thread";
    atomic_store(&g->busy, false);
    for (int i = 0; i < OTHERS; i++)
        pthread_join(other[i], NULL);
    if (!why && !comes_to(pool, g, g->cores[1]))
        why = "a thread that was moved does not come back";
    mgpu_pool_close(pool);
    return (void *)(uintptr_t)why;
}

static void test_moved(void)
{
    int count, *cores = mgpu_cores_allowed(&count);
    Guest g = {{count > 0 ? cores[0] : 0, count > 1 ? cores[1] : 0}, -1, false};
    void *why = NULL;
    pthread_t thread;
    free(cores);
    if (count > 1) {
        mgpu_start_thread(&thread, be_moved, &g);
        pthread_join(thread, &why);
    }
    say("moved-from-a-busy-core", why);
}

/* ---- pools side by side, as devices have them: each is run by a thread of its own */
static void *drive(void *argument)
{
    int number = *(int *)argument;
    const char *why = NULL;
    Relay *w = open_work(2 + number, false);
    for (int i = 0; i < 300 && !why; i++)
        why = run_work(w, i % 3, -1);
    close_work(w);
    return (void *)(uintptr_t)why;
}

static void test_pools(void)
{
    enum { POOLS = 4 };
    pthread_t threads[POOLS];
    int numbers[POOLS];
    const char *why = NULL;
    for (int i = 0; i < POOLS; i++) {
        numbers[i] = i;
        if (pthread_create(&threads[i], NULL, drive, &numbers[i]) != 0)
            mgpu_fail(3, "no thread");
    }
    for (int i = 0; i < POOLS; i++) {
        void *result;
        pthread_join(threads[i], &result);
        why = result ? result : why;
    }
    say("pools-side-by-side", why);
}

int main(int argc, char **argv)
{
    static const int THREADS[] = {1, 2, 3, 8};
    int scale = argc > 1 ? atoi(argv[1]) : 1, allowed; /* more runs */
    free(mgpu_cores_allowed(&allowed));
    alarm((unsigned)(120 * scale)); /* who is not woken waits for ever */
    for (int i = 0; i < MGPU_COUNT(THREADS); i++) {
        test_runs(THREADS[i], false, 2000 * scale);
        test_sleep(THREADS[i], false);
        if (THREADS[i] <= allowed) { /* others may have the cores now: then a spin lasts as long as it may */
            test_runs(THREADS[i], true, THREADS[i] > 1 ? 300 * scale : 2000);
            test_sleep(THREADS[i], true);
        }
    }
    test_runs(3, true, 30 * scale);
    test_runs(MOST, false, 60 * scale);
    test_visits();
    test_cores();
    test_moved();
    test_pools();
    return failed != 0;
}
