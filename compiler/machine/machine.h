/* machine.h: a machine: its devices, its host, the links between them. A stage that decides by cost is handed one.
 *
 *   read.c     a machine file -> Machine, and what may be in one
 *   known.c    the machines that mgpuc knows by name: compiler/machine/files
 *   route.c    which links a transfer takes, and how fast they are together
 *   classes.c  devices that differ in their number alone: a thousand of them are planned like one
 *   cost.c     the time of a kernel, a transfer, an all-reduce (cost.h)
 *
 * Links join devices, the host and switches; what several transfers share is a link that all of them take. A link carries its
 * rate in each direction at the same time.
 *
 * A cluster is many nodes that are equal: all else is said of one of them. Nodes are joined by the end `network`, a switch that every node
 * has links to; nothing within a node goes through it. */
#ifndef MGPU_MACHINE_H
#define MGPU_MACHINE_H

#include "compiler/base/base.h"
#include "compiler/ir/graph.h"

typedef struct Fact { /* a number and where it comes from; value 0: nobody says it */
    double value;
    int measured;       /* the day, 20261123; 0: nominal, of a data sheet */
} Fact;

typedef enum Processor { PROCESSOR_HOST, PROCESSOR_CUDA, PROCESSORS } Processor;

typedef struct Device {
    const char *name;
    Processor processor;
    int capability;     /* 90: sm_90; 0: of a host */
    Fact units;         /* SMs, cores */
    Fact memory;        /* bytes */
    Fact bandwidth;     /* of that memory, bytes a second */
    Fact plain[DTYPES]; /* operations a second without matrix units, a multiply-add is two */
    double matmul;      /* the share of the plain rate that a large matmul reaches; 0: not known */
    Fact matrix[DTYPES];/* with them, of operands of that type; f32: tf32 */
    Fact large[DTYPES]; /* that a large matmul reaches on a GPU, whatever does it; f32: without matrix units; 0: not known */
    Fact launch_us;     /* from a kernel to the next one; of a host: a barrier of the thread pool */
    Fact event_us;      /* of a wait of one lane for another */
    Fact step_us;       /* of a step, besides its operations; of a host */
} Device;

typedef struct Host {
    Fact cores, memory, bandwidth;
    Fact plain[DTYPES]; /* of a core */
    Fact matmul;        /* operations a second that a core does in a large f32 matmul; 0: not known */
    Fact barrier_us;    /* of the thread pool of a device */
    Fact step_us;       /* of a step on cores that compute, besides its operations: threads hand it on to each other */
    Fact meeting_us;    /* of the host devices in an all-reduce, while they compute */
    Fact idle_meeting_us; /* while all of them wait for it; 0: the same */
    Fact link;          /* bytes a second to and from each host device, where something makes them slower than memory is (MGPU_LINK_GBPS) */
    Fact decode;        /* ImageNet pictures a second and core: decoded, cut to 224 x 224 */
    Fact disk;          /* bytes a second */
    int load;           /* percent of the cores that other programs took while all this was measured; 0: too little to matter */
} Host;

/* ends are devices, then the host, then switches */
#define NETWORK "network" /* the switch between nodes */
typedef struct Switch { const char *name; bool adds; } Switch; /* adds: all-reduces are done in it */
typedef struct Link {
    int end[2];
    Fact rate[2];       /* from end[0] to end[1], and back; bytes a second */
    Fact latency_us;
} Link;

typedef struct Machine {
    const char *name;
    int nodes;          /* equal ones: the rest is said of one of them */
    Device *devices; int device_count;  /* GPUs; devices of kind host are parts of the host */
    Host host;
    Switch *switches; int switch_count;
    Link *links; int link_count;
    const struct Classes *classes;  /* of its GPUs; NULL: not known */
} Machine;

/* ---- known.c: the chip that kernels are cut for, whatever machine runs them: their text is the same for all of a kind */
typedef struct Chip {
    int units;              /* SMs, which large matmuls are split for */
    int64_t shared_bytes;   /* shared memory that a block can have */
    struct { int f64, f32, tf32, half; } multiply_adds; /* of a unit in a cycle; tf32 and half: by its matrix units */
    int64_t first_cache_bytes, cache_bytes; /* of a core: its first and its second cache */
    int alone_iterations;   /* of element-wise loops, which one thread has done before others have begun: less is not shared */
    int part_iterations;    /* the least that a thread takes of what is shared */
} Chip;
extern const Chip CHIP[PROCESSORS];

enum { MOST_DEVICES = 1024 /* of a node, and of a program */, MOST_NODES = 1 << 16, MOST_PLANNED = 1 << 17 /* devices of a plan that is no program */ };

/* ---- read.c: error_at for what it does not understand */
Machine *machine_read(const char *file, const char *text, size_t length);

/* ---- known.c */
typedef struct MachineFile { const char *name, *text; } MachineFile;
extern const MachineFile MACHINE_FILES[]; /* the last one's name is NULL */
const MachineFile *machine_file(const char *name); /* NULL: none of these has the name */
Machine *machine_named(const char *name); /* "dgx-1", or a file; fails for what is neither */
Machine *machine_default(Processor);      /* for plans that name no machine: the same everywhere, so schedules are, too */

/* ---- route.c */
enum { MOST_HOPS = 8 };
typedef struct Route {
    int link[MOST_HOPS];
    bool back[MOST_HOPS];   /* from end[1] to end[0] */
    int count;              /* 0: from an end to itself */
    bool staged;            /* through the memory of the host */
    double rate, latency_us;/* of the slowest of its links; of all */
} Route;
bool find_route(const Machine *, int from, int to, Route *); /* of the links, in time that grows with their number */
int machine_host(const Machine *);      /* the host's number among the ends */
int machine_network(const Machine *);   /* likewise; -1: there is one node */
const char *machine_end_name(const Machine *, int end);
bool machine_route(const Machine *, int from, int to, Route *); /* false: there is none */

/* ---- classes.c: devices of one class have the same rates, and links of their own, equal ones, to the same switches and the host. So ways
 * between devices of two classes differ in these links alone. */
enum { MOST_CLASSES = 64 };
typedef struct Classes {
    int count, *of;             /* class of each GPU */
    int first[MOST_CLASSES], second[MOST_CLASSES]; /* its first two; second -1: it has one */
    int **own, *own_count;      /* links that each GPU is an end of, in the order of the links */
    int kinds;                  /* of ends: the classes, the host, the switches */
    Route *routes; bool *there; /* [kinds * kinds], of the first of a class; of a class to itself, from its first to its second */
} Classes;
const Classes *machine_classes(const Machine *); /* NULL: there are more than MOST_CLASSES */
bool class_route(const Machine *, int from, int to, Route *); /* as find_route, at once */

/* a device of a plan: GPU `number`, or the host's part when `count` host devices share it. Plans may have more GPUs than the machine:
 * these are like its last one. */
Device machine_device(const Machine *, Processor, int number, int count);
bool machine_alike(const Machine *, int a, int b); /* two GPUs: all their rates, and those to the host, are the same */
#endif
