/* library.h: matmuls and convolutions that a library for GPUs may do in place of the kernel. */
#ifndef MGPU_CUDA_LIBRARY_MATMUL_H
#define MGPU_CUDA_LIBRARY_MATMUL_H

#include "compiler/kernel/epilogue.h"
#include "compiler/kernel/phase.h"
#include "compiler/target/cuda/tiles.h"

/* swapped: the matmul's A is argument 1 of the kernel. false: the library has no such form. tf32 is left to the caller */
bool cuda_library_matmul(const CudaMatmul *, bool swapped, mgpu_library_matmul *);
bool cuda_library_form(const Contraction *, mgpu_library_matmul *); /* cuda/contract.c */
/* bytes that a library may use for a call, of the architectures of --arch; NULL: none in particular */
int64_t cuda_library_workspace(const char *archs);
void cuda_print_library_matmul(const mgpu_library_matmul *, Text *); /* the address of a constant */

/* ---- cuda/convolution.c: likewise, of convolutions that are no matmuls; with what it needs to put w in its own order */
bool cuda_library_convolution(const Contraction *, mgpu_library_convolution *);
void cuda_print_library_convolution(const mgpu_library_convolution *, Text *);

/* ---- cuda/epilogue.c */
void cuda_print_epilogue(const Kernel *, Text *); /* of its row: mgpu_epilogue */
bool cuda_may_epilogue(const Task *contraction, const Task *, const Epilogue *, bool result); /* kernel/target.h */
int64_t cuda_epilogue_workspace(const Task *contraction, const Task *, const Epilogue *, const char *archs, int64_t *per_sample);
#endif
