/* data.c: the data block: readers and stages by name, columns bound to inputs. Only idx is read so far; everything
 * else is checked and said to be "not yet". */
#include "dsl/elaborate.h"

#include <string.h>

struct Samples {
    DataSet set;
    const char **names; /* of the columns */
    bool later;         /* a reader or stage that is not there yet: its columns are not known */
};

static const char *const READERS[] = {"idx", "images", "cifar", "tokens", "characters", "text", "csv", "npy", "tar", "mix"};
static const char *const STAGES[] = {"resize", "center_crop", "random_crop", "random_resized_crop", "part", "pairs",
                                     "mixup", "cutmix"};
static const char *const OPTIONS[] = {"cache", "on_bad", "header", "missing", "strip", "delimiter", "stride", "shuffle",
                                      "names", "numeric", "target", "type", "vocabulary", "weights"};

static int find_text(const char *name, const char *const *list, int count)
{
    for (int k = 0; k < count; k++)
        if (strcmp(list[k], name) == 0)
            return k;
    return -1;
}

static Value *source_value(Samples *s)
{
    Value *v = NEW(Value);
    *v = (Value){.kind = VALUE_SOURCE, .samples = s};
    return v;
}

static int find_input(const Elaborator *e, const char *name)
{
    for (int k = 0; k < e->model->input_count; k++)
        if (strcmp(e->model->inputs[k].name, name) == 0)
            return k;
    return -1;
}

static Value *read_idx(Elaborator *e, const Place *at, Arguments a, const Value *piped)
{
    Samples *s = NEW(Samples);
    s->set = (DataSet){.reader = "idx", .at = at};
    if (piped)
        error_at(at, "idx names its columns: idx(image = \"images.gz\", label = \"labels.gz\")");
    for (int k = 0; k < a.count; k++) {
        const Argument *one = &a.list[k];
        if (!one->name)
            error_at(one->at, "idx names its columns: idx(image = \"images.gz\", label = \"labels.gz\")");
        if (find_text(one->name, OPTIONS, COUNT(OPTIONS)) >= 0 && find_input(e, one->name) < 0) {
            not_yet(e, one->at, format("the option '%s'", one->name));
            continue;
        }
        if (one->value->kind != VALUE_STRING)
            error_at(one->at, "the column '%s' must be the path of a file, not %s", one->name, value_describe(one->value));
        SourceColumn c = {.input = find_input(e, one->name), .path = one->value->text, .at = one->at};
        int names = s->set.column_count;
        APPEND(s->names, names, one->name);
        APPEND(s->set.columns, s->set.column_count, c);
    }
    if (s->set.column_count == 0)
        error_at(at, "idx needs a file for each input: idx(image = \"images.gz\")");
    return source_value(s);
}

Value *call_reader(Elaborator *e, const Layer *layer, const Place *at, Arguments a, Value *piped)
{
    const char *name = layer->name;
    if (strcmp(name, "decode") == 0) {
        not_yet(e, at, "decode");
        return value_text("decode");
    }
    if (find_text(name, STAGES, COUNT(STAGES)) >= 0) {
        if (!piped || first_of(piped)->kind != VALUE_SOURCE)
            error_at(at, "'%s' is a stage: it stands behind a reader, as in images(\"train\") |> %s(...)", name, name);
        not_yet(e, at, format("the stage '%s'", name));
        Samples *s = NEW(Samples);
        *s = *first_of(piped)->samples;
        s->later = true;
        return source_value(s);
    }
    if (strcmp(name, "idx") == 0)
        return read_idx(e, at, a, piped);
    not_yet(e, at, format("the reader '%s'", name));
    Samples *s = NEW(Samples);
    *s = (Samples){.set = {.reader = name, .at = at}, .later = true};
    return source_value(s);
}

/* every column an input, every input a column */
static void bind_columns(Elaborator *e, const char *set, const Samples *s)
{
    const Model *m = e->model;
    const char **inputs = NEW_ARRAY(const char *, m->input_count);
    for (int k = 0; k < m->input_count; k++)
        inputs[k] = m->inputs[k].name;
    for (int c = 0; c < s->set.column_count; c++) {
        if (s->set.columns[c].input < 0)
            error_at(s->set.columns[c].at, "'%s' is neither an input of the model nor an option of %s%s", s->names[c],
                     s->set.reader, did_you_mean(s->names[c], inputs, m->input_count));
        for (int d = 0; d < c; d++)
            if (s->set.columns[d].input == s->set.columns[c].input)
                error_at(s->set.columns[c].at, "the column '%s' is given twice", s->names[c]);
    }
    for (int k = 0; k < m->input_count; k++) {
        bool found = false;
        for (int c = 0; c < s->set.column_count; c++)
            found |= s->set.columns[c].input == k;
        if (!found)
            error_at(s->set.at, "'%s' has no column for the input '%s': give %s(%s = ...)", set, m->inputs[k].name,
                     s->set.reader, m->inputs[k].name);
    }
}

void run_data(Elaborator *e)
{
    static const char *const SETS[] = {"train", "valid", "test"};
    if (!e->data_tree)
        return;
    const Tree *block = e->data_tree->first;
    Frame *before = push_frame(e, FRAME_DATA, block);
    run_block(e, block);
    for (int k = 0; k < COUNT(SETS); k++) {
        const Value *v = map_get(&e->frame->locals, SETS[k]);
        if (!v)
            continue;
        if (v->kind != VALUE_SOURCE)
            error_tree(e, e->data_tree, "'%s' must be a source of data such as idx(...), not %s", SETS[k], value_describe(v));
        DataSet set = v->samples->set;
        set.name = SETS[k];
        if (v->samples->later)
            set.columns = NULL, set.column_count = 0;
        else
            bind_columns(e, SETS[k], v->samples);
        APPEND(e->model->sets, e->model->set_count, set);
    }
    pop_frame(e, before);
}

void load_readers(Elaborator *e)
{
    const char *const *const lists[] = {READERS, STAGES, (const char *const[]){"decode"}};
    const int counts[] = {COUNT(READERS), COUNT(STAGES), 1};
    for (int l = 0; l < COUNT(lists); l++)
        for (int k = 0; k < counts[l]; k++) {
            Layer *layer = NEW(Layer);
            *layer = (Layer){.kind = LAYER_READER, .name = lists[l][k]};
            map_set(&e->readers, layer->name, layer);
        }
}
