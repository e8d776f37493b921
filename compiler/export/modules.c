/* modules.c: assigns the operations of the exported network to modules.
 *
 * The names of weights make a tree of modules, and an operation belongs to the module at its layer's path. A module can be called
 * if none of its operations depends on an outside operation that depends on the module. Otherwise it has no forward: the module
 * around it computes its operations. */
#include "compiler/export/torch.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

typedef struct ValueUse {
    int producer;      /* index of the operation; -1: none */
    int readers;       /* number of operations that read it, plus 1 for an output of the graph */
    int inside, asked; /* the last listing that readers_inside counts for; the last one that tested this input */
    int readers_inside;
    int item; /* the item of item_of that computes it */
    const Module *item_of;
} ValueUse;

typedef struct OpUse {
    Module *home;
    const ExportedTensor **reads;
    int read_count;
} OpUse;

typedef struct Tree {
    const Exported *graph;
    Module *root;
    OpUse *ops;
    Map values;
    int listings; /* calls of read_and_made: a module whose operations changed is listed again */
} Tree;

/* ---- the tree */
static Module *child_named(Module *m, const char *name, size_t length, bool add)
{
    for (int i = 0; i < m->child_count; i++)
        if (strncmp(m->children[i]->name, name, length) == 0 && !m->children[i]->name[length])
            return m->children[i];
    if (!add)
        return NULL;
    Module *child = NEW(Module);
    *child = (Module){.name = copy_text(name, length), .parent = m};
    child->as_item.module = child;
    APPEND(m->children, m->child_count, child);
    return child;
}

/* Returns the deepest existing module on the path; for a weight, which is the last component, its module or NULL. */
static Module *follow(Module *m, const char *path, bool weight, bool add)
{
    while (*path) {
        const char *dot = strchr(path, '.');
        if (!dot && weight)
            return m;
        size_t length = dot ? (size_t)(dot - path) : strlen(path);
        Module *next = child_named(m, path, length, add);
        if (!next)
            return weight ? NULL : m;
        m = next;
        path += length + (dot != NULL);
    }
    return m;
}

Module *module_of_variable(const Module *root, const char *name) { return follow((Module *)(uintptr_t)root, name, true, false); }

bool is_within(const Module *m, const Module *around)
{
    while (m && m != around)
        m = m->parent;
    return m != NULL;
}

const Module *root_of(const Module *m)
{
    while (m->parent)
        m = m->parent;
    return m;
}

const char *module_path(const Module *m)
{
    return !m->parent ? "" : m->parent->parent ? format("%s.%s", module_path(m->parent), m->name) : m->name;
}

static int by_number(const void *a, const void *b)
{
    return atoi((*(Module *const *)a)->name) - atoi((*(Module *const *)b)->name);
}

/* Returns true if the module has children named 0, 1, 2, ... and no variables. Sorts children with numbers by these. */
static bool is_numbered(Module *m)
{
    for (int i = 0; i < m->child_count; i++)
        if (!isdigit((unsigned char)*m->children[i]->name))
            return false;
    qsort(m->children, (size_t)m->child_count, sizeof(Module *), by_number);
    for (int i = 0; i < m->child_count; i++)
        if (strcmp(m->children[i]->name, format("%d", i)) != 0)
            return false;
    return m->child_count && !m->variable_count;
}

/* ---- values */
static ValueUse *use_of(Tree *t, const ExportedTensor *v)
{
    ValueUse *use = map_get(&t->values, v->name);
    if (!use) {
        use = NEW(ValueUse);
        *use = (ValueUse){.producer = -1};
        map_set(&t->values, v->name, use);
    }
    return use;
}

static void add_reads(OpUse *use, const ExportedOp *op, Map *known)
{
    for (int i = 0; i < op->inputs; i++) {
        const ExportedTensor *v = op->more ? op->more[i] : op->in[i];
        if (!v || v->data || map_get(known, v->name))
            continue;
        map_set(known, v->name, known);
        APPEND(use->reads, use->read_count, v);
    }
    for (int a = 0; a < op->attribute_count; a++) {
        const Exported *body = op->attributes[a].graph;
        for (int i = 0; body && i < body->input_count; i++)
            map_set(known, body->inputs[i]->name, known);
        for (int i = 0; body && i < body->op_count; i++) {
            add_reads(use, body->ops[i], known);
            for (int k = 0; k < body->ops[i]->outputs; k++)
                map_set(known, body->ops[i]->out[k]->name, known);
        }
    }
}

static void find_leaves(const Module *root, const Exported *g)
{
    for (int i = 0; i < g->op_count; i++) {
        const ExportedOp *op = g->ops[i];
        Module *m = find_leaf(g, root, op);
        for (int a = 0; a < op->attribute_count; a++)
            if (op->attributes[a].graph)
                find_leaves(root, op->attributes[a].graph);
        if (!m || m->form == MODULE_LEAF)
            continue;
        m->form = MODULE_LEAF;
        m->leaf = op;
    }
}

static Tree tree_of(const Exported *g)
{
    static Map none;
    Tree t = {.graph = g, .root = NEW(Module), .ops = NEW_ARRAY(OpUse, g->op_count), .values = none};
    for (int i = 0; i < g->model->variable_count; i++) {
        const Variable *v = &g->model->variables[i];
        if (v->kind != WEIGHT && v->kind != STATE)
            continue;
        Module *m = follow(t.root, v->name, true, true);
        APPEND(m->variables, m->variable_count, i);
    }
    find_leaves(t.root, g);
    for (int i = 0; i < g->op_count; i++) {
        OpUse *use = &t.ops[i];
        Map known = none;
        use->home = follow(t.root, g->ops[i]->path, false, false);
        if (use->home->form == MODULE_LEAF)
            use->home = use->home->parent;
        add_reads(use, g->ops[i], &known);
        for (int k = 0; k < use->read_count; k++)
            use_of(&t, use->reads[k])->readers++;
        for (int k = 0; k < g->ops[i]->outputs; k++)
            use_of(&t, g->ops[i]->out[k])->producer = i;
    }
    for (int i = 0; i < g->output_count; i++)
        use_of(&t, g->outputs[i])->readers++;
    return t;
}

/* ---- inputs and results of a module */
static bool comes_from(Tree *t, const ExportedTensor *v, const Module *m)
{
    if (v->variable >= 0)
        return is_within(module_of_variable(t->root, t->graph->model->variables[v->variable].name), m);
    int producer = use_of(t, v)->producer;
    return producer >= 0 && is_within(t->ops[producer].home, m);
}

/* Lists what the operations of module m, which `ops` are, read from outside and compute for the outside. */
static void read_and_made(Tree *t, Item *item, const Module *m, const int *ops, int count)
{
    int listing = ++t->listings;
    item->in_count = item->out_count = 0;
    for (int i = 0; i < count; i++)
        for (int k = 0; k < t->ops[ops[i]].read_count; k++) {
            const ExportedTensor *v = t->ops[ops[i]].reads[k];
            ValueUse *use = use_of(t, v);
            if (use->inside != listing)
                use->readers_inside = 0;
            use->inside = listing;
            use->readers_inside++;
            if (!comes_from(t, v, m) && use->asked != listing)
                APPEND(item->in, item->in_count, v);
            use->asked = listing;
        }
    for (int i = 0; i < count; i++)
        for (int k = 0; k < t->graph->ops[ops[i]]->outputs; k++) {
            const ExportedTensor *v = t->graph->ops[ops[i]]->out[k];
            ValueUse *use = use_of(t, v);
            if (use->readers > (use->inside == listing ? use->readers_inside : 0))
                APPEND(item->out, item->out_count, v);
        }
}

static int *ops_of(const Tree *t, const Module *m, int *count)
{
    int *ops = NULL;
    *count = 0;
    for (int i = 0; i < t->graph->op_count; i++)
        if (is_within(t->ops[i].home, m))
            APPEND(ops, *count, i);
    return ops;
}

/* ---- topological order of a module's items */
static bool is_called(const Module *m) { return m->form == MODULE_CLASS || m->form == MODULE_SEQUENTIAL; }

/* Returns the outermost called module in `around` that contains m; NULL if `around` computes m's operations itself. */
static const Module *called_in(const Module *around, const Module *m)
{
    const Module *called = NULL;
    for (; m != around; m = m->parent)
        called = is_called(m) ? m : called;
    return called;
}

typedef struct Order {
    Tree *tree;
    const Module *module;
    Item *items;
    int *state;          /* 0: not visited, 1: on the stack, 2: in order */
    int *way, way_count; /* the stack */
    Item *ordered;
    int ordered_count;
} Order;

/* Depth-first search. Returns false on a cycle and sets *in_the_way to a called module on it. */
static bool put_in_order(Order *o, int i, const Module **in_the_way)
{
    o->state[i] = 1;
    o->way[o->way_count++] = i;
    for (int k = 0; k < o->items[i].in_count; k++) {
        ValueUse *use = use_of(o->tree, o->items[i].in[k]);
        if (use->item_of != o->module || use->item == i || o->state[use->item] == 2)
            continue;
        if (o->state[use->item] == 0) {
            if (!put_in_order(o, use->item, in_the_way))
                return false;
            continue;
        }
        int from = o->way_count - 1;
        while (o->way[from] != use->item)
            from--;
        for (; from < o->way_count && !*in_the_way; from++)
            *in_the_way = o->items[o->way[from]].module;
        return false;
    }
    o->way_count--;
    o->state[i] = 2;
    APPEND(o->ordered, o->ordered_count, o->items[i]);
    return true;
}

/* Sets the module's items, in topological order. Returns NULL, or a module whose call would make a cycle. */
static const Module *order_items(Tree *t, Module *m, const int *ops, int count)
{
    Item *items = NULL;
    int item_count = 0;
    Map seen = {0};
    for (int i = 0; i < count; i++) {
        const Module *called = called_in(m, t->ops[ops[i]].home);
        const char *key = called ? format("%p", (void *)called) : "";
        if (called && map_get(&seen, key))
            continue;
        Item item = called ? called->as_item : (Item){.op = t->graph->ops[ops[i]]};
        if (called) {
            map_set(&seen, key, &seen);
        } else {
            for (int k = 0; k < t->ops[ops[i]].read_count; k++)
                if (t->ops[ops[i]].reads[k]->variable < 0 || !comes_from(t, t->ops[ops[i]].reads[k], m))
                    APPEND(item.in, item.in_count, t->ops[ops[i]].reads[k]);
            for (int k = 0; k < item.op->outputs; k++)
                APPEND(item.out, item.out_count, item.op->out[k]);
        }
        for (int k = 0; k < item.out_count; k++) {
            ValueUse *use = use_of(t, item.out[k]);
            use->item = item_count;
            use->item_of = m;
        }
        APPEND(items, item_count, item);
    }
    Order o = {t, m, items, NEW_ARRAY(int, item_count), NEW_ARRAY(int, item_count + 1), 0, NULL, 0};
    const Module *in_the_way = NULL;
    for (int i = 0; i < item_count; i++)
        if (o.state[i] == 0 && !put_in_order(&o, i, &in_the_way))
            return in_the_way;
    m->items = o.ordered;
    m->item_count = o.ordered_count;
    return NULL;
}

/* Returns true if the items are the children in order, each with the output of the one before as its input. */
static bool is_chain(const Module *m)
{
    if (m->item_count != m->child_count || m->as_item.in_count != 1 || m->as_item.out_count != 1)
        return false;
    for (int i = 0; i < m->item_count; i++) {
        const Item *item = &m->items[i];
        const Module *child = m->children[i];
        if (item->in_count != 1 || item->out_count != 1 || (i && item->in[0] != m->items[i - 1].out[0]) ||
            (item->op ? child->form != MODULE_LEAF || child->leaf != item->op : item->module != child))
            return false;
    }
    return true;
}

static void arrange(Tree *, Module *);

/* Moves operations of m that depend on m through outside operations to the module around it: a ReLU that a pass moved after a
 * pooling. Returns false if there are none, or if they read weights of m or belong to a child. */
static bool move_out(Tree *t, Module *m)
{
    int count = t->graph->op_count;
    bool *after = NEW_ARRAY(bool, count), moved = false; /* after: outside of m: depends on m; in m: depends on these */
    for (int i = 0; i < count; i++) {
        OpUse *use = &t->ops[i];
        bool inside = is_within(use->home, m), weights = false;
        for (int k = 0; k < use->read_count; k++) {
            int from = use_of(t, use->reads[k])->producer;
            after[i] = after[i] || (from >= 0 && (after[from] || (!inside && is_within(t->ops[from].home, m))));
            weights = weights || (use->reads[k]->variable >= 0 && comes_from(t, use->reads[k], m));
        }
        if (inside && after[i] && (use->home != m || weights))
            return false;
        moved = moved || (inside && after[i]);
    }
    for (int i = 0; i < count && moved; i++)
        if (after[i] && t->ops[i].home == m)
            t->ops[i].home = m->parent;
    if (moved)
        arrange(t, m);
    return moved;
}

static void arrange(Tree *t, Module *m)
{
    int count;
    for (int i = 0; i < m->child_count; i++)
        if (m->children[i]->form != MODULE_LEAF)
            arrange(t, m->children[i]);
    int *ops = ops_of(t, m, &count);
    bool numbered = m->parent && is_numbered(m);
    if (count == 0 && m->parent) {
        m->form = numbered ? MODULE_LIST : MODULE_HOLDER;
        return;
    }
    for (const Module *found; (found = order_items(t, m, ops, count)) != NULL;) {
        Module *in_the_way = follow(t->root, module_path(found), false, false);
        if (!move_out(t, in_the_way))
            in_the_way->form = in_the_way->form == MODULE_SEQUENTIAL ? MODULE_LIST : MODULE_HOLDER;
    }
    read_and_made(t, &m->as_item, m, ops, count);
    if (numbered)
        m->form = is_chain(m) ? MODULE_SEQUENTIAL : MODULE_LIST;
}

Module *modules_of(const Exported *g)
{
    Tree t = tree_of(g);
    arrange(&t, t.root);
    return t.root;
}
