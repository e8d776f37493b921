/* emit_kernels.c: kernels as host C.
 *
 * In: a Kernel (kernel.h). Out: one C function: pointers named after tensors, loops, and in each loop first what is new
 * there (an expression stands in the outermost loop in which all that it depends on is known; it gets a name if it is used
 * twice or in a deeper loop, else it is written where it is used), then the accumulations and stores.
 *
 * Rows:     for kept axes { accumulators; for reduced axes accumulate; results; ... }
 * Columns:  for kept axes but the innermost, for tiles of the innermost { arrays of accumulators;
 *           for reduced axes, for the tile accumulate; ... for the tile store }
 * The loops that a C compiler is to vectorise carry `omp simd`. */
#include "compiler/kernel.h"

#include "runtime/mgpu.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { WIDEST_TILE = 512, LONGEST_TEXT = 76, SHORT_TEXT = 16, SHORT_LOOP = 4, LONGEST_ROW = 4096, HEAVY_FLOPS = 8 };

/* how tightly an expression's text binds: C's levels */
typedef enum Level { LEVEL_CHOICE, LEVEL_OR, LEVEL_AND, LEVEL_EQUAL, LEVEL_LESS, LEVEL_SUM, LEVEL_PRODUCT, LEVEL_UNARY, LEVEL_ATOM } Level;

typedef struct Shown { /* of one expression, while the loops are open in which it is known */
    const char *text;
    Level level;
    bool wanted, deep, fixed; /* deep: used in a deeper loop; fixed: must have a name (its tensor is overwritten) */
    int uses, depth;
    const char *row;          /* its element in an array that holds it from one pass to the next; NULL: none */
    int row_pass;             /* the pass that fills it */
} Shown;

typedef struct Printer {
    const Kernel *kernel;
    const Nest *nest;
    Text *t;
    bool canonical;       /* all names by number: to find equal kernels */
    Map names;            /* taken */
    int unnamed;
    const char **argument; int argument_count;
    const Tensor **tensor;
    const Node **table; const char **table_name; int table_count;
    Shown *shown;
    const char *axis_name[MAX_AXES];
    const char **result;  /* per reduction: accumulator, then result */
    int indent;
    int loop[MAX_AXES], loops; /* axes of the open and coming loops of a region, outermost first */
    const char *tile_start, *tile_width; /* columns: NULL: one tile */
} Printer;

static const char *const C_TYPE[DTYPES] = {"bool", "uint8_t", "int8_t", "uint16_t", "int16_t", "uint32_t",
                                           "int32_t", "int64_t", "mgpu_f16", "mgpu_bf16", "float", "double"};

/* ---- names */

static const char *const RESERVED[] = {
    "argument", "step", "n", "auto", "bool", "break", "case", "char", "const", "continue", "default", "do", "double", "else",
    "enum", "extern", "float", "for", "goto", "if", "inline", "int", "long", "register", "restrict", "return", "short",
    "signed", "sizeof", "static", "struct", "switch", "typedef", "union", "unsigned", "void", "volatile", "while", "true",
    "false", "asm", "typeof", "linux", "unix", "NULL", "INFINITY", "NAN",
    "int8_t", "int16_t", "int32_t", "int64_t", "uint8_t", "uint16_t", "uint32_t", "uint64_t"};

/* a C name like `wish` that nothing else in the kernel has */
static const char *new_name(Printer *p, const char *wish)
{
    char text[48];
    int length = 0;
    for (; *wish && length < 32; wish++)
        text[length++] = isalnum((unsigned char)*wish) ? *wish : '_';
    text[length] = 0;
    if (p->canonical || !length || isdigit((unsigned char)text[0]) || strncmp(text, "mgpu", 4) == 0)
        length = snprintf(text, sizeof text, "v%d", p->unnamed++);
    const char *name = copy_text(text, (size_t)length);
    for (int k = 2; map_get(&p->names, name); k++)
        name = format("%s_%d", text, k);
    map_set(&p->names, name, p);
    return name;
}

const char *kernel_argument_name(const Tensor *tensor)
{
    const char *name = tensor->name, *dot = strrchr(name, '.');
    if (tensor->kind == TENSOR_TEMPORARY && name[0] == 't') { /* t12_relu -> relu */
        const char *end = name + 1 + strspn(name + 1, "0123456789");
        if (*end == '_')
            return end + 1;
    }
    return dot && dot[1] ? dot + 1 : name;
}

static const char *name_of(Printer *p, const Expr *e)
{
    if (e->kind == X_LOAD)
        return new_name(p, format("%s_at", kernel_argument_name(e->tensor)));
    if (e->kind == X_RANGE || e->kind == X_BOTH)
        return new_name(p, "inside");
    if (e->kind == X_DIV || e->kind == X_MOD || e->kind == X_INDEX_OF || e->kind == X_SUM)
        return new_name(p, "at");
    if (e->kind == X_RANDOM)
        return new_name(p, "draw");
    if (e->node && e->node->name)
        return new_name(p, e->node->name);
    return new_name(p, e->kind == X_OP && e->op != OP_CAST ? OP_INFO[e->op].name : "value");
}

/* ---- lines */

static void line(Printer *p, const char *pattern, ...) PRINTF(2, 3);
static void line(Printer *p, const char *pattern, ...)
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

static void close_brace(Printer *p)
{
    p->indent--;
    line(p, "}");
}

/* ---- text of an expression; operands have theirs */

static const char *literal(double v, Dtype t)
{
    if (!dtype_is_float(t)) {
        if (t == BOOL)
            return v != 0 ? "true" : "false";
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
        if (t == F32 ? (float)back == (float)v : memcmp(&back, &v, sizeof v) == 0)
            break;
    }
    if (!strpbrk(text, ".e"))
        text = format("%s.0", text);
    return t == F64 ? text : format("%sf", text);
}

static const char *operand(Printer *p, const Expr *e, Level least)
{
    const Shown *s = &p->shown[e->id];
    return s->level >= least ? s->text : format("(%s)", s->text);
}

static const char *argument_of(Printer *p, const Tensor *tensor)
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
        return format("%lld", (long long)e->constant);
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
            text_add(&t, "%lld * ", (long long)size);
        text_add(&t, "%s", operand(p, e->in[order[i]], size != 1 ? LEVEL_UNARY : LEVEL_PRODUCT));
    }
    if (e->constant)
        text_add(&t, e->constant < 0 ? " - %lld" : " + %lld", llabs(e->constant));
    *level = e->count == 1 && !e->constant ? LEVEL_PRODUCT : LEVEL_SUM;
    return text_of(&t);
}

static const char *range_text(Printer *p, const Expr *e, Level *level)
{
    const Expr *i = e->in[0];
    bool low = i->low < e->other, high = i->high >= e->constant;
    const char *at = operand(p, i, LEVEL_SUM);
    *level = low && high ? LEVEL_AND : LEVEL_LESS;
    if (low && high && e->constant == e->other + 1)
        return *level = LEVEL_EQUAL, format("%s == %lld", at, (long long)e->other);
    if (low && high)
        return format("%lld <= %s && %s < %lld", (long long)e->other, at, at, (long long)e->constant);
    return low ? format("%s >= %lld", at, (long long)e->other) : format("%s < %lld", at, (long long)e->constant);
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
                return format("%s %s %s", operand(p, e->in[0], left), sign, operand(p, e->in[1], own == LEVEL_OR ? left : own + 1));
            }
    bool call = strchr(meaning, '(') != NULL, choice = strchr(meaning, '?') != NULL;
    *level = call ? LEVEL_ATOM : choice ? LEVEL_CHOICE : LEVEL_UNARY;
    Level inner = call ? LEVEL_CHOICE : choice ? LEVEL_OR : LEVEL_UNARY;
    Text t = {0};
    for (const char *m = meaning; *m; m++) {
        bool alone = *m >= 'a' && *m < 'a' + e->count && (m == meaning || (!isalnum((unsigned char)m[-1]) && m[-1] != '_')) &&
                     !isalnum((unsigned char)m[1]) && m[1] != '_';
        if (alone)
            text_add(&t, "%s", operand(p, e->in[*m - 'a'], choice && *m == 'c' ? LEVEL_CHOICE : inner));
        else
            text_bytes(&t, m, 1);
    }
    return text_of(&t);
}

static const char *op_text(Printer *p, const Expr *e, Level *level)
{
    Dtype from = e->in[0]->dtype, to = e->dtype;
    bool whole = !dtype_is_float(to) && to != BOOL;
    if (e->op == OP_MAX || e->op == OP_WINDOW_MAX) {
        *level = LEVEL_ATOM;
        return format("%s(%s, %s)", e->op == OP_MAX ? "mgpu_larger" : "mgpu_beats", operand(p, e->in[0], LEVEL_CHOICE),
                      operand(p, e->in[1], LEVEL_CHOICE));
    }
    if (e->op == OP_CAST) {
        if (to == BOOL)
            return *level = LEVEL_EQUAL, format("%s != 0", operand(p, e->in[0], LEVEL_LESS));
        if (dtype_is_float(from) && whole)
            return *level = LEVEL_ATOM, format("mgpu_to_%s(%s)", dtype_name(to), operand(p, e->in[0], LEVEL_CHOICE));
        return *level = LEVEL_UNARY, format("(%s)%s", C_TYPE[to], operand(p, e->in[0], LEVEL_UNARY));
    }
    if (e->op == OP_DIV && whole) {
        *level = LEVEL_ATOM;
        return format("mgpu_to_%s((double)%s / %s)", dtype_name(to), operand(p, e->in[0], LEVEL_UNARY),
                      operand(p, e->in[1], LEVEL_UNARY));
    }
    const char *text = meaning_text(p, e, level);
    if (whole && dtype_bytes(to) < 4) { /* C computes in int */
        text = format("(%s)(%s)", C_TYPE[to], text);
        *level = LEVEL_UNARY;
    }
    return text;
}

static const char *run_text(const Expr *e)
{
    switch (e->constant) {
    case RUN_STEP: return "(double)step->step";
    case RUN_EPOCH: return "step->epoch";
    case RUN_PROGRESS: return "step->progress";
    case RUN_TOTAL_STEPS: return "(double)step->total_steps";
    case RUN_TOTAL_EPOCHS: return "step->total_epochs";
    case RUN_SAMPLES: return "(double)step->samples";
    case RUN_MICRO: return "(double)step->micro";
    default: return format("step->setting[%lld]", (long long)e->other);
    }
}

static const char *table_of(const Printer *p, const Node *node)
{
    for (int i = 0; i < p->table_count; i++)
        if (p->table[i] == node)
            return p->table_name[i];
    die("a table of constants was not declared");
}

static const char *expr_text(Printer *p, const Expr *e, Level *level)
{
    *level = LEVEL_ATOM;
    switch (e->kind) {
    case X_SUM:
        return sum_text(p, e, level);
    case X_AXIS:
        return p->axis_name[e->constant];
    case X_DIV:
    case X_MOD:
        *level = LEVEL_PRODUCT;
        return format("%s %c %lld", operand(p, e->in[0], LEVEL_PRODUCT), e->kind == X_DIV ? '/' : '%', (long long)e->constant);
    case X_INDEX_OF:
        *level = LEVEL_UNARY;
        return format("(int64_t)%s", operand(p, e->in[0], LEVEL_UNARY));
    case X_RANGE:
        return range_text(p, e, level);
    case X_BOTH:
        *level = LEVEL_AND;
        return format("%s && %s", operand(p, e->in[0], LEVEL_AND), operand(p, e->in[1], LEVEL_AND));
    case X_ALIVE:
        *level = LEVEL_LESS;
        return format("%s < step->alive", operand(p, e->in[0], LEVEL_SUM));
    case X_NUMBER: {
        const char *text = literal(e->number, e->dtype);
        if (text[0] == '-')
            *level = LEVEL_UNARY;
        return text;
    }
    case X_VALUE_OF:
        *level = LEVEL_UNARY;
        return format("(%s)%s", C_TYPE[e->dtype], operand(p, e->in[0], LEVEL_UNARY));
    case X_LOAD:
    case X_TABLE: {
        const char *name = e->kind == X_LOAD ? argument_of(p, e->tensor) : table_of(p, e->node);
        const char *at = format("%s[%s]", name, operand(p, e->in[0], LEVEL_CHOICE));
        if (e->count < 2)
            return at;
        *level = LEVEL_CHOICE;
        return format("%s ? %s : %s", operand(p, e->in[1], LEVEL_OR), at, literal(e->number, e->dtype));
    }
    case X_RESULT:
        return p->result[e->constant];
    case X_RUN:
        *level = LEVEL_UNARY;
        return run_text(e);
    case X_RANDOM: {
        const char *sample = e->initial || e->count < 2 ? "0" : format("step->sample + %s", operand(p, e->in[1], LEVEL_PRODUCT));
        return format("mgpu_draw%s(%s, %s, %s, %s)", e->dtype == F32 ? "f" : "",
                      (const char *)map_get(&p->names, format("key %llx", (unsigned long long)e->hash)),
                      operand(p, e->in[0], LEVEL_CHOICE), sample, e->initial ? "0" : "step->step");
    }
    case X_OP:
        return op_text(p, e, level);
    }
    die("an expression of kind %d", (int)e->kind);
}

/* ---- what is computed where */

static bool is_plain(const Expr *e)
{
    return e->kind == X_NUMBER || e->kind == X_AXIS || e->kind == X_RESULT || e->kind == X_SUM || e->kind == X_RUN ||
           e->kind == X_VALUE_OF;
}

static int depth_of(const Printer *p, const Expr *e)
{
    int depth = 0;
    for (int i = 0; i < p->loops; i++)
        if (e->axes >> p->loop[i] & 1)
            depth = i + 1;
    return depth;
}

static void want(Printer *p, const Expr *e, int depth)
{
    Shown *s = &p->shown[e->id];
    s->uses++;
    s->deep = s->deep || depth > s->depth;
    s->wanted = true;
}

/* finds what the expressions in `roots`, used at `depth`, need and do not have yet */
static void find_wanted(Printer *p, Expr *const *roots, int root_count, int depth)
{
    const Exprs *x = p->nest->exprs;
    for (int i = 0; i < x->count; i++) {
        Shown *s = &p->shown[i];
        s->wanted = s->deep = false;
        s->uses = 0;
        s->depth = depth_of(p, x->all[i]);
    }
    for (int i = 0; i < root_count; i++)
        want(p, roots[i], depth);
    for (int i = x->count - 1; i >= 0; i--) {
        const Shown *s = &p->shown[i];
        if (!s->wanted || s->text)
            continue;
        const Expr *e = x->all[i];
        for (int k = 0; k < e->count; k++)
            want(p, e->in[k], s->depth);
        /* what is written where it is used, uses its operands there */
        if (is_plain(e) && s->deep)
            for (int k = 0; k < e->count; k++)
                p->shown[e->in[k]->id].deep = true;
    }
}

/* names or writes down everything that is wanted, can be computed at this depth and in this pass, and has no text */
static void define(Printer *p, int depth, int pass)
{
    const Exprs *x = p->nest->exprs;
    for (int i = 0; i < x->count; i++) {
        const Expr *e = x->all[i];
        Shown *s = &p->shown[i];
        if (!s->wanted || s->text || s->depth != depth || e->pass > pass || (e->kind == X_RESULT && !p->result[e->constant]))
            continue;
        s->text = expr_text(p, e, &s->level);
        bool named = s->uses > 1 || s->deep || s->fixed || strlen(s->text) > LONGEST_TEXT;
        if (is_plain(e)) /* offsets that are long and used again and again */
            named = e->kind == X_SUM && s->uses > 2 && strlen(s->text) > SHORT_TEXT;
        if (!named && !s->row)
            continue;
        const char *name = name_of(p, e);
        line(p, "const %s %s = %s;", C_TYPE[e->dtype], name, s->text);
        s->text = name;
        s->level = LEVEL_ATOM;
        if (s->row)
            line(p, "%s = %s;", s->row, name);
    }
}

static const char **saved_texts(const Printer *p)
{
    const char **saved = NEW_ARRAY(const char *, p->nest->exprs->count);
    for (int i = 0; i < p->nest->exprs->count; i++)
        saved[i] = p->shown[i].text;
    return saved;
}

/* forgets what was named since */
static void restore_texts(Printer *p, const char **saved)
{
    for (int i = 0; i < p->nest->exprs->count; i++)
        p->shown[i].text = saved[i];
}

/* ---- loops */

static const char *extent_text(const Axis *a)
{
    if (!a->samples)
        return format("%lld", (long long)a->extent);
    return a->extent == 1 ? "n" : format("%lld * n", (long long)a->extent);
}

static void open_loop(Printer *p, int axis)
{
    const Axis *a = &p->nest->exprs->axis[axis];
    const char *v = p->axis_name[axis];
    if (a->kind == AXIS_GROUPS)
        line(p, "for (int64_t %s = 0; %lld * %s < n; %s++) {", v, (long long)a->group, v, v);
    else if (a->kind == AXIS_IN_GROUP)
        line(p, "for (int64_t %s = %lld * %s; %s < n && %s < %lld * %s + %lld; %s++) {", v, (long long)a->group,
             p->axis_name[axis - 1], v, v, (long long)a->group, p->axis_name[axis - 1], (long long)a->group, v);
    else
        line(p, "for (int64_t %s = 0; %s < %s; %s++) {", v, v, extent_text(a), v);
    p->indent++;
}

/* the innermost loop of columns: over the tile */
static void open_tile_loop(Printer *p, int axis)
{
    const char *v = p->axis_name[axis];
    line(p, "#pragma omp simd");
    if (p->tile_start)
        line(p, "for (int64_t %s = %s; %s < %s; %s++) {", v, p->tile_start, v, p->tile_width, v);
    else
        line(p, "for (int64_t %s = 0; %s < %s; %s++) {", v, v, extent_text(&p->nest->exprs->axis[axis]), v);
    p->indent++;
}

static const char *lane_text(const Printer *p, int axis)
{
    return p->tile_start ? format("%s - %s", p->axis_name[axis], p->tile_start) : p->axis_name[axis];
}

static bool vectorises(const Printer *p, int axis)
{
    const Axis *a = &p->nest->exprs->axis[axis];
    return a->kind == AXIS_PLAIN && !p->nest->serial && (a->samples || a->extent > SHORT_LOOP);
}

/* ---- stores and accumulations */

static void print_store(Printer *p, const Store *s)
{
    const char *value = p->shown[s->value->id].text;
    const char *statement = format("%s[%s] %s %s;", argument_of(p, s->tensor), p->shown[s->offset->id].text, s->add ? "+=" : "=", value);
    if (s->guard) {
        line(p, "if (%s)", p->shown[s->guard->id].text);
        line(p, "    %s", statement);
    } else {
        line(p, "%s", statement);
    }
}

static Dtype accumulator_type(const Reduction *r)
{
    return r->wide ? F64 : r->kind == REDUCE_ARGMAX ? r->value->dtype : r->dtype;
}

static const char *start_of(const Reduction *r)
{
    return r->kind == REDUCE_SUM ? "0" : literal(-INFINITY, r->value->dtype);
}

/* `where`: "" or "[c]": the lane */
static void accumulate(Printer *p, const Reduction *r, const char *name, const char *where)
{
    const char *value = p->shown[r->value->id].text, *own = format("%s%s", name, where);
    if (r->kind == REDUCE_SUM) {
        line(p, "%s += %s;", own, value);
    } else if (r->kind == REDUCE_MAX) {
        line(p, "%s = mgpu_larger(%s, %s);", own, own, value);
    } else { /* name_best is the maximum so far */
        const char *best = format("%s_best%s", name, where);
        line(p, "%s = mgpu_beats(%s, %s) ? %s : %s;", own, value, best, p->shown[r->place->id].text, own);
        line(p, "%s = mgpu_larger(%s, %s);", best, best, value);
    }
}

/* the expressions that the FULL stores and the reductions of a pass consist of */
static int pass_roots(const Nest *nest, int pass, Expr **roots)
{
    int count = 0;
    for (int i = 0; i < nest->reduction_count; i++) {
        const Reduction *r = &nest->reductions[i];
        if (r->value->pass != pass)
            continue;
        roots[count++] = r->value;
        if (r->place)
            roots[count++] = r->place;
    }
    for (int i = 0; i < nest->store_count; i++) {
        const Store *s = &nest->stores[i];
        if (s->outer || s->value->pass != pass)
            continue;
        roots[count++] = s->value;
        roots[count++] = s->offset;
        if (s->guard)
            roots[count++] = s->guard;
    }
    return count;
}

static int outer_roots(const Nest *nest, Expr **roots)
{
    int count = 0;
    for (int i = 0; i < nest->store_count; i++)
        if (nest->stores[i].outer) {
            roots[count++] = nest->stores[i].value;
            roots[count++] = nest->stores[i].offset;
        }
    return count;
}

static void pass_statements(Printer *p, int pass, const char *where)
{
    const Nest *nest = p->nest;
    for (int i = 0; i < nest->reduction_count; i++)
        if (nest->reductions[i].value->pass == pass)
            accumulate(p, &nest->reductions[i], p->result[i], where);
    for (int i = 0; i < nest->store_count; i++)
        if (!nest->stores[i].outer && nest->stores[i].value->pass == pass)
            print_store(p, &nest->stores[i]);
}

/* "#pragma omp simd reduction(+ : sum) reduction(mgpu_larger : max)" before the innermost loop of a pass of rows */
static void print_simd(Printer *p, int pass)
{
    const Nest *nest = p->nest;
    Text t = {0};
    for (int kind = REDUCE_SUM; kind <= REDUCE_ARGMAX; kind++) {
        bool any = false;
        for (int i = 0; i < nest->reduction_count; i++) {
            const Reduction *r = &nest->reductions[i];
            if (r->value->pass != pass || r->kind != (ReductionKind)kind)
                continue;
            if (kind == REDUCE_ARGMAX)
                return; /* the first maximum: in order */
            text_add(&t, any ? ", %s" : kind == REDUCE_SUM ? " reduction(+ : %s" : " reduction(mgpu_larger : %s", p->result[i]);
            any = true;
        }
        if (any)
            text_add(&t, ")");
    }
    line(p, "#pragma omp simd%s", text_of(&t));
}

/* the loops p->loop[from ...], with what each needs; then `inner` */
static void open_loops(Printer *p, int from, int pass, bool tile, int simd_pass)
{
    for (int depth = from; depth < p->loops; depth++) {
        int axis = p->loop[depth];
        bool innermost = depth == p->loops - 1;
        if (innermost && tile) {
            open_tile_loop(p, axis);
        } else {
            if (innermost && simd_pass >= 0 && vectorises(p, axis))
                print_simd(p, simd_pass);
            open_loop(p, axis);
        }
        define(p, depth + 1, pass);
    }
}

static void close_loops(Printer *p, int from)
{
    for (int depth = from; depth < p->loops; depth++)
        close_brace(p);
}

/* ---- nests */

static const char *result_name(Printer *p, const Reduction *r)
{
    static const char *const NAME[] = {"sum", "most", "at_most"};
    return new_name(p, r->node && r->node->name ? r->node->name : NAME[r->kind]);
}

static void row_accumulators(Printer *p, int pass)
{
    const Nest *nest = p->nest;
    for (int i = 0; i < nest->reduction_count; i++) {
        const Reduction *r = &nest->reductions[i];
        if (r->value->pass != pass)
            continue;
        p->result[i] = result_name(p, r);
        if (r->kind == REDUCE_ARGMAX) {
            line(p, "%s %s = 0;", C_TYPE[r->dtype], p->result[i]);
            line(p, "%s %s_best = %s;", C_TYPE[r->value->dtype], p->result[i], start_of(r));
        } else {
            line(p, "%s %s = %s;", C_TYPE[accumulator_type(r)], p->result[i], start_of(r));
        }
    }
}

static void narrow_results(Printer *p, int pass)
{
    for (int i = 0; i < p->nest->reduction_count; i++) {
        const Reduction *r = &p->nest->reductions[i];
        if (r->value->pass == pass && r->wide)
            p->result[i] = format("(float)%s", p->result[i]);
    }
}

/* everything wanted by any pass that the kept loops can know: for hoisting */
static int all_roots(const Nest *nest, Expr **roots)
{
    int count = 0;
    for (int pass = 0; pass < nest->passes; pass++)
        count += pass_roots(nest, pass, roots + count);
    return count + outer_roots(nest, roots + count);
}

static Expr **root_room(const Nest *nest)
{
    return NEW_ARRAY(Expr *, 2 * nest->reduction_count + 3 * nest->store_count);
}

/* ---- rows that are kept: what is dear to compute and used in several passes */

static bool is_heavy(const Expr *e)
{
    return e->kind == X_RANDOM || (e->kind == X_OP && OP_INFO[e->op].meaning && OP_INFO[e->op].flops >= HEAVY_FLOPS);
}

/* finds them, and declares their arrays */
static void keep_rows(Printer *p, const int *reduced, int reduced_count)
{
    const Nest *nest = p->nest;
    const Exprs *x = nest->exprs;
    int64_t extent = 1;
    const char *place = "0";
    uint32_t mask = 0;
    for (int i = 0; i < reduced_count; i++) {
        const Axis *a = &x->axis[reduced[i]];
        if (a->samples || a->kind != AXIS_PLAIN || extent * a->extent > LONGEST_ROW)
            return;
        place = i == 0 ? p->axis_name[reduced[i]] : format("%lld * (%s) + %s", (long long)a->extent, place, p->axis_name[reduced[i]]);
        extent *= a->extent;
        mask |= 1u << reduced[i];
    }
    Expr **roots = root_room(nest);
    int *first = NEW_ARRAY(int, x->count); /* the first pass that needs it, + 1 */
    for (int pass = 0; pass < nest->passes && mask; pass++) {
        bool *needed = NEW_ARRAY(bool, x->count);
        int count = pass_roots(nest, pass, roots);
        for (int i = 0; i < count; i++)
            needed[roots[i]->id] = true;
        for (int i = x->count - 1; i >= 0; i--) {
            const Expr *e = x->all[i];
            Shown *s = &p->shown[i];
            if (!needed[i])
                continue;
            if (is_heavy(e) && (e->axes & mask) == mask && first[i] && !s->row) {
                const char *name = new_name(p, format("%s_row", e->kind == X_OP ? OP_INFO[e->op].name : "draw"));
                line(p, "%s %s[%lld];", C_TYPE[e->dtype], name, (long long)extent);
                s->row = format("%s[%s]", name, place);
                s->row_pass = first[i] - 1;
            }
            if (!first[i])
                first[i] = pass + 1;
            for (int k = 0; k < e->count && !s->row; k++)
                needed[e->in[k]->id] = true;
        }
    }
}

/* a later pass takes them from their arrays; the earlier ones do not know of them */
static void use_rows(Printer *p, int pass)
{
    for (int i = 0; i < p->nest->exprs->count; i++) {
        Shown *s = &p->shown[i];
        if (s->row && s->row_pass < pass) {
            s->text = s->row;
            s->level = LEVEL_ATOM;
        }
    }
}

/* also element-wise nests: no reduced axes, one pass, all loops are "kept" */
static void print_rows(Printer *p, const int *kept, int kept_count, const int *reduced, int reduced_count)
{
    const Nest *nest = p->nest;
    Expr **roots = root_room(nest);
    p->loops = 0;
    for (int i = 0; i < kept_count; i++)
        p->loop[p->loops++] = kept[i];
    for (int i = 0; i < reduced_count; i++)
        p->loop[p->loops++] = reduced[i];
    find_wanted(p, roots, all_roots(nest, roots), p->loops);
    define(p, 0, 0);
    int all = p->loops;
    p->loops = kept_count;
    open_loops(p, 0, 0, false, reduced_count || nest->reduction_count ? -1 : 0);
    p->loops = all;
    keep_rows(p, reduced, reduced_count);
    for (int pass = 0; pass < nest->passes; pass++) {
        int count = pass_roots(nest, pass, roots);
        if (!count)
            continue;
        row_accumulators(p, pass);
        const char **saved = saved_texts(p);
        use_rows(p, pass);
        find_wanted(p, roots, count, p->loops);
        open_loops(p, kept_count, pass, false, pass);
        pass_statements(p, pass, "");
        close_loops(p, kept_count);
        restore_texts(p, saved);
        narrow_results(p, pass);
        find_wanted(p, roots, all_roots(nest, roots), p->loops);
        define(p, kept_count, pass + 1);
    }
    int count = outer_roots(nest, roots);
    if (count) {
        p->loops = kept_count;
        find_wanted(p, roots, count, p->loops);
        define(p, kept_count, nest->passes);
        for (int i = 0; i < nest->store_count; i++)
            if (nest->stores[i].outer)
                print_store(p, &nest->stores[i]);
    }
    p->loops = kept_count;
    close_loops(p, 0);
}

/* arrays of accumulators and their initial values */
static void column_accumulators(Printer *p, int pass, int lane, const char *width)
{
    const Nest *nest = p->nest;
    bool any = false;
    for (int i = 0; i < nest->reduction_count; i++) {
        const Reduction *r = &nest->reductions[i];
        if (r->value->pass != pass)
            continue;
        any = true;
        p->result[i] = result_name(p, r);
        if (r->kind == REDUCE_ARGMAX) {
            line(p, "%s %s[%s];", C_TYPE[r->dtype], p->result[i], width);
            line(p, "%s %s_best[%s];", C_TYPE[r->value->dtype], p->result[i], width);
        } else {
            line(p, "%s %s[%s];", C_TYPE[accumulator_type(r)], p->result[i], width);
        }
    }
    if (!any)
        return;
    line(p, "for (int64_t %s = 0; %s < %s; %s++) {", p->axis_name[lane], p->axis_name[lane], width, p->axis_name[lane]);
    p->indent++;
    for (int i = 0; i < nest->reduction_count; i++) {
        const Reduction *r = &nest->reductions[i];
        if (r->value->pass != pass)
            continue;
        if (r->kind == REDUCE_ARGMAX) {
            line(p, "%s[%s] = 0;", p->result[i], p->axis_name[lane]);
            line(p, "%s_best[%s] = %s;", p->result[i], p->axis_name[lane], start_of(r));
        } else {
            line(p, "%s[%s] = %s;", p->result[i], p->axis_name[lane], start_of(r));
        }
    }
    close_brace(p);
}

static void column_results(Printer *p, int pass, int lane)
{
    for (int i = 0; i < p->nest->reduction_count; i++) {
        const Reduction *r = &p->nest->reductions[i];
        if (r->value->pass == pass)
            p->result[i] = format("%s%s[%s]", r->wide ? "(float)" : "", p->result[i], lane_text(p, lane));
    }
}

static void print_columns(Printer *p, const int *kept, int kept_count, const int *reduced, int reduced_count)
{
    const Nest *nest = p->nest;
    Expr **roots = root_room(nest);
    int lane = kept[kept_count - 1], outer = kept_count - 1;
    int64_t extent = nest->exprs->axis[lane].extent;
    bool samples = nest->exprs->axis[lane].samples, tiled = samples || extent > WIDEST_TILE;
    p->loops = 0;
    for (int i = 0; i < outer; i++)
        p->loop[p->loops++] = kept[i];
    for (int i = 0; i < reduced_count; i++)
        p->loop[p->loops++] = reduced[i];
    p->loop[p->loops++] = lane;
    find_wanted(p, roots, all_roots(nest, roots), p->loops);
    define(p, 0, 0);
    int all = p->loops;
    p->loops = outer;
    open_loops(p, 0, 0, false, -1);
    const char *width = format("%lld", (long long)(tiled ? WIDEST_TILE : extent));
    p->tile_start = p->tile_width = NULL;
    if (tiled) {
        p->tile_start = new_name(p, "first");
        p->tile_width = new_name(p, "end");
        const char *all_lanes = extent_text(&nest->exprs->axis[lane]);
        line(p, "for (int64_t %s = 0; %s < %s; %s += %s) {", p->tile_start, p->tile_start, all_lanes, p->tile_start, width);
        p->indent++;
        line(p, "const int64_t %s = %s + %s < %s ? %s + %s : %s;", p->tile_width, p->tile_start, width, all_lanes, p->tile_start,
             width, all_lanes);
    }
    const char *where = format("[%s]", lane_text(p, lane));
    for (int pass = 0; pass < nest->passes; pass++) {
        p->loops = all;
        int count = pass_roots(nest, pass, roots);
        if (!count)
            continue;
        column_accumulators(p, pass, lane, width);
        const char **saved = saved_texts(p);
        find_wanted(p, roots, count, p->loops);
        open_loops(p, outer, pass, true, -1);
        pass_statements(p, pass, where);
        close_loops(p, outer);
        restore_texts(p, saved);
        column_results(p, pass, lane);
    }
    int count = outer_roots(nest, roots);
    if (count) {
        p->loops = outer;
        p->loop[p->loops++] = lane;
        find_wanted(p, roots, count, p->loops);
        open_loops(p, outer, nest->passes, true, -1);
        for (int i = 0; i < nest->store_count; i++)
            if (nest->stores[i].outer)
                print_store(p, &nest->stores[i]);
        close_loops(p, outer);
    }
    if (tiled)
        close_brace(p);
    p->loops = outer;
    close_loops(p, 0);
}

static void name_axes(Printer *p)
{
    static const char *const NAMES[] = {"j", "k", "l", "m", "o", "q", "r", "s", "u", "v", "w", "z"};
    const Exprs *x = p->nest->exprs;
    for (int i = 0, used = 0; i < x->axis_count; i++) {
        const Axis *a = &x->axis[i];
        const char *wish = a->samples || a->kind == AXIS_IN_GROUP || x->axis_count == 1 ? "i" : NAMES[used++ % COUNT(NAMES)];
        if (a->kind == AXIS_GROUPS)
            wish = "group";
        bool canonical = p->canonical;
        p->canonical = false;
        p->axis_name[i] = new_name(p, wish);
        p->canonical = canonical;
    }
}

static bool written(const Kernel *k, const Tensor *tensor)
{
    for (int i = 0; i < k->write_count; i++)
        if (k->writes[i]->id == tensor->id)
            return true;
    return false;
}

static void print_nest(Printer *p, const Nest *nest)
{
    p->nest = nest;
    p->shown = NEW_ARRAY(Shown, nest->exprs->count);
    p->result = NEW_ARRAY(const char *, nest->reduction_count);
    p->tile_start = p->tile_width = NULL;
    const Exprs *x = nest->exprs;
    for (int i = 0; i < x->count; i++)
        p->shown[i].fixed = x->all[i]->kind == X_LOAD && written(p->kernel, x->all[i]->tensor);
    name_axes(p);
    int kept[MAX_AXES], kept_count = 0, reduced[MAX_AXES], reduced_count = 0;
    for (int i = 0; i < x->axis_count; i++) {
        if (x->axis[i].reduced)
            reduced[reduced_count++] = i;
        else
            kept[kept_count++] = i;
    }
    if (nest->columns)
        print_columns(p, kept, kept_count, reduced, reduced_count);
    else
        print_rows(p, kept, kept_count, reduced, reduced_count);
}

/* ---- functions */

static void print_arguments(Printer *p)
{
    const Kernel *k = p->kernel;
    int total = k->read_count + k->write_count;
    p->argument = NEW_ARRAY(const char *, total);
    p->tensor = NEW_ARRAY(const Tensor *, total);
    p->argument_count = total;
    for (int i = 0; i < total; i++) {
        bool output = i >= k->read_count;
        const Tensor *tensor = output ? k->writes[i - k->read_count] : k->reads[i];
        if (!output && written(k, tensor))
            continue; /* updated in place: one pointer */
        p->tensor[i] = tensor;
        p->argument[i] = new_name(p, kernel_argument_name(tensor));
        line(p, "%s%s *restrict %s = argument[%d];%s", output ? "" : "const ", C_TYPE[tensor->dtype], p->argument[i], i,
             p->canonical ? ""
                          : format(" /* [%s%s */", tensor->sharded ? tensor->shape.rank ? "n, " : "n" : "",
                                   shape_text(&tensor->shape) + 1));
    }
}

static void print_tables(Printer *p)
{
    for (int k = 0; k < p->kernel->nest_count; k++) {
        const Exprs *x = p->kernel->nests[k].exprs;
        for (int i = 0; i < x->count; i++) {
            const Expr *e = x->all[i];
            if (e->kind == X_RANDOM) {
                const char *id = format("key %llx", (unsigned long long)e->hash);
                if (map_get(&p->names, id))
                    continue;
                const char *name = new_name(p, "key");
                map_set(&p->names, id, (void *)(uintptr_t)name);
                line(p, "const uint64_t %s = mgpu_random_key(step->seed, 0x%llxu);", name, (unsigned long long)e->hash);
            }
            if (e->kind != X_TABLE)
                continue;
            bool known = false;
            for (int j = 0; j < p->table_count; j++)
                known = known || p->table[j] == e->node;
            if (known)
                continue;
            const char *name = new_name(p, e->node->name ? e->node->name : "constant");
            int count = p->table_count;
            APPEND(p->table, p->table_count, e->node);
            APPEND(p->table_name, count, name);
            text_add(p->t, "    static const %s %s[] = {", C_TYPE[e->node->dtype], name);
            for (int64_t j = 0; j < e->node->data_count; j++)
                text_add(p->t, "%s%s", j == 0 ? "" : j % 12 ? ", " : ",\n        ", literal(e->node->data[j], e->node->dtype));
            text_add(p->t, "};\n");
        }
    }
}

static void print_function(const Kernel *k, Text *t, bool canonical)
{
    Printer p = {.kernel = k, .t = t, .canonical = canonical, .indent = 1};
    for (int i = 0; i < COUNT(RESERVED); i++)
        map_set(&p.names, RESERVED[i], &p);
    bool uses_step = false, uses_n = false;
    for (int i = 0; i < k->nest_count; i++) {
        const Exprs *x = k->nests[i].exprs;
        for (int j = 0; j < x->count; j++)
            uses_step = uses_step || x->all[j]->kind == X_ALIVE || x->all[j]->kind == X_RUN || x->all[j]->kind == X_RANDOM;
        for (int j = 0; j < x->axis_count; j++)
            uses_n = uses_n || x->axis[j].samples || x->axis[j].kind != AXIS_PLAIN;
    }
    text_add(t, "(void *const *argument, const mgpu_step *step, int64_t n)\n{\n");
    print_arguments(&p);
    if (!uses_step && !uses_n)
        line(&p, "(void)step, (void)n;");
    else if (!uses_step || !uses_n)
        line(&p, "(void)%s;", uses_step ? "n" : "step");
    print_tables(&p);
    for (int i = 0; i < k->nest_count; i++)
        print_nest(&p, &k->nests[i]);
    text_add(t, "}\n");
}

void kernel_print(const Kernel *k, Text *t) { print_function(k, t, false); }
void kernel_print_canonical(const Kernel *k, Text *t) { print_function(k, t, true); }

void emit_kernels(const Program *program, Text *t)
{
    text_add(t,
             "/* Kernels of %s, written by mgpuc %s.\n"
             " * argument[]: the tensors that a kernel reads, then those that it writes, then its workspace; n: the samples of\n"
             " * this device. [n, 28, 28] in the comments is the shape of all samples, [28, 28] the same for all of them. */\n"
             "#define MGPU_KERNELS 1\n#include \"mgpu.h\"\n",
             program->model->name, MGPU_VERSION);
    for (int i = 0; i < program->kernel_count; i++) {
        const Kernel *k = program->kernels[i];
        text_add(t, "\n");
        if (k->contraction) {
            contraction_print(k->contraction, k->name, t);
            continue;
        }
        text_add(t, "/* %s: %s", k->name, k->title);
        if (k->at && k->at->source)
            text_add(t, "  %s:%d", k->at->source->file, k->at->line);
        text_add(t, " */\nstatic void %s%s", k->name, k->text);
    }
    text_add(t, "\nconst mgpu_kernel mgpu_kernels[] = {\n");
    for (int i = 0; i < program->kernel_count; i++) {
        const Kernel *k = program->kernels[i];
        const Place *at = k->at;
        while (at && at->source && at->source->library && at->caller)
            at = at->caller;
        text_add(t, "    {\"%s\", %s, %d},\n", k->name, k->name, at ? at->line : 0);
    }
    if (!program->kernel_count)
        text_add(t, "    {\"\", 0, 0},\n");
    text_add(t, "};\nconst int mgpu_kernel_count = %d;\n", program->kernel_count);
}
