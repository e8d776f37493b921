/* driver.h: what driver.c and driver_streams.c share. */
#ifndef VGPU_DRIVER_H
#define VGPU_DRIVER_H

#include "tests/vgpu/vgpu.h"

#define VGPU_PROTOTYPE(symbol, field, parameters) VGPU_API CUresult symbol parameters;
CUDA_FUNCTIONS(VGPU_PROTOTYPE)
CUDA_LATER(VGPU_PROTOTYPE)
#undef VGPU_PROTOTYPE

enum { VGPU_ERROR_CONTEXT_IS_DESTROYED = 709 };

CUresult vgpu_enter_any(const char *call); /* takes the lock; what the call must answer, or 0 */
CUresult vgpu_enter(const char *call);     /* of calls that need a context */
CUresult vgpu_leave(CUresult);
CUresult vgpu_failure(const VirtualDevice *); /* what every call for it answers by now, or 0 */
VGPU_API CUcontext vgpu_current(void);        /* of this thread */
#endif
