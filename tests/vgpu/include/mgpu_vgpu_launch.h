/* mgpu_vgpu_launch.h: what a module of the virtual GPU (emitted CUDA text as a shared object) and the one who launches its
 * kernels know of each other. For every kernel a module exports
 *   int mgpu_entry_NAME(mgpu_vgpu_launch *)      runs all blocks; 0: done, else it was reported why not
 *   const unsigned *const mgpu_params_NAME       bytes of each parameter, then 0
 * One launch runs at a time in a process: what CUDA calls built-in variables and shared memory are plain variables. */
#ifndef MGPU_VGPU_LAUNCH_H
#define MGPU_VGPU_LAUNCH_H

#include <stddef.h>
#include <stdint.h>

enum {
    MGPU_VGPU_THREADS = 1024,           /* of a block, at most */
    MGPU_VGPU_WARP = 32,
    MGPU_VGPU_WARPS = MGPU_VGPU_THREADS / MGPU_VGPU_WARP,
    MGPU_VGPU_SHARED = 227 * 1024       /* bytes of dynamic shared memory, at most */
};

/* How far the launch is: the module's, read by checks. Time counts the barriers of a block: what a thread did before
 * `block_time` comes before all that the block does now; before warp_time[w], before all that warp w does now. What it loaded
 * before warp_met[w], in a shuffle or a vote, comes before what the warp stores now: loads are issued in order. */
typedef struct mgpu_vgpu_now {
    uint64_t block;                     /* its number in the grid, x fastest */
    uint32_t blocks_begun;              /* in this launch, this one too */
    uint32_t thread;                    /* in its block */
    uint32_t time, block_time, warp_time[MGPU_VGPU_WARPS], warp_met[MGPU_VGPU_WARPS];
    char *shared;                       /* dynamic shared memory */
    char *statics, *statics_end;        /* static shared memory of all kernels of the module */
    char *poison, *poison_end;          /* [poison, poison_end): other memory that must not be touched now */
    uint32_t waited[MGPU_VGPU_THREADS]; /* by each thread for the grids before: blocks_begun of its block, then */
} mgpu_vgpu_now;

enum { MGPU_VGPU_LOAD, MGPU_VGPU_STORE, MGPU_VGPU_ATOMIC, MGPU_VGPU_CONSTANT_LOAD /* __ldg */, MGPU_VGPU_SYSTEM_LOAD, MGPU_VGPU_SYSTEM_STORE /* volatile:
       relaxed, of system scope */, MGPU_VGPU_HOW = 7,
       MGPU_VGPU_UNALIGNED = 8 /* the address need not be a multiple of the size */ };

typedef struct mgpu_vgpu_launch {
    const char *name;                   /* of the kernel, for messages */
    unsigned grid[3], block[3];
    unsigned shared_bytes;              /* dynamic */
    void *const *params;                /* of cuLaunchKernel */
    uint64_t seed;                      /* order of blocks and threads; 0: ascending */
    int dependent;                      /* it may begin before the kernel before it has ended */
    /* Something is wrong: kind is a short name, text says what and where. NULL: printed. The launch ends. */
    void (*report)(struct mgpu_vgpu_launch *, const char *kind, const char *text);
    /* Modules built with -fsanitize=thread call it for every load and store; `place`: the instruction. NULL: no checks.
     * Not 0: it was reported, the launch ends. */
    int (*access)(struct mgpu_vgpu_launch *, const void *address, unsigned bytes, int how, const void *place);
    void (*begin_block)(struct mgpu_vgpu_launch *); /* NULL, or called before each block */
    /* of translated PTX: a lane's part of a load or store (0 bytes: none), before it is done. NULL: nobody counts */
    void (*count)(struct mgpu_vgpu_launch *, const void *address, unsigned bytes, int how, int line);
    uint64_t most_blocks;               /* that run, all of the same size apart; 0: all */
    /* In: the blocks that run, a bit for each; 0: all. Out: those of which a thread waits for memory that another kernel is to
     * write: they were left, and are to be begun again */
    uint64_t again;
    void *context;                      /* of those who launch */
    const mgpu_vgpu_now *now;           /* set by the module */
    void (*leave)(void);                /* set by the module: ends the launch from within it (a signal handler) */
} mgpu_vgpu_launch;

typedef int mgpu_vgpu_entry(mgpu_vgpu_launch *);
#endif
