/* cudnn_cases.h: convolutions for cuDNN's backend API, and calls that are wrong, with the status of each: for NVIDIA's library
 * (cudnn_test.c) and for the stand-in of virtual GPUs (vgpu_cudnn_test.c). */
#ifndef CUDNN_CASES_H
#define CUDNN_CASES_H

#include "runtime/cuda/cudnn.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define CUDNN_FIELD(result, symbol, field, parameters) result(*field) parameters;
static struct {
    CUDNN_FUNCTIONS(CUDNN_FIELD)
} dnn;

static bool find_functions(void *library)
{
    bool all = true;
#define CUDNN_FIND(result, symbol, field, parameters)                                                                            \
    {                                                                                                                            \
        void *function = dlsym(library, #symbol);                                                                                \
        memcpy(&dnn.field, &function, sizeof function);                                                                          \
        if (!function)                                                                                                           \
            printf("not ok %s: the library has no such function\n", #symbol);                                                    \
        all = all && function;                                                                                                   \
    }
    CUDNN_FUNCTIONS(CUDNN_FIND)
    return all;
}

/* ---- convolutions of two dimensions, channels innermost; weights as [out, taps, in] */

enum { FORWARD, DATA, WEIGHTS };
enum { DNN_Y, DNN_X, DNN_W };
typedef struct DnnCase {
    int kind, type, weights_type;
    int64_t samples, in, out, side, size, stride, low, high, groups;
} DnnCase;

enum { MOST_DESCRIPTORS = 1000 };
static cudnnBackendDescriptor_t descriptors[MOST_DESCRIPTORS];
static int descriptor_count;

static cudnnBackendDescriptor_t new_descriptor(int type)
{
    cudnnBackendDescriptor_t d = NULL;
    if (descriptor_count == MOST_DESCRIPTORS || dnn.descriptor_create(type, &d))
        return NULL;
    return descriptors[descriptor_count++] = d;
}

static void free_descriptors(void)
{
    while (descriptor_count > 0)
        dnn.descriptor_destroy(descriptors[--descriptor_count]);
}

static cudnnBackendDescriptor_t new_tensor(int type, int64_t id, int64_t alignment, const int64_t extent[4],
                                           const int64_t stride[4])
{
    cudnnBackendDescriptor_t d = new_descriptor(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    dnn.set_attribute(d, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
    dnn.set_attribute(d, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, extent);
    dnn.set_attribute(d, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, stride);
    dnn.set_attribute(d, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &id);
    dnn.set_attribute(d, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &alignment);
    return d;
}

static cudnnBackendDescriptor_t new_packed(int type, int64_t id, int64_t first, int64_t channels, int64_t side)
{
    cudnnBackendDescriptor_t d = new_tensor(type, id, 16, (int64_t[]){first, channels, side, side},
                                            (int64_t[]){side * side * channels, 1, side * channels, channels});
    return dnn.finalize(d) ? NULL : d;
}

static cudnnBackendDescriptor_t new_windows(int type, int dims, int64_t stride, int64_t dilation, int64_t low, int64_t high)
{
    cudnnBackendDescriptor_t d = new_descriptor(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
    int compute = type == CUDNN_DATA_DOUBLE ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT, mode = CUDNN_CROSS_CORRELATION;
    int64_t two = 2;
    dnn.set_attribute(d, CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &compute);
    dnn.set_attribute(d, CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1, &mode);
    dnn.set_attribute(d, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, 1, &two);
    dnn.set_attribute(d, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, dims, (int64_t[]){stride, stride});
    dnn.set_attribute(d, CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, dims, (int64_t[]){dilation, dilation});
    dnn.set_attribute(d, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, dims, (int64_t[]){low, low});
    dnn.set_attribute(d, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, dims, (int64_t[]){high, high});
    return d;
}

static cudnnBackendDescriptor_t new_operation(int kind, cudnnBackendDescriptor_t windows, cudnnBackendDescriptor_t y,
                                              cudnnBackendDescriptor_t x, cudnnBackendDescriptor_t w)
{
    static const int TYPE[] = {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
                               CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
                               CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR};
    static const int PART[][6] = {
        {CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA,
         CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
         CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W},
        {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA,
         CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
         CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W},
        {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA,
         CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
         CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW}};
    static const float ONE = 1, ZERO = 0;
    const cudnnBackendDescriptor_t own[] = {windows, y, x, w};
    cudnnBackendDescriptor_t d = new_descriptor(TYPE[kind]);
    dnn.set_attribute(d, PART[kind][0], CUDNN_TYPE_FLOAT, 1, &ONE);
    dnn.set_attribute(d, PART[kind][1], CUDNN_TYPE_FLOAT, 1, &ZERO);
    for (int i = 0; i < 4; i++)
        dnn.set_attribute(d, PART[kind][2 + i], CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &own[i]);
    return d;
}

/* of the case; handle NULL: without one. *status: of its last call */
static cudnnBackendDescriptor_t new_graph(const DnnCase *c, cudnnHandle_t handle, cudnnStatus_t *status)
{
    cudnnBackendDescriptor_t graph = new_descriptor(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR),
                             windows = new_windows(c->type, 2, c->stride, 1, c->low, c->high);
    int64_t outputs = (c->side + c->low + c->high - c->size) / c->stride + 1;
    dnn.finalize(windows);
    cudnnBackendDescriptor_t operation = new_operation(c->kind, windows, new_packed(c->type, DNN_Y, c->samples, c->out, outputs),
                                                       new_packed(c->type, DNN_X, c->samples, c->in, c->side),
                                                       new_packed(c->weights_type, DNN_W, c->out, c->in / c->groups, c->size));
    *status = dnn.finalize(operation);
    if (handle)
        dnn.set_attribute(graph, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle);
    dnn.set_attribute(graph, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &operation);
    if (!*status)
        *status = dnn.finalize(graph);
    return graph;
}

/* ---- calls that are wrong */

static const int64_t EXTENT[] = {2, 4, 8, 8}, STRIDE[] = {256, 1, 32, 4};

static cudnnStatus_t set_numbers(cudnnBackendDescriptor_t d, int attribute, int type, int64_t count, const void *value)
{
    return dnn.set_attribute(d, attribute, type, count, value);
}

static cudnnStatus_t of_tensor(int64_t alignment, int64_t channel_stride)
{
    return dnn.finalize(new_tensor(CUDNN_DATA_FLOAT, 1, alignment, EXTENT, (int64_t[]){256, channel_stride, 32, 4}));
}

static cudnnStatus_t of_operation(int64_t outputs, int64_t channels, int64_t filter_stride, bool finished)
{
    cudnnBackendDescriptor_t windows = new_windows(CUDNN_DATA_FLOAT, 2, 1, 1, 0, 0),
                             x = new_tensor(CUDNN_DATA_FLOAT, 1, 16, EXTENT, STRIDE);
    cudnnBackendDescriptor_t w =
        new_tensor(CUDNN_DATA_FLOAT, 2, 16, (int64_t[]){6, channels, 3, 3},
                   (int64_t[]){9 * channels * filter_stride, 1, 3 * channels * filter_stride, channels * filter_stride});
    dnn.finalize(windows);
    dnn.finalize(w);
    if (finished)
        dnn.finalize(x);
    return dnn.finalize(new_operation(FORWARD, windows, new_packed(CUDNN_DATA_FLOAT, 0, 2, 6, outputs), x, w));
}

static cudnnStatus_t after_finishing(bool again)
{
    cudnnBackendDescriptor_t d = new_packed(CUDNN_DATA_FLOAT, 1, 2, 4, 8);
    return again ? dnn.finalize(d) : set_numbers(d, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, EXTENT);
}

static cudnnStatus_t asked(bool finished, int attribute, int type)
{
    cudnnBackendDescriptor_t d =
        finished ? new_packed(CUDNN_DATA_FLOAT, 1, 2, 4, 8) : new_tensor(CUDNN_DATA_FLOAT, 1, 16, EXTENT, STRIDE);
    int64_t count, value[8];
    return dnn.get_attribute(d, attribute, type, 4, &count, value);
}

static cudnnStatus_t of_pack(int64_t pointers)
{
    cudnnBackendDescriptor_t d = new_descriptor(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    void *const at[] = {(void *)256, (void *)512, (void *)1024};
    set_numbers(d, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, 3, (int64_t[]){0, 1, 2});
    set_numbers(d, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, pointers, at);
    return dnn.finalize(d);
}

static cudnnStatus_t empty(int type) { return dnn.finalize(new_descriptor(type)); }

/* the case is called `name`, and returns this status */
#define DNN_CASE(name, call, status) dnn_case(name, call, CUDNN_STATUS_##status)
static void dnn_case(const char *name, cudnnStatus_t is, cudnnStatus_t should)
{
    if (is == should)
        printf("ok %s: %s\n", name, dnn.get_error_string(should));
    else
        printf("not ok %s: %s, not %s\n", name, dnn.get_error_string(is), dnn.get_error_string(should));
}

static void test_statuses(void)
{
    cudnnBackendDescriptor_t d = new_descriptor(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    DNN_CASE("no descriptor to set", set_numbers(NULL, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, EXTENT),
             BAD_PARAM_NULL_POINTER);
    DNN_CASE("no descriptor to destroy", dnn.descriptor_destroy(NULL), BAD_PARAM_NULL_POINTER);
    DNN_CASE("an attribute of another descriptor", set_numbers(d, CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, 1, EXTENT),
             BAD_PARAM);
    DNN_CASE("an attribute by another type", set_numbers(d, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_FLOAT, 4, EXTENT),
             BAD_PARAM_ATTRIBUTE_TYPE);
    DNN_CASE("an attribute without elements", set_numbers(d, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 0, EXTENT),
             BAD_PARAM);
    DNN_CASE("an attribute of nothing", set_numbers(d, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, NULL), BAD_PARAM);
    DNN_CASE("two of what there is one of", set_numbers(d, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 2, (int[]){0, 0}),
             BAD_PARAM);
    DNN_CASE("an attribute set when all is finished", after_finishing(false), BAD_PARAM);
    DNN_CASE("a descriptor finished twice", after_finishing(true), BAD_PARAM);
    DNN_CASE("an attribute asked for before all is finished", asked(false, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64),
             NOT_INITIALIZED);
    DNN_CASE("an attribute that a descriptor has not", asked(true, CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64),
             BAD_PARAM);
    DNN_CASE("an attribute asked for by another type", asked(true, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_FLOAT),
             BAD_PARAM_ATTRIBUTE_TYPE);
    DNN_CASE("a tensor of nothing", empty(CUDNN_BACKEND_TENSOR_DESCRIPTOR), BAD_PARAM);
    DNN_CASE("a tensor", of_tensor(16, 1), SUCCESS);
    DNN_CASE("a stride below 0", of_tensor(16, -1), BAD_PARAM);
    DNN_CASE("an alignment that is none of the elements", of_tensor(2, 1), BAD_PARAM);
    DNN_CASE("a convolution of nothing", empty(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR), BAD_PARAM);
    DNN_CASE("a convolution", dnn.finalize(new_windows(CUDNN_DATA_FLOAT, 2, 1, 1, 0, 0)), SUCCESS);
    DNN_CASE("padding below 0", dnn.finalize(new_windows(CUDNN_DATA_FLOAT, 2, 1, 1, -1, 0)), BAD_PARAM);
    DNN_CASE("a stride of 0", dnn.finalize(new_windows(CUDNN_DATA_FLOAT, 2, 0, 1, 0, 0)), BAD_PARAM);
    DNN_CASE("a dilation of 0", dnn.finalize(new_windows(CUDNN_DATA_FLOAT, 2, 1, 0, 0, 0)), BAD_PARAM);
    DNN_CASE("fewer strides than dimensions", dnn.finalize(new_windows(CUDNN_DATA_FLOAT, 1, 1, 1, 0, 0)), BAD_PARAM);
    DNN_CASE("an operation", of_operation(6, 4, 1, true), SUCCESS);
    DNN_CASE("an operation of what is not finished", of_operation(6, 4, 1, false), BAD_PARAM);
    DNN_CASE("outputs that the windows do not have", of_operation(5, 4, 1, true), BAD_PARAM);
    DNN_CASE("weights of other channels", of_operation(6, 5, 1, true), BAD_PARAM);
    DNN_CASE("weights with gaps", of_operation(6, 4, 2, true), BAD_PARAM);
    DNN_CASE("a graph of nothing", empty(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR), BAD_PARAM);
    DNN_CASE("rules for no graph", empty(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR), BAD_PARAM);
    DNN_CASE("a plan of no engine", empty(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR), BAD_PARAM_NOT_FINALIZED);
    DNN_CASE("pointers", of_pack(3), SUCCESS);
    DNN_CASE("fewer pointers than ids", of_pack(2), BAD_PARAM);
    free_descriptors();
}
#endif
