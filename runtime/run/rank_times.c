/* rank_times.c: for several processes: what an epoch's steps took in each, throughput by host, and which process the others wait
 * for.
 *
 * All processes run the same steps. A process whose devices compute longer for their samples than those of the others is the
 * slowest. If there is none and transfers take longer than predicted, the links are slow. */
#include "runtime/base/base.h"
#include "runtime/run/clock.h"
#include "runtime/run/run.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double SLOWER = 1.4, WORTH_MS = 2;

typedef struct RankTimes { /* medians of a step. samples: of a micro-batch; most: of the device with most samples */
    char host[96];
    double computing, input, communication;
    int64_t samples, most;
    int devices;
} RankTimes;

static RankTimes times_here(const Run *run, const EpochTimes *t)
{
    const Processes *p = run->options->processes;
    const mgpu_device *device = run->plan->device;
    DeviceSpan own = mgpu_local_devices(p, run->plan->devices);
    RankTimes r = {
        .computing = t->computing, .input = t->input, .communication = t->communication, .devices = own.end - own.first};
    snprintf(r.host, sizeof r.host, "%s", p->host);
    for (int d = own.first; d < own.end; d++) {
        r.samples += device[d].shard.share;
        r.most = device[d].shard.share > r.most ? device[d].shard.share : r.most;
    }
    return r;
}

/* Returns the others' time of computing, scaled to this rank's number of samples. */
static double others_computing(const RankTimes *all, int count, int rank)
{
    double *values = mgpu_allocate((size_t)count, sizeof *values), middle;
    int n = 0;
    for (int k = 0; k < count; k++)
        if (k != rank && all[k].most > 0)
            values[n++] = all[k].computing * fmax(1, (double)all[rank].most / (double)all[k].most);
    qsort(values, (size_t)n, sizeof *values, mgpu_compare_doubles);
    middle = n ? (values[(n - 1) / 2] + values[n / 2]) / 2 : NAN;
    free(values);
    return middle;
}

static int slowest(const RankTimes *all, int count)
{
    int rank = 0;
    for (int k = 1; k < count; k++)
        rank = all[k].computing > all[rank].computing ? k : rank;
    return rank;
}

static void notice(Run *run, const RankTimes *all, int rank, double others)
{
    char *text = mgpu_format(
        "rank %d on %s takes %.1f times as long as the others, which wait for it: %.2f ms of computing a step, theirs are %.2f; if nothing else runs there, "
        "mgpuc --split gives it fewer samples",
        rank, all[rank].host, all[rank].computing / others, all[rank].computing, others);
    mgpu_report_notice(run->reporter, "rank", text);
    free(text);
}

/* Sums by host, in the order of the hosts' first ranks. */
static void add_up(const RankTimes *all, int count, double micro, EpochReport *e)
{
    e->hosts = mgpu_allocate((size_t)count, sizeof *e->hosts);
    for (int k = 0; k < count; k++) {
        int h = 0;
        while (h < e->host_count && strcmp(e->hosts[h].name, all[k].host) != 0)
            h++;
        HostTimes *host = &e->hosts[h];
        if (h == e->host_count) {
            *host = (HostTimes){.computing = all[k].computing, .input = all[k].input, .communication = all[k].communication};
            snprintf(host->name, sizeof host->name, "%s", all[k].host);
            e->host_count++;
        }
        host->ranks++;
        host->devices += all[k].devices;
        host->share += micro > 0 ? (double)all[k].samples / micro : 0;
        host->computing = fmax(host->computing, all[k].computing);
        host->input = fmax(host->input, all[k].input);
        host->communication = fmin(host->communication, all[k].communication);
    }
}

void mgpu_run_compare_times(Run *run, EpochReport *e)
{
    Processes *p = run->options->processes;
    RankTimes *all = mgpu_allocate((size_t)p->count, sizeof *all);
    all[p->rank] = times_here(run, &e->times);
    mgpu_gather_each(p, all, sizeof *all);
    int rank = slowest(all, p->count);
    double others = others_computing(all, p->count, rank);
    bool slow = e->times.step >= WORTH_MS && all[rank].computing > SLOWER * others;
    add_up(all, p->count, (double)run->plan->micro, e);
    e->slowest = rank;
    if (slow) {
        snprintf(e->times.bound, sizeof e->times.bound, "rank %d", rank);
        if (run->slow_rank == rank + 1 && !run->slow_rank_reported) { /* a second time, since once may be chance */
            notice(run, all, rank, others);
            run->slow_rank_reported = true;
        }
        run->slow_rank = rank + 1;
    } else {
        run->slow_rank = 0;
        Notice n;
        if (mgpu_clock_links(run->clock, &n)) {
            mgpu_report_notice(run->reporter, n.kind, n.text);
            free(n.text);
        }
    }
    free(all);
}
