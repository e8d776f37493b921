/* kernel_test.c: the fuser and the host-C printer against the interpreter.
 *
 * Random graphs in f64, and chosen ones, are fused and left separate; all their kernels are printed into one file, compiled
 * once by the C compiler, loaded and run; every output, updated variable and number of the report must agree to 1e-12.
 * Then facts about kernels: how many there are, and that work grows with depth as it should. The arguments, if any, are
 * the C compiler and its flags: kernel_test gcc -O3 -march=native */
#define TEST "kernel"
#include "compiler/ir/program.h"
#include "compiler/kernel/phase.h"
#include "compiler/plan/schedule.h"
#include "compiler/target/target.h"
#include "kernel_machine.h"
#include "kernel_graphs.h"

#include <time.h>

static const Options fuse_them;

static int kernels_of(const Phase *p)
{
    int count = 0;
    for (int i = 0; i < p->task_count; i++)
        count += p->tasks[i]->kind == TASK_KERNEL;
    return count;
}

/* of this process: others may share the machine */
static double processor_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* kernels that one thread must do alone are those with little work */
static void check_splits(void)
{
    Graph *g = shared_work();
    Program p = {.model = g->model, .options = &fuse_them, .target = &host_target};
    fuse(&p, g, PHASE_TRAIN, true);
    int count[4] = {0}, finishes = 0;
    for (int i = 0; i < p.kernel_count; i++) {
        const Kernel *k = p.kernels[i];
        count[k->split]++;
        finishes += k->partial_bytes > 0;
        for (int j = 0; j < k->read_count + k->write_count && k->split == MGPU_SPLIT_NONE; j++) {
            const Tensor *t = j < k->read_count ? k->reads[j] : k->writes[j - k->read_count];
            if (t->sharded || shape_count(&t->shape) >= 8192)
                report("workers share all large kernels", format("not %s: %s", k->name, k->title));
        }
    }
    report("kernels are shared in every way",
           !count[MGPU_SPLIT_SAMPLES] || !count[MGPU_SPLIT_RANGE] || count[MGPU_SPLIT_WORKERS] < 4 || finishes < 3
               ? format("%d by samples, %d by range, %d by thread, %d with partial sums", count[MGPU_SPLIT_SAMPLES],
                        count[MGPU_SPLIT_RANGE], count[MGPU_SPLIT_WORKERS], finishes)
               : NULL);
}

/* deep nets: the time per layer stays, equal layers share their kernels */
static void check_depth(void)
{
    double took[2];
    int depths[2] = {100, 1000}, different = 0;
    Phase *phase = NULL;
    for (int i = 0; i < 2; i++) {
        Graph *g = perceptron(depths[i], 16, F32);
        Program p = {.model = g->model, .options = &fuse_them, .target = &host_target};
        double start = processor_seconds();
        phase = fuse(&p, g, PHASE_TRAIN, false);
        took[i] = processor_seconds() - start;
        different = p.kernel_count;
    }
    report("fusing 1000 layers takes about ten times as long as 100",
           took[1] > 25 * took[0] + 0.2 ? format("%.3f s and %.3f s", took[1], took[0]) : NULL);
    report("1000 equal layers share their kernels", different > 60 ? format("%d kernels", different) : NULL);
    int expected = 1000 * 7 + 10; /* three products, bias with relu, its gradient with that of the bias, two updates */
    report("a layer is few kernels", kernels_of(phase) > expected ? format("%d tasks", kernels_of(phase)) : NULL);
}

int main(int argc, char **argv)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    const int random_graphs = 100;
    int chosen = add_cases(random_graphs);
    Text printed = {0};
    host_target.print_all(&program, &printed);
    void *library = build_host(&printed, argc, argv);
    if (!library)
        return 1;
    const mgpu_kernel *kernels = dlsym(library, "mgpu_kernels");
    report("lanes are stored in runs", strstr(text_of(&printed), "memcpy(") ? NULL : "no kernel does it");
    int good = 0;
    for (int i = 0; i < case_count; i++) {
        int before = good;
        check_case(&cases[i], kernels, &good);
        if (i < chosen && good > before)
            report(cases[i].name, NULL);
    }
    if (good == case_count)
        report(format("%d random graphs, fused and separate", random_graphs), NULL);
    check_splits();
    check_depth();
    return failed != 0;
}
