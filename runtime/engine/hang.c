/* hang.c: reports programs that make no progress. After --stall seconds without any, a program on any kind of device says once
 * what each lane is doing, and what is done between steps, before the first and after the last one (base/activity.c). A program
 * for GPUs says what hangs after MGPU_PATIENCE seconds, and ends. In: the counters of the engine's threads; out: a message,
 * status 3.
 *
 * A kernel that does not end, a collective that a member never joins, or a link or driver that stalls blocks all that wait for
 * them. So one thread periodically looks at everything that only grows: steps posted and completed, operations issued, calls
 * of the driver that have returned. If work is in flight and none of this has changed for MGPU_PATIENCE seconds, it reads the
 * step numbers of the GPUs (stream_progress.c) and says how far each lane has come. It calls no driver, as that call might hang,
 * too.
 *
 *   - Time in which this thread does not run (a debugger, SIGSTOP, a suspended laptop) does not count: it adds up its sleeps.
 *   - While samples are read, idle GPUs do not hang. That is a warning, and the program goes on.
 *
 * What is named: the operations of a lane, in the device's first incomplete step, between the last completed and the first
 * incomplete one. If one of them waits for such an operation of another lane, or is a collective that some device has not
 * reached, the lane waits; otherwise it is the one that does not end. */
#include "runtime/base/base.h"
#include "runtime/engine/stream_progress.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Connecting takes seconds at most, so a device that cannot transfer at all is reported sooner. */
static const double PATIENCE_S = 600, CONNECTING_S = 60, LONGEST_NAP_S = 1, NAPS = 10;

struct Hang {
    Engine *engine; /* NULL before an engine is opened and after it is closed */
    const Processes *processes;
    double patience, nap; /* seconds */
    Ticker *ticker;
    pthread_mutex_t lock; /* protects everything below; held while a report is written, so that nothing it reads is freed */
    const char *stage;    /* what the engine's caller is doing: a copy in `text`; NULL: nothing */
    char text[300];
    bool asked, connects; /* `patience` was set by the user; devices are being connected */
    int stage_device;
    uint64_t stages, counted; /* counted: counts() at the last look */
    double without_progress;  /* seconds since the last progress */
    double stall;             /* seconds without progress until one report; 0: never */
    bool ends;                /* the program ends after `patience`: asynchronous devices */
    bool lanes, warned, stalled;
};

typedef struct Report {
    Engine *engine;
    StreamProgress *progress;                      /* [device] */
    FILE *endless, *calls, *collectives, *waiting; /* collectives: collectives that wait for some device */
    bool among;                                    /* some entry is a range of operations */
    bool collective;                               /* some entry is a collective that all devices have begun */
} Report;

static const char *const LANE[MGPU_LANES] = MGPU_LANE_NAMES;

/* ---- progress of the GPUs */
/* If a transfer has not begun although everything before it in its lane has completed, what it waits for is incomplete. */
static StreamProgress progress_of(Engine *e, int device)
{
    StreamProgress k = mgpu_stream_progress(e, device, false);
    for (int lane = 0; lane < MGPU_HOST; lane++)
        if (k.held[lane] && k.after[lane] == k.until[lane] - 1)
            mgpu_progress_from_waits(&k, mgpu_progress_op(&k, lane, k.until[lane]), false);
    return k;
}

/* Returns true if the lane is at a later step than another lane of the device. */
static bool is_later(const StreamProgress *k, int lane) { return k->number[lane] > mgpu_progress_step(k); }

/* ---- which operation waits for which */
/* Returns the transfer that a lane is in, as far as known, or NULL; number: of its step. */
static const mgpu_op *sum_of(const StreamProgress *k, const LaneThread *l, int64_t *number)
{
    const mgpu_op *op = k->until[l->lane] >= 0 ? mgpu_progress_op(k, l->lane, k->until[l->lane]) : NULL;
    *number = op ? k->number[l->lane] : l->number;
    op = op ? op : mgpu_is_in_collective(l) ? l->op : NULL;
    return op && op->verb == MGPU_TRANSFER ? op : NULL;
}

/* Returns true if the device has reached the transfer: its thread has issued it, and everything before it on the GPU has
 * completed. */
static bool has_begun(const StreamProgress *k, int64_t number, const mgpu_phase *phase, int target)
{
    int lane = phase->collectives[target].lane;
    const LaneThread *l = lane_of(k->engine, k->device, lane);
    const LaneTable *t = lanes_of(k->engine, phase, k->device);
    const mgpu_op *ops = phase->devices[k->device].ops, *op = NULL;
    int place = 0;
    for (int i = t->begin[lane]; i < t->begin[lane + 1] && !op; i++) {
        place = i - t->begin[lane];
        op = ops[t->order[i]].verb == MGPU_TRANSFER && ops[t->order[i]].target == target ? &ops[t->order[i]] : NULL;
    }
    bool inside = l->number == number && l->op == op && mgpu_is_in_collective(l);
    if (!op || (!inside && !mgpu_async_has_issued(k->engine, k->device, phase, number, (int)(op - ops), false)))
        return false;
    if (k->number[lane] != number || k->phase[lane] != phase)
        return k->number[lane] > number;
    return k->until[lane] < 0 || place < k->until[lane] + !k->held[lane];
}

static void list_devices(FILE *to, const Engine *e, const bool *begun, bool which)
{
    int left = 0;
    for (int d = e->first; d < e->end; d++)
        left += begun[d] == which;
    fprintf(to, left == 1 ? "device" : "devices");
    for (int d = e->first; d < e->end; d++)
        if (begun[d] == which) {
            left--;
            fprintf(to, " %d%s", d, left == 1 ? " and" : left > 1 ? "," : "");
        }
}

/* Described once, by the first of the devices that are in it. */
static void say_sum(Report *r, const StreamProgress *k, const mgpu_op *op, int64_t number)
{
    Engine *e = r->engine;
    int devices = e->end - e->first, count = 0;
    const mgpu_phase *phase = phase_of(e, number);
    bool *begun = mgpu_allocate((size_t)e->plan->devices, sizeof *begun);
    char place[400];
    for (int d = e->first; d < e->end; d++)
        count += begun[d] = has_begun(&r->progress[d], number, phase, op->target);
    bool first = true;
    for (int d = e->first; d < k->device; d++) {
        int64_t its;
        const mgpu_op *other = sum_of(&r->progress[d], lane_of(e, d, op->lane), &its);
        first = first && !(other && begun[d] && its == number && other->target == op->target);
    }
    FILE *to = count == devices && !e->processes ? r->endless : r->collectives;
    mgpu_place_of(lane_of(e, k->device, op->lane), number, phase, op, place, sizeof place);
    if (first) {
        const mgpu_collective *c = &phase->collectives[op->target];
        fprintf(to, "  %s, the %s %s over the devices by %s: ", strchr(place, ',') + 2,
                mgpu_transfer_row(c->participants.transfer)->kind, c->name,
                mgpu_made_by(e->collective[op->lane], c->implementation));
        list_devices(to, e, begun, true);
        if (count == devices) {
            fprintf(to, " %s begun it, and it does not end%s", devices == 1 ? "has" : "have",
                    e->processes ? ": another process has not begun it, hangs or is gone" : "");
        } else {
            fprintf(to, "%s begun it, ", count == 1 ? " has" : " have");
            list_devices(to, e, begun, false);
            fprintf(to, "%s not", count == devices - 1 ? " has" : " have");
        }
        fprintf(to, "\n");
    }
    r->collective = r->collective || count == devices;
    free(begun);
}

/* ---- the lines of a lane */
/* Describes what the lane has issued and the GPU has not completed; returns false if that is not known. */
static bool say_issued(Report *r, const StreamProgress *k, const LaneThread *l)
{
    char place[400];
    const mgpu_op *by = NULL;
    int from = k->after[l->lane] + 1, to = k->until[l->lane];
    if (to < 0 || is_later(k, l->lane))
        return false;
    const mgpu_op *op = mgpu_progress_op(k, l->lane, from), *other = mgpu_progress_waited(k, l->lane, from, to, &by);
    mgpu_place_of(l, k->number[l->lane], k->phase[l->lane], other ? by : op, place, sizeof place);
    if (other) {
        fprintf(r->waiting, "  %s: waits for ", place);
        mgpu_add_name(k->engine, k->phase[l->lane], other, r->waiting);
        fprintf(r->waiting, "\n");
        return true;
    }
    fprintf(r->endless, "  %s", place);
    if (to > from) {
        fprintf(r->endless, ", or one after it up to ");
        mgpu_add_name(k->engine, k->phase[l->lane], mgpu_progress_op(k, l->lane, to), r->endless);
        r->among = true;
    }
    fprintf(r->endless, ": it does not end\n");
    return true;
}

/* Returns true if the event that the lane host waits for has written a number of the current round of the ring. While a graph
 * copies a number, it may be anything. */
static bool host_reached(const StreamProgress *k, const LaneThread *l)
{
    const AsyncKind *ahead = k->engine->kind->async;
    int64_t written = ahead->written_step(k->engine->devices[k->device], atomic_load(&l->on));
    return written > 0 && written <= l->number && written + MGPU_RING > l->number;
}

static void say_lane(Report *r, const StreamProgress *k, const LaneThread *l)
{
    char place[400];
    int64_t number;
    int doing = atomic_load(&l->doing);
    const mgpu_op *op = l->op, *sum = mgpu_lane_transfers(l->lane) ? sum_of(k, l, &number) : NULL;
    if (sum && has_begun(k, number, phase_of(r->engine, number), sum->target)) {
        say_sum(r, k, sum, number);
        return;
    }
    bool said = say_issued(r, k, l);
    mgpu_place_of(l, l->number, op ? l->phase : phase_of(r->engine, l->number), op, place, sizeof place);
    if (doing == DOING_WORK || (doing == DOING_EVENT && host_reached(k, l))) {
        fprintf(r->calls, "  %s: a call of the driver or of a library does not return\n", place);
    } else if (doing == DOING_END && !said) {
        fprintf(r->endless, "  %s: it does not end\n", place);
    } else if (said || l->number > mgpu_progress_step(k)) {
        return; /* it waits for the current step */
    } else if (doing == DOING_LANE) {
        fprintf(r->waiting, "  %s: waits for the lane %s\n", place, LANE[atomic_load(&l->on)]);
    } else if (doing == DOING_EVENT) {
        fprintf(r->waiting, "  %s: waits for the GPU\n", place);
    } else if (doing == DOING_COLLECTIVE) {
        fprintf(r->waiting, "  %s: waits for what it sums\n", place);
    }
}

/* Describes the thread that watches the device. */
static void say_device(Report *r, const StreamProgress *k)
{
    char place[400];
    int64_t number = mgpu_async_steps_done(r->engine, k->device) + 1;
    bool notes = r->engine->kind->async->writes_steps(r->engine->devices[k->device]);
    if (number > atomic_load(&r->engine->posted.value) || (notes && mgpu_progress_step(k) == number))
        return;
    mgpu_place_of(lane_of(r->engine, k->device, MGPU_COMP), number, phase_of(r->engine, number), NULL, place, sizeof place);
    if (notes)
        fprintf(r->calls, "  %s: all of it is done, and a call of the driver that waits for that does not return\n", place);
    else
        fprintf(r->waiting, "  %s: the driver cannot note which operations are done\n", place);
}

/* ---- the end */
/* Returns other implementations of collectives to try, or NULL. */
static const char *other_implementations(const char *implementation)
{
    static const char *const AFTER[][2] = {{"host", NULL}, {"copy", "host"}, {"peer", "copy or host"}};
    for (int i = 0; i < MGPU_COUNT(AFTER); i++)
        if (strcmp(implementation, AFTER[i][0]) == 0)
            return AFTER[i][1];
    return "peer, copy or host";
}

static void say_cures(const Report *r, const Hang *h, FILE *to)
{
    const char *names =
        r->collective && !r->engine->processes ? other_implementations(r->engine->collective[MGPU_COMM]->name) : NULL;
    if (names)
        fprintf(to, "MGPU_COLLECTIVE=%s sums in another way; ", names);
    if (r->collective && r->engine->captured_transfers)
        fprintf(to, "MGPU_GRAPHS=on has no NCCL in graphs; ");
    if (r->among)
        fprintf(to, "MGPU_GRAPHS=wait says which operation it is; ");
    if (h->stage && h->connects && r->engine->plan->devices > 1)
        fprintf(to,
                "%sNCCL_NVLS_ENABLE=0 does without NVLink's switches, NCCL_P2P_DISABLE=1 without NCCL's links, NCCL_DEBUG=INFO "
                "says how far it came; ",
                r->engine->processes ? "" : "MGPU_COLLECTIVE=host does without NCCL and links between GPUs, ");
    if (!r->collective)
        fprintf(to, "dmesg may say what ails a GPU (NVRM: Xid); ");
    fprintf(to, "MGPU_PATIENCE=%g waits twice as long, off for ever", 2 * h->patience);
}

/* Returns a number that changes whenever there is progress. */
static uint64_t counts(const Hang *h)
{
    Engine *e = h->engine;
    bool any;
    uint64_t sum = h->stages + mgpu_doings(NULL, "", &any);
    if (!e)
        return sum;
    sum += (uint64_t)atomic_load(&e->posted.value);
    for (int i = 0; i < e->plan->devices * MGPU_LANES; i++)
        sum += (uint64_t)atomic_load(&e->lanes[i].progress.value) + (uint64_t)atomic_load(&e->lanes[i].returned);
    for (int d = e->first; d < e->end && h->lanes && e->kind->async; d++)
        sum += (uint64_t)mgpu_async_steps_done(e, d) + (uint64_t)mgpu_async_issued(e, d);
    return sum;
}

static double limit(const Hang *h) { return h->connects && !h->asked && h->patience > CONNECTING_S ? CONNECTING_S : h->patience; }

/* A process that waits for others gives them time to report their error, or, if it knows of no silent process, time for another
 * one to name it. */
static bool waits_longer(const Hang *h, char *suspect, size_t capacity)
{
    const Processes *p = h->engine->processes;
    char text[500];
    bool known = p->find_culprit(p, false, text, sizeof text);
    if (known)
        snprintf(suspect, capacity, "  %s\n", text);
    return h->without_progress < (known ? 1.5 : 2) * h->patience;
}

/* Writes a line for each device that has not begun yet, and returns their number. */
static int say_beginning(FILE *to, const Hang *h, const char *after)
{
    const Engine *e = h->engine;
    int count = 0;
    for (int d = e && e->begun ? e->first : 0; e && e->begun && d < e->end; d++)
        if (!atomic_load(&e->begun[d])) {
            fprintf(to, "  device %d: it is being opened%s\n", d, after);
            count++;
        }
    return count;
}

/* Describes what the engine's caller is doing, or the device threads that it waits for. */
static void say_stage(Report *r, const Hang *h)
{
    Engine *e = r->engine;
    int said = say_beginning(r->calls, h, ", and a call of the driver or of a library does not return");
    char place[400];
    for (int i = 0; i < e->plan->devices * MGPU_LANES; i++) {
        const LaneThread *l = &e->lanes[i];
        if (atomic_load(&l->doing) != DOING_WORK || !l->op || h->stage_device >= 0)
            continue;
        mgpu_place_of(l, l->number, l->phase, l->op, place, sizeof place);
        fprintf(r->calls, "  %s: %s, and a call of the driver or of a library does not return\n", place, h->stage);
        said++;
    }
    if (said)
        return;
    fprintf(r->calls, h->stage_device < 0 ? "  " : "  device %d: ", h->stage_device);
    fprintf(r->calls, "%s, and a call of the driver or of a library does not return%s%s\n", h->stage, e->achieved ? "; " : "",
            e->achieved ? e->achieved : "");
}

/* Ends a program without progress, if counts(h) is still `counted` after the message is composed. */
static void end_program(const Hang *h, uint64_t counted)
{
    Engine *e = h->engine;
    char *part[5], suspect[600] = "";
    size_t length[5];
    Report r = {.engine = e,
                .endless = mgpu_begin_text(&part[0], &length[0]),
                .calls = mgpu_begin_text(&part[1], &length[1]),
                .collectives = mgpu_begin_text(&part[2], &length[2]),
                .waiting = mgpu_begin_text(&part[3], &length[3])};
    FILE *cures = mgpu_begin_text(&part[4], &length[4]);
    if (h->stage) {
        say_stage(&r, h);
    } else {
        r.progress = mgpu_allocate((size_t)e->plan->devices, sizeof *r.progress);
        for (int d = e->first; d < e->end; d++)
            r.progress[d] = progress_of(e, d);
        for (int d = e->first; d < e->end; d++) {
            for (int lane = 0; lane < MGPU_LANES; lane++)
                if (!lane_of(e, d, lane)->idle)
                    say_lane(&r, &r.progress[d], lane_of(e, d, lane));
            say_device(&r, &r.progress[d]);
        }
    }
    say_cures(&r, h, cures);
    mgpu_end_text(r.endless);
    mgpu_end_text(r.calls);
    mgpu_end_text(r.collectives);
    mgpu_end_text(r.waiting);
    mgpu_end_text(cures);
    bool others = e->processes && length[2] && !length[0] && !length[1];
    if (counts(h) == counted && !(others && waits_longer(h, suspect, sizeof suspect)))
        mgpu_fail(MGPU_MACHINE_FAILED, "the program hangs: nothing was issued or done for %g s\n%s%s%s%s%s%s",
                  others ? h->without_progress : limit(h), part[0], part[1], part[2], part[3], suspect, part[4]);
    for (int i = 0; i < 5; i++)
        free(part[i]);
    free(r.progress);
}

/* ---- watching */
static bool is_running(const Hang *h)
{
    if (h->stage || !h->lanes)
        return h->stage != NULL;
    Engine *e = h->engine;
    int64_t posted = atomic_load(&e->posted.value);
    for (int i = 0; i < e->plan->devices * MGPU_LANES; i++)
        if (atomic_load(&e->lanes[i].progress.value) < finished(posted))
            return true;
    for (int d = e->first; d < e->end && e->kind->async; d++)
        if (mgpu_async_steps_done(e, d) < posted)
            return true;
    return false;
}

/* ---- What has stalled, on devices of any kind. A lane that waits for another lane of its device is not named, since that one
 * is. */
static const char *at_work(const LaneThread *l)
{
    switch (atomic_load(&l->doing)) {
    case DOING_WORK: return l->op ? "is at work" : NULL;
    case DOING_EVENT:
    case DOING_END: return "waits for the GPU";
    case DOING_COLLECTIVE: return "is in its transfer";
    case DOING_READ: return "reads samples";
    default: return NULL;
    }
}

static void add_lanes(const Hang *h, FILE *to)
{
    Engine *e = h->engine;
    char place[400];
    for (int i = e->first * MGPU_LANES; i < e->end * MGPU_LANES; i++) {
        const LaneThread *l = &e->lanes[i];
        const char *does = l->idle ? NULL : at_work(l);
        if (!does)
            continue;
        mgpu_place_of(l, l->number, l->op ? l->phase : phase_of(e, l->number), l->op, place, sizeof place);
        fprintf(to, "  %s, lane %s: %s\n", place, LANE[l->lane], does);
    }
    for (int d = e->first; d < e->end && h->lanes && e->kind->async; d++) {
        int64_t number = mgpu_async_steps_done(e, d) + 1;
        if (number > atomic_load(&e->posted.value))
            continue;
        mgpu_place_of(lane_of(e, d, MGPU_COMP), number, phase_of(e, number), NULL, place, sizeof place);
        fprintf(to, "  %s: the GPU has not done all of it\n", place);
    }
}

/* Returns which other processes or devices are waited for; NULL: none. */
static const char *between_steps(const Hang *h, char *text, size_t capacity)
{
    const Processes *p = h->processes;
    if (p && p->waits && p->waits(p, text, capacity))
        return text;
    return h->stage;
}

/* Returns the number of the run's last step. The step that drains the engine has none. */
static int64_t last_step(Engine *e)
{
    int64_t last = 0;
    for (int i = 0; i < MGPU_RING; i++)
        last = atomic_load(&e->ring[i].step) > last ? atomic_load(&e->ring[i].step) : last;
    return last;
}

static void say_stall(const Hang *h)
{
    char *text, waits[300], when[60] = "", other[500];
    const Processes *p = h->processes;
    size_t length;
    bool any;
    FILE *to = mgpu_begin_text(&text, &length);
    const char *what = between_steps(h, waits, sizeof waits);
    if (h->engine)
        snprintf(when, sizeof when, "after step %lld: ", (long long)last_step(h->engine));
    if (say_beginning(to, h, ""))
        what = NULL;
    if (what && h->stage_device >= 0 && h->stage)
        fprintf(to, "  device %d, %s%s\n", h->stage_device, when, what);
    else if (what)
        fprintf(to, "  %s%s\n", when, what);
    mgpu_doings(to, when, &any);
    if (h->engine)
        add_lanes(h, to);
    if (p && p->find_culprit && p->find_culprit(p, true, other, sizeof other))
        fprintf(to, "  %s\n", other);
    mgpu_end_text(to);
    mgpu_warn_of_this("nothing has moved for %g s:\n%s  --stall %g waits twice as long before this is said, 0 for ever", h->stall,
                      text, 2 * h->stall);
    free(text);
}

static const LaneThread *reader(const Hang *h)
{
    for (int d = h->lanes ? h->engine->first : 0; h->lanes && d < h->engine->end; d++)
        if (atomic_load(&lane_of(h->engine, d, MGPU_HOST)->doing) == DOING_READ)
            return lane_of(h->engine, d, MGPU_HOST);
    return NULL;
}

static void warn(const Hang *h, const LaneThread *l)
{
    char place[400];
    mgpu_place_of(l, l->number, phase_of(h->engine, l->number), NULL, place, sizeof place);
    mgpu_say("%s: warning: nothing has gone on for %g s: %s: its samples are still being read", program_invocation_short_name,
             h->patience, place);
}

static void watch_engine(void *argument)
{
    Hang *h = argument;
    pthread_mutex_lock(&h->lock);
    uint64_t now = counts(h);
    char waits[300];
    bool any;
    mgpu_doings(NULL, "", &any);
    bool goes_on = now != h->counted || !(any || is_running(h) || between_steps(h, waits, sizeof waits));
    h->counted = now;
    h->without_progress = goes_on ? 0 : h->without_progress + h->nap;
    h->warned = h->warned && !goes_on;
    h->stalled = h->stalled && !goes_on;
    if (h->stall > 0 && h->without_progress >= h->stall && !h->stalled) {
        say_stall(h);
        h->stalled = true;
    }
    if (!h->ends || !(is_running(h) || goes_on)) {
        pthread_mutex_unlock(&h->lock);
        return;
    }
    const LaneThread *reads = h->without_progress < limit(h) ? NULL : reader(h);
    if (h->without_progress >= limit(h) && !reads)
        end_program(h, now);
    else if (reads && !h->warned)
        warn(h, reads);
    h->warned = h->without_progress >= limit(h);
    pthread_mutex_unlock(&h->lock);
}

double mgpu_patience(void)
{
    const char *value = getenv("MGPU_PATIENCE");
    char *end;
    if (!value || !*value)
        return PATIENCE_S;
    if (strcmp(value, "off") == 0)
        return 0;
    double seconds = strtod(value, &end);
    if (*end || !isfinite(seconds) || seconds < 0)
        mgpu_fail(MGPU_BAD_USAGE, "MGPU_PATIENCE is a number of seconds, or off, not '%s'", value);
    return seconds;
}

/* Returns the seconds between two looks. */
static double nap_of(double stall, double patience)
{
    double first = patience > 0 && (stall <= 0 || patience < stall) ? patience : stall;
    return first > 0 && first / NAPS < LONGEST_NAP_S ? first / NAPS : LONGEST_NAP_S;
}

/* h->lock must not be held */
static void check_every(Hang *h, double nap)
{
    mgpu_ticker_close(h->ticker);
    h->nap = nap;
    h->ticker = mgpu_ticker_open("patience", h->nap, watch_engine, h);
}

Hang *mgpu_hang_begin(double stall, const Processes *processes)
{
    Hang *h = mgpu_allocate(1, sizeof *h);
    *h = (Hang){.stall = stall, .processes = processes};
    pthread_mutex_init(&h->lock, NULL);
    check_every(h, nap_of(stall, 0));
    return h;
}

void mgpu_hang_end(Hang *h)
{
    mgpu_ticker_close(h->ticker);
    pthread_mutex_destroy(&h->lock);
    free(h);
}

void mgpu_hang_set(Hang *h, double stall, const Processes *processes)
{
    pthread_mutex_lock(&h->lock);
    h->stall = stall;
    h->processes = processes;
    pthread_mutex_unlock(&h->lock);
    check_every(h, nap_of(stall, 0));
}

void mgpu_hang_open(Engine *e, Hang *h)
{
    double patience = e->kind->async ? mgpu_patience() : 0;
    const char *asked = getenv("MGPU_PATIENCE");
    if (!h)
        return;
    pthread_mutex_lock(&h->lock);
    h->engine = e;
    h->processes = e->processes;
    h->patience = patience;
    h->ends = patience > 0;
    h->asked = asked && *asked;
    pthread_mutex_unlock(&h->lock);
    if (h->ends)
        check_every(h, nap_of(h->stall, patience));
    e->hang = h;
}

void mgpu_hang_close(Engine *e)
{
    Hang *h = e->hang;
    if (!h)
        return;
    pthread_mutex_lock(&h->lock);
    h->engine = NULL;
    h->stage = NULL;
    h->lanes = h->ends = h->connects = false;
    pthread_mutex_unlock(&h->lock);
}

void mgpu_hang_stage(const Engine *e, const char *what, int device)
{
    Hang *h = e->hang;
    if (!h)
        return;
    pthread_mutex_lock(&h->lock);
    snprintf(h->text, sizeof h->text, "%s", what ? what : "");
    h->stage = what ? h->text : NULL;
    h->stage_device = device;
    h->stages++;
    pthread_mutex_unlock(&h->lock);
}

void mgpu_hang_begun(Engine *e, _Atomic bool *begun)
{
    mgpu_hang_stage(e, "the devices are being opened", -1);
    if (e->hang)
        pthread_mutex_lock(&e->hang->lock);
    e->begun = begun;
    if (e->hang)
        pthread_mutex_unlock(&e->hang->lock);
}

/* The caller may hold a lock that the watching thread waits for, so this function must not block. */
Whereabouts mgpu_hang_where(const void *engine, char *text, size_t capacity)
{
    const Engine *e = engine;
    Hang *h = e->hang;
    if (!h || pthread_mutex_trylock(&h->lock) != 0)
        return WHERE_AFTER;
    int device = h->stage_device;
    for (int d = e->end - 1; e->begun && d >= e->first; d--)
        device = atomic_load(&e->begun[d]) ? device : d;
    if (h->stage && device >= 0)
        snprintf(text, capacity, "device %d: %s", device, e->begun ? "it is being opened" : h->stage);
    else if (h->stage)
        snprintf(text, capacity, "%s", h->stage);
    pthread_mutex_unlock(&h->lock);
    return WHERE_AFTER;
}

void mgpu_hang_lanes(const Engine *e, bool run)
{
    Hang *h = e->hang;
    if (!h)
        return;
    pthread_mutex_lock(&h->lock);
    h->lanes = run;
    pthread_mutex_unlock(&h->lock);
}

void mgpu_hang_connects(const Engine *e, bool connects)
{
    Hang *h = e->hang;
    if (!h)
        return;
    pthread_mutex_lock(&h->lock);
    h->connects = connects;
    pthread_mutex_unlock(&h->lock);
}
