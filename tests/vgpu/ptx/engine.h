/* engine.h: what translated PTX (device.h) and the machinery that runs it (engine.cpp) know of each other. `line` is that of the
 * PTX. Addresses are those of this machine. */
#ifndef VGPU_PTX_ENGINE_H
#define VGPU_PTX_ENGINE_H

#include "tests/vgpu/include/mgpu_vgpu_launch.h"

enum { PTX_TID, PTX_CTAID = 3, PTX_NTID = 6, PTX_NCTAID = 9 /* in built_in: x, y, z each */ };
enum { PTX_UP, PTX_DOWN, PTX_BUTTERFLY, PTX_INDEX /* shuffles */ };
enum { PTX_SYNC, PTX_COUNT, PTX_AND, PTX_OR /* barriers, as __syncthreads_count, _and, _or */ };
enum { PTX_BF16, PTX_F16, PTX_TF32, PTX_DOUBLE, PTX_HALF_SUM /* matrices of f16, summed in f16 */ };

/* One operation of a warp on matrices: c[m, n] += a[m, k] b[k, n]; registers of a lane: 32 bits, of f64 64 */
typedef struct PtxMatrices {
    int type, k;
    int a, b, c; /* registers */
} PtxMatrices;

/* One wgmma: d[64, n] = a[64, k] b[k, n] (+ d). Its registers are places in the function's array of such, whose values are these
 * while it is in flight, and before anything has set them: NaN that no arithmetic makes */
typedef struct PtxGroupMatrices {
    int type, n, k;
    int transposed[2], negated[2]; /* a, b */
    const unsigned short *d, *a;   /* n / 2, 4; a NULL: it is in shared memory */
} PtxGroupMatrices;
#define PTX_IN_FLIGHT 0x7FBADBADu
#define PTX_NEVER_SET 0x7FBADBAEu

typedef struct PtxEngine {
    const unsigned *built_in;
    const mgpu_vgpu_now *now;
    int (*run)(mgpu_vgpu_launch *, void (*kernel)(void *const *), int groups /* it has wgmma */);
    void (*fail)(const char *kind, int line, const char *what);
    void (*access)(uint64_t address, unsigned bytes, int how, int line);
    int (*barrier)(unsigned id, unsigned threads /* 0: all */, int how, int value, int waits, int line);
    void (*sync_warp)(uint32_t mask, int line);
    uint64_t (*shuffle)(int how, uint32_t value, uint32_t b, uint32_t c, uint32_t mask, int line); /* bit 32: p */
    uint64_t (*vote)(uint32_t mask, int value, int line); /* those who say so; from bit 32 on those who came */
    uint32_t (*match)(uint32_t mask, uint64_t value, unsigned bytes, int all, int line);
    void (*gather)(uint32_t mask, uint32_t value, uint32_t all[32], int line); /* 0 of lanes that do not come */
    uint32_t (*active)(void);
    void (*copy)(uint64_t to, uint64_t from, unsigned bytes, unsigned valid, int line);
    void (*copy_commit)(void);
    void (*copy_wait)(int groups, int line); /* groups < 0: for all copies, committed or not */
    void (*load_matrices)(uint32_t *d, uint64_t row, int count, int transposed, int line);
    void (*multiply)(const PtxMatrices *, void *d, const void *a, const void *b, const void *c, int line);
    void (*wait_for_grids)(void);
    void (*pause)(void);
    void (*fence_proxy)(void);
    void (*group_fence)(int line);
    void (*group_commit)(int line);
    void (*group_wait)(unsigned groups, int line);
    /* touched: of each register, since the thread's last wgmma.fence; a, b: descriptors */
    void (*group_multiply)(const PtxGroupMatrices *, uint32_t *registers, const unsigned char *touched, uint64_t a, uint64_t b,
                           int adds, int line);
} PtxEngine;
extern const PtxEngine vgpu_ptx_engine;
#endif
