/* step_results.c: collects the reports of a run's steps, checks and prints them, and measures the steps. */
#include "runtime/base/base.h"
#include "runtime/engine/engine.h"
#include "runtime/engine/trace.h"
#include "runtime/run/commands.h"
#include "runtime/run/run.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double SLOW_STEP_S = 0.1; /* with longer steps, only one is posted in advance */

static void keep_report(Numbers *n, const Work *work)
{
    n->phase = work->phase;
    n->values = mgpu_resize(n->values, (size_t)work->phase->report_count * sizeof(double));
    memcpy(n->values, work->report, (size_t)work->phase->report_count * sizeof(double));
}

/* Records what is wrong at a step, for on_nan = "stop". */
void mgpu_run_fail(Run *run, int64_t step, char *what)
{
    run->failure = what;
    run->failed_step = step;
}

/* scale: of f16's gradients, which overflow now and then; else NaN. */
static void judge_step(Run *run, int64_t step, double loss, double norm, double scale, bool skipped)
{
    char text[40];
    snprintf(text, sizeof text, "%g", isnan(loss) ? (double)NAN : loss);
    if (skipped && isfinite(loss) && scale <= 1 && run->program->on_nan == MGPU_NAN_STOP) {
        mgpu_run_fail(run, step, mgpu_format("gradients overflow although they are not scaled any more, the loss is %s", text));
    } else if (skipped && (isfinite(loss) || run->program->on_nan == MGPU_NAN_SKIP)) {
        if (!run->at.skipped++ && !(isfinite(loss) && scale > 1))
            mgpu_report_warning(run->reporter,
                                "step %lld was skipped: its loss (%s) or a gradient is not finite; how many were "
                                "is said at the end",
                                (long long)step, text);
    } else if (isfinite(loss) && !isinf(norm)) {
        return;
    } else if (run->program->on_nan != MGPU_NAN_IGNORE) {
        mgpu_run_fail(run, step,
                      isfinite(loss) ? mgpu_format("the norm of the gradient is infinite, the loss %s", text)
                                     : mgpu_format("the loss is %s", text));
    } else if (!run->warned) {
        run->warned = true;
        mgpu_report_warning(
            run->reporter,
            "the loss of step %lld is not finite; a smaller lr, a warmup or clip = 1.0 in the train block may cure it",
            (long long)step);
    }
}

/* Warns of a resumed run of another length: a schedule that depends on the fraction of steps done jumps. */
static void compare_rate(Run *run, int64_t step)
{
    static const double MUCH = 1.1; /* ratio of successive steps */
    double before = run->at.lr, low = fmin(run->lr, before), high = fmax(run->lr, before);
    if (run->steps_before && before > 0 && high > MUCH * low)
        mgpu_report_remark(
            run->reporter,
            "step %lld: lr is %.4g, it was %.4g in the step before: the run has %lld steps in all now, it had %lld, "
            "and lr goes by "
            "the share of them that is done; --set lr=%.4g keeps that of before",
            (long long)step, run->lr, before, (long long)run->total_steps, (long long)run->steps_before, before);
    run->steps_before = 0;
}

static void collect_step(Run *run, const Work *work)
{
    StepReport s = {.step = work->applied + 1,
                    .epoch = work->epoch + 1,
                    .samples = work->samples,
                    .total_steps = run->total_steps,
                    .steps_per_epoch = run->steps_per_epoch,
                    .names = work->phase->reports,
                    .values = work->report,
                    .count = work->phase->report_count,
                    .finished_at = atomic_load(&work->finished_at),
                    .input_wait_ms = mgpu_input_wait_ms(run->plan, work),
                    .communication_wait_ms = mgpu_communication_wait_ms(run->plan, work)};
    mgpu_clock_add(run->clock, work);
    if (run->failure) /* steps posted before the bad one was collected */
        return;
    double loss = mgpu_report_value(s.names, s.values, s.count, "loss");
    bool skipped = mgpu_report_value(s.names, s.values, s.count, "skipped") > 0;
    run->lr = mgpu_report_value(s.names, s.values, s.count, "lr");
    compare_rate(run, s.step);
    run->at.lr = isnan(run->lr) ? 0 : run->lr;
    if (!skipped || isfinite(loss)) {
        run->at.loss_sum += loss * (double)s.samples;
        run->at.loss_samples += (double)s.samples;
    }
    if (s.step == 1)
        run->first_loss = loss;
    mgpu_trace_step(run->trace, s.step, run->last_finish, s.finished_at);
    mgpu_report_step(run->reporter, &s);
    judge_step(run, s.step, loss, mgpu_report_value(s.names, s.values, s.count, "grad_norm"),
               mgpu_report_value(s.names, s.values, s.count, "loss_scale"), skipped);
    double seconds = s.finished_at - run->last_finish;
    Notice notice;
    if (mgpu_clock_step(run->clock, seconds, &notice)) {
        mgpu_report_notice(run->reporter, notice.kind, notice.text);
        free(notice.text);
    }
    mgpu_engine_set_steps_in_flight(run->engine, seconds > SLOW_STEP_S ? 2 : MGPU_STEPS_IN_FLIGHT);
    run->last_finish = s.finished_at;
}

void mgpu_run_collect(void *context, const Work *work)
{
    Run *run = context;
    if (mgpu_is_train_kind(work->phase->kind)) {
        collect_step(run, work);
        return;
    }
    switch (work->phase->kind) {
    case MGPU_PHASE_PROLOGUE:
    case MGPU_PHASE_ACCUMULATE: mgpu_clock_add(run->clock, work); break;
    case MGPU_PHASE_REPORT_TRAIN: keep_report(&run->train_report, work); break;
    case MGPU_PHASE_REPORT_EVAL: keep_report(&run->eval_report, work); break;
    default: break;
    }
}
