/* check.c: every load and store of a kernel that is built to be asked: is it inside an allocation of the device, was it
 * declared, has somebody written what it reads, and does what it conflicts with come before it: an Op by an edge, a block of
 * the same launch never, a thread of the same block by a barrier.
 *
 * Of every 4 bytes the last write and the last read are known; of single bytes where accesses are smaller. */
#include "tests/vgpu/vgpu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* clang-format off */
enum { THREAD = 1023, SPLIT = 1024 /* words: their bytes are in parts */, WARP = 2048, BLOCK = 4096, GRID = 8192 /* reads: by several
       threads of one warp, warps of one block, blocks */, ATOMIC = 16384, SYSTEM = 32768 /* a write: relaxed, of system scope */ };
/* clang-format on */
enum { ACTORS = 1 << 16 };

bool vgpu_all_checked = true, vgpu_some_checked;

static uint32_t serial; /* of the block that runs */
static struct {
    uint32_t first;
    Actor actor;
} actors[ACTORS]; /* from `first` on blocks are theirs; a ring */
static uint32_t actor_count;
static struct {
    Op *op;
    Launch *launch;
    uint32_t first;         /* serial of its first block */
    CudaRange *recent[3];   /* [CUDA_...]: that the last load, store, access of system scope was in */
    Allocation *allocation; /* that this access is in */
    Allocation *last[2];    /* that the last load, store was in */
    struct {
        uint32_t first, end;
        bool before;
    } known[3]; /* serials of other Ops, and whether they came before */
} now;

static uint32_t next_actor(Op *op)
{
    serial++;
    actors[actor_count % ACTORS].first = serial;
    actors[actor_count++ % ACTORS].actor = vgpu_actor(op);
    memset(now.known, 0, sizeof now.known);
    return serial;
}

/* whose serial s is, and all of [*first, *end); NULL: too long ago */
static const Actor *actor_of(uint32_t s, uint32_t *first, uint32_t *end)
{
    uint32_t low = actor_count > ACTORS ? actor_count - ACTORS : 0, high = actor_count; /* low's first <= s < high's */
    *first = *end = 0;
    if (low == high || actors[low % ACTORS].first > s)
        return NULL;
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        if (actors[middle % ACTORS].first <= s)
            low = middle;
        else
            high = middle;
    }
    *first = actors[low % ACTORS].first;
    *end = high == actor_count ? UINT32_MAX : actors[high % ACTORS].first;
    return &actors[low % ACTORS].actor;
}

/* ---- what is wrong */

typedef struct Access {
    uintptr_t at;
    unsigned bytes;
    int how;
    const void *place;
} Access;

static int say(const Access *a, const char *kind, const char *format, const char *more)
{
    char by[160], where[200], place[200], what[300];
    Actor me = vgpu_actor(now.op);
    const mgpu_vgpu_now *n = now.launch->now;
    const char *name = NULL;
    for (int k = 0; now.op->work.label && k < now.op->work.label->count; k++)
        if (a->at >= now.op->work.label->ranges[k].begin && a->at < now.op->work.label->ranges[k].end)
            name = now.op->work.label->ranges[k].name;
    vgpu_describe(a->at, where, sizeof where);
    if (a->at - (uintptr_t)n->shared < MGPU_VGPU_SHARED)
        snprintf(where, sizeof where, "byte %zu of %u of dynamic shared memory", (size_t)(a->at - (uintptr_t)n->shared),
                 now.launch->shared_bytes);
    else if (a->at - (uintptr_t)n->statics < (uintptr_t)(n->statics_end - n->statics))
        snprintf(where, sizeof where, "shared memory");
    vgpu_place(a->place, place, sizeof place);
    snprintf(what, sizeof what, format, more);
    vgpu_violation(now.op->work.device, strcmp(kind, "bounds") == 0 ? CUDA_ERROR_ILLEGAL_ADDRESS : CUDA_ERROR_LAUNCH_FAILED, kind,
                   "%s, %s, block %llu, thread %u %s %u bytes, %s%s%s: %s", vgpu_name(&me, by, sizeof by), place,
                   (unsigned long long)n->block, n->thread,
                   a->how == MGPU_VGPU_STORE || a->how == MGPU_VGPU_SYSTEM_STORE ? "stores"
                   : a->how == MGPU_VGPU_ATOMIC                                  ? "updates"
                                                                                 : "loads",
                   a->bytes, where, name ? " in " : "", name ? name : "", what);
    return 1;
}

static int race(const Access *a, const char *scope, const char *did, unsigned thread, uint32_t of)
{
    char text[200], by[160];
    uint32_t first, end;
    const Actor *other = actor_of(of, &first, &end);
    if (strcmp(scope, "operation") == 0)
        snprintf(text, sizeof text, "%s has %s it, and nothing makes this wait for that",
                 other ? vgpu_name(other, by, sizeof by) : "another", did);
    else if (strcmp(scope, "block") == 0)
        snprintf(text, sizeof text, "another block of this launch has %s it", did);
    else
        snprintf(text, sizeof text, "thread %u of this block has %s it, and no barrier stands between", thread, did);
    return say(a, strcmp(scope, "operation") == 0 ? "race" : strcmp(scope, "block") == 0 ? "blocks" : "barrier", "%s", text);
}

/* ---- one cell */

/* which: what is loaded, 0, and what is overwritten, 1, tends to have been written by one Op, and read by one, 2 */
static bool came_before(uint32_t other, int which)
{
    if (other < now.known[which].first || other >= now.known[which].end) {
        const Actor *actor = actor_of(other, &now.known[which].first, &now.known[which].end);
        now.known[which].before = !actor || vgpu_before(actor->chain, actor->time, now.op->clock);
    }
    return now.known[which].before;
}

/* what thread `by` of this block did at `time`; flags: several threads of its warp, several warps did */
static bool ordered(uint32_t time, unsigned by, const uint32_t *warp_time)
{
    const mgpu_vgpu_now *n = now.launch->now;
    unsigned thread = by & THREAD, warp = n->thread / MGPU_VGPU_WARP;
    if (time < n->block_time || (thread == n->thread && !(by & (WARP | BLOCK))))
        return true;
    return !(by & BLOCK) && thread / MGPU_VGPU_WARP == warp && time < warp_time[warp];
}

static int load(Cell *c, const Access *a, bool shared)
{
    const mgpu_vgpu_now *n = now.launch->now;
    bool here = c->write_serial == serial;
    if (c->write_serial == 0 || (shared && !here)) {
        if (shared || (vgpu_all_checked && !now.allocation->cells.unknown))
            return say(a, "uninitialised", "%s",
                       shared ? "no thread of this block has stored it" : "nothing has been written there");
    } else if (here) {
        if (!ordered(c->write_time, c->write_thread, n->warp_time) && !(c->write_thread & ATOMIC && a->how == MGPU_VGPU_ATOMIC))
            return race(a, "thread", "written", c->write_thread & THREAD, serial);
    } else if (c->write_serial >= now.first) {
        if (!(c->write_thread & ATOMIC && a->how == MGPU_VGPU_ATOMIC))
            return race(a, "block", "written", 0, c->write_serial);
    } else if (!came_before(c->write_serial, 0))
        return race(a, "operation", "written", 0, c->write_serial);
    if (a->how == MGPU_VGPU_CONSTANT_LOAD && !shared && c->write_serial >= now.first)
        return say(a, "constant", "%s", "__ldg of what this launch writes");
    unsigned flags = 0;
    if (c->read_serial == serial && !ordered(c->read_time, c->read_thread, n->warp_met)) {
        unsigned other = c->read_thread & THREAD;
        flags = c->read_thread & (WARP | BLOCK | GRID);
        flags |= other / MGPU_VGPU_WARP != n->thread / MGPU_VGPU_WARP ? BLOCK : other != n->thread ? WARP : 0;
    } else if (c->read_serial != serial && c->read_serial >= now.first)
        flags = GRID;
    else if (c->read_serial == serial)
        flags = c->read_thread & GRID;
    c->read_serial = serial;
    c->read_time = n->time;
    c->read_thread = (uint16_t)((n->thread & THREAD) | flags);
    return 0;
}

static int store(Cell *c, const Access *a, bool shared)
{
    bool atomic = a->how == MGPU_VGPU_ATOMIC;
    const mgpu_vgpu_now *n = now.launch->now;
    if (c->write_serial == serial) {
        if (!ordered(c->write_time, c->write_thread, n->warp_time) && !(atomic && c->write_thread & ATOMIC))
            return race(a, "thread", "written", c->write_thread & THREAD, serial);
    } else if (!shared && c->write_serial >= now.first) {
        if (!(atomic && c->write_thread & ATOMIC))
            return race(a, "block", "written", 0, c->write_serial);
    } else if (!shared && c->write_serial && !came_before(c->write_serial, 1))
        return race(a, "operation", "written", 0, c->write_serial);
    bool recent = c->read_serial >= now.first && !shared;
    if (c->read_serial == serial && !ordered(c->read_time, c->read_thread, n->warp_met) && !(atomic && c->write_thread & ATOMIC))
        return race(a, "thread", "read", c->read_thread & THREAD, serial);
    if (recent && (c->read_serial != serial || c->read_thread & GRID) && !(atomic && c->write_thread & ATOMIC))
        return race(a, "block", "read", 0, c->read_serial);
    if (!shared && c->read_serial && c->read_serial < now.first && !came_before(c->read_serial, 2))
        return race(a, "operation", "read", 0, c->read_serial);
    c->write_serial = serial;
    c->write_time = n->time;
    c->write_thread = (uint16_t)((n->thread & THREAD) | (atomic ? ATOMIC : 0u));
    return 0;
}

static bool is_of_system(const Access *a) { return a->how == MGPU_VGPU_SYSTEM_LOAD || a->how == MGPU_VGPU_SYSTEM_STORE; }

/* Such accesses do not race with each other, and order nothing else. */
static int touch_system(Cell *c, const Access *a)
{
    if (c->write_serial == 0)
        return vgpu_all_checked && !now.allocation->cells.unknown
                   ? say(a, "uninitialised", "%s", "nothing has been written there")
                   : 0;
    if (!(c->write_thread & SYSTEM) && !came_before(c->write_serial, 0))
        return race(a, "operation", "written", 0, c->write_serial);
    if (a->how == MGPU_VGPU_SYSTEM_STORE) {
        if (c->read_serial && !came_before(c->read_serial, 2))
            return race(a, "operation", "read", 0, c->read_serial);
        c->write_serial = serial;
        c->write_time = now.launch->now->time;
        c->write_thread = (uint16_t)((now.launch->now->thread & THREAD) | SYSTEM);
    }
    return 0;
}

static int touch(Cell *c, const Access *a, bool shared)
{
    if (is_of_system(a) && !shared)
        return touch_system(c, a);
    int wrong = a->how != MGPU_VGPU_STORE ? load(c, a, shared) : 0;
    return wrong || (a->how != MGPU_VGPU_STORE && a->how != MGPU_VGPU_ATOMIC) ? wrong : store(c, a, shared);
}

/* a word's cell is that of all its bytes until an access touches only some of them */
static int touch_word(Cells *cells, size_t word, unsigned mask, const Access *a, bool shared)
{
    Cell *c = &cells->words[word], *parts = &cells->parts[4 * word];
    bool whole = mask == 15;
    if (whole && !(c->write_thread & SPLIT))
        return touch(c, a, shared);
    if (!(c->write_thread & SPLIT))
        for (int k = 0; k < 4; k++)
            parts[k] = *c;
    c->write_thread |= SPLIT;
    for (int k = 0; k < 4; k++)
        if (mask >> k & 1 && touch(&parts[k], a, shared))
            return 1;
    if (whole && a->how == MGPU_VGPU_STORE)
        *c = parts[0];
    return 0;
}

static int touch_all(Cells *cells, const Access *a, bool shared)
{
    size_t at = a->at - (cells->base & ~(uintptr_t)3), end = at + a->bytes;
    for (size_t word = at / 4; word < (end + 3) / 4; word++) {
        size_t from = word * 4 < at ? at - word * 4 : 0, to = end - word * 4 < 4 ? end - word * 4 : 4;
        if (touch_word(cells, word, (15u >> (4 - to)) & (15u << from), a, shared))
            return 1;
    }
    return 0;
}

/* ---- one access */

/* it, or an earlier launch of the same operation */
static bool written_by_operation(const Access *a)
{
    const Cells *cells = &now.allocation->cells;
    size_t at = a->at - (cells->base & ~(uintptr_t)3);
    const Cell *c = &cells->words[at / 4];
    c = c->write_thread & SPLIT ? &cells->parts[at] : c;
    uint32_t first, end;
    const Actor *actor = c->write_serial ? actor_of(c->write_serial, &first, &end) : NULL;
    return c->write_serial >= now.first || (actor && actor->operation == now.op->work.label->name);
}

static int check_declared(const Access *a)
{
    const Label *l = now.op->work.label;
    int writes = is_of_system(a)                                           ? CUDA_EXCHANGES
                 : a->how == MGPU_VGPU_STORE || a->how == MGPU_VGPU_ATOMIC ? CUDA_WRITES
                                                                           : CUDA_READS;
    if (!l || l->count < 0)
        return 0;
    CudaRange *r = now.recent[writes];
    if (r && a->at >= r->begin && a->at + a->bytes <= r->end)
        return 0;
    uintptr_t at = a->at; /* ranges may follow each other */
    for (int k = 0; k < l->count && at < a->at + a->bytes; k++) {
        r = &l->ranges[k];
        if (r->writes == writes && at >= r->begin && at < r->end) {
            now.recent[writes] = r;
            at = r->end;
            k = -1;
        }
    }
    if (at >= a->at + a->bytes)
        return 0;
    for (int k = 0; k < l->count && writes == CUDA_READS; k++)
        if (l->ranges[k].writes == CUDA_WRITES && a->at >= l->ranges[k].begin && a->at + a->bytes <= l->ranges[k].end)
            return written_by_operation(a)
                       ? 0
                       : say(a, "undeclared", "%s", "the operation declares that it writes it, and reads it before");
    return say(a, "undeclared", "%s", "the operation does not declare it");
}

static int check_global(const Access *a)
{
    Allocation **last = &now.last[a->how == MGPU_VGPU_STORE], *m = *last;
    if (!m || a->at - m->base >= m->bytes)
        m = *last = vgpu_find(a->at);
    now.allocation = m;
    VirtualDevice *own = now.op->work.device, *of = m ? m->device : NULL;
    const mgpu_vgpu_now *n = now.launch->now;
    if (now.launch->dependent && n->waited[n->thread] != n->blocks_begun)
        return say(a, "dependence", "%s", "the thread has not waited for the kernel before this one (griddepcontrol.wait)");
    if (now.launch->dependent && a->how == MGPU_VGPU_CONSTANT_LOAD)
        return say(a, "dependence", "%s", "by ld.global.nc, which the wait for the kernel before this one does not order");
    if (!m || m->freed || a->at + a->bytes > m->base + m->bytes)
        return say(a, "bounds", "%s", m && m->freed ? "it was freed" : "it is outside all memory");
    if (of && of != own && !own->peer[of->number])
        return say(a, "bounds", "%s", "it belongs to another device, to which access is not enabled");
    int wrong = of ? check_declared(a) : 0;
    return wrong ? wrong : touch_all(&m->cells, a, false);
}

int vgpu_check_access(Launch *launch, const void *address, unsigned bytes, int how, const void *place)
{
    Access a = {(uintptr_t)address, bytes, how & MGPU_VGPU_HOW, place};
    const mgpu_vgpu_now *n = launch->now;
    struct CUmod_st *m = now.op->work.call.function->module;
    uintptr_t in_dynamic = a.at - (uintptr_t)n->shared, in_static = a.at - (uintptr_t)n->statics;
    bool dynamic = in_dynamic < MGPU_VGPU_SHARED, is_static = in_static < (uintptr_t)(n->statics_end - n->statics);
    bool writes = a.how == MGPU_VGPU_STORE || a.how == MGPU_VGPU_ATOMIC;
    if (!dynamic && !is_static && !writes && a.at >= m->begin && a.at < m->end)
        return 0; /* a constant of the module */
    if (!(how & MGPU_VGPU_UNALIGNED) && a.at & (bytes - 1) && (bytes & (bytes - 1)) == 0)
        return say(&a, "alignment", "%s", "the address is not a multiple of the size");
    if (!dynamic && !is_static)
        return check_global(&a);
    if (dynamic && in_dynamic + bytes > launch->shared_bytes)
        return say(&a, "bounds", "%s", "it is behind what the launch asks for");
    Cells *cells = dynamic ? &m->dynamic_cells : &m->static_cells;
    if (!cells->words)
        vgpu_make_cells(cells, (uintptr_t)(dynamic ? n->shared : n->statics),
                        dynamic ? MGPU_VGPU_SHARED : (size_t)(n->statics_end - n->statics));
    return touch_all(cells, &a, true);
}

void vgpu_begin_launch(Op *op, Launch *launch)
{
    now.op = op;
    now.launch = launch;
    memset(now.recent, 0, sizeof now.recent);
    now.last[0] = now.last[1] = NULL;
    now.first = next_actor(op);
    serial--; /* the first block takes it */
}

void vgpu_begin_block(Launch *launch)
{
    (void)launch;
    serial++;
}

/* ---- what copies do, which run alone */

static void touch_copy(Cell *c, Op *op, uint32_t self, bool writes)
{
    uint32_t others[] = {c->write_serial, writes ? c->read_serial : 0};
    for (int k = 0; k < 2; k++) {
        uint32_t first, end;
        if (others[k] == 0 || others[k] >= self || came_before(others[k], k + 1))
            continue;
        Actor me = vgpu_actor(op);
        char by[160], with[160];
        vgpu_violation(op->work.device, CUDA_ERROR_LAUNCH_FAILED, "race",
                       "%s %s what %s has %s, and nothing makes it wait for that", vgpu_name(&me, by, sizeof by),
                       writes ? "writes" : "reads", vgpu_name(actor_of(others[k], &first, &end), with, sizeof with),
                       k ? "read" : "written");
    }
    if (writes)
        *c = (Cell){.write_serial = self};
    else {
        c->read_serial = self;
        c->read_time = 0;
        c->read_thread = 0;
    }
}

void vgpu_mark(Op *op, uintptr_t begin, size_t bytes, bool writes)
{
    Allocation *a = vgpu_find(begin);
    if (!a || bytes == 0 || !vgpu_some_checked || vgpu_leaves_out())
        return;
    now.op = op;
    uint32_t self = next_actor(op);
    uintptr_t base = a->cells.base & ~(uintptr_t)3;
    for (size_t at = begin - base, end = at + bytes; at < end;) {
        Cell *word = &a->cells.words[at / 4], *parts = &a->cells.parts[at / 4 * 4];
        bool whole = at % 4 == 0 && end - at >= 4;
        if (whole && !(word->write_thread & SPLIT)) {
            touch_copy(word, op, self, writes);
            at += 4;
            continue;
        }
        for (int k = 0; k < 4 && !(word->write_thread & SPLIT); k++)
            parts[k] = *word;
        word->write_thread |= SPLIT;
        for (size_t k = at % 4, last = end - at + k < 4 ? end - at + k : 4; k < last; k++, at++)
            touch_copy(&parts[k], op, self, writes);
        if (whole && writes)
            *word = parts[0];
    }
}
