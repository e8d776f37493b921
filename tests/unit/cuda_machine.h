/* cuda_machine.h: the cases of kernel_machine.h on the virtual GPU: kernels of nests and scans are printed as CUDA C and run
 * there, with the grid of their tables and with others, threads in several orders; all other kernels are the host's. Where there
 * is an NVRTC it has to take the text, too (part of it, with MGPU_FULL all), without a warning. */
#ifndef CUDA_MACHINE_H
#define CUDA_MACHINE_H

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-function"
#include "cuda_module.h"
#pragma GCC diagnostic pop
#include "kernel_machine.h"
#include "compiler/target/cuda/cuda.h"

enum { MODULES = 8 };
static void *modules[MODULES];
static Text module_text[MODULES];

/* kernels that share a body stand together */
static int module_of(const Kernel *k) { return (k->body ? k->body : k)->number * MODULES / program.kernel_count; }

/* ---- running */

static int64_t blocks_of(const mgpu_launch *l, int64_t samples)
{
    int64_t iterations = l->iterations + l->iterations_per_sample * (l->group ? (samples + l->group - 1) / l->group : samples);
    int64_t blocks = (iterations + l->per_block - 1) / l->per_block;
    return blocks < 1 ? 1 : blocks < l->most ? blocks : l->most;
}

static const char *launch(const Trial *trial, const Kernel *k, const mgpu_launch *l, int way)
{
    mgpu_vgpu_entry *entry;
    const Kernel *own = k->canonical ? k->canonical : k; /* whose functions they are */
    void *found = dlsym(modules[module_of(own)], format("mgpu_entry_%s%s", own->name, l->function + strlen(k->name)));
    memcpy(&entry, &found, sizeof entry);
    if (!entry)
        return format("%s is not in the module", l->function);
    int count = trial->work_argument + (trial->stride > 0);
    const mgpu_step *step = &trial->step;
    int64_t n = SAMPLES;
    void **values = NEW_ARRAY(void *, count + 2), **params = NEW_ARRAY(void *, count + 3);
    for (int i = 0; i < count; i++) {
        values[i] = i < trial->work_argument ? trial->arguments[i] : trial->work;
        params[i] = &values[i];
    }
    params[count] = &step;
    params[count + 1] = &n;
    params[count + 2] = k->parameters ? (void *)k->parameters : (void *)k->paths;
    const char *wrong = NULL;
    mgpu_vgpu_launch launched = {.name = l->function,
                                 .grid = {(unsigned)blocks_of(l, SAMPLES), 1, 1},
                                 .block = {(unsigned)l->threads, 1, 1},
                                 .shared_bytes = (unsigned)l->shared_bytes,
                                 .params = params,
                                 .seed = way > 2 ? (uint64_t)way : 0,
                                 .report = report_launch,
                                 .context = &wrong};
    if (way == 2 || way == 5) /* any grid is right */
        launched.grid[0] = way == 2 ? 1 : 3;
    bool ended = entry(&launched) == 0;
    return wrong ? wrong : ended ? NULL : format("%s failed", l->function);
}

static const char *run_on_gpu(const Trial *trial, const Kernel *k, int way)
{
    mgpu_launch l[2];
    cuda_launches(k, l);
    memset(trial->work, 0xFF, (size_t)trial->stride);
    const char *wrong = launch(trial, k, &l[0], way);
    return !wrong && mgpu_launch_has_work(&l[1], SAMPLES) ? launch(trial, k, &l[1], way) : wrong;
}

/* ---- building */

/* the kernels that no GPU runs */
static void print_host(Text *t)
{
    text_add(t, "#define MGPU_KERNELS 1\n#include \"mgpu.h\"\n");
    for (int i = 0; i < program.kernel_count; i++)
        if (!is_gpu_kernel(program.kernels[i]))
            host_target.print(program.kernels[i], t);
    text_add(t, "const mgpu_kernel mgpu_kernels[] = {\n");
    for (int i = 0; i < program.kernel_count; i++) {
        const Kernel *k = program.kernels[i];
        if (is_gpu_kernel(k))
            text_add(t, "    {0},\n");
        else
            host_target.print_row(k, k->name, t);
    }
    text_add(t, "    {0},\n};\n");
}

static bool print_modules(const char *folder)
{
    bool good = true;
    for (int i = 0; i < MODULES; i++)
        text_add(&module_text[i], "%s", MODULE_HEAD);
    for (int i = 0; i < program.kernel_count; i++)
        if (is_gpu_kernel(program.kernels[i]))
            cuda_print(program.kernels[i], &module_text[module_of(program.kernels[i])]);
    for (int i = 0; i < MODULES; i++)
        good = good && write_text(format("%s/module%d.cu", folder, i), &module_text[i]);
    return good;
}

static void check_nvrtc(void)
{
    Nvrtc nvrtc;
    static const char *const ARCHS[] = {"sm_80", "sm_90", "sm_100"};
    if (!open_nvrtc(&nvrtc)) {
        printf("skip %s: NVRTC takes the kernels: there is none\n", TEST);
        return;
    }
    const char *all = getenv("MGPU_FULL");
    enum { SOME = 48 }; /* of this many kernels one, in short runs; kernels.test compiles those of the examples */
    Text some = {0};
    text_add(&some, "%s", MODULE_HEAD);
    for (int i = 0, number = 0; i < program.kernel_count; i++)
        if (is_gpu_kernel(program.kernels[i]) && !program.kernels[i]->canonical && number++ % SOME == 0)
            cuda_print(program.kernels[i], &some);
    for (int i = 0; i < (all && *all ? MODULES : 1); i++) { /* each of them for one */
        bool refused;
        const char *log = compile_with_nvrtc(&nvrtc, all && *all ? &module_text[i] : &some, ARCHS[i % COUNT(ARCHS)], &refused);
        if (refused || strstr(log, "warning"))
            report(format("NVRTC takes the kernels for %s", ARCHS[i % COUNT(ARCHS)]), log);
    }
    report("NVRTC takes the kernels", NULL);
}

static bool build_gpu(const char *how)
{
    const char *folder = getenv("TMPDIR"), *keep = getenv("MGPU_KEEP");
    folder = format("%s/%s_test_%d", folder && *folder ? folder : "/tmp", TEST, (int)getpid());
    if (system(format("mkdir -p %s", folder)) || !print_modules(folder))
        die("%s cannot be written", folder);
    const char *wrong = build_modules(folder, how);
    report("the C++ compiler takes the kernels", wrong);
    /* before a module is opened: NVRTC takes the virtual GPU's libcuda.so.1, once it is there, for a driver, and ends */
    check_nvrtc();
    const char *closed = wrong ? NULL : open_modules(folder, MODULES, modules);
    if (closed)
        die("%s", closed);
    if (!(keep && *keep) && system(format("rm -r %s", folder)))
        die("%s cannot be removed", folder);
    return !wrong;
}

/* the cases of the program; the first `chosen` are named one by one, the others by `rest`; how modules are built (build_modules):
 * kernels of the first cases are in the first ones */
static int check_on_gpu(int argc, char **argv, int chosen, const char *how, const char *rest)
{
    Text host = {0};
    int given = 0;
    cuda_give_numbers(&program);
    for (int i = 0; i < program.kernel_count; i++)
        given += program.kernels[i]->canonical && program.kernels[i]->parameters;
    if (given)
        printf("%d of %d kernels are others with other numbers\n", given, program.kernel_count);
    print_host(&host);
    void *library = build_host(&host, argc, argv);
    if (!library || !build_gpu(how))
        return 1;
    const mgpu_kernel *kernels = dlsym(library, "mgpu_kernels");
    int good = 0;
    for (int i = 0; i < case_count; i++) {
        int before = good;
        cases[i].same_bits = true;
        check_case(&cases[i], kernels, &good);
        if (i < chosen && good > before)
            report(cases[i].name, NULL);
    }
    if (good == case_count)
        report(rest, NULL);
    return failed != 0;
}
#endif
