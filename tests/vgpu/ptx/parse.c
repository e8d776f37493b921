/* parse.c: tokens of PTX -> a module: its variables, its functions, their statements. PTX ISA 4 (syntax), 5 (spaces, types,
 * variables), 7.1 (functions), 11 (directives). Lines for debuggers and what only helps ptxas are passed over. */
#include "tests/vgpu/ptx/ptx.h"

#include <stdlib.h>
#include <string.h>

const TypeInfo ptx_types[TYPES] = {
    [TYPE_NONE] = {"", "void", 0, false},           [TYPE_PRED] = {"pred", "unsigned char", 1, false},
    [TYPE_B8] = {"b8", "uint8_t", 1, false},        [TYPE_U8] = {"u8", "uint8_t", 1, false},
    [TYPE_S8] = {"s8", "int8_t", 1, false},         [TYPE_B16] = {"b16", "uint16_t", 2, false},
    [TYPE_U16] = {"u16", "uint16_t", 2, false},     [TYPE_S16] = {"s16", "int16_t", 2, false},
    [TYPE_F16] = {"f16", "uint16_t", 2, false},     [TYPE_BF16] = {"bf16", "uint16_t", 2, false},
    [TYPE_B32] = {"b32", "uint32_t", 4, false},     [TYPE_U32] = {"u32", "uint32_t", 4, false},
    [TYPE_S32] = {"s32", "int32_t", 4, false},      [TYPE_F32] = {"f32", "float", 4, true},
    [TYPE_F16X2] = {"f16x2", "uint32_t", 4, false}, [TYPE_BF16X2] = {"bf16x2", "uint32_t", 4, false},
    [TYPE_TF32] = {"tf32", "uint32_t", 4, false},   [TYPE_B64] = {"b64", "uint64_t", 8, false},
    [TYPE_U64] = {"u64", "uint64_t", 8, false},     [TYPE_S64] = {"s64", "int64_t", 8, false},
    [TYPE_F64] = {"f64", "double", 8, true},        [TYPE_B128] = {"b128", "ptx_128", 16, false},
};

Type ptx_type(const char *name, size_t length)
{
    for (Type t = TYPE_PRED; t < TYPES; t++)
        if (strlen(ptx_types[t].name) == length && memcmp(ptx_types[t].name, name, length) == 0)
            return t;
    return TYPE_NONE;
}

Space ptx_space(const char *name, size_t length)
{
    static const struct {
        const char *name;
        Space space;
    } spaces[] = {{"reg", SPACE_REG},           {"param", SPACE_PARAM},        {"param::entry", SPACE_PARAM},
                  {"param::func", SPACE_PARAM}, {"global", SPACE_GLOBAL},      {"const", SPACE_CONST},
                  {"shared", SPACE_SHARED},     {"shared::cta", SPACE_SHARED}, {"local", SPACE_LOCAL}};
    for (size_t k = 0; k < sizeof spaces / sizeof *spaces; k++)
        if (strlen(spaces[k].name) == length && memcmp(spaces[k].name, name, length) == 0)
            return spaces[k].space;
    return SPACE_NONE;
}

typedef struct Parser {
    Ptx *ptx;
    const Token *at;
    Module *module;
    unsigned used_bytes;
} Parser;

/* ---- tokens */

static bool is_sign(const Parser *p, char sign) { return p->at->kind == TOKEN_SIGN && p->at->sign == sign; }
static bool is_word(const Parser *p, const char *word) { return p->at->kind == TOKEN_WORD && strcmp(p->at->text, word) == 0; }

static bool take_sign(Parser *p, char sign)
{
    bool there = is_sign(p, sign);
    p->at += there;
    return there;
}
static bool take_word(Parser *p, const char *word)
{
    bool there = is_word(p, word);
    p->at += there;
    return there;
}
static void need_sign(Parser *p, char sign)
{
    if (!take_sign(p, sign))
        ptx_fail(p->ptx, p->at->line, "'%c' is expected in place of '%s'", sign, p->at->text);
}
static const char *need_word(Parser *p)
{
    if (p->at->kind != TOKEN_WORD)
        ptx_fail(p->ptx, p->at->line, "a name is expected in place of '%s'", p->at->text);
    return (p->at++)->text;
}
static uint64_t need_number(Parser *p)
{
    bool negative = take_sign(p, '-');
    if (p->at->kind != TOKEN_NUMBER)
        ptx_fail(p->ptx, p->at->line, "a number is expected in place of '%s'", p->at->text);
    uint64_t bits = (p->at++)->bits;
    return negative ? -bits : bits;
}
static void skip_to(Parser *p, char sign)
{
    while (p->at->kind != TOKEN_END && !is_sign(p, sign))
        p->at++;
    need_sign(p, sign);
}

/* ---- variables */

static Value parse_value(Parser *p)
{
    Value v = {0};
    if (p->at->kind == TOKEN_WORD) { /* name, generic(name), name+8 */
        bool generic = take_word(p, "generic");
        if (generic)
            need_sign(p, '(');
        v.name = need_word(p);
        if (generic)
            need_sign(p, ')');
        v.offset = take_sign(p, '+') ? need_number(p) : 0;
        return v;
    }
    v.digits = p->at->digits;
    v.bits = need_number(p);
    return v;
}

static void parse_initializer(Parser *p, Variable *v)
{
    int room = 0;
    bool list = take_sign(p, '{');
    do {
        if (v->value_count == room) {
            Value *longer = ptx_allocate(p->ptx, (size_t)(2 * room + 16) * sizeof *longer);
            if (room)
                memcpy(longer, v->values, (size_t)room * sizeof *longer);
            v->values = longer;
            room = 2 * room + 16;
        }
        v->values[v->value_count++] = parse_value(p);
    } while (list && take_sign(p, ','));
    if (list)
        need_sign(p, '}');
}

/* after the space: .align 8 .v2 .b8 name[4][2] = {..}; without the end of a declaration */
static Variable *parse_variable(Parser *p, Space space)
{
    Variable *v = ptx_allocate(p->ptx, sizeof *v);
    uint64_t vector = 1;
    *v = (Variable){.space = space, .line = p->at->line};
    while (p->at->kind == TOKEN_WORD && p->at->text[0] == '.') {
        const char *word = need_word(p) + 1;
        Type type = ptx_type(word, strlen(word));
        if (strcmp(word, "align") == 0)
            v->align = (int)need_number(p);
        else if (strcmp(word, "v2") == 0 || strcmp(word, "v4") == 0)
            vector = (uint64_t)(word[1] - '0');
        else if (type != TYPE_NONE)
            v->type = type;
        else if (strcmp(word, "ptr") != 0 && ptx_space(word, strlen(word)) == SPACE_NONE)
            ptx_fail(p->ptx, p->at[-1].line, "a variable with '.%s' is not known", word);
    }
    if (v->type == TYPE_NONE)
        ptx_fail(p->ptx, p->at->line, "a variable has no type");
    v->name = need_word(p);
    uint64_t elements = vector, open = 0;
    if (take_sign(p, '<')) {
        v->registers = (int)need_number(p);
        need_sign(p, '>');
    }
    while (take_sign(p, '[')) {
        uint64_t extent = is_sign(p, ']') ? 0 : need_number(p);
        open |= extent == 0;
        elements *= extent ? extent : 1;
        need_sign(p, ']');
    }
    if (take_sign(p, '='))
        parse_initializer(p, v);
    v->bytes = (open ? (uint64_t)v->value_count : elements) * ptx_types[v->type].bytes;
    v->align = v->align ? v->align : (int)(ptx_types[v->type].bytes * vector);
    return v;
}

static void append(Variable **list, Variable *v)
{
    while (*list)
        list = &(*list)->next;
    *list = v;
}

/* ---- operands */

static Operand parse_operand(Parser *p);

static void parse_parts(Parser *p, Operand *o, char end)
{
    enum { MOST = 128 }; /* registers of wgmma */
    o->parts = ptx_allocate(p->ptx, MOST * sizeof *o->parts);
    while (!take_sign(p, end)) {
        if (o->count == MOST)
            ptx_fail(p->ptx, p->at->line, "the list is too long");
        o->parts[o->count++] = parse_operand(p);
        if (!is_sign(p, end))
            need_sign(p, ',');
    }
}

static void parse_address(Parser *p, Operand *o)
{
    o->kind = OPERAND_ADDRESS;
    if (p->at->kind == TOKEN_WORD)
        o->name = need_word(p);
    bool added = !o->name || take_sign(p, '+');
    if (added || is_sign(p, '-'))
        o->bits = need_number(p);
    need_sign(p, ']');
}

static Operand parse_operand(Parser *p)
{
    Operand o = {.negated = take_sign(p, '!')};
    if (take_sign(p, '['))
        parse_address(p, &o);
    else if (take_sign(p, '{')) {
        o.kind = OPERAND_VECTOR;
        parse_parts(p, &o, '}');
    } else if (take_sign(p, '(')) {
        o.kind = OPERAND_LIST;
        parse_parts(p, &o, ')');
    } else if (p->at->kind == TOKEN_WORD) {
        o.name = need_word(p);
        if (take_sign(p, '+'))
            o.bits = need_number(p);
    } else {
        o.kind = OPERAND_NUMBER;
        bool negative = is_sign(p, '-');
        o.digits = p->at[negative].digits;
        o.bits = need_number(p);
        if (negative && o.digits)
            o.bits = -o.bits ^ (uint64_t)1 << (4 * o.digits - 1);
    }
    if (take_sign(p, '|')) {
        o.second = ptx_allocate(p->ptx, sizeof *o.second);
        *o.second = parse_operand(p);
    }
    return o;
}

/* ---- statements */

static void split_name(Parser *p, Statement *s)
{
    for (const char *at = s->name, *end; *at; at = *end ? end + 1 : end) {
        end = at + strcspn(at, ".");
        if (s->modifiers == MODIFIERS)
            ptx_fail(p->ptx, s->line, "'%s' is not known", s->name);
        s->modifier[s->modifiers++] = (Modifier){at, (int)(end - at)};
    }
}

static void parse_instruction(Parser *p, Statement *s)
{
    s->kind = STATEMENT_INSTRUCTION;
    if (take_sign(p, '@')) {
        s->guard = ptx_allocate(p->ptx, sizeof *s->guard);
        *s->guard = parse_operand(p);
    }
    s->line = p->at->line;
    s->name = need_word(p);
    split_name(p, s);
    s->used_bytes = p->used_bytes;
    p->used_bytes = 0;
    while (!take_sign(p, ';')) {
        if (s->operands == OPERANDS)
            ptx_fail(p->ptx, s->line, "%s has too many operands", s->name);
        s->operand[s->operands++] = parse_operand(p);
        if (!is_sign(p, ';'))
            need_sign(p, ',');
    }
}

/* .pragma "usedbytesmask 15": of what the next load loads only these bytes are used */
static void parse_pragma(Parser *p)
{
    if (p->at->kind == TOKEN_STRING && strncmp(p->at->text, "usedbytesmask ", 14) == 0)
        p->used_bytes = (unsigned)strtoul(p->at->text + 14, NULL, 0);
    skip_to(p, ';');
}

static Statement *next_statement(Parser *p, Function *f, int *room)
{
    if (f->count == *room) {
        Statement *longer = ptx_allocate(p->ptx, (size_t)(2 * *room + 64) * sizeof *longer);
        if (*room)
            memcpy(longer, f->statement, (size_t)*room * sizeof *longer);
        f->statement = longer;
        *room = 2 * *room + 64;
    }
    f->statement[f->count] = (Statement){.line = p->at->line};
    return &f->statement[f->count++];
}

/* .reg, .param, .local, .shared: one or several with commas */
static void parse_variables(Parser *p, Function *f, int *room, Space space)
{
    const Token *begin = p->at;
    Type type = TYPE_NONE;
    do {
        Statement *s = next_statement(p, f, room);
        s->kind = STATEMENT_VARIABLE;
        if (type == TYPE_NONE)
            s->variable = parse_variable(p, space);
        else { /* of the first one's type */
            s->variable = ptx_allocate(p->ptx, sizeof *s->variable);
            *s->variable = (Variable){.space = space,
                                      .type = type,
                                      .line = p->at->line,
                                      .name = need_word(p),
                                      .bytes = ptx_types[type].bytes,
                                      .align = (int)ptx_types[type].bytes};
        }
        type = s->variable->type;
    } while (space == SPACE_REG && take_sign(p, ','));
    if (!take_sign(p, ';'))
        ptx_fail(p->ptx, begin->line, "the declaration has no end");
}

static void parse_body(Parser *p, Function *f)
{
    int depth = 1, room = 0;
    while (depth > 0) {
        const char *word = p->at->kind == TOKEN_WORD ? p->at->text : "";
        Space space = word[0] == '.' ? ptx_space(word + 1, strlen(word + 1)) : SPACE_NONE;
        if (take_sign(p, '{')) {
            next_statement(p, f, &room)->kind = STATEMENT_OPEN;
            depth++;
        } else if (take_sign(p, '}')) {
            if (--depth > 0)
                next_statement(p, f, &room)->kind = STATEMENT_CLOSE;
        } else if (space != SPACE_NONE) {
            p->at++;
            parse_variables(p, f, &room, space);
        } else if (take_word(p, ".pragma"))
            parse_pragma(p);
        else if (take_word(p, ".loc")) { /* file line column, and more after commas */
            for (int line = p->at->line; p->at->line == line && p->at->kind != TOKEN_END;)
                p->at++;
        } else if (word[0] && p->at[1].kind == TOKEN_SIGN && p->at[1].sign == ':') {
            Statement *s = next_statement(p, f, &room);
            s->kind = STATEMENT_LABEL;
            s->name = need_word(p);
            p->at++;
        } else if (word[0] == '.')
            ptx_fail(p->ptx, p->at->line, "'%s' is not known", word);
        else if (p->at->kind == TOKEN_END)
            ptx_fail(p->ptx, p->at->line, "the function %s has no end", f->name);
        else if (!take_sign(p, ';'))
            parse_instruction(p, next_statement(p, f, &room));
    }
}

/* ---- functions */

static Variable *parse_parameters(Parser *p)
{
    Variable *list = NULL;
    need_sign(p, '(');
    while (!take_sign(p, ')')) {
        if (!take_word(p, ".param"))
            ptx_fail(p->ptx, p->at->line, "a parameter in '%s' is not known", p->at->text);
        append(&list, parse_variable(p, SPACE_PARAM));
        if (!is_sign(p, ')'))
            need_sign(p, ',');
    }
    return list;
}

/* .maxntid 256, 1, 1 and others, until the body */
static void parse_bounds(Parser *p, Function *f)
{
    while (p->at->kind == TOKEN_WORD) {
        const char *word = need_word(p);
        bool threads = strcmp(word, ".maxntid") == 0 || strcmp(word, ".reqntid") == 0;
        if (!threads && strcmp(word, ".minnctapersm") != 0 && strcmp(word, ".maxnreg") != 0 && strcmp(word, ".noreturn") != 0)
            ptx_fail(p->ptx, p->at[-1].line, "'%s' is not known", word);
        uint64_t product = 1;
        while (p->at->kind == TOKEN_NUMBER) {
            product *= need_number(p);
            take_sign(p, ',');
        }
        f->most_threads = threads ? product : f->most_threads;
    }
}

static void parse_function(Parser *p, bool is_entry)
{
    Function *f = ptx_allocate(p->ptx, sizeof *f), **last = &p->module->functions;
    f->is_entry = is_entry;
    f->line = p->at->line;
    if (!is_entry && is_sign(p, '('))
        f->results = parse_parameters(p);
    f->name = need_word(p);
    if (is_sign(p, '('))
        f->parameters = parse_parameters(p);
    parse_bounds(p, f);
    if (!take_sign(p, ';')) {
        need_sign(p, '{');
        f->is_defined = true;
        parse_body(p, f);
    }
    while (*last && strcmp((*last)->name, f->name) != 0)
        last = &(*last)->next;
    if (!*last)
        *last = f;
    else if (f->is_defined) {
        f->next = (*last)->next;
        *last = f;
    }
}

/* ---- the module */

static void parse_target(Parser *p, Module *m)
{
    const char *arch = need_word(p);
    if (strncmp(arch, "sm_", 3) != 0)
        ptx_fail(p->ptx, p->at[-1].line, "the target '%s' is not known", arch);
    char *end;
    m->target = (int)strtol(arch + 3, &end, 10);
    m->own = *end == 'a';
    while (take_sign(p, ','))
        need_word(p);
}

static void parse_header(Parser *p, Module *m)
{
    if (!take_word(p, ".version") || p->at->kind != TOKEN_NUMBER)
        ptx_fail(p->ptx, p->at->line, ".version is expected in place of '%s'", p->at->text);
    const char *version = (p->at++)->text;
    m->version = 10 * atoi(version) + atoi(version + strcspn(version, ".") + (strchr(version, '.') != NULL));
    if (!take_word(p, ".target"))
        ptx_fail(p->ptx, p->at->line, ".target is expected in place of '%s'", p->at->text);
    parse_target(p, m);
    if (take_word(p, ".address_size") && need_number(p) != 64)
        ptx_fail(p->ptx, p->at->line, "addresses have 64 bits");
}

Module *ptx_parse(Ptx *ptx, const Token *tokens)
{
    Parser p = {.ptx = ptx, .at = tokens, .module = ptx_allocate(ptx, sizeof(Module))};
    Variable **last = &p.module->variables;
    bool is_extern = false;
    parse_header(&p, p.module);
    while (p.at->kind != TOKEN_END) {
        int line = p.at->line;
        const char *word = need_word(&p);
        Space space = word[0] == '.' ? ptx_space(word + 1, strlen(word + 1)) : SPACE_NONE;
        if (strcmp(word, ".entry") == 0 || strcmp(word, ".func") == 0) {
            parse_function(&p, word[1] == 'e');
            is_extern = false;
        } else if (space == SPACE_GLOBAL || space == SPACE_CONST || space == SPACE_SHARED) {
            Variable *v = *last = parse_variable(&p, space);
            last = &v->next;
            v->is_extern = is_extern;
            is_extern = false;
            need_sign(&p, ';');
        } else if (strcmp(word, ".extern") == 0)
            is_extern = true;
        else if (strcmp(word, ".file") == 0)
            p.at += 2;
        else if (strcmp(word, ".pragma") == 0)
            parse_pragma(&p);
        else if (strcmp(word, ".visible") != 0 && strcmp(word, ".weak") != 0 && strcmp(word, ".common") != 0)
            ptx_fail(ptx, line, "'%s' is not known", word);
    }
    return p.module;
}
