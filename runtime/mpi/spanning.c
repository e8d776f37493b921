/* spanning.c: all-reduces over the devices of all processes. In: what each device of this process has; out: the sum of all devices' of all
 * processes, the same bits everywhere.
 *
 * The devices of a process meet, and each adds up its slice of the elements over them, as within one process (runtime/host/reduce.c).
 * The thread of the first device then exchanges the sums with the other processes: each gets its slice from all, adds it up in the order
 * of the ranks, and gathers the slices of the others. All devices copy the result. Bytes that a process sends: twice the value's,
 * however many devices and processes there are; and MPI is never asked to add. */
#include "runtime/host/reduce.h"
#include "runtime/mpi/mpi.h"

#include <stdlib.h>
#include <string.h>

typedef struct Spanning {
    Collective collective;
    const Processes *processes;
    int channel, ranks, rank;
    int first, members;      /* devices of this process */
    Reduction *here;
    Operand *operand;        /* [members + 1]: the last is the sum over them, in `sum` */
    Operand *parts;          /* [ranks + 1]: of this rank's slice; the last is their sum */
    uint8_t *sum, *received; /* of all elements; of this rank's slice from each rank */
    int64_t room, slice_room;
    int *sent, *sent_at, *got, *got_at; /* bytes, by rank */
    double *met;
} Spanning;

enum { MOST_BYTES = 1 << 28 }; /* exchanged at a time: MPI counts in int */

static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

static void make_room(uint8_t **data, int64_t *room, int64_t bytes)
{
    if (bytes <= *room)
        return;
    free(*data);
    *data = mgpu_allocate_aligned(64, (size_t)bytes);
    *room = bytes;
}

/* elements of part `part` of `parts`, from where on; parts begin at cache lines */
static mgpu_stretch part_of(int64_t count, int parts, int part, int64_t each)
{
    int64_t line = 64 / each, size = ((count + parts - 1) / parts + line - 1) / line * line;
    return (mgpu_stretch){smaller(size * part, count), smaller(size * (part + 1), count)};
}

static void set_counts(Spanning *s, int64_t count, int64_t each)
{
    mgpu_stretch own = part_of(count, s->ranks, s->rank, each);
    int bytes = (int)((own.end - own.begin) * each);
    for (int r = 0; r < s->ranks; r++) {
        mgpu_stretch its = part_of(count, s->ranks, r, each);
        s->sent[r] = (int)((its.end - its.begin) * each);
        s->sent_at[r] = (int)(its.begin * each);
        s->got[r] = bytes;
        s->got_at[r] = bytes * r;
    }
    make_room(&s->received, &s->slice_room, (int64_t)bytes * s->ranks + 1);
}

static void wait_for_others(const Spanning *s, const Operand *o)
{
    char what[200];
    snprintf(what, sizeof what, "the all-reduce %s", o->name);
    mgpu_mpi_wait(s->processes, s->channel, what);
}

/* elements of `sum` from `data` on, over all ranks */
static void add_over_ranks(Spanning *s, uint8_t *data, int64_t count, const Operand *like)
{
    int64_t each = mgpu_dtype_bytes(like->dtype);
    set_counts(s, count, each);
    mgpu_mpi.exchange(s->channel, data, s->sent, s->sent_at, s->received, s->got, s->got_at);
    wait_for_others(s, like);
    for (int r = 0; r <= s->ranks; r++) {
        s->parts[r] = *like;
        s->parts[r].data = r < s->ranks ? s->received + s->got_at[r] : data + s->sent_at[s->rank];
    }
    mgpu_add_operands(s->parts, s->ranks, (mgpu_stretch){0, s->got[0] / each});
    mgpu_mpi.gather(s->channel, data, s->sent, s->sent_at);
    wait_for_others(s, like);
}

static void exchange(Spanning *s)
{
    const Operand *o = &s->operand[0];
    int64_t each = mgpu_dtype_bytes(o->dtype), most = MOST_BYTES / each;
    for (int64_t at = 0; at < o->count; at += most)
        add_over_ranks(s, s->sum + at * each, smaller(most, o->count - at), o);
}

static bool transfer(Collective *c, int device, const Operand *o)
{
    Spanning *s = (Spanning *)c;
    int member = device - s->first;
    int64_t bytes = o->count * mgpu_dtype_bytes(o->dtype);
    s->operand[member] = *o;
    if (member == 0) {
        make_room(&s->sum, &s->room, bytes);
        s->operand[s->members] = *o;
        s->operand[s->members].data = s->sum;
    }
    mgpu_meet(s->here);
    s->met[member] = mgpu_seconds();
    for (int d = 0; d < s->members; d++)
        if (!mgpu_operands_agree(&s->operand[d], o, s->members))
            return false;
    mgpu_add_operands(s->operand, s->members, part_of(o->count, s->members, member, mgpu_dtype_bytes(o->dtype)));
    mgpu_meet(s->here);
    if (member == 0)
        exchange(s);
    mgpu_meet(s->here);
    memcpy(o->data, s->sum, (size_t)bytes);
    mgpu_meet(s->here);
    return true;
}

static double met(const Collective *c, int device)
{
    const Spanning *s = (const Spanning *)c;
    return s->met[device - s->first];
}

static void close_spanning(Collective *c)
{
    Spanning *s = (Spanning *)c;
    void *const OWN[] = {s->operand, s->parts, s->sum, s->received, s->sent, s->sent_at, s->got, s->got_at, s->met};
    mgpu_reduction_close(s->here);
    for (int i = 0; i < MGPU_COUNT(OWN); i++)
        free(OWN[i]);
    free(s);
}

Collective *mgpu_collective_spanning(const Processes *p, const mgpu_plan *plan, int channel)
{
    Spanning *s = mgpu_allocate(1, sizeof *s);
    int first = mgpu_own_devices(p, plan->devices).first, members = mgpu_own_devices(p, plan->devices).end - first;
    size_t ranks = (size_t)p->count;
    *s = (Spanning){.processes = p, .collective = {.name = "MPI", .transfer = transfer, .close = close_spanning, .met = met},
                    .channel = channel, .ranks = p->count, .rank = p->rank, .first = first, .members = members,
                    .here = mgpu_reduction_open(members)};
    s->operand = mgpu_allocate((size_t)members + 1, sizeof *s->operand);
    s->parts = mgpu_allocate(ranks + 1, sizeof *s->parts);
    s->met = mgpu_allocate((size_t)members, sizeof *s->met);
    s->sent = mgpu_allocate(ranks, sizeof *s->sent);
    s->sent_at = mgpu_allocate(ranks, sizeof *s->sent_at);
    s->got = mgpu_allocate(ranks, sizeof *s->got);
    s->got_at = mgpu_allocate(ranks, sizeof *s->got_at);
    return &s->collective;
}
