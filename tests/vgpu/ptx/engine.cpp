/* engine.cpp: threads, barriers and warps of translated PTX, by the machinery of all virtual kernels (tests/vgpu/include/mgpu_vgpu.h), of
 * which libcuda.so.1 has one for all modules. What PTX has in place of CUDA's functions is written from the PTX ISA manual, whose
 * sections are named. */
#define MGPU_VGPU_STATICS_ELSEWHERE /* PTX says where static shared memory is: before the dynamic one */
static int ptx_line;                     /* of the instruction that accesses memory */
static void ptx_touch(const void *address, unsigned bytes, int how), ptx_stuck(void);
#define MGPU_VGPU_ACCESS(address, bytes, how) ptx_touch(address, bytes, how)
#define MGPU_VGPU_ALSO_STUCK ptx_stuck
#include "tests/vgpu/include/mgpu_vgpu.h"
extern "C" {
#include "tests/vgpu/ptx/engine.h"
}
#include "tests/vgpu/ptx/numbers.h"

/* ---- memory */

static void ptx_count(uint64_t address, unsigned bytes, int how, int line)
{
    mgpu_vgpu_launch *l = mgpu_vgpu_e.launch;
    if (l->count)
        l->count(l, (const void *)(uintptr_t)address, bytes, how, line);
}

/* Who stored a word of shared memory last, and the proxy fences that he had made by then: what a wgmma reads has to be behind one, of
 * the thread that stored it (9.7.13.4, fence.proxy.async) */
static bool ptx_async;                   /* the kernel has wgmma */
static struct { uint32_t fences; uint16_t thread; } ptx_stored[MGPU_VGPU_SHARED / 4];
static uint32_t ptx_fences[MGPU_VGPU_THREADS];
static void ptx_fence_proxy(void) { ptx_fences[mgpu_vgpu_n.thread]++; }

static void ptx_touch(const void *address, unsigned bytes, int how)
{
    size_t at = (size_t)((const char *)address - mgpu_vgpu_n.shared), end = at + bytes;
    if (ptx_async && end <= MGPU_VGPU_SHARED && ((how & MGPU_VGPU_HOW) == MGPU_VGPU_STORE || (how & MGPU_VGPU_HOW) == MGPU_VGPU_ATOMIC))
        for (size_t word = at / 4; word < (end + 3) / 4; word++)
            ptx_stored[word] = {ptx_fences[mgpu_vgpu_n.thread], (uint16_t)mgpu_vgpu_n.thread};
    mgpu_vgpu_access(address, bytes, how, (const void *)(intptr_t)ptx_line);
}

/* what is on the own stack is local, and nobody's business; other stacks are not memory of GPUs */
static void ptx_access(uint64_t address, unsigned bytes, int how, int line)
{
    const mgpu_vgpu_fiber *f = mgpu_vgpu_e.fiber;
    if ((uintptr_t)address - (uintptr_t)f->stack >= MGPU_VGPU_STACK) {
        ptx_count(address, bytes, how, line);
        ptx_line = line;
        ptx_touch((const void *)(uintptr_t)address, bytes, how);
    } else if (address & (bytes - 1))
        mgpu_vgpu_fail("alignment", line, "the address is not a multiple of the size");
}

static void ptx_fail(const char *kind, int line, const char *what) { mgpu_vgpu_fail(kind, line, what); }

/* ---- barriers: 9.7.13.1 (bar, barrier) */

static int ptx_barrier(unsigned id, unsigned threads, int how, int value, int waits, int line)
{
    static const int hows[] = {MGPU_VGPU_SYNC, MGPU_VGPU_SYNC_COUNT, MGPU_VGPU_SYNC_AND, MGPU_VGPU_SYNC_OR};
    if (id >= MGPU_VGPU_BARRIERS)
        mgpu_vgpu_fail("barrier", line, "a block has 16 barriers");
    if (threads % MGPU_VGPU_WARP)
        mgpu_vgpu_fail("barrier", line, "the number of threads is not a multiple of 32");
    if (threads > (mgpu_vgpu_e.threads + 31) / 32 * 32)
        mgpu_vgpu_fail("barrier", line, "there are fewer threads in the block");
    threads = threads == 0 || threads > mgpu_vgpu_e.threads ? mgpu_vgpu_e.threads : threads;
    return mgpu_vgpu_arrive((int)id, threads, hows[how], value, waits, line);
}

/* ---- warps: 9.7.9.6 (shfl.sync), 9.7.13.9 (vote.sync), 9.7.13.10 (match.sync) */

static uint64_t ptx_shuffle(int how, uint32_t value, uint32_t b, uint32_t c, uint32_t mask, int line)
{
    int lane = mgpu_vgpu_lane(), from = 0, by = (int)(b & 31u), clamp = (int)(c & 31u), segment = (int)(c >> 8 & 31u);
    int most = (lane & segment) | (clamp & ~segment), least = lane & segment;
    bool valid = false;
    switch (how) {
    case PTX_UP: from = lane - by, valid = from >= most; break;
    case PTX_DOWN: from = lane + by, valid = from <= most; break;
    case PTX_BUTTERFLY: from = lane ^ by, valid = from <= most; break;
    case PTX_INDEX: from = least | (by & ~segment), valid = from <= most; break;
    }
    from = valid ? from : lane;
    return (uint64_t)valid << 32 | mgpu_vgpu_shuffle(mask, value, from, line);
}

static uint64_t ptx_vote(uint32_t mask, int value, int line)
{
    unsigned came, votes = mgpu_vgpu_vote(mask, value, line, &came);
    return (uint64_t)came << 32 | votes;
}

static void ptx_gather(uint32_t mask, uint32_t value, uint32_t all[32], int line)
{
    uint32_t lanes[32], came = mgpu_vgpu_gather(mask, value, lanes, line);
    for (int k = 0; k < 32; k++)
        all[k] = came >> k & 1 ? lanes[k] : 0;
}

static uint32_t ptx_match(uint32_t mask, uint64_t value, unsigned bytes, int all, int line)
{
    struct { uint64_t value; unsigned bytes; } own = {value, bytes}, lanes[32];
    uint32_t came = mgpu_vgpu_gather(mask, own, lanes, line), same = 0;
    for (int k = 0; k < 32; k++)
        same |= (uint32_t)(came >> k & 1 && lanes[k].value == value) << k;
    return all ? (same == came ? mask : 0) : same;
}

static uint32_t ptx_active(void) { return __activemask(); }
static void ptx_sync_warp(uint32_t mask, int line) { __syncwarp(mask, line); }

/* ---- grids: 9.7.13.13 (griddepcontrol). Kernels run one after the other here, so the wait is not for anything; but each thread has to make it */

static void ptx_wait_for_grids(void) { mgpu_vgpu_n.waited[mgpu_vgpu_n.thread] = mgpu_vgpu_n.blocks_begun; }
static bool ptx_has_waited(void) { return !mgpu_vgpu_e.launch->dependent || mgpu_vgpu_n.waited[mgpu_vgpu_n.thread] == mgpu_vgpu_n.blocks_begun; }

/* ---- asynchronous copies: 9.7.9.25.3 (cp.async). They arrive when they are waited for, and not before */

static void ptx_copy(uint64_t to, uint64_t from, unsigned bytes, unsigned valid, int line)
{
    ptx_line = line;
    if (!ptx_has_waited())
        mgpu_vgpu_fail("dependence", line, "a copy of global memory, and the thread has not waited for the kernel before this one (griddepcontrol.wait)");
    ptx_count(from, valid < bytes ? valid : bytes, MGPU_VGPU_LOAD, line);
    ptx_count(to, bytes, MGPU_VGPU_STORE, line);
    mgpu_vgpu_copy_async((void *)(uintptr_t)to, (const void *)(uintptr_t)from, bytes, bytes - (valid < bytes ? valid : bytes), line);
}
static void ptx_copy_commit(void) { mgpu_vgpu_copy_commit(); }
static void ptx_copy_wait(int groups, int line)
{
    ptx_line = line;
    if (groups < 0)
        mgpu_vgpu_copy_commit();
    mgpu_vgpu_copy_wait(groups < 0 ? 0 : groups);
}

/* ---- matrices of a warp: 9.7.14.5 */

/* an operation of a whole warp (.aligned): all lanes come, to this very instruction */
static mgpu_vgpu_meeting *join_whole_warp(const void *own, unsigned bytes, int line)
{
    mgpu_vgpu_meeting *m = mgpu_vgpu_join(0xFFFFFFFFu, MGPU_VGPU_GATHER + line, own, bytes, line);
    if (m->done != 0xFFFFFFFFu)
        mgpu_vgpu_fail("lanes", line, "an operation of the whole warp, of which some lanes have ended or never were");
    return m;
}
template <typename T> static void ptx_whole_warp(const T &own, T (&all)[32], int line)
{
    mgpu_vgpu_meeting *m = join_whole_warp(&own, sizeof own, line);
    for (int k = 0; k < 32; k++)
        memcpy(&all[k], m->lane[k], sizeof(T));
    mgpu_vgpu_part(m);
}

/* ldmatrix .m8n8 .b16: lane i has the address of row i % 8 of matrix i / 8 (of the first `count` matrices). Lane l gets of row l / 4
 * the elements 2 (l % 4) and the next one; transposed, of column l / 4 */
static void ptx_load_matrices(uint32_t *d, uint64_t row, int count, int transposed, int line)
{
    uint64_t rows[32];
    int lane = mgpu_vgpu_lane(), group = lane / 4, pair = lane % 4;
    ptx_whole_warp(row, rows, line);
    for (int i = 0; i < 8 * count; i++)
        if (rows[i] % 16)
            mgpu_vgpu_fail("alignment", line, "the address of a row of a matrix is not a multiple of 16");
    ptx_line = line;
    ptx_count(row, lane < 8 * count ? 16 : 0, MGPU_VGPU_LOAD, line);
    for (int m = 0; m < count; m++) {
        uint32_t value = 0;
        for (int half = 0; half < 2; half++) {
            int r = transposed ? 2 * pair + half : group, c = transposed ? group : 2 * pair + half;
            const uint16_t *at = (const uint16_t *)(uintptr_t)(rows[8 * m + r] + 2 * (uint64_t)c);
            MGPU_VGPU_ACCESS(at, sizeof *at, MGPU_VGPU_LOAD);
            value |= (uint32_t)*at << 16 * half;
        }
        d[m] = value;
    }
}

/* where element (row, k) of A is: its lane, its register and, of 16 bits, its half. Figures of mma.m16n8k8 and m16n8k16 with .f16
 * and .bf16, of m16n8k4 and m16n8k8 with .tf32, and of m8n8k4 with .f64; row: of B the column */
struct PtxPlace { int lane, reg, half; };
static PtxPlace place_a(int type, int row, int k)
{
    if (type == PTX_DOUBLE)                          /* m8n8k4: row = lane / 4, k = lane % 4 */
        return {4 * row + k, 0, 0};
    if (type == PTX_TF32)                            /* a0: (g, t), a1: (g + 8, t), a2: (g, t + 4), a3: (g + 8, t + 4) */
        return {4 * (row % 8) + k % 4, row / 8 + 2 * (k / 4), 0};
    return {4 * (row % 8) + k % 8 / 2, row / 8 + 2 * (k / 8), k % 2}; /* a0, a1: (g, 2t), a2, a3: (g + 8, 2t), a4 ..: k + 8 */
}
static PtxPlace place_b(int type, int k, int column)
{
    if (type == PTX_DOUBLE)                          /* k = lane % 4, column = lane / 4 */
        return {4 * column + k, 0, 0};
    if (type == PTX_TF32)                            /* b0: (t, g), b1: (t + 4, g) */
        return {4 * column + k % 4, k / 4, 0};
    return {4 * column + k % 8 / 2, k / 8, k % 2};   /* b0, b1: k = 2t, 2t + 1; b2, b3: 8 more */
}

static float element(int type, uint32_t bits, int half)
{
    uint16_t part = (uint16_t)(bits >> 16 * half);
    return type == PTX_TF32 ? ptx_float(bits & 0xFFFFE000u) : type == PTX_BF16 ? ptx_from_bf16(part) : ptx_from_f16(part);
}

/* Products are exact; sums are of more than single precision, and rounded once: the manual leaves their order open ("at least single
 * precision"). Of C c0, c1: (g, 2t), (g, 2t + 1); c2, c3: the same of row g + 8 */
struct PtxFragments { uint32_t a[4], b[2], c[4]; };
static void multiply_warp(const PtxMatrices *m, PtxFragments warp[32])
{
    double a[16][16], b[8][16], sum[16][8];
    for (int k = 0; k < m->k; k++) {
        for (int row = 0; row < 16; row++) {
            PtxPlace x = place_a(m->type, row, k);
            a[row][k] = element(m->type, warp[x.lane].a[x.reg], x.half);
        }
        for (int column = 0; column < 8; column++) {
            PtxPlace y = place_b(m->type, k, column);
            b[column][k] = element(m->type, warp[y.lane].b[y.reg], y.half);
        }
    }
    bool half = m->type == PTX_HALF_SUM;
    for (int row = 0; row < 16; row++)
        for (int column = 0; column < 8; column++) {
            int i = row / 8 * 2 + column % 2;
            const uint32_t *c = warp[4 * (row % 8) + column / 2].c;
            double s = half ? ptx_from_f16((uint16_t)(c[i / 2] >> 16 * (i % 2))) : ptx_float(c[i]);
            for (int k = 0; k < m->k; k++)
                s += a[row][k] * b[column][k];
            sum[row][column] = s;
        }
    for (int lane = 0; lane < 32; lane++)
        for (int i = 0; i < 4; i++) {
            double s = sum[lane / 4 + 8 * (i / 2)][2 * (lane % 4) + i % 2];
            uint32_t *c = warp[lane].c;
            if (!half)
                c[i] = ptx_bits((float)s);
            else
                c[i / 2] = i % 2 ? c[i / 2] | ptx_narrow(s, 5, 10, 'n') << 16 : ptx_narrow(s, 5, 10, 'n');
        }
}

/* the first lane that goes on computes it for all */
static void multiply(const PtxMatrices *m, uint32_t *d, const uint32_t *a, const uint32_t *b, const uint32_t *c, int line)
{
    enum { COMPUTED = -1 };
    PtxFragments own;
    memset(&own, 0, sizeof own);
    memcpy(own.a, a, (size_t)m->a * 4);
    memcpy(own.b, b, (size_t)m->b * 4);
    memcpy(own.c, c, (size_t)m->c * 4);
    mgpu_vgpu_meeting *met = join_whole_warp(&own, sizeof own, line);
    if (met->kind != COMPUTED) {
        PtxFragments warp[32];
        for (int lane = 0; lane < 32; lane++)
            memcpy(&warp[lane], met->lane[lane], sizeof *warp);
        multiply_warp(m, warp);
        for (int lane = 0; lane < 32; lane++)
            memcpy(met->lane[lane], &warp[lane], sizeof *warp);
        met->kind = COMPUTED;
    }
    memcpy(&own, met->lane[mgpu_vgpu_lane()], sizeof own);
    mgpu_vgpu_part(met);
    memcpy(d, own.c, (size_t)m->c * 4);
}

/* m8n8k4: one register each of a and b; c0, c1: (lane / 4, 2 (lane % 4)) and the next. Each step is a fused multiplication */
static void multiply_doubles(double *d, const double *a, const double *b, const double *c, int line)
{
    struct { double a, b; } own = {*a, *b}, warp[32];
    ptx_whole_warp(own, warp, line);
    int lane = mgpu_vgpu_lane(), g = lane / 4, t = lane % 4;
    for (int i = 0; i < 2; i++) {
        double sum = c[i];
        for (int k = 0; k < 4; k++)
            sum = __builtin_fma(warp[place_a(PTX_DOUBLE, g, k).lane].a, warp[place_b(PTX_DOUBLE, k, 2 * t + i).lane].b, sum);
        d[i] = sum;
    }
}

static void ptx_multiply(const PtxMatrices *m, void *d, const void *a, const void *b, const void *c, int line)
{
    if (m->type == PTX_DOUBLE)
        multiply_doubles((double *)d, (const double *)a, (const double *)b, (const double *)c, line);
    else
        multiply(m, (uint32_t *)d, (const uint32_t *)a, (const uint32_t *)b, (const uint32_t *)c, line);
}

#include "tests/vgpu/ptx/warpgroup.h"

/* The kernel after this one waits for this one alone, and may have begun: if this one can end before the one before it has, so can that */
static void (*ptx_kernel)(void *const *);
static void run_thread(void *const *params)
{
    ptx_kernel(params);
    end_group_thread();
    if (!ptx_has_waited())
        mgpu_vgpu_fail("dependence", 0, "a thread ended and had not waited for the kernel before this one (griddepcontrol.wait), so nothing after it does");
}

static int ptx_run(mgpu_vgpu_launch *launch, void (*kernel)(void *const *), int groups)
{
    ptx_async = groups;
    reset_groups();
    ptx_kernel = kernel;
    return mgpu_vgpu_run(launch, run_thread);
}

const PtxEngine vgpu_ptx_engine = {
    (const unsigned *)&mgpu_vgpu_built_in_variables, &mgpu_vgpu_n, ptx_run, ptx_fail, ptx_access, ptx_barrier, ptx_sync_warp, ptx_shuffle, ptx_vote,
    ptx_match, ptx_gather, ptx_active, ptx_copy, ptx_copy_commit, ptx_copy_wait, ptx_load_matrices, ptx_multiply,
    ptx_wait_for_grids, mgpu_vgpu_pause, ptx_fence_proxy, ptx_group_fence, ptx_group_commit, ptx_group_wait, ptx_group_multiply,
};
