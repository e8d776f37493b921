/* Kernels of small, written by mgpuc 0.1.0.
 * argument[]: the tensors that a kernel reads, then those that it writes, then its workspace; n: the samples of
 * this device. [n, 28, 28] in the comments is the shape of all samples, [28, 28] the same for all of them. */
#define MGPU_KERNELS 1
#include "mgpu.h"

/* k0: dense_1.he_1.normal_1.random_normal_1: u, w.dense_1.weight, w.dense_1.bias, w.dense_1.weight.velocity, w.dense_1.bias.velocity  [2, 3, 16] f32  small.net:5 */
static MGPU_SMALL void k0(void *const *argument, const mgpu_step *step, const mgpu_part *part)
{
    float *restrict v_u = argument[0]; /* [2, 3, 16] */
    float *restrict v_weight = argument[1]; /* [3, 16] */
    float *restrict v_bias = argument[2]; /* [3] */
    float *restrict v_weight_velocity = argument[3]; /* [3, 16] */
    float *restrict v_bias_velocity = argument[4]; /* [3] */
    (void)part;
    const uint64_t key = mgpu_random_key(step->seed, 0xa3365c4e941f2064u);
    float rand[96];
    mgpu_rand_rowf(rand, 96, key, 0, 0, 0);
    for (int64_t i = 0; i < 96; i++) {
        v_u[i] = rand[i];
    }
    for (int64_t i_2 = 0; i_2 < 48; i_2++) {
        const float v_u_at = v_u[i_2];
        const float v_u_at_2 = v_u[i_2 + 48];
        const float v_mul = mgpu_sqrt(mgpu_log(1.0f - v_u_at) * -2.0f) * mgpu_cos(v_u_at_2 * 6.2831855f) * 0.35355338f;
        v_weight[i_2] = v_mul;
    }
    for (int64_t i_3 = 0; i_3 < 3; i_3++) {
        v_bias[i_3] = 0.0f;
    }
    for (int64_t i_4 = 0; i_4 < 48; i_4++) {
        v_weight_velocity[i_4] = 0.0f;
    }
    for (int64_t i_5 = 0; i_5 < 3; i_5++) {
        v_bias_velocity[i_5] = 0.0f;
    }
}

/* k1: div  [n, 4, 4] f32  small.net:5 */
static void k1(void *const *argument, const mgpu_step *step, const mgpu_part *part)
{
    const uint8_t *restrict v_image = argument[0]; /* [n, 4, 4] */
    float *restrict v_div = argument[1]; /* [n, 4, 4] */
    const int64_t begin = part->begin, end = part->end;
    (void)step;
    {
        int64_t i = 16 * begin;
        for (; i + MGPU_LANES_n <= 16 * end; i += MGPU_LANES_n) {
            const int lanes = MGPU_LANES_n;
            mgpu_store_f32_n(v_div + i, mgpu_f32_of_i32_n(mgpu_load_u8_n(v_image + i, lanes)) / 255.0f, lanes);
        }
        if (i < 16 * end) {
            const int lanes = (int)(16 * end - i);
            mgpu_store_f32_n(v_div + i, mgpu_f32_of_i32_n(mgpu_load_u8_n(v_image + i, lanes)) / 255.0f, lanes);
        }
    }
}

/* dense_1, small.net:5: einsum a,ba->b
 * t8_div f32 n x [16], w.dense_1.weight f32 [3, 16] -> t11_y f32 n x [3]
 * M x N x K = n x 3 x 16; A is t8_div */
static const mgpu_axis k2_axis[] = {
    /* a, b, c: strides in A, B, C */
    {.extent = MGPU_SAMPLES, .a = 16, .c = 3}, /* M: sample */
    {.extent = 3, .b = 16, .c = 1}, /* N: b */
    {.extent = 16, .a = 1, .b = 1}, /* K: a */
};
static const mgpu_contraction k2_contraction = {
    .type = MGPU_F32, .swapped = false, .batch = 0, .m = 1, .n = 1, .k = 1, .axis = k2_axis,
    .copy = 0, .sums = 0, .packed = 1024, .keep = true};
static void k2(void *const *argument, const mgpu_step *step, const mgpu_part *part)
{
    (void)step;
    mgpu_contract(&k2_contraction, argument, part);
}

/* k3: cross_entropy_1.log_softmax_1: log_softmax, z, log_softmax, cross_entropy, d_log_softmax, d_z  [n, 3] f32  small.net:6 */
static void k3(void *const *argument, const mgpu_step *step, const mgpu_part *part)
{
    const float *restrict v_y = argument[0]; /* [n, 3] */
    const float *restrict v_bias = argument[1]; /* [3] */
    const uint8_t *restrict v_label = argument[2]; /* [n] */
    float *restrict v_cross_entropy = argument[3]; /* [n] */
    float *restrict v_d_z = argument[4]; /* [n, 3] */
    const int64_t begin = part->begin, end = part->end;
    (void)step;
    for (int64_t i = begin; i < end; i++) {
        const uint8_t v_label_at = v_label[i];
        const int32_t value = (int32_t)v_label_at;
        const bool inside = 0 <= (int64_t)value && (int64_t)value < 3;
        const int64_t at = (int64_t)value;
        float v_exp_row[3];
        float most = -INFINITY;
        for (int64_t j = 0; j < 3; j++) {
            most = mgpu_larger(most, v_y[3 * i + j] + v_bias[j]);
        }
        float sum = 0;
        for (int64_t j = 0; j < 3; j++) {
            const float v_exp = mgpu_exp(v_y[3 * i + j] + v_bias[j] - most);
            v_exp_row[j] = v_exp;
            sum += v_exp;
        }
        const float v_logp = (inside ? v_y[3 * i + at] : 0.0f) + (inside ? v_bias[at] : 0.0f) - most - mgpu_log(sum);
        const float v_where = inside ? v_logp : 0.0f;
        const float v_div = (inside ? 0.125f : 0.0f) / sum;
        for (int64_t j = 0; j < 3; j++) {
            v_d_z[3 * i + j] = mgpu_fmaf(v_div, v_exp_row[j], value == (int32_t)j ? -0.125f : 0.0f);
        }
        v_cross_entropy[i] = v_where;
    }
}

/* dense_1, small.net:5: einsum a,b->ba
 * t8_div f32 n x [16], t56_d_z f32 n x [3] -> t59_weight_gradient f32 [3, 16] (a part of the sum)
 * M x N x K = 3 x 16 x n; A is t56_d_z */
static const mgpu_axis k4_axis[] = {
    /* a, b, c: strides in A, B, C */
    {.extent = 3, .a = 1, .c = 16}, /* M: b */
    {.extent = 16, .b = 1, .c = 1}, /* N: a */
    {.extent = MGPU_SAMPLES, .a = 3, .b = 16}, /* K: sample */
};
static const mgpu_contraction k4_contraction = {
    .type = MGPU_F32, .swapped = true, .batch = 0, .m = 1, .n = 1, .k = 1, .axis = k4_axis,
    .copy = 0, .sums = 0, .packed = 65536, .keep = false};
static void k4(void *const *argument, const mgpu_step *step, const mgpu_part *part)
{
    (void)step;
    mgpu_contract_shared(&k4_contraction, argument, part);
}

/* k5: cross_entropy_1: sum  [n] f64  small.net:6 */
static void k5_finish(void *const *argument, const mgpu_step *step, const mgpu_part *part)
{
    double *restrict v_sum = argument[1]; /* [] */
    (void)step;
    double *restrict partial = (double *)((char *)argument[2] + 0); /* [1] */
    mgpu_add_f64_parts(partial, 1, part);
    v_sum[0] = partial[0];
}
static void k5(void *const *argument, const mgpu_step *step, const mgpu_part *part)
{
    const float *restrict v_cross_entropy = argument[0]; /* [n] */
    const int64_t begin = part->begin, end = part->end;
    (void)step;
    double *restrict partial = (double *)((char *)argument[2] + 0); /* [1] */
    mgpu_f64_w sum = mgpu_all_f64_w(0);
    {
        int64_t i = begin;
        for (; i + MGPU_LANES_w <= end; i += MGPU_LANES_w) {
            const int lanes = MGPU_LANES_w;
            sum = mgpu_first_f64_w(lanes, sum + mgpu_f64_of_f32_w(0.0f - mgpu_load_f32_w(v_cross_entropy + i, lanes)), sum);
        }
        if (i < end) {
            const int lanes = (int)(end - i);
            sum = mgpu_first_f64_w(lanes, sum + mgpu_f64_of_f32_w(0.0f - mgpu_load_f32_w(v_cross_entropy + i, lanes)), sum);
        }
    }
    double sum_2 = mgpu_sum_f64_w(sum);
    mgpu_add_f64_part(partial, &sum_2, 1, part->first);
}

/* k6: dense_1: bias_gradient  [n, 3] f32  small.net:5 */
static void k6_finish(void *const *argument, const mgpu_step *step, const mgpu_part *part)
{
    float *restrict v_bias_gradient = argument[1]; /* [3] */
    (void)step;
    double *restrict partial = (double *)((char *)argument[2] + 0); /* [3] */
    mgpu_add_f64_parts(partial, 3, part);
    for (int64_t j = 0; j < 3; j++) {
        v_bias_gradient[j] = (float)partial[j];
    }
}
static void k6(void *const *argument, const mgpu_step *step, const mgpu_part *part)
{
    const float *restrict v_d_z = argument[0]; /* [n, 3] */
    const int64_t begin = part->begin, end = part->end;
    (void)step;
    double *restrict partial = (double *)((char *)argument[2] + 0); /* [3] */
    double v_bias_gradient[3];
    for (int64_t j = 0; j < 3; j += MGPU_LANES_w)
        mgpu_store_f64_w(v_bias_gradient + j, mgpu_all_f64_w(0), MGPU_LANES_OF(3, j, MGPU_LANES_w));
    for (int64_t i = begin; i < end; i++) {
        for (int64_t j = 0; j < 3; j += MGPU_LANES_n) {
            const int lanes = MGPU_LANES_OF(3, j, MGPU_LANES_n);
            mgpu_add_to_f64_n(v_bias_gradient + j, mgpu_load_f32_n(v_d_z + (3 * i + j), lanes), lanes);
        }
    }
    mgpu_add_f64_part(partial, v_bias_gradient, 3, part->first);
}

/* k7: cross_entropy_1: report  [] f64  small.net:6 */
static MGPU_SMALL void k7(void *const *argument, const mgpu_step *step, const mgpu_part *part)
{
    const double *restrict v_sum = argument[0]; /* [] */
    double *restrict v_report = argument[1]; /* [2] */
    (void)part;
    v_report[0] = v_sum[0] * 0.125;
    v_report[1] = step->setting[0] == step->setting[0] ? step->setting[0] : 0.1;
}

/* k8: dense_1.weight: v, w.dense_1.weight.velocity, w.dense_1.weight, v, w.dense_1.bias.velocity, w.dense_1.bias  [3, 16] f32  small.net:9 */
static MGPU_SMALL void k8(void *const *argument, const mgpu_step *step, const mgpu_part *part)
{
    const float *restrict v_weight_gradient = argument[1]; /* [3, 16] */
    const float *restrict v_bias_gradient = argument[4]; /* [3] */
    float *restrict v_weight_velocity = argument[6]; /* [3, 16] */
    float *restrict v_weight = argument[7]; /* [3, 16] */
    float *restrict v_bias_velocity = argument[8]; /* [3] */
    float *restrict v_bias = argument[9]; /* [3] */
    (void)part;
    const float value = (float)(step->setting[0] == step->setting[0] ? step->setting[0] : 0.1);
    for (int64_t i = 0; i < 48; i++) {
        const float v_weight_velocity_at = v_weight_velocity[i];
        const float v_weight_at = v_weight[i];
        const float v_v = mgpu_fmaf(v_weight_velocity_at, 0.9f, mgpu_fmaf(v_weight_at, 0.0f, v_weight_gradient[i]));
        v_weight_velocity[i] = v_v;
        v_weight[i] = mgpu_fmaf(-value, v_v, v_weight_at);
    }
    const float value_2 = (float)(step->setting[0] == step->setting[0] ? step->setting[0] : 0.1);
    for (int64_t i_2 = 0; i_2 < 3; i_2++) {
        const float v_bias_velocity_at = v_bias_velocity[i_2];
        const float v_bias_at = v_bias[i_2];
        const float v_v_2 = mgpu_fmaf(v_bias_velocity_at, 0.9f, mgpu_fmaf(v_bias_at, 0.0f, v_bias_gradient[i_2]));
        v_bias_velocity[i_2] = v_v_2;
        v_bias[i_2] = mgpu_fmaf(-value_2, v_v_2, v_bias_at);
    }
}

/* k9: cross_entropy_1: d_cross_entropy  [n] f32  small.net:6 */
static void k9(void *const *argument, const mgpu_step *step, const mgpu_part *part)
{
    float *restrict v_d_cross_entropy = argument[0]; /* [n] */
    const int64_t begin = part->begin, end = part->end;
    const float value = (float)(1.0 / (double)step->samples);
    {
        int64_t i = begin;
        for (; i + MGPU_LANES_n <= end; i += MGPU_LANES_n) {
            const int lanes = MGPU_LANES_n;
            const mgpu_f32_n v_d_l = mgpu_select_f32_n(mgpu_range_n(i, 1, INT64_MIN / 2, step->valid), mgpu_all_f32_n(value), mgpu_all_f32_n(0.0f));
            mgpu_store_f32_n(v_d_cross_entropy + i, 0.0f - v_d_l, lanes);
        }
        if (i < end) {
            const int lanes = (int)(end - i);
            const mgpu_f32_n v_d_l = mgpu_select_f32_n(mgpu_range_n(i, 1, INT64_MIN / 2, step->valid), mgpu_all_f32_n(value), mgpu_all_f32_n(0.0f));
            mgpu_store_f32_n(v_d_cross_entropy + i, 0.0f - v_d_l, lanes);
        }
    }
}

/* k10: cross_entropy_1.log_softmax_1: log_softmax, z, log_softmax, cross_entropy, d_logp, d_log_softmax and 1 more  [n, 3] f32  small.net:6 */
static void k10(void *const *argument, const mgpu_step *step, const mgpu_part *part)
{
    const float *restrict v_y = argument[0]; /* [n, 3] */
    const float *restrict v_bias = argument[1]; /* [3] */
    const uint8_t *restrict v_label = argument[2]; /* [n] */
    const float *restrict v_d_cross_entropy = argument[3]; /* [n] */
    float *restrict v_cross_entropy = argument[4]; /* [n] */
    float *restrict v_d_z = argument[5]; /* [n, 3] */
    const int64_t begin = part->begin, end = part->end;
    (void)step;
    for (int64_t i = begin; i < end; i++) {
        const uint8_t v_label_at = v_label[i];
        const int32_t value = (int32_t)v_label_at;
        const float v_d_cross_entropy_at = v_d_cross_entropy[i];
        const bool inside = 0 <= (int64_t)value && (int64_t)value < 3;
        const int64_t at = (int64_t)value;
        float v_exp_row[3];
        float most = -INFINITY;
        float sum = 0;
        for (int64_t j = 0; j < 3; j++) {
            most = mgpu_larger(most, v_y[3 * i + j] + v_bias[j]);
            sum += 0.0f - (value == (int32_t)j ? v_d_cross_entropy_at : 0.0f);
        }
        float sum_2 = 0;
        for (int64_t j = 0; j < 3; j++) {
            const float v_exp = mgpu_exp(v_y[3 * i + j] + v_bias[j] - most);
            v_exp_row[j] = v_exp;
            sum_2 += v_exp;
        }
        const float v_logp = (inside ? v_y[3 * i + at] : 0.0f) + (inside ? v_bias[at] : 0.0f) - most - mgpu_log(sum_2);
        const float v_where = inside ? v_logp : 0.0f;
        const float v_div = sum / sum_2;
        for (int64_t j = 0; j < 3; j++) {
            v_d_z[3 * i + j] = mgpu_fmaf(v_div, v_exp_row[j], value == (int32_t)j ? v_d_cross_entropy_at : 0.0f);
        }
        v_cross_entropy[i] = v_where;
    }
}

/* k11: cross_entropy_1: sum  [n] f64  small.net:6 */
static void k11_finish(void *const *argument, const mgpu_step *step, const mgpu_part *part)
{
    double *restrict v_sum = argument[1]; /* [] */
    (void)step;
    double *restrict partial = (double *)((char *)argument[2] + 0); /* [1] */
    mgpu_add_f64_parts(partial, 1, part);
    v_sum[0] = partial[0];
}
static void k11(void *const *argument, const mgpu_step *step, const mgpu_part *part)
{
    const float *restrict v_cross_entropy = argument[0]; /* [n] */
    const int64_t begin = part->begin, end = part->end;
    double *restrict partial = (double *)((char *)argument[2] + 0); /* [1] */
    mgpu_f64_w sum = mgpu_all_f64_w(0);
    {
        int64_t i = begin;
        for (; i + MGPU_LANES_w <= end; i += MGPU_LANES_w) {
            const int lanes = MGPU_LANES_w;
            const mgpu_f32_w v_cross_entropy_at = mgpu_load_f32_w(v_cross_entropy + i, lanes);
            const mgpu_f64_w v_where = mgpu_select_f64_w(mgpu_range_w(i, 1, INT64_MIN / 2, step->valid), mgpu_f64_of_f32_w(0.0f - v_cross_entropy_at), mgpu_all_f64_w(0.0));
            sum = mgpu_first_f64_w(lanes, sum + v_where, sum);
        }
        if (i < end) {
            const int lanes = (int)(end - i);
            const mgpu_f32_w v_cross_entropy_at = mgpu_load_f32_w(v_cross_entropy + i, lanes);
            const mgpu_f64_w v_where = mgpu_select_f64_w(mgpu_range_w(i, 1, INT64_MIN / 2, step->valid), mgpu_f64_of_f32_w(0.0f - v_cross_entropy_at), mgpu_all_f64_w(0.0));
            sum = mgpu_first_f64_w(lanes, sum + v_where, sum);
        }
    }
    double sum_2 = mgpu_sum_f64_w(sum);
    mgpu_add_f64_part(partial, &sum_2, 1, part->first);
}

/* k12: cross_entropy_1: report  [] f64  small.net:6 */
static MGPU_SMALL void k12(void *const *argument, const mgpu_step *step, const mgpu_part *part)
{
    const double *restrict v_sum = argument[0]; /* [] */
    double *restrict v_report = argument[1]; /* [2] */
    (void)part;
    v_report[0] = v_sum[0] * (1.0 / (double)step->samples);
    v_report[1] = step->setting[0] == step->setting[0] ? step->setting[0] : 0.1;
}

/* k13: cross_entropy_1.log_softmax_1: log_softmax, z, log_softmax, cross_entropy  [n, 3] f32  small.net:6 */
static void k13(void *const *argument, const mgpu_step *step, const mgpu_part *part)
{
    const float *restrict v_y = argument[0]; /* [n, 3] */
    const float *restrict v_bias = argument[1]; /* [3] */
    const uint8_t *restrict v_label = argument[2]; /* [n] */
    float *restrict v_cross_entropy = argument[3]; /* [n] */
    const int64_t begin = part->begin, end = part->end;
    (void)step;
    for (int64_t i = begin; i < end; i++) {
        const uint8_t v_label_at = v_label[i];
        const int32_t value = (int32_t)v_label_at;
        const bool inside = 0 <= (int64_t)value && (int64_t)value < 3;
        const int64_t at = (int64_t)value;
        float most = -INFINITY;
        for (int64_t j = 0; j < 3; j++) {
            most = mgpu_larger(most, v_y[3 * i + j] + v_bias[j]);
        }
        float sum = 0;
        for (int64_t j = 0; j < 3; j++) {
            sum += mgpu_exp(v_y[3 * i + j] + v_bias[j] - most);
        }
        const float v_logp = (inside ? v_y[3 * i + at] : 0.0f) + (inside ? v_bias[at] : 0.0f) - most - mgpu_log(sum);
        const float v_where = inside ? v_logp : 0.0f;
        v_cross_entropy[i] = v_where;
    }
}

/* k14: sum, w.eval.loss.cross_entropy.0  [n] f64  small.net:6 */
static void k14_finish(void *const *argument, const mgpu_step *step, const mgpu_part *part)
{
    double *restrict v_0 = argument[2]; /* [] */
    (void)step;
    double *restrict partial = (double *)((char *)argument[3] + 0); /* [1] */
    mgpu_add_f64_parts(partial, 1, part);
    const double v_0_at = v_0[0];
    v_0[0] = v_0_at + partial[0];
}
static void k14(void *const *argument, const mgpu_step *step, const mgpu_part *part)
{
    const float *restrict v_cross_entropy = argument[0]; /* [n] */
    const int64_t begin = part->begin, end = part->end;
    (void)step;
    double *restrict partial = (double *)((char *)argument[3] + 0); /* [1] */
    mgpu_f64_w sum = mgpu_all_f64_w(0);
    {
        int64_t i = begin;
        for (; i + MGPU_LANES_w <= end; i += MGPU_LANES_w) {
            const int lanes = MGPU_LANES_w;
            sum = mgpu_first_f64_w(lanes, sum + mgpu_f64_of_f32_w(0.0f - mgpu_load_f32_w(v_cross_entropy + i, lanes)), sum);
        }
        if (i < end) {
            const int lanes = (int)(end - i);
            sum = mgpu_first_f64_w(lanes, sum + mgpu_f64_of_f32_w(0.0f - mgpu_load_f32_w(v_cross_entropy + i, lanes)), sum);
        }
    }
    double sum_2 = mgpu_sum_f64_w(sum);
    mgpu_add_f64_part(partial, &sum_2, 1, part->first);
}

/* k15: w.eval.loss.cross_entropy.1  [] f64  small.net:6 */
static MGPU_SMALL void k15(void *const *argument, const mgpu_step *step, const mgpu_part *part)
{
    double *restrict v_1 = argument[1]; /* [] */
    (void)step, (void)part;
    const double v_1_at = v_1[0];
    v_1[0] = v_1_at + 8.0;
}

/* k16: sum, w.eval.loss.cross_entropy.0  [n] f64  small.net:6 */
static void k16_finish(void *const *argument, const mgpu_step *step, const mgpu_part *part)
{
    double *restrict v_0 = argument[2]; /* [] */
    (void)step;
    double *restrict partial = (double *)((char *)argument[3] + 0); /* [1] */
    mgpu_add_f64_parts(partial, 1, part);
    const double v_0_at = v_0[0];
    v_0[0] = v_0_at + partial[0];
}
static void k16(void *const *argument, const mgpu_step *step, const mgpu_part *part)
{
    const float *restrict v_cross_entropy = argument[0]; /* [n] */
    const int64_t begin = part->begin, end = part->end;
    double *restrict partial = (double *)((char *)argument[3] + 0); /* [1] */
    mgpu_f64_w sum = mgpu_all_f64_w(0);
    {
        int64_t i = begin;
        for (; i + MGPU_LANES_w <= end; i += MGPU_LANES_w) {
            const int lanes = MGPU_LANES_w;
            const mgpu_f32_w v_cross_entropy_at = mgpu_load_f32_w(v_cross_entropy + i, lanes);
            const mgpu_f64_w v_where = mgpu_select_f64_w(mgpu_range_w(i, 1, INT64_MIN / 2, step->valid), mgpu_f64_of_f32_w(0.0f - v_cross_entropy_at), mgpu_all_f64_w(0.0));
            sum = mgpu_first_f64_w(lanes, sum + v_where, sum);
        }
        if (i < end) {
            const int lanes = (int)(end - i);
            const mgpu_f32_w v_cross_entropy_at = mgpu_load_f32_w(v_cross_entropy + i, lanes);
            const mgpu_f64_w v_where = mgpu_select_f64_w(mgpu_range_w(i, 1, INT64_MIN / 2, step->valid), mgpu_f64_of_f32_w(0.0f - v_cross_entropy_at), mgpu_all_f64_w(0.0));
            sum = mgpu_first_f64_w(lanes, sum + v_where, sum);
        }
    }
    double sum_2 = mgpu_sum_f64_w(sum);
    mgpu_add_f64_part(partial, &sum_2, 1, part->first);
}

/* k17: w.eval.loss.cross_entropy.1  [] f64  small.net:6 */
static MGPU_SMALL void k17(void *const *argument, const mgpu_step *step, const mgpu_part *part)
{
    double *restrict v_1 = argument[1]; /* [] */
    (void)part;
    const double v_1_at = v_1[0];
    v_1[0] = v_1_at + (double)step->samples;
}

/* k18: softmax_1: max, exp, sum, out.probability  [n, 3] f32  small.net:7 */
static void k18(void *const *argument, const mgpu_step *step, const mgpu_part *part)
{
    const float *restrict v_y = argument[0]; /* [n, 3] */
    const float *restrict v_bias = argument[1]; /* [3] */
    float *restrict v_probability = argument[2]; /* [n, 3] */
    const int64_t begin = part->begin, end = part->end;
    (void)step;
    for (int64_t i = begin; i < end; i++) {
        float v_exp_row[3];
        float most = -INFINITY;
        for (int64_t j = 0; j < 3; j++) {
            most = mgpu_larger(most, v_y[3 * i + j] + v_bias[j]);
        }
        float sum = 0;
        for (int64_t j = 0; j < 3; j++) {
            const float v_exp = mgpu_exp(v_y[3 * i + j] + v_bias[j] - most);
            v_exp_row[j] = v_exp;
            sum += v_exp;
        }
        const float v_div = mgpu_inverse(sum);
        for (int64_t j = 0; j < 3; j++) {
            v_probability[3 * i + j] = v_exp_row[j] * v_div;
        }
    }
}

/* k19: t1_eval.loss.cross_entropy.0  [] f64 */
static MGPU_SMALL void k19(void *const *argument, const mgpu_step *step, const mgpu_part *part)
{
    const double *restrict v_0 = argument[0]; /* [] */
    double *restrict v_eval_loss_cross_entropy_0 = argument[1]; /* [] */
    (void)step, (void)part;
    v_eval_loss_cross_entropy_0[0] = v_0[0];
}

/* k20: w.eval.loss.cross_entropy.0, report, w.eval.loss.cross_entropy.1  [] f64 */
static MGPU_SMALL void k20(void *const *argument, const mgpu_step *step, const mgpu_part *part)
{
    const double *restrict v_eval_loss_cross_entropy_0 = argument[1]; /* [] */
    double *restrict v_0 = argument[2]; /* [] */
    double *restrict v_report = argument[3]; /* [1] */
    double *restrict v_1 = argument[4]; /* [] */
    (void)step, (void)part;
    v_0[0] = 0.0;
    const double v_1_at = v_1[0];
    const bool v_eq = v_1_at == 0.0;
    const double v_eval_loss_cross_entropy_0_at = v_eval_loss_cross_entropy_0[0];
    v_report[0] = v_eq ? 0.0 : v_eval_loss_cross_entropy_0_at / (v_eq ? 1.0 : v_1_at);
    v_1[0] = 0.0;
}

const mgpu_kernel mgpu_kernels[] = {
    {.name = "k0", .run = k0, .line = 5},
    {.name = "k1", .run = k1, .line = 5, .split = MGPU_SPLIT_SAMPLES},
    {.name = "k2", .run = k2, .line = 5, .split = MGPU_SPLIT_SAMPLES, .contraction = &k2_contraction},
    {.name = "k3", .run = k3, .line = 6, .split = MGPU_SPLIT_SAMPLES},
    {.name = "k4", .run = k4, .line = 5, .split = MGPU_SPLIT_WORKERS, .contraction = &k4_contraction},
    {.name = "k5", .run = k5, .finish = k5_finish, .line = 6, .split = MGPU_SPLIT_SAMPLES},
    {.name = "k6", .run = k6, .finish = k6_finish, .line = 5, .split = MGPU_SPLIT_SAMPLES},
    {.name = "k7", .run = k7, .line = 6},
    {.name = "k8", .run = k8, .line = 9},
    {.name = "k9", .run = k9, .line = 6, .split = MGPU_SPLIT_SAMPLES},
    {.name = "k10", .run = k10, .line = 6, .split = MGPU_SPLIT_SAMPLES},
    {.name = "k11", .run = k11, .finish = k11_finish, .line = 6, .split = MGPU_SPLIT_SAMPLES},
    {.name = "k12", .run = k12, .line = 6},
    {.name = "k13", .run = k13, .line = 6, .split = MGPU_SPLIT_SAMPLES},
    {.name = "k14", .run = k14, .finish = k14_finish, .line = 6, .split = MGPU_SPLIT_SAMPLES},
    {.name = "k15", .run = k15, .line = 6},
    {.name = "k16", .run = k16, .finish = k16_finish, .line = 6, .split = MGPU_SPLIT_SAMPLES},
    {.name = "k17", .run = k17, .line = 6},
    {.name = "k18", .run = k18, .line = 7, .split = MGPU_SPLIT_SAMPLES},
    {.name = "k19", .run = k19},
    {.name = "k20", .run = k20},
};
