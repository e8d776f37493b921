/* mgpu_math.h: the functions of ops.def in emitted kernels, for every element type, by _Generic. In CUDA C++ they are the
 * same, by the type of their first argument (mgpu_device.h).
 *
 * double is libm. float has its own versions: without branches and tables, so that loops over them become vector code
 * with gcc and clang at -O3 (no -ffast-math), within 2 ulp over the whole range, with the right values at
 * infinities, NaNs, zeros and denormals. Polynomials are minimax fits; the reductions are those of Cody and Waite,
 * "Software Manual for the Elementary Functions" (1980). */
#ifndef MGPU_MATH_H
#define MGPU_MATH_H

#ifndef MGPU_DEVICE_H /* which has what is needed of them */
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#endif
#include "mgpu_function.h"

#include "mgpu_half.h"
#include "mgpu_moments.h"

MGPU_FUNCTION uint64_t mgpu_bits_of_double(double v)
{
    uint64_t bits;
    memcpy(&bits, &v, sizeof bits);
    return bits;
}
MGPU_FUNCTION double mgpu_double_of(uint64_t bits)
{
    double v;
    memcpy(&v, &bits, sizeof v);
    return v;
}

/* 2^k, -126 <= k <= 127 */
MGPU_FUNCTION float mgpu_power_of_two(int32_t k) { return mgpu_float_of((uint32_t)(k + 127) << 23); }

/* a multiply-add, rounded once where processors have it */
#ifdef __FMA__
MGPU_FUNCTION float mgpu_fmaf(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
MGPU_FUNCTION double mgpu_fma_double(double a, double b, double c) { return __builtin_fma(a, b, c); }
#else
MGPU_FUNCTION float mgpu_fmaf(float a, float b, float c) { return a * b + c; }
MGPU_FUNCTION double mgpu_fma_double(double a, double b, double c) { return a * b + c; }
#endif

/* ---- float: elementary functions */

#define R float
#define U uint32_t
#define B bool
#define NAME(name) mgpu_##name##f
#define K(c) (c)
#ifdef MGPU_KERNELS /* which say where a multiply-add is */
#define MADD(a, b, c) mgpu_fmaf(a, b, c)
#define MADD_D(a, b, c) mgpu_fma_double(a, b, c)
#else
#define MADD(a, b, c) ((a) * (b) + (c))
#define MADD_D(a, b, c) ((a) * (b) + (c))
#endif
#define AND(a, b) ((a) & (b))
#define OR(a, b) ((a) | (b))
#define NOT(a) (!(a))
#define SELECT(b, x, y) ((b) ? (x) : (y))
#define LESS(x, y) ((x) < (y))
#define EQUAL(x, y) ((x) == (y))
#define BITS(x) mgpu_bits_of(x)
#define REAL(u) mgpu_float_of(u)
#define SHIFTED(u) ((int32_t)(u) >> 23)
#define TO_REAL(i) (float)(i)
#define ABS(x) fabsf(x)
#define SIGNED(x, s) copysignf(x, s)
#define D double
#define I int32_t
#define K_D(c) (c)
#define LESS_D(x, y) ((x) < (y))
#define EQUAL_D(x, y) ((x) == (y))
#define BELOW_0(x) ((bool)(mgpu_bits_of(x) >> 31))
#define SELECT_D(b, x, y) ((b) ? (x) : (y))
#define TO_D(x) (double)(x)
#define OF_D(x) (float)(x)
#define WHOLE_D(x) (int32_t)(x)
#define BIT(i, bit) ((i) & (bit))
#define BITS_D(x) mgpu_bits_of_double(x)
#define REAL_D(u) mgpu_double_of(u)
#include "mgpu_math_f32.h"

/* ---- the rest */

MGPU_FUNCTION float mgpu_modf(float a, float b)
{
    float r = fmodf(a, b);
    return r != 0.0f && (r < 0.0f) != (b < 0.0f) ? r + b : r;
}

MGPU_FUNCTION double mgpu_mod_double(double a, double b)
{
    double r = fmod(a, b);
    return r != 0.0 && (r < 0.0) != (b < 0.0) ? r + b : r;
}

MGPU_FUNCTION int64_t mgpu_mod_whole(int64_t a, int64_t b)
{
    int64_t r = b == 0 || b == -1 ? 0 : a % b;
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

#define MGPU_TO_WHOLE(name, type, least, most)                                                                                   \
    MGPU_FUNCTION type mgpu_to_##name(double v) /* towards zero; what does not fit becomes the limit, NaN 0 */                   \
    {                                                                                                                            \
        return v != v ? 0 : v <= (double)(least) ? (least) : v >= (double)(most) ? (most) : (type)v;                             \
    }
MGPU_TO_WHOLE(u8, uint8_t, 0, UINT8_MAX)
MGPU_TO_WHOLE(i8, int8_t, INT8_MIN, INT8_MAX)
MGPU_TO_WHOLE(u16, uint16_t, 0, UINT16_MAX)
MGPU_TO_WHOLE(i16, int16_t, INT16_MIN, INT16_MAX)
MGPU_TO_WHOLE(u32, uint32_t, 0, UINT32_MAX)
MGPU_TO_WHOLE(i32, int32_t, INT32_MIN, INT32_MAX)
MGPU_TO_WHOLE(i64, int64_t, INT64_MIN, INT64_MAX)
#undef MGPU_TO_WHOLE

/* libm under names that no tensor has: kernels' variables are named as the model's */
MGPU_FUNCTION double mgpu_pow_double(double a, double b) { return pow(a, b); }
MGPU_FUNCTION double mgpu_abs_double(double a) { return fabs(a); }
MGPU_FUNCTION double mgpu_floor_double(double a) { return floor(a); }
MGPU_FUNCTION double mgpu_sqrt_double(double a) { return sqrt(a); }
MGPU_FUNCTION double mgpu_exp_double(double a) { return exp(a); }
MGPU_FUNCTION double mgpu_log_double(double a) { return log(a); }
MGPU_FUNCTION double mgpu_expm1_double(double a) { return expm1(a); }
MGPU_FUNCTION double mgpu_log1p_double(double a) { return log1p(a); }
MGPU_FUNCTION double mgpu_logistic_double(double a)
{
    double e = mgpu_exp_double(a < 0.0 ? a : -a);
    return (a < 0.0 ? e : 1.0) / (1.0 + e);
}
MGPU_FUNCTION double mgpu_sin_double(double a) { return sin(a); }
MGPU_FUNCTION double mgpu_cos_double(double a) { return cos(a); }
MGPU_FUNCTION double mgpu_tanh_double(double a) { return tanh(a); }
MGPU_FUNCTION double mgpu_atan2_double(double a, double b) { return atan2(a, b); }
MGPU_FUNCTION double mgpu_erf_double(double a) { return erf(a); }
/* 1 / v, to multiply with: as large as a float can be, where it were larger, so that 0 / v is 0 for every v but 0 */
MGPU_FUNCTION float mgpu_inverse(float v)
{
    float inverse = 1.0f / v;
    return v != 0.0f && (inverse > 3.40282347e+38f || inverse < -3.40282347e+38f) ? v < 0.0f ? -3.40282347e+38f : 3.40282347e+38f
                                                                                  : inverse;
}

MGPU_FUNCTION float mgpu_absf(float a) { return fabsf(a); }
MGPU_FUNCTION float mgpu_floorf(float a) { return floorf(a); }
MGPU_FUNCTION float mgpu_sqrtf(float a) { return sqrtf(a); }

/* minimum and maximum as in ops.def, NaN where one of the two is; maxima of many, where the first NaN is the largest of all: b
 * beats the best so far. larger is for long loops: it waits for `best` once; better is for a few values, whose places are wanted,
 * too. */
/* clang-format off */
#define MGPU_ORDER(name, type)                                                                                            \
    MGPU_FUNCTION type mgpu_minimum_##name(type a, type b) { return ((a < b) | (a != a)) ? a : b; }                       \
    MGPU_FUNCTION type mgpu_maximum_##name(type a, type b) { return ((a > b) | (a != a)) ? a : b; }                       \
    MGPU_FUNCTION bool mgpu_beats_##name(type b, type best)                                                               \
    {                                                                                                                     \
        bool more = !(b <= best), number = best == best;                                                                  \
        return more & number;                                                                                             \
    }                                                                                                                     \
    MGPU_FUNCTION type mgpu_better_##name(type best, type b) { return mgpu_beats_##name(b, best) ? b : best; }
/* clang-format on */
MGPU_ORDER(f32, float)
MGPU_ORDER(f64, double)
MGPU_ORDER(i32, int32_t)
MGPU_ORDER(u32, uint32_t)
MGPU_ORDER(i64, int64_t)
#undef MGPU_ORDER
#define MGPU_LARGER(name, type)                                                                                                  \
    MGPU_FUNCTION type mgpu_larger_##name(type best, type b) { return b > best || b != b ? b : best; }
#ifndef MGPU_HAS_LARGER /* by an instruction */
MGPU_LARGER(f32, float)
#endif
MGPU_LARGER(f64, double)
MGPU_LARGER(i32, int32_t)
MGPU_LARGER(u32, uint32_t)
MGPU_LARGER(i64, int64_t)
#undef MGPU_LARGER

/* the largest whole number not above a / b; 0 for b = 0. The least number by -1 wraps, as -a does */
#define MGPU_QUOTIENT(name, type, wide)                                                                                          \
    MGPU_FUNCTION type mgpu_quotient_##name(type a, type b)                                                                      \
    {                                                                                                                            \
        const bool plain = b != 0 && b != (type)-1;                                                                              \
        const type by = plain ? b : 1, q = a / by, r = a % by;                                                                   \
        return plain ? (type)(q - (r != 0 && (r < 0) != (b < 0))) : b == 0 ? 0 : (type)(0 - (wide)a);                            \
    }
MGPU_QUOTIENT(i32, int32_t, uint32_t)
MGPU_QUOTIENT(i64, int64_t, uint64_t)
#undef MGPU_QUOTIENT
MGPU_FUNCTION uint32_t mgpu_quotient_u32(uint32_t a, uint32_t b) { return b != 0 ? a / b : 0; }

/* shifts in the type's own bits; all of them out where there are not so many */
#define MGPU_SHIFTS(name, type)                                                                                                  \
    MGPU_FUNCTION type mgpu_shift_left_##name(type a, type n)                                                                    \
    {                                                                                                                            \
        bool within = (uint64_t)n < 8 * sizeof(type);                                                                            \
        return within ? (type)((uint64_t)a << (within ? n : 0)) : 0;                                                             \
    }                                                                                                                            \
    MGPU_FUNCTION type mgpu_shift_right_##name(type a, type n)                                                                   \
    {                                                                                                                            \
        bool within = (uint64_t)n < 8 * sizeof(type);                                                                            \
        return within ? a >> (within ? n : 0) : a >> (8 * sizeof(type) - 1) >> 1;                                                \
    }
MGPU_SHIFTS(i32, int32_t)
MGPU_SHIFTS(u32, uint32_t)
MGPU_SHIFTS(i64, int64_t)
#undef MGPU_SHIFTS
#define mgpu_bit_and(a, b) ((a) & (b))
#define mgpu_bit_or(a, b) ((a) | (b))
#define mgpu_bit_xor(a, b) ((a) ^ (b))
#define mgpu_bit_not(a) (~(a))

#ifndef __cplusplus
#define mgpu_of_float(name, a) _Generic((a), float : mgpu_##name##f((float)(a)), default : mgpu_##name##_double((double)(a)))
#define mgpu_floor(a) mgpu_of_float(floor, a)
#define mgpu_nan_with(a) mgpu_of_float(nan_with, a)
#define mgpu_sqrt(a) mgpu_of_float(sqrt, a)
#define mgpu_exp(a) mgpu_of_float(exp, a)
#define mgpu_log(a) mgpu_of_float(log, a)
#define mgpu_expm1(a) mgpu_of_float(expm1, a)
#define mgpu_log1p(a) mgpu_of_float(log1p, a)
#define mgpu_logistic(a) mgpu_of_float(logistic, a)
#define mgpu_sin(a) mgpu_of_float(sin, a)
#define mgpu_cos(a) mgpu_of_float(cos, a)
#define mgpu_tanh(a) mgpu_of_float(tanh, a)
#define mgpu_erf(a) mgpu_of_float(erf, a)
#define mgpu_pow(a, b)                                                                                                           \
    _Generic((a), float : mgpu_powf((float)(a), (float)(b)), default : mgpu_pow_double((double)(a), (double)(b)))
#define mgpu_atan2(a, b)                                                                                                         \
    _Generic((a), float : mgpu_atan2f((float)(a), (float)(b)), default : mgpu_atan2_double((double)(a), (double)(b)))
#define mgpu_of_whole(name, a, b)                                                                                                \
    _Generic((a), uint32_t : mgpu_##name##_u32, int64_t : mgpu_##name##_i64, default : mgpu_##name##_i32)(a, b)
#define mgpu_shift_left(a, b) mgpu_of_whole(shift_left, a, b)
#define mgpu_shift_right(a, b) mgpu_of_whole(shift_right, a, b)
#define mgpu_quotient(a, b) mgpu_of_whole(quotient, a, b)
/* clang-format off */
#define mgpu_mod(a, b)                                                                                                    \
    _Generic((a), float: mgpu_modf((float)(a), (float)(b)), double: mgpu_mod_double((double)(a), (double)(b)),            \
             default: mgpu_mod_whole((int64_t)(a), (int64_t)(b)))
#define mgpu_abs(a)                                                                                                       \
    _Generic((a), float: mgpu_absf((float)(a)), double: mgpu_abs_double((double)(a)), default: (a) < 0 ? -(a) : (a))
#define mgpu_by_type(name, a, b)                                                                                          \
    _Generic((a), float: mgpu_##name##_f32, double: mgpu_##name##_f64, uint32_t: mgpu_##name##_u32,                       \
             int64_t: mgpu_##name##_i64, default: mgpu_##name##_i32)(a, b)
/* clang-format on */
#define mgpu_minimum(a, b) mgpu_by_type(minimum, a, b)
#define mgpu_maximum(a, b) mgpu_by_type(maximum, a, b)
#define mgpu_beats(b, best) mgpu_by_type(beats, b, best)
#define mgpu_larger(best, b) mgpu_by_type(larger, best, b)
#define mgpu_better(best, b) mgpu_by_type(better, best, b)
#else
template <class A, class B> struct mgpu_same {
    static const bool value = false;
};
template <class A> struct mgpu_same<A, A> {
    static const bool value = true;
};
/* by the type of the first argument; narrow whole numbers are int */
#define MGPU_OF_ONE(name)                                                                                                        \
    MGPU_FUNCTION float mgpu_##name(float a) { return mgpu_##name##f(a); }                                                       \
    template <class A> MGPU_FUNCTION double mgpu_##name(A a) { return mgpu_##name##_double((double)a); }
MGPU_OF_ONE(floor)
MGPU_OF_ONE(nan_with)
MGPU_OF_ONE(sqrt)
MGPU_OF_ONE(exp)
MGPU_OF_ONE(log)
MGPU_OF_ONE(expm1)
MGPU_OF_ONE(log1p)
MGPU_OF_ONE(logistic)
MGPU_OF_ONE(sin)
MGPU_OF_ONE(cos)
MGPU_OF_ONE(tanh)
MGPU_OF_ONE(erf)
#undef MGPU_OF_ONE
template <class B> MGPU_FUNCTION float mgpu_pow(float a, B b) { return mgpu_powf(a, (float)b); }
template <class A, class B> MGPU_FUNCTION double mgpu_pow(A a, B b) { return mgpu_pow_double((double)a, (double)b); }
template <class B> MGPU_FUNCTION float mgpu_atan2(float a, B b) { return mgpu_atan2f(a, (float)b); }
template <class A, class B> MGPU_FUNCTION double mgpu_atan2(A a, B b) { return mgpu_atan2_double((double)a, (double)b); }
/* narrow whole numbers are int */
#define MGPU_OF_WHOLE(name)                                                                                                      \
    template <class B> MGPU_FUNCTION uint32_t mgpu_##name(uint32_t a, B b) { return mgpu_##name##_u32(a, (uint32_t)b); }         \
    template <class B> MGPU_FUNCTION int64_t mgpu_##name(int64_t a, B b) { return mgpu_##name##_i64(a, (int64_t)b); }            \
    template <class B> MGPU_FUNCTION int32_t mgpu_##name(int32_t a, B b) { return mgpu_##name##_i32(a, (int32_t)b); }
MGPU_OF_WHOLE(quotient)
MGPU_OF_WHOLE(shift_left)
MGPU_OF_WHOLE(shift_right)
#undef MGPU_OF_WHOLE
template <class B> MGPU_FUNCTION float mgpu_mod(float a, B b) { return mgpu_modf(a, (float)b); }
template <class B> MGPU_FUNCTION double mgpu_mod(double a, B b) { return mgpu_mod_double(a, (double)b); }
template <class A, class B> MGPU_FUNCTION int64_t mgpu_mod(A a, B b) { return mgpu_mod_whole((int64_t)a, (int64_t)b); }
MGPU_FUNCTION float mgpu_abs(float a) { return mgpu_absf(a); }
MGPU_FUNCTION double mgpu_abs(double a) { return mgpu_abs_double(a); }
template <class A> MGPU_FUNCTION decltype(+A()) mgpu_abs(A a)
{
    if constexpr ((A)-1 > (A)0)
        return +a;
    else
        return a < 0 ? -a : +a;
}
#define MGPU_BY_TYPE(name)                                                                                                       \
    template <class A, class B> MGPU_FUNCTION auto mgpu_##name(A a, B b)                                                         \
    {                                                                                                                            \
        typedef decltype(+a) T;                                                                                                  \
        if constexpr (mgpu_same<T, float>::value)                                                                                \
            return mgpu_##name##_f32(a, (T)b);                                                                                   \
        else if constexpr (mgpu_same<T, double>::value)                                                                          \
            return mgpu_##name##_f64(a, (T)b);                                                                                   \
        else if constexpr (mgpu_same<T, uint32_t>::value)                                                                        \
            return mgpu_##name##_u32(a, (T)b);                                                                                   \
        else if constexpr (mgpu_same<T, int64_t>::value)                                                                         \
            return mgpu_##name##_i64(a, (T)b);                                                                                   \
        else                                                                                                                     \
            return mgpu_##name##_i32(a, (T)b);                                                                                   \
    }
MGPU_BY_TYPE(minimum)
MGPU_BY_TYPE(maximum)
MGPU_BY_TYPE(beats)
MGPU_BY_TYPE(larger)
MGPU_BY_TYPE(better)
#undef MGPU_BY_TYPE
#endif
#endif
