/* arena.c: the arena of device 0 in a training step as a picture: time to the right, bytes upwards; a buffer is a rectangle from the
 * first to the last operation that touches it. What stays through the step is as wide as the picture. */
#include "compiler/report/page.h"

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
    return bytes >= 0x1p30 ? format("%.2f GiB", bytes / 0x1p30) : bytes >= 0x1p20 ? format("%.2f MiB", bytes / 0x1p20) : bytes >= 0x1p10 ? format("%.1f KiB", bytes / 0x1p10) : format("%.0f B", bytes);
}

static void draw(const Buffer *b, const Life *l, double end_us, double arena, Text *t)
{
    double x0 = stays(b->kind) ? 0 : l->begin_us / end_us, x1 = stays(b->kind) ? 1 : l->end_us / end_us;
    double height = bytes_of(b) / arena * HEIGHT, bottom = (double)b->offset / arena * HEIGHT;
    text_add(t, "<rect class=\"b-%s\" x=\"%.1f\" y=\"%.2f\" width=\"%.1f\" height=\"%.2f\"><title>", BUFFER_KIND_NAME[b->kind],
             LEFT_OF_IT + x0 * (WIDTH - LEFT_OF_IT), HEIGHT - bottom - height, (x1 - x0) * (WIDTH - LEFT_OF_IT) > .4 ? (x1 - x0) * (WIDTH - LEFT_OF_IT) : .4,
             height > .15 ? height : .15);
    svg_text(format("%s, %s at %lld%s", b->name, size_text(bytes_of(b)), (long long)b->offset,
                    stays(b->kind) ? ", through the step" : format(", %.3f to %.3f ms", l->begin_us / 1e3, l->end_us / 1e3)), t);
    text_add(t, "</title></rect>\n");
}

static void draw_axes(double arena, double end_us, Text *t)
{
    for (int i = 0; i <= 4; i++) {
        text_add(t, "<path class=\"grid\" d=\"M%d %.1fH%d\"/><text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%s</text>\n", LEFT_OF_IT, HEIGHT - HEIGHT * i / 4.0, WIDTH,
                 LEFT_OF_IT - 4, HEIGHT - HEIGHT * i / 4.0 + (i == 4 ? 10 : 4), size_text(arena * i / 4));
        text_add(t, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"%s\">%.3g ms</text>\n", LEFT_OF_IT + (WIDTH - LEFT_OF_IT) * i / 4.0, HEIGHT + 16,
                 i == 0 ? "start" : i == 4 ? "end" : "middle", end_us * i / 4e3);
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
    table_add(&table, "buffer", "kind", "bytes", "from ms", "to ms");
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
                      whole ? "" : format("%.3f", lives[i].begin_us / 1e3), whole ? "" : format("%.3f", lives[i].end_us / 1e3));
    }
    text_add(t, "</svg>\n<details class=\"table\"><summary>The largest</summary>\n");
    table_html(&table, t);
    text_add(t, "</details></section>\n");
}
