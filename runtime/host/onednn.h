/* onednn.h: contractions (runtime/abi/mgpu_gemm.h) by oneDNN, if the machine has it. The library is opened when the program runs
 * (libdnnl.so.3 or libdnnl.so.2). If it is missing or not faster, callers use mgpu_contract.
 *
 * A contraction is prepared once for a number of samples, which generates its code, and run by many threads at once. Each run is
 * single-threaded: oneDNN's own threads are never used. */
#ifndef MGPU_ONEDNN_H
#define MGPU_ONEDNN_H

#include "runtime/abi/mgpu_gemm.h"

typedef struct MgpuLibraryMatmul MgpuLibraryMatmul;

/* Called once, first. Returns false if the library is not used; description: "oneDNN 2.6.3", or the reason. MGPU_ONEDNN is "off",
 * or the library's file; default: the system's. */
bool mgpu_onednn_open(char *description, size_t capacity);

/* What one run computes: of a call for `samples` samples, part `index` of `count`. If only the samples can be divided, the share
 * is a range of them, else a range of the result. threads: how many may run it. */
typedef struct MgpuPart {
    int64_t samples;
    int index, count, threads;
    bool any_speed;   /* use it even if it is slow: for tests and measurements */
    bool convolution; /* use a convolution even if a matmul is possible; for consistent shares */
} MgpuPart;

/* Returns NULL if the library cannot compute it, or not faster than mgpu_contract. */
MgpuLibraryMatmul *mgpu_onednn_prepare(const mgpu_contraction *, const MgpuPart *);
void mgpu_onednn_free(MgpuLibraryMatmul *);

/* Returns true if the result is a partial sum over this share of the samples, which the caller adds up. (Each run writes all of
 * C.) */
bool mgpu_onednn_partial(const MgpuLibraryMatmul *);
int64_t mgpu_onednn_scratch(const MgpuLibraryMatmul *);            /* bytes that a run needs, aligned to 64 */
const char *mgpu_onednn_implementation(const MgpuLibraryMatmul *); /* the library's name of the implementation */

/* a, b: arguments 0 and 1 of the kernel; c: its result. Computes samples [begin, begin + samples) of all that have samples.
 * packed: NULL, or the result of mgpu_onednn_pack for b. Runs with the same `thread` must not overlap. */
void mgpu_onednn_run(MgpuLibraryMatmul *, const void *a, const void *b, void *c, const void *packed, int64_t begin, void *scratch,
                     int thread);

/* Weights in the library's order, for callers that run a contraction several times before the weights change; otherwise every run
 * reorders them. mgpu_onednn_packed returns their bytes, or 0 if the library uses them as they are. */
int64_t mgpu_onednn_packed(const MgpuLibraryMatmul *);
void mgpu_onednn_pack(MgpuLibraryMatmul *, const void *b, void *packed, void *scratch, int thread);
#endif
