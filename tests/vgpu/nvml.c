/* nvml.c: libnvidia-ml.so.1 for virtual GPUs: all of the machine, in the order of the bus; of one that is divided into slices,
 * one. */
#include "runtime/cuda/nvml.h"
#include "tests/vgpu/vgpu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PROTOTYPE(result, symbol, field, parameters) VGPU_API result symbol parameters;
NVML_FUNCTIONS(PROTOTYPE)
#undef PROTOTYPE

enum { NOT_INITIALISED = 1, INVALID_ARGUMENT = 2 };
struct nvmlDevice_st {
    VirtualDevice *device;
};
static struct nvmlDevice_st devices[VGPU_DEVICES];
static unsigned count_of_gpus;
static bool initialised;

static nvmlReturn_t enter(const char *call)
{
    pthread_mutex_lock(&vgpu_lock);
    int error = vgpu_fault(call);
    return error ? error : initialised ? NVML_SUCCESS : NOT_INITIALISED;
}

static nvmlReturn_t leave(nvmlReturn_t r)
{
    pthread_mutex_unlock(&vgpu_lock);
    return r;
}

static int by_bus(const void *a, const void *b)
{
    return strcmp(((const struct nvmlDevice_st *)a)->device->bus, ((const struct nvmlDevice_st *)b)->device->bus);
}

nvmlReturn_t nvmlInit_v2(void)
{
    pthread_mutex_lock(&vgpu_lock);
    vgpu_read_machine();
    initialised = true;
    for (int d = 0; d < vgpu_machine.count; d++)
        devices[d].device = &vgpu_machine.device[d];
    qsort(devices, (size_t)vgpu_machine.count, sizeof *devices, by_bus);
    count_of_gpus = 0;
    for (int d = 0; d < vgpu_machine.count; d++) /* slices of one GPU are one */
        if (d == 0 || !devices[d].device->slice || by_bus(&devices[d], &devices[d - 1]) != 0)
            devices[count_of_gpus++] = devices[d];
    return leave(vgpu_fault("nvmlInit"));
}

nvmlReturn_t nvmlShutdown(void)
{
    nvmlReturn_t r = enter("nvmlShutdown");
    initialised = false;
    return leave(r);
}

const char *nvmlErrorString(nvmlReturn_t result)
{
    return result == NVML_SUCCESS               ? "The operation was successful"
           : result == NOT_INITIALISED          ? "Uninitialized"
           : result == NVML_ERROR_NO_PERMISSION ? "Insufficient Permissions"
                                                : "Unknown Error";
}

nvmlReturn_t nvmlDeviceGetCount_v2(unsigned *count)
{
    nvmlReturn_t r = enter("nvmlDeviceGetCount");
    *count = count_of_gpus;
    return leave(r);
}

nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned index, nvmlDevice_t *device)
{
    nvmlReturn_t r = enter("nvmlDeviceGetHandleByIndex");
    if (index < count_of_gpus)
        *device = &devices[index];
    return leave(r ? r : index < count_of_gpus ? NVML_SUCCESS : INVALID_ARGUMENT);
}

nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char *name, unsigned room)
{
    nvmlReturn_t r = enter("nvmlDeviceGetName");
    snprintf(name, room, "%s", device->device->name);
    return leave(r);
}

nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char *uuid, unsigned room)
{
    nvmlReturn_t r = enter("nvmlDeviceGetUUID");
    const unsigned char *b = (const unsigned char *)device->device->uuid.bytes;
    snprintf(uuid, room, "GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", b[0], b[1], b[2], b[3], b[4],
             b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12], b[13], b[14], b[15]);
    return leave(r);
}

nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t *info)
{
    nvmlReturn_t r = enter("nvmlDeviceGetPciInfo");
    *info = (nvmlPciInfo_t){0};
    sscanf(device->device->bus, "%x:%x:%x", &info->domain, &info->bus, &info->device);
    snprintf(info->busIdLegacy, sizeof info->busIdLegacy, "%04x:%02x:%02x.0", info->domain & 0xFFFF, info->bus & 0xFF,
             info->device & 0xFF);
    snprintf(info->busId, sizeof info->busId, "%08x:%02x:%02x.0", info->domain, info->bus & 0xFF, info->device & 0xFF);
    return leave(r);
}

nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory)
{
    nvmlReturn_t r = enter("nvmlDeviceGetMemoryInfo");
    const VirtualDevice *d = device->device;
    *memory = (nvmlMemory_t){d->memory, d->memory - d->used, d->used};
    return leave(r);
}

nvmlReturn_t nvmlDeviceGetCudaComputeCapability(nvmlDevice_t device, int *major, int *minor)
{
    nvmlReturn_t r = enter("nvmlDeviceGetCudaComputeCapability");
    *major = device->device->major;
    *minor = device->device->minor;
    return leave(r);
}

nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t device, unsigned *mode, unsigned *pending)
{
    nvmlReturn_t r = enter("nvmlDeviceGetMigMode");
    *mode = *pending = device->device->slice;
    return leave(r ? r : device->device->slice ? NVML_SUCCESS : NVML_ERROR_NOT_SUPPORTED);
}
