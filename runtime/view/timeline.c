/* timeline.c: the lanes of devices as bars of letters, one column a stretch of time. A column has the letter of what takes most of it;
 * a dot where nothing runs for more than half. */
#include "runtime/view/view.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LABEL = 10, MOST_DEVICES = 16 };
static const struct Kind { char letter; const char *word, *colour; } KINDS[] = {
    {'f', "forward", "\033[32m"}, {'b', "backward", "\033[34m"}, {'u', "update", "\033[33m"}, {'r', "transfer", "\033[35m"},
    {'i', "input", "\033[36m"},   {'o', "output", "\033[36m"},   {'c', "other calls", "\033[37m"},
};

static int kind_of(const ViewOp *op)
{
    for (int k = 0; k < 3; k++)
        if (strncmp(op->role, KINDS[k].word, strlen(KINDS[k].word)) == 0)
            return k;
    return op->lane == VIEW_COMM                                            ? 3
           : strcmp(op->verb, "read") == 0 || strcmp(op->verb, "upload") == 0 ? 4
           : op->lane == VIEW_HOST                                          ? 5
                                                                            : 6;
}

typedef struct Row { double (*share)[MGPU_COUNT(KINDS)]; bool used; } Row; /* of a column's time, by kind */

static void add(Row *row, const ViewOp *op, double column_us, int columns)
{
    double end = op->begin_us + op->time_us;
    row->used = true;
    for (int c = (int)(op->begin_us / column_us); c < columns && c * column_us < end; c++) {
        double from = fmax(op->begin_us, c * column_us), to = fmin(end, (c + 1) * column_us);
        row->share[c][kind_of(op)] += to > from ? (to - from) / column_us : 0;
    }
}

static void print_row(const Row *row, int columns, bool colour, FILE *f)
{
    int last = -1;
    for (int c = 0; c < columns; c++) {
        int most = 0;
        double busy = 0;
        for (int k = 0; k < MGPU_COUNT(KINDS); k++) {
            busy += row->share[c][k];
            most = row->share[c][k] > row->share[c][most] ? k : most;
        }
        int kind = busy >= .5 ? most : -1;
        if (colour && kind != last)
            fputs(kind < 0 ? "\033[0m" : KINDS[kind].colour, f);
        fputc(kind < 0 ? '.' : KINDS[kind].letter, f);
        last = kind;
    }
    fputs(colour ? "\033[0m\n" : "\n", f);
}

static void print_axis(double end_us, int columns, FILE *f)
{
    int step = columns / 5;
    fprintf(f, "%*s", LABEL, "");
    for (int at = 0, tick = 0; tick < 5; tick++) {
        char a[32];
        for (; at < tick * step; at++)
            fputc(' ', f);
        at += fprintf(f, "|%s", mgpu_view_time(end_us * tick * step / columns, a));
    }
    fputc('\n', f);
}

void mgpu_view_timeline(const View *v, const ViewRequest *r, FILE *f)
{
    int columns = r->width - LABEL - 1, first = r->device < 0 ? 0 : r->device, last = r->device < 0 ? v->device_count - 1 : r->device;
    double column_us = v->end_us / columns;
    char a[32], b[32];
    bool kinds[MGPU_COUNT(KINDS)] = {false};
    fprintf(f, "%s: %s, one step by itself, %s; a column is %s\n", v->model, v->phase, mgpu_view_time(v->end_us, a), mgpu_view_time(column_us, b));
    print_axis(v->end_us, columns, f);
    for (int d = first; d <= last && d < first + MOST_DEVICES && column_us > 0; d++)
        for (int l = 0; l < VIEW_LANES; l++) {
            Row row = {.share = mgpu_allocate((size_t)columns, sizeof *row.share)};
            for (int i = 0; i < v->devices[d].op_count; i++)
                if ((int)v->devices[d].ops[i].lane == l && v->devices[d].ops[i].time_us > 0) {
                    add(&row, &v->devices[d].ops[i], column_us, columns);
                    kinds[kind_of(&v->devices[d].ops[i])] = true;
                }
            if (row.used) {
                char label[32];
                snprintf(label, sizeof label, "d%d %s", d, mgpu_view_lane[l]);
                fprintf(f, "%-*s", LABEL, label);
                print_row(&row, columns, r->colour, f);
            }
            free(row.share);
        }
    if (last - first >= MOST_DEVICES)
        fprintf(f, "%d more devices: --device N\n", last - first + 1 - MOST_DEVICES);
    for (int k = 0, said = 0; k < MGPU_COUNT(KINDS); k++)
        if (kinds[k])
            fprintf(f, "%s%c %s", said++ ? ", " : "", KINDS[k].letter, KINDS[k].word);
    fputs(", . idle\n", f);
}
