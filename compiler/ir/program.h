/* program.h: mgpuc's options, and the program that the stages fill. */
#ifndef MGPU_IR_PROGRAM_H
#define MGPU_IR_PROGRAM_H

#include "compiler/base/lints.h"
#include "compiler/ir/graph.h"

typedef struct Kernel Kernel;
typedef struct Phase Phase;
typedef struct Plan Plan;
typedef struct Target Target;

typedef enum Command {
    COMMAND_COMPILE,
    COMMAND_CHECK,
    COMMAND_VERIFY,
    COMMAND_PLAN,
    COMMAND_BENCH,
    COMMAND_SCHEDULE,
    COMMAND_REPORT
} Command;
/* --shard: what devices have only their own part of; each row includes the one before it */
typedef enum Sharding {
    SHARD_NOTHING,
    SHARD_OPTIMIZER /* the state of the optimizer, masters of rounded weights */,
    SHARD_GRADIENTS,
    SHARD_WEIGHTS,
    SHARDINGS
} Sharding;

typedef struct Options {
    Command command;
    const char *file, *output, *emit, *from, *devices, *arch, *cc, *cxx, *bucket, *model, *machine, *batches, *measured, *split,
        *sharding, *memory, *steps, *epochs, *metric, *data, *svg, *plan, *edited /* --schedule */,
        *command_line /* for messages: "mgpuc model.net --set width=8" */;
    const char **more;
    int more_count; /* report: files after the first */
    const char *rules, **inits;
    int init_count; /* check: of files with initial weights */
    const char **set_keys, **set_values;
    int set_count;
    bool weak, strong;                            /* plan, bench: weak or strong scaling, by the batch of each device or of all */
    const char *phase, *op, *layer, *at, *device; /* schedule: what is shown */
    bool full, page, timeline;                    /* likewise */
    bool csv;                                     /* bench */
    bool fit;                                     /* plan: the largest batch that fits */
    bool compare;                                 /* plan: the plans of --plan side by side */
    bool mpi;                                     /* the program runs as several processes */
    bool shared;                                  /* a library that predicts, in place of a program */
    bool tune;                                    /* the program's --tune may also choose among our own tiles */
    bool keep, verbose, json, exact_bodies /* composites as their library bodies */, no_fuse, no_reuse;
    const struct Machine *planned; /* the machine of --machine; NULL: none */
    /* this machine, measured, for which host devices are planned; NULL: `planned`, or the default */
    const struct Machine *here;
    const double *weights;
    int weight_count;            /* --split: the share of each device; NULL: not given */
    const struct Policy *policy; /* --plan: plan/policy.h; NULL: auto */
    double measured_rate;        /* --measured 219/s; 0: not given */
    Sharding shard;
    LintSet silenced;     /* -Wno-NAME */
    bool elaborated;      /* elaborated before, for accumulate = "auto": warnings about the text have been printed */
    double memory_bytes;  /* --memory: bytes that a device (host devices: all together) may use; 0: not given */
    int64_t bucket_bytes; /* a gradient bucket is closed when it holds so many bytes; 0: chosen so that the step ends first */
} Options;

/* What recompute = "auto" does to a step: tensors that are not kept; saved bytes (of a device; host devices: of all), and the
 * fractions of operations and of computing time that are added. */
typedef struct DroppedLayer {
    const char *layer;
    int tensors;
    double bytes, us;
} DroppedLayer; /* us: time to recompute them */
typedef struct Dropped {
    int tensors;
    double bytes, flops, time;
    /* by layer instance, for a full step on a device; in descending order of bytes per time */
    DroppedLayer *layers;
    int layer_count;
} Dropped;

typedef struct Program {
    struct ExportText *exports; /* texts for other software that the program writes: export/export.h */
    int export_count;
    Model *model;
    const Options *options;
    const Target *target;          /* what kernels are printed for: kernel/target.h */
    const struct Machine *machine; /* the machine whose times decide: machine/machine.h; NULL: the target's default */
    Phase **phases;
    int phase_count;
    Kernel **kernels;
    int kernel_count;                /* each once */
    const struct Measured *measured; /* measured times: plan/measured_times.h; NULL: none */
    Map labels;                      /* of kernels: "k3f07aa" -> Kernel */
    Map kernels_known;               /* identity of a kernel, or a part of it (kernel/identity.h) -> Kernel */
    Plan *plans;
    int plan_count;
    Dropped dropped;
    /* fraction of the bytes of weights that would be gathered again that is kept from one use to the next */
    double reused_gather_share;
    bool in_order; /* calls do not move to where others wait for transfers (plan/fill.c), because memory is short */
    /* fraction of the bytes of all gathers that may be gathered before their use; at least the minimum */
    double early_gather_share;
    bool predicts;               /* no phase trains: a model without a loss, a library, or a plan that only predicts */
    bool tries;                  /* micro-batches are tried: too many bytes are not an error */
    bool one_batch;              /* micro-batches are impossible: samples depend on sums over the whole batch */
    const char *gpus;            /* the GPUs of --devices, used by runs that name none; NULL: none are named */
    const char *library_folders; /* folders of CUDA's libraries besides the usual ones, for the program; NULL: none */
} Program;
#endif
