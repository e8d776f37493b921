/* connect.c: opens the collective of GPUs: decides which implementations (collective.c) are possible here, and allocates what
 * they need. In: the plan, which asks for an implementation of each transfer and has its size; out: events, kernels, memory and
 * NCCL's communicator, each created once, and a trial of the transfers. */
#include "runtime/abi/mgpu_one_shot.h"
#include "runtime/abi/mgpu_rounds.h"
#include "runtime/base/base.h"
#include "runtime/cuda/collective.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const char *const ADD_NAME[ADD_FUNCTIONS] = {"mgpu_sum_f32", "mgpu_sum_f64", "mgpu_sum_u8",   "mgpu_sum_u16",
                                                    "mgpu_sum_u32", "mgpu_sum_u64", "mgpu_sum_bf16", "mgpu_sum_f16"};

static const char *const CODE_NAME[CODE_FUNCTIONS] = {"mgpu_encode_f32", "mgpu_add_f32",     "mgpu_encode_f64",
                                                      "mgpu_add_f64",    "mgpu_put_moments", "mgpu_add_moments"};

static bool gathers(const mgpu_collective *x) { return mgpu_gathers(x->participants.transfer); }

/* A single device has the whole sum. */
static bool exchange_of_one(Collective *base, int member, const Operand *o)
{
    (void)base, (void)member, (void)o;
    return true;
}
static CUevent new_event(const CudaDevice *d)
{
    CUevent event = NULL;
    mgpu_cuda_enter(d, -1);
    mgpu_cuda_check(d, -1, d->cuda->event_create(&event, CU_EVENT_DISABLE_TIMING), "cuEventCreate");
    return event;
}

/* Returns the bytes of the largest transfer that goes through the host: all that use this implementation, and types that the
 * others cannot add. */
static int64_t largest_through_host(const CudaCollective *c, const mgpu_plan *plan)
{
    static bool (*const ADDS[MGPU_IMPLEMENTATIONS])(uint8_t dtype) = {
        [MGPU_IMPLEMENTATION_COPY] = mgpu_cuda_adds,    [MGPU_IMPLEMENTATION_PEER] = mgpu_cuda_adds,
        [MGPU_IMPLEMENTATION_NCCL] = mgpu_nccl_adds,    [MGPU_IMPLEMENTATION_RING] = mgpu_cuda_adds,
        [MGPU_IMPLEMENTATION_TREE] = mgpu_cuda_adds,    [MGPU_IMPLEMENTATION_DEVICE] = mgpu_cuda_adds,
        [MGPU_IMPLEMENTATION_ONE_SHOT] = mgpu_cuda_adds};
    int64_t largest = 0;
    for (int k = 0; k < plan->phase_count; k++)
        for (int i = 0; i < plan->phases[k].collective_count; i++) {
            const mgpu_collective *x = &plan->phases[k].collectives[i];
            bool (*adds)(uint8_t) = ADDS[c->made[x->implementation]];
            int64_t whole =
                gathers(x) ? plan->devices * mgpu_gathered_bytes(x->participants.transfer, x->count, mgpu_dtype_bytes(x->dtype))
                           : x->count * mgpu_dtype_bytes(x->dtype);
            int64_t bytes = x->lane == c->lane ? whole : 0;
            if (!adds || (mgpu_transfer_row(x->participants.transfer)->adds && !adds(x->dtype)))
                largest = bytes > largest ? bytes : largest;
        }
    return largest;
}

static void open_events(CudaCollective *c)
{
    c->barriers = mgpu_allocate((size_t)c->members, sizeof *c->barriers);
    c->operand = mgpu_allocate((size_t)c->members, sizeof *c->operand);
    for (int k = 0; k < MGPU_COUNT(c->arrival_events); k++) {
        c->arrival_events[k] = mgpu_allocate((size_t)c->members, sizeof *c->arrival_events[k]);
        for (int d = 0; d < c->members; d++)
            c->arrival_events[k][d] = new_event(c->devices[d]);
    }
}

static void open_kernels(CudaCollective *c)
{
    c->add_function = mgpu_allocate((size_t)c->members, sizeof *c->add_function);
    for (int d = 0; d < c->members; d++)
        for (int i = 0; i < ADD_FUNCTIONS; i++)
            c->add_function[d][i] = mgpu_cuda_function(c->devices[d], c->exact ? mgpu_tree_name(i) : ADD_NAME[i]);
}

/* Returns the maximum of `bytes` over the collectives of a lane. */
static int64_t most_bytes(const mgpu_plan *plan, int lane, int64_t (*bytes)(const mgpu_participants *, int64_t, int64_t, int))
{
    int64_t most = 0;
    for (int k = 0; k < plan->phase_count; k++)
        for (int i = 0; i < plan->phases[k].collective_count; i++) {
            const mgpu_collective *c = &plan->phases[k].collectives[i];
            int64_t own = c->lane == lane ? bytes(&c->participants, c->count, mgpu_dtype_bytes(c->dtype), plan->devices) : 0;
            most = own > most ? own : most;
        }
    return most;
}

static bool wants(const mgpu_plan *plan, int lane, uint8_t implementation)
{
    for (int k = 0; k < plan->phase_count; k++)
        for (int i = 0; i < plan->phases[k].collective_count; i++)
            if (plan->phases[k].collectives[i].implementation == implementation && plan->phases[k].collectives[i].lane == lane)
                return true;
    return false;
}

/* made: the implementation of each way of the plan */
static int64_t scratch_bytes(const mgpu_plan *plan, int lane, const uint8_t made[MGPU_IMPLEMENTATIONS])
{
    int64_t most = 0;
    for (uint8_t implementation = 0; implementation < MGPU_IMPLEMENTATIONS; implementation++) {
        int64_t bytes = wants(plan, lane, implementation) ? mgpu_implementation_bytes(made[implementation], plan->devices,
                                                                                      most_bytes(plan, lane, mgpu_slice_bytes))
                                                          : 0;
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
    c->merge = mgpu_allocate((size_t)c->members, sizeof *c->merge);
    for (int d = c->local.first; d < c->local.end; d++) {
        mgpu_cuda_enter(c->devices[d], -1);
        c->codes[d] =
            mgpu_cuda_allocate(c->devices[d], bytes, bytes, "besides its arena, what devices gather to add it up takes");
        c->devices[d]->outside_arena_bytes += bytes;
        for (int i = 0; i < CODE_FUNCTIONS; i++)
            c->code[d][i] = mgpu_cuda_function(c->devices[d], CODE_NAME[i]);
        if (c->exact)
            c->merge[d] = mgpu_cuda_function(c->devices[d], mgpu_tree_name(mgpu_tree_function(MGPU_MOMENTS)));
    }
}

/* Returns the bytes of the largest value that a single kernel exchanges. */
static int64_t one_shot_value(const mgpu_plan *plan, int lane, const uint8_t made[MGPU_IMPLEMENTATIONS])
{
    int64_t most = 0;
    for (int k = 0; k < plan->phase_count; k++)
        for (int i = 0; i < plan->phases[k].collective_count; i++) {
            const mgpu_collective *x = &plan->phases[k].collectives[i];
            int64_t bytes = x->count * mgpu_dtype_bytes(x->dtype);
            if (x->lane == lane && made[x->implementation] == MGPU_IMPLEMENTATION_ONE_SHOT &&
                mgpu_one_shot_takes(x->participants.transfer, x->dtype, x->count))
                most = bytes > most ? bytes : most;
        }
    return most;
}

static void open_scratch(CudaCollective *c, const mgpu_plan *plan)
{
    int64_t bytes = scratch_bytes(plan, c->lane, c->made);
    if (!bytes)
        return;
    c->scratch = mgpu_allocate((size_t)c->members, sizeof *c->scratch);
    c->scratch_bytes = bytes;
    for (int d = 0; d < c->members; d++) {
        mgpu_cuda_enter(c->devices[d], -1);
        c->scratch[d] = mgpu_cuda_allocate(c->devices[d], bytes, bytes,
                                           "besides its arena, the all-reduces by copies (MGPU_COLLECTIVE=host needs none) take");
        c->devices[d]->outside_arena_bytes += bytes;
    }
}

static bool is_by_nccl(const CudaCollective *c, const mgpu_collective *x)
{
    bool adds = mgpu_transfer_row(x->participants.transfer)->adds && !gathers(x);
    return x->lane == c->lane && c->made[x->implementation] == MGPU_IMPLEMENTATION_NCCL && (!adds || mgpu_nccl_adds(x->dtype));
}

static bool may_be_captured(const Collective *base, const mgpu_collective *x)
{
    const CudaCollective *c = (const CudaCollective *)base;
    bool by_kernel = x->lane == c->lane && c->made[x->implementation] == MGPU_IMPLEMENTATION_ONE_SHOT &&
                     mgpu_one_shot_takes(x->participants.transfer, x->dtype, x->count);
    return by_kernel || (is_by_nccl(c, x) && mgpu_nccl_is_captured(c));
}

/* for sums that go through the host */
static void open_memory(CudaCollective *c, int64_t largest)
{
    for (int d = 0; d < c->members && largest > 0; d++)
        c->memory[d] = mgpu_device_cuda.async->locked(c->machine, largest);
}

static void close_implementations(CudaCollective *c)
{
    for (int i = c->local.first; i < c->local.end; i++) {
        const CudaDevice *d = c->devices[i];
        mgpu_cuda_enter(d, -1);
        if (c->memory[i])
            mgpu_device_cuda.async->unlock(c->machine, c->memory[i]);
        c->memory[i] = NULL;
        mgpu_cuda_enter(d, -1);
        if (c->scratch)
            mgpu_cuda_check(d, -1, d->cuda->mem_free(c->scratch[i]), "cuMemFree");
        c->devices[i]->outside_arena_bytes -= c->scratch_bytes;
    }
    mgpu_one_shot_close(c);
    free(c->scratch);
    c->scratch = NULL;
    c->scratch_bytes = 0;
}

static void close_collective(Collective *base)
{
    CudaCollective *c = (CudaCollective *)base;
    mgpu_nccl_close(c);
    close_implementations(c);
    for (int i = c->local.first; i < c->local.end; i++) {
        const CudaDevice *d = c->devices[i];
        mgpu_cuda_enter(d, -1);
        for (int k = 0; k < MGPU_COUNT(c->arrival_events) && c->arrival_events[k]; k++)
            mgpu_cuda_check(d, -1, d->cuda->event_destroy(c->arrival_events[k][i]), "cuEventDestroy");
        if (c->codes)
            mgpu_cuda_check(d, -1, d->cuda->mem_free(c->codes[i]), "cuMemFree");
    }
    if (c->reduction)
        mgpu_reduction_close(c->reduction);
    free(c->memory);
    free(c->add_function);
    free(c->code);
    free(c->merge);
    free(c->codes);
    free(c->arrival_events[0]);
    free(c->arrival_events[1]);
    free(c->barriers);
    free(c->operand);
    free(c->remark);
    free(c->names);
    free(c);
}

/* Returns MGPU_COLLECTIVE; AUTO if it is not set. */
static uint8_t read_implementation(void)
{
    const char *value = getenv("MGPU_COLLECTIVE");
    for (int i = 0; value && *value && i < MGPU_IMPLEMENTATIONS; i++)
        if (strcmp(value, mgpu_implementation_name(i)) == 0)
            return (uint8_t)i;
    if (value && *value)
        mgpu_fail(MGPU_BAD_USAGE,
                  "MGPU_COLLECTIVE is auto, nccl, peer, copy, one-shot, host, ring, tree, device or server, not '%s'", value);
    return MGPU_IMPLEMENTATION_AUTO;
}

/* Returns why it is impossible, or NULL if it is open. */
static char *open_nccl(CudaCollective *c, bool shared) { return c->nccl ? NULL : mgpu_nccl_open(c, shared); }

static void forced_fails(const char *why) { mgpu_fail(MGPU_MACHINE_FAILED, "MGPU_COLLECTIVE=%s", why); }

static bool wishes_nccl(uint8_t wanted, bool shared)
{
    return wanted == MGPU_IMPLEMENTATION_NCCL || (wanted == MGPU_IMPLEMENTATION_AUTO && !shared);
}

bool mgpu_cuda_may_use_nccl(const DeviceSet *m, const mgpu_plan *plan)
{
    uint8_t forced = read_implementation();
    bool any = m->count > m->local.end - m->local.first; /* there are other processes */
    for (uint8_t implementation = 0; implementation < MGPU_IMPLEMENTATIONS && plan->devices > 1; implementation++)
        any = any || (wants(plan, MGPU_COMM, implementation) && wishes_nccl(forced ? forced : implementation, m->shared));
    return any;
}

/* Returns the implementation to use, if all links are good. */
static uint8_t choose_implementation(CudaCollective *c, uint8_t wanted, bool forced, bool shared, bool reach)
{
    bool may = c->lane == MGPU_COMM; /* two NCCL kernels at the same time may deadlock */
    if (may && wishes_nccl(wanted, shared) && !c->barred[MGPU_IMPLEMENTATION_NCCL]) {
        char *why = open_nccl(c, shared);
        if (!why)
            return MGPU_IMPLEMENTATION_NCCL;
        if (forced)
            forced_fails(mgpu_format("nccl: %s", why));
        if (!c->remark)
            c->remark = mgpu_format("no NCCL (%s)", why);
        c->barred[MGPU_IMPLEMENTATION_NCCL] = true; /* it is not tried again for another way of the plan */
        free(why);
    }
    if (c->links.apart && forced)
        forced_fails(
            mgpu_format("%s: slices of GPUs (MIG) reach each other through the host alone: MGPU_COLLECTIVE=host, or nothing",
                        mgpu_implementation_name(wanted)));
    if (c->links.apart)
        return MGPU_IMPLEMENTATION_HOST;
    if (wanted == MGPU_IMPLEMENTATION_PEER && forced && !reach)
        forced_fails("peer: the GPUs cannot reach each other's memory; copy works without that");
    uint8_t implementation = mgpu_has_rounds(wanted)                        ? wanted
                             : wanted == MGPU_IMPLEMENTATION_COPY || !reach ? MGPU_IMPLEMENTATION_COPY
                                                                            : MGPU_IMPLEMENTATION_PEER;
    implementation = c->barred[implementation] ? MGPU_IMPLEMENTATION_COPY : implementation;
    return c->barred[implementation] ? MGPU_IMPLEMENTATION_HOST : implementation;
}

/* one_shot.c says why not on the lane sync, nor if devices share a GPU. */
static bool may_be_one_shot(CudaCollective *c, bool forced, bool shared, bool reach)
{
    if (forced && c->lane == MGPU_COMM && (!reach || shared))
        forced_fails(mgpu_format("one-shot: %s", shared ? "two devices share a GPU; peer works with that"
                                                        : "the GPUs cannot reach each other's memory; copy works without that"));
    return c->lane == MGPU_COMM && reach && !shared && !c->links.apart && !c->barred[MGPU_IMPLEMENTATION_ONE_SHOT];
}

/* Others than the host, copies and kernels of ours add in orders of their own. */
static uint8_t implementation_of_exact(const CudaCollective *c, uint8_t wanted)
{
    bool ours = wanted == MGPU_IMPLEMENTATION_HOST || wanted == MGPU_IMPLEMENTATION_SERVER || wanted == MGPU_IMPLEMENTATION_COPY;
    return c->exact && !ours ? MGPU_IMPLEMENTATION_PEER : wanted;
}

static void choose_implementations(CudaCollective *c, const mgpu_plan *plan, uint8_t forced)
{
    bool shared = c->machine->shared;
    CudaLinks links = c->links;
    if (links.bad && forced != MGPU_IMPLEMENTATION_HOST && c->lane == MGPU_COMM)
        c->remark = mgpu_format("%d of %d links between GPUs bad", links.bad, links.count);
    for (uint8_t implementation = 0; implementation < MGPU_IMPLEMENTATIONS; implementation++) {
        uint8_t wanted = implementation_of_exact(c, forced ? forced : implementation);
        if (links.bad || wanted == MGPU_IMPLEMENTATION_HOST || wanted == MGPU_IMPLEMENTATION_SERVER)
            c->made[implementation] = MGPU_IMPLEMENTATION_HOST;
        else if (wants(plan, c->lane, implementation))
            c->made[implementation] = wanted != MGPU_IMPLEMENTATION_ONE_SHOT
                                          ? choose_implementation(c, wanted, forced, shared, links.peer_access)
                                      : may_be_one_shot(c, forced, shared, links.peer_access)
                                          ? MGPU_IMPLEMENTATION_ONE_SHOT
                                          : choose_implementation(c, forced ? MGPU_IMPLEMENTATION_PEER : MGPU_IMPLEMENTATION_AUTO,
                                                                  false, shared, links.peer_access);
    }
}

static const char *made_by(const Collective *base, uint8_t implementation)
{
    const CudaCollective *c = (const CudaCollective *)base;
    return c->made[implementation] == MGPU_IMPLEMENTATION_NCCL ? mgpu_nccl_name(c)
                                                               : mgpu_implementation_name(c->made[implementation]);
}

/* Lists the implementations of the plan's transfers, each once. */
static char *name_implementations(const CudaCollective *c, const mgpu_plan *plan)
{
    bool used[MGPU_IMPLEMENTATIONS] = {false};
    char *names = mgpu_format("%s", "");
    for (uint8_t implementation = 0; implementation < MGPU_IMPLEMENTATIONS; implementation++)
        used[c->made[implementation]] |= wants(plan, c->lane, implementation);
    for (uint8_t implementation = MGPU_IMPLEMENTATIONS - 1; implementation > MGPU_IMPLEMENTATION_AUTO; implementation--) {
        if (!used[implementation])
            continue;
        char *longer = mgpu_format("%s%s%s", names, *names ? ", " : "",
                                   implementation == MGPU_IMPLEMENTATION_NCCL ? mgpu_nccl_name(c)
                                                                              : mgpu_implementation_name(implementation));
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
    uint8_t forced = read_implementation(), made[MGPU_IMPLEMENTATIONS];
    for (uint8_t implementation = 0; implementation < MGPU_IMPLEMENTATIONS; implementation++)
        made[implementation] = forced ? forced : implementation;
    int64_t bytes = 0;
    for (int lane = 0; lane < MGPU_LANES; lane++)
        bytes += mgpu_lane_transfers(lane) ? scratch_bytes(plan, lane, made) + most_bytes(plan, lane, mgpu_codes_bytes) +
                                                 mgpu_one_shot_bytes(one_shot_value(plan, lane, made), plan->devices)
                                           : 0;
    return bytes;
}

/* Chooses the implementations and allocates what they need. */
static void open_implementations(CudaCollective *c, const mgpu_plan *plan, uint8_t forced)
{
    choose_implementations(c, plan, forced);
    open_scratch(c, plan);
    mgpu_one_shot_open(c, one_shot_value(plan, c->lane, c->made));
    open_memory(c, largest_through_host(c, plan));
}

static void open_for_processes(CudaCollective *c)
{
    char *why = mgpu_nccl_open(c, c->machine->shared);
    if (why)
        mgpu_fail(MGPU_MACHINE_FAILED, "several processes transfer by NCCL: %s", why);
}

/* NCCL makes all transfers and needs nothing of the other implementations. */
static void connect_processes(CudaCollective *c, const mgpu_plan *plan, uint8_t forced)
{
    if (forced != MGPU_IMPLEMENTATION_AUTO && forced != MGPU_IMPLEMENTATION_NCCL)
        mgpu_fail(
            MGPU_BAD_USAGE,
            "MGPU_COLLECTIVE=%s is for the GPUs of one process; several transfer by NCCL: leave it out, or start one process",
            mgpu_implementation_name(forced));
    if (c->lane != MGPU_COMM)
        mgpu_fail(
            MGPU_BAD_USAGE,
            "several processes transfer by NCCL, on the lane comm alone, and the plan has transfers on the lane sync; compile with --plan auto,waited=comm");
    if (c->machine->shared && forced != MGPU_IMPLEMENTATION_NCCL)
        mgpu_fail(
            MGPU_BAD_USAGE,
            "two devices share a GPU, and NCCL, by which several processes transfer, takes one for each; start one process, or fewer devices; "
            "MGPU_COLLECTIVE=nccl tries it with an NCCL that may take them");
    c->links = mgpu_cuda_links(c, false);
    open_for_processes(c);
    memset(c->made, MGPU_IMPLEMENTATION_NCCL, sizeof c->made);
    open_codes(c, plan);
    if (largest_through_host(c, plan))
        mgpu_fail(MGPU_BAD_USAGE,
                  "several processes transfer by NCCL, which adds no numbers of 16 bits that are whole; start one process");
}

static void connect_part(CudaCollective *c, const mgpu_plan *plan, uint8_t forced, const CudaCollective *beside)
{
    if (c->members > MGPU_MOST_MEMBERS)
        mgpu_fail(MGPU_MACHINE_FAILED,
                  "all-reduces over more than %d GPUs of one process are not supported; mgpuc --mpi makes a program of several",
                  MGPU_MOST_MEMBERS);
    c->reduction = mgpu_reduction_open(plan->devices);
    open_events(c);
    if (forced != MGPU_IMPLEMENTATION_HOST)
        open_kernels(c);
    c->links = beside ? beside->links : mgpu_cuda_links(c, forced != MGPU_IMPLEMENTATION_HOST);
    open_codes(c, plan);
    open_implementations(c, plan, forced);
}

static void say_failed(uint8_t implementation, const CudaCollective *c, const char *why)
{
    bool nccl = implementation == MGPU_IMPLEMENTATION_NCCL;
    mgpu_say("%s: warning: transfers by %s fail: %s; the next way is tried%s%s", program_invocation_short_name,
             nccl ? mgpu_nccl_name(c) : mgpu_implementation_name(implementation), why, nccl ? "; " : "",
             nccl ? mgpu_nccl_cure(why) : "");
}

/* NVLink's switches may be the cause. All processes stop using them. */
static void open_without_switches(CudaCollective *c, const mgpu_plan *plan, uint8_t forced, const char *why)
{
    char *whole = mgpu_format("transfers by %s fail: %s", mgpu_nccl_name(c), why);
    mgpu_nccl_explain(c, whole);
    free(whole);
    mgpu_nccl_drop(c);
    c->no_switches = true;
    if (c->processes) {
        open_for_processes(c);
        return;
    }
    close_implementations(c);
    open_implementations(c, plan, forced);
}

/* Tries implementations until one gives right results: NCCL, NCCL without NVLink's switches, peer, copy, host. */
static void try_implementations(CudaCollective *c, const mgpu_plan *plan, uint8_t forced)
{
    uint8_t implementation = MGPU_IMPLEMENTATION_AUTO;
    for (char *why; (why = mgpu_cuda_try(c, plan, &implementation)); free(why)) {
        bool nccl = implementation == MGPU_IMPLEMENTATION_NCCL;
        if (nccl && mgpu_nccl_has_switches(c)) {
            open_without_switches(c, plan, forced, why);
            continue;
        }
        if (c->processes)
            mgpu_fail(MGPU_MACHINE_FAILED, "several processes transfer by %s, and it fails: %s; %s", mgpu_nccl_name(c), why,
                      mgpu_nccl_cure(why));
        if (forced || implementation == MGPU_IMPLEMENTATION_HOST)
            mgpu_fail(MGPU_MACHINE_FAILED, "transfers by %s fail: %s%s%s",
                      nccl ? mgpu_nccl_name(c) : mgpu_implementation_name(implementation), why, nccl ? "; " : "",
                      nccl ? mgpu_nccl_cure(why) : "");
        say_failed(implementation, c, why);
        c->barred[implementation] = true;
        if (nccl)
            c->remark = c->remark ? c->remark : mgpu_format("no %s, which fails", mgpu_nccl_name(c));
        if (nccl)
            mgpu_nccl_drop(c);
        close_implementations(c);
        open_implementations(c, plan, forced);
    }
}

Collective *mgpu_cuda_connect(DeviceSet *m, Device **devices, const mgpu_plan *plan, Processes *processes, Collective *beside)
{
    CudaCollective *c = mgpu_allocate(1, sizeof *c);
    uint8_t forced = read_implementation();
    *c = (CudaCollective){.machine = m,
                          .devices = (CudaDevice **)devices,
                          .members = plan->devices,
                          .lane = beside ? MGPU_SYNC : MGPU_COMM,
                          .exact = ((CudaDevice **)devices)[m->local.first]->program->exact > 0,
                          .local = m->local,
                          .processes = processes,
                          .memory = mgpu_allocate((size_t)plan->devices, sizeof(void *))};
    c->collective.close = close_collective;
    if (c->exact && implementation_of_exact(c, forced) != forced && forced != MGPU_IMPLEMENTATION_AUTO)
        mgpu_fail(
            MGPU_BAD_USAGE,
            "MGPU_COLLECTIVE=%s: sums of an exact program are a fixed tree, which peer, copy and host make; leave it out, or name one of these",
            mgpu_implementation_name(forced));
    if (c->members == 1) {
        c->collective.transfer = exchange_of_one;
        c->collective.name = "none";
        return &c->collective;
    }
    if (processes)
        connect_processes(c, plan, forced);
    else
        connect_part(c, plan, forced, (CudaCollective *)beside);
    try_implementations(c, plan, forced);
    c->names = name_implementations(c, plan);
    c->collective.transfer = mgpu_cuda_exchange;
    c->collective.made_by = made_by;
    c->collective.may_be_captured = may_be_captured;
    c->collective.name = c->names;
    c->collective.remark = c->remark;
    return &c->collective;
}
