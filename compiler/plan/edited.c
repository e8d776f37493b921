/* edited.c: replaces a plan's schedule by one that a person has edited.
 *
 * In: a plan with the schedule that the compiler made for it, and a schedule that was read from a text. Order, lanes, waits,
 * offsets, regions, collectives and their implementations are taken from the text, and the verifier proves them later. Whatever
 * the program's code or data depend on must be the same in both: the model, its kernels, the samples of devices, and the buffers
 * of inputs, outputs and variables. A difference is an error at its line. What a text lacks is copied from the compiler's
 * schedule: kernel numbers, kinds of phases, unrounded times. */
#include "compiler/base/records.h"
#include "compiler/ir/program.h"
#include "compiler/kernel/target.h"
#include "compiler/plan/plan.h"
#include "compiler/plan/schedule_internal.h"

#include <string.h>

typedef struct Edit {
    const Program *program;
    const Source *source;
    Schedule *text;
    const Schedule *made;
    const PhaseSchedule *phase, *made_phase;
} Edit;

static _Noreturn void differs(const Edit *e, int line, const char *what, const char *here, const char *there)
{
    error_at(
        &(Place){.source = e->source, .line = line, .column = 1},
        "%s: %s here, but the program has %s; order, lanes, waits, offsets, regions and collectives may be changed, nothing else: restore it, "
        "or print the schedule anew with the options of this command",
        what, here, there);
}

static const char *text_of_field(const mgpu_field *f, const void *base)
{
    Text t = {0};
    if (f->kind == MGPU_FIELD_FLAG)
        return MGPU_MEMBER_OF(bool, base, f->at) ? "yes" : "no";
    write_value(f, base, &t);
    const char *text = text_take(&t);
    return *text == ' ' ? text + 1 : text;
}

/* Requires the text's fields of two records to be equal, except those whose words are in `but`. */
static void need_equal(const Edit *e, const mgpu_record *r, const void *text, const void *made, int line, const char *name,
                       const char *but)
{
    for (int i = 0; i < r->field_count; i++) {
        const mgpu_field *f = &r->fields[i];
        if (f->kind >= MGPU_FIELD_KINDS || (f->word && but && strstr(but, f->word)))
            continue;
        const char *here = text_of_field(f, text), *there = text_of_field(f, made);
        if (strcmp(here, there) != 0)
            differs(e, line, format("%s%s%s", name, *name && f->word ? ", " : "", f->word ? f->word : ""), here, there);
    }
}

/* Returns the line of the phases' digests, or that of the model if the text has none. */
static int phases_line(const Schedule *text) { return text->phases_line ? text->phases_line : text->model_line; }

static void need_head(const Edit *e)
{
    const Schedule *text = e->text, *made = e->made;
    need_equal(e, &MODEL_RECORD, text, made, text->model_line, "the model", NULL);
    if (!text->policy != !made->policy)
        differs(e, text->policy ? text->plan_line : text->model_line, "the plan", text->policy ? text->policy->name : "none",
                made->policy ? made->policy->name : "none");
    if (text->policy)
        need_equal(e, &PLAN_RECORD, text->policy, made->policy, text->plan_line, "the plan", NULL);
    for (int i = 0; i < text->phase_digest_count || i < made->phase_digest_count; i++) {
        const PhaseDigest *here = i < text->phase_digest_count ? &text->phase_digests[i] : NULL,
                          *there = i < made->phase_digest_count ? &made->phase_digests[i] : NULL;
        if (!here || !there || strcmp(here->phase, there->phase) != 0 || here->digest != there->digest)
            differs(e, phases_line(text), "the phases",
                    here ? format("%s %08x", here->phase, (unsigned)here->digest) : "nothing more",
                    there ? format("%s %08x", there->phase, (unsigned)there->digest) : "nothing more");
    }
}

static const char *signature_text(const Signature *s)
{
    Text t = {0};
    mgpu_write_signature(s, &(mgpu_writer){text_put, &t});
    t.length -= t.length > 0; /* without the newline */
    return text_take(&t);
}

/* Requires the same table of kernels, and takes the program's, which has the program's kernel numbers. */
static void need_kernels(const Edit *e)
{
    Schedule *text = e->text;
    for (int i = 0; i < text->signature_count || i < e->made->signature_count; i++) {
        const char *here = i < text->signature_count ? signature_text(&text->signatures[i]) : "nothing more";
        const char *there = i < e->made->signature_count ? signature_text(&e->made->signatures[i]) : "nothing more";
        if (strcmp(here, there) != 0)
            differs(e, i < text->signature_count ? text->signatures[i].text_line : text->model_line, "the table of kernels", here,
                    there);
    }
    text->signatures = e->made->signatures;
}

/* ---- devices */
static bool is_fixed(const Buffer *b)
{
    return b->kind != BUFFER_TEMPORARY && b->kind != BUFFER_BUCKET && b->kind != BUFFER_WORKSPACE && b->kind != BUFFER_LOCAL;
}

static void need_buffers(const Edit *e, const DeviceSchedule *text, const DeviceSchedule *made)
{
    Map known = {0};
    for (int i = 0; i < made->buffer_count; i++)
        map_set(&known, made->buffers[i].name, &made->buffers[i]);
    for (int i = 0; i < text->buffer_count; i++) {
        const Buffer *b = &text->buffers[i], *its = map_get(&known, b->name);
        if (its && (is_fixed(b) || is_fixed(its)))
            need_equal(e, &BUFFER_RECORD, b, its, b->text_line, b->name, "offset slots updated replaced");
        else if (b->kind == BUFFER_WORKSPACE && b->offset % workspace_alignment(e->program))
            differs(e, b->text_line, b->name, format("at %lld", (long long)b->offset),
                    format("workspaces at multiples of %d", workspace_alignment(e->program)));
        else if (!its && is_fixed(b))
            differs(e, b->text_line, b->name, BUFFER_KIND_NAME[b->kind], "no such buffer");
    }
}

/* Copies what the text of a call lacks from the same call, or from another call with this label. */
static void complete_call(const Edit *e, ScheduledOp *op, const ScheduledOp *its, const Map *calls)
{
    const ScheduledOp *like = its ? its : map_get(calls, op->label);
    if (!like)
        differs(e, op->text_line, op->id, format("a call of %s", op->label), "no such call in this phase");
    op->target = like->target;
    op->nan_sources = like->nan_sources;
    op->nan_source_count = like->nan_source_count;
}

static bool same_transfer(const Edit *e, const ScheduledOp *text, const ScheduledOp *made)
{
    const CollectiveRecord *a = &e->phase->collectives[text->target], *b = &e->made_phase->collectives[made->target];
    return a->count == b->count && a->dtype == b->dtype && a->implementation == b->implementation && a->lane == b->lane &&
           a->participants.transfer == b->participants.transfer;
}

static const ScheduledOp *call_before(const ScheduledOp *first, const ScheduledOp *op)
{
    while (op-- > first)
        if (op->verb == VERB_CALL)
            return op;
    return NULL;
}

/* On GPUs a kernel may be fused with the call before it, and a region is one launch: the call before must then be the same. */
static void need_launch(const Edit *e, const DeviceSchedule *d, const ScheduledOp *op, const DeviceSchedule *made,
                        const ScheduledOp *its)
{
    const ScheduledOp *before = call_before(d->ops, op), *there = call_before(made->ops, its);
    bool joined = its->read_count - 1 > e->program->kernels[its->target]->read_count,
         region = before && before->region == op->region;
    if (!joined && !region)
        return;
    if (joined ? !before || strcmp(before->id, there->id) != 0 : !there || there->region != its->region)
        differs(e, op->text_line, op->id,
                before ? format("%s before it%s", before->id, region ? " in one region" : "") : "nothing before it",
                there ? format("%s%s", there->id, there->region == its->region ? " in one region" : "") : "nothing before it");
}

static void complete_ops(const Edit *e, const DeviceSchedule *d, const DeviceSchedule *made)
{
    Map ops = {0}, calls = {0};
    for (int i = 0; i < made->op_count; i++) {
        map_set(&ops, made->ops[i].id, &made->ops[i]);
        if (made->ops[i].verb == VERB_CALL)
            map_set(&calls, made->ops[i].label, &made->ops[i]);
    }
    for (int i = 0; i < d->op_count; i++) {
        ScheduledOp *op = &d->ops[i];
        const ScheduledOp *its = map_get(&ops, op->id);
        if (its && (its->verb != op->verb || (op->verb == VERB_CALL && strcmp(its->label, op->label) != 0)))
            its = NULL;
        if (op->verb == VERB_CALL)
            complete_call(e, op, its, &calls);
        else if (op->verb != VERB_TRANSFER && its)
            op->target = its->target;
        if (its && (op->verb != VERB_TRANSFER || same_transfer(e, op, its))) {
            op->time_us = its->time_us;
            op->ground = its->ground;
        }
        if (op->verb == VERB_CALL && its && e->program->target->images)
            need_launch(e, d, op, made, its);
    }
}

static void complete_device(const Edit *e, DeviceSchedule *d, const DeviceSchedule *made)
{
    need_equal(e, &DEVICE_RECORD, d, made, d->text_line, "the device", "arena staging work");
    if (d->first != made->first || d->share != made->share)
        differs(e, d->text_line, "the device, samples",
                format("%lld..%lld", (long long)d->first, (long long)(d->first + d->share)),
                format("%lld..%lld", (long long)made->first, (long long)(made->first + made->share)));
    d->least_bytes = made->least_bytes;
    need_buffers(e, d, made);
    complete_ops(e, d, made);
}

/* Returns true if all devices have the same operations in the same order. */
static bool in_step(const PhaseSchedule *p, int devices)
{
    for (int d = 1; d < devices; d++) {
        if (p->devices[d].op_count != p->devices[0].op_count)
            return false;
        for (int i = 0; i < p->devices[d].op_count; i++)
            if (strcmp(p->devices[d].ops[i].id, p->devices[0].ops[i].id) != 0 ||
                p->devices[d].ops[i].lane != p->devices[0].ops[i].lane)
                return false;
    }
    return true;
}

static void complete_phase(Edit *e, PhaseSchedule *p, const PhaseSchedule *made)
{
    if (strcmp(p->name, made->name) != 0)
        differs(e, p->text_line, "the phases", p->name, made->name);
    e->phase = p;
    e->made_phase = made;
    p->kind = made->kind;
    p->partial_batch = made->partial_batch;
    p->reports = made->reports;
    p->report_count = made->report_count;
    ScheduledOp **ops = NEW_ARRAY(ScheduledOp *, e->text->devices);
    for (int d = 0; d < e->text->devices; d++) {
        complete_device(e, &p->devices[d], &made->devices[d]);
        ops[d] = p->devices[d].ops;
    }
    if (in_step(p, e->text->devices))
        find_times(ops, e->text->devices, p->devices[0].op_count);
}

void take_edited(const Program *p, Plan *plan, Schedule *text, const Source *source)
{
    Edit e = {.program = p, .source = source, .text = text, .made = plan->schedule};
    need_head(&e);
    need_kernels(&e);
    if (text->phase_count != plan->schedule->phase_count)
        differs(&e, phases_line(text), "the phases", format("%d", text->phase_count), format("%d", plan->schedule->phase_count));
    for (int i = 0; i < text->phase_count; i++)
        complete_phase(&e, &text->phases[i], &plan->schedule->phases[i]);
    text->policy = plan->schedule->policy;
    text->reused_gather_share = plan->schedule->reused_gather_share;
    text->early_gather_share = plan->schedule->early_gather_share;
    text->in_order = plan->schedule->in_order;
    text->outside_arena_bytes = (p->target->own_memory ? bytes_outside_arena(text) : 0) + bytes_of_shard_terms(p, text);
    text->step = (StepRecord){0}; /* the prediction was for the compiler's schedule */
    plan->schedule = text;
}
