/* calls.c: every call of a device is one of the program's.
 *
 * In: one device of one phase, whose accesses are known to be in their buffers. Out: NULL, or what is wrong. The schedule's table
 * of kernels and its declarations (types, digests, `updated`) are compared with the operations:
 *   - a call's kernel is in the table, and its arguments match the kernel's parameters: number, direction, type and bytes (per
 *     sample where they have samples); what is written in place of a parameter has its bytes; the step block is last
 *   - Split values: a device accesses its own part, at its place in the whole, or in a buffer with room for this part only
 *   - a collective reduces numbers of its buffer's type
 *   - calls of a phase write a variable, all of it, if and only if the phase updates it; reports and outputs that calls write are
 *     delivered by REPORT and FETCH, by their names
 * verify/values.c proves that a call reads the same values as in the program. */
#include "compiler/plan/schedule.h"
#include "compiler/verify/verify.h"

#include <stdio.h>
#include <string.h>

typedef struct Calls {
    const Schedule *schedule;
    const PhaseSchedule *phase;
    const DeviceSchedule *device;
    int d;
} Calls;

static const char *bad(const Calls *c, const char *pattern, ...) PRINTF(2, 3);
static const char *bad(const Calls *c, const char *pattern, ...)
{
    char message[1000];
    va_list arguments;
    va_start(arguments, pattern);
    vsnprintf(message, sizeof message, pattern, arguments);
    va_end(arguments);
    return format("phase %s: %s", c->phase->name, message);
}

/* ---- arguments */
static const char *type_text(int64_t bytes, int64_t each, int type)
{
    return format("%s, %lld bytes%s", type ? dtype_name((Dtype)(type - 1)) : "no numbers", (long long)(each ? each : bytes),
                  each ? " a sample" : "");
}

/* Returns true for the device's own part of a Split value, in a buffer with room for it only, or at its place in the whole. */
static bool is_own_part(const Calls *c, const ScheduledOp *op, const Access *a, int64_t each)
{
    const Buffer *b = &c->device->buffers[a->buffer];
    int64_t begin = op->own.begin * each, bytes = (op->own.end - op->own.begin) * each;
    if (b->elements)
        return b->elements == op->elements && b->bytes == bytes && a->begin == 0 && a->end == bytes && a->of == 0;
    return a->of == op->elements * each && a->begin >= begin && a->end - a->begin == bytes &&
           a->begin - begin + a->of <= b->bytes;
}

/* Returns NULL if the access matches the parameter, else what it is. */
static const char *wrong_parameter(const Calls *c, const ScheduledOp *op, const Access *a, const Parameter *p)
{
    const Buffer *b = &c->device->buffers[a->buffer];
    int64_t bytes = a->end - a->begin, element = dtype_bytes(p->dtype);
    if (op->elements && p->each == 0 && p->bytes == op->elements * element)
        return is_own_part(c, op, a, element) && b->type == (int)p->dtype + 1
                   ? NULL
                   : format("[%lld, %lld) of %s, and not the device's own part of it", (long long)a->begin, (long long)a->end,
                            b->name);
    if (b->elements || a->of)
        return format("the device's own part of %s", b->name);
    int64_t first = takes_whole_batch(c->schedule) && b->kind == BUFFER_INPUT ? c->device->first * b->each : 0;
    int64_t room = b->each && b->kind == BUFFER_INPUT ? c->device->capacity * b->each : b->bytes;
    bool whole = a->begin == first && bytes == room,
         fits = p->each ? b->each == p->each && whole : b->each == 0 && bytes == p->bytes;
    if (fits && b->type == (int)p->dtype + 1)
        return NULL;
    if (b->each && !whole)
        return format("%s (%lld of its %lld bytes)", b->name, (long long)bytes, (long long)b->bytes);
    return format("%s (%s)", b->name, type_text(bytes, b->each, b->type));
}

static bool same_access(const Access *a, const Access *b)
{
    return a->buffer == b->buffer && a->begin == b->begin && a->end == b->end && a->slot == b->slot;
}

static const char *check_counts(const Calls *c, const ScheduledOp *op, const Signature *s, int64_t work)
{
    int reads = op->read_count - 1, writes = op->write_count - (work > 0);
    if (op->read_count < 1 || c->device->buffers[op->reads[reads].buffer].kind != BUFFER_STEP)
        return bad(c, "d%d.%s does not read the step block last, as every call does", c->d, op->id);
    if (work > 0 && (op->write_count < 1 || c->device->buffers[op->writes[writes].buffer].kind != BUFFER_WORKSPACE ||
                     op->writes[writes].end - op->writes[writes].begin != work))
        return bad(c, "d%d.%s has no workspace of %lld bytes as its last result, but %s takes one", c->d, op->id, (long long)work,
                   op->label);
    if (reads != s->in_count || writes != s->out_count)
        return bad(c, "d%d.%s has %d operands and %d results, but %s has %d and %d", c->d, op->id, reads, writes, op->label,
                   s->in_count, s->out_count);
    const Access *step = &op->reads[reads];
    if (step->begin != 0 || step->end != c->device->buffers[step->buffer].bytes)
        return bad(c, "d%d.%s reads a part of the step block", c->d, op->id);
    return NULL;
}

static const char *check_places(const Calls *c, const ScheduledOp *op, const Signature *s)
{
    for (int i = 0; i < s->out_count; i++)
        for (int k = 0; k < s->in_count; k++) {
            bool same = same_access(&op->writes[i], &op->reads[k]), over = s->out[i].over == k + 1;
            if (over && !same)
                return bad(c, "d%d.%s writes %s as result %d, but %s writes that over operand %d, which is %s", c->d, op->id,
                           c->device->buffers[op->writes[i].buffer].name, i, op->label, k,
                           c->device->buffers[op->reads[k].buffer].name);
            if (same && !over)
                return bad(c, "d%d.%s writes %s over operand %d, but %s does not write result %d in place", c->d, op->id,
                           c->device->buffers[op->writes[i].buffer].name, k, op->label, i);
        }
    return NULL;
}

static const char *check_signature(const Calls *c, const ScheduledOp *op, const Signature *s)
{
    int64_t samples;
    if (op->elements != s->elements)
        return bad(c, "d%d.%s computes a part of %lld elements, but k%d of %lld", c->d, op->id, (long long)op->elements,
                   s->kernel, (long long)s->elements);
    if (__builtin_mul_overflow(s->work_each, c->device->capacity, &samples) || __builtin_add_overflow(samples, s->work, &samples))
        return bad(c, "d%d.%s: the workspace of %s is too large", c->d, op->id, op->label);
    const char *why = check_counts(c, op, s, samples);
    for (int i = 0; i < s->in_count + s->out_count && !why; i++) {
        bool in = i < s->in_count;
        int k = in ? i : i - s->in_count;
        const Parameter *p = in ? &s->in[k] : &s->out[k];
        const char *wrong = wrong_parameter(c, op, in ? &op->reads[k] : &op->writes[k], p);
        if (wrong)
            why = bad(c, "d%d.%s %s %s as %s %d, where %s has %s", c->d, op->id, in ? "reads" : "writes", wrong,
                      in ? "operand" : "result", k, op->label, type_text(p->bytes, p->each, (int)p->dtype + 1));
    }
    return why ? why : check_places(c, op, s);
}

/* one of the kernel's rows must match */
static const char *check_call(const Calls *c, const ScheduledOp *op)
{
    const Schedule *s = c->schedule;
    int low = 0, high = s->signature_count; /* the first row of the kernel */
    while (low < high) {
        int middle = low + (high - low) / 2;
        if (s->signatures[middle].kernel < op->target)
            low = middle + 1;
        else
            high = middle;
    }
    const char *first = NULL;
    for (int i = low; i < s->signature_count && s->signatures[i].kernel == op->target; i++) {
        const char *why = check_signature(c, op, &s->signatures[i]);
        if (!why)
            return NULL;
        first = first ? first : why;
    }
    return first ? first : bad(c, "d%d.%s calls %s, which is not in the table of kernels", c->d, op->id, op->label);
}

/* ---- collectives */
static const char *check_reduce(const Calls *c, const ScheduledOp *op)
{
    const CollectiveRecord *k = &c->phase->collectives[op->target];
    const Buffer *b = &c->device->buffers[op->reads[0].buffer];
    if (b->type == (int)k->dtype + 1)
        return NULL;
    return bad(c, "d%d.%s sums %s, which is %s, but %s sums %s", c->d, op->id, b->name,
               b->type ? dtype_name((Dtype)(b->type - 1)) : "no numbers", k->name, dtype_name(k->dtype));
}

/* ---- results of a step */
static const char *check_results(const Calls *c)
{
    const DeviceSchedule *d = c->device;
    int64_t *written = NEW_ARRAY(int64_t, d->buffer_count), *delivered = NEW_ARRAY(int64_t, d->buffer_count);
    const ScheduledOp **writer = NEW_ARRAY(const ScheduledOp *, d->buffer_count);
    for (int o = 0; o < d->op_count; o++) {
        const ScheduledOp *op = &d->ops[o];
        look_at(op->text_line);
        for (int i = 0; i < op->write_count && op->verb == VERB_CALL; i++) { /* each byte once: verify/memory.c */
            written[op->writes[i].buffer] += op->writes[i].end - op->writes[i].begin;
            writer[op->writes[i].buffer] = op;
        }
        bool gathers = op->verb == VERB_TRANSFER &&
                       mgpu_transfer_row(c->phase->collectives[op->target].participants.transfer)->sends == MGPU_SHARE_OWN;
        if (gathers) /* other devices have written the gathered bytes, this one its own part */
            written[op->writes[0].buffer] += op->writes[0].end - op->writes[0].begin - (op->reads[0].end - op->reads[0].begin);

        for (int i = 0; i < op->read_count && (op->verb == VERB_REPORT || op->verb == VERB_FETCH); i++) {
            const Buffer *b = &d->buffers[op->reads[i].buffer];
            delivered[op->reads[i].buffer] += op->reads[i].end - op->reads[i].begin;
            if (op->verb == VERB_FETCH && strcmp(op->label, strncmp(b->name, "out.", 4) == 0 ? b->name + 4 : b->name) != 0)
                return bad(c, "d%d.%s fetches %s, but reads %s", c->d, op->id, op->label, b->name);
        }
    }
    for (int i = 0; i < d->buffer_count; i++) {
        const Buffer *b = &d->buffers[i];
        look_at(b->text_line);
        if (b->updated && b->kind != BUFFER_VARIABLE)
            return bad(c, "d%d.%s, a %s, is updated, but only variables are", c->d, b->name, BUFFER_KIND_NAME[b->kind]);
        look_at(writer[i] ? writer[i]->text_line : b->text_line);
        if (b->kind == BUFFER_VARIABLE && !b->updated && writer[i])
            return bad(c, "d%d.%s writes %s, which this phase does not update", c->d, writer[i]->id, b->name);
        if (b->updated && written[i] != b->bytes)
            return bad(c, "calls write %lld of the %lld bytes of d%d.%s, which this phase updates", (long long)written[i],
                       (long long)b->bytes, c->d, b->name);
        if ((b->kind == BUFFER_REPORT || b->kind == BUFFER_OUTPUT) && written[i] != delivered[i])
            return bad(c, "calls write %lld bytes of d%d.%s, of which the host takes %lld", (long long)written[i], c->d, b->name,
                       (long long)delivered[i]);
    }
    return NULL;
}

/* An input and its staging buffer have the same name, and so the same reader. */
static const char *check_names(const Calls *c)
{
    const char **name = NULL;
    int count = 0;
    const DeviceSchedule *d = c->device;
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < d->buffer_count; i++) {
            const Buffer *b = &d->buffers[i];
            look_at(b->text_line);
            const char *dot = strchr(b->name, '.');
            if (b->kind != (pass ? BUFFER_INPUT : BUFFER_STAGING) || b->index < 0 || b->index >= d->buffer_count)
                continue;
            while (count <= b->index)
                APPEND(name, count, NULL);
            if (!pass)
                name[b->index] = b->name;
            else if (name[b->index] &&
                     strcmp(dot ? dot : "", strchr(name[b->index], '.') ? strchr(name[b->index], '.') : "") != 0)
                return bad(c, "d%d.%s has the index of d%d.%s", c->d, b->name, c->d, name[b->index]);
        }
    return NULL;
}

const char *verify_calls(const Schedule *s, int p, int d)
{
    Calls c = {s, &s->phases[p], &s->phases[p].devices[d], d};
    for (int o = 0; o < c.device->op_count; o++) {
        const ScheduledOp *op = &c.device->ops[o];
        look_at(op->text_line);
        const char *why = op->verb == VERB_CALL ? check_call(&c, op) : op->verb == VERB_TRANSFER ? check_reduce(&c, op) : NULL;
        if (why)
            return why;
    }
    const char *why = check_results(&c);
    return why ? why : check_names(&c);
}
