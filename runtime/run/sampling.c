/* sampling.c: samples the next class with --temperature, then --top-k, then --top-p, as transformers and llama.cpp do, and finds
 * the end of a text (--stop). */
#include "runtime/run/sampling.h"
#include "runtime/base/base.h"
#include "runtime/data/data.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct Ranked {
    double weight;
    int64_t class;
} Ranked;

static int by_weight(const void *a, const void *b)
{
    const Ranked *x = a, *y = b;
    return x->weight != y->weight ? (x->weight < y->weight) - (x->weight > y->weight)
                                  : (x->class > y->class) - (x->class < y->class);
}

/* Zeroes all weights but the top_k largest (of equal ones, those of smaller classes), then all but the first ones whose sum
 * reaches top_p of the rest. */
static void keep_top(double *weight, int64_t n, int64_t top_k, double top_p)
{
    Ranked *ranked = mgpu_allocate((size_t)n, sizeof *ranked);
    double sum = 0, reached = 0;
    for (int64_t k = 0; k < n; k++)
        ranked[k] = (Ranked){weight[k], k};
    qsort(ranked, (size_t)n, sizeof *ranked, by_weight);
    int64_t most = top_k && top_k < n ? top_k : n, kept = 0;
    for (int64_t k = 0; k < most; k++)
        sum += ranked[k].weight;
    while (kept < most && (top_p == 1 || reached < top_p * sum || !kept))
        reached += ranked[kept++].weight;
    for (int64_t k = kept; k < n; k++)
        weight[ranked[k].class] = 0;
    free(ranked);
}

int64_t mgpu_sample_class(double *chance, int64_t n, const RunOptions *o, int64_t number, int64_t text)
{
    int64_t best = 0;
    double sum = 0;
    for (int64_t k = 1; k < n; k++)
        best = chance[k] > chance[best] ? k : best;
    double most = chance[best];
    if (o->temperature == 0 || most <= 0)
        return best;
    for (int64_t k = 0; k < n; k++)
        chance[k] = chance[k] > 0 ? pow(chance[k] / most, 1 / o->temperature) : 0;
    if (o->top_k || o->top_p < 1)
        keep_top(chance, n, o->top_k, o->top_p);
    for (int64_t k = 0; k < n; k++)
        sum += chance[k];
    Reading r = {.seed = o->seed, .epoch = text};
    double left = mgpu_stage_random(&r, mgpu_stage_key(&r, "generate"), number, 0) * sum;
    for (int64_t k = 0; k < n; k++) {
        left -= chance[k];
        if (left < 0 && chance[k] > 0)
            return k;
    }
    return best;
}

bool mgpu_find_stop(const RunOptions *o, const char *text, size_t bytes, size_t *clean_bytes)
{
    for (*clean_bytes = 0; *clean_bytes < bytes; (*clean_bytes)++)
        for (int i = 0; i < o->stop_count; i++) {
            size_t length = strlen(o->stops[i]), there = bytes - *clean_bytes;
            if (memcmp(text + *clean_bytes, o->stops[i], there < length ? there : length) == 0)
                return there >= length;
        }
    return false;
}
