/* trial.h: calls kernels as a runtime may call them, to test their results. mgpuc writes a file of calls with their tensors; a
 * program linked with the kernels makes the calls in the file's memory; mgpuc reads the results. */
#ifndef MGPU_RUNTIME_HOST_TRIAL_H
#define MGPU_RUNTIME_HOST_TRIAL_H

#include "runtime/abi/mgpu.h"

enum { MOST_TRIAL_THREADS = 7 };

typedef struct Trial { /* a call of a kernel by so many threads, one after the other, for parts of random sizes */
    int threads;
    int64_t samples;
    char *work; /* of all threads: `stride` bytes each */
    int64_t stride;
    void **arguments; /* the last one is the workspace, which is set for each thread */
    int work_argument;
    mgpu_step step;
    uint64_t random; /* state of the random numbers that choose parts; never 0 */
    int variant;     /* contractions: number of mgpu_contract_choice; 0: the kernel's own */
    bool shared;     /* contractions: by mgpu_contract_shared */
} Trial;
void mgpu_try_kernel(const mgpu_kernel *, Trial *);

/* The file begins with this head; tensors, workspaces and calls follow anywhere. Offsets are from its beginning. */
typedef struct TrialHead {
    int64_t calls, count;        /* TrialCall [count] */
    int64_t guards, guard_count; /* int64_t [guard_count]: offsets of pages that no kernel may access */
    int64_t begun;               /* calls begun so far: if a kernel ends the program, it was the last of these */
} TrialHead;
typedef struct TrialCall {
    int64_t kernel, threads, samples, work, stride;
    int64_t arguments, work_argument; /* int64_t [work_argument]: offsets */
    uint64_t random;
    int64_t variant, shared;
    mgpu_step step;
} TrialCall;
/* Makes the calls of the file; returns the exit status. */
int mgpu_run_trials(const char *file, const mgpu_kernel *);
#endif
