/* memory.c: loads, stores, updates and copies as C. Each touches memory at one place, ptx_at of device.h, which asks about it.
 * PTX ISA 9.7.9 (ld, st, cvta, cp.async), 9.7.13 (atom, red), 9.7.14 (ldmatrix). */
#include "tests/vgpu/ptx/ptx.h"

#include <string.h>

static Space space_of(const Statement *s)
{
    Space space = SPACE_NONE;
    for (int k = 1; k < s->modifiers && space == SPACE_NONE; k++)
        space = ptx_space(s->modifier[k].text, (size_t)s->modifier[k].length);
    return space;
}

/* a pointer to `bytes` at the address, asked for; how: LOAD, STORE, ATOMIC, CONSTANT */
static char *place(Printer *p, const Operand *address, Space space, unsigned bytes, const char *how)
{
    char *at = ptx_address(p, address, space);
    if (space == SPACE_PARAM || space == SPACE_CONST)
        return ptx_format(p->ptx, "((void *)%s)", at);
    if (space == SPACE_LOCAL)
        return ptx_format(p->ptx, "ptx_local(%s, %u, M, sizeof M, %d)", at, bytes, p->at->line);
    return ptx_format(p->ptx, "ptx_at(%s, %u, %s, %d)", at, bytes, how, p->at->line);
}

/* of a vector of `bytes` only some bytes are used: the compiler has made one load of several, and reads what nobody asked for */
static void ask_for_some(Printer *p, const char *at, unsigned bytes, const char *how)
{
    for (unsigned k = 0, run; k < bytes; k += run + (run == 0)) {
        for (run = 0; k + run < bytes && p->at->used_bytes >> (k + run) & 1; run++)
            ;
        if (run)
            ptx_add(p->out, "ptx_at(%s + %u, %u, %s | MGPU_VGPU_UNALIGNED, %d); ", at, k, run, how, p->at->line);
    }
}

static const Operand *elements(Printer *p, const Operand *o, int *count)
{
    int vector = ptx_has(p->at, "v2")   ? 2
                 : ptx_has(p->at, "v4") ? 4
                 : ptx_has(p->at, "v8") ? 8
                                        : 1; /* up to 32 bytes from sm_100 on */
    *count = o->kind == OPERAND_VECTOR ? o->count : 1;
    if (*count != vector)
        ptx_refuse(p, "a vector of another size");
    return o->kind == OPERAND_VECTOR ? o->parts : o;
}

/* "volatile operations have the same memory synchronization semantics as relaxed ones of system scope" (8.4) */
static bool is_of_system(const Statement *s, Space space)
{
    return (space == SPACE_GLOBAL || space == SPACE_NONE) &&
           (ptx_has(s, "volatile") || (ptx_has(s, "relaxed") && ptx_has(s, "sys")));
}

void ptx_print_load(Printer *p)
{
    const Statement *s = p->at;
    Space space = space_of(s);
    int count;
    if (s->operands != 2)
        ptx_refuse(p, "two operands are expected");
    const Operand *to = elements(p, &s->operand[0], &count);
    const char *c = ptx_types[p->type].c, *how = ptx_has(s, "nc") ? "CONSTANT" : is_of_system(s, space) ? "SYSTEM_LOAD" : "LOAD";
    unsigned bytes = (unsigned)count * ptx_types[p->type].bytes;
    if (s->used_bytes && space != SPACE_PARAM && space != SPACE_CONST && space != SPACE_LOCAL) {
        char *at = ptx_address(p, &s->operand[1], space);
        ask_for_some(p, at, bytes, how);
        ptx_add(p->out, "{ const %s *q = (const %s *)%s; ", c, c, at);
    } else
        ptx_add(p->out, "{ const %s *q = %s; ", c, place(p, &s->operand[1], space, bytes, how));
    if (count > 1) { /* the address may be in a register that is loaded */
        ptx_add(p->out, "%s v[%d] = {", c, count);
        for (int k = 0; k < count; k++)
            ptx_add(p->out, "q[%d], ", k);
        ptx_add(p->out, "}; ");
    }
    for (int k = 0; k < count; k++)
        ptx_assign(p, &to[k], p->type, count > 1 ? ptx_format(p->ptx, "v[%d]", k) : "*q");
    ptx_add(p->out, "} ");
}

void ptx_print_store(Printer *p)
{
    const Statement *s = p->at;
    int count;
    if (s->operands != 2)
        ptx_refuse(p, "two operands are expected");
    const Operand *from = elements(p, &s->operand[1], &count);
    const char *c = ptx_types[p->type].c;
    ptx_add(p->out, "{ %s *q = %s; ", c,
            place(p, &s->operand[0], space_of(s), (unsigned)count * ptx_types[p->type].bytes,
                  is_of_system(s, space_of(s)) ? "SYSTEM_STORE" : "STORE"));
    for (int k = 0; k < count; k++)
        ptx_add(p->out, "q[%d] = %s; ", k, ptx_source(p, &from[k], p->type));
    ptx_add(p->out, "} ");
}

/* cvta.global.u64 d, a: a is an address of its space, d one of all; cvta.to.: the other way. They differ for shared memory alone
 */
void ptx_print_convert_address(Printer *p)
{
    const Statement *s = p->at;
    if (s->operands != 2)
        ptx_refuse(p, "two operands are expected");
    const char *sign = space_of(s) != SPACE_SHARED ? "" : ptx_has(s, "to") ? " - (uint64_t)S" : " + (uint64_t)S";
    ptx_assign(p, &s->operand[0], p->type,
               ptx_format(p->ptx, "(%s)(%s%s)", ptx_types[p->type].c, ptx_source(p, &s->operand[1], p->type), sign));
}

void ptx_print_atomic(Printer *p)
{
    static const char *const names[] = {"add", "min", "max", "and", "or", "xor", "exch", "cas", "inc", "dec"};
    const Statement *s = p->at;
    bool returns = s->name[0] == 'a', swaps = ptx_has(s, "cas");
    const char *name = NULL, *c = ptx_types[p->type].c;
    for (size_t k = 0; k < sizeof names / sizeof *names; k++)
        name = ptx_has(s, names[k]) ? names[k] : name;
    if (!name || s->operands != 2 + returns + swaps)
        ptx_refuse(p, "the number of its operands is wrong");
    bool bits = p->type == TYPE_B32 || p->type == TYPE_B64;
    if (bits != (strchr("aoxec", name[0]) && strcmp(name, "add") != 0))
        ptx_refuse(p, "an operation that its type does not have");
    const Operand *address = &s->operand[returns];
    char *value =
        ptx_format(p->ptx, "ptx_atom_%s_%s((%s *)%s, %s%s%s)", name, ptx_types[p->type].name, c,
                   place(p, address, space_of(s), ptx_types[p->type].bytes, "ATOMIC"), ptx_source(p, &address[1], p->type),
                   swaps ? ", " : "", swaps ? ptx_source(p, &address[2], p->type) : "");
    if (returns)
        ptx_assign(p, &s->operand[0], p->type, value);
    else
        ptx_add(p->out, "%s; ", value);
}

/* cp.async [to], [from], bytes {, bytes to read}; bytes that are not read become 0. `.cg` takes 16 bytes alone */
void ptx_print_copy(Printer *p)
{
    const Statement *s = p->at;
    const Operand *o = s->operand;
    if (s->operands < 3 || s->operands > 4 || o[2].kind != OPERAND_NUMBER)
        ptx_refuse(p, "the number of its operands is wrong");
    if (o[2].bits != 16 && (ptx_has(s, "cg") || (o[2].bits != 4 && o[2].bits != 8)))
        ptx_refuse(p, "it copies 16 bytes; .ca 4 and 8, too");
    ptx_add(p->out, "E->copy(%s, %s, %u, %s, %d); ", ptx_address(p, &o[0], SPACE_SHARED), ptx_address(p, &o[1], SPACE_GLOBAL),
            (unsigned)o[2].bits,
            s->operands == 4 ? ptx_source(p, &o[3], TYPE_U32) : ptx_format(p->ptx, "%u", (unsigned)o[2].bits), s->line);
}

void ptx_print_load_matrices(Printer *p)
{
    const Statement *s = p->at;
    int count = ptx_has(s, "x1") ? 1 : ptx_has(s, "x2") ? 2 : 4;
    const Operand *to = s->operand[0].kind == OPERAND_VECTOR ? s->operand[0].parts : &s->operand[0];
    if (s->operands != 2 || (s->operand[0].kind == OPERAND_VECTOR ? s->operand[0].count : 1) != count)
        ptx_refuse(p, "a vector of another size");
    ptx_add(p->out, "{ uint32_t v[4]; E->load_matrices(v, %s, %d, %d, %d); ", ptx_address(p, &s->operand[1], space_of(s)), count,
            ptx_has(s, "trans"), s->line);
    for (int k = 0; k < count; k++)
        ptx_assign(p, &to[k], TYPE_B32, ptx_format(p->ptx, "v[%d]", k));
    ptx_add(p->out, "} ");
}
