/* library.c: opens NVIDIA's libraries by dlopen. */
#include "runtime/base/base.h"
#include "runtime/cuda/library.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <unistd.h>

/* Opens it in the first folder that has it. If none has, *why is the loader's message. */
static void *open_in_folders(const CudaLibrary *l, char **why)
{
    CudaFolders folders = mgpu_cuda_folders(l->folders);
    void *handle = NULL;
    for (int i = 0; i < folders.count && !handle; i++) {
        bool loaders = !*folders.list[i];
        char *path = loaders ? mgpu_format("%s", l->name) : mgpu_format("%s/%s", folders.list[i], l->name);
        if (loaders || access(path, R_OK) == 0)
            handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        if (!handle && loaders)
            *why = mgpu_format("%s", dlerror());
        free(path);
    }
    mgpu_free_folders(&folders);
    return handle;
}

static bool copy_file(const char *from, int to)
{
    int file = open(from, O_RDONLY | O_CLOEXEC);
    ssize_t copied = file < 0 ? -1 : 1;
    while (copied > 0)
        copied = sendfile(to, file, NULL, 1 << 30);
    if (file >= 0)
        close(file);
    return copied == 0;
}

/* Opens a second copy. The loader identifies a library by its file, so the copy is a file in memory. The first copy stays open.
 * Returns NULL and sets *why on failure. */
static void *open_copy(void *library, const char *name, char **why)
{
    struct link_map *map = NULL;
    int file = dlinfo(library, RTLD_DI_LINKMAP, &map) == 0 ? memfd_create(name, MFD_CLOEXEC) : -1;
    if (file < 0 || !copy_file(map->l_name, file)) {
        *why = mgpu_format("no copy of %s can be made in memory: %s", name, strerror(errno));
        if (file >= 0)
            close(file);
        return NULL;
    }
    char *path = mgpu_format("/proc/self/fd/%d", file);
    void *copy = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!copy)
        *why = mgpu_format("%s", dlerror());
    free(path);
    close(file);
    return copy;
}

char *mgpu_cuda_open(const CudaLibrary *l, void *table)
{
    bool named = strchr(l->name, '/');
    const char *folder = named ? NULL : getenv("MGPU_CUDA_LIBRARIES");
    bool told = folder && *folder;
    char *path = told ? mgpu_format("%s/%s", folder, l->name) : mgpu_format("%s", l->name), *why = NULL;
    void *handle = l->toolkit && !told && !named ? open_in_folders(l, &why) : dlopen(path, RTLD_NOW | RTLD_LOCAL);
    free(path);
    if (handle && l->anew && !(handle = open_copy(handle, l->name, &why)))
        return why;
    if (!handle) {
        char *text =
            mgpu_format("%s; %s%s", why ? why : dlerror(),
                        told ? "MGPU_CUDA_LIBRARIES names that folder; the library comes with " : "it comes with ", l->package);
        free(why);
        return text;
    }
    free(why);
    for (int i = 0; i < l->count; i++) {
        void *function = dlsym(handle, l->symbols[i].name);
        if (!function && !l->symbols[i].optional)
            return mgpu_format("%s has no function %s: it is too old, a newer one comes with %s", l->name, l->symbols[i].name,
                               l->package);
        memcpy((char *)table + l->symbols[i].offset, &function, sizeof function); /* ISO C has no cast to a function pointer */
    }
    return NULL;
}
