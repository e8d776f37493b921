/* internal.h: what the files of the engine share. engine.c opens devices and posts steps, and has the rules; lane.c executes the
 * operations of a lane. For asynchronous devices, issue_order.c computes the order of issue, issue.c issues the work,
 * asynchronous.c records events and finds out which steps have completed, late_failure.c locates a failed operation, and hang.c
 * reports devices that make no progress. observe.c passes on what lanes report of operations and waits to the step's times, the
 * profile and the timeline. */
#ifndef MGPU_ENGINE_INTERNAL_H
#define MGPU_ENGINE_INTERNAL_H

#include "runtime/base/base.h"
#include "runtime/engine/collective.h"
#include "runtime/engine/device.h"
#include "runtime/schedule/issue_order.h"
#include "runtime/engine/processes.h"
#include "runtime/engine/profile.h"
#include "runtime/engine/slow_device.h"
#include "runtime/engine/ticker.h"
#include "runtime/engine/trace.h"

#include <pthread.h>
#include <sched.h>

enum { SETTLED = 64 };    /* steps of any phase; after these, DeviceKind.settled is called */
enum { PLACE_BITS = 24 }; /* log2 of the most operations that a lane may have in a phase, which check_plan.c enforces */

typedef struct PhaseTable {
    LaneTable *device;
    void ***library; /* [device][operation]: what DeviceKind.prepare returned; NULL until the device has prepared the phase */
    int reporter;    /* the device whose report is collected; -1 if the phase reports nothing */
} PhaseTable;

/* What the thread of a lane is doing, for hang.c. Where one thread issues for several lanes, the lane that it is issuing for has
 * the state. */
typedef enum Doing {
    DOING_REST,       /* waits for the next step to be posted */
    DOING_WORK,       /* computes, copies, or (asynchronous device) is inside a call of the driver or a library */
    DOING_LANE,       /* waits for lane `on` of the same device */
    DOING_EVENT,      /* waits for event `on` of the device */
    DOING_END,        /* MGPU_GRAPHS=wait: waits until the operation that it has issued completes */
    DOING_COLLECTIVE, /* takes part in a collective */
    DOING_READ,       /* reads samples */
} Doing;
typedef struct LaneThread LaneThread;
typedef struct Worker {
    const LaneThread *lane;
    int thread;
    CrashGuard *guard;
} Worker;
struct LaneThread {
    Counter progress; /* operations completed (engine.c); INT64_MAX for a lane without a thread */
    Engine *engine;
    int device, lane;
    bool idle; /* the lane has no operation in any phase, or another process has its device */
    pthread_t thread;
    cpu_set_t cores;           /* the cores that the thread is pinned to; empty: it is not pinned */
    DeviceCall *calls;         /* of the region that is executing */
    void **argument;           /* the arguments of all `calls` */
    int64_t *each;             /* parallel to `argument`: DeviceCall.each */
    const mgpu_op *_Atomic op; /* the operation being executed, for messages; other threads read it, too */
    Worker *workers;
    int worker_count;    /* lane comp: the other threads of the device's thread pool */
    const mgpu_op **now; /* [thread]: the operation that each thread of the pool executes */
    const mgpu_phase *_Atomic phase;
    _Atomic int64_t number;
    double began;          /* lane comp of a synchronous device: when this step began (mgpu_seconds) */
    Slow slow;             /* lanes comp and host: the slowdown of a test */
    SpanLog **spans;       /* [thread]: where executed spans are recorded; NULL: they are not */
    double anchor;         /* traced lane of an asynchronous device: host time of its anchor event (lane_clocks.c); 0: none yet */
    double waited;         /* seconds of this step in which the lane waited for other lanes */
    _Atomic int doing, on; /* Doing, and what it waits for */
    _Atomic int64_t returned; /* lane comp: calls of the driver for this device that have returned; hang.c watches it */
};

typedef struct AsyncDevice AsyncDevice; /* asynchronous.c: an asynchronous device */
struct Engine {
    const mgpu_program *program;
    const mgpu_plan *plan;
    const DeviceKind *kind;
    DeviceSet *machine;
    Processes *processes;       /* NULL: this process has all devices */
    int first, end;             /* the devices of this process */
    Device **devices;           /* [device]; NULL for those of other processes */
    _Atomic bool *begun;        /* [device]: true once DeviceKind.begin has returned; NULL except while devices begin */
    AsyncDevice **async_device; /* [device]; NULL if devices are synchronous */
    Hang *hang;                 /* NULL: hangs are not looked for */
    Ticker *listener;           /* polls the collective for asynchronous errors; NULL if it has none */
    LaneThread *lanes;          /* [device][lane] */
    PhaseTable *phases;
    Collective *collective[MGPU_LANES]; /* of lanes comm and sync; NULL if the plan has no transfers in that lane */
    char *description;                  /* the description of the devices that users see */
    Work ring[MGPU_RING];
    Counter posted, left_threads; /* left_threads: counts the threads that have left (mgpu_engine_leave) */
    _Atomic bool closing, crashed;
    const char *achieved; /* while the engine is being closed: what the program has achieved, for messages; else NULL */
    Collect *collect;
    void *context;
    int64_t collected, done; /* done: every lane is known to have finished the steps up to this one */
    Profile *profile;        /* NULL if operations are not profiled */
    Audit *audit;            /* NULL if steps are not audited */
    Trace *trace;            /* NULL if steps are not traced */
    int captured_transfers;  /* transfers that are captured in graphs, of all phases */
    int busy_lanes;          /* lanes comp, comm and sync of all devices that are not idle */
    double link_rate;        /* MGPU_LINK_GBPS: bytes per second of copies to host devices; 0: no limit */
    bool single_threaded;    /* lanes have no threads (single_host.c) */
    bool predicts;           /* the last posted phase was of kind predict or decode */
    /* steps_in_flight: steps that may be in flight; threads: that compute, of all devices of this process */
    int steps_in_flight, threads;
};

static inline Work *work_of(Engine *e, int64_t number) { return &e->ring[number % MGPU_RING]; }
/* Returns the number within the run of the last posted step, or 0 if none was posted. */
static inline int64_t posted_step(Engine *e)
{
    int64_t posted = atomic_load(&e->posted.value);
    return posted ? atomic_load(&work_of(e, posted)->step) : 0;
}

static inline const mgpu_phase *phase_of(Engine *e, int64_t number) { return number < 1 ? NULL : work_of(e, number)->phase; }

Where mgpu_engine_where; /* lane.c */
static inline LaneThread *lane_of(const Engine *e, int device, int lane) { return &e->lanes[device * MGPU_LANES + lane]; }

static inline const LaneTable *lanes_of(const Engine *e, const mgpu_phase *phase, int device)
{
    return &e->phases[phase - e->plan->phases].device[device];
}

static inline bool is_local(const Engine *e, int device) { return device >= e->first && device < e->end; }

/* An asynchronous device has one thread that issues for all lanes but host, and one thread for the lane host. */
static inline bool has_thread(const Engine *e, const LaneThread *l)
{
    return !l->idle && !e->single_threaded && (!e->kind->async || l->lane == MGPU_HOST);
}

static inline int64_t finished(int64_t number) { return (number + 1) << PLACE_BITS; }

/* The threads of the engine synchronize by counters: publish() raises one, wait_for_counter() waits for it. A device that checks
 * (the virtual GPU) is informed of both, so that it can order the threads' calls. */
static inline void publish(const Engine *e, Counter *c, int64_t value)
{
    if (e->kind->async)
        e->kind->async->publish(e->machine, c, value);
    mgpu_counter_set(c, value);
}

static inline void wait_for_counter(const Engine *e, Counter *c, int64_t at_least)
{
    mgpu_counter_wait(c, at_least);
    if (e->kind->async)
        e->kind->async->waited_for(e->machine, c, at_least);
}

static inline void set_doing(LaneThread *l, Doing doing, int on)
{
    atomic_store_explicit(&l->on, on, memory_order_relaxed);
    atomic_store_explicit(&l->doing, (int)doing, memory_order_relaxed);
}

static inline void set_op(LaneThread *l, const mgpu_op *op) { atomic_store_explicit(&l->op, op, memory_order_relaxed); }

static inline void set_phase(LaneThread *l, const mgpu_phase *phase)
{
    atomic_store_explicit(&l->phase, phase, memory_order_relaxed);
}

/* Adds to a member of StepTimes. */
static inline void add_seconds(_Atomic int64_t *ns, double seconds)
{
    atomic_fetch_add_explicit(ns, (int64_t)(1e9 * seconds), memory_order_relaxed);
}

static inline StepTimes *times_of(LaneThread *l) { return &work_of(l->engine, l->number)->times[l->device]; }

static inline void wait_for_counter_of(LaneThread *l, int other, Counter *c, int64_t at_least)
{
    set_doing(l, DOING_LANE, other);
    wait_for_counter(l->engine, c, at_least);
    set_doing(l, DOING_WORK, 0);
}

static inline void wait_for_lane(LaneThread *l, int other, int64_t at_least)
{
    wait_for_counter_of(l, other, &lane_of(l->engine, l->device, other)->progress, at_least);
}

/* Returns true if the operation belongs to the previous step. */
static inline bool is_delayed(const mgpu_op *op)
{
    return (op->verb == MGPU_REPORT || op->verb == MGPU_FETCH) && mgpu_access_of(op, 0)->slot < 0;
}

/* single_host.c: executes the step that was posted last, on the calling thread */
void mgpu_execute_on_caller(Engine *);
/* Returns true if a region of such a step has too little work to wake the threads of the pool. */
bool mgpu_is_small_region(const LaneThread *, const mgpu_device_phase *, const int *order, int count, int64_t samples);

/* lane.c */
void mgpu_prepare_phase(LaneThread *, const mgpu_phase *); /* finds library calls, before the device's first step of it */
void *mgpu_drive_lane(void *lane);                         /* the thread of a lane */
/* operations order[0 .. count): one, or a region */
void mgpu_execute(LaneThread *, const mgpu_phase *, const int *order, int count);
/* only the first thread that crashes prints */
_Noreturn void mgpu_say_crash_at(const LaneThread *, const mgpu_op *, int signal);
void mgpu_enter_worker(void *lane, int thread);
void mgpu_set_priority(bool computes); /* of the calling thread: it computes, or it transfers */
void mgpu_leave_worker(void *lane, int thread);
int mgpu_region_length(const mgpu_device_phase *, const int *order, int left); /* operations of the next region of a lane */
/* Writes "device 0, step 3, phase train.full, operation c4 relu (model.net, line 7)". number: of the step; op NULL: no operation
 * is named. */
void mgpu_place_of(const LaneThread *, int64_t number, const mgpu_phase *, const mgpu_op *, char *text, size_t capacity);
void mgpu_add_name(const Engine *, const mgpu_phase *, const mgpu_op *, FILE *); /* writes "c4 relu (line 7)" */
_Noreturn void mgpu_fail_at(const LaneThread *, const char *what);               /* names the lane's current operation */
_Noreturn void mgpu_die_at(const LaneThread *, const char *what);                /* likewise, for an internal error */
/* Returns a call whose arguments are written to `argument` and `each`; sets *step if the call reads a step block. */
DeviceCall mgpu_call_of(LaneThread *, const mgpu_device_phase *, const mgpu_op *, void **argument, int64_t *each,
                        const mgpu_step **step);

/* informs a device that checks of what the next launch touches */
void mgpu_declare(LaneThread *, const mgpu_device_phase *, const int *order, int count);

int64_t mgpu_access_offset(const mgpu_device_phase *, const mgpu_access *, int64_t number);

/* audit.c: called before and after the operations of a region */
void mgpu_audit_before(LaneThread *, const mgpu_device_phase *, const mgpu_op *);
void mgpu_audit_part(const void *lane, const mgpu_op *, void *const *argument, int64_t begin, int64_t end); /* by any thread */
void mgpu_audit_after(LaneThread *, const mgpu_device_phase *, const mgpu_op *);
/* Around a copy to the host that is not an audit's: audits use the same stream and are excluded meanwhile. */
void mgpu_audit_lock(Engine *);
void mgpu_audit_unlock(Engine *);

/* observe.c */
bool mgpu_is_traced(const LaneThread *, int64_t number); /* that step of the lane is in the timeline */
bool mgpu_is_observed(const LaneThread *);               /* someone listens to spans of its step */
/* The lane's thread executed `op`, or waited for it (SPAN_WAIT) or in it (SPAN_BARRIER). */
void mgpu_observe(LaneThread *, SpanKind, const mgpu_op *, double began, double ended);
void mgpu_observe_part(void *lane, int thread, const mgpu_op *, double began, double ended); /* DeviceRegion.observe */
void mgpu_observe_region(LaneThread *, const DeviceRegion *);                                /* after it has run */
void mgpu_observe_in_timeline(LaneThread *, int thread, Span);                               /* of a step that is traced */

/* issue.c: called for each operation of an asynchronous device */
/* waits, or makes the stream wait; for an operation of l->phase, on any lane */
void mgpu_issue_wait(LaneThread *, const mgpu_wait *);
void mgpu_issue_begin(LaneThread *, int op); /* before the operation is issued */
void mgpu_issue_end(LaneThread *, int op);   /* after it has been issued */

/* asynchronous.c */
void mgpu_async_open(Engine *); /* starts the threads that issue and that watch, for opened devices */
void mgpu_async_close(Engine *);
GraphsMade mgpu_async_graphs(const Engine *);
void mgpu_async_wait_done(const Engine *, int64_t number); /* waits until all devices have completed the step */
int64_t mgpu_async_steps_done(const Engine *, int device); /* the last step that the device has completed */
int64_t mgpu_async_issued(const Engine *, int device);     /* progress of the issuing thread, comparable with finished(number) */
/* Returns true if the operation of that step has been issued, or, with `near`, if it may be being issued now. */
bool mgpu_async_has_issued(const Engine *, int device, const mgpu_phase *, int64_t number, int op, bool near);
int mgpu_async_step_event(const Engine *, int device, int lane, int64_t number); /* the event at the end of the step */
/* Returns the event before or after an operation of a step (of the lane comp, after its segment), or -1 if there is none. */
int mgpu_async_op_event(const Engine *, int device, const mgpu_phase *, int64_t number, int op, bool before);
const Segment *mgpu_async_segment(const Engine *, int device, const mgpu_phase *, int place); /* of the lane comp */

/* late_failure.c: `call` for `device` returned the driver's error `error`, which may come from an operation issued earlier. Ends
 * the program with that operation's place. Returns if no device has failed: the call itself is then at fault. */
void mgpu_fail_async(Engine *, int device, const char *error, const char *call);

void mgpu_listen_open(Engine *); /* Polls the collective for errors in a thread until the ticker e->listener is closed. */

/* hang.c */
void mgpu_hang_open(Engine *, Hang *); /* before devices are opened; NULL: hangs are not looked for */
void mgpu_hang_close(Engine *);
/* The calling thread is inside calls of the driver for this purpose and device (-1: no particular one), and no lane has to make
 * progress. what NULL: this stage is over. */
void mgpu_hang_stage(const Engine *, const char *what, int device);
Whereabouts mgpu_hang_where(const void *engine, char *text, size_t capacity); /* of an engine that is being opened: its stage */
void mgpu_hang_begun(Engine *, _Atomic bool *begun);    /* Devices begin, each on its thread. begun NULL: all have begun. */
void mgpu_hang_connects(const Engine *, bool connects); /* devices are being connected: a shorter limit holds */
void mgpu_hang_lanes(const Engine *, bool run);         /* Lanes and phases exist from now on, or do not any more. */
#endif
