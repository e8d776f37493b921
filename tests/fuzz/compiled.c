/* compiled.c: a model as a compiled program: its text with a data block and its samples, written into a folder; commands that
 * run there; and what the run says. */
#include "tests/fuzz/compiled.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>

typedef struct FileData {
    const Model *m;
    int input;
} FileData;

static double file_value(void *context, long long sample, long long element)
{
    const FileData *d = context;
    return data_value(d->m, d->input, sample, element);
}

static const char *type_of(Dtype t)
{
    switch (t) {
    case BOOL: return "|b1";
    case U8: return "|u1";
    case I8: return "|i1";
    case U16: return "<u2";
    case I16: return "<i2";
    case U32: return "<u4";
    case I32: return "<i4";
    case I64: return "<i8";
    default: return "<f8";
    }
}

const char *model_file = "grown.net";

const char *write_model(const char *folder, const char *text, const Model *m)
{
    Text t = {0};
    text_add(&t, "%s\ndata {\n", text);
    mkdir(folder, 0777);
    if (strchr(model_file, '/'))
        mkdir(format("%s/%.*s", folder, (int)strcspn(model_file, "/"), model_file), 0777);
    for (int set = 0; set < 2; set++) {
        const char *name = set ? "valid" : "train";
        text_add(&t, "    %s = npy(", name);
        for (int i = 0; i < m->input_count; i++) {
            const Input *in = &m->inputs[i];
            long long extents[MAX_RANK];
            for (int k = 0; k < in->shape.rank; k++)
                extents[k] = in->shape.extent[k];
            SampleFile file = {in->name, in->classes ? "<i4" : type_of(in->dtype), in->shape.rank, extents,
                               set ? valid_samples(m) : train_samples(m)};
            FileData data = {m, i};
            first_of_set = set ? VALID : 0;
            if (!write_samples(format("%s/%s-%s.npy", folder, name, in->name), &file, file_value, &data))
                return format("%s: %s", folder, strerror(errno));
            text_add(&t, "%s%s = \"%s-%s.npy\"", i ? ", " : "", in->name, name, in->name);
        }
        text_add(&t, ")\n");
    }
    first_of_set = 0;
    text_add(&t, "}\n");
    FILE *f = fopen(format("%s/%s", folder, model_file), "w");
    if (!f || fputs(text_of(&t), f) < 0 || fclose(f) != 0)
        return format("%s: %s", folder, strerror(errno));
    return NULL;
}

const char *run_command(const char *folder, const char *command)
{
    const char *whole = format("cd '%s' && { %s; } >said 2>&1 </dev/null", folder, command);
    int status = system(whole);
    if (status == 0)
        return NULL;
    size_t length = 0;
    char *said = read_file(format("%s/said", folder), &length);
    const char *error = said ? strstr(said, "error:") : NULL;
    return format("`%s` ended with %d: %.600s", command, WIFEXITED(status) ? WEXITSTATUS(status) : -1,
                  error  ? error
                  : said ? said
                         : "");
}

const char *training_options(void)
{
    return format("--data . --steps %d --seed %d --no-shuffle --log log --save save", STEPS, SEED);
}

/* does the model draw, or ask how far the run has come? A prediction has steps and draws of its own. */
static bool of_a_run(const char *text) { return strstr(text, "random") || strstr(text, "progress") || strstr(text, "epoch"); }

const char *run_program(const char *folder, const char *text, const char *train, const char *predict, Trace *found)
{
    const char *why = run_command(folder, format("rm -rf log save out*; %s", train));
    bool predicts = predict && strstr(text, "output ") && !of_a_run(text);
    if (!why && predicts)
        why = run_command(folder, format("%s --save save -o out.npy", predict));
    if (why)
        return why;
    read_log(found, format("%s/log", folder));
    read_weights(found, format("%s/save/weights.safetensors", folder), "weight");
    if (strstr(text, "ema = ") || strstr(text, "swa = "))
        read_weights(found, format("%s/save/average.safetensors", folder), "average");
    if (predicts)
        read_outputs(found, format("%s/out*.npy", folder));
    return NULL;
}
