/* vgpu_machine.h: for vgpu_test.c: virtual GPUs in a process of their own, kernels of tests/vgpu/kernels.cu on them. */
#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/vgpu/include/mgpu_vgpu_launch.h"
#include "runtime/cuda/driver.h"

#define COUNT(list) ((int)(sizeof(list) / sizeof(list)[0]))
enum { DEVICES = 3, STREAMS = 3, FLOATS = 4096, REPORT = 4096 };

typedef struct Gpu {
    CUcontext context;
    CUmodule module;
    CUstream stream[STREAMS];
    CUdeviceptr a, b, w; /* FLOATS floats each; a[i] = i, the others are 0 */
} Gpu;

static const CudaDriver *cu;
static Gpu gpu[DEVICES];
static int gpus;
static CudaDeclare *declare;
static const char *(*violation)(int);
static char scratch[200]; /* folder */

/* ---- calls that must succeed; a failure that the virtual GPU has reported is what some tests are about */

static inline void must(CUresult r, const char *call, int line)
{
    char text[200];
    if (r == CUDA_SUCCESS || violation(0))
        return;
    printf("line %d: %s: %s\n", line, call, mgpu_cuda_error(cu, r, text));
    fflush(stdout);
    _exit(9);
}
#define MUST(call) must(call, #call, __LINE__)

static inline void use(int d) { MUST(cu->ctx_set_current(gpu[d].context)); }

static inline void finish(int d)
{
    use(d);
    for (int s = 0; s < STREAMS; s++)
        MUST(cu->stream_synchronize(gpu[d].stream[s]));
}

static inline CUresult try_launch(int d, CUstream s, const char *name, int blocks, int threads, int shared, void **parameters)
{
    CUfunction f;
    use(d);
    CUresult r = cu->module_get_function(&f, gpu[d].module, name);
    return r ? r : cu->launch_kernel(f, (unsigned)blocks, 1, 1, (unsigned)threads, 1, 1, (unsigned)shared, s, parameters, NULL);
}
/* it may begin before what is before it in the stream has ended */
static inline CUresult try_launch_early(CUstream s, const char *name, int blocks, int threads, void **parameters)
{
    CUfunction f;
    CUlaunchAttribute early = {.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
                               .value.programmaticStreamSerializationAllowed = 1};
    CUlaunchConfig config = {(unsigned)blocks, 1, 1, (unsigned)threads, 1, 1, 0, s, &early, 1};
    CUresult r = cu->module_get_function(&f, gpu[0].module, name);
    return r ? r : cu->launch_kernel_ex(&config, f, parameters, NULL);
}
#define PARAMETERS(...)                                                                                                          \
    (void *[]) { __VA_ARGS__ }
#define LAUNCH(d, s, name, blocks, threads, shared, ...)                                                                         \
    must(try_launch(d, gpu[d].stream[s], name, blocks, threads, shared, PARAMETERS(__VA_ARGS__)), name, __LINE__)

static inline void download(int d, float *to, CUdeviceptr from, int64_t count)
{
    finish(d);
    MUST(cu->memcpy_dtoh_async(to, from, (size_t)count * sizeof *to, gpu[d].stream[0]));
    MUST(cu->stream_synchronize(gpu[d].stream[0]));
}

static inline CUdeviceptr new_memory(int64_t bytes)
{
    CUdeviceptr p = 0;
    MUST(cu->mem_alloc(&p, (size_t)bytes));
    return p;
}

static inline float *new_locked(int64_t count)
{
    void *p = NULL;
    MUST(cu->mem_host_alloc(&p, (size_t)count * sizeof(float), CU_MEMHOSTALLOC_PORTABLE));
    return p;
}

static inline CUevent new_event(void)
{
    CUevent e = NULL;
    MUST(cu->event_create(&e, CU_EVENT_DEFAULT));
    return e;
}

/* ---- opening */

static inline void *read_file(const char *path)
{
    FILE *f = fopen(path, "rb");
    if (!f)
        return NULL;
    fseek(f, 0, SEEK_END);
    size_t bytes = (size_t)ftell(f);
    rewind(f);
    void *text = malloc(bytes + 1);
    if (!text || fread(text, 1, bytes, f) != bytes)
        return NULL;
    fclose(f);
    ((char *)text)[bytes] = 0;
    return text;
}

static inline void open_gpu(int d, const char *image)
{
    CUdevice device;
    float a[FLOATS];
    for (int i = 0; i < FLOATS; i++)
        a[i] = (float)i;
    MUST(cu->device_get(&device, d));
    MUST(cu->device_primary_ctx_retain(&gpu[d].context, device));
    use(d);
    MUST(cu->module_load_data(&gpu[d].module, image, 0, NULL, NULL));
    for (int s = 0; s < STREAMS; s++)
        MUST(cu->stream_create_with_priority(&gpu[d].stream[s], CU_STREAM_NON_BLOCKING, 0));
    gpu[d].a = new_memory(sizeof a);
    gpu[d].b = new_memory(sizeof a);
    gpu[d].w = new_memory(sizeof a);
    MUST(cu->memcpy_htod_async(gpu[d].a, a, sizeof a, gpu[d].stream[0]));
    MUST(cu->memset_d8_async(gpu[d].b, 0, sizeof a, gpu[d].stream[0]));
    MUST(cu->memset_d8_async(gpu[d].w, 0, sizeof a, gpu[d].stream[0]));
    finish(d);
}

static inline void open_machine(const char *machine, uint64_t seed, const char *arch)
{
    char path[300];
    snprintf(path, sizeof path, "%s/machine", scratch);
    FILE *f = fopen(path, "w");
    fprintf(f, "devices 3\nseed %llu\npatience 0.2\n%s\n", (unsigned long long)seed, machine ? machine : "");
    fclose(f);
    setenv("MGPU_VGPU", path, 1);
    setenv("MGPU_CUDA_LIBRARIES", MGPU_BINARY "/vgpu", 1);
    const char *why;
    cu = mgpu_cuda_driver(&why);
    if (!cu) {
        printf("%s\n", why);
        exit(8);
    }
    void *library = dlopen(MGPU_BINARY "/vgpu/libcuda.so.1", RTLD_NOW), *at;
    memcpy(&declare, (at = dlsym(library, "vgpuDeclare"), &at), sizeof declare);
    memcpy(&violation, (at = dlsym(library, "vgpuViolation"), &at), sizeof violation);
    snprintf(path, sizeof path, "%s/%s.so", scratch, arch);
    char *image = read_file(path);
    MUST(cu->device_get_count(&gpus));
    gpus = gpus < DEVICES ? gpus : DEVICES;
    for (int d = 0; d < gpus; d++)
        open_gpu(d, image);
    free(image);
    use(0);
}

/* ---- a process for each scenario */

typedef void Scenario(int wrong);

/* all that processes write into a pipe, as far as there is room */
static inline void read_report(int from, char report[REPORT])
{
    size_t length = 0;
    for (ssize_t n; length < REPORT - 1 && (n = read(from, report + length, REPORT - 1 - length)) > 0;)
        length += (size_t)n;
    report[length] = 0;
}

/* what it says: a line for each violation, and what the scenario itself prints */
static inline int in_process(const char *machine, uint64_t seed, const char *arch, Scenario *scenario, int wrong,
                             char report[REPORT])
{
    int ends[2], status;
    fflush(stdout);
    if (pipe(ends) != 0)
        return -1;
    pid_t child = fork();
    if (child == 0) {
        char log[300];
        snprintf(log, sizeof log, "%s/log", scratch);
        dup2(ends[1], 1);
        if (!freopen(log, "w", stderr))
            _exit(7);
        open_machine(machine, seed, arch);
        scenario(wrong);
        for (int d = 0; d < gpus; d++)
            finish(d);
        for (int k = 0; violation(k); k++)
            printf("%s\n", violation(k));
        fflush(stdout);
        _exit(0);
    }
    close(ends[1]);
    read_report(ends[0], report);
    close(ends[0]);
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* ---- kernels.cu, by the C++ compiler: kept in the build folder for all tests, as long as no source is newer and no $CXX is
 * given */

static inline bool build(const char *arch, const char *more)
{
    char command[3000];
    const char *compiler = getenv("CXX");
    snprintf(
        command, sizeof command,
        "kept=%s/tests/kernels.%s${CXX:+.own}.so; { [ -z \"$CXX\" ] && [ -e $kept ] && [ -z \"$(find %s/runtime/abi %s/tests/vgpu/include %s/tests/vgpu/kernels.cu %s/tests/unit/vgpu_machine.h -newer $kept)\" ]; } || { "
        "%s -x c++ -std=c++17 -O1 -march=native -DMGPU_VGPU -w -fPIC -shared -fvisibility=hidden -fno-exceptions -fno-rtti -fno-threadsafe-statics "
        "-fno-strict-aliasing -fno-math-errno -ffp-contract=off -ffunction-sections -Wl,--emit-relocs %s -I %s/runtime/abi -I %s/tests/vgpu/include %s/tests/vgpu/kernels.cu -o $kept.$$ -lm -lc && "
        "mv $kept.$$ $kept; } && cp $kept %s/%s.so",
        MGPU_BINARY, arch, MGPU_SOURCE, MGPU_SOURCE, MGPU_SOURCE, MGPU_SOURCE, compiler && *compiler ? compiler : "c++", more,
        MGPU_SOURCE, MGPU_SOURCE, MGPU_SOURCE, scratch, arch);
    return system(command) == 0;
}

/* ---- cases */

static int failures;

static inline void result(bool good, const char *name, const char *why)
{
    if (good)
        printf("ok %s\n", name);
    else
        printf("not ok %s: %s\n", name, why);
    failures += !good;
}

enum { SEEDS = 4 };

static const char *planted[100]; /* bugs that `both` was called for */
static int planted_count;

static inline void plant(const char *name)
{
    for (int k = 0; k < planted_count; k++)
        if (strcmp(planted[k], name) == 0)
            return;
    planted[planted_count++] = name;
}

static inline void count_planted(int least, const char *of)
{
    char text[100];
    snprintf(text, sizeof text, "%d kinds of planted bugs %s, each with a right twin", planted_count, of);
    printf("# %s\n", text);
    result(planted_count >= least, text, "too few");
    planted_count = 0;
}

/* right: nothing is reported; wrong: this */
static inline void both(const char *name, const char *machine, const char *arch, Scenario *scenario, const char *kind,
                        const char *text)
{
    char report[REPORT], why[REPORT + 200] = "", begin[80];
    plant(name);
    snprintf(begin, sizeof begin, "%s: ", kind);
    for (uint64_t seed = 1; seed <= SEEDS && !*why; seed++) {
        int status = in_process(machine, seed, arch, scenario, 0, report);
        if (status || *report)
            snprintf(why, sizeof why, "%s, seed %d, the right one: status %d, %s", arch, (int)seed, status, report);
        status = in_process(machine, seed, arch, scenario, 1, report);
        if (!*why && (status || (*kind && strncmp(report, begin, strlen(begin)) != 0) || !strstr(report, text)))
            snprintf(why, sizeof why, "%s, seed %d, the wrong one: status %d, %s", arch, (int)seed, status,
                     *report ? report : "nothing found");
    }
    char title[200];
    snprintf(title, sizeof title, "%s (%s)", name, arch);
    result(!*why, title, why);
}

static inline CudaRange range_of(CUdeviceptr at, int64_t from, int64_t to, int writes, const char *name)
{
    return (CudaRange){at + 4 * (uint64_t)from, at + 4 * (uint64_t)to, writes, name};
}

static inline void declare_two(int s, const char *operation, CudaRange one, CudaRange two)
{
    declare(gpu[0].stream[s], operation, (CudaRange[]){one, two}, 2);
}

static inline void open_scratch(void)
{
    const char *folder = getenv("TMPDIR");
    snprintf(scratch, sizeof scratch, "%s/vgpu_test.XXXXXX", folder ? folder : "/tmp");
    if (!mkdtemp(scratch))
        exit(3);
    bool built =
        build("vgpu", "") && build("vgpu-check", "-g1 -fsanitize=thread,bounds,alignment,shift,integer-divide-by-zero -nostdlib");
    result(built, "kernels.cu compiles", "see above");
    if (!built)
        exit(1);
}
