/* cuda_emit_test.c: nests as CUDA C against the interpreter: the graphs of kernel_test.c, and larger ones. */
#define TEST "cuda_emit"
#include "compiler/ir/program.h"
#include "cuda_machine.h"
#include "cuda_graphs.h"

int main(int argc, char **argv)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    program.target = &cuda_target;
    run_gpu = run_on_gpu;
    const char *all = getenv("MGPU_FULL");
    in_brief = !(all && *all);
    add_large_cases();
    int chosen = case_count;
    const int random_graphs = is_brief() ? 6 : in_brief ? 12 : 100;
    chosen += add_cases(random_graphs);
    return check_on_gpu(argc, argv, chosen, in_brief ? "oqqqqqqq" : "oooooooc",
                        format("%d random graphs, fused and separate", random_graphs));
}
