/* dtype.c: element types: sizes, names, and conversion between any two of them through double. (Integers beyond 2^53 keep their
 * value only if both types are the same.) */
#include "runtime/base/records.h"

#include <math.h>
#include <string.h>

typedef struct DtypeInfo {
    int8_t bytes;
    bool is_float;
    double low, high;
} DtypeInfo;
const char *const mgpu_dtype_names[] = {"bool", "u8", "i8", "u16", "i16", "u32", "i32", "i64", "f16", "bf16", "f32", "f64"};
static const DtypeInfo INFO[] = {
    [MGPU_BOOL] = {1, false, 0, 1},
    [MGPU_U8] = {1, false, 0, UINT8_MAX},
    [MGPU_I8] = {1, false, INT8_MIN, INT8_MAX},
    [MGPU_U16] = {2, false, 0, UINT16_MAX},
    [MGPU_I16] = {2, false, INT16_MIN, INT16_MAX},
    [MGPU_U32] = {4, false, 0, UINT32_MAX},
    [MGPU_I32] = {4, false, INT32_MIN, INT32_MAX},
    [MGPU_I64] = {8, false, -0x1p63, 0x1p63},
    [MGPU_F16] = {2, true, 0, 0},
    [MGPU_BF16] = {2, true, 0, 0},
    [MGPU_F32] = {4, true, 0, 0},
    [MGPU_F64] = {8, true, 0, 0},
};

int64_t mgpu_dtype_bytes(uint8_t dtype) { return INFO[dtype].bytes; }

const char *mgpu_dtype_name(uint8_t dtype) { return mgpu_dtype_names[dtype]; }

bool mgpu_dtype_is_float(uint8_t dtype) { return INFO[dtype].is_float; }

static double from_half(uint16_t h)
{
    int exponent = h >> 10 & 31;
    double fraction = h & 1023, sign = h & 0x8000 ? -1 : 1;
    if (exponent == 31)
        return fraction != 0 ? (double)NAN : sign * HUGE_VAL;
    return sign * (exponent ? ldexp(fraction + 1024, exponent - 25) : ldexp(fraction, -24));
}

/* Rounds to nearest, ties to even. */
static uint16_t to_half(double v)
{
    uint16_t sign = signbit(v) ? 0x8000 : 0;
    double a = fabs(v);
    if (isnan(v))
        return 0x7e00;
    if (a >= 65520)
        return sign | 0x7c00;
    int exponent;
    frexp(a, &exponent); /* a = f 2^exponent, f in [1/2, 1) */
    if (a == 0 || exponent < -13)
        return (uint16_t)(sign | (int)nearbyint(ldexp(a, 24)));        /* subnormal; 1024 is the smallest normal number */
    double rounded = nearbyint(ldexp(a, 11 - exponent));               /* 1024 .. 2048 */
    return (uint16_t)(sign | ((exponent + 13) * 1024 + (int)rounded)); /* a carry goes into the exponent */
}

static double from_bfloat(uint16_t h)
{
    uint32_t bits = (uint32_t)h << 16;
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

static uint16_t to_bfloat(double v)
{
    float f = (float)v;
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    if (isnan(v))
        return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/* Elements in files may be unaligned. */
#define ANYWHERE __attribute__((aligned(1), may_alias))
typedef uint16_t any_u16 ANYWHERE;
typedef int16_t any_i16 ANYWHERE;
typedef uint32_t any_u32 ANYWHERE;
typedef int32_t any_i32 ANYWHERE;
typedef int64_t any_i64 ANYWHERE;
typedef float any_f32 ANYWHERE;
typedef double any_f64 ANYWHERE;

double mgpu_to_double(const void *data, uint8_t dtype, int64_t i)
{
    switch (dtype) {
    case MGPU_BOOL: return ((const uint8_t *)data)[i] != 0;
    case MGPU_U8: return ((const uint8_t *)data)[i];
    case MGPU_I8: return ((const int8_t *)data)[i];
    case MGPU_U16: return ((const any_u16 *)data)[i];
    case MGPU_I16: return ((const any_i16 *)data)[i];
    case MGPU_U32: return ((const any_u32 *)data)[i];
    case MGPU_I32: return ((const any_i32 *)data)[i];
    case MGPU_I64: return (double)((const any_i64 *)data)[i];
    case MGPU_F16: return from_half(((const any_u16 *)data)[i]);
    case MGPU_BF16: return from_bfloat(((const any_u16 *)data)[i]);
    case MGPU_F32: return ((const any_f32 *)data)[i];
    default: return ((const any_f64 *)data)[i];
    }
}

/* Conversion to integers truncates towards zero and saturates. */
static double bounded(double v, uint8_t dtype)
{
    return v >= INFO[dtype].high ? INFO[dtype].high : v > INFO[dtype].low ? v : INFO[dtype].low;
}

void mgpu_from_double(void *data, uint8_t dtype, int64_t i, double v)
{
    switch (dtype) {
    case MGPU_BOOL: ((uint8_t *)data)[i] = v != 0; break;
    case MGPU_U8: ((uint8_t *)data)[i] = (uint8_t)bounded(v, dtype); break;
    case MGPU_I8: ((int8_t *)data)[i] = (int8_t)bounded(v, dtype); break;
    case MGPU_U16: ((any_u16 *)data)[i] = (uint16_t)bounded(v, dtype); break;
    case MGPU_I16: ((any_i16 *)data)[i] = (int16_t)bounded(v, dtype); break;
    case MGPU_U32: ((any_u32 *)data)[i] = (uint32_t)bounded(v, dtype); break;
    case MGPU_I32: ((any_i32 *)data)[i] = (int32_t)bounded(v, dtype); break;
    case MGPU_I64: ((any_i64 *)data)[i] = v >= 0x1p63 ? INT64_MAX : (int64_t)bounded(v, dtype); break;
    case MGPU_F16: ((any_u16 *)data)[i] = to_half(v); break;
    case MGPU_BF16: ((any_u16 *)data)[i] = to_bfloat(v); break;
    case MGPU_F32: ((any_f32 *)data)[i] = (float)v; break;
    default: ((any_f64 *)data)[i] = v;
    }
}

void mgpu_convert(void *to, uint8_t to_dtype, const void *from, uint8_t from_dtype, int64_t count)
{
    if (to_dtype == from_dtype) {
        memcpy(to, from, (size_t)(count * INFO[to_dtype].bytes));
    } else if (from_dtype == MGPU_U8 && to_dtype == MGPU_F32) {
        for (int64_t i = 0; i < count; i++)
            ((float *)to)[i] = ((const uint8_t *)from)[i];
    } else {
        for (int64_t i = 0; i < count; i++)
            mgpu_from_double(to, to_dtype, i, mgpu_to_double(from, from_dtype, i));
    }
}

bool mgpu_values_fit(const void *data, uint8_t dtype, int64_t count, uint8_t other, int64_t *bad)
{
    if (dtype == other || INFO[other].is_float)
        return true;
    if (!INFO[dtype].is_float && INFO[dtype].low >= INFO[other].low && INFO[dtype].high <= INFO[other].high)
        return true;
    for (int64_t i = 0; i < count; i++) {
        double v = mgpu_to_double(data, dtype, i);
        if (!(v >= INFO[other].low && v <= INFO[other].high) || v != floor(v)) {
            *bad = i;
            return false;
        }
    }
    return true;
}

int64_t mgpu_elements(const mgpu_tensor *t)
{
    int64_t n = 1;
    for (int i = 0; i < t->rank; i++)
        n *= t->extent[i];
    return n;
}

int64_t mgpu_tensor_bytes(const mgpu_tensor *t) { return mgpu_elements(t) * mgpu_dtype_bytes(t->dtype); }

const char *mgpu_shape_text(int rank, const int64_t *extent, char text[200])
{
    int length = snprintf(text, 200, "[");
    for (int i = 0; i < rank; i++)
        length += snprintf(text + length, (size_t)(200 - length), "%s%lld", i ? ", " : "", (long long)extent[i]);
    snprintf(text + length, (size_t)(200 - length), "]");
    return text;
}
