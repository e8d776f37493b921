/* process_gpus.c: chooses the GPUs of a process. In: those that the driver shows to it; out: one for each of its devices.
 *
 * If --devices names GPUs, device d uses the named one, on the host of its process. Otherwise, processes to which the same GPUs
 * are shown are on one host, and divide them in the order of their ranks. A launcher may also show different GPUs to each process
 * (CUDA_VISIBLE_DEVICES); then each uses the first ones that it sees. */
#include "runtime/base/base.h"
#include "runtime/cuda/device_cuda.h"
#include "runtime/engine/processes.h"

#include <stdlib.h>
#include <string.h>

static uint64_t digest_of(const GpuList *list)
{
    uint64_t hash = 14695981039346656037u; /* FNV-1a */
    for (int i = 0; i < list->count; i++)
        for (const char *at = list->gpus[i].uuid; *at; at++)
            hash = (hash ^ (uint8_t)*at) * 1099511628211u;
    return hash;
}

/* Returns how many of the GPUs are used by lower ranks. */
static int taken_before(Processes *p, const GpuList *list, int devices)
{
    uint64_t *digest = mgpu_allocate((size_t)p->count, sizeof *digest);
    int taken = 0;
    digest[p->rank] = digest_of(list);
    mgpu_gather_each(p, digest, sizeof *digest);
    for (int r = 0; r < p->rank; r++)
        taken += digest[r] == digest[p->rank] ? mgpu_first_device(p, devices, r + 1) - mgpu_first_device(p, devices, r) : 0;
    free(digest);
    return taken;
}

typedef struct Name {
    char uuid[sizeof((Gpu *)0)->uuid];
} Name;

static int by_name(const void *a, const void *b) { return strcmp(((const Name *)a)->uuid, ((const Name *)b)->uuid); }

/* Returns true if two devices of the plan share a GPU. */
static bool share(const DeviceSet *m, Processes *p)
{
    Name *names = mgpu_allocate((size_t)m->count, sizeof *names);
    bool any = false;
    for (int d = m->local.first; d < m->local.end; d++)
        memcpy(names[d].uuid, m->gpu[d]->uuid, sizeof names[d].uuid);
    if (p)
        mgpu_gather_devices(p, names, sizeof *names, m->count);
    qsort(names, (size_t)m->count, sizeof *names, by_name);
    for (int d = 1; d < m->count; d++)
        any = any || by_name(&names[d - 1], &names[d]) == 0;
    free(names);
    return any;
}

void mgpu_choose_gpus(DeviceSet *m, const DeviceList *named, Processes *p)
{
    int place = p && !named->gpus ? taken_before(p, &m->list, m->count) : 0;
    m->local = mgpu_local_devices(p, m->count);
    mgpu_select_gpus(&m->list, named, m->local.first, m->local.end, place, m->gpu);
    m->shared = share(m, p);
}
