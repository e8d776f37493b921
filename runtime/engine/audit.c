/* audit.c: finds the operation of a step that produced the first NaN or infinity. In: a step that is run again from the state
 * before it, operation by operation; out: the origin of a non-finite value in the report or, if all is finite there, in a
 * variable.
 *
 * Each buffer has a state: whether its numbers are finite, and if not, the origin. After an operation, the buffers that it wrote
 * are examined. If one is not finite, its origin is that of the worst buffer read (NaN is worse than infinity, which is used in
 * masks) or, if all that was read is finite, the operation itself. Weights, states and inputs that nothing in the step has
 * written are origins of their own. Values that exist for a chunk of a region only are examined chunk by chunk. */
#include "runtime/abi/mgpu_half.h"
#include "runtime/base/base.h"
#include "runtime/data/data.h"
#include "runtime/engine/internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct State {
    unsigned bits;
    int origin; /* -1: none */
    bool known;
    double value;           /* the first NaN, or else the first infinity */
    int64_t sample, number; /* number: the step of this state; inputs change with the step */
} State;
typedef struct AuditedDevice {
    const mgpu_phase *phase;
    State *buffers; /* [buffer of the phase] */
    State *variables;
} AuditedDevice;
struct Audit {
    Engine *engine;
    pthread_mutex_t lock;
    AuditedDevice *devices;
    Origin *origins;
    int count;
    _Atomic int found;    /* an accumulator is not finite */
    int report, variable; /* origins of non-finite values there; -1: all values are finite */
};

/* ---- examining memory */
/* first, value: of the first NaN, or else the first infinity */
static unsigned bits_of(const uint8_t *data, uint8_t type, int64_t count, int64_t *first, double *value)
{
    unsigned bits = 0;
    for (int64_t i = 0; i < count; i++) {
        double v = mgpu_to_double(data, type, i);
        if (isfinite(v))
            continue;
        if (!bits || (isnan(v) && !(bits & AUDIT_NAN))) {
            *first = i;
            *value = v;
        }
        bits |= isnan(v) ? AUDIT_NAN : AUDIT_INFINITE;
    }
    return bits;
}

static State look_at(const LaneThread *l, const mgpu_device_phase *p, const mgpu_access *a, int64_t offset)
{
    const mgpu_buffer *b = &p->buffers[a->buffer];
    Engine *e = l->engine;
    State s = {.origin = -1, .known = true, .sample = -1, .number = l->number};
    if (!mgpu_dtype_is_float(mgpu_buffer_type(b)))
        return s;
    int64_t bytes = a->end - a->begin, first = 0, element = mgpu_dtype_bytes(mgpu_buffer_type(b));
    uint8_t *copy = mgpu_allocate(1, (size_t)bytes);
    int lane = e->kind->async ? -1 : l->lane; /* copies not on the stream of any lane */
    e->kind->copy_out(e->devices[l->device], lane, copy, offset, bytes);
    s.bits = bits_of(copy, mgpu_buffer_type(b), bytes / element, &first, &s.value);
    s.sample = s.bits && b->each > 0 ? (a->begin + first * element) / b->each : -1;
    free(copy);
    return s;
}

/* ---- states */
static State *state_of(Audit *audit, const LaneThread *l, const mgpu_device_phase *p, int buffer)
{
    AuditedDevice *d = &audit->devices[l->device];
    const mgpu_buffer *b = &p->buffers[buffer];
    if (d->phase != l->phase) {
        free(d->buffers);
        d->buffers = mgpu_allocate((size_t)p->buffer_count, sizeof *d->buffers);
        d->phase = l->phase;
    }
    return b->kind == MGPU_VARIABLE ? &d->variables[b->index] : &d->buffers[buffer];
}

/* Maps a sample of the device to its place in the set. */
static int64_t place_of(const LaneThread *l, int64_t sample)
{
    const Work *work = work_of(l->engine, l->number);
    bool known = sample >= 0 && work->set && sample < work->block[l->device].valid;
    return known ? work->index[l->engine->plan->device[l->device].shard.first + sample] : -1;
}

static int add_origin(Audit *audit, const LaneThread *l, const mgpu_op *op, const mgpu_buffer *b, const State *s)
{
    audit->origins = mgpu_resize(audit->origins, (size_t)(audit->count + 1) * sizeof *audit->origins);
    Origin *origin = &audit->origins[audit->count];
    *origin = (Origin){.device = l->device, .op = op, .bits = s->bits, .sample = place_of(l, s->sample)};
    origin->has_number = op && s->bits & AUDIT_NAN && mgpu_said_by(s->value, &origin->number);
    if (!op && b->kind == MGPU_VARIABLE)
        origin->variable = audit->engine->program->variables[b->index].tensor.name;
    if (!op && b->kind == MGPU_INPUT)
        origin->input = audit->engine->program->inputs[b->index].tensor.name;
    return audit->count++;
}

/* Orders origins by device, as devices add them in any order. b -1: there is none. */
static bool comes_first(const Audit *audit, int a, int b)
{
    if (b < 0)
        return true;
    int device = audit->origins[a].device, other = audit->origins[b].device;
    return device < other || (device == other && a < b);
}

static bool is_worse(const Audit *audit, const State *a, const State *b)
{
    bool nan_a = a->bits & AUDIT_NAN, nan_b = b->bits & AUDIT_NAN;
    return a->bits && (!b->bits || (nan_a && !nan_b) || (nan_a == nan_b && comes_first(audit, a->origin, b->origin)));
}

/* Accumulators of metrics have values of earlier steps, and those of gradients are reset by each step, so their contents before
 * and after a step are no origin. */
static bool is_accumulated(const Engine *e, const mgpu_buffer *b)
{
    return b->kind == MGPU_VARIABLE && e->program->variables[b->index].kind == MGPU_ACCUMULATOR;
}

/* Examines variables and inputs that nothing in the step has written. */
void mgpu_audit_before(LaneThread *l, const mgpu_device_phase *p, const mgpu_op *op)
{
    Audit *audit = l->engine->audit;
    pthread_mutex_lock(&audit->lock);
    for (int i = 0; i < op->read_count; i++) {
        const mgpu_access *a = mgpu_access_of(op, i);
        const mgpu_buffer *b = &p->buffers[a->buffer];
        State *s = state_of(audit, l, p, a->buffer);
        bool known = s->known && (b->kind != MGPU_INPUT || s->number == l->number);
        if (known || is_accumulated(l->engine, b) || (b->kind != MGPU_VARIABLE && b->kind != MGPU_INPUT))
            continue;
        *s = look_at(l, p, a, mgpu_access_offset(p, a, l->number));
        if (s->bits)
            s->origin = add_origin(audit, l, NULL, b, s);
    }
    pthread_mutex_unlock(&audit->lock);
}

/* Examines the local buffers that a thread has written for these samples. */
void mgpu_audit_part(const void *lane, const mgpu_op *op, void *const *argument, int64_t begin, int64_t end)
{
    const LaneThread *l = lane;
    Audit *audit = l->engine->audit;
    const mgpu_device_phase *p = &((const mgpu_phase *)l->phase)->devices[l->device];
    pthread_mutex_lock(&audit->lock);
    for (int i = 0, number = 0; i < op->read_count + op->write_count; i++) {
        const mgpu_buffer *b = &p->buffers[mgpu_access_of(op, i)->buffer];
        if (b->kind == MGPU_STEP)
            continue;
        const uint8_t *at = argument[number++];
        int64_t first = 0, element = mgpu_dtype_bytes(mgpu_buffer_type(b));
        double value = 0;
        if (i < op->read_count || b->kind != MGPU_LOCAL || !mgpu_dtype_is_float(mgpu_buffer_type(b)) || end <= begin)
            continue;
        unsigned bits = bits_of(at + begin * b->each, mgpu_buffer_type(b), (end - begin) * b->each / element, &first, &value);
        State *s = state_of(audit, l, p, mgpu_access_of(op, i)->buffer);
        int64_t sample = begin + first * element / b->each;
        bool nan = bits & AUDIT_NAN, known = s->bits & AUDIT_NAN;
        /* threads call this in any order */
        if (bits && (!s->bits || (nan && !known) || (nan == known && sample < s->sample))) {
            s->sample = sample;
            s->value = value;
        }
        s->bits |= bits;
    }
    pthread_mutex_unlock(&audit->lock);
}

/* Considers what other devices contribute to this collective, as far as they have reached it. */
static void add_sums_of_others(Audit *audit, const LaneThread *l, const mgpu_op *op, State *worst)
{
    Engine *e = audit->engine;
    for (int d = 0; d < e->plan->devices; d++) {
        const mgpu_device_phase *p = &((const mgpu_phase *)l->phase)->devices[d];
        for (int i = 0; i < p->op_count && audit->devices[d].phase == l->phase; i++)
            if (p->ops[i].verb == MGPU_TRANSFER && p->ops[i].target == op->target) {
                const State *s = state_of(audit, lane_of(e, d, p->ops[i].lane), p, mgpu_access_of(&p->ops[i], 0)->buffer);
                if (is_worse(audit, s, worst))
                    *worst = *s;
            }
    }
}

void mgpu_audit_after(LaneThread *l, const mgpu_device_phase *p, const mgpu_op *op)
{
    Audit *audit = l->engine->audit;
    pthread_mutex_lock(&audit->lock);
    State worst = {.origin = -1};
    for (int i = 0; i < op->read_count; i++) {
        const State *s = state_of(audit, l, p, mgpu_access_of(op, i)->buffer);
        if (is_worse(audit, s, &worst))
            worst = *s;
    }
    if (op->verb == MGPU_TRANSFER)
        add_sums_of_others(audit, l, op, &worst);
    for (int i = 0; i < op->write_count; i++) {
        const mgpu_access *a = &op->writes[i];
        const mgpu_buffer *b = &p->buffers[a->buffer];
        State *s = state_of(audit, l, p, a->buffer), before = *s;
        State now = b->kind == MGPU_LOCAL ? *s : look_at(l, p, a, mgpu_access_offset(p, a, l->number));
        now.origin = !now.bits ? -1 : worst.bits ? worst.origin : add_origin(audit, l, op, b, &now);
        now.known = true;
        /* NaN of another part of the bucket */
        *s = b->kind == MGPU_BUCKET && before.bits && !now.bits && op->verb != MGPU_TRANSFER ? before : now;
        if (now.bits && b->kind == MGPU_REPORT_BUFFER && comes_first(audit, now.origin, audit->report))
            audit->report = now.origin;
        if (now.bits && is_accumulated(l->engine, b))
            atomic_store(&audit->found, 1);
        if (now.bits && b->kind == MGPU_VARIABLE && !is_accumulated(l->engine, b) &&
            comes_first(audit, now.origin, audit->variable))
            audit->variable = now.origin;
    }
    pthread_mutex_unlock(&audit->lock);
}

/* ---- locking: a device's copies to the host share one stream and buffer */
void mgpu_audit_lock(Engine *e)
{
    if (e->audit)
        pthread_mutex_lock(&e->audit->lock);
}

void mgpu_audit_unlock(Engine *e)
{
    if (e->audit)
        pthread_mutex_unlock(&e->audit->lock);
}

/* ---- the result */
void mgpu_audit_begin(Engine *e)
{
    Audit *audit = mgpu_allocate(1, sizeof *audit);
    *audit = (Audit){.engine = e, .report = -1, .variable = -1};
    audit->devices = mgpu_allocate((size_t)e->plan->devices, sizeof *audit->devices);
    for (int d = 0; d < e->plan->devices; d++)
        audit->devices[d].variables = mgpu_allocate((size_t)e->program->variable_count, sizeof(State));
    pthread_mutex_init(&audit->lock, NULL);
    e->audit = audit;
}

const _Atomic int *mgpu_audit_found(const Engine *e) { return &e->audit->found; }

bool mgpu_audit_end(Engine *e, Origin *origin)
{
    Audit *audit = e->audit;
    int found = audit->report >= 0 ? audit->report : audit->variable;
    if (found >= 0)
        *origin = audit->origins[found];
    for (int d = 0; d < e->plan->devices; d++) {
        free(audit->devices[d].buffers);
        free(audit->devices[d].variables);
    }
    free(audit->devices);
    free(audit->origins);
    pthread_mutex_destroy(&audit->lock);
    free(audit);
    e->audit = NULL;
    return found >= 0;
}
