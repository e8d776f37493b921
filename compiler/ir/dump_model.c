/* dump_model.c: the model before the graphs of a dump, written and read by the same tables (dump_records.c).
 *
 * In: a Model. Out: a record per line: a word, what has no word of its own, then each field as its word and its value, where it is
 * not the usual one; after ';' its place. What belongs to a record is indented below it. Or the other way round. */
#include "compiler/ir/dump_records.h"

#include <string.h>

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
        text_add(t, " %s", UNIT_NAME[MEMBER_OF(Quantity, base, f->at).unit]);
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
    for (int i = 0; i < RECORD_COUNT; i++)
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
        MEMBER(Quantity, base, f->at).unit = (QuantityUnit)read_choice(d, "a unit", UNIT_NAME, COUNT(UNIT_NAME));
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
    for (int i = 0; i < RECORD_COUNT; i++)
        for (int k = 0; !RECORDS[i].size && k < RECORDS[i].field_count; k++)
            set_usual(&RECORDS[i].fields[k], m);
    for (bool any = true; any && next_record(d);) {
        any = false;
        for (int i = 0; i < RECORD_COUNT && !any; i++) {
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
