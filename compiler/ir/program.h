/* program.h: mgpuc's options, and the program that the stages fill. */
#ifndef MGPU_IR_PROGRAM_H
#define MGPU_IR_PROGRAM_H

#include "compiler/base/lints.h"
#include "compiler/ir/graph.h"

typedef struct Kernel Kernel;
typedef struct Phase Phase;
typedef struct Plan Plan;
typedef struct Target Target;

typedef enum Command { COMMAND_COMPILE, COMMAND_CHECK, COMMAND_VERIFY, COMMAND_PLAN, COMMAND_BENCH, COMMAND_SCHEDULE, COMMAND_REPORT } Command;
/* --shard: of what each device holds its own part alone; each has what the one before it has */
typedef enum Sharding { SHARD_NOTHING, SHARD_OPTIMIZER /* the state of the optimizer, masters of rounded weights */,
                        SHARD_GRADIENTS, SHARD_WEIGHTS, SHARDINGS } Sharding;

typedef struct Options {
    Command command;
    const char *file, *output, *emit, *from, *devices, *arch, *cc, *cxx, *bucket, *model, *machine, *batches, *measured, *split, *sharding, *memory, *steps, *epochs, *metric, *data, *svg, *plan, *command_line /* for messages: "mgpuc model.net --set width=8" */;
    const char **more; int more_count; /* report: files after the first */
    const char *rules, **inits; int init_count; /* check: of files that weights would begin with */
    const char **set_keys, **set_values; int set_count;
    bool weak, strong; /* plan, bench: the batch of each device stays, or that of all */
    const char *phase, *op, *layer, *at, *device; /* schedule: what is shown */
    bool full, page, timeline;               /* likewise */
    bool csv;          /* bench */
    bool fit;          /* plan: of the largest batch that fits */
    bool compare;      /* plan: the plans of --plan side by side */
    bool mpi;          /* the program is started as several processes */
    bool shared;       /* a library that predicts, in place of a program */
    bool tune;         /* its --tune has our own tiles to choose from, too */
    bool keep, verbose, json, exact_bodies /* composites by their library bodies */, no_fuse, no_reuse;
    const struct Machine *planned; /* the machine that --machine names; NULL: none does */
    const struct Machine *here; /* this machine, measured: host devices are planned for it; NULL: for `planned`, or the default */
    const double *weights; int weight_count; /* --split: of each device's share; NULL: no proportions are given */
    const struct Policy *policy; /* --plan: plan/policy.h; NULL: auto */
    double measured_rate;   /* --measured 219/s; 0: not given */
    Sharding shard;
    LintSet silenced;       /* -Wno-NAME */
    bool elaborated;        /* once before, for accumulate = "auto": what is said of the text has been said */
    double memory_bytes;    /* --memory: that a device (host devices: all together) may take; 0: nobody says */
    int64_t bucket_bytes;   /* a gradient bucket is closed when it holds this much; 0: when that ends the step soonest */
} Options;

/* what recompute = "auto" does to a step: tensors that are not kept; bytes less (of a device; host devices: of all), and which part of
 * operations and of computing time comes on top */
typedef struct DroppedLayer { const char *layer; int tensors; double bytes, us; } DroppedLayer; /* us: what computing them again takes */
typedef struct Dropped {
    int tensors;
    double bytes, flops, time;
    DroppedLayer *layers; int layer_count; /* of each instance, of a full step on a device; most bytes for their time first */
} Dropped;

typedef struct Program {
    struct ExportText *exports; /* what the program writes for other software: export/export.h */
    int export_count;
    Model *model;
    const Options *options;
    const Target *target;   /* what kernels are printed for: kernel/target.h */
    const struct Machine *machine; /* whose times decide: machine/machine.h; NULL: the target's default */
    Phase **phases; int phase_count;
    Kernel **kernels; int kernel_count;  /* each once */
    const struct Measured *measured; /* what kernels were measured to take: plan/measured.h; NULL: nothing was */
    Map labels;             /* of kernels: "k3f07aa" -> Kernel */
    Map kernels_known;      /* what a kernel is, or a part of that: kernel/identity.h -> Kernel */
    Plan *plans; int plan_count;
    Dropped dropped;
    double gathered_kept;   /* of the bytes of weights that are gathered again, what is kept from one use to the next instead */
    bool in_order;          /* calls do not move to where others wait for transfers (plan/fill.c): memory that they would take is not there */
    double gathered_ahead;  /* of the bytes of all gathers of weights, what may be whole before it is used: the least, or more */
    bool predicts;          /* no phase trains: of a model without a loss, of a library, by a plan that only predicts */
    bool tries;             /* how many micro-batches fit: too many bytes are no error */
    bool one_batch;         /* a step cannot be computed in micro-batches: samples depend on sums over the whole batch */
    const char *gpus;       /* of --devices, if it names some: those of a run that names none; else NULL */
    const char *library_folders; /* where CUDA's libraries are besides the usual places, for the program; NULL: nowhere */
} Program;
#endif
