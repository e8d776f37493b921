/* recover.c: continues after a statement with an error, so that one run reports all errors. The names of that statement are
 * broken: reading one abandons the reader silently, since its own error may only be a consequence. An error in the library, in a
 * scan or in an initial value abandons the user's statement that contains it. */
#include "dsl/elaborate.h"

/* Breaks the names that the statement and its blocks would have made, and the result that it would have returned. */
static void break_names(Elaborator *e, const Tree *t)
{
    Frame *f = e->frame;
    switch (t->kind) {
    case TREE_INPUT:
    case TREE_WEIGHT:
    case TREE_STATE: set_local(e, t->text, value_broken()); return;
    case TREE_RETURN: f->result = value_broken(); return;
    case TREE_BROKEN:
        f->broken = true;
        if (t->text && *t->text) /* the statement may have been NAME = ... */
            set_local(e, t->text, value_broken());
        break;
    case TREE_NAMES:
        for (const Tree *n = t->first; n; n = n->next)
            set_local(e, n->text, value_broken());
        return;
    case TREE_ASSIGN:
    case TREE_FOR:
    case TREE_SCAN:
    case TREE_IF:
    case TREE_BLOCK: break;
    default: return;
    }
    for (const Tree *c = t->first; c; c = c->next)
        break_names(e, c);
}

void run_recovering(Elaborator *e, const Tree *t, void (*run)(Elaborator *, const Tree *))
{
    if (e->scan || e->in_init || e->in_optimizer) {
        run(e, t);
        return;
    }
    const Elaborator was = *e;
    const Frame frame = e->frame ? *e->frame : (Frame){0};
    Recovery r;
    if (setjmp(*recovery_begin(&r)) == 0) {
        run(e, t);
        recovery_end(&r);
        return;
    }
    e->frame = was.frame;
    e->graph = was.graph;
    e->top = was.top;
    e->scan = was.scan;
    e->staging = was.staging;
    e->in_model = was.in_model;
    e->in_init = was.in_init;
    e->in_optimizer = was.in_optimizer;
    e->init_name = was.init_name;
    e->calls = was.calls;
    e->depth = was.depth;
    e->steps = was.steps;
    e->key = was.key;
    e->argument = was.argument;
    e->shared_name = was.shared_name;
    e->statement = was.statement;
    e->deferred_count = was.deferred_count;
    if (e->frame) {
        e->frame->loops = frame.loops;
        e->frame->scans = frame.scans;
        e->frame->instance = frame.instance;
        break_names(e, t);
        e->frame->returned = t->kind == TREE_RETURN;
    }
}
