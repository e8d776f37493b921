/* next.h: computes what follows each of several texts side by side: rows of a model's output, with an element for each class. */
#ifndef MGPU_RUNTIME_RUN_NEXT_H
#define MGPU_RUNTIME_RUN_NEXT_H

#include "runtime/engine/processes.h"
#include "runtime/run/decode.h"
#include "runtime/run/text.h"

typedef struct NextText {
    Elements text;
    int64_t decoded; /* number of positions that have been decoded */
} NextText;

typedef struct Next {
    const mgpu_program *program;
    const mgpu_input *input;
    const mgpu_tensor *output;
    Feed feed;
    Processes *processes;
    NextText **at;    /* for each sample of a step: its text, or NULL */
    NextText **now;   /* the same for the texts that are being computed */
    int64_t *valid;   /* for each device: samples that a step computes */
    uint8_t *rows;    /* of the texts in `now`, one after the other */
    double *row;      /* for each class */
    uint8_t **result; /* for each output: values of `windows` samples; NULL for all but ours */
    int64_t windows;
    int32_t *window; /* for each sample */
    Dataset data;    /* reads the windows */
    Decoder decoder;
    bool ordered, checked, decodes; /* what has been found with the first texts */
} Next;

/* wanted: for each input, as in the phase predict. */
void mgpu_open_next(Next *, const mgpu_program *, const Feed *, Processes *, const mgpu_input *, int output, const bool *wanted);
/* Adds a text to all following steps. With the first one that fits into the window, finds out how to compute rows. */
void mgpu_begin_next(Next *, NextText *);
void mgpu_end_next(Next *, NextText *);
/* Runs a step. `take` gets the row after the last element of each text, unless the text's prompt is still being decoded. It may
 * append elements to the text. */
typedef void TakeRow(void *context, NextText *, double *row);
void mgpu_step_next(Next *, TakeRow *, void *context);
void mgpu_close_next(Next *);
#endif
