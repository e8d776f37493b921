/* transfer_sms.c: the SMs of each GPU that a transfer occupies while it runs. None of this was measured here.
 *
 * NCCL launches a block for each channel, which has an SM for itself: its registers and shared memory leave no room for another
 * kernel's block (NVIDIA, nccl issues 689, 1424, 1656). The number of channels is that of NCCL 2.27: in-switch sums have a fixed
 * number (src/transport/nvls.cc); a ring or a tree has two for each ring that the search finds (connect.cc), so that a channel
 * carries about the same part of a generation's links: 24 of 450 GB/s on H100, 24 of 300 GB/s on A100, 2 of one PCIe x16; over
 * nodes two for each network card (issue 689: 8 cards, 16 SMs). Small transfers have one for each 32 KiB (enqueue.cc: 512
 * threads, 64 bytes each).
 *
 * Our own sums over peers have 64 blocks of 256 threads, which share their SMs with other kernels (runtime/cuda/collective.c):
 * they count as the SMs that so many threads fill, 2,048 each, but at most as the fraction of the memory's rate that they use. A
 * single-kernel all-reduce has 8 blocks. Copies use the copy engines, and occupy no SMs. */
#include "compiler/machine/collectives.h"
#include "runtime/abi/mgpu_one_shot.h"

#include <math.h>

/* rate: of a channel; channels of in-switch sums: on one node, on several */
typedef struct Channels {
    int capability;
    double rate;
    int in_switch, between;
} Channels;
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
    else if (method == METHOD_COPY && g->peer_access)
        units = fmin(PEER_BLOCKS, ceil(bytes / g->count / PEER_BYTES)) * PEER_SHARE,
        most = twice_for_all(what) * bytes / us / d->bandwidth.value * 1e6;
    else if (method == METHOD_ONE_SHOT)
        units = MGPU_ONE_SHOT_BLOCKS * PEER_SHARE;
    return fmin(units / d->units.value, most);
}
