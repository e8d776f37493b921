/* half.h: numbers in memory, for the libraries of virtual GPUs: of 8, 4 or 2 bytes; those of 2 are f16 or bf16. Rounded to
 * nearest, ties to even. */
#ifndef VGPU_HALF_H
#define VGPU_HALF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline float vgpu_widen(bool f16, uint16_t v)
{
    uint32_t bits = (uint32_t)v << 16, exponent = v >> 10 & 31, fraction = v & 1023;
    if (f16) {
        bits = (uint32_t)(v & 0x8000) << 16 | (exponent == 31 ? 0x7F800000u : (exponent + 112) << 23) | fraction << 13;
        if (exponent == 0) {
            float small = (float)fraction * 0x1p-24f;
            return v & 0x8000 ? -small : small;
        }
    }
    float wide;
    memcpy(&wide, &bits, sizeof wide);
    return wide;
}

static inline uint16_t vgpu_narrow(bool f16, float v)
{
    uint32_t bits, size;
    memcpy(&bits, &v, sizeof bits);
    if (!f16)
        return (uint16_t)(v != v ? bits >> 16 | 0x40 : (bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
    uint16_t sign = (uint16_t)(bits >> 16 & 0x8000);
    size = bits & 0x7FFFFFFF;
    if (size > 0x7F800000)
        return 0x7FFF;
    if (size >= 0x477FF000)
        return (uint16_t)(sign | 0x7C00);
    if (size < 0x38800000) {
        float sum = (v < 0 ? -v : v) + 0.5f;
        memcpy(&bits, &sum, sizeof bits);
        return (uint16_t)(sign | (bits - 0x3F000000));
    }
    return (uint16_t)(sign | (size - 0x38000000 + 0xFFF + (size >> 13 & 1)) >> 13);
}

static inline double vgpu_load(size_t bytes, bool f16, uintptr_t at, int64_t i)
{
    const void *p = (const void *)at;
    return bytes == 8   ? ((const double *)p)[i]
           : bytes == 4 ? (double)((const float *)p)[i]
                        : (double)vgpu_widen(f16, ((const uint16_t *)p)[i]);
}

static inline void vgpu_store(size_t bytes, bool f16, uintptr_t at, int64_t i, double value)
{
    void *p = (void *)at;
    if (bytes == 8)
        ((double *)p)[i] = value;
    else if (bytes == 4)
        ((float *)p)[i] = (float)value;
    else
        ((uint16_t *)p)[i] = vgpu_narrow(f16, (float)value);
}

static inline double vgpu_round_tf32(double value)
{
    float narrow = (float)value;
    uint32_t bits;
    memcpy(&bits, &narrow, sizeof bits);
    if ((bits & 0x7F800000) != 0x7F800000)
        bits = (bits + 0xFFF + (bits >> 13 & 1)) & ~0x1FFFu;
    memcpy(&narrow, &bits, sizeof bits);
    return (double)narrow;
}
#endif
