/* classes.c: writes modules of the exported network as classes of Python. Modules that differ only in numbers of their
 * constructors share a class, whose constructor has these numbers as parameters. */
#include "compiler/export/torch.h"

#include <ctype.h>
#include <string.h>

struct Class {
    const char *name, *layer;
    ConstructorTokens parts;
    Text forward;                  /* without the comments that name lines of the model, since these differ between instances */
    const char *commented_forward; /* with these comments, of the first instance */
    Map constants;
    int64_t **numbers; /* [instance][number in `parts`] */
    int instances, number_count;
    int *equal_to;      /* [number]: the first number that equals it in all instances; -1: the same constant in all instances */
    const char **names; /* [number]: name of the parameter */
};

typedef struct Classes {
    const Exported *graph;
    Class **list;
    int count;
    Map used;
} Classes;

/* ---- attributes */
static bool is_plain(const char *name)
{
    static const char *const TAKEN[] = {"T_destination",
                                        "dump_patches",
                                        "training",
                                        "call_super_init",
                                        "register_buffer",
                                        "register_parameter",
                                        "add_module",
                                        "register_module",
                                        "get_submodule",
                                        "set_submodule",
                                        "get_parameter",
                                        "get_buffer",
                                        "get_extra_state",
                                        "set_extra_state",
                                        "apply",
                                        "cuda",
                                        "ipu",
                                        "xpu",
                                        "mtia",
                                        "cpu",
                                        "type",
                                        "float",
                                        "double",
                                        "half",
                                        "bfloat16",
                                        "to_empty",
                                        "to",
                                        "forward",
                                        "register_forward_hook",
                                        "register_forward_pre_hook",
                                        "register_full_backward_hook",
                                        "register_full_backward_pre_hook",
                                        "register_backward_hook",
                                        "register_state_dict_post_hook",
                                        "register_state_dict_pre_hook",
                                        "register_load_state_dict_pre_hook",
                                        "register_load_state_dict_post_hook",
                                        "state_dict",
                                        "load_state_dict",
                                        "parameters",
                                        "named_parameters",
                                        "buffers",
                                        "named_buffers",
                                        "children",
                                        "named_children",
                                        "modules",
                                        "named_modules",
                                        "train",
                                        "eval",
                                        "requires_grad_",
                                        "zero_grad",
                                        "share_memory",
                                        "extra_repr",
                                        "compile"};
    for (int i = 0; i < COUNT(TAKEN); i++)
        if (strcmp(name, TAKEN[i]) == 0)
            return false;
    return *name != '_' && strcmp(python_word(name), name) == 0;
}

static const char *attribute_access(const char *of, const char *table, const char *name)
{
    return is_plain(name) ? format("%s.%s", of, name) : format("%s.%s[%s]", of, table, python_text(name));
}

static const char *access_from(const Module *from, const Module *m)
{
    if (m == from)
        return "self";
    const char *of = access_from(from, m->parent);
    if (m->parent->form == MODULE_LIST || m->parent->form == MODULE_SEQUENTIAL)
        return format("%s[%s]", of, m->name);
    return attribute_access(of, "_modules", m->name);
}

const char *module_access(const Writing *w, const Module *m) { return access_from(w->module, m); }

static const char *variable_in(const Module *from, const Module *m, const Variable *v)
{
    const char *table = v->kind == WEIGHT && dtype_is_float(v->dtype) ? "_parameters" : "_buffers";
    return attribute_access(access_from(from, m), table, last_word(v->name));
}

const char *variable_access(const Writing *w, int variable)
{
    const Variable *v = &w->graph->model->variables[variable];
    return variable_in(w->module, module_of_variable(root_of(w->module), v->name), v);
}

/* ---- forward */
static void say_line(Writing *w, const ExportedOp *op)
{
    const Place *at = users_place(op->at);
    if (w->line_shown && at && strcmp(op->kind, "Identity") != 0 &&
        (w->line_shown->line != at->line || w->line_shown->source != at->source)) {
        line(w, "# line %d", at->line);
        w->line_shown = at;
    }
}

static void print_call(Writing *w, const Item *item)
{
    Text in = {0}, out = {0};
    for (int i = 0; i < item->in_count; i++)
        text_add(&in, "%s%s", i ? ", " : "", tensor_of(w, item->in[i]));
    for (int i = 0; i < item->out_count; i++)
        text_add(&out, "%s%s", i ? ", " : "", result_called(w, item->out[i], label_of(w, item->out[i], item->module), true));
    line(w, "%s%s%s(%s)", text_of(&out), out.length ? " = " : "", module_access(w, item->module), text_of(&in));
}

static void print_forward(const Exported *g, const Module *m, Text *text, Map *constants, bool say)
{
    static const Place nowhere;
    Map names = {0}, used = {0}, holders = {0}, leaving = {0};
    Writing writing = {g, m, text, &names, &used, &holders, constants, &leaving, 0, 0, say ? &nowhere : NULL}, *w = &writing;
    const ExportedTensor *const *in = m->parent ? m->as_item.in : g->inputs, *const *out =
                                                                                 m->parent ? m->as_item.out : g->outputs;
    int in_count = m->parent ? m->as_item.in_count : g->input_count,
        out_count = m->parent ? m->as_item.out_count : g->output_count;
    Text list = {0}, results = {0};
    for (int i = 0; i < m->item_count; i++)
        hold(w, m->items[i].in, m->items[i].in_count);
    hold(w, out, out_count);
    for (int i = 0; i < out_count && m->parent; i++)
        map_set(&leaving, out[i]->name, w);
    for (int i = 0; i < in_count; i++)
        text_add(&list, ", %s", result_called(w, in[i], m->parent ? "x" : label_of(w, in[i], NULL), false));
    line(w, "\n    def forward(self%s):", text_of(&list));
    w->indent = 2;
    for (int i = 0; i < m->item_count; i++) {
        const Item *item = &m->items[i];
        release(w, item->in, item->in_count);
        if (item->op) {
            say_line(w, item->op);
            print_op(w, item->op);
        } else {
            print_call(w, item);
        }
    }
    for (int i = 0; i < out_count; i++)
        text_add(&results, "%s%s", i ? ", " : "", tensor_of(w, out[i]));
    line(w, "return %s", text_of(&results));
}

/* ---- constructors */
static void add_constants(const Exported *g, const Map *read, ConstructorTokens *p)
{
    for (int i = 0; i < g->constant_count; i++) {
        const ExportedTensor *c = g->constants[i];
        int64_t count = 1;
        for (int k = 0; k < c->rank; k++)
            count *= c->extent[k];
        if (!map_get(read, c->name))
            continue;
        Text t = {0};
        for (int64_t k = 0; k < count; k++)
            text_add(&t, "%s%s", k ? ", " : "", python_number(c->data[k], c->dtype));
        add_words(p, "        self.register_buffer(%s, torch.tensor([%s], dtype=%s).reshape(%s), persistent=False)\n",
                  python_text(c->name), text_of(&t), python_dtype(c->dtype), python_tuple(c->extent, c->rank));
    }
}

static void add_variable(const Exported *g, const Module *m, const Variable *v, ConstructorTokens *p)
{
    const char *access = variable_in(m, m, v);
    bool parameter = v->kind == WEIGHT && dtype_is_float(v->dtype), plain = strchr(access, '[') == NULL;
    Dtype dtype = v->dtype == F32 ? g->real : v->dtype;
    if (parameter || !plain)
        add_words(p, "        %s = %s", access, parameter ? "nn.Parameter(" : "");
    else
        add_words(p, "        self.register_buffer(%s, ", python_text(last_word(v->name)));
    add_words(p, v->shape.rank ? "torch.zeros(" : "torch.zeros((");
    for (int i = 0; i < v->shape.rank; i++) {
        add_words(p, i ? ", " : "");
        add_number(p, "size", v->shape.extent[i]);
    }
    add_words(p, "%s%s)%s\n", v->shape.rank ? "" : ")", dtype == g->real ? "" : format(", dtype=%s", python_dtype(dtype)),
              parameter || plain ? ")" : "");
}

static Class *class_of(Classes *, const Module *, int64_t **numbers);

static void add_constructor(Classes *c, const Module *m, ConstructorTokens *p)
{
    if (m->form == MODULE_LEAF) {
        leaf_constructor(m->leaf, p);
    } else if (m->form == MODULE_LIST || m->form == MODULE_SEQUENTIAL) {
        bool list = m->form == MODULE_LIST;
        ConstructorToken part = {
            .kind = CONSTRUCTOR_LIST, .text = list ? "nn.ModuleList" : "nn.Sequential", .count = m->child_count};
        APPEND(p->tokens, p->count, part);
        for (int i = 0; i < m->child_count; i++) {
            add_constructor(c, m->children[i], p);
            APPEND(p->tokens, p->count, (ConstructorToken){.kind = CONSTRUCTOR_NEXT});
        }
    } else {
        int64_t *numbers;
        Class *class = class_of(c, m, &numbers);
        ConstructorToken part = {.kind = CONSTRUCTOR_CALL, .class = class, .count = class->number_count};
        APPEND(p->tokens, p->count, part);
        for (int i = 0; i < class->number_count; i++)
            add_number(p, NULL, numbers[i]);
    }
}

static const char *class_name(Classes *c, const char *text)
{
    Text t = {0};
    bool up = true;
    for (; *text; text++) {
        if (isalnum((unsigned char)*text))
            text_add(&t, "%c", up ? toupper((unsigned char)*text) : *text);
        up = !isalnum((unsigned char)*text);
    }
    return python_name(&c->used, t.length ? text_of(&t) : "Model");
}

/* Returns the layer at the path, or NULL. From the place of an operation in the layer, goes up one call for each further
 * component of the operation's path. */
static const char *layer_at(const ExportedOp *op, const char *path)
{
    size_t length = strlen(path);
    if (strncmp(op->path, path, length) != 0 || (op->path[length] && op->path[length] != '.'))
        return NULL;
    const Place *at = op->at;
    for (const char *dot = op->path + length; at && dot && *dot; dot = strchr(dot + 1, '.'))
        at = at->caller;
    return at ? at->layer : NULL;
}

/* Returns the name of the module's layer, else the name of the module without the digits at its end. */
static const char *layer_of(const Exported *g, const Module *m)
{
    const char *path = module_path(m), *name = m->parent ? m->name : g->model->name, *layer = NULL;
    for (int i = 0; i < g->op_count && m->parent && !layer; i++)
        layer = layer_at(g->ops[i], path);
    size_t length = strlen(name);
    while (m->parent && length && (isdigit((unsigned char)name[length - 1]) || name[length - 1] == '_'))
        length--;
    return layer ? layer : length ? copy_text(name, length) : "part";
}

/* Returns the class of the module, to which it adds an instance, and sets *numbers to the numbers of the instance. */
static Class *class_of(Classes *c, const Module *m, int64_t **numbers)
{
    const Exported *g = c->graph;
    Class made = {.layer = layer_of(g, m)}, *class = NULL;
    Text said = {0};
    if (m->form == MODULE_CLASS) {
        print_forward(g, m, &made.forward, &made.constants, false);
        print_forward(g, m, &said, &made.constants, true);
    }
    made.commented_forward = text_of(&said);
    add_constants(g, &made.constants, &made.parts);
    for (int i = 0; i < m->variable_count; i++)
        add_variable(g, m, &g->model->variables[m->variables[i]], &made.parts);
    for (int i = 0; i < m->child_count; i++) {
        add_words(&made.parts, "        %s = ", access_from(m, m->children[i]));
        add_constructor(c, m->children[i], &made.parts);
        add_words(&made.parts, "\n");
    }
    for (int i = 0; i < made.parts.count; i++)
        made.number_count += made.parts.tokens[i].kind == CONSTRUCTOR_NUMBER;
    *numbers = NEW_ARRAY(int64_t, made.number_count);
    for (int i = 0, k = 0; i < made.parts.count; i++)
        if (made.parts.tokens[i].kind == CONSTRUCTOR_NUMBER)
            (*numbers)[k++] = made.parts.tokens[i].number;
    for (int i = 0; i < c->count && !class; i++)
        if (strcmp(c->list[i]->layer, made.layer) == 0 && same_parts(&c->list[i]->parts, &made.parts, false) &&
            strcmp(text_of(&c->list[i]->forward), text_of(&made.forward)) == 0)
            class = c->list[i];
    if (!class) {
        class = NEW(Class);
        *class = made;
        APPEND(c->list, c->count, class);
    }
    APPEND(class->numbers, class->instances, *numbers);
    return class;
}

/* ---- the text of classes */

/* Finds which numbers are parameters of the constructor. The parameters of the classes that it calls are known. */
static void find_parameters(Class *class)
{
    Map used = {0};
    const ConstructorToken *call = NULL; /* the last call, whose numbers follow it; other numbers have a name */
    class->equal_to = NEW_ARRAY(int, class->number_count);
    class->names = NEW_ARRAY(const char *, class->number_count);
    for (int i = 0, k = -1; i < class->parts.count; i++) {
        const ConstructorToken *part = &class->parts.tokens[i];
        call = part->kind == CONSTRUCTOR_CALL ? part : call;
        if (part->kind != CONSTRUCTOR_NUMBER)
            continue;
        k++;
        bool one = true;
        for (int n = 1; n < class->instances; n++)
            one = one && class->numbers[n][k] == class->numbers[0][k];
        class->equal_to[k] = one ? -1 : k;
        for (int j = 0; j < k && !one && class->equal_to[k] == k; j++) {
            bool same = class->equal_to[j] == j;
            for (int n = 0; n < class->instances && same; n++)
                same = class->numbers[n][j] == class->numbers[n][k];
            class->equal_to[k] = same ? j : k;
        }
        if (!part->text && !call)
            die("a number of a constructor has no name");
        if (class->equal_to[k] == k)
            class->names[k] = python_name(&used, part->text ? part->text : call->class->names[part - call - 1]);
    }
}

typedef struct Printing {
    const Class *class;
    int part, number; /* indices of the next ones */
} Printing;

static void print_parts(Printing *, Text *, int end);

static void print_number(Printing *p, Text *t, const char *before)
{
    int stands = p->class->equal_to[p->number];
    if (stands >= 0)
        text_add(t, "%s%s", before, p->class->names[stands]);
    else
        text_add(t, "%s%lld", before, (long long)p->class->numbers[0][p->number]);
    p->number++;
}

static void print_class_call(Printing *p, Text *t, const ConstructorToken *part)
{
    const char *comma = "";
    text_add(t, "%s(", part->class->name);
    for (int i = 0; i < part->count; i++, p->part++) {
        if (part->class->equal_to[i] != i) {
            p->number++;
            continue;
        }
        print_number(p, t, comma);
        comma = ", ";
    }
    text_add(t, ")");
}

static void print_list(Printing *p, Text *t, const ConstructorToken *part)
{
    const char **made = NEW_ARRAY(const char *, part->count);
    bool list = strcmp(part->text, "nn.ModuleList") == 0, same = part->count > 2;
    for (int i = 0; i < part->count; i++) {
        Text one = {0};
        print_parts(p, &one, CONSTRUCTOR_NEXT);
        made[i] = text_of(&one);
        same = same && strcmp(made[i], made[0]) == 0;
    }
    if (same) {
        text_add(t, "%s(%s%s for _ in range(%d)%s)", part->text, list ? "" : "*(", made[0], part->count, list ? "" : ")");
        return;
    }
    text_add(t, "%s(%s", part->text, list ? "[" : "");
    for (int i = 0; i < part->count; i++)
        text_add(t, "\n            %s,", made[i]);
    text_add(t, "\n        %s)", list ? "]" : "");
}

/* Prints parts to the end, or to the next part of kind `end`. */
static void print_parts(Printing *p, Text *t, int end)
{
    while (p->part < p->class->parts.count) {
        const ConstructorToken *part = &p->class->parts.tokens[p->part++];
        if ((int)part->kind == end)
            return;
        switch (part->kind) {
        case CONSTRUCTOR_TEXT: text_add(t, "%s", part->text); break;
        case CONSTRUCTOR_NUMBER: print_number(p, t, ""); break;
        case CONSTRUCTOR_CALL: print_class_call(p, t, part); break;
        case CONSTRUCTOR_LIST: print_list(p, t, part); break;
        case CONSTRUCTOR_NEXT: break;
        }
    }
}

static void print_class(const Exported *g, const Class *class, bool root, Text *t)
{
    Printing p = {class, 0, 0};
    text_add(t, "\n\nclass %s(nn.Module):\n    def __init__(self", class->name);
    for (int i = 0; i < class->number_count; i++)
        if (class->equal_to[i] == i)
            text_add(t, ", %s", class->names[i]);
    text_add(t, "):\n        super().__init__()\n");
    print_parts(&p, t, -1);
    if (root && g->real == F64)
        text_add(t, "        self.double()\n");
    text_add(t, "%s", class->commented_forward);
}

static void print_values(Text *t, const char *what, const ExportedTensor *const *v, int count)
{
    text_add(t, "%s\n", what);
    for (int i = 0; i < count; i++) {
        text_add(t, "    %s: %s [samples", v[i]->label, python_dtype(v[i]->dtype) + strlen("torch."));
        for (int k = 1; k < v[i]->rank; k++)
            text_add(t, ", %lld", (long long)v[i]->extent[k]);
        text_add(t, "]\n");
    }
}

void write_torch(const Exported *g, Text *t)
{
    int64_t *numbers;
    Classes c = {.graph = g};
    Class *root = class_of(&c, modules_of(g), &numbers);
    text_add(t, "    model = load()    # the weights are in the file of safetensors beside this one\n\n");
    print_values(t, "Inputs", g->inputs, g->input_count);
    print_values(t, "Outputs", g->outputs, g->output_count);
    text_add(t, "\"\"\"\nimport math\nimport pathlib\n\nimport torch\nimport torch.nn.functional as F\nfrom torch import nn\n");
    root->name = class_name(&c, g->model->name);
    for (int i = 0; i < c.count; i++) {
        if (!c.list[i]->name)
            c.list[i]->name = class_name(&c, c.list[i]->layer);
        find_parameters(c.list[i]);
    }
    for (int i = 0; i < c.count; i++)
        print_class(g, c.list[i], c.list[i] == root, t);
    text_add(t,
             "\n\ndef load(weights=pathlib.Path(__file__).with_suffix(\".safetensors\")):\n    from safetensors.torch import "
             "load_file\n    model = %s()\n    model.load_state_dict(load_file(weights))\n    return model.eval()\n",
             root->name);
}
