/* look.h: how far devices that run ahead are, as their streams have noted it (mark_and_note in issue.c): for late.c and hang.c, which say where
 * one has failed or hangs. */
#ifndef MGPU_ENGINE_LOOK_H
#define MGPU_ENGINE_LOOK_H

#include "runtime/engine/internal.h"

typedef struct Look {
    Engine *engine;
    int device;
    bool failed;                         /* what is being issued may be issued already */
    int64_t number[MGPU_LANES];          /* of a lane: its first step that is not done; one that is not posted: all are */
    const mgpu_phase *phase[MGPU_LANES]; /* of that step; NULL: it has no operations */
    int after[MGPU_LANES];               /* place of the last operation in it that is known to be done; -1: none */
    int until[MGPU_LANES];               /* of the first after it that is issued and not known to be done; -1: none */
    bool held[MGPU_LANES];               /* that is a transfer, and has not begun */
} Look;

Look mgpu_look(Engine *, int device, bool failed);
int64_t mgpu_look_step(const Look *); /* the first that is not done in some lane */
const mgpu_op *mgpu_look_op(const Look *, int lane, int place);
bool mgpu_look_in_sum(const Lane *); /* its thread is in a transfer, or waits for the end of one that it has issued */
/* What a transfer waits for in its step, of lanes that are in this step: done if it has begun; if it has not although it could, the one operation
 * that it waits for is not. */
void mgpu_look_at_waits(Look *, const mgpu_op *transfer, bool begun);
/* an operation of another lane that is not done and that one of these places waits for; *by: which one. NULL: none */
const mgpu_op *mgpu_look_waited(const Look *, int lane, int from, int to, const mgpu_op **by);
#endif
