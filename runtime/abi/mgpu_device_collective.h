/* mgpu_device_collective.h: sums over devices: kernels of the runtime, one image of a program has them. Elements [begin, end)
 * of all members' memory are added in the members' order, wherever that memory is, and the sum goes to whoever wants it. An
 * element is one thread's, so the sum may take the place of what was added. The bits are those of sums on the host. */
#ifndef MGPU_DEVICE_COLLECTIVE_H
#define MGPU_DEVICE_COLLECTIVE_H

#include "mgpu_device.h"
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
#endif
