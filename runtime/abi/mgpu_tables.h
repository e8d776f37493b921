/* mgpu_tables.h: constant tables that describe contractions, attention and rows, for the runtime library (mgpu_gemm.h,
 * mgpu_attention.h, mgpu_rows.h) and for GPUs (mgpu_device_*.h). */
#ifndef MGPU_TABLES_H
#define MGPU_TABLES_H

#ifndef __CUDACC_RTC__ /* NVRTC has no system headers */
#include <stdbool.h>
#include <stdint.h>
#endif
#include "mgpu_types.h"

/* ---- contractions: mgpu_gemm.h */

enum {
    MGPU_AXES = 9, /* in one of batch, M, N, K: eight of a tensor and the samples */
    MGPU_WINDOWS = 7,
    MGPU_SAMPLES = -1 /* as an extent: the samples of the call */
};

typedef struct mgpu_axis {
    int64_t extent;  /* or MGPU_SAMPLES */
    int64_t a, b, c; /* strides, in elements */
    int window;      /* 0: none; w: its index times `step` is added to the position in window[w - 1] */
    int64_t step;
} mgpu_axis;

typedef struct mgpu_window {
    int64_t extent;         /* of A in this dimension */
    int64_t stride;         /* of this dimension in A, in elements */
    int64_t first;          /* position of place 0, tap 0: minus the low padding */
    int64_t input_dilation; /* positions that are no multiple of it are 0 */
} mgpu_window;

/* The windows of a convolution, for a library that knows convolutions:
 *     y[p, (g, o)] = sum over k, c of x'[stride p + dilation k - padding_low, (g, c)] w[(g, o), c, k]
 * x' is x with input_dilation - 1 zeros between neighbours. Strides are in elements. */
typedef struct mgpu_convolution {
    bool weight;   /* the result is w, computed from x and (the gradient of) y; else y from x and w: arguments 0, 1 -> 2 */
    bool reversed; /* w[k] is in memory at the place of tap w - 1 - k */
    int dims;      /* 1 to 3; others are not described */
    int64_t groups, in, out;  /* channels of one group */
    int64_t x[3], w[3], y[3]; /* extents: places, taps, places */
    int64_t stride[3], dilation[3], padding_low[3], input_dilation[3];
    int64_t x_stride[5], w_stride[5], y_stride[5]; /* x, y: sample, channel, places; w: (g, o), c, taps */
} mgpu_convolution;

typedef struct mgpu_contraction {
    int batch, m, n, k; /* numbers of axes, in this order in `axis` */
    const mgpu_axis *axis;
    int windows;
    const mgpu_window *window;           /* they move over A */
    const mgpu_convolution *convolution; /* NULL: no convolution, or one of more than three dimensions */
    int64_t a, b;                        /* offsets of the operands */
    bool swapped;                        /* A is argument[1], B is argument[0]; else the reverse */
    uint8_t type;                        /* MGPU_F32 or MGPU_F64: of sums and of tensors, except `half` ones */
    mgpu_half half_a, half_b, half_c;
    /* bytes of the workspace, multiples of 64: a copy of a block of A (0: A is read in place), sums that are not stored to C
     * directly (0: all are), B packed in vectors along N */
    int64_t copy, sums, packed;
    bool unroll; /* there is room to unroll places of a window into N: mgpu_unroll in contract_matmul.h */
    bool keep;   /* there is room for all of B, which stays packed between the calls of an operation */
} mgpu_contraction;

/* ---- attention: mgpu_attention.h */

/* Elements [row, head, place] of a sample; the places of a head are contiguous. */
typedef struct mgpu_attention_operand {
    int argument;                     /* -1: a result that is not wanted */
    int64_t first, sample, row, head; /* offset and strides, in elements; sample 0: the same for all */
    mgpu_half half;
} mgpu_attention_operand;

typedef struct mgpu_attention {
    uint8_t type;                         /* MGPU_F32 or MGPU_F64: of sums and of tensors, except `half` ones */
    bool backward, causal;                /* causal: age >= 0, with age = query + keys - queries - key */
    int64_t queries, keys, heads, groups; /* heads / groups heads of q share one of k and v */
    int64_t d, e, window;                 /* elements of a key, of a value; window: 0, or age < window */
    double scale;
    int64_t rows;                      /* queries of a block */
    mgpu_attention_operand q, k, v, g; /* g: the gradient of y */
    /* backward: operands, too; the host's does not use y. sums [head, row, 2]: m = max sign(scale) q k', and log sum exp(scale q
     * k' - |scale| m); 0 and infinity if no key is seen */
    mgpu_attention_operand y, sums;
    mgpu_attention_operand dq, dk, dv;
    int workspace; /* its argument: mgpu_attention_room elements */
} mgpu_attention;

/* ---- rows: mgpu_rows.h */

/* Running operations along an axis: y[i] is y[i - 1] combined with x[i]; "y[-1]" is the start, which changes nothing. X(NAME,
 * name, operation, C of a and b, start, "plural"): OP_NAME and `name` are the primitive's, OP_operation combines two elements.
 * Whole numbers are combined modulo 2^n, f32 in double. Kernels and what the compiler knows of them follow from these rows. */
#define MGPU_RUNNING_TABLE(X) X(CUMSUM, cumsum, ADD, a + b, 0, "running sums")

enum { MGPU_ROW_AXES = 7 /* of a tensor, except one */ };

/* Extent, and strides of the operand and the results, in elements. */
typedef struct mgpu_row_axis {
    int64_t extent, operand, result;
} mgpu_row_axis;

typedef struct mgpu_rows {
    uint8_t type;        /* of the operand, sums and values */
    mgpu_half half;      /* of the operand; then `type` is MGPU_F32 */
    bool backwards;      /* a running operation starts at the last element */
    mgpu_row_axis along; /* the axis; its extent is the operand's */
    int64_t k;           /* of mgpu_top_k */
    int axes;            /* the other axes, outermost first, which count the rows of a sample */
    mgpu_row_axis axis[MGPU_ROW_AXES];
    int64_t rows;                           /* of a sample */
    int64_t operand_sample, result_sample;  /* strides; 0: the same for all samples */
    bool by_row;                            /* parts are ranges of rows, else of samples */
    int operand, values, places, workspace; /* arguments; -1: none. a running operation: values. places: MGPU_I32 */
} mgpu_rows;
#endif
