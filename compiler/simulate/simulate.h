/* simulate.h: a schedule on a machine, event by event, until steps repeat.
 *
 *   fold.c       of nodes that do the same, one
 *   flows.c      transfers that share links: how fast each is
 *   simulate.c   Schedule x Machine -> begin and end of every operation
 *   report.c     ... -> what each lane did in a step, and what it waited for
 *   bound.c      ... -> what a step is bound by
 *
 * Lanes do one operation at a time, in their order. An operation begins when its lane is free and all that it waits for is over; the
 * calls of a region when all that they wait for is; a transfer when all of its members are there. Uploads, reports and transfers take
 * the latency of their way, then carry bytes over links, which others may use at the same time. Kernels that run meanwhile
 * have fewer SMs, and get longer (cost.h: Cost.taken). */
#ifndef MGPU_SIMULATE_H
#define MGPU_SIMULATE_H

#include "compiler/machine/cost.h"
#include "compiler/plan/schedule.h"

/* ---- flows.c. A flow takes `amount` of each of its resources, at most as fast as `alone_us` for all of it. Where a resource has not
 * enough for all, those that share it get equal rates, and what one cannot use the others may (max-min fairness: Bertsekas, Gallager,
 * "Data networks", section 6.5.2; the model of SimGrid: Velho, Legrand, "Accuracy study and improvement of network simulation in the
 * SimGrid framework", 2009). */
typedef struct Load { int resource; double amount; } Load;
typedef struct Flow {
    const Load *loads; int load_count;
    double alone_us;
    int owner;                  /* of who has started it */
    double left, speed, end_us; /* share of it that is left; share a microsecond; when it will be over as things are */
} Flow;
typedef struct Flows {
    double *rate; int rate_count; /* of each resource, amount a microsecond */
    double *peak;               /* the share of a resource that was ever in use at the same time */
    Flow *active; int active_count, room;
    bool stale;                 /* speeds are to be found again */
    double now_us;
} Flows;
Flows *flows_new(const double *rate, int count);
void flows_start(Flows *, double now_us, const Load *, int load_count, double alone_us, int owner);
double flows_next(Flows *);     /* when the next one is over; infinite: none is active */
int flows_end(Flows *, double now_us); /* the owner of one that is over at this time, which is gone then; -1: none is */

/* ---- fold.c. Nodes whose devices have the same samples, the same operations and the same rates do the same at the same time: one of them is
 * simulated, and all that its devices meet others in is as it was. So ten thousand devices take as long as one or two nodes of them. */
typedef struct Fold {
    PhaseSchedule *phase;       /* of the devices that are simulated */
    int nodes, each;            /* that are simulated, with so many devices */
    int *as;                    /* by device of the schedule: which of them does what it does */
} Fold;
Fold fold_phase(const Schedule *, const PhaseSchedule *);

/* ---- simulate.c */
typedef struct SimulationInput {
    const Schedule *schedule;
    const Machine *machine;
    Processor processor;
    double compute;             /* calls take so many times as long as the schedule says; 0: 1 */
    double decode_us;           /* of one sample, on one core of the host */
    double disk_bytes;          /* that are read for one sample */
    const TransferFactors *measured; /* of transfers between the schedule's devices; NULL: none was measured */
    bool traced;                /* the last steps are kept: Simulation.spans */
} SimulationInput;

/* why a lane does nothing: what it waits for on its own device, or another device, or nothing was to do */
typedef struct OpTime { double begin_us, end_us; } OpTime;
typedef struct SimulatedDevice {
    LaneUse lanes[LANES];       /* of one step */
    double *waited_us;          /* by op: for how long comp did nothing while this ran */
    double between_us;          /* of what comp waits for communication in a step: for that between nodes */
    double longer_us;           /* of what comp computes: as transfers have some of the SMs meanwhile */
    OpTime *ops;                /* of the last step but one that was simulated, by number in the schedule */
} SimulatedDevice;
enum { TRACED_STEPS = 3 };
typedef struct SimulatedSpan {  /* an operation in one step; microseconds from the beginning of the steps that are kept */
    int device, op, step;       /* step: 0 .. TRACED_STEPS - 1, others are of the steps before and after */
    double arrived_us, begin_us, end_us; /* arrived: of a transfer's member; else begin */
    int waited_op;              /* what it waited for last, on its device; -1: for its lane */
} SimulatedSpan;
typedef struct Simulation {
    SimulatedSpan *spans; int span_count; /* by device, step and op, of these steps and of all that runs beside them; else none */
    double ends_us[TRACED_STEPS]; /* of these steps */
    int steps;                  /* that were simulated */
    bool steady;                /* they go on as they are: each as the one before, or several as those before; else times are means of many */
    double step_us;
    int device_count;
    SimulatedDevice *devices;
    double *link_bytes;         /* of a step and the first node, by link and direction: [2 * link + back] */
    double *peak;               /* likewise: share of the rate that was ever in use */
} Simulation;
Simulation *simulate_phase(const SimulationInput *, int phase);
/* a whole training step with all of its micro-batches; the devices' ops are those of train.full */
Simulation *simulate_step(const SimulationInput *);

/* ---- bound.c */
typedef struct StepUse {        /* of a step, on the device that computes longest; exposed: what computing waits for */
    int device;
    double step_us, computing_us, launch_us /* of computing */, longer_us /* likewise: SMs that transfers have */,
           exposed_us, between_us /* of exposed: between nodes */, upload_us, input_us, devices_us, transfer_us;
    const char *bound;          /* what takes most of the step: "computation", "launches", "communication" ... */
} StepUse;
StepUse step_use(const SimulationInput *, const Simulation *);

/* ---- report.c */
typedef struct Record {         /* of an operation in one step */
    double arrived_us, begin_us, end_us; /* arrived: of a transfer's member; else begin */
    int number;                 /* of the step, from 1; 0: nothing was written here */
    int op, step;               /* what it waited for last, on its device; op -1: for its lane */
} Record;
typedef struct Records {
    const PhaseSchedule *phase;
    Record ***of;               /* [step modulo KEPT_STEPS][device][op] */
} Records;
enum { KEPT_STEPS = 12 };
/* step: the last whole one; waited_us: of each op, as SimulatedDevice has it, or NULL */
LaneUse lane_use(const Records *, int device, Lane, int step, double from_us, double to_us, double *waited_us);
#endif
