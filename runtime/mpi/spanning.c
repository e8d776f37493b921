/* spanning.c: collectives over the devices of all processes. In: the values that this process's devices send; out: those that
 * they receive. Values that several devices receive are bitwise equal.
 *
 * Reductions: the devices of a process synchronize, and each adds up its slice of the elements over them, as within one process
 * (runtime/host/reduce.c). The thread of the first device then exchanges these sums: each process gets its part from all and adds
 * it up in the order of the ranks. For a reduce-scatter, its devices receive this part; for an all-reduce, the parts are
 * gathered. A process sends the value's bytes twice, or once, however many devices and processes there are. MPI never adds.
 *
 * Other transfers: the devices copy what they send to its place in the whole value, which the processes gather. Sums of one-bit
 * gradients and of moments gather what each device sends, and each device adds it up (runtime/host/gathered_sums.c). */
#include "runtime/abi/mgpu_rounds.h"
#include "runtime/host/reduce.h"
#include "runtime/mpi/mpi.h"

#include <stdlib.h>
#include <string.h>

typedef struct Spanning {
    Collective collective;
    const Processes *processes;
    int channel, ranks, rank, devices;
    int first, members; /* devices of this process */
    Reduction *here;
    Operand *operand;          /* [members + 1]: the last is the sum over them, in `whole` */
    Operand *rank_parts;       /* [ranks + 1]: this rank's part from each rank; the last is their sum */
    uint8_t *whole, *received; /* all elements; this rank's part from each rank */
    int64_t capacity, part_capacity;
    int *sent, *sent_at, *got, *got_at; /* bytes, by rank */
    int64_t *code_parts;                /* [devices + 1]: offsets of the codes of one-bit gradients, which are gathered */
    const void **codes;                 /* [devices] */
    double *arrived_at;
} Spanning;

enum { MOST_BYTES = 1 << 28 }; /* limit of one exchange, since MPI counts in int */

static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }

static void grow(uint8_t **data, int64_t *capacity, int64_t bytes)
{
    if (bytes <= *capacity)
        return;
    free(*data);
    *data = mgpu_allocate_aligned(64, (size_t)bytes);
    *capacity = bytes;
}

/* Returns the range of elements of a part. Parts begin at cache lines. */
static mgpu_range part_of(int64_t count, int parts, int part, int64_t each)
{
    int64_t line = 64 / each, size = ((count + parts - 1) / parts + line - 1) / line * line;
    return (mgpu_range){smaller(size * part, count), smaller(size * (part + 1), count)};
}

static mgpu_range within(mgpu_range s, mgpu_range bounds)
{
    int64_t begin = smaller(larger(s.begin, bounds.begin), bounds.end);
    return (mgpu_range){begin, larger(smaller(s.end, bounds.end), begin)};
}

/* Returns what the devices of a rank send or receive together. Their parts are contiguous; the whole is sent by one or all. */
static mgpu_range share_of_rank(const Spanning *s, const Operand *o, int share, int rank)
{
    mgpu_range all = {0, 0};
    for (int d = mgpu_first_device(s->processes, s->devices, rank); d < mgpu_first_device(s->processes, s->devices, rank + 1);
         d++) {
        mgpu_range own = mgpu_share_of(&o->participants, share, o->count, d);
        if (own.end > own.begin)
            all = (mgpu_range){all.end > all.begin ? all.begin : own.begin, own.end};
    }
    return all;
}

static bool is_shared(const Operand *o) { return mgpu_transfer_row(o->participants.transfer)->receives == MGPU_SHARE_WHOLE; }

/* Returns the elements of `chunk` that a rank adds up, or that it has of a value that is gathered. */
static mgpu_range part_of_rank(const Spanning *s, const Operand *o, mgpu_range chunk, int rank)
{
    const mgpu_transfer *row = mgpu_transfer_row(o->participants.transfer);
    if (!row->adds)
        return within(share_of_rank(s, o, row->sends, rank), chunk);
    if (!is_shared(o))
        return within(share_of_rank(s, o, row->receives, rank), chunk);
    mgpu_range part = part_of(chunk.end - chunk.begin, s->ranks, rank, mgpu_dtype_bytes(o->dtype));
    return (mgpu_range){chunk.begin + part.begin, chunk.begin + part.end};
}

/* Offsets count from the beginning of the chunk. */
static void set_counts(Spanning *s, const Operand *o, mgpu_range chunk)
{
    int64_t each = mgpu_dtype_bytes(o->dtype);
    mgpu_range own = part_of_rank(s, o, chunk, s->rank);
    int bytes = (int)((own.end - own.begin) * each);
    for (int r = 0; r < s->ranks; r++) {
        mgpu_range its = part_of_rank(s, o, chunk, r);
        s->sent[r] = (int)((its.end - its.begin) * each);
        s->sent_at[r] = (int)((its.end > its.begin ? its.begin - chunk.begin : 0) * each);
        s->got[r] = bytes;
        s->got_at[r] = bytes * r;
    }
}

static void wait_for_others(const Spanning *s, const Operand *o)
{
    char what[200];
    snprintf(what, sizeof what, "the %s %s", mgpu_transfer_row(o->participants.transfer)->kind, o->name);
    mgpu_mpi_wait(s->processes, s->channel, what);
}

/* Adds up this rank's part of a chunk over all ranks. */
static void add_over_ranks(Spanning *s, uint8_t *data, const Operand *like)
{
    grow(&s->received, &s->part_capacity, (int64_t)s->got[0] * s->ranks + 1);
    mgpu_mpi.exchange(s->channel, data, s->sent, s->sent_at, s->received, s->got, s->got_at);
    wait_for_others(s, like);
    for (int r = 0; r <= s->ranks; r++) {
        s->rank_parts[r] = *like;
        s->rank_parts[r].data = r < s->ranks ? s->received + s->got_at[r] : data + s->sent_at[s->rank];
    }
    mgpu_add_operands(s->rank_parts, s->ranks, (mgpu_range){0, s->got[0] / mgpu_dtype_bytes(like->dtype)});
}

static void exchange(Spanning *s, const Operand *o)
{
    bool adds = mgpu_transfer_row(o->participants.transfer)->adds;
    int64_t each = mgpu_dtype_bytes(o->dtype), most = MOST_BYTES / each;
    for (int64_t at = 0; at < o->count; at += most) {
        uint8_t *data = s->whole + at * each;
        set_counts(s, o, (mgpu_range){at, smaller(at + most, o->count)});
        if (adds)
            add_over_ranks(s, data, o);
        if (adds && !is_shared(o))
            continue;
        mgpu_mpi.gather(s->channel, data, s->sent, s->sent_at);
        wait_for_others(s, o);
    }
}

/* Stores in `whole` what a device sends, or for a reduction its slice of the sum over the devices. */
static void give(Spanning *s, int member, const Operand *o)
{
    int64_t each = mgpu_dtype_bytes(o->dtype);
    if (mgpu_transfer_row(o->participants.transfer)->adds) {
        mgpu_add_operands(s->operand, s->members, part_of(o->count, s->members, member, each));
        return;
    }
    mgpu_range sent = mgpu_sent_by(&o->participants, o->count, s->first + member);
    if (sent.end > sent.begin)
        memcpy(s->whole + sent.begin * each, (const uint8_t *)o->data + sent.begin * each,
               (size_t)((sent.end - sent.begin) * each));
}

static void take(const Spanning *s, int member, const Operand *o)
{
    int64_t each = mgpu_dtype_bytes(o->dtype);
    mgpu_range got = mgpu_received_by(&o->participants, o->count, s->first + member);
    if (got.end > got.begin)
        memcpy((uint8_t *)o->data + got.begin * each, s->whole + got.begin * each, (size_t)((got.end - got.begin) * each));
}

static void add_operand(Spanning *s, int member, const Operand *o)
{
    s->operand[member] = *o;
    if (member)
        return;
    grow(&s->whole, &s->capacity, o->count * mgpu_dtype_bytes(o->dtype) + 1);
    s->operand[s->members] = *o;
    s->operand[s->members].data = s->whole;
}

/* All members synchronize before and after it. */
static void transfer_values(Spanning *s, int member, const Operand *o)
{
    give(s, member, o);
    mgpu_wait_for_members(s->here);
    if (member == 0)
        exchange(s, o);
    mgpu_wait_for_members(s->here);
    take(s, member, o);
}

/* ---- transfers that gather what all devices send */

static Operand codes_of(const Spanning *s, const Operand *o)
{
    return (Operand){.name = o->name,
                     .buffer = "codes",
                     .data = s->whole,
                     .count = mgpu_sent_bytes(o) * s->devices,
                     .dtype = MGPU_U8,
                     .participants = {.transfer = MGPU_TRANSFER_ALL_GATHER, .parts = s->code_parts},
                     .tag = o->tag};
}

static void add_codes(Spanning *s, const Operand *o)
{
    grow(&s->whole, &s->capacity, mgpu_sent_bytes(o) * s->devices + 1);
    for (int d = 0; d <= s->devices; d++)
        s->code_parts[d] = mgpu_sent_bytes(o) * d;
    for (int d = 0; d < s->devices; d++)
        s->codes[d] = s->whole + s->code_parts[d];
}

static void transfer_gathered(Spanning *s, int member, const Operand *o)
{
    int device = s->first + member;
    if (!mgpu_put_sent(o, s->whole + s->code_parts[device]))
        mgpu_die("%s: a segment of device %d has more than two numbers, and cannot be sent as bits", o->name, device);
    mgpu_wait_for_members(s->here);
    if (member == 0) {
        Operand codes = codes_of(s, o);
        exchange(s, &codes);
    }
    mgpu_wait_for_members(s->here);
    mgpu_add_sent(s->codes, s->devices, o, mgpu_received_by(&o->participants, o->count, device));
}

/* Returns true if every device gets what all devices have, and sums it by itself. */
static bool is_gathered(const Operand *o)
{
    return mgpu_gathers(o->participants.transfer) || (o->exact && mgpu_transfer_row(o->participants.transfer)->adds);
}

static bool transfer(Collective *c, int device, const Operand *o)
{
    Spanning *s = (Spanning *)c;
    int member = device - s->first;
    add_operand(s, member, o);
    if (member == 0 && is_gathered(o))
        add_codes(s, o);
    mgpu_wait_for_members(s->here);
    s->arrived_at[member] = mgpu_seconds();
    for (int d = 0; d < s->members; d++)
        if (!mgpu_operands_agree(&s->operand[d], o, s->devices))
            return false;
    (is_gathered(o) ? transfer_gathered : transfer_values)(s, member, o);
    mgpu_wait_for_members(s->here);
    return true;
}

static double arrival_time(const Collective *c, int device)
{
    const Spanning *s = (const Spanning *)c;
    return s->arrived_at[device - s->first];
}

static void close_spanning(Collective *c)
{
    Spanning *s = (Spanning *)c;
    void *const OWN[] = {s->operand, s->rank_parts, s->whole,      s->received, s->sent,      s->sent_at,
                         s->got,     s->got_at,     s->code_parts, s->codes,    s->arrived_at};
    mgpu_reduction_close(s->here);
    for (int i = 0; i < MGPU_COUNT(OWN); i++)
        free(OWN[i]);
    free(s);
}

Collective *mgpu_collective_spanning(const Processes *p, const mgpu_plan *plan, int channel)
{
    Spanning *s = mgpu_allocate(1, sizeof *s);
    int first = mgpu_local_devices(p, plan->devices).first, members = mgpu_local_devices(p, plan->devices).end - first;
    size_t ranks = (size_t)p->count;
    *s = (Spanning){.processes = p,
                    .collective = {.name = "MPI", .transfer = transfer, .close = close_spanning, .arrival_time = arrival_time},
                    .channel = channel,
                    .ranks = p->count,
                    .rank = p->rank,
                    .devices = plan->devices,
                    .first = first,
                    .members = members,
                    .here = mgpu_reduction_open(members)};
    s->operand = mgpu_allocate((size_t)members + 1, sizeof *s->operand);
    s->rank_parts = mgpu_allocate(ranks + 1, sizeof *s->rank_parts);
    s->code_parts = mgpu_allocate((size_t)plan->devices + 1, sizeof *s->code_parts);
    s->codes = mgpu_allocate((size_t)plan->devices, sizeof *s->codes);
    s->arrived_at = mgpu_allocate((size_t)members, sizeof *s->arrived_at);
    s->sent = mgpu_allocate(ranks, sizeof *s->sent);
    s->sent_at = mgpu_allocate(ranks, sizeof *s->sent_at);
    s->got = mgpu_allocate(ranks, sizeof *s->got);
    s->got_at = mgpu_allocate(ranks, sizeof *s->got_at);
    return &s->collective;
}
