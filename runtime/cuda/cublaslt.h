/* cublaslt.h: the part of cuBLASLt (libcublasLt.so.13 or .so.12) that is used, declared here. Names and numbers are those of
 * cublasLt.h, which both versions share (https://docs.nvidia.com/cuda/cublas/#using-the-cublaslt-api). CUBLASLT_FUNCTIONS lists
 * all functions. */
#ifndef MGPU_CUBLASLT_H
#define MGPU_CUBLASLT_H

#include "runtime/cuda/driver.h"

typedef int cublasStatus_t;
typedef struct cublasLtContext *cublasLtHandle_t;
typedef struct cublasLtMatmulDesc *cublasLtMatmulDesc_t;
typedef struct cublasLtMatrixLayout *cublasLtMatrixLayout_t;
typedef struct cublasLtMatmulPreference *cublasLtMatmulPreference_t;
typedef struct cublasLtMatmulAlgo_t {
    uint64_t data[8];
} cublasLtMatmulAlgo_t;
typedef struct cublasLtMatmulHeuristicResult_t {
    cublasLtMatmulAlgo_t algo;
    size_t workspaceSize;
    cublasStatus_t state;
    float wavesCount;
    int reserved[4];
} cublasLtMatmulHeuristicResult_t;

/* clang-format off */
enum { CUBLAS_STATUS_SUCCESS = 0, CUBLAS_STATUS_NOT_INITIALIZED = 1, CUBLAS_STATUS_ALLOC_FAILED = 3, CUBLAS_STATUS_INVALID_VALUE = 7,
       CUBLAS_STATUS_ARCH_MISMATCH = 8, CUBLAS_STATUS_EXECUTION_FAILED = 13, CUBLAS_STATUS_INTERNAL_ERROR = 14,
       CUBLAS_STATUS_NOT_SUPPORTED = 15 };
/* clang-format on */
enum { CUBLAS_OP_N = 0, CUBLAS_OP_T = 1 };
enum { CUBLAS_COMPUTE_32F = 68, CUBLAS_COMPUTE_64F = 70, CUBLAS_COMPUTE_32F_FAST_TF32 = 77 };
enum { CUDA_R_32F = 0, CUDA_R_64F = 1, CUDA_R_16F = 2, CUDA_R_16BF = 14 };
enum { CUBLASLT_MATRIX_LAYOUT_LD = 4, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT = 5, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET = 6 };
/* clang-format off */
enum { CUBLASLT_MATMUL_DESC_TRANSA = 3, CUBLASLT_MATMUL_DESC_TRANSB = 4, CUBLASLT_MATMUL_DESC_EPILOGUE = 7,
       CUBLASLT_MATMUL_DESC_BIAS_POINTER = 8, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER = 11, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD = 12,
       CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_BATCH_STRIDE = 13, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE = 26 };
/* clang-format on */
enum {
    CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES = 1,
    CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK = 3,
    CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES = 5,
    CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES = 6,
    CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES = 7,
    CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES = 8
};
enum { CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE = 2 };
enum {
    CUBLASLT_EPILOGUE_DEFAULT = 1,
    CUBLASLT_EPILOGUE_RELU = 2,
    CUBLASLT_EPILOGUE_BIAS = 4,
    CUBLASLT_EPILOGUE_RELU_BIAS = 6,
    CUBLASLT_EPILOGUE_GELU = 32,
    CUBLASLT_EPILOGUE_GELU_BIAS = 36,
    CUBLASLT_EPILOGUE_GELU_AUX = 160,
    CUBLASLT_EPILOGUE_GELU_AUX_BIAS = 164,
    CUBLASLT_EPILOGUE_DGELU = 192,
    CUBLASLT_EPILOGUE_DGELU_BGRAD = 208,
    CUBLASLT_EPILOGUE_RELU_AUX = 130,
    CUBLASLT_EPILOGUE_RELU_AUX_BIAS = 134,
    CUBLASLT_EPILOGUE_DRELU = 136,
    CUBLASLT_EPILOGUE_DRELU_BGRAD = 152,
    CUBLASLT_EPILOGUE_BGRADA = 256,
    CUBLASLT_EPILOGUE_BGRADB = 512
};

/* X(result, symbol in the library, field of the table, parameters) */
/* clang-format off */
#define CUBLASLT_FUNCTIONS(X)                                                                                          \
    X(size_t, cublasLtGetVersion, get_version, (void))                                                                 \
    X(const char *, cublasLtGetStatusName, get_status_name, (cublasStatus_t status))                                   \
    X(cublasStatus_t, cublasLtCreate, create, (cublasLtHandle_t *handle))                                              \
    X(cublasStatus_t, cublasLtDestroy, destroy, (cublasLtHandle_t handle))                                             \
    X(cublasStatus_t, cublasLtMatmulDescCreate, desc_create, (cublasLtMatmulDesc_t *desc, int compute_type, int scale_type)) \
    X(cublasStatus_t, cublasLtMatmulDescDestroy, desc_destroy, (cublasLtMatmulDesc_t desc))                            \
    X(cublasStatus_t, cublasLtMatmulDescSetAttribute, desc_set,                                                        \
      (cublasLtMatmulDesc_t desc, int attribute, const void *value, size_t bytes))                                     \
    X(cublasStatus_t, cublasLtMatrixLayoutCreate, layout_create,                                                       \
      (cublasLtMatrixLayout_t *layout, int type, uint64_t rows, uint64_t columns, int64_t pitch))                      \
    X(cublasStatus_t, cublasLtMatrixLayoutDestroy, layout_destroy, (cublasLtMatrixLayout_t layout))                    \
    X(cublasStatus_t, cublasLtMatrixLayoutSetAttribute, layout_set,                                                    \
      (cublasLtMatrixLayout_t layout, int attribute, const void *value, size_t bytes))                                 \
    X(cublasStatus_t, cublasLtMatmulPreferenceCreate, preference_create, (cublasLtMatmulPreference_t *preference))     \
    X(cublasStatus_t, cublasLtMatmulPreferenceDestroy, preference_destroy, (cublasLtMatmulPreference_t preference))    \
    X(cublasStatus_t, cublasLtMatmulPreferenceSetAttribute, preference_set,                                            \
      (cublasLtMatmulPreference_t preference, int attribute, const void *value, size_t bytes))                         \
    X(cublasStatus_t, cublasLtMatmulAlgoGetHeuristic, get_heuristic,                                                   \
      (cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,         \
       cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d, cublasLtMatmulPreference_t preference, int wanted,          \
       cublasLtMatmulHeuristicResult_t *results, int *count))                                                          \
    X(cublasStatus_t, cublasLtMatmul, matmul,                                                                          \
      (cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, const void *alpha, const void *a,                           \
       cublasLtMatrixLayout_t a_layout, const void *b, cublasLtMatrixLayout_t b_layout, const void *beta,              \
       const void *c, cublasLtMatrixLayout_t c_layout, void *d, cublasLtMatrixLayout_t d_layout,                       \
       const cublasLtMatmulAlgo_t *algo, void *workspace, size_t workspace_bytes, CUstream stream))
/* clang-format on */
#endif
