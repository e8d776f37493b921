/* reduce.c: transfers in shared memory.
 *
 * Members synchronize, each does its part, and they synchronize again. In an all-reduce, each sums its slice of the elements over
 * all devices, in the order of the devices, and writes the sum to all of them. In a reduce-scatter, the slice is the member's own
 * part, and only it receives the sum. Between the two points only one member accesses a slice, so it is summed in place. The
 * order of additions is fixed and every device gets the same sum, so all have the same bits. Slices of an all-reduce begin at
 * multiples of a cache line. Sums of f16 and bf16 are formed in double and rounded by way of float. A plan may ask for rounds
 * instead (mgpu_rounds.h), after each of which all members synchronize. In other transfers, each member copies what it receives
 * from the sender; what a member receives never overlaps with what it sends. Sums of one-bit gradients and of moments
 * (gathered_sums.c): each member stores what it sends, and sums what all have sent. */
#include "runtime/abi/mgpu_exact.h"
#include "runtime/abi/mgpu_half.h"
#include "runtime/abi/mgpu_members.h"
#include "runtime/abi/mgpu_rounds.h"
#include "runtime/base/base.h"
#include "runtime/engine/collective.h"
#include "runtime/engine/slow_device.h"
#include "runtime/host/reduce.h"

#include <stdlib.h>
#include <string.h>

struct Reduction {
    int members;
    _Atomic int arrived;
    Counter barriers; /* how often all members have arrived */
    Operand *member;
    double link_rate; /* tests: bytes per second that a member sends or receives; 0: not limited */
    SlowLink *links;  /* [member]; shared with the reduction `beside` */
    int flow;
    double *arrived_at;  /* [member]: when all had arrived at its last transfer, mgpu_seconds */
    void **codes;        /* [member]: what it has sent last in a gathered sum */
    int64_t *code_bytes; /* bytes of each */
};

Reduction *mgpu_reduction_open(int members)
{
    Reduction *r = mgpu_allocate_aligned(_Alignof(Reduction), sizeof *r);
    r->members = members;
    r->member = mgpu_allocate((size_t)members, sizeof *r->member);
    r->arrived_at = mgpu_allocate((size_t)members, sizeof *r->arrived_at);
    r->codes = mgpu_allocate((size_t)members, sizeof *r->codes);
    r->code_bytes = mgpu_allocate((size_t)members, sizeof *r->code_bytes);
    return r;
}

void mgpu_reduction_close(Reduction *r)
{
    for (int d = 0; d < r->members; d++)
        free(r->codes[d]);
    free(r->codes);
    free(r->code_bytes);
    free(r->member);
    free(r->arrived_at);
    free(r);
}

void mgpu_wait_for_members(Reduction *r)
{
    int64_t meeting = atomic_load(&r->barriers.value) + 1;
    if (atomic_fetch_add(&r->arrived, 1) + 1 == r->members) {
        atomic_store(&r->arrived, 0);
        mgpu_counter_set(&r->barriers, meeting);
    } else {
        mgpu_counter_wait(&r->barriers, meeting);
    }
}

enum { BLOCK = 1024 }; /* elements summed at once: they stay in the first-level cache */

typedef struct Slice {
    int64_t begin, end;
    int first, last;
} Slice; /* elements; members [first, last) receive their sum */

#define SUM_SLICE(name, type)                                                                                                    \
    static void name(Reduction *r, const Slice *s)                                                                               \
    {                                                                                                                            \
        type sum[BLOCK];                                                                                                         \
        for (int64_t at = s->begin; at < s->end; at += BLOCK) {                                                                  \
            int64_t n = s->end - at < BLOCK ? s->end - at : BLOCK;                                                               \
            memcpy(sum, (const type *)r->member[0].data + at, (size_t)n * sizeof(type));                                         \
            for (int d = 1; d < r->members; d++) {                                                                               \
                const type *restrict x = (const type *)r->member[d].data + at;                                                   \
                for (int64_t i = 0; i < n; i++)                                                                                  \
                    sum[i] = (type)(sum[i] + x[i]);                                                                              \
            }                                                                                                                    \
            for (int d = s->first; d < s->last; d++)                                                                             \
                memcpy((type *)r->member[d].data + at, sum, (size_t)n * sizeof(type));                                           \
        }                                                                                                                        \
    }

SUM_SLICE(sum_f32, float)
SUM_SLICE(sum_f64, double)
SUM_SLICE(sum_u8, uint8_t) /* integers are added modulo 2^n, whatever their sign */
SUM_SLICE(sum_u16, uint16_t)
SUM_SLICE(sum_u32, uint32_t)
SUM_SLICE(sum_u64, uint64_t)

/* In double, rounded by way of float, as on GPUs. */
#define SUM_HALF_SLICE(name)                                                                                                     \
    static void sum_##name(Reduction *r, const Slice *s)                                                                         \
    {                                                                                                                            \
        double sum[BLOCK];                                                                                                       \
        mgpu_##name rounded[BLOCK];                                                                                              \
        for (int64_t at = s->begin; at < s->end; at += BLOCK) {                                                                  \
            int64_t n = s->end - at < BLOCK ? s->end - at : BLOCK;                                                               \
            const mgpu_##name *first = (const mgpu_##name *)r->member[0].data + at;                                              \
            for (int64_t i = 0; i < n; i++)                                                                                      \
                sum[i] = (double)mgpu_from_##name(first[i]);                                                                     \
            for (int d = 1; d < r->members; d++) {                                                                               \
                const mgpu_##name *restrict x = (const mgpu_##name *)r->member[d].data + at;                                     \
                for (int64_t i = 0; i < n; i++)                                                                                  \
                    sum[i] += (double)mgpu_from_##name(x[i]);                                                                    \
            }                                                                                                                    \
            for (int64_t i = 0; i < n; i++)                                                                                      \
                rounded[i] = mgpu_to_##name((float)sum[i]);                                                                      \
            for (int d = s->first; d < s->last; d++)                                                                             \
                memcpy((mgpu_##name *)r->member[d].data + at, rounded, (size_t)n * sizeof *rounded);                             \
        }                                                                                                                        \
    }

SUM_HALF_SLICE(bf16)
SUM_HALF_SLICE(f16)

static void sum_other(Reduction *r, const Slice *s)
{
    uint8_t dtype = r->member[0].dtype;
    for (int64_t i = s->begin; i < s->end; i++) {
        double sum = 0;
        for (int d = 0; d < r->members; d++)
            sum += mgpu_to_double(r->member[d].data, dtype, i);
        for (int d = s->first; d < s->last; d++)
            mgpu_from_double(r->member[d].data, dtype, i, sum);
    }
}

/* By the tree of mgpu_exact.h. What the first receiver gets, the others copy. */
static void add_tree(Reduction *r, const Slice *s)
{
    const void *from[MGPU_MOST_MEMBERS];
    uint8_t dtype = r->member[0].dtype;
    size_t at = (size_t)(s->begin * mgpu_dtype_bytes(dtype)), bytes = (size_t)((s->end - s->begin) * mgpu_dtype_bytes(dtype));
    if (r->members > MGPU_MOST_MEMBERS)
        mgpu_die("a sum of %d devices", r->members);
    for (int d = 0; d < r->members; d++)
        from[d] = r->member[d].data;
    mgpu_add_tree(r->member[s->first].data, from, r->members, dtype, s->begin, s->end);
    for (int d = s->first + 1; d < s->last && bytes; d++)
        memcpy((char *)r->member[d].data + at, (const char *)r->member[s->first].data + at, bytes);
}

static void add_slice(Reduction *r, Slice slice)
{
    const Slice *s = &slice;
    if (r->member[0].exact) {
        add_tree(r, s);
        return;
    }
    switch (r->member[0].dtype) {
    case MGPU_F32: sum_f32(r, s); break;
    case MGPU_F64: sum_f64(r, s); break;
    case MGPU_U8:
    case MGPU_I8: sum_u8(r, s); break;
    case MGPU_U16:
    case MGPU_I16: sum_u16(r, s); break;
    case MGPU_U32:
    case MGPU_I32: sum_u32(r, s); break;
    case MGPU_I64: sum_u64(r, s); break;
    case MGPU_BF16: sum_bf16(r, s); break;
    case MGPU_F16: sum_f16(r, s); break;
    default: sum_other(r, s);
    }
}

void mgpu_add_operands(Operand *operands, int members, mgpu_range s)
{
    add_slice(&(Reduction){.members = members, .member = operands}, (Slice){s.begin, s.end, members, members + 1});
}

bool mgpu_operands_agree(const Operand *a, const Operand *b, int members)
{
    const mgpu_participants *p = &a->participants, *q = &b->participants;
    return a->count == b->count && a->tag == b->tag && a->dtype == b->dtype && p->transfer == q->transfer && p->from == q->from &&
           p->to == q->to &&
           (p->parts == q->parts ||
            (p->parts && q->parts && memcmp(p->parts, q->parts, sizeof *p->parts * (size_t)(members + 1)) == 0));
}

mgpu_range mgpu_moved(const Operand *o, int from, int to)
{
    mgpu_range sent = mgpu_sent_by(&o->participants, o->count, from), received = mgpu_received_by(&o->participants, o->count, to);
    mgpu_range both = {sent.begin > received.begin ? sent.begin : received.begin,
                       sent.end < received.end ? sent.end : received.end};
    both.end = both.end < both.begin ? both.begin : both.end;
    return both;
}

static Slice slice_of(const Reduction *r, int member)
{
    const Operand *o = &r->member[member];
    int64_t line = 64 / mgpu_dtype_bytes(o->dtype);
    int64_t slice = ((o->count + r->members - 1) / r->members + line - 1) / line * line;
    int64_t begin = slice * member < o->count ? slice * member : o->count;
    if (o->participants.transfer == MGPU_TRANSFER_REDUCE)
        return (Slice){begin, begin + slice < o->count ? begin + slice : o->count, 0, r->members};
    mgpu_range own = mgpu_received_by(&o->participants, o->count, member);
    return (Slice){own.begin, own.end, member, member + 1};
}

static void fetch(const Reduction *r, int member)
{
    const Operand *o = &r->member[member];
    int64_t each = mgpu_dtype_bytes(o->dtype);
    for (int d = 0; d < r->members; d++) {
        mgpu_range moved = mgpu_moved(o, d, member);
        if (d != member && moved.end > moved.begin)
            memcpy((char *)o->data + moved.begin * each, (const char *)r->member[d].data + moved.begin * each,
                   (size_t)((moved.end - moved.begin) * each));
    }
}

static void take_round(Reduction *r, int member, int k)
{
    const Operand *o = &r->member[member];
    int64_t each = mgpu_dtype_bytes(o->dtype);
    mgpu_round_step round = mgpu_round_of(o->implementation, r->members, member, k, o->count, 64 / each);
    int64_t begin = round.elements.begin, end = round.elements.end;
    if (round.from >= 0 && round.adds) {
        Operand both[] = {*o, r->member[round.from]};
        add_slice(&(Reduction){.members = 2, .member = both}, (Slice){begin, end, 0, 1});
    } else if (round.from >= 0 && end > begin) {
        memcpy((char *)o->data + begin * each, (const char *)r->member[round.from].data + begin * each,
               (size_t)((end - begin) * each));
    }
}

/* ---- gathered sums */
static bool gathers(const Operand *o) { return mgpu_gathers(o->participants.transfer); }

/* Called before all synchronize: nothing reads what was sent in the previous transfer any more. */
static void put_sent(Reduction *r, int member)
{
    const Operand *o = &r->member[member];
    int64_t bytes = mgpu_sent_bytes(o);
    if (bytes > r->code_bytes[member]) {
        free(r->codes[member]);
        r->code_bytes[member] = bytes;
        r->codes[member] = mgpu_allocate_aligned(64, (size_t)bytes);
    }
    if (!mgpu_put_sent(o, r->codes[member]))
        mgpu_die("%s: a segment of device %d has more than two numbers, and cannot be sent as bits", o->name, member);
}

/* Returns the bytes that the busiest member sends over its link; it receives as many. All-reduces are made as a ring, or in their
 * rounds; other transfers send to the receivers. */
static double bytes_sent(const Reduction *r, const Operand *o)
{
    double bytes = (double)(o->count * mgpu_dtype_bytes(o->dtype)), others = (double)(r->members - 1) / r->members;
    switch (o->participants.transfer) {
    case MGPU_TRANSFER_REDUCE:
        switch (o->implementation) {
        case MGPU_IMPLEMENTATION_TREE: return 2 * mgpu_tree_height(r->members) * bytes;
        case MGPU_IMPLEMENTATION_DEVICE: return 2 * (r->members - 1) * bytes;
        case MGPU_IMPLEMENTATION_SERVER: return 2 * bytes;
        default: return 2 * others * bytes;
        }
    case MGPU_TRANSFER_REDUCE_BITS:
    case MGPU_TRANSFER_REDUCE_MOMENTS: return (r->members - 1) * (double)mgpu_sent_bytes(o);
    case MGPU_TRANSFER_REDUCE_SCATTER:
    case MGPU_TRANSFER_ALL_GATHER: return others * bytes;
    default: return bytes;
    }
}

static bool is_in_rounds(const Operand *o)
{
    return !o->exact && mgpu_has_rounds(o->implementation) && o->participants.transfer == MGPU_TRANSFER_REDUCE;
}

int mgpu_exchange_rounds(const Operand *o, int members)
{
    return is_in_rounds(o) ? mgpu_round_count(o->implementation, members) : 1;
}

static void execute_round(Reduction *r, int member, int part)
{
    const Operand *o = &r->member[member];
    if (gathers(o))
        mgpu_add_sent((const void *const *)r->codes, r->members, o, (mgpu_range){0, o->count});
    else if (is_in_rounds(o))
        take_round(r, member, part);
    else if (mgpu_transfer_row(o->participants.transfer)->adds)
        add_slice(r, slice_of(r, member));
    else
        fetch(r, member);
}

void mgpu_exchange_round(Operand *operands, int members, int member, int part)
{
    execute_round(&(Reduction){.members = members, .member = operands}, member, part);
}

bool mgpu_exchange(Reduction *r, int member, const Operand *o)
{
    if (r->members > 1) {
        r->member[member] = *o;
        if (gathers(o))
            put_sent(r, member);
        mgpu_wait_for_members(r);
    }
    r->arrived_at[member] = mgpu_seconds();
    if (r->members <= 1)
        return true;
    if (r->link_rate > 0)
        mgpu_slow_link_begin(&r->links[member], r->flow, bytes_sent(r, o), r->link_rate);
    for (int d = 0; d < r->members; d++)
        if (!mgpu_operands_agree(&r->member[d], o, r->members))
            return false;
    for (int part = 0, parts = mgpu_exchange_rounds(o, r->members); part < parts; part++) {
        if (part)
            mgpu_wait_for_members(r);
        execute_round(r, member, part);
    }
    if (r->link_rate > 0)
        mgpu_slow_link_end(&r->links[member], r->flow, r->link_rate);
    mgpu_wait_for_members(r);
    return true;
}

/* ---- the collective of devices whose arenas are host memory */
typedef struct InMemory {
    Collective collective;
    Reduction *reduction;
} InMemory;

static bool exchange_in_memory(Collective *c, int member, const Operand *o)
{
    return mgpu_exchange(((InMemory *)c)->reduction, member, o);
}

static const char *made_in_memory(const Collective *c, uint8_t implementation)
{
    return mgpu_has_rounds(implementation) ? mgpu_implementation_name(implementation) : c->name;
}

static double arrival_time_in_memory(const Collective *c, int member)
{
    return ((const InMemory *)c)->reduction->arrived_at[member];
}

static void close_in_memory(Collective *c)
{
    Reduction *r = ((InMemory *)c)->reduction;
    if (r->flow == 0)
        free(r->links);
    mgpu_reduction_close(r);
    free(c);
}

Collective *mgpu_collective_in_memory(int members, Collective *beside)
{
    InMemory *c = mgpu_allocate(1, sizeof *c);
    *c = (InMemory){{.name = "host",
                     .transfer = exchange_in_memory,
                     .close = close_in_memory,
                     .made_by = made_in_memory,
                     .arrival_time = arrival_time_in_memory},
                    mgpu_reduction_open(members)};
    Reduction *r = c->reduction;
    r->link_rate = mgpu_link_rate();
    r->flow = beside ? 1 : 0;
    r->links = beside ? ((InMemory *)beside)->reduction->links : mgpu_allocate((size_t)members, sizeof *r->links);
    for (int d = 0; d < members && !beside; d++)
        pthread_mutex_init(&r->links[d].lock, NULL);
    return &c->collective;
}
