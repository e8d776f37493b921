/* processes.h: the processes that train together. Each has some devices of the plan, one after the other, as many as the others or one
 * more. A program without --mpi is one process, which has them all: NULL. */
#ifndef MGPU_PROCESSES_H
#define MGPU_PROCESSES_H

#include "runtime/base/base.h"
#include "runtime/engine/collective.h"

/* at which operation an engine's lanes are, and whether they work there, or wait for others; AFTER: at none, after some step */
typedef enum Whereabouts { WHERE_AFTER, WHERE_WAITS, WHERE_WORKS } Whereabouts;
typedef Whereabouts Where(const void *engine, char *text, size_t room);

typedef struct mgpu_processes Processes;
struct mgpu_processes {
    int rank, count;
    const char *host;
    /* ends the program if there are more processes than devices, or if the plan has not one model */
    void (*check)(const Processes *, const mgpu_program *, const mgpu_plan *);
    Collective *(*connect)(Processes *, const mgpu_plan *, int lane); /* of the process's own devices, with those of the others */
    /* Every process calls these, in one order, from the thread that posts steps. */
    int (*follow)(Processes *, int value);                            /* rank 0's value */
    /* ends the program unless all have the same: "rank 1 on b has other options than rank 0 on a; start all with the same" */
    void (*compare)(Processes *, const char *what, const char *cure, uint64_t digest);
    void (*gather)(Processes *, void *all, const int64_t *at);        /* bytes [at[r], at[r + 1]) from rank r */
    void (*collect)(Processes *, const void *own, void *all, const int64_t *at); /* the same, to rank 0; all: NULL on the others */
    /* Likewise, but from the thread that writes saves, while another posts steps: from each to each; sizes and places in bytes, by rank */
    void (*exchange)(Processes *, const void *from, const int *sent, const int *from_at, void *to, const int *received, const int *to_at);
    /* what those are told that wait for this process; NULL: there is no engine */
    void (*watch)(Processes *, Where *, const void *engine);
    /* which process has said nothing for a while: "rank 1 on b has said nothing ..."; busy: else which one does not wait, as others do;
     * false: none is known here */
    bool (*suspect)(const Processes *, bool busy, char *text, size_t room);
    /* whether this one waits for others, and what for; NULL: it is not known */
    bool (*waits)(const Processes *, char *text, size_t room);
    void (*close)(Processes *);
};

static inline int mgpu_rank(const Processes *p) { return p ? p->rank : 0; }
static inline int mgpu_ranks(const Processes *p) { return p ? p->count : 1; }

static inline int mgpu_first_device(const Processes *p, int devices, int rank)
{
    return p ? (int)((int64_t)devices * rank / p->count) : rank ? devices : 0;
}

typedef struct DeviceSpan { int first, end; } DeviceSpan;
static inline DeviceSpan mgpu_own_devices(const Processes *p, int devices)
{
    int rank = p ? p->rank : 0;
    return (DeviceSpan){mgpu_first_device(p, devices, rank), mgpu_first_device(p, devices, rank + 1)};
}

/* of `count` elements that devices have in even parts, those of a rank's devices */
static inline mgpu_stretch mgpu_part_of_rank(const Processes *p, int devices, int64_t count, int rank)
{
    return (mgpu_stretch){mgpu_even_part(count, devices, mgpu_first_device(p, devices, rank)),
                          mgpu_even_part(count, devices, mgpu_first_device(p, devices, rank + 1))};
}

static inline mgpu_stretch mgpu_overlap(mgpu_stretch a, mgpu_stretch b) /* its end is not before its begin */
{
    int64_t begin = a.begin > b.begin ? a.begin : b.begin, end = a.end < b.end ? a.end : b.end;
    return (mgpu_stretch){begin, end > begin ? end : begin};
}

/* of a micro-batch, those of a rank's devices */
static inline mgpu_stretch mgpu_samples_of(const Processes *p, const mgpu_plan *plan, int rank)
{
    int first = mgpu_first_device(p, plan->devices, rank), end = mgpu_first_device(p, plan->devices, rank + 1);
    return (mgpu_stretch){plan->device[first].shard.first, end < plan->devices ? plan->device[end].shard.first : plan->micro};
}

/* `bytes` of each process, of each device, to all */
static inline void mgpu_gather_each(Processes *p, void *all, int64_t bytes)
{
    int64_t at[p->count + 1];
    for (int r = 0; r <= p->count; r++)
        at[r] = r * bytes;
    p->gather(p, all, at);
}

static inline void mgpu_gather_devices(Processes *p, void *all, int64_t bytes, int devices)
{
    int64_t at[p->count + 1];
    for (int r = 0; r <= p->count; r++)
        at[r] = mgpu_first_device(p, devices, r) * bytes;
    p->gather(p, all, at);
}

/* that compute for each device, as many of all processes: what all devices compute from the same values, as the norm of a gradient, is added up in
 * a part for each thread, and has the same bits only so. Every process calls it */
static inline int mgpu_threads_each(Processes *p, const mgpu_plan *plan, int threads)
{
    DeviceSpan own = mgpu_own_devices(p, plan->devices);
    int all[mgpu_ranks(p)], least = threads / (own.end - own.first);
    all[mgpu_rank(p)] = least;
    if (p)
        mgpu_gather_each(p, all, sizeof *all);
    for (int r = 0; r < mgpu_ranks(p); r++)
        least = all[r] < least ? all[r] : least;
    return least > 1 ? least : 1;
}

static inline int mgpu_of_rank_0(Processes *p, int value) { return p ? p->follow(p, value) : value; }
static inline bool mgpu_speaks(const Processes *p) { return !p || p->rank == 0; }
#endif
