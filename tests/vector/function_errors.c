/* function_errors: the float functions of runtime/abi/mgpu_math.h against those of double, and those of vectors against them, to
 * the bit: over numbers of every size and sign, and at the ends. Prints a line per function: name, largest error in units in the
 * last place, where; then a line per value at an end that is wrong. tests/vector.test compiles it with the flags of kernels, for
 * several processors. */
#include "runtime/abi/mgpu_vector.h"

#include <stdio.h>

#ifndef STRIDE /* one float of so many is taken */
#define STRIDE 16411
#endif
enum { BLOCK = 64 };

static double units(float got, double wanted)
{
    const double beyond = 3.4028234663852886e38 * (1 + 0x1p-25); /* rounds to infinity */
    if (isnan(wanted) || isnan(got))
        return isnan(wanted) && isnan(got) ? 0 : INFINITY;
    if (fabs(wanted) >= beyond || isinf(got))
        return fabs(wanted) >= beyond * (1 - 0x1p-22) && isinf(got) && (got < 0) == (wanted < 0) ? 0 : INFINITY;
    int exponent;
    frexp(wanted, &exponent);
    return fabs((double)got - wanted) / ldexp(1, (exponent < -125 ? -125 : exponent) - 24);
}

static double logistic(double x) { return x < 0 ? exp(x) / (1 + exp(x)) : 1 / (1 + exp(-x)); }

/* vectors and single numbers have the same bits, but for those of NaN */
static void same_bits(const char *what, const float *vector, const float *number)
{
    for (int i = 0; i < BLOCK; i++)
        if (mgpu_bits_of(vector[i]) != mgpu_bits_of(number[i]) && !(isnan(vector[i]) && isnan(number[i]))) {
            printf("wrong: %s of vectors = %.9g, not %.9g\n", what, (double)vector[i], (double)number[i]);
            return;
        }
}
#define EACH_VECTOR(lanes) for (int i = 0; i < BLOCK; i += MGPU_LANES_##lanes)
#define VECTOR(lanes, x) mgpu_load_f32_##lanes(x, MGPU_LANES_##lanes)
#define KEEP(lanes, to, value) mgpu_store_f32_##lanes(to, value, MGPU_LANES_##lanes)

#define LARGEST_ERROR(name, lanes)                                                                                               \
    static void name##_error(void)                                                                                               \
    {                                                                                                                            \
        double worst = 0;                                                                                                        \
        float at = 0, x[BLOCK], y[BLOCK], v[BLOCK];                                                                              \
        for (uint64_t first = 0; first + BLOCK * STRIDE < 1ull << 32; first += BLOCK * STRIDE) {                                 \
            for (int i = 0; i < BLOCK; i++)                                                                                      \
                x[i] = mgpu_float_of((uint32_t)first + (uint32_t)i * STRIDE);                                                    \
            for (int i = 0; i < BLOCK; i++)                                                                                      \
                y[i] = mgpu_##name##f(x[i]);                                                                                     \
            EACH_VECTOR(lanes)                                                                                                   \
            KEEP(lanes, v + i, mgpu_##name##_f32_##lanes(VECTOR(lanes, x + i)));                                                 \
            same_bits(#name, v, y);                                                                                              \
            for (int i = 0; i < BLOCK; i++)                                                                                      \
                if (units(y[i], name((double)x[i])) > worst) {                                                                   \
                    worst = units(y[i], name((double)x[i]));                                                                     \
                    at = x[i];                                                                                                   \
                }                                                                                                                \
        }                                                                                                                        \
        printf("%s %.3f at %.9g\n", #name, worst, (double)at);                                                                   \
    }
LARGEST_ERROR(exp, n)
LARGEST_ERROR(log, n)
LARGEST_ERROR(expm1, n)
LARGEST_ERROR(log1p, n)
LARGEST_ERROR(logistic, n)
LARGEST_ERROR(sin, w)
LARGEST_ERROR(cos, w)
LARGEST_ERROR(tanh, n)
LARGEST_ERROR(erf, n)

/* the first argument of every size, the second of some: `...` */
#define LARGEST_ERROR_2(name, ...)                                                                                               \
    static void name##_error(void)                                                                                               \
    {                                                                                                                            \
        static const float second[] = {__VA_ARGS__};                                                                             \
        double worst = 0;                                                                                                        \
        float at = 0, x[BLOCK], y[BLOCK], v[BLOCK];                                                                              \
        for (int k = 0; k < (int)(sizeof second / sizeof *second); k++)                                                          \
            for (uint64_t first = 0; first + BLOCK * STRIDE < 1ull << 32; first += BLOCK * STRIDE) {                             \
                for (int i = 0; i < BLOCK; i++)                                                                                  \
                    x[i] = mgpu_float_of((uint32_t)first + (uint32_t)i * STRIDE);                                                \
                for (int i = 0; i < BLOCK; i++)                                                                                  \
                    y[i] = mgpu_##name##f(x[i], second[k]);                                                                      \
                EACH_VECTOR(w)                                                                                                   \
                KEEP(w, v + i, mgpu_##name##_f32_w(VECTOR(w, x + i), mgpu_all_f32_w(second[k])));                                \
                same_bits(#name, v, y);                                                                                          \
                for (int i = 0; i < BLOCK; i++)                                                                                  \
                    if (units(y[i], name((double)x[i], (double)second[k])) > worst) {                                            \
                        worst = units(y[i], name((double)x[i], (double)second[k]));                                              \
                        at = x[i];                                                                                               \
                    }                                                                                                            \
            }                                                                                                                    \
        printf("%s %.3f at %.9g\n", #name, worst, (double)at);                                                                   \
    }
LARGEST_ERROR_2(atan2, 1, -1, 0.3f, -7, 1e-20f, -1e20f, 3e38f, 0)
LARGEST_ERROR_2(pow, 0.75f, -0.25f, 2, -3, 4194305, 0.001f, 41.5f, -1e5f, 0)

static void at_end(const char *what, float got, float wanted)
{
    if (!(isnan(got) && isnan(wanted)) && (got != wanted || !signbit(got) != !signbit(wanted)))
        printf("wrong: %s = %.9g, not %.9g\n", what, (double)got, (double)wanted);
}

int main(void)
{
    exp_error();
    log_error();
    expm1_error();
    log1p_error();
    logistic_error();
    sin_error();
    cos_error();
    tanh_error();
    erf_error();
    atan2_error();
    pow_error();
    volatile float zero = 0, infinite = INFINITY, none = NAN;
    at_end("exp(0)", mgpu_expf(zero), 1);
    at_end("exp(-inf)", mgpu_expf(-infinite), 0);
    at_end("exp(inf)", mgpu_expf(infinite), INFINITY);
    at_end("exp(nan)", mgpu_expf(none), NAN);
    at_end("log(0)", mgpu_logf(zero), -INFINITY);
    at_end("log(inf)", mgpu_logf(infinite), INFINITY);
    at_end("log(-inf)", mgpu_logf(-infinite), NAN);
    at_end("expm1(-0)", mgpu_expm1f(-zero), -0.0f);
    at_end("expm1(inf)", mgpu_expm1f(infinite), INFINITY);
    at_end("expm1(-inf)", mgpu_expm1f(-infinite), -1);
    at_end("expm1(nan)", mgpu_expm1f(none), NAN);
    at_end("log1p(-0)", mgpu_log1pf(-zero), -0.0f);
    at_end("log1p(-1)", mgpu_log1pf(zero - 1), -INFINITY);
    at_end("log1p(-2)", mgpu_log1pf(zero - 2), NAN);
    at_end("log1p(inf)", mgpu_log1pf(infinite), INFINITY);
    at_end("log1p(nan)", mgpu_log1pf(none), NAN);
    at_end("logistic(-inf)", mgpu_logisticf(-infinite), 0);
    at_end("logistic(inf)", mgpu_logisticf(infinite), 1);
    at_end("logistic(nan)", mgpu_logisticf(none), NAN);
    at_end("sin(-0)", mgpu_sinf(-zero), -0.0f);
    at_end("sin(inf)", mgpu_sinf(infinite), NAN);
    at_end("cos(-inf)", mgpu_cosf(-infinite), NAN);
    at_end("cos(nan)", mgpu_cosf(none), NAN);
    /* next to a multiple of pi / 2 */
    at_end("sin(2^72 16367173)", mgpu_sinf(16367173 * 0x1p72f), (float)sin(16367173 * 0x1p72));
    at_end("cos(2^72 16367173)", mgpu_cosf(16367173 * 0x1p72f), (float)cos(16367173 * 0x1p72));
    at_end("minimum(nan, 1)", mgpu_minimum(none, zero + 1), NAN);
    at_end("minimum(1, nan)", mgpu_minimum(zero + 1, none), NAN);
    at_end("maximum(nan, 1)", mgpu_maximum(none, zero + 1), NAN);
    at_end("maximum(1, nan)", mgpu_maximum(zero + 1, none), NAN);
    at_end("tanh(-0)", mgpu_tanhf(-zero), -0.0f);
    at_end("tanh(inf)", mgpu_tanhf(infinite), 1);
    at_end("tanh(-inf)", mgpu_tanhf(-infinite), -1);
    at_end("tanh(nan)", mgpu_tanhf(none), NAN);
    at_end("erf(-0)", mgpu_erff(-zero), -0.0f);
    at_end("erf(inf)", mgpu_erff(infinite), 1);
    at_end("erf(-inf)", mgpu_erff(-infinite), -1);
    at_end("erf(nan)", mgpu_erff(none), NAN);
    at_end("atan2(0, 0)", mgpu_atan2f(zero, zero), 0);
    at_end("atan2(-0, -0)", mgpu_atan2f(-zero, -zero), -3.14159265f);
    at_end("atan2(0, -1)", mgpu_atan2f(zero, -1), 3.14159265f);
    at_end("atan2(1, 0)", mgpu_atan2f(1, zero), 1.57079633f);
    at_end("atan2(inf, inf)", mgpu_atan2f(infinite, infinite), 0.785398163f);
    at_end("atan2(-inf, -inf)", mgpu_atan2f(-infinite, -infinite), -2.35619449f);
    at_end("atan2(1, -inf)", mgpu_atan2f(1, -infinite), 3.14159265f);
    at_end("atan2(-1, inf)", mgpu_atan2f(-1, infinite), -0.0f);
    at_end("atan2(nan, 1)", mgpu_atan2f(none, 1), NAN);
    at_end("atan2(1, nan)", mgpu_atan2f(1, none), NAN);
    at_end("pow(-0, -3)", mgpu_powf(-zero, -3), -INFINITY);
    at_end("pow(-1, 4194305)", mgpu_powf(zero - 1, 4194305), -1);
    at_end("pow(-2, 3)", mgpu_powf(zero - 2, 3), -8);
    at_end("pow(-2, 0.5)", mgpu_powf(zero - 2, 0.5f), NAN);
    at_end("pow(nan, 0)", mgpu_powf(none, zero), 1);
    at_end("pow(1, nan)", mgpu_powf(zero + 1, none), 1);
    at_end("pow(inf, -1)", mgpu_powf(infinite, -1), 0);
    at_end("pow(2, -inf)", mgpu_powf(zero + 2, -infinite), 0);
    for (float x = 3; x < 12; x += 0x1p-12f) { /* bounded, also where they end in polynomials */
        if (mgpu_erff(x) > 1)
            at_end("erf of a large number", mgpu_erff(x), 1);
        if (mgpu_tanhf(x) > 1)
            at_end("tanh of a large number", mgpu_tanhf(x), 1);
    }
    return 0;
}
