/* identity.c: computes the identity of a kernel, as a digest (kernel/identity.h).
 *
 * A nest is hashed as its axes, the expressions that its stores and reductions need, in order, and how threads share it. A tensor
 * is hashed as its index among the kernel's arguments and its type, an expression as its index among the needed ones. What only
 * names things for readers (nodes, titles, lines) is left out. tests/unit/identity_test.c changes every member of these
 * structures: one that is left out here must be in a list there. */
#include "compiler/kernel/identity.h"
#include "compiler/kernel/kernel.h"
#include "compiler/kernel/kinds.h"

/* ---- arguments */

static int64_t place_in(const Tensor *const *list, int count, const Tensor *t)
{
    for (int i = 0; i < count; i++)
        if (list[i]->id == t->id)
            return i;
    return -1;
}

/* A tensor that is updated in place has its index among the writes. */
static int64_t argument_of(const Kernel *k, const Tensor *t)
{
    int64_t written = place_in(k->writes, k->write_count, t);
    return written >= 0 ? k->read_count + written : place_in(k->reads, k->read_count, t);
}

static void add_arguments(Sha256 *sha, const Kernel *k)
{
    IDENTITY_ADD(sha, k->kind, k->read_count, k->write_count);
    for (int i = 0; i < k->read_count + k->write_count; i++) {
        const Tensor *t = i < k->read_count ? k->reads[i] : k->writes[i - k->read_count];
        IDENTITY_ADD(sha, t->dtype, argument_of(k, t));
    }
}

/* ---- nests */

static void add_axes(Sha256 *sha, const Exprs *x)
{
    IDENTITY_ADD(sha, x->axis_count);
    for (int i = 0; i < x->axis_count; i++) {
        const Axis *a = &x->axis[i];
        IDENTITY_ADD(sha, a->kind, a->extent, a->samples, a->reduction, a->group);
        if (a->elements)
            IDENTITY_ADD(sha, a->elements);
    }
}

/* Numbers of F32 and narrower types are equal if they are equal as F32. */
static void add_value(Sha256 *sha, double number, Dtype t)
{
    identity_double(sha, dtype_is_float(t) && t != F64 ? (double)(float)number : number);
}

static void add_table(Sha256 *sha, const Node *table)
{
    IDENTITY_ADD(sha, table->dtype, table->data_count);
    for (int64_t i = 0; i < table->data_count; i++)
        add_value(sha, table->data[i], table->dtype);
}

/* The kernels of a scan have no parameters for paths: the path's hash is a number like any other. */
static void add_path(Sha256 *sha, const Kernel *k, uint64_t hash)
{
    int i = 0;
    while (i < k->path_count && k->paths[i] != hash)
        i++;
    IDENTITY_ADD(sha, i, k->path_count ? 0 : (int64_t)hash);
}

static void add_expression(Sha256 *sha, const Kernel *k, const Expr *e, const int *place)
{
    IDENTITY_ADD(sha, e->kind, e->dtype, e->kind == X_OP ? (int64_t)e->op : 0, e->pass, e->count, e->constant, e->other, e->low,
                 e->high);
    for (int i = 0; i < e->count; i++)
        IDENTITY_ADD(sha, place[e->in[i]->id], e->kind == X_SUM ? e->factor[i] : 0);
    switch (e->kind) {
    case X_NUMBER: add_value(sha, e->number, e->dtype); break;
    case X_LOAD:
        IDENTITY_ADD(sha, argument_of(k, e->tensor), e->tensor->dtype);
        add_value(sha, e->number, e->dtype);
        break;
    case X_TABLE:
        add_table(sha, e->node);
        add_value(sha, e->number, e->dtype);
        break;
    case X_RANDOM:
        add_path(sha, k, e->hash);
        IDENTITY_ADD(sha, e->initial);
        break;
    default: break;
    }
}

static void add_expressions(Sha256 *sha, const Kernel *k, const Nest *nest, int *place)
{
    const Exprs *x = nest->exprs;
    const bool *needed = nest_needed(nest);
    int count = 0;
    for (int i = 0; i < x->count; i++)
        if (needed[i]) {
            place[i] = count++;
            add_expression(sha, k, x->all[i], place);
        }
    IDENTITY_ADD(sha, count);
}

static int64_t place_of(const int *place, const Expr *e) { return e ? place[e->id] : -1; }

static void add_results(Sha256 *sha, const Kernel *k, const Nest *nest, const int *place)
{
    IDENTITY_ADD(sha, nest->reduction_count, nest->store_count);
    for (int i = 0; i < nest->reduction_count; i++) {
        const Reduction *r = &nest->reductions[i];
        IDENTITY_ADD(sha, r->kind, place_of(place, r->value), place_of(place, r->place), r->dtype, r->in_double, r->partial);
        if (r->over_rows)
            IDENTITY_ADD(sha, r->over_rows);
    }
    for (int i = 0; i < nest->store_count; i++) {
        const Store *s = &nest->stores[i];
        IDENTITY_ADD(sha, argument_of(k, s->tensor), s->tensor->dtype, place_of(place, s->offset), place_of(place, s->value),
                     place_of(place, s->guard), s->outer, s->add, s->part, s->run, s->apart);
        if (s->moment)
            IDENTITY_ADD(sha, s->moment);
        if (s->over_rows)
            IDENTITY_ADD(sha, s->over_rows);
    }
}

/* Adds which arguments cannot be accessed in vectors. */
static void add_alignment(Sha256 *sha, const Kernel *k)
{
    for (int i = 0; i < k->read_count + k->write_count; i++)
        if (!tensor_is_aligned(i < k->read_count ? k->reads[i] : k->writes[i - k->read_count]))
            IDENTITY_ADD(sha, i);
}

static void add_sharing(Sha256 *sha, const Nest *nest, const int *place)
{
    const ThreadMapping *s = &nest->mapping;
    IDENTITY_ADD(sha, nest->passes, nest->columns, nest->serial, nest->divided, nest->grain, nest->partial, nest->owned,
                 nest->owned_iterations, place_of(place, nest->row), nest->fold);
    IDENTITY_ADD(sha, s->kind, s->lanes, s->unrolled, s->owners, s->parts, s->vector, s->slice, s->slices, s->blocks_before,
                 s->narrow);
    if (s->tail_lanes)
        IDENTITY_ADD(sha, s->tail_lanes);
    if (s->finish_before)
        IDENTITY_ADD(sha, s->finish_before);
}

void nests_identity(Sha256 *sha, const Kernel *k)
{
    IDENTITY_ADD(sha, k->nest_count, k->split, k->extent, k->grain, k->partial_bytes, k->owned_rows, k->owned_columns,
                 k->column_grain, k->index ? argument_of(k, k->index) : -1, k->small + 2 * k->exact, k->unit);
    for (int i = 0; i < k->nest_count; i++) {
        const Nest *nest = &k->nests[i];
        int *place = NEW_ARRAY(int, nest->exprs->count);
        add_axes(sha, nest->exprs);
        add_expressions(sha, k, nest, place);
        add_results(sha, k, nest, place);
        add_sharing(sha, nest, place);
        if (nest->mapping.vector > 1)
            add_alignment(sha, k);
    }
}

/* ---- scans */

typedef struct TensorNumbers {
    const Tensor **list;
    int count;
} TensorNumbers; /* tensors in the order of their first use */

static void add_tensor(Sha256 *sha, TensorNumbers *known, const Tensor *t)
{
    int64_t number = t ? place_in(known->list, known->count, t) : -2;
    if (number == -1) {
        number = known->count;
        APPEND(known->list, known->count, t);
    }
    IDENTITY_ADD(sha, number);
    if (t)
        IDENTITY_ADD(sha, t->dtype, t->has_samples, tensor_pitch(t), shape_count(&t->shape));
}

static void add_kernel(Sha256 *, const Kernel *);

void scan_identity(Sha256 *sha, const Kernel *k)
{
    const Scan *s = k->scan;
    TensorNumbers known = {0};
    IDENTITY_ADD(sha, s->steps, s->chunk, s->work_bytes, s->reverse, s->samples, s->carry_count, s->slice_count, s->buffer_count,
                 s->call_count);
    for (int i = 0; i < k->read_count + k->write_count; i++)
        add_tensor(sha, &known, i < k->read_count ? k->reads[i] : k->writes[i - k->read_count]);
    for (int i = 0; i < s->carry_count; i++) {
        const ScanCarry *c = &s->carries[i];
        const Tensor *tensors[] = {c->now, c->next, c->initial, c->last};
        for (int j = 0; j < COUNT(tensors); j++)
            add_tensor(sha, &known, tensors[j]);
        IDENTITY_ADD(sha, c->at[0], c->at[1]);
        identity_double(sha, c->fill);
    }
    for (int i = 0; i < s->slice_count; i++) {
        add_tensor(sha, &known, s->slices[i].slice);
        add_tensor(sha, &known, s->slices[i].whole);
        IDENTITY_ADD(sha, s->slices[i].stack);
    }
    for (int i = 0; i < s->buffer_count; i++) {
        add_tensor(sha, &known, s->buffers[i].tensor);
        IDENTITY_ADD(sha, s->buffers[i].offset);
    }
    for (int i = 0; i < s->call_count; i++) {
        const ScanCall *call = &s->calls[i];
        IDENTITY_ADD(sha, call->work, call->fresh);
        for (int j = 0; j < call->kernel->read_count + call->kernel->write_count; j++)
            add_tensor(sha, &known,
                       j < call->kernel->read_count ? call->kernel->reads[j]
                                                    : call->kernel->writes[j - call->kernel->read_count]);
        add_kernel(sha, call->kernel);
    }
}

/* ---- kernels */

static void add_kernel(Sha256 *sha, const Kernel *k)
{
    add_arguments(sha, k);
    KERNEL_KIND[k->kind].identify(sha, k);
}

const char *identity_key(const Digest *d)
{
    char digits[65];
    return format("%s", mgpu_digest_text(d, sizeof d->bytes, digits));
}

const char *kernel_shared_name(const Kernel *k)
{
    Sha256 sha = mgpu_sha256_begin();
    add_kernel(&sha, k);
    Digest d = mgpu_sha256_end(&sha);
    return identity_key(&d);
}
