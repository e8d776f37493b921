/* statement.c: blocks. `if` and `for` are executed at compile time, in the scope of the call that contains them. */
#include "dsl/elaborate.h"

#include <string.h>

static void assign(Elaborator *e, const Tree *t)
{
    const Tree *names = t->first, *value = names->next;
    if (names->first->next) {
        unpack(e, names, eval_results(e, value));
        return;
    }
    const char *name = names->first->text;
    e->shared_name =
        value->kind == TREE_CALL && value->first->kind == TREE_NAME && strcmp(value->first->text, "shared") == 0 ? name : NULL;
    Value *v = eval(e, value);
    e->shared_name = NULL;
    set_name(e, names->first, v);
    if (v->kind == VALUE_TENSOR || v->kind == VALUE_WEIGHTED) { /* prefer the user's name to the library's */
        Node *n = v->node;
        if (!n->name || (!e->frame->library && n->at && n->at->source && n->at->source->library))
            n->name = name;
    }
}

static void run_assert(Elaborator *e, const Tree *t)
{
    if (eval_condition(e, t->first, "assert"))
        return;
    if (!t->first->next)
        error_tree(e, t, "the assertion does not hold");
    Value *message = eval(e, t->first->next);
    error_tree(e, t, "%s", value_print(message));
}

static void run_return(Elaborator *e, const Tree *t)
{
    const Tree *first = t->first->first;
    Frame *f = e->frame;
    if (f->scans)
        error_tree(e, t, "'return' cannot be used in a scan: every step runs; assign, and return after it");
    if (!first->next) {
        f->result = eval_results(e, first);
    } else {
        Value **items = NULL;
        int count = 0;
        for (const Tree *v = first; v; v = v->next)
            APPEND(items, count, eval(e, v));
        f->result = value_list(items, count);
        f->result->kind = VALUE_RESULTS;
    }
    f->returned = true;
}

static void run_for(Elaborator *e, const Tree *t)
{
    enum { MOST_STEPS = 1000000 }; /* a longer loop takes minutes, and its graph does not fit in memory */
    const Tree *names = t->first, *list = names->next, *body = list->next;
    Value *v = eval(e, list);
    if (v->kind == VALUE_TENSOR)
        error_tree(e, list, "'for' runs at compile time and cannot go over %s; 'scan' is the loop along axis 0",
                   value_describe(v));
    if (v->kind != VALUE_LIST)
        error_tree(e, list, "'for' needs a list, not %s%s", value_describe(v),
                   v->kind == VALUE_NUMBER ? "; range(n) is the list 0, 1, ..." : "");
    Frame *f = e->frame;
    const char *before = f->loops;
    for (int k = 0; k < v->count && !f->returned; k++) {
        if (++e->steps > MOST_STEPS)
            last_error_at(
                place_of(e, t),
                "'for' runs at compile time, each step is a part of the graph, and these are more than %d steps; 'scan' is a loop at run time, and operations on tensors need none",
                MOST_STEPS);
        f->loops = format("%s.%d", before, k);
        if (names->first->next)
            unpack(e, names, v->items[k]);
        else
            set_name(e, names->first, v->items[k]);
        const int errors = error_count();
        run_block(e, body);
        if (error_count() > errors) /* further iterations would only repeat these errors */
            give_up();
    }
    f->loops = before;
}

/* ---- which statements are allowed where */

static void must_be(const Elaborator *e, const Tree *t, bool here, const char *where)
{
    if (!here)
        error_tree(e, t, "'%s' belongs in %s", tree_kind_name(t->kind), where);
}

/* Runs a statement of the table in Elaborator.statements. */
static void run_other(Elaborator *e, const Tree *t)
{
    for (const Statement *s = e->statements; s->run; s++)
        if (s->kind == t->kind) {
            must_be(e, t, s->frames & 1u << e->frame->kind, s->where);
            s->run(e, t);
            return;
        }
    die("a tree of kind %s is no statement", tree_kind_name(t->kind));
}

static void run_statement(Elaborator *e, const Tree *t)
{
    switch (t->kind) {
    case TREE_BROKEN: give_up();
    case TREE_ASSIGN: (e->frame->assign ? e->frame->assign : assign)(e, t); return;
    case TREE_ASSERT: run_assert(e, t); return;
    case TREE_IF: {
        const Tree *block = t->first->next;
        if (eval_condition(e, t->first, "if"))
            run_block(e, block);
        else if (block->next && block->next->kind == TREE_IF)
            run_statement(e, block->next);
        else if (block->next)
            run_block(e, block->next);
        return;
    }
    case TREE_FOR: run_for(e, t); return;
    case TREE_RETURN:
        must_be(e, t, e->frame->kind == FRAME_LAYER, "a layer");
        run_return(e, t);
        return;
    default: run_other(e, t);
    }
}

void run_block(Elaborator *e, const Tree *block)
{
    for (const Tree *t = block->first; t && !e->frame->returned; t = t->next)
        e->frame->library ? run_statement(e, t) : run_recovering(e, t, run_statement);
}
