/* records.c: writes records by tables of their fields. */
#include "compiler/base/records.h"

#include <stdlib.h>
#include <string.h>

/* ---- writing */
void write_name(const char *name, Text *t)
{
    if (is_bare_word(name))
        text_add(t, "%s", name);
    else
        write_quoted(name, t);
}

void write_number(double v, Text *t)
{
    char text[40];
    for (int digits = 6; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, v);
        if (digits == 17 || v != v || strtod(text, NULL) == v)
            break;
    }
    text_add(t, "%s", v != v ? "nan" : text);
}

bool field_is_usual(const mgpu_field *f, const void *base)
{
    switch (f->word ? f->kind : -1) {
    case MGPU_FIELD_WHOLE:
        return MGPU_MEMBER_OF(int64_t, base, f->at) == f->usual;
    case MGPU_FIELD_INT:
    case MGPU_FIELD_TYPE:
    case MGPU_FIELD_CHOICE:
    case MGPU_FIELD_TYPE_OR_NONE:
        return mgpu_small_member(f, base) == f->usual;
    case MGPU_FIELD_NUMBER:
        return memcmp((const char *)base + f->at, &(double){0}, sizeof(double)) == 0;
    case MGPU_FIELD_AMOUNT:
        return MGPU_MEMBER_OF(double, base, f->at) < 1;
    case MGPU_FIELD_FLAG:
        return !MGPU_MEMBER_OF(bool, base, f->at);
    case MGPU_FIELD_NAME:
    case MGPU_FIELD_TEXT:
        return !MGPU_MEMBER_OF(char *, base, f->at);
    case MGPU_FIELD_NAMES:
        return !MGPU_MEMBER_OF(void *, base, f->at) || !MGPU_MEMBER_OF(int, base, f->more);
    default:
        return false;
    }
}

static void write_text(const char *text, Text *t)
{
    text_add(t, " ");
    write_quoted(text ? text : "", t);
}

void write_value(const mgpu_field *f, const void *base, Text *t)
{
    switch (f->kind) {
    case MGPU_FIELD_WHOLE:
        text_add(t, " %lld", (long long)MGPU_MEMBER_OF(int64_t, base, f->at));
        break;
    case MGPU_FIELD_INT:
        text_add(t, " %d", mgpu_small_member(f, base));
        break;
    case MGPU_FIELD_NUMBER:
        text_add(t, " ");
        write_number(MGPU_MEMBER_OF(double, base, f->at), t);
        break;
    case MGPU_FIELD_TIME:
        text_add(t, " %.1f", MGPU_MEMBER_OF(double, base, f->at));
        break;
    case MGPU_FIELD_TIMES:
        for (int i = 0; i < f->name_count; i++)
            text_add(t, " %.1f", MGPU_MEMBER_OF(double, base, f->at + (size_t)i * sizeof(double)));
        break;
    case MGPU_FIELD_SHARE:
        text_add(t, " %.4f", MGPU_MEMBER_OF(double, base, f->at));
        break;
    case MGPU_FIELD_AMOUNT:
        text_add(t, " %.0f", MGPU_MEMBER_OF(double, base, f->at));
        break;
    case MGPU_FIELD_NAME:
        text_add(t, " ");
        write_name(MGPU_MEMBER_OF(char *, base, f->at), t);
        break;
    case MGPU_FIELD_TEXT:
        write_text(MGPU_MEMBER_OF(char *, base, f->at), t);
        break;
    case MGPU_FIELD_NAMES:
        for (int i = 0; i < MGPU_MEMBER_OF(int, base, f->more); i++) {
            text_add(t, " ");
            write_name(MGPU_MEMBER_OF(char **, base, f->at)[i], t);
        }
        break;
    case MGPU_FIELD_TYPE:
        text_add(t, " %s", mgpu_dtype_names[mgpu_small_member(f, base)]);
        break;
    case MGPU_FIELD_TYPE_OR_NONE:
        text_add(t, " %s", mgpu_dtype_names[mgpu_small_member(f, base) - 1]);
        break;
    case MGPU_FIELD_CHOICE:
        text_add(t, " %s", f->names[mgpu_small_member(f, base)]);
        break;
    case MGPU_FIELD_DIGEST:
        text_add(t, " %08x", (unsigned)MGPU_MEMBER_OF(uint32_t, base, f->at));
        break;
    default:
        break;
    }
}

/* Returns true if a usual value must be written because a field within it has another one. */
static bool has_within(const mgpu_record *r, int field, const void *base)
{
    bool any = false;
    for (int i = field + 1; r->fields[field].usual >= r->fields[field].least && i < r->field_count && r->fields[i].within; i++)
        any = any || !field_is_usual(&r->fields[i], base);
    return any;
}

void write_fields(const mgpu_record *r, const void *base, WriteSpecial *special, const void *context, Text *t)
{
    bool before = false;
    for (int i = 0; i < r->field_count; i++) {
        const mgpu_field *f = &r->fields[i];
        if (f->kind >= MGPU_FIELD_KINDS) {
            special(f, base, context, t);
            continue;
        }
        bool said =
            f->within ? before && !field_is_usual(f, base) : !f->optional || !field_is_usual(f, base) || has_within(r, i, base);
        before = f->within ? before : said;
        if (!said)
            continue;
        if (f->word)
            text_add(t, " %s", f->word);
        write_value(f, base, t);
    }
}

/* ---- reading */
Place reader_place(const mgpu_reader *r)
{
    return (Place){.source = r->memory, .line = r->line, .column = (int)(r->at - r->line_start) + 1};
}

static _Noreturn void say_wrong(const mgpu_reader *r, const char *message)
{
    Place at = reader_place(r);
    error_at(&at, "%s", message);
}

static void *allocate_there(void *source, size_t bytes)
{
    (void)source;
    return allocate(bytes);
}

mgpu_reader text_reader(Source *source)
{
    return (mgpu_reader){.at = source->text,
                         .line_start = source->text,
                         .line = 1,
                         .wrong = say_wrong,
                         .allocate = allocate_there,
                         .memory = source};
}
