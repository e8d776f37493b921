/* write_view.c: writes the file of a view: rank 0 writes all of it, or each process writes one contiguous range of its bytes. In:
 * a snapshot of each process, which has its devices' shards. Out: the bytes of the file.
 *
 * All processes write at the same time, piece by piece. For each piece they exchange what they have: the elements of sharded
 * variables that are on their devices, and their devices' subtotals of partial sums. So a process needs memory for its own part
 * and a few megabytes, and the file does not depend on which process writes what. */
#include "runtime/base/base.h"
#include "runtime/weights/snapshot.h"

#include <stdlib.h>
#include <string.h>

enum { EXCHANGED = 16 << 20, LEAST_PIECE = 1 << 16 }; /* bytes: about what a process sends at once */

/* Memory that is reused for all pieces. Freeing and allocating megabytes for each piece would fragment the heap. */
typedef struct ReusedMemory {
    uint8_t *data;
    int64_t bytes;
} ReusedMemory;

typedef struct ViewWriting {
    const Snapshot *snapshot;
    const TensorView *view;
    int rank, ranks;
    ReusedMemory out, in, piece;        /* data to send, by rank; received data, by rank; data to write */
    uint8_t *brought;                   /* data from all ranks: in `in`, or in `out` if there is one process */
    int *sent, *sent_at, *got, *got_at; /* bytes, by rank */
    int of;                             /* the rank whose piece is being counted */
    uint8_t *to, **from;                /* [ranks]: where to store next, and to read next from each rank */
} ViewWriting;

static uint8_t *memory_for(ReusedMemory *r, int64_t bytes)
{
    if (!r->data || bytes > r->bytes) {
        free(r->data);
        *r = (ReusedMemory){mgpu_allocate((size_t)bytes + 1, 1), bytes};
    }
    return r->data;
}

static const mgpu_variable *variable_of(const ViewWriting *p, int i)
{
    return &p->snapshot->program->variables[p->view->variable[i]];
}

/* Returns which of these elements a rank contributes. */
static mgpu_range brought_by(const ViewWriting *p, int rank, const mgpu_variable *v, mgpu_range elements)
{
    if (mgpu_is_partial(v))
        return elements;
    if (!v->split) /* the process that writes the elements has them */
        return (mgpu_range){0, 0};
    return mgpu_overlap(elements,
                        mgpu_part_of_rank(p->snapshot->processes, p->snapshot->plan->devices, mgpu_elements(&v->tensor), rank));
}

static int64_t bytes_in(const mgpu_variable *v, mgpu_range elements)
{
    return (elements.end - elements.begin) * mgpu_dtype_bytes(v->tensor.dtype);
}

static void add_values(const mgpu_variable *v, mgpu_range elements, uint8_t *to, const uint8_t *more)
{
    uint8_t dtype = v->tensor.dtype;
    for (int64_t i = 0; i < elements.end - elements.begin; i++)
        mgpu_from_double(to, dtype, i, mgpu_to_double(to, dtype, i) + mgpu_to_double(more, dtype, i));
}

/* ---- what other processes need */
static void put(void *context, int i, mgpu_range elements)
{
    ViewWriting *p = context;
    const mgpu_variable *v = variable_of(p, i);
    const Snapshot *s = p->snapshot;
    DeviceSpan own = mgpu_local_devices(s->processes, s->plan->devices);
    mgpu_range its = brought_by(p, p->rank, v, elements);
    int64_t bytes = bytes_in(v, its);
    if (!bytes)
        return;
    mgpu_read_snapshot(s, own.first, p->view->variable[i], its, p->to);
    uint8_t *more = mgpu_is_partial(v) && own.end - own.first > 1 ? mgpu_allocate((size_t)bytes, 1) : NULL;
    for (int d = own.first + 1; more && d < own.end; d++) {
        mgpu_read_snapshot(s, d, p->view->variable[i], its, more);
        add_values(v, its, p->to, more);
    }
    free(more);
    p->to += bytes;
}

static void count_sent(void *context, int i, mgpu_range elements)
{
    ViewWriting *p = context;
    p->sent[p->of] += (int)bytes_in(variable_of(p, i), brought_by(p, p->rank, variable_of(p, i), elements));
}

static void count_got(void *context, int i, mgpu_range elements)
{
    ViewWriting *p = context;
    for (int r = 0; r < p->ranks; r++)
        p->got[r] += (int)bytes_in(variable_of(p, i), brought_by(p, r, variable_of(p, i), elements));
}

/* Computes offsets and returns the sum of the bytes. */
static int64_t place(int *at, const int *bytes, int ranks)
{
    for (int r = 1; r < ranks; r++)
        at[r] = at[r - 1] + bytes[r - 1];
    return at[ranks - 1] + bytes[ranks - 1];
}

static void exchange(ViewWriting *p, const FileLayout *layout, const mgpu_range *piece)
{
    for (p->of = 0; p->of < p->ranks; p->of++) {
        p->sent[p->of] = p->got[p->of] = 0;
        mgpu_each_tensor(layout, piece[p->of], count_sent, p);
    }
    mgpu_each_tensor(layout, piece[p->rank], count_got, p);
    p->to = p->brought = memory_for(&p->out, place(p->sent_at, p->sent, p->ranks));
    for (int r = 0; r < p->ranks; r++)
        mgpu_each_tensor(layout, piece[r], put, p);
    int64_t got = place(p->got_at, p->got, p->ranks);
    if (p->snapshot->processes) {
        p->brought = memory_for(&p->in, got);
        p->snapshot->processes->exchange(p->snapshot->processes, p->out.data, p->sent, p->sent_at, p->brought, p->got, p->got_at);
    }
}

/* ---- what this process writes */
static void take(void *context, int i, mgpu_range elements)
{
    ViewWriting *p = context;
    const mgpu_variable *v = variable_of(p, i);
    if (!v->split && !mgpu_is_partial(v)) {
        mgpu_read_snapshot(p->snapshot, 0, p->view->variable[i], elements, p->to);
        p->to += bytes_in(v, elements);
        return;
    }
    for (int r = 0; r < p->ranks; r++) {
        mgpu_range its = brought_by(p, r, v, elements);
        if (mgpu_is_partial(v) && r)
            add_values(v, its, p->to, p->from[r]);
        else
            memcpy(p->to + bytes_in(v, (mgpu_range){elements.begin, its.begin}), p->from[r], (size_t)bytes_in(v, its));
        p->from[r] += bytes_in(v, its);
    }
    p->to += bytes_in(v, elements);
}

static void write_piece(FILE *f, ViewWriting *p, const FileLayout *layout, mgpu_range piece)
{
    uint8_t *data = memory_for(&p->piece, piece.end - piece.begin);
    mgpu_range header = mgpu_overlap(piece, (mgpu_range){0, layout->header_bytes});
    int64_t bytes = header.end - header.begin;
    if (bytes)
        memcpy(data, layout->header + header.begin, (size_t)bytes);
    p->to = data + bytes;
    for (int r = 0; r < p->ranks; r++)
        p->from[r] = p->brought ? p->brought + p->got_at[r] : NULL;
    mgpu_each_tensor(layout, piece, take, p);
    if (f)
        fwrite(data, 1, (size_t)(piece.end - piece.begin), f);
}

static bool is_exchanged(const ViewWriting *p)
{
    bool any = false;
    for (int i = 0; i < p->view->count; i++)
        any = any || variable_of(p, i)->split || mgpu_is_partial(variable_of(p, i));
    return any;
}

int64_t mgpu_view_part(const Snapshot *s, int which)
{
    ViewFile file = mgpu_view_file(s->program, s->plan, which, &s->metadata);
    int64_t begin = mgpu_part_of_file(s, file.layout.bytes, mgpu_rank(s->processes)).begin;
    mgpu_close_view_file(&file);
    return begin;
}

void mgpu_write_view(FILE *f, const Snapshot *s, int which)
{
    ViewFile file = mgpu_view_file(s->program, s->plan, which, &s->metadata);
    int ranks = mgpu_ranks(s->processes);
    int64_t bytes = file.layout.bytes, part = mgpu_part_bytes(s, bytes), most = EXCHANGED / ranks / 8 * 8;
    most = most > LEAST_PIECE ? most : LEAST_PIECE;
    int counts[4][ranks];
    uint8_t *from[ranks];
    mgpu_range piece[ranks];
    memset(counts, 0, sizeof counts);
    memset(piece, 0, sizeof piece);
    ViewWriting p = {s,
                     &file.view,
                     .rank = mgpu_rank(s->processes),
                     .ranks = ranks,
                     .sent = counts[0],
                     .sent_at = counts[1],
                     .got = counts[2],
                     .got_at = counts[3],
                     .from = from};
    bool exchanged = is_exchanged(&p);
    for (int64_t at = 0; at < part; at += most) {
        for (int r = 0; r < ranks; r++) {
            mgpu_range own = mgpu_part_of_file(s, bytes, r);
            piece[r] = mgpu_overlap(own, (mgpu_range){own.begin + at, own.begin + at + most});
        }
        if (exchanged)
            exchange(&p, &file.layout, piece);
        write_piece(f, &p, &file.layout, piece[p.rank]);
    }
    free(p.out.data);
    free(p.in.data);
    free(p.piece.data);
    mgpu_close_view_file(&file);
}
