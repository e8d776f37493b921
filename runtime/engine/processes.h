/* processes.h: the processes that train together. Each has consecutive devices of the plan; their numbers differ by at most one.
 * In a program without --mpi the pointer is NULL: one process has all devices. */
#ifndef MGPU_PROCESSES_H
#define MGPU_PROCESSES_H

#include "runtime/base/base.h"
#include "runtime/engine/collective.h"

/* Where the lanes of an engine are: at an operation, on which they work or in which they wait for other processes, or at none
 * (AFTER a step). */
typedef enum Whereabouts { WHERE_AFTER, WHERE_WAITS, WHERE_WORKS } Whereabouts;
typedef Whereabouts Where(const void *engine, char *text, size_t capacity);

typedef struct mgpu_processes Processes;
struct mgpu_processes {
    int rank, count;
    const char *host;
    /* Ends the program if there are more processes than devices, or if their plans are of different models. */
    void (*check)(const Processes *, const mgpu_program *, const mgpu_plan *);
    Collective *(*connect)(Processes *, const mgpu_plan *, int lane); /* connects this process's devices with all others */
    /* Every process calls the following functions, in the same order, on the thread that posts steps. */
    int (*follow)(Processes *, int value); /* returns rank 0's value */
    /* Ends the program unless all have the same digest: "rank 1 on b has other options than rank 0 on a; start all with the
     * same". */
    void (*compare)(Processes *, const char *what, const char *cure, uint64_t digest);
    void (*gather)(Processes *, void *all, const int64_t *at); /* all-gather: bytes [at[r], at[r + 1]) come from rank r */
    void (*collect)(Processes *, const void *own, void *all, const int64_t *at); /* gather to rank 0; all: NULL on the others */
    /* All-to-all, on the thread that writes saves while another one posts steps. Sizes and offsets are in bytes, by rank. */
    void (*exchange)(Processes *, const void *from, const int *sent, const int *from_at, void *to, const int *received,
                     const int *to_at);
    /* Sets the function that describes this process to those that wait for it; NULL: there is no engine. */
    void (*watch)(Processes *, Where *, const void *engine);
    /* Writes which process has not been heard from for a while ("rank 1 on b has said nothing ..."), or, with `busy`, which one
     * works while the others wait. Returns false if this process knows of none. */
    bool (*find_culprit)(const Processes *, bool busy, char *text, size_t capacity);
    /* Writes what this process waits for, and returns whether it waits for others; the function is NULL if that is not known. */
    bool (*waits)(const Processes *, char *text, size_t capacity);
    void (*close)(Processes *);
};

static inline int mgpu_rank(const Processes *p) { return p ? p->rank : 0; }
static inline int mgpu_ranks(const Processes *p) { return p ? p->count : 1; }

static inline int mgpu_first_device(const Processes *p, int devices, int rank)
{
    return p ? (int)((int64_t)devices * rank / p->count) : rank ? devices : 0;
}

typedef struct DeviceSpan {
    int first, end;
} DeviceSpan;
static inline DeviceSpan mgpu_local_devices(const Processes *p, int devices)
{
    int rank = p ? p->rank : 0;
    return (DeviceSpan){mgpu_first_device(p, devices, rank), mgpu_first_device(p, devices, rank + 1)};
}

/* Returns the range that a rank's devices have of `count` elements, which are divided evenly among all devices. */
static inline mgpu_range mgpu_part_of_rank(const Processes *p, int devices, int64_t count, int rank)
{
    return (mgpu_range){mgpu_even_part(count, devices, mgpu_first_device(p, devices, rank)),
                        mgpu_even_part(count, devices, mgpu_first_device(p, devices, rank + 1))};
}

static inline mgpu_range mgpu_overlap(mgpu_range a, mgpu_range b) /* empty: end == begin */
{
    int64_t begin = a.begin > b.begin ? a.begin : b.begin, end = a.end < b.end ? a.end : b.end;
    return (mgpu_range){begin, end > begin ? end : begin};
}

/* Returns the samples of a micro-batch that a rank's devices have. */
static inline mgpu_range mgpu_samples_of(const Processes *p, const mgpu_plan *plan, int rank)
{
    int first = mgpu_first_device(p, plan->devices, rank), end = mgpu_first_device(p, plan->devices, rank + 1);
    return (mgpu_range){plan->device[first].shard.first, end < plan->devices ? plan->device[end].shard.first : plan->micro};
}

/* All-gather `bytes` of each process, and of each device. */
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

/* Returns the number of compute threads per device, the same in all processes. Every process calls it. Values that all devices
 * compute alike, such as the norm of a gradient, are summed in one partial sum per thread, so their bits are equal only with
 * equal thread counts. */
static inline int mgpu_threads_each(Processes *p, const mgpu_plan *plan, int threads)
{
    DeviceSpan own = mgpu_local_devices(p, plan->devices);
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
