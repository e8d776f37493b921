/* trial.h: kernels called as a runtime may call them, to be compared with what they should compute. mgpuc writes a file of calls
 * with their tensors, a program that is linked with the kernels makes the calls in the file's own memory, and mgpuc reads the results. */
#ifndef MGPU_RUNTIME_HOST_TRIAL_H
#define MGPU_RUNTIME_HOST_TRIAL_H

#include "runtime/abi/mgpu.h"

enum { MOST_TRIAL_THREADS = 7 };

typedef struct Trial { /* a call of a kernel: by so many threads, which take parts of any size one after the other */
    int threads;
    int64_t samples;
    char *work;          /* of all threads: `stride` bytes each */
    int64_t stride;
    void **arguments;    /* the last one is the workspace, which is set for each thread */
    int work_argument;
    mgpu_step step;
    uint64_t random;     /* never 0: the state of what draws parts */
    int variant;         /* of a matmul: a number of mgpu_contract_choice; 0: as the kernel does it */
    bool shared;         /* likewise: by mgpu_contract_shared */
} Trial;
void mgpu_try_kernel(const mgpu_kernel *, Trial *);

/* the file: this head, then tensors, workspaces and calls at any place; offsets are from its beginning */
typedef struct TrialHead {
    int64_t calls, count;     /* TrialCall [count] */
    int64_t begun;            /* calls that have begun: where a kernel ends the program, it was the last of these */
} TrialHead;
typedef struct TrialCall {
    int64_t kernel, threads, samples, work, stride;
    int64_t arguments, work_argument; /* int64_t [work_argument]: offsets */
    uint64_t random;
    int64_t variant, shared;
    mgpu_step step;
} TrialCall;
/* what the program does; its exit status */
int mgpu_run_trials(const char *file, const mgpu_kernel *);
#endif
