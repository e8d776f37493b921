/* mgpu_kernel.h: what emitted kernels use besides mgpu.h: arithmetic, random numbers, contractions. mgpu.h includes it
 * where MGPU_KERNELS is defined. */
#ifndef MGPU_KERNEL_H_RUNTIME
#define MGPU_KERNEL_H_RUNTIME

#include "mgpu_math.h"
#include "mgpu_random.h"
#include "mgpu_gemm.h"

#endif
