/* onednn.h: matmuls (runtime/abi/mgpu_gemm.h) by oneDNN, if the machine has it. The library is opened when the program runs
 * (libdnnl.so.3 or libdnnl.so.2); without it, or for what it does not do faster, callers use mgpu_contract.
 *
 * A matmul is prepared once for a number of samples (its code is generated then) and run by many threads at once; each
 * run is single-threaded: oneDNN's own threads are never used. */
#ifndef MGPU_ONEDNN_H
#define MGPU_ONEDNN_H

#include "runtime/abi/mgpu_gemm.h"

typedef struct MgpuLibraryMatmul MgpuLibraryMatmul;

/* Once, before all else. false: not used; said, for people: "oneDNN 2.6.3", or why not.
 * The environment's MGPU_ONEDNN: "off", or the library's file; default: the system's. */
bool mgpu_onednn_open(char *said, size_t room);

/* What one run does: of a call for `samples` samples the part `share` of `shares`. Where the samples are the only axis to
 * divide, the share is a range of them; else it is a range of the result. `threads`: numbers of threads that may run it. */
typedef struct MgpuShare {
    int64_t samples;
    int share, shares, threads;
    bool any_speed;       /* even if it is slow: for tests and measurements */
    bool convolution;     /* as one, even if it is a plain matmul, too: shares of the result and of the samples do not go together */
} MgpuShare;

/* NULL: the library cannot do it, or not faster than mgpu_contract */
MgpuLibraryMatmul *mgpu_onednn_prepare(const mgpu_contraction *, const MgpuShare *);
void mgpu_onednn_free(MgpuLibraryMatmul *);

/* The result is a part of a sum, over this share of the samples: who asked for several shares adds them (each run writes
 * all of C). */
bool mgpu_onednn_partial(const MgpuLibraryMatmul *);
int64_t mgpu_onednn_scratch(const MgpuLibraryMatmul *); /* bytes that a run needs, aligned to 64 */
const char *mgpu_onednn_said(const MgpuLibraryMatmul *); /* the library's name for what it does */

/* a, b: arguments 0 and 1 of the kernel; c: its result. Samples [begin, begin + samples) of all that have samples.
 * packed: NULL, or what mgpu_onednn_pack has made of b. No two threads of the same number at once. */
void mgpu_onednn_run(MgpuLibraryMatmul *, const void *a, const void *b, void *c, const void *packed, int64_t begin,
                     void *scratch, int thread);

/* Weights in the library's order, for callers that run a matmul several times before the weights change: otherwise every
 * run reorders them itself. mgpu_onednn_packed: bytes; 0: the library takes them as they are. */
int64_t mgpu_onednn_packed(const MgpuLibraryMatmul *);
void mgpu_onednn_pack(MgpuLibraryMatmul *, const void *b, void *packed, void *scratch, int thread);
#endif
