/* replay.c: what made a loss, a gradient or a weight NaN or infinite. In: the variables as they were when the run last paused,
 * kept in memory, and the step that was not finite; out: words for the message.
 *
 * From there the run is done once more up to that step, which is audited (audit.c). If a weight was bad before it, the step before
 * is to blame, and so on back to the state that is kept. */
#include "runtime/data.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const int64_t MOST_KEPT = (int64_t)1 << 30; /* bytes */

/* parts of sums differ from device to device */
static int devices_with(const Engine *e, const mgpu_plan *plan, const mgpu_variable *v)
{
    (void)e;
    return v->kind == MGPU_ACCUMULATOR && !v->replicated ? plan->devices : 1;
}

void mgpu_keep_state(KeptState *k, const Feed *f, const Progress *at)
{
    const mgpu_program *p = f->program;
    int64_t bytes = 0;
    for (int v = 0; v < p->variable_count; v++)
        bytes += mgpu_tensor_bytes(&p->variables[v].tensor) * devices_with(f->engine, f->plan, &p->variables[v]);
    if (bytes > MOST_KEPT)
        return;
    k->data = mgpu_resize(k->data, (size_t)bytes);
    uint8_t *to = k->data;
    for (int v = 0; v < p->variable_count; v++)
        for (int d = 0; d < devices_with(f->engine, f->plan, &p->variables[v]); d++, to += mgpu_tensor_bytes(&p->variables[v].tensor))
            mgpu_engine_read_variable(f->engine, d, v, to);
    memcpy(k->setting, f->setting, sizeof k->setting);
    k->at = *at;
    k->known = true;
    k->when = mgpu_seconds();
}

void mgpu_restore_state(const KeptState *k, const Feed *f)
{
    const mgpu_program *p = f->program;
    const uint8_t *from = k->data;
    for (int v = 0; v < p->variable_count; v++) {
        int parts = devices_with(f->engine, f->plan, &p->variables[v]);
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

char *mgpu_origin_text(const Feed *f, const Batch *batch, const Origin *o, bool *domain)
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
