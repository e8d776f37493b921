/* saves.c: a training run and its folder: who may write there, what is saved when, and what happens if that fails.
 *
 * A save begins with a copy of the variables between two steps; a thread writes it while the run continues. The run waits only
 * for the last save, and for one without memory for a copy.
 *
 * A save that fails is reported, and tried again when the next one is due; the previous save stays current. The run fails if its
 * last save does, or after as many consecutive failures as --failed-saves allows. */
#include "runtime/base/base.h"
#include "runtime/base/options.h"
#include "runtime/engine/trace.h"
#include "runtime/run/run.h"

#include <stdlib.h>
#include <string.h>

/* ---- opening */
static bool goes_on_there(const Run *run) { return run->options->resume && mgpu_same_folder(run->folder, run->options->resume); }

static void check_vacant(const Run *run)
{
    const RunOptions *o = run->options;
    bool goes_on = false;
    char *found = o->overwrite || goes_on_there(run) ? NULL : mgpu_find_saved(run->folder, &goes_on);
    char *further =
        goes_on ? mgpu_format("--resume %s goes on with it, ", run->folder) : mgpu_format("--init takes its weights, ");
    if (found)
        mgpu_fail(MGPU_BAD_INPUT,
                  "%s holds %s; %s--overwrite replaces it when the new run is first saved, --save DIR names another folder",
                  run->folder, found, further);
    free(further);
}

void mgpu_run_find_folder(Run *run)
{
    if (!run->options->write)
        return;
    run->folder = mgpu_save_folder(run->options);
    check_vacant(run);
    mgpu_doing("the folder of the run is being opened");
    if (goes_on_there(run)) /* from here on nobody else changes the folder */
        run->saves = mgpu_open_save_folder(run->folder);
    mgpu_doing(NULL);
}

void mgpu_run_open_saved(Run *run)
{
    char *why;
    int need = run->saves ? MGPU_NEED_LOCKED_RUN : MGPU_NEED_RUN;
    if (run->options->processes) /* rank 0 holds the lock for all, so all read the same save */
        need = mgpu_of_rank_0(run->options->processes, need);
    if (!run->options->resume)
        return;
    mgpu_doing("the saved run is being read");
    run->from = mgpu_open_saved(run->options->resume, need, &why);
    mgpu_doing(NULL);
    if (!run->from)
        mgpu_fail(MGPU_BAD_INPUT, "--resume %s: there is no saved run (%s)", run->options->resume, why);
}

void mgpu_run_open_folder(Run *run)
{
    if (!run->folder)
        return;
    if (run->saves) {
        mgpu_continue_saves(run->saves, run->from);
        run->saved_step = run->at.step;
        return;
    }
    mgpu_doing("the folder of the run is being opened");
    mgpu_make_folder(run->folder);
    run->saves = mgpu_open_save_folder(run->folder);
    mgpu_doing(NULL);
    check_vacant(run);      /* another run may have ended since */
    run->at.kept_count = 0; /* in another folder the run keeps no earlier saves */
    if (!run->from || !run->at.best.any || !mgpu_has_saved_best(run->from))
        return;
    /* all files, so that a run can resume there */
    char *error = mgpu_bring_save(run->saves, run->from, run->at.step, &run->origin);
    if (error)
        mgpu_fail(MGPU_MACHINE_FAILED, "%s", error);
    run->saved_step = run->at.step;
}

/* Reads samples; errors in them are reported where reading would begin anyway. */
void mgpu_run_take_fingerprints(Run *run)
{
    if (run->train.samples > 0 && !*run->origin.train_data)
        mgpu_fingerprint(&run->train, run->origin.train_data);
    if (run->valid.samples > 0 && !*run->origin.valid_data)
        mgpu_fingerprint(&run->valid, run->origin.valid_data);
}

/* ---- what the run resumes with */
void mgpu_run_set_origin(Run *run)
{
    run->origin = (SaveOrigin){.train_samples = run->train.samples, .valid_samples = run->valid.samples};
    snprintf(run->origin.model, sizeof run->origin.model, "%s", run->program->identity ? run->program->identity : "");
}

static void compare_data(Run *run, const char *set, const char *then, const char *now)
{
    if (*then && *now && strcmp(then, now) != 0)
        mgpu_report_warning(
            run->reporter,
            "the run in %s was saved with other samples in the data set %s, or with another order of them: files have changed "
            "since then, or --data or the program names others",
            run->options->resume, set);
}

static void compare_samples(Run *run, const char *set, int64_t then, int64_t now)
{
    char a[32], b[32];
    if (then >= 0 && then != now)
        mgpu_report_warning(run->reporter,
                            "the run in %s was saved with %s samples in the data set %s, which has %s now: epochs and orders of "
                            "samples are others from here on",
                            run->options->resume, mgpu_grouped(then, a), set, mgpu_grouped(now, b));
}

void mgpu_run_compare_origin(Run *run)
{
    const SaveOrigin *then = run->from ? mgpu_saved_origin(run->from) : NULL, *now = &run->origin;
    if (!then)
        return;
    mgpu_run_take_fingerprints(run);
    compare_samples(run, "train", then->train_samples, now->train_samples);
    if (now->valid_samples && then->valid_samples)
        compare_samples(run, "valid", then->valid_samples, now->valid_samples);
    if (then->train_samples == now->train_samples)
        compare_data(run, "train", then->train_data, now->train_data);
    if (now->valid_samples && then->valid_samples == now->valid_samples)
        compare_data(run, "valid", then->valid_data, now->valid_data);
}

void mgpu_run_compare_model(Run *run)
{
    const SaveOrigin *then = run->from ? mgpu_saved_origin(run->from) : NULL, *now = &run->origin;
    if (then && *then->model && *now->model && strcmp(then->model, now->model) != 0)
        mgpu_report_warning(run->reporter,
                            "the run in %s was saved by a program of another model than this one, with the same weights: "
                            "what they compute differs",
                            run->options->resume);
}

/* ---- the result of a save */
/* last: there will be no other save. */
static void say_failed(Run *run, char *error, bool last)
{
    char *saved = run->saved_step < 0
                      ? mgpu_format("nothing is saved yet")
                      : mgpu_format("the checkpoint in %s is that of step %lld", run->folder, (long long)run->saved_step);
    free(run->save_error);
    run->save_error = mgpu_format("step %lld could not be saved: %s; %s", (long long)run->job.at.step, error, saved);
    free(saved);
    run->failed_saves++;
    if (run->options->failed_saves > 0 && run->failed_saves >= run->options->failed_saves) {
        run->failure = mgpu_format("%s; --failed-saves %lld", run->save_error, (long long)run->options->failed_saves);
        run->failure_status = MGPU_MACHINE_FAILED;
    } else if (!last) {
        mgpu_report_warning(run->reporter, "%s; the next save is tried when it is due", run->save_error);
    }
}

static void forget(char **error)
{
    free(*error);
    *error = NULL;
}

static void report(Run *run, const char *path, bool best)
{
    const SaveTimes times = {run->job_seconds, run->job_stall};
    char *digests = mgpu_saved_digests(run->saves, best);
    mgpu_report_checkpoint(run->reporter, path, run->job.at.step, run->job_epoch, digests, &times);
    free(digests);
}

static void take_best(Run *run, const char *error)
{
    forget(&run->best_error);
    if (error) {
        run->best_error = mgpu_format("the best model, of step %lld, could not be saved: %s", (long long)run->job.at.step, error);
        return;
    }
    char *path = mgpu_format("%s/best.safetensors", run->folder);
    report(run, path, true);
    free(path);
}

static void take_checkpoint(Run *run)
{
    forget(&run->save_error);
    run->failed_saves = 0;
    run->saved_step = run->job.at.step;
    free(run->at.kept);
    run->at.kept = run->job.at.kept;
    run->at.kept_count = run->job.at.kept_count;
    report(run, run->folder, false);
}

static void end_job(Run *run, bool last)
{
    char *error = run->job_error;
    run->job_error = NULL;
    free(run->job.tables);
    if (!run->saves) /* rank 0 does the rest */
        return;
    if (run->job.best)
        take_best(run, error);
    if (error)
        say_failed(run, error, last);
    else if (run->job.checkpoint)
        take_checkpoint(run);
    if (error && run->job.checkpoint)
        free(run->job.at.kept);
    free(error);
}

/* ---- saving in the background: one save at a time */
static void write_job(Run *run)
{
    run->job_began = mgpu_seconds();
    run->job_error = mgpu_write_save(&run->job);
    run->job_seconds = mgpu_seconds() - run->job_began;
}

static void *write_in_background(void *argument)
{
    Run *run = argument;
    mgpu_doing("a save is being written");
    write_job(run);
    mgpu_doing(NULL);
    atomic_store(&run->job_done, true);
    return NULL;
}

static void *prepare(void *argument)
{
    Run *run = argument;
    mgpu_prepare_snapshot(&run->job.variables);
    return NULL;
}

void mgpu_run_prepare_saves(Run *run)
{
    Processes *p = run->options->processes;
    run->saved = mgpu_of_rank_0(p, run->saves != NULL);
    if (run->saves)
        mgpu_run_take_fingerprints(run);
    run->job.variables = (Snapshot){.program = run->program,
                                    .plan = run->plan,
                                    .processes = p,
                                    .in_parts = p && run->saved && mgpu_share_folder(run->saves, p)};
    run->preparing = run->saved && pthread_create(&run->saver, NULL, prepare, run) == 0;
}

void mgpu_run_end_save(Run *run, bool wait)
{
    mgpu_doing(wait && (run->preparing || run->saving) ? "the last save is being finished" : NULL);
    if (wait && run->preparing) {
        pthread_join(run->saver, NULL);
        run->preparing = false;
    }
    bool ends = run->saving && (wait || atomic_load(&run->job_done));
    if (ends)
        pthread_join(run->saver, NULL);
    mgpu_doing(NULL);
    if (!ends)
        return;
    run->saving = false;
    mgpu_trace_text(run->trace, TRACK_SAVES, "write a save", run->job_began, run->job_began + run->job_seconds);
    end_job(run, false);
}

/* With on_nan = "ignore" the run continues, and the previous save stays. */
static void pass_over(Run *run, const char *bad)
{
    run->best_due = false;
    if (run->save_refused)
        return;
    run->save_refused = true;
    char *saved = run->saved_step < 0
                      ? mgpu_format("nothing is saved")
                      : mgpu_format("the checkpoint in %s stays that of step %lld", run->folder, (long long)run->saved_step);
    mgpu_report_warning(run->reporter, "step %lld: '%s' is not finite, so it is not saved; %s", (long long)run->at.step, bad,
                        saved);
    free(saved);
}

/* Returns false if some weights are not finite. */
static bool copy_variables(Run *run, bool checkpoint, bool *copied)
{
    run->job.variables.metadata = (FileMetadata){run->at.step, run->job.tables};
    *copied = mgpu_take_snapshot(&run->job.variables, run->engine, checkpoint);
    const char *bad = mgpu_snapshot_not_finite(&run->job.variables);
    if (bad && run->program->on_nan == MGPU_NAN_IGNORE)
        pass_over(run, bad);
    else if (bad)
        mgpu_run_fail(run, run->at.step, mgpu_format("'%s' is not finite", bad));
    return !bad;
}

/* Pauses the run while its variables are copied and the previous save is still being written. Rank 0 decides what to save. The
 * first save is a checkpoint, so that a run can resume from any folder with a save. */
static void start_job(Run *run, bool wish, int64_t epoch, bool last)
{
    enum { CHECKPOINT = 1, BEST = 2 };
    double began = mgpu_seconds();
    bool copied;
    mgpu_run_end_save(run, true);
    mgpu_doing("the run is being saved");
    bool best = run->best_due || (run->best_error && run->at.best.best_step == run->at.step);
    int wanted = (wish || run->saved_step < 0 ? CHECKPOINT : 0) | (best ? BEST : 0);
    int what = !run->saved ? 0 : mgpu_of_rank_0(run->options->processes, run->failure ? 0 : wanted);
    bool checkpoint = what & CHECKPOINT;
    SaveJob *job = &run->job;
    job->tables = what ? mgpu_categories_text(run->categories) : NULL;
    if (!what || !copy_variables(run, checkpoint, &copied)) {
        free(job->tables);
        mgpu_doing(NULL);
        return;
    }
    job->folder = run->saves;
    job->origin = run->origin;
    job->at = run->at;
    job->keep = wish ? run->keep : 1; /* keeps step-N only of checkpoints that were due */
    job->total_steps = run->total_steps;
    job->steps_per_epoch = run->steps_per_epoch;
    job->options = run->options->repeated;
    job->option_count = run->options->repeated_count;
    job->checkpoint = checkpoint;
    job->best = what & BEST;
    run->best_due = false;
    run->job_epoch = epoch;
    run->saved_at = checkpoint ? began : run->saved_at;
    atomic_store(&run->job_done, false);
    run->saving = copied && !last && pthread_create(&run->saver, NULL, write_in_background, run) == 0;
    if (!run->saving)
        write_job(run);
    run->job_stall = mgpu_seconds() - began;
    run->stalled += last ? 0 : run->job_stall;
    run->saves_begun += !last;
    mgpu_doing(NULL);
    if (!run->saving)
        end_job(run, last);
}

void mgpu_run_save(Run *run, int64_t epoch, bool last) { start_job(run, true, epoch, last); }

void mgpu_run_save_best(Run *run) { run->best_due = run->saved; }

void mgpu_run_save_due(Run *run, int64_t epoch)
{
    if (run->best_due)
        start_job(run, false, epoch, false);
}

void mgpu_run_end_saves(Run *run)
{
    mgpu_run_end_save(run, true);
    const char *error = run->save_error ? run->save_error : run->best_error;
    if (!error || run->failure)
        return;
    run->failure = mgpu_format("%s", error);
    run->failure_status = MGPU_MACHINE_FAILED;
}

void mgpu_run_print_saves(const Run *run, double seconds)
{
    if (run->saves_begun)
        printf("%lld save%s beside the run, which waited %.3f s for %s, %.2f %% of its time\n", (long long)run->saves_begun,
               run->saves_begun == 1 ? "" : "s", run->stalled, run->saves_begun == 1 ? "it" : "them",
               100 * run->stalled / (seconds > 0 ? seconds : 1));
}

void mgpu_run_close_folder(Run *run)
{
    mgpu_close_snapshot(&run->job.variables);
    mgpu_close_save_folder(run->saves);
    mgpu_close_saved(run->from);
    free(run->save_error);
    free(run->best_error);
    free(run->folder);
}
