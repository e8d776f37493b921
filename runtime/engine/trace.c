/* trace.c: writes recorded spans of some steps as a timeline (runtime/base/trace.h).
 *
 * Each thread has its own log. Recording begins MGPU_STEPS_IN_FLIGHT steps before the first step and ends as many after the last
 * one, since lanes work on different steps at the same time. What is written happened between the end of the step before the
 * first one and the end of the last one. An arrow goes from the last span of an operation to the first span of an operation on
 * another lane that waits for it. */
#include "runtime/base/base.h"
#include "runtime/base/whole_file.h"
#include "runtime/engine/trace.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct TraceTrack {
    int device, track;
    SpanLog *log;
} TraceTrack;
struct Trace {
    const mgpu_program *program;
    const mgpu_plan *plan;
    int64_t first, last, steps; /* steps: collected so far */
    TraceTrack *tracks;
    int track_count;
    bool virtual;      /* the GPUs' clocks differ from the host's */
    bool on;           /* the step posted last is recorded */
    double begin, end; /* of the traced steps, mgpu_seconds; 0: not reached yet */
};

Trace *mgpu_trace_open(const mgpu_program *program, const mgpu_plan *plan, int64_t first, int64_t last, bool virtual)
{
    Trace *t = mgpu_allocate(1, sizeof *t);
    *t = (Trace){.program = program, .plan = plan, .first = first, .last = last, .virtual = virtual};
    for (int d = TRACE_PROGRAM; d < plan->devices; d++)
        for (int track = 0; track < (d < 0 ? TRACK_SAVES + 1 : TRACK_LANES); track++)
            mgpu_trace_log(t, d, track);
    return t;
}

void mgpu_trace_close(Trace *t)
{
    for (int i = 0; t && i < t->track_count; i++)
        mgpu_spans_close(t->tracks[i].log);
    if (t)
        free(t->tracks);
    free(t);
}

bool mgpu_trace_post(Trace *t, int64_t step)
{
    if (t)
        t->on = step >= t->first - MGPU_STEPS_IN_FLIGHT && step <= t->last + MGPU_STEPS_IN_FLIGHT;
    return t && t->on;
}

bool mgpu_trace_over(const Trace *t, int64_t step) { return t && step >= t->last + MGPU_STEPS_IN_FLIGHT; }

SpanLog *mgpu_trace_log(Trace *t, int device, int track)
{
    if (!t)
        return NULL;
    for (int i = 0; i < t->track_count; i++)
        if (t->tracks[i].device == device && t->tracks[i].track == track)
            return t->tracks[i].log;
    t->tracks = mgpu_resize(t->tracks, (size_t)(t->track_count + 1) * sizeof *t->tracks);
    t->tracks[t->track_count] = (TraceTrack){device, track, mgpu_spans_open()};
    return t->tracks[t->track_count++].log;
}

void mgpu_trace_text(Trace *t, int track, const char *text, double begin, double end)
{
    if (t && t->on)
        mgpu_spans_add(mgpu_trace_log(t, TRACE_PROGRAM, track),
                       &(Span){.begin = begin, .end = end, .text = text, .kind = SPAN_TEXT});
}

void mgpu_trace_step(Trace *t, int64_t step, double begin, double end)
{
    if (!t || step < t->first || step > t->last)
        return;
    t->begin = t->begin > 0 ? t->begin : begin;
    t->end = end;
    t->steps++;
    mgpu_spans_add(mgpu_trace_log(t, TRACE_PROGRAM, TRACK_STEPS),
                   &(Span){.begin = begin, .end = end, .step = step, .text = "step", .kind = SPAN_TEXT});
}

void mgpu_trace_set(Dataset *set, Trace *t)
{
    int count = mgpu_decoders(set);
    SpanLog **logs = t && count ? mgpu_allocate((size_t)count, sizeof *logs) : NULL;
    for (int i = 0; logs && i < count; i++)
        logs[i] = mgpu_trace_log(t, TRACE_PROGRAM, TRACK_DECODERS + (strcmp(set->name, "train") == 0 ? 0 : count) + i);
    free(mgpu_log_decoding(set, logs));
}

/* ---- writing */
typedef struct Writer {
    const Trace *trace;
    FILE *f;
    const Span ***last; /* [device][(number - first_number) * most_ops + op]: the last span of the operation */
    int64_t first_number, numbers, most_ops, arrows;
    double virtual_begin; /* when the shown part of virtual GPUs begins, by their clock */
} Writer;

static bool has_own_clock(const Trace *t, const TraceTrack *track)
{
    return t->virtual && track->device >= 0 && track->track != TRACK_HOST;
}

static bool is_shown(const Trace *t, const TraceTrack *track, const Span *s)
{
    return has_own_clock(t, track) ? s->step >= t->first && s->step <= t->last : s->end > t->begin && s->begin < t->end;
}

/* ---- transfers and their overlap with computing */
static const Span *next_op(const Trace *t, const TraceTrack *track, int64_t *at)
{
    for (const Span *s; (s = mgpu_spans_next(track->log, at));)
        if (s->kind == SPAN_OP && is_shown(t, track, s))
            return s;
    return NULL;
}

static double overlap(const Span *a, const Span *b)
{
    double begin = a->begin > b->begin ? a->begin : b->begin, end = a->end < b->end ? a->end : b->end;
    return end > begin ? end - begin : 0;
}

/* Both tracks are in order of time. */
static void add_transfers(const Trace *t, const TraceTrack *lane, const TraceTrack *comp, TracedTransfers *sum)
{
    int64_t at = 0, call_at = 0;
    const Span *call = next_op(t, comp, &call_at);
    for (const Span *s; (s = next_op(t, lane, &at));) {
        sum->all += s->end - s->begin;
        while (call && call->end <= s->begin)
            call = next_op(t, comp, &call_at);
        int64_t more_at = call_at;
        for (const Span *c = call; c && c->begin < s->end; c = next_op(t, comp, &more_at))
            sum->overlapped += overlap(s, c);
    }
}

TracedTransfers mgpu_traced_transfers(const Trace *t)
{
    TracedTransfers sum = {0, 0};
    int devices = 0;
    for (int i = 0; i < t->track_count; i++) {
        const TraceTrack *comp = &t->tracks[i];
        if (comp->device < 0 || comp->track != mgpu_trace_lane_track(MGPU_COMP) || !mgpu_spans_count(comp->log))
            continue;
        devices++;
        for (int k = 0; k < t->track_count; k++)
            if (t->tracks[k].device == comp->device && (t->tracks[k].track == mgpu_trace_lane_track(MGPU_COMM) ||
                                                        t->tracks[k].track == mgpu_trace_lane_track(MGPU_SYNC)))
                add_transfers(t, &t->tracks[k], comp, &sum);
    }
    double each = devices && t->steps ? 1 / ((double)devices * (double)t->steps) : 0;
    return (TracedTransfers){sum.all * each, sum.overlapped * each};
}

static double us_of(const Writer *w, const TraceTrack *track, double when)
{
    return 1e6 * (when - (has_own_clock(w->trace, track) ? w->virtual_begin : w->trace->begin));
}

static void name_of_op(const mgpu_phase *phase, const mgpu_op *op, char *name, size_t capacity)
{
    static const char *const VERB[] = {"", "read", "upload", "", "report", "fetch"};
    if (op->verb == MGPU_CALL)
        snprintf(name, capacity, "%s", op->id);
    else if (op->verb == MGPU_TRANSFER)
        snprintf(name, capacity, "%s %s", mgpu_transfer_row(phase->collectives[op->target].participants.transfer)->kind,
                 phase->collectives[op->target].name);
    else
        snprintf(name, capacity, "%s", VERB[op->verb]);
}

static double bytes_of(const mgpu_op *op)
{
    double bytes = op->bytes;
    int first = op->write_count ? op->read_count : 0; /* reports and fetches write nothing */
    for (int i = first; op->verb != MGPU_CALL && i < op->read_count + op->write_count; i++)
        bytes += (double)(mgpu_access_of(op, i)->end - mgpu_access_of(op, i)->begin);
    return bytes;
}

/* Writes the name that schedules use, without the _2 of kernels that differ only in the paths of their random numbers. */
static void name_of_kernel(const mgpu_program *p, int kernel, char *name, size_t capacity)
{
    if (p->kernel_digests)
        snprintf(name, capacity, "k%06x", (unsigned)(p->kernel_digests[kernel] >> 40));
    else
        snprintf(name, capacity, "%s", mgpu_kernel_name(p, kernel));
}

static void write_op(const Writer *w, const TraceTrack *track, const Span *s)
{
    static const char *const LANE[MGPU_LANES] = MGPU_LANE_NAMES;
    const mgpu_phase *phase = s->phase;
    const mgpu_device_phase *p = &phase->devices[track->device];
    const mgpu_op *op = &p->ops[s->op];
    char name[400], kernel[64] = "", *id = mgpu_format("d%d.%s", track->device, op->id);
    int length =
        s->kind == SPAN_OP ? 0 : snprintf(name, sizeof name, "wait for %s", s->kind == SPAN_BARRIER ? "other devices: " : "");
    name_of_op(phase, op, name + length, sizeof name - (size_t)length);
    bool does = s->kind == SPAN_OP;
    if (does && op->verb == MGPU_CALL)
        name_of_kernel(w->trace->program, op->target, kernel, sizeof kernel);
    mgpu_trace_slice(w->f, &(TraceSlice){.device = track->device,
                                         .track = track->track,
                                         .name = name,
                                         .category = does ? LANE[op->lane] : "wait",
                                         .begin_us = us_of(w, track, s->begin),
                                         .end_us = us_of(w, track, s->end),
                                         .op = id,
                                         .phase = phase->name,
                                         .kernel = kernel,
                                         .layer = op->layer,
                                         .role = does ? op->role : NULL,
                                         .line = op->line,
                                         .step = s->step,
                                         .bytes = does ? bytes_of(op) : 0,
                                         .flops = does ? op->flops : 0});
    free(id);
}

static void write_text(const Writer *w, const TraceTrack *track, const Span *s)
{
    char name[64];
    bool step = track->device == TRACE_PROGRAM && track->track == TRACK_STEPS;
    snprintf(name, sizeof name, "step %lld", (long long)s->step);
    mgpu_trace_slice(w->f, &(TraceSlice){.device = track->device,
                                         .track = track->track,
                                         .name = step ? name : s->text,
                                         .category = step ? "step" : "loop",
                                         .begin_us = us_of(w, track, s->begin),
                                         .end_us = us_of(w, track, s->end),
                                         .step = s->step});
}

static const Span **last_of(const Writer *w, int device, int64_t number, int op)
{
    int64_t place = number - w->first_number;
    return place < 0 || place >= w->numbers ? NULL : &w->last[device][place * w->most_ops + op];
}

static void find_numbers(Writer *w)
{
    int64_t least = INT64_MAX, most = 0;
    const Trace *t = w->trace;
    for (int i = 0; i < t->track_count; i++)
        for (int64_t at = 0; at < mgpu_spans_count(t->tracks[i].log);) {
            const Span *s = mgpu_spans_next(t->tracks[i].log, &at);
            if (s->kind != SPAN_OP)
                continue;
            least = s->number < least ? s->number : least;
            most = s->number > most ? s->number : most;
            int ops = ((const mgpu_phase *)s->phase)->devices[t->tracks[i].device].op_count;
            w->most_ops = ops > w->most_ops ? ops : w->most_ops;
        }
    w->first_number = least;
    w->numbers = most >= least ? most - least + 1 : 0;
    w->last = mgpu_allocate((size_t)t->plan->devices, sizeof *w->last);
    for (int d = 0; d < t->plan->devices; d++)
        w->last[d] = mgpu_allocate((size_t)(w->numbers * w->most_ops + 1), sizeof **w->last);
    for (int i = 0; i < t->track_count; i++)
        for (int64_t at = 0; at < mgpu_spans_count(t->tracks[i].log);) {
            const Span *s = mgpu_spans_next(t->tracks[i].log, &at);
            bool first = has_own_clock(t, &t->tracks[i]) && is_shown(t, &t->tracks[i], s) &&
                         (w->virtual_begin <= 0 || s->begin < w->virtual_begin);
            w->virtual_begin = first ? s->begin : w->virtual_begin;
            const Span **last = s->kind == SPAN_OP ? last_of(w, t->tracks[i].device, s->number, s->op) : NULL;
            if (last && (!*last || (*last)->end < s->end))
                *last = s;
        }
}

/* Clamps `at` to the slice. */
static double inside(const Writer *w, const TraceTrack *track, double begin, double end, double at)
{
    double from = us_of(w, track, begin), to = us_of(w, track, end) - .001;
    double us = us_of(w, track, at);
    return us > to ? (to > from ? to : from) : us < from ? from : us;
}

/* Writes the arrows to the first span of an operation. */
static void write_arrows(Writer *w, const TraceTrack *track, const Span *s)
{
    const mgpu_device_phase *p = &((const mgpu_phase *)s->phase)->devices[track->device];
    const mgpu_op *op = &p->ops[s->op];
    for (int i = 0; i < op->wait_count; i++) {
        const Span **before = last_of(w, track->device, s->number - op->waits[i].back, op->waits[i].op);
        const mgpu_op *other = &p->ops[op->waits[i].op];
        const TraceTrack from_track = {track->device, mgpu_trace_lane_track(other->lane), NULL};
        if (!before || !*before || (*before)->phase != s->phase || other->lane == op->lane ||
            !is_shown(w->trace, &from_track, *before) || has_own_clock(w->trace, &from_track) != has_own_clock(w->trace, track))
            continue;
        TracePoint from = {track->device, from_track.track,
                           inside(w, &from_track, (*before)->begin, (*before)->end, (*before)->end)};
        TracePoint to = {track->device, track->track, inside(w, track, s->begin, s->end, s->begin)};
        mgpu_trace_arrow(w->f, ++w->arrows, &from, &to);
    }
}

static void write_track(Writer *w, const TraceTrack *track)
{
    int64_t number = -1;
    int lane_op = -1;
    if (!mgpu_spans_count(track->log))
        return;
    mgpu_trace_track(w->f, track->device, track->track);
    for (int64_t at = 0; at < mgpu_spans_count(track->log);) {
        const Span *s = mgpu_spans_next(track->log, &at);
        if (!is_shown(w->trace, track, s))
            continue;
        if (s->kind == SPAN_TEXT) {
            write_text(w, track, s);
            continue;
        }
        write_op(w, track, s);
        /* an operation of a region may have several spans */
        bool next = s->kind == SPAN_OP && (s->number != number || s->op > lane_op);
        if (next && track->track < TRACK_LANES) {
            write_arrows(w, track, s);
            lane_op = s->op;
            number = s->number;
        }
    }
}

char *mgpu_trace_write(const Trace *t, const char *path)
{
    if (t->end <= 0)
        return mgpu_format("no step from %lld to %lld was run", (long long)t->first, (long long)t->last);
    WholeFile file;
    int error = mgpu_open_whole(&file, path);
    if (error)
        return mgpu_format("%s", strerror(error));
    Writer w = {.trace = t, .f = file.f};
    const mgpu_prediction *x = &t->plan->predicted;
    find_numbers(&w);
    mgpu_trace_begin(w.f, &(TraceHead){.made = "measured",
                                       .model = t->program->name,
                                       .file = t->program->model_file,
                                       .kind = t->plan->kind,
                                       .machine = x->step_us > 0 ? x->machine : NULL,
                                       .devices = t->plan->devices,
                                       .batch = t->program->batch,
                                       .plan = t->program->policy,
                                       .plan_label = t->program->policy_label,
                                       .step_us = 1e6 * (t->end - t->begin) / (double)t->steps});
    for (int i = 0; i < t->track_count; i++)
        write_track(&w, &t->tracks[i]);
    mgpu_trace_end(w.f);
    for (int d = 0; d < t->plan->devices; d++)
        free(w.last[d]);
    free(w.last);
    error = mgpu_close_whole(&file);
    return error ? mgpu_format("%s", strerror(error)) : NULL;
}
