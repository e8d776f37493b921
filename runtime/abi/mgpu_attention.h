/* mgpu_attention.h: attention for generated kernels: y = softmax(scale q k' + mask) v for each head, and its gradients.
 *
 * In: a constant table (mgpu_attention). A block of queries at a time is multiplied with the keys that it sees; its scores are in
 * the thread's workspace, so there is no score matrix in memory. The gradient recomputes them bit by bit from their maximum m and
 * the logarithm of their sum relative to it. These two are kept apart, since large scores would swallow the logarithm (for scale
 * > 0): p = exp(scale (q k' - m) - logarithm), ds = scale p (g v' - sum p (g v')): dq = ds k, dk = ds' q, dv = p' g After Dao et
 * al., "FlashAttention" (2022), with whole rows of scores, which fit into a CPU's cache.
 *
 * The code is in the runtime library, once for every instruction set: runtime/host/attention_real.h. */
#ifndef MGPU_ATTENTION_H
#define MGPU_ATTENTION_H

#include "mgpu.h"
#include "mgpu_tables.h"

enum { MGPU_ATTENTION_ROWS = 64 /* most queries of a block */, MGPU_ATTENTION_LANES = 16 /* most elements of a vector */ };

/* Computes samples [begin, end) of the part. */
void mgpu_attend(const mgpu_attention *, void *const *argument, const mgpu_part *);

/* Offsets in the workspace, in elements: packed operands, scores, results of the block. Keys and values are packed with keys
 * along vectors (_t) or with their elements along vectors (_n). */
typedef struct mgpu_attention_room {
    int64_t k_t, k_n, v_t, v_n, q_n, g_n, q_copy, g_copy, p, dp, result, dk, dv, all, pitch;
} mgpu_attention_room;

static inline int64_t mgpu_attention_take(int64_t *all, int64_t count)
{
    int64_t at = *all;
    *all += (count + MGPU_ATTENTION_LANES - 1) / MGPU_ATTENTION_LANES * MGPU_ATTENTION_LANES;
    return at;
}

static inline mgpu_attention_room mgpu_attention_layout(const mgpu_attention *a)
{
    const int64_t lanes = MGPU_ATTENTION_LANES;
    int64_t s = (a->keys + lanes - 1) / lanes * lanes, d = (a->d + lanes - 1) / lanes * lanes;
    int64_t e = (a->e + lanes - 1) / lanes * lanes, *all;
    mgpu_attention_room r = {.all = 0};
    all = &r.all;
    r.pitch = s + lanes; /* so that rows of scores do not map to the same cache sets */
    r.k_t = mgpu_attention_take(all, s * a->d);
    r.p = mgpu_attention_take(all, a->rows * r.pitch + 4 * lanes);
    r.result = mgpu_attention_take(all, a->rows * (d > e ? d : e));
    r.q_copy = mgpu_attention_take(all, a->q.half ? a->rows * a->d : 0);
    if (!a->backward) {
        r.v_n = mgpu_attention_take(all, e * a->keys);
        return r;
    }
    r.k_n = mgpu_attention_take(all, d * a->keys);
    r.v_t = mgpu_attention_take(all, s * a->e);
    r.q_n = mgpu_attention_take(all, d * a->rows);
    r.g_n = mgpu_attention_take(all, e * a->rows);
    r.g_copy = mgpu_attention_take(all, a->g.half ? a->rows * a->e : 0);
    r.dp = mgpu_attention_take(all, a->rows * r.pitch + 4 * lanes);
    r.dk = mgpu_attention_take(all, a->keys * d);
    r.dv = mgpu_attention_take(all, a->keys * e);
    return r;
}
#endif
