/* mgpu_half.h: bits of floats: conversion of bf16 and f16, as stored in memory, from and to float; NaNs with a number. */
#ifndef MGPU_HALF_H
#define MGPU_HALF_H

#ifndef MGPU_DEVICE_H /* it declares what is needed of these */
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#endif
#include "mgpu_function.h"

MGPU_FUNCTION float mgpu_float_of(uint32_t bits)
{
    float v;
    memcpy(&v, &bits, sizeof v);
    return v;
}

MGPU_FUNCTION uint32_t mgpu_bits_of(float v)
{
    uint32_t bits;
    memcpy(&bits, &v, sizeof bits);
    return bits;
}

/* bfloat16: the upper half of a float; rounded to nearest, ties to even; NaN stays NaN. */
typedef uint16_t mgpu_bf16;

MGPU_FUNCTION float mgpu_from_bf16(mgpu_bf16 v) { return mgpu_float_of((uint32_t)v << 16); }

#ifndef MGPU_HAS_HALF /* by an instruction */
MGPU_FUNCTION mgpu_bf16 mgpu_to_bf16(float v)
{
    uint32_t bits = mgpu_bits_of(v), nearest = (bits + 0x7FFFu + (bits >> 16 & 1)) >> 16;
    return (mgpu_bf16)(v != v ? bits >> 16 | 0x40u : nearest);
}
#endif

/* The float that is loaded after v is stored, and what is stored of such a float. */
MGPU_FUNCTION float mgpu_round_bf16(float v) { return mgpu_from_bf16(mgpu_to_bf16(v)); }
MGPU_FUNCTION mgpu_bf16 mgpu_exact_bf16(float rounded) { return (mgpu_bf16)(mgpu_bits_of(rounded) >> 16); }

#ifndef MGPU_HAS_HALF
/* IEEE binary16: 5 bits of exponent, 10 of fraction; rounded to nearest, ties to even; infinite from 65520 on. */
typedef uint16_t mgpu_f16;

MGPU_FUNCTION float mgpu_from_f16(mgpu_f16 v)
{
    uint32_t sign = (uint32_t)(v & 0x8000u) << 16, body = (uint32_t)(v & 0x7FFFu) << 13;
    uint32_t normal = body + (112u << 23) + (body >= 0x0F800000u ? 112u << 23 : 0u);               /* exponent 31 becomes 255 */
    uint32_t small = mgpu_bits_of(mgpu_float_of(body + (113u << 23)) - mgpu_float_of(113u << 23)); /* exponent 0 */
    return mgpu_float_of((body < 0x00800000u ? small : normal) | sign);
}

MGPU_FUNCTION mgpu_f16 mgpu_to_f16(float v)
{
    uint32_t bits = mgpu_bits_of(v), sign = bits >> 16 & 0x8000u, size = bits & 0x7FFFFFFFu;
    uint32_t normal = (size + 0xFFFu + (size >> 13 & 1) - (112u << 23)) >> 13;
    uint32_t small = mgpu_bits_of(mgpu_float_of(size) + 0.5f) - 0x3F000000u; /* below 2^-14: rounded by the addition */
    uint32_t large = size > 0x7F800000u ? 0x7E00u : 0x7C00u;
    return (mgpu_f16)(sign | (size >= 0x477FF000u ? large : size < 0x38800000u ? small : normal));
}
#endif

MGPU_FUNCTION float mgpu_round_f16(float v) { return mgpu_from_f16(mgpu_to_f16(v)); }
MGPU_FUNCTION mgpu_f16 mgpu_exact_f16(float rounded) { return mgpu_to_f16(rounded); }

/* NaN with a number: for an integer v with |v| < 2^21 - 1, it has the sign of v, and the 22 upper bits of its fraction below the
 * quiet bit are |v| and 1. For other v that last bit is 0, as in NaNs of instructions and after a conversion to 16 bits. */
MGPU_FUNCTION uint32_t mgpu_nan_bits(int32_t whole, bool exact)
{
    uint32_t size = (uint32_t)(whole < 0 ? -whole : whole) << 1 | 1, sign = whole < 0 ? 0x80000000u : 0u;
    return 0x7FC00000u | (exact ? sign | size : 0u);
}
MGPU_FUNCTION float mgpu_nan_withf(float v)
{
    int32_t whole = (int32_t)(v > -2097151.0f && v < 2097151.0f ? v : 0.0f);
    return mgpu_float_of(mgpu_nan_bits(whole, (float)whole == v));
}
MGPU_FUNCTION double mgpu_nan_with_double(double v)
{
    int32_t whole = (int32_t)(v > -2097151.0 && v < 2097151.0 ? v : 0.0);
    uint32_t bits = mgpu_nan_bits(whole, (double)whole == v);
    uint64_t wide = (uint64_t)(bits & 0x80000000u) << 32 | 0x7FF8000000000000u | (uint64_t)(bits & 0x3FFFFFu) << 29;
    double nan;
    memcpy(&nan, &wide, sizeof nan);
    return nan;
}
/* Reads the number of a NaN, which may have been a float before; returns false if it has none. */
MGPU_FUNCTION bool mgpu_said_by(double nan, int32_t *number)
{
    uint64_t wide;
    memcpy(&wide, &nan, sizeof wide);
    uint32_t size = (uint32_t)(wide >> 29) & 0x3FFFFFu;
    *number = wide >> 63 ? -(int32_t)(size >> 1) : (int32_t)(size >> 1);
    return nan != nan && size & 1 && size != 0x3FFFFFu && !(wide & 0x1FFFFFFFu); /* all bits set: NaNs of GPUs */
}
#endif
