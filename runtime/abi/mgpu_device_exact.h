/* mgpu_device_exact.h: sums by the tree of mgpu_exact.h: kernels of the runtime, for exact programs. Their terms are those of the
 * virtual shards of a device, or of all devices; every sum is rounded to the type, as on the host. */
#ifndef MGPU_DEVICE_EXACT_H
#define MGPU_DEVICE_EXACT_H

#include "mgpu_device.h"
#include "mgpu_members.h"

enum { MGPU_TREE_LEVELS = 7 /* one more than those of MGPU_MOST_MEMBERS terms */ };

template <class T> struct mgpu_added {
    typedef T stored, sum;
    static __device__ T widen(T v) { return v; }
    static __device__ T narrow(T v) { return v; }
    static __device__ T add(T a, T b) { return (T)(a + b); }
};
#define MGPU_HALF_ADDED(name)                                                                                          \
    struct mgpu_##name##_added {                                                                                       \
        typedef mgpu_##name stored;                                                                                    \
        typedef float sum;                                                                                             \
        static __device__ float widen(stored v) { return mgpu_from_##name(v); }                                        \
        static __device__ stored narrow(float v) { return mgpu_to_##name(v); }                                         \
        static __device__ float add(float a, float b) { return widen(narrow(a + b)); }                                 \
    };
MGPU_HALF_ADDED(bf16)
MGPU_HALF_ADDED(f16)
#undef MGPU_HALF_ADDED

struct mgpu_moments {
    double number, mean, squares;
};
struct mgpu_moments_added {
    typedef mgpu_moments stored, sum;
    static __device__ mgpu_moments widen(const mgpu_moments &v) { return v; }
    static __device__ mgpu_moments narrow(const mgpu_moments &v) { return v; }
    static __device__ mgpu_moments add(mgpu_moments a, const mgpu_moments &b)
    {
        mgpu_merge_moments(&a.number, &a.mean, &a.squares, b.number, b.mean, b.squares, false);
        return a;
    }
};

/* Returns the sum of element `at`: first the leading terms are added in pairs, so many that `width`, a power of two, is left,
 * then neighbours until one is left. A sum of level l is over 2^l of those; it waits in left[l] for its neighbour. */
template <class ADDED> MGPU_FUNCTION typename ADDED::sum mgpu_tree_sum(const mgpu_members &m, int width, int64_t at)
{
    typedef typename ADDED::stored T;
    typename ADDED::sum left[MGPU_TREE_LEVELS], v{};
    const int pairs = m.from_count - width;
    for (int i = 0; i < width; i++) {
        const int first = i < pairs ? 2 * i : i + pairs;
        v = ADDED::widen(((const T *)m.from[first])[at]);
        if (i < pairs)
            v = ADDED::add(v, ADDED::widen(((const T *)m.from[first + 1])[at]));
        bool waits = false;
#pragma unroll
        for (int l = 0; l < MGPU_TREE_LEVELS; l++) {
            if (!waits && (i >> l & 1))
                v = ADDED::add(left[l], v);
            else if (!waits) {
                left[l] = v;
                waits = true;
            }
        }
    }
    return v;
}

/* Elements [begin, end); an element is one thread's, so the sum may take the place of a term. */
template <class ADDED> MGPU_FUNCTION void mgpu_add_tree(const mgpu_members &m, int64_t begin, int64_t end)
{
    int width = 1;
    while (2 * width <= m.from_count)
        width *= 2;
    for (int64_t at = begin + (int64_t)blockIdx.x * blockDim.x + threadIdx.x; at < end; at += (int64_t)gridDim.x * blockDim.x) {
        const typename ADDED::stored all = ADDED::narrow(mgpu_tree_sum<ADDED>(m, width, at));
        for (int d = 0; d < m.to_count; d++)
            ((typename ADDED::stored *)m.to[d])[at] = all;
    }
}

#define MGPU_TREE(name, added)                                                                                         \
    extern "C" __global__ void mgpu_tree_##name(const __grid_constant__ mgpu_members m, int64_t begin, int64_t end)    \
    {                                                                                                                  \
        mgpu_add_tree<added>(m, begin, end);                                                                           \
    }                                                                                                                  \
    MGPU_ENTRY(mgpu_tree_##name)
MGPU_TREE(f32, mgpu_added<float>)
MGPU_TREE(f64, mgpu_added<double>)
MGPU_TREE(u8, mgpu_added<uint8_t>) /* whole numbers add up modulo 2^n: the sign does not matter */
MGPU_TREE(u16, mgpu_added<uint16_t>)
MGPU_TREE(u32, mgpu_added<uint32_t>)
MGPU_TREE(u64, mgpu_added<uint64_t>)
MGPU_TREE(bf16, mgpu_bf16_added)
MGPU_TREE(f16, mgpu_f16_added)
MGPU_TREE(moments, mgpu_moments_added) /* an element is the three numbers */
#undef MGPU_TREE

/* Writes the step block of each virtual shard, so that its first sample is sample 0: one thread for each. */
extern "C" __global__ void mgpu_shard_steps(mgpu_step *to, const mgpu_step *from,
                                            const __grid_constant__ mgpu_shard_begins begins, int shards)
{
    const int shard = (int)threadIdx.x;
    static_assert(sizeof(mgpu_step) % sizeof(int64_t) == 0, "a step block is copied in words");
    if (shard >= shards)
        return;
    int64_t *words = (int64_t *)(to + shard);
    for (int i = 0; i < (int)(sizeof(mgpu_step) / sizeof(int64_t)); i++)
        words[i] = ((const int64_t *)from)[i];
    to[shard].sample = from->sample + begins.begin[shard];
    to[shard].valid = from->valid - begins.begin[shard];
}
MGPU_ENTRY(mgpu_shard_steps)
#endif
