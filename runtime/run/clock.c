/* clock.c: finds what bounds the steps of a run, and notices what is slow.
 *
 * In: the times of each device's lanes in each step (StepTimes), and the step's. It reports medians over the last steps, so that
 * single disturbed steps do not count. If only some steps are timed, the medians are over these.
 *
 * Each kind of notice is given at most once, if WINDOW consecutive steps show it. So all are given within 20 steps. */
#include "runtime/base/base.h"
#include "runtime/run/clock.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LAST_STEPS = 64, WINDOW = 16, FIRST = 2 /* first steps, which are ignored */ };
static const double WORTH_S = 2e-3; /* shorter steps get no notices */
/* ratio to the other devices' time: of host devices; of those that take turns on cores, whose times vary; of GPUs */
static const double SLOWER = 1.4, SLOWER_SHARING_CORES = 1.8, SLOWER_GPU = 1.2;
static const double WAITS = .35, LONGER = 3; /* fraction of a step spent waiting; ratio to the prediction */

typedef enum StepPart { COMPUTING, INPUT, COMMUNICATION, LAUNCHING, TRANSFERRING, READING, PARTS } StepPart;
typedef enum NoticeKind { NOTICE_DEVICE, NOTICE_READER, NOTICE_LINK, NOTICES } NoticeKind;
static const char *const KIND[NOTICES] = {"device", "reader", "link"};

struct StepClock {
    const mgpu_plan *plan;
    int first, devices;                                         /* of this process */
    bool async, share_cores, single_process, notified[NOTICES]; /* single_process: no other process has devices */
    int64_t steps, epoch_steps;                                 /* all; of the epoch */
    double step[LAST_STEPS];                                    /* in seconds; step n is at n mod KEPT */
    bool timed[LAST_STEPS];                                     /* all of its micro-batches were timed */
    double *of;                                                 /* [part][device][KEPT] */
};

StepClock *mgpu_clock_open(const mgpu_plan *plan, int first, int devices, bool ahead, bool turns)
{
    StepClock *c = mgpu_allocate(1, sizeof *c);
    c->plan = plan;
    c->first = first;
    c->devices = devices;
    c->single_process = devices == plan->devices;
    c->async = ahead;
    c->share_cores = turns;
    c->of = mgpu_allocate((size_t)PARTS * (size_t)devices * LAST_STEPS, sizeof *c->of);
    c->timed[0] = true;
    return c;
}

void mgpu_clock_close(StepClock *c)
{
    free(c->of);
    free(c);
}

static double *cell(const StepClock *c, StepPart part, int device, int64_t step)
{
    return &c->of[((size_t)part * (size_t)c->devices + (size_t)device) * LAST_STEPS + (size_t)(step % LAST_STEPS)];
}

void mgpu_clock_add(StepClock *c, const Work *work)
{
    c->timed[c->steps % LAST_STEPS] &= work->timed;
    for (int d = 0; d < c->devices; d++) {
        const StepTimes *t = &work->times[c->first + d];
        const _Atomic int64_t *const FROM[PARTS] = {&t->computing, &t->input,        &t->communication,
                                                    &t->launching, &t->transferring, &t->reading};
        for (int p = 0; p < PARTS; p++)
            *cell(c, (StepPart)p, d, c->steps) += 1e-9 * (double)atomic_load_explicit(FROM[p], memory_order_relaxed);
    }
}

/* ---- medians */
static double median(double *values, int count)
{
    if (!count)
        return NAN;
    qsort(values, (size_t)count, sizeof *values, mgpu_compare_doubles);
    return (values[(count - 1) / 2] + values[count / 2]) / 2;
}

static double median_step(const StepClock *c, int count)
{
    double values[LAST_STEPS];
    for (int i = 0; i < count; i++)
        values[i] = c->step[(c->steps - 1 - i) % LAST_STEPS];
    return median(values, count);
}

/* True if the part is measured in every step. GPUs time their lanes, and host devices their launches, only in some steps. */
static bool is_everywhere(const StepClock *c, StepPart part)
{
    return c->async ? part == INPUT || part == LAUNCHING || part == READING : part != LAUNCHING;
}

static bool is_known(const StepClock *c, StepPart part, int device, int64_t step)
{
    return is_everywhere(c, part) || (c->timed[step % LAST_STEPS] && (!c->async || *cell(c, COMPUTING, device, step) > 0));
}

static double median_of(const StepClock *c, StepPart part, int device, int count)
{
    double values[LAST_STEPS];
    int n = 0;
    for (int i = 0; i < count; i++)
        if (is_known(c, part, device, c->steps - 1 - i))
            values[n++] = *cell(c, part, device, c->steps - 1 - i);
    return median(values, n);
}

/* Returns the median wait of a step. For input it is that of the device that waits longest, since the others wait for it in
 * transfers. In transfers it is that of the device that waits least, which arrives last. */
static double median_wait(const StepClock *c, StepPart part, int count)
{
    double values[LAST_STEPS];
    int n = 0;
    for (int i = 0; i < count; i++) {
        double waits = NAN;
        for (int d = 0; d < c->devices; d++) {
            double own = *cell(c, part, d, c->steps - 1 - i);
            if (c->plan->device[c->first + d].shard.share > 0 && is_known(c, part, d, c->steps - 1 - i))
                waits = part == INPUT ? fmax(waits, own) : fmin(waits, own);
        }
        if (!isnan(waits))
            values[n++] = waits;
    }
    return median(values, n);
}

static int slowest_device(const StepClock *c, int count)
{
    int slowest = 0;
    double most = median_of(c, COMPUTING, 0, count);
    for (int d = 1; d < c->devices; d++) {
        double computing = median_of(c, COMPUTING, d, count);
        if (computing > most) {
            most = computing;
            slowest = d;
        }
    }
    return slowest;
}

/* Returns the median of the other devices' computing, scaled to this device's number of samples. */
static double others_computing(const StepClock *c, int device, int count)
{
    double *values = mgpu_allocate((size_t)c->devices, sizeof *values);
    int n = 0;
    const mgpu_device *devices = c->plan->device + c->first;
    for (int d = 0; d < c->devices; d++)
        if (d != device && devices[d].shard.share > 0)
            values[n++] =
                median_of(c, COMPUTING, d, count) * fmax(1, (double)devices[device].shard.share / (double)devices[d].shard.share);
    double middle = median(values, n);
    free(values);
    return middle;
}

/* Returns the device that is so much slower than the others, or -1. */
static int slow_device(const StepClock *c, int count)
{
    int slowest = slowest_device(c, count);
    double slower = c->async ? SLOWER_GPU : c->share_cores ? SLOWER_SHARING_CORES : SLOWER;
    return median_of(c, COMPUTING, slowest, count) > slower * others_computing(c, slowest, count) ? slowest : -1;
}

/* ---- what a step is bound by */
static void find_bound(const StepClock *c, int device, int count, EpochTimes *t)
{
    double step = 1e-3 * t->step, launching = median_of(c, LAUNCHING, device, count), computing = 1e-3 * t->computing;
    const char *bound = "computation";
    if (c->async ? launching > .9 * step : launching > .5 * computing)
        bound = "launches";
    else if (t->input > t->computing && t->input >= t->communication)
        bound = "input";
    else if (t->communication > t->computing)
        bound = "communication";
    else if (isnan(t->computing))
        bound = "";
    else if (slow_device(c, count) >= 0) {
        snprintf(t->bound, sizeof t->bound, "device %d", c->first + slow_device(c, count));
        return;
    }
    snprintf(t->bound, sizeof t->bound, "%s", bound);
}

EpochTimes mgpu_clock_epoch(StepClock *c)
{
    int count = c->epoch_steps < LAST_STEPS ? (int)c->epoch_steps : LAST_STEPS - 1; /* one slot is for the next step */
    EpochTimes t = {NAN, NAN, NAN, NAN, ""};
    c->epoch_steps = 0;
    if (!count)
        return t;
    int device = slowest_device(c, count);
    t.step = 1e3 * median_step(c, count);
    t.computing = 1e3 * median_of(c, COMPUTING, device, count);
    t.input = 1e3 * median_wait(c, INPUT, count);
    t.communication = 1e3 * median_wait(c, COMMUNICATION, count);
    find_bound(c, device, count, &t);
    return t;
}

/* ---- notices */
/* True if the device is slowest in most steps of the window, and not only in a disturbed one. */
static bool is_slowest_often(const StepClock *c, int device)
{
    int often = 0, seen = 0;
    for (int i = 0; i < WINDOW; i++) {
        int64_t step = c->steps - 1 - i;
        bool slowest = c->timed[step % LAST_STEPS] || is_everywhere(c, COMPUTING);
        seen += slowest;
        for (int d = 0; d < c->devices; d++)
            slowest = slowest && *cell(c, COMPUTING, device, step) >= *cell(c, COMPUTING, d, step);
        often += slowest;
    }
    return 4 * often >= 3 * seen;
}

typedef struct ReadingTime {
    double step, input, reading;
    bool slow;
} ReadingTime;

static ReadingTime reader_of(const StepClock *c)
{
    ReadingTime r = {.step = median_step(c, WINDOW), .input = median_wait(c, INPUT, WINDOW)};
    for (int d = 0; d < c->devices; d++)
        r.reading = fmax(r.reading, median_of(c, READING, d, WINDOW));
    r.slow = r.input >= WAITS * r.step && r.reading >= .5 * r.step;
    return r;
}

static char *notice_device(const StepClock *c)
{
    int device = slow_device(c, WINDOW);
    if (device < 0 || !is_slowest_often(c, device) || reader_of(c).slow) /* if all wait for input, none waits for the device */
        return NULL;
    double own = median_of(c, COMPUTING, device, WINDOW), others = others_computing(c, device, WINDOW);
    return mgpu_format(
        "device %d takes %.1f times as long as the others, which wait for it: %.2f ms of computing a step, theirs are %.2f; "
        "mgpuc --split gives it fewer samples",
        c->first + device, own / others, 1e3 * own, 1e3 * others);
}

static char *notice_reader(const StepClock *c)
{
    ReadingTime r = reader_of(c);
    if (!r.slow)
        return NULL;
    return mgpu_format(
        "the reader is slower than the devices: it takes %.2f ms for a step's samples, and of the step's %.2f ms the devices wait %.2f for input; "
        "more cores, a faster disk or smaller files make it faster",
        1e3 * r.reading, 1e3 * r.step, 1e3 * r.input);
}

static char *notice_link(const StepClock *c)
{
    int device = slowest_device(c, WINDOW);
    double step = median_step(c, WINDOW), waits = median_wait(c, COMMUNICATION, WINDOW),
           predicted = 1e-6 * c->plan->predicted.transfer_us;
    double transferring = median_of(c, TRANSFERRING, device, WINDOW);
    if (c->share_cores || predicted <= 0 || !(waits > WAITS * step) || !(transferring > LONGER * predicted))
        return NULL;
    return mgpu_format(
        "the links between devices are slow: transfers take %.2f ms a step, predicted were %.2f for %s; of the step's %.2f ms the devices "
        "wait %.2f for them; fewer devices or a larger batch transfer less for each sample",
        1e3 * transferring, 1e3 * predicted, c->plan->predicted.machine, 1e3 * step, 1e3 * waits);
}

static bool find_notice(StepClock *c, Notice *n)
{
    static char *(*const FIND[NOTICES])(const StepClock *) = {notice_device, notice_reader, notice_link};
    if (median_step(c, WINDOW) < WORTH_S)
        return false;
    for (int k = 0; k < NOTICES; k++) {
        n->text = c->notified[k] || (k == NOTICE_LINK && !c->single_process) ? NULL : FIND[k](c);
        n->kind = KIND[k];
        if (n->text) {
            c->notified[k] = true;
            return true;
        }
    }
    return false;
}

bool mgpu_clock_step(StepClock *c, double seconds, Notice *n)
{
    c->step[c->steps % LAST_STEPS] = seconds;
    c->steps++;
    c->epoch_steps++;
    c->timed[c->steps % LAST_STEPS] = true;
    for (int p = 0; p < PARTS; p++)
        for (int d = 0; d < c->devices; d++)
            *cell(c, (StepPart)p, d, c->steps) = 0;
    return c->steps >= FIRST + WINDOW && (c->steps - FIRST) % WINDOW < NOTICES && find_notice(c, n); /* once in a step */
}

bool mgpu_clock_links(StepClock *c, Notice *n)
{
    if (c->notified[NOTICE_LINK] || c->steps < FIRST + WINDOW || median_step(c, WINDOW) < WORTH_S)
        return false;
    *n = (Notice){KIND[NOTICE_LINK], notice_link(c)};
    c->notified[NOTICE_LINK] = n->text;
    return n->text;
}
