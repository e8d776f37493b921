/* trace.h: the measured timeline of some steps (`train --trace`): what all lanes, workers, decoders and the loop did. */
#ifndef MGPU_ENGINE_TRACE_H
#define MGPU_ENGINE_TRACE_H

#include "runtime/base/trace.h"
#include "runtime/engine/engine.h"

/* For training steps first .. last and what runs at the same time. virtual: of virtual GPUs, whose clocks differ from the
 * host's. */
Trace *mgpu_trace_open(const mgpu_program *, const mgpu_plan *, int64_t first, int64_t last, bool virtual);
void mgpu_trace_close(Trace *);
bool mgpu_trace_post(Trace *, int64_t step); /* called before a step is posted: is it traced? trace NULL: no, here and below */
bool mgpu_trace_over(const Trace *, int64_t step); /* the trace is complete once the engine is drained after this step */
/* Returns the log of a track and creates it if necessary. No other thread may use the trace meanwhile. */
SpanLog *mgpu_trace_log(Trace *, int device, int track);
void mgpu_trace_step(Trace *, int64_t step, double begin, double end);                /* a training step, when it is collected */
void mgpu_trace_text(Trace *, int track, const char *text, double begin, double end); /* on the main thread */
void mgpu_trace_set(Dataset *, Trace *); /* traces the set's decoders from now on; NULL: no longer */
/* Seconds per traced step, averaged over this process's devices: transfers between devices, and the part of them that overlaps
 * with computing. */
typedef struct TracedTransfers {
    double all, overlapped;
} TracedTransfers;
TracedTransfers mgpu_traced_transfers(const Trace *);
/* Returns NULL, or why the file cannot be written, which the caller frees. */
char *mgpu_trace_write(const Trace *, const char *path);
#endif
