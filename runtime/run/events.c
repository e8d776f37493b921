/* events.c: writes scalars and histograms of a run to an event file of TensorBoard (`--tensorboard DIR`).
 *
 * A file is a list of records as TensorFlow writes them (tensorflow/core/lib/io/record_writer.h): length (64 bits), its checksum,
 * the bytes, their checksum; numbers are little-endian. The checksum is CRC-32C (Castagnoli; RFC 3720, appendix B.4), rotated
 * right by 15 bits, plus a constant. A record is a message Event of protocol buffers (tensorflow/core/util/event.proto; the wire
 * format in "Protocol Buffers: Encoding"): wall_time = 1 (double), step = 2 (varint), file_version = 3 (text), summary = 5, a
 * message with values = 1, each with tag = 1 (text) and simple_value = 2 (float). A histogram is histo = 5 (summary.proto): min,
 * max, num, sum, sum_squares = 1 to 5 (double), bucket_limit = 6, bucket = 7 (packed doubles: upper limit and count of each
 * interval). */
#include "runtime/run/events.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { MOST_BYTES = 1200 }; /* limit of a record: longer tags are truncated */
enum { VARINT = 0, FIXED64 = 1, BYTES = 2, FIXED32 = 5 };
enum {
    EVENT_WALL = 1,
    EVENT_STEP = 2,
    EVENT_VERSION = 3,
    EVENT_SUMMARY = 5,
    SUMMARY_VALUE = 1,
    VALUE_TAG = 1,
    VALUE_NUMBER = 2,
    VALUE_HISTOGRAM = 5
};
enum { HISTOGRAM_LIMIT = 6, HISTOGRAM_COUNT = 7, INTERVALS = 30 };

struct Events {
    FILE *file;
    char *path;
    uint32_t table[256];
};
typedef struct Message {
    uint8_t bytes[MOST_BYTES];
    size_t length;
} Message;

/* ---- checksums */
static void make_table(uint32_t *table)
{
    const uint32_t CASTAGNOLI = 0x82f63b78; /* the polynomial with its bits reversed */
    for (uint32_t i = 0; i < 256; i++) {
        table[i] = i;
        for (int bit = 0; bit < 8; bit++)
            table[i] = table[i] & 1 ? table[i] >> 1 ^ CASTAGNOLI : table[i] >> 1;
    }
}

static uint32_t masked_sum(const Events *e, const uint8_t *bytes, size_t count)
{
    uint32_t sum = 0xffffffff;
    for (size_t i = 0; i < count; i++)
        sum = e->table[(sum ^ bytes[i]) & 255] ^ sum >> 8;
    sum = ~sum;
    return (sum >> 15 | sum << 17) + 0xa282ead8;
}

/* ---- messages */
static void add_fixed(Message *m, uint64_t value, int bytes)
{
    for (int i = 0; i < bytes; i++)
        m->bytes[m->length++] = (uint8_t)(value >> 8 * i);
}

static void add_varint(Message *m, uint64_t value)
{
    for (; value > 127; value >>= 7)
        m->bytes[m->length++] = (uint8_t)(value | 128);
    m->bytes[m->length++] = (uint8_t)value;
}

static void add_key(Message *m, int field, int type) { add_varint(m, (uint64_t)(field << 3 | type)); }

static void add_double(Message *m, int field, double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    add_key(m, field, FIXED64);
    add_fixed(m, bits, 8);
}

static void add_float(Message *m, int field, double value)
{
    uint32_t bits;
    float narrow = (float)value;
    memcpy(&bits, &narrow, sizeof bits);
    add_key(m, field, FIXED32);
    add_fixed(m, bits, 4);
}

static void add_bytes(Message *m, int field, const void *bytes, size_t count)
{
    add_key(m, field, BYTES);
    add_varint(m, count);
    memcpy(m->bytes + m->length, bytes, count);
    m->length += count;
}

static void write_record(Events *e, const Message *m)
{
    Message head = {.length = 0}, tail = {.length = 0};
    add_fixed(&head, m->length, 8);
    add_fixed(&head, masked_sum(e, head.bytes, 8), 4);
    add_fixed(&tail, masked_sum(e, m->bytes, m->length), 4);
    fwrite(head.bytes, 1, head.length, e->file);
    fwrite(m->bytes, 1, m->length, e->file);
    fwrite(tail.bytes, 1, tail.length, e->file);
}

/* ---- files */
static double wall_time(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

Events *mgpu_events_open(const char *folder)
{
    char host[65] = "host";
    Events *e = mgpu_allocate(1, sizeof *e);
    gethostname(host, sizeof host - 1);
    make_table(e->table);
    if (mkdir(folder, 0777) != 0 && errno != EEXIST)
        mgpu_fail(MGPU_MACHINE_FAILED, "--tensorboard %s: the folder cannot be made: %s", folder, strerror(errno));
    e->path = mgpu_format("%s/events.out.tfevents.%010lld.%s.%d.0", folder, (long long)wall_time(), host, (int)getpid());
    e->file = fopen(e->path, "wxe"); /* a new file: never writes to what others have put there */
    if (!e->file)
        mgpu_fail(MGPU_MACHINE_FAILED, "--tensorboard: %s cannot be written: %s", e->path, strerror(errno));
    Message first = {.length = 0};
    add_double(&first, EVENT_WALL, wall_time());
    add_bytes(&first, EVENT_VERSION, "brain.Event:2", strlen("brain.Event:2"));
    write_record(e, &first);
    return e;
}

static Message tagged(const char *group, const char *name)
{
    char tag[200];
    Message value = {.length = 0};
    snprintf(tag, sizeof tag, "%s/%s", group, name);
    add_bytes(&value, VALUE_TAG, tag, strlen(tag));
    return value;
}

static void write_value(Events *e, const Message *value, int64_t step, double wall)
{
    Message summary = {.length = 0}, event = {.length = 0};
    add_bytes(&summary, SUMMARY_VALUE, value->bytes, value->length);
    add_double(&event, EVENT_WALL, wall);
    add_key(&event, EVENT_STEP, VARINT);
    add_varint(&event, (uint64_t)step);
    add_bytes(&event, EVENT_SUMMARY, summary.bytes, summary.length);
    write_record(e, &event);
}

void mgpu_events_scalar(Events *e, const char *group, const char *name, int64_t step, double wall, double value)
{
    if (!e || isnan(value))
        return;
    Message number = tagged(group, name);
    add_float(&number, VALUE_NUMBER, value);
    write_value(e, &number, step, wall);
}

/* ---- histograms */
typedef struct Histogram {
    double sums[5];
    double limits[INTERVALS], counts[INTERVALS];
} Histogram; /* sums: minimum, maximum, count, sum, sum of squares */

static Histogram histogram_of(const void *values, uint8_t dtype, int64_t count)
{
    Histogram h = {.sums = {INFINITY, -INFINITY}};
    for (int64_t i = 0; i < count; i++) {
        double v = mgpu_to_double(values, dtype, i);
        if (!isfinite(v))
            continue;
        h.sums[0] = fmin(h.sums[0], v);
        h.sums[1] = fmax(h.sums[1], v);
        h.sums[2]++;
        h.sums[3] += v;
        h.sums[4] += v * v;
    }
    double low = h.sums[0], size = h.sums[1] - low;
    for (int k = 0; k < INTERVALS; k++)
        h.limits[k] = k + 1 < INTERVALS ? low + size * (k + 1) / INTERVALS : h.sums[1];
    for (int64_t i = 0; i < count; i++) {
        double v = mgpu_to_double(values, dtype, i);
        int k = isfinite(v) && size > 0 ? (int)((v - low) / size * INTERVALS) : 0;
        h.counts[k < INTERVALS ? k : INTERVALS - 1] += isfinite(v);
    }
    return h;
}

static void add_doubles(Message *m, int field, const double *values)
{
    Message packed = {.length = 0};
    for (int k = 0; k < INTERVALS; k++) {
        uint64_t bits;
        memcpy(&bits, &values[k], sizeof bits);
        add_fixed(&packed, bits, sizeof bits);
    }
    add_bytes(m, field, packed.bytes, packed.length);
}

void mgpu_events_histogram(Events *e, const char *group, const char *name, int64_t step, const void *values, uint8_t dtype,
                           int64_t count)
{
    Histogram h = histogram_of(values, dtype, count);
    Message value = tagged(group, name), histogram = {.length = 0};
    if (h.sums[2] <= 0)
        return;
    for (int i = 0; i < 5; i++)
        add_double(&histogram, i + 1, h.sums[i]);
    add_doubles(&histogram, HISTOGRAM_LIMIT, h.limits);
    add_doubles(&histogram, HISTOGRAM_COUNT, h.counts);
    add_bytes(&value, VALUE_HISTOGRAM, histogram.bytes, histogram.length);
    write_value(e, &value, step, wall_time());
}

/* ---- what a run reports. Events may be NULL */
void mgpu_events_step(Events *e, const StepReport *s, double rate, double wall)
{
    for (int i = 0; e && i < s->count; i++)
        mgpu_events_scalar(e, "step", s->names[i], s->step, wall, s->values[i]);
    mgpu_events_scalar(e, "speed", "samples_per_s", s->step, wall, rate);
    mgpu_events_scalar(e, "speed", "input_wait_ms", s->step, wall, s->input_wait_ms);
    mgpu_events_scalar(e, "speed", "communication_wait_ms", s->step, wall, s->communication_wait_ms);
}

void mgpu_events_values(Events *e, const Evaluation *v, int64_t step, double wall)
{
    for (int i = 0; e && v->values && i < v->count; i++)
        mgpu_events_scalar(e, v->split, v->names[i], step, wall, v->values[i]);
}

void mgpu_events_times(Events *e, const EpochTimes *t, int64_t step, double wall)
{
    mgpu_events_scalar(e, "speed", "step_ms", step, wall, t->step);
    mgpu_events_scalar(e, "speed", "computing_ms", step, wall, t->computing);
}

const char *mgpu_events_flush(Events *e)
{
    errno = 0;
    return !e || (fflush(e->file) == 0 && !ferror(e->file)) ? NULL : strerror(errno ? errno : ENOSPC);
}

const char *mgpu_events_path(const Events *e) { return e->path; }

void mgpu_events_close(Events *e)
{
    if (!e)
        return;
    fclose(e->file);
    free(e->path);
    free(e);
}
