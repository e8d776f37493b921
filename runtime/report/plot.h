/* plot.h: lines over a common axis, as SVG or as text of a terminal. plot.c draws. */
#ifndef MGPU_REPORT_PLOT_H
#define MGPU_REPORT_PLOT_H

#include "runtime/report/sheet.h"

typedef struct PlotLine {
    const char *name;           /* for the legend; NULL: it is not there */
    const double *x, *y; int count; /* values that are not finite, or above 1e300, are left out */
    int colour;                 /* 0, 1 ...: as the legend has it */
    bool points, dashed;        /* points: a mark at each value */
    double radius;              /* of marks; 0: the usual */
    const char *tip;            /* shown over marks; NULL: nothing */
} PlotLine;
typedef struct Plot {
    const char *title, *x_label, *y_label;
    bool log_x, log_y;          /* where all values are above 0 */
    bool from_zero;             /* the y axis begins at 0 */
    bool whole_x;               /* the x axis counts */
    PlotLine *lines; int line_count;
} Plot;
typedef struct Box { double x, y, width, height; } Box; /* pixels */

extern const char mgpu_plot_style[]; /* CSS of what mgpu_plot_svg draws, light and dark */
void mgpu_plot_svg(const Plot *, Box, Sheet *);              /* a <g>: all of a plot with its axes and its legend */
void mgpu_svg_begin(double width, double height, const char *title, Sheet *); /* a document of its own, with mgpu_plot_style */
void mgpu_svg_text(const char *text, Sheet *);               /* as XML has it */
void mgpu_plot_text(const Plot *, int columns, int rows, Sheet *); /* of dots in Braille characters (U+2800 ...), without colours */
#endif
