/* readers.c: the table of readers and stages with their parameters, and the checks of arguments against it. */
#include "dsl/data.h"

#include <math.h>
#include <string.h>

/* clang-format off */
#define CACHE {"cache", ARGUMENT_CHOICE, "ram disk", "disk"}
#define SHUFFLE {"shuffle", ARGUMENT_SHUFFLE, NULL, NULL}
#define ON_BAD {"on_bad", ARGUMENT_CHOICE, "stop skip", NULL}

const DataRow DATA_ROWS[] = {
    {"idx", false, false, COLUMNS_PATHS, "", "idx(image = \"images.gz\", label = \"labels.gz\")", false, 0, 0, {CACHE, SHUFFLE}},
    {"npy", false, false, COLUMNS_PATHS, "", "npy(x = \"x.npy\", label = \"label.npy\")", false, 0, 0, {CACHE, SHUFFLE}},
    {"csv", false, false, COLUMNS_OF_TABLE, "", "csv(\"table.csv\", numeric = [\"age\", \"hours\"], target = \"price\")", false, 1, 1,
     {{"file", ARGUMENT_FILE, NULL, NULL}, {"names", ARGUMENT_TEXTS, NULL, NULL}, {"header", ARGUMENT_SWITCH, NULL, NULL},
      {"missing", ARGUMENT_TEXTS, NULL, NULL}, {"strip", ARGUMENT_TEXT, NULL, NULL}, {"delimiter", ARGUMENT_CHARACTER, NULL, NULL},
      ON_BAD, CACHE, SHUFFLE}},
    {"images", false, false, COLUMNS_FIXED, "image label", "images(\"folder\")", false, 1, 1,
     {{"folder", ARGUMENT_FILE, NULL, NULL}, ON_BAD, CACHE, SHUFFLE}},
    {"cifar", false, false, COLUMNS_FIXED, "image label coarse", "cifar(\"cifar-10-batches-bin\")", false, 1, 1,
     {{"folder", ARGUMENT_FILE, NULL, NULL}, CACHE, SHUFFLE}},
    {"tokens", false, false, COLUMNS_FIXED, "token next", "tokens(\"train.bin\", type = u16)", true, 1, 1,
     {{"file", ARGUMENT_FILE, NULL, NULL}, {"type", ARGUMENT_TYPE, "u8 u16 u32 i32 i64", NULL}, {"stride", ARGUMENT_COUNT, NULL, NULL},
      {"header", ARGUMENT_COUNT, NULL, NULL}, {"vocabulary", ARGUMENT_FILE, NULL, NULL}, CACHE, SHUFFLE}},
    {"characters", false, false, COLUMNS_FIXED, "token next", "characters(\"input.txt\")", true, 1, 1,
     {{"file", ARGUMENT_FILE, NULL, NULL}, {"stride", ARGUMENT_COUNT, NULL, NULL}, CACHE, SHUFFLE}},
    {"text", false, false, COLUMNS_FIXED, "token next", "text(\"corpus.txt\", vocabulary = \"gpt2-vocab\")", true, 2, 1,
     {{"file", ARGUMENT_FILE, NULL, NULL}, {"vocabulary", ARGUMENT_FILE, NULL, NULL}, {"stride", ARGUMENT_COUNT, NULL, NULL}, CACHE,
      SHUFFLE}},
    {"tar", false, true, COLUMNS_PATHS, "", "tar(\"shard-{000..099}.tar\", image = \"jpg\", label = \"cls\")", false, 1, 1,
     {{"file", ARGUMENT_FILE, NULL, NULL}, ON_BAD, CACHE, SHUFFLE}},
    {"mix", false, true, COLUMNS_FIXED, "", "mix([a, b], weights = [3, 1])", false, 0, 0, {{0}}},
    {"part", true, false, COLUMNS_KEPT, "", "part(0, 0.9)", false, 2, 2,
     {{"from", ARGUMENT_SHARE, NULL, NULL}, {"to", ARGUMENT_SHARE, NULL, NULL}}},
    {"pairs", true, false, COLUMNS_PAIRED, "left right same", "pairs(same = 0.5)", false, 0, 1, {{"same", ARGUMENT_SHARE, NULL, NULL}}},
    {"resize", true, false, COLUMNS_KEPT, "", "resize(256)", false, 1, 1, {{"size", ARGUMENT_SIZE, NULL, NULL}}},
    {"center_crop", true, false, COLUMNS_KEPT, "", "center_crop(224)", false, 1, 1, {{"size", ARGUMENT_SIZE, NULL, NULL}}},
    {"random_crop", true, false, COLUMNS_KEPT, "", "random_crop(224)", false, 1, 1, {{"size", ARGUMENT_SIZE, NULL, NULL}}},
    {"random_resized_crop", true, false, COLUMNS_KEPT, "", "random_resized_crop(224, scale = [0.08, 1])", false, 1, 1,
     {{"size", ARGUMENT_SIZE, NULL, NULL}, {"scale", ARGUMENT_RANGE, NULL, NULL}, {"ratio", ARGUMENT_RANGE, NULL, NULL}}},
    {"mixup", true, true, COLUMNS_KEPT, "", "mixup(0.2)", false, 1, 1, {{"alpha", ARGUMENT_NUMBER, NULL, NULL}}},
    {"cutmix", true, true, COLUMNS_KEPT, "", "cutmix(1.0)", false, 1, 1, {{"alpha", ARGUMENT_NUMBER, NULL, NULL}}},
    {"decode", false, false, COLUMNS_FIXED, "", "csv(\"table.csv\", image = decode(\"path\"))", false, 1, 1,
     {{"column", ARGUMENT_TEXT, NULL, NULL}}},
    {.name = NULL},
};
/* clang-format on */

const DataRow *find_row(const char *name)
{
    for (const DataRow *r = DATA_ROWS; r->name; r++)
        if (strcmp(r->name, name) == 0)
            return r;
    die("there is no reader '%s'", name);
}

static int find_input(const Elaborator *e, const char *name)
{
    for (int k = 0; k < e->model->input_count; k++)
        if (strcmp(e->model->inputs[k].name, name) == 0)
            return k;
    return -1;
}

/* ---- values */
static bool has_word(const char *words, const char *word)
{
    size_t length = strlen(word);
    for (const char *at = words; at && length && (at = strstr(at, word)); at += length)
        if ((at == words || at[-1] == ' ') && (at[length] == 0 || at[length] == ' '))
            return true;
    return false;
}

static DataItem number_item(double v) { return (DataItem){NULL, v}; }

static void add_text(DataOption *o, const Place *at, const Value *v, const char *what)
{
    if (v->kind != VALUE_STRING)
        error_at(at, "%s must be a string%s, not %s", what, o->count ? " in every place" : "", value_describe(v));
    DataItem item = {v->text, 0};
    APPEND(o->items, o->count, item);
}

static void add_shuffle(DataOption *o, const Place *at, const Value *v, const char *what)
{
    bool quantity = v->kind == VALUE_QUANTITY && strcmp(v->text, "samples") == 0;
    double n = quantity ? v->d : v->kind == VALUE_NUMBER ? number_of(v) : v->kind == VALUE_BOOL ? (double)v->i : -1;
    if (n < 0 || n != floor(n))
        error_at(at, "%s must be true, false or a number of samples such as 10000samples, not %s", what, value_describe(v));
    APPEND(o->items, o->count, number_item(n));
}

static void add_number(DataOption *o, ArgumentKind kind, const Place *at, const Value *v, const char *what)
{
    double n = v->kind == VALUE_NUMBER ? number_of(v) : 0;
    bool good = v->kind == VALUE_NUMBER && (kind != ARGUMENT_SHARE || (n >= 0 && n <= 1)) &&
                (kind != ARGUMENT_COUNT || (n >= 1 && n == floor(n) && n < 0x1p31));
    if (!good)
        error_at(at, "%s must be %s, not %s", what,
                 kind == ARGUMENT_SHARE   ? "a number from 0 to 1"
                 : kind == ARGUMENT_COUNT ? "a whole number above 0"
                                          : "a number",
                 value_describe(v));
    APPEND(o->items, o->count, number_item(n));
}

/* Returns a hint that names the most similar choice. */
static const char *similar_choice(const Parameter *p, const Value *v)
{
    const char **list = NULL;
    int count = 0;
    if (v->kind != VALUE_STRING)
        return "";
    if (p->kind == ARGUMENT_TYPE && has_word(p->choices, v->text))
        return format("; write %s, without quotes", v->text);
    for (const char *c = p->choices; *c; c += strspn(c, " ")) {
        size_t length = strcspn(c, " ");
        APPEND(list, count, copy_text(c, length));
        c += length;
    }
    return did_you_mean(v->text, list, count);
}

/* Lists the choices for a message: u8, u16; or "ram", "disk". */
static const char *choices_text(const Parameter *p)
{
    const char *quote = p->kind == ARGUMENT_TYPE ? "" : "\"";
    Text t = {0};
    text_add(&t, "%s", quote);
    for (const char *c = p->choices; *c; c++)
        if (*c == ' ')
            text_add(&t, "%s, %s", quote, quote);
        else
            text_add(&t, "%c", *c);
    text_add(&t, "%s", quote);
    return text_take(&t);
}

static DataOption check_value(Elaborator *e, const DataRow *row, const Parameter *p, const Place *at, const Value *v)
{
    DataOption o = {.name = p->name};
    const char *what = format("'%s' of %s", p->name, row->name);
    switch (p->kind) {
    case ARGUMENT_FILE:
    case ARGUMENT_TEXT:
    case ARGUMENT_CHARACTER:
        add_text(&o, at, v, what);
        if (p->kind == ARGUMENT_FILE && !v->text[0])
            error_at(at, "%s is empty: %s", what, row->usage);
        if (p->kind == ARGUMENT_CHARACTER && strlen(v->text) != 1)
            error_at(at, "%s must be one character, not %s", what, value_describe(v));
        break;
    case ARGUMENT_TEXTS:
        if (v->kind != VALUE_LIST)
            add_text(&o, at, v, what);
        for (int k = 0; v->kind == VALUE_LIST && k < v->count; k++)
            add_text(&o, at, v->items[k], what);
        break;
    case ARGUMENT_COUNT:
    case ARGUMENT_SHARE:
    case ARGUMENT_NUMBER: add_number(&o, p->kind, at, v, what); break;
    case ARGUMENT_SIZE:
        for (int k = 0; k < (v->kind == VALUE_LIST ? v->count : 1); k++) {
            const Value *n = v->kind == VALUE_LIST ? v->items[k] : v;
            if (n->kind != VALUE_NUMBER || !(number_of(n) >= 1 && number_of(n) <= 65536) || number_of(n) != floor(number_of(n)) ||
                (v->kind == VALUE_LIST && v->count != 2))
                error_at(at, "%s must be a number of pixels from 1 to 65536 or a list [height, width], not %s", what,
                         v->kind == VALUE_LIST ? value_print(v) : value_describe(v));
            add_number(&o, ARGUMENT_NUMBER, at, n, what);
        }
        break;
    case ARGUMENT_RANGE:
        if (v->kind != VALUE_LIST || v->count != 2 || v->items[0]->kind != VALUE_NUMBER || v->items[1]->kind != VALUE_NUMBER ||
            !(number_of(v->items[0]) > 0) || number_of(v->items[1]) < number_of(v->items[0]))
            error_at(at, "%s must be two numbers [least, most] above 0, not %s", what, value_print(v));
        for (int k = 0; k < 2; k++)
            add_number(&o, ARGUMENT_NUMBER, at, v->items[k], what);
        break;
    case ARGUMENT_SWITCH:
        if (v->kind != VALUE_BOOL)
            error_at(at, "%s must be true or false, not %s", what, value_describe(v));
        APPEND(o.items, o.count, number_item((double)v->i));
        break;
    case ARGUMENT_TYPE:
    case ARGUMENT_CHOICE:
        if (v->kind != (p->kind == ARGUMENT_TYPE ? VALUE_TYPE : VALUE_STRING) || !has_word(p->choices, v->text))
            error_at(at, "%s must be one of %s, not %s%s", what, choices_text(p), value_describe(v), similar_choice(p, v));
        DataItem item = {v->text, 0};
        APPEND(o.items, o.count, item);
        break;
    case ARGUMENT_SHUFFLE: add_shuffle(&o, at, v, what); break;
    }
    if (p->later && v->kind == VALUE_STRING && has_word(p->later, v->text))
        no_data_yet(e, at, format("%s = \"%s\"", p->name, v->text));
    return o;
}

/* Reports an argument that is neither an option nor, where arguments name columns, an input of the model. */
_Noreturn void unknown_argument(const Elaborator *e, const DataRow *row, const Place *at, const char *name)
{
    bool columns = row->kind == COLUMNS_PATHS || row->kind == COLUMNS_OF_TABLE;
    const char **names = NULL;
    int count = 0;
    Text options = {0}, inputs = {0};
    for (int p = 0; p < MOST_PARAMETERS && row->parameters[p].name; p++) {
        text_add(&options, "%s%s", p ? ", " : "", row->parameters[p].name);
        APPEND(names, count, row->parameters[p].name);
    }
    for (int k = 0; columns && k < e->model->input_count; k++) {
        text_add(&inputs, "%s%s", k ? ", " : "", e->model->inputs[k].name);
        APPEND(names, count, e->model->inputs[k].name);
    }
    const char *hint = did_you_mean(name, names, count);
    if (!hint[0])
        hint = columns ? format("; inputs: %s; options: %s", text_of(&inputs), text_of(&options))
                       : format("; it has: %s", text_of(&options));
    if (columns)
        error_at(at, "'%s' is neither an input of the model nor an option of %s%s", name, row->name, hint);
    error_at(at, "'%s' has no parameter '%s'%s", row->name, name, hint);
}

/* ---- columns given by arguments */
static DataColumn path_column(const Elaborator *e, const DataRow *row, const Argument *one)
{
    DataColumn c = {.name = one->name, .input = -1, .at = one->at};
    const Value *v = one->value;
    if (row->later && v->kind == VALUE_LIST)
        return c;
    if (v->kind != VALUE_STRING && find_input(e, one->name) < 0)
        unknown_argument(e, row, one->at, one->name);
    if (v->kind != VALUE_STRING)
        error_at(one->at, "the column '%s' must be the path of a file, not %s", one->name, value_describe(v));
    APPEND(c.texts, c.count, v->text);
    return c;
}

static DataColumn table_column(const Elaborator *e, const DataRow *row, const Argument *one, const char ***decoded,
                               int *decoded_count)
{
    DataColumn c = {.name = one->name, .input = -1, .at = one->at};
    const Value *v = one->value;
    if (v->kind == VALUE_SOURCE && v->samples->decoded) {
        APPEND(c.texts, c.count, v->samples->decoded);
        APPEND(*decoded, *decoded_count, one->name);
        return c;
    }
    bool list = v->kind == VALUE_LIST && v->count > 0;
    for (int k = 0; k < (list ? v->count : 1); k++) {
        const Value *name = list ? v->items[k] : v;
        if (name->kind != VALUE_STRING && find_input(e, one->name) < 0)
            unknown_argument(e, row, one->at, one->name);
        if (name->kind != VALUE_STRING)
            error_at(one->at, "'%s' must be a column of the table, a list of columns or decode(column), not %s", one->name,
                     value_describe(v));
        APPEND(c.texts, c.count, name->text);
    }
    return c;
}

/* ---- a call */
static int find_parameter(const DataRow *row, const char *name)
{
    for (int p = 0; p < MOST_PARAMETERS && row->parameters[p].name; p++)
        if (strcmp(row->parameters[p].name, name) == 0)
            return p;
    return -1;
}

static void add_column(DataSet *set, DataColumn c)
{
    for (int k = 0; k < set->column_count; k++)
        if (strcmp(set->columns[k].name, c.name) == 0)
            error_at(c.at, "the column '%s' is given twice", c.name);
    APPEND(set->columns, set->column_count, c);
}

DataCall check_call(Elaborator *e, const DataRow *row, const Place *at, Arguments a, const Value *piped, DataSet *set,
                    const char ***decoded, int *decoded_count)
{
    DataCall call = {.name = row->name, .at = at};
    const Value *given[MOST_PARAMETERS] = {0};
    const Place *places[MOST_PARAMETERS] = {0};
    bool names_columns = row->kind == COLUMNS_PATHS || row->kind == COLUMNS_OF_TABLE;
    int next = 0;
    if (piped && row->positions == 0)
        error_at(at, "%s takes nothing through |>: %s", row->name, row->usage);
    if (piped) {
        given[next] = piped;
        places[next++] = at;
    }
    for (int k = 0; k < a.count; k++) {
        const Argument *one = &a.list[k];
        int p = one->name ? find_parameter(row, one->name) : next++;
        if (!one->name && p >= row->positions)
            error_at(one->at, "%s%s: %s", row->name,
                     row->positions || !names_columns ? " takes fewer arguments by position" : " names its columns", row->usage);
        if (one->name && names_columns && (p < 0 || find_input(e, one->name) >= 0)) {
            add_column(set,
                       row->kind == COLUMNS_PATHS ? path_column(e, row, one) : table_column(e, row, one, decoded, decoded_count));
            continue;
        }
        if (p < 0)
            unknown_argument(e, row, one->at, one->name);
        if (given[p])
            error_at(one->at, "%s: '%s' is given twice", row->name, row->parameters[p].name);
        given[p] = one->value;
        places[p] = one->at;
    }
    for (int p = 0; p < MOST_PARAMETERS && row->parameters[p].name; p++) {
        if (!given[p] && p < row->needed)
            error_at(at, "%s lacks '%s': %s", row->name, row->parameters[p].name, row->usage);
        if (given[p]) {
            DataOption o = check_value(e, row, &row->parameters[p], places[p], given[p]);
            APPEND(call.options, call.option_count, o);
        }
    }
    return call;
}
