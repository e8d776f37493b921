/* loop.c: training: from the command line to a saved run.
 *
 * The loop posts steps; the engine is up to MGPU_AHEAD of them behind and hands reports back in order (collect). It
 * drains the engine where it needs all of it: at the end of an epoch, before saving, at the end. Training depends on
 * (seed, step, position) only, so a run that goes on from a checkpoint is the run that was never interrupted.
 *
 * Signals: SIGINT and SIGTERM are blocked in all threads but taken by one that waits for them (no handler, no global). */
#include "runtime/data.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const double SLOW_STEP_S = 0.1; /* from here on only one step waits behind the one that runs */

typedef struct Numbers { double *values; const mgpu_phase *phase; } Numbers; /* the last report of a kind; phase NULL: none */

typedef struct Run {
    const mgpu_program *program;
    const mgpu_plan *plan;
    const Options *options;
    Engine *engine;
    Reporter *reporter;
    Feed feed;
    Dataset train, valid;          /* valid.samples 0: there is none */
    Categories *categories;
    int64_t *order;                /* of the epoch's samples */
    int64_t steps_per_epoch, total_steps;
    Progress at;                   /* what is posted; loss_*: what is collected */
    Numbers train_report, eval_report;
    double lr, last_finish;
    bool warned;
    char *folder;                  /* where to save; NULL: nowhere */
    bool saved;
    _Atomic int signal;            /* that asks to stop; 0: none */
    _Atomic bool finished;         /* nobody needs to watch for one any more */
} Run;

/* ---- signals */
static sigset_t stop_signals(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    return set;
}

static void *watch_signals(void *argument)
{
    Run *run = argument;
    sigset_t set = stop_signals();
    for (;;) {
        int number;
        if (sigwait(&set, &number) != 0)
            continue;
        if (atomic_load(&run->finished))
            return NULL;
        if (atomic_load(&run->signal))
            _exit(128 + number);
        static const char MESSAGE[] = "\ninterrupted: the step is finished and the run saved; once more ends it at once\n";
        if (write(STDERR_FILENO, MESSAGE, sizeof MESSAGE - 1) < 0)
            errno = 0; /* nobody reads: then nobody misses it */
        atomic_store(&run->signal, number);
    }
    return NULL;
}

/* ---- what comes back */
static void keep(Numbers *n, const Work *work)
{
    n->phase = work->phase;
    n->values = mgpu_resize(n->values, (size_t)work->phase->report_count * sizeof(double));
    memcpy(n->values, work->report, (size_t)work->phase->report_count * sizeof(double));
}

static void collect_step(Run *run, const Work *work)
{
    StepReport s = {.step = work->applied + 1, .epoch = work->epoch, .samples = work->samples, .total_steps = run->total_steps,
                    .steps_per_epoch = run->steps_per_epoch, .names = work->phase->reports, .values = work->report,
                    .count = work->phase->report_count, .finished_at = atomic_load(&work->finished_at),
                    .input_wait_ms = 1e-6 * (double)atomic_load(&work->input_wait_ns)};
    double loss = mgpu_report_value(s.names, s.values, s.count, "loss");
    run->lr = mgpu_report_value(s.names, s.values, s.count, "lr");
    run->at.loss_sum += loss * (double)s.samples;
    run->at.loss_samples += (double)s.samples;
    mgpu_report_step(run->reporter, &s);
    if (!isfinite(loss) && !run->warned) {
        run->warned = true;
        mgpu_report_warning(run->reporter, "the loss of step %lld is not finite; a smaller lr or a bound (clip) may help",
                            (long long)s.step);
    }
    mgpu_engine_set_ahead(run->engine, s.finished_at - run->last_finish > SLOW_STEP_S ? 2 : MGPU_AHEAD);
    run->last_finish = s.finished_at;
}

static void collect(void *context, const Work *work)
{
    Run *run = context;
    switch (work->phase->kind) {
    case MGPU_PHASE_TRAIN: collect_step(run, work); break;
    case MGPU_PHASE_REPORT_TRAIN: keep(&run->train_report, work); break;
    case MGPU_PHASE_REPORT_EVAL: keep(&run->eval_report, work); break;
    default: break;
    }
}

/* ---- opening */
static void open_data(Run *run)
{
    const mgpu_program *p = run->program;
    const mgpu_set *train = mgpu_find_set(p, "train"), *valid = mgpu_find_set(p, "valid");
    if (!train)
        mgpu_fail(MGPU_BAD_INPUT, "%s has no data for training: data { train = idx(...) }; without data only `%s bench` runs",
                  p->model_file, run->options->program);
    bool *wanted = mgpu_allocate((size_t)p->input_count, sizeof *wanted);
    mgpu_wanted_inputs(p, run->plan, 1u << MGPU_PHASE_PROLOGUE | 1u << MGPU_PHASE_ACCUMULATE | 1u << MGPU_PHASE_TRAIN, wanted);
    run->categories = mgpu_new_categories(false);
    char *weights = run->options->resume ? mgpu_format("%s/weights.safetensors", run->options->resume) : NULL;
    if (weights || run->options->init)
        mgpu_load_categories(run->categories, weights ? weights : run->options->init);
    free(weights);
    mgpu_open_set(&run->train, p, train, wanted, run->options->data, run->categories);
    if (valid && run->options->evaluate) {
        mgpu_wanted_inputs(p, run->plan, 1u << MGPU_PHASE_EVAL, wanted);
        bool any = false;
        for (int i = 0; i < p->input_count; i++)
            any = any || wanted[i];
        if (any)
            mgpu_open_set(&run->valid, p, valid, wanted, run->options->data, run->categories);
    }
    free(wanted);
}

static void choose_length(Run *run)
{
    const mgpu_program *p = run->program;
    const Options *o = run->options;
    int64_t epochs = o->epochs > 0 ? o->epochs : p->epochs > 0 ? p->epochs : 1;
    run->steps_per_epoch = (run->train.samples + p->batch - 1) / p->batch;
    run->total_steps = o->steps > 0 ? o->steps : o->epochs <= 0 && p->steps > 0 ? p->steps : 0;
    if (!run->total_steps && __builtin_mul_overflow(epochs, run->steps_per_epoch, &run->total_steps))
        mgpu_fail(MGPU_BAD_USAGE, "%lld epochs are more than 2^63 steps", (long long)epochs);
}

static void read_position(Run *run)
{
    const Options *o = run->options;
    run->at = (Progress){.seed = o->seed, .batch = run->program->batch};
    if (!o->resume)
        return;
    mgpu_read_progress(&run->at, run->program, o->resume);
    if (o->seed_given && o->seed != run->at.seed)
        mgpu_fail(MGPU_BAD_USAGE, "the run in %s has the seed %llu and keeps it; leave --seed out, or begin anew with --init",
                  o->resume, (unsigned long long)run->at.seed);
    if (run->at.batch != run->program->batch)
        mgpu_fail(MGPU_BAD_INPUT, "the run in %s has a batch of %lld, this program of %lld; compile with --set batch=%lld, or begin a "
                  "new run with its weights: --init %s/weights.safetensors", o->resume, (long long)run->at.batch,
                  (long long)run->program->batch, (long long)run->at.batch, o->resume);
}

static void check_position(const Run *run)
{
    if (run->at.position > run->train.samples)
        mgpu_fail(MGPU_BAD_INPUT, "the run in %s has seen %lld samples of its epoch, the data holds %lld", run->options->resume,
                  (long long)run->at.position, (long long)run->train.samples);
}

static void open_engine(Run *run)
{
    const Options *o = run->options;
    run->engine = mgpu_engine_open(run->program, run->plan, run->options->threads, collect, run);
    run->feed = (Feed){.program = run->program, .plan = run->plan, .setting = o->setting, .engine = run->engine, .seed = run->at.seed,
                       .total_steps = (double)run->total_steps, .steps_per_epoch = (double)run->steps_per_epoch};
    mgpu_post_alone(&run->feed, MGPU_PHASE_INIT, 0, 0);
    mgpu_engine_drain(run->engine);
    if (o->init)
        mgpu_load_weights(run->program, run->plan, run->engine, o->init);
    if (o->resume)
        mgpu_load_checkpoint(run->program, run->plan, run->engine, &run->at, o->resume);
}

/* ---- the run */
static bool over(const Run *run)
{
    return run->at.step >= run->total_steps;
}

static void save(Run *run)
{
    if (!run->folder)
        return;
    mgpu_engine_drain(run->engine);
    mgpu_save_checkpoint(run->program, run->plan, run->engine, &run->at, run->categories, run->folder);
    run->saved = true;
    mgpu_report_checkpoint(run->reporter, run->folder, run->at.step, run->at.epoch);
}

/* posts steps to the end of the epoch, or of the run; false: a signal or --stop-after asks to stop */
static bool train_epoch(Run *run)
{
    Progress *at = &run->at;
    mgpu_permutation(run->order, run->train.samples, at->seed, at->epoch, run->options->shuffle ? run->train.shuffle : 0);
    mgpu_report_resume(run->reporter);
    run->last_finish = mgpu_seconds();
    while (at->position < run->train.samples && !over(run)) {
        if (atomic_load(&run->signal) || (run->options->stop_after > 0 && at->step >= run->options->stop_after))
            return false;
        int64_t left = run->train.samples - at->position;
        Batch batch = {.set = &run->train, .order = run->order, .place = at->position,
                       .samples = left < run->program->batch ? left : run->program->batch, .applied = at->step, .epoch = at->epoch};
        mgpu_post_step(&run->feed, &batch);
        at->step++;
        at->position += batch.samples;
    }
    mgpu_engine_drain(run->engine);
    return true;
}

static Evaluation evaluation(const Numbers *n, const char *split, int64_t samples)
{
    if (!n->phase)
        return (Evaluation){.split = split, .samples = samples};
    return (Evaluation){split, samples, n->phase->reports, n->values, n->phase->report_count};
}

/* what the epoch's samples, or those up to the end of the run, were worth */
static void report_epoch(Run *run)
{
    const Progress *at = &run->at;
    EpochReport e = {.epoch = at->epoch, .step = at->step, .lr = run->lr};
    mgpu_post_alone(&run->feed, MGPU_PHASE_REPORT_TRAIN, at->step, at->epoch);
    if (run->valid.samples) {
        mgpu_post_set(&run->feed, MGPU_PHASE_EVAL, &run->valid, at->step, at->epoch, NULL, &run->signal);
        mgpu_post_alone(&run->feed, MGPU_PHASE_REPORT_EVAL, at->step, at->epoch);
    }
    mgpu_engine_drain(run->engine);
    e.train = evaluation(&run->train_report, "train", (int64_t)at->loss_samples);
    e.loss = mgpu_report_value(e.train.names, e.train.values, e.train.count, "loss");
    if (isnan(e.loss) && at->loss_samples > 0)
        e.loss = at->loss_sum / at->loss_samples;
    if (run->valid.samples && run->eval_report.phase && !atomic_load(&run->signal)) {
        e.valid = evaluation(&run->eval_report, "valid", run->valid.samples);
        mgpu_report_eval(run->reporter, &e.valid, at->epoch, at->step);
    }
    mgpu_report_epoch(run->reporter, &e);
}

static int run_training(Run *run)
{
    while (!over(run)) {
        if (!train_epoch(run)) {
            mgpu_engine_drain(run->engine);
            save(run);
            break;
        }
        if (run->at.position < run->train.samples) { /* the run ends within the epoch: its sums are saved before they are reset */
            save(run);
            report_epoch(run);
            break;
        }
        report_epoch(run);
        run->at.epoch++;
        run->at.position = 0;
        run->at.loss_sum = run->at.loss_samples = 0;
        save(run);
    }
    int number = atomic_load(&run->signal);
    return number && !over(run) ? 128 + number : 0;
}

static void start_report(Run *run)
{
    char threads[200];
    int count = mgpu_used_threads(run->options, run->plan->devices, threads, sizeof threads);
    StartReport s = {.program = run->program, .plan = run->plan, .engine = run->engine, .train_samples = run->train.samples,
                     .valid_samples = run->valid.samples, .step = run->at.step, .epoch = run->at.epoch,
                     .total_steps = run->total_steps, .seed = run->at.seed,
                     .threads = threads, .thread_count = count};
    mgpu_report_start(run->reporter, &s);
}

static void close_run(Run *run)
{
    mgpu_engine_close(run->engine);
    mgpu_reporter_close(run->reporter);
    mgpu_close_set(&run->train);
    mgpu_close_set(&run->valid);
    mgpu_free_categories(run->categories);
    free(run->train_report.values);
    free(run->eval_report.values);
    free(run->order);
    free(run->folder);
}

int mgpu_train(const mgpu_program *program, const Options *options)
{
    Run run = {.program = program, .plan = mgpu_choose_plan(program, options), .options = options, .lr = NAN};
    sigset_t set = stop_signals();
    pthread_sigmask(SIG_BLOCK, &set, NULL); /* inherited by all threads */
    pthread_t watcher;
    if (pthread_create(&watcher, NULL, watch_signals, &run) != 0)
        mgpu_fail(MGPU_MACHINE_FAILED, "the thread that waits for signals cannot be started");
    read_position(&run);
    open_data(&run);
    check_position(&run);
    choose_length(&run);
    run.order = mgpu_allocate((size_t)run.train.samples, sizeof *run.order);
    run.folder = options->write ? mgpu_save_folder(options) : NULL;
    if (run.folder)
        mgpu_make_folder(run.folder);
    run.reporter = mgpu_reporter_open(program, options->log);
    open_engine(&run);
    start_report(&run);
    char steps[32];
    if (over(&run))
        printf("nothing is left to do: the run has %s steps; --epochs or --steps make it longer\n", mgpu_grouped(run.at.step, steps));
    int status = run_training(&run);
    mgpu_report_end(run.reporter, run.at.step, run.at.epoch, status);
    if (run.saved)
        printf("saved in %s\n", run.folder);
    atomic_store(&run.finished, true);
    pthread_kill(watcher, SIGTERM); /* wakes it; a cancelled thread would leave its stack poisoned under ASan */
    pthread_join(watcher, NULL);
    close_run(&run);
    return status;
}
