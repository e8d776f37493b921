/* onednn_matmul.h: a prepared contraction, which onednn.c creates and onednn_run.c runs. */
#ifndef MGPU_ONEDNN_MATMUL_H
#define MGPU_ONEDNN_MATMUL_H

#include "runtime/host/onednn.h"
#include "runtime/host/onednn_library.h"

enum { A, B, C }; /* operands and result in memory */
enum { X, W, Y }; /* arguments of a primitive */

typedef struct Loop {
    int64_t count, move[3];
} Loop; /* strides in bytes, of a, b, c */
typedef struct Tap {
    int64_t extent, stride;
    bool flipped;
} Tap;

struct MgpuLibraryMatmul {
    OnednnPrimitive main, convert[3]; /* convert: between the memory of a, b, c and the format of an argument, if they differ */
    int operand[3];                   /* which of a, b, c is X, W, Y */
    int result;                       /* X, W or Y */
    int64_t offset[3], sample[3];     /* bytes, in a, b, c: of the share; per sample */
    Loop loop[4 * MGPU_AXES];
    int loops;
    int64_t from, to;                          /* range of all iterations */
    bool moves[3];                             /* X, W, Y: it changes with the iteration */
    Tap flip[5];                               /* W's axes, some of them to be reversed */
    int flips;                                 /* 0: none are reversed */
    int64_t element;                           /* bytes of an element of W in memory */
    int64_t staged[3], sums, flipped, scratch; /* offsets in scratch memory, and its size; sums == flipped: no addition */
    bool partial;
    int64_t zeros; /* share without samples: bytes of C to clear */
    int threads;
    OnednnThread (**per_thread)[4]; /* [thread]: of main and convert */
};
#endif
