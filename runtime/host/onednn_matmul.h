/* onednn_matmul.h: a prepared matmul: onednn.c makes it, onednn_run.c runs it. */
#ifndef MGPU_ONEDNN_MATMUL_H
#define MGPU_ONEDNN_MATMUL_H

#include "runtime/host/onednn.h"
#include "runtime/host/onednn_library.h"

enum { A, B, C };                   /* operands and result in memory */
enum { X, W, Y };                   /* arguments of a primitive */

typedef struct Loop { int64_t count, move[3]; } Loop; /* bytes, in a, b, c */
typedef struct Tap { int64_t extent, stride; bool flipped; } Tap;

struct MgpuLibraryMatmul {
    OnednnPrimitive main, convert[3];   /* convert: between the memory of a, b, c and that of an argument; or nothing */
    int operand[3];                     /* which of a, b, c is X, W, Y */
    int result;                         /* X, W or Y */
    int64_t offset[3], sample[3];       /* bytes, in a, b, c: of the share; from sample to sample */
    Loop loop[4 * MGPU_AXES];
    int loops;
    int64_t from, to;                   /* of all iterations */
    bool moves[3];                      /* X, W, Y: some loop moves it */
    Tap flip[5];                        /* W's axes, some of them to be reversed */
    int flips;                          /* 0: nothing is */
    int64_t element;                    /* bytes of one of W in memory */
    int64_t staged[3], sums, flipped, scratch; /* offsets in scratch memory, and its size; sums == flipped: nothing to add */
    bool partial;
    int64_t zeros;                      /* bytes of C; a share without samples */
    int threads;
    OnednnSeat (**seat)[4];             /* of every thread: main, convert */
};
#endif
