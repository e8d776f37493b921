/* decode.h: computes the next output rows of several texts side by side, one position at a time. */
#ifndef MGPU_RUNTIME_RUN_DECODE_H
#define MGPU_RUNTIME_RUN_DECODE_H

#include "runtime/data/data.h"
#include "runtime/engine/engine.h"

typedef struct Decoder {
    Feed feed;
    Dataset data; /* a token and a position for each sample of a step */
    int32_t *token, *place;
    int row; /* variable with the output row of each sample */
} Decoder;

bool mgpu_open_decoder(Decoder *, const Feed *); /* false if the program has no such phase */
/* Decodes position `place` with token `token` in the first valid[d] samples of each device d. Earlier positions of each text must
 * have been decoded in the same sample. */
void mgpu_decode(Decoder *, const int64_t *valid);
/* Reads a sample's row after mgpu_decode, from a device of this process; `to` has the size of the variable. */
void mgpu_decoded_row(const Decoder *, int device, int64_t sample, void *to);
void mgpu_close_decoder(Decoder *);
#endif
