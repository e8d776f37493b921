/* look.h: how far asynchronous devices have come, from the step numbers that their streams write to host memory (mark_and_note in
 * issue.c). late.c and hang.c use it to locate a failed or hanging operation. */
#ifndef MGPU_ENGINE_LOOK_H
#define MGPU_ENGINE_LOOK_H

#include "runtime/engine/internal.h"

typedef struct Look {
    Engine *engine;
    int device;
    bool failed;                         /* the device has failed: an operation that is just being issued counts as issued */
    int64_t number[MGPU_LANES];          /* [lane]: the first step that has not completed; posted + 1 if all have */
    const mgpu_phase *phase[MGPU_LANES]; /* [lane]: of that step; NULL: it has no operations */
    int after[MGPU_LANES];               /* [lane]: position of the last operation known to have completed; -1: none */
    int until[MGPU_LANES]; /* [lane]: position of the first later one that is issued and may not have completed; -1: none */
    bool held[MGPU_LANES];               /* [lane]: that one is a transfer and has not begun */
} Look;

Look mgpu_look(Engine *, int device, bool failed);
int64_t mgpu_look_step(const Look *); /* the first step that some lane has not completed */
const mgpu_op *mgpu_look_op(const Look *, int lane, int place);
bool mgpu_look_in_sum(const Lane *); /* its thread is inside a transfer, or waits until one has completed */
/* Uses what a transfer waits for in its step, in lanes that are at the same step: if it has begun, that has completed; if it
 * could begin but has not, and waits for one operation only, that one has not. */
void mgpu_look_at_waits(Look *, const mgpu_op *transfer, bool begun);
/* Returns an incomplete operation of another lane that one of these positions waits for, and that one in *by; NULL if there is
 * none. */
const mgpu_op *mgpu_look_waited(const Look *, int lane, int from, int to, const mgpu_op **by);
#endif
