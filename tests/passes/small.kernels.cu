/* Kernels of small, written by mgpuc 0.1.0.
 * Parameters: the tensors that a kernel reads, then those that it writes, then its workspace if it has one; n: the samples
 * of this device. [n, 28, 28] in the comments is the shape of all samples, [28, 28] the same for all of them. */
#include "mgpu_device.h"
#include "mgpu_device_contract.h"

/* k0: dense_1.he_1.normal_1.random_normal_1: u  [2, 3, 16] f32  small.net:5 */
extern "C" __global__ void k0(
    float *MGPU_RESTRICT v_u, /* [2, 3, 16] */
    const mgpu_step *MGPU_RESTRICT step, int64_t n, const __grid_constant__ mgpu_path<1> path)
{
    mgpu_wait_for_grids();
    const uint64_t key = mgpu_random_key(step->seed, path[0]);
    for (int i = mgpu_grid_thread(); i < 96; i += mgpu_grid_threads()) {
        v_u[i] = mgpu_randf(key, i, 0, 0);
    }
}
MGPU_ENTRY(k0)

/* k1: dense_1.he_1.normal_1: w.dense_1.weight, w.dense_1.bias, w.dense_1.weight.velocity, w.dense_1.bias.velocity  [3, 16] f32  small.net:5 */
extern "C" __global__ void k1(
    const float *MGPU_RESTRICT v_u, /* [2, 3, 16] */
    float *MGPU_RESTRICT v_weight, /* [3, 16] */
    float *MGPU_RESTRICT v_bias, /* [3] */
    float *MGPU_RESTRICT v_weight_velocity, /* [3, 16] */
    float *MGPU_RESTRICT v_bias_velocity, /* [3] */
    const mgpu_step *MGPU_RESTRICT step, int64_t n)
{
    mgpu_wait_for_grids();
    for (int i = mgpu_grid_thread(); i < 48; i += mgpu_grid_threads()) {
        const float v_mul = mgpu_sqrt(mgpu_log(1.0f - v_u[i]) * -2.0f) * mgpu_cos(v_u[i + 48] * 6.2831855f) * 0.35355338f;
        v_weight[i] = v_mul;
    }
    for (int i_2 = mgpu_grid_thread(1); i_2 < 3; i_2 += mgpu_grid_threads()) {
        v_bias[i_2] = 0.0f;
    }
    for (int i_3 = mgpu_grid_thread(2); i_3 < 48; i_3 += mgpu_grid_threads()) {
        v_weight_velocity[i_3] = 0.0f;
    }
    for (int i_4 = mgpu_grid_thread(3); i_4 < 3; i_4 += mgpu_grid_threads()) {
        v_bias_velocity[i_4] = 0.0f;
    }
}
MGPU_ENTRY(k1)

/* k2: div  [n, 4, 4] f32  small.net:5 */
extern "C" __global__ void k2(
    const uint8_t *MGPU_RESTRICT v_image, /* [n, 4, 4] */
    float *MGPU_RESTRICT v_div, /* [n, 4, 4] */
    const mgpu_step *MGPU_RESTRICT step, int64_t n)
{
    mgpu_wait_for_grids();
    const uint32_t points = 16 * n;
    for (int i = mgpu_grid_thread(); i < points; i += mgpu_grid_threads()) {
        v_div[i] = (float)v_image[i] / 255.0f;
    }
}
MGPU_ENTRY(k2)

/* dense_1, small.net:5: einsum a,ba->b
 * t8_div f32 n x [16], w.dense_1.weight f32 [3, 16] -> t11_y f32 n x [3]
 * M x N x K = n x 3 x 16; A is t8_div, each element by a thread */
static __device__ constexpr mgpu_axis k3_axis[] = {
    /* extent, strides in A, B, C, window, step */
    {MGPU_SAMPLES, 16, 0, 3, 0, 0}, /* M */
    {3, 0, 16, 1, 0, 0}, /* N */
    {16, 1, 1, 0, 0, 0}, /* K */
};
static __device__ constexpr mgpu_contraction k3_matmul =
    {/* batch */ 0, /* m */ 1, /* n */ 1, /* k */ 1, /* axis */ k3_axis, /* windows */ 0, /* window */ nullptr,
     /* convolution */ nullptr, /* a */ 0, /* b */ 0, /* swapped */ 0, /* type */ MGPU_F32};
static __device__ constexpr mgpu_tiles k3_tiles =
    {/* arithmetic */ MGPU_DIRECT, /* type_a */ MGPU_F32, /* type_b */ MGPU_F32, /* type_c */ MGPU_F32, /* aligned_a */ true,
     /* aligned_b */ true, /* aligned_c */ true, /* transposed */ 0, /* rows */ 1, /* columns */ 1, /* depth */ 1,
     /* stages */ 1, /* down */ 1, /* across */ 1, /* split_tiles */ 0, /* split_depth */ 64, /* c */ 0,
     /* along_k_a */ true, /* along_k_b */ true, /* piece_a */ 4, /* piece_b */ 4, /* piece_c */ 1, /* linear_a */ true,
     /* linear_b */ true};
extern "C" __global__ void __launch_bounds__(256, 2) k3(const float *MGPU_RESTRICT a, const float *MGPU_RESTRICT b, float *MGPU_RESTRICT c, const mgpu_step *step, int64_t n)
{
    mgpu_wait_for_grids();
    (void)step;
    mgpu_contract<k3_matmul, k3_tiles>(a, b, c, nullptr, n, 0);
}
MGPU_ENTRY(k3)

/* k4: cross_entropy_1.log_softmax_1: log_softmax, z, log_softmax, cross_entropy, d_log_softmax, d_z  [n, 3] f32  small.net:6 */
extern "C" __global__ void k4(
    const float *MGPU_RESTRICT v_y, /* [n, 3] */
    const float *MGPU_RESTRICT v_bias, /* [3] */
    const uint8_t *MGPU_RESTRICT v_label, /* [n] */
    float *MGPU_RESTRICT v_cross_entropy, /* [n] */
    float *MGPU_RESTRICT v_d_z, /* [n, 3] */
    const mgpu_step *MGPU_RESTRICT step, int64_t n)
{
    mgpu_wait_for_grids();
    for (int i = mgpu_grid_thread(); i < n; i += mgpu_grid_threads()) {
        const uint8_t v_label_at = v_label[i];
        const int32_t value = (int32_t)v_label_at;
        const bool inside = 0 <= (int64_t)value && (int64_t)value < 3;
        const int64_t at = (int64_t)value;
        float most = -INFINITY;
        for (int j = 0; j < 3; j++) {
            most = mgpu_larger(most, v_y[3 * i + j] + v_bias[j]);
        }
        float sum = 0;
        for (int j = 0; j < 3; j++) {
            sum += mgpu_exp_below(v_y[3 * i + j] + v_bias[j] - most);
        }
        const float v_logp = (inside ? v_y[3 * i + at] : 0.0f) + (inside ? v_bias[at] : 0.0f) - most - mgpu_log(sum);
        const float v_where = inside ? v_logp : 0.0f;
        const float v_div = (inside ? 0.125f : 0.0f) / sum;
        for (int j = 0; j < 3; j++) {
            const float v_d_z_2 = (value == (int32_t)j ? -0.125f : 0.0f) + v_div * mgpu_exp_below(v_y[3 * i + j] + v_bias[j] - most);
            v_d_z[3 * i + j] = v_d_z_2;
        }
        v_cross_entropy[i] = v_where;
    }
}
MGPU_ENTRY(k4)

/* dense_1, small.net:5: einsum a,b->ba
 * t8_div f32 n x [16], t56_d_z f32 n x [3] -> t59_weight_gradient f32 [3, 16] (a part of the sum)
 * M x N x K = 3 x 16 x n; A is t56_d_z, each element by a thread */
static __device__ constexpr mgpu_axis k5_axis[] = {
    /* extent, strides in A, B, C, window, step */
    {3, 1, 0, 16, 0, 0}, /* M */
    {16, 0, 1, 1, 0, 0}, /* N */
    {MGPU_SAMPLES, 3, 16, 0, 0, 0}, /* K */
};
static __device__ constexpr mgpu_contraction k5_matmul =
    {/* batch */ 0, /* m */ 1, /* n */ 1, /* k */ 1, /* axis */ k5_axis, /* windows */ 0, /* window */ nullptr,
     /* convolution */ nullptr, /* a */ 0, /* b */ 0, /* swapped */ 0, /* type */ MGPU_F32};
static __device__ constexpr mgpu_tiles k5_tiles =
    {/* arithmetic */ MGPU_DIRECT, /* type_a */ MGPU_F32, /* type_b */ MGPU_F32, /* type_c */ MGPU_F32, /* aligned_a */ true,
     /* aligned_b */ true, /* aligned_c */ true, /* transposed */ 0, /* rows */ 1, /* columns */ 1, /* depth */ 1,
     /* stages */ 1, /* down */ 1, /* across */ 1, /* split_tiles */ 0, /* split_depth */ 64, /* c */ 0,
     /* along_k_a */ 0, /* along_k_b */ 0, /* piece_a */ 1, /* piece_b */ 4, /* piece_c */ 4, /* linear_a */ true,
     /* linear_b */ true};
extern "C" __global__ void __launch_bounds__(256, 2) k5(const float *MGPU_RESTRICT a, const float *MGPU_RESTRICT b, float *MGPU_RESTRICT c, const mgpu_step *step, int64_t n)
{
    mgpu_wait_for_grids();
    (void)step;
    mgpu_contract<k5_matmul, k5_tiles>(b, a, c, nullptr, n, 0);
}
MGPU_ENTRY(k5)

/* k6: cross_entropy_1: sum  [n] f64  small.net:6 */
extern "C" __global__ void k6(
    const float *MGPU_RESTRICT v_cross_entropy, /* [n] */
    double *MGPU_RESTRICT v_sum, /* [] */
    const mgpu_step *MGPU_RESTRICT step, int64_t n)
{
    mgpu_wait_for_grids();
    if (mgpu_grid_thread() == 0) {
        double sum = 0;
        for (int i = 0; i < n; i++) {
            sum += (double)(0.0f - v_cross_entropy[i]);
        }
        v_sum[0] = sum;
    }
}
MGPU_ENTRY(k6)

/* k7: dense_1: bias_gradient  [n, 3] f32  small.net:5 */
extern "C" __global__ void k7(
    const float *MGPU_RESTRICT v_d_z, /* [n, 3] */
    float *MGPU_RESTRICT v_bias_gradient, /* [3] */
    const mgpu_step *MGPU_RESTRICT step, int64_t n)
{
    mgpu_wait_for_grids();
    for (int j = mgpu_grid_thread(); j < 3; j += mgpu_grid_threads()) {
        double v_bias_gradient_2 = 0;
        for (int i = 0; i < n; i++) {
            v_bias_gradient_2 += v_d_z[3 * i + j];
        }
        v_bias_gradient[j] = (float)v_bias_gradient_2;
    }
}
MGPU_ENTRY(k7)

/* k8: cross_entropy_1: report  [] f64  small.net:6 */
extern "C" __global__ void k8(
    const double *MGPU_RESTRICT v_sum, /* [] */
    double *MGPU_RESTRICT v_report, /* [2] */
    const mgpu_step *MGPU_RESTRICT step, int64_t n)
{
    mgpu_wait_for_grids();
    if (mgpu_grid_thread() == 0) {
        v_report[0] = v_sum[0] * 0.125;
        v_report[1] = step->setting[0] == step->setting[0] ? step->setting[0] : 0.1;
    }
}
MGPU_ENTRY(k8)

/* k9: dense_1.weight: v, w.dense_1.weight.velocity, w.dense_1.weight, v, w.dense_1.bias.velocity, w.dense_1.bias  [3, 16] f32  small.net:9 */
extern "C" __global__ void k9(
    const float *,
    const float *MGPU_RESTRICT v_weight_gradient, /* [3, 16] */
    const float *,
    const float *,
    const float *MGPU_RESTRICT v_bias_gradient, /* [3] */
    const float *,
    float *MGPU_RESTRICT v_weight_velocity, /* [3, 16] */
    float *MGPU_RESTRICT v_weight, /* [3, 16] */
    float *MGPU_RESTRICT v_bias_velocity, /* [3] */
    float *MGPU_RESTRICT v_bias, /* [3] */
    const mgpu_step *MGPU_RESTRICT step, int64_t n)
{
    mgpu_wait_for_grids();
    const float value = (float)(step->setting[0] == step->setting[0] ? step->setting[0] : 0.1);
    for (int j = mgpu_grid_thread(); j < 12; j += mgpu_grid_threads()) {
        const mgpu_f32x4 v_weight_velocity_at = mgpu_load_f32x4(&v_weight_velocity[4 * j]);
        const mgpu_f32x4 v_weight_gradient_at = mgpu_load_f32x4(&v_weight_gradient[4 * j]);
        const mgpu_f32x4 v_weight_at = mgpu_load_f32x4(&v_weight[4 * j]);
        mgpu_f32x4 v_new_weight_velocity;
        mgpu_f32x4 v_new_weight;
        for (int v = 0; v < 4; v++) {
            const float v_v = v_weight_velocity_at.at[v] * 0.9f + (v_weight_gradient_at.at[v] + v_weight_at.at[v] * 0.0f);
            v_new_weight_velocity.at[v] = v_v;
            v_new_weight.at[v] = v_weight_at.at[v] - value * v_v;
        }
        mgpu_store_f32x4(&v_weight_velocity[4 * j], v_new_weight_velocity);
        mgpu_store_f32x4(&v_weight[4 * j], v_new_weight);
    }
    const float value_2 = (float)(step->setting[0] == step->setting[0] ? step->setting[0] : 0.1);
    for (int i = mgpu_grid_thread(1); i < 3; i += mgpu_grid_threads()) {
        const float v_bias_velocity_at = v_bias_velocity[i];
        const float v_bias_at = v_bias[i];
        const float v_v_2 = v_bias_velocity_at * 0.9f + (v_bias_gradient[i] + v_bias_at * 0.0f);
        v_bias_velocity[i] = v_v_2;
        v_bias[i] = v_bias_at - value_2 * v_v_2;
    }
}
MGPU_ENTRY(k9)

/* k10: cross_entropy_1: d_cross_entropy  [n] f32  small.net:6 */
extern "C" __global__ void k10(
    float *MGPU_RESTRICT v_d_cross_entropy, /* [n] */
    const mgpu_step *MGPU_RESTRICT step, int64_t n)
{
    mgpu_wait_for_grids();
    const float value = (float)(1.0 / (double)step->samples);
    for (int i = mgpu_grid_thread(); i < n; i += mgpu_grid_threads()) {
        v_d_cross_entropy[i] = 0.0f - (i < step->valid ? value : 0.0f);
    }
}
MGPU_ENTRY(k10)

/* k11: cross_entropy_1.log_softmax_1: log_softmax, z, log_softmax, cross_entropy, d_logp, d_log_softmax and 1 more  [n, 3] f32  small.net:6 */
extern "C" __global__ void k11(
    const float *MGPU_RESTRICT v_y, /* [n, 3] */
    const float *MGPU_RESTRICT v_bias, /* [3] */
    const uint8_t *MGPU_RESTRICT v_label, /* [n] */
    const float *MGPU_RESTRICT v_d_cross_entropy, /* [n] */
    float *MGPU_RESTRICT v_cross_entropy, /* [n] */
    float *MGPU_RESTRICT v_d_z, /* [n, 3] */
    const mgpu_step *MGPU_RESTRICT step, int64_t n)
{
    mgpu_wait_for_grids();
    for (int i = mgpu_grid_thread(); i < n; i += mgpu_grid_threads()) {
        const uint8_t v_label_at = v_label[i];
        const int32_t value = (int32_t)v_label_at;
        const float v_d_cross_entropy_at = v_d_cross_entropy[i];
        const bool inside = 0 <= (int64_t)value && (int64_t)value < 3;
        const int64_t at = (int64_t)value;
        float most = -INFINITY;
        float sum = 0;
        for (int j = 0; j < 3; j++) {
            most = mgpu_larger(most, v_y[3 * i + j] + v_bias[j]);
            sum += 0.0f - (value == (int32_t)j ? v_d_cross_entropy_at : 0.0f);
        }
        float sum_2 = 0;
        for (int j = 0; j < 3; j++) {
            sum_2 += mgpu_exp_below(v_y[3 * i + j] + v_bias[j] - most);
        }
        const float v_logp = (inside ? v_y[3 * i + at] : 0.0f) + (inside ? v_bias[at] : 0.0f) - most - mgpu_log(sum_2);
        const float v_where = inside ? v_logp : 0.0f;
        const float v_div = sum / sum_2;
        for (int j = 0; j < 3; j++) {
            const float v_d_z_2 = (value == (int32_t)j ? v_d_cross_entropy_at : 0.0f) + v_div * mgpu_exp_below(v_y[3 * i + j] + v_bias[j] - most);
            v_d_z[3 * i + j] = v_d_z_2;
        }
        v_cross_entropy[i] = v_where;
    }
}
MGPU_ENTRY(k11)

/* k12: cross_entropy_1: sum  [n] f64  small.net:6 */
extern "C" __global__ void k12(
    const float *MGPU_RESTRICT v_cross_entropy, /* [n] */
    double *MGPU_RESTRICT v_sum, /* [] */
    const mgpu_step *MGPU_RESTRICT step, int64_t n)
{
    mgpu_wait_for_grids();
    if (mgpu_grid_thread() == 0) {
        double sum = 0;
        for (int i = 0; i < n; i++) {
            const float v_cross_entropy_at = v_cross_entropy[i];
            sum += i < step->valid ? (double)(0.0f - v_cross_entropy_at) : 0.0;
        }
        v_sum[0] = sum;
    }
}
MGPU_ENTRY(k12)

/* k13: cross_entropy_1: report  [] f64  small.net:6 */
extern "C" __global__ void k13(
    const double *MGPU_RESTRICT v_sum, /* [] */
    double *MGPU_RESTRICT v_report, /* [2] */
    const mgpu_step *MGPU_RESTRICT step, int64_t n)
{
    mgpu_wait_for_grids();
    if (mgpu_grid_thread() == 0) {
        v_report[0] = v_sum[0] * (1.0 / (double)step->samples);
        v_report[1] = step->setting[0] == step->setting[0] ? step->setting[0] : 0.1;
    }
}
MGPU_ENTRY(k13)

/* k14: cross_entropy_1.log_softmax_1: log_softmax, z, log_softmax, cross_entropy  [n, 3] f32  small.net:6 */
extern "C" __global__ void k14(
    const float *MGPU_RESTRICT v_y, /* [n, 3] */
    const float *MGPU_RESTRICT v_bias, /* [3] */
    const uint8_t *MGPU_RESTRICT v_label, /* [n] */
    float *MGPU_RESTRICT v_cross_entropy, /* [n] */
    const mgpu_step *MGPU_RESTRICT step, int64_t n)
{
    mgpu_wait_for_grids();
    for (int i = mgpu_grid_thread(); i < n; i += mgpu_grid_threads()) {
        const uint8_t v_label_at = v_label[i];
        const int32_t value = (int32_t)v_label_at;
        const bool inside = 0 <= (int64_t)value && (int64_t)value < 3;
        const int64_t at = (int64_t)value;
        float most = -INFINITY;
        for (int j = 0; j < 3; j++) {
            most = mgpu_larger(most, v_y[3 * i + j] + v_bias[j]);
        }
        float sum = 0;
        for (int j = 0; j < 3; j++) {
            sum += mgpu_exp_below(v_y[3 * i + j] + v_bias[j] - most);
        }
        const float v_logp = (inside ? v_y[3 * i + at] : 0.0f) + (inside ? v_bias[at] : 0.0f) - most - mgpu_log(sum);
        const float v_where = inside ? v_logp : 0.0f;
        v_cross_entropy[i] = v_where;
    }
}
MGPU_ENTRY(k14)

/* k15: sum, w.eval.loss.cross_entropy.0, w.eval.loss.cross_entropy.1  [n] f64  small.net:6 */
extern "C" __global__ void k15(
    const float *MGPU_RESTRICT v_cross_entropy, /* [n] */
    const double *,
    const double *,
    double *MGPU_RESTRICT v_0, /* [] */
    double *MGPU_RESTRICT v_1, /* [] */
    const mgpu_step *MGPU_RESTRICT step, int64_t n)
{
    mgpu_wait_for_grids();
    if (mgpu_grid_thread() == 0) {
        const double v_0_at = v_0[0];
        double sum = 0;
        for (int i = 0; i < n; i++) {
            sum += (double)(0.0f - v_cross_entropy[i]);
        }
        const double v_add = v_0_at + sum;
        v_0[0] = v_add;
    }
    if (mgpu_grid_thread(1) == 0) {
        const double v_1_at = v_1[0];
        v_1[0] = v_1_at + 8.0;
    }
}
MGPU_ENTRY(k15)

/* k16: sum, w.eval.loss.cross_entropy.0, w.eval.loss.cross_entropy.1  [n] f64  small.net:6 */
extern "C" __global__ void k16(
    const float *MGPU_RESTRICT v_cross_entropy, /* [n] */
    const double *,
    const double *,
    double *MGPU_RESTRICT v_0, /* [] */
    double *MGPU_RESTRICT v_1, /* [] */
    const mgpu_step *MGPU_RESTRICT step, int64_t n)
{
    mgpu_wait_for_grids();
    if (mgpu_grid_thread() == 0) {
        const double v_0_at = v_0[0];
        double sum = 0;
        for (int i = 0; i < n; i++) {
            const float v_cross_entropy_at = v_cross_entropy[i];
            sum += i < step->valid ? (double)(0.0f - v_cross_entropy_at) : 0.0;
        }
        const double v_add = v_0_at + sum;
        v_0[0] = v_add;
    }
    if (mgpu_grid_thread(1) == 0) {
        const double v_1_at = v_1[0];
        v_1[0] = v_1_at + (double)step->samples;
    }
}
MGPU_ENTRY(k16)

/* k17: softmax_1: max, exp, sum, out.probability  [n, 3] f32  small.net:7 */
extern "C" __global__ void k17(
    const float *MGPU_RESTRICT v_y, /* [n, 3] */
    const float *MGPU_RESTRICT v_bias, /* [3] */
    float *MGPU_RESTRICT v_probability, /* [n, 3] */
    const mgpu_step *MGPU_RESTRICT step, int64_t n)
{
    mgpu_wait_for_grids();
    for (int i = mgpu_grid_thread(); i < n; i += mgpu_grid_threads()) {
        float most = -INFINITY;
        for (int j = 0; j < 3; j++) {
            most = mgpu_larger(most, v_y[3 * i + j] + v_bias[j]);
        }
        float sum = 0;
        for (int j = 0; j < 3; j++) {
            sum += mgpu_exp_below(v_y[3 * i + j] + v_bias[j] - most);
        }
        const float v_div = mgpu_inverse(sum);
        for (int j = 0; j < 3; j++) {
            v_probability[3 * i + j] = mgpu_exp_below(v_y[3 * i + j] + v_bias[j] - most) * v_div;
        }
    }
}
MGPU_ENTRY(k17)

/* k18: t1_eval.loss.cross_entropy.0  [] f64 */
extern "C" __global__ void k18(
    const double *MGPU_RESTRICT v_0, /* [] */
    double *MGPU_RESTRICT v_eval_loss_cross_entropy_0, /* [] */
    const mgpu_step *MGPU_RESTRICT step, int64_t n)
{
    mgpu_wait_for_grids();
    if (mgpu_grid_thread() == 0) {
        v_eval_loss_cross_entropy_0[0] = v_0[0];
    }
}
MGPU_ENTRY(k18)

/* k19: w.eval.loss.cross_entropy.0, report  [] f64 */
extern "C" __global__ void k19(
    const double *MGPU_RESTRICT v_1, /* [] */
    const double *MGPU_RESTRICT v_eval_loss_cross_entropy_0, /* [] */
    double *MGPU_RESTRICT v_0, /* [] */
    double *MGPU_RESTRICT v_report, /* [1] */
    const mgpu_step *MGPU_RESTRICT step, int64_t n)
{
    mgpu_wait_for_grids();
    if (mgpu_grid_thread() == 0) {
        v_0[0] = 0.0;
    }
    if (mgpu_grid_thread(1) == 0) {
        const double v_1_at = v_1[0];
        const bool v_eq = v_1_at == 0.0;
        const double v_eval_loss_cross_entropy_0_at = v_eval_loss_cross_entropy_0[0];
        v_report[0] = v_eq ? 0.0 : v_eval_loss_cross_entropy_0_at / (v_eq ? 1.0 : v_1_at);
    }
}
MGPU_ENTRY(k19)

/* k20: w.eval.loss.cross_entropy.1  [] f64 */
extern "C" __global__ void k20(
    double *MGPU_RESTRICT v_1, /* [] */
    const mgpu_step *MGPU_RESTRICT step, int64_t n)
{
    mgpu_wait_for_grids();
    if (mgpu_grid_thread() == 0) {
        v_1[0] = 0.0;
    }
}
MGPU_ENTRY(k20)
