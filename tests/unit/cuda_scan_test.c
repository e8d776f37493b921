/* cuda_scan_test.c: scans as CUDA C against the interpreter: the loops of scan_kernel_test.c. */
#define TEST "cuda_scan"
#include "compiler/ir/program.h"
#include "cuda_machine.h"
#include "scan_graphs.h"

int main(int argc, char **argv)
{
    const int random_bodies = is_brief() ? 4 : 8;
    setvbuf(stdout, NULL, _IOLBF, 0);
    program.target = &cuda_target;
    run_gpu = run_on_gpu;
    const char *all = getenv("MGPU_FULL");
    int chosen = add_scan_cases(random_bodies, all && *all ? 1 : is_brief() ? 6 : 3);
    return check_on_gpu(argc, argv, chosen, "qqqqqqqc", format("%d random bodies", random_bodies));
}
