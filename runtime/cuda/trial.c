/* trial.c: checks before the first step that each transfer of the plan gives right results, by the implementation that will be
 * used.
 *
 * NCCL connects members, allocates memory and loads kernels when a transfer first needs them (NCCL_RUNTIME_CONNECT), and a driver
 * that does so waits for running work. So with NCCL, each kind and size is tried once. Code of the other implementations does not
 * depend on the size, so the largest of each kind is tried.
 *
 * Trials use the unused arenas, which are zeroed afterwards. Windows of the value have a pattern: for each element, two members
 * have a small number that depends on its index, the others 0. So the sum is exact in every type, and a member that is left out,
 * counted twice or shifted changes it. Between the windows are zeros. */
#include "runtime/abi/mgpu_half.h"
#include "runtime/abi/mgpu_rounds.h"
#include "runtime/base/base.h"
#include "runtime/cuda/collective.h"

#include <stdlib.h>
#include <string.h>

enum { WINDOW = 8192 /* elements */, WINDOWS = 16 };
typedef struct CollectiveTrial {
    CudaCollective *c;
    const Operand *operands; /* [member] */
    uint8_t *bytes;          /* page-locked, of a window */
    Counter begun;
} CollectiveTrial;

/* ---- the pattern */
static int number_of(int64_t element, int member, int members)
{
    int first = (int)(element % members), second = (int)(element / 7 % members);
    return (member == first ? 1 + (int)(element % 5) : 0) + (member == second ? 1 + (int)(element % 3) : 0);
}

static int sum_of(int64_t element, int members)
{
    int sum = number_of(element, (int)(element % members), members), second = (int)(element / 7 % members);
    return second == element % members ? sum : sum + number_of(element, second, members);
}

static void set_number(uint8_t *to, uint8_t dtype, int value)
{
    float f = (float)value;
    double d = value;
    mgpu_bf16 bf16 = mgpu_to_bf16(f);
    mgpu_f16 f16 = mgpu_to_f16(f);
    int64_t whole = value; /* on little-endian machines the low bytes are first */
    const void *from = dtype == MGPU_F32    ? (void *)&f
                       : dtype == MGPU_F64  ? (void *)&d
                       : dtype == MGPU_BF16 ? (void *)&bf16
                       : dtype == MGPU_F16  ? (void *)&f16
                                            : (void *)&whole;
    memcpy(to, from, (size_t)mgpu_dtype_bytes(dtype));
}

static double number_at(const uint8_t *from, uint8_t dtype)
{
    float f;
    double d;
    uint16_t half;
    int64_t whole = 0;
    switch (dtype) {
    case MGPU_F32: return (double)*(float *)memcpy(&f, from, sizeof f);
    case MGPU_F64: return *(double *)memcpy(&d, from, sizeof d);
    case MGPU_BF16: return (double)mgpu_from_bf16(*(uint16_t *)memcpy(&half, from, sizeof half));
    case MGPU_F16: return (double)mgpu_from_f16(*(uint16_t *)memcpy(&half, from, sizeof half));
    default: memcpy(&whole, from, (size_t)mgpu_dtype_bytes(dtype)); return (double)whole;
    }
}

/* Returns the right result for an element. */
static int expected_at(const CudaCollective *c, const Operand *o, int64_t element)
{
    if (mgpu_transfer_row(o->participants.transfer)->adds)
        return sum_of(element, c->members);
    for (int d = 0; d < c->members; d++) {
        mgpu_range sent = mgpu_sent_by(&o->participants, o->count, d);
        if (element >= sent.begin && element < sent.end)
            return number_of(element, d, c->members);
    }
    return 0;
}

/* ---- one transfer */
/* Returns window w of the elements [begin, end). There are at most WINDOWS, which include the first and the last elements. */
static mgpu_range window_of(mgpu_range s, int w)
{
    int64_t count = s.end - s.begin, all = (count + WINDOW - 1) / WINDOW, windows = all < WINDOWS ? all : WINDOWS;
    if (w >= windows)
        return (mgpu_range){0, 0};
    int64_t begin = s.begin + (all <= WINDOWS ? (int64_t)w * WINDOW : (count - WINDOW) / (WINDOWS - 1) * w);
    if (all > WINDOWS && w == WINDOWS - 1)
        begin = s.end - WINDOW;
    return (mgpu_range){begin, begin + WINDOW < s.end ? begin + WINDOW : s.end};
}

static void copy_window(const CollectiveTrial *t, int member, const Operand *o, mgpu_range w, bool out)
{
    const CudaDevice *d = t->c->devices[member];
    int64_t each = mgpu_dtype_bytes(o->dtype);
    CUdeviceptr at = (CUdeviceptr)(uintptr_t)o->data + (CUdeviceptr)(w.begin * each);
    CUstream stream = d->stream[t->c->lane];
    size_t bytes = (size_t)((w.end - w.begin) * each);
    mgpu_cuda_enter(d, -1);
    mgpu_cuda_declare(d, t->c->lane, "a pattern of a transfer that is tried", NULL, -1);
    if (out)
        mgpu_cuda_check(d, -1, d->cuda->memcpy_dtoh_async(t->bytes, at, bytes, stream), "cuMemcpyDtoHAsync");
    else
        mgpu_cuda_check(d, -1, d->cuda->memcpy_htod_async(at, t->bytes, bytes, stream), "cuMemcpyHtoDAsync");
    mgpu_cuda_check(d, -1, d->cuda->stream_synchronize(stream), "cuStreamSynchronize");
}

/* Fills in zeros, and the member's numbers in the windows of what it sends. */
static void fill_operand(const CollectiveTrial *t, int member)
{
    const Operand *o = &t->operands[member];
    const CudaDevice *d = t->c->devices[member];
    int64_t each = mgpu_dtype_bytes(o->dtype);
    mgpu_range sent = mgpu_sent_by(&o->participants, o->count, member), whole = {0, o->count};
    mgpu_cuda_enter(d, -1);
    mgpu_cuda_declare(d, t->c->lane, "a transfer that is tried", NULL, -1);
    mgpu_cuda_check(
        d, -1, d->cuda->memset_d8_async((CUdeviceptr)(uintptr_t)o->data, 0, (size_t)(o->count * each), d->stream[t->c->lane]),
        "cuMemsetD8Async");
    for (int w = 0; w < WINDOWS; w++) {
        mgpu_range part = mgpu_overlap(window_of(whole, w), sent);
        for (int64_t i = part.begin; i < part.end; i++)
            set_number(t->bytes + (i - part.begin) * each, o->dtype, number_of(i, member, t->c->members));
        if (part.end > part.begin)
            copy_window(t, member, o, part, false);
    }
}

/* Returns NULL, or what is wrong. */
static char *check_operand(const CollectiveTrial *t, int member)
{
    const Operand *o = &t->operands[member];
    int64_t each = mgpu_dtype_bytes(o->dtype);
    mgpu_range received = mgpu_received_by(&o->participants, o->count, member), whole = {0, o->count};
    for (int w = 0; w < WINDOWS; w++) {
        mgpu_range part = mgpu_overlap(window_of(whole, w), received);
        if (part.end <= part.begin)
            continue;
        copy_window(t, member, o, part, true);
        for (int64_t i = part.begin; i < part.end; i++) {
            int right = expected_at(t->c, o, i);
            double found = number_at(t->bytes + (i - part.begin) * each, o->dtype);
            if (found == (double)right)
                continue;
            return mgpu_format("GPU %s gets %.17g as element %lld of %lld in the %s %s, where %d is right",
                               t->c->devices[member]->gpu->place, found, (long long)i, (long long)o->count,
                               mgpu_transfer_row(o->participants.transfer)->kind, o->name, right);
        }
    }
    return NULL;
}

/* ---- all transfers */
typedef struct TrialMember {
    CollectiveTrial *trial;
    int number;
    pthread_t thread;
} TrialMember;

/* Members synchronize with each other unless NCCL is used, so each has a thread. */
static void *exchange_one(void *argument)
{
    const TrialMember *m = argument;
    CudaCollective *c = m->trial->c;
    const CudaDevice *d = c->devices[m->number];
    mgpu_counter_wait(&m->trial->begun, 1);
    mgpu_device_cuda.async->waited_for(c->machine, &m->trial->begun, 1);
    if (!mgpu_cuda_exchange(&c->collective, m->number, &m->trial->operands[m->number]))
        mgpu_die("the devices disagree about a transfer that is tried");
    mgpu_cuda_check(d, -1, d->cuda->stream_synchronize(d->stream[c->lane]), "cuStreamSynchronize");
    return NULL;
}

static void exchange_all(CollectiveTrial *t)
{
    CudaCollective *c = t->c;
    TrialMember *members = mgpu_allocate((size_t)c->members, sizeof *members);
    mgpu_device_cuda.async->publish(c->machine, &t->begun, 1);
    mgpu_counter_set(&t->begun, 1);
    for (int d = 0; d < c->members; d++) {
        members[d] = (TrialMember){.trial = t, .number = d};
        mgpu_start_thread(&members[d].thread, exchange_one, &members[d]);
    }
    for (int d = 0; d < c->members; d++)
        pthread_join(members[d].thread, NULL);
    free(members);
}

static bool gathers(const mgpu_collective *x) { return mgpu_gathers(x->participants.transfer); }

static uint8_t implementation_of(const CudaCollective *c, const mgpu_collective *x)
{
    bool adds = mgpu_transfer_row(x->participants.transfer)->adds && !gathers(x);
    bool may = c->made[x->implementation] != MGPU_IMPLEMENTATION_NCCL || !adds || mgpu_nccl_adds(x->dtype);
    return may ? c->made[x->implementation] : MGPU_IMPLEMENTATION_HOST;
}

static bool is_one_shot(const CudaCollective *c, const mgpu_collective *x)
{
    return c->made[x->implementation] == MGPU_IMPLEMENTATION_ONE_SHOT &&
           mgpu_one_shot_takes(x->participants.transfer, x->dtype, x->count);
}

/* Returns NULL, or what is wrong, in all processes alike, so that none tries the next transfer without the others. Of gathered
 * sums (mgpu_gathers), the all-gather is tried. One-shot kernels send moments as they send sums, so a sum is tried. */
static char *try_transfer(CudaCollective *c, const mgpu_collective *x)
{
    Operand *operands = mgpu_allocate((size_t)c->members, sizeof *operands);
    int64_t parts[c->members + 1];
    CollectiveTrial t = {.c = c, .operands = operands, .bytes = c->window};
    char *why = NULL;
    for (int d = c->local.first; d < c->local.end; d++) {
        Operand o = {.name = x->name,
                     .data = (void *)(uintptr_t)c->devices[d]->arena,
                     .count = x->count,
                     .dtype = x->dtype,
                     .participants = x->participants,
                     .implementation = x->implementation};
        if (is_one_shot(c, x))
            o.participants.transfer = MGPU_TRANSFER_REDUCE;
        operands[d] = mgpu_gathers(o.participants.transfer) ? mgpu_cuda_codes_of(c, d, &o, parts) : o;
        fill_operand(&t, d);
    }
    const CudaDevice *first = c->devices[c->local.first], *last = c->devices[c->local.end - 1];
    char what[300];
    snprintf(what, sizeof what, "a transfer over %d devices (%s of %lld elements; GPUs %s to %s are here) is being tried",
             c->members, mgpu_transfer_row(x->participants.transfer)->kind, (long long)x->count, first->gpu->place,
             last->gpu->place);
    first->stage(first->owner, what);
    if (implementation_of(c, x) == MGPU_IMPLEMENTATION_NCCL)
        why = mgpu_nccl_of_any(c->processes, mgpu_nccl_try(c, operands));
    else
        exchange_all(&t);
    for (int d = c->local.first; d < c->local.end && !why; d++)
        why = check_operand(&t, d);
    free(operands);
    return mgpu_nccl_of_any(c->processes, why);
}

static int by_kind(const void *a, const void *b)
{
    const mgpu_collective *x = *(const mgpu_collective *const *)a, *y = *(const mgpu_collective *const *)b;
    const int64_t differences[] = {x->implementation - y->implementation,
                                   x->participants.transfer - y->participants.transfer,
                                   x->dtype - y->dtype,
                                   (x->count > y->count) - (x->count < y->count),
                                   x->participants.from - y->participants.from,
                                   x->participants.to - y->participants.to};
    for (int i = 0; i < MGPU_COUNT(differences); i++)
        if (differences[i])
            return differences[i] < 0 ? -1 : 1;
    return 0;
}

static bool is_tried(const CudaCollective *c, const mgpu_collective *x, const mgpu_collective *next)
{
    if (next && by_kind(&x, &next) == 0)
        return false;
    bool alike = next && next->implementation == x->implementation && next->participants.transfer == x->participants.transfer &&
                 next->dtype == x->dtype;
    return implementation_of(c, x) == MGPU_IMPLEMENTATION_NCCL || !alike;
}

static void clear_arenas(const CudaCollective *c, size_t bytes)
{
    for (int i = c->local.first; i < c->local.end; i++) {
        const CudaDevice *d = c->devices[i];
        mgpu_cuda_enter(d, -1);
        mgpu_cuda_declare(d, c->lane, "arenas are cleared", NULL, -1);
        if (bytes > 0)
            mgpu_cuda_check(d, -1, d->cuda->memset_d8_async(d->arena, 0, bytes, d->stream[c->lane]), "cuMemsetD8Async");
        mgpu_cuda_check(d, -1, d->cuda->stream_synchronize(d->stream[c->lane]), "cuStreamSynchronize");
    }
}

static void set_trying(const CudaCollective *c, bool tries)
{
    for (int d = c->local.first; d < c->local.end; d++)
        c->devices[d]->tries_transfer = tries;
}

char *mgpu_cuda_try(CudaCollective *c, const mgpu_plan *plan, uint8_t *implementation)
{
    int capacity = 0, count = 0;
    int64_t most = 0;
    char *why = NULL;
    for (int k = 0; k < plan->phase_count; k++)
        capacity += plan->phases[k].collective_count;
    const mgpu_collective **all = mgpu_allocate((size_t)capacity + 1, sizeof *all);
    for (int k = 0; k < plan->phase_count; k++)
        for (int i = 0; i < plan->phases[k].collective_count; i++)
            if (plan->phases[k].collectives[i].count > 0 && plan->phases[k].collectives[i].lane == c->lane)
                all[count++] = &plan->phases[k].collectives[i];
    if (count)
        qsort(all, (size_t)count, sizeof *all, by_kind);
    set_trying(c, true);
    if (count && !c->window)
        c->window = mgpu_device_cuda.async->locked(c->machine, WINDOW * (int64_t)sizeof(int64_t));
    for (int i = 0; i < count && !why; i++) {
        if (!is_tried(c, all[i], i + 1 < count ? all[i + 1] : NULL))
            continue;
        *implementation = implementation_of(c, all[i]);
        why = try_transfer(c, all[i]);
        int64_t own = gathers(all[i]) && !is_one_shot(c, all[i]) ? 0 : all[i]->count * mgpu_dtype_bytes(all[i]->dtype);
        most = own > most ? own : most;
    }
    if (count && !why) {
        clear_arenas(c, (size_t)most);
        mgpu_device_cuda.async->unlock(c->machine, c->window);
        c->window = NULL;
    }
    set_trying(c, false);
    free(all);
    return why;
}
