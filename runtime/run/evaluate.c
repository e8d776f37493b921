/* evaluate.c: `eval`: loss and metrics of saved weights on the data sets valid and test, or on those that are named. */
#include "runtime/base/base.h"
#include "runtime/base/options.h"
#include "runtime/data/data.h"
#include "runtime/engine/engine.h"
#include "runtime/run/commands.h"
#include "runtime/run/sets.h"
#include "runtime/weights/weights.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct EvaluationResult {
    double *values;
    const mgpu_phase *phase;
} EvaluationResult;

static void collect(void *context, const Work *work)
{
    EvaluationResult *r = context;
    if (work->phase->kind != MGPU_PHASE_REPORT_EVAL)
        return;
    r->phase = work->phase;
    r->values = mgpu_resize(r->values, (size_t)work->phase->report_count * sizeof(double));
    memcpy(r->values, work->report, (size_t)work->phase->report_count * sizeof(double));
}

int mgpu_evaluation_elements(const Evaluation *e, int first)
{
    const char *name = e->names[first], *bracket = strchr(name, '[');
    int end = first + 1;
    while (bracket && end < e->count && strncmp(e->names[end], name, (size_t)(bracket + 1 - name)) == 0)
        end++;
    return end - first;
}

static const char *number_text(double value, char text[32])
{
    snprintf(text, 32, "%.6g", isnan(value) ? (double)NAN : value); /* NaN without a sign */
    return text;
}

/* Returns the length of the indices NAME[i,...,j] of a row: all but the last index. */
static int row_length(const char *indices)
{
    const char *comma = strrchr(indices, ',');
    return (int)(comma ? comma - indices : (long)strlen(indices) - 1);
}

/* Prints the elements of a metric: a column for each last index, a row for the other indices. */
static void print_matrix(const Evaluation *e, int first, int count)
{
    const char *name = e->names[first];
    int bracket = (int)(strchr(name, '[') + 1 - name), width = 0, head = 0;
    char text[32];
    for (int i = first; i < first + count; i++) {
        const char *indices = e->names[i] + bracket;
        int row = row_length(indices), column = (int)strlen(indices + row) - 2,
            number = (int)strlen(number_text(e->values[i], text));
        head = row > head ? row : head;
        width = number > width ? number : width;
        width = column > width ? column : width;
    }
    printf("%.*s\n", bracket - 1, name);
    const char *top = name + bracket;
    int top_row = row_length(top);
    if (top[top_row] == ',') {
        printf("  %*s", head, "");
        for (int i = first; i < first + count; i++) {
            const char *indices = e->names[i] + bracket;
            int row = row_length(indices);
            if (row != top_row || strncmp(indices, top, (size_t)row) != 0)
                break;
            printf("  %*.*s", width, (int)strlen(indices + row) - 2, indices + row + 1);
        }
        putchar('\n');
    }
    const char *before = NULL;
    for (int i = first; i < first + count; i++) {
        const char *indices = e->names[i] + bracket;
        int row = row_length(indices);
        if (!before || row_length(before) != row || strncmp(before, indices, (size_t)row) != 0)
            printf("%s  %*.*s", before ? "\n" : "", head, row, indices);
        printf("  %*s", width, number_text(e->values[i], text));
        before = indices;
    }
    putchar('\n');
}

static void print_result(const Evaluation *e)
{
    enum { MOST_ON_A_LINE = 8 }; /* elements of a metric */
    char text[32];
    printf("%s  samples %s", e->split, mgpu_grouped(e->samples, text));
    for (int i = 0, n; i < e->count; i += n) {
        n = mgpu_evaluation_elements(e, i);
        for (int j = i; j < i + n && n <= MOST_ON_A_LINE; j++)
            printf("  %s %s", e->names[j], number_text(e->values[j], text));
    }
    putchar('\n');
    for (int i = 0, n; i < e->count; i += n) {
        n = mgpu_evaluation_elements(e, i);
        if (n > MOST_ON_A_LINE)
            print_matrix(e, i, n);
    }
}

const char *mgpu_bad_loss(const Evaluation *e)
{
    for (int i = 0; i < e->count; i++)
        if (strcmp(e->names[i], "loss") == 0 && !isfinite(e->values[i]))
            return isnan(e->values[i]) ? "nan" : e->values[i] > 0 ? "inf" : "-inf";
    return NULL;
}

/* Describes a loss that is no number, or returns NULL. The caller frees. */
static char *judge(const Feed *feed, const RunOptions *o, const Evaluation *e, const Dataset *set)
{
    const char *loss = mgpu_bad_loss(e);
    const char *bad = loss ? mgpu_not_finite(feed->program, feed->plan, feed->engine, o->processes) : NULL;
    if (bad)
        return mgpu_format("the loss of '%s' is %s: '%s' is not finite", e->split, loss, bad);
    if (!loss)
        return NULL;
    char *origin = mgpu_find_bad_sample(feed, set, feed->applied, 0, !o->processes);
    char *why = mgpu_format("the loss of '%s' is %s; %s", e->split, loss, origin);
    free(origin);
    return why;
}

/* Returns the result of judge. */
static char *evaluate_set(const Feed *feed, const RunOptions *o, const char *name, const EvaluationResult *result,
                          Categories *categories, Reporter *reporter)
{
    const mgpu_program *p = feed->program;
    const mgpu_set *set = mgpu_find_set(p, name);
    if (!set)
        mgpu_fail_no_set(p, name, "");
    bool *wanted = mgpu_allocate((size_t)p->input_count, sizeof *wanted);
    mgpu_wanted_inputs(p, feed->plan, 1u << MGPU_PHASE_EVAL, wanted);
    Dataset data;
    mgpu_open_set(&data, p, set, wanted, o->data, categories);
    mgpu_compare_set(o, &data);
    mgpu_post_set(feed, MGPU_PHASE_EVAL, &data, feed->applied, 0, NULL, NULL);
    mgpu_post_without_samples(feed, MGPU_PHASE_REPORT_EVAL, feed->applied, 0);
    mgpu_engine_drain(feed->engine);
    Evaluation e = {.split = name, .samples = data.samples};
    if (result->phase)
        e = (Evaluation){.split = name,
                         .samples = data.samples,
                         .names = result->phase->reports,
                         .values = result->values,
                         .count = result->phase->report_count};
    print_result(&e);
    mgpu_report_eval(reporter, &e, 0, feed->applied);
    char *why = judge(feed, o, &e, &data);
    mgpu_close_set(&data);
    free(wanted);
    return why;
}

static bool evaluates(const mgpu_program *p, const RunOptions *o)
{
    const mgpu_plan *plan = mgpu_choose_plan(p, o);
    for (int i = 0; i < plan->phase_count; i++)
        if (plan->phases[i].kind == MGPU_PHASE_EVAL)
            return true;
    return false;
}

int mgpu_evaluate(const mgpu_program *program, const RunOptions *o)
{
    static const char *const USUAL[] = {"valid", "test"};
    EvaluationResult result = {0};
    Feed feed;
    if (!evaluates(program, o))
        mgpu_fail(MGPU_BAD_USAGE,
                  "the model of %s has neither a loss nor a metric, so there is nothing to evaluate: write metric "
                  "accuracy(logits, label) or the like into it, and compile it again",
                  program->model_file);
    Categories *categories = mgpu_new_categories(true);
    Engine *engine = mgpu_open_trained(program, o, &feed, categories, collect, &result);
    Reporter *reporter = mgpu_reporter_open(program, o);
    const char *const *names = o->operand_count ? o->operands : USUAL;
    int count = o->operand_count ? o->operand_count : MGPU_COUNT(USUAL), done = 0, bad = 0;
    for (int i = 0; i < count; i++) {
        if (!o->operand_count && !mgpu_find_set(program, names[i]))
            continue;
        char *why = evaluate_set(&feed, o, names[i], &result, categories, reporter);
        if (why)
            mgpu_report_warning(reporter, "%s", why);
        bad += why != NULL;
        free(why);
        done++;
    }
    for (int i = 0; !done && i < MGPU_COUNT(USUAL); i++)
        mgpu_check_later(program, USUAL[i]);
    if (!done)
        mgpu_fail(MGPU_BAD_INPUT, "%s has no data for evaluation: data { valid = idx(...) }", program->model_file);
    mgpu_engine_close(engine, "all results are above");
    bool logged = mgpu_reporter_close(reporter);
    mgpu_free_categories(categories);
    free(result.values);
    return !logged ? MGPU_MACHINE_FAILED : bad && program->on_nan == MGPU_NAN_STOP ? MGPU_BAD_INPUT : 0;
}
