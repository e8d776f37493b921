/* predict.c: `predict`: samples (samples.c) -> the model's outputs, as .npy, or as .csv with the samples' names. Rows that arrive
 * on standard input are answered on standard output as they come: a batch has those that have arrived, but at least one. */
#include "runtime/base/base.h"
#include "runtime/base/options.h"
#include "runtime/base/whole_file.h"
#include "runtime/data/data.h"
#include "runtime/engine/engine.h"
#include "runtime/engine/processes.h"
#include "runtime/run/commands.h"
#include "runtime/run/sets.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void mgpu_collect_nothing(void *context, const Work *work)
{
    (void)context;
    (void)work;
}

/* ---- OUT */
typedef struct Output {
    const mgpu_tensor *tensor;
    const uint8_t *data;  /* of the samples */
    const Stream *stream; /* has their names; NULL: they have none */
    const Words *classes; /* for each element of the last axis; NULL without words */
    int64_t first, samples;
} Output;

static void write_field(FILE *f, const char *text)
{
    if (!strpbrk(text, ",\"\r\n")) {
        fputs(text, f);
        return;
    }
    fputc('"', f);
    for (; *text; text++) {
        fputs(*text == '"' ? "\"" : "", f);
        fputc(*text, f);
    }
    fputc('"', f);
}

/* Elements of a vector over classes have the words as titles, others are numbered. */
static void write_title(FILE *f, const Output *o, int64_t element)
{
    const char *word = o->classes && element < o->classes->count ? o->classes->text[element] : NULL;
    if (word)
        write_field(f, word);
    else if (o->tensor->rank)
        fprintf(f, "%s_%lld", o->tensor->name, (long long)element);
    else
        fputs(o->tensor->name, f);
}

static void write_number(FILE *f, uint8_t dtype, const uint8_t *data, int64_t i)
{
    double value = mgpu_to_double(data, dtype, i);
    switch (dtype) {
    case MGPU_I64: fprintf(f, ",%lld", (long long)((const int64_t *)(const void *)data)[i]); break; /* beyond a double */
    case MGPU_F64: fprintf(f, ",%.17g", value); break;
    case MGPU_F32:
    case MGPU_F16:
    case MGPU_BF16: fprintf(f, ",%.9g", value); break;
    default: fprintf(f, ",%.0f", value); /* integers */
    }
}

static void write_titles(FILE *f, const Output *o)
{
    char name[4096];
    write_field(f, o->stream ? mgpu_name_sample(o->stream, o->first, name, sizeof name) : "sample");
    for (int64_t i = 0; i < mgpu_elements(o->tensor); i++) {
        fputc(',', f);
        write_title(f, o, i);
    }
    fputc('\n', f);
}

static void write_samples(FILE *f, const Output *o)
{
    int64_t elements = mgpu_elements(o->tensor);
    char name[4096];
    for (int64_t s = 0; s < o->samples; s++) {
        snprintf(name, sizeof name, "%lld", (long long)(o->first + s));
        if (o->stream)
            mgpu_name_sample(o->stream, o->first + s, name, sizeof name);
        write_field(f, name);
        for (int64_t i = 0; i < elements; i++)
            write_number(f, o->tensor->dtype, o->data, s * elements + i);
        fputc('\n', f);
    }
}

static void write_csv(FILE *f, const Output *o)
{
    write_titles(f, o);
    write_samples(f, o);
}

static void write_array(FILE *f, const Output *o)
{
    const mgpu_tensor *t = o->tensor;
    int64_t samples = o->samples;
    const uint8_t *data = o->data;
    int64_t extent[MGPU_MAX_RANK + 1] = {samples};
    memcpy(extent + 1, t->extent, (size_t)t->rank * sizeof *extent);
    if (t->dtype != MGPU_BF16) {
        mgpu_write_npy(f, t->dtype, t->rank + 1, extent, data);
        return;
    }
    int64_t count = samples * mgpu_elements(t);
    float *converted = mgpu_allocate((size_t)count, sizeof *converted);
    mgpu_convert(converted, MGPU_F32, data, MGPU_BF16, count);
    mgpu_write_npy(f, MGPU_F32, t->rank + 1, extent, converted);
    free(converted);
}

static void write_file(const char *path, const Output *o)
{
    WholeFile file;
    int error = mgpu_open_whole(&file, path);
    if (error)
        mgpu_fail(MGPU_MACHINE_FAILED, "%s cannot be written: %s", path, strerror(error));
    if (strcmp(strrchr(path, '.'), ".csv") == 0)
        write_csv(file.f, o);
    else
        write_array(file.f, o);
    error = mgpu_close_whole(&file);
    if (error)
        mgpu_fail(MGPU_MACHINE_FAILED, "%s cannot be written: %s", path, strerror(error));
}

/* Returns the words for the classes of a vector's elements: those of an input with as many classes that no output needs, such as
 * a label. NULL if there is none, or several differ. */
static const Words *words_of(const mgpu_program *p, const mgpu_tensor *t, const bool *wanted, const Categories *categories)
{
    const Words *found = NULL;
    for (int i = 0; i < p->input_count; i++) {
        const mgpu_input *in = &p->inputs[i];
        const Words *words =
            !wanted[i] && t->rank == 1 && in->classes == t->extent[0] ? mgpu_words_of_classes(categories, in) : NULL;
        if (words && found)
            return NULL;
        found = words ? words : found;
    }
    return found;
}

FILE *mgpu_take_output(void)
{
    fflush(stdout);
    int own = dup(STDOUT_FILENO);
    FILE *f = own >= 0 ? fdopen(own, "w") : NULL;
    if (!f || dup2(STDERR_FILENO, STDOUT_FILENO) < 0)
        mgpu_fail(MGPU_MACHINE_FAILED, "standard output cannot be written: %s", strerror(errno));
    return f;
}

/* Checks a table on standard output. */
static void check_written(int error)
{
    if (error)
        mgpu_fail(MGPU_MACHINE_FAILED, "standard output cannot be written: %s", strerror(error));
}

/* table: standard output, or NULL; alone: there is no other output. */
static void write_output(const char *output, bool alone, const Output *o, FILE *table)
{
    const mgpu_tensor *t = o->tensor;
    if (table) {
        write_csv(table, o);
        check_written(mgpu_finish_file(table, false));
        return;
    }
    const char *suffix = strrchr(output, '.');
    char *path = alone ? mgpu_format("%s", output) : mgpu_format("%.*s-%s%s", (int)(suffix - output), output, t->name, suffix);
    write_file(path, o);
    char shape[200];
    mgpu_print_plain(path);
    printf(": %lld x %s%s\n", (long long)o->samples, mgpu_dtype_name(t->dtype),
           t->rank ? mgpu_shape_text(t->rank, t->extent, shape) : "");
    free(path);
}

/* Chooses the outputs to write, according to --only. Returns their number. */
static int choose_outputs(const mgpu_program *p, const char *only, bool *chosen)
{
    int count = 0;
    const char *names[p->output_count + 1];
    if (!p->output_count)
        mgpu_fail(MGPU_BAD_INPUT, "%s has no outputs: write `output e` in the model", p->model_file);
    for (int i = 0; i < p->output_count; i++) {
        names[i] = p->outputs[i].name;
        chosen[i] = !only;
    }
    for (const char *at = only; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL) {
        char *name = mgpu_format("%.*s", (int)strcspn(at, ","), at), near[128];
        int found = 0;
        while (found < p->output_count && strcmp(names[found], name) != 0)
            found++;
        if (found == p->output_count) {
            mgpu_did_you_mean(name, names, p->output_count, near);
            mgpu_fail(MGPU_BAD_USAGE, "--only %s: the model has no output '%s'%s; it has: %s", only, name, near,
                      mgpu_join_names(names, p->output_count));
        }
        chosen[found] = true;
        free(name);
    }
    for (int i = 0; i < p->output_count; i++)
        count += chosen[i];
    return count;
}

/* Returns where the `count` outputs go: if the input is standard input, by default standard output. */
static const char *find_output(const RunOptions *o, int count)
{
    bool input = o->operand_count == 1 && strcmp(o->operands[0], "-") == 0;
    const char *output = o->output ? o->output : input ? "-" : NULL, *suffix = output ? strrchr(output, '.') : NULL;
    bool table = output && strcmp(output, "-") == 0;
    if (!output)
        mgpu_fail(MGPU_BAD_USAGE,
                  "predict needs a file to write: %s predict IN ... -o OUT.csv, or OUT.npy, or - for a table on standard output",
                  o->program);
    if (table && count > 1)
        mgpu_fail(MGPU_BAD_USAGE,
                  "-o -: the model has %d outputs, each gets a file of its own: -o OUT.csv; --only NAME chooses one", count);
    if (!table && (!suffix || (strcmp(suffix, ".npy") != 0 && strcmp(suffix, ".csv") != 0)))
        mgpu_fail(MGPU_BAD_USAGE, "-o %s: the name has to end in .npy or .csv", output);
    return output;
}

/* Without inputs: computes samples that differ only by random numbers. */
static void post_samples(const Feed *feed, int64_t samples, uint8_t **result)
{
    const mgpu_program *p = feed->program;
    uint8_t **at = mgpu_allocate((size_t)p->output_count, sizeof *at);
    for (int64_t place = 0; place < samples; place += feed->plan->micro) {
        for (int i = 0; i < p->output_count; i++)
            at[i] = !result[i] ? NULL : result[i] + place * mgpu_tensor_bytes(&p->outputs[i]);
        Batch batch = {
            .place = place, .samples = samples - place < feed->plan->micro ? samples - place : feed->plan->micro, .fetch = at};
        mgpu_post(feed, MGPU_PHASE_PREDICT, &batch, 0);
    }
    free(at);
}

/* Returns the range of a batch's samples that a rank computes. */
static mgpu_range part_of(const Feed *feed, const Processes *p, int rank, int64_t count)
{
    mgpu_range s = mgpu_samples_of(p, feed->plan, rank);
    return (mgpu_range){s.begin < count ? s.begin : count, s.end < count ? s.end : count};
}

/* Copies a rank's samples from `all` to `packed`, where they are contiguous, or back. Returns their bytes. packed may be NULL. */
static int64_t pack(const Feed *feed, const Processes *p, int rank, int64_t samples, int64_t bytes, uint8_t *all, uint8_t *packed,
                    bool back)
{
    int64_t at = 0;
    for (int64_t place = 0; place < samples; place += feed->plan->micro) {
        mgpu_range own = part_of(feed, p, rank, samples - place < feed->plan->micro ? samples - place : feed->plan->micro);
        int64_t size = (own.end - own.begin) * bytes;
        uint8_t *there = all + (place + own.begin) * bytes;
        if (packed && size)
            memcpy(back ? there : packed + at, back ? packed + at : there, (size_t)size);
        at += size;
    }
    return at;
}

/* Gathers the predictions of all processes in rank 0. */
static void collect_outputs(const Feed *feed, Processes *p, int64_t samples, int64_t bytes, uint8_t *all)
{
    if (!p)
        return;
    int64_t at[p->count + 1];
    at[0] = 0;
    for (int r = 0; r < p->count; r++)
        at[r + 1] = at[r] + pack(feed, p, r, samples, bytes, all, NULL, false);
    uint8_t *own = mgpu_allocate((size_t)(at[p->rank + 1] - at[p->rank] + 1), 1),
            *packed = p->rank ? NULL : mgpu_allocate((size_t)at[p->count] + 1, 1);
    pack(feed, p, p->rank, samples, bytes, all, own, false);
    p->collect(p, own, packed, at);
    for (int r = 0; r < p->count && packed; r++)
        pack(feed, p, r, samples, bytes, all, packed + at[r], true);
    free(own);
    free(packed);
}

/* one: the output, without samples yet. */
static void answer_rows(const Feed *feed, Dataset *d, Categories *categories, Output *one, FILE *table)
{
    const mgpu_program *p = feed->program;
    uint8_t *result = mgpu_allocate((size_t)feed->plan->micro, (size_t)mgpu_tensor_bytes(one->tensor)), *fetch[p->output_count];
    for (int i = 0; i < p->output_count; i++)
        fetch[i] = one->tensor == &p->outputs[i] ? result : NULL;
    char *complaint = NULL, last[32] = "";
    one->data = result;
    write_titles(table, one);
    do {
        check_written(fflush(table) == 0 ? 0 : errno);
        one->first = d->samples;
        one->samples = mgpu_next_samples(d, feed->plan->micro, categories, &complaint);
        if (one->samples) {
            Batch batch = {.set = d, .place = one->first, .samples = one->samples, .applied = feed->applied, .fetch = fetch};
            mgpu_post(feed, MGPU_PHASE_PREDICT, &batch, 0);
            mgpu_engine_drain(feed->engine);
            write_samples(table, one);
            mgpu_name_sample(d->stream, d->samples - 1, last, sizeof last);
        }
    } while (one->samples && !complaint);
    check_written(complaint ? fflush(table) == 0 ? 0 : errno : mgpu_finish_file(table, false));
    if (complaint)
        mgpu_fail(MGPU_BAD_INPUT, "%s; %s%s", complaint,
                  *last ? "the rows before it are answered, up to row " : "no row is answered", last);
    free(result);
}

/* Predicts all samples at once. table: standard output, or NULL. */
static void answer_all(const Feed *feed, Dataset *d, Categories *categories, const RunOptions *o, const bool *wanted,
                       const bool *chosen, const char *output, FILE *table)
{
    const mgpu_program *program = feed->program;
    int64_t samples = d ? d->samples : o->samples;
    uint8_t **result = mgpu_allocate((size_t)program->output_count, sizeof *result);
    int count = 0;
    for (int i = 0; i < program->output_count; i++) {
        count += chosen[i];
        result[i] = chosen[i] ? mgpu_allocate((size_t)samples, (size_t)mgpu_tensor_bytes(&program->outputs[i])) : NULL;
    }
    if (d)
        mgpu_post_set(feed, MGPU_PHASE_PREDICT, d, feed->applied, 0, result, NULL);
    else
        post_samples(feed, samples, result);
    mgpu_engine_drain(feed->engine);
    for (int i = 0; i < program->output_count; i++) {
        const mgpu_tensor *t = &program->outputs[i];
        if (!chosen[i])
            continue;
        collect_outputs(feed, o->processes, samples, mgpu_tensor_bytes(t), result[i]);
        Output one = {t, result[i], d ? d->stream : NULL, words_of(program, t, wanted, categories), 0, samples};
        if (mgpu_speaks(o->processes))
            write_output(output, count == 1, &one, table);
        free(result[i]);
    }
    free(result);
}

int mgpu_predict(const mgpu_program *program, const RunOptions *o)
{
    bool *chosen = mgpu_allocate((size_t)program->output_count + 1, sizeof *chosen);
    const char *output = find_output(o, choose_outputs(program, o->only, chosen));
    bool *wanted = mgpu_allocate((size_t)program->input_count, sizeof *wanted), shown = strcmp(output, "-") == 0;
    mgpu_wanted_inputs(program, mgpu_choose_plan(program, o), 1u << MGPU_PHASE_PREDICT, wanted);
    Samples *found = mgpu_find_samples(program, o, wanted, shown && !o->processes);
    FILE *table = shown && mgpu_speaks(o->processes) ? mgpu_take_output() : NULL;
    Dataset data = {0};
    Feed feed;
    Categories *categories = mgpu_new_categories(true);
    Engine *engine = mgpu_open_trained(program, o, &feed, categories, mgpu_collect_nothing, NULL);
    bool any = mgpu_open_samples(&data, found, program, o, wanted, categories);
    if (any)
        mgpu_compare_set(o, &data);
    if (any && data.stream->next) {
        int first = 0; /* the only one */
        while (!chosen[first])
            first++;
        const mgpu_tensor *t = &program->outputs[first];
        Output one = {.tensor = t, .stream = data.stream, .classes = words_of(program, t, wanted, categories)};
        answer_rows(&feed, &data, categories, &one, table);
    } else {
        answer_all(&feed, any ? &data : NULL, categories, o, wanted, chosen, output, table);
    }
    mgpu_engine_close(engine, "all results are written");
    if (any)
        mgpu_close_set(&data);
    mgpu_free_categories(categories);
    free(wanted);
    free(chosen);
    return 0;
}
