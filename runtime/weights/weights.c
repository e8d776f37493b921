/* weights.c: files -> variables of a drained engine: safetensors and others, and .npy for one variable. In: a file, and the
 * variables to read from it (view.c). Out: the engine's variables on all devices. Rounded copies are computed from their masters.
 * Partial sums are written to device 0 and zeros to the others, so that a run can continue on another number of devices. */
#include "runtime/base/base.h"
#include "runtime/base/context.h"
#include "runtime/base/spelling.h"
#include "runtime/engine/engine.h"
#include "runtime/weights/rules.h"
#include "runtime/weights/view.h"

#include <stdlib.h>
#include <string.h>

/* Reads only this process's part of a sharded variable. */
void mgpu_place_variable(const mgpu_program *program, const mgpu_plan *plan, Engine *engine, int variable,
                         const SavedTensor *saved)
{
    const mgpu_variable *v = &program->variables[variable];
    mgpu_range part = mgpu_engine_held(engine, variable);
    int64_t count = part.end - part.begin, each = mgpu_dtype_bytes(v->tensor.dtype), its = mgpu_dtype_bytes(saved->tensor.dtype);
    uint8_t *aligned = mgpu_allocate((size_t)(count * its) + 1, 1), *memory = mgpu_allocate((size_t)(count * each) + 1, 1);
    mgpu_read_elements(saved, part, aligned);
    mgpu_convert(memory, v->tensor.dtype, aligned, saved->tensor.dtype, count);
    free(aligned);
    if (!mgpu_as_declared(v)) {
        uint8_t *declared = memory;
        memory = mgpu_allocate((size_t)(count * each) + 1, 1);
        mgpu_reorder(v, part, declared, memory, false);
        free(declared);
    }
    for (int d = 0; d < plan->devices; d++) {
        if (d == 1 && mgpu_is_partial(v))
            memset(memory, 0, (size_t)(count * each));
        mgpu_engine_write_part(engine, d, variable, part.begin * each, memory);
    }
    free(memory);
}

/* model: the tensor's name in the model if --init may leave it out, else NULL. */
static void check_tensor(const TensorFile *file, const SavedTensor *saved, const mgpu_tensor *t, const char *model)
{
    char is[200], expected[200];
    if (!mgpu_same_shape(&saved->tensor, t))
        mgpu_fail(MGPU_BAD_INPUT, "%s: '%s' has the shape %s, the model has %s%s", file->path, t->name,
                  mgpu_shape_text(saved->tensor.rank, saved->tensor.extent, is), mgpu_shape_text(t->rank, t->extent, expected),
                  model ? mgpu_format("; --init %.*s=none leaves it as the model begins it",
                                      (int)(strrchr(model, '.') ? strrchr(model, '.') - model : (long)strlen(model)), model)
                        : "");
    if (mgpu_dtype_is_float(saved->tensor.dtype) != mgpu_dtype_is_float(t->dtype))
        mgpu_fail(MGPU_BAD_INPUT, "%s: '%s' is %s, the model has %s", file->path, t->name, mgpu_dtype_name(saved->tensor.dtype),
                  mgpu_dtype_name(t->dtype));
}

/* PyTorch counts batches next to batchnorm's statistics; the count is not used. */
static bool is_ignored(const char *name) { return mgpu_ends_with(name, ".num_batches_tracked"); }

/* Residuals of one-bit gradients: a run that resumes with another plan may drop them, or start without them. */
static bool is_residual(const char *name) { return mgpu_ends_with(name, ".residual"); }

enum { NAMES_SHOWN = 6 };
typedef struct NameList {
    FILE *f;
    char *text;
    size_t length;
    int count;
} NameList;

static void open_list(NameList *l)
{
    *l = (NameList){0};
    l->f = mgpu_begin_text(&l->text, &l->length);
}

static void list(NameList *l, const char *name)
{
    if (l->count++ < NAMES_SHOWN)
        fprintf(l->f, "%s%s", l->count > 1 ? ", " : "", name);
}

static void close_list(NameList *l)
{
    if (l->count > NAMES_SHOWN)
        fprintf(l->f, " and %d more", l->count - NAMES_SHOWN);
    fclose(l->f);
}

/* Computes the rounded copies that contractions read instead of their masters. */
static void make_copies(const mgpu_program *program, const mgpu_plan *plan, Engine *engine)
{
    for (int i = 0; i < program->copy_count; i++) {
        const mgpu_copy *c = &program->copies[i];
        const mgpu_tensor *from = &program->variables[c->master].tensor, *to = &program->variables[c->copy].tensor;
        uint8_t *master = mgpu_allocate((size_t)mgpu_tensor_bytes(from), 1),
                *copy = mgpu_allocate((size_t)mgpu_tensor_bytes(to), 1);
        mgpu_engine_read_whole(engine, c->master, master);
        mgpu_convert(copy, to->dtype, master, from->dtype, mgpu_elements(to));
        for (int d = 0; d < plan->devices; d++)
            mgpu_engine_write_variable(engine, d, c->copy, copy);
        free(master);
        free(copy);
    }
}

/* Lists a name that the file lacks, and why the rules could not make the tensor. */
static void list_missing(NameList *missing, const Match *match, int i)
{
    char *text = match->why[i] ? mgpu_format("%s (%s)", match->name[i], match->why[i]) : NULL;
    list(missing, text ? text : match->name[i]);
    free(text);
}

/* Writes match.tensor[i] to variable view.variable[i]. Adds names that the file lacks to `missing`. */
static void place_view(const mgpu_program *program, const mgpu_plan *plan, Engine *engine, const TensorFile *file,
                       const TensorView *view, const Match *match, bool may_leave, NameList *missing)
{
    for (int i = 0; i < view->count; i++) {
        if (!match->tensor[i]) {
            if (!mgpu_is_partial(&program->variables[view->variable[i]]) || !is_residual(match->name[i]))
                list_missing(missing, match, i);
            continue;
        }
        mgpu_tensor wanted = program->variables[view->variable[i]].tensor;
        wanted.name = match->name[i];
        check_tensor(file, match->tensor[i], &wanted, may_leave ? view->name[i] : NULL);
        mgpu_place_variable(program, plan, engine, view->variable[i], match->tensor[i]);
    }
}

static bool is_model(const mgpu_program *program, const char *name)
{
    for (int i = 0; i < program->variable_count; i++) {
        const mgpu_variable *v = &program->variables[i];
        if ((v->kind == MGPU_WEIGHT || v->kind == MGPU_STATE) && strcmp(v->tensor.name, name) == 0)
            return true;
    }
    return false;
}

typedef struct Unused {
    const char *name;
    int distance;
} Unused;

static int by_distance(const void *a, const void *b)
{
    const Unused *x = a, *y = b;
    return x->distance != y->distance ? (x->distance < y->distance ? -1 : 1) : strcmp(x->name, y->name);
}

static const char *end_of(const char *name)
{
    return strlen(name) < MGPU_LONGEST_WORD ? name : name + strlen(name) - MGPU_LONGEST_WORD + 1;
}

/* Lists tensors that were not used: for a part that training starts with all of them, else those that are not in the model. Names
 * most similar to a missing name come first. */
static void list_unused(const mgpu_program *program, const TensorFile *file, bool part, const Match *match, int count,
                        NameList *unused)
{
    const char *missing = NULL;
    for (int i = count - 1; i >= 0; i--)
        missing = match->tensor[i] ? missing : match->name[i];
    Unused *all = mgpu_allocate((size_t)file->count + 1, sizeof *all);
    int n = 0;
    for (int i = 0; i < file->count; i++) {
        const char *name = file->tensors[i].tensor.name;
        bool left = part && is_residual(name);
        if (!file->used[i] && !is_ignored(name) && !left && (part || !is_model(program, name)))
            all[n++] = (Unused){name, missing ? mgpu_edit_distance(end_of(missing), end_of(name)) : 0};
    }
    qsort(all, (size_t)n, sizeof *all, by_distance);
    for (int i = 0; i < n; i++)
        list(unused, all[i].name);
    free(all);
}

/* True if `part` is the name or a prefix of it that ends before a dot. */
static bool is_part(const char *name, const char *part, size_t length)
{
    return strncmp(name, part, length) == 0 && (!name[length] || name[length] == '.');
}

static bool ends_in_bias(const char *name)
{
    const char *point = strrchr(name, '.');
    return strcmp(point ? point + 1 : name, "bias") == 0;
}

/* Returns the common prefix of all missing names, without its last dot; "" if there is none or the file has names with it. */
static char *missing_part(const TensorView *view, const bool *there)
{
    const char *first = NULL;
    size_t length = 0;
    for (int i = 0; i < view->count; i++) {
        if (there[i])
            continue;
        if (!first) {
            first = view->name[i];
            const char *point = strrchr(first, '.');
            length = point ? (size_t)(point - first) : strlen(first);
        }
        while (length && !is_part(view->name[i], first, length))
            do
                length--;
            while (length && first[length] != '.');
    }
    for (int i = 0; i < view->count && length; i++)
        length = there[i] && is_part(view->name[i], first, length) ? 0 : length;
    return mgpu_format("%.*s", (int)length, first);
}

static char *cure_of_missing(const TensorView *view, const bool *there)
{
    bool biases = true;
    char *part = missing_part(view, there), *cure = NULL;
    for (int i = 0; i < view->count; i++)
        biases = biases && (there[i] || ends_in_bias(view->name[i]));
    if (biases)
        cure = mgpu_format("; layers have no biases with bias = false");
    else if (*part)
        cure = mgpu_format("; --init %s=none leaves '%s' as the model begins it", part, part);
    free(part);
    return cure;
}

static void say_rules(const WeightSource *source, const Match *match)
{
    const char *said = match->set ? match->set->remark : NULL;
    if (match->set && !source->rules)
        mgpu_print("%s: by the rules '%s' of the library for names and shapes; --rules none takes tensors by their names alone\n",
                   source->file->path, match->set->names[0]);
    if (said)
        mgpu_print("%s: %s\n", source->file->path, said);
}

/* ---- printing what would be loaded */
static int show(const mgpu_program *program, const WeightSource *source, const TensorView *view, const Match *match)
{
    int width = 0, shapes = 0, lacks = 0, whole = source->begin == NULL;
    NameList unused;
    char shape[200], expected[200], *cure = NULL;
    bool fit[view->count + 1];
    for (int i = 0; i < view->count; i++) {
        const mgpu_tensor *t = &program->variables[view->variable[i]].tensor;
        int name = (int)strlen(view->name[i]), extents = (int)strlen(mgpu_shape_text(t->rank, t->extent, shape));
        width = name > width ? name : width;
        shapes = extents > shapes ? extents : shapes;
    }
    printf("%s%s%s\n", source->file->path, match->set ? ", by the rules " : "",
           match->set ? match->set->name_count ? match->set->names[0] : "given" : "");
    for (int i = 0; i < view->count; i++) {
        const mgpu_tensor *wanted = &program->variables[view->variable[i]].tensor;
        const SavedTensor *t = match->tensor[i];
        bool fits = fit[i] = t && mgpu_same_shape(&t->tensor, wanted) &&
                             mgpu_dtype_is_float(t->tensor.dtype) == mgpu_dtype_is_float(wanted->dtype);
        printf("  %-*s  %s %-*s  ", width, view->name[i], mgpu_dtype_name(wanted->dtype), shapes,
               mgpu_shape_text(wanted->rank, wanted->extent, expected));
        if (fits && t->tensor.dtype == wanted->dtype)
            printf("%s\n", match->name[i]);
        else if (t)
            printf("%s%s, which is %s %s\n", fits ? "" : "does not fit: ", match->name[i], mgpu_dtype_name(t->tensor.dtype),
                   fits ? "and is converted" : mgpu_shape_text(t->tensor.rank, t->tensor.extent, shape));
        else
            printf("is not there: %s%s%s%s\n", match->name[i], match->why[i] ? " (" : "", match->why[i] ? match->why[i] : "",
                   match->why[i] ? ")" : "");
        lacks += !fits;
    }
    open_list(&unused);
    list_unused(program, source->file, !whole, match, view->count, &unused);
    close_list(&unused);
    if (match->set && match->set->remark)
        printf("%s\n", match->set->remark);
    if (whole && lacks && lacks < view->count)
        cure = cure_of_missing(view, fit);
    printf("%d of %d tensors are there%s%s%s\n", view->count - lacks, view->count, unused.count ? "; not used: " : "",
           unused.text, cure ? cure : "");
    free(cure);
    free(unused.text);
    return lacks;
}

static void fail_whole(const mgpu_program *program, const TensorFile *file, const TensorView *view, const Match *match,
                       bool may_leave, const NameList *missing, const NameList *extra)
{
    bool there[view->count + 1];
    for (int i = 0; i < view->count; i++)
        there[i] = match->tensor[i];
    char *cure = missing->count && match->found && may_leave && !mgpu_context() ? cure_of_missing(view, there) : NULL;
    mgpu_fail(MGPU_BAD_INPUT, "%s: %d of the model's %d tensors are there%s%s%s%s; mgpuc check %s%s%s shows %s%s", file->path,
              match->found, view->count, missing->count ? "; missing: " : "", missing->text,
              extra->count ? "; not in the model: " : "", extra->text, program->model_file, may_leave ? " --init " : "",
              may_leave ? file->path : "", may_leave ? "the names of both" : "the model's names", cure ? cure : "");
}

/* Makes the view of a part. names[i] is the end of the variable's name that follows the part. If it is the whole name, only the
 * name's last component follows. */
static TensorView view_of_part(const mgpu_program *program, const mgpu_initial *part, const bool *left_out, int which)
{
    TensorView v = mgpu_new_view(part->count);
    int *reads = mgpu_read_instead(program, which);
    for (int i = 0; i < part->count; i++) {
        const char *whole = program->variables[part->variables[i]].tensor.name, *point = strrchr(whole, '.');
        if (left_out && left_out[part->variables[i]])
            continue;
        size_t below = strlen(whole) - strlen(part->names[i]);
        v.below[v.count] = (int)(below || !part->pattern ? below : point ? (size_t)(point + 1 - whole) : 0);
        mgpu_view_add(&v, whole, reads[part->variables[i]]);
    }
    free(reads);
    return v;
}

static _Noreturn void fail_part(const TensorView *view, const Match *match, const mgpu_initial *part, const char *begin,
                                const char *missing, const NameList *unused)
{
    int length = (int)strcspn(part->pattern, "=");
    char *some = match->found ? mgpu_format("%d", match->found) : mgpu_format("none"), *prefix = mgpu_format("%s", "");
    for (int i = 0; i < view->count && !*prefix; i++)
        prefix = mgpu_format("%.*s", view->below[i], view->name[i]);
    mgpu_fail(MGPU_BAD_INPUT, "%s: %s of the %d tensors of \"%.*s\" %s in the file%s%s%s%s", begin, some, view->count, length,
              part->pattern, match->found > 1 ? "are" : "is", match->found ? mgpu_format("; missing: %s", missing) : "",
              unused->count ? match->found ? "; it has besides: " : "; it has: " : "", unused->text,
              *prefix ? mgpu_format("; names may begin with \"%s\" or leave it out", prefix) : "");
}

/* exact: other tensors in the file are an error. part: of the model, given by a pattern; NULL for all of it. */
static int load_view(const mgpu_program *program, const mgpu_plan *plan, Engine *engine, const WeightSource *source,
                     const TensorView *view, bool exact, const mgpu_initial *part)
{
    bool evaluation = source->view == MGPU_MODEL_VIEW;
    NameList missing, unused;
    Match match;
    mgpu_match(&match, program, source->file, view, source->rules);
    if (!engine) {
        int lacks = show(program, source, view, &match);
        mgpu_close_match(&match, view);
        return lacks;
    }
    open_list(&missing);
    open_list(&unused);
    place_view(program, plan, engine, source->file, view, &match, !exact && !part, &missing);
    list_unused(program, source->file, part ? !evaluation : exact, &match, view->count, &unused);
    close_list(&missing);
    close_list(&unused);
    if (part && missing.count)
        fail_part(view, &match, part, source->begin, missing.text, &unused);
    if (missing.count || (unused.count && exact))
        fail_whole(program, source->file, view, &match, !exact, &missing, &unused);
    say_rules(source, &match);
    if (part)
        mgpu_print(evaluation ? "weights  \"%.*s\": %d tensors of %s%s%s\n" : "\"%.*s\" begins with %d tensors of %s%s%s\n",
                   (int)strcspn(part->pattern, "="), part->pattern, match.found, source->file->path,
                   unused.count ? "; not used: " : "", unused.text);
    else if (unused.count)
        mgpu_print("%s: not used, because the model has no such tensors: %s\n", source->file->path, unused.text);
    free(missing.text);
    free(unused.text);
    mgpu_close_match(&match, view);
    return 0;
}

int mgpu_load_part(const mgpu_program *program, const mgpu_plan *plan, Engine *engine, const mgpu_initial *part,
                   const WeightSource *source)
{
    TensorView view = view_of_part(program, part, source->left_out, source->view);
    int lacks = load_view(program, plan, engine, source, &view, false, part->pattern ? part : NULL);
    mgpu_close_view(&view);
    if (source->view == MGPU_MODEL_VIEW && engine)
        make_copies(program, plan, engine);
    return lacks;
}

void mgpu_read_view(const mgpu_program *program, const mgpu_plan *plan, Engine *engine, TensorFile *file, int which)
{
    TensorView view = mgpu_view_of(program, plan, which);
    load_view(program, plan, engine, &(WeightSource){.file = file, .rules = "none"}, &view, true, NULL);
    mgpu_close_view(&view);
    make_copies(program, plan, engine);
}

/* Copies variables to their averages, which have the same shape, type and order. */
void mgpu_begin_averages(const mgpu_program *program, const mgpu_plan *plan, Engine *engine)
{
    for (int i = 0; i < program->average_count; i++) {
        const mgpu_copy *a = &program->averages[i];
        uint8_t *data = mgpu_allocate((size_t)mgpu_tensor_bytes(&program->variables[a->master].tensor), 1);
        mgpu_engine_read_whole(engine, a->master, data);
        for (int d = 0; d < plan->devices; d++)
            mgpu_engine_write_variable(engine, d, a->copy, data);
        free(data);
    }
    make_copies(program, plan, engine);
}

int mgpu_load_weights(const mgpu_program *program, const mgpu_plan *plan, Engine *engine, const WeightSource *source)
{
    TensorView view = mgpu_new_view(program->variable_count);
    int *reads = mgpu_read_instead(program, source->view);
    for (int i = 0; i < program->variable_count; i++) {
        uint8_t kind = program->variables[i].kind;
        if ((kind == MGPU_WEIGHT || kind == MGPU_STATE) && !(source->left_out && source->left_out[i]))
            mgpu_view_add(&view, program->variables[i].tensor.name, reads[i]);
    }
    int lacks = load_view(program, plan, engine, source, &view, false, NULL);
    free(reads);
    mgpu_close_view(&view);
    if (engine && source->view == MGPU_WEIGHTS_VIEW)
        mgpu_begin_averages(program, plan, engine);
    else if (engine)
        make_copies(program, plan, engine);
    return lacks;
}
