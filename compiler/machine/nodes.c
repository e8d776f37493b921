/* nodes.c: the time of collectives over several nodes (formulas: cost.h). All nodes do the same, so only one is considered: its
 * links, and those to the network.
 *
 * A ring or a tree of all devices is pipelined, so the slower kind of links determines the time. In levels one kind is used after
 * the other, but there are few messages, and each device sends little. */
#include "compiler/machine/collectives.h"

#include <math.h>

/* Fraction of the network cards' rate that large messages reach. NCCL: 16 nodes of 8 H100 with 50 GB/s each, 360 GB/s of bus
 * bandwidth (nccl-tests, published). MPI, messages of an exchange in both directions: Open MPI 4.1 by TCP between two network
 * namespaces, whose link carried 0.1 and 1 Gbit/s: 94 and 88 % (measured) */
static const double NETWORK_SHARE = .9, MESSAGES_SHARE = .92;
/* bytes a second of one core, in and out, with the system's copies (the same; two processes took 7 ms more of a core for 19
 * MB) */
static const double MESSAGES_OF_A_CORE = 2.5e9;
static const unsigned OF_LEVELS = 1u << METHOD_RING | 1u << METHOD_SWITCH; /* methods inside a node */

static Members inside(const Members *g)
{
    Members one = *g;
    one.count = members_each(g);
    one.nodes = 1;
    one.measured = NULL;
    return one;
}

/* Finds what all links carry if each member sends a byte to the network and receives one. */
void find_network(Members *g)
{
    const Machine *m = g->machine;
    int each = members_each(g), network = machine_network(m);
    double *load = NEW_ARRAY(double, 2 * m->link_count), us = 0;
    for (int k = 0; k < 2 * each && network >= 0; k++) {
        int end = g->processor == PROCESSOR_HOST ? machine_host(m) : k / 2 < m->device_count ? k / 2 : m->device_count - 1;
        Route r;
        if (!machine_route(m, k % 2 ? network : end, k % 2 ? end : network, &r))
            return;
        for (int i = 0; i < r.count; i++)
            load[2 * r.link[i] + r.back[i]]++;
        g->network_us = r.latency_us > g->network_us ? r.latency_us : g->network_us;
    }
    for (int i = 0; i < m->link_count; i++)
        g->cards += m->links[i].end[0] == network || m->links[i].end[1] == network;
    for (int i = 0; i < 2 * m->link_count; i++)
        us = fmax(us, load[i] > 0 ? load[i] / m->links[i / 2].rate[i % 2].value : 0);
    g->network_us *= 2; /* to the network, and from it to another node */
    g->network = us > 0 ? each / us : 0;
    g->network_load = load;
}

bool works_between(const Members *g, Method method)
{
    bool host = g->processor == PROCESSOR_HOST, alone = members_each(g) == 1;
    if (g->network <= 0)
        return false;
    switch (method) {
    case METHOD_RING:
    case METHOD_TREE: return !host && (alone || g->ring > 0);
    case METHOD_LEVELS: return !host && !alone && (g->ring > 0 || g->in_switch > 0);
    case METHOD_HOST: return host;
    default: return false;
    }
}

/* between: part of the rest */
static Cost of_levels(double latency, double latency_between, double rest, double between)
{
    Cost c = with_latency(latency + latency_between, rest);
    c.between_us = latency_between + between;
    return c;
}

/* Returns the rate of what is passed from device to device, a fraction of it between nodes; *network: the network is the
 * bottleneck. */
static double least_rate(const Members *g, double share, bool *network)
{
    double out = g->network * NETWORK_SHARE / share, in = members_each(g) > 1 ? g->ring * ring_share() : INFINITY;
    *network = out < in;
    return fmin(out, in);
}

static Cost ring_of_all(const Members *g, Collect what, double bytes, double begin)
{
    bool network;
    double n = g->count, nodes = g->nodes, way = twice_for_all(what) * (n - 1) / n;
    double us = way * bytes / least_rate(g, 1, &network) * 1e6;
    return of_levels(begin + way * (n - nodes) * g->ring_us, way * nodes * g->network_us, us, network ? us : 0);
}

/* Returns the fraction of B that the busiest node sends up or down two trees, each with half of B: in one it is the root or has a
 * parent, and has one or two children; in the other it is a leaf. */
static double share_of_tree(double nodes) { return nodes <= 2 ? 1 / 2. : nodes <= 3 ? 3 / 4. : 1; }

static Cost tree_of_nodes(const Members *g, Collect what, double bytes, double begin)
{
    bool network;
    double half = twice_for_all(what), us = half * bytes / least_rate(g, share_of_tree(g->nodes), &network) * 1e6;
    return of_levels(begin + half * (members_each(g) - 1) * g->ring_us, half * ceil(log2(g->nodes)) * g->network_us, us,
                     network ? us : 0);
}

/* Returns the time for each device of a node to reduce bytes / devices with its counterparts; passes: how often these bytes cross
 * the network. */
static double part_us(const Members *g, Collect what, double bytes, double *passes)
{
    double half = twice_for_all(what), nodes = g->nodes, all = bytes / (g->network * NETWORK_SHARE) * 1e6;
    double ring = half * ((nodes - 1) * g->network_us + (nodes - 1) / nodes * all),
           tree = half * (ceil(log2(nodes)) * g->network_us + share_of_tree(nodes) * all);
    *passes = half * (ring < tree ? (nodes - 1) / nodes : share_of_tree(nodes));
    return fmin(ring, tree);
}

static Cost in_levels(const Members *g, Collect what, double bytes)
{
    Method method;
    Members one = inside(g);
    double passes, us = 0, of_none = 0, between = part_us(g, what, bytes, &passes), between_none = part_us(g, what, 0, &passes);
    if (what == COLLECT_BROADCAST)
        return (Cost){.us = INFINITY, .bound = BOUND_LINK};
    for (Collect step = COLLECT_REDUCE_SCATTER; step <= COLLECT_ALL_GATHER; step++)
        if (what == COLLECT_ALL_REDUCE || what == step) {
            us += cost_cheapest(&one, OF_LEVELS, step, bytes, &method).us;
            of_none += cost_collective(&one, step, method, 0).us;
        }
    return of_levels(of_none, between_none, us - of_none + between - between_none, between - between_none);
}

/* As in runtime/mpi/spanning.c: slices to all nodes, each added up over the nodes, sums from all. */
static Cost by_messages(const Members *g, Collect what, double bytes)
{
    double nodes = g->nodes, half = twice_for_all(what), rate = g->network * MESSAGES_SHARE;
    double part = what == COLLECT_BROADCAST ? 1 : (nodes - 1) / nodes, all = half * part * bytes / rate * 1e6;
    double add = what == COLLECT_ALL_GATHER || what == COLLECT_BROADCAST
                     ? 0
                     : (nodes + 1) / nodes * bytes / g->machine->host.bandwidth.value * 1e6;
    bool alone = members_each(g) == 1;
    Cost here = alone ? (Cost){0} : cost_on_host(g->machine, what, METHOD_HOST, bytes, members_each(g)), none = here;
    none.us = alone ? 0 : cost_on_host(g->machine, what, METHOD_HOST, 0, members_each(g)).us;
    return of_levels(none.us, half * g->network_us, here.us - none.us + add + all, all);
}

double collective_core_us(const Members *g, Collect what, Method method, double bytes)
{
    double crosses = what == COLLECT_BROADCAST ? bytes : twice_for_all(what) * bytes * (g->nodes - 1) / g->nodes;
    return g->nodes > 1 && method == METHOD_HOST ? 2 * crosses / MESSAGES_OF_A_CORE * 1e6 : 0;
}

Cost cost_between(const Members *g, Collect what, Method method, double bytes)
{
    const Device *d = g->machine->devices;
    double begin = g->processor == PROCESSOR_HOST ? 0 : library_us(d) + d->event_us.value;
    switch (method) {
    case METHOD_RING: return ring_of_all(g, what, bytes, begin);
    case METHOD_TREE: return tree_of_nodes(g, what, bytes, begin);
    case METHOD_LEVELS: return in_levels(g, what, bytes);
    case METHOD_HOST: return by_messages(g, what, bytes);
    default: return (Cost){.us = INFINITY, .bound = BOUND_LINK};
    }
}

static void add_network(const Members *g, double bytes, double *of_link)
{
    for (int i = 0; i < 2 * g->machine->link_count; i++)
        of_link[i] += bytes / members_each(g) * g->network_load[i];
}

static double bytes_of_levels(const Members *g, Collect what, double bytes, double *of_link)
{
    Method method;
    Members one = inside(g);
    double passes, memory = 0;
    part_us(g, what, bytes, &passes);
    for (Collect step = COLLECT_REDUCE_SCATTER; step <= COLLECT_ALL_GATHER; step++)
        if (what == COLLECT_ALL_REDUCE || what == step) {
            cost_cheapest(&one, OF_LEVELS, step, bytes, &method);
            memory += collective_bytes(&one, step, method, bytes, of_link);
        }
    add_network(g, passes * bytes, of_link);
    return memory;
}

double bytes_between(const Members *g, Collect what, Method method, double bytes, double *of_link)
{
    double n = g->count, nodes = g->nodes, all = twice_for_all(what) * bytes;
    if (method == METHOD_LEVELS)
        return bytes_of_levels(g, what, bytes, of_link);
    if (method == METHOD_HOST) {
        add_network(g, what == COLLECT_BROADCAST ? bytes : all * (nodes - 1) / nodes, of_link);
        return 0;
    }
    double ring = all * (method == METHOD_RING ? (n - 1) / n : 1);
    for (int i = 0; i < 2 * g->machine->link_count && members_each(g) > 1; i++)
        of_link[i] += ring * g->ring_load[i];
    add_network(g, method == METHOD_RING ? ring : all * share_of_tree(nodes), of_link);
    return 0;
}
