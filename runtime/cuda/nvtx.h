/* nvtx.h: named ranges for NVIDIA's profilers (Nsight Systems, Nsight Compute) by NVTX 3: what a thread issues between push and
 * pop has that name there. Such a tool sets NVTX_INJECTION64_PATH to its library; without that, these functions do nothing. */
#ifndef MGPU_NVTX_H
#define MGPU_NVTX_H

void mgpu_nvtx_push(const char *name);
void mgpu_nvtx_pop(void);
#endif
