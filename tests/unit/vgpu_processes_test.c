/* vgpu_processes_test: NCCL of virtual GPUs between two processes, the first with device 0, the second with devices 1 and 2: what
 * each transfer leaves is what it leaves in one process, and what NCCL asks of all members is asked of those of other processes,
 * too: for each thing, programs that are right and one of which is not. a[i] is i on every device. */
#include "runtime/cuda/nccl.h"
#include "vgpu_machine.h"

#include <signal.h>
#include <sys/stat.h>
#include <time.h>

enum { PROCESSES = 2, MEMBERS = 3 };
static const int FIRST[PROCESSES + 1] = {0, 1, 3};
static ncclComm_t comms[MEMBERS];
static int process, id_pipe[2];
#define NCCL_FIELD(result, symbol, field, parameters) result(*field) parameters;
static struct {
    NCCL_FUNCTIONS(NCCL_FIELD)
} nccl;
#undef NCCL_FIELD

static float *at(CUdeviceptr p, int64_t element) { return (float *)(uintptr_t)(p + 4 * (CUdeviceptr)element); }
static CUstream stream_of(int d) { return gpu[d].stream[0]; }
#define EACH_OWN(d) for (int d = FIRST[process]; d < FIRST[process + 1]; d++)

static void expect(int d, CUdeviceptr p, int64_t i, double value)
{
    float x[100];
    download(d, x, p, 100);
    if (x[i] != (float)value)
        printf("device %d, element %d is %g, not %g\n", d, (int)i, (double)x[i], value);
}

/* the first process makes the id, and the second reads it */
static ncclUniqueId open_nccl(void)
{
    ncclUniqueId id;
    void *library = dlopen(MGPU_BINARY "/vgpu/libnccl.so.2", RTLD_NOW), *symbol;
#define NCCL_LOOK_UP(result, name, field, parameters)                                                                            \
    memcpy(&nccl.field, (symbol = dlsym(library, #name), &symbol), sizeof nccl.field);
    NCCL_FUNCTIONS(NCCL_LOOK_UP)
#undef NCCL_LOOK_UP
    if (process == 0 && (nccl.get_unique_id(&id) || write(id_pipe[1], &id, sizeof id) != sizeof id))
        printf("no id\n");
    if (process == 1 && read(id_pipe[0], &id, sizeof id) != sizeof id)
        printf("no id\n");
    return id;
}

/* of the members that this process has: rank and device `rank` */
static ncclResult_t connect_own(ncclUniqueId id, const int *rank, const int *device, int count)
{
    nccl.group_start();
    EACH_OWN(d)
    {
        use(device[d]);
        nccl.comm_init_rank(&comms[d], count, id, rank[d]);
    }
    return nccl.group_end();
}

static void open_all(void)
{
    static const int SAME[] = {0, 1, 2};
    if (connect_own(open_nccl(), SAME, SAME, MEMBERS))
        printf("no communicator\n");
}

static void close_all(void)
{
    EACH_OWN(d)
    if (nccl.comm_destroy(comms[d]))
        printf("not destroyed\n");
}

/* who is right closes: the first process takes its part of the communicator with it */
static void finish_own(int wrong)
{
    EACH_OWN(d)
    finish(d);
    if (!wrong)
        close_all();
}

/* ---- what transfers leave */
static void all_reduce(int d, CUdeviceptr p, int64_t count)
{
    use(d);
    nccl.all_reduce(at(p, 0), at(p, 0), (size_t)count, ncclFloat32, ncclSum, comms[d], stream_of(d));
}

static void transfers(int wrong)
{
    static const int PARTS[MEMBERS + 1] = {0, 64, 100, 100};
    (void)wrong;
    open_all();
    nccl.group_start();
    EACH_OWN(d)
    {
        use(d);
        nccl.all_gather(at(gpu[d].a, 30 * d), at(gpu[d].b, 0), 30, ncclFloat32, comms[d], stream_of(d));
        nccl.broadcast(at(gpu[d].a, 7), at(gpu[d].b, 90), 5, ncclFloat32, 2, comms[d], stream_of(d));
        nccl.reduce_scatter(at(gpu[d].a, 0), at(gpu[d].a, 30 * d), 30, ncclFloat32, ncclSum, comms[d], stream_of(d));
        if (d != 1)
            d ? nccl.receive(at(gpu[d].w, 0), 10, ncclFloat32, 0, comms[d], stream_of(d))
              : nccl.send(at(gpu[d].b, 20), 10, ncclFloat32, 2, comms[d], stream_of(d));
        for (int k = 0; k < 2; k++)
            nccl.reduce(at(gpu[d].b, PARTS[k]), at(gpu[d].b, PARTS[k]), (size_t)(PARTS[k + 1] - PARTS[k]), ncclFloat32, ncclSum,
                        k, comms[d], stream_of(d));
    }
    EACH_OWN(d)
    all_reduce(d, gpu[d].a, 100);
    nccl.group_end();
    EACH_OWN(d)
    {
        for (int i = 0; i < 90; i += 29)
            expect(d, gpu[d].a, i, 5 * i); /* 3 i of one member, i of two */
        expect(d, gpu[d].b, 92, (d == 1 ? 3 : 1) * 9);
        expect(d, gpu[d].b, 63, (d == 0 ? 3 : 1) * 63);
        expect(d, gpu[d].w, 9, d == 2 ? 29 : 0);
    }
    close_all();
}

/* ---- what is asked of all */
static void other_count(int wrong)
{
    open_all();
    nccl.group_start();
    EACH_OWN(d)
    all_reduce(d, gpu[d].a, process && wrong ? 99 : 100);
    nccl.group_end();
    finish_own(wrong);
}

static void other_call(int wrong)
{
    open_all();
    nccl.group_start();
    EACH_OWN(d)
    if (process && wrong)
        nccl.broadcast(at(gpu[d].a, 0), at(gpu[d].a, 0), 100, ncclFloat32, 0, comms[d], stream_of(d));
    else
        all_reduce(d, gpu[d].a, 100);
    nccl.group_end();
    finish_own(wrong);
}

static void other_order(int wrong)
{
    open_all();
    for (int k = 0; k < 2; k++) {
        nccl.group_start();
        EACH_OWN(d)
        {
            bool b = k != (process && wrong);
            CUdeviceptr p = b ? gpu[d].b : gpu[d].a;
            declare(stream_of(d), "a sum",
                    (CudaRange[]){range_of(p, 0, 100, 0, b ? "b" : "a"), range_of(p, 0, 100, 1, b ? "b" : "a")}, 2);
            all_reduce(d, p, 100);
        }
        nccl.group_end();
    }
    finish_own(wrong);
}

static void said(ncclResult_t r)
{
    if (r)
        printf("status %d\n", r);
    else
        close_all();
}

static void same_rank(int wrong)
{
    static const int DEVICE[] = {0, 1, 2};
    said(connect_own(open_nccl(), wrong ? (int[]){1, 1, 2} : DEVICE, DEVICE, MEMBERS));
}

static void same_gpu(int wrong)
{
    static const int RANK[] = {0, 1, 2};
    said(connect_own(open_nccl(), RANK, wrong ? (int[]){1, 1, 2} : RANK, MEMBERS));
}

static void give_up(int signal)
{
    static const char TEXT[] = "it waits for ever\n";
    (void)signal;
    _exit(write(1, TEXT, sizeof TEXT - 1) < 0);
}

static void no_group(int wrong)
{
    ncclUniqueId id = open_nccl();
    signal(SIGALRM, give_up);
    alarm(wrong ? 1 : 30);
    if (!wrong)
        nccl.group_start();
    EACH_OWN(d)
    {
        use(d);
        nccl.comm_init_rank(&comms[d], MEMBERS, id, d);
    }
    if (!wrong)
        said(nccl.group_end());
}

/* the second process ends, with or without a word */
static void gone(int wrong)
{
    open_all();
    nanosleep(&(struct timespec){.tv_nsec = 300000000}, NULL); /* the other one has its communicator */
    if (process && wrong)
        _exit(0);
    ncclResult_t error = ncclSuccess;
    for (int i = 0; i < (wrong ? 500 : 10) && !error; i++) {
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
        EACH_OWN(d)
        nccl.comm_get_async_error(comms[d], &error);
    }
    if (error)
        printf("error %d, a call %d\n", error,
               nccl.all_reduce(at(gpu[0].a, 0), at(gpu[0].a, 0), 100, ncclFloat32, ncclSum, comms[0], stream_of(0)));
    close_all();
}

/* ---- two processes */
static bool run_together(Scenario *scenario, int wrong, uint64_t seed, char *report)
{
    int ends[2], status, all = 0;
    fflush(stdout);
    if (pipe(ends) || pipe(id_pipe))
        return false;
    for (process = 0; process < PROCESSES; process++) {
        if (fork() > 0)
            continue;
        dup2(ends[1], 1);
        if (!freopen("/dev/null", "w", stderr))
            _exit(7);
        /* each writes its machine there */
        snprintf(scratch + strlen(scratch), sizeof scratch - strlen(scratch), "/%d", process);
        open_machine("patience 3", seed + (uint64_t)(10 * process), "vgpu");
        scenario(wrong);
        for (int k = 0; violation(k); k++)
            printf("%s\n", violation(k));
        fflush(stdout);
        _exit(0);
    }
    close(ends[1]);
    read_report(ends[0], report);
    const int OPEN[] = {ends[0], id_pipe[0], id_pipe[1]};
    for (int i = 0; i < COUNT(OPEN); i++)
        close(OPEN[i]);
    for (int i = 0; i < PROCESSES; i++) {
        wait(&status);
        all |= status;
    }
    return all == 0;
}

static void together(const char *name, Scenario *scenario, const char *text) /* NULL: there is no wrong one */
{
    char report[REPORT], why[REPORT + 200] = "";
    for (uint64_t seed = 1; seed <= 2 && !*why; seed++) {
        bool ends = run_together(scenario, 0, seed, report);
        if (!ends || *report)
            snprintf(why, sizeof why, "seed %d, the right ones: %s", (int)seed, *report ? report : "one fails");
        if (!*why && text && (!run_together(scenario, 1, seed, report) || !strstr(report, text)))
            snprintf(why, sizeof why, "seed %d, the wrong ones: %s", (int)seed, *report ? report : "nothing found");
    }
    result(!*why, name, why);
}

int main(void)
{
    open_scratch();
    for (int p = 0; p < PROCESSES; p++) {
        char folder[400], from[400], to[600];
        snprintf(folder, sizeof folder, "%s/%d", scratch, p);
        snprintf(from, sizeof from, "%s/vgpu.so", scratch);
        snprintf(to, sizeof to, "%s/vgpu.so", folder);
        if (mkdir(folder, 0700) || symlink(from, to))
            return 3;
    }
    together("transfers between processes", transfers, NULL);
    together("another count in another process", other_count, "elements of type 7");
    together("another call in another process", other_call, "calls nccl");
    together("another order in another process", other_order, "the order is not the same");
    together("a rank that two processes have", same_rank, "status 5");
    together("a GPU that two processes have", same_gpu, "status 5");
    together("ranks that are not in a group", no_group, "it waits for ever");
    together("a process that is gone without a word", gone, "error 6, a call 6");
    return failures != 0;
}
