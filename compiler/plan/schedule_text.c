/* schedule_text.c: Schedule -> text, and back. schedule_write(schedule_read(text)) is the text that was written.
 *
 * One record per line, words apart by spaces. Blank lines and lines that begin with # are skipped by the reader.
 *
 *   file        "mgpu-schedule 1" model phase*
 *   model       "model" NAME "precision" NAME "batch" N "accumulate" N "devices" N
 *   phase       "phase" NAME device* (buffer | op)* collective*
 *   device      "device" N "name" "TEXT" "arena" BYTES "work" BYTES "staging" BYTES "samples" FIRST..END "capacity" N
 *                 devices count from 0; samples are those of a micro-batch: from FIRST up to, not including, END; work:
 *                 the last bytes of the arena, of which each thread of the device's team has its own
 *   buffer      "buffer" dN.NAME "kind" KIND "offset" BYTES "bytes" BYTES "slots" N ["each" BYTES] ["index" N]
 *                 bytes of one slot (local: of a chunk); slots follow each other, each on a multiple of 64; offset in the arena, of staging
 *                 buffers in the staging arena; each: bytes of one sample, where it consists of the device's samples;
 *                 index: of the input, variable or output
 *   op          "op" dN.NAME "lane" LANE VERB LABEL ["strip" N ["samples"] ["chunk" N]] ["reads" access+]
 *                 ["writes" access+] ["waits" wait+] "begin_us" DECIMAL "time_us" DECIMAL "line" N
 *                 the order of a lane is the order of its lines. LABEL: kN, number N of the program's kernels (call); the
 *                 collective (reduce); the output (fetch); else -. strip: calls of the same one follow each other; the
 *                 threads run them without a barrier between them, so the strip waits for what its calls wait for, and they
 *                 are all over when it is; samples: the call works sample by sample; chunk: a thread takes so many of its
 *                 samples through the strip at a time
 *   access      dN.BUFFER ["[" BEGIN ":" END "]"] [slot]     no range: the whole buffer. A call's accesses are its kernel's
 *                 arguments in their order, but for the step block, which every kernel gets anyway
 *   slot        "@+" K | "@-" K                              slot (step + K) mod slots; absent: K is 0
 *   wait        dN.OP ["@-" K]                               the op of the K-th step before; absent: of this step
 *   collective  "collective" NAME "group" "all" "members" (dN.OP)+ "kind" KIND ["from" N] ["to" N] ["parts" N+] "bytes" N
 *                 "dtype" DTYPE "via" NAME
 *                 at most one member per device. KIND: a row of mgpu_transfers.h, as the verb of its members is; bytes: of the
 *                 whole value, of which a member reads and writes what the row says; parts: first element of each device's
 *                 own, and the count of all
 *
 * Names stand bare if they consist of letters, digits and . _ - / only, else in quotes; in quotes \" \\ and \xHH (two
 * hexadecimal digits) stand for characters. A device name is always in quotes. Numbers are whole, but for times: one
 * decimal. */
#include "compiler/base/words.h"
#include "compiler/plan/schedule.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

const char *const LANE_NAME[LANES] = {"comp", "copy", "comm", "host"};
const char *const VERB_NAME[VERBS] = {"call", "read", "upload", "reduce", "report", "fetch"};
const char *const BUFFER_KIND_NAME[BUFFER_KINDS] = {"staging",   "step",   "input",    "variable", "report",
                                                    "output", "temporary", "bucket", "workspace", "local"};

/* ---- writing */
static void write_name(const char *name, Text *t)
{
    if (is_bare_word(name))
        text_add(t, "%s", name);
    else
        write_quoted(name, t);
}

static void write_owned(int device, const char *name, Text *t) /* d0.NAME */
{
    text_add(t, " d%d.", device);
    write_name(name, t);
}

static void write_accesses(const DeviceSchedule *d, int device, const char *word, const Access *accesses, int count, Text *t)
{
    if (count)
        text_add(t, " %s", word);
    for (int i = 0; i < count; i++) {
        const Access *a = &accesses[i];
        const Buffer *b = &d->buffers[a->buffer];
        write_owned(device, b->name, t);
        if (a->begin != 0 || a->end != b->bytes)
            text_add(t, "[%lld:%lld]", (long long)a->begin, (long long)a->end);
        if (a->slot)
            text_add(t, "@%+d", a->slot);
    }
}

static const char *verb_word(const PhaseSchedule *p, const ScheduledOp *op)
{
    return op->verb == VERB_REDUCE ? transfer_word(p->collectives[op->target].parties.transfer) : VERB_NAME[op->verb];
}

static void write_op(const PhaseSchedule *p, int device, const ScheduledOp *op, Text *t)
{
    const DeviceSchedule *d = &p->devices[device];
    text_add(t, "op");
    write_owned(device, op->id, t);
    text_add(t, " lane %s %s ", LANE_NAME[op->lane], verb_word(p, op));
    write_name(op->label, t);
    if (op->strip >= 0)
        text_add(t, " strip %d%s", op->strip, op->by_sample ? " samples" : "");
    if (op->strip >= 0 && op->chunk > 0)
        text_add(t, " chunk %lld", (long long)op->chunk);
    write_accesses(d, device, "reads", op->reads, op->read_count, t);
    write_accesses(d, device, "writes", op->writes, op->write_count, t);
    if (op->wait_count)
        text_add(t, " waits");
    for (int i = 0; i < op->wait_count; i++) {
        write_owned(device, d->ops[op->waits[i].op].id, t);
        if (op->waits[i].back)
            text_add(t, "@-%d", op->waits[i].back);
    }
    text_add(t, " begin_us %.1f time_us %.1f line %d\n", op->begin_us, op->time_us, op->line);
}

static void write_device(const PhaseSchedule *p, int device, Text *t)
{
    const DeviceSchedule *d = &p->devices[device];
    for (int i = 0; i < d->buffer_count; i++) {
        const Buffer *b = &d->buffers[i];
        text_add(t, "buffer");
        write_owned(device, b->name, t);
        text_add(t, " kind %s offset %lld bytes %lld slots %d", BUFFER_KIND_NAME[b->kind], (long long)b->offset,
                 (long long)b->bytes, b->slots);
        if (b->each > 0)
            text_add(t, " each %lld", (long long)b->each);
        if (b->index >= 0)
            text_add(t, " index %d", b->index);
        text_add(t, "\n");
    }
    for (int i = 0; i < d->op_count; i++)
        write_op(p, device, &d->ops[i], t);
}

static void write_collective(const Schedule *s, const PhaseSchedule *p, const Collective *c, Text *t)
{
    text_add(t, "collective ");
    write_name(c->name, t);
    text_add(t, " group all members");
    for (int d = 0; d < s->devices; d++)
        if (c->ops[d] >= 0)
            write_owned(d, p->devices[d].ops[c->ops[d]].id, t);
    const mgpu_transfer *row = mgpu_transfer_row(c->parties.transfer);
    text_add(t, " kind %s", row->kind);
    if (row->ends > 0)
        text_add(t, " from %d", c->parties.from);
    if (row->ends > 1)
        text_add(t, " to %d", c->parties.to);
    if (c->parties.parts)
        text_add(t, " parts");
    for (int d = 0; c->parties.parts && d <= s->devices; d++)
        text_add(t, " %lld", (long long)c->parties.parts[d]);
    text_add(t, " bytes %lld dtype %s via ", (long long)(c->count * dtype_bytes(c->dtype)), dtype_name(c->dtype));
    write_name(c->via, t);
    text_add(t, "\n");
}

void schedule_write(const Schedule *s, Text *t)
{
    text_add(t, "mgpu-schedule 1\nmodel ");
    write_name(s->model, t);
    text_add(t, " precision ");
    write_name(s->precision, t);
    text_add(t, " batch %lld accumulate %d devices %d\n", (long long)s->batch, s->accumulate, s->devices);
    for (int i = 0; i < s->phase_count; i++) {
        const PhaseSchedule *p = &s->phases[i];
        text_add(t, "phase ");
        write_name(p->name, t);
        text_add(t, "\n");
        for (int d = 0; d < s->devices; d++) {
            const DeviceSchedule *x = &p->devices[d];
            text_add(t, "device %d name ", d);
            write_quoted(x->name, t);
            text_add(t, " arena %lld work %lld staging %lld samples %lld..%lld capacity %lld\n", (long long)x->arena_bytes,
                     (long long)x->work_bytes, (long long)x->staging_bytes, (long long)x->first, (long long)(x->first + x->share), (long long)x->capacity);
        }
        for (int d = 0; d < s->devices; d++)
            write_device(p, d, t);
        for (int k = 0; k < p->collective_count; k++)
            write_collective(s, p, &p->collectives[k], t);
    }
}

/* ---- reading: characters and words */
typedef struct OpName { const char *name; Place at; } OpName;
typedef struct DeviceNames {     /* of the device that is being read; numbers are stored + 1 */
    Map buffers, ops;
    OpName *waits; int wait_count;            /* names that are looked up at the end of the phase, */
    struct Pending { int op, wait; } *pending; /* parallel: and what they stand for */
} DeviceNames;
typedef struct Reader {
    Source *source;
    const char *at, *line_start;
    int line;
    Schedule *schedule;
    PhaseSchedule *phase;        /* NULL: ahead of the first */
    int device_count;            /* of the phase, so far */
    DeviceNames *names;          /* by device */
    Map collectives;
    struct Reduce { int device, op, transfer; Place at; } *reduces; int reduce_count; /* whose collective is looked up at the end */
    Place phase_place;
} Reader;

static Place here(const Reader *r)
{
    return (Place){.source = r->source, .line = r->line, .column = (int)(r->at - r->line_start) + 1};
}

_Noreturn static void wrong(const Reader *r, const char *pattern, ...) PRINTF(2, 3);
static void wrong(const Reader *r, const char *pattern, ...)
{
    Place at = here(r);
    va_list arguments;
    va_start(arguments, pattern);
    verror_at(&at, pattern, arguments);
}

static void skip_blanks(Reader *r)
{
    while (*r->at == ' ' || *r->at == '\t' || *r->at == '\r')
        r->at++;
}

/* to the first word of the next record; false: there is none */
static bool next_record(Reader *r)
{
    for (;;) {
        skip_blanks(r);
        if (*r->at == '#')
            while (*r->at && *r->at != '\n')
                r->at++;
        if (*r->at != '\n')
            return *r->at != 0;
        r->line++;
        r->line_start = ++r->at;
    }
}

static void end_record(Reader *r)
{
    skip_blanks(r);
    if (*r->at && *r->at != '\n')
        wrong(r, "the record ends here; there is more on the line");
}

static bool take(Reader *r, const char *text) /* these characters */
{
    size_t length = strlen(text);
    if (strncmp(r->at, text, length) != 0)
        return false;
    r->at += length;
    return true;
}

static bool at_word(const Reader *r, const char *word)
{
    size_t length = strlen(word);
    return strncmp(r->at, word, length) == 0 && !is_bare(r->at[length]);
}

static bool take_word(Reader *r, const char *word)
{
    skip_blanks(r);
    return at_word(r, word) && take(r, word);
}

static void need_word(Reader *r, const char *word)
{
    if (!take_word(r, word))
        wrong(r, "expected '%s'", word);
}

static const char *read_quoted(Reader *r)
{
    Text t = {0};
    if (!take(r, "\""))
        wrong(r, "expected a text in quotes");
    while (*r->at != '"') {
        char c = *r->at;
        if (!c || c == '\n')
            wrong(r, "the text is not closed: a '\"' is missing");
        if (c == '\\' && (r->at[1] == '"' || r->at[1] == '\\')) {
            c = r->at[1];
            r->at++;
        } else if (c == '\\' && r->at[1] == 'x' && hex_digit(r->at[2]) >= 0 && hex_digit(r->at[3]) >= 0) {
            int code = 16 * hex_digit(r->at[2]) + hex_digit(r->at[3]);
            if (!code)
                wrong(r, "a text cannot hold the character \\x00");
            c = (char)code;
            r->at += 3;
        } else if (c == '\\') {
            wrong(r, "behind '\\' must stand '\"', '\\' or x and two hexadecimal digits");
        }
        text_bytes(&t, &c, 1);
        r->at++;
    }
    r->at++;
    const char *text = copy_text(text_of(&t), t.length);
    free(t.data);
    return text;
}

static const char *read_name(Reader *r, const char *what)
{
    skip_blanks(r);
    if (*r->at == '"')
        return read_quoted(r);
    const char *begin = r->at, *end = begin;
    while (is_bare(*end))
        end++;
    if (end == begin)
        wrong(r, "expected %s", what);
    r->at = end;
    return copy_text(begin, (size_t)(end - begin));
}

static int64_t read_number(Reader *r, const char *what, int64_t most)
{
    skip_blanks(r);
    const char *begin = r->at;
    int64_t n = 0;
    if (!isdigit((unsigned char)*begin))
        wrong(r, "expected %s: a whole number", what);
    for (const char *p = begin; isdigit((unsigned char)*p); p++) {
        if (n > (most - (*p - '0')) / 10)
            wrong(r, "%s is too large", what);
        n = 10 * n + (*p - '0');
    }
    while (isdigit((unsigned char)*r->at))
        r->at++;
    return n;
}

static int read_int(Reader *r, const char *what) { return (int)read_number(r, what, INT32_MAX); }
static int64_t read_bytes(Reader *r, const char *what) { return read_number(r, what, (int64_t)1 << 62); }

static double read_time(Reader *r, const char *what)
{
    skip_blanks(r);
    char *end;
    if (!isdigit((unsigned char)*r->at))
        wrong(r, "expected %s: a number of microseconds", what);
    double value = strtod(r->at, &end);
    if (!(value < 1e15))
        wrong(r, "%s is too large", what);
    r->at = end;
    return value;
}

static int read_choice(Reader *r, const char *what, const char *const *names, int count)
{
    skip_blanks(r);
    for (int i = 0; i < count; i++)
        if (at_word(r, names[i])) {
            take(r, names[i]);
            return i;
        }
    const char *begin = r->at, *end = begin;
    while (is_bare(*end))
        end++;
    const char *word = copy_text(begin, (size_t)(end - begin));
    wrong(r, "'%s' is not %s%s", word, what, did_you_mean(word, names, count));
}

/* ---- reading: parts of records */
static bool at_owned(Reader *r) /* dN. */
{
    skip_blanks(r);
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
        wrong(r, "expected a device and a name, like d0.c17");
    r->at++;
    Reader start = *r;
    int device = read_int(r, "the number of a device");
    if (device >= r->device_count)
        wrong(&start, "the phase has no device %d", device);
    r->at++; /* the dot */
    return device;
}

static void need_own(Reader *r, int device)
{
    Reader start = *r;
    if (read_owner(r) != device)
        wrong(&start, "an operation of device %d cannot name what belongs to another device", device);
}

static Access read_access(Reader *r, int device)
{
    need_own(r, device);
    Reader start = *r;
    const char *name = read_name(r, "the name of a buffer");
    DeviceNames *names = &r->names[device];
    int number = (int)(intptr_t)map_get(&names->buffers, name) - 1;
    if (number < 0)
        wrong(&start, "device %d has no buffer '%s'%s", device, name,
              did_you_mean(name, names->buffers.keys, names->buffers.count));
    Access a = {number, 0, r->phase->devices[device].buffers[number].bytes, 0};
    if (take(r, "[")) {
        a.begin = read_bytes(r, "the first byte");
        if (!take(r, ":"))
            wrong(r, "expected ':' and the end of the range");
        a.end = read_bytes(r, "the end of the range");
        if (!take(r, "]"))
            wrong(r, "expected ']'");
    }
    if (take(r, "@")) {
        int sign = take(r, "-") ? -1 : take(r, "+") ? 1 : 0;
        if (!sign)
            wrong(r, "expected + or - and a number of steps");
        a.slot = sign * read_int(r, "a number of steps");
    }
    return a;
}

static void read_wait(Reader *r, int device, int op_number, ScheduledOp *op)
{
    need_own(r, device);
    DeviceNames *names = &r->names[device];
    OpName name = {.at = here(r)};
    name.name = read_name(r, "the name of an operation");
    struct Pending pending = {op_number, op->wait_count};
    int count = names->wait_count;
    APPEND(names->pending, count, pending);
    APPEND(names->waits, names->wait_count, name);
    Wait wait = {-1, 0};
    if (take(r, "@")) {
        if (!take(r, "-"))
            wrong(r, "expected - and a number of steps");
        wait.back = read_int(r, "a number of steps");
    }
    APPEND(op->waits, op->wait_count, wait);
}

/* ---- reading: records */
static void read_model(Reader *r)
{
    Schedule *s = r->schedule;
    need_word(r, "model");
    s->model = read_name(r, "the name of the model");
    need_word(r, "precision");
    s->precision = read_name(r, "the name of a number type");
    need_word(r, "batch");
    s->batch = read_number(r, "the batch", INT64_MAX);
    need_word(r, "accumulate");
    s->accumulate = read_int(r, "the number of micro-batches");
    need_word(r, "devices");
    s->devices = read_int(r, "the number of devices");
    end_record(r);
}

static void read_device(Reader *r)
{
    Reader start = *r;
    DeviceSchedule *d = &r->phase->devices[r->device_count]; /* there is room: r->schedule->devices */
    if (read_int(r, "the number of the device") != r->device_count || r->device_count >= r->schedule->devices)
        wrong(&start, r->device_count < r->schedule->devices ? "expected device %d" : "there are %d devices only",
              r->device_count);
    need_word(r, "name");
    skip_blanks(r);
    d->name = read_quoted(r);
    need_word(r, "arena");
    d->arena_bytes = read_bytes(r, "the size of the arena");
    need_word(r, "work");
    d->work_bytes = read_bytes(r, "the size of the workspaces");
    need_word(r, "staging");
    d->staging_bytes = read_bytes(r, "the size of the staging arena");
    need_word(r, "samples");
    d->first = read_bytes(r, "the first sample");
    if (!take(r, ".."))
        wrong(r, "expected '..' and the end of the samples");
    start = *r;
    d->share = read_bytes(r, "the end of the samples") - d->first;
    if (d->share < 0)
        wrong(&start, "the samples end before they begin");
    need_word(r, "capacity");
    d->capacity = read_bytes(r, "the capacity");
    end_record(r);
    r->device_count++;
}

static void read_buffer(Reader *r)
{
    int device = read_owner(r);
    DeviceSchedule *d = &r->phase->devices[device];
    Reader start = *r;
    Buffer b = {.name = read_name(r, "the name of a buffer"), .index = -1};
    if (map_get(&r->names[device].buffers, b.name))
        wrong(&start, "device %d has a buffer '%s' already", device, b.name);
    need_word(r, "kind");
    b.kind = (BufferKind)read_choice(r, "a kind of buffer", BUFFER_KIND_NAME, BUFFER_KINDS);
    need_word(r, "offset");
    b.offset = read_bytes(r, "the offset");
    need_word(r, "bytes");
    b.bytes = read_bytes(r, "the size");
    need_word(r, "slots");
    start = *r;
    b.slots = read_int(r, "the number of slots");
    if (b.slots < 1)
        wrong(&start, "a buffer has one slot at least");
    if (take_word(r, "each"))
        b.each = read_bytes(r, "the size of a sample");
    if (take_word(r, "index"))
        b.index = read_int(r, "the index");
    end_record(r);
    APPEND(d->buffers, d->buffer_count, b);
    map_set(&r->names[device].buffers, b.name, (void *)(intptr_t)d->buffer_count);
}

static void read_target(Reader *r, int device, ScheduledOp *op, int transfer, int number)
{
    Place at = here(r);
    Reader start = *r;
    op->label = read_name(r, "a label");
    op->target = -1;
    if (op->verb == VERB_REDUCE) {
        struct Reduce reduce = {device, number, transfer, at};
        APPEND(r->reduces, r->reduce_count, reduce);
    } else if (op->verb == VERB_CALL) {
        Reader label = *r;
        label.at = op->label + (*op->label == 'k');
        int64_t kernel = -1;
        if (*op->label == 'k' && isdigit((unsigned char)*label.at)) {
            kernel = strtoll(label.at, NULL, 10);
            if (strcmp(op->label, format("k%lld", (long long)kernel)) != 0 || kernel > INT32_MAX)
                kernel = -1;
        }
        if (kernel < 0)
            wrong(&start, "'%s' is no kernel: expected k and its number", op->label);
        op->target = (int)kernel;
    }
}

/* -> of VERB_REDUCE the transfer that its word names */
static int read_verb(Reader *r, Verb *verb)
{
    const char *words[VERBS + MGPU_TRANSFERS];
    for (int i = 0; i < VERBS; i++)
        words[i] = VERB_NAME[i];
    for (int i = 0; i < MGPU_TRANSFERS; i++)
        words[VERBS + i] = transfer_word(i);
    int choice = read_choice(r, "a verb", words, COUNT(words));
    *verb = choice < VERBS ? (Verb)choice : VERB_REDUCE;
    return choice < VERBS ? MGPU_TRANSFER_REDUCE : choice - VERBS;
}

static void read_op(Reader *r)
{
    int device = read_owner(r);
    DeviceSchedule *d = &r->phase->devices[device];
    Reader start = *r;
    ScheduledOp op = {.id = read_name(r, "the name of an operation")};
    if (map_get(&r->names[device].ops, op.id))
        wrong(&start, "device %d has an operation '%s' already", device, op.id);
    need_word(r, "lane");
    op.lane = (Lane)read_choice(r, "a lane", LANE_NAME, LANES);
    int transfer = read_verb(r, &op.verb);
    skip_blanks(r);
    read_target(r, device, &op, transfer, d->op_count);
    op.strip = -1;
    if (take_word(r, "strip")) {
        op.strip = read_int(r, "the number of the strip");
        op.by_sample = take_word(r, "samples");
        if (take_word(r, "chunk"))
            op.chunk = read_bytes(r, "the samples of a chunk");
    }
    for (int list = 0; list < 2; list++) {
        Access **accesses = list ? &op.writes : &op.reads;
        int *count = list ? &op.write_count : &op.read_count;
        if (!take_word(r, list ? "writes" : "reads"))
            continue;
        do {
            Access a = read_access(r, device);
            APPEND(*accesses, *count, a);
        } while (at_owned(r));
    }
    if (take_word(r, "waits"))
        do
            read_wait(r, device, d->op_count, &op);
        while (at_owned(r));
    need_word(r, "begin_us");
    op.begin_us = read_time(r, "the begin");
    need_word(r, "time_us");
    op.time_us = read_time(r, "the time");
    need_word(r, "line");
    op.line = read_int(r, "the line");
    end_record(r);
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
    need_word(r, "kind");
    mgpu_parties p = {.transfer = (uint8_t)read_choice(r, "a kind of collective", kinds, MGPU_TRANSFERS)};
    int ends = mgpu_transfer_row(p.transfer)->ends;
    if (ends > 0) {
        need_word(r, "from");
        p.from = read_int(r, "the number of a device");
    }
    if (ends > 1) {
        need_word(r, "to");
        p.to = read_int(r, "the number of a device");
    }
    if (mgpu_transfer_splits(p.transfer)) {
        int64_t *parts = NEW_ARRAY(int64_t, r->device_count + 1);
        need_word(r, "parts");
        for (int d = 0; d <= r->device_count; d++)
            parts[d] = read_bytes(r, "where a part begins");
        p.parts = parts;
    }
    return p;
}

static void read_collective(Reader *r)
{
    PhaseSchedule *p = r->phase;
    Collective c = {.ops = NEW_ARRAY(int, r->device_count)};
    for (int d = 0; d < r->device_count; d++)
        c.ops[d] = -1;
    skip_blanks(r);
    Reader start = *r;
    c.name = read_name(r, "the name of a collective");
    if (map_get(&r->collectives, c.name))
        wrong(&start, "the phase has a collective '%s' already", c.name);
    need_word(r, "group");
    need_word(r, "all");
    need_word(r, "members");
    do {
        skip_blanks(r);
        start = *r;
        int device = read_owner(r);
        const char *name = read_name(r, "the name of an operation");
        int op = (int)(intptr_t)map_get(&r->names[device].ops, name) - 1;
        if (op < 0)
            wrong(&start, "device %d has no operation '%s'", device, name);
        if (c.ops[device] >= 0)
            wrong(&start, "device %d has two members in '%s'", device, c.name);
        c.ops[device] = op;
    } while (at_owned(r));
    c.parties = read_parties(r);
    need_word(r, "bytes");
    skip_blanks(r);
    start = *r;
    int64_t bytes = read_bytes(r, "the number of bytes");
    need_word(r, "dtype");
    const char *names[DTYPES];
    for (int i = 0; i < DTYPES; i++)
        names[i] = dtype_name((Dtype)i);
    c.dtype = (Dtype)read_choice(r, "a number type", names, DTYPES);
    c.count = bytes / dtype_bytes(c.dtype);
    if (c.count * dtype_bytes(c.dtype) != bytes)
        wrong(&start, "%lld bytes are no whole number of elements", (long long)bytes);
    need_word(r, "via");
    c.via = read_name(r, "how it is done");
    end_record(r);
    APPEND(p->collectives, p->collective_count, c);
    map_set(&r->collectives, c.name, (void *)(intptr_t)p->collective_count);
}

/* ---- reading: phases */
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
        int is = r->phase->collectives[op->target].parties.transfer;
        if (is != r->reduces[i].transfer)
            error_at(&r->reduces[i].at, "'%s' of '%s', whose kind is %s", transfer_word(r->reduces[i].transfer), op->label, mgpu_transfer_row(is)->kind);
    }
}

static void read_phase(Reader *r)
{
    Schedule *s = r->schedule;
    end_phase(r);
    r->phase_place = here(r);
    PhaseSchedule p = {.name = read_name(r, "the name of a phase")};
    end_record(r);
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
    next_record(&r);
    if (!take_word(&r, "mgpu-schedule"))
        wrong(&r, "this is no schedule: a schedule begins with 'mgpu-schedule 1'");
    Reader start = r;
    if (read_int(&r, "the version of the format") != 1)
        wrong(&start, "this version of the format is unknown; this mgpuc reads version 1");
    end_record(&r);
    next_record(&r);
    read_model(&r);
    while (next_record(&r)) {
        if (take_word(&r, "phase")) {
            read_phase(&r);
            continue;
        }
        int record = 0;
        while (record < COUNT(RECORDS) && !at_word(&r, RECORDS[record].word))
            record++;
        if (record == COUNT(RECORDS))
            wrong(&r, "a record is a phase, device, buffer, op or collective");
        if (!r.phase)
            wrong(&r, "a '%s' belongs to a phase; expected 'phase'", RECORDS[record].word);
        take(&r, RECORDS[record].word);
        RECORDS[record].read(&r);
    }
    end_phase(&r);
    return s;
}
