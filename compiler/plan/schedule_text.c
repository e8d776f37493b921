/* schedule_text.c: Schedule -> text; schedule_read.c: and back. schedule_write(schedule_read(text)) is the text that was written.
 *
 * One record per line, words apart by spaces. Blank lines and lines that begin with # are skipped by the reader.
 *
 *   file        "mgpu-schedule 3" model [plan] [phases] kernel* phase*
 *   model       "model" NAME "precision" NAME "batch" N "accumulate" N "devices" N ["nodes" N] ["predicts"]
 *                 nodes: equally many devices on each, the first ones on the first; absent: one. predicts: no phase trains
 *               "#" "predicted" "step_us" DECIMAL "machine" NAME "bound" NAME      comments, for people and views: a step of the run,
 *               "#" "lane" "devices" FIRST LAST LANE "busy_us" DECIMAL "idle_us" DECIMAL*6     what lanes do in it, idle for computation,
 *               "#" "link" NAME "bytes" N "share" DECIMAL          upload, communication, input, other devices, nothing; what links carry
 *               "#" "roofs" "bandwidth" NUMBER "plain" NUMBER "matrix" NUMBER      of device 0: bytes of memory, operations, and
 *                                                                              those of matrix units, a second; 0: none
 *               "#" "transfers" "bytes" N              what they take of each GPU besides its arena; absent: nothing
 *   plan        "plan" NAME "input" WORD "variables" WORD "reduce" WORD "order" WORD "waited" WORD "gradients" WORD "slots" N ["label" "TEXT"]
 *                 how devices share the work, in the words of --plan; absent: auto. label: what has to be known of it
 *   phases      "phases" (NAME HHHHHHHH)*
 *                 the phases of the program, all of them and in its order, and of each a digest of its name and of its calls' digests:
 *                 what the phase of this name computes; absent: a text of an earlier version, which is not proved
 *   kernel      "kernel" kNAME ["in" parameter+] ["out" parameter+] ["own" "of" N] ["work" BYTES ["each" BYTES]]
 *                 ["extent" "TEXT"]
 *                 what the kernel reads and what it writes, in the order of a call's arguments, and its workspace: bytes, and bytes
 *                 for each sample of the device. A kernel that is called with operands of several sizes has several records
 *                 extent: what its threads run over, and the type
 *                 own: its calls compute a device's own part of split values of so many elements, and touch only that part of the
 *                 parameters of this size
 *   parameter   DTYPE (BYTES | "each" BYTES) ["over" N]     each: bytes of a sample, of all samples of the device or chunk;
 *                 over: written in the place of parameter N that is read, counted from 0 (inout)
 *   phase       "phase" NAME device* (buffer | op)* collective*
 *   device      "device" N "name" "TEXT" "arena" BYTES "work" BYTES "staging" BYTES "samples" FIRST..END "capacity" N
 *                 ["as" N]
 *                 as: its buffers and operations are those of device N, an earlier one, which alone has records of them;
 *                 devices count from 0; samples are those of a micro-batch: from FIRST up to, not including, END; work:
 *                 the last bytes of the arena, of which each thread of the device has its own
 *   buffer      "buffer" dN.NAME "kind" KIND "offset" BYTES "bytes" BYTES ["slots" N] ["each" BYTES] ["own" "of" N]
 *                 ["index" N]
 *                 ["type" DTYPE] ["updated"]
 *                 bytes of one slot (local: of a chunk); slots (absent: one) follow each other, each on a multiple of 64; offset in the arena, of staging
 *                 buffers in the staging arena; each: bytes of one sample, where it consists of the device's samples;
 *                 own: a variable or temporary that is split: of so many elements the device has its part alone (mgpu_even_part);
 *                 index: of the input, variable or output; type: of its elements; updated: a variable that calls of this phase
 *                 write, all of it, once a step
 *   op          "op" dN.NAME "lane" LANE VERB LABEL ["region" N ["samples"] ["chunk" N]] ["own" BEGIN..END "of" N] ["reads" access+]
 *                 ["writes" access+] ["waits" wait+] ["digest" HHHHHHHH] "begin_us" DECIMAL "time_us" DECIMAL "line" N
 *                 ["layer" NAME] ["role" NAME] ["flops" N] ["bytes" N] ["#" REASONS]
 *                 the order of a lane is the order of its lines. LABEL: the kernel (call); the
 *                 collective (reduce); the output (fetch); else -. region: calls of the same one follow each other; the
 *                 threads run them without a barrier between them, so the region waits for what its calls wait for, and they
 *                 are all over when it is; samples: the call works sample by sample; chunk: a thread takes so many of its
 *                 samples through the region at a time
 *                 own: of split values of N elements the call computes these, and touches no others
 *                 digest (of every call): eight hexadecimal digits, of what the program computes here, from what: a hash of the
 *                 kernel, of the values that it reads and of the variables and outputs that it writes (schedule.h)
 *                 layer: the instance that it computes, which may be a part of the name; role: forward, backward with the weights
 *                 whose gradients it makes, update; flops: operations of one call; bytes: that it moves, as its time counts them: what an
 *                 epilogue reads beside its contraction is the contraction's. Behind # is for each wait what it waits for; a reader skips that
 *   access      dN.BUFFER ["[" BEGIN ":" END ["of" N] "]"] [slot]     no range: the whole buffer; of: the device's own part, at its
 *                 place in a split value of N bytes. A call's accesses are its kernel's
 *                 arguments in their order, but for the step block, which every kernel gets anyway
 *   slot        "@+" K | "@-" K                              slot (step + K) mod slots; absent: K is 0
 *   wait        dN.OP ["@-" K]                               the op of the K-th step before; absent: of this step
 *   collective  "collective" NAME "group" "all" "members" (dN.OP)+ "kind" KIND ["from" N] ["to" N] ["parts" N+] "bytes" N
 *                 "dtype" DTYPE "via" WAY ["why" "TEXT"] ["of" NAME+]
 *                 at most one member per device. KIND: a row of mgpu_transfers.h, as the verb of its members is; bytes: of the
 *                 whole value, of which a member reads and writes what the row says; parts: first element of each device's
 *                 own, and the count of all; WAY: how it is made, host, nccl, peer or copy; auto: as the run finds best; why: what it
 *                 sums, the predicted time of the method that is taken, and that of the best other way; of: the weights whose gradients it sums, or the values
 *
 * Names are bare if they consist of letters, digits and . _ - / only, else in quotes; in quotes \" \\ and \xHH (two
 * hexadecimal digits) are characters. A device name is always in quotes. Numbers are whole, but for times: one
 * decimal. */
#include "compiler/base/words.h"
#include "compiler/plan/policy.h"
#include "compiler/plan/schedule.h"

#include <stdlib.h>

const char *const LANE_NAME[LANES] = MGPU_LANE_NAMES;
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

static void write_accesses(const DeviceSchedule *d, int number, const char *word, const Access *accesses, int count, Text *t)
{
    if (count)
        text_add(t, " %s", word);
    for (int i = 0; i < count; i++) {
        const Access *a = &accesses[i];
        const Buffer *b = &d->buffers[a->buffer];
        write_owned(number, b->name, t);
        if (a->begin != 0 || a->end != b->bytes || a->of)
            text_add(t, "[%lld:%lld%s]", (long long)a->begin, (long long)a->end, a->of ? format(" of %lld", (long long)a->of) : "");
        if (a->slot)
            text_add(t, "@%+d", a->slot);
    }
}

static void write_parameters(const char *word, const Parameter *list, int count, Text *t)
{
    if (count)
        text_add(t, " %s", word);
    for (int i = 0; i < count; i++) {
        const Parameter *p = &list[i];
        text_add(t, p->each ? " %s each %lld" : " %s %lld", dtype_name(p->dtype), (long long)(p->each ? p->each : p->bytes));
        if (p->over)
            text_add(t, " over %d", p->over - 1);
    }
}

static void write_said(const char *word, const char *text, Text *t)
{
    if (!text)
        return;
    text_add(t, " %s ", word);
    write_name(text, t);
}

static void signature_write(const Signature *s, Text *t)
{
    write_name(s->label, t);
    write_parameters("in", s->in, s->in_count, t);
    write_parameters("out", s->out, s->out_count, t);
    if (s->elements)
        text_add(t, " own of %lld", (long long)s->elements);
    if (s->work || s->work_each)
        text_add(t, " work %lld", (long long)s->work);
    if (s->work_each)
        text_add(t, " each %lld", (long long)s->work_each);
    if (s->extent) {
        text_add(t, " extent ");
        write_quoted(s->extent, t);
    }
}

static const char *verb_word(const PhaseSchedule *p, const ScheduledOp *op)
{
    return op->verb == VERB_TRANSFER ? transfer_word(p->collectives[op->target].parties.transfer) : VERB_NAME[op->verb];
}

/* "# upload makes in.image; ..." */
static void write_reasons(const DeviceSchedule *d, const ScheduledOp *op, Text *t)
{
    int said = 0;
    for (int i = 0; i < op->wait_count; i++) {
        const char *why = wait_reason(d, op, &op->waits[i]);
        if (!why)
            continue;
        text_add(t, said++ ? "; " : " # ");
        write_name(d->ops[op->waits[i].op].id, t);
        text_add(t, " %s", why);
    }
}

static void write_op(const PhaseSchedule *p, const DeviceSchedule *d, int number, const ScheduledOp *op, Text *t)
{
    text_add(t, "op");
    write_owned(number, op->id, t);
    text_add(t, " lane %s %s ", LANE_NAME[op->lane], verb_word(p, op));
    write_name(op->label, t);
    if (op->region >= 0)
        text_add(t, " region %d%s", op->region, op->by_sample ? " samples" : "");
    if (op->region >= 0 && op->chunk > 0)
        text_add(t, " chunk %lld", (long long)op->chunk);
    if (op->elements > 0)
        text_add(t, " own %lld..%lld of %lld", (long long)op->own.begin, (long long)op->own.end, (long long)op->elements);
    write_accesses(d, number, "reads", op->reads, op->read_count, t);
    write_accesses(d, number, "writes", op->writes, op->write_count, t);
    if (op->wait_count)
        text_add(t, " waits");
    for (int i = 0; i < op->wait_count; i++) {
        write_owned(number, d->ops[op->waits[i].op].id, t);
        if (op->waits[i].back)
            text_add(t, "@-%d", op->waits[i].back);
    }
    if (op->verb == VERB_CALL)
        text_add(t, " digest %08x", (unsigned)op->digest);
    text_add(t, " begin_us %.1f time_us %.1f line %d", op->begin_us, op->time_us, op->line);
    write_said("layer", op->layer, t);
    write_said("role", op->role, t);
    if (op->flops >= 1)
        text_add(t, " flops %.0f", op->flops);
    if (op->bytes >= 1)
        text_add(t, " bytes %.0f", op->bytes);
    write_reasons(d, op, t);
    text_add(t, "\n");
}

/* buffers and operations, as those of the device of this number */
static void write_device(const PhaseSchedule *p, const DeviceSchedule *d, int number, Text *t)
{
    for (int i = 0; i < d->buffer_count; i++) {
        const Buffer *b = &d->buffers[i];
        text_add(t, "buffer");
        write_owned(number, b->name, t);
        text_add(t, " kind %s offset %lld bytes %lld", BUFFER_KIND_NAME[b->kind], (long long)b->offset, (long long)b->bytes);
        if (b->slots != 1)
            text_add(t, " slots %d", b->slots);
        if (b->each > 0)
            text_add(t, " each %lld", (long long)b->each);
        if (b->elements > 0)
            text_add(t, " own of %lld", (long long)b->elements);
        if (b->index >= 0)
            text_add(t, " index %d", b->index);
        if (b->type)
            text_add(t, " type %s", dtype_name((Dtype)(b->type - 1)));
        text_add(t, b->updated ? " updated\n" : "\n");
    }
    for (int i = 0; i < d->op_count; i++)
        write_op(p, d, number, &d->ops[i], t);
}

/* by device: the first whose buffers and operations read the same */
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
    text_add(t, " bytes %lld dtype %s via %s", (long long)(c->count * dtype_bytes(c->dtype)), dtype_name(c->dtype), mgpu_way_name(c->way));
    if (c->why) {
        text_add(t, " why ");
        write_quoted(c->why, t);
    }
    if (c->of_count)
        text_add(t, " of");
    for (int i = 0; i < c->of_count; i++) {
        text_add(t, " ");
        write_name(c->of[i], t);
    }
    text_add(t, "\n");
}

void schedule_write(const Schedule *s, Text *t)
{
    text_add(t, "mgpu-schedule 3\nmodel ");
    write_name(s->model, t);
    text_add(t, " precision ");
    write_name(s->precision, t);
    text_add(t, " batch %lld accumulate %d devices %d%s%s\n", (long long)s->batch, s->accumulate, s->devices, s->nodes > 1 ? format(" nodes %d", s->nodes) : "",
             s->predicts ? " predicts" : "");
    text_add(t, "%s", s->notes ? s->notes : "");
    if (s->besides_bytes)
        text_add(t, "# transfers bytes %lld\n", (long long)s->besides_bytes);
    if (s->policy) {
        text_add(t, "plan ");
        policy_write(s->policy, t);
        text_add(t, "\n");
    }
    text_add(t, "%s", s->phase_digest_count ? "phases" : "");
    for (int i = 0; i < s->phase_digest_count; i++) {
        text_add(t, " ");
        write_name(s->phase_digests[i].phase, t);
        text_add(t, " %08x", (unsigned)s->phase_digests[i].digest);
    }
    text_add(t, "%s", s->phase_digest_count ? "\n" : "");
    for (int i = 0; i < s->signature_count; i++) {
        text_add(t, "kernel ");
        signature_write(&s->signatures[i], t);
        text_add(t, "\n");
    }
    for (int i = 0; i < s->phase_count; i++) {
        const PhaseSchedule *p = &s->phases[i];
        const int *same = find_classes(p, s->devices);
        text_add(t, "phase ");
        write_name(p->name, t);
        text_add(t, "\n");
        for (int d = 0; d < s->devices; d++) {
            const DeviceSchedule *x = &p->devices[d];
            text_add(t, "device %d name ", d);
            write_quoted(x->name, t);
            text_add(t, " arena %lld work %lld staging %lld samples %lld..%lld capacity %lld", (long long)x->arena_bytes,
                     (long long)x->work_bytes, (long long)x->staging_bytes, (long long)x->first, (long long)(x->first + x->share), (long long)x->capacity);
            text_add(t, "%s\n", same[d] < d ? format(" as %d", same[d]) : "");
        }
        for (int d = 0; d < s->devices; d++)
            if (same[d] == d)
                write_device(p, &p->devices[d], d, t);
        for (int k = 0; k < p->collective_count; k++)
            write_collective(s, p, &p->collectives[k], t);
    }
}
