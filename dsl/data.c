/* data.c: the data block: sources and stages as values; assigns columns to inputs. */
#include "dsl/data.h"

#include <string.h>

static Value *source_value(Samples *s)
{
    Value *v = value_new();
    *v = (Value){.kind = VALUE_SOURCE, .samples = s};
    return v;
}

/* Reports an empty part, such as part(0.9, 0.1) or part(0.5, 0.5). */
static void check_part(const DataCall *call)
{
    double from = call->options[0].items[0].number, to = call->options[1].items[0].number;
    if (from >= to)
        error_at(call->at, "part(%g, %g) is empty: the second number must be the larger one, as in part(0, 0.9)", from, to);
}

/* Reports csv(header = false) without names, whose columns have no names at all. */
static void check_titles(const DataCall *call)
{
    bool names = false, header = true;
    for (int k = 0; k < call->option_count; k++) {
        names |= strcmp(call->options[k].name, "names") == 0;
        if (strcmp(call->options[k].name, "header") == 0)
            header = call->options[k].items[0].number != 0;
    }
    if (!names && !header)
        error_at(call->at, "csv: header = false needs names = [...], which say what the columns are called");
}

/* Records why the program lacks the set; the first reason is kept. */
static void put_off(Samples *s, const char *what, const Place *at)
{
    if (what && !s->later)
        s->later_line = at->line;
    s->later = s->later ? s->later : what;
}

static Value *call_stage(Elaborator *e, const DataRow *row, const Place *at, Arguments a, Value *piped)
{
    if (!piped || first_of(piped)->kind != VALUE_SOURCE || first_of(piped)->samples->decoded)
        error_at(at, "'%s' is a stage: it comes after a reader, as in images(\"train\") |> %s", row->name, row->usage);
    Samples *s = NEW(Samples);
    *s = *first_of(piped)->samples;
    e->data_later = NULL;
    DataCall call = check_call(e, row, at, a, NULL, &s->set, NULL, NULL);
    if (row->later)
        no_data_yet(e, at, format("the stage '%s'", row->name));
    put_off(s, e->data_later, at);
    if (strcmp(row->name, "part") == 0)
        check_part(&call);
    /* the source may have other uses, which keep their own calls */
    DataCall *calls = NEW_ARRAY(DataCall, s->set.call_count + 1);
    memcpy(calls, s->set.calls, sizeof *calls * (size_t)s->set.call_count);
    calls[s->set.call_count++] = call;
    s->set.calls = calls;
    return source_value(s);
}

/* Adds a stage after the reader that loads images from the paths in columns of a table. */
static void add_decoding(Samples *s, const Place *at, const char **names, int count)
{
    DataOption o = {.name = "columns"};
    for (int k = 0; k < count; k++) {
        DataItem item = {names[k], 0};
        APPEND(o.items, o.count, item);
    }
    DataCall call = {.name = "decode", .at = at};
    APPEND(call.options, call.option_count, o);
    APPEND(s->set.calls, s->set.call_count, call);
}

static Value *call_reader(Elaborator *e, const Layer *layer, const Place *at, Arguments a, Value *piped)
{
    const DataRow *row = find_row(layer->name);
    if (row->stage)
        return call_stage(e, row, at, a, piped);
    Samples *s = NEW(Samples);
    *s = (Samples){.reader = row};
    e->data_later = NULL;
    if (row->later)
        no_data_yet(e, at, strcmp(row->name, "decode") == 0 ? "decode" : format("the reader '%s'", row->name));
    put_off(s, e->data_later, at);
    if (strcmp(row->name, "mix") == 0)
        return source_value(s);
    const char **decoded = NULL;
    int decoded_count = 0;
    DataCall call = check_call(e, row, at, a, piped ? first_of(piped) : NULL, &s->set, &decoded, &decoded_count);
    put_off(s, e->data_later, at);
    if (strcmp(row->name, "decode") == 0) {
        s->decoded = call.options[0].items[0].text;
        return source_value(s);
    }
    if (row->kind == COLUMNS_OF_TABLE)
        check_titles(&call);
    APPEND(s->set.calls, s->set.call_count, call);
    if (decoded_count)
        add_decoding(s, at, decoded, decoded_count);
    if (row->kind == COLUMNS_PATHS && s->set.column_count == 0)
        error_at(at, "%s needs a file for each input: %s", row->name, row->usage);
    return source_value(s);
}

/* ---- columns and inputs */
typedef struct NeededColumn {
    const char *name;
    int input;
} NeededColumn; /* a column that the reader must provide */
typedef struct Needs {
    NeededColumn *list;
    int count;
} Needs;

static const NeededColumn *find_need(const Needs *n, const char *name)
{
    for (int k = 0; k < n->count; k++)
        if (strcmp(n->list[k].name, name) == 0)
            return &n->list[k];
    return NULL;
}

static bool has_column(const char *columns, const char *name)
{
    size_t length = strlen(name);
    for (const char *at = columns; (at = strstr(at, name)); at += length)
        if ((at == columns || at[-1] == ' ') && (at[length] == 0 || at[length] == ' '))
            return true;
    return false;
}

static const char *with_commas(const char *columns)
{
    Text t = {0};
    for (const char *c = columns; *c; c++)
        text_add(&t, *c == ' ' ? ", " : "%c", *c);
    return text_take(&t);
}

/* pairs makes left and right from one column, and same from label. */
static Needs needs_of_pairs(const Elaborator *e, const Samples *s, const DataCall *call)
{
    const Model *m = e->model;
    int input = -1;
    for (int k = 0; k < m->input_count; k++) {
        const Input *in = &m->inputs[k];
        if (!has_column("left right same", in->name))
            error_at(call->at, "pairs gives left, right and same; the model's input '%s' is none of them", in->name);
        if (strcmp(in->name, "same") == 0)
            continue;
        if (input >= 0 && (m->inputs[input].dtype != in->dtype || !shape_equal(&m->inputs[input].shape, &in->shape)))
            error_at(call->at, "pairs gives left and right of one column: the inputs must have one type and shape");
        input = k;
    }
    if (input < 0)
        error_at(call->at, "pairs gives left, right and same; the model has no input 'left' or 'right'");
    const char *other = s->reader->kind == COLUMNS_FIXED && has_column(s->reader->columns, "image") ? "image" : NULL;
    bool label = other != NULL;
    for (int k = 0; k < s->set.column_count; k++) {
        const char *name = s->set.columns[k].name;
        if (strcmp(name, "label") == 0)
            label = true;
        else if (other)
            error_at(s->set.columns[k].at, "pairs makes left and right of one column beside 'label': '%s' or '%s'?", other, name);
        else
            other = name;
    }
    if (!label || !other)
        error_at(
            call->at,
            "pairs needs a column 'label', by which it knows what is the same, and one other: idx(image = ..., label = ...)");
    Needs n = {0};
    NeededColumn list[] = {{other, input}, {"label", -1}};
    for (int k = 0; k < COUNT(list); k++)
        APPEND(n.list, n.count, list[k]);
    return n;
}

static Needs needs_of(const Elaborator *e, const Samples *s)
{
    for (int k = s->set.call_count - 1; k > 0; k--)
        if (strcmp(s->set.calls[k].name, "pairs") == 0)
            return needs_of_pairs(e, s, &s->set.calls[k]);
    Needs n = {0};
    for (int k = 0; k < e->model->input_count; k++) {
        NeededColumn one = {e->model->inputs[k].name, k};
        APPEND(n.list, n.count, one);
    }
    return n;
}

static bool has_calls(const DataSet *set, const char *name)
{
    for (int k = 0; k < set->call_count; k++)
        if (strcmp(set->calls[k].name, name) == 0)
            return true;
    return false;
}

/* Checks columns that arguments name: the model must need each. */
static void check_named(const Elaborator *e, const Samples *s, const Needs *needs)
{
    for (int c = 0; c < s->set.column_count; c++) {
        DataColumn *column = &s->set.columns[c];
        const NeededColumn *need = find_need(needs, column->name);
        if (!need)
            unknown_argument(e, s->reader, column->at, column->name);
        column->input = need->input;
    }
}

/* Adds columns that a reader always has, and columns of a table that have the names of inputs. */
static void add_needed(const char *name, const Samples *s, DataSet *set, const Needs *needs)
{
    const Place *at = set->calls[0].at;
    for (int k = 0; k < needs->count; k++) {
        const NeededColumn *need = &needs->list[k];
        bool found = false;
        for (int c = 0; c < set->column_count; c++)
            found |= strcmp(set->columns[c].name, need->name) == 0;
        if (found)
            continue;
        DataColumn column = {.name = need->name, .input = need->input, .at = at};
        if (s->reader->kind == COLUMNS_PATHS)
            error_at(at, "'%s' has no column for the input '%s': give %s(%s = ...)", name, need->name, s->reader->name,
                     need->name);
        if (s->reader->kind == COLUMNS_FIXED && !has_column(s->reader->columns, need->name))
            error_at(at, "'%s' has no column for the input '%s': %s gives %s", name, need->name, s->reader->name,
                     with_commas(s->reader->columns));
        if (s->reader->kind == COLUMNS_OF_TABLE)
            APPEND(column.texts, column.count, need->name);
        APPEND(set->columns, set->column_count, column);
    }
}

/* With names = [...] all columns of the table are known at compile time. */
static void check_names(const DataSet *set)
{
    const DataCall *call = &set->calls[0];
    const char **names = NULL;
    int count = 0;
    for (int k = 0; k < call->option_count; k++)
        for (int i = 0; strcmp(call->options[k].name, "names") == 0 && i < call->options[k].count; i++)
            APPEND(names, count, call->options[k].items[i].text);
    for (int c = 0; count && c < set->column_count; c++)
        for (int t = 0; t < set->columns[c].count; t++) {
            int at = 0;
            while (at < count && strcmp(names[at], set->columns[c].texts[t]) != 0)
                at++;
            if (at == count)
                error_at(set->columns[c].at, "`names` has no column '%s'%s%s", set->columns[c].texts[t],
                         set->columns[c].at == call->at ? " for the input of this name" : "",
                         did_you_mean(set->columns[c].texts[t], names, count));
        }
}

/* Checks that the inputs are sequences of one length, which is that of the windows. */
static void check_windows(const Elaborator *e, const Samples *s)
{
    const Input *first = NULL;
    for (int k = 0; k < e->model->input_count; k++) {
        const Input *in = &e->model->inputs[k];
        if (in->shape.rank != 1)
            error_at(s->set.calls[0].at, "%s gives windows of a sequence: the input '%s' must have one axis, its shape is %s",
                     s->reader->name, in->name, shape_text(&in->shape));
        if (dtype_is_float(in->dtype))
            error_at(s->set.calls[0].at, "%s gives whole numbers: the input '%s' should be class(n)[%s], not %s", s->reader->name,
                     in->name, "t", dtype_name(in->dtype));
        if (first && !shape_equal(&first->shape, &in->shape))
            error_at(s->set.calls[0].at, "%s gives windows of one length: the inputs '%s' and '%s' have %s and %s",
                     s->reader->name, first->name, in->name, shape_text(&first->shape), shape_text(&in->shape));
        first = in;
    }
}

static void bind_columns(Elaborator *e, const char *name, const Samples *s, DataSet *set)
{
    Needs needs = needs_of(e, s);
    check_named(e, s, &needs);
    *set = s->set;
    set->columns = NULL; /* a copy, since other sets may use the same source */
    set->column_count = 0;
    for (int c = 0; c < s->set.column_count; c++)
        APPEND(set->columns, set->column_count, s->set.columns[c]);
    add_needed(name, s, set, &needs);
    if (s->reader->kind == COLUMNS_OF_TABLE)
        check_names(set);
    if (s->reader->windows && !has_calls(set, "pairs"))
        check_windows(e, s);
}

/* ---- the sets of the block */

static const char *const SETS[] = {"train", "valid", "test"};
static const struct {
    const char *word, *set;
} ELSEWHERE[] = {
    /* names of the sets in other systems */
    {"training", "train"}, {"fit", "train"},  {"validation", "valid"}, {"val", "valid"},
    {"dev", "valid"},      {"eval", "valid"}, {"testing", "test"},     {"holdout", "test"},
};

static bool is_set(const char *name)
{
    for (int k = 0; k < COUNT(SETS); k++)
        if (strcmp(SETS[k], name) == 0)
            return true;
    return false;
}

static bool uses(const Tree *t, const char *name)
{
    if (t->kind == TREE_NAME && strcmp(t->text, name) == 0)
        return true;
    for (const Tree *c = t->kind == TREE_NAMES ? NULL : t->first; c; c = c->next)
        if (uses(c, name))
            return true;
    return false;
}

/* Returns a hint that names a missing set with a similar name: "; did you mean 'train'?" */
static const char *similar_set(const Map *locals, const char *name)
{
    const char *missing[COUNT(SETS)];
    int count = 0;
    for (int k = 0; k < COUNT(SETS); k++)
        if (!map_get(locals, SETS[k]))
            missing[count++] = SETS[k];
    for (int k = 0; k < COUNT(ELSEWHERE); k++)
        if (strcmp(ELSEWHERE[k].word, name) == 0 && !map_get(locals, ELSEWHERE[k].set))
            return format("; did you mean '%s'?", ELSEWHERE[k].set);
    return did_you_mean(name, missing, count);
}

/* Reports an unused source if its name is similar to that of a missing set, or if no set exists. */
static void check_sets(Elaborator *e, const Tree *block)
{
    const Map *locals = &e->frame->locals;
    bool any = false;
    for (int k = 0; k < locals->count; k++) {
        const char *name = locals->keys[k];
        const Value *v = locals->values[k];
        any = any || is_set(name);
        if (is_set(name) || v->kind != VALUE_SOURCE || v->samples->decoded || uses(block, name))
            continue;
        const char *near = similar_set(locals, name);
        if (near[0] || !map_get(locals, "train"))
            error_tree(e, maker(block, name), "'%s' is used nowhere: the sets of a program are train, valid and test%s", name,
                       near);
    }
    for (int k = 0; k < COUNT(SETS) && !any; k++)
        any = maker(block, SETS[k]); /* a branch that is not taken may assign it */
    if (!any)
        error_tree(e, e->data_tree,
                   "the data block has no set: write train = ..., and valid or test = ... if there are such data");
}

void run_data(Elaborator *e)
{
    if (!e->data_tree)
        return;
    const Tree *block = e->data_tree->first;
    Frame *before = push_frame(e, FRAME_DATA, block);
    run_block(e, block);
    if (error_count()) { /* after errors, inputs or sets may be missing */
        pop_frame(e, before);
        return;
    }
    check_sets(e, block);
    for (int k = 0; k < COUNT(SETS); k++) {
        const Value *v = map_get(&e->frame->locals, SETS[k]);
        if (!v)
            continue;
        const Tree *made = maker(block, SETS[k]);
        if (v->kind == VALUE_SOURCE && v->samples->decoded)
            error_tree(e, made, "'%s' must be a source of data; decode(...) is for a column: %s", SETS[k],
                       find_row("decode")->usage);
        if (v->kind != VALUE_SOURCE)
            error_tree(e, made, "'%s' must be a source of data such as idx(...), not %s", SETS[k], value_describe(v));
        if (v->samples->later) {
            LaterSet later = {SETS[k], v->samples->later, v->samples->later_line};
            APPEND(e->model->later, e->model->later_count, later);
            e->valid_later = e->valid_later || strcmp(SETS[k], "valid") == 0;
            continue;
        }
        DataSet set = {0};
        bind_columns(e, SETS[k], v->samples, &set);
        set.name = SETS[k];
        APPEND(e->model->sets, e->model->set_count, set);
    }
    pop_frame(e, before);
}

void load_readers(Elaborator *e)
{
    for (const DataRow *r = DATA_ROWS; r->name; r++) {
        Layer *layer = NEW(Layer);
        *layer = (Layer){.kind = LAYER_READER, .name = r->name, .read = call_reader};
        map_set(&e->readers, layer->name, layer);
    }
}
