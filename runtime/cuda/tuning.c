/* tuning.c: see tuning.h. Measurements are kept in tuned.txt (tuning_file.h). The key is the GPU, the versions of driver, program
 * and library, and everything that the operation consists of; the value is the number of the library's fastest alternative, and
 * the times of that one, of the kernels and of the usual one.
 *
 * Alternatives run in the unused arena, which is zeroed afterwards (device_cuda.c), because delayed gradients rely on zeros. */
#include "runtime/base/base.h"
#include "runtime/cuda/tuning_file.h"
#include "runtime/cuda/tuning.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ROUNDS = 3, RUNS = 10 };                     /* a time is the minimum over ROUNDS of RUNS calls */
enum { BEST, KERNEL_NS, USUAL_NS, BEST_NS, WORDS }; /* words in tuned.txt */

struct Tuning {
    Tuned *file;
    CUevent clock[2];
    char *where;      /* GPU and versions */
    int timed, known; /* alternatives: measured now; known from before */
    struct {
        const mgpu_op *op;
        double usual_us, us;
    } * each;
    int count;
};

Tuning *mgpu_tuning_open(const CudaDevice *d)
{
    Tuning *t = mgpu_allocate(1, sizeof *t);
    t->file = mgpu_tuned_open();
    t->where = mgpu_format("%s, driver %d, mgpuc " MGPU_VERSION, d->gpu->name, d->machine->version);
    mgpu_cuda_enter(d, -1);
    for (int i = 0; i < MGPU_COUNT(t->clock); i++)
        mgpu_cuda_check(d, -1, d->cuda->event_create(&t->clock[i], CU_EVENT_DEFAULT), "cuEventCreate");
    return t;
}

/* Returns microseconds; negative if it does not run. */
static double time_of(const CudaDevice *d, const Tuning *t, const Alternatives *w, int alternative)
{
    CUstream stream = d->stream[MGPU_COMP];
    double least = -1;
    mgpu_cuda_declare(d, MGPU_COMP, "an operation that is timed", NULL, -1);
    if (!w->run(d, w->context, alternative)) /* the first call loads its kernel */
        return -1;
    for (int k = 0; k < ROUNDS; k++) {
        float ms = 0;
        mgpu_cuda_check(d, -1, d->cuda->event_record(t->clock[0], stream), "cuEventRecord");
        for (int i = 0; i < RUNS; i++)
            if (!w->run(d, w->context, alternative))
                return -1;
        mgpu_cuda_check(d, -1, d->cuda->event_record(t->clock[1], stream), "cuEventRecord");
        mgpu_cuda_check(d, -1, d->cuda->event_synchronize(t->clock[1]), "cuEventSynchronize of an operation that is timed");
        mgpu_cuda_check(d, -1, d->cuda->event_elapsed_time(&ms, t->clock[0], t->clock[1]), "cuEventElapsedTime");
        least = least < 0 || (double)ms < least ? (double)ms : least;
    }
    return 1e3 * least / RUNS;
}

/* If the usual alternative does not run, kernels take its place. */
static void time_all(const CudaDevice *d, const Tuning *t, const Alternatives *w, uint64_t word[WORDS])
{
    double own = time_of(d, t, w, 0), usual = own, best = own;
    word[BEST] = 0;
    for (int i = 1; i < w->count; i++) {
        double us = time_of(d, t, w, i);
        usual = us >= 0 && i == w->usual ? us : usual;
        if (us < 0 || (word[BEST] && us >= best))
            continue;
        best = us;
        word[BEST] = (uint64_t)i;
    }
    word[KERNEL_NS] = (uint64_t)(1e3 * own);
    word[USUAL_NS] = (uint64_t)(1e3 * usual);
    word[BEST_NS] = (uint64_t)(1e3 * best);
}

AlternativeTimes mgpu_time_alternatives(const CudaDevice *d, Tuning *t, const Alternatives *w)
{
    char *key = mgpu_format("%s, %s", t->where, w->key);
    uint64_t word[WORDS];
    bool known = mgpu_tuned_find(t->file, key, word, WORDS) && word[BEST] < (uint64_t)w->count;
    if (!known) {
        time_all(d, t, w, word);
        mgpu_tuned_add(t->file, key, word, WORDS,
                       1e-3 * (double)(word[BEST] && word[BEST_NS] < word[KERNEL_NS] ? word[BEST_NS] : word[KERNEL_NS]));
    }
    t->known += known;
    t->timed += !known;
    free(key);
    return (AlternativeTimes){(int)word[BEST], 1e-3 * (double)word[KERNEL_NS], 1e-3 * (double)word[USUAL_NS],
                              1e-3 * (double)word[BEST_NS]};
}

static int find(const Tuning *t, const mgpu_op *op)
{
    int i = 0;
    while (i < t->count && t->each[i].op != op)
        i++;
    return i;
}

void mgpu_tuning_set(Tuning *t, const mgpu_op *op, double usual_us, double us)
{
    int i = find(t, op);
    if (i == t->count) {
        t->each = mgpu_resize(t->each, (size_t)(i + 1) * sizeof *t->each);
        t->each[t->count++].op = op;
    }
    t->each[i].usual_us = usual_us;
    t->each[i].us = us;
}

double mgpu_tuning_usual_us(const Tuning *t, const mgpu_op *op, double otherwise)
{
    int i = find(t, op);
    return i < t->count ? t->each[i].usual_us : otherwise;
}

double mgpu_tuning_us(const Tuning *t, const mgpu_op *op)
{
    int i = find(t, op);
    return i < t->count ? t->each[i].us : INFINITY;
}

/* Sums up, in ms, the phase that takes longest, a training step: without --tune, and as chosen. */
static void add_up(const CudaDevice *d, const Tuning *t, double *usual, double *chosen)
{
    *usual = *chosen = 0;
    for (int k = 0; k < d->plan->phase_count; k++) {
        const mgpu_device_phase *p = &d->plan->phases[k].devices[d->number];
        double sum[2] = {0, 0};
        for (int i = 0; i < t->count; i++)
            if (t->each[i].op >= p->ops && t->each[i].op < p->ops + p->op_count) {
                sum[0] += 1e-3 * t->each[i].usual_us;
                sum[1] += 1e-3 * t->each[i].us;
            }
        if (sum[0] <= *usual)
            continue;
        *usual = sum[0];
        *chosen = sum[1];
    }
}

void mgpu_tuning_close(const CudaDevice *d, Tuning *t, char *description, size_t capacity)
{
    size_t used = strlen(description);
    double usual, chosen;
    add_up(d, t, &usual, &chosen);
    snprintf(description + used, capacity - used, ", %d timed, %d known: %.3g ms of a step, without --tune %.3g", t->timed,
             t->known, chosen, usual);
    for (int i = 0; i < MGPU_COUNT(t->clock); i++)
        mgpu_cuda_check(d, -1, d->cuda->event_destroy(t->clock[i]), "cuEventDestroy");
    mgpu_tuned_close(t->file);
    free(t->where);
    free(t->each);
    free(t);
}
