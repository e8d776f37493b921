/* mgpu_vector_lanes.h: types and operations of one class of vectors (mgpu_vector.h): loads and stores, selection, comparisons,
 * conversions, gathers, reductions. Masks are bits with MGPU_AVX512, else lanes of 0 and -1. gcc 12 splits many of GNU C's vector
 * operations into scalar ones on x86, so builtins are called: X4(name) for lanes of 4 bytes, X8(name) for 8 bytes, with ROUND_4
 * and ROUND_8 if they have an argument for rounding. */
#define MGPU_KNOWN(lanes) (__builtin_constant_p(lanes) && lanes == MGPU_LANES) /* true if all lanes are active, at compile time */
#define MGPU_TYPE(name, element, bytes)                                                                                          \
    typedef element T(name) __attribute__((vector_size(bytes)));                                                                 \
    typedef element T(name##_memory) __attribute__((vector_size(bytes), aligned(1), may_alias));
MGPU_TYPE(f32, float, MGPU_LANES * 4)
MGPU_TYPE(i32, int32_t, MGPU_LANES * 4)
MGPU_TYPE(u32, uint32_t, MGPU_LANES * 4)
#if MGPU_WIDE
MGPU_TYPE(f64, double, MGPU_LANES * 8)
MGPU_TYPE(i64, int64_t, MGPU_LANES * 8)
MGPU_TYPE(long, long long, MGPU_LANES * 8) /* i64 in builtins */
#endif
#ifdef MGPU_X86 /* gcc's builtins take at least 16 bytes: elements are in the lower ones */
MGPU_TYPE(bytes_1, char, 16)
MGPU_TYPE(bytes_2, short, MGPU_LANES == 16 ? 32 : 16)
MGPU_TYPE(two, long long, 16)
#else
MGPU_TYPE(bytes_1, uint8_t, MGPU_LANES)
MGPU_TYPE(signed_1, int8_t, MGPU_LANES)
MGPU_TYPE(bytes_2, uint16_t, MGPU_LANES * 2)
MGPU_TYPE(signed_2, int16_t, MGPU_LANES * 2)
#endif
#undef MGPU_TYPE
#if defined MGPU_AVX512 && MGPU_WIDE
typedef uint8_t T(mask);
#define X4(name) __builtin_ia32_##name##256_mask
#define X8(name) __builtin_ia32_##name##512_mask
#define ROUND_4
#define ROUND_8 , 4
#elif defined MGPU_AVX512
typedef uint16_t T(mask);
#define X4(name) __builtin_ia32_##name##512_mask
#define ROUND_4 , 4
#else
typedef T(i32) T(mask);
#endif
#define ALL (T(mask)) - 1

/* ---- broadcasts; from, from + step ...; masks of all and of the first lanes */
MGPU_FUNCTION T(f32) V(all_f32)(float a) { return a - (T(f32)){0}; }
MGPU_FUNCTION T(i32) V(all_i32)(int32_t a) { return a - (T(i32)){0}; }
MGPU_FUNCTION T(u32) V(all_u32)(uint32_t a) { return a - (T(u32)){0}; }
#if MGPU_WIDE
MGPU_FUNCTION T(f64) V(all_f64)(double a) { return a - (T(f64)){0}; }
MGPU_FUNCTION T(i64) V(all_i64)(int64_t a) { return a - (T(i64)){0}; }
#endif
MGPU_FUNCTION T(i32) V(count_i32)(int64_t from, int64_t step)
{
    static const int32_t NUMBER[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    return *(const T(i32_memory) *)NUMBER * (int32_t)step + (int32_t)from;
}
MGPU_FUNCTION T(mask) V(not )(T(mask) a) { return (T(mask)) ~a; }
MGPU_FUNCTION T(mask) V (and)(T(mask) a, T(mask) b) { return (T(mask))(a & b); }
MGPU_FUNCTION T(mask) V(or)(T(mask) a, T(mask) b) { return (T(mask))(a | b); }
MGPU_FUNCTION T(mask) V(eq_mask)(T(mask) a, T(mask) b) { return (T(mask)) ~(a ^ b); }
MGPU_FUNCTION T(mask) V(select_mask)(T(mask) m, T(mask) a, T(mask) b) { return (T(mask))((m & a) | (~m & b)); }
#ifdef MGPU_AVX512
MGPU_FUNCTION T(mask) V(all_mask)(bool a) { return (T(mask))(a ? -1 : 0); }
MGPU_FUNCTION T(mask) V(first)(int lanes) { return (T(mask))((1u << lanes) - 1); }
MGPU_FUNCTION bool V(lane)(T(mask) a, int lane) { return a >> lane & 1; }
#else
MGPU_FUNCTION T(mask) V(all_mask)(bool a) { return V(all_i32)(a ? -1 : 0); }
MGPU_FUNCTION T(mask) V(first)(int lanes) { return V(count_i32)(0, 1) < lanes; }
MGPU_FUNCTION bool V(lane)(T(mask) a, int lane) { return a[lane]; }
#endif

/* ---- comparisons, with the meaning of C's operators, and selection */
#ifdef MGPU_AVX512
#define MGPU_COMPARE(name, type, as, builtin, how, ...)                                                                          \
    MGPU_FUNCTION T(mask) V(name##_##type)(T(type) a, T(type) b) { return builtin((T(as))a, (T(as))b, how, ALL __VA_ARGS__); }
#define MGPU_CHOOSE(type, as, compare, blend, ...)                                                                               \
    MGPU_COMPARE(eq, type, as, compare, 0, __VA_ARGS__)                                                                          \
    MGPU_COMPARE(ne, type, as, compare, 4, __VA_ARGS__)                                                                          \
    MGPU_COMPARE(lt, type, as, compare, 1, __VA_ARGS__)                                                                          \
    MGPU_COMPARE(le, type, as, compare, 2, __VA_ARGS__)                                                                          \
    MGPU_FUNCTION T(type) V(select_##type)(T(mask) m, T(type) a, T(type) b) { return (T(type))blend(m, a, b); }
#define MGPU_BLEND_4(m, a, b) X4(blendmps_)((T(f32))b, (T(f32))a, m)
#define MGPU_BLEND_8(m, a, b) X8(blendmpd_)((T(f64))b, (T(f64))a, m)
MGPU_CHOOSE(f32, f32, X4(cmpps), MGPU_BLEND_4, ROUND_4)
MGPU_CHOOSE(i32, i32, X4(cmpd), MGPU_BLEND_4, )
MGPU_CHOOSE(u32, i32, X4(ucmpd), MGPU_BLEND_4, )
#if MGPU_WIDE
MGPU_CHOOSE(f64, f64, X8(cmppd), MGPU_BLEND_8, ROUND_8)
MGPU_CHOOSE(i64, long, X8(cmpq), MGPU_BLEND_8, )
#endif
#undef MGPU_COMPARE
#undef MGPU_BLEND_4
#undef MGPU_BLEND_8
#else
#define MGPU_CHOOSE(type, lanes)                                                                                                 \
    MGPU_FUNCTION T(mask) V(eq_##type)(T(type) a, T(type) b) { return __builtin_convertvector(a == b, T(i32)); }                 \
    MGPU_FUNCTION T(mask) V(ne_##type)(T(type) a, T(type) b) { return __builtin_convertvector(a != b, T(i32)); }                 \
    MGPU_FUNCTION T(mask) V(lt_##type)(T(type) a, T(type) b) { return __builtin_convertvector(a < b, T(i32)); }                  \
    MGPU_FUNCTION T(mask) V(le_##type)(T(type) a, T(type) b) { return __builtin_convertvector(a <= b, T(i32)); }                 \
    MGPU_FUNCTION T(type) V(select_##type)(T(mask) m, T(type) a, T(type) b)                                                      \
    {                                                                                                                            \
        const T(lanes) all = __builtin_convertvector(m, T(lanes));                                                               \
        return (T(type))((all & (T(lanes))a) | (~all & (T(lanes))b));                                                            \
    }
MGPU_CHOOSE(f32, i32)
MGPU_CHOOSE(i32, i32)
MGPU_CHOOSE(u32, i32)
#if MGPU_WIDE
MGPU_CHOOSE(f64, i64)
MGPU_CHOOSE(i64, i64)
#endif
#endif
#undef MGPU_CHOOSE

/* ---- multiply-adds and square roots */
#define MGPU_SQRT_LANES(type, root)                                                                                              \
    MGPU_FUNCTION T(type) V(sqrt_##type)(T(type) a)                                                                              \
    {                                                                                                                            \
        for (int k = 0; k < MGPU_LANES; k++)                                                                                     \
            a[k] = root(a[k]);                                                                                                   \
        return a;                                                                                                                \
    }
#if defined __clang__ || MGPU_VECTOR_BYTES == 16
#ifdef __clang__
#define MGPU_FUSED(type, fused, root, rounding)                                                                                  \
    MGPU_FUNCTION T(type) V(fma_##type)(T(type) a, T(type) b, T(type) c) { _Pragma("clang fp contract(on)") return a * b + c; }  \
    MGPU_SQRT_LANES(type, root)
#else
#define MGPU_FUSED(type, fused, root, rounding)                                                                                  \
    MGPU_FUNCTION T(type) V(fma_##type)(T(type) a, T(type) b, T(type) c)                                                         \
    {                                                                                                                            \
        for (int k = 0; k < MGPU_LANES; k++)                                                                                     \
            a[k] = fused(a[k], b[k], c[k]);                                                                                      \
        return a;                                                                                                                \
    }                                                                                                                            \
    MGPU_SQRT_LANES(type, root)
#endif
MGPU_FUSED(f32, mgpu_fmaf, __builtin_sqrtf, )
#if MGPU_WIDE
MGPU_FUSED(f64, mgpu_fma_double, __builtin_sqrt, )
#endif
#else
#ifdef MGPU_AVX512
#define MGPU_FUSED(type, fused, root, rounding)                                                                                  \
    MGPU_FUNCTION T(type) V(fma_##type)(T(type) a, T(type) b, T(type) c) { return fused(a, b, c, ALL rounding); }                \
    MGPU_FUNCTION T(type) V(sqrt_##type)(T(type) a) { return root(a, a, ALL rounding); }
#else
#define MGPU_FUSED(type, fused, root, rounding)                                                                                  \
    MGPU_FUNCTION T(type) V(fma_##type)(T(type) a, T(type) b, T(type) c) { return fused(a, b, c); }                              \
    MGPU_FUNCTION T(type) V(sqrt_##type)(T(type) a) { return root(a); }
#define X4(name) MGPU_JOIN(__builtin_ia32_##name, MGPU_BITS_4)
#define X8(name) __builtin_ia32_##name##256
#define MGPU_JOIN(name, bits) MGPU_JOINED(name, bits)
#define MGPU_JOINED(name, bits) name##bits
#define ROUND_4
#define ROUND_8
#if MGPU_WIDE
#define MGPU_BITS_4
#else
#define MGPU_BITS_4 256
#endif
#endif
MGPU_FUSED(f32, X4(vfmaddps), X4(sqrtps), ROUND_4)
#if MGPU_WIDE
MGPU_FUSED(f64, X8(vfmaddpd), X8(sqrtpd), ROUND_8)
#endif
#undef MGPU_JOIN
#undef MGPU_JOINED
#undef MGPU_BITS_4
#endif
#undef MGPU_FUSED
#undef MGPU_SQRT_LANES

/* ---- loads and stores of all lanes, the first ones, or those of a mask; loads set inactive lanes to 0 */
#define MGPU_WHOLE(type)                                                                                                         \
    MGPU_FUNCTION T(type) V(load_all_##type)(const void *from) { return *(const T(type##_memory) *)from; }                       \
    MGPU_FUNCTION void V(store_all_##type)(void *to, T(type) v) { *(T(type##_memory) *)to = v; }
/* Vectors that fill the lower part of a register. */
#define MGPU_LOWER(type, bytes)                                                                                                  \
    MGPU_FUNCTION T(type) V(load_all_##type)(const void *from)                                                                   \
    {                                                                                                                            \
        long long low = 0;                                                                                                       \
        memcpy(&low, from, bytes);                                                                                               \
        return (T(type))(T(two)){low, 0};                                                                                        \
    }                                                                                                                            \
    MGPU_FUNCTION void V(store_all_##type)(void *to, T(type) v)                                                                  \
    {                                                                                                                            \
        const long long low = ((T(two))v)[0];                                                                                    \
        memcpy(to, &low, bytes);                                                                                                 \
    }
MGPU_WHOLE(f32)
MGPU_WHOLE(i32)
MGPU_WHOLE(u32)
#if MGPU_WIDE
MGPU_WHOLE(f64)
MGPU_WHOLE(i64)
#endif
#if defined MGPU_X86 && MGPU_LANES <= 8
MGPU_LOWER(bytes_1, MGPU_LANES)
#else
MGPU_WHOLE(bytes_1)
#endif
#if defined MGPU_X86 && MGPU_LANES == 4
MGPU_LOWER(bytes_2, 8)
#else
MGPU_WHOLE(bytes_2)
#endif
#undef MGPU_WHOLE
#undef MGPU_LOWER
#ifdef MGPU_AVX512
#define MGPU_MEMORY(type, element, builtin, how, as, register)                                                                   \
    MGPU_FUNCTION T(type) V(load_where_##type)(const void *from, T(mask) m)                                                      \
    {                                                                                                                            \
        return (T(type))builtin(load##how)((const as *)from, (T(register)){0}, m);                                               \
    }                                                                                                                            \
    MGPU_FUNCTION void V(store_where_##type)(void *to, T(type) v, T(mask) m)                                                     \
    {                                                                                                                            \
        builtin(store##how)((as *)to, (T(register))v, m);                                                                        \
    }                                                                                                                            \
    MGPU_FUNCTION T(type) V(load_##type)(const element *from, int lanes)                                                         \
    {                                                                                                                            \
        return MGPU_KNOWN(lanes) ? V(load_all_##type)(from) : V(load_where_##type)(from, V(first)(lanes));                       \
    }                                                                                                                            \
    MGPU_FUNCTION void V(store_##type)(element * to, T(type) v, int lanes)                                                       \
    {                                                                                                                            \
        MGPU_KNOWN(lanes) ? V(store_all_##type)(to, v) : V(store_where_##type)(to, v, V(first)(lanes));                          \
    }
#define X1(name) __builtin_ia32_##name##128_mask
#if MGPU_WIDE
#define X2(name) __builtin_ia32_##name##128_mask
#else
#define X2(name) __builtin_ia32_##name##256_mask
#endif
#else /* without masked instructions: copies of single lanes */
#define MGPU_MEMORY(type, element, builtin, how, as, register)                                                                   \
    MGPU_FUNCTION T(type) V(load_where_##type)(const void *from, T(mask) m)                                                      \
    {                                                                                                                            \
        as some[sizeof(T(type)) / sizeof(as)] = {0};                                                                             \
        for (int k = 0; k < MGPU_LANES; k++)                                                                                     \
            if (V(lane)(m, k))                                                                                                   \
                memcpy(some + k, (const as *)from + k, sizeof *some);                                                            \
        return *(const T(type##_memory) *)some;                                                                                  \
    }                                                                                                                            \
    MGPU_FUNCTION void V(store_where_##type)(void *to, T(type) v, T(mask) m)                                                     \
    {                                                                                                                            \
        as some[sizeof v / sizeof(as)];                                                                                          \
        memcpy(some, &v, sizeof v);                                                                                              \
        for (int k = 0; k < MGPU_LANES; k++)                                                                                     \
            if (V(lane)(m, k))                                                                                                   \
                memcpy((as *)to + k, some + k, sizeof *some);                                                                    \
    }                                                                                                                            \
    MGPU_FUNCTION T(type) V(load_##type)(const element *from, int lanes)                                                         \
    {                                                                                                                            \
        if (__builtin_expect(lanes == MGPU_LANES, 1))                                                                            \
            return V(load_all_##type)(from);                                                                                     \
        T(type) v = {0};                                                                                                         \
        memcpy(&v, from, sizeof(as) * (size_t)lanes);                                                                            \
        return v;                                                                                                                \
    }                                                                                                                            \
    MGPU_FUNCTION void V(store_##type)(element * to, T(type) v, int lanes)                                                       \
    {                                                                                                                            \
        if (__builtin_expect(lanes == MGPU_LANES, 1))                                                                            \
            V(store_all_##type)(to, v);                                                                                          \
        else                                                                                                                     \
            memcpy(to, &v, sizeof(as) * (size_t)lanes);                                                                          \
    }
#endif
MGPU_MEMORY(f32, float, X4, ups, float, f32)
MGPU_MEMORY(i32, int32_t, X4, ups, float, f32)
MGPU_MEMORY(u32, uint32_t, X4, ups, float, f32)
MGPU_MEMORY(bytes_1, void, X1, dquqi, char, bytes_1)
MGPU_MEMORY(bytes_2, void, X2, dquhi, short, bytes_2)
#if MGPU_WIDE
MGPU_MEMORY(f64, double, X8, upd, double, f64)
MGPU_MEMORY(i64, int64_t, X8, upd, double, f64)
#endif
#undef MGPU_MEMORY
#undef X1
#undef X2

/* ---- conversions */
#ifndef MGPU_X86
#define MGPU_WIDEN(from, what, as)                                                                                               \
    MGPU_FUNCTION T(i32) V(widen_##from)(T(as) v) { return __builtin_convertvector((T(from))v, T(i32)); }
MGPU_FUNCTION T(bytes_1) V(bytes_1_of)(T(i32) v) { return __builtin_convertvector(v, T(bytes_1)); }
MGPU_FUNCTION T(bytes_2) V(bytes_2_of)(T(i32) v) { return __builtin_convertvector(v, T(bytes_2)); }
#else
#if MGPU_LANES == 16
#define MGPU_WIDEN_BY(what, v) __builtin_ia32_pmov##what##512_mask(v, (T(i32)){0}, ALL)
#elif MGPU_LANES == 8
#define MGPU_WIDEN_BY(what, v) __builtin_ia32_pmov##what##256(v)
#else
#define MGPU_WIDEN_BY(what, v) __builtin_ia32_pmov##what##128(v)
#endif
#define MGPU_WIDEN(from, what, as)                                                                                               \
    MGPU_FUNCTION T(i32) V(widen_##from)(T(as) v) { return (T(i32))MGPU_WIDEN_BY(what, v); }
#ifdef MGPU_AVX512
MGPU_FUNCTION T(bytes_1) V(bytes_1_of)(T(i32) v) { return X4(pmovdb)(v, (T(bytes_1)){0}, ALL); }
MGPU_FUNCTION T(bytes_2) V(bytes_2_of)(T(i32) v) { return X4(pmovdw)(v, (T(bytes_2)){0}, ALL); }
#else
MGPU_FUNCTION T(bytes_2) V(bytes_2_of)(T(i32) v)
{
    const T(i32) low = v & 0xFFFF;
#if MGPU_WIDE
    return __builtin_ia32_packusdw128(low, low);
#else
    return __builtin_ia32_packusdw128(__builtin_ia32_vextractf128_si256(low, 0), __builtin_ia32_vextractf128_si256(low, 1));
#endif
}
MGPU_FUNCTION T(bytes_1) V(bytes_1_of)(T(i32) v)
{
    const T(bytes_2) low = V(bytes_2_of)(v & 0xFF);
    return __builtin_ia32_packuswb128(low, low);
}
#endif
#endif
MGPU_WIDEN(bytes_1, zxbd, bytes_1)
MGPU_WIDEN(signed_1, sxbd, bytes_1)
MGPU_WIDEN(bytes_2, zxwd, bytes_2)
MGPU_WIDEN(signed_2, sxwd, bytes_2)
#undef MGPU_WIDEN
#undef MGPU_WIDEN_BY
#define MGPU_CONVERT(to, from)                                                                                                   \
    MGPU_FUNCTION T(to) V(to##_of_##from)(T(from) v) { return __builtin_convertvector(v, T(to)); }
MGPU_CONVERT(f32, i32)
MGPU_CONVERT(f32, u32)
MGPU_CONVERT(i32, f32) /* values must be in range; likewise below */
MGPU_FUNCTION T(u32) V(u32_of_i32)(T(i32) v) { return (T(u32))v; }
MGPU_FUNCTION T(i32) V(i32_of_u32)(T(u32) v) { return (T(i32))v; }
MGPU_FUNCTION T(u32) V(bits_of)(T(f32) v) { return (T(u32))v; }
MGPU_FUNCTION T(f32) V(float_of)(T(u32) v) { return (T(f32))v; }
#if MGPU_WIDE
MGPU_FUNCTION T(i64) V(bits_of_f64)(T(f64) v) { return (T(i64))v; }
MGPU_FUNCTION T(f64) V(f64_of_bits)(T(i64) v) { return (T(f64))v; }
#ifdef MGPU_AVX512
MGPU_FUNCTION T(f64) V(f64_of_f32)(T(f32) v) { return X8(cvtps2pd)(v, (T(f64)){0}, ALL ROUND_8); }
MGPU_FUNCTION T(f64) V(f64_of_i32)(T(i32) v) { return X8(cvtdq2pd)(v, (T(f64)){0}, ALL); }
#else
MGPU_CONVERT(f64, f32)
MGPU_CONVERT(f64, i32)
#endif
MGPU_CONVERT(f64, u32)
MGPU_CONVERT(f64, i64)
MGPU_CONVERT(f32, f64)
MGPU_CONVERT(f32, i64)
MGPU_CONVERT(i32, f64)
MGPU_CONVERT(i64, i32)
MGPU_CONVERT(i64, u32)
MGPU_CONVERT(i32, i64)
MGPU_FUNCTION T(u32) V(u32_of_i64)(T(i64) v) { return (T(u32)) __builtin_convertvector(v, T(i32)); }
#endif
#undef MGPU_CONVERT
/* Adds lanes of f32 to f64 accumulators in memory. */
#if MGPU_WIDE
MGPU_FUNCTION void V(add_to_f64)(double *sum, T(f32) v, int lanes)
{
    V(store_f64)(sum, V(load_f64)(sum, lanes) + V(f64_of_f32)(v), lanes);
}
#else
typedef float T(half) __attribute__((vector_size(MGPU_LANES * 2)));
typedef double T(wide) __attribute__((vector_size(MGPU_LANES * 4)));
typedef double T(wide_memory) __attribute__((vector_size(MGPU_LANES * 4), aligned(1), may_alias));
typedef struct T(halves) {
    T(half) low, high;
} __attribute__((may_alias)) T(halves);
#ifdef MGPU_AVX512
#define MGPU_DOUBLES(v) __builtin_ia32_cvtps2pd512_mask(v, (T(wide)){0}, (uint8_t)-1, 4)
#else
#define MGPU_DOUBLES(v) __builtin_convertvector(v, T(wide))
#endif
MGPU_FUNCTION void V(add_to_f64)(double *sum, T(f32) v, int lanes)
{
    if (__builtin_expect(lanes == MGPU_LANES, 1)) {
        const T(halves) both = *(const T(halves) *)&v;
        *(T(wide_memory) *)sum += MGPU_DOUBLES(both.low);
        *(T(wide_memory) *)(sum + MGPU_LANES / 2) += MGPU_DOUBLES(both.high);
        return;
    }
    for (int k = 0; k < lanes; k++)
        sum[k] += (double)v[k];
}
#undef MGPU_DOUBLES
#endif

/* ---- functions of libm, lane by lane */
#define MGPU_BY_LANE(name)                                                                                                       \
    MGPU_FUNCTION T(f64) V(name##_f64)(T(f64) a)                                                                                 \
    {                                                                                                                            \
        T(f64) y;                                                                                                                \
        for (int k = 0; k < MGPU_LANES; k++)                                                                                     \
            y[k] = mgpu_##name##_double(a[k]);                                                                                   \
        return y;                                                                                                                \
    }
#define MGPU_BY_LANE_OF_2(name)                                                                                                  \
    MGPU_FUNCTION T(f64) V(name##_f64)(T(f64) a, T(f64) b)                                                                       \
    {                                                                                                                            \
        T(f64) y;                                                                                                                \
        for (int k = 0; k < MGPU_LANES; k++)                                                                                     \
            y[k] = mgpu_##name##_double(a[k], b[k]);                                                                             \
        return y;                                                                                                                \
    }

/* ---- strided loads and stores, gathers and scatters */
#define S(k) from[k * step]
#if MGPU_LANES == 16
#define MGPU_STRIDED S(0), S(1), S(2), S(3), S(4), S(5), S(6), S(7), S(8), S(9), S(10), S(11), S(12), S(13), S(14), S(15)
#elif MGPU_LANES == 8
#define MGPU_STRIDED S(0), S(1), S(2), S(3), S(4), S(5), S(6), S(7)
#elif MGPU_LANES == 4
#define MGPU_STRIDED S(0), S(1), S(2), S(3)
#else
#define MGPU_STRIDED S(0), S(1)
#endif
#if defined MGPU_AVX512 && MGPU_WIDE
#define MGPU_GATHER_4(type, from, at, m) return (T(type))__builtin_ia32_gather3siv8sf((T(f32)){0}, from, at, m, 4);
#define MGPU_GATHER_8(type, from, at, m) return (T(type))__builtin_ia32_gathersiv8df((T(f64)){0}, from, at, m, 8);
#elif defined MGPU_AVX512
#define MGPU_GATHER_4(type, from, at, m) return (T(type))__builtin_ia32_gathersiv16sf((T(f32)){0}, from, at, m, 4);
#else
#define MGPU_GATHER_4(type, from, at, m)                                                                                         \
    T(type) v = {0};                                                                                                             \
    for (int k = 0; k < MGPU_LANES; k++)                                                                                         \
        if (V(lane)(m, k))                                                                                                       \
            v[k] = from[at[k]];                                                                                                  \
    return v;
#define MGPU_GATHER_8 MGPU_GATHER_4
#endif
/* MGPU_GATHER_REGISTER: for elements of 4 or 8 bytes; MGPU_GATHER: for narrower ones. */
#define MGPU_GATHER_REGISTER(type, element, by)                                                                                  \
    MGPU_FUNCTION T(type) V(gather_##type)(const element *from, T(i32) at, T(mask) m){by(type, from, at, m)} MGPU_FUNCTION T(    \
        type) V(stride_##type)(const element *from, int64_t step, int lanes)                                                     \
    {                                                                                                                            \
        if (__builtin_expect(lanes == MGPU_LANES, 1))                                                                            \
            return (T(type)){MGPU_STRIDED};                                                                                      \
        T(type) v = {0};                                                                                                         \
        for (int k = 0; k < lanes; k++)                                                                                          \
            v[k] = from[k * step];                                                                                               \
        return v;                                                                                                                \
    }
#define MGPU_GATHER(type, element, value)                                                                                        \
    MGPU_FUNCTION T(value) V(stride_##type)(const element *from, int64_t step, int lanes)                                        \
    {                                                                                                                            \
        element some[MGPU_LANES];                                                                                                \
        for (int k = 0; k < MGPU_LANES; k++)                                                                                     \
            some[k] = k < lanes ? from[k * step] : (element)0;                                                                   \
        return V(load_##type)((const element *)some, MGPU_LANES);                                                                \
    }                                                                                                                            \
    MGPU_FUNCTION T(value) V(gather_##type)(const element *from, T(i32) at, T(mask) m)                                           \
    {                                                                                                                            \
        element some[MGPU_LANES];                                                                                                \
        for (int k = 0; k < MGPU_LANES; k++)                                                                                     \
            some[k] = V(lane)(m, k) ? from[at[k]] : (element)0;                                                                  \
        return V(load_##type)((const element *)some, MGPU_LANES);                                                                \
    }
#define MGPU_SCATTER(type, element, value)                                                                                       \
    MGPU_FUNCTION void V(stride_store_##type)(element * to, int64_t step, T(value) v, int lanes)                                 \
    {                                                                                                                            \
        element some[MGPU_LANES];                                                                                                \
        V(store_##type)(some, v, MGPU_LANES);                                                                                    \
        for (int k = 0; k < lanes; k++)                                                                                          \
            to[k * step] = some[k];                                                                                              \
    }                                                                                                                            \
    MGPU_FUNCTION void V(scatter_##type)(element * to, T(i32) at, T(value) v, int lanes)                                         \
    {                                                                                                                            \
        element some[MGPU_LANES];                                                                                                \
        V(store_##type)(some, v, MGPU_LANES);                                                                                    \
        for (int k = 0; k < lanes; k++)                                                                                          \
            to[at[k]] = some[k];                                                                                                 \
    }

/* ---- reductions of all lanes, in a fixed tree: the upper half is combined with the lower one, and so on */
#if defined __has_builtin && !defined MGPU_SHUFFLED
#if __has_builtin(__builtin_shufflevector)
#define MGPU_SHUFFLED 1
#endif
#endif
#define MGPU_FOLD(combined, ...) v = combined(v, __builtin_shufflevector(v, v, __VA_ARGS__))
#if MGPU_LANES == 16
#define MGPU_FOLDS(combined)                                                                                                     \
    MGPU_FOLD(combined, 8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7);                                                   \
    MGPU_FOLD(combined, 4, 5, 6, 7, 0, 1, 2, 3, 12, 13, 14, 15, 8, 9, 10, 11);                                                   \
    MGPU_FOLD(combined, 2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13);                                                   \
    MGPU_FOLD(combined, 1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14)
#elif MGPU_LANES == 8
#define MGPU_FOLDS(combined)                                                                                                     \
    MGPU_FOLD(combined, 4, 5, 6, 7, 0, 1, 2, 3);                                                                                 \
    MGPU_FOLD(combined, 2, 3, 0, 1, 6, 7, 4, 5);                                                                                 \
    MGPU_FOLD(combined, 1, 0, 3, 2, 5, 4, 7, 6)
#elif MGPU_LANES == 4
/* clang-format off */
#define MGPU_FOLDS(combined) MGPU_FOLD(combined, 2, 3, 0, 1); MGPU_FOLD(combined, 1, 0, 3, 2)
/* clang-format on */
#else
#define MGPU_FOLDS(combined) MGPU_FOLD(combined, 1, 0)
#endif
#ifdef MGPU_SHUFFLED
/* clang-format off */
#define MGPU_TREE(name, type, element, combined, scalar) \
    MGPU_FUNCTION element V(name##_##type)(T(type) v) { MGPU_FOLDS(combined); return v[0]; }
/* clang-format on */
#else
#define MGPU_TREE(name, type, element, combined, scalar)                                                                         \
    MGPU_FUNCTION element V(name##_##type)(T(type) v)                                                                            \
    {                                                                                                                            \
        element x[MGPU_LANES];                                                                                                   \
        memcpy(x, &v, sizeof x);                                                                                                 \
        for (int half = MGPU_LANES / 2; half; half /= 2)                                                                         \
            for (int k = 0; k < half; k++)                                                                                       \
                x[k] = scalar(x[k], x[k + half]);                                                                                \
        return x[0];                                                                                                             \
    }
#endif
