/* library.c: what the functions of a library (mgpuc --shared) do: a model with its weights, its threads and its engine, which evaluates
 * samples of the caller's memory. */
#include "runtime/base/base.h"
#include "runtime/base/cores.h"
#include "runtime/base/options.h"
#include "runtime/data/data.h"
#include "runtime/engine/engine.h"
#include "runtime/run/commands.h"
#include "runtime/save/checkpoint.h"
#include "runtime/weights/weights.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct mgpu_model {
    const mgpu_program *program;
    const mgpu_plan *plan;
    Options options;
    Engine *engine;
    Feed feed;
    bool *wanted;                /* by input of the model: some output depends on it */
    mgpu_model_tensor *inputs;   /* those, */
    int *input_of;               /* and which of the model's each is */
    mgpu_model_tensor *outputs;
    int input_count;
    Dataset set;                 /* the caller's samples, of the call under way */
    const uint8_t **samples;     /* by input: where they are */
    pthread_mutex_t lock;        /* held by the call that is computed */
};

/* ---- the caller's samples as a data set, with a column for each input */
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

static void describe_memory(const Stream *s, int64_t sample, int column, char *text, size_t room)
{
    snprintf(text, room, "input '%s': sample %lld", s->columns[column].name, (long long)sample);
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
        s->columns[c] = (StreamColumn){.name = in->tensor.name, .uniform = true, .dtype = in->tensor.dtype, .rank = in->tensor.rank, .input = in};
        memcpy(s->columns[c].extent, in->tensor.extent, sizeof in->tensor.extent);
    }
    m->set = (Dataset){.name = "memory", .program = m->program, .stream = s};
    mgpu_bind_columns(&m->set, m->wanted);
}

/* ---- what a library has of a program's options */
static Options options_of(const mgpu_program *p, const char *weights, int threads)
{
    Options o = {.command = COMMAND_PREDICT, .program = p->name, .init = weights, .seed = p->seed, .here = true};
    for (int i = 0; i < MGPU_MAX_SETTINGS; i++)
        o.setting[i] = NAN;
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

mgpu_model *mgpu_model_open(const mgpu_program *p, const char *weights, int threads)
{
    mgpu_model *m = mgpu_allocate(1, sizeof *m);
    TensorFile file;
    m->program = p;
    m->options = options_of(p, weights, threads);
    m->plan = mgpu_choose_plan(p, &m->options);
    pthread_mutex_init(&m->lock, NULL);
    list_tensors(m);
    mgpu_open_weights(&file, weights);
    m->engine = mgpu_open_loaded(p, m->plan, &m->options, &file, NULL, &m->feed, mgpu_collect_nothing, NULL);
    mgpu_close_tensors(&file);
    m->options.init = NULL; /* the caller's */
    open_set(m);
    return m;
}

const char *mgpu_model_error(void) { return ""; }

const mgpu_model_tensor *mgpu_model_input(const mgpu_model *m, int number)
{
    return number >= 0 && number < m->input_count ? &m->inputs[number] : NULL;
}

const mgpu_model_tensor *mgpu_model_output(const mgpu_model *m, int number)
{
    return number >= 0 && number < m->program->output_count ? &m->outputs[number] : NULL;
}

static void run(mgpu_model *m, int64_t samples, const void *const *inputs, void *const *outputs)
{
    for (int c = 0; c < m->input_count; c++)
        m->samples[c] = inputs[c];
    m->set.samples = m->set.stream->samples = samples;
    uint8_t *fetch[m->program->output_count + 1];
    for (int i = 0; i < m->program->output_count; i++)
        fetch[i] = outputs[i];
    mgpu_post_set(&m->feed, MGPU_PHASE_PREDICT, &m->set, m->feed.applied, 0, fetch, NULL);
    mgpu_engine_drain(m->engine);
}

int mgpu_model_run(mgpu_model *m, int64_t samples, const void *const *inputs, void *const *outputs)
{
    pthread_mutex_lock(&m->lock);
    run(m, samples, inputs, outputs);
    pthread_mutex_unlock(&m->lock);
    return 0;
}

void mgpu_model_close(mgpu_model *m)
{
    if (!m)
        return;
    mgpu_close_set(&m->set);
    mgpu_engine_close(m->engine, NULL);
    pthread_mutex_destroy(&m->lock);
    free(m->wanted);
    free(m->inputs);
    free(m->input_of);
    free(m->samples);
    free(m->outputs);
    free(m);
}
