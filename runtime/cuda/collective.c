/* collective.c: transfers between GPUs, each in one of these ways: that which MGPU_COLLECTIVE names, else which the plan has chosen by cost,
 * else, or if that cannot be here, the first that can; of sums:
 *
 *   nccl   the library, if it is there and no two devices share a GPU; on the lane comm alone (docs/cuda.md, Collectives)
 *   peer   a kernel on each GPU reads a slice of all members' memory, adds it up and writes the sum to all of them
 *   copy   each GPU copies a slice of all others' memory to itself, adds, and copies the sum to all others
 *   host   through page-locked memory; reduce.c adds, in functions of the host that the streams call; server likewise
 *   ring, tree, device   in rounds (mgpu_rounds.h): each GPU copies what it takes to itself, and adds it
 *
 * A sum of bits is an all-gather in one of these ways, of codes (mgpu_bits.h): kernels of each GPU make them, and add them up.
 *
 * A reduce-scatter ends with the sum, which is the member's own. Values that are moved and not added each member copies to itself
 * from who sends them, or through page-locked memory.
 *
 * Of n members each has one slice, and between two points where all meet nobody else touches it, so all works in place. They
 * meet on the GPUs: member d's stream records an event when its operand is complete (its part of the sum is), and follows
 * those of all others. An event must be recorded before another stream can follow it, so the threads meet, too; they are
 * ahead of their GPUs, which do not notice, and none of them waits for its GPU. (Kernels that wait for each other by flags in memory would need no thread; but
 * nothing promises that two kernels run at the same time, least of all two on the same GPU.)
 *
 * Every link has been tried before. Where one changes what it carries, all sums are by copies, and what would go over that link
 * goes through page-locked memory instead: the sender copies it there, the receiver from there, so neither touches the
 * other's memory. NCCL chooses its links itself. What kernels cannot add goes through the host. */
#include "runtime/abi/mgpu_rounds.h"
#include "runtime/base/base.h"
#include "runtime/cuda/collective.h"

#include <stdlib.h>
#include <string.h>

enum { SUM_THREADS = 256, SUM_BLOCKS = 64 /* at most: they run beside the backward pass */ };
static const char *const SUM_NAME[SUM_FUNCTIONS] = {"mgpu_sum_f32", "mgpu_sum_f64", "mgpu_sum_u8", "mgpu_sum_u16", "mgpu_sum_u32", "mgpu_sum_u64", "mgpu_sum_bf16", "mgpu_sum_f16"};

static const char *const CODE_NAME[CODE_FUNCTIONS] = {"mgpu_encode_f32", "mgpu_add_f32", "mgpu_encode_f64", "mgpu_add_f64"};

static int sum_function(uint8_t dtype) /* -1: none */
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

static bool kernels_add(uint8_t dtype) { return sum_function(dtype) >= 0; }

static CUdeviceptr address_of(const Operand *o, int64_t element)
{
    return (CUdeviceptr)(uintptr_t)o->data + (CUdeviceptr)(element * mgpu_dtype_bytes(o->dtype));
}

/* two: these elements are read and written */
static int ranges_of(const Operand *o, int64_t begin, int64_t end, CudaRange *range)
{
    range[0] = range[1] = (CudaRange){address_of(o, begin), address_of(o, end), false, o->buffer};
    range[1].writes = true;
    return 2;
}

void mgpu_cuda_declare_share(const CudaCollective *c, int member, const Operand *o)
{
    CudaRange range[4];
    mgpu_stretch sent = mgpu_sent_by(&o->parties, o->count, member), received = mgpu_received_by(&o->parties, o->count, member);
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
void mgpu_cuda_launch_sum(const CudaCollective *c, int member, uint8_t dtype, const mgpu_members *m, int64_t begin, int64_t end)
{
    CudaDevice *d = c->devices[member];
    int64_t packs = (end - begin) * mgpu_dtype_bytes(dtype) / 16, blocks = (packs + SUM_THREADS - 1) / SUM_THREADS;
    mgpu_members copy = *m;
    int64_t before = begin * mgpu_dtype_bytes(dtype);
    if (before % 16) /* kernels load packs from element `begin` on, so it is their first */
        for (int i = 0; i < MGPU_MOST_MEMBERS; i++) {
            copy.from[i] = i < copy.from_count ? (const char *)copy.from[i] + before : NULL;
            copy.to[i] = i < copy.to_count ? (char *)copy.to[i] + before : NULL;
        }
    end -= before % 16 ? begin : 0;
    begin -= before % 16 ? begin : 0;
    void *parameters[] = {&copy, &begin, &end};
    blocks = blocks < 1 ? 1 : blocks < SUM_BLOCKS ? blocks : SUM_BLOCKS;
    mgpu_cuda_check(d, c->lane, d->cuda->launch_kernel(c->sum[member][sum_function(dtype)], (unsigned)blocks, 1, 1, SUM_THREADS, 1, 1, 0,
                                                         d->stream[c->lane], parameters, NULL),
                    "cuLaunchKernel of a sum over devices");
}

static SumSlice elements(const Operand *o, int64_t begin, int64_t end)
{
    return (SumSlice){begin, end, (size_t)((end - begin) * mgpu_dtype_bytes(o->dtype))};
}

static bool shares_sums(const Operand *o) { return o->parties.transfer == MGPU_TRANSFER_REDUCE; }

/* what the member adds up */
static SumSlice slice_of(const CudaCollective *c, int member, const Operand *o)
{
    int64_t size = mgpu_dtype_bytes(o->dtype), line = 64 / size;
    mgpu_stretch own = mgpu_received_by(&o->parties, o->count, member);
    if (!shares_sums(o))
        return elements(o, own.begin, own.end);
    int64_t each = ((o->count + c->members - 1) / c->members + line - 1) / line * line;
    int64_t begin = each * member < o->count ? each * member : o->count;
    return elements(o, begin, begin + each < o->count ? begin + each : o->count);
}

/* what member `to` needs of what member `from` has */
static SumSlice needed_by(const CudaCollective *c, int from, int to, const Operand *o)
{
    if (mgpu_transfer_row(o->parties.transfer)->adds)
        return slice_of(c, to, o);
    mgpu_stretch moved = mgpu_moved(o, from, to);
    return elements(o, moved.begin, moved.end);
}

static void add_by_peers(CudaCollective *c, int member, const SumSlice *s)
{
    const Operand *o = &c->operand[member];
    mgpu_members m = {.from_count = c->members, .to_count = shares_sums(o) ? c->members : 1};
    CudaRange range[2 * MGPU_MOST_MEMBERS];
    int ranges = 0;
    for (int d = 0; d < c->members; d++) {
        m.from[d] = c->operand[d].data;
        m.to[d] = shares_sums(o) ? c->operand[d].data : d ? NULL : o->data;
        ranges += ranges_of(&c->operand[d], s->begin, s->end, range + ranges);
    }
    mgpu_cuda_declare(c->devices[member], c->lane, o->name, range, ranges);
    mgpu_cuda_launch_sum(c, member, o->dtype, &m, s->begin, s->end);
}

/* ---- by copies */
static void copy_between(CudaCollective *c, int member, CUdeviceptr to, int to_member, CUdeviceptr from, int from_member, size_t bytes)
{
    CudaDevice *d = c->devices[member];
    CUstream stream = d->stream[c->lane];
    CUcontext there = c->devices[to_member]->context, here = c->devices[from_member]->context;
    if (there == here)
        mgpu_cuda_check(d, c->lane, d->cuda->memcpy_dtod_async(to, from, bytes, stream), "cuMemcpyDtoDAsync");
    else
        mgpu_cuda_check(d, c->lane, d->cuda->memcpy_peer_async(to, there, from, here, bytes, stream), "cuMemcpyPeerAsync");
}

static void add_copies(CudaCollective *c, int member, const SumSlice *s)
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
    mgpu_cuda_launch_sum(c, member, o->dtype, &m, s->begin, s->end);
    for (int d = 0; d < c->members && shares_sums(o); d++)
        if (d != member)
            copy_between(c, member, address_of(&c->operand[d], s->begin), d, address_of(o, s->begin), member, s->bytes);
}

/* ---- moving */
static void fetch_values(CudaCollective *c, int member)
{
    const Operand *o = &c->operand[member];
    CudaRange range[2 * MGPU_MOST_MEMBERS];
    int ranges = 0;
    for (int d = 0; d < c->members; d++) {
        SumSlice s = needed_by(c, d, member, o);
        if (d == member || s.bytes == 0)
            continue;
        range[ranges++] = (CudaRange){address_of(&c->operand[d], s.begin), address_of(&c->operand[d], s.end), false, c->operand[d].buffer};
        range[ranges++] = (CudaRange){address_of(o, s.begin), address_of(o, s.end), true, o->buffer};
    }
    mgpu_cuda_declare(c->devices[member], c->lane, o->name, range, ranges);
    for (int d = 0; d < c->members; d++) {
        SumSlice s = needed_by(c, d, member, o);
        if (d == member || s.bytes == 0)
            continue;
        copy_between(c, member, address_of(o, s.begin), member, address_of(&c->operand[d], s.begin), d, s.bytes);
    }
}

/* the comm streams of all members come after what each has issued so far */
static void meet_on_gpus(CudaCollective *c, int member, CUevent *events)
{
    CudaDevice *d = c->devices[member];
    CUstream stream = d->stream[c->lane];
    mgpu_cuda_check(d, c->lane, d->cuda->event_record(events[member], stream), "cuEventRecord");
    mgpu_meet(c->reduction);
    for (int other = 0; other < c->members; other++)
        if (other != member)
            mgpu_cuda_check(d, c->lane, d->cuda->stream_wait_event(stream, events[other], CU_EVENT_WAIT_DEFAULT), "cuStreamWaitEvent");
}

/* all members are there; false: they do not agree about what is exchanged */
static bool meet_agreed(CudaCollective *c, int member, const Operand *o)
{
    c->operand[member] = *o;
    mgpu_cuda_enter(c->devices[member], c->lane);
    meet_on_gpus(c, member, c->ready);
    for (int d = 0; d < c->members; d++)
        if (!mgpu_operands_agree(&c->operand[d], o, c->members))
            return false;
    return true;
}

/* ---- through the host
 * Members copy what they send to page-locked memory, where functions of the host add it up or move it. Such a function calls nothing of CUDA
 * and waits for nobody, since a driver may run one after the other: the streams meet between them. */
typedef struct HostPart { int members, member, part; int64_t parts[MGPU_MOST_MEMBERS + 1]; Operand operands[MGPU_MOST_MEMBERS]; } HostPart;

static void take_part(void *context)
{
    HostPart *p = context;
    mgpu_exchange_part(p->operands, p->members, p->member, p->part);
    free(p);
}

/* of page-locked memory: what the member takes of each other one's, and where it writes that or the sum: to its own, or to all */
static void declare_part(const CudaCollective *c, const HostPart *p)
{
    const Operand *own = &p->operands[p->member];
    bool rounds = mgpu_exchange_parts(own, p->members) > 1, shared = shares_sums(own) && !rounds;
    CudaRange range[3 * MGPU_MOST_MEMBERS];
    int ranges = 0;
    mgpu_turn round = {.from = -1};
    if (rounds)
        round = mgpu_round_of(own->way, p->members, p->member, p->part, own->count, 64 / mgpu_dtype_bytes(own->dtype));
    for (int d = 0; d < p->members; d++) {
        bool takes = rounds ? d == round.from : d != p->member || mgpu_transfer_row(own->parties.transfer)->adds;
        SumSlice s = rounds ? elements(own, round.elements.begin, round.elements.end) : needed_by(c, d, p->member, own);
        if (!takes || !s.bytes)
            continue;
        const Operand *from = &p->operands[d], *to = shared ? from : own;
        range[ranges++] = (CudaRange){address_of(from, s.begin), address_of(from, s.end), false, NULL};
        range[ranges++] = (CudaRange){address_of(to, s.begin), address_of(to, s.end), false, NULL};
        range[ranges++] = (CudaRange){address_of(to, s.begin), address_of(to, s.end), true, NULL};
    }
    mgpu_cuda_declare(c->devices[p->member], c->lane, own->name, range, ranges);
}

static void launch_part(const CudaCollective *c, int member, int part)
{
    const CudaDevice *d = c->devices[member];
    HostPart *p = mgpu_allocate(1, sizeof *p);
    *p = (HostPart){.members = c->members, .member = member, .part = part};
    if (c->operand[member].parties.parts)
        memcpy(p->parts, c->operand[member].parties.parts, ((size_t)c->members + 1) * sizeof *p->parts);
    for (int m = 0; m < c->members; m++) {
        p->operands[m] = c->operand[m];
        p->operands[m].data = c->memory[m];
        p->operands[m].parties.parts = c->operand[member].parties.parts ? p->parts : NULL;
    }
    declare_part(c, p);
    mgpu_cuda_check(d, c->lane, d->cuda->launch_host_func(d->stream[c->lane], take_part, p), "cuLaunchHostFunc");
}

static bool exchange_through_host(Collective *base, int member, const Operand *o)
{
    CudaCollective *c = (CudaCollective *)base;
    mgpu_stretch sent = mgpu_sent_by(&o->parties, o->count, member), received = mgpu_received_by(&o->parties, o->count, member);
    SumSlice out = elements(o, sent.begin, sent.end), in = elements(o, received.begin, received.end);
    mgpu_cuda_enter(c->devices[member], c->lane);
    mgpu_cuda_declare_share(c, member, o);
    if (out.bytes > 0)
        to_host(c, member, staged(c, member, o, out.begin), address_of(o, out.begin), out.bytes);
    if (!meet_agreed(c, member, o))
        return false;
    for (int part = 0; part < mgpu_exchange_parts(o, c->members); part++) {
        launch_part(c, member, part);
        meet_on_gpus(c, member, part % 2 ? c->ready : c->over);
    }
    mgpu_cuda_declare_share(c, member, o);
    if (in.bytes > 0)
        from_host(c, member, address_of(o, in.begin), staged(c, member, o, in.begin), in.bytes);
    return true;
}

static bool exchange_on_gpus(Collective *base, int member, const Operand *o)
{
    CudaCollective *c = (CudaCollective *)base;
    bool adds = mgpu_transfer_row(o->parties.transfer)->adds;
    if (adds && !kernels_add(o->dtype))
        return exchange_through_host(base, member, o);
    if (!meet_agreed(c, member, o))
        return false;
    SumSlice s = slice_of(c, member, o);
    if (!adds)
        fetch_values(c, member);
    else if (s.bytes > 0)
        (c->made[o->way] == MGPU_WAY_PEER ? add_by_peers : add_copies)(c, member, &s);
    meet_on_gpus(c, member, c->over);
    return true;
}

/* ---- in rounds */
static void take_round(CudaCollective *c, int member, const mgpu_turn *round)
{
    const Operand *o = &c->operand[member], *from = &c->operand[round->from];
    SumSlice s = elements(o, round->elements.begin, round->elements.end);
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
    mgpu_cuda_launch_sum(c, member, o->dtype, &m, s.begin, s.end);
}

static bool exchange_in_rounds(Collective *base, int member, const Operand *o)
{
    CudaCollective *c = (CudaCollective *)base;
    uint8_t way = c->made[o->way];
    if (o->parties.transfer != MGPU_TRANSFER_REDUCE)
        return exchange_on_gpus(base, member, o);
    if (!kernels_add(o->dtype))
        return exchange_through_host(base, member, o);
    if (!meet_agreed(c, member, o))
        return false;
    for (int k = 0; k < mgpu_round_count(way, c->members); k++) {
        mgpu_turn round = mgpu_round_of(way, c->members, member, k, o->count, 64 / mgpu_dtype_bytes(o->dtype));
        if (round.from >= 0)
            take_round(c, member, &round);
        meet_on_gpus(c, member, k % 2 ? c->ready : c->over);
    }
    return true;
}

/* ---- by the library */
static bool exchange_by_nccl(Collective *base, int member, const Operand *o)
{
    if (mgpu_transfer_row(o->parties.transfer)->adds && !mgpu_nccl_adds(o->dtype))
        return exchange_through_host(base, member, o);
    return mgpu_nccl_exchange((CudaCollective *)base, member, o);
}

static bool exchange_values(Collective *base, int member, const Operand *o)
{
    static bool (*const EXCHANGE[MGPU_WAYS])(Collective *, int, const Operand *) = {
        [MGPU_WAY_HOST] = exchange_through_host, [MGPU_WAY_COPY] = exchange_on_gpus, [MGPU_WAY_PEER] = exchange_on_gpus,
        [MGPU_WAY_NCCL] = exchange_by_nccl, [MGPU_WAY_RING] = exchange_in_rounds, [MGPU_WAY_TREE] = exchange_in_rounds,
        [MGPU_WAY_DEVICE] = exchange_in_rounds};
    return EXCHANGE[((CudaCollective *)base)->made[o->way]](base, member, o);
}

/* ---- sums of bits */
static bool is_of_bits(const mgpu_collective *x) { return x->parties.transfer == MGPU_TRANSFER_REDUCE_BITS; }

static int64_t coded_bytes(int64_t count, uint8_t dtype) { return mgpu_coded_bytes(count, mgpu_dtype_bytes(dtype)); }

/* adds: adds up the codes of all, else makes the member's own */
static void launch_code(const CudaCollective *c, int member, const Operand *o, bool adds)
{
    CudaDevice *d = c->devices[member];
    int64_t bytes = coded_bytes(o->count, o->dtype), count = o->count, blocks = (count + 4 * SUM_THREADS - 1) / (4 * SUM_THREADS);
    int members = c->members;
    CUdeviceptr values = address_of(o, 0), codes = c->codes[member] + (CUdeviceptr)(adds ? 0 : bytes * member);
    CudaRange range[] = {{values, address_of(o, count), adds, o->buffer}, {codes, codes + (CUdeviceptr)(adds ? bytes * members : bytes), !adds, "codes"}};
    void *encode[] = {&codes, &values, &count}, *add[] = {&values, &codes, &members, &count};
    mgpu_cuda_declare(d, c->lane, o->name, range, 2);
    mgpu_cuda_check(d, c->lane, d->cuda->launch_kernel(c->code[member][2 * (o->dtype == MGPU_F64) + adds], (unsigned)(blocks < SUM_BLOCKS ? blocks : SUM_BLOCKS), 1, 1,
                                                        SUM_THREADS, 1, 1, 0, d->stream[c->lane], adds ? add : encode, NULL),
                    "cuLaunchKernel of a sum of bits");
}

/* what of a sum of bits is gathered */
static Operand codes_of(const CudaCollective *c, int member, const Operand *o, int64_t *parts)
{
    int64_t bytes = coded_bytes(o->count, o->dtype);
    for (int d = 0; d <= c->members; d++)
        parts[d] = bytes * d;
    return (Operand){.name = o->name, .buffer = "codes", .data = (void *)(uintptr_t)c->codes[member], .count = bytes * c->members, .dtype = MGPU_U8,
                     .parties = {.transfer = MGPU_TRANSFER_ALL_GATHER, .parts = parts}, .tag = o->tag, .way = o->way};
}

static bool exchange_bits(Collective *base, int member, const Operand *o)
{
    CudaCollective *c = (CudaCollective *)base;
    int64_t parts[c->members + 1];
    Operand codes = codes_of(c, member, o, parts);
    mgpu_cuda_enter(c->devices[member], c->lane);
    if (o->count > 0)
        launch_code(c, member, o, false);
    if (!exchange_values(base, member, &codes))
        return false;
    if (o->count > 0)
        launch_code(c, member, o, true);
    return true;
}

static bool exchange(Collective *base, int member, const Operand *o)
{
    return (mgpu_sends_bits(o) ? exchange_bits : exchange_values)(base, member, o);
}

/* ---- one device has all of it */
static bool exchange_alone(Collective *base, int member, const Operand *o)
{
    (void)base, (void)member, (void)o;
    return true;
}

/* ---- opening */
static CUevent new_event(const CudaDevice *d)
{
    CUevent event = NULL;
    mgpu_cuda_enter(d, -1);
    mgpu_cuda_check(d, -1, d->cuda->event_create(&event, CU_EVENT_DISABLE_TIMING), "cuEventCreate");
    return event;
}

/* in bytes, of those that go through the host: all that are made so, and what the others cannot add */
static int64_t largest_through_host(const CudaCollective *c, const mgpu_plan *plan)
{
    static bool (*const ADDS[MGPU_WAYS])(uint8_t dtype) = {[MGPU_WAY_COPY] = kernels_add, [MGPU_WAY_PEER] = kernels_add, [MGPU_WAY_NCCL] = mgpu_nccl_adds,
                                                    [MGPU_WAY_RING] = kernels_add, [MGPU_WAY_TREE] = kernels_add, [MGPU_WAY_DEVICE] = kernels_add};
    int64_t largest = 0;
    for (int k = 0; k < plan->phase_count; k++)
        for (int i = 0; i < plan->phases[k].collective_count; i++) {
            const mgpu_collective *x = &plan->phases[k].collectives[i];
            bool (*adds)(uint8_t) = ADDS[c->made[x->way]];
            int64_t whole = is_of_bits(x) ? plan->devices * coded_bytes(x->count, x->dtype) : x->count * mgpu_dtype_bytes(x->dtype);
            int64_t bytes = mgpu_collective_lane(x) == c->lane ? whole : 0;
            if (!adds || (mgpu_transfer_row(x->parties.transfer)->adds && !adds(x->dtype)))
                largest = bytes > largest ? bytes : largest;
        }
    return largest;
}

static void open_events(CudaCollective *c)
{
    c->ready = mgpu_allocate((size_t)c->members, sizeof *c->ready);
    c->over = mgpu_allocate((size_t)c->members, sizeof *c->over);
    c->operand = mgpu_allocate((size_t)c->members, sizeof *c->operand);
    for (int d = 0; d < c->members; d++) {
        c->ready[d] = new_event(c->devices[d]);
        c->over[d] = new_event(c->devices[d]);
    }
}

static void open_kernels(CudaCollective *c)
{
    c->sum = mgpu_allocate((size_t)c->members, sizeof *c->sum);
    for (int d = 0; d < c->members; d++)
        for (int i = 0; i < SUM_FUNCTIONS; i++)
            c->sum[d][i] = mgpu_cuda_function(c->devices[d], SUM_NAME[i]);
}

/* the most that `bytes` says of a collective of a lane */
static int64_t most_bytes(const mgpu_plan *plan, int lane, int64_t (*bytes)(const mgpu_parties *, int64_t, int64_t, int))
{
    int64_t most = 0;
    for (int k = 0; k < plan->phase_count; k++)
        for (int i = 0; i < plan->phases[k].collective_count; i++) {
            const mgpu_collective *c = &plan->phases[k].collectives[i];
            int64_t own = mgpu_collective_lane(c) == lane ? bytes(&c->parties, c->count, mgpu_dtype_bytes(c->dtype), plan->devices) : 0;
            most = own > most ? own : most;
        }
    return most;
}

static bool wants(const mgpu_plan *plan, int lane, uint8_t way)
{
    for (int k = 0; k < plan->phase_count; k++)
        for (int i = 0; i < plan->phases[k].collective_count; i++)
            if (plan->phases[k].collectives[i].way == way && mgpu_collective_lane(&plan->phases[k].collectives[i]) == lane)
                return true;
    return false;
}

/* made: how each way of the plan is made */
static int64_t scratch_bytes(const mgpu_plan *plan, int lane, const uint8_t made[MGPU_WAYS])
{
    int64_t most = 0;
    for (uint8_t way = 0; way < MGPU_WAYS; way++) {
        int64_t bytes = wants(plan, lane, way) ? mgpu_way_bytes(made[way], plan->devices, most_bytes(plan, lane, mgpu_slice_bytes)) : 0;
        most = bytes > most ? bytes : most;
    }
    return most;
}

static void open_codes(CudaCollective *c, const mgpu_plan *plan)
{
    int64_t bytes = most_bytes(plan, c->lane, mgpu_codes_bytes);
    if (!bytes)
        return;
    c->codes = mgpu_allocate((size_t)c->members, sizeof *c->codes);
    c->code = mgpu_allocate((size_t)c->members, sizeof *c->code);
    for (int d = c->own.first; d < c->own.end; d++) {
        mgpu_cuda_enter(c->devices[d], -1);
        c->codes[d] = mgpu_cuda_allocate(c->devices[d], bytes, bytes, "besides its arena, one-bit gradients of all devices take");
        c->devices[d]->besides += bytes;
        for (int i = 0; i < CODE_FUNCTIONS; i++)
            c->code[d][i] = mgpu_cuda_function(c->devices[d], CODE_NAME[i]);
    }
}

static void open_scratch(CudaCollective *c, const mgpu_plan *plan)
{
    int64_t bytes = scratch_bytes(plan, c->lane, c->made);
    if (!bytes)
        return;
    c->scratch = mgpu_allocate((size_t)c->members, sizeof *c->scratch);
    for (int d = 0; d < c->members; d++) {
        mgpu_cuda_enter(c->devices[d], -1);
        c->scratch[d] = mgpu_cuda_allocate(c->devices[d], bytes, bytes,
                                           "besides its arena, the all-reduces by copies (MGPU_COLLECTIVE=host needs none) take");
        c->devices[d]->besides += bytes;
    }
}

/* ---- NCCL connects members, takes memory and loads kernels when a transfer first needs them (NCCL_RUNTIME_CONNECT), and a driver that
 * does so waits for what runs. So each kind and size of transfer is made once before the first step, in the arenas, which are
 * empty as yet, and are so again. What the library cannot do here is heard here. */
static bool is_by_nccl(const CudaCollective *c, const mgpu_collective *x)
{
    bool adds = mgpu_transfer_row(x->parties.transfer)->adds && !is_of_bits(x);
    return mgpu_collective_lane(x) == c->lane && c->made[x->way] == MGPU_WAY_NCCL && x->count > 0 && (!adds || mgpu_nccl_adds(x->dtype));
}

static int by_kind(const void *a, const void *b)
{
    const mgpu_collective *x = *(const mgpu_collective *const *)a, *y = *(const mgpu_collective *const *)b;
    const int64_t differences[] = {x->parties.transfer - y->parties.transfer, x->dtype - y->dtype, (x->count > y->count) - (x->count < y->count),
                                   x->parties.from - y->parties.from, x->parties.to - y->parties.to};
    for (int i = 0; i < MGPU_COUNT(differences); i++)
        if (differences[i])
            return differences[i] < 0 ? -1 : 1;
    return 0;
}

static void try_transfer(CudaCollective *c, const mgpu_collective *x)
{
    Operand *operands = mgpu_allocate((size_t)c->members, sizeof *operands);
    int64_t parts[c->members + 1];
    for (int d = c->own.first; d < c->own.end; d++) {
        Operand o = {.name = x->name, .data = (void *)(uintptr_t)c->devices[d]->arena, .count = x->count, .dtype = x->dtype, .parties = x->parties, .way = x->way};
        operands[d] = is_of_bits(x) ? codes_of(c, d, &o, parts) : o;
    }
    mgpu_nccl_try(c, operands);
    free(operands);
}

static void clear_arenas(const CudaCollective *c, size_t bytes)
{
    for (int i = c->own.first; i < c->own.end; i++) {
        const CudaDevice *d = c->devices[i];
        mgpu_cuda_enter(d, -1);
        if (bytes > 0)
            mgpu_cuda_check(d, -1, d->cuda->memset_d8_async(d->arena, 0, bytes, d->stream[c->lane]), "cuMemsetD8Async");
        mgpu_cuda_check(d, -1, d->cuda->stream_synchronize(d->stream[c->lane]), "cuStreamSynchronize of transfers that are tried");
    }
}

static void try_transfers(CudaCollective *c, const mgpu_plan *plan)
{
    int room = 0, count = 0;
    int64_t most = 0;
    for (int k = 0; k < plan->phase_count; k++)
        room += plan->phases[k].collective_count;
    const mgpu_collective **all = mgpu_allocate((size_t)room, sizeof *all);
    for (int k = 0; k < plan->phase_count; k++)
        for (int i = 0; i < plan->phases[k].collective_count; i++)
            if (is_by_nccl(c, &plan->phases[k].collectives[i]))
                all[count++] = &plan->phases[k].collectives[i];
    if (count)
        qsort(all, (size_t)count, sizeof *all, by_kind);
    for (int i = 0; i < count; i++) {
        int64_t bytes = is_of_bits(all[i]) ? 0 : all[i]->count * mgpu_dtype_bytes(all[i]->dtype);
        if (i && by_kind(&all[i], &all[i - 1]) == 0)
            continue;
        try_transfer(c, all[i]);
        most = bytes > most ? bytes : most;
    }
    if (count)
        clear_arenas(c, (size_t)most);
    free(all);
}

/* for sums that go through the host */
static void open_memory(CudaCollective *c, int64_t largest)
{
    for (int d = 0; d < c->members && largest > 0; d++)
        c->memory[d] = mgpu_device_cuda.ahead->locked(c->machine, largest);
}

static void close_collective(Collective *base)
{
    CudaCollective *c = (CudaCollective *)base;
    mgpu_nccl_close(c);
    for (int i = c->own.first; i < c->own.end; i++) {
        const CudaDevice *d = c->devices[i];
        mgpu_cuda_enter(d, -1);
        if (c->memory[i])
            mgpu_device_cuda.ahead->unlock(c->machine, c->memory[i]);
        if (c->ready)
            mgpu_cuda_check(d, -1, d->cuda->event_destroy(c->ready[i]), "cuEventDestroy");
        if (c->over)
            mgpu_cuda_check(d, -1, d->cuda->event_destroy(c->over[i]), "cuEventDestroy");
        if (c->scratch)
            mgpu_cuda_check(d, -1, d->cuda->mem_free(c->scratch[i]), "cuMemFree");
        if (c->codes)
            mgpu_cuda_check(d, -1, d->cuda->mem_free(c->codes[i]), "cuMemFree");
    }
    if (c->reduction)
        mgpu_reduction_close(c->reduction);
    free(c->memory);
    free(c->sum);
    free(c->code);
    free(c->codes);
    free(c->ready);
    free(c->over);
    free(c->operand);
    free(c->scratch);
    free(c->note);
    free(c->names);
    free(c);
}

/* MGPU_COLLECTIVE; AUTO: it names none */
static uint8_t read_way(void)
{
    const char *value = getenv("MGPU_COLLECTIVE");
    for (int i = 0; value && *value && i < MGPU_WAYS; i++)
        if (strcmp(value, mgpu_way_name(i)) == 0)
            return (uint8_t)i;
    if (value && *value)
        mgpu_fail(MGPU_BAD_USAGE, "MGPU_COLLECTIVE is auto, nccl, peer, copy, host, ring, tree, device or server, not '%s'", value);
    return MGPU_WAY_AUTO;
}

/* why it cannot be; NULL: it is open */
static char *open_nccl(CudaCollective *c, bool shared)
{
    return c->nccl ? NULL : mgpu_nccl_open(c, shared);
}

static void forced_fails(const char *why)
{
    mgpu_fail(MGPU_MACHINE_FAILED, "MGPU_COLLECTIVE=%s", why);
}

static bool wishes_nccl(uint8_t wanted, bool shared) { return wanted == MGPU_WAY_NCCL || (wanted == MGPU_WAY_AUTO && !shared); }

bool mgpu_cuda_may_use_nccl(const Machine *m, const mgpu_plan *plan)
{
    uint8_t forced = read_way();
    bool any = m->count > m->own.end - m->own.first; /* there are other processes */
    for (uint8_t way = 0; way < MGPU_WAYS && plan->devices > 1; way++)
        any = any || (wants(plan, MGPU_COMM, way) && wishes_nccl(forced ? forced : way, m->shared));
    return any;
}

/* how it is made, if all links are good */
static uint8_t make_way(CudaCollective *c, uint8_t wanted, bool forced, bool shared, bool reach)
{
    bool may = c->lane == MGPU_COMM; /* two of its kernels at the same time may wait for each other for ever */
    if (may && wishes_nccl(wanted, shared)) {
        char *why = open_nccl(c, shared);
        if (!why)
            return MGPU_WAY_NCCL;
        if (forced)
            forced_fails(mgpu_format("nccl: %s", why));
        if (!c->note)
            c->note = mgpu_format("no NCCL (%s)", why);
        free(why);
    }
    if (wanted == MGPU_WAY_PEER && forced && !reach)
        forced_fails("peer: the GPUs cannot reach each other's memory; copy works without that");
    return mgpu_way_has_rounds(wanted) ? wanted : wanted == MGPU_WAY_COPY || !reach ? MGPU_WAY_COPY : MGPU_WAY_PEER;
}

static void make_ways(CudaCollective *c, const mgpu_plan *plan, uint8_t forced)
{
    bool shared = c->machine->shared;
    CudaLinks links = c->links;
    if (links.bad && forced != MGPU_WAY_HOST && c->lane == MGPU_COMM)
        c->note = mgpu_format("%d of %d links between GPUs bad", links.bad, links.count);
    for (uint8_t way = 0; way < MGPU_WAYS; way++) {
        uint8_t wanted = forced ? forced : way;
        if (links.bad || wanted == MGPU_WAY_HOST || wanted == MGPU_WAY_SERVER)
            c->made[way] = MGPU_WAY_HOST;
        else if (wants(plan, c->lane, way))
            c->made[way] = make_way(c, wanted, forced, shared, links.reach);
    }
}

static const char *made_by(const Collective *base, uint8_t way)
{
    const CudaCollective *c = (const CudaCollective *)base;
    return c->made[way] == MGPU_WAY_NCCL ? mgpu_nccl_name(c) : mgpu_way_name(c->made[way]);
}

/* of all ways that the plan's transfers are made in, each once */
static char *name_ways(const CudaCollective *c, const mgpu_plan *plan)
{
    bool used[MGPU_WAYS] = {false};
    char *names = mgpu_format("%s", "");
    for (uint8_t way = 0; way < MGPU_WAYS; way++)
        used[c->made[way]] |= wants(plan, c->lane, way);
    for (uint8_t way = MGPU_WAYS - 1; way > MGPU_WAY_AUTO; way--) {
        if (!used[way])
            continue;
        char *longer = mgpu_format("%s%s%s", names, *names ? ", " : "", way == MGPU_WAY_NCCL ? mgpu_nccl_name(c) : mgpu_way_name(way));
        free(names);
        names = longer;
    }
    if (*names)
        return names;
    free(names);
    return mgpu_format("none");
}

int64_t mgpu_cuda_scratch(const mgpu_plan *plan)
{
    uint8_t forced = read_way(), made[MGPU_WAYS];
    for (uint8_t way = 0; way < MGPU_WAYS; way++)
        made[way] = forced ? forced : way;
    int64_t bytes = 0;
    for (int lane = 0; lane < MGPU_LANES; lane++)
        bytes += mgpu_lane_transfers(lane) ? scratch_bytes(plan, lane, made) + most_bytes(plan, lane, mgpu_codes_bytes) : 0;
    return bytes;
}

/* NCCL makes everything, and needs nothing of what the other ways have */
static void connect_processes(CudaCollective *c, const mgpu_plan *plan, uint8_t forced)
{
    if (forced != MGPU_WAY_AUTO && forced != MGPU_WAY_NCCL)
        mgpu_fail(MGPU_BAD_USAGE, "MGPU_COLLECTIVE=%s is for the GPUs of one process; several transfer by NCCL: leave it out, or start one process", mgpu_way_name(forced));
    if (c->lane != MGPU_COMM)
        mgpu_fail(MGPU_BAD_USAGE, "several processes transfer by NCCL, on the lane comm alone, and the plan has transfers on the lane sync; compile with --plan auto,waited=comm");
    if (c->machine->shared && forced != MGPU_WAY_NCCL)
        mgpu_fail(MGPU_BAD_USAGE, "two devices share a GPU, and NCCL, by which several processes transfer, takes one for each; start one process, or fewer devices; "
                  "MGPU_COLLECTIVE=nccl tries it with an NCCL that may take them");
    c->links = mgpu_cuda_links(c, false);
    char *why = mgpu_nccl_open(c, c->machine->shared);
    if (why)
        mgpu_fail(MGPU_MACHINE_FAILED, "several processes transfer by NCCL: %s", why);
    memset(c->made, MGPU_WAY_NCCL, sizeof c->made);
    if (largest_through_host(c, plan))
        mgpu_fail(MGPU_BAD_USAGE, "several processes transfer by NCCL, which adds no numbers of 16 bits that are whole; start one process");
}

static void connect_own(CudaCollective *c, const mgpu_plan *plan, uint8_t forced, const CudaCollective *beside)
{
    if (c->members > MGPU_MOST_MEMBERS)
        mgpu_fail(MGPU_MACHINE_FAILED, "all-reduces over more than %d GPUs of one process are not supported; mgpuc --mpi makes a program of several", MGPU_MOST_MEMBERS);
    c->reduction = mgpu_reduction_open(plan->devices);
    open_events(c);
    if (forced != MGPU_WAY_HOST)
        open_kernels(c);
    c->links = beside ? beside->links : mgpu_cuda_links(c, forced != MGPU_WAY_HOST);
    make_ways(c, plan, forced);
    open_scratch(c, plan);
}

Collective *mgpu_cuda_connect(Machine *m, Device **devices, const mgpu_plan *plan, Processes *processes, Collective *beside)
{
    CudaCollective *c = mgpu_allocate(1, sizeof *c);
    uint8_t forced = read_way();
    *c = (CudaCollective){.machine = m, .devices = (CudaDevice **)devices, .members = plan->devices, .lane = beside ? MGPU_SYNC : MGPU_COMM,
                          .own = m->own, .processes = processes,
                          .memory = mgpu_allocate((size_t)plan->devices, sizeof(void *))};
    c->collective.close = close_collective;
    if (c->members == 1) {
        c->collective.transfer = exchange_alone;
        c->collective.name = "none";
        return &c->collective;
    }
    if (processes)
        connect_processes(c, plan, forced);
    else
        connect_own(c, plan, forced, (CudaCollective *)beside);
    open_codes(c, plan);
    try_transfers(c, plan);
    open_memory(c, largest_through_host(c, plan));
    c->names = name_ways(c, plan);
    c->collective.transfer = exchange;
    c->collective.made_by = made_by;
    c->collective.name = c->names;
    c->collective.note = c->note;
    return &c->collective;
}
