/* links.c: measure copies between GPUs and with the host, one link at a time, and all at once.
 *
 *   each pair   a large copy and a small one, which give rate and latency; only where one GPU can use the other's memory
 *   one to all  a GPU copies to all others at the same time
 *   ring        each GPU copies to the next one, all at the same time; likewise all with the host
 *
 * A machine file has links, each with a rate of its own; what several transfers share is a link that they all use. So:
 *
 *   all pairs are alike, and one to all is no faster than one   each GPU has a port of a switch: `link * fabric`
 *   else                                                        a link for each pair
 *   each is slower with all at once than alone                  the rate is that of all at once, which collectives reach
 *   with all at once, the host carries less than their sum      GPUs share a link to it: `link * bridge`, `link bridge host`
 *
 * Rates between GPUs are divided by the share of the rate that the cost model assumes for copies. */
#include "compiler/machine/cost.h"
#include "compiler/probe/gpu.h"

#include <string.h>

enum { ROUNDS = 5, SMALL = 4096, ENDS = 2 };
static const double ALIKE = .85, PORT = 1.5; /* rates above this share are alike; one to all below this factor uses one port */

typedef enum CopyDirections { TO_HOST, FROM_HOST, TO_GPU } CopyDirection;
typedef struct Copy {
    CopyDirection direction;
    const ProbedGpu *to;
    int64_t bytes;
    int stream;
} Copy;
typedef struct LinkMeasurements {
    Measurements rate, latency_us;
} LinkMeasurements;

static void issue_copy(const ProbedGpu *g, void *context)
{
    const Copy *c = context;
    size_t bytes = (size_t)c->bytes;
    CUstream s = g->streams[c->stream];
    if (g->cuda->declare)
        g->cuda->declare(s, "probe", NULL, -1);
    if (c->direction == TO_HOST)
        PROBE_CALL(g, memcpy_dtoh_async, cuMemcpyDtoHAsync, g->host, g->memory, bytes, s);
    else if (c->direction == FROM_HOST)
        PROBE_CALL(g, memcpy_htod_async, cuMemcpyHtoDAsync, g->memory, g->host, bytes, s);
    else
        PROBE_CALL(g, memcpy_peer_async, cuMemcpyPeerAsync, c->to->other, c->to->context, g->memory, g->context, bytes, s);
}

static double copy_us(const ProbedGpu *g, CopyDirection way, const ProbedGpu *to, int64_t bytes)
{
    Copy c = {way, to, bytes, 0};
    return probe_time_us(g, issue_copy, &c, false);
}

static int64_t most_bytes(const ProbedGpu *g, CopyDirection way) { return way == TO_GPU ? g->bytes : g->locked; }

/* Measures one link alone. The two copies give one line: bytes against time. */
static LinkMeasurements line_of(const ProbedGpu *g, CopyDirection way, const ProbedGpu *to)
{
    LinkMeasurements l = {0};
    for (int k = -1; k < ROUNDS; k++) {
        double small = copy_us(g, way, to, SMALL), large = copy_us(g, way, to, most_bytes(g, way));
        if (k < 0 || large <= small)
            continue;
        add_measurement(&l.rate, 1e6 * (double)(most_bytes(g, way) - SMALL) / (large - small));
        add_measurement(&l.latency_us, small);
    }
    return l;
}

/* ---- all at once: each GPU's own clock times its copies, which are so many that they mostly overlap with the others' */
enum { REPEATED = 4 };
typedef struct Wave {
    CopyDirection direction;
    const ProbedGpus *all;
} Wave;

static void begin_wave(const ProbedGpu *g, const Wave *w)
{
    Copy c = {w->direction, &w->all->gpus[(g->number + 1) % w->all->count], most_bytes(g, w->direction), 0};
    probe_enter(g);
    PROBE_CALL(g, event_record, cuEventRecord, g->begin, g->streams[0]);
    for (int k = 0; k < REPEATED; k++)
        issue_copy(g, &c);
    PROBE_CALL(g, event_record, cuEventRecord, g->end, g->streams[0]);
}

/* Returns the median rate of the GPUs, for each round. */
static Measurements wave_rates(const ProbedGpus *all, CopyDirection way)
{
    Measurements rates = {0};
    const Wave w = {way, all};
    for (int k = -1; k < ROUNDS; k++) {
        Measurements round = {0};
        for (int d = 0; d < all->count; d++)
            begin_wave(&all->gpus[d], &w);
        for (int d = 0; d < all->count; d++) {
            const ProbedGpu *g = &all->gpus[d];
            float ms = 0;
            probe_enter(g);
            PROBE_CALL(g, event_synchronize, cuEventSynchronize, g->end);
            PROBE_CALL(g, event_elapsed_time, cuEventElapsedTime, &ms, g->begin, g->end);
            add_measurement(&round, 1e3 * REPEATED * (double)most_bytes(g, way) / ms);
        }
        if (k >= 0)
            add_measurement(&rates, median_of(&round));
    }
    return rates;
}

static void issue_to_all(const ProbedGpu *g, void *context)
{
    const ProbedGpus *all = context;
    for (int d = 0; d < all->count; d++) {
        Copy c = {TO_GPU, &all->gpus[d], g->bytes, d};
        if (d != g->number)
            issue_copy(g, &c);
    }
}

/* Returns what one GPU sends to all others together. */
static Measurements port_rates(const ProbedGpus *all)
{
    Measurements rates = {0};
    for (int d = 0; d < all->count; d++) {
        const ProbedGpu *g = &all->gpus[d];
        probe_time_us(g, issue_to_all, (void *)all, true);
        add_measurement(&rates,
                        1e6 * (double)(all->count - 1) * (double)g->bytes / probe_time_us(g, issue_to_all, (void *)all, true));
    }
    return rates;
}

/* ---- between GPUs */
static bool may_access(const ProbedGpu *g, const ProbedGpu *peer)
{
    int can = 0;
    PROBE_CALL(g, device_can_access_peer, cuDeviceCanAccessPeer, &can, g->gpu->device, peer->gpu->device);
    probe_enter(g);
    return can && g->cuda->ctx_enable_peer_access(peer->context, 0) == CUDA_SUCCESS;
}

static const char *emulated(const ProbedGpus *all) { return all->virtual ? "emulation" : NULL; }

/* Writes "link 0 1 450GB/s 2us", and the range of the rate. */
static void write_link(Text *t, const ProbedGpus *all, const char *ends, Measurements *rate, double share,
                       const Measurements *latency_us)
{
    for (int i = 0; i < rate->count; i++)
        rate->values[i] /= share;
    Text line = {0};
    double us = median_of(latency_us);
    write_measured(&line, "", rate, CHOOSE_MEDIAN, 1e9, us > 0 ? format("GB/s %.3gus", us) : "GB/s", emulated(all));
    text_add(t, "link %s%s", ends, text_of(&line));
}

static void add_up(Measurements *to, const Measurements *from) { add_measurement(to, median_of(from)); }

/* pairs: of all GPUs, [from * count + to]; empty for those without access */
static void write_pairs(Text *t, const ProbedGpus *all, LinkMeasurements *pairs, double slower)
{
    int n = all->count;
    for (int a = 0; a < n; a++)
        for (int b = a + 1; b < n; b++) {
            LinkMeasurements *there = &pairs[a * n + b], *back = &pairs[b * n + a];
            for (int way = 0; way < ENDS; way++) {
                LinkMeasurements *l = way ? back : there;
                if (l->rate.count)
                    write_link(t, all, way ? format("%d %d", b, a) : format("%d %d", a, b), &l->rate, cost_copy_share() / slower,
                               &l->latency_us);
            }
        }
}

static void probe_pairs(Text *t, const ProbedGpus *all)
{
    int n = all->count, reached = 0;
    LinkMeasurements *pairs = NEW_ARRAY(LinkMeasurements, n * n);
    double least = 1e300, most = 0;
    Measurements latency = {0};
    for (int a = 0; a < n; a++)
        for (int b = 0; b < n; b++) {
            if (a == b || !may_access(&all->gpus[a], &all->gpus[b]))
                continue;
            pairs[a * n + b] = line_of(&all->gpus[a], TO_GPU, &all->gpus[b]);
            double rate = median_of(&pairs[a * n + b].rate);
            least = rate < least ? rate : least;
            most = rate > most ? rate : most;
            add_up(&latency, &pairs[a * n + b].latency_us);
            reached++;
        }
    if (!reached) {
        text_add(t, "# No GPU uses the memory of another one: what they send goes through the host.\n");
        return;
    }
    if (reached < n * (n - 1)) {
        write_pairs(t, all, pairs, 1);
        return;
    }
    Measurements ring = wave_rates(all, TO_GPU), port = port_rates(all);
    double together = median_of(&ring), slower = together < ALIKE * most ? together / most : 1;
    if (n < 3 || least < ALIKE * most || median_of(&port) > PORT * most) {
        write_pairs(t, all, pairs, slower);
        return;
    }
    text_add(t, "switch fabric\n");
    for (int i = 0; i < latency.count; i++)
        latency.values[i] /= 2; /* a copy takes two of these links */
    write_link(t, all, "* fabric", &ring, cost_copy_share(), &latency);
}

/* ---- with the host */
static void probe_host_links(Text *t, const ProbedGpus *all)
{
    static const struct {
        CopyDirection way;
        const char *from, *to;
    } DIRECTIONS[] = {{TO_HOST, "*", "host"}, {FROM_HOST, "host", "*"}};
    Measurements alone[COUNT(DIRECTIONS)] = {{0}}, latency[COUNT(DIRECTIONS)] = {{0}}, together[COUNT(DIRECTIONS)];
    bool shared = false;
    for (int w = 0; w < COUNT(DIRECTIONS); w++) {
        for (int d = 0; d < all->count; d++) {
            LinkMeasurements l = line_of(&all->gpus[d], DIRECTIONS[w].way, NULL);
            add_up(&alone[w], &l.rate);
            add_up(&latency[w], &l.latency_us);
        }
        together[w] = wave_rates(all, DIRECTIONS[w].way);
        shared = shared || median_of(&together[w]) < ALIKE * median_of(&alone[w]);
    }
    if (shared)
        text_add(t, "switch bridge\n");
    for (int w = 0; w < COUNT(DIRECTIONS); w++) {
        const char *host = shared ? "bridge" : "host";
        write_link(t, all, w ? format("%s *", host) : format("* %s", host), &alone[w], 1, &latency[w]);
        for (int i = 0; i < together[w].count; i++)
            together[w].values[i] *= all->count;
        if (shared)
            write_link(t, all, w ? "host bridge" : "bridge host", &together[w], 1, &(Measurements){0});
    }
}

void probe_links(Text *t, const ProbedGpus *all)
{
    if (all->count > 1)
        probe_pairs(t, all);
    probe_host_links(t, all);
}
