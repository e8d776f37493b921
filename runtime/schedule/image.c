/* image.c: converts a schedule to and from its image, the bytes that a program contains, by the tables of records.c. Each
 * function here works in both directions: it takes a value, and returns that value when packing, or the unpacked one.
 *
 *   image     64-bit words: MAGIC, the size of the body, its size compressed by zlib, a digest of the tables, the body's SHA-256
 *             (4 words), the compressed body
 *   body      the number of texts, the texts, each with its NUL; then the records, in the order of a schedule's text
 *   number    its difference from its usual value, with the sign in the lowest bit; seven bits in a byte, the lowest first
 *   text      its number, from 1 on; 0: none
 *   list      its length, then its items
 *
 * Times and shares have as many decimals as in the text, so that reading a printed schedule and packing it gives the same image.
 * An image is not trusted: whatever would lead outside of an array or a type's range is rejected. */
#include "runtime/base/sha256.h"
#include "runtime/schedule/schedule.h"

#include <stdlib.h>
#include <string.h>
#include <zlib.h>

static const uint64_t MAGIC = 0x316867696d67706dull;                      /* "mpgmigh1", as bytes that no text of ours contains */
enum { BODY_BYTES = 1, PACKED_BYTES, TABLES, SHA256, HEAD = SHA256 + 4 }; /* the words of an image */
enum { LAYOUT = 2, MOST_RATIO = 1040 }; /* version of what the tables do not describe; the highest compression of zlib */

typedef struct ByteBuffer {
    uint8_t *data;
    size_t length, capacity;
} ByteBuffer;
typedef struct ScheduleImage {
    mgpu_reader *memory;
    const uint8_t *at, *end; /* the bytes to unpack; at is NULL when packing */
    ByteBuffer *out;
    mgpu_names texts;  /* the texts packed so far */
    const char **pool; /* the unpacked texts */
    int pool_count;
    const Schedule *schedule;
    const PhaseSchedule *phase;
    const DeviceSchedule *device;
} ScheduleImage;

_Noreturn void mgpu_wrong_image(const mgpu_reader *r, const char *message)
{
    (void)r;
    mgpu_die("%s", message);
}

static _Noreturn void damaged(const ScheduleImage *i)
{
    mgpu_wrong(i->memory, "the image of the schedule is damaged: compile the program anew");
}

/* ---- values */
static void put_byte(ByteBuffer *b, uint64_t byte)
{
    if (b->length == b->capacity) {
        b->capacity = b->capacity ? 2 * b->capacity : 4096;
        b->data = realloc(b->data, b->capacity);
        if (!b->data)
            mgpu_no_memory(b->capacity);
    }
    b->data[b->length++] = (uint8_t)byte;
}

static void put_bytes(ByteBuffer *b, const void *bytes, size_t count)
{
    for (size_t k = 0; k < count; k++)
        put_byte(b, ((const uint8_t *)bytes)[k]);
}

static int64_t whole(ScheduleImage *i, int64_t value, int64_t usual)
{
    if (!i->at) {
        uint64_t difference = (uint64_t)value - (uint64_t)usual, bits = difference << 1 ^ (0 - (difference >> 63));
        for (; bits >= 128; bits >>= 7)
            put_byte(i->out, bits | 128);
        put_byte(i->out, bits);
        return value;
    }
    uint64_t bits = 0;
    for (int shift = 0;; shift += 7) {
        if (i->at == i->end || shift > 63)
            damaged(i);
        bits |= (uint64_t)(*i->at & 127) << shift;
        if (!(*i->at++ & 128))
            break;
    }
    return (int64_t)((bits >> 1 ^ (0 - (bits & 1))) + (uint64_t)usual);
}

static int64_t ranged(ScheduleImage *i, int64_t value, int64_t usual, int64_t least, int64_t most)
{
    value = whole(i, value, usual);
    if (i->at && value != usual && (value < least || value > most))
        damaged(i);
    return value;
}

static int number_below(ScheduleImage *i, int value, int64_t end)
{
    value = (int)ranged(i, value, -1, 0, end - 1 < INT32_MAX ? end - 1 : INT32_MAX);
    if (i->at && value < 0)
        damaged(i);
    return value;
}

/* Handles a number as it is printed with this many decimals. */
static void decimal(ScheduleImage *i, double *value, int decimals)
{
    double scale = decimals == 4 ? 1e4 : decimals == 1 ? 10 : 1;
    int64_t scaled = 0;
    if (!i->at) {
        char text[400], *point;
        snprintf(text, sizeof text, "%.*f", decimals, *value);
        if ((point = strchr(text, '.')))
            memmove(point, point + 1, strlen(point));
        scaled = strtoll(text, NULL, 10);
    }
    scaled = whole(i, scaled, 0);
    if (i->at && decimals == 1 && (scaled < 0 || (double)scaled / scale >= 1e15)) /* no time */
        damaged(i);
    if (i->at)
        *value = (double)scaled / scale;
}

static const char *text(ScheduleImage *i, const char *value)
{
    if (i->at) {
        int64_t number = ranged(i, 0, 0, 1, i->pool_count);
        return number ? i->pool[number - 1] : NULL;
    }
    if (value)
        mgpu_enter_name(i->memory, &i->texts, value);
    whole(i, value ? 1 + mgpu_name_number(&i->texts, value) : 0, 0);
    return value;
}

static const char *some_text(ScheduleImage *i, const char *value)
{
    value = text(i, value || i->at ? value : "");
    if (!value)
        damaged(i);
    return value;
}

/* Handles the length of a list, and allocates the list when unpacking. An item has at least one byte, which bounds the length. */
static void *items(ScheduleImage *i, void *list, int *count, size_t bytes)
{
    *count = (int)ranged(i, *count, 0, 0, i->at && i->end - i->at < INT32_MAX ? i->end - i->at : INT32_MAX);
    return i->at && *count ? i->memory->allocate(i->memory->memory, (size_t)*count * bytes) : list;
}

/* ---- the kinds of fields that only schedules have */
static void one_access(ScheduleImage *i, Access *a)
{
    a->buffer = number_below(i, a->buffer, i->device->buffer_count);
    a->slot = (int)ranged(i, a->slot, 0, -INT32_MAX, INT32_MAX);
    a->begin = ranged(i, a->begin, 0, 0, INT64_MAX);
    a->end = ranged(i, a->end, i->device->buffers[a->buffer].bytes, 0, INT64_MAX);
    a->of = ranged(i, a->of, 0, 0, INT64_MAX);
}

static Access *accesses(ScheduleImage *i, Access *list, int *count)
{
    list = items(i, list, count, sizeof *list);
    for (int k = 0; k < *count; k++)
        one_access(i, &list[k]);
    return list;
}

static void waits(ScheduleImage *i, ScheduledOp *op)
{
    op->waits = items(i, op->waits, &op->wait_count, sizeof *op->waits);
    for (int k = 0; k < op->wait_count; k++) {
        op->waits[k].op = number_below(i, op->waits[k].op, i->device->op_count);
        op->waits[k].back = (int)ranged(i, op->waits[k].back, 0, 0, INT32_MAX);
    }
}

static void nan_sources(ScheduleImage *i, ScheduledOp *op)
{
    NanSource *list = items(i, (NanSource *)(uintptr_t)op->nan_sources, &op->nan_source_count, sizeof *list);
    for (int k = 0; k < op->nan_source_count; k++) {
        list[k].word = some_text(i, list[k].word);
        list[k].layer = some_text(i, list[k].layer);
        list[k].line = (int)ranged(i, list[k].line, 0, 0, INT32_MAX);
        list[k].required = text(i, list[k].required);
    }
    op->nan_sources = list;
}

static void members(ScheduleImage *i, CollectiveRecord *c)
{
    int devices = i->schedule->devices;
    if (i->at)
        c->ops = i->memory->allocate(i->memory->memory, (size_t)(devices + 1) * sizeof *c->ops);
    for (int d = 0; d < devices; d++)
        c->ops[d] = (int)ranged(i, c->ops[d], -1, 0, i->phase->devices[d].op_count - 1);
}

static void participants(ScheduleImage *i, mgpu_participants *p)
{
    p->transfer = (uint8_t)number_below(i, p->transfer, MGPU_TRANSFERS);
    p->from = (int)ranged(i, p->from, 0, 0, INT32_MAX);
    p->to = (int)ranged(i, p->to, 0, 0, INT32_MAX);
    if (!mgpu_transfer_splits(p->transfer))
        return;
    size_t bytes = (size_t)(i->schedule->devices + 1) * sizeof *p->parts;
    int64_t *parts = i->at ? i->memory->allocate(i->memory->memory, bytes) : (int64_t *)(uintptr_t)p->parts;
    for (int d = 0; d <= i->schedule->devices; d++)
        parts[d] = ranged(i, parts[d], 0, 0, INT64_MAX);
    p->parts = parts;
}

static Parameter *parameters(ScheduleImage *i, Parameter *list, int *count)
{
    list = items(i, list, count, sizeof *list);
    for (int k = 0; k < *count; k++) {
        list[k].dtype = (unsigned)number_below(i, (int)list[k].dtype, MGPU_DTYPES);
        list[k].bytes = ranged(i, list[k].bytes, 0, 0, INT64_MAX);
        list[k].each = ranged(i, list[k].each, 0, 0, INT64_MAX);
        list[k].over = (int)ranged(i, list[k].over, 0, 0, INT32_MAX);
    }
    return list;
}

static void special(ScheduleImage *i, const mgpu_field *f, void *base)
{
    ScheduledOp *op = base;
    CollectiveRecord *c = base;
    DeviceSchedule *d = base;
    Signature *k = base;
    switch (f->kind) {
    case FIELD_SAMPLES:
        d->first = ranged(i, d->first, 0, 0, INT64_MAX);
        d->share = ranged(i, d->share, 0, 0, INT64_MAX - d->first);
        break;
    case FIELD_VERB:
        op->verb = (uint8_t)number_below(i, op->verb, VERBS);
        op->target = (int)ranged(i, op->target, -1, 0, INT32_MAX);
        op->label = some_text(i, op->label);
        break;
    case FIELD_OWN:
        op->elements = ranged(i, op->elements, 0, 0, INT64_MAX);
        op->own.begin = ranged(i, op->own.begin, 0, 0, INT64_MAX);
        op->own.end = ranged(i, op->own.end, 0, op->own.begin, INT64_MAX);
        break;
    case FIELD_READS: op->reads = accesses(i, op->reads, &op->read_count); break;
    case FIELD_WRITES: op->writes = accesses(i, op->writes, &op->write_count); break;
    case FIELD_WAITS: waits(i, op); break;
    case FIELD_CALL_DIGEST: op->digest = (uint32_t)ranged(i, op->verb == VERB_CALL ? op->digest : 0, 0, 0, UINT32_MAX); break;
    case FIELD_NAN_SOURCES: nan_sources(i, op); break;
    case FIELD_MEMBERS: members(i, c); break;
    case FIELD_PARTICIPANTS: participants(i, &c->participants); break;
    case FIELD_COUNT:
        c->dtype = (uint8_t)number_below(i, c->dtype, MGPU_DTYPES);
        c->count = ranged(i, c->count, 0, 0, INT64_MAX / 16);
        break;
    case FIELD_KERNEL:
        k->label = some_text(i, k->label);
        k->kernel = (int)ranged(i, k->kernel, 0, 0, INT32_MAX);
        break;
    case FIELD_PARAMETERS:
        MGPU_MEMBER(Parameter *, base, f->at) =
            parameters(i, MGPU_MEMBER(Parameter *, base, f->at), &MGPU_MEMBER(int, base, f->more));
        break;
    case FIELD_LABEL: ((Policy *)base)->forward = ranged(i, ((Policy *)base)->forward, 0, 0, 1) != 0; break;
    default: break;
    }
}

/* ---- fields */
static void small(ScheduleImage *i, const mgpu_field *f, void *base)
{
    int64_t most = f->kind == MGPU_FIELD_CHOICE         ? f->name_count - 1
                   : f->kind == MGPU_FIELD_TYPE         ? MGPU_DTYPES - 1
                   : f->kind == MGPU_FIELD_TYPE_OR_NONE ? MGPU_DTYPES
                   : f->bytes == 1                      ? UINT8_MAX
                                                        : INT32_MAX;
    int value = (int)ranged(i, mgpu_small_member(f, base), f->usual, f->least, most);
    if (f->bytes == 1)
        MGPU_MEMBER(uint8_t, base, f->at) = (uint8_t)value;
    else
        MGPU_MEMBER(int, base, f->at) = value;
}

static void names(ScheduleImage *i, const mgpu_field *f, void *base)
{
    const char **list = items(i, MGPU_MEMBER(const char **, base, f->at), &MGPU_MEMBER(int, base, f->more), sizeof *list);
    for (int k = 0; k < MGPU_MEMBER(int, base, f->more); k++)
        list[k] = some_text(i, list[k]);
    MGPU_MEMBER(const char **, base, f->at) = list;
}

static void field(ScheduleImage *i, const mgpu_field *f, void *base)
{
    double *number = &MGPU_MEMBER(double, base, f->at);
    double none = 0;
    int64_t bits = 0;
    switch (f->kind) {
    case MGPU_FIELD_WHOLE:
        MGPU_MEMBER(int64_t, base, f->at) = ranged(i, MGPU_MEMBER(int64_t, base, f->at), f->usual, f->least, INT64_MAX);
        break;
    case MGPU_FIELD_INT:
    case MGPU_FIELD_TYPE:
    case MGPU_FIELD_TYPE_OR_NONE:
    case MGPU_FIELD_CHOICE: small(i, f, base); break;
    case MGPU_FIELD_NUMBER:
        memcpy(&bits, number, sizeof bits);
        bits = whole(i, bits, 0);
        memcpy(number, &bits, sizeof bits);
        break;
    case MGPU_FIELD_TIME: decimal(i, number, 1); break;
    case MGPU_FIELD_TIMES:
        for (int k = 0; k < f->name_count; k++)
            decimal(i, &number[k], 1);
        break;
    case MGPU_FIELD_SHARE: decimal(i, number, 4); break;
    case MGPU_FIELD_AMOUNT: decimal(i, !i->at && f->optional && *number < 1 ? &none : number, 0); break;
    case MGPU_FIELD_FLAG: MGPU_MEMBER(bool, base, f->at) = ranged(i, MGPU_MEMBER(bool, base, f->at), 0, 0, 1) != 0; break;
    case MGPU_FIELD_NAME:
    case MGPU_FIELD_TEXT:
        MGPU_MEMBER(const char *, base, f->at) =
            f->optional ? text(i, MGPU_MEMBER(const char *, base, f->at)) : some_text(i, MGPU_MEMBER(const char *, base, f->at));
        break;
    case MGPU_FIELD_NAMES: names(i, f, base); break;
    case MGPU_FIELD_DIGEST:
        MGPU_MEMBER(uint32_t, base, f->at) = (uint32_t)ranged(i, MGPU_MEMBER(uint32_t, base, f->at), 0, 0, UINT32_MAX);
        break;
    default: special(i, f, base); break;
    }
}

static void fields(ScheduleImage *i, const mgpu_record *r, void *base)
{
    for (int k = 0; k < r->field_count; k++)
        field(i, &r->fields[k], base);
}

/* ---- records */
static void lists(ScheduleImage *i, DeviceSchedule *d)
{
    i->device = d;
    d->buffers = items(i, d->buffers, &d->buffer_count, sizeof *d->buffers);
    for (int k = 0; k < d->buffer_count; k++) {
        d->buffers[k].name = some_text(i, d->buffers[k].name);
        fields(i, &BUFFER_RECORD, &d->buffers[k]);
    }
    d->ops = items(i, d->ops, &d->op_count, sizeof *d->ops);
    for (int k = 0; k < d->op_count; k++) {
        d->ops[k].id = some_text(i, d->ops[k].id);
        fields(i, &OP_RECORD, &d->ops[k]);
    }
}

/* Packs a device's lists, or the number of an earlier device with the same lists. packed: the packed lists of earlier devices. */
static void pack_lists(ScheduleImage *i, PhaseSchedule *p, int device, ByteBuffer *packed)
{
    ByteBuffer *out = i->out, *own = &packed[device];
    DeviceSchedule *d = &p->devices[device];
    int as = 0;
    while (as < device && (p->devices[as].ops != d->ops || p->devices[as].buffers != d->buffers))
        as++;
    if (as == device) {
        i->out = own;
        lists(i, d);
        i->out = out;
        for (as = 0; as < device && (packed[as].length != own->length || memcmp(packed[as].data, own->data, own->length) != 0);)
            as++;
    } else {
        while (!packed[as].length)
            as = p->devices[as].as;
    }
    d->as = as;
    whole(i, as, device);
    if (as == device)
        put_bytes(out, own->data, own->length);
    else
        own->length = 0;
}

static void unpack_lists(ScheduleImage *i, PhaseSchedule *p, int device)
{
    DeviceSchedule *d = &p->devices[device], *other;
    d->as = (int)ranged(i, 0, device, 0, device);
    other = &p->devices[d->as];
    if (d->as == device) {
        lists(i, d);
        return;
    }
    if (other->as != d->as)
        damaged(i);
    d->buffers = other->buffers;
    d->buffer_count = other->buffer_count;
    d->ops = other->ops;
    d->op_count = other->op_count;
}

/* Checks that each transfer has a collective, which follows it in the image, and sets the lane of the collective. */
static void check_phase(const ScheduleImage *i, const PhaseSchedule *p)
{
    for (int d = 0; d < i->schedule->devices; d++)
        for (int k = 0; p->devices[d].as == d && k < p->devices[d].op_count; k++) {
            const ScheduledOp *op = &p->devices[d].ops[k];
            if (op->verb != VERB_TRANSFER)
                continue;
            if (op->target < 0 || op->target >= p->collective_count)
                damaged(i);
            p->collectives[op->target].lane = op->lane;
        }
}

static void phase(ScheduleImage *i, PhaseSchedule *p)
{
    int devices = i->schedule->devices;
    ByteBuffer *packed = i->memory->allocate(i->memory->memory, (size_t)devices * sizeof *packed);
    i->phase = p;
    p->name = some_text(i, p->name);
    fields(i, &PHASE_RECORD, p);
    if (i->at)
        p->devices = i->memory->allocate(i->memory->memory, (size_t)devices * sizeof *p->devices);
    for (int d = 0; d < devices; d++) {
        fields(i, &DEVICE_RECORD, &p->devices[d]);
        if (i->at)
            unpack_lists(i, p, d);
        else
            pack_lists(i, p, d, packed);
    }
    for (int d = 0; d < devices; d++)
        free(packed[d].data);
    p->collectives = items(i, p->collectives, &p->collective_count, sizeof *p->collectives);
    for (int k = 0; k < p->collective_count; k++) {
        p->collectives[k].name = some_text(i, p->collectives[k].name);
        fields(i, &COLLECTIVE_RECORD, &p->collectives[k]);
    }
    check_phase(i, p);
}

static void policy(ScheduleImage *i, Schedule *s)
{
    bool present = ranged(i, s->policy != NULL, 0, 0, 1) != 0;
    Policy *p = !present ? NULL : i->at ? i->memory->allocate(i->memory->memory, sizeof *p) : (Policy *)(uintptr_t)s->policy;
    if (!p)
        return;
    p->name = some_text(i, p->name);
    fields(i, &PLAN_RECORD, p);
    s->policy = p;
}

static void remarks(ScheduleImage *i, Schedule *s)
{
    bool predicted = ranged(i, s->step.machine != NULL, 0, 0, 1) != 0;
    for (int k = 0; k < REMARKS; k++) {
        const mgpu_record *r = &REMARK[k];
        if (!r->size && (predicted || r->fields[0].optional))
            fields(i, r, s);
        if (!r->size)
            continue;
        char *list = MGPU_MEMBER(char *, s, r->list) =
            items(i, MGPU_MEMBER(char *, s, r->list), &MGPU_MEMBER(int, s, r->count), r->size);
        for (int n = 0; n < MGPU_MEMBER(int, s, r->count); n++)
            fields(i, r, list + (size_t)n * r->size);
    }
}

static void body(ScheduleImage *i, Schedule *s)
{
    i->schedule = s;
    fields(i, &MODEL_RECORD, s);
    if (i->at && (s->devices < 1 || s->devices > i->end - i->at))
        damaged(i);
    remarks(i, s);
    policy(i, s);
    s->phase_digests = items(i, s->phase_digests, &s->phase_digest_count, sizeof *s->phase_digests);
    for (int k = 0; k < s->phase_digest_count; k++) {
        s->phase_digests[k].phase = some_text(i, s->phase_digests[k].phase);
        s->phase_digests[k].digest = (uint32_t)ranged(i, s->phase_digests[k].digest, 0, 0, UINT32_MAX);
    }
    s->signatures = items(i, s->signatures, &s->signature_count, sizeof *s->signatures);
    for (int k = 0; k < s->signature_count; k++)
        fields(i, &KERNEL_RECORD, &s->signatures[k]);
    s->phases = items(i, s->phases, &s->phase_count, sizeof *s->phases);
    for (int k = 0; k < s->phase_count; k++)
        phase(i, &s->phases[k]);
}

/* ---- images */
static uint64_t mix(uint64_t digest, const void *bytes, size_t count)
{
    for (size_t k = 0; k < count; k++)
        digest = (digest ^ ((const uint8_t *)bytes)[k]) * 1099511628211ull;
    return digest;
}

static uint64_t digest_record(uint64_t digest, const mgpu_record *r)
{
    for (int k = 0; k < r->field_count; k++) {
        const mgpu_field *f = &r->fields[k];
        const int64_t NUMBERS[] = {f->kind, f->name_count, f->usual, f->least, f->optional};
        uint8_t bytes[sizeof NUMBERS];
        memcpy(bytes, NUMBERS, sizeof NUMBERS);
        digest = mix(digest, bytes, sizeof bytes);
        digest = mix(digest, f->word ? f->word : "", f->word ? strlen(f->word) : 0);
        for (int n = 0; f->names && n < f->name_count; n++)
            digest = mix(digest, f->names[n], strlen(f->names[n]) + 1);
    }
    return digest;
}

/* Returns a digest of all tables. An image is read only with the tables that it was written with. */
static uint64_t digest_tables(void)
{
    const mgpu_record *const RECORDS[] = {&MODEL_RECORD,  &PLAN_RECORD,   &KERNEL_RECORD, &PHASE_RECORD,
                                          &DEVICE_RECORD, &BUFFER_RECORD, &OP_RECORD,     &COLLECTIVE_RECORD};
    uint64_t digest = 14695981039346656037ull + LAYOUT;
    for (int k = 0; k < MGPU_COUNT(RECORDS); k++)
        digest = digest_record(digest, RECORDS[k]);
    for (int k = 0; k < REMARKS; k++)
        digest = digest_record(digest, &REMARK[k]);
    return digest;
}

int64_t mgpu_image_words(const uint64_t *image) { return HEAD + (int64_t)(image[PACKED_BYTES] + 7) / 8; }

const uint64_t *mgpu_image_of(mgpu_reader *memory, const void *body, size_t bytes)
{
    uLongf packed = compressBound(bytes);
    uint64_t *image = memory->allocate(memory->memory, (HEAD + (packed + 7) / 8) * sizeof *image);
    Digest digest = mgpu_sha256_of(body, bytes);
    if (compress2((Bytef *)(image + HEAD), &packed, body, bytes, 9) != Z_OK)
        mgpu_no_memory(packed);
    image[0] = MAGIC;
    image[BODY_BYTES] = bytes;
    image[PACKED_BYTES] = packed;
    image[TABLES] = digest_tables();
    memcpy(image + SHA256, digest.bytes, sizeof digest.bytes);
    return image;
}

const uint64_t *mgpu_schedule_pack(mgpu_reader *memory, const Schedule *s)
{
    ByteBuffer records = {0}, all = {0};
    ScheduleImage i = {.memory = memory, .out = &records};
    body(&i, (Schedule *)(uintptr_t)s);
    i.out = &all;
    whole(&i, i.texts.count, 0);
    for (int k = 0; k < i.texts.count; k++)
        put_bytes(&all, i.texts.keys[k], strlen(i.texts.keys[k]) + 1);
    put_bytes(&all, records.data, records.length);
    const uint64_t *image = mgpu_image_of(memory, all.data, all.length);
    free(records.data);
    free(all.data);
    return image;
}

static void unpack_texts(ScheduleImage *i)
{
    i->pool = items(i, NULL, &i->pool_count, sizeof *i->pool);
    for (int k = 0; k < i->pool_count; k++) {
        const uint8_t *nul = memchr(i->at, 0, (size_t)(i->end - i->at));
        if (!nul)
            damaged(i);
        i->pool[k] = i->memory->plain ? mgpu_plain_name(i->memory, (const char *)i->at) : (const char *)i->at;
        i->at = nul + 1;
    }
}

Schedule *mgpu_schedule_unpack(mgpu_reader *memory, const uint64_t *image)
{
    ScheduleImage i = {.memory = memory};
    if (image[TABLES] != digest_tables())
        mgpu_wrong(memory,
                   "the schedule was written by another version of mgpuc, which has other records: compile the program anew");
    if (image[BODY_BYTES] / MOST_RATIO > image[PACKED_BYTES])
        damaged(&i);
    uLongf bytes = image[BODY_BYTES];
    uint8_t *at = memory->allocate(memory->memory, bytes + 1);
    bool complete =
        uncompress(at, &bytes, (const Bytef *)(image + HEAD), image[PACKED_BYTES]) == Z_OK && bytes == image[BODY_BYTES];
    Digest digest = mgpu_sha256_of(at, bytes);
    if (!complete || memcmp(digest.bytes, image + SHA256, sizeof digest.bytes) != 0)
        damaged(&i);
    i.at = at;
    i.end = at + bytes;
    Schedule *s = memory->allocate(memory->memory, sizeof *s);
    unpack_texts(&i);
    body(&i, s);
    if (i.at != i.end)
        damaged(&i);
    return s;
}

const char *mgpu_image_digest(const uint64_t *image, int digits, char text[65])
{
    Digest digest;
    memcpy(digest.bytes, image + SHA256, sizeof digest.bytes);
    return mgpu_digest_text(&digest, digits, text);
}

const uint64_t *mgpu_find_image(const uint64_t *words, int64_t count, int64_t *from)
{
    for (int64_t k = *from; k + HEAD <= count; k++)
        if (words[k] == MAGIC && words[k + PACKED_BYTES] <= (uint64_t)(count - k - HEAD) * 8) {
            *from = k + 1;
            return words + k;
        }
    return NULL;
}
