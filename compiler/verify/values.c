/* values.c: every call reads the values that the program has it read.
 *
 * In: one device of one phase, for which verify/memory.c has proved that a read finds what a write of this step put there through the
 * same buffer, once, whatever the order. So one possible order tells what every call reads. Out: NULL, or the first call whose
 * digest is not that of its kernel, of what it reads and of the variables and outputs that it writes (schedule.h defines digests; the scheduler states them from the program's
 * tasks, before any of them has a place). So no argument is exchanged, no kernel changed, no sum left out and no call dropped whose
 * result another call reads, even if it is so on all devices or on the only one.
 *
 * A piece is a range of a buffer that a call has written; a collective sums or moves all pieces of its value. Pieces are found by buffer and
 * first byte in a hash table: linear time. A mistake escapes if 32 bits of a hash agree by chance. */
#include "compiler/plan/schedule.h"
#include "compiler/verify/verify.h"

#include <string.h>

typedef struct Piece {
    int buffer;
    int64_t begin, end;
    uint64_t digest;
    int next;           /* of the buffer, + 1 */
} Piece;

typedef struct Values {
    const DeviceSchedule *device;
    Piece *pieces; int piece_count;
    int *first;         /* by buffer, + 1 */
    int *slots, slot_count; /* a power of two; numbers of pieces, + 1 */
} Values;

static Values new_values(const DeviceSchedule *d)
{
    int most = 1;
    for (int o = 0; o < d->op_count; o++)
        most += d->ops[o].read_count + d->ops[o].write_count;
    Values v = {.device = d, .pieces = NEW_ARRAY(Piece, most), .first = NEW_ARRAY(int, d->buffer_count), .slot_count = 1};
    while (v.slot_count < 2 * most)
        v.slot_count *= 2;
    v.slots = NEW_ARRAY(int, v.slot_count);
    return v;
}

/* the piece that begins there; if there is none, a new one, with *fresh */
static Piece *piece_of(Values *v, const Access *a, bool *fresh)
{
    uint64_t hash = hash_bytes((uint64_t)a->buffer, &a->begin, sizeof a->begin);
    int at = (int)(hash & (uint64_t)(v->slot_count - 1));
    *fresh = false;
    for (; v->slots[at]; at = (at + 1) & (v->slot_count - 1)) {
        Piece *p = &v->pieces[v->slots[at] - 1];
        if (p->buffer == a->buffer && p->begin == a->begin)
            return p;
    }
    Piece *p = &v->pieces[v->piece_count++];
    const Buffer *b = &v->device->buffers[a->buffer];
    *p = (Piece){a->buffer, a->begin, a->end, digest_leaf(b->name, b->index), v->first[a->buffer]};
    v->slots[at] = v->first[a->buffer] = v->piece_count;
    *fresh = true;
    return p;
}

static void move_pieces(Values *v, const ScheduledOp *op, const Collective *c, int device)
{
    int64_t each = dtype_bytes(c->dtype);
    Access whole = op->reads[0]; /* of all devices; this one reads its share */
    bool fresh;
    whole.begin -= mgpu_sent_by(&c->parties, c->count, device).begin * each;
    whole.end = whole.begin + c->count * each;
    if (v->device->buffers[whole.buffer].kind != BUFFER_BUCKET)
        piece_of(v, &whole, &fresh);
    for (int i = v->first[whole.buffer]; i; i = v->pieces[i - 1].next)
        if (v->pieces[i - 1].begin >= whole.begin && v->pieces[i - 1].begin < whole.end)
            v->pieces[i - 1].digest = digest_transfer(v->pieces[i - 1].digest, &c->parties);
}

static const char *run_call(Values *v, const ScheduledOp *op, const char *phase, int d)
{
    uint64_t digest = digest_call(op->label);
    bool fresh;
    for (int i = 0; i < op->read_count - 1; i++) { /* the last is the step block: verify/calls.c */
        const Buffer *b = &v->device->buffers[op->reads[i].buffer];
        const Piece *p = piece_of(v, &op->reads[i], &fresh);
        if ((fresh && !buffer_is_persistent(b)) || p->end != op->reads[i].end)
            return format("phase %s: d%d.%s reads bytes of %s that no call has written as one value", phase, d, op->id, b->name);
        digest = digest_argument(digest, p->digest);
    }
    for (int i = 0; i < op->write_count; i++) {
        const Buffer *b = &v->device->buffers[op->writes[i].buffer];
        if (buffer_is_persistent(b))
            digest = digest_argument(digest, digest_leaf(b->name, b->index));
    }
    if ((uint32_t)digest != op->digest)
        return format("phase %s: d%d.%s computes another value than the program: the digest of %s and its arguments is %08x, not %08x",
                      phase, d, op->id, op->label, (unsigned)(uint32_t)digest, (unsigned)op->digest);
    for (int i = 0; i < op->write_count; i++) {
        Piece *p = piece_of(v, &op->writes[i], &fresh);
        p->end = op->writes[i].end;
        p->digest = digest_result(digest, i);
    }
    return NULL;
}

const char *verify_values(const Schedule *s, int p, int d)
{
    const PhaseSchedule *phase = &s->phases[p];
    const char *why = NULL;
    const int *order = order_operations(phase, d, &why);
    Values v = new_values(&phase->devices[d]);
    for (int i = 0; i < v.device->op_count && !why; i++) {
        const ScheduledOp *op = &v.device->ops[order[i]];
        if (op->verb == VERB_CALL)
            why = run_call(&v, op, phase->name, d);
        else if (op->verb == VERB_TRANSFER)
            move_pieces(&v, op, &phase->collectives[op->target], d);
    }
    return why;
}
