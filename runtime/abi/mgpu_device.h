/* mgpu_device.h: what emitted CUDA C includes, and nothing else: types, arithmetic, random numbers, the threads of a grid and
 * what they do together. What contractions, attention and rows need besides is in mgpu_device_*.h.
 *
 * It is compiled by NVRTC, which has no system headers, and with MGPU_VGPU by a C++ compiler, for the virtual GPU: mgpu_vgpu.h
 * defines what CUDA C++ has built in. All inline PTX is in the device headers, each with a body for MGPU_VGPU.
 *
 * Sums and maxima over threads have one order: within a warp from the upper half to the lower (shuffles down), then warps, or
 * rows of a block, in shared memory. All threads that take part get the result. */
#ifndef MGPU_DEVICE_H
#define MGPU_DEVICE_H

#ifdef MGPU_VGPU
#include "mgpu_vgpu.h"
#else
typedef signed char int8_t;
typedef unsigned char uint8_t;
typedef short int16_t;
typedef unsigned short uint16_t;
typedef int int32_t;
typedef unsigned int uint32_t;
typedef long int64_t;
typedef unsigned long uint64_t;
typedef unsigned long uintptr_t;
static_assert(sizeof(int64_t) == 8, "long has 64 bits");
#define INT8_MIN (-128)
#define INT8_MAX 127
#define UINT8_MAX 255
#define INT16_MIN (-32768)
#define INT16_MAX 32767
#define UINT16_MAX 65535
#define INT32_MIN (-2147483647 - 1)
#define INT32_MAX 2147483647
#define UINT32_MAX 4294967295u
#define INT64_C(v) v##L
#define INT64_MIN (-INT64_C(9223372036854775807) - 1)
#define INT64_MAX INT64_C(9223372036854775807)
#define INFINITY __builtin_bit_cast(float, 0x7f800000)
#define NAN __builtin_bit_cast(float, 0x7fffffff)
#define MGPU_ENTRY(kernel) /* of the virtual GPU */
#endif

#define MGPU_FUNCTION static __device__ __forceinline__

/* ---- Programmatic dependent launch, from compute capability 9.0 on: a kernel may begin before the one before it in the stream
 * has ended.
 *
 * The first thing that each thread of such a kernel does is to wait until that one has ended and its memory can be seen. So when
 * a kernel has ended, all before it have, too. Then it says that the next one may begin, so no more than two are there at a time.
 *
 * Its parameters are not restrict: what compilers know to be read alone they load by ld.global.nc, which is outside of the memory
 * model that the wait is in (PTX ISA, Memory Consistency Model, Scope and Applicability), and may do so before it (NVIDIA/cccl,
 * pull request 11463). */
#if !defined(MGPU_VGPU) && __CUDA_ARCH__ >= 900
#define MGPU_RESTRICT
MGPU_FUNCTION void mgpu_wait_for_grids(void)
{
    asm volatile("griddepcontrol.wait;" ::: "memory");
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}
#else
#define MGPU_RESTRICT __restrict__
MGPU_FUNCTION void mgpu_wait_for_grids(void) {}
#endif

#ifndef MGPU_VGPU /* by instructions what mgpu_half.h and mgpu_math.h do by arithmetic; the bits of NaNs may differ */
#define MGPU_HAS_HALF
#define MGPU_HAS_EXP
#define MGPU_HAS_LARGER
typedef uint16_t mgpu_f16;

MGPU_FUNCTION float mgpu_from_f16(mgpu_f16 v)
{
    float wide;
    asm("cvt.f32.f16 %0, %1;" : "=f"(wide) : "h"(v));
    return wide;
}

MGPU_FUNCTION mgpu_f16 mgpu_to_f16(float v)
{
    mgpu_f16 half;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(half) : "f"(v));
    return half;
}

MGPU_FUNCTION uint16_t mgpu_to_bf16(float v)
{
    uint16_t half;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(half) : "f"(v));
    return half;
}

MGPU_FUNCTION float mgpu_expf(float v) { return expf(v); } /* within 2 ulp, too */

MGPU_FUNCTION float mgpu_larger_f32(float best, float b)
{
    float larger;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(larger) : "f"(best), "f"(b));
    return larger;
}
#endif

#include "mgpu_math.h"
#include "mgpu_rand.h"
#include "mgpu_step.h"

/* 2^v; e^v, v <= 0: as exact as the sum of a row needs, within |v| 2^-23 of itself; 0 from 2^-126 on. By the exponential that the
 * GPU has */
MGPU_FUNCTION float mgpu_power_of_2(float v)
{
#ifdef MGPU_VGPU
    return exp2f(v);
#else
    float power;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(v));
    return power;
#endif
}
MGPU_FUNCTION double mgpu_power_of_2(double v) { return exp2(v); }
MGPU_FUNCTION float mgpu_exp_below(float v) { return mgpu_power_of_2(v * 1.44269504f); }
MGPU_FUNCTION double mgpu_exp_below(double v) { return exp(v); }

/* ---- two numbers of 16 bits in a word, the first in the low half */

#ifdef MGPU_VGPU
#define MGPU_PAIR(name, instruction)                                                                                      \
    MGPU_FUNCTION uint32_t mgpu_pair_##name(float low, float high)                                                        \
    {                                                                                                                     \
        return (uint32_t)mgpu_to_##name(low) | (uint32_t)mgpu_to_##name(high) << 16;                                      \
    }
#else
#define MGPU_PAIR(name, instruction)                                                                                      \
    MGPU_FUNCTION uint32_t mgpu_pair_##name(float low, float high)                                                        \
    {                                                                                                                     \
        uint32_t pair;                                                                                                    \
        asm(instruction " %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));                                               \
        return pair;                                                                                                      \
    }
#endif
MGPU_PAIR(bf16, "cvt.rn.bf16x2.f32")
MGPU_PAIR(f16, "cvt.rn.f16x2.f32")
#undef MGPU_PAIR
MGPU_FUNCTION float mgpu_first_bf16(uint32_t pair) { return mgpu_float_of(pair << 16); }
MGPU_FUNCTION float mgpu_second_bf16(uint32_t pair) { return mgpu_float_of(pair & 0xFFFF0000u); }
MGPU_FUNCTION float mgpu_first_f16(uint32_t pair) { return mgpu_from_f16((mgpu_f16)pair); }
MGPU_FUNCTION float mgpu_second_f16(uint32_t pair) { return mgpu_from_f16((mgpu_f16)(pair >> 16)); }

/* ---- vectors: elements that one thread loads or stores at once; their address is a multiple of their size */

template <class T, int COUNT> struct alignas(sizeof(T) * COUNT) mgpu_vector { T at[COUNT]; };

/* mgpu_load_f32x4(from), mgpu_store_f32x4(to, values), mgpu_add_f32x4(to, values) of what is in memory as it is computed with, or
 * in pairs */
#define MGPU_VECTOR(name, type, count)                                                                                    \
    MGPU_FUNCTION mgpu_vector<type, count> mgpu_load_##name##x##count(const type *stored)                                 \
    {                                                                                                                     \
        return *(const mgpu_vector<type, count> *)stored;                                                                 \
    }                                                                                                                     \
    MGPU_FUNCTION void mgpu_store_##name##x##count(type *stored, const mgpu_vector<type, count> &values)                  \
    {                                                                                                                     \
        *(mgpu_vector<type, count> *)stored = values;                                                                     \
    }                                                                                                                     \
    MGPU_VECTOR_MORE(name, type, type, count, , )
#define MGPU_HALF_VECTOR(name, count)                                                                                     \
    MGPU_FUNCTION mgpu_vector<float, count> mgpu_load_##name##x##count(const uint16_t *stored)                            \
    {                                                                                                                     \
        const mgpu_vector<uint32_t, count / 2> all = *(const mgpu_vector<uint32_t, count / 2> *)stored;                   \
        mgpu_vector<float, count> values;                                                                                 \
        for (int k = 0; k < count; k += 2) {                                                                              \
            values.at[k] = mgpu_first_##name(all.at[k / 2]);                                                              \
            values.at[k + 1] = mgpu_second_##name(all.at[k / 2]);                                                         \
        }                                                                                                                 \
        return values;                                                                                                    \
    }                                                                                                                     \
    MGPU_FUNCTION void mgpu_store_##name##x##count(uint16_t *stored, const mgpu_vector<float, count> &values)             \
    {                                                                                                                     \
        mgpu_vector<uint32_t, count / 2> all;                                                                             \
        for (int k = 0; k < count; k += 2)                                                                                \
            all.at[k / 2] = mgpu_pair_##name(values.at[k], values.at[k + 1]);                                             \
        *(mgpu_vector<uint32_t, count / 2> *)stored = all;                                                                \
    }                                                                                                                     \
    MGPU_VECTOR_MORE(name, uint16_t, float, count, mgpu_from_##name, mgpu_to_##name)
/* with `left`: only so many of them are there; of the others zeros are loaded, and nothing is stored */
#define MGPU_VECTOR_MORE(name, type, value, count, from, to)                                                               \
    MGPU_FUNCTION mgpu_vector<value, count> mgpu_load_##name##x##count(const type *stored, int64_t left)                  \
    {                                                                                                                     \
        if (left >= count)                                                                                                \
            return mgpu_load_##name##x##count(stored);                                                                    \
        mgpu_vector<value, count> values;                                                                                 \
        for (int k = 0; k < count; k++)                                                                                   \
            values.at[k] = k < left ? from(stored[k]) : (value)0;                                                         \
        return values;                                                                                                    \
    }                                                                                                                     \
    MGPU_FUNCTION void mgpu_store_##name##x##count(type *stored, const mgpu_vector<value, count> &values, int64_t left)   \
    {                                                                                                                     \
        if (left >= count) {                                                                                              \
            mgpu_store_##name##x##count(stored, values);                                                                  \
            return;                                                                                                       \
        }                                                                                                                 \
        for (int k = 0; k < count && k < left; k++)                                                                       \
            stored[k] = to(values.at[k]);                                                                                 \
    }                                                                                                                     \
    MGPU_FUNCTION void mgpu_add_##name##x##count(type *stored, const mgpu_vector<value, count> &values)                   \
    {                                                                                                                     \
        mgpu_vector<value, count> sums = mgpu_load_##name##x##count(stored);                                              \
        for (int k = 0; k < count; k++)                                                                                   \
            sums.at[k] = (value)(sums.at[k] + values.at[k]);                                                              \
        mgpu_store_##name##x##count(stored, sums);                                                                        \
    }
#define MGPU_VECTORS(name, type)                                                                                          \
    typedef mgpu_vector<type, 2> mgpu_##name##x2;                                                                         \
    typedef mgpu_vector<type, 4> mgpu_##name##x4;                                                                         \
    typedef mgpu_vector<type, 8> mgpu_##name##x8;                                                                         \
    MGPU_VECTOR(name, type, 2)                                                                                            \
    MGPU_VECTOR(name, type, 4)                                                                                            \
    MGPU_VECTOR(name, type, 8)
MGPU_VECTORS(u8, uint8_t)
MGPU_VECTORS(i8, int8_t)
MGPU_VECTORS(u16, uint16_t)
MGPU_VECTORS(i16, int16_t)
MGPU_VECTORS(u32, uint32_t)
MGPU_VECTORS(i32, int32_t)
MGPU_VECTORS(i64, int64_t)
MGPU_VECTORS(f32, float)
MGPU_VECTORS(f64, double)
MGPU_HALF_VECTOR(bf16, 2)
MGPU_HALF_VECTOR(bf16, 4)
MGPU_HALF_VECTOR(bf16, 8)
MGPU_HALF_VECTOR(f16, 2)
MGPU_HALF_VECTOR(f16, 4)
MGPU_HALF_VECTOR(f16, 8)
#undef MGPU_VECTORS
#undef MGPU_HALF_VECTOR
#undef MGPU_VECTOR
#undef MGPU_VECTOR_MORE

/* hashes of the paths of random numbers, which a kernel's launch hands over */
template <int COUNT> struct mgpu_path {
    uint64_t at[COUNT];
    __device__ __forceinline__ uint64_t operator[](int i) const { return at[i]; }
};

/* A whole number from 2 on by which is divided: Granlund and Montgomery, Division by Invariant Integers using Multiplication,
 * PLDI 1994, figure 4.1. Right for all numbers of 32 bits. */
struct mgpu_divisor {
    uint32_t number, inverse, shift; /* inverse: 2^32 (2^(shift + 1) - number) / number + 1 */
};
MGPU_FUNCTION uint32_t operator/(uint32_t a, mgpu_divisor by)
{
    const uint32_t high = __umulhi(a, by.inverse);
    return (high + ((a - high) >> 1)) >> by.shift;
}
MGPU_FUNCTION uint32_t operator%(uint32_t a, mgpu_divisor by) { return a - a / by * by.number; }
MGPU_FUNCTION int operator/(int a, mgpu_divisor by)
{
    const int quotient = (int)((a < 0 ? 0 - (uint32_t)a : (uint32_t)a) / by);
    return a < 0 ? -quotient : quotient;
}
MGPU_FUNCTION int operator%(int a, mgpu_divisor by) { return a - a / by * (int)by.number; }
MGPU_FUNCTION int64_t operator/(int64_t a, mgpu_divisor by) { return a / (int64_t)by.number; }
MGPU_FUNCTION int64_t operator%(int64_t a, mgpu_divisor by) { return a % (int64_t)by.number; }

/* numbers in which kernels of one function differ, as words, which a kernel's launch hands over */
template <int COUNT> struct mgpu_parameters {
    int at[COUNT];
    __device__ __forceinline__ mgpu_divisor by(int i) const { return {(uint32_t)at[i], (uint32_t)at[i + 1], (uint32_t)at[i + 2]}; }
    __device__ __forceinline__ float f32(int i) const { return __uint_as_float((uint32_t)at[i]); }
    __device__ __forceinline__ double f64(int i) const { return __hiloint2double(at[i + 1], at[i]); }
};

/* random numbers of neighbouring elements, from a multiple of four on */
#define MGPU_RANDOM_NUMBERS(name, type, unit, count)                                                                               \
    MGPU_FUNCTION mgpu_##name##x##count mgpu_rand_##name##x##count(uint64_t key, uint64_t element, uint64_t sample, uint64_t step) \
    {                                                                                                                     \
        mgpu_##name##x##count numbers;                                                                                      \
        for (int k = 0; k < count; k += 4) {                                                                              \
            uint32_t words[4];                                                                                            \
            mgpu_random_words(key, (uint32_t)((element + k) >> 2), sample, step, words);                                  \
            for (int w = 0; w < 4; w++)                                                                                   \
                numbers.at[k + w] = (type)(int32_t)(words[w] >> 8) * unit;                                                  \
        }                                                                                                                 \
        return numbers;                                                                                                     \
    }
MGPU_RANDOM_NUMBERS(f32, float, 0x1p-24f, 4)
MGPU_RANDOM_NUMBERS(f32, float, 0x1p-24f, 8)
MGPU_RANDOM_NUMBERS(f64, double, 0x1p-24, 4)
MGPU_RANDOM_NUMBERS(f64, double, 0x1p-24, 8)
#undef MGPU_RANDOM_NUMBERS

/* ---- the threads of a grid. A group is so many threads of a block: 1 to 32, powers of two, are lanes of one warp; MGPU_THREADS
 * are the block. Loops go from one's own number in steps of how many there are, so any grid is right. */

enum { MGPU_THREADS = 256 /* of a block of all kernels that are made of nests */ };

/* the number of the own block if the first of the grid is another one */
MGPU_FUNCTION uint32_t mgpu_grid_block(uint32_t first)
{
    return first == 0 ? blockIdx.x : (blockIdx.x + gridDim.x - first % gridDim.x) % gridDim.x;
}
MGPU_FUNCTION uint32_t mgpu_grid_thread(uint32_t first = 0) { return mgpu_grid_block(first) * MGPU_THREADS + threadIdx.x; }
MGPU_FUNCTION uint32_t mgpu_grid_threads(void) { return gridDim.x * MGPU_THREADS; }
MGPU_FUNCTION uint32_t mgpu_grid_group(int lanes, uint32_t first = 0)
{
    return lanes > 32 ? mgpu_grid_block(first) : mgpu_grid_thread(first) / (uint32_t)lanes;
}
MGPU_FUNCTION uint32_t mgpu_grid_groups(int lanes) { return lanes > 32 ? gridDim.x : mgpu_grid_threads() / (uint32_t)lanes; }
/* of one block that works alone */
MGPU_FUNCTION uint32_t mgpu_block_thread(void) { return threadIdx.x; }
MGPU_FUNCTION uint32_t mgpu_block_threads(void) { return MGPU_THREADS; }
MGPU_FUNCTION uint32_t mgpu_block_group(int lanes) { return lanes > 32 ? 0 : threadIdx.x / (uint32_t)lanes; }
MGPU_FUNCTION uint32_t mgpu_block_groups(int lanes) { return lanes > 32 ? 1 : MGPU_THREADS / (uint32_t)lanes; }
MGPU_FUNCTION uint32_t mgpu_lane(int lanes) { return threadIdx.x % (uint32_t)lanes; }

/* What a launch of several calls is given: a row for each. The first `first[call]` blocks are of calls before it; those of no
 * call are after all blocks. runtime/cuda/table.h fills it in. */
template <int CALLS, int ARGUMENTS, int WORDS> struct mgpu_calls {
    int64_t n[CALLS];
    void *argument[CALLS][ARGUMENTS];
    uint32_t first[CALLS];
    mgpu_parameters<WORDS> given[CALLS];
};
/* which of them a block works for, and which of its blocks it is */
struct mgpu_own_call {
    int call;
    uint32_t block, blocks;
    __device__ __forceinline__ uint32_t thread(void) const { return block * MGPU_THREADS + threadIdx.x; }
    __device__ __forceinline__ uint32_t threads(void) const { return blocks * MGPU_THREADS; }
};
template <int CALLS, int ARGUMENTS, int WORDS> MGPU_FUNCTION mgpu_own_call mgpu_find_call(const mgpu_calls<CALLS, ARGUMENTS, WORDS> &calls)
{
    int call = 0, half = 1;
    while (half < CALLS)
        half *= 2;
#pragma unroll
    for (half /= 2; half > 0; half /= 2)
        call += call + half < CALLS && calls.first[call + half] <= blockIdx.x ? half : 0;
    const uint32_t first = calls.first[call], next = call + 1 < CALLS ? calls.first[call + 1] : gridDim.x;
    return {call, blockIdx.x - first, (next < gridDim.x ? next : gridDim.x) - first};
}

/* partial results of `points` points: one for each `slice` of them, or for two, three ... slices, so that there are `most` at
 * most and all have about as many */
MGPU_FUNCTION int mgpu_slices(int64_t points, int slice, int most)
{
    const int64_t all = (int64_t)slice * most, times = points > all ? (points + all - 1) / all : 1;
    const int64_t slices = (points + times * slice - 1) / (times * slice);
    return slices < 1 ? 1 : (int)slices;
}

/* ---- what threads do together */

struct mgpu_adding {
    template <class T> MGPU_FUNCTION T of(T a, T b) { return (T)(a + b); }
};
struct mgpu_comparing {
    template <class T> MGPU_FUNCTION T of(T a, T b) { return (T)mgpu_larger(a, b); }
};

/* the lanes of the caller's group as bits */
MGPU_FUNCTION uint32_t mgpu_group_bits(int lanes)
{
    return lanes == 32 ? 0xffffffffu : ((1u << lanes) - 1) << (threadIdx.x % 32 / (uint32_t)lanes * (uint32_t)lanes);
}

template <class T> struct mgpu_wide { typedef decltype(+T()) type; }; /* shuffles are of 32 or 64 bits */

template <class T> MGPU_FUNCTION T mgpu_from_above(T v, int by, int lanes)
{
    return (T)__shfl_down_sync(mgpu_group_bits(lanes), (typename mgpu_wide<T>::type)v, (uint32_t)by, lanes);
}

template <class T> MGPU_FUNCTION T mgpu_from_first(T v, int lanes)
{
    return (T)__shfl_sync(mgpu_group_bits(lanes), (typename mgpu_wide<T>::type)v, 0, lanes);
}

/* lanes <= 32: the values of the group's threads */
template <class Join, class T> MGPU_FUNCTION T mgpu_join_lanes(T v, int lanes)
{
#ifdef MGPU_VGPU /* what the shuffles do, in one operation of the warp */
    T all[32];
    mgpu_vgpu_gather(mgpu_group_bits(lanes), v, all);
    T *own = all + threadIdx.x % 32 / (uint32_t)lanes * (uint32_t)lanes;
    for (int by = lanes / 2; by > 0; by /= 2)
        for (int k = 0; k < by; k++)
            own[k] = Join::of(own[k], own[k + by]);
    return own[0];
#else
    for (int by = lanes / 2; by > 0; by /= 2)
        v = Join::of(v, mgpu_from_above(v, by, lanes));
    return mgpu_from_first(v, lanes);
#endif
}

/* of the threads of a block */
template <class Join, class T> MGPU_FUNCTION T mgpu_join_block(T v)
{
    __shared__ T room[MGPU_THREADS / 32];
    v = mgpu_join_lanes<Join>(v, 32);
    if (threadIdx.x % 32 == 0)
        room[threadIdx.x / 32] = v;
    __syncthreads();
    T all = room[0];
    for (int k = 1; k < MGPU_THREADS / 32; k++)
        all = Join::of(all, room[k]);
    __syncthreads();
    return all;
}

template <class Join, class T> MGPU_FUNCTION T mgpu_join_group(T v, int lanes)
{
    return lanes > 32 ? mgpu_join_block<Join>(v) : mgpu_join_lanes<Join>(v, lanes);
}

/* of the threads of a block that have one number mod `across`, a power of two: each its `COUNT` values */
template <class Join, class T, int COUNT> MGPU_FUNCTION void mgpu_join_columns(T (&v)[COUNT], int across)
{
    __shared__ T room[COUNT][MGPU_THREADS];
    for (int k = 0; k < COUNT; k++)
        room[k][threadIdx.x] = v[k];
    __syncthreads();
#pragma unroll 1 /* once for many points: code would be all that is gained */
    for (uint32_t half = MGPU_THREADS / 2; half >= (uint32_t)across; half /= 2) {
        if (threadIdx.x < half)
            for (int k = 0; k < COUNT; k++)
                room[k][threadIdx.x] = Join::of(room[k][threadIdx.x], room[k][threadIdx.x + half]);
        __syncthreads();
    }
    for (int k = 0; k < COUNT; k++)
        v[k] = room[k][threadIdx.x % (uint32_t)across];
    __syncthreads();
}

template <class Join, class T> MGPU_FUNCTION void mgpu_join_columns(T &v, int across)
{
    T all[1] = {v};
    mgpu_join_columns<Join>(all, across);
    v = all[0];
}

/* of partial results [slices, points], those of one point; across: points that the block works on side by side */
template <class Join, class T>
MGPU_FUNCTION T mgpu_join_slices(const T *partial, int slices, int64_t points, int64_t point, T nothing, int across)
{
    const int step = MGPU_THREADS / across, end = point < points ? slices : 0;
    T v = nothing, some[8];
    int k = (int)threadIdx.x / across;
    for (; k + 7 * step < end; k += 8 * step) { /* many loads at a time */
#pragma unroll
        for (int i = 0; i < 8; i++)
            some[i] = partial[(k + i * step) * points + point];
#pragma unroll
        for (int i = 0; i < 8; i++)
            v = Join::of(v, some[i]);
    }
    for (; k < end; k += step)
        v = Join::of(v, partial[k * points + point]);
    mgpu_join_columns<Join>(v, across);
    return v;
}

template <class T> MGPU_FUNCTION T mgpu_group_add(T v, int lanes) { return mgpu_join_group<mgpu_adding>(v, lanes); }
template <class T> MGPU_FUNCTION T mgpu_group_larger(T v, int lanes) { return mgpu_join_group<mgpu_comparing>(v, lanes); }
template <class T> MGPU_FUNCTION void mgpu_columns_add(T &v, int across) { mgpu_join_columns<mgpu_adding>(v, across); }
template <class T> MGPU_FUNCTION void mgpu_columns_larger(T &v, int across) { mgpu_join_columns<mgpu_comparing>(v, across); }
template <class T> MGPU_FUNCTION T mgpu_slices_add(const T *partial, int slices, int64_t points, int64_t point, int across)
{
    return mgpu_join_slices<mgpu_adding>(partial, slices, points, point, (T)0, across);
}
template <class T> MGPU_FUNCTION T mgpu_slices_larger(const T *partial, int slices, int64_t points, int64_t point, int across)
{
    return mgpu_join_slices<mgpu_comparing>(partial, slices, points, point, partial[point < points ? point : 0], across);
}

/* Groups of `lanes` threads took rows of `columns` elements, a vector each in TURNS steps: adds what they have of each element to
 * the sums of this block, or, `begins`, makes them of it. One thread has an element every time. */
template <class T, int TURNS, int COUNT>
MGPU_FUNCTION void mgpu_add_across(T (&rows)[TURNS][COUNT], double *sums, int columns, int lanes, bool begins)
{
    const int lane = (int)threadIdx.x % lanes, group = (int)threadIdx.x / lanes, groups = MGPU_THREADS / lanes;
#pragma unroll
    for (int turn = 0; turn < TURNS; turn++) {
        mgpu_columns_add(rows[turn], lanes);
        const int first = (turn * lanes + lane) * COUNT;
        if (turn % groups != group || first >= columns)
            continue;
        for (int k = 0; k < COUNT; k++)
            sums[first + k] = begins ? (double)rows[turn][k] : sums[first + k] + (double)rows[turn][k];
    }
}

/* maximum and sum of e^(v - maximum) of a row in one pass, after Milakov and Gimelshein, "Online normalizer calculation for
 * softmax" (2018): some more values; then those of all threads of the group */
template <class T, class S, int COUNT> MGPU_FUNCTION void mgpu_online(T &most, S &sum, const T (&value)[COUNT])
{
    T top = most, part = 0;
    for (int k = 0; k < COUNT; k++)
        top = mgpu_larger(top, value[k]);
    const T base = top == -(T)INFINITY ? (T)0 : top; /* nothing so far */
    for (int k = 0; k < COUNT; k++)
        part += mgpu_exp_below(value[k] - base);
    sum = sum * mgpu_exp_below(most - base) + part;
    most = top;
}
template <class T, class S> MGPU_FUNCTION void mgpu_group_online(T &most, S &sum, int lanes)
{
    const T own = most;
    most = mgpu_group_larger(most, lanes);
    sum = mgpu_group_add(own == -(T)INFINITY ? (S)0 : (S)(sum * mgpu_exp_below(own - most)), lanes);
    sum = most == -(T)INFINITY ? (S)NAN : sum; /* e^(most - most) */
}

/* the first of the largest: b at `b_place` in place of best at `place` */
template <class T, class P> MGPU_FUNCTION void mgpu_better_place(T &best, P &place, T b, P b_place)
{
    if (mgpu_beats(b, best) || (!mgpu_beats(best, b) && b_place < place)) {
        best = b;
        place = b_place;
    }
}

template <class T, class P> MGPU_FUNCTION void mgpu_group_first(T &best, P &place, int lanes)
{
    __shared__ T best_room[MGPU_THREADS / 32];
    __shared__ P place_room[MGPU_THREADS / 32];
    for (int by = (lanes > 32 ? 32 : lanes) / 2; by > 0; by /= 2)
        mgpu_better_place(best, place, mgpu_from_above(best, by, lanes > 32 ? 32 : lanes), mgpu_from_above(place, by, lanes > 32 ? 32 : lanes));
    best = mgpu_from_first(best, lanes > 32 ? 32 : lanes);
    place = mgpu_from_first(place, lanes > 32 ? 32 : lanes);
    if (lanes <= 32)
        return;
    if (threadIdx.x % 32 == 0) {
        best_room[threadIdx.x / 32] = best;
        place_room[threadIdx.x / 32] = place;
    }
    __syncthreads();
    for (int k = 0; k < MGPU_THREADS / 32; k++)
        mgpu_better_place(best, place, best_room[k], place_room[k]);
    __syncthreads();
}

template <class T, class P> MGPU_FUNCTION void mgpu_columns_first(T &best, P &place, int across)
{
    __shared__ T best_room[MGPU_THREADS];
    __shared__ P place_room[MGPU_THREADS];
    best_room[threadIdx.x] = best;
    place_room[threadIdx.x] = place;
    __syncthreads();
    for (uint32_t half = MGPU_THREADS / 2; half >= (uint32_t)across; half /= 2) {
        if (threadIdx.x < half)
            mgpu_better_place(best_room[threadIdx.x], place_room[threadIdx.x], best_room[threadIdx.x + half], place_room[threadIdx.x + half]);
        __syncthreads();
    }
    best = best_room[threadIdx.x % (uint32_t)across];
    place = place_room[threadIdx.x % (uint32_t)across];
    __syncthreads();
}
template <class T, class P, int COUNT> MGPU_FUNCTION void mgpu_columns_first(T (&best)[COUNT], P (&place)[COUNT], int across)
{
    for (int k = 0; k < COUNT; k++)
        mgpu_columns_first(best[k], place[k], across);
}

/* ---- scans: a block copies, or fills, `count` elements of each row */

template <class T>
MGPU_FUNCTION void mgpu_block_copy_rows(T *to, int64_t to_pitch, const T *from, int64_t from_pitch, int64_t count, int64_t begin, int64_t end)
{
    for (int64_t at = threadIdx.x; at < (end - begin) * count; at += MGPU_THREADS) {
        const int64_t row = begin + at / count, element = at % count;
        to[row * to_pitch + element] = from[row * from_pitch + element];
    }
}

template <class T, class V> MGPU_FUNCTION void mgpu_block_fill(T *to, V value, int64_t rows, int64_t count) /* literals are int */
{
    for (int64_t at = threadIdx.x; at < rows * count; at += MGPU_THREADS)
        to[at] = (T)value;
}
#endif
