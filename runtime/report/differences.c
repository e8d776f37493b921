/* differences.c: compares the logs of two runs. In: the curves and saves of both; out: the first step in which they differ, and
 * settings that do.
 *
 * Only what training determines is compared: losses, metrics, learning rates and norms of gradients, not times. A quantity that
 * one log does not have at all (observe) is no difference; one that is missing at a step that both have was not finite there. */
#include "runtime/report/runs.h"

#include <math.h>
#include <string.h>

static const char *const TIMES[] = {"samples_per_s", "input_wait_ms", "communication_wait_ms"};

static bool is_time(const Curve *c)
{
    for (int i = 0; i < MGPU_COUNT(TIMES); i++)
        if (strcmp(c->name, TIMES[i]) == 0)
            return true;
    return false;
}

static double first_step(const RunLog *r)
{
    double first = r->steps + 1;
    for (int i = 0; i < r->curve_count; i++)
        if (r->curves[i].count)
            first = fmin(first, r->curves[i].over[OVER_STEPS][0]);
    return first;
}

/* The step of value i; beyond the last one, a step after `last`. */
static double step_of(const Curve *c, int i, double last) { return i < c->count ? c->over[OVER_STEPS][i] : last + 1; }

/* Finds the first difference of two curves in the steps from `first` to `last`. NaN: the value is missing. */
static bool find_difference(const Curve *a, const Curve *b, double first, double last, double *step, double value[2])
{
    int i = 0, k = 0;
    while (step_of(a, i, last) < first)
        i++;
    while (step_of(b, k, last) < first)
        k++;
    for (;; i++, k++) {
        double x = step_of(a, i, last), y = step_of(b, k, last);
        *step = fmin(x, y);
        if (!(*step <= last))
            return false;
        value[0] = x <= y ? a->value[i] : (double)NAN;
        value[1] = y <= x ? b->value[k] : (double)NAN;
        if (x != y || value[0] < value[1] || value[0] > value[1])
            return true;
    }
}

typedef struct LogDifference {
    const Curve *curve;
    double step, value[2];
} LogDifference;

static void print_value(FILE *out, const LogDifference *d)
{
    char text[2][32];
    mgpu_two_numbers(d->value[0], d->value[1], text);
    fprintf(out, "  %s%s: %s and %s\n", d->curve->name,
            d->curve->valid       ? " of validation"
            : d->curve->each_step ? ""
                                  : " of an epoch",
            isnan(d->value[0]) ? "not finite" : text[0], isnan(d->value[1]) ? "not finite" : text[1]);
}

static bool compare_curves(const RunLog *a, const RunLog *b, double first, double last, FILE *out)
{
    double earliest = last + 1;
    for (int print = 0; print < 2; print++) { /* finds the step, then prints what differs in it */
        if (print && earliest <= last)
            fprintf(out, "step %.0f is the first that differs:\n", earliest);
        for (int i = 0; i < a->curve_count; i++) {
            LogDifference d = {.curve = &a->curves[i]};
            const Curve *other = mgpu_run_curve(b, d.curve->name, d.curve->valid);
            if (is_time(d.curve) || !other || !find_difference(d.curve, other, first, last, &d.step, d.value))
                continue;
            if (print && d.step <= earliest)
                print_value(out, &d);
            earliest = fmin(earliest, d.step);
        }
    }
    return earliest <= last;
}

static const LoggedFile *find_saved(const RunLog *r, const LoggedFile *wanted)
{
    for (int i = 0; i < r->saved_count; i++)
        if (r->saved[i].step == wanted->step && strcmp(r->saved[i].name, wanted->name) == 0)
            return &r->saved[i];
    return NULL;
}

/* *both: how many files both have saved. */
static bool compare_saves(const RunLog *a, const RunLog *b, int *both, FILE *out)
{
    const LoggedFile *found = NULL;
    *both = 0;
    for (int i = 0; i < a->saved_count; i++) {
        const LoggedFile *x = &a->saved[i], *y = find_saved(b, x);
        *both += y != NULL;
        if (!y || strcmp(x->sha256, y->sha256) == 0 || (found && found->step != x->step))
            continue;
        if (!found)
            fprintf(out, "the first save that differs is that of step %.0f: ", x->step);
        fprintf(out, "%s%s", found ? ", " : "", x->name);
        found = x;
    }
    if (found)
        fputc('\n', out);
    return found;
}

/* Prints what the runs were given, where that differs: often the reason why their numbers do. */
static void print_settings(RunLog *a, RunLog *b, Sheet *s, FILE *out)
{
    Table t = mgpu_settings_table((RunLog *const[]){a, b}, 2, s);
    if (t.rows > 1)
        fputs("settings that differ:\n", out);
    for (int i = 1; i < t.rows; i++)
        fprintf(out, "  %s: %s and %s\n", t.cells[i][0], t.cells[i][1], t.cells[i][2]);
}

bool mgpu_logs_differ(RunLog *a, RunLog *b, Sheet *s, FILE *out)
{
    double first = fmax(first_step(a), first_step(b)), last = fmin(a->steps, b->steps);
    int both;
    if (first > last)
        mgpu_fail(MGPU_BAD_INPUT, "%s has the steps %.0f to %.0f, %s the steps %.0f to %.0f: none is in both", a->file,
                  first_step(a), a->steps, b->file, first_step(b), b->steps);
    bool values = compare_curves(a, b, first, last, out), saves = compare_saves(a, b, &both, out);
    if (!values)
        fprintf(out, "steps %.0f to %.0f: all numbers are equal\n", first, last);
    if (!both)
        fputs("no save is in both logs with its SHA-256\n", out);
    else if (!saves)
        fprintf(out, "all files of saves that both logs name are equal: %d\n", both);
    if (values || saves)
        print_settings(a, b, s, out);
    return values || saves;
}
