/* nvml.h: the part of NVIDIA's management library (libnvidia-ml.so.1) that is used, declared here. Names and numbers are those of
 * nvml.h, which are stable (https://docs.nvidia.com/deploy/nvml-api/). It lists the GPUs of the machine in the order of
 * nvidia-smi, and creates no context. NVML_FUNCTIONS lists all functions. */
#ifndef MGPU_NVML_H
#define MGPU_NVML_H

#include <stddef.h>

typedef int nvmlReturn_t;
typedef struct nvmlDevice_st *nvmlDevice_t;
typedef struct nvmlMemory_t {
    unsigned long long total, free, used;
} nvmlMemory_t; /* bytes */
typedef struct nvmlPciInfo_t {
    char busIdLegacy[16];
    unsigned domain, bus, device, pciDeviceId, pciSubSystemId;
    char busId[32]; /* "00000000:65:00.0" */
} nvmlPciInfo_t;
enum { NVML_SUCCESS = 0, NVML_ERROR_NOT_SUPPORTED = 3, NVML_ERROR_NO_PERMISSION = 4 };

/* X(result, symbol in the library, field of the table, parameters) */
/* clang-format off */
#define NVML_FUNCTIONS(X)                                                                                              \
    X(nvmlReturn_t, nvmlInit_v2, init, (void))                                                                         \
    X(nvmlReturn_t, nvmlShutdown, shutdown, (void))                                                                    \
    X(const char *, nvmlErrorString, error_string, (nvmlReturn_t result))                                              \
    X(nvmlReturn_t, nvmlDeviceGetCount_v2, device_get_count, (unsigned *count))                                        \
    X(nvmlReturn_t, nvmlDeviceGetHandleByIndex_v2, device_get_handle, (unsigned index, nvmlDevice_t *device))          \
    X(nvmlReturn_t, nvmlDeviceGetName, device_get_name, (nvmlDevice_t device, char *name, unsigned capacity))              \
    X(nvmlReturn_t, nvmlDeviceGetUUID, device_get_uuid, (nvmlDevice_t device, char *uuid, unsigned capacity))              \
    X(nvmlReturn_t, nvmlDeviceGetPciInfo_v3, device_get_pci_info, (nvmlDevice_t device, nvmlPciInfo_t *info))          \
    X(nvmlReturn_t, nvmlDeviceGetMemoryInfo, device_get_memory_info, (nvmlDevice_t device, nvmlMemory_t *memory))      \
    X(nvmlReturn_t, nvmlDeviceGetCudaComputeCapability, device_get_capability, (nvmlDevice_t device, int *major, int *minor))\
    X(nvmlReturn_t, nvmlDeviceGetMigMode, device_get_mig_mode, (nvmlDevice_t device, unsigned *current, unsigned *pending))
/* clang-format on */
#endif
