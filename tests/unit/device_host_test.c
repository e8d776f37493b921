/* Devices of the host (runtime/host/device_host.c): what a kernel leaves in the upper halves of vector registers is zeroed after
 * it and after its finish, so that the SSE code of the runtime and of the C library is not slowed. The time that no thread worked
 * is that of the region's own threads. */
#include "runtime/base/base.h"
#include "runtime/host/device_host.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { THREADS = 2 };

#ifdef __x86_64__
static bool left[THREADS][2]; /* by a call, by a finish */

static void leave_bits(void *const *argument, const mgpu_step *step, const mgpu_part *part)
{
    (void)argument, (void)step, (void)part;
    __asm__ volatile("vcmpps $15, %%ymm9, %%ymm9, %%ymm9" ::: "xmm9"); /* all ones */
}

static bool has_bits(void)
{
    unsigned char high[16];
    static const unsigned char ZERO[16];
    __asm__ volatile("vextractf128 $1, %%ymm9, %0" : "=m"(high));
    return memcmp(high, ZERO, sizeof high) != 0;
}

static void look(const void *context, int thread, const mgpu_op *op, double began, double ended)
{
    (void)began, (void)ended;
    left[thread][op != context] |= has_bits(); /* the kernel without a finish is called, the other one finished */
}
#endif

static void sleep_a_while(void *const *argument, const mgpu_step *step, const mgpu_part *part)
{
    (void)argument, (void)step;
    nanosleep(&(struct timespec){.tv_nsec = part->threads > 1 ? 30000000 : 1000}, NULL);
}

/* Both threads work; then one of them alone does little. */
static void try_launches(Device *device)
{
    mgpu_kernel kernel = {.name = "sleeps", .run = sleep_a_while, .split = MGPU_SPLIT_SAMPLES};
    mgpu_op op = {0};
    mgpu_step step = {0};
    void *none[1] = {NULL};
    const mgpu_op *now[THREADS] = {NULL};
    double launch_s[2];
    for (int alone = 0; alone < 2; alone++) {
        DeviceCall call = {.kernel = &kernel, .op = &op, .argument = none};
        DeviceStrip region = {.calls = &call, .count = 1, .step = &step, .launch_timed = true, .alone = alone};
        mgpu_device_host.run(device, &region, now);
        launch_s[alone] = region.launch_s;
    }
    bool good = launch_s[0] >= 0 && launch_s[1] >= 0;
    printf("%sok the time that no thread worked%s\n", good ? "" : "not ", good ? "" : mgpu_format(": %g s, and %g s of a thread alone", launch_s[0], launch_s[1]));
}

static Device *open_device(void)
{
    static mgpu_device shard = {.shard = {0, 8, 8}, .arena_bytes = 4096, .staging_bytes = 64};
    return mgpu_device_host.open(&(DevicePlan){.device = &shard, .pool = &(PoolPlan){.threads = THREADS}});
}

int main(void)
{
    Device *device = open_device();
    try_launches(device);
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx")) {
        mgpu_op ops[2] = {0};
        mgpu_kernel kernels[2] = {{.name = "called", .run = leave_bits, .split = MGPU_SPLIT_SAMPLES},
                                  {.name = "finished", .run = leave_bits, .finish = leave_bits, .split = MGPU_SPLIT_SAMPLES}};
        void *none[1] = {NULL};
        mgpu_step step = {0};
        const mgpu_op *now[THREADS] = {NULL};
        for (int i = 0; i < 2; i++) {
            DeviceCall call = {.kernel = &kernels[i], .op = &ops[i], .argument = none};
            DeviceStrip region = {.calls = &call, .count = 1, .step = &step, .trace = look, .context = &ops[0]};
            mgpu_device_host.run(device, &region, now);
        }
        for (int finish = 0; finish < 2; finish++)
            printf("%sok upper halves of registers are zero after a %s\n", left[0][finish] || left[1][finish] ? "not " : "",
                   finish ? "finish" : "kernel");
        mgpu_device_host.close(device);
        return 0;
    }
#endif
    mgpu_device_host.close(device);
    printf("skip upper halves of registers: this processor has no AVX\n");
    return 0;
}
