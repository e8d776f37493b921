/* instructions.c: the table of PTX's instructions, and as C those that need more than an expression. What is not in the table is
 * refused by name. PTX ISA 9.7. */
#include "tests/vgpu/ptx/ptx.h"

#include <string.h>

/* An instruction is the first row whose words it has, whose types has its first type, and whose others has all its other words.
 * others "*": `print` looks at them. operands: d, destination; a, source; w, W: the same of twice the bits; u, v: destination,
 * source u32; p, q: source, destination predicate. text: C; $0, $1 ..: operands; $T, $U: C's name of the type, without sign; $W:
 * of twice the bits; $t: the type; $b: its bits; $r: rounding; $l: line. */
typedef struct Row {
    const char *words, *others, *types, *operands, *text;
    PrintInstruction *print;
} Row;

#define WHOLE "u16 s16 u32 s32 u64 s64"
#define SIGNED "s16 s32 s64"
#define BITS "b16 b32 b64"
#define REAL "f32 f64"
#define ANY "b16 u16 s16 b32 u32 s32 f32 b64 u64 s64 f64"

static PrintInstruction print_mov, print_setp, print_convert, print_branch, print_call, print_nothing, print_return, print_trap,
    print_grids;

static const Row ROWS[] = {
    /* 9.7.1 whole numbers, 9.7.2 with carry */
    {"add cc", "", "u32 s32", "daa", "ptx_carry_32($1, $2, 0, &CC)", NULL},
    {"add cc", "", "u64 s64", "daa", "ptx_carry_64($1, $2, 0, &CC)", NULL},
    {"addc", "cc", "u32 s32", "daa", "ptx_carry_32($1, $2, CC, $c)", NULL},
    {"addc", "cc", "u64 s64", "daa", "ptx_carry_64($1, $2, CC, $c)", NULL},
    {"sub cc", "", "u32 s32", "daa", "ptx_borrow_32($1, $2, 0, &CC)", NULL},
    {"sub cc", "", "u64 s64", "daa", "ptx_borrow_64($1, $2, 0, &CC)", NULL},
    {"subc", "cc", "u32 s32", "daa", "ptx_borrow_32($1, $2, CC, $c)", NULL},
    {"subc", "cc", "u64 s64", "daa", "ptx_borrow_64($1, $2, CC, $c)", NULL},
    {"mad lo cc", "", "u32 s32", "daaa", "ptx_carry_32((uint32_t)$1 * (uint32_t)$2, $3, 0, &CC)", NULL},
    {"mad hi cc", "", "u32", "daaa", "ptx_carry_32((uint32_t)((uint64_t)$1 * $2 >> 32), $3, 0, &CC)", NULL},
    {"madc lo", "cc", "u32 s32", "daaa", "ptx_carry_32((uint32_t)$1 * (uint32_t)$2, $3, CC, $c)", NULL},
    {"madc hi", "cc", "u32", "daaa", "ptx_carry_32((uint32_t)((uint64_t)$1 * $2 >> 32), $3, CC, $c)", NULL},
    {"add", "", WHOLE, "daa", "($T)(($U)$1 + ($U)$2)", NULL},
    {"sub", "", WHOLE, "daa", "($T)(($U)$1 - ($U)$2)", NULL},
    {"mul lo", "", "u16 s16", "daa", "($T)((uint32_t)$1 * (uint32_t)$2)", NULL},
    {"mul lo", "", WHOLE, "daa", "($T)(($U)$1 * ($U)$2)", NULL},
    {"mul hi", "", "u16 s16 u32 s32", "daa", "($T)(($W)$1 * ($W)$2 >> $b)", NULL},
    {"mul hi", "", "u64 s64", "daa", "ptx_mul_hi_$t($1, $2)", NULL},
    {"mul wide", "", "u16 s16 u32 s32", "waa", "($W)$1 * ($W)$2", NULL},
    {"mad lo", "", "u16 s16", "daaa", "($T)((uint32_t)$1 * (uint32_t)$2 + (uint32_t)$3)", NULL},
    {"mad lo", "", WHOLE, "daaa", "($T)(($U)$1 * ($U)$2 + ($U)$3)", NULL},
    {"mad hi", "", "u16 s16 u32 s32", "daaa", "($T)(($U)(($W)$1 * ($W)$2 >> $b) + ($U)$3)", NULL},
    {"mad hi", "", "u64 s64", "daaa", "($T)(($U)ptx_mul_hi_$t($1, $2) + ($U)$3)", NULL},
    {"mad wide", "", "u16 u32", "waaW", "($W)$1 * ($W)$2 + $3", NULL},
    {"mad wide", "", "s16 s32", "waaW", "($W)((uint64_t)(($W)$1 * ($W)$2) + (uint64_t)$3)", NULL},
    {"mul24 lo", "", "u32", "daa", "($1 & 0xFFFFFFu) * ($2 & 0xFFFFFFu)", NULL},
    {"mul24 lo", "", "s32", "daa", "(int32_t)((uint32_t)ptx_mul24($1) * (uint32_t)ptx_mul24($2))", NULL},
    {"sad", "", WHOLE, "daaa", "($T)(($U)$3 + ($1 < $2 ? ($U)$2 - ($U)$1 : ($U)$1 - ($U)$2))", NULL},
    {"div", "", WHOLE, "daa", "ptx_div_$t($1, $2, $l)", NULL},
    {"rem", "", WHOLE, "daa", "ptx_rem_$t($1, $2, $l)", NULL},
    {"abs", "", SIGNED, "da", "($T)($1 < 0 ? 0 - ($U)$1 : ($U)$1)", NULL},
    {"neg", "", SIGNED, "da", "($T)(0 - ($U)$1)", NULL},
    {"min", "", WHOLE, "daa", "$1 < $2 ? $1 : $2", NULL},
    {"max", "", WHOLE, "daa", "$1 > $2 ? $1 : $2", NULL},
    {"popc", "", "b32 b64", "ua", "ptx_popc($1)", NULL},
    {"clz", "", "b32 b64", "ua", "ptx_clz($1, $b)", NULL},
    {"bfind shiftamt", "", "u32 u64", "ua", "ptx_bfind($1, $b, 0, 1)", NULL},
    {"bfind shiftamt", "", "s32 s64", "ua", "ptx_bfind(($U)$1, $b, 1, 1)", NULL},
    {"bfind", "", "u32 u64", "ua", "ptx_bfind($1, $b, 0, 0)", NULL},
    {"bfind", "", "s32 s64", "ua", "ptx_bfind(($U)$1, $b, 1, 0)", NULL},
    {"brev", "", "b32 b64", "da", "($T)ptx_brev($1, $b)", NULL},
    {"bfe", "", "u32 u64", "davv", "($T)ptx_bfe($1, $2, $3, $b, 0)", NULL},
    {"bfe", "", "s32 s64", "davv", "($T)ptx_bfe(($U)$1, $2, $3, $b, 1)", NULL},
    {"bfi", "", "b32 b64", "daavv", "($T)ptx_bfi($1, $2, $3, $4, $b)", NULL},
    {"dp2a lo", "u32", "u32", "dvvv", "ptx_dp2a($1, $2, $3, 0, 0, 0)", NULL},
    {"dp2a hi", "u32", "u32", "dvvv", "ptx_dp2a($1, $2, $3, 1, 0, 0)", NULL},
    {"dp4a u32 u32", "", "u32", "dvvv", "ptx_dp4a($1, $2, $3, 0, 0)", NULL},
    {"dp4a s32 s32", "", "s32", "dvvv", "(int32_t)ptx_dp4a($1, $2, $3, 1, 1)", NULL},
    /* 9.7.3 floating-point numbers */
    {"add", "rn ftz sat", REAL, "daa", "$1 + $2", NULL},
    {"sub", "rn ftz sat", REAL, "daa", "$1 - $2", NULL},
    {"mul", "rn ftz sat", REAL, "daa", "$1 * $2", NULL},
    {"fma rn", "ftz sat", "f32", "daaa", "fmaf($1, $2, $3)", NULL},
    {"fma rn", "", "f64", "daaa", "fma($1, $2, $3)", NULL},
    {"add", "rz rm rp ftz sat", "f32", "daa", "ptx_fma_f32($1, 1, $2, '$r')", NULL},
    {"sub", "rz rm rp ftz sat", "f32", "daa", "ptx_fma_f32($2, -1, $1, '$r')", NULL},
    {"mul", "rz rm rp ftz sat", "f32", "daa", "ptx_to_f32((double)$1 * $2, '$r')", NULL},
    {"fma", "rz rm rp ftz sat", "f32", "daaa", "ptx_fma_f32($1, $2, $3, '$r')", NULL},
    {"div rn", "ftz", REAL, "daa", "$1 / $2", NULL},
    {"div approx", "ftz", "f32", "daa", "ptx_div_approx($1, $2)", NULL},
    {"div full", "ftz", "f32", "daa", "ptx_div_approx($1, $2)", NULL},
    {"rcp rn", "ftz", REAL, "da", "1 / $1", NULL},
    {"rcp approx", "ftz", "f32", "da", "ptx_rcp_approx($1)", NULL},
    {"rcp approx ftz", "", "f64", "da", "ptx_rcp_approx_f64($1)", NULL},
    {"sqrt rn", "ftz", "f32", "da", "sqrtf($1)", NULL},
    {"sqrt rn", "", "f64", "da", "sqrt($1)", NULL},
    {"sqrt approx", "ftz", "f32", "da", "ptx_sqrt_approx($1)", NULL},
    {"rsqrt approx ftz", "", "f64", "da", "ptx_rsqrt_approx_f64($1)", NULL},
    {"rsqrt approx", "ftz", "f32", "da", "ptx_rsqrt_approx($1)", NULL},
    {"ex2 approx", "ftz", "f32", "da", "ptx_ex2_approx($1)", NULL},
    {"lg2 approx", "ftz", "f32", "da", "ptx_lg2_approx($1)", NULL},
    {"sin approx", "ftz", "f32", "da", "ptx_sin_approx($1)", NULL},
    {"cos approx", "ftz", "f32", "da", "ptx_cos_approx($1)", NULL},
    {"tanh approx", "", "f32", "da", "ptx_tanh_approx($1)", NULL},
    {"neg", "ftz", "f32", "da", "F32(B32($1) ^ 0x80000000u)", NULL},
    {"neg", "", "f64", "da", "F64(B64($1) ^ 0x8000000000000000u)", NULL},
    {"abs", "ftz", "f32", "da", "F32(B32($1) & 0x7FFFFFFFu)", NULL},
    {"abs", "", "f64", "da", "F64(B64($1) & 0x7FFFFFFFFFFFFFFFu)", NULL},
    {"min NaN", "ftz", "f32", "daa", "ptx_or_nan($1, $2, ptx_min_f32($1, $2))", NULL},
    {"max NaN", "ftz", "f32", "daa", "ptx_or_nan($1, $2, ptx_max_f32($1, $2))", NULL},
    {"min", "ftz", REAL, "daa", "ptx_min_$t($1, $2)", NULL},
    {"max", "ftz", REAL, "daa", "ptx_max_$t($1, $2)", NULL},
    {"copysign", "", "f32", "daa", "F32((B32($1) & 0x80000000u) | (B32($2) & 0x7FFFFFFFu))", NULL},
    {"copysign", "", "f64", "daa", "F64((B64($1) & 0x8000000000000000u) | (B64($2) & 0x7FFFFFFFFFFFFFFFu))", NULL},
    /* 9.7.6 comparisons, 9.7.8 bits */
    {"setp", "eq ne lt le gt ge lo ls hi hs equ neu ltu leu gtu geu num nan and or xor ftz", ANY, "", "", print_setp},
    {"selp", "", ANY, "daap", "$3 ? $1 : $2", NULL},
    {"and", "", "pred " BITS, "daa", "$1 & $2", NULL},
    {"or", "", "pred " BITS, "daa", "$1 | $2", NULL},
    {"xor", "", "pred " BITS, "daa", "$1 ^ $2", NULL},
    {"not", "", "pred", "da", "!$1", NULL},
    {"not", "", BITS, "da", "~$1", NULL},
    {"cnot", "", BITS, "da", "$1 == 0", NULL},
    {"lop3", "", "b32", "daaav", "ptx_lop3($1, $2, $3, $4)", NULL},
    {"shf l wrap", "", "b32", "daav", "ptx_shf($1, $2, $3, 1, 1)", NULL},
    {"shf r wrap", "", "b32", "daav", "ptx_shf($1, $2, $3, 0, 1)", NULL},
    {"shf l clamp", "", "b32", "daav", "ptx_shf($1, $2, $3, 1, 0)", NULL},
    {"shf r clamp", "", "b32", "daav", "ptx_shf($1, $2, $3, 0, 0)", NULL},
    {"shl", "", BITS, "dav", "ptx_shl_$b($1, $2)", NULL},
    {"shr", "", BITS " u16 u32 u64", "dav", "ptx_shr_u$b($1, $2)", NULL},
    {"shr", "", SIGNED, "dav", "ptx_shr_s$b($1, $2)", NULL},
    {"prmt f4e", "", "b32", "daav", "ptx_prmt($1, $2, $3, 'f')", NULL},
    {"prmt b4e", "", "b32", "daav", "ptx_prmt($1, $2, $3, 'b')", NULL},
    {"prmt rc8", "", "b32", "daav", "ptx_prmt($1, $2, $3, '8')", NULL},
    {"prmt ecl", "", "b32", "daav", "ptx_prmt($1, $2, $3, 'l')", NULL},
    {"prmt ecr", "", "b32", "daav", "ptx_prmt($1, $2, $3, 'r')", NULL},
    {"prmt rc16", "", "b32", "daav", "ptx_prmt($1, $2, $3, '6')", NULL},
    {"prmt", "", "b32", "daav", "ptx_prmt($1, $2, $3, 0)", NULL},
    /* 9.7.9 moves */
    {"mov", "", "pred " ANY, "", "", print_mov},
    {"cvt", "rn rz rm rp rna rni rzi rmi rpi ftz sat u8 s8 u16 s16 u32 s32 u64 s64 f16 bf16 f32 f64 f16x2 bf16x2 tf32",
     "u8 s8 u16 s16 u32 s32 u64 s64 f16 bf16 f32 f64 f16x2 bf16x2 tf32 b16", "", "", print_convert},
    {"cvta", "to global shared shared::cta local const param", "u32 u64", "", "", ptx_print_convert_address},
#define HOW                                                                                                                                    \
    "weak volatile relaxed acquire release cta gpu sys cluster global param param::entry param::func shared shared::cta local const v2 v4 v8 " \
    "ca cg cs lu cv wb wt L1::evict_normal L1::evict_unchanged L1::evict_first L1::evict_last L1::no_allocate L2::64B L2::128B L2::256B"
    {"ld", "nc " HOW, "b8 u8 s8 " ANY, "", "", ptx_print_load},
    {"st", HOW, "b8 u8 s8 " ANY, "", "", ptx_print_store},
    {"prefetch", "global local L1 L2", "", "", "", print_nothing},
    {"cp async ca shared global", "L2::64B L2::128B L2::256B", "", "", "", ptx_print_copy},
    {"cp async cg shared global", "L2::64B L2::128B L2::256B", "", "", "", ptx_print_copy},
    {"cp async ca shared::cta global", "L2::64B L2::128B L2::256B", "", "", "", ptx_print_copy},
    {"cp async cg shared::cta global", "L2::64B L2::128B L2::256B", "", "", "", ptx_print_copy},
    {"cp async commit_group", "", "", "", "E->copy_commit()", NULL},
    {"cp async wait_group", "", "", "v", "E->copy_wait((int)$0, $l)", NULL},
    {"cp async wait_all", "", "", "", "E->copy_wait(-1, $l)", NULL},
    /* 9.7.12 control */
    {"bra", "uni", "", "", "", print_branch},
    {"call", "uni", "", "", "", print_call},
    {"ret", "uni", "", "", "", print_return},
    {"exit", "", "", "", "", print_return},
    {"trap", "", "", "", "", print_trap},
    {"nanosleep", "", "u32", "v", "E->pause()", NULL}, /* who waits for what others do */
    /* 9.7.13 together with other threads. Threads run one at a time and see each other's stores, so fences do nothing */
    {"bar sync", "cta", "", "", "", ptx_print_barrier},
    {"bar arrive", "cta", "", "", "", ptx_print_barrier},
    {"bar red", "cta popc and or u32 pred", "u32 pred", "", "", ptx_print_barrier},
    {"barrier sync", "cta aligned", "", "", "", ptx_print_barrier},
    {"barrier arrive", "cta aligned", "", "", "", ptx_print_barrier},
    {"barrier red", "cta aligned popc and or u32 pred", "u32 pred", "", "", ptx_print_barrier},
    {"bar warp sync", "", "", "v", "E->sync_warp($0, $l)", NULL},
    {"membar", "cta gl sys", "", "", "", print_nothing},
    {"fence proxy async", "global shared::cta shared::cluster", "", "", "E->fence_proxy()", NULL},
    {"fence", "sc acq_rel acquire release cta gpu sys cluster", "", "", "", print_nothing},
    {"atom",
     "relaxed acquire release acq_rel cta gpu sys cluster global shared shared::cta add min max and or xor exch cas inc dec",
     "b32 u32 s32 b64 u64 s64", "", "", ptx_print_atomic},
    {"red", "relaxed release cta gpu sys cluster global shared shared::cta add min max and or xor inc dec",
     "b32 u32 s32 b64 u64 s64", "", "", ptx_print_atomic},
    {"griddepcontrol wait", "", "", "", "", print_grids},
    {"griddepcontrol launch_dependents", "", "", "", "", print_grids},
    {"shfl sync", "up down bfly idx", "b32", "", "", ptx_print_shuffle},
    {"vote sync", "all any uni ballot", "pred b32", "", "", ptx_print_vote},
    {"match any sync", "", "b32 b64", "uav", "E->match($2, $1, $b / 8, 0, $l)", NULL},
    {"activemask", "", "b32", "d", "E->active()", NULL},
    {"redux sync", "add min max and or xor", "u32 s32 b32", "", "", ptx_print_reduce},
    /* 9.7.15 matrices of a warpgroup */
    {"wgmma fence sync aligned", "", "", "", "", ptx_print_group_fence},
    {"wgmma commit_group sync aligned", "", "", "", "E->group_commit($l)", NULL},
    {"wgmma wait_group sync aligned", "", "", "v", "E->group_wait($0, $l)", NULL},
    {"wgmma mma_async sync aligned", "*", "f32", "", "", ptx_print_group_matrices},
    /* 9.7.14 matrices */
    {"ldmatrix sync aligned m8n8", "x1 x2 x4 trans shared shared::cta", "b16", "", "", ptx_print_load_matrices},
    {"mma sync aligned row col", "m16n8k4 m16n8k8 m16n8k16 m8n8k4 f16 bf16 tf32 f32 f64", "f16 f32 f64", "", "",
     ptx_print_matrices},
};

/* ---- finding the row */

/* `list` has the word, at or after *from, which becomes the place after it */
static bool lists(const char *list, const char *word, size_t length)
{
    for (const char *at = list, *end; *at; at = *end ? end + 1 : end) {
        end = at + strcspn(at, " ");
        if ((size_t)(end - at) == length && memcmp(at, word, length) == 0)
            return true;
    }
    return false;
}

static Type first_type(const Statement *s)
{
    Type type = TYPE_NONE;
    for (int k = 1; k < s->modifiers && type == TYPE_NONE; k++)
        type = ptx_type(s->modifier[k].text, (size_t)s->modifier[k].length);
    return type;
}

static bool suits(const Row *r, const Statement *s, Type type)
{
    const char *type_name = ptx_types[type].name;
    int words = 1;
    for (const char *at = r->words; (at = strchr(at, ' ')); at++)
        words++;
    if (type != TYPE_NONE ? !lists(r->types, type_name, strlen(type_name)) : *r->types != 0)
        return false;
    for (int k = 0; k < s->modifiers; k++) {
        const Modifier *m = &s->modifier[k];
        bool is_type = k > 0 && (int)strlen(type_name) == m->length && memcmp(type_name, m->text, strlen(type_name)) == 0;
        if (lists(r->words, m->text, (size_t)m->length))
            words--;
        else if (!is_type && *r->others != '*' && !lists(r->others, m->text, (size_t)m->length))
            return false;
    }
    return words <= 0 && strncmp(r->words, s->name, (size_t)s->modifier[0].length) == 0;
}

/* ---- expressions */

static Type twice(Type t) { return t == TYPE_U16 ? TYPE_U32 : t == TYPE_S16 ? TYPE_S32 : t == TYPE_U32 ? TYPE_U64 : TYPE_S64; }
static Type without_sign(Type t) { return ptx_types[t].bytes == 2 ? TYPE_U16 : ptx_types[t].bytes == 4 ? TYPE_U32 : TYPE_U64; }

static char *operand_value(Printer *p, const Operand *o, char letter)
{
    bool flush = p->type == TYPE_F32 && ptx_has(p->at, "ftz") && letter == 'a';
    Type type = letter == 'v' ? TYPE_U32 : letter == 'p' ? TYPE_PRED : letter == 'W' ? twice(p->type) : p->type;
    return ptx_format(p->ptx, flush ? "ptx_flush(%s)" : "(%s)", ptx_source(p, o, type));
}

static char *substitute(Printer *p, const Row *r)
{
    char *text = ptx_format(p->ptx, "%s", "");
    for (const char *at = r->text, *end; *at; at = end) {
        end = at + (*at == '$' ? 2 : strcspn(at, "$"));
        const TypeInfo *t = &ptx_types[p->type];
        char *more = *at != '$'     ? ptx_format(p->ptx, "%.*s", (int)(end - at), at)
                     : at[1] == 'T' ? ptx_format(p->ptx, "%s", t->c)
                     : at[1] == 'U' ? ptx_format(p->ptx, "%s", ptx_types[without_sign(p->type)].c)
                     : at[1] == 'W' ? ptx_format(p->ptx, "%s", ptx_types[twice(p->type)].c)
                     : at[1] == 't' ? ptx_format(p->ptx, "%s", t->name)
                     : at[1] == 'b' ? ptx_format(p->ptx, "%u", 8 * t->bytes)
                     : at[1] == 'r' ? ptx_format(p->ptx, "%s",
                                                 ptx_has(p->at, "rz")   ? "z"
                                                 : ptx_has(p->at, "rm") ? "m"
                                                 : ptx_has(p->at, "rp") ? "p"
                                                                        : "n")
                     : at[1] == 'l' ? ptx_format(p->ptx, "%d", p->at->line)
                     : at[1] == 'c' ? ptx_format(p->ptx, "%s", ptx_has(p->at, "cc") ? "&CC" : "&(uint32_t){0}")
                                    : operand_value(p, &p->at->operand[at[1] - '0'], r->operands[at[1] - '0']);
        text = ptx_format(p->ptx, "%s%s", text, more);
    }
    return text;
}

static void print_expression(Printer *p, const Row *r)
{
    const Statement *s = p->at;
    if (s->operands != (int)strlen(r->operands))
        ptx_refuse(p, ptx_format(p->ptx, "%d operands in place of %d", s->operands, (int)strlen(r->operands)));
    char *value = substitute(p, r);
    if (!*r->operands || !strchr("dwu", r->operands[0])) {
        ptx_add(p->out, "%s; ", value);
        return;
    }
    if (p->type == TYPE_F32 && ptx_has(s, "ftz"))
        value = ptx_format(p->ptx, "ptx_flush(%s)", value);
    if (ptx_has(s, "sat"))
        value = ptx_format(p->ptx, p->type == TYPE_F32 ? "ptx_saturate(%s)" : "ptx_saturate_64(%s)", value);
    ptx_assign(p, &s->operand[0], r->operands[0] == 'w' ? twice(p->type) : r->operands[0] == 'u' ? TYPE_U32 : p->type, value);
}

void ptx_print_instruction(Printer *p)
{
    p->type = first_type(p->at);
    for (size_t k = 0; k < sizeof ROWS / sizeof *ROWS; k++)
        if (suits(&ROWS[k], p->at, p->type)) {
            if (ROWS[k].print)
                ROWS[k].print(p);
            else
                print_expression(p, &ROWS[k]);
            return;
        }
    ptx_fail(p->ptx, p->at->line, "the instruction %s is not known to the virtual GPU", p->at->name);
}

/* ---- 9.7.12 control */

static void need_operands(Printer *p, int least, int most)
{
    if (p->at->operands < least || p->at->operands > most)
        ptx_refuse(p, "the number of its operands is wrong");
}

static void print_nothing(Printer *p) { (void)p; }
static void print_return(Printer *p)
{
    if (!p->function->is_entry && p->at->name[0] == 'e')
        ptx_refuse(p, "in a function that others call");
    ptx_add(p->out, "return; ");
}
static void print_trap(Printer *p) { ptx_add(p->out, "E->fail(\"trap\", %d, \"the kernel executes trap\"); ", p->at->line); }

/* launch_dependents does nothing: no kernel begins before the one before it has ended */
static void print_grids(Printer *p)
{
    if (p->module->target < 90)
        ptx_refuse(p, "is there from sm_90 on");
    ptx_add(p->out, ptx_has(p->at, "wait") ? "E->wait_for_grids(); " : "");
}

static void print_branch(Printer *p)
{
    need_operands(p, 1, 1);
    ptx_add(p->out, "goto %s; ", ptx_label(p, p->at->operand[0].name ? p->at->operand[0].name : ""));
}

/* call (results), function, (arguments); all of them in .param */
static void print_call(Printer *p)
{
    need_operands(p, 1, 3);
    const Statement *s = p->at;
    bool results = s->operand[0].kind == OPERAND_LIST;
    const Operand *name = &s->operand[results],
                  *lists[] = {results ? &s->operand[0] : NULL, s->operands > results + 1 ? &s->operand[results + 1] : NULL};
    const Function *f;
    if (!name->name)
        ptx_refuse(p, "a call of no function");
    const char *comma = "";
    ptx_add(p->out, "%s(", ptx_callee(p, name->name, &f));
    for (int list = 0; list < 2; list++) {
        int count = 0;
        for (const Variable *v = list ? f->parameters : f->results; v; v = v->next)
            count++;
        if (count != (lists[list] ? lists[list]->count : 0))
            ptx_refuse(p, "as many arguments as the function has parameters are expected");
        for (int k = 0; k < count; k++, comma = ", ")
            ptx_add(p->out, "%s%s", comma, ptx_parameter(p, lists[list]->parts[k].name));
    }
    ptx_add(p->out, "); ");
}

/* ---- 9.7.9.3 mov, between registers and vectors of registers too */

static Type bits_of(Printer *p, unsigned bytes)
{
    Type type = bytes == 1 ? TYPE_B8 : bytes == 2 ? TYPE_B16 : bytes == 4 ? TYPE_B32 : TYPE_NONE;
    if (type == TYPE_NONE)
        ptx_refuse(p, "a vector of another size");
    return type;
}

static void print_mov(Printer *p)
{
    need_operands(p, 2, 2);
    const Operand *to = &p->at->operand[0], *from = &p->at->operand[1], *vector = to->kind == OPERAND_VECTOR ? to : from;
    unsigned bytes = ptx_types[p->type].bytes;
    if (vector->kind != OPERAND_VECTOR) {
        ptx_assign(p, to, p->type, ptx_source(p, from, p->type));
        return;
    }
    Type whole = bytes == 4 ? TYPE_B32 : TYPE_B64, part = bits_of(p, vector->count ? bytes / (unsigned)vector->count : 0);
    unsigned bits = 8 * ptx_types[part].bytes;
    if (vector == to) {
        ptx_add(p->out, "{ %s v = %s; ", ptx_types[whole].c, ptx_source(p, from, whole));
        for (int k = 0; k < to->count; k++)
            ptx_assign(p, &to->parts[k], part, ptx_format(p->ptx, "(%s)(v >> %u)", ptx_types[part].c, bits * (unsigned)k));
        ptx_add(p->out, "} ");
        return;
    }
    char *value = ptx_format(p->ptx, "%s", "0");
    for (int k = 0; k < from->count; k++)
        value = ptx_format(p->ptx, "%s | (%s)%s << %u", value, ptx_types[whole].c, ptx_source(p, &from->parts[k], part),
                           bits * (unsigned)k);
    ptx_assign(p, to, whole, value);
}

/* ---- 9.7.6.2 setp */

/* of whole and of floating-point numbers; NULL: none */
static const struct {
    const char *name, *whole, *real;
} COMPARISONS[] = {
    {"eq", "a == b", "a == b"},
    {"ne", "a != b", "a < b || a > b"},
    {"lt", "a < b", "a < b"},
    {"le", "a <= b", "a <= b"},
    {"gt", "a > b", "a > b"},
    {"ge", "a >= b", "a >= b"},
    {"lo", "a < b", NULL},
    {"ls", "a <= b", NULL},
    {"hi", "a > b", NULL},
    {"hs", "a >= b", NULL},
    {"equ", NULL, "!(a < b || a > b)"},
    {"neu", NULL, "a != b"},
    {"ltu", NULL, "!(a >= b)"},
    {"leu", NULL, "!(a > b)"},
    {"gtu", NULL, "!(a <= b)"},
    {"geu", NULL, "!(a < b)"},
    {"num", NULL, "a == a && b == b"},
    {"nan", NULL, "a != a || b != b"},
};

static void print_setp(Printer *p)
{
    const Statement *s = p->at;
    const char *operator= ptx_has(s, "and") ? "&"
    : ptx_has(s, "or")                      ? "|"
    : ptx_has(s, "xor")                     ? "^"
                                            : NULL,
               *c = ptx_types[p->type].c, *test = NULL;
    need_operands(p, operator? 4 : 3, operator? 4 : 3);
    for (size_t k = 0; k < sizeof COMPARISONS / sizeof *COMPARISONS; k++)
        if (ptx_has(s, COMPARISONS[k].name))
            test = ptx_types[p->type].floating ? COMPARISONS[k].real : COMPARISONS[k].whole;
    if (!test)
        ptx_refuse(p, "a comparison that its type does not have");
    ptx_add(p->out, "{ %s a = %s, b = %s; ", c, operand_value(p, &s->operand[1], 'a'), operand_value(p, &s->operand[2], 'a'));
    for (const Operand *to = &s->operand[0]; to; to = to->second) { /* p|q: q has the opposite comparison */
        char *value = ptx_format(p->ptx, to == &s->operand[0] ? "(%s)" : "!(%s)", test);
        if (operator)
            value = ptx_format(p->ptx, "%s %s %s", value, operator, ptx_source(p, &s->operand[3], TYPE_PRED));
        ptx_assign(p, to, TYPE_PRED, value);
    }
    ptx_add(p->out, "} ");
}

/* ---- 9.7.9.22 cvt */

/* n, z, m, p, a, or 0; *whole: .rni and others, to a whole number */
static char rounding(const Statement *s, bool *whole)
{
    static const struct {
        const char *name;
        char how;
        bool whole;
    } list[] = {{"rn", 'n', false}, {"rz", 'z', false}, {"rm", 'm', false}, {"rp", 'p', false}, {"rna", 'a', false},
                {"rni", 'n', true}, {"rzi", 'z', true}, {"rmi", 'm', true}, {"rpi", 'p', true}};
    *whole = false;
    for (size_t k = 0; k < sizeof list / sizeof *list; k++)
        if (ptx_has(s, list[k].name)) {
            *whole = list[k].whole;
            return list[k].how;
        }
    return 0;
}

static bool is_real(Type t) { return ptx_types[t].floating || t == TYPE_F16 || t == TYPE_BF16; }
static bool is_signed(Type t) { return t == TYPE_S8 || t == TYPE_S16 || t == TYPE_S32 || t == TYPE_S64; }

/* a floating-point source as float or double */
static char *real_source(Printer *p, const Operand *o, Type type)
{
    char *text = ptx_source(p, o, type);
    if (type == TYPE_F32 && ptx_has(p->at, "ftz"))
        return ptx_format(p->ptx, "ptx_flush(%s)", text);
    return type == TYPE_F16    ? ptx_format(p->ptx, "ptx_from_f16(%s)", text)
           : type == TYPE_BF16 ? ptx_format(p->ptx, "ptx_from_bf16(%s)", text)
                               : text;
}

static char *to_real(Printer *p, const char *text, Type from, Type to, char how, bool whole)
{
    bool narrower = ptx_types[to].bytes < ptx_types[from].bytes || (to == TYPE_BF16 && from == TYPE_F16);
    if (!is_real(from) && how != 'n')
        ptx_refuse(p, "of whole numbers only the rounding to the nearest is known");
    if (!is_real(from) && ptx_types[to].bytes == 2 && ptx_types[from].bytes == 8)
        ptx_refuse(p, "from 64 bits to 16");
    if (is_real(from) && narrower && (!how || how == 'a' || whole))
        ptx_refuse(p, "without a rounding");
    if (is_real(from) && !narrower && how && !whole)
        ptx_refuse(p, "with a rounding of what is exact");
    if (whole)
        text = ptx_format(p->ptx, "ptx_whole(%s, '%c')", text, how);
    if (to == TYPE_F16 || to == TYPE_BF16)
        text = ptx_format(p->ptx, "(uint16_t)ptx_narrow(%s, %s, '%c')", text, to == TYPE_F16 ? "5, 10" : "8, 7", how ? how : 'n');
    else if (to == TYPE_F32 && from == TYPE_F64)
        text = ptx_format(p->ptx, "ptx_to_f32(%s, '%c')", text, how);
    else
        text = ptx_format(p->ptx, "(%s)%s", ptx_types[to].c, text);
    if (to == TYPE_F32 && ptx_has(p->at, "ftz"))
        text = ptx_format(p->ptx, "ptx_flush(%s)", text);
    return ptx_format(p->ptx, !ptx_has(p->at, "sat") ? "%s" : to == TYPE_F64 ? "ptx_saturate_64(%s)" : "ptx_saturate(%s)", text);
}

static void print_convert(Printer *p)
{
    const Statement *s = p->at;
    bool whole;
    char how = rounding(s, &whole);
    Type to = p->type, from = TYPE_NONE;
    for (int k = s->modifiers - 1; k > 0 && from == TYPE_NONE; k--)
        from = ptx_type(s->modifier[k].text, (size_t)s->modifier[k].length);
    const Operand *o = &s->operand[0];
    if (to == TYPE_F16X2 || to == TYPE_BF16X2) { /* d = a in the upper half, b in the lower */
        need_operands(p, 3, 3);
        if (from != TYPE_F32 || (how != 'n' && how != 'z'))
            ptx_refuse(p, "is not known to the virtual GPU");
        const char *bits = to == TYPE_F16X2 ? "5, 10" : "8, 7";
        ptx_assign(p, o, to,
                   ptx_format(p->ptx, "ptx_narrow(%s, %s, '%c') << 16 | ptx_narrow(%s, %s, '%c')", ptx_source(p, &o[1], from),
                              bits, how, ptx_source(p, &o[2], from), bits, how));
        return;
    }
    need_operands(p, 2, 2);
    if (to == TYPE_TF32) {
        if (from != TYPE_F32 || (how != 'a' && how != 'n' && how != 'z'))
            ptx_refuse(p, "is not known to the virtual GPU");
        ptx_assign(p, o, to, ptx_format(p->ptx, "ptx_to_tf32(%s, '%c')", ptx_source(p, &o[1], from), how));
    } else if (is_real(to))
        ptx_assign(p, o, to,
                   to_real(p, is_real(from) ? real_source(p, &o[1], from) : ptx_source(p, &o[1], from), from, to, how, whole));
    else if (is_real(from)) {
        if (!whole)
            ptx_refuse(p, "without a rounding to a whole number");
        ptx_assign(p, o, to,
                   ptx_format(p->ptx, "(%s)ptx_to_%s(%s, %u, '%c')", ptx_types[to].c, is_signed(to) ? "signed" : "unsigned",
                              real_source(p, &o[1], from), 8 * ptx_types[to].bytes, how));
    } else if (ptx_has(s, "sat"))
        ptx_refuse(p, "is not known to the virtual GPU");
    else
        ptx_assign(p, o, to, ptx_format(p->ptx, "(%s)%s", ptx_types[to].c, ptx_source(p, &o[1], from)));
}
