/* oracle.c: the token interpreter.
 *
 * In: a schedule and the phases of a few steps. A run is executed on tokens: every write stores, for its range of bytes,
 * a hash of its operation, the step and all tokens that the operation read; REDUCE stores per byte a hash of what all
 * devices had there; READ a hash of its samples. Variables begin with their names, other memory with garbage that is new
 * in every execution. What is left of a run is one number: the tokens of the variables, and all that REPORT and FETCH saw.
 *
 * The operations of all steps are one graph, made from docs/design.md, "Execution of a schedule": the order of the lanes,
 * the waits, the changes of phase, what is owed of the step before, and one node for all members of a collective. The
 * run ends with a step without a phase, which drains. */
#include "tests/mutation/mutation.h"

#include <stdlib.h>
#include <string.h>

uint64_t random_bits(Random *r)
{
    uint64_t z = r->state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

int random_below(Random *r, int n)
{
    return (int)(random_bits(r) % (uint64_t)n);
}

uint64_t mix(uint64_t hash, uint64_t word)
{
    hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
    return hash ^ hash >> 29;
}

static uint64_t hash_text(const char *text)
{
    return hash_bytes(0, text, strlen(text));
}

void choose_run(const Schedule *s, int phase, Random *random, int steps[RUN_STEPS])
{
    int a = random_below(random, s->phase_count), b = random_below(random, s->phase_count);
    const int run[RUN_STEPS] = {a, b, phase, phase, phase, b, phase, a};
    memcpy(steps, run, sizeof run);
}

/* ---- the graph of a run */

typedef struct Region { int first, last; int64_t begin; } Region; /* segments [first, last) from address begin on */
typedef struct Instance {
    int device, step, phase;
    const ScheduledOp *op;      /* NULL: begin or end of a lane's step, or an operation that this step skips */
    Lane lane;
    int node, region;           /* its first one: reads, then writes */
    uint64_t name;              /* hash of what it is */
    bool reported_before;       /* REPORT, FETCH of the step before */
} Instance;
typedef struct Edge { int from, to; } Edge;
typedef struct Memory {         /* of one device: its arena, then its staging arena */
    int64_t *address;           /* of segments; one more at the end */
    int count;
    int64_t staging;            /* where the staging arena begins */
    uint64_t *token;
    int64_t *origin;            /* address of the first byte that the token's write wrote */
} Memory;
typedef struct Kept { uint64_t name; int64_t bytes; Region region; } Kept; /* a variable */

typedef struct Run {
    const Schedule *schedule;
    int steps[RUN_STEPS + 1];   /* the last: -1, no phase */
    Instance *instances; int count;
    Edge *edges; int edge_count;
    int *chain[LANES];          /* [device]: last instance of the lane so far; -1 */
    int *begin_of, *end_of;     /* [step][device][lane] */
    int **at;                   /* [step]: [device x most operations + op] -> instance, -1: none */
    int most_ops;
    /* nodes: members of a collective are one */
    int node_count;
    int *members, *first_member;/* node -> instances */
    int *successors, *first_successor, *degree;
    Memory *memory;             /* by device */
    Region *regions;
    Kept **kept; int *kept_count;
    /* scratch of executions */
    int *order, *ready, *later, *left;
    uint64_t reported;
} Run;

static int step_place(const Run *r, int step, int device, int lane)
{
    return (step * r->schedule->devices + device) * LANES + lane;
}

static void add_edge(Run *r, int from, int to)
{
    if (from < 0)
        return;
    Edge e = {from, to};
    APPEND(r->edges, r->edge_count, e);
}

static int add_instance(Run *r, int step, int device, int phase, Lane lane, const ScheduledOp *op)
{
    Instance i = {.device = device, .step = step, .phase = phase, .op = op, .lane = lane};
    if (op) {
        const DeviceSchedule *d = &r->schedule->phases[phase].devices[device];
        i.reported_before = (op->verb == VERB_REPORT || op->verb == VERB_FETCH) && op->read_count && op->reads[0].slot < 0;
        i.name = mix(mix(mix(hash_text(op->id), (uint64_t)phase), (uint64_t)device), (uint64_t)(step - i.reported_before));
        i.name = mix(mix(mix(i.name, (uint64_t)d->first), (uint64_t)d->share), (uint64_t)d->capacity);
    }
    add_edge(r, r->chain[lane][device], r->count);
    r->chain[lane][device] = r->count;
    APPEND(r->instances, r->count, i);
    return r->count - 1;
}

static bool is_delayed(const ScheduledOp *op)
{
    return (op->verb == VERB_REPORT || op->verb == VERB_FETCH) && op->read_count && op->reads[0].slot < 0;
}

static void settle(Run *r, int step, int device)
{
    int before = step > 0 ? r->steps[step - 1] : -1;
    const DeviceSchedule *d = before >= 0 ? &r->schedule->phases[before].devices[device] : NULL;
    for (int o = 0; d && o < d->op_count; o++)
        if (is_delayed(&d->ops[o]))
            add_instance(r, step, device, before, LANE_HOST, &d->ops[o]);
}

static void add_lane_step(Run *r, int step, int device, Lane lane)
{
    int phase = r->steps[step], place = step_place(r, step, device, (int)lane);
    bool change = step == 0 || phase != r->steps[step - 1], owed = change && lane == LANE_HOST;
    r->begin_of[place] = add_instance(r, step, device, phase, lane, NULL);
    const DeviceSchedule *d = phase >= 0 ? &r->schedule->phases[phase].devices[device] : NULL;
    for (int o = 0; d && o < d->op_count; o++) {
        if (d->ops[o].lane != lane)
            continue;
        bool skip = change && is_delayed(&d->ops[o]);
        if (skip && owed)
            settle(r, step, device);
        owed = owed && !skip;
        r->at[step][device * r->most_ops + o] = add_instance(r, step, device, phase, lane, skip ? NULL : &d->ops[o]);
    }
    if (owed)
        settle(r, step, device);
    r->end_of[place] = add_instance(r, step, device, phase, lane, NULL);
}

static const char *add_waits(Run *r)
{
    for (int i = 0; i < r->count; i++) {
        const Instance *x = &r->instances[i];
        if (!x->op)
            continue;
        const DeviceSchedule *d = &r->schedule->phases[x->phase].devices[x->device];
        for (int w = 0; w < x->op->wait_count; w++) {
            Wait wait = x->op->waits[w];
            int step = x->step - wait.back;
            if (wait.op < 0 || wait.op >= d->op_count || wait.back < 0)
                return "it waits for an operation that does not exist";
            if (step < 0)
                continue;
            bool same = r->steps[step] == x->phase;
            add_edge(r, same ? r->at[step][x->device * r->most_ops + wait.op]
                             : r->end_of[step_place(r, step, x->device, (int)d->ops[wait.op].lane)], i);
        }
    }
    for (int q = 1; q <= RUN_STEPS; q++)
        for (int d = 0; d < r->schedule->devices && r->steps[q] != r->steps[q - 1]; d++) {
            add_edge(r, r->end_of[step_place(r, q - 1, d, LANE_COMM)], r->begin_of[step_place(r, q, d, LANE_COMP)]);
            add_edge(r, r->end_of[step_place(r, q - 1, d, LANE_COMP)], r->begin_of[step_place(r, q, d, LANE_COMM)]);
        }
    return NULL;
}

static const char *join_collectives(Run *r)
{
    const Schedule *s = r->schedule;
    int *node_of[RUN_STEPS];
    for (int q = 0; q < RUN_STEPS; q++) {
        node_of[q] = NEW_ARRAY(int, s->phases[r->steps[q]].collective_count);
        for (int c = 0; c < s->phases[r->steps[q]].collective_count; c++)
            node_of[q][c] = -1;
    }
    for (int i = 0; i < r->count; i++) {
        Instance *x = &r->instances[i];
        bool sums = x->op && x->op->verb == VERB_REDUCE;
        int *known = sums ? &node_of[x->step][x->op->target] : NULL;
        x->node = sums && *known >= 0 ? *known : r->node_count++;
        if (sums)
            *known = x->node;
    }
    int *members = NEW_ARRAY(int, r->node_count);
    r->first_member = NEW_ARRAY(int, r->node_count + 1);
    r->members = NEW_ARRAY(int, r->count);
    for (int i = 0; i < r->count; i++)
        r->first_member[r->instances[i].node + 1]++;
    for (int n = 0; n < r->node_count; n++)
        r->first_member[n + 1] += r->first_member[n];
    for (int i = 0; i < r->count; i++) { /* instances come step by step, device by device: members in order of the devices */
        int n = r->instances[i].node;
        r->members[r->first_member[n] + members[n]++] = i;
    }
    for (int n = 0; n < r->node_count; n++) {
        const Instance *x = &r->instances[r->members[r->first_member[n]]];
        bool sums = x->op && x->op->verb == VERB_REDUCE;
        if (sums && members[n] != s->devices)
            return "a collective lacks a member: it never ends";
        for (int m = 0; m < members[n] && sums; m++) {
            const Instance *y = &r->instances[r->members[r->first_member[n] + m]];
            const Collective *c = &s->phases[y->phase].collectives[y->op->target];
            if (y->device != m)
                return "a device takes part in a collective twice";
            if (y->op->writes[0].end - y->op->writes[0].begin != c->count * dtype_bytes(c->dtype))
                return "a member of a collective has another size";
        }
    }
    return NULL;
}

static void find_successors(Run *r)
{
    r->first_successor = NEW_ARRAY(int, r->node_count + 1);
    r->successors = NEW_ARRAY(int, r->edge_count);
    r->degree = NEW_ARRAY(int, r->node_count);
    int *filled = NEW_ARRAY(int, r->node_count);
    for (int e = 0; e < r->edge_count; e++) {
        r->first_successor[r->instances[r->edges[e].from].node + 1]++;
        r->degree[r->instances[r->edges[e].to].node]++;
    }
    for (int n = 0; n < r->node_count; n++)
        r->first_successor[n + 1] += r->first_successor[n];
    for (int e = 0; e < r->edge_count; e++) {
        int from = r->instances[r->edges[e].from].node;
        r->successors[r->first_successor[from] + filled[from]++] = r->instances[r->edges[e].to].node;
    }
}

/* ---- memory */

static int compare_addresses(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

static void sort_addresses(Memory *m)
{
    int n = 0;
    qsort(m->address, (size_t)m->count, sizeof *m->address, compare_addresses);
    for (int i = 0; i < m->count; i++)
        if (n == 0 || m->address[n - 1] != m->address[i])
            m->address[n++] = m->address[i];
    m->count = n;
}

static int segment_of(const Memory *m, int64_t address) /* the first that begins there or behind */
{
    int low = 0, high = m->count;
    while (low < high) {
        int middle = (low + high) / 2;
        if (m->address[middle] >= address)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

static int64_t access_address(const Run *r, const Instance *x, const Access *a)
{
    const Buffer *b = &r->schedule->phases[x->phase].devices[x->device].buffers[a->buffer];
    int64_t slot = (x->step + 1 + a->slot) % b->slots;
    slot += slot < 0 ? b->slots : 0;
    return b->offset + slot * ((b->bytes + 63) / 64 * 64) + a->begin +
           (b->kind == BUFFER_STAGING ? r->memory[x->device].staging : 0);
}

static const Access *access_of(const ScheduledOp *op, int i)
{
    return i < op->read_count ? &op->reads[i] : &op->writes[i - op->read_count];
}

static int access_count(const ScheduledOp *op)
{
    return op->read_count + op->write_count;
}

static void add_address(Memory *m, int64_t address)
{
    APPEND(m->address, m->count, address);
}

static const char *add_addresses(Run *r)
{
    const Schedule *s = r->schedule;
    for (int d = 0; d < s->devices; d++)
        for (int p = 0; p < s->phase_count; p++)
            if (s->phases[p].devices[d].arena_bytes > r->memory[d].staging)
                r->memory[d].staging = s->phases[p].devices[d].arena_bytes;
    for (int i = 0; i < r->count; i++) {
        const Instance *x = &r->instances[i];
        for (int k = 0; x->op && k < access_count(x->op); k++) {
            const Access *a = access_of(x->op, k);
            const DeviceSchedule *d = &s->phases[x->phase].devices[x->device];
            bool staging = d->buffers[a->buffer].kind == BUFFER_STAGING;
            int64_t begin = access_address(r, x, a), end = begin + a->end - a->begin;
            int64_t arena = staging ? r->memory[x->device].staging : 0;
            if (a->begin < 0 || begin < arena || end < begin || end > arena + (staging ? d->staging_bytes : d->arena_bytes))
                return "it touches memory outside the arena";
            add_address(&r->memory[x->device], begin);
            add_address(&r->memory[x->device], end);
        }
    }
    return NULL;
}

/* the variables of a device, where the first phase that has them has them: the runtime's table */
static void add_kept(Run *r, int device)
{
    const Schedule *s = r->schedule;
    Map known = {0};
    for (int p = 0; p < s->phase_count; p++) {
        const DeviceSchedule *d = &s->phases[p].devices[device];
        for (int b = 0; b < d->buffer_count; b++) {
            const Buffer *buffer = &d->buffers[b];
            if (buffer->kind != BUFFER_VARIABLE || map_get(&known, buffer->name))
                continue;
            map_set(&known, buffer->name, d->buffers + b);
            Kept k = {.name = hash_text(buffer->name), .bytes = buffer->bytes, .region.begin = buffer->offset};
            add_address(&r->memory[device], buffer->offset);
            add_address(&r->memory[device], buffer->offset + buffer->bytes);
            APPEND(r->kept[device], r->kept_count[device], k);
        }
    }
}

/* The members of a collective are summed byte by byte: their segments must be the same, counted from their begins. */
static bool share_bounds(Run *r, const int *members)
{
    const Schedule *s = r->schedule;
    bool added = false;
    int64_t *bounds = NULL, base[64];
    int count = 0;
    if (s->devices > COUNT(base))
        die("the oracle is made for %d devices", COUNT(base));
    for (int d = 0; d < s->devices; d++) {
        const Instance *x = &r->instances[members[d]];
        const Access *a = &x->op->writes[0];
        const Memory *m = &r->memory[d];
        base[d] = access_address(r, x, a);
        for (int i = segment_of(m, base[d]); i < m->count && m->address[i] <= base[d] + a->end - a->begin; i++) {
            int64_t bound = m->address[i] - base[d];
            APPEND(bounds, count, bound);
        }
    }
    for (int d = 0; d < s->devices; d++) {
        Memory *m = &r->memory[d];
        int before = m->count;
        for (int i = 0; i < count; i++) {
            int at = segment_of(m, bounds[i] + base[d]);
            if (at >= before || m->address[at] != bounds[i] + base[d]) {
                int64_t *copy = NEW_ARRAY(int64_t, m->count + 1); /* keeps it sorted for the next look */
                memcpy(copy, m->address, sizeof *copy * (size_t)at);
                copy[at] = bounds[i] + base[d];
                memcpy(copy + at + 1, m->address + at, sizeof *copy * (size_t)(m->count - at));
                m->address = copy;
                before = ++m->count;
                added = true;
            }
        }
    }
    return added;
}

static const char *find_segments(Run *r)
{
    const Schedule *s = r->schedule;
    r->memory = NEW_ARRAY(Memory, s->devices);
    r->kept = NEW_ARRAY(Kept *, s->devices);
    r->kept_count = NEW_ARRAY(int, s->devices);
    const char *why = add_addresses(r);
    if (why)
        return why;
    for (int d = 0; d < s->devices; d++) {
        add_kept(r, d);
        sort_addresses(&r->memory[d]);
    }
    for (bool added = true; added && s->devices > 1;) {
        added = false;
        for (int n = 0; n < r->node_count; n++) {
            const ScheduledOp *op = r->instances[r->members[r->first_member[n]]].op;
            if (op && op->verb == VERB_REDUCE && share_bounds(r, &r->members[r->first_member[n]]))
                added = true;
        }
    }
    int regions = 0;
    for (int i = 0; i < r->count; i++)
        if (r->instances[i].op) {
            r->instances[i].region = regions;
            regions += access_count(r->instances[i].op);
        }
    r->regions = NEW_ARRAY(Region, regions);
    for (int i = 0; i < r->count; i++) {
        const Instance *x = &r->instances[i];
        for (int k = 0; x->op && k < access_count(x->op); k++) {
            const Access *a = access_of(x->op, k);
            const Memory *m = &r->memory[x->device];
            int64_t begin = access_address(r, x, a);
            r->regions[x->region + k] = (Region){segment_of(m, begin), segment_of(m, begin + a->end - a->begin), begin};
        }
    }
    for (int d = 0; d < s->devices; d++) {
        Memory *m = &r->memory[d];
        for (int k = 0; k < r->kept_count[d]; k++) {
            Kept *x = &r->kept[d][k];
            int64_t begin = x->region.begin;
            x->region = (Region){segment_of(m, begin), segment_of(m, begin + x->bytes), begin};
        }
        m->token = NEW_ARRAY(uint64_t, m->count);
        m->origin = NEW_ARRAY(int64_t, m->count);
    }
    return NULL;
}

static const char *build_run(Run *r, const Schedule *s, const int *steps)
{
    *r = (Run){.schedule = s};
    int places = (RUN_STEPS + 1) * s->devices * LANES;
    r->begin_of = NEW_ARRAY(int, places);
    r->end_of = NEW_ARRAY(int, places);
    for (int lane = 0; lane < LANES; lane++) {
        r->chain[lane] = NEW_ARRAY(int, s->devices);
        for (int d = 0; d < s->devices; d++)
            r->chain[lane][d] = -1;
    }
    for (int q = 0; q <= RUN_STEPS; q++) {
        r->steps[q] = q < RUN_STEPS ? steps[q] : -1;
        for (int d = 0; d < s->devices && q < RUN_STEPS; d++)
            if (s->phases[steps[q]].devices[d].op_count > r->most_ops)
                r->most_ops = s->phases[steps[q]].devices[d].op_count;
    }
    r->at = NEW_ARRAY(int *, RUN_STEPS + 1);
    for (int q = 0; q <= RUN_STEPS; q++) {
        r->at[q] = NEW_ARRAY(int, r->most_ops * s->devices);
        for (int d = 0; d < s->devices; d++)
            for (int lane = 0; lane < LANES; lane++)
                add_lane_step(r, q, d, (Lane)lane);
    }
    const char *why = add_waits(r);
    if (why || (why = join_collectives(r)))
        return why;
    find_successors(r);
    if ((why = find_segments(r)))
        return why;
    r->order = NEW_ARRAY(int, r->node_count);
    r->ready = NEW_ARRAY(int, r->node_count);
    r->later = NEW_ARRAY(int, r->node_count);
    r->left = NEW_ARRAY(int, r->node_count);
    return NULL;
}

/* ---- execution */

static uint64_t read_tokens(const Memory *m, const Region *x, uint64_t hash)
{
    for (int i = x->first, j; i < x->last; i = j) {
        for (j = i + 1; j < x->last && m->token[j] == m->token[i] && m->origin[j] == m->origin[i]; j++)
            ;
        hash = mix(mix(hash, m->token[i]), (uint64_t)(m->address[i] - m->origin[i]));
        hash = mix(mix(hash, (uint64_t)(m->address[i] - x->begin)), (uint64_t)(m->address[j] - m->address[i]));
    }
    return hash;
}

static void write_token(Memory *m, const Region *x, uint64_t token)
{
    for (int i = x->first; i < x->last; i++) {
        m->token[i] = token;
        m->origin[i] = x->begin;
    }
}

static void sum_tokens(Run *r, const int *members, int devices)
{
    const Region *first = &r->regions[r->instances[members[0]].region + 1];
    uint64_t name = mix((uint64_t)r->instances[members[0]].op->target,
                        mix((uint64_t)r->instances[members[0]].step, (uint64_t)r->instances[members[0]].phase));
    for (int i = 0; i < first->last - first->first; i++) {
        uint64_t token = name;
        for (int d = 0; d < devices; d++) {
            const Region *x = &r->regions[r->instances[members[d]].region + 1];
            const Memory *m = &r->memory[d];
            token = mix(mix(token, m->token[x->first + i]), (uint64_t)(x->begin - m->origin[x->first + i]));
        }
        for (int d = 0; d < devices; d++) {
            const Region *x = &r->regions[r->instances[members[d]].region + 1];
            r->memory[d].token[x->first + i] = token;
            r->memory[d].origin[x->first + i] = x->begin;
        }
    }
}

static void execute(Run *r, int node)
{
    const int *members = &r->members[r->first_member[node]];
    const Instance *x = &r->instances[members[0]];
    if (!x->op)
        return;
    if (x->op->verb == VERB_REDUCE) {
        sum_tokens(r, members, r->schedule->devices);
        return;
    }
    Memory *m = &r->memory[x->device];
    const Region *regions = &r->regions[x->region];
    uint64_t hash = x->name;
    for (int i = 0; i < x->op->read_count; i++)
        hash = read_tokens(m, &regions[i], hash);
    if (x->op->verb == VERB_REPORT || x->op->verb == VERB_FETCH)
        r->reported += mix(hash, 1);
    for (int i = 0; i < x->op->write_count; i++)
        write_token(m, &regions[x->op->read_count + i], mix(hash, (uint64_t)i));
}

static uint64_t execute_order(Run *r, uint64_t garbage)
{
    const Schedule *s = r->schedule;
    r->reported = 0;
    for (int d = 0; d < s->devices; d++) {
        Memory *m = &r->memory[d];
        for (int i = 0; i < m->count; i++) {
            m->token[i] = mix(garbage, (uint64_t)m->address[i]);
            m->origin[i] = m->address[i];
        }
        for (int k = 0; k < r->kept_count[d]; k++)
            write_token(m, &r->kept[d][k].region, r->kept[d][k].name);
    }
    for (int i = 0; i < r->node_count; i++)
        execute(r, r->order[i]);
    uint64_t result = r->reported;
    for (int d = 0; d < s->devices; d++)
        for (int k = 0; k < r->kept_count[d]; k++)
            result = read_tokens(&r->memory[d], &r->kept[d][k].region, mix(result, r->kept[d][k].name));
    return result;
}

/* ---- orders */

/* Which ready node next? */
typedef struct Choice {
    enum { LOWEST, ANY, BY_LANE } by;
    Random *random;
    uint64_t *rank;             /* BY_LANE: of (device, lane) */
} Choice;

static int choose(const Run *r, const Choice *c, int ready)
{
    if (c->by == ANY)
        return random_below(c->random, ready);
    int best = 0;
    for (int i = 1; i < ready; i++) {
        int a = r->ready[i], b = r->ready[best];
        if (c->by == LOWEST ? a < b
                            : c->rank[r->instances[r->members[r->first_member[a]]].device * LANES +
                                      (int)r->instances[r->members[r->first_member[a]]].lane] >
                                  c->rank[r->instances[r->members[r->first_member[b]]].device * LANES +
                                          (int)r->instances[r->members[r->first_member[b]]].lane])
            best = i;
    }
    return best;
}

/* A legal order into r->order; `early`: sets of nodes (bits) that go first, closed under predecessors. false: a cycle. */
static bool make_order(Run *r, const Choice *c, uint64_t *const early[2], int early_count)
{
    int ready = 0, done = 0, waiting = 0;
    memcpy(r->left, r->degree, sizeof *r->left * (size_t)r->node_count);
    for (int n = 0; n < r->node_count; n++)
        if (r->left[n] == 0)
            r->ready[ready++] = n;
    for (int round = 0; round <= early_count; round++) {
        const uint64_t *set = round < early_count ? early[round] : NULL;
        for (int i = 0; i < waiting; i++)
            r->ready[ready++] = r->later[i];
        waiting = 0;
        while (ready) {
            int at = choose(r, c, ready), n = r->ready[at];
            r->ready[at] = r->ready[--ready];
            if (set && !(set[n >> 6] >> (n & 63) & 1)) {
                r->later[waiting++] = n;
                continue;
            }
            r->order[done++] = n;
            for (int i = r->first_successor[n]; i < r->first_successor[n + 1]; i++)
                if (--r->left[r->successors[i]] == 0)
                    r->ready[ready++] = r->successors[i];
        }
    }
    return done == r->node_count;
}

static const char *const CYCLE = "it never ends: operations wait for each other";

const char *run_once(const Schedule *s, const int steps[RUN_STEPS], uint64_t *result)
{
    Run r;
    const char *why = build_run(&r, s, steps);
    if (why)
        return why;
    Choice lowest = {.by = LOWEST};
    if (!make_order(&r, &lowest, NULL, 0))
        return CYCLE;
    *result = execute_order(&r, 1);
    return NULL;
}

/* ancestors[n]: bits of all that must run before n, and n */
static uint64_t **find_ancestors(const Run *r)
{
    size_t words = (size_t)(r->node_count + 63) / 64;
    uint64_t **bits = NEW_ARRAY(uint64_t *, r->node_count), *block = calloc(words * (size_t)r->node_count, sizeof *block);
    if (!block)
        die("no memory for %d nodes", r->node_count);
    for (int n = 0; n < r->node_count; n++)
        bits[n] = block + words * (size_t)n;
    for (int i = 0; i < r->node_count; i++) {
        int n = r->order[i];
        bits[n][n >> 6] |= (uint64_t)1 << (n & 63);
        for (int k = r->first_successor[n]; k < r->first_successor[n + 1]; k++)
            for (size_t w = 0; w < words; w++)
                bits[r->successors[k]][w] |= bits[n][w];
    }
    return bits;
}

typedef struct Use { int segment, node; bool write; } Use;

static int compare_uses(const void *a, const void *b)
{
    const Use *x = a, *y = b;
    if (x->segment != y->segment)
        return x->segment < y->segment ? -1 : 1;
    return x->node < y->node ? -1 : x->node > y->node;
}

static int compare_edges(const void *a, const void *b)
{
    const Edge *x = a, *y = b;
    if (x->from != y->from)
        return x->from < y->from ? -1 : 1;
    return x->to < y->to ? -1 : x->to > y->to;
}

/* pairs of nodes that touch the same bytes, one of them writing, in no order */
static Edge *find_unordered(const Run *r, uint64_t *const *ancestors, int *count)
{
    Edge *pairs = NULL;
    *count = 0;
    for (int d = 0; d < r->schedule->devices; d++) {
        Use *uses = NULL;
        int n = 0;
        for (int i = 0; i < r->count; i++) {
            const Instance *x = &r->instances[i];
            for (int k = 0; x->op && x->device == d && k < access_count(x->op); k++)
                for (int g = r->regions[x->region + k].first; g < r->regions[x->region + k].last; g++) {
                    Use u = {g, x->node, k >= x->op->read_count};
                    APPEND(uses, n, u);
                }
        }
        if (n)
            qsort(uses, (size_t)n, sizeof *uses, compare_uses);
        for (int i = 0, end; i < n; i = end) {
            for (end = i; end < n && uses[end].segment == uses[i].segment; end++)
                ;
            for (int w = i; w < end; w++)
                for (int k = i; uses[w].write && k < end; k++) {
                    int a = uses[w].node, b = uses[k].node;
                    if (a == b || (uses[k].write && b < a))
                        continue;
                    if (ancestors[a][b >> 6] >> (b & 63) & 1 || ancestors[b][a >> 6] >> (a & 63) & 1)
                        continue;
                    Edge pair = {a, b};
                    APPEND(pairs, *count, pair);
                }
        }
    }
    if (*count) {
        int kept = 1;
        qsort(pairs, (size_t)*count, sizeof *pairs, compare_edges);
        for (int i = 1; i < *count; i++)
            if (compare_edges(&pairs[i], &pairs[kept - 1]) != 0)
                pairs[kept++] = pairs[i];
        *count = kept;
    }
    return pairs;
}

static const char *name_of(const Run *r, int node)
{
    const Instance *x = &r->instances[r->members[r->first_member[node]]];
    return format("d%d.%s of step %d", x->device, x->op->id, x->step + 1);
}

const char *find_difference(const Schedule *s, const int steps[RUN_STEPS], uint64_t expected, int orders, Random *random)
{
    Run r;
    const char *why = build_run(&r, s, steps);
    if (why)
        return why;
    Choice c = {.by = LOWEST, .random = random, .rank = NEW_ARRAY(uint64_t, s->devices * LANES)};
    if (!make_order(&r, &c, NULL, 0))
        return CYCLE;
    uint64_t **ancestors = find_ancestors(&r);
    int pairs = 0;
    if (execute_order(&r, random_bits(random)) != expected)
        why = "the first order that it allows leaves another result";
    Edge *pair = why ? NULL : find_unordered(&r, ancestors, &pairs);
    for (int i = 0; i < 2 * pairs && !why; i++) {
        int a = i & 1 ? pair[i / 2].to : pair[i / 2].from, b = i & 1 ? pair[i / 2].from : pair[i / 2].to;
        uint64_t *early[2] = {ancestors[a], ancestors[b]};
        if (!make_order(&r, &c, early, 2))
            return CYCLE;
        if (execute_order(&r, random_bits(random)) != expected)
            why = format("another result if %s runs before %s", name_of(&r, a), name_of(&r, b));
    }
    for (int i = 0; i < orders && !why; i++) {
        c.by = i & 1 ? BY_LANE : ANY;
        for (int k = 0; k < s->devices * LANES; k++)
            c.rank[k] = random_bits(random);
        if (!make_order(&r, &c, NULL, 0))
            return CYCLE;
        if (execute_order(&r, random_bits(random)) != expected)
            why = "a random order that it allows leaves another result";
    }
    free(ancestors[0]);
    return why;
}
