/* bucketing.h: which gradients share an all-reduce. */
#ifndef MGPU_PLAN_BUCKETING_H
#define MGPU_PLAN_BUCKETING_H

#include "compiler/machine/cost.h"

typedef struct ReducedValue { /* a value that is all-reduced and that no other transfer depends on: a gradient, a report */
    int place;                /* the call that completes it; -1: none, it is complete at the start */
    int64_t bytes;
    Dtype dtype;
    Collect what;
    bool own_bucket;  /* shares no bucket */
    double update_us; /* time of its updates, without launches */
} ReducedValue;
/* a call of the tail that waits for this sum, and for none after it. Updates of one function in a bucket share a launch; function
 * -1: it has its own launch */
typedef struct Update {
    int reduced, function;
} Update;
typedef struct Stop { /* a transfer after call `place`, for which call `before` waits */
    int place, before;
    /* shared_us: the part of `us` in which it occupies links; a simultaneous transfer takes so much longer */
    double us, shared_us;
    double taken;      /* fraction of the SMs that it occupies */
    bool in_sync_lane; /* in a lane of its own, with others of its kind; false: in the lane of the buckets */
} Stop;
typedef struct Timeline { /* what is known of a step before its gradients have buckets */
    const Members *members;
    const double *call_us;
    int call_count; /* calls before the tail */
    const Stop *stops;
    int stop_count; /* ascending by place */
    const ReducedValue *reduced;
    int reduced_count; /* ascending by place */
    const Update *updates;
    int update_count, function_count; /* ascending by sum; functions are numbered from 0 */
    /* time that computing loses where a bucket is complete, if a region ends there; time of a launch of updates */
    double region_us, launch_us;
    bool joins_buckets; /* a launch may contain updates of several buckets */
    bool by_engines;    /* copy engines transfer the sums, so that all SMs continue to compute */
} Timeline;
/* the bucket of each sum; a bucket has sums of one type, and one kind of collective */
typedef struct Buckets {
    int *of, count;
} Buckets;

/* Returns the buckets with which the step ends first, of an optimal partition and a few maximum sizes. The same input gives the
 * same buckets. */
Buckets buckets_by_cost(const Timeline *);
/* Returns buckets that are closed when they hold so many bytes. */
Buckets buckets_of_size(const Timeline *, int64_t bytes);
/* Returns the microseconds from the start of the step to the end of its tail. */
double buckets_end(const Timeline *, const Buckets *);
#endif
