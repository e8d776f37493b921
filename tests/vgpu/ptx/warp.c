/* warp.c: what threads of a block, lanes of a warp do together, as C that calls engine.cpp. PTX ISA 9.7.9.6 (shfl), 9.7.13 (bar,
 * vote, redux), 9.7.14 (mma), 9.7.15 (wgmma). */
#include "tests/vgpu/ptx/ptx.h"

#include <stdlib.h>
#include <string.h>

static void need_operands(Printer *p, int least, int most)
{
    if (p->at->operands < least || p->at->operands > most)
        ptx_refuse(p, "the number of its operands is wrong");
}

/* bar.sync a {, threads}; bar.arrive a, threads; bar.red d, a {, threads}, {!}c */
void ptx_print_barrier(Printer *p)
{
    const Statement *s = p->at;
    bool reduces = ptx_has(s, "red"), arrives = ptx_has(s, "arrive");
    need_operands(p, reduces ? 3 : arrives ? 2 : 1, reduces ? 4 : 2);
    const char *how = ptx_has(s, "popc") ? "PTX_COUNT" : ptx_has(s, "and") ? "PTX_AND" : ptx_has(s, "or") ? "PTX_OR" : "PTX_SYNC";
    const Operand *o = &s->operand[reduces];
    bool threads = s->operands == (reduces ? 4 : 2);
    char *value = ptx_format(p->ptx, "E->barrier(%s, %s, %s, %s, %d, %d)", ptx_source(p, &o[0], TYPE_U32),
                             threads ? ptx_source(p, &o[1], TYPE_U32) : "0", how,
                             reduces ? ptx_source(p, &o[1 + threads], TYPE_PRED) : "0", !arrives, s->line);
    if (reduces)
        ptx_assign(p, &s->operand[0], p->type, value);
    else
        ptx_add(p->out, "%s; ", value);
}

/* shfl.sync.how.b32 d{|p}, a, b, c, mask */
void ptx_print_shuffle(Printer *p)
{
    const Statement *s = p->at;
    const Operand *o = s->operand;
    need_operands(p, 5, 5);
    const char *how = ptx_has(s, "up")     ? "PTX_UP"
                      : ptx_has(s, "down") ? "PTX_DOWN"
                      : ptx_has(s, "bfly") ? "PTX_BUTTERFLY"
                      : ptx_has(s, "idx")  ? "PTX_INDEX"
                                           : NULL;
    if (!how)
        ptx_refuse(p, "without a direction");
    ptx_add(p->out, "{ uint64_t v = E->shuffle(%s, %s, %s, %s, %s, %d); ", how, ptx_source(p, &o[1], TYPE_B32),
            ptx_source(p, &o[2], TYPE_U32), ptx_source(p, &o[3], TYPE_U32), ptx_source(p, &o[4], TYPE_U32), s->line);
    ptx_assign(p, &o[0], TYPE_B32, "(uint32_t)v");
    if (o[0].second)
        ptx_assign(p, o[0].second, TYPE_PRED, "(unsigned char)(v >> 32)");
    ptx_add(p->out, "} ");
}

/* vote.sync.how d, {!}a, mask */
void ptx_print_vote(Printer *p)
{
    const Statement *s = p->at;
    bool ballot = ptx_has(s, "ballot");
    need_operands(p, 3, 3);
    if (ballot != (p->type == TYPE_B32))
        ptx_refuse(p, "another type");
    ptx_add(p->out, "{ uint64_t v = E->vote(%s, %s, %d); uint32_t votes = (uint32_t)v, came = (uint32_t)(v >> 32); (void)came; ",
            ptx_source(p, &s->operand[2], TYPE_U32), ptx_source(p, &s->operand[1], TYPE_PRED), s->line);
    ptx_assign(p, &s->operand[0], p->type,
               ballot              ? "votes"
               : ptx_has(s, "any") ? "votes != 0"
               : ptx_has(s, "all") ? "votes == came"
                                   : "(votes == came || votes == 0)");
    ptx_add(p->out, "} ");
}

/* redux.sync.op d, a, mask */
void ptx_print_reduce(Printer *p)
{
    const Statement *s = p->at;
    need_operands(p, 3, 3);
    char how = ptx_has(s, "add")   ? 'a'
               : ptx_has(s, "min") ? 'm'
               : ptx_has(s, "max") ? 'M'
               : ptx_has(s, "and") ? '&'
               : ptx_has(s, "or")  ? 'o'
                                   : 'x';
    ptx_assign(p, &s->operand[0], TYPE_B32,
               ptx_format(p->ptx, "ptx_redux('%c', %d, %s, %s, %d)", how, p->type == TYPE_S32,
                          ptx_source(p, &s->operand[2], TYPE_U32), ptx_source(p, &s->operand[1], TYPE_B32), s->line));
}

/* ---- mma: a table of 9.7.14.5's shapes */

static const struct {
    const char *shape, *types, *type;
    int k, a, b, c;
} MATRICES[] = {
    {"m16n8k8", "f32.f16.f16.f32", "PTX_F16", 8, 2, 1, 4},      {"m16n8k16", "f32.f16.f16.f32", "PTX_F16", 16, 4, 2, 4},
    {"m16n8k8", "f16.f16.f16.f16", "PTX_HALF_SUM", 8, 2, 1, 2}, {"m16n8k16", "f16.f16.f16.f16", "PTX_HALF_SUM", 16, 4, 2, 2},
    {"m16n8k8", "f32.bf16.bf16.f32", "PTX_BF16", 8, 2, 1, 4},   {"m16n8k16", "f32.bf16.bf16.f32", "PTX_BF16", 16, 4, 2, 4},
    {"m16n8k4", "f32.tf32.tf32.f32", "PTX_TF32", 4, 2, 1, 4},   {"m16n8k8", "f32.tf32.tf32.f32", "PTX_TF32", 8, 4, 2, 4},
    {"m8n8k4", "f64.f64.f64.f64", "PTX_DOUBLE", 4, 1, 1, 2},
};

/* a fragment: { registers }; its registers as an array of C */
static void print_fragment(Printer *p, const char *name, const Operand *o, int count, Type type)
{
    if ((o->kind == OPERAND_VECTOR ? o->count : 1) != count)
        ptx_refuse(p, "a fragment has another number of registers");
    ptx_add(p->out, "%s %s[] = {", ptx_types[type].c, name);
    for (int k = 0; k < count; k++)
        ptx_add(p->out, "%s, ", ptx_source(p, o->kind == OPERAND_VECTOR ? &o->parts[k] : o, type));
    ptx_add(p->out, "}; ");
}

void ptx_print_matrices(Printer *p)
{
    const Statement *s = p->at;
    size_t row = 0, rows = sizeof MATRICES / sizeof *MATRICES, length = strlen(s->name);
    need_operands(p, 4, 4);
    while (row < rows && !(ptx_has(s, MATRICES[row].shape) && length > strlen(MATRICES[row].types) &&
                           strcmp(s->name + length - strlen(MATRICES[row].types), MATRICES[row].types) == 0))
        row++;
    if (row == rows)
        ptx_refuse(p, "the instruction is not known to the virtual GPU");
    Type bits = strcmp(MATRICES[row].type, "PTX_DOUBLE") == 0 ? TYPE_F64 : TYPE_B32;
    ptx_add(p->out, "{ static const PtxMatrices m = {%s, %d, %d, %d, %d}; ", MATRICES[row].type, MATRICES[row].k, MATRICES[row].a,
            MATRICES[row].b, MATRICES[row].c);
    print_fragment(p, "a", &s->operand[1], MATRICES[row].a, bits);
    print_fragment(p, "b", &s->operand[2], MATRICES[row].b, bits);
    print_fragment(p, "c", &s->operand[3], MATRICES[row].c, bits);
    ptx_add(p->out, "E->multiply(&m, c, a, b, c, %d); ", s->line);
    for (int k = 0; k < MATRICES[row].c; k++)
        ptx_assign(p, &s->operand[0].parts[k], bits, ptx_format(p->ptx, "c[%d]", k));
    ptx_add(p->out, "} ");
}

/* ---- wgmma: 9.7.15.5.2 */

static void need_own_target(Printer *p)
{
    if (p->module->target != 90 || !p->module->own)
        ptx_refuse(p, "it requires sm_90a");
}

void ptx_print_group_fence(Printer *p)
{
    need_own_target(p);
    need_operands(p, 0, 0);
    ptx_add(p->out, "E->group_fence(%d); ", p->at->line);
    if (p->function->async)
        ptx_add(p->out, "memset(H, 0, sizeof H); ");
}

/* an immediate operand that is one of two numbers */
static bool is_second(Printer *p, const Operand *o, int first, int second)
{
    if (o->kind != OPERAND_NUMBER || ((int)o->bits != first && (int)o->bits != second))
        ptx_refuse(p, ptx_format(p->ptx, "the immediate operands are %d or %d", first, second));
    return (int)o->bits == second;
}

/* registers of a matrix, by their places in G */
static void print_places(Printer *p, const char *name, const Operand *o, int count)
{
    if (o->kind != OPERAND_VECTOR || o->count != count)
        ptx_refuse(p, "a fragment has another number of registers");
    ptx_add(p->out, "static const unsigned short %s[] = {", name);
    for (int k = 0; k < count; k++) {
        for (int other = 0; other < k && *name == 'd'; other++)
            if (strcmp(o->parts[other].name, o->parts[k].name) == 0)
                ptx_refuse(p, "a register is there twice");
        ptx_add(p->out, "%d, ", ptx_async_place(p, &o->parts[k]));
    }
    ptx_add(p->out, "}; ");
}

/* d, a or its descriptor, the descriptor of b, scale-d, imm-scale-a, imm-scale-b {, imm-trans-a}, imm-trans-b */
void ptx_print_group_matrices(Printer *p)
{
    const Statement *s = p->at;
    const Operand *o = s->operand, *more = &o[6];
    const char *type = ptx_has(s, "bf16") ? "bf16" : ptx_has(s, "f16") ? "f16" : "tf32";
    const char *end = ptx_format(p->ptx, "wgmma.mma_async.sync.aligned.m64n%%dk%d.f32.%s.%s", *type == 't' ? 8 : 16, type, type);
    int n = s->modifiers > 4 ? atoi(s->modifier[4].text + 4) : 0;
    if (n < 8 || n > 256 || n % 8 || strcmp(ptx_format(p->ptx, end, n), s->name) != 0)
        ptx_refuse(p, "the instruction is not known to the virtual GPU");
    need_own_target(p);
    if (!p->function->is_entry)
        ptx_refuse(p, "in a function that others call");
    need_operands(p, 6, 8);
    bool in_registers = o[1].kind == OPERAND_VECTOR;
    if (s->operands != 6 + (*type == 't' ? 0 : in_registers ? 1 : 2))
        ptx_refuse(p, "the number of its operands is wrong");
    ptx_add(p->out, "{ ");
    print_places(p, "d", &o[0], n / 2);
    if (in_registers)
        print_places(p, "a", &o[1], 4);
    bool transposed_a = s->operands == 8 && is_second(p, more++, 0, 1),
         transposed_b = s->operands > 6 && is_second(p, more, 0, 1);
    ptx_add(p->out, "static const PtxGroupMatrices m = {%s, %d, %d, {%d, %d}, {%d, %d}, d, %s}; ",
            *type == 't'   ? "PTX_TF32"
            : *type == 'b' ? "PTX_BF16"
                           : "PTX_F16",
            n, *type == 't' ? 8 : 16, transposed_a, transposed_b, is_second(p, &o[4], 1, -1), is_second(p, &o[5], 1, -1),
            in_registers ? "a" : "0");
    ptx_add(p->out, "E->group_multiply(&m, G, H, %s, %s, %s, %d); } ", in_registers ? "0" : ptx_source(p, &o[1], TYPE_B64),
            ptx_source(p, &o[2], TYPE_B64), ptx_source(p, &o[3], TYPE_PRED), s->line);
}
