/* replay.c: finds what made a loss, a gradient or a weight NaN or infinite. In: an earlier state of the run, and the step that
 * was not finite; out: text for the message.
 *
 * The steps from that state to the bad step are repeated, and the bad step is audited (audit.c). If a weight was bad before it,
 * the step before it is audited, and so on back to the earlier state. On host devices the state is a copy of the variables, made
 * when the run last paused. GPUs, where copying is expensive, start from the last checkpoint in the run's folder, or from the
 * beginning: a resumed run is identical, so nothing needs to be copied while all is well. */
#include "runtime/base/base.h"
#include "runtime/engine/engine.h"
#include "runtime/run/commands.h"
#include "runtime/run/run.h"
#include "runtime/save/checkpoint.h"
#include "runtime/weights/weights.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const int64_t MOST_LOOKED_AT = 64 << 20;              /* bytes; checking them takes some milliseconds */
static const int64_t MOST_COPIED = (int64_t)1 << 30;         /* bytes of a copy */
static const double ANNOUNCED_S = 10, MOST_REPLAYED_S = 600; /* duration of a replay that is announced; that is not tried */

/* Partial sums differ from device to device. Caches of `decode` are not part of a run's state. */
static int devices_with(const mgpu_plan *plan, const mgpu_variable *v)
{
    return v->kind == MGPU_CACHE ? 0 : v->kind == MGPU_ACCUMULATOR && v->partial ? plan->devices : 1;
}

static int64_t bytes_of_variables(const Feed *f)
{
    const mgpu_program *p = f->program;
    int64_t bytes = 0;
    for (int v = 0; v < p->variable_count; v++)
        bytes += mgpu_tensor_bytes(&p->variables[v].tensor) * devices_with(f->plan, &p->variables[v]);
    return bytes;
}

uint8_t *mgpu_copy_variables(const Feed *f, uint8_t *data)
{
    const mgpu_program *p = f->program;
    uint8_t *to = data = mgpu_resize(data, (size_t)bytes_of_variables(f));
    for (int v = 0; v < p->variable_count; v++)
        for (int d = 0; d < devices_with(f->plan, &p->variables[v]); d++, to += mgpu_tensor_bytes(&p->variables[v].tensor))
            mgpu_engine_read_variable(f->engine, d, v, to);
    return data;
}

static void copy_state(ReplayState *k, const Feed *f, const Progress *at)
{
    if (bytes_of_variables(f) > MOST_COPIED)
        return;
    k->data = mgpu_copy_variables(f, k->data);
    memcpy(k->setting, f->setting, sizeof k->setting);
    k->at = *at;
    k->known = true;
    k->when = mgpu_seconds();
}

void mgpu_put_variables_back(const Feed *f, const uint8_t *from)
{
    const mgpu_program *p = f->program;
    for (int v = 0; v < p->variable_count; v++) {
        int parts = devices_with(f->plan, &p->variables[v]);
        int64_t bytes = mgpu_tensor_bytes(&p->variables[v].tensor);
        for (int d = 0; parts && d < f->plan->devices; d++)
            mgpu_engine_write_variable(f->engine, d, v, from + (parts > 1 ? d * bytes : 0));
        from += parts * bytes;
    }
}

/* ---- GPUs */
void mgpu_run_record_rates(Run *run)
{
    const double *before = run->rate_count ? run->rates[run->rate_count - 1].setting : run->options->setting;
    if (mgpu_computes_here(run->plan) || memcmp(before, run->setting, sizeof run->setting) == 0)
        return;
    run->rates = mgpu_resize(run->rates, (size_t)(run->rate_count + 1) * sizeof *run->rates);
    run->rates[run->rate_count].step = run->at.step;
    memcpy(run->rates[run->rate_count++].setting, run->setting, sizeof run->setting);
}

/* Finds the state from which to repeat the run. */
static void find_begin(Run *run)
{
    ReplayState *k = &run->replay_state;
    char *why = NULL;
    bool saved = run->folder && run->saved_step >= 0;
    k->from = saved ? mgpu_open_saved(run->folder, MGPU_NEED_RUN, &why) : run->from;
    free(why);
    if (saved && !k->from)
        return;
    k->at = (Progress){.seed = run->at.seed, .batch = run->at.batch};
    for (int i = 0; i < run->program->plateau_count; i++)
        k->at.plateau[i].scale = 1;
    if (k->from)
        mgpu_read_progress(&k->at, run->program, k->from);
    free(k->at.kept);
    free(k->at.log);
    k->at.log = run->at.log;
    k->at.kept = NULL;
    k->at.kept_count = 0;
    memcpy(k->setting, run->options->setting, sizeof k->setting);
    for (int i = 0; i < run->program->plateau_count; i++)
        k->setting[run->program->plateaus[i].setting] = k->at.plateau[i].scale;
    k->when = saved ? run->saved_at : run->began;
    k->known = true;
}

/* Restarts the run. Variables without an initial value are 0 then. */
static void begin_once_more(Run *run)
{
    const mgpu_program *p = run->program;
    for (int v = 0; v < p->variable_count; v++) {
        if (!devices_with(run->plan, &p->variables[v]))
            continue;
        uint8_t *zeros = mgpu_allocate((size_t)mgpu_tensor_bytes(&p->variables[v].tensor), 1);
        for (int d = 0; d < run->plan->devices; d++)
            mgpu_engine_write_variable(run->engine, d, v, zeros);
        free(zeros);
    }
    mgpu_run_begin_at(run, &run->replay_state.at, run->replay_state.from);
}

static void restore(Run *run)
{
    if (run->replay_state.data)
        mgpu_put_variables_back(&run->feed, run->replay_state.data);
    else
        begin_once_more(run);
    memcpy(run->setting, run->replay_state.setting, sizeof run->setting);
    run->at = run->replay_state.at;
}

void mgpu_run_forget(Run *run)
{
    if (run->replay_state.from != run->from)
        mgpu_close_saved((Saved *)run->replay_state.from);
    free(run->replay_state.data);
    free(run->rates);
}

/* ---- the replay */
/* The engine must be drained. */
void mgpu_run_keep_state(Run *run)
{
    bool copies = mgpu_computes_here(run->plan) && !run->options->processes,
         over = run->at.step >= run->total_steps || run->out_of_patience;
    if (run->program->on_nan != MGPU_NAN_STOP || run->failure || (!copies && (!over || run->saved))) /* saves check */
        return;
    int64_t weights = 0;
    for (int v = 0; v < run->program->variable_count; v++)
        weights += mgpu_tensor_bytes(&run->program->variables[v].tensor);
    const char *bad =
        weights < MOST_LOOKED_AT ? mgpu_not_finite(run->program, run->plan, run->engine, run->options->processes) : NULL;
    if (bad)
        mgpu_run_fail(run, run->at.step, mgpu_format("'%s' is not finite", bad));
    else if (copies)
        copy_state(&run->replay_state, &run->feed, &run->at);
}

static void post_once_more(Run *run)
{
    Progress *at = &run->at;
    if (at->position == run->train.samples) {
        at->epoch++;
        at->position = 0;
    }
    for (int i = 0; i < run->rate_count && run->rates[i].step <= at->step; i++)
        if (run->rates[i].step >= run->replay_state.at.step)
            memcpy(run->setting, run->rates[i].setting, sizeof run->setting);
    mgpu_run_order(run, at->epoch);
    mgpu_run_post(run);
}

/* Repeats the run from the earlier state and audits the step. Returns false if its values are finite or the user wants to
 * stop. */
static bool audit_step(Run *run, int64_t step, Origin *origin)
{
    mgpu_engine_drain(run->engine);
    restore(run);
    while (run->at.step < step - 1 && !atomic_load(&run->signal))
        post_once_more(run);
    mgpu_engine_drain(run->engine);
    if (run->at.step < step - 1)
        return false;
    mgpu_audit_begin(run->engine);
    post_once_more(run);
    mgpu_engine_drain(run->engine);
    return mgpu_audit_end(run->engine, origin);
}

/* Returns whether a replay is fast enough. It takes about as long as the run has taken since the state. */
static bool is_short(Run *run)
{
    double seconds = mgpu_seconds() - run->replay_state.when;
    bool is_long = seconds > MOST_REPLAYED_S && !run->replay_state.data;
    if (is_long)
        mgpu_report_remark(
            run->reporter,
            "which operation made it is not looked for: steps %lld to %lld once more would take about %.0f minutes; "
            "with saves more often (--set save=5min) they are fewer",
            (long long)run->replay_state.at.step + 1, (long long)run->failed_step, seconds / 60);
    else if (seconds > ANNOUNCED_S)
        mgpu_report_remark(run->reporter,
                           "step %lld: %s; steps %lld to %lld are run once more, to find the operation that made it, which takes "
                           "about %.0f s; Ctrl-C leaves it out",
                           (long long)run->failed_step, run->failure, (long long)run->replay_state.at.step + 1,
                           (long long)run->failed_step, seconds);
    return !is_long;
}

/* Describes the origin, or returns NULL. If a weight was bad before the step, audits earlier steps. domain: see commands.h. */
static char *find_origin(Run *run, int64_t *step, bool *domain)
{
    char *text = NULL;
    if (!mgpu_computes_here(run->plan))
        find_begin(run);
    bool earlier = run->replay_state.known && is_short(run);
    for (int64_t s = run->failed_step; earlier && s > run->replay_state.at.step && !atomic_load(&run->signal); s--) {
        Origin origin;
        if (!audit_step(run, s, &origin))
            return text;
        free(text);
        text = mgpu_origin_text(run->plan, &run->train, &origin, domain);
        earlier = !origin.op && origin.variable;
        *step = s;
    }
    return text;
}

/* Completes the message of a run that stops: what happened, at which step, its origin, what is saved, what to do. */
void mgpu_run_explain(Run *run)
{
    const Progress at = run->at;
    bool domain = false;
    int64_t step = run->failed_step;
    if (!step)
        return;
    char *origin = find_origin(run, &step, &domain), number[60] = "";
    run->at = at;
    if (origin && step < run->failed_step)
        snprintf(number, sizeof number, "step %lld, ", (long long)step);
    char *saved = !run->folder || run->saved_step < 0
                      ? mgpu_format("nothing was saved")
                      : mgpu_format("the checkpoint in %s is that of step %lld", run->folder, (long long)run->saved_step);
    char *all = mgpu_format("step %lld: %s%s%s%s; %s; %son_nan = \"skip\" leaves such steps out, \"ignore\" goes on",
                            (long long)run->failed_step, run->failure, origin ? ": " : "", number, origin ? origin : "", saved,
                            domain ? "" : "a smaller lr, a warmup or clip = 1.0 in the train block may cure it, ");
    free(origin);
    free(saved);
    free(run->failure);
    run->failure = all;
}
