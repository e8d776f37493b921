/* page.h: a report: one HTML file that contains all it shows. page.c writes it, for mgpuc and for programs, page.css and page.js are its style and what makes its
 * timeline and its picture of memory move; without them it is tables and plots. */
#ifndef MGPU_REPORT_PAGE_H
#define MGPU_REPORT_PAGE_H

#include "runtime/report/runs.h"
#include "runtime/view/view.h"

typedef struct PageFile { const char *name, *text; } PageFile;
extern const PageFile mgpu_page_files[];     /* written by dsl/embed.sh; the last one's name is NULL */

typedef struct PageLayer { const char *path, *shape; int64_t parameters; int line; } PageLayer; /* an instance; its own parameters */
typedef struct Page {
    const char *title, *about;          /* about: a line below it */
    const char *from;                   /* what predictions rest on; NULL: nothing is said */
    const View *view;                   /* of the plan that is shown; NULL: there is no model, and what follows is not looked at up to `measured` */
    const View *accumulating, *prologue; /* with micro-batches: of all but the last, and of what runs ahead of them; NULL: there is none */
    const Table *summary;               /* a row for each plan */
    const char **advice; int advice_count;
    Plot scaling, steps;                /* speed-up, and the time of a step, over devices; without lines: there is one plan */
    const PageLayer *layers; int layer_count;
    const char *predicted;              /* a timeline; NULL: that of the schedule, one step by itself */
    const char *measured;               /* likewise, of ./train --trace; NULL: none is given */
    const char *measured_kind;          /* of that: of devices; and how many, and the batch; 0: not known */
    int64_t measured_devices, measured_batch;
    RunLog **runs; int run_count;
} Page;
/* adds a log, or a measured timeline; the page will be written to `output`, which is none of them */
void mgpu_page_add(Page *, const char *file, const char *output, Sheet *);
/* how many devices of the kind were measured: of the timeline, else of the first log; 0: none, or not known */
int64_t mgpu_page_devices(const Page *, const char *kind);
void mgpu_page_write(Page *, const char *output, Sheet *); /* ends the sheet */
/* layers.c: a tree of the model's instances, as HTML that folds: time, FLOPs, bytes, parameters, whose values they read */
void mgpu_layers_print(const Page *, Sheet *);
/* arena.c: who is where in a device's arena when, as SVG */
void mgpu_arena_print(const Page *, Sheet *);
/* predicted.c: the step of the schedule by itself, as a timeline; the caller frees */
char *mgpu_predicted_timeline(const View *);
/* roofline.c: kernels by their time, and the roofline that they are under */
void mgpu_kernels_print(const Page *, Sheet *);
#endif
