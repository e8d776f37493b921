/* read.c: a schedule -> one phase of it, as views need it. */
#include "runtime/schedule/schedule.h"
#include "runtime/view/view.h"

#include <stdlib.h>
#include <string.h>

const char *const mgpu_view_lane[VIEW_LANES] = MGPU_LANE_NAMES;
const char *const mgpu_view_cause[VIEW_CAUSES] = {"computation", "upload", "communication", "input", "other devices", "nothing to do"};

/* ---- memory, which goes as a whole */
struct ViewBlock { struct ViewBlock *before; size_t used, room; _Alignas(16) char bytes[]; };

static void *take(void *view, size_t bytes)
{
    enum { BLOCK = 1 << 16 };
    View *v = view;
    bytes = (bytes + 15) & ~(size_t)15;
    if (!v->memory || v->memory->room - v->memory->used < bytes) {
        size_t room = bytes > BLOCK ? bytes : BLOCK;
        struct ViewBlock *block = mgpu_allocate(1, sizeof *block + room);
        *block = (struct ViewBlock){v->memory, 0, room};
        v->memory = block;
    }
    v->memory->used += bytes;
    return v->memory->bytes + v->memory->used - bytes;
}
#define TAKE(view, type, count) ((type *)take(view, sizeof(type) * (size_t)((count) + 1)))

static const char *keep(View *v, char *text) /* which is freed */
{
    const char *kept = strcpy(take(v, strlen(text) + 1), text);
    free(text);
    return kept;
}

/* ---- operations and buffers */
int mgpu_view_find_op(const ViewDevice *d, const char *text) { return mgpu_name_number(&d->op_names, text); }

int mgpu_view_find_buffer(const ViewDevice *d, const char *text) { return mgpu_name_number(&d->buffer_names, text); }

static void add_access(View *v, ViewDevice *d, ViewOp *op, int number, const DeviceSchedule *of, const Access *a)
{
    const Buffer *b = &of->buffers[a->buffer];
    char range[80] = "", slot[20] = "";
    if (a->of)
        snprintf(range, sizeof range, "[%lld:%lld of %lld]", (long long)a->begin, (long long)a->end, (long long)a->of);
    else if (a->begin || a->end != b->bytes)
        snprintf(range, sizeof range, "[%lld:%lld]", (long long)a->begin, (long long)a->end);
    if (a->slot)
        snprintf(slot, sizeof slot, "@%+d", a->slot);
    op->accesses[op->access_count] = *range || *slot ? keep(v, mgpu_format("%s%s%s", b->name, range, slot)) : b->name;
    op->buffers[op->access_count] = a->buffer;
    op->ranges[op->access_count++] = a->end - a->begin;
    ViewBuffer *x = &d->buffers[a->buffer];
    x->first = x->first < 0 ? number : x->first;
    x->last = number;
}

/* "makes in.image" */
static const char *reason_of(View *v, const DeviceSchedule *d, const ScheduledOp *op, const Wait *w)
{
    Reason why = mgpu_wait_reason(d, op, w);
    if (!why.word)
        return NULL;
    char *names = mgpu_join_names(why.names, why.count < REASON_NAMES ? why.count : REASON_NAMES), more[32] = "";
    if (why.count > REASON_NAMES)
        snprintf(more, sizeof more, " and %d more", why.count - REASON_NAMES);
    const char *text = keep(v, mgpu_format("%s %s%s", why.word, names, more));
    free(names);
    return text;
}

static void add_op(View *v, const PhaseSchedule *p, ViewDevice *d, int number, const DeviceSchedule *of)
{
    const ScheduledOp *op = &of->ops[number];
    int accesses = op->read_count + op->write_count;
    const char *verb = op->verb == VERB_TRANSFER ? mgpu_transfer_row(p->collectives[op->target].parties.transfer)->verb : VERB_NAME[op->verb];
    ViewOp *x = &d->ops[number];
    *x = (ViewOp){.name = op->id, .verb = verb, .label = op->label, .layer = op->layer ? op->layer : "", .role = op->role ? op->role : "",
                  .lane = (ViewLane)op->lane, .begin_us = op->begin_us, .time_us = op->time_us, .flops = op->flops, .bytes = op->bytes, .line = op->line,
                  .read_count = op->read_count, .wait_count = op->wait_count, .ranges = TAKE(v, int64_t, accesses),
                  .accesses = TAKE(v, const char *, accesses), .buffers = TAKE(v, int, accesses), .waits = TAKE(v, ViewWait, op->wait_count)};
    for (int i = 0; i < accesses; i++)
        add_access(v, d, x, number, of, i < op->read_count ? &op->reads[i] : &op->writes[i - op->read_count]);
    for (int i = 0; i < op->wait_count; i++)
        x->waits[i] = (ViewWait){op->waits[i].op, op->waits[i].back, reason_of(v, of, op, &op->waits[i])};
    if (op->begin_us + op->time_us > v->end_us)
        v->end_us = op->begin_us + op->time_us;
}

static void add_device(View *v, mgpu_reader *r, const PhaseSchedule *p, int number)
{
    const DeviceSchedule *of = &p->devices[number];
    ViewDevice *d = &v->devices[number];
    *d = of->as == number ? (ViewDevice){.buffers = TAKE(v, ViewBuffer, of->buffer_count), .buffer_count = of->buffer_count,
                                         .ops = TAKE(v, ViewOp, of->op_count), .op_count = of->op_count}
                          : v->devices[of->as]; /* it shows the lists of that one */
    d->name = of->name;
    d->arena = of->arena_bytes;
    d->work = of->work_bytes;
    d->staging = of->staging_bytes;
    d->first = of->first;
    d->end = of->first + of->share;
    d->as = of->as;
    for (int i = 0; i < of->buffer_count; i++) {
        const Buffer *b = &of->buffers[i];
        d->buffers[i] = (ViewBuffer){b->name, BUFFER_KIND_NAME[b->kind], b->offset, b->bytes * b->slots, b->slots, -1, -1};
        mgpu_enter_name(r, &d->buffer_names, b->name);
    }
    for (int i = 0; i < of->op_count; i++) {
        add_op(v, p, d, i, of);
        mgpu_enter_name(r, &d->op_names, of->ops[i].id);
    }
}

/* ---- the head */
static void set_prediction(View *v, const StepRecord *s)
{
    v->machine = s->machine;
    v->bound = s->bound;
    v->step_us = s->step_us;
    v->bandwidth = s->bandwidth;
    v->plain = s->plain;
    v->matrix = s->matrix;
    v->uses = TAKE(v, ViewUses, s->lane_count);
    for (int i = 0; i < s->lane_count; i++) {
        const LaneRecord *l = &s->lanes[i];
        if (!v->use_count || v->uses[v->use_count - 1].first != l->first)
            v->uses[v->use_count++] = (ViewUses){.first = l->first, .last = l->last};
        ViewUse *use = &v->uses[v->use_count - 1].lanes[l->lane];
        use->known = true;
        use->busy_us = l->use.busy_us;
        memcpy(use->idle_us, l->use.idle_us, sizeof use->idle_us);
    }
    v->links = TAKE(v, ViewLink, s->link_count);
    for (; v->link_count < s->link_count; v->link_count++)
        v->links[v->link_count] = (ViewLink){s->links[v->link_count].name, s->links[v->link_count].bytes, s->links[v->link_count].share};
}

static void set_head(View *v, const Schedule *s)
{
    v->model = s->model;
    v->precision = s->precision;
    v->batch = s->batch;
    v->accumulate = s->accumulate;
    v->device_count = s->devices;
    v->nodes = s->nodes;
    v->predicts = s->predicts;
    v->besides = s->besides_bytes;
    v->plan = s->policy ? s->policy->name : NULL;
    v->label = s->policy ? policy_label(s->policy) : NULL;
    v->kernels = TAKE(v, const char *, s->signature_count);
    v->extents = TAKE(v, const char *, s->signature_count);
    for (; v->kernel_count < s->signature_count; v->kernel_count++) {
        const Signature *k = &s->signatures[v->kernel_count];
        v->kernels[v->kernel_count] = k->label;
        v->extents[v->kernel_count] = k->extent ? k->extent : "";
    }
    v->phases = TAKE(v, const char *, s->phase_count);
    for (; v->phase_count < s->phase_count; v->phase_count++)
        v->phases[v->phase_count] = s->phases[v->phase_count].name;
    set_prediction(v, &s->step);
}

static const char *const USUAL[2][2] = {{"train.full", "train.partial"}, {"predict.full", "predict.partial"}};

bool mgpu_view_is_step(const View *v, bool partial)
{
    return strcmp(v->phase, USUAL[v->predicts][0]) == 0 || (partial && strcmp(v->phase, USUAL[v->predicts][1]) == 0);
}

static void choose_phase(View *v, const char *phase)
{
    char near[128];
    for (int i = 0; i < 2 && !v->phase; i++)
        for (int k = 0; k < v->phase_count && !v->phase; k++)
            if (strcmp(v->phases[k], phase ? phase : USUAL[v->predicts][i]) == 0)
                v->phase = v->phases[k];
    if (!v->phase && phase)
        mgpu_fail(MGPU_BAD_USAGE, "--phase %s: the schedule has no such phase%s", phase, mgpu_near_miss(phase, v->phases, v->phase_count, near));
    if (!v->phase && !v->phase_count)
        mgpu_fail(MGPU_BAD_INPUT, "the schedule has no phase");
    v->phase = v->phase ? v->phase : v->phases[0];
}

static _Noreturn void say_wrong(const mgpu_reader *r, const char *message) { mgpu_die("line %d of the schedule: %s", r->line, message); }

View *mgpu_view_read(const char *text, const char *phase)
{
    View *v = mgpu_allocate(1, sizeof *v);
    mgpu_reader r = {.at = text, .line_start = text, .line = 1, .plain = true, .wrong = say_wrong, .allocate = take, .memory = v};
    const Schedule *s = mgpu_schedule_read(&r);
    set_head(v, s);
    choose_phase(v, phase);
    const PhaseSchedule *p = s->phases;
    while (p->name != v->phase)
        p++;
    v->devices = TAKE(v, ViewDevice, v->device_count);
    for (int d = 0; d < v->device_count; d++)
        add_device(v, &r, p, d);
    v->collectives = TAKE(v, ViewCollective, p->collective_count);
    for (; v->collective_count < p->collective_count; v->collective_count++) {
        const Collective *c = &p->collectives[v->collective_count];
        v->collectives[v->collective_count] =
            (ViewCollective){c->name, mgpu_transfer_row(c->parties.transfer)->kind, mgpu_way_name(c->way), c->why ? c->why : "",
                             c->count * mgpu_dtype_bytes((uint8_t)c->dtype), c->of, c->of_count};
    }
    return v;
}

void mgpu_view_free(View *v)
{
    for (struct ViewBlock *block = v->memory, *before; block; block = before) {
        before = block->before;
        free(block);
    }
    free(v);
}

const ViewUses *mgpu_view_uses(const View *v, int device)
{
    for (int i = 0; i < v->use_count; i++)
        if (v->uses[i].first <= device && device <= v->uses[i].last)
            return &v->uses[i];
    return NULL;
}

bool mgpu_view_has_layer(const char *text, const char *layer)
{
    size_t length = strlen(layer);
    return strncmp(text, layer, length) == 0 && (!text[length] || text[length] == '.');
}

const ViewCollective *mgpu_view_find_collective(const View *v, const char *text)
{
    for (int i = 0; i < v->collective_count; i++)
        if (strcmp(v->collectives[i].name, text) == 0)
            return &v->collectives[i];
    return NULL;
}

double mgpu_view_op_bytes(const ViewOp *op)
{
    double bytes = op->bytes;
    int first = op->read_count < op->access_count ? op->read_count : 0; /* report, fetch write nothing */
    for (int i = first; strcmp(op->verb, "call") != 0 && i < op->access_count; i++)
        bytes += (double)op->ranges[i];
    return bytes;
}

double mgpu_view_memory(const View *v, int device) { return (double)v->devices[device].arena + (double)v->besides; }

bool mgpu_view_stays(const ViewBuffer *b)
{
    static const char *const KINDS[] = {"variable", "input", "step", "report", "output"};
    for (int i = 0; i < MGPU_COUNT(KINDS); i++)
        if (strcmp(b->kind, KINDS[i]) == 0)
            return true;
    return false;
}
