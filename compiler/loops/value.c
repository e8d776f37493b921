/* value.c: terms of expressions, and names of variables, which are those of the model where it has any. */
#include "compiler/loops/lower.h"
#include "compiler/loops/vector.h"
#include "runtime/abi/mgpu.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *const C_TYPE[DTYPES] = {"bool",    "uint8_t", "int8_t", "uint16_t", "int16_t", "uint32_t",
                                    "int32_t", "int64_t", "float",  "float",    "float",   "double"};

const char *type_of(const Lowering *p, const Expr *e)
{
    return p->is_64_bit && expr_is_index(e) && !p->is_64_bit(p->nest, e) ? "int" : C_TYPE[e->dtype];
}

/* gcc does not vectorize loads of bool. */
const char *element_type(Dtype t) { return t == BF16 ? "mgpu_bf16" : t == F16 ? "mgpu_f16" : t == BOOL ? "uint8_t" : C_TYPE[t]; }

/* ---- names */

const Term *fresh_name(Lowering *p, const char *word)
{
    const char *name = word;
    uintptr_t number = (uintptr_t)map_get(&p->names, name); /* the last one used: name, name_2, ... */
    while (map_get(&p->names, name))
        name = format("%s_%d", word, (int)++number);
    if (name != word)
        map_set(&p->names, word, (void *)number);
    map_set(&p->names, name, NAME_TAKEN);
    return term_name(name);
}

const Term *name_like(Lowering *p, const char *wish)
{
    const char *name = c_name(wish);
    return fresh_name(p, name ? name : "value");
}

static const Tensor *argument_at(const Kernel *k, int i)
{
    return i < k->read_count ? k->reads[i] : k->writes[i - k->read_count];
}

/* Returns true if the kernel has values of several layers: two of them whose names end in the same word. */
static bool has_several_layers(const Kernel *k)
{
    Map words = {0};
    for (int i = 0; i < k->read_count + k->write_count; i++) {
        const Tensor *t = argument_at(k, i), *other = map_get(&words, kernel_argument_name(t));
        if (other && other->id != t->id)
            return true;
        map_set(&words, kernel_argument_name(t), (void *)(uintptr_t)t);
    }
    return false;
}

/* Returns "conv_1.weight.m" of a variable, "conv_1.weight.gradient", or the layer and the word of another value:
 * "conv_1.relu". */
static const char *path_of(const Tensor *t, const Graph *g, const char *const *gradient)
{
    const Node *n = t->node;
    if (t->kind == TENSOR_VARIABLE)
        return t->name + strlen("w.");
    if (n && n->graph == g && gradient[n->id])
        return format("%s.gradient", gradient[n->id]);
    return n && n->path && *n->path ? format("%s.%s", n->path, kernel_argument_name(t)) : kernel_argument_name(t);
}

/* Returns the bytes of the leading words, with their dots, that both have in common; the last word is never part of it. */
static size_t common_words(const char *a, const char *b, size_t length)
{
    size_t words = 0;
    for (size_t i = 0; i < length && a[i] && a[i] == b[i]; i++)
        words = a[i] == '.' ? i + 1 : words;
    return words;
}

/* Leaves out words before the last one until the path has at most so many bytes: "conv_1.he_1.normal_1.u" -> "conv_1.he_1.u". */
static const char *shortened(const char *path, size_t most)
{
    for (const char *last = strrchr(path, '.'); last && strlen(path) > most; last = strrchr(path, '.')) {
        const char *before = last;
        while (before > path && before[-1] != '.')
            before--;
        if (before == path)
            break;
        path = format("%.*s%s", (int)(before - 1 - path), path, last);
    }
    return path;
}

/* Returns true if the argument is no variable and no other one has the same last word. */
static bool is_known_by_word(const Kernel *k, int argument)
{
    const Tensor *t = argument_at(k, argument);
    for (int i = 0; i < k->read_count + k->write_count; i++)
        if (argument_at(k, i)->id != t->id && strcmp(kernel_argument_name(argument_at(k, i)), kernel_argument_name(t)) == 0)
            return false;
    return t->kind != TENSOR_VARIABLE;
}

enum { VALUE_LENGTH = 24 }; /* the most bytes of the path of a value that is no variable */

/* Sets the names that arguments get: the last word of the tensor's name or, in a kernel of several layers, its path without the
 * words that all have in common. */
static void name_arguments(Lowering *p)
{
    const Kernel *k = p->kernel;
    int count = k->read_count + k->write_count;
    const Graph *g = NULL;
    p->argument_name = NEW_ARRAY(const char *, count + 1);
    bool several = has_several_layers(k);
    for (int i = 0; i < count; i++) {
        const Tensor *t = argument_at(k, i);
        g = g || t->kind == TENSOR_VARIABLE || !t->node ? g : t->node->graph;
        p->argument_name[i] = kernel_argument_name(t);
    }
    const char **gradient = several && g ? graph_summed_weights(g) : NULL;
    size_t common = SIZE_MAX;
    for (int i = 0; i < count && several; i++) {
        p->argument_name[i] = path_of(argument_at(k, i), g, gradient);
        common = common_words(p->argument_name[i], p->argument_name[0], common);
    }
    for (int i = 0; i < count && several; i++) {
        const Tensor *t = argument_at(k, i);
        const char *path = p->argument_name[i] + common;
        bool weight = t->kind == TENSOR_VARIABLE || (t->node && t->node->graph == g && gradient && gradient[t->node->id]);
        p->argument_name[i] = weight                   ? shortened(path, C_NAME_LENGTH)
                              : is_known_by_word(k, i) ? kernel_argument_name(t)
                                                       : shortened(path, VALUE_LENGTH);
    }
}

const char *argument_name(Lowering *p, const Tensor *t)
{
    if (!p->argument_name)
        name_arguments(p);
    for (int i = 0; i < p->kernel->read_count + p->kernel->write_count; i++)
        if (argument_at(p->kernel, i)->id == t->id)
            return p->argument_name[i];
    return kernel_argument_name(t);
}

static const char *const RESERVED[] = {
    "argument", "step",      "part",      "n",        "begin",    "end",     "first",   "path",     "auto",     "bool",
    "break",    "case",      "char",      "const",    "continue", "default", "do",      "double",   "else",     "enum",
    "extern",   "float",     "for",       "goto",     "if",       "inline",  "int",     "long",     "register", "restrict",
    "return",   "short",     "signed",    "sizeof",   "static",   "struct",  "switch",  "typedef",  "union",    "unsigned",
    "void",     "volatile",  "while",     "true",     "false",    "asm",     "typeof",  "linux",    "unix",     "NULL",
    "INFINITY", "NAN",       "int8_t",    "int16_t",  "int32_t",  "int64_t", "uint8_t", "uint16_t", "uint32_t", "uint64_t",
    "INT8_MIN", "INT16_MIN", "INT32_MIN", "INT64_MIN"};

/* reserved in C++ and CUDA */
static const char *const RESERVED_CUDA[] = {"alignas",
                                            "alignof",
                                            "and",
                                            "and_eq",
                                            "bitand",
                                            "bitor",
                                            "catch",
                                            "class",
                                            "compl",
                                            "constexpr",
                                            "const_cast",
                                            "decltype",
                                            "delete",
                                            "dynamic_cast",
                                            "explicit",
                                            "export",
                                            "friend",
                                            "mutable",
                                            "namespace",
                                            "new",
                                            "noexcept",
                                            "not",
                                            "not_eq",
                                            "nullptr",
                                            "operator",
                                            "or",
                                            "or_eq",
                                            "private",
                                            "protected",
                                            "public",
                                            "reinterpret_cast",
                                            "static_assert",
                                            "static_cast",
                                            "template",
                                            "this",
                                            "thread_local",
                                            "throw",
                                            "try",
                                            "typeid",
                                            "typename",
                                            "using",
                                            "virtual",
                                            "wchar_t",
                                            "xor",
                                            "xor_eq",
                                            "char16_t",
                                            "char32_t",
                                            "threadIdx",
                                            "blockIdx",
                                            "blockDim",
                                            "gridDim",
                                            "warpSize",
                                            "work",
                                            "given",
                                            "own"};

void reserve_names(Lowering *p)
{
    for (int i = 0; i < COUNT(RESERVED); i++)
        map_set(&p->names, RESERVED[i], NAME_TAKEN);
    for (int i = 0; i < COUNT(RESERVED_CUDA) && p->cuda; i++)
        map_set(&p->names, RESERVED_CUDA[i], NAME_TAKEN);
}

const Term *expression_name(Lowering *p, const Expr *e)
{
    if (e->kind == X_LOAD)
        return name_like(p, format("%s_at", argument_name(p, e->tensor)));
    if (e->kind == X_RANGE || e->kind == X_AND)
        return fresh_name(p, "inside");
    if (e->kind == X_DIV || e->kind == X_MOD || e->kind == X_INDEX_OF || e->kind == X_SAFE || e->kind == X_SUM)
        return fresh_name(p, "at");
    if (e->kind == X_RANDOM)
        return fresh_name(p, "rand");
    if (e->node && e->node->name)
        return name_like(p, e->node->name);
    return e->kind == X_OP && e->op != OP_CAST ? name_like(p, OP_INFO[e->op].name) : fresh_name(p, "value");
}

bool kernel_writes(const Kernel *k, const Tensor *tensor)
{
    for (int i = 0; i < k->write_count; i++)
        if (k->writes[i]->id == tensor->id)
            return true;
    return false;
}

const char *shape_remark(const Tensor *t)
{
    return c_comment("[%s%s", t->has_samples ? t->shape.rank ? "n, " : "n" : "", shape_text(&t->shape) + 1);
}

/* ---- numbers */

static const Term *whole_term(int64_t n, NumberKind kind)
{
    int64_t size = n < 0 ? -n : n;
    const char *digits = format("%lld", (long long)size);
    if (size > 1 && size <= INT32_MAX)
        return term_number(kind, digits, n < 0);
    return n < 0 ? term_unary("-", term_word(digits)) : term_word(digits);
}

const Term *count_term(int64_t n) { return whole_term(n, NUMBER_INT); }
const Term *divisor_term(int64_t n) { return whole_term(n, NUMBER_DIVISOR); }

const Term *literal_term(double v, Dtype t)
{
    const char *text = code_literal(v, t);
    return *text == '-' ? term_unary("-", term_word(text + 1)) : term_word(text);
}

const Term *number_term(double v, Dtype t)
{
    bool given = !isnan(v) && !isinf(v) && v != 0 && fabs(v) != 1;
    if (t == BOOL || t == U32 || t == I64 || !given || (!dtype_is_float(t) && fabs(v) > INT32_MAX))
        return literal_term(v, t);
    if (!dtype_is_float(t))
        return whole_term((int64_t)v, NUMBER_INT);
    const char *text = code_literal(v, t);
    return term_number(t == F64 ? NUMBER_F64 : NUMBER_F32, text + (*text == '-'), *text == '-');
}

/* ---- terms of expressions whose operands have terms */

const Term *term_of(const Lowering *p, const Expr *e) { return p->term_of[e->id].term; }

const Term *argument_of(const Lowering *p, const Tensor *tensor)
{
    for (int i = 0; i < p->argument_count; i++)
        if (p->tensor[i] == tensor || (p->tensor[i] && p->tensor[i]->id == tensor->id))
            return p->argument[i];
    die("tensor %s is no argument of its kernel", tensor->name);
}

/* Orders the operands by descending size of their factors, as offsets are usually written, but a positive one first. */
static void order_terms(const Expr *e, int *order)
{
    for (int i = 0; i < e->count; i++) {
        int at = i;
        while (at > 0 && llabs(e->factor[order[at - 1]]) < llabs(e->factor[i]))
            order[at] = order[at - 1], at--;
        order[at] = i;
    }
    int first = 0;
    while (first < e->count && e->factor[order[first]] < 0)
        first++;
    if (first > 0 && first < e->count) {
        int lead = order[first];
        memmove(order + 1, order, sizeof *order * (size_t)first);
        order[0] = lead;
    }
}

static const Term *sum_term(const Lowering *p, const Expr *e)
{
    if (!e->count)
        return count_term(e->constant);
    int order[64];
    order_terms(e, order);
    const Term *sum = NULL;
    for (int i = 0; i < e->count; i++) {
        int64_t f = e->factor[order[i]], size = f < 0 ? -f : f;
        const Term *x = term_of(p, e->in[order[i]]);
        if (size != 1)
            x = term_times(count_term(sum ? size : f), x);
        else if (!sum && f < 0)
            x = term_unary("-", x);
        sum = sum ? term_binary(LEVEL_SUM, sum, f < 0 ? "-" : "+", x) : x;
    }
    return e->constant ? term_binary(LEVEL_SUM, sum, e->constant < 0 ? "-" : "+", count_term(llabs(e->constant))) : sum;
}

static const Term *less(const Term *a, const Term *b) { return term_binary(LEVEL_LESS, a, "<", b); }

static const Term *range_term(const Lowering *p, const Expr *e)
{
    const Expr *i = e->in[0];
    bool low = i->low < e->other, high = i->high >= e->constant;
    const Term *at = term_of(p, i);
    if (low && high && e->constant == e->other + 1)
        return term_binary(LEVEL_EQUAL, at, "==", count_term(e->other));
    if (low && high)
        return term_binary(LEVEL_AND, term_binary(LEVEL_LESS, count_term(e->other), "<=", at), "&&",
                           less(at, count_term(e->constant)));
    return low ? term_binary(LEVEL_LESS, at, ">=", count_term(e->other)) : less(at, count_term(e->constant));
}

/* Returns true for "f(...)" without anything after it. */
static bool is_call(const char *meaning)
{
    const char *m = meaning;
    while (isalnum((unsigned char)*m) || *m == '_')
        m++;
    if (m == meaning || *m != '(')
        return false;
    for (int depth = 0; *m; m++) {
        depth += (*m == '(') - (*m == ')');
        if (depth == 0)
            return m[1] == '\0';
    }
    return false;
}

/* Returns the formula in ops.def with the operands instead of a, b and c. */
static const Term *meaning_term(const Lowering *p, const Expr *e)
{
    static const struct {
        const char *sign;
        Level level;
    } OPERATOR[] = {{"+", LEVEL_SUM},   {"-", LEVEL_SUM},    {"*", LEVEL_PRODUCT}, {"/", LEVEL_PRODUCT}, {"<", LEVEL_LESS},
                    {"<=", LEVEL_LESS}, {"==", LEVEL_EQUAL}, {"&&", LEVEL_AND},    {"||", LEVEL_OR}};
    const char *meaning = OP_INFO[e->op].meaning;
    const Term *in[3];
    char sign[8];
    for (int i = 0; i < e->count; i++)
        in[i] = term_of(p, e->in[i]);
    if (e->count == 2 && sscanf(meaning, "a %7[^ b] b", sign) == 1)
        for (int i = 0; i < COUNT(OPERATOR); i++)
            if (strcmp(sign, OPERATOR[i].sign) == 0)
                return term_binary(OPERATOR[i].level, in[0], OPERATOR[i].sign, in[1]);
    if (strcmp(meaning, "-a") == 0)
        return term_unary("-", in[0]);
    if (strcmp(meaning, "a ? b : c") == 0)
        return term_choice(in[0], in[1], in[2]);
    bool call = is_call(meaning), formula = !call && strchr(meaning, '('), choice = !formula && strchr(meaning, '?');
    Level level = call ? LEVEL_ATOM : formula || choice ? LEVEL_CHOICE : LEVEL_UNARY;
    const Term *term = term_formula(level,
                                    call      ? LEVEL_CHOICE
                                    : formula ? LEVEL_ATOM
                                    : choice  ? LEVEL_OR
                                              : LEVEL_UNARY,
                                    meaning, e->count, in);
    return call || formula ? term_fixed(term) : term;
}

/* A call whose numbers do not become kernel parameters. */
static const Term *call_fixed(const char *function, const Term *a) { return term_fixed(CALL(function, a)); }

/* Returns true for the difference of a value and its row's maximum, which is never positive. */
static bool is_below_maximum(const Lowering *p, const Expr *e)
{
    return e->kind == X_OP && e->op == OP_SUB && e->in[1]->kind == X_RESULT &&
           p->nest->reductions[e->in[1]->constant].kind == REDUCE_MAX;
}

static const Term *cast_term(const Lowering *p, const Expr *e)
{
    Dtype from = e->in[0]->dtype, to = e->dtype;
    const Term *a = term_of(p, e->in[0]);
    if (dtype_is_half(to) && from == F32) /* also used in this kernel: it must be equal to what others load */
        return call_fixed(format("mgpu_round_%s", dtype_name(to)), a);
    if (strcmp(C_TYPE[from], C_TYPE[to]) == 0)
        return a;
    if (to == BOOL)
        return term_binary(LEVEL_EQUAL, a, "!=", term_word("0"));
    if (dtype_is_float(from) && !dtype_is_float(to))
        return call_fixed(format("mgpu_to_%s", dtype_name(to)), a);
    return term_cast(C_TYPE[to], a);
}

static const Term *op_term(Lowering *p, const Expr *e)
{
    bool whole = !dtype_is_float(e->dtype) && e->dtype != BOOL;
    const Term *a = term_of(p, e->in[0]);
    if (e->op == OP_MAX || e->op == OP_WINDOW_MAX)
        return term_fixed(CALL(e->op == OP_MAX ? "mgpu_better" : "mgpu_beats", a, term_of(p, e->in[1])));
    if (p->cuda && e->op == OP_EXP && is_below_maximum(p, e->in[0]))
        return call_fixed("mgpu_exp_below", a);
    if (e->op == OP_DIV && e->count == 1)
        return call_fixed("mgpu_inverse", a);
    if (e->op == OP_CAST)
        return cast_term(p, e);
    const Term *sum = !p->cuda && (e->op == OP_ADD || e->op == OP_SUB) ? multiply_add(p, e) : NULL;
    if (sum)
        return sum;
    if (e->op == OP_DIV && whole)
        return call_fixed(format("mgpu_to_%s", dtype_name(e->dtype)),
                          term_binary(LEVEL_PRODUCT, term_cast("double", a), "/", term_of(p, e->in[1])));
    const Term *meaning = meaning_term(p, e);
    return whole && dtype_bytes(e->dtype) < 4 ? term_cast(C_TYPE[e->dtype], meaning) : meaning; /* C computes in int */
}

static const Term *run_term(const Expr *e)
{
    static const char *const FIELD[] = {[RUN_STEP] = "step",
                                        [RUN_EPOCH] = "epoch",
                                        [RUN_PROGRESS] = "progress",
                                        [RUN_TOTAL_STEPS] = "total_steps",
                                        [RUN_TOTAL_EPOCHS] = "total_epochs",
                                        [RUN_SAMPLES] = "samples",
                                        [RUN_MICRO] = "micro"};
    if (e->constant >= COUNT(FIELD) || !FIELD[e->constant])
        return term_element(term_word("step->setting"), count_term(e->other));
    const Term *field = term_word(format("step->%s", FIELD[e->constant]));
    bool whole =
        e->constant == RUN_STEP || e->constant == RUN_TOTAL_STEPS || e->constant == RUN_SAMPLES || e->constant == RUN_MICRO;
    return whole ? term_cast("double", field) : field;
}

const Term *table_of(const Lowering *p, const Node *node)
{
    for (int i = 0; i < p->table_count; i++)
        if (p->table[i] == node)
            return p->table_name[i];
    die("a table of constants was not declared");
}

const Term *random_key(const Lowering *p, const Expr *e)
{
    return map_get(&p->keys, format("%llx", (unsigned long long)e->hash));
}

int random_place(const Lowering *p, const Expr *e, const Term *place[2])
{
    bool by_sample = !e->initial && e->other & 1;
    place[0] = by_sample ? term_add(term_word("step->sample"), term_of(p, e->in[1])) : term_word("0");
    place[1] = term_word(e->initial ? "0" : "step->step");
    return 2;
}

/* Returns true if the call computes samples [begin, end) only. */
static bool has_some(const Lowering *p) { return p->kernel->split == MGPU_SPLIT_SAMPLES && p->nest->divided; }

static const Term *samples_term(const Lowering *p, const Expr *e)
{
    const Term *from = term_word(has_some(p) ? "begin" : "0"), *to = term_word(has_some(p) ? "end" : "n");
    return e->other ? CALL("mgpu_valid_samples", term_word("step->valid"), from, to)
                    : term_cast(C_TYPE[e->dtype], term_binary(LEVEL_SUM, to, "-", from));
}

static const Term *load_term(const Lowering *p, const Expr *e)
{
    const Term *at = term_element(e->kind == X_LOAD ? argument_of(p, e->tensor) : table_of(p, e->node), term_of(p, e->in[0]));
    if (e->kind == X_LOAD && dtype_is_half(e->tensor->dtype))
        at = CALL(format("mgpu_from_%s", dtype_name(e->tensor->dtype)), at);
    if (e->kind == X_LOAD && e->tensor->dtype == BOOL)
        at = term_binary(LEVEL_EQUAL, at, "!=", term_word("0"));
    return e->count < 2 ? at : term_choice(term_of(p, e->in[1]), at, number_term(e->number, e->dtype));
}

const Term *value_term(Lowering *p, const Expr *e)
{
    const Term *place[2];
    switch (e->kind) {
    case X_SUM: return sum_term(p, e);
    case X_AXIS: return p->axis_name[e->constant];
    case X_FIRST: return term_word(has_some(p) ? "begin" : "0");
    case X_PLACE: return term_binary(LEVEL_SUM, term_word("step->sample"), "-", term_word("step->batch"));
    case X_COUNT: return samples_term(p, e);
    case X_DIV:
    case X_MOD: return term_binary(LEVEL_PRODUCT, term_of(p, e->in[0]), e->kind == X_DIV ? "/" : "%", divisor_term(e->constant));
    case X_INDEX_OF: return term_cast("int64_t", term_of(p, e->in[0]));
    case X_SAFE: return term_choice(term_of(p, e->in[1]), term_of(p, e->in[0]), count_term(e->constant));
    case X_RANGE: return range_term(p, e);
    case X_AND: return term_binary(LEVEL_AND, term_of(p, e->in[0]), "&&", term_of(p, e->in[1]));
    case X_VALID: return less(term_of(p, e->in[0]), term_word("step->valid"));
    case X_NUMBER: return number_term(e->number, e->dtype);
    case X_VALUE_OF: return term_cast(C_TYPE[e->dtype], term_of(p, e->in[0]));
    case X_LOAD:
    case X_TABLE: return load_term(p, e);
    case X_RESULT: return p->result[e->constant];
    case X_RUN: return run_term(e);
    case X_RANDOM:
        random_place(p, e, place);
        return CALL(e->dtype == F64 ? "mgpu_rand" : "mgpu_randf", random_key(p, e), term_of(p, e->in[0]), place[0], place[1]);
    case X_OP: return op_term(p, e);
    }
    die("an expression of kind %d", (int)e->kind);
}
