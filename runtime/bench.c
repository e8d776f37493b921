/* bench.c: `bench`: the time of a training step on random data that is already staged.
 *
 * Steps run as in training, one behind the other; a step's time is that between the ends of two. With --json one line
 * with the fields of the yardstick that times the same networks elsewhere: model, batch, precision, samples/s (median),
 * milliseconds (least, median, most), seconds from the program's start to the end of the first step, peak memory. */
#include "runtime/internal.h"

#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

typedef struct Bench { double *finished_at; int64_t steps; } Bench;

static void collect(void *context, const Work *work)
{
    Bench *b = context;
    if (work->phase->kind == MGPU_PHASE_TRAIN)
        b->finished_at[b->steps++] = atomic_load(&work->finished_at);
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void post_steps(const Feed *feed, int64_t from, int64_t to)
{
    for (int64_t i = from; i < to; i++) {
        Batch batch = {.samples = feed->program->batch, .applied = i};
        mgpu_post_step(feed, &batch);
    }
    mgpu_engine_drain(feed->engine);
}

static void print_json(const mgpu_program *p, const mgpu_plan *plan, const double ms[3], double first_s, double peak, int64_t arena)
{
    printf("{\"peer\": \"mgpuc %s\", \"model\": ", MGPU_VERSION);
    mgpu_json_write_text(stdout, p->name);
    printf(", \"device\": \"%s\", \"devices\": %d, \"batch\": %lld, \"precision\": \"%s\", \"mode\": \"compiled\", \"layout\": null, "
           "\"threads\": %d, \"samples_per_s\": %.2f, \"step_ms\": [%.3f, %.3f, %.3f], \"first_step_s\": %.2f, \"peak_MiB\": %.1f, "
           "\"parameters\": %lld, \"arena_bytes\": %lld}\n", plan->kind, plan->devices, (long long)p->batch, p->precision,
           plan->devices, 1e3 * (double)p->batch / ms[1], ms[0], ms[1], ms[2], first_s, peak, (long long)p->parameters,
           (long long)arena);
}

int mgpu_bench(const mgpu_program *program, const Options *o)
{
    const mgpu_plan *plan = mgpu_choose_plan(program, o);
    int64_t timed = o->steps > 0 ? o->steps : 20, all = 1 + o->warmup + timed, arena = 0;
    Bench bench = {.finished_at = mgpu_allocate((size_t)all, sizeof(double))};
    Feed feed = {.program = program, .plan = plan, .setting = o->setting, .seed = o->seed, .total_steps = (double)all,
                 .steps_per_epoch = (double)all};
    feed.engine = mgpu_engine_open(program, plan, collect, &bench);
    mgpu_post_alone(&feed, MGPU_PHASE_INIT, 0, 0);
    mgpu_engine_fill_staging(feed.engine, o->seed);
    post_steps(&feed, 0, 1);
    double first_s = mgpu_seconds_since_start(o->began) - (mgpu_seconds() - bench.finished_at[0]);
    post_steps(&feed, 1, all);
    double *ms = mgpu_allocate((size_t)timed, sizeof *ms);
    for (int64_t i = 0; i < timed; i++)
        ms[i] = 1e3 * (bench.finished_at[all - timed + i] - bench.finished_at[all - timed + i - 1]);
    qsort(ms, (size_t)timed, sizeof *ms, compare);
    double median = timed % 2 ? ms[timed / 2] : (ms[timed / 2 - 1] + ms[timed / 2]) / 2;
    double summary[3] = {ms[0], median, ms[timed - 1]};
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    double peak = (double)usage.ru_maxrss / 1024;
    for (int d = 0; d < plan->devices; d++)
        arena += mgpu_engine_arena_bytes(feed.engine, d);
    if (o->json) {
        print_json(program, plan, summary, first_s, peak, arena);
    } else {
        char text[32];
        printf("%s, batch %lld, %s, %d %s device%s\n", program->name, (long long)program->batch, program->precision, plan->devices,
               plan->kind, plan->devices == 1 ? "" : "s");
        printf("step %.3f ms (least %.3f, most %.3f; %lld steps), %.0f samples/s\n", summary[1], summary[0], summary[2],
               (long long)timed, 1e3 * (double)program->batch / summary[1]);
        printf("first step done %.2f s after the start; peak memory %.1f MiB, of it %s bytes of arenas\n", first_s, peak,
               mgpu_grouped(arena, text));
    }
    mgpu_engine_close(feed.engine);
    free(bench.finished_at);
    free(ms);
    return 0;
}
