/* count.c: what kernels in PTX ask memory for, counted: MGPU_VGPU_COUNT=FILE. Lanes of a warp that come to an instruction for the
 * same time are one request of it, as on a GPU whose lanes go together. Of a request count
 *   sectors      pieces of 32 bytes of global memory that it touches; least: as many as its bytes fill
 *   wavefronts   turns that shared memory takes: in one, each of 32 banks gives one word of 4 bytes. Accesses of 8 bytes go by
 *                half a warp, of 16 by a fourth; least: one for each such group
 * (CUDA programming guide, "Device memory accesses", "Shared memory"; Nsight Compute has the words.) What caches keep is not
 * known.
 *
 * A few blocks of a kernel are run, all of the same size apart, and each kernel runs so twice: MGPU_VGPU_BLOCKS=N (4). Everything
 * else is left out, so numbers that the program computes mean nothing. MGPU_VGPU_BLOCKS=all runs and counts everything. */
#include "tests/vgpu/vgpu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WARP = MGPU_VGPU_WARP, SECTOR = 32, BANKS = 32, RUNS = 2 /* of a kernel */, FEW = 4 /* blocks */ };

typedef struct Request {
    uint32_t came;
    uint64_t at[WARP];
    uint8_t bytes[WARP];
} Request;
/* of a warp: those that not all lanes have come to yet, from the one of time `first` on */
typedef struct Queue {
    Request *request;
    uint64_t first;
    size_t count, room;
} Queue;
typedef struct Site { /* an instruction that loads, or stores */
    int line, how;
    bool shared;
    uint64_t requests, lanes, bytes, units, least; /* units: sectors or wavefronts */
    uint32_t times[MGPU_VGPU_THREADS];             /* that each thread of the block came */
    Queue queue[MGPU_VGPU_WARPS];
    int next; /* of the same line; -1: none */
} Site;
typedef struct Counted {          /* a kernel */
    const char *name, *operation; /* the function; the first that ran it, NULL: not told */
    int runs;
    uint64_t blocks;
    Site **site;
    int sites;
    int *of_line;
    size_t lines; /* its first site; -1: none */
    uint64_t *touched;
    size_t touched_count, touched_room; /* sectors of global memory, a hash table */
    double operands;                    /* bytes that launches declare */
} Counted;

static Counted *counted;
static int count;
static Counted *at; /* the kernel that runs */
static struct {
    bool known;
    const char *path;
    unsigned long blocks; /* 0: all */
} asked;

static void *grown(void *memory, size_t bytes)
{
    void *p = realloc(memory, bytes);
    if (!p)
        abort();
    return p;
}

bool vgpu_counts(void)
{
    if (!asked.known) {
        const char *blocks = getenv("MGPU_VGPU_BLOCKS");
        asked.path = getenv("MGPU_VGPU_COUNT");
        asked.blocks = !blocks ? FEW : strcmp(blocks, "all") == 0 ? 0 : strtoul(blocks, NULL, 10);
        asked.known = true;
    }
    return asked.path != NULL;
}
bool vgpu_leaves_out(void) { return vgpu_counts() && asked.blocks; }

/* ---- one request */

/* distinct numbers among them */
static unsigned distinct(uint64_t *x, unsigned n)
{
    unsigned found = 0;
    for (unsigned i = 0, k; i < n; i++) {
        for (k = 0; k < found && x[k] != x[i]; k++)
            ;
        x[found] = x[i];
        found += k == found;
    }
    return found;
}

static void touch_sector(uint64_t sector)
{
    if (2 * at->touched_count >= at->touched_room) {
        size_t room = at->touched_room ? 2 * at->touched_room : 1 << 12;
        uint64_t *old = at->touched, *all = calloc(room, sizeof *all);
        if (!all)
            abort();
        for (size_t k = 0; k < at->touched_room; k++)
            if (old[k]) {
                size_t to = old[k] * 0x9E3779B97F4A7C15u >> 20 & (room - 1);
                while (all[to])
                    to = (to + 1) & (room - 1);
                all[to] = old[k];
            }
        free(old);
        at->touched = all;
        at->touched_room = room;
    }
    size_t to = sector * 0x9E3779B97F4A7C15u >> 20 & (at->touched_room - 1);
    while (at->touched[to] && at->touched[to] != sector)
        to = (to + 1) & (at->touched_room - 1);
    at->touched_count += !at->touched[to];
    at->touched[to] = sector;
}

static void count_sectors(Site *s, const Request *r)
{
    uint64_t sectors[2 * WARP + 2 * WARP], starts[WARP];
    unsigned n = 0, lanes = 0, most = 0;
    for (int lane = 0; lane < WARP; lane++) {
        if (!(r->came >> lane & 1) || !r->bytes[lane])
            continue;
        for (uint64_t k = r->at[lane] / SECTOR; k <= (r->at[lane] + r->bytes[lane] - 1) / SECTOR; k++)
            sectors[n++] = k;
        starts[lanes++] = r->at[lane];
        most = r->bytes[lane] > most ? r->bytes[lane] : most;
        s->bytes += r->bytes[lane];
    }
    if (!lanes)
        return;
    n = distinct(sectors, n);
    s->units += n;
    s->least += (distinct(starts, lanes) * most + SECTOR - 1) / SECTOR;
    for (unsigned k = 0; k < n; k++)
        touch_sector(sectors[k]);
}

static void count_wavefronts(Site *s, const Request *r)
{
    unsigned most = 4;
    for (int lane = 0; lane < WARP; lane++)
        most = r->came >> lane & 1 && r->bytes[lane] > most ? r->bytes[lane] : most;
    int group = WARP * 4 / (int)most;
    for (int begin = 0; begin < WARP; begin += group) {
        uint64_t words[4 * WARP];
        unsigned n = 0, of_bank[BANKS] = {0}, turns = 0;
        for (int lane = begin; lane < begin + group; lane++) {
            if (!(r->came >> lane & 1) || !r->bytes[lane])
                continue;
            for (uint64_t k = r->at[lane] / 4; k <= (r->at[lane] + r->bytes[lane] - 1) / 4; k++)
                words[n++] = k;
            s->bytes += r->bytes[lane];
        }
        n = distinct(words, n);
        for (unsigned k = 0; k < n; k++) {
            unsigned bank = (unsigned)(words[k] % BANKS);
            turns = ++of_bank[bank] > turns ? of_bank[bank] : turns;
        }
        s->units += turns;
        s->least += n > 0;
    }
}

static void settle(Site *s, const Request *r)
{
    if (!r->came)
        return;
    s->requests++;
    s->lanes += (unsigned)__builtin_popcount(r->came);
    if (s->shared)
        count_wavefronts(s, r);
    else
        count_sectors(s, r);
}

/* ---- whose it is */

static Site *site_of(int line, int how, bool shared)
{
    if ((size_t)line >= at->lines) {
        size_t lines = 2 * (size_t)line + 64;
        at->of_line = grown(at->of_line, lines * sizeof *at->of_line);
        for (size_t k = at->lines; k < lines; k++)
            at->of_line[k] = -1;
        at->lines = lines;
    }
    for (int k = at->of_line[line]; k >= 0; k = at->site[k]->next)
        if (at->site[k]->how == how && at->site[k]->shared == shared)
            return at->site[k];
    Site *s = calloc(1, sizeof *s);
    if (!s)
        abort();
    *s = (Site){.line = line, .how = how, .shared = shared, .next = at->of_line[line]};
    at->site = grown(at->site, (size_t)(at->sites + 1) * sizeof *at->site);
    at->site[at->sites] = s;
    at->of_line[line] = at->sites++;
    return s;
}

static Request *request_of(Queue *q, uint64_t time)
{
    size_t k = (size_t)(time - q->first);
    if (k >= q->room) {
        q->room = 2 * k + 8;
        q->request = grown(q->request, q->room * sizeof *q->request);
    }
    if (k >= q->count) {
        memset(&q->request[q->count], 0, (k + 1 - q->count) * sizeof *q->request);
        q->count = k + 1;
    }
    return &q->request[k];
}

static void count_access(Launch *l, const void *address, unsigned bytes, int how, int line)
{
    const mgpu_vgpu_now *n = l->now;
    uintptr_t a = (uintptr_t)address;
    bool shared =
        a - (uintptr_t)n->shared < MGPU_VGPU_SHARED || a - (uintptr_t)n->statics < (uintptr_t)(n->statics_end - n->statics);
    Site *s = site_of(line, how & MGPU_VGPU_HOW, shared);
    unsigned threads = l->block[0] * l->block[1] * l->block[2], warp = n->thread / WARP, lane = n->thread % WARP;
    uint32_t whole = threads - warp * WARP >= WARP ? ~0u : (1u << (threads - warp * WARP)) - 1;
    Queue *q = &s->queue[warp];
    Request *r = request_of(q, s->times[n->thread]++);
    r->came |= 1u << lane;
    r->at[lane] = a;
    r->bytes[lane] = (uint8_t)bytes;
    size_t done = 0;
    while (done < q->count && q->request[done].came == whole)
        settle(s, &q->request[done++]);
    if (done) {
        q->count -= done;
        q->first += done;
        memmove(q->request, q->request + done, q->count * sizeof *q->request);
    }
}

/* the block is done: some lanes did not come to what is left */
static void end_block(void)
{
    for (int k = 0; at && k < at->sites; k++) {
        Site *s = at->site[k];
        memset(s->times, 0, sizeof s->times);
        for (int w = 0; w < MGPU_VGPU_WARPS; w++) {
            Queue *q = &s->queue[w];
            for (size_t i = 0; i < q->count; i++)
                settle(s, &q->request[i]);
            q->count = 0;
            q->first = 0;
        }
    }
}

static void begin_block(Launch *l)
{
    end_block();
    at->blocks++;
    vgpu_begin_block(l);
}

/* with most that would compute them left out, addresses may be anything */
static int is_outside(Launch *l, const void *address, unsigned bytes, int how, const void *place)
{
    const mgpu_vgpu_now *n = l->now;
    uintptr_t a = (uintptr_t)address;
    const Allocation *m;
    (void)how, (void)place;
    if (a - (uintptr_t)n->shared < MGPU_VGPU_SHARED || a - (uintptr_t)n->statics < (uintptr_t)(n->statics_end - n->statics))
        return 0;
    return !((m = vgpu_find(a)) && !m->freed && a + bytes <= m->base + m->bytes);
}

/* ---- launches */

/* false: this one is left out */
bool vgpu_begin_count(const Op *op, Launch *l)
{
    static bool closes;
    int k;
    for (k = 0; k < count && strcmp(counted[k].name, l->name) != 0; k++)
        ;
    if (k == count) {
        counted = grown(counted, (size_t)++count * sizeof *counted);
        counted[k] = (Counted){.name = l->name, .operation = op->work.label ? op->work.label->name : NULL};
    }
    if (asked.blocks && counted[k].runs == RUNS)
        return false;
    if (!closes)
        atexit(vgpu_write_counts);
    closes = true;
    at = &counted[k];
    at->runs++;
    for (int i = 0; op->work.label && i < op->work.label->count; i++)
        at->operands += (double)(op->work.label->ranges[i].end - op->work.label->ranges[i].begin);
    l->count = count_access;
    l->begin_block = begin_block;
    l->most_blocks = asked.blocks;
    if (asked.blocks) {
        l->seed = 0;
        l->access = is_outside;
    }
    return true;
}

void vgpu_end_count(void)
{
    end_block();
    at = NULL;
}

static int by_line(const void *a, const void *b)
{
    const Site *x = *(Site *const *)a, *y = *(Site *const *)b;
    return x->line != y->line ? (x->line < y->line ? -1 : 1) : (x->how > y->how) - (x->how < y->how);
}

void vgpu_write_counts(void)
{
    static const char *const names[] = {"load", "store", "update", "load"};
    FILE *f = fopen(asked.path, "w");
    if (!f) {
        fprintf(stderr, "virtual GPU: cannot write %s\n", asked.path);
        return;
    }
    fputs("kernel\toperation\tline\tmemory\twhat\trequests\tlanes\tbytes\tunits\tleast\n", f);
    for (int k = 0; k < count; k++) {
        const Counted *c = &counted[k];
        const char *operation = c->operation ? c->operation : "-";
        if (!asked.blocks)
            fprintf(f, "%s\t%s\t0\tglobal\ttouched\t%d\t%llu\t%.0f\t%zu\t%.0f\n", c->name, operation, c->runs,
                    (unsigned long long)c->blocks, c->operands, c->touched_count, c->operands / SECTOR);
        qsort(c->site, (size_t)c->sites, sizeof *c->site, by_line);
        for (int i = 0; i < c->sites; i++) {
            const Site *s = c->site[i];
            fprintf(f, "%s\t%s\t%d\t%s\t%s\t%llu\t%llu\t%llu\t%llu\t%llu\n", c->name, operation, s->line,
                    s->shared ? "shared" : "global", names[s->how], (unsigned long long)s->requests, (unsigned long long)s->lanes,
                    (unsigned long long)s->bytes, (unsigned long long)s->units, (unsigned long long)s->least);
        }
    }
    fclose(f);
}
