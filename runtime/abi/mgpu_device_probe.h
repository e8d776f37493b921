/* mgpu_device_probe.h: kernels whose time says what a GPU does (compiler/probe/gpus.c): nothing, a stream of memory, and
 * multiply-adds that wait for nothing but each other, by plain instructions and by those of matrix units. What they compute is of
 * no use, and is stored only where it is what it never is, so that compilers keep it. */
#ifndef MGPU_DEVICE_PROBE_H
#define MGPU_DEVICE_PROBE_H

#include "mgpu_device_mma.h"

enum { MGPU_PROBE_CHAINS = 8 }; /* of a thread: as many as hide how long one instruction takes */

extern "C" __global__ void mgpu_probe_nothing(void) {}
MGPU_ENTRY(mgpu_probe_nothing)

extern "C" __global__ void mgpu_probe_stream(float *to, const float *from, int64_t count)
{
    typedef mgpu_vector<float, 4> Pack;
    const int64_t threads = (int64_t)gridDim.x * blockDim.x;
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < count / 4; i += threads) {
        Pack x = ((const Pack *)from)[i];
        for (int k = 0; k < 4; k++)
            x.at[k] = 1.5f * x.at[k] + 2;
        ((Pack *)to)[i] = x;
    }
}
MGPU_ENTRY(mgpu_probe_stream)

template <class T> MGPU_FUNCTION void mgpu_probe_plain(T *to, int64_t steps)
{
    const T factor = to[0]; /* 0, which nobody knows before */
    T a[MGPU_PROBE_CHAINS], sum = 0;
    for (int k = 0; k < MGPU_PROBE_CHAINS; k++)
        a[k] = (T)(threadIdx.x + k);
    for (int64_t i = 0; i < steps; i++)
#pragma unroll
        for (int k = 0; k < MGPU_PROBE_CHAINS; k++)
            a[k] = a[k] * factor + (T)1;
    for (int k = 0; k < MGPU_PROBE_CHAINS; k++)
        sum += a[k];
    if (sum < 0)
        to[1 + threadIdx.x] = sum;
}

template <int TYPE> MGPU_FUNCTION void mgpu_probe_matrix(float *to, int64_t steps)
{
    const uint32_t zero = __float_as_uint(to[0]), a[4] = {zero, zero, zero, zero}, b[2] = {zero, zero};
    float c[MGPU_PROBE_CHAINS][4], sum = 0;
    for (int k = 0; k < MGPU_PROBE_CHAINS; k++)
        for (int j = 0; j < 4; j++)
            c[k][j] = (float)(threadIdx.x + k);
    for (int64_t i = 0; i < steps; i++)
#pragma unroll
        for (int k = 0; k < MGPU_PROBE_CHAINS; k++)
            mgpu_multiply_matrices<TYPE>(c[k], a, b);
    for (int k = 0; k < MGPU_PROBE_CHAINS; k++)
        for (int j = 0; j < 4; j++)
            sum += c[k][j];
    if (sum < 0)
        to[1 + threadIdx.x] = sum;
}

#define MGPU_PROBE(name, type, body)                                                                                   \
    extern "C" __global__ void mgpu_probe_##name(type *to, int64_t steps) { body(to, steps); }                         \
    MGPU_ENTRY(mgpu_probe_##name)
MGPU_PROBE(plain_f32, float, mgpu_probe_plain<float>)
MGPU_PROBE(plain_f64, double, mgpu_probe_plain<double>)
MGPU_PROBE(matrix_f32, float, mgpu_probe_matrix<MGPU_F32>)
MGPU_PROBE(matrix_bf16, float, mgpu_probe_matrix<MGPU_BF16>)
MGPU_PROBE(matrix_f16, float, mgpu_probe_matrix<MGPU_F16>)
#undef MGPU_PROBE
#endif
