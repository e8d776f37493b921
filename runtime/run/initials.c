/* initials.c: loads the initial values of a fresh run that do not come from formulas: .npy files at declarations, and files of
 * weights of the train block, of its rules, and of --init.
 *
 * A part (a rule's, or --init PATTERN=FILE) begins at the instance that its pattern matches: for "backbone", the file has
 * conv1.weight for backbone.conv1.weight, or the whole name (match.c). A part on the command line replaces that of the rule with
 * the same pattern. --init FILE replaces all files of the program, but not `init = none` of a rule. Variables matched by that, or
 * by --init PATTERN=none, keep the model's initial values. */
#include "runtime/base/base.h"
#include "runtime/base/spelling.h"
#include "runtime/base/options.h"
#include "runtime/data/data.h"
#include "runtime/engine/engine.h"
#include "runtime/run/commands.h"
#include "runtime/run/initials.h"
#include "runtime/save/checkpoint.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Returns the path, or the path in the data folder. */
static char *find_file(const char *path, const char *where, const RunOptions *o)
{
    char *below = o->data && path[0] != '/' ? mgpu_format("%s/%s", o->data, path) : NULL;
    if (access(path, R_OK) == 0 || !below) {
        free(below);
        return mgpu_format("%s", path);
    }
    if (access(below, R_OK) != 0)
        mgpu_fail(MGPU_BAD_INPUT, "%sthere is no file %s, nor %s", where, path, below);
    return below;
}

/* A file whose name contains = is still a file. */
void mgpu_add_init(RunOptions *o, const char *value)
{
    const char *equals = strchr(value, '=');
    if (!equals || access(value, F_OK) == 0) {
        o->init = value;
        return;
    }
    if (equals == value || !equals[1])
        mgpu_fail(MGPU_BAD_USAGE,
                  "--init takes FILE, or PATTERN=FILE for a part, as in --init backbone=resnet50.safetensors, not '%s'", value);
    MGPU_PUSH(o->parts, o->part_count, value);
}

/* ---- .npy */
static void load_array(const mgpu_program *program, const mgpu_plan *plan, Engine *engine, const mgpu_initial *initial,
                       const RunOptions *o)
{
    const mgpu_tensor *t = &program->variables[initial->variables[0]].tensor;
    char *where = mgpu_format("%s:%d: ", program->model_file, initial->line), *path = find_file(initial->path, where, o);
    char is[200], expected[200];
    Array a;
    mgpu_read_npy(&a, path, where, true, true, NULL);
    bool same = a.rank == t->rank;
    for (int i = 0; same && i < t->rank; i++)
        same = a.extent[i] == t->extent[i];
    if (!same)
        mgpu_fail(MGPU_BAD_INPUT, "%s%s: the array has the shape %s, '%s' has %s", where, path,
                  mgpu_shape_text(a.rank, a.extent, is), t->name, mgpu_shape_text(t->rank, t->extent, expected));
    SavedTensor saved = {.tensor = *t, .data = a.data};
    saved.tensor.dtype = a.dtype;
    if (mgpu_dtype_is_float(a.dtype) != mgpu_dtype_is_float(t->dtype))
        mgpu_fail(MGPU_BAD_INPUT, "%s%s: the array's elements are %s, '%s' is %s: array.astype('%s') makes them fit", where, path,
                  mgpu_dtype_name(a.dtype), t->name, mgpu_dtype_name(t->dtype), mgpu_dtype_is_float(t->dtype) ? "f4" : "i8");
    if (engine)
        mgpu_place_variable(program, plan, engine, initial->variables[0], &saved);
    else
        printf("%s\n  %s\n", path, t->name);
    mgpu_free_array(&a);
    free(path);
    free(where);
}

/* ---- parts on the command line */
/* Returns the name below the outermost instance that matches, or the whole name if nothing shorter matches. NULL: no match. */
static const char *name_below(const char *pattern, const char *pattern_end, const char *name)
{
    int end = mgpu_pattern_match(pattern, pattern_end - pattern, name);
    return end < 0 ? NULL : name[end] ? name + end + 1 : name;
}

typedef struct PartialInit {
    mgpu_initial initial;
    int *variables;
    const char **names;
} PartialInit; /* path NULL: none */

static const char NONE[] = "none";

/* Suggests the instance or weight with the most similar name. */
static _Noreturn void fail_no_weight(const mgpu_program *program, const char *text)
{
    int count = 0;
    char **names = NULL, near[128];
    for (int i = 0; i < program->variable_count; i++) {
        const mgpu_variable *v = &program->variables[i];
        for (const char *end = v->tensor.name; v->kind == MGPU_WEIGHT && *end; end++) {
            if (end[1] && end[1] != '.')
                continue;
            MGPU_PUSH(names, count, mgpu_format("%.*s", (int)(end + 1 - v->tensor.name), v->tensor.name));
        }
    }
    char *pattern = mgpu_format("%.*s", (int)strcspn(text, "="), text);
    mgpu_fail(MGPU_BAD_USAGE, "--init %s: the pattern reaches no weight%s (`mgpuc check %s` lists the names)", text,
              mgpu_did_you_mean(pattern, (const char *const *)names, count, near), program->model_file);
}

static PartialInit part_of(const mgpu_program *program, const char *text)
{
    const char *equals = strchr(text, '=');
    PartialInit p = {.variables = mgpu_allocate((size_t)program->variable_count, sizeof *p.variables),
                     .names = mgpu_allocate((size_t)program->variable_count, sizeof *p.names)};
    int count = 0;
    for (int i = 0; i < program->variable_count; i++) {
        const mgpu_variable *v = &program->variables[i];
        const char *name = v->kind == MGPU_WEIGHT || v->kind == MGPU_STATE ? name_below(text, equals, v->tensor.name) : NULL;
        if (!name)
            continue;
        p.variables[count] = i;
        p.names[count++] = name;
    }
    if (!count)
        fail_no_weight(program, text);
    p.initial = (mgpu_initial){.path = strcmp(equals + 1, NONE) == 0 ? NULL : equals + 1,
                               .pattern = text,
                               .variables = p.variables,
                               .names = p.names,
                               .count = count};
    return p;
}

static bool replaced(const mgpu_initial *initial, const RunOptions *o)
{
    for (int i = 0; initial->pattern && i < o->part_count; i++) {
        size_t length = strcspn(o->parts[i], "=");
        if (strlen(initial->pattern) == length && memcmp(initial->pattern, o->parts[i], length) == 0)
            return true;
    }
    return false;
}

static void close_part(PartialInit *p)
{
    free(p->variables);
    free(p->names);
}

/* ---- */
static char *whole_initial(const mgpu_program *program, const RunOptions *o)
{
    if (o->init)
        return mgpu_format("%s", o->init);
    for (int i = 0; i < program->initial_count; i++) {
        const mgpu_initial *initial = &program->initials[i];
        if (initial->array || initial->pattern || !initial->path)
            continue;
        char *where = mgpu_format("%s:%d: ", program->model_file, initial->line), *path = find_file(initial->path, where, o);
        free(where);
        return path;
    }
    return NULL;
}

static bool has_parts(const mgpu_program *program, const RunOptions *o)
{
    bool parts = o->part_count > 0;
    for (int i = 0; i < program->initial_count; i++)
        parts = parts || (program->initials[i].pattern && (!program->initials[i].path || !o->init));
    return parts;
}

/* Joins the word tables of a part's file. */
static void join_part(Categories *categories, const char *part, const char *path, const RunOptions *o)
{
    Categories *own = mgpu_new_categories(false);
    mgpu_load_categories(own, path);
    const char *input = mgpu_join_categories(categories, own);
    if (input)
        mgpu_say(
            "%s: warning: %s: words of the input '%s' have other classes there than in the weights whose table is used; what is taken from "
            "%s for these classes is of other words",
            o->program, part, input, path);
    mgpu_free_categories(own);
}

void mgpu_join_parts(Categories *categories, const RunOptions *o)
{
    for (int i = o->part_count - 1; i >= 0; i--) { /* the last one wins */
        const char *path = strchr(o->parts[i], '=') + 1;
        char *part = mgpu_format("--init %s", o->parts[i]);
        if (strcmp(path, NONE) != 0)
            join_part(categories, part, path, o);
        free(part);
    }
}

static void join_rules(Categories *categories, const mgpu_program *program, const RunOptions *o)
{
    for (int i = program->initial_count - 1; i >= 0 && !o->init; i--) {
        const mgpu_initial *initial = &program->initials[i];
        if (!initial->pattern || !initial->path || replaced(initial, o))
            continue;
        char *where = mgpu_format("%s:%d", program->model_file, initial->line), *begin = mgpu_format("%s: ", where),
             *path = find_file(initial->path, begin, o);
        join_part(categories, where, path, o);
        free(path);
        free(begin);
        free(where);
    }
}

void mgpu_begin_categories(Categories *categories, const mgpu_program *program, const mgpu_plan *plan, const RunOptions *o)
{
    char *weights = whole_initial(program, o);
    if (weights)
        mgpu_load_categories(categories, weights);
    mgpu_join_parts(categories, o);
    join_rules(categories, program, o);
    if (!weights)
        return;
    bool *wanted = mgpu_allocate((size_t)program->input_count, sizeof *wanted);
    mgpu_wanted_inputs(program, plan, 1u << MGPU_PHASE_PREDICT, wanted);
    for (int i = 0; i < program->input_count && program->output_count && has_parts(program, o); i++)
        if (!wanted[i])
            mgpu_may_renew(categories, &program->inputs[i]);
    free(wanted);
    free(weights);
}

/* By --init PATTERN=none, unless a later option names the part. */
static bool *left_out(const mgpu_program *program, const RunOptions *o)
{
    bool *out = mgpu_allocate((size_t)program->variable_count, sizeof *out);
    for (int i = 0; i < o->part_count; i++) {
        PartialInit p = part_of(program, o->parts[i]);
        for (int k = 0; k < p.initial.count; k++)
            out[p.variables[k]] = !p.initial.path;
        close_part(&p);
    }
    return out;
}

bool *mgpu_left_out_of(const mgpu_program *program, const RunOptions *o, int64_t step)
{
    bool *out = left_out(program, o), trained = o->command != COMMAND_TRAIN && step >= 0;
    for (int i = 0; i < program->initial_count && !trained; i++) {
        const mgpu_initial *initial = &program->initials[i];
        for (int k = 0; !initial->path && k < initial->count; k++)
            out[initial->variables[k]] = true;
        if (!initial->path && !replaced(initial, o))
            mgpu_print("\"%s\" begins as the model says, by init = none in line %d; --init %s=FILE takes it from a file\n",
                       initial->pattern, initial->line, initial->pattern);
    }
    return out;
}

/* mgpuc checks the files that the train block names (dsl/warnings.c). initial NULL: all variables. */
static void warn_of_channel_order(const mgpu_program *program, const TensorFile *file, const mgpu_initial *initial,
                                  const bool *none)
{
    int count = initial ? initial->count : program->variable_count;
    for (int k = 0; k < count && file->step < 0 && !file->channels_last; k++) {
        int v = initial ? initial->variables[k] : k;
        if (program->variables[v].flattened && !(none && none[v]))
            mgpu_say("%s: warning: '%s' begins with %s, which mgpuc has not written, and multiplies a flattened %s, channels "
                     "last; weights of PyTorch are "
                     "for channels first: x |> flatten(order = \"chw\") takes them",
                     program_invocation_short_name, program->variables[v].tensor.name, file->path,
                     program->variables[v].flattened);
    }
}

/* Loads --init FILE, except for variables with init = none of a rule. */
static int load_init(const mgpu_program *program, const mgpu_plan *plan, Engine *engine, const RunOptions *o)
{
    TensorFile file;
    mgpu_open_weights(&file, o->init);
    bool *none = mgpu_left_out_of(program, o, file.step);
    int lacks = mgpu_load_weights(program, plan, engine, &(WeightSource){.file = &file, .left_out = none, .rules = o->rules});
    warn_of_channel_order(program, &file, NULL, none);
    mgpu_close_tensors(&file);
    free(none);
    return lacks;
}

static int load_part(const mgpu_program *program, const mgpu_plan *plan, Engine *engine, const mgpu_initial *part,
                     const char *path, WeightSource source)
{
    TensorFile file;
    mgpu_open_weights(&file, path);
    source.file = &file;
    int lacks = mgpu_load_part(program, plan, engine, part, &source);
    if (part->pattern && !part->line)
        warn_of_channel_order(program, &file, part, NULL);
    mgpu_close_tensors(&file);
    return lacks;
}

int mgpu_load_initials(const mgpu_program *program, const mgpu_plan *plan, Engine *engine, const RunOptions *o)
{
    bool *out = left_out(program, o);
    int lacks = 0;
    for (int i = 0; i < program->initial_count && !o->init; i++) {
        const mgpu_initial *initial = &program->initials[i];
        if (initial->array) {
            load_array(program, plan, engine, initial, o);
        } else if (initial->path && !replaced(initial, o)) {
            char *where = mgpu_format("%s:%d: ", program->model_file, initial->line), *path = find_file(initial->path, where, o);
            char *begin = mgpu_format("%s%s", where, path);
            WeightSource source = {.begin = begin, .left_out = out, .rules = o->rules ? o->rules : initial->rules};
            lacks += load_part(program, plan, engine, initial, path, source);
            free(begin);
            free(path);
            free(where);
        }
    }
    if (o->init)
        lacks += load_init(program, plan, engine, o);
    lacks += mgpu_load_parts(program, plan, engine, o, MGPU_WEIGHTS_VIEW);
    if (engine && (program->initial_count || o->part_count))
        mgpu_begin_averages(program, plan, engine);
    free(out);
    return lacks;
}

int mgpu_load_parts(const mgpu_program *program, const mgpu_plan *plan, Engine *engine, const RunOptions *o, int view)
{
    int lacks = 0;
    for (int i = 0; i < o->part_count; i++) {
        PartialInit p = part_of(program, o->parts[i]);
        char *begin = mgpu_format("--init %s", o->parts[i]);
        if (p.initial.path)
            lacks += load_part(program, plan, engine, &p.initial, p.initial.path,
                               (WeightSource){.begin = begin, .view = view, .rules = o->rules});
        free(begin);
        close_part(&p);
    }
    return lacks;
}

bool mgpu_parts_suffice(const mgpu_program *program, const RunOptions *o)
{
    bool *found = mgpu_allocate((size_t)program->variable_count, sizeof *found), all = true;
    for (int i = 0; i < o->part_count; i++) {
        PartialInit p = part_of(program, o->parts[i]);
        for (int k = 0; k < p.initial.count; k++)
            found[p.variables[k]] = true;
        close_part(&p);
    }
    for (int i = 0; i < program->variable_count; i++)
        all = all && (found[i] || (program->variables[i].kind != MGPU_WEIGHT && program->variables[i].kind != MGPU_STATE));
    free(found);
    return all;
}

int mgpu_show_initials(const mgpu_program *program, const char *const *inits, int count, const char *rules)
{
    RunOptions o = {.rules = rules};
    for (int i = 0; i < count; i++)
        mgpu_add_init(&o, inits[i]);
    int lacks = mgpu_load_initials(program, NULL, NULL, &o);
    free(o.parts);
    return lacks;
}
