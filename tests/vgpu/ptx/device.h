/* device.h: what instructions of PTX do, for the C that print.c writes; one name for each form, ptx_FORM_TYPE, written from the
 * PTX ISA manual (version 9.0), section 9.7. Plain C11, which tcc takes, too. */
#ifndef VGPU_PTX_DEVICE_H
#define VGPU_PTX_DEVICE_H

#include <string.h>
#include "tests/vgpu/ptx/engine.h"
#include "tests/vgpu/ptx/numbers.h"

/* set when the module is loaded */
__attribute__((visibility("default"))) const PtxEngine *mgpu_ptx_engine = (const PtxEngine *)1;
#define E mgpu_ptx_engine
#define F32(bits) (((ptx_32){.u = (bits)}).f)
#define F64(bits) (((ptx_64){.u = (bits)}).f)
#define B32(value) (((ptx_32){.f = (value)}).u)
#define B64(value) (((ptx_64){.f = (value)}).u)

/* ---- memory: every load and store of a kernel that is checked asks here */

#ifdef PTX_CHECKED
__attribute__((visibility("default"))) const int mgpu_vgpu_checked = 1; /* the module asks */
static inline void *ptx_at(uint64_t address, unsigned bytes, int how, int line)
{
    E->access(address, bytes, how, line);
    return (void *)address;
}
/* local memory: an array of the function */
static inline void *ptx_local(uint64_t address, unsigned bytes, const void *array, size_t room, int line)
{
    if (address - (uint64_t)array > room - bytes)
        E->fail("bounds", line, "the address is outside the thread's local memory");
    if (address & (bytes - 1))
        E->fail("alignment", line, "the address is not a multiple of the size");
    return (void *)address;
}
#else
#define ptx_at(address, bytes, how, line) ((void *)(address))
#define ptx_local(address, bytes, array, room, line) ((void *)(address))
#endif
#define LOAD MGPU_VGPU_LOAD
#define STORE MGPU_VGPU_STORE
#define ATOMIC MGPU_VGPU_ATOMIC
#define CONSTANT MGPU_VGPU_CONSTANT_LOAD
#define SYSTEM_LOAD MGPU_VGPU_SYSTEM_LOAD
#define SYSTEM_STORE MGPU_VGPU_SYSTEM_STORE

/* ---- registers of wgmma */

static inline void ptx_async_begin(uint32_t *registers, unsigned char *touched, unsigned count)
{
    for (unsigned k = 0; k < count; k++) {
        registers[k] = PTX_NEVER_SET;
        touched[k] = 1;
    }
}
static inline void *ptx_landed(uint32_t *of, int line)
{
    if (*of == PTX_IN_FLIGHT)
        E->fail("wgmma", line, "it reads an accumulator of a wgmma that nobody has waited for");
    return of;
}

/* ---- 10: special registers */

#define LANE (E->now->thread & 31u)

/* ---- 9.7.1: whole numbers */

#define PTX_DIVIDE(bits)                                                                                                         \
    static inline uint##bits##_t ptx_divisor_##bits(uint##bits##_t b, int line)                                                  \
    {                                                                                                                            \
        if (b == 0)                                                                                                              \
            E->fail("arithmetic", line, "a whole number is divided by zero");                                                    \
        return b;                                                                                                                \
    }                                                                                                                            \
    static inline uint##bits##_t ptx_div_u##bits(uint##bits##_t a, uint##bits##_t b, int line)                                   \
    {                                                                                                                            \
        return (uint##bits##_t)(a / ptx_divisor_##bits(b, line));                                                                \
    }                                                                                                                            \
    static inline uint##bits##_t ptx_rem_u##bits(uint##bits##_t a, uint##bits##_t b, int line)                                   \
    {                                                                                                                            \
        return (uint##bits##_t)(a % ptx_divisor_##bits(b, line));                                                                \
    }                                                                                                                            \
    static inline int##bits##_t ptx_div_s##bits(int##bits##_t a, int##bits##_t b, int line)                                      \
    {                                                                                                                            \
        ptx_divisor_##bits((uint##bits##_t)b, line);                                                                             \
        return b == -1 ? (int##bits##_t)(0 - (uint##bits##_t)a) : (int##bits##_t)(a / b);                                        \
    }                                                                                                                            \
    static inline int##bits##_t ptx_rem_s##bits(int##bits##_t a, int##bits##_t b, int line)                                      \
    {                                                                                                                            \
        ptx_divisor_##bits((uint##bits##_t)b, line);                                                                             \
        return b == -1 ? 0 : (int##bits##_t)(a % b);                                                                             \
    }
PTX_DIVIDE(16)
PTX_DIVIDE(32)
PTX_DIVIDE(64)
#undef PTX_DIVIDE

static inline uint64_t ptx_mul_hi_u64(uint64_t a, uint64_t b)
{
    uint64_t low = (a & 0xFFFFFFFFu) * (b & 0xFFFFFFFFu), one = (a >> 32) * (b & 0xFFFFFFFFu),
             two = (a & 0xFFFFFFFFu) * (b >> 32);
    uint64_t middle = (low >> 32) + (one & 0xFFFFFFFFu) + (two & 0xFFFFFFFFu);
    return (a >> 32) * (b >> 32) + (one >> 32) + (two >> 32) + (middle >> 32);
}
static inline int64_t ptx_mul_hi_s64(int64_t a, int64_t b)
{
    return (int64_t)(ptx_mul_hi_u64((uint64_t)a, (uint64_t)b) - (a < 0 ? (uint64_t)b : 0) - (b < 0 ? (uint64_t)a : 0));
}
#define ptx_mul24(a) ((int32_t)((uint32_t)(a) << 8) >> 8)

static inline uint32_t ptx_popc(uint64_t a)
{
    uint32_t count = 0;
    for (; a; a &= a - 1)
        count++;
    return count;
}
static inline uint32_t ptx_clz(uint64_t a, uint32_t bits)
{
    uint32_t count = 0;
    while (count < bits && !(a >> (bits - 1 - count) & 1))
        count++;
    return count;
}
/* the most significant bit that differs from the sign (of unsigned: that is 1); -1: none; shift: by how much it is left of it */
static inline uint32_t ptx_bfind(uint64_t a, uint32_t bits, int is_signed, int shift)
{
    uint64_t sign = a >> (bits - 1) & 1, mask = bits == 64 ? ~(uint64_t)0 : ((uint64_t)1 << bits) - 1;
    uint32_t zeros = ptx_clz((is_signed && sign ? ~a : a) & mask, bits);
    return zeros == bits ? 0xFFFFFFFFu : shift ? zeros : bits - 1 - zeros;
}
static inline uint64_t ptx_brev(uint64_t a, uint32_t bits)
{
    uint64_t r = 0;
    for (uint32_t k = 0; k < bits; k++)
        r |= (a >> k & 1) << (bits - 1 - k);
    return r;
}
static inline uint64_t ptx_bfe(uint64_t a, uint32_t pos, uint32_t length, uint32_t bits, int is_signed)
{
    uint64_t r = 0;
    pos &= 255u;
    length &= 255u;
    uint32_t last = pos + length - 1 < bits - 1 ? pos + length - 1 : bits - 1;
    uint64_t sign = !is_signed || length == 0 ? 0 : a >> last & 1;
    for (uint32_t k = 0; k < bits; k++)
        r |= (k < length && pos + k < bits ? a >> (pos + k) & 1 : sign) << k;
    return r;
}
static inline uint64_t ptx_bfi(uint64_t a, uint64_t b, uint32_t pos, uint32_t length, uint32_t bits)
{
    pos &= 255u;
    length &= 255u;
    for (uint32_t k = 0; k < length && pos + k < bits; k++)
        b = (b & ~((uint64_t)1 << (pos + k))) | (a >> k & 1) << (pos + k);
    return b;
}
/* dp2a: two halves of a by two bytes of b, lower or upper ones */
static inline uint32_t ptx_dp2a(uint32_t a, uint32_t b, uint32_t c, int high, int signed_a, int signed_b)
{
    for (int k = 0; k < 2; k++) {
        uint32_t x = a >> 16 * k & 0xFFFFu, y = b >> (8 * k + (high ? 16 : 0)) & 255u;
        c += (signed_a ? (uint32_t)(int16_t)x : x) * (signed_b ? (uint32_t)(int8_t)y : y);
    }
    return c;
}
static inline uint32_t ptx_dp4a(uint32_t a, uint32_t b, uint32_t c, int signed_a, int signed_b)
{
    for (int k = 0; k < 4; k++) {
        uint32_t x = a >> 8 * k & 255u, y = b >> 8 * k & 255u;
        c += (signed_a ? (uint32_t)(int8_t)x : x) * (signed_b ? (uint32_t)(int8_t)y : y);
    }
    return c;
}

/* ---- 9.7.2: with carry */

static inline uint32_t ptx_carry_32(uint32_t a, uint32_t b, uint32_t in, uint32_t *out)
{
    uint64_t sum = (uint64_t)a + b + in;
    *out = (uint32_t)(sum >> 32);
    return (uint32_t)sum;
}
static inline uint64_t ptx_carry_64(uint64_t a, uint64_t b, uint32_t in, uint32_t *out)
{
    uint64_t sum = a + b, all = sum + in;
    *out = (uint32_t)(sum < a) | (uint32_t)(all < sum);
    return all;
}
/* the carry of a subtraction is a borrow */
static inline uint32_t ptx_borrow_32(uint32_t a, uint32_t b, uint32_t in, uint32_t *out)
{
    *out = (uint64_t)a < (uint64_t)b + in;
    return a - b - in;
}
static inline uint64_t ptx_borrow_64(uint64_t a, uint64_t b, uint32_t in, uint32_t *out)
{
    *out = (uint32_t)(a < b) | (uint32_t)(a - b < in);
    return a - b - in;
}

/* ---- 9.7.3: floating-point numbers. min, max: of a number and NaN the number, of two NaN the canonical one, -0 < +0 */

static inline float ptx_flush(float a) { return (B32(a) & 0x7F800000u) == 0 ? F32(B32(a) & 0x80000000u) : a; } /* .ftz */
static inline float ptx_saturate(float a) { return a > 0 ? a < 1 ? a : 1 : 0; }
static inline double ptx_saturate_64(double a) { return a > 0 ? a < 1 ? a : 1 : 0; }
static inline float ptx_min_f32(float a, float b)
{
    if (a != a || b != b)
        return a == a ? a : b == b ? b : F32(0x7FFFFFFFu);
    return a == b ? F32(B32(a) | B32(b)) : a < b ? a : b;
}
static inline float ptx_max_f32(float a, float b)
{
    if (a != a || b != b)
        return a == a ? a : b == b ? b : F32(0x7FFFFFFFu);
    return a == b ? F32(B32(a) & B32(b)) : a > b ? a : b;
}
static inline float ptx_or_nan(float a, float b, float v) { return a != a || b != b ? F32(0x7FFFFFFFu) : v; } /* .NaN */
static inline double ptx_min_f64(double a, double b)
{
    if (a != a || b != b)
        return a == a ? a : b;
    return a == b ? F64(B64(a) | B64(b)) : a < b ? a : b;
}
static inline double ptx_max_f64(double a, double b)
{
    if (a != a || b != b)
        return a == a ? a : b;
    return a == b ? F64(B64(a) & B64(b)) : a > b ? a : b;
}

/* Approximations. A GPU's are not exact, and nobody says in which direction: so what is exact is changed here, by as much as the
 * manual allows of the relative error, in a way that depends on the argument's bits alone. */
static inline float ptx_blur(double exact, uint32_t argument, double most)
{
    uint32_t hash = argument * 0x9E3779B1u;
    hash = (hash ^ hash >> 15) * 0x85EBCA77u;
    double part = ((double)(hash >> 8) / 8388608.0 - 1) * 0.5; /* the rounding to f32 needs the other half */
    return (float)(exact + exact * part * most);
}
static inline float ptx_ex2_approx(float a) /* at most 2 ulp of f32 */
{
    double exact = exp2((double)a);
    return a == floorf(a) || isinf(a) ? (float)exact : ptx_blur(exact, B32(a), 0x1p-22);
}
static inline float ptx_lg2_approx(float a) /* 2^-22 absolute in [0.5, 2], relative elsewhere */
{
    double exact = log2((double)a);
    return !(a > 0) || isinf(a) || a == 1 ? (float)exact
           : a >= 0.5f && a <= 2          ? (float)(exact + (ptx_blur(1, B32(a), 0x1p-22) - 1))
                                          : ptx_blur(exact, B32(a), 0x1p-23);
}
/* 1 ulp */
static inline float ptx_rcp_approx(float a) { return isinf(a) || a == 0 ? 1 / a : ptx_blur(1 / (double)a, B32(a), 0x1p-23); }
static inline float ptx_sqrt_approx(float a)
{
    return isinf(a) || !(a > 0) ? sqrtf(a) : ptx_blur(sqrt((double)a), B32(a), 0x1p-23);
}
static inline float ptx_rsqrt_approx(float a)
{
    return isinf(a) || !(a > 0) ? 1 / sqrtf(a) : ptx_blur(1 / sqrt((double)a), B32(a), 0x1p-22);
}
static inline float ptx_sin_approx(float a)
{
    return a != a || isinf(a) ? F32(0x7FFFFFFFu) : (float)(sin((double)a) + (a != 0) * (ptx_blur(1, B32(a), 0x1p-21) - 1));
}
static inline float ptx_cos_approx(float a)
{
    return a != a || isinf(a) ? F32(0x7FFFFFFFu) : (float)(cos((double)a) + (a != 0) * (ptx_blur(1, B32(a), 0x1p-21) - 1));
}
static inline float ptx_tanh_approx(float a) { return ptx_blur(tanh((double)a), B32(a), 0x1p-11); } /* 2^-11 */
static inline float ptx_div_approx(float a, float b)                                                /* 2 ulp; b >= 2^126: 0 */
{
    if (a != a || b != b || isinf(a) || isinf(b) || b == 0 || a == 0)
        return a / b;
    return fabsf(b) > 0x1p126f ? F32((B32(a) ^ B32(b)) & 0x80000000u) : ptx_blur((double)a / b, B32(a) ^ B32(b) * 3u, 0x1p-23);
}
/* rcp.approx.ftz.f64: of the upper 32 bits; 20 bits of mantissa, the others 0 */
static inline double ptx_rcp_approx_f64(double a)
{
    uint64_t upper = B64(a) & 0xFFFFFFFF00000000u, sign = upper & 0x8000000000000000u;
    if (a != a)
        return F64(0x7FFFFFFF00000000u);
    if ((upper & 0x7FF0000000000000u) == 0)
        return F64(sign | 0x7FF0000000000000u);
    double inverse = 1 / F64(upper);
    return (B64(inverse) & 0x7FF0000000000000u) == 0 ? F64(sign) : F64(B64(inverse) & 0xFFFFFFFF00000000u);
}
static inline double ptx_rsqrt_approx_f64(double a)
{
    if (a != a || B64(a) >> 63)
        return (B64(a) & 0x7FF0000000000000u) == 0 ? F64(0xFFF0000000000000u) : F64(0x7FFFFFFF00000000u);
    if ((B64(a) & 0x7FF0000000000000u) == 0)
        return F64(0x7FF0000000000000u);
    return F64(B64(1 / sqrt(F64(B64(a) & 0xFFFFFFFF00000000u))) & 0xFFFFFFFF00000000u);
}

/* ---- 9.7.7, 9.7.8: bits */

/* lop3: bit i of the result is that of the table at (a, b, c)'s bits i */
static inline uint32_t ptx_lop3(uint32_t a, uint32_t b, uint32_t c, uint32_t table)
{
    uint32_t r = 0;
    for (uint32_t k = 0; k < 8; k++)
        if (table >> k & 1)
            r |= (k & 4 ? a : ~a) & (k & 2 ? b : ~b) & (k & 1 ? c : ~c);
    return r;
}
/* shifts by more than there are bits shift everything out */
/* clang-format off */
#define PTX_SHIFTS(bits)                                                                                                       \
    static inline uint##bits##_t ptx_shl_##bits(uint##bits##_t a, uint32_t by) { return by >= bits ? 0 : (uint##bits##_t)(a << by); } \
    static inline uint##bits##_t ptx_shr_u##bits(uint##bits##_t a, uint32_t by) { return by >= bits ? 0 : (uint##bits##_t)(a >> by); } \
    static inline int##bits##_t ptx_shr_s##bits(int##bits##_t a, uint32_t by) { return (int##bits##_t)(a >> (by >= bits ? bits - 1 : by)); }
/* clang-format on */
PTX_SHIFTS(16)
PTX_SHIFTS(32)
PTX_SHIFTS(64)
#undef PTX_SHIFTS
static inline uint32_t ptx_shf(uint32_t a, uint32_t b, uint32_t by, int left, int wrap)
{
    by = wrap ? by & 31u : by > 32 ? 32 : by;
    uint64_t both = (uint64_t)b << 32 | a;
    return (uint32_t)(left ? both << by >> 32 : both >> by);
}
static inline uint32_t ptx_prmt(uint32_t a, uint32_t b, uint32_t selector, char mode)
{
    uint64_t bytes = (uint64_t)b << 32 | a;
    uint32_t r = 0, s = selector & 3u;
    for (uint32_t k = 0; k < 4; k++) {
        uint32_t from = selector >> 4 * k & 15u;
        switch (mode) {
        case 'f': from = s + k; break;                   /* .f4e */
        case 'b': from = (s - k) & 7u; break;            /* .b4e */
        case '8': from = s; break;                       /* .rc8 */
        case 'l': from = k > s ? k : s; break;           /* .ecl */
        case 'r': from = k < s ? k : s; break;           /* .ecr */
        case '6': from = 2 * (s & 1u) + (k & 1u); break; /* .rc16 */
        }
        uint32_t byte = (uint32_t)(bytes >> 8 * (from & 7u)) & 255u;
        r |= (from & 8u ? (byte & 128u ? 255u : 0u) : byte) << 8 * k;
    }
    return r;
}

/* ---- 9.7.13.6: updates; the threads of the virtual GPU run one at a time */

/* clang-format off */
#define PTX_ATOMIC(name, type, changed)                                                                                        \
    static inline type ptx_atom_##name(type *p, type v) { type old = *p; *p = (type)(changed); return old; }
/* clang-format on */
#define PTX_ATOMICS(letter, type)                                                                                                \
    PTX_ATOMIC(add_##letter, type, old + v)                                                                                      \
    PTX_ATOMIC(min_##letter, type, v < old ? v : old) PTX_ATOMIC(max_##letter, type, v > old ? v : old)
PTX_ATOMICS(u32, uint32_t)
PTX_ATOMICS(s32, int32_t)
PTX_ATOMICS(u64, uint64_t)
PTX_ATOMICS(s64, int64_t)
#undef PTX_ATOMICS
#define PTX_ATOMICS(bits)                                                                                                        \
    PTX_ATOMIC(and_b##bits, uint##bits##_t, old &v)                                                                              \
    PTX_ATOMIC(or_b##bits, uint##bits##_t, old | v)                                                                              \
    PTX_ATOMIC(xor_b##bits, uint##bits##_t, old ^ v)                                                                             \
    PTX_ATOMIC(exch_b##bits, uint##bits##_t, v)                                                                                  \
    static inline uint##bits##_t ptx_atom_cas_b##bits(uint##bits##_t *p, uint##bits##_t expected, uint##bits##_t v)              \
    {                                                                                                                            \
        uint##bits##_t old = *p;                                                                                                 \
        *p = old == expected ? v : old;                                                                                          \
        return old;                                                                                                              \
    }
/* clang-format off */
PTX_ATOMICS(32) PTX_ATOMICS(64)
#undef PTX_ATOMICS
PTX_ATOMIC(inc_u32, uint32_t, old >= v ? 0 : old + 1)
PTX_ATOMIC(dec_u32, uint32_t, old == 0 || old > v ? v : old - 1)
#undef PTX_ATOMIC

    /* clang-format on */
    /* ---- 9.7.13.11: redux.sync */

    static inline uint32_t ptx_redux(char how, int is_signed, uint32_t mask, uint32_t value, int line)
{
    uint32_t all[32], r = value;
    E->gather(mask, value, all, line);
    r = how == 'a' || how == 'o' || how == 'x' ? 0 : value;
    for (int k = 0; k < 32; k++) {
        if (!(mask >> k & 1))
            continue;
        uint32_t v = all[k];
        int less = is_signed ? (int32_t)v < (int32_t)r : v < r;
        switch (how) {
        case 'a': r += v; break;
        case 'm': r = less ? v : r; break; /* min */
        case 'M': r = less ? r : v; break; /* max */
        case '&': r &= v; break;
        case 'o': r |= v; break;
        case 'x': r ^= v; break;
        }
    }
    return r;
}
#endif
