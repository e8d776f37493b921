/* mgpu_transfers.h: the table of transfers: every kind of transfer by which values go from device to device, a row each. Nodes of
 * graphs, verbs and kinds of the schedule, the rules of the verifier and what the runtime does all follow from these rows.
 *
 * X(NAME, "verb", "kind", from, to, adds, sends, receives, ends)
 *
 *   NAME      OP_NAME is the node; MGPU_TRANSFER_NAME
 *   verb      of the schedule's operation: the name of the node in ops.def
 *   kind      of the schedule's collective, and what messages call it: "the all-reduce r1"
 *   from, to  the distribution of the node's input and of its result (compiler/ir/graph.h). LOCAL also takes what is partial or
 *             replicated: each device has a value of its own. PARTIAL also takes what is local: the sum of what all have
 *   adds      ADDS: the members' values are added, in the order of the devices; MOVES: they are copied
 *   (REDUCE_BITS sends a bit of each element, and two values for MGPU_SEGMENT of them: mgpu_bits.h; REDUCE_MOMENTS merges, three
 *   numbers at a time: mgpu_moments.h)
 *   sends     of `count` elements, those that a member reads: WHOLE: all; OWN: its part of the split; ROOT: device `from` all of
 *             them, the others none
 *   receives  those that it writes: WHOLE; OWN; OTHERS: all, but device `from` none; TARGET: device `to` all, the others none
 *   ends      which devices its attributes name: 0: none, 1: `from`, 2: `from` and `to`
 *
 * Every device of a plan is a member of each transfer, with as much as its row says, maybe nothing. A member has one buffer for
 * the whole value: it sends from its place there and receives at its place there. A split has parts[devices + 1]: device d has
 * the elements [parts[d], parts[d + 1]), any number of them, maybe none. */
#ifndef MGPU_TRANSFERS_H
#define MGPU_TRANSFERS_H

#include "mgpu_bits.h"

#include <stdbool.h>
#include <stdint.h>

/* clang-format off */
#define MGPU_TRANSFER_TABLE(X)                                                                               \
    X(REDUCE,         "reduce",         "all-reduce",     PARTIAL, REPLICATED, ADDS,  WHOLE, WHOLE,  0)      \
    X(REDUCE_SCATTER, "reduce_scatter", "reduce-scatter", PARTIAL, SPLIT,      ADDS,  WHOLE, OWN,    0)      \
    X(ALL_GATHER,     "all_gather",     "all-gather",     SPLIT,   REPLICATED, MOVES, OWN,   WHOLE,  0)      \
    X(BROADCAST_FROM, "broadcast_from", "broadcast",      LOCAL,   REPLICATED, MOVES, ROOT,  OTHERS, 1)      \
    X(SEND,           "send",           "send",           LOCAL,   LOCAL,      MOVES, ROOT,  TARGET, 2)      \
    X(REDUCE_BITS,    "reduce_bits",    "one-bit-reduce", LOCAL,   REPLICATED, ADDS,  WHOLE, WHOLE,  0)      \
    X(REDUCE_MOMENTS, "reduce_moments", "moments-reduce", PARTIAL, REPLICATED, ADDS,  WHOLE, WHOLE,  0)
/* clang-format on */

#define MGPU_TRANSFER_NUMBER(name, ...) MGPU_TRANSFER_##name,
enum { MGPU_TRANSFER_TABLE(MGPU_TRANSFER_NUMBER) MGPU_TRANSFERS };
enum { MGPU_SHARE_WHOLE, MGPU_SHARE_OWN, MGPU_SHARE_ROOT, MGPU_SHARE_OTHERS, MGPU_SHARE_TARGET };
enum { MGPU_TRANSFER_ADDS = 1, MGPU_TRANSFER_MOVES = 0 };

typedef struct mgpu_transfer {
    const char *verb, *kind;
    bool adds;
    uint8_t sends, receives; /* MGPU_SHARE_... */
    uint8_t ends;
} mgpu_transfer;

/* What each member of a transfer sends and receives. */
typedef struct mgpu_participants {
    uint8_t transfer; /* MGPU_TRANSFER_... */
    int from, to;
    const int64_t *parts; /* for rows with OWN; else NULL */
} mgpu_participants;
typedef struct mgpu_range {
    int64_t begin, end;
} mgpu_range; /* elements of the whole value */

static inline const mgpu_transfer *mgpu_transfer_row(int transfer)
{
#define MGPU_TRANSFER_ROW(name, verb, kind, from, to, adds, sends, receives, ends)                                               \
    {verb, kind, MGPU_TRANSFER_##adds, MGPU_SHARE_##sends, MGPU_SHARE_##receives, ends},
    static const mgpu_transfer ROWS[] = {MGPU_TRANSFER_TABLE(MGPU_TRANSFER_ROW)};
#undef MGPU_TRANSFER_ROW
    return &ROWS[transfer];
}

/* Returns where the part of a device begins if a value is split evenly: at multiples of 64 elements for all types. The last parts
 * may be smaller, or empty. Device `devices` begins at the end. */
static inline int64_t mgpu_even_part(int64_t count, int devices, int device)
{
    int64_t each = ((count + devices - 1) / devices + 63) / 64 * 64;
    return each * device < count ? each * device : count;
}

static inline bool mgpu_transfer_splits(int transfer)
{
    const mgpu_transfer *row = mgpu_transfer_row(transfer);
    return row->sends == MGPU_SHARE_OWN || row->receives == MGPU_SHARE_OWN;
}

static inline mgpu_range mgpu_share_of(const mgpu_participants *p, int share, int64_t count, int member)
{
    mgpu_range none = {0, 0}, whole = {0, count};
    switch (share) {
    case MGPU_SHARE_OWN: {
        mgpu_range own = {p->parts[member], p->parts[member + 1]};
        return own;
    }
    case MGPU_SHARE_ROOT: return member == p->from ? whole : none;
    case MGPU_SHARE_OTHERS: return member == p->from ? none : whole;
    case MGPU_SHARE_TARGET: return member == p->to ? whole : none;
    default: return whole;
    }
}

static inline mgpu_range mgpu_sent_by(const mgpu_participants *p, int64_t count, int member)
{
    return mgpu_share_of(p, mgpu_transfer_row(p->transfer)->sends, count, member);
}

static inline mgpu_range mgpu_received_by(const mgpu_participants *p, int64_t count, int member)
{
    return mgpu_share_of(p, mgpu_transfer_row(p->transfer)->receives, count, member);
}

/* Implementations of a transfer (runtime/cuda/collective.c, runtime/host/reduce.c); AUTO: the run chooses. Those from RING on are
 * for all-reduces, in rounds; SERVER is HOST by another name, for plans with variables in host memory. ONE_SHOT: small ones, by a
 * single kernel on each GPU (mgpu_one_shot.h). */
enum {
    MGPU_IMPLEMENTATION_AUTO,
    MGPU_IMPLEMENTATION_HOST,
    MGPU_IMPLEMENTATION_COPY,
    MGPU_IMPLEMENTATION_PEER,
    MGPU_IMPLEMENTATION_NCCL,
    MGPU_IMPLEMENTATION_RING,
    MGPU_IMPLEMENTATION_TREE,
    MGPU_IMPLEMENTATION_DEVICE,
    MGPU_IMPLEMENTATION_SERVER,
    MGPU_IMPLEMENTATION_ONE_SHOT,
    MGPU_IMPLEMENTATIONS
};
/* clang-format off */
#define MGPU_IMPLEMENTATION_NAMES {"auto", "host", "copy", "peer", "nccl", "ring", "tree", "device", "server", "one-shot"}
/* clang-format on */
static inline const char *mgpu_implementation_name(int implementation)
{
    static const char *const NAME[MGPU_IMPLEMENTATIONS] = MGPU_IMPLEMENTATION_NAMES;
    return NAME[implementation];
}

#endif
