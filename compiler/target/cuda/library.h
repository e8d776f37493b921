/* library.h: matmuls and convolutions for which a GPU library may be used in place of the kernel. */
#ifndef MGPU_CUDA_LIBRARY_MATMUL_H
#define MGPU_CUDA_LIBRARY_MATMUL_H

#include "compiler/kernel/epilogue.h"
#include "compiler/kernel/phase.h"
#include "compiler/target/cuda/tiles.h"

/* Describes the matmul for the library; false: the library cannot compute it. swapped: A is argument 1 of the kernel. The caller
 * sets tf32. */
bool cuda_library_matmul(const CudaMatmul *, bool swapped, mgpu_library_matmul *);
bool cuda_is_exact(const Contraction *);                            /* cuda/contract.c */
bool cuda_library_call(const Contraction *, mgpu_library_matmul *); /* likewise */
/* Returns the bytes that a library may use for a call, for the architectures of --arch; NULL: for any. */
int64_t cuda_library_workspace(const char *archs);
void cuda_print_library_matmul(const mgpu_library_matmul *, Text *); /* prints the member `matmul` of mgpu_gpu_kernel */

/* ---- cuda/convolution.c: the same for convolutions that are not matmuls, with the layout that w is copied to */
bool cuda_library_convolution(const Contraction *, mgpu_library_convolution *);
void cuda_print_library_convolution(const mgpu_library_convolution *, Text *);

/* ---- cuda/epilogue.c */
void cuda_print_epilogue(const Kernel *, Text *); /* prints the member `epilogue` of mgpu_gpu_kernel, if it has one */
bool cuda_may_epilogue(const Task *contraction, const Task *, const Epilogue *, bool result); /* kernel/target.h */
#endif
