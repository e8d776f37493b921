/* device.h: a device is an arena, staging memory on the host, kernels and copies, after one small table of functions
 * per kind of device. Lanes, events and the order of things are the engine's. */
#ifndef MGPU_ENGINE_DEVICE_H
#define MGPU_ENGINE_DEVICE_H

#include "runtime/abi/mgpu.h"
#include "runtime/engine/pool.h"

typedef struct Device Device;
typedef struct Machine Machine;    /* what the devices of a plan have in common; a kind's own */
typedef struct Collective Collective; /* collective.h */
typedef struct mgpu_processes Processes; /* processes.h */
typedef struct DevicePlan {
    const mgpu_program *program;
    const mgpu_plan *plan;
    const mgpu_device *device;
    const PoolPlan *pool;
    Machine *machine;
    int number;
    bool tune;                 /* what a library offers several ways for is timed */
    /* says which operation of the lane it was (-1: none) and ends the program */
    __attribute__((noreturn)) void (*fail)(void *context, int lane, const char *what);
    /* if it was an operation that was issued some time before; error: what the driver calls it, call: that heard of it */
    void (*fail_late)(void *context, const char *error, const char *call);
    void (*stage)(void *context, const char *what); /* while devices are opened: what may hang from now on */
    void *context;
    _Atomic int64_t *returned; /* counts calls of the driver that have returned */
    Device *begun;             /* what `begin` has made; NULL: there is no `begin` */
} DevicePlan;
typedef struct DeviceCall {    /* of a kernel */
    const mgpu_kernel *kernel; /* on the host */
    const mgpu_op *op;
    void **argument;           /* as thread 0 has them */
    int64_t *each;             /* of each argument: 0: the same for all threads; -1: the thread's own; else the thread's own
                                * for a chunk of samples, of so many bytes each */
    int arguments;
    bool own;                  /* some argument is the thread's own */
    void *library;             /* what `prepare` said of the operation */
    double seconds;            /* where times are asked for: what it took thread 0, or the one that did it all */
} DeviceCall;
typedef struct DeviceStrip {   /* calls without a barrier between them */
    DeviceCall *calls; int count;
    const mgpu_step *step;
    bool timed;                /* fill in calls[].seconds */
    bool launch_timed;         /* fill in launch_s: that passed while no thread was at work, as threads began and ended */
    double launch_s;
    int64_t samples;           /* of the device, the valid ones, where no others are computed; 0: all that it has room for */
    bool alone;                /* it is so little that thread 0 does all of it */
    int64_t elements;          /* + 1: of the device's own part of split values, which its calls take in place of samples; 0: samples */
    int64_t chunk;             /* samples that a thread takes through all calls at a time; 0: all that it has */
    /* NULL, or called after each call with its arguments as the thread has them, for samples [begin, end) */
    void (*audit)(const void *context, const mgpu_op *, void *const *argument, int64_t begin, int64_t end);
    /* NULL, or called by the thread after each part of a call that it has done */
    void (*trace)(const void *context, int thread, const mgpu_op *, double began, double ended);
    const void *context;
} DeviceStrip;

typedef struct DeviceRange { int64_t begin, end; bool writes; const char *name; } DeviceRange; /* bytes of the arena, of a buffer */

/* A device that runs ahead: what lanes comp, copy and comm do is issued to a stream of each, and done some time later in
 * the order of the stream. A mark is a place in a stream. Calls return at once but for those that wait. */
typedef struct AheadKind {
    void (*make_marks)(Device *, int count);
    void (*mark)(Device *, int lane, int mark, bool within); /* after all that was issued to the lane; within: followed in its segment alone */
    void (*follow)(Device *, int lane, int mark);        /* what is issued to the lane from now on comes after the mark */
    /* As a mark, but the stream writes `value`, which the host can read when the device has failed, too. In a segment: that
     * of the launch. */
    void (*note)(Device *, int lane, int mark, uint32_t value);
    uint32_t (*noted)(const Device *, int mark);         /* the last value, at first 0 */
    bool (*notes)(const Device *);                       /* whether the driver can do that; else a note is nothing */
    int64_t (*available)(Device *);                      /* bytes of its memory that nobody has */
    bool (*failed)(Device *);                            /* none of its calls succeeds any more */
    const char *(*reach)(Device *, int mark, char text[400]); /* waits; NULL, or what failed before it */
    /* around an operation that is waited for: waits until the device has no other; waits until the lane has done it, and fails with it */
    void (*begin)(Device *);
    void (*finish)(Device *, int lane);
    void (*upload)(Device *, int64_t offset, const void *from, int64_t bytes); /* lane copy; from: of `locked` or staging */
    /* lane comp; one, or those of a region. follows: nothing was issued to the lane since the call before. false: the next call does this one, too */
    bool (*call)(Device *, const DeviceCall *, int count, const mgpu_step *, bool follows);
    /* what is issued to the lane comp is kept from now on; transfers: and to the lane comm, which begins and ends with it */
    void (*begin_segment)(Device *, bool transfers);
    void *(*end_segment)(Device *);
    void (*launch)(Device *, void *segment, uint32_t value); /* issues what was kept; value: of its notes */
    void (*free_segment)(Device *, void *segment);
    bool (*checks)(const Device *);                      /* that operations touch what they say, and nothing else: */
    void (*declare)(Device *, const mgpu_op *, const char *operation, const DeviceRange *, int count); /* of what follows in its lane */
    /* threads learn from a counter what others have waited for: just before it is raised; just after it has been waited for */
    void (*tell)(Machine *, const void *counter, int64_t value);
    void (*hear)(Machine *, const void *counter, int64_t at_least);
    void (*clock)(Device *, int lane, int number);       /* a mark that notes the time; numbers from 0 on, of each lane */
    double (*seconds)(Device *, int lane, int from, int to); /* between two clocks; waits for them */
    void (*range)(Device *, const char *name); /* for tools: what the thread issues from now on has this name; NULL: no more */
    int64_t (*launches)(const Device *, double *seconds); /* of the lane comp so far, and the host's time in them */
    void *(*locked)(Machine *, int64_t bytes);           /* zeroed host memory that uploads may read; ends the program */
    void (*unlock)(Machine *, void *);
    void (*achieved)(Machine *, const char *);           /* what the program has done: calls that fail from now on say it, too */
} AheadKind;

typedef struct DeviceKind {
    const char *name; /* "host": a plan names it */
    const AheadKind *ahead;                            /* NULL: it does what it is told before it returns */
    Machine *(*find)(const char *wanted, const mgpu_program *, const mgpu_plan *, Processes *); /* of --devices, or NULL; ends the program if there are none */
    void (*leave)(Machine *);
    Device *(*begin)(const DevicePlan *);              /* what takes long and takes no memory of the arena: all devices at the same time; NULL: nothing */
    /* one after the other; memory is zeroed, aligned to 64 bytes and allocated once; NULL: there is not enough */
    Device *(*open)(const DevicePlan *);
    void (*close)(Device *);
    int64_t (*arena_bytes)(const Device *);            /* allocated: the arena, and the workspaces of threads 1, 2, ... */
    uint8_t *(*arena)(Device *);                       /* as kernels see it */
    uint8_t *(*staging)(Device *);                     /* host memory */
    void (*copy_in)(Device *, int64_t offset, const void *from, int64_t bytes);  /* host -> arena */
    void (*copy_out)(Device *, int lane, void *to, int64_t offset, int64_t bytes); /* arena -> host; lane: whose, -1: none's */
    Collective *(*connect)(Machine *, Device **, const mgpu_plan *, Processes *, Collective *beside); /* NULL: of the lane comm; else of sync, beside that */
    /* Before a region runs for the first time: fills in library[i] for op i. Many regions, then `ready`. */
    void (*prepare)(Device *, const mgpu_kernel *kernels, const mgpu_op *const *ops, int count, void **library);
    void (*ready)(Device *);
    void (*settled)(Device *);                         /* many steps have run: what pays in the long run only */
    const char *(*library_name)(const Device *);       /* "oneDNN 2.6.3"; or why there is none */
    int64_t (*library_bytes)(const Device *);          /* allocated besides, for transfers and libraries */
    void (*run)(Device *, DeviceStrip *, const mgpu_op **now); /* now[thread]: the operation that it is at */
} DeviceKind;
#endif
