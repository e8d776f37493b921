/* trace.h: a measured timeline of some steps (`train --trace`): what all lanes, workers, decoders and the loop did. */
#ifndef MGPU_ENGINE_TRACE_H
#define MGPU_ENGINE_TRACE_H

#include "runtime/base/trace.h"
#include "runtime/engine/engine.h"

/* of training steps first .. last, and of what runs beside them; virtual: of virtual GPUs, whose clocks are not the host's */
Trace *mgpu_trace_open(const mgpu_program *, const mgpu_plan *, int64_t first, int64_t last, bool virtual);
void mgpu_trace_close(Trace *);
bool mgpu_trace_post(Trace *, int64_t step);         /* before a step is posted: whether it is noted; NULL: no trace, here and below */
bool mgpu_trace_over(const Trace *, int64_t step);   /* all is noted, once the engine is drained after this step */
/* the log of a track, made where there is none yet; not while others use the trace */
SpanLog *mgpu_trace_log(Trace *, int device, int track);
void mgpu_trace_step(Trace *, int64_t step, double begin, double end); /* of training, as it was collected */
void mgpu_trace_text(Trace *, int track, const char *text, double begin, double end); /* noted by the program's own thread */
void mgpu_trace_set(Dataset *, Trace *);              /* decoders of the set note what they do from now on; NULL: no more */
/* of a traced step, the mean over this process's devices: transfers between devices, and what of them is beside computing, in seconds */
typedef struct TracedTransfers { double all, beside; } TracedTransfers;
TracedTransfers mgpu_traced_transfers(const Trace *);
/* NULL, or why it cannot be written, which the caller frees */
char *mgpu_trace_write(const Trace *, const char *path);
#endif
