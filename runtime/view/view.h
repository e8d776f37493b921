/* view.h: a schedule's text as people read it: a page, a layer, an operation, a timeline; two schedules compared.
 *
 * In: the text (docs/schedule.md), of a file or of the program itself, whose head may have comments with what is predicted. Out: text.
 * mgpuc and its programs share this: nothing here knows more than the text says. */
#ifndef MGPU_VIEW_H
#define MGPU_VIEW_H

#include "runtime/base/records.h"

typedef struct ViewRequest {
    const char *phase, *op, *layer, *at; /* NULL: not given; phase: train.full, else the first */
    int device;                     /* -1: not given */
    bool full, page, timeline;
    int width;                      /* of lines; 0: of the terminal, else 80 */
    bool colour;
} ViewRequest;

int mgpu_view_device(const char *text);              /* of --device; fails with status 2 */
bool mgpu_view_is_file(const ViewRequest *, FILE *); /* the text itself is asked for */
/* the text itself, where it is asked for or standard output is no terminal and nothing is; else what is asked for, or the page */
void mgpu_view_print(const char *text, const ViewRequest *, FILE *);
void mgpu_view_diff(const char *a, const char *b, const char *phase, FILE *); /* phase: as mgpu_view_read takes it */

/* ---- read.c */
typedef enum ViewLane { VIEW_COMP = MGPU_COMP, VIEW_COPY = MGPU_COPY, VIEW_COMM = MGPU_COMM, VIEW_SYNC = MGPU_SYNC, VIEW_HOST = MGPU_HOST, VIEW_LANES = MGPU_LANES } ViewLane;
extern const char *const mgpu_view_lane[VIEW_LANES];
typedef enum ViewCause { VIEW_FOR_COMPUTATION, VIEW_FOR_UPLOAD, VIEW_FOR_COMMUNICATION, VIEW_FOR_INPUT, VIEW_FOR_DEVICES, VIEW_FOR_NOTHING, VIEW_CAUSES } ViewCause;
extern const char *const mgpu_view_cause[VIEW_CAUSES];
typedef struct ViewUse { bool known; double busy_us, idle_us[VIEW_CAUSES]; } ViewUse;
typedef struct ViewUses { int first, last; ViewUse lanes[VIEW_LANES]; } ViewUses; /* of these devices */
typedef struct ViewLink { const char *name; double bytes, share; } ViewLink;
typedef struct ViewBuffer {
    const char *name, *kind;
    int64_t offset, bytes;          /* of all slots */
    int slots;
    int first, last;                /* operations that touch it; -1: none does */
} ViewBuffer;
typedef struct ViewWait { int op, back; const char *why; } ViewWait; /* why NULL: nothing is said */
typedef struct ViewOp {
    const char *name, *verb, *label, *layer, *role; /* layer, role: "" where none */
    ViewLane lane;
    double begin_us, time_us, flops, bytes; /* flops, bytes: of a call */
    int line;
    int64_t *ranges;                /* bytes of the accesses */
    const char **accesses; int read_count, access_count; /* reads, then writes, as written */
    int *buffers;                   /* of the accesses */
    ViewWait *waits; int wait_count;
} ViewOp;
typedef struct ViewCollective {
    const char *name, *kind, *way, *why; /* why "": nothing is said */
    int64_t bytes;
    const char **of; int of_count;
} ViewCollective;
typedef struct ViewDevice {
    const char *name;
    int64_t arena, work, staging, first, end;
    int as;                         /* whose buffers and operations these are; its own number: its own */
    ViewBuffer *buffers; int buffer_count;
    ViewOp *ops; int op_count;
    mgpu_names buffer_names, op_names;
} ViewDevice;
typedef struct View {               /* one phase of a schedule */
    struct ViewBlock *memory;       /* of all that it has */
    const char *model, *precision, *phase;
    const char *plan, *label;       /* of --plan, and what has to be said of it; NULL: none */
    int64_t batch, besides;         /* bytes that transfers take of each GPU besides its arena */
    int accumulate, device_count, nodes; /* device_count: of all nodes, equally many each */
    bool predicts;                  /* no phase trains: a step is one of predict */
    const char **phases; int phase_count;
    const char **kernels; int kernel_count;
    const char **extents;           /* of the kernels, what their threads run over; "": nothing is said */
    double bandwidth, plain, matrix; /* of device 0, a second; 0: not known */
    const char *machine, *bound;    /* NULL: nothing is predicted */
    double step_us;
    ViewUses *uses; int use_count;
    ViewLink *links; int link_count;
    ViewDevice *devices;
    ViewCollective *collectives; int collective_count;
    double end_us;                  /* of the last operation */
} View;
View *mgpu_view_read(const char *text, const char *phase); /* NULL: train.full, of what only predicts predict.full, else the
                                                              first. Fails if there is none of that name */
bool mgpu_view_is_step(const View *,
                       bool partial); /* what is predicted of a step is of this phase, which is full, or partial, too */
void mgpu_view_free(View *);
int mgpu_view_find_buffer(const ViewDevice *, const char *name); /* -1: there is none */
int mgpu_view_find_op(const ViewDevice *, const char *name); /* -1: there is none */
const ViewUses *mgpu_view_uses(const View *, int device);    /* NULL: not predicted */
bool mgpu_view_has_layer(const char *name, const char *layer); /* "layer3.2.conv1" is in "layer3.2" */

const ViewCollective *mgpu_view_find_collective(const View *, const char *name); /* NULL: there is none */
double mgpu_view_op_bytes(const ViewOp *);                   /* that a call moves; of a copy, that it copies */
double mgpu_view_memory(const View *, int device);           /* bytes that the phase takes of it */
bool mgpu_view_stays(const ViewBuffer *);                    /* it is used from step to step */

/* ---- words.c */
const char *mgpu_view_time(double us, char text[32]);   /* 12.3 us, 1.234 ms, 1.234 s */
const char *mgpu_view_bytes(double bytes, char text[32]);
const char *mgpu_view_number(double n, char text[32]);  /* 12,345 */
const char *mgpu_view_ms(double us, char text[32]);     /* 146.12, 0.0812: milliseconds, three figures at least */
const char *mgpu_view_rate(double per_s, char text[32]); /* 219.0, 1,722 */
double mgpu_view_time_of(const char *text);             /* of "3ms", microseconds; fails with status 2 */
const char *mgpu_view_cut(const char *name, int width, char *text, size_t room); /* longer names lose their middle */

/* ---- pages */
void mgpu_view_page(const View *, const ViewRequest *, FILE *);
void mgpu_view_op(const View *, const ViewRequest *, FILE *);
void mgpu_view_layer(const View *, const ViewRequest *, FILE *);
void mgpu_view_memory_page(const View *, const ViewDevice *, int number, int width, FILE *); /* memory.c: of the device with that number */
void mgpu_view_layers(const ViewDevice *, const char *within, int width,
                      FILE *); /* parts of the model, the most expensive first; within NULL: all */
void mgpu_view_at(const View *, const ViewRequest *, FILE *);
void mgpu_view_timeline(const View *, const ViewRequest *, FILE *);
#endif
