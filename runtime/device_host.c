/* device_host.c: a device that is a part of this machine's memory and runs kernels on its cores. */
#include "runtime/device.h"

#include <stdlib.h>
#include <string.h>

enum { ALIGNMENT = 64, HUGE_PAGE = 2 << 20 };

struct Device {
    int64_t arena_bytes;
    uint8_t *arena, *staging;
};

/* large blocks begin at a huge page, so that the kernel may back them with some */
static uint8_t *zeroed(int64_t bytes)
{
    size_t alignment = bytes >= HUGE_PAGE ? HUGE_PAGE : ALIGNMENT;
    void *p = NULL;
    if (posix_memalign(&p, alignment, bytes > 0 ? (size_t)bytes : ALIGNMENT) != 0)
        return NULL;
    memset(p, 0, bytes > 0 ? (size_t)bytes : ALIGNMENT);
    return p;
}

static void host_close(Device *d)
{
    free(d->arena);
    free(d->staging);
    free(d);
}

static Device *host_open(int number, int64_t arena_bytes, int64_t staging_bytes)
{
    (void)number;
    Device *d = calloc(1, sizeof *d);
    if (!d)
        return NULL;
    d->arena_bytes = arena_bytes;
    d->arena = zeroed(arena_bytes);
    d->staging = zeroed(staging_bytes);
    if (!d->arena || !d->staging) {
        host_close(d);
        return NULL;
    }
    return d;
}

static int64_t host_arena_bytes(const Device *d)
{
    return d->arena_bytes;
}

static uint8_t *host_arena(Device *d)
{
    return d->arena;
}

static uint8_t *host_staging(Device *d)
{
    return d->staging;
}

static void host_copy_in(Device *d, int64_t offset, const void *from, int64_t bytes)
{
    memcpy(d->arena + offset, from, (size_t)bytes);
}

static void host_copy_out(Device *d, void *to, int64_t offset, int64_t bytes)
{
    memcpy(to, d->arena + offset, (size_t)bytes);
}

static void host_call(Device *d, const mgpu_kernel *kernel, void *const *argument, const mgpu_step *step, int64_t samples)
{
    (void)d;
    kernel->run(argument, step, samples);
}

const DeviceKind mgpu_device_host = {"host",       host_open,    host_close,   host_arena_bytes, host_arena,
                                     host_staging, host_copy_in, host_copy_out, host_call};

const DeviceKind *mgpu_device_kind(const char *name)
{
    return strcmp(name, mgpu_device_host.name) == 0 ? &mgpu_device_host : NULL;
}
