/* device.h: a device is an arena, staging memory on the host, kernels and copies, behind one small table of functions
 * per kind of device. Lanes, events and the order of things are the engine's. */
#ifndef MGPU_DEVICE_H
#define MGPU_DEVICE_H

#include "runtime/mgpu.h"
#include "runtime/team.h"

typedef struct Device Device;
typedef struct DeviceCall {    /* of a kernel */
    const mgpu_kernel *kernel;
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
    int64_t chunk;             /* samples that a thread takes through all calls at a time; 0: all that it has */
} DeviceStrip;
typedef struct DeviceKind {
    const char *name; /* "host": a plan names it */
    /* memory is zeroed, aligned to 64 bytes and allocated once; NULL: there is not enough */
    Device *(*open)(const mgpu_device *, const TeamPlan *);
    void (*close)(Device *);
    int64_t (*arena_bytes)(const Device *);            /* allocated: the arena, and the workspaces of threads 1, 2, ... */
    uint8_t *(*arena)(Device *);                       /* as kernels see it */
    uint8_t *(*staging)(Device *);                     /* host memory */
    void (*copy_in)(Device *, int64_t offset, const void *from, int64_t bytes);  /* host -> arena */
    void (*copy_out)(Device *, void *to, int64_t offset, int64_t bytes);         /* arena -> host */
    /* Before a strip runs for the first time: fills in library[i] for op i. Many strips, then `ready`. */
    void (*prepare)(Device *, const mgpu_kernel *kernels, const mgpu_op *const *ops, int count, void **library);
    void (*ready)(Device *);
    void (*settled)(Device *);                         /* many steps have run: what pays in the long run only */
    const char *(*library_name)(const Device *);       /* "oneDNN 2.6.3"; or why there is none */
    int64_t (*library_bytes)(const Device *);          /* allocated besides, for libraries */
    void (*run)(Device *, DeviceStrip *, const mgpu_op **now); /* now[thread]: the operation that it is at */
} DeviceKind;

extern const DeviceKind mgpu_device_host;
const DeviceKind *mgpu_device_kind(const char *name); /* NULL: this program knows no such kind */
#endif
