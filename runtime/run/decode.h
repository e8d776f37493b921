/* decode.h: the next row of a model's output, place by place. */
#ifndef MGPU_RUNTIME_RUN_DECODE_H
#define MGPU_RUNTIME_RUN_DECODE_H

#include "runtime/engine/engine.h"
#include "runtime/engine/processes.h"

typedef struct Decoder {
    Feed feed;
    double setting[MGPU_MAX_SETTINGS]; /* the feed's, with the token and its place */
    int token, place, row;             /* settings; a variable */
    int64_t count;                     /* of the text: places that were decoded */
    uint8_t *bytes;                    /* of the row */
} Decoder;

bool mgpu_open_decoder(Decoder *, const Feed *); /* false: the program has no such phase */
/* the tokens up to, not including, `count`; row: of the last one's place, for each class; those that were decoded before are
 * the same, unless Decoder.count was set to 0 for another text */
void mgpu_decode(Decoder *, const int64_t *tokens, int64_t count, Processes *, double *row);
void mgpu_close_decoder(Decoder *);
#endif
