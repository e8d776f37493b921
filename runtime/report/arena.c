/* arena.c: draws the arena of device 0 during a training step: time to the right, bytes upwards. A buffer is a rectangle from the
 * first to the last operation that uses it. Persistent buffers are as wide as the picture. */
#include "runtime/report/page.h"
#include "runtime/view/view.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { WIDTH = 960, HEIGHT = 360, LEFT_OF_IT = 80, BELOW = 24, MOST_BUFFERS = 4000, LISTED = 16 };

typedef struct Life {
    double begin_us, end_us;
} Life; /* begin > end: unused */

static void touch(Life *lives, const ViewDevice *d)
{
    for (int i = 0; i < d->op_count; i++) {
        const ScheduledOp *op = &d->ops[i];
        for (int k = 0; k < op->read_count + op->write_count; k++) {
            Life *l = &lives[mgpu_access_of(op, k)->buffer];
            l->begin_us = op->begin_us < l->begin_us ? op->begin_us : l->begin_us;
            l->end_us = op->begin_us + op->time_us > l->end_us ? op->begin_us + op->time_us : l->end_us;
        }
    }
}

/* Draws a name into its rectangle if there is space. */
static void draw_name(const char *name, double x, double y, double width, double height, bool dark, Sheet *s)
{
    enum { LETTER = 5, LEAST = 8, SIZE = 9 }; /* in the picture's units */
    int letters = (int)((width - 8) / LETTER);
    char cut[128];
    if (height < SIZE + 1 || letters < LEAST)
        return;
    fprintf(s->f, "<text class=\"in%s\" x=\"%.1f\" y=\"%.1f\">", dark ? " dark" : "", x + 4, y + height / 2 + 3);
    mgpu_svg_text(mgpu_view_cut(name, letters, cut, sizeof cut), s);
    fprintf(s->f, "</text>\n");
}

static void draw(const Buffer *b, const Life *l, double end_us, double arena, Sheet *s)
{
    enum { THIN = 2 };
    double x0 = mgpu_view_stays(b) ? 0 : l->begin_us / end_us, x1 = mgpu_view_stays(b) ? 1 : l->end_us / end_us;
    double height = (double)mgpu_view_buffer_bytes(b) / arena * HEIGHT, bottom = (double)b->offset / arena * HEIGHT;
    double x = LEFT_OF_IT + x0 * (WIDTH - LEFT_OF_IT), width = (x1 - x0) * (WIDTH - LEFT_OF_IT);
    fprintf(s->f, "<rect class=\"b-%s%s\" x=\"%.1f\" y=\"%.2f\" width=\"%.1f\" height=\"%.2f\"><title>",
            BUFFER_KIND_NAME[b->kind], height < THIN ? " thin" : "", x, HEIGHT - bottom - height, width > .4 ? width : .4,
            height > .15 ? height : .15);
    mgpu_svg_text(mgpu_sheet_text(s, "%s, %s at %lld%s", b->name, mgpu_sheet_bytes(s, (double)mgpu_view_buffer_bytes(b)),
                                  (long long)b->offset,
                                  mgpu_view_stays(b) ? ", through the step"
                                                     : mgpu_sheet_text(s, ", %s to %s", mgpu_sheet_time(s, l->begin_us),
                                                                       mgpu_sheet_time(s, l->end_us))),
                  s);
    fprintf(s->f, "</title></rect>\n");
    draw_name(b->name, x, HEIGHT - bottom - height, width, height, b->kind == BUFFER_TEMPORARY, s);
}

/* Returns 1, 2 or 5 times a power of ten, or for bytes a power of two, so that there are at most MOST_TICKS. */
static double tick_of(double all, bool bytes)
{
    enum { MOST_TICKS = 6 };
    double rough = all / MOST_TICKS, unit = bytes ? pow(2, ceil(log2(rough))) : pow(10, floor(log10(rough)));
    return bytes ? unit : rough > 5 * unit ? 10 * unit : rough > 2 * unit ? 5 * unit : rough > unit ? 2 * unit : unit;
}

static const char *tick_text(double us, double end_us, Sheet *s)
{
    double unit = end_us >= 1e6 ? 1e6 : end_us >= 1e3 ? 1e3 : 1;
    return mgpu_sheet_text(s, "%g %s", us / unit, unit > 1e3 ? "s" : unit > 1 ? "ms" : "us");
}

static void draw_axes(double arena, double end_us, Sheet *s)
{
    double bytes = tick_of(arena, true), us = tick_of(end_us, false);
    for (double at = 0; at <= arena; at += bytes) {
        double y = HEIGHT - HEIGHT * at / arena;
        fprintf(s->f, "<path class=\"grid\" d=\"M%d %.1fH%d\"/><text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%s</text>\n",
                LEFT_OF_IT, y, WIDTH, LEFT_OF_IT - 4, y + (y < 8 ? 9 : 4), mgpu_sheet_bytes(s, at));
    }
    for (double at = 0; at <= end_us; at += us) {
        double x = LEFT_OF_IT + (WIDTH - LEFT_OF_IT) * at / end_us;
        fprintf(s->f, "<path class=\"grid\" d=\"M%.1f 0V%d\"/><text x=\"%.1f\" y=\"%d\" text-anchor=\"%s\">%s</text>\n", x,
                HEIGHT, x, HEIGHT + 16,
                x < LEFT_OF_IT + 8 ? "start"
                : x > WIDTH - 20   ? "end"
                                   : "middle",
                tick_text(at, end_us, s));
    }
}

void mgpu_arena_print(const Page *p, Sheet *s)
{
    static const char *const KINDS[] = {"step",      "input",  "variable",  "report", "output",
                                        "temporary", "bucket", "workspace", "local"};
    const ViewDevice *d = &p->view->devices[0];
    double end_us = p->view->end_us > 0 ? p->view->end_us : 1e-3, arena = d->arena_bytes > 0 ? (double)d->arena_bytes : 1;
    Life *lives = MGPU_SHEET_NEW(s, Life, d->buffer_count);
    const Buffer **order = MGPU_SHEET_NEW(s, const Buffer *, d->buffer_count);
    for (int i = 0; i < d->buffer_count; i++) {
        lives[i] = (Life){1e300, -1};
        order[i] = &d->buffers[i];
    }
    qsort(order, (size_t)d->buffer_count, sizeof *order, mgpu_view_by_bytes);
    touch(lives, d);
    fprintf(s->f, "<section id=\"memory\"><h2>Memory</h2>\n<p>The arena of device 0 in a training step, %s: who is where when. ",
            mgpu_sheet_bytes(s, arena));
    if (p->view->schedule->outside_arena_bytes)
        fprintf(s->f, "Besides it, transfers or sums of virtual shards take %s. ",
                mgpu_sheet_bytes(s, (double)p->view->schedule->outside_arena_bytes));
    for (int i = 0; i < MGPU_COUNT(KINDS); i++)
        fprintf(s->f, "<span class=\"key b-%s\">%s</span> ", KINDS[i], KINDS[i]);
    fprintf(s->f,
            "</p>\n<svg id=\"arena\" class=\"plot wide\" viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"memory over time\">\n",
            WIDTH, HEIGHT + BELOW);
    draw_axes(arena, end_us, s);
    Table table = {.columns = 5};
    mgpu_table_add(s, &table, "buffer", "kind", "bytes", "from", "to");
    for (int n = 0, drawn = 0; n < d->buffer_count && drawn < MOST_BUFFERS; n++) {
        const Buffer *b = order[n];
        const Life *l = &lives[b - d->buffers];
        bool whole = mgpu_view_stays(b);
        if (b->kind == BUFFER_STAGING || (l->end_us < l->begin_us && !whole))
            continue;
        draw(b, l, end_us, arena, s);
        drawn++;
        if (table.rows <= LISTED)
            mgpu_table_add(s, &table, b->name, BUFFER_KIND_NAME[b->kind], mgpu_sheet_bytes(s, (double)mgpu_view_buffer_bytes(b)),
                           whole ? "" : mgpu_sheet_time(s, l->begin_us), whole ? "" : mgpu_sheet_time(s, l->end_us));
    }
    fprintf(s->f, "</svg>\n<details class=\"table\"><summary>The largest buffers</summary>\n");
    mgpu_table_html(&table, s);
    fprintf(s->f, "</details></section>\n");
}
