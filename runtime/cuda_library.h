/* cuda_library.h: NVIDIA's libraries, opened by name when a program first needs them. If MGPU_CUDA_LIBRARIES names a folder,
 * they are looked for there and nowhere else. */
#ifndef MGPU_CUDA_LIBRARY_H
#define MGPU_CUDA_LIBRARY_H

#include <stdbool.h>
#include <stddef.h>

typedef struct CudaSymbol { const char *name; size_t offset; bool optional; } CudaSymbol; /* offset: of its pointer in the table */
typedef struct CudaLibrary {
    const char *name, *package;        /* "libcuda.so.1", or a path; what installs it, for messages */
    const CudaSymbol *symbols; int count;
} CudaLibrary;
/* Fills in the table; NULL, or why not: what is missing and what to install, for the caller to free. A library that was
 * opened stays. */
char *mgpu_cuda_open(const CudaLibrary *, void *table);
#endif
