/* marks.c: texts that know their numbers (c/marks.h). A mark is a character that no text has: what comes from a model and is printed
 * has been through c_text.c. */
#include "compiler/target/c/marks.h"

#include <math.h>
#include <string.h>

enum {
    MARK_NUMBER = 2, /* and the NumberKind */
    MARK_NAME = 6,
    MARK_CONSTANTS = 7,
    MARK_INDEX = 8,
    MARK_REMARK = 11,
    MARK_PARAMETERS = 12,
    MARK_GRID = 15,
    MARK_END = 14,
    DEPTH = 256
};

static const char *marked(const Printer *p, int mark, const char *text) { return p->marks ? format("%c%s%c", mark, text, MARK_END) : text; }

static const char *whole(const Printer *p, int64_t n, NumberKind kind)
{
    const char *text = format("%lld", (long long)(n < 0 ? -n : n));
    if (n < -1 || n > 1)
        text = n <= INT32_MAX && n >= -INT32_MAX ? marked(p, MARK_NUMBER + (int)kind, text) : text;
    return n < 0 ? format("-%s", text) : text;
}

const char *emit_count(const Printer *p, int64_t n) { return whole(p, n, NUMBER_INT); }
const char *emit_divisor(const Printer *p, int64_t n) { return whole(p, n, NUMBER_DIVISOR); }

const char *emit_over(const char *count)
{
    return *count == MARK_NUMBER + NUMBER_INT ? format("%c%s", MARK_NUMBER + NUMBER_DIVISOR, count + 1) : count;
}

const char *emit_number(const Printer *p, double v, Dtype t)
{
    const char *text = emit_literal(v, t);
    bool sign = *text == '-', given = !isnan(v) && !isinf(v) && v != 0 && fabs(v) != 1;
    if (t == BOOL || t == U32 || t == I64 || !given)
        return text;
    if (!dtype_is_float(t))
        return fabs(v) <= INT32_MAX ? whole(p, (int64_t)v, NUMBER_INT) : text;
    text = marked(p, MARK_NUMBER + (int)(t == F64 ? NUMBER_F64 : NUMBER_F32), text + sign);
    return sign ? format("-%s", text) : text;
}

const char *emit_constants(const Printer *p, const char *text) { return marked(p, MARK_CONSTANTS, text); }

const char *emit_element(const Printer *p, const char *pointer, const char *index)
{
    return format("%s[%s]", pointer, marked(p, MARK_INDEX, index));
}

const char *emit_marked_name(const Printer *p, const char *name) { return marked(p, MARK_NAME, name); }
const char *emit_remark(const Printer *p, const char *comment) { return marked(p, MARK_REMARK, comment); }
const char *emit_more_parameters(const Printer *p) { return marked(p, MARK_PARAMETERS, ""); }
const char *emit_grid(const Printer *p) { return marked(p, MARK_GRID, "mgpu_grid_"); }

size_t emit_length(const char *text)
{
    size_t length = 0;
    for (; *text; text++)
        length += (unsigned char)*text >= ' ';
    return length;
}

/* ---- reading */

typedef struct Part { int mark; const char *at; int length; } Part; /* mark 0: text */
typedef struct Walk { const char *at; bool constants[DEPTH]; int depth; } Walk;

/* what is between a mark and its end has no marks in it */
static void take(Walk *w, Part *part)
{
    part->at = w->at + 1;
    part->length = (int)strcspn(part->at, (char[]){MARK_END, 0});
    w->at = part->at + part->length + 1;
}

static bool next(Walk *w, Part *part)
{
    static const char MARKS[] = "\2\3\4\5\6\7\10\13\14\16\17";
    for (; *w->at; w->at++) {
        *part = (Part){.mark = *w->at};
        switch (*w->at) {
        case MARK_END:
            w->depth--;
            break;
        case MARK_CONSTANTS:
        case MARK_INDEX:
            if (++w->depth == DEPTH)
                die("marks of a kernel's text are nested too deeply");
            w->constants[w->depth] = part->mark == MARK_CONSTANTS;
            break;
        case MARK_NAME:
        case MARK_REMARK:
        case MARK_PARAMETERS:
        case MARK_GRID:
            take(w, part);
            return true;
        case MARK_NUMBER + NUMBER_INT:
        case MARK_NUMBER + NUMBER_DIVISOR:
        case MARK_NUMBER + NUMBER_F32:
        case MARK_NUMBER + NUMBER_F64:
            take(w, part);
            part->mark = w->constants[w->depth] ? 0 : part->mark;
            return true;
        default:
            *part = (Part){0, w->at, (int)strcspn(w->at, MARKS)};
            w->at += part->length;
            return true;
        }
    }
    return false;
}

static bool is_number(const Part *part) { return part->mark >= MARK_NUMBER && part->mark <= MARK_NUMBER + NUMBER_F64; }

void marked_numbers(const char *text, Numbers *to)
{
    Walk w = {.at = text};
    for (Part part; next(&w, &part);)
        if (is_number(&part))
            APPEND(to->list, to->count, ((Number){part.at, part.length, (NumberKind)(part.mark - MARK_NUMBER)}));
}

void marked_form(const char *text, Text *form)
{
    static const char *const KIND[] = {"#i", "#i", "#f", "#d"};
    Map names = {0};
    Walk w = {.at = text};
    for (Part part; next(&w, &part);) {
        if (is_number(&part)) {
            text_add(form, "%s", KIND[part.mark - MARK_NUMBER]);
        } else if (part.mark == MARK_NAME) {
            const char *name = copy_text(part.at, (size_t)part.length);
            if (!map_get(&names, name))
                map_set(&names, name, (void *)(uintptr_t)format("$%d", names.count));
            text_add(form, "%s", (const char *)map_get(&names, name));
        } else if (part.mark == 0 || part.mark == MARK_GRID) {
            text_bytes(form, part.at, (size_t)part.length);
        }
    }
}

void marked_print(const char *text, const char *const *instead, const char *parameters, const char *grid, Text *t)
{
    Walk w = {.at = text};
    int number = 0;
    for (Part part; next(&w, &part);) {
        const char *other = part.mark == MARK_PARAMETERS ? parameters : part.mark == MARK_GRID ? grid : is_number(&part) && instead ? instead[number] : NULL;
        number += is_number(&part);
        if (other)
            text_add(t, "%s", other);
        else
            text_bytes(t, part.at, (size_t)part.length);
    }
}
