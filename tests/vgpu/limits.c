/* limits.c: what cards can, and no more: by compute capability, and the cards that a machine file may name.
 *
 * Shared memory: CUDA C++ Programming Guide, Technical Specifications per Compute Capability; of 1 KiB that is reserved for each
 * block from 8.0 on, cudaDeviceProp::reservedSharedMemPerBlock. Registers: cuda_occupancy.h, which comes with CUDA. Cards:
 * NVIDIA's data sheets. What all have in common (1,024 threads, grids) is where it is checked. docs/rules.md has these tables,
 * too. */
#include "tests/vgpu/vgpu.h"

#include <stdio.h>
#include <string.h>

enum {
    REGISTERS = 64 << 10 /* of a block */,
    REGISTER_UNIT = 256 /* of a warp */,
    WARP = 32,
    PARTITIONS = 4 /* of a multiprocessor */
};

/* KiB */
static const struct {
    int capability, shared, reserved;
} LIMITS[] = {
    {75, 64, 0},  {80, 164, 1},  {86, 100, 1},  {87, 164, 1},  {89, 100, 1},
    {90, 228, 1}, {100, 228, 1}, {103, 228, 1}, {120, 100, 1},
};

static const struct {
    const char *word, *name;
    int capability, multiprocessors;
    double gib, bandwidth;
} CARDS[] = {
    {"A100", "NVIDIA A100-SXM4-80GB", 80, 108, 80, 2039e9},
    {"H100", "NVIDIA H100 80GB HBM3", 90, 132, 80, 3350e9},
    {"H200", "NVIDIA H200", 90, 132, 141, 4800e9},
    {"B200", "NVIDIA B200", 100, 148, 180, 8000e9},
    {"RTX4090", "NVIDIA GeForce RTX 4090", 89, 128, 24, 1008e9},
    {"L4", "NVIDIA L4", 89, 58, 24, 300e9},
    {"T4", "Tesla T4", 75, 40, 16, 320e9},
};

/* bytes of shared memory that a block can ask for, static and dynamic */
size_t vgpu_most_shared(const VirtualDevice *d)
{
    int kib = 48;
    for (size_t i = 0; i < sizeof LIMITS / sizeof *LIMITS; i++)
        if (LIMITS[i].capability <= 10 * d->major + d->minor)
            kib = LIMITS[i].shared - LIMITS[i].reserved;
    return d->shared ? d->shared : (size_t)kib << 10;
}

/* A kernel is not run with more threads than its text says (PTX ISA, .maxntid).
 * "Hardware verifies if a launch fits the per-CTA register limit ... the warp allocation needs to be rounded up to the number of
 * partitions" (cuda_occupancy.h) */
int vgpu_most_threads(CUfunction f)
{
    int of_warp = (f->registers * WARP + REGISTER_UNIT - 1) / REGISTER_UNIT * REGISTER_UNIT;
    int warps = of_warp ? REGISTERS / of_warp / PARTITIONS * PARTITIONS : MGPU_VGPU_WARPS;
    int threads = (warps < MGPU_VGPU_WARPS ? warps : MGPU_VGPU_WARPS) * WARP;
    return (int)f->most_threads < threads ? (int)f->most_threads : threads;
}

bool vgpu_become(VirtualDevice *d, const char *card)
{
    for (size_t i = 0; i < sizeof CARDS / sizeof *CARDS; i++) {
        if (strcmp(CARDS[i].word, card) != 0)
            continue;
        snprintf(d->name, sizeof d->name, "Virtual %s", CARDS[i].name);
        d->major = CARDS[i].capability / 10;
        d->minor = CARDS[i].capability % 10;
        d->multiprocessors = CARDS[i].multiprocessors;
        d->memory = (size_t)(CARDS[i].gib * 0x1p30);
        d->bandwidth = CARDS[i].bandwidth;
        return true;
    }
    return false;
}
