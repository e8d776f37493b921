/* cudnn.h: the part of cuDNN 9 (libcudnn.so.9) that is used, declared here. Names and numbers are those of cudnn_graph.h. Only
 * the backend API is used: a convolution is a graph of one operation, for which the library's heuristics name engines
 * (https://docs.nvidia.com/deeplearning/cudnn/latest/api/cudnn-graph-library.html). CUDNN_FUNCTIONS lists all functions. */
#ifndef MGPU_CUDNN_H
#define MGPU_CUDNN_H

#include "runtime/cuda/driver.h"

typedef int cudnnStatus_t;
typedef struct cudnnContext *cudnnHandle_t;
typedef void *cudnnBackendDescriptor_t;

enum {
    CUDNN_STATUS_SUCCESS = 0,
    CUDNN_STATUS_NOT_INITIALIZED = 1001,
    CUDNN_STATUS_BAD_PARAM = 2000,
    CUDNN_STATUS_BAD_PARAM_NULL_POINTER = 2002,
    CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER = 2003,
    CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED = 2004,
    CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH = 2008,
    CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE = 2010,
    CUDNN_STATUS_NOT_SUPPORTED = 3000,
    CUDNN_STATUS_NOT_SUPPORTED_LAYOUT = 3004,
    CUDNN_STATUS_NOT_SUPPORTED_ARCH_MISMATCH = 3007,
    CUDNN_STATUS_INTERNAL_ERROR = 4000,
    CUDNN_STATUS_EXECUTION_FAILED = 5000
};
enum { CUDNN_DATA_FLOAT = 0, CUDNN_DATA_DOUBLE = 1, CUDNN_DATA_HALF = 2, CUDNN_DATA_BFLOAT16 = 9 };
enum { CUDNN_CROSS_CORRELATION = 1 };
enum { CUDNN_HEUR_MODE_FALLBACK = 2, CUDNN_HEUR_MODE_A = 3 };
/* clang-format off */
enum { CUDNN_NUMERICAL_NOTE_TENSOR_CORE = 0, CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS = 1,
       CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION = 2, CUDNN_NUMERICAL_NOTE_FFT = 3, CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC = 4,
       CUDNN_NUMERICAL_NOTE_WINOGRAD = 5, CUDNN_NUMERICAL_NOTE_TYPE_COUNT = 10 };
enum { CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR = 1, CUDNN_BACKEND_ENGINE_DESCRIPTOR = 2, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR = 3,
       CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR = 4, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR = 5,
       CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR = 10, CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR = 11,
       CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR = 12, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR = 15,
       CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR = 16, CUDNN_BACKEND_TENSOR_DESCRIPTOR = 17 };
enum { CUDNN_TYPE_HANDLE = 0, CUDNN_TYPE_DATA_TYPE = 1, CUDNN_TYPE_INT64 = 3, CUDNN_TYPE_FLOAT = 4, CUDNN_TYPE_DOUBLE = 5,
       CUDNN_TYPE_VOID_PTR = 6, CUDNN_TYPE_CONVOLUTION_MODE = 7, CUDNN_TYPE_HEUR_MODE = 8, CUDNN_TYPE_NUMERICAL_NOTE = 11,
       CUDNN_TYPE_BACKEND_DESCRIPTOR = 15 };
enum { CUDNN_ATTR_CONVOLUTION_COMP_TYPE = 100, CUDNN_ATTR_CONVOLUTION_CONV_MODE = 101, CUDNN_ATTR_CONVOLUTION_DILATIONS = 102,
       CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES = 103, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS = 104, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS = 105,
       CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS = 106 };
enum { CUDNN_ATTR_ENGINEHEUR_MODE = 200, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH = 201, CUDNN_ATTR_ENGINEHEUR_RESULTS = 202,
       CUDNN_ATTR_ENGINECFG_ENGINE = 300, CUDNN_ATTR_EXECUTION_PLAN_HANDLE = 400, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG = 401,
       CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE = 402, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE = 1303 };
enum { CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA = 700, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA = 701,
       CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC = 702, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W = 703,
       CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X = 704, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y = 705,
       CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA = 706, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA = 707,
       CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC = 708, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W = 709,
       CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX = 710, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY = 711,
       CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA = 712, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA = 713,
       CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC = 714, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW = 715,
       CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X = 716, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY = 717 };
enum { CUDNN_ATTR_OPERATIONGRAPH_HANDLE = 800, CUDNN_ATTR_OPERATIONGRAPH_OPS = 801, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT = 900,
       CUDNN_ATTR_TENSOR_DATA_TYPE = 901, CUDNN_ATTR_TENSOR_DIMENSIONS = 902, CUDNN_ATTR_TENSOR_STRIDES = 903,
       CUDNN_ATTR_TENSOR_UNIQUE_ID = 906, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS = 1000, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS = 1001,
       CUDNN_ATTR_VARIANT_PACK_WORKSPACE = 1003 };

/* X(result, symbol in the library, field of the table, parameters) */
#define CUDNN_FUNCTIONS(X)                                                                                             \
    X(size_t, cudnnGetVersion, get_version, (void))                                                                    \
    X(const char *, cudnnGetErrorString, get_error_string, (cudnnStatus_t status))                                     \
    X(cudnnStatus_t, cudnnCreate, create, (cudnnHandle_t *handle))                                                     \
    X(cudnnStatus_t, cudnnDestroy, destroy, (cudnnHandle_t handle))                                                    \
    X(cudnnStatus_t, cudnnSetStream, set_stream, (cudnnHandle_t handle, CUstream stream))                              \
    X(cudnnStatus_t, cudnnBackendCreateDescriptor, descriptor_create, (int type, cudnnBackendDescriptor_t *descriptor)) \
    X(cudnnStatus_t, cudnnBackendDestroyDescriptor, descriptor_destroy, (cudnnBackendDescriptor_t descriptor))         \
    X(cudnnStatus_t, cudnnBackendSetAttribute, set_attribute,                                                          \
      (cudnnBackendDescriptor_t descriptor, int attribute, int type, int64_t count, const void *elements))             \
    X(cudnnStatus_t, cudnnBackendGetAttribute, get_attribute,                                                          \
      (cudnnBackendDescriptor_t descriptor, int attribute, int type, int64_t wanted, int64_t *count, void *elements))  \
    X(cudnnStatus_t, cudnnBackendFinalize, finalize, (cudnnBackendDescriptor_t descriptor))                            \
    X(cudnnStatus_t, cudnnBackendExecute, execute,                                                                     \
      (cudnnHandle_t handle, cudnnBackendDescriptor_t plan, cudnnBackendDescriptor_t pack))
/* clang-format on */
#endif
