/* nvml.c: lists the GPUs of the machine in the order of nvidia-smi, by NVIDIA's management library. It creates no context, so it
 * uses no memory of a GPU. */
#include "runtime/base/base.h"
#include "runtime/cuda/gpus.h"
#include "runtime/cuda/library.h"
#include "runtime/cuda/nvml.h"

#include <stdlib.h>

#define NVML_FIELD(result, symbol, field, parameters) result(*field) parameters;
typedef struct Nvml {
    NVML_FUNCTIONS(NVML_FIELD)
} Nvml;
#define NVML_SYMBOL(result, symbol, field, parameters) {#symbol, offsetof(Nvml, field), false},
static const CudaSymbol SYMBOLS[] = {NVML_FUNCTIONS(NVML_SYMBOL)};
static const CudaLibrary LIBRARY = {.name = "libnvidia-ml.so.1",
                                    .package = "NVIDIA's driver (on Debian the package libnvidia-ml1)",
                                    .symbols = SYMBOLS,
                                    .count = MGPU_COUNT(SYMBOLS)};

static nvmlReturn_t read_gpu(const Nvml *nvml, unsigned index, Gpu *g)
{
    nvmlDevice_t device;
    nvmlMemory_t memory;
    nvmlPciInfo_t pci;
    nvmlReturn_t result = nvml->device_get_handle(index, &device);
    if (result == NVML_SUCCESS)
        result = nvml->device_get_name(device, g->name, sizeof g->name);
    if (result == NVML_SUCCESS)
        result = nvml->device_get_uuid(device, g->uuid, sizeof g->uuid);
    if (result == NVML_SUCCESS)
        result = nvml->device_get_pci_info(device, &pci);
    if (result == NVML_SUCCESS)
        result = nvml->device_get_memory_info(device, &memory);
    if (result == NVML_SUCCESS)
        result = nvml->device_get_capability(device, &g->major, &g->minor);
    if (result != NVML_SUCCESS)
        return result;
    unsigned now = 0, later = 0;
    g->slice = nvml->device_get_mig_mode(device, &now, &later) == NVML_SUCCESS && now == 1;
    g->memory = (int64_t)memory.total;
    g->device = -1;
    mgpu_bus_text(pci.busId, g->bus);
    snprintf(g->place, sizeof g->place, "%s", g->bus);
    return NVML_SUCCESS;
}

char *mgpu_nvml_gpus(GpuList *list)
{
    Nvml nvml;
    *list = (GpuList){0};
    char *why = mgpu_cuda_open(&LIBRARY, &nvml);
    if (why)
        return why;
    nvmlReturn_t result = nvml.init();
    if (result != NVML_SUCCESS)
        return mgpu_format("NVIDIA's management library does not start: %s", nvml.error_string(result));
    unsigned count = 0;
    result = nvml.device_get_count(&count);
    list->gpus = mgpu_allocate(count, sizeof *list->gpus);
    for (unsigned i = 0; i < count && result == NVML_SUCCESS; i++) {
        result = read_gpu(&nvml, i, &list->gpus[i]);
        list->count += result == NVML_SUCCESS;
    }
    if (result != NVML_SUCCESS) {
        why = mgpu_format("NVIDIA's management library cannot say what GPU %d is: %s", list->count, nvml.error_string(result));
        free(list->gpus);
        *list = (GpuList){0};
    }
    nvml.shutdown();
    return why;
}
