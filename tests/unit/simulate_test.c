/* simulate_test.c: the simulation of schedules: flows that share links, schedules made by hand whose times are known, and what
 * must hold for every schedule: random ones on several machines. */
#include "compiler/simulate/simulate.h"
#include "tests/unit/random_phase.h"

#include <math.h>
#include <stdlib.h>

static int failures;

static void check(bool good, const char *what)
{
    printf("%s %s\n", good ? "ok" : "not ok", what);
    failures += !good;
}

static bool near(double a, double b) { return fabs(a - b) <= 1e-6 * (fabs(b) + 1); }

/* ---- flows: links of 10 and 3 bytes a microsecond */
static void flows(void)
{
    static const double RATES[] = {10, 3};
    static const Load FIRST[] = {{0, 100}}, BOTH[] = {{0, 30}, {1, 30}}, SECOND[] = {{1, 30}};
    Flows *f = flows_new(RATES, 2);
    flows_start(f, 0, FIRST, 1, 10, 1);
    check(near(flows_next(f), 10), "a flow alone has the whole link");
    flows_start(f, 5, FIRST, 1, 10, 2);
    check(near(flows_next(f), 15) && flows_end(f, 15) == 1 && flows_end(f, 15) == -1, "two flows have half of it each");
    check(near(flows_next(f), 20) && flows_end(f, flows_next(f)) == 2 && isinf(flows_next(f)), "what is left has it again");
    f = flows_new(RATES, 2);
    flows_start(f, 0, FIRST, 1, 10, 1);
    flows_start(f, 0, BOTH, 2, 10, 2);
    check(near(flows_next(f), 10) && flows_end(f, flows_next(f)) == 2, "a flow is as fast as its slowest link");
    check(near(flows_next(f), 10 + 30 / 10.0), "what it does not use of the other, others use");
    f = flows_new(RATES, 2);
    flows_start(f, 0, SECOND, 1, 40, 1);
    flows_start(f, 0, SECOND, 1, 10, 2);
    check(near(flows_next(f), 30 / 2.25) && flows_end(f, flows_next(f)) == 2 && near(flows_next(f), 40),
          "a flow is not faster than alone");
}

/* ---- schedules made by hand */
static const char MACHINE[] =
    "machine hand\ndevices 2\nbandwidth * 1TB/s\nmemory * 1GiB\narithmetic * f32 10TFLOP/s\nswitch s\nlink * s 1GB/s\n"
    "link s host 1GB/s\nlaunch * 2us\nevent * 3us\nhost cores 2\nhost bandwidth 1TB/s\nhost arithmetic f32 10GFLOP/s\nhost disk 1GB/s\n";

static const Machine *hand(void) { return machine_read("m", MACHINE, strlen(MACHINE)); }

/* `ops` for each of the devices, with % for the device's number */
static Schedule *schedule_of(int devices, const char *ops, const char *collectives)
{
    Text t = {0};
    text_add(&t, "mgpu-schedule 2\nmodel m precision f32 batch %d accumulate 1 devices %d\nkernel k0\nphase train.full\n",
             devices, devices);
    for (int d = 0; d < devices; d++)
        text_add(&t, "device %d name \"cuda\" arena 1000000 work 0 staging 1000000 samples %d..%d capacity 1\n", d, d, d + 1);
    static const char BUFFERS[] = "buffer d%.stage kind staging offset 0 bytes 100000 slots 2 each 100000 index 0 type f32\n"
                                  "buffer d%.in kind input offset 0 bytes 100000 slots 2 each 100000 index 0 type f32\n"
                                  "buffer d%.b kind bucket offset 500000 bytes 40000 type f32\n";
    for (int d = 0; d < devices; d++)
        for (const char *at = format("%s%s", BUFFERS, ops); *at; at++)
            if (*at == '%')
                text_add(&t, "%d", d);
            else
                text_add(&t, "%c", *at);
    text_add(&t, "%s", collectives);
    return schedule_read("hand", text_of(&t));
}

static Simulation *simulate_on(const Machine *m, int devices, const char *ops, const char *collectives, Processor p,
                               double slower)
{
    Schedule *s = schedule_of(devices, ops, collectives);
    DeviceSchedule *last = &s->phases[0].devices[devices - 1];
    for (int i = 0; i < last->op_count; i++)
        last->ops[i].time_us += last->ops[i].verb == VERB_CALL ? slower : 0;
    SimulationInput in = {.schedule = s, .machine = m, .processor = p};
    return simulate_step(&in);
}

static Simulation *simulate_hand(int devices, const char *ops, const char *collectives, Processor p, double slower)
{
    return simulate_on(hand(), devices, ops, collectives, p, slower);
}

/* host devices: all-reduces of 40 kB, which read and write 160 kB at 1 TB/s: 0.16 us, or send 40 kB at 1 GB/s: 40 us */
static void host_devices(void)
{
    static const char SUM[] = "collective r0 group all members d0.m0 d1.m0 kind all-reduce bytes 40000 dtype f32 via host\n";
    static const char WAITED[] =
        "op d%.c0 lane comp call k0 region 0 writes d%.b digest 00000000 begin_us 0.0 time_us 100.0 line 0\n"
        "op d%.m0 lane comm reduce r0 reads d%.b writes d%.b waits d%.c0 begin_us 0.0 time_us 0.0 line 0\n"
        "op d%.c1 lane comp call k0 region 1 reads d%.b waits d%.m0 digest 00000000 begin_us 0.0 time_us 10.0 line 0\n";
    static const char BESIDE[] =
        "op d%.c0 lane comp call k0 region 0 writes d%.b digest 00000000 begin_us 0.0 time_us 100.0 line 0\n"
        "op d%.m0 lane comm reduce r0 reads d%.b writes d%.b waits d%.c0 begin_us 0.0 time_us 0.0 line 0\n"
        "op d%.c1 lane comp call k0 region 1 digest 00000000 begin_us 0.0 time_us 10.0 line 0\n"
        "op d%.c2 lane comp call k0 region 2 reads d%.b waits d%.m0 digest 00000000 begin_us 0.0 time_us 10.0 line 0\n";
    const char *meets = format("%shost step 7us\nhost meeting 30us\nhost idle-meeting 20us\n", MACHINE);
    const Machine *m = machine_read("m", meets, strlen(meets));
    Simulation *s = simulate_on(m, 2, WAITED, SUM, PROCESSOR_HOST, 0);
    check(near(s->step_us, 7 + 100 + 20.16 + 10), "a step takes its own time, and host devices that wait meet sooner");
    s = simulate_on(m, 2, BESIDE, SUM, PROCESSOR_HOST, 0);
    check(near(s->step_us, 7 + 100 + 30.16 + 10), "than those that compute");
    const char *slow = format("%shost link 1GB/s\n", meets);
    s = simulate_on(machine_read("m", slow, strlen(slow)), 2, BESIDE, SUM, PROCESSOR_HOST, 0);
    check(near(s->step_us, 7 + 100 + 30 + 40 + 10), "a link that is slower than memory takes its time");
    s = simulate_on(m, 4, "op d%.c0 lane comp call k0 region 0 digest 00000000 begin_us 0.0 time_us 100.0 line 0\n", "",
                    PROCESSOR_HOST, 0);
    check(near(s->step_us, 14 + 100), "twice as many devices as cores wait for each other's lanes");
}

static void by_hand(void)
{
    static const char INPUT[] =
        "op d%.h0 lane host read - writes d%.stage waits d%.u0@-2 begin_us 0.0 time_us 50.0 line 0\n"
        "op d%.u0 lane copy upload - reads d%.stage writes d%.in waits d%.h0 d%.c0@-2 begin_us 0.0 time_us 5.0 line 0\n"
        "op d%.c0 lane comp call k0 region 0 reads d%.in waits d%.u0 digest 00000000 begin_us 0.0 time_us 80.0 line 0\n";
    Simulation *s = simulate_hand(1, INPUT, "", PROCESSOR_HOST, 0);
    check(s->steady && near(s->step_us, 80) && near(s->devices[0].lanes[LANE_COMP].busy_us, 80),
          "reading ahead is hidden by computing");
    const LaneUse *host = &s->devices[0].lanes[LANE_HOST];
    check(near(host->busy_us, 50) && near(host->idle_us[CAUSE_COMPUTATION], 25) && near(host->idle_us[CAUSE_UPLOAD], 5),
          "the reader waits for slots, which computation frees");
    s = simulate_hand(1, INPUT, "", PROCESSOR_HOST, -50);
    check(near(s->step_us, 50) && near(s->devices[0].lanes[LANE_COMP].idle_us[CAUSE_INPUT], 15) &&
              near(s->devices[0].lanes[LANE_COMP].idle_us[CAUSE_UPLOAD], 5),
          "computation waits for the reader");
    s = simulate_hand(1, INPUT, "", PROCESSOR_CUDA, -75);
    check(near(s->step_us, 100) && near(s->devices[0].lanes[LANE_COMP].idle_us[CAUSE_UPLOAD], 95),
          "computation waits for an upload");
    s = simulate_hand(2, INPUT, "", PROCESSOR_CUDA, -75);
    check(near(s->step_us, 200) && near(s->peak[4], 0) && near(s->peak[5], 1), "two uploads share the link to the switch");
    check(near(s->link_bytes[5], 200000) && near(s->link_bytes[1], 100000) && near(s->link_bytes[0], 0),
          "bytes of each link and direction");

    static const char REDUCE[] =
        "op d%.c0 lane comp call k0 region 0 writes d%.b digest 00000000 begin_us 0.0 time_us 100.0 line 0\n"
        "op d%.m0 lane comm reduce r0 reads d%.b writes d%.b waits d%.c0 begin_us 0.0 time_us 0.0 line 0\n"
        "op d%.c1 lane comp call k0 region 1 reads d%.b waits d%.m0 digest 00000000 begin_us 0.0 time_us 10.0 line 0\n";
    static const char SUM[] = "collective r0 group all members d0.m0 d1.m0 kind all-reduce bytes 40000 dtype f32 via nccl\n";
    Members members = members_of(hand(), PROCESSOR_CUDA, 1, 2);
    Method method;
    double sum =
        cost_cheapest(&members, methods_of_implementation(&members, MGPU_IMPLEMENTATION_NCCL), COLLECT_ALL_REDUCE, 40000, &method)
            .us;
    s = simulate_hand(2, REDUCE, SUM, PROCESSOR_CUDA, 0);
    check(near(s->step_us, 110 + sum) && near(s->devices[0].lanes[LANE_COMP].idle_us[CAUSE_COMMUNICATION], sum),
          "an all-reduce that is waited for is exposed");
    check(near(s->link_bytes[0], 40000) && near(s->link_bytes[1], 40000) && near(s->link_bytes[4] + s->link_bytes[5], 0),
          "2 (n - 1) / n of its bytes cross each link");
    s = simulate_hand(2, REDUCE, SUM, PROCESSOR_CUDA, 50);
    check(near(s->step_us, 210 + sum) && near(s->devices[0].lanes[LANE_COMP].idle_us[CAUSE_DEVICE], 100) &&
              near(s->devices[1].lanes[LANE_COMP].idle_us[CAUSE_DEVICE], 0),
          "a slower device is waited for");
    static const char OVERLAP[] =
        "op d%.c0 lane comp call k0 region 0 writes d%.b digest 00000000 begin_us 0.0 time_us 100.0 line 0\n"
        "op d%.m0 lane comm reduce r0 reads d%.b writes d%.b waits d%.c0 begin_us 0.0 time_us 0.0 line 0\n"
        "op d%.c1 lane comp call k0 region 1 digest 00000000 begin_us 0.0 time_us 1000.0 line 0\n"
        "op d%.c2 lane comp call k0 region 2 reads d%.b waits d%.m0 digest 00000000 begin_us 0.0 time_us 10.0 line 0\n";
    s = simulate_hand(2, OVERLAP, SUM, PROCESSOR_CUDA, 0);
    check(near(s->step_us, 1110) && near(s->devices[0].lanes[LANE_COMP].idle_us[CAUSE_COMMUNICATION], 0),
          "one behind which there is enough to do is not");
    static const char TOGETHER[] =
        "op d%.c0 lane comp call k0 region 0 writes d%.b digest 00000000 begin_us 0.0 time_us 100.0 line 0\n"
        "op d%.c1 lane comp call k0 region 0 digest 00000000 begin_us 0.0 time_us 60.0 line 0\n"
        "op d%.m0 lane comm reduce r0 reads d%.b writes d%.b waits d%.c0 begin_us 0.0 time_us 0.0 line 0\n";
    s = simulate_hand(2, TOGETHER, SUM, PROCESSOR_CUDA, 0);
    check(near(s->devices[0].ops[2].begin_us, s->devices[0].ops[0].begin_us + 160), "the calls of a region are over together");
}

/* Kernels beside a transfer have the SMs that it leaves. 20 of them, of which a ring of slow links takes two, and so a kernel of
 * 1000 us, 2 of which are its launch, gets longer by 998 / 9 for 1000 us beside it; sums over peers take what they move of 1
 * TB/s */
static void units(void)
{
    static const char OVERLAP[] =
        "op d%.c0 lane comp call k0 region 0 writes d%.b digest 00000000 begin_us 0.0 time_us 100.0 line 0\n"
        "op d%.m0 lane comm reduce r0 reads d%.b writes d%.b waits d%.c0 begin_us 0.0 time_us 0.0 line 0\n"
        "op d%.c1 lane comp call k0 region 1 digest 00000000 begin_us 0.0 time_us 1000.0 line 0\n"
        "op d%.c2 lane comp call k0 region 2 reads d%.b waits d%.m0 digest 00000000 begin_us 0.0 time_us 10.0 line 0\n";
    const char *text = format("%smultiprocessors * 20\n", MACHINE);
    const Machine *m = machine_read("m", text, strlen(text));
    Members members = members_of(m, PROCESSOR_CUDA, 1, 2);
    const struct {
        const char *way;
        double taken;
        Method method;
    } WAYS[] = {{"nccl", 2 / 20., METHOD_RING}, {"peer", 0, METHOD_COPY}, {"copy", 0, METHOD_COPY}, {"host", 0, METHOD_HOST}};
    for (int i = 0; i < COUNT(WAYS); i++) {
        const char *sum =
            format("collective r0 group all members d0.m0 d1.m0 kind all-reduce bytes 400000 dtype f32 via %s\n", WAYS[i].way);
        Cost c = cost_collective(&members, COLLECT_ALL_REDUCE, WAYS[i].method, 400000);
        double us = c.us, taken = strcmp(WAYS[i].way, "peer") == 0 ? c.taken : WAYS[i].taken, slower = .998 * taken / (1 - taken);
        double reached = us / (1 + slower), longer = us - reached; /* of what is computed, when the transfer is over */
        if (reached > 1000)
            longer = 1000 * slower;
        Simulation *s = simulate_on(m, 2, OVERLAP, sum, PROCESSOR_CUDA, 0);
        double waits = fmax(0, us - 1000 - longer);
        check(near(s->step_us, 1110 + longer + waits) && near(s->devices[0].longer_us, longer),
              format("a kernel beside a transfer by %s has the SMs that are left", WAYS[i].way));
    }
    static const char SUM[] = "collective r0 group all members d0.m0 d1.m0 kind all-reduce bytes 400000 dtype f32 via nccl\n";
    /* the first device is ahead, and is at c2 before the other one is there */
    Simulation *s = simulate_on(m, 2, OVERLAP, SUM, PROCESSOR_CUDA, 50);
    check(near(s->devices[0].longer_us, 998 / 9.), "NCCL's blocks have theirs while they wait for those of other GPUs");
    SimulationInput in = {
        .schedule = schedule_of(2, OVERLAP, SUM), .machine = m, .processor = PROCESSOR_CUDA, .measured = &(TransferFactors){0}};
    check(near(simulate_step(&in)->devices[0].longer_us, 0), "what was measured has it in its times");
}

/* ---- nodes: two that do the same are simulated as one, and all is as if both were */
static Schedule *on_two_nodes(const char *ops, const char *sum, bool shared)
{
    Schedule *s = schedule_of(4, ops, sum);
    s->nodes = 2;
    for (int d = 2; d < 4 && shared; d++) {
        s->phases[0].devices[d].ops = s->phases[0].devices[d - 2].ops;
        s->phases[0].devices[d].buffers = s->phases[0].devices[d - 2].buffers;
    }
    return s;
}

static void nodes(void)
{
    static const char WORK[] =
        "op d%.s lane host read - writes d%.stage begin_us 0.0 time_us 20.0 line 0\n"
        "op d%.u lane copy upload - reads d%.stage writes d%.in waits d%.s begin_us 0.0 time_us 5.0 line 0\n"
        "op d%.c0 lane comp call k0 region 0 writes d%.b waits d%.u digest 00000000 begin_us 0.0 time_us 100.0 line 0\n"
        "op d%.m0 lane comm reduce r0 reads d%.b writes d%.b waits d%.c0 begin_us 0.0 time_us 0.0 line 0\n"
        "op d%.c1 lane comp call k0 region 1 reads d%.b waits d%.m0 digest 00000000 begin_us 0.0 time_us 10.0 line 0\n";
    static const char TOTAL[] =
        "collective r0 group all members d0.m0 d1.m0 d2.m0 d3.m0 kind all-reduce bytes 40000 dtype f32 via nccl\n";
    const char *text = format("%snodes 2\nlink * network 1GB/s 5us\n", MACHINE);
    const Machine *m = machine_read("m", text, strlen(text));
    Simulation *both[2];
    for (int shared = 0; shared < 2; shared++) {
        SimulationInput in = {
            .schedule = on_two_nodes(WORK, TOTAL, shared), .machine = m, .processor = PROCESSOR_CUDA, .disk_bytes = 1000};
        Fold f = fold_phase(in.schedule, &in.schedule->phases[0]);
        check(f.nodes == 2 - shared && f.each == 2, shared ? "nodes that do the same are one" : "others are not");
        both[shared] = simulate_step(&in);
    }
    bool same = near(both[0]->step_us, both[1]->step_us) && both[1]->device_count == 4;
    for (int d = 0; d < 4; d++) {
        same &= near(both[0]->devices[d].between_us, both[1]->devices[d].between_us) && both[0]->devices[d].between_us > 0;
        for (int lane = 0; lane < LANES; lane++)
            same &= near(both[0]->devices[d].lanes[lane].busy_us, both[1]->devices[d].lanes[lane].busy_us);
    }
    for (int i = 0; i < 2 * m->link_count; i++)
        same &= near(both[0]->link_bytes[i], both[1]->link_bytes[i]) && near(both[0]->peak[i], both[1]->peak[i]);
    check(same, "... and all times, waits and bytes are as if both were simulated");
}

/* 4 host devices on two nodes with two cores: 40 kB are sent and received twice, half of them by each node, at 2.5 GB/s of a
 * core */
static void messages(void)
{
    static const char WORK[] =
        "op d%.c0 lane comp call k0 region 0 writes d%.b digest 00000000 begin_us 0.0 time_us 100.0 line 0\n"
        "op d%.m0 lane comm reduce r0 reads d%.b writes d%.b waits d%.c0 begin_us 0.0 time_us 0.0 line 0\n"
        "op d%.c1 lane comp call k0 region 1 reads d%.b waits d%.m0 digest 00000000 begin_us 0.0 time_us 10.0 line 0\n";
    static const char TOTAL[] =
        "collective r0 group all members d0.m0 d1.m0 d2.m0 d3.m0 kind all-reduce bytes 40000 dtype f32 via host\n";
    const char *text = format("%snodes 2\nlink host network 1GB/s 5us\n", MACHINE);
    SimulationInput in = {.schedule = on_two_nodes(WORK, TOTAL, false),
                          .machine = machine_read("m", text, strlen(text)),
                          .processor = PROCESSOR_HOST};
    double busy_us = simulate_step(&in)->devices[0].lanes[LANE_COMP].busy_us;
    check(near(busy_us, 110 + 2 * 2 * 20000 / 2.5e9 * 1e6 / 2), "what messages take of the cores, calls are longer");
    static const char NOTHING[] =
        "op d%.c0 lane comp call k0 region 0 writes d%.b digest 00000000 begin_us 0.0 time_us 0.0 line 0\n"
        "op d%.m0 lane comm reduce r0 reads d%.b writes d%.b waits d%.c0 begin_us 0.0 time_us 0.0 line 0\n";
    in.schedule = on_two_nodes(NOTHING, TOTAL, false);
    check(near(simulate_step(&in)->devices[0].lanes[LANE_COMP].busy_us, 0), "... but for those that take no time");
}

/* ---- what always holds */
static double known_end(const DeviceSchedule *d, const OpTime *times, int op)
{
    double end = times[op].end_us;
    for (int i = op; i < d->op_count && d->ops[op].region >= 0; i++)
        if (d->ops[i].lane == LANE_COMP && d->ops[i].region == d->ops[op].region)
            end = times[i].end_us;
    return end;
}

static const char *wrong_device(const DeviceSchedule *d, const SimulatedDevice *s, double step_us)
{
    double free_us[LANES], slack = 1e-9 * step_us + 1e-9;
    for (int lane = 0; lane < LANES; lane++) {
        double all = s->lanes[lane].busy_us;
        free_us[lane] = -INFINITY;
        for (int c = 0; c < CAUSES; c++) {
            all += s->lanes[lane].idle_us[c];
            if (s->lanes[lane].idle_us[c] < 0)
                return "less than no idle time";
        }
        if (fabs(all - step_us) > 1e-6 * step_us + 1e-6)
            return format("lane %s: busy and idle are %g of %g", LANE_NAME[lane], all, step_us);
    }
    for (int i = 0; i < d->op_count; i++) {
        const ScheduledOp *op = &d->ops[i];
        if (s->ops[i].begin_us < free_us[op->lane] - slack)
            return format("%s begins before its lane is free", op->id);
        if (s->ops[i].end_us < s->ops[i].begin_us + (op->verb == VERB_CALL ? op->time_us : 0) - slack)
            return format("%s is over too early", op->id);
        for (int w = 0; w < op->wait_count; w++)
            if (op->waits[w].back == 0 && s->ops[i].begin_us < known_end(d, s->ops, op->waits[w].op) - slack)
                return format("%s begins before %s is over", op->id, d->ops[op->waits[w].op].id);
        free_us[op->lane] = s->ops[i].end_us;
    }
    return NULL;
}

static const char *wrong_phase(const PhaseSchedule *p, const Simulation *s, const Machine *m)
{
    const char *why = NULL;
    for (int d = 0; d < s->device_count && !why; d++)
        why = wrong_device(&p->devices[d], &s->devices[d], s->step_us);
    for (int c = 0; c < p->collective_count && !why; c++)
        for (int d = 1; d < s->device_count; d++)
            if (fabs(s->devices[d].ops[p->collectives[c].ops[d]].begin_us -
                     s->devices[0].ops[p->collectives[c].ops[0]].begin_us) > 0)
                why = format("the members of %s begin apart", p->collectives[c].name);
    for (int i = 0; i < 2 * m->link_count && !why; i++)
        if (s->peak[i] > 1 + 1e-9 || s->link_bytes[i] > (1 + 1e-6) * s->step_us * m->links[i / 2].rate[i % 2].value / 1e6)
            why =
                format("more than link %d carries: %g of it, %g bytes in %g us", i / 2, s->peak[i], s->link_bytes[i], s->step_us);
    return why;
}

static void random_schedules(int programs)
{
    static const char *const NAMES[] = {"7gforce", "dgx-1", "k80x8", "m60x4", "h100x8", "rtx4090x8", "host64"};
    int simulated = 0, steady = 0;
    for (int i = 0; i < COUNT(NAMES); i++) {
        const Machine *m = machine_named(NAMES[i]);
        const char *why = NULL;
        for (int seed = 0; seed < programs && !why; seed++) {
            Random r = {(uint64_t)(1000 * i + seed)};
            Schedule *schedule =
                random_plan(random_program(r.state, 25), 1 + random_below(&r, m->device_count > 4 ? 6 : 4))->schedule;
            SimulationInput in = {.schedule = schedule,
                                  .machine = m,
                                  .processor = m->device_count ? PROCESSOR_CUDA : PROCESSOR_HOST,
                                  .decode_us = random_below(&r, 3),
                                  .disk_bytes = random_below(&r, 1000),
                                  .compute = 1};
            for (int p = 0; p < schedule->phase_count && !why; p++) {
                for (int d = 0; d < schedule->devices; d++)
                    for (int k = 0; k < schedule->phases[p].devices[d].op_count; k++)
                        schedule->phases[p].devices[d].ops[k].time_us = random_below(&r, 200) / 4.0;
                Simulation *s = simulate_phase(&in, p);
                why = s->steps ? wrong_phase(&schedule->phases[p], s, m) : NULL;
                simulated += s->steps > 0;
                steady += s->steps && s->steady;
                if (why)
                    why = format("seed %d, %s: %s", seed, schedule->phases[p].name, why);
            }
        }
        check(!why, format("random schedules on %s%s%s", NAMES[i], why ? ": " : "", why ? why : ""));
    }
    check(steady > simulated / 2, format("%d of %d become steady", steady, simulated));
}

int main(void)
{
    flows();
    by_hand();
    host_devices();
    units();
    nodes();
    messages();
    random_schedules(25);
    return failures != 0;
}
