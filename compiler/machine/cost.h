/* cost.h: the cost model: how long things take on a machine. All stages use it.
 *
 * Kernels: the roofline (Williams, Waterman, Patterson, "Roofline: an insightful visual performance model", CACM 52(4), 2009):
 * the longest of the times of memory, matrix units and instructions, each at the fraction of the nominal rate that kernels of
 * this kind reach; and the launch. EFFICIENCY in cost.c has the fractions and their sources.
 *
 * Transfers: latency + bytes / rate (Hockney, "The communication challenge for MPP", Parallel Computing 20(3), 1994); of
 * simultaneous transfers, each link carries what all of them send over it.
 *
 * All-reduces of B bytes on n devices, latency a and rate r of a link (Thakur, Rabenseifner, Gropp, "Optimization of collective
 * communication operations in MPICH", IJHPCA 19(1), 2005; Patarasuk, Yuan, "Bandwidth optimal all-reduce algorithms for clusters
 * of workstations", JPDC 69(2), 2009; Sanders, Speck, Traeff, "Two-tree algorithms for full bandwidth broadcast, reduction and
 * scan", Parallel Computing 35(12), 2009; NVIDIA, NCCL 2.27's tuning model for in-switch sums):
 *   ring       2 (n - 1) a + 2 (n - 1) / n B / r; reduce-scatter and all-gather are half of it each
 *   tree       2 log2(n) a + 2 B / r, with both halves of two trees at a time
 *   in-switch  2 a + (n + 1) / n B / r
 *   host       each device sends B to the host's memory, the host adds, each device receives B
 *   server     host, between host devices, if each one sends all of B over a link
 *   copy ring, copy tree, device: in the rounds of mgpu_rounds.h, each of which is as long as its slowest copy and an addition
 *   copy       each device copies 1 / n of B from every other one, adds, and copies all other sums: 2 (n - 1) / n B over each
 *              device's links, all at the same time
 *   one-shot   of small B: each device sends B to every other one, and adds what it receives: a + n / 3 us + (n - 1) B / r
 * (collectives.c) Over N nodes of k devices, n = N k; a', r': latency between nodes, and rate of a node's devices together:
 *   ring       of all devices: 2 (n - N) a + 2 N a' + 2 (n - 1) / n B / min(r, r')
 *   tree       of the nodes, whose devices are chains: 2 (k - 1) a + 2 log2(N) a' + 2 B / min(r, r'); with two nodes, B crosses
 *              the network, with three 3/2 B
 *   levels     a reduce-scatter inside, B / k of each device reduced by a ring or a tree of the nodes, an all-gather inside
 *   host       host devices: inside as above; each node sends a slice to every other one, and then its sum:
 *              2 a' + 2 (N - 1) / N B / r'
 * Meanwhile NCCL occupies an SM for each of its channels, and kernels have the others (collectives.c). A sum of bits is an
 * all-gather of all codes, with passes over memory that encode B and add n codes. */
#ifndef MGPU_MACHINE_COST_H
#define MGPU_MACHINE_COST_H

#include "compiler/machine/machine.h"
#include "compiler/machine/work.h"

/* what bounds a time */
typedef enum Bound { BOUND_LAUNCH, BOUND_MEMORY, BOUND_INSTRUCTIONS, BOUND_MATRIX, BOUND_LINK, BOUND_LATENCY, BOUNDS } Bound;
/* the basis of the time, most reliable first */
typedef enum Ground {
    GROUND_RUN,     /* a measurement of itself: --measured */
    GROUND_RATES,   /* rates or latencies that were measured on the machine */
    GROUND_SHARES,  /* rates of data sheets, and the fraction of them that such kernels were measured to reach elsewhere */
    GROUND_SHEETS,  /* rates of data sheets, and an assumed fraction */
    GROUND_ASSUMED, /* latencies that were not measured */
    GROUNDS
} Ground;
typedef struct Cost {
    double us;
    Bound bound;
    double between_us; /* part of it that is between nodes */
    double taken;      /* of a transfer: fraction of each GPU's SMs that it occupies; simultaneous kernels have the others */
    Ground ground;
} Cost;

/* ---- kernels and library calls */
typedef struct Work {
    WorkKind kind;
    Dtype type;          /* of the operands of contractions */
    bool tf32;           /* contractions of f32 use matrix units */
    bool wide;           /* all other operations are in f64 */
    double contractions; /* operations of contractions; a multiply-add is two */
    double operations;   /* all other operations */
    double functions;    /* part of these: exp, sin, pow and the like */
    double row_sums;     /* part of these: additions of row sums */
    double bytes;        /* each operand once, each result once */
    double steps;        /* of a scan; else 0 */
    bool joins;          /* shares a launch with others, which account for the least time of a kernel */
} Work;
Cost cost_kernel(const Device *, const Work *);
/* Return the fractions of a nominal rate that are reached: of the memory's, by y = a x + b; of a link's, by a copy between
 * GPUs. */
double cost_stream_share(Processor);
double cost_copy_share(void);

/* Returns the basis of the links' latencies, or of their rates, some of which may be measured. */
Ground cost_link_ground(const Machine *, Processor, bool latency);

/* ---- transfers, between devices or the host */
typedef struct Transfer {
    int from, to;
    double bytes;
} Transfer;
Cost cost_transfer(const Machine *, int from, int to, double bytes);
Cost cost_transfers(const Machine *, const Transfer *, int count); /* all at the same time: until the last one ends */

/* ---- collectives of a number of GPUs, or of host devices */
typedef enum Collect {
    COLLECT_ALL_REDUCE,
    COLLECT_REDUCE_SCATTER,
    COLLECT_ALL_GATHER,
    COLLECT_BROADCAST,
    COLLECTS,
    COLLECT_BITS = COLLECTS,
    COLLECT_MOMENTS /* by an all-gather */
} Collect;
typedef enum Method {
    METHOD_RING,
    METHOD_TREE,
    METHOD_SWITCH,
    METHOD_HOST,
    METHOD_COPY,
    METHOD_COPY_RING,
    METHOD_COPY_TREE,
    METHOD_DEVICE,
    METHOD_SERVER,
    METHOD_LEVELS,
    METHOD_ONE_SHOT,
    METHODS
} Method;
extern const char *const METHOD_NAME[METHODS];
typedef struct TransferFactor {
    Collect what;
    double bytes, factor;
} TransferFactor; /* measured time / modelled time */
typedef struct TransferFactors {
    TransferFactor *each;
    int count;
} TransferFactors;
typedef struct Members { /* the members of a collective, and what their links provide */
    const Machine *machine;
    Processor processor;
    int count; /* if it is more than the machine has, further devices are like the last one */
    int nodes; /* nodes of equally many members; all that follows is of one node */
    int cards; /* of a node: links to the other nodes */
    /* bytes a second that a node's members send to other nodes together; latency from one node to another */
    double network, network_us;
    const double *network_load; /* by link and direction: bytes on it, if each member sends and receives a byte */
    double ring, ring_us; /* bytes a second into each device, all rings together, and latency of a step; 0: there is no ring */
    int adding_switch;    /* its number, if in_switch > 0 */
    double in_switch, switch_us;
    const double *ring_load;           /* by link and direction: fraction of a ring step's bytes that crosses it */
    const double *copy_load[COLLECTS]; /* likewise: bytes on it per byte, of all copies */
    bool peer_access;                  /* each GPU can access the memory of all others without the host */
    unsigned methods;                  /* that a plan may choose */
    unsigned gradients;                /* likewise, for sums of gradients; 0: the same */
    bool exact;                        /* sums are those of an exact program */
    const TransferFactors *measured;   /* of so many members; NULL: none were measured */
    double host_us[COLLECTS], host_each[COLLECTS], copy_us[COLLECTS], copy_each[COLLECTS]; /* time of 0 bytes, and per byte */
    double route_us;                               /* largest latency from one device to another */
    double round_us[METHODS], round_each[METHODS]; /* likewise, of all-reduces in rounds */
    double *round_load[METHODS];                   /* by link and direction: bytes on it per byte, of those */
} Members;
Members members_of(const Machine *, Processor, int nodes, int devices); /* devices: of all nodes */
static inline int members_each(const Members *g) { return g->count / g->nodes; }
static inline Device member_device(const Members *g, int device)
{
    return machine_device(g->machine, g->processor, device % members_each(g), members_each(g));
}
bool method_works(const Members *, Method);
/* Returns the methods, 1 << METHOD_..., by which a program may make transfers by an implementation (MGPU_IMPLEMENTATION_...); 0:
 * impossible on this machine. AUTO: those of the first possible one. */
unsigned methods_of_implementation(const Members *, int implementation);
/* of transfers that may run at the same time as another one: NCCL runs one at a time */
unsigned methods_of_small_transfers(const Members *);
int implementation_of_method(const Members *, Method);
Cost cost_collective(const Members *, Collect, Method, double bytes);
/* Adds the bytes of a node that cross each link and direction to [2 * link + back]; returns those that the host's memory reads
 * and writes. */
double collective_bytes(const Members *, Collect, Method, double bytes, double *of_link);
double collective_core_us(const Members *, Collect, Method, double bytes); /* of a node: core time for messages; on GPUs 0 */
Cost cost_cheapest(const Members *, unsigned methods, Collect, double bytes, Method *chosen); /* of methods, 1 << METHOD_... */

/* Return the cost of a copy between the host's memory and a device. */
Cost cost_upload(const Machine *, Processor, int device, double bytes);
Cost cost_download(const Machine *, Processor, int device, double bytes);
#endif
