/* engine.h: the interface of the engine for its users: devices, posted steps, audits. */
#ifndef MGPU_ENGINE_H
#define MGPU_ENGINE_H

#include "runtime/base/base.h"
#include "runtime/base/options.h"
#include "runtime/data/sets.h"

/* ---- engine.c, lane.c, asynchronous.c: devices, lanes and the execution of a plan. check_plan.c: checks that the plan fits the
 * program. */
enum { MGPU_RING = 8, MGPU_TIMED = 4 }; /* records of steps that are kept; one step in MGPU_TIMED is timed */
typedef struct StepTimes {              /* times of one device in one step, in nanoseconds */
    /* Lane comp at work, waiting for lane copy, waiting for transfers. Of asynchronous devices: only in steps that are `timed`,
     * except `input`. */
    _Atomic int64_t computing, input, communication;
    /* Only in steps that are `timed`, part of `computing`: worker threads begin and wait for each other. Of asynchronous devices,
     * in all steps: the host's time in launches. */
    _Atomic int64_t launching;
    /* Lanes comm and sync: in transfers once all members have arrived, and before that. */
    _Atomic int64_t transferring, waiting_for_members;
    _Atomic int64_t reading; /* lane host: reading samples */
} StepTimes;
typedef struct Work {                /* one step of the run: one phase on all devices */
    int64_t number;                  /* q = 1, 2, ...; step q is at q mod MGPU_RING */
    const mgpu_phase *_Atomic phase; /* NULL: the step only completes delayed operations of the previous one */
    const Dataset *set;              /* NULL: staging buffers keep their contents (bench) */
    int64_t *index;       /* Places in the set of the micro-batch's samples. There is at least one, which padding samples copy. */
    int64_t sample_count; /* valid samples */
    mgpu_step *block;     /* [device] */
    uint8_t **fetch;      /* [output]: where sample 0 of the micro-batch goes; NULL: the output is not wanted */
    _Atomic int64_t step; /* number of the step in its step blocks, for messages; other threads read it, too */
    bool valid_only;      /* Batch.valid is given: host devices compute no padding samples */
    int64_t applied, epoch, samples; /* as in Batch */
    double *report;                  /* phase->report_count numbers, valid once `reported` */
    _Atomic bool reported;
    _Atomic int unfinished;     /* lanes comp, comm and sync that have not finished the step */
    StepTimes *times;           /* [device] */
    bool traced;                /* lanes record what they do (trace.h) */
    bool timed;                 /* takes part in timing: one step in MGPU_TIMED */
    _Atomic double finished_at; /* mgpu_seconds; valid once unfinished is 0 */
} Work;
typedef void Collect(void *context, const Work *); /* called by the thread that posts, in the order of the steps */

typedef struct Engine Engine;
typedef struct DeviceKind DeviceKind; /* device.h */
/* o->threads: compute threads, divided among the devices, at least one each. o->devices: which GPUs. */
Engine *mgpu_engine_open(const DeviceKind *, const mgpu_program *, const mgpu_plan *, const RunOptions *o, Collect *,
                         void *context);
void mgpu_engine_close(Engine *, const char *achieved);
/* Enclose what one of several threads does with the engine. Callers use it one at a time; the pair makes each one's work visible
 * to the next. */
void mgpu_engine_enter(Engine *);
void mgpu_engine_leave(Engine *);
const mgpu_phase *mgpu_engine_phase(const Engine *, int kind, bool partial_batch); /* NULL if the plan has none */
Work *mgpu_engine_next(Engine *); /* of the next step, to be filled in; waits while too many are in flight */
void mgpu_engine_post(Engine *);
double mgpu_input_wait_ms(const mgpu_plan *, const Work *);         /* the longest wait of any device's lane comp for its input */
double mgpu_communication_wait_ms(const mgpu_plan *, const Work *); /* likewise for transfers; on GPUs in `timed` steps */
void mgpu_engine_drain(Engine *); /* returns when all posted steps have completed and are collected */
/* Called before a phase of this kind is posted. Outputs and what `decode` keeps share memory with other phases
 * (compiler/plan/place.c), so this drains the engine between predict or decode phases and others. */
void mgpu_engine_change_kind(Engine *, int kind);
void mgpu_engine_set_steps_in_flight(Engine *, int steps); /* 2 .. MGPU_STEPS_IN_FLIGHT */
/* check_plan.c: Returns true if the call of an epilogue's kernel also has a matmul's operands. mgpu_comp_before returns the
 * previous operation of the lane comp, or NULL. */
bool mgpu_is_joined(const mgpu_gpu_kernel *, const mgpu_op *);
const mgpu_op *mgpu_comp_before(const mgpu_device_phase *, const mgpu_op *);
/* describes what computes: the matmul library, or why there is none; the GPUs */
const char *mgpu_engine_library(const Engine *);
int64_t mgpu_engine_library_bytes(const Engine *, int device); /* allocated by transfers and libraries, outside the arena */
/* Graphs captured before the first step, where the plan has several GPUs: their number on all devices; the most bytes on one GPU;
 * the longest time on one GPU. */
typedef struct GraphsMade {
    int count;
    int64_t bytes;
    double seconds;
} GraphsMade;
GraphsMade mgpu_engine_graphs(const Engine *);
int64_t mgpu_engine_launches(const Engine *, double *seconds); /* on GPUs so far; the host's time in them */
int64_t mgpu_engine_arena_bytes(const Engine *, int device);   /* allocated by this process */
bool mgpu_engine_has(const Engine *, int device);              /* true if the device is this process's */
bool mgpu_engine_checks(const Engine *);           /* true on virtual GPUs: devices check which memory operations touch */
typedef struct Profile Profile;                    /* profile.h */
void mgpu_engine_set_profile(Engine *, Profile *); /* of a drained engine: operations are timed from now on; NULL: no longer */
typedef struct Trace Trace;                        /* trace.h */
void mgpu_engine_set_trace(Engine *, Trace *);     /* likewise for traced steps; NULL: no longer */
/* The functions below are for a drained engine and copy variables in their memory layout. */
/* Reads all of a variable of the device. Of a split variable, reads the parts of all devices; parts that other processes have are
 * 0. Of a sharded variable, reads that of the device's first sample; mgpu_engine_read_part reads the others, which follow it. */
void mgpu_engine_read_variable(const Engine *, int device, int variable, void *to);
/* Reads only these bytes. Of a split variable, reads those that devices of this process have, concatenated. */
void mgpu_engine_read_part(const Engine *, int device, int variable, mgpu_range bytes, void *to);
mgpu_range mgpu_engine_held(const Engine *, int variable); /* the elements that devices of this process have */
/* from: its byte `begin` and what follows */
void mgpu_engine_write_part(Engine *, int device, int variable, int64_t begin, const void *from);
void mgpu_engine_write_variable(Engine *, int device, int variable, const void *from); /* of all the device's samples */
void mgpu_engine_read_whole(const Engine *, int variable, void *to); /* on every process; all call it, in one order */
void mgpu_engine_fill_staging(Engine *, uint64_t seed);
void mgpu_check_plan(const DeviceKind *, const mgpu_program *, const mgpu_plan *);

/* hang.c: Returns MGPU_PATIENCE, the seconds without any progress after which a run ends; 0: never. */
double mgpu_patience(void);
/* Watches engines until mgpu_hang_end, and reports once when nothing has progressed for `stall` seconds (0: never). It outlives
 * all engines. */
typedef struct Hang Hang;
Hang *mgpu_hang_begin(double stall, const struct mgpu_processes *);
void mgpu_hang_set(Hang *, double stall, const struct mgpu_processes *); /* changes both from now on */
void mgpu_hang_end(Hang *);

/* audit.c: finds the origin of the first NaN or infinity of a step */
typedef struct Audit Audit;
enum { AUDIT_INFINITE = 1, AUDIT_NAN = 2 };
typedef struct Origin {
    int device;
    const mgpu_op *op;            /* the operation that produced it; NULL: it was in memory before, in */
    const char *variable, *input; /* this variable or this input */
    unsigned bits;
    bool has_number; /* `number` was read from the NaN's bits (OP_NAN_WITH) */
    int32_t number;
    int64_t sample; /* its place in the set; -1: none, or unknown */
} Origin;
void mgpu_audit_begin(Engine *); /* of a drained engine: steps posted from now on run operation by operation */
const _Atomic int *mgpu_audit_found(const Engine *); /* 1 once a sum in a report is not finite */
bool mgpu_audit_end(Engine *, Origin *);             /* of a drained engine; false: all values were finite */

/* ---- steps.c: posts steps, for all commands */
typedef struct Feed { /* what steps are made from */
    const mgpu_program *program;
    const mgpu_plan *plan;
    const double *setting; /* Options.setting */
    Engine *engine;
    uint64_t seed;
    double total_steps, steps_per_epoch;
    int64_t applied; /* steps that the weights have seen; for callers that do not train */
} Feed;
typedef struct Batch {    /* samples [place, place + samples) of the order: a whole step */
    const Dataset *set;   /* NULL: staging buffers keep their contents */
    const int64_t *order; /* NULL: samples in stored order */
    int64_t place, samples;
    int64_t applied, epoch;
    uint8_t **fetch;      /* [output]: where the step's first sample goes; NULL: the output is not wanted */
    const int64_t *valid; /* [device]: valid samples of each device, for predictions; NULL: `samples` is divided in order */
} Batch;
bool mgpu_post(const Feed *, int kind, const Batch *, int64_t micro); /* posts one micro-batch; false: there is no such phase */
/* Of several objectives: which one update `applied`, from 0, is of; whether the next update sees the next batch. That is so
 * when an objective is repeated, and when a round ends: all objectives of a round see its batches in turn, and those without
 * repetition the last one that was seen. */
typedef struct Turn {
    int objective;
    bool batch_ends;
} Turn;
Turn mgpu_turn(const mgpu_program *, int64_t applied);
int64_t mgpu_updates_of(const mgpu_program *, int64_t batches); /* until so many batches have been seen; -1: more than 2^63 */
int64_t mgpu_batches_of(const mgpu_program *, int64_t updates); /* seen to their end in so many updates */
int64_t mgpu_updates_of_round(const mgpu_program *);
double mgpu_updates_per_batch(const mgpu_program *); /* mean */
void mgpu_post_step(const Feed *, const Batch *);    /* prologues, accumulate phases, train */
/* phases without samples: init and reports */
bool mgpu_post_without_samples(const Feed *, int kind, int64_t applied, int64_t epoch);
/* Posts all of a set as phase `kind`, a micro-batch at a time, until *stop is not 0 (NULL: to the end). */
void mgpu_post_set(const Feed *, int kind, const Dataset *, int64_t applied, int64_t epoch, uint8_t **fetch,
                   const _Atomic int *stop);
void mgpu_wanted_inputs(const mgpu_program *, const mgpu_plan *, unsigned kinds, bool *wanted); /* kinds: the bits 1 << kind */
#endif
