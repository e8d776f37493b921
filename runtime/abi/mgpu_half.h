/* mgpu_half.h: floats of 16 bits as they are in memory, bf16 and f16, from and to float. */
#ifndef MGPU_HALF_H
#define MGPU_HALF_H

#ifndef MGPU_DEVICE_H /* which has what is needed of them */
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

/* bfloat16: the upper half of a float; to the nearest, ties to even; NaN stays NaN */
typedef uint16_t mgpu_bf16;

MGPU_FUNCTION float mgpu_from_bf16(mgpu_bf16 v) { return mgpu_float_of((uint32_t)v << 16); }

#ifndef MGPU_HAS_HALF /* by an instruction */
MGPU_FUNCTION mgpu_bf16 mgpu_to_bf16(float v)
{
    uint32_t bits = mgpu_bits_of(v), nearest = (bits + 0x7FFFu + (bits >> 16 & 1)) >> 16;
    return (mgpu_bf16)(v != v ? bits >> 16 | 0x40u : nearest);
}
#endif

/* the float that others load when v is stored; and what is stored of it */
MGPU_FUNCTION float mgpu_round_bf16(float v) { return mgpu_from_bf16(mgpu_to_bf16(v)); }
MGPU_FUNCTION mgpu_bf16 mgpu_exact_bf16(float rounded) { return (mgpu_bf16)(mgpu_bits_of(rounded) >> 16); }

#ifndef MGPU_HAS_HALF
/* IEEE binary16: 5 bits of exponent, 10 of fraction; to the nearest, ties to even; infinite from 65520 on */
typedef uint16_t mgpu_f16;

MGPU_FUNCTION float mgpu_from_f16(mgpu_f16 v)
{
    uint32_t sign = (uint32_t)(v & 0x8000u) << 16, body = (uint32_t)(v & 0x7FFFu) << 13;
    uint32_t normal = body + (112u << 23) + (body >= 0x0F800000u ? 112u << 23 : 0u);       /* 31 becomes 255 */
    uint32_t small = mgpu_bits_of(mgpu_float_of(body + (113u << 23)) - mgpu_float_of(113u << 23)); /* exponent 0 */
    return mgpu_float_of((body < 0x00800000u ? small : normal) | sign);
}

MGPU_FUNCTION mgpu_f16 mgpu_to_f16(float v)
{
    uint32_t bits = mgpu_bits_of(v), sign = bits >> 16 & 0x8000u, size = bits & 0x7FFFFFFFu;
    uint32_t normal = (size + 0xFFFu + (size >> 13 & 1) - (112u << 23)) >> 13;
    uint32_t small = mgpu_bits_of(mgpu_float_of(size) + 0.5f) - 0x3F000000u;                /* below 2^-14: rounded by the sum */
    uint32_t large = size > 0x7F800000u ? 0x7E00u : 0x7C00u;
    return (mgpu_f16)(sign | (size >= 0x477FF000u ? large : size < 0x38800000u ? small : normal));
}
#endif

MGPU_FUNCTION float mgpu_round_f16(float v) { return mgpu_from_f16(mgpu_to_f16(v)); }
MGPU_FUNCTION mgpu_f16 mgpu_exact_f16(float rounded) { return mgpu_to_f16(rounded); }

#endif
