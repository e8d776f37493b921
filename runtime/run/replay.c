/* replay.c: what made a loss, a gradient or a weight NaN or infinite. In: the variables as they were when the run last paused,
 * kept in memory, and the step that was not finite; out: words for the message.
 *
 * From there the run is done once more up to that step, which is audited (audit.c). If a weight was bad before it, the step before
 * is to blame, and so on back to the state that is kept. */
#include "runtime/base/base.h"
#include "runtime/engine/engine.h"
#include "runtime/run/run.h"
#include "runtime/save/checkpoint.h"
#include "runtime/weights/weights.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const int64_t MOST_LOOKED_AT = 64 << 20; /* bytes, which takes some milliseconds */
static const int64_t MOST_KEPT = (int64_t)1 << 30; /* bytes */

/* parts of sums differ from device to device */
static int devices_with(const mgpu_plan *plan, const mgpu_variable *v)
{
    return v->kind == MGPU_ACCUMULATOR && !v->replicated ? plan->devices : 1;
}

static void keep(KeptState *k, const Feed *f, const Progress *at)
{
    const mgpu_program *p = f->program;
    int64_t bytes = 0;
    for (int v = 0; v < p->variable_count; v++)
        bytes += mgpu_tensor_bytes(&p->variables[v].tensor) * devices_with(f->plan, &p->variables[v]);
    if (bytes > MOST_KEPT)
        return;
    k->data = mgpu_resize(k->data, (size_t)bytes);
    uint8_t *to = k->data;
    for (int v = 0; v < p->variable_count; v++)
        for (int d = 0; d < devices_with(f->plan, &p->variables[v]); d++, to += mgpu_tensor_bytes(&p->variables[v].tensor))
            mgpu_engine_read_variable(f->engine, d, v, to);
    memcpy(k->setting, f->setting, sizeof k->setting);
    k->at = *at;
    k->known = true;
    k->when = mgpu_seconds();
}

static void restore(const KeptState *k, const Feed *f)
{
    const mgpu_program *p = f->program;
    const uint8_t *from = k->data;
    for (int v = 0; v < p->variable_count; v++) {
        int parts = devices_with(f->plan, &p->variables[v]);
        int64_t bytes = mgpu_tensor_bytes(&p->variables[v].tensor);
        for (int d = 0; d < f->plan->devices; d++)
            mgpu_engine_write_variable(f->engine, d, v, from + (parts > 1 ? d * bytes : 0));
        from += parts * bytes;
    }
}

/* ---- words */
typedef struct Phrase { const char *word, *infinite, *nan, *both; } Phrase;
static const Phrase PHRASES[] = {
    {"log", "log of 0", "log of a negative number", "log of 0 or of a negative number"},
    {"log1p", "log1p of -1", "log1p of a number below -1", "log1p of -1 or below"},
    {"sqrt", "sqrt of a number too large", "sqrt of a negative number", "sqrt of a negative number"},
    {"div", "a division by 0, or of numbers too large", "0 / 0", "a division by 0"},
    {"exp", "exp of a number too large", "exp of a number too large", "exp of a number too large"},
    {"expm1", "expm1 of a number too large", "expm1 of a number too large", "expm1 of a number too large"},
    {"pow", "** of a number too large, or of 0 to a negative one", "** of a negative number to a fraction", "** of numbers that it has no result for"},
    {"mod", "% of 0", "% of 0", "% of 0"},
};

/* false: it may as well come of numbers that have grown too large */
static bool say_suspect(FILE *to, const mgpu_suspect *s, const Origin *o)
{
    const char *what = NULL;
    for (int i = 0; i < MGPU_COUNT(PHRASES); i++)
        if (strcmp(PHRASES[i].word, s->word) == 0)
            what = o->bits == AUDIT_INFINITE ? PHRASES[i].infinite : o->bits == AUDIT_NAN ? PHRASES[i].nan : PHRASES[i].both;
    fprintf(to, "line %d: ", s->line);
    if (what)
        fputs(what, to);
    else if (*s->word)
        fprintf(to, "%s of a number that it has no result for", s->word);
    else
        fputs(o->bits & AUDIT_NAN ? "NaN" : "a number too large", to);
    if (*s->layer)
        fprintf(to, " in '%s'", s->layer);
    bool grows = *s->word == 'e' || *s->word == 'p' || (*s->word == 'd' && o->bits == AUDIT_INFINITE); /* exp, expm1, pow, div */
    return *s->word && !grows;
}

/* the sample as its file has it */
static void say_sample(FILE *to, const Feed *f, const Batch *batch, const Origin *o)
{
    char text[600];
    const mgpu_shard *shard = &f->plan->device[o->device].shard;
    int64_t place = batch->place + shard->first + o->sample;
    if (o->sample < 0 || place >= batch->set->samples || !batch->set->stream)
        return;
    mgpu_describe(batch->set->stream, batch->order ? batch->order[place] : place, 0, text, sizeof text);
    fprintf(to, ", of %s", text);
}

static char *origin_text(const Feed *f, const Batch *batch, const Origin *o, bool *domain)
{
    char *text;
    size_t length;
    FILE *to = mgpu_begin_text(&text, &length);
    *domain = false;
    if (o->input) {
        fprintf(to, "input '%s' holds %s", o->input, o->bits & AUDIT_NAN ? "NaN" : "infinity");
        *domain = true;
    } else if (!o->op) {
        fprintf(to, "'%s' held %s before it", o->variable, o->bits & AUDIT_NAN ? "NaN" : "infinity");
    } else {
        *domain = o->op->suspect_count > 0;
        for (int i = 0; i < o->op->suspect_count; i++) {
            fputs(i ? ", or " : "", to);
            *domain = say_suspect(to, &o->op->suspects[i], o) && *domain;
        }
        if (!o->op->suspect_count)
            say_suspect(to, &(mgpu_suspect){"", "", o->op->line}, o);
    }
    say_sample(to, f, batch, o);
    if (f->plan->devices > 1)
        fprintf(to, ", on device %d", o->device);
    if (o->op && o->op->suspect_count > 1)
        fprintf(to, " (they are one kernel; mgpuc --no-fuse makes one of each)");
    mgpu_end_text(to);
    return text;
}

/* ---- of a run */
/* of a drained engine */
void mgpu_run_keep(Run *run)
{
    bool audited = mgpu_computes_here(run->plan); /* GPUs' steps are not */
    if (run->program->on_nan != MGPU_NAN_STOP || !audited || run->failure)
        return;
    int64_t weights = 0;
    for (int v = 0; v < run->program->variable_count; v++)
        weights += mgpu_tensor_bytes(&run->program->variables[v].tensor);
    const char *bad = weights < MOST_LOOKED_AT ? mgpu_not_finite(run->program, run->engine) : NULL;
    if (bad)
        mgpu_run_fail(run, run->at.step, mgpu_format("'%s' is not finite", bad));
    else
        keep(&run->kept, &run->feed, &run->at);
}

/* the run once more, from the state that is kept, and the step audited; false: all in it is finite */
static bool audit_step(Run *run, int64_t step, Origin *origin, Batch *batch)
{
    mgpu_engine_drain(run->engine);
    restore(&run->kept, &run->feed);
    memcpy(run->setting, run->kept.setting, sizeof run->setting);
    run->at = run->kept.at;
    for (; run->at.step < step - 1; mgpu_run_post(run))
        mgpu_run_order(run, run->at.epoch);
    mgpu_run_order(run, run->at.epoch);
    mgpu_engine_drain(run->engine);
    mgpu_audit_begin(run->engine);
    *batch = (Batch){.set = &run->train, .order = run->order, .place = run->at.position};
    mgpu_run_post(run);
    mgpu_engine_drain(run->engine);
    return mgpu_audit_end(run->engine, origin);
}

/* where it came from, or NULL. A weight that was bad before the step was made so by an earlier one. domain: no matter of rates */
static char *find_origin(Run *run, int64_t *step, bool *domain)
{
    char *text = NULL;
    bool earlier = true;
    for (int64_t s = run->failed_step; earlier && run->kept.known && s > run->kept.at.step && !atomic_load(&run->signal); s--) {
        Origin origin;
        Batch batch;
        if (!audit_step(run, s, &origin, &batch))
            return text;
        free(text);
        text = origin_text(&run->feed, &batch, &origin, domain);
        earlier = !origin.op && origin.variable;
        *step = s;
    }
    return text;
}

/* the message of a run that stops: what, at which step, made by what, what was saved, what to do */
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
    char *saved = !run->folder || run->saved_step < 0 ? mgpu_format("nothing was saved")
                  : mgpu_format("the checkpoint in %s is that of step %lld", run->folder, (long long)run->saved_step);
    char *all = mgpu_format("step %lld: %s%s%s%s; %s; %son_nan = \"skip\" leaves such steps out, \"ignore\" goes on",
                            (long long)run->failed_step, run->failure, origin ? ": " : "", number, origin ? origin : "", saved,
                            domain ? "" : "a smaller lr, a warmup or clip = 1.0 in the train block may cure it, ");
    free(origin);
    free(saved);
    free(run->failure);
    run->failure = all;
}
