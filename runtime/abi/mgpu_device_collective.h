/* mgpu_device_collective.h: sums over devices: kernels of the runtime, one image of a program has them. Elements [begin, end)
 * of all members' memory are added in the members' order, wherever that memory is, and the sum goes to whoever wants it. An
 * element is one thread's, so the sum may take the place of what was added. The bits are those of sums on the host: bf16 and f16
 * are added in double, and rounded by way of float. */
#ifndef MGPU_DEVICE_COLLECTIVE_H
#define MGPU_DEVICE_COLLECTIVE_H

#include "mgpu_device.h"
#include "mgpu_members.h"

enum {
    MGPU_PACK_BYTES = 16,  /* that a thread loads at once, where all memory is aligned to it; so is element `begin` */
    MGPU_MEMBERS_AT_ONCE = 8 /* whose loads are under way before the first is added: they come over links */
};

/* what is in memory, and what it is added in */
template <class T> struct mgpu_terms {
    typedef T stored, sum;
    static __device__ T widen(T v) { return v; }
    static __device__ T narrow(T v) { return v; }
};
#define MGPU_HALF_TERMS(name)                                                                                          \
    struct mgpu_##name##_terms {                                                                                       \
        typedef mgpu_##name stored;                                                                                    \
        typedef double sum;                                                                                            \
        static __device__ double widen(stored v) { return mgpu_from_##name(v); }                                       \
        static __device__ stored narrow(double v) { return mgpu_to_##name((float)v); }                                 \
    };
MGPU_HALF_TERMS(bf16)
MGPU_HALF_TERMS(f16)
#undef MGPU_HALF_TERMS

/* COUNT elements of all members from element `at` on */
template <class TERMS, int COUNT> MGPU_FUNCTION void mgpu_sum_pack(const mgpu_members &m, int64_t at)
{
    typedef typename TERMS::stored T;
    typedef typename TERMS::sum sum;
    typedef mgpu_vector<T, COUNT> Pack;
    sum total[COUNT];
    for (int k = 0; k < COUNT; k++)
        total[k] = (sum)-0.0; /* that of no terms: 0.0 would make 0.0 of -0.0 */
    for (int first = 0; first < m.from_count; first += MGPU_MEMBERS_AT_ONCE) {
        Pack x[MGPU_MEMBERS_AT_ONCE];
#pragma unroll
        for (int d = 0; d < MGPU_MEMBERS_AT_ONCE; d++)
            if (first + d < m.from_count)
                x[d] = *(const Pack *)((const T *)m.from[first + d] + at);
#pragma unroll
        for (int d = 0; d < MGPU_MEMBERS_AT_ONCE; d++)
            for (int k = 0; k < COUNT && first + d < m.from_count; k++)
                total[k] = (sum)(total[k] + TERMS::widen(x[d].at[k]));
    }
    Pack all;
    for (int k = 0; k < COUNT; k++)
        all.at[k] = TERMS::narrow(total[k]);
    for (int d = 0; d < m.to_count; d++)
        *(Pack *)((T *)m.to[d] + at) = all;
}

template <class TERMS> MGPU_FUNCTION void mgpu_sum_members(const mgpu_members &m, int64_t begin, int64_t end)
{
    constexpr int COUNT = MGPU_PACK_BYTES / sizeof(typename TERMS::stored);
    int64_t thread = (int64_t)blockIdx.x * blockDim.x + threadIdx.x, threads = (int64_t)gridDim.x * blockDim.x;
    uintptr_t places = 0;
    for (int d = 0; d < m.from_count; d++)
        places |= (uintptr_t)m.from[d];
    for (int d = 0; d < m.to_count; d++)
        places |= (uintptr_t)m.to[d];
    int64_t packs = places % MGPU_PACK_BYTES == 0 ? (end - begin) / COUNT : 0;
    for (int64_t i = thread; i < packs; i += threads)
        mgpu_sum_pack<TERMS, COUNT>(m, begin + i * COUNT);
    for (int64_t at = begin + packs * COUNT + thread; at < end; at += threads)
        mgpu_sum_pack<TERMS, 1>(m, at);
}

#define MGPU_SUM(name, terms)                                                                                          \
    extern "C" __global__ void mgpu_sum_##name(const __grid_constant__ mgpu_members m, int64_t begin, int64_t end)     \
    {                                                                                                                  \
        mgpu_sum_members<terms>(m, begin, end);                                                                        \
    }                                                                                                                  \
    MGPU_ENTRY(mgpu_sum_##name)
MGPU_SUM(f32, mgpu_terms<float>)
MGPU_SUM(f64, mgpu_terms<double>)
MGPU_SUM(u8, mgpu_terms<uint8_t>) /* whole numbers add up modulo 2^n: the sign does not matter */
MGPU_SUM(u16, mgpu_terms<uint16_t>)
MGPU_SUM(u32, mgpu_terms<uint32_t>)
MGPU_SUM(u64, mgpu_terms<uint64_t>)
MGPU_SUM(bf16, mgpu_bf16_terms)
MGPU_SUM(f16, mgpu_f16_terms)
#undef MGPU_SUM
#endif
