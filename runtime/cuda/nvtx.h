/* nvtx.h: ranges for NVIDIA's tools (Nsight Systems, Nsight Compute), by NVTX 3: what a thread issues between push and pop has a name
 * there. Such a tool names its library in NVTX_INJECTION64_PATH; without one, these do nothing. */
#ifndef MGPU_NVTX_H
#define MGPU_NVTX_H

void mgpu_nvtx_push(const char *name);
void mgpu_nvtx_pop(void);
#endif
