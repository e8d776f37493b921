/* collectives.c: the time of collectives, by method (formulas: cost.h).
 *
 * The rate of a ring is found by a search: an order of the devices whose slowest step is fastest, then another one with the
 * remaining rates, and so on, as NCCL opens its channels. The load of a ring on each link's direction is the number of its steps
 * that cross it. */
#include "compiler/machine/collectives.h"
#include "runtime/abi/mgpu_one_shot.h"
#include "runtime/abi/mgpu_rounds.h"

#include <math.h>
#include <string.h>

const char *const METHOD_NAME[METHODS] = {"ring",      "tree",   "in-switch", "host",   "copy",    "copy ring",
                                          "copy tree", "device", "server",    "levels", "one-shot"};

/* The fraction of the links' nominal rate that a method reaches with large messages. Ring: 8 H100, 370 GB/s of 450 (bus bandwidth
 * of nccl-tests, published); in-switch: 475 GB/s bus bandwidth there, which is 271 GB/s of a rate of 450 x 8 / 9 (published); the
 * copy engines move 87 % of what a link carries (assumed). One-shot: 4 to 32 KiB on 8 H100, 2.1 us for 200 KiB that each sends
 * (published, below). */
static const double SHARE[METHODS] = {
    [METHOD_RING] = .82,      [METHOD_TREE] = .75,      [METHOD_SWITCH] = .68, [METHOD_HOST] = .87,   [METHOD_COPY] = .87,
    [METHOD_COPY_RING] = .87, [METHOD_COPY_TREE] = .87, [METHOD_DEVICE] = .87, [METHOD_ONE_SHOT] = .2};

double cost_copy_share(void) { return SHARE[METHOD_COPY]; }
double ring_share(void) { return SHARE[METHOD_RING]; }

/* methods that run in rounds; AUTO: others */
static const int ROUNDS[METHODS] = {[METHOD_COPY_RING] = MGPU_IMPLEMENTATION_RING,
                                    [METHOD_COPY_TREE] = MGPU_IMPLEMENTATION_TREE,
                                    [METHOD_DEVICE] = MGPU_IMPLEMENTATION_DEVICE};

enum { MOST_RINGS = 8, MOST_SEARCHED = 16, MOST_TRIES = 20000 };

typedef struct Ring {
    const Machine *machine;
    double *left; /* by link and direction */
    double *load;
    int count, *order, tries;
    bool *used;
} Ring;

static double left_on(const Ring *r, int from, int to)
{
    Route implementation;
    double rate = machine_route(r->machine, from, to, &implementation) ? 1e300 : 0;
    for (int k = 0; k < implementation.count && rate > 0; k++) {
        double left = r->left[2 * implementation.link[k] + implementation.back[k]];
        rate = left < rate ? left : rate;
    }
    return rate;
}

/* Extends order[0 .. at - 1] to a ring, each step of which has at least this rate. */
static bool extend(Ring *r, int at, double least)
{
    if (r->tries++ > MOST_TRIES)
        return false;
    if (at == r->count)
        return left_on(r, r->order[at - 1], r->order[0]) >= least;
    for (int next = 0; next < r->count; next++) {
        if (r->used[next] || left_on(r, r->order[at - 1], next) < least)
            continue;
        r->order[at] = next;
        r->used[next] = true;
        if (extend(r, at + 1, least))
            return true;
        r->used[next] = false;
    }
    return false;
}

static bool find_order(Ring *r, double least)
{
    memset(r->used, 0, (size_t)r->count * sizeof *r->used);
    r->order[0] = 0;
    r->used[0] = true;
    r->tries = 0;
    return extend(r, 1, least);
}

/* Returns the rate of the order that was found, in which several steps may share a link, and subtracts it from its links. rates:
 * what each link then carries. */
static double take_order(Ring *r, double *rates)
{
    int links = 2 * r->machine->link_count;
    memset(r->load, 0, (size_t)links * sizeof *r->load);
    for (int i = 0; i < r->count; i++) {
        Route implementation;
        if (!machine_route(r->machine, r->order[i], r->order[(i + 1) % r->count], &implementation))
            return 0;
        for (int k = 0; k < implementation.count; k++)
            r->load[2 * implementation.link[k] + implementation.back[k]]++;
    }
    double rate = 1e300;
    for (int i = 0; i < links; i++)
        rate = r->load[i] > 0 && r->left[i] / r->load[i] < rate ? r->left[i] / r->load[i] : rate;
    for (int i = 0; i < links; i++) {
        r->left[i] -= r->load[i] * rate;
        rates[i] += r->load[i] * rate;
    }
    return rate;
}

/* Finds the fastest order, by trying the existing rates in descending order. */
static double next_ring(Ring *r, double enough, double *rates)
{
    for (double below = 1e300;;) {
        double least = 0;
        for (int i = 0; i < r->count * r->count; i++) {
            double rate = i / r->count == i % r->count ? 0 : left_on(r, i / r->count, i % r->count);
            least = rate < below && rate > least ? rate : least;
        }
        if (least <= enough)
            return 0;
        if (find_order(r, least))
            return take_order(r, rates);
        below = least;
    }
}

/* Returns the rate of all rings together into each device, and the latency of a step; 0: there is no ring. rates: by link and
 * direction. */
static double ring_rate(const Machine *m, int count, double *latency_us, double *rates)
{
    Memory *own = memory_new(), *outer = memory_use(own);
    Ring r = {.machine = m, .count = count};
    r.left = NEW_ARRAY(double, 2 * m->link_count);
    r.load = NEW_ARRAY(double, 2 * m->link_count);
    r.order = NEW_ARRAY(int, count);
    r.used = NEW_ARRAY(bool, count);
    for (int i = 0; i < 2 * m->link_count; i++)
        r.left[i] = m->links[i / 2].rate[i % 2].value;
    double rate = 0, first = 0;
    *latency_us = 0;
    if (count > MOST_SEARCHED) { /* too many to search: in the order of their numbers */
        for (int i = 0; i < count; i++)
            r.order[i] = i;
        rate = take_order(&r, rates);
    }
    for (int k = 0; k < MOST_RINGS && count <= MOST_SEARCHED; k++) {
        double more = next_ring(&r, first / 4, rates);
        if (more <= 0)
            break;
        first = k == 0 ? more : first;
        rate += more;
        for (int i = 0; i < count && k == 0; i++) {
            Route implementation;
            machine_route(m, r.order[i], r.order[(i + 1) % count], &implementation);
            *latency_us = implementation.latency_us > *latency_us ? implementation.latency_us : *latency_us;
        }
    }
    memory_use(outer);
    memory_free(own);
    return rate;
}

/* Returns the rate of the slowest route from a device into a switch that adds; 0: there is no switch that all devices reach. */
/* number: of the switch */
static double switch_rate(const Machine *m, int count, int *number, double *latency_us)
{
    for (int s = 0; s < m->switch_count; s++) {
        *number = s;
        double rate = 1e300;
        *latency_us = 0;
        for (int d = 0; d < count && m->switches[s].adds; d++) {
            Route r;
            bool there = machine_route(m, d, machine_host(m) + 1 + s, &r) && !r.staged;
            rate = !there ? 0 : r.rate < rate ? r.rate : rate;
            *latency_us = r.latency_us > *latency_us ? r.latency_us : *latency_us;
        }
        if (m->switches[s].adds && rate > 0)
            return rate;
    }
    return 0;
}

/* microseconds for B bytes: us + B x each */
typedef struct CostLine {
    double us, each;
} CostLine;

static CostLine line_of(double of_none, double of_bytes, double bytes)
{
    return (CostLine){of_none, (of_bytes - of_none) / bytes};
}

static bool adds_up(Collect what) { return what == COLLECT_ALL_REDUCE || what == COLLECT_REDUCE_SCATTER; }

static void to_host(const Machine *m, Collect what, double bytes, int n, Transfer *all)
{
    for (int d = 0; d < n; d++)
        all[d] = (Transfer){d, machine_host(m), adds_up(what) ? bytes : what == COLLECT_ALL_GATHER ? bytes / n : d ? 0 : bytes};
}

static void from_host(const Machine *m, Collect what, double bytes, int n, Transfer *all)
{
    for (int d = 0; d < n; d++)
        all[d] = (Transfer){machine_host(m), d, what == COLLECT_REDUCE_SCATTER ? bytes / n : bytes};
}

static double through_host_us(const Machine *m, Collect what, double bytes, int n, Transfer *all)
{
    to_host(m, what, bytes, n, all);
    double us = cost_transfers(m, all, n).us;
    from_host(m, what, bytes, n, all);
    us = (us + cost_transfers(m, all, n).us) / SHARE[METHOD_HOST];
    return us + (adds_up(what) && m->host.bandwidth.value > 0 ? (n + 1) * bytes / m->host.bandwidth.value * 1e6 : 0);
}

static int copies_of(Collect what, double bytes, int n, Transfer *all)
{
    int count = 0;
    for (int i = 0; i < n; i++)
        for (int k = 0; k < n; k++)
            if (i != k && (what != COLLECT_BROADCAST || i == 0))
                all[count++] = (Transfer){i, k, what == COLLECT_BROADCAST ? bytes : bytes / n};
    return count;
}

static double by_copies_us(const Machine *m, Collect what, double bytes, int n, Transfer *all)
{
    const Device *d = &m->devices[0];
    int count = copies_of(what, bytes, n, all);
    double round = cost_transfers(m, all, count).us / SHARE[METHOD_COPY];
    double add = adds_up(what) ? d->launch_us.value + (n + 1) * bytes / n / d->bandwidth.value * 1e6 : 0;
    return what == COLLECT_ALL_REDUCE ? 2 * round + add : round + add;
}

/* Lists the copies of a round of B bytes; all rounds of a ring move equally much. */
static int round_copies(int implementation, double bytes, int n, int round, Transfer *all, bool *adds)
{
    enum { PARTS = 1 << 20 }; /* of B: a ring's chunks are whole numbers of these */
    int count = 0;
    for (int d = 0; d < n; d++) {
        mgpu_round_step r = mgpu_round_of(implementation, n, d, round, PARTS, 1);
        if (r.from < 0)
            continue;
        all[count++] = (Transfer){r.from, d, bytes * (implementation == MGPU_IMPLEMENTATION_RING ? 1.0 / n : 1)};
        *adds = r.adds;
    }
    return count;
}

static double rounds_us(const Machine *m, Method method, double bytes, int n, Transfer *all)
{
    const Device *d = &m->devices[0];
    int implementation = ROUNDS[method], rounds = mgpu_round_count(implementation, n);
    bool same = implementation == MGPU_IMPLEMENTATION_RING, adds = false;
    double us = 0;
    for (int k = 0; k < (same ? 1 : rounds); k++) {
        int count = round_copies(implementation, bytes, n, k, all, &adds);
        us += (same ? rounds : 1) * (d->event_us.value + cost_transfers(m, all, count).us / SHARE[method]);
        if (adds)
            us += (same ? n - 1 : 1) * (d->launch_us.value + 3 * all[0].bytes / d->bandwidth.value * 1e6);
    }
    return us;
}

static bool have_peer_access(const Machine *m, int n)
{
    for (int i = 0; i < n * n; i++) {
        Route r;
        if (i / n != i % n && (!machine_route(m, i / n, i % n, &r) || r.staged))
            return false;
    }
    return true;
}

static double latency_between(const Machine *m, int n)
{
    double most = 0;
    for (int i = 0; i < n * n; i++) {
        Route r;
        if (i / n != i % n && machine_route(m, i / n, i % n, &r))
            most = fmax(most, r.latency_us);
    }
    return most;
}

static void add_transfers(const Machine *m, const Transfer *all, int count, double times, double *of_link)
{
    for (int i = 0; i < count; i++) {
        Route r;
        if (!machine_route(m, all[i].from, all[i].to, &r))
            continue;
        for (int k = 0; k < r.count; k++)
            of_link[2 * r.link[k] + r.back[k]] += times * all[i].bytes;
    }
}

/* Adds what all rounds move over each link, per byte. */
static void add_rounds(const Machine *m, int implementation, int n, Transfer *all, double *of_link)
{
    int rounds = mgpu_round_count(implementation, n);
    bool same = implementation == MGPU_IMPLEMENTATION_RING, adds;
    for (int k = 0; k < (same ? 1 : rounds); k++)
        add_transfers(m, all, round_copies(implementation, 1, n, k, all, &adds), same ? rounds : 1, of_link);
}

Members members_of(const Machine *m, Processor p, int nodes, int devices)
{
    Members g = {.machine = m, .processor = p, .count = devices, .nodes = nodes, .methods = ~0u};
    int n = members_each(&g) < m->device_count ? members_each(&g) : m->device_count;
    if (nodes > 1)
        find_network(&g);
    if (p == PROCESSOR_HOST || n < 2)
        return g;
    g.peer_access = have_peer_access(m, n);
    g.route_us = latency_between(m, n);
    double *rates = NEW_ARRAY(double, 2 * m->link_count),
           *loads[2] = {NEW_ARRAY(double, 2 * m->link_count), NEW_ARRAY(double, 2 * m->link_count)};
    g.ring_load = rates;
    for (int what = 0; what < COLLECTS; what++)
        g.copy_load[what] = loads[what == COLLECT_BROADCAST];
    for (int k = 0; k < METHODS; k++)
        g.round_load[k] = ROUNDS[k] != MGPU_IMPLEMENTATION_AUTO ? NEW_ARRAY(double, 2 * m->link_count) : NULL;
    Memory *own = memory_new(), *outer = memory_use(own);
    g.ring = ring_rate(m, n, &g.ring_us, rates);
    for (int i = 0; i < 2 * m->link_count && g.ring > 0; i++)
        rates[i] /= g.ring;
    g.in_switch = switch_rate(m, n, &g.adding_switch, &g.switch_us);
    Transfer *all = NEW_ARRAY(Transfer, n * n);
    const double BYTES = 1e9;
    for (int what = 0; what < COLLECTS; what++) {
        CostLine host =
            line_of(through_host_us(m, (Collect)what, 0, n, all), through_host_us(m, (Collect)what, BYTES, n, all), BYTES);
        CostLine copy = line_of(by_copies_us(m, (Collect)what, 0, n, all), by_copies_us(m, (Collect)what, BYTES, n, all), BYTES);
        g.host_us[what] = host.us, g.host_each[what] = host.each;
        g.copy_us[what] = copy.us, g.copy_each[what] = copy.each;
    }
    for (int some = 0; some < 2; some++) /* all but broadcasts have the same copies */
        add_transfers(m, all, copies_of(some ? COLLECT_BROADCAST : COLLECT_ALL_REDUCE, 1, n, all), 1, loads[some]);
    for (int k = 0; k < METHODS; k++)
        if (ROUNDS[k] != MGPU_IMPLEMENTATION_AUTO) {
            CostLine line = line_of(rounds_us(m, (Method)k, 0, n, all), rounds_us(m, (Method)k, BYTES, n, all), BYTES);
            g.round_us[k] = line.us, g.round_each[k] = line.each;
            add_rounds(m, ROUNDS[k], n, all, g.round_load[k]);
        }
    memory_use(outer);
    memory_free(own);
    return g;
}

bool method_works(const Members *g, Method method)
{
    bool host = g->processor == PROCESSOR_HOST, alone = g->machine->device_count < 2; /* on one GPU: they share its memory */
    if (g->nodes > 1)
        return works_between(g, method);
    switch (method) {
    case METHOD_RING:
    case METHOD_TREE: return !host && !alone && g->ring > 0;
    case METHOD_SWITCH: return !host && !alone && g->in_switch > 0;
    case METHOD_HOST: return host || (!alone && isfinite(g->host_each[COLLECT_ALL_REDUCE]));
    case METHOD_COPY: return !host && (alone || isfinite(g->copy_each[COLLECT_ALL_REDUCE]));
    case METHOD_SERVER: return host;
    case METHOD_ONE_SHOT: return !host && !alone && g->peer_access && g->count <= g->machine->device_count;
    case METHOD_COPY_RING:
    case METHOD_COPY_TREE:
    case METHOD_DEVICE: return host || (!alone && isfinite(g->round_each[method]));
    case METHOD_LEVELS:
    case METHODS: break;
    }
    return false;
}

/* Host devices have a barrier; then each adds up its slice of all, in shared memory, and writes it to all
 * (runtime/host/reduce.c): n reads and n writes of B altogether. In rounds: B is added n - 1 times, with two reads and a write,
 * and copied n - 1 times, with a barrier after each. If links are limited, each device sends as much as in a ring, or in the
 * rounds as the busiest device. */
static double host_bytes_sent(Collect what, Method method, int n)
{
    switch (method) {
    case METHOD_COPY_TREE: return 2 * mgpu_tree_height(n);
    case METHOD_DEVICE: return 2 * (n - 1);
    case METHOD_SERVER: return 2;
    default: return what == COLLECT_BROADCAST ? 1 : (what == COLLECT_ALL_REDUCE ? 2.0 : 1.0) * (n - 1) / n;
    }
}

Cost cost_on_host(const Machine *m, Collect what, Method method, double bytes, int n)
{
    int implementation = ROUNDS[method];
    bool rounds = implementation != MGPU_IMPLEMENTATION_AUTO;
    double touched = rounds ? 5.0 * (n - 1) : what == COLLECT_ALL_REDUCE ? 2.0 * n : n + 1;
    double meeting = m->host.synchronize_us.value * (rounds ? 1 + mgpu_round_count(implementation, n) / 2.0 : 1),
           moving = touched * bytes / m->host.bandwidth.value * 1e6;
    double link = m->host.link.value > 0 ? host_bytes_sent(what, method, n) * bytes / m->host.link.value * 1e6 : 0;
    Cost c = {.us = meeting + (link > moving ? link : moving), .bound = link > moving ? BOUND_LINK : BOUND_MEMORY};
    c.bound = c.us < 2 * meeting ? BOUND_LATENCY : c.bound;
    return c;
}

static bool gathers(Collect what) { return what == COLLECT_BITS || what == COLLECT_MOMENTS; }

/* Returns the bytes that all members send together, to be added up by each. Of bits: the codes of B bytes of f32. */
static double gathered_bytes(const Members *g, Collect what, double bytes)
{
    return g->count * bytes * (what == COLLECT_BITS ? (double)mgpu_coded_bytes(MGPU_SEGMENT, 4) / (4 * MGPU_SEGMENT) : 1);
}

/* Every device encodes B, gathers, and adds up B of all codes; host devices share their memory. */
static Cost gathered_cost(const Members *g, Collect what, Method method, double bytes)
{
    bool host = g->processor == PROCESSOR_HOST;
    const Device *d = &g->machine->devices[0];
    double coded = gathered_bytes(g, what, bytes), touched = 2 * bytes + coded + coded / g->count;
    Cost c = cost_collective(g, COLLECT_ALL_GATHER, method, coded);
    c.us += (host ? g->count * touched / g->machine->host.bandwidth.value : touched / d->bandwidth.value) * 1e6 +
            (host ? 0 : 2 * d->launch_us.value);
    return c;
}

/* One kernel on each GPU (runtime/cuda/one_shot.c). Not measured here. Published for such a kernel on 2, 4 and 8 H100 with
 * NVLink, with its launch: 3.7 to 3.9, 3.7 to 4.8, 5.7 to 5.9 us for 512 to 4,096 bytes, 7.8 us for 32 KiB on 8
 * (sgl-project/sglang, pull request 2904): a launch, a latency, and a third of a microsecond for each member. */
static Cost one_shot_cost(const Members *g, Collect what, double bytes)
{
    static const double MEMBER_US = 1 / 3.;
    const Device *d = &g->machine->devices[0];
    if ((what != COLLECT_ALL_REDUCE && what != COLLECT_MOMENTS) || bytes > MGPU_ONE_SHOT_BYTES)
        return (Cost){.us = INFINITY, .bound = BOUND_LINK};
    return with_latency(d->launch_us.value + d->event_us.value + g->route_us + g->count * MEMBER_US,
                        g->count * bytes * g->copy_each[COLLECT_ALL_GATHER] * SHARE[METHOD_COPY] / SHARE[METHOD_ONE_SHOT]);
}

static Cost cost_of_method(const Members *g, Collect what, Method method, double bytes)
{
    const Machine *m = g->machine;
    if (g->nodes > 1)
        return cost_between(g, what, method, bytes);
    if (g->processor == PROCESSOR_HOST)
        return cost_on_host(m, what, method, bytes, g->count);
    double n = g->count, half = twice_for_all(what), share = SHARE[method];
    const Device *d = &m->devices[0];
    /* two synchronizations of streams across GPUs; nothing is published of these, so they count as a call of NCCL */
    double begin = d->launch_us.value + d->event_us.value, library = library_us(d) + d->event_us.value,
           meetings = library + begin;
    switch (method) {
    case METHOD_RING:
        return with_latency(library + half * (n - 1) * g->ring_us, half * (n - 1) / n * bytes / (g->ring * share) * 1e6);
    case METHOD_TREE: return with_latency(library + half * ceil(log2(n)) * g->ring_us, half * bytes / (g->ring * share) * 1e6);
    case METHOD_SWITCH:
        return with_latency(library + 2 * half * g->switch_us,
                            (what == COLLECT_ALL_REDUCE ? (n + 1) / n : 1) * bytes / (g->in_switch * share) * 1e6);
    case METHOD_HOST: return with_latency(meetings + g->host_us[what], bytes * g->host_each[what]);
    case METHOD_COPY:
        if (m->device_count < 2)
            return with_latency(2 * begin, 2 * half * bytes / d->bandwidth.value * 1e6);
        return with_latency(meetings + g->copy_us[what], bytes * g->copy_each[what]);
    case METHOD_COPY_RING:
    case METHOD_COPY_TREE:
    case METHOD_DEVICE:
        return what == COLLECT_ALL_REDUCE ? with_latency(meetings + g->round_us[method], bytes * g->round_each[method])
                                          : (Cost){.us = INFINITY, .bound = BOUND_LINK};
    case METHOD_ONE_SHOT: return one_shot_cost(g, what, bytes);
    case METHOD_SERVER:
    case METHOD_LEVELS:
    case METHODS: break;
    }
    die("a collective by no method");
}

Cost cost_collective(const Members *g, Collect what, Method method, double bytes)
{
    if (g->count < 2)
        return (Cost){.bound = BOUND_LATENCY};
    if (gathers(what) && method != METHOD_ONE_SHOT)
        return gathered_cost(g, what, method, bytes);
    Cost c = cost_of_method(g, what, method, bytes);
    c.taken = units_taken(g, what, method, bytes, c.us);
    return c;
}

/* Adds transfers to the switch that adds, and back. */
static void add_switch(const Members *g, double bytes, int n, double *of_link)
{
    const Machine *m = g->machine;
    int place = machine_host(m) + 1 + g->adding_switch;
    for (int d = 0; d < n; d++) {
        Transfer both[] = {{d, place, bytes}, {place, d, bytes}};
        add_transfers(m, both, 2, 1, of_link);
    }
}

double collective_bytes(const Members *g, Collect what, Method method, double bytes, double *of_link)
{
    const Machine *m = g->machine;
    int n = g->count < m->device_count ? g->count : m->device_count;
    if (g->count > 1 && gathers(what) && method != METHOD_ONE_SHOT)
        return collective_bytes(g, COLLECT_ALL_GATHER, method, gathered_bytes(g, what, bytes), of_link);
    if (g->nodes > 1)
        return bytes_between(g, what, method, bytes, of_link);
    if (g->processor == PROCESSOR_HOST || g->count < 2 || n < 2)
        return 0;
    Memory *own = memory_new(), *outer = memory_use(own);
    Transfer *all = NEW_ARRAY(Transfer, n);
    double half = twice_for_all(what), ring = half * bytes * (method == METHOD_RING ? (g->count - 1.0) / g->count : 1),
           memory = 0;
    switch (method) {
    case METHOD_RING:
    case METHOD_TREE:
        for (int i = 0; i < 2 * m->link_count; i++)
            of_link[i] += ring * g->ring_load[i];
        break;
    case METHOD_SWITCH: add_switch(g, (what == COLLECT_ALL_REDUCE ? (n + 1.0) / n : 1) * bytes, n, of_link); break;
    case METHOD_HOST:
        for (int down = 0; down < 2; down++) {
            (down ? from_host : to_host)(m, what, bytes, n, all);
            add_transfers(m, all, n, 1, of_link);
            for (int i = 0; i < n; i++)
                memory += all[i].bytes;
        }
        memory += adds_up(what) ? (n + 1) * bytes : 0;
        break;
    case METHOD_COPY:
        for (int i = 0; i < 2 * m->link_count; i++)
            of_link[i] += half * bytes * g->copy_load[what][i];
        break;
    case METHOD_ONE_SHOT: /* half of each word is a sequence number */
        for (int i = 0; i < 2 * m->link_count; i++)
            of_link[i] += 2 * n * bytes * g->copy_load[COLLECT_ALL_GATHER][i];
        break;
    case METHOD_COPY_RING:
    case METHOD_COPY_TREE:
    case METHOD_DEVICE:
        for (int i = 0; i < 2 * m->link_count; i++)
            of_link[i] += bytes * g->round_load[method][i];
        break;
    case METHOD_SERVER:
    case METHOD_LEVELS:
    case METHODS: break;
    }
    memory_use(outer);
    memory_free(own);
    return memory;
}

static const unsigned METHODS_OF[MGPU_IMPLEMENTATIONS] = {[MGPU_IMPLEMENTATION_NCCL] = 1u << METHOD_RING | 1u << METHOD_TREE |
                                                                                       1u << METHOD_SWITCH | 1u << METHOD_LEVELS,
                                                          [MGPU_IMPLEMENTATION_PEER] = 1u << METHOD_COPY,
                                                          [MGPU_IMPLEMENTATION_COPY] = 1u << METHOD_COPY,
                                                          [MGPU_IMPLEMENTATION_HOST] = 1u << METHOD_HOST,
                                                          [MGPU_IMPLEMENTATION_SERVER] = 1u << METHOD_SERVER,
                                                          [MGPU_IMPLEMENTATION_RING] = 1u << METHOD_COPY_RING,
                                                          [MGPU_IMPLEMENTATION_TREE] = 1u << METHOD_COPY_TREE,
                                                          [MGPU_IMPLEMENTATION_DEVICE] = 1u << METHOD_DEVICE,
                                                          [MGPU_IMPLEMENTATION_ONE_SHOT] = 1u << METHOD_ONE_SHOT};

unsigned methods_of_implementation(const Members *g, int implementation)
{
    unsigned work = 0;
    for (int k = 0; k < METHODS; k++)
        work |= (unsigned)method_works(g, (Method)k) << k;
    if (implementation == MGPU_IMPLEMENTATION_SERVER && g->processor != PROCESSOR_HOST)
        implementation = MGPU_IMPLEMENTATION_HOST;
    if (implementation != MGPU_IMPLEMENTATION_AUTO)
        return METHODS_OF[implementation] & work;
    for (int w = MGPU_IMPLEMENTATION_NCCL; w > MGPU_IMPLEMENTATION_AUTO; w--)
        if (METHODS_OF[w] & work)
            return METHODS_OF[w] & work;
    return work;
}

unsigned methods_of_small_transfers(const Members *g)
{
    return methods_of_implementation(g, MGPU_IMPLEMENTATION_PEER) | methods_of_implementation(g, MGPU_IMPLEMENTATION_COPY) |
           methods_of_implementation(g, MGPU_IMPLEMENTATION_HOST);
}

int implementation_of_method(const Members *g, Method method)
{
    if (ROUNDS[method] != MGPU_IMPLEMENTATION_AUTO)
        return ROUNDS[method];
    if (method == METHOD_SERVER)
        return MGPU_IMPLEMENTATION_SERVER;
    if (method == METHOD_ONE_SHOT)
        return MGPU_IMPLEMENTATION_ONE_SHOT;
    return method == METHOD_HOST   ? MGPU_IMPLEMENTATION_HOST
           : method != METHOD_COPY ? MGPU_IMPLEMENTATION_NCCL
           : g->peer_access        ? MGPU_IMPLEMENTATION_PEER
                                   : MGPU_IMPLEMENTATION_COPY;
}

/* Returns the factor of the measurement with the nearest number of bytes; 1 if none is near. */
static double measured_factor(const Members *g, Collect what, double bytes)
{
    double nearest = log(8), factor = 1;
    for (int i = 0; g->measured && i < g->measured->count; i++) {
        const TransferFactor *m = &g->measured->each[i];
        double ratio = fabs(log((m->bytes + 1) / (bytes + 1)));
        if (m->what != what || ratio >= nearest)
            continue;
        nearest = ratio;
        factor = m->factor;
    }
    return factor;
}

Cost cost_cheapest(const Members *g, unsigned methods, Collect what, double bytes, Method *chosen)
{
    Cost best = {.us = INFINITY, .bound = BOUND_LINK};
    *chosen = METHOD_HOST;
    for (int k = 0; k < METHODS; k++) {
        Cost c = methods >> k & 1 && method_works(g, (Method)k) ? cost_collective(g, what, (Method)k, bytes) : best;
        if (c.us < best.us) {
            best = c;
            *chosen = (Method)k;
        }
    }
    if (isinf(best.us))
        fail(1,
             "machine %s: its devices reach neither each other nor the host; say how, with lines such as 'link 0 1 25GB/s' and "
             "'link * host 12GB/s'",
             g->machine->name);
    double factor = measured_factor(g, what, bytes);
    best.ground = factor != 1 ? GROUND_RUN : cost_link_ground(g->machine, g->processor, best.bound == BOUND_LATENCY);
    best.us *= factor;
    best.between_us *= factor;
    return best;
}
