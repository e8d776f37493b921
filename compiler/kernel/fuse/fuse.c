/* fuse.c: Graph -> Phase: tensors, kernels and tasks.
 *
 * In: a graph of one phase, distributed and specialised. Out: its tasks in a legal order of execution, the tensors that
 * pass between them, and kernels, which are shared with everything compiled before if they are the same (kernel/identity.h).
 * The stages are listed in fuse.h. */
#include "compiler/kernel/fuse/fuse.h"
#include "compiler/kernel/identity.h"
#include "compiler/kernel/kinds.h"
#include "compiler/kernel/phase.h"
#include "compiler/ir/rebuild.h"
#include "runtime/abi/mgpu.h"

#include <stdlib.h>
#include <string.h>

/* ---- tensors */

Memory *fuse_keep(const Fusion *f)
{
    while (f->around)
        f = f->around;
    return memory_use(f->kept);
}

Tensor *fuse_add_tensor(Fusion *f, TensorKind kind, const char *name, int index, Dtype dtype, const Shape *shape, bool sharded,
                        Node *node)
{
    Memory *outer = fuse_keep(f);
    Tensor *t = NEW(Tensor);
    while (f->around) /* numbers say which is which within one kernel, and a scan's kernels have tensors of all around */
        f = f->around;
    *t = (Tensor){.id = f->tensor_count, .kind = kind, .name = copy_text(name, strlen(name)), .index = index, .dtype = dtype, .shape = *shape,
                  .sharded = sharded, .node = node};
    APPEND(f->tensors, f->tensor_count, t);
    memory_use(outer);
    return t;
}

static void add_leaves(Fusion *f)
{
    const Model *m = f->graph->model;
    Node **input = NEW_ARRAY(Node *, m->input_count), **variable = NEW_ARRAY(Node *, m->variable_count);
    for (int i = 0; i < f->graph->node_count; i++) {
        Node *n = f->graph->nodes[i];
        if (n->op == OP_INPUT)
            input[n->ints[0]] = n;
        if (n->op == OP_VARIABLE)
            variable[n->ints[0]] = n;
    }
    bool *used = NEW_ARRAY(bool, m->variable_count);
    for (int i = 0; i < m->variable_count; i++)
        used[i] = variable[i] != NULL;
    for (int i = 0; i < f->graph->result_count; i++)
        if (f->graph->results[i].role == ROLE_UPDATE || f->graph->results[i].role == ROLE_INIT)
            used[f->graph->results[i].index] = true;
    f->inputs = NEW_ARRAY(Tensor *, m->input_count);
    f->variables = NEW_ARRAY(Tensor *, m->variable_count);
    for (int i = 0; i < m->input_count; i++)
        f->inputs[i] = fuse_add_tensor(f, TENSOR_INPUT, format("in.%s", m->inputs[i].name), i, m->inputs[i].dtype,
                                       &m->inputs[i].shape, true, input[i]);
    for (int i = 0; i < m->variable_count; i++) {
        const Variable *v = &m->variables[i];
        if (!used[i])
            continue;
        Shape shape = v->shape;
        for (int k = 0; k < shape.rank; k++)
            shape.extent[k] = v->shape.extent[v->order[k]];
        f->variables[i] = fuse_add_tensor(f, TENSOR_VARIABLE, format("w.%s", v->name), i, v->dtype, &shape, false, variable[i]);
        f->variables[i]->order = v->order;
    }
    Phase *phase = f->phase;
    for (int i = 0; i < f->graph->result_count; i++)
        if (f->graph->results[i].role == ROLE_REPORT)
            APPEND(phase->reports, phase->report_count, f->graph->results[i].name);
    if (phase->report_count) {
        Shape slots = SHAPE(phase->report_count);
        f->report = fuse_add_tensor(f, TENSOR_REPORT, "report", 0, F64, &slots, false, NULL);
    }
}

/* ---- kernels */

static const char *printed(const Kernel *k, void (*print)(const Kernel *, Text *))
{
    Memory *own = memory_new(), *outer = memory_use(own);
    Text t = {0};
    print(k, &t);
    memory_use(outer);
    memory_free(own);
    return text_take(&t);
}

static void find_paths(Kernel *k)
{
    for (int i = 0; i < k->nest_count; i++)
        for (int j = 0; j < k->nests[i].exprs->count; j++) {
            const Expr *e = k->nests[i].exprs->all[j];
            bool known = e->kind != X_RANDOM;
            for (int m = 0; m < k->path_count; m++)
                known = known || k->paths[m] == e->hash;
            if (!known)
                APPEND(k->paths, k->path_count, e->hash);
        }
}

static void *copy_of(const void *from, size_t bytes) { return bytes ? memcpy(allocate(bytes), from, bytes) : NULL; }

/* The loops of a kernel are forgotten when its text is there: in hundreds of blocks whose kernels differ in a constant they
 * would be most of what mgpuc needs. GPUs are launched by what loops say. */
static Kernel *without_loops(const Kernel *k)
{
    Kernel *rest = NEW(Kernel);
    *rest = *k;
    rest->nests = NULL;
    rest->title = copy_text(k->title, strlen(k->title));
    rest->reads = copy_of(k->reads, sizeof *k->reads * (size_t)k->read_count);
    rest->writes = copy_of(k->writes, sizeof *k->writes * (size_t)k->write_count);
    rest->paths = copy_of(k->paths, sizeof *k->paths * (size_t)k->path_count);
    return rest;
}

/* the first kernel that was known by this key; this one, if there is none */
static Kernel *first_of(Program *p, const char *key, Kernel *k)
{
    Kernel *first = map_get(&p->kernels_known, key);
    if (!first)
        map_set(&p->kernels_known, copy_text(key, strlen(key)), k);
    return first ? first : k;
}

/* form: its identity whatever the paths */
static Kernel *add_kernel(Program *p, Kernel *k, const char *form)
{
    const Target *target = p->target;
    Kernel *own = !target->launches && k->nest_count ? without_loops(k) : k;
    own->number = k->number = p->kernel_count;
    own->name = k->name = format("k%d", k->number);
    if (k->kind == KERNEL_SCAN)
        target->print_scan(k);
    if (k->nest_count)
        own->text = printed(k, target->print_nests);
    if (target->finishes(k))
        own->finish_text = printed(k, target->print_finish);
    const char *launched = target->form ? target->form(k) : NULL;
    if (k->path_count && target->print_body) {
        own->body = first_of(p, form, own);
        if (own->body == own)
            own->body_text = printed(k, target->print_body);
        own->body->body_users++;
    } else if (k->path_count || launched) {
        const Kernel *first = first_of(p, k->path_count ? form : launched, own);
        own->canonical = first != own ? first : NULL;
    }
    APPEND(p->kernels, p->kernel_count, own);
    return own;
}

/* of six digits of its digest; of kernels that differ only in the paths of their random numbers, and of those few that have these
 * digits in common, the second one ends in _2 */
static const char *label_of(Program *p, const Kernel *k)
{
    const char *label = format("k%06x", (unsigned)(k->digest >> 40)), *first = label;
    for (int n = 2; map_get(&p->labels, label); n++)
        label = format("%s_%d", first, n);
    map_set(&p->labels, label, (void *)(uintptr_t)k);
    return label;
}

/* The kernel of the program that is the same one: the group's own, or one that was there: of a deep model's hundreds of equal
 * blocks one keeps its kernels. */
static Kernel *share(const Fusion *f, FusionGroup *g)
{
    Program *p = f->program;
    Kernel *k = g->kernel;
    Memory *outer = memory_use(g->memory);
    find_paths(k);
    const char *form = kernel_form(k), *key = form;
    for (int i = 0; i < k->path_count; i++)
        key = format("%s %llx", key, (unsigned long long)k->paths[i]);
    memory_use(outer);
    Kernel *shared = map_get(&p->kernels_known, key);
    if (!shared) {
        shared = add_kernel(p, k, form);
        shared->digest = strtoull(format("%.16s", form), NULL, 16);
        shared->label = label_of(p, shared);
        map_set(&p->kernels_known, copy_text(key, strlen(key)), shared);
    }
    if (shared == k) {
        memory_join(outer, g->memory);
        g->memory = NULL;
    }
    fuse_forget(g);
    return shared;
}

/* ---- tasks */

static void kernel_cost(const Fusion *f, Task *t, Kernel *k)
{
    const Program *p = f->program;
    t->workspace_bytes = p->target->workspace(k, p->options->arch, f->around != NULL, &t->workspace_bytes_per_sample);
    KERNEL_KIND[k->kind].cost(t, k);
}

/* ---- what may make NaN or infinity of finite numbers */
static void add_suspect(Task *t, const Node *n)
{
    static const char *const WORDS[] = {"log", "log1p", "sqrt", "div", "pow", "exp", "expm1", "mod", "asin", "acos", "atanh", "acosh"};
    const char *word = NULL;
    Suspect s = {.layer = n->path ? n->path : "", .line = model_line(n->at)};
    for (int i = 0; i < COUNT(WORDS) && !word; i++)
        word = strcmp(WORDS[i], OP_INFO[n->op].name) == 0 ? WORDS[i] : NULL;
    for (int i = 0; i < t->suspect_count; i++)
        if (t->suspects[i].word == word && t->suspects[i].line == s.line && strcmp(t->suspects[i].layer, s.layer) == 0)
            return;
    s.word = word;
    if (word && s.line > 0)
        APPEND(t->suspects, t->suspect_count, s);
}

/* never 0, as far as can be seen: a number, of samples, max(x, 1e-30), sqrt(x) + 1e-8 */
static bool is_above_0(const Expr *e)
{
    const Expr *a = e->count > 0 ? e->in[0] : NULL, *b = e->count > 1 ? e->in[1] : NULL;
    bool root = e->kind == X_OP && (e->op == OP_SQRT || e->op == OP_EXP || e->op == OP_ABS);
    if (e->kind == X_NUMBER)
        return e->number != 0;
    if (e->kind == X_RUN || (root && is_above_0(a)))
        return true;
    if (e->kind != X_OP || !a)
        return false;
    bool other = b && ((a->kind == X_OP && (a->op == OP_SQRT || a->op == OP_EXP)) || (b->kind == X_OP && (b->op == OP_SQRT || b->op == OP_EXP)));
    return e->op == OP_CAST ? is_above_0(a)
           : e->op == OP_MAX ? is_above_0(a) || is_above_0(b)
                             : e->op == OP_ADD && other && (is_above_0(a) || is_above_0(b));
}

static void find_suspects(Task *t, const Expr *e, bool *seen)
{
    if (!e || seen[e->id])
        return;
    seen[e->id] = true;
    for (int i = 0; i < e->count; i++)
        find_suspects(t, e->in[i], seen);
    bool harmless = e->kind == X_OP && e->op == OP_DIV && is_above_0(e->in[e->count - 1]);
    if (e->kind == X_OP && e->node && dtype_is_float(e->dtype) && !harmless)
        add_suspect(t, e->node);
}

static void task_suspects(Task *t, const Kernel *k)
{
    for (int i = 0; i < k->nest_count; i++) {
        const Nest *n = &k->nests[i];
        bool *seen = NEW_ARRAY(bool, n->exprs->count);
        for (int r = 0; r < n->reduction_count; r++)
            find_suspects(t, n->reductions[r].value, seen);
        for (int s = 0; s < n->store_count; s++)
            find_suspects(t, n->stores[s].value, seen);
    }
}

/* the instance of what takes longest: of a contraction, if it makes one */
static const char *layer_of(const FusionGroup *g)
{
    const char *layer = "";
    for (int i = 0; i < g->count; i++) {
        const Node *n = g->members[i]->node;
        if (!n || !n->path || !*n->path)
            continue;
        if (fuse_contracts(n))
            return n->path;
        layer = *layer ? layer : n->path;
    }
    return layer;
}

Task *fuse_task(const Fusion *f, const FusionGroup *g)
{
    Task *t = NEW(Task);
    const Kernel *k = g->kernel;
    t->at = g->members[0]->at;
    t->layer = layer_of(g);
    t->update = g->update;
    t->elements = g->members[0]->elements;
    for (int i = 0; i < g->count; i++)
        t->backward = t->backward || g->members[i]->backward;
    t->backward = t->backward && !t->update;
    for (int i = 0; k && i < k->read_count; i++)
        APPEND(t->reads, t->read_count, (Tensor *)(uintptr_t)k->reads[i]);
    for (int i = 0; k && i < k->write_count; i++)
        APPEND(t->writes, t->write_count, (Tensor *)(uintptr_t)k->writes[i]);
    if (k) {
        kernel_cost(f, t, g->kernel);
        task_suspects(t, k);
    }
    const Node *first = g->members[0]->node;
    Suspect only = {"", first && first->path ? first->path : "", model_line(t->at)}; /* of all else that is only too large */
    if (!t->suspect_count && only.line > 0 && *only.layer)
        APPEND(t->suspects, t->suspect_count, only);
    return t;
}

/* the cuts that a graph gives of what the task moves, or computes a part of */
static void task_parts(Task *t, const FusionGroup *g)
{
    const Node *n = g->members[0]->node;
    if (t->kind == TASK_TRANSFER) {
        t->parties = transfer_parties(n);
        t->part_count = t->parties.parts ? n->int_count : 0;
    }
    for (int i = 0; i < g->count && t->elements && !t->part_count; i++) {
        n = node_sums_split(g->members[i]->node) ? g->members[i]->node->in[0] : g->members[i]->node;
        t->parties.parts = node_is_split(n) ? node_parts(n, &t->part_count) : NULL;
    }
    t->parties.parts = copy_of(t->parties.parts, sizeof *t->parties.parts * (size_t)t->part_count);
}

static void make_task(Fusion *f, FusionGroup *g)
{
    Memory *outer = fuse_keep(f);
    Task *t = fuse_task(f, g);
    const Root *first = g->members[0];
    t->kind = first->kind == ROOT_REDUCE ? TASK_TRANSFER : TASK_KERNEL;
    task_parts(t, g);
    if (first->kind == ROOT_REDUCE) {
        t->backward = first->node->backward;
        APPEND(t->reads, t->read_count, f->info[first->node->id].tensor);
        APPEND(t->writes, t->write_count, f->info[first->node->id].tensor);
    } else {
        t->kernel = share(f, g);
    }
    APPEND(f->phase->tasks, f->phase->task_count, t);
    memory_use(outer);
}

static void mark_used(bool *used, Tensor *const *list, int count)
{
    for (int i = 0; i < count; i++)
        used[list[i]->id] = true;
}

static void number_tensors(Fusion *f)
{
    Phase *p = f->phase;
    bool *used = NEW_ARRAY(bool, f->tensor_count);
    for (int i = 0; i < p->task_count; i++) {
        mark_used(used, p->tasks[i]->reads, p->tasks[i]->read_count);
        mark_used(used, p->tasks[i]->writes, p->tasks[i]->write_count);
    }
    for (int i = 0; i < f->tensor_count; i++) {
        Tensor *t = f->tensors[i];
        if (!used[i])
            continue;
        t->id = p->tensor_count;
        APPEND(p->tensors, p->tensor_count, t);
    }
}

/* ---- a + scatter_add(0, i, v) = scatter_add(a, i, v): a table of zeros need not be made, nor added */

static Node *scattered(const Node *n, const int *uses, int which)
{
    Node *b = n->in[which];
    const Node *a = n->in[1 - which];
    double zero;
    bool fits = b->op == OP_SCATTER_ADD && uses[b->id] == 1 && node_is_constant(b->in[0], &zero) && zero == 0;
    return fits && a->sharded == b->sharded && a->op != OP_CONSTANT ? b : NULL;
}

static Graph *scatter_into_sums(Graph *g)
{
    Memory *own = memory_new(), *outer = memory_use(own);
    int *uses = NEW_ARRAY(int, g->node_count), found = 0;
    Node **table = NEW_ARRAY(Node *, g->node_count), **scatter = NEW_ARRAY(Node *, g->node_count);
    for (int i = 0; i < g->node_count; i++)
        for (int k = 0; k < g->nodes[i]->inputs; k++)
            uses[g->nodes[i]->in[k]->id]++;
    for (int i = 0; i < g->result_count; i++)
        uses[g->results[i].value->id]++;
    for (int i = 0; i < g->node_count; i++) {
        const Node *n = g->nodes[i];
        for (int which = 0; which < 2 && n->op == OP_ADD && !scatter[i]; which++) {
            scatter[i] = scattered(n, uses, which);
            table[i] = n->in[1 - which];
        }
        found += scatter[i] != NULL;
    }
    memory_use(outer);
    Graph *target = found ? graph_new(g->model, g->name, g->parent) : g;
    for (int i = 0; found && i < g->node_count; i++) {
        Node *n = g->nodes[i], *s = scatter[i];
        if (!s) {
            graph_copy_node(target, n);
            continue;
        }
        stand_at(target, n);
        become(n, graph_scatter_add(target, table[i]->mapped, s->in[1]->mapped, s->in[2]->mapped, (int)s->ints[0],
                                    node_sums_samples(s)));
    }
    if (found)
        graph_copy_results(target, g);
    memory_free(own);
    return target;
}

enum { ROUNDS = 5 };

void fuse_stages(Fusion *f)
{
    f->graph = fuse_straighten(f);
    graph_mark_split(f->graph);
    const Fusion given = *f;
    bool *computed = NEW_ARRAY(bool, given.graph->node_count);
    Memory *own = NULL, *outer = NULL; /* of the last round; a body's is part of its kernel's */
    for (int round = 0; round == 0 || (round < ROUNDS && !f->separate && fuse_rematerialize(f)); round++) {
        *f = given;
        if (own) {
            memory_use(outer);
            memory_free(own);
        }
        own = f->around ? NULL : memory_new();
        outer = memory_use(own ? own : memory_in_use());
        f->computed = computed;
        f->info = NEW_ARRAY(Info, f->graph->node_count);
        fuse_find_roots(f);
        for (int i = 0; i < f->root_count; i++)
            fuse_evaluate_alone(f, f->roots[i]);
        fuse_merge(f);
    }
    fuse_order(f);
    fuse_pack(f);
    memory_use(outer);
    if (own)
        memory_free(own);
}

Phase *fuse(Program *program, Graph *graph, PhaseKind kind, bool partial_batch)
{
    Phase *phase = NEW(Phase);
    graph = scatter_into_sums(graph);
    *phase = (Phase){.kind = kind, .partial_batch = partial_batch, .graph = graph};
    Fusion f = {.program = program, .phase = phase, .graph = graph, .separate = program->options && program->options->no_fuse,
                .kept = memory_in_use(), .done = make_task};
    add_leaves(&f);
    fuse_stages(&f);
    phase->graph = f.graph;
    number_tensors(&f);
    if (program->target->may_epilogue && !f.separate)
        fuse_epilogues(phase, program->target, program->options->arch);
    return phase;
}
