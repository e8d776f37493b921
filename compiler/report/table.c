/* table.c: tables as text and as HTML. */
#include "compiler/report/table.h"
#include "compiler/report/plot.h"

#include <string.h>

void table_row(Table *t, const char *first, const char *const *rest)
{
    const char **row = NEW_ARRAY(const char *, t->columns);
    row[0] = first;
    for (int i = 1; i < t->columns; i++)
        row[i] = rest[i - 1];
    APPEND(t->cells, t->rows, row);
}

void table_add(Table *t, ...)
{
    va_list texts;
    const char **row = NEW_ARRAY(const char *, t->columns);
    va_start(texts, t);
    for (int i = 0; i < t->columns; i++)
        row[i] = va_arg(texts, const char *);
    va_end(texts);
    APPEND(t->cells, t->rows, row);
}

void table_print(const Table *r, Text *t)
{
    for (int i = 0; i < r->rows; i++) {
        for (int k = 0; k < r->columns; k++) {
            size_t width = 0;
            for (int row = 0; row < r->rows; row++)
                width = strlen(r->cells[row][k]) > width ? strlen(r->cells[row][k]) : width;
            text_add(t, k ? "  %*s" : "%-*s", (int)width, r->cells[i][k]);
        }
        text_add(t, "\n");
    }
}

static bool is_number(const char *text) { return !*text || (*text >= '0' && *text <= '9') || *text == '-' || *text == '+' || *text == '.'; }

/* whether all below the head are numbers */
static bool is_of_numbers(const Table *r, int column)
{
    for (int i = 1; i < r->rows; i++)
        if (!is_number(r->cells[i][column]))
            return false;
    return column > 0;
}

void table_html(const Table *r, Text *t)
{
    text_add(t, "<div class=\"scroll\"><table>\n");
    for (int i = 0; i < r->rows; i++) {
        text_add(t, "<tr>");
        for (int k = 0; k < r->columns; k++) {
            text_add(t, is_of_numbers(r, k) ? "<%s>" : "<%s class=\"text\">", i ? "td" : "th");
            svg_text(r->cells[i][k], t);
            text_add(t, i ? "</td>" : "</th>");
        }
        text_add(t, "</tr>\n");
    }
    text_add(t, "</table></div>\n");
}
