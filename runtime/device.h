/* device.h: a device is an arena, staging memory on the host, kernels and copies, behind one small table of functions
 * per kind of device. Lanes, events and the order of things are the engine's. */
#ifndef MGPU_DEVICE_H
#define MGPU_DEVICE_H

#include "runtime/mgpu.h"

typedef struct Device Device;
typedef struct DeviceKind {
    const char *name; /* "host": a plan names it */
    /* memory is zeroed, aligned to 64 bytes and allocated once; NULL: there is not enough */
    Device *(*open)(int number, int64_t arena_bytes, int64_t staging_bytes);
    void (*close)(Device *);
    int64_t (*arena_bytes)(const Device *);            /* allocated */
    uint8_t *(*arena)(Device *);                       /* as kernels see it */
    uint8_t *(*staging)(Device *);                     /* host memory */
    void (*copy_in)(Device *, int64_t offset, const void *from, int64_t bytes);  /* host -> arena */
    void (*copy_out)(Device *, void *to, int64_t offset, int64_t bytes);         /* arena -> host */
    void (*call)(Device *, const mgpu_kernel *, void *const *argument, const mgpu_step *, int64_t samples);
} DeviceKind;

extern const DeviceKind mgpu_device_host;
const DeviceKind *mgpu_device_kind(const char *name); /* NULL: this program knows no such kind */
#endif
