/* read.c: reads one phase of a schedule for views, and answers their questions. */
#include "runtime/view/view.h"

#include <stdlib.h>
#include <string.h>

/* ---- reading */
static const char *const USUAL[2][2] = {{"train.full", "train.partial"}, {"predict.full", "predict.partial"}};

bool mgpu_view_is_step(const View *v, bool partial)
{
    return strcmp(v->phase->name, USUAL[v->schedule->predicts][0]) == 0 ||
           (partial && strcmp(v->phase->name, USUAL[v->schedule->predicts][1]) == 0);
}

static const PhaseSchedule *choose_phase(const Schedule *s, const char *phase)
{
    const char *names[64];
    char near[128];
    int count = s->phase_count < MGPU_COUNT(names) ? s->phase_count : MGPU_COUNT(names);
    for (int i = 0; i < 2; i++)
        for (int k = 0; k < s->phase_count; k++)
            if (strcmp(s->phases[k].name, phase ? phase : USUAL[s->predicts][i]) == 0)
                return &s->phases[k];
    for (int k = 0; k < count; k++)
        names[k] = s->phases[k].name;
    if (phase)
        mgpu_fail(MGPU_BAD_USAGE, "--phase %s: the schedule has no such phase%s", phase,
                  mgpu_did_you_mean(phase, names, count, near));
    if (!count)
        mgpu_fail(MGPU_BAD_INPUT, "the schedule has no phase");
    return s->phases;
}

/* Completes the lists of a device. One that equals another device shares its lists. */
static void complete(View *v, DeviceSchedule *all, int device, mgpu_reader *r)
{
    DeviceSchedule *d = &all[device];
    if (d->as != device) {
        DeviceSchedule own = *d;
        *d = all[d->as];
        d->name = own.name;
        d->arena_bytes = own.arena_bytes;
        d->work_bytes = own.work_bytes;
        d->staging_bytes = own.staging_bytes;
        d->first = own.first;
        d->share = own.share;
        d->capacity = own.capacity;
    } else if (!d->op_names) { /* the schedule comes from an image */
        d->op_names = r->allocate(r->memory, sizeof *d->op_names);
        d->buffer_names = r->allocate(r->memory, sizeof *d->buffer_names);
        for (int i = 0; i < d->op_count; i++)
            mgpu_enter_name(r, d->op_names, d->ops[i].id);
        for (int i = 0; i < d->buffer_count; i++)
            mgpu_enter_name(r, d->buffer_names, d->buffers[i].name);
    }
    for (int i = 0; i < d->op_count; i++) {
        ScheduledOp *op = &d->ops[i];
        op->layer = op->layer ? op->layer : "";
        op->role = op->role ? op->role : "";
        v->end_us = op->begin_us + op->time_us > v->end_us ? op->begin_us + op->time_us : v->end_us;
    }
}

static _Noreturn void say_wrong(const mgpu_reader *r, const char *message)
{
    if (r->at)
        mgpu_die("line %d of the schedule: %s", r->line, message);
    mgpu_die("%s", message);
}

View *mgpu_view_read(const ViewSource *from, const char *phase)
{
    View *v = mgpu_allocate(1, sizeof *v);
    mgpu_reader r = {.at = from->text,
                     .line_start = from->text,
                     .line = 1,
                     .plain = true,
                     .wrong = say_wrong,
                     .allocate = mgpu_take_memory,
                     .memory = &v->memory};
    v->schedule = from->text ? mgpu_schedule_read(&r) : mgpu_schedule_unpack(&r, from->image);
    v->step = &v->schedule->step;
    v->phase = choose_phase(v->schedule, phase);
    v->devices = v->phase->devices;
    for (int d = 0; d < v->schedule->devices; d++)
        complete(v, v->phase->devices, d, &r);
    return v;
}

void mgpu_view_free(View *v)
{
    mgpu_free_memory(&v->memory);
    free(v);
}

/* ---- queries */
int mgpu_view_find_op(const ViewDevice *d, const char *text) { return mgpu_name_number(d->op_names, text); }

int mgpu_view_find_buffer(const ViewDevice *d, const char *text) { return mgpu_name_number(d->buffer_names, text); }

const LaneUse *mgpu_view_use(const View *v, int device, Lane lane)
{
    for (int i = 0; i < v->step->lane_count; i++) {
        const LaneRecord *l = &v->step->lanes[i];
        if (l->lane == lane && l->first <= device && device <= l->last)
            return &l->use;
    }
    return NULL;
}

bool mgpu_view_has_layer(const char *text, const char *layer)
{
    size_t length = strlen(layer);
    return strncmp(text, layer, length) == 0 && (!text[length] || text[length] == '.');
}

const CollectiveRecord *mgpu_view_find_collective(const View *v, const char *text)
{
    for (int i = 0; i < v->phase->collective_count; i++)
        if (strcmp(v->phase->collectives[i].name, text) == 0)
            return &v->phase->collectives[i];
    return NULL;
}

int64_t mgpu_view_collective_bytes(const CollectiveRecord *c) { return c->count * mgpu_dtype_bytes((uint8_t)c->dtype); }

int64_t mgpu_view_buffer_bytes(const Buffer *b) { return b->bytes * b->slots; }

const char *const MGPU_PASS_NAME[MGPU_PASSES] = {"forward", "backward", "update"};
int mgpu_view_pass(const ScheduledOp *op)
{
    for (int k = 0; k < MGPU_PASSES; k++)
        if (strncmp(op->role, MGPU_PASS_NAME[k], strlen(MGPU_PASS_NAME[k])) == 0)
            return k;
    return -1;
}

double mgpu_view_pass_part(const ScheduledOp *op, int pass)
{
    double other = op->other_pass > 0 && op->other_pass < 1 ? op->other_pass : 0;
    int own = mgpu_view_pass(op);
    return own == pass ? 1 - other : pass + own == MGPU_FORWARD + MGPU_BACKWARD && pass >= 0 && own >= 0 ? other : 0;
}

double mgpu_view_op_bytes(const ScheduledOp *op)
{
    double bytes = op->bytes;
    /* report and fetch write nothing */
    int all = op->read_count + op->write_count, first = op->write_count ? op->read_count : 0;
    for (int i = first; op->verb != VERB_CALL && i < all; i++)
        bytes += (double)(mgpu_access_of(op, i)->end - mgpu_access_of(op, i)->begin);
    return bytes;
}

double mgpu_view_memory(const View *v, int device)
{
    return (double)v->devices[device].arena_bytes + (double)v->schedule->outside_arena_bytes;
}

bool mgpu_view_stays(const Buffer *b)
{
    return b->kind == BUFFER_VARIABLE || b->kind == BUFFER_INPUT || b->kind == BUFFER_STEP || b->kind == BUFFER_REPORT ||
           b->kind == BUFFER_OUTPUT;
}

const char *mgpu_view_reason(const ViewDevice *d, const ScheduledOp *op, const Wait *w, char text[MGPU_VIEW_REASON])
{
    Reason why = mgpu_wait_reason(d, op, w);
    int length = snprintf(text, MGPU_VIEW_REASON, "%s", why.word ? why.word : "");
    for (int i = 0; i < why.count && i < REASON_NAMES && length < MGPU_VIEW_REASON; i++)
        length += snprintf(text + length, (size_t)(MGPU_VIEW_REASON - length), "%s %s", i ? "," : "", why.names[i]);
    if (why.count > REASON_NAMES && length < MGPU_VIEW_REASON)
        snprintf(text + length, (size_t)(MGPU_VIEW_REASON - length), " and %d more", why.count - REASON_NAMES);
    return text;
}
