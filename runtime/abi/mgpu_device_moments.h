/* mgpu_device_moments.h: moments of all members (mgpu_moments.h): kernels of the runtime, for programs that merge them. Merged in
 * the members' order. */
#ifndef MGPU_DEVICE_MOMENTS_H
#define MGPU_DEVICE_MOMENTS_H

#include "mgpu_device.h"

extern "C" __global__ void mgpu_put_moments(double *sent, const double *values, int64_t count)
{
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += (int64_t)gridDim.x * blockDim.x)
        sent[i] = values[i];
}
MGPU_ENTRY(mgpu_put_moments)

/* sent: [members, count / 3, 3] */
extern "C" __global__ void mgpu_add_moments(double *all, const double *sent, int members, int64_t count)
{
    for (int64_t i = 3 * ((int64_t)blockIdx.x * blockDim.x + threadIdx.x); i < count; i += 3 * (int64_t)gridDim.x * blockDim.x) {
        double n = 0, mean = 0, squares = 0;
        for (int d = 0; d < members; d++) {
            const double *own = sent + d * count + i;
            mgpu_merge_moments(&n, &mean, &squares, own[0], own[1], own[2], d == 0);
        }
        all[i] = n;
        all[i + 1] = mean;
        all[i + 2] = squares;
    }
}
MGPU_ENTRY(mgpu_add_moments)
#endif
