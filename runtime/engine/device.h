/* device.h: the interface of a kind of device: an arena, staging memory on the host, kernels and copies, as a table of functions.
 * Lanes, events and the order of operations are the engine's. */
#ifndef MGPU_ENGINE_DEVICE_H
#define MGPU_ENGINE_DEVICE_H

#include "runtime/abi/mgpu.h"
#include "runtime/engine/pool.h"

typedef struct Device Device;
typedef struct DeviceSet DeviceSet;      /* shared state of the devices of a plan, defined by each kind */
typedef struct Collective Collective;    /* collective.h */
typedef struct mgpu_processes Processes; /* processes.h */
typedef struct DevicePlan {
    const mgpu_program *program;
    const mgpu_plan *plan;
    const mgpu_device *device;
    const PoolPlan *pool;
    DeviceSet *machine;
    int number;
    bool tune; /* times the alternatives that a library offers (--tune) */
    /* names the lane's current operation (lane -1: none) and ends the program */
    __attribute__((noreturn)) void (*fail)(void *context, int lane, const char *what);
    /* Ends the program if an operation issued earlier has failed. error: the driver's name of the error; call: what returned
     * it. */
    void (*fail_async)(void *context, const char *error, const char *call);
    void (*stage)(void *context, const char *what); /* while devices are opened: what may hang from now on */
    void *context;
    _Atomic int64_t *returned; /* counts calls of the driver that have returned */
    Device *begun;             /* what `begin` returned, if there is one */
} DevicePlan;
typedef struct DeviceCall {    /* of a kernel */
    const mgpu_kernel *kernel; /* host devices only */
    const mgpu_op *op;
    void **argument; /* for thread 0 */
    /* [argument]: 0: shared by all threads; -1: each thread has its own; > 0: each thread has its own for a chunk of samples, of
     * so many bytes per sample. Of kernels that sum samples: -1 - b: shared, b bytes per sample */
    int64_t *each;
    int arguments;
    bool per_thread; /* some `each` is not 0 */
    void *library;   /* what `prepare` returned for the operation */
    uint8_t *terms;  /* of kernels that sum samples: room for the results of each virtual shard */
    double seconds;  /* if the region is observed: the time on thread 0, or on the thread that did all of it */
} DeviceCall;
typedef struct DeviceRegion { /* calls without a barrier between them */
    DeviceCall *calls;
    int count;
    const mgpu_step *step;
    bool launch_timed; /* fill in launch_s: the time in which no thread worked while threads started and ended */
    double launch_s;
    int64_t samples; /* samples to compute: the device's valid ones; 0: its full capacity */
    bool one_thread; /* thread 0 does all of it, as there is too little work for several */
    /* 1 + elements of the device's part of split values, which calls process in place of samples; 0: samples */
    int64_t split_elements;
    int64_t chunk; /* samples that a thread takes through all calls at a time; 0: all of its samples */
    /* NULL, or called after each call with the thread's arguments, for samples [begin, end) */
    void (*audit)(const void *context, const mgpu_op *, void *const *argument, int64_t begin, int64_t end);
    /* NULL, or called by the thread after each part of a call; calls[].seconds are then filled in */
    void (*observe)(void *context, int thread, const mgpu_op *, double began, double ended);
    void *context;
} DeviceRegion;

/* bytes [begin, end) of the arena, and their buffer */
typedef struct DeviceRange {
    int64_t begin, end;
    bool writes;
    const char *name;
} DeviceRange;

/* Asynchronous devices: each of the lanes comp, copy, comm and sync issues to a stream, which executes in order, later. Events
 * are those of streams. Functions return at once except those that wait. */
typedef struct AsyncKind {
    void (*create_events)(Device *, int count);
    /* records the event after all work issued to the lane; within: only operations of the same graph wait for it */
    void (*record_event)(Device *, int lane, int event, bool within);
    void (*wait_event)(Device *, int lane, int record_event); /* later work of the lane waits for the event */
    /* Makes the stream write `value` to memory that the host can read even if the device has failed. Within a graph, `value` is
     * that of `launch`. */
    void (*write_step)(Device *, int lane, int event, uint32_t value);
    uint32_t (*written_step)(const Device *, int record_event); /* the last value written; at first 0 */
    bool (*writes_steps)(const Device *); /* false: the driver cannot do that, and `write_step` does nothing */
    int64_t (*available)(Device *);       /* bytes of free device memory */
    bool (*failed)(Device *);             /* the device has failed for good: no call succeeds any more */
    /* waits for the event; NULL, or the error of an operation before it */
    const char *(*wait_on_host)(Device *, int event, char text[400]);
    /* Enclose an operation that is executed synchronously: `begin` waits until the device is idle, `finish` waits until the lane
     * has completed, and fails with it. */
    void (*begin)(Device *);
    void (*finish)(Device *, int lane);
    /* lane copy; from: memory of `locked` or staging */
    void (*upload)(Device *, int64_t offset, const void *from, int64_t bytes);
    /* Lane comp: one call, or those of a region. follows: nothing was issued to the lane since the previous call. Returns false
     * if the next call computes this one, too. */
    bool (*call)(Device *, const DeviceCall *, int count, const mgpu_step *, bool follows);
    /* Captures what is issued to the lane comp as a graph. transfers: also what is issued to comm, which forks from and joins
     * comp. */
    void (*begin_segment)(Device *, bool transfers);
    void *(*end_segment)(Device *);
    void (*launch)(Device *, void *segment, uint32_t value); /* launches a captured graph; value: that it writes */
    void (*free_segment)(Device *, void *segment);
    bool (*checks)(const Device *); /* true if the device checks which memory operations touch, */
    /* as declared for the next work of the lane */
    void (*declare)(Device *, const mgpu_op *, const char *operation, const DeviceRange *, int count);
    /* What threads learn from a counter: `publish` is called just before it is raised, `wait_for_counter` just after it has been
     * waited for. */
    void (*publish)(DeviceSet *, const void *counter, int64_t value);
    void (*waited_for)(DeviceSet *, const void *counter, int64_t at_least);
    void (*clock)(Device *, int lane, int number);           /* records timing event `number` (0, 1, ... of each lane) */
    double (*seconds)(Device *, int lane, int from, int to); /* between two timing events; waits for them */
    void (*range)(Device *, const char *name);               /* for profilers: names what the thread issues; NULL: ends that */
    int64_t (*launches)(const Device *, double *seconds);    /* of the lane comp so far, and the host's time in them */
    void *(*locked)(DeviceSet *, int64_t bytes);             /* zeroed pinned memory for uploads; ends the program on failure */
    void (*unlock)(DeviceSet *, void *);
    /* what the program has achieved, for messages of calls that fail from now on */
    void (*achieved)(DeviceSet *, const char *);
} AsyncKind;

typedef struct DeviceKind {
    const char *name;       /* as plans name it: "host" */
    const AsyncKind *async; /* NULL: operations have completed when functions return */
    /* wanted: --devices, or NULL; ends the program if there are none */
    DeviceSet *(*find)(const char *wanted, const mgpu_program *, const mgpu_plan *, Processes *);
    void (*leave)(DeviceSet *);
    /* the slow part of opening that needs no arena, on all devices at once; NULL: there is none */
    Device *(*begin)(const DevicePlan *);
    /* Called for one device after the other. Memory is zeroed, aligned to 64 bytes and allocated once. NULL: there is not
     * enough. */
    Device *(*open)(const DevicePlan *);
    void (*close)(Device *);
    int64_t (*arena_bytes)(const Device *); /* of the arena, and the workspaces of threads 1, 2, ... */
    uint8_t *(*arena)(Device *);            /* the address in kernels */
    uint8_t *(*staging)(Device *);          /* on the host */
    void (*copy_in)(Device *, int64_t offset, const void *from, int64_t bytes); /* host -> arena */
    /* arena -> host; lane: the one that copies, or -1 */
    void (*copy_out)(Device *, int lane, void *to, int64_t offset, int64_t bytes);
    /* beside NULL: for lane comm; else the collective of comm, with which that of sync shares links */
    Collective *(*connect)(DeviceSet *, Device **, const mgpu_plan *, Processes *, Collective *beside);
    /* Called before a region runs for the first time: sets library[i] for operation i. `ready` is called after the last
     * region. */
    void (*prepare)(Device *, const mgpu_kernel *kernels, const mgpu_op *const *ops, int count, void **library);
    void (*ready)(Device *);
    void (*settled)(Device *);                   /* called after many steps, for optimizations that pay only in the long run */
    const char *(*library_name)(const Device *); /* "oneDNN 2.6.3", or why there is none */
    int64_t (*library_bytes)(const Device *);    /* allocated outside the arena, for transfers and libraries */
    void (*run)(Device *, DeviceRegion *, const mgpu_op **now); /* now[thread]: the operation that the thread executes */
} DeviceKind;
#endif
