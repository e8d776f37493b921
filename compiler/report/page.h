/* page.h: a report: one HTML file that contains all it shows. page.c writes it, page.css and page.js are its style and what makes its
 * timeline and its picture of memory move; without them it is tables and plots. */
#ifndef MGPU_REPORT_PAGE_H
#define MGPU_REPORT_PAGE_H

#include "compiler/report/report.h"
#include "compiler/report/runs.h"

typedef struct PageFile { const char *name, *text; } PageFile;
extern const PageFile PAGE_FILES[];     /* written by dsl/embed.sh; the last one's name is NULL */

typedef struct Page {
    const char *title, *about;          /* about: a line below it */
    const Table *summary;               /* NULL: there is no model, and what follows is not looked at up to `runs` */
    const char **advice; int advice_count;
    Plot scaling, steps; /* speed-up, and the time of a step, over devices */
    const Program *program;
    const Plan *plan;                   /* that is shown */
    const SimulationInput *in;
    const Simulation *simulation;       /* of a step */
    const char *machine;
    const char *predicted;              /* a timeline, as trace_print has it */
    const char *measured;               /* likewise, of ./train --trace; NULL: none is given */
    RunLog **runs; int run_count;
} Page;
void page_print(const Page *, Text *);
/* layers.c: a tree of the model's instances, as HTML that folds: time, FLOPs, bytes, parameters, whose values they read */
void layers_print(const Page *, Text *);
/* memory.c: who is where in a device's arena when, as SVG */
void arena_print(const Page *, Text *);
/* roofline.c: kernels by their time, and the roofline that they are under */
void kernels_print(const Page *, Text *);
#endif
