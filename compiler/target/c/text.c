/* text.c: an expression as C: names that readers know, literals that read back as the same number, and as few
 * parentheses as C needs. */
#include "compiler/kernel/phase.h"
#include "compiler/target/c/marks.h"
#include "runtime/abi/mgpu.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *const C_TYPE[DTYPES] = {"bool", "uint8_t", "int8_t", "uint16_t", "int16_t", "uint32_t",
                                    "int32_t", "int64_t", "float", "float", "float", "double"};

const char *emit_type(const Printer *p, const Expr *e)
{
    return p->is_64_bit && expr_is_index(e) && !p->is_64_bit(p->nest, e) ? "int" : C_TYPE[e->dtype];
}

/* gcc makes no vectors of bools that it loads */
const char *emit_element_type(Dtype t)
{
    return t == BF16 ? "mgpu_bf16" : t == F16 ? "mgpu_f16" : t == BOOL ? "uint8_t" : C_TYPE[t];
}

/* ---- names */

const char *emit_own_name(Printer *p, const char *word)
{
    const char *name = word;
    uintptr_t number = (uintptr_t)map_get(&p->names, name); /* the last that was given away: name, name_2, ... */
    while (map_get(&p->names, name))
        name = format("%s_%d", word, (int)++number);
    if (name != word)
        map_set(&p->names, word, (void *)number);
    map_set(&p->names, name, EMIT_TAKEN);
    return emit_marked_name(p, name);
}

const char *emit_name(Printer *p, const char *wish)
{
    const char *name = c_name(wish);
    return emit_own_name(p, name ? name : "value");
}

static const char *const RESERVED[] = {
    "argument", "step", "part", "n", "begin", "end", "first", "path", "auto", "bool", "break", "case", "char", "const", "continue", "default", "do", "double", "else",
    "enum", "extern", "float", "for", "goto", "if", "inline", "int", "long", "register", "restrict", "return", "short",
    "signed", "sizeof", "static", "struct", "switch", "typedef", "union", "unsigned", "void", "volatile", "while", "true",
    "false", "asm", "typeof", "linux", "unix", "NULL", "INFINITY", "NAN",
    "int8_t", "int16_t", "int32_t", "int64_t", "uint8_t", "uint16_t", "uint32_t", "uint64_t",
    "INT8_MIN", "INT16_MIN", "INT32_MIN", "INT64_MIN"};

/* of C++ and CUDA */
static const char *const RESERVED_CUDA[] = {
    "alignas", "alignof", "and", "and_eq", "bitand", "bitor", "catch", "class", "compl", "constexpr", "const_cast", "decltype", "delete",
    "dynamic_cast", "explicit", "export", "friend", "mutable", "namespace", "new", "noexcept", "not", "not_eq", "nullptr", "operator",
    "or", "or_eq", "private", "protected", "public", "reinterpret_cast", "static_assert", "static_cast", "template", "this",
    "thread_local", "throw", "try", "typeid", "typename", "using", "virtual", "wchar_t", "xor", "xor_eq", "char16_t", "char32_t",
    "threadIdx", "blockIdx", "blockDim", "gridDim", "warpSize", "work", "given", "own"};

void emit_reserve(Printer *p)
{
    for (int i = 0; i < COUNT(RESERVED); i++)
        map_set(&p->names, RESERVED[i], EMIT_TAKEN);
    for (int i = 0; i < COUNT(RESERVED_CUDA) && p->cuda; i++)
        map_set(&p->names, RESERVED_CUDA[i], EMIT_TAKEN);
}

const char *emit_name_of(Printer *p, const Expr *e)
{
    if (e->kind == X_LOAD)
        return emit_name(p, format("%s_at", kernel_argument_name(e->tensor)));
    if (e->kind == X_RANGE || e->kind == X_BOTH)
        return emit_own_name(p, "inside");
    if (e->kind == X_DIV || e->kind == X_MOD || e->kind == X_INDEX_OF || e->kind == X_SAFE || e->kind == X_SUM)
        return emit_own_name(p, "at");
    if (e->kind == X_RANDOM)
        return emit_own_name(p, "rand");
    if (e->node && e->node->name)
        return emit_name(p, e->node->name);
    return e->kind == X_OP && e->op != OP_CAST ? emit_name(p, OP_INFO[e->op].name) : emit_own_name(p, "value");
}

bool emit_written(const Kernel *k, const Tensor *tensor)
{
    for (int i = 0; i < k->write_count; i++)
        if (k->writes[i]->id == tensor->id)
            return true;
    return false;
}

void emit_named(const Kernel *k, const char *text, Text *t)
{
    for (const char *name; (name = strstr(text, EMIT_OWN)); text = name + strlen(EMIT_OWN)) {
        text_bytes(t, text, (size_t)(name - text));
        text_add(t, "%s", k->name);
    }
    text_add(t, "%s", text);
}

/* ---- lines */

void emit_line(Printer *p, const char *pattern, ...)
{
    va_list arguments;
    va_start(arguments, pattern);
    char small[256];
    va_list again;
    va_copy(again, arguments);
    int length = vsnprintf(small, sizeof small, pattern, arguments);
    text_add(p->t, "%*s", 4 * p->indent, "");
    if (length < (int)sizeof small) {
        text_bytes(p->t, small, (size_t)length);
    } else {
        char *large = allocate((size_t)length + 1);
        vsnprintf(large, (size_t)length + 1, pattern, again);
        text_bytes(p->t, large, (size_t)length);
    }
    va_end(again);
    va_end(arguments);
    text_bytes(p->t, "\n", 1);
}

const char *emit_shape_comment(const Printer *p, const Tensor *t)
{
    return format(" %s", emit_remark(p, c_comment("[%s%s", t->sharded ? t->shape.rank ? "n, " : "n" : "", shape_text(&t->shape) + 1)));
}

void emit_close(Printer *p)
{
    p->indent--;
    emit_line(p, "}");
}

/* ---- text of an expression; operands have theirs */

const char *emit_literal(double v, Dtype t)
{
    if (!dtype_is_float(t)) {
        if (t == BOOL)
            return v > 0 ? "true" : "false";
        if (isinf(v)) {
            static const char *const LEAST[DTYPES] = {"0", "0", "INT8_MIN", "0", "INT16_MIN", "0", "INT32_MIN", "INT64_MIN"};
            return LEAST[t];
        }
        return format(t == U32 ? "%.0fu" : t == I64 ? "INT64_C(%.0f)" : "%.0f", v);
    }
    if (isnan(v))
        return "NAN";
    if (isinf(v))
        return v < 0 ? "-INFINITY" : "INFINITY";
    const char *text = NULL;
    for (int digits = 1; digits <= 17; digits++) { /* the shortest that reads back as the same number */
        text = format("%.*g", digits, v);
        double back = 0;
        sscanf(text, "%lf", &back);
        if (t != F64 ? (float)back == (float)v : memcmp(&back, &v, sizeof v) == 0)
            break;
    }
    if (!strpbrk(text, ".e"))
        text = format("%s.0", text);
    return t == F64 ? text : format("%sf", text);
}

const char *emit_operand(Printer *p, const Expr *e, Level least)
{
    const Shown *s = &p->shown[e->id];
    return s->level >= least ? s->text : format("(%s)", s->text);
}

const char *emit_argument(Printer *p, const Tensor *tensor)
{
    for (int i = 0; i < p->argument_count; i++)
        if (p->tensor[i] == tensor || (p->tensor[i] && p->tensor[i]->id == tensor->id))
            return p->argument[i];
    die("tensor %s is no argument of its kernel", tensor->name);
}

static const char *sum_text(Printer *p, const Expr *e, Level *level)
{
    if (!e->count) {
        *level = e->constant < 0 ? LEVEL_UNARY : LEVEL_ATOM;
        return emit_count(p, e->constant);
    }
    Text t = {0};
    int order[64];
    for (int i = 0; i < e->count; i++) { /* largest factor first: as one writes an offset */
        int at = i;
        while (at > 0 && llabs(e->factor[order[at - 1]]) < llabs(e->factor[i]))
            order[at] = order[at - 1], at--;
        order[at] = i;
    }
    int first = 0; /* a positive term leads if there is one */
    while (first < e->count && e->factor[order[first]] < 0)
        first++;
    if (first > 0 && first < e->count) {
        int lead = order[first];
        memmove(order + 1, order, sizeof *order * (size_t)first);
        order[0] = lead;
    }
    for (int i = 0; i < e->count; i++) {
        int64_t f = e->factor[order[i]], size = f < 0 ? -f : f;
        text_add(&t, i ? f < 0 ? " - " : " + " : f < 0 ? "-" : "");
        if (size != 1)
            text_add(&t, "%s * ", emit_count(p, size));
        text_add(&t, "%s", emit_operand(p, e->in[order[i]], size != 1 ? LEVEL_UNARY : LEVEL_PRODUCT));
    }
    if (e->constant)
        text_add(&t, e->constant < 0 ? " - %s" : " + %s", emit_count(p, llabs(e->constant)));
    *level = e->count == 1 && !e->constant ? LEVEL_PRODUCT : LEVEL_SUM;
    return text_take(&t);
}

static const char *range_text(Printer *p, const Expr *e, Level *level)
{
    const Expr *i = e->in[0];
    bool low = i->low < e->other, high = i->high >= e->constant;
    const char *at = emit_operand(p, i, LEVEL_SUM);
    *level = low && high ? LEVEL_AND : LEVEL_LESS;
    if (low && high && e->constant == e->other + 1)
        return *level = LEVEL_EQUAL, format("%s == %s", at, emit_count(p, e->other));
    if (low && high)
        return format("%s <= %s && %s < %s", emit_count(p, e->other), at, at, emit_count(p, e->constant));
    return low ? format("%s >= %s", at, emit_count(p, e->other)) : format("%s < %s", at, emit_count(p, e->constant));
}

/* "f(...)", and nothing after it */
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

/* the meaning of ops.def with the operands in place of a, b and c */
static const char *meaning_text(Printer *p, const Expr *e, Level *level)
{
    static const struct { const char *sign; Level level; bool chains; } OPERATOR[] = {
        {"+", LEVEL_SUM, true}, {"-", LEVEL_SUM, true}, {"*", LEVEL_PRODUCT, true}, {"/", LEVEL_PRODUCT, true},
        {"<", LEVEL_LESS, false}, {"<=", LEVEL_LESS, false}, {"==", LEVEL_EQUAL, false}, {"&&", LEVEL_AND, true},
        {"||", LEVEL_OR, true}};
    const char *meaning = OP_INFO[e->op].meaning;
    char sign[8];
    if (e->count == 2 && sscanf(meaning, "a %7[^ b] b", sign) == 1)
        for (int i = 0; i < COUNT(OPERATOR); i++)
            if (strcmp(sign, OPERATOR[i].sign) == 0) {
                Level own = *level = OPERATOR[i].level;
                Level left = OPERATOR[i].chains ? own : own + 1;
                if (own == LEVEL_OR)
                    left = LEVEL_EQUAL; /* compilers warn of && within || */
                return format("%s %s %s", emit_operand(p, e->in[0], left), sign, emit_operand(p, e->in[1], own == LEVEL_OR ? left : own + 1));
            }
    bool call = is_call(meaning), formula = !call && strchr(meaning, '('), choice = !formula && strchr(meaning, '?');
    *level = call ? LEVEL_ATOM : formula || choice ? LEVEL_CHOICE : LEVEL_UNARY;
    Level inner = call ? LEVEL_CHOICE : formula ? LEVEL_ATOM : choice ? LEVEL_OR : LEVEL_UNARY;
    Text t = {0};
    for (const char *m = meaning; *m; m++) {
        bool alone = *m >= 'a' && *m < 'a' + e->count && (m == meaning || (!isalnum((unsigned char)m[-1]) && m[-1] != '_')) &&
                     !isalnum((unsigned char)m[1]) && m[1] != '_';
        const char *operand = alone ? emit_operand(p, e->in[*m - 'a'], choice && *m == 'c' ? LEVEL_CHOICE : inner) : NULL;
        if (alone)
            text_add(&t, "%s", call || formula ? emit_constants(p, operand) : operand);
        else
            text_bytes(&t, m, 1);
    }
    return text_take(&t);
}

/* of a function */
static const char *argument(Printer *p, const Expr *e, Level least) { return emit_constants(p, emit_operand(p, e, least)); }

/* what remains of a value after its row's maximum is subtracted: 0 or less */
static bool is_below_maximum(const Printer *p, const Expr *e)
{
    return e->kind == X_OP && e->op == OP_SUB && e->in[1]->kind == X_RESULT && p->nest->reductions[e->in[1]->constant].kind == REDUCE_MAX;
}

static const char *op_text(Printer *p, const Expr *e, Level *level)
{
    Dtype from = e->in[0]->dtype, to = e->dtype;
    bool whole = !dtype_is_float(to) && to != BOOL;
    if (e->op == OP_MAX || e->op == OP_WINDOW_MAX) {
        *level = LEVEL_ATOM;
        return format("%s(%s, %s)", e->op == OP_MAX ? "mgpu_better" : "mgpu_beats", argument(p, e->in[0], LEVEL_CHOICE),
                      argument(p, e->in[1], LEVEL_CHOICE));
    }
    if (p->cuda && e->op == OP_EXP && is_below_maximum(p, e->in[0]))
        return *level = LEVEL_ATOM, format("mgpu_exp_below(%s)", argument(p, e->in[0], LEVEL_CHOICE));
    if (e->op == OP_DIV && e->count == 1)
        return *level = LEVEL_ATOM, format("mgpu_inverse(%s)", argument(p, e->in[0], LEVEL_CHOICE));
    if (e->op == OP_CAST) {
        if (dtype_is_half(to) && from == F32) /* a stored value, which this kernel uses as those see it that load it */
            return *level = LEVEL_ATOM, format("mgpu_round_%s(%s)", dtype_name(to), argument(p, e->in[0], LEVEL_CHOICE));
        if (strcmp(C_TYPE[from], C_TYPE[to]) == 0)
            return *level = p->shown[e->in[0]->id].level, p->shown[e->in[0]->id].text;
        if (to == BOOL)
            return *level = LEVEL_EQUAL, format("%s != 0", emit_operand(p, e->in[0], LEVEL_LESS));
        if (dtype_is_float(from) && whole)
            return *level = LEVEL_ATOM, format("mgpu_to_%s(%s)", dtype_name(to), argument(p, e->in[0], LEVEL_CHOICE));
        return *level = LEVEL_UNARY, format("(%s)%s", C_TYPE[to], emit_operand(p, e->in[0], LEVEL_UNARY));
    }
    if (e->op == OP_DIV && whole) {
        *level = LEVEL_ATOM;
        return format("mgpu_to_%s((double)%s / %s)", dtype_name(to), argument(p, e->in[0], LEVEL_UNARY),
                      argument(p, e->in[1], LEVEL_UNARY));
    }
    const char *text = meaning_text(p, e, level);
    if (whole && dtype_bytes(to) < 4) { /* C computes in int */
        text = format("(%s)(%s)", C_TYPE[to], text);
        *level = LEVEL_UNARY;
    }
    return text;
}

static const char *run_text(const Printer *p, const Expr *e)
{
    switch (e->constant) {
    case RUN_STEP: return "(double)step->step";
    case RUN_EPOCH: return "step->epoch";
    case RUN_PROGRESS: return "step->progress";
    case RUN_TOTAL_STEPS: return "(double)step->total_steps";
    case RUN_TOTAL_EPOCHS: return "step->total_epochs";
    case RUN_SAMPLES: return "(double)step->samples";
    case RUN_MICRO: return "(double)step->micro";
    default: return emit_element(p, "step->setting", emit_count(p, e->other));
    }
}

static const char *table_of(const Printer *p, const Node *node)
{
    for (int i = 0; i < p->table_count; i++)
        if (p->table[i] == node)
            return p->table_name[i];
    die("a table of constants was not declared");
}

const char *emit_key(const Printer *p, const Expr *e)
{
    return map_get(&p->names, format("key %llx", (unsigned long long)e->hash));
}

/* sample and step of a random number */
const char *emit_random_place(Printer *p, const Expr *e)
{
    if (e->initial)
        return "0, 0";
    return e->other & 1 ? format("step->sample + %s, step->step", emit_operand(p, e->in[1], LEVEL_PRODUCT)) : "0, step->step";
}

/* the call computes samples [begin, end) */
static bool emit_has_some(const Printer *p) { return p->kernel->split == MGPU_SPLIT_SAMPLES && p->nest->divided; }

const char *emit_expr(Printer *p, const Expr *e, Level *level)
{
    *level = LEVEL_ATOM;
    switch (e->kind) {
    case X_SUM:
        return sum_text(p, e, level);
    case X_AXIS:
        return p->axis_name[e->constant];
    case X_FIRST:
        return emit_has_some(p) ? "begin" : "0";
    case X_COUNT: {
        const char *from = emit_has_some(p) ? "begin" : "0", *to = emit_has_some(p) ? "end" : "n";
        *level = e->other ? LEVEL_ATOM : LEVEL_UNARY;
        return e->other ? format("mgpu_valid_samples(step->valid, %s, %s)", from, to) : format("(%s)(%s - %s)", C_TYPE[e->dtype], to, from);
    }
    case X_DIV:
    case X_MOD:
        *level = LEVEL_PRODUCT;
        return format("%s %c %s", emit_operand(p, e->in[0], LEVEL_PRODUCT), e->kind == X_DIV ? '/' : '%', emit_divisor(p, e->constant));
    case X_INDEX_OF:
        *level = LEVEL_UNARY;
        return format("(int64_t)%s", emit_operand(p, e->in[0], LEVEL_UNARY));
    case X_SAFE:
        *level = LEVEL_CHOICE;
        return format("%s ? %s : %s", emit_operand(p, e->in[1], LEVEL_OR), emit_operand(p, e->in[0], LEVEL_OR), emit_count(p, e->constant));
    case X_RANGE:
        return range_text(p, e, level);
    case X_BOTH:
        *level = LEVEL_AND;
        return format("%s && %s", emit_operand(p, e->in[0], LEVEL_AND), emit_operand(p, e->in[1], LEVEL_AND));
    case X_VALID:
        *level = LEVEL_LESS;
        return format("%s < step->valid", emit_operand(p, e->in[0], LEVEL_SUM));
    case X_NUMBER: {
        const char *text = emit_number(p, e->number, e->dtype);
        if (text[0] == '-')
            *level = LEVEL_UNARY;
        return text;
    }
    case X_VALUE_OF:
        *level = LEVEL_UNARY;
        return format("(%s)%s", C_TYPE[e->dtype], emit_operand(p, e->in[0], LEVEL_UNARY));
    case X_LOAD:
    case X_TABLE: {
        const char *name = e->kind == X_LOAD ? emit_argument(p, e->tensor) : table_of(p, e->node);
        const char *at = emit_element(p, name, emit_operand(p, e->in[0], LEVEL_CHOICE));
        if (e->kind == X_LOAD && dtype_is_half(e->tensor->dtype))
            at = format("mgpu_from_%s(%s)", dtype_name(e->tensor->dtype), at);
        if (e->kind == X_LOAD && e->tensor->dtype == BOOL) {
            at = format("%s != 0", at);
            *level = LEVEL_EQUAL;
        }
        if (e->count < 2)
            return at;
        *level = LEVEL_CHOICE;
        return format("%s ? %s : %s", emit_operand(p, e->in[1], LEVEL_OR), at, emit_number(p, e->number, e->dtype));
    }
    case X_RESULT:
        return p->result[e->constant];
    case X_RUN:
        *level = LEVEL_UNARY;
        return run_text(p, e);
    case X_RANDOM:
        return format("mgpu_rand%s(%s, %s, %s)", e->dtype == F64 ? "" : "f", emit_key(p, e), emit_operand(p, e->in[0], LEVEL_CHOICE),
                      emit_random_place(p, e));
    case X_OP:
        return op_text(p, e, level);
    }
    die("an expression of kind %d", (int)e->kind);
}
