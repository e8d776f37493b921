/* The runtime of plans of the kind "cuda", with the program of linear_program.h and a driver without GPUs (fake_cuda.c): its
 * streams run after pauses of random length, so losses are right only if every wait that is needed is there. */
#include "runtime/base/base.h"
#include "tests/unit/fake_cuda/fake_cuda.h"
#include "tests/unit/linear_run.h"

#include "runtime/cuda/driver.h"
#include "runtime/abi/mgpu_half.h"
#include "runtime/abi/mgpu_members.h"

/* ---- the program's kernels, as the fake driver calls them: arguments, the step block, the number of samples */
static const int ARGUMENTS[] = {
    [K_INIT] = 2, [K_COUNT] = 3,   [K_ERRORS] = 4,    [K_ACCUMULATE] = 7, [K_GRADIENT] = 8,    [K_UPDATE] = 8,
    [K_EVAL] = 5, [K_PREDICT] = 3, [K_TAKE_SUMS] = 3, [K_REPORT] = 2,     [K_REPORT_TRAIN] = 4};
enum { KERNEL_COUNT = MGPU_COUNT(KERNELS) };

static void call_kernel(int number, bool finishes, void **parameters)
{
    void *argument[FAKE_PARAMETERS];
    const mgpu_kernel *k = &KERNELS[number];
    for (int i = 0; i < ARGUMENTS[number]; i++)
        argument[i] = *(void **)parameters[i];
    const mgpu_step *step = *(const mgpu_step **)parameters[ARGUMENTS[number]];
    int64_t n = *(int64_t *)parameters[ARGUMENTS[number] + 1];
    mgpu_part part = {.samples = n,
                      .end = k->split == MGPU_SPLIT_SAMPLES ? n
                             : k->split == MGPU_SPLIT_RANGE ? k->extent
                                                            : 1,
                      .threads = 1,
                      .first = true};
    (finishes ? k->finish : k->run)(argument, step, &part);
}

#define THUNKS(number)                                                                                                           \
    static void run_##number(void **parameters, unsigned blocks) { (void)blocks, call_kernel(number, false, parameters); }       \
    static void finish_##number(void **parameters, unsigned blocks) { (void)blocks, call_kernel(number, true, parameters); }
THUNKS(0)
THUNKS(1)
THUNKS(2) THUNKS(3) THUNKS(4) THUNKS(5) THUNKS(6) THUNKS(7) THUNKS(8) THUNKS(9) THUNKS(10) typedef void Thunk(void **, unsigned);
static Thunk *const RUN[] = {run_0, run_1, run_2, run_3, run_4, run_5, run_6, run_7, run_8, run_9, run_10};
static Thunk *const FINISH[] = {finish_0, finish_1, finish_2, finish_3, finish_4, finish_5,
                                finish_6, finish_7, finish_8, finish_9, finish_10};

static void add_kernel(FakeImage *image, FakeKernel *kernels, const char *name, Thunk *call, int arguments)
{
    FakeKernel *k = &kernels[image->count++];
    *k = (FakeKernel){.name = name, .call = call};
    for (int i = 0; i < arguments + 2; i++)
        k->bytes[i] = 8;
}

/* as mgpu_device_collective.h */
#define SUM(name, type)                                                                                                          \
    static void sum_##name(void **parameters, unsigned blocks)                                                                   \
    {                                                                                                                            \
        const mgpu_members *m = parameters[0];                                                                                   \
        (void)blocks;                                                                                                            \
        for (int64_t i = *(int64_t *)parameters[1]; i < *(int64_t *)parameters[2]; i++) {                                        \
            type sum = ((const type *)m->from[0])[i];                                                                            \
            for (int d = 1; d < m->from_count; d++)                                                                              \
                sum = (type)(sum + ((const type *)m->from[d])[i]);                                                               \
            for (int d = 0; d < m->to_count; d++)                                                                                \
                ((type *)m->to[d])[i] = sum;                                                                                     \
        }                                                                                                                        \
    }
#define HALF_SUM(name)                                                                                                           \
    static void sum_##name(void **parameters, unsigned blocks)                                                                   \
    {                                                                                                                            \
        const mgpu_members *m = parameters[0];                                                                                   \
        (void)blocks;                                                                                                            \
        for (int64_t i = *(int64_t *)parameters[1]; i < *(int64_t *)parameters[2]; i++) {                                        \
            double sum = 0;                                                                                                      \
            for (int d = 0; d < m->from_count; d++)                                                                              \
                sum += (double)mgpu_from_##name(((const mgpu_##name *)m->from[d])[i]);                                           \
            for (int d = 0; d < m->to_count; d++)                                                                                \
                ((mgpu_##name *)m->to[d])[i] = mgpu_to_##name((float)sum);                                                       \
        }                                                                                                                        \
    }
SUM(f32, float)
SUM(f64, double)
SUM(u8, uint8_t) SUM(u16, uint16_t) SUM(u32, uint32_t) SUM(u64, uint64_t) HALF_SUM(bf16) HALF_SUM(f16) static const struct {
    const char *name;
    Thunk *call;
} SUMS_OF[] = {{"mgpu_sum_f32", sum_f32}, {"mgpu_sum_f64", sum_f64}, {"mgpu_sum_u8", sum_u8},     {"mgpu_sum_u16", sum_u16},
               {"mgpu_sum_u32", sum_u32}, {"mgpu_sum_u64", sum_u64}, {"mgpu_sum_bf16", sum_bf16}, {"mgpu_sum_f16", sum_f16}};

static mgpu_program make_cuda_program(int64_t batch, int64_t accumulate)
{
    static mgpu_gpu_kernel gpu[KERNEL_COUNT];
    static FakeKernel kernels[2 * KERNEL_COUNT + 8];
    static FakeImage image;
    static const char *const ARCHS[] = {"sm_90", "sm_100", "compute_100", "sm_100", "compute_100"};
    static mgpu_image images[MGPU_COUNT(ARCHS) + 1];
    image = (FakeImage){FAKE_MAGIC, 0, kernels};
    for (int k = 0; k < KERNEL_COUNT; k++) {
        gpu[k] = (mgpu_gpu_kernel){.name = KERNELS[k].name,
                                   .line = KERNELS[k].line,
                                   .launch = {{KERNELS[k].name, 0, 1, 0, 2, 1000, 64, 0, 0, 0, false}}};
        add_kernel(&image, kernels, KERNELS[k].name, RUN[k], ARGUMENTS[k]);
        if (!KERNELS[k].finish)
            continue;
        gpu[k].launch[1] = (mgpu_launch){mgpu_format("%s_finish", KERNELS[k].name), 1, 0, 0, 1, 1, 32, 100 << 10, 0, 0, false};
        add_kernel(&image, kernels, gpu[k].launch[1].function, FINISH[k], ARGUMENTS[k]);
    }
    for (int i = 0; i < MGPU_COUNT(SUMS_OF); i++)
        kernels[image.count++] = (FakeKernel){SUMS_OF[i].name, SUMS_OF[i].call, {sizeof(mgpu_members), 8, 8}};
    for (int i = 0; i < MGPU_COUNT(ARCHS); i++)
        images[i] = (mgpu_image){ARCHS[i], (const uint8_t *)&image, sizeof image, 0};
    mgpu_program p = make_program_of("cuda", batch, accumulate);
    p.kernels = NULL;
    p.gpu_kernels = gpu;
    p.images = images;
    p.command = "mgpuc linear.net --devices cuda:1,2,3,4 -o train";
    return p;
}

/* ---- cases */
enum { LOSSES = 4 };

/* brief: of one batch alone; every other way, on four devices, where the most is at the same time. Without MGPU_FULL two of the
 * batches take each way on four devices alone */
static void test_losses(Test *t, bool brief)
{
    const char *all = getenv("MGPU_FULL");
    bool full = all && *all;
    static const struct {
        int batch, accumulate;
    } CASES[LOSSES] = {{7, 3}, {7, 1}, {1, 1}, {64, 4}};
    static const struct {
        const char *graphs, *collective, *devices, *fake;
    } WAYS[] = {{"on", "auto", "", ""},       {"on", "peer", "cuda:0x", ""},
                {"off", "copy", "cuda:", ""}, {"on", "copy", "cuda:0x", ""},
                {"wait", "peer", "", ""},     {"on", "host", "", ""},
                {"off", "nccl", "", ""},      {"on", "auto", "", " bad_link=3-2"},
                {"on", "ring", "", ""},       {"wait", "tree", "cuda:0x", ""},
                {"off", "device", "", ""}};
    for (int c = 0; c < (brief ? 1 : LOSSES); c++) {
        mgpu_program p = make_cuda_program(CASES[c].batch, CASES[c].accumulate);
        Reference r;
        reference(&r, CASES[c].batch, 3, true);
        for (int w = 0; w < MGPU_COUNT(WAYS); w += brief ? 2 : 1)
            for (int devices = brief || (!full && c % 2) ? 4 : 1; devices <= 4; devices += devices) {
                const char *why = "exit status";
                char *name = mgpu_format("losses/batch-%d-accumulate-%d-%s%d-graphs-%s-%s%s", CASES[c].batch, CASES[c].accumulate,
                                         WAYS[w].devices, devices, WAYS[w].graphs, WAYS[w].collective, WAYS[w].fake);
                char *arguments = mgpu_format("--devices %s%d --log log --no-save", WAYS[w].devices, devices);
                char *fake = mgpu_format("gpus=4 pause=200 seed=%d%s", 100 * c + 10 * devices + w, WAYS[w].fake);
                setenv("FAKE_CUDA", fake, 1);
                setenv("MGPU_GRAPHS", WAYS[w].graphs, 1);
                setenv("MGPU_COLLECTIVE", WAYS[w].collective, 1);
                say(t, name, run(t, &p, arguments) == 0 && same_losses(t, "log", &r, &why), why);
            }
    }
    unsetenv("MGPU_GRAPHS");
    unsetenv("MGPU_COLLECTIVE");
}

typedef struct Case {
    const char *fake, *variables, *arguments;
    int status;
    const char *message;
} Case;

/* variables: "NAME=VALUE NAME=VALUE" */
static void set_variables(const char *variables, bool set)
{
    char text[300], *rest = NULL;
    snprintf(text, sizeof text, "%s", variables);
    for (char *word = strtok_r(text, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) {
        char *equals = strchr(word, '=');
        *equals = 0;
        if (set)
            setenv(word, equals + 1, 1);
        else
            unsetenv(word);
    }
}

static void test_cases(Test *t, const char *title, const mgpu_program *p, const Case *cases, int count)
{
    for (int i = 0; i < count; i++) {
        const Case *c = &cases[i];
        char *name = mgpu_format("%s/%s %s %s", title, c->fake, c->variables, c->arguments), why[40];
        setenv("FAKE_CUDA", c->fake, 1);
        set_variables(c->variables, true);
        int status = run(t, p, c->arguments);
        set_variables(c->variables, false);
        setenv("MGPU_CUDA_LIBRARIES", MGPU_BINARY "/tests/fake_cuda", 1);
        snprintf(why, sizeof why, "status %d, or the message", status);
        say(t, name, status == c->status && said(t, c->message), why);
    }
}

/* Fake GPU A is the driver's first and the last one on the bus */
static void test_selection(Test *t)
{
    static const Case CASES[] = {
        {"gpus=3", "", "--no-save", 0, "Fake GPU C, driver 12.4\n"},
        {"gpus=3", "", "--no-save --devices cuda", 0, "Fake GPU C, driver 12.4\n"},
        {"gpus=3", "", "--no-save --devices 2", 0,
         "Fake GPU C, driver 12.4 + Fake GPU B, driver 12.4; all-reduces over 2 devices: NCCL 2.20.3\n"},
        {"gpus=3", "", "--no-save --devices cuda:2,0", 0, "Fake GPU A, driver 12.4 + Fake GPU C, driver 12.4; all-reduces"},
        {"gpus=3", "CUDA_VISIBLE_DEVICES=0,1,2", "--no-save --devices cuda:2,0", 0,
         "Fake GPU C, driver 12.4 + Fake GPU A, driver 12.4; all-reduces"},
        {"gpus=3", "", "--no-save --devices cuda:1x1", 0, "Fake GPU B, driver 12.4\n"},
        {"gpus=3", "", "--no-save --devices cuda:1x3", 0, "Fake GPU B, driver 12.4; all-reduces over 3 devices: peer\n"},
        {"gpus=3", "", "--no-save --devices cuda:0x2,1", 0,
         "Fake GPU C, driver 12.4 + Fake GPU B, driver 12.4; all-reduces over 3 devices: peer\n"},
        {"gpus=3", "", "--no-save --devices cuda:0000:F0:00.0", 0, "Fake GPU A, driver 12.4\n"},
        {"gpus=3", "", "--no-save --devices cuda:00000000:ef:00.0x2", 0,
         "Fake GPU B, driver 12.4; all-reduces over 2 devices: peer\n"},
        {"gpus=3", "", "--no-save --devices cuda:gpu-1212,GPU-1010", 0,
         "Fake GPU C, driver 12.4 + Fake GPU A, driver 12.4; all-reduces"},
        {"gpus=3", "", "--no-save --devices cuda:GPU-1", 3,
         "--devices GPU-1: several GPUs' UUIDs begin like that; here are GPU 0 (Fake GPU C, 0000:ee:00.0, "
         "GPU-12121212-1212-1212-1212-121212121207), GPU 1 ("},
        {"gpus=3", "", "--no-save --devices cuda:GPU-f", 3,
         "--devices GPU-f: no GPU has such a UUID; here are GPU 0 (Fake GPU C,"},
        {"gpus=3", "", "--no-save --devices cuda:0000:01:00.0", 3,
         "there is no GPU at that place of the bus; here are GPU 0 (Fake GPU C,"},
        {"gpus=3", "", "--no-save --devices cuda:0,3", 3, "--devices 3: there is no GPU of that index; here are GPU 0 ("},
        {"gpus=3", "", "--no-save --devices cuda:0,x", 2,
         "--devices 'x' is no GPU: an index as in nvidia-smi (0), a UUID (GPU-...), a bus id (0000:65:00.0)"},
        {"gpus=3", "", "--no-save --devices cuda:0", 2,
         "--devices cuda:0 is for no device, as a number alone is a count; GPU 0 alone is cuda:0x1\n"},
        {"gpus=3", "", "--no-save --devices host:2", 2,
         "this program holds plans for 1, 2, 3, 4 cuda devices, not 2 host; compile with: mgpuc --devices host:2"},
        {"gpus=3", "", "--no-save --devices 4", 3,
         "the program wants 4 GPUs, there are 3; --devices says how many, --devices cuda:0x4 makes one GPU do for all"},
        {"gpus=3 divided=1", "", "--no-save --devices cuda:0,1", 0,
         "all-reduces over 2 devices: host, no NCCL (NCCL 2.20.3 joins no slices of GPUs (MIG); 2.31 does, with a driver of CUDA "
         "13.0)"},
        {"gpus=0", "", "--no-save", 3,
         "the program is made for NVIDIA GPUs: NVIDIA's driver finds no GPU; nvidia-smi -L lists those that work\n"},
        {"gpus=0", "CUDA_VISIBLE_DEVICES=7", "--no-save", 3, "NVIDIA's driver shows no GPU: CUDA_VISIBLE_DEVICES is '7'"},
        {"gpus=2", "", "info", 0,
         "  0  Fake GPU B, 0000:ef:00.0, GPU-11111111-1111-1111-1111-111111111107, 1,073,741,824 bytes, compute capability "
         "9.0\n"},
        {"gpus=2", "", "info", 0, "  kernels for sm_90, sm_100, compute_100\n"},
        {"gpus=2 divided=1", "", "info", 0, "compute capability 9.0, a slice (MIG)\n"},
        {"gpus=2", "MGPU_CUDA_LIBRARIES=/nowhere", "info", 0,
         "GPUs\n  none: /nowhere/libcuda.so.1: cannot open shared object file"},
        {"gpus=2", "MGPU_CUDA_LIBRARIES=/nowhere", "--no-save", 3,
         "the program is made for NVIDIA GPUs: /nowhere/libcuda.so.1: cannot open shared object file: No such file or directory; "
         "MGPU_CUDA_LIBRARIES names that folder"},
        {"gpus=2", "", "bench --devices 2 --steps 3 --profile", 0, "all-reduces over 2 devices: NCCL 2.20.3\nstep "},
        {"gpus=2", "", "bench --steps 3 --profile", 0, "  gradient "},
        {"gpus=2", "", "bench --json --steps 3", 0,
         "\"device\": \"cuda\", \"devices\": 1, \"batch\": 4, \"precision\": \"f64\", \"mode\": \"compiled\", \"layout\": null, "
         "\"threads\": 0, "},
    };
    mgpu_program p = make_cuda_program(4, 1);
    test_cases(t, "selection", &p, CASES, MGPU_COUNT(CASES));
}

static void test_messages(Test *t)
{
    static const Case CASES[] = {
        {"capability=86", "", "--no-save", 3,
         "device 0: Fake GPU A, 0000:f0:00.0, has compute capability 8.6, the program holds kernels for sm_90, sm_100, "
         "compute_100; compile with: mgpuc --arch sm_86 linear.net"},
        {"capability=75", "", "--no-save", 3,
         "device 0: Fake GPU A, 0000:f0:00.0, has compute capability 7.5, kernels need 8.0 or newer (A100, 2020); --devices "
         "takes"},
        {"memory=2900", "", "--no-save", 3,
         "device 0: Fake GPU A, 0000:f0:00.0: its arena takes 2,944 bytes, 2,900 of 2,900 are free (CUDA_ERROR_OUT_OF_MEMORY: "
         "out of memory); a batch of 3 would fit (mgpuc --set batch=3), or more devices, or accumulate\n"},
        {"memory=300", "", "--no-save", 3,
         "are free (CUDA_ERROR_OUT_OF_MEMORY: out of memory); not even a batch of 1 would fit: a smaller model, a lower "
         "precision may\n"},
        {"memory=3000", "", "--no-save --devices cuda:0x2", 3,
         "not even a batch of 2 would fit: a smaller model, a lower precision, fewer devices on one GPU may\n"},
        {"fail=cuMemAlloc_v2:1", "", "--no-save", 3, "its arena takes 2,944 bytes, 1,073,741,824 of 1,073,741,824 are free"},
        {"gpus=2 memory=2600", "MGPU_COLLECTIVE=copy", "--no-save --devices 2", 3,
         "device 0: Fake GPU B, 0000:ef:00.0: trying the links between GPUs takes 262,144 bytes, 40 of 2,600 are free ("},
        {"bad_kernel=gradient:3", "", "--no-save", 3,
         "it failed: CUDA_ERROR_ILLEGAL_ADDRESS: an illegal memory access was encountered; MGPU_GRAPHS=wait says which operation "
         "it is"},
        {"bad_kernel=gradient:3", "MGPU_GRAPHS=wait", "--no-save", 3,
         "device 0, step 3, phase train.full, operation c4 gradient (linear.net, line 104): it failed: "
         "CUDA_ERROR_ILLEGAL_ADDRESS: an illegal memory access was encountered"},
        {"fail=cuLaunchKernel:5", "MGPU_GRAPHS=off", "--no-save", 3, "(linear.net, line 10"},
        {"", "MGPU_GRAPHS=no", "--no-save", 2, "MGPU_GRAPHS is on, nccl, off or wait, not 'no'"},
        {"", "MGPU_COLLECTIVE=no", "--no-save", 2,
         "MGPU_COLLECTIVE is auto, nccl, peer, copy, one-shot, host, ring, tree, device or server, not 'no'"},
        {"", "MGPU_COLLECTIVE=nccl", "--no-save --devices cuda:0x2", 3,
         "MGPU_COLLECTIVE=nccl: NCCL 2.20.3 does not start with devices that share a GPU, which newer ones can do: "},
        {"gpus=2 nccl=0", "MGPU_COLLECTIVE=nccl", "--no-save --devices 2", 3,
         "MGPU_COLLECTIVE=nccl: NCCL 2.20.3 without NVLink's switches does not start: unhandled cuda error"},
        {"gpus=2 nccl=0", "", "--no-save --devices 2", 0,
         "all-reduces over 2 devices: peer, no NCCL (NCCL 2.20.3 without NVLink's switches does not start: unhandled cuda error; "
         "NCCL_DEBUG=WARN says more)\n"},
        {"gpus=2 nccl=0 no_peers=1", "", "--no-save --devices 2", 0,
         "all-reduces over 2 devices: copy, no NCCL (NCCL 2.20.3 without NVLink's switches does not start: "},
        {"gpus=2 no_peers=1", "MGPU_COLLECTIVE=peer", "--no-save --devices 2", 3,
         "MGPU_COLLECTIVE=peer: the GPUs cannot reach each other's memory; copy works without that"},
        {"gpus=2 bad_link=1-0", "", "--no-save --devices 2", 0,
         "warning: what GPU 0000:ef:00.0 sends to GPU 0000:f0:00.0 arrives changed: the link is bad "},
        {"gpus=2 bad_link=1-0", "", "--no-save --devices 2", 0,
         "all-reduces over 2 devices: host, 1 of 2 links between GPUs bad\n"},
    };
    mgpu_program p = make_cuda_program(4, 1);
    test_cases(t, "messages", &p, CASES, MGPU_COUNT(CASES));
}

/* Every call of the driver fails once, early and late: one message, status 3, within seconds; and what was saved is whole. */
static void test_failures(Test *t)
{
    enum { CALLS = 3 };
    static const char *const NAME[] = {
#define NAME_OF(symbol, field, parameters) #symbol,
        CUDA_FUNCTIONS(NAME_OF)
#undef NAME_OF
            "ncclAllReduce",
        "ncclCommInitAll", "ncclCommDestroy", "ncclGetVersion"};
    static const int NUMBER[CALLS] = {1, 2, 40};
    /* in the first run; without a communicator, or where a transfer that is tried fails, NCCL is not taken, and without access no
     * peers are */
    static const char UNUSED[] =
        " cuGetErrorName cuGetErrorString cuEventElapsedTime cuEventRecord cuMemcpyDtoDAsync_v2 cuLaunchHostFunc cuCtxEnablePeerAccess cuCtxDisablePeerAccess ncclCommInitAll ncclAllReduce ";
    mgpu_program p = make_cuda_program(4, 1);
    setenv("FAKE_CUDA", "gpus=2 pause=100", 1);
    double start = mgpu_seconds();
    int good = run(t, &p, "--devices 2 --steps 4 --save whole");
    double unharmed = mgpu_seconds() - start; /* a loaded machine takes longer to come to the fault */
    say(t, "failures/before", good == 0, "exit status");
    const char *full = getenv("MGPU_FULL");
    for (int i = 0; i < MGPU_COUNT(NAME); i++)
        for (int k = 0; k < CALLS; k++) {
            if (k > 0 && k % 2 != i % 2 && !(full && *full)) /* the second and the fortieth in turns */
                continue;
            char *name = mgpu_format("failures/%s-%d", NAME[i], NUMBER[k]), why[60];
            setenv("FAKE_CUDA", mgpu_format("gpus=2 pause=100 fail=%s:%d", NAME[i], NUMBER[k]), 1);
            setenv("MGPU_COLLECTIVE", k == 0 ? "auto" : k == 1 ? "copy" : "peer", 1);
            double began = mgpu_seconds();
            int status = run(t, &p, "--devices 2 --resume whole --save other --epochs 2");
            double seconds = mgpu_seconds() - began;
            size_t length;
            char *text = read_text(t, "said", &length), *first = strstr(text, ": error: ");
            bool once = status == 0 || (first && !strstr(first + 1, ": error: "));
            snprintf(why, sizeof why, "status %d in %.1f s, %s", status, seconds, once ? "one message" : "not one message");
            setenv("FAKE_CUDA", "gpus=2", 1);
            bool whole = run(t, &p, "eval --resume whole") == 0;
            char *word = mgpu_format(" %s ", NAME[i]);
            bool seen = status == 3 || k > 0 || strstr(UNUSED, word);
            say(t, name, seen && (status == 0 || status == 3) && once && seconds < 5 + 3 * unharmed && whole,
                whole ? why : "what was saved is broken");
            free(word);
            free(text);
        }
    unsetenv("MGPU_COLLECTIVE");
}

/* cuda_runtime_test losses [short]: these alone, a part or all, for a sanitizer of threads */
int main(int argc, char **argv)
{
    Test t = open_test();
    setenv("MGPU_CUDA_LIBRARIES", MGPU_BINARY "/tests/fake_cuda", 1);
    test_losses(&t, argc > 2 && strcmp(argv[2], "short") == 0);
    if (argc < 2 || strcmp(argv[1], "losses") != 0) {
        test_selection(&t);
        test_messages(&t);
        test_failures(&t);
    }
    remove_folder(t.folder);
    return t.failed != 0;
}
