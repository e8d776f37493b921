/* warnings.c: warns of probable mistakes in valid models, such as values broadcast against each other in a loss, probabilities
 * given to a loss that takes logits, and weights that no loss depends on; once for each place in the user's text. */
#include "dsl/elaborate.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* ---- calls of losses */

/* losses of two values of the same shape */
static const char *const PAIRED[] = {"mse", "mae", "huber", "binary_cross_entropy"};
static const struct {
    const char *loss, *act;
} LOGITS[] = {
    /* the loss applies this activation to its first argument itself */
    {"cross_entropy", "softmax"},
    {"focal", "softmax"},
    {"ctc", "softmax"},
    {"binary_cross_entropy", "sigmoid"},
};
/* their results are probabilities, which none of these losses takes */
static const char *const ACTS[] = {"softmax", "sigmoid"};

static const Node *tensor_of(const Value *v)
{
    v = v && v->kind == VALUE_RESULTS ? v->items[0] : v;
    return v && (v->kind == VALUE_TENSOR || v->kind == VALUE_WEIGHTED) ? v->node : NULL;
}

/* Returns the activation that made n, such as "softmax", or NULL. */
static const char *act_of(const Elaborator *e, const Node *n)
{
    n = n ? seen_through(n) : NULL;
    for (int i = 0; n && i < e->act_count; i++)
        if (e->acts[i].node == n)
            return e->acts[i].name;
    return NULL;
}

static void check_pair(Elaborator *e, const char *loss, const Node *a, const Node *b, const Place *at)
{
    if (!a || !b || !a->has_samples || !b->has_samples)
        return;
    Shape all = broadcast_shapes(at, &a->shape, &b->shape, loss);
    int64_t count = shape_count(&all);
    if ((count != shape_count(&a->shape) || count != shape_count(&b->shape)) && is_news(e, at, loss))
        lint_at(e->settings->silenced, LINT_LOSS_SHAPES, at,
                "%s of %s and %s repeats values until both are %s; give both one shape: a dense layer as wide as the "
                "target, or reshape",
                loss, shape_text(&a->shape), shape_text(&b->shape), shape_text(&all));
}

/* Positional arguments that look like those of PyTorch's modules, which name the number of channels (or rows of a table) that our
 * layer takes from its input. `in` is the position of that number; the argument at `evidence` reveals the mistake. */
static const struct Habit {
    const char *layer, *theirs;
    int in, evidence;
    enum { ANY, NEVER, SAME, SAME_WINDOW } if_in; /* NEVER: an error follows. SAME: only if the number at `in` is the input's */
} HABITS[] = {
    {"conv", "Conv2d(in, out, size)", 1, 3, SAME_WINDOW},
    {"conv_transpose", "ConvTranspose2d(in, out, size)", 1, 3, SAME_WINDOW},
    {"dense", "Linear(in, out)", 1, 2, NEVER},
    {"batchnorm", "BatchNorm2d(channels)", 1, 1, ANY},
    {"layernorm", "LayerNorm(channels)", 1, 1, ANY},
    {"rmsnorm", "RMSNorm(channels)", 1, 1, ANY},
    {"groupnorm", "GroupNorm(groups, channels)", 2, 2, ANY},
    {"embedding", "Embedding(rows, width)", 1, 2, SAME},
    {"self_attention", "MultiheadAttention(channels, heads)", 1, 2, SAME},
    {"transformer", "TransformerEncoderLayer(channels, heads)", 1, 2, SAME},
    {"rnn", "RNN(channels, width)", 1, 2, NEVER},
    {"lstm", "LSTM(channels, width)", 1, 2, NEVER},
};

/* A layer as wide as its input may have a stride. Rare are a large kernel with a stride that is not its size, and an odd stride
 * above 1; such a call is probably PyTorch's (in, out, size). */
static bool is_window(double size, double stride)
{
    const double LARGE = 7;
    bool odd = stride == 3 || stride == 5 || stride == 7;
    return size != stride && (size > LARGE || odd);
}

static bool is_number(const Value *v) { return v && v->kind == VALUE_NUMBER; }

static bool is_habit(const struct Habit *f, Value *const *values, int by_place, double in)
{
    if (by_place <= f->evidence)
        return false;
    for (int k = f->in; k <= f->evidence; k++)
        if (!is_number(values[k]))
            return false;
    double tells = number_of(values[f->evidence]);
    bool equal = number_of(values[f->in]) == in;
    return f->if_in <= NEVER ? tells >= 1
                             : equal && (f->if_in == SAME ? tells != in : is_window(number_of(values[f->in + 1]), tells));
}

/* Returns "width = 1, size = 16", or "1, 16" if `names` is false. Leaves out the argument at position `without`. */
static const char *numbers_text(const Tree *param, Value *const *values, int by_place, int without, bool names)
{
    const char *text = "";
    int k = 1;
    for (param = param->next; param && k < by_place && is_number(values[k]); param = param->next, k++)
        if (k != without)
            text =
                format("%s%s%s%s%g", text, *text ? ", " : "", names ? param->text : "", names ? " = " : "", number_of(values[k]));
    return text;
}

static void check_habit(Elaborator *e, const struct Habit *f, const Layer *layer, Value *const *values, int by_place,
                        const Place *at)
{
    const Node *x = tensor_of(values[0]);
    bool table = strcmp(f->layer, "embedding") == 0;
    const Input *input = x ? class_input(x) : NULL;
    double in = !x              ? 0
                : table         ? (input ? (double)input->classes : 0)
                : x->shape.rank ? (double)x->shape.extent[x->shape.rank - 1]
                                : 0;
    if (in < 1 || !is_habit(f, values, by_place, in) || !is_news(e, at, f->layer))
        return;
    const Tree *params = layer->tree->first->first, *tells = params;
    for (int k = 0; k < f->evidence; k++)
        tells = tells->next;
    lint_at(e->settings->silenced, LINT_TORCH_ARGUMENTS, at,
            "%s(%s) is %s: %s takes the %s, %g here, from its input, where PyTorch's %s names them; write %s(%s)%s", f->layer,
            numbers_text(params, values, by_place, -1, false), numbers_text(params, values, by_place, -1, true), f->layer,
            table ? "classes" : "channels", in, f->theirs, f->layer, numbers_text(params, values, by_place, f->in, false),
            f->if_in == NEVER ? "" : format(", or %s = %g if this is meant", tells->text, number_of(values[f->evidence])));
}

/* Returns what was flattened to x, before element-wise operations such as dropout and activations, or NULL. */
static const Node *flattened(const Node *x, int *looks)
{
    if (x->op == OP_RESHAPE && x->shape.rank == 1 && x->in[0]->shape.rank > 1)
        return x->in[0];
    const Node *found = NULL;
    bool passes = OP_INFO[x->op].op_class == ELEMENTWISE || x->op == OP_COMPOSITE;
    for (int k = 0; passes && k < x->inputs && !found && --*looks > 0; k++)
        if (shape_equal(&x->in[k]->shape, &x->shape))
            found = flattened(x->in[k], looks);
    return found;
}

/* Records dense(flatten(x)) of an x with channels last. PyTorch's weights for it expect channels first. */
static void record_flat_dense(Elaborator *e, const Node *x, const Place *at)
{
    int looks = 100;
    x = x ? flattened(x, &looks) : NULL;
    if (!x || x->op == OP_TRANSPOSE || x->shape.rank < 3)
        return;
    int64_t channels = x->shape.extent[x->shape.rank - 1];
    FlatDense f = {e->frame->instance->path, shape_text(&x->shape), at};
    if (channels > 1 && channels < shape_count(&x->shape))
        APPEND(e->flat_denses, e->flat_dense_count, f);
}

/* Warns of pictures that are not scaled: they have bytes of 0 to 255, but initial weights are made for values of about 1. */
static void check_bytes(Elaborator *e, const char *layer, const Node *x, const Place *at)
{
    enum { PICTURE = 256 }; /* a vector of so many elements is also a picture */
    static const char *const WEIGHTED[] = {"dense", "conv", "conv_transpose", "depthwise", "separable", "rnn", "lstm", "gru"};
    bool weighted = false;
    for (int k = 0; k < COUNT(WEIGHTED); k++)
        weighted = weighted || strcmp(WEIGHTED[k], layer) == 0;
    while (weighted && x && (x->op == OP_CAST || seen_through(x) != x))
        x = x->op == OP_CAST ? x->in[0] : seen_through(x);
    const Input *input = weighted && x && x->op == OP_INPUT ? &e->model->inputs[x->ints[0]] : NULL;
    if (!input || x->dtype != U8 || input->classes || (x->shape.rank < 2 && shape_count(&x->shape) < PICTURE) ||
        !is_news(e, at, layer))
        return;
    lint_at(
        e->settings->silenced, LINT_UNSCALED_BYTES, at,
        "'%s' is u8, so %s gets numbers of 0 to 255 as they are, and its weights begin as they should for numbers of about 1; take "
        "%s / 255",
        input->name, layer, input->name);
}

/* Checks the arguments of a library layer before its body runs. */
void warn_of_call(Elaborator *e, const Layer *layer, Value *const *values, int by_place, const Place *at)
{
    if (!e->training_pass || !layer->tree->source->library)
        return;
    const Place *user = users_place(at);
    for (int k = 0; k < COUNT(HABITS) && user == at; k++)
        if (strcmp(layer->name, HABITS[k].layer) == 0)
            check_habit(e, &HABITS[k], layer, values, by_place, user);
    if (strcmp(layer->name, "dense") == 0)
        record_flat_dense(e, tensor_of(values[0]), user);
    check_bytes(e, layer->name, tensor_of(values[0]), user);
    for (int k = 0; k < COUNT(PAIRED); k++)
        if (strcmp(PAIRED[k], layer->name) == 0)
            check_pair(e, layer->name, tensor_of(values[0]), tensor_of(values[1]), user);
    const char *act = act_of(e, tensor_of(values[0]));
    for (int k = 0; act && k < COUNT(LOGITS); k++)
        if (strcmp(LOGITS[k].loss, layer->name) == 0 && is_news(e, user, layer->name))
            lint_at(e->settings->silenced, LINT_DOUBLE_SOFTMAX, user,
                    "%s takes logits and applies %s itself, and these are results of %s already; leave out that one", layer->name,
                    LOGITS[k].act, act);
}

/* Checks log(softmax(x)). The simplifier makes log(sigmoid(x)) exact (compiler/passes/simplify). */
void warn_of_log(Elaborator *e, const Layer *layer, Value *const *values, const Place *at)
{
    if (!e->training_pass || strcmp(layer->name, "log") != 0 || at->source->library)
        return;
    const char *act = act_of(e, tensor_of(values[0]));
    if (act && strcmp(act, "softmax") == 0 && is_news(e, at, layer->name))
        lint_at(e->settings->silenced, LINT_LOG_SOFTMAX, at,
                "log(softmax(x)) is -inf where x is 104 or more below its largest value; log_softmax(x) is exact there, too, and "
                "cross_entropy(x, label) needs neither");
}

/* Returns the input that x is computed from element by element, as in image / 255, or NULL. */
static const Node *input_of(const Node *x, int *looks)
{
    const Node *found = x->op == OP_INPUT ? x : NULL;
    for (int k = 0; k < x->inputs && !found && --*looks > 0; k++)
        if (OP_INFO[x->op].op_class == ELEMENTWISE && shape_equal(&x->in[k]->shape, &x->shape))
            found = input_of(x->in[k], looks);
    return found;
}

/* Checks the result of a primitive for windows over the first two axes of an input such as [3, 32, 32], whose first axis is
 * probably the channels. Windows along the second axis alone, such as [1, 5], are taken as intended. */
void warn_of_picture(Elaborator *e, const Value *result, const Place *at)
{
    const Node *n = tensor_of(result);
    bool convolves = n && n->op == OP_CONVOLVE, pools = n && (n->op == OP_WINDOW_MAX || n->op == OP_WINDOW_SUM);
    if (!e->training_pass || !(convolves || pools) || n->in[0]->shape.rank != 3)
        return;
    int looks = 100;
    const int64_t *x = n->in[0]->shape.extent, *window = convolves ? n->in[1]->shape.extent + 2 : n->ints;
    const Node *input = input_of(n->in[0], &looks);
    if (!input || (x[0] != 1 && x[0] != 3 && x[0] != 4) || x[1] <= 4 || x[1] != x[2] || (window[0] == 1 && window[1] > 1) ||
        !is_news(e, input->at, "picture"))
        return;
    const char *name = e->model->inputs[input->ints[0]].name;
    lint_at(e->settings->silenced, LINT_CHANNEL_ORDER, users_place(at),
            "'%s' is %s, so this is a picture %lld high and %lld wide with %lld channels: axes are [height, width, channels] "
            "here; declare "
            "[%lld, %lld, %lld], or, if the data have the channels first, take %s |> transpose([1, 2, 0])",
            name, shape_text(&input->shape), (long long)x[0], (long long)x[1], (long long)x[2], (long long)x[1], (long long)x[2],
            (long long)x[0], name);
}

/* Records results that a loss should not get. */
void record_activation(Elaborator *e, const Layer *layer, const Value *result)
{
    const Node *n = tensor_of(result);
    for (int k = 0; n && e->training_pass && layer->tree->source->library && k < COUNT(ACTS); k++)
        if (strcmp(ACTS[k], layer->name) == 0) {
            Act act = {seen_through(n), layer->name};
            APPEND(e->acts, e->act_count, act);
            return;
        }
}

/* ---- weights that no loss depends on, or only through operations without a gradient */

/* Returns for each node whether the losses depend on it; with `gradient`, whether a gradient reaches it. */
static bool *reached_by_losses(const Graph *g, bool gradient)
{
    bool *seen = NEW_ARRAY(bool, g->node_count);
    for (int k = 0; k < g->result_count; k++)
        if (g->results[k].role == ROLE_LOSS) {
            seen[g->results[k].value->id] = true;
            if (g->results[k].weight)
                seen[g->results[k].weight->id] = true;
        }
    reach_back(g, seen, gradient);
    return seen;
}

/* Returns for each variable whether one of its nodes is in `seen`. */
static bool *variables_in(const Graph *g, const bool *seen)
{
    bool *in = NEW_ARRAY(bool, g->model->variable_count);
    for (int i = 0; i < g->node_count; i++)
        if (seen[i] && g->nodes[i]->op == OP_VARIABLE)
            in[g->nodes[i]->ints[0]] = true;
    return in;
}

/* objective: from 1; 0: the model has none, or the variable is not trained */
static const Graph *training_graph(const Model *m, int objective)
{
    return objective ? m->objectives[objective - 1].train : m->train;
}

/* Returns for each variable whether a gradient of the losses that train it reaches it. */
static bool *variables_reached(const Model *m)
{
    bool *reached = NEW_ARRAY(bool, m->variable_count);
    for (int o = 0; o <= m->objective_count; o++) {
        const Graph *g = training_graph(m, o);
        const bool *in = variables_in(g, reached_by_losses(g, true));
        for (int k = 0; k < m->variable_count; k++)
            if (m->variables[k].objective == o)
                reached[k] = in[k];
    }
    return reached;
}

/* Returns the first node on the way from variable v to the losses that stops the gradient, or NULL. */
static const Node *stop_of_variable(const Graph *g, int v, const bool *depended)
{
    bool *from = NEW_ARRAY(bool, g->node_count);
    for (int i = 0; i < g->node_count; i++)
        from[i] = g->nodes[i]->op == OP_VARIABLE && g->nodes[i]->ints[0] == v;
    return gradient_stop(g, from, depended);
}

/* Returns the length of the path of the outermost instance without any reached weight, or of the whole name if there is none. */
static size_t unreached_prefix(const Model *m, const bool *reached, const char *name)
{
    for (const char *dot = strchr(name, '.'); dot; dot = strchr(dot + 1, '.')) {
        size_t length = (size_t)(dot - name);
        bool lost = true;
        for (int k = 0; k < m->variable_count && lost; k++)
            lost = !reached[k] || m->variables[k].kind != WEIGHT || strncmp(m->variables[k].name, name, length + 1) != 0;
        if (lost)
            return length;
    }
    return strlen(name);
}

void warn_of_lost_weights(Elaborator *e)
{
    enum { MOST = 4 };
    const Model *m = e->model;
    const bool *reached = variables_reached(m);
    const Place *next = NULL;
    Map said = {0};
    for (int k = 0; k < m->variable_count; k++) {
        const Variable *v = &m->variables[k];
        if (v->kind != WEIGHT || !v->trained || reached[k])
            continue;
        size_t length = unreached_prefix(m, reached, v->name);
        const char *part = copy_text(v->name, length);
        if (map_get(&said, part))
            continue;
        map_set(&said, part, (void *)(uintptr_t)v);
        if (said.count == MOST + 1)
            next = users_place(v->at);
        if (said.count > MOST)
            continue;
        const Graph *g = training_graph(m, v->objective);
        const Node *stop = stop_of_variable(g, k, reached_by_losses(g, false));
        if (stop) {
            lint_at(
                e->settings->silenced, LINT_UNUSED_WEIGHTS, users_place(v->at),
                "no gradient reaches %s '%s': %s in line %d lets none through, and no other way leads to a loss; make the loss "
                "without it, or write %s { frozen = true } in train",
                v->name[length] ? "the weights of" : "the weight", part, stop_word(stop), users_line(stop->at),
                string_literal(part));
            continue;
        }
        lint_at(e->settings->silenced, LINT_UNUSED_WEIGHTS, users_place(v->at),
                "no loss depends on %s '%s': nothing trains %s; use what comes of it in a loss, or write "
                "%s { frozen = true } in train",
                v->name[length] ? "the weights of" : "the weight", part, v->name[length] ? "them" : "it", string_literal(part));
    }
    if (next)
        lint_at(e->settings->silenced, LINT_UNUSED_WEIGHTS, next, "nothing trains the weights of '%s' either%s", said.keys[MOST],
                said.count > MOST + 1 ? format(", nor those of %d more parts", said.count - MOST - 1) : "");
}

/* ---- files of weights for another order of axes */

/* True for an existing file of weights, or a folder of such files, that no program of ours and no Keras has written. Ours begin
 * with their metadata (runtime/weights/safetensors.c). */
static bool is_foreign(const char *path)
{
    enum { LENGTH = 8 }; /* size of the header's length field in bytes */
    static const char OURS[] = "{\"__metadata__\":{\"format\":\"pt\",\"step\":\"";
    char begin[LENGTH + sizeof OURS] = {0};
    struct stat s;
    if (stat(path, &s) != 0)
        return false;
    if (S_ISDIR(s.st_mode))
        return stat(format("%s/weights.safetensors", path), &s) != 0; /* a folder with this file is the save of a run */
    FILE *f = S_ISREG(s.st_mode) ? fopen(path, "re") : NULL;
    if (!f)
        return false;
    size_t got = fread(begin, 1, sizeof begin - 1, f);
    fclose(f);
    size_t length = strlen(path);
    bool keras = strncmp(begin, "\x89HDF", 4) == 0 || (length > 6 && strcmp(path + length - 6, ".keras") == 0);
    return got > LENGTH && !keras && strncmp(begin + LENGTH, OURS, sizeof OURS - 1) != 0;
}

/* Checks the files that the train block names; the program checks those of --init (runtime/run/initials.c). */
void warn_of_channel_order(Elaborator *e)
{
    const Model *m = e->model;
    const Place **at = NEW_ARRAY(const Place *, m->variable_count);
    for (int k = 0; k < e->flat_dense_count; k++) {
        const FlatDense *d = &e->flat_denses[k];
        const char *name = d->path[0] ? format("%s.weight", d->path) : "weight";
        for (int v = 0; v < m->variable_count; v++)
            if (strcmp(m->variables[v].name, name) == 0) {
                m->variables[v].flattened = d->shape;
                at[v] = d->at;
            }
    }
    for (int i = 0; i < m->initial_count; i++) {
        const Initial *file = &m->initials[i];
        bool foreign = file->path && e->flat_dense_count && is_foreign(file->path);
        for (int k = 0; foreign && k < file->variable_count; k++) {
            const Variable *v = &m->variables[file->variables[k]];
            if (v->flattened && is_news(e, at[file->variables[k]], file->path))
                lint_at(e->settings->silenced, LINT_CHANNEL_ORDER, at[file->variables[k]],
                        "'%s' begins with %s, which mgpuc has not written, and multiplies a flattened %s, channels last; weights "
                        "of PyTorch are for channels first: x |> flatten(order = \"chw\") takes them",
                        v->name, file->path, v->flattened);
        }
    }
}
