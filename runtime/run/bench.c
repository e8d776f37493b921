/* bench.c: `bench`: measures a training step on random data that has been staged.
 *
 * Steps run as in training, one after the other; the time of a step is that between the ends of two. Without --steps, they fill a
 * second, but are at least 20, because the median of 20 short steps varies by a factor of two. --json prints a line with the
 * fields of the tool that measures the same networks elsewhere: model, batch, precision, samples/s (median), milliseconds
 * (minimum, median, maximum), seconds from the program's start to the end of the first step, peak memory (of GPUs: what is
 * allocated there). On virtual GPUs the report begins with "virtual": their times are modelled, whatever GPU they claim to be.
 * With --profile or --measure, as many steps follow with a timer around every operation; they do not count in these figures. */
#include "runtime/base/base.h"
#include "runtime/base/options.h"
#include "runtime/base/whole_file.h"
#include "runtime/engine/processes.h"
#include "runtime/engine/profile.h"
#include "runtime/view/view.h"
#include "runtime/engine/engine.h"
#include "runtime/run/commands.h"

#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

enum { FEWEST_STEPS = 20, MOST_STEPS = 5000 }; /* without --steps */

typedef struct Bench {
    double *finished_at;
    int64_t steps;
} Bench;

static void collect(void *context, const Work *work)
{
    Bench *b = context;
    if (mgpu_is_train_kind(work->phase->kind))
        b->finished_at[b->steps++] = atomic_load(&work->finished_at);
}

static void post_steps(const Feed *feed, int64_t from, int64_t to)
{
    for (int64_t i = from; i < to; i++) {
        Batch batch = {.samples = feed->program->batch, .applied = i};
        mgpu_post_step(feed, &batch);
    }
    mgpu_engine_drain(feed->engine);
}

/* Returns the peak resident memory in MiB. VmHWM is that of this program; ru_maxrss includes the one that started it. */
static double peak_memory(void)
{
    char line[256];
    long long kib = 0;
    FILE *f = fopen("/proc/self/status", "re");
    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "VmHWM: %lld kB", &kib) == 1)
            break;
    if (f)
        fclose(f);
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)(kib > 0 ? kib : usage.ru_maxrss) / 1024;
}

typedef struct BenchResult {
    const mgpu_plan *plan;
    double ms[3];           /* time of a step: minimum, median, maximum */
    int64_t steps, untimed; /* untimed: steps before the measured ones */
    double first_s, peak_mib;
    int64_t arena, outside_arena; /* bytes of all devices; outside_arena: of transfers and libraries */
    const char *devices;          /* description of the devices */
    bool virtual;                 /* GPUs of a virtual driver */
    GraphsMade graphs;
    double launches, launch_us; /* on GPUs: launches of the comp lanes in a step after the first; host time of a launch */
    int threads;
    char threads_text[200];
    const Profile *profile; /* may be NULL */
    double profiled_s;      /* time of the profiled steps */
} BenchResult;

static void print_json(const mgpu_program *p, const BenchResult *r)
{
    printf("{%s\"peer\": \"mgpuc %s\", \"model\": ", r->virtual ? "\"virtual\": true, " : "", MGPU_VERSION);
    mgpu_json_write_text(stdout, p->name);
    printf(", \"device\": \"%s\", \"devices\": %d, \"batch\": %lld, \"precision\": \"%s\", \"mode\": \"compiled\", "
           "\"layout\": null, \"threads\": %d, \"samples_per_s\": %.2f, ",
           r->plan->kind, r->plan->devices, (long long)p->batch, p->precision, r->threads, 1e3 * (double)p->batch / r->ms[1]);
    printf("\"step_ms\": [%.4f, %.4f, %.4f], \"first_step_s\": %.4f, \"peak_MiB\": %.1f, \"parameters\": %lld, "
           "\"arena_bytes\": %lld, \"library_bytes\": %lld",
           r->ms[0], r->ms[1], r->ms[2], r->first_s, r->peak_mib, (long long)p->parameters, (long long)r->arena,
           (long long)r->outside_arena);
    if (p->policy) {
        printf(", \"plan\": ");
        mgpu_json_write_text(stdout, p->policy);
    }
    if (p->policy_label)
        printf(", \"plan_label\": \"%s\"", p->policy_label);
    if (r->plan->predicted.step_us > 0) {
        printf(", \"predicted_ms\": %.4f, \"predicted_for\": ", r->plan->predicted.step_us / 1e3);
        mgpu_json_write_text(stdout, r->plan->predicted.machine);
        printf(", \"predicted_from\": \"%s\"", r->plan->predicted.from);
    }
    if (!mgpu_computes_here(r->plan)) {
        printf(", \"gpus\": ");
        mgpu_json_write_text(stdout, r->devices);
        printf(", \"launches\": %.1f, \"launch_us\": %.2f, \"graphs\": %d, \"graphs_s\": %.3f, \"graphs_mib\": %.1f", r->launches,
               r->launch_us, r->graphs.count, r->graphs.seconds, (double)r->graphs.bytes / 1048576);
    }
    if (r->profile) {
        fputs(", ", stdout);
        mgpu_profile_print_json(r->profile, stdout, r->steps, r->profiled_s);
    }
    puts("}");
}

static void print_text(const mgpu_program *p, const BenchResult *r)
{
    char text[32], besides[32];
    bool here = mgpu_computes_here(r->plan);
    printf("%s%s, batch %lld, %s, %d %s device%s, %s\n", r->virtual ? "virtual: " : "", p->name, (long long)p->batch,
           p->precision, r->plan->devices, r->plan->kind, r->plan->devices == 1 ? "" : "s", here ? r->threads_text : r->devices);
    printf("step %.3f ms (least %.3f, most %.3f; %lld steps), %.0f samples/s\n", r->ms[1], r->ms[0], r->ms[2],
           (long long)r->steps, 1e3 * (double)p->batch / r->ms[1]);
    const mgpu_prediction *x = &r->plan->predicted;
    mgpu_print_policy(p);
    if (x->step_us > 0) {
        fputs("predicted for ", stdout);
        mgpu_print_plain(x->machine);
        printf(": %.3f ms a step, bound by %s\npredicted from: %s\n", x->step_us / 1e3, x->bound, x->from);
    }
    printf(
        "first step done %.2f s after the start; peak memory %.1f MiB%s, of it %s bytes of arenas and %s besides, of transfers and libraries\n",
        r->first_s, r->peak_mib, here ? "" : " of GPUs", mgpu_grouped(r->arena, text), mgpu_grouped(r->outside_arena, besides));
    if (!here)
        printf("launches of a step: %.1f, each takes the host %.2f us\n", r->launches, r->launch_us);
    if (r->graphs.count)
        printf("%d graphs made before the first step, in %.3f s; %.1f MiB of a GPU\n", r->graphs.count, r->graphs.seconds,
               (double)r->graphs.bytes / 1048576);
    if (r->profile)
        mgpu_profile_print(r->profile, stdout, r->steps, r->profiled_s);
}

/* Of several objectives the time of a step is the mean of a round that ends with it. */
static void summarise(BenchResult *r, int64_t round, const double *finished_at) /* [-1] is the step before */
{
    double *ms = mgpu_allocate((size_t)r->steps, sizeof *ms);
    round = round < r->steps ? round : r->steps;
    int64_t n = r->steps - round + 1;
    for (int64_t i = 0; i < n; i++)
        ms[i] = 1e3 * (finished_at[i + round - 1] - finished_at[i - 1]) / (double)round;
    qsort(ms, (size_t)n, sizeof *ms, mgpu_compare_doubles);
    r->ms[0] = ms[0];
    r->ms[1] = n % 2 ? ms[n / 2] : (ms[n / 2 - 1] + ms[n / 2]) / 2;
    r->ms[2] = ms[n - 1];
    free(ms);
}

static void write_measured(const Profile *profile, const char *path, const BenchResult *r)
{
    WholeFile file;
    int error = mgpu_open_whole(&file, path);
    if (!error) {
        mgpu_profile_write(profile, file.f, r->steps, r->threads, r->virtual);
        error = mgpu_close_whole(&file);
    }
    if (error)
        mgpu_fail(MGPU_MACHINE_FAILED, "--measure %s: it cannot be written: %s", path, strerror(error));
}

typedef struct UsedMemory {
    int64_t arena, outside_arena;
    double peak_mib;
} UsedMemory;

/* Sums over all processes. */
static void add_memory(BenchResult *r, const Engine *engine, Processes *p)
{
    UsedMemory each[p ? p->count : 1], *own = &each[p ? p->rank : 0];
    *own = (UsedMemory){.peak_mib = peak_memory()};
    for (int d = 0; d < r->plan->devices; d++) {
        own->arena += mgpu_engine_arena_bytes(engine, d);
        own->outside_arena += mgpu_engine_library_bytes(engine, d);
    }
    if (p)
        mgpu_gather_each(p, each, sizeof *each);
    for (int k = 0; k < (p ? p->count : 1); k++) {
        r->arena += each[k].arena;
        r->outside_arena += each[k].outside_arena;
        r->peak_mib += each[k].peak_mib;
    }
    if (!mgpu_computes_here(r->plan))
        r->peak_mib = (double)(r->arena + r->outside_arena) / (1 << 20);
}

/* Returns how many steps fill a second if `steps` took so long; the same in all processes. */
static int64_t steps_of_a_second(int64_t steps, double seconds, Processes *p)
{
    double each[p ? p->count : 1];
    each[p ? p->rank : 0] = seconds;
    if (p)
        mgpu_gather_each(p, each, sizeof *each);
    for (int k = 0; p && k < p->count; k++)
        seconds = each[k] > seconds ? each[k] : seconds;
    double fill = seconds > 0 ? (double)steps / seconds + 1 : MOST_STEPS;
    return fill < FEWEST_STEPS ? FEWEST_STEPS : fill > MOST_STEPS ? MOST_STEPS : (int64_t)fill;
}

/* Leaves the engine open. */
static Feed time_steps(const mgpu_program *program, const mgpu_plan *plan, const RunOptions *o, Bench *bench, BenchResult *r)
{
    *r = (BenchResult){.plan = plan, .steps = o->steps > 0 ? o->steps : FEWEST_STEPS};
    int64_t most = r->steps + (o->steps > 0 ? 0 : 1 + MOST_STEPS),
            last = 1 + o->warmup + (o->profile || o->measure ? 2 : 1) * most;
    r->untimed = 1 + o->warmup;
    *bench = (Bench){.finished_at = mgpu_allocate((size_t)last, sizeof(double))};
    Feed feed = {.program = program,
                 .plan = plan,
                 .setting = o->setting,
                 .seed = o->seed,
                 .total_steps = (double)last,
                 .steps_per_epoch = (double)last};
    feed.engine = mgpu_engine_open(mgpu_kind_of(plan), program, plan, o, collect, bench);
    mgpu_post_without_samples(&feed, MGPU_PHASE_INIT, 0, 0);
    mgpu_engine_fill_staging(feed.engine, o->seed);
    post_steps(&feed, 0, 1);
    r->first_s = mgpu_seconds_since_start(o->began) - (mgpu_seconds() - bench->finished_at[0]);
    double before, after, began = mgpu_seconds();
    int64_t launches = mgpu_engine_launches(feed.engine, &before), posted = r->untimed + r->steps;
    post_steps(&feed, 1, posted);
    int64_t fill = o->steps > 0 ? r->steps : steps_of_a_second(posted - 1, mgpu_seconds() - began, o->processes);
    if (fill > r->steps) { /* these only served to find `fill`; the next step is not timed, since it began with idle devices */
        r->untimed = posted + 1;
        r->steps = fill;
        post_steps(&feed, posted, r->untimed + r->steps);
    }
    posted = r->untimed + r->steps;
    launches = mgpu_engine_launches(feed.engine, &after) - launches;
    r->graphs = mgpu_engine_graphs(feed.engine);
    r->launches = (double)launches / (double)(posted - 1);
    r->launch_us = launches ? 1e6 * (after - before) / (double)launches : 0;
    summarise(r, mgpu_updates_of_round(program), bench->finished_at + r->untimed);
    return feed;
}

/* Adds the prediction of each operation if the plan's schedule was made for a machine. */
static void add_predicted(Profile *profile, const mgpu_plan *plan)
{
    for (int k = 0; plan->predicted.step_us > 0 && k < plan->phase_count; k++) {
        const mgpu_phase *phase = &plan->phases[k];
        View *v = mgpu_view_read(&(ViewSource){.image = plan->image}, phase->name);
        for (int d = 0; d < plan->devices; d++)
            for (int i = 0; i < phase->devices[d].op_count; i++) {
                int at = mgpu_view_find_op(&v->devices[d], phase->devices[d].ops[i].id);
                if (at >= 0)
                    mgpu_profile_predict(profile, phase, d, i, 1e-6 * v->devices[d].ops[at].time_us);
            }
        mgpu_view_free(v);
    }
}

static Profile *profile_steps(const Feed *feed, const RunOptions *o, const Bench *bench, BenchResult *r)
{
    int64_t first = r->untimed + r->steps, end = first + r->steps;
    Profile *profile = mgpu_profile_begin(feed->program, feed->plan, r->steps);
    r->profile = o->profile ? profile : NULL;
    if (o->profile)
        add_predicted(profile, feed->plan);
    mgpu_engine_set_profile(feed->engine, profile);
    double began = mgpu_seconds();
    post_steps(feed, first, end);
    r->profiled_s = bench->finished_at[end - 1] - began;
    if (o->processes)
        mgpu_profile_gather(profile, o->processes);
    if (o->measure && mgpu_speaks(o->processes))
        write_measured(profile, o->measure, r);
    return profile;
}

double mgpu_bench_ms(const mgpu_program *program, const mgpu_plan *plan, const RunOptions *o, bool *virtual)
{
    Bench bench;
    BenchResult r;
    Feed feed = time_steps(program, plan, o, &bench, &r);
    *virtual = mgpu_engine_checks(feed.engine);
    mgpu_engine_close(feed.engine, "its steps are timed");
    free(bench.finished_at);
    return r.ms[1];
}

int mgpu_bench(const mgpu_program *program, const RunOptions *o)
{
    if (mgpu_asks_for_rows(o))
        return mgpu_bench_rows(program, o);
    const mgpu_plan *plan = mgpu_choose_plan(program, o);
    mgpu_compare_program(o, program, plan);
    Bench bench;
    BenchResult r;
    Feed feed = time_steps(program, plan, o, &bench, &r);
    r.threads = mgpu_used_threads(o, plan, r.threads_text, sizeof r.threads_text);
    add_memory(&r, feed.engine, o->processes);
    r.devices = mgpu_engine_library(feed.engine);
    r.virtual = mgpu_engine_checks(feed.engine);
    Profile *profile = o->profile || o->measure ? profile_steps(&feed, o, &bench, &r) : NULL;
    (o->json ? print_json : print_text)(program, &r);
    mgpu_engine_close(feed.engine, "all results are above");
    if (profile)
        mgpu_profile_end(profile);
    free(bench.finished_at);
    return 0;
}
