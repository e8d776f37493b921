/* mgpu_device_one_shot.h: all-reduces of a few KiB by one kernel of each GPU, which waits for those of the others: kernels of the
 * runtime, for programs of several devices. Each writes what its device has into the mailboxes of all others (mgpu_one_shot.h),
 * waits until its own is full, and adds up in the members' order: the bits are those of mgpu_device_collective.h and
 * mgpu_device_moments.h.
 *
 * A block writes no result before all that it waits for is there. */
#ifndef MGPU_DEVICE_ONE_SHOT_H
#define MGPU_DEVICE_ONE_SHOT_H

#include "mgpu_device_collective.h"
#include "mgpu_device_moments.h"
#include "mgpu_one_shot.h"

/* Words that other GPUs read and write: volatile accesses are relaxed, of system scope, and a word of 8 bytes is one (PTX ISA,
 * Memory Consistency Model: Operations on memory, volatile operations) */
#ifdef MGPU_VGPU
MGPU_FUNCTION void mgpu_store_system(uint64_t *to, uint64_t word) { mgpu_vgpu_store_system(to, word); }
MGPU_FUNCTION uint64_t mgpu_load_system(const uint64_t *from) { return mgpu_vgpu_load_system(from); }
MGPU_FUNCTION void mgpu_pause(void) { mgpu_vgpu_pause(); }
#else
MGPU_FUNCTION void mgpu_store_system(uint64_t *to, uint64_t word) { *(volatile uint64_t *)to = word; }
MGPU_FUNCTION uint64_t mgpu_load_system(const uint64_t *from) { return *(const volatile uint64_t *)from; }
MGPU_FUNCTION void mgpu_pause(void) { __nanosleep(20); }
#endif

/* a unit: elements that fill whole words, and are merged together */
template <class TERMS> struct mgpu_summed {
    typedef typename TERMS::stored T;
    enum { ELEMENTS = sizeof(T) < 4 ? 4 / sizeof(T) : 1 };
    typename TERMS::sum total[ELEMENTS];
    __device__ void add(const T *x, bool first)
    {
        for (int k = 0; k < ELEMENTS; k++)
            total[k] = (typename TERMS::sum)((first ? (typename TERMS::sum)-0.0 : total[k]) + TERMS::widen(x[k]));
    }
    __device__ T at(int k) const { return TERMS::narrow(total[k]); }
};
struct mgpu_merged_moments {
    typedef double T;
    enum { ELEMENTS = 3 };
    double all[ELEMENTS];
    __device__ void add(const T *x, bool first) { mgpu_merge_moments(&all[0], &all[1], &all[2], x[0], x[1], x[2], first); }
    __device__ T at(int k) const { return all[k]; }
};

template <class UNIT> union mgpu_unit {
    typename UNIT::T at[UNIT::ELEMENTS];
    uint32_t word[sizeof(typename UNIT::T) * UNIT::ELEMENTS / 4];
};

/* the last unit may have fewer elements */
template <class UNIT> MGPU_FUNCTION mgpu_unit<UNIT> mgpu_own_unit(const typename UNIT::T *value, int64_t count, int64_t unit)
{
    mgpu_unit<UNIT> own;
    for (int k = 0; k < UNIT::ELEMENTS; k++)
        if (unit * UNIT::ELEMENTS + k < count)
            own.at[k] = value[unit * UNIT::ELEMENTS + k];
        else
            own.at[k] = typename UNIT::T();
    return own;
}

template <class UNIT> MGPU_FUNCTION void mgpu_one_shot(const mgpu_mailboxes &m, typename UNIT::T *value, int64_t count)
{
    enum { WORDS = sizeof(mgpu_unit<UNIT>) / 4 };
    const int64_t units = (count + UNIT::ELEMENTS - 1) / UNIT::ELEMENTS, thread = (int64_t)blockIdx.x * blockDim.x + threadIdx.x,
                  threads = (int64_t)gridDim.x * blockDim.x;
    const uint64_t number = m.exchanges[blockIdx.x] + 1, mark = number << 32;
    const int64_t slot = (int64_t)(number & 1) * m.members * m.words;
    for (int64_t unit = thread; unit < units; unit += threads) {
        const mgpu_unit<UNIT> own = mgpu_own_unit<UNIT>(value, count, unit);
        for (int k = 1; k < m.members; k++)
            for (int w = 0; w < WORDS; w++)
                mgpu_store_system(m.box[(m.member + k) % m.members] + slot + m.member * m.words + unit * WORDS + w,
                                  mark | own.word[w]);
    }
    if (number % MGPU_ONE_SHOT_REFRESH < 2)
        for (int64_t w = units * WORDS + thread; w < m.words; w += threads)
            for (int k = 1; k < m.members; k++)
                mgpu_store_system(m.box[(m.member + k) % m.members] + slot + m.member * m.words + w, mark);
    const uint64_t *box = m.box[m.member] + slot;
    for (int64_t unit = thread; unit < units; unit += threads)
        for (int k = 1; k < m.members; k++)
            for (int w = 0; w < WORDS; w++)
                while (mgpu_load_system(box + (m.member + k) % m.members * m.words + unit * WORDS + w) >> 32 != (uint32_t)number)
                    mgpu_pause();
    __syncthreads();
    for (int64_t unit = thread; unit < units; unit += threads) {
        const mgpu_unit<UNIT> own = mgpu_own_unit<UNIT>(value, count, unit);
        UNIT all;
        for (int d = 0; d < m.members; d++) {
            mgpu_unit<UNIT> x = own;
            for (int w = 0; w < WORDS && d != m.member; w++)
                x.word[w] = (uint32_t)mgpu_load_system(box + d * m.words + unit * WORDS + w);
            all.add(x.at, d == 0);
        }
        for (int k = 0; k < UNIT::ELEMENTS && unit * UNIT::ELEMENTS + k < count; k++)
            value[unit * UNIT::ELEMENTS + k] = all.at(k);
    }
    if (threadIdx.x == 0)
        m.exchanges[blockIdx.x] = number;
}

#define MGPU_ONE_SHOT(name, ...)                                                                                                 \
    extern "C" __global__ void mgpu_one_shot_##name(const __grid_constant__ mgpu_mailboxes m, __VA_ARGS__::T *value,             \
                                                    int64_t count)                                                               \
    {                                                                                                                            \
        mgpu_one_shot<__VA_ARGS__>(m, value, count);                                                                             \
    }                                                                                                                            \
    MGPU_ENTRY(mgpu_one_shot_##name)
MGPU_ONE_SHOT(f32, mgpu_summed<mgpu_terms<float>>)
MGPU_ONE_SHOT(f64, mgpu_summed<mgpu_terms<double>>)
MGPU_ONE_SHOT(u8, mgpu_summed<mgpu_terms<uint8_t>>) /* whole numbers add up modulo 2^n: the sign does not matter */
MGPU_ONE_SHOT(u16, mgpu_summed<mgpu_terms<uint16_t>>)
MGPU_ONE_SHOT(u32, mgpu_summed<mgpu_terms<uint32_t>>)
MGPU_ONE_SHOT(u64, mgpu_summed<mgpu_terms<uint64_t>>)
MGPU_ONE_SHOT(bf16, mgpu_summed<mgpu_bf16_terms>)
MGPU_ONE_SHOT(f16, mgpu_summed<mgpu_f16_terms>)
MGPU_ONE_SHOT(moments, mgpu_merged_moments)
#undef MGPU_ONE_SHOT
#endif
