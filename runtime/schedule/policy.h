/* policy.h: how a program trains on several devices: one policy for each of these aspects.
 *
 *   input       which part of a batch each device gets, and when
 *   slots       input slots of a device; with 2 or more, the next batch is uploaded while this one is computed
 *   variables   where variables are between two steps
 *   reduce      how gradients are all-reduced
 *   order       which step's gradients an update uses
 *   waited      the lane of transfers that computing waits for, such as batch statistics
 *   gradients   the precision in which gradients are sent */
#ifndef MGPU_SCHEDULE_POLICY_H
#define MGPU_SCHEDULE_POLICY_H

#include <stdbool.h>

typedef enum InputPolicy {
    INPUT_AHEAD, /* a device gets its own samples, and the next ones while it computes */
    INPUT_SLICE, /* its own samples, after the previous step is over */
    INPUT_WHOLE, /* the whole batch, after the previous step is over; it uses its slice */
    INPUT_POLICIES
} InputPolicy;
typedef enum VariablePolicy {
    VARIABLES_REPLICATED, /* every device has them and makes the same update */
    VARIABLES_HOST,       /* in host memory: in each step, all gradients go there and the new values come back */
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
    ORDER_SYNCHRONOUS, /* this step's */
    ORDER_STALE,       /* the previous step's, which are all-reduced meanwhile */
    ORDER_NONE,        /* the device's own: not training, but an upper bound of the speed */
    ORDER_POLICIES
} OrderPolicy;

typedef enum WaitedPolicy {
    WAITED_COMM, /* that of gradients, without reordering of computation */
    WAITED_BY_COST,
    WAITED_SYNC, /* a lane of their own, concurrent with that of gradients */
    WAITED_POLICIES
} WaitedPolicy;

typedef enum GradientPolicy {
    GRADIENTS_EXACT,
    GRADIENTS_BF16,    /* rounded to bf16, and so is their sum: passes/bf16_gradients.c */
    GRADIENTS_ONE_BIT, /* one bit per element, with error feedback: passes/one_bit.c */
    GRADIENT_POLICIES
} GradientPolicy;

typedef struct Policy {
    const char *name;   /* of --plan: a preset and its changes */
    const char *scheme; /* the published scheme that it reproduces */
    InputPolicy input;
    int slots;
    VariablePolicy variables;
    ReducePolicy reduce;
    OrderPolicy order;
    WaitedPolicy waited;
    GradientPolicy gradients;
    bool forward; /* predictions only, without training */
    bool split;   /* samples per device by --split, or by the numbers after the policy's name */
} Policy;
#define PREDICTS_ONLY "predicts only" /* the label of a plan that only predicts */
#endif
