/* trace.c: `--trace FILE --trace-steps A:B`: chooses the steps to trace, and writes the file as soon as they have completed, for
 * which the run pauses once. */
#include "runtime/base/base.h"
#include "runtime/base/options.h"
#include "runtime/base/whole_file.h"
#include "runtime/engine/trace.h"
#include "runtime/run/commands.h"
#include "runtime/run/run.h"

#include <stdlib.h>
#include <string.h>

enum { USUAL_LAST = 15, USUAL_STEPS = 5 }; /* without --trace-steps: late enough for warm caches */

static _Noreturn void misread(const RunOptions *o)
{
    mgpu_fail(MGPU_BAD_USAGE, "--trace-steps takes the first and the last step, as in 100:105, not '%s'", o->trace_steps);
}

static void choose_steps(const Run *run, int64_t *first, int64_t *last)
{
    const RunOptions *o = run->options;
    int64_t end = o->stop_after > 0 && o->stop_after < run->total_steps ? o->stop_after : run->total_steps;
    *last = run->at.step + USUAL_LAST < end ? run->at.step + USUAL_LAST : end;
    *first = *last - USUAL_STEPS < run->at.step ? run->at.step + 1 : *last - USUAL_STEPS + 1;
    if (!o->trace_steps)
        return;
    char *at;
    *first = strtoll(o->trace_steps, &at, 10);
    if (at == o->trace_steps || *at != ':')
        misread(o);
    const char *second = at + 1;
    *last = strtoll(second, &at, 10);
    if (at == second || *at || *first < 1 || *last < *first)
        misread(o);
    if (*first <= run->at.step || *last > end)
        mgpu_fail(MGPU_BAD_USAGE, "--trace-steps %s: this run does the steps %lld to %lld", o->trace_steps,
                  (long long)run->at.step + 1, (long long)end);
}

/* Checked before the run, which may be long. */
static void check_file(const char *path)
{
    int error = mgpu_check_whole(path);
    if (error)
        mgpu_fail(MGPU_MACHINE_FAILED, "--trace %s: it cannot be written: %s", path, strerror(error));
}

void mgpu_run_open_trace(Run *run)
{
    int64_t first, last;
    if (!run->options->trace || run->at.step >= run->total_steps)
        return;
    choose_steps(run, &first, &last);
    check_file(run->options->trace);
    run->trace = mgpu_trace_open(run->program, run->plan, first, last, mgpu_engine_checks(run->engine));
    mgpu_engine_set_trace(run->engine, run->trace);
    mgpu_trace_set(&run->train, run->trace);
    mgpu_trace_set(&run->valid, run->trace);
}

void mgpu_run_end_trace(Run *run)
{
    if (!run->trace)
        return;
    mgpu_engine_drain(run->engine);
    mgpu_engine_set_trace(run->engine, NULL);
    mgpu_trace_set(&run->train, NULL);
    mgpu_trace_set(&run->valid, NULL);
    char *wrong = mgpu_trace_write(run->trace, run->options->trace);
    if (wrong)
        mgpu_report_warning(run->reporter, "--trace %s: %s; there is no trace", run->options->trace, wrong);
    TracedTransfers x = mgpu_traced_transfers(run->trace);
    if (!wrong && x.all > 0)
        mgpu_report_remark(run->reporter,
                           "--trace: a step has %.3f ms of transfers between devices, of which %.0f %% are beside computing",
                           1e3 * x.all, 100 * x.overlapped / x.all);
    free(wrong);
    mgpu_trace_close(run->trace);
    run->trace = NULL;
}

void mgpu_run_trace_step(Run *run)
{
    if (!mgpu_trace_over(run->trace, run->at.step))
        return;
    mgpu_run_end_trace(run);
    mgpu_report_resume(run->reporter);
    run->last_finish = mgpu_seconds();
}
