/* write.c: writes a schedule as text, by the tables of records.c. A schedule that was read is written as the same text. Buffers
 * and operations that are the same text on several devices are written once. */
#include "runtime/schedule/schedule.h"

#include <stdlib.h>
#include <string.h>

static void write_owned(int device, const char *name, mgpu_writer *w) /* dN.NAME */
{
    mgpu_write(w, " d%d.", device);
    mgpu_write_name(name, w);
}

/* what the fields of a record refer to; number: of the device */
typedef struct Owner {
    const PhaseSchedule *phase;
    const DeviceSchedule *device;
    int number, devices;
} Owner;

/* ---- the kinds of fields that only schedules have */
static void write_accesses(const Owner *o, const char *word, const Access *accesses, int count, mgpu_writer *w)
{
    if (count)
        mgpu_write(w, " %s", word);
    for (int i = 0; i < count; i++) {
        const Access *a = &accesses[i];
        const Buffer *b = &o->device->buffers[a->buffer];
        write_owned(o->number, b->name, w);
        if (a->begin != 0 || a->end != b->bytes || a->of)
            mgpu_write(w, a->of ? "[%lld:%lld of %lld]" : "[%lld:%lld]", (long long)a->begin, (long long)a->end,
                       (long long)a->of);
        if (a->slot)
            mgpu_write(w, "@%+d", a->slot);
    }
}

static void write_waits(const Owner *o, const ScheduledOp *op, mgpu_writer *w)
{
    if (op->wait_count)
        mgpu_write(w, " waits");
    for (int i = 0; i < op->wait_count; i++) {
        write_owned(o->number, o->device->ops[op->waits[i].op].id, w);
        if (op->waits[i].back)
            mgpu_write(w, "@-%d", op->waits[i].back);
    }
}

static void write_parameters(const char *word, const Parameter *list, int count, mgpu_writer *w)
{
    if (count)
        mgpu_write(w, " %s", word);
    for (int i = 0; i < count; i++) {
        const Parameter *p = &list[i];
        mgpu_write(w, p->each ? " %s each %lld" : " %s %lld", mgpu_dtype_names[p->dtype],
                   (long long)(p->each ? p->each : p->bytes));
        if (p->over)
            mgpu_write(w, " over %d", p->over - 1);
    }
}

static void write_participants(const mgpu_participants *p, int devices, mgpu_writer *w)
{
    const mgpu_transfer *row = mgpu_transfer_row(p->transfer);
    mgpu_write(w, " kind %s", row->kind);
    for (int i = 0; i < row->ends; i++)
        mgpu_write(w, " %s %d", i ? "to" : "from", i ? p->to : p->from);
    if (p->parts)
        mgpu_write(w, " parts");
    for (int d = 0; p->parts && d <= devices; d++)
        mgpu_write(w, " %lld", (long long)p->parts[d]);
}

static void write_members(const Owner *o, const CollectiveRecord *c, mgpu_writer *w)
{
    mgpu_write(w, " group all members");
    for (int d = 0; d < o->devices; d++)
        if (c->ops[d] >= 0)
            write_owned(d, o->phase->devices[d].ops[c->ops[d]].id, w);
}

static void write_special(const mgpu_field *f, const void *base, const void *owner, mgpu_writer *w)
{
    const Owner *o = owner;
    const ScheduledOp *op = base;
    const CollectiveRecord *c = base;
    const DeviceSchedule *d = base;
    switch (f->kind) {
    case FIELD_SAMPLES: mgpu_write(w, " samples %lld..%lld", (long long)d->first, (long long)(d->first + d->share)); break;
    case FIELD_VERB:
        mgpu_write(w, " %s ", verb_word(o->phase, op));
        mgpu_write_name(op->label, w);
        break;
    case FIELD_OWN:
        if (op->elements > 0)
            mgpu_write(w, " own %lld..%lld of %lld", (long long)op->own.begin, (long long)op->own.end, (long long)op->elements);
        break;
    case FIELD_READS: write_accesses(o, f->word, op->reads, op->read_count, w); break;
    case FIELD_WRITES: write_accesses(o, f->word, op->writes, op->write_count, w); break;
    case FIELD_WAITS: write_waits(o, op, w); break;
    case FIELD_CALL_DIGEST:
        if (op->verb == VERB_CALL)
            mgpu_write(w, " digest %08x", (unsigned)op->digest);
        break;
    case FIELD_MEMBERS: write_members(o, c, w); break;
    case FIELD_PARTICIPANTS: write_participants(&c->participants, o->devices, w); break;
    case FIELD_COUNT:
        mgpu_write(w, " bytes %lld dtype %s", (long long)(c->count * mgpu_dtype_bytes(c->dtype)), mgpu_dtype_names[c->dtype]);
        break;
    case FIELD_KERNEL:
        mgpu_write(w, " ");
        mgpu_write_name(((const Signature *)base)->label, w);
        break;
    case FIELD_PARAMETERS:
        write_parameters(f->word, MGPU_MEMBER_OF(Parameter *, base, f->at), MGPU_MEMBER_OF(int, base, f->more), w);
        break;
    case FIELD_LABEL:
        if (policy_label(base)) {
            mgpu_write(w, " label ");
            mgpu_write_quoted(policy_label(base), w);
        }
        break;
    default: break;
    }
}

/* ---- records */
static void write_record(const mgpu_record *r, const void *base, mgpu_writer *w)
{
    mgpu_write(w, "%s", r->word);
    mgpu_write_fields(r, base, write_special, NULL, w);
    mgpu_write(w, "\n");
}

void mgpu_write_signature(const Signature *s, mgpu_writer *w) { write_record(&KERNEL_RECORD, s, w); }

/* Writes "# upload makes in.image; ...". */
static void write_reasons(const DeviceSchedule *d, const ScheduledOp *op, mgpu_writer *w)
{
    int said = 0;
    for (int i = 0; i < op->wait_count; i++) {
        Reason why = mgpu_wait_reason(d, op, &op->waits[i]);
        if (!why.word)
            continue;
        mgpu_write(w, said++ ? "; " : " # ");
        mgpu_write_name(d->ops[op->waits[i].op].id, w);
        mgpu_write(w, " %s ", why.word);
        for (int k = 0; k < why.count && k < REASON_NAMES; k++) {
            mgpu_write(w, k ? ", " : "");
            mgpu_write_name(why.names[k], w);
        }
        if (why.count > REASON_NAMES)
            mgpu_write(w, " and %d more", why.count - REASON_NAMES);
    }
}

/* Writes buffers and operations with this number as their device. */
static void write_device(const PhaseSchedule *p, const DeviceSchedule *d, int number, mgpu_writer *w)
{
    Owner owner = {p, d, number, 0};
    for (int i = 0; i < d->buffer_count; i++) {
        mgpu_write(w, "buffer");
        write_owned(number, d->buffers[i].name, w);
        mgpu_write_fields(&BUFFER_RECORD, &d->buffers[i], write_special, &owner, w);
        mgpu_write(w, "\n");
    }
    for (int i = 0; i < d->op_count; i++) {
        mgpu_write(w, "op");
        write_owned(number, d->ops[i].id, w);
        mgpu_write_fields(&OP_RECORD, &d->ops[i], write_special, &owner, w);
        write_reasons(d, &d->ops[i], w);
        mgpu_write(w, "\n");
    }
}

static char *device_text(const PhaseSchedule *p, int device)
{
    char *text = NULL;
    size_t length = 0;
    FILE *f = open_memstream(&text, &length);
    if (!f)
        mgpu_no_memory(1);
    mgpu_writer w = mgpu_file_writer(f);
    write_device(p, &p->devices[device], 0, &w);
    if (fclose(f))
        mgpu_no_memory(length);
    return text;
}

/* Returns, for each device, the first device whose buffers and operations are the same lists or the same text. */
static int *find_classes(const PhaseSchedule *p, int devices)
{
    int *same = mgpu_allocate((size_t)devices, sizeof *same);
    char **texts = mgpu_allocate((size_t)devices, sizeof *texts);
    for (int d = 0; d < devices; d++) {
        int *first = &same[d];
        while (*first < d && (p->devices[*first].ops != p->devices[d].ops || p->devices[*first].buffers != p->devices[d].buffers))
            ++*first;
        if (*first < d) {
            *first = same[*first];
            continue;
        }
        texts[d] = device_text(p, d);
        for (*first = 0; *first < d && (!texts[*first] || strcmp(texts[*first], texts[d]) != 0);)
            ++*first;
        if (*first < d) {
            free(texts[d]);
            texts[d] = NULL;
        }
    }
    for (int d = 0; d < devices; d++)
        free(texts[d]);
    free(texts);
    return same;
}

static void write_phase(const Schedule *s, const PhaseSchedule *p, mgpu_writer *w)
{
    int *same = find_classes(p, s->devices);
    mgpu_write(w, "phase ");
    mgpu_write_name(p->name, w);
    mgpu_write(w, "\n");
    for (int d = 0; d < s->devices; d++) {
        mgpu_write(w, "device %d", d);
        mgpu_write_fields(&DEVICE_RECORD, &p->devices[d], write_special, NULL, w);
        if (same[d] < d)
            mgpu_write(w, " as %d", same[d]);
        mgpu_write(w, "\n");
    }
    for (int d = 0; d < s->devices; d++)
        if (same[d] == d)
            write_device(p, &p->devices[d], d, w);
    for (int k = 0; k < p->collective_count; k++) {
        mgpu_write(w, "collective ");
        mgpu_write_name(p->collectives[k].name, w);
        mgpu_write_fields(&COLLECTIVE_RECORD, &p->collectives[k], write_special, &(Owner){p, NULL, 0, s->devices}, w);
        mgpu_write(w, "\n");
    }
    free(same);
}

static void write_remarks(const Schedule *s, mgpu_writer *w)
{
    for (int i = 0; i < REMARKS; i++) {
        const mgpu_record *r = &REMARK[i];
        int count = r->size                 ? MGPU_MEMBER_OF(int, s, r->count)
                    : r->fields[0].optional ? !mgpu_field_is_usual(&r->fields[0], s)
                                            : s->step.machine != NULL;
        for (int k = 0; k < count; k++) {
            mgpu_write(w, "# ");
            write_record(r, r->size ? MGPU_MEMBER_OF(char *, s, r->list) + (size_t)k * r->size : (const char *)s, w);
        }
    }
}

void mgpu_schedule_write(const Schedule *s, mgpu_writer *w)
{
    mgpu_write(w, "mgpu-schedule 3\n");
    write_record(&MODEL_RECORD, s, w);
    write_remarks(s, w);
    if (s->policy) {
        mgpu_write(w, "plan ");
        mgpu_write_name(s->policy->name, w);
        mgpu_write_fields(&PLAN_RECORD, s->policy, write_special, NULL, w);
        mgpu_write(w, "\n");
    }
    mgpu_write(w, "%s", s->phase_digest_count ? "phases" : "");
    for (int i = 0; i < s->phase_digest_count; i++) {
        mgpu_write(w, " ");
        mgpu_write_name(s->phase_digests[i].phase, w);
        mgpu_write(w, " %08x", (unsigned)s->phase_digests[i].digest);
    }
    mgpu_write(w, "%s", s->phase_digest_count ? "\n" : "");
    for (int i = 0; i < s->signature_count; i++)
        write_record(&KERNEL_RECORD, &s->signatures[i], w);
    for (int i = 0; i < s->phase_count; i++)
        write_phase(s, &s->phases[i], w);
}
