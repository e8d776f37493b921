/* mgpu_math_f32.h: functions of f32, for scalars (mgpu_math.h) and vectors (mgpu_vector_math.h). The including file defines:
 *
 *   R, U, B           types: float, its bits, results of comparisons
 *   NAME(exp)         the function's name
 *   K(c)              a constant; MADD(a, b, c): a b + c; SELECT(b, x, y), LESS(x, y), EQUAL(x, y), ABS(x)
 *   AND, OR, NOT      of results of comparisons
 *   SIGNED(x, s)      |x| with the sign of s; BELOW_0(x): the sign bit is set
 *   BITS(x), REAL(u)  from float to bits, and back; SHIFTED(u): u >> 23 as a signed integer; TO_REAL: from integer to float
 *   D, I              double, a 32-bit integer; K_D, LESS_D ... as above; TO_D, OF_D, WHOLE_D convert; BIT(i, bit): it is set;
 *                     if D is not defined, functions that compute in double are left out
 *
 * Polynomials are minimax fits; the reductions are those of Cody and Waite,
 * "Software Manual for the Elementary Functions" (1980). */

/* ---- exponential and logarithm */

#ifndef MGPU_HAS_EXP /* an instruction */
/* Returns 0 below -104, without denormal intermediates, which are slow (masked elements are that small), and inf above 89.
 * e^v = e^r 4^m, |r| <= log 2; the factor is 2^m twice, as 4^m may be denormal or overflow. Adding 1.5 2^23 rounds to an integer
 * m, which is then in the lowest bits. */
MGPU_FUNCTION R NAME(exp)(R v)
{
    B none = LESS(v, K(-104.0f));
    R x = SELECT(none, K(0.0f), SELECT(LESS(K(89.0f), v), K(89.0f), v));
    R shifted = MADD(x, K(0.72134752f), K(12582912.0f));
    R m = shifted - 12582912.0f;
    R r = MADD(m, K(4.24388880e-4f), MADD(m, K(-1.38671875f), x));
    R p = K(1.961180096e-04f);
    p = MADD(p, r, K(1.410430414e-03f));
    p = MADD(p, r, K(8.336098865e-03f));
    p = MADD(p, r, K(4.166127741e-02f));
    p = MADD(p, r, K(1.666661501e-01f));
    p = MADD(p, r, K(5.000003576e-01f));
    p = MADD(p, r, K(1.0f));
    p = MADD(p, r, K(1.0f));
    R power = REAL((BITS(shifted) << 23) + 0x3f800000u);
    R y = p * power * power;
    return SELECT(none, K(0.0f), y);
}
#endif

/* log(x) = k log 2 + log(m), sqrt(1/2) <= m < sqrt(2) */
MGPU_FUNCTION R NAME(log)(R x)
{
    B tiny = LESS(x, K(1.17549435e-38f));
    R scaled = SELECT(tiny, x * 8388608.0f, x);
    U bits = BITS(scaled) - 0x3f3504f3u;
    R k = TO_REAL(SHIFTED(bits)) - SELECT(tiny, K(23.0f), K(0.0f));
    R f = REAL((bits & 0x007fffffu) + 0x3f3504f3u) - 1.0f;
    R z = f * f;
    R p = K(7.0376836292e-2f);
    p = MADD(p, f, K(-1.1514610310e-1f));
    p = MADD(p, f, K(1.1676998740e-1f));
    p = MADD(p, f, K(-1.2420140846e-1f));
    p = MADD(p, f, K(1.4249322787e-1f));
    p = MADD(p, f, K(-1.6668057665e-1f));
    p = MADD(p, f, K(2.0000714765e-1f));
    p = MADD(p, f, K(-2.4999993993e-1f));
    p = MADD(p, f, K(3.3333331174e-1f));
    R y = MADD(z, K(-0.5f), MADD(p * f, z, k * -2.12194440e-4f));
    y = MADD(k, K(0.693359375f), f + y);
    y = SELECT(EQUAL(x, K(INFINITY)), x, y);
    y = SELECT(EQUAL(x, K(0.0f)), K(-INFINITY), y);
    return SELECT(LESS(x, K(0.0f)), K(NAN), SELECT(EQUAL(x, x), y, x));
}

/* e^r - 1, |r| <= log 2 / 2 */
MGPU_FUNCTION R NAME(expm1_near_0)(R r)
{
    R p = K(1.984595813e-04f);
    p = MADD(p, r, K(1.394165254e-03f));
    p = MADD(p, r, K(8.333391637e-03f));
    p = MADD(p, r, K(4.166634871e-02f));
    p = MADD(p, r, K(1.666666635e-01f));
    p = MADD(p, r, K(5.000000047e-01f));
    return MADD(p, r * r, r);
}

/* e^v - 1 with v = r + k log 2: 2^k (e^r - 1) + (2^k - 1), computed with 2^(k - 1) and doubled, as k may be 128. */
MGPU_FUNCTION R NAME(expm1)(R v)
{
    R x = SELECT(LESS(K(89.0f), v), K(89.0f), SELECT(LESS(v, K(-20.0f)), K(-20.0f), v));
    R shifted = MADD(x, K(1.44269504f), K(12582912.0f));
    R k = shifted - 12582912.0f;
    R p = NAME(expm1_near_0)(MADD(k, K(2.12194440e-4f), MADD(k, K(-0.693359375f), x)));
    R half = REAL((BITS(shifted) << 23) + 0x3f000000u);
    R y = 2.0f * MADD(p, half, half - 0.5f);
    return SELECT(LESS(ABS(v), K(1e-30f)), v, y);
}

/* log u + (x - (u - 1)) / u, where u is 1 + x rounded. */
MGPU_FUNCTION R NAME(log1p)(R x)
{
    R u = 1.0f + x;
    R y = NAME(log)(u) + (x - (u - 1.0f)) / u;
    y = SELECT(EQUAL(x, K(INFINITY)), x, SELECT(EQUAL(x, K(-1.0f)), K(-INFINITY), y));
    return SELECT(LESS(ABS(x), K(1e-30f)), x, y);
}

/* 1 / (1 + e^-x), accurate also near 0: 1 / (1 + e) or e / (1 + e) with e = e^-|x| = 2^k e^r. It uses 2^(k + 64), as e may be
 * denormal. */
MGPU_FUNCTION R NAME(logistic)(R x)
{
    B below = LESS(x, K(0.0f));
    R a = SELECT(below, x, -x), b = SELECT(LESS(a, K(-104.0f)), K(-104.0f), a);
    R shifted = MADD(b, K(1.44269504f), K(12582912.0f));
    R k = shifted - 12582912.0f;
    R p = NAME(expm1_near_0)(MADD(k, K(2.12194440e-4f), MADD(k, K(-0.693359375f), b)));
    R power = REAL((BITS(shifted) << 23) + 0x5f800000u);
    R e = MADD(p, power, power) * 0x1p-64f, sum = 1.0f + e;
    R y = SELECT(below, e, K(1.0f)) / sum;
    return y - y * (e - (sum - 1.0f)) * SELECT(below, 1.0f - y, y); /* corrects the rounding of 1 + e */
}

/* ---- hyperbolic tangent and error function */

/* x + x^3 P(x^2) near 0, elsewhere 1 - 2 / (e^(2|x|) + 1); e^(2|x|) = 2^k e^u with |u| <= log 2 / 2 cannot overflow. */
MGPU_FUNCTION R NAME(tanh)(R x)
{
    R a = ABS(x), z = x * x;
    R p = K(-5.70498872745e-3f);
    p = MADD(p, z, K(2.06390887954e-2f));
    p = MADD(p, z, K(-5.37397155531e-2f));
    p = MADD(p, z, K(1.33314422036e-1f));
    p = MADD(p, z, K(-3.33332819422e-1f));
    R small = MADD(p * z, a, a);
    R b = SELECT(LESS(K(10.0f), a), K(10.0f), a);
    R shifted = MADD(b, K(2.88539008f), K(12582912.0f));
    R k = shifted - 12582912.0f;
    R u = MADD(k, K(2.12194440e-4f), MADD(k, K(-0.693359375f), 2.0f * b));
    R q = K(8.312450722e-03f);
    q = MADD(q, u, K(4.189054295e-02f));
    q = MADD(q, u, K(1.666711718e-01f));
    q = MADD(q, u, K(4.999922812e-01f));
    q = MADD(q, u, K(1.0f));
    q = MADD(q, u, K(1.0f));
    R power = REAL((BITS(shifted) << 23) + 0x3f800000u);
    R large = 1.0f - 2.0f / MADD(q, power, K(1.0f));
    return SIGNED(SELECT(LESS(a, K(0.625f)), small, large), x);
}

/* x P(x^2) near 0, elsewhere a polynomial of |x|, which is 1 at 3.92 */
MGPU_FUNCTION R NAME(erf)(R x)
{
    R a = ABS(x), z = x * x;
    R p = K(7.520992222e-05f);
    p = MADD(p, z, K(-7.912919973e-04f));
    p = MADD(p, z, K(5.177722313e-03f));
    p = MADD(p, z, K(-2.684851550e-02f));
    p = MADD(p, z, K(1.128346622e-01f));
    p = MADD(p, z, K(-3.761261702e-01f));
    p = MADD(p, z, K(1.283791661e-01f));
    R small = MADD(p, a, a);
    R b = SELECT(LESS(K(3.92f), a), K(3.92f), a) - 2.45f;
    R q = K(-9.088291336e-06f);
    q = MADD(q, b, K(2.650957504e-05f));
    q = MADD(q, b, K(4.859888213e-05f));
    q = MADD(q, b, K(-3.066764330e-04f));
    q = MADD(q, b, K(4.189674510e-04f));
    q = MADD(q, b, K(4.297519918e-04f));
    q = MADD(q, b, K(-2.995192306e-03f));
    q = MADD(q, b, K(6.976429373e-03f));
    q = MADD(q, b, K(-1.024897117e-02f));
    q = MADD(q, b, K(1.023604348e-02f));
    q = MADD(q, b, K(-6.836796179e-03f));
    q = MADD(q, b, K(2.789898310e-03f));
    q = MADD(q, b, K(9.994694591e-01f));
    return SIGNED(SELECT(LESS(a, K(1.05f)), small, q), x);
}

/* ---- sine and cosine */

#ifdef D
/* Returns x - k pi / 2 of a finite x, and k mod 4, after Payne & Hanek, "Radian Reduction for Trigonometric Functions" (1983), in
 * double. If x is a multiple of 2^s, it is x 2^-s (2^s 2 / pi mod 4) quarters, apart from full turns; s is 0, 26, 52 or 78. The
 * factor is split into two parts of 29 bits, whose products with x are exact, and a remainder; full turns are subtracted. */
MGPU_FUNCTION R NAME(quarter)(R x, I *quarter)
{
    const double magic = 6755399441055744.0; /* 1.5 2^52: adding it rounds to an integer in the lowest bits */
    D wide = TO_D(x), a = TO_D(ABS(x));
    B b1 = LESS_D(a, K_D(0x1p50)), b2 = LESS_D(a, K_D(0x1p76)), b3 = LESS_D(a, K_D(0x1p102));
    D high = SELECT_D(b1, K_D(0x1.45f306cp-1), K_D(0x1.b939104p-26));
    D middle = SELECT_D(b1, K_D(0x1.c9c882ap-29), K_D(0x1.4a7f09dp-54));
    D low = SELECT_D(b1, K_D(0x1.4fe13abe8fa9ap-59), K_D(0x1.7d1f534ddc0dbp-84));
    high = SELECT_D(b2, high, K_D(0x1.529fc26p-52)), middle = SELECT_D(b2, middle, K_D(0x1.57d1f53p-80));
    low = SELECT_D(b2, low, K_D(0x1.377036d8a5665p-110));
    high = SELECT_D(b3, high, K_D(0x1.d5f47d4p-78)), middle = SELECT_D(b3, middle, K_D(0x1.a6ee06cp-107));
    low = SELECT_D(b3, low, K_D(0x1.b14acc9e21c82p-135));
    D t1 = wide * high, t2 = wide * middle, t3 = wide * low;
    D f1 = t1 - 4.0 * ((t1 * 0.25 + magic) - magic), f2 = t2 - 4.0 * ((t2 * 0.25 + magic) - magic);
    D k = ((f1 + f2) + magic) - magic;
    *quarter = WHOLE_D(k);
    return OF_D((((f1 - k) + f2) + t3) * 1.5707963267948966);
}

MGPU_FUNCTION R NAME(sine_of)(R r, I quarter)
{
    R z = r * r;
    R s = K(-1.9515295891e-4f);
    s = MADD(s, z, K(8.3321608736e-3f));
    s = MADD(s, z, K(-1.6666654611e-1f));
    s = MADD(s * z, r, r);
    R c = K(2.443315711809948e-5f);
    c = MADD(c, z, K(-1.388731625493765e-3f));
    c = MADD(c, z, K(4.166664568298827e-2f));
    c = MADD(c * z, z, MADD(z, K(-0.5f), K(1.0f)));
    R y = SELECT(BIT(quarter, 1), c, s);
    return SELECT(BIT(quarter, 2), -y, y);
}

/* Returns NaN for infinities. */
MGPU_FUNCTION R NAME(sin)(R x)
{
    I quarter;
    B known = EQUAL(x - x, K(0.0f));
    R r = NAME(quarter)(SELECT(known, x, K(0.0f)), &quarter);
    R y = NAME(sine_of)(r, quarter);
    return SELECT(known, SELECT(EQUAL(x, K(0.0f)), x, y), x - x);
}

MGPU_FUNCTION R NAME(cos)(R x)
{
    I quarter;
    B known = EQUAL(x - x, K(0.0f));
    R r = NAME(quarter)(SELECT(known, x, K(0.0f)), &quarter);
    return SELECT(known, NAME(sine_of)(r, quarter + 1), x - x);
}
/* ---- angles and powers, in double */

/* The angle of low / high <= 1, in double, as no quotient of floats over- or underflows there: atan(t) = t P(t^2) up to
 * tan(pi / 8), above it pi / 4 + atan((low - high) / (low + high)). */
MGPU_FUNCTION R NAME(atan2)(R y, R x)
{
    D a = TO_D(ABS(y)), b = TO_D(ABS(x));
    a = SELECT_D(LESS_D(K_D(1e300), a), K_D(1e300), a);
    b = SELECT_D(LESS_D(K_D(1e300), b), K_D(1e300), b);
    B steep = LESS_D(b, a);
    D high = SELECT_D(steep, a, b), low = SELECT_D(steep, b, a);
    B near = LESS_D(0.4142135623730950488 * high, low);
    D up = SELECT_D(near, low - high, low), down = SELECT_D(near, low + high, high);
    D t = up / SELECT_D(EQUAL_D(down, K_D(0.0)), K_D(1.0), down), z = t * t;
    D p = K_D(4.712996889706e-02);
    p = MADD_D(p, z, K_D(-8.459108968230e-02));
    p = MADD_D(p, z, K_D(1.104105412225e-01));
    p = MADD_D(p, z, K_D(-1.428163925603e-01));
    p = MADD_D(p, z, K_D(1.999988589854e-01));
    p = MADD_D(p, z, K_D(-3.333333212788e-01));
    p = MADD_D(p, z, K_D(9.999999999791e-01));
    D angle = MADD_D(p, t, SELECT_D(near, K_D(0.78539816339744830962), K_D(0.0)));
    angle = SELECT_D(steep, 1.57079632679489661923 - angle, angle);
    angle = SELECT_D(BELOW_0(x), 3.14159265358979323846 - angle, angle);
    return SELECT(AND(EQUAL(y, y), EQUAL(x, x)), SIGNED(OF_D(angle), y), x + y);
}

/* Powers use a base-2 exponential and logarithm in double, which are accurate enough for any exponent. */
MGPU_FUNCTION D NAME(log2_wide)(R x)
{
    B tiny = LESS(x, K(1.17549435e-38f));
    U bits = BITS(SELECT(tiny, x * 8388608.0f, x)) - 0x3f3504f3u;
    D k = TO_D(TO_REAL(SHIFTED(bits))) - SELECT_D(tiny, K_D(23.0), K_D(0.0));
    D m = TO_D(REAL((bits & 0x007fffffu) + 0x3f3504f3u));
    D s = (m - 1.0) / (m + 1.0), z = s * s; /* log m = 2 atanh s, |s| < 0.1716 */
    D p = K_D(1.0 / 13.0);
    p = MADD_D(p, z, K_D(1.0 / 11.0));
    p = MADD_D(p, z, K_D(1.0 / 9.0));
    p = MADD_D(p, z, K_D(1.0 / 7.0));
    p = MADD_D(p, z, K_D(1.0 / 5.0));
    p = MADD_D(p, z, K_D(1.0 / 3.0));
    p = MADD_D(p, z, K_D(1.0));
    return MADD_D(p * s, K_D(2.8853900817779268147), k);
}

MGPU_FUNCTION R NAME(exp2_wide)(D x)
{
    x = SELECT_D(LESS_D(x, K_D(-160.0)), K_D(-160.0), SELECT_D(LESS_D(K_D(130.0), x), K_D(130.0), x));
    D shifted = x + 6755399441055744.0, r = (x - (shifted - 6755399441055744.0)) * 0.69314718055994530942;
    D p = K_D(1.0 / 5040.0);
    p = MADD_D(p, r, K_D(1.0 / 720.0));
    p = MADD_D(p, r, K_D(1.0 / 120.0));
    p = MADD_D(p, r, K_D(1.0 / 24.0));
    p = MADD_D(p, r, K_D(1.0 / 6.0));
    p = MADD_D(p, r, K_D(0.5));
    p = MADD_D(p, r, K_D(1.0));
    p = MADD_D(p, r, K_D(1.0));
    return OF_D(p * REAL_D((BITS_D(shifted) + 1023) << 52));
}

MGPU_FUNCTION R NAME(pow)(R x, R y)
{
    R a = ABS(x), b = ABS(y), halved = b * 0.5f, zero = K(0.0f), one = K(1.0f), infinity = K(INFINITY);
    B whole = OR(NOT(LESS(b, K(8388608.0f))), EQUAL(b, (b + 8388608.0f) - 8388608.0f));
    B half_whole = OR(NOT(LESS(halved, K(8388608.0f))), EQUAL(halved, (halved + 8388608.0f) - 8388608.0f));
    B odd = AND(AND(whole, LESS(b, K(16777216.0f))), NOT(half_whole));
    B plain = AND(AND(LESS(zero, a), LESS(a, infinity)), LESS(b, infinity)), growing = LESS(zero, y);
    R safe_y = SELECT(LESS(K(1e30f), y), K(1e30f), SELECT(LESS(y, K(-1e30f)), K(-1e30f), y));
    R r = NAME(exp2_wide)(TO_D(SELECT(plain, safe_y, zero)) * NAME(log2_wide)(SELECT(plain, a, one)));
    B none = EQUAL(a, zero), large = LESS(one, a);
    B shrinking = LESS(y, zero);
    R at_end = SELECT(none, SELECT(shrinking, infinity, zero), SELECT(shrinking, zero, infinity)); /* a is 0 or inf, y is not 0 */
    R far = SELECT(large, SELECT(growing, infinity, zero), SELECT(growing, zero, infinity));       /* y is +-inf */
    r = SELECT(OR(none, EQUAL(a, infinity)), at_end, r);
    r = SELECT(EQUAL(b, infinity), SELECT(EQUAL(a, one), one, far), r);
    r = SELECT(AND(BELOW_0(x), odd), -r, r);
    r = SELECT(AND(AND(LESS(x, zero), NOT(whole)), LESS(a, infinity)), K(NAN), r);
    r = SELECT(AND(EQUAL(x, x), EQUAL(y, y)), r, x + y);
    return SELECT(OR(EQUAL(y, zero), EQUAL(x, one)), one, r);
}
#undef D
#undef I
#undef K_D
#undef LESS_D
#undef SELECT_D
#undef TO_D
#undef OF_D
#undef WHOLE_D
#undef BIT
#undef MADD_D
#undef EQUAL_D
#undef BITS_D
#undef REAL_D
#endif
#undef R
#undef U
#undef B
#undef NAME
#undef K
#undef MADD
#undef SELECT
#undef AND
#undef OR
#undef NOT
#undef BELOW_0
#undef LESS
#undef EQUAL
#undef BITS
#undef REAL
#undef TO_REAL
#undef SHIFTED
#undef ABS
#undef SIGNED
