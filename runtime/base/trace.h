/* trace.h: timelines of threads and devices. trace.c writes Chrome's trace event format (JSON, which Perfetto opens), for
 * predicted timelines of mgpuc and measured ones of programs, so that both have the same structure. spans.c keeps what threads
 * record while a program runs. docs/traces.md describes the file. */
#ifndef MGPU_BASE_TRACE_H
#define MGPU_BASE_TRACE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* ---- trace.c */
enum { TRACE_PROGRAM = -1 }; /* used as a device: what belongs to none */
/* 10 + t: worker t of comp */
enum { TRACK_HOST, TRACK_COPY, TRACK_COMP, TRACK_COMM, TRACK_SYNC, TRACK_LANES, TRACK_WORKERS = 10 };
enum { TRACK_STEPS, TRACK_LOOP, TRACK_SAVES, TRACK_DECODERS = 10 }; /* of the program; 10 + n: decoder n */
typedef struct TraceHead {
    const char *made;                          /* "predicted", "measured" */
    const char *model, *file, *kind, *machine; /* kind: of the devices; machine: NULL: not known */
    const char *plan, *plan_label;             /* of --plan, and its label (policy_label); NULL: none */
    int nodes, devices;                        /* nodes: 0 or 1: not shown; devices: of all nodes, equally many each */
    int64_t batch;
    double step_us; /* of a training step; 0: not known */
} TraceHead;
typedef struct TraceSlice {
    int device, track;
    const char *name, *category; /* category: the lane, "wait", "step" or "loop" */
    double begin_us, end_us;
    const char *op, *kernel, *phase, *layer, *role; /* NULL: none */
    int line;                                       /* 0: none */
    int64_t step;                                   /* 0: none */
    double bytes, flops;                            /* 0: none */
} TraceSlice;
typedef struct TracePoint {
    int device, track;
    double us;
} TracePoint;

void mgpu_trace_begin(FILE *, const TraceHead *);
void mgpu_trace_track(FILE *, int device, int track);
void mgpu_trace_slice(FILE *, const TraceSlice *);
void mgpu_trace_arrow(FILE *, int64_t number, const TracePoint *from, const TracePoint *to); /* both inside slices */
void mgpu_trace_end(FILE *);
int mgpu_trace_lane_track(int lane); /* MGPU_COMP ... -> TRACK_COMP ... */

/* ---- spans.c: what a thread did. One thread appends to a log; readers synchronize with it by other means. */
typedef enum SpanKind {
    SPAN_OP,
    SPAN_WAIT /* for `op` of its device */,
    SPAN_BARRIER /* for other devices, in `op` */,
    SPAN_TEXT
} SpanKind;
typedef struct Span {
    double begin, end;    /* mgpu_seconds */
    int64_t number, step; /* number: of the engine's step; step: of training, as the log counts them */
    const void *phase;
    const char *text; /* of SPAN_TEXT; not copied */
    int op;
    uint8_t kind;
} Span;
typedef struct SpanLog SpanLog;
SpanLog *mgpu_spans_open(void);
void mgpu_spans_close(SpanLog *);
void mgpu_spans_add(SpanLog *, const Span *);
int64_t mgpu_spans_count(const SpanLog *);
const Span *mgpu_spans_next(const SpanLog *, int64_t *at); /* *at: 0 at first; NULL: no more */
#endif
