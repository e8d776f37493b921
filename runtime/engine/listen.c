/* listen.c: errors of all-reduces that no call returns. NCCL's own threads meet some (a network, a GPU that another process
 * took down) and keep them; the sum then never ends. A thread of its own asks for them twice a second, as asking may take for
 * ever where a library hangs: hang.c says that. */
#include "runtime/base/base.h"
#include "runtime/engine/internal.h"

#include <stdlib.h>
#include <time.h>

enum { NAP_MS = 500 };

struct Listener {
    Engine *engine;
    pthread_t thread;
    pthread_mutex_t lock;        /* of closing */
    pthread_cond_t changed;
    bool closing;
};

static void ask(Engine *e)
{
    char text[400];
    for (int d = 0; d < e->plan->devices; d++)
        if (e->collective[MGPU_COMM]->trouble(e->collective[MGPU_COMM], d, text))
            mgpu_fail_sum(e, d, text);
}

static bool nap(Listener *l)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += NAP_MS * 1000000;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_mutex_lock(&l->lock);
    while (!l->closing && pthread_cond_timedwait(&l->changed, &l->lock, &until) == 0)
        ;
    bool goes_on = !l->closing;
    pthread_mutex_unlock(&l->lock);
    return goes_on;
}

static void *listen(void *argument)
{
    Listener *l = argument;
    pthread_setname_np(pthread_self(), "listen");
    while (nap(l))
        ask(l->engine);
    return NULL;
}

void mgpu_listen_open(Engine *e)
{
    pthread_condattr_t clock;
    if (!e->collective[MGPU_COMM]->trouble)
        return;
    Listener *l = mgpu_allocate(1, sizeof *l);
    l->engine = e;
    pthread_mutex_init(&l->lock, NULL);
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(&l->changed, &clock);
    pthread_condattr_destroy(&clock);
    mgpu_start_thread(&l->thread, listen, l);
    e->listener = l;
}

void mgpu_listen_close(Engine *e)
{
    Listener *l = e->listener;
    if (!l)
        return;
    pthread_mutex_lock(&l->lock);
    l->closing = true;
    pthread_cond_signal(&l->changed);
    pthread_mutex_unlock(&l->lock);
    pthread_join(l->thread, NULL);
    pthread_cond_destroy(&l->changed);
    pthread_mutex_destroy(&l->lock);
    free(l);
    e->listener = NULL;
}
