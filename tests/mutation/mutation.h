/* mutation.h: what the files of the mutation test share.
 *
 *   mutate.c   one small change to a schedule, of a kind; mutate_values.c: those of what is computed
 *   oracle.c   does a change matter? Runs schedules on tokens instead of numbers; shares no code with the verifier
 *   run.c      the operations of such a run, and the memory that they touch
 *   main.c     the verifier against the oracle */
#ifndef MGPU_MUTATION_H
#define MGPU_MUTATION_H

#include "compiler/plan/schedule.h"

/* ---- random numbers: splitmix64 */
typedef struct Random {
    uint64_t state;
} Random;
uint64_t random_bits(Random *);
int random_below(Random *, int n);
uint64_t mix(uint64_t hash, uint64_t word);

/* ---- mutate.c */
typedef enum Mutation {
    DROP_WAIT,
    SWAP_NEIGHBOURS, /* of a lane */
    SHIFT_BUFFER,
    SHRINK_BUFFER,     /* its bytes, its slots, a write to it; the arena */
    CHANGE_SAMPLES,    /* the bounds of a shard */
    CHANGE_COLLECTIVE, /* reorder, skip or exchange one on one device */
    WRONG_SLOT,
    WRONG_STEP,       /* wait for another step */
    MERGE_STRIPS,     /* with the next one */
    MOVE_CALL,        /* into the neighbouring region */
    DROP_SAMPLES,     /* a call does not work sample by sample, a buffer does not consist of samples */
    OVERLAP_IN_STRIP, /* two buffers of one region */
    ADD_WAIT,         /* for any operation: a deadlock, or nothing */
    CHANGE_LANE,      /* of a transfer */
    /* what is computed */
    SWAP_ARGUMENTS, /* of a call */
    CHANGE_KERNEL,
    DROP_CALL,       /* it reads and writes nothing */
    DROP_OPERATION,  /* any, and the waits for it */
    DROP_ARGUMENT,   /* that is read */
    WRONG_ARGUMENT,  /* another buffer of its kind and size */
    SHRINK_ARGUMENT, /* a kernel is given fewer bytes than it takes */
    CHANGE_DTYPE,    /* of a collective, to one of the same size; the same for all devices */
    EXCHANGE_INDEX,  /* of two inputs, variables or outputs, in all phases */
    CHANGE_TRANSFER, /* a collective's kind, its parts, from which device or to which; its parts with what its members touch */
    CHANGE_PART,     /* the elements that a call computes of split values, with what it touches, or without */
    DROP_GATHER,     /* an all-gather, and the waits for it; the same for all devices */
    LATE_GATHER,     /* an all-gather waits for who reads what it gathers */
    FREE_EARLY,      /* a buffer's bytes are another one's before its last use */
    CUT_SEGMENT,     /* what is sent as bits begins a line later in its bucket, as does what comes after it */
    SWAP_LANES,      /* two operations of the list that follow each other, of two lanes, change places */
    DROP_PHASE,      /* from here on: of whole phases, all devices */
    RENAME_PHASE,
    EXCHANGE_PHASES, /* each has the name of the other */
    DROP_TRAINING,   /* no phase trains, nor does the list of the program's phases have one */
    MUTATIONS
} Mutation;
extern const char *const MUTATION_NAME[MUTATIONS];
/* A mutant that shares what did not change; NULL: this try found nothing to change. everywhere: the same change on all
 * devices; else on one of them. *phase: where the change is. */
Schedule *mutate(const Schedule *, Mutation, bool everywhere, Random *, const char **what, int *phase);

/* ---- oracle.c */
enum { RUN_STEPS = 8 };
/* a run whose middle are several steps of `phase`, with two other phases, any, before, in it and after */
void choose_run(const Schedule *, int phase, Random *, int steps[RUN_STEPS]);
/* What a run leaves: variables, reports, outputs. NULL and *result, or why it does not end. */
const char *run_once(const Schedule *, const int steps[RUN_STEPS], uint64_t *result);
/* NULL: every order that was tried leaves `expected`: both orders of all conflicting pairs that the schedule leaves
 * unordered, then `orders` random ones. Else what differs. */
const char *find_difference(const Schedule *, const int steps[RUN_STEPS], uint64_t expected, int orders, Random *);
#endif
