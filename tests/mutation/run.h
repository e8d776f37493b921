/* run.h: a run of a schedule as a graph of operations, and the memory that they touch; made by run.c for oracle.c. */
#ifndef MGPU_RUN_H
#define MGPU_RUN_H

#include "compiler/plan/schedule.h"
#include "tests/mutation/mutation.h"

enum { MOST_DEVICES = 64 };
enum { THREADS = 2 }; /* of a device: what each has of its own is where the schedule says, and once more after it */

typedef struct Span {
    int first, last;
    int64_t begin;
} Span; /* segments [first, last) from address begin on */
typedef struct Instance {
    int device, step, phase;
    const ScheduledOp *op; /* NULL: begin or end of a lane's step, or an operation that this step skips */
    Lane lane;
    int gate;             /* instance that waits for what it waits for: itself, or the begin of its region */
    int region;           /* end of a region: instance of its first call; else -1 */
    int64_t chunk;        /* of its region */
    uint64_t work;        /* token that it left in its workspace */
    int node, span;       /* its first one: reads, then writes; as often for each THREAD */
    uint64_t name;        /* hash of what it is */
    bool reported_before; /* REPORT, FETCH of the step before */
} Instance;
typedef struct Edge {
    int from, to;
} Edge;
typedef struct Memory { /* of one device: its arena, then its staging arena */
    int64_t *address;   /* of segments; one more at the end */
    int count;
    int64_t staging; /* where the staging arena begins */
    uint64_t *token;
    int64_t *origin; /* address of the first byte that the token's write wrote */
} Memory;
typedef struct Kept {
    uint64_t name;
    int64_t bytes;
    Span span;
} Kept; /* a variable */

typedef struct Run {
    const Schedule *schedule;
    int steps[RUN_STEPS + 1]; /* the last: -1, no phase */
    Instance *instances;
    int count;
    Edge *edges;
    int edge_count;
    int *chain[LANES];      /* [device]: last instance of the lane so far; -1 */
    int *begin_of, *end_of; /* [step][device][lane] */
    int **at; /* [step]: [device x most operations + op] -> instance that ends when it does: it, or the end of its region */
    int most_ops;
    /* nodes: members of a collective are one */
    int node_count;
    int *members, *first_member; /* node -> instances */
    int *successors, *first_successor, *degree;
    Memory *memory; /* by device */
    Span *spans;
    Kept **kept;
    int *kept_count;
    /* scratch of executions */
    int *order, *ready, *later, *left;
    uint64_t reported; /* sum of what REPORT and FETCH saw */
    uint64_t garbage;  /* of this execution */
} Run;

static inline const Access *access_of(const ScheduledOp *op, int i) /* reads, then writes */
{
    return i < op->read_count ? &op->reads[i] : &op->writes[i - op->read_count];
}

static inline int access_count(const ScheduledOp *op) { return op->read_count + op->write_count; }

static inline BufferKind kind_of(const Run *r, const Instance *x, int access)
{
    return r->schedule->phases[x->phase].devices[x->device].buffers[access_of(x->op, access)->buffer].kind;
}

static inline int copies_of(const Run *r, const Instance *x, int access) /* of the bytes that it touches */
{
    BufferKind kind = kind_of(r, x, access);
    return kind == BUFFER_WORKSPACE || kind == BUFFER_LOCAL ? THREADS : 1;
}

/* of a member of a collective: where the whole value is, of which it sends and receives its share; segments, once they are
 * known */
typedef struct Whole {
    int64_t begin, end;
    int first, last;
} Whole;
Whole whole_seen(const Run *, const Instance *);

/* NULL, or why such a run cannot end well */
const char *build_run(Run *, const Schedule *, const int steps[RUN_STEPS]);
#endif
