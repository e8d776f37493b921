/* folders.c: the folders that may have CUDA's libraries: those of the user's choice (a toolkit, an environment of Python or Conda
 * with NVIDIA's wheels), then where the loader looks, then the toolkit's usual place, then where mgpuc found them.
 *
 * Relative paths are not used, as anybody may have put a library into the current folder.
 *
 * A wheel has its libraries in site-packages/nvidia/PART/lib, such as nvidia/cu13/lib, nvidia/cuda_nvrtc/lib, nvidia/nccl/lib. */
#include "runtime/base/base.h"
#include "runtime/cuda/library.h"

#include <glob.h>
#include <stdlib.h>
#include <string.h>

static void add_folder(CudaFolders *f, const char *path) { MGPU_PUSH(f->list, f->count, mgpu_format("%s", path)); }

/* In reverse order, so that newer versions of the toolkit come first: 13.0 before 12.4. */
static void add_matches(CudaFolders *f, const char *root, const char *pattern)
{
    glob_t found;
    char *whole = mgpu_format("%s/%s", root, pattern);
    if (*root == '/' && glob(whole, 0, NULL, &found) == 0) {
        for (size_t i = found.gl_pathc; i-- > 0;)
            add_folder(f, found.gl_pathv[i]);
        globfree(&found);
    }
    free(whole);
}

static const char *variable(const char *name)
{
    const char *value = getenv(name);
    return value ? value : "";
}

CudaFolders mgpu_cuda_folders(const char *besides)
{
    static const char *const TOOLKIT[] = {"lib64", "targets/*-linux/lib", "lib"};
    static const char WHEELS[] = "lib/python3*/site-packages/nvidia/*/lib";
    CudaFolders f = {0};
    for (int i = 0; i < MGPU_COUNT(TOOLKIT); i++)
        add_matches(&f, variable("CUDA_HOME"), TOOLKIT[i]);
    add_matches(&f, variable("VIRTUAL_ENV"), WHEELS);
    add_matches(&f, variable("CONDA_PREFIX"), "lib");
    add_matches(&f, variable("CONDA_PREFIX"), WHEELS);
    f.chosen = f.count;
    add_folder(&f, "");
    add_matches(&f, "/usr/local", "cuda/lib64");
    add_matches(&f, "/usr/local", "cuda-*/lib64");
    for (const char *at = besides ? besides : ""; *at;) {
        size_t length = strcspn(at, ":");
        char *path = mgpu_format("%.*s", (int)length, at);
        if (*path == '/')
            add_folder(&f, path);
        free(path);
        at += length + (at[length] == ':');
    }
    return f;
}

void mgpu_free_folders(CudaFolders *f)
{
    for (int i = 0; i < f->count; i++)
        free(f->list[i]);
    free(f->list);
}
