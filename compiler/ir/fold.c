/* fold.c: what element-wise operations compute, in double: the column of ops.def, for constant folding and the interpreter. */
#include "compiler/ir/graph.h"

#include <math.h>

static double mgpu_pow(double a, double b) { return pow(a, b); }
static double mgpu_minimum(double a, double b) { return a < b || a != a ? a : b; }
static double mgpu_maximum(double a, double b) { return a > b || a != a ? a : b; }
static double mgpu_abs(double a) { return fabs(a); }
static double mgpu_nan_with(double a) { return (void)a, (double)NAN; }
static double mgpu_floor(double a) { return floor(a); }
static double mgpu_sqrt(double a) { return sqrt(a); }
static double mgpu_exp(double a) { return exp(a); }
static double mgpu_log(double a) { return log(a); }
static double mgpu_expm1(double a) { return expm1(a); }
static double mgpu_log1p(double a) { return log1p(a); }
static double mgpu_logistic(double a) { return logistic(a); }
static double mgpu_sin(double a) { return sin(a); }
static double mgpu_cos(double a) { return cos(a); }
static double mgpu_tanh(double a) { return tanh(a); }
static double mgpu_erf(double a) { return erf(a); }

static double mgpu_atan2(double a, double b) { return atan2(a, b); }
static double mgpu_bit_and(double a, double b) { return (double)((int64_t)a & (int64_t)b); }
static double mgpu_bit_or(double a, double b) { return (double)((int64_t)a | (int64_t)b); }
static double mgpu_bit_xor(double a, double b) { return (double)((int64_t)a ^ (int64_t)b); }
static double mgpu_bit_not(double a) { return -1 - a; }

/* 64-bit integers, of which the result's type takes the lowest bits */
static double mgpu_shift_left(double a, double b)
{
    return b < 0 || b > 63 ? 0 : (double)(int64_t)((uint64_t)(int64_t)a << (int)b);
}
static double mgpu_shift_right(double a, double b) { return floor(b < 0 || b > 63 ? ldexp(a, -64) : ldexp(a, -(int)b)); }

static double mgpu_quotient(double a, double b)
{
    int64_t x = (int64_t)a, y = (int64_t)b;
    if (y == 0 || y == -1)
        return y ? -a : 0;
    return (double)(x / y - (x % y != 0 && (x < 0) != (y < 0)));
}

static double mgpu_mod(double a, double b)
{
    double r = fmod(a, b);
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

/* Defines meaning_ADD(a, b, c) ...: the column of the table. A bool is a double here, so a && b converts. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wfloat-conversion"
#define NONE 0
#define OP(op, name, class, inputs, attributes, linear, flops, meaning, ...)                                                     \
    static double meaning_##op(double a, double b, double c)                                                                     \
    {                                                                                                                            \
        (void)a, (void)b, (void)c;                                                                                               \
        return (double)(meaning);                                                                                                \
    }
#include "compiler/ir/ops.def"
#pragma GCC diagnostic pop

static double (*const MEANING[OPS])(double, double, double) = {
#define OP(op, ...) [OP_##op] = meaning_##op,
#include "compiler/ir/ops.def"
};

/* ---- conversion to a type */

double wrap_number(Dtype t, int64_t v)
{
    switch (t) {
    case BOOL: return v != 0;
    case U8: return (uint8_t)v;
    case I8: return (int8_t)v;
    case U16: return (uint16_t)v;
    case I16: return (int16_t)v;
    case U32: return (uint32_t)v;
    case I32: return (int32_t)v;
    default: return (double)v;
    }
}

double fit_number(Dtype t, double v)
{
    if (dtype_is_float(t))
        return v;
    if (v != v)
        return 0;
    if (t == BOOL)
        return v != 0;
    return wrap_number(t, v >= 0x1p63 ? INT64_MAX : v < -0x1p63 ? INT64_MIN : (int64_t)v);
}

double cast_number(Dtype from, Dtype to, double v)
{
    if (dtype_is_float(to) || !dtype_is_float(from) || to == BOOL)
        return fit_number(to, v);
    double least = to == I8 ? INT8_MIN : to == I16 ? INT16_MIN : to == I32 ? INT32_MIN : to == I64 ? -0x1p63 : 0;
    double most = to == U8    ? UINT8_MAX
                  : to == I8  ? INT8_MAX
                  : to == U16 ? UINT16_MAX
                  : to == I16 ? INT16_MAX
                  : to == U32 ? UINT32_MAX
                  : to == I32 ? INT32_MAX
                              : 0x1p63 - 1024;
    return v != v ? 0 : v < least ? least : v > most ? most : trunc(v);
}

double op_value(Op op, double a, double b, double c) { return MEANING[op](a, b, c); }
