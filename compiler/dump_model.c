/* dump_model.c: the model ahead of the graphs of a dump, written and read by the same tables.
 *
 * In: a Model. Out: a record per line: a word, what has no word of its own, then each field as its word and its value, where it is
 * not the usual one; after ';' its place. What belongs to a record is indented below it. Or the other way round. */
#include "compiler/dump.h"

#include <string.h>

typedef enum FieldKind {
    WHOLE, INT, SEED, NUMBER, FLAG, WORD, DTYPE, CHOICE, TYPE, SHAPE_OF, QUANTITY, /* a value each; TYPE: Dtype and Shape */
    INDEX,                      /* an int: of the list whose length is said at `more`; none 0: counted from 1 */
    WORDS, INDICES, ITEMS,      /* lists; `more`: their length */
    ORDER,                      /* of the axes of the Shape at `more` */
    PLACE_OF
} FieldKind;
typedef struct Field {
    const char *word;           /* NULL: comes before the fields with words */
    FieldKind kind;
    size_t at, more;            /* of members of the record's structure; INDEX, INDICES: more is of Model */
    int64_t none, least;        /* none: the usual value, which is not written */
    const char *const *names;   /* CHOICE */
    int name_count;
} Field;
typedef struct Record {
    const char *word;
    size_t size, list, count;   /* of a list in the structure above; size 0: fields of that structure itself */
    bool numbered;
    const Field *fields; int field_count;
    const struct Record *below; int below_count;
} Record;

/* ---- the tables */
#define AT(type, member) .at = offsetof(type, member)
#define NAMES(list) .names = list, .name_count = COUNT(list)
#define FIELDS(list) .fields = list, .field_count = COUNT(list)
#define LIST(type, of, items, length) .size = sizeof(type), .list = offsetof(of, items), .count = offsetof(of, length)

static const char *const VARIABLE_KIND[] = {"weight", "state", "optimizer_state", "accumulator", "rounded", "average"};
static const char *const CLIP_KIND[] = {"none", "global_norm", "norm", "value"};
static const char *const AVERAGE_KIND[] = {"none", "ema", "swa"};
static const char *const ON_NAN[] = {"stop", "skip", "ignore"};
static const char *const UNIT[] = {"none", "never", "steps", "epochs", "samples", "seconds", "times", "share"};

static const Field MODEL_FIELDS[] = {
    {NULL, WORD, AT(Model, name)},
    {"file", WORD, AT(Model, file)},
    {"precision", DTYPE, AT(Model, precision), .none = F32},
    {"batch", WHOLE, AT(Model, batch), .none = 1, .least = 1},
    {"accumulate", WHOLE, AT(Model, accumulate), .none = 1, .least = 1},
    {"epochs", WHOLE, AT(Model, epochs)},
    {"steps", WHOLE, AT(Model, steps)},
    {"group", WHOLE, AT(Model, group), .none = 1, .least = 1},
    {"seed", SEED, AT(Model, seed)},
    {"tf32", FLAG, AT(Model, tf32)},
    {"shard_statistics", FLAG, AT(Model, shard_statistics)},
    {"not_yet", INT, AT(Model, not_yet)},
};
static const Field STEP_FIELDS[] = {
    {"clip", CHOICE, AT(Model, clip_kind), NAMES(CLIP_KIND)},
    {"limit", NUMBER, AT(Model, clip)},
    {"on_nan", CHOICE, AT(Model, on_nan), NAMES(ON_NAN)},
    {"average", CHOICE, AT(Model, average), NAMES(AVERAGE_KIND)},
    {"decay", NUMBER, AT(Model, average_decay)},
    {"start", QUANTITY, AT(Model, average_start)},
    {"every", QUANTITY, AT(Model, average_every)},
    {"skipped", INDEX, AT(Model, skipped), .more = offsetof(Model, variable_count), .none = -1},
    {"loss_scale", INDEX, AT(Model, loss_scale), .more = offsetof(Model, variable_count), .none = -1},
    {"scaled_steps", INDEX, AT(Model, scaled_steps), .more = offsetof(Model, variable_count), .none = -1},
};
static const Field RUN_FIELDS[] = {
    {"validate", QUANTITY, AT(Model, validate)},
    {"save", QUANTITY, AT(Model, save)},
    {"patience", QUANTITY, AT(Model, patience)},
    {"keep", WHOLE, AT(Model, keep)},
};
static const Field BEST_FIELDS[] = {
    {"of", WORD, AT(Model, best.metric)},
    {"highest", FLAG, AT(Model, best.highest)},
    {NULL, PLACE_OF, AT(Model, best.at)},
};
static const Field IDENTITY_FIELDS[] = {{"of", WORD, AT(Model, identity)}};
static const Field SOURCES_FIELDS[] = {{"of", WORDS, AT(Model, files), .more = offsetof(Model, file_count)}};
static const Field FIXED_FIELDS[] = {{"of", WORDS, AT(Model, fixed), .more = offsetof(Model, fixed_count)}};
static const Field CLIP_FIELDS[] = {
    {NULL, CHOICE, AT(Clip, kind), .none = -1, NAMES(CLIP_KIND)},
    {"limit", NUMBER, AT(Clip, limit)},
};
static const Field INPUT_FIELDS[] = {
    {NULL, WORD, AT(Input, name)},
    {NULL, TYPE, AT(Input, dtype), .more = offsetof(Input, shape)},
    {"classes", WHOLE, AT(Input, classes)},
    {"ignore", WHOLE, AT(Input, ignore), .none = NO_LABEL, .least = INT32_MIN},
    {"other", WHOLE, AT(Input, other), .none = NO_LABEL, .least = INT32_MIN},
    {NULL, PLACE_OF, AT(Input, at)},
};
static const Field VARIABLE_FIELDS[] = {
    {NULL, CHOICE, AT(Variable, kind), .none = -1, NAMES(VARIABLE_KIND)},
    {NULL, WORD, AT(Variable, name)},
    {NULL, TYPE, AT(Variable, dtype), .more = offsetof(Variable, shape)},
    {"order", ORDER, AT(Variable, order), .more = offsetof(Variable, shape)},
    {"trained", FLAG, AT(Variable, trained)},
    {"partial", FLAG, AT(Variable, partial)},
    {"owner", INDEX, AT(Variable, owner), .more = offsetof(Model, variable_count), .none = -1},
    {"clip", INDEX, AT(Variable, clip), .more = offsetof(Model, clip_count)},
    {NULL, PLACE_OF, AT(Variable, at)},
};
static const Field SETTING_FIELDS[] = {
    {NULL, WORD, AT(Setting, name)},
    {"value", NUMBER, AT(Setting, value)},
    {"text", WORD, AT(Setting, text)},
    {"given", FLAG, AT(Setting, given)},
    {"hidden", FLAG, AT(Setting, hidden)},
    {NULL, PLACE_OF, AT(Setting, at)},
};
static const Field PLATEAU_FIELDS[] = {
    {NULL, INDEX, AT(Plateau, setting), .more = offsetof(Model, setting_count), .none = -1},
    {"factor", NUMBER, AT(Plateau, factor)},
    {"patience", QUANTITY, AT(Plateau, patience)},
    {"of", WORD, AT(Plateau, watch.metric)},
    {"highest", FLAG, AT(Plateau, watch.highest)},
    {NULL, PLACE_OF, AT(Plateau, watch.at)},
};
static const Field INITIAL_FIELDS[] = {
    {"path", WORD, AT(Initial, path)},
    {"pattern", WORD, AT(Initial, pattern)},
    {"array", FLAG, AT(Initial, array)},
    {"variables", INDICES, AT(Initial, variables), .more = offsetof(Initial, variable_count)},
    {"names", WORDS, AT(Initial, names), .more = offsetof(Initial, variable_count)},
    {NULL, PLACE_OF, AT(Initial, at)},
};
static const Field TOLD_FIELDS[] = {
    {NULL, WORD, AT(Told, name)},
    {NULL, WORD, AT(Told, text)},
    {"param", FLAG, AT(Told, param)},
};
static const Field LATER_FIELDS[] = {
    {NULL, WORD, AT(LaterSet, name)},
    {NULL, WORD, AT(LaterSet, what)},
    {"line", INT, AT(LaterSet, line)},
};
static const Field LAYER_FIELDS[] = {
    {NULL, WORD, AT(struct LayerRow, name)},
    {NULL, SHAPE_OF, AT(struct LayerRow, shape)},
    {"parameters", WHOLE, AT(struct LayerRow, parameters)},
    {"flops", NUMBER, AT(struct LayerRow, flops)},
    {NULL, PLACE_OF, AT(struct LayerRow, at)},
};
static const Field SET_FIELDS[] = {{NULL, WORD, AT(DataSet, name)}};
static const Field COLUMN_FIELDS[] = {
    {NULL, WORD, AT(DataColumn, name)},
    {"input", INDEX, AT(DataColumn, input), .more = offsetof(Model, input_count), .none = -1},
    {"of", WORDS, AT(DataColumn, texts), .more = offsetof(DataColumn, count)},
    {NULL, PLACE_OF, AT(DataColumn, at)},
};
static const Field CALL_FIELDS[] = {{NULL, WORD, AT(DataCall, name)}, {NULL, PLACE_OF, AT(DataCall, at)}};
static const Field OPTION_FIELDS[] = {
    {NULL, WORD, AT(DataOption, name)},
    {"is", ITEMS, AT(DataOption, items), .more = offsetof(DataOption, count)},
};
static const Record OPTION_RECORD[] = {{"option", LIST(DataOption, DataCall, options, option_count), FIELDS(OPTION_FIELDS)}};
static const Record SET_RECORDS[] = {
    {"column", LIST(DataColumn, DataSet, columns, column_count), FIELDS(COLUMN_FIELDS)},
    {"call", LIST(DataCall, DataSet, calls, call_count), FIELDS(CALL_FIELDS), .below = OPTION_RECORD, .below_count = COUNT(OPTION_RECORD)},
};
static const Record RECORDS[] = {
    {"model", FIELDS(MODEL_FIELDS)}, /* the first line */
    {"step", FIELDS(STEP_FIELDS)},
    {"run", FIELDS(RUN_FIELDS)},
    {"best", FIELDS(BEST_FIELDS)},
    {"sources", FIELDS(SOURCES_FIELDS)},
    {"identity", FIELDS(IDENTITY_FIELDS)},
    {"clip", LIST(Clip, Model, clips, clip_count), FIELDS(CLIP_FIELDS)},
    {"input", LIST(Input, Model, inputs, input_count), .numbered = true, FIELDS(INPUT_FIELDS)},
    {"variable", LIST(Variable, Model, variables, variable_count), .numbered = true, FIELDS(VARIABLE_FIELDS)},
    {"setting", LIST(Setting, Model, settings, setting_count), .numbered = true, FIELDS(SETTING_FIELDS)},
    {"plateau", LIST(Plateau, Model, plateaus, plateau_count), FIELDS(PLATEAU_FIELDS)},
    {"initial", LIST(Initial, Model, initials, initial_count), FIELDS(INITIAL_FIELDS)},
    {"set", LIST(DataSet, Model, sets, set_count), FIELDS(SET_FIELDS), .below = SET_RECORDS, .below_count = COUNT(SET_RECORDS)},
    {"later", LIST(LaterSet, Model, later, later_count), FIELDS(LATER_FIELDS)},
    {"layer", LIST(struct LayerRow, Model, layers, layer_count), FIELDS(LAYER_FIELDS)},
    {"told", LIST(Told, Model, told, told_count), FIELDS(TOLD_FIELDS)},
    {"fixed", FIELDS(FIXED_FIELDS)},
};

/* a member of a structure */
#define MEMBER(type, base, at) (*(type *)((char *)(base) + (at)))
#define MEMBER_OF(type, base, at) (*(type const *)((const char *)(base) + (at)))

/* ---- writing */
static bool order_is_usual(const int *order, int rank)
{
    for (int i = 0; i < rank; i++)
        if (order[i] != i)
            return false;
    return true;
}

static bool is_usual(const Field *f, const void *base)
{
    switch (f->kind) {
    case WHOLE: return MEMBER_OF(int64_t, base, f->at) == f->none;
    case SEED: return MEMBER_OF(uint64_t, base, f->at) == 0;
    case INT: case CHOICE: case DTYPE: case INDEX: return MEMBER_OF(int, base, f->at) == f->none;
    case NUMBER: return memcmp((const char *)base + f->at, &(double){0}, sizeof(double)) == 0;
    case FLAG: return !MEMBER_OF(bool, base, f->at);
    case WORD: return !MEMBER_OF(char *, base, f->at) && f->word;
    case TYPE: case SHAPE_OF: return false;
    case QUANTITY: return MEMBER_OF(Quantity, base, f->at).unit == UNIT_NONE;
    case WORDS: case INDICES: case ITEMS: return !MEMBER_OF(void *, base, f->at) || !MEMBER_OF(int, base, f->more);
    case ORDER: return order_is_usual((const int *)((const char *)base + f->at), MEMBER_OF(Shape, base, f->more).rank);
    case PLACE_OF: return true;
    }
    return true;
}

static void write_items(const DataItem *items, int count, Text *t)
{
    for (int i = 0; i < count; i++) {
        text_add(t, " ");
        if (items[i].text)
            write_quoted(items[i].text, t);
        else
            write_number(items[i].number, t);
    }
}

static void write_field(const Field *f, const void *base, Text *t)
{
    if (is_usual(f, base))
        return;
    text_add(t, "%s%s", f->word ? " " : "", f->word ? f->word : "");
    text_add(t, f->kind == TYPE ? " : " : f->kind == FLAG || f->kind == WORDS || f->kind == ITEMS || f->kind == INDICES ? "" : " ");
    switch (f->kind) {
    case WHOLE: text_add(t, "%lld", (long long)MEMBER_OF(int64_t, base, f->at)); break;
    case SEED: text_add(t, "%llu", (unsigned long long)MEMBER_OF(uint64_t, base, f->at)); break;
    case INT: case INDEX: text_add(t, "%d", MEMBER_OF(int, base, f->at)); break;
    case NUMBER: write_number(MEMBER_OF(double, base, f->at), t); break;
    case WORD: write_quoted(MEMBER_OF(char *, base, f->at) ? MEMBER_OF(char *, base, f->at) : "", t); break;
    case DTYPE: text_add(t, "%s", dtype_name(MEMBER_OF(Dtype, base, f->at))); break;
    case CHOICE: text_add(t, "%s", f->names[MEMBER_OF(int, base, f->at)]); break;
    case TYPE: text_add(t, "%s%s", dtype_name(MEMBER_OF(Dtype, base, f->at)), shape_text(&MEMBER_OF(Shape, base, f->more))); break;
    case SHAPE_OF: text_add(t, "%s", shape_text(&MEMBER_OF(Shape, base, f->at))); break;
    case QUANTITY:
        write_number(MEMBER_OF(Quantity, base, f->at).amount, t);
        text_add(t, " %s", UNIT[MEMBER_OF(Quantity, base, f->at).unit]);
        break;
    case WORDS:
        for (int i = 0; i < MEMBER_OF(int, base, f->more); i++) {
            text_add(t, " ");
            write_quoted(MEMBER_OF(char **, base, f->at)[i], t);
        }
        break;
    case INDICES:
        for (int i = 0; i < MEMBER_OF(int, base, f->more); i++)
            text_add(t, " %d", MEMBER_OF(int *, base, f->at)[i]);
        break;
    case ORDER:
        for (int i = 0; i < MEMBER_OF(Shape, base, f->more).rank; i++)
            text_add(t, "%s%d", i ? ", " : "[", MEMBER_OF(int, base, f->at + (size_t)i * sizeof(int)));
        text_add(t, "]");
        break;
    case ITEMS: write_items(MEMBER_OF(DataItem *, base, f->at), MEMBER_OF(int, base, f->more), t); break;
    case FLAG: case PLACE_OF: break;
    }
}

static void write_records(const Model *m, const Record *r, const void *above, int indent, Text *t);

static void write_record(const Model *m, const Record *r, const void *base, int number, int indent, Text *t)
{
    bool any = r->size || strcmp(r->word, "model") == 0;
    for (int i = 0; i < r->field_count; i++)
        any = any || !is_usual(&r->fields[i], base);
    if (!any)
        return;
    text_add(t, "%*s%s", indent, "", r->word);
    if (r->numbered)
        text_add(t, " %d", number);
    for (int i = 0; i < r->field_count; i++)
        write_field(&r->fields[i], base, t);
    const Field *last = &r->fields[r->field_count - 1];
    const Place *at = last->kind == PLACE_OF ? MEMBER_OF(Place *, base, last->at) : NULL;
    text_add(t, at && at->source ? "  ;" : "");
    write_place(m, at, t);
    text_add(t, "\n");
    for (int i = 0; i < r->below_count; i++)
        write_records(m, &r->below[i], base, indent + 2, t);
}

static void write_records(const Model *m, const Record *r, const void *above, int indent, Text *t)
{
    if (!r->size)
        write_record(m, r, above, 0, indent, t);
    for (int i = 0; r->size && i < MEMBER_OF(int, above, r->count); i++)
        write_record(m, r, MEMBER_OF(char *, above, r->list) + (size_t)i * r->size, i, indent, t);
}

/* what predict writes: described by the model's first graph of evaluation, which has no other use after `update` */
static void write_outputs(const Graph *eval, Text *t)
{
    for (int i = 0; eval && i < eval->result_count; i++)
        if (eval->results[i].role == ROLE_OUTPUT) {
            text_add(t, "output ");
            write_quoted(eval->results[i].name, t);
            text_add(t, " : %s%s\n", dtype_name(eval->results[i].value->dtype), shape_text(&eval->results[i].value->shape));
        }
}

void model_write(const Model *m, Text *t)
{
    for (int i = 0; i < COUNT(RECORDS); i++)
        write_records(m, &RECORDS[i], m, 0, t);
    write_outputs(m->eval, t);
}

/* ---- reading */
typedef struct Check { Dump at; int value; const int *count; bool from_one; } Check; /* of an index, once all lists are there */
typedef struct Checks { Check *list; int count; } Checks;

static void set_usual(const Field *f, void *base)
{
    switch (f->kind) {
    case WHOLE: MEMBER(int64_t, base, f->at) = f->none; break;
    case INT: case INDEX: case DTYPE: MEMBER(int, base, f->at) = (int)f->none; break;
    case CHOICE: MEMBER(int, base, f->at) = f->none > 0 ? (int)f->none : 0; break;
    case ORDER:
        for (int i = 0; i < MAX_RANK; i++)
            MEMBER(int, base, f->at + (size_t)i * sizeof(int)) = i;
        break;
    default: break;
    }
}

static int read_index(Dump *d, const Field *f, Checks *checks)
{
    Check c = {*d, 0, &MEMBER(int, d->model, f->more), f->none == 0};
    c.value = (int)read_whole(d, "an index", c.from_one, INT32_MAX);
    APPEND(checks->list, checks->count, c);
    return c.value;
}

static void read_order(Dump *d, int *order, const Shape *shape)
{
    Dump start = *d;
    int count;
    int64_t *list = read_list(d, "an axis", &count);
    unsigned seen = 0;
    for (int i = 0; i < count; i++)
        seen |= list[i] >= 0 && list[i] < MAX_RANK ? 1u << list[i] : 0;
    if (count != shape->rank || seen != (1u << count) - 1)
        wrong(&start, "the order does not name each axis of %s once", shape_text(shape));
    for (int i = 0; i < count; i++)
        order[i] = (int)list[i];
}

static void set_count(Dump *d, const Field *f, void *base, int count)
{
    int *is = &MEMBER(int, base, f->more); /* two lists of one length may share it */
    if (*is && *is != count)
        wrong(d, "'%s' has %d values here, %d expected", f->word, count, *is);
    *is = count;
}

/* a list goes on as long as the next word is in quotes, or a number */
static bool more_items(Dump *d, bool numbers)
{
    return !at_end(d) && (*d->at == '"' || (numbers && (*d->at == '-' || *d->at == '.' || (*d->at >= '0' && *d->at <= '9'))));
}

static const char *one_of(const Field *f)
{
    Text t = {0};
    text_add(&t, "one of:");
    for (int i = 0; i < f->name_count; i++)
        text_add(&t, " %s", f->names[i]);
    return text_take(&t);
}

static void read_field(Dump *d, const Field *f, void *base, Checks *checks)
{
    const char *what = f->word ? format("the value of '%s'", f->word) : "a value";
    switch (f->kind) {
    case WHOLE: MEMBER(int64_t, base, f->at) = read_whole(d, what, f->least, INT64_MAX); break;
    case SEED: MEMBER(uint64_t, base, f->at) = (uint64_t)read_whole(d, what, 0, INT64_MAX); break;
    case INT: MEMBER(int, base, f->at) = (int)read_whole(d, what, 0, INT32_MAX); break;
    case INDEX: MEMBER(int, base, f->at) = read_index(d, f, checks); break;
    case NUMBER: MEMBER(double, base, f->at) = read_number(d, what); break;
    case FLAG: MEMBER(bool, base, f->at) = true; break;
    case WORD: MEMBER(const char *, base, f->at) = read_word(d, "a name"); break;
    case DTYPE: MEMBER(Dtype, base, f->at) = read_dtype(d); break;
    case CHOICE: MEMBER(int, base, f->at) = read_choice(d, one_of(f), f->names, f->name_count); break;
    case TYPE:
        need(d, ":");
        MEMBER(Dtype, base, f->at) = read_dtype(d);
        MEMBER(Shape, base, f->more) = read_shape(d);
        break;
    case SHAPE_OF: MEMBER(Shape, base, f->at) = read_shape(d); break;
    case QUANTITY:
        MEMBER(Quantity, base, f->at).amount = read_number(d, what);
        MEMBER(Quantity, base, f->at).unit = (QuantityUnit)read_choice(d, "a unit", UNIT, COUNT(UNIT));
        break;
    case WORDS: {
        const char **words = NULL;
        int count = 0;
        while (more_items(d, false))
            APPEND(words, count, read_word(d, "a text"));
        MEMBER(const char **, base, f->at) = words;
        set_count(d, f, base, count);
        break;
    }
    case INDICES: {
        int *list = NULL, count = 0;
        Field one = {.more = offsetof(Model, variable_count), .none = -1};
        while (more_items(d, true) && *d->at != '"')
            APPEND(list, count, read_index(d, &one, checks));
        MEMBER(int *, base, f->at) = list;
        set_count(d, f, base, count);
        break;
    }
    case ITEMS: {
        DataItem *items = NULL;
        int count = 0;
        while (!at_end(d)) {
            DataItem item = {0};
            if (*d->at == '"')
                item.text = read_word(d, "a text");
            else
                item.number = read_number(d, what);
            APPEND(items, count, item);
        }
        MEMBER(DataItem *, base, f->at) = items;
        set_count(d, f, base, count);
        break;
    }
    case ORDER: read_order(d, &MEMBER(int, base, f->at), &MEMBER(Shape, base, f->more)); break;
    case PLACE_OF: break;
    }
}

static const Field *find_field(const Record *r, const char *word)
{
    for (int i = 0; i < r->field_count; i++)
        if (r->fields[i].word && strcmp(r->fields[i].word, word) == 0)
            return &r->fields[i];
    return NULL;
}

static void read_fields(Dump *d, const Record *r, void *base, Checks *checks)
{
    for (int i = 0; i < r->field_count; i++)
        set_usual(&r->fields[i], base);
    const Field *last = &r->fields[r->field_count - 1];
    for (int i = 0; i < r->field_count; i++)
        if (!r->fields[i].word && r->fields[i].kind != PLACE_OF)
            read_field(d, &r->fields[i], base, checks);
    while (!at_end(d)) {
        Dump start = *d;
        const char *word = read_word(d, "a word"), *names[16];
        const Field *f = find_field(r, word);
        int count = 0;
        for (int i = 0; i < r->field_count && !f; i++)
            if (r->fields[i].word)
                names[count++] = r->fields[i].word;
        if (!f)
            wrong(&start, "'%s' says nothing about '%s'%s", word, r->word, did_you_mean(word, names, count));
        read_field(d, f, base, checks);
    }
    if (take_text(d, ";") && last->kind == PLACE_OF)
        MEMBER(const Place *, base, last->at) = read_place(d);
    end_record(d);
}

static void read_record(Dump *d, const Record *r, void *above, Checks *checks)
{
    if (!r->size) {
        read_fields(d, r, above, checks);
        return;
    }
    int *count = &MEMBER(int, above, r->count);
    char **list = &MEMBER(char *, above, r->list);
    if (r->numbered) {
        Dump start = *d;
        if (read_whole(d, "a number", 0, INT32_MAX) != *count)
            wrong(&start, "expected %s %d: they are numbered from 0", r->word, *count);
    }
    if ((*count & (*count - 1)) == 0) /* as APPEND does */
        *list = grow(*list, r->size * (size_t)*count, r->size * (size_t)(*count ? 2 * *count : 1));
    void *base = *list + (size_t)(*count)++ * r->size;
    read_fields(d, r, base, checks);
    for (bool any = true; any;) {
        any = false;
        for (int i = 0; i < r->below_count && next_record(d); i++)
            if (take_word(d, r->below[i].word)) {
                read_record(d, &r->below[i], base, checks);
                any = true;
            }
    }
}

static void read_output(Dump *d)
{
    Graph *eval = d->model->eval;
    const char *name = read_word(d, "the name of an output");
    need(d, ":");
    Node *value = NEW(Node);
    *value = (Node){.op = OP_CONSTANT, .graph = eval, .dtype = read_dtype(d)};
    value->shape = read_shape(d);
    end_record(d);
    graph_add_result(eval, (Result){.role = ROLE_OUTPUT, .name = name, .value = value});
}

static void check_model(Dump *d, const Dump *first, const Checks *checks)
{
    Model *m = d->model;
    if (!dtype_is_float(m->precision))
        wrong(first, "the precision is %s; f32, f64, bf16 or f16 expected", dtype_name(m->precision));
    for (int i = 0; i < checks->count; i++) {
        const Check *c = &checks->list[i];
        if (c->value - c->from_one >= *c->count)
            wrong(&c->at, "there is no number %d: the model has %d of them", c->value, *c->count);
    }
    for (int i = 0; i < m->initial_count; i++)
        if ((m->initials[i].variables == NULL) != (m->initials[i].names == NULL))
            wrong(first, "record %d of 'initial' needs as many names as variables", i);
}

Model *model_read(Dump *d)
{
    Checks checks = {0};
    Model *m = d->model = NEW(Model);
    next_record(d);
    Dump first = *d;
    m->eval = graph_new(m, "eval", NULL);
    for (int i = 0; i < COUNT(RECORDS); i++)
        for (int k = 0; !RECORDS[i].size && k < RECORDS[i].field_count; k++)
            set_usual(&RECORDS[i].fields[k], m);
    for (bool any = true; any && next_record(d);) {
        any = false;
        for (int i = 0; i < COUNT(RECORDS) && !any; i++) {
            any = take_word(d, RECORDS[i].word);
            if (any && (i == 0) != (m->name == NULL))
                wrong(&first, i ? "expected 'model' and its name before all else" : "a dump holds one model");
            if (any)
                read_record(d, &RECORDS[i], m, &checks);
        }
        if (!any && take_word(d, "output")) {
            read_output(d);
            any = true;
        }
    }
    if (!m->name)
        wrong(d, "expected 'model' and its name");
    check_model(d, &first, &checks);
    return m;
}
