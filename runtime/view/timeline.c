/* timeline.c: draws the lanes of devices as rows of letters; a column is an interval of time. Its letter is the kind of operation
 * that takes most of it, a colon if operations take less than half of it, a dot if there are none. Devices whose lanes look the
 * same share their rows. */
#include "runtime/view/view.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_DEVICES = 16 };
static const struct Kind {
    char letter;
    const char *word, *colour;
} KINDS[] = {
    {'f', "forward", "\033[32m"}, {'b', "backward", "\033[34m"}, {'u', "update", "\033[33m"},      {'r', "transfer", "\033[35m"},
    {'i', "input", "\033[36m"},   {'o', "output", "\033[36m"},   {'c', "other calls", "\033[37m"},
};

static int kind_of(const ScheduledOp *op)
{
    return mgpu_view_pass(op) >= 0                            ? mgpu_view_pass(op)
           : mgpu_lane_transfers((int)op->lane)               ? 3
           : op->verb == VERB_READ || op->verb == VERB_UPLOAD ? 4
           : op->lane == LANE_HOST                            ? 5
                                                              : 6;
}

typedef struct TimelineRow {
    double (*share)[MGPU_COUNT(KINDS)];
    bool used;
} TimelineRow; /* fraction of each column by kind */

static void add(TimelineRow *row, const ScheduledOp *op, double column_us, int columns)
{
    double end = op->begin_us + op->time_us;
    row->used = true;
    for (int c = (int)(op->begin_us / column_us); c < columns && c * column_us < end; c++) {
        double from = fmax(op->begin_us, c * column_us), to = fmin(end, (c + 1) * column_us);
        double share = to > from ? (to - from) / column_us : 0;
        for (int k = 0; k < MGPU_COUNT(KINDS); k++)
            row->share[c][k] += share * (k < MGPU_PASSES ? mgpu_view_pass_part(op, k) : kind_of(op) == k);
    }
}

/* Kinds of columns: an index into KINDS, SOME or NONE. */
enum { SOME = -1, NONE = -2 };
static void find_kinds(const TimelineRow *row, int columns, int *kinds)
{
    const double LEAST = 1e-3, HALF = .5;
    for (int c = 0; c < columns; c++) {
        int most = 0;
        double busy = 0;
        for (int k = 0; k < MGPU_COUNT(KINDS); k++) {
            busy += row->share[c][k];
            most = row->share[c][k] > row->share[c][most] ? k : most;
        }
        kinds[c] = busy >= HALF ? most : busy > LEAST ? SOME : NONE;
    }
}

static void print_row(const int *kinds, int columns, bool colour, FILE *f)
{
    int last = NONE;
    for (int c = 0; c < columns; c++) {
        if (colour && kinds[c] != last)
            fputs(kinds[c] < 0 ? "\033[0m" : KINDS[kinds[c]].colour, f);
        fputc(kinds[c] == NONE ? '.' : kinds[c] == SOME ? ':' : KINDS[kinds[c]].letter, f);
        last = kinds[c];
    }
    fputs(colour ? "\033[0m\n" : "\n", f);
}

static int label_width(const View *v)
{
    return v->schedule->devices > 10 ? 14 : 10;
} /* for labels such as "d0-7 comp", "d10-127 comp" */

static void print_axis(double end_us, int label, int columns, FILE *f)
{
    int step = columns / 5;
    fprintf(f, "%*s", label, "");
    for (int at = 0, tick = 0; tick < 5; tick++) {
        char a[32];
        for (; at < tick * step; at++)
            fputc(' ', f);
        at += fprintf(f, "|%s", mgpu_view_time(end_us * tick * step / columns, a));
    }
    fputc('\n', f);
}

typedef struct Bars {
    int *kinds;
    bool used[LANES];
} Bars; /* kinds: [lane][column] */

static Bars bars_of(const View *v, int device, int columns, double column_us, bool *kinds)
{
    const ViewDevice *d = &v->devices[device];
    Bars bars = {.kinds = mgpu_allocate((size_t)(columns * LANES), sizeof *bars.kinds)};
    for (int l = 0; l < LANES; l++) {
        TimelineRow row = {.share = mgpu_allocate((size_t)columns, sizeof *row.share)};
        for (int i = 0; i < d->op_count; i++)
            if ((int)d->ops[i].lane == l && d->ops[i].time_us > 0) {
                add(&row, &d->ops[i], column_us, columns);
                kinds[kind_of(&d->ops[i])] = true;
            }
        find_kinds(&row, columns, bars.kinds + l * columns);
        bars.used[l] = row.used;
        free(row.share);
    }
    return bars;
}

static bool are_drawn_alike(const Bars *a, const Bars *b, int columns)
{
    return memcmp(a->kinds, b->kinds, (size_t)(columns * LANES) * sizeof *a->kinds) == 0;
}

void mgpu_view_timeline(const View *v, const ViewRequest *r, FILE *f)
{
    int label_columns = label_width(v), columns = r->width - label_columns - 1, first = r->device < 0 ? 0 : r->device,
        last = r->device < 0 ? v->schedule->devices - 1 : r->device, drawn = 0, d = first;
    double column_us = v->end_us / columns;
    char a[32], b[32];
    bool kinds[MGPU_COUNT(KINDS)] = {false};
    fprintf(f, "%s: %s, one step by itself, %s; a column is %s", v->schedule->model, v->phase->name, mgpu_view_time(v->end_us, a),
            mgpu_view_time(column_us, b));
    if (v->schedule->nodes > 1)
        fprintf(f, "; node 0 has d0 to d%d", v->schedule->devices / v->schedule->nodes - 1);
    fputc('\n', f);
    print_axis(v->end_us, label_columns, columns, f);
    for (int same; d <= last && drawn < MOST_DEVICES && column_us > 0; d += same, drawn++) {
        Bars bars = bars_of(v, d, columns, column_us, kinds);
        for (same = 1; d + same <= last; same++) {
            Bars next = bars_of(v, d + same, columns, column_us, kinds);
            bool equal = are_drawn_alike(&bars, &next, columns);
            free(next.kinds);
            if (!equal)
                break;
        }
        for (int l = 0; l < LANES; l++) {
            char label[48];
            if (same > 1)
                snprintf(label, sizeof label, "d%d-%d %s", d, d + same - 1, LANE_NAME[l]);
            else
                snprintf(label, sizeof label, "d%d %s", d, LANE_NAME[l]);
            if (!bars.used[l])
                continue;
            fprintf(f, "%-*s", label_columns, label);
            print_row(bars.kinds + l * columns, columns, r->colour, f);
        }
        free(bars.kinds);
    }
    if (d <= last)
        fprintf(f, "%d more devices: --device N\n", last + 1 - d);
    for (int k = 0, said = 0; k < MGPU_COUNT(KINDS); k++)
        if (kinds[k])
            fprintf(f, "%s%c %s", said++ ? ", " : "", KINDS[k].letter, KINDS[k].word);
    fputs("\n: less than half of the column, . idle\n", f);
}
