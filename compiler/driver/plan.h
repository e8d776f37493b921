/* plan.h: `mgpuc plan`: how fast a model trains on which devices of a machine, and why. No kernel is compiled, no GPU is needed.
 *
 *   plan.c         the command; a row for each number of devices and batch: compiled, simulated
 *   predict.c      what a schedule is simulated with; the predictions that programs contain
 *   plan_advice.c  what follows from the rows, in words, each with its figure
 *   plan_print.c   the table, JSON
 *   compare.c      --compare: the plans of --plan side by side */
#ifndef MGPU_DRIVER_PLAN_H
#define MGPU_DRIVER_PLAN_H

#include "compiler/driver/command.h"
#include "compiler/simulate/simulate.h"

static const double PLAN_WORTH = .02; /* of a step: less is not spoken of */

typedef struct Grounds { double kernels[GROUNDS], transfers[GROUNDS]; } Grounds; /* shares of what is computed and what computing waits for */
typedef struct Count { int nodes, devices; } Count; /* devices: of all nodes */

typedef struct PlanRow {
    bool weak;                  /* compared with one device that has the batch of each; else with one that has all of it */
    int nodes, devices, idle;   /* devices: of all nodes; idle: without samples */
    int64_t batch, least, most; /* of all; of the devices with the fewest and the most samples */
    double step_us, samples_per_s, speed_up, efficiency;
    bool steady;
    /* of the device that computes longest, what the lane comp did in a step */
    double computing_us, longer_us; /* longer: of it, as transfers have some of the SMs */
    double exposed_us, between_us, upload_us, input_us, devices_us; /* between: of exposed_us, between nodes */
    int sums;                   /* all-reduces in the middle of a step (batchnorm's); how long they are waited for */
    double sums_us;
    double updates_us;          /* what a device computes of updates */
    double input_per_s, decode_cores; /* bytes of inputs a second, of all nodes; cores of a node that decode pictures */
    double bytes, memory;       /* that a device takes, and has; of host devices: all of a node together */
    double variables;           /* of its bytes */
    int64_t fits;               /* the largest batch that does; -1: not known */
    const char *cure, *recompute; /* where none does, what would; what recompute = "auto" would do where the row does not fit; else NULL */
    double mfu;                 /* FLOPs of the model a second, of those that the devices' matrix units (f32, f64: without them) have */
    double tokens;              /* of a sample: elements of its first input of classes that is a sequence; 0: none is */
    double recomputed;          /* which part of computing time recomputing takes */
    int64_t micro;              /* micro-batches */
    const char *unlike;         /* how the program of one device, which this is compared with, differs: "recomputes ..."; NULL: it does not */
    double link_bytes, link_share; /* of the busiest link and direction, in a step; of what it carries in that time */
    Grounds from;               /* what the step's time rests on */
    const char *link;           /* "host to 0" */
    const char *input;          /* of input_needs */
    const char *bound;          /* what takes most of the step */
    const Policy *policy;       /* --compare: by which plan; else NULL */
    double least_us;            /* --compare: the step of auto */
} PlanRow;

typedef struct Planning {
    bool predicts;              /* the model has no loss: steps are those of predict */
    bool may_be_stale;          /* the model's gradients may be applied a step late (passes/delay.c) */
    const Options *options;
    const Machine *machine;
    const char *machine_name, *model, *precision, *kind; /* kind: "cuda", "host" */
    PlanRow *rows; int row_count;
    const char **advice; int advice_count;
    bool searched;              /* recompute, accumulate: another batch gets another program, so what fits is not known of one */
    bool apart;                 /* rows are of programs for those devices alone */
    KernelCache *kernels;       /* rows with the batch and the parts of those that are being made may share these; NULL: none do */
    bool warned;                /* what is wrong with the model has been said: each row is compiled anew */
    double measured;            /* --measured; 0: nothing was */
    int64_t factor_batch;       /* of one device, for which `factor` was found last */
    double factor;
} Planning;

/* plan.c */
enum { MOST_BATCHES = 64 };
int read_batches(const char *list, int64_t *batches); /* "32,64"; exit 2 for what is no list of numbers; how many. NULL: 0 */
/* predict.c */
SimulationInput simulation_input(const Program *, const Plan *); /* the program's machine */
/* what holds up steps of a batch, with what they need of it if they are not to wait: "decoding needs 11 cores, there are 8" */
const char *input_needs(const SimulationInput *, const StepUse *, int64_t batch);
const char *planned_name(const Options *, bool host); /* of that machine, as --machine takes it */
void predict_plans(Program *); /* -> Plan.predicted */
/* transfers of a step that values of samples depend on, such as those of batchnorm's statistics: how many, and how long computing
 * waits for them; not of gradients, which only updates need */
typedef struct MidStep { int count; double us; const Place *at; /* of the first */ } MidStep;
MidStep transfers_in_midstep(const Program *, const Plan *, bool partial_batch, const SimulatedDevice *, int device);
Grounds grounds_of(const Program *, const Plan *, const StepUse *, const SimulatedDevice *);
/* "6 % kernels by data sheets ..., 94 % ...": how sure a prediction is; `plan`, `bench` and reports say it */
const char *grounds_text(const Grounds *);
double updates_us(const Plan *, int device); /* of a step, what a device computes of updates */
/* so many samples each can have batch statistics of their own on all devices: with the batch as it is, or one that is shared evenly */
typedef struct OwnStatistics { int64_t samples, batch /* 0: as it is */; } OwnStatistics;
OwnStatistics own_statistics(int devices, int64_t least, int64_t most); /* the samples of the devices with the fewest and the most */
bool schedule_has_step(const Schedule *);
/* a row; one: the row of one device that it is compared with, or NULL */
PlanRow plan_row(Planning *, Count devices, int64_t batch, bool weak, const PlanRow *one);
PlanRow plan_row_sharded(Planning *, Sharding, Count devices, int64_t batch); /* likewise, by another --shard, compared with none */
/* rows of a global batch on one device and on those of `counts`; the first row is that of one device, without --shard */
void plan_rows(Planning *, const Count *counts, int count, int64_t batch, PlanRow *rows);
Planning plan_begin(const Options *);
void plan_fill(Planning *);     /* the rows that the options ask for, and the advice */
void plan_advise(Planning *);
void plan_print(const Planning *, bool json, Text *);
void plan_compare(Planning *, Count devices, int64_t batch, bool weak); /* adds a row for each plan */
void compare_print(const Planning *, bool json, Text *);

static inline const char *row_devices(const PlanRow *r) { return r->nodes > 1 ? format("%dx%d", r->nodes, r->devices / r->nodes) : format("%d", r->devices); }
static inline const char *devices_text(int n) { return format("%d device%s", n, n == 1 ? "" : "s"); }
#endif
