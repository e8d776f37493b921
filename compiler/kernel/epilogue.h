/* epilogue.h: classifies a kernel that reads a contraction's result or operand. A target may fuse it with the contraction. */
#ifndef MGPU_KERNEL_EPILOGUE_H
#define MGPU_KERNEL_EPILOGUE_H

#include "compiler/kernel/phase.h"

enum { EPILOGUE_READS = 6 /* the most tensors that such a kernel reads */ };

/* d is the contraction's result. A bias is indexed by the position along the last axis; sums are over all other axes. */
typedef enum EpilogueKind {
    EPILOGUE_NONE,
    EPILOGUE_BIAS,          /* y = d + bias */
    EPILOGUE_RELU,          /* y = relu(d) or relu(d + bias) */
    EPILOGUE_GELU,          /* likewise; by tanh */
    EPILOGUE_GELU_GRADIENT, /* y = d gelu'(before + bias), where `before` is another contraction's result; and the sums of y */
    EPILOGUE_SUMS,          /* sums of an operand, over axes that the contraction sums over, too */
} EpilogueKind;

typedef struct Epilogue {
    EpilogueKind kind;
    /* indices into the kernel's reads: d or the operand, the bias, the other contraction's result; -1: none */
    int x, bias, before;
    int y, sums; /* indices into the kernel's writes; -1: none */
} Epilogue;

/* ---- epilogue.c */
/* Returns true if the kernel has one nest and stores elements that depend only on what it reads at the same position (and on the
 * bias), and at most one sum of such values over all axes but the last: write *sums; -1: none. */
bool epilogue_is_pointwise(const Kernel *, int bias, int *sums);
bool epilogue_is_sum(const Kernel *); /* Returns true if the sums are over all elements that the kernel reads. */
/* Finds which function of x and bias the kernel stores in y, and sets its kind. */
bool epilogue_finds_function(const Kernel *, Epilogue *);
/* Returns true if the kernel is the gradient of gelu: `before` and the bias are those of the forward kernel. from[i] is the index
 * of the forward kernel's write that read i is; -1: none. */
bool epilogue_is_gradient(const Kernel *, const Epilogue *, const Kernel *forward, const Epilogue *of_forward, const int *from);
#endif
