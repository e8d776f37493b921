/* snapshot.c: variables of a drained engine, copied into memory, so that they can be saved while the next steps change them. If
 * there is no memory for a copy, they are read where they are. */
#include "runtime/base/base.h"
#include "runtime/engine/engine.h"
#include "runtime/weights/weights.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { LARGE_PAGE = 2 << 20 };

/* parts of sums differ from device to device */
static int parts_of(const Snapshot *s, const mgpu_variable *v)
{
    return v->kind == MGPU_ACCUMULATOR && !v->replicated ? s->plan->devices : 1;
}

static bool is_of_model(const mgpu_variable *v)
{
    return v->kind == MGPU_WEIGHT || v->kind == MGPU_STATE || v->kind == MGPU_AVERAGE;
}

static bool is_copied(const mgpu_variable *v, bool all)
{
    return all ? v->kind != MGPU_ROUNDED && v->kind != MGPU_OBSERVED : is_of_model(v);
}

static int64_t room_for(const Snapshot *s, bool all)
{
    int64_t bytes = 0;
    for (int i = 0; i < s->program->variable_count; i++) {
        const mgpu_variable *v = &s->program->variables[i];
        if (is_copied(v, all))
            bytes += (mgpu_tensor_bytes(&v->tensor) + 7) / 8 * 8 * parts_of(s, v); /* each is aligned */
    }
    return bytes;
}

static void view_engine(Snapshot *s, const mgpu_program *program, const mgpu_plan *plan, const Engine *engine)
{
    *s = (Snapshot){.program = program, .plan = plan, .engine = engine};
}

/* kept for the next: memory that is new costs more than the copy */
static void reserve(Snapshot *s, int64_t room)
{
    if (room <= s->room)
        return;
    free(s->data);
    room = (room + LARGE_PAGE - 1) / LARGE_PAGE * LARGE_PAGE;
    s->data = aligned_alloc(LARGE_PAGE, (size_t)room);
    s->room = s->data ? room : 0;
    if (s->data)
        (void)madvise(s->data, (size_t)room, MADV_HUGEPAGE); /* where the system has none, small ones do */
}

void mgpu_prepare_snapshot(Snapshot *s, const mgpu_program *program, const mgpu_plan *plan)
{
    view_engine(s, program, plan, NULL);
    reserve(s, room_for(s, true));
    if (s->data)
        memset(s->data, 0, (size_t)s->room); /* so that the system gives it now */
}

bool mgpu_take_snapshot(Snapshot *s, const mgpu_program *program, const mgpu_plan *plan, const Engine *engine, bool all)
{
    s->program = program;
    s->plan = plan;
    s->engine = engine;
    s->copied = false;
    reserve(s, room_for(s, all));
    if (!s->data)
        return false;
    if (!s->place)
        s->place = mgpu_allocate((size_t)program->variable_count, sizeof *s->place);
    int64_t at = 0;
    for (int i = 0; i < program->variable_count; i++) {
        const mgpu_variable *v = &program->variables[i];
        s->place[i] = at;
        for (int d = 0; is_copied(v, all) && d < parts_of(s, v); d++, at += (mgpu_tensor_bytes(&v->tensor) + 7) / 8 * 8)
            mgpu_engine_read_variable(engine, d, i, s->data + at);
    }
    s->copied = true;
    return true;
}

void mgpu_close_snapshot(Snapshot *s)
{
    free(s->data);
    free(s->place);
    *s = (Snapshot){0};
}

/* NULL: it is not in memory */
static const uint8_t *data_of(const Snapshot *s, int device, int variable)
{
    int64_t bytes = (mgpu_tensor_bytes(&s->program->variables[variable].tensor) + 7) / 8 * 8;
    return s->copied ? s->data + s->place[variable] + device * bytes : NULL;
}

void mgpu_read_snapshot(const Snapshot *s, int device, int variable, void *to)
{
    const uint8_t *data = data_of(s, device, variable);
    if (data)
        memcpy(to, data, (size_t)mgpu_tensor_bytes(&s->program->variables[variable].tensor));
    else
        mgpu_engine_read_variable(s->engine, device, variable, to);
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

const char *mgpu_snapshot_not_finite(const Snapshot *s)
{
    for (int i = 0; i < s->program->variable_count; i++) {
        const mgpu_variable *v = &s->program->variables[i];
        if ((v->kind != MGPU_WEIGHT && v->kind != MGPU_STATE) || !mgpu_dtype_is_float(v->tensor.dtype))
            continue;
        const void *data = data_of(s, 0, i);
        void *own = data ? NULL : mgpu_allocate((size_t)mgpu_tensor_bytes(&v->tensor), 1);
        if (own)
            mgpu_read_snapshot(s, 0, i, own);
        bool bad = has_bad(data ? data : own, v->tensor.dtype, mgpu_elements(&v->tensor));
        free(own);
        if (bad)
            return v->tensor.name;
    }
    return NULL;
}

const char *mgpu_not_finite(const mgpu_program *program, const Engine *engine)
{
    Snapshot s;
    view_engine(&s, program, NULL, engine);
    return mgpu_snapshot_not_finite(&s);
}
