/* arena.c: the arena of device 0 in a training step as a picture: time to the right, bytes upwards; a buffer is a rectangle from the
 * first to the last operation that touches it. What stays through the step is as wide as the picture. */
#include "compiler/report/page.h"
#include "runtime/view/view.h"

#include <math.h>
#include <string.h>

enum { WIDTH = 960, HEIGHT = 360, LEFT_OF_IT = 80, BELOW = 24, MOST_BUFFERS = 4000, LISTED = 16 };

typedef struct Life { double begin_us, end_us; } Life; /* begin > end: nothing touches it */

static const PhaseSchedule *shown_phase(const Page *p)
{
    const Schedule *s = p->plan->schedule;
    for (int i = 0; i < s->phase_count; i++)
        if (strcmp(s->phases[i].name, phase_name(PHASE_TRAIN, p->plan->always_partial)) == 0)
            return &s->phases[i];
    die("the schedule has no training step");
}

static void touch(Life *lives, const DeviceSchedule *d, double *end_us)
{
    for (int i = 0; i < d->op_count; i++) {
        const ScheduledOp *op = &d->ops[i];
        for (int k = 0; k < op->read_count + op->write_count; k++) {
            const Access *a = k < op->read_count ? &op->reads[k] : &op->writes[k - op->read_count];
            Life *l = &lives[a->buffer];
            l->begin_us = op->begin_us < l->begin_us ? op->begin_us : l->begin_us;
            l->end_us = op->begin_us + op->time_us > l->end_us ? op->begin_us + op->time_us : l->end_us;
        }
        *end_us = op->begin_us + op->time_us > *end_us ? op->begin_us + op->time_us : *end_us;
    }
}

static bool stays(BufferKind kind) { return kind == BUFFER_VARIABLE || kind == BUFFER_INPUT || kind == BUFFER_STEP || kind == BUFFER_REPORT || kind == BUFFER_OUTPUT; }

static double bytes_of(const Buffer *b) { return (double)((b->slots - 1) * ((b->bytes + 63) / 64 * 64) + b->bytes); }

static const char *size_text(double bytes)
{
    char text[32];
    return format("%s", mgpu_view_bytes(bytes, text));
}

static const char *time_text(double us)
{
    char text[32];
    return format("%s", mgpu_view_time(us, text));
}

/* the name in its rectangle, where there is room for it */
static void draw_name(const char *name, double x, double y, double width, double height, bool dark, Text *t)
{
    enum { LETTER = 5, LEAST = 8, SIZE = 9 }; /* of the picture's own units */
    int letters = (int)((width - 8) / LETTER);
    char cut[128];
    if (height < SIZE + 1 || letters < LEAST)
        return;
    text_add(t, "<text class=\"in%s\" x=\"%.1f\" y=\"%.1f\">", dark ? " dark" : "", x + 4, y + height / 2 + 3);
    svg_text(mgpu_view_cut(name, letters, cut, sizeof cut), t);
    text_add(t, "</text>\n");
}

static void draw(const Buffer *b, const Life *l, double end_us, double arena, Text *t)
{
    enum { THIN = 2 };
    double x0 = stays(b->kind) ? 0 : l->begin_us / end_us, x1 = stays(b->kind) ? 1 : l->end_us / end_us;
    double height = bytes_of(b) / arena * HEIGHT, bottom = (double)b->offset / arena * HEIGHT;
    double x = LEFT_OF_IT + x0 * (WIDTH - LEFT_OF_IT), width = (x1 - x0) * (WIDTH - LEFT_OF_IT);
    text_add(t, "<rect class=\"b-%s%s\" x=\"%.1f\" y=\"%.2f\" width=\"%.1f\" height=\"%.2f\"><title>", BUFFER_KIND_NAME[b->kind],
             height < THIN ? " thin" : "", x, HEIGHT - bottom - height, width > .4 ? width : .4, height > .15 ? height : .15);
    svg_text(format("%s, %s at %lld%s", b->name, size_text(bytes_of(b)), (long long)b->offset,
                    stays(b->kind) ? ", through the step" : format(", %s to %s", time_text(l->begin_us), time_text(l->end_us))),
             t);
    text_add(t, "</title></rect>\n");
    draw_name(b->name, x, HEIGHT - bottom - height, width, height, b->kind == BUFFER_TEMPORARY, t);
}

/* 1, 2 or 5 times a power of ten, so that there are at most MOST_TICKS; of bytes a power of two */
static double tick_of(double all, bool bytes)
{
    enum { MOST_TICKS = 6 };
    double rough = all / MOST_TICKS, unit = bytes ? pow(2, ceil(log2(rough))) : pow(10, floor(log10(rough)));
    return bytes ? unit : rough > 5 * unit ? 10 * unit : rough > 2 * unit ? 5 * unit : rough > unit ? 2 * unit : unit;
}

static const char *tick_text(double us, double end_us)
{
    double unit = end_us >= 1e6 ? 1e6 : end_us >= 1e3 ? 1e3 : 1;
    return format("%g %s", us / unit, unit > 1e3 ? "s" : unit > 1 ? "ms" : "us");
}

static void draw_axes(double arena, double end_us, Text *t)
{
    double bytes = tick_of(arena, true), us = tick_of(end_us, false);
    for (double at = 0; at <= arena; at += bytes) {
        double y = HEIGHT - HEIGHT * at / arena;
        text_add(t, "<path class=\"grid\" d=\"M%d %.1fH%d\"/><text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%s</text>\n",
                 LEFT_OF_IT, y, WIDTH, LEFT_OF_IT - 4, y + (y < 8 ? 9 : 4), size_text(at));
    }
    for (double at = 0; at <= end_us; at += us) {
        double x = LEFT_OF_IT + (WIDTH - LEFT_OF_IT) * at / end_us;
        text_add(t, "<path class=\"grid\" d=\"M%.1f 0V%d\"/><text x=\"%.1f\" y=\"%d\" text-anchor=\"%s\">%s</text>\n", x, HEIGHT,
                 x, HEIGHT + 16,
                 x < LEFT_OF_IT + 8 ? "start"
                 : x > WIDTH - 20   ? "end"
                                    : "middle",
                 tick_text(at, end_us));
    }
}

static int largest_left(const DeviceSchedule *d, const bool *taken)
{
    int best = -1;
    for (int i = 0; i < d->buffer_count; i++)
        if (!taken[i] && d->buffers[i].kind != BUFFER_STAGING && (best < 0 || bytes_of(&d->buffers[i]) > bytes_of(&d->buffers[best])))
            best = i;
    return best;
}

void arena_print(const Page *p, Text *t)
{
    const DeviceSchedule *d = &shown_phase(p)->devices[0];
    double end_us = 1e-3, arena = d->arena_bytes > 0 ? (double)d->arena_bytes : 1;
    Life *lives = NEW_ARRAY(Life, d->buffer_count);
    bool *taken = NEW_ARRAY(bool, d->buffer_count);
    for (int i = 0; i < d->buffer_count; i++)
        lives[i] = (Life){1e300, -1};
    touch(lives, d, &end_us);
    text_add(t, "<section id=\"memory\"><h2>Memory</h2>\n<p>The arena of device 0 in a training step, %s: who is where when. ", size_text(arena));
    for (int kind = 0; kind < BUFFER_KINDS; kind++)
        if (kind != BUFFER_STAGING)
            text_add(t, "<span class=\"key b-%s\">%s</span> ", BUFFER_KIND_NAME[kind], BUFFER_KIND_NAME[kind]);
    text_add(t, "</p>\n<svg id=\"arena\" class=\"plot wide\" viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"memory over time\">\n", WIDTH, HEIGHT + BELOW);
    draw_axes(arena, end_us, t);
    Table table = {.columns = 5};
    table_add(&table, "buffer", "kind", "bytes", "from", "to");
    for (int n = 0; n < MOST_BUFFERS; n++) {
        int i = largest_left(d, taken);
        if (i < 0)
            break;
        taken[i] = true;
        if (lives[i].end_us < lives[i].begin_us && !stays(d->buffers[i].kind))
            continue;
        draw(&d->buffers[i], &lives[i], end_us, arena, t);
        bool whole = stays(d->buffers[i].kind);
        if (table.rows <= LISTED)
            table_add(&table, d->buffers[i].name, BUFFER_KIND_NAME[d->buffers[i].kind], size_text(bytes_of(&d->buffers[i])),
                      whole ? "" : time_text(lives[i].begin_us), whole ? "" : time_text(lives[i].end_us));
    }
    text_add(t, "</svg>\n<details class=\"table\"><summary>The largest buffers</summary>\n");
    table_html(&table, t);
    text_add(t, "</details></section>\n");
}
