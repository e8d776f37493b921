/* mgpu_device_bits.h: codes of mgpu_bits.h, and sums of them: kernels of the runtime, for programs that send gradients as bits. A
 * warp codes a segment, whose numbers are compared as bits: WORD is as wide as they are. Codes are added in the order of the
 * members, as on the host. */
#ifndef MGPU_DEVICE_BITS_H
#define MGPU_DEVICE_BITS_H

#include "mgpu_device.h"
#include "mgpu_bits.h"

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
