/* mgpu_rounds.h: all-reduces in rounds, between which all members synchronize: what a member does in each round.
 *
 *   ring     2 (n - 1) rounds: each member takes one of n pieces from the previous one, n - 1 times to add it, then to keep it
 *            (Patarasuk, Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations", JPDC 69(2), 2009)
 *   tree     log2(n) rounds: members whose number is a multiple of 2, 4, 8, ... add all of their neighbour's; as many rounds back
 *   device   device 0 adds the value of each other device, one per round; in the last round all others copy the sum */
#ifndef MGPU_ROUNDS_H
#define MGPU_ROUNDS_H

#include "mgpu_transfers.h"

typedef struct mgpu_round_step {
    int from;
    bool adds;
    mgpu_range elements;
} mgpu_round_step; /* of member `from`; -1: none */

static inline bool mgpu_has_rounds(int implementation)
{
    return implementation >= MGPU_IMPLEMENTATION_RING && implementation <= MGPU_IMPLEMENTATION_DEVICE;
}

/* Every member receives what all have sent, and sums it by itself: one-bit numbers (mgpu_bits.h) or moments (mgpu_moments.h). */
static inline bool mgpu_gathers(int transfer)
{
    return transfer == MGPU_TRANSFER_REDUCE_BITS || transfer == MGPU_TRANSFER_REDUCE_MOMENTS;
}

/* Returns the bytes that a member then sends. */
static inline int64_t mgpu_gathered_bytes(int transfer, int64_t count, int64_t each)
{
    return transfer == MGPU_TRANSFER_REDUCE_BITS ? mgpu_coded_bytes(count, each) : count * each;
}

/* Returns the most bytes that a member adds at once in a transfer with elements of `each` bytes. */
static inline int64_t mgpu_slice_bytes(const mgpu_participants *p, int64_t count, int64_t each, int members)
{
    int64_t most = 0;
    for (int d = 0; d < members && mgpu_transfer_row(p->transfer)->adds && !mgpu_gathers(p->transfer); d++) {
        mgpu_range own = mgpu_received_by(p, count, d);
        int64_t bytes = (own.end - own.begin) * each / (p->transfer == MGPU_TRANSFER_REDUCE ? members : 1);
        most = bytes > most ? bytes : most;
    }
    return most;
}

/* Returns the bytes outside the arenas for what all members send, where each one sums it. */
static inline int64_t mgpu_codes_bytes(const mgpu_participants *p, int64_t count, int64_t each, int members)
{
    return mgpu_gathers(p->transfer) ? members * mgpu_gathered_bytes(p->transfer, count, each) : 0;
}

/* Returns the bytes outside the arenas for copies of what an implementation adds: a slice of each other member, or all of one at
 * a time. slice: bytes of the largest slice of all transfers that share this memory. */
static inline int64_t mgpu_implementation_bytes(int implementation, int members, int64_t slice)
{
    bool whole = implementation == MGPU_IMPLEMENTATION_TREE || implementation == MGPU_IMPLEMENTATION_DEVICE,
         takes = implementation == MGPU_IMPLEMENTATION_COPY || mgpu_has_rounds(implementation);
    return takes ? (whole ? members : members - 1) * (slice + 192) : 0;
}

static inline int mgpu_tree_height(int members)
{
    int height = 0;
    while (1 << height < members)
        height++;
    return height;
}

static inline int mgpu_round_count(int implementation, int members)
{
    return implementation == MGPU_IMPLEMENTATION_RING   ? 2 * (members - 1)
           : implementation == MGPU_IMPLEMENTATION_TREE ? 2 * mgpu_tree_height(members)
                                                        : members;
}

/* Returns piece `which` of `pieces`; pieces are multiples of `line` elements, except at the end. */
static inline mgpu_range mgpu_chunk_of(int64_t count, int pieces, int which, int64_t line)
{
    int64_t each = ((count + pieces - 1) / pieces + line - 1) / line * line;
    mgpu_range piece = {each * which < count ? each * which : count, each * (which + 1) < count ? each * (which + 1) : count};
    return piece;
}

static inline mgpu_round_step mgpu_round_of(int implementation, int members, int member, int round, int64_t count, int64_t line)
{
    mgpu_round_step r = {-1, false, {0, count}};
    if (implementation == MGPU_IMPLEMENTATION_RING) {
        int piece = round < members - 1 ? member - 1 - round : member - (round - (members - 1));
        r.from = (member + members - 1) % members;
        r.adds = round < members - 1;
        r.elements = mgpu_chunk_of(count, members, (piece + 2 * members) % members, line);
    } else if (implementation == MGPU_IMPLEMENTATION_TREE) {
        int height = mgpu_tree_height(members);
        bool up = round < height;
        int reach = 1 << (up ? round : 2 * height - 1 - round);
        r.adds = up;
        if (up && member % (2 * reach) == 0 && member + reach < members)
            r.from = member + reach;
        if (!up && member % (2 * reach) == reach)
            r.from = member - reach;
    } else if (round < members - 1) {
        r.adds = true;
        r.from = member == 0 ? round + 1 : -1;
    } else {
        r.from = member == 0 ? -1 : 0;
    }
    return r;
}

#endif
