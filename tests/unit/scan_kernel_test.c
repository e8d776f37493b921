/* scan_kernel_test.c: scans as kernels against the interpreter.
 *
 * Loops built by hand, as the compiler has them before it makes kernels: in f64 and f32, with several carries, sequences and
 * stacks, contractions, attention and convolutions in the body, nested; fused and separate, by 1 to 7 threads, in parts and
 * chunks of a few samples. The arguments, if any, are the C compiler and its flags. */
#define TEST "scan_kernel"
#include "compiler/ir/program.h"
#include "compiler/kernel/phase.h"
#include "compiler/target/target.h"
#include "scan_graphs.h"

/* ---- facts */

/* one call in a step for the contraction and one for the rest */
static void check_calls(void)
{
    Graph *g = lstm(5, 16, false);
    const Options fuse_them = {0};
    Program p = {.model = g->model, .options = &fuse_them, .target = &host_target};
    fuse(&p, g, PHASE_TRAIN, false);
    int scans = 0, calls = 0;
    for (int i = 0; i < p.kernel_count; i++)
        if (p.kernels[i]->scan) {
            scans++;
            calls += p.kernels[i]->scan->call_count;
        }
    report("a step of an LSTM is two calls", scans != 1 || calls != 2 ? format("%d scans, %d calls", scans, calls) : NULL);
}

int main(int argc, char **argv)
{
    enum { RANDOM = 60 };
    setvbuf(stdout, NULL, _IOLBF, 0);
    int chosen = add_scan_cases(RANDOM, 1);
    Text t = {0};
    host_target.print_all(&program, &t);
    void *library = build_host(&t, argc, argv);
    if (!library)
        return 1;
    const mgpu_kernel *kernels = dlsym(library, "mgpu_kernels");
    int good = 0;
    for (int i = 0; i < case_count; i++) {
        int before = good;
        check_case(&cases[i], kernels, &good);
        if (i < chosen && good > before)
            report(cases[i].name, NULL);
    }
    if (good == case_count)
        report(format("%d random bodies", RANDOM), NULL);
    check_calls();
    return failed != 0;
}
