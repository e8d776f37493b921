/* cublaslt_test: what runtime/cuda/cublaslt.h says of cuBLASLt, held against NVIDIA's library where the machine has it. It needs
 * no GPU to take descriptions; what it does not know, or of another size, it refuses. */
#include "runtime/cuda/cublaslt.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define FIELD(result, symbol, field, parameters) result(*field) parameters;
static struct {
    CUBLASLT_FUNCTIONS(FIELD)
} f;

static void say(const char *name, int status)
{
    if (status == CUBLAS_STATUS_SUCCESS)
        printf("ok %s\n", name);
    else
        printf("not ok %s: %s\n", name, f.get_status_name(status));
}

static bool find_all(void *library)
{
    bool all = true;
#define FIND(result, symbol, field, parameters)                                                                                  \
    {                                                                                                                            \
        void *function = dlsym(library, #symbol);                                                                                \
        memcpy(&f.field, &function, sizeof function);                                                                            \
        if (!function)                                                                                                           \
            printf("not ok %s: the library has no such function\n", #symbol);                                                    \
        all = all && function;                                                                                                   \
    }
    CUBLASLT_FUNCTIONS(FIND)
    return all;
}

static void test_description(int compute, int scale)
{
    static const int NUMBERS[] = {
        CUBLASLT_EPILOGUE_DEFAULT, CUBLASLT_EPILOGUE_RELU,        CUBLASLT_EPILOGUE_BIAS,     CUBLASLT_EPILOGUE_RELU_BIAS,
        CUBLASLT_EPILOGUE_GELU,    CUBLASLT_EPILOGUE_GELU_BIAS,   CUBLASLT_EPILOGUE_GELU_AUX, CUBLASLT_EPILOGUE_GELU_AUX_BIAS,
        CUBLASLT_EPILOGUE_DGELU,   CUBLASLT_EPILOGUE_DGELU_BGRAD, CUBLASLT_EPILOGUE_RELU_AUX, CUBLASLT_EPILOGUE_RELU_AUX_BIAS,
        CUBLASLT_EPILOGUE_DRELU,   CUBLASLT_EPILOGUE_DRELU_BGRAD, CUBLASLT_EPILOGUE_BGRADA,   CUBLASLT_EPILOGUE_BGRADB};
    cublasLtMatmulDesc_t desc = NULL;
    int32_t transposed = CUBLAS_OP_T;
    void *pointer = NULL;
    int64_t pitch = 8;
    int32_t type = CUDA_R_16BF;
    int status = f.desc_create(&desc, compute, scale);
    for (int i = 0; i < 2 && !status; i++)
        status = f.desc_set(desc, CUBLASLT_MATMUL_DESC_TRANSA + i, &transposed, sizeof transposed);
    for (size_t i = 0; i < sizeof NUMBERS / sizeof *NUMBERS && !status; i++) {
        uint32_t epilogue = (uint32_t)NUMBERS[i];
        status = f.desc_set(desc, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue);
    }
    status = status ? status : f.desc_set(desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &pointer, sizeof pointer);
    status = status ? status : f.desc_set(desc, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, &pointer, sizeof pointer);
    status = status ? status : f.desc_set(desc, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, &pitch, sizeof pitch);
    status = status ? status : f.desc_set(desc, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_BATCH_STRIDE, &pitch, sizeof pitch);
    status = status ? status : f.desc_set(desc, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, &type, sizeof type);
    char name[80];
    snprintf(name, sizeof name, "a matmul in compute type %d", compute);
    say(name, status ? status : f.desc_destroy(desc));
}

static void test_layouts(void)
{
    static const int TYPES[] = {CUDA_R_32F, CUDA_R_64F, CUDA_R_16F, CUDA_R_16BF};
    int status = 0;
    for (int i = 0; i < 4 && !status; i++) {
        cublasLtMatrixLayout_t layout = NULL;
        int32_t members = 3;
        int64_t apart = 40;
        status = f.layout_create(&layout, TYPES[i], 4, 8, 5);
        status = status ? status : f.layout_set(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &members, sizeof members);
        status = status ? status : f.layout_set(layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &apart, sizeof apart);
        status = status ? status : f.layout_destroy(layout);
    }
    say("layouts", status);
}

static void test_preference(void)
{
    cublasLtMatmulPreference_t preference = NULL;
    uint64_t workspace = 4 << 20;
    uint32_t schemes = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE, alignment = 16;
    int status = f.preference_create(&preference);
    status =
        status ? status : f.preference_set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace, sizeof workspace);
    status = status ? status : f.preference_set(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &schemes, sizeof schemes);
    for (int i = CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES; i <= CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES && !status; i++)
        status = f.preference_set(preference, i, &alignment, sizeof alignment);
    say("preferences", status ? status : f.preference_destroy(preference));
}

int main(void)
{
    static const char *const NAMES[] = {"libcublasLt.so.13", "libcublasLt.so.12", "/usr/local/cuda/lib64/libcublasLt.so",
                                        "/usr/local/cuda/lib/libcublasLt.so"};
    void *library = NULL;
    for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES && !library; i++)
        library = dlopen(NAMES[i], RTLD_LAZY | RTLD_LOCAL);
    if (!library) {
        printf("skip cublaslt_test: there is no cuBLASLt here\n");
        return 0;
    }
    if (!find_all(library))
        return 0;
    size_t version = f.get_version();
    if (version >= 120000 && version < 140000)
        printf("ok version %zu\n", version);
    else
        printf("not ok version: %zu is none that is known\n", version);
    test_description(CUBLAS_COMPUTE_32F, CUDA_R_32F);
    test_description(CUBLAS_COMPUTE_32F_FAST_TF32, CUDA_R_32F);
    test_description(CUBLAS_COMPUTE_64F, CUDA_R_64F);
    test_layouts();
    test_preference();
    return 0;
}
