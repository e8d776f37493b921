/* memory.c: memory of devices and page-locked memory of the host. Device memory is in a part of the address space that
 * belongs to the device; addresses are not given out twice, and the page after every allocation cannot be touched. New
 * memory is NaN. */
#include "tests/vgpu/vgpu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { PAGE = 4096, ALIGNMENT = 256, REUSE = 16 /* times its memory, in addresses */ };

static Allocation *allocations;
static Allocation *recent;

static size_t round_up(size_t bytes, size_t to) { return (bytes + to - 1) / to * to; }

static void reserve(VirtualDevice *d)
{
    size_t bytes = round_up(d->memory, PAGE) * REUSE;
    void *space = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (space == MAP_FAILED) {
        perror("virtual GPU: addresses for a device");
        abort();
    }
    d->base = d->next = (uintptr_t)space;
    d->end = d->base + bytes;
}

VirtualDevice *vgpu_device_of(uintptr_t address)
{
    for (VirtualDevice *d = vgpu_machine.device; d < vgpu_machine.device + vgpu_machine.count; d++)
        if (d->base && address >= d->base && address < d->end)
            return d;
    return NULL;
}

Allocation *vgpu_find(uintptr_t address)
{
    if (recent && address - recent->base < recent->bytes)
        return recent;
    for (Allocation *a = allocations; a; a = a->next)
        if (address - a->base < a->bytes)
            return recent = a;
    return NULL;
}

/* where an address lies that it should not: after the nearest allocation below */
bool vgpu_describe(uintptr_t address, char *text, size_t room)
{
    const Allocation *below = NULL, *in = vgpu_find(address);
    VirtualDevice *d = vgpu_device_of(address);
    if (in && in->freed) {
        snprintf(text, room, "byte %zu of memory that was freed, on device %d", (size_t)(address - in->base),
                 in->device ? in->device->number : -1);
        return true;
    }
    if (in) {
        snprintf(text, room, "byte %zu of %zu, %s %d", (size_t)(address - in->base), in->bytes,
                 in->device ? "on device" : "page-locked memory", in->device ? in->device->number : 0);
        return true;
    }
    for (const Allocation *a = allocations; a; a = a->next)
        if (a->device == d && a->base <= address && (!below || a->base > below->base))
            below = a;
    if (d && below)
        snprintf(text, room, "%zu bytes behind the end of %zu bytes on device %d", (size_t)(address - below->base - below->bytes),
                 below->bytes, d->number);
    else
        snprintf(text, room, d ? "no memory of device %d" : "no device's memory (%d)", d ? d->number : 0);
    return d != NULL;
}

void vgpu_make_cells(Cells *c, uintptr_t base, size_t bytes)
{
    size_t words = bytes / 4 + 2, size = words * sizeof(Cell);
    void *memory = mmap(NULL, 5 * size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) {
        perror("virtual GPU: memory for checks");
        abort();
    }
    *c = (Cells){base, bytes, memory, (Cell *)((char *)memory + size), false};
}

void vgpu_free_cells(Cells *c)
{
    if (c->words)
        munmap(c->words, (c->bytes / 4 + 2) * sizeof(Cell) * 5);
    *c = (Cells){0};
}

void vgpu_forget_writes(void)
{
    for (Allocation *a = allocations; a; a = a->next)
        a->cells.unknown = true;
}

static Allocation *add(VirtualDevice *d, uintptr_t base, size_t bytes, size_t mapped)
{
    Allocation *a = calloc(1, sizeof *a);
    if (!a)
        abort();
    *a = (Allocation){.device = d, .base = base, .bytes = bytes, .mapped = mapped, .next = allocations};
    allocations = a;
    vgpu_make_cells(&a->cells, base, bytes);
    a->cells.unknown = !d;
    if (!vgpu_leaves_out()) /* else zeros: a large model's pages are not touched, and numbers as indices are small */
        memset((void *)base, 255, bytes);
    return a;
}

/* its end is as near to the end of its last page as alignment lets it be */
CUresult vgpu_allocate(VirtualDevice *d, size_t bytes, uintptr_t *address)
{
    size_t padded = round_up(bytes, ALIGNMENT), mapped = round_up(padded, PAGE);
    if (bytes == 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (!d->base)
        reserve(d);
    if (padded > d->memory - d->used || mapped + PAGE > d->end - d->next) {
        vgpu_begin_deadline("an allocation");
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (mprotect((void *)d->next, mapped, PROT_READ | PROT_WRITE) != 0)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *address = d->next + mapped - padded;
    d->next += mapped + PAGE;
    d->used += padded;
    add(d, *address, bytes, mapped);
    return CUDA_SUCCESS;
}

CUresult vgpu_allocate_host(size_t bytes, void **memory)
{
    size_t mapped = round_up(bytes, PAGE);
    void *space = bytes ? mmap(NULL, mapped + PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)
                        : MAP_FAILED;
    if (space == MAP_FAILED)
        return bytes ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_INVALID_VALUE;
    mprotect((char *)space + mapped, PAGE, PROT_NONE);
    *memory = (char *)space + mapped - round_up(bytes, ALIGNMENT);
    add(NULL, (uintptr_t)*memory, bytes, mapped);
    return CUDA_SUCCESS;
}

/* what is kept of freed memory says so if it is used again */
CUresult vgpu_free(uintptr_t address, bool host)
{
    Allocation *a = vgpu_find(address);
    if (!a || a->base != address || a->freed || host != !a->device)
        return CUDA_ERROR_INVALID_VALUE;
    uintptr_t begin = a->base + round_up(a->bytes, ALIGNMENT) - a->mapped;
    a->freed = true;
    if (a->device)
        a->device->used -= round_up(a->bytes, ALIGNMENT);
    mprotect((void *)begin, a->mapped, PROT_NONE);
    madvise((void *)begin, a->mapped, MADV_DONTNEED);
    vgpu_free_cells(&a->cells);
    vgpu_free_history(&a->history);
    return CUDA_SUCCESS;
}
