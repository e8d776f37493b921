/* epilogue.h: what a kernel is to the contraction whose result, or operand, it reads. A target may do both at once. */
#ifndef MGPU_KERNEL_EPILOGUE_H
#define MGPU_KERNEL_EPILOGUE_H

#include "compiler/kernel/phase.h"

enum { EPILOGUE_READS = 6 /* of such a kernel, at most */ };

/* d: the contraction's result. A bias is that of an element's place along the last axis; sums are over all other axes */
typedef enum EpilogueKind {
    EPILOGUE_NONE,
    EPILOGUE_BIAS,          /* y = d + bias */
    EPILOGUE_RELU,          /* y = relu(d) or relu(d + bias) */
    EPILOGUE_GELU,          /* likewise; by tanh */
    EPILOGUE_GELU_GRADIENT, /* y = d gelu'(before + bias), where `before` is another contraction's result; and the sums of y */
    EPILOGUE_SUMS,          /* of an operand: over what the contraction sums, too */
    EPILOGUE_STATISTICS,    /* y = moments of d (batchnorm): d is stored as well, and others read it */
} EpilogueKind;

typedef struct Epilogue {
    EpilogueKind kind;
    int x, bias, before;    /* which of what the kernel reads: d or the operand, ...; -1: none */
    int y, sums;            /* which of what it writes */
} Epilogue;

/* ---- epilogue.c. A kernel of one nest that stores elements, all at one place, of what it reads there, and sums of at most one value
 * over the axes before the last: *sums; -1: none */
bool epilogue_is_pointwise(const Kernel *, int bias, int *sums);
bool epilogue_is_sum(const Kernel *);   /* its sums are those of all that it reads */
bool epilogue_finds_moments(const Kernel *); /* of what it reads */
bool epilogue_finds_function(const Kernel *, Epilogue *); /* of x and bias, in y: its kind */
/* `before` and bias are those of the forward kernel; from[i]: which of its writes the i-th read is; -1: none */
bool epilogue_is_gradient(const Kernel *, const Epilogue *, const Kernel *forward, const Epilogue *of_forward, const int *from);
#endif
