/* code.c: terms and statements (code/code.h). */
#include "compiler/code/code.h"

#include <string.h>

/* ---- terms */

static Term *make(TermKind kind, Level level, const char *word, int count, const Term *const *in)
{
    Term *t = NEW(Term);
    *t = (Term){.kind = kind, .level = level, .word = word, .count = count};
    t->in = NEW_ARRAY(const Term *, count);
    for (int i = 0; i < count; i++)
        t->in[i] = in[i];
    return t;
}

const Term *term_word(const char *word) { return make(TERM_WORD, LEVEL_ATOM, word, 0, NULL); }
const Term *term_whole(int64_t n)
{
    return make(TERM_WORD, n < 0 ? LEVEL_UNARY : LEVEL_ATOM, format("%lld", (long long)n), 0, NULL);
}
const Term *term_name(const char *name) { return make(TERM_NAME, LEVEL_ATOM, name, 0, NULL); }
const Term *term_kernel(const char *end) { return make(TERM_KERNEL, LEVEL_ATOM, end, 0, NULL); }

const Term *term_number(NumberKind kind, const char *digits, bool negative)
{
    Term *t = make(TERM_NUMBER, LEVEL_ATOM, digits, 0, NULL);
    t->number = kind;
    return negative ? term_unary("-", t) : t;
}

const Term *term_path(uint64_t hash)
{
    Term *t = make(TERM_PATH, LEVEL_ATOM, "", 0, NULL);
    t->hash = hash;
    return t;
}

const Term *term_unary(const char *sign, const Term *a) { return make(TERM_UNARY, LEVEL_UNARY, sign, 1, &a); }
const Term *term_cast(const char *type, const Term *a) { return term_unary(format("(%s)", type), a); }

const Term *term_binary(Level level, const Term *a, const char *sign, const Term *b)
{
    return make(TERM_BINARY, level, sign, 2, (const Term *[]){a, b});
}

const Term *term_add(const Term *a, const Term *b) { return term_binary(LEVEL_SUM, a, "+", b); }
const Term *term_times(const Term *a, const Term *b) { return term_binary(LEVEL_PRODUCT, a, "*", b); }
const Term *term_choice(const Term *a, const Term *b, const Term *c)
{
    return make(TERM_CHOICE, LEVEL_CHOICE, "", 3, (const Term *[]){a, b, c});
}
const Term *term_call(const char *function, int count, const Term *const *in)
{
    return make(TERM_CALL, LEVEL_ATOM, function, count, in);
}
const Term *term_call_of(const Term *function, int count, const Term *const *in)
{
    const Term *all[count + 1];
    all[0] = function;
    memcpy(all + 1, in, sizeof *in * (size_t)count);
    return make(TERM_CALL_OF, LEVEL_ATOM, "", count + 1, all);
}

const Term *term_grid(const char *function, int count, const Term *const *in)
{
    return make(TERM_GRID, LEVEL_ATOM, function, count, in);
}
const Term *term_element(const Term *pointer, const Term *index)
{
    return make(TERM_ELEMENT, LEVEL_ATOM, "", 2, (const Term *[]){pointer, index});
}
const Term *term_member(const Term *a, const char *member) { return make(TERM_MEMBER, LEVEL_ATOM, member, 1, &a); }
const Term *term_list(int count, const Term *const *in) { return make(TERM_LIST, LEVEL_ATOM, "", count, in); }

const Term *term_formula(Level level, Level operands, const char *formula, int count, const Term *const *in)
{
    Term *t = make(TERM_FORMULA, level, formula, count, in);
    t->operands = operands;
    return t;
}

static Term *copy(const Term *from)
{
    Term *t = NEW(Term);
    *t = *from;
    return t;
}

const Term *term_fixed(const Term *from)
{
    Term *t = copy(from);
    t->fixed = true;
    return t;
}

const Term *term_divisor(const Term *from)
{
    if (from->kind != TERM_NUMBER || from->number != NUMBER_INT)
        return from;
    Term *t = copy(from);
    t->number = NUMBER_DIVISOR;
    return t;
}

bool term_is_word(const Term *t, const char *word) { return t->kind == TERM_WORD && strcmp(t->word, word) == 0; }

/* ---- statements */

Statement *code_add(CodeBuilder *b, StatementKind kind)
{
    Statement *s = NEW(Statement);
    *s = (Statement){.kind = kind};
    Statements *to = b->depth ? b->open[b->depth - 1] : &b->code->body;
    APPEND(to->list, to->count, s);
    return s;
}

static void open_body(CodeBuilder *b, Statement *s)
{
    if (b->depth == COUNT(b->open))
        die("the loops of a kernel are nested too deeply");
    b->open[b->depth++] = &s->body;
}

void code_declare(CodeBuilder *b, const char *type, const Term *name, const Term *value)
{
    Statement *s = code_add(b, CODE_DECLARE);
    s->type = type, s->to = name, s->value = value;
}

void code_declare_too(CodeBuilder *b, const Term *name, const Term *value)
{
    Statement *s = code_add(b, CODE_DECLARE);
    s->to = name, s->value = value, s->joins = true;
}

Statement *code_array(CodeBuilder *b, const char *type, const Term *name, const Term *extent, const Term *value)
{
    Statement *s = code_add(b, CODE_DECLARE);
    s->type = type, s->to = name, s->value = value;
    if (extent)
        APPEND(s->extent, s->extent_count, extent);
    return s;
}

void code_set(CodeBuilder *b, const Term *to, const char *sign, const Term *value)
{
    Statement *s = code_add(b, CODE_SET);
    s->to = to, s->sign = sign, s->value = value;
}

void code_do(CodeBuilder *b, const Term *value) { code_add(b, CODE_DO)->value = value; }

void code_if(CodeBuilder *b, const Term *condition)
{
    Statement *s = code_add(b, CODE_IF);
    s->value = condition;
    open_body(b, s);
}

void code_block(CodeBuilder *b) { open_body(b, code_add(b, CODE_BLOCK)); }

Statement *code_for(CodeBuilder *b, const char *type, const Term *name, const Term *from, const Term *condition)
{
    Statement *s = code_add(b, CODE_FOR);
    s->type = type, s->to = name, s->from = from, s->value = condition;
    open_body(b, s);
    return s;
}

void code_step(Statement *loop, const Term *to, const char *sign, const Term *value)
{
    Statement *s = NEW(Statement);
    *s = (Statement){.kind = CODE_SET, .to = to, .sign = sign, .value = value};
    APPEND(loop->steps.list, loop->steps.count, s);
}

Statement *code_count(CodeBuilder *b, const char *type, const Term *name, const Term *from, const Term *to, const Term *step)
{
    Statement *s = code_for(b, type, name, from, term_binary(LEVEL_LESS, name, "<", to));
    code_step(s, name, step ? "+=" : "++", step);
    return s;
}

void code_close(CodeBuilder *b)
{
    if (!b->depth)
        die("a block of a kernel is closed that is not open");
    b->depth--;
}

void code_close_to(CodeBuilder *b, int depth)
{
    while (b->depth > depth)
        code_close(b);
}

void code_bare(CodeBuilder *b)
{
    code_close(b);
    Statements *around = b->depth ? b->open[b->depth - 1] : &b->code->body;
    around->list[around->count - 1]->bare = true;
}

/* ---- copies */

static const char *copy_word(const char *word) { return word ? copy_text(word, strlen(word)) : NULL; }

static const Term *copy_term(const Term *from);

static const Term **copy_terms(const Term *const *from, int count)
{
    const Term **to = count ? NEW_ARRAY(const Term *, count) : NULL;
    for (int i = 0; i < count; i++)
        to[i] = copy_term(from[i]);
    return to;
}

static const Term *copy_term(const Term *from)
{
    if (!from)
        return NULL;
    Term *to = copy(from);
    to->word = copy_word(from->word);
    to->in = copy_terms(from->in, from->count);
    return to;
}

static Statements copy_statements(const Statements *from)
{
    Statements to = {.list = from->count ? NEW_ARRAY(Statement *, from->count) : NULL, .count = from->count};
    for (int i = 0; i < from->count; i++) {
        const Statement *s = from->list[i];
        Statement *own = to.list[i] = NEW(Statement);
        *own = *s;
        own->type = copy_word(s->type), own->sign = copy_word(s->sign), own->remark = copy_word(s->remark);
        own->to = copy_term(s->to), own->from = copy_term(s->from), own->value = copy_term(s->value);
        own->extent = copy_terms(s->extent, s->extent_count);
        own->steps = copy_statements(&s->steps), own->body = copy_statements(&s->body);
        own->constants = s->constant_count ? memcpy(NEW_ARRAY(double, s->constant_count), s->constants,
                                                    sizeof(double) * (size_t)s->constant_count)
                                           : NULL;
    }
    return to;
}

const Code *code_copy(const Code *from)
{
    Code *to = NEW(Code);
    *to = *from;
    to->by_path = copy_word(from->by_path);
    to->parameters = from->parameter_count ? NEW_ARRAY(CodeParameter, from->parameter_count) : NULL;
    for (int i = 0; i < from->parameter_count; i++) {
        const CodeParameter *p = &from->parameters[i];
        to->parameters[i] = (CodeParameter){copy_word(p->type), copy_term(p->name), copy_word(p->remark)};
    }
    to->body = copy_statements(&from->body);
    return to;
}
