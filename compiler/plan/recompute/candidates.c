/* candidates.c: which copies are the best to make: a heap of tensors and uses, by their last known rate.
 *
 * Rates fall as fewer bytes exceed the limit, so the first candidate is rated again, and taken if it is still the first. Tensors
 * that a round affects are rated again, and all are before the search ends: a round rates a few candidates, not all. */
#include "compiler/plan/recompute/search.h"

static bool better(const Candidate *a, const Candidate *b)
{
    return a->rate != b->rate ? a->rate > b->rate : a->tensor != b->tensor ? a->tensor < b->tensor : a->use < b->use;
}

void add_candidate(Recomputing *r, Candidate c)
{
    if (r->heap_count == r->heap_capacity) {
        int room = 2 * r->heap_capacity + 64;
        Memory *scratch = memory_use(r->kept);
        r->heap = grow(r->heap, sizeof *r->heap * (size_t)r->heap_capacity, sizeof *r->heap * (size_t)room);
        memory_use(scratch);
        r->heap_capacity = room;
    }
    int i = r->heap_count++;
    for (; i > 0 && better(&c, &r->heap[(i - 1) / 2]); i = (i - 1) / 2)
        r->heap[i] = r->heap[(i - 1) / 2];
    r->heap[i] = c;
}

static Candidate take_first(Recomputing *r)
{
    Candidate first = r->heap[0], last = r->heap[--r->heap_count];
    int i = 0;
    for (;;) {
        int child = 2 * i + 1;
        if (child + 1 < r->heap_count && better(&r->heap[child + 1], &r->heap[child]))
            child++;
        if (child >= r->heap_count || !better(&r->heap[child], &last))
            break;
        r->heap[i] = r->heap[child];
        i = child;
    }
    r->heap[i] = last;
    return first;
}

static void rate_tensor(Recomputing *r, int tensor)
{
    for (int use = 1; use < use_count(r, tensor); use++) {
        double found = rate(r, tensor, use).rate;
        if (found > 0)
            add_candidate(r, (Candidate){tensor, use, found});
    }
}

void rate_all(Recomputing *r)
{
    r->heap_count = 0;
    for (int i = 0; i < r->phase->tensor_count; i++)
        rate_tensor(r, i);
}

void rate_touched(Recomputing *r, const Task *added)
{
    for (int k = 0; k < added->read_count; k++)
        if (added->reads[k]->kind == TENSOR_TEMPORARY)
            rate_tensor(r, added->reads[k]->id);
    for (int k = 0; k < added->write_count; k++)
        for (int i = added->writes[k]->id; i >= 0; i = r->older[i])
            rate_tensor(r, i);
}

Choice choose(Recomputing *r)
{
    while (r->heap_count) {
        Candidate first = take_first(r);
        Choice now = rate(r, first.tensor, first.use);
        first.rate = now.rate;
        if (now.rate > 0 && (!r->heap_count || !better(&r->heap[0], &first)))
            return now;
        if (now.rate > 0)
            add_candidate(r, first);
    }
    return (Choice){.rate = 0};
}
