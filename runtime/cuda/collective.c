/* collective.c: transfers between GPUs. The implementation is the one that MGPU_COLLECTIVE names, else the one that the plan has
 * chosen by cost, else, or if that is impossible here, the first possible one. Sums are made
 *
 *   nccl      by the library, if it is there and no devices share a GPU; only on the lane comm (docs/cuda.md, Collectives)
 *   peer      by a kernel on each GPU that reads a slice of all members' memory, adds, and writes the sum to all of them
 *   one-shot  small all-reduces: by a kernel on each GPU that waits for those of the others (one_shot.c); the rest as peer
 *   copy      by each GPU, which copies a slice of all others' memory to itself, adds, and copies the sum to all others
 *   host      in page-locked memory, by functions of the host that streams call (reduce.c); server is the same
 *   ring, tree, device   in rounds (mgpu_rounds.h), in which each GPU copies a part to itself and adds it
 *
 * A sum of one-bit gradients is an all-gather of codes (mgpu_bits.h), which kernels of each GPU encode and add. Moments likewise.
 *
 * A reduce-scatter ends with the sum of the member's own part. Values that are moved and not added are copied by the receiving
 * member, or through page-locked memory.
 *
 * Each of n members processes one slice, and no other member touches it between two synchronization points of all members, so all
 * sums are in place. Members synchronize on the GPUs: member d's stream records an event when its operand (or its part of the
 * sum) is complete, and waits for the events of all others. An event must be recorded before another stream can wait for it, so
 * the host threads synchronize, too. They are ahead of their GPUs, and none of them waits for a GPU. (Kernels that wait for each
 * other by flags in memory would need no threads, but nothing guarantees that two kernels run at the same time, least of all on
 * one GPU.)
 *
 * Every link has been tested before. If one corrupts data, all transfers go through the host: each member copies to and from
 * page-locked memory, and none accesses another's memory. Types that kernels cannot add go through the host, too. */
#include "runtime/abi/mgpu_rounds.h"
#include "runtime/base/base.h"
#include "runtime/cuda/collective.h"

#include <stdlib.h>
#include <string.h>

enum { ADD_THREADS = 256, ADD_BLOCKS = 64 /* at most: they run concurrently with the backward pass */ };
int mgpu_add_function(uint8_t dtype)
{
    switch (dtype) {
    case MGPU_F32: return 0;
    case MGPU_F64: return 1;
    case MGPU_U8:
    case MGPU_I8: return 2;
    case MGPU_U16:
    case MGPU_I16: return 3;
    case MGPU_U32:
    case MGPU_I32: return 4;
    case MGPU_I64: return 5;
    case MGPU_BF16: return 6;
    case MGPU_F16: return 7;
    default: return -1;
    }
}

bool mgpu_cuda_adds(uint8_t dtype) { return mgpu_add_function(dtype) >= 0; }

static CUdeviceptr address_of(const Operand *o, int64_t element)
{
    return (CUdeviceptr)(uintptr_t)o->data + (CUdeviceptr)(element * mgpu_dtype_bytes(o->dtype));
}

/* Returns 2: the elements are read and written. */
static int ranges_of(const Operand *o, int64_t begin, int64_t end, CudaRange *range)
{
    range[0] = range[1] = (CudaRange){address_of(o, begin), address_of(o, end), false, o->buffer};
    range[1].writes = true;
    return 2;
}

void mgpu_cuda_declare_ranges(const CudaCollective *c, int member, const Operand *o)
{
    CudaRange range[4];
    mgpu_range sent = mgpu_sent_by(&o->participants, o->count, member),
               received = mgpu_received_by(&o->participants, o->count, member);
    ranges_of(o, sent.begin, sent.end, range);
    ranges_of(o, received.begin, received.end, range + 2);
    range[1] = range[3];
    mgpu_cuda_declare(c->devices[member], c->lane, o->name, range, 2);
}

static void to_host(const CudaCollective *c, int member, void *to, CUdeviceptr from, size_t bytes)
{
    const CudaDevice *d = c->devices[member];
    mgpu_cuda_check(d, c->lane, d->cuda->memcpy_dtoh_async(to, from, bytes, d->stream[c->lane]), "cuMemcpyDtoHAsync");
}

static void from_host(const CudaCollective *c, int member, CUdeviceptr to, const void *from, size_t bytes)
{
    const CudaDevice *d = c->devices[member];
    mgpu_cuda_check(d, c->lane, d->cuda->memcpy_htod_async(to, from, bytes, d->stream[c->lane]), "cuMemcpyHtoDAsync");
}

static void *staged(const CudaCollective *c, int member, const Operand *o, int64_t element)
{
    return (char *)c->memory[member] + element * mgpu_dtype_bytes(o->dtype);
}

/* ---- by kernels */
void mgpu_cuda_launch_add(const CudaCollective *c, int member, uint8_t dtype, const mgpu_members *m, int64_t begin, int64_t end)
{
    CudaDevice *d = c->devices[member];
    int64_t packs = (end - begin) * mgpu_dtype_bytes(dtype) / 16, blocks = (packs + ADD_THREADS - 1) / ADD_THREADS;
    mgpu_members copy = *m;
    int64_t before = begin * mgpu_dtype_bytes(dtype);
    if (before % 16) /* kernels load 16 bytes at a time from element `begin` on, so their pointers start there */
        for (int i = 0; i < MGPU_MOST_MEMBERS; i++) {
            copy.from[i] = i < copy.from_count ? (const char *)copy.from[i] + before : NULL;
            copy.to[i] = i < copy.to_count ? (char *)copy.to[i] + before : NULL;
        }
    end -= before % 16 ? begin : 0;
    begin -= before % 16 ? begin : 0;
    void *parameters[] = {&copy, &begin, &end};
    blocks = blocks < 1 ? 1 : blocks < ADD_BLOCKS ? blocks : ADD_BLOCKS;
    mgpu_cuda_check(d, c->lane,
                    d->cuda->launch_kernel(c->add_function[member][mgpu_add_function(dtype)], (unsigned)blocks, 1, 1, ADD_THREADS,
                                           1, 1, 0, d->stream[c->lane], parameters, NULL),
                    "cuLaunchKernel of a sum over devices");
}

static AddedSlice elements(const Operand *o, int64_t begin, int64_t end)
{
    return (AddedSlice){begin, end, (size_t)((end - begin) * mgpu_dtype_bytes(o->dtype))};
}

static bool adds_in_place(const Operand *o) { return o->participants.transfer == MGPU_TRANSFER_REDUCE; }

/* Returns the elements that the member sums. */
static AddedSlice slice_of(const CudaCollective *c, int member, const Operand *o)
{
    int64_t size = mgpu_dtype_bytes(o->dtype), line = 64 / size;
    mgpu_range own = mgpu_received_by(&o->participants, o->count, member);
    if (!adds_in_place(o))
        return elements(o, own.begin, own.end);
    int64_t each = ((o->count + c->members - 1) / c->members + line - 1) / line * line;
    int64_t begin = each * member < o->count ? each * member : o->count;
    return elements(o, begin, begin + each < o->count ? begin + each : o->count);
}

/* Returns what member `to` needs of the value of member `from`. */
static AddedSlice needed_by(const CudaCollective *c, int from, int to, const Operand *o)
{
    if (mgpu_transfer_row(o->participants.transfer)->adds)
        return slice_of(c, to, o);
    mgpu_range moved = mgpu_moved(o, from, to);
    return elements(o, moved.begin, moved.end);
}

static void add_by_peers(CudaCollective *c, int member, const AddedSlice *s)
{
    const Operand *o = &c->operand[member];
    mgpu_members m = {.from_count = c->members, .to_count = adds_in_place(o) ? c->members : 1};
    CudaRange range[2 * MGPU_MOST_MEMBERS];
    int ranges = 0;
    for (int d = 0; d < c->members; d++) {
        m.from[d] = c->operand[d].data;
        m.to[d] = adds_in_place(o) ? c->operand[d].data : d ? NULL : o->data;
        ranges += ranges_of(&c->operand[d], s->begin, s->end, range + ranges);
    }
    mgpu_cuda_declare(c->devices[member], c->lane, o->name, range, ranges);
    mgpu_cuda_launch_add(c, member, o->dtype, &m, s->begin, s->end);
}

/* ---- by copies */
static void copy_between(CudaCollective *c, int member, CUdeviceptr to, int to_member, CUdeviceptr from, int from_member,
                         size_t bytes)
{
    CudaDevice *d = c->devices[member];
    CUstream stream = d->stream[c->lane];
    CUcontext there = c->devices[to_member]->context, here = c->devices[from_member]->context;
    if (there == here)
        mgpu_cuda_check(d, c->lane, d->cuda->memcpy_dtod_async(to, from, bytes, stream), "cuMemcpyDtoDAsync");
    else
        mgpu_cuda_check(d, c->lane, d->cuda->memcpy_peer_async(to, there, from, here, bytes, stream), "cuMemcpyPeerAsync");
}

static void add_copies(CudaCollective *c, int member, const AddedSlice *s)
{
    const Operand *o = &c->operand[member];
    mgpu_members m = {.from_count = c->members, .to_count = 1};
    CudaRange range[2 * MGPU_MOST_MEMBERS + 2];
    CUdeviceptr at = c->scratch[member], scratch_end = at + (s->bytes + 63) / 64 * 64 * (CUdeviceptr)(c->members - 1);
    int ranges = 0;
    m.to[0] = o->data;
    for (int d = 0; d < c->members; d++) {
        ranges += ranges_of(&c->operand[d], s->begin, s->end, range + ranges);
        m.from[d] = c->operand[d].data;
    }
    range[ranges++] = (CudaRange){at, scratch_end, false, "scratch"};
    range[ranges++] = (CudaRange){at, scratch_end, true, "scratch"};
    mgpu_cuda_declare(c->devices[member], c->lane, o->name, range, ranges);
    for (int d = 0; d < c->members; d++) {
        if (d == member)
            continue;
        copy_between(c, member, at, member, address_of(&c->operand[d], s->begin), d, s->bytes);
        m.from[d] = (const void *)(uintptr_t)(at - (CUdeviceptr)(s->begin * mgpu_dtype_bytes(o->dtype)));
        at += (s->bytes + 63) / 64 * 64;
    }
    mgpu_cuda_launch_add(c, member, o->dtype, &m, s->begin, s->end);
    for (int d = 0; d < c->members && adds_in_place(o); d++)
        if (d != member)
            copy_between(c, member, address_of(&c->operand[d], s->begin), d, address_of(o, s->begin), member, s->bytes);
}

/* ---- moving values */
static void fetch_values(CudaCollective *c, int member)
{
    const Operand *o = &c->operand[member];
    CudaRange range[2 * MGPU_MOST_MEMBERS];
    int ranges = 0;
    for (int d = 0; d < c->members; d++) {
        AddedSlice s = needed_by(c, d, member, o);
        if (d == member || s.bytes == 0)
            continue;
        range[ranges++] =
            (CudaRange){address_of(&c->operand[d], s.begin), address_of(&c->operand[d], s.end), false, c->operand[d].buffer};
        range[ranges++] = (CudaRange){address_of(o, s.begin), address_of(o, s.end), true, o->buffer};
    }
    mgpu_cuda_declare(c->devices[member], c->lane, o->name, range, ranges);
    for (int d = 0; d < c->members; d++) {
        AddedSlice s = needed_by(c, d, member, o);
        if (d == member || s.bytes == 0)
            continue;
        copy_between(c, member, address_of(o, s.begin), member, address_of(&c->operand[d], s.begin), d, s.bytes);
    }
}

/* Makes the streams of all members wait for what each has issued so far. A member may record its event of the next time before
 * the others wait for this one, so two events alternate. With only one event, they would wait for the later recording and
 * everything before it. That could be a transfer by NCCL, where threads do not synchronize and which would wait for them: a
 * deadlock. */
static void synchronize_gpus(CudaCollective *c, int member)
{
    CudaDevice *d = c->devices[member];
    CUstream stream = d->stream[c->lane];
    CUevent *events = c->arrival_events[c->barriers[member]++ % 2];
    mgpu_cuda_check(d, c->lane, d->cuda->event_record(events[member], stream), "cuEventRecord");
    mgpu_wait_for_members(c->reduction);
    for (int other = 0; other < c->members; other++)
        if (other != member)
            mgpu_cuda_check(d, c->lane, d->cuda->stream_wait_event(stream, events[other], CU_EVENT_WAIT_DEFAULT),
                            "cuStreamWaitEvent");
}

/* Waits until all members have arrived; returns false if they disagree about what is exchanged. */
static bool synchronize_and_compare(CudaCollective *c, int member, const Operand *o)
{
    c->operand[member] = *o;
    mgpu_cuda_enter(c->devices[member], c->lane);
    synchronize_gpus(c, member);
    for (int d = 0; d < c->members; d++)
        if (!mgpu_operands_agree(&c->operand[d], o, c->members))
            return false;
    return true;
}

/* ---- through the host Members copy what they send to page-locked memory, where functions of the host add or move it. Such a
 * function calls nothing of CUDA and waits for nothing, since a driver may run them one after the other: the streams synchronize
 * between them. */
typedef struct HostRound {
    int members, member, part;
    int64_t parts[MGPU_MOST_MEMBERS + 1];
    Operand operands[MGPU_MOST_MEMBERS];
} HostRound;

static void execute_round(void *context)
{
    HostRound *p = context;
    mgpu_exchange_round(p->operands, p->members, p->member, p->part);
    free(p);
}

/* Declares accesses to page-locked memory: what the member takes from each other member, and where it writes that or the sum: to
 * its own, or to that of all members. */
static void declare_round(const CudaCollective *c, const HostRound *p)
{
    const Operand *own = &p->operands[p->member];
    bool rounds = mgpu_exchange_rounds(own, p->members) > 1, shared = adds_in_place(own) && !rounds;
    CudaRange range[3 * MGPU_MOST_MEMBERS];
    int ranges = 0;
    mgpu_round_step round = {.from = -1};
    if (rounds)
        round = mgpu_round_of(own->implementation, p->members, p->member, p->part, own->count, 64 / mgpu_dtype_bytes(own->dtype));
    for (int d = 0; d < p->members; d++) {
        bool takes = rounds ? d == round.from : d != p->member || mgpu_transfer_row(own->participants.transfer)->adds;
        AddedSlice s = rounds ? elements(own, round.elements.begin, round.elements.end) : needed_by(c, d, p->member, own);
        if (!takes || !s.bytes)
            continue;
        const Operand *from = &p->operands[d], *to = shared ? from : own;
        range[ranges++] = (CudaRange){address_of(from, s.begin), address_of(from, s.end), false, NULL};
        range[ranges++] = (CudaRange){address_of(to, s.begin), address_of(to, s.end), false, NULL};
        range[ranges++] = (CudaRange){address_of(to, s.begin), address_of(to, s.end), true, NULL};
    }
    mgpu_cuda_declare(c->devices[p->member], c->lane, own->name, range, ranges);
}

static void launch_round(const CudaCollective *c, int member, int part)
{
    const CudaDevice *d = c->devices[member];
    HostRound *p = mgpu_allocate(1, sizeof *p);
    *p = (HostRound){.members = c->members, .member = member, .part = part};
    if (c->operand[member].participants.parts)
        memcpy(p->parts, c->operand[member].participants.parts, ((size_t)c->members + 1) * sizeof *p->parts);
    for (int m = 0; m < c->members; m++) {
        p->operands[m] = c->operand[m];
        p->operands[m].data = c->memory[m];
        p->operands[m].participants.parts = c->operand[member].participants.parts ? p->parts : NULL;
    }
    declare_round(c, p);
    mgpu_cuda_check(d, c->lane, d->cuda->launch_host_func(d->stream[c->lane], execute_round, p), "cuLaunchHostFunc");
}

static bool exchange_through_host(Collective *base, int member, const Operand *o)
{
    CudaCollective *c = (CudaCollective *)base;
    mgpu_range sent = mgpu_sent_by(&o->participants, o->count, member),
               received = mgpu_received_by(&o->participants, o->count, member);
    AddedSlice out = elements(o, sent.begin, sent.end), in = elements(o, received.begin, received.end);
    mgpu_cuda_enter(c->devices[member], c->lane);
    mgpu_cuda_declare_ranges(c, member, o);
    if (out.bytes > 0)
        to_host(c, member, staged(c, member, o, out.begin), address_of(o, out.begin), out.bytes);
    if (!synchronize_and_compare(c, member, o))
        return false;
    for (int part = 0; part < mgpu_exchange_rounds(o, c->members); part++) {
        launch_round(c, member, part);
        synchronize_gpus(c, member);
    }
    mgpu_cuda_declare_ranges(c, member, o);
    if (in.bytes > 0)
        from_host(c, member, address_of(o, in.begin), staged(c, member, o, in.begin), in.bytes);
    return true;
}

/* Sums that are too large for one-shot, or of another kind, are made as by peer. */
static bool by_peers(const CudaCollective *c, const Operand *o)
{
    return c->made[o->implementation] == MGPU_IMPLEMENTATION_PEER || c->made[o->implementation] == MGPU_IMPLEMENTATION_ONE_SHOT;
}

static bool exchange_on_gpus(Collective *base, int member, const Operand *o)
{
    CudaCollective *c = (CudaCollective *)base;
    bool adds = mgpu_transfer_row(o->participants.transfer)->adds;
    if (adds && !mgpu_cuda_adds(o->dtype))
        return exchange_through_host(base, member, o);
    if (!synchronize_and_compare(c, member, o))
        return false;
    AddedSlice s = slice_of(c, member, o);
    if (!adds)
        fetch_values(c, member);
    else if (s.bytes > 0)
        (by_peers(c, o) ? add_by_peers : add_copies)(c, member, &s);
    synchronize_gpus(c, member);
    return true;
}

/* ---- in rounds */
static void take_round(CudaCollective *c, int member, const mgpu_round_step *round)
{
    const Operand *o = &c->operand[member], *from = &c->operand[round->from];
    AddedSlice s = elements(o, round->elements.begin, round->elements.end);
    CUdeviceptr scratch = c->scratch[member], to = round->adds ? scratch : address_of(o, s.begin);
    CudaRange range[6];
    int ranges = ranges_of(o, s.begin, s.end, range);
    range[ranges++] = (CudaRange){address_of(from, s.begin), address_of(from, s.end), false, from->buffer};
    if (s.bytes == 0)
        return;
    if (round->adds) {
        range[ranges++] = (CudaRange){scratch, scratch + s.bytes, false, "scratch"};
        range[ranges++] = (CudaRange){scratch, scratch + s.bytes, true, "scratch"};
    }
    mgpu_cuda_declare(c->devices[member], c->lane, o->name, range, ranges);
    copy_between(c, member, to, member, address_of(from, s.begin), round->from, s.bytes);
    if (!round->adds)
        return;
    mgpu_members m = {.from_count = 2, .to_count = 1};
    m.from[0] = m.to[0] = o->data;
    m.from[1] = (const void *)(uintptr_t)(scratch - (CUdeviceptr)(s.begin * mgpu_dtype_bytes(o->dtype)));
    mgpu_cuda_launch_add(c, member, o->dtype, &m, s.begin, s.end);
}

static bool exchange_in_rounds(Collective *base, int member, const Operand *o)
{
    CudaCollective *c = (CudaCollective *)base;
    uint8_t implementation = c->made[o->implementation];
    if (o->participants.transfer != MGPU_TRANSFER_REDUCE)
        return exchange_on_gpus(base, member, o);
    if (!mgpu_cuda_adds(o->dtype))
        return exchange_through_host(base, member, o);
    if (!synchronize_and_compare(c, member, o))
        return false;
    for (int k = 0; k < mgpu_round_count(implementation, c->members); k++) {
        mgpu_round_step round = mgpu_round_of(implementation, c->members, member, k, o->count, 64 / mgpu_dtype_bytes(o->dtype));
        if (round.from >= 0)
            take_round(c, member, &round);
        synchronize_gpus(c, member);
    }
    return true;
}

/* ---- by the library */
static bool exchange_by_nccl(Collective *base, int member, const Operand *o)
{
    if (mgpu_transfer_row(o->participants.transfer)->adds && !mgpu_nccl_adds(o->dtype))
        return exchange_through_host(base, member, o);
    return mgpu_nccl_exchange((CudaCollective *)base, member, o);
}

static bool exchange_values(Collective *base, int member, const Operand *o)
{
    static bool (*const EXCHANGE[MGPU_IMPLEMENTATIONS])(Collective *, int, const Operand *) = {
        [MGPU_IMPLEMENTATION_HOST] = exchange_through_host, [MGPU_IMPLEMENTATION_COPY] = exchange_on_gpus,
        [MGPU_IMPLEMENTATION_PEER] = exchange_on_gpus,      [MGPU_IMPLEMENTATION_NCCL] = exchange_by_nccl,
        [MGPU_IMPLEMENTATION_RING] = exchange_in_rounds,    [MGPU_IMPLEMENTATION_TREE] = exchange_in_rounds,
        [MGPU_IMPLEMENTATION_DEVICE] = exchange_in_rounds,  [MGPU_IMPLEMENTATION_ONE_SHOT] = exchange_on_gpus};
    return EXCHANGE[((CudaCollective *)base)->made[o->implementation]](base, member, o);
}

/* ---- gathered sums */

static void merge_by_tree(const CudaCollective *c, int member, const Operand *o, CUdeviceptr codes, int64_t bytes)
{
    const CudaDevice *d = c->devices[member];
    mgpu_members m = {.from_count = c->members, .to_count = 1};
    int64_t begin = 0, end = o->count / 3;
    for (int i = 0; i < c->members; i++)
        m.from[i] = (const void *)(uintptr_t)(codes + (CUdeviceptr)(bytes * i));
    m.to[0] = o->data;
    void *parameters[] = {&m, &begin, &end};
    mgpu_cuda_check(
        d, c->lane,
        d->cuda->launch_kernel(c->merge[member], ADD_BLOCKS, 1, 1, ADD_THREADS, 1, 1, 0, d->stream[c->lane], parameters, NULL),
        "cuLaunchKernel of a sum that is gathered");
}

/* adds: sums what all have sent; else encodes the member's own values */
static void launch_code(const CudaCollective *c, int member, const Operand *o, bool adds)
{
    CudaDevice *d = c->devices[member];
    bool moments = o->participants.transfer == MGPU_TRANSFER_REDUCE_MOMENTS;
    int64_t bytes = mgpu_sent_bytes(o), count = o->count, blocks = (count + 4 * ADD_THREADS - 1) / (4 * ADD_THREADS);
    int members = c->members;
    CUdeviceptr values = address_of(o, 0), codes = c->codes[member] + (CUdeviceptr)(adds ? 0 : bytes * member);
    CudaRange range[] = {{values, address_of(o, count), adds, o->buffer},
                         {codes, codes + (CUdeviceptr)(adds ? bytes * members : bytes), !adds, "codes"}};
    void *encode[] = {&codes, &values, &count}, *add[] = {&values, &codes, &members, &count};
    mgpu_cuda_declare(d, c->lane, o->name, range, 2);
    if (moments && adds && c->exact) {
        merge_by_tree(c, member, o, codes, bytes);
        return;
    }
    mgpu_cuda_check(d, c->lane,
                    d->cuda->launch_kernel(c->code[member][(moments                ? 4
                                                            : o->dtype == MGPU_F64 ? 2
                                                                                   : 0) +
                                                           adds],
                                           (unsigned)(blocks < ADD_BLOCKS ? blocks : ADD_BLOCKS), 1, 1, ADD_THREADS, 1, 1, 0,
                                           d->stream[c->lane], adds ? add : encode, NULL),
                    "cuLaunchKernel of a sum that is gathered");
}

Operand mgpu_cuda_codes_of(const CudaCollective *c, int member, const Operand *o, int64_t *parts)
{
    int64_t bytes = mgpu_sent_bytes(o);
    for (int d = 0; d <= c->members; d++)
        parts[d] = bytes * d;
    return (Operand){.name = o->name,
                     .buffer = "codes",
                     .data = (void *)(uintptr_t)c->codes[member],
                     .count = bytes * c->members,
                     .dtype = MGPU_U8,
                     .participants = {.transfer = MGPU_TRANSFER_ALL_GATHER, .parts = parts},
                     .tag = o->tag,
                     .implementation = o->implementation};
}

static bool exchange_gathered(Collective *base, int member, const Operand *o)
{
    CudaCollective *c = (CudaCollective *)base;
    int64_t parts[c->members + 1];
    Operand codes = mgpu_cuda_codes_of(c, member, o, parts);
    mgpu_cuda_enter(c->devices[member], c->lane);
    if (o->count > 0)
        launch_code(c, member, o, false);
    if (!exchange_values(base, member, &codes))
        return false;
    if (o->count > 0)
        launch_code(c, member, o, true);
    return true;
}

bool mgpu_cuda_exchange(Collective *base, int member, const Operand *o)
{
    CudaCollective *c = (CudaCollective *)base;
    if (c->made[o->implementation] == MGPU_IMPLEMENTATION_ONE_SHOT &&
        mgpu_one_shot_takes(o->participants.transfer, o->dtype, o->count))
        return mgpu_one_shot_exchange(c, member, o);
    return (mgpu_gathers(o->participants.transfer) ? exchange_gathered : exchange_values)(base, member, o);
}
