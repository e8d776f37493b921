/* snapshot.c: copies the variables of a drained engine, so that they can be saved while the next steps change them. Without
 * memory for a copy they are read from the engine.
 *
 * A process copies what only it has: the shards and the values of its own devices. A variable that all devices have is copied by
 * the process that writes it. So a sharded state is nowhere whole (write_view.c). */
#include "runtime/base/base.h"
#include "runtime/engine/engine.h"
#include "runtime/weights/snapshot.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { LARGE_PAGE = 2 << 20 };

static mgpu_range whole(const mgpu_variable *v) { return (mgpu_range){0, mgpu_elements(&v->tensor)}; }
static DeviceSpan local_devices(const Snapshot *s) { return mgpu_local_devices(s->processes, s->plan->devices); }

/* ---- which elements are copied */
int64_t mgpu_part_bytes(const Snapshot *s, int64_t file)
{
    int parts = s->in_parts ? mgpu_ranks(s->processes) : 1;
    int64_t even = (file + parts - 1) / parts;
    return parts == 1 ? file : (even + MGPU_FILE_PIECE - 1) / MGPU_FILE_PIECE * MGPU_FILE_PIECE;
}

mgpu_range mgpu_part_of_file(const Snapshot *s, int64_t file, int rank)
{
    int64_t part = mgpu_part_bytes(s, file);
    return mgpu_overlap((mgpu_range){part * rank, part * (rank + 1)}, (mgpu_range){0, file});
}

typedef struct Holding {
    Snapshot *snapshot;
    const TensorView *view;
} Holding;

static void hold(void *context, int i, mgpu_range elements)
{
    Holding *h = context;
    int variable = h->view->variable[i];
    const mgpu_variable *v = &h->snapshot->program->variables[variable];
    mgpu_range *held = &h->snapshot->held[variable];
    if (v->split || mgpu_is_partial(v))
        return;
    elements = mgpu_as_declared(v) ? elements : whole(v);
    held->begin = held->end && held->begin < elements.begin ? held->begin : elements.begin;
    held->end = held->end > elements.end ? held->end : elements.end;
}

static void hold_view(Snapshot *s, int which)
{
    ViewFile f = mgpu_view_file(s->program, s->plan, which, &s->metadata);
    for (int i = 0; i < f.view.count; i++) {
        const mgpu_variable *v = &s->program->variables[f.view.variable[i]];
        if (v->split || mgpu_is_partial(v))
            s->held[f.view.variable[i]] =
                v->split ? mgpu_part_of_rank(s->processes, s->plan->devices, mgpu_elements(&v->tensor), mgpu_rank(s->processes))
                         : whole(v);
    }
    mgpu_each_tensor(&f.layout, mgpu_part_of_file(s, f.layout.bytes, mgpu_rank(s->processes)), hold, &(Holding){s, &f.view});
    mgpu_close_view_file(&f);
}

static void clear_held(Snapshot *s)
{
    free(s->held);
    s->held = mgpu_allocate((size_t)s->program->variable_count, sizeof *s->held);
}

static void choose_held(Snapshot *s, bool all)
{
    clear_held(s);
    hold_view(s, MGPU_MODEL_VIEW);
    if (all) {
        hold_view(s, MGPU_WEIGHTS_VIEW);
        hold_view(s, MGPU_OPTIMIZER_VIEW);
    }
}

/* ---- the copy */
static int64_t bytes_of(const Snapshot *s, int variable)
{
    return (s->held[variable].end - s->held[variable].begin) * mgpu_dtype_bytes(s->program->variables[variable].tensor.dtype);
}

static int64_t aligned_bytes(const Snapshot *s, int variable) { return (bytes_of(s, variable) + 7) / 8 * 8; }

/* Partial sums differ from device to device. */
static int copies_of(const Snapshot *s, int variable)
{
    DeviceSpan own = local_devices(s);
    return mgpu_is_partial(&s->program->variables[variable]) ? own.end - own.first : 1;
}

/* The memory is kept for the next snapshot, since touching new pages costs more than the copy. */
static void reserve(Snapshot *s)
{
    int64_t capacity = 0;
    for (int i = 0; i < s->program->variable_count; i++)
        capacity += aligned_bytes(s, i) * copies_of(s, i);
    if (s->data && capacity <= s->capacity)
        return;
    free(s->data);
    capacity = (capacity + LARGE_PAGE) / LARGE_PAGE * LARGE_PAGE;
    s->data = aligned_alloc(LARGE_PAGE, (size_t)capacity);
    s->capacity = s->data ? capacity : 0;
    if (s->data)
        (void)madvise(s->data, (size_t)capacity, MADV_HUGEPAGE); /* without huge pages, small ones are used */
}

void mgpu_prepare_snapshot(Snapshot *s)
{
    choose_held(s, true);
    reserve(s);
    if (s->data)
        memset(s->data, 0, (size_t)s->capacity); /* makes the system provide the pages now */
}

/* Reads elements in the order of the memory. */
static void read_engine(const Snapshot *s, int device, int variable, mgpu_range elements, void *to)
{
    int64_t each = mgpu_dtype_bytes(s->program->variables[variable].tensor.dtype);
    mgpu_engine_read_part(s->engine, device, variable, (mgpu_range){elements.begin * each, elements.end * each}, to);
}

bool mgpu_take_snapshot(Snapshot *s, const Engine *engine, bool all)
{
    s->engine = engine;
    s->copied = false;
    choose_held(s, all);
    reserve(s);
    if (!s->data)
        return false;
    if (!s->place)
        s->place = mgpu_allocate((size_t)s->program->variable_count, sizeof *s->place);
    int64_t at = 0;
    for (int i = 0; i < s->program->variable_count; i++) {
        s->place[i] = at;
        for (int k = 0; k < copies_of(s, i); k++, at += aligned_bytes(s, i))
            read_engine(s, local_devices(s).first + k, i, s->held[i], s->data + at);
    }
    s->copied = true;
    return true;
}

void mgpu_close_snapshot(Snapshot *s)
{
    free(s->data);
    free(s->place);
    free(s->held);
    *s = (Snapshot){0};
}

/* Returns the elements in `held` in the order of the memory. The caller frees *own. */
static uint8_t *data_of(const Snapshot *s, int device, int variable, uint8_t **own)
{
    *own = NULL;
    if (s->copied)
        return s->data + s->place[variable] +
               (copies_of(s, variable) > 1 ? device - local_devices(s).first : 0) * aligned_bytes(s, variable);
    *own = mgpu_allocate((size_t)bytes_of(s, variable) + 1, 1);
    read_engine(s, device, variable, s->held[variable], *own);
    return *own;
}

void mgpu_read_snapshot(const Snapshot *s, int device, int variable, mgpu_range elements, void *to)
{
    const mgpu_variable *v = &s->program->variables[variable];
    int64_t each = mgpu_dtype_bytes(v->tensor.dtype);
    uint8_t *own;
    if (!s->copied && mgpu_as_declared(v)) {
        read_engine(s, device, variable, elements, to);
        return;
    }
    uint8_t *data = data_of(s, device, variable, &own);
    if (mgpu_as_declared(v))
        memcpy(to, data + (elements.begin - s->held[variable].begin) * each, (size_t)((elements.end - elements.begin) * each));
    else
        mgpu_reorder(v, elements, to, data, true);
    free(own);
}

/* ---- numbers that are not finite */
static bool has_bad(const void *data, uint8_t dtype, int64_t count)
{
    int64_t bad = 0;
    if (dtype == MGPU_F32)
        for (int64_t k = 0; k < count; k++)
            bad += !isfinite(((const float *)data)[k]);
    else
        for (int64_t k = 0; k < count && !bad; k++)
            bad += !isfinite(mgpu_to_double(data, dtype, k));
    return bad;
}

/* Returns a weight or state with such elements in this process, or variable_count. */
static int find_bad(const Snapshot *s)
{
    for (int i = 0; i < s->program->variable_count; i++) {
        const mgpu_variable *v = &s->program->variables[i];
        if ((v->kind != MGPU_WEIGHT && v->kind != MGPU_STATE) || !mgpu_dtype_is_float(v->tensor.dtype) || !bytes_of(s, i))
            continue;
        uint8_t *own, *data = data_of(s, local_devices(s).first, i, &own);
        bool bad = has_bad(data, v->tensor.dtype, s->held[i].end - s->held[i].begin);
        free(own);
        if (bad)
            return i;
    }
    return s->program->variable_count;
}

const char *mgpu_snapshot_not_finite(const Snapshot *s)
{
    int ranks = mgpu_ranks(s->processes), all[ranks], first = s->program->variable_count;
    all[mgpu_rank(s->processes)] = find_bad(s);
    if (s->processes)
        mgpu_gather_each(s->processes, all, sizeof *all);
    for (int r = 0; r < ranks; r++)
        first = all[r] < first ? all[r] : first;
    return first < s->program->variable_count ? s->program->variables[first].tensor.name : NULL;
}

const char *mgpu_not_finite(const mgpu_program *program, const mgpu_plan *plan, const Engine *engine, Processes *processes)
{
    Snapshot s = {.program = program, .plan = plan, .engine = engine, .processes = processes};
    clear_held(&s);
    for (int i = 0; i < program->variable_count; i++) {
        const mgpu_variable *v = &program->variables[i];
        s.held[i] =
            v->split ? mgpu_part_of_rank(processes, plan->devices, mgpu_elements(&v->tensor), mgpu_rank(processes)) : whole(v);
    }
    const char *bad = mgpu_snapshot_not_finite(&s);
    free(s.held);
    return bad;
}
