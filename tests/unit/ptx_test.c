/* ptx_test: PTX on the virtual GPU (tests/vgpu/ptx): instructions against values computed by hand from the PTX ISA manual, matrix
 * fragments by its formulas, planted errors with a right twin each, and what is refused before it runs. */
#include "ptx_text.h"

#include <math.h>

static const char HEAD[] = ".version 8.0\n.target sm_80\n.address_size 64\n";
static const char REGISTERS[] =
    ".reg .pred %p<8>; .reg .b16 %h<8>; .reg .b32 %r<32>; .reg .b64 %d<16>; .reg .f32 %f<16>; .reg .f64 %g<8>;\n";
static const char MACHINE[] = "driver 13.0\ncapability * 8.0";

/* ---- instructions: each computes h0, r0, d0, f0, g0 or p0 */

typedef struct Value {
    const char *text;
    char result;
    uint64_t bits;
} Value;
static const Value VALUES[] = {
    /* whole numbers */
    {"add.s32 %r0, 5, -7", 'r', 0xFFFFFFFE},
    {"add.u16 %h0, 65535, 2", 'h', 1},
    {"sub.s64 %d0, 3, 5", 'd', -2ull},
    {"mul.lo.s32 %r0, -3, 7", 'r', 0xFFFFFFEB},
    {"mul.hi.u32 %r0, 0x80000000, 6", 'r', 3},
    {"mul.hi.s32 %r0, -2, 3", 'r', 0xFFFFFFFF},
    {"mul.hi.u64 %d0, 0xFFFFFFFFFFFFFFFF, 0xFFFFFFFFFFFFFFFF", 'd', -2ull},
    {"mul.hi.s64 %d0, -1, -1", 'd', 0},
    {"mul.hi.s64 %d0, 0x4000000000000000, -8", 'd', -2ull},
    {"mul.hi.u16 %h0, 65535, 65535", 'h', 65534},
    {"mul.wide.s32 %d0, -3, 0x40000000", 'd', -3221225472ull},
    {"mul.wide.u32 %d0, 0xFFFFFFFF, 2", 'd', 0x1FFFFFFFE},
    {"mul.wide.u16 %r0, 65535, 65535", 'r', 0xFFFE0001},
    {"mad.lo.s32 %r0, -2, 3, 10", 'r', 4},
    {"mad.wide.s32 %d0, -2, 3, 1", 'd', -5ull},
    {"div.s32 %r0, -7, 2", 'r', 0xFFFFFFFD},
    {"rem.s32 %r0, -7, 2", 'r', 0xFFFFFFFF},
    {"div.u64 %d0, -1, 3", 'd', 0x5555555555555555},
    {"rem.u32 %r0, 100, 7", 'r', 2},
    {"div.s32 %r0, 0x80000000, -1", 'r', 0x80000000},
    {"abs.s32 %r0, -9", 'r', 9},
    {"neg.s64 %d0, 9", 'd', -9ull},
    {"min.s32 %r0, -1, 1", 'r', 0xFFFFFFFF},
    {"min.u32 %r0, -1, 1", 'r', 1},
    {"max.s64 %d0, -5, -6", 'd', -5ull},
    {"popc.b32 %r0, 0xF0F1", 'r', 9},
    {"clz.b32 %r0, 1", 'r', 31},
    {"clz.b64 %r0, 0", 'r', 64},
    {"brev.b32 %r0, 6", 'r', 0x60000000},
    {"bfind.u32 %r0, 0x00010000", 'r', 16},
    {"bfind.shiftamt.u32 %r0, 0x00010000", 'r', 15},
    {"bfind.u32 %r0, 0", 'r', 0xFFFFFFFF},
    {"bfind.s32 %r0, -256", 'r', 7},
    {"bfe.u32 %r0, 0x12345678, 8, 12", 'r', 0x456},
    {"bfe.s32 %r0, 0x00000F00, 8, 4", 'r', 0xFFFFFFFF},
    {"bfe.u32 %r0, 0x80000000, 28, 40", 'r', 8},
    {"bfi.b32 %r0, 0xABC, 0x11111111, 4, 8", 'r', 0x11111BC1},
    {"dp2a.lo.u32.u32 %r0, 0x00030002, 0x07060504, 10", 'r', 33},
    {"dp2a.hi.u32.u32 %r0, 0x00030002, 0x07060504, 10", 'r', 43},
    {"add.cc.u32 %r1, -1, 1; addc.u32 %r0, 5, 6", 'r', 12},
    {"sub.cc.u32 %r1, 0, 1; subc.u32 %r0, 5, 2", 'r', 2},
    {"mad.lo.cc.u32 %r1, -1, 1, 1; madc.hi.u32 %r0, -1, 2, 0", 'r', 2},
    {"add.cc.u32 %r1, -1, 1; addc.cc.u32 %r2, -1, 0; addc.u32 %r0, 0, 0", 'r', 1},
    /* bits */
    {"and.b32 %r0, 12, 10", 'r', 8},
    {"or.b64 %d0, 12, 10", 'd', 14},
    {"xor.b16 %h0, 12, 10", 'h', 6},
    {"not.b32 %r0, 0", 'r', 0xFFFFFFFF},
    {"lop3.b32 %r0, 0xF0, 0xCC, 0xAA, 0x80", 'r', 0x80},
    {"lop3.b32 %r0, 0xF0, 0xCC, 0xAA, 0x96", 'r', 0x96},
    {"shl.b32 %r0, 3, 31", 'r', 0x80000000},
    {"shl.b32 %r0, 3, 32", 'r', 0},
    {"shl.b64 %d0, 3, 63", 'd', 1ull << 63},
    {"shr.u32 %r0, 0x80000000, 31", 'r', 1},
    {"shr.s32 %r0, 0x80000000, 40", 'r', 0xFFFFFFFF},
    {"shr.s64 %d0, -8, 1", 'd', -4ull},
    {"shr.u64 %d0, -1, 64", 'd', 0},
    {"shf.l.wrap.b32 %r0, 0x80000001, 0x12345678, 36", 'r', 0x23456788},
    {"shf.r.wrap.b32 %r0, 0x80000001, 0x12345678, 4", 'r', 0x88000000},
    {"shf.r.clamp.b32 %r0, 1, 0x12345678, 40", 'r', 0x12345678},
    {"prmt.b32 %r0, 0x33221100, 0x77665544, 0x7531", 'r', 0x77553311},
    {"prmt.b32 %r0, 0x332211F0, 0, 0x8888", 'r', 0xFFFFFFFF},
    {"prmt.b32.f4e %r0, 0x33221100, 0x77665544, 1", 'r', 0x44332211},
    {"prmt.b32.rc8 %r0, 0x33221100, 0, 2", 'r', 0x22222222},
    {"cnot.b32 %r0, 0", 'r', 1},
    /* floating-point numbers */
    {"add.f32 %f0, 0f3F800000, 0f34000000", 'f', 0x3F800001},
    {"sub.f64 %g0, 0d3FF0000000000000, 0d3FF0000000000000", 'g', 0},
    {"mul.f32 %f0, 0f40400000, 0fC0A00000", 'f', 0xC1700000},
    {"fma.rn.f32 %f0, 0f3F800001, 0f3F800001, 0fBF800002", 'f', 0x28800000},
    {"mul.rn.f32 %f1, 0f3F800001, 0f3F800001; add.f32 %f0, %f1, 0fBF800002", 'f', 0},
    {"fma.rn.f64 %g0, 0d3FF0000000000001, 0d3FF0000000000001, 0dBFF0000000000002", 'g', 0x3970000000000000},
    {"div.rn.f32 %f0, 0f3F800000, 0f40400000", 'f', 0x3EAAAAAB},
    {"rcp.rn.f64 %g0, 0d4008000000000000", 'g', 0x3FD5555555555555},
    {"sqrt.rn.f32 %f0, 0f40000000", 'f', 0x3FB504F3},
    {"neg.f32 %f0, 0f00000000", 'f', 0x80000000},
    {"abs.f64 %g0, 0dC000000000000000", 'g', 0x4000000000000000},
    {"min.f32 %f0, 0f7FC00000, 0f3F800000", 'f', 0x3F800000},
    {"max.f32 %f0, 0f80000000, 0f00000000", 'f', 0},
    {"max.NaN.f32 %f0, 0f7FC00000, 0f3F800000", 'f', 0x7FFFFFFF},
    {"max.NaN.f32 %f0, 0f80000000, 0f3F800000", 'f', 0x3F800000},
    {"min.NaN.f32 %f0, 0f3F800000, 0fFFC00000", 'f', 0x7FFFFFFF},
    {"min.f32 %f0, 0f00000000, 0f80000000", 'f', 0x80000000},
    {"min.f32 %f0, 0f7FC00000, 0fFFC00000", 'f', 0x7FFFFFFF},
    {"max.NaN.f32 %f0, 0fFFC00000, 0f3F800000", 'f', 0x7FFFFFFF},
    {"min.NaN.f32 %f0, 0f40000000, 0f3F800000", 'f', 0x3F800000},
    {"copysign.f32 %f0, 0f80000000, 0f40000000", 'f', 0xC0000000},
    {"copysign.f64 %g0, 0d0000000000000000, 0dC000000000000000", 'g', 0x4000000000000000},
    {"add.ftz.f32 %f0, 0f00000001, 0f00000000", 'f', 0},
    {"add.f32 %f0, 0f00000001, 0f00000000", 'f', 1},
    {"mul.sat.f32 %f0, 0f40000000, 0f40000000", 'f', 0x3F800000},
    {"ex2.approx.ftz.f32 %f0, 0f40400000", 'f', 0x41000000},
    {"ex2.approx.ftz.f32 %f0, 0fC3480000", 'f', 0},
    {"ex2.approx.f32 %f0, 0fFF800000", 'f', 0},
    {"rcp.approx.ftz.f64 %g0, 0d4000000000000000", 'g', 0x3FE0000000000000},
    {"rcp.approx.ftz.f64 %g0, 0d8000000000000000", 'g', 0xFFF0000000000000},
    {"add.rm.f32 %f0, 0f3F800000, 0f00000001", 'f', 0x3F800000},
    {"add.rp.f32 %f0, 0f3F800000, 0f00000001", 'f', 0x3F800001},
    {"add.rz.f32 %f0, 0fBF800000, 0f00000001", 'f', 0xBF7FFFFF},
    {"add.rm.f32 %f0, 0f3F800000, 0f80000001", 'f', 0x3F7FFFFF},
    {"add.rp.f32 %f0, 0f3F800000, 0f80000001", 'f', 0x3F800000},
    {"add.rm.f32 %f0, 0f3F800000, 0fBF800000", 'f', 0x80000000},
    {"sub.rm.f32 %f0, 0f3F800000, 0f00000001", 'f', 0x3F7FFFFF},
    {"mul.rz.f32 %f0, 0f3F800001, 0f3F800001", 'f', 0x3F800002},
    {"mul.rp.f32 %f0, 0f3F800001, 0f3F800001", 'f', 0x3F800003},
    {"fma.rm.f32 %f0, 0f3F800001, 0f3F800001, 0f4B400000", 'f', 0x4B400001},
    {"fma.rm.f32 %f0, 0fBF800001, 0f3F800001, 0f4B400000", 'f', 0x4B3FFFFE},
    {"fma.rp.f32 %f0, 0f7F7FFFFF, 0f40000000, 0f00000000", 'f', 0x7F800000},
    {"fma.rm.f32 %f0, 0f7F7FFFFF, 0f40000000, 0f00000000", 'f', 0x7F7FFFFF},
    /* conversions */
    {"cvt.s32.s8 %r0, 0x1FF", 'r', 0xFFFFFFFF},
    {"cvt.u32.u16 %r0, 0x12345", 'r', 0x2345},
    {"cvt.s64.s32 %d0, -5", 'd', -5ull},
    {"cvt.u64.u32 %d0, -5", 'd', 0xFFFFFFFB},
    {"cvt.u16.u32 %h0, 0x12345", 'h', 0x2345},
    {"cvt.u32.u64 %r0, 0x123456789", 'r', 0x23456789},
    {"cvt.rn.f32.s32 %f0, 16777217", 'f', 0x4B800000},
    {"cvt.rn.f32.u32 %f0, -1", 'f', 0x4F800000},
    {"cvt.rn.f64.s64 %g0, -3", 'g', 0xC008000000000000},
    {"cvt.rn.f64.u64 %g0, -1", 'g', 0x43F0000000000000},
    {"cvt.rzi.s32.f32 %r0, 0fC0700000", 'r', 0xFFFFFFFD},
    {"cvt.rni.s32.f32 %r0, 0f40200000", 'r', 2},
    {"cvt.rmi.s32.f32 %r0, 0fC0200000", 'r', 0xFFFFFFFD},
    {"cvt.rpi.s32.f64 %r0, 0d4004000000000000", 'r', 3},
    {"cvt.rzi.u32.f32 %r0, 0fBF800000", 'r', 0},
    {"cvt.rzi.s32.f32 %r0, 0f7FC00000", 'r', 0},
    {"cvt.rzi.s32.f32 %r0, 0f4F000000", 'r', 0x7FFFFFFF},
    {"cvt.rzi.u64.f64 %d0, 0d43E0000000000000", 'd', 1ull << 63},
    {"cvt.rn.f32.f64 %f0, 0d3FF0000010000000", 'f', 0x3F800000},
    {"cvt.rp.f32.f64 %f0, 0d3FF0000010000000", 'f', 0x3F800001},
    {"cvt.rz.f32.f64 %f0, 0d3FF000001FFFFFFF", 'f', 0x3F800000},
    {"cvt.rm.f32.f64 %f0, 0dBFF0000000000001", 'f', 0xBF800001},
    {"cvt.rz.f32.f64 %f0, 0d7FE0000000000000", 'f', 0x7F7FFFFF},
    {"cvt.f64.f32 %g0, 0f3FC00000", 'g', 0x3FF8000000000000},
    {"cvt.rni.f32.f32 %f0, 0f40600000", 'f', 0x40800000},
    {"cvt.rmi.f64.f64 %g0, 0dBFE0000000000000", 'g', 0xBFF0000000000000},
    {"cvt.rn.f16.f32 %h0, 0f3F800000", 'h', 0x3C00},
    {"cvt.rn.f16.f32 %h0, 0f477FF000", 'h', 0x7C00},
    {"cvt.rz.f16.f32 %h0, 0f477FF000", 'h', 0x7BFF},
    {"cvt.rn.f16.f32 %h0, 0f33800000", 'h', 1},
    {"cvt.rn.f16.f32 %h0, 0f33000000", 'h', 0},
    {"cvt.rn.f16.f32 %h0, 0f387FDFFF", 'h', 0x03FF},
    {"cvt.rn.f16.f32 %h0, 0f387FE000", 'h', 0x0400},
    {"cvt.rn.f16.f32 %h0, 0f7FC00000", 'h', 0x7FFF},
    {"mov.b16 %h1, 0x3555; cvt.f32.f16 %f0, %h1", 'f', 0x3EAAA000},
    {"mov.b16 %h1, 0x0001; cvt.f32.f16 %f0, %h1", 'f', 0x33800000},
    {"cvt.rn.bf16.f32 %h0, 0f3F808000", 'h', 0x3F80},
    {"cvt.rn.bf16.f32 %h0, 0f3F818000", 'h', 0x3F82},
    {"cvt.rn.bf16x2.f32 %r0, 0f40000000, 0f3F800000", 'r', 0x40003F80},
    {"cvt.rn.f16x2.f32 %r0, 0f40000000, 0f3F800000", 'r', 0x40003C00},
    {"cvt.rna.tf32.f32 %r0, 0f3F801000", 'r', 0x3F802000},
    {"cvt.rna.tf32.f32 %r0, 0f3F800FFF", 'r', 0x3F800000},
    /* comparisons and choices */
    {"setp.lt.s32 %p0, -1, 1", 'p', 1},
    {"setp.lt.u32 %p0, -1, 1", 'p', 0},
    {"setp.hi.u64 %p0, -1, 1", 'p', 1},
    {"setp.ne.f32 %p0, 0f7FC00000, 0f7FC00000", 'p', 0},
    {"setp.neu.f32 %p0, 0f7FC00000, 0f7FC00000", 'p', 1},
    {"setp.ltu.f64 %p0, 0d7FF8000000000000, 0d0000000000000000", 'p', 1},
    {"setp.geu.f32 %p0, 0f3F800000, 0f40000000", 'p', 0},
    {"setp.num.f32 %p0, 0f3F800000, 0f40000000", 'p', 1},
    {"setp.nan.f32 %p0, 0f3F800000, 0f7FC00000", 'p', 1},
    {"setp.eq.s32 %p1, 1, 1; setp.lt.and.s32 %p0|%p2, 1, 2, !%p1", 'p', 0},
    {"setp.eq.s32 %p1, 1, 1; setp.gt.or.s32 %p2|%p0, 1, 2, !%p1", 'p', 1},
    {"setp.eq.s32 %p1, 1, 2; selp.b32 %r0, 4, 5, %p1", 'r', 5},
    {"setp.eq.s32 %p1, 1, 1; not.pred %p2, %p1; xor.pred %p0, %p1, %p2", 'p', 1},
    {"mov.u32 %r0, 1; setp.eq.s32 %p1, 1, 2; @%p1 mov.u32 %r0, 2", 'r', 1},
    {"mov.u32 %r0, 1; setp.eq.s32 %p1, 1, 2; @!%p1 mov.u32 %r0, 2", 'r', 2},
    /* moves */
    {"mov.b64 %d0, {0x11111111, 0x22222222}", 'd', 0x2222222211111111},
    {"mov.b64 %d1, 0x2222222211111111; mov.b64 {_, %r0}, %d1", 'r', 0x22222222},
    {"mov.b32 %r1, 0x22221111; mov.b32 {%h0, %h1}, %r1", 'h', 0x1111},
    {"mov.b32 %r0, {0x1111, 0x2222}", 'r', 0x22221111},
    {"mov.f32 %f1, 0f40000000; mov.b32 %r0, %f1", 'r', 0x40000000},
    {"mov.b64 %d1, 0x4000000000000000; mov.b64 %g0, %d1", 'g', 0x4000000000000000},
    {"mov.u32 %r0, %ntid.x", 'r', 1},
    {"mov.u32 %r0, %lanemask_le", 'r', 1},
    /* memory */
    {"st.local.u32 [scratch+4], 7; ld.local.u32 %r0, [scratch+4]", 'r', 7},
    {"mov.u64 %d1, scratch; cvta.local.u64 %d2, %d1; st.u16 [%d2+2], 258; ld.local.u8 %r0, [%d1+3]", 'r', 1},
    {"mov.u32 %r1, room; st.shared.u64 [%r1+8], -1; ld.shared.s8 %r0, [room+9]", 'r', 0xFFFFFFFF},
    {"cvta.shared.u64 %d1, room; st.v2.u32 [%d1], {3, 4}; ld.shared.u32 %r0, [room+4]", 'r', 4},
    {"cvta.shared.u64 %d1, room; cvta.to.shared.u64 %d2, %d1; st.shared.u32 [%d2], 9; ld.u32 %r0, [%d1]", 'r', 9},
    {"ld.const.u32 %r0, [fixed+4]", 'r', 20},
    {"mov.u64 %d1, table; ld.global.u64 %d2, [%d1+8]; ld.global.u32 %r0, [%d2+4]", 'r', 6},
    {"st.shared.u32 [room], 5; atom.shared.add.u32 %r1, [room], 3; ld.shared.u32 %r0, [room]", 'r', 8},
    {"st.shared.u32 [room], 5; atom.shared.cas.b32 %r0, [room], 5, 1", 'r', 5},
    {"st.shared.u32 [room], -5; red.shared.max.s32 [room], 1; ld.shared.u32 %r0, [room]", 'r', 1},
    {"st.shared.u32 [room], 5; atom.shared.inc.u32 %r1, [room], 5; ld.shared.u32 %r0, [room]", 'r', 0},
    {"st.shared.u64 [room], 5; atom.shared.exch.b64 %d0, [room], 1", 'd', 5},
    /* calls, branches */
    {"{ .param .b64 x; .param .b64 y; st.param.f64 [x], 0d4000000000000000; call.uni (y), square, (x); ld.param.f64 %g0, [y]; }",
     'g', 0x4010000000000000},
};

static void print_values(void)
{
    static const char *const stores[] = {
        ['h'] = "st.global.u16 [%d15+%d], %h0", ['r'] = "st.global.u32 [%d15+%d], %r0",
        ['d'] = "st.global.u64 [%d15+%d], %d0", ['f'] = "st.global.f32 [%d15+%d], %f0",
        ['g'] = "st.global.f64 [%d15+%d], %g0", ['p'] = "selp.u32 %r0, 1, 0, %p0; st.global.u32 [%d15+%d], %r0"};
    add("%s.const .align 4 .u32 fixed[2] = {10, 20};\n.global .align 4 .u32 numbers[2] = {5, 6};\n.global .u64 table[2] = {0, generic(numbers)};\n"
        ".func (.param .b64 result) square(.param .b64 x)\n{\n.reg .f64 %%g<2>;\nld.param.f64 %%g0, [x];\nmul.f64 %%g1, %%g0, %%g0;\nst.param.f64 [result], %%g1;\nret;\n}\n",
        HEAD);
    add(".visible .entry values(.param .u64 out)\n{\n.shared .align 8 .b8 room[16];\n.local .align 8 .b8 scratch[8];\n");
    for (int k = 0; k < COUNT(VALUES); k++) {
        const char *at = strstr(stores[(int)VALUES[k].result], "+%d");
        add("{ %s ld.param.u64 %%d15, [out];\n%s;\n%.*s+%d%s;\n}\n", REGISTERS, VALUES[k].text,
            (int)(at - stores[(int)VALUES[k].result]), stores[(int)VALUES[k].result], 8 * k, at + 3);
    }
    add("ret;\n}\n");
}

static void compute_values(int unused)
{
    static uint64_t got[FLOATS / 2];
    (void)unused;
    LAUNCH(0, 0, "values", 1, 1, 0, &gpu[0].b);
    download(0, (float *)got, gpu[0].b, 2 * COUNT(VALUES));
    for (int k = 0; k < COUNT(VALUES); k++)
        if (got[k] != VALUES[k].bits)
            printf("%s: %llx in place of %llx\n", VALUES[k].text, (unsigned long long)got[k], (unsigned long long)VALUES[k].bits);
}

/* ---- approximations: within what the manual allows */

static void approximate(int unused)
{
    static const struct {
        const char *kernel;
        double (*exact)(double), most;
    } CASES[] = {{"ex2", exp2, 0x1p-22}, {"rcp", NULL, 0x1p-23}, {"rsqrt", NULL, 0x1p-22}};
    static float got[FLOATS];
    (void)unused;
    for (int c = 0; c < COUNT(CASES); c++) {
        int changed = 0;
        LAUNCH(0, 0, CASES[c].kernel, 64, 64, 0, &gpu[0].a, &gpu[0].b);
        download(0, got, gpu[0].b, FLOATS);
        for (int i = 1; i < FLOATS; i++) {
            float x = (float)i / 64;
            double exact = c == 0 ? exp2(x) : c == 1 ? 1.0 / x : 1 / sqrt(x);
            if (!(fabs(got[i] - exact) <= CASES[c].most * exact))
                printf("%s of %g: %g, not %g\n", CASES[c].kernel, x, got[i], exact);
            changed += got[i] != (float)exact;
        }
        if (changed < FLOATS / 8)
            printf("%s: only %d results are not the nearest\n", CASES[c].kernel, changed);
    }
}

/* ---- matrices: fragments by the manual's formulas; groupID = %laneid >> 2, threadID_in_group = %laneid % 4 */

typedef struct Shape {
    const char *name, *instruction;
    int k, a, b, per_register;
} Shape; /* a, b: elements of a lane */
static const Shape SHAPES[] = {
    {"m16n8k16 bf16", "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32", 16, 8, 4, 2},
    {"m16n8k8 bf16", "mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32", 8, 4, 2, 2},
    {"m16n8k16 f16", "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", 16, 8, 4, 2},
    {"m16n8k8 f16", "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32", 8, 4, 2, 2},
    {"m16n8k8 tf32", "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32", 8, 4, 2, 1},
    {"m16n8k4 tf32", "mma.sync.aligned.m16n8k4.row.col.f32.tf32.tf32.f32", 4, 2, 1, 1},
};

static void element_of_a(const Shape *s, int lane, int i, int *row, int *column)
{
    int group = lane >> 2, thread = lane % 4;
    if (s->per_register == 1) { /* tf32 */
        *row = i == 0 || i == 2 ? group : group + 8;
        *column = i < 2 ? thread : thread + 4;
    } else if (s->k == 16) {
        *row = (i >= 0 && i < 2) || (i >= 4 && i < 6) ? group : group + 8;
        *column = thread * 2 + (i & 1) + (i < 4 ? 0 : 8);
    } else {
        *row = i < 2 ? group : group + 8;
        *column = thread * 2 + (i & 1);
    }
}

static void element_of_b(const Shape *s, int lane, int i, int *row, int *column)
{
    int group = lane >> 2, thread = lane % 4;
    *column = group;
    *row = s->per_register == 1 ? thread + 4 * i : thread * 2 + (i & 1) + (i < 2 ? 0 : 8);
}

static uint32_t small_number(const Shape *s, int value) /* a whole number of -8 .. 8 as an element has it */
{
    float f = (float)value;
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    if (s->per_register == 1)
        return bits;
    if (strstr(s->name, "bf16"))
        return bits >> 16;
    return value == 0 ? 0 : (bits >> 16 & 0x8000u) | ((bits >> 23 & 255u) - 112) << 10 | (bits >> 13 & 0x3FFu);
}

/* kernel mmaN: a, b, c from 12 words of each lane; d */
static void print_matrices(void)
{
    for (int k = 0; k < COUNT(SHAPES); k++) {
        const Shape *s = &SHAPES[k];
        int a = s->a / s->per_register, b = s->b / s->per_register;
        add(".visible .entry mma%d(.param .u64 in, .param .u64 out)\n{\n%smov.u32 %%r31, %%tid.x;\nmul.wide.u32 %%d1, %%r31, 64;\nld.param.u64 %%d2, [in];\nadd.s64 %%d2, %%d2, %%d1;\n"
            "ld.param.u64 %%d3, [out];\nshr.u64 %%d1, %%d1, 2;\nadd.s64 %%d3, %%d3, %%d1;\n",
            k, REGISTERS);
        for (int i = 0; i < 10; i++)
            add("ld.global.u32 %%r%d, [%%d2+%d];\n", i, 4 * i);
        for (int i = 0; i < 4; i++)
            add("ld.global.f32 %%f%d, [%%d2+%d];\n", i, 4 * (10 + i));
        add("%s {%%f0, %%f1, %%f2, %%f3}, {", s->instruction);
        for (int i = 0; i < a; i++)
            add("%s%%r%d", i ? ", " : "", i);
        add("}, {");
        for (int i = 0; i < b; i++)
            add("%s%%r%d", i ? ", " : "", 4 + i);
        add("}, {%%f0, %%f1, %%f2, %%f3};\nst.global.v4.f32 [%%d3], {%%f0, %%f1, %%f2, %%f3};\nret;\n}\n");
    }
}

static void multiply(int number)
{
    const Shape *s = &SHAPES[number];
    static uint32_t in[32][16];
    float out[32][4], c[16][8];
    int a[16][16], b[16][8];
    for (int i = 0; i < 16; i++)
        for (int j = 0; j < 16; j++) {
            a[i][j] = (i * 7 + j * 5 + i * j) % 17 - 8;
            b[i][j % 8] = (i * 3 + j % 8 * 11 + i * (j % 8)) % 15 - 7;
            c[i][j % 8] = (float)(i * 8 + j % 8);
        }
    for (int lane = 0; lane < 32; lane++) {
        for (int i = 0, row, column; i < s->a; i++) {
            element_of_a(s, lane, i, &row, &column);
            in[lane][i / s->per_register] |= small_number(s, a[row][column]) << 16 * (i % s->per_register);
        }
        for (int i = 0, row, column; i < s->b; i++) {
            element_of_b(s, lane, i, &row, &column);
            in[lane][4 + i / s->per_register] |= small_number(s, b[row][column]) << 16 * (i % s->per_register);
        }
        for (int i = 0; i < 4; i++)
            memcpy(&in[lane][10 + i], &c[(lane >> 2) + (i < 2 ? 0 : 8)][lane % 4 * 2 + (i & 1)], 4);
    }
    char kernel[20];
    snprintf(kernel, sizeof kernel, "mma%d", number);
    MUST(cu->memcpy_htod_async(gpu[0].a, in, sizeof in, gpu[0].stream[0]));
    LAUNCH(0, 0, kernel, 1, 32, 0, &gpu[0].a, &gpu[0].b);
    download(0, (float *)out, gpu[0].b, 128);
    for (int lane = 0; lane < 32; lane++)
        for (int i = 0; i < 4; i++) {
            int row = (lane >> 2) + (i < 2 ? 0 : 8), column = lane % 4 * 2 + (i & 1);
            float sum = c[row][column];
            for (int k = 0; k < s->k; k++)
                sum += (float)(a[row][k] * b[k][column]);
            if (out[lane][i] != sum)
                printf("lane %d, c%d: %g, not %g\n", lane, i, (double)out[lane][i], (double)sum);
        }
}

/* a product through shared memory, ldmatrix and mma; wrong: lanes give the rows of their neighbours */
static void print_products(void)
{
    for (int wrong = 0; wrong < 2; wrong++) {
        add(".visible .entry product%d(.param .u64 in, .param .u64 out)\n{\n.shared .align 16 .b8 a[512];\n.shared .align 16 .b8 b[256];\n%smov.u32 %%r31, %%tid.x;\n"
            "ld.param.u64 %%d1, [in];\nmul.wide.u32 %%d2, %%r31, 16;\nadd.s64 %%d1, %%d1, %%d2;\nshl.b32 %%r20, %%r31, 4;\nmov.u32 %%r21, a;\nmov.u32 %%r22, b;\n",
            wrong, REGISTERS);
        add("ld.global.v4.u32 {%%r0, %%r1, %%r2, %%r3}, [%%d1];\nadd.u32 %%r23, %%r21, %%r20;\nst.shared.v4.u32 [%%r23], {%%r0, %%r1, %%r2, %%r3};\nsetp.lt.u32 %%p0, %%r31, 16;\nadd.u32 %%r24, %%r22, %%r20;\n"
            "@%%p0 ld.global.v4.u32 {%%r0, %%r1, %%r2, %%r3}, [%%d1+512];\n@%%p0 st.shared.v4.u32 [%%r24], {%%r0, %%r1, %%r2, %%r3};\nbar.sync 0;\n");
        add("and.b32 %%r10, %%r31, 15;\nxor.b32 %%r25, %%r10, %d;\nshl.b32 %%r25, %%r25, 5;\nshr.u32 %%r11, %%r31, 4;\nshl.b32 %%r11, %%r11, 4;\nadd.u32 %%r25, %%r25, %%r11;\nadd.u32 %%r25, %%r25, %%r21;\n"
            "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%%r0, %%r1, %%r2, %%r3}, [%%r25];\nshl.b32 %%r10, %%r10, 4;\nadd.u32 %%r24, %%r22, %%r10;\n"
            "ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%%r4, %%r5}, [%%r24];\nmov.f32 %%f0, 0f00000000;\n",
            wrong);
        add("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%%f0, %%f1, %%f2, %%f3}, {%%r0, %%r1, %%r2, %%r3}, {%%r4, %%r5}, {%%f0, %%f0, %%f0, %%f0};\nld.param.u64 %%d3, [out];\n"
            "shr.u32 %%r10, %%r31, 2;\nand.b32 %%r11, %%r31, 3;\nmul.wide.u32 %%d4, %%r10, 32;\nmad.wide.u32 %%d4, %%r11, 8, %%d4;\nadd.s64 %%d3, %%d3, %%d4;\nst.global.v2.f32 [%%d3], {%%f0, %%f1};\n"
            "st.global.v2.f32 [%%d3+256], {%%f2, %%f3};\nret;\n}\n");
    }
}

static void multiply_shared(int wrong)
{
    const Shape *s = &SHAPES[0];
    uint16_t in[256 + 128];
    float out[16][8];
    int a[16][16], b[16][8];
    for (int i = 0; i < 16; i++)
        for (int j = 0; j < 16; j++) {
            a[i][j] = (i * 7 + j * 5 + i * j) % 17 - 8;
            b[i][j % 8] = (i * 3 + j % 8 * 11 + i * (j % 8)) % 15 - 7;
            in[i * 16 + j] = (uint16_t)small_number(s, a[i][j]);
            in[256 + i * 8 + j % 8] = (uint16_t)small_number(s, b[i][j % 8]);
        }
    MUST(cu->memcpy_htod_async(gpu[0].a, in, sizeof in, gpu[0].stream[0]));
    LAUNCH(0, 0, wrong ? "product1" : "product0", 1, 32, 0, &gpu[0].a, &gpu[0].b);
    download(0, &out[0][0], gpu[0].b, 128);
    for (int i = 0; i < 16; i++)
        for (int j = 0; j < 8; j++) {
            float sum = 0;
            for (int k = 0; k < 16; k++)
                sum += (float)(a[i][k] * b[k][j]);
            if (out[i][j] != sum) {
                printf("row %d, column %d: %g, not %g\n", i, j, (double)out[i][j], (double)sum);
                return;
            }
        }
}

/* ---- warps: each lane's result, by hand */

typedef struct Warp {
    const char *name, *body;
    uint32_t (*of)(uint32_t lane);
} Warp;
static uint32_t of_butterfly(uint32_t l) { return (l ^ 5) * 10; }
static uint32_t of_down(uint32_t l) { return (l + 3 < 32 ? l + 3 : l) * 10 + (l + 3 < 32); }
static uint32_t of_up(uint32_t l) { return (l % 8 >= 2 ? l - 2 : l) * 10 + (l % 8 >= 2); }
static uint32_t of_index(uint32_t l) { return ((l & ~7u) | 3) * 10; }
static uint32_t of_ballot(uint32_t l) { return 0x49249249u + 0 * l; }
static uint32_t of_votes(uint32_t l) { return 2 + 0 * l; }
static uint32_t of_redux(uint32_t l) { return 496 + 0 * l; }
static uint32_t of_least(uint32_t l) { return (uint32_t)-5 + 0 * l; }
static uint32_t of_red(uint32_t l) { return 11 + 0 * l; }
static uint32_t of_match(uint32_t l) { return 0x11111111u << l % 4; }
static uint32_t of_rows(uint32_t l) { return (2 * (l % 4) + 8 * (l / 4)) | (2 * (l % 4) + 1 + 8 * (l / 4)) << 16; }
static uint32_t of_columns(uint32_t l) { return (8 * 2 * (l % 4) + l / 4) | (8 * (2 * (l % 4) + 1) + l / 4) << 16; }
#define ROWS                                                                                                                                                                            \
    "shl.b32 %r1, %r31, 1; add.u32 %r2, %r1, 1; shl.b32 %r2, %r2, 16; or.b32 %r2, %r2, %r1; shl.b32 %r3, %r31, 2; mov.u32 %r4, room; add.u32 %r3, %r3, %r4; st.shared.u32 [%r3], %r2; " \
    "bar.sync 0; and.b32 %r5, %r31, 7; shl.b32 %r5, %r5, 4; add.u32 %r5, %r5, %r4; "
static const Warp WARPS[] = {
    {"shuffle by xor", "shfl.sync.bfly.b32 %r0, %r30, 5, 31, -1", of_butterfly},
    {"shuffle down", "shfl.sync.down.b32 %r0|%p0, %r30, 3, 31, -1; @%p0 add.u32 %r0, %r0, 1", of_down},
    {"shuffle up in eights", "shfl.sync.up.b32 %r0|%p0, %r30, 2, 0x1800, -1; @%p0 add.u32 %r0, %r0, 1", of_up},
    {"shuffle from one in eights", "shfl.sync.idx.b32 %r0, %r30, 3, 0x181F, -1", of_index},
    {"ballot", "rem.u32 %r1, %r31, 3; setp.eq.s32 %p0, %r1, 0; vote.sync.ballot.b32 %r0, %p0, -1", of_ballot},
    {"votes",
     "setp.lt.u32 %p0, %r31, 5; vote.sync.all.pred %p1, %p0, -1; vote.sync.any.pred %p2, %p0, -1; selp.u32 %r0, 1, 0, %p1; @%p2 add.u32 %r0, %r0, 2",
     of_votes},
    {"sum of a warp", "redux.sync.add.u32 %r0, %r31, -1", of_redux},
    {"least of a warp", "sub.s32 %r1, %r31, 5; redux.sync.min.s32 %r0, %r1, -1", of_least},
    {"barrier that counts", "rem.u32 %r1, %r31, 3; setp.eq.s32 %p0, %r1, 0; bar.red.popc.u32 %r0, 0, %p0", of_red},
    {"lanes that agree", "and.b32 %r1, %r31, 3; match.any.sync.b32 %r0, %r1, -1", of_match},
    {"ldmatrix", ROWS "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r0}, [%r5]", of_rows},
    {"ldmatrix transposed", ROWS "ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16 {%r0}, [%r5]", of_columns},
};

static void print_warps(void)
{
    for (int k = 0; k < COUNT(WARPS); k++) {
        add(".visible .entry warp%d(.param .u64 out)\n{\n.shared .align 16 .b8 room[128];\n%smov.u32 %%r31, %%laneid;\nmul.lo.u32 %%r30, %%r31, 10;\n",
            k, REGISTERS);
        add("%s", WARPS[k].body);
        add(";\nld.param.u64 %%d1, [out];\nmul.wide.u32 %%d2, %%r31, 4;\nadd.s64 %%d1, %%d1, %%d2;\nst.global.u32 [%%d1], %%r0;\nret;\n}\n");
    }
}

static void run_warp(int number)
{
    uint32_t got[32];
    char kernel[20];
    snprintf(kernel, sizeof kernel, "warp%d", number);
    LAUNCH(0, 0, kernel, 1, 32, 0, &gpu[0].b);
    download(0, (float *)got, gpu[0].b, 32);
    for (uint32_t lane = 0; lane < 32; lane++)
        if (got[lane] != WARPS[number].of(lane))
            printf("lane %u: %x in place of %x\n", lane, got[lane], WARPS[number].of(lane));
}

/* ---- planted errors. %d14, %d15: a, b at this thread's element; %r31: the thread. `$` is what differs */

typedef struct Planted {
    const char *name, *body, *right, *wrong, *kind, *text;
    int blocks, threads, shared;
} Planted;
#define SHARED_PLACE                                                                                                             \
    "shl.b32 %r1, %r31, 2; mov.u32 %r2, room; add.u32 %r1, %r1, %r2; xor.b32 %r3, %r31, 32; shl.b32 %r3, %r3, 2; add.u32 %r3, %r3, %r2; "
static const Planted PLANTED[] = {
    {"a barrier is missing", SHARED_PLACE "st.shared.u32 [%r1], 1; $; ld.shared.u32 %r0, [%r3]; st.global.u32 [%d15], %r0;",
     "bar.sync 0", "", "", "shared memory", 1, 64, 0},
    {"a barrier that some do not reach", "setp.lt.u32 %p0, %r31, 40; $ bar.sync 0;", "", "@%p0", "barrier", "40 threads wait", 1,
     64, 0},
    {"a vector is not aligned",
     "shl.b32 %r1, %r31, 2; cvt.u64.u32 %d1, %r1; add.s64 %d2, %d14, %d1; ld.global.v2.f32 {%f0, %f1}, [%d2+$];", "0", "4",
     "alignment", "line", 1, 32, 0},
    {"a load outside memory", "ld.global.f32 %f0, [%d14+$];", "16252", "16384", "bounds", "behind the end", 1, 32, 0},
    {"a store outside shared memory", SHARED_PLACE "st.shared.u32 [%r1+$], 1;", "0", "1024", "bounds", "shared memory", 1, 64,
     512},
    {"local memory, outside", "mov.u64 %d1, scratch; st.local.u32 [%d1+$], 1;", "12", "16", "bounds", "local memory", 1, 32, 0},
    {"shared memory that nobody set", SHARED_PLACE "$; bar.sync 0; ld.shared.u32 %r0, [%r1]; st.global.u32 [%d15], %r0;",
     "st.shared.u32 [%r1], 1", "", "uninitialised", "no thread of this block", 1, 64, 0},
    {"a copy that nobody waits for", SHARED_PLACE "cp.async.ca.shared.global [%r1], [%d14], 4; cp.async.commit_group; $;",
     "cp.async.wait_group 0", "", "copy", "had not waited", 1, 32, 0},
    {"a copy that is read too early",
     SHARED_PLACE
     "cp.async.ca.shared.global [%r1], [%d14], 4; cp.async.commit_group; $ bar.sync 0; ld.shared.f32 %f0, [%r3]; st.global.f32 [%d15], %f0; cp.async.wait_all;",
     "cp.async.wait_group 0;", "", "barrier", "no barrier", 1, 64, 0},
    {"a mask names lanes that do not come",
     "setp.lt.u32 %p0, %r31, 16; @!%p0 bra END; shfl.sync.bfly.b32 %r0, %r31, 1, 31, $; END: bar.sync 0;", "0xFFFF", "-1",
     "barrier", "16 threads wait", 1, 32, 0},
    {"a mask without the own lane", "shfl.sync.bfly.b32 %r0, %r31, 1, 31, $;", "-1", "0xFFFF", "lanes", "does not name", 1, 32,
     0},
    {"matrices by half a warp",
     "mov.u32 %r0, 0; mov.f32 %f0, 0f00000000; setp.lt.u32 %p0, %r31, $; @%p0 mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32 {%f0, %f0, %f0, %f0}, {%r0, %r0}, {%r0}, {%f0, %f0, %f0, %f0};",
     "32", "16", "lanes", "some lanes have ended", 1, 32, 0},
    {"a row of a matrix is not aligned",
     SHARED_PLACE
     "st.shared.u32 [%r1], 0; bar.sync 0; and.b32 %r4, %r31, 3; shl.b32 %r4, %r4, 4; add.u32 %r4, %r4, %r2; ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r0}, [%r4+$];",
     "0", "8", "alignment", "row of a matrix", 1, 32, 0},
    {"a load by .nc of what is written", "st.global.u32 [%d15], 1; ld.global$.u32 %r0, [%d15];", "", ".nc", "constant", "__ldg",
     1, 32, 0},
    {"a division by zero", "sub.s32 %r1, %r31, $; div.s32 %r0, 5, %r1;", "40", "20", "arithmetic", "zero", 1, 32, 0},
    {"blocks that write one place",
     "ld.param.u64 %d1, [b]; mov.u32 %r1, %ctaid.x; mul.wide.u32 %d2, %r1, $; add.s64 %d1, %d1, %d2; setp.eq.u32 %p0, %r31, 0; @%p0 st.global.u32 [%d1], 1;",
     "4", "0", "blocks", "another block", 4, 32, 0},
    {"an update that is not atomic", "ld.param.u64 %d1, [w]; $", "red.global.add.u32 [%d1], 1;",
     "ld.global.u32 %r0, [%d1]; add.u32 %r0, %r0, 1; st.global.u32 [%d1], %r0;", "", "has written it", 4, 32, 0},
    {"a trap", "setp.gt.u32 %p0, %r31, $; @%p0 trap;", "40", "20", "trap", "trap", 1, 32, 0},
    {"the number of a barrier's threads", "bar.sync 1, $;", "64", "40", "barrier", "multiple of 32", 1, 64, 0},
};

static void print_list(const Planted *list, int count)
{
    for (int k = 0; k < count; k++)
        for (int wrong = 0; wrong < 2; wrong++) {
            const Planted *p = &list[k];
            const char *place = strchr(p->body, '$');
            add(".visible .entry %s%d(.param .u64 a, .param .u64 b, .param .u64 w)\n{\n.shared .align 16 .b8 room[256];\n.local .align 8 .b8 scratch[16];\n%s",
                wrong ? "wrong" : "right", k, REGISTERS);
            add("mov.u32 %%r31, %%tid.x;\nmul.wide.u32 %%d0, %%r31, 4;\nld.param.u64 %%d14, [a];\nld.param.u64 %%d15, [b];\nadd.s64 %%d14, %%d14, %%d0;\nadd.s64 %%d15, %%d15, %%d0;\n");
            add("%.*s%s%s\nret;\n}\n", (int)(place - p->body), p->body, wrong ? p->wrong : p->right, place + 1);
        }
}

static const Planted *now;
static void run_planted(int wrong)
{
    char kernel[20];
    snprintf(kernel, sizeof kernel, "%s%d", wrong ? "wrong" : "right", (int)(now - PLANTED));
    MUST(try_launch(0, gpu[0].stream[0], kernel, now->blocks, now->threads, now->shared,
                    PARAMETERS(&gpu[0].a, &gpu[0].b, &gpu[0].w)));
}

/* ---- programmatic dependent launch: kernels that begin before the one before them has ended */

static const char MACHINE_90[] = "driver 13.0\ncapability * 9.0";
static const Planted GRIDS[] = {
    {"a load before the wait for grids", "$ ld.global.f32 %f0, [%d14]; griddepcontrol.wait; st.global.f32 [%d15], %f0;",
     "griddepcontrol.wait;", "", "dependence", "loads 4 bytes", 1, 64, 0},
    {"a store before the wait for grids", "$ st.global.u32 [%d15], 1; griddepcontrol.wait;", "griddepcontrol.wait;", "",
     "dependence", "stores 4 bytes", 1, 64, 0},
    {"an update before the wait for grids", "$ red.global.add.u32 [%d15], 1; griddepcontrol.wait;", "griddepcontrol.wait;", "",
     "dependence", "has not waited", 2, 64, 0},
    {"a copy before the wait for grids",
     SHARED_PLACE "$ cp.async.ca.shared.global [%r1], [%d14], 4; cp.async.wait_all; griddepcontrol.wait;", "griddepcontrol.wait;",
     "", "dependence", "a copy of global memory", 1, 64, 0},
    {"a kernel without the wait for grids", "$", "griddepcontrol.wait;", "", "dependence", "ended and had not waited", 1, 32, 0},
    {"threads that end without the wait for grids", "setp.lt.u32 %p0, %r31, $; @%p0 griddepcontrol.wait;", "64", "40",
     "dependence", "ended and had not waited", 2, 64, 0},
    {"a wait for grids of some blocks", "mov.u32 %r1, %ctaid.x; setp.le.u32 %p0, %r1, $; @%p0 griddepcontrol.wait;", "1", "0",
     "dependence", "ended and had not waited", 2, 32, 0},
    {"a load by .nc after the wait for grids", "griddepcontrol.wait; ld.global$.f32 %f0, [%d14]; st.global.f32 [%d15], %f0;", "",
     ".nc", "dependence", "ld.global.nc", 1, 32, 0},
};

static void print_grids(void)
{
    add(".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry first(.param .u64 a, .param .u64 b, .param .u64 w)\n{\ngriddepcontrol.wait;\ngriddepcontrol.launch_dependents;\nret;\n}\n");
    print_list(GRIDS, COUNT(GRIDS));
}

/* an ordinary launch is as good as one that waits; then in a stream, and in a graph */
static void run_grids(int wrong)
{
    char kernel[20];
    void **parameters = PARAMETERS(&gpu[0].a, &gpu[0].b, &gpu[0].w);
    CUstream s = gpu[0].stream[0];
    CUgraph graph;
    CUgraphExec exec;
    snprintf(kernel, sizeof kernel, "%s%d", wrong ? "wrong" : "right", (int)(now - GRIDS));
    MUST(try_launch(0, s, kernel, now->blocks, now->threads, 0, parameters));
    MUST(cu->stream_synchronize(s));
    if (violation(0))
        printf("reported of an ordinary launch\n");
    MUST(cu->stream_begin_capture(s, CU_STREAM_CAPTURE_MODE_RELAXED));
    MUST(try_launch(0, s, "first", 2, 32, 0, parameters));
    MUST(try_launch_early(s, kernel, now->blocks, now->threads, parameters));
    MUST(try_launch_early(s, "first", 2, 32, parameters));
    MUST(cu->stream_end_capture(s, &graph));
    MUST(cu->graph_instantiate(&exec, graph, 0));
    MUST(cu->graph_launch(exec, s));
    MUST(cu->stream_synchronize(s));
}

/* ---- what is refused when it is loaded */

static const struct {
    const char *name, *head, *body;
    int status;
    const char *log;
} REFUSED[] = {
    {"an instruction that is not known", NULL, ".reg .b32 %r<2>;\nadd.s32 %r0, 1, 2;\nfrobnicate.sync.b32 %r1, %r0;\n",
     CUDA_ERROR_INVALID_PTX, "line 8 of the PTX: the instruction frobnicate.sync.b32 is not known"},
    {"a form that is not known", NULL, ".reg .f32 %f<2>;\ndiv.rz.f32 %f0, 0f3F800000, 0f3F800000;\n", CUDA_ERROR_INVALID_PTX,
     "line 7 of the PTX: the instruction div.rz.f32 is not known"},
    {"a type that does not suit", NULL, ".reg .b16 %h<2>;\nadd.s32 %h0, 1, 2;\n", CUDA_ERROR_INVALID_PTX,
     "line 7 of the PTX: add.s32: '%h0' has another type"},
    {"a name that is not declared", NULL, ".reg .b32 %r<2>;\nadd.s32 %r0, %r1, %r2;\n", CUDA_ERROR_INVALID_PTX,
     "line 7 of the PTX: add.s32: '%r2' is not declared"},
    {"a load from another space", NULL, ".reg .b32 %r<2>;\n.shared .b32 x;\nld.global.u32 %r0, [x];\n", CUDA_ERROR_INVALID_PTX,
     "'x' is in another space"},
    {"too much static shared memory", NULL, ".reg .b32 %r<2>;\n.shared .b8 x[49153];\nmov.u32 %r0, x;\n", CUDA_ERROR_INVALID_PTX,
     "49153 bytes of static shared memory"},
    {"a matrix with a register too few", NULL,
     ".reg .b32 %r<9>;\n.reg .f32 %f<4>;\nmma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%f0, %f1, %f2, %f3}, {%r0, %r1, %r2}, {%r4, %r5}, {%f0, %f1, %f2, %f3};\n",
     CUDA_ERROR_INVALID_PTX, "a fragment has another number of registers"},
    {"a wait for grids on an older GPU", NULL, "griddepcontrol.wait;\n", CUDA_ERROR_INVALID_PTX,
     "line 6 of the PTX: griddepcontrol.wait: is there from sm_90 on"},
    {"text that ends", NULL, ".reg .b32 %r<2>;\nadd.s32 %r0, 1", CUDA_ERROR_INVALID_PTX, "line"},
    {"a newer GPU's", ".version 8.0\n.target sm_90\n.address_size 64\n", "", CUDA_ERROR_INVALID_PTX,
     "does not run on a GPU of compute capability 8.0"},
    {"another GPU's own", ".version 8.0\n.target sm_75a\n.address_size 64\n", "", CUDA_ERROR_INVALID_PTX,
     "PTX for sm_75a does not run"},
    {"a newer CUDA's", ".version 9.9\n.target sm_80\n.address_size 64\n", "", CUDA_ERROR_UNSUPPORTED_PTX_VERSION,
     "PTX of version 9.9"},
};

static void refuse(int number)
{
    char log[400] = "";
    CUmodule module;
    int option[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    void *value[] = {log, (void *)(uintptr_t)sizeof log};
    add("%s.visible .entry k()\n{\n%s", REFUSED[number].head ? REFUSED[number].head : HEAD, REFUSED[number].body);
    if (number != 8)
        add("ret;\n}\n");
    CUresult r = cu->module_load_data(&module, text, 2, option, value);
    if (r != REFUSED[number].status || !strstr(log, REFUSED[number].log))
        printf("status %d: %s\n", r, log);
}

/* .maxntid 64, 2: "exceeding the maximum number of threads results in a runtime error or kernel launch failure" */
static void bound_threads(int unused)
{
    CUfunction f;
    int most = 0;
    (void)unused;
    MUST(cu->module_get_function(&f, gpu[0].module, "bounded"));
    MUST(cu->func_get_attribute(&most, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, f));
    CUresult within = try_launch(0, gpu[0].stream[0], "bounded", 1, 128, 0, NULL),
             beyond = try_launch(0, gpu[0].stream[0], "bounded", 1, 129, 0, NULL);
    if (most != 128 || within || beyond != CUDA_ERROR_INVALID_VALUE)
        printf("%d threads at most, status %d and %d\n", most, within, beyond);
}

/* ---- what is counted (tests/vgpu/count.c): a block of two warps, by hand */

static const struct {
    const char *name, *body;
    int rows;
    struct {
        int requests, lanes, bytes, units, least;
    } of[2]; /* loads before stores */
} COUNTED[] = {
    {"stores of 16 bytes in a row",
     "again: st.shared.v4.f32 [%r1], {%f0, %f0, %f0, %f0}; add.u32 %r1, %r1, 1024; add.u32 %r2, %r2, 1; setp.lt.u32 %p0, %r2, 8; @%p0 bra again;",
     1,
     {{16, 512, 8192, 64, 64}}},
    {"a row of f32", "ld.global.f32 %f1, [%d1];", 1, {{2, 64, 256, 8, 8}}},
    {"one sector for each lane",
     "mul.wide.u32 %d2, %r31, 64; add.s64 %d2, %d2, %d14; ld.global.f32 %f1, [%d2];",
     1,
     {{2, 64, 256, 64, 8}}},
    {"16 bytes a lane", "ld.global.nc.v4.f32 {%f1, %f2, %f3, %f4}, [%d3];", 1, {{2, 64, 1024, 32, 32}}},
    {"a row that begins within a sector", "ld.global.f32 %f1, [%d1+4];", 1, {{2, 64, 256, 10, 8}}},
    {"every other lane, of one number", "@%p1 ld.global.f32 %f1, [%d14];", 1, {{2, 32, 128, 2, 2}}},
    {"a word for each bank", "ld.shared.f32 %f1, [%r3];", 1, {{2, 64, 256, 2, 2}}},
    {"words of one bank", "ld.shared.f32 %f1, [%r4];", 1, {{2, 64, 256, 64, 2}}},
    {"one word", "ld.shared.f32 %f1, [room];", 1, {{2, 64, 256, 2, 2}}},
    {"16 bytes a lane in a row", "ld.shared.v4.f32 {%f1, %f2, %f3, %f4}, [%r5];", 1, {{2, 64, 1024, 8, 8}}},
    {"16 bytes of every 32", "ld.shared.v4.f32 {%f1, %f2, %f3, %f4}, [%r6];", 1, {{2, 64, 1024, 16, 8}}},
    {"8 bytes of every 16", "ld.shared.v2.f32 {%f1, %f2}, [%r5];", 1, {{2, 64, 512, 8, 4}}},
    {"four matrices, rows without a gap",
     "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r10, %r11, %r12, %r13}, [%r5];",
     1,
     {{2, 64, 1024, 8, 8}}},
    {"two matrices, rows in the same banks",
     "ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%r10, %r11}, [%r4];",
     1,
     {{2, 64, 512, 32, 4}}},
    {"a loop that half of the lanes leave",
     "more: ld.global.f32 %f1, [%d1]; add.s64 %d1, %d1, 256; add.u32 %r7, %r7, 1; setp.lt.u32 %p0, %r7, %r8; @%p0 bra more;",
     1,
     {{6, 160, 640, 20, 20}}},
    {"copies, most of zeros",
     "cp.async.cg.shared.global [%r5], [%d3], 16, %r9; cp.async.wait_all;",
     2,
     {{2, 64, 256, 8, 8}, {2, 64, 1024, 8, 8}}},
};
enum { COUNTED_SECTORS = 80 /* of `a`: 32 by 16 bytes a lane, 48 of the others by one sector for each lane */ };

static void print_counted(void)
{
    add(".visible .entry counted(.param .u64 a, .param .u64 b)\n{\n.shared .align 128 .b8 room[8192];\n%s", REGISTERS);
    add("mov.u32 %%r31, %%tid.x; and.b32 %%r30, %%r31, 31; ld.param.u64 %%d14, [a]; mul.wide.u32 %%d1, %%r31, 4; add.s64 %%d1, %%d1, %%d14;\n"
        "mul.wide.u32 %%d3, %%r31, 16; add.s64 %%d3, %%d3, %%d14; mov.f32 %%f0, 0f00000000; mov.u32 %%r0, room; mov.u32 %%r2, 0; mov.u32 %%r7, 0;\n"
        "mad.lo.u32 %%r1, %%r31, 16, %%r0; mad.lo.u32 %%r3, %%r31, 4, %%r0; mad.lo.u32 %%r4, %%r31, 128, %%r0; mov.u32 %%r5, %%r1; mad.lo.u32 %%r6, %%r31, 32, %%r0;\n"
        "and.b32 %%r20, %%r31, 1; setp.eq.u32 %%p1, %%r20, 0; setp.lt.u32 %%p2, %%r30, 16; selp.u32 %%r8, 3, 2, %%p2; setp.lt.u32 %%p3, %%r31, 16; selp.u32 %%r9, 16, 0, %%p3;\n");
    for (int k = 0; k < COUNT(COUNTED); k++)
        add("%s\nbar.sync 0;\n", COUNTED[k].body);
    add("ret;\n}\n");
}

/* three launches of three blocks */
static void run_counted(int unused)
{
    (void)unused;
    for (int k = 0; k < 3; k++)
        MUST(try_launch(0, gpu[0].stream[0], "counted", 3, 64, 0, PARAMETERS(&gpu[0].a, &gpu[0].b)));
    finish(0);
    if (!violation(0))
        exit(0); /* the counts are written */
}

/* times: how often a block ran */
static void compare_counts(const char *blocks, int times, bool touched)
{
    char path[300], report[REPORT], why[REPORT + 200] = "", word[3][20];
    int line;
    long long n[5];
    snprintf(path, sizeof path, "%s/counts", scratch);
    setenv("MGPU_VGPU_COUNT", path, 1);
    setenv("MGPU_VGPU_BLOCKS", blocks, 1);
    int status = in_process(MACHINE, 3, "ptx", run_counted, 0, report);
    unsetenv("MGPU_VGPU_COUNT");
    FILE *f = fopen(path, "r");
    if (status || *report || !f || fscanf(f, "%*[^\n]") != 0)
        snprintf(why, sizeof why, "status %d: %s", status, report);
    else if (touched && (fscanf(f, "%19s %*s %d %19s %19s %lld %lld %lld %lld %lld", word[0], &line, word[1], word[2], &n[0],
                                &n[1], &n[2], &n[3], &n[4]) != 9 ||
                         n[3] != COUNTED_SECTORS))
        snprintf(why, sizeof why, "%lld sectors are touched, not %d", n[3], COUNTED_SECTORS);
    for (int k = 0; k < COUNT(COUNTED) && !*why; k++)
        for (int i = 0; i < COUNTED[k].rows && !*why; i++) {
            int expected[] = {COUNTED[k].of[i].requests, COUNTED[k].of[i].lanes, COUNTED[k].of[i].bytes, COUNTED[k].of[i].units,
                              COUNTED[k].of[i].least};
            if (fscanf(f, "%19s %*s %d %19s %19s %lld %lld %lld %lld %lld", word[0], &line, word[1], word[2], &n[0], &n[1], &n[2],
                       &n[3], &n[4]) != 9)
                snprintf(why, sizeof why, "%s is missing", COUNTED[k].name);
            for (int j = 0; j < 5 && !*why; j++)
                if (n[j] != (long long)times * expected[j])
                    snprintf(why, sizeof why, "%s: number %d is %lld, not %d times %d", COUNTED[k].name, j, n[j], times,
                             expected[j]);
        }
    if (f)
        fclose(f);
    char title[100];
    snprintf(title, sizeof title, "what is counted, %s blocks", blocks);
    result(!*why, title, why);
}

/* ---- all of it */

static void scenario(const char *name, Scenario *run, int number)
{
    char report[REPORT] = "", title[200];
    int status = 0;
    for (uint64_t seed = 1; seed <= 2 && !status && !*report; seed++)
        status = in_process(MACHINE, seed, "ptx", run, number, report);
    if (status && !*report)
        snprintf(report, sizeof report, "status %d", status);
    snprintf(title, sizeof title, "%s", name);
    result(!status && !*report, title, report);
}

int main(void)
{
    const char *folder = getenv("TMPDIR");
    snprintf(scratch, sizeof scratch, "%s/ptx_test.XXXXXX", folder ? folder : "/tmp");
    const char *quick = getenv("QUICK_CC"), *full = getenv("MGPU_FULL");
    if (!mkdtemp(scratch))
        return 3;
    if (quick && *quick && !(full && *full)) /* for the translated kernels */
        setenv("CC", quick, 1);
    print_values();
    print_matrices();
    print_products();
    print_warps();
    print_list(PLANTED, COUNT(PLANTED));
    print_counted();
    for (int c = 0; c < 3; c++)
        add(".visible .entry %s(.param .u64 a, .param .u64 b)\n{\n%smov.u32 %%r0, %%ctaid.x;\nmov.u32 %%r1, %%tid.x;\nmad.lo.u32 %%r0, %%r0, 64, %%r1;\nmul.wide.u32 %%d0, %%r0, 4;\nld.param.u64 %%d1, [b];\n"
            "add.s64 %%d1, %%d1, %%d0;\ncvt.rn.f32.u32 %%f0, %%r0;\nmul.f32 %%f0, %%f0, 0f3C800000;\n%s.approx.ftz.f32 %%f1, %%f0;\nst.global.f32 [%%d1], %%f1;\nret;\n}\n",
            (const char *[]){"ex2", "rcp", "rsqrt"}[c], REGISTERS, (const char *[]){"ex2", "rcp", "rsqrt"}[c]);
    add(".visible .entry bounded()\n.maxntid 64, 2, 1\n.minnctapersm 2\n{\nret;\n}\n");
    write_module("ptx");
    print_grids();
    write_module("grids");
    scenario("instructions", compute_values, 0);
    scenario("approximations", approximate, 0);
    scenario("threads of a block", bound_threads, 0);
    for (int k = 0; k < COUNT(SHAPES); k++)
        scenario(SHAPES[k].name, multiply, k);
    for (int k = 0; k < COUNT(WARPS); k++)
        scenario(WARPS[k].name, run_warp, k);
    for (int k = 0; k < COUNT(REFUSED); k++)
        scenario(REFUSED[k].name, refuse, k);
    compare_counts("all", 9, true);
    compare_counts("1", 2, false);
    for (int k = 0; k < COUNT(PLANTED); k++) {
        now = &PLANTED[k];
        both(now->name, MACHINE, "ptx", run_planted, now->kind, now->text);
    }
    both("a fragment from another lane", MACHINE, "ptx", multiply_shared, "", "row 0, column 0");
    count_planted(20, "in PTX");
    for (int k = 0; k < COUNT(GRIDS); k++) {
        now = &GRIDS[k];
        both(now->name, MACHINE_90, "grids", run_grids, now->kind, now->text);
    }
    count_planted(8, "in kernels that begin early");
    return failures != 0;
}
