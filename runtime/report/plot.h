/* plot.h: line plots as SVG or as text for terminals, drawn by plot.c. */
#ifndef MGPU_REPORT_PLOT_H
#define MGPU_REPORT_PLOT_H

#include "runtime/report/sheet.h"

typedef struct PlotLine {
    const char *name; /* for the legend; NULL: not listed */
    const double *x, *y;
    int count;           /* values that are not finite or exceed 1e300 are skipped */
    int colour;          /* index into the palette of the legend */
    bool points, dashed; /* points: a marker at each value */
    double radius;       /* radius of markers; 0: default */
    const char *tip;     /* tooltip of markers, or NULL */
} PlotLine;
typedef struct Plot {
    const char *title, *x_label, *y_label;
    bool log_x, log_y; /* only for positive values */
    bool from_zero;    /* the y axis begins at 0 */
    bool whole_x;      /* x values are integers */
    PlotLine *lines;
    int line_count;
} Plot;
typedef struct Box {
    double x, y, width, height;
} Box; /* in pixels */

extern const char mgpu_plot_style[];                                          /* CSS for mgpu_plot_svg, light and dark */
void mgpu_plot_svg(const Plot *, Box, Sheet *);                               /* a <g> with axes and legend */
void mgpu_svg_begin(double width, double height, const char *title, Sheet *); /* a document with mgpu_plot_style */
void mgpu_svg_text(const char *text, Sheet *);                                /* escapes for XML */
void mgpu_plot_text(const Plot *, int columns, int rows, Sheet *);            /* Braille dots (U+2800 ...) without colours */
#endif
