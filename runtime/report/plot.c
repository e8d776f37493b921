/* plot.c: draws a plot as SVG and as text.
 *
 * In: lines. Ticks are 1, 2 or 5 times a power of ten; on a logarithmic axis powers of ten, or also 2 and 5 times these if there
 * are few. As text, a character has 2 x 4 Braille dots; where lines cross, it has the dots of both. */
#include "runtime/report/plot.h"

#include "runtime/base/terminal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_TICKS = 24, LEFT = 58, RIGHT = 12, TOP = 26, BOTTOM = 34, LEGEND_LINE = 15 };

const char mgpu_plot_style[] =
    ".plot text{font:11px system-ui,sans-serif;fill:var(--ink,#222)}.plot .title{font-weight:600;font-size:12px}"
    ".plot .grid{stroke:var(--faint,#ddd);stroke-width:1}.plot .axis{stroke:var(--ink,#222);stroke-width:1}"
    ".plot .line{fill:none;stroke-width:1.6;stroke-linejoin:round}.plot .dashed{stroke-dasharray:5 4}"
    ".c0{stroke:#2f6fd0;--c:#2f6fd0}.c1{stroke:#d9541e;--c:#d9541e}.c2{stroke:#2a9d5c;--c:#2a9d5c}.c3{stroke:#9b4fc0;--c:#9b4fc0}"
    ".c4{stroke:#b8860b;--c:#b8860b}.c5{stroke:#c2306b;--c:#c2306b}.c6{stroke:#1098a8;--c:#1098a8}.c7{stroke:#777;--c:#777}"
    ".plot .mark{fill:var(--c);stroke:none}.plot{--ink:#222;--faint:#e2e2e2}svg.plot{background:#fff}"
    "@media(prefers-color-scheme:dark){.plot{--ink:#ddd;--faint:#3a3a3a}svg.plot{background:#181a1d}}";

static const double LARGEST = 1e300, SMALLEST = 1e-300; /* limits of an axis, without overflow and underflow */

/* ---- axes */
typedef struct PlotAxis {
    double low, high; /* limits of the axis; logarithms if it is logarithmic */
    bool log;
    double ticks[MOST_TICKS];
    int tick_count; /* values */
} PlotAxis;

static bool is_shown(const PlotLine *l, int i, bool log_x, bool log_y)
{
    return fabs(l->x[i]) <= LARGEST && fabs(l->y[i]) <= LARGEST && (!log_x || l->x[i] > 0) && (!log_y || l->y[i] > 0);
}

static double place_of(const PlotAxis *a, double v)
{
    double at = a->log ? log10(v) : v;
    return (at - a->low) / (a->high - a->low);
}

static void add_tick(PlotAxis *a, double v)
{
    double at = place_of(a, v);
    if (at > -1e-9 && at < 1 + 1e-9 && a->tick_count < MOST_TICKS)
        a->ticks[a->tick_count++] = v;
}

static void find_ticks(PlotAxis *a, int wanted, bool whole)
{
    if (a->log) {
        bool few = a->high - a->low < 2;
        for (int k = (int)floor(a->low); k <= (int)ceil(a->high); k++)
            for (int m = 1; m <= (few ? 5 : 1); m = m == 1 ? 2 : m == 2 ? 5 : 10)
                add_tick(a, m * pow(10, k));
        return;
    }
    double rough = (a->high - a->low) / wanted, unit = pow(10, floor(log10(rough)));
    double step = rough > 5 * unit ? 10 * unit : rough > 2 * unit ? 5 * unit : rough > unit ? 2 * unit : unit;
    step = whole ? fmax(step, 1) : step;
    for (double k = ceil(a->low / step - 1e-9); k <= a->high / step + 1e-9; k++)
        add_tick(a, fabs(k) < .5 ? 0 : k * step);
}

static PlotAxis axis_of(const Plot *p, bool y, int wanted)
{
    PlotAxis a = {.low = INFINITY, .high = -INFINITY, .log = y ? p->log_y : p->log_x};
    for (int k = 0; k < p->line_count; k++)
        for (int i = 0; i < p->lines[k].count; i++) {
            if (!is_shown(&p->lines[k], i, p->log_x, p->log_y))
                continue;
            double v = y ? p->lines[k].y[i] : p->lines[k].x[i];
            v = a.log ? log10(v) : v;
            a.low = fmin(a.low, v);
            a.high = fmax(a.high, v);
        }
    if (!isfinite(a.low))
        a.low = a.high = 0;
    if (y && p->from_zero && !a.log)
        a.low = fmin(a.low, 0);
    double size = a.high - a.low, capacity = y ? .04 : 0;
    if (size <= fmax(SMALLEST, 1e-12 * fmax(fabs(a.low), fabs(a.high)))) { /* a single value is centred */
        size = fabs(a.low) > SMALLEST ? fabs(a.low) : 1;
        a.low -= y && !p->from_zero ? size / 2 : 0;
    }
    bool zero = y && p->from_zero && a.low == 0 && !a.log;
    a.high = fmax(a.high, a.low + size) + capacity * size;
    a.low -= zero ? 0 : capacity * size;
    find_ticks(&a, wanted, !y && p->whole_x);
    return a;
}

static const char *number_text(Sheet *s, double v)
{
    double size = fabs(v);
    if (size < SMALLEST)
        return "0";
    return size >= 1e9   ? mgpu_sheet_text(s, "%.3gG", v / 1e9)
           : size >= 1e6 ? mgpu_sheet_text(s, "%.3gM", v / 1e6)
           : size >= 1e4 ? mgpu_sheet_text(s, "%.3gk", v / 1e3)
                         : mgpu_sheet_text(s, "%.4g", v);
}

/* ---- SVG */
void mgpu_svg_text(const char *text, Sheet *s)
{
    char *plain = mgpu_plain_text(text, true);
    if (!plain)
        mgpu_no_memory(strlen(text));
    for (const char *at = plain; *at; at++)
        switch (*at) {
        case '<': fprintf(s->f, "&lt;"); break;
        case '>': fprintf(s->f, "&gt;"); break;
        case '&': fprintf(s->f, "&amp;"); break;
        case '"': fprintf(s->f, "&quot;"); break;
        default: fputc(*at, s->f);
        }
    free(plain);
}

void mgpu_svg_begin(double width, double height, const char *title, Sheet *s)
{
    fprintf(
        s->f,
        "<svg class=\"plot\" xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %.0f %.0f\" width=\"%.0f\" height=\"%.0f\" role=\"img\"><title>",
        width, height, width, height);
    mgpu_svg_text(title, s);
    fprintf(s->f, "</title><style>%s</style>\n", mgpu_plot_style);
}

static void svg_label(double x, double y, const char *anchor, const char *class, const char *text, Sheet *s)
{
    fprintf(s->f, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\"%s>", x, y, anchor, class);
    mgpu_svg_text(text, s);
    fprintf(s->f, "</text>\n");
}

static void svg_axes(const Plot *p, const PlotAxis *x, const PlotAxis *y, const Box *b, Sheet *s)
{
    for (int i = 0; i < y->tick_count; i++) {
        double at = b->y + b->height * (1 - place_of(y, y->ticks[i]));
        fprintf(s->f, "<path class=\"grid\" d=\"M%.1f %.1fh%.1f\"/>", b->x, at, b->width);
        svg_label(b->x - 5, at + 4, "end", "", number_text(s, y->ticks[i]), s);
    }
    for (int i = 0; i < x->tick_count; i++) {
        double at = b->x + b->width * place_of(x, x->ticks[i]);
        fprintf(s->f, "<path class=\"grid\" d=\"M%.1f %.1fv%.1f\"/>", at, b->y, b->height);
        svg_label(at, b->y + b->height + 14, "middle", "", number_text(s, x->ticks[i]), s);
    }
    fprintf(s->f, "<path class=\"axis\" fill=\"none\" d=\"M%.1f %.1fv%.1fh%.1f\"/>", b->x, b->y, b->height, b->width);
    svg_label(b->x, b->y - 10, "start", " class=\"title\"", p->title, s);
    svg_label(b->x + b->width, b->y + b->height + 28, "end", "", p->x_label, s);
    if (p->y_label)
        svg_label(b->x + b->width, b->y - 10, "end", "", p->y_label, s);
}

static void svg_line(const Plot *p, const PlotLine *l, const PlotAxis *x, const PlotAxis *y, const Box *b, Sheet *s)
{
    bool down = false;
    if (l->count > 1)
        fprintf(s->f, "<path class=\"line c%d%s\" d=\"", l->colour % 8, l->dashed ? " dashed" : "");
    for (int i = 0; l->count > 1 && i < l->count; i++) {
        if (!is_shown(l, i, p->log_x, p->log_y)) {
            down = false;
            continue;
        }
        fprintf(s->f, "%s%.1f %.1f", down ? "L" : "M", b->x + b->width * place_of(x, l->x[i]),
                b->y + b->height * (1 - place_of(y, l->y[i])));
        down = true;
    }
    fprintf(s->f, "%s", l->count > 1 ? "\"/>\n" : "");
    for (int i = 0; (l->points || l->count == 1) && i < l->count; i++)
        if (is_shown(l, i, p->log_x, p->log_y)) {
            fprintf(s->f, "<circle class=\"mark c%d\" r=\"%.1f\" cx=\"%.1f\" cy=\"%.1f\">", l->colour % 8,
                    l->radius > 0 ? l->radius : 2.6, b->x + b->width * place_of(x, l->x[i]),
                    b->y + b->height * (1 - place_of(y, l->y[i])));
            if (l->tip) {
                fprintf(s->f, "<title>");
                mgpu_svg_text(l->tip, s);
                fprintf(s->f, "</title>");
            }
            fprintf(s->f, "</circle>\n");
        }
}

static int legend_lines(const Plot *p)
{
    int named = 0;
    for (int i = 0; i < p->line_count; i++)
        named += p->lines[i].name != NULL;
    return named > 1 ? named : 0;
}

void mgpu_plot_svg(const Plot *p, Box all, Sheet *s)
{
    int legend = legend_lines(p);
    Box b = {all.x + LEFT, all.y + TOP, all.width - LEFT - RIGHT, all.height - TOP - BOTTOM - legend * LEGEND_LINE};
    PlotAxis x = axis_of(p, false, 6), y = axis_of(p, true, 5);
    fprintf(s->f, "<g class=\"plot\">\n");
    svg_axes(p, &x, &y, &b, s);
    for (int i = 0, row = 0; i < p->line_count; i++) {
        const PlotLine *l = &p->lines[i];
        svg_line(p, l, &x, &y, &b, s);
        if (!legend || !l->name)
            continue;
        double at = all.y + all.height - (legend - row++) * LEGEND_LINE + 10;
        if (l->count > 1)
            fprintf(s->f, "<path class=\"line c%d%s\" d=\"M%.1f %.1fh18\"/>", l->colour % 8, l->dashed ? " dashed" : "", b.x,
                    at - 4);
        else
            fprintf(s->f, "<circle class=\"mark c%d\" r=\"4\" cx=\"%.1f\" cy=\"%.1f\"/>", l->colour % 8, b.x + 9, at - 4);
        svg_label(b.x + 24, at, "start", "", l->name, s);
    }
    fprintf(s->f, "</g>\n");
}

/* ---- text */
typedef struct Dots {
    unsigned char *cells;
    int columns, rows;
} Dots;

static void set_dot(Dots *d, double x, double y)
{
    static const unsigned char BIT[4][2] = {{1, 8}, {2, 16}, {4, 32}, {64, 128}};
    int column = (int)(x * (2 * d->columns - 1) + .5), row = (int)((1 - y) * (4 * d->rows - 1) + .5);
    if (column >= 0 && column < 2 * d->columns && row >= 0 && row < 4 * d->rows)
        d->cells[row / 4 * d->columns + column / 2] |= BIT[row % 4][column % 2];
}

static void draw_between(Dots *d, double x0, double y0, double x1, double y1)
{
    double steps = fmax(1, fmax(fabs(x1 - x0) * 2 * d->columns, fabs(y1 - y0) * 4 * d->rows));
    for (double k = 0; k <= steps; k++)
        set_dot(d, x0 + (x1 - x0) * k / steps, y0 + (y1 - y0) * k / steps);
}

static void draw_lines(const Plot *p, const PlotAxis *x, const PlotAxis *y, Dots *d)
{
    for (int k = 0; k < p->line_count; k++) {
        const PlotLine *l = &p->lines[k];
        for (int i = 0, last = -1; i < l->count; i++) {
            if (!is_shown(l, i, p->log_x, p->log_y))
                continue;
            double x1 = place_of(x, l->x[i]), y1 = place_of(y, l->y[i]);
            if (last < 0)
                set_dot(d, x1, y1);
            else
                draw_between(d, place_of(x, l->x[last]), place_of(y, l->y[last]), x1, y1);
            last = i;
        }
    }
}

/* Names the lines that end in this row, in at most so many columns. */
static const char *ends_in_row(const Plot *p, const PlotAxis *y, int row, int rows, int columns, Sheet *s)
{
    const char *all = "";
    for (int k = 0; k < p->line_count; k++) {
        const PlotLine *l = &p->lines[k];
        int last = l->count - 1;
        while (last >= 0 && !is_shown(l, last, p->log_x, p->log_y))
            last--;
        if (l->name && last >= 0 && (int)((1 - place_of(y, l->y[last])) * (4 * rows - 1) + .5) / 4 == row)
            all = mgpu_sheet_text(s, "%s%s%s", all, *all ? "; " : " ", l->name);
    }
    return (int)strlen(all) <= columns ? all : mgpu_sheet_text(s, "%.*s..", columns - 2, all);
}

void mgpu_plot_text(const Plot *p, int columns, int rows, Sheet *s)
{
    enum { LABEL = 9, NAMES = 26 };
    int names = p->line_count > 1 ? NAMES : 0;
    Dots d = {.columns = columns - LABEL - 2 - names, .rows = rows};
    d.cells = MGPU_SHEET_NEW(s, unsigned char, d.columns *d.rows);
    PlotAxis x = axis_of(p, false, 4), y = axis_of(p, true, 3);
    draw_lines(p, &x, &y, &d);
    fprintf(s->f, "%*s  %s\n", LABEL, "", p->title);
    for (int r = 0; r < rows; r++) {
        const char *label = "";
        for (int i = 0; i < y.tick_count; i++)
            if ((int)((1 - place_of(&y, y.ticks[i])) * (4 * rows - 1) + .5) / 4 == r)
                label = number_text(s, y.ticks[i]);
        fprintf(s->f, "%*s |", LABEL, label);
        for (int c = 0; c < d.columns; c++) {
            unsigned dots = d.cells[r * d.columns + c];
            const char braille[] = {(char)0xe2, (char)(0xa0 | dots >> 6), (char)(0x80 | (dots & 63))};
            fwrite(braille, 1, dots ? sizeof braille : 0, s->f);
            fputs(dots ? "" : " ", s->f);
        }
        fprintf(s->f, "%s\n", names ? ends_in_row(p, &y, r, rows, names, s) : "");
    }
    const char *first = number_text(s, x.log ? pow(10, x.low) : x.low), *last = number_text(s, x.log ? pow(10, x.high) : x.high);
    fprintf(s->f, "%*s  %s%*s\n", LABEL, "", first, d.columns - (int)strlen(first),
            mgpu_sheet_text(s, "%s %s", last, p->x_label));
}
