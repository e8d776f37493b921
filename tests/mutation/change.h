/* change.h: what the files that make mutants share. */
#ifndef MGPU_CHANGE_H
#define MGPU_CHANGE_H

#include "tests/mutation/mutation.h"

typedef struct Change { /* it gets its own copy of one device of one phase */
    Schedule *s;
    int phase, device;
    DeviceSchedule *d;
    Random *random;
    const char *what;
} Change;

/* ---- mutate.c */
DeviceSchedule *own_device(Schedule *, int phase, int device);
bool pick_op(const Change *, bool (*fits)(const Change *, const ScheduledOp *), int *op);
const char *changed_op(const Change *, int op);
bool is_own(const Buffer *);      /* each thread has its own */
void remove_op(Change *, int op); /* what waited for it waits for nothing */

/* ---- mutate_values.c: what is computed */
bool swap_arguments(Change *);
bool change_kernel(Change *);
bool drop_call(Change *);
bool drop_operation(Change *);
bool drop_argument(Change *);
bool wrong_argument(Change *);
bool shrink_argument(Change *);
bool change_dtype(Change *);
bool exchange_index(Change *);
bool change_part(Change *);
bool drop_gather(Change *);
bool late_gather(Change *);
bool free_early(Change *);
bool cut_segment(Change *);
#endif
