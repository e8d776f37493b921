/* loop.c: `scan`, the loop at run time. Its body is executed once here and becomes the body of a SCAN node.
 *
 * A name that exists before the scan and is assigned in the body is a carry; after the scan it has its last value. A name that is
 * new in the body becomes the stack of its values, as does an old name whose value the body neither reads nor could carry. The
 * names of the elements hold the last element afterwards, or what the body assigned to them. Lists are handled element by
 * element. Values that stay known at compile time are simply assigned. Losses, metrics and outputs in a body are those of the
 * stacks; an update takes the last step's value.
 *
 * The type of a carry that begins as a number, and whether a carry has samples, are known only after the body has run. They are
 * guessed, and after a wrong guess the body is executed again with what was found. */
#include "dsl/elaborate.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

typedef struct Carry { /* a tensor that may be carried */
    const char *name;
    const Value *before;
    Node *arg;
    Node *next;    /* NULL if it is not carried */
    bool number;   /* the initial value is a number, true or false */
    bool constant; /* the initial value is a constant tensor, such as zeros([n]), which takes the type that the body gives it */
} Carry;

typedef struct Guess {
    Dtype dtype;
    bool has_samples;
} Guess; /* properties of a carry */

typedef struct Pending { /* a value that becomes a result of the node */
    Value *value;        /* where to store it: VALUE_TENSOR or VALUE_WEIGHTED */
    bool weight;         /* the value is the weight of `value` */
    int carry, stack;    /* index of the carry or of the stack; the other is -1 */
    bool last;           /* only the last element of the stack */
} Pending;

struct ScanBody {
    Elaborator *e;
    ScanBody *outer;
    const Place *at;
    Graph *inner;
    int64_t steps;
    Carry *carries;
    int carry_count;
    const Guess *guesses;
    int guess_count;
    Node **stacks;
    int stack_count;
    Pending *pending;
    int pending_count;
    Staging staging;
};

/* ---- names that a body assigns to, including those in nested scans, which share its scope */

static void assigned_names(const Tree *block, Map *names)
{
    for (const Tree *t = block->first; t; t = t->next) {
        if (t->kind == TREE_ASSIGN || t->kind == TREE_FOR || t->kind == TREE_SCAN)
            for (const Tree *n = t->first->first; n; n = n->next)
                map_set(names, n->text, (void *)(uintptr_t)n);
        if (t->kind == TREE_FOR || t->kind == TREE_SCAN)
            assigned_names(t->last, names);
        for (const Tree *c = t->kind == TREE_IF ? t->first->next : NULL; c; c = c->next) {
            if (c->kind == TREE_BLOCK)
                assigned_names(c, names);
            else
                assigned_names(&(Tree){.kind = TREE_BLOCK, .first = (Tree *)(uintptr_t)c}, names);
        }
    }
}

/* ---- entering the body */

/* True for a constant tensor, and for a carry of the enclosing scan that began as one. */
static bool takes_type(const ScanBody *s, const Node *initial)
{
    if (initial->op == OP_CONSTANT)
        return initial->dtype != BOOL;
    for (int k = 0; s->outer && k < s->outer->carry_count; k++)
        if (s->outer->carries[k].arg == initial)
            return initial->dtype != BOOL && (s->outer->carries[k].number || s->outer->carries[k].constant);
    return false;
}

static Node *carried_arg(ScanBody *s, const char *name, const Value *v)
{
    Graph *parent = s->inner->parent;
    bool number = (v->kind == VALUE_NUMBER && !v->cast) || v->kind == VALUE_BOOL;
    int k = s->carry_count;
    Dtype dtype = k < s->guess_count ? s->guesses[k].dtype : v->kind == VALUE_BOOL ? BOOL : F32;
    Node *initial = v->kind == VALUE_NUMBER ? graph_number(parent, exact_number(s->at, v), v->dtype) : v->node;
    if (number && !dtype_is_float(dtype) && cast_number(F64, dtype, exact_number(s->at, v)) != exact_number(s->at, v))
        error_at(s->at,
                 "'%s' is carried from step to step as %s, the type of what the first step assigns, which does not hold "
                 "the number %s that it begins as; f32(...) of what is assigned keeps fractions",
                 name, dtype_name(dtype), value_print(v));
    bool constant = !number && takes_type(s, initial);
    if (number)
        initial = graph_number(parent, exact_number(s->at, v), dtype);
    else if (constant && k < s->guess_count)
        initial = graph_cast(parent, initial, dtype);
    else if (initial->weak)
        initial = graph_strong(parent, initial, F32);
    bool has_samples = k < s->guess_count && s->guesses[k].has_samples;
    for (int i = 0; k >= s->guess_count && i < s->inner->captured_count; i++)
        has_samples = has_samples || s->inner->captured[i]->has_samples;
    Carry c = {.name = name,
               .before = v,
               .arg = graph_scan_carry(s->inner, initial, has_samples),
               .number = number,
               .constant = constant};
    c.arg->name = name;
    APPEND(s->carries, s->carry_count, c);
    return c.arg;
}

/* Returns what v is in the body, or v itself if it has nothing to carry. */
static Value *enter(ScanBody *s, const char *name, Value *v)
{
    if (v->kind == VALUE_TENSOR || v->kind == VALUE_NUMBER || v->kind == VALUE_BOOL)
        return value_tensor(carried_arg(s, name, v));
    if (v->kind != VALUE_LIST || !has_tensor(v))
        return v;
    Value **items = NEW_ARRAY(Value *, v->count);
    for (int k = 0; k < v->count; k++)
        items[k] = enter(s, name, v->items[k]);
    return value_list(items, v->count);
}

/* ---- leaving the body */

static bool holds(const Value *v, const Node *n)
{
    if (v->kind == VALUE_TENSOR || v->kind == VALUE_WEIGHTED)
        return v->node == n || v->weight == n;
    for (int k = 0; (v->kind == VALUE_LIST || v->kind == VALUE_RESULTS) && k < v->count; k++)
        if (holds(v->items[k], n))
            return true;
    return false;
}

static bool is_used(const ScanBody *s, const Node *arg)
{
    for (int i = 0; i < s->inner->node_count; i++)
        for (int k = 0; k < s->inner->nodes[i]->inputs; k++)
            if (s->inner->nodes[i]->in[k] == arg)
                return true;
    const Map *locals = &s->e->frame->locals;
    for (int i = 0; i < locals->count; i++)
        if (holds(locals->values[i], arg))
            return true;
    for (int i = 0; i < s->staging.count; i++)
        if (holds(s->staging.list[i].value, arg))
            return true;
    return false;
}

static Carry *carry_of(const ScanBody *s, const Node *arg)
{
    for (int k = 0; k < s->carry_count; k++)
        if (s->carries[k].arg == arg)
            return &s->carries[k];
    die("an argument that is no carry");
}

static Value *pend(ScanBody *s, Value *v, bool weight, int carry, int stack, bool last)
{
    Pending p = {v, weight, carry, stack, last};
    APPEND(s->pending, s->pending_count, p);
    return v;
}

static _Noreturn void cannot_carry(const ScanBody *s, const char *name, const Value *before, const Value *now)
{
    error_at(s->at,
             "'%s' is %s before the scan and %s after a step; what is carried from step to step keeps its kind: begin "
             "with a tensor, zeros([...])",
             name, value_describe(before), value_describe(now));
}

static Value *leave_new(ScanBody *s, Value *v, bool last);

/* True if the body does not read the old value and the new one does not fit it: the name is reused, such as that of a stack in a
 * loop around the scan. */
static bool begins_anew(const ScanBody *s, const Carry *c, const Value *now)
{
    bool fits = now->kind == VALUE_TENSOR && shape_equal(&now->node->shape, &c->arg->shape);
    return !fits && has_tensor(now) && !is_used(s, c->arg);
}

static Value *leave_carry(ScanBody *s, Value *within, Value *now)
{
    Carry *c = carry_of(s, within->node);
    if (now == within) { /* the body has not assigned it */
        Value *v = value_new();
        *v = *c->before;
        return v;
    }
    if (begins_anew(s, c, now))
        return leave_new(s, now, false);
    bool compiled = now->kind == VALUE_NUMBER || now->kind == VALUE_BOOL;
    if (c->number && compiled && !is_used(s, c->arg))
        return now; /* an ordinary assignment */
    if (now->kind != VALUE_TENSOR && !compiled && now->kind != VALUE_LIST)
        cannot_carry(s, c->name, c->before, now);
    Node *n = node_of(s->e, s->at, now, format("'%s'", c->name));
    const Shape *was = &c->arg->shape;
    if (!shape_equal(was, &n->shape))
        error_at(s->at, "'%s' is carried from step to step and must keep its shape: %s before, %s after the first step%s",
                 c->name, shape_text(was), shape_text(&n->shape),
                 c->number ? format("; begin with zeros(%s)", shape_text(&n->shape)) : "");
    if (n->weak)
        n = graph_strong(graph_at(s->e, s->at), n, graph_literal_type(c->arg->dtype, n));
    bool wider = c->constant && dtype_promote(c->arg->dtype, n->dtype) == n->dtype;
    if (n->dtype != c->arg->dtype && !c->number && !wider)
        error_at(s->at,
                 "'%s' is carried from step to step and must keep its type: %s before, %s after the first step; "
                 "%s(...) casts it",
                 c->name, dtype_name(c->arg->dtype), dtype_name(n->dtype), dtype_name(c->arg->dtype));
    c->next = n;
    return pend(s, value_tensor(NULL), false, (int)(c - s->carries), -1, false);
}

/* Returns the value after the scan of a name that existed before. */
static Value *leave(ScanBody *s, const char *name, Value *before, Value *within, Value *now)
{
    if (within->kind == VALUE_TENSOR && within != before)
        return leave_carry(s, within, now);
    if (within->kind == VALUE_LIST && within != before) {
        if (now->kind != VALUE_LIST || now->count != within->count)
            cannot_carry(s, name, before, now);
        Value **items = NEW_ARRAY(Value *, now->count);
        for (int k = 0; k < now->count; k++)
            items[k] = leave(s, name, before->items[k], within->items[k], now->items[k]);
        return value_list(items, now->count);
    }
    if (has_tensor(now))
        cannot_carry(s, name, before, now);
    return now;
}

static int add_stack(ScanBody *s, Node *n)
{
    if (n->shape.rank == MAX_RANK)
        error_at(s->at, "a tensor has at most %d axes; the stack of all steps would have one more", MAX_RANK);
    if (n->weak)
        n = graph_strong(graph_at(s->e, s->at), n, F32);
    APPEND(s->stacks, s->stack_count, n);
    return s->stack_count - 1;
}

/* Returns the stack of v, or its last element. */
static Value *leave_new(ScanBody *s, Value *v, bool last)
{
    if (v->kind == VALUE_TENSOR)
        return pend(s, value_tensor(NULL), false, -1, add_stack(s, v->node), last);
    if (v->kind == VALUE_WEIGHTED) {
        Value *w = value_new();
        w->kind = VALUE_WEIGHTED;
        pend(s, w, false, -1, add_stack(s, v->node), last);
        return pend(s, w, true, -1, add_stack(s, v->weight), last);
    }
    if (v->kind != VALUE_LIST || !has_tensor(v))
        return v;
    Value **items = NEW_ARRAY(Value *, v->count);
    for (int k = 0; k < v->count; k++)
        items[k] = leave_new(s, v->items[k], last);
    return value_list(items, v->count);
}

/* ---- guesses */

/* Finds the values of a body that must have samples. In: of[id] of each ARG. Out: of[id] of each node. */
static void spread(const Graph *body, bool *of);

/* Does the same for the body of a loop in the body. */
static bool *spread_loop(const Loop *l, const bool *of)
{
    bool *inner = NEW_ARRAY(bool, l->body->node_count);
    for (int i = 0; i < l->inputs; i++)
        if (l->arg[i])
            inner[l->arg[i]->id] = of[l->in[i]->id];
    for (bool changed = true; changed;) {
        changed = false;
        spread(l->body, inner);
        for (int i = 0; i < l->carries; i++)
            if (l->arg[i] && inner[l->next[i]->id] && !inner[l->arg[i]->id])
                changed = inner[l->arg[i]->id] = true;
    }
    return inner;
}

static void spread(const Graph *body, bool *of)
{
    for (int i = 0; i < body->node_count; i++) {
        const Node *n = body->nodes[i];
        if (n->op == OP_ARG)
            continue;
        of[i] = OP_INFO[n->op].op_class == LEAF || n->op == OP_GROUP_SUM ? n->has_samples : false;
        if (n->op == OP_RESULT && n->in[0]->op == OP_SCAN) {
            Loop l = loop_of(n->in[0]);
            of[i] = spread_loop(&l, of)[l.next[n->ints[0]]->id];
            continue;
        }
        for (int k = 0; k < n->inputs && !node_sums_samples(n); k++)
            of[i] = of[i] || of[n->in[k]->id];
    }
}

/* Finds the carries that must have samples, until nothing changes. */
static void find_carries_with_samples(const ScanBody *s, bool *has_samples)
{
    const Graph *g = s->inner;
    bool *of = NEW_ARRAY(bool, g->node_count);
    for (int i = 0; i < g->node_count; i++)
        of[i] = g->nodes[i]->has_samples; /* ARGs that are no carries */
    for (bool changed = true; changed;) {
        changed = false;
        for (int k = 0; k < s->carry_count; k++)
            of[s->carries[k].arg->id] = has_samples[k];
        spread(g, of);
        for (int k = 0; k < s->carry_count; k++) {
            const Node *next = s->carries[k].next;
            if (next && !has_samples[k] && (next->graph == g ? of[next->id] : next->has_samples))
                changed = has_samples[k] = true;
        }
    }
}

/* Stores what the carries turned out to be. Returns true if the guesses were right. */
static bool infer_again(const ScanBody *s, Guess **guesses, int *count)
{
    bool *has_samples = NEW_ARRAY(bool, s->carry_count), right = true;
    Guess *seen = NEW_ARRAY(Guess, s->carry_count);
    for (int k = 0; k < s->carry_count; k++)
        has_samples[k] = s->inner->captured[s->carries[k].arg->ints[0]]->has_samples;
    find_carries_with_samples(s, has_samples);
    for (int k = 0; k < s->carry_count; k++) {
        const Carry *c = &s->carries[k];
        seen[k] = (Guess){c->arg->dtype, c->next ? has_samples[k] : c->arg->has_samples};
        if ((c->number || c->constant) && c->next)
            seen[k].dtype = c->next->dtype;
        right = right && seen[k].dtype == c->arg->dtype && seen[k].has_samples == c->arg->has_samples;
    }
    *guesses = seen;
    *count = s->carry_count;
    return right;
}

/* ---- after the body */

static Node *last_element(const ScanBody *s, Node *stack) { return take(s->e, s->at, stack, 0, s->steps - 1)->node; }

static void close_body(ScanBody *s)
{
    Graph *parent = s->inner->parent;
    int *place = NEW_ARRAY(int, s->carry_count), count = 0;
    Node **next = NEW_ARRAY(Node *, s->carry_count);
    for (int k = 0; k < s->carry_count; k++) {
        const Carry *c = &s->carries[k];
        if (c->next) {
            place[k] = count;
            next[count++] = c->next;
        } else {
            s->inner->kinds[c->arg->ints[0]] = AS_IT_IS;
        }
    }
    if (!count && !s->stack_count)
        return;
    graph_at(s->e, s->at);
    Node *scan = graph_close_scan(s->inner, s->steps, false, next, s->stacks, s->stack_count);
    for (int k = 0; k < s->pending_count; k++) {
        const Pending *p = &s->pending[k];
        Node *n = graph_scan_result(parent, scan, p->carry >= 0 ? place[p->carry] : count + p->stack);
        n = p->last ? last_element(s, n) : n;
        *(p->weight ? &p->value->weight : &p->value->node) = n;
    }
}

static void settle(ScanBody *s)
{
    for (int k = 0; k < s->staging.count; k++) {
        const Staged *t = &s->staging.list[k];
        if (t->role == ROLE_UPDATE)
            add_update(s->e, t->variable, t->value->node, t->at);
        else
            add_result(s->e, t->role, t->name, t->value, t->at);
    }
}

Node *random_in_scan(ScanBody *s, Shape shape, const char *path)
{
    if (shape.rank == MAX_RANK)
        error_at(s->at, "a tensor has at most %d axes; the random numbers of all steps would have one more", MAX_RANK);
    Shape all = {.rank = shape.rank + 1, .extent = {s->steps}};
    for (int k = 0; k < shape.rank; k++)
        all.extent[k + 1] = shape.extent[k];
    Graph *parent = s->inner->parent;
    parent->at = s->inner->at;
    parent->path = s->inner->path;
    Node *stack = s->outer ? random_in_scan(s->outer, all, path) : graph_random(parent, all, path, true);
    return graph_scan_sequence(s->inner, stack);
}

/* ---- the statement */

static Map copy_map(const Map *m)
{
    Map copy = {0};
    for (int k = 0; k < m->count; k++)
        map_set(&copy, m->keys[k], m->values[k]);
    return copy;
}

typedef struct Sources {
    const Tree **names;
    Node **nodes;
    int count;
    int64_t steps;
} Sources;

static Sources find_sources(Elaborator *e, const Tree *t)
{
    const Tree *name = t->first->first, *source = t->first->next->first;
    Sources s = {.steps = -1};
    int count = 0;
    for (; name && source; name = name->next, source = source->next) {
        Node *x = node_of(e, place_of(e, source), eval(e, source), "what scan goes over");
        if (x->shape.rank == 0)
            error_tree(e, source, "scan goes along axis 0; this tensor has no axes");
        if (s.steps >= 0 && x->shape.extent[0] != s.steps)
            error_tree(e, source, "scan over axes of different lengths: %" PRId64 " and %" PRId64, s.steps, x->shape.extent[0]);
        s.steps = x->shape.extent[0];
        if (s.steps == 0)
            error_tree(e, source, "scan over an axis of no elements");
        APPEND(s.names, count, name);
        APPEND(s.nodes, s.count, x);
    }
    if (name || source)
        error_at(place_of(e, t), "scan needs as many names as tensors");
    return s;
}

static bool is_element(const Sources *s, const char *name)
{
    for (int k = 0; k < s->count; k++)
        if (strcmp(s->names[k]->text, name) == 0)
            return true;
    return false;
}

/* Runs the body once. Returns false after a wrong guess: then the state is as before, and the guesses are corrected. */
static bool run_body(ScanBody *s, const Sources *sources, const Tree *body, Guess **guesses, int *guess_count)
{
    Elaborator *e = s->e;
    Frame *f = e->frame;
    Map before = copy_map(&f->locals), within = {0}, names = {0}, declared = copy_map(&f->declared),
        updated = copy_map(&f->updated);
    Map random_paths = copy_map(&e->random_paths), result_names = copy_map(&e->result_names);
    Graph *outer = e->graph;
    graph_at(e, s->at);
    s->inner = graph_open_body(outer, "scan");
    e->graph = s->inner;
    e->scan = s;
    e->staging = &s->staging;
    Value **element = NEW_ARRAY(Value *, sources->count);
    for (int k = 0; k < sources->count; k++)
        element[k] = value_tensor(graph_scan_sequence(s->inner, sources->nodes[k]));
    assigned_names(body, &names);
    for (int k = 0; k < names.count; k++) {
        Value *v = map_get(&f->locals, names.keys[k]);
        if (v && !is_element(sources, names.keys[k])) {
            Value *arg = enter(s, names.keys[k], v);
            map_set(&within, names.keys[k], arg);
            map_set(&f->locals, names.keys[k], arg);
        }
    }
    for (int k = 0; k < sources->count; k++) {
        element[k]->node->name = sources->names[k]->text;
        map_set(&f->locals, sources->names[k]->text, element[k]);
    }
    const char *loops = f->loops;
    f->loops = format("%s.s", loops);
    f->scans++;
    run_block(e, body);
    f->scans--;
    f->loops = loops;
    Map after = {0};
    for (int k = 0; k < names.count; k++) {
        const char *name = names.keys[k];
        Value *now = map_get(&f->locals, name), *arg = map_get(&within, name);
        if (!now || is_element(sources, name))
            continue;
        map_set(&after, name, arg ? leave(s, name, map_get(&before, name), arg, now) : leave_new(s, now, false));
    }
    for (int k = 0; k < s->staging.count; k++)
        s->staging.list[k].value = leave_new(s, s->staging.list[k].value, s->staging.list[k].role == ROLE_UPDATE);
    for (int k = 0; k < sources->count; k++) {
        const char *name = sources->names[k]->text;
        Value *now = map_get(&f->locals, name);
        map_set(&after, name, now == element[k] ? NULL : leave_new(s, now, true));
    }
    bool right = infer_again(s, guesses, guess_count);
    e->graph = outer;
    e->scan = s->outer;
    e->staging = s->outer ? &s->outer->staging : NULL;
    if (!right) {
        f->locals = before;
        f->declared = declared;
        f->updated = updated;
        e->random_paths = random_paths;
        e->result_names = result_names;
        return false;
    }
    close_body(s);
    for (int k = 0; k < sources->count; k++) /* not assigned: the sequence's last element */
        if (!map_get(&after, sources->names[k]->text))
            map_set(&after, sources->names[k]->text, value_tensor(last_element(s, sources->nodes[k])));
    for (int k = 0; k < after.count; k++)
        map_set(&f->locals, after.keys[k], after.values[k]);
    return true;
}

void run_scan(Elaborator *e, const Tree *t)
{
    const Tree *body = t->first->next->next;
    Sources sources = find_sources(e, t);
    Guess *guesses = NULL;
    int guess_count = 0;
    for (int round = 0;; round++) {
        ScanBody *s = NEW(ScanBody);
        *s = (ScanBody){.e = e,
                        .outer = e->scan,
                        .at = place_of(e, t),
                        .steps = sources.steps,
                        .guesses = guesses,
                        .guess_count = guess_count,
                        .staging.outer = e->staging};
        if (run_body(s, &sources, body, &guesses, &guess_count)) {
            settle(s);
            return;
        }
        if (round > 2 * guess_count + 2)
            error_at(s->at, "the types of what this scan carries change with every step; cast them, as in h = f32(...)");
    }
}
