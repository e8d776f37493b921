/* contraction_internal.h: what contraction.c makes and host/contraction.c prints. */
#ifndef MGPU_CONTRACTION_INTERNAL_H
#define MGPU_CONTRACTION_INTERNAL_H

#include "compiler/kernel/contraction.h"
#include "compiler/kernel/phase.h"
#include "runtime/abi/mgpu_gemm.h"

enum { A, B, C };
enum { BATCH, M, N, K, LISTS };

typedef struct MatmulAxis {
    const char *label;
    int64_t extent;         /* of the samples: MGPU_SAMPLES */
    int64_t stride[3];      /* in a, b, c */
    bool in[3];
    int window;             /* 0: none */
    int64_t step;
} MatmulAxis;

typedef struct Window { int64_t extent, stride, first, input_dilation; } Window;

struct Contraction {
    const Node *node;
    const Tensor *tensor[3];
    MatmulAxis *axes;
    int axis_count;
    MatmulAxis *list[LISTS]; /* pointers into sorted copies */
    int count[LISTS];
    Window window[MGPU_WINDOWS];
    int windows;
    int64_t first[2];       /* offset of the element at all indices 0, in a and b */
    bool shared;              /* the workers of a thread pool share its results, not the samples */
    bool alone;             /* one thread has the samples of a call to itself, and there are many calls */
    bool swapped;           /* the contraction's A is argument 1, b */
    const Kernel *statistics; /* on GPUs: it computes those of this kernel, too (EPILOGUE_STATISTICS); NULL: none */
    int tiles;              /* on GPUs: 0: those that the estimate prefers, 1: the next ones, ... */
    mgpu_contraction table; /* what the runtime gets: without axes of one element */
    const char **label;     /* of its axes */
};
#endif
