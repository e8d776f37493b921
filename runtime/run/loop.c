/* loop.c: training, from the command line to a saved run.
 *
 * The loop posts steps; up to MGPU_STEPS_IN_FLIGHT of them are pending in the engine, which passes reports back in order
 * (collect). The engine is drained at the end of an epoch, for validation, before saving, and at the end. Training depends only
 * on (seed, step, position) and on the results of validation, which are all saved, so a run that resumes from a checkpoint equals
 * an uninterrupted one.
 *
 * After a step, in this order: validation, if it is due, and its effects (the best model, plateaus, the end of a run that is out
 * of patience); the row of the epoch; saving. A run that ends within an epoch is saved before its row is made, because that
 * resets the sums of the epoch. Signals: signals.c.
 *
 * Several processes all post the same steps: rank 0 decides for all whatever depends on a clock, a signal or a file. */
#include "runtime/base/base.h"
#include "runtime/base/options.h"
#include "runtime/base/cores.h"
#include "runtime/base/intervals.h"
#include "runtime/engine/engine.h"
#include "runtime/engine/processes.h"
#include "runtime/engine/trace.h"
#include "runtime/run/commands.h"
#include "runtime/run/run.h"
#include "runtime/run/sets.h"
#include "runtime/save/checkpoint.h"
#include "runtime/weights/weights.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ASKED_STOP = 1, ASKED_SAVE = 2, ASKED_FAILED = 4 }; /* requests before a step */

static const double KEEP_EVERY_S = 60; /* interval of keeping the state for replay.c */

/* ---- opening */
static void open_data(Run *run)
{
    const mgpu_program *p = run->program;
    const mgpu_set *train = mgpu_find_set(p, "train"), *valid = mgpu_find_set(p, "valid");
    mgpu_check_later(p, "train");
    if (!train)
        mgpu_fail(MGPU_BAD_INPUT, "%s has no data for training: data { train = idx(...) }; without data only `%s bench` runs",
                  p->model_file, run->options->program);
    bool *wanted = mgpu_allocate((size_t)p->input_count, sizeof *wanted);
    mgpu_wanted_inputs(p, run->plan, MGPU_EVERY_TRAIN_KIND, wanted);
    run->categories = mgpu_new_categories(false);
    if (run->options->resume) {
        mgpu_load_saved_categories(run->categories, run->from);
    } else {
        mgpu_begin_categories(run->categories, p, run->plan, run->options);
    }
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

/* The random numbers of an order count samples in 32 bits. */
static void check_shuffle(const Run *run)
{
    if (run->options->shuffle && run->train.shuffle && run->train.samples > UINT32_MAX)
        mgpu_fail(MGPU_BAD_INPUT, "%lld samples are too many to shuffle, 2^32 - 1 at most are possible; use --no-shuffle",
                  (long long)run->train.samples);
}

/* Returns the text of lr or decay in the train block if it is a schedule, else NULL. */
static const char *schedule_of(const mgpu_program *p, int setting)
{
    const mgpu_setting *s = &p->settings[setting];
    return !s->hidden && isnan(s->value) ? mgpu_compiled_setting(p, s->name) : NULL;
}

static bool follows_schedule(const Run *run, const char *name)
{
    for (int i = 0; i < run->program->setting_count; i++)
        if (strcmp(run->program->settings[i].name, name) == 0)
            return schedule_of(run->program, i) && isnan(run->options->setting[i]);
    return false;
}

static void choose_length(Run *run)
{
    const mgpu_program *p = run->program;
    const RunOptions *o = run->options;
    int64_t epochs = o->epochs > 0 ? o->epochs : p->epochs > 0 ? p->epochs : 1;
    int64_t batches = (run->train.samples + p->batch - 1) / p->batch, all;
    double updates = (double)batches * mgpu_updates_per_batch(p);
    run->steps_per_epoch = (int64_t)ceil(updates);
    run->total_steps = o->steps > 0 ? o->steps : o->epochs <= 0 && p->steps > 0 ? p->steps : 0;
    if (!run->total_steps)
        run->total_steps = __builtin_mul_overflow(epochs, batches, &all) ? -1 : mgpu_updates_of(p, all);
    if (run->total_steps < 0)
        mgpu_fail(MGPU_BAD_USAGE, "%lld epochs are more than 2^63 steps", (long long)epochs);
    run->pace = (Pace){updates, (double)p->batch / mgpu_updates_per_batch(p)};
    int64_t before = o->resume ? mgpu_read_course(run->from).total_steps : 0;
    run->steps_before = before == run->total_steps || !follows_schedule(run, "lr") ? 0 : before;
}

static mgpu_quantity chosen(mgpu_quantity options, mgpu_quantity program, mgpu_quantity otherwise)
{
    return options.unit != MGPU_UNIT_NONE ? options : program.unit != MGPU_UNIT_NONE ? program : otherwise;
}

/* Takes intervals of the command line, else the program's, else an epoch. */
static void choose_intervals(Run *run)
{
    const mgpu_program *p = run->program;
    const RunOptions *o = run->options;
    const mgpu_quantity epoch = {1, MGPU_UNIT_EPOCHS}, none = {0, MGPU_UNIT_NEVER};
    run->validate = chosen(o->validate, p->validate, epoch);
    run->save = chosen(o->save_every, p->save, epoch);
    run->patience = chosen(o->patience, p->patience, none);
    run->keep = o->keep > 0 ? o->keep : p->keep > 0 ? p->keep : 1;
    memcpy(run->setting, o->setting, sizeof run->setting);
    for (int i = 0; i < p->plateau_count; i++)
        run->setting[p->plateaus[i].setting] = run->at.plateau[i].scale;
    bool never = !run->valid.samples || run->validate.unit == MGPU_UNIT_NEVER;
    if (never && (p->best.metric || p->plateau_count))
        mgpu_say("%s: warning: without validation best, patience and plateau do nothing", o->program);
}

static void read_position(Run *run)
{
    const RunOptions *o = run->options;
    run->at = (Progress){.seed = o->seed, .batch = run->program->batch};
    for (int i = 0; i < run->program->plateau_count; i++)
        run->at.plateau[i].scale = 1;
    if (!o->resume)
        return;
    mgpu_read_progress(&run->at, run->program, run->from);
    char **told;
    int count = mgpu_read_kept_options(run->from, &told);
    mgpu_keep_options(&run->effective_options, run->program, told, count);
    for (int i = 0; i < count; i++)
        free(told[i]);
    free(told);
    if (o->seed_given && o->seed != run->at.seed)
        mgpu_fail(MGPU_BAD_USAGE, "the run in %s has the seed %llu and keeps it; leave --seed out, or begin anew with --init",
                  o->resume, (unsigned long long)run->at.seed);
    if (run->at.batch != run->program->batch)
        mgpu_fail(MGPU_BAD_INPUT,
                  "the run in %s has a batch of %lld, this program of %lld; compile with --set batch=%lld, or begin a "
                  "new run with its weights: --init %s/weights.safetensors",
                  o->resume, (long long)run->at.batch, (long long)run->program->batch, (long long)run->at.batch, o->resume);
}

static void check_position(const Run *run)
{
    if (run->at.position >= run->train.samples)
        mgpu_fail(
            MGPU_BAD_INPUT,
            "the run in %s has seen %lld samples of its epoch, the data hold %lld: they are other data; --data DIR says where they are, --init begins anew",
            run->options->resume, (long long)run->at.position, (long long)run->train.samples);
}

void mgpu_run_begin_at(Run *run, const Progress *at, const Saved *from)
{
    mgpu_post_without_samples(&run->feed, MGPU_PHASE_INIT, 0, 0);
    mgpu_engine_drain(run->engine);
    mgpu_doing("weights are being loaded");
    if (from)
        mgpu_load_checkpoint(run->program, run->plan, run->engine, at, from);
    else
        mgpu_load_initials(run->program, run->plan, run->engine, run->options);
    mgpu_doing(NULL);
}

static void open_engine(Run *run)
{
    run->engine = mgpu_engine_open(mgpu_kind_of(run->plan), run->program, run->plan, run->options, mgpu_run_collect, run);
    mgpu_run_open_folder(run); /* only now: without devices no folder is created */
    run->feed = (Feed){.program = run->program,
                       .plan = run->plan,
                       .setting = run->setting,
                       .engine = run->engine,
                       .seed = run->at.seed,
                       .total_steps = (double)run->total_steps,
                       .steps_per_epoch = run->pace.steps_per_epoch};
    mgpu_run_begin_at(run, &run->at, run->from);
}

/* ---- the run */

/* Returns the epoch of the last step, counted from 1. */
static int64_t epoch_of(const Run *run) { return run->at.position > 0 || !run->at.epoch ? run->at.epoch + 1 : run->at.epoch; }

static bool over(const Run *run) { return run->at.step >= run->total_steps || run->out_of_patience || run->failure; }

static bool asked_to_stop(Run *run)
{
    return mgpu_run_signal(run) || (run->options->stop_after > 0 && run->at.step >= run->options->stop_after);
}

/* All processes save, since each may have shards; rank 0 writes. */
static void save(Run *run)
{
    double began = mgpu_seconds();
    mgpu_run_save(run, epoch_of(run), over(run) || asked_to_stop(run));
    mgpu_trace_text(run->trace, TRACK_LOOP, "save", began, mgpu_seconds());
}

void mgpu_run_order(Run *run, int64_t epoch)
{
    if (run->ordered != epoch)
        mgpu_permutation(run->order, run->train.samples, run->at.seed, epoch, run->options->shuffle ? run->train.shuffle : 0);
    run->ordered = epoch;
}

/* Reads this process's samples for the following step while the run pauses. */
static void prefetch(Run *run)
{
    const Progress *at = &run->at;
    bool full = at->position == run->train.samples;
    int64_t place = full ? 0 : at->position, left = run->train.samples - place;
    left = left < run->program->batch ? left : run->program->batch;
    const Processes *p = run->options->processes;
    mgpu_range own = mgpu_samples_of(p, run->plan, p ? p->rank : 0);
    own.end = left < own.end ? left : own.end;
    double began = mgpu_seconds();
    mgpu_run_order(run, at->epoch + full);
    mgpu_trace_text(run->trace, TRACK_LOOP, "order", began, mgpu_seconds());
    mgpu_prefetch_samples(&run->train, run->order + place + own.begin, own.end - own.begin, at->seed, at->epoch + full);
}

void mgpu_run_post(Run *run)
{
    Progress *at = &run->at;
    int64_t left = run->train.samples - at->position;
    Batch batch = {.set = &run->train,
                   .order = run->order,
                   .place = at->position,
                   .samples = left < run->program->batch ? left : run->program->batch,
                   .applied = at->step,
                   .epoch = at->epoch};
    double began = mgpu_seconds();
    mgpu_post_step(&run->feed, &batch);
    mgpu_trace_text(run->trace, TRACK_LOOP, "post", began, mgpu_seconds());
    at->position += mgpu_turn(run->program, at->step++).batch_ends ? batch.samples : 0;
}

/* ---- validation */
static Evaluation evaluation(const Numbers *n, const char *split, int64_t samples)
{
    if (!n->phase)
        return (Evaluation){.split = split, .samples = samples};
    return (Evaluation){
        .split = split, .samples = samples, .names = n->phase->reports, .values = n->values, .count = n->phase->report_count};
}

static bool is_due(const Run *run, mgpu_quantity q, int64_t before, double since)
{
    const mgpu_program *p = run->program;
    if (q.unit == MGPU_UNIT_SECONDS)
        return mgpu_of_rank_0(run->options->processes, mgpu_seconds() - since >= q.amount);
    if (q.unit == MGPU_UNIT_STEPS)
        return mgpu_interval_over(q, &run->pace, before, run->at.step);
    Pace batches = {.steps_per_epoch = ceil((double)run->train.samples / (double)p->batch), .batch = (double)p->batch};
    return mgpu_interval_over(q, &batches, mgpu_batches_of(p, before), mgpu_batches_of(p, run->at.step));
}

static void lower_rates(Run *run, const Evaluation *e)
{
    for (int i = 0; i < run->program->plateau_count; i++) {
        const mgpu_plateau *p = &run->program->plateaus[i];
        Watched *w = &run->at.plateau[i];
        mgpu_watch_value(w, &p->watch, mgpu_report_value(e->names, e->values, e->count, p->watch.metric), run->at.step);
        if (mgpu_out_of_patience(w, p->patience, &run->pace, run->at.step))
            mgpu_lower(w, p->factor, run->at.step), run->at.lr = 0; /* the last step's rate is not the next one's */
        run->setting[p->setting] = w->scale;
    }
    mgpu_run_record_rates(run);
}

static void keep_best(Run *run, Evaluation *e)
{
    const mgpu_watch *watch = &run->program->best;
    if (!watch->metric)
        return;
    double value = mgpu_report_value(e->names, e->values, e->count, watch->metric);
    bool best = mgpu_watch_value(&run->at.best, watch, value, run->at.step);
    e->best = best ? 1 : -1;
    if (best)
        mgpu_run_save_best(run);
    run->out_of_patience = mgpu_out_of_patience(&run->at.best, run->patience, &run->pace, run->at.step);
}

/* The evaluation is repeated, and its report is not kept. */
static char *find_bad_sample(Run *run)
{
    const Numbers before = run->eval_report;
    run->eval_report.values = NULL;
    char *origin = mgpu_find_bad_sample(&run->feed, &run->valid, run->at.step, run->at.epoch, !run->options->processes);
    free(run->eval_report.values);
    run->eval_report = before;
    return origin;
}

/* A validation whose loss is no number does not harm the weights. If these are finite, the run continues, and ends with status 1
 * unless on_nan says otherwise. */
static void judge_validation(Run *run, const Evaluation *e)
{
    const char *loss = mgpu_bad_loss(e);
    if (!loss)
        return;
    const char *bad = mgpu_not_finite(run->program, run->plan, run->engine, run->options->processes);
    if (bad && run->program->on_nan == MGPU_NAN_STOP)
        mgpu_run_fail(run, run->at.step, mgpu_format("'%s' is not finite", bad));
    if (bad)
        return;
    if (!run->bad_validations++) {
        run->bad_validation = run->at.step;
        char *origin = find_bad_sample(run);
        mgpu_report_warning(run->reporter, "validation at step %lld: the loss is %s; %s", (long long)run->at.step, loss, origin);
        free(origin);
    }
}

/* Validates with a drained engine. Returns split NULL if it was interrupted and is still pending. */
static Evaluation validate(Run *run)
{
    const _Atomic int *stop = run->options->processes ? NULL : &run->signal; /* several processes see it at different times */
    mgpu_post_set(&run->feed, MGPU_PHASE_EVAL, &run->valid, run->at.step, run->at.epoch, NULL, stop);
    mgpu_post_without_samples(&run->feed, MGPU_PHASE_REPORT_EVAL, run->at.step, run->at.epoch);
    mgpu_engine_drain(run->engine);
    if (!run->eval_report.phase || (stop && atomic_load(stop)))
        return (Evaluation){0};
    Evaluation e = evaluation(&run->eval_report, "valid", run->valid.samples);
    run->at.validated = run->at.step;
    run->validated_at = mgpu_seconds();
    judge_validation(run, &e);
    keep_best(run, &e);
    lower_rates(run, &e);
    mgpu_report_eval(run->reporter, &e, epoch_of(run), run->at.step);
    return e;
}

/* ---- rows of the table */

/* A row has the columns of validation even if there was none. */
static Evaluation without_values(const Run *run, int kind, const char *split)
{
    const mgpu_phase *phase = mgpu_engine_phase(run->engine, kind, false);
    return (Evaluation){.split = split, .names = phase ? phase->reports : NULL, .count = phase ? phase->report_count : 0};
}

static void finish_row(Run *run, EpochReport *e, const Evaluation *valid)
{
    if (valid->split)
        e->valid = *valid;
    else if (run->valid.samples && run->validate.unit != MGPU_UNIT_NEVER)
        e->valid = without_values(run, MGPU_PHASE_REPORT_EVAL, "valid");
    e->times = mgpu_clock_epoch(run->clock);
    e->predicted = &run->plan->predicted;
    if (run->options->processes)
        mgpu_run_compare_times(run, e);
    mgpu_report_epoch(run->reporter, e);
    free(e->hosts);
}

static void report_validation(Run *run, const Evaluation *valid)
{
    EpochReport e = {.epoch = epoch_of(run),
                     .step = run->at.step,
                     .passed = (double)run->at.step / run->pace.steps_per_epoch,
                     .lr = run->lr,
                     .loss = NAN,
                     .train = without_values(run, MGPU_PHASE_REPORT_TRAIN, "train")};
    if (valid->split)
        finish_row(run, &e, valid);
}

/* Reports the epoch, or the part of it until the run ends. */
static void report_epoch(Run *run, const Evaluation *valid)
{
    const Progress *at = &run->at;
    EpochReport e = {.epoch = epoch_of(run), .step = at->step, .lr = run->lr};
    mgpu_post_without_samples(&run->feed, MGPU_PHASE_REPORT_TRAIN, at->step, at->epoch);
    mgpu_engine_drain(run->engine);
    e.train = evaluation(&run->train_report, "train", (int64_t)at->loss_samples);
    e.loss = mgpu_report_value(e.train.names, e.train.values, e.train.count, "loss");
    if (isnan(e.loss) && at->loss_samples > 0)
        e.loss = at->loss_sum / at->loss_samples;
    if (isnan(run->last_loss)) {
        run->early_loss = e.loss;
        run->early_step = at->step;
    }
    run->last_loss = e.loss;
    finish_row(run, &e, valid);
}

/* ---- the loop */
static void next_epoch(Run *run)
{
    run->at.epoch++;
    run->at.position = 0;
    run->at.loss_sum = run->at.loss_samples = 0;
}

/* Does what is due after the step that has just been posted. */
static void pause_between_steps(Run *run)
{
    Progress *at = &run->at;
    bool full = at->position == run->train.samples, last = at->step >= run->total_steps;
    bool look = run->valid.samples && run->validate.unit != MGPU_UNIT_NEVER &&
                (last || is_due(run, run->validate, at->validated, run->validated_at));
    bool store = is_due(run, run->save, at->step - 1, run->saved_at);
    bool keep = run->replay_state.known && mgpu_seconds() - run->replay_state.when > KEEP_EVERY_S;
    if (!full && !last && !look && !store && !keep && !mgpu_run_audit_due(run) && !mgpu_run_histograms_due(run))
        return;
    if (!last)
        prefetch(run);
    mgpu_engine_drain(run->engine);
    mgpu_run_audit(run);
    if (run->failure)
        return;
    mgpu_run_histograms(run);
    double began = mgpu_seconds();
    Evaluation valid = look ? validate(run) : (Evaluation){0};
    if (look)
        mgpu_trace_text(run->trace, TRACK_LOOP, "validate", began, mgpu_seconds());
    if (full) {
        report_epoch(run, &valid);
        next_epoch(run);
        if (store || over(run))
            save(run);
    } else if (over(run)) {
        save(run);
        report_epoch(run, &valid);
    } else {
        report_validation(run, &valid);
        if (store)
            save(run);
    }
    mgpu_run_save_due(run, epoch_of(run));
    mgpu_run_keep_state(run);
    mgpu_report_resume(run->reporter);
    run->last_finish = mgpu_seconds();
}

/* An interrupted validation is pending when the run resumes. */
static void validate_if_pending(Run *run)
{
    if (!run->valid.samples || !is_due(run, run->validate, run->at.validated, run->validated_at))
        return;
    Evaluation valid = validate(run);
    report_validation(run, &valid);
    if (over(run))
        save(run);
    mgpu_run_save_due(run, epoch_of(run));
}

static int asked(Run *run)
{
    int found = asked_to_stop(run) ? ASKED_STOP : 0;
    found |= atomic_exchange(&run->save_asked, false) ? ASKED_SAVE : 0;
    return mgpu_of_rank_0(run->options->processes, found | (run->failure ? ASKED_FAILED : 0));
}

/* Warns of a complete run that has learned nothing. If no step changed a weight, that is a failure. Otherwise its loss is hardly
 * lower than in its first step, where samples matter so much that a small difference is none; or it is somewhat lower, but has
 * not changed since the first epoch. A run of few steps is only judged where its loss grew tenfold. */
static void judge_end(Run *run)
{
    const int64_t ENOUGH_STEPS = 50;
    const double LITTLE = .02, MORE = .3, NONE = 1e-4, GREW = 10;
    const mgpu_phase *train = mgpu_engine_phase(run->engine, MGPU_PHASE_TRAIN, false);
    bool stays = run->at.step > run->early_step && fabs(run->early_loss - run->last_loss) <= NONE * fabs(run->last_loss);
    int64_t steps = run->at.step - run->begun_at;
    int losses = 0;
    bool lower = isfinite(run->first_loss) ? run->last_loss < run->first_loss - (stays ? MORE : LITTLE) * fabs(run->first_loss)
                                           : isfinite(run->last_loss);
    for (int i = 0; i < train->report_count; i++)
        losses += strncmp(train->reports[i], "loss.", 5) == 0;
    if (run->at.step < run->total_steps || !steps)
        return;
    if (run->at.skipped - run->begun_skipped == steps)
        run->failure = mgpu_format(
            "all %lld steps were skipped, since the loss or gradients were not finite: the weights are those that the run began with; "
            "a smaller lr, a warmup, clip = 1.0 or another precision than %s may cure it",
            (long long)steps, run->program->precision);
    else if (!run->begun_at && losses < 2 && !run->program->objective_count && !lower &&
             (steps >= ENOUGH_STEPS || run->last_loss > GREW * fabs(run->first_loss)))
        mgpu_report_warning(
            run->reporter,
            "the run has hardly learned anything: the loss was %.6g in the first step and %.6g in the last epoch%s; lr was %.3g "
            "at its end: "
            "a smaller one, a warmup or clip = 1.0 helps where the loss grew, a larger one where it stayed; inputs and targets "
            "far from -1 .. 1 are brought there "
            "first, as in image / 255 or standardize(x); mgpuc doc gradients says what shows the weights that nothing moves",
            run->first_loss, run->last_loss, stays ? ", as in the first epoch" : "", run->lr);
}

static int run_training(Run *run)
{
    validate_if_pending(run);
    mgpu_run_keep_state(run);
    mgpu_report_resume(run->reporter);
    run->last_finish = mgpu_seconds();
    while (run->at.step < run->total_steps && !run->out_of_patience) {
        mgpu_run_end_save(run, false); /* if too many have failed, all processes learn it now */
        int what = asked(run);
        bool stop = what & ASKED_STOP;
        if (what & ASKED_FAILED)
            break;
        if (what) {
            mgpu_engine_drain(run->engine);
            mgpu_run_obeyed(run);
            mgpu_run_audit(run);
            if (run->failure)
                break;
            save(run);
            mgpu_run_end_save(run, true);
            if (stop || run->failure)
                break;
            if (!run->save_error && run->saved_step == run->at.step)
                mgpu_report_remark(run->reporter, "saved at step %lld in %s", (long long)run->saved_step, run->folder);
            mgpu_report_resume(run->reporter);
            run->last_finish = mgpu_seconds();
        }
        mgpu_run_order(run, run->at.epoch);
        mgpu_run_post(run);
        pause_between_steps(run);
        mgpu_run_trace_step(run);
    }
    mgpu_run_end_trace(run);
    mgpu_run_end_saves(run);
    if (run->failure)
        mgpu_run_explain(run);
    int number = atomic_load(&run->signal);
    if (run->bad_validations && !run->failure && !number && run->program->on_nan == MGPU_NAN_STOP)
        run->failure =
            mgpu_format("the loss of %lld validation%s was not finite, first at step %lld%s%s", (long long)run->bad_validations,
                        run->bad_validations == 1 ? "" : "s", (long long)run->bad_validation,
                        run->saved_step >= 0 ? "; the weights are saved in " : "", run->saved_step >= 0 ? run->folder : "");
    if (!run->failure && !number)
        judge_end(run);
    return run->failure_status ? run->failure_status : run->failure ? MGPU_BAD_INPUT : number && !over(run) ? 128 + number : 0;
}

/* Notes numbers on the command line that replace a schedule of the train block. */
static void describe_schedules(const Run *run)
{
    const mgpu_program *p = run->program;
    for (int i = 0; i < p->setting_count && i < MGPU_MAX_SETTINGS; i++) {
        double number = run->options->setting[i];
        const char *schedule = schedule_of(p, i), *name = p->settings[i].name;
        if (schedule && !isnan(number))
            mgpu_report_remark(
                run->reporter,
                "--set %s=%.9g replaces the schedule %s = %s: %s is %.9g in every step; another schedule is compiled in: "
                "mgpuc %s --set '%s=...'",
                name, number, name, schedule, name, number, p->model_file, name);
    }
}

static void start_report(Run *run)
{
    char threads[200];
    int count = mgpu_used_threads(run->options, run->plan, threads, sizeof threads);
    StartReport s = {.program = run->program,
                     .plan = run->plan,
                     .options = run->options,
                     .engine = run->engine,
                     .train_samples = run->train.samples,
                     .valid_samples = run->valid.samples,
                     .step = run->at.step,
                     .epoch = run->at.epoch + 1,
                     .total_steps = run->total_steps,
                     .seed = run->at.seed,
                     .threads = threads,
                     .thread_count = count};
    mgpu_report_start(run->reporter, &s);
    describe_schedules(run);
}

/* Describes what has been achieved, for messages of calls that fail afterwards. */
static char *achieved(const Run *run)
{
    char step[32];
    char *end = over(run) ? mgpu_format("the run was complete")
                          : mgpu_format("the run had stopped at step %s", mgpu_grouped(run->at.step, step));
    bool saved = run->saved_step == run->at.step;
    char *all = mgpu_format("%s%s%s", end,
                            saved         ? ", and its weights are saved in "
                            : run->folder ? ""
                                          : "; nothing was to be saved",
                            saved ? run->folder : "");
    free(end);
    return all;
}

/* Returns whether the log is complete. */
static bool close_run(Run *run)
{
    char *what = achieved(run);
    mgpu_doing("the run is being closed");
    mgpu_engine_close(run->engine, what);
    free(what);
    bool logged = mgpu_reporter_close(run->reporter);
    mgpu_clock_close(run->clock);
    mgpu_close_set(&run->train);
    mgpu_close_set(&run->valid);
    mgpu_free_categories(run->categories);
    mgpu_run_forget(run);
    free(run->train_report.values);
    free(run->eval_report.values);
    free(run->order);
    mgpu_run_close_folder(run);
    free(run->at.kept);
    free(run->at.log);
    mgpu_doing(NULL);
    return logged;
}

/* Prints what the table does not show. */
static void print_end(const Run *run)
{
    const mgpu_watch *watch = &run->program->best;
    const Watched *best = &run->at.best;
    char text[48], step[32];
    if (run->out_of_patience)
        printf("stopped early: %s has not become better within %s\n", watch->metric, mgpu_quantity_text(run->patience, text));
    if (run->at.skipped)
        printf("%s step%s skipped: loss or gradients were not finite\n", mgpu_grouped(run->at.skipped, step),
               run->at.skipped == 1 ? " was" : "s were");
    if (best->any)
        printf("best %s %.6g at step %s%s\n", watch->metric, best->best, mgpu_grouped(best->best_step, step),
               !run->folder      ? ""
               : run->best_error ? ": it could not be saved"
                                 : ": best.safetensors");
    mgpu_run_print_saves(run, mgpu_seconds() - run->began);
    if (run->saved_step < 0)
        return;
    char *command = mgpu_resume_command(run->options, run->folder);
    char *saved = over(run) ? mgpu_format(run->saved_step < run->at.step ? "saved in %s, at step %lld" : "saved in %s",
                                          run->folder, (long long)run->saved_step)
                            : mgpu_format("saved in %s; to go on: %s", run->folder, command);
    mgpu_print_plain(saved);
    putchar('\n');
    free(saved);
    free(command);
}

/* A resumed run may already be complete. */
static void print_over(const Run *run)
{
    char steps[32], text[48];
    if (run->out_of_patience)
        printf("nothing is left to do: the run ended at step %s, out of patience (%s); --set patience=N makes it longer\n",
               mgpu_grouped(run->at.step, steps), mgpu_quantity_text(run->patience, text));
    else if (over(run))
        printf("nothing is left to do: the run has %s steps; --epochs or --steps make it longer\n",
               mgpu_grouped(run->at.step, steps));
}

static const char *reason_of(const Run *run, int status)
{
    return run->failure_status && run->save_error ? "not saved"
           : run->failure_status                  ? "devices differ"
           : run->failure                         ? "not finite"
           : run->out_of_patience                 ? "patience"
           : status                               ? "signal"
           : over(run)                            ? "done"
                                                  : "paused";
}

int mgpu_train(const mgpu_program *program, const RunOptions *options)
{
    Run run = {.program = program,
               .plan = mgpu_choose_plan(program, options),
               .effective_options = *options,
               .lr = NAN,
               .saved_step = -1,
               .ordered = -1,
               .first_loss = NAN,
               .early_loss = NAN,
               .last_loss = NAN};
    options = run.options = &run.effective_options;
    mgpu_compare_program(options, program, run.plan);
    mgpu_run_watch(&run);
    mgpu_run_find_folder(&run);
    mgpu_run_open_saved(&run);
    read_position(&run);
    open_data(&run);
    check_position(&run);
    check_shuffle(&run);
    mgpu_run_set_origin(&run);
    choose_length(&run);
    choose_intervals(&run);
    mgpu_run_choose_audit(&run);
    run.order = mgpu_allocate((size_t)run.train.samples, sizeof *run.order);
    run.reporter = mgpu_reporter_open(program, options);
    if (options->log) {
        free(run.at.log);
        run.at.log = realpath(options->log, NULL);
    }
    DeviceSpan span = mgpu_local_devices(options->processes, run.plan->devices);
    int own = span.end - span.first;
    run.clock =
        mgpu_clock_open(run.plan, span.first, own, !mgpu_computes_here(run.plan), own > mgpu_default_threads(options->program));
    mgpu_run_compare_origin(&run);
    if (options->processes) {
        mgpu_run_take_fingerprints(&run);
        mgpu_run_compare_data(&run);
    }
    open_engine(&run);
    mgpu_run_compare_model(&run);
    if (options->processes)
        mgpu_run_compare_state(&run);
    mgpu_run_open_trace(&run);
    start_report(&run);
    run.begun_at = run.at.step;
    run.begun_skipped = run.at.skipped;
    run.began = run.validated_at = run.saved_at = mgpu_seconds();
    run.out_of_patience = mgpu_out_of_patience(&run.at.best, run.patience, &run.pace, run.at.step);
    print_over(&run);
    mgpu_run_prepare_saves(&run);
    int status = run_training(&run);
    if (!mgpu_speaks(options->processes)) /* if rank 0 fails, it ends the others */
        status = mgpu_of_rank_0(options->processes, status);
    mgpu_report_end(run.reporter, run.at.step, epoch_of(&run), status, reason_of(&run, status));
    print_end(&run);
    if (run.failure) {
        fflush(stdout);
        mgpu_fail(status, "%s", run.failure);
    }
    if (mgpu_speaks(options->processes))
        mgpu_of_rank_0(options->processes, status);
    mgpu_run_unwatch(&run);
    mgpu_report_flush(run.reporter);
    int lost = mgpu_screen_lost(run.reporter);
    bool logged = close_run(&run);
    return status ? status : lost ? 128 + lost : logged ? 0 : MGPU_MACHINE_FAILED;
}
