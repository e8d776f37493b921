/* library.c: the functions of a library (mgpuc --shared): a model with its weights, threads and engine, which evaluates samples
 * in the caller's memory. */
#include "runtime/base/base.h"
#include "runtime/base/context.h"
#include "runtime/base/cores.h"
#include "runtime/base/options.h"
#include "runtime/data/data.h"
#include "runtime/engine/engine.h"
#include "runtime/library/resources.h"
#include "runtime/run/commands.h"
#include "runtime/save/checkpoint.h"
#include "runtime/weights/weights.h"

#include <stdlib.h>
#include <string.h>

/* The last error of the calling thread. All other state is in the model, which its threads share. */
static _Thread_local char error[sizeof(((Context *)0)->error)];

struct mgpu_model {
    Context context;
    const mgpu_program *program;
    const mgpu_plan *plan;
    RunOptions options;
    Engine *engine;
    Feed feed;
    bool *wanted;              /* for each input of the model: some output depends on it */
    mgpu_model_tensor *inputs; /* the wanted inputs */
    int *input_of;             /* for each of them, its index in the model */
    mgpu_model_tensor *outputs;
    int input_count;
    Dataset set;             /* the caller's samples in the current call */
    const uint8_t **samples; /* for each input: its samples */
    pthread_mutex_t lock;    /* held during a call */
};

/* ---- the caller's samples as a data set with a column for each input */
static void read_memory(const Stream *s, int64_t sample, Reading *r, Item *items)
{
    (void)r;
    const mgpu_model *m = s->state;
    for (int c = 0; c < s->column_count; c++) {
        const StreamColumn *column = &s->columns[c];
        items[c].dtype = column->dtype;
        items[c].rank = column->rank;
        memcpy(items[c].extent, column->extent, sizeof column->extent);
        items[c].data = m->samples[c] + sample * mgpu_tensor_bytes(&column->input->tensor);
    }
}

static void describe_memory(const Stream *s, int64_t sample, int column, char *text, size_t capacity)
{
    snprintf(text, capacity, "input '%s': sample %lld", s->columns[column].name, (long long)sample);
}

static void forget_memory(Stream *s) { (void)s; }

static void open_set(mgpu_model *m)
{
    Stream *s = mgpu_new_stream(&(Opening){.program = m->program, .where = ""}, m->input_count);
    s->what = "memory";
    s->state = m;
    s->samples = 1;
    s->read = read_memory;
    s->describe = describe_memory;
    s->close = forget_memory;
    for (int c = 0; c < m->input_count; c++) {
        const mgpu_input *in = &m->program->inputs[m->input_of[c]];
        s->columns[c] = (StreamColumn){
            .name = in->tensor.name, .uniform = true, .dtype = in->tensor.dtype, .rank = in->tensor.rank, .input = in};
        memcpy(s->columns[c].extent, in->tensor.extent, sizeof in->tensor.extent);
    }
    m->set = (Dataset){.name = "memory", .program = m->program, .stream = s};
    mgpu_bind_columns(&m->set, m->wanted);
}

/* ---- the options of a program that a library sets */
static RunOptions options_of(const mgpu_program *p, const char *weights, int threads)
{
    RunOptions o = mgpu_default_options(p, p->name);
    o.command = COMMAND_PREDICT;
    o.init = weights;
    o.here = true;
    o.stall = 0; /* the caller decides how long to wait */
    o.threads = threads > 0 ? threads : mgpu_default_threads(p->name);
    return o;
}

static mgpu_model_tensor tensor_of(const mgpu_tensor *t)
{
    return (mgpu_model_tensor){t->name, mgpu_dtype_name(t->dtype), t->rank, t->extent, mgpu_tensor_bytes(t)};
}

static void list_tensors(mgpu_model *m)
{
    const mgpu_program *p = m->program;
    m->wanted = mgpu_allocate((size_t)p->input_count, sizeof *m->wanted);
    m->inputs = mgpu_allocate((size_t)p->input_count, sizeof *m->inputs);
    m->input_of = mgpu_allocate((size_t)p->input_count, sizeof *m->input_of);
    m->samples = mgpu_allocate((size_t)p->input_count, sizeof *m->samples);
    m->outputs = mgpu_allocate((size_t)p->output_count, sizeof *m->outputs);
    mgpu_wanted_inputs(p, m->plan, 1u << MGPU_PHASE_PREDICT, m->wanted);
    for (int i = 0; i < p->input_count; i++)
        if (m->wanted[i]) {
            m->input_of[m->input_count] = i;
            m->inputs[m->input_count++] = tensor_of(&p->inputs[i].tensor);
        }
    for (int i = 0; i < p->output_count; i++)
        m->outputs[i] = tensor_of(&p->outputs[i]);
}

static void open_model(void *model)
{
    mgpu_model *m = model;
    TensorFile file;
    m->options.plans = mgpu_no_plans();
    m->plan = mgpu_choose_plan(m->program, &m->options);
    list_tensors(m);
    mgpu_open_weights(&file, m->options.init);
    m->engine = mgpu_open_loaded(m->program, m->plan, &m->options, &file, NULL, &m->feed, mgpu_collect_nothing, NULL);
    mgpu_close_tensors(&file);
    open_set(m);
    mgpu_engine_leave(m->engine);
}

static int fail(const char *what)
{
    snprintf(error, sizeof error, "%s", what);
    return 1;
}

/* Frees the model and all its resources. */
static void discard(mgpu_model *m)
{
    mgpu_resources_release(&m->context);
    mgpu_context_close(&m->context);
    pthread_mutex_destroy(&m->lock);
    free(m);
}

mgpu_model *mgpu_model_open(const mgpu_program *p, const char *weights, int threads)
{
    mgpu_model *m = malloc(sizeof *m);
    struct Resources *resources = mgpu_resources_new();
    if (!m || !resources || !weights) {
        fail(weights ? "out of memory" : "weights: a file or folder is expected, not NULL");
        free(m);
        mgpu_resources_free(resources);
        return NULL;
    }
    *m = (mgpu_model){.program = p};
    mgpu_context_open(&m->context);
    m->context.resources = resources;
    m->options = options_of(p, weights, threads);
    pthread_mutex_init(&m->lock, NULL);
    if (mgpu_context_call(&m->context, open_model, m)) {
        m->options.init = NULL; /* belongs to the caller */
        return m;
    }
    fail(m->context.error);
    discard(m);
    return NULL;
}

const char *mgpu_model_error(void) { return error; }

const mgpu_model_tensor *mgpu_model_input(const mgpu_model *m, int number)
{
    return number >= 0 && number < m->input_count ? &m->inputs[number] : NULL;
}

const mgpu_model_tensor *mgpu_model_output(const mgpu_model *m, int number)
{
    return number >= 0 && number < m->program->output_count ? &m->outputs[number] : NULL;
}

typedef struct PredictCall {
    mgpu_model *model;
    int64_t samples;
    const void *const *inputs;
    void *const *outputs;
    char *complaint; /* about a sample that does not fit; else NULL */
} PredictCall;

static void run(void *argument)
{
    PredictCall *call = argument;
    mgpu_model *m = call->model;
    int outputs = m->program->output_count;
    uint8_t *fetch[outputs + 1];
    for (int c = 0; c < m->input_count; c++)
        m->samples[c] = call->inputs[c];
    for (int i = 0; i < outputs; i++)
        fetch[i] = call->outputs[i];
    m->set.samples = m->set.stream->samples = call->samples;
    if (!mgpu_check_samples(&m->set, &call->complaint))
        return;
    mgpu_engine_enter(m->engine);
    mgpu_post_set(&m->feed, MGPU_PHASE_PREDICT, &m->set, m->feed.applied, 0, fetch, NULL);
    mgpu_engine_drain(m->engine);
    mgpu_engine_leave(m->engine);
}

static void forget_complaint(void *argument) { free(((PredictCall *)argument)->complaint); }

/* Returns what is wrong with the arguments, or NULL. */
static const char *wrong_with(const PredictCall *c)
{
    if (!c->model)
        return "model: NULL is not an open model";
    if (c->samples < 0)
        return "samples: their number is negative";
    if (!c->inputs && c->model->input_count)
        return "inputs: an array of pointers is expected, not NULL";
    for (int i = 0; i < c->model->input_count && c->samples; i++)
        if (!c->inputs[i])
            return "inputs: one of them is NULL";
    return c->outputs ? NULL : "outputs: an array of pointers is expected, not NULL";
}

int mgpu_model_run(mgpu_model *m, int64_t samples, const void *const *inputs, void *const *outputs)
{
    PredictCall call = {m, samples, inputs, outputs, NULL};
    const char *wrong = wrong_with(&call);
    if (wrong)
        return fail(wrong);
    if (!samples)
        return 0;
    pthread_mutex_lock(&m->lock);
    int status = mgpu_context_call(&m->context, run, &call) ? 0 : fail(m->context.error);
    if (call.complaint) {
        status = fail(call.complaint);
        mgpu_context_call(&m->context, forget_complaint, &call);
    }
    pthread_mutex_unlock(&m->lock);
    return status;
}

static void close_model(void *model)
{
    mgpu_model *m = model;
    mgpu_close_set(&m->set);
    mgpu_engine_enter(m->engine);
    mgpu_engine_close(m->engine, NULL);
}

void mgpu_model_close(mgpu_model *m)
{
    if (!m)
        return;
    mgpu_context_call(&m->context, close_model, m); /* not executed if the context has failed */
    discard(m);
}
