/* vgpu.c: what the virtual GPU takes: of a thread, of a barrier, of a load or store, with and without checks.
 *
 * usage: vgpu          processor time, the best of some rounds */
#include <time.h>

#include "tests/unit/vgpu_machine.h"

enum { ROUNDS = 5, LARGE = 1 << 20, BARRIERS = 2000, THREADS = 256 };

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ns */
static double time_of(const char *name, int blocks, int threads, void **parameters, double of)
{
    double best = 1e9;
    for (int k = 0; k < ROUNDS; k++) {
        double begin = now();
        MUST(try_launch(0, gpu[0].stream[0], name, blocks, threads, 0, parameters));
        finish(0);
        best = now() - begin < best ? now() - begin : best;
    }
    return 1e9 * best / of;
}

static void measure(int wrong)
{
    (void)wrong;
    CUdeviceptr a = (use(0), new_memory(4 * LARGE)), b = new_memory(4 * LARGE);
    int64_t n = LARGE, none = 0, steps = BARRIERS, barriers = 1;
    MUST(cu->memset_d8_async(a, 0, 4 * LARGE, gpu[0].stream[0]));
    finish(0);
    printf("a thread that does nothing: %.1f ns\n",
           time_of("slow", LARGE / THREADS, THREADS, PARAMETERS(&b, &none, &none), LARGE));
    printf("a thread that loads, multiplies and stores: %.1f ns\n",
           time_of("twice", LARGE / THREADS, THREADS, PARAMETERS(&a, &b, &n), LARGE));
    printf("a barrier, for each of %d threads: %.1f ns\n", THREADS,
           time_of("slow", 1, THREADS, PARAMETERS(&b, &steps, &barriers), (double)BARRIERS * THREADS));
}

int main(void)
{
    static const char *const ARCHS[] = {"vgpu", "vgpu-check"};
    char report[REPORT];
    open_scratch();
    for (int k = 0; k < COUNT(ARCHS); k++) {
        int status = in_process(NULL, 1, ARCHS[k], measure, 0, report);
        printf("%s\n%s", ARCHS[k], status ? "failed\n" : report);
    }
    return 0;
}
