/* mgpu_vector.h: SIMD vectors of emitted kernels. mgpuc vectorizes loops itself, so that nothing depends on a C compiler's
 * vectorizer. There are two classes of vectors, which depend on the size of the processor's registers:
 *
 *   mgpu_..._n  narrow: lanes of 4 bytes fill a register (f32, i32, u32)
 *   mgpu_..._w  wide: lanes of 8 bytes fill a register (f64, i64); half as many, so lanes of 4 bytes fill half a register
 *
 * If the C compiler has no vectors (tcc) or does not optimize, a vector has one lane. Arithmetic is that of GNU C; multiply-adds,
 * selection, masked loads and stores, and square roots are instructions. Results do not depend on the C compiler. Reductions
 * depend on the number of lanes, which are combined in a fixed tree. */
#ifndef MGPU_VECTOR_H
#define MGPU_VECTOR_H

#include "mgpu_math.h"

#if defined __TINYC__ || !defined __OPTIMIZE__
#define MGPU_VECTOR_BYTES 4
#elif defined __AVX512F__ && defined __AVX512VL__ && defined __AVX512BW__ && defined __AVX512DQ__
#define MGPU_VECTOR_BYTES 64
#elif defined __AVX2__ && defined __FMA__
#define MGPU_VECTOR_BYTES 32
#else
#define MGPU_VECTOR_BYTES 16
#endif

#if MGPU_VECTOR_BYTES >= 32 && !defined __clang__ /* for gcc's builtins; clang selects these instructions itself */
#define MGPU_X86 1
#if MGPU_VECTOR_BYTES == 64
#define MGPU_AVX512 1
#endif
#endif

/* Return the number of active lanes of the next vector, with `left` iterations left. MGPU_LANES_OF is a constant if a constant
 * extent is a multiple of the lanes. */
MGPU_FUNCTION int mgpu_lanes(int64_t left, int lanes) { return left < lanes ? (int)left : lanes; }
#define MGPU_LANES_OF(extent, at, lanes) ((extent) % (lanes) ? mgpu_lanes((extent) - (at), lanes) : (lanes))

#if MGPU_VECTOR_BYTES == 4
enum { MGPU_LANES_n = 1, MGPU_LANES_w = 1 };
#define V(name) mgpu_##name##_n
#define T(name) mgpu_##name##_n
#define MGPU_WIDE 0
#include "mgpu_vector_one.h"
#include "mgpu_vector_functions.h"
#define V(name) mgpu_##name##_w
#define T(name) mgpu_##name##_w
#define MGPU_WIDE 1
#include "mgpu_vector_one.h"
#include "mgpu_vector_functions.h"
#else
enum { MGPU_LANES_n = MGPU_VECTOR_BYTES / 4, MGPU_LANES_w = MGPU_VECTOR_BYTES / 8 };
#define V(name) mgpu_##name##_n
#define T(name) mgpu_##name##_n
#define MGPU_WIDE 0
#define MGPU_LANES (MGPU_VECTOR_BYTES / 4)
#include "mgpu_vector_lanes.h"
#include "mgpu_vector_functions.h"
#define V(name) mgpu_##name##_w
#define T(name) mgpu_##name##_w
#define MGPU_WIDE 1
#define MGPU_LANES (MGPU_VECTOR_BYTES / 8)
#include "mgpu_vector_lanes.h"
#include "mgpu_vector_functions.h"
#endif
#endif
