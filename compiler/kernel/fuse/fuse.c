/* fuse.c: Graph -> Phase: tensors, kernels and tasks.
 *
 * In: a graph of one phase, distributed and specialised. Out: its tasks in a legal order of execution, the tensors that pass
 * between them, and kernels. A kernel with the same identity as an earlier one of the program is shared (kernel/identity.h).
 * fuse.h lists the stages. */
#include "compiler/kernel/fuse/fuse.h"
#include "compiler/kernel/identity.h"
#include "compiler/kernel/phase.h"
#include "compiler/code/code.h"
#include "compiler/ir/rebuild.h"
#include "runtime/abi/mgpu.h"

#include <stdlib.h>
#include <string.h>

/* ---- kernels */

static const Code *lowered(const Kernel *k, const Target *target, bool finish)
{
    Memory *own = memory_new(), *outer = memory_use(own);
    const Code *code = target->lower(k, finish);
    memory_use(outer);
    code = code_copy(code);
    memory_free(own);
    return code;
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

/* Returns the kernel without its nests, once its code exists. In a model of hundreds of blocks whose kernels differ in a
 * constant, the nests would be most of mgpuc's memory. GPU targets keep them: launches depend on them. */
static Kernel *without_loops(const Kernel *k)
{
    Kernel *rest = NEW(Kernel);
    *rest = *k;
    rest->nests = NULL;
    rest->title = copy_text(k->title, strlen(k->title));
    rest->extent_text = copy_text(k->extent_text, strlen(k->extent_text));
    rest->reads = copy_of(k->reads, sizeof *k->reads * (size_t)k->read_count);
    rest->writes = copy_of(k->writes, sizeof *k->writes * (size_t)k->write_count);
    rest->paths = copy_of(k->paths, sizeof *k->paths * (size_t)k->path_count);
    return rest;
}

/* Returns the first kernel that was added with this key: k itself, if there is none. */
static Kernel *first_of(Program *p, const char *key, Kernel *k)
{
    Kernel *first = map_get(&p->kernels_known, key);
    if (!first)
        map_set(&p->kernels_known, copy_text(key, strlen(key)), k);
    return first ? first : k;
}

/* form: its identity, which ignores the paths of random numbers */
static Kernel *add_kernel(Program *p, Kernel *k, const char *form)
{
    const Target *target = p->target;
    Kernel *own = !target->launches && k->nest_count && target->lower ? without_loops(k) : k;
    own->number = k->number = p->kernel_count;
    own->name = k->name = format("k%d", k->number);
    if (k->kind == KERNEL_SCAN)
        target->lower_scan(k);
    if (k->nest_count && target->lower)
        own->code = lowered(k, target, false);
    if (target->finishes(k))
        own->finish_code = lowered(k, target, true);
    const char *launched = target->shared_name ? target->shared_name(k) : NULL;
    if (k->path_count && target->bodies) {
        own->body = first_of(p, form, own);
        own->body->body_users++;
    } else if (k->path_count || launched) {
        const Kernel *first = first_of(p, k->path_count ? form : launched, own);
        own->canonical = first != own ? first : NULL;
    }
    APPEND(p->kernels, p->kernel_count, own);
    return own;
}

/* Returns "k" with six hex digits of the kernel's digest. Further kernels with the same digits (they differ only in paths of
 * random numbers, or collide) end in _2, _3, ... */
static const char *label_of(Program *p, const Kernel *k)
{
    const char *label = format("k%06x", (unsigned)(k->digest >> 40)), *first = label;
    for (int n = 2; map_get(&p->labels, label); n++)
        label = format("%s_%d", first, n);
    map_set(&p->labels, label, (void *)(uintptr_t)k);
    return label;
}

/* Returns the program's kernel with the same identity and paths: an earlier one, or the group's own. So a deep model with
 * hundreds of equal blocks has the kernels of one. */
static Kernel *share(const Fusion *f, FusionGroup *g)
{
    Program *p = f->program;
    Kernel *k = g->kernel;
    Memory *outer = memory_use(g->memory);
    find_paths(k);
    const char *form = kernel_shared_name(k), *key = form;
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

/* Sets the ranges per device that the graph gives for what the task moves, or computes a range of. */
static void task_parts(Task *t, const FusionGroup *g)
{
    const Node *n = g->members[0]->node;
    if (t->kind == TASK_TRANSFER) {
        t->participants = transfer_participants(n);
        t->part_count = t->participants.parts ? n->int_count : 0;
    }
    for (int i = 0; i < g->count && t->elements && !t->part_count; i++) {
        n = node_sums_split(g->members[i]->node) ? g->members[i]->node->in[0] : g->members[i]->node;
        t->participants.parts = node_is_split(n) ? node_parts(n, &t->part_count) : NULL;
    }
    t->participants.parts = copy_of(t->participants.parts, sizeof *t->participants.parts * (size_t)t->part_count);
}

static void make_task(Fusion *f, FusionGroup *g)
{
    Memory *outer = fuse_use_program_memory(f);
    Task *t = fuse_task(f, g);
    const FusionRoot *first = g->members[0];
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

/* ---- a + scatter_add(0, i, v) = scatter_add(a, i, v), which saves a table of zeros and an addition. If a is Split, the addition
 * stays, because Split values are computed element by element. */

static Node *scattered(const Node *n, const int *uses, int which)
{
    Node *b = n->in[which];
    const Node *a = n->in[1 - which];
    double zero;
    bool fits = b->op == OP_SCATTER_ADD && uses[b->id] == 1 && node_is_constant(b->in[0], &zero) && zero == 0;
    return fits && a->has_samples == b->has_samples && !node_is_sharded(a, ELEMENTS_AXIS) && a->op != OP_CONSTANT ? b : NULL;
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
        set_position(target, n);
        map_node(n, graph_scatter_add(target, table[i]->mapped, s->in[1]->mapped, s->in[2]->mapped, (int)s->ints[0],
                                      node_sums_samples(s)));
    }
    if (found)
        graph_copy_results(target, g);
    graph_place_again(target, g);
    memory_free(own);
    return target;
}

enum { ROUNDS = 8 };

static void fuse_stages(Fusion *f)
{
    f->graph = fuse_copy_reordered(f);
    const Fusion given = *f;
    bool *computed = NEW_ARRAY(bool, given.graph->node_count);
    Memory *own = NULL, *outer = NULL; /* of the last round; the memory of a scan's body is part of its kernel's */
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
            fuse_evaluate_root(f, f->roots[i]);
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
    graph = fuse_fold_channels(program, scatter_into_sums(graph));
    *phase = (Phase){.kind = kind, .partial_batch = partial_batch, .graph = graph};
    Fusion f = {.program = program,
                .phase = phase,
                .graph = graph,
                .separate = program->options && program->options->no_fuse,
                .program_memory = memory_in_use(),
                .stages = fuse_stages,
                .done = make_task};
    fuse_add_leaves(&f);
    fuse_stages(&f);
    phase->graph = f.graph;
    fuse_number_tensors(&f);
    if (program->target->may_epilogue && !f.separate)
        fuse_epilogues(phase, program->target, program->options->arch);
    return phase;
}
