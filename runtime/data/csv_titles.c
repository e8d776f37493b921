/* csv_titles.c: assigns columns to fields of a row, by the first line of a table or by the option `names`. */
#include "runtime/base/base.h"
#include "runtime/data/csv.h"

#include <stdlib.h>
#include <string.h>

/* Returns how much of a title messages show. */
static int shown(const Field *f)
{
    enum { MOST = 60 };
    return f->length < MOST ? (int)f->length : MOST;
}

static void list_titles(const Parser *p, char *text, size_t capacity)
{
    enum { SHOWN = 12 };
    size_t at = 0;
    text[0] = 0;
    for (int i = 0; i < p->field_count && i < SHOWN && at < capacity; i++)
        at += (size_t)snprintf(text + at, capacity - at, "%s%.*s", i ? ", " : "", shown(&p->fields[i]), p->fields[i].text);
    if (p->field_count > SHOWN && at < capacity)
        snprintf(text + at, capacity - at, " and %d more", p->field_count - SHOWN);
}

int mgpu_csv_find_title(const Parser *p, const char *name)
{
    int found = -1;
    for (int i = 0; i < p->field_count; i++)
        if (p->fields[i].length == strlen(name) && memcmp(p->fields[i].text, name, p->fields[i].length) == 0) {
            if (found >= 0)
                mgpu_fail(MGPU_BAD_INPUT, "%s%s: two columns are called '%s'; names = [...] tells them apart", p->where, p->path,
                          name);
            found = i;
        }
    if (found >= 0)
        return found;
    char titles[400], hint[160] = "";
    const char **names = mgpu_allocate((size_t)p->field_count, sizeof *names);
    for (int i = 0; i < p->field_count; i++)
        names[i] = mgpu_format("%.*s", shown(&p->fields[i]), p->fields[i].text);
    mgpu_did_you_mean(name, names, p->field_count, hint);
    static const struct {
        char byte;
        const char *text;
    } OTHERS[] = {{';', ";"}, {'\t', "\\t"}, {'|', "|"}};
    for (int i = 0; i < 3 && p->field_count == 1; i++)
        if (memchr(p->fields[0].text, OTHERS[i].byte, p->fields[0].length))
            snprintf(hint, sizeof hint, "; the titles are one field: csv(..., delimiter = \"%s\")", OTHERS[i].text);
    list_titles(p, titles, sizeof titles);
    mgpu_fail(MGPU_BAD_INPUT, "%s%s: there is no column '%s'%s; it has: %s", p->where, p->path, name, hint, titles);
}

static bool has_title(const Parser *p, const char *name)
{
    for (int i = 0; i < p->field_count; i++)
        if (p->fields[i].length == strlen(name) && memcmp(p->fields[i].text, name, p->fields[i].length) == 0)
            return true;
    return false;
}

static bool needs_title(const Opening *o, const char *name)
{
    for (int c = 0; c < o->column_count; c++)
        for (int k = 0; k < o->columns[c].count; k++)
            if (strcmp(o->columns[c].texts[k], name) == 0)
                return true;
    return false;
}

/* True for a column of the data block that no input needs here, such as labels. */
static bool is_label(const Opening *o, const char *name)
{
    for (int c = 0; c < o->set->column_count; c++)
        for (int k = 0; k < o->set->columns[c].count; k++)
            if (strcmp(o->set->columns[c].texts[k], name) == 0)
                return !needs_title(o, name);
    return false;
}

static bool all_titles(const Parser *p, const Opening *o)
{
    for (int c = 0; c < o->column_count; c++)
        for (int k = 0; k < o->columns[c].count; k++)
            if (!has_title(p, o->columns[c].texts[k]))
                return false;
    return true;
}

typedef enum WhichNames { ALL_NAMES, WITHOUT_LABELS, NEEDED_NAMES, NAME_CHOICES } WhichNames;

static void take_names(Parser *p, const mgpu_option *names, const Opening *o, WhichNames which)
{
    p->field_count = 0;
    for (int i = 0; i < names->count; i++) {
        const char *name = names->items[i].text;
        if (which == ALL_NAMES || (which == WITHOUT_LABELS ? !is_label(o, name) : needs_title(o, name)))
            mgpu_csv_add_field(p, name, strlen(name));
    }
}

bool mgpu_csv_is_decoded(const mgpu_set *set, const char *column)
{
    for (int k = 0; k < set->call_count; k++) {
        const mgpu_option *o = strcmp(set->calls[k].name, "decode") == 0 ? mgpu_find_option(&set->calls[k], "columns") : NULL;
        for (int i = 0; o && i < o->count; i++)
            if (strcmp(o->items[i].text, column) == 0)
                return true;
    }
    return false;
}

/* Returns whether a line cannot have titles: its numeric columns are numbers, or one of its words is. */
static bool is_sample(const Parser *titles, const Field *line, const Opening *o)
{
    bool numbers = false;
    for (int c = 0; c < o->column_count; c++) {
        const mgpu_input *in = mgpu_column_input(o, &o->columns[c]);
        bool words = !in || in->classes || mgpu_csv_is_decoded(o->set, o->columns[c].name);
        for (int k = 0; k < o->columns[c].count; k++) {
            const Field *f = &line[mgpu_csv_find_title(titles, o->columns[c].texts[k])], inner = mgpu_csv_without_blanks(f);
            char *text = mgpu_format("%.*s", (int)inner.length, inner.text);
            double v;
            bool number = mgpu_csv_read_number(text, inner.length, words ? MGPU_F64 : in->tensor.dtype, &v) ||
                          (!words && (mgpu_csv_is_missing(titles, f) || mgpu_csv_is_missing(titles, &inner)));
            free(text);
            if (!number && !words)
                return false;
            numbers = numbers || number;
        }
    }
    return numbers;
}

/* Reads the titles of a table that the data block does not mention, although it has `names`. The first line may have them.
 * Otherwise its columns are all of `names`, all but labels, or those needed. With `header`, a line of other titles is skipped. */
static void read_new_titles(Parser *p, const mgpu_option *names, const Opening *o)
{
    if (!mgpu_csv_read_row(p, true))
        mgpu_fail(MGPU_BAD_INPUT, "%s%s: the file is empty", p->where, p->path);
    if (all_titles(p, o))
        return;
    int fields = p->field_count;
    Field *first = mgpu_allocate((size_t)fields, sizeof *first);
    memcpy(first, p->fields, (size_t)fields * sizeof *first);
    for (int which = 0; which < NAME_CHOICES; which++) {
        take_names(p, names, o, (WhichNames)which);
        if (fields != p->field_count)
            continue;
        if (mgpu_option_number(o->call, "header", 0) == 0 || is_sample(p, first, o)) {
            p->at = p->row;
            p->line = p->row_line;
        }
        free(first);
        return;
    }
    int needed = p->field_count;
    char titles[400];
    take_names(p, names, o, ALL_NAMES);
    list_titles(p, titles, sizeof titles);
    mgpu_fail(
        MGPU_BAD_INPUT,
        "%s%s: its first line has %d fields, which are no titles; without a line of titles there are %d columns, %d of which are "
        "needed here: %s",
        p->where, p->path, fields, names->count, needed, titles);
}

void mgpu_csv_read_titles(Parser *p, const Opening *o)
{
    const mgpu_option *names = mgpu_find_option(o->call, "names");
    if (names && o->fresh) {
        read_new_titles(p, names, o);
    } else {
        if (mgpu_option_number(o->call, "header", names == NULL) != 0 && !mgpu_csv_read_row(p, true))
            mgpu_fail(MGPU_BAD_INPUT, "%s%s: the file is empty", p->where, p->path);
        if (names)
            take_names(p, names, o, ALL_NAMES);
    }
    p->expected = p->field_count;
}

char **mgpu_csv_made_titles(const Parser *p, const Opening *o, const mgpu_column *column, const mgpu_input *in, int *width)
{
    if (!o->fresh || !in || in->classes || in->tensor.rank != 1 || column->count != 1 || has_title(p, column->texts[0]))
        return NULL;
    char **made = mgpu_allocate((size_t)in->tensor.extent[0], sizeof *made), titles[400];
    *width = (int)in->tensor.extent[0];
    for (int k = 0; k < *width; k++)
        made[k] = mgpu_format("%s_%d", column->texts[0], k);
    list_titles(p, titles, sizeof titles);
    if (!has_title(p, made[0]))
        mgpu_fail(MGPU_BAD_INPUT,
                  "%s%s: there is no column '%s', nor '%s' to '%s'; it has: %s; csv(\"table.csv\", %s = [\"column\", ...]) "
                  "in the data block names the columns of an input",
                  p->where, p->path, column->texts[0], made[0], made[*width - 1], titles, column->texts[0]);
    return made;
}
