/* frame.c: the state of the elaborator: nested calls, the names visible in them, places in the text, and messages. */
#include "dsl/elaborate.h"

#include <string.h>

/* ---- frames; they are freed when the model is complete */

Frame *push_frame(Elaborator *e, FrameKind kind, const Tree *block)
{
    Memory *outer = memory_use(e->brief);
    Frame *before = e->frame, *f = NEW(Frame);
    memory_use(outer);
    *f = (Frame){.kind = kind, .block = block, .loops = "", .library = block && block->source->library};
    e->frame = f;
    return before;
}

void pop_frame(Elaborator *e, Frame *before) { e->frame = before; }

void set_local(Elaborator *e, const char *name, Value *v)
{
    Memory *outer = memory_use(e->brief);
    map_set(&e->frame->locals, name, v);
    memory_use(outer);
}

/* Reports a value such as "f32[28, 28], 3136 bytes a sample" to an editor. */
void report_value(const Elaborator *e, const Tree *at, const Value *v)
{
    if (!e->settings->report_value || at->source->library)
        return;
    const Node *n = v->kind == VALUE_TENSOR || v->kind == VALUE_WEIGHTED ? v->node : NULL;
    e->settings->report_value(at, n ? format("%s%s, %lld bytes%s%s", dtype_name(n->dtype),
                                             n->shape.rank ? shape_text(&n->shape) : "[]",
                                             (long long)(shape_count(&n->shape) * dtype_bytes(n->dtype)),
                                             n->has_samples ? " a sample" : "", v->kind == VALUE_WEIGHTED ? ", with weights" : "")
                                    : value_describe(v));
}

void set_name(Elaborator *e, const Tree *name, Value *v)
{
    set_local(e, name->text, v);
    report_value(e, name, v);
}

Value *find_local(const Elaborator *e, const char *name)
{
    for (const Frame *f = e->frame; f; f = f->outer) {
        Value *v = map_get(&f->locals, name);
        if (v && v->kind == VALUE_BROKEN)
            give_up();
        if (v)
            return v;
    }
    return NULL;
}

Layer *find_layer(const Elaborator *e, const char *name)
{
    bool library = e->frame && e->frame->library;
    Layer *l = library ? NULL : map_get(&e->layers, name);
    if (!l)
        l = library_layer(e, name);
    return l ? l : map_get(&e->builtins, name);
}

const char *call_key(const Elaborator *e, const Tree *t) { return format("%d%s", t->id, e->frame ? e->frame->loops : ""); }

/* ---- places and messages */

const Place *place_of(const Elaborator *e, const Tree *t)
{
    Place *p = NEW(Place);
    *p = (Place){.source = t->source, .line = t->line, .column = t->column};
    if (e->frame) {
        p->caller = e->frame->call;
        p->layer = e->frame->layer ? e->frame->layer->name : NULL;
    }
    return p;
}

_Noreturn void error_tree(const Elaborator *e, const Tree *t, const char *pattern, ...)
{
    va_list arguments;
    va_start(arguments, pattern);
    verror_at(place_of(e, t), pattern, arguments);
}

bool is_news(Elaborator *e, const Place *at, const char *what)
{
    const char *key = format("%s %s:%d:%d", what, at->source->file, at->line, at->column);
    if (e->quiet || map_get(&e->warned, key))
        return false;
    map_set(&e->warned, key, (void *)(uintptr_t)at);
    return true;
}

void not_yet(Elaborator *e, const Place *at, const char *what)
{
    if (!is_news(e, at, what))
        return;
    warning_at(at, "%s: not yet; mgpuc checks the model but does not compile it", what);
    e->model->not_yet++;
}

void no_data_yet(Elaborator *e, const Place *at, const char *what)
{
    e->data_later = what;
    if (is_news(e, at, what))
        warning_at(at, "%s: not yet; the program is made without this data, its 'bench' needs none", what);
}
