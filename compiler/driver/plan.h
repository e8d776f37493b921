/* plan.h: `mgpuc plan`: predicts how fast a model trains on which devices of a machine, and why, without kernels or GPUs.
 *
 *   plan.c         the command; a row for each number of devices and batch: compiled, simulated
 *   predict.c      the simulation's input; the predictions that programs contain
 *   plan_advice.c  conclusions from the rows, in words, each with its number
 *   plan_print.c   the table, JSON
 *   compare.c      --compare: the plans of --plan in one table */
#ifndef MGPU_DRIVER_PLAN_H
#define MGPU_DRIVER_PLAN_H

#include "compiler/driver/command.h"
#include "compiler/simulate/simulate.h"

static const double PLAN_WORTH = .02; /* of a step: smaller differences are not mentioned */

typedef struct Grounds {
    double kernels[GROUNDS], transfers[GROUNDS];
} Grounds; /* shares of computing and exposed transfers */
typedef struct Count {
    int nodes, devices;
} Count; /* devices: of all nodes */

typedef struct PlanRow {
    int64_t exact;              /* virtual shards; 0: none */
    bool weak;                  /* the baseline has the batch of each device; else all of it */
    int nodes, devices, idle;   /* devices: of all nodes; idle: without samples */
    int64_t batch, least, most; /* batch: of all devices; least, most: samples of a device */
    double step_us, samples_per_s, speed_up, efficiency;
    bool steady;
    /* the lane comp of the device that computes longest, per step */
    double computing_us, longer_us; /* longer: part of it that is due to transfers occupying SMs */
    double exposed_us, between_us, upload_us, input_us, devices_us; /* between_us: part of exposed_us, between nodes */
    int sums; /* all-reduces in the middle of a step (batchnorm's), and their exposed time */
    double sums_us;
    double updates_us;                /* of a device's updates */
    double input_per_s, decode_cores; /* bytes of inputs per second, of all nodes; cores per node that decode pictures */
    double bytes, memory;             /* needed and available, per device; for host devices, of all of a node */
    double variables;                 /* part of `bytes` */
    int64_t fits;                     /* the largest batch that fits; -1: not known */
    const char *cure, *recompute;  /* advice if none fits; what recompute = "auto" would do if the row does not fit; else NULL */
    double mfu;                    /* the model's FLOPs per second / the peak of the devices (f32, f64: without matrix units) */
    double tokens;                 /* per sample: length of its first input of classes that is a sequence; 0: none */
    double recomputed;             /* share of computing time */
    int64_t micro;                 /* micro-batches */
    const char *unlike;            /* how the baseline's program differs: "recomputes ..."; NULL: it does not */
    double link_bytes, link_share; /* of the busiest link and direction: bytes per step, and share of its capacity */
    Grounds from;                  /* the basis of the step's time */
    const char *link;              /* "host to 0" */
    const char *input;             /* result of input_needs */
    const char *bound;             /* what takes most of the step */
    const Policy *policy;          /* --compare: the plan; else NULL */
    double least_us;               /* --compare: the step of auto */
} PlanRow;

typedef struct Planning {
    bool predicts;     /* the model has no loss: steps are those of predict */
    bool may_be_stale; /* the model allows stale gradients (passes/delay.c) */
    const Options *options;
    const Machine *machine;
    const char *machine_name, *model, *precision, *kind; /* kind: "cuda", "host" */
    PlanRow *rows;
    int row_count;
    const char **advice;
    int advice_count;
    bool searched;        /* recompute or accumulate: the program depends on the batch, so `fits` is not known from one */
    bool apart;           /* rows are of separate programs for their devices */
    KernelCache *kernels; /* shared by rows with equal batch and micro-batches that are being made; NULL: none */
    bool inexact;         /* the rows that are being made are without `exact`, which the model has */
    bool warned;          /* the model's warnings were printed: each row compiles it again */
    double measured;      /* --measured; 0: not given */
    int64_t factor_batch; /* of one device, for which `factor` was computed last */
    double factor;
} Planning;

/* plan.c */
enum { MOST_BATCHES = 64 };
int read_batches(const char *list, int64_t *batches); /* "32,64"; exit 2 if it is no such list; NULL: 0 */
/* predict.c */
SimulationInput simulation_input(const Program *, const Plan *); /* with the program's machine */
/* Says what steps wait for in the input, and what it would need: "decoding needs 11 cores, there are 8". */
const char *input_needs(const SimulationInput *, const StepUse *, int64_t batch);
const char *planned_name(const Options *, bool host); /* of that machine, as --machine takes it */
void predict_plans(Program *);                        /* sets Plan.predicted */
/* Transfers that samples' values depend on, such as batchnorm's statistics, but not gradients: how many per step, and their
 * exposed time. */
typedef struct MidStep {
    int count;
    double us;
    const Place *at; /* of the first one */
} MidStep;
MidStep transfers_in_midstep(const Program *, const Plan *, bool partial_batch, const SimulatedDevice *, int device);
Grounds grounds_of(const Program *, const Plan *, const StepUse *, const SimulatedDevice *);
/* Returns "6 % kernels by data sheets ..., 94 % ...": the basis of a prediction, for `plan`, `bench` and reports. */
const char *grounds_text(const Grounds *);
double updates_us(const Plan *, int device); /* of a device's updates per step */
/* So many samples could have their own batch statistics on all devices, with this batch or one that is divided evenly. */
typedef struct StatisticsSamples {
    int64_t samples, batch /* 0: the present one */;
} StatisticsSamples;
StatisticsSamples statistics_samples(int devices, int64_t least, int64_t most); /* least, most: samples of a device */
bool schedule_has_step(const Schedule *);
/* Computes a row. one: the row of one device as its baseline, or NULL. */
PlanRow plan_row(Planning *, Count devices, int64_t batch, bool weak, const PlanRow *one);
PlanRow plan_row_sharded(Planning *, Sharding, Count devices, int64_t batch); /* with another --shard, and no baseline */
/* Computes the rows of a global batch on one device and on those of `counts`; the first row is that of one device, without
 * --shard. */
void plan_rows(Planning *, const Count *counts, int count, int64_t batch, PlanRow *rows);
Planning plan_begin(const Options *);
void plan_fill(Planning *); /* computes the rows of the options, and the advice */
void plan_advise(Planning *);
void plan_print(const Planning *, bool json, Text *);
void plan_compare(Planning *, Count devices, int64_t batch, bool weak); /* adds a row for each plan */
void compare_print(const Planning *, bool json, Text *);

static inline const char *row_devices(const PlanRow *r)
{
    return r->nodes > 1 ? format("%dx%d", r->nodes, r->devices / r->nodes) : format("%d", r->devices);
}
static inline const char *devices_text(int n) { return format("%d device%s", n, n == 1 ? "" : "s"); }
#endif
