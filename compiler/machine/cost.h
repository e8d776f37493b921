/* cost.h: how long things take on a machine. All stages ask here.
 *
 * Kernels: the roofline (Williams, Waterman, Patterson, "Roofline: an insightful visual performance model", CACM 52(4), 2009):
 * the longest of what its memory, its matrix units and its instructions take, each with the share of the nominal rate that
 * kernels of this kind reach; and the launch. The shares are the table EFFICIENCY in cost.c, with where they come from.
 *
 * Transfers: latency + bytes / rate (Hockney, "The communication challenge for MPP", Parallel Computing 20(3), 1994); several at
 * the same time: each link carries what all of them send over it.
 *
 * All-reduces of B bytes on n devices, latency a and rate r of a link (Thakur, Rabenseifner, Gropp, "Optimization of collective
 * communication operations in MPICH", IJHPCA 19(1), 2005; Patarasuk, Yuan, "Bandwidth optimal all-reduce algorithms for clusters
 * of workstations", JPDC 69(2), 2009; Sanders, Speck, Traeff, "Two-tree algorithms for full bandwidth broadcast, reduction and
 * scan", Parallel Computing 35(12), 2009; NVIDIA, NCCL 2.27's tuning model for in-switch sums): ring       2 (n - 1) a + 2 (n -
 * 1) / n B / r; reduce-scatter and all-gather are half of it each tree       2 log2(n) a + 2 B / r, both halves of two trees at a
 * time in-switch  2 a + (n + 1) / n B / r host       everybody sends B to the host's memory, the host adds, everybody takes B
 *   server     host, between host devices, if each one sends all of B over a link
 *   copy ring, copy tree, device: in the rounds of mgpu_rounds.h, each of which is as long as its slowest copy, and an addition
 *   copy       everybody takes 1 / n of B of everybody else, adds it up, and takes all others' sums: 2 (n - 1) / n B over each
 *              device's links, all at the same time
 *   one-shot   of small B: everybody sends B to everybody else, and adds up what has come: a + n / 3 us + (n - 1) B / r
 * (collectives.c) Over N nodes of k devices, n = N k; a', r': latency between nodes, and what a node's devices send all together:
 *   ring       of all devices: 2 (n - N) a + 2 N a' + 2 (n - 1) / n B / min(r, r')
 *   tree       of the nodes, whose devices are chains: 2 (k - 1) a + 2 log2(N) a' + 2 B / min(r, r'); of two nodes B crosses the
 * network, of three 3/2 B levels     a reduce-scatter inside, B / k of each device added up by a ring or a tree of the nodes, an
 * all-gather inside host       host devices: inside as above; each node sends a slice to every other one, and then its sum: 2 a'
 * + 2 (N - 1) / N B / r' Meanwhile NCCL has an SM for each of its channels, and kernels have the others (collectives.c). A sum of
 * bits is an all-gather of what all send, and passes over memory that code B and add up n codes. */
#ifndef MGPU_MACHINE_COST_H
#define MGPU_MACHINE_COST_H

#include "compiler/machine/machine.h"
#include "compiler/machine/work.h"

/* what bounds a time */
typedef enum Bound { BOUND_LAUNCH, BOUND_MEMORY, BOUND_INSTRUCTIONS, BOUND_MATRIX, BOUND_LINK, BOUND_LATENCY, BOUNDS } Bound;
/* what the time rests on, the surest first */
typedef enum Ground {
    GROUND_RUN,     /* it was measured itself: --measured */
    GROUND_RATES,   /* rates or latencies that were measured on the machine */
    GROUND_SHARES,  /* rates of data sheets, and the share of them that such kernels were measured to reach elsewhere */
    GROUND_SHEETS,  /* rates of data sheets; the share is assumed */
    GROUND_ASSUMED, /* latencies that nobody measured */
    GROUNDS
} Ground;
typedef struct Cost {
    double us;
    Bound bound;
    double between_us;      /* of it: between nodes */
    double taken;           /* of a transfer: the share of each GPU's SMs that it takes meanwhile; kernels beside it have the rest */
    Ground ground;
} Cost;

/* ---- kernels and library calls */
typedef struct Work {
    WorkKind kind;
    Dtype type;         /* of the operands of its contractions */
    bool tf32;          /* contractions of f32 by matrix units */
    bool wide;          /* all else is in f64 */
    double contractions;    /* operations of contractions, a multiply-add is two */
    double operations;  /* all others */
    double functions;   /* of these: exp, sin, pow and the like */
    double row_sums;    /* of these: additions of sums of rows */
    double bytes;       /* each operand once, each result once */
    double steps;       /* of a scan; else 0 */
    bool joins;         /* a launch that does others, too: the least time of a kernel is theirs */
} Work;
Cost cost_kernel(const Device *, const Work *);
/* the shares of a nominal rate that are reached: of the memory's, by y = a x + b; of a link's, by a copy between GPUs */
double cost_stream_share(Processor);
double cost_copy_share(void);

/* of what devices exchange: the links' latencies, or their rates, some of which may be measured */
Ground cost_link_ground(const Machine *, Processor, bool latency);

/* ---- transfers. Ends are devices or the host */
typedef struct Transfer { int from, to; double bytes; } Transfer;
Cost cost_transfer(const Machine *, int from, int to, double bytes);
Cost cost_transfers(const Machine *, const Transfer *, int count); /* all at the same time: until the last one is over */

/* ---- collectives of a number of GPUs, or of host devices */
typedef enum Collect { COLLECT_ALL_REDUCE, COLLECT_REDUCE_SCATTER, COLLECT_ALL_GATHER, COLLECT_BROADCAST, COLLECTS, COLLECT_BITS = COLLECTS, COLLECT_MOMENTS /* of an all-gather */ } Collect;
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
typedef struct TransferFactor { Collect what; double bytes, factor; } TransferFactor; /* how many times the modelled time it was measured to take */
typedef struct TransferFactors { TransferFactor *each; int count; } TransferFactors;
typedef struct Members { /* of a collective, with what their links give it */
    const Machine *machine;
    Processor processor;
    int count;              /* more than the machine has: as if it had more of them, with the rates of its own */
    int nodes;              /* that share them; all that follows is of the members of one */
    int cards;              /* of a node: links that lead to the others */
    double network, network_us; /* bytes a second that they send to other nodes all together; latency from one to another */
    const double *network_load; /* by link and direction: bytes on it, where each sends a byte and receives one */
    double ring, ring_us;   /* bytes a second into each device, all rings together, and latency of a step; 0: there is none */
    double in_switch, switch_us;
    const double *ring_load; /* by link and direction: of the bytes that a step of a ring carries, the share that crosses it */
    const double *copy_load[COLLECTS]; /* likewise: of all copies, bytes on it for each byte */
    bool reach;             /* each GPU uses the memory of all others without the host */
    unsigned methods;       /* that a plan chooses from */
    unsigned gradients;     /* likewise, for sums of gradients; 0: the same */
    const TransferFactors *measured; /* of so many members; NULL: none was */
    double host_us[COLLECTS], host_each[COLLECTS], copy_us[COLLECTS], copy_each[COLLECTS]; /* of none, and of each byte */
    double route_us;        /* latency from a device to another one, at most */
    double round_us[METHODS], round_each[METHODS]; /* likewise, of all-reduces in rounds */
    double *round_load[METHODS]; /* and what those take of each link, of one byte */
} Members;
Members members_of(const Machine *, Processor, int nodes, int devices); /* devices: of all nodes */
static inline int members_each(const Members *g) { return g->count / g->nodes; }
static inline Device member_device(const Members *g, int device) { return machine_device(g->machine, g->processor, device % members_each(g), members_each(g)); }
bool method_works(const Members *, Method);
/* a way (MGPU_WAY_...: how a program makes a transfer) is by some methods; those of the way, 1 << METHOD_...: 0: not on this machine.
 * AUTO: of the first way that can be */
unsigned methods_of_way(const Members *, int way);
unsigned methods_beside(const Members *); /* of transfers that may run while another one does: NCCL makes one at a time */
int way_of_method(const Members *, Method);
Cost cost_collective(const Members *, Collect, Method, double bytes);
/* of a node: bytes that cross each link and direction: adds to [2 * link + back]; returns those that the host's memory reads and writes */
double collective_bytes(const Members *, Collect, Method, double bytes, double *of_link);
double collective_core_us(const Members *, Collect, Method, double bytes); /* of a node: what messages take of one core; on GPUs 0 */
Cost cost_cheapest(const Members *, unsigned methods, Collect, double bytes, Method *chosen); /* of these, 1 << METHOD_... */

/* bytes between the host's memory and a device */
Cost cost_upload(const Machine *, Processor, int device, double bytes);
Cost cost_download(const Machine *, Processor, int device, double bytes);
#endif
