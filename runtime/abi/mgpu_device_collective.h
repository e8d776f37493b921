/* mgpu_device_collective.h: sums over devices: kernels of the runtime, one image of a program has them. Elements [begin, end)
 * of all members' memory are added in the members' order, wherever that memory is, and the sum goes to whoever wants it. An
 * element is one thread's, so the sum may take the place of what was added. The bits are those of sums on the host. */
#ifndef MGPU_DEVICE_COLLECTIVE_H
#define MGPU_DEVICE_COLLECTIVE_H

#include "mgpu_device.h"
#include "mgpu_bits.h"
#include "mgpu_members.h"

enum { MGPU_PACK_BYTES = 16 }; /* that a thread loads at once, where all memory is aligned to it; so is element `begin` */

template <class T> MGPU_FUNCTION void mgpu_sum_members(const mgpu_members &m, int64_t begin, int64_t end)
{
    constexpr int COUNT = MGPU_PACK_BYTES / sizeof(T);
    typedef mgpu_vector<T, COUNT> Pack;
    int64_t thread = (int64_t)blockIdx.x * blockDim.x + threadIdx.x, threads = (int64_t)gridDim.x * blockDim.x;
    uintptr_t places = 0;
    for (int d = 0; d < m.from_count; d++)
        places |= (uintptr_t)m.from[d];
    for (int d = 0; d < m.to_count; d++)
        places |= (uintptr_t)m.to[d];
    int64_t packs = places % MGPU_PACK_BYTES == 0 ? (end - begin) / COUNT : 0;
    for (int64_t i = thread; i < packs; i += threads) {
        int64_t at = begin + i * COUNT;
        Pack sum = *(const Pack *)((const T *)m.from[0] + at);
        for (int d = 1; d < m.from_count; d++) {
            const Pack x = *(const Pack *)((const T *)m.from[d] + at);
            for (int k = 0; k < COUNT; k++)
                sum.at[k] = (T)(sum.at[k] + x.at[k]);
        }
        for (int d = 0; d < m.to_count; d++)
            *(Pack *)((T *)m.to[d] + at) = sum;
    }
    for (int64_t at = begin + packs * COUNT + thread; at < end; at += threads) {
        T sum = ((const T *)m.from[0])[at];
        for (int d = 1; d < m.from_count; d++)
            sum = (T)(sum + ((const T *)m.from[d])[at]);
        for (int d = 0; d < m.to_count; d++)
            ((T *)m.to[d])[at] = sum;
    }
}

#define MGPU_SUM(name, type)                                                                                           \
    extern "C" __global__ void mgpu_sum_##name(const __grid_constant__ mgpu_members m, int64_t begin, int64_t end)     \
    {                                                                                                                  \
        mgpu_sum_members<type>(m, begin, end);                                                                         \
    }                                                                                                                  \
    MGPU_ENTRY(mgpu_sum_##name)
MGPU_SUM(f32, float)
MGPU_SUM(f64, double)
MGPU_SUM(u8, uint8_t) /* whole numbers add up modulo 2^n: the sign does not matter */
MGPU_SUM(u16, uint16_t)
MGPU_SUM(u32, uint32_t)
MGPU_SUM(u64, uint64_t)
#undef MGPU_SUM

/* ---- codes of mgpu_bits.h. A warp codes a segment; WORD: as wide as its numbers, which are compared as bits */
template <class WORD> struct mgpu_code { WORD value[2]; uint32_t bits[MGPU_SEGMENT_WORDS]; };

template <class WORD> MGPU_FUNCTION void mgpu_encode_segments(mgpu_code<WORD> *codes, const WORD *values, int64_t count)
{
    int64_t warp = ((int64_t)blockIdx.x * blockDim.x + threadIdx.x) / 32, warps = (int64_t)gridDim.x * blockDim.x / 32;
    int lane = threadIdx.x % 32;
    for (int64_t segment = warp; segment * MGPU_SEGMENT < count; segment += warps) {
        const WORD *x = values + segment * MGPU_SEGMENT, first = x[0];
        int64_t n = count - segment * MGPU_SEGMENT;
        uint32_t own = 0;
        int second = 0;
        for (int k = 0; k < MGPU_SEGMENT_WORDS; k++) {
            int i = 32 * k + lane;
            uint32_t differ = __ballot_sync(0xFFFFFFFFu, i < n && x[i] != first);
            for (int bit = 0; second == 0 && differ >> bit; bit++)
                second = differ >> bit & 1 ? 32 * k + bit : 0;
            own = k == lane ? differ : own;
        }
        codes[segment].bits[lane] = own;
        if (lane < 2)
            codes[segment].value[lane] = x[lane ? second : 0];
    }
}

/* codes: those of all members, one after the other; added in their order */
template <class T, class WORD> MGPU_FUNCTION void mgpu_add_coded(T *sums, const mgpu_code<WORD> *codes, int members, int64_t count)
{
    int64_t segments = (count + MGPU_SEGMENT - 1) / MGPU_SEGMENT, threads = (int64_t)gridDim.x * blockDim.x;
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += threads) {
        T sum = 0;
        for (int d = 0; d < members; d++) {
            const mgpu_code<WORD> *code = codes + d * segments + i / MGPU_SEGMENT;
            const T x = __builtin_bit_cast(T, code->value[code->bits[i % MGPU_SEGMENT / 32] >> i % 32 & 1]);
            sum = d ? sum + x : x;
        }
        sums[i] = sum;
    }
}

#define MGPU_CODES(name, type, word)                                                                                   \
    extern "C" __global__ void mgpu_encode_##name(mgpu_code<word> *codes, const word *values, int64_t count)           \
    {                                                                                                                  \
        mgpu_encode_segments(codes, values, count);                                                                    \
    }                                                                                                                  \
    MGPU_ENTRY(mgpu_encode_##name)                                                                                     \
    extern "C" __global__ void mgpu_add_##name(type *sums, const mgpu_code<word> *codes, int members, int64_t count)   \
    {                                                                                                                  \
        mgpu_add_coded(sums, codes, members, count);                                                                   \
    }                                                                                                                  \
    MGPU_ENTRY(mgpu_add_##name)
MGPU_CODES(f32, float, uint32_t)
MGPU_CODES(f64, double, uint64_t)
#undef MGPU_CODES
#endif
