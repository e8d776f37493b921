/* collectives.h: what the files of collectives share: collectives.c those of one node, nodes.c those of several. */
#ifndef MGPU_MACHINE_COLLECTIVES_H
#define MGPU_MACHINE_COLLECTIVES_H

#include "compiler/machine/cost.h"

static inline Cost with_latency(double latency, double rest)
{
    return (Cost){.us = latency + rest, .bound = rest > latency ? BOUND_LINK : BOUND_LATENCY};
}
static inline double twice_for_all(Collect what) { return what == COLLECT_ALL_REDUCE ? 2 : 1; } /* all-reduce: both parts */
/* Returns the time of an NCCL call with its launch: the "base latency" of the protocol LL in NCCL's own model
 * (src/graph/tuning.cc, in NVIDIA/nccl, issue 1334). Published, not measured here. */
static inline double library_us(const Device *d) { return d->launch_us.value > 6.6 ? d->launch_us.value : 6.6; }
double units_taken(const Members *, Collect what, Method, double bytes,
                   /* transfer_sms.c: Returns the fraction of each GPU's SMs that a transfer occupies; us: its time. */
                   double us);
double ring_share(void); /* fraction of the links' rates that a ring reaches with large messages */
Cost cost_on_host(const Machine *, Collect what, Method method, double bytes, int devices);

/* ---- nodes.c: members with more than one node */
void find_network(Members *);
bool works_between(const Members *, Method);
Cost cost_between(const Members *, Collect, Method, double bytes);
double bytes_between(const Members *, Collect, Method, double bytes, double *of_link);
#endif
