/* vgpu_transfers_test: what the virtual GPU says of NCCL's calls besides sums: for each thing that NCCL asks of a program, and
 * that it checks, a program that is right and one with the planted bug. Right ones leave what NCCL would. a[i] is i on every
 * device. */
#include "runtime/cuda/nccl.h"
#include "vgpu_machine.h"

static ncclComm_t comms[DEVICES];
#define NCCL_FIELD(result, symbol, field, parameters) result(*field) parameters;
static struct {
    NCCL_FUNCTIONS(NCCL_FIELD)
} nccl;
#undef NCCL_FIELD

static void open_nccl(void)
{
    void *library = dlopen(MGPU_BINARY "/vgpu/libnccl.so.2", RTLD_NOW), *at;
#define NCCL_LOOK_UP(result, symbol, field, parameters)                                                                          \
    memcpy(&nccl.field, (at = dlsym(library, #symbol), &at), sizeof nccl.field);
    NCCL_FUNCTIONS(NCCL_LOOK_UP)
#undef NCCL_LOOK_UP
    nccl.comm_init_all(comms, DEVICES, NULL);
}

static float *at(CUdeviceptr p, int64_t element) { return (float *)(uintptr_t)(p + 4 * (CUdeviceptr)element); }
static CUstream stream_of(int d) { return gpu[d].stream[0]; }

static void expect(int d, CUdeviceptr p, int64_t i, double value)
{
    float x[100];
    download(d, x, p, 100);
    if (x[i] != (float)value)
        printf("device %d, element %d is %g, not %g\n", d, (int)i, (double)x[i], value);
}

/* in place: the member's own part of what all have */
static void reduce_scatter(int wrong)
{
    open_nccl();
    nccl.group_start();
    for (int d = 0; d < DEVICES; d++) {
        use(d);
        nccl.reduce_scatter(at(gpu[d].a, 0), at(gpu[d].a, 30 * (wrong ? 0 : d)), 30, ncclFloat32, ncclSum, comms[d],
                            stream_of(d));
    }
    nccl.group_end();
    for (int d = 0; d < DEVICES && !wrong; d++)
        for (int i = 0; i < 90; i += 29)
            expect(d, gpu[d].a, i, i / 30 == d ? 3 * i : i);
}

static void all_gather(int wrong)
{
    open_nccl();
    nccl.group_start();
    for (int d = 0; d < DEVICES; d++) {
        use(d);
        nccl.all_gather(at(gpu[d].a, 30 * d), at(wrong ? gpu[d].a : gpu[d].b, wrong), 30, ncclFloat32, comms[d], stream_of(d));
    }
    nccl.group_end();
    for (int d = 0; d < DEVICES && !wrong; d++)
        for (int i = 0; i < 90; i += 29)
            expect(d, gpu[d].b, i, i);
}

static void other_call(int wrong)
{
    open_nccl();
    nccl.group_start();
    for (int d = 0; d < DEVICES; d++) {
        use(d);
        if (wrong && d == 2)
            nccl.all_reduce(at(gpu[d].a, 0), at(gpu[d].a, 0), 100, ncclFloat32, ncclSum, comms[d], stream_of(d));
        else
            nccl.reduce(at(gpu[d].a, 0), at(gpu[d].b, 0), 100, ncclFloat32, ncclSum, 1, comms[d], stream_of(d));
    }
    nccl.group_end();
    for (int d = 0; d < DEVICES && !wrong; d++)
        expect(d, gpu[d].b, 99, d == 1 ? 297 : 0);
}

static void other_root(int wrong)
{
    open_nccl();
    nccl.group_start();
    for (int d = 0; d < DEVICES; d++) {
        use(d);
        nccl.broadcast(at(gpu[d].a, 0), at(gpu[d].b, 0), 100, ncclFloat32, wrong && d == 1 ? 1 : 2, comms[d], stream_of(d));
    }
    nccl.group_end();
    for (int d = 0; d < DEVICES && !wrong; d++)
        expect(d, gpu[d].b, 99, 99);
}

/* the parts of a group are done when it ends, each member's calls in one order */
static void group(int wrong)
{
    open_nccl();
    nccl.group_start();
    for (int d = 0; d < DEVICES; d++) {
        use(d);
        nccl.group_start();
        for (int k = 0; k < 2; k++) {
            int part = k != (wrong && d == 1), count = part ? 70 : 30;
            nccl.broadcast(at(gpu[d].a, 30 * part), at(gpu[d].b, 30 * part), (size_t)count, ncclFloat32, part, comms[d],
                           stream_of(d));
        }
        nccl.group_end();
    }
    nccl.group_end();
    for (int d = 0; d < DEVICES && !wrong; d++)
        expect(d, gpu[d].b, 99, 99);
}

/* parts that are not equal, as those of what --shard splits: each is reduced to its own member, in place */
static void unequal_parts(int wrong)
{
    static const int PARTS[DEVICES + 1] = {0, 64, 100, 100};
    open_nccl();
    nccl.group_start();
    for (int d = 0; d < DEVICES; d++) {
        use(d);
        nccl.group_start();
        for (int k = 0; k < 2; k++) {
            CUdeviceptr part = gpu[d].a;
            nccl.reduce(at(part, PARTS[k]), at(part, PARTS[k]), (size_t)(PARTS[k + 1] - PARTS[k] - (wrong && d == 1 && k)),
                        ncclFloat32, ncclSum, k, comms[d], stream_of(d));
        }
        nccl.group_end();
    }
    nccl.group_end();
    for (int d = 0; d < DEVICES && !wrong; d++)
        for (int i = 0; i < 100; i += 33)
            expect(d, gpu[d].a, i, i >= PARTS[d] && i < PARTS[d + 1] ? 3 * i : i);
}

static void no_group(int wrong)
{
    open_nccl();
    use(0);
    if (!wrong)
        nccl.group_start();
    if (nccl.group_end() != ncclSuccess && !wrong)
        printf("the group has no end\n");
    if (wrong && nccl.group_end() == ncclSuccess)
        printf("what never began has ended\n");
}

static ncclResult_t send(int from, int to, int64_t count)
{
    use(from);
    return nccl.send(at(gpu[from].a, 0), (size_t)count, ncclFloat32, to, comms[from], stream_of(from));
}

static ncclResult_t receive(int to, int from, int64_t count)
{
    use(to);
    return nccl.receive(at(gpu[to].b, 0), (size_t)count, ncclFloat32, from, comms[to], stream_of(to));
}

static void unequal_send(int wrong)
{
    open_nccl();
    send(0, 2, 100);
    receive(2, 0, wrong ? 99 : 100);
    if (!wrong)
        expect(2, gpu[2].b, 99, 99);
}

static void nobody_sends(int wrong)
{
    open_nccl();
    receive(2, 0, 100);
    if (!wrong)
        send(0, 2, 100);
}

/* two that send first: one of them has to receive first */
static void both_send(int wrong)
{
    open_nccl();
    for (int d = 0; d < 2; d++)
        for (int k = 0; k < 2; k++) {
            if (k == (d && !wrong))
                send(d, 1 - d, 100);
            else
                receive(d, 1 - d, 100);
        }
    for (int d = 0; d < 2 && !wrong; d++)
        expect(d, gpu[d].b, 99, 99);
}

static void test_refused(void)
{
    char report[REPORT];
    int status =
        in_process(NULL, 1, "vgpu", no_group, 1, report) + in_process(NULL, 1, "vgpu", no_group, 0, report + strlen(report));
    result(!status && !*report, "a group that ends and has not begun", report);
}

int main(void)
{
    open_scratch();
    both("reduce-scatter that is not in place", NULL, "vgpu", reduce_scatter, "collective",
         "the operands of ncclReduceScatter overlap, but are not in place");
    both("all-gather that is not in place", NULL, "vgpu", all_gather, "collective",
         "the operands of ncclAllGather overlap, but are not in place");
    both("another call than the others'", NULL, "vgpu", other_call, "collective",
         "calls ncclAllReduce, root 0, ncclReduce before it ncclReduce, root 1");
    both("another root", NULL, "vgpu", other_root, "collective",
         "calls ncclBroadcast, root 1, ncclBroadcast before it ncclBroadcast, root 2");
    both("a group in another order", NULL, "vgpu", group, "collective", "root");
    both("a part of another size than the others'", NULL, "vgpu", unequal_parts, "collective", "35 elements of type 7");
    both("another count than the sender's", NULL, "vgpu", unequal_send, "collective", "99 elements of type 7");
    both("a receiver to whom nobody sends", NULL, "vgpu", nobody_sends, "deadlock",
         "member 0 of ncclSend, which has not begun it");
    both("two that send to each other and then receive", NULL, "vgpu", both_send, "deadlock", "again");
    test_refused();
    count_planted(9, "of NCCL's calls");
    return failures != 0;
}
