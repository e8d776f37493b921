/* library.h: opens NVIDIA's libraries by name when a program first needs them. If MGPU_CUDA_LIBRARIES names a folder, only
 * that is searched. Otherwise libraries of the toolkit are searched in mgpu_cuda_folders, those of the driver where the loader
 * looks. */
#ifndef MGPU_CUDA_LIBRARY_H
#define MGPU_CUDA_LIBRARY_H

#include <stdbool.h>
#include <stddef.h>

typedef struct CudaSymbol {
    const char *name;
    size_t offset;
    bool optional;
} CudaSymbol; /* offset: in the table */
typedef struct CudaLibrary {
    const char *name, *package; /* name: "libcuda.so.1", or a path; package: what installs it, for messages */
    const CudaSymbol *symbols;
    int count;
    bool toolkit;        /* of CUDA's toolkit, or NCCL; false: of the driver */
    const char *folders; /* toolkit: more folders, "A:B"; NULL: none */
    bool anew;           /* open a second copy with its own variables, for what a library reads only once */
} CudaLibrary;
/* Returns the folders to search for the toolkit's libraries, in order; "" means where the loader looks: $CUDA_HOME, wheels in
 * $VIRTUAL_ENV and $CONDA_PREFIX (the first `chosen` ones), "", /usr/local/cuda*, then the folders of `besides` that begin with
 * "/". The caller frees them. */
typedef struct CudaFolders {
    char **list;
    int count, chosen;
} CudaFolders;
CudaFolders mgpu_cuda_folders(const char *besides);
void mgpu_free_folders(CudaFolders *);
/* Fills in the table. Returns NULL, or what is missing and what to install, which the caller frees. An opened library is never
 * closed. */
char *mgpu_cuda_open(const CudaLibrary *, void *table);
#endif
