/* mgpu_vector_functions.h: functions that are built from the operations of mgpu_vector_lanes.h or mgpu_vector_one.h, for any
 * instruction set: element types that are narrower in memory, and the functions of ops.def. It undefines the class's macros. */

/* ---- element types that loads convert: small integers to 32 bits, bool to a mask, bf16 and f16 to f32 */
MGPU_FUNCTION T(f32) V(from_bf16)(T(i32) v) { return V(float_of)(V(u32_of_i32)(v) << 16); }
MGPU_FUNCTION T(i32) V(to_bf16)(T(f32) v)
{
    const T(u32) bits = V(bits_of)(v), nearest = (bits + 0x7FFFu + (bits >> 16 & 1u)) >> 16;
    return V(i32_of_u32)(V(select_u32)(V(ne_f32)(v, v), bits >> 16 | 0x40u, nearest));
}
MGPU_FUNCTION T(f32) V(from_f16)(T(i32) whole)
{
    const T(u32) v = V(u32_of_i32)(whole), sign = (v & 0x8000u) << 16, body = (v & 0x7FFFu) << 13;
    const T(u32) large = V(select_u32)(V(le_u32)(V(all_u32)(0x0F800000u), body), V(all_u32)(112u << 23), V(all_u32)(0));
    const T(f32) offset = V(all_f32)(mgpu_float_of(113u << 23));
    const T(u32) normal = body + (112u << 23) + large, small = V(bits_of)(V(float_of)(body + (113u << 23)) - offset);
    return V(float_of)(V(select_u32)(V(lt_u32)(body, V(all_u32)(0x00800000u)), small, normal) | sign);
}
MGPU_FUNCTION T(i32) V(to_f16)(T(f32) v)
{
    const T(u32) bits = V(bits_of)(v), sign = bits >> 16 & 0x8000u, size = bits & 0x7FFFFFFFu;
    const T(u32) normal = (size + 0xFFFu + (size >> 13 & 1u) - (112u << 23)) >> 13;
    const T(u32) small = V(bits_of)(V(float_of)(size) + 0.5f) - 0x3F000000u;
    const T(u32) large = V(select_u32)(V(lt_u32)(V(all_u32)(0x7F800000u), size), V(all_u32)(0x7E00u), V(all_u32)(0x7C00u));
    const T(u32) finite = V(select_u32)(V(lt_u32)(size, V(all_u32)(0x38800000u)), small, normal);
    return V(i32_of_u32)(sign | V(select_u32)(V(le_u32)(V(all_u32)(0x477FF000u), size), large, finite));
}
MGPU_FUNCTION T(f32) V(round_bf16)(T(f32) v) { return V(from_bf16)(V(to_bf16)(v)); }
MGPU_FUNCTION T(f32) V(round_f16)(T(f32) v) { return V(from_f16)(V(to_f16)(v)); }
MGPU_FUNCTION T(mask) V(mask_of)(T(i32) v) { return V(ne_i32)(v, V(all_i32)(0)); }
MGPU_FUNCTION T(i32) V(of_mask)(T(mask) m) { return V(select_i32)(m, V(all_i32)(1), V(all_i32)(0)); }

#define MGPU_STORED(name, element, value, memory, bytes, from, to)                                                               \
    MGPU_FUNCTION T(value) V(load_##name)(const element *p, int lanes)                                                           \
    {                                                                                                                            \
        return from(V(widen_##memory)(V(load_##bytes)((const void *)p, lanes)));                                                 \
    }                                                                                                                            \
    MGPU_FUNCTION T(value) V(load_where_##name)(const element *p, T(mask) m)                                                     \
    {                                                                                                                            \
        return from(V(widen_##memory)(V(load_where_##bytes)((const void *)p, m)));                                               \
    }                                                                                                                            \
    MGPU_FUNCTION void V(store_##name)(element * p, T(value) v, int lanes)                                                       \
    {                                                                                                                            \
        V(store_##bytes)((void *)p, V(bytes##_of)(to(v)), lanes);                                                                \
    }                                                                                                                            \
    MGPU_FUNCTION void V(store_where_##name)(element * p, T(value) v, T(mask) m)                                                 \
    {                                                                                                                            \
        V(store_where_##bytes)((void *)p, V(bytes##_of)(to(v)), m);                                                              \
    }
MGPU_STORED(u8, uint8_t, i32, bytes_1, bytes_1, , )
MGPU_STORED(i8, int8_t, i32, signed_1, bytes_1, , )
MGPU_STORED(u16, uint16_t, i32, bytes_2, bytes_2, , )
MGPU_STORED(i16, int16_t, i32, signed_2, bytes_2, , )
MGPU_STORED(b8, void, mask, bytes_1, bytes_1, V(mask_of), V(of_mask))
MGPU_STORED(bf16, mgpu_bf16, f32, bytes_2, bytes_2, V(from_bf16), V(to_bf16))
MGPU_STORED(f16, mgpu_f16, f32, bytes_2, bytes_2, V(from_f16), V(to_f16))
#undef MGPU_STORED

/* ---- strided loads and stores, gathers and scatters */
#define MGPU_APART(type, element, value) MGPU_GATHER(type, element, value) MGPU_SCATTER(type, element, value)
#define MGPU_APART_REGISTER(type, element, by) MGPU_GATHER_REGISTER(type, element, by) MGPU_SCATTER(type, element, type)
MGPU_APART_REGISTER(f32, float, MGPU_GATHER_4)
MGPU_APART_REGISTER(i32, int32_t, MGPU_GATHER_4)
MGPU_APART_REGISTER(u32, uint32_t, MGPU_GATHER_4)
MGPU_APART(u8, uint8_t, i32)
MGPU_APART(i8, int8_t, i32)
MGPU_APART(u16, uint16_t, i32)
MGPU_APART(i16, int16_t, i32)
MGPU_APART(bf16, mgpu_bf16, f32)
MGPU_APART(f16, mgpu_f16, f32)
MGPU_APART(b8, uint8_t, mask)
#if MGPU_WIDE
MGPU_APART_REGISTER(f64, double, MGPU_GATHER_8)
MGPU_APART_REGISTER(i64, int64_t, MGPU_GATHER_8)
#endif
#undef MGPU_APART
#undef MGPU_APART_REGISTER
#undef MGPU_GATHER_REGISTER
#undef MGPU_GATHER_4
#undef MGPU_GATHER_8
#undef MGPU_STRIDED
#undef S
#undef MGPU_GATHER
#undef MGPU_SCATTER

/* ---- masks of the indices at, at + step ... that are in [low, high). Bounds saturate at 2^30, above any lane's distance. */
MGPU_FUNCTION T(mask) V(range)(int64_t at, int64_t step, int64_t low, int64_t high)
{
    const int64_t least = low - at, most = high - at, far = 1 << 30;
    const T(i32) v = V(count_i32)(0, step);
    const T(i32) from = V(all_i32)((int32_t)(least > far ? far : least < -far ? -far : least));
    const T(i32) to = V(all_i32)((int32_t)(most > far ? far : most < -far ? -far : most));
    return V(and)(V(le_i32)(from, v), V(lt_i32)(v, to));
}
MGPU_FUNCTION T(mask) V(between)(T(i32) v, int32_t low, int32_t high)
{
    return V(and)(V(le_i32)(V(all_i32)(low), v), V(lt_i32)(v, V(all_i32)(high)));
}

/* ---- comparisons, as in mgpu_math.h; first_...: the first `lanes` lanes of v, the others of `others` */
#define MGPU_ORDER(type)                                                                                                         \
    MGPU_FUNCTION T(type) V(minimum_##type)(T(type) a, T(type) b)                                                                \
    {                                                                                                                            \
        return V(select_##type)(V(or)(V(lt_##type)(a, b), V(ne_##type)(a, a)), a, b);                                            \
    }                                                                                                                            \
    MGPU_FUNCTION T(type) V(maximum_##type)(T(type) a, T(type) b)                                                                \
    {                                                                                                                            \
        return V(select_##type)(V(or)(V(lt_##type)(b, a), V(ne_##type)(a, a)), a, b);                                            \
    }                                                                                                                            \
    MGPU_FUNCTION T(mask) V(beats_##type)(T(type) b, T(type) best)                                                               \
    {                                                                                                                            \
        return V(and)(V(not )(V(le_##type)(b, best)), V(eq_##type)(best, best));                                                 \
    }                                                                                                                            \
    MGPU_FUNCTION T(type) V(better_##type)(T(type) best, T(type) b)                                                              \
    {                                                                                                                            \
        return V(select_##type)(V(beats_##type)(b, best), b, best);                                                              \
    }                                                                                                                            \
    MGPU_FUNCTION T(type) V(larger_##type)(T(type) best, T(type) b)                                                              \
    {                                                                                                                            \
        return V(select_##type)(V(or)(V(lt_##type)(best, b), V(ne_##type)(b, b)), b, best);                                      \
    }                                                                                                                            \
    MGPU_FUNCTION T(type) V(first_##type)(int lanes, T(type) v, T(type) others)                                                  \
    {                                                                                                                            \
        return MGPU_KNOWN(lanes) ? v : V(select_##type)(V(first)(lanes), v, others);                                             \
    }
MGPU_ORDER(f32)
MGPU_ORDER(i32)
MGPU_ORDER(u32)
#if MGPU_WIDE
MGPU_ORDER(f64)
MGPU_ORDER(i64)
#endif
#undef MGPU_ORDER

/* ---- reductions of all lanes */
#define MGPU_PLUS(a, b) ((a) + (b))
#define MGPU_TREES(type, element)                                                                                                \
    MGPU_TREE(sum, type, element, MGPU_PLUS, MGPU_PLUS)                                                                          \
    MGPU_TREE(most, type, element, V(larger_##type), mgpu_larger_##type)
MGPU_TREES(f32, float)
MGPU_TREES(i32, int32_t)
MGPU_TREES(u32, uint32_t)
#if MGPU_WIDE
MGPU_TREES(f64, double)
MGPU_TREES(i64, int64_t)
#endif
#undef MGPU_TREES
#undef MGPU_TREE
#undef MGPU_FOLD
#undef MGPU_FOLDS
#undef MGPU_PLUS

/* ---- conversions from floats to integers saturate, NaN becomes 0; wrap_... keeps the low bits */
#define MGPU_TO_WHOLE(name, from, literal, least, most)                                                                          \
    MGPU_FUNCTION T(i32) V(name##_of_any_##from)(T(from) v)                                                                      \
    {                                                                                                                            \
        const T(from) low = V(all_##from)((literal)(least)), high = V(all_##from)((literal)(most));                              \
        const T(mask) above = V(le_##from)(high, v), below = V(le_##from)(v, low), none = V(ne_##from)(v, v);                    \
        const T(from) zero = V(all_##from)(0);                                                                                   \
        const T(i32) w = V(i32_of_##from)(V(select_##from)(V(or)(V(or)(above, below), none), zero, v));                          \
        return V(select_i32)(above, V(all_i32)((int32_t)(most)), V(select_i32)(below, V(all_i32)((int32_t)(least)), w));         \
    }
#define MGPU_TO_WHOLES(from, literal)                                                                                            \
    MGPU_TO_WHOLE(u8, from, literal, 0, UINT8_MAX)                                                                               \
    MGPU_TO_WHOLE(i8, from, literal, INT8_MIN, INT8_MAX)                                                                         \
    MGPU_TO_WHOLE(u16, from, literal, 0, UINT16_MAX)                                                                             \
    MGPU_TO_WHOLE(i16, from, literal, INT16_MIN, INT16_MAX)                                                                      \
    MGPU_TO_WHOLE(i32, from, literal, INT32_MIN, INT32_MAX)
MGPU_TO_WHOLES(f32, float)
#if MGPU_WIDE
MGPU_TO_WHOLES(f64, double)
#endif
#undef MGPU_TO_WHOLES
#undef MGPU_TO_WHOLE
MGPU_FUNCTION T(i32) V(wrap_u8)(T(i32) v) { return v & 0xFF; }
MGPU_FUNCTION T(i32) V(wrap_u16)(T(i32) v) { return v & 0xFFFF; }
MGPU_FUNCTION T(i32) V(wrap_i8)(T(i32) v) { return ((v & 0xFF) ^ 0x80) - 0x80; }
MGPU_FUNCTION T(i32) V(wrap_i16)(T(i32) v) { return ((v & 0xFFFF) ^ 0x8000) - 0x8000; }

/* ---- functions of ops.def */
MGPU_FUNCTION T(i32) V(abs_i32)(T(i32) a) { return V(select_i32)(V(lt_i32)(a, V(all_i32)(0)), -a, a); }
MGPU_FUNCTION T(f32) V(abs_f32)(T(f32) a) { return V(float_of)(V(bits_of)(a) & 0x7FFFFFFFu); }
MGPU_FUNCTION T(f32) V(copysign)(T(f32) a, T(f32) sign)
{
    return V(float_of)((V(bits_of)(a) & 0x7FFFFFFFu) | (V(bits_of)(sign) & 0x80000000u));
}
/* Adding and subtracting 2^23 rounds to the nearest integer; one that is above x is decremented. */
MGPU_FUNCTION T(f32) V(floor_f32)(T(f32) x)
{
    const T(f32) a = V(abs_f32)(x), r = V(copysign)((a + 8388608.0f) - 8388608.0f, x);
    const T(f32) down = V(select_f32)(V(lt_f32)(x, r), r - 1.0f, r);
    return V(select_f32)(V(lt_f32)(a, V(all_f32)(8388608.0f)), down, x);
}
MGPU_FUNCTION T(f32) V(inverse_f32)(T(f32) v)
{
    const T(f32) inverse = 1.0f / v, most = V(all_f32)(3.40282347e+38f), zero = V(all_f32)(0.0f);
    const T(mask) large = V(and)(V(ne_f32)(v, zero), V(lt_f32)(most, V(abs_f32)(inverse)));
    return V(select_f32)(large, V(select_f32)(V(lt_f32)(v, zero), -most, most), inverse);
}
#if MGPU_WIDE
MGPU_FUNCTION T(f64) V(abs_f64)(T(f64) a) { return V(select_f64)(V(lt_f64)(a, V(all_f64)(0.0)), -a, a + 0.0); }
MGPU_FUNCTION T(i64) V(abs_i64)(T(i64) a) { return V(select_i64)(V(lt_i64)(a, V(all_i64)(0)), -a, a); }
MGPU_BY_LANE(floor)
MGPU_BY_LANE(exp)
MGPU_BY_LANE(log)
MGPU_BY_LANE(expm1)
MGPU_BY_LANE(log1p)
MGPU_BY_LANE(logistic)
MGPU_BY_LANE(sin)
MGPU_BY_LANE(cos)
MGPU_BY_LANE(tanh)
MGPU_BY_LANE(erf)
MGPU_BY_LANE_OF_2(pow)
MGPU_BY_LANE_OF_2(atan2)
#undef MGPU_BY_LANE
#undef MGPU_BY_LANE_OF_2
#endif
#include "mgpu_vector_math.h"
#undef T
#undef V
#undef ALL
#undef X4
#undef X8
#undef ROUND_4
#undef ROUND_8
#undef MGPU_WIDE
#undef MGPU_LANES
#undef MGPU_KNOWN
