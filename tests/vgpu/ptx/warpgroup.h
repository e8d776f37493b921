/* warpgroup.h: matrices of a warpgroup (wgmma), for engine.cpp. PTX ISA 9.7.15: fragments (9.7.15.5.1.1), layouts in shared
 * memory and descriptors (9.7.15.5.1.2), wgmma.mma_async (9.7.15.5.2), fence, commit_group, wait_group (9.7.15.7).
 *
 * A wgmma computes when it is issued and gives its result when it is waited for; until then its accumulators are PTX_IN_FLIGHT.
 * What it reads has to be the same at both times. The threads of a warpgroup come to each of these instructions together, which
 * orders nothing else that they do. */
#ifndef VGPU_PTX_WARPGROUP_H
#define VGPU_PTX_WARPGROUP_H

enum { GROUP = 128, GROUP_ROWS = 64, GROUP_COLUMNS = 256, GROUP_DEPTH = 16 };

struct Product { /* in flight */
    const PtxGroupMatrices *m;
    Product *next;
    int line, commit; /* the group of products that it belongs to, by number */
    uint64_t descriptor[2];
    uint32_t a[GROUP_ROWS][GROUP_DEPTH], b[GROUP_COLUMNS][GROUP_DEPTH]; /* bits as they were read; b: [n][k] */
    uint32_t fragment[GROUP][4];                                        /* a, where it is in registers */
    float d[GROUP][GROUP_COLUMNS / 2];
};
struct Group {
    unsigned arrived, first_thread;
    int line, commits;
    mgpu_vgpu_queue waiting;
    Product *first; /* the oldest */
    struct {
        uint32_t *registers;
        const unsigned char *touched;
        uint64_t descriptor[2];
        int adds;
    } thread[GROUP];
};
static Group groups[MGPU_VGPU_THREADS / GROUP];

/* ---- together */

static void ptx_stuck(void)
{
    char text[160];
    for (Group &g : groups)
        if (g.waiting.first) {
            mgpu_vgpu_be(g.waiting.first->thread);
            snprintf(text, sizeof text, "%u threads of a warpgroup come to an instruction of wgmma, the others do not",
                     g.arrived);
            mgpu_vgpu_fail("lanes", g.line, text);
        }
}

/* NULL: the others have done it; else the caller is the last of the warpgroup and does it for all */
static Group *arrive(int line)
{
    unsigned number = mgpu_vgpu_n.thread / GROUP;
    Group *g = &groups[number];
    if ((number + 1) * GROUP > mgpu_vgpu_e.threads)
        mgpu_vgpu_fail("lanes", line, "wgmma needs warpgroups of 128 threads");
    g->first_thread = number * GROUP;
    if (g->arrived > 0 && g->line != line) {
        char text[128];
        snprintf(text, sizeof text, "threads of a warpgroup meet in different instructions: others are at line %d", g->line);
        mgpu_vgpu_fail("lanes", line, text);
    }
    g->line = line;
    if (++g->arrived == GROUP)
        return g;
    mgpu_vgpu_wait(&g->waiting);
    return NULL;
}

static void go_on(Group *g, unsigned self)
{
    mgpu_vgpu_be(self);
    g->arrived = 0;
    mgpu_vgpu_release(&g->waiting);
}

static void ptx_group_fence(int line)
{
    if (Group *g = arrive(line))
        go_on(g, mgpu_vgpu_n.thread);
}

static void ptx_group_commit(int line)
{
    if (Group *g = arrive(line)) {
        g->commits++;
        go_on(g, mgpu_vgpu_n.thread);
    }
}

/* thread: of the warpgroup */
static void fail_as(const Group *g, unsigned thread, const char *kind, int line, const char *what)
{
    mgpu_vgpu_be(g->first_thread + thread);
    mgpu_vgpu_fail(kind, line, what);
}

/* ---- matrices in shared memory */

/* The byte in shared memory of an element: row of A or column of B (mn), and k. Table of canonical layouts: without swizzling 8 x
 * 16 bytes are together, with swizzling 8 lines of `width` bytes, along K or, transposed, along mn. */
static uint32_t place_of(uint64_t descriptor, bool transposed, int bytes, int mn, int k)
{
    static const uint32_t widths[] = {16, 128, 64, 32};
    uint32_t start = (uint32_t)(descriptor & 0x3FFF) << 4, leading = (uint32_t)(descriptor >> 16 & 0x3FFF) << 4;
    uint32_t stride = (uint32_t)(descriptor >> 32 & 0x3FFF) << 4, mode = (uint32_t)(descriptor >> 62), width = widths[mode];
    uint32_t along = (uint32_t)((transposed ? mn : k) * bytes), line = (uint32_t)(transposed ? k : mn);
    uint32_t far_along = along / width, far_line = line / 8;
    uint32_t at = start + along % width + line % 8 * width;
    bool swapped = transposed && mode == 0;
    at += swapped ? far_along * stride + far_line * leading : far_along * leading + far_line * stride;
    return at ^ (at >> 7 & (width / 16 - 1)) << 4;
}

/* 16 bytes of shared memory, as the asynchronous proxy reads them for a warp */
static void load_async(uint32_t at, int line)
{
    const char *address = mgpu_vgpu_n.shared + at;
    for (uint32_t word = at / 4; word < at / 4 + 4; word++)
        if (ptx_stored[word].fences == ptx_fences[ptx_stored[word].thread] && ptx_stored[word].fences != 0)
            mgpu_vgpu_fail("proxy", line,
                           "it reads shared memory that a thread has stored and not passed on by fence.proxy.async");
    MGPU_VGPU_ACCESS(address, 16, MGPU_VGPU_LOAD);
}

/* reader: a warp; -1: all four read it; -2: nobody does, who only looks */
static void read_chunk(const Group *g, const Product *p, int matrix, int mn, int k, int reader, uint32_t *bits, int next)
{
    int bytes = p->m->type == PTX_TF32 ? 4 : 2, count = 16 / bytes;
    uint32_t at = place_of(p->descriptor[matrix], p->m->transposed[matrix], bytes, mn, k);
    if (at + 16 > mgpu_vgpu_e.launch->shared_bytes)
        fail_as(g, 0, "bounds", p->line, "a matrix of wgmma is outside of the block's shared memory");
    for (int warp = 0; warp < 4 && mgpu_vgpu_e.launch->access; warp++)
        if (reader == -1 || reader == warp) {
            mgpu_vgpu_be(g->first_thread + 32 * (unsigned)warp);
            load_async(at, p->line);
        }
    for (int i = 0; i < count; i++) {
        uint32_t own = 0;
        memcpy(&own, mgpu_vgpu_n.shared + at + i * bytes, (size_t)bytes);
        bits[i * next] = own;
    }
}

/* matrix 0: A, of which a warp reads its own 16 rows; 1: B, which all of them read */
static void read_matrix(const Group *g, const Product *p, int matrix, bool looks, uint32_t (*bits)[GROUP_DEPTH])
{
    int rows = matrix == 0 ? GROUP_ROWS : p->m->n, chunk = p->m->type == PTX_TF32 ? 4 : 8;
    bool transposed = p->m->transposed[matrix];
    ptx_line = p->line;
    for (int mn = 0; mn < rows; mn += transposed ? chunk : 1)
        for (int k = 0; k < p->m->k; k += transposed ? 1 : chunk)
            read_chunk(g, p, matrix, mn, k, looks ? -2 : matrix == 0 ? mn / 16 : -1, &bits[mn][k], transposed ? GROUP_DEPTH : 1);
}

static void check_descriptor(const Group *g, uint64_t d, int line)
{
    const uint64_t none =
        ~(UINT64_C(0x3FFF) | UINT64_C(0x3FFF) << 16 | UINT64_C(0x3FFF) << 32 | UINT64_C(7) << 49 | UINT64_C(3) << 62);
    if (d & none)
        fail_as(g, 0, "alignment", line, "bits of a matrix descriptor are set that mean nothing");
    if (d >> 49 & 7)
        fail_as(g, 0, "alignment", line,
                "the virtual GPU knows no matrix descriptor with a base offset: patterns begin at multiples of 1024 bytes");
}

/* ---- issue */

/* where fragments are: figures of wgmma.m64nNk16 and m64nNk8; thread of the warpgroup */
static int row_of(unsigned thread, int i) { return (int)(thread / 32 * 16 + thread % 32 / 4) + i % 4 / 2 * 8; }
static int column_of(unsigned thread, int i) { return i / 4 * 8 + (int)(thread % 4) * 2 + i % 2; }

static void read_fragments(const Group *g, Product *p)
{
    for (unsigned t = 0; t < GROUP; t++)
        for (int r = 0; r < 4; r++) {
            uint32_t own = g->thread[t].registers[p->m->a[r]];
            int row = (int)(t / 32 * 16 + t % 32 / 4) + r % 2 * 8, column = (int)(t % 4);
            if (own == PTX_NEVER_SET)
                fail_as(g, t, "uninitialised", p->line, "a register of A was never set");
            if (own == PTX_IN_FLIGHT)
                fail_as(g, t, "wgmma", p->line, "a register of A is an accumulator of a wgmma in flight");
            p->fragment[t][r] = own;
            if (p->m->type == PTX_TF32)
                p->a[row][column + r / 2 * 4] = own;
            else
                for (int half = 0; half < 2; half++)
                    p->a[row][2 * column + half + r / 2 * 8] = own >> 16 * half & 0xFFFFu;
        }
}

/* the product in flight whose accumulators these are; NULL: nobody's. Products of one shape may follow each other without a
 * wait */
static const Product *earlier_of(const Group *g, const Product *p)
{
    const Product *found = NULL;
    for (const Product *q = g->first; q; q = q->next) {
        bool same =
            q->m->n == p->m->n && q->m->k == p->m->k && memcmp(q->m->d, p->m->d, (size_t)p->m->n / 2 * sizeof *p->m->d) == 0;
        for (int i = 0; i < p->m->n / 2 && !same; i++)
            for (int j = 0; j < q->m->n / 2; j++)
                if (p->m->d[i] == q->m->d[j])
                    fail_as(g, 0, "wgmma", p->line,
                            "its accumulators are also those of another wgmma in flight, in another shape");
        found = same ? q : found;
    }
    return found;
}

static void check_registers(const Group *g, const Product *p, const Product *earlier)
{
    for (unsigned t = 0; t < GROUP; t++) {
        const uint32_t *registers = g->thread[t].registers;
        for (int i = 0; i < p->m->n / 2; i++) {
            int r = p->m->d[i];
            if (!earlier && g->thread[t].touched[r])
                fail_as(g, t, "wgmma", p->line, "an accumulator was read or written since the last wgmma.fence");
            if (earlier && registers[r] != PTX_IN_FLIGHT)
                fail_as(g, t, "wgmma", p->line, "an accumulator was written while a wgmma was in flight");
            if (!earlier && g->thread[t].adds && registers[r] == PTX_NEVER_SET)
                fail_as(g, t, "uninitialised", p->line, "an accumulator was never set");
        }
        for (int r = 0; r < 4 && p->m->a; r++)
            if (g->thread[t].touched[p->m->a[r]])
                fail_as(g, t, "wgmma", p->line, "a register of A was read or written since the last wgmma.fence");
    }
}

/* Products are exact, sums are of more than single precision and rounded once: the manual leaves order and rounding open */
static void multiply_group(const Group *g, Product *p, const Product *earlier)
{
    static double a[GROUP_ROWS][GROUP_DEPTH], b[GROUP_DEPTH][GROUP_COLUMNS], sum[GROUP_ROWS][GROUP_COLUMNS];
    const PtxGroupMatrices *m = p->m;
    for (int k = 0; k < m->k; k++) {
        for (int row = 0; row < GROUP_ROWS; row++)
            a[row][k] = (m->negated[0] ? -1 : 1) * (double)element(m->type, p->a[row][k], 0);
        for (int column = 0; column < m->n; column++)
            b[k][column] = (m->negated[1] ? -1 : 1) * (double)element(m->type, p->b[column][k], 0);
    }
    for (int row = 0; row < GROUP_ROWS; row++) {
        memset(sum[row], 0, sizeof sum[row]);
        for (int k = 0; k < m->k; k++)
            for (int column = 0; column < m->n; column++)
                sum[row][column] += a[row][k] * b[k][column];
    }
    for (unsigned t = 0; t < GROUP; t++)
        for (int i = 0; i < m->n / 2; i++) {
            uint32_t *own = &g->thread[t].registers[m->d[i]];
            float before = !g->thread[t].adds ? 0 : earlier ? earlier->d[t][i] : ptx_float(*own);
            p->d[t][i] = (float)(sum[row_of(t, i)][column_of(t, i)] + (double)before);
            *own = PTX_IN_FLIGHT;
        }
}

static void issue(Group *g, const PtxGroupMatrices *m, int line)
{
    Product **last = &g->first, *p = (Product *)calloc(1, sizeof *p);
    if (!p)
        mgpu_vgpu_no_memory();
    for (unsigned t = 1; t < GROUP; t++)
        if (memcmp(g->thread[t].descriptor, g->thread[0].descriptor, sizeof g->thread[0].descriptor) != 0 ||
            g->thread[t].adds != g->thread[0].adds)
            fail_as(g, t, "lanes", line, "the threads of a warpgroup have different matrix descriptors, or another scale-d");
    *p = {.m = m, .line = line, .commit = g->commits, .descriptor = {g->thread[0].descriptor[0], g->thread[0].descriptor[1]}};
    const Product *earlier = earlier_of(g, p);
    check_registers(g, p, earlier);
    for (int matrix = m->a != NULL; matrix < 2; matrix++) {
        check_descriptor(g, p->descriptor[matrix], line);
        read_matrix(g, p, matrix, false, matrix ? p->b : p->a);
    }
    if (m->a)
        read_fragments(g, p);
    multiply_group(g, p, earlier);
    while (*last)
        last = &(*last)->next;
    *last = p;
}

static void ptx_group_multiply(const PtxGroupMatrices *m, uint32_t *registers, const unsigned char *touched, uint64_t a,
                               uint64_t b, int adds, int line)
{
    groups[mgpu_vgpu_n.thread / GROUP].thread[mgpu_vgpu_n.thread % GROUP] = {registers, touched, {a, b}, adds != 0};
    unsigned self = mgpu_vgpu_n.thread;
    if (Group *g = arrive(line)) {
        issue(g, m, line);
        go_on(g, self);
    }
}

/* ---- wait */

static void check_unchanged(const Group *g, Product *p)
{
    static uint32_t now[GROUP_COLUMNS][GROUP_DEPTH];
    for (int matrix = p->m->a != NULL; matrix < 2 && mgpu_vgpu_e.launch->access; matrix++) {
        memset(now, 0, sizeof now);
        read_matrix(g, p, matrix, true, now);
        if (memcmp(now, matrix ? p->b : p->a, matrix ? sizeof p->b : sizeof p->a) != 0)
            fail_as(g, 0, "wgmma", p->line, "shared memory that it reads was written while it was in flight");
        read_matrix(g, p, matrix, false, now);
    }
    for (unsigned t = 0; t < GROUP && p->m->a; t++)
        for (int r = 0; r < 4; r++)
            if (g->thread[t].registers[p->m->a[r]] != p->fragment[t][r])
                fail_as(g, t, "wgmma", p->line, "a register of A was written while it was in flight");
}

static void land(Group *g, Product *p)
{
    bool goes_on = false; /* with these accumulators */
    check_unchanged(g, p);
    for (const Product *q = p->next; q; q = q->next)
        goes_on = goes_on || q->m->d[0] == p->m->d[0];
    for (unsigned t = 0; t < GROUP && !goes_on; t++)
        for (int i = 0; i < p->m->n / 2; i++) {
            uint32_t *own = &g->thread[t].registers[p->m->d[i]];
            if (*own != PTX_IN_FLIGHT)
                fail_as(g, t, "wgmma", p->line, "an accumulator was written while it was in flight");
            *own = ptx_bits(p->d[t][i]);
        }
    g->first = p->next;
    free(p);
}

static void ptx_group_wait(unsigned left, int line)
{
    unsigned self = mgpu_vgpu_n.thread;
    if (Group *g = arrive(line)) {
        while (g->first && g->first->commit + (int)left < g->commits)
            land(g, g->first);
        go_on(g, self);
    }
}

/* ---- kernels with wgmma */

static void end_group_thread(void)
{
    const Product *p = groups[mgpu_vgpu_n.thread / GROUP].first;
    if (p)
        mgpu_vgpu_fail("wgmma", p->line, "the thread ended and had not waited for it");
}

/* what a launch that failed has left */
static void reset_groups(void)
{
    for (Group &g : groups) {
        for (Product *next, *p = g.first; p; p = next) {
            next = p->next;
            free(p);
        }
        g = {};
    }
    for (uint32_t &fences : ptx_fences)
        fences = 1;
    memset(ptx_stored, 0, sizeof ptx_stored);
}
#endif
