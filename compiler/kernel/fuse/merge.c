/* merge.c: groups of roots that become one kernel.
 *
 * In: the roots, in topological order, and what each reads where (fuse_evaluate_root). Out: groups.
 *
 * Two groups may become one if
 *   - their loops fit: the same number of iterations; or one is a reduction and the other has an iteration for each result;
 *     or both are reductions over the same axes; or one sums, over samples, the rows that the other reduces (across);
 *   - what one reads of the other it reads at the iteration where it is computed (`aligned`), and need not load (`same`);
 *   - no path leads from one to the other through a third. Readers of a variable's old value run before the one that
 *     writes it: that is a path, too.
 * A root tries the groups that it reads, the last first, then groups that read what it reads. `level` is the longest path to a
 * group. It bounds the search for paths, which gives up after BUDGET groups. */
#include "compiler/kernel/fuse/fuse.h"
#include "compiler/kernel/phase.h"

#include <stdlib.h>
#include <string.h>

/* clang-format off */
enum { BUDGET = 256, MOST_CANDIDATES = 8, MOST_GROUP_WEIGHT = 400, MOST_READS = 40, MOST_RAISED = 64, SHARED_ELEMENTS = 256,
       FEW_RESULTS = 64, MANY_ITERATIONS = 16384,
       SHARED_PART = 8,
       LEAST_OVER_ROWS = 64, /* elements of rows that are summed over the rows */
       MOST_OVER_ROWS = 2 /* such sums of a kernel, which are in registers for a row */ };
/* clang-format on */

FusionGroup *fuse_group(const FusionRoot *r)
{
    FusionGroup *g = r->group;
    while (g->into)
        g = g->into;
    return g;
}

bool fuse_read_elsewhere(const Fusion *f, const FusionRoot *r)
{
    const Info *info = &f->info[r->node->id];
    for (int i = 0; i < info->reader_count; i++)
        if (fuse_group(info->readers[i]) != fuse_group(r))
            return true;
    return info->result || info->replaced;
}

FusionRoot *fuse_maker(const Fusion *f, const Read *read) { return read->copy ? read->copy : f->info[read->node->id].maker; }

/* ---- loops that fit */

static bool same_axes(const FusionRoot *a, const FusionRoot *b)
{
    if (a->axis_count != b->axis_count)
        return false;
    for (int i = 0; i < a->axis_count; i++)
        if (a->axes[i].extent != b->axes[i].extent || a->axes[i].samples != b->axes[i].samples ||
            a->axes[i].reduction != b->axes[i].reduction)
            return false;
    return true;
}

/* True if the iterations are equally many: `map` is at all of them or (fits_outer) at the parallel ones. */
static bool fits_full(const FusionRoot *map, const FusionRoot *shape)
{
    return map->full == shape->full && map->samples == shape->samples;
}
static bool fits_outer(const FusionRoot *map, const FusionRoot *shape)
{
    return map->full == shape->parallel && map->samples == shape->parallel_samples;
}

/* outer: the element-wise group is at parallel iterations. over_rows: the group consists of sums across the other's rows and of
 * values at all iterations, or (with outer) of values at the iterations of such sums. */
typedef struct FitSide {
    bool outer, over_rows;
} FitSide;
typedef struct LoopFit {
    FusionRoot *shape;
    FitSide a, b;
} LoopFit;

/* Returns true if the reduction axes of each are the parallel axes of the other. */
static bool crosses(const FusionRoot *a, const FusionRoot *b)
{
    if (a->axis_count != b->axis_count)
        return false;
    for (int i = 0; i < a->axis_count; i++) {
        const Axis *x = &a->axes[i], *y = &b->axes[i];
        if (x->extent != y->extent || x->samples != y->samples || ((x->extent > 1 || x->samples) && x->reduction == y->reduction))
            return false;
    }
    return true;
}

/* Returns true if the sum is of a contraction's operand: it is left to be that contraction's epilogue (fuse/epilogue.c). */
static bool is_for_contraction(const Fusion *f, const FusionRoot *sum)
{
    const Info *info = sum->read_count == 1 ? &f->info[sum->reads[0].node->id] : NULL;
    for (int i = 0; info && i < info->reader_count; i++)
        if (info->readers[i]->kind == ROOT_CONTRACTION)
            return true;
    return false;
}

/* Returns true if the kernel of these rows may compute the sums of the group at its end. */
static bool may_be_over_rows(const Fusion *f, const FusionRoot *rows, const FusionGroup *sums, int more)
{
    int64_t columns = rows->parallel ? rows->full / rows->parallel : 0;
    bool fits = rows->parallel_samples && sums->shape->reduces_samples && columns >= LEAST_OVER_ROWS &&
                columns <= f->program->target->over_rows_columns && crosses(rows, sums->shape);
    int count = 0;
    for (int i = 0; fits && i < sums->count; i++) {
        const FusionRoot *r = sums->members[i];
        fits = !r->reduces || (r->node->op == OP_SUM && dtype_is_float(r->node->dtype) && !is_for_contraction(f, r));
        count += r->reduces;
    }
    return fits && count + more <= MOST_OVER_ROWS;
}

/* Returns true if `map` has an iteration for each result of the sums across. */
static bool fits_row_sums(const FusionRoot *map, const FusionGroup *rows)
{
    return rows->row_sum_count && !map->samples && map->full * rows->shape->parallel == rows->shape->full;
}

static bool loops_fit(const Fusion *f, const FusionGroup *a, const FusionGroup *b, LoopFit *fit)
{
    bool reduces_a = a->shape->reduces, reduces_b = b->shape->reduces;
    *fit = (LoopFit){.shape = a->shape};
    if (reduces_a && reduces_b) {
        fit->a.over_rows = !a->row_sum_count && may_be_over_rows(f, b->shape, a, b->row_sum_count);
        fit->b.over_rows = !b->row_sum_count && !fit->a.over_rows && may_be_over_rows(f, a->shape, b, a->row_sum_count);
        fit->shape = fit->a.over_rows ? b->shape : a->shape;
        return fit->a.over_rows || fit->b.over_rows ||
               (same_axes(a->shape, b->shape) && a->row_sum_count + b->row_sum_count <= MOST_OVER_ROWS);
    }
    if (!reduces_a && !reduces_b) {
        if (b->shape->axis_count > a->shape->axis_count)
            fit->shape = b->shape;
        return fits_full(a->shape, b->shape);
    }
    const FusionGroup *map = reduces_a ? b : a, *rows = reduces_a ? a : b;
    fit->shape = rows->shape;
    bool across = fits_row_sums(map->shape, rows), outer = across || fits_outer(map->shape, fit->shape);
    *(map == a ? &fit->a : &fit->b) = (FitSide){outer, across};
    return outer || fits_full(map->shape, fit->shape);
}

/* ---- reads at the iteration that computes the value */

/* True if the offset is the iteration's number, in the reader's axes. parallel: over the parallel axes of `shape`. */
static bool is_iteration_number(const FusionRoot *reader, const int64_t *steps, const FusionRoot *shape, bool parallel)
{
    int64_t stride = 1;
    int sample = -1;
    bool same = steps != NULL;
    for (int i = reader->axis_count - 1; i >= 0 && same; i--) {
        const Axis *a = &reader->axes[i];
        if (a->samples && !(parallel && shape->axes[i].reduction)) {
            same = sample < 0 || steps[sample] == 0;
            sample = i;
            continue;
        }
        bool counts = !(parallel && shape->axes[i].reduction), moves = a->extent > 1 || a->samples || a->kind != AXIS_PLAIN;
        same = !moves || steps[i] == (counts ? stride : 0);
        stride *= counts ? a->extent : 1;
    }
    return same && (sample < 0 || steps[sample] == stride);
}

static bool same_extents(const FusionRoot *a, const FusionRoot *b)
{
    if (a->axis_count != b->axis_count)
        return false;
    for (int i = 0; i < a->axis_count; i++)
        if (a->axes[i].extent != b->axes[i].extent || a->axes[i].samples != b->axes[i].samples)
            return false;
    return true;
}

/* Returns true if the value is read at the iteration that computes it. outer_made, outer_reader: it is computed, or read, at the
 * parallel iterations of `shape`. */
static bool aligned(const FusionRoot *reader, bool outer_reader, const Read *read, bool outer_made, const FusionRoot *shape)
{
    if (outer_made == outer_reader)
        return is_iteration_number(reader, read->steps, shape, false);
    if (!outer_made || !same_extents(reader, shape))
        return false;
    if (shape->reduces_samples || (shape->parallel < FEW_RESULTS && !shape->parallel_samples && shape->full > MANY_ITERATIONS))
        return false; /* a second pass over all of a large sum: two kernels are as fast, and threads can divide each of them */
    return is_iteration_number(reader, read->steps, shape, true);
}

/* True if r is computed at the kernel's end: a sum across, or a value of such sums. A sum's terms are at all iterations. */
static bool is_over_rows(const FusionRoot *r, FitSide side, bool made)
{
    return (r->over_rows || side.over_rows) && (r->reduces ? made : r->outer || side.outer);
}

static bool reads_fit(const Fusion *f, const FusionGroup *from, const FusionGroup *by, const FusionRoot *shape, FitSide side_from,
                      FitSide side_by)
{
    for (int i = 0; i < by->count; i++) {
        const FusionRoot *reader = by->members[i];
        bool outer_reader = reader->outer || side_by.outer;
        for (int k = 0; k < reader->read_count; k++) {
            const FusionRoot *maker = fuse_maker(f, &reader->reads[k]);
            if (!maker || fuse_group(maker) != from)
                continue;
            bool outer_made = maker->outer || side_from.outer || maker->reduces;
            if (is_over_rows(maker, side_from, true) != is_over_rows(reader, side_by, false) ||
                f->info[reader->reads[k].node->id].computed_once || f->info[reader->reads[k].node->id].replaced ||
                !aligned(reader, outer_reader, &reader->reads[k], outer_made, shape))
                return false;
        }
    }
    return true;
}

/* ---- paths */

typedef struct PathSearch {
    const Fusion *f;
    int stamp, visited;
    FusionGroup *stack[BUDGET + 8];
    int depth;
} PathSearch;

/* Returns the k-th root that must run before r, k < read_count + before_count; NULL: no kernel makes it. */
static const FusionRoot *runs_before(const Fusion *f, const FusionRoot *r, int k)
{
    return k < r->read_count ? fuse_maker(f, &r->reads[k]) : r->before[k - r->read_count];
}

static void push_inputs(PathSearch *s, const FusionGroup *g, const FusionGroup *skip, int above)
{
    for (int i = 0; i < g->count; i++)
        for (int k = 0; k < g->members[i]->read_count + g->members[i]->before_count; k++) {
            const FusionRoot *maker = runs_before(s->f, g->members[i], k);
            if (!maker)
                continue;
            FusionGroup *from = fuse_group(maker);
            if (from == skip || from == g || from->stamp == s->stamp || from->level < above)
                continue;
            from->stamp = s->stamp;
            if (s->depth < BUDGET)
                s->stack[s->depth++] = from;
            else
                s->visited = BUDGET;
        }
}

/* Returns true if a path leads from `from` to `to` through a third group, or if the search is too long. */
static bool path_between(Fusion *f, FusionGroup *from, const FusionGroup *to)
{
    PathSearch s = {.f = f, .stamp = ++f->stamps};
    push_inputs(&s, to, from, from->level + 1);
    while (s.depth > 0) {
        const FusionGroup *g = s.stack[--s.depth];
        if (++s.visited > BUDGET)
            return true;
        for (int i = 0; i < g->count; i++)
            for (int k = 0; k < g->members[i]->read_count + g->members[i]->before_count; k++) {
                const FusionRoot *maker = runs_before(f, g->members[i], k);
                if (maker && fuse_group(maker) == from)
                    return true;
            }
        push_inputs(&s, g, NULL, from->level + 1);
    }
    return s.visited >= BUDGET;
}

/* ---- levels */

typedef struct Queue {
    FusionGroup **list;
    int count;
} Queue;

/* Returns the k-th root that must run after r: its readers, writers of what it reads, and last the REDUCE of its copy. */
static FusionRoot *next_reader(const Fusion *f, const FusionRoot *r, int k)
{
    const Info *info = &f->info[r->node->id];
    int readers = r->target ? 0 : info->reader_count;
    return k < readers                            ? info->readers[k]
           : k < readers + r->result_writer_count ? r->result_writers[k - readers]
                                                  : r->copy_reader;
}

/* Returns true if the group may be raised to `level`: few groups after it must be raised, too (each counts up to twice). */
static bool may_raise(const Fusion *f, FusionGroup *start, int level)
{
    struct {
        const FusionGroup *g;
        int level;
    } work[MOST_RAISED];
    int count = 0, seen = 0;
    work[count].g = start;
    work[count++].level = level;
    while (count > 0) {
        const FusionGroup *g = work[--count].g;
        int above = work[count].level;
        for (int i = 0; i < g->count; i++) {
            const FusionRoot *r = g->members[i];
            int readers = r->target ? 0 : f->info[r->node->id].reader_count;
            for (int k = 0; k <= readers + r->result_writer_count; k++) {
                const FusionRoot *reader = next_reader(f, r, k);
                const FusionGroup *next = reader && reader->group ? fuse_group(reader) : NULL;
                if (!next || next == g || next == start || next->level > above)
                    continue;
                if (++seen > MOST_RAISED || count == MOST_RAISED)
                    return false;
                work[count].g = next;
                work[count++].level = above + 1;
            }
        }
    }
    return true;
}

/* ---- merging */

static int read_total(const FusionGroup *g)
{
    int count = 0;
    for (int i = 0; i < g->count; i++)
        count += g->members[i]->read_count;
    return count;
}

static bool mergeable(const FusionGroup *g)
{
    const FusionRoot *first = g->members[0];
    return first->kind == ROOT_LOOPS && !first->grouped && !first->not_merged && !first->after_report;
}

/* Returns true if short runs of a reduction's parallel iterations share a value that the group reads. One kernel would loop over
 * these runs, which are too short for vectors. */
static bool cuts_into_runs(const Fusion *f, const FusionGroup *g, FitSide side)
{
    for (int i = 0; i < g->count && side.outer && f->program->target->stores_runs; i++)
        for (int k = 0; k < g->members[i]->read_count; k++)
            if (!g->members[i]->reads[k].steps)
                return true;
    return false;
}

static bool may_merge(Fusion *f, FusionGroup *a, FusionGroup *b, LoopFit *fit)
{
    if (a == b || !mergeable(a) || !mergeable(b) || a->early != b->early || a->update != b->update ||
        a->shape->elements != b->shape->elements)
        return false;
    if (a->weight + b->weight > MOST_GROUP_WEIGHT || read_total(a) + read_total(b) > 4 * MOST_READS)
        return false;
    if (!loops_fit(f, a, b, fit) || cuts_into_runs(f, a, fit->a) || cuts_into_runs(f, b, fit->b))
        return false;
    FusionGroup *lower = a->level < b->level ? a : b;
    if (a->level != b->level && !may_raise(f, lower, lower == a ? b->level : a->level))
        return false;
    if (!reads_fit(f, a, b, fit->shape, fit->a, fit->b) || !reads_fit(f, b, a, fit->shape, fit->b, fit->a))
        return false;
    return !path_between(f, a, b) && !path_between(f, b, a);
}

static int by_order(const void *a, const void *b)
{
    const FusionRoot *const *x = a, *const *y = b;
    return ((*x)->order > (*y)->order) - ((*x)->order < (*y)->order);
}

static void raise_reader(Queue *q, const FusionGroup *g, const FusionRoot *reader)
{
    FusionGroup *next = reader->group ? fuse_group(reader) : NULL;
    if (!next || next == g || next->level > g->level)
        return;
    next->level = g->level + 1;
    if (!next->queued)
        q->list[q->count++] = next;
    next->queued = true;
}

/* Updates the levels of all groups that depend on the group. */
static void raise_levels(const Fusion *f, FusionGroup *start)
{
    Queue q = {f->queue, 0};
    q.list[q.count++] = start;
    while (q.count > 0) {
        FusionGroup *g = q.list[--q.count];
        g->queued = false;
        for (int i = 0; i < g->count; i++) {
            const FusionRoot *r = g->members[i];
            int readers = r->target ? 0 : f->info[r->node->id].reader_count;
            for (int k = 0; k <= readers + r->result_writer_count; k++)
                if (next_reader(f, r, k))
                    raise_reader(&q, g, next_reader(f, r, k));
        }
    }
}

static void take_side(FusionGroup *g, FitSide side)
{
    for (int i = 0; i < g->count; i++) {
        FusionRoot *r = g->members[i];
        r->outer = r->outer || side.outer;
        r->over_rows = r->over_rows || (side.over_rows && (r->reduces || r->outer));
        g->row_sum_count += side.over_rows && r->reduces;
    }
}

static void merge(const Fusion *f, FusionGroup *a, FusionGroup *b, const LoopFit *fit)
{
    take_side(a, fit->a);
    take_side(b, fit->b);
    for (int i = 0; i < b->count; i++)
        APPEND(a->members, a->count, b->members[i]);
    qsort(a->members, (size_t)a->count, sizeof *a->members, by_order);
    b->into = a;
    a->shape = fit->shape;
    a->weight += b->weight;
    a->row_sum_count += b->row_sum_count;
    int level = a->level > b->level ? a->level : b->level;
    bool raised = level != a->level || level != b->level;
    a->level = level;
    if (raised)
        raise_levels(f, a);
}

/* ---- candidates */

static void add_candidate(FusionGroup **list, int *count, FusionGroup *g)
{
    for (int i = 0; i < *count; i++)
        if (list[i] == g)
            return;
    if (*count < MOST_CANDIDATES) {
        list[(*count)++] = g;
        return;
    }
    int lowest = 0;
    for (int i = 1; i < *count; i++)
        if (list[i]->level < list[lowest]->level)
            lowest = i;
    if (list[lowest]->level < g->level)
        list[lowest] = g;
}

static int by_level(const void *a, const void *b)
{
    const FusionGroup *const *x = a, *const *y = b;
    if ((*x)->level != (*y)->level)
        return (*x)->level < (*y)->level ? 1 : -1;
    return ((*x)->order > (*y)->order) - ((*x)->order < (*y)->order);
}

/* Adds the last groups that read a tensor that r reads, if it is large, absolutely and in proportion to r's iterations. */
static void add_siblings(const Fusion *f, const FusionRoot *r, FusionGroup **list, int *count)
{
    for (int k = 0; k < r->read_count; k++) {
        const Node *n = r->reads[k].node;
        if ((!n->has_samples && shape_count(&n->shape) < SHARED_ELEMENTS) ||
            SHARED_PART * node_elements(n) < (double)r->full * (r->samples ? SOME_SAMPLES : 1))
            continue;
        const Info *info = &f->info[n->id];
        for (int i = info->reader_count - 1, tried = 0; i >= 0 && tried < 4; i--) {
            if (!info->readers[i]->group || info->readers[i] == r)
                continue;
            add_candidate(list, count, fuse_group(info->readers[i]));
            tried++;
        }
    }
}

static bool try_candidates(Fusion *f, FusionGroup *g, FusionGroup **list, int count)
{
    qsort(list, (size_t)count, sizeof *list, by_level);
    for (int i = 0; i < count; i++) {
        LoopFit fit;
        FusionGroup *other = list[i];
        if (!other->into && may_merge(f, other, g, &fit)) {
            merge(f, other, g, &fit);
            return true;
        }
    }
    return false;
}

static void find_partners(Fusion *f, FusionGroup *g, const FusionRoot *r)
{
    FusionGroup *list[MOST_CANDIDATES];
    for (;;) { /* a merged group may merge again with another group that the root reads */
        int count = 0;
        for (int k = 0; k < r->read_count; k++) {
            const FusionRoot *maker = fuse_maker(f, &r->reads[k]);
            if (maker && maker->group && fuse_group(maker) != g)
                add_candidate(list, &count, fuse_group(maker));
        }
        if (!try_candidates(f, g, list, count))
            break;
        g = fuse_group(r);
    }
    for (;;) {
        int count = 0;
        add_siblings(f, r, list, &count);
        if (!try_candidates(f, g, list, count))
            break;
        g = fuse_group(r);
    }
}

FusionGroup *fuse_new_group(Fusion *f, FusionRoot *r)
{
    FusionGroup *g = NEW(FusionGroup);
    *g = (FusionGroup){.shape = r, .order = f->group_count, .weight = r->weight, .early = r->early, .update = r->update};
    APPEND(g->members, g->count, r);
    for (int k = 0; k < r->read_count + r->before_count; k++) {
        const FusionRoot *maker = runs_before(f, r, k);
        if (maker && maker != r && fuse_group(maker)->level >= g->level)
            g->level = fuse_group(maker)->level + 1;
    }
    r->group = g;
    APPEND(f->groups, f->group_count, g);
    return g;
}

/* Records that a sink runs after the readers of its variable's old value. Sinks after it that read the variable, too, are left
 * out, so that there is no cycle here; fuse/order.c resolves that case. Report values join the report's kernel without this
 * check: a sink after the report must not share a kernel with one of their producers, or it would depend on itself. */
static void find_old_readers(Fusion *f, FusionRoot *writer)
{
    const Node *variable = writer->target && writer->target->kind == TENSOR_VARIABLE ? writer->target->node : NULL;
    const Info *info = variable ? &f->info[variable->id] : NULL;
    for (int k = 0; variable && k < info->reader_count; k++)
        if (info->readers[k]->group && info->readers[k] != writer) {
            FusionRoot *reader = info->readers[k];
            APPEND(writer->before, writer->before_count, reader);
            APPEND(reader->result_writers, reader->result_writer_count, writer);
            writer->after_report |= reader->after_report || (reader->target && reader->target->kind == TENSOR_REPORT);
        }
}

/* All results of one scan with samples are one computation, and all without samples are another. */
static bool join_scan(const Fusion *f, FusionGroup *g, const FusionRoot *r)
{
    if (r->kind != ROOT_SCAN)
        return false;
    FusionGroup *first = fuse_group(*fuse_scan_results(f, r));
    if (first != g)
        merge(f, first, g, &(LoopFit){.shape = first->shape});
    return true;
}

/* The results of one attention are one computation, and so are its gradients, and the values and places of a TOP_K. They have
 * equal operands, so no path leads from one to another. */
static bool join_results(const Fusion *f, FusionGroup *g, const FusionRoot *r)
{
    if ((!is_attention(r->node->op) && r->node->op != OP_TOP_K) || r->target)
        return false;
    size_t shared = r->node->op == OP_TOP_K ? 2 : 3; /* number of attributes that must be equal */
    const Info *info = &f->info[r->reads[0].node->id];
    for (int i = 0; i < info->reader_count && info->readers[i]->group; i++) {
        const FusionRoot *other = info->readers[i];
        FusionGroup *into = fuse_group(other);
        if (into == g || other->target || other->node->op != r->node->op || into->early != g->early ||
            into->update != g->update ||
            memcmp(other->node->in, r->node->in, sizeof *r->node->in * (size_t)r->node->inputs) != 0 ||
            memcmp(other->node->ints, r->node->ints, sizeof *r->node->ints * shared) != 0)
            continue;
        merge(f, into, g, &(LoopFit){.shape = into->shape});
        return true;
    }
    return false;
}

void fuse_merge(Fusion *f)
{
    for (int i = 0; i < f->root_count; i++) {
        FusionRoot *r = f->roots[i];
        for (int k = 0; k < r->read_count; k++) {
            Info *info = &f->info[r->reads[k].node->id];
            if (!r->reads[k].copy && (!info->reader_count || info->readers[info->reader_count - 1] != r))
                APPEND(info->readers, info->reader_count, r);
        }
    }
    f->queue = NEW_ARRAY(FusionGroup *, f->root_count + 1);
    FusionGroup *report = NULL;
    for (int i = 0; i < f->root_count; i++) {
        FusionRoot *r = f->roots[i];
        find_old_readers(f, r);
        FusionGroup *g = fuse_new_group(f, r);
        if (r->target && r->target->kind == TENSOR_REPORT) { /* one kernel writes all numbers of the report */
            if (report) {
                report->update = report->update || g->update;
                merge(f, report, g, &(LoopFit){.shape = report->shape});
            } else {
                report = g;
            }
            continue;
        }
        if (!join_scan(f, g, r) && !f->separate && !join_results(f, g, r))
            find_partners(f, g, r);
    }
    int kept = 0;
    for (int i = 0; i < f->group_count; i++)
        if (!f->groups[i]->into)
            f->groups[kept++] = f->groups[i];
    f->group_count = kept;
}
