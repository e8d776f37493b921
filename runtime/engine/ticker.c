/* ticker.c: a thread that calls a function periodically until it is closed. Only time in which it could run counts. */
#include "runtime/base/base.h"
#include "runtime/engine/internal.h"

#include <stdlib.h>
#include <time.h>

struct Ticker {
    double seconds;
    void (*tick)(void *);
    void *context;
    const char *name;
    pthread_t thread;
    pthread_mutex_t lock; /* protects `closing` */
    pthread_cond_t changed;
    bool closing;
};

/* Sleeps for the period; returns false if the ticker is closed. */
static bool nap(Ticker *t)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += (time_t)t->seconds;
    until.tv_nsec += (long)(1e9 * (t->seconds - (double)(time_t)t->seconds));
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_mutex_lock(&t->lock);
    while (!t->closing && pthread_cond_timedwait(&t->changed, &t->lock, &until) == 0)
        ;
    bool goes_on = !t->closing;
    pthread_mutex_unlock(&t->lock);
    return goes_on;
}

static void *run(void *argument)
{
    Ticker *t = argument;
    pthread_setname_np(pthread_self(), t->name);
    while (nap(t))
        t->tick(t->context);
    return NULL;
}

Ticker *mgpu_ticker_open(const char *name, double seconds, void (*tick)(void *), void *context)
{
    Ticker *t = mgpu_allocate(1, sizeof *t);
    pthread_condattr_t clock;
    *t = (Ticker){.seconds = seconds, .tick = tick, .context = context, .name = name};
    pthread_mutex_init(&t->lock, NULL);
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(&t->changed, &clock);
    pthread_condattr_destroy(&clock);
    mgpu_start_thread(&t->thread, run, t);
    return t;
}

void mgpu_ticker_close(Ticker *t)
{
    if (!t)
        return;
    pthread_mutex_lock(&t->lock);
    t->closing = true;
    pthread_cond_signal(&t->changed);
    pthread_mutex_unlock(&t->lock);
    pthread_join(t->thread, NULL);
    pthread_cond_destroy(&t->changed);
    pthread_mutex_destroy(&t->lock);
    free(t);
}
