/* cuda_library.c: NVIDIA's libraries by dlopen. See cuda_library.h. */
#include "runtime/cuda_library.h"
#include "runtime/internal.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

char *mgpu_cuda_open(const CudaLibrary *l, void *table)
{
    const char *folder = strchr(l->name, '/') ? NULL : getenv("MGPU_CUDA_LIBRARIES");
    char *path = folder && *folder ? mgpu_format("%s/%s", folder, l->name) : mgpu_format("%s", l->name);
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    free(path);
    if (!handle && folder && *folder)
        return mgpu_format("%s; MGPU_CUDA_LIBRARIES names that folder; the library comes with %s", dlerror(), l->package);
    if (!handle)
        return mgpu_format("%s; it comes with %s", dlerror(), l->package);
    for (int i = 0; i < l->count; i++) {
        void *function = dlsym(handle, l->symbols[i].name);
        if (!function && !l->symbols[i].optional)
            return mgpu_format("%s has no function %s: it is too old, a newer one comes with %s", l->name,
                               l->symbols[i].name, l->package);
        memcpy((char *)table + l->symbols[i].offset, &function, sizeof function); /* ISO C has no cast to a function's pointer */
    }
    return NULL;
}
