/* library.h: NVIDIA's libraries, opened by name when a program first needs them. If MGPU_CUDA_LIBRARIES names a folder,
 * they are looked for there and nowhere else; else those of the toolkit in all of mgpu_cuda_folders, those of the driver where the
 * loader looks. */
#ifndef MGPU_CUDA_LIBRARY_H
#define MGPU_CUDA_LIBRARY_H

#include <stdbool.h>
#include <stddef.h>

typedef struct CudaSymbol { const char *name; size_t offset; bool optional; } CudaSymbol; /* offset: of its pointer in the table */
typedef struct CudaLibrary {
    const char *name, *package;        /* "libcuda.so.1", or a path; what installs it, for messages */
    const CudaSymbol *symbols; int count;
    bool toolkit;                      /* of CUDA's toolkit, NCCL too; false: of the driver */
    const char *folders;               /* of the toolkit's: where it may be besides, "A:B"; NULL: nowhere */
    bool anew;                         /* beside one that is open: another copy, with variables of its own, for what it reads once in a process */
} CudaLibrary;
/* Where the toolkit's libraries may be, in the order to look there; "" is where the loader looks: $CUDA_HOME, wheels in $VIRTUAL_ENV
 * and $CONDA_PREFIX (these are `chosen`: they are first), "", /usr/local/cuda*, then `besides`; only those that begin with "/". The caller frees them. */
typedef struct CudaFolders { char **list; int count, chosen; } CudaFolders;
CudaFolders mgpu_cuda_folders(const char *besides);
void mgpu_free_folders(CudaFolders *);
/* Fills in the table; NULL, or why not: what is missing and what to install, for the caller to free. A library that was
 * opened stays. */
char *mgpu_cuda_open(const CudaLibrary *, void *table);
#endif
