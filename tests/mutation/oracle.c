/* oracle.c: the token interpreter.
 *
 * In: a schedule and the phases of a few steps. A run is executed on tokens: every write stores, for its range of bytes,
 * a hash of its operation, the step and all tokens that the operation read; REDUCE stores per byte a hash of its dtype and of
 * what all devices had there, or moves it, as the row of its transfer says; READ a hash of its samples. Variables begin with
 * their names, other memory with garbage that is new
 * in every execution. What is left of a run is one number: the tokens of the variables, and all that REPORT and FETCH saw.
 * The workspace of a call in a region holds what its threads have found until the region ends: it counts if it does not.
 * What is local to a region is garbage after it.
 *
 * run.c says which operations there are and in which order they may run. */
#include "compiler/plan/schedule.h"
#include "tests/mutation/run.h"

#include <stdlib.h>
#include <string.h>

uint64_t random_bits(Random *r)
{
    uint64_t z = r->state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

int random_below(Random *r, int n) { return (int)(random_bits(r) % (uint64_t)n); }

uint64_t mix(uint64_t hash, uint64_t word)
{
    hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
    return hash ^ hash >> 29;
}

void choose_run(const Schedule *s, int phase, Random *random, int steps[RUN_STEPS])
{
    int a = random_below(random, s->phase_count), b = random_below(random, s->phase_count);
    const int run[RUN_STEPS] = {a, b, phase, phase, phase, b, phase, a};
    memcpy(steps, run, sizeof run);
}

/* ---- execution */

static uint64_t read_tokens(const Memory *m, const Span *x, uint64_t hash)
{
    for (int i = x->first, j; i < x->last; i = j) {
        for (j = i + 1; j < x->last && m->token[j] == m->token[i] && m->origin[j] == m->origin[i]; j++)
            ;
        hash = mix(mix(hash, m->token[i]), (uint64_t)(m->address[i] - m->origin[i]));
        hash = mix(mix(hash, (uint64_t)(m->address[i] - x->begin)), (uint64_t)(m->address[j] - m->address[i]));
    }
    return hash;
}

static void write_token(Memory *m, const Span *x, uint64_t token)
{
    for (int i = x->first; i < x->last; i++) {
        m->token[i] = token;
        m->origin[i] = x->begin;
    }
}

/* whether the member sends, or receives, the byte at `offset` of the whole value */
static bool has_byte(const CollectiveRecord *c, int share, int member, int64_t offset)
{
    int64_t element = offset / dtype_bytes(c->dtype);
    switch (share) {
    case MGPU_SHARE_WHOLE: return true;
    case MGPU_SHARE_OWN: return c->participants.parts[member] <= element && element < c->participants.parts[member + 1];
    case MGPU_SHARE_ROOT: return member == c->participants.from;
    case MGPU_SHARE_OTHERS: return member != c->participants.from;
    default: return member == c->participants.to;
    }
}

/* origin: of the write, counted from the begin of the whole value */
typedef struct Byte {
    uint64_t token;
    int64_t origin;
} Byte;

/* A segment that is sent as bits has two values if one call has written all of it, from a segment's begin on. What a device sends
 * of others is garbage */
static bool is_mixed(const CollectiveRecord *c, const Memory *m, const Whole *whole, int i)
{
    int64_t bytes = MGPU_SEGMENT * (int64_t)dtype_bytes(c->dtype), offset = m->address[i] - whole->begin,
            begin = offset / bytes * bytes;
    bool mixed = (m->origin[i] - whole->begin) % bytes != 0;
    for (int k = whole->first; k < whole->last; k++) {
        int64_t at = m->address[k] - whole->begin;
        mixed = mixed || (at >= begin && at < begin + bytes && m->token[k] != m->token[i]);
    }
    return mixed;
}

static void mix_segments(const CollectiveRecord *c, const Memory *m, const Whole *whole)
{
    bool *mixed = NEW_ARRAY(bool, whole->last - whole->first);
    for (int i = whole->first; i < whole->last; i++)
        mixed[i - whole->first] = is_mixed(c, m, whole, i);
    for (int i = whole->first; i < whole->last; i++)
        m->token[i] = mixed[i - whole->first] ? mix(m->token[i], hash_bytes(0, "mixed", 5)) : m->token[i];
}

/* a segment of the whole value, `i` segments from its begin: what its receivers get */
static Byte arriving(const Run *r, const CollectiveRecord *c, const Whole *whole, int i, uint64_t name)
{
    const mgpu_transfer *row = mgpu_transfer_row(c->participants.transfer);
    int64_t offset = r->memory[0].address[whole[0].first + i] - whole[0].begin;
    Byte result = {name, 0};
    for (int d = 0; d < r->schedule->devices; d++) {
        const Memory *m = &r->memory[d];
        uint64_t token = m->token[whole[d].first + i];
        int64_t origin = m->origin[whole[d].first + i] - whole[d].begin;
        if (row->adds)
            result.token = mix(mix(result.token, token), (uint64_t)-origin);
        else if (has_byte(c, row->sends, d, offset))
            result = (Byte){token, origin};
    }
    return result;
}

static void exchange_tokens(Run *r, const int *members)
{
    const Instance *first = &r->instances[members[0]];
    const CollectiveRecord *c = &r->schedule->phases[first->phase].collectives[first->op->target];
    int devices = r->schedule->devices;
    uint64_t name = mix(hash_bytes(0, "sum", 3), (uint64_t)c->dtype);
    Whole whole[MOST_DEVICES];
    for (int d = 0; d < devices; d++)
        whole[d] = whole_seen(r, &r->instances[members[d]]);
    for (int d = 0; d < devices && c->participants.transfer == MGPU_TRANSFER_REDUCE_BITS; d++)
        mix_segments(c, &r->memory[d], &whole[d]);
    for (int i = 0; i < whole[0].last - whole[0].first; i++) {
        Byte byte = arriving(r, c, whole, i, name);
        int64_t offset = r->memory[0].address[whole[0].first + i] - whole[0].begin;
        for (int d = 0; d < devices; d++)
            if (has_byte(c, mgpu_transfer_row(c->participants.transfer)->receives, d, offset)) {
                r->memory[d].token[whole[d].first + i] = byte.token;
                r->memory[d].origin[whole[d].first + i] = whole[d].begin + byte.origin;
            }
    }
}

/* the calls of the region that ends with instance `end`: does every workspace hold what it should? */
static void end_region(Run *r, int end)
{
    for (int i = r->instances[end].region; i < end; i++) {
        const Instance *x = &r->instances[i];
        Memory *m = &r->memory[x->device];
        for (int k = 0; k < THREADS * access_count(x->op); k++) {
            const Span *g = &r->spans[x->span + k];
            BufferKind kind = kind_of(r, x, k % access_count(x->op));
            for (int j = g->first; j < g->last && kind == BUFFER_WORKSPACE; j++)
                if (m->token[j] != x->work || m->origin[j] != g->begin)
                    r->reported += mix(x->name, (uint64_t)j + 1);
        }
    }
    for (int i = r->instances[end].region; i < end; i++) {
        const Instance *x = &r->instances[i];
        for (int k = 0; k < THREADS * access_count(x->op); k++)
            if (kind_of(r, x, k % access_count(x->op)) == BUFFER_LOCAL)
                write_token(&r->memory[x->device], &r->spans[x->span + k], mix(r->garbage, (uint64_t)k));
    }
}

/* the host knows what it reads, reports and fetches by its number */
static uint64_t host_name(const Run *r, const Instance *x, int access)
{
    if (x->op->lane != LANE_HOST)
        return 0;
    return (uint64_t)r->schedule->phases[x->phase].devices[x->device].buffers[access_of(x->op, access)->buffer].index;
}

static void execute(Run *r, int node)
{
    const int *members = &r->members[r->first_member[node]];
    Instance *x = &r->instances[members[0]];
    if (x->region >= 0)
        end_region(r, members[0]);
    if (!x->op)
        return;
    if (x->op->verb == VERB_TRANSFER) {
        exchange_tokens(r, members);
        return;
    }
    Memory *m = &r->memory[x->device];
    const Span *spans = &r->spans[x->span];
    uint64_t hash = x->name;
    for (int i = 0; i < x->op->read_count; i++)
        for (int t = 0; t < copies_of(r, x, i); t++)
            hash = read_tokens(m, &spans[t * access_count(x->op) + i], mix(hash, host_name(r, x, i)));
    if (x->op->verb == VERB_REPORT || x->op->verb == VERB_FETCH)
        r->reported += mix(hash, 1);
    for (int i = 0; i < x->op->write_count; i++) {
        int k = x->op->read_count + i;
        for (int t = 0; t < copies_of(r, x, k); t++)
            write_token(m, &spans[t * access_count(x->op) + k],
                        mix(hash, x->op->lane == LANE_HOST ? host_name(r, x, k) : (uint64_t)i));
        if (kind_of(r, x, k) == BUFFER_WORKSPACE)
            x->work = mix(hash, (uint64_t)i);
    }
}

static uint64_t execute_order(Run *r, uint64_t garbage)
{
    const Schedule *s = r->schedule;
    r->reported = 0;
    r->garbage = garbage;
    for (int d = 0; d < s->devices; d++) {
        Memory *m = &r->memory[d];
        for (int i = 0; i < m->count; i++) {
            m->token[i] = mix(garbage, (uint64_t)m->address[i]);
            m->origin[i] = m->address[i];
        }
        for (int k = 0; k < r->kept_count[d]; k++)
            write_token(m, &r->kept[d][k].span, r->kept[d][k].name);
    }
    for (int i = 0; i < r->node_count; i++)
        execute(r, r->order[i]);
    uint64_t result = r->reported;
    for (int d = 0; d < s->devices; d++)
        for (int k = 0; k < r->kept_count[d]; k++)
            result = read_tokens(&r->memory[d], &r->kept[d][k].span, mix(result, r->kept[d][k].name));
    return result;
}

/* ---- orders */

/* Which ready node next? */
typedef struct Choice {
    enum { LOWEST, ANY, BY_LANE } by;
    Random *random;
    uint64_t *rank; /* BY_LANE: of (device, lane) */
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

typedef struct Use {
    int segment, node;
    bool write;
} Use;

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
            for (int k = 0; x->op && x->device == d && k < THREADS * access_count(x->op); k++)
                for (int g = r->spans[x->span + k].first; g < r->spans[x->span + k].last; g++) {
                    Use u = {g, x->node, k % access_count(x->op) >= x->op->read_count};
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

/* One thread of each device issues its list: it goes on when what the operation waits for is issued, in a transfer when all
 * devices have come to it. The device where it does not, -1: all come to the end */
static int stuck_device(const PhaseSchedule *p, int devices)
{
    int *at = NEW_ARRAY(int, devices), left = 0;
    for (bool moved = true; moved;) {
        moved = false;
        for (int d = left = 0; d < devices; d++) {
            const ScheduledOp *ops = p->devices[d].ops, *op = &ops[at[d]];
            bool may = at[d] < p->devices[d].op_count;
            left += may;
            for (int w = 0; may && w < op->wait_count; w++)
                may = op->waits[w].back > 0 || op->waits[w].op < at[d];
            for (int k = 0; may && op->verb == VERB_TRANSFER && k < devices; k++)
                may = at[k] >= p->collectives[op->target].ops[k];
            at[d] += may;
            moved = moved || may;
        }
    }
    for (int d = 0; d < devices && left; d++)
        if (at[d] < p->devices[d].op_count)
            return d;
    return -1;
}

const char *find_difference(const Schedule *s, const int steps[RUN_STEPS], uint64_t expected, int orders, Random *random)
{
    Run r;
    const char *why = build_run(&r, s, steps);
    for (int p = 0; p < s->phase_count && !why; p++)
        if (stuck_device(&s->phases[p], s->devices) >= 0)
            why = format("who issues the list of device %d waits for ever", stuck_device(&s->phases[p], s->devices));
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
