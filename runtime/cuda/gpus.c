/* gpus.c: the GPUs that a program may use, as the driver shows them, in the order that users know.
 *
 * CUDA numbers GPUs by its guess of their speed, unless CUDA_DEVICE_ORDER=PCI_BUS_ID; nvidia-smi by their place on the bus,
 * and so do we. Where CUDA_VISIBLE_DEVICES is set, the driver applies it, with whatever its numbers mean there, and shows
 * the GPUs in the order that it names: that is ours then. Nobody else could apply it: NVML knows neither the variable nor
 * the guess of speed that its numbers go by. Neither asking nor ordering makes a context. */
#include "runtime/base/base.h"
#include "runtime/cuda/gpus.h"

#include <stdlib.h>
#include <string.h>

void mgpu_bus_text(const char *from, char to[24])
{
    unsigned domain, bus, device, function;
    int end = 0;
    to[0] = 0;
    if (sscanf(from, "%8x:%2x:%2x.%1x%n", &domain, &bus, &device, &function, &end) == 4 && !from[end])
        snprintf(to, 24, "%04x:%02x:%02x.%x", domain, bus, device, function);
}

static CUresult read_gpu(const CudaDriver *cuda, int ordinal, Gpu *g)
{
    CUuuid uuid;
    char bus[32];
    size_t memory = 0;
    CUresult r = cuda->device_get(&g->device, ordinal);
    if (r == CUDA_SUCCESS)
        r = cuda->device_get_name(g->name, sizeof g->name, g->device);
    if (r == CUDA_SUCCESS)
        r = cuda->device_get_uuid(&uuid, g->device);
    if (r == CUDA_SUCCESS)
        r = cuda->device_get_pci_bus_id(bus, sizeof bus, g->device);
    if (r == CUDA_SUCCESS)
        r = cuda->device_total_mem(&memory, g->device);
    if (r == CUDA_SUCCESS)
        r = cuda->device_get_attribute(&g->major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, g->device);
    if (r == CUDA_SUCCESS)
        r = cuda->device_get_attribute(&g->minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, g->device);
    if (r != CUDA_SUCCESS)
        return r;
    g->memory = (int64_t)memory;
    mgpu_bus_text(bus, g->bus);
    int length = snprintf(g->uuid, sizeof g->uuid, "GPU");
    for (int i = 0; i < 16; i++)
        length += snprintf(g->uuid + length, sizeof g->uuid - (size_t)length, "%s%02x", i == 0 || i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "",
                           (unsigned char)uuid.bytes[i]);
    return CUDA_SUCCESS;
}

static int by_bus(const void *a, const void *b)
{
    return strcmp(((const Gpu *)a)->bus, ((const Gpu *)b)->bus);
}

/* the management library's order is its own; what it does not know comes after, by bus */
static void order_gpus(GpuList *list, const GpuList *known, bool ordered)
{
    if (!ordered)
        qsort(list->gpus, (size_t)list->count, sizeof *list->gpus, by_bus);
    for (int k = 0, next = 0; k < known->count; k++)
        for (int i = next; i < list->count; i++) {
            if (strcmp(list->gpus[i].bus, known->gpus[k].bus) != 0)
                continue;
            list->gpus[i].divided = known->gpus[k].divided;
            if (!ordered) {
                Gpu found = list->gpus[i];
                memmove(&list->gpus[next + 1], &list->gpus[next], (size_t)(i - next) * sizeof found);
                list->gpus[next++] = found;
            }
            break;
        }
}

static const char *visible_devices(void) { return getenv("CUDA_VISIBLE_DEVICES"); }

void mgpu_free_gpus(GpuList *list)
{
    free(list->gpus);
    free(list->note);
}

char *mgpu_no_gpu(void)
{
    const char *visible = visible_devices();
    return visible ? mgpu_format("NVIDIA's driver shows no GPU: CUDA_VISIBLE_DEVICES is '%s'; unset it, or name GPUs that nvidia-smi -L lists", visible)
                   : mgpu_format("NVIDIA's driver finds no GPU; nvidia-smi -L lists those that work");
}

char *mgpu_shown_by(void)
{
    const char *visible = visible_devices();
    return visible ? mgpu_format(", as CUDA_VISIBLE_DEVICES is '%s'", visible) : mgpu_format("%s", "");
}

char *mgpu_find_gpus(GpuList *list, const CudaDriver **driver)
{
    const char *visible = visible_devices(), *why, *mig = visible ? strstr(visible, "MIG-") : NULL;
    *list = (GpuList){0};
    if (mig)
        return mgpu_format("CUDA_VISIBLE_DEVICES names a part of a GPU (%.*s); parts of GPUs (MIG) are not supported: name whole ones, "
                           "by index or as GPU-...", (int)strcspn(mig, ","), mig);
    const CudaDriver *cuda = *driver = mgpu_cuda_driver(&why);
    if (!cuda)
        return mgpu_format("%s", why);
    char text[200];
    int count = 0;
    CUresult r = cuda->device_get_count(&count);
    list->gpus = mgpu_allocate((size_t)count, sizeof *list->gpus);
    for (; list->count < count && r == CUDA_SUCCESS; list->count += r == CUDA_SUCCESS)
        r = read_gpu(cuda, list->count, &list->gpus[list->count]);
    if (r != CUDA_SUCCESS)
        return mgpu_format("NVIDIA's driver cannot say what GPUs there are: %s", mgpu_cuda_error(cuda, r, text));
    if (!count)
        return mgpu_no_gpu();
    GpuList known;
    char *missing = mgpu_nvml_gpus(&known);
    order_gpus(list, &known, visible != NULL);
    if (missing && !visible && count > 1)
        list->note = mgpu_format("nvidia-smi's order of GPUs is not known, so they are in that of the PCI bus: %s", missing);
    free(missing);
    mgpu_free_gpus(&known);
    return NULL;
}

char *mgpu_list_gpus(GpuList *list)
{
    const CudaDriver *driver;
    if (!visible_devices()) {
        char *why = mgpu_nvml_gpus(list);
        if (!why)
            return list->count ? NULL : mgpu_no_gpu();
        free(why);
    }
    return mgpu_find_gpus(list, &driver);
}
