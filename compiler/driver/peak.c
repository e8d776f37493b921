/* peak.c: finds what uses a device's memory: the tensors that are alive at the call with the most bytes. Buffers of inputs,
 * variables and results are alive throughout; others from the first to the last operation that accesses them. */
#include "compiler/driver/command.h"
#include "compiler/plan/schedule.h"

#include <stdlib.h>
#include <string.h>

/* line: of its first writer; 0: none */
typedef struct Alive {
    const Buffer *buffer;
    int64_t bytes;
    int first, last, line;
} Alive;

static bool is_temporary(const Buffer *b)
{
    return b->kind == BUFFER_TEMPORARY || b->kind == BUFFER_BUCKET || b->kind == BUFFER_WORKSPACE || b->kind == BUFFER_LOCAL;
}

static void touch(Alive *alive, const Access *a, int op, int line)
{
    Alive *x = &alive[a->buffer];
    if (x->first < 0) {
        x->first = op;
        x->line = line;
    }
    x->last = op;
}

static Alive *lifetimes(const DeviceSchedule *d)
{
    Alive *alive = NEW_ARRAY(Alive, d->buffer_count);
    for (int i = 0; i < d->buffer_count; i++)
        alive[i] = (Alive){&d->buffers[i], d->buffers[i].bytes * d->buffers[i].slots, -1, -1, 0};
    for (int i = 0; i < d->op_count; i++) {
        const ScheduledOp *op = &d->ops[i];
        for (int k = 0; k < op->read_count; k++)
            touch(alive, &op->reads[k], i, op->line);
        for (int k = 0; k < op->write_count; k++)
            touch(alive, &op->writes[k], i, op->line);
    }
    for (int i = 0; i < d->buffer_count; i++)
        if (!is_temporary(&d->buffers[i]))
            alive[i].first = alive[i].line = 0, alive[i].last = d->op_count;
    return alive;
}

/* Returns the operation with the most bytes, and sets *peak. of: the buffers that count; NULL: all. */
static int peak_of(const Alive *alive, int count, int ops, const bool *of, int64_t *peak)
{
    int64_t *change = NEW_ARRAY(int64_t, ops + 2), bytes = 0, most = -1;
    int at = 0;
    for (int i = 0; i < count; i++)
        if (alive[i].first >= 0 && alive[i].buffer->kind != BUFFER_STAGING && (!of || of[i])) {
            change[alive[i].first] += alive[i].bytes;
            change[alive[i].last + 1] -= alive[i].bytes;
        }
    for (int i = 0; i < ops; i++)
        if ((bytes += change[i]) > most) {
            most = bytes;
            at = i;
        }
    *peak = most;
    return at;
}

/* Returns [buffer]: weights are gathered into it. */
static bool *find_gathered(const PhaseSchedule *s, const DeviceSchedule *d)
{
    bool *gathered = NEW_ARRAY(bool, d->buffer_count);
    for (int i = 0; i < d->op_count; i++) {
        const ScheduledOp *op = &d->ops[i];
        bool gathers = op->verb == VERB_TRANSFER && s->collectives[op->target].participants.transfer == MGPU_TRANSFER_ALL_GATHER;
        for (int k = 0; k < op->write_count && gathers; k++)
            gathered[op->writes[k].buffer] = is_temporary(&d->buffers[op->writes[k].buffer]);
    }
    return gathered;
}

int64_t gathered_bytes(const Schedule *s, int device)
{
    int64_t most = 0;
    for (int i = 0; i < s->phase_count; i++) {
        Memory *own = memory_new(), *outer = memory_use(own);
        const DeviceSchedule *d = &s->phases[i].devices[device];
        int64_t peak = 0;
        peak_of(lifetimes(d), d->buffer_count, d->op_count, find_gathered(&s->phases[i], d), &peak);
        most = peak > most ? peak : most;
        memory_use(outer);
        memory_free(own);
    }
    return most;
}

int64_t variable_bytes(const Schedule *s, int device)
{
    int64_t least = INT64_MAX; /* of all phases except those with what `decode` keeps */
    for (int i = 0; i < s->phase_count; i++) {
        const DeviceSchedule *d = &s->phases[i].devices[device];
        int64_t bytes = 0;
        for (int k = 0; k < d->buffer_count; k++)
            bytes += d->buffers[k].kind == BUFFER_VARIABLE ? d->buffers[k].bytes : 0;
        least = bytes < least ? bytes : least;
    }
    return s->phase_count ? least : 0;
}

static int by_bytes(const void *a, const void *b)
{
    const Alive *x = a, *y = b;
    return x->bytes != y->bytes ? (x->bytes < y->bytes ? 1 : -1) : strcmp(x->buffer->name, y->buffer->name);
}

/* Returns the phase in which the device's arena is fullest. Workspaces do not count: they follow, with room for those of all
 * phases. */
static const PhaseSchedule *fullest(const Schedule *s, int device)
{
    const PhaseSchedule *most = NULL;
    int64_t bytes = -1;
    for (int i = 0; i < s->phase_count; i++) {
        const DeviceSchedule *d = &s->phases[i].devices[device];
        int64_t end = 0;
        for (int k = 0; k < d->buffer_count; k++)
            if ((d->buffers[k].kind == BUFFER_TEMPORARY || d->buffers[k].kind == BUFFER_BUCKET) &&
                d->buffers[k].offset + d->buffers[k].bytes > end)
                end = d->buffers[k].offset + d->buffers[k].bytes;
        if (end > bytes) {
            bytes = end;
            most = &s->phases[i];
        }
    }
    return most;
}

void peak_print(const Schedule *s, int device, int most, Text *t)
{
    const PhaseSchedule *p = fullest(s, device);
    if (!p)
        return;
    const DeviceSchedule *d = &p->devices[device];
    Alive *alive = lifetimes(d);
    int64_t peak;
    int at = peak_of(alive, d->buffer_count, d->op_count, NULL, &peak), count = 0;
    for (int i = 0; i < d->buffer_count; i++)
        if (alive[i].first >= 0 && alive[i].first <= at && at <= alive[i].last && alive[i].buffer->kind != BUFFER_STAGING &&
            alive[i].bytes > 0)
            alive[count++] = alive[i];
    qsort(alive, (size_t)count, sizeof *alive, by_bytes);
    text_add(t, "  largest of what is alive at its peak (line %d, phase %s):\n", d->op_count ? d->ops[at].line : 0, p->name);
    for (int i = 0; i < count && i < most; i++)
        text_add(t, "  %18s  %s%s\n", grouped(alive[i].bytes), alive[i].buffer->name,
                 alive[i].line ? format(", line %d", alive[i].line) : "");
    if (count > most)
        text_add(t, "  %18s  %d more\n", "", count - most);
}
