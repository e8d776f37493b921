/* steps.c: measure what a step of a program for host devices takes besides its operations: how its threads pass it on.
 *
 * The lanes are like those of the engine (runtime/engine/engine.c), with its counters, thread pools and barriers. One thread
 * posts steps; for each device one thread reads, one copies, one computes with its pool, and one synchronizes with those of the
 * other devices. Reading and copying do nothing, computing is a loop of a fixed length in registers, and an all-reduce has a few
 * numbers. So the time of a step beyond that loop is what an engine adds to a program's operations on busy cores.
 *
 *   barrier       a round of the pool of one device without work
 *   step          one device, which has all cores: a step, less a round of its pool with the same work
 *   idle meeting  a device for each core: a step with an all-reduce that computing waits for, less one without
 *   meeting       the same while devices go on computing: from when the last one has its part until the all-reduce is over
 *
 * Other programs only make these times longer, so each is a difference of the lowest of several tries. */
#include "compiler/probe/probe.h"
#include "runtime/engine/pool.h"
#include "runtime/host/reduce.h"

#include <sched.h>
#include <stdlib.h>

enum { TRIES = 6, STEPS = 24, SLOTS = 2, EMPTY_ROUNDS = 400, NUMBERS = 64 };
static const double WORK_S = 1e-4; /* of a device in a step */

typedef enum Reduces { REDUCES_NOT, REDUCES_WAITED, REDUCES_OVERLAPPED } Reduces;

typedef struct Steps Steps;
typedef struct DeviceLanes { /* The lanes of a device. Progress counts steps, and for comp half steps. */
    Counter read, copy, comp, comm;
    Steps *steps;
    int number;
    ThreadPool *pool;
    float values[NUMBERS];
    double computed_at[STEPS + 1], summed_at[STEPS + 1];
    pthread_t thread[4];
} DeviceLanes;
struct Steps {
    Counter posted;
    int devices, threads; /* of each device */
    int *cores;           /* devices x threads core numbers; NULL: not known */
    int64_t loops;        /* of work */
    Reduces reduces;
    Reduction *reduction;
    DeviceLanes *lanes;
};

static void work(void *context, int thread)
{
    const DeviceLanes *l = context;
    double x = thread;
    for (int64_t i = 0; i < l->steps->loops; i++) {
        x = x * .5 + 1;
        __asm__ volatile("" : "+g"(x));
    }
}

/* ---- the lanes */
/* Keeps the thread on the cores of its device, as the engine does. */
static void stay(const DeviceLanes *l)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    for (int i = 0; l->steps->cores && i < l->steps->threads; i++)
        CPU_SET((size_t)l->steps->cores[l->number * l->steps->threads + i], &set);
    if (CPU_COUNT(&set))
        pthread_setaffinity_np(pthread_self(), sizeof set, &set);
}

static void *read_lane(void *argument)
{
    DeviceLanes *l = argument;
    for (int64_t k = 1; k <= STEPS; k++) {
        mgpu_counter_wait(&l->steps->posted, k);
        mgpu_counter_wait(&l->copy, k - SLOTS);
        mgpu_counter_wait(&l->comp, 2 * (k - 1) - 1); /* the report of the step before */
        mgpu_counter_set(&l->read, k);
    }
    return NULL;
}

static void *copy_lane(void *argument)
{
    DeviceLanes *l = argument;
    stay(l);
    for (int64_t k = 1; k <= STEPS; k++) {
        mgpu_counter_wait(&l->steps->posted, k);
        mgpu_counter_wait(&l->comp, 2 * (k - SLOTS));
        mgpu_counter_wait(&l->read, k);
        mgpu_counter_set(&l->copy, k);
    }
    return NULL;
}

static void *comp_lane(void *argument)
{
    DeviceLanes *l = argument;
    const Steps *s = l->steps;
    l->pool = mgpu_pool_open(&(PoolPlan){
        .threads = s->threads, .cores = s->cores ? s->cores + l->number * s->threads : NULL, .spin = s->cores != NULL});
    for (int64_t k = 1; k <= STEPS; k++) {
        mgpu_counter_wait(&l->steps->posted, k);
        mgpu_counter_wait(&l->copy, k);
        mgpu_pool_run(l->pool, work, l);
        l->computed_at[k] = mgpu_seconds();
        mgpu_counter_set(&l->comp, 2 * k - 1);
        for (int more = 0; more < 2 && s->reduces == REDUCES_OVERLAPPED; more++)
            mgpu_pool_run(l->pool, work, l);
        if (s->reduces != REDUCES_NOT)
            mgpu_counter_wait(&l->comm, k);
        mgpu_counter_set(&l->comp, 2 * k);
    }
    mgpu_pool_close(l->pool);
    return NULL;
}

static void *comm_lane(void *argument)
{
    DeviceLanes *l = argument;
    stay(l);
    const Steps *s = l->steps;
    for (int64_t k = 1; k <= STEPS && s->reduces != REDUCES_NOT; k++) {
        Operand o = {.name = "probe",
                     .buffer = "probe",
                     .data = l->values,
                     .count = NUMBERS,
                     .dtype = MGPU_F32,
                     .participants = {.transfer = MGPU_TRANSFER_REDUCE},
                     .tag = k};
        mgpu_counter_wait(&l->comp, 2 * k - 1);
        if (!mgpu_exchange(s->reduction, l->number, &o))
            die("the devices of a probe disagree");
        l->summed_at[k] = mgpu_seconds();
        mgpu_counter_set(&l->comm, k);
    }
    return NULL;
}

/* ---- runs */
static void wait_for_all(Steps *s, int64_t k)
{
    for (int d = 0; d < s->devices; d++) {
        mgpu_counter_wait(&s->lanes[d].read, k);
        mgpu_counter_wait(&s->lanes[d].copy, k);
        mgpu_counter_wait(&s->lanes[d].comp, 2 * k);
        if (s->reduces != REDUCES_NOT)
            mgpu_counter_wait(&s->lanes[d].comm, k);
    }
}

/* Returns the microseconds of a step. Until the next run, s->lanes hold what happened in it. */
static double run_steps(Steps *s)
{
    static void *(*const LANES[4])(void *) = {read_lane, copy_lane, comp_lane, comm_lane};
    double began = 0;
    s->posted = (Counter){0};
    for (int d = 0; d < s->devices; d++)
        s->lanes[d] = (DeviceLanes){.steps = s, .number = d};
    s->reduction = mgpu_reduction_open(s->devices);
    for (int i = 0; i < 4 * s->devices; i++)
        mgpu_start_thread(&s->lanes[i / 4].thread[i % 4], LANES[i % 4], &s->lanes[i / 4]);
    for (int64_t k = 1, done = 0; k <= STEPS; k++) {
        if (k - MGPU_STEPS_IN_FLIGHT > done) { /* as mgpu_engine_next does */
            done = k - MGPU_STEPS_IN_FLIGHT / 2 - 1;
            wait_for_all(s, done);
            began = done == MGPU_STEPS_IN_FLIGHT / 2 ? mgpu_seconds() : began; /* the first steps start the threads */
        }
        mgpu_counter_set(&s->posted, k);
    }
    wait_for_all(s, STEPS);
    int timed = STEPS - MGPU_STEPS_IN_FLIGHT / 2;
    double us = (mgpu_seconds() - began) * 1e6 / timed;
    for (int i = 0; i < 4 * s->devices; i++)
        pthread_join(s->lanes[i / 4].thread[i % 4], NULL);
    mgpu_reduction_close(s->reduction);
    return us;
}

static double lowest_step_us(Steps *s, Reduces reduces)
{
    double lowest = 1e300;
    s->reduces = reduces;
    for (int i = 0; i < TRIES; i++) {
        double us = run_steps(s);
        lowest = us < lowest ? us : lowest;
    }
    return lowest;
}

/* Returns the time of a round of a pool that does nothing else, with `loops` of work. */
static double lowest_round_us(Steps *s, int64_t loops, int rounds)
{
    int64_t kept = s->loops;
    DeviceLanes *l = &s->lanes[0];
    double lowest = 1e300;
    *l = (DeviceLanes){.steps = s};
    s->loops = loops;
    cpu_set_t before;
    bool known = sched_getaffinity(0, sizeof before, &before) == 0;
    l->pool = mgpu_pool_open(&(PoolPlan){.threads = s->threads, .cores = s->cores, .spin = s->cores != NULL});
    for (int i = 0; i < TRIES; i++) {
        double began = mgpu_seconds();
        for (int k = 0; k < rounds; k++)
            mgpu_pool_run(l->pool, work, l);
        double us = (mgpu_seconds() - began) * 1e6 / rounds;
        lowest = us < lowest ? us : lowest;
    }
    mgpu_pool_close(l->pool);
    if (known)
        sched_setaffinity(0, sizeof before, &before); /* because a pool's caller is kept on the pool's first core */
    s->loops = kept;
    return lowest;
}

/* Returns, for the last run, the mean time from when all devices have computed until the last one has the sum. */
static double mean_synchronize_us(const Steps *s)
{
    double sum = 0;
    for (int k = MGPU_STEPS_IN_FLIGHT; k <= STEPS; k++) {
        double ready = 0, over = 0;
        for (int d = 0; d < s->devices; d++) {
            const DeviceLanes *l = &s->lanes[d];
            ready = l->computed_at[k] > ready ? l->computed_at[k] : ready;
            over = l->summed_at[k] > over ? l->summed_at[k] : over;
        }
        sum += over - ready;
    }
    return sum * 1e6 / (STEPS - MGPU_STEPS_IN_FLIGHT + 1);
}

/* Chooses cores as the engine does, which binds threads only if there is exactly one core for each. */
static int *cores_of(int count)
{
    cpu_set_t set;
    int *cores = NEW_ARRAY(int, count), found = 0;
    if (sched_getaffinity(0, sizeof set, &set) != 0 || CPU_COUNT(&set) != count)
        return NULL;
    for (int core = 0; core < CPU_SETSIZE && found < count; core++)
        if (CPU_ISSET((size_t)core, &set))
            cores[found++] = core;
    return cores;
}

static int64_t loops_of_work(Steps *s)
{
    const int64_t SOME = 100000;
    return (int64_t)((double)SOME * WORK_S * 1e6 / lowest_round_us(s, SOME, 4)) + 1;
}

StepCosts probe_steps(int cores)
{
    StepCosts c = {0};
    Steps *s = mgpu_allocate_aligned(_Alignof(Steps), sizeof *s);
    s->lanes = mgpu_allocate_aligned(_Alignof(DeviceLanes), (size_t)cores * sizeof *s->lanes);
    s->cores = cores_of(cores);
    s->devices = 1;
    s->threads = cores;
    s->loops = loops_of_work(s);
    c.barrier_us = lowest_round_us(s, 0, EMPTY_ROUNDS);
    double round = lowest_round_us(s, s->loops, STEPS);
    c.step_us = lowest_step_us(s, REDUCES_NOT) - round;
    if (cores > 1) {
        s->devices = cores;
        s->threads = 1;
        double apart = lowest_step_us(s, REDUCES_NOT);
        c.idle_synchronize_us = lowest_step_us(s, REDUCES_WAITED) - apart;
        s->reduces = REDUCES_OVERLAPPED;
        for (int i = 0; i < TRIES; i++) {
            run_steps(s);
            double us = mean_synchronize_us(s);
            c.synchronize_us = i == 0 || us < c.synchronize_us ? us : c.synchronize_us;
        }
    }
    free(s->lanes);
    free(s);
    return c;
}
