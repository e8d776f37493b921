/* rows.c: write structures as rows of C tables, by the tables of fields that also describe their text form. A field that the
 * program has, too, gives the member's name there. Rows have designated members, and zeros are left out. */
#include "compiler/base/c_text.h"
#include "compiler/ir/dump_records.h"
#include "compiler/ir/placement.h"
#include "compiler/link/translation_units.h"

#include <ctype.h>
#include <math.h>
#include <string.h>

static const char *c_whole(int64_t v)
{
    return v == INT64_MIN   ? "INT64_MIN"
           : v == INT64_MAX ? "INT64_MAX"
           : v == NO_LABEL  ? "MGPU_NO_LABEL"
                            : format("%lld", (long long)v);
}

static const char *c_number(double v) { return isnan(v) ? "MGPU_NAN" : format("%.17g", v); }

const char *c_tensor(const char *name, Dtype dtype, const Shape *s)
{
    Text t = {0};
    text_add(&t, "{%s, %s, %d, {", c_string(name), c_constant("MGPU_", dtype_name(dtype)), s->rank);
    for (int i = 0; i < s->rank; i++)
        text_add(&t, "%s%lld", i ? ", " : "", (long long)s->extent[i]);
    text_add(&t, "%s}}", s->rank ? "" : "0");
    return text_take(&t);
}

static const char *c_texts(const char *const *texts, int count)
{
    Text t = {0};
    text_add(&t, "(const char *const[]){");
    for (int i = 0; i < count; i++)
        text_add(&t, "%s%s", i ? ", " : "", c_string(texts[i]));
    text_add(&t, "}");
    return text_take(&t);
}

const char *c_ints(const int *list, int count)
{
    Text t = {0};
    text_add(&t, "{");
    for (int i = 0; i < count; i++)
        text_add(&t, "%s%d", i ? ", " : "", list[i]);
    text_add(&t, "}");
    return text_take(&t);
}

static const char *c_items(const DataItem *items, int count)
{
    Text t = {0};
    text_add(&t, "(const mgpu_item[]){");
    for (int i = 0; i < count; i++)
        text_add(&t, "%s{%s, %s}", i ? ", " : "", items[i].text ? c_string(items[i].text) : "NULL",
                 items[i].text ? "0" : c_number(items[i].number));
    text_add(&t, "}");
    return text_take(&t);
}

/* Returns the name that a record begins with. */
static const char *name_of(const mgpu_record *r, const void *base)
{
    for (int i = 0; i < r->field_count; i++)
        if (r->fields[i].kind == MGPU_FIELD_TEXT && !r->fields[i].word)
            return MGPU_MEMBER_OF(char *, base, r->fields[i].at);
    return "";
}

static const char *c_or_null(int64_t v) { return v ? c_whole(v) : NULL; }

/* NULL: it is zero or empty */
static const char *c_value(const mgpu_record *r, const mgpu_field *f, const void *base)
{
    switch (f->kind) {
    case MGPU_FIELD_WHOLE: return c_or_null(MGPU_MEMBER_OF(int64_t, base, f->at));
    case MGPU_FIELD_INT:
    case INDEX: return c_or_null(mgpu_small_member(f, base));
    case MGPU_FIELD_NUMBER:
        return MGPU_MEMBER_OF(double, base, f->at) == 0 ? NULL : c_number(MGPU_MEMBER_OF(double, base, f->at));
    case MGPU_FIELD_FLAG: return MGPU_MEMBER_OF(bool, base, f->at) ? "true" : NULL;
    case MGPU_FIELD_TEXT: return MGPU_MEMBER_OF(char *, base, f->at) ? c_string(MGPU_MEMBER_OF(char *, base, f->at)) : NULL;
    case MGPU_FIELD_CHOICE:
        return mgpu_small_member(f, base) ? c_constant(f->c_words, f->names[mgpu_small_member(f, base)]) : NULL;
    case TYPE: return c_tensor(name_of(r, base), MGPU_MEMBER_OF(Dtype, base, f->at), &MGPU_MEMBER_OF(Shape, base, f->more));
    case SHAPE_OF: return c_tensor("", F32, &MGPU_MEMBER_OF(Shape, base, f->at));
    case QUANTITY: {
        Quantity q = MGPU_MEMBER_OF(Quantity, base, f->at);
        return q.unit == UNIT_NONE ? NULL : format("{%s, %s}", c_number(q.amount), c_constant("MGPU_UNIT_", UNIT_NAME[q.unit]));
    }
    case WORDS:
        return !MGPU_MEMBER_OF(int, base, f->more)
                   ? NULL
                   : c_texts(MGPU_MEMBER_OF(const char *const *, base, f->at), MGPU_MEMBER_OF(int, base, f->more));
    case INDICES:
        return !MGPU_MEMBER_OF(int, base, f->more)
                   ? NULL
                   : format("(const int[])%s", c_ints(MGPU_MEMBER_OF(int *, base, f->at), MGPU_MEMBER_OF(int, base, f->more)));
    case ITEMS:
        return !MGPU_MEMBER_OF(int, base, f->more)
                   ? NULL
                   : c_items(MGPU_MEMBER_OF(DataItem *, base, f->at), MGPU_MEMBER_OF(int, base, f->more));
    case ORDER: {
        int rank = MGPU_MEMBER_OF(Shape, base, f->more).rank;
        return rank > 1 ? c_ints((const int *)((const char *)base + f->at), rank) : NULL;
    }
    case PLACED:
        return placement_is(MGPU_MEMBER_OF(Placement, base, f->at).on[MESH_DATA], PLACEMENT_WORD[f->more].is) ? "true" : NULL;
    case PLACE_OF: return c_or_null(model_line(MGPU_MEMBER_OF(Place *, base, f->at)));
    default: return NULL;
    }
}

void c_members(const mgpu_record *r, const void *base, const char *between, Text *t)
{
    for (int i = 0; i < r->field_count; i++) {
        const mgpu_field *f = &r->fields[i];
        const char *value = f->c ? c_value(r, f, base) : NULL, *count = value ? strchr(f->c, ' ') : NULL;
        if (!value)
            continue;
        text_add(t, ".%.*s = %s%s", (int)strcspn(f->c, " "), f->c, value, between);
        if (count) /* it is a list */
            text_add(t, ".%s = %d%s", count + 1, MGPU_MEMBER_OF(int, base, f->more), between);
    }
}

static void c_rows(const mgpu_record *r, const void *above, const char *before, Text *t)
{
    for (int i = 0; i < MGPU_MEMBER_OF(int, above, r->count); i++) {
        const void *base = MGPU_MEMBER_OF(char *, above, r->list) + (size_t)i * r->size;
        Text row = {0};
        c_members(r, base, ", ", &row);
        for (int k = 0; k < r->below_count; k++) {
            const mgpu_record *below = &r->below[k];
            if (!MGPU_MEMBER_OF(int, base, below->count))
                continue;
            text_add(&row, ".%ss = (const %s[]){", below->word, below->c_type);
            c_rows(below, base, "\n        ", &row);
            text_add(&row, "}, .%s_count = %d, ", below->word, MGPU_MEMBER_OF(int, base, below->count));
        }
        row.length -= row.length ? 2 : 0; /* removes the last comma */
        text_add(t, "%s{%.*s},", before, row.length ? (int)row.length : 1, row.length ? text_of(&row) : "0");
    }
}

void c_table(const mgpu_record *r, const void *above, Text *t, Text *members)
{
    int count = MGPU_MEMBER_OF(int, above, r->count);
    if (!count)
        return;
    text_add(t, "static const %s %s[] = {", r->c_type, r->c_list);
    c_rows(r, above, "\n    ", t);
    text_add(t, "\n};\n\n");
    text_add(members, ".%s = %s,\n    .%s_count = %d,\n    ", r->c_list, r->c_list, r->word, count);
}
