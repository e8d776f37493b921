/* mgpu_vector_functions.h: what is made of the operations of mgpu_vector_lanes.h or mgpu_vector_one.h, in the same way for all sets:
 * types that are narrower in memory, the functions of ops.def. Ends the class. */

/* ---- types that have another form in memory: whole numbers in 32 bits, bool as mask, bf16 and f16 as f32 */
MGPU_FUNCTION T(f32) MGPU_V(from_bf16)(T(i32) v) { return MGPU_V(float_of)(MGPU_V(u32_of_i32)(v) << 16); }
MGPU_FUNCTION T(i32) MGPU_V(to_bf16)(T(f32) v)
{
    const T(u32) bits = MGPU_V(bits_of)(v), nearest = (bits + 0x7FFFu + (bits >> 16 & 1u)) >> 16;
    return MGPU_V(i32_of_u32)(MGPU_V(select_u32)(MGPU_V(ne_f32)(v, v), bits >> 16 | 0x40u, nearest));
}
MGPU_FUNCTION T(f32) MGPU_V(from_f16)(T(i32) whole)
{
    const T(u32) v = MGPU_V(u32_of_i32)(whole), sign = (v & 0x8000u) << 16, body = (v & 0x7FFFu) << 13;
    const T(u32) large = MGPU_V(select_u32)(MGPU_V(ge_u32)(body, MGPU_V(all_u32)(0x0F800000u)), MGPU_V(all_u32)(112u << 23), MGPU_V(all_u32)(0));
    const T(f32) offset = MGPU_V(all_f32)(mgpu_float_of(113u << 23));
    const T(u32) normal = body + (112u << 23) + large, small = MGPU_V(bits_of)(MGPU_V(float_of)(body + (113u << 23)) - offset);
    return MGPU_V(float_of)(MGPU_V(select_u32)(MGPU_V(lt_u32)(body, MGPU_V(all_u32)(0x00800000u)), small, normal) | sign);
}
MGPU_FUNCTION T(i32) MGPU_V(to_f16)(T(f32) v)
{
    const T(u32) bits = MGPU_V(bits_of)(v), sign = bits >> 16 & 0x8000u, size = bits & 0x7FFFFFFFu;
    const T(u32) normal = (size + 0xFFFu + (size >> 13 & 1u) - (112u << 23)) >> 13;
    const T(u32) small = MGPU_V(bits_of)(MGPU_V(float_of)(size) + 0.5f) - 0x3F000000u;
    const T(u32) large = MGPU_V(select_u32)(MGPU_V(gt_u32)(size, MGPU_V(all_u32)(0x7F800000u)), MGPU_V(all_u32)(0x7E00u), MGPU_V(all_u32)(0x7C00u));
    const T(u32) finite = MGPU_V(select_u32)(MGPU_V(lt_u32)(size, MGPU_V(all_u32)(0x38800000u)), small, normal);
    return MGPU_V(i32_of_u32)(sign | MGPU_V(select_u32)(MGPU_V(ge_u32)(size, MGPU_V(all_u32)(0x477FF000u)), large, finite));
}
MGPU_FUNCTION T(f32) MGPU_V(round_bf16)(T(f32) v) { return MGPU_V(from_bf16)(MGPU_V(to_bf16)(v)); }
MGPU_FUNCTION T(f32) MGPU_V(round_f16)(T(f32) v) { return MGPU_V(from_f16)(MGPU_V(to_f16)(v)); }
MGPU_FUNCTION T(mask) MGPU_V(mask_of)(T(i32) v) { return MGPU_V(ne_i32)(v, MGPU_V(all_i32)(0)); }
MGPU_FUNCTION T(i32) MGPU_V(of_mask)(T(mask) m) { return MGPU_V(select_i32)(m, MGPU_V(all_i32)(1), MGPU_V(all_i32)(0)); }

#define MGPU_STORED(name, element, value, memory, from, bytes, to)                                                         \
    MGPU_FUNCTION T(value) MGPU_V(load_##name)(const element *p, int lanes)                                                \
    {                                                                                                                      \
        return from(MGPU_V(widen_##memory)(MGPU_V(load_##memory)((const void *)p, lanes)));                                \
    }                                                                                                                      \
    MGPU_FUNCTION T(value) MGPU_V(load_where_##name)(const element *p, T(mask) m)                                          \
    {                                                                                                                      \
        return from(MGPU_V(widen_##memory)(MGPU_V(load_where_##memory)((const void *)p, m)));                              \
    }                                                                                                                      \
    MGPU_FUNCTION void MGPU_V(store_##name)(element *p, T(value) v, int lanes)                                             \
    {                                                                                                                      \
        MGPU_V(store_##bytes)((void *)p, MGPU_V(bytes##_of)(to(v)), lanes);                                                \
    }                                                                                                                      \
    MGPU_FUNCTION void MGPU_V(store_where_##name)(element *p, T(value) v, T(mask) m)                                       \
    {                                                                                                                      \
        MGPU_V(store_where_##bytes)((void *)p, MGPU_V(bytes##_of)(to(v)), m);                                              \
    }
MGPU_STORED(u8, uint8_t, i32, bytes_1, , bytes_1, )
MGPU_STORED(i8, int8_t, i32, signed_1, , bytes_1, )
MGPU_STORED(u16, uint16_t, i32, bytes_2, , bytes_2, )
MGPU_STORED(i16, int16_t, i32, signed_2, , bytes_2, )
MGPU_STORED(b8, void, mask, bytes_1, MGPU_V(mask_of), bytes_1, MGPU_V(of_mask))
MGPU_STORED(bf16, mgpu_bf16, f32, bytes_2, MGPU_V(from_bf16), bytes_2, MGPU_V(to_bf16))
MGPU_STORED(f16, mgpu_f16, f32, bytes_2, MGPU_V(from_f16), bytes_2, MGPU_V(to_f16))
#undef MGPU_STORED

/* ---- elements that do not follow each other */
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
#undef MGPU_GATHER_BY
#undef MGPU_GATHER_4
#undef MGPU_GATHER_8
#undef MGPU_EACH
#undef MGPU_STRIDED
#undef MGPU_GATHER
#undef MGPU_SCATTER

/* ---- indices: at, at + step ... that are in [low, high) */
MGPU_FUNCTION T(mask) MGPU_V(range)(int64_t at, int64_t step, int64_t low, int64_t high)
{
    const int64_t least = low - at, most = high - at, far = 1 << 30;
    const T(i32) v = MGPU_V(count_i32)(0, step);
    const T(i32) from = MGPU_V(all_i32)((int32_t)(least > far ? far : least < -far ? -far : least));
    const T(i32) to = MGPU_V(all_i32)((int32_t)(most > far ? far : most < -far ? -far : most));
    return MGPU_V(and)(MGPU_V(ge_i32)(v, from), MGPU_V(lt_i32)(v, to));
}
MGPU_FUNCTION T(mask) MGPU_V(between)(T(i32) v, int32_t low, int32_t high)
{
    return MGPU_V(and)(MGPU_V(ge_i32)(v, MGPU_V(all_i32)(low)), MGPU_V(lt_i32)(v, MGPU_V(all_i32)(high)));
}

/* ---- order, as in mgpu_math.h */
#define MGPU_ORDER(type)                                                                                                   \
    MGPU_FUNCTION T(type) MGPU_V(minimum_##type)(T(type) a, T(type) b)                                                     \
    {                                                                                                                      \
        return MGPU_V(select_##type)(MGPU_V(or)(MGPU_V(lt_##type)(a, b), MGPU_V(ne_##type)(a, a)), a, b);                  \
    }                                                                                                                      \
    MGPU_FUNCTION T(type) MGPU_V(maximum_##type)(T(type) a, T(type) b)                                                     \
    {                                                                                                                      \
        return MGPU_V(select_##type)(MGPU_V(or)(MGPU_V(gt_##type)(a, b), MGPU_V(ne_##type)(a, a)), a, b);                  \
    }                                                                                                                      \
    MGPU_FUNCTION T(mask) MGPU_V(beats_##type)(T(type) b, T(type) best)                                                    \
    {                                                                                                                      \
        return MGPU_V(and)(MGPU_V(not)(MGPU_V(le_##type)(b, best)), MGPU_V(eq_##type)(best, best));                        \
    }                                                                                                                      \
    MGPU_FUNCTION T(type) MGPU_V(better_##type)(T(type) best, T(type) b)                                                   \
    {                                                                                                                      \
        return MGPU_V(select_##type)(MGPU_V(beats_##type)(b, best), b, best);                                              \
    }                                                                                                                      \
    MGPU_FUNCTION T(type) MGPU_V(larger_##type)(T(type) best, T(type) b)                                                   \
    {                                                                                                                      \
        return MGPU_V(select_##type)(MGPU_V(or)(MGPU_V(gt_##type)(b, best), MGPU_V(ne_##type)(b, b)), b, best);            \
    }
MGPU_ORDER(f32)
MGPU_ORDER(i32)
MGPU_ORDER(u32)
#if MGPU_WIDE
MGPU_ORDER(f64)
MGPU_ORDER(i64)
#endif
#undef MGPU_ORDER

/* the first lanes of v, the others of `others` */
#define MGPU_FIRST(type)                                                                                                   \
    MGPU_FUNCTION T(type) MGPU_V(first_##type)(int lanes, T(type) v, T(type) others)                                       \
    {                                                                                                                      \
        return MGPU_KNOWN(lanes) ? v : MGPU_V(select_##type)(MGPU_V(first)(lanes), v, others);                             \
    }
MGPU_FIRST(f32)
MGPU_FIRST(i32)
MGPU_FIRST(u32)
#if MGPU_WIDE
MGPU_FIRST(f64)
MGPU_FIRST(i64)
#endif
#undef MGPU_FIRST

/* ---- lanes as one */
#define MGPU_PLUS(a, b) ((a) + (b))
#define MGPU_TREES(type, element)                                                                                          \
    MGPU_TREE(sum, type, element, MGPU_PLUS, MGPU_PLUS)                                                                    \
    MGPU_TREE(most, type, element, MGPU_V(larger_##type), mgpu_larger_##type)
MGPU_TREES(f32, float)
MGPU_TREES(i32, int32_t)
MGPU_TREES(u32, uint32_t)
#if MGPU_WIDE
MGPU_TREES(f64, double)
MGPU_TREES(i64, int64_t)
#endif
#undef MGPU_TREES
#undef MGPU_TREE
#undef MGPU_PLUS
#undef MGPU_HALF_1
#undef MGPU_HALF_2
#undef MGPU_HALF_3
#undef MGPU_HALF_4
#undef MGPU_FOLD_1
#undef MGPU_FOLD_2
#undef MGPU_FOLD_3

/* ---- numbers of other types; what does not fit becomes the limit, NaN 0 */
#define MGPU_TO_WHOLE(name, from, literal, least, most)                                                                    \
    MGPU_FUNCTION T(i32) MGPU_V(name##_of_any_##from)(T(from) v)                                                           \
    {                                                                                                                      \
        const T(from) low = MGPU_V(all_##from)((literal)(least)), high = MGPU_V(all_##from)((literal)(most));              \
        const T(mask) above = MGPU_V(ge_##from)(v, high), below = MGPU_V(le_##from)(v, low), none = MGPU_V(ne_##from)(v, v); \
        const T(from) zero = MGPU_V(all_##from)(0);                                                                        \
        const T(i32) w = MGPU_V(i32_of_##from)(MGPU_V(select_##from)(MGPU_V(or)(MGPU_V(or)(above, below), none), zero, v)); \
        return MGPU_V(select_i32)(above, MGPU_V(all_i32)((int32_t)(most)), MGPU_V(select_i32)(below, MGPU_V(all_i32)((int32_t)(least)), w)); \
    }
#define MGPU_TO_WHOLES(from, literal)                                                                                      \
    MGPU_TO_WHOLE(u8, from, literal, 0, UINT8_MAX)                                                                         \
    MGPU_TO_WHOLE(i8, from, literal, INT8_MIN, INT8_MAX)                                                                   \
    MGPU_TO_WHOLE(u16, from, literal, 0, UINT16_MAX)                                                                       \
    MGPU_TO_WHOLE(i16, from, literal, INT16_MIN, INT16_MAX)                                                                \
    MGPU_TO_WHOLE(i32, from, literal, INT32_MIN, INT32_MAX)
MGPU_TO_WHOLES(f32, float)
#if MGPU_WIDE
MGPU_TO_WHOLES(f64, double)
#endif
#undef MGPU_TO_WHOLES
#undef MGPU_TO_WHOLE
MGPU_FUNCTION T(i32) MGPU_V(wrap_u8)(T(i32) v) { return v & 0xFF; }
MGPU_FUNCTION T(i32) MGPU_V(wrap_u16)(T(i32) v) { return v & 0xFFFF; }
MGPU_FUNCTION T(i32) MGPU_V(wrap_i8)(T(i32) v) { return ((v & 0xFF) ^ 0x80) - 0x80; }
MGPU_FUNCTION T(i32) MGPU_V(wrap_i16)(T(i32) v) { return ((v & 0xFFFF) ^ 0x8000) - 0x8000; }

/* ---- functions of ops.def */
MGPU_FUNCTION T(i32) MGPU_V(abs_i32)(T(i32) a) { return MGPU_V(select_i32)(MGPU_V(lt_i32)(a, MGPU_V(all_i32)(0)), -a, a); }
MGPU_FUNCTION T(f32) MGPU_V(abs_f32)(T(f32) a) { return MGPU_V(float_of)(MGPU_V(bits_of)(a) & 0x7FFFFFFFu); }
MGPU_FUNCTION T(f32) MGPU_V(copysign)(T(f32) a, T(f32) sign)
{
    return MGPU_V(float_of)((MGPU_V(bits_of)(a) & 0x7FFFFFFFu) | (MGPU_V(bits_of)(sign) & 0x80000000u));
}
/* to the nearest whole number, by what 2^23 leaves of it, and down from there */
MGPU_FUNCTION T(f32) MGPU_V(floor_f32)(T(f32) x)
{
    const T(f32) a = MGPU_V(abs_f32)(x), r = MGPU_V(copysign)((a + 8388608.0f) - 8388608.0f, x);
    const T(f32) down = MGPU_V(select_f32)(MGPU_V(gt_f32)(r, x), r - 1.0f, r);
    return MGPU_V(select_f32)(MGPU_V(lt_f32)(a, MGPU_V(all_f32)(8388608.0f)), down, x);
}
MGPU_FUNCTION T(f32) MGPU_V(inverse_f32)(T(f32) v)
{
    const T(f32) inverse = 1.0f / v, most = MGPU_V(all_f32)(3.40282347e+38f), zero = MGPU_V(all_f32)(0.0f);
    const T(mask) large = MGPU_V(and)(MGPU_V(ne_f32)(v, zero), MGPU_V(gt_f32)(MGPU_V(abs_f32)(inverse), most));
    return MGPU_V(select_f32)(large, MGPU_V(select_f32)(MGPU_V(lt_f32)(v, zero), -most, most), inverse);
}
#if MGPU_WIDE
MGPU_FUNCTION T(f64) MGPU_V(abs_f64)(T(f64) a) { return MGPU_V(select_f64)(MGPU_V(lt_f64)(a, MGPU_V(all_f64)(0.0)), -a, a + 0.0); }
MGPU_FUNCTION T(i64) MGPU_V(abs_i64)(T(i64) a) { return MGPU_V(select_i64)(MGPU_V(lt_i64)(a, MGPU_V(all_i64)(0)), -a, a); }
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
MGPU_BY_LANE_OF_2(mod)
#undef MGPU_BY_LANE
#undef MGPU_BY_LANE_OF_2
#endif
#include "mgpu_vector_math.h"
#undef T
#undef MGPU_V
#undef MGPU_WIDE
#undef MGPU_LANES
#undef MGPU_KNOWN
