/* history.c: who last wrote and who has since read which bytes of an allocation, by intervals. An access conflicts with
 * an earlier one if one of them writes and no edge leads from it to this one, whatever order they ran in. */
#include "tests/vgpu/vgpu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int first_behind(const History *h, uintptr_t address) /* index of the first interval that ends after it */
{
    int low = 0, high = h->count;
    while (low < high) {
        int middle = (low + high) / 2;
        if (h->at[middle].end > address)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

static Interval *insert(History *h, int k, Interval new)
{
    h->at = realloc(h->at, (size_t)(h->count + 1) * sizeof *h->at);
    if (!h->at)
        abort();
    memmove(h->at + k + 1, h->at + k, (size_t)(h->count++ - k) * sizeof *h->at);
    h->at[k] = new;
    return &h->at[k];
}

static void split_at(History *h, uintptr_t address)
{
    int k = first_behind(h, address);
    if (k == h->count || h->at[k].begin >= address)
        return;
    Interval upper = h->at[k];
    upper.begin = address;
    size_t bytes = (size_t)upper.reader_count * sizeof *upper.readers;
    upper.readers = bytes ? memcpy(malloc(bytes), upper.readers, bytes) : NULL;
    h->at[k].end = address;
    insert(h, k + 1, upper);
}

/* cut so that whole intervals cover [begin, end): the index of the first */
static int cover(History *h, uintptr_t begin, uintptr_t end)
{
    split_at(h, begin);
    split_at(h, end);
    int first = first_behind(h, begin);
    uintptr_t at = begin;
    for (int k = first; at < end; k++) {
        if (k == h->count || h->at[k].begin > at) {
            uintptr_t until = k < h->count && h->at[k].begin < end ? h->at[k].begin : end;
            insert(h, k, (Interval){.begin = at, .end = until});
        }
        at = h->at[k].end;
    }
    return first;
}

static void conflict(const Allocation *a, const Op *op, const Interval *i, const Actor *other, const char *did, const char *now,
                     const char *name)
{
    char by[160], with[160];
    Actor me = vgpu_actor(op);
    VirtualDevice *d = a->device ? a->device : op->work.device;
    if (!vgpu_before(other->chain, other->time, op->clock))
        vgpu_violation(d, CUDA_ERROR_LAUNCH_FAILED, "race",
                       "%s %s %s%sbytes [%zu, %zu) of %s, which %s %s: nothing makes it wait for that",
                       vgpu_name(&me, by, sizeof by), now, name ? name : "", name ? ", " : "", (size_t)(i->begin - a->base),
                       (size_t)(i->end - a->base), a->device ? "device memory" : "page-locked memory",
                       vgpu_name(other, with, sizeof with), did);
}

static void note_reader(Interval *i, Actor reader)
{
    for (int k = 0; k < i->reader_count; k++)
        if (i->readers[k].chain == reader.chain) {
            i->readers[k] = reader;
            return;
        }
    i->readers = realloc(i->readers, (size_t)(i->reader_count + 1) * sizeof reader);
    if (!i->readers)
        abort();
    i->readers[i->reader_count++] = reader;
}

static void read_interval(Allocation *a, Op *op, Interval *i, const char *name)
{
    Actor me = vgpu_actor(op);
    char by[160], with[160];
    if (i->written) {
        conflict(a, op, i, &i->writer, "writes", "reads", name);
        if (name && i->name && name != i->name)
            vgpu_violation(op->work.device, CUDA_ERROR_LAUNCH_FAILED, "stale",
                           "%s reads %s, bytes [%zu, %zu) of device memory, which hold %s, written by %s",
                           vgpu_name(&me, by, sizeof by), name, (size_t)(i->begin - a->base), (size_t)(i->end - a->base), i->name,
                           vgpu_name(&i->writer, with, sizeof with));
    }
    note_reader(i, me);
}

static void write_interval(Allocation *a, Op *op, Interval *i, const char *name)
{
    if (i->written)
        conflict(a, op, i, &i->writer, "writes", "writes", name);
    for (int k = 0; k < i->reader_count; k++)
        conflict(a, op, i, &i->readers[k], "reads", "writes", name);
    free(i->readers);
    i->readers = NULL;
    i->reader_count = 0;
}

/* a write makes one interval of all that it covers */
void vgpu_access_bytes(Allocation *a, Op *op, uintptr_t begin, uintptr_t end, bool writes, const char *name)
{
    if (vgpu_leaves_out())
        return;
    History *h = &a->history;
    if (begin >= end)
        return;
    int first = cover(h, begin, end), last = first;
    while (last < h->count && h->at[last].begin < end) {
        if (writes)
            write_interval(a, op, &h->at[last], name);
        else
            read_interval(a, op, &h->at[last], name);
        last++;
    }
    if (writes) {
        h->at[first] = (Interval){.begin = begin, .end = end, .written = true, .writer = vgpu_actor(op), .name = name};
        memmove(h->at + first + 1, h->at + last, (size_t)(h->count - last) * sizeof *h->at);
        h->count -= last - first - 1;
    }
}

bool vgpu_written_by(const Allocation *a, const char *operation, uintptr_t begin, uintptr_t end)
{
    const History *h = &a->history;
    int k = first_behind(h, begin);
    for (uintptr_t at = begin; at < end; at = h->at[k++].end)
        if (k == h->count || h->at[k].begin > at || !h->at[k].written || h->at[k].writer.operation != operation)
            return vgpu_leaves_out();
    return true;
}

void vgpu_free_history(History *h)
{
    for (int k = 0; k < h->count; k++)
        free(h->at[k].readers);
    free(h->at);
    *h = (History){0};
}
