/* hang.c: a program for GPUs in which nothing goes on any more says who hangs, and ends. In: what the engine's threads count;
 * out: one message and status 3.
 *
 * A kernel without an end, a sum that a member never joins, a link or a driver that stalls: whoever waits for them waits for
 * ever. So one thread wakes now and then and looks at all that only grows: steps posted and done, operations issued, calls of
 * the driver that have returned. If something is under way and nothing of this has changed for MGPU_PATIENCE seconds, it asks
 * the GPUs which marks they have reached, and says of each lane how far it is. Three things it is careful of:
 *
 *   - Time in which it does not run itself (a debugger, SIGSTOP, a laptop that sleeps) does not count: it adds up naps.
 *   - A driver that hangs may hang for who asks, too. Threads of their own ask; what they have not heard soon is left out.
 *   - While samples are read, GPUs that have nothing to do are not what hangs. That is a warning, and the program goes on.
 *
 * Who is to blame: of a device's first step that is not done, a lane's operations between the last mark that was reached and the
 * first that was not. If one of them waits for such an operation of another lane, or is a sum that some device has not come to,
 * the lane waits; else it is what has no end. */
#include "runtime/base/base.h"
#include "runtime/engine/internal.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const double PATIENCE_S = 600, LONGEST_NAP_S = 1, NAPS = 10;
enum { ROUNDS = 200, ROUND_MS = 1, MOST_ANSWER_MS = 1000 };

struct Hang {
    Engine *engine;
    double patience, nap;        /* seconds */
    pthread_t thread;
    pthread_mutex_t lock;        /* of all below; held while a report is made, so that nothing it looks at goes away */
    pthread_cond_t changed;
    const char *stage;           /* what the engine's caller is at; NULL: nothing */
    int stage_device;
    uint64_t stages;
    bool lanes, closing;
};

typedef struct Question {        /* in the order of lanes and places */
    int lane, place, mark;       /* of an operation; place: as many as there are: the step's end */
    bool before;                 /* the mark is before it, else after */
    _Atomic bool reached;
} Question;
typedef struct Look {            /* at a device: its first step that is not done */
    Engine *engine;
    int device;
    int64_t number;
    const mgpu_phase *phase;     /* NULL: nothing is under way, or nothing that has operations */
    Question *questions; int count;
    _Atomic bool answered;
    int after[MGPU_LANES];       /* place of the last operation that is known to be done; -1: none */
    int until[MGPU_LANES];       /* of the first after it that is known not to be; -1: none */
    bool held[MGPU_LANES];       /* that of a lane that transfers has not begun, but those before it are done */
} Look;

typedef struct Report {
    Engine *engine;
    Look *looks;                 /* [device] */
    FILE *endless, *calls, *sums, *waiting; /* sums: that wait for some device */
    bool among;                  /* what has no end is one of several operations, */
    bool sum;                    /* or a sum that all devices have begun */
} Report;

static const char *const LANE[MGPU_LANES] = MGPU_LANE_NAMES;

/* ---- what the GPUs have done */
static const mgpu_op *op_at(const Look *k, int lane, int place)
{
    const LaneTable *t = lanes_of(k->engine, k->phase, k->device);
    return &k->phase->devices[k->device].ops[t->order[t->begin[lane] + place]];
}

static int ops_of(const Look *k, int lane)
{
    const LaneTable *t = lanes_of(k->engine, k->phase, k->device);
    return t->begin[lane + 1] - t->begin[lane];
}

static void add_question(Look *k, int lane, int place, int mark, bool before)
{
    if (mark >= 0)
        k->questions[k->count++] = (Question){.lane = lane, .place = place, .mark = mark, .before = before};
}

/* the thread is in a sum over the devices, or waits for the end of one that it has issued */
static bool is_in_sum(const Lane *l)
{
    int doing = atomic_load(&l->doing);
    const mgpu_op *op = l->op;
    return op && op->verb == MGPU_TRANSFER && (doing == DOING_SUM || doing == DOING_END);
}

/* about marks of what has been issued */
static void find_questions(Look *k)
{
    Engine *e = k->engine;
    const mgpu_device_phase *p = &k->phase->devices[k->device];
    k->questions = mgpu_allocate(2 * ((size_t)p->op_count + MGPU_LANES), sizeof *k->questions);
    for (int lane = 0; lane < MGPU_HOST; lane++) {
        const Lane *l = lane_of(e, k->device, lane);
        for (int place = 0, all = ops_of(k, lane); place < all; place++) {
            int op = (int)(op_at(k, lane, place) - p->ops);
            bool issued = mgpu_ahead_has_issued(e, k->device, k->phase, k->number, op);
            if (issued || (l->number == k->number && l->op == &p->ops[op] && is_in_sum(l)))
                add_question(k, lane, place, mgpu_ahead_mark(e, k->device, k->phase, k->number, op, true), true);
            if (issued)
                add_question(k, lane, place, mgpu_ahead_mark(e, k->device, k->phase, k->number, op, false), false);
        }
        if (mgpu_ahead_issued(e, k->device) >= finished(k->number) && !l->idle)
            add_question(k, lane, ops_of(k, lane), mgpu_ahead_step_mark(e, k->device, lane, k->number), false);
    }
    const Lane *host = lane_of(e, k->device, MGPU_HOST);
    if (atomic_load(&host->doing) == DOING_MARK)
        add_question(k, MGPU_HOST, 0, atomic_load(&host->on), false);
}

/* Once more what has not been reached: work may be under way that is only slow. */
static void *ask(void *argument)
{
    Look *k = argument;
    const AheadKind *ahead = k->engine->kind->ahead;
    bool all = false;
    for (int round = 0; round < ROUNDS && !all; round++) {
        all = true;
        for (int i = 0; i < k->count; i++) {
            if (!atomic_load(&k->questions[i].reached))
                atomic_store(&k->questions[i].reached, ahead->reached(k->engine->devices[k->device], k->questions[i].mark));
            all = all && atomic_load(&k->questions[i].reached);
        }
        nanosleep(&(struct timespec){0, ROUND_MS * 1000000}, NULL);
    }
    atomic_store(&k->answered, true);
    return NULL;
}

/* What an operation waits for in the same step is done if it has begun; if it has not, although it could, one of these is not. */
static void learn_of_waits(Look *k, const mgpu_op *op, bool begun)
{
    const mgpu_device_phase *p = &k->phase->devices[k->device];
    const LaneTable *t = lanes_of(k->engine, k->phase, k->device);
    for (int w = 0; w < op->wait_count; w++) {
        int other = p->ops[op->waits[w].op].lane, place = t->place[op->waits[w].op];
        if (op->waits[w].back || other == op->lane)
            continue;
        if (begun && place > k->after[other])
            k->after[other] = place;
        else if (!begun && op->wait_count == 1 && (k->until[other] < 0 || place < k->until[other]))
            k->until[other] = place;
    }
}

static void read_answers(Look *k)
{
    for (int lane = 0; lane < MGPU_LANES; lane++)
        k->after[lane] = k->until[lane] = -1;
    if (!k->phase || !atomic_load(&k->answered))
        return;
    for (int i = k->count - 1; i >= 0; i--) { /* what is not done, the earliest last */
        const Question *q = &k->questions[i];
        int last = ops_of(k, q->lane) - 1, place = q->place < last ? q->place : last;
        if (q->lane == MGPU_HOST || atomic_load(&q->reached))
            continue;
        k->until[q->lane] = place;
        k->held[q->lane] = mgpu_lane_transfers(q->lane) && q->before;
    }
    for (int i = 0; i < k->count; i++) {
        const Question *q = &k->questions[i];
        if (q->lane == MGPU_HOST || q->place >= ops_of(k, q->lane) || !atomic_load(&q->reached))
            continue;
        if (q->before)
            learn_of_waits(k, op_at(k, q->lane, q->place), true);
        int done = q->place - q->before;
        k->after[q->lane] = done > k->after[q->lane] ? done : k->after[q->lane];
    }
    for (int lane = 0; lane < MGPU_HOST; lane++)
        if (k->held[lane])
            learn_of_waits(k, op_at(k, lane, k->until[lane]), false);
    for (int lane = 0; lane < MGPU_HOST; lane++)
        if (k->until[lane] >= 0 && k->after[lane] >= k->until[lane])
            k->after[lane] = k->until[lane] - 1; /* the step's end has not come, although its last operation has */
}

/* a thread that never comes back keeps what it was given: the program ends, or nothing was asked of it */
static Look *look(Engine *e)
{
    Look *looks = mgpu_allocate((size_t)e->plan->devices, sizeof *looks);
    bool all = false;
    for (int d = 0; d < e->plan->devices; d++) {
        Look *k = &looks[d];
        pthread_t thread;
        *k = (Look){.engine = e, .device = d, .number = mgpu_ahead_steps(e, d) + 1};
        if (k->number <= atomic_load(&e->posted.value))
            k->phase = phase_of(e, k->number);
        if (!k->phase)
            continue;
        find_questions(k);
        if (pthread_create(&thread, NULL, ask, k) == 0)
            pthread_detach(thread);
    }
    for (int ms = 0; ms < MOST_ANSWER_MS && !all; ms++) {
        all = true;
        for (int d = 0; d < e->plan->devices; d++)
            all = all && (!looks[d].phase || atomic_load(&looks[d].answered));
        nanosleep(&(struct timespec){0, 1000000}, NULL);
    }
    for (int d = 0; d < e->plan->devices; d++)
        read_answers(&looks[d]);
    return looks;
}

/* ---- who waits for whom */
/* an operation of another lane that is not done and that one of these places waits for; *by: which one. NULL: none */
static const mgpu_op *waited_for(const Look *k, int lane, int from, int to, const mgpu_op **by)
{
    const mgpu_device_phase *p = &k->phase->devices[k->device];
    const LaneTable *t = lanes_of(k->engine, k->phase, k->device);
    for (int place = from; place <= to; place++) {
        *by = op_at(k, lane, place);
        for (int w = 0; w < (*by)->wait_count; w++) {
            const mgpu_wait *wait = &(*by)->waits[w];
            int other = p->ops[wait->op].lane;
            if (wait->back == 0 && other != lane && k->until[other] >= 0 && t->place[wait->op] > k->after[other])
                return &p->ops[wait->op];
        }
    }
    return NULL;
}

/* the sum that a lane is in, as far as is known; number: of its step */
static const mgpu_op *sum_of(const Look *k, const Lane *l, int64_t *number)
{
    const mgpu_op *op = k->phase && k->until[l->lane] >= 0 ? op_at(k, l->lane, k->until[l->lane]) : NULL;
    *number = op ? k->number : l->number;
    op = op ? op : is_in_sum(l) ? l->op : NULL;
    return op && op->verb == MGPU_TRANSFER ? op : NULL;
}

/* whether the device has come to the sum: its thread has, and on the GPU nothing before it is left */
static bool has_begun(const Look *k, int64_t number, const mgpu_phase *phase, int target)
{
    int lane = mgpu_collective_lane(&phase->collectives[target]);
    const Lane *l = lane_of(k->engine, k->device, lane);
    const LaneTable *t = lanes_of(k->engine, phase, k->device);
    const mgpu_op *op = NULL;
    int place = 0;
    for (int i = t->begin[lane]; i < t->begin[lane + 1] && !op; i++) {
        const mgpu_op *other = &phase->devices[k->device].ops[t->order[i]];
        place = i - t->begin[lane];
        op = other->verb == MGPU_TRANSFER && other->target == target ? other : NULL;
    }
    bool inside = l->number == number && l->op == op && is_in_sum(l);
    if (!op || (!inside && !mgpu_ahead_has_issued(k->engine, k->device, phase, number, (int)(op - phase->devices[k->device].ops))))
        return false;
    if (k->number != number || k->phase != phase)
        return true;
    return k->until[lane] < 0 || place < k->until[lane] + !k->held[lane];
}

static void list_devices(FILE *to, const bool *begun, int count, bool which)
{
    int left = 0;
    for (int d = 0; d < count; d++)
        left += begun[d] == which;
    fprintf(to, left == 1 ? "device" : "devices");
    for (int d = 0; d < count; d++)
        if (begun[d] == which) {
            left--;
            fprintf(to, " %d%s", d, left == 1 ? " and" : left > 1 ? "," : "");
        }
}

/* once for all devices that are in it: by the first of them */
static void say_sum(Report *r, const Look *k, const mgpu_op *op, int64_t number)
{
    Engine *e = r->engine;
    int devices = e->plan->devices, count = 0;
    const mgpu_phase *phase = phase_of(e, number);
    bool *begun = mgpu_allocate((size_t)devices, sizeof *begun);
    char place[400];
    for (int d = 0; d < devices; d++)
        count += begun[d] = has_begun(&r->looks[d], number, phase, op->target);
    bool first = true;
    for (int d = 0; d < k->device; d++) {
        int64_t its;
        const mgpu_op *other = sum_of(&r->looks[d], lane_of(e, d, op->lane), &its);
        first = first && !(other && begun[d] && its == number && other->target == op->target);
    }
    FILE *to = count == devices ? r->endless : r->sums;
    mgpu_place_of(lane_of(e, k->device, op->lane), number, phase, op, place, sizeof place);
    if (first) {
        const mgpu_collective *c = &phase->collectives[op->target];
        fprintf(to, "  %s, the %s %s over the devices by %s: ", strchr(place, ',') + 2, mgpu_transfer_row(c->parties.transfer)->kind, c->name,
                mgpu_made_by(e->collective[op->lane], c->way));
        list_devices(to, begun, devices, true);
        if (count == devices) {
            fprintf(to, " have begun it, and it does not end");
        } else {
            fprintf(to, "%s begun it, ", count == 1 ? " has" : " have");
            list_devices(to, begun, devices, false);
            fprintf(to, "%s not", count == devices - 1 ? " has" : " have");
        }
        fprintf(to, "\n");
    }
    r->sum = r->sum || count == devices;
    free(begun);
}

/* ---- what is said of a lane */
/* what it has issued and the GPU has not done; false: nothing is known of that */
static bool say_issued(Report *r, const Look *k, const Lane *l)
{
    char place[400];
    const mgpu_op *by = NULL;
    if (!k->phase || k->until[l->lane] < 0)
        return false;
    int from = k->after[l->lane] + 1, to = k->until[l->lane];
    const mgpu_op *op = op_at(k, l->lane, from), *other = waited_for(k, l->lane, from, to, &by);
    mgpu_place_of(l, k->number, k->phase, other ? by : op, place, sizeof place);
    if (other) {
        fprintf(r->waiting, "  %s: waits for ", place);
        mgpu_add_name(k->engine, k->phase, other, r->waiting);
        fprintf(r->waiting, "\n");
        return true;
    }
    fprintf(r->endless, "  %s", place);
    if (to > from) {
        fprintf(r->endless, ", or one after it up to ");
        mgpu_add_name(k->engine, k->phase, op_at(k, l->lane, to), r->endless);
        r->among = true;
    }
    fprintf(r->endless, ": it does not end\n");
    return true;
}

static bool host_reached(const Look *k)
{
    for (int i = 0; i < k->count; i++)
        if (k->questions[i].lane == MGPU_HOST)
            return atomic_load(&k->questions[i].reached);
    return false;
}

static void say_lane(Report *r, const Look *k, const Lane *l)
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
    if (doing == DOING_WORK || (doing == DOING_MARK && host_reached(k))) {
        fprintf(r->calls, "  %s: a call of the driver or of a library does not return\n", place);
    } else if (doing == DOING_END && !said) {
        fprintf(r->endless, "  %s: it does not end\n", place);
    } else if (said || (k->phase && l->number > k->number)) {
        return; /* a later step waits for this one */
    } else if (doing == DOING_LANE) {
        fprintf(r->waiting, "  %s: waits for the lane %s\n", place, LANE[atomic_load(&l->on)]);
    } else if (doing == DOING_MARK) {
        fprintf(r->waiting, "  %s: waits for the GPU\n", place);
    } else if (doing == DOING_SUM) {
        fprintf(r->waiting, "  %s: waits for what it sums\n", place);
    }
}

/* the thread that watches the device */
static void say_device(Report *r, const Look *k)
{
    char place[400];
    bool ended = k->phase && atomic_load(&k->answered) && mgpu_ahead_issued(r->engine, k->device) >= finished(k->number);
    for (int lane = 0; lane < MGPU_HOST && ended; lane++)
        ended = k->until[lane] < 0;
    if (!k->phase || (!ended && atomic_load(&k->answered)))
        return;
    mgpu_place_of(lane_of(r->engine, k->device, MGPU_COMP), k->number, k->phase, NULL, place, sizeof place);
    if (ended)
        fprintf(r->calls, "  %s: all of it is done, and a call of the driver that waits for that does not return\n", place);
    else
        fprintf(r->waiting, "  %s: the driver does not answer which operations are done\n", place);
}

/* ---- the end */
/* to sum over devices; NULL: none */
static const char *other_ways(const char *way)
{
    static const char *const AFTER[][2] = {{"host", NULL}, {"copy", "host"}, {"peer", "copy or host"}};
    for (int i = 0; i < MGPU_COUNT(AFTER); i++)
        if (strcmp(way, AFTER[i][0]) == 0)
            return AFTER[i][1];
    return "peer, copy or host";
}

static void say_cures(const Report *r, const Hang *h, FILE *to)
{
    const char *ways = r->sum ? other_ways(r->engine->collective[MGPU_COMM]->name) : NULL;
    if (ways)
        fprintf(to, "MGPU_COLLECTIVE=%s sums in another way; ", ways);
    if (r->among)
        fprintf(to, "MGPU_GRAPHS=wait says which operation it is; ");
    if (!r->sum)
        fprintf(to, "dmesg may say what ails a GPU (NVRM: Xid); ");
    fprintf(to, "MGPU_PATIENCE=%g waits twice as long, off for ever", 2 * h->patience);
}

/* a number that changes whenever something goes on */
static uint64_t counts(const Hang *h)
{
    Engine *e = h->engine;
    uint64_t sum = h->stages + (uint64_t)atomic_load(&e->posted.value);
    for (int i = 0; i < e->plan->devices * MGPU_LANES; i++)
        sum += (uint64_t)atomic_load(&e->lanes[i].progress.value) + (uint64_t)atomic_load(&e->lanes[i].returned);
    for (int d = 0; d < e->plan->devices && h->lanes; d++)
        sum += (uint64_t)mgpu_ahead_steps(e, d) + (uint64_t)mgpu_ahead_issued(e, d);
    return sum;
}

/* of a program that makes no progress; counts(h) must still be `counted` when it is known what to say */
static void end_program(const Hang *h, uint64_t counted)
{
    Engine *e = h->engine;
    char *part[5];
    size_t length[5];
    Report r = {.engine = e, .endless = mgpu_begin_text(&part[0], &length[0]), .calls = mgpu_begin_text(&part[1], &length[1]),
                .sums = mgpu_begin_text(&part[2], &length[2]), .waiting = mgpu_begin_text(&part[3], &length[3])};
    FILE *cures = mgpu_begin_text(&part[4], &length[4]);
    if (h->stage) {
        fprintf(r.calls, h->stage_device < 0 ? "  " : "  device %d: ", h->stage_device);
        fprintf(r.calls, "%s, and a call of the driver or of a library does not return%s%s\n", h->stage, e->achieved ? "; " : "",
                e->achieved ? e->achieved : "");
    } else {
        r.looks = look(e);
        for (int d = 0; d < e->plan->devices; d++) {
            for (int lane = 0; lane < MGPU_LANES; lane++)
                if (!lane_of(e, d, lane)->idle)
                    say_lane(&r, &r.looks[d], lane_of(e, d, lane));
            say_device(&r, &r.looks[d]);
        }
    }
    say_cures(&r, h, cures);
    mgpu_end_text(r.endless);
    mgpu_end_text(r.calls);
    mgpu_end_text(r.sums);
    mgpu_end_text(r.waiting);
    mgpu_end_text(cures);
    if (counts(h) == counted)
        mgpu_fail(MGPU_MACHINE_FAILED, "the program hangs: nothing was issued or done for %g s\n%s%s%s%s%s", h->patience, part[0],
                  part[1], part[2], part[3], part[4]);
    for (int i = 0; i < 5; i++)
        free(part[i]);
}

/* ---- looking on */
static bool is_under_way(const Hang *h)
{
    Engine *e = h->engine;
    int64_t posted = atomic_load(&e->posted.value);
    if (h->stage || !h->lanes)
        return h->stage != NULL;
    for (int i = 0; i < e->plan->devices * MGPU_LANES; i++)
        if (atomic_load(&e->lanes[i].progress.value) < finished(posted))
            return true;
    for (int d = 0; d < e->plan->devices; d++)
        if (mgpu_ahead_steps(e, d) < posted)
            return true;
    return false;
}

static const Lane *reader(const Hang *h)
{
    for (int d = 0; d < h->engine->plan->devices && h->lanes; d++)
        if (atomic_load(&lane_of(h->engine, d, MGPU_HOST)->doing) == DOING_READ)
            return lane_of(h->engine, d, MGPU_HOST);
    return NULL;
}

static void warn(const Hang *h, const Lane *l)
{
    char place[400];
    mgpu_place_of(l, l->number, phase_of(h->engine, l->number), NULL, place, sizeof place);
    mgpu_say("%s: warning: nothing has gone on for %g s: %s: its samples are still being read",
            program_invocation_short_name, h->patience, place);
}

static void nap(Hang *h)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += (long)(1e9 * h->nap);
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    while (!h->closing && pthread_cond_timedwait(&h->changed, &h->lock, &until) == 0)
        ;
}

static void *look_on(void *argument)
{
    Hang *h = argument;
    uint64_t counted = 0;
    double still = 0;            /* seconds */
    pthread_setname_np(pthread_self(), "patience");
    pthread_mutex_lock(&h->lock);
    for (bool warned = false; !h->closing; nap(h)) {
        uint64_t now = counts(h);
        bool goes_on = now != counted || !is_under_way(h);
        counted = now;
        still = goes_on ? 0 : still + h->nap;
        warned = warned && !goes_on;
        if (still < h->patience)
            continue;
        const Lane *reads = reader(h);
        if (!reads)
            end_program(h, counted);
        else if (!warned)
            warn(h, reads);
        warned = true;
    }
    pthread_mutex_unlock(&h->lock);
    return NULL;
}

static double read_patience(void)
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

void mgpu_hang_open(Engine *e)
{
    double patience = read_patience();
    pthread_condattr_t clock;
    if (!e->kind->ahead || patience <= 0)
        return;
    Hang *h = mgpu_allocate(1, sizeof *h);
    *h = (Hang){.engine = e, .patience = patience, .nap = patience / NAPS < LONGEST_NAP_S ? patience / NAPS : LONGEST_NAP_S};
    pthread_mutex_init(&h->lock, NULL);
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(&h->changed, &clock);
    pthread_condattr_destroy(&clock);
    mgpu_start_thread(&h->thread, look_on, h);
    e->hang = h;
}

void mgpu_hang_close(Engine *e)
{
    Hang *h = e->hang;
    if (!h)
        return;
    pthread_mutex_lock(&h->lock);
    h->closing = true;
    pthread_cond_signal(&h->changed);
    pthread_mutex_unlock(&h->lock);
    pthread_join(h->thread, NULL);
    pthread_cond_destroy(&h->changed);
    pthread_mutex_destroy(&h->lock);
    free(h);
}

void mgpu_hang_stage(const Engine *e, const char *what, int device)
{
    Hang *h = e->hang;
    if (!h)
        return;
    pthread_mutex_lock(&h->lock);
    h->stage = what;
    h->stage_device = device;
    h->stages++;
    pthread_mutex_unlock(&h->lock);
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
