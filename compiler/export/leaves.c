/* leaves.c: recognises operations that a module of torch.nn can compute: linear and embedding layers, convolutions and norms. */
#include "compiler/export/torch.h"

#include <string.h>

void add_words(ConstructorTokens *p, const char *pattern, ...)
{
    va_list list;
    va_start(list, pattern);
    ConstructorToken part = {.kind = CONSTRUCTOR_TEXT, .text = vformat(pattern, list)};
    va_end(list);
    APPEND(p->tokens, p->count, part);
}

void add_number(ConstructorTokens *p, const char *name, int64_t number)
{
    ConstructorToken part = {.kind = CONSTRUCTOR_NUMBER, .text = name, .number = number};
    APPEND(p->tokens, p->count, part);
}

/* ---- constructors: `nn.Name(3, 5, keyword=7)` */
typedef void Constructor(const ExportedOp *, ConstructorTokens *);

static void add_keyword(const ExportedOp *op, ConstructorTokens *p, const char *attribute, const char *keyword, int count,
                        int64_t usual)
{
    const int64_t *v = attribute_named(op, attribute)->list;
    bool same = true, is_usual = true;
    for (int i = 0; i < count; i++) {
        same = same && v[i] == v[0];
        is_usual = is_usual && v[i] == usual;
    }
    if (is_usual)
        return;
    add_words(p, ", %s=", keyword);
    if (same)
        add_number(p, keyword, v[0]);
    else
        add_words(p, "%s", python_tuple(v, count));
}

static void construct_linear(const ExportedOp *op, ConstructorTokens *p)
{
    add_words(p, "nn.Linear(");
    add_number(p, "in_features", op->in[1]->extent[1]);
    add_words(p, ", ");
    add_number(p, "out_features", op->in[1]->extent[0]);
    add_words(p, op->inputs > 2 ? ")" : ", bias=False)");
}

static void construct_embedding(const ExportedOp *op, ConstructorTokens *p)
{
    add_words(p, "nn.Embedding(");
    add_number(p, "num_embeddings", op->in[0]->extent[0]);
    add_words(p, ", ");
    add_number(p, "embedding_dim", op->in[0]->extent[1]);
    add_words(p, ")");
}

static void construct_conv(const ExportedOp *op, ConstructorTokens *p)
{
    const int64_t *w = op->in[1]->extent;
    int n = op->in[1]->rank - 2;
    add_words(p, "nn.Conv%dd(", n);
    add_number(p, "in_channels", w[1] * attribute_named(op, "group")->list[0]);
    add_words(p, ", ");
    add_number(p, "out_channels", w[0]);
    add_words(p, ", %s", python_each(w + 2, n));
    add_keyword(op, p, "strides", "stride", n, 1);
    add_keyword(op, p, "pads", "padding", n, 0);
    add_keyword(op, p, "dilations", "dilation", n, 1);
    add_keyword(op, p, "group", "groups", 1, 1);
    add_words(p, op->inputs > 2 ? ")" : ", bias=False)");
}

static const char *epsilon(const ExportedOp *op)
{
    double eps = attribute_named(op, "epsilon")->number;
    return eps == 1e-5 ? "" : format(", eps=%s", python_number(eps, F64));
}

static void construct_batchnorm(const ExportedOp *op, ConstructorTokens *p)
{
    int axes = op->in[0]->rank - 2;
    add_words(p, "nn.BatchNorm%dd(", axes ? axes : 1);
    add_number(p, "num_features", op->in[1]->extent[0]);
    add_words(p, "%s)", epsilon(op));
}

static void construct_layernorm(const ExportedOp *op, ConstructorTokens *p)
{
    add_words(p, "nn.LayerNorm(");
    add_number(p, "normalized_shape", op->in[1]->extent[0]);
    add_words(p, "%s%s)", epsilon(op), op->inputs > 2 ? "" : ", bias=False");
}

/* The inputs of the operation from `first` on are weights, which the module of torch.nn calls by these names. */
static const struct LeafRow {
    const char *kind;
    int first;
    const char *names[4];
    Constructor *constructor;
} ROWS[] = {
    {"Linear", 1, {"weight", "bias"}, construct_linear},
    {"Gather", 0, {"weight"}, construct_embedding},
    {"Conv", 1, {"weight", "bias"}, construct_conv},
    {"BatchNormalization", 1, {"weight", "bias", "running_mean", "running_var"}, construct_batchnorm},
    {"LayerNormalization", 1, {"weight", "bias"}, construct_layernorm},
};

static const struct LeafRow *row_of(const ExportedOp *op)
{
    for (int i = 0; i < COUNT(ROWS); i++)
        if (strcmp(op->kind, ROWS[i].kind) == 0)
            return &ROWS[i];
    return NULL;
}

/* ---- recognition */
static bool is_weight_of(const Exported *g, const Module *m, const ExportedTensor *v, const char *name)
{
    if (!v || v->variable < 0)
        return false;
    const Variable *x = &g->model->variables[v->variable];
    const char *dot = strrchr(x->name, '.');
    return dot && strcmp(dot + 1, name) == 0 && (x->dtype == F32 || x->dtype == g->real) &&
           (x->kind == STATE) == (strncmp(name, "running_", 8) == 0) && module_of_variable(root_of(m), x->name) == m;
}

Module *find_leaf(const Exported *g, const Module *root, const ExportedOp *op)
{
    const struct LeafRow *row = row_of(op);
    const ExportedTensor *weight = row && row->first < op->inputs ? op->in[row->first] : NULL;
    if (!weight || weight->variable < 0)
        return NULL;
    Module *m = module_of_variable(root, g->model->variables[weight->variable].name);
    int weights = 0;
    for (int i = row->first; i < op->inputs && weights < 4 && row->names[weights]; i++, weights++)
        if (!is_weight_of(g, m, op->in[i], row->names[weights]))
            return NULL;
    bool embedding = row->first == 0, norm = strcmp(op->kind, "BatchNormalization") == 0;
    if (m == root || m->child_count || m->variable_count != weights ||
        (embedding && (weight->rank != 2 || attribute_named(op, "axis")->list[0] != 0)) || (norm && op->in[0]->rank > 5))
        return NULL;
    return m;
}

void leaf_constructor(const ExportedOp *op, ConstructorTokens *p) { row_of(op)->constructor(op, p); }

bool same_parts(const ConstructorTokens *a, const ConstructorTokens *b, bool numbers)
{
    for (int i = 0; i < a->count && i < b->count; i++) {
        const ConstructorToken *x = &a->tokens[i], *y = &b->tokens[i];
        if (x->kind != y->kind || x->class != y->class || x->count != y->count || (numbers && x->number != y->number) ||
            (x->text && strcmp(x->text, y->text) != 0))
            return false;
    }
    return a->count == b->count;
}

const Module *leaf_called(const Writing *w, const ExportedOp *op)
{
    ConstructorTokens wanted = {0}, given = {0};
    const Module *m = find_leaf(w->graph, root_of(w->module), op);
    if (!m || m->form != MODULE_LEAF || !is_within(m, w->module))
        return NULL;
    leaf_constructor(op, &wanted);
    leaf_constructor(m->leaf, &given);
    return same_parts(&wanted, &given, true) ? m : NULL;
}

const ExportedTensor *leaf_input(const ExportedOp *op) { return op->in[row_of(op)->first == 0]; }
