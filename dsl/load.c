/* load.c: loads the library, the user's file and its imports into maps of layers and params. */
#include "dsl/elaborate.h"

#include <errno.h>
#include <string.h>

typedef struct Loaded {
    const char *path;
    const Source *source;
} Loaded; /* in the order in which loading began */
typedef struct Loader {
    Loaded *files;
    int count;
} Loader;

static Layer *text_layer(const Tree *t)
{
    Layer *l = NEW(Layer);
    *l = (Layer){.kind = LAYER_TEXT, .name = t->text, .tree = t};
    return l;
}

static void load_builtins(Elaborator *e, const Builtin *list)
{
    for (; list->name; list++) {
        Layer *l = NEW(Layer);
        *l = (Layer){.kind = LAYER_BUILTIN, .name = list->name, .builtin = list};
        map_set(&e->builtins, list->name, l);
    }
}

static void check_parameters(const Tree *layer)
{
    for (const Tree *p = layer->first->first; p; p = p->next)
        for (const Tree *q = layer->first->first; q != p; q = q->next)
            if (strcmp(p->text, q->text) == 0) {
                Place at = {.source = p->source, .line = p->line, .column = p->column};
                show_error_at(&at, "the parameter '%s' is there twice; give one of them another name", p->text);
            }
}

static void twice(const Elaborator *e, const Tree *t, const Tree *other, const char *what)
{
    if (other->source == t->source)
        show_error_at(place_of(e, t), "%s is there already, in line %d; remove one of them", what, other->line);
    else
        show_error_at(place_of(e, t), "%s is also in %s, line %d; give one of them another name", what, other->source->file,
                      other->line);
}

static void load_file(Elaborator *e, Loader *loader, const Tree *file, bool main_file);

static void import(Elaborator *e, Loader *loader, const Tree *t)
{
    const char *path = path_in_folder_of(t->source->file, t->text), *kept = real_path(path), *why;
    if (!kept)
        error_tree(e, t, "%s cannot be read: %s", path, strerror(errno));
    for (int k = 0; k < loader->count; k++)
        if (strcmp(loader->files[k].path, kept) == 0)
            return;
    Source *s = find_source(path, &why);
    if (!s)
        error_tree(e, t, "%s cannot be read: %s", path, why);
    Loaded l = {.path = kept, .source = s};
    APPEND(loader->files, loader->count, l);
    load_file(e, loader, parse(s), false);
}

static void try_import(Elaborator *e, Loader *loader, const Tree *t)
{
    Recovery r;
    if (setjmp(*recovery_begin(&r)) == 0) {
        import(e, loader, t);
        recovery_end(&r);
    } else {
        e->broken = true;
    }
}

/* Adds a param. A file's param replaces one of the same name in a file that it imports. */
static void add_param(Elaborator *e, const Loader *loader, int first, const Tree *t)
{
    Param *p = map_get(&e->params, t->text);
    if (p) {
        bool imported = false;
        for (int k = first + 1; k < loader->count; k++)
            imported |= loader->files[k].source == p->tree->source;
        if (!imported || p->tree->source == t->source)
            twice(e, t, p->tree, format("the param '%s'", t->text));
    } else {
        p = NEW(Param);
        map_set(&e->params, t->text, p);
    }
    *p = (Param){.name = t->text, .tree = t};
}

static void load_file(Elaborator *e, Loader *loader, const Tree *file, bool main_file)
{
    int first = loader->count - 1;
    for (const Tree *t = file->first; t; t = t->next)
        if (t->kind == TREE_IMPORT)
            try_import(e, loader, t);
    const char *wanted = e->settings->model;
    const char **models = NULL;
    int count = 0;
    for (const Tree *t = file->first; t; t = t->next) {
        if (t->kind == TREE_PARAM) {
            add_param(e, loader, first, t);
        } else if (t->kind == TREE_LAYER) {
            const Layer *other = map_get(&e->layers, t->text);
            if (other)
                twice(e, t, other->tree, format("the layer '%s'", t->text));
            else
                map_set(&e->layers, t->text, text_layer(t));
            check_parameters(t);
        } else if (t->kind == TREE_BROKEN) {
            e->broken = true;
        } else if (!main_file || t->kind == TREE_IMPORT) {
            continue;
        } else if (t->kind == TREE_MODEL) {
            APPEND(models, count, t->text);
            if (wanted && strcmp(wanted, t->text) != 0)
                continue;
            if (e->model_tree)
                error_tree(e, t, "two models, '%s' and '%s': choose one with --model NAME", e->model_tree->text, t->text);
            e->model_tree = t;
        } else {
            const Tree **place = t->kind == TREE_DATA ? &e->data_tree : &e->train_tree;
            if (*place)
                twice(e, t, *place, format("a %s block", tree_kind_name(t->kind)));
            else
                *place = t;
        }
    }
    if (main_file && !e->model_tree && wanted)
        error_tree(e, file, "there is no model '%s'%s", wanted, did_you_mean(wanted, models, count));
    if (main_file && !e->model_tree && error_count())
        give_up();
    if (main_file && !e->model_tree && !e->settings->part)
        error_tree(e, file, "there is no model: write model NAME { input ...  loss ... }");
}

void load_files(Elaborator *e, const Tree *file)
{
    load_builtins(e, COMPILE_TIME);
    load_builtins(e, elementwise_primitives());
    load_builtins(e, PRIMITIVES);
    load_readers(e);
    load_library(e);
    Loader loader = {0};
    const char *real = real_path(file->source->file);
    Loaded l = {.path = real ? real : "", .source = file->source};
    APPEND(loader.files, loader.count, l);
    load_file(e, &loader, file, true);
    for (int k = 0; k < loader.count; k++)
        APPEND(e->model->files, e->model->file_count, loader.files[k].source->file);
}
