/* policy.h: how a program trains on several devices, as policies that are chosen one by one.
 *
 *   input       what of a batch each device gets, and when
 *   slots       room for inputs on a device: 2 or more: the next batch is uploaded while this one is computed
 *   variables   where they are between two steps
 *   reduce      how gradients are added up over the devices
 *   order       which gradients an update takes
 *   waited      the lane of sums that computing waits for, such as batch statistics
 *   gradients   what of them is sent */
#ifndef MGPU_SCHEDULE_POLICY_H
#define MGPU_SCHEDULE_POLICY_H

#include <stdbool.h>

typedef enum InputPolicy {
    INPUT_AHEAD, /* a device gets its own samples, the next ones while it computes */
    INPUT_SLICE, /* its own samples, when the step before is over */
    INPUT_WHOLE, /* the whole batch, when the step before is over, and uses its slice */
    INPUT_POLICIES
} InputPolicy;
typedef enum VariablePolicy {
    VARIABLES_REPLICATED, /* every device has them and makes the same update */
    VARIABLES_HOST,       /* in the host's memory: each step all gradients go there, and what follows from them comes back */
    VARIABLES_DEVICE,     /* likewise, in the memory of device 0 */
    VARIABLE_POLICIES
} VariablePolicy;
typedef enum ReducePolicy {
    REDUCE_BY_COST,
    REDUCE_HOST,
    REDUCE_COPY,
    REDUCE_PEER,
    REDUCE_RING,
    REDUCE_TREE,
    REDUCE_NCCL,
    REDUCE_POLICIES
} ReducePolicy;
typedef enum OrderPolicy {
    ORDER_SYNCHRONOUS, /* those of this step */
    ORDER_STALE,       /* those of the step before, which are added up meanwhile */
    ORDER_NONE,        /* a device's own: no training, but what no reduction can be faster than */
    ORDER_POLICIES
} OrderPolicy;

typedef enum WaitedPolicy {
    WAITED_COMM, /* that of gradients; and nothing is computed meanwhile that would come later */
    WAITED_BY_COST,
    WAITED_SYNC, /* their own: they run beside those of gradients */
    WAITED_POLICIES
} WaitedPolicy;

typedef enum GradientPolicy {
    GRADIENTS_EXACT,
    GRADIENTS_BF16,    /* rounded to bf16, and so is their sum: passes/rounded.c */
    GRADIENTS_ONE_BIT, /* of each element, and what that leaves out with the next one: passes/one_bit.c */
    GRADIENT_POLICIES
} GradientPolicy;

typedef struct Policy {
    const char *name;   /* of --plan: a preset, and what was changed of it */
    const char *scheme; /* what it reproduces */
    InputPolicy input;
    int slots;
    VariablePolicy variables;
    ReducePolicy reduce;
    OrderPolicy order;
    WaitedPolicy waited;
    GradientPolicy gradients;
    bool forward; /* predictions only: there is nothing to train */
    bool split;   /* shares by --split, or by the numbers behind its name */
} Policy;
#define PREDICTS_ONLY "predicts only" /* the label of a plan that only predicts */
#endif
