/* decode.h: the next rows of a model's output, of several texts side by side, place by place. */
#ifndef MGPU_RUNTIME_RUN_DECODE_H
#define MGPU_RUNTIME_RUN_DECODE_H

#include "runtime/data/data.h"
#include "runtime/engine/engine.h"

typedef struct Decoder {
    Feed feed;
    Dataset data;          /* a token and a place for each sample of a step: */
    int32_t *token, *place;
    int row;               /* a variable: the output's row of each sample */
} Decoder;

bool mgpu_open_decoder(Decoder *, const Feed *); /* false: the program has no such phase */
/* Of the first valid[d] samples of each device d, the place `place`, at which the text has `token`. The places before it were decoded
 * before, of the same text in the same sample. */
void mgpu_decode(Decoder *, const int64_t *valid);
/* after that, of a sample of this process's device; to: as many bytes as the variable has */
void mgpu_decoded_row(const Decoder *, int device, int64_t sample, void *to);
void mgpu_close_decoder(Decoder *);
#endif
