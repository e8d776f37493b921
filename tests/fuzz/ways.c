/* ways.c: a model, compiled and run in ways that are drawn at random, against what the interpreter computes.
 *
 * A way is all that must not change a number: host devices, virtual GPUs or PTX on them, one to eight of them, nodes, a plan, a
 * --shard, buckets, how the batch is split, micro-batches, recomputing, fusion, the compiler, threads, libraries, transfers,
 * orders of streams, processes of MPI, and a run that stops after a step and goes on by another way. What a model does not go
 * with, the compiler refuses in words with status 1 or 2; such ways are counted. A line of output says each way, as commands of a
 * shell. */
#include "tests/fuzz/ways.h"

#include "tests/fuzz/compiled.h"
#include "tests/fuzz/fuzz.h"

#include <math.h>
#include <stdlib.h>

enum { WAYS_OF_MODEL = 2, GPUS = 8 };
static const double TOLERANCE = 1e-10;

typedef enum DeviceKind { ON_HOST, ON_GPUS, BY_PTX } DeviceKind;

typedef struct Drawer {
    Random r;
    const char *mgpuc;
    bool mpi; /* this machine has one */
} Drawer;

static int below(Drawer *d, int n) { return (int)random_below(&d->r, (size_t)n); }
static bool chance(Drawer *d, int percent) { return below(d, 100) < percent; }
#define ONE_OF(D, LIST) ((LIST)[below(D, COUNT(LIST))])

/* ---- how it is compiled */
static const char *const HOST_PLANS[] = {"keras",
                                         "bcast-slice",
                                         "cpu-slice",
                                         "tower-avg",
                                         "staged-input",
                                         "ps-gpu",
                                         "ring-fused",
                                         "replicated-copy",
                                         "auto,reduce=tree",
                                         "auto,reduce=ring",
                                         "auto,slots=4",
                                         "auto,slots=1",
                                         "auto,input=slice",
                                         "auto,input=whole",
                                         "auto,waited=sync",
                                         "auto,waited=comm",
                                         "auto,variables=host",
                                         "auto,variables=device"};
static const char *const GPU_PLANS[] = {"keras",
                                        "ps-cpu",
                                        "ps-gpu",
                                        "staged-input",
                                        "replicated-copy",
                                        "replicated-nccl",
                                        "ring-fused",
                                        "auto,reduce=tree",
                                        "auto,reduce=peer",
                                        "auto,reduce=copy",
                                        "auto,reduce=host",
                                        "auto,slots=4",
                                        "auto,slots=1",
                                        "auto,input=slice",
                                        "auto,input=whole",
                                        "auto,waited=sync",
                                        "auto,waited=comm",
                                        "auto,variables=host",
                                        "auto,variables=device"};
static const char *const SHARDS[] = {"optimizer", "gradients", "weights"};
static const char *const BUCKETS[] = {"1", "100", "1000", "1000000000"};
static const char *const PLAIN[] = {"--no-fuse", "--no-reuse", "--bodies"};
static const char *const ARCHS[] = {"compute_80", "compute_90", "compute_90a", "compute_100"};

typedef struct Made { /* a program */
    DeviceKind target;
    int devices, capability;
    bool processes;
    const char *command, *compilers; /* compilers: of the program and, as it runs, of its PTX */
} Made;

/* shares of the devices */
static const char *shares(Drawer *d, int devices)
{
    Text t = {0};
    for (int i = 0; i < devices; i++)
        text_add(&t, "%s%d", i ? "," : "", 1 + below(d, 6));
    return text_of(&t);
}

static void draw_plan(Drawer *d, Made *m, Text *options)
{
    bool host = m->target == ON_HOST;
    switch (below(d, 6)) {
    case 0:
    case 1: text_add(options, " --plan %s", host ? ONE_OF(d, HOST_PLANS) : ONE_OF(d, GPU_PLANS)); break;
    case 2:
    case 3: text_add(options, " --shard %s", ONE_OF(d, SHARDS)); break;
    case 4: text_add(options, " --split %s", shares(d, m->devices)); break;
    default: break;
    }
}

/* room for a part of what the program takes without recomputing */
static const char *recomputing(Drawer *d, const char *options)
{
    return format(
        " --set 'recompute=\"auto\"' --memory $('%s' check '%s'%s --json | grep -o '\"bytes\":[0-9]*' | awk -F: '{ all += $2; if ($2 > most) most = $2 } "
        "END { printf \"%%dkB\", %s * %.5f }')",
        d->mgpuc, model_file, options, strstr(options, "host:") ? "all" : "most", (0.5 + 0.05 * below(d, 10)) / 1000);
}

static Made draw_program(Drawer *d)
{
    static const int DEVICES[] = {1, 1, 2, 2, 2, 3, 3, 4, 5, 6, 7, 8};
    Made m = {.target = chance(d, 45)   ? ON_HOST
                        : chance(d, 60) ? ON_GPUS
                                        : BY_PTX,
              .devices = ONE_OF(d, DEVICES),
              .capability = 80};
    const char *arch = m.target == BY_PTX ? ONE_OF(d, ARCHS) : chance(d, 8) ? "vgpu-check" : "vgpu";
    bool host = m.target == ON_HOST;
    if (m.target == BY_PTX)
        m.capability = (int)strtol(arch + strlen("compute_"), NULL, 10);
    m.processes = m.devices > 1 && chance(d, 25) && d->mpi;
    bool nodes = m.devices % 2 == 0 && chance(d, 20);
    Text t = {0};
    if (nodes)
        text_add(&t, " --machine %s --devices %s2x%d", host ? "host2-eth" : "h100x8-ib", host ? "host:" : "", m.devices / 2);
    else
        text_add(&t, " --devices %s:%d", host ? "host" : "cuda", m.devices);
    if (!host)
        text_add(&t, " --arch %s", arch);
    if (m.devices > 1)
        draw_plan(d, &m, &t);
    if (m.devices > 1 && chance(d, 25))
        text_add(&t, " --bucket %s", ONE_OF(d, BUCKETS));
    if (chance(d, 15))
        text_add(&t, " --set accumulate=%d", 1 + below(d, 5));
    if (chance(d, 15))
        text_add(&t, " %s", ONE_OF(d, PLAIN));
    if (chance(d, 15))
        text_add(&t, "%s", recomputing(d, text_of(&t)));
    /* g++ alone asks at every access */
    m.compilers = chance(d, 30) || strcmp(arch, "vgpu-check") == 0 ? "CC='cc -O2' CXX='c++ -O1' " : "";
    if (m.processes)
        text_add(&t, " --mpi"); /* which recomputing does not ask for */
    m.command = format("%s'%s' '%s'%s -o", m.compilers, d->mgpuc, model_file, text_of(&t));
    return m;
}

/* ---- how it runs */
static const char *const WAYS_OF_GPUS[] = {"peer", "copy", "host", "nccl"};
static const char *const GRAPHS[] = {"off", "wait", "on", "nccl"};

static void draw_machine(Drawer *d, const Made *m, Text *t)
{
    text_add(t, "printf '%%s\\n' 'devices %d' 'driver 13.0' 'capability * %d.0' 'seed %d'%s >machine; ", GPUS, m->capability / 10,
             below(d, 1000), m->target == BY_PTX && chance(d, 60) ? " 'ptx quick'" : "");
}

/* what is before the program and after it */
static const char *draw_run(Drawer *d, const Made *m, const char *program, const char *options)
{
    Text t = {0};
    int processes = m->processes && chance(d, 80) ? 1 + below(d, m->devices < 4 ? m->devices : 4) : 0, threads = 1 + below(d, 4);
    bool tunes = m->target == ON_GPUS && chance(d, 8);
    if (m->target != ON_HOST)
        draw_machine(d, m, &t);
    text_add(&t, "%s", m->compilers);
    if (m->target != ON_HOST) {
        text_add(&t, "MGPU_VGPU=$PWD/machine ");
        if (chance(d, 30) || tunes)
            text_add(&t, "MGPU_CUDNN=on ");
        if (chance(d, 30))
            text_add(&t, "MGPU_CUBLASLT=off ");
        if (chance(d, 30))
            text_add(&t, "MGPU_GRAPHS=%s ", ONE_OF(d, GRAPHS));
        if (!processes && chance(d, 30))
            text_add(&t, "MGPU_COLLECTIVE=%s ", ONE_OF(d, WAYS_OF_GPUS));
        if (tunes)
            text_add(&t, "MGPUC_CACHE=$PWD/tuned ");
    } else if (chance(d, 30)) {
        text_add(&t, "MGPU_ONEDNN=off ");
    }
    if (processes)
        text_add(&t, "timeout 100 mpirun $(mpirun --version | grep -q 'Open MPI' && echo --oversubscribe) -n %d ", processes);
    text_add(&t, "./%s %s --devices %d --threads %d%s", program, options, m->devices, threads, tunes ? " --tune" : "");
    return text_of(&t);
}

/* ---- a way: one run, or the beginning of one and its end by another program */
static bool was_refused(const char *why)
{
    return strstr(why, "ended with 1:") || strstr(why, "ended with 2:") || strstr(why, "need NVRTC");
}

typedef struct WayDrawn {
    const char *builds[2], *train, *predict;
} WayDrawn;

static WayDrawn draw_way(Drawer *d)
{
    Made first = draw_program(d), last = first;
    WayDrawn w = {.builds = {format("%s first", first.command)}};
    const char *options = training_options(), *program = "first";
    w.train = "";
    if (chance(d, 30)) {
        last = draw_program(d);
        program = "last";
        w.builds[1] = format("%s last", last.command);
        w.train = format("%s && ", draw_run(d, &first, "first", format("%s --stop-after %d", options, 1 + below(d, STEPS - 1))));
        options = format("%s --resume save", options);
    }
    w.train = format("%s%s", w.train, draw_run(d, &last, program, options));
    w.predict = draw_run(d, &last, program, "predict valid --data .");
    return w;
}

/* NULL, or why; *refused: it is no mistake */
static const char *run_way(const char *folder, const WayDrawn *w, const char *text, const Trace *expected, Trace *found,
                           bool *refused)
{
    for (int i = 0; i < COUNT(w->builds) && w->builds[i]; i++) {
        const char *why = run_command(folder, w->builds[i]);
        *refused = why && was_refused(why);
        if (why)
            return why;
    }
    int compared;
    const char *why = run_program(folder, text, w->train, w->predict, found);
    *refused = why && was_refused(why);
    if (!why)
        why = trace_compare(expected, found, TOLERANCE, &compared);
    return !why && compared < 2 * STEPS ? format("only %d numbers to compare", compared) : why;
}

const char *check_ways(const char *folder, uint64_t seed, const char *text, const Net *reference, const Trace *expected,
                       Trace *found, WayCounts *counts)
{
    const char *mgpuc = getenv("MGPUC"), *why = write_model(folder, text, reference->m);
    Drawer drawer = {.r = {seed ^ 0x77617973u},
                     .mgpuc = mgpuc ? mgpuc : "mgpuc",
                     .mpi = system("command -v mpicc >/dev/null && command -v mpirun >/dev/null") == 0};
    for (int i = 0; i < WAYS_OF_MODEL && !why; i++) {
        WayDrawn w = draw_way(&drawer);
        bool refused = false;
        *found = (Trace){0};
        why = run_way(folder, &w, text, expected, found, &refused);
        counts->run++;
        counts->refused += refused;
        printf("# %s %s; %s; %s\n",
               refused ? "refused"
               : why   ? "wrong"
                       : "right",
               w.builds[0], w.builds[1] ? w.builds[1] : "", w.train);
        if (refused)
            printf("# %s\n", strstr(why, "error:") ? strstr(why, "error:") : why);
        why = refused ? NULL : why;
    }
    if (!why)
        run_command(folder, "rm -rf ./*");
    return why;
}
