/* search.h: what the files of the search share.
 *
 *   recompute.c   the rounds of the search
 *   order.c       the phase in the order in which its schedule runs it
 *   alive.c       what is known of a phase: who makes and reads each tensor, which bytes are alive where
 *   chain.c       what is computed again for a tensor, and what that gains for its time
 *   candidates.c  which chains are the best
 *   insert.c      chains become tasks of the phase, or are taken out of it again
 *   dropped.c     what came of it: bytes, times, by layer
 */
#ifndef MGPU_PLAN_RECOMPUTE_SEARCH_H
#define MGPU_PLAN_RECOMPUTE_SEARCH_H

#include "compiler/plan/recompute/recompute.h"
#include "compiler/plan/schedule_internal.h"

enum { MOST_CHAIN = 24, MOST_KEPT = 48 };

typedef struct Unit { int first, count; } Unit; /* tasks that are computed together: a contraction and its epilogue */
typedef struct Kept { const Tensor *tensor; int from; } Kept; /* what a chain reads, kept from this position on */
typedef struct Chain {
    Unit units[MOST_CHAIN]; int count; /* in their order */
    Kept kept[MOST_KEPT]; int kept_count;
    double us;
} Chain;
typedef struct Choice { Chain chain; const Tensor *tensor; int use, at; double rate; } Choice; /* at: the position of the reader */
typedef struct Candidate { int tensor, use; double rate; } Candidate; /* a copy for its use of this number; the rate it had when it was rated */
typedef struct Rename { Task *task; int read; Tensor *before; } Rename;
typedef struct Inserted { Task **tasks; int task_count, tensor_count; Rename *renames; int rename_count; } Inserted; /* the phase before, and what was renamed since */

typedef struct Recomputing {
    const Program *program;
    Phase *phase;           /* the new one */
    int devices;
    int64_t samples, limit;
    Device device;
    /* by tensor of the old phase */
    int64_t *bytes;         /* of its temporaries on a device: the own part, where a device has no more */
    bool *counted;          /* temporaries of which a device has room: not those in a region's chunk of the host, not gathered weights */
    const Tensor **variable; /* that is gathered there; NULL: none is */
    bool *banned;           /* dropping it did not help */
    int *written, *read;    /* the last round whose chains make it anew, read it */
    int *root;              /* by tensor: that of the old phase whose value it has */
    int tensor_room;
    /* of this round */
    int round;
    int *maker;             /* by tensor: position of its first writer; -1: none */
    int *writers;           /* by tensor: kernels that write it */
    int *use_begin, *uses;  /* by tensor: positions of its accesses, ascending */
    int *newest, *older;    /* by root: its last copy; by tensor: the copy before it; -1: none */
    int64_t *alive;         /* by position: bytes */
    int *above;             /* by position: how many before it are above the limit */
    double excess;          /* bytes above the limit, over all positions */
    int64_t peak;
    Candidate *heap; int heap_count, heap_room; /* the highest rate first */
    Memory *kept, *seen;    /* of the search; of what is known of this round */
} Recomputing;

/* ---- order.c */
Phase *phase_in_order(const Phase *, const Order *); /* the same tasks */

/* ---- alive.c */
void look(Recomputing *);   /* what is known of the phase as it is now; a later look frees it */
int64_t least_alive(const Recomputing *);
void change_alive(Recomputing *, int first, int last, int64_t bytes); /* of these positions, until the next look; find_excess follows */
void find_excess(Recomputing *);
Tensor *copy_at(const Recomputing *, const Tensor *, int at); /* the copy of its value that was made last before the position */
int last_use_before(const Recomputing *, const Tensor *, int at);
static inline bool is_counted(const Recomputing *r, const Tensor *x) { return r->counted[r->root[x->id]]; }
static inline int64_t bytes_of(const Recomputing *r, const Tensor *x) { return r->bytes[r->root[x->id]]; }
static inline int use_count(const Recomputing *r, int tensor) { return r->use_begin[tensor + 1] - r->use_begin[tensor]; }
static inline int last_use(const Recomputing *r, const Tensor *x) { return r->uses[r->use_begin[x->id + 1] - 1]; }
/* positions from first to last that are above the limit */
static inline double above(const Recomputing *r, int first, int last) { return first > last ? 0 : r->above[last + 1] - r->above[first]; }

/* ---- chain.c */
Choice rate(Recomputing *, int tensor, int use); /* a copy of the tensor for its use of this number; rate 0: there is none, or it does not help */
double unit_us(const Recomputing *, Unit);
void expect(Recomputing *, const Choice *);      /* what is alive will change as the chain has it */
bool overlaps(const Recomputing *, const Choice *); /* with the chains of this round */
void mark(Recomputing *, const Choice *);        /* as one of them */

/* ---- candidates.c */
void add_candidate(Recomputing *, Candidate);
Choice choose(Recomputing *);                    /* the best; it is no candidate any more. rate 0: there is none */
void rate_all(Recomputing *);
void rate_touched(Recomputing *, const Task *);  /* the tensors that an added task reads and writes, and what those copy */

/* ---- insert.c */
Inserted insert_chains(Recomputing *, const Choice *, int count, Memory *kept); /* kept: the memory of the phase */
void take_back(Recomputing *, const Inserted *);

/* ---- dropped.c */
void measure(const Recomputing *, const Phase *before, Recomputed *);
void list_layers(const Recomputing *, Recomputed *);
#endif
