/* shared.c: write what --shared needs besides tables: the library's functions, its header, and a file for pkg-config.
 *
 * libNAME.so exports only the functions in this table, each prefixed with NAME_, so that several libraries can be in one process.
 * The library's source and the header take their declarations from the table; runtime/library/library.c has what the functions
 * call. */
#include "compiler/base/c_text.h"
#include "compiler/ir/graph.h"
#include "compiler/link/translation_units.h"
#include "compiler/plan/schedule.h"
#include "runtime/abi/mgpu_wrapped.h"

#include <ctype.h>
#include <string.h>

/* %s stands for the prefix */
/* clang-format off */
static const struct Function { const char *result, *name, *parameters, *arguments, *says[4]; } FUNCTIONS[] = {
    {"%s *", "open", "const char *weights, int threads", "&program, weights, threads",
     {"Loads a file or folder of weights. threads: that compute, the caller's among them; 0: as many as there are cores.",
      "NULL: it failed."}},
    {"const char *", "error", "void", "",
     {"Why the last call of this thread that failed did. The text is the thread's, until another call fails or the thread ends."}},
    {"const %s_tensor *", "input", "const %s *model, int number", "model, number",
     {"One sample of it; numbers count from 0. NULL: there are fewer."}},
    {"const %s_tensor *", "output", "const %s *model, int number", "model, number", {"Likewise."}},
    {"int ", "run", "%s *model, int64_t samples, const void *const *inputs, void *const *outputs", "model, samples, inputs, outputs",
     {"Computes the outputs of any number of samples. inputs, outputs: an array for each, in the order of their numbers, with one",
      "sample after the other in row-major order; NULL for an output that is not wanted. -> 0, or not 0 if it failed. Threads may",
      "call it at the same time; calls of one model are computed one after the other."}},
    {"void ", "close", "%s *model", "model", {"NULL: nothing happens. No other call of the model may be under way."}},
};
/* clang-format on */

static const char *file_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static const char *shared_prefix(const char *output)
{
    static const char END[] = ".so";
    const char *name = file_name(output);
    size_t length = strlen(name), end = strlen(END);
    if (length <= end || strcmp(name + length - end, END) != 0)
        fail(2, "--shared -o %s: the name of a library ends in .so: -o lib%s.so", output, name);
    bool begins = length > 3 + end && strncmp(name, "lib", 3) == 0;
    const char *prefix = c_letters(name + (begins ? 3 : 0), length - end - (begins ? 3 : 0));
    return isdigit((unsigned char)*prefix) ? format("_%s", prefix) : prefix;
}

void check_library_name(const char *output) { shared_prefix(output); }

/* Puts the prefix into `pattern`, which has a place for it once or not at all. */
static const char *with_prefix(const char *pattern, const char *prefix)
{
    const char *place = strstr(pattern, "%s");
    return place ? format("%.*s%s%s", (int)(place - pattern), pattern, prefix, place + 2) : pattern;
}

static void declare(const struct Function *f, const char *prefix, Text *t)
{
    text_add(t, "%s%s_%s(%s)", with_prefix(f->result, prefix), prefix, f->name, with_prefix(f->parameters, prefix));
}

void emit_functions(const Program *p, Text *t)
{
    const char *prefix = shared_prefix(p->options->output);
    text_add(t, "\ntypedef mgpu_model %s;\ntypedef mgpu_model_tensor %s_tensor;\n", prefix, prefix);
    for (int i = 0; i < COUNT(FUNCTIONS); i++) {
        const struct Function *f = &FUNCTIONS[i];
        declare(f, prefix, t);
        text_add(t, " { %smgpu_model_%s(%s); }\n", strcmp(f->result, "void ") == 0 ? "" : "return ", f->name, f->arguments);
    }
}

/* "input 0: image, u8[28, 28]" for inputs that predictions read, and "output 0: ..." */
typedef struct Lines {
    const char **list;
    int count;
} Lines;

static bool is_read(const Program *p, int input)
{
    const Schedule *s = p->plans[0].schedule;
    bool read = false;
    for (int k = 0; k < s->phase_count; k++)
        for (int b = 0; p->phases[k]->kind == PHASE_PREDICT && b < s->phases[k].devices[0].buffer_count; b++) {
            const Buffer *buffer = &s->phases[k].devices[0].buffers[b];
            read = read || (buffer->kind == BUFFER_INPUT && buffer->index == input);
        }
    return read;
}

static void add_tensor(Lines *lines, const char *kind, int number, const char *name, Dtype dtype, const Shape *shape)
{
    APPEND(lines->list, lines->count, format("  %s %d: %s, %s%s", kind, number, name, dtype_name(dtype), shape_text(shape)));
}

static Lines first_lines(const Program *p, const char *prefix)
{
    const Model *m = p->model;
    Lines lines = {0};
    Text first = {0};
    int inputs = 0, outputs = 0;
    text_add(&first, "%s.h: made by mgpuc of %s; docs/library.md of mgpuc explains it.", prefix, m->file);
    APPEND(lines.list, lines.count, text_take(&first));
    for (int i = 0; i < m->input_count; i++)
        if (is_read(p, i))
            add_tensor(&lines, "input", inputs++, m->inputs[i].name, m->inputs[i].dtype, &m->inputs[i].shape);
    for (int i = 0; i < m->eval->result_count; i++) {
        const Result *r = &m->eval->results[i];
        if (r->role == ROLE_OUTPUT)
            add_tensor(&lines, "output", outputs++, r->name, output_dtype(m, r), &r->value->shape);
    }
    return lines;
}

const char *shared_header(const Program *p)
{
    const char *prefix = shared_prefix(p->options->output);
    Lines lines = first_lines(p, prefix);
    Text t = {0};
    text_add(&t, "%s\n#ifndef MGPUC_%s_H\n#define MGPUC_%s_H\n\n#include <stdint.h>\n\n",
             c_comment_lines(lines.list, lines.count), prefix, prefix);
    text_add(&t, "#ifdef __cplusplus\nextern \"C\" {\n#endif\n\n");
    text_add(&t, "typedef struct %s %s; /* a model that is open, with its weights and threads */\n", prefix, prefix);
    text_add(&t,
             "typedef struct %s_tensor {\n"
             "    const char *name, *type; /* type: \"f32\", \"f64\", \"f16\", \"bf16\", \"u8\", \"i8\", ..., \"bool\" */\n"
             "    int rank;\n    const int64_t *shape; /* [rank] */\n    int64_t bytes;\n} %s_tensor;\n",
             prefix, prefix);
    for (int i = 0; i < COUNT(FUNCTIONS); i++) {
        int lines_said = 0;
        while (FUNCTIONS[i].says[lines_said])
            lines_said++;
        text_add(&t, "\n%s\n", c_comment_lines(FUNCTIONS[i].says, lines_said));
        declare(&FUNCTIONS[i], prefix, &t);
        text_add(&t, ";\n");
    }
    text_add(&t, "\n#ifdef __cplusplus\n}\n#endif\n#endif\n");
    return text_take(&t);
}

const char *shared_package(const Program *p)
{
    Text t = {0};
    const char *output = p->options->output;
    text_add(&t, "# made by mgpuc of the model\nlibdir=${pcfiledir}\nincludedir=${pcfiledir}\n\n");
    text_add(&t, "Name: %s\nDescription: predictions of a network, compiled by mgpuc\nVersion: %s\n", shared_prefix(output),
             MGPU_VERSION);
    text_add(&t, "Cflags: -I${includedir}\nLibs: -L${libdir} -l:%s\n", file_name(output));
    return text_take(&t);
}

const char *path_of_shared(const char *output, const char *suffix)
{
    return format("%.*s%s%s", (int)(file_name(output) - output), output, shared_prefix(output), suffix);
}

void shared_flags(Compiler *c)
{
    add_argument(&c->kernel_flags, "-fPIC");
    add_argument(&c->table_flags, "-fPIC");
}

void shared_exports(const char *output, Text *t)
{
    text_add(t, "{ global:");
    for (int i = 0; i < COUNT(FUNCTIONS); i++)
        text_add(t, " %s_%s;", shared_prefix(output), FUNCTIONS[i].name);
    text_add(t, " local: *; };\n");
}

void shared_link(Arguments *a, const char *output, const char *exports)
{
    const char *rest[] = {"-shared", format("-Wl,-soname,%s", file_name(output)), format("-Wl,--version-script=%s", exports)};
    for (int i = 0; i < COUNT(rest); i++)
        add_argument(a, rest[i]);
#define WRAPPED_FLAG(name) "-Wl,--wrap=" #name,
    static const char *const WRAPPED[] = {MGPU_WRAPPED(WRAPPED_FLAG)};
    for (int i = 0; i < COUNT(WRAPPED); i++)
        add_argument(a, WRAPPED[i]);
}
