/* stream_progress.h: how far asynchronous devices have come, from the step numbers that their streams write to host memory
 * (mark_and_note in issue.c). late_failure.c and hang.c use it to locate a failed or hanging operation. */
#ifndef MGPU_ENGINE_LOOK_H
#define MGPU_ENGINE_LOOK_H

#include "runtime/engine/internal.h"

typedef struct StreamProgress {
    Engine *engine;
    int device;
    bool failed;                         /* the device has failed: an operation that is just being issued counts as issued */
    int64_t number[MGPU_LANES];          /* [lane]: the first step that has not completed; posted + 1 if all have */
    const mgpu_phase *phase[MGPU_LANES]; /* [lane]: of that step; NULL: it has no operations */
    int after[MGPU_LANES];               /* [lane]: position of the last operation known to have completed; -1: none */
    int until[MGPU_LANES]; /* [lane]: position of the first later one that is issued and may not have completed; -1: none */
    bool held[MGPU_LANES]; /* [lane]: that one is a transfer and has not begun */
} StreamProgress;

StreamProgress mgpu_stream_progress(Engine *, int device, bool failed);
int64_t mgpu_progress_step(const StreamProgress *); /* the first step that some lane has not completed */
const mgpu_op *mgpu_progress_op(const StreamProgress *, int lane, int place);
bool mgpu_is_in_collective(const LaneThread *); /* its thread is inside a transfer, or waits until one has completed */
/* Uses what a transfer waits for in its step, in lanes that are at the same step: if it has begun, that has completed; if it
 * could begin but has not, and waits for one operation only, that one has not. */
void mgpu_progress_from_waits(StreamProgress *, const mgpu_op *transfer, bool begun);
/* Returns an incomplete operation of another lane that one of these positions waits for, and that one in *by; NULL if there is
 * none. */
const mgpu_op *mgpu_progress_waited(const StreamProgress *, int lane, int from, int to, const mgpu_op **by);
#endif
