/* driver.c: loads NVIDIA's driver and looks up its functions, once in a process. */
#include "runtime/base/base.h"
#include "runtime/base/context.h"
#include "runtime/cuda/driver.h"
#include "runtime/cuda/gpus.h"
#include "runtime/cuda/library.h"

#include <pthread.h>
#include <stdlib.h>

#define CUDA_SYMBOL(symbol, field, parameters) {#symbol, offsetof(CudaDriver, field), false},
#define CUDA_OPTIONAL(symbol, field, parameters) {#symbol, offsetof(CudaDriver, field), true},
static const CudaSymbol SYMBOLS[] = {CUDA_FUNCTIONS(CUDA_SYMBOL)
                                         CUDA_LATER(CUDA_OPTIONAL){"vgpuDeclare", offsetof(CudaDriver, declare), true},
                                     {"vgpuTell", offsetof(CudaDriver, publish), true},
                                     {"vgpuHear", offsetof(CudaDriver, waited_for), true}};
#undef CUDA_SYMBOL
#undef CUDA_OPTIONAL
static const CudaLibrary LIBRARY = {.name = "libcuda.so.1",
                                    .package = "NVIDIA's driver (on Debian the package libcuda1)",
                                    .symbols = SYMBOLS,
                                    .count = MGPU_COUNT(SYMBOLS)};

static struct {
    pthread_once_t once;
    CudaDriver table;
    char *why;
} loaded = {.once = PTHREAD_ONCE_INIT};

static void open_driver(void)
{
    loaded.why = mgpu_cuda_open(&LIBRARY, &loaded.table);
    CUresult result = loaded.why ? CUDA_SUCCESS : loaded.table.init(0);
    char text[200];
    if (result == CUDA_ERROR_NO_DEVICE) /* there is no GPU, or CUDA_VISIBLE_DEVICES excludes all */
        loaded.why = mgpu_no_gpu();
    else if (result != CUDA_SUCCESS)
        loaded.why = mgpu_format("NVIDIA's driver does not start: %s", mgpu_cuda_error(&loaded.table, result, text));
}

const CudaDriver *mgpu_cuda_driver(const char **why)
{
    bool apart = mgpu_context_apart(true);
    pthread_once(&loaded.once, open_driver);
    mgpu_context_apart(apart);
    *why = loaded.why;
    return loaded.why ? NULL : &loaded.table;
}

bool mgpu_cuda_is_virtual(void)
{
    const char *why;
    mgpu_cuda_driver(&why);
    return loaded.table.declare != NULL;
}

int mgpu_cuda_driver_version(void)
{
    struct {
        CUresult (*get)(int *);
    } table;
    static const CudaSymbol GET = {"cuDriverGetVersion", 0, false};
    CudaLibrary library = {.name = LIBRARY.name, .package = LIBRARY.package, .symbols = &GET, .count = 1};
    char *why = mgpu_cuda_open(&library, &table);
    int version = 0;
    if (!why)
        table.get(&version);
    free(why);
    return version;
}

const char *mgpu_cuda_error(const CudaDriver *cuda, CUresult error, char text[200])
{
    const char *name = NULL, *words = NULL;
    cuda->get_error_name(error, &name);
    cuda->get_error_string(error, &words);
    snprintf(text, 200, "%s: %s", name ? name : "an error", words ? words : "of an unknown kind");
    if (!name)
        snprintf(text, 200, "error %d, which the driver has no name for", error);
    return text;
}
