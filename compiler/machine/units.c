/* units.c: the SMs of each GPU that a transfer takes while it runs. Nothing of it was measured here.
 *
 * NCCL launches a block for each channel, which has its SM alone: its registers and shared memory leave no room for another
 * kernel's block (NVIDIA, nccl issues 689, 1424, 1656). How many channels there are is what NCCL 2.27 does: sums in the switch
 * have a fixed number (src/transport/nvls.cc); a ring or a tree has two for each ring that the search finds (connect.cc), so
 * that a channel carries about the same share of a generation's links: 24 of 450 GB/s on H100, 24 of 300 GB/s on A100, 2 of one
 * PCIe x16; over nodes two for each network card (issue 689: 8 cards, 16 SMs). Small transfers have one for each 32 KiB
 * (enqueue.cc: 512 threads, 64 bytes each).
 *
 * Our own sums over peers have 64 blocks of 256 threads, which share their SMs with others (runtime/cuda/collective.c): as many
 * SMs as have these threads, of 2,048 each, but no more of all than they move of what the memory can; one kernel for all has 8. Copies are made by the
 * copy engines, and take none. */
#include "compiler/machine/collectives.h"
#include "runtime/abi/mgpu_one_shot.h"

#include <math.h>

/* rate: of a channel; sums in the switch: of one node, of several */
typedef struct Channels { int capability; double rate; int in_switch, between; } Channels;
static const Channels CHANNELS[] = {{100, 28.1e9, 24, 32}, {90, 18.75e9, 16, 16}, {80, 12.5e9, 16, 16}, {0, 10e9, 16, 16}};
static const double CHANNEL_BYTES = 32 << 10, MOST_TAKEN = .9, PEER_BLOCKS = 64, PEER_BYTES = 256 * 16, PEER_SHARE = 256 / 2048.;

static double channels_of(const Members *g, Method method, double bytes)
{
    const Channels *c = CHANNELS;
    while (g->machine->devices->capability < c->capability)
        c++;
    if (method == METHOD_SWITCH || (method == METHOD_LEVELS && g->in_switch > 0))
        return g->nodes > 1 ? c->between : c->in_switch;
    double all = fmax(2, 2 * round(g->ring / (2 * c->rate)));
    if (g->nodes > 1)
        all = members_each(g) > 1 ? fmin(all, 2 * g->cards) : 2 * g->cards;
    return fmax(1, fmin(all, floor(bytes / CHANNEL_BYTES)));
}

double units_taken(const Members *g, Collect what, Method method, double bytes, double us)
{
    const Device *d = g->machine->devices;
    if (g->processor == PROCESSOR_HOST || g->machine->device_count < 2 || d->units.value <= 0)
        return 0;
    double units = 0, most = MOST_TAKEN;
    if (method == METHOD_RING || method == METHOD_TREE || method == METHOD_SWITCH || method == METHOD_LEVELS)
        units = channels_of(g, method, bytes);
    else if (method == METHOD_COPY && g->reach)
        units = fmin(PEER_BLOCKS, ceil(bytes / g->count / PEER_BYTES)) * PEER_SHARE,
        most = twice_for_all(what) * bytes / us / d->bandwidth.value * 1e6;
    else if (method == METHOD_ONE_SHOT)
        units = MGPU_ONE_SHOT_BLOCKS * PEER_SHARE;
    return fmin(units / d->units.value, most);
}
