/* work.h: the kinds of work that the cost model distinguishes. */
#ifndef MGPU_MACHINE_WORK_H
#define MGPU_MACHINE_WORK_H

typedef enum WorkKind {
    WORK_ELEMENTWISE, /* element by element */
    WORK_SUMS,        /* loops with sums, maxima */
    WORK_SCATTER,     /* a table that is added to */
    WORK_MATMUL,
    WORK_CONVOLUTION,
    WORK_DEPTHWISE,
    WORK_DEPTHWISE_WEIGHT, /* one channel per group; the gradient of its weights */
    WORK_DILATED,          /* a convolution with input dilation (conv_transpose) to few channels, or its gradient */
    WORK_ATTENTION,
    WORK_ROWS, /* running sums, the k largest */
    WORK_SCAN, /* a loop over steps */
    WORK_KINDS
} WorkKind;
#endif
