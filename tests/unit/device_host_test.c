/* Devices of the host (runtime/host/device_host.c): the time that no thread worked is that of the region's own threads. A kernel
 * of an exact program whose bits depend on how many samples a call has is called for the same samples, whatever the chunks and
 * threads. */
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

enum { SAMPLES = 11, UNIT = 2 };

/* by sample: the samples of the call that computed it, and whether its partial sums began at 0 */
static struct Computed {
    int64_t begin, end;
    bool first;
    int times;
} computed[SAMPLES];

static void note(void *const *argument, const mgpu_step *step, const mgpu_part *part)
{
    (void)argument, (void)step;
    for (int64_t i = part->begin; i < part->end; i++) {
        computed[i].begin = part->begin;
        computed[i].end = part->end;
        computed[i].first = part->first;
        computed[i].times++;
    }
}

static void finish(void *const *argument, const mgpu_step *step, const mgpu_part *part)
{
    (void)argument, (void)step, (void)part;
}

/* Two virtual shards, of 5 and 6 samples, go through a region a chunk at a time. */
static void try_units(int threads, int64_t chunk, bool finishes)
{
    static const int64_t BEGIN[] = {0, 0, 2, 2, 4, 5, 5, 7, 7, 9, 9}, END[] = {2, 2, 4, 4, 5, 7, 7, 9, 9, 11, 11};
    static mgpu_device shard = {.shard = {0, SAMPLES, SAMPLES}, .arena_bytes = 4096, .work_bytes = 64, .staging_bytes = 64};
    mgpu_plan plan = {.devices = 1, .micro = SAMPLES};
    mgpu_program program = {.exact = 2};
    Device *device = mgpu_device_host.open(
        &(DevicePlan){.program = &program, .plan = &plan, .device = &shard, .pool = &(PoolPlan){.threads = threads}});
    mgpu_kernel kernel = {.name = "notes",
                          .run = note,
                          .finish = finishes ? finish : NULL,
                          .split = MGPU_SPLIT_SAMPLES,
                          .unit = finishes ? UNIT : 0};
    mgpu_op op = {0};
    mgpu_step step = {0};
    void *none[1] = {NULL};
    const mgpu_op *now[THREADS] = {NULL};
    DeviceCall call = {.kernel = &kernel, .op = &op, .argument = none};
    DeviceRegion region = {.calls = &call, .count = 1, .step = &step, .chunk = chunk};
    memset(computed, 0, sizeof computed);
    mgpu_device_host.run(device, &region, now);
    mgpu_device_host.close(device);
    bool good = true;
    for (int i = 0; i < SAMPLES; i++) {
        const struct Computed *c = &computed[i];
        bool same = c->begin == BEGIN[i] && c->end == END[i] && c->first == (BEGIN[i] == 0 || BEGIN[i] == 5);
        good = good && c->times == 1 && (!finishes || same);
    }
    printf("%sok %s of %d threads in chunks of %lld\n", good ? "" : "not ", finishes ? "units" : "samples", threads,
           (long long)chunk);
}

int main(void)
{
    for (int threads = 1; threads <= THREADS; threads++)
        for (int64_t chunk = UNIT; chunk <= 4 * UNIT; chunk *= 2) {
            try_units(threads, chunk, true);
            try_units(threads, chunk, false);
        }
    static mgpu_device shard = {.shard = {0, 8, 8}, .arena_bytes = 4096, .staging_bytes = 64};
    Device *device = mgpu_device_host.open(&(DevicePlan){.device = &shard, .pool = &(PoolPlan){.threads = THREADS}});
    try_launches(device);
    mgpu_device_host.close(device);
    return 0;
}
