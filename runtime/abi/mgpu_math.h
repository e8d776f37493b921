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

/* to the nearest whole number, |v| < 2^22 */
MGPU_FUNCTION float mgpu_round(float v) { return (v + 12582912.0f) - 12582912.0f; }

/* 2^k, -126 <= k <= 127 */
MGPU_FUNCTION float mgpu_power_of_two(int32_t k) { return mgpu_float_of((uint32_t)(k + 127) << 23); }

/* ---- float: exponential and logarithm */

#ifndef MGPU_HAS_EXP /* by an instruction */
/* 0 below -104 (masked elements: not by way of denormals, which are slow), inf above 89.
 * e^v = e^r 4^m, |r| <= log 2: 2^m twice makes denormal results and 2^128. A sum with 1.5 2^23 has m in its lowest bits. */
MGPU_FUNCTION float mgpu_expf(float v)
{
    bool none = v < -104.0f;
    float x = none ? 0.0f : v > 89.0f ? 89.0f : v;
    float shifted = x * 0.72134752f + 12582912.0f;
    float m = shifted - 12582912.0f;
    float r = (x - m * 1.38671875f) + m * 4.24388880e-4f;
    float p = 1.961180096e-04f;
    p = p * r + 1.410430414e-03f;
    p = p * r + 8.336098865e-03f;
    p = p * r + 4.166127741e-02f;
    p = p * r + 1.666661501e-01f;
    p = p * r + 5.000003576e-01f;
    p = p * r + 1.0f;
    p = p * r + 1.0f;
    float power = mgpu_float_of((mgpu_bits_of(shifted) << 23) + 0x3f800000u);
    float y = p * power * power;
    return none ? 0.0f : y;
}
#endif

/* log(x) = k log 2 + log(m), sqrt(1/2) <= m < sqrt(2) */
MGPU_FUNCTION float mgpu_logf(float x)
{
    bool tiny = x < 1.17549435e-38f;
    float scaled = tiny ? x * 8388608.0f : x;
    uint32_t bits = mgpu_bits_of(scaled) - 0x3f3504f3u;
    float k = (float)((int32_t)bits >> 23) - (tiny ? 23.0f : 0.0f);
    float f = mgpu_float_of((bits & 0x007fffffu) + 0x3f3504f3u) - 1.0f;
    float z = f * f;
    float p = 7.0376836292e-2f;
    p = p * f - 1.1514610310e-1f;
    p = p * f + 1.1676998740e-1f;
    p = p * f - 1.2420140846e-1f;
    p = p * f + 1.4249322787e-1f;
    p = p * f - 1.6668057665e-1f;
    p = p * f + 2.0000714765e-1f;
    p = p * f - 2.4999993993e-1f;
    p = p * f + 3.3333331174e-1f;
    float y = p * f * z + k * -2.12194440e-4f - 0.5f * z;
    y = (f + y) + k * 0.693359375f;
    y = x == INFINITY ? x : y;
    y = x == 0.0f ? -INFINITY : y;
    return x < 0.0f ? NAN : x != x ? x : y;
}

/* e^r - 1, |r| <= log 2 / 2 */
MGPU_FUNCTION float mgpu_expm1_near_0(float r)
{
    float p = 1.984595813e-04f;
    p = p * r + 1.394165254e-03f;
    p = p * r + 8.333391637e-03f;
    p = p * r + 4.166634871e-02f;
    p = p * r + 1.666666635e-01f;
    p = p * r + 5.000000047e-01f;
    return p * (r * r) + r;
}

/* e^v - 1, v = r + k log 2: 2^k (e^r - 1) + (2^k - 1); 2^(k - 1) twice, as k may be 128 */
MGPU_FUNCTION float mgpu_expm1f(float v)
{
    float x = v > 89.0f ? 89.0f : v < -20.0f ? -20.0f : v;
    float shifted = x * 1.44269504f + 12582912.0f;
    float k = shifted - 12582912.0f;
    float p = mgpu_expm1_near_0((x - k * 0.693359375f) + k * 2.12194440e-4f);
    float half = mgpu_float_of((mgpu_bits_of(shifted) << 23) + 0x3f000000u);
    float y = 2.0f * (p * half + (half - 0.5f));
    return fabsf(v) < 1e-30f ? v : y;
}

/* log u + (x - (u - 1)) / u, u = 1 + x as it is rounded */
MGPU_FUNCTION float mgpu_log1pf(float x)
{
    float u = 1.0f + x;
    float y = mgpu_logf(u) + (x - (u - 1.0f)) / u;
    y = x == INFINITY ? x : x == -1.0f ? -INFINITY : y;
    return fabsf(x) < 1e-30f ? x : y;
}

/* 1 / (1 + e^-x), with all its bits also where it is near 0: with e = e^-|x| = 2^k e^r, 1 / (1 + e) or e / (1 + e). 2^(k + 64), as e
 * may be denormal. */
MGPU_FUNCTION float mgpu_logisticf(float x)
{
    float a = x < 0.0f ? x : -x, b = a < -104.0f ? -104.0f : a;
    float shifted = b * 1.44269504f + 12582912.0f;
    float k = shifted - 12582912.0f;
    float p = mgpu_expm1_near_0((b - k * 0.693359375f) + k * 2.12194440e-4f);
    float power = mgpu_float_of((mgpu_bits_of(shifted) << 23) + 0x5f800000u);
    float e = (p * power + power) * 0x1p-64f, sum = 1.0f + e;
    float y = (x < 0.0f ? e : 1.0f) / sum;
    return y - y * (e - (sum - 1.0f)) * (x < 0.0f ? 1.0f - y : y); /* what 1 + e lost, by its inverse */
}

/* ---- float: circular and hyperbolic functions */

/* x - k pi / 2 of a finite x, in double, after Payne & Hanek, "Radian Reduction for Trigonometric Functions" (1983): where x is a
 * whole number of 2^s, it is x 2^-s (2^s 2 / pi mod 4) quarters and some turns; s is 0, 26, 52 or 78. The factor has two parts of 29
 * bits, whose products with x are exact, and a rest; the turns in a product are dropped. */
MGPU_FUNCTION float mgpu_quarter(float x, int32_t *quarter)
{
    const double magic = 6755399441055744.0; /* whole numbers in the last bits */
    double a = x < 0.0f ? -(double)x : (double)x;
    bool b1 = a >= 0x1p50, b2 = a >= 0x1p76, b3 = a >= 0x1p102;
    double high = b1 ? 0x1.b939104p-26 : 0x1.45f306cp-1, middle = b1 ? 0x1.4a7f09dp-54 : 0x1.c9c882ap-29;
    double low = b1 ? 0x1.7d1f534ddc0dbp-84 : 0x1.4fe13abe8fa9ap-59;
    high = b2 ? 0x1.529fc26p-52 : high, middle = b2 ? 0x1.57d1f53p-80 : middle, low = b2 ? 0x1.377036d8a5665p-110 : low;
    high = b3 ? 0x1.d5f47d4p-78 : high, middle = b3 ? 0x1.a6ee06cp-107 : middle, low = b3 ? 0x1.b14acc9e21c82p-135 : low;
    double t1 = (double)x * high, t2 = (double)x * middle, t3 = (double)x * low;
    double f1 = t1 - 4.0 * ((t1 * 0.25 + magic) - magic), f2 = t2 - 4.0 * ((t2 * 0.25 + magic) - magic);
    double k = ((f1 + f2) + magic) - magic;
    *quarter = (int32_t)k & 3;
    return (float)((((f1 - k) + f2) + t3) * 1.5707963267948966);
}

MGPU_FUNCTION float mgpu_sine_of(float r, int32_t quarter)
{
    float z = r * r;
    float s = -1.9515295891e-4f;
    s = s * z + 8.3321608736e-3f;
    s = s * z - 1.6666654611e-1f;
    s = s * z * r + r;
    float c = 2.443315711809948e-5f;
    c = c * z - 1.388731625493765e-3f;
    c = c * z + 4.166664568298827e-2f;
    c = c * z * z - 0.5f * z + 1.0f;
    float y = quarter & 1 ? c : s;
    return quarter & 2 ? -y : y;
}

/* NaN for infinities */
MGPU_FUNCTION float mgpu_sinf(float x)
{
    int32_t quarter;
    bool known = x - x == 0.0f;
    float r = mgpu_quarter(known ? x : 0.0f, &quarter);
    float y = mgpu_sine_of(r, quarter);
    return known ? (x == 0.0f ? x : y) : x - x;
}

MGPU_FUNCTION float mgpu_cosf(float x)
{
    int32_t quarter;
    bool known = x - x == 0.0f;
    float r = mgpu_quarter(known ? x : 0.0f, &quarter);
    float y = mgpu_sine_of(r, quarter + 1);
    return known ? y : x - x;
}

/* x + x^3 P(x^2) near 0, elsewhere 1 - 2 / (e^(2|x|) + 1), whose exponent needs no care: e^(2|x|) = 2^k e^u, |u| <= log 2 / 2 */
MGPU_FUNCTION float mgpu_tanhf(float x)
{
    float a = fabsf(x), z = x * x;
    float p = -5.70498872745e-3f;
    p = p * z + 2.06390887954e-2f;
    p = p * z - 5.37397155531e-2f;
    p = p * z + 1.33314422036e-1f;
    p = p * z - 3.33332819422e-1f;
    float small = p * z * a + a;
    float b = a > 10.0f ? 10.0f : a;
    float shifted = b * 2.88539008f + 12582912.0f;
    float k = shifted - 12582912.0f;
    float u = (2.0f * b - k * 0.693359375f) + k * 2.12194440e-4f;
    float q = 8.312450722e-03f;
    q = q * u + 4.189054295e-02f;
    q = q * u + 1.666711718e-01f;
    q = q * u + 4.999922812e-01f;
    q = q * u + 1.0f;
    q = q * u + 1.0f;
    float power = mgpu_float_of((mgpu_bits_of(shifted) << 23) + 0x3f800000u);
    float large = 1.0f - 2.0f / (q * power + 1.0f);
    return copysignf(a < 0.625f ? small : large, x);
}

/* x P(x^2) near 0, elsewhere a polynomial of |x|, which is 1 at 3.92 */
MGPU_FUNCTION float mgpu_erff(float x)
{
    float a = fabsf(x), z = x * x;
    float p = 7.520992222e-05f;
    p = p * z - 7.912919973e-04f;
    p = p * z + 5.177722313e-03f;
    p = p * z - 2.684851550e-02f;
    p = p * z + 1.128346622e-01f;
    p = p * z - 3.761261702e-01f;
    p = p * z + 1.283791661e-01f;
    float small = p * a + a;
    float b = (a > 3.92f ? 3.92f : a) - 2.45f;
    float q = -9.088291336e-06f;
    q = q * b + 2.650957504e-05f;
    q = q * b + 4.859888213e-05f;
    q = q * b - 3.066764330e-04f;
    q = q * b + 4.189674510e-04f;
    q = q * b + 4.297519918e-04f;
    q = q * b - 2.995192306e-03f;
    q = q * b + 6.976429373e-03f;
    q = q * b - 1.024897117e-02f;
    q = q * b + 1.023604348e-02f;
    q = q * b - 6.836796179e-03f;
    q = q * b + 2.789898310e-03f;
    q = q * b + 9.994694591e-01f;
    return copysignf(a < 1.05f ? small : q, x);
}

/* The angle of low / high <= 1, in double, which holds every quotient of floats: atan(t) = t P(t^2) up to tan(pi / 8), above it
 * pi / 4 + atan((low - high) / (low + high)). */
MGPU_FUNCTION float mgpu_atan2f(float y, float x)
{
    double a = (double)fabsf(y), b = (double)fabsf(x);
    a = a > 1e300 ? 1e300 : a;
    b = b > 1e300 ? 1e300 : b;
    double high = a > b ? a : b, low = a > b ? b : a;
    bool near = low > 0.4142135623730950488 * high;
    double up = near ? low - high : low, down = near ? low + high : high;
    double t = up / (down == 0.0 ? 1.0 : down), z = t * t;
    double p = 4.712996889706e-02;
    p = p * z - 8.459108968230e-02;
    p = p * z + 1.104105412225e-01;
    p = p * z - 1.428163925603e-01;
    p = p * z + 1.999988589854e-01;
    p = p * z - 3.333333212788e-01;
    p = p * z + 9.999999999791e-01;
    double angle = p * t + (near ? 0.78539816339744830962 : 0.0);
    angle = a > b ? 1.57079632679489661923 - angle : angle;
    angle = mgpu_bits_of(x) >> 31 ? 3.14159265358979323846 - angle : angle;
    return y != y || x != x ? x + y : copysignf((float)angle, y);
}

/* ---- float: powers, by the exponential and logarithm of double, which are exact enough for any exponent */

MGPU_FUNCTION double mgpu_log2_wide(float x)
{
    bool tiny = x < 1.17549435e-38f;
    uint32_t bits = mgpu_bits_of(tiny ? x * 8388608.0f : x) - 0x3f3504f3u;
    double k = (double)((int32_t)bits >> 23) - (tiny ? 23.0 : 0.0);
    double m = (double)mgpu_float_of((bits & 0x007fffffu) + 0x3f3504f3u);
    double s = (m - 1.0) / (m + 1.0), z = s * s; /* log m = 2 atanh s, |s| < 0.1716 */
    double p = 1.0 / 13.0;
    p = p * z + 1.0 / 11.0;
    p = p * z + 1.0 / 9.0;
    p = p * z + 1.0 / 7.0;
    p = p * z + 1.0 / 5.0;
    p = p * z + 1.0 / 3.0;
    p = p * z + 1.0;
    return k + p * s * 2.8853900817779268147;
}

MGPU_FUNCTION float mgpu_exp2_wide(double x)
{
    x = x < -160.0 ? -160.0 : x > 130.0 ? 130.0 : x;
    double k = (x + 6755399441055744.0) - 6755399441055744.0, r = (x - k) * 0.69314718055994530942;
    double p = 1.0 / 5040.0;
    p = p * r + 1.0 / 720.0;
    p = p * r + 1.0 / 120.0;
    p = p * r + 1.0 / 24.0;
    p = p * r + 1.0 / 6.0;
    p = p * r + 0.5;
    p = p * r + 1.0;
    p = p * r + 1.0;
    uint64_t bits = (uint64_t)((int64_t)(int32_t)k + 1023) << 52;
    double scale;
    memcpy(&scale, &bits, sizeof scale);
    return (float)(p * scale);
}

MGPU_FUNCTION float mgpu_powf(float x, float y)
{
    float a = x < 0.0f ? -x : x, b = y < 0.0f ? -y : y;
    bool whole = b >= 8388608.0f || b == mgpu_round(b);
    float halved = b * 0.5f;
    bool odd = whole && b < 16777216.0f && !(halved >= 8388608.0f || halved == mgpu_round(halved));
    bool plain = a > 0.0f && a < INFINITY && b < INFINITY;
    float safe_y = y > 1e30f ? 1e30f : y < -1e30f ? -1e30f : y;
    float r = mgpu_exp2_wide((double)(plain ? safe_y : 0.0f) * mgpu_log2_wide(plain ? a : 1.0f));
    float at_end = (a == 0.0f) == (y < 0.0f) ? INFINITY : 0.0f; /* 0 or inf, to a power that is not 0 */
    float far = a == 1.0f ? 1.0f : (a > 1.0f) == (y > 0.0f) ? INFINITY : 0.0f; /* to a power of +-inf */
    r = a == 0.0f || a == INFINITY ? at_end : r;
    r = b == INFINITY ? far : r;
    bool negative = mgpu_bits_of(x) >> 31;
    r = negative && odd ? -r : r;
    r = x < 0.0f && !whole && a < INFINITY ? NAN : r;
    r = x != x || y != y ? x + y : r;
    return y == 0.0f || x == 1.0f ? 1.0f : r;
}

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

#define MGPU_TO_WHOLE(name, type, least, most)                                                                            \
    MGPU_FUNCTION type mgpu_to_##name(double v) /* towards zero; what does not fit becomes the limit, NaN 0 */            \
    {                                                                                                                     \
        return v != v ? 0 : v <= (double)(least) ? (least) : v >= (double)(most) ? (most) : (type)v;                      \
    }
MGPU_TO_WHOLE(u8, uint8_t, 0, UINT8_MAX)
MGPU_TO_WHOLE(i8, int8_t, INT8_MIN, INT8_MAX)
MGPU_TO_WHOLE(u16, uint16_t, 0, UINT16_MAX)
MGPU_TO_WHOLE(i16, int16_t, INT16_MIN, INT16_MAX)
MGPU_TO_WHOLE(u32, uint32_t, 0, UINT32_MAX)
MGPU_TO_WHOLE(i32, int32_t, INT32_MIN, INT32_MAX)
MGPU_TO_WHOLE(i64, int64_t, INT64_MIN, INT64_MAX)
#undef MGPU_TO_WHOLE

/* The C library has some functions as SSE code, which AVX processors run many times slower while the upper halves of registers are not
 * zero (measured: erf 184 ns in place of 8). gcc zeroes them before calls, but not with -fno-expensive-optimizations
 * (compiler/link/known.c); clang always does. */
#if defined __AVX__ && defined __GNUC__ && !defined __clang__
#define MGPU_BEFORE_LIBM()                                                                                                  \
    __asm__ volatile("vzeroupper" ::: "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", \
                     "xmm11", "xmm12", "xmm13", "xmm14", "xmm15")
#else
#define MGPU_BEFORE_LIBM() (void)0
#endif

/* libm under names that no tensor has: kernels' variables are named as the model's */
MGPU_FUNCTION double mgpu_pow_double(double a, double b) { MGPU_BEFORE_LIBM(); return pow(a, b); }
MGPU_FUNCTION double mgpu_abs_double(double a) { return fabs(a); }
MGPU_FUNCTION double mgpu_floor_double(double a) { return floor(a); }
MGPU_FUNCTION double mgpu_sqrt_double(double a) { return sqrt(a); }
MGPU_FUNCTION double mgpu_exp_double(double a) { MGPU_BEFORE_LIBM(); return exp(a); }
MGPU_FUNCTION double mgpu_log_double(double a) { MGPU_BEFORE_LIBM(); return log(a); }
MGPU_FUNCTION double mgpu_expm1_double(double a) { MGPU_BEFORE_LIBM(); return expm1(a); }
MGPU_FUNCTION double mgpu_log1p_double(double a) { MGPU_BEFORE_LIBM(); return log1p(a); }
MGPU_FUNCTION double mgpu_logistic_double(double a)
{
    double e = mgpu_exp_double(a < 0.0 ? a : -a);
    return (a < 0.0 ? e : 1.0) / (1.0 + e);
}
MGPU_FUNCTION double mgpu_sin_double(double a) { MGPU_BEFORE_LIBM(); return sin(a); }
MGPU_FUNCTION double mgpu_cos_double(double a) { MGPU_BEFORE_LIBM(); return cos(a); }
MGPU_FUNCTION double mgpu_tanh_double(double a) { MGPU_BEFORE_LIBM(); return tanh(a); }
MGPU_FUNCTION double mgpu_atan2_double(double a, double b) { MGPU_BEFORE_LIBM(); return atan2(a, b); }
MGPU_FUNCTION double mgpu_erf_double(double a) { MGPU_BEFORE_LIBM(); return erf(a); }
/* 1 / v, to multiply with: as large as a float can be, where it were larger, so that 0 / v is 0 for every v but 0 */
MGPU_FUNCTION float mgpu_inverse(float v)
{
    float inverse = 1.0f / v;
    return v != 0.0f && (inverse > 3.40282347e+38f || inverse < -3.40282347e+38f) ? v < 0.0f ? -3.40282347e+38f : 3.40282347e+38f : inverse;
}

MGPU_FUNCTION float mgpu_absf(float a) { return fabsf(a); }
MGPU_FUNCTION float mgpu_floorf(float a) { return floorf(a); }
MGPU_FUNCTION float mgpu_sqrtf(float a) { return sqrtf(a); }

/* minimum and maximum as in ops.def, NaN where one of the two is; maxima of many, where the first NaN is the largest of all: b beats the best so far.
 * larger is for long loops: it waits for `best` once; better is for a few values, whose places are wanted, too. */
#define MGPU_ORDER(name, type)                                                                                            \
    MGPU_FUNCTION type mgpu_minimum_##name(type a, type b) { return (a < b) | (a != a) ? a : b; }                         \
    MGPU_FUNCTION type mgpu_maximum_##name(type a, type b) { return (a > b) | (a != a) ? a : b; }                         \
    MGPU_FUNCTION bool mgpu_beats_##name(type b, type best)                                                               \
    {                                                                                                                     \
        bool more = !(b <= best), number = best == best;                                                                  \
        return more & number;                                                                                             \
    }                                                                                                                     \
    MGPU_FUNCTION type mgpu_better_##name(type best, type b) { return mgpu_beats_##name(b, best) ? b : best; }
MGPU_ORDER(f32, float)
MGPU_ORDER(f64, double)
MGPU_ORDER(i32, int32_t)
MGPU_ORDER(u32, uint32_t)
MGPU_ORDER(i64, int64_t)
#undef MGPU_ORDER
#define MGPU_LARGER(name, type) \
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
#define MGPU_QUOTIENT(name, type, wide)                                                                                   \
    MGPU_FUNCTION type mgpu_quotient_##name(type a, type b)                                                               \
    {                                                                                                                     \
        const bool plain = b != 0 && b != (type)-1;                                                                       \
        const type by = plain ? b : 1, q = a / by, r = a % by;                                                            \
        return plain ? (type)(q - (r != 0 && (r < 0) != (b < 0))) : b == 0 ? 0 : (type)(0 - (wide)a);                     \
    }
MGPU_QUOTIENT(i32, int32_t, uint32_t)
MGPU_QUOTIENT(i64, int64_t, uint64_t)
#undef MGPU_QUOTIENT
MGPU_FUNCTION uint32_t mgpu_quotient_u32(uint32_t a, uint32_t b) { return b != 0 ? a / b : 0; }

/* shifts in the type's own bits; all of them out where there are not so many */
#define MGPU_SHIFTS(name, type)                                                                                           \
    MGPU_FUNCTION type mgpu_shift_left_##name(type a, type n)                                                             \
    {                                                                                                                     \
        bool within = (uint64_t)n < 8 * sizeof(type);                                                                     \
        return within ? (type)((uint64_t)a << (within ? n : 0)) : 0;                                                      \
    }                                                                                                                     \
    MGPU_FUNCTION type mgpu_shift_right_##name(type a, type n)                                                            \
    {                                                                                                                     \
        bool within = (uint64_t)n < 8 * sizeof(type);                                                                     \
        return within ? a >> (within ? n : 0) : a >> (8 * sizeof(type) - 1) >> 1;                                         \
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
#define mgpu_of_float(name, a) _Generic((a), float: mgpu_##name##f((float)(a)), default: mgpu_##name##_double((double)(a)))
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
#define mgpu_pow(a, b)                                                                                                    \
    _Generic((a), float: mgpu_powf((float)(a), (float)(b)), default: mgpu_pow_double((double)(a), (double)(b)))
#define mgpu_atan2(a, b)                                                                                                  \
    _Generic((a), float: mgpu_atan2f((float)(a), (float)(b)), default: mgpu_atan2_double((double)(a), (double)(b)))
#define mgpu_of_whole(name, a, b)                                                                                         \
    _Generic((a), uint32_t: mgpu_##name##_u32, int64_t: mgpu_##name##_i64, default: mgpu_##name##_i32)(a, b)
#define mgpu_shift_left(a, b) mgpu_of_whole(shift_left, a, b)
#define mgpu_shift_right(a, b) mgpu_of_whole(shift_right, a, b)
#define mgpu_quotient(a, b) mgpu_of_whole(quotient, a, b)
#define mgpu_mod(a, b)                                                                                                    \
    _Generic((a), float: mgpu_modf((float)(a), (float)(b)), double: mgpu_mod_double((double)(a), (double)(b)),            \
             default: mgpu_mod_whole((int64_t)(a), (int64_t)(b)))
#define mgpu_abs(a)                                                                                                       \
    _Generic((a), float: mgpu_absf((float)(a)), double: mgpu_abs_double((double)(a)), default: (a) < 0 ? -(a) : (a))
#define mgpu_by_type(name, a, b)                                                                                          \
    _Generic((a), float: mgpu_##name##_f32, double: mgpu_##name##_f64, uint32_t: mgpu_##name##_u32,                       \
             int64_t: mgpu_##name##_i64, default: mgpu_##name##_i32)(a, b)
#define mgpu_minimum(a, b) mgpu_by_type(minimum, a, b)
#define mgpu_maximum(a, b) mgpu_by_type(maximum, a, b)
#define mgpu_beats(b, best) mgpu_by_type(beats, b, best)
#define mgpu_larger(best, b) mgpu_by_type(larger, best, b)
#define mgpu_better(best, b) mgpu_by_type(better, best, b)
#pragma omp declare reduction(mgpu_larger : float, double, int32_t, int64_t, uint8_t, int8_t, uint16_t, int16_t, uint32_t    \
                              : omp_out = mgpu_larger(omp_out, omp_in)) initializer(omp_priv = omp_orig)
#else
template <class A, class B> struct mgpu_same { static const bool value = false; };
template <class A> struct mgpu_same<A, A> { static const bool value = true; };
/* by the type of the first argument; narrow whole numbers are int */
#define MGPU_OF_ONE(name)                                                                                                 \
    MGPU_FUNCTION float mgpu_##name(float a) { return mgpu_##name##f(a); }                                                \
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
#define MGPU_OF_WHOLE(name)                                                                                               \
    template <class B> MGPU_FUNCTION uint32_t mgpu_##name(uint32_t a, B b) { return mgpu_##name##_u32(a, (uint32_t)b); }   \
    template <class B> MGPU_FUNCTION int64_t mgpu_##name(int64_t a, B b) { return mgpu_##name##_i64(a, (int64_t)b); }      \
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
#define MGPU_BY_TYPE(name)                                                                                                \
    template <class A, class B> MGPU_FUNCTION auto mgpu_##name(A a, B b)                                                  \
    {                                                                                                                     \
        typedef decltype(+a) T;                                                                                           \
        if constexpr (mgpu_same<T, float>::value)                                                                         \
            return mgpu_##name##_f32(a, (T)b);                                                                            \
        else if constexpr (mgpu_same<T, double>::value)                                                                   \
            return mgpu_##name##_f64(a, (T)b);                                                                            \
        else if constexpr (mgpu_same<T, uint32_t>::value)                                                                 \
            return mgpu_##name##_u32(a, (T)b);                                                                            \
        else if constexpr (mgpu_same<T, int64_t>::value)                                                                  \
            return mgpu_##name##_i64(a, (T)b);                                                                            \
        else                                                                                                              \
            return mgpu_##name##_i32(a, (T)b);                                                                            \
    }
MGPU_BY_TYPE(minimum)
MGPU_BY_TYPE(maximum)
MGPU_BY_TYPE(beats)
MGPU_BY_TYPE(larger)
MGPU_BY_TYPE(better)
#undef MGPU_BY_TYPE
#endif
#endif
