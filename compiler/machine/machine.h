/* machine.h: a machine: its devices, its host, the links between them. A stage that decides by cost gets one as parameter.
 *
 *   read.c     a machine file -> Machine; the format
 *   named.c    the machines that mgpuc knows by name: compiler/machine/files
 *   route.c    the links of a transfer, and their rate
 *   classes.c  devices that differ only in their number: a thousand of them are planned like one
 *   cost.c     the time of a kernel, a transfer, an all-reduce (cost.h)
 *
 * Links connect devices, the host and switches. A bottleneck that several transfers share is a link that all of them use. A link
 * has its rate in each direction at the same time.
 *
 * A cluster has many equal nodes; all other facts are about one node. Nodes are connected by the end `network`, a switch to which
 * every node has links; no traffic within a node uses it. */
#ifndef MGPU_MACHINE_H
#define MGPU_MACHINE_H

#include "compiler/base/base.h"
#include "compiler/ir/graph.h"

typedef struct Fact { /* a number and its source; value 0: unknown */
    double value;
    int measured; /* the day, 20261123; 0: nominal, from a data sheet */
} Fact;

typedef enum Processor { PROCESSOR_HOST, PROCESSOR_CUDA, PROCESSORS } Processor;

typedef struct Device {
    const char *name;
    Processor processor;
    int capability;      /* 90: sm_90; 0: of a host */
    Fact units;          /* SMs, cores */
    Fact memory;         /* bytes */
    Fact bandwidth;      /* bytes a second, of its memory */
    Fact plain[DTYPES];  /* operations a second without matrix units; a multiply-add is two */
    double matmul;       /* fraction of the plain rate that a large matmul reaches; 0: unknown */
    Fact matrix[DTYPES]; /* with matrix units, by type of the operands; f32: tf32 */
    Fact large[DTYPES];  /* operations a second that a large matmul reaches on a GPU; f32: without matrix units; 0: unknown */
    Fact launch_us;      /* time between two kernels; of a host: a barrier of the thread pool */
    Fact event_us;       /* time for one lane to wait for another */
    Fact step_us;        /* of a host: time of a step besides its operations */
} Device;

typedef struct Host {
    Fact cores, memory, bandwidth;
    Fact plain[DTYPES];       /* per core */
    Fact matmul;              /* operations a second of a core in a large f32 matmul; 0: unknown */
    Fact barrier_us;          /* of a device's thread pool */
    Fact step_us;             /* time of a step besides its operations, on cores that compute: the threads synchronize */
    Fact synchronize_us;      /* time for host devices to synchronize in an all-reduce, while they compute */
    Fact idle_synchronize_us; /* the same while all of them wait; 0: the same */
    Fact link;   /* bytes a second to and from each host device, if they are limited below the memory's rate (MGPU_LINK_GBPS) */
    Fact decode; /* ImageNet pictures a second per core: decoded, cropped to 224 x 224 */
    Fact disk;   /* bytes a second */
    int load;    /* percent of the cores that other programs used during the measurements; 0: too few to matter */
} Host;

/* ends are devices, then the host, then switches */
#define NETWORK "network" /* the switch between nodes */
typedef struct Switch {
    const char *name;
    bool adds;
} Switch; /* adds: it can compute all-reduces */
typedef struct Link {
    int end[2];
    Fact rate[2]; /* from end[0] to end[1], and back; bytes a second */
    Fact latency_us;
} Link;

typedef struct Machine {
    const char *name;
    int nodes; /* equal nodes; the other members describe one */
    Device *devices;
    int device_count; /* GPUs; devices of kind host are parts of the host */
    Host host;
    Switch *switches;
    int switch_count;
    Link *links;
    int link_count;
    const struct Classes *classes; /* of its GPUs; NULL: unknown */
} Machine;

/* ---- named.c: the chip for which kernels are tiled, on any machine: their text is the same for all machines of a kind */
typedef struct Chip {
    int units;            /* SMs, over which large matmuls are split */
    int64_t shared_bytes; /* shared memory of a block */
    struct {
        int f64, f32, tf32, half;
    } multiply_adds;                        /* per unit and cycle; tf32 and half: of its matrix units */
    int64_t first_cache_bytes, cache_bytes; /* of a core: L1 and L2 */
    /* of element-wise loops that one thread completes before other threads have begun: less is not divided */
    int one_thread_iterations;
    int part_iterations; /* least part of a thread, if work is divided */
} Chip;
extern const Chip CHIP[PROCESSORS];

enum {
    MOST_DEVICES = 1024, /* of a node, and of a program */
    MOST_NODES = 1 << 16,
    MOST_PLANNED = 1 << 17 /* devices, without a program */
};

/* ---- read.c: reports errors by error_at */
Machine *machine_read(const char *file, const char *text, size_t length);

/* ---- named.c */
typedef struct MachineFile {
    const char *name, *text;
} MachineFile;
extern const MachineFile MACHINE_FILES[];          /* the last one's name is NULL */
const MachineFile *machine_file(const char *name); /* NULL: none has this name */
Machine *machine_named(const char *name);          /* a known name such as "dgx-1", or a file; fails if it is neither */
Machine *machine_default(Processor); /* for plans without --machine: the same everywhere, so that schedules are, too */

/* ---- route.c */
enum { MOST_HOPS = 8 };
typedef struct Route {
    int link[MOST_HOPS];
    bool back[MOST_HOPS];    /* from end[1] to end[0] */
    int count;               /* 0: from an end to itself */
    bool staged;             /* through the host's memory */
    double rate, latency_us; /* the slowest rate of its links; sum of their latencies */
} Route;
bool find_route(const Machine *, int from, int to, Route *); /* searches the links; time grows with their number */
int machine_host(const Machine *);                           /* number of the host among the ends */
int machine_network(const Machine *);                        /* likewise; -1: there is one node */
const char *machine_end_name(const Machine *, int end);
bool machine_route(const Machine *, int from, int to, Route *); /* false: there is no route */

/* ---- classes.c: devices of one class have equal rates, and equal links of their own to the same switches and the host. So
 * routes between devices of two classes differ only in these links. */
enum { MOST_CLASSES = 64 };
typedef struct Classes {
    int count, *of;                                /* of: class of each GPU */
    int first[MOST_CLASSES], second[MOST_CLASSES]; /* its first two GPUs; second -1: it has one */
    int **own, *own_count;                         /* links of each GPU, in the order of the links */
    int kinds;                                     /* kinds of ends: the classes, the host, the switches */
    /* [kinds * kinds], from the first GPU of a class; of a class to itself, from its first to its second */
    Route *routes;
    bool *there;
} Classes;
const Classes *machine_classes(const Machine *);              /* NULL: there are more than MOST_CLASSES */
bool class_route(const Machine *, int from, int to, Route *); /* as find_route, in constant time */

/* Returns a device of a plan: GPU `number`, or the part of the host if `count` host devices share it. If a plan has more GPUs
 * than the machine, they are like its last one. */
Device machine_device(const Machine *, Processor, int number, int count);
bool machine_alike(const Machine *, int a, int b); /* true for two GPUs with the same rates, also to the host */
#endif
