/* engine.h: the engine as its users see it: devices, posted steps, audits. */
#ifndef MGPU_ENGINE_H
#define MGPU_ENGINE_H

#include "runtime/base/base.h"
#include "runtime/base/options.h"
#include "runtime/data/sets.h"

/* ---- engine.c, lane.c, ahead.c: devices, lanes and the execution of a plan. check.c: is the plan well formed? */
enum { MGPU_RING = 8, MGPU_TIMED = 4 }; /* steps whose records are kept */
typedef struct StepTimes {              /* of a device in a step, nanoseconds: the lane comp at work, waiting for the lane copy, for comm; */
    _Atomic int64_t computing, input, communication; /* of a device that runs ahead in steps that are `timed`, but for `input` */
    _Atomic int64_t launching;          /* of `computing`: worker threads begin and meet, in steps that are `timed`; or, of a device that
                                         * runs ahead, the host's time in launches */
    _Atomic int64_t transferring, meeting; /* of comm: in transfers once all members are there; before that */
    _Atomic int64_t reading;            /* of the lane host */
} StepTimes;
typedef struct Work {                   /* one step of the run: one phase on all devices */
    int64_t number;                     /* q: 1, 2, ...; step q is at q mod MGPU_RING */
    const mgpu_phase *_Atomic phase;    /* NULL: no operations, only what is pending of the step before */
    const Dataset *set;                 /* NULL: staging is left as it is (bench) */
    int64_t *index; /* places in the set of the micro-batch's samples; at least one, for padding samples to copy */
    int64_t sample_count;               /* the valid */
    mgpu_step *block;                   /* by device */
    uint8_t **fetch;                    /* by output: where sample 0 of the micro-batch goes; NULL: not wanted */
    _Atomic int64_t step;               /* as its blocks say it: for messages, also of other threads */
    bool valid_only;                    /* Batch.valid is given: host devices compute no padding samples */
    int64_t applied, epoch, samples;    /* for who collects it */
    double *report;                     /* phase->report_count numbers, once reported */
    _Atomic bool reported;
    _Atomic int unfinished;             /* lanes comp and comm that still work on it */
    StepTimes *times;                   /* by device */
    bool traced;                        /* what the lanes do is noted: trace.h */
    bool timed;                         /* with clocks that not every step has: one step in MGPU_TIMED */
    _Atomic double finished_at;         /* mgpu_seconds, once unfinished is 0 */
} Work;
typedef void Collect(void *context, const Work *); /* called by the thread that posts, in order of the steps */

typedef struct Engine Engine;
typedef struct DeviceKind DeviceKind;  /* device.h */
/* o->threads: that compute, shared by the devices; each has one at least. o->devices: which GPUs */
Engine *mgpu_engine_open(const DeviceKind *, const mgpu_program *, const mgpu_plan *, const Options *o, Collect *, void *context);
void mgpu_engine_close(Engine *, const char *achieved);
/* around what one of several threads does with it, one at a time: what those before have done is known to it */
void mgpu_engine_enter(Engine *);
void mgpu_engine_leave(Engine *);
const mgpu_phase *mgpu_engine_phase(const Engine *, int kind, bool partial_batch); /* NULL: the plan has none */
Work *mgpu_engine_next(Engine *);      /* the record of the next step, to be filled; waits while too many are under way */
void mgpu_engine_post(Engine *);
double mgpu_input_wait_ms(const mgpu_plan *, const Work *); /* the longest that a device's comp lane waited for its input */
double mgpu_communication_wait_ms(const mgpu_plan *, const Work *); /* likewise for transfers; of devices that run ahead in steps that are `timed` */
void mgpu_engine_drain(Engine *);      /* returns when all posted is done and collected */
/* before a phase of the kind is posted: outputs and what `decode` keeps have memory that other phases use, too (compiler/plan/place.c),
 * so between such phases all that was posted is waited for */
void mgpu_engine_turn_to(Engine *, int kind);
void mgpu_engine_set_ahead(Engine *, int steps); /* 2 .. MGPU_AHEAD */
/* check.c: a call of an epilogue's kernel that has a matmul's operands, too; the lane comp's operation before; NULL: none */
bool mgpu_is_joined(const mgpu_gpu_kernel *, const mgpu_op *);
const mgpu_op *mgpu_comp_before(const mgpu_device_phase *, const mgpu_op *);
const char *mgpu_engine_library(const Engine *); /* what computes: the library of matmuls, or why there is none; the GPUs */
int64_t mgpu_engine_library_bytes(const Engine *, int device); /* of transfers and libraries, beside the arena */
/* before the first step, where the plan has several GPUs: of all devices; bytes of a GPU, the most; seconds, the longest */
typedef struct GraphsMade { int count; int64_t bytes; double seconds; } GraphsMade;
GraphsMade mgpu_engine_graphs(const Engine *);
int64_t mgpu_engine_launches(const Engine *, double *seconds); /* on GPUs, by all devices' lanes comp so far; the host's time in them */
int64_t mgpu_engine_arena_bytes(const Engine *, int device); /* allocated here */
bool mgpu_engine_has(const Engine *, int device);            /* whether it is this process's */
bool mgpu_engine_checks(const Engine *);          /* that operations touch what they say: on virtual GPUs */
typedef struct Profile Profile;        /* profile.h */
void mgpu_engine_set_profile(Engine *, Profile *); /* of a drained engine: times of operations go there from now on; NULL: nowhere */
typedef struct Trace Trace;            /* trace.h */
void mgpu_engine_set_trace(Engine *, Trace *); /* likewise; NULL: none */
/* of a drained engine: a variable as it is in memory; random inputs in all slots (bench) */
/* All of a variable, as the device holds it; of one that is split, the parts of all devices, but those that other processes have are 0;
 * of one that is sharded, that of the device's first sample: mgpu_engine_read_part has the others, one after the other */
void mgpu_engine_read_variable(const Engine *, int device, int variable, void *to);
/* only these of its bytes: of one that is split those of them that devices of this process have, one after the other */
void mgpu_engine_read_part(const Engine *, int device, int variable, mgpu_stretch bytes, void *to);
mgpu_stretch mgpu_engine_held(const Engine *, int variable);       /* the elements that devices of this process have */
void mgpu_engine_write_part(Engine *, int device, int variable, int64_t begin, const void *from); /* likewise; from: this byte of it, and what follows */
void mgpu_engine_write_variable(Engine *, int device, int variable, const void *from); /* for all of the device's samples; of another process's device: nothing */
void mgpu_engine_read_whole(const Engine *, int variable, void *to); /* all of it, to all: every process calls this, in one order */
void mgpu_engine_fill_staging(Engine *, uint64_t seed);
void mgpu_check_plan(const DeviceKind *, const mgpu_program *, const mgpu_plan *);

/* hang.c: seconds without any progress after which a run ends, as MGPU_PATIENCE says; 0: it waits for ever */
double mgpu_patience(void);
/* Looks on from here to its end, and says once what stands still after `stall` seconds; 0: never. It ends after all engines. */
typedef struct Hang Hang;
Hang *mgpu_hang_begin(double stall, const struct mgpu_processes *);
void mgpu_hang_set(Hang *, double stall, const struct mgpu_processes *); /* from now on */
void mgpu_hang_end(Hang *);

/* audit.c: where the first NaN or infinity of a step comes from */
typedef struct Audit Audit;
enum { AUDIT_INFINITE = 1, AUDIT_NAN = 2 };
typedef struct Origin {
    int device;
    const mgpu_op *op;                 /* that made it; NULL: it was there before: */
    const char *variable, *input;      /* in one of these */
    unsigned bits;
    bool has_number;                   /* `number` is in the bits of the NaN (OP_NAN_WITH) */
    int32_t number;
    int64_t sample;                    /* its place in the set; -1: of none, or not known */
} Origin;
void mgpu_audit_begin(Engine *);       /* of a drained engine: what is posted from now on runs operation by operation */
const _Atomic int *mgpu_audit_found(const Engine *); /* 1 once a sum of a report is not finite */
bool mgpu_audit_end(Engine *, Origin *); /* likewise; false: all was finite */

/* ---- steps.c: posting steps, for all commands */
typedef struct Feed {                  /* what steps are made of */
    const mgpu_program *program;
    const mgpu_plan *plan;
    const double *setting;             /* of Options */
    Engine *engine;
    uint64_t seed;
    double total_steps, steps_per_epoch;
    int64_t applied;                   /* of who does not train: steps that its weights have seen */
} Feed;
typedef struct Batch {                 /* samples [place, place + samples) of the order: a whole step */
    const Dataset *set;                /* NULL: staging stays as it is */
    const int64_t *order;              /* NULL: as they are stored */
    int64_t place, samples;
    int64_t applied, epoch;
    uint8_t **fetch;                   /* by output: where the step's first sample goes; NULL: nowhere */
    const int64_t *valid;              /* by device: how many of its samples there are, of predictions; NULL: the first `samples` of all
                                        * devices' */
} Batch;
bool mgpu_post(const Feed *, int kind, const Batch *, int64_t micro); /* one micro-batch; false: the plan has no such phase */
void mgpu_post_step(const Feed *, const Batch *);                     /* prologues, accumulating, train */
bool mgpu_post_alone(const Feed *, int kind, int64_t applied, int64_t epoch); /* init and reports: no samples */
/* all of a set through phase `kind`, a micro-batch a step, until *stop is not 0 (NULL: never) */
void mgpu_post_set(const Feed *, int kind, const Dataset *, int64_t applied, int64_t epoch, uint8_t **fetch, const _Atomic int *stop);
void mgpu_wanted_inputs(const mgpu_program *, const mgpu_plan *, unsigned kinds, bool *wanted); /* kinds: bits 1 << kind */
#endif
