/* contraction_internal.h: the structures that contraction.c makes and target/host/contraction.c prints. */
#ifndef MGPU_CONTRACTION_INTERNAL_H
#define MGPU_CONTRACTION_INTERNAL_H

#include "compiler/kernel/contraction.h"
#include "compiler/kernel/phase.h"
#include "runtime/abi/mgpu_gemm.h"

enum { A, B, C };
enum { BATCH, M, N, K, LISTS };

typedef struct MatmulAxis {
    const char *label;
    int64_t extent;    /* MGPU_SAMPLES for the axis of samples */
    int64_t stride[3]; /* elements, in a, b, c */
    bool in[3];
    int window; /* number of its window + 1; 0: none */
    int64_t step;
} MatmulAxis;

typedef struct Window {
    int64_t extent, stride, first, input_dilation;
} Window;

struct Contraction {
    const Node *node;
    const Tensor *tensor[3];
    MatmulAxis *axes;
    int axis_count;
    MatmulAxis *list[LISTS]; /* pointers into sorted copies of `axes` */
    int count[LISTS];
    Window window[MGPU_WINDOWS];
    int windows;
    int64_t first[2];       /* offset of the element at all indices 0, in a and b */
    bool workers_share;     /* the workers of a thread pool divide the results, not the samples */
    bool by_one_worker;     /* one worker calls it many times, for some of the samples each time */
    bool swapped;           /* A is argument 1 (b) of the kernel, B argument 0 */
    int tiles;              /* GPUs: 0: the tiles with the best estimate, 1: the next ones, ... */
    mgpu_contraction table; /* what the runtime reads; axes of one element are left out */
    const char **label;     /* names of the table's axes */
};
#endif
