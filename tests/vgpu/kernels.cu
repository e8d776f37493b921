/* kernels.cu: kernels for vgpu_test.c, by hand: for each check one that is right and one, NAME_wrong, with the planted bug. */
#include "mgpu_device.h"

extern "C" __global__ void twice(const float *__restrict__ a, float *__restrict__ b, int64_t n)
{
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += (int64_t)gridDim.x * blockDim.x)
        b[i] = 2.0f * a[i];
}
MGPU_ENTRY(twice)

/* ---- global memory */

extern "C" __global__ void twice_wrong(const float *__restrict__ a, float *__restrict__ b, int64_t n) /* one too many */
{
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i <= n; i += (int64_t)gridDim.x * blockDim.x)
        b[i] = 2.0f * a[i < n ? i : 0];
}
MGPU_ENTRY(twice_wrong)

extern "C" __global__ void look_ahead(const float *__restrict__ a, float *__restrict__ b, int64_t by)
{
    b[threadIdx.x] = a[threadIdx.x + by];
}
MGPU_ENTRY(look_ahead)

extern "C" __global__ void fill(float *__restrict__ b, int64_t begin, int64_t end, float value)
{
    for (int64_t i = begin + threadIdx.x; i < end; i += blockDim.x)
        b[i] = value;
}
MGPU_ENTRY(fill)

/* writes, then reads what it wrote; wrong: reads first */
extern "C" __global__ void workspace(float *__restrict__ w, float *__restrict__ b, int64_t wrong)
{
    if (wrong)
        b[threadIdx.x] = w[threadIdx.x];
    w[threadIdx.x] = (float)threadIdx.x;
    b[threadIdx.x] = w[threadIdx.x];
}
MGPU_ENTRY(workspace)

extern "C" __global__ void vectors(const float *__restrict__ a, float *__restrict__ b, int64_t wrong)
{
    float4 v = *(const float4 *)(a + wrong + 4 * threadIdx.x);
    *(float4 *)(b + 4 * threadIdx.x) = make_float4(v.w, v.z, v.y, v.x);
}
MGPU_ENTRY(vectors)

extern "C" __global__ void halves(const uint16_t *__restrict__ a, uint16_t *__restrict__ b)
{
    int i = (int)(blockIdx.x * blockDim.x + threadIdx.x);
    b[i] = mgpu_vgpu_to_bf16(2.0f * mgpu_vgpu_from_bf16(a[i]));
}
MGPU_ENTRY(halves)

/* blocks add up; the wrong ones into each other's place, or in one launch */
extern "C" __global__ void partial(const float *__restrict__ a, float *__restrict__ w, int64_t wrong)
{
    float sum = a[blockIdx.x * blockDim.x + threadIdx.x];
    for (int by = 16; by > 0; by >>= 1)
        sum += __shfl_down_sync(0xFFFFFFFFu, sum, by);
    if (threadIdx.x == 0)
        w[wrong ? 0 : blockIdx.x] = sum;
}
MGPU_ENTRY(partial)
/* b = number a, of as many calls as the table has; each with a few elements */
extern "C" __global__ void several(const __grid_constant__ mgpu_calls<5, 2, 1> calls)
{
    const mgpu_own_call own = mgpu_find_call(calls);
    const float *a = (const float *)calls.argument[own.call][0];
    float *b = (float *)calls.argument[own.call][1];
    for (int i = (int)own.thread(); i < calls.n[own.call]; i += (int)own.threads())
        b[i] = a[i] * (float)calls.given[own.call].at[0];
}
MGPU_ENTRY(several)
extern "C" __global__ void total(const float *__restrict__ w, float *__restrict__ b, int64_t count)
{
    float sum = 0;
    for (int64_t i = 0; i < count; i++)
        sum += w[i];
    b[0] = sum;
}
MGPU_ENTRY(total)
extern "C" __global__ void at_once(const float *__restrict__ a, float *__restrict__ w, float *__restrict__ b, int64_t count)
{
    w[blockIdx.x] = a[blockIdx.x];
    float sum = 0;
    for (int64_t i = 0; i < count; i++)
        sum += w[i];
    b[blockIdx.x] = sum;
}
MGPU_ENTRY(at_once)

extern "C" __global__ void constant(float *__restrict__ a, float *__restrict__ b, int64_t wrong)
{
    a[threadIdx.x] = 1.0f;
    b[threadIdx.x] = wrong ? __ldg(&a[threadIdx.x]) : a[threadIdx.x];
}
MGPU_ENTRY(constant)

extern "C" __global__ void count(int *__restrict__ sum, int64_t wrong)
{
    if (wrong)
        *sum = *sum + 1;
    else
        atomicAdd(sum, 1);
}
MGPU_ENTRY(count)

/* what runs when: the first thread of each block notes `name` */
extern "C" __global__ void note(int *__restrict__ list, int64_t name)
{
    if (threadIdx.x == 0)
        list[1 + atomicAdd(list, 1)] = (int)name + (int)blockIdx.x;
}
MGPU_ENTRY(note)

/* ---- shared memory */

extern "C" __global__ void reverse(const float *__restrict__ a, float *__restrict__ b, int64_t wrong)
{
    __shared__ float part[256];
    part[threadIdx.x] = a[threadIdx.x];
    if (!wrong)
        __syncthreads();
    b[threadIdx.x] = part[blockDim.x - 1 - threadIdx.x];
}
MGPU_ENTRY(reverse)

/* the second round overwrites what others still read */
extern "C" __global__ void rounds(const float *__restrict__ a, float *__restrict__ b, int64_t wrong)
{
    __shared__ float part[256];
    for (int round = 0; round < 2; round++) {
        part[threadIdx.x] = a[256 * round + threadIdx.x];
        __syncthreads();
        b[256 * round + threadIdx.x] = part[255 - threadIdx.x];
        if (!wrong)
            __syncthreads();
    }
}
MGPU_ENTRY(rounds)

extern "C" __global__ void reverse_warp(const float *__restrict__ a, float *__restrict__ b, int64_t wrong)
{
    __shared__ float part[8][32];
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    part[warp][lane] = a[threadIdx.x];
    if (!wrong)
        __syncwarp();
    b[threadIdx.x] = part[warp][31 - lane];
}
MGPU_ENTRY(reverse_warp)

/* all lanes load what one of them then loads again, and stores */
extern "C" __global__ void turns(float *__restrict__ b, int64_t wrong)
{
    __shared__ float part[8];
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    if (lane == 0)
        part[warp] = 1.0f;
    __syncwarp();
    b[threadIdx.x] = part[warp];
    if (!wrong)
        __syncwarp();
    if (lane == 5)
        part[warp] += 1.0f;
}
MGPU_ENTRY(turns)

/* all lanes load what the first then updates: right behind a shuffle; and what it stores before, wrong */
extern "C" __global__ void accumulate(float *__restrict__ b, int64_t wrong)
{
    float old = b[0], sum = 1.0f;
    if (wrong && threadIdx.x == 0)
        b[1] = 1.0f;
    for (int by = 16; by > 0; by >>= 1)
        sum += __shfl_xor_sync(0xFFFFFFFFu, sum, by);
    if (threadIdx.x == 0)
        b[0] = old + sum;
    if (wrong && threadIdx.x == 1)
        b[2] = b[1];
}
MGPU_ENTRY(accumulate)

extern "C" __global__ void unset(float *__restrict__ b, int64_t wrong)
{
    __shared__ float part[64];
    if (!wrong || threadIdx.x < 63)
        part[threadIdx.x] = 1.0f;
    __syncthreads();
    b[threadIdx.x] = part[63 - threadIdx.x];
}
MGPU_ENTRY(unset)

extern "C" __global__ void dynamic(float *__restrict__ b, int64_t floats)
{
    float *part = (float *)mgpu_vgpu_dynamic_shared();
    for (int64_t i = threadIdx.x; i < floats; i += blockDim.x)
        part[i] = 2.0f;
    __syncthreads();
    b[threadIdx.x] = part[floats - 1 - threadIdx.x];
}
MGPU_ENTRY(dynamic)

/* static memory in a function that the kernel calls, and dynamic memory behind it */
template <int COUNT> static __device__ __noinline__ float through_shared(float v)
{
    __shared__ float part[COUNT];
    if (threadIdx.x < COUNT)
        part[threadIdx.x] = v;
    __syncthreads();
    return part[0];
}
extern "C" __global__ void beside(float *__restrict__ b)
{
    float *part = (float *)mgpu_vgpu_dynamic_shared();
    part[threadIdx.x] = 2.0f;
    b[threadIdx.x] = through_shared<20>(threadIdx.x ? 0 : 1.0f) + part[threadIdx.x];
}
MGPU_ENTRY(beside)
extern "C" __global__ void too_much(float *__restrict__ b)
{
    b[threadIdx.x] = through_shared<12289>(1.0f);
}
MGPU_ENTRY(too_much)

struct numbers { int64_t number[511]; };
extern "C" __global__ void many(float *__restrict__ b, const __grid_constant__ numbers n) { b[threadIdx.x] = (float)n.number[threadIdx.x]; }
MGPU_ENTRY(many)
extern "C" __global__ void too_many(float *__restrict__ b, const __grid_constant__ numbers n, int64_t more) { b[threadIdx.x] = (float)n.number[more]; }
MGPU_ENTRY(too_many)

extern "C" __global__ void outside(float *__restrict__ b, int64_t at)
{
    __shared__ float part[32];
    part[threadIdx.x] = 3.0f;
    if (threadIdx.x == 0)
        part[at] = 4.0f;
    b[threadIdx.x] = part[threadIdx.x];
}
MGPU_ENTRY(outside)

extern "C" __global__ void ahead(const float *__restrict__ a, float *__restrict__ b, int64_t wrong)
{
    __shared__ __align__(16) float part[128];
    mgpu_vgpu_copy_async(part + 4 * threadIdx.x, a + 4 * threadIdx.x, 16, threadIdx.x == 31 ? 4 : 0);
    mgpu_vgpu_copy_commit();
    if (wrong != 1)
        mgpu_vgpu_copy_wait(0);
    __syncthreads();
    b[threadIdx.x] = part[127 - threadIdx.x];
    if (wrong == 1)
        mgpu_vgpu_copy_wait(0);
}
MGPU_ENTRY(ahead)

extern "C" __global__ void abandoned(const float *__restrict__ a, float *__restrict__ b, int64_t wrong)
{
    __shared__ float part[32];
    mgpu_vgpu_copy_async(part + threadIdx.x, a + threadIdx.x, 4);
    mgpu_vgpu_copy_commit();
    if (!wrong)
        mgpu_vgpu_copy_wait(0);
    b[threadIdx.x] = 1.0f;
}
MGPU_ENTRY(abandoned)

/* ---- threads together */

extern "C" __global__ void some(float *__restrict__ b, int64_t wrong)
{
    b[threadIdx.x] = 1.0f;
    if (!wrong || threadIdx.x < 40)
        __syncthreads();
}
MGPU_ENTRY(some)

extern "C" __global__ void either(float *__restrict__ b, int64_t wrong)
{
    b[threadIdx.x] = 1.0f;
    if (wrong && threadIdx.x < 32)
        __syncthreads();
    else
        __syncthreads();
}
MGPU_ENTRY(either)

extern "C" __global__ void lanes(float *__restrict__ b, int64_t wrong)
{
    float v = (float)threadIdx.x;
    if (threadIdx.x < 16)
        v = __shfl_sync(wrong ? 0xFFFFFFFFu : 0xFFFFu, v, 3);
    else
        v = __shfl_xor_sync(0xFFFF0000u, v, 1);
    __syncwarp();
    b[threadIdx.x] = v;
}
MGPU_ENTRY(lanes)

extern "C" __global__ void unnamed(float *__restrict__ b, int64_t wrong)
{
    b[threadIdx.x] = (float)__popc(__ballot_sync(wrong ? 0xFFFFFFFEu : 0xFFFFFFFFu, 1));
}
MGPU_ENTRY(unnamed)

extern "C" __global__ void mixed(float *__restrict__ b, int64_t wrong)
{
    float v = 1.0f;
    if (wrong && threadIdx.x == 5)
        v = (float)__ballot_sync(0xFFFFFFFFu, 1);
    else
        v = __shfl_sync(0xFFFFFFFFu, v, 3);
    b[threadIdx.x] = v;
}
MGPU_ENTRY(mixed)

/* what lanes and barriers give */
extern "C" __global__ void together(int *__restrict__ b)
{
    int lane = threadIdx.x % 32, t = threadIdx.x, k = 0, all[32];
    b[16 * t + k++] = __shfl_sync(~0u, t, 5);
    b[16 * t + k++] = __shfl_up_sync(~0u, t, 2);
    b[16 * t + k++] = __shfl_down_sync(~0u, t, 3, 8);
    b[16 * t + k++] = __shfl_xor_sync(~0u, t, 7);
    b[16 * t + k++] = (int)__ballot_sync(~0u, lane & 1);
    b[16 * t + k++] = __any_sync(~0u, lane == 9) + 2 * __all_sync(~0u, lane != 9);
    b[16 * t + k++] = __syncthreads_count(t % 3 == 0);
    b[16 * t + k++] = __syncthreads_and(t < 64) + 2 * __syncthreads_or(t == 63);
    b[16 * t + k++] = (int)mgpu_vgpu_gather(~0u, t, all);
    int sum = 0;
    for (int i = 0; i < 32; i++)
        sum += all[i];
    b[16 * t + k++] = sum;
}
MGPU_ENTRY(together)

/* ---- arithmetic */

extern "C" __global__ void arithmetic(const int *__restrict__ a, int *__restrict__ b, int64_t shift)
{
    b[threadIdx.x] = shift ? 1 << (a[0] + 32) : 7 / (a[0] + 1);
}
MGPU_ENTRY(arithmetic)
extern "C" __global__ void divide(const int *__restrict__ a, int *__restrict__ b, int64_t wrong)
{
    b[threadIdx.x] = 7 / (a[0] + (wrong ? 0 : 1));
}
MGPU_ENTRY(divide)

extern "C" __global__ void slow(float *__restrict__ b, int64_t steps, int64_t barriers)
{
    float v = 1.0f;
    for (int64_t i = 0; i < steps; i++) {
        v = v * 0.5f + 1.0f;
        if (barriers)
            __syncthreads();
    }
    b[blockIdx.x * blockDim.x + threadIdx.x] = v;
}
MGPU_ENTRY(slow)
