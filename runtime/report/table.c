/* table.c: prints tables as text and HTML. */
#include "runtime/report/table.h"
#include "runtime/report/plot.h"

#include <stdarg.h>
#include <string.h>

void mgpu_table_row(Sheet *s, Table *t, const char *first, const char *const *rest)
{
    const char **row = MGPU_SHEET_NEW(s, const char *, t->columns);
    row[0] = first;
    for (int i = 1; i < t->columns; i++)
        row[i] = rest[i - 1];
    MGPU_APPEND(s, t->cells, t->rows, row);
}

void mgpu_table_add(Sheet *s, Table *t, ...)
{
    va_list texts;
    const char **row = MGPU_SHEET_NEW(s, const char *, t->columns);
    va_start(texts, t);
    for (int i = 0; i < t->columns; i++)
        row[i] = va_arg(texts, const char *);
    va_end(texts);
    MGPU_APPEND(s, t->cells, t->rows, row);
}

void mgpu_table_print(const Table *r, Sheet *s)
{
    for (int i = 0; i < r->rows; i++) {
        for (int k = 0; k < r->columns; k++) {
            size_t width = 0;
            for (int row = 0; row < r->rows; row++)
                width = strlen(r->cells[row][k]) > width ? strlen(r->cells[row][k]) : width;
            fprintf(s->f, k ? "  %*s" : "%-*s", (int)width, r->cells[i][k]);
        }
        fprintf(s->f, "\n");
    }
}

static bool is_number(const char *text)
{
    return !*text || (*text >= '0' && *text <= '9') || *text == '-' || *text == '+' || *text == '.';
}

/* Returns whether all cells below the header are numbers. */
static bool is_of_numbers(const Table *r, int column)
{
    for (int i = 1; i < r->rows; i++)
        if (!is_number(r->cells[i][column]))
            return false;
    return column > 0;
}

void mgpu_table_html(const Table *r, Sheet *s)
{
    fprintf(s->f, "<div class=\"scroll\"><table>\n");
    for (int i = 0; i < r->rows; i++) {
        fprintf(s->f, "<tr>");
        for (int k = 0; k < r->columns; k++) {
            fprintf(s->f, is_of_numbers(r, k) ? "<%s>" : "<%s class=\"text\">", i ? "td" : "th");
            mgpu_svg_text(r->cells[i][k], s);
            fprintf(s->f, i ? "</td>" : "</th>");
        }
        fprintf(s->f, "</tr>\n");
    }
    fprintf(s->f, "</table></div>\n");
}
