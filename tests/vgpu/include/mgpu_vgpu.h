/* mgpu_vgpu.h: what CUDA C++ has built in, for the host's C++ compiler (C++17): emitted kernels, compiled with -DMGPU_VGPU,
 * run on the virtual GPU (docs/vgpu.md, which has the command). Types and functions are those of the CUDA C++ programming
 * guide; what is not here is not used by emitted text. Floating-point atomics are left out on purpose: results must not
 * depend on an order. */
#ifndef MGPU_VGPU_H
#define MGPU_VGPU_H

#define _GLIBCXX_INCLUDE_NEXT_C_HEADERS /* C's math.h: C++'s takes longer to read than the kernels */
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "mgpu_vgpu_launch.h"

#define __global__
#define __device__
#define __host__
#define __constant__
#define __shared__ static
#define __launch_bounds__(...)
#define __grid_constant__
#define __grid_constant__
#define __noinline__ __attribute__((noinline))
#define __forceinline__ inline /* always inlined, what has tiles takes half as long again to compile, and runs no faster */
#define __align__(n) __attribute__((aligned(n)))

#if defined __SANITIZE_THREAD__
#define MGPU_VGPU_CHECKED
#elif defined __has_feature
#if __has_feature(thread_sanitizer)
#define MGPU_VGPU_CHECKED
#endif
#endif
#define MGPU_VGPU_OWN __attribute__((no_sanitize("thread"), no_sanitize("undefined"))) /* not what a kernel does itself */

/* ---- vector types */

#define MGPU_VGPU_VECTORS(type, name, align2, align4)                                                                     \
    struct name##1 { type x; };                                                                                           \
    struct __attribute__((aligned(align2))) name##2 { type x, y; };                                                       \
    struct name##3 { type x, y, z; };                                                                                     \
    struct __attribute__((aligned(align4))) name##4 { type x, y, z, w; };                                                 \
    static inline name##1 make_##name##1(type x) { return {x}; }                                                          \
    static inline name##2 make_##name##2(type x, type y) { return {x, y}; }                                               \
    static inline name##3 make_##name##3(type x, type y, type z) { return {x, y, z}; }                                    \
    static inline name##4 make_##name##4(type x, type y, type z, type w) { return {x, y, z, w}; }
MGPU_VGPU_VECTORS(signed char, char, 2, 4)
MGPU_VGPU_VECTORS(unsigned char, uchar, 2, 4)
MGPU_VGPU_VECTORS(short, short, 4, 8)
MGPU_VGPU_VECTORS(unsigned short, ushort, 4, 8)
MGPU_VGPU_VECTORS(int, int, 8, 16)
MGPU_VGPU_VECTORS(unsigned, uint, 8, 16)
MGPU_VGPU_VECTORS(long, long, 16, 16)
MGPU_VGPU_VECTORS(unsigned long, ulong, 16, 16)
MGPU_VGPU_VECTORS(long long, longlong, 16, 16)
MGPU_VGPU_VECTORS(unsigned long long, ulonglong, 16, 16)
MGPU_VGPU_VECTORS(float, float, 8, 16)
MGPU_VGPU_VECTORS(double, double, 16, 16)
#undef MGPU_VGPU_VECTORS

struct dim3 {
    unsigned x, y, z;
    constexpr dim3(unsigned vx = 1, unsigned vy = 1, unsigned vz = 1) : x(vx), y(vy), z(vz) {}
};

/* ---- built-in variables */

struct mgpu_vgpu_built_in { uint3 thread, block; dim3 threads, blocks; };
__attribute__((section(".data.mgpu_vgpu"))) static mgpu_vgpu_built_in mgpu_vgpu_built_in_variables =
    {{0, 0, 0}, {0, 0, 0}, {1, 1, 1}, {1, 1, 1}};
#define threadIdx (static_cast<const uint3 &>(mgpu_vgpu_built_in_variables.thread))
#define blockIdx (static_cast<const uint3 &>(mgpu_vgpu_built_in_variables.block))
#define blockDim (static_cast<const dim3 &>(mgpu_vgpu_built_in_variables.threads))
#define gridDim (static_cast<const dim3 &>(mgpu_vgpu_built_in_variables.blocks))
#define warpSize 32

/* ---- arithmetic: the overloads of C's functions for float */

#define MGPU_VGPU_MATH_1(name) static inline float name(float a) { return __builtin_##name##f(a); }
MGPU_VGPU_MATH_1(sqrt) MGPU_VGPU_MATH_1(cbrt) MGPU_VGPU_MATH_1(exp) MGPU_VGPU_MATH_1(exp2) MGPU_VGPU_MATH_1(expm1)
MGPU_VGPU_MATH_1(log) MGPU_VGPU_MATH_1(log2) MGPU_VGPU_MATH_1(log10) MGPU_VGPU_MATH_1(log1p)
MGPU_VGPU_MATH_1(sin) MGPU_VGPU_MATH_1(cos) MGPU_VGPU_MATH_1(tan) MGPU_VGPU_MATH_1(asin) MGPU_VGPU_MATH_1(acos) MGPU_VGPU_MATH_1(atan)
MGPU_VGPU_MATH_1(sinh) MGPU_VGPU_MATH_1(cosh) MGPU_VGPU_MATH_1(tanh) MGPU_VGPU_MATH_1(erf) MGPU_VGPU_MATH_1(erfc)
MGPU_VGPU_MATH_1(lgamma) MGPU_VGPU_MATH_1(tgamma) MGPU_VGPU_MATH_1(fabs)
MGPU_VGPU_MATH_1(floor) MGPU_VGPU_MATH_1(ceil) MGPU_VGPU_MATH_1(trunc) MGPU_VGPU_MATH_1(round) MGPU_VGPU_MATH_1(rint) MGPU_VGPU_MATH_1(nearbyint)
#undef MGPU_VGPU_MATH_1
#define MGPU_VGPU_MATH_2(name) static inline float name(float a, float b) { return __builtin_##name##f(a, b); }
MGPU_VGPU_MATH_2(pow) MGPU_VGPU_MATH_2(fmod) MGPU_VGPU_MATH_2(atan2) MGPU_VGPU_MATH_2(hypot) MGPU_VGPU_MATH_2(copysign)
MGPU_VGPU_MATH_2(fmin) MGPU_VGPU_MATH_2(fmax) MGPU_VGPU_MATH_2(fdim) MGPU_VGPU_MATH_2(nextafter)
#undef MGPU_VGPU_MATH_2
static inline float fma(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
static inline float ldexp(float a, int k) { return __builtin_ldexpf(a, k); }
static inline void sincos(float a, float *s, float *c) { *s = __builtin_sinf(a), *c = __builtin_cosf(a); }
static inline long abs(long a) { return a < 0 ? -a : a; }
static inline long long abs(long long a) { return a < 0 ? -a : a; }
static inline float abs(float a) { return __builtin_fabsf(a); }
static inline double abs(double a) { return __builtin_fabs(a); }
static inline double rsqrt(double a) { return 1.0 / __builtin_sqrt(a); }
static inline float rsqrt(float a) { return 1.0f / __builtin_sqrtf(a); }
static inline float rsqrtf(float a) { return 1.0f / __builtin_sqrtf(a); }

#undef isnan
#undef isinf
#undef isfinite
#undef signbit
template <typename T> static inline bool isnan(T a) { return __builtin_isnan(a); }
template <typename T> static inline bool isinf(T a) { return __builtin_isinf(a); }
template <typename T> static inline bool isfinite(T a) { return __builtin_isfinite(a); }
template <typename T> static inline bool signbit(T a) { return __builtin_signbit(a); }

#define MGPU_VGPU_ORDER(type)                                                                                             \
    static inline constexpr type min(type a, type b) { return b < a ? b : a; }                                            \
    static inline constexpr type max(type a, type b) { return a < b ? b : a; }
MGPU_VGPU_ORDER(int) MGPU_VGPU_ORDER(unsigned) MGPU_VGPU_ORDER(long) MGPU_VGPU_ORDER(unsigned long)
MGPU_VGPU_ORDER(long long) MGPU_VGPU_ORDER(unsigned long long)
#undef MGPU_VGPU_ORDER
static inline float min(float a, float b) { return __builtin_fminf(a, b); }
static inline float max(float a, float b) { return __builtin_fmaxf(a, b); }
static inline double min(double a, double b) { return __builtin_fmin(a, b); }
static inline double max(double a, double b) { return __builtin_fmax(a, b); }

/* ---- intrinsics; those that GPUs compute with fewer bits are exact here */

static inline float __fmaf_rn(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
static inline float __fadd_rn(float a, float b) { return a + b; }
static inline float __fsub_rn(float a, float b) { return a - b; }
static inline float __fmul_rn(float a, float b) { return a * b; }
static inline float __fdiv_rn(float a, float b) { return a / b; }
static inline float __frcp_rn(float a) { return 1.0f / a; }
static inline float __fsqrt_rn(float a) { return __builtin_sqrtf(a); }
static inline float __frsqrt_rn(float a) { return 1.0f / __builtin_sqrtf(a); }
static inline double __fma_rn(double a, double b, double c) { return __builtin_fma(a, b, c); }
static inline double __dadd_rn(double a, double b) { return a + b; }
static inline double __dsub_rn(double a, double b) { return a - b; }
static inline double __dmul_rn(double a, double b) { return a * b; }
static inline double __ddiv_rn(double a, double b) { return a / b; }
static inline double __dsqrt_rn(double a) { return __builtin_sqrt(a); }
static inline float __fdividef(float a, float b) { return a / b; }
static inline float __saturatef(float a) { return a > 0.0f ? a < 1.0f ? a : 1.0f : 0.0f; }
/* names that glibc has taken */
#define __expf mgpu_vgpu_expf
#define __exp10f mgpu_vgpu_exp10f
#define __logf mgpu_vgpu_logf
#define __log2f mgpu_vgpu_log2f
#define __powf mgpu_vgpu_powf
#define __sinf mgpu_vgpu_sinf
#define __cosf mgpu_vgpu_cosf
static inline float __expf(float a) { return __builtin_expf(a); }
static inline float __exp10f(float a) { return __builtin_powf(10.0f, a); }
static inline float __logf(float a) { return __builtin_logf(a); }
static inline float __log2f(float a) { return __builtin_log2f(a); }
static inline float __powf(float a, float b) { return __builtin_powf(a, b); }
static inline float __sinf(float a) { return __builtin_sinf(a); }
static inline float __cosf(float a) { return __builtin_cosf(a); }

template <typename To, typename From> MGPU_VGPU_OWN static inline To mgpu_vgpu_bits(From from)
{
    static_assert(sizeof(To) == sizeof(From), "bits of types of one size");
    To to;
    __builtin_memcpy(&to, &from, sizeof to);
    return to;
}
static inline int __float_as_int(float a) { return mgpu_vgpu_bits<int>(a); }
static inline unsigned __float_as_uint(float a) { return mgpu_vgpu_bits<unsigned>(a); }
static inline float __int_as_float(int a) { return mgpu_vgpu_bits<float>(a); }
static inline float __uint_as_float(unsigned a) { return mgpu_vgpu_bits<float>(a); }
static inline long long __double_as_longlong(double a) { return mgpu_vgpu_bits<long long>(a); }
static inline double __longlong_as_double(long long a) { return mgpu_vgpu_bits<double>(a); }
static inline int __double2hiint(double a) { return (int)(mgpu_vgpu_bits<uint64_t>(a) >> 32); }
static inline int __double2loint(double a) { return (int)mgpu_vgpu_bits<uint64_t>(a); }
static inline double __hiloint2double(int high, int low)
{
    return mgpu_vgpu_bits<double>((uint64_t)(unsigned)high << 32 | (unsigned)low);
}

/* conversions of GPUs: what does not fit becomes the limit, NaN 0 */
#define MGPU_VGPU_CONVERT(name, from, to, least, most)                                                                    \
    static inline to name##_rz(from v) { return v != v ? 0 : v <= (from)(least) ? (least) : v >= (from)(most) ? (most) : (to)v; } \
    static inline to name##_rn(from v) { return name##_rz(rint(v)); }                                                     \
    static inline to name##_rd(from v) { return name##_rz(floor(v)); }                                                    \
    static inline to name##_ru(from v) { return name##_rz(ceil(v)); }
MGPU_VGPU_CONVERT(__float2int, float, int, INT32_MIN, INT32_MAX)
MGPU_VGPU_CONVERT(__float2uint, float, unsigned, 0, UINT32_MAX)
MGPU_VGPU_CONVERT(__float2ll, float, long long, INT64_MIN, INT64_MAX)
MGPU_VGPU_CONVERT(__float2ull, float, unsigned long long, 0, UINT64_MAX)
MGPU_VGPU_CONVERT(__double2int, double, int, INT32_MIN, INT32_MAX)
MGPU_VGPU_CONVERT(__double2uint, double, unsigned, 0, UINT32_MAX)
MGPU_VGPU_CONVERT(__double2ll, double, long long, INT64_MIN, INT64_MAX)
MGPU_VGPU_CONVERT(__double2ull, double, unsigned long long, 0, UINT64_MAX)
#undef MGPU_VGPU_CONVERT
static inline float __int2float_rn(int a) { return (float)a; }
static inline float __uint2float_rn(unsigned a) { return (float)a; }
static inline float __ll2float_rn(long long a) { return (float)a; }
static inline float __double2float_rn(double a) { return (float)a; }

static inline int __mul24(int a, int b) { return (a << 8 >> 8) * (b << 8 >> 8); }
static inline int __mulhi(int a, int b) { return (int)((int64_t)a * b >> 32); }
static inline unsigned __umulhi(unsigned a, unsigned b) { return (unsigned)((uint64_t)a * b >> 32); }
static inline long long __mul64hi(long long a, long long b) { return (long long)((__int128)a * b >> 64); }
static inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b)
{
    return (unsigned long long)((unsigned __int128)a * b >> 64);
}
static inline int __popc(unsigned a)
{
    a = a - (a >> 1 & 0x55555555u);
    a = (a & 0x33333333u) + (a >> 2 & 0x33333333u);
    return (int)((a + (a >> 4) & 0x0F0F0F0Fu) * 0x01010101u >> 24);
}
static inline int __popcll(unsigned long long a) { return __popc((unsigned)a) + __popc((unsigned)(a >> 32)); }
static inline int __clz(int a) { return a ? __builtin_clz((unsigned)a) : 32; }
static inline int __clzll(long long a) { return a ? __builtin_clzll((unsigned long long)a) : 64; }
static inline int __ffs(int a) { return __builtin_ffs(a); }
static inline int __ffsll(long long a) { return __builtin_ffsll(a); }
static inline unsigned __brev(unsigned a)
{
    unsigned r = 0;
    for (int k = 0; k < 32; k++)
        r |= (a >> k & 1u) << (31 - k);
    return r;
}
static inline unsigned __byte_perm(unsigned a, unsigned b, unsigned selector)
{
    uint64_t bytes = (uint64_t)b << 32 | a;
    unsigned r = 0;
    for (int k = 0; k < 4; k++) {
        unsigned s = selector >> 4 * k & 15u, byte = (unsigned)(bytes >> 8 * (s & 7u)) & 255u;
        r |= (s & 8u ? (byte & 128u ? 255u : 0u) : byte) << 8 * k;
    }
    return r;
}
static inline unsigned __funnelshift_l(unsigned low, unsigned high, unsigned by)
{
    return by & 31u ? high << (by & 31u) | low >> (32u - (by & 31u)) : high;
}
static inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned by)
{
    return by & 31u ? low >> (by & 31u) | high << (32u - (by & 31u)) : low;
}

/* bf16 and f16 as they are stored; to the nearest, ties to even; NaN stays NaN */
static inline float mgpu_vgpu_from_bf16(uint16_t v) { return __uint_as_float((unsigned)v << 16); }
static inline uint16_t mgpu_vgpu_to_bf16(float v)
{
    unsigned bits = __float_as_uint(v);
    return (uint16_t)(v != v ? bits >> 16 | 0x40u : (bits + 0x7FFFu + (bits >> 16 & 1u)) >> 16);
}
static inline float mgpu_vgpu_from_f16(uint16_t v)
{
    unsigned sign = (v & 0x8000u) << 16, exponent = v >> 10 & 31u, mantissa = v & 0x3FFu;
    if (exponent == 31)
        return __uint_as_float(sign | 0x7F800000u | mantissa << 13);
    if (exponent == 0) /* mantissa 2^-24 */
        return __uint_as_float(sign | __float_as_uint((float)mantissa * 0x1p-24f));
    return __uint_as_float(sign | (exponent + 112u) << 23 | mantissa << 13);
}
static inline uint16_t mgpu_vgpu_to_f16(float v)
{
    unsigned bits = __float_as_uint(v), sign = bits >> 16 & 0x8000u, rest = bits & 0x7FFFFFFFu;
    if (rest > 0x7F800000u)
        return (uint16_t)(sign | 0x7E00u);
    if (rest >= 0x477FF000u) /* 65520: what rounds to 65536 */
        return (uint16_t)(sign | 0x7C00u);
    if (rest < 0x38800000u) /* below 2^-14: adding 1/2 rounds to multiples of 2^-24 */
        return (uint16_t)(sign | (__float_as_uint(__uint_as_float(rest) + 0.5f) - 0x3F000000u));
    return (uint16_t)(sign | (rest - 0x38000000u + 0xFFFu + (rest >> 13 & 1u)) >> 13);
}

#define __trap() mgpu_vgpu_fail("trap", __builtin_LINE(), "the kernel called __trap()")
#define __assume(condition) ((condition) ? (void)0 : __builtin_unreachable())
#define __builtin_assume(condition) __assume(condition)
static inline void __nanosleep(unsigned) {}
static inline void __threadfence(void) {}
static inline void __threadfence_block(void) {}
static inline void __threadfence_system(void) {}

#include "mgpu_vgpu_block.h"
#include "mgpu_vgpu_warp.h"
#ifdef MGPU_VGPU_CHECKED
#include "mgpu_vgpu_check.h"
#endif
#endif
