/* view.h: shows a schedule as a page, a layer, an operation or a timeline, and compares two schedules.
 *
 * In: the text of a file (docs/schedule.md), whose header comments may contain predictions, or the image of a program. Out: text.
 * mgpuc and its programs share this code, which uses only what the text contains. */
#ifndef MGPU_VIEW_H
#define MGPU_VIEW_H

#include "runtime/schedule/schedule.h"

typedef struct ViewRequest {
    const char *phase, *op, *layer, *at; /* NULL: not given; phase: train.full, else the first */
    int device;                          /* -1: not given */
    bool full, page, timeline;
    int width; /* width of lines; 0: that of the terminal, else 80 */
    bool colour;
} ViewRequest;

typedef struct ViewSource {
    const char *text;
    const uint64_t *image;
} ViewSource; /* the text of a file; or, if that is NULL, the image of a program */

int mgpu_view_device(const char *text);              /* parses --device; fails with status 2 */
bool mgpu_view_is_file(const ViewRequest *, FILE *); /* Returns whether the output is the schedule's text. */
/* Prints the schedule's text if requested, or if nothing is and the output is no terminal; else the views, or the page. */
void mgpu_view_print(const ViewSource *, const ViewRequest *, FILE *);
void mgpu_view_diff(const char *a, const char *b, const char *phase, FILE *); /* phase: as mgpu_view_read takes it */

/* ---- read.c */
typedef DeviceSchedule ViewDevice; /* strings that are not given are "", not NULL */
typedef struct View {              /* one phase of a schedule */
    mgpu_block *memory;            /* all memory of the view */
    const Schedule *schedule;
    const StepRecord *step; /* the prediction */
    const PhaseSchedule *phase;
    const ViewDevice *devices;
    double end_us; /* end of the last operation */
} View;
/* Reads a phase; NULL: train.full, in a schedule that only predicts predict.full, else the first. Fails if it does not exist. */
View *mgpu_view_read(const ViewSource *, const char *phase);
bool mgpu_view_is_step(const View *,
                       bool partial); /* the prediction is for this phase, which is full, or with `partial` may be partial */
void mgpu_view_free(View *);
int mgpu_view_find_buffer(const ViewDevice *, const char *name);                   /* -1 if there is none */
int mgpu_view_find_op(const ViewDevice *, const char *name);                       /* -1 if there is none */
const LaneUse *mgpu_view_use(const View *, int device, Lane);                      /* NULL if not predicted */
bool mgpu_view_has_layer(const char *name, const char *layer);                     /* true for "layer3.2.conv1" and "layer3.2" */
const CollectiveRecord *mgpu_view_find_collective(const View *, const char *name); /* NULL if there is none */
int64_t mgpu_view_collective_bytes(const CollectiveRecord *);
int64_t mgpu_view_buffer_bytes(const Buffer *); /* bytes of all slots */
/* for qsort: pointers to Buffer by bytes, to ScheduledOp by time; the largest first */
int mgpu_view_by_bytes(const void *, const void *);
int mgpu_view_by_time(const void *, const void *);
/* The passes of a step. An operation is of the one that its role begins with; -1: of none. Members of a call may be of another
 * one, so its time is divided (ScheduledOp.other_pass). */
enum { MGPU_FORWARD, MGPU_BACKWARD, MGPU_UPDATE, MGPU_PASSES };
extern const char *const MGPU_PASS_NAME[MGPU_PASSES];
int mgpu_view_pass(const ScheduledOp *);
double mgpu_view_pass_part(const ScheduledOp *, int pass); /* the part of its time that it spends for this pass, from 0 to 1 */
double mgpu_view_op_bytes(const ScheduledOp *);            /* bytes that a call moves or a copy copies */
double mgpu_view_memory(const View *, int device);         /* bytes that the phase needs on it */
bool mgpu_view_stays(const Buffer *);                      /* persists between steps */
enum { MGPU_VIEW_REASON = 1024 };
/* Describes what is waited for, such as "makes in.image"; "" if unknown. */
const char *mgpu_view_reason(const ViewDevice *, const ScheduledOp *, const Wait *, char text[MGPU_VIEW_REASON]);

/* ---- words.c */
const char *mgpu_view_time(double us, char text[32]); /* 12.3 us, 1.234 ms, 1.234 s */
const char *mgpu_view_bytes(double bytes, char text[32]);
const char *mgpu_view_number(double n, char text[32]);   /* 12,345 */
const char *mgpu_view_ms(double us, char text[32]);      /* 146.12, 0.0812: milliseconds with at least three digits */
const char *mgpu_view_rate(double per_s, char text[32]); /* 219.0, 1,722 */
double mgpu_view_time_of(const char *text);              /* "3ms" in microseconds; exits with status 2 if invalid */
const char *mgpu_view_cut(const char *name, int width, char *text, size_t capacity); /* shortens long names in the middle */

/* ---- pages */
void mgpu_view_page(const View *, const ViewRequest *, FILE *);
void mgpu_view_op(const View *, const ViewRequest *, FILE *);
void mgpu_view_layer(const View *, const ViewRequest *, FILE *);
/* memory.c; number: of the device */
void mgpu_view_memory_page(const View *, const ViewDevice *, int number, int width, FILE *);
void mgpu_view_layers(const ViewDevice *, const char *within, int width,
                      FILE *); /* parts of the model, the most expensive first; within NULL: all */
void mgpu_view_at(const View *, const ViewRequest *, FILE *);
void mgpu_view_timeline(const View *, const ViewRequest *, FILE *);
#endif
