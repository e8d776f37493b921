/* torch.c: prints operations of the exported graph as lines of Python. Values have their names in the model. */
#include "compiler/export/torch.h"

#include <ctype.h>
#include <math.h>
#include <string.h>

typedef void Print(Writing *, const ExportedOp *);

/* The number of later lines that read a value. At 0, another value may take its Python name. */
typedef struct Holder {
    int readers;
} Holder;

/* ---- names and numbers */
static bool is_literal(const ExportedTensor *v) { return v->data && v->rank == 0; }

static const ExportedTensor *input(const ExportedOp *op, int i) { return op->more ? op->more[i] : op->in[i]; }

static const char *name_of(Writing *w, const ExportedTensor *v)
{
    const char *known = map_get(w->names, v->name);
    if (is_literal(v))
        return python_number(v->data[0], v->dtype);
    if (v->data) {
        map_set(w->constants, v->name, w);
        return format("self.%s", v->name);
    }
    if (!known && v->variable >= 0)
        return variable_access(w, v->variable);
    if (!known)
        die("'%s' is read before it is written", v->name);
    return known;
}

const char *tensor_of(Writing *w, const ExportedTensor *v)
{
    return is_literal(v) ? format("torch.tensor(%s, dtype=%s)", name_of(w, v), python_dtype(v->dtype)) : name_of(w, v);
}

static Holder *holder_of(Writing *w, const ExportedTensor *v)
{
    Holder *h = map_get(w->holders, v->name);
    if (!h)
        map_set(w->holders, v->name, h = NEW(Holder));
    return h;
}

void hold(Writing *w, const ExportedTensor *const *v, int count)
{
    for (int i = 0; i < count; i++)
        holder_of(w, v[i])->readers++;
}

void release(Writing *w, const ExportedTensor *const *v, int count)
{
    for (int i = 0; i < count; i++)
        holder_of(w, v[i])->readers--;
}

/* Returns a Python name for a value. again: it may be the name of a value that no later line reads. */
static const char *take_name(Writing *w, const char *label, bool again, Holder *holder)
{
    const char *word = python_word(label), *name = word;
    Holder *h = map_get(w->used, name);
    for (int n = 2; h && (!again || w->loops || h->readers > 0); h = map_get(w->used, name))
        name = format("%s_%d", word, n++);
    holder->readers += w->loops; /* reads in loops are not counted, so the name is not reused */
    map_set(w->used, name, holder);
    return name;
}

const char *result_called(Writing *w, const ExportedTensor *v, const char *label, bool again)
{
    const char *name = take_name(w, label, again, holder_of(w, v));
    map_set(w->names, v->name, (void *)(uintptr_t)name);
    return name;
}

/* Returns a name for a value that is not in the graph. */
static const char *helper(Writing *w, const char *label)
{
    Holder *h = NEW(Holder);
    h->readers = 1;
    return take_name(w, label, false, h);
}

/* Returns the name in the model, else the name of the module that computes it, else the operation: "layer1.0/Add_2" -> add. */
const char *label_of(const Writing *w, const ExportedTensor *v, const Module *made_by)
{
    while (made_by && made_by->parent && !isalpha((unsigned char)*made_by->name))
        made_by = made_by->parent;
    bool own = made_by && made_by->form == MODULE_LEAF && v->label && strcmp(v->label, "y") == 0; /* the library's name */
    if (v->label && !own && !map_get(w->leaving, v->name))
        return v->label;
    if (made_by && made_by->parent)
        return made_by->name;
    const char *slash = strrchr(v->name, '/');
    char lower[64] = "";
    size_t n = 0;
    for (const char *p = slash ? slash + 1 : v->name; isalpha((unsigned char)*p) && n < sizeof lower - 1; p++)
        lower[n++] = (char)tolower((unsigned char)*p);
    return copy_text(lower, n);
}

static const char *result(Writing *w, const ExportedTensor *v) { return result_called(w, v, label_of(w, v, NULL), false); }

const ExportedAttribute *attribute_named(const ExportedOp *op, const char *name)
{
    for (int i = 0; i < op->attribute_count; i++)
        if (strcmp(op->attributes[i].name, name) == 0)
            return &op->attributes[i];
    return NULL;
}

static int64_t whole(const ExportedOp *op, const char *name) { return attribute_named(op, name)->list[0]; }

void line(Writing *w, const char *pattern, ...)
{
    va_list list;
    va_start(list, pattern);
    text_add(w->text, "%*s%s\n", 4 * w->indent, "", vformat(pattern, list));
    va_end(list);
}

static void assign(Writing *w, const ExportedOp *op, const char *expression)
{
    line(w, "%s = %s", result_called(w, op->out[0], label_of(w, op->out[0], NULL), true), expression);
}

/* ---- operations */
static void print_numbers(const ExportedTensor *v, int64_t *to)
{
    for (int i = 0; i < v->extent[0]; i++)
        to[i] = (int64_t)v->data[i];
}

static void print_cast(Writing *w, const ExportedOp *op)
{
    assign(w, op, format("%s.to(%s)", tensor_of(w, op->in[0]), python_dtype((Dtype)whole(op, "to"))));
}

static const char *extents_text(const ExportedTensor *v)
{
    int64_t e[EXPORTED_RANK];
    memcpy(e, v->extent, sizeof e);
    const char *t = python_tuple(e, v->rank);
    return v->rank == 1 ? format("%lld", (long long)e[0]) : copy_text(t + 1, strlen(t) - 2);
}

static void print_reshape(Writing *w, const ExportedOp *op)
{
    if (op->out[0]->rank == 0)
        assign(w, op, format("%s.reshape(())", tensor_of(w, op->in[0])));
    else
        assign(w, op, format("%s.reshape(%s)", tensor_of(w, op->in[0]), extents_text(op->out[0])));
}

static void print_expand(Writing *w, const ExportedOp *op)
{
    assign(w, op, format("%s.expand(%s)", tensor_of(w, op->in[0]), extents_text(op->out[0])));
}

static void print_expand_to_batch(Writing *w, const ExportedOp *op)
{
    const char *rest = op->out[0]->rank > 1 ? strchr(extents_text(op->out[0]), ',') : "";
    assign(w, op, format("%s.expand(len(%s)%s)", tensor_of(w, op->in[0]), name_of(w, op->in[1]), rest));
}

static void print_transpose(Writing *w, const ExportedOp *op)
{
    const ExportedAttribute *a = attribute_named(op, "perm");
    const char *t = python_tuple(a->list, a->count);
    assign(w, op, format("%s.permute(%s)", name_of(w, op->in[0]), copy_text(t + 1, strlen(t) - 2)));
}

static void print_slice(Writing *w, const ExportedOp *op)
{
    int64_t start[EXPORTED_RANK], end[EXPORTED_RANK], axes[EXPORTED_RANK], step[EXPORTED_RANK];
    print_numbers(op->in[1], start), print_numbers(op->in[2], end), print_numbers(op->in[3], axes),
        print_numbers(op->in[4], step);
    const char *x = name_of(w, op->in[0]);
    for (int axis = 0, last = 0; axis < op->in[0]->rank; axis++)
        for (int i = 0; i < op->in[1]->extent[0]; i++) {
            if (axes[i] != axis)
                continue;
            if (step[i] > 0) {
                Text t = {0};
                for (last = 0; last < axis; last++)
                    text_add(&t, ":, ");
                text_add(&t, "%lld:%lld", (long long)start[i], (long long)end[i]);
                if (step[i] > 1)
                    text_add(&t, ":%lld", (long long)step[i]);
                x = format("%s[%s]", x, text_of(&t));
            } else { /* slices of PyTorch cannot have negative steps */
                int64_t count = op->out[0]->extent[axis];
                x = format("%s.index_select(%d, torch.arange(%lld, %lld, %lld, device=%s.device))", x, axis, (long long)start[i],
                           (long long)(start[i] + count * step[i]), (long long)step[i], name_of(w, op->in[0]));
            }
        }
    assign(w, op, x);
}

static void print_concat(Writing *w, const ExportedOp *op)
{
    Text t = {0};
    for (int i = 0; i < op->inputs; i++)
        text_add(&t, "%s%s", i ? ", " : "", tensor_of(w, input(op, i)));
    assign(w, op, format("torch.cat((%s%s), %lld)", text_of(&t), op->inputs == 1 ? "," : "", (long long)whole(op, "axis")));
}

static void print_pad(Writing *w, const ExportedOp *op)
{
    int64_t pads[2 * EXPORTED_RANK], list[2 * EXPORTED_RANK];
    int r = op->in[0]->rank, count = 0, needed = 0;
    print_numbers(op->in[1], pads);
    for (int i = r - 1; i >= 0; i--) { /* the last axis first */
        list[count++] = pads[i];
        list[count++] = pads[i + r];
        needed = pads[i] || pads[i + r] ? count : needed;
    }
    double value = op->in[2]->data[0];
    assign(w, op,
           format("F.pad(%s, %s%s)", name_of(w, op->in[0]), python_tuple(list, needed),
                  value != 0 ? format(", value=%s", name_of(w, op->in[2])) : ""));
}

static void print_reduce(Writing *w, const ExportedOp *op)
{
    int64_t axes[EXPORTED_RANK];
    print_numbers(op->in[1], axes);
    bool sum = strcmp(op->kind, "ReduceSum") == 0;
    const char *which =
        op->in[1]->extent[0] == 1 ? format("%lld", (long long)axes[0]) : python_tuple(axes, (int)op->in[1]->extent[0]);
    const char *type = sum && !dtype_is_float(op->out[0]->dtype) ? format(", dtype=%s", python_dtype(op->out[0]->dtype)) : "";
    assign(w, op, format("%s.%s(%s%s)", tensor_of(w, op->in[0]), sum ? "sum" : "amax", which, type));
}

static void print_argmax(Writing *w, const ExportedOp *op)
{
    assign(w, op, format("%s.argmax(%lld)", name_of(w, op->in[0]), (long long)whole(op, "axis")));
}

static void print_cumsum(Writing *w, const ExportedOp *op)
{
    long long axis = (long long)op->in[1]->data[0];
    const char *x = name_of(w, op->in[0]),
               *type = dtype_is_float(op->out[0]->dtype) ? "" : format(", dtype=%s", python_dtype(op->out[0]->dtype));
    assign(w, op,
           whole(op, "reverse") ? format("%s.flip(%lld).cumsum(%lld%s).flip(%lld)", x, axis, axis, type, axis)
                                : format("%s.cumsum(%lld%s)", x, axis, type));
}

static void print_einsum(Writing *w, const ExportedOp *op)
{
    Text t = {0};
    for (int i = 0; i < op->inputs; i++)
        text_add(&t, ", %s", tensor_of(w, input(op, i)));
    assign(w, op, format("torch.einsum(%s%s)", python_text(attribute_named(op, "equation")->text), text_of(&t)));
}

/* Returns the keyword argument, or "" if all numbers are the default. */
static const char *unless(const char *name, const int64_t *v, int count, int64_t usual)
{
    for (int i = 0; i < count; i++)
        if (v[i] != usual)
            return format(", %s=%s", name, python_each(v, count));
    return "";
}

static void print_conv(Writing *w, const ExportedOp *op)
{
    const ExportedAttribute *stride = attribute_named(op, "strides"), *pads = attribute_named(op, "pads"),
                            *dilation = attribute_named(op, "dilations");
    int n = stride->count;
    assign(w, op,
           format("F.conv%dd(%s, %s%s%s%s%s%s)", n, name_of(w, op->in[0]), tensor_of(w, op->in[1]),
                  op->inputs > 2 ? format(", %s", name_of(w, op->in[2])) : "", unless("stride", stride->list, n, 1),
                  unless("padding", pads->list, n, 0), unless("dilation", dilation->list, n, 1),
                  unless("groups", attribute_named(op, "group")->list, 1, 1)));
}

static void print_pool(Writing *w, const ExportedOp *op)
{
    const ExportedAttribute *size = attribute_named(op, "kernel_shape"), *stride = attribute_named(op, "strides"),
                            *pads = attribute_named(op, "pads");
    int n = size->count;
    assign(w, op,
           format("F.%s_pool%dd(%s, %s, %s%s)", strcmp(op->kind, "MaxPool") == 0 ? "max" : "avg", n, name_of(w, op->in[0]),
                  python_each(size->list, n), python_each(stride->list, n), unless("padding", pads->list, n, 0)));
}

static void print_softmax(Writing *w, const ExportedOp *op)
{
    assign(w, op, format("torch.softmax(%s, %lld)", name_of(w, op->in[0]), (long long)whole(op, "axis")));
}

static void print_batchnorm(Writing *w, const ExportedOp *op)
{
    assign(w, op,
           format("F.batch_norm(%s, %s, %s, %s, %s, eps=%s)", name_of(w, op->in[0]), name_of(w, op->in[3]), name_of(w, op->in[4]),
                  name_of(w, op->in[1]), name_of(w, op->in[2]), python_number(attribute_named(op, "epsilon")->number, F64)));
}

static void print_layernorm(Writing *w, const ExportedOp *op)
{
    const ExportedTensor *x = op->in[0];
    assign(w, op,
           format("F.layer_norm(%s, (%lld,), %s%s, eps=%s)", name_of(w, x), (long long)x->extent[x->rank - 1],
                  name_of(w, op->in[1]), op->inputs > 2 ? format(", %s", name_of(w, op->in[2])) : "",
                  python_number(attribute_named(op, "epsilon")->number, F64)));
}

static void print_gather(Writing *w, const ExportedOp *op)
{
    Text t = {0};
    int64_t axis = whole(op, "axis");
    if (axis == 0 && op->in[0]->rank == 2 && op->in[0]->variable >= 0) {
        assign(w, op, format("F.embedding(%s, %s)", name_of(w, op->in[1]), name_of(w, op->in[0])));
        return;
    }
    for (int i = 0; i < axis; i++)
        text_add(&t, ":, ");
    assign(w, op, format("%s[%s%s]", tensor_of(w, op->in[0]), text_of(&t), name_of(w, op->in[1])));
}

static void print_gather_nd(Writing *w, const ExportedOp *op)
{
    const char *x = name_of(w, op->in[0]), *at = name_of(w, op->in[1]);
    Text ones = {0};
    for (int i = 2; i < op->in[1]->rank; i++)
        text_add(&ones, ", 1");
    assign(w, op, format("%s[torch.arange(len(%s), device=%s.device).reshape(-1%s), %s[..., 0]]", x, x, x, text_of(&ones), at));
}

static void print_top_k(Writing *w, const ExportedOp *op)
{
    const char *values = result(w, op->out[0]),
               *places = result(w, op->out[1]); /* a stable sort keeps equal numbers in order; torch.topk does not promise that */
    long long axis = (long long)whole(op, "axis"), k = (long long)op->in[1]->data[0];
    line(w, "%s, %s = (v.narrow(%lld, 0, %lld) for v in torch.sort(%s, dim=%lld, descending=True, stable=True))", values, places,
         axis, k, name_of(w, op->in[0]), axis);
}

static void print_limit(Writing *w, const ExportedOp *op)
{
    bool least = strcmp(op->kind, "Min") == 0;
    for (int i = 0; i < 2; i++)
        if (is_literal(op->in[i]) && !is_literal(op->in[1 - i])) {
            assign(w, op, format("%s.clamp(%s=%s)", name_of(w, op->in[1 - i]), least ? "max" : "min", name_of(w, op->in[i])));
            return;
        }
    assign(w, op, format("torch.%s(%s, %s)", least ? "minimum" : "maximum", tensor_of(w, op->in[0]), tensor_of(w, op->in[1])));
}

static void print_div(Writing *w, const ExportedOp *op)
{
    if (dtype_is_float(op->out[0]->dtype))
        assign(w, op,
               format("%s / %s", is_literal(op->in[1]) ? tensor_of(w, op->in[0]) : name_of(w, op->in[0]), name_of(w, op->in[1])));
    else
        assign(w, op, format("torch.div(%s, %s, rounding_mode=\"floor\")", tensor_of(w, op->in[0]), name_of(w, op->in[1])));
}

static void print_where(Writing *w, const ExportedOp *op)
{
    bool both = is_literal(op->in[1]) && is_literal(op->in[2]);
    assign(w, op,
           format("torch.where(%s, %s, %s)", tensor_of(w, op->in[0]), both ? tensor_of(w, op->in[1]) : name_of(w, op->in[1]),
                  name_of(w, op->in[2])));
}

static void print_attention(Writing *w, const ExportedOp *op)
{
    int64_t causal = whole(op, "causal"), window = whole(op, "window"), group = whole(op, "group");
    const ExportedTensor *q = op->in[0], *k = op->in[1];
    long long t = (long long)q->extent[q->rank - 3], s = (long long)k->extent[k->rank - 3];
    const char *in[3], *y = result(w, op->out[0]), *mask = "";
    for (int i = 0; i < 3; i++)
        in[i] = format("%s.transpose(-3, -2)", tensor_of(w, op->in[i]));
    if (causal && t == s && window == 0)
        mask = ", is_causal=True";
    else if (causal || window > 0) /* query i reads key j if i + s - t - j is at least 0 (causal) and below the window */
        mask = format(", attn_mask=torch.ones(%lld, %lld, dtype=torch.bool, device=%s.device)%s%s", t, s, name_of(w, q),
                      causal ? format(".tril(%lld)", s - t) : "",
                      window > 0 ? format(".triu(%lld)", s - t - (long long)window + 1) : "");
    line(w, "%s = F.scaled_dot_product_attention(%s, %s, %s%s, scale=%s%s).transpose(-3, -2)", y, in[0], in[1], in[2], mask,
         python_number(attribute_named(op, "scale")->number, F64), group > 1 ? ", enable_gqa=True" : "");
}

static void print_scan(Writing *w, const ExportedOp *op)
{
    const Exported *body = attribute_named(op, "body")->graph;
    int sequences = (int)whole(op, "num_scan_inputs"), carries = op->inputs - sequences, stacks = body->output_count - carries;
    const int64_t *axes = attribute_named(op, "scan_input_axes")->list;
    const char **state = NEW_ARRAY(const char *, carries), **list = NEW_ARRAY(const char *, stacks);
    hold(w, body->inputs, body->input_count);
    for (int k = 0; k < carries; k++) {
        state[k] = result(w, body->inputs[k]);
        line(w, "%s = %s", state[k], tensor_of(w, input(op, k)));
    }
    for (int k = 0; k < stacks; k++)
        line(w, "%s = []", list[k] = helper(w, "steps"));
    const char *t = helper(w, "step");
    line(w, "for %s in range(%lld):", t, (long long)whole(op, "steps"));
    w->indent++, w->loops++;
    for (int k = 0; k < sequences; k++) {
        const char *from = tensor_of(w, input(op, carries + k)), *name = result(w, body->inputs[carries + k]);
        line(w, "%s = %s[%s%s]", name, from, axes[k] ? ":, " : "", t);
    }
    for (int i = 0; i < body->op_count; i++)
        print_op(w, body->ops[i]);
    for (int k = 0; k < stacks; k++)
        line(w, "%s.append(%s)", list[k], tensor_of(w, body->outputs[carries + k]));
    Text left = {0}, right = {0};
    for (int k = 0; k < carries; k++) {
        text_add(&left, "%s%s", k ? ", " : "", state[k]);
        text_add(&right, "%s%s", k ? ", " : "", tensor_of(w, body->outputs[k]));
    }
    if (carries)
        line(w, "%s = %s", text_of(&left), text_of(&right));
    w->indent--, w->loops--;
    for (int k = 0; k < carries; k++)
        map_set(w->names, op->out[k]->name, (void *)(uintptr_t)state[k]);
    for (int k = 0; k < stacks; k++)
        line(w, "%s = torch.stack(%s, %lld)", result(w, op->out[carries + k]), list[k],
             (long long)attribute_named(op, "scan_output_axes")->list[k]);
}

/* Gives the output the name of the input, and prints nothing. */
static void print_identity(Writing *w, const ExportedOp *op)
{
    const ExportedTensor *v = op->in[0];
    map_set(w->names, op->out[0]->name, (void *)(uintptr_t)tensor_of(w, v));
    if (w->loops || !map_get(w->holders, v->name))
        return;
    Holder *h = holder_of(w, v);
    h->readers += holder_of(w, op->out[0])->readers;
    map_set(w->holders, op->out[0]->name, h);
}

/* ---- the table: $0, $1 are operands as tensors; #0, #1 are operands that may be printed as numbers */
static const struct TorchRow {
    const char *kind, *text;
    Print *print;
} ROWS[] = {
    {"Add", "#0 + #1", NULL},
    {"Sub", "#0 - #1", NULL},
    {"Mul", "#0 * #1", NULL},
    {"Div", NULL, print_div},
    {"Pow", "torch.pow(#0, #1)", NULL}, /* in Python, -2.0 ** x is -(2.0 ** x) */
    {"Mod", "torch.remainder($0, #1)", NULL},
    {"Min", NULL, print_limit},
    {"Max", NULL, print_limit},
    {"Equal", "#0 == #1", NULL},
    {"Less", "#0 < #1", NULL},
    {"LessOrEqual", "#0 <= #1", NULL},
    {"And", "#0 & #1", NULL},
    {"Or", "#0 | #1", NULL},
    {"Not", "~$0", NULL},
    {"Where", NULL, print_where},
    {"Cast", NULL, print_cast},
    {"Abs", "$0.abs()", NULL},
    {"Floor", "$0.floor()", NULL},
    {"Sqrt", "torch.sqrt($0)", NULL},
    {"Exp", "torch.exp($0)", NULL},
    {"Log", "torch.log($0)", NULL},
    {"Expm1", "torch.expm1($0)", NULL},
    {"Log1p", "torch.log1p($0)", NULL},
    {"Sigmoid", "torch.sigmoid($0)", NULL},
    {"Sin", "torch.sin($0)", NULL},
    {"Cos", "torch.cos($0)", NULL},
    {"Tanh", "torch.tanh($0)", NULL},
    {"Atan2", "torch.atan2($0, $1)", NULL},
    {"Erf", "torch.erf($0)", NULL},
    {"BitwiseAnd", "#0 & #1", NULL},
    {"BitwiseOr", "#0 | #1", NULL},
    {"BitwiseXor", "#0 ^ #1", NULL},
    {"BitwiseNot", "~$0", NULL},
    {"ReduceSum", NULL, print_reduce},
    {"ReduceMax", NULL, print_reduce},
    {"ArgMax", NULL, print_argmax},
    {"CumSum", NULL, print_cumsum},
    {"Einsum", NULL, print_einsum},
    {"Conv", NULL, print_conv},
    {"Attention", NULL, print_attention},
    {"MaxPool", NULL, print_pool},
    {"AveragePool", NULL, print_pool},
    {"Reshape", NULL, print_reshape},
    {"Transpose", NULL, print_transpose},
    {"Slice", NULL, print_slice},
    {"Concat", NULL, print_concat},
    {"Pad", NULL, print_pad},
    {"Expand", NULL, print_expand},
    {"ExpandToBatch", NULL, print_expand_to_batch},
    {"Gather", NULL, print_gather},
    {"GatherND", NULL, print_gather_nd},
    {"ScatterElements", "$0.scatter_add(1, $1, $2)", NULL},
    {"TopK", NULL, print_top_k},
    {"Softmax", NULL, print_softmax},
    {"Relu", "F.relu($0)", NULL},
    {"Gelu", "F.gelu($0)", NULL},
    {"BatchNormalization", NULL, print_batchnorm},
    {"LayerNormalization", NULL, print_layernorm},
    {"Linear", "F.linear($0, $1, $2)", NULL},
    {"Scan", NULL, print_scan},
    {"Identity", NULL, print_identity},
};

static void print_row(Writing *w, const ExportedOp *op, const char *text)
{
    Text t = {0};
    bool numbers = true; /* if all operands are numbers, the first becomes a tensor */
    for (int i = 0; i < op->inputs; i++)
        numbers = numbers && is_literal(op->in[i]);
    for (; *text; text++) {
        int k = text[1] - '0';
        if ((*text != '$' && *text != '#') || k < 0 || k > 9) {
            text_add(&t, "%c", *text);
        } else if (k < op->inputs) {
            text_add(&t, "%s", *text == '$' || (numbers && k == 0) ? tensor_of(w, op->in[k]) : name_of(w, op->in[k]));
            text++;
        } else { /* removes the comma before an omitted operand */
            t.length -= 2;
            t.data[t.length] = 0;
            text++;
        }
    }
    assign(w, op, text_of(&t));
}

void print_op(Writing *w, const ExportedOp *op)
{
    int row = 0;
    while (row < COUNT(ROWS) && strcmp(ROWS[row].kind, op->kind) != 0)
        row++;
    if (row == COUNT(ROWS))
        die("no row of PyTorch for %s", op->kind);
    const Module *leaf = leaf_called(w, op);
    const char *call = leaf ? format("%s(%s)", module_access(w, leaf), tensor_of(w, leaf_input(op))) : NULL;
    if (leaf)
        line(w, "%s = %s", result_called(w, op->out[0], label_of(w, op->out[0], leaf), true), call);
    else if (ROWS[row].print)
        ROWS[row].print(w, op);
    else
        print_row(w, op, ROWS[row].text);
}
