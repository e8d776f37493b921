/* verify_test.c: the verifier on schedules made by hand: good ones that it must accept, and for every rule a bad one with
 * the message that it must give. Bad ones are the good ones with a piece of text exchanged. */
#include "compiler/plan/schedule.h"
#include "compiler/verify/proof.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Two devices, five samples of four bytes; per device a weight, temporaries, buckets, a workspace, a report and an output.
 * Strip 4 has two calls, of which the second reads what the first makes, sample by sample. */
static const char GOOD[] =
    "mgpu-schedule 2\n"
    "model hand precision f32 batch 5 accumulate 1 devices 2\n"
    "kernel k0 in f32 each 4 f32 16 out f32 each 8\n"
    "kernel k1 in f32 each 8 out f32 16 work 100\n"
    "kernel k2 in f32 each 8 out f32 each 8 f64 8\n"
    "kernel k2 in f32 each 8 out f32 each 8 f64 8 work 100\n"
    "kernel k3 in f32 each 8 out f32 16 f32 16\n"
    "kernel k4 in f32 16 f32 16 f32 16 out f32 16 over 2\n"
    "kernel k5 in f32 each 4 f32 16 out f32 each 8\n"
    "kernel k6 in f32 each 8 out f32 each 4\n"
    "kernel k7 in f32 each 4 out f32 each 4\n"
    "kernel k8 in f32 each 8 out f32 each 8\n"
    "kernel k9 in f32 each 8 out f32 each 8 over 0\n"
    "kernel k9 in f32 16 out f32 16 over 0\n"
    "phase train.full\n"
    "device 0 name \"host\" arena 1472 work 128 staging 128 samples 0..3 capacity 3\n"
    "device 1 name \"host\" arena 1472 work 128 staging 128 samples 3..5 capacity 2\n"
    "buffer d0.stage.x kind staging offset 0 bytes 12 slots 2 index 0 type f32\n"
    "buffer d0.step kind step offset 0 bytes 64 slots 2\n"
    "buffer d0.in.x kind input offset 128 bytes 12 slots 2 each 4 index 0 type f32\n"
    "buffer d0.w.fc kind variable offset 256 bytes 16 slots 1 index 0 type f32 updated\n"
    "buffer d0.report kind report offset 320 bytes 8 slots 2 type f64\n"
    "buffer d0.out.p kind output offset 448 bytes 12 slots 2 each 4 index 0 type f32\n"
    "buffer d0.t0 kind temporary offset 576 bytes 24 slots 1 each 8 type f32\n"
    "buffer d0.t1 kind temporary offset 640 bytes 24 slots 1 each 8 type f32\n"
    "buffer d0.bucket0 kind bucket offset 704 bytes 80 slots 1 type f32\n"
    "buffer d0.bucket1 kind bucket offset 832 bytes 16 slots 1 type f32\n"
    "buffer d0.work kind workspace offset 1344 bytes 100 slots 1\n"
    "op d0.h0 lane host read - writes d0.stage.x waits d0.u0@-2 begin_us 0 time_us 1 line 0\n"
    "op d0.h1 lane host report - reads d0.report@-1 waits d0.c2@-1 begin_us 0 time_us 1 line 0\n"
    "op d0.u0 lane copy upload - reads d0.stage.x writes d0.in.x d0.step waits d0.h0 d0.c4@-2 begin_us 0 time_us 1 line 0\n"
    "op d0.c0 lane comp call k0 region 0 samples reads d0.in.x d0.w.fc d0.step writes d0.t0 waits d0.u0 begin_us 0 time_us 1 line 7\n"
    "op d0.c1 lane comp call k1 region 2 reads d0.t0 d0.step writes d0.bucket1 d0.work begin_us 0 time_us 1 line 7\n"
    "op d0.m0 lane comm reduce r0 reads d0.bucket1 writes d0.bucket1 waits d0.c1 begin_us 0 time_us 1 line 7\n"
    "op d0.c2 lane comp call k2 region 4 samples chunk 2 reads d0.t0 d0.step writes d0.t1 d0.report waits d0.h1@-1 begin_us 0 time_us 1 line 7\n"
    "op d0.c3 lane comp call k3 region 4 samples chunk 2 reads d0.t1 d0.step writes d0.bucket0[0:16] d0.bucket0[64:80] begin_us 0 time_us 1 line 7\n"
    "op d0.m1 lane comm reduce r1 reads d0.bucket0 writes d0.bucket0 waits d0.c3 begin_us 0 time_us 1 line 7\n"
    "op d0.c4 lane comp call k4 region 6 reads d0.bucket0[0:16] d0.bucket1 d0.w.fc d0.step writes d0.w.fc waits d0.m1 begin_us 0 time_us 1 line 7\n"
    "buffer d1.stage.x kind staging offset 0 bytes 8 slots 2 index 0 type f32\n"
    "buffer d1.step kind step offset 0 bytes 64 slots 2\n"
    "buffer d1.in.x kind input offset 128 bytes 8 slots 2 each 4 index 0 type f32\n"
    "buffer d1.w.fc kind variable offset 256 bytes 16 slots 1 index 0 type f32 updated\n"
    "buffer d1.report kind report offset 320 bytes 8 slots 2 type f64\n"
    "buffer d1.out.p kind output offset 448 bytes 8 slots 2 each 4 index 0 type f32\n"
    "buffer d1.t0 kind temporary offset 576 bytes 16 slots 1 each 8 type f32\n"
    "buffer d1.t1 kind temporary offset 640 bytes 16 slots 1 each 8 type f32\n"
    "buffer d1.bucket0 kind bucket offset 704 bytes 80 slots 1 type f32\n"
    "buffer d1.bucket1 kind bucket offset 832 bytes 16 slots 1 type f32\n"
    "buffer d1.work kind workspace offset 1344 bytes 100 slots 1\n"
    "op d1.h0 lane host read - writes d1.stage.x waits d1.u0@-2 begin_us 0 time_us 1 line 0\n"
    "op d1.h1 lane host report - reads d1.report@-1 waits d1.c2@-1 begin_us 0 time_us 1 line 0\n"
    "op d1.u0 lane copy upload - reads d1.stage.x writes d1.in.x d1.step waits d1.h0 d1.c4@-2 begin_us 0 time_us 1 line 0\n"
    "op d1.c0 lane comp call k0 region 0 samples reads d1.in.x d1.w.fc d1.step writes d1.t0 waits d1.u0 begin_us 0 time_us 1 line 7\n"
    "op d1.c1 lane comp call k1 region 2 reads d1.t0 d1.step writes d1.bucket1 d1.work begin_us 0 time_us 1 line 7\n"
    "op d1.m0 lane comm reduce r0 reads d1.bucket1 writes d1.bucket1 waits d1.c1 begin_us 0 time_us 1 line 7\n"
    "op d1.c2 lane comp call k2 region 4 samples chunk 2 reads d1.t0 d1.step writes d1.t1 d1.report waits d1.h1@-1 begin_us 0 time_us 1 line 7\n"
    "op d1.c3 lane comp call k3 region 4 samples chunk 2 reads d1.t1 d1.step writes d1.bucket0[0:16] d1.bucket0[64:80] begin_us 0 time_us 1 line 7\n"
    "op d1.m1 lane comm reduce r1 reads d1.bucket0 writes d1.bucket0 waits d1.c3 begin_us 0 time_us 1 line 7\n"
    "op d1.c4 lane comp call k4 region 6 reads d1.bucket0[0:16] d1.bucket1 d1.w.fc d1.step writes d1.w.fc waits d1.m1 begin_us 0 time_us 1 line 7\n"
    "collective r0 group all members d0.m0 d1.m0 kind all-reduce bytes 16 dtype f32 via host\n"
    "collective r1 group all members d0.m1 d1.m1 kind all-reduce bytes 80 dtype f32 via host\n"
    "phase eval.full\n"
    "device 0 name \"host\" arena 1472 work 128 staging 128 samples 0..3 capacity 3\n"
    "device 1 name \"host\" arena 1472 work 128 staging 128 samples 3..5 capacity 2\n"
    "buffer d0.stage.x kind staging offset 0 bytes 12 slots 2 index 0 type f32\n"
    "buffer d0.step kind step offset 0 bytes 64 slots 2\n"
    "buffer d0.in.x kind input offset 128 bytes 12 slots 2 each 4 index 0 type f32\n"
    "buffer d0.w.fc kind variable offset 256 bytes 16 slots 1 index 0 type f32\n"
    "buffer d0.out.p kind output offset 448 bytes 12 slots 2 each 4 index 0 type f32\n"
    "buffer d0.t0 kind temporary offset 576 bytes 24 slots 1 each 8 type f32\n"
    "op d0.h0 lane host read - writes d0.stage.x waits d0.u0@-2 begin_us 0 time_us 1 line 0\n"
    "op d0.h1 lane host fetch p reads d0.out.p@-1 waits d0.c1@-1 begin_us 0 time_us 1 line 0\n"
    "op d0.u0 lane copy upload - reads d0.stage.x writes d0.in.x d0.step waits d0.h0 d0.c1@-2 begin_us 0 time_us 1 line 0\n"
    "op d0.c0 lane comp call k5 region 0 samples reads d0.in.x d0.w.fc d0.step writes d0.t0 waits d0.u0 begin_us 0 time_us 1 line 7\n"
    "op d0.c1 lane comp call k6 region 0 samples reads d0.t0 d0.step writes d0.out.p waits d0.h1@-1 begin_us 0 time_us 1 line 7\n"
    "buffer d1.stage.x kind staging offset 0 bytes 8 slots 2 index 0 type f32\n"
    "buffer d1.step kind step offset 0 bytes 64 slots 2\n"
    "buffer d1.in.x kind input offset 128 bytes 8 slots 2 each 4 index 0 type f32\n"
    "buffer d1.w.fc kind variable offset 256 bytes 16 slots 1 index 0 type f32\n"
    "buffer d1.out.p kind output offset 448 bytes 8 slots 2 each 4 index 0 type f32\n"
    "buffer d1.t0 kind temporary offset 576 bytes 16 slots 1 each 8 type f32\n"
    "op d1.h0 lane host read - writes d1.stage.x waits d1.u0@-2 begin_us 0 time_us 1 line 0\n"
    "op d1.h1 lane host fetch p reads d1.out.p@-1 waits d1.c1@-1 begin_us 0 time_us 1 line 0\n"
    "op d1.u0 lane copy upload - reads d1.stage.x writes d1.in.x d1.step waits d1.h0 d1.c1@-2 begin_us 0 time_us 1 line 0\n"
    "op d1.c0 lane comp call k5 region 0 samples reads d1.in.x d1.w.fc d1.step writes d1.t0 waits d1.u0 begin_us 0 time_us 1 line 7\n"
    "op d1.c1 lane comp call k6 region 0 samples reads d1.t0 d1.step writes d1.out.p waits d1.h1@-1 begin_us 0 time_us 1 line 7\n";

static int failures;

/* every `find` replaced if it begins with '*', else the first */
static char *replace(const char *text, const char *find, const char *by)
{
    bool all = *find == '*';
    find += all;
    Text t = {0};
    const char *at = strstr(text, find);
    if (!at)
        die("the schedule has no '%s'", find);
    for (; at; at = all ? strstr(text, find) : NULL) {
        text_bytes(&t, text, (size_t)(at - text));
        text_add(&t, "%s", by);
        text = at + strlen(find);
    }
    text_add(&t, "%s", text);
    return t.data;
}

/* ---- digests: schedules made by hand leave them out */
static const char *with_digests(const char *text)
{
    Text t = {0};
    for (const char *line = text; *line;) {
        const char *end = strchr(line, '\n');
        size_t length = end ? (size_t)(end + 1 - line) : strlen(line);
        const char *at = memmem(line, length, " begin_us", 9);
        if (at && memmem(line, length, " call k", 7)) {
            text_bytes(&t, line, (size_t)(at - line));
            text_add(&t, " digest 00000000");
            length -= (size_t)(at - line);
            line = at;
        }
        text_bytes(&t, line, length);
        line += length;
    }
    return t.data;
}

typedef struct Value {
    const Buffer *buffer;
    int64_t begin;
    uint64_t digest;
} Value;
typedef struct Values {
    Map of;
    Value **all;
    int count;
    const DeviceSchedule *device;
} Values;

static Value *value_of(Values *v, const ScheduledOp *op, const Access *a)
{
    int64_t begin = a->begin - (a->of ? op->own.begin * (a->of / op->elements) : 0); /* of the whole, where it is a part */
    const char *key = format("%d %lld", a->buffer, (long long)begin);
    Value *x = map_get(&v->of, key);
    if (x)
        return x;
    x = NEW(Value);
    const Buffer *b = &v->device->buffers[a->buffer];
    *x = (Value){b, begin, digest_leaf(b->name, b->index)};
    map_set(&v->of, key, x);
    APPEND(v->all, v->count, x);
    return x;
}

/* as the operations are in the text */
static void fill_digests(const PhaseSchedule *p, DeviceSchedule *d)
{
    Values v = {.device = d};
    for (int o = 0; o < d->op_count; o++) {
        ScheduledOp *op = &d->ops[o];
        uint64_t digest = digest_call(op->label);
        for (int i = 0; i < v.count && op->verb == VERB_TRANSFER; i++)
            if (v.all[i]->buffer == &d->buffers[op->reads[0].buffer])
                v.all[i]->digest = digest_transfer(v.all[i]->digest, &p->collectives[op->target].participants);
        for (int i = 0; i < op->read_count - 1 && op->verb == VERB_CALL; i++)
            digest = digest_argument(digest, value_of(&v, op, &op->reads[i])->digest);
        for (int i = 0; i < op->write_count && op->verb == VERB_CALL; i++) {
            const Buffer *b = &d->buffers[op->writes[i].buffer];
            if (b->kind == BUFFER_VARIABLE || b->kind == BUFFER_REPORT || b->kind == BUFFER_OUTPUT)
                digest = digest_argument(digest, digest_leaf(b->name, b->index));
        }
        for (int i = 0; i < op->write_count && op->verb == VERB_CALL; i++)
            value_of(&v, op, &op->writes[i])->digest = digest_result(digest, i);
        op->digest = (uint32_t)digest;
    }
}

static void state_phases(Schedule *s)
{
    s->phase_digest_count = 0;
    for (int p = 0; p < s->phase_count; p++) {
        const DeviceSchedule *first = &s->phases[p].devices[0];
        PhaseDigest whole = {s->phases[p].name, digest_phase(s->phases[p].name)};
        for (int o = 0; o < first->op_count && s->devices > 0; o++)
            if (first->ops[o].verb == VERB_CALL)
                whole.digest = digest_of_phase(whole.digest, first->ops[o].digest);
        APPEND(s->phase_digests, s->phase_digest_count, whole);
    }
}

static Schedule *read_schedule(const char *name, const char *text)
{
    Schedule *s = schedule_read(name, with_digests(text));
    for (int p = 0; p < s->phase_count; p++)
        for (int d = 0; d < s->devices; d++)
            fill_digests(&s->phases[p], &s->phases[p].devices[d]);
    state_phases(s);
    return s;
}

static void say(const char *name, const char *expected, const char *got)
{
    bool same = expected && got ? strcmp(expected, got) == 0 : expected == got;
    if (same) {
        printf("ok %s\n", name);
        return;
    }
    failures++;
    printf("not ok %s: got '%s', not '%s'\n", name, got ? got : "proved", expected ? expected : "proved");
}

typedef struct Case {
    const char *name;
    struct {
        const char *find, *by;
    } change[20];
    const char *message; /* NULL: as good */
} Case;
#define LOCAL_T1(offset, bytes)                                                                                                  \
    "d0.t1 kind temporary offset 640 bytes 24 slots 1", "d0.t1 kind local offset " #offset " bytes " #bytes " slots 1"
/* k4 updates a device's own part of w.fc: r0 scatters, r2 gathers */
#define PART_CALL(d, own, bytes)                                                                                                 \
    "d" #d ".c4 lane comp call k4 region 6 own " own " of 4 reads d" #d ".bucket0[" bytes " of 16] d" #d ".bucket1[" bytes       \
    " of 16] d" #d ".w.fc[" bytes " of 16] d" #d ".step writes d" #d ".w.fc[" bytes " of 16] waits d" #d                         \
    ".m1 begin_us 0 time_us 1 line 7\n"
#define PART_GATHER(d, bytes)                                                                                                    \
    "op d" #d ".m2 lane comm all_gather r2 reads d" #d ".w.fc[" bytes "] writes d" #d ".w.fc waits d" #d                         \
    ".c4 begin_us 0 time_us 1 line 7\n"
#define WHOLE_CALL(d)                                                                                                            \
    "d" #d ".c4 lane comp call k4 region 6 reads d" #d ".bucket0[0:16] d" #d ".bucket1 d" #d ".w.fc d" #d ".step writes d" #d    \
    ".w.fc waits d" #d ".m1 begin_us 0 time_us 1 line 7\n"
#define SCATTER(d, bytes)                                                                                                        \
    "d" #d ".m0 lane comm reduce r0 reads d" #d ".bucket1 writes d" #d ".bucket1",                                               \
        "d" #d ".m0 lane comm reduce_scatter r0 reads d" #d ".bucket1 writes d" #d ".bucket1[" bytes "]"
/* clang-format off */
#define PARTS                                                                                                              \
    {SCATTER(0, "0:12")}, {SCATTER(1, "12:16")}, {"kind all-reduce bytes 16", "kind reduce-scatter parts 0 3 4 bytes 16"}, \
    {"kernel k4 in f32 16 f32 16 f32 16 out f32 16 over 2", "kernel k4 in f32 16 f32 16 f32 16 out f32 16 over 2 own of 4"}
/* clang-format on */
#define GATHERED                                                                                                                 \
    "phase eval.full",                                                                                                           \
        "collective r2 group all members d0.m2 d1.m2 kind all-gather parts 0 3 4 bytes 16 dtype f32 via host\nphase eval.full"
#define AFTER_GATHER                                                                                                             \
    {"writes d0.t0 waits d0.u0", "writes d0.t0 waits d0.u0 d0.m2@-1"},                                                           \
    {                                                                                                                            \
        "writes d1.t0 waits d1.u0", "writes d1.t0 waits d1.u0 d1.m2@-1"                                                          \
    }
#define PARTS_IN_PLACE                                                                                                           \
    {WHOLE_CALL(0), PART_CALL(0, "0..3", "0:12") PART_GATHER(0, "0:12")},                                                        \
        {WHOLE_CALL(1), PART_CALL(1, "3..4", "12:16") PART_GATHER(1, "12:16")}, {GATHERED}, AFTER_GATHER,                        \
    {                                                                                                                            \
        "kernel k9 in f32 each 8", "kernel k10 in f32 16 out f32 16 own of 4\nkernel k9 in f32 each 8"                           \
    }
/* k10 reads a part of bucket1, which r0 scatters */
#define READ_PART(d, own, bytes)                                                                                                 \
    {"buffer d" #d ".work kind",                                                                                                 \
     "buffer d" #d ".t9 kind bucket offset 896 bytes 16 slots 1 type f32\nbuffer d" #d ".work kind"},                            \
    {                                                                                                                            \
        "op d" #d ".c4 lane",                                                                                                    \
            "op d" #d ".c8 lane comp call k10 region 5 own " own " of 4 reads d" #d ".bucket1[" bytes " of 16] d" #d             \
            ".step writes d" #d ".t9[" bytes " of 16] waits d" #d ".m0 begin_us 0 time_us 1 line 7\nop d" #d ".c4 lane"          \
    }
/* two virtual shards of two and of three samples */
/* clang-format off */
#define EXACT                                                                                                              \
    {"devices 2\n", "devices 2 exact 2\n"}, {"*samples 0..3 capacity 3", "samples 0..2 capacity 2"},                         \
    {"*samples 3..5 capacity 2", "samples 2..5 capacity 3"}, {"*d0.stage.x kind staging offset 0 bytes 12", "d0.stage.x kind staging offset 0 bytes 8"}, \
    {"*d1.stage.x kind staging offset 0 bytes 8", "d1.stage.x kind staging offset 0 bytes 12"},                             \
    {"*d0.in.x kind input offset 128 bytes 12", "d0.in.x kind input offset 128 bytes 8"},                                   \
    {"*d1.in.x kind input offset 128 bytes 8", "d1.in.x kind input offset 128 bytes 12"},                                   \
    {"*d0.out.p kind output offset 448 bytes 12", "d0.out.p kind output offset 448 bytes 8"},                               \
    {"*d1.out.p kind output offset 448 bytes 8", "d1.out.p kind output offset 448 bytes 12"},                               \
    {"*d0.t0 kind temporary offset 576 bytes 24", "d0.t0 kind temporary offset 576 bytes 16"},                              \
    {"*d1.t0 kind temporary offset 576 bytes 16", "d1.t0 kind temporary offset 576 bytes 24"},                              \
    {"*d0.t1 kind temporary offset 640 bytes 24", "d0.t1 kind temporary offset 640 bytes 16"},                              \
    {"*d1.t1 kind temporary offset 640 bytes 16", "d1.t1 kind temporary offset 640 bytes 24"}
#define CHUNKS {"*region 0 samples", "region 0 samples chunk 3"}, {"*samples chunk 2", "samples chunk 3"}
/* clang-format on */
static const Case CASES[] = {
    {"exact", {EXACT, CHUNKS}, NULL},
    {"exact_in_micro_batches",
     {EXACT, CHUNKS, {"batch 5 accumulate 1 devices 2 exact 2", "batch 10 accumulate 2 devices 2 exact 4"}},
     NULL},
    {"exact_shares",
     {{"devices 2\n", "devices 2 exact 2\n"}, CHUNKS},
     "device 0 has samples 0..3, but those of its virtual shards are 0..2"},
    {"exact_groups",
     {EXACT, CHUNKS, {"exact 2", "exact 2 group 5"}},
     "device 0 has samples 0..2, but those of its virtual shards are 0..0"},
    {"exact_chunk",
     {EXACT, {"*samples chunk 2", "samples chunk 3"}},
     "phase train.full: d0.c0 takes all samples at a time, but those of each virtual shard are computed by themselves"},
    {"exact_number",
     {EXACT, CHUNKS, {"exact 2", "exact 3"}},
     "exact 3 and accumulate 1 make no binary tree: these are powers of two, and accumulate divides exact"},
    {"exact_too_few",
     {EXACT, CHUNKS, {"exact 2", "exact 1"}},
     "a micro-batch has no virtual shard for each of 2 devices: exact 1, accumulate 1"},
    {"exact_ring",
     {EXACT, CHUNKS, {"dtype f32 via host", "dtype f32 via ring"}},
     "phase train.full: all-reduce r0 by ring has an order of its own, but the program is exact"},
    {"exact_stale",
     {EXACT,
      CHUNKS,
      {"exact 2\n",
       "exact 2\nplan mine input ahead variables replicated reduce auto order stale waited comm gradients exact slots 2\n"}},
     "by the plan mine, gradients or variables of an exact program are not those of all samples of a step"},
    {"parts",
     {PARTS,
      {WHOLE_CALL(0), PART_CALL(0, "0..3", "0:12") PART_GATHER(0, "0:12")},
      {WHOLE_CALL(1), PART_CALL(1, "3..4", "12:16") PART_GATHER(1, "12:16")},
      {GATHERED},
      AFTER_GATHER},
     NULL},
    {"parts_not_gathered",
     {PARTS, {WHOLE_CALL(0), PART_CALL(0, "0..3", "0:12")}, {WHOLE_CALL(1), PART_CALL(1, "3..4", "12:16")}},
     "phase train.full: calls write 12 of the 16 bytes of d0.w.fc, which this phase updates"},
    {"parts_read", {PARTS, PARTS_IN_PLACE, READ_PART(0, "0..3", "0:12"), READ_PART(1, "3..4", "12:16")}, NULL},
    {"parts_read_otherwise", /* the sum of element 2 is on device 0 */
     {PARTS, PARTS_IN_PLACE, READ_PART(0, "0..2", "0:8"), READ_PART(1, "2..4", "8:16")},
     "phase train.full: d0.c8 reads another part of bucket1, of which the device has elements [0, 3)"},
    {"parts_gathered_late",
     {PARTS,
      {WHOLE_CALL(0), PART_CALL(0, "0..3", "0:12") PART_GATHER(0, "0:12")},
      {WHOLE_CALL(1), PART_CALL(1, "3..4", "12:16") PART_GATHER(1, "12:16")},
      {GATHERED}},
     "phase train.full: d0.c0 reads w.fc [0, 16) while d0.m2@-1 may still write w.fc: no wait orders them (d0.c0 should wait for d0.m2@-1)"},
    {"parts_overlap",
     {PARTS,
      {WHOLE_CALL(0), PART_CALL(0, "0..3", "0:12") PART_GATHER(0, "0:12")},
      {WHOLE_CALL(1), PART_CALL(1, "2..4", "8:16") PART_GATHER(1, "12:16")},
      {GATHERED},
      AFTER_GATHER},
     "phase train.full: d1.c4 computes elements [2, 4) of 4, which are not what the devices before it leave"},
    {"parts_otherwise",
     {PARTS,
      {WHOLE_CALL(0), PART_CALL(0, "0..2", "0:8") PART_GATHER(0, "0:12")},
      {WHOLE_CALL(1), PART_CALL(1, "2..4", "8:16") PART_GATHER(1, "12:16")},
      {GATHERED},
      AFTER_GATHER},
     "phase train.full: calls write 12 of the 16 bytes of d0.w.fc, which this phase updates"},
    {"parts_place",
     {PARTS,
      {WHOLE_CALL(0), PART_CALL(0, "0..3", "0:12") PART_GATHER(0, "0:12")},
      {WHOLE_CALL(1), PART_CALL(1, "3..4", "8:12") PART_GATHER(1, "12:16")},
      {GATHERED},
      AFTER_GATHER},
     "phase train.full: d1.c4 reads bucket0 [8, 12), but d0.c4 [0, 12): all devices run one program"},
    {"parts_whole",
     {PARTS,
      {WHOLE_CALL(0), PART_CALL(0, "0..3", "0:12") PART_GATHER(0, "0:12")},
      {WHOLE_CALL(1), PART_CALL(1, "3..4", "12:16") PART_GATHER(1, "12:16")},
      {GATHERED},
      AFTER_GATHER,
      {"d0.bucket1[0:12 of 16] d0", "d0.bucket1 d0"},
      {"d1.bucket1[12:16 of 16] d1", "d1.bucket1 d1"}},
     "phase train.full: d0.c4 reads [0, 16) of bucket1, and not the device's own part of it as operand 1, where k4 has f32, 16 bytes"},
    {"parts_elements",
     {PARTS,
      {WHOLE_CALL(0), PART_CALL(0, "0..3", "0:12") PART_GATHER(0, "0:12")},
      {WHOLE_CALL(1), PART_CALL(1, "3..4", "12:16") PART_GATHER(1, "12:16")},
      {GATHERED},
      AFTER_GATHER,
      {"over 2 own of 4", "over 2 own of 8"}},
     "phase train.full: d0.c4 computes a part of 4 elements, but k4 of 8"},
    {"parts_beyond",
     {PARTS,
      {WHOLE_CALL(0), PART_CALL(0, "0..5", "0:12") PART_GATHER(0, "0:12")},
      {WHOLE_CALL(1), PART_CALL(1, "3..4", "12:16") PART_GATHER(1, "12:16")},
      {GATHERED},
      AFTER_GATHER},
     "phase train.full: d0.c4 computes elements [0, 5) of 4"},
    {"parts_of_another",
     {PARTS,
      {WHOLE_CALL(0), PART_CALL(0, "0..3", "0:12") PART_GATHER(0, "0:12")},
      {WHOLE_CALL(1), PART_CALL(1, "3..4", "12:16") PART_GATHER(1, "12:16")},
      {GATHERED},
      AFTER_GATHER,
      {"d1.bucket1[12:16 of 16]", "d1.bucket1[12:16]"}},
     "phase train.full: d1.c4 reads a part of bucket1, but d0.c4 another one: all devices run one program"},
    {"parts_bytes",
     {PARTS,
      {WHOLE_CALL(0), PART_CALL(0, "0..3", "0:12") PART_GATHER(0, "0:12")},
      {WHOLE_CALL(1), PART_CALL(1, "3..4", "12:16") PART_GATHER(1, "12:16")},
      {GATHERED},
      AFTER_GATHER,
      {"d0.bucket1[0:12 of 16]", "d0.bucket1[0:12 of 15]"}},
     "phase train.full: d0.c4 touches a part of 15 bytes of bucket1, but computes 4 elements"},
    {"own_room_of_a_phase",
     {{"buffer d0.w.fc kind variable offset 256 bytes 16 slots 1",
       "buffer d0.w.fc kind variable offset 256 bytes 16 slots 1 own of 4"}},
     "phase eval.full: d0.w.fc is the own part of 0 elements, but in phase train.full of 4"},
    {"own_room",
     {{"*d0.w.fc kind variable offset 256 bytes 16 slots 1", "d0.w.fc kind variable offset 256 bytes 16 slots 1 own of 130"}},
     "phase train.full: d0.w.fc, a variable, has 16 bytes, which are not the device's own part of 130 elements"},
    {"arena",
     {{"d0.w.fc kind variable offset 256", "d0.w.fc kind variable offset 12800"}},
     "phase train.full: d0.w.fc, 1 x 16 bytes at 12800, is outside its arena of 1472 bytes"},
    {"arena_staging",
     {{"*staging 128 samples 0", "staging 64 samples 0"}},
     "phase train.full: d0.stage.x, 2 x 12 bytes at 0, is outside its arena of 64 bytes"},
    {"slots",
     {{"t0 kind temporary offset 576 bytes 24 slots 1", "t0 kind temporary offset 576 bytes 24 slots 2"}},
     "phase train.full: d0.t0 is a temporary with 2 slots"},
    {"alignment",
     {{"d0.t1 kind temporary offset 640", "d0.t1 kind temporary offset 648"}},
     "phase train.full: d0.t1 is at 648, which is not a multiple of 64"},
    {"persistent_moves",
     {{"d0.w.fc kind variable offset 256 bytes 16", "d0.w.fc kind variable offset 1280 bytes 16"}},
     "phase eval.full: d0.w.fc is a variable of 1 x 16 bytes at 256, but in phase train.full a variable of 1 x 16 bytes at 1280"},
    {"persistent_overlap",
     {{"*d0.w.fc kind variable offset 256", "d0.w.fc kind variable offset 320"}},
     "phase train.full: d0.report is at [320, 392), over d0.w.fc at [320, 336), which keeps its place in all phases"},
    {"temporary_over_persistent",
     {{"d0.t1 kind temporary offset 640", "d0.t1 kind temporary offset 256"}},
     "phase train.full: d0.t1 is at [256, 280), over d0.w.fc at [256, 272), which keeps its place in all phases"},
    {"output_lacking", /* all lanes wait between the two phases, so that the output has been fetched */
     {{"phase eval.full", "phase predict.full"},
      {"buffer d0.out.p kind output offset 448 bytes 12 slots 2 each 4 index 0 type f32\n", ""},
      {"d0.t1 kind temporary offset 640", "d0.t1 kind temporary offset 448"}},
     NULL},
    {"output_lacking_between_phases_that_do_not_drain", /* the engine drains by what phases are, not by what they have */
     {{"buffer d0.out.p kind output offset 448 bytes 12 slots 2 each 4 index 0 type f32\n", ""},
      {"d0.t1 kind temporary offset 640", "d0.t1 kind temporary offset 448"}},
     "phase train.full, 0 steps after phase eval.full: d0.c2 writes t1 [0, 12) while d0.h1 may still read out.p: no wait orders them (d0.c2 should wait for lane host of 0 steps before)"},
    {"temporary_over_output",
     {{"d0.t1 kind temporary offset 640", "d0.t1 kind temporary offset 448"}},
     "phase train.full: d0.t1 is at [448, 472), over d0.out.p at [448, 524), which keeps its place in all phases"},
    {"temporary_over_a_report_that_is_lacking",
     {{"d0.t0 kind temporary offset 576 bytes 24 slots 1 each 8 type f32\nop",
       "d0.t0 kind temporary offset 320 bytes 24 slots 1 each 8 type f32\nop"}},
     "phase eval.full: d0.t0 is at [320, 344), over d0.report at [320, 392), which keeps its place in all phases"},
    {"temporary_over_a_variable_that_is_lacking",
     {{"buffer d0.t1", "buffer d0.w.new kind variable offset 1216 bytes 16 slots 1 index 1 type f32\nbuffer d0.t1"},
      {"d0.t0 kind temporary offset 576 bytes 24 slots 1 each 8 type f32\nop",
       "d0.t0 kind temporary offset 1216 bytes 24 slots 1 each 8 type f32\nop"}},
     "phase eval.full: d0.t0 is at [1216, 1240), over d0.w.new at [1216, 1232), which keeps its place in all phases"},
    {"outside_buffer",
     {{"reads d0.t1 d0.step", "reads d0.t1[0:25] d0.step"}},
     "phase train.full: d0.c3 reads t1 [0, 25), which has 24 bytes"},
    {"verb_lane",
     {{"d0.c1 lane comp call", "d0.c1 lane comm call"}},
     "phase train.full: d0.c1: call runs in lane comp, not comm"},
    {"verb_kind",
     {{"reads d0.t0 d0.step writes d0.t1", "reads d0.stage.x d0.step writes d0.t1"}},
     "phase train.full: d0.c2 reads stage.x: call is not for a staging buffer"},
    {"workspace_read",
     {{"reads d0.t0 d0.step writes d0.t1", "reads d0.work d0.step writes d0.t1"}},
     "phase train.full: d0.c2 reads work: call is not for a workspace buffer"},
    {"writes_what_it_reads",
     {{"d0.t1 kind temporary offset 640", "d0.t1 kind temporary offset 576"}},
     "phase train.full: d0.c2 writes t1 over t0, which it reads too"},
    {"writes_twice_at_once",
     {{"writes d0.bucket0[0:16] d0.bucket0[64:80]", "writes d0.bucket0[0:16] d0.bucket0[12:80]"}},
     "phase train.full: d0.c3 writes bucket0 over bucket0, which it writes too"},
    {"reduce_in_place",
     {{"reads d0.bucket1 writes d0.bucket1 waits", "reads d0.bucket1 writes d0.bucket0[0:16] waits"}},
     "phase train.full: d0.m0 does not send and receive in one place of one buffer"},
    {"upload_source",
     {{"reads d0.stage.x writes d0.in.x d0.step", "writes d0.in.x d0.step"}},
     "phase train.full: d0.u0 uploads in.x, but reads no staging buffer of its input and size"},
    {"upload_size",
     {{"reads d0.stage.x writes d0.in.x d0.step", "reads d0.stage.x writes d0.in.x[0:8] d0.step"}},
     "phase train.full: d0.u0 uploads in.x, but reads no staging buffer of its input and size"},
    {"report_slot",
     {{"reads d0.report@-1", "reads d0.report@+1"}},
     "phase train.full: d0.h1 reads slot +1 of report: it reports this step (0) or the one before (-1)"},
    {"report_ranges",
     {{"reads d0.report@-1", "reads d0.report[0:4]@-1 d0.report[4:8]@-1"}},
     "phase train.full: d0.h1 reads 2 ranges: what the host takes is one"},
    {"slot_beyond",
     {{"writes d0.in.x d0.step", "writes d0.in.x@-4 d0.step"}},
     "phase train.full: d0.u0 writes in.x@-4, which has 2 slots"},
    {"report_wait",
     {{"reads d0.report@-1 waits d0.c2@-1", "reads d0.report@-1 waits d0.c2"}},
     "phase train.full: d0.h1 reads report of the step before, but waits for d0.c2 of this one"},
    {"report_wait_in_lane", /* after a change of phase it would wait for the end of the step that it runs in */
     {{"reads d0.report@-1 waits d0.c2@-1", "reads d0.report@-1 waits d0.c2@-1 d0.h0"}},
     "phase train.full: d0.h1 reads report of the step before, but waits for d0.h0 of this one"},
    {"input_partly",
     {{"writes d0.stage.x waits", "writes d0.stage.x[0:8] waits"}},
     "phase train.full: d0.h0 fills [0, 8) of stage.x, which has 12 bytes: samples are missing"},
    {"input_twice",
     {{"op d0.c0 lane comp",
       "op d0.u1 lane copy upload - reads d0.stage.x writes d0.in.x begin_us 0 time_us 1 line 0\nop d0.c0 lane comp"}},
     "phase train.full: d0.u1 fills in.x, which d0.u0 has filled in this step"},
    {"input_never",
     {{"d0.in.x d0.step waits d0.h0", "d0.in.x waits d0.h0"}},
     "phase train.full: d0.c4 reads step, which nothing fills"},
    {"staging_unused",
     {{"reads d0.stage.x writes d0.in.x d0.step waits d0.h0 d0.c4@-2", "writes d0.step waits d0.h0 d0.c4@-2"},
      {"reads d0.in.x d0.w.fc", "reads d0.w.fc"}},
     "phase train.full: d0.h0 fills stage.x, which nothing uploads"},
    {"sample_dropped",
     {{"*samples 3..5 capacity 2", "samples 4..5 capacity 1"}},
     "phase train.full: device 1 begins with sample 4 of the micro-batch, the devices before it end at 3: samples are dropped"},
    {"sample_twice",
     {{"*samples 3..5 capacity 2", "samples 2..5 capacity 3"}},
     "phase train.full: device 1 begins with sample 2 of the micro-batch, the devices before it end at 3: samples are used twice"},
    {"samples_change",
     {{"phase eval.full\ndevice 0 name \"host\" arena 1472 work 128 staging 128 samples 0..3 capacity 3",
       "phase eval.full\ndevice 0 name \"host\" arena 1472 work 128 staging 128 samples 0..2 capacity 2"}},
     "phase eval.full: device 0 has samples 0..2, in phase train.full 0..3"},
    {"capacity",
     {{"*samples 3..5 capacity 2", "samples 3..5 capacity 3"}},
     "phase train.full: device 1 has 2 samples and room for 3"},
    {"sample_bytes",
     {{"*samples 3..5 capacity 2", "samples 3..6 capacity 3"}},
     "phase train.full: d1.in.x has 8 bytes for 3 samples, d0.in.x 12 bytes for 3"},
    {"batch_dropped",
     {{"batch 5", "batch 7"}},
     "phase train.full: the devices have 5 samples, a micro-batch has 7: samples are dropped"},
    {"batch_twice",
     {{"batch 5", "batch 4"}},
     "phase train.full: the devices have 5 samples, a micro-batch has 4: samples are used twice"},
    {"bits_whole",
     {{"op d0.m0 lane comm reduce r0", "op d0.m0 lane comm reduce_bits r0"},
      {"op d1.m0 lane comm reduce r0", "op d1.m0 lane comm reduce_bits r0"},
      {"d1.m0 kind all-reduce", "d1.m0 kind one-bit-reduce"}},
     NULL},
    {"bits_in_pieces",
     {{"op d0.m1 lane comm reduce r1", "op d0.m1 lane comm reduce_bits r1"},
      {"op d1.m1 lane comm reduce r1", "op d1.m1 lane comm reduce_bits r1"},
      {"d1.m1 kind all-reduce", "d1.m1 kind one-bit-reduce"}},
     "phase train.full: d0.c3 writes bytes [0, 16) of bucket0, which one-bit-reduce r1 sends as bits: whole segments of 4096 bytes from 0 on are expected"},
    {"bits_of_whole_numbers",
     {{"*op d0.m0 lane comm reduce r0", "op d0.m0 lane comm reduce_bits r0"},
      {"*op d1.m0 lane comm reduce r0", "op d1.m0 lane comm reduce_bits r0"},
      {"d1.m0 kind all-reduce bytes 16 dtype f32", "d1.m0 kind one-bit-reduce bytes 16 dtype i32"},
      {"*d0.bucket1 kind bucket offset 832 bytes 16 slots 1 type f32",
       "d0.bucket1 kind bucket offset 832 bytes 16 slots 1 type i32"},
      {"*d1.bucket1 kind bucket offset 832 bytes 16 slots 1 type f32",
       "d1.bucket1 kind bucket offset 832 bytes 16 slots 1 type i32"}},
     "phase train.full: one-bit-reduce r0 is of i32; f32 and f64 can be sent as bits"},
    {"moments_of_floats",
     {{"op d0.m0 lane comm reduce r0", "op d0.m0 lane comm reduce_moments r0"},
      {"op d1.m0 lane comm reduce r0", "op d1.m0 lane comm reduce_moments r0"},
      {"d1.m0 kind all-reduce", "d1.m0 kind moments-reduce"}},
     "phase train.full: moments-reduce r0 is of 4 f32; moments are three f64 each"},
    {"collective_order",
     {{"op d1.m0 lane comm reduce r0 reads d1.bucket1 writes d1.bucket1 waits d1.c1 begin_us 0 time_us 1 line 7\n", ""},
      {"op d1.c4 lane",
       "op d1.m0 lane comm reduce r0 reads d1.bucket1 writes d1.bucket1 waits d1.c1 begin_us 0 time_us 1 line 7\nop d1.c4 lane"}},
     "phase train.full: collective number 1 is r1 on device 1 (d1.m1), but r0 on device 0: the devices would wait for each other"},
    {"collective_skipped",
     {{"op d1.m1 lane comm reduce r1 reads d1.bucket0 writes d1.bucket0 waits d1.c3 begin_us 0 time_us 1 line 7\n", ""},
      {"members d0.m1 d1.m1", "members d0.m1"},
      {"waits d1.m1", "waits d1.m0"}},
     "phase train.full: device 1 has no member of collective r1: the others would wait for ever"},
    {"collective_member",
     {{"members d0.m0 d1.m0", "members d0.m0 d1.m1"}},
     "phase train.full: d1.m0 reduces in r0, whose member on device 1 is d1.m1"},
    {"collective_bytes",
     {{"all-reduce bytes 16 dtype f32", "all-reduce bytes 8 dtype f32"}},
     "phase train.full: d0.m0 reads 16 bytes of bucket1, but in all-reduce r0 it has 2 f32 to send"},
    {"reduce_scatter",
     {{"d0.m0 lane comm reduce r0 reads d0.bucket1 writes d0.bucket1",
       "d0.m0 lane comm reduce_scatter r0 reads d0.bucket1 writes d0.bucket1[0:12]"},
      {"d1.m0 lane comm reduce r0 reads d1.bucket1 writes d1.bucket1",
       "d1.m0 lane comm reduce_scatter r0 reads d1.bucket1 writes d1.bucket1[12:16]"},
      {"kind all-reduce bytes 16", "kind reduce-scatter parts 0 3 4 bytes 16"}},
     "phase train.full: d0.c4 reads all of bucket1, of which the device has elements [0, 3)"},
    {"reduce_scatter_empty",
     {{"d0.m0 lane comm reduce r0 reads d0.bucket1 writes d0.bucket1",
       "d0.m0 lane comm reduce_scatter r0 reads d0.bucket1 writes d0.bucket1[0:0]"},
      {"d1.m0 lane comm reduce r0 reads d1.bucket1 writes d1.bucket1",
       "d1.m0 lane comm reduce_scatter r0 reads d1.bucket1 writes d1.bucket1[0:16]"},
      {"kind all-reduce bytes 16", "kind reduce-scatter parts 0 0 4 bytes 16"}},
     "phase train.full: d0.c4 reads all of bucket1, of which the device has elements [0, 0)"},
    {"reduce_scatter_own",
     {{"d0.m0 lane comm reduce r0 reads d0.bucket1 writes d0.bucket1",
       "d0.m0 lane comm reduce_scatter r0 reads d0.bucket1 writes d0.bucket1[0:12]"},
      {"d1.m0 lane comm reduce r0 reads d1.bucket1 writes d1.bucket1",
       "d1.m0 lane comm reduce_scatter r0 reads d1.bucket1 writes d1.bucket1[8:16]"},
      {"kind all-reduce bytes 16", "kind reduce-scatter parts 0 3 4 bytes 16"}},
     "phase train.full: d1.m0 writes [8, 16) of bucket1, but in reduce-scatter r0 it receives elements [3, 4) of what begins at 0"},
    {"reduce_scatter_parts",
     {{"d0.m0 lane comm reduce r0 reads d0.bucket1 writes d0.bucket1",
       "d0.m0 lane comm reduce_scatter r0 reads d0.bucket1 writes d0.bucket1[0:12]"},
      {"d1.m0 lane comm reduce r0 reads d1.bucket1 writes d1.bucket1",
       "d1.m0 lane comm reduce_scatter r0 reads d1.bucket1 writes d1.bucket1[12:16]"},
      {"kind all-reduce bytes 16", "kind reduce-scatter parts 0 3 5 bytes 16"}},
     "phase train.full: the parts of reduce-scatter r0 are not those of 4 elements: part 2 begins at 5"},
    {"reduce_scatter_descends",
     {{"d0.m0 lane comm reduce r0 reads d0.bucket1 writes d0.bucket1",
       "d0.m0 lane comm reduce_scatter r0 reads d0.bucket1 writes d0.bucket1[0:12]"},
      {"d1.m0 lane comm reduce r0 reads d1.bucket1 writes d1.bucket1",
       "d1.m0 lane comm reduce_scatter r0 reads d1.bucket1 writes d1.bucket1[12:16]"},
      {"kind all-reduce bytes 16", "kind reduce-scatter parts 2 1 4 bytes 16"}},
     "phase train.full: the parts of reduce-scatter r0 are not those of 4 elements: part 0 begins at 2"},
    {"reduce_scatter_twice",
     {{"d0.m0 lane comm reduce r0 reads d0.bucket1 writes d0.bucket1",
       "d0.m0 lane comm reduce_scatter r0 reads d0.bucket1 writes d0.bucket1[0:12]"},
      {"d1.m0 lane comm reduce r0 reads d1.bucket1 writes d1.bucket1",
       "d1.m0 lane comm reduce_scatter r0 reads d1.bucket1 writes d1.bucket1[12:16]"},
      {"kind all-reduce bytes 16", "kind reduce-scatter parts 0 3 4 bytes 16"},
      {"*d0.m1 lane comm reduce r1 reads d0.bucket0 writes d0.bucket0",
       "d0.m1 lane comm reduce r1 reads d0.bucket1 writes d0.bucket1"},
      {"*d1.m1 lane comm reduce r1 reads d1.bucket0 writes d1.bucket0",
       "d1.m1 lane comm reduce r1 reads d1.bucket1 writes d1.bucket1"},
      {"all-reduce bytes 80", "all-reduce bytes 16"}},
     "phase train.full: d0.m1 writes bucket1 [0, 12), which d0.m0 has written in this step"},
    {"all_gather",
     {{"d0.m0 lane comm reduce r0 reads d0.bucket1 writes d0.bucket1",
       "d0.m0 lane comm all_gather r0 reads d0.bucket1[0:4] writes d0.bucket1"},
      {"d1.m0 lane comm reduce r0 reads d1.bucket1 writes d1.bucket1",
       "d1.m0 lane comm all_gather r0 reads d1.bucket1[4:16] writes d1.bucket1"},
      {"kind all-reduce bytes 16", "kind all-gather parts 0 1 4 bytes 16"}},
     "phase train.full: d0.m0 takes part in all-gather r0 of bucket1, which is not in these parts"},
    {"all_gather_own",
     {{"d0.m0 lane comm reduce r0 reads d0.bucket1 writes d0.bucket1",
       "d0.m0 lane comm all_gather r0 reads d0.bucket1[0:8] writes d0.bucket1"},
      {"d1.m0 lane comm reduce r0 reads d1.bucket1 writes d1.bucket1",
       "d1.m0 lane comm all_gather r0 reads d1.bucket1[4:16] writes d1.bucket1"},
      {"kind all-reduce bytes 16", "kind all-gather parts 0 1 4 bytes 16"}},
     "phase train.full: d0.m0 reads 8 bytes of bucket1, but in all-gather r0 it has 1 f32 to send"},
    {"broadcast",
     {{"d0.m0 lane comm reduce r0 reads d0.bucket1 writes d0.bucket1",
       "d0.m0 lane comm broadcast_from r0 reads d0.bucket1[0:0] writes d0.bucket1"},
      {"d1.m0 lane comm reduce r0 reads d1.bucket1 writes d1.bucket1",
       "d1.m0 lane comm broadcast_from r0 reads d1.bucket1 writes d1.bucket1[0:0]"},
      {"kind all-reduce bytes 16", "kind broadcast from 1 bytes 16"}},
     NULL},
    {"broadcast_root",
     {{"d0.m0 lane comm reduce r0 reads d0.bucket1 writes d0.bucket1",
       "d0.m0 lane comm broadcast_from r0 reads d0.bucket1[0:0] writes d0.bucket1"},
      {"d1.m0 lane comm reduce r0 reads d1.bucket1 writes d1.bucket1",
       "d1.m0 lane comm broadcast_from r0 reads d1.bucket1 writes d1.bucket1[0:0]"},
      {"kind all-reduce bytes 16", "kind broadcast from 2 bytes 16"}},
     "phase train.full: broadcast r0 is from device 2 to 0 of 2"},
    {"broadcast_other",
     {{"d0.m0 lane comm reduce r0 reads d0.bucket1 writes d0.bucket1",
       "d0.m0 lane comm broadcast_from r0 reads d0.bucket1[0:0] writes d0.bucket1"},
      {"d1.m0 lane comm reduce r0 reads d1.bucket1 writes d1.bucket1",
       "d1.m0 lane comm broadcast_from r0 reads d1.bucket1 writes d1.bucket1[0:0]"},
      {"kind all-reduce bytes 16", "kind broadcast from 0 bytes 16"}},
     "phase train.full: d0.m0 reads 0 bytes of bucket1, but in broadcast r0 it has 4 f32 to send"},
    {"send",
     {{"d0.m0 lane comm reduce r0 reads d0.bucket1 writes d0.bucket1",
       "d0.m0 lane comm send r0 reads d0.bucket1 writes d0.bucket1[0:0]"},
      {"d1.m0 lane comm reduce r0 reads d1.bucket1 writes d1.bucket1",
       "d1.m0 lane comm send r0 reads d1.bucket1[0:0] writes d1.bucket1"},
      {"kind all-reduce bytes 16", "kind send from 0 to 1 bytes 16"}},
     NULL},
    {"send_to_itself",
     {{"d0.m0 lane comm reduce r0 reads d0.bucket1 writes d0.bucket1",
       "d0.m0 lane comm send r0 reads d0.bucket1 writes d0.bucket1[0:0]"},
      {"d1.m0 lane comm reduce r0 reads d1.bucket1 writes d1.bucket1",
       "d1.m0 lane comm send r0 reads d1.bucket1[0:0] writes d1.bucket1"},
      {"kind all-reduce bytes 16", "kind send from 1 to 1 bytes 16"}},
     "phase train.full: send r0 is from device 1 to 1 of 2"},
    {"split_otherwise", /* bucket1, scattered by r0, goes through c8 to t9, which r2 gathers */
     {{"d0.m0 lane comm reduce r0 reads d0.bucket1 writes d0.bucket1",
       "d0.m0 lane comm reduce_scatter r0 reads d0.bucket1 writes d0.bucket1[0:12]"},
      {"d1.m0 lane comm reduce r0 reads d1.bucket1 writes d1.bucket1",
       "d1.m0 lane comm reduce_scatter r0 reads d1.bucket1 writes d1.bucket1[12:16]"},
      {"kind all-reduce bytes 16", "kind reduce-scatter parts 0 3 4 bytes 16"},
      {"buffer d0.work kind", "buffer d0.t9 kind bucket offset 896 bytes 16 slots 1 type f32\nbuffer d0.work kind"},
      {"buffer d1.work kind", "buffer d1.t9 kind bucket offset 896 bytes 16 slots 1 type f32\nbuffer d1.work kind"},
      {"op d0.c4 lane",
       "op d0.c8 lane comp call k8 region 5 reads d0.bucket1 d0.step writes d0.t9 waits d0.m0 begin_us 0 time_us 1 line 0\n"
       "op d0.m2 lane comm all_gather r2 reads d0.t9[0:8] writes d0.t9 waits d0.c8 begin_us 0 time_us 1 line 0\nop d0.c4 lane"},
      {"op d1.c4 lane",
       "op d1.c8 lane comp call k8 region 5 reads d1.bucket1 d1.step writes d1.t9 waits d1.m0 begin_us 0 time_us 1 line 0\n"
       "op d1.m2 lane comm all_gather r2 reads d1.t9[8:16] writes d1.t9 waits d1.c8 begin_us 0 time_us 1 line 0\nop d1.c4 lane"},
      {"phase eval.full",
       "collective r2 group all members d0.m2 d1.m2 kind all-gather parts 0 2 4 bytes 16 dtype f32 via host\nphase eval.full"}},
     "phase train.full: all-gather r2 takes t9 together in other parts than those of reduce-scatter r0, which it comes from"},
    {"collective_place",
     {{"reduce r1 reads d0.bucket0 writes d0.bucket0", "reduce r1 reads d0.bucket0[0:40] writes d0.bucket0[0:40]"},
      {"reduce r1 reads d1.bucket0 writes d1.bucket0", "reduce r1 reads d1.bucket0[40:80] writes d1.bucket0[40:80]"},
      {"all-reduce bytes 80", "all-reduce bytes 40"}},
     "phase train.full: r1 begins at byte 40 of bucket0 on device 1, at 0 on device 0"},
    {"collective_buffer", {{"*d1.bucket1", "d1.other"}}, "phase train.full: d1.m0 reduces other, its partner d0.m0 bucket1"},
    {"collective_offset",
     {{"d1.bucket1 kind bucket offset 832", "d1.bucket1 kind bucket offset 896"}},
     "phase train.full: d1.bucket1 is at 896 of the arena, its partner d0.bucket1 at 832: what is transferred is at one offset on all devices"},
    {"lanes_of_members",
     {{"d1.m0 lane comm", "d1.m0 lane sync"}},
     "phase train.full: d1.m0 is in lane sync, its partner d0.m0 in lane comm"},
    {"lane_of_nccl",
     {{"d0.m0 lane comm", "d0.m0 lane sync"},
      {"d1.m0 lane comm", "d1.m0 lane sync"},
      {"bytes 16 dtype f32 via host", "bytes 16 dtype f32 via nccl"}},
     "phase train.full: d0.m0 is by NCCL in lane sync: two of its kernels at the same time may wait for each other, so all of them are in lane comm"},
    {"lane_of_one_shot",
     {{"d0.m0 lane comm", "d0.m0 lane sync"},
      {"d1.m0 lane comm", "d1.m0 lane sync"},
      {"bytes 16 dtype f32 via host", "bytes 16 dtype f32 via one-shot"}},
     "phase train.full: d0.m0 is by one-shot in lane sync: two of its kernels at the same time may wait for each other, so all of them are in lane comm"},
    {"lane_race",
     {{"d0.m0 lane comm", "d0.m0 lane sync"}, {"d1.m0 lane comm", "d1.m0 lane sync"}},
     "phase train.full: d0.c4 reads bucket1 [0, 16) while d0.m0 may still write bucket1: no wait orders them (d0.c4 should wait for d0.m0)"},
    {"cycle_of_lanes", /* on no device alone: r0 comes after r1 on device 0, before it on device 1. All else is right */
     {{"d0.m0 lane comm", "d0.m0 lane sync"},
      {"d1.m0 lane comm", "d1.m0 lane sync"},
      {"writes d0.bucket1 waits d0.c1", "writes d0.bucket1 waits d0.c1 d0.m1"},
      {"writes d1.bucket0 waits d1.c3", "writes d1.bucket0 waits d1.c3 d1.m0"},
      {"writes d0.w.fc waits d0.m1", "writes d0.w.fc waits d0.m1 d0.m0"},
      {"writes d1.w.fc waits d1.m1", "writes d1.w.fc waits d1.m1 d1.m0"}},
     "phase train.full: a cycle: d0.m1 comes after d0.m0 on all devices; d0.m0 waits for d0.m1"},
    {"cycle",
     {{"writes d0.bucket1 d0.work", "writes d0.bucket1 d0.work waits d0.m0"}},
     "phase train.full: a cycle: d0.c1 waits for d0.m0; d0.m0 waits for d0.c1"},
    {"later_in_list",
     {{"writes d0.bucket1 waits d0.c1", "writes d0.bucket1 waits d0.c1 d0.c3"}},
     "phase train.full: d0.m0 waits for d0.c3, which is after it in the list: who issues one after the other waits for ever; it has to be before"},
    {"cycle_of_two",
     {{"writes d0.t0 waits d0.u0", "writes d0.t0 waits d0.u0 d0.m1"}},
     "phase train.full: a cycle: d0.c0 waits for d0.m1, which comes after d0.m0 in lane comm; d0.m0 waits for d0.c1, which comes after d0.c0 in lane comp"},
    {"race_sum_too_early",
     {{"writes d0.bucket1 waits d0.c1", "writes d0.bucket1"}},
     "phase train.full: d0.m0 reads bucket1 [0, 16) while d0.c1 may still write bucket1: no wait orders them (d0.m0 should wait for d0.c1)"},
    {"race_read_too_early",
     {{"writes d0.w.fc waits d0.m1", "writes d0.w.fc"}},
     "phase train.full: d0.c4 reads bucket0 [0, 16) while d0.m1 may still write bucket0: no wait orders them (d0.c4 should wait for d0.m1)"},
    {"race_report",
     {{"reads d0.report@-1 waits d0.c2@-1", "reads d0.report@-1"}},
     "phase train.full: d0.h1 reads report@-1 [0, 8) while d0.c2@-1 may still write report: no wait orders them (d0.h1 should wait for d0.c2@-1)"},
    {"race_upload",
     {{"waits d0.h0 d0.c4@-2", "waits d0.h0"}},
     "phase train.full: d0.u0 writes step [0, 64) while d0.c4@-2 may still read step: no wait orders them (d0.u0 should wait for d0.c4@-2)"},
    {"race_upload_earlier",
     {{"waits d0.h0 d0.c4@-2", "waits d0.h0 d0.c4@-3"}},
     "phase train.full: d0.u0 writes step [0, 64) while d0.c4@-2 may still read step: no wait orders them (d0.u0 should wait for d0.c4@-2)"},
    {"race_upload_partly",
     {{"waits d0.h0 d0.c4@-2", "waits d0.h0 d0.c1@-2"}},
     "phase train.full: d0.u0 writes step [0, 64) while d0.c4@-2 may still read step: no wait orders them (d0.u0 should wait for d0.c4@-2)"},
    {"race_staging",
     {{"op d0.h1 lane host report - reads d0.report@-1 waits d0.c2@-1 begin_us 0 time_us 1 line 0\n", ""},
      {"writes d0.stage.x waits d0.u0@-2", "writes d0.stage.x"},
      {"writes d0.t1 d0.report waits d0.h1@-1", "writes d0.t1 d0.report"}},
     "phase train.full: d0.h0 writes stage.x [0, 12) while d0.u0@-2 may still read stage.x: no wait orders them (d0.h0 should wait for d0.u0@-2)"},
    {"race_other_phase",
     {{"d0.in.x d0.step waits d0.h0 d0.c1@-2", "d0.in.x d0.step waits d0.h0"}},
     "phase eval.full, 2 steps after phase train.full: d0.u0 writes step [0, 64) while d0.c4@-2 may still read step: no wait orders them (d0.u0 should wait for lane comp of 2 steps before)"},
    {"over_written",
     {{"buffer d0.work kind", "buffer d0.t2 kind temporary offset 576 bytes 8 slots 1 type f32\nbuffer d0.work kind"},
      {"op d0.c1 lane", "op d0.c8 lane comp call k8 region 1 writes d0.t2 begin_us 0 time_us 1 line 0\nop d0.c1 lane"}},
     "phase train.full: d0.c1 reads t0 [0, 8), over which d0.c8 has written t2"},
    {"not_written",
     {{"writes d0.t1 d0.report", "writes d0.report"}},
     "phase train.full: d0.c3 reads t1 [0, 24), which nothing has written in this step"},
    {"gap_read",
     {{"d0.bucket0[0:16] d0.bucket1 d0.w.fc", "d0.bucket0[0:20] d0.bucket1 d0.w.fc"}},
     "phase train.full: d0.c4 reads bucket0 [16, 20), which nothing has written in this step"},
    {"before_sum",
     {{"op d0.m0 lane comm reduce r0 reads d0.bucket1 writes d0.bucket1 waits d0.c1",
       "op d0.c8 lane comp call k8 region 3 reads d0.bucket1 begin_us 0 time_us 1 line 0\nop d0.m0 lane comm reduce r0 reads d0.bucket1 writes d0.bucket1 waits d0.c8"}},
     "phase train.full: d0.c8 reads bucket1 [0, 16) before d0.m0 has summed it over the devices"},
    {"written_twice",
     {{"writes d0.t1 d0.report waits", "writes d0.t1 d0.work d0.report waits"},
      {"buffer d0.work kind workspace offset 1344", "buffer d0.work kind temporary offset 960"}},
     "phase train.full: d0.c2 writes work [0, 100), which d0.c1 has written in this step"},
    {"added_in_place",
     {{"op d0.c1 lane",
       "op d0.c8 lane comp call k9 region 1 reads d0.t0 d0.step writes d0.t0 begin_us 0 time_us 1 line 0\nop d0.c1 lane"},
      {"op d0.m0 lane",
       "op d0.c9 lane comp call k9 region 3 reads d0.bucket1 d0.step writes d0.bucket1 begin_us 0 time_us 1 line 0\nop d0.m0 lane"},
      {"writes d0.bucket1 waits d0.c1", "writes d0.bucket1 waits d0.c9"},
      {"op d1.c1 lane",
       "op d1.c8 lane comp call k9 region 1 reads d1.t0 d1.step writes d1.t0 begin_us 0 time_us 1 line 0\nop d1.c1 lane"},
      {"op d1.m0 lane",
       "op d1.c9 lane comp call k9 region 3 reads d1.bucket1 d1.step writes d1.bucket1 begin_us 0 time_us 1 line 0\nop d1.m0 lane"},
      {"writes d1.bucket1 waits d1.c1", "writes d1.bucket1 waits d1.c9"}},
     NULL},
    {"added_too_late",
     {{"op d0.m0 lane",
       "op d0.c8 lane comp call k8 region 3 reads d0.t0 d0.step writes d0.t0 begin_us 0 time_us 1 line 0\nop d0.m0 lane"}},
     "phase train.full: d0.c1 reads t0 [0, 24) before d0.c8 has added to it"},
    {"added_too_early",
     {{"op d0.c0 lane",
       "op d0.c8 lane comp call k8 region 0 reads d0.t0 d0.step writes d0.t0 waits d0.u0 begin_us 0 time_us 1 line 0\nop d0.c0 lane"},
      {"call k0 region 0", "call k0 region 1"}},
     "phase train.full: d0.c8 reads t0 [0, 24), which nothing has written in this step"},
    {"added_to_sum",
     {{"reads d0.bucket0[0:16] d0.bucket1 d0.w.fc d0.step writes d0.w.fc",
       "reads d0.bucket0[0:16] d0.bucket1 d0.w.fc d0.step writes d0.w.fc d0.bucket1"}},
     "phase train.full: d0.c4 writes bucket1 [0, 16), which d0.m0 has written in this step"},
    {"after_update",
     {{"buffer d1.stage.x", "op d0.c8 lane comp call k8 region 7 reads d0.w.fc begin_us 0 time_us 1 line 0\nbuffer d1.stage.x"}},
     "phase train.full: d0.c8 reads w.fc [0, 16) after d0.c4 has updated it in this step"},
    {"before_replacement",
     {{"*type f32 updated", "type f32 updated replaced"}},
     "phase train.full: d0.c0 reads w.fc [0, 16) before a call has replaced a part of it in this step"},
    {"wrong_slot_read",
     {{"reads d0.in.x d0.w.fc", "reads d0.in.x@+1 d0.w.fc"}},
     "phase train.full: d0.c0 reads in.x@+1 [0, 12), which nothing has written in this step"},
    {"wrong_slot_write",
     {{"writes d0.in.x d0.step waits", "writes d0.in.x@+1 d0.step waits"}},
     "phase train.full: d0.c0 reads in.x [0, 12), which nothing has written in this step"},
    {"wrong_slot_report",
     {{"writes d0.t1 d0.report waits", "writes d0.t1 d0.report@+1 waits"}},
     "phase train.full: d0.h1 reads report@-1 [0, 8), which nothing has written in the step before"},
    {"one_slot",
     {{"*d0.out.p kind output offset 448 bytes 12 slots 2", "d0.out.p kind output offset 448 bytes 12 slots 1"}},
     "phase eval.full: d0.c1 writes out.p [0, 12) while d0.h1 may still read out.p: no wait orders them (d0.c1 should wait for d0.h1)"},
    {"region_missing",
     {{"op d0.c1 lane comp call k1 region 2", "op d0.c1 lane comp call k1"}},
     "phase train.full: d0.c1 is a call, but in no region"},
    {"region_of_no_call",
     {{"op d0.m0 lane comm reduce r0", "op d0.m0 lane comm reduce r0 region 2"}},
     "phase train.full: d0.m0 is in region 2, but no call"},
    {"region_descends",
     {{"op d0.c4 lane comp call k4 region 6", "op d0.c4 lane comp call k4 region 2"}},
     "phase train.full: d0.c4 of region 2 comes after d0.c3 of region 4: regions ascend, and the calls of one follow each other"},
    {"region_chunks",
     {{"call k3 region 4 samples chunk 2", "call k3 region 4 samples chunk 3"}},
     "phase train.full: d0.c3 takes 3 samples at a time through region 4, d0.c2 2"},
    {"barrier_after_write",
     {{"call k1 region 2", "call k1 region 0"}},
     "phase train.full: d0.c1 reads t0, which d0.c0 of the same region 0 writes: a barrier is missing between them (d0.c1 does not take it sample by sample)"},
    {"barrier_samples",
     {{"call k2 region 4 samples chunk 2", "call k2 region 4 chunk 2"}},
     "phase train.full: d0.c3 reads t1, which d0.c2 of the same region 4 writes: a barrier is missing between them (d0.c2 does not take it sample by sample)"},
    {"barrier_each",
     {{"d0.t1 kind temporary offset 640 bytes 24 slots 1 each 8", "d0.t1 kind temporary offset 640 bytes 24 slots 1"}},
     "phase train.full: d0.c3 reads t1, which d0.c2 of the same region 4 writes: a barrier is missing between them (t1 does not consist of samples)"},
    {"barrier_part",
     {{"reads d0.t1 d0.step", "reads d0.t1[0:16] d0.step"}},
     "phase train.full: d0.c3 reads t1, which d0.c2 of the same region 4 writes: a barrier is missing between them (d0.c3 does not take it sample by sample)"},
    {"barrier_overlap",
     {{"call k1 region 2", "call k1 region 4 chunk 2"},
      {"d0.bucket1 kind bucket offset 832", "d0.bucket1 kind bucket offset 640"},
      {"d1.bucket1 kind bucket offset 832", "d1.bucket1 kind bucket offset 640"}},
     "phase train.full: d0.c2 writes t1 over bucket1, which d0.c1 of the same region 4 writes: a barrier is missing between them"},
    {"barrier_overlap_of_samples",
     {{"call k1 region 2", "call k1 region 4 samples chunk 2"},
      {"buffer d0.work kind", "buffer d0.t2 kind temporary offset 640 bytes 24 slots 1 each 8 type f32\nbuffer d0.work kind"},
      {"writes d0.bucket1 d0.work", "writes d0.t2 d0.bucket1 d0.work"}},
     "phase train.full: d0.c2 writes t1 over t2, which d0.c1 of the same region 4 writes: a barrier is missing between them"},
    {"barrier_workspace",
     {{"call k1 region 2", "call k1 region 4 chunk 2"}, {"writes d0.t1 d0.report waits", "writes d0.t1 d0.report d0.work waits"}},
     "phase train.full: d0.c2 writes work, which d0.c1 of the same region 4 writes: a barrier is missing between them (work does not consist of samples)"},
    {"barrier_update",
     {{"writes d0.bucket0[0:16] d0.bucket0[64:80]", "writes d0.bucket0[0:16] d0.bucket0[64:80] d0.w.fc"},
      {"reads d0.t0 d0.step writes d0.t1", "reads d0.t0 d0.w.fc d0.step writes d0.t1"}},
     "phase train.full: d0.c3 writes w.fc, which d0.c2 of the same region 4 reads: a barrier is missing between them (w.fc does not consist of samples)"},
    {"barrier_update_of_part",
     {{"reads d0.t1 d0.step writes", "reads d0.t1 d0.w.fc d0.step writes"},
      {"writes d0.bucket0[0:16] d0.bucket0[64:80]", "writes d0.bucket0[0:16] d0.bucket0[64:80] d0.w.fc"},
      {"reads d0.t0 d0.step writes d0.t1", "reads d0.t0 d0.w.fc[0:8] d0.step writes d0.t1"}},
     "phase train.full: d0.c3 writes w.fc, which d0.c2 of the same region 4 reads: a barrier is missing between them (w.fc does not consist of samples)"},
    {"shared_reading", {{"call k1 region 2", "call k1 region 4 chunk 2"}}, NULL},
    {"workspace_again",
     {{"writes d0.t1 d0.report waits", "writes d0.t1 d0.report d0.work waits"},
      {"writes d1.t1 d1.report waits", "writes d1.t1 d1.report d1.work waits"}},
     NULL},
    {"program_arguments",
     {{"reads d1.bucket0[0:16] d1.bucket1 d1.w.fc", "reads d1.bucket1 d1.bucket0[0:16] d1.w.fc"}},
     "phase train.full: d1.c4 reads bucket1@+0 where d0.c4 reads bucket0@+0: all devices run one program"},
    {"program_range",
     {{"reads d1.bucket0[0:16] d1.bucket1 d1.w.fc", "reads d1.bucket0[64:80] d1.bucket1 d1.w.fc"}},
     "phase train.full: d1.c4 reads bucket0 [64, 80), but d0.c4 [0, 16): all devices run one program"},
    {"program_kernel",
     {{"d1.c4 lane comp call k4", "d1.c4 lane comp call k2"}},
     "phase train.full: d1.c4 is call k2, but d0.c4 call k4: all devices run one program"},
    {"program_count",
     {{"reads d1.bucket0[0:16] d1.bucket1 d1.w.fc", "reads d1.bucket0[0:16] d1.w.fc"}},
     "phase train.full: d1.c4 reads 3 ranges and writes 1, but d0.c4 4 and 1: all devices run one program"},
    {"program_more",
     {{"op d1.m1 lane", "op d1.c8 lane comp call k8 region 5 reads d1.t0 d1.step begin_us 0 time_us 1 line 0\nop d1.m1 lane"}},
     "phase train.full: d1.c8 has no counterpart on device 0: all devices run one program"},
    {"program_less",
     {{"op d0.m1 lane", "op d0.c8 lane comp call k8 region 5 reads d0.t0 d0.step begin_us 0 time_us 1 line 0\nop d0.m1 lane"}},
     "phase train.full: d0.c8 has no counterpart on device 1: all devices run one program"},
    {"region_waits_as_one", /* of two calls the second waits for what the first needs */
     {{"writes d0.t1 d0.report waits d0.h1@-1", "writes d0.t1 d0.report"},
      {"writes d0.bucket0[0:16] d0.bucket0[64:80]", "writes d0.bucket0[0:16] d0.bucket0[64:80] waits d0.h1@-1"}},
     NULL},
    {"region_is_over_as_one", {{"writes d0.bucket0 waits d0.c3", "writes d0.bucket0 waits d0.c2"}}, NULL},
    {"region_is_not_over",
     {{"writes d0.bucket0 waits d0.c3", "writes d0.bucket0 waits d0.c2"}, {"call k2 region 4", "call k2 region 3"}},
     "phase train.full: d0.m1 reads bucket0 [0, 16) while d0.c3 may still write bucket0: no wait orders them (d0.m1 should wait for d0.c3)"},
    {"cycle_in_region",
     {{"writes d0.bucket0[0:16] d0.bucket0[64:80]", "writes d0.bucket0[0:16] d0.bucket0[64:80] waits d0.c2"}},
     "phase train.full: a cycle: d0.c3 waits for d0.c2, which is in one region with d0.c3"},
    {"cycle_through_region",
     {{"call k1 region 2", "call k1 region 4 chunk 2"},
      {"writes d0.bucket0[0:16] d0.bucket0[64:80]", "writes d0.bucket0[0:16] d0.bucket0[64:80] waits d0.m0"}},
     "phase train.full: a cycle: d0.c3 waits for d0.m0; d0.m0 waits for d0.c1, which is in one region with d0.c3"},
    {"no_cycle_between_regions",
     {{"writes d0.bucket0[0:16] d0.bucket0[64:80]", "writes d0.bucket0[0:16] d0.bucket0[64:80] waits d0.m0 d0.c1"}},
     NULL},
    {"work_outside",
     {{"d0.work kind workspace offset 1344", "d0.work kind workspace offset 1280"}},
     "phase train.full: d0.work is at [1280, 1380), but workspaces in the last 128 bytes of the arena, from 1344 on"},
    {"work_foreign",
     {{"d0.t1 kind temporary offset 640", "d0.t1 kind temporary offset 1408"}},
     "phase train.full: d0.t1 is at [1408, 1432), but from 1344 on every thread has its own bytes, for workspaces"},
    {"work_size",
     {{"arena 1472 work 128 staging 128 samples 0", "arena 1472 work 100 staging 128 samples 0"}},
     "phase train.full: device 0: workspaces of 100 bytes in an arena of 1472"},
    {"work_changes",
     {{"phase eval.full\ndevice 0 name \"host\" arena 1472 work 128",
       "phase eval.full\ndevice 0 name \"host\" arena 1536 work 128"}},
     "phase eval.full: device 0 has an arena of 1536 bytes, 128 of them for workspaces, and 128 of staging, in phase train.full 1472, 128 and 128"},
    {"work_twice",
     {{"buffer d0.work kind", "buffer d0.more kind workspace offset 1408 bytes 0 slots 1\nbuffer d0.work kind"},
      {"writes d0.bucket1 d0.work", "writes d0.bucket1 d0.work d0.more"}},
     "phase train.full: d0.c1 has 2 workspaces, but a thread finds one only"},
    {"each_size",
     {{"d0.t1 kind temporary offset 640 bytes 24 slots 1 each 8", "d0.t1 kind temporary offset 640 bytes 24 slots 1 each 12"}},
     "phase train.full: d0.t1 has 24 bytes, 12 a sample, for 3 samples"},
    {"each_kind",
     {{"*d0.w.fc kind variable offset 256 bytes 16 slots 1 index",
       "d0.w.fc kind variable offset 256 bytes 16 slots 1 each 4 index"}},
     "phase train.full: d0.w.fc, a variable, has 4 bytes a sample"},
    {"each_changes",
     {{"d0.out.p kind output offset 448 bytes 12 slots 2 each 4", "d0.out.p kind output offset 448 bytes 12 slots 2"}},
     "phase eval.full: d0.out.p has 4 bytes a sample, but in phase train.full 0"},
    {"each_of_devices",
     {{"*d1.out.p kind output offset 448 bytes 8 slots 2 each 4", "d1.out.p kind output offset 448 bytes 8 slots 2"}},
     "phase train.full: d1.out.p has 0 bytes a sample, on another device 4"},
    {"local", {{LOCAL_T1(1344, 16)}}, NULL}, /* where a workspace of another region is */
    {"local_room",
     {{LOCAL_T1(1344, 24)}},
     "phase train.full: d0.c2 touches [0, 24) of t1, which has 24 bytes of 8 a sample, but a chunk has 2 samples"},
    {"local_outside",
     {{LOCAL_T1(640, 16)}},
     "phase train.full: d0.t1 is at [640, 656), but workspaces in the last 128 bytes of the arena, from 1344 on"},
    {"local_not_by_sample",
     {{LOCAL_T1(1344, 16)}, {"call k3 region 4 samples chunk 2", "call k3 region 4 chunk 2"}},
     "phase train.full: d0.c3 touches t1, which is local to a chunk, but does not work on chunks of samples"},
    {"local_to_all_samples",
     {{LOCAL_T1(1344, 16)},
      {"call k2 region 4 samples chunk 2", "call k2 region 4 samples"},
      {"call k3 region 4 samples chunk 2", "call k3 region 4 samples"}},
     "phase train.full: d0.c2 touches t1, which is local to a chunk, but does not work on chunks of samples"},
    {"local_to_another_region",
     {{LOCAL_T1(1344, 16)}, {"call k3 region 4", "call k3 region 5"}},
     "phase train.full: d0.c3 of region 5 touches t1, which is local to region 4"},
    {"local_over_workspace",
     {{LOCAL_T1(1344, 16)}, {"call k1 region 2", "call k1 region 4 chunk 2"}},
     "phase train.full: d0.c2 writes t1 over work, which d0.c1 of the same region 4 writes: a barrier is missing between them"},
    {"local_not_written",
     {{LOCAL_T1(1344, 16)}, {"writes d0.t1 d0.report", "writes d0.report"}},
     "phase train.full: d0.c3 reads t1 [0, 16), over which d0.c1 has written work"},
    {"local_in_turn", /* of two local ones that share bytes the second begins when the first is over */
     {{LOCAL_T1(1344, 16)},
      {"buffer d0.work kind", "buffer d0.t2 kind local offset 1344 bytes 16 slots 1 each 8 type f32\nbuffer d0.work kind"},
      {"op d0.m1 lane comm",
       "op d0.c8 lane comp call k8 region 4 samples chunk 2 reads d0.t0 d0.step writes d0.t2 begin_us 0 time_us 1 line 0\n"
       "op d0.m1 lane comm"},
      {"d1.t1 kind temporary offset 640 bytes 16 slots 1", "d1.t1 kind local offset 1344 bytes 16 slots 1"},
      {"buffer d1.work kind", "buffer d1.t2 kind local offset 1344 bytes 16 slots 1 each 8 type f32\nbuffer d1.work kind"},
      {"op d1.m1 lane comm",
       "op d1.c8 lane comp call k8 region 4 samples chunk 2 reads d1.t0 d1.step writes d1.t2 begin_us 0 time_us 1 line 0\n"
       "op d1.m1 lane comm"}},
     NULL},
    {"local_too_early",
     {{LOCAL_T1(1344, 16)},
      {"buffer d0.work kind", "buffer d0.t2 kind local offset 1344 bytes 16 slots 1 each 8 type f32\nbuffer d0.work kind"},
      {"op d0.c3 lane comp",
       "op d0.c8 lane comp call k8 region 4 samples chunk 2 reads d0.t0 d0.step writes d0.t2 begin_us 0 time_us 1 line 0\n"
       "op d0.c3 lane comp"}},
     "phase train.full: d0.c3 reads t1 [0, 16), over which d0.c8 has written t2"},
    {"redundant_wait", {{"writes d0.t1 d0.report waits d0.h1@-1", "writes d0.t1 d0.report"}}, NULL},
    {"stronger_wait", {{"waits d0.h0 d0.c4@-2", "waits d0.h0 d0.c4@-1"}}, NULL},
    {"reads_step_earlier", {{"writes d0.t0 waits d0.u0", "writes d0.t0 waits d0.u0 d0.h1@-1"}}, NULL},
};

/* What is computed: GOOD, with its digests, and one mistake that is the same on both devices: # stands for their numbers. */
static const Case CALLS[] = {
    {"another_kernel", /* of the same parameters */
     {{"*call k0 ", "call k5 "}},
     "phase train.full: d0.c0 computes another value than the program: the digest of k5 and its arguments is 17c94ea0, not 3c6f37a7"},
    {"kernel_of_other_parameters",
     {{"*call k6 ", "call k8 "}},
     "phase eval.full: d0.c1 writes out.p (f32, 4 bytes a sample) as result 0, where k8 has f32, 8 bytes a sample"},
    {"no_kernel", {{"*call k6 ", "call k66 "}}, "phase eval.full: d0.c1 calls k66, which is not in the table of kernels"},
    {"operands_exchanged", /* of one type and size */
     {{"d#.bucket0[0:16] d#.bucket1 d#.w.fc", "d#.bucket1 d#.bucket0[0:16] d#.w.fc"}},
     "phase train.full: d0.c4 computes another value than the program: the digest of k4 and its arguments is beecf099, not 017e4b0a"},
    {"operands_of_other_types",
     {{"reads d#.in.x d#.w.fc d#.step writes d#.t0", "reads d#.w.fc d#.in.x d#.step writes d#.t0"}},
     "phase train.full: d0.c0 reads w.fc (f32, 16 bytes) as operand 0, where k0 has f32, 4 bytes a sample"},
    {"operand_in_place",
     {{"d#.bucket1 d#.w.fc d#.step", "d#.w.fc d#.bucket1 d#.step"}},
     "phase train.full: d0.c4 writes w.fc over operand 1, but k4 does not write result 0 in place"},
    {"operand_not_in_place",
     {{"kernel k4 in f32 16 f32 16 f32 16 out f32 16 over 2", "kernel k4 in f32 16 f32 16 f32 16 out f32 16 over 1"}},
     "phase train.full: d0.c4 writes w.fc as result 0, but k4 writes that over operand 1, which is bucket1"},
    {"results_exchanged",
     {{"writes d#.bucket0[0:16] d#.bucket0[64:80]", "writes d#.bucket0[64:80] d#.bucket0[0:16]"}},
     "phase train.full: d0.c4 computes another value than the program: the digest of k4 and its arguments is f5fd8288, not 017e4b0a"},
    {"operand_is_no_value",
     {{"kernel k4 in f32 16 f32 16", "kernel k4 in f32 8 f32 16"},
      {"d#.bucket0[0:16] d#.bucket1 d#.w.fc", "d#.bucket0[0:8] d#.bucket1 d#.w.fc"}},
     "phase train.full: d0.c4 reads bytes of bucket0 that no call has written as one value"},
    {"operand_left_out",
     {{"reads d#.in.x d#.w.fc d#.step writes d#.t0", "reads d#.in.x d#.step writes d#.t0"}},
     "phase train.full: d0.c0 has 1 operands and 1 results, but k0 has 2 and 1"},
    {"step_left_out",
     {{"reads d#.in.x d#.w.fc d#.step writes d#.t0", "reads d#.in.x d#.w.fc writes d#.t0"}},
     "phase train.full: d0.c0 does not read the step block last, as every call does"},
    {"step_partly",
     {{"reads d#.in.x d#.w.fc d#.step writes d#.t0", "reads d#.in.x d#.w.fc d#.step[0:32] writes d#.t0"}},
     "phase train.full: d0.c0 reads a part of the step block"},
    {"work_left_out",
     {{"writes d#.bucket1 d#.work", "writes d#.bucket1"}},
     "phase train.full: d0.c1 has no workspace of 100 bytes as its last result, but k1 takes one"},
    {"work_of_samples",
     {{"f32 16 work 100", "f32 16 work 40 each 20"}},
     "phase train.full: d1.c1 has no workspace of 80 bytes as its last result, but k1 takes one"},
    {"work_too_large",
     {{"f32 16 work 100", "f32 16 work 40 each 4000000000000000000"}},
     "phase train.full: d0.c1: the workspace of k1 is too large"},
    {"sample_of_another_size",
     {{"kernel k5 in f32 each 4", "kernel k5 in f32 each 8"}},
     "phase eval.full: d0.c0 reads in.x (f32, 4 bytes a sample) as operand 0, where k5 has f32, 8 bytes a sample"},
    {"samples_partly",
     {{"*call k5 region 0 samples", "call k5 region 0"},
      {"*call k6 region 0 samples", "call k6 region 1"},
      {"reads d#.in.x d#.w.fc d#.step writes d#.t0", "reads d#.in.x[0:4] d#.w.fc d#.step writes d#.t0"}},
     "phase train.full: d0.c0 reads in.x (4 of its 12 bytes) as operand 0, where k0 has f32, 4 bytes a sample"},
    {"another_type",
     {{"kernel k1 in f32 each 8", "kernel k1 in i32 each 8"}},
     "phase train.full: d0.c1 reads t0 (f32, 8 bytes a sample) as operand 0, where k1 has i32, 8 bytes a sample"},
    {"sum_of_another_type",
     {{"bytes 16 dtype f32", "bytes 16 dtype i32"}},
     "phase train.full: d0.m0 sums bucket1, which is f32, but r0 sums i32"},
    {"sum_left_out",
     {{"collective r0 group all members d0.m0 d1.m0 kind all-reduce bytes 16 dtype f32 via host\n", ""},
      {"op d#.m0 lane comm reduce r0 reads d#.bucket1 writes d#.bucket1 waits d#.c1 begin_us 0.0 time_us 1.0 line 7\n", ""}},
     "phase train.full: d0.c4 computes another value than the program: the digest of k4 and its arguments is 2ec77a2d, not 017e4b0a"},
    {"update_left_out",
     {{"*d#.w.fc kind variable offset 256 bytes 16 index 0 type f32\n",
       "d#.w.fc kind variable offset 256 bytes 16 index 0 type f32 updated\n"}},
     "phase eval.full: calls write 0 of the 16 bytes of d0.w.fc, which this phase updates"},
    {"update_too_many", {{"*f32 updated", "f32"}}, "phase train.full: d0.c4 writes w.fc, which this phase does not update"},
    {"updated_bucket",
     {{"d#.bucket1 kind bucket offset 832 bytes 16 type f32", "d#.bucket1 kind bucket offset 832 bytes 16 type f32 updated"}},
     "phase train.full: d0.bucket1, a bucket, is updated, but only variables are"},
    {"report_left_out",
     {{"op d#.h1 lane host report - reads d#.report@-1 waits d#.c2@-1 begin_us 0.0 time_us 1.0 line 0\n", ""},
      {" waits d#.h1@-1 digest", " digest"}},
     "phase train.full: calls write 8 bytes of d0.report, of which the host takes 0"},
    {"fetch_of_another", {{"*fetch p ", "fetch q "}}, "phase eval.full: d0.h1 fetches q, but reads out.p"},
    {"index_of_another",
     {{"*d#.w.fc kind variable offset 256 bytes 16 index 0", "d#.w.fc kind variable offset 256 bytes 16 index 1"}},
     "phase train.full: d0.c0 computes another value than the program: the digest of k0 and its arguments is 8a3d1f1f, not 3c6f37a7"},
    {"index_of_another_input",
     {{"*d#.stage.x kind", "d#.stage.y kind"}, {"*d#.stage.x", "d#.stage.y"}},
     "phase train.full: d0.in.x has the index of d0.stage.y"},
};

static const char *for_device(const char *text, int d)
{
    Text t = {0};
    for (; *text; text++) {
        char c = *text == '#' ? (char)('0' + d) : *text;
        text_bytes(&t, &c, 1);
    }
    text_add(&t, "%s", "");
    return t.data;
}

/* what is behind # in a line is for people */
static void drop_reasons(Text *t)
{
    size_t length = 0;
    for (const char *at = t->data; *at; at++) {
        if (strncmp(at, " # ", 3) == 0)
            at += strcspn(at, "\n");
        t->data[length++] = *at;
    }
    t->data[t->length = length] = 0;
}

static void test_calls(void)
{
    Text good = {0};
    schedule_write(read_schedule("good", GOOD), &good);
    drop_reasons(&good);
    for (int i = 0; i < COUNT(CALLS); i++) {
        const Case *c = &CALLS[i];
        const char *text = text_of(&good);
        for (int k = 0; k < COUNT(c->change) && c->change[k].find; k++)
            for (int d = 0; d < (strchr(c->change[k].find, '#') ? 2 : 1); d++)
                text = replace(text, for_device(c->change[k].find, d), for_device(c->change[k].by, d));
        say(c->name, c->message, verify(schedule_read(c->name, text)));
    }
}

static void test_phases(void)
{
    Schedule *s = read_schedule("good", GOOD);
    PhaseSchedule *p = s->phases, train = p[0];
    s->phase_count--;
    say("phase_missing", "phase eval.full of the program is missing", verify(s));
    s->phase_count++;
    s->phase_digest_count--;
    say("phase_more", "here is phase eval.full, but the program has no more phases", verify(s));
    s->phase_digest_count++;
    p[0].name = "train.partial";
    say("phase_renamed", "here is phase train.partial, but the program has train.full", verify(s));
    p[0] = p[1];
    p[1] = train;
    say("phases_in_another_order", "here is phase eval.full, but the program has train.full", verify(s));
    p[0].name = "train.full";
    p[1].name = "eval.full";
    const char *why = verify(s);
    say("phases_exchanged", NULL,
        why && strstr(why, "phase train.full computes something else than the program's phase of this name: its digest is ")
            ? NULL
            : "it is accepted");
    p[1] = p[0];
    p[0] = train;
    p[0].name = "train.full";
    p[1].name = "eval.full";
    say("phases_restored", NULL, verify(s));
    s->phase_digest_count = 0;
    say("phases_unsaid",
        "the schedule does not say which phases the program has, as none of an earlier version does: write it anew with mgpuc --emit schedule, "
        "or compile the program anew",
        verify(s));
}

/* no text says this: numbers of operations and buffers that do not exist */
static void test_numbers(void)
{
    Schedule *s = read_schedule("good", GOOD);
    ScheduledOp *op = &s->phases[0].devices[0].ops[3];
    op->reads[0].buffer = 99;
    say("buffer_number", "phase train.full: d0.c0 reads buffer number 99, which does not exist", verify(s));
    op->reads[0].buffer = 2;
    op->waits[0].op = -1;
    say("wait_number", "phase train.full: d0.c0 waits for operation number -1 of 0 steps before, which does not exist",
        verify(s));
    op->waits[0].op = 2;
    say("numbers_restored", NULL, verify(s));
    s->phases[0].devices[1].ops[5].target = 7;
    say("collective_number", "phase train.full: d1.m0 belongs to no collective", verify(s));
    s->phase_count = 0;
    say("empty", "the schedule has no device, no phase or no batch", verify(s));
}

/* A deep net on many devices: `layers` calls forward, back and for the updates, ten of them a region, with a collective for
 * each, in four phases. */
static void deep_device(Text *t, int d, int layers, bool train)
{
    int variables = 256, temporaries = variables + 64 * layers, buckets = temporaries + 64 * layers;
    text_add(t,
             "buffer d%d.stage.x kind staging offset 0 bytes 64 slots 2 index 0 type f32\n"
             "buffer d%d.step kind step offset 0 bytes 64 slots 2\n"
             "buffer d%d.in.x kind input offset 128 bytes 64 slots 2 each 64 index 0 type f32\n",
             d, d, d);
    for (int i = 0; i < layers; i++)
        text_add(t,
                 "buffer d%d.w%d kind variable offset %d bytes 64 slots 1 index %d type f32%s\n"
                 "buffer d%d.a%d kind temporary offset %d bytes 64 slots 1 each 64 type f32\n",
                 d, i, variables + 64 * i, i, train ? " updated" : "", d, i, temporaries + 64 * i);
    for (int i = 0; i < layers / 10 && train; i++)
        text_add(t, "buffer d%d.bucket%d kind bucket offset %d bytes 640 slots 1 type f32\n", d, i, buckets + 640 * i);
    static const char TIMES[] = "begin_us 0 time_us 1 line 0\n";
    text_add(t,
             "op d%d.h0 lane host read - writes d%d.stage.x waits d%d.u0@-2 %s"
             "op d%d.u0 lane copy upload - reads d%d.stage.x writes d%d.in.x d%d.step waits d%d.h0 d%d.%s%d@-2 %s",
             d, d, d, TIMES, d, d, d, d, d, d, train ? "p" : "f", layers - 1, TIMES);
    for (int i = 0; i < layers; i++)
        text_add(t, "op d%d.f%d lane comp call k0 region %d samples chunk 1 reads d%d.%s d%d.w%d d%d.step writes d%d.a%d%s %s", d,
                 i, i / 10, d, i ? format("a%d", i - 1) : "in.x", d, i, d, d, i, i ? "" : format(" waits d%d.u0", d), TIMES);
    for (int i = layers - 1; i >= 0 && train; i--) {
        text_add(t, "op d%d.b%d lane comp call k1 region %d reads d%d.a%d d%d.w%d d%d.step writes d%d.bucket%d[%d:%d] %s", d, i,
                 2 * layers - i / 10, d, i, d, i, d, d, i / 10, i % 10 * 64, i % 10 * 64 + 64, TIMES);
        if (i % 10 == 0)
            text_add(t, "op d%d.m%d lane comm reduce r%d reads d%d.bucket%d writes d%d.bucket%d waits d%d.b%d %s", d, i / 10,
                     i / 10, d, i / 10, d, i / 10, d, i, TIMES);
    }
    for (int i = 0; i < layers && train; i++) {
        int k = layers - 1 - (i / 10 * 10 + 9 - i % 10); /* bucket by bucket, as they are reduced */
        text_add(
            t,
            "op d%d.p%d lane comp call k2 region %d reads d%d.bucket%d[%d:%d] d%d.w%d d%d.step writes d%d.w%d waits d%d.m%d %s",
            d, i, 3 * layers + i / 10, d, k / 10, k % 10 * 64, k % 10 * 64 + 64, d, k, d, d, k, d, k / 10, TIMES);
    }
}

static Schedule *deep(int layers, int devices)
{
    static const char *const PHASES[] = {"train.full", "train.partial", "eval.full", "eval.partial"};
    Text t = {0};
    text_add(&t,
             "mgpu-schedule 2\nmodel deep precision f32 batch %d accumulate 1 devices %d\n"
             "kernel k0 in f32 each 64 f32 64 out f32 each 64\nkernel k1 in f32 each 64 f32 64 out f32 64\n"
             "kernel k2 in f32 64 f32 64 out f32 64 over 1\n",
             devices, devices);
    for (int p = 0; p < COUNT(PHASES); p++) {
        text_add(&t, "phase %s\n", PHASES[p]);
        for (int d = 0; d < devices; d++)
            text_add(&t, "device %d name \"host\" arena %d work 0 staging 128 samples %d..%d capacity 1\n", d, 192 * layers + 256,
                     d, d + 1);
        for (int d = 0; d < devices; d++)
            deep_device(&t, d, layers, p < 2);
        for (int i = layers / 10 - 1; i >= 0 && p < 2; i--) {
            text_add(&t, "collective r%d group all members", i);
            for (int d = 0; d < devices; d++)
                text_add(&t, " d%d.m%d", d, i);
            text_add(&t, " kind all-reduce bytes 640 dtype f32 via host\n");
        }
    }
    return read_schedule("deep", text_of(&t));
}

/* what no text can say */
static void test_made(void)
{
    Schedule *s = read_schedule("made", GOOD);
    DeviceSchedule *d = &s->phases[0].devices[0];
    d->buffers[1].name = d->buffers[0].name;
    say("made_buffer", "phase train.full: device 0 has two buffers d0.stage.x", verify(s));
    s = read_schedule("made", GOOD);
    d = &s->phases[0].devices[0];
    d->ops[1].id = d->ops[0].id;
    say("made_operation", "phase train.full: two operations d0.h0", verify(s));
    s = read_schedule("made", GOOD);
    d = &s->phases[0].devices[0];
    d->ops[1].verb = VERBS;
    say("made_verb", "phase train.full: d0.h1 has no verb or no lane", verify(s));
}

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* as large as a ResNet-50 on eight devices */
static void test_deep(void)
{
    Schedule *s = deep(1000, 8);
    double began = seconds();
    say("deep", NULL, verify(s));
    double took = seconds() - began;
    printf(took < 20 ? "ok deep_time\n" : "not ok deep_time: %.1f s\n", took);
    failures += took >= 20;
    fprintf(stderr, "deep: %d operations on 8 devices: %.2f s\n", s->phases[0].devices[0].op_count, took);
    DeviceSchedule *d = &s->phases[1].devices[5];
    for (int o = d->op_count - 500, region = d->ops[o].region; d->ops[o].region == region; o++)
        d->ops[o].wait_count = 0;
    say("deep_drop",
        "phase train.partial: d5.p500 reads bucket49 [0, 64) while d5.m49 may still write bucket49: no wait orders them "
        "(d5.p500 should wait for d5.m49)",
        verify(s));
}

/* one region of many calls, each of which reads what the one before has made */
static void test_wide(int calls)
{
    Text t = {0};
    text_add(&t,
             "mgpu-schedule 2\nmodel wide precision f32 batch 2 accumulate 1 devices 1\n"
             "kernel k0 out f32 each 32\nkernel k0 in f32 each 32 out f32 each 32\nphase train.full\n"
             "device 0 name \"host\" arena %d work 0 staging 0 samples 0..2 capacity 2\n"
             "buffer d0.step kind step offset 0 bytes 64 slots 2\n",
             64 * calls + 128);
    for (int i = 0; i < calls; i++)
        text_add(&t, "buffer d0.t%d kind temporary offset %d bytes 64 slots 1 each 32 type f32\n", i, 64 * i + 128);
    text_add(&t, "op d0.u0 lane copy upload - writes d0.step waits d0.c%d@-2 begin_us 0 time_us 1 line 0\n", calls - 1);
    for (int i = 0; i < calls; i++)
        text_add(
            &t,
            "op d0.c%d lane comp call k0 region 0 samples chunk 1 reads %sd0.step writes d0.t%d %sbegin_us 0 time_us 1 line 0\n",
            i, i ? format("d0.t%d ", i - 1) : "", i, i ? "" : "waits d0.u0 ");
    Schedule *s = read_schedule("wide", text_of(&t));
    double began = seconds();
    say("wide", NULL, verify(s));
    double took = seconds() - began;
    printf(took < 5 ? "ok wide_time\n" : "not ok wide_time: %.1f s\n", took);
    failures += took >= 5;
    fprintf(stderr, "wide: a region of %d calls: %.2f s\n", calls, took);
    s->phases[0].devices[0].ops[calls].by_sample = false;
    say("wide_barrier",
        format("phase train.full: d0.c%d reads t%d, which d0.c%d of the same region 0 writes: a barrier is missing "
               "between them (d0.c%d does not take it sample by sample)",
               calls - 1, calls - 2, calls - 2, calls - 1),
        verify(s));
}

/* ---- what is ordered unless a step of one phase, eleven of others without operations of the host, and one of the first phase
 * again follow each other: u0 of the first reads the slot that h0 of the last one writes */
static const char *apart(bool ordered, int others)
{
    static const char DEVICE[] = "device 0 name \"host\" arena 4096 work 0 staging 2048 samples 0..3 capacity 3\n"
                                 "buffer d0.step kind step offset 0 bytes 64 slots 12\n"
                                 "buffer d0.w.fc kind variable offset 768 bytes 16 slots 1 index 0 type f32\n"
                                 "buffer d0.in.x kind input offset 832 bytes 12 slots 12 each 4 index 0 type f32\n"
                                 "buffer d0.in.y kind input offset 1600 bytes 12 slots 12 each 4 index 1 type f32\n";
    Text t = {0};
    text_add(&t,
             "mgpu-schedule 2\nmodel hand precision f32 batch 3 accumulate 1 devices 1\n"
             "kernel k0 in f32 each 4 f32 each 4 out f32 each 4\n"
             "kernel k1 in f32 16 out f32 16\nphase train.full\n%s"
             "buffer d0.stage.x kind staging offset 0 bytes 12 slots 12 index 0 type f32\n"
             "buffer d0.stage.y kind staging offset 768 bytes 12 slots 12 index 1 type f32\n"
             "buffer d0.t0 kind temporary offset 2368 bytes 12 slots 1 each 4 type f32\n"
             "op d0.h0 lane host read - writes d0.stage.x%s begin_us 0 time_us 1 line 0\n"
             "op d0.h1 lane host read - writes d0.stage.y waits d0.c0@-1 begin_us 0 time_us 1 line 0\n"
             "op d0.u0 lane copy upload - reads d0.stage.x d0.stage.y writes d0.in.x d0.in.y d0.step waits d0.h1 d0.c0@-12 "
             "begin_us 0 time_us 1 line 0\n"
             "op d0.c0 lane comp call k0 region 0 samples reads d0.in.x d0.in.y d0.step writes d0.t0 waits d0.u0 "
             "begin_us 0 time_us 1 line 7\n",
             DEVICE, ordered ? " waits d0.u0@-12" : "");
    for (int i = 0; i < others; i++)
        text_add(
            &t,
            "phase other%d\n%sbuffer d0.t0 kind temporary offset 2368 bytes 16 slots 1 type f32\n"
            "op d0.u0 lane copy upload - writes d0.step waits d0.c0@-12 begin_us 0 time_us 1 line 0\n"
            "op d0.c0 lane comp call k1 region 0 reads d0.w.fc d0.step writes d0.t0 waits d0.u0 begin_us 0 time_us 1 line 7\n",
            i, DEVICE);
    return t.data;
}

static void test_apart(void)
{
    say("apart", NULL, verify(read_schedule("apart", apart(true, 3))));
    say("apart_without_order",
        "phase train.full: d0.h0 writes stage.x [0, 12) while d0.u0@-12 may still read stage.x: no wait orders them "
        "(d0.h0 should wait for d0.u0@-12)",
        verify(read_schedule("apart", apart(false, 3))));
    say("phases", "33 phases are more than any program has: at most 32 are proved",
        verify(read_schedule("phases", apart(true, 32))));
    say("most_phases", NULL, verify(read_schedule("phases", apart(true, 31))));
}

int main(void)
{
    say("good", NULL, verify(read_schedule("good", GOOD)));
    for (int i = 0; i < COUNT(CASES); i++) {
        const Case *c = &CASES[i];
        const char *text = GOOD;
        for (int k = 0; k < COUNT(c->change) && c->change[k].find; k++)
            text = replace(text, c->change[k].find, c->change[k].by);
        say(c->name, c->message, verify(read_schedule(c->name, text)));
    }
    test_calls();
    test_phases();
    test_numbers();
    test_made();
    test_apart();
    test_deep();
    test_wide(30000);
    return failures ? 1 : 0;
}
