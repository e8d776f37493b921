/* bucketing.c: the timeline of a step -> which of its gradients share an all-reduce.
 *
 * A few large buckets pay the latency of an all-reduce rarely, and delay computing less; many small ones begin early, during the
 * backward pass. Transfers that computing waits for (batch statistics) use the same lane, where one after a large bucket waits
 * for it; or a lane of their own, where they share the links.
 *
 * The sums are ordered by completion, and a bucket is a run of consecutive sums. So dynamic programming simulates the lanes from
 * sum to sum: a state holds how long each lane is busy when the bucket that ends with sum j has begun. It follows from a state of
 * some sum i < j, the calls between them, and the bucket of i + 1 ... j. Of each sum the few best states are kept, which no other
 * state dominates. The best state of the last sum is the partition.
 *
 * A bucket takes memory from its first gradient on, while the activations of earlier layers are still alive. So the search is
 * repeated with a few maximum sizes of a bucket, and the smallest one is used that ends within GAIN of the best. */
#include "compiler/plan/bucketing.h"

#include <math.h>

/* fraction of an all-reduce's time that computing loses besides SMs: fewer buckets are better */
static const double PRICE = .001;
static const int64_t SIZES[] = {1 << 20, 4 << 20, 16 << 20, 64 << 20, INT64_MAX}; /* of a bucket, at most */
/* fraction of a step that a larger size must gain, since buckets take memory from their first gradient on */
static const double GAIN = .0005;

/* sums that may share a bucket: of one type, sent either as they are or as bits */
enum { KINDS = 2 * DTYPES };
static int kind_of(const ReducedValue *s) { return (int)s->dtype + (s->what == COLLECT_BITS ? DTYPES : 0); }

/* time of a transfer, and the time that computing loses during it, because the transfer occupies SMs */
typedef struct TransferTime {
    double us, lost_us;
} TransferTime;

/* Returns the time that computing loses if there is `left_us` to compute when the transfer begins. */
static double lost_us(TransferTime x, double left_us)
{
    double beside = x.us - x.lost_us; /* is computed during the transfer */
    return left_us >= beside ? x.lost_us : left_us > 0 ? x.lost_us * left_us / beside : 0;
}

/* The plan's method (ring, tree, device) is used for whole sums; reduce-scatters use any method. */
static TransferTime time_of(const Timeline *t, Collect what, int64_t bytes)
{
    const Members *g = t->members;
    bool whole = what == COLLECT_ALL_REDUCE || what == COLLECT_BITS;
    Method method;
    if (bytes <= 0)
        return (TransferTime){0};
    Cost c = cost_cheapest(g, whole && g->gradients ? g->gradients : g->methods, what, (double)bytes, &method);
    return (TransferTime){c.us, whole && t->by_engines ? 0 : c.us * c.taken};
}

/* ---- the lanes */
typedef struct Bucket {
    int after, launches;
    int64_t bytes;
    TransferTime takes;
    double update_us;
} Bucket;

static void count_launches(const Timeline *t, const Buckets *b, Bucket *list)
{
    int *last = NEW_ARRAY(int, t->function_count); /* last bucket + 1 with the function */
    for (int i = 0; i < t->update_count; i++) {
        int bucket = b->of[t->updates[i].reduced], *seen = t->updates[i].function < 0 ? NULL : &last[t->updates[i].function];
        list[bucket].launches += !seen || *seen != bucket + 1;
        if (seen)
            *seen = bucket + 1;
    }
}

static Bucket *list_buckets(const Timeline *t, const Buckets *b)
{
    Bucket *list = NEW_ARRAY(Bucket, b->count);
    for (int i = 0; i < t->reduced_count; i++) {
        const ReducedValue *s = &t->reduced[i];
        Bucket *x = &list[b->of[i]];
        x->after = s->place;
        x->bytes += s->bytes;
        x->update_us += s->update_us;
        x->takes = time_of(t, s->what, x->bytes);
    }
    count_launches(t, b, list);
    return list;
}

/* Returns the buckets in order of completion; equal ones by number. */
static int *order_of(const Timeline *t, const Bucket *list, int count)
{
    int *first = NEW_ARRAY(int, t->call_count + 2), *order = NEW_ARRAY(int, count);
    for (int i = 0; i < count; i++)
        first[list[i].after + 2]++;
    for (int i = 1; i < t->call_count + 2; i++)
        first[i] += first[i - 1];
    for (int i = 0; i < count; i++)
        order[first[list[i].after + 1]++] = i;
    return order;
}

/* Runs a stop and returns its end. comm, sync: when these lanes become free; beside_us: computing time before a call waits for
 * it. */
static double begin_stop(const Stop *s, double beside_us, double *comp, double *comm, double *sync)
{
    double *lane = s->in_sync_lane ? sync : comm, begin = *lane > *comp ? *lane : *comp;
    *comp += lost_us((TransferTime){s->us, s->us * s->taken}, beside_us - (begin - *comp));
    bool shares = s->in_sync_lane && *comm > begin;
    *lane = begin + s->us + (shares ? s->shared_us : 0);
    *comm += shares ? s->shared_us : 0;
    return *lane;
}

/* Returns, by call, the time of the calls before it. */
static double *sums_of_calls(const Timeline *t)
{
    double *before = NEW_ARRAY(double, t->call_count + 1);
    for (int i = 0; i < t->call_count; i++)
        before[i + 1] = before[i] + t->call_us[i];
    return before;
}

/* Returns the time of the calls after `place` and before another one. */
static double us_between(const double *us_before, int place, int before)
{
    return us_before[before] - us_before[place + 1 < 0 ? 0 : place + 1];
}

/* Buckets that end early share launches: the first of them counts its launches, the later ones count none. */
static int own_launches(int launches, double over_us, double early_us, bool *early)
{
    bool first = !*early, is_early = over_us <= early_us;
    *early |= is_early;
    return is_early && !first ? 0 : launches;
}

static double run_lanes(const Timeline *t, const Buckets *b)
{
    const Bucket *list = list_buckets(t, b);
    const int *order = order_of(t, list, b->count);
    double comp = 0, comm = 0, sync = 0, *us_before = sums_of_calls(t);
    double *wait_until = NEW_ARRAY(double, t->call_count + 1), *over = NEW_ARRAY(double, b->count);
    for (int call = -1, stop = 0, k = 0; call < t->call_count; call++) {
        if (call >= 0) {
            comp = wait_until[call] > comp ? wait_until[call] : comp;
            comp += t->call_us[call];
        }
        for (; stop < t->stop_count && t->stops[stop].place == call; stop++) {
            const Stop *s = &t->stops[stop];
            double its_end = begin_stop(s, us_between(us_before, call, s->before), &comp, &comm, &sync);
            wait_until[s->before] = its_end > wait_until[s->before] ? its_end : wait_until[s->before];
        }
        for (; k < b->count && list[order[k]].after == call; k++) {
            TransferTime takes = list[order[k]].takes;
            comp += t->region_us + PRICE * takes.us;
            double begin = comm > comp ? comm : comp;
            over[k] = comm = begin + takes.us;
            comp += lost_us(takes, us_between(us_before, call, t->call_count) - (begin - comp));
        }
    }
    bool early = false;
    /* Updates of buckets that end before the computing does share launches. */
    double until = t->joins_buckets ? us_before[t->call_count] : 0;
    for (int k = 0; k < b->count; k++) {
        const Bucket *x = &list[order[k]];
        comp =
            (comp > over[k] ? comp : over[k]) + x->update_us + own_launches(x->launches, over[k], until, &early) * t->launch_us;
    }
    return comp;
}

double buckets_end(const Timeline *t, const Buckets *b)
{
    Memory *own = memory_new(), *outer = memory_use(own);
    double end = run_lanes(t, b);
    memory_use(outer);
    memory_free(own);
    return end;
}

/* ---- buckets of a size: one open bucket for each kind */
static void none_open(int *open)
{
    for (int i = 0; i < KINDS; i++)
        open[i] = -1;
}

static int join(const Timeline *t, Buckets *b, int *open, int sum)
{
    const ReducedValue *s = &t->reduced[sum];
    int *of = &open[kind_of(s)];
    if (s->own_bucket)
        return b->of[sum] = b->count++;
    if (*of < 0)
        *of = b->count++;
    return b->of[sum] = *of;
}

Buckets buckets_of_size(const Timeline *t, int64_t bytes)
{
    Buckets b = {.of = NEW_ARRAY(int, t->reduced_count)};
    int64_t held[KINDS] = {0};
    int open[KINDS];
    none_open(open);
    for (int i = 0; i < t->reduced_count; i++) {
        const ReducedValue *s = &t->reduced[i];
        join(t, &b, open, i);
        if (!s->own_bucket && (held[kind_of(s)] += s->bytes) >= bytes) {
            open[kind_of(s)] = -1;
            held[kind_of(s)] = 0;
        }
    }
    return b;
}

/* ---- the partition */
enum { BEST_STATES = 24, WAITS = 3, MOST_RUNS = 256 };
typedef struct State {       /* when the bucket that ends with a sum has begun */
    double comp, comm, sync; /* when the lanes become free */
    double tail;  /* lower bound for the end of the step: the latest end of a bucket and of the updates from its first one on */
    int launches; /* of updates, so far */
    bool early;   /* a bucket ends before computing does */
    double guess; /* end of the step, if all that is left is one bucket, which begins at once and occupies no SMs */
    struct {
        double us;
        int before;
    } waits[WAITS];
    int wait_count;   /* call `before` waits until `us`; ascending in both */
    int from, parent; /* the bucket's sums are from + 1 ... this one; parent: the previous state */
} State;
typedef struct States {
    State best[BEST_STATES];
    int count;
} States;

/* A direct-mapped cache for all searches: runs of sums of equal blocks have equal bytes. */
enum { TIMES = 1 << 13 };
typedef struct Times {
    int64_t bytes[TIMES];
    Collect what[TIMES];
    TransferTime takes[TIMES];
} Times;

static TransferTime known_time_of(Times *known, const Timeline *t, Collect what, int64_t bytes)
{
    size_t at = (size_t)(((uint64_t)bytes * 0x9e3779b97f4a7c15u) >> 40) % TIMES;
    if (known->bytes[at] == bytes && known->what[at] == what)
        return known->takes[at];
    known->bytes[at] = bytes;
    known->what[at] = what;
    return known->takes[at] = time_of(t, what, bytes);
}

typedef struct StopEvent { /* a call that waits for stops, or is followed by stops */
    int place, stop, stop_count;
} StopEvent;
typedef struct BucketSearch {
    const Timeline *t;
    int *end, count;           /* atoms: sums that always share a bucket; one past the last sum of each */
    double *us_before;         /* by call: time of the calls before it */
    double early_us, until_us; /* until_us: what ends later is left out */
    StopEvent *events;
    int event_count, *event_at; /* by call + 1: the first event there or later */
    double *update_before;      /* by sum: time of the updates of the sums before it */
    /* by sum: its first update, or that of a later one; by update: the next one of its function, or the count */
    int *update_at, *next_same;
    int64_t *bytes[KINDS];    /* by kind and sum: bytes of the sums before it; NULL: there are none of this kind */
    TransferTime *own_bucket; /* by sum: transfers of the sums before it that share no bucket */
    Times *times;
} BucketSearch;

static void add_up(BucketSearch *s)
{
    const Timeline *t = s->t;
    int n = t->reduced_count;
    s->own_bucket = NEW_ARRAY(TransferTime, n + 1);
    s->update_before = NEW_ARRAY(double, n + 1);
    for (int i = 0; i < n; i++)
        if (!t->reduced[i].own_bucket && !s->bytes[kind_of(&t->reduced[i])])
            s->bytes[kind_of(&t->reduced[i])] = NEW_ARRAY(int64_t, n + 1);
    for (int i = 0; i < n; i++) {
        const ReducedValue *x = &t->reduced[i];
        for (int k = 0; k < KINDS; k++)
            if (s->bytes[k])
                s->bytes[k][i + 1] = s->bytes[k][i] + (x->own_bucket || kind_of(x) != k ? 0 : x->bytes);
        TransferTime own = x->own_bucket ? time_of(t, x->what, x->bytes) : (TransferTime){0};
        s->own_bucket[i + 1] = (TransferTime){s->own_bucket[i].us + own.us, s->own_bucket[i].lost_us + own.lost_us};
        s->update_before[i + 1] = s->update_before[i] + x->update_us;
    }
    s->us_before = sums_of_calls(t);
}

static void find_updates(BucketSearch *s)
{
    const Timeline *t = s->t;
    int *next = NEW_ARRAY(int, t->function_count);
    s->update_at = NEW_ARRAY(int, t->reduced_count + 1);
    s->next_same = NEW_ARRAY(int, t->update_count);
    for (int i = 0; i < t->function_count; i++)
        next[i] = t->update_count;
    for (int i = t->update_count - 1, sum = t->reduced_count; sum >= 0; sum--) {
        s->update_at[sum] = i + 1;
        for (; sum > 0 && i >= 0 && t->updates[i].reduced == sum - 1; i--) {
            int function = t->updates[i].function;
            s->next_same[i] = function < 0 ? t->update_count : next[function];
            if (function >= 0)
                next[function] = i;
        }
    }
}

/* Returns the launches for the updates of an atom in a bucket that ends with atom `last`: of functions that no later atom there
 * has. */
static int launches_of(const BucketSearch *s, int atom, int last)
{
    int count = 0;
    for (int i = s->update_at[s->end[atom]]; i < s->update_at[s->end[atom + 1]]; i++)
        count += s->next_same[i] >= s->update_at[s->end[last]];
    return count;
}

static void find_events(BucketSearch *s)
{
    const Timeline *t = s->t;
    int *stops = NEW_ARRAY(int, t->call_count + 2);
    bool *waits = NEW_ARRAY(bool, t->call_count + 2);
    for (int i = 0; i < t->stop_count; i++) {
        stops[t->stops[i].place + 1]++;
        waits[t->stops[i].before + 1] = true;
    }
    s->event_at = NEW_ARRAY(int, t->call_count + 2);
    for (int place = -1, stop = 0; place <= t->call_count; place++) {
        s->event_at[place + 1] = s->event_count;
        if (place < t->call_count && (stops[place + 1] || waits[place + 1]))
            APPEND(s->events, s->event_count, ((StopEvent){place, stop, stops[place + 1]}));
        stop += stops[place + 1];
    }
}

/* Makes a call wait until `us`. Waits that are later and shorter are implied. */
static void wait_before(State *x, int call, double us)
{
    while (x->wait_count && x->waits[x->wait_count - 1].before >= call)
        us = fmax(us, x->waits[--x->wait_count].us);
    if (x->wait_count && x->waits[x->wait_count - 1].us >= us)
        return;
    if (x->wait_count == WAITS) /* merged with the wait of an earlier call: an overestimate */
        call = x->waits[--x->wait_count].before;
    x->waits[x->wait_count].us = us;
    x->waits[x->wait_count++].before = call;
}

static void wait(State *x, int call)
{
    int over = 0;
    for (; over < x->wait_count && x->waits[over].before <= call; over++)
        x->comp = x->waits[over].us > x->comp ? x->waits[over].us : x->comp;
    x->wait_count -= over;
    for (int i = 0; over && i < x->wait_count; i++)
        x->waits[i] = x->waits[i + over];
}

/* Computes from after call `from` to the end of call `to`, with the stops there. */
static void advance(const BucketSearch *s, State *x, int from, int to)
{
    const Timeline *t = s->t;
    int at = from;
    for (int k = s->event_at[from + 2 < 0 ? 0 : from + 2]; k < s->event_count && s->events[k].place <= to; k++) {
        const StopEvent *e = &s->events[k];
        if (e->place >= 0) {
            x->comp += s->us_before[e->place] - s->us_before[at + 1 < 0 ? 0 : at + 1];
            wait(x, e->place);
            x->comp += t->call_us[e->place];
        }
        for (int i = e->stop; i < e->stop + e->stop_count; i++) {
            const Stop *stop = &t->stops[i];
            double beside_us = us_between(s->us_before, e->place, stop->before);
            wait_before(x, stop->before, begin_stop(stop, beside_us, &x->comp, &x->comm, &x->sync));
        }
        at = e->place;
    }
    x->comp += to >= 0 ? s->us_before[to + 1] - s->us_before[at + 1 < 0 ? 0 : at + 1] : 0;
}

static TransferTime time_of_run(const BucketSearch *s, int from, int to)
{
    TransferTime all = {s->own_bucket[to].us - s->own_bucket[from].us, s->own_bucket[to].lost_us - s->own_bucket[from].lost_us};
    for (int k = 0; k < KINDS; k++)
        if (s->bytes[k]) {
            TransferTime own = known_time_of(s->times, s->t, k < DTYPES ? COLLECT_ALL_REDUCE : COLLECT_BITS,
                                             s->bytes[k][to] - s->bytes[k][from]);
            all = (TransferTime){all.us + own.us, all.lost_us + own.lost_us};
        }
    return all;
}

static int place_of(const BucketSearch *s, int atom) { return atom > 0 ? s->t->reduced[s->end[atom] - 1].place : -2; }

/* Returns true if a is at least as early as b in all that the rest depends on. */
static bool is_no_worse(const State *a, const State *b, double near)
{
    return a->comp <= b->comp + near && a->comm <= b->comm + near && a->sync <= b->sync + near && a->tail <= b->tail + near &&
           a->launches <= b->launches && a->early >= b->early;
}

/* Keeps the states that no other dominates; if there are too many, those that may end first. */
static void insert(States *all, const State *x)
{
    int to = 0;
    for (int i = 0; i < all->count; i++) {
        if (is_no_worse(&all->best[i], x, 1e-9 * x->comp))
            return;
        if (!is_no_worse(x, &all->best[i], 0))
            all->best[to++] = all->best[i];
    }
    all->count = to;
    if (to < BEST_STATES) {
        all->best[all->count++] = *x;
        return;
    }
    int worst = 0;
    for (int i = 1; i < BEST_STATES; i++)
        worst = all->best[i].guess > all->best[worst].guess ? i : worst;
    if (x->guess < all->best[worst].guess)
        all->best[worst] = *x;
}

/* Adds a bucket. reached: the state after the previous bucket, where the run's last sum is complete; left_us: of all sums after
 * it, in one bucket, with their updates. */
static void end_run(const BucketSearch *s, States *to, const State *reached, int from, int parent, int last, TransferTime takes,
                    int launches, double left_us)
{
    State x = *reached;
    double updates = s->update_before[s->t->reduced_count] - s->update_before[s->end[from]];
    x.comp += s->t->region_us + PRICE * takes.us;
    double begin = x.comm > x.comp ? x.comm : x.comp;
    x.comm = begin + takes.us;
    double calls_us = us_between(s->us_before, place_of(s, last), s->t->call_count);
    x.comp += lost_us(takes, calls_us - (begin - x.comp));
    int own = own_launches(launches, x.comm, s->early_us, &x.early);
    x.tail = (x.comm + updates > x.tail ? x.comm + updates : x.tail) + own * s->t->launch_us;
    x.launches += own;
    x.guess = fmax(fmax(x.comm + left_us, x.tail),
                   x.comp + calls_us + s->update_before[s->t->reduced_count] + x.launches * s->t->launch_us);
    x.from = from;
    x.parent = parent;
    if (x.guess <= s->until_us)
        insert(to, &x);
}

/* Groups sums into atoms of about equal bytes, so that the time of the search is bounded. */
static void find_atoms(BucketSearch *s)
{
    const Timeline *t = s->t;
    int64_t all = 0, held = 0;
    for (int i = 0; i < t->reduced_count; i++)
        all += t->reduced[i].bytes;
    s->end = NEW_ARRAY(int, t->reduced_count + 1);
    for (int i = 0; i < t->reduced_count; i++) {
        held += t->reduced[i].bytes;
        if (t->reduced_count > MOST_RUNS && held < all / MOST_RUNS && i + 1 < t->reduced_count)
            continue;
        s->end[++s->count] = i + 1;
        held = 0;
    }
}

static int64_t run_bytes(const BucketSearch *s, int from, int to)
{
    int64_t bytes = 0;
    for (int k = 0; k < KINDS; k++)
        bytes += s->bytes[k] ? s->bytes[k][to] - s->bytes[k][from] : 0;
    return bytes;
}

/* Runs with more than `most` bytes must be single atoms. */
static const States *search(const BucketSearch *s, int64_t most)
{
    /* reached: states of i, advanced to the present sum */
    States *states = NEW_ARRAY(States, s->count + 1), *reached = NEW_ARRAY(States, s->count);
    int *at = NEW_ARRAY(int, s->count);
    states[0] = (States){.count = 1};
    for (int j = 1; j <= s->count; j++) {
        double left_us = time_of_run(s, s->end[j], s->t->reduced_count).us + s->update_before[s->t->reduced_count] -
                         s->update_before[s->end[j]];
        for (int i = j - 1, launches = 0; i >= 0; i--) {
            TransferTime takes = time_of_run(s, s->end[i], s->end[j]);
            launches += launches_of(s, i, j);
            if (i == j - 1) {
                reached[i] = states[i];
                at[i] = i;
            }
            for (int k = 0; k < states[i].count; k++) {
                advance(s, &reached[i].best[k], place_of(s, at[i]), place_of(s, j));
                end_run(s, &states[j], &reached[i].best[k], i, k, j, takes, launches, left_us);
            }
            at[i] = j;
            if (i > 0 && run_bytes(s, s->end[i - 1], s->end[j]) > most)
                break;
        }
    }
    return states;
}

static int first_to_end(const BucketSearch *s, const States *last, double *us)
{
    int found = 0;
    *us = INFINITY;
    for (int k = 0; k < last->count; k++) {
        State x = last->best[k];
        advance(s, &x, place_of(s, s->count), s->t->call_count - 1);
        double end = x.comp + s->update_before[s->t->reduced_count] + x.launches * s->t->launch_us;
        end = x.tail > end ? x.tail : end;
        if (end < *us) {
            *us = end;
            found = k;
        }
    }
    return found;
}

/* Returns by how much the search overestimates a step, as states keep few of the waits: of one with all sums of a kind in one
 * bucket. */
static double longer_in_search(const BucketSearch *s)
{
    Buckets one = buckets_of_size(s->t, INT64_MAX);
    States all = {0};
    State reached = {0};
    double us;
    int launches = 0;
    for (int i = 0; i < s->count; i++)
        launches += launches_of(s, i, s->count);
    advance(s, &reached, place_of(s, 0), place_of(s, s->count));
    end_run(s, &all, &reached, 0, 0, s->count, time_of_run(s, 0, s->t->reduced_count), launches, 0);
    first_to_end(s, &all, &us);
    return fmax(us - buckets_end(s->t, &one), 0);
}

/* Returns no buckets if no partition ends by until_us. */
static Buckets best_partition(const Timeline *t, int64_t most, double until_us, Times *times, Memory *kept)
{
    BucketSearch s = {.t = t, .times = times, .until_us = INFINITY};
    double us;
    add_up(&s);
    s.early_us = t->joins_buckets ? s.us_before[t->call_count] : 0;
    find_updates(&s);
    find_events(&s);
    find_atoms(&s);
    s.until_us = until_us + longer_in_search(&s);
    const States *states = search(&s, most);
    if (!states[s.count].count)
        return (Buckets){0};
    bool *cut = NEW_ARRAY(bool, t->reduced_count + 1);
    for (int j = s.count, k = first_to_end(&s, &states[j], &us); j > 0;) {
        const State *x = &states[j].best[k];
        cut[s.end[j = x->from]] = true;
        k = x->parent;
    }
    Memory *own = memory_use(kept);
    Buckets b = {.of = NEW_ARRAY(int, t->reduced_count)};
    memory_use(own);
    int open[KINDS];
    none_open(open);
    for (int i = 0; i < t->reduced_count; i++) {
        if (cut[i])
            none_open(open);
        join(t, &b, open, i);
    }
    return b;
}

static Buckets partition(const Timeline *t, int64_t most, double until_us, Times *times)
{
    Memory *own = memory_new(), *kept = memory_use(own);
    Buckets b = best_partition(t, most, until_us, times, kept);
    memory_use(kept);
    memory_free(own);
    return b;
}

/* Returns the optimal partition with buckets of a size, or the buckets that are closed at that size, if they end sooner. */
static Buckets best_of_size(const Timeline *t, int64_t most, Times *times, double *us)
{
    const double LESS = 1 - 1e-6;
    Buckets closed = buckets_of_size(t, most);
    double closed_us = buckets_end(t, &closed);
    Buckets best = partition(t, most, closed_us / LESS, times);
    *us = best.count ? buckets_end(t, &best) : INFINITY;
    if (closed_us < *us * LESS) {
        best = closed;
        *us = closed_us;
    }
    return best;
}

/* Returns the bytes of all sums that may share a bucket; 0: no two of them may. */
static int64_t bytes_to_share(const Timeline *t)
{
    int64_t bytes = 0;
    int of_kind[KINDS] = {0}, most = 0;
    for (int i = 0; i < t->reduced_count; i++) {
        const ReducedValue *s = &t->reduced[i];
        if (s->own_bucket)
            continue;
        bytes += s->bytes;
        of_kind[kind_of(s)]++;
        most = of_kind[kind_of(s)] > most ? of_kind[kind_of(s)] : most;
    }
    return most > 1 ? bytes : 0;
}

/* Returns the end of the step without its sums, which is before that of any buckets. */
static double end_without_sums(const Timeline *t)
{
    Timeline bare = *t;
    double updates_us = 0;
    for (int i = 0; i < t->reduced_count; i++)
        updates_us += t->reduced[i].update_us;
    bare.reduced_count = bare.update_count = 0;
    return buckets_end(&bare, &(Buckets){0}) + updates_us;
}

Buckets buckets_by_cost(const Timeline *t)
{
    double us[COUNT(SIZES)] = {0}, least = INFINITY;
    Buckets best[COUNT(SIZES)];
    int chosen = 0;
    int64_t bytes = bytes_to_share(t);
    if (!bytes)
        return buckets_of_size(t, INT64_MAX);
    Times *times = NEW(Times);
    for (int i = 0; i < COUNT(SIZES) && (i == 0 || SIZES[i - 1] <= bytes); i++) { /* no bucket has more than all bytes */
        best[i] = best_of_size(t, SIZES[i], times, &us[i]);
        if (i == 0 && us[0] <= end_without_sums(t) * (1 + GAIN))
            return best[0];
        least = us[i] < least ? us[i] : least;
    }
    while (us[chosen] > least * (1 + GAIN))
        chosen++;
    return best[chosen];
}
