/* schedule_text.c: Schedule -> text, by the tables of runtime/schedule/records.c, and back. schedule_write(schedule_read(text))
 * returns the text. Devices whose buffers and operations have equal text are written once. */
#include "compiler/base/records.h"
#include "compiler/plan/schedule.h"

#include <stdlib.h>

static void write_owned(int device, const char *name, Text *t) /* writes d0.NAME */
{
    text_add(t, " d%d.", device);
    write_name(name, t);
}

/* what the fields of a record refer to */
typedef struct Owner { const PhaseSchedule *phase; const DeviceSchedule *device; int number, devices; } Owner;

/* ---- the kinds of fields that only schedules have */
static void write_accesses(const Owner *o, const char *word, const Access *accesses, int count, Text *t)
{
    if (count)
        text_add(t, " %s", word);
    for (int i = 0; i < count; i++) {
        const Access *a = &accesses[i];
        const Buffer *b = &o->device->buffers[a->buffer];
        write_owned(o->number, b->name, t);
        if (a->begin != 0 || a->end != b->bytes || a->of)
            text_add(t, "[%lld:%lld%s]", (long long)a->begin, (long long)a->end,
                     a->of ? format(" of %lld", (long long)a->of) : "");
        if (a->slot)
            text_add(t, "@%+d", a->slot);
    }
}

static void write_waits(const Owner *o, const ScheduledOp *op, Text *t)
{
    if (op->wait_count)
        text_add(t, " waits");
    for (int i = 0; i < op->wait_count; i++) {
        write_owned(o->number, o->device->ops[op->waits[i].op].id, t);
        if (op->waits[i].back)
            text_add(t, "@-%d", op->waits[i].back);
    }
}

static void write_parameters(const char *word, const Parameter *list, int count, Text *t)
{
    if (count)
        text_add(t, " %s", word);
    for (int i = 0; i < count; i++) {
        const Parameter *p = &list[i];
        text_add(t, p->each ? " %s each %lld" : " %s %lld", mgpu_dtype_names[p->dtype],
                 (long long)(p->each ? p->each : p->bytes));
        if (p->over)
            text_add(t, " over %d", p->over - 1);
    }
}

static void write_parties(const mgpu_parties *p, int devices, Text *t)
{
    const mgpu_transfer *row = mgpu_transfer_row(p->transfer);
    text_add(t, " kind %s", row->kind);
    for (int i = 0; i < row->ends; i++)
        text_add(t, " %s %d", i ? "to" : "from", i ? p->to : p->from);
    if (p->parts)
        text_add(t, " parts");
    for (int d = 0; p->parts && d <= devices; d++)
        text_add(t, " %lld", (long long)p->parts[d]);
}

static void write_members(const Owner *o, const CollectiveRecord *c, Text *t)
{
    text_add(t, " group all members");
    for (int d = 0; d < o->devices; d++)
        if (c->ops[d] >= 0)
            write_owned(d, o->phase->devices[d].ops[c->ops[d]].id, t);
}

static void write_special(const mgpu_field *f, const void *base, const void *owner, Text *t)
{
    const Owner *o = owner;
    const ScheduledOp *op = base;
    const CollectiveRecord *c = base;
    const DeviceSchedule *d = base;
    switch (f->kind) {
    case FIELD_SAMPLES: text_add(t, " samples %lld..%lld", (long long)d->first, (long long)(d->first + d->share)); break;
    case FIELD_VERB:
        text_add(t, " %s ", verb_word(o->phase, op));
        write_name(op->label, t);
        break;
    case FIELD_OWN:
        if (op->elements > 0)
            text_add(t, " own %lld..%lld of %lld", (long long)op->own.begin, (long long)op->own.end, (long long)op->elements);
        break;
    case FIELD_READS: write_accesses(o, f->word, op->reads, op->read_count, t); break;
    case FIELD_WRITES: write_accesses(o, f->word, op->writes, op->write_count, t); break;
    case FIELD_WAITS: write_waits(o, op, t); break;
    case FIELD_CALL_DIGEST:
        if (op->verb == VERB_CALL)
            text_add(t, " digest %08x", (unsigned)op->digest);
        break;
    case FIELD_MEMBERS: write_members(o, c, t); break;
    case FIELD_PARTIES: write_parties(&c->parties, o->devices, t); break;
    case FIELD_COUNT:
        text_add(t, " bytes %lld dtype %s", (long long)(c->count * mgpu_dtype_bytes(c->dtype)), mgpu_dtype_names[c->dtype]);
        break;
    case FIELD_KERNEL:
        text_add(t, " ");
        write_name(((const Signature *)base)->label, t);
        break;
    case FIELD_PARAMETERS:
        write_parameters(f->word, MGPU_MEMBER_OF(Parameter *, base, f->at), MGPU_MEMBER_OF(int, base, f->more), t);
        break;
    case FIELD_LABEL:
        if (policy_label(base)) {
            text_add(t, " label ");
            write_quoted(policy_label(base), t);
        }
        break;
    default: break;
    }
}

/* ---- records */
static void write_record(const mgpu_record *r, const void *base, Text *t)
{
    text_add(t, "%s", r->word);
    write_fields(r, base, write_special, NULL, t);
    text_add(t, "\n");
}

/* "# upload makes in.image; ..." */
static void write_reasons(const DeviceSchedule *d, const ScheduledOp *op, Text *t)
{
    int said = 0;
    for (int i = 0; i < op->wait_count; i++) {
        Reason why = mgpu_wait_reason(d, op, &op->waits[i]);
        if (!why.word)
            continue;
        text_add(t, said++ ? "; " : " # ");
        write_name(d->ops[op->waits[i].op].id, t);
        text_add(t, " %s ", why.word);
        for (int k = 0; k < why.count && k < REASON_NAMES; k++) {
            text_add(t, k ? ", " : "");
            write_name(why.names[k], t);
        }
        if (why.count > REASON_NAMES)
            text_add(t, " and %d more", why.count - REASON_NAMES);
    }
}

/* Writes buffers and operations as if the device had this number. */
static void write_device(const PhaseSchedule *p, const DeviceSchedule *d, int number, Text *t)
{
    Owner owner = {p, d, number, 0};
    for (int i = 0; i < d->buffer_count; i++) {
        text_add(t, "buffer");
        write_owned(number, d->buffers[i].name, t);
        write_fields(&BUFFER_RECORD, &d->buffers[i], write_special, &owner, t);
        text_add(t, "\n");
    }
    for (int i = 0; i < d->op_count; i++) {
        text_add(t, "op");
        write_owned(number, d->ops[i].id, t);
        write_fields(&OP_RECORD, &d->ops[i], write_special, &owner, t);
        write_reasons(d, &d->ops[i], t);
        text_add(t, "\n");
    }
}

/* Returns, by device, the first device whose buffers and operations have the same text. */
static int *find_classes(const PhaseSchedule *p, int devices)
{
    int *same = NEW_ARRAY(int, devices);
    Text *texts = NEW_ARRAY(Text, devices);
    for (int d = 0; d < devices; d++) {
        write_device(p, &p->devices[d], 0, &texts[d]);
        int *first = &same[d];
        while (*first < d && (same[*first] < *first || strcmp(text_of(&texts[*first]), text_of(&texts[d])) != 0))
            ++*first;
    }
    for (int d = 0; d < devices; d++)
        free(texts[d].data);
    return same;
}

static void write_phase(const Schedule *s, const PhaseSchedule *p, Text *t)
{
    const int *same = find_classes(p, s->devices);
    text_add(t, "phase ");
    write_name(p->name, t);
    text_add(t, "\n");
    for (int d = 0; d < s->devices; d++) {
        text_add(t, "device %d", d);
        write_fields(&DEVICE_RECORD, &p->devices[d], write_special, NULL, t);
        text_add(t, "%s\n", same[d] < d ? format(" as %d", same[d]) : "");
    }
    for (int d = 0; d < s->devices; d++)
        if (same[d] == d)
            write_device(p, &p->devices[d], d, t);
    for (int k = 0; k < p->collective_count; k++) {
        text_add(t, "collective ");
        write_name(p->collectives[k].name, t);
        write_fields(&COLLECTIVE_RECORD, &p->collectives[k], write_special, &(Owner){p, NULL, 0, s->devices}, t);
        text_add(t, "\n");
    }
}

static void write_remarks(const Schedule *s, Text *t)
{
    for (int i = 0; i < REMARKS; i++) {
        const mgpu_record *r = &REMARK[i];
        int count = r->size ? MGPU_MEMBER_OF(int, s, r->count)
                    : r->fields[0].optional ? !field_is_usual(&r->fields[0], s) : s->step.machine != NULL;
        for (int k = 0; k < count; k++) {
            text_add(t, "# ");
            write_record(r, r->size ? MGPU_MEMBER_OF(char *, s, r->list) + (size_t)k * r->size : (const char *)s, t);
        }
    }
}

void schedule_write(const Schedule *s, Text *t)
{
    text_add(t, "mgpu-schedule 3\n");
    write_record(&MODEL_RECORD, s, t);
    write_remarks(s, t);
    if (s->policy) {
        text_add(t, "plan ");
        write_name(s->policy->name, t);
        write_fields(&PLAN_RECORD, s->policy, write_special, NULL, t);
        text_add(t, "\n");
    }
    text_add(t, "%s", s->phase_digest_count ? "phases" : "");
    for (int i = 0; i < s->phase_digest_count; i++) {
        text_add(t, " ");
        write_name(s->phase_digests[i].phase, t);
        text_add(t, " %08x", (unsigned)s->phase_digests[i].digest);
    }
    text_add(t, "%s", s->phase_digest_count ? "\n" : "");
    for (int i = 0; i < s->signature_count; i++)
        write_record(&KERNEL_RECORD, &s->signatures[i], t);
    for (int i = 0; i < s->phase_count; i++)
        write_phase(s, &s->phases[i], t);
}

/* ---- reading */
static void *copy_of(const void *list, int count, size_t bytes)
{
    return count ? memcpy(allocate((size_t)count * bytes), list, (size_t)count * bytes) : NULL;
}

/* Copies the records, so that no two devices share memory. */
static void copy_records(DeviceSchedule *to, const DeviceSchedule *from)
{
    to->buffer_count = from->buffer_count;
    to->buffers = copy_of(from->buffers, from->buffer_count, sizeof *from->buffers);
    to->op_count = from->op_count;
    to->ops = copy_of(from->ops, from->op_count, sizeof *from->ops);
    for (int i = 0; i < to->op_count; i++) {
        ScheduledOp *op = &to->ops[i];
        op->reads = copy_of(op->reads, op->read_count, sizeof *op->reads);
        op->writes = copy_of(op->writes, op->write_count, sizeof *op->writes);
        op->waits = copy_of(op->waits, op->wait_count, sizeof *op->waits);
    }
}

Schedule *schedule_read(const char *file, const char *text)
{
    Source *source = NEW(Source);
    *source = (Source){.file = file, .text = text, .length = strlen(text)};
    mgpu_reader r = text_reader(source);
    Schedule *s = mgpu_schedule_read(&r);
    for (int i = 0; i < s->phase_count; i++)
        for (int d = 0; d < s->devices; d++) {
            DeviceSchedule *all = s->phases[i].devices;
            if (all[d].as != d)
                copy_records(&all[d], &all[all[d].as]);
        }
    return s;
}
