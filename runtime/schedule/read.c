/* read.c: parses the text of a schedule by the tables of records.c, and reports an error at its place. */
#include "runtime/schedule/schedule.h"

#include <ctype.h>
#include <setjmp.h>
#include <string.h>

/* A wait for an operation by name, which is resolved at the end of the phase. */
typedef struct Pending {
    int device, op, wait;
    const char *name;
    mgpu_reader at;
} Pending;
typedef struct ScheduleReading {
    Schedule *schedule;
    PhaseSchedule *phase; /* NULL before the first one */
    int device_count;     /* devices of the phase that have been read */
    int device;           /* of the current record */
    Pending *pending;
    int pending_count;
    mgpu_names collectives, kernels;
    struct Transfer {
        int device, op, transfer;
        mgpu_reader at;
    } * transfers; /* their collectives are resolved at the end of the phase */
    int transfer_count;
    mgpu_reader phase_at;
    jmp_buf remark; /* continues after a comment that is not a remark */
} ScheduleReading;

/* ---- names of devices */
static bool at_owned(mgpu_reader *r) /* dN. */
{
    mgpu_skip_blanks(r);
    const char *p = r->at;
    if (*p++ != 'd' || !isdigit((unsigned char)*p))
        return false;
    while (isdigit((unsigned char)*p))
        p++;
    return *p == '.';
}

static int read_owner(mgpu_reader *r)
{
    const ScheduleReading *x = r->context;
    if (!at_owned(r))
        mgpu_wrong(r, "expected a device and a name, like d0.c17");
    r->at++;
    mgpu_reader start = *r;
    int device = mgpu_read_int(r, "the number of a device");
    if (device >= x->device_count)
        mgpu_wrong(&start, "the phase has no device %d", device);
    r->at++; /* the dot */
    return device;
}

/* Reads the device of a record, which must not share another device's records. */
static int read_record_owner(mgpu_reader *r)
{
    ScheduleReading *x = r->context;
    mgpu_skip_blanks(r);
    mgpu_reader start = *r;
    int device = x->device = read_owner(r), as = x->phase->devices[device].as;
    if (as != device)
        mgpu_wrong(&start, "device %d is as device %d, and has no records of its own", device, as);
    return device;
}

static void need_own(mgpu_reader *r)
{
    const ScheduleReading *x = r->context;
    mgpu_reader start = *r;
    if (read_owner(r) != x->device)
        mgpu_wrong(&start, "an operation of device %d cannot name what belongs to another device", x->device);
}

/* ---- the kinds of fields that only schedules have */
static Access read_access(mgpu_reader *r)
{
    const ScheduleReading *x = r->context;
    char near[128];
    need_own(r);
    mgpu_reader start = *r;
    const char *name = mgpu_read_name(r, "the name of a buffer");
    const mgpu_names *names = x->phase->devices[x->device].buffer_names;
    int number = mgpu_name_number(names, name);
    if (number < 0)
        mgpu_wrong(&start, "device %d has no buffer '%s'%s", x->device, name,
                   mgpu_did_you_mean(name, names->keys, names->count, near));
    Access a = whole_buffer(number, x->phase->devices[x->device].buffers[number].bytes);
    if (mgpu_take(r, "[")) {
        a.begin = mgpu_read_bytes(r, "the first byte");
        mgpu_need(r, ":");
        a.end = mgpu_read_bytes(r, "the end of the range");
        if (mgpu_take_word(r, "of"))
            a.of = mgpu_read_bytes(r, "the bytes of the whole value");
        mgpu_need(r, "]");
    }
    if (mgpu_take(r, "@")) {
        int sign = mgpu_take(r, "-") ? -1 : mgpu_take(r, "+") ? 1 : 0;
        if (!sign)
            mgpu_wrong(r, "expected + or - and a number of steps");
        a.slot = sign * mgpu_read_int(r, "a number of steps");
    }
    return a;
}

static void read_accesses(mgpu_reader *r, Access **list, int *count)
{
    do
        MGPU_ADD(r, *list, *count, read_access(r));
    while (at_owned(r));
}

static void read_waits(mgpu_reader *r, ScheduledOp *op)
{
    ScheduleReading *x = r->context;
    do {
        need_own(r);
        Pending pending = {x->device, x->phase->devices[x->device].op_count, op->wait_count, NULL, *r};
        pending.name = mgpu_read_name(r, "the name of an operation");
        MGPU_ADD(r, x->pending, x->pending_count, pending);
        Wait wait = {-1, 0};
        if (mgpu_take(r, "@")) {
            mgpu_need(r, "-");
            wait.back = mgpu_read_int(r, "a number of steps");
        }
        MGPU_ADD(r, op->waits, op->wait_count, wait);
    } while (at_owned(r));
}

/* Reads the label of a kernel, which begins with k, and returns its number: labels are numbered by their first use. */
static int read_kernel(mgpu_reader *r, const char **label)
{
    ScheduleReading *x = r->context;
    mgpu_skip_blanks(r);
    mgpu_reader start = *r;
    *label = mgpu_read_name(r, "a kernel");
    if (**label != 'k' || !isalnum((unsigned char)(*label)[1]))
        mgpu_wrong(&start, "'%s' is no kernel: expected k and what names it", *label);
    mgpu_enter_name(r, &x->kernels, *label);
    return mgpu_name_number(&x->kernels, *label);
}

static void read_signature_kernel(mgpu_reader *r, Signature *k)
{
    const Schedule *s = ((ScheduleReading *)r->context)->schedule;
    mgpu_reader start = *r;
    k->kernel = read_kernel(r, &k->label);
    const Signature *last = s->signature_count > 1 ? &s->signatures[s->signature_count - 2] : NULL;
    if (last && k->kernel < last->kernel)
        mgpu_wrong(&start, "%s follows %s: the records of a kernel follow each other", k->label, last->label);
}

static void read_parameters(mgpu_reader *r, Parameter **list, int *count)
{
    static const char *const AFTER[] = {"out", "own", "work", "extent"};
    for (bool ends = false; !ends;) {
        Parameter p = {.dtype = (unsigned)mgpu_read_type(r)};
        if (mgpu_take_word(r, "each"))
            p.each = mgpu_read_bytes(r, "the size of a sample");
        else
            p.bytes = mgpu_read_bytes(r, "the size of a parameter, or 'each' and the size of a sample");
        if (mgpu_take_word(r, "over"))
            p.over = 1 + (int)mgpu_read_integer(r, "the number of a parameter", 0, INT32_MAX - 1);
        MGPU_ADD(r, *list, *count, p);
        ends = mgpu_at_end(r);
        for (int i = 0; i < MGPU_COUNT(AFTER); i++) {
            mgpu_reader next = *r;
            ends = ends || mgpu_take_word(&next, AFTER[i]);
        }
    }
}

static mgpu_range read_range(mgpu_reader *r, const char *first, const char *end)
{
    mgpu_range s = {.begin = mgpu_read_bytes(r, first)};
    mgpu_need(r, "..");
    mgpu_reader start = *r;
    s.end = mgpu_read_bytes(r, end);
    if (s.end < s.begin)
        mgpu_wrong(&start, "%s is before the first", end);
    return s;
}

static void read_verb(mgpu_reader *r, ScheduledOp *op)
{
    ScheduleReading *x = r->context;
    const char *words[VERBS + MGPU_TRANSFERS];
    for (int i = 0; i < VERBS + MGPU_TRANSFERS; i++)
        words[i] = i < VERBS ? VERB_NAME[i] : mgpu_transfer_row(i - VERBS)->verb;
    int choice = mgpu_read_choice(r, "a verb", words, MGPU_COUNT(words));
    op->verb = (uint8_t)(choice < VERBS ? choice : VERB_TRANSFER);
    op->target = -1;
    mgpu_skip_blanks(r);
    struct Transfer transfer = {x->device, x->phase->devices[x->device].op_count,
                                choice < VERBS ? MGPU_TRANSFER_REDUCE : choice - VERBS, *r};
    if (op->verb == VERB_CALL)
        op->target = read_kernel(r, &op->label);
    else
        op->label = mgpu_read_name(r, "a label");
    if (op->verb == VERB_TRANSFER)
        MGPU_ADD(r, x->transfers, x->transfer_count, transfer);
}

static void read_members(mgpu_reader *r, CollectiveRecord *c)
{
    const ScheduleReading *x = r->context;
    c->ops = r->allocate(r->memory, (size_t)(x->device_count + 1) * sizeof *c->ops);
    for (int d = 0; d < x->device_count; d++)
        c->ops[d] = -1;
    mgpu_need(r, "group");
    mgpu_need(r, "all");
    mgpu_need(r, "members");
    do {
        mgpu_skip_blanks(r);
        mgpu_reader start = *r;
        int device = read_owner(r);
        const char *name = mgpu_read_name(r, "the name of an operation");
        int op = mgpu_name_number(x->phase->devices[x->phase->devices[device].as].op_names, name);
        if (op < 0)
            mgpu_wrong(&start, "device %d has no operation '%s'", device, name);
        if (c->ops[device] >= 0)
            mgpu_wrong(&start, "device %d has two members in '%s'", device, c->name);
        c->ops[device] = op;
    } while (at_owned(r));
}

static void read_participants(mgpu_reader *r, mgpu_participants *p)
{
    const ScheduleReading *x = r->context;
    const char *kinds[MGPU_TRANSFERS];
    for (int i = 0; i < MGPU_TRANSFERS; i++)
        kinds[i] = mgpu_transfer_row(i)->kind;
    mgpu_need(r, "kind");
    p->transfer = (uint8_t)mgpu_read_choice(r, "a kind of collective", kinds, MGPU_TRANSFERS);
    for (int i = 0; i < mgpu_transfer_row(p->transfer)->ends; i++) {
        mgpu_need(r, i ? "to" : "from");
        *(i ? &p->to : &p->from) = mgpu_read_int(r, "the number of a device");
    }
    if (mgpu_transfer_splits(p->transfer)) {
        int64_t *parts = r->allocate(r->memory, (size_t)(x->device_count + 1) * sizeof *parts);
        mgpu_need(r, "parts");
        for (int d = 0; d <= x->device_count; d++)
            parts[d] = mgpu_read_bytes(r, "where a part begins");
        p->parts = parts;
    }
}

static void read_count(mgpu_reader *r, CollectiveRecord *c)
{
    mgpu_need(r, "bytes");
    mgpu_skip_blanks(r);
    mgpu_reader start = *r;
    int64_t bytes = mgpu_read_bytes(r, "the number of bytes");
    mgpu_need(r, "dtype");
    c->dtype = (uint8_t)mgpu_read_type(r);
    c->count = bytes / mgpu_dtype_bytes(c->dtype);
    if (c->count * mgpu_dtype_bytes(c->dtype) != bytes)
        mgpu_wrong(&start, "%lld bytes are no whole number of elements", (long long)bytes);
}

static void read_special(mgpu_reader *r, const mgpu_field *f, void *base)
{
    switch (f->kind) {
    case FIELD_SAMPLES: {
        DeviceSchedule *d = base;
        mgpu_need(r, f->word);
        mgpu_range samples = read_range(r, "the first sample", "the end of the samples");
        d->first = samples.begin;
        d->share = samples.end - samples.begin;
        break;
    }
    case FIELD_VERB: read_verb(r, base); break;
    case FIELD_OWN: {
        ScheduledOp *op = base;
        if (!mgpu_take_word(r, f->word))
            break;
        op->own = read_range(r, "the first element", "the end of the elements");
        mgpu_need(r, "of");
        op->elements = mgpu_read_bytes(r, "the elements of the whole value");
        break;
    }
    case FIELD_READS:
    case FIELD_WRITES: {
        ScheduledOp *op = base;
        if (mgpu_take_word(r, f->word))
            read_accesses(r, f->kind == FIELD_READS ? &op->reads : &op->writes,
                          f->kind == FIELD_READS ? &op->read_count : &op->write_count);
        break;
    }
    case FIELD_WAITS:
        if (mgpu_take_word(r, f->word))
            read_waits(r, base);
        break;
    case FIELD_CALL_DIGEST: {
        ScheduledOp *op = base;
        if (op->verb != VERB_CALL)
            break;
        mgpu_need(r, f->word);
        op->digest = mgpu_read_digest(r);
        break;
    }
    case FIELD_MEMBERS: read_members(r, base); break;
    case FIELD_PARTICIPANTS: read_participants(r, &((CollectiveRecord *)base)->participants); break;
    case FIELD_COUNT: read_count(r, base); break;
    case FIELD_KERNEL: read_signature_kernel(r, base); break;
    case FIELD_PARAMETERS:
        if (mgpu_take_word(r, f->word))
            read_parameters(r, &MGPU_MEMBER(Parameter *, base, f->at), &MGPU_MEMBER(int, base, f->more));
        break;
    case FIELD_LABEL:
        if (mgpu_take_word(r, f->word))
            ((Policy *)base)->forward = strcmp(mgpu_read_name(r, "what has to be known of it"), PREDICTS_ONLY) == 0;
        break;
    default: break;
    }
}

static void read_record(mgpu_reader *r, const mgpu_record *record, void *base)
{
    mgpu_read_fields(r, record, base);
    mgpu_end_record(r);
}

/* ---- the head */
static void read_phase_digests(mgpu_reader *r, Schedule *s)
{
    while (!mgpu_at_end(r) || !s->phase_digest_count) {
        PhaseDigest d = {.phase = mgpu_read_name(r, "the name of a phase")};
        d.digest = mgpu_read_digest(r);
        MGPU_ADD(r, s->phase_digests, s->phase_digest_count, d);
    }
    mgpu_end_record(r);
}

static _Noreturn void ignore_remark(const mgpu_reader *r, const char *message)
{
    (void)message;
    longjmp(((ScheduleReading *)r->context)->remark, 1);
}

/* Reads a comment of the head, which may be a record with predictions. Any other comment is ignored. */
static void read_remark(mgpu_reader r, ScheduleReading *x)
{
    r.wrong = ignore_remark;
    r.at++;
    if (setjmp(x->remark) != 0)
        return;
    for (int i = 0; i < REMARKS; i++) {
        const mgpu_record *of = &REMARK[i];
        if (!mgpu_take_word(&r, of->word))
            continue;
        void *item = r.allocate(r.memory, of->size ? of->size : sizeof(Schedule));
        if (!of->size)
            memcpy(item, x->schedule, sizeof(Schedule));
        read_record(&r, of, item);
        if (!of->size) {
            memcpy(x->schedule, item, sizeof(Schedule));
            return;
        }
        char **list = &MGPU_MEMBER(char *, x->schedule, of->list);
        int *count = &MGPU_MEMBER(int, x->schedule, of->count);
        *list = mgpu_more(&r, *list, count, of->size);
        memcpy(*list + (size_t)(*count - 1) * of->size, item, of->size);
        return;
    }
}

static bool next_of_head(mgpu_reader *r, ScheduleReading *x)
{
    for (;; r->at += strcspn(r->at, "\n")) {
        while (mgpu_skip_blanks(r), *r->at == '\n') {
            r->line++;
            r->line_start = ++r->at;
        }
        if (*r->at != '#')
            return *r->at != 0;
        read_remark(*r, x);
    }
}

static void read_head(mgpu_reader *r, ScheduleReading *x)
{
    Schedule *s = x->schedule;
    mgpu_next_record(r);
    if (!mgpu_take_word(r, "mgpu-schedule"))
        mgpu_wrong(r, "this is no schedule: a schedule begins with 'mgpu-schedule 3'");
    mgpu_skip_blanks(r);
    mgpu_reader start = *r;
    int version = mgpu_read_int(r, "the version of the format");
    if (version < 2 || version > 3) /* in version 2, devices do not share records */
        mgpu_wrong(
            &start,
            version == 1
                ? "version 1 of the format has no table of kernels, and this mgpuc reads versions 2 and 3: write the schedule anew with "
                  "mgpuc --emit schedule, or compile the program anew"
                : "this version of the format is unknown; this mgpuc reads versions 2 and 3");
    mgpu_end_record(r);
    mgpu_next_record(r);
    mgpu_need(r, MODEL_RECORD.word);
    s->model_line = r->line;
    read_record(r, &MODEL_RECORD, s);
    bool more = next_of_head(r, x);
    if (more && mgpu_take_word(r, PLAN_RECORD.word)) {
        Policy *p = r->allocate(r->memory, sizeof *p);
        s->plan_line = r->line;
        p->name = mgpu_read_name(r, "the name of a plan");
        read_record(r, &PLAN_RECORD, p);
        s->policy = p;
        more = next_of_head(r, x);
    }
    if (more && mgpu_take_word(r, "phases")) {
        s->phases_line = r->line;
        read_phase_digests(r, s);
        more = next_of_head(r, x);
    }
    for (; more && mgpu_take_word(r, KERNEL_RECORD.word); more = next_of_head(r, x)) {
        s->signatures = mgpu_more(r, s->signatures, &s->signature_count, sizeof *s->signatures);
        s->signatures[s->signature_count - 1].text_line = r->line;
        read_record(r, &KERNEL_RECORD, &s->signatures[s->signature_count - 1]);
    }
}

/* ---- records of phases */
static void read_as(mgpu_reader *r, ScheduleReading *x, DeviceSchedule *d)
{
    d->as = x->device_count;
    if (!mgpu_take_word(r, "as"))
        return;
    mgpu_skip_blanks(r);
    mgpu_reader start = *r;
    d->as = mgpu_read_int(r, "the number of a device");
    if (d->as >= x->device_count || x->phase->devices[d->as].as != d->as)
        mgpu_wrong(&start, "an earlier device that has records of its own is expected");
}

static void read_device(mgpu_reader *r, ScheduleReading *x)
{
    mgpu_reader start = *r;
    int devices = x->schedule->devices, count = x->device_count;
    if (mgpu_read_int(r, "the number of the device") != count || count >= devices)
        mgpu_wrong(&start, count < devices ? "expected device %d" : "there are %d devices only", count);
    if (x->phase->collective_count > 0) /* collectives have an item for each device */
        mgpu_wrong(&start, "device %d comes after a collective: the devices of a phase come before its collectives", count);
    x->phase->devices = mgpu_more(r, x->phase->devices, &count, sizeof *x->phase->devices);
    DeviceSchedule *d = &x->phase->devices[x->device_count];
    d->text_line = r->line;
    d->buffer_names = r->allocate(r->memory, sizeof *d->buffer_names);
    d->op_names = r->allocate(r->memory, sizeof *d->op_names);
    mgpu_read_fields(r, &DEVICE_RECORD, d);
    read_as(r, x, d);
    mgpu_end_record(r);
    x->device_count++;
}

static void read_buffer(mgpu_reader *r, ScheduleReading *x)
{
    int device = read_record_owner(r);
    DeviceSchedule *d = &x->phase->devices[device];
    mgpu_reader start = *r;
    Buffer b = {.text_line = r->line, .name = mgpu_read_name(r, "the name of a buffer")};
    if (!mgpu_enter_name(r, d->buffer_names, b.name))
        mgpu_wrong(&start, "device %d has a buffer '%s' already", device, b.name);
    read_record(r, &BUFFER_RECORD, &b);
    MGPU_ADD(r, d->buffers, d->buffer_count, b);
}

static void read_op(mgpu_reader *r, ScheduleReading *x)
{
    int device = read_record_owner(r);
    DeviceSchedule *d = &x->phase->devices[device];
    mgpu_reader start = *r;
    ScheduledOp op = {.text_line = r->line, .id = mgpu_read_name(r, "the name of an operation")};
    if (!mgpu_enter_name(r, d->op_names, op.id))
        mgpu_wrong(&start, "device %d has an operation '%s' already", device, op.id);
    read_record(r, &OP_RECORD, &op);
    if (op.verb == VERB_FETCH && op.read_count)
        op.target = d->buffers[op.reads[0].buffer].index;
    MGPU_ADD(r, d->ops, d->op_count, op);
}

static void read_collective(mgpu_reader *r, ScheduleReading *x)
{
    CollectiveRecord c = {.text_line = r->line};
    mgpu_skip_blanks(r);
    mgpu_reader start = *r;
    c.name = mgpu_read_name(r, "the name of a collective");
    if (!mgpu_enter_name(r, &x->collectives, c.name))
        mgpu_wrong(&start, "the phase has a collective '%s' already", c.name);
    read_record(r, &COLLECTIVE_RECORD, &c);
    MGPU_ADD(r, x->phase->collectives, x->phase->collective_count, c);
}

/* ---- phases */
static void end_phase(ScheduleReading *x)
{
    PhaseSchedule *p = x->phase;
    if (!p)
        return;
    if (x->device_count != x->schedule->devices)
        mgpu_wrong(&x->phase_at, "the phase has %d devices, the schedule %d", x->device_count, x->schedule->devices);
    for (int i = 0; i < x->pending_count; i++) {
        const Pending *w = &x->pending[i];
        int op = mgpu_name_number(p->devices[w->device].op_names, w->name);
        if (op < 0)
            mgpu_wrong(&w->at, "device %d has no operation '%s'", w->device, w->name);
        p->devices[w->device].ops[w->op].waits[w->wait].op = op;
    }
    for (int i = 0; i < x->transfer_count; i++) {
        const struct Transfer *t = &x->transfers[i];
        ScheduledOp *op = &p->devices[t->device].ops[t->op];
        op->target = mgpu_name_number(&x->collectives, op->label);
        if (op->target < 0)
            mgpu_wrong(&t->at, "the phase has no collective '%s'", op->label);
        p->collectives[op->target].lane = op->lane;
        const mgpu_transfer *is = mgpu_transfer_row(p->collectives[op->target].participants.transfer);
        const mgpu_transfer *says = mgpu_transfer_row(t->transfer);
        if (is != says)
            mgpu_wrong(&t->at, "'%s' of '%s', whose kind is %s", says->verb, op->label, is->kind);
    }
}

static void read_phase(mgpu_reader *r, ScheduleReading *x)
{
    Schedule *s = x->schedule;
    end_phase(x);
    x->phase_at = *r;
    PhaseSchedule p = {.text_line = r->line, .name = mgpu_read_name(r, "the name of a phase")};
    mgpu_end_record(r);
    MGPU_ADD(r, s->phases, s->phase_count, p);
    x->phase = &s->phases[s->phase_count - 1];
    x->device_count = x->transfer_count = x->pending_count = 0;
    x->pending = NULL;
    x->transfers = NULL;
    x->collectives = (mgpu_names){0};
}

Schedule *mgpu_schedule_read(mgpu_reader *r)
{
    static const struct {
        const char *word;
        void (*read)(mgpu_reader *, ScheduleReading *);
    } RECORDS[] = {{"device", read_device},
                   {"buffer", read_buffer},
                   {"op", read_op},
                   {"collective", read_collective},
                   {"phase", read_phase}};
    ScheduleReading x = {.schedule = r->allocate(r->memory, sizeof(Schedule))};
    r->context = &x;
    r->special = read_special;
    r->comment = '#';
    read_head(r, &x);
    for (mgpu_reader start = *r; mgpu_next_record(r); start = *r) {
        int k = 0;
        start = *r;
        if (mgpu_take_word(r, "mgpu-schedule")) { /* the next schedule of the text */
            *r = start;
            break;
        }
        while (k < MGPU_COUNT(RECORDS) && !mgpu_take_word(r, RECORDS[k].word))
            k++;
        if (k == MGPU_COUNT(RECORDS))
            mgpu_wrong(&start,
                       "a record is a phase, device, buffer, op or collective; those of kernels come before the first phase");
        if (!x.phase && RECORDS[k].read != read_phase)
            mgpu_wrong(&start, "a '%s' belongs to a phase; expected 'phase'", RECORDS[k].word);
        RECORDS[k].read(r, &x);
    }
    end_phase(&x);
    return x.schedule;
}
