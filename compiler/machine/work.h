/* work.h: the kinds of work that the cost model knows: what a kernel is to it. */
#ifndef MGPU_MACHINE_WORK_H
#define MGPU_MACHINE_WORK_H

typedef enum WorkKind {
    WORK_ELEMENTWISE,        /* element by element */
    WORK_SUMS,          /* loops with sums, maxima */
    WORK_SCATTER,       /* a table that is added to */
    WORK_MATMUL, WORK_CONVOLUTION,
    WORK_DEPTHWISE, WORK_DEPTHWISE_WEIGHT, /* every channel for itself; the gradient of its weights */
    WORK_DILATED,       /* a convolution of dilated places (conv_transpose) into few channels, or its gradient */
    WORK_ATTENTION,
    WORK_ROWS,          /* running sums, the k largest */
    WORK_SCAN,          /* a loop over steps */
    WORK_KINDS
} WorkKind;
#endif
