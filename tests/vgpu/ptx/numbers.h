/* numbers.h: numbers of PTX as this machine has them: bits, f16, bf16, tf32, conversions with their roundings. For C and C++;
 * nothing here is from mgpuc's own headers. IEEE 754; PTX ISA 5.2.3 (bf16, tf32), 9.7.9.22 (cvt). */
#ifndef VGPU_PTX_NUMBERS_H
#define VGPU_PTX_NUMBERS_H

#include <math.h>
#include <stdint.h>

typedef union {
    float f;
    uint32_t u;
} ptx_32;
typedef union {
    double f;
    uint64_t u;
} ptx_64;
static inline float ptx_float(uint32_t bits)
{
    ptx_32 v;
    v.u = bits;
    return v.f;
}
static inline uint32_t ptx_bits(float value)
{
    ptx_32 v;
    v.f = value;
    return v.u;
}
static inline double ptx_double(uint64_t bits)
{
    ptx_64 v;
    v.u = bits;
    return v.f;
}
static inline uint64_t ptx_bits_64(double value)
{
    ptx_64 v;
    v.f = value;
    return v.u;
}

/* ---- to fewer bits: how = n nearest, ties to even; z to zero; m down; p up; a nearest, ties away from zero */

/* |v| = mantissa 2^exponent, the mantissa of so many bits that `drop` of them go */
static inline uint64_t ptx_round_off(uint64_t mantissa, int drop, int negative, char how)
{
    if (drop <= 0)
        return mantissa << -drop;
    uint64_t rest = drop > 63 ? mantissa : mantissa & (((uint64_t)1 << drop) - 1), kept = drop > 63 ? 0 : mantissa >> drop;
    uint64_t half = drop > 63 ? UINT64_MAX : (uint64_t)1 << (drop - 1);
    int up = how == 'n'   ? rest > half || (rest == half && kept & 1)
             : how == 'a' ? rest >= half
             : how == 'm' ? rest && negative
             : how == 'p' ? rest && !negative
                          : 0;
    return kept + (uint64_t)up;
}

/* a double as a floating-point number of so many bits of exponent and mantissa; what is too large becomes infinite, or the
 * largest */
static inline uint32_t ptx_narrow(double value, int exponent_bits, int mantissa_bits, char how)
{
    uint64_t bits = ptx_bits_64(value), mantissa = bits & 0xFFFFFFFFFFFFFu;
    int negative = (int)(bits >> 63), exponent = (int)(bits >> 52 & 2047), bias = (1 << (exponent_bits - 1)) - 1,
        most = 2 * bias + 1;
    uint32_t sign = (uint32_t)negative << (exponent_bits + mantissa_bits), infinite = (uint32_t)most << mantissa_bits;
    if (exponent == 2047 && mantissa)
        return ((uint32_t)1 << (exponent_bits + mantissa_bits)) - 1; /* PTX: canonical NaN has all bits set but the sign */
    if (exponent == 2047)
        return sign | infinite;
    if (exponent == 0)
        return sign | (uint32_t)((how == 'm' && negative && mantissa) || (how == 'p' && !negative && mantissa));
    int place = exponent - 1023 + bias; /* of the result */
    int drop = 52 - mantissa_bits + (place < 1 ? 1 - place : 0);
    uint64_t kept = ptx_round_off(mantissa | (uint64_t)1 << 52, drop, negative, how);
    /* the leading 1 adds one to the exponent */
    uint64_t whole = kept + ((uint64_t)(place < 1 ? 0 : place - 1) << mantissa_bits);
    if (whole >= infinite)
        return sign | (how == 'z' || (how == 'm' && !negative) || (how == 'p' && negative) ? infinite - 1 : infinite);
    return sign | (uint32_t)whole;
}
static inline uint16_t ptx_to_f16(float v) { return (uint16_t)ptx_narrow(v, 5, 10, 'n'); }
static inline uint16_t ptx_to_bf16(float v) { return (uint16_t)ptx_narrow(v, 8, 7, 'n'); }
static inline float ptx_from_bf16(uint16_t v) { return ptx_float((uint32_t)v << 16); }

static inline float ptx_from_f16(uint16_t v)
{
    uint32_t sign = (uint32_t)(v & 0x8000u) << 16, exponent = v >> 10 & 31u, mantissa = v & 0x3FFu;
    if (exponent == 0)
        return ptx_float(sign | ptx_bits((float)mantissa * 0x1p-24f));
    return ptx_float(sign | (exponent == 31 ? 255u : exponent + 112u) << 23 | mantissa << 13);
}

/* b32: tf32 in the upper 19 bits, the others 0 */
static inline uint32_t ptx_to_tf32(float v, char how)
{
    uint32_t bits = ptx_bits(v);
    if ((bits & 0x7F800000u) == 0x7F800000u)
        return bits & 0x7FFFFFu ? 0x7FFFFFFFu : bits;
    return (bits & 0x80000000u) | (uint32_t)ptx_round_off(bits & 0x7FFFFFFFu, 13, (int)(bits >> 31), how) << 13;
}

static inline float ptx_to_f32(double v, char how) { return how == 'n' ? (float)v : ptx_float(ptx_narrow(v, 8, 23, how)); }

/* a b + c of f32, rounded once: the product is exact in f64, and of the sum f64 says on which side of it the exact one is */
static inline float ptx_fma_f32(float a, float b, float c, char how)
{
    double product = (double)a * b, sum = product + c, part = sum - product, rest = (product - (sum - part)) + (c - part);
    if (sum == 0) /* of opposite signs: -0 where it is rounded down */
        return (ptx_bits_64(product) ^ ptx_bits_64(c)) >> 63 ? (how == 'm' ? -0.0f : 0.0f)
                                                             : ptx_float((uint32_t)(ptx_bits_64(product) >> 32) & 0x80000000u);
    uint32_t bits = ptx_narrow(sum, 8, 23, how);
    if (sum - sum != 0 || rest == 0 || ptx_float(bits) != sum || (rest > 0) == (how == 'm' || (how == 'z' && sum > 0)))
        return ptx_float(bits);
    /* f64 rounded it to a number of f32, away from the right side */
    return ptx_float((rest > 0) == (sum > 0) ? bits + 1 : bits - 1);
}

/* ---- to whole numbers: NaN becomes 0, what does not fit the nearest that does */

static inline double ptx_whole(double v, char how)
{
    return how == 'n' ? rint(v) : how == 'z' ? trunc(v) : how == 'm' ? floor(v) : ceil(v);
}
static inline int64_t ptx_to_signed(double v, int bits, char how)
{
    double limit = ldexp(1.0, bits - 1), whole = ptx_whole(v, how);
    if (v != v)
        return 0;
    if (whole >= limit)
        return (int64_t)(((uint64_t)1 << (bits - 1)) - 1);
    return whole <= -limit ? (int64_t) - ((uint64_t)1 << (bits - 1)) : (int64_t)whole;
}
static inline uint64_t ptx_to_unsigned(double v, int bits, char how)
{
    double limit = ldexp(1.0, bits), whole = ptx_whole(v, how);
    if (!(whole > 0))
        return 0;
    if (whole >= limit)
        return bits == 64 ? UINT64_MAX : ((uint64_t)1 << bits) - 1;
    return whole >= 0x1p63 ? (uint64_t)(whole - 0x1p63) + ((uint64_t)1 << 63) : (uint64_t)whole;
}
#endif
