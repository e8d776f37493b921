/* simulate.h: simulates a schedule on a machine, event by event, until steps repeat.
 *
 *   fold.c       equivalent nodes -> one of them
 *   flows.c      transfers that share links: the rate of each
 *   simulate.c   Schedule x Machine -> begin and end of every operation
 *   report.c     ... -> what each lane did in a step, and what it waited for
 *   bound.c      ... -> what bounds a step
 *
 * A lane runs one operation at a time, in order. An operation begins when its lane is free and its waits have completed; the
 * calls of a region, when the waits of all of them have; a transfer, when all of its members have arrived. Uploads, reports and
 * transfers take the latency of their route, then occupy links, which others may use at the same time. Meanwhile kernels have
 * fewer SMs, and take longer (cost.h: Cost.taken). */
#ifndef MGPU_SIMULATE_H
#define MGPU_SIMULATE_H

#include "compiler/machine/cost.h"
#include "compiler/plan/schedule.h"

/* ---- flows.c. A flow needs `amount` of each of its resources, and takes at least `least_us`. If a resource is overloaded, its
 * flows get equal rates, and what one cannot use the others may (max-min fairness: Bertsekas, Gallager, "Data networks", section
 * 6.5.2; the model of SimGrid: Velho, Legrand, "Accuracy study and improvement of network simulation in the SimGrid framework",
 * 2009). */
typedef struct Load {
    int resource;
    double amount;
} Load;
typedef struct Flow {
    const Load *loads;
    int load_count;
    double least_us;
    int owner;                  /* identifies the activity that started the flow */
    double left, speed, end_us; /* fraction that is left; fraction per microsecond; end at the present speed */
} Flow;
typedef struct Flows {
    double *rate;
    int rate_count; /* by resource: amount per microsecond */
    double *peak;   /* by resource: largest fraction of the rate that was in use */
    Flow *active;
    int active_count, capacity;
    bool stale; /* speeds must be computed again */
    double now_us;
} Flows;
Flows *flows_new(const double *rate, int count);
void flows_start(Flows *, double now_us, const Load *, int load_count, double alone_us, int owner);
double flows_next(Flows *); /* Returns the time at which the next flow ends; infinite: no flow is active. */
/* Removes a flow that has ended at this time and returns its owner; -1: there is none. */
int flows_end(Flows *, double now_us);

/* ---- fold.c. Nodes whose devices have the same samples, operations and rates do the same at the same time. Only one of them is
 * simulated, with transfers as between all nodes. So ten thousand devices take as long as one or two nodes. */
typedef struct Fold {
    PhaseSchedule *phase; /* of the simulated devices */
    int nodes, each;      /* simulated nodes; devices of each */
    int *as;              /* by device of the schedule: the simulated device that stands for it */
} Fold;
Fold fold_phase(const Schedule *, const PhaseSchedule *);

/* ---- simulate.c */
typedef struct SimulationInput {
    const Schedule *schedule;
    const Machine *machine;
    Processor processor;
    double compute;                  /* factor for the times of calls; 0: 1 */
    double decode_us;                /* per sample, on one core of the host */
    double disk_bytes;               /* read per sample */
    const TransferFactors *measured; /* of transfers between the schedule's devices; NULL: none were measured */
    const Model *model;              /* whose objectives take turns; NULL: it has only one */
    bool traced;                     /* keep the last steps: Simulation.spans */
} SimulationInput;

typedef struct OpTime {
    double begin_us, end_us;
} OpTime;
typedef struct SimulatedDevice {
    LaneUse lanes[LANES]; /* of one step */
    double *waited_us;    /* by op: time for which comp was idle while this ran */
    double between_us;    /* part of the time that comp waits for communication in a step: between nodes */
    double longer_us;     /* part of computing: because transfers occupy SMs */
    OpTime *ops;          /* of the last simulated step but one, by index in the schedule */
} SimulatedDevice;
enum { TRACED_STEPS = 3 };
typedef struct SimulatedSpan {           /* an operation in one step; microseconds from the beginning of the traced steps */
    int device, op, step;                /* step: 0 .. TRACED_STEPS - 1, others are before and after */
    double arrived_us, begin_us, end_us; /* arrived: of a transfer's member; else as begin */
    int waited_op;                       /* the last operation that it waited for, on its device; -1: it waited for its lane */
} SimulatedSpan;
typedef struct Simulation {
    /* by device, step and op, of the traced steps and all that overlaps them; else none */
    SimulatedSpan *spans;
    int span_count;
    double ends_us[TRACED_STEPS]; /* of the traced steps */
    int steps;                    /* simulated steps */
    bool steady;                  /* steps repeat, one by one or in a cycle; false: times are means of many steps */
    double step_us;
    int device_count;
    SimulatedDevice *devices;
    double *link_bytes; /* per step on the first node, by link and direction: [2 * link + back] */
    double *peak;       /* likewise: largest fraction of the rate that was in use */
} Simulation;
Simulation *simulate_phase(const SimulationInput *, int phase);
/* Simulates a training step with all of its micro-batches, or the mean update of a round of several objectives; the ops of
 * devices are those of train.full. */
Simulation *simulate_step(const SimulationInput *);

/* ---- bound.c */
typedef struct StepUse { /* of a step, on the device that computes longest; exposed: computing waits for it */
    int device;
    double step_us, computing_us, launch_us /* part of computing */, longer_us /* likewise: transfers occupy SMs */, exposed_us,
        between_us /* part of exposed: between nodes */, upload_us, input_us, devices_us, transfer_us;
    const char *bound; /* what takes most of the step: "computation", "launches", "communication" ... */
} StepUse;
StepUse step_use(const SimulationInput *, const Simulation *);

/* ---- report.c */
typedef struct Record {                  /* of an operation in one step */
    double arrived_us, begin_us, end_us; /* arrived: of a transfer's member; else as begin */
    int number;                          /* of the step, from 1; 0: the record is empty */
    int op, step;                        /* the last operation that it waited for, on its device; op -1: it waited for its lane */
} Record;
typedef struct Records {
    const PhaseSchedule *phase;
    Record ***of; /* [step modulo KEPT_STEPS][device][op] */
} Records;
enum { KEPT_STEPS = 12 };
/* Returns the use of a lane. step: the last whole one; waited_us: as SimulatedDevice has it, or NULL. */
LaneUse lane_use(const Records *, int device, Lane, int step, double from_us, double to_us, double *waited_us);
#endif
