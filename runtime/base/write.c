/* write.c: write structures as records of a text, by the tables that are also used to read them (records.h). */
#include "runtime/base/records.h"
#include "runtime/base/terminal.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

void mgpu_write(mgpu_writer *w, const char *pattern, ...)
{
    char small[512];
    va_list arguments, again;
    va_start(arguments, pattern);
    va_copy(again, arguments);
    int length = vsnprintf(small, sizeof small, pattern, arguments);
    va_end(arguments);
    if (length >= (int)sizeof small) {
        char *large = mgpu_vformat(pattern, again);
        w->put(w->to, large, strlen(large));
        free(large);
    } else if (length > 0) {
        w->put(w->to, small, (size_t)length);
    }
    va_end(again);
}

static void put_file(void *file, const char *bytes, size_t count) { fwrite(bytes, 1, count, file); }

mgpu_writer mgpu_file_writer(FILE *f) { return (mgpu_writer){put_file, f}; }

bool mgpu_is_bare_word(const char *name)
{
    const char *end = name;
    while (mgpu_is_bare(*end))
        end++;
    return *name && !*end;
}

void mgpu_write_quoted(const char *name, mgpu_writer *w)
{
    mgpu_write(w, "\"");
    while (*name) {
        uint32_t code;
        const char *end = name + mgpu_control(name, &code);
        for (; name < end; name++)
            mgpu_write(w, "\\x%02x", (unsigned char)*name);
        if (!*name || mgpu_control(name, &code))
            continue;
        mgpu_write(w, *name == '"' || *name == '\\' ? "\\" : "");
        end += mgpu_utf8(name, &code);
        w->put(w->to, name, (size_t)(end - name));
        name = end;
    }
    mgpu_write(w, "\"");
}

void mgpu_write_name(const char *name, mgpu_writer *w)
{
    if (mgpu_is_bare_word(name))
        mgpu_write(w, "%s", name);
    else
        mgpu_write_quoted(name, w);
}

void mgpu_write_number(double v, mgpu_writer *w)
{
    char text[40];
    for (int digits = 6; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, v);
        if (digits == 17 || v != v || strtod(text, NULL) == v)
            break;
    }
    mgpu_write(w, "%s", v != v ? "nan" : text);
}

bool mgpu_field_is_usual(const mgpu_field *f, const void *base)
{
    switch (f->word ? f->kind : -1) {
    case MGPU_FIELD_WHOLE: return MGPU_MEMBER_OF(int64_t, base, f->at) == f->usual;
    case MGPU_FIELD_INT:
    case MGPU_FIELD_TYPE:
    case MGPU_FIELD_CHOICE:
    case MGPU_FIELD_TYPE_OR_NONE: return mgpu_small_member(f, base) == f->usual;
    case MGPU_FIELD_NUMBER: return memcmp((const char *)base + f->at, &(double){0}, sizeof(double)) == 0;
    case MGPU_FIELD_AMOUNT: return MGPU_MEMBER_OF(double, base, f->at) < 1;
    case MGPU_FIELD_FLAG: return !MGPU_MEMBER_OF(bool, base, f->at);
    case MGPU_FIELD_NAME:
    case MGPU_FIELD_TEXT: return !MGPU_MEMBER_OF(char *, base, f->at);
    case MGPU_FIELD_NAMES: return !MGPU_MEMBER_OF(void *, base, f->at) || !MGPU_MEMBER_OF(int, base, f->more);
    default: return false;
    }
}

static void write_text(const char *text, mgpu_writer *w)
{
    mgpu_write(w, " ");
    mgpu_write_quoted(text ? text : "", w);
}

void mgpu_write_value(const mgpu_field *f, const void *base, mgpu_writer *w)
{
    switch (f->kind) {
    case MGPU_FIELD_WHOLE: mgpu_write(w, " %lld", (long long)MGPU_MEMBER_OF(int64_t, base, f->at)); break;
    case MGPU_FIELD_INT: mgpu_write(w, " %d", mgpu_small_member(f, base)); break;
    case MGPU_FIELD_NUMBER:
        mgpu_write(w, " ");
        mgpu_write_number(MGPU_MEMBER_OF(double, base, f->at), w);
        break;
    case MGPU_FIELD_TIME: mgpu_write(w, " %.1f", MGPU_MEMBER_OF(double, base, f->at)); break;
    case MGPU_FIELD_TIMES:
        for (int i = 0; i < f->name_count; i++)
            mgpu_write(w, " %.1f", MGPU_MEMBER_OF(double, base, f->at + (size_t)i * sizeof(double)));
        break;
    case MGPU_FIELD_SHARE: mgpu_write(w, " %.4f", MGPU_MEMBER_OF(double, base, f->at)); break;
    case MGPU_FIELD_AMOUNT: mgpu_write(w, " %.0f", MGPU_MEMBER_OF(double, base, f->at)); break;
    case MGPU_FIELD_NAME:
        mgpu_write(w, " ");
        mgpu_write_name(MGPU_MEMBER_OF(char *, base, f->at), w);
        break;
    case MGPU_FIELD_TEXT: write_text(MGPU_MEMBER_OF(char *, base, f->at), w); break;
    case MGPU_FIELD_NAMES:
        for (int i = 0; i < MGPU_MEMBER_OF(int, base, f->more); i++) {
            mgpu_write(w, " ");
            mgpu_write_name(MGPU_MEMBER_OF(char **, base, f->at)[i], w);
        }
        break;
    case MGPU_FIELD_TYPE: mgpu_write(w, " %s", mgpu_dtype_names[mgpu_small_member(f, base)]); break;
    case MGPU_FIELD_TYPE_OR_NONE:
        mgpu_write(w, " %s", mgpu_small_member(f, base) ? mgpu_dtype_names[mgpu_small_member(f, base) - 1] : "none");
        break;
    case MGPU_FIELD_CHOICE: mgpu_write(w, " %s", f->names[mgpu_small_member(f, base)]); break;
    case MGPU_FIELD_DIGEST: mgpu_write(w, " %08x", (unsigned)MGPU_MEMBER_OF(uint32_t, base, f->at)); break;
    default: break;
    }
}

/* A usual value is written if a field within it is not usual. */
static bool has_within(const mgpu_record *r, int field, const void *base)
{
    bool any = false;
    for (int i = field + 1; r->fields[field].usual >= r->fields[field].least && i < r->field_count && r->fields[i].within; i++)
        any = any || !mgpu_field_is_usual(&r->fields[i], base);
    return any;
}

void mgpu_write_fields(const mgpu_record *r, const void *base, mgpu_write_special *special, const void *context, mgpu_writer *w)
{
    bool before = false;
    for (int i = 0; i < r->field_count; i++) {
        const mgpu_field *f = &r->fields[i];
        if (f->kind >= MGPU_FIELD_KINDS) {
            special(f, base, context, w);
            continue;
        }
        bool said = f->within ? before && !mgpu_field_is_usual(f, base)
                              : !f->optional || !mgpu_field_is_usual(f, base) || has_within(r, i, base);
        before = f->within ? before : said;
        if (!said)
            continue;
        if (f->word)
            mgpu_write(w, " %s", f->word);
        mgpu_write_value(f, base, w);
    }
}
