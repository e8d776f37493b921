/* print.c: a module of PTX -> C (device.h). Each entry function becomes a C function with its registers as variables;
 * instructions are instructions.c's. Addresses are those of this machine, but for shared memory, which has a window of its own
 * from 0 on: first a function's static variables, then the dynamic one. */
#include "tests/vgpu/ptx/ptx.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LOCAL_ALIGNMENT = 16, STATIC_SHARED = 48 << 10 /* bytes of a block at most, as ptxas has it */ };

/* the registers and variables of a function; those of an inner block come later and go at its end */
struct Scope {
    Variable **list;
    int count, room;
    int block[64], depth;
    uint64_t local_bytes;
};

/* ---- names in C */

static char *c_name(Ptx *p, const char *prefix, const char *name)
{
    char *text = ptx_format(p, "%s%*s", prefix, (int)(3 * strlen(name)), ""), *to = text + strlen(prefix);
    for (name += *name == '%'; *name; name++)
        if (isalnum((unsigned char)*name) || *name == '_')
            *to++ = *name;
        else {
            *to++ = '_';
            *to++ = (char)('a' + ((unsigned char)*name >> 4));
            *to++ = (char)('a' + ((unsigned char)*name & 15));
        }
    *to = 0;
    return text;
}

char *ptx_label(Printer *p, const char *name) { return c_name(p->ptx, "L_", name); }
char *ptx_parameter(Printer *p, const char *name) { return c_name(p->ptx, "P_", name); }

/* ---- looking up */

static bool names_register(const Variable *v, const char *name)
{
    size_t length = strlen(v->name);
    if (!v->registers)
        return strcmp(v->name, name) == 0;
    return strncmp(v->name, name, length) == 0 && isdigit((unsigned char)name[length]) &&
           strspn(name + length, "0123456789") == strlen(name + length) && atoi(name + length) < v->registers;
}

static Variable *find(const Printer *p, const char *name)
{
    for (int k = p->scope->count - 1; k >= 0; k--)
        if (names_register(p->scope->list[k], name))
            return p->scope->list[k];
    for (Variable *v = p->module->variables; v; v = v->next)
        if (strcmp(v->name, name) == 0)
            return v;
    return NULL;
}

static Variable *need(Printer *p, const char *name)
{
    Variable *v = find(p, name);
    if (!v)
        ptx_fail(p->ptx, p->at->line, "%s: '%s' is not declared", p->at->name, name);
    v->used = true;
    return v;
}

static void declare(Printer *p, Variable *v)
{
    Scope *s = p->scope;
    if (s->count == s->room) {
        s->room = 2 * s->room + 64;
        Variable **longer = ptx_allocate(p->ptx, (size_t)s->room * sizeof *longer);
        if (s->count)
            memcpy(longer, s->list, (size_t)s->count * sizeof *longer);
        s->list = longer;
    }
    s->list[s->count++] = v;
}

bool ptx_has(const Statement *s, const char *modifier)
{
    for (int k = 1; k < s->modifiers; k++)
        if ((int)strlen(modifier) == s->modifier[k].length && memcmp(modifier, s->modifier[k].text, strlen(modifier)) == 0)
            return true;
    return false;
}

void ptx_refuse(Printer *p, const char *why) { ptx_fail(p->ptx, p->at->line, "%s: %s", p->at->name, why); }

/* ---- what C calls it: registers that hold float and double are those, whether or not they are declared so */

static Type held(const Variable *v)
{
    bool named = v->name[0] == '%' && v->name[1] == 'f';
    return v->type == TYPE_B32 && named && !v->name[2]         ? TYPE_F32
           : v->type == TYPE_B64 && named && v->name[2] == 'd' ? TYPE_F64
                                                               : v->type;
}

/* a value of one type as one of another type with the same bits, or fewer */
static char *as(Printer *p, const char *text, Type from, Type to)
{
    if (from == to)
        return ptx_format(p->ptx, "%s", text);
    if (ptx_types[from].floating)
        text = ptx_format(p->ptx, "B%u(%s)", 8 * ptx_types[from].bytes, text);
    if (ptx_types[to].floating)
        return ptx_format(p->ptx, "F%u(%s)", 8 * ptx_types[to].bytes, text);
    return ptx_format(p->ptx, "(%s)%s", ptx_types[to].c, text);
}

/* ---- registers of wgmma: the function has an array G of them, and H: which a thread has touched since its last wgmma.fence.
 * They are neither read nor written while a wgmma is in flight (device.h) */

static int async_place(const Variable *v, const char *name)
{
    return v->async ? v->async[v->registers ? atoi(name + strlen(v->name)) : 0] : 0;
}

int ptx_async_place(Printer *p, const Operand *o)
{
    const Variable *v = o->kind == OPERAND_NAME ? need(p, o->name) : NULL;
    int place = v && v->space == SPACE_REG ? async_place(v, o->name) : 0;
    if (!place || ptx_types[v->type].bytes != 4)
        ptx_refuse(p, "its registers have 32 bits");
    return place - 1;
}

/* the declaration that a statement sees */
static Variable *declared_before(const Function *f, int statement, const char *name)
{
    int closed = 0;
    for (const Statement *s = f->statement + statement - 1; s >= f->statement; s--) {
        if (s->kind == STATEMENT_VARIABLE && closed == 0 && s->variable->space == SPACE_REG && names_register(s->variable, name))
            return s->variable;
        closed += s->kind == STATEMENT_CLOSE ? 1 : s->kind == STATEMENT_OPEN && closed > 0 ? -1 : 0;
    }
    return NULL;
}

static void place_async_register(Printer *p, Function *f, int statement, const Operand *o)
{
    Variable *v = o->kind == OPERAND_NAME ? declared_before(f, statement, o->name) : NULL;
    if (!v)
        return;
    if (!v->async)
        v->async = ptx_allocate(p->ptx, (size_t)(v->registers + 1) * sizeof *v->async);
    int *place = &v->async[v->registers ? atoi(o->name + strlen(v->name)) : 0];
    *place = *place ? *place : ++f->async;
}

static void place_async_registers(Printer *p, Function *f)
{
    for (int k = 0; k < f->count; k++) {
        const Statement *s = &f->statement[k];
        bool multiplies = s->kind == STATEMENT_INSTRUCTION && strncmp(s->name, "wgmma.mma_async", 15) == 0;
        for (int i = 0; i < 2 && multiplies; i++) /* D, and A where it is in registers */
            for (int j = 0; j < s->operand[i].count; j++)
                place_async_register(p, f, k, &s->operand[i].parts[j]);
    }
}

static char *read_register(Printer *p, const Variable *v, const char *name)
{
    int place = async_place(v, name);
    if (!place)
        return c_name(p->ptx, "_", name);
    return ptx_format(p->ptx, "(H[%d] = 1, *(%s *)ptx_landed(&G[%d], %d))", place - 1, ptx_types[held(v)].c, place - 1,
                      p->at->line);
}

/* ---- sources */

static const struct {
    const char *name, *c;
} SPECIAL[] = {
    {"%tid.x", "B[PTX_TID]"},
    {"%tid.y", "B[PTX_TID + 1]"},
    {"%tid.z", "B[PTX_TID + 2]"},
    {"%ctaid.x", "B[PTX_CTAID]"},
    {"%ctaid.y", "B[PTX_CTAID + 1]"},
    {"%ctaid.z", "B[PTX_CTAID + 2]"},
    {"%ntid.x", "B[PTX_NTID]"},
    {"%ntid.y", "B[PTX_NTID + 1]"},
    {"%ntid.z", "B[PTX_NTID + 2]"},
    {"%nctaid.x", "B[PTX_NCTAID]"},
    {"%nctaid.y", "B[PTX_NCTAID + 1]"},
    {"%nctaid.z", "B[PTX_NCTAID + 2]"},
    {"%laneid", "LANE"},
    {"%warpid", "(E->now->thread / 32u)"},
    {"WARP_SZ", "32u"},
    {"%lanemask_eq", "(1u << LANE)"},
    {"%lanemask_lt", "((1u << LANE) - 1u)"},
    {"%lanemask_le", "((2u << LANE) - 1u)"},
    {"%lanemask_gt", "~((2u << LANE) - 1u)"},
    {"%lanemask_ge", "~((1u << LANE) - 1u)"},
};

static char *number(Printer *p, const Operand *o, Type type)
{
    const TypeInfo *t = &ptx_types[type];
    double value;
    memcpy(&value, &o->bits, sizeof value);
    if (type == TYPE_PRED)
        return ptx_format(p->ptx, "%d", (o->bits != 0) != o->negated);
    if (!t->floating)
        return ptx_format(p->ptx, "(%s)0x%llx%s", t->c, (unsigned long long)(o->digits == 16 && t->bytes == 4 ? 0 : o->bits),
                          t->bytes == 8 ? "ull" : "u");
    if (t->bytes == 8)
        return isfinite(value) && o->digits ? ptx_format(p->ptx, "%a", value)
                                            : ptx_format(p->ptx, "F64(0x%llxull)", (unsigned long long)o->bits);
    return ptx_format(p->ptx, "F32(0x%xu)", (unsigned)o->bits);
}

static char *variable_address(Printer *p, const Variable *v, uint64_t offset)
{
    switch (v->space) {
    case SPACE_SHARED: return ptx_format(p->ptx, "%lluu", (unsigned long long)(v->offset + offset));
    case SPACE_LOCAL: return ptx_format(p->ptx, "((uint64_t)M + %llu)", (unsigned long long)(v->offset + offset));
    case SPACE_PARAM: return ptx_format(p->ptx, "((uint64_t)%s + %llu)", ptx_parameter(p, v->name), (unsigned long long)offset);
    default: return ptx_format(p->ptx, "((uint64_t)%s + %llu)", c_name(p->ptx, "V_", v->name), (unsigned long long)offset);
    }
}

static char *register_value(Printer *p, const Operand *o, const Variable *v, Type type)
{
    Type from = held(v);
    char *name = read_register(p, v, o->name);
    if ((type == TYPE_PRED) != (from == TYPE_PRED))
        ptx_refuse(p, ptx_format(p->ptx, "'%s' has another type", o->name));
    if (type == TYPE_PRED)
        return ptx_format(p->ptx, "%s%s", o->negated ? "!" : "", name);
    if (ptx_types[type].bytes > ptx_types[from].bytes)
        ptx_refuse(p, ptx_format(p->ptx, "'%s' has fewer bits than the instruction's type", o->name));
    return as(p, name, from, type);
}

char *ptx_source(Printer *p, const Operand *o, Type type)
{
    if (o->kind == OPERAND_NUMBER)
        return number(p, o, type);
    if (o->kind != OPERAND_NAME)
        ptx_refuse(p, "an operand is none of these: a register, a number");
    for (size_t k = 0; k < sizeof SPECIAL / sizeof *SPECIAL; k++)
        if (strcmp(SPECIAL[k].name, o->name) == 0)
            return ptx_format(p->ptx, "(%s)%s", ptx_types[type].c, SPECIAL[k].c);
    const Variable *v = need(p, o->name);
    if (v->space == SPACE_REG)
        return register_value(p, o, v, type);
    return ptx_format(p->ptx, "(%s)%s", ptx_types[type].c, variable_address(p, v, o->bits));
}

char *ptx_address(Printer *p, const Operand *o, Space space)
{
    const Variable *v = o->name ? need(p, o->name) : NULL;
    char *at = !v                      ? ptx_format(p->ptx, "0x%llxull", (unsigned long long)o->bits)
               : v->space != SPACE_REG ? variable_address(p, v, o->bits)
                                       : NULL;
    if (o->kind != OPERAND_ADDRESS)
        ptx_refuse(p, "an address is expected");
    if (v && v->space != SPACE_REG && space != SPACE_NONE && v->space != space)
        ptx_refuse(p, ptx_format(p->ptx, "'%s' is in another space", o->name));
    if (!at)
        at = ptx_format(p->ptx, ptx_types[v->type].bytes == 8 ? "(%s + (uint64_t)%lldll)" : "(uint32_t)(%s + (uint32_t)%lld)",
                        read_register(p, v, o->name), (long long)o->bits);
    return space == SPACE_SHARED ? ptx_format(p->ptx, "((uint64_t)S + %s)", at) : at;
}

/* ---- destinations */

void ptx_assign(Printer *p, const Operand *o, Type type, const char *value)
{
    if (o->kind == OPERAND_NAME && strcmp(o->name, "_") == 0) {
        ptx_add(p->out, "(void)(%s); ", value);
        return;
    }
    const Variable *v = o->kind == OPERAND_NAME ? need(p, o->name) : NULL;
    if (!v || v->space != SPACE_REG)
        ptx_refuse(p, "what it computes has to go to a register");
    Type to = held(v);
    if ((type == TYPE_PRED) != (to == TYPE_PRED) || ptx_types[to].bytes < ptx_types[type].bytes)
        ptx_refuse(p, ptx_format(p->ptx, "'%s' has another type", o->name));
    bool same_bits = ptx_types[to].floating != ptx_types[type].floating;
    int place = async_place(v, o->name);
    if (place)
        ptx_add(p->out, "H[%d] = 1; ", place - 1);
    ptx_add(p->out, "%s = %s; ",
            place ? ptx_format(p->ptx, "*(%s *)&G[%d]", ptx_types[to].c, place - 1) : c_name(p->ptx, "_", o->name),
            same_bits ? as(p, ptx_format(p->ptx, "(%s)(%s)", ptx_types[type].c, value), type, to) : value);
}

/* ---- functions */

char *ptx_callee(Printer *p, const char *name, const Function **function)
{
    for (const Function *f = p->module->functions; f; f = f->next)
        if (strcmp(f->name, name) == 0 && f->is_defined && !f->is_entry) {
            *function = f;
            return c_name(p->ptx, "F_", name);
        }
    ptx_refuse(p, ptx_format(p->ptx, "the function '%s' is not defined in this module", name));
}

static void print_registers(Printer *p, const Variable *v)
{
    Type type = held(v);
    ptx_add(p->out, "%s ", ptx_types[type].c);
    for (int k = 0; k < (v->registers ? v->registers : 1); k++)
        ptx_add(p->out, v->registers ? "%s%s%d" : "%s%s", k ? ", " : "", c_name(p->ptx, "_", v->name), k);
    ptx_add(p->out, ";\n");
}

static void print_variable(Printer *p, Variable *v)
{
    declare(p, v);
    if (v->space == SPACE_REG && v->type == TYPE_NONE)
        ptx_refuse(p, "a register has no type");
    if (v->space == SPACE_REG)
        print_registers(p, v);
    else if (v->space == SPACE_PARAM)
        ptx_add(p->out, "_Alignas(%d) uint8_t %s[%llu];\n", LOCAL_ALIGNMENT, ptx_parameter(p, v->name),
                (unsigned long long)v->bytes);
}

static void print_statement(Printer *p, const Statement *s)
{
    Scope *scope = p->scope;
    p->at = s;
    switch (s->kind) {
    case STATEMENT_LABEL: ptx_add(p->out, "%s:;\n", ptx_label(p, s->name)); break;
    case STATEMENT_VARIABLE: print_variable(p, s->variable); break;
    case STATEMENT_OPEN:
        if (scope->depth == (int)(sizeof scope->block / sizeof *scope->block))
            ptx_fail(p->ptx, s->line, "too many blocks in blocks");
        scope->block[scope->depth++] = scope->count;
        ptx_add(p->out, "{\n");
        break;
    case STATEMENT_CLOSE:
        scope->count = scope->block[--scope->depth];
        ptx_add(p->out, "}\n");
        break;
    case STATEMENT_INSTRUCTION:
        if (s->guard)
            ptx_add(p->out, "if (%s) { ", ptx_source(p, s->guard, TYPE_PRED));
        ptx_print_instruction(p);
        ptx_add(p->out, s->guard ? "}\n" : "\n");
        break;
    }
}

/* ---- shared and local memory of a function */

static uint64_t round_up(uint64_t bytes, int to) { return (bytes + (uint64_t)to - 1) / (uint64_t)to * (uint64_t)to; }

static Variable *shared_variable(const Module *m, const Function *f, const char *name)
{
    for (int k = 0; k < f->count; k++)
        if (f->statement[k].kind == STATEMENT_VARIABLE && f->statement[k].variable->space == SPACE_SHARED &&
            strcmp(f->statement[k].variable->name, name) == 0)
            return f->statement[k].variable;
    for (Variable *v = m->variables; v; v = v->next)
        if (v->space == SPACE_SHARED && strcmp(v->name, name) == 0)
            return v;
    return NULL;
}

/* v is used by the function: the static ones in the order in which they appear, then all dynamic ones in one place */
static void place_shared(Function *f, Variable *v, int *dynamic_alignment)
{
    if (v->used)
        return;
    v->used = true;
    if (v->is_extern) {
        *dynamic_alignment = v->align > *dynamic_alignment ? v->align : *dynamic_alignment;
        return;
    }
    v->offset = round_up(f->static_shared, v->align);
    f->static_shared = v->offset + v->bytes;
}

static void place_operand(const Module *m, Function *f, const Operand *o, int *dynamic_alignment)
{
    Variable *v = o->name && o->name[0] != '%' ? shared_variable(m, f, o->name) : NULL;
    if (v)
        place_shared(f, v, dynamic_alignment);
    for (int k = 0; k < o->count; k++)
        place_operand(m, f, &o->parts[k], dynamic_alignment);
}

static void place_variables(Printer *p, Function *f)
{
    int dynamic_alignment = 1;
    uint64_t local = 0;
    for (Variable *v = p->module->variables; v; v = v->next)
        v->used = v->used && v->space != SPACE_SHARED;
    for (int k = 0; k < f->count; k++) {
        Variable *v = f->statement[k].kind == STATEMENT_VARIABLE ? f->statement[k].variable : NULL;
        for (int i = 0; i < f->statement[k].operands; i++)
            place_operand(p->module, f, &f->statement[k].operand[i], &dynamic_alignment);
        if (v && v->space == SPACE_LOCAL) {
            v->offset = round_up(local, v->align);
            local = v->offset + v->bytes;
        }
    }
    p->scope->local_bytes = round_up(local, LOCAL_ALIGNMENT);
    f->static_shared = round_up(f->static_shared, dynamic_alignment);
    for (Variable *v = p->module->variables; v; v = v->next)
        if (v->space == SPACE_SHARED && v->is_extern)
            v->offset = f->static_shared;
    if (f->static_shared > STATIC_SHARED)
        ptx_fail(p->ptx, f->line, "%s has %llu bytes of static shared memory, there can be %d", f->name,
                 (unsigned long long)f->static_shared, STATIC_SHARED);
    if (!f->is_entry && f->static_shared)
        ptx_fail(p->ptx, f->line, "%s: shared memory of a function that others call", f->name);
}

/* ---- the text */

static void print_head(Printer *p, const Function *f, const char *end)
{
    if (f->is_entry) {
        ptx_add(p->out, "static void %s(void *const *params)%s", c_name(p->ptx, "K_", f->name), end);
        return;
    }
    const char *comma = "";
    ptx_add(p->out, "static void %s(", c_name(p->ptx, "F_", f->name));
    for (int list = 0; list < 2; list++)
        for (const Variable *v = list ? f->parameters : f->results; v; v = v->next, comma = ", ")
            ptx_add(p->out, "%suint8_t *%s", comma, ptx_parameter(p, v->name));
    ptx_add(p->out, "%s)%s", *comma ? "" : "void", end);
}

static void print_function(Printer *p, Function *f)
{
    Scope scope = {.depth = 0};
    int number = 0;
    p->function = f;
    p->scope = &scope;
    place_variables(p, f);
    place_async_registers(p, f);
    print_head(p, f,
               "\n{\nuint8_t *const S = (uint8_t *)E->now->shared; const unsigned *const B = E->built_in; uint32_t CC = 0;\n");
    ptx_add(p->out, "(void)S; (void)B; (void)CC;\n");
    for (Variable *v = f->results; v; v = v->next)
        declare(p, v);
    for (Variable *v = f->parameters; v; v = v->next, number++) {
        declare(p, v);
        if (f->is_entry)
            ptx_add(p->out, "uint8_t *const %s = params[%d];\n", ptx_parameter(p, v->name), number);
    }
    if (scope.local_bytes)
        ptx_add(p->out, "_Alignas(%d) uint8_t M[%llu]; memset(M, 255, sizeof M);\n", LOCAL_ALIGNMENT,
                (unsigned long long)scope.local_bytes);
    if (f->async)
        ptx_add(p->out, "uint32_t G[%d]; unsigned char H[sizeof G / 4]; ptx_async_begin(G, H, sizeof G / 4);\n", f->async);
    for (int k = 0; k < f->count; k++)
        print_statement(p, &f->statement[k]);
    ptx_add(p->out, "}\n");
}

/* what launches need: the entry, bytes of parameters, static shared memory, threads at most */
static void print_entry(Printer *p, const Function *f)
{
    const char *name = f->name;
    ptx_add(p->out, "static const unsigned bytes_%s[] = {", name);
    for (const Variable *v = f->parameters; v; v = v->next)
        ptx_add(p->out, "%llu, ", (unsigned long long)v->bytes);
    ptx_add(p->out, "0};\n#pragma GCC visibility push(default)\nconst unsigned *const mgpu_params_%s = bytes_%s;\n", name, name);
    ptx_add(p->out, "const unsigned mgpu_shared_%s = %llu, mgpu_threads_%s = %llu;\n", name, (unsigned long long)f->static_shared,
            name, (unsigned long long)f->most_threads);
    ptx_add(p->out,
            "int mgpu_entry_%s(mgpu_vgpu_launch *launch)\n{\nlaunch->shared_bytes += mgpu_shared_%s;\nreturn E->run(launch, "
            "%s, %d);\n}\n#pragma GCC visibility pop\n",
            name, name, c_name(p->ptx, "K_", name), f->async > 0);
}

static void print_values(Printer *p, const Variable *v)
{
    unsigned bytes = ptx_types[v->type].bytes;
    ptx_add(p->out, " = {");
    for (int k = 0; k < v->value_count; k++) {
        const Value *x = &v->values[k];
        if (x->name)
            ptx_add(p->out, "(uint64_t)%s + %llu, ", c_name(p->ptx, "V_", x->name), (unsigned long long)x->offset);
        else if (x->digits == 16 && bytes == 4)
            ptx_fail(p->ptx, v->line, "%s: a number of 64 bits", v->name);
        else
            ptx_add(p->out, "0x%llx, ", (unsigned long long)(bytes == 8 ? x->bits : x->bits & (((uint64_t)1 << 8 * bytes) - 1)));
    }
    ptx_add(p->out, "}");
}

/* what initializers name is used, too */
static void use_more(Printer *p)
{
    for (bool more = true; more;) {
        more = false;
        for (Variable *v = p->module->variables; v; v = v->next)
            for (int k = 0; k < v->value_count && v->used; k++)
                for (Variable *w = p->module->variables; w && v->values[k].name; w = w->next)
                    if (!w->used && strcmp(w->name, v->values[k].name) == 0)
                        more = w->used = true;
    }
}

static void print_module_variables(Printer *p)
{
    use_more(p);
    for (int initialized = 0; initialized < 2; initialized++)
        for (Variable *v = p->module->variables; v; v = v->next) {
            if (!v->used || v->space == SPACE_SHARED)
                continue;
            if (v->is_extern || ptx_types[v->type].bytes > 8)
                ptx_fail(p->ptx, v->line, "the variable %s is not known", v->name);
            unsigned bytes = 8 * ptx_types[v->type].bytes;
            ptx_add(p->out, "_Alignas(%d) static uint%u_t %s[%llu]", v->align < LOCAL_ALIGNMENT ? LOCAL_ALIGNMENT : v->align,
                    bytes, c_name(p->ptx, "V_", v->name), (unsigned long long)(v->bytes / (bytes / 8)));
            if (v->value_count && initialized)
                print_values(p, v);
            ptx_add(p->out, ";\n");
        }
}

void ptx_print(Ptx *ptx, Module *m, PtxText *functions, PtxText *out)
{
    Printer p = {.ptx = ptx, .module = m, .out = functions};
    ptx_add(out, "#include \"tests/vgpu/ptx/device.h\"\n");
    for (Function *f = m->functions; f; f = f->next)
        if (f->is_defined)
            print_function(&p, f);
    p.out = out;
    print_module_variables(&p);
    for (const Function *f = m->functions; f; f = f->next)
        if (f->is_defined && !f->is_entry)
            print_head(&p, f, ";\n");
    ptx_add(out, "%s", functions->data ? functions->data : "");
    for (const Function *f = m->functions; f; f = f->next)
        if (f->is_defined && f->is_entry)
            print_entry(&p, f);
}
