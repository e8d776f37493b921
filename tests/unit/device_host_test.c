/* Devices of the host (runtime/host/device_host.c): the time that no thread worked is that of the region's own threads. */
#include "runtime/base/base.h"
#include "runtime/host/device_host.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { THREADS = 2 };

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
        DeviceRegion region = {.calls = &call, .count = 1, .step = &step, .launch_timed = true, .one_thread = alone};
        mgpu_device_host.run(device, &region, now);
        launch_s[alone] = region.launch_s;
    }
    bool good = launch_s[0] >= 0 && launch_s[1] >= 0;
    printf("%sok the time that no thread worked%s\n", good ? "" : "not ",
           good ? "" : mgpu_format(": %g s, and %g s of a thread alone", launch_s[0], launch_s[1]));
}

int main(void)
{
    static mgpu_device shard = {.shard = {0, 8, 8}, .arena_bytes = 4096, .staging_bytes = 64};
    Device *device = mgpu_device_host.open(&(DevicePlan){.device = &shard, .pool = &(PoolPlan){.threads = THREADS}});
    try_launches(device);
    mgpu_device_host.close(device);
    return 0;
}
