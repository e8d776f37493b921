/* gpus.c: lists the GPUs that a program may use, as the driver shows them, in the order that users know.
 *
 * CUDA numbers GPUs by their estimated speed, unless CUDA_DEVICE_ORDER=PCI_BUS_ID. nvidia-smi orders them by bus id, and so does
 * this file. If CUDA_VISIBLE_DEVICES is set, the driver applies it, whatever numbers mean there, and shows the GPUs in that
 * order, which is then used. Only the driver can apply it: NVML knows neither the variable nor the estimate of speed that its
 * numbers refer to. Listing creates no context. */
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
    CUuuid uuid, whole;
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
    /* The newer function returns the UUID of the slice, the older one that of the whole GPU. */
    g->slice = cuda->device_get_whole_uuid && cuda->device_get_whole_uuid(&whole, g->device) == CUDA_SUCCESS &&
               memcmp(&whole, &uuid, sizeof uuid) != 0;
    int length = snprintf(g->uuid, sizeof g->uuid, g->slice ? "MIG" : "GPU");
    for (int i = 0; i < 16; i++)
        length += snprintf(g->uuid + length, sizeof g->uuid - (size_t)length, "%s%02x",
                           i == 0 || i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", (unsigned char)uuid.bytes[i]);
    return CUDA_SUCCESS;
}

static int index_of(const Gpu *g, const GpuList *known)
{
    int k = 0;
    while (k < known->count && strcmp(g->bus, known->gpus[k].bus) != 0)
        k++;
    return k;
}

/* Sorts by the order of the management library. GPUs that it does not know come last, by bus id; slices of one GPU are in the
 * driver's order. */
static bool comes_before(const Gpu *a, const Gpu *b, const GpuList *known)
{
    int x = index_of(a, known), y = index_of(b, known), bus = strcmp(a->bus, b->bus);
    return x != y ? x < y : bus ? bus < 0 : a->device < b->device;
}

static void order_gpus(GpuList *list, const GpuList *known)
{
    for (int i = 1; i < list->count; i++) {
        Gpu g = list->gpus[i];
        int to = i;
        for (; to > 0 && comes_before(&g, &list->gpus[to - 1], known); to--)
            list->gpus[to] = list->gpus[to - 1];
        list->gpus[to] = g;
    }
}

/* If a GPU is divided, the driver shows only its slices. */
static void find_slices(GpuList *list, const GpuList *known)
{
    for (int i = 0; i < list->count; i++) {
        Gpu *g = &list->gpus[i];
        int k = index_of(g, known);
        g->slice = g->slice || (k < known->count && known->gpus[k].slice);
        snprintf(g->place, sizeof g->place, g->slice ? "%s (%.12s)" : "%s", g->bus, g->uuid);
    }
}

static const char *visible_devices(void) { return getenv("CUDA_VISIBLE_DEVICES"); }

void mgpu_free_gpus(GpuList *list)
{
    free(list->gpus);
    free(list->remark);
}

/* Returns why a GPU that is divided but has no slice cannot be used, or NULL. */
static char *divided_without_slices(void)
{
    GpuList known;
    char *text = NULL;
    free(mgpu_nvml_gpus(&known));
    for (int i = 0; i < known.count && !text; i++)
        if (known.gpus[i].slice)
            text = mgpu_format("NVIDIA's driver finds no GPU: GPU %s (%s) is to be divided (MIG) and has no slice; nvidia-smi "
                               "mig -i %s -cgi 0 -C makes one of all of it, "
                               "nvidia-smi -i %s -mig 0 undivides it",
                               known.gpus[i].bus, known.gpus[i].name, known.gpus[i].bus, known.gpus[i].bus);
    mgpu_free_gpus(&known);
    return text;
}

char *mgpu_no_gpu(void)
{
    const char *visible = visible_devices();
    char *divided = visible ? NULL : divided_without_slices();
    return divided   ? divided
           : visible ? mgpu_format("NVIDIA's driver shows no GPU: CUDA_VISIBLE_DEVICES is '%s'; unset it, or name GPUs that "
                                   "nvidia-smi -L lists",
                                   visible)
                     : mgpu_format("NVIDIA's driver finds no GPU; nvidia-smi -L lists those that work");
}

char *mgpu_visible_by(void)
{
    const char *visible = visible_devices();
    return visible ? mgpu_format(", as CUDA_VISIBLE_DEVICES is '%s'", visible) : mgpu_format("%s", "");
}

char *mgpu_find_gpus(GpuList *list, const CudaDriver **driver)
{
    const char *visible = visible_devices(), *why;
    *list = (GpuList){0};
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
    if (!visible)
        order_gpus(list, &known);
    find_slices(list, &known);
    if (missing && !visible && count > 1)
        list->remark = mgpu_format("nvidia-smi's order of GPUs is not known, so they are in that of the PCI bus: %s", missing);
    free(missing);
    mgpu_free_gpus(&known);
    return NULL;
}

char *mgpu_list_gpus(GpuList *list)
{
    const CudaDriver *driver;
    if (!visible_devices()) {
        char *why = mgpu_nvml_gpus(list);
        bool slices = false;
        for (int i = 0; !why && i < list->count; i++)
            slices = slices || list->gpus[i].slice;
        if (!why && !slices)
            return list->count ? NULL : mgpu_no_gpu();
        if (!why)
            mgpu_free_gpus(list);
        free(why);
    }
    return mgpu_find_gpus(list, &driver);
}
