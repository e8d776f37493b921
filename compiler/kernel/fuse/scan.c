/* scan.c: SCAN as a kernel: a loop over steps that calls the kernels of its body.
 *
 * In: RESULTs of one SCAN, all with samples or all without, and the tensors of its operands. Out: a Kernel whose `scan` holds the
 * calls of the loop and the places of all tensors.
 *
 * The body becomes a graph of its own, without what these results do not need, and goes through all stages of the fuser like the
 * graph of a phase. Its leaves are
 *   carries     two buffers each, which are exchanged after every step
 *   sequences   the slice of a step, read in place: a tensor with a pitch; stacks are written likewise
 *   captured    the tensors themselves. Views of them, constants and run scalars are computed in the body, so that nothing
 *               is stored for them; but an operand of a contraction must be in memory in a layout that the contraction reads.
 * A thread takes a chunk of its samples through all steps, then the next chunk. A chunk's carries and temporaries should stay in
 * the core's cache; temporaries are placed by their lifetime, first fit. On a GPU a block takes a chunk, and has its own part of
 * the workspace. */
#include "compiler/kernel/fuse/fuse.h"
#include "compiler/kernel/phase.h"
#include "compiler/machine/machine.h"
#include "compiler/ir/rebuild.h"
#include "runtime/abi/mgpu.h"

#include <string.h>

enum {
    LEAST_SAMPLES = 32 /* of a chunk, since a contraction reads its weights again for each chunk */
};

enum { CARRIES, SEQUENCES, STEPS, REVERSE }; /* in ints of the SCAN */

typedef enum OperandRole { OPERAND_CARRY, OPERAND_SEQUENCE, OPERAND_CAPTURED } OperandRole;

static OperandRole operand_role(const Node *scan, int input)
{
    int64_t carries = scan->ints[CARRIES], sequences = scan->ints[SEQUENCES];
    return input < carries ? OPERAND_CARRY : input < carries + sequences ? OPERAND_SEQUENCE : OPERAND_CAPTURED;
}

/* ---- operands */

static bool is_row_major(const Tensor *t)
{
    for (int i = 0; t->order && i < t->shape.rank; i++)
        if (t->order[i] != i)
            return false;
    return true;
}

static bool is_stored_row_major(const Fusion *f, const Node *n)
{
    return n->op != OP_VARIABLE || is_row_major(f->variables[n->ints[0]]);
}

/* Returns true if the node has the values of its input, perhaps in other places. */
static bool is_value_of_input(const Node *n)
{
    return OP_INFO[n->op].op_class == VIEW || n->op == OP_CAST || n->op == OP_STOP_GRADIENT;
}

/* Returns, by ARG, if a contraction or an inner scan reads it, perhaps through views. */
static const bool *contraction_read(const Fusion *f, const Node *scan)
{
    Info *info = &f->info[scan->id];
    if (info->contraction_reads)
        return info->contraction_reads;
    const Graph *body = scan->body;
    bool *contracted = NEW_ARRAY(bool, scan->inputs + 1), *node = NEW_ARRAY(bool, body->node_count);
    for (int i = body->node_count - 1; i >= 0; i--) {
        const Node *n = body->nodes[i];
        bool reads = fuse_contracts(n) || n->op == OP_SCAN;
        for (int k = 0; k < n->inputs; k++)
            if (reads || (node[i] && is_value_of_input(n)))
                node[n->in[k]->id] = true;
        if (n->op == OP_ARG)
            contracted[n->ints[0]] = contracted[n->ints[0]] || node[i];
    }
    return info->contraction_reads = contracted;
}

static bool is_free_view(const Node *n)
{
    bool moves = n->op == OP_RESHAPE || n->op == OP_TRANSPOSE || n->op == OP_SLICE || n->op == OP_BROADCAST;
    return moves || n->op == OP_STOP_GRADIENT || (n->op == OP_CAST && !dtype_is_half(n->dtype));
}

static bool is_number(const Node *n)
{
    return n->op == OP_CONSTANT || n->op == OP_RUN || n->op == OP_VALID || n->op == OP_BATCH_PLACE || n->op == OP_ARANGE;
}

static const Node *captured_operand(const Node *o, bool contracted)
{
    const Node *first = o;
    double value;
    while (contracted && o->op == OP_TRANSPOSE)
        o = o->in[0];
    while (contracted ? o->op == OP_RESHAPE || o->op == OP_STOP_GRADIENT : is_free_view(o))
        o = o->in[0];
    if (is_number(o))
        return contracted && !(o == first && node_is_constant(o, &value)) ? first : NULL;
    return o;
}

const Node *fuse_scan_operand(const Fusion *f, const Node *scan, int input)
{
    const Node *o = scan->in[input], *first = o;
    double value;
    OperandRole part = operand_role(scan, input);
    if (part == OPERAND_CAPTURED)
        return f->separate && !is_number(o) ? o : captured_operand(o, contraction_read(f, scan)[input]);
    if (node_is_constant(o, &value))
        return NULL;
    while (part == OPERAND_SEQUENCE && !f->separate &&
           (o->op == OP_RESHAPE || o->op == OP_STOP_GRADIENT || (o->op == OP_CAST && dtype_is_half(o->in[0]->dtype))))
        o = o->in[0];
    return is_number(o) || !is_stored_row_major(f, o) ? first : o;
}

FusionRoot **fuse_scan_results(const Fusion *f, const FusionRoot *r)
{
    return &f->info[r->node->in[0]->id].scan_results[r->node->has_samples | r->early << 1 | r->update << 2];
}

static bool has_attention(const Graph *body)
{
    for (int i = 0; i < body->node_count; i++)
        if (is_attention(body->nodes[i]->op) || (body->nodes[i]->op == OP_SCAN && has_attention(body->nodes[i]->body)))
            return true;
    return false;
}

/* Returns true if a scan or an attention reads a variable that is not stored row-major. */
static bool needs_row_major(const Fusion *f, const Node *n, int input)
{
    bool straight = n->op == OP_SCAN ? operand_role(n, input) != OPERAND_CAPTURED || has_attention(n->body) : is_attention(n->op);
    return straight && !is_stored_row_major(f, n->in[input]);
}

Graph *fuse_copy_reordered(const Fusion *f)
{
    Graph *g = f->graph;
    int found = 0;
    for (int i = 0; i < g->node_count; i++)
        for (int k = 0; k < g->nodes[i]->inputs; k++)
            found += needs_row_major(f, g->nodes[i], k);
    if (!found)
        return g;
    Graph *target = graph_new(g->model, g->name, g->parent);
    for (int i = 0; i < g->node_count; i++) {
        Node *n = g->nodes[i];
        if (n->op != OP_SCAN && !is_attention(n->op)) {
            graph_copy_node(target, n);
            continue;
        }
        set_position(target, n);
        Node **in = mapped_inputs(n);
        for (int k = 0; k < n->inputs; k++)
            if (needs_row_major(f, n, k))
                in[k] = NODE(target, OP_STOP_GRADIENT, NULL, 0, NULL, in[k]);
        map_node(n, graph_rebuild(target, n, in));
    }
    graph_copy_results(target, g);
    graph_place_again(target, g);
    return target;
}

/* ---- the body as a graph of its own */

typedef struct Build {
    Fusion *f, body;
    Kernel *kernel;
    Scan *scan;
    const Node *node;
    int carries;
    bool *wanted; /* by result of the body */
    int *number;  /* by carry: the index of its argument in the new body */
    const Node **outer;
    Node **inner;
    int captured; /* captured nodes, and their copies in the body */
    Tensor **arguments;
    int argument_count;
} Build;

/* Returns, by node of the body, if a wanted result depends on it. */
static bool *needed_nodes(const Build *b)
{
    const Graph *body = b->node->body;
    bool *needed = NEW_ARRAY(bool, body->node_count);
    for (int i = 0; i < body->result_count; i++)
        if (b->wanted[i])
            needed[body->results[i].value->id] = true;
    for (int i = body->node_count - 1; i >= 0; i--)
        for (int k = 0; needed[i] && k < body->nodes[i]->inputs; k++)
            needed[body->nodes[i]->in[k]->id] = true;
    return needed;
}

/* Marks the wanted results, and the carries that they depend on. */
static void find_wanted(Build *b, const FusionGroup *g)
{
    const Graph *body = b->node->body;
    for (int i = 0; i < g->count; i++)
        b->wanted[g->members[i]->node->ints[0]] = true;
    for (bool more = true; more;) {
        const bool *needed = needed_nodes(b);
        more = false;
        for (int i = 0; i < body->node_count; i++) {
            const Node *n = body->nodes[i];
            if (needed[i] && n->op == OP_ARG && n->ints[0] < b->carries && !b->wanted[n->ints[0]])
                more = b->wanted[n->ints[0]] = true;
        }
    }
}

static Node *new_argument(Build *b, Graph *to, const Node *like, Tensor *tensor)
{
    Node arg = {.op = OP_ARG,
                .dtype = like->dtype,
                .has_samples = like->has_samples,
                .weak = like->weak,
                .shape = like->shape,
                .ints = (int64_t[]){b->argument_count},
                .int_count = 1};
    APPEND(b->arguments, b->argument_count, tensor);
    return graph_rebuild(to, &arg, NULL);
}

/* Copies a captured value into the body. base: the value that is in memory; NULL: none is. */
static Node *capture(Build *b, Graph *to, const Node *n, const Node *base)
{
    for (int i = 0; i < b->captured; i++)
        if (b->outer[i] == n)
            return b->inner[i];
    Node *copy;
    if (n->op == OP_INPUT || n->op == OP_VARIABLE || (is_number(n) && n != base)) {
        copy = graph_rebuild(to, n, NULL);
    } else if (n == base) {
        copy = new_argument(b, to, n, n->op == OP_ARG ? b->f->arguments[n->ints[0]] : b->f->info[n->id].tensor);
    } else {
        Node *in = capture(b, to, n->in[0], base);
        copy = graph_rebuild(to, n, &in);
    }
    int count = b->captured;
    APPEND(b->outer, count, n);
    APPEND(b->inner, b->captured, copy);
    return copy;
}

static Tensor *stored_operand(const Build *b, int input)
{
    const Node *n = fuse_scan_operand(b->f, b->node, input);
    if (!n)
        return NULL;
    if (n->op == OP_INPUT)
        return b->f->inputs[n->ints[0]];
    if (n->op == OP_VARIABLE)
        return b->f->variables[n->ints[0]];
    return n->op == OP_ARG ? b->f->arguments[n->ints[0]] : b->f->info[n->id].tensor;
}

/* Makes the tensor of one step's slice of a sequence or a stack. */
static Tensor *slice_of(Build *b, const Tensor *whole, const Node *n, bool stack)
{
    Tensor *t = fuse_add_tensor(b->f, TENSOR_TEMPORARY, format("%s_t", kernel_argument_name(whole)), 0, whole->dtype, &n->shape,
                                whole->has_samples, NULL);
    if (!is_row_major(whole))
        die("a sequence of a scan is stored in another order");
    t->pitch = whole->has_samples ? tensor_pitch(whole) : 0;
    APPEND(b->scan->slices, b->scan->slice_count, ((ScanSlice){t, whole, stack}));
    return t;
}

static Node *leaf_of(Build *b, Graph *to, const Node *arg)
{
    int input = (int)arg->ints[0];
    double value;
    switch (operand_role(b->node, input)) {
    case OPERAND_CARRY:
        for (int i = 0; i < b->scan->carry_count; i++)
            if (b->number[i] == input)
                return new_argument(b, to, arg, (Tensor *)(uintptr_t)b->scan->carries[i].now);
        return NULL; /* no wanted result depends on it */
    case OPERAND_CAPTURED: return capture(b, to, b->node->in[input], fuse_scan_operand(b->f, b->node, input));
    default:
        if (!fuse_scan_operand(b->f, b->node, input) && node_is_constant(b->node->in[input], &value))
            return graph_fill(to, value, arg->shape, arg->dtype);
        const Tensor *whole = stored_operand(b, input);
        return new_argument(b, to, arg, slice_of(b, whole, arg, false));
    }
}

/* Adds the wanted carries: two buffers each, the initial values, and the tensors for the last values. */
static void add_carries(Build *b, const FusionGroup *g)
{
    const Node *n = b->node, **arg = NEW_ARRAY(const Node *, b->carries);
    for (int i = 0; i < n->body->node_count; i++)
        if (n->body->nodes[i]->op == OP_ARG && n->body->nodes[i]->ints[0] < b->carries)
            arg[n->body->nodes[i]->ints[0]] = n->body->nodes[i];
    b->number = NEW_ARRAY(int, b->carries);
    for (int i = 0; i < b->carries; i++) {
        const Node *next = n->body->results[i].value;
        if (!b->wanted[i])
            continue;
        const char *name = arg[i] && arg[i]->name ? arg[i]->name : next->name ? next->name : format("carry%d", i);
        name = last_word(name);
        bool has_samples = arg[i] ? arg[i]->has_samples : next->has_samples || n->in[i]->has_samples;
        ScanCarry c = {.initial = stored_operand(b, i)};
        c.now = fuse_add_tensor(b->f, TENSOR_TEMPORARY, name, 0, next->dtype, &next->shape, has_samples, NULL);
        c.next =
            fuse_add_tensor(b->f, TENSOR_TEMPORARY, format("next_%s", name), 0, next->dtype, &next->shape, has_samples, NULL);
        if (!c.initial)
            node_is_constant(n->in[i], &c.fill);
        if (c.initial && (!is_row_major(c.initial) || c.initial->dtype != next->dtype))
            die("the initial value of a scan's carry is stored in another order");
        for (int k = 0; k < g->count; k++)
            if (g->members[k]->node->ints[0] == i)
                c.last = b->f->info[g->members[k]->node->id].tensor;
        b->number[b->scan->carry_count] = i;
        APPEND(b->scan->carries, b->scan->carry_count, c);
    }
}

/* Makes the graph of what the wanted results need, with the tensors of its leaves and results. */
static Graph *body_of(Build *b, const FusionGroup *g)
{
    const Graph *from = b->node->body;
    Graph *to = graph_new(from->model, from->name, NULL);
    bool *needed = needed_nodes(b);
    add_carries(b, g);
    for (int i = 0; i < from->node_count; i++) {
        Node *n = from->nodes[i];
        set_position(to, n);
        if (needed[i] && n->op == OP_ARG)
            map_node(n, leaf_of(b, to, n));
        else if (needed[i])
            graph_copy_node(to, n);
    }
    Tensor **results = NULL;
    int count = 0;
    for (int i = 0, carry = 0; i < from->result_count; i++) {
        Tensor *tensor = NULL;
        if (!b->wanted[i])
            continue;
        if (i < b->carries)
            tensor = (Tensor *)(uintptr_t)b->scan->carries[carry++].next;
        for (int k = 0; k < g->count && !tensor; k++)
            if (g->members[k]->node->ints[0] == i)
                tensor = slice_of(b, b->f->info[g->members[k]->node->id].tensor, from->results[i].value, true);
        graph_result(to, ROLE_RESULT, NULL, count, from->results[i].value->mapped, NULL);
        APPEND(results, count, tensor);
    }
    b->body.results = results;
    b->body.arguments = b->arguments;
    return to;
}

/* ---- calls */

/* the role of a tensor, by id */
typedef struct Spot {
    enum { ELSEWHERE, SLICE, CARRY, BUFFER } kind;
    int number;         /* of the slice or buffer */
    int first, last;    /* first and last call that accesses it */
    bool read, written; /* it is among the scan's own arguments */
} Spot;

static Spot *find_spots(const Build *b)
{
    const Fusion *f = b->f;
    while (f->around)
        f = f->around;
    Spot *spot = NEW_ARRAY(Spot, f->tensor_count);
    for (int i = 0; i < b->scan->slice_count; i++) {
        spot[b->scan->slices[i].slice->id].kind = SLICE;
        spot[b->scan->slices[i].slice->id].number = i;
    }
    for (int i = 0; i < b->scan->carry_count; i++)
        spot[b->scan->carries[i].now->id].kind = spot[b->scan->carries[i].next->id].kind = CARRY;
    return spot;
}

static void add_read(Kernel *k, Spot *spot, const Tensor *t)
{
    if (!spot[t->id].read)
        APPEND(k->reads, k->read_count, t);
    spot[t->id].read = true;
}

static void add_write(Kernel *k, Spot *spot, const Tensor *t)
{
    if (!spot[t->id].written)
        APPEND(k->writes, k->write_count, t);
    spot[t->id].written = true;
}

static bool keeps_workspace(const Kernel *k)
{
    return k->scan ? scan_keeps(k->scan) : k->contraction && contraction_keeps_packed(k->contraction);
}

bool scan_keeps(const Scan *s)
{
    for (int i = 0; i < s->call_count; i++)
        if (keeps_workspace(s->calls[i].kernel))
            return true;
    return false;
}

static void add_calls(Build *b, Spot *spot)
{
    Scan *s = b->scan;
    Kernel *k = b->kernel;
    for (int i = 0; i < b->body.group_count; i++) {
        Kernel *called = b->body.groups[i]->kernel;
        ScanCall call = {.kernel = called, .work = -1};
        bool keeping = keeps_workspace(called);
        called->small = false;
        for (int j = 0; j < called->read_count; j++) {
            const Tensor *t = called->reads[j];
            Spot *at = &spot[t->id];
            const ScanSlice *slice = at->kind == SLICE ? &s->slices[at->number] : NULL;
            at->last = i;
            call.fresh = call.fresh || (keeping && !t->has_samples && at->kind != ELSEWHERE);
            if (slice && !slice->stack)
                add_read(k, spot, slice->whole);
            else if (at->kind == ELSEWHERE)
                add_read(k, spot, t);
        }
        for (int j = 0; j < called->write_count; j++) {
            const Tensor *t = called->writes[j];
            Spot *at = &spot[t->id];
            if (at->kind == ELSEWHERE) { /* a temporary */
                *at = (Spot){.kind = BUFFER, .number = s->buffer_count, .first = i};
                APPEND(s->buffers, s->buffer_count, ((ScanBuffer){t, 0}));
            }
            at->last = i;
            if (at->kind == SLICE)
                add_write(k, spot, s->slices[at->number].whole);
        }
        APPEND(s->calls, s->call_count, call);
    }
    for (int i = 0; i < s->carry_count; i++) {
        if (s->carries[i].initial)
            add_read(k, spot, s->carries[i].initial);
        if (s->carries[i].last)
            add_write(k, spot, s->carries[i].last);
    }
}

/* ---- the workspace */

/* What has no elements has a place, too: calls name it. */
static int64_t bytes_of(const Scan *s, const Tensor *t)
{
    int64_t bytes = tensor_bytes(t, s->chunk);
    return whole_lines(bytes ? bytes : 1);
}

/* Places buffers first fit, in the order of their first calls; returns the end of the last. `live` has the buffers whose last
 * call is yet to come, in the order of their offsets. */
static int64_t place_buffers(Scan *s, const Spot *spot, int64_t begin)
{
    ScanBuffer **live = NEW_ARRAY(ScanBuffer *, s->buffer_count);
    int64_t end = begin;
    for (int i = 0, count = 0; i < s->buffer_count; i++) {
        ScanBuffer *own = &s->buffers[i];
        int64_t at = begin, bytes = bytes_of(s, own->tensor);
        int kept = 0, place = 0;
        for (int k = 0; k < count; k++)
            if (spot[live[k]->tensor->id].last >= spot[own->tensor->id].first)
                live[kept++] = live[k];
        count = kept;
        while (place < count && live[place]->offset < at + bytes) {
            at = live[place]->offset + bytes_of(s, live[place]->tensor);
            place++;
        }
        memmove(live + place + 1, live + place, sizeof *live * (size_t)(count - place));
        live[place] = own;
        count++;
        own->offset = at;
        end = at + bytes > end ? at + bytes : end;
    }
    return end;
}

static int64_t place_all(Scan *s, const Spot *spot)
{
    int64_t at = 0;
    for (int i = 0; i < s->carry_count; i++)
        for (int k = 0; k < 2; k++) {
            s->carries[i].at[k] = at;
            at += bytes_of(s, s->carries[i].now);
        }
    return place_buffers(s, spot, at);
}

static int64_t workspace_of(const Build *b, const Task *t)
{
    return t->workspace_bytes + (b->f->program->target->chunk ? b->scan->chunk * t->workspace_bytes_per_sample : 0);
}

static void place_work(const Build *b, const Task *const *tasks, const Spot *spot)
{
    Scan *s = b->scan;
    s->chunk = 1;
    int64_t each = place_all(s, spot), most = model_samples(b->node->graph->model);
    s->chunk = CHIP[PROCESSOR_HOST].cache_bytes / 2 / (each ? each : 1);
    s->chunk = s->chunk < LEAST_SAMPLES ? LEAST_SAMPLES : s->chunk;
    if (b->f->program->target->chunk)
        s->chunk = b->f->program->target->chunk(most);
    s->chunk = s->chunk > most ? most : s->chunk;
    int64_t at = place_all(s, spot), shared = at;
    for (int i = 0; i < s->call_count; i++) { /* calls that keep something between steps; the others share what is after */
        if (!workspace_of(b, tasks[i]) || !keeps_workspace(s->calls[i].kernel))
            continue;
        s->calls[i].work = shared;
        shared += whole_lines(workspace_of(b, tasks[i]));
    }
    s->work_bytes = shared;
    for (int i = 0; i < s->call_count; i++)
        if (workspace_of(b, tasks[i]) && s->calls[i].work < 0) {
            int64_t end = (s->calls[i].work = shared) + workspace_of(b, tasks[i]);
            s->work_bytes = end > s->work_bytes ? end : s->work_bytes;
        }
    s->work_bytes = whole_lines(s->work_bytes);
}

/* ---- the kernel */

double kernel_contraction_flops(const Kernel *k, double flops_per_sample)
{
    return k->scan ? k->scan->contraction_flops : k->contraction || k->attention ? flops_per_sample : 0;
}

void fuse_build_scan(Fusion *f, FusionGroup *g)
{
    const Node *n = g->members[0]->node->in[0];
    Build b = {.f = f, .kernel = g->kernel, .scan = NEW(Scan), .node = n, .carries = (int)n->ints[CARRIES]};
    Scan *s = b.scan;
    *s =
        (Scan){.node = n, .steps = n->ints[STEPS], .reverse = n->ints[REVERSE] != 0, .samples = g->members[0]->node->has_samples};
    b.wanted = NEW_ARRAY(bool, n->body->result_count);
    find_wanted(&b, g);
    Graph *body = body_of(&b, g);
    b.body = (Fusion){.program = f->program,
                      .phase = f->phase,
                      .graph = body,
                      .separate = f->separate,
                      .around = f,
                      .stages = f->stages,
                      .inputs = f->inputs,
                      .variables = f->variables,
                      .arguments = b.arguments,
                      .results = b.body.results};
    f->stages(&b.body);
    b.kernel->kind = KERNEL_SCAN;
    b.kernel->scan = s;
    b.kernel->split = s->samples ? MGPU_SPLIT_SAMPLES : MGPU_SPLIT_NONE;
    Spot *spot = find_spots(&b);
    add_calls(&b, spot);
    const Task **tasks = NEW_ARRAY(const Task *, s->call_count);
    for (int i = 0; i < s->call_count; i++) {
        const Task *t = tasks[i] = fuse_task(&b.body, b.body.groups[i]);
        s->flops += (double)s->steps * t->flops;
        s->flops_per_sample += (double)s->steps * t->flops_per_sample;
        s->contraction_flops += (double)s->steps * kernel_contraction_flops(b.body.groups[i]->kernel, t->flops_per_sample);
    }
    place_work(&b, tasks, spot);
    graph_use_memory(body);
    if (b.body.graph != body)
        graph_use_memory(b.body.graph);
}
