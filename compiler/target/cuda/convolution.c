/* convolution.c: which contractions are convolutions for which a GPU library may be used, and their parameters there.
 *
 * In: a Contraction with an mgpu_convolution (kernel/contraction.c), which describes its axes, forward or not. Out:
 * mgpu_library_convolution (mgpu.h), if x and y are channels-last without gaps, w has one of three orders, and all three have one
 * type: cuDNN has no engine for an f32 gradient of bf16 or f16.
 *
 *     windows of A               result     for the library, y = w * x
 *     with the stride            y          forward
 *     with the stride            w          gradient of w
 *     dilated by it, w reversed  y          gradient of x: A is y's, the result is x's, out and in change places */
#include "compiler/base/c_text.h"
#include "compiler/kernel/contraction_internal.h"
#include "compiler/target/cuda/library.h"

#include <string.h>

enum { LEAST_DIMS = 2 /* that the library requires */ };

/* Returns true for samples, positions, channels without gaps. */
static bool is_packed(int dims, const int64_t *places, int64_t channels, const int64_t *stride)
{
    int64_t next = channels;
    for (int d = dims - 1; d >= 0; next *= places[d--])
        if (places[d] != 1 && stride[2 + d] != next)
            return false;
    return (channels == 1 || stride[1] == 1) && stride[0] == next;
}

/* Returns true if w is stored without gaps, with its axes in this order, the outermost first. */
static bool is_in_order(int axes, const int *order, const int64_t *extent, const int64_t *stride)
{
    int64_t next = 1;
    for (int i = axes - 1; i >= 0; next *= extent[order[i--]])
        if (extent[order[i]] != 1 && stride[order[i]] != next)
            return false;
    return true;
}

/* Writes the axes of w, the outermost first; out, in: which of the first two axes those are. */
static int order_axes(uint8_t filter, int dims, int out, int in, int order[5])
{
    int count = 0;
    if (filter != MGPU_FILTER_TAPS_IN_OUT)
        order[count++] = out;
    if (filter == MGPU_FILTER_OUT_IN_TAPS)
        order[count++] = in;
    for (int d = 0; d < dims; d++)
        order[count++] = 2 + d;
    if (filter != MGPU_FILTER_OUT_IN_TAPS)
        order[count++] = in;
    if (filter == MGPU_FILTER_TAPS_IN_OUT)
        order[count++] = out;
    return count;
}

static bool find_filter(const mgpu_convolution *v, int out, int in, uint8_t *filter)
{
    const int64_t extent[] = {v->groups * v->out, v->in, v->w[0], v->w[1], v->w[2]};
    for (*filter = 0; *filter <= MGPU_FILTER_OUT_IN_TAPS; ++*filter) {
        int order[5], axes = order_axes(*filter, v->dims, out, in, order);
        if (is_in_order(axes, order, extent, v->w_stride))
            return true;
    }
    return false;
}

/* Returns the padding at the end with which a convolution of these inputs has these outputs; if possible, that at the
 * beginning. */
static int64_t high_padding(int64_t inputs, int64_t taps, int64_t outputs, int64_t stride, int64_t dilation, int64_t low)
{
    int64_t reach = dilation * (taps - 1) + 1, least = (outputs - 1) * stride + reach - inputs - low;
    return least <= low && low < least + stride ? low : least > 0 ? least : 0;
}

static bool set_places(const mgpu_convolution *v, bool backward, mgpu_library_convolution *to)
{
    int first = v->dims < LEAST_DIMS ? LEAST_DIMS - v->dims : 0;
    to->dims = v->dims + first;
    for (int i = 0; i < to->dims; i++) {
        int d = i - first;
        bool made = d < 0; /* an added axis of extent 1 */
        to->inputs[i] = made ? 1 : backward ? v->y[d] : v->x[d];
        to->taps[i] = made ? 1 : v->w[d];
        to->outputs[i] = made ? 1 : backward ? v->x[d] : v->y[d];
        to->stride[i] = made ? 1 : backward ? v->input_dilation[d] : v->stride[d];
        to->dilation[i] = made ? 1 : v->dilation[d];
        to->low[i] = made ? 0 : backward ? v->dilation[d] * (v->w[d] - 1) - v->padding_low[d] : v->padding_low[d];
        to->high[i] = high_padding(to->inputs[i], to->taps[i], to->outputs[i], to->stride[i], to->dilation[i], to->low[i]);
        int64_t reach = to->dilation[i] * (to->taps[i] - 1) + 1, room = to->inputs[i] + to->low[i] + to->high[i] - reach;
        if (to->low[i] < 0 || room < 0 || room / to->stride[i] + 1 != to->outputs[i])
            return false;
    }
    return true;
}

/* Sets *backward for a gradient of x; false: the library has no such convolution. */
static bool find_direction(const mgpu_convolution *v, bool *backward)
{
    bool dilated = false, strided = false, taps = false;
    for (int d = 0; d < v->dims; d++) {
        dilated = dilated || v->input_dilation[d] > 1;
        strided = strided || v->stride[d] > 1;
        taps = taps || v->w[d] > 1;
    }
    *backward = dilated || v->reversed;
    return !*backward || (!v->weight && !strided && v->groups == 1 && (v->reversed || !taps));
}

static bool find_type(const Contraction *plan, uint8_t *type)
{
    static const uint8_t TYPE[DTYPES] = {[F16] = MGPU_F16, [BF16] = MGPU_BF16, [F32] = MGPU_F32, [F64] = MGPU_F64};
    *type = TYPE[plan->tensor[C]->dtype];
    return plan->tensor[A]->dtype == plan->tensor[C]->dtype && plan->tensor[B]->dtype == plan->tensor[C]->dtype;
}

bool cuda_library_convolution(const Contraction *plan, mgpu_library_convolution *to)
{
    const mgpu_convolution *v = plan->table.convolution;
    mgpu_library_matmul matmul;
    bool backward;
    *to = (mgpu_library_convolution){0};
    if (!v || plan->by_one_worker || cuda_is_exact(plan) || !find_direction(v, &backward) || !find_type(plan, &to->type) ||
        cuda_library_call(plan, &matmul))
        return false;
    to->result = v->weight ? MGPU_CONVOLUTION_W : backward ? MGPU_CONVOLUTION_X : MGPU_CONVOLUTION_Y;
    to->tf32 = to->type == MGPU_F32 && plan->node->graph->model->tf32;
    to->groups = v->groups;
    to->in = v->groups * (backward ? v->out : v->in);
    to->out = v->groups * (backward ? v->in : v->out);
    to->x = backward ? 2 : 0;
    to->w = v->weight ? 2 : 1;
    to->y = v->weight ? 1 : backward ? 0 : 2;
    return v->groups > 0 && to->in > 0 && to->out > 0 && set_places(v, backward, to) &&
           find_filter(v, backward, !backward, &to->filter) && is_packed(v->dims, v->x, v->groups * v->in, v->x_stride) &&
           is_packed(v->dims, v->y, v->groups * v->out, v->y_stride);
}

static const char *list_text(const int64_t *list)
{
    return format("{%lld, %lld, %lld}", (long long)list[0], (long long)list[1], (long long)list[2]);
}

void cuda_print_library_convolution(const mgpu_library_convolution *v, Text *t)
{
    const char *row = C_ROW(
        C_NUMBER("result", v->result), C_NUMBER("filter", v->filter), C_NUMBER("type", v->type), C_TEXT("tf32", c_true(v->tf32)),
        C_NUMBER("x", v->x), C_NUMBER("w", v->w), C_NUMBER("y", v->y), C_NUMBER("dims", v->dims), C_NUMBER("groups", v->groups),
        C_NUMBER("in", v->in), C_NUMBER("out", v->out), C_TEXT("inputs", list_text(v->inputs)),
        C_TEXT("taps", list_text(v->taps)), C_TEXT("outputs", list_text(v->outputs)), C_TEXT("stride", list_text(v->stride)),
        C_TEXT("dilation", list_text(v->dilation)), C_TEXT("low", list_text(v->low)), C_TEXT("high", list_text(v->high)));
    text_add(t, ", .convolution = &(const mgpu_library_convolution)%s", row);
}
