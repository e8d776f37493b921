/* dump_model.c: the model before the graphs of a dump, written and read with the same tables (dump_records.c).
 *
 * In: a Model. Out: one line per record: a word, fields without a word, then each field that does not have its default value as
 * word and value; after ';' the record's place. Records of a record are indented below it. Reading is the inverse. */
#include "compiler/ir/dump_records.h"
#include "compiler/ir/placement.h"

#include <string.h>

/* ---- writing */
static bool order_is_usual(const int *order, int rank)
{
    for (int i = 0; i < rank; i++)
        if (order[i] != i)
            return false;
    return true;
}

static bool is_usual(const mgpu_field *f, const void *base)
{
    switch (f->kind) {
    case TYPE:
    case SHAPE_OF: return false;
    case QUANTITY: return MGPU_MEMBER_OF(Quantity, base, f->at).unit == UNIT_NONE;
    case INDEX: return MGPU_MEMBER_OF(int, base, f->at) == f->usual;
    case WORDS:
    case INDICES:
    case ITEMS: return !MGPU_MEMBER_OF(void *, base, f->at) || !MGPU_MEMBER_OF(int, base, f->more);
    case ORDER: return order_is_usual((const int *)((const char *)base + f->at), MGPU_MEMBER_OF(Shape, base, f->more).rank);
    case PLACE_OF: return true;
    case PLACED: return !placement_is(MGPU_MEMBER_OF(Placement, base, f->at).on[MESH_DATA], PLACEMENT_WORD[f->more].is);
    default: return mgpu_field_is_usual(f, base);
    }
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

static void write_field(const mgpu_field *f, const void *base, Text *t)
{
    if (is_usual(f, base))
        return;
    text_add(t, "%s%s", f->word ? " " : "", f->word ? f->word : "");
    switch (f->kind) {
    case TYPE:
        text_add(t, " : %s%s", dtype_name(MGPU_MEMBER_OF(Dtype, base, f->at)), shape_text(&MGPU_MEMBER_OF(Shape, base, f->more)));
        break;
    case SHAPE_OF: text_add(t, " %s", shape_text(&MGPU_MEMBER_OF(Shape, base, f->at))); break;
    case QUANTITY:
        text_add(t, " ");
        write_number(MGPU_MEMBER_OF(Quantity, base, f->at).amount, t);
        text_add(t, " %s", UNIT_NAME[MGPU_MEMBER_OF(Quantity, base, f->at).unit]);
        break;
    case INDEX: text_add(t, " %d", MGPU_MEMBER_OF(int, base, f->at)); break;
    case WORDS:
        for (int i = 0; i < MGPU_MEMBER_OF(int, base, f->more); i++) {
            text_add(t, " ");
            write_quoted(MGPU_MEMBER_OF(char **, base, f->at)[i], t);
        }
        break;
    case INDICES:
        for (int i = 0; i < MGPU_MEMBER_OF(int, base, f->more); i++)
            text_add(t, " %d", MGPU_MEMBER_OF(int *, base, f->at)[i]);
        break;
    case ORDER:
        for (int i = 0; i < MGPU_MEMBER_OF(Shape, base, f->more).rank; i++)
            text_add(t, "%s%d", i ? ", " : " [", MGPU_MEMBER_OF(int, base, f->at + (size_t)i * sizeof(int)));
        text_add(t, "]");
        break;
    case ITEMS: write_items(MGPU_MEMBER_OF(DataItem *, base, f->at), MGPU_MEMBER_OF(int, base, f->more), t); break;
    default: write_value(f, base, t); break;
    }
}

static void write_records(const Model *m, const mgpu_record *r, const void *above, int indent, Text *t);

static void write_record(const Model *m, const mgpu_record *r, const void *base, int number, int indent, Text *t)
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
    const mgpu_field *last = &r->fields[r->field_count - 1];
    const Place *at = last->kind == PLACE_OF ? MGPU_MEMBER_OF(Place *, base, last->at) : NULL;
    text_add(t, at && at->source ? "  ;" : "");
    write_place(m, at, t);
    text_add(t, "\n");
    for (int i = 0; i < r->below_count; i++)
        write_records(m, &r->below[i], base, indent + 2, t);
}

static void write_records(const Model *m, const mgpu_record *r, const void *above, int indent, Text *t)
{
    if (!r->size)
        write_record(m, r, above, 0, indent, t);
    for (int i = 0; r->size && i < MGPU_MEMBER_OF(int, above, r->count); i++)
        write_record(m, r, MGPU_MEMBER_OF(char *, above, r->list) + (size_t)i * r->size, i, indent, t);
}

/* Writes the columns of predict. They are in the model's first graph of evaluation, which has no other use after `update`. */
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
    for (int i = 0; i < RECORD_COUNT; i++)
        write_records(m, &RECORDS[i], m, 0, t);
    write_outputs(m->eval, t);
}

/* ---- reading */
/* of an index, when all lists are known */
typedef struct IndexCheck {
    mgpu_reader at;
    int value;
    const int *count;
    bool from_one;
} IndexCheck;
typedef struct Checks {
    IndexCheck *list;
    int count;
} Checks;

static void set_usual(const mgpu_field *f, void *base)
{
    mgpu_set_usual(f, base);
    if (f->kind == INDEX)
        MGPU_MEMBER(int, base, f->at) = (int)f->usual;
    for (int i = 0; i < MAX_RANK && f->kind == ORDER; i++)
        MGPU_MEMBER(int, base, f->at + (size_t)i * sizeof(int)) = i;
}

static int read_index(mgpu_reader *d, const mgpu_field *f, Checks *checks)
{
    IndexCheck c = {*d, 0, &MGPU_MEMBER(int, dump_state(d)->model, f->more), f->usual == 0};
    c.value = (int)mgpu_read_integer(d, "an index", c.from_one, INT32_MAX);
    APPEND(checks->list, checks->count, c);
    return c.value;
}

static void read_order(mgpu_reader *d, int *order, const Shape *shape)
{
    mgpu_reader start = *d;
    int count;
    int64_t *list = read_list(d, "an axis", &count);
    unsigned seen = 0;
    for (int i = 0; i < count; i++)
        seen |= list[i] >= 0 && list[i] < MAX_RANK ? 1u << list[i] : 0;
    if (count != shape->rank || seen != (1u << count) - 1)
        mgpu_wrong(&start, "the order does not name each axis of %s once", shape_text(shape));
    for (int i = 0; i < count; i++)
        order[i] = (int)list[i];
}

static void set_count(mgpu_reader *d, const mgpu_field *f, void *base, int count)
{
    int *is = &MGPU_MEMBER(int, base, f->more); /* two lists of one length may share it */
    if (*is && *is != count)
        mgpu_wrong(d, "'%s' has %d values here, %d expected", f->word, count, *is);
    *is = count;
}

/* A list continues while the next word is in quotes, or a number. */
static bool more_items(mgpu_reader *d, bool numbers)
{
    return !mgpu_at_end(d) &&
           (*d->at == '"' || (numbers && (*d->at == '-' || *d->at == '.' || (*d->at >= '0' && *d->at <= '9'))));
}

static const char *value_of(const mgpu_field *f)
{
    Text t = {0};
    if (f->kind == MGPU_FIELD_TEXT)
        return "a name";
    if (f->kind != MGPU_FIELD_CHOICE)
        return f->word ? format("the value of '%s'", f->word) : "a value";
    text_add(&t, "one of:");
    for (int i = 0; i < f->name_count; i++)
        text_add(&t, " %s", f->names[i]);
    return text_take(&t);
}

static void read_field(mgpu_reader *d, const mgpu_field *field, void *base, Checks *checks)
{
    mgpu_field own = *field;
    const mgpu_field *f = &own;
    own.what = value_of(f);
    switch (f->kind) {
    case INDEX: MGPU_MEMBER(int, base, f->at) = read_index(d, f, checks); break;
    case TYPE:
        mgpu_need(d, ":");
        MGPU_MEMBER(Dtype, base, f->at) = (Dtype)mgpu_read_type(d);
        MGPU_MEMBER(Shape, base, f->more) = read_shape(d);
        break;
    case SHAPE_OF: MGPU_MEMBER(Shape, base, f->at) = read_shape(d); break;
    case QUANTITY:
        MGPU_MEMBER(Quantity, base, f->at).amount = mgpu_read_number(d, f->what);
        MGPU_MEMBER(Quantity, base, f->at).unit = (QuantityUnit)mgpu_read_choice(d, "a unit", UNIT_NAME, COUNT(UNIT_NAME));
        break;
    case WORDS: {
        const char **words = NULL;
        int count = 0;
        while (more_items(d, false))
            APPEND(words, count, mgpu_read_name(d, "a text"));
        MGPU_MEMBER(const char **, base, f->at) = words;
        set_count(d, f, base, count);
        break;
    }
    case INDICES: {
        int *list = NULL, count = 0;
        mgpu_field one = {.more = offsetof(Model, variable_count), .usual = -1};
        while (more_items(d, true) && *d->at != '"')
            APPEND(list, count, read_index(d, &one, checks));
        MGPU_MEMBER(int *, base, f->at) = list;
        set_count(d, f, base, count);
        break;
    }
    case ITEMS: {
        DataItem *items = NULL;
        int count = 0;
        while (!mgpu_at_end(d)) {
            DataItem item = {0};
            if (*d->at == '"')
                item.text = mgpu_read_name(d, "a text");
            else
                item.number = mgpu_read_number(d, f->what);
            APPEND(items, count, item);
        }
        MGPU_MEMBER(DataItem *, base, f->at) = items;
        set_count(d, f, base, count);
        break;
    }
    case ORDER: read_order(d, &MGPU_MEMBER(int, base, f->at), &MGPU_MEMBER(Shape, base, f->more)); break;
    case PLACE_OF: break;
    case PLACED: MGPU_MEMBER(Placement, base, f->at).on[MESH_DATA] = PLACEMENT_WORD[f->more].is; break;
    default: mgpu_read_field(d, f, base); break;
    }
}

static const mgpu_field *find_field(const mgpu_record *r, const char *word)
{
    for (int i = 0; i < r->field_count; i++)
        if (r->fields[i].word && strcmp(r->fields[i].word, word) == 0)
            return &r->fields[i];
    return NULL;
}

static void read_fields(mgpu_reader *d, const mgpu_record *r, void *base, Checks *checks)
{
    for (int i = 0; i < r->field_count; i++)
        set_usual(&r->fields[i], base);
    const mgpu_field *last = &r->fields[r->field_count - 1];
    for (int i = 0; i < r->field_count; i++)
        if (!r->fields[i].word && r->fields[i].kind != PLACE_OF)
            read_field(d, &r->fields[i], base, checks);
    while (!mgpu_at_end(d)) {
        mgpu_reader start = *d;
        const char *word = mgpu_read_name(d, "a word"), *names[16];
        const mgpu_field *f = find_field(r, word);
        int count = 0;
        for (int i = 0; i < r->field_count && !f; i++)
            if (r->fields[i].word)
                names[count++] = r->fields[i].word;
        if (!f)
            mgpu_wrong(&start, "'%s' says nothing about '%s'%s", word, r->word, did_you_mean(word, names, count));
        read_field(d, f, base, checks);
    }
    if (mgpu_take(d, ";") && last->kind == PLACE_OF)
        MGPU_MEMBER(const Place *, base, last->at) = read_place(d);
    mgpu_end_record(d);
}

static void read_record(mgpu_reader *d, const mgpu_record *r, void *above, Checks *checks)
{
    if (!r->size) {
        read_fields(d, r, above, checks);
        return;
    }
    int *count = &MGPU_MEMBER(int, above, r->count);
    char **list = &MGPU_MEMBER(char *, above, r->list);
    if (r->numbered) {
        mgpu_reader start = *d;
        if (mgpu_read_integer(d, "a number", 0, INT32_MAX) != *count)
            mgpu_wrong(&start, "expected %s %d: they are numbered from 0", r->word, *count);
    }
    if ((*count & (*count - 1)) == 0) /* as APPEND does */
        *list = grow(*list, r->size * (size_t)*count, r->size * (size_t)(*count ? 2 * *count : 1));
    void *base = *list + (size_t)(*count)++ * r->size;
    read_fields(d, r, base, checks);
    for (bool any = true; any;) {
        any = false;
        for (int i = 0; i < r->below_count && mgpu_next_record(d); i++)
            if (mgpu_take_word(d, r->below[i].word)) {
                read_record(d, &r->below[i], base, checks);
                any = true;
            }
    }
}

static void read_output(mgpu_reader *d)
{
    Graph *eval = dump_state(d)->model->eval;
    const char *name = mgpu_read_name(d, "the name of an output");
    mgpu_need(d, ":");
    Node *value = NEW(Node);
    *value = (Node){.op = OP_CONSTANT, .graph = eval, .dtype = (Dtype)mgpu_read_type(d)};
    value->shape = read_shape(d);
    mgpu_end_record(d);
    graph_add_result(eval, (Result){.role = ROLE_OUTPUT, .name = name, .value = value});
}

static void check_model(mgpu_reader *d, const mgpu_reader *first, const Checks *checks)
{
    Model *m = dump_state(d)->model;
    if (!dtype_is_float(m->precision))
        mgpu_wrong(first, "the precision is %s; f32, f64, bf16 or f16 expected", dtype_name(m->precision));
    for (int i = 0; i < checks->count; i++) {
        const IndexCheck *c = &checks->list[i];
        if (c->value - c->from_one >= *c->count)
            mgpu_wrong(&c->at, "there is no number %d: the model has %d of them", c->value, *c->count);
    }
    for (int i = 0; i < m->initial_count; i++)
        if ((m->initials[i].variables == NULL) != (m->initials[i].names == NULL))
            mgpu_wrong(first, "record %d of 'initial' needs as many names as variables", i);
}

Model *model_read(mgpu_reader *d)
{
    Checks checks = {0};
    Model *m = dump_state(d)->model = NEW(Model);
    mgpu_next_record(d);
    mgpu_reader first = *d;
    m->eval = graph_new(m, "eval", NULL);
    for (int i = 0; i < RECORD_COUNT; i++)
        for (int k = 0; !RECORDS[i].size && k < RECORDS[i].field_count; k++)
            set_usual(&RECORDS[i].fields[k], m);
    for (bool any = true; any && mgpu_next_record(d);) {
        any = false;
        for (int i = 0; i < RECORD_COUNT && !any; i++) {
            any = mgpu_take_word(d, RECORDS[i].word);
            if (any && (i == 0) != (m->name == NULL))
                mgpu_wrong(&first, i ? "expected 'model' and its name before all else" : "a dump holds one model");
            if (any)
                read_record(d, &RECORDS[i], m, &checks);
        }
        if (!any && mgpu_take_word(d, "output")) {
            read_output(d);
            any = true;
        }
    }
    if (!m->name)
        mgpu_wrong(d, "expected 'model' and its name");
    check_model(d, &first, &checks);
    return m;
}
