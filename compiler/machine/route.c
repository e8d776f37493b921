/* route.c: Machine, two ends -> the links that a transfer uses.
 *
 * A direct link if there is one; else through switches; else through the host's memory, as two pipelined transfers. Devices
 * forward nothing, nor does the network. Of several routes the one with the fewest links is used, then the one with the highest
 * rate. */
#include "compiler/machine/machine.h"

#include <math.h>
#include <string.h>

int machine_host(const Machine *m) { return m->device_count; }

int machine_network(const Machine *m)
{
    for (int s = 0; s < m->switch_count; s++)
        if (strcmp(m->switches[s].name, NETWORK) == 0)
            return machine_host(m) + 1 + s;
    return -1;
}

/* Returns true if the end forwards from one link to another. */
static bool passes_on(const Machine *m, int end) { return end > machine_host(m) && end != machine_network(m); }

const char *machine_end_name(const Machine *m, int end)
{
    return end < m->device_count    ? format("%d", end)
           : end == machine_host(m) ? "host"
                                    : m->switches[end - machine_host(m) - 1].name;
}

static int end_count(const Machine *m) { return m->device_count + 1 + m->switch_count; }

static double rate_of(const Machine *m, int link, bool back) { return m->links[link].rate[back].value; }

typedef struct Reached {
    int hops, link;
    bool back;
    double rate;
} Reached; /* hops -1: not yet */

/* Visits ends in rounds of one more link; of routes with equally many links to an end, the one with the highest rate is kept. */
static bool search_path(const Machine *m, int from, int to, Reached *reached, Route *r)
{
    int last = from;
    for (int e = 0; e < end_count(m); e++)
        reached[e] = (Reached){.hops = -1};
    reached[from] = (Reached){.hops = 0, .rate = 1e300};
    for (int hops = 1; hops <= MOST_HOPS && reached[to].hops < 0; hops++)
        for (int i = 0; i < m->link_count; i++)
            for (int back = 0; back < 2; back++) {
                int near = m->links[i].end[back], far = m->links[i].end[!back];
                const Reached *before = &reached[near];
                if (before->hops != hops - 1 || (near != from && !passes_on(m, near)) || rate_of(m, i, back) <= 0)
                    continue;
                double rate = rate_of(m, i, back) < before->rate ? rate_of(m, i, back) : before->rate;
                Reached *x = &reached[far];
                if (x->hops < 0 || (x->hops == hops && rate > x->rate))
                    *x = (Reached){hops, i, back, rate};
            }
    if (reached[to].hops < 0)
        return false;
    *r = (Route){.count = reached[to].hops, .rate = reached[to].rate};
    for (int at = to, k = r->count - 1; k >= 0; k--) {
        const Reached *x = &reached[at];
        r->link[k] = x->link;
        r->back[k] = x->back;
        r->latency_us += m->links[x->link].latency_us.value;
        at = last = m->links[x->link].end[x->back];
    }
    return last == from;
}

static bool find_path(const Machine *m, int from, int to, Route *r)
{
    /* temporary memory, since there are as many routes as pairs of ends */
    Memory *own = memory_new(), *outer = memory_use(own);
    bool found = search_path(m, from, to, NEW_ARRAY(Reached, end_count(m)), r);
    memory_use(outer);
    memory_free(own);
    return found;
}

bool machine_route(const Machine *m, int from, int to, Route *r)
{
    return m->classes ? class_route(m, from, to, r) : find_route(m, from, to, r);
}

bool find_route(const Machine *m, int from, int to, Route *r)
{
    Route up, down;
    *r = (Route){.rate = 1e300};
    if (from == to || find_path(m, from, to, r))
        return true;
    int host = machine_host(m);
    if (from == host || to == host || !find_path(m, from, host, &up) || !find_path(m, host, to, &down) ||
        up.count + down.count > MOST_HOPS)
        return false;
    *r = up;
    for (int k = 0; k < down.count; k++) {
        r->link[r->count] = down.link[k];
        r->back[r->count++] = down.back[k];
    }
    r->staged = true;
    r->rate = down.rate < up.rate ? down.rate : up.rate;
    r->latency_us += down.latency_us;
    return true;
}

static Fact divided(Fact f, double by) { return (Fact){f.value / by, f.measured}; }

Device machine_device(const Machine *m, Processor processor, int number, int count)
{
    if (processor == PROCESSOR_CUDA) {
        if (!m->device_count)
            die("the machine %s has no GPU", m->name);
        return m->devices[number < m->device_count ? number : m->device_count - 1];
    }
    const Host *h = &m->host;
    /* Devices have equally many threads. If there are more devices than cores, they take turns, and the last one determines the
     * time. */
    Fact units = {count > h->cores.value ? 1 / ceil(count / h->cores.value) : floor(h->cores.value / count), h->cores.measured};
    Device d = {.name = "host",
                .processor = PROCESSOR_HOST,
                .units = units,
                .memory = divided(h->memory, count),
                .bandwidth = divided(h->bandwidth, count),
                .event_us = h->barrier_us};
    /* devices that take turns wait for the lanes of the others, too */
    d.step_us = divided(h->step_us, d.units.value < 1 ? d.units.value : 1);
    if (d.units.value > 1) /* a single thread has no barrier */
        d.launch_us = h->barrier_us;
    d.matmul = h->plain[F32].value > 0 ? h->matmul.value / h->plain[F32].value : 0;
    for (int t = 0; t < DTYPES; t++)
        d.plain[t] = (Fact){h->plain[t].value * d.units.value, h->plain[t].measured};
    return d;
}
