/* split.c: values are gathered in the parts in which they were scattered.
 *
 * In: a phase whose collectives match (verify.c). Out: NULL, or the first collective that gathers other parts than those of the
 * reduce-scatters from which its value comes. The dependences are found through the buffers of device 0, since all devices run
 * one program: a call passes what it reads to all that it writes, so a buffer may have several sources, and one of them must have
 * the parts of the collective. Sources with other counts belong to other values. A gathered buffer passes nothing on, because it
 * is whole. */
#include "compiler/plan/schedule.h"
#include "compiler/verify/proof.h"
#include "compiler/verify/verify.h"

#include <string.h>

/* [buffer x words]: bit sets of collectives; [buffer] */
typedef struct Sources {
    uint64_t *bits;
    int words;
    bool *whole;
} Sources;

static const mgpu_transfer *row_of(const CollectiveRecord *c) { return mgpu_transfer_row(c->participants.transfer); }
static bool scatters(const CollectiveRecord *c) { return row_of(c)->receives == MGPU_SHARE_OWN; }
static bool gathers(const CollectiveRecord *c) { return row_of(c)->sends == MGPU_SHARE_OWN; }

/* true if a source was added */
static bool take(Sources *s, const ScheduledOp *op)
{
    bool changed = false;
    for (int w = 0; w < op->write_count; w++)
        for (int r = 0; r < op->read_count; r++)
            for (int k = 0; k < s->words && !s->whole[op->reads[r].buffer]; k++) {
                uint64_t *to = &s->bits[op->writes[w].buffer * s->words + k], before = *to;
                *to |= s->bits[op->reads[r].buffer * s->words + k];
                changed = changed || *to != before;
            }
    return changed;
}

static bool same_parts(const CollectiveRecord *a, const CollectiveRecord *b, int devices)
{
    return memcmp(a->participants.parts, b->participants.parts, sizeof *a->participants.parts * (size_t)(devices + 1)) == 0;
}

static const char *check_gather(const Schedule *s, const PhaseSchedule *p, const Sources *sources, const ScheduledOp *op)
{
    const CollectiveRecord *c = &p->collectives[op->target], *other = NULL;
    for (int k = 0; k < p->collective_count; k++) {
        const CollectiveRecord *from = &p->collectives[k];
        if (!(sources->bits[op->reads[0].buffer * sources->words + k / 64] >> k % 64 & 1) || from->count != c->count)
            continue;
        if (same_parts(from, c, s->devices))
            return NULL;
        other = from;
    }
    if (!other)
        return NULL;
    return format("phase %s: %s %s takes %s together in other parts than those of %s %s, which it comes from", p->name,
                  row_of(c)->kind, c->name, p->devices[0].buffers[op->reads[0].buffer].name, row_of(other)->kind, other->name);
}

const char *verify_split(const Schedule *s, int phase, int device)
{
    const PhaseSchedule *p = &s->phases[phase];
    const DeviceSchedule *d = &p->devices[0];
    bool any = false;
    Sources sources = {.words = (p->collective_count + 63) / 64};
    for (int k = 0; k < p->collective_count; k++)
        any = any || gathers(&p->collectives[k]);
    if (device > 0 || !any)
        return NULL;
    sources.bits = NEW_ARRAY(uint64_t, d->buffer_count * sources.words);
    sources.whole = NEW_ARRAY(bool, d->buffer_count);
    for (int o = 0; o < d->op_count; o++) {
        look_at(d->ops[o].text_line);
        const ScheduledOp *op = &d->ops[o];
        if (op->verb != VERB_TRANSFER)
            continue;
        if (scatters(&p->collectives[op->target]))
            sources.bits[op->writes[0].buffer * sources.words + op->target / 64] |= (uint64_t)1 << op->target % 64;
        if (gathers(&p->collectives[op->target]))
            sources.whole[op->writes[0].buffer] = true;
    }
    for (bool changed = true; changed;) {
        changed = false;
        for (int o = 0; o < d->op_count; o++)
            changed = (d->ops[o].verb == VERB_CALL && take(&sources, &d->ops[o])) || changed;
    }
    for (int o = 0; o < d->op_count; o++) {
        look_at(d->ops[o].text_line);
        const char *why = d->ops[o].verb == VERB_TRANSFER && gathers(&p->collectives[d->ops[o].target])
                              ? check_gather(s, p, &sources, &d->ops[o])
                              : NULL;
        if (why)
            return why;
    }
    return NULL;
}
