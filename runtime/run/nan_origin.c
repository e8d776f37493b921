/* nan_origin.c: describes what made a NaN or infinity: the origin that an audit has found, also of an evaluation that is
 * repeated. */
#include "runtime/base/base.h"
#include "runtime/data/data.h"
#include "runtime/engine/engine.h"
#include "runtime/run/commands.h"

#include <stdlib.h>
#include <string.h>

typedef struct Phrase {
    const char *word, *infinite, *nan, *both;
} Phrase;
static const Phrase PHRASES[] = {
    {"log", "log of 0", "log of a negative number", "log of 0 or of a negative number"},
    {"log1p", "log1p of -1", "log1p of a number below -1", "log1p of -1 or below"},
    {"sqrt", "sqrt of a number too large", "sqrt of a negative number", "sqrt of a negative number"},
    {"div", "a division by 0, or of numbers too large", "0 / 0", "a division by 0"},
    {"exp", "exp of a number too large", "exp of a number too large", "exp of a number too large"},
    {"expm1", "expm1 of a number too large", "expm1 of a number too large", "expm1 of a number too large"},
    {"pow", "** of a number too large, or of 0 to a negative one", "** of a negative number to a fraction",
     "** of numbers that it has no result for"},
    {"mod", "% of 0", "% of 0", "% of 0"},
};

/* Returns false if large numbers may also be the reason. */
static bool print_nan_source(FILE *to, const mgpu_nan_source *s, const Origin *o)
{
    const char *what = NULL;
    for (int i = 0; i < MGPU_COUNT(PHRASES); i++)
        if (strcmp(PHRASES[i].word, s->word) == 0)
            what = o->bits == AUDIT_INFINITE ? PHRASES[i].infinite : o->bits == AUDIT_NAN ? PHRASES[i].nan : PHRASES[i].both;
    fprintf(to, "line %d: ", s->line);
    if (s->required && o->has_number)
        fprintf(to, "a value is %d; ", (int)o->number);
    if (what || s->required)
        fputs(s->required ? s->required : what, to);
    else if (*s->word)
        fprintf(to, "%s of a number that it has no result for", s->word);
    else
        fputs(o->bits & AUDIT_NAN ? "NaN" : "a number too large", to);
    if (*s->layer && !s->required)
        fprintf(to, " in '%s'", s->layer);
    /* exp, expm1, pow, div */
    bool grows = *s->word == 'e' || *s->word == 'p' || (*s->word == 'd' && o->bits == AUDIT_INFINITE);
    return *s->word && !grows;
}

enum { PLACES = 4 }; /* limit of the places that are printed of a sample */

/* Prints the places of a sample: that of the bad input, or, for an operation, which may have read any input, all of them: the
 * line of a table without its column, and each file of an array. */
static void say_sample(FILE *to, const Dataset *set, const Origin *o)
{
    char text[PLACES][600];
    int count = 0, more = 0;
    if (o->sample < 0 || o->sample >= set->samples || !set->stream)
        return;
    for (int i = 0; i < set->program->input_count; i++) {
        const char *name = set->program->inputs[i].tensor.name;
        int column = mgpu_find_column(set->stream, name), k = 0;
        if (!mgpu_is_read(set, i) || column < 0 || (o->input && strcmp(o->input, name) != 0))
            continue;
        char place[sizeof text[0]];
        mgpu_describe(set->stream, o->sample, column, place, sizeof place);
        char *of_column = o->input ? NULL : strstr(place, ": column '"), *of_vector = o->input ? NULL : strstr(place, ": '");
        if (of_column || of_vector)
            *(of_column ? of_column : of_vector) = 0;
        while (k < count && strcmp(text[k], place) != 0)
            k++;
        if (k == count && count < PLACES)
            memcpy(text[count++], place, sizeof place);
        else
            more += k == count;
    }
    for (int k = 0; k < count; k++)
        fprintf(to, "%s%s", k == 0 ? ", of " : k + 1 < count || more ? ", " : " and ", text[k]);
    if (more)
        fprintf(to, " and %d more", more);
}

/* Returns how many of an operation's suspects to name: of a NaN, only those that require something, if there are any. */
static int named(const Origin *o)
{
    int count = 0;
    while (o->bits == AUDIT_NAN && count < o->op->nan_source_count && o->op->nan_sources[count].required)
        count++;
    return count ? count : o->op->nan_source_count;
}

char *mgpu_origin_text(const mgpu_plan *plan, const Dataset *set, const Origin *o, bool *domain)
{
    char *text;
    size_t length;
    FILE *to = mgpu_begin_text(&text, &length);
    int suspects = o->op && !o->input ? named(o) : 0;
    *domain = false;
    if (o->input) {
        fprintf(to, "input '%s' holds %s", o->input, o->bits & AUDIT_NAN ? "NaN" : "infinity");
        *domain = true;
    } else if (!o->op) {
        fprintf(to, "'%s' held %s before it", o->variable, o->bits & AUDIT_NAN ? "NaN" : "infinity");
    } else {
        *domain = suspects > 0;
        for (int i = 0; i < suspects; i++) {
            fputs(i ? ", or " : "", to);
            *domain = print_nan_source(to, &o->op->nan_sources[i], o) && *domain;
        }
        if (!suspects)
            print_nan_source(to, &(mgpu_nan_source){.word = "", .layer = "", .line = o->op->line}, o);
    }
    say_sample(to, set, o);
    if (plan->devices > 1)
        fprintf(to, ", on device %d", o->device);
    if (suspects > 1 && !o->op->nan_sources[0].required)
        fprintf(to, " (they are one kernel; mgpuc --no-fuse makes one of each)");
    mgpu_end_text(to);
    return text;
}

/* The evaluation is repeated with sums that begin at 0. */
char *mgpu_find_bad_sample(const Feed *f, const Dataset *set, int64_t applied, int64_t epoch, bool alone)
{
    Origin origin;
    bool domain, found = false;
    if (alone) {
        mgpu_audit_begin(f->engine);
        mgpu_post_set(f, MGPU_PHASE_EVAL, set, applied, epoch, NULL, mgpu_audit_found(f->engine));
        mgpu_post_without_samples(f, MGPU_PHASE_REPORT_EVAL, applied, epoch);
        mgpu_engine_drain(f->engine);
        found = mgpu_audit_end(f->engine, &origin);
    }
    return found ? mgpu_origin_text(f->plan, set, &origin, &domain)
                 : mgpu_format("the weights are finite, so some sample of '%s' makes it so", set->name);
}
