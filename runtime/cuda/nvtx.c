/* nvtx.c: the part of NVTX 3 that a program must implement, which NVIDIA's headers otherwise do (nvtx3/nvtxDetail/nvtxInit.h,
 * nvtxTypes.h, https://github.com/NVIDIA/NVTX; names and numbers are from there).
 *
 * A tool's library exports InitializeInjectionNvtx2. Its argument is a function that returns tables by number. The table
 * CALLBACKS has a function that returns, for a module, an array of pointers to the program's function pointers, and the tool sets
 * those that it wants. */
#include "runtime/cuda/nvtx.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef void (*NvtxFunction)(void);
enum {
    NVTX_ETID_CALLBACKS = 1,
    NVTX_CB_MODULE_CORE = 1,
    NVTX_CBID_CORE_RangePushA = 9,
    NVTX_CBID_CORE_RangePop = 11,
    NVTX_CBID_CORE_SIZE = 16
};
typedef struct NvtxExportTableCallbacks {
    size_t struct_size;
    int (*GetModuleFunctionTable)(int module, NvtxFunction ***out_table, unsigned *out_size);
} NvtxExportTableCallbacks;
typedef const void *NvtxGetExportTable(uint32_t id);
typedef int NvtxInitialize(NvtxGetExportTable *);

static struct {
    NvtxFunction set[NVTX_CBID_CORE_SIZE]; /* by the tool */
    NvtxFunction *places[NVTX_CBID_CORE_SIZE];
} nvtx;

static int module_table(int module, NvtxFunction ***out_table, unsigned *out_size)
{
    if (module != NVTX_CB_MODULE_CORE)
        return 0;
    for (int i = 0; i < NVTX_CBID_CORE_SIZE; i++)
        nvtx.places[i] = &nvtx.set[i];
    *out_table = nvtx.places;
    *out_size = NVTX_CBID_CORE_SIZE;
    return 1;
}

static const void *export_table(uint32_t id)
{
    static const NvtxExportTableCallbacks CALLBACKS = {sizeof CALLBACKS, module_table};
    return id == NVTX_ETID_CALLBACKS ? &CALLBACKS : NULL;
}

static void find_tool(void)
{
    const char *path = getenv("NVTX_INJECTION64_PATH");
    void *library = path && *path ? dlopen(path, RTLD_LAZY) : NULL,
         *found = library ? dlsym(library, "InitializeInjectionNvtx2") : NULL;
    NvtxInitialize *initialize;
    memcpy(&initialize, &found, sizeof found); /* ISO C has no cast to a function pointer */
    if (!found || !initialize(export_table))
        memset(nvtx.set, 0, sizeof nvtx.set);
}

static NvtxFunction function_of(int id)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, find_tool);
    return nvtx.set[id];
}

void mgpu_nvtx_push(const char *name)
{
    int (*push)(const char *) = (int (*)(const char *))function_of(NVTX_CBID_CORE_RangePushA);
    if (push)
        push(name);
}

void mgpu_nvtx_pop(void)
{
    int (*pop)(void) = (int (*)(void))function_of(NVTX_CBID_CORE_RangePop);
    if (pop)
        pop();
}
