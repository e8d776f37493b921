/* image.c: loads the program's images for a GPU, and the functions of all kernels in them.
 *
 * An image of machine code "sm_XY" runs on GPUs of the same X and at least Y; the largest Y is the fastest. "sm_XYa" is for XY
 * only, "sm_XYf" is treated as "sm_XY". PTX, "compute_XY", is compiled by the driver for any later GPU, "compute_XYa" for XY
 * only. An image with another name ("vgpu") is for a stand-in of the driver, which accepts no others; GPUs reject it. Images of
 * one name contain different kernels. "sm_90" may contain code for 9.0 only, as there is no other GPU of that X. */
#include "runtime/base/base.h"
#include "runtime/cuda/device_cuda.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

static int number_of(const char *arch) { return atoi(arch + strcspn(arch, "0123456789")); } /* 0 if there is none */

/* Returns how well images of that name suit a GPU; 0: not at all. */
static int suits(const char *arch, const Gpu *g, bool virtual)
{
    enum { OTHER = 1, PTX = 1000, CODE = 100000, OWN = 100 * CODE };
    int here = 10 * g->major + g->minor, number = number_of(arch);
    char last = arch[strlen(arch) - 1];
    if (strncmp(arch, "compute_", 8) == 0)
        return number == here || (number < here && last != 'a') ? PTX + 10 * number + (last == 'a') : 0;
    if (strncmp(arch, "sm_", 3) == 0)
        return number == here                                            ? CODE + 10 * number + (last == 'a')
               : last != 'a' && number / 10 == g->major && number < here ? CODE + 10 * number
                                                                         : 0;
    return virtual ? OWN : OTHER;
}

static const char *best_arch(const mgpu_image *images, const Gpu *g, bool virtual)
{
    const char *best = NULL;
    for (const mgpu_image *i = images; i->arch; i++)
        if (suits(i->arch, g, virtual) > (best ? suits(best, g, virtual) : 0))
            best = i->arch;
    return best;
}

char *mgpu_image_archs(const mgpu_image *images)
{
    char *list = mgpu_format("%s", images->arch ? images->arch : "none");
    for (const mgpu_image *i = images; i->arch; i++) {
        const mgpu_image *first = images;
        while (strcmp(first->arch, i->arch) != 0)
            first++;
        if (first < i || i == images)
            continue;
        char *longer = mgpu_format("%s, %s", list, i->arch);
        free(list);
        list = longer;
    }
    return list;
}

static _Noreturn void fail_images(const CudaDevice *d, const mgpu_program *p)
{
    const Gpu *g = d->gpu;
    if (g->major < MGPU_OLDEST_GPU)
        d->fail(d->owner, -1,
                mgpu_format(
                    "%s, %s, has compute capability %d.%d, kernels need %d.0 or newer (A100, 2020); --devices takes other GPUs, "
                    "mgpuc --devices host compiles for the CPU",
                    g->name, g->place, g->major, g->minor, MGPU_OLDEST_GPU));
    d->fail(d->owner, -1,
            mgpu_format(
                "%s, %s, has compute capability %d.%d, the program holds kernels for %s; compile with: mgpuc --arch sm_%d%d %s",
                g->name, g->place, g->major, g->minor, mgpu_image_archs(p->images), g->major, g->minor, p->model_file));
}

/* Machine code by a newer minor version of CUDA runs; PTX does not, because the driver has to compile it. */
static void fail_if_older(const CudaDevice *d, const mgpu_program *p, const mgpu_image *image)
{
    const Gpu *g = d->gpu;
    bool text = strncmp(image->arch, "compute_", 8) == 0;
    int driver = d->machine->version, unit = text ? 10 : 1000, major = driver / 1000;
    if (image->cuda / unit <= driver / unit)
        return;
    char *other =
        text ? mgpu_format("for the GPU itself: mgpuc --arch sm_%d%d", g->major, g->minor)
             : mgpu_format("with an NVRTC of CUDA %d (python3 -m pip install nvidia-cuda-nvrtc-cu%d): MGPU_NVRTC=FILE mgpuc",
                           major, major);
    d->fail(d->owner, -1,
            mgpu_format("%s, %s: its driver is of CUDA %d.%d, the kernels for %s were compiled by NVRTC %d.%d; install a driver "
                        "of CUDA %d.%d "
                        "or newer, or compile %s %s",
                        g->name, g->place, major, driver / 10 % 100, image->arch, image->cuda / 1000, image->cuda / 10 % 100,
                        image->cuda / 1000, text ? image->cuda / 10 % 100 : 0, other, p->model_file));
}

static CUmodule load_image(const CudaDevice *d, const mgpu_program *p, const mgpu_image *image)
{
    char log[2000] = "", text[2600], error[200];
    CUmodule module = NULL;
    int option[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    void *value[] = {log, (void *)(uintptr_t)sizeof log};
    CUresult r = d->cuda->module_load_data(&module, image->bytes, 2, option, value);
    if (r != CUDA_SUCCESS)
        fail_if_older(d, p, image);
    if (r == CUDA_ERROR_NO_BINARY_FOR_GPU || r == CUDA_ERROR_INVALID_IMAGE)
        fail_images(d, p);
    snprintf(text, sizeof text, "%s, %s: kernels for %s cannot be loaded: %s%s%s", d->gpu->name, d->gpu->place, image->arch,
             mgpu_cuda_error(d->cuda, r, error), *log ? ": " : "", log);
    if (r != CUDA_SUCCESS)
        d->fail(d->owner, -1, text);
    return module;
}

/* An image with a function contains its name: machine code and virtual images in string tables, PTX in its text. */
static bool mentions(const mgpu_image *image, const char *name)
{
    size_t length = strlen(name), size = (size_t)image->size;
    const uint8_t *at = image->bytes, *end = at + size;
    while ((at = memmem(at, (size_t)(end - at), name, length))) {
        at += length;
        if (at == end || !(*at == '_' || isalnum(*at)))
            return true;
    }
    return false;
}

/* Kernels are in the images in about the order of their table, so the image of the previous one is searched first. Images that
 * contain the name are searched first, because debuggers and compute-sanitizer report a failed lookup as an error; then the
 * others, in case an image compresses names. */
CUfunction mgpu_cuda_function(CudaDevice *d, const char *name)
{
    CUfunction function = NULL;
    CUresult r = CUDA_ERROR_NOT_FOUND;
    for (int i = 0; i < 2 * d->module_count && r == CUDA_ERROR_NOT_FOUND; i++) {
        int number = (d->last_module + i) % d->module_count;
        if (mentions(d->images[number], name) != (i < d->module_count))
            continue;
        r = d->cuda->module_get_function(&function, d->modules[number], name);
        if (r == CUDA_SUCCESS)
            d->last_module = number;
    }
    char text[400], error[200];
    snprintf(text, sizeof text, "the program's images have no function %s: %s", name, mgpu_cuda_error(d->cuda, r, error));
    if (r != CUDA_SUCCESS)
        d->fail(d->owner, -1, text);
    return function;
}

static bool is_optional(const mgpu_gpu_kernel *k) { return k->in_tiles_of; } /* there is an alternative */

/* By default a GPU gives a block at most 48 KiB of shared memory, static and dynamic together; the compiler of the image
 * determines how much is static. So the maximum is requested for every kernel, since kernels may share a function. */
static bool ask_for_shared_memory(CudaDevice *d, const mgpu_gpu_kernel *k, const mgpu_launch *l, CUfunction function)
{
    int fixed = 0;
    char text[400];
    mgpu_cuda_check(d, -1, d->cuda->func_get_attribute(&fixed, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, function),
                    "cuFuncGetAttribute");
    if (fixed + l->shared_bytes > d->most_shared && is_optional(k))
        return false;
    if (fixed + l->shared_bytes > d->most_shared) {
        snprintf(text, sizeof text,
                 "%s, %s: kernel %s (line %d) wants %d bytes of shared memory for a block, %d of them static; the GPU has %d; "
                 "--devices takes other GPUs",
                 d->gpu->name, d->gpu->place, k->name, k->line, fixed + l->shared_bytes, fixed, d->most_shared);
        d->fail(d->owner, -1, text);
    }
    mgpu_cuda_check(
        d, -1, d->cuda->func_set_attribute(function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, d->most_shared - fixed),
        "cuFuncSetAttribute of dynamic shared memory");
    return true;
}

/* Querying an attribute also loads the function, if the driver loads lazily. Returns NULL if this GPU cannot run it, but there is
 * an alternative. */
static CUfunction find_function(CudaDevice *d, const mgpu_gpu_kernel *k, const mgpu_launch *l)
{
    int most = 0;
    char text[400];
    CUfunction function = mgpu_cuda_function(d, l->function);
    mgpu_cuda_check(d, -1, d->cuda->func_get_attribute(&most, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, function),
                    "cuFuncGetAttribute");
    if (l->threads > most && is_optional(k))
        return NULL;
    if (l->threads > most) {
        snprintf(
            text, sizeof text,
            "%s, %s: kernel %s (line %d) wants blocks of %d threads, the GPU can run it with %d; compile for it: mgpuc --arch sm_%d%d",
            d->gpu->name, d->gpu->place, k->name, k->line, l->threads, most, d->gpu->major, d->gpu->minor);
        d->fail(d->owner, -1, text);
    }
    return ask_for_shared_memory(d, k, l, function) ? function : NULL;
}

/* Kernels for 9.0 and later wait for the previous one by themselves (mgpu_device.h). Graphs support that since CUDA 12.3. */
static bool may_overlap(const CudaDevice *d, const char *arch)
{
    enum { FIRST_ARCH = 90, FIRST_CUDA = 12030 };
    const char *wish = getenv("MGPU_PDL");
    return number_of(arch) >= FIRST_ARCH && d->cuda->launch_kernel_ex && d->machine->version >= FIRST_CUDA &&
           !(wish && strcmp(wish, "off") == 0);
}

void mgpu_cuda_load(CudaDevice *d, const mgpu_program *p, bool tune)
{
    const char *arch = best_arch(p->images, d->gpu, d->cuda->declare != NULL);
    if (!arch || d->gpu->major < MGPU_OLDEST_GPU)
        fail_images(d, p);
    d->overlaps = may_overlap(d, arch);
    for (const mgpu_image *i = p->images; i->arch; i++)
        if (strcmp(i->arch, arch) == 0) {
            d->modules = mgpu_resize(d->modules, (size_t)(d->module_count + 1) * sizeof *d->modules);
            d->images = mgpu_resize(d->images, (size_t)(d->module_count + 1) * sizeof *d->images);
            d->images[d->module_count] = i;
            d->modules[d->module_count++] = load_image(d, p, i);
        }
    mgpu_cuda_check(
        d, -1,
        d->cuda->device_get_attribute(&d->most_shared, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, d->gpu->device),
        "cuDeviceGetAttribute");
    d->function = mgpu_allocate((size_t)p->kernel_count, sizeof *d->function);
    for (int k = 0; k < p->kernel_count; k++)
        for (int i = 0; i < 2; i++)
            if (p->gpu_kernels[k].launch[i].function && (tune || !p->gpu_kernels[k].in_tiles_of))
                d->function[k][i] = find_function(d, &p->gpu_kernels[k], &p->gpu_kernels[k].launch[i]);
}
