/* driver.c: the functions of libcuda.so.1 that runtime/cuda/driver.h lists, for devices, contexts, memory and modules. Each
 * takes the lock, answers what the machine file or an earlier failure says it must, and does its part. */
#include "tests/vgpu/driver.h"
#include "tests/vgpu/graph.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static bool initialised;
static _Thread_local CUcontext current;

/* ---- entering and leaving */

/* threads of the host come in another order, too, where the machine file asks for it */
static void lock(void)
{
    pthread_mutex_lock(&vgpu_lock);
    if (vgpu_machine.delay <= 0 || vgpu_random() % 8)
        return;
    double delay = vgpu_machine.delay * (double)(vgpu_random() % 1000) / 1000;
    pthread_mutex_unlock(&vgpu_lock);
    nanosleep(&(struct timespec){(time_t)delay, (long)(1e9 * (delay - (double)(time_t)delay))}, NULL);
    pthread_mutex_lock(&vgpu_lock);
}

CUresult vgpu_enter_any(const char *call)
{
    if (vgpu_in_host_function)
        return CUDA_ERROR_NOT_PERMITTED;
    lock();
    int error = vgpu_fault(call);
    return error ? error : initialised ? CUDA_SUCCESS : CUDA_ERROR_NOT_INITIALIZED;
}

CUresult vgpu_failure(const VirtualDevice *d) { return d->failed; }

/* for calls that need a context */
CUresult vgpu_enter(const char *call)
{
    CUresult r = vgpu_enter_any(call);
    r = r                                ? r
        : !current                       ? CUDA_ERROR_INVALID_CONTEXT
        : current->device->retained <= 0 ? VGPU_ERROR_CONTEXT_IS_DESTROYED
                                         : vgpu_failure(current->device);
    return r ? r : vgpu_check_capture(call);
}

CUresult vgpu_leave(CUresult r)
{
    if (!vgpu_in_host_function)
        pthread_mutex_unlock(&vgpu_lock);
    return r == VGPU_FORGOTTEN ? CUDA_SUCCESS : r;
}

CUcontext vgpu_current(void) { return current; }

static VirtualDevice *device_at(CUdevice d)
{
    return d >= 0 && d < vgpu_machine.visible_count ? &vgpu_machine.device[vgpu_machine.visible[d]] : NULL;
}

/* ---- the library and its devices */

static CUresult init(void)
{
    vgpu_read_machine();
    initialised = true;
    int error = vgpu_fault("cuInit");
    return error ? error : vgpu_machine.visible_count ? CUDA_SUCCESS : CUDA_ERROR_NO_DEVICE;
}

CUresult cuInit(unsigned flags)
{
    pthread_mutex_lock(&vgpu_lock);
    return vgpu_leave(flags ? CUDA_ERROR_INVALID_VALUE : init());
}

CUresult cuDriverGetVersion(int *version)
{
    vgpu_read_machine(); /* it may be asked before cuInit */
    CUresult r = vgpu_enter_any("cuDriverGetVersion");
    *version = vgpu_machine.version;
    return vgpu_leave(r);
}

/* who asks for the words of success, as some do who print them only if there is something to print, meets no fault */
CUresult cuGetErrorName(CUresult error, const char **text)
{
    CUresult r = vgpu_enter_any(error ? "cuGetErrorName" : "");
    *text = r ? NULL : error == CUDA_SUCCESS ? "CUDA_SUCCESS" : vgpu_error_name(error);
    return vgpu_leave(r ? r : *text ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
}

CUresult cuGetErrorString(CUresult error, const char **text)
{
    const char *name = vgpu_error_name(error);
    char words[80];
    *text = NULL;
    if (error != CUDA_SUCCESS && !name)
        return CUDA_ERROR_INVALID_VALUE;
    snprintf(words, sizeof words, "%s", name ? name + strlen("CUDA_ERROR_") : "no error");
    for (char *at = words; *at; at++)
        *at = *at == '_' ? ' ' : (char)(*at >= 'A' && *at <= 'Z' ? *at + 32 : *at);
    CUresult r = vgpu_enter_any(error ? "cuGetErrorString" : "");
    *text = r ? NULL : vgpu_keep(words);
    return vgpu_leave(r);
}

CUresult cuDeviceGetCount(int *count)
{
    CUresult r = vgpu_enter_any("cuDeviceGetCount");
    *count = vgpu_machine.visible_count;
    return vgpu_leave(r);
}

CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
    CUresult r = vgpu_enter_any("cuDeviceGet");
    *device = ordinal;
    return vgpu_leave(r ? r : device_at(ordinal) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE);
}

static CUresult of_device(const char *call, CUdevice number, VirtualDevice **d)
{
    CUresult r = vgpu_enter_any(call);
    *d = device_at(number);
    return r ? r : *d ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

CUresult cuDeviceGetName(char *name, int room, CUdevice device)
{
    VirtualDevice *d;
    CUresult r = of_device("cuDeviceGetName", device, &d);
    if (r == CUDA_SUCCESS)
        snprintf(name, (size_t)room, "%s", d->name);
    return vgpu_leave(r);
}

CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice device)
{
    VirtualDevice *d;
    CUresult r = of_device("cuDeviceGetUuid", device, &d);
    if (r == CUDA_SUCCESS)
        *uuid = d->uuid;
    return vgpu_leave(r);
}

/* of the GPU that a slice is of */
CUresult cuDeviceGetUuid(CUuuid *uuid, CUdevice device)
{
    VirtualDevice *d;
    CUresult r = of_device("cuDeviceGetUuid", device, &d);
    if (r == CUDA_SUCCESS)
        *uuid = d->uuid;
    for (size_t i = 0; r == CUDA_SUCCESS && d->slice && i < sizeof uuid->bytes; i++)
        uuid->bytes[i] = i < strlen(d->bus) ? d->bus[i] : 0;
    return vgpu_leave(r);
}

CUresult cuDeviceGetPCIBusId(char *text, int room, CUdevice device)
{
    VirtualDevice *d;
    CUresult r = of_device("cuDeviceGetPCIBusId", device, &d);
    if (r == CUDA_SUCCESS)
        snprintf(text, (size_t)room, "%s", d->bus);
    return vgpu_leave(r);
}

CUresult cuDeviceGetAttribute(int *value, int attribute, CUdevice device)
{
    VirtualDevice *d;
    CUresult r = of_device("cuDeviceGetAttribute", device, &d);
    if (r != CUDA_SUCCESS)
        return vgpu_leave(r);
    switch (attribute) {
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT: *value = d->multiprocessors; break;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR: *value = d->major; break;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR: *value = d->minor; break;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN: *value = (int)vgpu_most_shared(d); break;
    default: r = CUDA_ERROR_INVALID_VALUE;
    }
    return vgpu_leave(r);
}

CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device)
{
    VirtualDevice *d;
    CUresult r = of_device("cuDeviceTotalMem", device, &d);
    if (r == CUDA_SUCCESS)
        *bytes = d->memory;
    return vgpu_leave(r);
}

/* ---- contexts */

CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device)
{
    VirtualDevice *d;
    vgpu_take_time("cuDevicePrimaryCtxRetain");
    CUresult r = of_device("cuDevicePrimaryCtxRetain", device, &d);
    if (r == CUDA_SUCCESS && !d->context) {
        d->context = calloc(1, sizeof *d->context);
        d->context->device = d;
    }
    if (r == CUDA_SUCCESS) {
        d->retained++;
        *context = d->context;
    }
    return vgpu_leave(r);
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device)
{
    VirtualDevice *d;
    CUresult r = of_device("cuDevicePrimaryCtxRelease", device, &d);
    if (r == CUDA_SUCCESS && --d->retained < 0)
        r = CUDA_ERROR_INVALID_CONTEXT;
    return vgpu_leave(r);
}

CUresult cuCtxSetCurrent(CUcontext context)
{
    CUresult r = vgpu_enter_any("cuCtxSetCurrent");
    if (r == CUDA_SUCCESS)
        current = context;
    return vgpu_leave(r);
}

CUresult cuDeviceCanAccessPeer(int *can, CUdevice device, CUdevice peer)
{
    VirtualDevice *d, *p = device_at(peer);
    CUresult r = of_device("cuDeviceCanAccessPeer", device, &d);
    if (r == CUDA_SUCCESS && !p)
        r = CUDA_ERROR_INVALID_DEVICE;
    if (r == CUDA_SUCCESS)
        *can = d != p && d->link[p->number] > 0;
    return vgpu_leave(r);
}

static CUresult enable_peer(CUcontext peer)
{
    VirtualDevice *d = current->device;
    if (!peer || peer == current)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (d->link[peer->device->number] <= 0)
        return 217; /* CUDA_ERROR_PEER_ACCESS_UNSUPPORTED */
    if (d->peer[peer->device->number])
        return CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
    int others = 0;
    for (int i = 0; i < VGPU_DEVICES; i++)
        others += d->peer[i];
    if (vgpu_machine.peers && others >= vgpu_machine.peers)
        return CUDA_ERROR_TOO_MANY_PEERS;
    d->peer[peer->device->number] = true;
    return CUDA_SUCCESS;
}

CUresult cuCtxEnablePeerAccess(CUcontext peer, unsigned flags)
{
    CUresult r = vgpu_enter("cuCtxEnablePeerAccess");
    return vgpu_leave(r ? r : flags ? CUDA_ERROR_INVALID_VALUE : enable_peer(peer));
}

CUresult cuCtxDisablePeerAccess(CUcontext peer)
{
    CUresult r = vgpu_enter("cuCtxDisablePeerAccess");
    r = r                                                    ? r
        : !peer                                              ? CUDA_ERROR_INVALID_CONTEXT
        : vgpu_current()->device->peer[peer->device->number] ? CUDA_SUCCESS
                                                             : 705 /* CUDA_ERROR_PEER_ACCESS_NOT_ENABLED */;
    if (r == CUDA_SUCCESS)
        vgpu_current()->device->peer[peer->device->number] = false;
    return vgpu_leave(r);
}

/* ---- memory */

CUresult cuMemGetInfo_v2(size_t *free_bytes, size_t *total_bytes)
{
    CUresult r = vgpu_enter("cuMemGetInfo");
    if (r == CUDA_SUCCESS) {
        *total_bytes = current->device->memory;
        *free_bytes = current->device->memory - current->device->used;
    }
    return vgpu_leave(r);
}

CUresult cuMemAlloc_v2(CUdeviceptr *memory, size_t bytes)
{
    CUresult r = vgpu_enter("cuMemAlloc");
    uintptr_t address = 0;
    r = r ? r : vgpu_allocate(current->device, bytes, &address);
    if (r == CUDA_SUCCESS)
        *memory = address;
    return vgpu_leave(r);
}

/* the driver waits for all that may use it */
static CUresult free_memory(uintptr_t address, bool host)
{
    for (VirtualDevice *d = vgpu_machine.device; d < vgpu_machine.device + vgpu_machine.count; d++)
        if (!vgpu_finish_device(d))
            return d->failed;
    return vgpu_free(address, host);
}

CUresult cuMemFree_v2(CUdeviceptr memory)
{
    CUresult r = vgpu_enter("cuMemFree");
    const Allocation *a = r ? NULL : vgpu_find((uintptr_t)memory);
    return vgpu_leave(r ? r : a && a->mapped_apart ? CUDA_ERROR_INVALID_VALUE : free_memory((uintptr_t)memory, false));
}

CUresult cuMemHostAlloc(void **memory, size_t bytes, unsigned flags)
{
    CUresult r = vgpu_enter("cuMemHostAlloc");
    return vgpu_leave(r                                                  ? r
                      : flags > 7 /* portable, mapped, write-combined */ ? CUDA_ERROR_INVALID_VALUE
                                                                         : vgpu_allocate_host(bytes, memory));
}

CUresult cuMemFreeHost(void *memory)
{
    CUresult r = vgpu_enter("cuMemFreeHost");
    return vgpu_leave(r ? r : free_memory((uintptr_t)memory, true));
}

/* ---- modules */

CUresult cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned option_count, int *options, void **values)
{
    vgpu_take_time("cuModuleLoadDataEx");
    CUresult r = vgpu_enter("cuModuleLoadDataEx");
    char *log = NULL, none[1];
    size_t room = 0;
    for (unsigned k = 0; k < option_count; k++) {
        log = options[k] == CU_JIT_ERROR_LOG_BUFFER ? values[k] : log;
        room = options[k] == CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES ? (size_t)(uintptr_t)values[k] : room;
    }
    return vgpu_leave(r ? r : vgpu_load_module(current, image, module, log ? log : none, log ? room : sizeof none));
}

CUresult cuModuleUnload(CUmodule module)
{
    CUresult r = vgpu_enter("cuModuleUnload");
    r = r ? r : module ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
    if (r == CUDA_SUCCESS) {
        vgpu_finish_device(module->context->device);
        vgpu_unload_module(module);
    }
    return vgpu_leave(r);
}

CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name)
{
    CUresult r = vgpu_enter("cuModuleGetFunction");
    return vgpu_leave(r ? r : !module ? CUDA_ERROR_INVALID_HANDLE : vgpu_find_function(module, name, function));
}

CUresult cuFuncGetAttribute(int *value, int attribute, CUfunction function)
{
    CUresult r = vgpu_enter("cuFuncGetAttribute");
    r = r || function ? r : CUDA_ERROR_INVALID_HANDLE;
    if (r != CUDA_SUCCESS)
        return vgpu_leave(r);
    switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK: *value = vgpu_most_threads(function); break;
    case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES: *value = (int)function->static_shared; break;
    case VGPU_FUNC_ATTRIBUTE_NUM_REGS: *value = function->registers; break;
    default: r = CUDA_ERROR_INVALID_VALUE;
    }
    return vgpu_leave(r);
}

/* "The sum of this value and the function attribute sharedSizeBytes cannot exceed the device attribute
 * cudaDevAttrMaxSharedMemoryPerBlockOptin" (CUDA Runtime API, cudaFuncSetAttribute) */
CUresult cuFuncSetAttribute(CUfunction function, int attribute, int value)
{
    CUresult r = vgpu_enter("cuFuncSetAttribute");
    bool right = function && attribute == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES && value >= 0 &&
                 function->static_shared + (size_t)value <= vgpu_most_shared(function->module->context->device);
    r = r ? r : right ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    if (r == CUDA_SUCCESS)
        function->most_shared = (size_t)value;
    return vgpu_leave(r);
}
