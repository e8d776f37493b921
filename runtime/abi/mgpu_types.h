/* mgpu_types.h: element types, on hosts and GPUs. */
#ifndef MGPU_TYPES_H
#define MGPU_TYPES_H

#ifndef __CUDACC_RTC__ /* NVRTC has no system headers */
#include <stdint.h>
#endif

enum { MGPU_BOOL, MGPU_U8, MGPU_I8, MGPU_U16, MGPU_I16, MGPU_U32, MGPU_I32, MGPU_I64, MGPU_F16, MGPU_BF16, MGPU_F32, MGPU_F64 };
/* The type of operands in memory: that of the computation, or this one. */
enum { MGPU_HALF_NOT, MGPU_HALF_BF16, MGPU_HALF_F16 };
typedef uint8_t mgpu_half;
#endif
