/* cuda_module.h: texts of kernels as CUDA C, compiled for the virtual GPU and run there; compiled by NVRTC, if there is one. */
#ifndef CUDA_MODULE_H
#define CUDA_MODULE_H

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "compiler/base/base.h"
#include "runtime/abi/mgpu.h"
#include "tests/vgpu/include/mgpu_vgpu_launch.h"
#include "runtime/cuda/driver.h"

#ifndef MGPU_SOURCE
#define MGPU_SOURCE "."
#endif

static const char MODULE_HEAD[] =
    "#include \"mgpu_device.h\"\n#include \"mgpu_device_contract.h\"\n#include \"mgpu_device_attention.h\"\n"
    "#include \"mgpu_device_rows.h\"\n";

static bool write_text(const char *path, const Text *text)
{
    FILE *file = fopen(path, "w");
    bool good = file && fwrite(text->data, 1, text->length, file) == text->length;
    return file && fclose(file) == 0 && good;
}

/* ---- the virtual GPU */

/* "compute_90": the kernels are PTX of that architecture, which NVRTC makes and the virtual GPU translates (docs/vgpu.md) */
static const char *ptx_arch(void)
{
    const char *arch = getenv("MGPU_TEST_PTX");
    return arch && *arch ? arch : NULL;
}

/* not all of MGPU_FULL; tests/ptx.test runs more than this, too */
static bool is_brief(void)
{
    const char *full = getenv("MGPU_FULL");
    return !(full && *full) && !ptx_arch();
}

/* of the cells of a long test one in `every`: those of the day (MGPU_CELLS, tests/run), or all */
static inline bool is_of_today(int cell, int every)
{
    const char *day = getenv("MGPU_CELLS");
    return !day || *day < '0' || *day > '9' || (cell + strtol(day, NULL, 10)) % every == 0;
}

/* compiles FOLDER/moduleN.cu to FOLDER/moduleN.so, two at a time, each as its letter of `how` says: o optimised; q not, as it
 * runs for less time than that would take, but for MGPU_FULL; c optimised, and it asks about every access. NULL: done, else what
 * failed */
static const char *build_modules(const char *folder, const char *how)
{
    if (ptx_arch()) {
        const char *nvrtc = format(
            "cd %s && seq 0 %d | env -u MGPU_CUDA_LIBRARIES xargs -P 2 -I N %s/bin/mgpuc --nvrtc moduleN.cu %s %s/runtime/abi - moduleN.ptx",
            folder, (int)strlen(how) - 1, MGPU_BINARY, ptx_arch(), MGPU_SOURCE);
        return system(nvrtc) == 0 ? NULL : nvrtc;
    }
    const char *flags =
        "-x c++ -std=c++17 -march=native -w -fPIC -shared -DMGPU_VGPU -fvisibility=hidden -fno-exceptions -fno-rtti "
        "-fno-threadsafe-statics -fno-strict-aliasing -fno-math-errno -ffp-contract=off -ffunction-sections -Wl,--emit-relocs";
    const char *checked = "-g1 -fsanitize=thread,bounds,alignment,shift,integer-divide-by-zero -nostdlib",
               *quick = getenv("QUICK_CXX");
    const char *usual = "${CXX:-g++} -fno-gnu-unique -Og";
    Text command = {0};
    text_add(&command, "cd %s && { ", folder);
    for (int i = 0; how[i]; i++)
        text_add(&command, "echo %d %c; ", i, how[i]);
    text_add(
        &command,
        "} | xargs -P 2 -L 1 sh -c 'case $1 in q) with=\"%s\" ;; c) with=\"%s %s\" ;; *) with=\"%s\" ;; esac; $with %s -I%s/runtime/abi -I%s/tests/vgpu/include module$0.cu -o module$0.so -lm -lc'",
        quick && is_brief() ? quick : usual, usual, checked, usual, flags, MGPU_SOURCE, MGPU_SOURCE);
    return system(command.data) == 0 ? NULL : command.data;
}

static void *open_module(const char *folder, int number)
{
    if (!ptx_arch())
        return dlopen(format("%s/module%d.so", folder, number), RTLD_NOW | RTLD_LOCAL);
    char log[1000] = "";
    size_t length;
    void *(*translate)(const char *text, int checked, char *log, size_t room);
    void *library = dlopen(MGPU_BINARY "/vgpu/libcuda.so.1", RTLD_NOW), *found = library ? dlsym(library, "vgpuOpenPtx") : NULL;
    memcpy(&translate, &found, sizeof found);
    void *module = found ? translate(read_file(format("%s/module%d.ptx", folder, number), &length), 0, log, sizeof log) : NULL;
    if (*log)
        printf("not ok module %d: %s\n", number, log);
    return module;
}

/* opens what build_modules built; NULL: done, else what failed */
static const char *open_modules(const char *folder, int count, void **modules)
{
    for (int i = 0; i < count; i++) {
        modules[i] = open_module(folder, i);
        if (!modules[i])
            return dlerror();
    }
    return NULL;
}

static void report_launch(mgpu_vgpu_launch *launch, const char *kind, const char *text)
{
    const char **wrong = launch->context;
    if (!*wrong)
        *wrong = format("%s: %s: %s", launch->name, kind, text);
}

/* what launches hand over after all other parameters (mgpu_gpu_kernel) */
static const mgpu_numbers *launch_numbers;

/* blocks as the runtime has it; of them at most `most` if that is not 0. NULL: done, else what is wrong */
static const char *run_launch(void *module, const mgpu_launch *l, void *const *arguments, int count, int64_t samples,
                              int64_t most, uint64_t seed)
{
    static mgpu_step step;
    const void *step_block = &step;
    void *parameters[16];
    for (int i = 0; i < count; i++)
        parameters[i] = (void *)&arguments[i];
    parameters[count] = &step_block;
    parameters[count + 1] = &samples;
    parameters[count + 2] = (void *)(uintptr_t)launch_numbers;
    int64_t iterations =
        l->iterations + l->iterations_per_sample * (l->group > 0 ? (samples + l->group - 1) / l->group : samples);
    int64_t blocks = (iterations + l->per_block - 1) / l->per_block;
    blocks = blocks < 1 ? 1 : blocks > l->most ? l->most : blocks;
    blocks = most > 0 && blocks > most ? most : blocks;
    const char *wrong = NULL;
    mgpu_vgpu_launch launch = {.name = l->function,
                               .grid = {(unsigned)blocks, 1, 1},
                               .block = {(unsigned)l->threads, 1, 1},
                               .shared_bytes = (unsigned)l->shared_bytes,
                               .params = parameters,
                               .seed = seed,
                               .report = report_launch,
                               .context = &wrong};
    mgpu_vgpu_entry *entry;
    void *found = dlsym(module, format("mgpu_entry_%s", l->function));
    memcpy(&entry, &found, sizeof entry);
    if (!entry)
        return format("there is no function %s", l->function);
    bool failed = entry(&launch) != 0;
    return wrong ? wrong : failed ? format("%s fails", l->function) : NULL;
}

static const char *run_launches(void *module, const mgpu_launch launch[2], void *const *arguments, int count, int64_t samples,
                                int64_t most, uint64_t seed)
{
    const char *wrong = run_launch(module, &launch[0], arguments, count, samples, most, seed);
    return wrong || !mgpu_launch_has_work(&launch[1], samples)
               ? wrong
               : run_launch(module, &launch[1], arguments, count, samples, most, seed);
}

/* ---- memory after whose end nothing may be touched; its address is a multiple of 16 */

typedef struct Guarded {
    char *all;
    size_t bytes;
    void *begin;
} Guarded;

static Guarded guarded(int64_t bytes)
{
    size_t page = 4096, room = ((size_t)bytes + page - 1) / page * page;
    Guarded g = {.bytes = room + page};
    g.all = mmap(NULL, g.bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (g.all == MAP_FAILED || mprotect(g.all + room, page, PROT_NONE))
        die("no memory for a test");
    g.begin = g.all + (room - (size_t)bytes) / 16 * 16;
    memset(g.all, 0xff, room);
    return g;
}

static void give_back(Guarded *g) { munmap(g->all, g->bytes); }

/* ---- a virtual GPU that asks about every access: what is read was written, is inside its buffer, and no two threads touch the
 * same bytes without a barrier between */

typedef struct CheckedGpu {
    const CudaDriver *cu;
    CUmodule module;
    CUstream stream;
    const char *(*violation)(int number);
    int known; /* violations so far */
} CheckedGpu;

/* with a module; false: it is not built */
static bool open_checked(CheckedGpu *g, const char *folder, int number)
{
    Text machine = {0};
    const char *path = format("%s/machine", folder), *why;
    size_t length;
    CUdevice device;
    CUcontext context;
    text_add(&machine, "devices 1\nseed 5\n%s", ptx_arch() ? "driver 99.0\n" : "");
    if (ptx_arch()) /* PTX of compute_90a is for 9.0 alone */
        text_add(&machine, "capability * %s\n", strchr(ptx_arch(), 'a') ? "9.0" : "12.0");
    if (access(MGPU_BINARY "/vgpu/libcuda.so.1", R_OK) != 0 || !write_text(path, &machine))
        return false;
    setenv("MGPU_VGPU", path, 1);
    setenv("MGPU_CUDA_LIBRARIES", MGPU_BINARY "/vgpu", 1);
    g->cu = mgpu_cuda_driver(&why);
    void *library = dlopen(MGPU_BINARY "/vgpu/libcuda.so.1", RTLD_NOW), *found = library ? dlsym(library, "vgpuViolation") : NULL;
    memcpy(&g->violation, &found, sizeof found);
    const char *image = read_file(format("%s/module%d.%s", folder, number, ptx_arch() ? "ptx" : "so"), &length);
    return g->cu && found && image && !g->cu->device_get(&device, 0) && !g->cu->device_primary_ctx_retain(&context, device) &&
           !g->cu->ctx_set_current(context) && !g->cu->module_load_data(&g->module, image, 0, NULL, NULL) &&
           !g->cu->stream_create_with_priority(&g->stream, CU_STREAM_NON_BLOCKING, 0);
}

/* NULL: it is not, which is said and counted */
static CheckedGpu *checked_gpu(CheckedGpu *g, const char *folder, int number, int *failures)
{
    if (open_checked(g, folder, number))
        return g;
    printf("not ok the virtual GPU that checks accesses: it cannot be opened\n");
    ++*failures;
    return NULL;
}

/* a kernel with its arguments, of which the first `inputs` are filled; NULL: nothing is wrong */
static const char *run_checked(CheckedGpu *g, const mgpu_launch launch[2], void *const *arguments, const int64_t *bytes,
                               int inputs, int count, int64_t samples)
{
    static const mgpu_step step;
    CUdeviceptr memory[16], step_block;
    void *parameters[18 + 1];
    bool good =
        !g->cu->mem_alloc(&step_block, sizeof step) && !g->cu->memcpy_htod_async(step_block, &step, sizeof step, g->stream);
    for (int i = 0; i < count && good; i++) {
        good = !g->cu->mem_alloc(&memory[i], (size_t)bytes[i] + 16);
        if (i < inputs && bytes[i] > 0)
            good = good && !g->cu->memcpy_htod_async(memory[i], arguments[i], (size_t)bytes[i], g->stream);
        parameters[i] = &memory[i];
    }
    parameters[count] = &step_block;
    parameters[count + 1] = &samples;
    parameters[count + 2] = (void *)(uintptr_t)launch_numbers;
    for (int k = 0; k < 2 && good && mgpu_launch_has_work(&launch[k], samples); k++) {
        const mgpu_launch *l = &launch[k];
        CUfunction function;
        int64_t iterations = l->iterations + l->iterations_per_sample * samples,
                blocks = (iterations + l->per_block - 1) / l->per_block;
        blocks = blocks < 1 ? 1 : blocks > 7 ? 7 : blocks > l->most ? l->most : blocks;
        good = !g->cu->module_get_function(&function, g->module, l->function) &&
               (l->shared_bytes == 0 ||
                !g->cu->func_set_attribute(function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, l->shared_bytes)) &&
               !g->cu->launch_kernel(function, (unsigned)blocks, 1, 1, (unsigned)l->threads, 1, 1, (unsigned)l->shared_bytes,
                                     g->stream, parameters, NULL);
    }
    good = !g->cu->stream_synchronize(g->stream) && good;
    const char *wrong = g->violation(g->known);
    while (g->violation(g->known))
        g->known++;
    for (int i = 0; i < count && good; i++)
        g->cu->mem_free(memory[i]);
    g->cu->mem_free(step_block);
    return wrong ? wrong : good ? NULL : format("%s fails", launch[0].function);
}

/* ---- NVRTC */

typedef struct Nvrtc {
    int (*create)(void **program, const char *text, const char *name, int headers, const char *const *header,
                  const char *const *include);
    int (*compile)(void *program, int options, const char *const *option);
    int (*log_size)(void *program, size_t *);
    int (*log)(void *program, char *);
} Nvrtc;

/* false: it is not installed */
static bool open_nvrtc(Nvrtc *n)
{
    static const char *const names[] = {"libnvrtc.so.13", "/usr/local/cuda/lib64/libnvrtc.so.13", "libnvrtc.so.12"};
    void *library = NULL;
    for (int i = 0; i < COUNT(names) && !library; i++)
        library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    const struct {
        const char *name;
        void *to;
    } functions[] = {{"nvrtcCreateProgram", &n->create},
                     {"nvrtcCompileProgram", &n->compile},
                     {"nvrtcGetProgramLogSize", &n->log_size},
                     {"nvrtcGetProgramLog", &n->log}};
    for (int i = 0; i < COUNT(functions) && library; i++) {
        void *found = dlsym(library, functions[i].name);
        memcpy(functions[i].to, &found, sizeof found);
    }
    return library != NULL;
}

/* what it says, with what ptxas says of registers; *failed: it does not compile */
static const char *compile_with_nvrtc(const Nvrtc *n, const Text *text, const char *arch, bool *failed)
{
    const char *options[] = {format("--gpu-architecture=%s", arch),
                             format("--include-path=%s/runtime/abi", MGPU_SOURCE),
                             "--std=c++17",
                             "--device-as-default-execution-space",
                             "--extra-device-vectorization",
                             "--ptxas-options=-v"};
    void *program = NULL;
    size_t size = 0;
    *failed = n->create(&program, text->data, "module.cu", 0, NULL, NULL) || n->compile(program, COUNT(options), options);
    if (n->log_size(program, &size) || size < 2)
        return "";
    char *log = allocate(size + 1);
    return n->log(program, log) ? "" : log;
}

/* NULL: compiled without a warning, no register is spilled, and wgmma need not wait for each other ("info" of C75..); else the
 * log, or the lines of the first kernel that spills */
static const char *wrong_with_nvrtc(const Nvrtc *n, const Text *text, const char *arch)
{
    bool failed;
    const char *log = compile_with_nvrtc(n, text, arch, &failed);
    if (failed || strstr(log, "warning") || strstr(log, "(C75"))
        return log;
    const char *kernel = log;
    for (const char *at = log; at; at = strchr(at + 1, '\n')) {
        if (strncmp(at, "\nptxas info    : Compiling entry", 32) == 0)
            kernel = at + 1;
        const char *spilled = strstr(at, " bytes spill stores");
        const char *end = strchr(at + 1, '\n');
        if (spilled && (!end || spilled < end) && strncmp(spilled - 2, " 0", 2) != 0)
            return format("%.*s", (int)(end ? end - kernel : (long)strlen(kernel)), kernel);
    }
    return NULL;
}
#endif
