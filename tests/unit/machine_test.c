/* machine_test.c: machine files and the cost model: what is read, what is refused and how, and the times that published
 * measurements and data sheets fix (transfers within 1 %). */
#include "compiler/machine/cost.h"
#include "runtime/abi/mgpu_one_shot.h"
#include "runtime/abi/mgpu.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static int failures;

static void check(bool good, const char *what)
{
    printf("%s %s\n", good ? "ok" : "not ok", what);
    failures += !good;
}

static bool near(double a, double b, double share) { return fabs(a - b) <= share * fabs(b); }

/* ---- files */
static void known_machines(void)
{
    int count = 0;
    for (const MachineFile *f = MACHINE_FILES; f->name; f++, count++) {
        const char *name = copy_text(f->name, strlen(f->name) - strlen(".machine"));
        Machine *m = machine_named(name);
        bool reach = true;
        for (int a = 0; a < m->device_count; a++)
            for (int b = 0; b <= m->device_count; b++) {
                Route r;
                reach &= machine_route(m, a, b, &r) && r.rate > 0;
            }
        check(reach && m->host.cores.value > 0, format("%s: every device reaches all others and the host", name));
    }
    check(count >= 14, "fourteen machines have names");
}

static const char LEAST[] =
    "devices 2\nbandwidth * 1TB/s\nmemory * 1GiB\narithmetic * f32 10TFLOP/s\nhost cores 2\nhost bandwidth 10GB/s\n"
    "host arithmetic f32 10GFLOP/s\n";

static Machine *read_text(const char *text) { return machine_read("m", text, strlen(text)); }

static void facts(void)
{
    Machine *m =
        read_text(format("machine My machine\n%sbus 0 0000:65:00.0   # of virtual GPUs\nlink 0 1 25GB/s 2us measured 2026-11-23\n"
                         "link * host 6.5GB/s\nlink host * 6GB/s\nmemory 1 2GiB nominal\n",
                         LEAST));
    check(strcmp(m->name, "My machine") == 0 && m->device_count == 2 && m->link_count == 3, "names and counts");
    check(near(m->devices[1].memory.value, 0x1p31, 0) && near(m->devices[0].memory.value, 0x1p30, 0),
          "a later line says it of one device");
    check(m->links[0].rate[0].measured == 20261123 && m->devices[0].bandwidth.measured == 0, "measured and nominal");
    check(near(cost_transfer(m, 0, 2, 6.5e9).us, 1e6, 1e-9) && near(cost_transfer(m, 2, 0, 6e9).us, 1e6, 1e-9),
          "each direction has its rate");
}

static void read_only(const char *text) { read_text(text); }
static void find_only(const char *name) { machine_named(name); }

static void reduce_only(const char *text)
{
    Method method;
    Members g = members_of(read_text(text), PROCESSOR_CUDA, 1, 2);
    cost_cheapest(&g, ~0u, COLLECT_ALL_REDUCE, 8, &method);
}

/* what is said of a wrong text or name, and the status with which mgpuc ends */
static void refused(void (*try)(const char *), const char *text, int expected, const char *message)
{
    int ends[2], status = 0;
    char said[2000];
    fflush(stdout);
    if (pipe(ends))
        exit(3);
    pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], 2);
        close(ends[0]);
        close(ends[1]);
        try(text);
        _exit(0);
    }
    close(ends[1]);
    size_t length = 0;
    for (ssize_t got; (got = read(ends[0], said + length, sizeof said - 1 - length)) > 0;)
        length += (size_t)got;
    said[length] = 0;
    close(ends[0]);
    waitpid(child, &status, 0);
    bool good = WIFEXITED(status) && WEXITSTATUS(status) == expected && strstr(said, message);
    check(good, format("refused: %s", message));
    if (!good)
        printf("    said: %s\n", said);
}

static void messages(void)
{
    static const struct {
        const char *line, *message;
    } WRONG[] = {
        {"devices", "m:1:1: error: this fact is not complete; an example of a whole one: devices 8"},
        {"devices 2 3", "m:1:11: error: '3' is one word too many"},
        {"devices 2000", "m:1:9: error: '2000' is not a whole number from 0 to 1024"},
        {"devices 1\ndevices 2", "m:2:1: error: 'devices' is said once"},
        {"memory 0 1GiB", "m:1:8: error: how many devices there are comes before what they are"},
        {"devices 2\nmemory 2 1GiB", "m:2:8: error: there is no device 2: the machine has 2"},
        {"devices 2\nmemory x 1GiB", "m:2:8: error: 'x' is not a device"},
        {"devices 2\nmemory 0 1GB/s", "m:2:10: error: '1GB/s' is not an amount with its unit, such as 80GiB"},
        /* no thousandth of a byte */
        {"devices 2\nmemory 0 80mB", "m:2:10: error: '80mB' is not an amount with its unit, such as 80GiB"},
        {"devices 2\nmemory 0 0B", "m:2:10: error: '0B' is not an amount above 0"},
        {"devices 2\nbandwith 0 1GB/s", "m:2:1: error: 'bandwith' begins no fact of a machine; did you mean 'bandwidth'?"},
        {"devices 2\ncapability 0 9", "m:2:14: error: '9' is not a compute capability"},
        {"devices 2\nmatrix 0 bf17 1TFLOP/s", "m:2:10: error: 'bf17' is not a type of numbers"},
        {"devices 2\nlink 0 nvswitch 1GB/s", "m:2:8: error: 'nvswitch' is not an end of a link"},
        {"link host host 1GB/s", "m:1:11: error: a link of host to itself is none"},
        {"switch host", "m:1:8: error: a switch cannot be called host"},
        {"switch a\nswitch a", "m:2:8: error: there is a switch a already"},
        {"host core 2", "m:1:6: error: a host has no 'core'; did you mean 'cores'?"},
        {"host bandwidth 10GB/s measured", "m:1:23: error: measured when? Write the day"},
        {"host bandwidth 10GB/s measured yesterday", "m:1:32: error: 'yesterday' is not a day"},
        {"devices 1", "m: device 0 lacks what its times or sizes are made of; add a line such as 'bandwidth * 3350GB/s'"},
        {"devices 0\nhost cores 2", "m: the host lacks what its times are made of; add a line such as 'host bandwidth 200GB/s'"},
        {"devices 2\nlink 0 network 1GB/s",
         "m:2:8: error: the network joins nodes, and the machine is one; say above how many there are, in a line such as 'nodes 16'"},
        {"nodes 1", "m:1:7: error: '1' is not a whole number from 2 to 65536"},
        {"nodes 2\nnodes 2", "m:2:1: error: 'nodes' is said once"},
        {"nodes 2\ndevices 2", "m:2:1: error: 'devices' is said once, before 'nodes' and all switches and links"},
        {"switch network", "m:1:8: error: a switch cannot be called network"},
        {"nodes 2\nhost cores 2\nhost bandwidth 10GB/s\nhost arithmetic f32 10GFLOP/s",
         "m: no link leads from the host to the network, so its nodes are not joined"},
        {"a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a",
         "a line has at most 63 words"},
    };
    for (int i = 0; i < COUNT(WRONG); i++)
        refused(read_only, WRONG[i].line, 1, WRONG[i].message);
    refused(find_only, "dgx1", 2, "no machine is called 'dgx1'; did you mean 'dgx-1'?; there are: 7gforce a100x8");
    refused(find_only, "./none.machine", 1,
            "./none.machine cannot be read: No such file or directory; a machine is a file or one of: 7gforce");
    refused(
        reduce_only, LEAST, 1,
        "machine m: its devices reach neither each other nor the host; say how, with lines such as 'link 0 1 25GB/s' and 'link * host 12GB/s'");
}

/* ---- times */
static void transfers(void)
{
    static const struct {
        const char *machine;
        int device;
        double bytes, ms;
    } TIMES[] = {
        {"7gforce", 0, 102546848, 130.40}, {"7gforce", 6, 102546848, 15.92}, {"dgx-1", 0, 102546848, 7.96},
        {"7gforce", 0, 95407136, 121.32},  {"7gforce", 6, 95407136, 14.81},  {"dgx-1", 0, 95407136, 7.40},
        {"7gforce", 0, 34457984, 43.82},   {"7gforce", 6, 34457984, 5.35},   {"dgx-1", 0, 34457984, 2.67},
    };
    for (int i = 0; i < COUNT(TIMES); i++) {
        Machine *m = machine_named(TIMES[i].machine);
        double ms = cost_upload(m, PROCESSOR_CUDA, TIMES[i].device, TIMES[i].bytes).us / 1e3;
        check(near(ms, TIMES[i].ms, .01), format("%s: %.0f bytes to device %d: %.2f ms, %.2f", TIMES[i].machine, TIMES[i].bytes,
                                                 TIMES[i].device, ms, TIMES[i].ms));
    }
    Machine *m = machine_named("m60x4");
    check(near(1e9 / cost_transfer(m, 0, machine_host(m), 1e9).us / 1e3, 6.5, .01), "M60: 6.5 GB/s to the host");
    m = machine_named("dgx-1");
    Transfer two[] = {{machine_host(m), 0, 1e9}, {machine_host(m), 1, 1e9}},
             apart[] = {{machine_host(m), 0, 1e9}, {machine_host(m), 2, 1e9}};
    double alone = cost_transfer(m, machine_host(m), 0, 1e9).us;
    check(near(cost_transfers(m, two, 2).us, 2 * alone, .01), "DGX-1: two GPUs share the x16 of their switch");
    check(near(cost_transfers(m, apart, 2).us, alone, .01), "DGX-1: those of other switches do not");
}

static double bus_bandwidth(const Members *g, Method method)
{
    double bytes = 1e9, us = cost_collective(g, COLLECT_ALL_REDUCE, method, bytes).us;
    return 2 * (g->count - 1.0) / g->count * bytes / us / 1e3; /* GB/s, as nccl-tests prints it */
}

static void collectives(void)
{
    Members h100 = members_of(machine_named("h100x8"), PROCESSOR_CUDA, 1, 8),
            a100 = members_of(machine_named("a100x8"), PROCESSOR_CUDA, 1, 8);
    Members dgx = members_of(machine_named("dgx-1"), PROCESSOR_CUDA, 1, 8),
            risers = members_of(machine_named("7gforce"), PROCESSOR_CUDA, 1, 6);
    Members host = members_of(machine_default(PROCESSOR_HOST), PROCESSOR_HOST, 1, 2),
            one = members_of(machine_default(PROCESSOR_HOST), PROCESSOR_HOST, 1, 1);
    Method method;
    check(near(bus_bandwidth(&h100, METHOD_RING), 370, .03), "8 H100, ring: 370 GB/s");
    check(near(bus_bandwidth(&h100, METHOD_SWITCH), 475, .03), "8 H100, in-switch: 475 GB/s");
    cost_cheapest(&h100, ~0u, COLLECT_ALL_REDUCE, 1e9, &method);
    check(method == METHOD_SWITCH, "8 H100: large sums are made in the switch");
    double a = bus_bandwidth(&a100, METHOD_RING);
    check(a > 200 && a < 250 && !method_works(&a100, METHOD_SWITCH), "8 A100: 200 to 250 GB/s, no sums in the switch");
    check(dgx.ring > 39e9 && dgx.ring < 81e9, format("DGX-1: 2 to 4 rings of 20 GB/s: %.0f GB/s", dgx.ring / 1e9));
    check(near(risers.ring, 750 * 0x1p20, .01), "7gforce: a ring as slow as its risers");
    double small = cost_cheapest(&h100, ~0u, COLLECT_ALL_REDUCE, 8, &method).us;
    check(small > 2 && small < 40, "8 H100: a small sum takes microseconds");
    double whole = cost_collective(&dgx, COLLECT_ALL_REDUCE, METHOD_RING, 1e8).us,
           half = cost_collective(&dgx, COLLECT_REDUCE_SCATTER, METHOD_RING, 1e8).us;
    check(near(whole, 2 * half, .01), "a reduce-scatter is half of a ring");
    check(cost_cheapest(&host, ~0u, COLLECT_ALL_REDUCE, 1e6, &method).us > 10 && method == METHOD_HOST, "host devices meet");
    check(cost_cheapest(&one, ~0u, COLLECT_ALL_REDUCE, 1e6, &method).us <= 0, "one device owes nobody a sum");
}

/* SMs that a transfer takes of each GPU */
static double units_of(const Members *g, Method method, double bytes)
{
    return cost_collective(g, COLLECT_ALL_REDUCE, method, bytes).taken * g->machine->devices->units.value;
}

static Members eight(const char *machine, int nodes)
{
    return members_of(machine_named(machine), PROCESSOR_CUDA, nodes, 8 * nodes);
}

static void units(void)
{
    Members h100 = eight("h100x8", 1), a100 = eight("a100x8", 1), b200 = eight("b200x8", 1);
    Members dgx = eight("dgx-1", 1), ib = eight("h100x8-ib", 16), pcie = eight("rtx4090x8", 1);
    check(near(units_of(&h100, METHOD_RING, 1e8), 24, 1e-9) && near(units_of(&a100, METHOD_TREE, 1e8), 24, 1e-9) &&
              near(units_of(&b200, METHOD_RING, 1e8), 32, 1e-9),
          "rings and trees of 8 H100, A100, B200 take 24, 24, 32 SMs");
    check(near(units_of(&h100, METHOD_SWITCH, 8), 16, 1e-9) && near(units_of(&b200, METHOD_SWITCH, 8), 24, 1e-9),
          "sums in the switch 16 and 24, however small");
    double p100 = units_of(&dgx, METHOD_RING, 1e8);
    check(p100 > 3 && p100 < 9, format("a DGX-1 4 to 8: %g", p100));
    check(near(units_of(&ib, METHOD_RING, 1e8), 16, 1e-9) && near(units_of(&ib, METHOD_LEVELS, 1e8), 16, 1e-9),
          "over nodes two for each network card");
    check(near(units_of(&h100, METHOD_RING, 100e3), 3, 1e-9) && near(units_of(&h100, METHOD_RING, 8), 1, 1e-9),
          "small ones have a block for 32 KiB");
    check(near(units_of(&h100, METHOD_COPY, 1e8), 8, 1e-9), "sums over peers have threads for 8 SMs");
    check(near(units_of(&h100, METHOD_COPY, 8 * 3 * 4096), 3. / 8, 1e-9),
          "... small ones a block for 4 KiB of a device's share, 8 to an SM");
    Members risers = members_of(machine_named("7gforce"), PROCESSOR_CUDA, 1, 4);
    Cost slow = cost_collective(&risers, COLLECT_ALL_REDUCE, METHOD_COPY, 1e8);
    check(risers.peer_access && near(slow.taken, 2e8 / slow.us * 1e6 / risers.machine->devices->bandwidth.value, 1e-9) &&
              slow.taken < .01,
          "... but over slow links these wait, and others compute");
    check(near(units_of(&pcie, METHOD_COPY, 1e8), 0, 1e-9) && near(units_of(&pcie, METHOD_HOST, 1e8), 0, 1e-9),
          "copy engines and the host take none");
    check(near(units_of(&h100, METHOD_ONE_SHOT, 8), 1, 1e-9), "one kernel for all has the threads of one SM, however small");
    Members host = members_of(machine_default(PROCESSOR_HOST), PROCESSOR_HOST, 1, 2);
    check(near(cost_collective(&host, COLLECT_ALL_REDUCE, METHOD_HOST, 1e8).taken, 0, 1e-9),
          "... and host devices have no such units");
}

/* Published of such kernels on H100 with NVLink, without the event before them: collectives.c */
static void one_shot(void)
{
    static const struct {
        int devices;
        double bytes, least, most;
    } PUBLISHED[] = {{2, 512, 3.7, 3.9}, {4, 512, 3.7, 4.8}, {8, 4096, 5.7, 6.2}, {8, 32768, 7.8, 9}};
    for (int i = 0; i < COUNT(PUBLISHED); i++) {
        Members g = members_of(machine_named("h100x8"), PROCESSOR_CUDA, 1, PUBLISHED[i].devices);
        double us =
            cost_collective(&g, COLLECT_ALL_REDUCE, METHOD_ONE_SHOT, PUBLISHED[i].bytes).us - g.machine->devices->event_us.value;
        check(us >= PUBLISHED[i].least - .2 && us <= PUBLISHED[i].most + .2,
              format("%g bytes on %d H100 by one kernel: %g us", PUBLISHED[i].bytes, PUBLISHED[i].devices, us));
    }
    Members g = eight("h100x8", 1), ib = eight("h100x8-ib", 2), pcie = eight("rtx4090x8", 1);
    Method method;
    check(cost_cheapest(&g, g.methods, COLLECT_MOMENTS, 6144, &method).us < 8 && method == METHOD_ONE_SHOT,
          "statistics of a layer are merged by one kernel");
    cost_cheapest(&g, g.methods, COLLECT_ALL_REDUCE, 200e3, &method);
    check(method != METHOD_ONE_SHOT, "... larger sums in another way");
    check(isinf(cost_collective(&g, COLLECT_ALL_REDUCE, METHOD_ONE_SHOT, MGPU_ONE_SHOT_BYTES + 1).us),
          "... those that no mailbox has room for in any case");
    check(isinf(cost_collective(&g, COLLECT_ALL_GATHER, METHOD_ONE_SHOT, 8).us), "... and what is not added up");
    check(!method_works(&pcie, METHOD_ONE_SHOT) && !method_works(&ib, METHOD_ONE_SHOT),
          "it takes access to the others' memory, and one machine");
    check(!(methods_of_small_transfers(&g) >> METHOD_ONE_SHOT & 1), "a lane of its own has none: it would wait beside NCCL's");
}

static double bytes_of(const Members *g, Method method, int link, int back)
{
    double *of_link = NEW_ARRAY(double, 2 * g->machine->link_count);
    collective_bytes(g, COLLECT_ALL_REDUCE, method, 1e9, of_link);
    return of_link[2 * link + back];
}

/* 4 nodes of 2 GPUs, each with a card of 1 GB/s; 10 GB/s inside. Latencies are long, so that formulas show */
static void nodes(void)
{
    const char *text = format("devices 2\nnodes 4\n%slink * network 1GB/s 100us\nlink 0 1 10GB/s 10us\nlink * host 10GB/s\n",
                              LEAST + strlen("devices 2\n"));
    Machine *m = read_text(text);
    Members g = members_of(m, PROCESSOR_CUDA, 4, 8), one = members_of(m, PROCESSOR_CUDA, 1, 2);
    Route r;
    check(m->nodes == 4 && machine_route(m, 0, 1, &r) && r.count == 1,
          "two GPUs of a node are joined by their link, not by the network");
    check(near(g.network, 2e9, 1e-9) && near(g.network_us, 200, 1e-9), "what a node sends: all of its cards");
    double net = 1 / (2e9 * .9) * 1e6, in = 1 / (one.ring * .82) * 1e6, slow = net > in ? net : in;
    Cost c = cost_collective(&g, COLLECT_ALL_REDUCE, METHOD_RING, 1e9);
    const double NCCL = 6.6; /* of any call */
    check(near(c.us, NCCL + 7 / 4.0 * (4 * one.ring_us + 4 * 200) + 7 / 4.0 * 1e9 * slow, 1e-6),
          "a ring of all devices: latencies of both kinds, the slower rate");
    c = cost_collective(&g, COLLECT_ALL_REDUCE, METHOD_TREE, 1e9);
    check(near(c.us, NCCL + 2 * one.ring_us + 4 * 200 + 2e9 * slow, 1e-6), "a tree of nodes");
    check(near(cost_collective(&g, COLLECT_ALL_REDUCE, METHOD_TREE, 0).between_us, 800, 1e-6),
          "... of it 4 messages between nodes");
    Members two = members_of(m, PROCESSOR_CUDA, 2, 4), three = members_of(m, PROCESSOR_CUDA, 3, 6);
    c = cost_collective(&two, COLLECT_ALL_REDUCE, METHOD_TREE, 1e9);
    check(near(c.us, NCCL + 2 * one.ring_us + 2 * 200 + fmax(1e9 * net, 2e9 * in), 1e-6),
          "... of two: each is the root of half, and sends that once");
    check(near(bytes_of(&two, METHOD_TREE, 0, 0), .5e9, 1e-6) && near(bytes_of(&three, METHOD_TREE, 0, 0), .75e9, 1e-6) &&
              near(bytes_of(&g, METHOD_TREE, 0, 0), 1e9, 1e-6),
          "... two nodes send all once, three half as much again, four twice");
    double scatter = cost_collective(&one, COLLECT_REDUCE_SCATTER, METHOD_RING, 1e9).us,
           gather = cost_collective(&one, COLLECT_ALL_GATHER, METHOD_RING, 1e9).us;
    c = cost_collective(&g, COLLECT_ALL_REDUCE, METHOD_LEVELS, 1e9);
    check(near(c.us, scatter + gather + 6 * 200 + 2 * .75 * 1e9 * net, 1e-6),
          "levels: a reduce-scatter inside, a ring of the nodes, an all-gather inside");
    check(near(c.between_us, 6 * 200 + 2 * .75 * 1e9 * net, 1e-6), "... of it the ring between nodes");
    check(near(bytes_of(&g, METHOD_LEVELS, 0, 0), .75e9, 1e-6) && near(bytes_of(&g, METHOD_LEVELS, 0, 1), .75e9, 1e-6),
          "... each card carries its part twice, but for a node's own");
    check(near(bytes_of(&g, METHOD_RING, 0, 0), 7 / 8.0 * 1e9, 1e-6), "a ring: each card carries half of it twice");
    Members many = members_of(machine_named("h100x8-ib"), PROCESSOR_CUDA, 16, 128),
            most = members_of(machine_named("h100x8-ib"), PROCESSOR_CUDA, 1250, 10000);
    Method method;
    double us = cost_cheapest(&many, ~0u, COLLECT_ALL_REDUCE, 8e9, &method).us;
    check(near(2 * 127 / 128.0 * 8e9 / us / 1e3, 360, .03), "16 nodes of 8 H100, a large sum: 360 GB/s of bus bandwidth");
    check(method != METHOD_LEVELS, "... all of whose devices are busy all the time");
    us = cost_cheapest(&most, ~0u, COLLECT_ALL_REDUCE, 1e6, &method).us;
    check(us < 1000 && method != METHOD_RING, "10,000 of them, a small sum: not by a ring");
    check(!method_works(&many, METHOD_COPY) && !methods_of_small_transfers(&many) &&
              methods_of_implementation(&many, MGPU_IMPLEMENTATION_PEER) == 0,
          "copies and peers are within one node");
    Members hosts = members_of(machine_named("host2-eth"), PROCESSOR_HOST, 4, 4);
    us = cost_cheapest(&hosts, ~0u, COLLECT_ALL_REDUCE, 1e8, &method).us;
    check(method == METHOD_HOST && near(us, 2 * 50 + 2 * .75 * 1e8 / (.92 * 1.25e9) * 1e6 + 1.25 * 1e8 / 55e9 * 1e6, 1e-6),
          "hosts: slices to all, and sums from all");
    check(near(collective_core_us(&hosts, COLLECT_ALL_REDUCE, METHOD_HOST, 1e8), 2 * 2 * .75 * 1e8 / 2.5e9 * 1e6, 1e-6),
          "... which take a part of a core");
    check(collective_core_us(&many, COLLECT_ALL_REDUCE, METHOD_RING, 1e8) == 0, "... and none where GPUs are");
}

static void kernels(void)
{
    Machine *h100 = machine_named("h100x8"), *host = machine_named("host2");
    Device gpu = machine_device(h100, PROCESSOR_CUDA, 0, 1), cores = machine_device(host, PROCESSOR_HOST, 0, 1),
           core = machine_device(host, PROCESSOR_HOST, 1, 2);
    Work stream = {.kind = WORK_ELEMENTWISE, .type = BF16, .bytes = 3.352e9, .operations = 1e6};
    Cost c = cost_kernel(&gpu, &stream);
    check(near(c.us, 1e3 / .87, .01) && c.bound == BOUND_MEMORY, "H100: a stream at 87 % of 3.35 TB/s");
    Work contraction = {.kind = WORK_MATMUL, .type = BF16, .contractions = 989.4e9, .bytes = 1e6};
    c = cost_kernel(&gpu, &contraction);
    check(near(c.us, 1e3 / .7, .01) && c.bound == BOUND_MATRIX, "H100: cuBLASLt at 70 % of the peak");
    contraction.type = F32;
    check(cost_kernel(&gpu, &contraction).bound == BOUND_INSTRUCTIONS, "f32 does not use matrix units");
    contraction.tf32 = true;
    check(cost_kernel(&gpu, &contraction).bound == BOUND_MATRIX, "but where it may be rounded");
    Work tiny = {.kind = WORK_ELEMENTWISE, .bytes = 8, .operations = 1};
    check(cost_kernel(&gpu, &tiny).bound == BOUND_LAUNCH, "H100: a kernel of nearly nothing is its launch");
    contraction = (Work){.kind = WORK_MATMUL, .type = F32, .contractions = 362.6e6};
    check(near(cost_kernel(&cores, &contraction).us, 1000, .01) && near(cost_kernel(&core, &contraction).us, 2000, .01),
          "a core of two takes twice as long");
    double before = cost_kernel(&cores, &contraction).us;
    host->host.matmul = (Fact){host->host.plain[F32].value * .35, 1};
    cores = machine_device(host, PROCESSOR_HOST, 0, 1);
    check(near(cost_kernel(&cores, &contraction).us, 2 * before, 1e-9),
          "a large matmul at .35 of the plain rate is half as fast as the table has it");
    Work sums = {.kind = WORK_SUMS, .type = F32, .operations = 1e6};
    check(near(cost_kernel(&cores, &sums).us,
               cost_kernel(&(Device){.processor = PROCESSOR_HOST, .plain[F32] = cores.plain[F32]}, &sums).us, 1e-9),
          "which says nothing of other kernels");
    Work exponentials = {.kind = WORK_SUMS, .type = F32, .operations = 1e6, .functions = 1e6};
    check(near(cost_kernel(&cores, &exponentials).us, 2 * cost_kernel(&cores, &sums).us, 1e-9),
          "functions on hosts take twice their operations");
    exponentials.wide = sums.wide = true;
    check(near(cost_kernel(&cores, &exponentials).us, 12 * cost_kernel(&cores, &sums).us, 1e-9),
          "... and in f64, by the C library, twelve times");
    exponentials.wide = sums.wide = false;
    check(cost_kernel(&gpu, &exponentials).us == cost_kernel(&gpu, &sums).us, "on GPUs no more");
    host->host.matmul = (Fact){0};
    Device third = machine_device(host, PROCESSOR_HOST, 0, 3), fourth = machine_device(host, PROCESSOR_HOST, 0, 4);
    check(third.plain[F32].value == fourth.plain[F32].value && near(2 * third.plain[F32].value, core.plain[F32].value, 1e-9),
          "three devices on two cores are as slow as four: one of them has its turn alone");
    check(machine_device(machine_named("host64"), PROCESSOR_HOST, 0, 3).units.value == 21,
          "three devices on 64 cores have 21 threads each");
}

/* the way of a class, with a device's own links, is the one that is found for the device */
static bool same_ways(const Machine *m)
{
    int ends = machine_host(m) + 1 + m->switch_count;
    for (int i = 0; i < ends * ends; i++) {
        Route quick, slow;
        bool there = class_route(m, i / ends, i % ends, &quick);
        if (there != find_route(m, i / ends, i % ends, &slow))
            return false;
        bool same = !there || (quick.count == slow.count && quick.staged == slow.staged && near(quick.rate, slow.rate, 1e-12) &&
                               near(quick.latency_us, slow.latency_us, 1e-12));
        for (int k = 0; there && same && k < quick.count; k++)
            same = quick.link[k] == slow.link[k] && quick.back[k] == slow.back[k];
        if (!same)
            return false;
    }
    return true;
}

static void classes(void)
{
    static const char MIXED[] =
        "machine mixed\ndevices 12\ncapability * 8.0\nmemory * 8GiB\nbandwidth * 1TB/s\narithmetic * f32 10TFLOP/s\nlaunch * 1us\n"
        "event * 1us\nbandwidth 7 500GB/s\nswitch left\nswitch right\nlink 0-5 left 10GB/s 1us\nlink 6-11 right 10GB/s 1us\n"
        "link 3 left 5GB/s 1us\nlink left host 10GB/s 1us\nlink right host 20GB/s 1us\nlink 10 11 50GB/s 1us\nhost cores 8\nhost memory 8GiB\n"
        "host bandwidth 50GB/s\nhost arithmetic f32 100GFLOP/s\n";
    const Machine *mixed = machine_read("mixed.machine", MIXED, sizeof MIXED - 1);
    bool all = same_ways(mixed);
    for (const MachineFile *f = MACHINE_FILES; f->name; f++)
        all &= same_ways(machine_read(f->name, f->text, strlen(f->text)));
    check(all, "ways between classes of devices are those between the devices");
    check(machine_named("h100x8")->classes->count == 1 && machine_named("7gforce")->classes->count == 2,
          "eight H100 are of one class, 7gforce has two");
    check(mixed->classes->count == 6, "an own rate, another switch, a link to another device: each makes a class");
    check(machine_alike(mixed, 0, 5) && machine_alike(mixed, 6, 9) && !machine_alike(mixed, 0, 7) && !machine_alike(mixed, 0, 3),
          "devices of a class are alike");
}

int main(void)
{
    classes();
    known_machines();
    facts();
    messages();
    transfers();
    collectives();
    units();
    one_shot();
    nodes();
    kernels();
    return failures != 0;
}
