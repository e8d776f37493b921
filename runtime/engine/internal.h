/* internal.h: what the files of the engine share: engine.c opens devices and posts steps, lane.c executes them. Of devices that
 * run ahead, list.c makes lists, which issue.c issues, ahead.c knows what is done, late.c says where one failed, hang.c notices
 * when they do not come to an end. The rules are in engine.c. */
#ifndef MGPU_ENGINE_INTERNAL_H
#define MGPU_ENGINE_INTERNAL_H

#include "runtime/base/base.h"
#include "runtime/engine/collective.h"
#include "runtime/engine/device.h"
#include "runtime/engine/list.h"
#include "runtime/engine/processes.h"
#include "runtime/engine/profile.h"
#include "runtime/engine/slow.h"
#include "runtime/engine/ticker.h"
#include "runtime/engine/trace.h"

#include <pthread.h>
#include <sched.h>

enum { SETTLED = 64 };    /* steps, of any phase, after which what pays in the long run is done */
enum { PLACE_BITS = 24 }; /* operations of a lane in a phase: check.c holds plans to it */

typedef struct PhaseTable {
    LaneTable *device;
    void ***library;             /* [device][operation], once the device has prepared the phase; else NULL */
    int reporter;                /* the device whose report is collected; -1: the phase reports nothing */
} PhaseTable;

/* what the thread of a lane is at, for hang.c; of lanes that one thread issues to, the one whose turn it is */
typedef enum Doing {
    DOING_REST,                  /* waits for the next step to be posted */
    DOING_WORK,                  /* is at work; of a device that runs ahead: inside a call of the driver or a library */
    DOING_LANE,                  /* waits for lane `on` of the device */
    DOING_MARK,                  /* waits until the device has come to mark `on` */
    DOING_END,                   /* MGPU_GRAPHS=wait: waits until its operation is over */
    DOING_SUM,                   /* is a member of a sum over the devices */
    DOING_READ,                  /* reads samples */
} Doing;
typedef struct Lane Lane;
typedef struct Worker { const Lane *lane; int thread; CrashGuard *guard; } Worker;
struct Lane {
    Counter progress;            /* what is done; of a lane without a thread: no less than anybody waits for */
    Engine *engine;
    int device, lane;
    bool idle;                   /* it has no operation in any phase, or its device is another process's */
    pthread_t thread;
    cpu_set_t cores;             /* it stays on these; none: anywhere */
    DeviceCall *calls;           /* of the region that runs, */
    void **argument;             /* and their arguments */
    int64_t *each;               /* parallel */
    const mgpu_op *_Atomic op;   /* being executed, of this step and phase: for messages, also of other threads */
    Worker *workers; int worker_count; /* of a lane comp: the other threads of the device's thread pool */
    const mgpu_op **now;         /* [thread]: what each is at */
    const mgpu_phase *_Atomic phase;
    _Atomic int64_t number;
    double began;                /* of a lane comp that does not run ahead: this step, */
    Slow slow;                   /* of lanes comp and host, for tests */
    SpanLog **spans;             /* [thread]: where what it does is noted; NULL: nowhere */
    double anchor;               /* of a lane that runs ahead and is traced: when its device came to the clock that others are compared with; 0: not yet */
    double waited;               /* and how long of it the lane has waited for others */
    _Atomic int doing, on;       /* Doing; on: of what it waits for */
    _Atomic int64_t returned;    /* of a lane comp: calls of the driver for the device that have returned */
};

typedef struct Ahead Ahead;      /* ahead.c: of a device that runs ahead */
struct Engine {
    const mgpu_program *program;
    const mgpu_plan *plan;
    const DeviceKind *kind;
    Machine *machine;
    Processes *processes;        /* NULL: this one has all devices */
    int first, end;              /* devices of this process */
    Device **devices;            /* of other processes: NULL */
    _Atomic bool *begun;         /* [device], while devices begin; else NULL */
    Ahead **ahead_of;            /* [device]; NULL: they do not run ahead */
    Hang *hang;                  /* NULL: nobody looks whether they hang */
    Ticker *listener;            /* NULL: sums have no errors that calls do not return */
    Lane *lanes;                 /* [device][lane] */
    PhaseTable *phases;
    Collective *collective[MGPU_LANES]; /* of lanes that transfer; NULL: the plan has none in that lane */
    char *said;                  /* of the devices, for the user */
    Work ring[MGPU_RING];
    Counter posted, turn;        /* turn: callers in several threads so far */
    _Atomic bool closing, crashed;
    const char *achieved;        /* while it is closed: what the program has done by then; else NULL */
    Collect *collect;
    void *context;
    int64_t collected, done;     /* done: steps that all lanes are known to have finished */
    Profile *profile;            /* NULL: nobody asks */
    Audit *audit;                /* likewise */
    Trace *trace;                /* likewise */
    int kept;                    /* transfers that graphs keep, of all phases */
    int busy_lanes;              /* comp and comm, of all devices, but for the idle ones */
    double link_rate;            /* MGPU_LINK_GBPS: of copies to host devices; 0: as fast as they are */
    bool here;                   /* lanes have no threads: here.c */
    bool predicts;               /* what was posted last is of the phases predict and decode */
    int ahead, threads;          /* threads: that compute, of the process's devices */
};

static inline Work *work_of(Engine *e, int64_t number)
{
    return &e->ring[number % MGPU_RING];
}
/* the number in the run of the step that was posted last; 0: none was */
static inline int64_t posted_step(Engine *e)
{
    int64_t posted = atomic_load(&e->posted.value);
    return posted ? atomic_load(&work_of(e, posted)->step) : 0;
}

static inline const mgpu_phase *phase_of(Engine *e, int64_t number)
{
    return number < 1 ? NULL : work_of(e, number)->phase;
}

Where mgpu_engine_where;         /* lane.c */
static inline Lane *lane_of(const Engine *e, int device, int lane)
{
    return &e->lanes[device * MGPU_LANES + lane];
}

static inline const LaneTable *lanes_of(const Engine *e, const mgpu_phase *phase, int device)
{
    return &e->phases[phase - e->plan->phases].device[device];
}

static inline bool is_own(const Engine *e, int device) { return device >= e->first && device < e->end; }

/* a device that runs ahead has one thread for what it issues, and one for its lane host */
static inline bool has_thread(const Engine *e, const Lane *l)
{
    return !l->idle && !e->here && (!e->kind->ahead || l->lane == MGPU_HOST);
}

static inline int64_t finished(int64_t number)
{
    return (number + 1) << PLACE_BITS;
}

/* How the engine's threads tell each other what is done. A device that runs ahead may check who knows what. */
static inline void tell(const Engine *e, Counter *c, int64_t value)
{
    if (e->kind->ahead)
        e->kind->ahead->tell(e->machine, c, value);
    mgpu_counter_set(c, value);
}

static inline void hear(const Engine *e, Counter *c, int64_t at_least)
{
    mgpu_counter_wait(c, at_least);
    if (e->kind->ahead)
        e->kind->ahead->hear(e->machine, c, at_least);
}

static inline void set_doing(Lane *l, Doing doing, int on)
{
    atomic_store_explicit(&l->on, on, memory_order_relaxed);
    atomic_store_explicit(&l->doing, (int)doing, memory_order_relaxed);
}

static inline void set_op(Lane *l, const mgpu_op *op)
{
    atomic_store_explicit(&l->op, op, memory_order_relaxed);
}

static inline void set_phase(Lane *l, const mgpu_phase *phase)
{
    atomic_store_explicit(&l->phase, phase, memory_order_relaxed);
}

/* to one of a step's times */
static inline void add_seconds(_Atomic int64_t *ns, double seconds)
{
    atomic_fetch_add_explicit(ns, (int64_t)(1e9 * seconds), memory_order_relaxed);
}

static inline StepTimes *times_of(Lane *l)
{
    return &work_of(l->engine, l->number)->times[l->device];
}

static inline void hear_from(Lane *l, int other, Counter *c, int64_t at_least)
{
    set_doing(l, DOING_LANE, other);
    hear(l->engine, c, at_least);
    set_doing(l, DOING_WORK, 0);
}

static inline void hear_lane(Lane *l, int other, int64_t at_least)
{
    hear_from(l, other, &lane_of(l->engine, l->device, other)->progress, at_least);
}

static inline bool is_traced(Lane *l) { return l->spans && work_of(l->engine, l->number)->traced; }

/* true: the operation looks at the step before */
static inline bool is_delayed(const mgpu_op *op)
{
    return (op->verb == MGPU_REPORT || op->verb == MGPU_FETCH) && mgpu_access_of(op, 0)->slot < 0;
}

/* here.c */
void mgpu_execute_here(Engine *);    /* the step that was posted last */
/* whether a region of such a step is not worth waking the threads of the pool for */
bool mgpu_is_little(const Lane *, const mgpu_device_phase *, const int *order, int count, int64_t samples);

/* lane.c */
void mgpu_prepare_phase(Lane *, const mgpu_phase *); /* ahead of a device's first step of a phase: what a library will compute there */
void *mgpu_drive_lane(void *lane);   /* its thread */
void mgpu_execute(Lane *, const mgpu_phase *, const int *order, int count); /* operations order[0 .. count): one, or the calls of a region */
_Noreturn void mgpu_say_crash_at(const Lane *, const mgpu_op *, int signal); /* of several threads the first one speaks */
void mgpu_enter_worker(void *lane, int thread);
void mgpu_take_turns(bool computes); /* of the thread that calls it: it computes, or it transfers */
void mgpu_leave_worker(void *lane, int thread);
int mgpu_region_length(const mgpu_device_phase *, const int *order,
                       int left); /* how many of a lane's next operations run together */
/* "device 0, step 3, phase train.full, operation c4 relu (model.net, line 7)"; number: of the step; op NULL: none */
void mgpu_place_of(const Lane *, int64_t number, const mgpu_phase *, const mgpu_op *, char *text, size_t room);
void mgpu_add_name(const Engine *, const mgpu_phase *, const mgpu_op *, FILE *); /* "c4 relu (line 7)", "the all-reduce r1" */
_Noreturn void mgpu_fail_at(const Lane *, const char *what); /* at its operation */
_Noreturn void mgpu_die_at(const Lane *, const char *what);  /* likewise, of what cannot happen */
/* a call's arguments, the next ones in `argument` */
DeviceCall mgpu_call_of(Lane *, const mgpu_device_phase *, const mgpu_op *, void **argument, int64_t *each, const mgpu_step **step);

void mgpu_declare(Lane *, const mgpu_device_phase *, const int *order, int count); /* to a device that checks: what the operation touches, or those of a launch */

int64_t mgpu_access_offset(const mgpu_device_phase *, const mgpu_access *, int64_t number);

/* audit.c: around the operations of a region */
void mgpu_audit_before(Lane *, const mgpu_device_phase *, const mgpu_op *);
void mgpu_audit_part(const void *lane, const mgpu_op *, void *const *argument, int64_t begin, int64_t end); /* by any thread */
void mgpu_audit_after(Lane *, const mgpu_device_phase *, const mgpu_op *);
/* around a copy to the host that is no audit's: an audit's take turns with it */
void mgpu_audit_lock(Engine *);
void mgpu_audit_unlock(Engine *);

/* issue.c: around an operation of a device that runs ahead */
void mgpu_issue_wait(Lane *, const mgpu_wait *); /* of an operation of l->phase; also by the lane host */
void mgpu_issue_begin(Lane *, int op);           /* it is issued now, */
void mgpu_issue_end(Lane *, int op);             /* and has been */

/* ahead.c */
void mgpu_ahead_open(Engine *);      /* of opened devices; the threads that issue and that watch begin */
void mgpu_ahead_close(Engine *);
GraphsMade mgpu_ahead_graphs(const Engine *);
void mgpu_ahead_done(const Engine *, int64_t number);   /* waits until all devices have done the step */
int64_t mgpu_ahead_steps(const Engine *, int device);   /* that the device has done */
int64_t mgpu_ahead_issued(const Engine *, int device); /* finished(number): all of that step */
/* near: or is about to */
bool mgpu_ahead_has_issued(const Engine *, int device, const mgpu_phase *, int64_t number, int op, bool near);
int mgpu_ahead_step_mark(const Engine *, int device, int lane, int64_t number); /* at the end of the step */
/* before an operation of a step, after it (all of its segment); -1: there is none */
int mgpu_ahead_mark(const Engine *, int device, const mgpu_phase *, int64_t number, int op, bool before);
const Segment *mgpu_ahead_segment(const Engine *, int device, const mgpu_phase *, int place); /* of the lane comp */

/* late.c: `call` for `device` was told that some operation has failed; error: the driver's words. Returns if no device has: then the
 * call itself failed, or it is none of the engine's steps */
void mgpu_fail_late(Engine *, int device, const char *error, const char *call);

void mgpu_listen_open(Engine *);     /* asks the collective for errors while lanes run, until its ticker is closed */

/* hang.c */
void mgpu_hang_open(Engine *, Hang *); /* before the devices are; lanes may be looked at; NULL: nobody looks on */
void mgpu_hang_close(Engine *);
/* The engine's caller is inside calls of the driver, and nothing else needs to be under way: what for, of which device (-1: of
 * no one). NULL: it is not, from now on. */
void mgpu_hang_stage(const Engine *, const char *what, int device);
Whereabouts mgpu_hang_where(const void *engine, char *text, size_t room); /* of an engine that is being opened: at which stage */
void mgpu_hang_begun(Engine *, _Atomic bool *begun); /* devices begin, each on a thread; NULL: all have */
void mgpu_hang_connects(const Engine *, bool connects); /* devices are being connected, which ends sooner than all else that may hang */
void mgpu_hang_lanes(const Engine *, bool run); /* whether there are lanes and phases to look at */
#endif
