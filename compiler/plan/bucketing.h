/* bucketing.h: which gradients share an all-reduce. */
#ifndef MGPU_PLAN_BUCKETING_H
#define MGPU_PLAN_BUCKETING_H

#include "compiler/machine/cost.h"

typedef struct Sum {            /* a value that is reduced and that no other transfer depends on: a gradient, a report */
    int place;                  /* the call that completes it; -1: none, it is there at the begin */
    int64_t bytes;
    Dtype dtype;
    Collect what;
    bool alone;                 /* shares no bucket */
    double update_us;           /* of its updates, without launches */
} Sum;
typedef struct Update { int sum, function; } Update; /* a call of the tail that waits for this sum, and for none after it; those of one
                                                       * function in a bucket share a launch; -1: it has its own */
typedef struct Stop {           /* a transfer after call `place`, which call `before` waits for */
    int place, before;
    double us, shared_us;       /* shared_us: the part of it that takes links; what runs at the same time takes so much longer */
    double taken;               /* the share of the SMs that it has meanwhile */
    bool beside;                /* in a lane of its own, with others of its kind; else in that of the buckets */
} Stop;
typedef struct Timeline {       /* what is known of a step before its gradients have buckets */
    const Members *members;
    const double *call_us; int call_count; /* without the tail */
    const Stop *stops; int stop_count; /* ascending by place */
    const Sum *sums; int sum_count; /* ascending by place */
    const Update *updates; int update_count, function_count; /* ascending by sum; their functions are numbered from 0 */
    double region_us, launch_us; /* that computing loses where a bucket is complete, if a region ends there; for a launch of updates */
    bool across;                /* a launch may do updates of several buckets */
    bool by_engines;            /* copy engines move the sums: all SMs go on computing */
} Timeline;
typedef struct Buckets { int *of, count; } Buckets; /* the bucket of each sum; a bucket has sums of one type, and one way to send them */

/* those that end the step first, of an optimal partition and a few sizes; the same input gives the same buckets */
Buckets buckets_by_cost(const Timeline *);
/* closed when they hold so many bytes */
Buckets buckets_of_size(const Timeline *, int64_t bytes);
/* microseconds from the begin of the step to the end of its tail */
double buckets_end(const Timeline *, const Buckets *);
#endif
