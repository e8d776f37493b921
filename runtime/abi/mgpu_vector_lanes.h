/* mgpu_vector_lanes.h: what vectors of one class can do (mgpu_vector.h): types, loads and stores, selection, comparisons, conversions,
 * gathers, reductions. Masks are bits where MGPU_AVX512 is, else lanes of 0 and -1. */
#define MGPU_KNOWN(lanes) (__builtin_constant_p(lanes) && lanes == MGPU_LANES) /* to be all */
#define MGPU_TYPE(name, element, bytes)                                                            \
    typedef element MGPU_V(name) __attribute__((vector_size(MGPU_LANES * bytes)));                  \
    typedef element MGPU_V(name##_memory) __attribute__((vector_size(MGPU_LANES * bytes), aligned(1), may_alias));
MGPU_TYPE(f32, float, 4)
MGPU_TYPE(i32, int32_t, 4)
MGPU_TYPE(u32, uint32_t, 4)
#ifndef MGPU_X86
MGPU_TYPE(bytes_1, uint8_t, 1)
MGPU_TYPE(signed_1, int8_t, 1)
MGPU_TYPE(bytes_2, uint16_t, 2)
MGPU_TYPE(signed_2, int16_t, 2)
#endif
#if MGPU_WIDE
MGPU_TYPE(f64, double, 8)
MGPU_TYPE(i64, int64_t, 8)
#endif
#undef MGPU_TYPE
#ifdef MGPU_X86 /* narrow numbers are in the lower lanes of what gcc's builtins take */
typedef char T(bytes_1) __attribute__((vector_size(16)));
typedef char T(bytes_1_memory) __attribute__((vector_size(16), aligned(1), may_alias));
typedef short T(bytes_2) __attribute__((vector_size(MGPU_LANES == 16 ? 32 : 16)));
typedef short T(bytes_2_memory) __attribute__((vector_size(MGPU_LANES == 16 ? 32 : 16), aligned(1), may_alias));
typedef T(bytes_1) T(signed_1);
typedef T(bytes_2) T(signed_2);
typedef long long MGPU_V(two) __attribute__((vector_size(16)));
#endif
#ifdef MGPU_AVX512
#if MGPU_WIDE
typedef uint8_t T(mask);
#else
typedef uint16_t T(mask);
#endif
#else
typedef T(i32) T(mask);
#endif

/* ---- the same in all lanes; all lanes of a mask, its first ones */
MGPU_FUNCTION T(f32) MGPU_V(all_f32)(float a) { return a - (T(f32)){0}; }
MGPU_FUNCTION T(i32) MGPU_V(all_i32)(int32_t a) { return a - (T(i32)){0}; }
MGPU_FUNCTION T(u32) MGPU_V(all_u32)(uint32_t a) { return a - (T(u32)){0}; }
#if MGPU_WIDE
MGPU_FUNCTION T(f64) MGPU_V(all_f64)(double a) { return a - (T(f64)){0}; }
MGPU_FUNCTION T(i64) MGPU_V(all_i64)(int64_t a) { return a - (T(i64)){0}; }
#endif
/* from, from + step ... */
MGPU_FUNCTION T(i32) MGPU_V(count_i32)(int64_t from, int64_t step)
{
    static const int32_t NUMBER[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    return *(const T(i32_memory) *)NUMBER * (int32_t)step + (int32_t)from;
}
#ifdef MGPU_AVX512
MGPU_FUNCTION T(mask) MGPU_V(all_mask)(bool a) { return (T(mask))(a ? -1 : 0); }
MGPU_FUNCTION T(mask) MGPU_V(first)(int lanes) { return (T(mask))((1u << lanes) - 1); }
MGPU_FUNCTION T(mask) MGPU_V(not)(T(mask) a) { return (T(mask))~a; }
MGPU_FUNCTION T(mask) MGPU_V(and)(T(mask) a, T(mask) b) { return (T(mask))(a & b); }
MGPU_FUNCTION T(mask) MGPU_V(or)(T(mask) a, T(mask) b) { return (T(mask))(a | b); }
MGPU_FUNCTION bool MGPU_V(lane)(T(mask) a, int lane) { return a >> lane & 1; }
#else
MGPU_FUNCTION T(mask) MGPU_V(all_mask)(bool a) { return MGPU_V(all_i32)(a ? -1 : 0); }
MGPU_FUNCTION T(mask) MGPU_V(first)(int lanes) { return MGPU_V(count_i32)(0, 1) < lanes; }
MGPU_FUNCTION T(mask) MGPU_V(not)(T(mask) a) { return ~a; }
MGPU_FUNCTION T(mask) MGPU_V(and)(T(mask) a, T(mask) b) { return a & b; }
MGPU_FUNCTION T(mask) MGPU_V(or)(T(mask) a, T(mask) b) { return a | b; }
MGPU_FUNCTION bool MGPU_V(lane)(T(mask) a, int lane) { return a[lane]; }
#endif

/* ---- comparisons and selection */
MGPU_FUNCTION T(mask) MGPU_V(eq_mask)(T(mask) a, T(mask) b) { return (T(mask)) ~(a ^ b); }
#ifdef MGPU_AVX512
#if MGPU_WIDE
#define MGPU_COMPARE_f32(a, b, how, whole) __builtin_ia32_cmpps256_mask(a, b, how, (uint8_t)-1)
#define MGPU_COMPARE_i32(a, b, how, whole) __builtin_ia32_cmpd256_mask(a, b, whole, (uint8_t)-1)
#define MGPU_COMPARE_u32(a, b, how, whole) __builtin_ia32_ucmpd256_mask((T(i32))(a), (T(i32))(b), whole, (uint8_t)-1)
#define MGPU_COMPARE_f64(a, b, how, whole) __builtin_ia32_cmppd512_mask(a, b, how, (uint8_t)-1, 4)
#define MGPU_COMPARE_i64(a, b, how, whole) __builtin_ia32_cmpq512_mask((long long __attribute__((vector_size(64))))(a), (long long __attribute__((vector_size(64))))(b), whole, (uint8_t)-1)
#define MGPU_BLEND(m, a, b) __builtin_ia32_blendmps_256_mask(b, a, m)
#define MGPU_BLEND_WIDE(m, a, b) __builtin_ia32_blendmpd_512_mask(b, a, m)
#else
#define MGPU_COMPARE_f32(a, b, how, whole) __builtin_ia32_cmpps512_mask(a, b, how, (uint16_t)-1, 4)
#define MGPU_COMPARE_i32(a, b, how, whole) __builtin_ia32_cmpd512_mask(a, b, whole, (uint16_t)-1)
#define MGPU_COMPARE_u32(a, b, how, whole) __builtin_ia32_ucmpd512_mask((T(i32))(a), (T(i32))(b), whole, (uint16_t)-1)
#define MGPU_BLEND(m, a, b) __builtin_ia32_blendmps_512_mask(b, a, m)
#endif
/* the predicates of floats are those of C's operators: ordered, but for != */
#define MGPU_COMPARISONS(type)                                                                                             \
    MGPU_FUNCTION T(mask) MGPU_V(eq_##type)(T(type) a, T(type) b) { return MGPU_COMPARE_##type(a, b, 0, 0); }              \
    MGPU_FUNCTION T(mask) MGPU_V(ne_##type)(T(type) a, T(type) b) { return MGPU_COMPARE_##type(a, b, 4, 4); }              \
    MGPU_FUNCTION T(mask) MGPU_V(lt_##type)(T(type) a, T(type) b) { return MGPU_COMPARE_##type(a, b, 1, 1); }              \
    MGPU_FUNCTION T(mask) MGPU_V(le_##type)(T(type) a, T(type) b) { return MGPU_COMPARE_##type(a, b, 2, 2); }              \
    MGPU_FUNCTION T(mask) MGPU_V(gt_##type)(T(type) a, T(type) b) { return MGPU_COMPARE_##type(a, b, 14, 6); }             \
    MGPU_FUNCTION T(mask) MGPU_V(ge_##type)(T(type) a, T(type) b) { return MGPU_COMPARE_##type(a, b, 13, 5); }
#define MGPU_SELECT(type, real)                                                                                            \
    MGPU_FUNCTION T(type) MGPU_V(select_##type)(T(mask) m, T(type) a, T(type) b)                                           \
    {                                                                                                                      \
        return (T(type))MGPU_BLEND(m, (T(real))a, (T(real))b);                                                             \
    }
#define MGPU_SELECT_WIDE(type)                                                                                             \
    MGPU_FUNCTION T(type) MGPU_V(select_##type)(T(mask) m, T(type) a, T(type) b)                                           \
    {                                                                                                                      \
        return (T(type))MGPU_BLEND_WIDE(m, (T(f64))a, (T(f64))b);                                                          \
    }
MGPU_FUNCTION T(mask) MGPU_V(select_mask)(T(mask) m, T(mask) a, T(mask) b) { return (T(mask))((m & a) | (~m & b)); }
#else
#if MGPU_WIDE
#define MGPU_MASK_OF_f64(m) __builtin_convertvector(m, T(i32))
#define MGPU_MASK_OF_i64(m) __builtin_convertvector(m, T(i32))
#endif
#define MGPU_MASK_OF_f32(m) (m)
#define MGPU_MASK_OF_i32(m) (m)
#define MGPU_MASK_OF_u32(m) (m)
#define MGPU_COMPARISONS(type)                                                                                             \
    MGPU_FUNCTION T(mask) MGPU_V(eq_##type)(T(type) a, T(type) b) { return MGPU_MASK_OF_##type(a == b); }                  \
    MGPU_FUNCTION T(mask) MGPU_V(ne_##type)(T(type) a, T(type) b) { return MGPU_MASK_OF_##type(a != b); }                  \
    MGPU_FUNCTION T(mask) MGPU_V(lt_##type)(T(type) a, T(type) b) { return MGPU_MASK_OF_##type(a < b); }                   \
    MGPU_FUNCTION T(mask) MGPU_V(le_##type)(T(type) a, T(type) b) { return MGPU_MASK_OF_##type(a <= b); }                  \
    MGPU_FUNCTION T(mask) MGPU_V(gt_##type)(T(type) a, T(type) b) { return MGPU_MASK_OF_##type(a > b); }                   \
    MGPU_FUNCTION T(mask) MGPU_V(ge_##type)(T(type) a, T(type) b) { return MGPU_MASK_OF_##type(a >= b); }
#define MGPU_SELECT(type, real)                                                                                            \
    MGPU_FUNCTION T(type) MGPU_V(select_##type)(T(mask) m, T(type) a, T(type) b)                                           \
    {                                                                                                                      \
        return (T(type))((m & (T(i32))a) | (~m & (T(i32))b));                                                              \
    }
#define MGPU_SELECT_WIDE(type)                                                                                             \
    MGPU_FUNCTION T(type) MGPU_V(select_##type)(T(mask) m, T(type) a, T(type) b)                                           \
    {                                                                                                                      \
        const T(i64) wide = __builtin_convertvector(m, T(i64));                                                            \
        return (T(type))((wide & (T(i64))a) | (~wide & (T(i64))b));                                                        \
    }
MGPU_FUNCTION T(mask) MGPU_V(select_mask)(T(mask) m, T(mask) a, T(mask) b) { return (m & a) | (~m & b); }
#endif
MGPU_COMPARISONS(f32)
MGPU_COMPARISONS(i32)
MGPU_COMPARISONS(u32)
MGPU_SELECT(f32, f32)
MGPU_SELECT(i32, f32)
MGPU_SELECT(u32, f32)
#if MGPU_WIDE
MGPU_COMPARISONS(f64)
MGPU_COMPARISONS(i64)
MGPU_SELECT_WIDE(f64)
MGPU_SELECT_WIDE(i64)
#endif
#undef MGPU_COMPARISONS
#undef MGPU_SELECT
#undef MGPU_SELECT_WIDE
#undef MGPU_COMPARE_f32
#undef MGPU_COMPARE_i32
#undef MGPU_COMPARE_u32
#undef MGPU_COMPARE_f64
#undef MGPU_COMPARE_i64
#undef MGPU_BLEND
#undef MGPU_BLEND_WIDE
#undef MGPU_MASK_OF_f32
#undef MGPU_MASK_OF_i32
#undef MGPU_MASK_OF_u32
#undef MGPU_MASK_OF_f64
#undef MGPU_MASK_OF_i64

/* ---- multiply-adds and square roots */
#ifdef __clang__
#define MGPU_FMA(type)                                                                                                     \
    MGPU_FUNCTION T(type) MGPU_V(fma_##type)(T(type) a, T(type) b, T(type) c)                                              \
    {                                                                                                                      \
        _Pragma("clang fp contract(on)") return a * b + c;                                                                 \
    }
#define MGPU_SQRT(type, root)                                                                                              \
    MGPU_FUNCTION T(type) MGPU_V(sqrt_##type)(T(type) a)                                                                   \
    {                                                                                                                      \
        for (int k = 0; k < MGPU_LANES; k++)                                                                               \
            a[k] = root(a[k]);                                                                                             \
        return a;                                                                                                          \
    }
MGPU_FMA(f32)
MGPU_SQRT(f32, __builtin_sqrtf)
#if MGPU_WIDE
MGPU_FMA(f64)
MGPU_SQRT(f64, __builtin_sqrt)
#endif
#undef MGPU_FMA
#undef MGPU_SQRT
#else
#if MGPU_VECTOR_BYTES == 64 && !MGPU_WIDE
#define MGPU_FMA_f32(a, b, c) __builtin_ia32_vfmaddps512_mask(a, b, c, (uint16_t)-1, 4)
#define MGPU_SQRT_f32(a) __builtin_ia32_sqrtps512_mask(a, a, (uint16_t)-1, 4)
#elif MGPU_VECTOR_BYTES == 64
#define MGPU_FMA_f32(a, b, c) __builtin_ia32_vfmaddps256(a, b, c)
#define MGPU_SQRT_f32(a) __builtin_ia32_sqrtps256(a)
#define MGPU_FMA_f64(a, b, c) __builtin_ia32_vfmaddpd512_mask(a, b, c, (uint8_t)-1, 4)
#define MGPU_SQRT_f64(a) __builtin_ia32_sqrtpd512_mask(a, a, (uint8_t)-1, 4)
#elif MGPU_VECTOR_BYTES == 32 && !MGPU_WIDE
#define MGPU_FMA_f32(a, b, c) __builtin_ia32_vfmaddps256(a, b, c)
#define MGPU_SQRT_f32(a) __builtin_ia32_sqrtps256(a)
#elif MGPU_VECTOR_BYTES == 32
#define MGPU_FMA_f32(a, b, c) __builtin_ia32_vfmaddps(a, b, c)
#define MGPU_SQRT_f32(a) __builtin_ia32_sqrtps(a)
#define MGPU_FMA_f64(a, b, c) __builtin_ia32_vfmaddpd256(a, b, c)
#define MGPU_SQRT_f64(a) __builtin_ia32_sqrtpd256(a)
#else
#define MGPU_FMA_f32(a, b, c) MGPU_V(fma_lanes_f32)(a, b, c)
#define MGPU_SQRT_f32(a) MGPU_V(sqrt_lanes_f32)(a)
#define MGPU_FMA_f64(a, b, c) MGPU_V(fma_lanes_f64)(a, b, c)
#define MGPU_SQRT_f64(a) MGPU_V(sqrt_lanes_f64)(a)
#define MGPU_BY_LANES(type, fma, root)                                                                                     \
    MGPU_FUNCTION T(type) MGPU_V(fma_lanes_##type)(T(type) a, T(type) b, T(type) c)                                        \
    {                                                                                                                      \
        for (int k = 0; k < MGPU_LANES; k++)                                                                               \
            a[k] = fma(a[k], b[k], c[k]);                                                                                  \
        return a;                                                                                                          \
    }                                                                                                                      \
    MGPU_FUNCTION T(type) MGPU_V(sqrt_lanes_##type)(T(type) a)                                                             \
    {                                                                                                                      \
        for (int k = 0; k < MGPU_LANES; k++)                                                                               \
            a[k] = root(a[k]);                                                                                             \
        return a;                                                                                                          \
    }
MGPU_BY_LANES(f32, mgpu_fmaf, __builtin_sqrtf)
#if MGPU_WIDE
MGPU_BY_LANES(f64, mgpu_fma_double, __builtin_sqrt)
#endif
#undef MGPU_BY_LANES
#endif
MGPU_FUNCTION T(f32) MGPU_V(fma_f32)(T(f32) a, T(f32) b, T(f32) c) { return MGPU_FMA_f32(a, b, c); }
MGPU_FUNCTION T(f32) MGPU_V(sqrt_f32)(T(f32) a) { return MGPU_SQRT_f32(a); }
#if MGPU_WIDE
MGPU_FUNCTION T(f64) MGPU_V(fma_f64)(T(f64) a, T(f64) b, T(f64) c) { return MGPU_FMA_f64(a, b, c); }
MGPU_FUNCTION T(f64) MGPU_V(sqrt_f64)(T(f64) a) { return MGPU_SQRT_f64(a); }
#endif
#undef MGPU_FMA_f32
#undef MGPU_SQRT_f32
#undef MGPU_FMA_f64
#undef MGPU_SQRT_f64
#endif

/* ---- loads and stores of the first lanes, or of those of a mask: others become 0, or stay */
#ifdef MGPU_AVX512
#if MGPU_WIDE
#define MGPU_LOAD_SOME(from, m) __builtin_ia32_loadups256_mask((const float *)(from), (T(f32)){0}, m)
#define MGPU_STORE_SOME(to, v, m) __builtin_ia32_storeups256_mask((float *)(to), (T(f32))(v), m)
#define MGPU_LOAD_WIDE(from, m) __builtin_ia32_loadupd512_mask((const double *)(from), (T(f64)){0}, m)
#define MGPU_STORE_WIDE(to, v, m) __builtin_ia32_storeupd512_mask((double *)(to), (T(f64))(v), m)
#else
#define MGPU_LOAD_SOME(from, m) __builtin_ia32_loadups512_mask((const float *)(from), (T(f32)){0}, m)
#define MGPU_STORE_SOME(to, v, m) __builtin_ia32_storeups512_mask((float *)(to), (T(f32))(v), m)
#endif
#define MGPU_MEMORY(type, element, LOAD_SOME, STORE_SOME)                                                                  \
    MGPU_FUNCTION T(type) MGPU_V(load_##type)(const element *from, int lanes)                                              \
    {                                                                                                                      \
        if (MGPU_KNOWN(lanes))                                                            \
            return *(const T(type##_memory) *)from;                                                                        \
        return (T(type))LOAD_SOME(from, MGPU_V(first)(lanes));                                                             \
    }                                                                                                                      \
    MGPU_FUNCTION T(type) MGPU_V(load_where_##type)(const element *from, T(mask) m) { return (T(type))LOAD_SOME(from, m); } \
    MGPU_FUNCTION void MGPU_V(store_##type)(element *to, T(type) v, int lanes)                                             \
    {                                                                                                                      \
        if (MGPU_KNOWN(lanes))                                                            \
            *(T(type##_memory) *)to = v;                                                                                   \
        else                                                                                                               \
            STORE_SOME(to, v, MGPU_V(first)(lanes));                                                                       \
    }                                                                                                                      \
    MGPU_FUNCTION void MGPU_V(store_where_##type)(element *to, T(type) v, T(mask) m) { STORE_SOME(to, v, m); }
#else
#define MGPU_MEMORY(type, element, LOAD_SOME, STORE_SOME) MGPU_MEMORY_COPIED(type, element)
#endif
/* without such instructions: by a copy of some lanes */
#define MGPU_MEMORY_COPIED(type, element)                                                                                  \
    MGPU_FUNCTION T(type) MGPU_V(load_##type)(const element *from, int lanes)                                              \
    {                                                                                                                      \
        if (__builtin_expect(lanes == MGPU_LANES, 1))                                                                      \
            return *(const T(type##_memory) *)from;                                                                        \
        T(type) v = {0};                                                                                                   \
        memcpy(&v, from, sizeof *from * (size_t)lanes);                                                                    \
        return v;                                                                                                          \
    }                                                                                                                      \
    MGPU_FUNCTION T(type) MGPU_V(load_where_##type)(const element *from, T(mask) m)                                        \
    {                                                                                                                      \
        element some[MGPU_LANES];                                                                                          \
        for (int k = 0; k < MGPU_LANES; k++)                                                                               \
            some[k] = MGPU_V(lane)(m, k) ? from[k] : (element)0;                                                           \
        return *(const T(type##_memory) *)some;                                                                            \
    }                                                                                                                      \
    MGPU_FUNCTION void MGPU_V(store_##type)(element *to, T(type) v, int lanes)                                             \
    {                                                                                                                      \
        if (__builtin_expect(lanes == MGPU_LANES, 1))                                                                      \
            *(T(type##_memory) *)to = v;                                                                                   \
        else                                                                                                               \
            memcpy(to, &v, sizeof *to * (size_t)lanes);                                                                    \
    }                                                                                                                      \
    MGPU_FUNCTION void MGPU_V(store_where_##type)(element *to, T(type) v, T(mask) m)                                       \
    {                                                                                                                      \
        for (int k = 0; k < MGPU_LANES; k++)                                                                               \
            if (MGPU_V(lane)(m, k))                                                                                        \
                to[k] = v[k];                                                                                              \
    }
MGPU_MEMORY(f32, float, MGPU_LOAD_SOME, MGPU_STORE_SOME)
MGPU_MEMORY(i32, int32_t, MGPU_LOAD_SOME, MGPU_STORE_SOME)
MGPU_MEMORY(u32, uint32_t, MGPU_LOAD_SOME, MGPU_STORE_SOME)
#if MGPU_WIDE
MGPU_MEMORY(f64, double, MGPU_LOAD_WIDE, MGPU_STORE_WIDE)
MGPU_MEMORY(i64, int64_t, MGPU_LOAD_WIDE, MGPU_STORE_WIDE)
#endif
#ifndef MGPU_X86
MGPU_MEMORY_COPIED(bytes_1, uint8_t)
MGPU_MEMORY_COPIED(signed_1, int8_t)
MGPU_MEMORY_COPIED(bytes_2, uint16_t)
MGPU_MEMORY_COPIED(signed_2, int16_t)
#else
/* the lower part of a register, and all of it as such a part */
MGPU_FUNCTION MGPU_V(two) MGPU_V(low)(const void *from, int64_t bytes)
{
    int64_t low = 0;
    memcpy(&low, from, (size_t)bytes);
    return (MGPU_V(two)){low, 0};
}
MGPU_FUNCTION T(bytes_1) MGPU_V(as_bytes_1)(MGPU_V(two) v) { return (T(bytes_1))v; }
MGPU_FUNCTION int64_t MGPU_V(low_of_bytes_1)(T(bytes_1) v) { return ((MGPU_V(two))v)[0]; }
#if MGPU_LANES == 16 /* never reached */
MGPU_FUNCTION T(bytes_2) MGPU_V(as_bytes_2)(MGPU_V(two) v) { return (void)v, (T(bytes_2)){0}; }
MGPU_FUNCTION int64_t MGPU_V(low_of_bytes_2)(T(bytes_2) v) { return v[0]; }
#else
MGPU_FUNCTION T(bytes_2) MGPU_V(as_bytes_2)(MGPU_V(two) v) { return (T(bytes_2))v; }
MGPU_FUNCTION int64_t MGPU_V(low_of_bytes_2)(T(bytes_2) v) { return ((MGPU_V(two))v)[0]; }
#endif
#define MGPU_NARROW(type, signed_type, each, LOAD_SOME, STORE_SOME)                                                        \
    MGPU_FUNCTION T(type) MGPU_V(load_##type)(const void *from, int lanes)                                                 \
    {                                                                                                                      \
        if (MGPU_WHOLE(lanes) && MGPU_LANES * each >= 16)                                                                  \
            return *(const T(type##_memory) *)from;                                                                        \
        if (MGPU_WHOLE(lanes))                                                                                             \
            return MGPU_V(as_##type)(MGPU_V(low)(from, MGPU_LANES * each < 8 ? MGPU_LANES * each : 8));                    \
        LOAD_SOME(type, each, from, lanes)                                                                                 \
    }                                                                                                                      \
    MGPU_FUNCTION T(type) MGPU_V(load_where_##type)(const void *from, T(mask) m)                                           \
    {                                                                                                                      \
        char some[sizeof(T(type))] = {0};                                                                                  \
        for (int k = 0; k < MGPU_LANES; k++)                                                                               \
            if (MGPU_V(lane)(m, k))                                                                                        \
                memcpy(some + k * each, (const char *)from + k * each, each);                                              \
        return *(const T(type##_memory) *)some;                                                                            \
    }                                                                                                                      \
    MGPU_FUNCTION T(type) MGPU_V(load_##signed_type)(const void *from, int lanes) { return MGPU_V(load_##type)(from, lanes); } \
    MGPU_FUNCTION T(type) MGPU_V(load_where_##signed_type)(const void *from, T(mask) m)                                    \
    {                                                                                                                      \
        return MGPU_V(load_where_##type)(from, m);                                                                         \
    }                                                                                                                      \
    MGPU_FUNCTION void MGPU_V(store_##type)(void *to, T(type) v, int lanes)                                                \
    {                                                                                                                      \
        if (MGPU_WHOLE(lanes) && MGPU_LANES * each >= 16) {                                                                \
            *(T(type##_memory) *)to = v;                                                                                   \
        } else if (MGPU_WHOLE(lanes)) {                                                                                    \
            const int64_t low = MGPU_V(low_of_##type)(v);                                                                  \
            memcpy(to, &low, MGPU_LANES * each < 8 ? MGPU_LANES * each : 8);                                               \
        } else {                                                                                                           \
            STORE_SOME(type, each, to, v, lanes);                                                                          \
        }                                                                                                                  \
    }                                                                                                                      \
    MGPU_FUNCTION void MGPU_V(store_where_##type)(void *to, T(type) v, T(mask) m)                                          \
    {                                                                                                                      \
        char some[sizeof v];                                                                                               \
        memcpy(some, &v, sizeof v);                                                                                        \
        for (int k = 0; k < MGPU_LANES; k++)                                                                               \
            if (MGPU_V(lane)(m, k))                                                                                        \
                memcpy((char *)to + k * each, some + k * each, each);                                                      \
    }
#ifdef MGPU_AVX512
#define MGPU_WHOLE(lanes) MGPU_KNOWN(lanes)
#define MGPU_LOAD_1(type, each, from, lanes) \
    return __builtin_ia32_loaddquqi128_mask((const char *)(from), (T(type)){0}, (uint16_t)MGPU_V(first)(lanes));
#define MGPU_STORE_1(type, each, to, v, lanes) __builtin_ia32_storedquqi128_mask((char *)(to), v, (uint16_t)MGPU_V(first)(lanes))
#if MGPU_WIDE
#define MGPU_LOAD_2(type, each, from, lanes) \
    return __builtin_ia32_loaddquhi128_mask((const short *)(from), (T(type)){0}, MGPU_V(first)(lanes));
#define MGPU_STORE_2(type, each, to, v, lanes) __builtin_ia32_storedquhi128_mask((short *)(to), v, MGPU_V(first)(lanes))
#else
#define MGPU_LOAD_2(type, each, from, lanes) \
    return __builtin_ia32_loaddquhi256_mask((const short *)(from), (T(type)){0}, MGPU_V(first)(lanes));
#define MGPU_STORE_2(type, each, to, v, lanes) __builtin_ia32_storedquhi256_mask((short *)(to), v, MGPU_V(first)(lanes))
#endif
#else
#define MGPU_WHOLE(lanes) __builtin_expect(lanes == MGPU_LANES, 1)
#define MGPU_LOAD_1(type, each, from, lanes)                                                                               \
    T(type) v = {0};                                                                                                       \
    memcpy(&v, from, (size_t)lanes * each);                                                                                \
    return v;
#define MGPU_STORE_1(type, each, to, v, lanes) memcpy(to, &v, (size_t)lanes * each)
#define MGPU_LOAD_2 MGPU_LOAD_1
#define MGPU_STORE_2 MGPU_STORE_1
#endif
MGPU_NARROW(bytes_1, signed_1, 1, MGPU_LOAD_1, MGPU_STORE_1)
MGPU_NARROW(bytes_2, signed_2, 2, MGPU_LOAD_2, MGPU_STORE_2)
#undef MGPU_NARROW
#undef MGPU_WHOLE
#endif
#undef MGPU_MEMORY
#undef MGPU_MEMORY_COPIED
#undef MGPU_LOAD_SOME
#undef MGPU_STORE_SOME
#undef MGPU_LOAD_WIDE
#undef MGPU_STORE_WIDE
#undef MGPU_LOAD_1
#undef MGPU_STORE_1
#undef MGPU_LOAD_2
#undef MGPU_STORE_2

/* ---- conversions */
#ifndef MGPU_X86
#define MGPU_WIDEN(from, what) \
    MGPU_FUNCTION T(i32) MGPU_V(widen_##from)(T(from) v) { return __builtin_convertvector(v, T(i32)); }
MGPU_FUNCTION T(bytes_1) MGPU_V(bytes_1_of)(T(i32) v) { return __builtin_convertvector(v, T(bytes_1)); }
MGPU_FUNCTION T(bytes_2) MGPU_V(bytes_2_of)(T(i32) v) { return __builtin_convertvector(v, T(bytes_2)); }
#else /* gcc 12 takes lanes apart */
#if MGPU_LANES == 16
#define MGPU_WIDEN_BY(what, v) __builtin_ia32_pmov##what##512_mask(v, (T(i32)){0}, (uint16_t)-1)
#elif MGPU_LANES == 8
#define MGPU_WIDEN_BY(what, v) __builtin_ia32_pmov##what##256(v)
#else
#define MGPU_WIDEN_BY(what, v) __builtin_ia32_pmov##what##128(v)
#endif
#define MGPU_WIDEN(from, what) \
    MGPU_FUNCTION T(i32) MGPU_V(widen_##from)(T(from) v) { return (T(i32))MGPU_WIDEN_BY(what, v); }
#if defined MGPU_AVX512 && MGPU_LANES == 16
MGPU_FUNCTION T(bytes_1) MGPU_V(bytes_1_of)(T(i32) v) { return __builtin_ia32_pmovdb512_mask(v, (T(bytes_1)){0}, (uint16_t)-1); }
MGPU_FUNCTION T(bytes_2) MGPU_V(bytes_2_of)(T(i32) v) { return __builtin_ia32_pmovdw512_mask(v, (T(bytes_2)){0}, (uint16_t)-1); }
#elif defined MGPU_AVX512
MGPU_FUNCTION T(bytes_1) MGPU_V(bytes_1_of)(T(i32) v) { return __builtin_ia32_pmovdb256_mask(v, (T(bytes_1)){0}, (uint8_t)-1); }
MGPU_FUNCTION T(bytes_2) MGPU_V(bytes_2_of)(T(i32) v) { return __builtin_ia32_pmovdw256_mask(v, (T(bytes_2)){0}, (uint8_t)-1); }
#else
MGPU_FUNCTION T(bytes_2) MGPU_V(bytes_2_of)(T(i32) v)
{
    const T(i32) low = v & 0xFFFF;
#if MGPU_WIDE
    return __builtin_ia32_packusdw128(low, low);
#else
    return __builtin_ia32_packusdw128(__builtin_ia32_vextractf128_si256(low, 0), __builtin_ia32_vextractf128_si256(low, 1));
#endif
}
MGPU_FUNCTION T(bytes_1) MGPU_V(bytes_1_of)(T(i32) v)
{
    const T(bytes_2) low = MGPU_V(bytes_2_of)(v & 0xFF);
    return __builtin_ia32_packuswb128(low, low);
}
#endif
#endif
MGPU_WIDEN(bytes_1, zxbd)
MGPU_WIDEN(signed_1, sxbd)
MGPU_WIDEN(bytes_2, zxwd)
MGPU_WIDEN(signed_2, sxwd)
#undef MGPU_WIDEN
#undef MGPU_WIDEN_BY
MGPU_FUNCTION T(f32) MGPU_V(f32_of_i32)(T(i32) v) { return __builtin_convertvector(v, T(f32)); }
MGPU_FUNCTION T(f32) MGPU_V(f32_of_u32)(T(u32) v) { return __builtin_convertvector(v, T(f32)); }
MGPU_FUNCTION T(i32) MGPU_V(i32_of_f32)(T(f32) v) { return __builtin_convertvector(v, T(i32)); } /* that fits */
MGPU_FUNCTION T(u32) MGPU_V(u32_of_i32)(T(i32) v) { return (T(u32))v; }
MGPU_FUNCTION T(i32) MGPU_V(i32_of_u32)(T(u32) v) { return (T(i32))v; }
MGPU_FUNCTION T(u32) MGPU_V(bits_of)(T(f32) v) { return (T(u32))v; }
MGPU_FUNCTION T(f32) MGPU_V(float_of)(T(u32) v) { return (T(f32))v; }
#if MGPU_WIDE
MGPU_FUNCTION T(i64) MGPU_V(bits_of_f64)(T(f64) v) { return (T(i64))v; }
MGPU_FUNCTION T(f64) MGPU_V(f64_of_bits)(T(i64) v) { return (T(f64))v; }
#ifdef MGPU_AVX512 /* gcc 12 takes halves apart */
MGPU_FUNCTION T(f64) MGPU_V(f64_of_f32)(T(f32) v) { return __builtin_ia32_cvtps2pd512_mask(v, (T(f64)){0}, (uint8_t)-1, 4); }
MGPU_FUNCTION T(f64) MGPU_V(f64_of_i32)(T(i32) v) { return __builtin_ia32_cvtdq2pd512_mask(v, (T(f64)){0}, (uint8_t)-1); }
#else
MGPU_FUNCTION T(f64) MGPU_V(f64_of_f32)(T(f32) v) { return __builtin_convertvector(v, T(f64)); }
MGPU_FUNCTION T(f64) MGPU_V(f64_of_i32)(T(i32) v) { return __builtin_convertvector(v, T(f64)); }
#endif
MGPU_FUNCTION T(f64) MGPU_V(f64_of_u32)(T(u32) v) { return __builtin_convertvector(v, T(f64)); }
MGPU_FUNCTION T(f64) MGPU_V(f64_of_i64)(T(i64) v) { return __builtin_convertvector(v, T(f64)); }
MGPU_FUNCTION T(f32) MGPU_V(f32_of_f64)(T(f64) v) { return __builtin_convertvector(v, T(f32)); }
MGPU_FUNCTION T(f32) MGPU_V(f32_of_i64)(T(i64) v) { return __builtin_convertvector(v, T(f32)); }
MGPU_FUNCTION T(i32) MGPU_V(i32_of_f64)(T(f64) v) { return __builtin_convertvector(v, T(i32)); } /* that fits */
MGPU_FUNCTION T(i64) MGPU_V(i64_of_i32)(T(i32) v) { return __builtin_convertvector(v, T(i64)); }
MGPU_FUNCTION T(i64) MGPU_V(i64_of_u32)(T(u32) v) { return __builtin_convertvector(v, T(i64)); }
MGPU_FUNCTION T(i32) MGPU_V(i32_of_i64)(T(i64) v) { return __builtin_convertvector(v, T(i32)); }
MGPU_FUNCTION T(u32) MGPU_V(u32_of_i64)(T(i64) v) { return (T(u32))__builtin_convertvector(v, T(i32)); }
#endif
/* what columns add up of f32 in f64: lanes to sums in memory */
#if MGPU_WIDE
MGPU_FUNCTION void MGPU_V(add_to_f64)(double *sum, T(f32) v, int lanes)
{
    MGPU_V(store_f64)(sum, MGPU_V(load_f64)(sum, lanes) + MGPU_V(f64_of_f32)(v), lanes);
}
#else
typedef float MGPU_V(half) __attribute__((vector_size(MGPU_LANES * 2)));
typedef double MGPU_V(wide) __attribute__((vector_size(MGPU_LANES * 4)));
typedef double MGPU_V(wide_memory) __attribute__((vector_size(MGPU_LANES * 4), aligned(1), may_alias));
typedef struct MGPU_V(halves) { MGPU_V(half) low, high; } __attribute__((may_alias)) MGPU_V(halves);
MGPU_FUNCTION void MGPU_V(add_to_f64)(double *sum, T(f32) v, int lanes)
{
    if (__builtin_expect(lanes == MGPU_LANES, 1)) {
        const MGPU_V(halves) both = *(const MGPU_V(halves) *)&v;
#ifdef MGPU_AVX512
        *(MGPU_V(wide_memory) *)sum += __builtin_ia32_cvtps2pd512_mask(both.low, (MGPU_V(wide)){0}, (uint8_t)-1, 4);
        *(MGPU_V(wide_memory) *)(sum + 8) += __builtin_ia32_cvtps2pd512_mask(both.high, (MGPU_V(wide)){0}, (uint8_t)-1, 4);
#else
        *(MGPU_V(wide_memory) *)sum += __builtin_convertvector(both.low, MGPU_V(wide));
        *(MGPU_V(wide_memory) *)(sum + MGPU_LANES / 2) += __builtin_convertvector(both.high, MGPU_V(wide));
#endif
        return;
    }
    for (int k = 0; k < lanes; k++)
        sum[k] += (double)v[k];
}
#endif

/* ---- functions of libm, lane by lane */
#if MGPU_WIDE
#define MGPU_BY_LANE(name)                                                                                                 \
    MGPU_FUNCTION T(f64) MGPU_V(name##_f64)(T(f64) a)                                                                      \
    {                                                                                                                      \
        T(f64) y;                                                                                                          \
        for (int k = 0; k < MGPU_LANES; k++)                                                                               \
            y[k] = mgpu_##name##_double(a[k]);                                                                             \
        return y;                                                                                                          \
    }
#define MGPU_BY_LANE_OF_2(name)                                                                                            \
    MGPU_FUNCTION T(f64) MGPU_V(name##_f64)(T(f64) a, T(f64) b)                                                            \
    {                                                                                                                      \
        T(f64) y;                                                                                                          \
        for (int k = 0; k < MGPU_LANES; k++)                                                                               \
            y[k] = mgpu_##name##_double(a[k], b[k]);                                                                       \
        return y;                                                                                                          \
    }
#endif

/* ---- elements that do not follow each other */
#if MGPU_LANES == 16
#define MGPU_EACH(of) of(0), of(1), of(2), of(3), of(4), of(5), of(6), of(7), of(8), of(9), of(10), of(11), of(12), of(13), of(14), of(15)
#elif MGPU_LANES == 8
#define MGPU_EACH(of) of(0), of(1), of(2), of(3), of(4), of(5), of(6), of(7)
#elif MGPU_LANES == 4
#define MGPU_EACH(of) of(0), of(1), of(2), of(3)
#else
#define MGPU_EACH(of) of(0), of(1)
#endif
#define MGPU_STRIDED(k) from[k * step]
#ifdef MGPU_AVX512
#if MGPU_WIDE
#define MGPU_GATHER_4(from, at, m) __builtin_ia32_gather3siv8sf((T(f32)){0}, from, at, m, 4)
#define MGPU_GATHER_8(from, at, m) __builtin_ia32_gathersiv8df((T(f64)){0}, from, at, m, 8)
#else
#define MGPU_GATHER_4(from, at, m) __builtin_ia32_gathersiv16sf((T(f32)){0}, from, at, m, 4)
#endif
#define MGPU_GATHER_BY(type, from, at, m, by) return (T(type))by(from, at, m);
#else
#define MGPU_GATHER_BY(type, from, at, m, by)                                                                              \
    T(type) v = {0};                                                                                                       \
    for (int k = 0; k < MGPU_LANES; k++)                                                                                   \
        if (MGPU_V(lane)(m, k))                                                                                            \
            v[k] = from[at[k]];                                                                                            \
    return v;
#endif
/* of elements of 4 or 8 bytes, and others */
#define MGPU_GATHER_REGISTER(type, element, by)                                                                            \
    MGPU_FUNCTION T(type) MGPU_V(gather_##type)(const element *from, T(i32) at, T(mask) m)                                 \
    {                                                                                                                      \
        MGPU_GATHER_BY(type, from, at, m, by)                                                                              \
    }                                                                                                                      \
    MGPU_FUNCTION T(type) MGPU_V(stride_##type)(const element *from, int64_t step, int lanes)                              \
    {                                                                                                                      \
        if (__builtin_expect(lanes == MGPU_LANES, 1))                                                                      \
            return (T(type)){MGPU_EACH(MGPU_STRIDED)};                                                                     \
        T(type) v = {0};                                                                                                   \
        for (int k = 0; k < lanes; k++)                                                                                    \
            v[k] = from[k * step];                                                                                         \
        return v;                                                                                                          \
    }
#define MGPU_GATHER(type, element, value)                                                                                  \
    MGPU_FUNCTION T(value) MGPU_V(stride_##type)(const element *from, int64_t step, int lanes)                             \
    {                                                                                                                      \
        element some[MGPU_LANES];                                                                                          \
        for (int k = 0; k < MGPU_LANES; k++)                                                                               \
            some[k] = k < lanes ? from[k * step] : (element)0;                                                             \
        return MGPU_V(load_##type)((const element *)some, MGPU_LANES);                                                     \
    }                                                                                                                      \
    MGPU_FUNCTION T(value) MGPU_V(gather_##type)(const element *from, T(i32) at, T(mask) m)                                \
    {                                                                                                                      \
        element some[MGPU_LANES];                                                                                          \
        for (int k = 0; k < MGPU_LANES; k++)                                                                               \
            some[k] = MGPU_V(lane)(m, k) ? from[at[k]] : (element)0;                                                       \
        return MGPU_V(load_##type)((const element *)some, MGPU_LANES);                                                     \
    }
#define MGPU_SCATTER(type, element, value)                                                                                 \
    MGPU_FUNCTION void MGPU_V(stride_store_##type)(element *to, int64_t step, T(value) v, int lanes)                       \
    {                                                                                                                      \
        element some[MGPU_LANES];                                                                                          \
        MGPU_V(store_##type)(some, v, MGPU_LANES);                                                                         \
        for (int k = 0; k < lanes; k++)                                                                                    \
            to[k * step] = some[k];                                                                                        \
    } \
    MGPU_FUNCTION void MGPU_V(scatter_##type)(element *to, T(i32) at, T(value) v, int lanes)                               \
    {                                                                                                                      \
        element some[MGPU_LANES];                                                                                          \
        MGPU_V(store_##type)(some, v, MGPU_LANES);                                                                         \
        for (int k = 0; k < lanes; k++)                                                                                    \
            to[at[k]] = some[k];                                                                                           \
    }

/* ---- lanes as one, in a fixed tree: the upper half with the lower one, and so on */
#if defined __has_builtin && !defined MGPU_SHUFFLED
#if __has_builtin(__builtin_shufflevector)
#define MGPU_SHUFFLED 1
#endif
#endif
#if defined MGPU_SHUFFLED && MGPU_LANES == 16
#define MGPU_HALF_1(v) __builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7)
#define MGPU_HALF_2(v) __builtin_shufflevector(v, v, 4, 5, 6, 7, 0, 1, 2, 3, 12, 13, 14, 15, 8, 9, 10, 11)
#define MGPU_HALF_3(v) __builtin_shufflevector(v, v, 2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13)
#define MGPU_HALF_4(v) __builtin_shufflevector(v, v, 1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14)
#elif defined MGPU_SHUFFLED && MGPU_LANES == 8
#define MGPU_HALF_2(v) __builtin_shufflevector(v, v, 4, 5, 6, 7, 0, 1, 2, 3)
#define MGPU_HALF_3(v) __builtin_shufflevector(v, v, 2, 3, 0, 1, 6, 7, 4, 5)
#define MGPU_HALF_4(v) __builtin_shufflevector(v, v, 1, 0, 3, 2, 5, 4, 7, 6)
#elif defined MGPU_SHUFFLED && MGPU_LANES == 4
#define MGPU_HALF_3(v) __builtin_shufflevector(v, v, 2, 3, 0, 1)
#define MGPU_HALF_4(v) __builtin_shufflevector(v, v, 1, 0, 3, 2)
#elif defined MGPU_SHUFFLED
#define MGPU_HALF_4(v) __builtin_shufflevector(v, v, 1, 0)
#endif
#ifdef MGPU_HALF_1
#define MGPU_FOLD_1(v, type, combined) combined(v, MGPU_HALF_1(v))
#else
#define MGPU_FOLD_1(v, type, combined) v
#endif
#ifdef MGPU_HALF_2
#define MGPU_FOLD_2(v, type, combined) combined(v, MGPU_HALF_2(v))
#else
#define MGPU_FOLD_2(v, type, combined) v
#endif
#ifdef MGPU_HALF_3
#define MGPU_FOLD_3(v, type, combined) combined(v, MGPU_HALF_3(v))
#else
#define MGPU_FOLD_3(v, type, combined) v
#endif
#ifdef MGPU_SHUFFLED
#define MGPU_TREE(name, type, element, combined, scalar)                                                                   \
    MGPU_FUNCTION element MGPU_V(name##_##type)(T(type) v)                                                                 \
    {                                                                                                                      \
        const T(type) v1 = MGPU_FOLD_1(v, type, combined), v2 = MGPU_FOLD_2(v1, type, combined);                           \
        const T(type) v3 = MGPU_FOLD_3(v2, type, combined), v4 = combined(v3, MGPU_HALF_4(v3));                            \
        return v4[0];                                                                                                      \
    }
#else
#define MGPU_TREE(name, type, element, combined, scalar)                                                                   \
    MGPU_FUNCTION element MGPU_V(name##_##type)(T(type) v)                                                                 \
    {                                                                                                                      \
        element x[MGPU_LANES];                                                                                             \
        memcpy(x, &v, sizeof x);                                                                                           \
        for (int half = MGPU_LANES / 2; half; half /= 2)                                                                   \
            for (int k = 0; k < half; k++)                                                                                 \
                x[k] = scalar(x[k], x[k + half]);                                                                          \
        return x[0];                                                                                                       \
    }
#endif
