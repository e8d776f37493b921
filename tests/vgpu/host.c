/* host.c: what threads of the host know to be done: what they have waited for, and what they have been told of it. A program
 * that says what its threads tell each other (vgpuTell, vgpuHear) has a clock for each of them; else what one of them knows
 * all do. */
#include "tests/vgpu/vgpu.h"

#include <stdlib.h>
#include <string.h>

enum { COUNTERS = 256 /* lists, by address */, KEPT = 1024 };

/* a number of the program that only grows; what the thread knew that raised it, for the last values */
typedef struct Told {
    int64_t value;
    Clock *clock;
} Told;
typedef struct TellingCounter {
    struct TellingCounter *next;
    const void *counter;
    Told told[KEPT];
    uint64_t count;
} TellingCounter;

static TellingCounter *counters[COUNTERS];
static Clock *common; /* what all threads know; of those that are told things: what they begin with */
static bool apart;    /* the program has said what its threads tell each other */
static _Thread_local Clock *own;

static Clock **clock_of_thread(void)
{
    if (!apart)
        return &common;
    if (!own)
        own = vgpu_share(common);
    return &own;
}

static void learn(Clock **c, const Clock *of)
{
    Clock *known = vgpu_join(vgpu_join(NULL, *c), of);
    vgpu_drop(*c);
    *c = known;
}

Clock *vgpu_host_clock(void) { return *clock_of_thread(); }

void vgpu_know(const Op *op)
{
    Clock **c = clock_of_thread();
    if (*c && vgpu_before(op->chain, op->time, *c))
        return;
    learn(c, op->clock);
}

static TellingCounter *find(const void *counter)
{
    TellingCounter **list = &counters[(uintptr_t)counter / 64 % COUNTERS];
    for (TellingCounter *t = *list; t; t = t->next)
        if (t->counter == counter)
            return t;
    TellingCounter *t = calloc(1, sizeof *t);
    if (!t)
        abort();
    t->counter = counter;
    t->next = *list;
    return *list = t;
}

/* A counter that begins anew is another one. */
VGPU_API void vgpuTell(const void *counter, int64_t value)
{
    pthread_mutex_lock(&vgpu_lock);
    apart = true;
    TellingCounter *t = find(counter);
    if (t->count > 0 && t->told[(t->count - 1) % KEPT].value >= value)
        t->count = 0;
    Told *place = &t->told[t->count++ % KEPT];
    vgpu_drop(place->clock);
    *place = (Told){value, vgpu_share(*clock_of_thread())};
    pthread_mutex_unlock(&vgpu_lock);
}

/* of the first value that was enough, whatever the counter says by now */
VGPU_API void vgpuHear(const void *counter, int64_t at_least)
{
    pthread_mutex_lock(&vgpu_lock);
    TellingCounter *t = find(counter);
    for (uint64_t k = t->count > KEPT ? t->count - KEPT : 0; k < t->count; k++)
        if (t->told[k % KEPT].value >= at_least) {
            if (t->told[k % KEPT].clock)
                learn(clock_of_thread(), t->told[k % KEPT].clock);
            break;
        }
    pthread_mutex_unlock(&vgpu_lock);
}
