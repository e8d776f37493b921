/* evaluate.c: `eval`: loss and metrics of saved weights on the data sets valid and test, or those that are named. */
#include "runtime/internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

char *mgpu_save_folder(const Options *o)
{
    return o->save ? mgpu_format("%s", o->save) : o->resume ? mgpu_format("%s", o->resume) : mgpu_format("./%s.save", o->program);
}

Engine *mgpu_open_trained(const mgpu_program *program, const Options *o, Feed *feed, Collect *collect, void *context)
{
    char *folder = mgpu_save_folder(o);
    char *path = o->init ? mgpu_format("%s", o->init) : mgpu_format("%s/weights.safetensors", o->resume ? o->resume : folder);
    if (access(path, R_OK) != 0)
        mgpu_fail(MGPU_BAD_INPUT, "there are no weights at %s: train first, or name them with --init FILE or --resume DIR", path);
    const mgpu_plan *plan = mgpu_choose_plan(program, o);
    Engine *engine = mgpu_engine_open(program, plan, collect, context);
    *feed = (Feed){.program = program, .plan = plan, .setting = o->setting, .engine = engine, .seed = o->seed, .total_steps = 1,
                   .steps_per_epoch = 1};
    mgpu_post_alone(feed, MGPU_PHASE_INIT, 0, 0);
    mgpu_engine_drain(engine);
    mgpu_load_weights(program, plan, engine, path);
    free(folder);
    free(path);
    return engine;
}

typedef struct Result { double *values; const mgpu_phase *phase; } Result;

static void collect(void *context, const Work *work)
{
    Result *r = context;
    if (work->phase->kind != MGPU_PHASE_REPORT_EVAL)
        return;
    r->phase = work->phase;
    r->values = mgpu_resize(r->values, (size_t)work->phase->report_count * sizeof(double));
    memcpy(r->values, work->report, (size_t)work->phase->report_count * sizeof(double));
}

static void print_result(const Evaluation *e)
{
    char text[32];
    printf("%s  samples %s", e->split, mgpu_grouped(e->samples, text));
    for (int i = 0; i < e->count; i++)
        printf("  %s %.6g", e->names[i], e->values[i]);
    putchar('\n');
}

static void evaluate_set(const Feed *feed, const Options *o, const char *name, const Result *result, Reporter *reporter)
{
    const mgpu_program *p = feed->program;
    const mgpu_set *set = mgpu_find_set(p, name);
    if (!set)
        mgpu_fail(MGPU_BAD_USAGE, "%s has no data set '%s'", p->model_file, name);
    bool *wanted = mgpu_allocate((size_t)p->input_count, sizeof *wanted);
    mgpu_wanted_inputs(p, feed->plan, 1u << MGPU_PHASE_EVAL, wanted);
    Dataset data;
    mgpu_open_set(&data, p, set, wanted, o->data);
    mgpu_post_set(feed, MGPU_PHASE_EVAL, &data, 0, 0, NULL, NULL);
    mgpu_post_alone(feed, MGPU_PHASE_REPORT_EVAL, 0, 0);
    mgpu_engine_drain(feed->engine);
    Evaluation e = {.split = name, .samples = data.samples};
    if (result->phase)
        e = (Evaluation){name, data.samples, result->phase->reports, result->values, result->phase->report_count};
    print_result(&e);
    mgpu_report_eval(reporter, &e, 0, 0);
    mgpu_close_set(&data, p);
    free(wanted);
}

int mgpu_evaluate(const mgpu_program *program, const Options *o)
{
    static const char *const USUAL[] = {"valid", "test"};
    Result result = {0};
    Feed feed;
    Engine *engine = mgpu_open_trained(program, o, &feed, collect, &result);
    Reporter *reporter = mgpu_reporter_open(program, o->log);
    int done = 0;
    for (int i = 0; i < o->operand_count; i++, done++)
        evaluate_set(&feed, o, o->operands[i], &result, reporter);
    for (int i = 0; !o->operand_count && i < MGPU_COUNT(USUAL); i++)
        if (mgpu_find_set(program, USUAL[i])) {
            evaluate_set(&feed, o, USUAL[i], &result, reporter);
            done++;
        }
    if (!done)
        mgpu_fail(MGPU_BAD_INPUT, "%s has no data for evaluation: data { valid = idx(...) }", program->model_file);
    mgpu_engine_close(engine);
    mgpu_reporter_close(reporter);
    free(result.values);
    return 0;
}
