/* predict.c: `predict`: files for the model's inputs, or one of its data sets -> its outputs, as .npy or .csv. */
#include "runtime/data.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void nothing_to_collect(void *context, const Work *work)
{
    (void)context;
    (void)work;
}

/* ---- IN: files in the order of the inputs, or NAME=FILE */
static int named_input(const mgpu_program *p, const char *operand)
{
    const char *equals = strchr(operand, '=');
    for (int i = 0; equals && i < p->input_count; i++)
        if (strlen(p->inputs[i].tensor.name) == (size_t)(equals - operand) &&
            memcmp(p->inputs[i].tensor.name, operand, (size_t)(equals - operand)) == 0)
            return i;
    return -1;
}

static void name_file(const char **paths, const mgpu_program *p, int input, const char *path)
{
    if (paths[input])
        mgpu_fail(MGPU_BAD_USAGE, "there are two files for the input '%s'", p->inputs[input].tensor.name);
    paths[input] = path;
}

/* NAME=FILE with a name that is not an input's: taken for a file only if there is one */
static void check_name(const mgpu_program *p, const char *operand)
{
    const char *equals = strchr(operand, '=');
    if (!equals || access(operand, F_OK) == 0)
        return;
    const char **names = mgpu_allocate((size_t)p->input_count, sizeof *names);
    for (int i = 0; i < p->input_count; i++)
        names[i] = p->inputs[i].tensor.name;
    char word[64], near[128];
    snprintf(word, sizeof word, "%.*s", (int)(equals - operand), operand);
    mgpu_fail(MGPU_BAD_USAGE, "%s: there is no such file, and the model has no input '%s'%s", operand, word,
              mgpu_near_miss(word, names, p->input_count, near));
}

static void open_inputs(Dataset *d, const mgpu_program *p, const mgpu_plan *plan, const Options *o)
{
    bool *wanted = mgpu_allocate((size_t)p->input_count, sizeof *wanted);
    const char **paths = mgpu_allocate((size_t)p->input_count, sizeof *paths);
    mgpu_wanted_inputs(p, plan, 1u << MGPU_PHASE_PREDICT, wanted);
    for (int i = 0; i < o->operand_count; i++) {
        int input = named_input(p, o->operands[i]);
        if (input >= 0 && !wanted[input])
            mgpu_fail(MGPU_BAD_USAGE, "%s: no output depends on the input '%s'", o->operands[i], p->inputs[input].tensor.name);
        if (input >= 0)
            name_file(paths, p, input, strchr(o->operands[i], '=') + 1);
    }
    int next = 0;
    for (int i = 0; i < o->operand_count; i++) {
        if (named_input(p, o->operands[i]) >= 0)
            continue;
        check_name(p, o->operands[i]);
        if (o->operand_count == 1 && p->set_count && !strpbrk(o->operands[i], "./") && access(o->operands[i], F_OK) != 0)
            mgpu_fail_no_set(p, o->operands[i], mgpu_format("%s: there is no such file, and ", o->operands[i]));
        while (next < p->input_count && (!wanted[next] || paths[next]))
            next++;
        if (next == p->input_count)
            mgpu_fail(MGPU_BAD_USAGE, "%s: the outputs depend on no further input", o->operands[i]);
        name_file(paths, p, next, o->operands[i]);
    }
    for (int i = 0; i < p->input_count; i++)
        if (wanted[i] && !paths[i])
            mgpu_fail(MGPU_BAD_USAGE, "there is no file for the input '%s'; usage: %s predict IN ... -o OUT", p->inputs[i].tensor.name, o->program);
    mgpu_open_files(d, p, paths);
    free(paths);
    free(wanted);
}

/* IN is a data set of the model: what its reader gives, words in the classes that training gave them */
static const mgpu_set *named_set(const mgpu_program *p, const Options *o)
{
    return o->operand_count == 1 ? mgpu_find_set(p, o->operands[0]) : NULL;
}

static void open_named_set(Dataset *d, const Feed *feed, const mgpu_set *set, const Options *o, Categories *categories)
{
    bool *wanted = mgpu_allocate((size_t)feed->program->input_count, sizeof *wanted);
    mgpu_wanted_inputs(feed->program, feed->plan, 1u << MGPU_PHASE_PREDICT, wanted);
    mgpu_open_set(d, feed->program, set, wanted, o->data, categories);
    free(wanted);
}

/* ---- OUT */
static void write_csv(FILE *f, const mgpu_tensor *t, int64_t samples, const uint8_t *data)
{
    int64_t elements = mgpu_elements(t);
    for (int64_t i = 0; i < elements; i++) {
        if (t->rank)
            fprintf(f, "%s%s_%lld", i ? "," : "", t->name, (long long)i);
        else
            fputs(t->name, f);
    }
    fputc('\n', f);
    for (int64_t s = 0; s < samples; s++) {
        for (int64_t i = 0; i < elements; i++)
            fprintf(f, t->dtype == MGPU_F64 ? "%s%.17g" : "%s%.9g", i ? "," : "", mgpu_to_double(data, t->dtype, s * elements + i));
        fputc('\n', f);
    }
}

static void write_array(FILE *f, const mgpu_tensor *t, int64_t samples, const uint8_t *data)
{
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

/* by a temporary name, but what is no file (a pipe) by its own */
static void write_file(const char *path, const mgpu_tensor *t, int64_t samples, const uint8_t *data)
{
    struct stat status;
    bool direct = lstat(path, &status) == 0 && !S_ISREG(status.st_mode);
    char *fresh = mgpu_format("%s%s", path, direct ? "" : ".new");
    FILE *f = fopen(fresh, "wbe");
    if (!f)
        mgpu_fail(MGPU_MACHINE_FAILED, "%s cannot be written: %s", path, strerror(errno));
    if (strcmp(strrchr(path, '.'), ".csv") == 0)
        write_csv(f, t, samples, data);
    else
        write_array(f, t, samples, data);
    int error = mgpu_finish_file(f, false);
    if (!error && !direct && rename(fresh, path) != 0)
        error = errno;
    if (error && !direct)
        unlink(fresh);
    if (error)
        mgpu_fail(MGPU_MACHINE_FAILED, "%s cannot be written: %s", path, strerror(error));
    free(fresh);
}

static void write_output(const mgpu_program *p, const char *output, int number, int64_t samples, const uint8_t *data)
{
    const mgpu_tensor *t = &p->outputs[number];
    const char *suffix = strrchr(output, '.');
    char *path = p->output_count == 1 ? mgpu_format("%s", output)
                                      : mgpu_format("%.*s-%s%s", (int)(suffix - output), output, t->name, suffix);
    write_file(path, t, samples, data);
    char shape[200];
    printf("%s: %lld x %s%s\n", path, (long long)samples, mgpu_dtype_name(t->dtype),
           t->rank ? mgpu_shape_text(t->rank, t->extent, shape) : "");
    free(path);
}

static void check_arguments(const mgpu_program *p, const Options *o)
{
    const char *suffix = o->output ? strrchr(o->output, '.') : NULL;
    if (!o->output)
        mgpu_fail(MGPU_BAD_USAGE, "predict needs a file to write: %s predict IN ... -o OUT.npy", o->program);
    if (!suffix || (strcmp(suffix, ".npy") != 0 && strcmp(suffix, ".csv") != 0))
        mgpu_fail(MGPU_BAD_USAGE, "-o %s: the name has to end in .npy or .csv", o->output);
    if (!p->output_count)
        mgpu_fail(MGPU_BAD_INPUT, "%s has no outputs: write `output e` in the model", p->model_file);
}

int mgpu_predict(const mgpu_program *program, const Options *o)
{
    check_arguments(program, o);
    Dataset data;
    const mgpu_set *set = named_set(program, o);
    if (!set)
        open_inputs(&data, program, mgpu_choose_plan(program, o), o);
    Feed feed;
    Categories *categories = mgpu_new_categories(true);
    Engine *engine = mgpu_open_trained(program, o, &feed, categories, nothing_to_collect, NULL);
    if (set)
        open_named_set(&data, &feed, set, o, categories);
    uint8_t **result = mgpu_allocate((size_t)program->output_count, sizeof *result);
    for (int i = 0; i < program->output_count; i++)
        result[i] = mgpu_allocate((size_t)data.samples, (size_t)mgpu_tensor_bytes(&program->outputs[i]));
    mgpu_post_set(&feed, MGPU_PHASE_PREDICT, &data, 0, 0, result, NULL);
    mgpu_engine_drain(engine);
    for (int i = 0; i < program->output_count; i++) {
        write_output(program, o->output, i, data.samples, result[i]);
        free(result[i]);
    }
    free(result);
    mgpu_engine_close(engine, "all results are written");
    mgpu_close_set(&data);
    mgpu_free_categories(categories);
    return 0;
}
