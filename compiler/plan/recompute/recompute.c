/* recompute.c: Phase -> Phase in which tensors are alive for a shorter time: values that the backward pass reads are recomputed
 * just before it (rematerialization, activation checkpointing).
 *
 * In: a phase, the samples of a device, and the most bytes of temporaries that may be alive at once. Out: a phase that respects
 * this limit, if possible. Its additional tasks call existing kernels, and write tensors of their own. So values have the same
 * bits, random numbers too, and there are no new kernels. What is reduced over devices, written in place or read by the host is
 * computed once.
 *
 * A choice drops one tensor between two of its readers: the later one reads a copy, which the tensor's task computes again right
 * before it. What that task reads is kept longer, or (if it is large and dead) recomputed as well: a chain. The best choice frees
 * most bytes x positions above the limit per microsecond of the cost model. Copies may be dropped again later, so a deep model
 * ends with segments of about sqrt(n) layers.
 *
 * A round takes several independent choices, such as those of the blocks of a deep model, while they are nearly as good as its
 * first one and expected to be needed. Then it analyses the resulting phase. So there are as many rounds as a block has choices,
 * for any number of blocks. A round that lowers the bytes above the limit by much less than expected is undone, and repeated with
 * half of the choices. A single choice that does not lower them is not tried again.
 *
 * Chen et al. 2016, Training deep nets with sublinear memory cost; Jain et al. 2020, Checkmate; the order by cost and bytes is
 * that of Kirisame et al. 2021, Dynamic tensor rematerialization. */
#include "compiler/plan/recompute/search.h"
#include "compiler/plan/gather.h"

#include <limits.h>

enum { ROUNDS_PER_TASK = 4 };
static const double AS_GOOD = .7;  /* fraction of the rate of a round's first choice */
static const double EXPECTED = .5; /* fraction of the expected reduction of the excess; a round with less is undone */

typedef struct ChoiceBatch {
    Choice *choices;
    int count;
    double before, expected;
} ChoiceBatch; /* bytes above the limit, over all positions */

/* Chooses at most `most` chains. */
static ChoiceBatch choose_batch(Recomputing *r, int most)
{
    ChoiceBatch b = {.before = r->excess};
    Candidate *aside = NULL;
    int aside_count = 0;
    r->round++;
    while (b.count < most && r->excess > 0) {
        Choice c = choose(r);
        bool other = c.rate > 0 && b.count && (c.rate < AS_GOOD * b.choices[0].rate || overlaps(r, &c));
        if (other)
            APPEND(aside, aside_count, ((Candidate){c.tensor->id, c.use, c.rate}));
        if (c.rate <= 0 || (other && c.rate < AS_GOOD * b.choices[0].rate))
            break;
        if (other)
            continue;
        mark_chain(r, &c);
        expect(r, &c);
        APPEND(b.choices, b.count, c);
    }
    for (int i = 0; i < aside_count; i++)
        add_candidate(r, aside[i]);
    b.expected = r->excess;
    return b;
}

static void rate_added(Recomputing *r, const Inserted *before)
{
    for (int t = 0, old = 0; t < r->phase->task_count; t++)
        if (old < before->task_count && r->phase->tasks[t] == before->tasks[old])
            old++;
        else
            rate_touched(r, r->phase->tasks[t]);
}

/* false: the round was undone. phase_memory: of the new tasks and tensors */
static bool take_batch(Recomputing *r, const ChoiceBatch *b, Memory *phase_memory)
{
    Inserted before = insert_chains(r, b->choices, b->count, phase_memory);
    analyse_phase(r);
    double lowered = b->before - r->excess;
    if (b->count == 1 ? lowered > 0 : lowered >= EXPECTED * (b->before - b->expected)) {
        rate_added(r, &before);
        return true;
    }
    take_back(r, &before);
    analyse_phase(r);
    if (b->count == 1)
        r->banned[r->original[b->choices[0].tensor->id]] = true;
    for (int i = 0; i < b->count && b->count > 1; i++)
        add_candidate(r, (Candidate){b->choices[i].tensor->id, b->choices[i].use, b->choices[i].rate});
    return false;
}

/* Returns how many tensors are dropped. */
static int search(Recomputing *r, Memory *phase_memory)
{
    int most = INT_MAX, dropped = 0;
    bool all = false; /* all uses are candidates, and nothing has changed since they were rated */
    for (int round = 0; round < ROUNDS_PER_TASK * r->phase->task_count && r->excess > 0; round++) {
        Memory *own = memory_new();
        memory_use(own);
        ChoiceBatch b = choose_batch(r, most);
        if (!b.count && !all) {
            rate_all(r);
            all = true;
            b = choose_batch(r, most);
        }
        bool taken = b.count && take_batch(r, &b, phase_memory);
        dropped += taken ? b.count : 0;
        all = all && !taken;
        most = !taken ? (b.count + 1) / 2 : most > INT_MAX / 2 ? INT_MAX : 2 * most;
        memory_use(r->analysed);
        memory_free(own);
        if (!b.count)
            break;
    }
    return dropped;
}

struct Recomputable {
    const Phase *given;
    Recomputing start;
}; /* start.phase: in the order of the schedule */

static void count_tensors(Recomputing *r, const Phase *p, const Order *order)
{
    int64_t *chunk = NEW_ARRAY(int64_t, p->tensor_count);
    bool *local = NEW_ARRAY(bool, p->tensor_count);
    find_locals(p, order, local, chunk);
    const bool *own = find_divided(p, order);
    r->variable = gathered_variables(p);
    r->bytes = NEW_ARRAY(int64_t, p->tensor_count);
    r->counted = NEW_ARRAY(bool, p->tensor_count);
    for (int i = 0; i < p->tensor_count; i++) {
        const Tensor *x = p->tensors[i];
        r->bytes[i] =
            own[i] ? mgpu_even_part(shape_count(&x->shape), r->devices, 1) * dtype_bytes(x->dtype) : tensor_bytes(x, r->samples);
        r->counted[i] = x->kind == TENSOR_TEMPORARY && !local[i] && !r->variable[i];
    }
}

Recomputable *recomputable(const Program *program, const Plan *plan, const Phase *p, int64_t samples)
{
    Recomputable *known = NEW(Recomputable);
    Members members = members_of_plan(program, plan);
    const Order *order = order_calls(program, p, &members, samples);
    known->given = p;
    known->start =
        (Recomputing){.program = program, .devices = plan->devices, .samples = samples, .device = member_device(&members, 0)};
    count_tensors(&known->start, p, order);
    known->start.phase = phase_in_order(p, order);
    return known;
}

Phase *recompute(const Recomputable *known, int64_t limit, Recomputed *made)
{
    Memory *own = memory_new(), *outer = memory_use(own);
    Recomputing r = known->start;
    int tensors = known->given->tensor_count;
    r.limit = limit;
    r.tensor_capacity = tensors;
    r.kept = own;
    r.banned = NEW_ARRAY(bool, tensors);
    r.written = NEW_ARRAY(int, tensors);
    r.read = NEW_ARRAY(int, tensors);
    r.original = NEW_ARRAY(int, tensors);
    for (int i = 0; i < tensors; i++)
        r.original[i] = i;
    memory_use(outer);
    r.phase = copy_phase(known->start.phase);
    *made = (Recomputed){0};
    analyse_phase(&r);
    made->peak_before = r.peak;
    made->least = least_alive(&r);
    made->tensors = search(&r, outer);
    measure(&r, known->given, made);
    if (made->tensors)
        check_same_values(known->given, r.phase, r.devices);
    memory_use(outer);
    list_layers(&r, made);
    memory_free(r.analysed);
    memory_free(own);
    return r.phase;
}
