/* trial.c: calls kernels as a runtime may call them: by one thread after the other, in parts of any size and in any order. */
#include "runtime/host/trial.h"
#include "runtime/host/contract.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static int64_t draw(Trial *t, int64_t below)
{
    t->random ^= t->random << 13;
    t->random ^= t->random >> 7;
    t->random ^= t->random << 17;
    return (int64_t)(t->random >> 8) % below;
}

static void call(Trial *t, const mgpu_kernel *k, bool *called, int thread, int64_t begin, int64_t end)
{
    mgpu_part part = {.samples = t->samples,
                      .begin = begin,
                      .end = end,
                      .thread = thread,
                      .threads = t->threads,
                      .first = !called[thread],
                      .stride = t->stride};
    called[thread] = true;
    t->arguments[t->work_argument] = t->work + thread * t->stride;
    const mgpu_contract_variant *variant = t->variant && k->contraction ? mgpu_contract_choice(t->variant) : NULL;
    if (variant)
        variant->run(k->contraction, t->arguments, &part, t->shared);
    else
        k->run(t->arguments, &t->step, &part);
}

/* Calls parts of [0, extent) in descending order, by random threads. */
static void call_parts(Trial *t, const mgpu_kernel *k, bool *called, int64_t extent, int64_t grain)
{
    enum { MOST_PARTS = 7 };
    int64_t bound[MOST_PARTS + 1] = {0};
    int parts = 0, most = t->threads == 1 ? 1 : 1 + (int)draw(t, MOST_PARTS);
    while (bound[parts] < extent) {
        int64_t left = extent - bound[parts], size = grain * (1 + draw(t, (left + grain - 1) / grain));
        bound[parts + 1] = bound[parts] + (parts + 1 == most || size > left ? left : size);
        parts++;
    }
    for (int i = parts - 1; i >= 0; i--)
        call(t, k, called, (int)draw(t, t->threads), bound[i], bound[i + 1]);
    for (int thread = 0; thread < t->threads && k->finish; thread++) /* every thread calls at least once */
        if (!called[thread])
            call(t, k, called, thread, 0, 0);
}

void mgpu_try_kernel(const mgpu_kernel *k, Trial *t)
{
    bool called[MOST_TRIAL_THREADS] = {false};
    memset(t->work, 0xFF, (size_t)(t->stride * t->threads));
    if (k->split == MGPU_SPLIT_SAMPLES)
        call_parts(t, k, called, t->samples, 1);
    else if (k->split == MGPU_SPLIT_RANGE)
        call_parts(t, k, called, k->extent, k->grain);
    else if (k->split == MGPU_SPLIT_NONE)
        call(t, k, called, 0, 0, 1);
    else
        for (int thread = t->threads - 1; thread >= 0; thread--)
            call(t, k, called, thread, 0, 1);
    if (k->finish) {
        mgpu_part part = {.samples = t->samples, .end = 1, .threads = t->threads, .stride = t->stride};
        t->arguments[t->work_argument] = t->work;
        k->finish(t->arguments, &t->step, &part);
    }
}

int mgpu_run_trials(const char *file, const mgpu_kernel *kernels)
{
    enum { MOST_SECONDS = 60, CANNOT = 2 };
    alarm(MOST_SECONDS); /* a kernel may loop forever */
    struct stat s;
    int opened = open(file, O_RDWR | O_CLOEXEC);
    if (opened < 0 || fstat(opened, &s))
        return CANNOT;
    char *memory = mmap(NULL, (size_t)s.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, opened, 0);
    if (memory == MAP_FAILED)
        return CANNOT;
    TrialHead *head = (TrialHead *)memory;
    const TrialCall *calls = (const TrialCall *)(memory + head->calls);
    const int64_t *guards = (const int64_t *)(memory + head->guards);
    for (int64_t i = 0; i < head->guard_count; i++)
        if (mprotect(memory + guards[i], (size_t)sysconf(_SC_PAGESIZE), PROT_NONE))
            return CANNOT;
    for (int64_t i = 0; i < head->count; i++) {
        const TrialCall *c = &calls[i];
        const int64_t *offsets = (const int64_t *)(memory + c->arguments);
        void **arguments = calloc((size_t)c->work_argument + 1, sizeof *arguments);
        Trial t = {.threads = (int)c->threads,
                   .samples = c->samples,
                   .work = memory + c->work,
                   .stride = c->stride,
                   .arguments = arguments,
                   .work_argument = (int)c->work_argument,
                   .step = c->step,
                   .random = c->random,
                   .variant = (int)c->variant,
                   .shared = c->shared};
        if (!arguments)
            return CANNOT;
        for (int64_t k = 0; k < c->work_argument; k++)
            arguments[k] = memory + offsets[k];
        head->begun = i + 1;
        mgpu_try_kernel(&kernels[c->kernel], &t);
        free(arguments);
    }
    return 0;
}
