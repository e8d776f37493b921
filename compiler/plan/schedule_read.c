/* schedule_read.c: the text of a schedule -> Schedule. schedule_text.c documents the format. A mistake is an error at its place. */
#include "compiler/plan/policy.h"
#include "compiler/plan/schedule_words.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* ---- reading: parts of records */
static bool at_owned(Reader *r) /* dN. */
{
    schedule_skip_blanks(r);
    const char *p = r->at;
    if (*p++ != 'd' || !isdigit((unsigned char)*p))
        return false;
    while (isdigit((unsigned char)*p))
        p++;
    return *p == '.';
}

static int read_owner(Reader *r)
{
    if (!at_owned(r))
        schedule_error(r, "expected a device and a name, like d0.c17");
    r->at++;
    Reader start = *r;
    int device = schedule_read_int(r, "the number of a device");
    if (device >= r->device_count)
        schedule_error(&start, "the phase has no device %d", device);
    r->at++; /* the dot */
    return device;
}

/* of a record: only a device that is as no other one has some */
static int read_record_owner(Reader *r)
{
    schedule_skip_blanks(r);
    Reader start = *r;
    int device = read_owner(r);
    if (r->names[device].as != device)
        schedule_error(&start, "device %d is as device %d, and has no records of its own", device, r->names[device].as);
    return device;
}

static void need_own(Reader *r, int device)
{
    Reader start = *r;
    if (read_owner(r) != device)
        schedule_error(&start, "an operation of device %d cannot name what belongs to another device", device);
}

static Access read_access(Reader *r, int device)
{
    need_own(r, device);
    Reader start = *r;
    const char *name = schedule_read_name(r, "the name of a buffer");
    DeviceNames *names = &r->names[device];
    int number = (int)(intptr_t)map_get(&names->buffers, name) - 1;
    if (number < 0)
        schedule_error(&start, "device %d has no buffer '%s'%s", device, name,
              did_you_mean(name, names->buffers.keys, names->buffers.count));
    Access a = whole_buffer(number, r->phase->devices[device].buffers[number].bytes);
    if (schedule_take(r, "[")) {
        a.begin = schedule_read_bytes(r, "the first byte");
        if (!schedule_take(r, ":"))
            schedule_error(r, "expected ':' and the end of the range");
        a.end = schedule_read_bytes(r, "the end of the range");
        if (schedule_take_word(r, "of"))
            a.of = schedule_read_bytes(r, "the bytes of the whole value");
        if (!schedule_take(r, "]"))
            schedule_error(r, "expected ']'");
    }
    if (schedule_take(r, "@")) {
        int sign = schedule_take(r, "-") ? -1 : schedule_take(r, "+") ? 1 : 0;
        if (!sign)
            schedule_error(r, "expected + or - and a number of steps");
        a.slot = sign * schedule_read_int(r, "a number of steps");
    }
    return a;
}

static void read_wait(Reader *r, int device, int op_number, ScheduledOp *op)
{
    need_own(r, device);
    DeviceNames *names = &r->names[device];
    OpName name = {.at = schedule_place(r)};
    name.name = schedule_read_name(r, "the name of an operation");
    struct Pending pending = {op_number, op->wait_count};
    int count = names->wait_count;
    APPEND(names->pending, count, pending);
    APPEND(names->waits, names->wait_count, name);
    Wait wait = {-1, 0};
    if (schedule_take(r, "@")) {
        if (!schedule_take(r, "-"))
            schedule_error(r, "expected - and a number of steps");
        wait.back = schedule_read_int(r, "a number of steps");
    }
    APPEND(op->waits, op->wait_count, wait);
}

/* ---- reading: records */
static void read_model(Reader *r)
{
    Schedule *s = r->schedule;
    schedule_need_word(r, "model");
    s->model = schedule_read_name(r, "the name of the model");
    schedule_need_word(r, "precision");
    s->precision = schedule_read_name(r, "the name of a number type");
    schedule_need_word(r, "batch");
    s->batch = schedule_read_number(r, "the batch", INT64_MAX);
    schedule_need_word(r, "accumulate");
    s->accumulate = schedule_read_int(r, "the number of micro-batches");
    schedule_need_word(r, "devices");
    s->devices = schedule_read_int(r, "the number of devices");
    s->nodes = schedule_take_word(r, "nodes") ? schedule_read_int(r, "the number of nodes") : 1;
    s->predicts = schedule_take_word(r, "predicts");
    schedule_end_record(r);
}

static void read_phase_digests(Reader *r)
{
    Schedule *s = r->schedule;
    do {
        PhaseDigest d = {.phase = schedule_read_name(r, "the name of a phase")};
        d.digest = schedule_read_digest(r);
        APPEND(s->phase_digests, s->phase_digest_count, d);
        schedule_skip_blanks(r);
    } while (*r->at && *r->at != '\n');
    schedule_end_record(r);
}

static void read_plan(Reader *r)
{
    Policy *p = NEW(Policy);
    p->name = schedule_read_name(r, "the name of a plan");
    for (int i = 0; i < POLICY_WORDS; i++) {
        schedule_need_word(r, POLICY_WORD[i].name);
        policy_set(p, i, schedule_read_choice(r, "a policy", POLICY_WORD[i].words, POLICY_WORD[i].count));
    }
    schedule_need_word(r, "slots");
    p->slots = schedule_read_int(r, "the number of slots");
    if (schedule_take_word(r, "label")) {
        schedule_skip_blanks(r);
        p->forward = strcmp(schedule_read_quoted(r), PREDICTS_ONLY) == 0;
    }
    schedule_end_record(r);
    r->schedule->policy = p;
}

static void read_as(Reader *r)
{
    int *as = &r->names[r->device_count].as;
    *as = r->device_count;
    if (!schedule_take_word(r, "as"))
        return;
    schedule_skip_blanks(r);
    Reader start = *r;
    *as = schedule_read_int(r, "the number of a device");
    if (*as >= r->device_count || r->names[*as].as != *as)
        schedule_error(&start, "an earlier device that has records of its own is expected");
}

static void read_device(Reader *r)
{
    Reader start = *r;
    DeviceSchedule *d = &r->phase->devices[r->device_count]; /* there is room: r->schedule->devices */
    if (schedule_read_int(r, "the number of the device") != r->device_count || r->device_count >= r->schedule->devices)
        schedule_error(&start, r->device_count < r->schedule->devices ? "expected device %d" : "there are %d devices only",
              r->device_count);
    schedule_need_word(r, "name");
    schedule_skip_blanks(r);
    d->name = schedule_read_quoted(r);
    schedule_need_word(r, "arena");
    d->arena_bytes = schedule_read_bytes(r, "the size of the arena");
    schedule_need_word(r, "work");
    d->work_bytes = schedule_read_bytes(r, "the size of the workspaces");
    schedule_need_word(r, "staging");
    d->staging_bytes = schedule_read_bytes(r, "the size of the staging arena");
    schedule_need_word(r, "samples");
    d->first = schedule_read_bytes(r, "the first sample");
    if (!schedule_take(r, ".."))
        schedule_error(r, "expected '..' and the end of the samples");
    start = *r;
    d->share = schedule_read_bytes(r, "the end of the samples") - d->first;
    if (d->share < 0)
        schedule_error(&start, "the samples end before they begin");
    schedule_need_word(r, "capacity");
    d->capacity = schedule_read_bytes(r, "the capacity");
    read_as(r);
    schedule_end_record(r);
    r->device_count++;
}

static int64_t read_own_of(Reader *r)
{
    if (!schedule_take_word(r, "own"))
        return 0;
    schedule_need_word(r, "of");
    return schedule_read_bytes(r, "the elements of the whole value");
}

static void read_buffer(Reader *r)
{
    int device = read_record_owner(r);
    DeviceSchedule *d = &r->phase->devices[device];
    Reader start = *r;
    Buffer b = {.name = schedule_read_name(r, "the name of a buffer"), .index = -1};
    if (map_get(&r->names[device].buffers, b.name))
        schedule_error(&start, "device %d has a buffer '%s' already", device, b.name);
    schedule_need_word(r, "kind");
    b.kind = (BufferKind)schedule_read_choice(r, "a kind of buffer", BUFFER_KIND_NAME, BUFFER_KINDS);
    schedule_need_word(r, "offset");
    b.offset = schedule_read_bytes(r, "the offset");
    schedule_need_word(r, "bytes");
    b.bytes = schedule_read_bytes(r, "the size");
    b.slots = 1;
    if (schedule_take_word(r, "slots")) {
        start = *r;
        b.slots = schedule_read_int(r, "the number of slots");
        if (b.slots < 1)
            schedule_error(&start, "a buffer has one slot at least");
    }
    if (schedule_take_word(r, "each"))
        b.each = schedule_read_bytes(r, "the size of a sample");
    b.elements = read_own_of(r);
    if (schedule_take_word(r, "index"))
        b.index = schedule_read_int(r, "the index");
    if (schedule_take_word(r, "type"))
        b.type = (int)schedule_read_dtype(r) + 1;
    b.updated = schedule_take_word(r, "updated");
    schedule_end_record(r);
    APPEND(d->buffers, d->buffer_count, b);
    map_set(&r->names[device].buffers, b.name, (void *)(intptr_t)d->buffer_count);
}

/* k and what names it; numbered as they are first mentioned */
static int read_kernel(Reader *r, const char **label)
{
    schedule_skip_blanks(r);
    Reader start = *r;
    *label = schedule_read_name(r, "a kernel");
    if (**label != 'k' || !isalnum((unsigned char)(*label)[1]))
        schedule_error(&start, "'%s' is no kernel: expected k and what names it", *label);
    int number = (int)(intptr_t)map_get(&r->kernels, *label);
    if (!number)
        map_set(&r->kernels, *label, (void *)(intptr_t)(number = ++r->kernel_count));
    return number - 1;
}

static void read_parameters(Reader *r, const char *word, Parameter **list, int *count)
{
    if (!schedule_take_word(r, word))
        return;
    do {
        Parameter p = {.dtype = schedule_read_dtype(r)};
        if (schedule_take_word(r, "each"))
            p.each = schedule_read_bytes(r, "the size of a sample");
        else
            p.bytes = schedule_read_bytes(r, "the size of a parameter, or 'each' and the size of a sample");
        if (schedule_take_word(r, "over"))
            p.over = 1 + (int)schedule_read_number(r, "the number of a parameter", INT32_MAX - 1);
        APPEND(*list, *count, p);
        schedule_skip_blanks(r);
    } while (*r->at && *r->at != '\n' && !schedule_at_word(r, "out") && !schedule_at_word(r, "own") && !schedule_at_word(r, "work") && !schedule_at_word(r, "extent"));
}

static void read_signature(Reader *r)
{
    Schedule *s = r->schedule;
    Reader start = *r;
    Signature k = {0};
    k.kernel = read_kernel(r, &k.label);
    const Signature *last = s->signature_count ? &s->signatures[s->signature_count - 1] : NULL;
    if (last && k.kernel < last->kernel)
        schedule_error(&start, "%s follows %s: the records of a kernel follow each other", k.label, last->label);
    read_parameters(r, "in", &k.in, &k.in_count);
    read_parameters(r, "out", &k.out, &k.out_count);
    k.elements = read_own_of(r);
    if (schedule_take_word(r, "work")) {
        k.work = schedule_read_bytes(r, "the size of the workspace");
        if (schedule_take_word(r, "each"))
            k.work_each = schedule_read_bytes(r, "the size of the workspace of a sample");
    }
    if (schedule_take_word(r, "extent")) {
        schedule_skip_blanks(r);
        k.extent = schedule_read_quoted(r);
    }
    schedule_end_record(r);
    APPEND(s->signatures, s->signature_count, k);
}

static void read_target(Reader *r, int device, ScheduledOp *op, int transfer, int number)
{
    Place at = schedule_place(r);
    op->target = -1;
    if (op->verb == VERB_CALL)
        op->target = read_kernel(r, &op->label);
    else
        op->label = schedule_read_name(r, "a label");
    if (op->verb == VERB_TRANSFER) {
        struct Reduce reduce = {device, number, transfer, at};
        APPEND(r->reduces, r->reduce_count, reduce);
    }
}

/* -> of VERB_TRANSFER the transfer that its word names */
static int read_verb(Reader *r, Verb *verb)
{
    const char *words[VERBS + MGPU_TRANSFERS];
    for (int i = 0; i < VERBS; i++)
        words[i] = VERB_NAME[i];
    for (int i = 0; i < MGPU_TRANSFERS; i++)
        words[VERBS + i] = transfer_word(i);
    int choice = schedule_read_choice(r, "a verb", words, COUNT(words));
    *verb = choice < VERBS ? (Verb)choice : VERB_TRANSFER;
    return choice < VERBS ? MGPU_TRANSFER_REDUCE : choice - VERBS;
}

static void read_own(Reader *r, ScheduledOp *op)
{
    op->own.begin = schedule_read_bytes(r, "the first element");
    if (!schedule_take(r, ".."))
        schedule_error(r, "expected '..' and the end of the elements");
    op->own.end = schedule_read_bytes(r, "the end of the elements");
    schedule_need_word(r, "of");
    op->elements = schedule_read_bytes(r, "the elements of the whole value");
}

static void read_op(Reader *r)
{
    int device = read_record_owner(r);
    DeviceSchedule *d = &r->phase->devices[device];
    Reader start = *r;
    ScheduledOp op = {.id = schedule_read_name(r, "the name of an operation")};
    if (map_get(&r->names[device].ops, op.id))
        schedule_error(&start, "device %d has an operation '%s' already", device, op.id);
    schedule_need_word(r, "lane");
    op.lane = (Lane)schedule_read_choice(r, "a lane", LANE_NAME, LANES);
    int transfer = read_verb(r, &op.verb);
    schedule_skip_blanks(r);
    read_target(r, device, &op, transfer, d->op_count);
    op.region = -1;
    if (schedule_take_word(r, "region")) {
        op.region = schedule_read_int(r, "the number of the region");
        op.by_sample = schedule_take_word(r, "samples");
        if (schedule_take_word(r, "chunk"))
            op.chunk = schedule_read_bytes(r, "the samples of a chunk");
    }
    if (schedule_take_word(r, "own"))
        read_own(r, &op);
    for (int list = 0; list < 2; list++) {
        Access **accesses = list ? &op.writes : &op.reads;
        int *count = list ? &op.write_count : &op.read_count;
        if (!schedule_take_word(r, list ? "writes" : "reads"))
            continue;
        do {
            Access a = read_access(r, device);
            APPEND(*accesses, *count, a);
        } while (at_owned(r));
    }
    if (schedule_take_word(r, "waits"))
        do
            read_wait(r, device, d->op_count, &op);
        while (at_owned(r));
    if (op.verb == VERB_CALL) {
        schedule_need_word(r, "digest");
        op.digest = schedule_read_digest(r);
    }
    schedule_need_word(r, "begin_us");
    op.begin_us = schedule_read_time(r, "the begin");
    schedule_need_word(r, "time_us");
    op.time_us = schedule_read_time(r, "the time");
    schedule_need_word(r, "line");
    op.line = schedule_read_int(r, "the line");
    if (schedule_take_word(r, "layer"))
        op.layer = schedule_read_name(r, "the path of a layer");
    if (schedule_take_word(r, "role"))
        op.role = schedule_read_name(r, "the role of an operation");
    if (schedule_take_word(r, "flops"))
        op.flops = (double)schedule_read_bytes(r, "the number of floating-point operations");
    if (schedule_take_word(r, "bytes"))
        op.bytes = (double)schedule_read_bytes(r, "the bytes that the call moves");
    schedule_end_record(r);
    if (op.verb == VERB_FETCH && op.read_count)
        op.target = d->buffers[op.reads[0].buffer].index;
    APPEND(d->ops, d->op_count, op);
    map_set(&r->names[device].ops, op.id, (void *)(intptr_t)d->op_count);
}

static mgpu_parties read_parties(Reader *r)
{
    const char *kinds[MGPU_TRANSFERS];
    for (int i = 0; i < MGPU_TRANSFERS; i++)
        kinds[i] = mgpu_transfer_row(i)->kind;
    schedule_need_word(r, "kind");
    mgpu_parties p = {.transfer = (uint8_t)schedule_read_choice(r, "a kind of collective", kinds, MGPU_TRANSFERS)};
    int ends = mgpu_transfer_row(p.transfer)->ends;
    if (ends > 0) {
        schedule_need_word(r, "from");
        p.from = schedule_read_int(r, "the number of a device");
    }
    if (ends > 1) {
        schedule_need_word(r, "to");
        p.to = schedule_read_int(r, "the number of a device");
    }
    if (mgpu_transfer_splits(p.transfer)) {
        int64_t *parts = NEW_ARRAY(int64_t, r->device_count + 1);
        schedule_need_word(r, "parts");
        for (int d = 0; d <= r->device_count; d++)
            parts[d] = schedule_read_bytes(r, "where a part begins");
        p.parts = parts;
    }
    return p;
}

static void read_collective(Reader *r)
{
    PhaseSchedule *p = r->phase;
    const char *ways[MGPU_WAYS];
    Collective c = {.ops = NEW_ARRAY(int, r->device_count)};
    for (int d = 0; d < r->device_count; d++)
        c.ops[d] = -1;
    schedule_skip_blanks(r);
    Reader start = *r;
    c.name = schedule_read_name(r, "the name of a collective");
    if (map_get(&r->collectives, c.name))
        schedule_error(&start, "the phase has a collective '%s' already", c.name);
    schedule_need_word(r, "group");
    schedule_need_word(r, "all");
    schedule_need_word(r, "members");
    do {
        schedule_skip_blanks(r);
        start = *r;
        int device = read_owner(r);
        const char *name = schedule_read_name(r, "the name of an operation");
        int op = (int)(intptr_t)map_get(&r->names[r->names[device].as].ops, name) - 1;
        if (op < 0)
            schedule_error(&start, "device %d has no operation '%s'", device, name);
        if (c.ops[device] >= 0)
            schedule_error(&start, "device %d has two members in '%s'", device, c.name);
        c.ops[device] = op;
    } while (at_owned(r));
    c.parties = read_parties(r);
    schedule_need_word(r, "bytes");
    schedule_skip_blanks(r);
    start = *r;
    int64_t bytes = schedule_read_bytes(r, "the number of bytes");
    schedule_need_word(r, "dtype");
    c.dtype = schedule_read_dtype(r);
    c.count = bytes / dtype_bytes(c.dtype);
    if (c.count * dtype_bytes(c.dtype) != bytes)
        schedule_error(&start, "%lld bytes are no whole number of elements", (long long)bytes);
    schedule_need_word(r, "via");
    for (int i = 0; i < MGPU_WAYS; i++)
        ways[i] = mgpu_way_name(i);
    c.way = (uint8_t)schedule_read_choice(r, "how it is made", ways, MGPU_WAYS);
    if (schedule_take_word(r, "why")) {
        schedule_skip_blanks(r);
        c.why = schedule_read_quoted(r);
    }
    for (bool more = schedule_take_word(r, "of"); more; schedule_skip_blanks(r), more = *r->at && *r->at != '\n' && *r->at != '#') {
        const char *name = schedule_read_name(r, "what it sums");
        APPEND(c.of, c.of_count, name);
    }
    schedule_end_record(r);
    APPEND(p->collectives, p->collective_count, c);
    map_set(&r->collectives, c.name, (void *)(intptr_t)p->collective_count);
}

/* ---- reading: phases */
static void *copy_of(const void *list, int count, size_t bytes)
{
    return count ? memcpy(allocate((size_t)count * bytes), list, (size_t)count * bytes) : NULL;
}

/* so that it has its own, whatever becomes of the other device's */
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

static void end_phase(Reader *r)
{
    if (!r->phase)
        return;
    if (r->device_count != r->schedule->devices)
        error_at(&r->phase_place, "the phase has %d devices, the schedule %d", r->device_count, r->schedule->devices);
    for (int d = 0; d < r->device_count; d++) {
        DeviceNames *names = &r->names[d];
        for (int i = 0; i < names->wait_count; i++) {
            int op = (int)(intptr_t)map_get(&names->ops, names->waits[i].name) - 1;
            if (op < 0)
                error_at(&names->waits[i].at, "device %d has no operation '%s'", d, names->waits[i].name);
            r->phase->devices[d].ops[names->pending[i].op].waits[names->pending[i].wait].op = op;
        }
    }
    for (int i = 0; i < r->reduce_count; i++) {
        ScheduledOp *op = &r->phase->devices[r->reduces[i].device].ops[r->reduces[i].op];
        op->target = (int)(intptr_t)map_get(&r->collectives, op->label) - 1;
        if (op->target < 0)
            error_at(&r->reduces[i].at, "the phase has no collective '%s'", op->label);
        r->phase->collectives[op->target].lane = op->lane;
        int is = r->phase->collectives[op->target].parties.transfer;
        if (is != r->reduces[i].transfer)
            error_at(&r->reduces[i].at, "'%s' of '%s', whose kind is %s", transfer_word(r->reduces[i].transfer), op->label, mgpu_transfer_row(is)->kind);
    }
    for (int d = 0; d < r->device_count; d++)
        if (r->names[d].as != d)
            copy_records(&r->phase->devices[d], &r->phase->devices[r->names[d].as]);
}

static void read_phase(Reader *r)
{
    Schedule *s = r->schedule;
    end_phase(r);
    r->phase_place = schedule_place(r);
    PhaseSchedule p = {.name = schedule_read_name(r, "the name of a phase")};
    schedule_end_record(r);
    APPEND(s->phases, s->phase_count, p);
    r->phase = &s->phases[s->phase_count - 1];
    r->device_count = 0;
    r->collectives = (Map){0};
    r->reduces = NULL;
    r->reduce_count = 0;
}

static void read_device_record(Reader *r)
{
    int count = r->device_count, also = count;
    DeviceSchedule device = {0};
    DeviceNames names = {0};
    APPEND(r->phase->devices, count, device);
    APPEND(r->names, also, names);
    r->names[r->device_count] = names;
    read_device(r);
}

Schedule *schedule_read(const char *file, const char *text)
{
    Reader r = {.source = NEW(Source), .at = text, .line_start = text, .line = 1};
    *r.source = (Source){.file = file, .text = text, .length = strlen(text)};
    static const struct Record { const char *word; void (*read)(Reader *); } RECORDS[] = {
        {"device", read_device_record}, {"buffer", read_buffer}, {"op", read_op}, {"collective", read_collective}};
    Schedule *s = r.schedule = NEW(Schedule);
    schedule_next_record(&r);
    if (!schedule_take_word(&r, "mgpu-schedule"))
        schedule_error(&r, "this is no schedule: a schedule begins with 'mgpu-schedule 3'");
    schedule_skip_blanks(&r);
    Reader start = r;
    int version = schedule_read_int(&r, "the version of the format");
    if (version < 2 || version > 3) /* in version 2, no device is as another one */
        schedule_error(&start, version == 1 ? "version 1 of the format has no table of kernels, and this mgpuc reads versions 2 and 3: write the schedule anew with "
                                     "mgpuc --emit schedule, or compile the program anew"
                                   : "this version of the format is unknown; this mgpuc reads versions 2 and 3");
    schedule_end_record(&r);
    schedule_next_record(&r);
    read_model(&r);
    bool more = schedule_next_record(&r);
    if (more && schedule_take_word(&r, "plan")) {
        read_plan(&r);
        more = schedule_next_record(&r);
    }
    if (more && schedule_take_word(&r, "phases")) {
        read_phase_digests(&r);
        more = schedule_next_record(&r);
    }
    for (; more && schedule_take_word(&r, "kernel"); more = schedule_next_record(&r))
        read_signature(&r);
    for (; more; more = schedule_next_record(&r)) {
        if (schedule_take_word(&r, "phase")) {
            read_phase(&r);
            continue;
        }
        int record = 0;
        while (record < COUNT(RECORDS) && !schedule_at_word(&r, RECORDS[record].word))
            record++;
        if (record == COUNT(RECORDS))
            schedule_error(&r, "a record is a phase, device, buffer, op or collective; those of kernels come before the first phase");
        if (!r.phase)
            schedule_error(&r, "a '%s' belongs to a phase; expected 'phase'", RECORDS[record].word);
        schedule_take(&r, RECORDS[record].word);
        RECORDS[record].read(&r);
    }
    end_phase(&r);
    return s;
}
