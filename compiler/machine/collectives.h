/* collectives.h: what the files of collectives tell each other: collectives.c those of one node, nodes.c those of several. */
#ifndef MGPU_MACHINE_COLLECTIVES_H
#define MGPU_MACHINE_COLLECTIVES_H

#include "compiler/machine/cost.h"

static inline Cost with_latency(double latency, double rest) { return (Cost){.us = latency + rest, .bound = rest > latency ? BOUND_LINK : BOUND_LATENCY}; }
static inline double twice_for_all(Collect what) { return what == COLLECT_ALL_REDUCE ? 2 : 1; } /* a reduce-scatter and an all-gather */
double ring_share(void); /* of the links' rates that a ring reaches with large messages */
Cost cost_on_host(const Machine *, Collect what, Method method, double bytes, int devices);

/* ---- nodes.c: members with more than one node */
void find_network(Members *);
bool works_between(const Members *, Method);
Cost cost_between(const Members *, Collect, Method, double bytes);
double bytes_between(const Members *, Collect, Method, double bytes, double *of_link);
#endif
