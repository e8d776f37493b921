/* next.h: what follows each of several texts, side by side: rows of a model's output, by class. */
#ifndef MGPU_RUNTIME_RUN_NEXT_H
#define MGPU_RUNTIME_RUN_NEXT_H

#include "runtime/engine/processes.h"
#include "runtime/run/decode.h"
#include "runtime/run/text.h"

typedef struct NextText {
    Elements text;
    int64_t decoded; /* places that the decoder has computed */
} NextText;

typedef struct Next {
    const mgpu_program *program;
    const mgpu_input *input;
    const mgpu_tensor *output;
    Feed feed;
    Processes *processes;
    NextText **at;    /* by sample of a step: the text that has it, or NULL */
    NextText **now;   /* likewise: that is computed */
    int64_t *valid;   /* by device: samples that a step computes */
    uint8_t *rows;    /* of the texts in `now`, one after the other */
    double *row;      /* by class */
    uint8_t **result; /* by output, NULL but of ours: outputs of `windows` samples */
    int64_t windows;
    int32_t *window; /* by sample */
    Dataset data;    /* reads the windows */
    Decoder decoder;
    bool ordered, checked, decodes; /* what the first texts have shown */
} Next;

/* wanted: by input, as for the phase predict */
void mgpu_open_next(Next *, const mgpu_program *, const Feed *, Processes *, const mgpu_input *, int output, const bool *wanted);
/* The text takes part in all steps from now on; the first one that fits into the window shows how rows are computed. */
void mgpu_begin_next(Next *, NextText *);
void mgpu_end_next(Next *, NextText *);
/* A step. `take` gets the row after the last element of each text that has one, and may add elements to it; a text whose
 * prompt is computed place by place has none yet */
typedef void TakeRow(void *context, NextText *, double *row);
void mgpu_step_next(Next *, TakeRow *, void *context);
void mgpu_close_next(Next *);
#endif
