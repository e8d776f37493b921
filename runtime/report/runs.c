/* runs.c: the log of a run -> curves. Lines that are not JSON are skipped, since the last line of a killed run may be incomplete.
 * A resumed run (--resume) continues the earlier one: of the steps that both have its own count, and its times are added. */
#include "runtime/report/runs.h"
#include "runtime/base/whole_file.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *const mgpu_over_name[OVERS] = {"steps", "epochs", "time"};
static const char *const EACH_STEP[] = {"loss", "lr", "samples_per_s", "grad_norm", "input_wait_ms", "communication_wait_ms"};

typedef struct LogReader {
    Sheet *sheet;
    RunLog *run;
    double before, last; /* seconds: sum of earlier runs; of the last record */
    double steps_per_epoch;
} LogReader;

static Curve *curve_of(RunLog *r, const char *name, bool valid, bool each_step, Sheet *s)
{
    for (int i = 0; i < r->curve_count; i++)
        if (strcmp(r->curves[i].name, name) == 0 && r->curves[i].valid == valid)
            return &r->curves[i];
    MGPU_APPEND(s, r->curves, r->curve_count,
                ((Curve){.name = mgpu_sheet_copy(s, name, strlen(name)), .valid = valid, .each_step = each_step}));
    return &r->curves[r->curve_count - 1];
}

const Curve *mgpu_run_curve(const RunLog *r, const char *name, bool valid)
{
    for (int i = 0; i < r->curve_count; i++)
        if (strcmp(r->curves[i].name, name) == 0 && r->curves[i].valid == valid)
            return &r->curves[i];
    return NULL;
}

static void add_value(LogReader *r, const char *name, bool valid, bool each_step, double value)
{
    if (!isfinite(value))
        return;
    Sheet *s = r->sheet;
    Curve *c = curve_of(r->run, name, valid, each_step, s);
    const double at[OVERS] = {r->run->steps, r->steps_per_epoch > 0 ? r->run->steps / r->steps_per_epoch : r->run->steps,
                              r->run->seconds};
    for (int k = 0; k < OVERS; k++) {
        int count = c->count;
        MGPU_APPEND(s, c->over[k], count, at[k]);
    }
    MGPU_APPEND(s, c->value, c->count, value);
}

/* Removes what an earlier run did after the step from which this one goes on. */
static void drop_after(RunLog *run, double step)
{
    for (int i = 0; i < run->curve_count; i++) {
        Curve *c = &run->curves[i];
        while (c->count && c->over[OVER_STEPS][c->count - 1] > step)
            c->count--;
    }
    while (run->saved_count && run->saved[run->saved_count - 1].step > step)
        run->saved_count--;
    run->steps = fmin(run->steps, step);
}

static void read_start(LogReader *r, Json *j)
{
    const Json *resumed = mgpu_json_member(j, "resumed");
    double step = mgpu_json_number(j, "step");
    if (resumed && resumed->kind == JSON_TRUE && step >= 0)
        drop_after(r->run, step);
    double samples = mgpu_json_number(j, "train_samples"), batch = mgpu_json_number(j, "batch");
    free(r->run->start);
    r->run->start = j;
    r->run->total_steps = mgpu_json_number(j, "total_steps");
    r->run->end = NULL;
    r->before = r->last;
    r->steps_per_epoch = batch > 0 ? ceil(samples / batch) : 0;
}

static void add_members(LogReader *r, const Json *of, bool valid, bool each_step, const char *before, const char *after)
{
    for (const Json *m = of ? of->first : NULL; m; m = m->next) {
        char *name = mgpu_format("%s%s%s", before, m->key, after);
        if (m->kind == JSON_NUMBER)
            add_value(r, name, valid, each_step, m->number);
        free(name);
    }
}

static void read_step(LogReader *r, const Json *j)
{
    for (int i = 0; i < MGPU_COUNT(EACH_STEP); i++)
        add_value(r, EACH_STEP[i], false, true, mgpu_json_number(j, EACH_STEP[i]));
    add_members(r, mgpu_json_member(j, "losses"), false, true, "loss.", "");
    add_members(r, mgpu_json_member(j, "metrics"), false, true, "", ", each step");
}

static void read_checkpoint(LogReader *r, const Json *j, double step)
{
    const Json *digests = mgpu_json_member(j, "sha256");
    for (const Json *m = digests ? digests->first : NULL; m; m = m->next)
        if (m->kind == JSON_TEXT && m->key) {
            LoggedFile file = {step, mgpu_sheet_copy(r->sheet, m->key, strlen(m->key)),
                               mgpu_sheet_copy(r->sheet, m->text, strlen(m->text))};
            MGPU_APPEND(r->sheet, r->run->saved, r->run->saved_count, file);
        }
}

/* Returns false if the record can be freed. */
static bool read_record(LogReader *r, Json *j)
{
    const char *event = mgpu_json_text(j, "event");
    double step = mgpu_json_number(j, "step"), seconds = mgpu_json_number(j, "seconds");
    if (strcmp(event, "start") == 0) {
        read_start(r, j);
        return true;
    }
    bool eval = strcmp(event, "eval") == 0;
    if (eval && !(strcmp(mgpu_json_text(j, "split"), "valid") == 0 && mgpu_json_number(j, "epoch") > 0))
        return false; /* no validation of the run, but by the command `eval` */
    r->run->steps = step > 0 ? step : r->run->steps;
    r->last = seconds > 0 ? r->before + seconds : r->last;
    r->run->seconds = r->last;
    if (strcmp(event, "end") == 0)
        r->run->end = mgpu_sheet_copy(r->sheet, mgpu_json_text(j, "reason"), strlen(mgpu_json_text(j, "reason")));
    if (strcmp(event, "step") == 0)
        read_step(r, j);
    if (strcmp(event, "checkpoint") == 0)
        read_checkpoint(r, j, step);
    if (!eval && strcmp(event, "epoch") != 0)
        return false;
    if (eval)
        add_value(r, "loss", true, false, mgpu_json_number(j, "loss"));
    add_members(r, mgpu_json_member(j, "metrics"), eval, false, "", "");
    return false;
}

static const char *name_of(const char *file, Sheet *s)
{
    const char *slash = strrchr(file, '/'), *base = slash ? slash + 1 : file, *dot = strrchr(base, '.');
    return mgpu_sheet_copy(s, base, dot && dot > base ? (size_t)(dot - base) : strlen(base));
}

RunLog *mgpu_run_read(const char *file, Sheet *s)
{
    size_t length;
    const char *refused;
    char *text = mgpu_read_whole(file, &length, &refused);
    if (!text)
        mgpu_fail(MGPU_BAD_INPUT, "%s cannot be read: %s", file, refused ? refused : strerror(errno));
    RunLog *run = mgpu_run_parse(file, text, length, s);
    free(text);
    return run;
}

RunLog *mgpu_run_parse(const char *file, const char *text, size_t length, Sheet *s)
{
    LogReader r = {.sheet = s, .run = MGPU_SHEET_NEW(s, RunLog, 1)};
    r.run->file = file;
    r.run->name = name_of(file, s);
    for (const char *at = text; at < text + length;) {
        const char *end = memchr(at, '\n', (size_t)(text + length - at)), *wrong = NULL;
        size_t bytes = (size_t)((end ? end : text + length) - at);
        Json *j = bytes ? mgpu_json_read(at, bytes, &wrong) : NULL;
        if (j && !read_record(&r, j)) /* `start` is kept */
            free(j);
        at += bytes + 1;
    }
    if (!r.run->start)
        mgpu_fail(MGPU_BAD_INPUT, "%s: this is no log of a run: it has no record \"start\"; ./train --log FILE writes one", file);
    return r.run;
}

double mgpu_curve_best(const Curve *c, bool *lowest)
{
    static const char *const LOWER[] = {"loss", "err", "mae", "mse", "rmse", "perplexity", "norm", "wait"};
    *lowest = false;
    for (int i = 0; i < MGPU_COUNT(LOWER); i++)
        *lowest |= strstr(c->name, LOWER[i]) != NULL;
    double best = c->count ? c->value[0] : (double)NAN;
    for (int i = 1; i < c->count; i++)
        best = *lowest ? fmin(best, c->value[i]) : fmax(best, c->value[i]);
    return best;
}
