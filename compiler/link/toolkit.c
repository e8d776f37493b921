/* toolkit.c: find CUDA's toolkit on this machine: NVRTC for mgpuc; cuBLASLt, cuDNN and NCCL for the program, which is given the
 * folders that it would not find by itself.
 *
 * Folders are searched in the order of runtime/cuda/library.h, and then in NVIDIA's wheels, as python3 finds them. NVRTC is taken
 * from the first folder where it is not too new for the driver here; within a folder, the newest is taken. */
#include "compiler/link/translation_units.h"
#include "runtime/cuda/driver.h"
#include "runtime/cuda/library.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const NVRTC[] = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so", NULL};
static const char *const CUBLASLT[] = {"libcublasLt.so.13", "libcublasLt.so.12", NULL}, *const CUDNN[] = {"libcudnn.so.9", NULL},
                         *const NCCL[] = {"libnccl.so.2", NULL};

/* Returns "A/nvidia/cu13/lib:A/nvidia/nccl/lib", or "". Python is asked once. Modules in the current folder, which python3 -c
 * would prefer, are never run. */
static const char *python_folders(void)
{
    static const char *answer;
    if (answer)
        return answer;
    FILE *f = popen(
        "python3 -c 'import sys; sys.path = [p for p in sys.path if p[:1] == \"/\"]; import glob, nvidia; print(*(d for p in nvidia.__path__ for d in sorted(glob.glob(p + \"/*/lib\"))), sep=\":\", end=\"\")' 2>&1",
        "r");
    char text[8192];
    size_t length = f ? fread(text, 1, sizeof text, f) : 0;
    bool good = f && pclose(f) == 0 && length < sizeof text;
    return answer = copy_text(text, good ? length : 0);
}

static const char *path_of(const char *folder, const char *name) { return *folder ? format("%s/%s", folder, name) : name; }

/* ---- NVRTC */
typedef struct FoundLibrary {
    void *library;
    const char *path;
    int version; /* 13000 is 13.0 */
} FoundLibrary;

static FoundLibrary open_nvrtc(const char *path)
{
    FoundLibrary f = {dlopen(path, RTLD_NOW | RTLD_LOCAL), path, 0};
    int major = 0, minor = 0, (*version)(int *, int *);
    void *function = f.library ? dlsym(f.library, "nvrtcVersion") : NULL;
    memcpy(&version, &function, sizeof version);
    if (function && version(&major, &minor) == 0)
        f.version = 1000 * major + 10 * minor;
    return f;
}

/* Returns whether NVRTC is too new for the driver, which runs only what toolkits of its own major version or older ones have
 * made. */
static bool too_new(int version, int driver) { return driver > 0 && version / 1000 > driver / 1000; }

static FoundLibrary find_nvrtc(const CudaFolders *folders, int first, int driver, FoundLibrary *newer)
{
    for (int f = first; f < folders->count; f++)
        for (int n = 0; NVRTC[n]; n++) {
            const char *path = path_of(folders->list[f], NVRTC[n]);
            FoundLibrary found = strchr(path, '/') && access(path, R_OK) ? (FoundLibrary){0} : open_nvrtc(path);
            if (found.library && !too_new(found.version, driver))
                return found;
            if (found.library && !newer->library)
                *newer = found;
        }
    return (FoundLibrary){0};
}

void *toolkit_nvrtc(void)
{
    const char *named = getenv("MGPU_NVRTC");
    if (named && *named) {
        void *library = dlopen(named, RTLD_NOW | RTLD_LOCAL);
        if (!library)
            fail(3, "kernels for GPUs need NVRTC, and MGPU_NVRTC=%s cannot be opened: %s", named, dlerror());
        return library;
    }
    int driver = mgpu_cuda_driver_version();
    FoundLibrary newer = {0};
    CudaFolders folders = mgpu_cuda_folders(NULL);
    FoundLibrary f = find_nvrtc(&folders, 0, driver, &newer);
    if (!f.library) {
        CudaFolders more = mgpu_cuda_folders(python_folders());
        f = find_nvrtc(&more, folders.count, driver, &newer);
    }
    f = f.library ? f : newer;
    if (!f.library)
        fail(
            3,
            "kernels for GPUs need NVRTC, and libnvrtc.so.13 (or .12) was not found in CUDA_HOME, in /usr/local/cuda or among the wheels of VIRTUAL_ENV, "
            "CONDA_PREFIX or python3. Install it (python3 -m pip install nvidia-cuda-nvrtc; Debian with NVIDIA's repository: apt-get install "
            "cuda-nvrtc-13-0), or name it: MGPU_NVRTC=/opt/cuda/lib64/libnvrtc.so.13 mgpuc ...");
    setenv("MGPU_NVRTC", f.path, 1); /* for the processes that compile */
    return f.library;
}

void toolkit_compare(int version)
{
    int driver = mgpu_cuda_driver_version();
    if (too_new(version, driver))
        fprintf(
            stderr,
            "mgpuc: warning: NVRTC %d.%d is newer than the driver here, which is of CUDA %d.%d and will not load these kernels; install a "
            "driver of CUDA %d.0 or newer, or an NVRTC of CUDA %d: python3 -m pip install nvidia-cuda-nvrtc-cu%d\n",
            version / 1000, version / 10 % 100, driver / 1000, driver / 10 % 100, version / 1000, driver / 1000, driver / 1000);
}

/* ---- libraries that programs open */

/* Returns the first folder that has the library under one of its names; -1: none. */
static int holder_of(const CudaFolders *folders, const char *const *names)
{
    for (int n = 0; names[n]; n++)
        for (int f = 0; f < folders->count; f++) {
            const char *path = path_of(folders->list[f], names[n]);
            bool loaders = !strchr(path, '/');
            void *library = loaders ? dlopen(path, RTLD_LAZY | RTLD_LOCAL) : NULL;
            if (library)
                dlclose(library);
            if (library || (!loaders && access(path, R_OK) == 0))
                return f;
        }
    return -1;
}

const char *toolkit_folders(void)
{
    const char *const *const libraries[] = {CUBLASLT, CUDNN, NCCL};
    Text list = {0};
    for (int l = 0; l < COUNT(libraries); l++) {
        CudaFolders folders = mgpu_cuda_folders(NULL);
        int usual = folders.count, f = holder_of(&folders, libraries[l]);
        if (f < 0) {
            folders = mgpu_cuda_folders(python_folders());
            f = holder_of(&folders, libraries[l]);
        }
        if (f >= 0 && (f < folders.chosen || f >= usual)) /* the program searches the others by itself */
            text_add(&list, "%s%s", list.length ? ":" : "", folders.list[f]);
    }
    return list.length ? text_take(&list) : NULL;
}
