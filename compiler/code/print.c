/* print.c: prints code (code/code.h) as C and CUDA C, with as few parentheses as C needs; prints forms, without numbers; finds
 * numbers. */
#include "compiler/code/code.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct Printing {
    Text *t;
    const CodePrint *how;
    Numbers *numbers; /* if not NULL, numbers are collected */
    int number, indent;
    bool fixed, form;
    Map names; /* of a form */
} Printing;

static void print_term(Printing *p, const Term *, Level least);

/* ---- terms */

static void print_name(Printing *p, const char *name)
{
    if (!p->form) {
        text_add(p->t, "%s", name);
        return;
    }
    if (!map_get(&p->names, name))
        map_set(&p->names, name, (void *)(uintptr_t)format("$%d", p->names.count));
    text_add(p->t, "%s", (const char *)map_get(&p->names, name));
}

static void print_number(Printing *p, const Term *x)
{
    static const char *const KIND[] = {"#i", "#i", "#f", "#d"};
    if (p->fixed) {
        text_add(p->t, "%s", x->word);
        return;
    }
    if (p->numbers)
        APPEND(p->numbers->list, p->numbers->count, x);
    const char *given = p->how && p->how->given ? p->how->given[p->number] : NULL;
    text_add(p->t, "%s", p->form ? KIND[x->number] : given ? given : x->word);
    p->number++;
}

static void print_path(Printing *p, uint64_t hash)
{
    for (int i = 0; p->how && i < p->how->path_count; i++)
        if (p->how->paths[i] == hash) {
            text_add(p->t, "path[%d]", i);
            return;
        }
    text_add(p->t, "0x%llxu", (unsigned long long)hash);
}

static void print_list(Printing *p, const Term *x, int from)
{
    for (int i = from; i < x->count; i++) {
        text_add(p->t, "%s", i > from ? ", " : "");
        print_term(p, x->in[i], LEVEL_CHOICE);
    }
}

static bool in_word(char c) { return isalnum((unsigned char)c) || c == '_'; }

static void print_formula(Printing *p, const Term *x)
{
    for (const char *m = x->word; *m; m++) {
        bool operand = *m >= 'a' && *m < 'a' + x->count && (m == x->word || !in_word(m[-1])) && !in_word(m[1]);
        if (operand)
            print_term(p, x->in[*m - 'a'], x->operands);
        else
            text_bytes(p->t, m, 1);
    }
}

/* C compilers warn of && inside || without parentheses, and of what is computed bit by bit inside other operations: there all
 * three signs have one level, so an operand that has one is in parentheses. */
static Level left_of(const Term *x)
{
    return x->level == LEVEL_BITS                              ? LEVEL_UNARY
           : x->level == LEVEL_OR                              ? LEVEL_EQUAL
           : x->level == LEVEL_LESS || x->level == LEVEL_EQUAL ? x->level + 1
                                                               : x->level;
}
static Level right_of(const Term *x)
{
    return x->level == LEVEL_BITS  ? LEVEL_UNARY
           : x->level == LEVEL_OR  ? LEVEL_EQUAL
           : x->level == LEVEL_AND ? LEVEL_AND
                                   : x->level + 1;
}

static void print_inside(Printing *p, const Term *x)
{
    bool fixed = p->fixed;
    switch (x->kind) {
    case TERM_WORD: text_add(p->t, "%s", x->word); break;
    case TERM_NAME: print_name(p, x->word); break;
    case TERM_KERNEL: text_add(p->t, "%s%s", p->how ? p->how->kernel : "", x->word); break;
    case TERM_NUMBER: print_number(p, x); break;
    case TERM_PATH: print_path(p, x->hash); break;
    case TERM_UNARY:
        text_add(p->t, "%s", x->word);
        print_term(p, x->in[0],
                   strcmp(x->word, "-") == 0 && x->in[0]->kind == TERM_UNARY && *x->in[0]->word == '-' ? LEVEL_ATOM
                                                                                                       : LEVEL_UNARY);
        break;
    case TERM_BINARY:
        print_term(p, x->in[0], left_of(x));
        text_add(p->t, " %s ", x->word);
        print_term(p, x->in[1], right_of(x));
        break;
    case TERM_CHOICE:
        print_term(p, x->in[0], LEVEL_OR);
        text_add(p->t, " ? ");
        print_term(p, x->in[1], LEVEL_OR);
        text_add(p->t, " : ");
        print_term(p, x->in[2], LEVEL_CHOICE);
        break;
    case TERM_GRID:
    case TERM_CALL:
        text_add(p->t, "%s%s(", x->kind == TERM_CALL ? "" : p->how && p->how->grid ? p->how->grid : "mgpu_grid_", x->word);
        print_list(p, x, 0);
        text_add(p->t, ")");
        break;
    case TERM_CALL_OF:
        print_term(p, x->in[0], LEVEL_ATOM);
        text_add(p->t, "(");
        print_list(p, x, 1);
        text_add(p->t, ")");
        break;
    case TERM_ELEMENT:
        print_term(p, x->in[0], LEVEL_ATOM);
        text_add(p->t, "[");
        p->fixed = false;
        print_term(p, x->in[1], LEVEL_CHOICE);
        p->fixed = fixed;
        text_add(p->t, "]");
        break;
    case TERM_MEMBER:
        print_term(p, x->in[0], LEVEL_ATOM);
        text_add(p->t, ".%s", x->word);
        break;
    case TERM_LIST:
        text_add(p->t, "{");
        print_list(p, x, 0);
        text_add(p->t, "}");
        break;
    case TERM_FORMULA: print_formula(p, x); break;
    }
}

static void print_term(Printing *p, const Term *x, Level least)
{
    bool fixed = p->fixed;
    p->fixed = p->fixed || x->fixed;
    text_add(p->t, "%s", x->level < least ? "(" : "");
    print_inside(p, x);
    text_add(p->t, "%s", x->level < least ? ")" : "");
    p->fixed = fixed;
}

const char *term_text(const Term *x)
{
    Text t = {0};
    Printing p = {.t = &t};
    print_term(&p, x, LEVEL_CHOICE);
    return text_take(&t);
}

int term_length(const Term *x) { return (int)strlen(term_text(x)); }

/* ---- statements */

static void begin_line(Printing *p) { text_add(p->t, "%*s", p->form ? 0 : 4 * p->indent, ""); }

/* "const float *x" */
static void print_declared(Printing *p, const char *type, const Term *name)
{
    text_add(p->t, "%s%s", type, name && *type && type[strlen(type) - 1] != '*' ? " " : "");
    if (name)
        print_term(p, name, LEVEL_ATOM);
}

static void print_simple(Printing *p, const Statement *s)
{
    if (s->kind == CODE_DECLARE) {
        print_declared(p, s->type ? s->type : "", s->to);
        for (int i = 0; i < s->extent_count; i++) {
            text_add(p->t, "[");
            print_term(p, s->extent[i], LEVEL_CHOICE);
            text_add(p->t, "]");
        }
        text_add(p->t, "%s", s->value ? " = " : "");
    } else if (s->kind == CODE_SET) {
        print_term(p, s->to, LEVEL_UNARY);
        text_add(p->t, s->value ? " %s " : "%s", s->sign);
    }
    if (s->value)
        print_term(p, s->value, LEVEL_CHOICE);
}

static void print_head(Printing *p, const Statement *s)
{
    begin_line(p);
    if (s->unrolled) {
        text_add(p->t, "#pragma unroll\n");
        begin_line(p);
    }
    if (s->kind == CODE_IF) {
        text_add(p->t, "if (");
        print_term(p, s->value, LEVEL_CHOICE);
        text_add(p->t, ")");
    } else if (s->kind == CODE_FOR) {
        text_add(p->t, "for (");
        if (s->from) {
            text_add(p->t, "%s%s", s->type ? s->type : "", s->type ? " " : "");
            print_term(p, s->to, LEVEL_ATOM);
            text_add(p->t, " = ");
            print_term(p, s->from, LEVEL_CHOICE);
        }
        text_add(p->t, "; ");
        print_term(p, s->value, LEVEL_CHOICE);
        text_add(p->t, ";");
        for (int i = 0; i < s->steps.count; i++) {
            text_add(p->t, i ? ", " : " ");
            print_simple(p, s->steps.list[i]);
        }
        text_add(p->t, ")");
    }
    text_add(p->t, s->bare ? "\n" : s->kind == CODE_BLOCK ? "{\n" : " {\n");
}

static void print_table(Printing *p, const Statement *s)
{
    begin_line(p);
    text_add(p->t, "static const %s ", s->type);
    print_term(p, s->to, LEVEL_ATOM);
    text_add(p->t, "[] = {");
    for (int64_t i = 0; i < s->constant_count; i++)
        text_add(p->t, "%s%s", i == 0 ? "" : i % 12 ? ", " : ",\n        ", code_literal(s->constants[i], s->dtype));
    text_add(p->t, "};\n");
}

static void print_statements(Printing *p, const Statements *all)
{
    for (int i = 0; i < all->count; i++) {
        const Statement *s = all->list[i];
        if (s->kind == CODE_TABLE) {
            print_table(p, s);
        } else if (s->kind == CODE_IF || s->kind == CODE_FOR || s->kind == CODE_BLOCK) {
            print_head(p, s);
            p->indent++;
            print_statements(p, &s->body);
            p->indent--;
            if (s->bare)
                continue;
            begin_line(p);
            text_add(p->t, "}\n");
        } else {
            if (s->joins)
                text_add(p->t, ", ");
            else
                begin_line(p);
            print_simple(p, s);
            if (i + 1 < all->count && all->list[i + 1]->joins)
                continue;
            text_add(p->t, ";%s%s\n", s->remark && !p->form ? " " : "", s->remark && !p->form ? s->remark : "");
        }
    }
}

/* a line ends after a parameter with a remark, or without a name */
static void print_parameters(Printing *p, const Code *c)
{
    bool begins = c->lines;
    text_add(p->t, "(%s", c->lines ? "\n" : "");
    p->indent = 1;
    for (int i = 0; i < c->parameter_count; i++) {
        const CodeParameter *own = &c->parameters[i];
        if (begins)
            begin_line(p);
        print_declared(p, own->type, own->name);
        begins = c->lines && (own->remark || !own->name);
        if (i == c->parameter_count - 1)
            break;
        text_add(p->t, begins ? ",%s%s\n" : ", ", own->remark && *own->remark && !p->form ? " " : "",
                 own->remark && !p->form ? own->remark : "");
    }
    if (p->how && p->how->more)
        text_add(p->t, "%s", p->how->more);
    if (c->by_path && p->how && p->how->path_count)
        text_add(p->t, ", %spath", c->by_path);
    text_add(p->t, ")\n{\n");
}

static void print_code(Printing *p, const Code *c)
{
    print_parameters(p, c);
    p->indent = 1;
    print_statements(p, &c->body);
    text_add(p->t, "}\n");
}

void code_print(const Code *c, const CodePrint *how, Text *t)
{
    Printing p = {.t = t, .how = how};
    print_code(&p, c);
}

void code_print_canonical(const Code *c, Text *t)
{
    Printing p = {.t = t, .form = true};
    print_code(&p, c);
}

void code_numbers(const Code *c, Numbers *numbers)
{
    Text t = {0};
    Printing p = {.t = &t, .numbers = numbers};
    print_code(&p, c);
}

/* ---- literals */

const char *code_literal(double v, Dtype t)
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
