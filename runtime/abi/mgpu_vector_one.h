/* mgpu_vector_one.h: vectors of one lane (mgpu_vector.h), for C compilers without vectors, or without optimization. */
#define MGPU_KNOWN(lanes) ((void)lanes, true)
typedef bool T(mask);
#define MGPU_ONE(type, element)                                                                                                  \
    typedef element T(type);                                                                                                     \
    static inline T(type) V(all_##type)(element a) { return a; }                                                                 \
    static inline T(mask) V(eq_##type)(T(type) a, T(type) b) { return a == b; }                                                  \
    static inline T(mask) V(ne_##type)(T(type) a, T(type) b) { return a != b; }                                                  \
    static inline T(mask) V(lt_##type)(T(type) a, T(type) b) { return a < b; }                                                   \
    static inline T(mask) V(le_##type)(T(type) a, T(type) b) { return a <= b; }                                                  \
    static inline T(type) V(select_##type)(T(mask) m, T(type) a, T(type) b) { return m ? a : b; }                                \
    static inline T(type) V(load_##type)(const element *from, int lanes) { return (void)lanes, *from; }                          \
    static inline T(type) V(load_where_##type)(const element *from, T(mask) m) { return m ? *from : (element)0; }                \
    static inline void V(store_##type)(element * to, T(type) v, int lanes) { (void)lanes, *to = v; }                             \
    static inline void V(store_where_##type)(element * to, T(type) v, T(mask) m)                                                 \
    {                                                                                                                            \
        if (m)                                                                                                                   \
            *to = v;                                                                                                             \
    }
MGPU_ONE(f32, float)
MGPU_ONE(i32, int32_t)
MGPU_ONE(u32, uint32_t)
MGPU_ONE(bytes_1, uint8_t)
MGPU_ONE(bytes_2, uint16_t)
#if MGPU_WIDE
MGPU_ONE(f64, double)
MGPU_ONE(i64, int64_t)
#endif
#undef MGPU_ONE
static inline T(i32) V(count_i32)(int64_t from, int64_t step) { return (void)step, (int32_t)from; }
static inline T(mask) V(all_mask)(bool a) { return a; }
static inline T(mask) V(first)(int lanes) { return lanes > 0; }
static inline T(mask) V(not )(T(mask) a) { return !a; }
static inline T(mask) V (and)(T(mask) a, T(mask) b) { return a & b; }
static inline T(mask) V(or)(T(mask) a, T(mask) b) { return a | b; }
static inline T(mask) V(eq_mask)(T(mask) a, T(mask) b) { return a == b; }
static inline bool V(lane)(T(mask) a, int lane) { return (void)lane, a; }
static inline void V(add_to_f64)(double *sum, T(f32) v, int lanes) { (void)lanes, *sum += v; }
static inline T(mask) V(select_mask)(T(mask) m, T(mask) a, T(mask) b) { return m ? a : b; }
static inline T(f32) V(fma_f32)(T(f32) a, T(f32) b, T(f32) c) { return mgpu_fmaf(a, b, c); }
static inline T(f32) V(sqrt_f32)(T(f32) a) { return sqrtf(a); }
#if MGPU_WIDE
static inline T(f64) V(fma_f64)(T(f64) a, T(f64) b, T(f64) c) { return mgpu_fma_double(a, b, c); }
static inline T(f64) V(sqrt_f64)(T(f64) a) { return sqrt(a); }
#endif
#define MGPU_CONVERT(to, from)                                                                                                   \
    static inline T(to) V(to##_of_##from)(T(from) v) { return (T(to))v; }
MGPU_CONVERT(f32, i32)
MGPU_CONVERT(f32, u32)
MGPU_CONVERT(i32, f32)
MGPU_CONVERT(u32, i32)
MGPU_CONVERT(i32, u32)
#if MGPU_WIDE
MGPU_CONVERT(f64, f32)
MGPU_CONVERT(f64, i32)
MGPU_CONVERT(f64, u32)
MGPU_CONVERT(f64, i64)
MGPU_CONVERT(f32, f64)
MGPU_CONVERT(f32, i64)
MGPU_CONVERT(i32, f64)
MGPU_CONVERT(i64, i32)
MGPU_CONVERT(i64, u32)
MGPU_CONVERT(i32, i64)
MGPU_CONVERT(u32, i64)
#endif
#undef MGPU_CONVERT
static inline T(u32) V(bits_of)(T(f32) v) { return mgpu_bits_of(v); }
static inline T(f32) V(float_of)(T(u32) v) { return mgpu_float_of(v); }
#if MGPU_WIDE
static inline T(i64) V(bits_of_f64)(T(f64) v) { return (T(i64))mgpu_bits_of_double(v); }
static inline T(f64) V(f64_of_bits)(T(i64) v) { return mgpu_double_of((uint64_t)v); }
#endif
static inline T(i32) V(widen_bytes_1)(T(bytes_1) v) { return v; }
static inline T(i32) V(widen_signed_1)(T(bytes_1) v) { return (int8_t)v; }
static inline T(i32) V(widen_bytes_2)(T(bytes_2) v) { return v; }
static inline T(i32) V(widen_signed_2)(T(bytes_2) v) { return (int16_t)v; }
static inline T(bytes_1) V(bytes_1_of)(T(i32) v) { return (T(bytes_1))v; }
static inline T(bytes_2) V(bytes_2_of)(T(i32) v) { return (T(bytes_2))v; }
#define MGPU_BY_LANE(name)                                                                                                       \
    static inline T(f64) V(name##_f64)(T(f64) a) { return mgpu_##name##_double(a); }
#define MGPU_BY_LANE_OF_2(name)                                                                                                  \
    static inline T(f64) V(name##_f64)(T(f64) a, T(f64) b) { return mgpu_##name##_double(a, b); }
#define MGPU_GATHER(type, element, value)                                                                                        \
    static inline T(value) V(stride_##type)(const element *from, int64_t step, int lanes)                                        \
    {                                                                                                                            \
        return (void)step, V(load_##type)(from, lanes);                                                                          \
    }                                                                                                                            \
    static inline T(value) V(gather_##type)(const element *from, T(i32) at, T(mask) m)                                           \
    {                                                                                                                            \
        return V(load_where_##type)(from + (m ? at : 0), m);                                                                     \
    }
#define MGPU_GATHER_REGISTER(type, element, by) MGPU_GATHER(type, element, type)
#define MGPU_SCATTER(type, element, value)                                                                                       \
    static inline void V(stride_store_##type)(element * to, int64_t step, T(value) v, int lanes)                                 \
    {                                                                                                                            \
        (void)step, V(store_##type)(to, v, lanes);                                                                               \
    }                                                                                                                            \
    static inline void V(scatter_##type)(element * to, T(i32) at, T(value) v, int lanes) { V(store_##type)(to + at, v, lanes); }
#define MGPU_TREE(name, type, element, combined, scalar)                                                                         \
    static inline element V(name##_##type)(T(type) v) { return v; }
