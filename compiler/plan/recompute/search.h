/* search.h: what the files of the search share.
 *
 *   recompute.c   the rounds of the search
 *   order.c       the phase in the order in which its schedule runs it
 *   alive.c       makers and readers of each tensor, and the bytes that are alive at each position
 *   chain.c       what is recomputed for a tensor, and what that gains for its time
 *   candidates.c  which chains are the best
 *   insert.c      inserts chains as tasks of the phase, or removes them again
 *   dropped.c     the result: bytes, times, by layer */
#ifndef MGPU_PLAN_RECOMPUTE_SEARCH_H
#define MGPU_PLAN_RECOMPUTE_SEARCH_H

#include "compiler/plan/recompute/recompute.h"
#include "compiler/plan/schedule_internal.h"

enum { MOST_CHAIN = 24, MOST_KEPT = 48 };

typedef struct Unit {
    int first, count;
} Unit; /* tasks that are recomputed together: a contraction and its epilogue */
/* an input of a chain, kept alive from this position on */
typedef struct KeptInput {
    const Tensor *tensor;
    int from;
} KeptInput;
typedef struct Chain {
    Unit units[MOST_CHAIN];
    int count; /* in order of execution */
    KeptInput kept[MOST_KEPT];
    int kept_count;
    double us;
} Chain;
/* at: the position of the reader */
typedef struct Choice {
    Chain chain;
    const Tensor *tensor;
    int use, at;
    double rate;
} Choice;
/* a copy of the tensor for this use; rate: when it was last rated */
typedef struct Candidate {
    int tensor, use;
    double rate;
} Candidate;
typedef struct Rename {
    Task *task;
    int read;
    Tensor *before;
} Rename;
/* the phase before the insertion, and the reads that were renamed */
typedef struct Inserted {
    Task **tasks;
    int task_count, tensor_count;
    Rename *renames;
    int rename_count;
} Inserted;

typedef struct Recomputing {
    const Program *program;
    Phase *phase; /* the new phase */
    int devices;
    int64_t samples, limit;
    Device device;
    /* by tensor of the old phase */
    int64_t *bytes; /* of its temporaries on a device: of the own part, if a device has only that */
    /* true for temporaries that take memory of a device: not for those of a region's chunk on the host, nor gathered weights */
    bool *counted;
    const Tensor **variable; /* the variable that is gathered into it; NULL: none */
    bool *banned;            /* dropping it did not help */
    int *written, *read;     /* the last round whose chains recompute it, read it */
    int *original;           /* by tensor: the tensor of the old phase with its value */
    int tensor_capacity;
    /* of this round */
    int round;
    int *maker;            /* by tensor: position of its first writer; -1: none */
    int *writers;          /* by tensor: number of kernels that write it */
    int *use_begin, *uses; /* by tensor: positions of its accesses, ascending */
    int *newest, *older;   /* by root: its last copy; by tensor: the copy before it; -1: none */
    int64_t *alive;        /* by position: bytes */
    int *above;            /* by position: number of positions before it that are above the limit */
    double excess;         /* bytes above the limit, summed over all positions */
    int64_t peak;
    Candidate *heap;
    int heap_count, heap_capacity; /* the highest rate first */
    Memory *kept, *analysed;       /* memory of the search, and of what is known in this round */
} Recomputing;

/* ---- order.c */
Phase *phase_in_order(const Phase *, const Order *); /* with the same tasks */

/* ---- alive.c */
void analyse_phase(Recomputing *); /* analyses the phase as it is now, and frees the last analysis */
int64_t least_alive(const Recomputing *);
/* at these positions, until the next look; find_excess must follow */
void change_alive(Recomputing *, int first, int last, int64_t bytes);
void find_excess(Recomputing *);
/* the copy of its value that was computed last before the position */
Tensor *copy_at(const Recomputing *, const Tensor *, int at);
int last_use_before(const Recomputing *, const Tensor *, int at);
static inline bool is_counted(const Recomputing *r, const Tensor *x) { return r->counted[r->original[x->id]]; }
static inline int64_t bytes_of(const Recomputing *r, const Tensor *x) { return r->bytes[r->original[x->id]]; }
static inline int use_count(const Recomputing *r, int tensor) { return r->use_begin[tensor + 1] - r->use_begin[tensor]; }
static inline int last_use(const Recomputing *r, const Tensor *x) { return r->uses[r->use_begin[x->id + 1] - 1]; }
/* Returns how many positions from first to last are above the limit. */
static inline double above(const Recomputing *r, int first, int last)
{
    return first > last ? 0 : r->above[last + 1] - r->above[first];
}

/* ---- chain.c */
Choice rate(Recomputing *, int tensor, int use); /* Rates a copy of the tensor for this use; rate 0: impossible or no gain. */
double unit_us(const Recomputing *, Unit);
void expect(Recomputing *, const Choice *);         /* changes what is alive as the chain will */
bool overlaps(const Recomputing *, const Choice *); /* with the chains of this round */
void mark_chain(Recomputing *, const Choice *);     /* adds it to the chains of this round */

/* ---- candidates.c */
void add_candidate(Recomputing *, Candidate);
Choice choose(Recomputing *); /* Removes and returns the best candidate; rate 0: there is none. */
void rate_all(Recomputing *);
/* the tensors that an added task reads and writes, and the originals of copies */
void rate_touched(Recomputing *, const Task *);

/* ---- insert.c */
Inserted insert_chains(Recomputing *, const Choice *, int count, Memory *kept); /* kept: the memory of the phase */
void take_back(Recomputing *, const Inserted *);

/* ---- dropped.c */
void measure(const Recomputing *, const Phase *before, Recomputed *);
void list_layers(const Recomputing *, Recomputed *);
#endif
