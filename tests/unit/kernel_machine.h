/* kernel_machine.h: cases (compiler/selftest/cases.h), whose kernels are run beside the interpreter. TEST is the test's name, a
 * text.
 *
 * All kernels of all cases are printed into one file, compiled once by the C compiler and loaded; each kernel is then called as a
 * runtime may do it, by 1 to 7 threads in parts of any size, and every output, updated variable and number of the report must
 * agree with the interpreter. */
#ifndef KERNEL_MACHINE_H
#define KERNEL_MACHINE_H

#include "compiler/ir/program.h"
#include "compiler/ir/rebuild.h"
#include "compiler/kernel/fuse/fuse.h"
#include "compiler/kernel/phase.h"
#include "compiler/plan/schedule.h"
#include "compiler/selftest/cases.h"
#include "compiler/target/target.h"
#include "runtime/abi/mgpu.h"

#include <dlfcn.h>
#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#ifndef MGPU_SOURCE
#define MGPU_SOURCE "."
#endif
#ifndef MGPU_BINARY
#define MGPU_BINARY "build"
#endif

/* ---- cases */

static Case *cases;
static int case_count;
static Program program = {.target = &host_target};

static inline void add_fused_case(const char *name, Graph *g) { APPEND(cases, case_count, new_case(name, g, &program, false)); }

static void add_case(const char *name, Graph *g) { APPEND(cases, case_count, new_case(name, g, &program, true)); }

/* what of its numbers hangs on rounding may differ */
static void add_random_case(const char *name, Graph *g, Dtype real)
{
    add_case(name, g);
    cases[case_count - 1].noise = real == F32 ? 0x1p-21 : 0x1p-49;
    cases[case_count - 1].tolerance = real == F32 ? 0x1p-20 : 1e-12;
}

/* ---- running */

static int failed;

static void report(const char *name, const char *why)
{
    if (why)
        printf("not ok %s: %s: %s\n", TEST, name, why);
    else
        printf("ok %s: %s\n", TEST, name);
    failed += why != NULL;
}

/* Runs kernels of nests and scans in place of the host's; NULL: there is none. `way` says in which way; all others run with one
 * thread. */
static const char *(*run_gpu)(const Trial *, const Kernel *, int way);

static bool is_gpu_kernel(const Kernel *k) { return k->nest_count || k->scan; }

typedef struct Here { /* kernels are called in this process */
    CaseRunner runner;
    const mgpu_kernel *kernels;
    int way;
    void **taken;
    int taken_count;
} Here;

static char *take_here(CaseRunner *runner, int64_t bytes)
{
    Here *h = (Here *)runner;
    void *memory = aligned_alloc(64, ((size_t)bytes + 63) / 64 * 64 + 64); /* as in an arena */
    APPEND(h->taken, h->taken_count, memory);
    return memory;
}

static const char *call_here(CaseRunner *runner, const Kernel *k, Trial *t)
{
    Here *h = (Here *)runner;
    if (run_gpu && is_gpu_kernel(k))
        return run_gpu(t, k, h->way);
    mgpu_try_kernel(&h->kernels[k->number], t);
    return NULL;
}

/* of what GPUs do not run, as on the host */
static int64_t workspace_of_gpu(const Kernel *k, const Task *t)
{
    int64_t each = 0;
    if (is_gpu_kernel(k))
        return t->workspace_bytes + SAMPLES * t->workspace_bytes_per_sample;
    return k->contraction ? contraction_workspace(k->contraction, &each)
           : k->attention ? attention_workspace(k->attention)
                          : rows_workspace(k->rows);
}

/* way: of the host the number of threads; bits: of all results, as one number */
static const char *run(CaseValues *v, const Phase *p, const mgpu_kernel *kernels, int way, uint64_t *bits)
{
    Here h = {.runner = {take_here, call_here, run_gpu ? workspace_of_gpu : NULL}, .kernels = kernels, .way = way};
    CaseRun started;
    const char *wrong = case_start(v, p, run_gpu ? 1 : way, &h.runner, &started);
    if (!wrong)
        wrong = case_end(v, &started, bits);
    for (int i = 0; i < h.taken_count; i++)
        free(h.taken[i]);
    return wrong;
}

/* ---- building */

/* the text, compiled by `command` and its two files, loaded; NULL: it was reported */
static void *build(const char *what, const Text *t, const char *command, const char *suffix, const char *libraries)
{
    const char *folder = getenv("TMPDIR"), *name = format("%s_test_%d", TEST, (int)getpid());
    folder = folder && *folder ? folder : "/tmp";
    const char *source = format("%s/%s.%s", folder, name, suffix), *library = format("%s.so", source);
    FILE *f = fopen(source, "wb");
    if (!f || fwrite(text_of(t), 1, t->length, f) != t->length || fclose(f))
        die("%s cannot be written", source);
    const char *object = format("%s.o", source); /* apart from linking, which compilers that are done soonest leave to others */
    const char *line = format("%s -I%s/runtime/abi -c %s -o %s && %s -shared %s %s -o %s -lm", command, MGPU_SOURCE, source,
                              object, command, object, libraries, library);
    int status = system(line);
    unlink(object);
    if (status != 0) {
        report(format("the %s compiler takes the kernels", what), line);
        return NULL;
    }
    void *handle = dlopen(library, RTLD_NOW);
    if (!handle)
        die("%s", dlerror());
    if (!getenv("MGPU_KEEP"))
        unlink(source);
    unlink(library);
    report(format("the %s compiler takes the kernels", what), NULL);
    return handle;
}

/* Host C; the arguments, if any, are the compiler and its flags. In short runs QUICK_CC of tests/run: optimising would take most
 * of the time. */
static void *build_host(const Text *t, int argc, char **argv)
{
    const char *all = getenv("MGPU_FULL"), *compiler = getenv(all && *all ? "CC" : "QUICK_CC");
    Text command = {0};
    if (argc < 2)
        text_add(&command, "%s -std=gnu11 %s", compiler && *compiler ? compiler : "cc", all && *all ? "-O1" : "");
    for (int i = 1; i < argc; i++)
        text_add(&command, "%s ", argv[i]);
    text_add(&command, " -fno-math-errno -fno-trapping-math -w -fPIC");
    return build("C", t, text_of(&command), "c", format("%s/lib/mgpuc/libmgpu.a", MGPU_BINARY));
}

static void check_case(Case *c, const mgpu_kernel *kernels, int *good)
{
    CaseValues values = case_values(c);
    /* GPUs: as planned, one block, three blocks in another order of threads, other orders */
    static const int THREADS_OF[] = {1, 2, 5, 3, MOST_TRIAL_THREADS};
    const char *full = getenv("MGPU_FULL");
    int ways = run_gpu && !(full && *full) ? 3 : COUNT(THREADS_OF);
    uint64_t one_thread[2] = {0};
    bool all = true;
    for (int i = 0; i < 2 * ways && all; i++) {
        int threads = THREADS_OF[i / 2];
        if ((i % 2 && c->separate == c->fused) || (i / 2 == 1 && c->fewer))
            continue;
        uint64_t bits = 0;
        const char *wrong = run(&values, i % 2 ? c->separate : c->fused, kernels, threads, &bits);
        if (i < 2)
            one_thread[i] = bits;
        if (!wrong && c->same_bits && bits != one_thread[i % 2])
            wrong = "not the bits that one thread makes";
        if (wrong)
            report(format("%s, %s, %d threads", c->name, i % 2 ? "separate" : "fused", threads), wrong);
        all = all && !wrong;
    }
    *good += all;
    case_values_free(&values);
}
#endif
