/* wgmma_test: matrices of a warpgroup in PTX on the virtual GPU (tests/vgpu/ptx/warpgroup.h): values in each layout of shared
 * memory by the table of canonical layouts of the PTX ISA manual (9.7.15.5.1.2.1.3), fragments by its figures, planted errors
 * with a right twin each, and what is refused before it runs. */
#include "ptx_text.h"

static const char HEAD[] = ".version 8.0\n.target sm_90a\n.address_size 64\n";
static const char MACHINE[] = "driver 13.0\ncapability * 9.0";
enum { A_AT = 0, B_AT = 8192, IMAGE = 16384, MOST_N = 64 };

/* ---- layouts: an element is at the sum of its digits along mn and along k times their strides in bytes, then swizzled: bits 4
 * .. 4 + swizzle are xored with bits 7 .. 7 + swizzle. The stride -1 is LBO, -2 SBO: whatever the descriptor says */

enum { LBO = -1, SBO = -2 };
typedef struct Digit {
    int extent, stride;
} Digit;
typedef struct Layout {
    const char *name;
    bool transposed;
    int swizzle, mode /* bits 63-62 */, leading, stride;
    Digit mn[3], k[2];
} Layout;
static const Layout LAYOUTS[] = {
    /* T elements are 16 bytes: extents of 16-byte things are of bytes, for elements of 1 byte */
    {"K-major", false, 0, 0, 4096, 128, {{8, 16}, {32, SBO}}, {{16, 1}, {2, LBO}}},
    {"K-major, close rows", false, 0, 0, 128, 256, {{8, 16}, {32, SBO}}, {{16, 1}, {2, LBO}}},
    {"K-major, 32 bytes", false, 1, 3, 16, 256, {{8, 32}, {32, SBO}}, {{16, 1}, {2, 16}}},
    {"K-major, 64 bytes", false, 2, 2, 16, 512, {{8, 64}, {32, SBO}}, {{16, 1}, {2, 16}}},
    {"K-major, 128 bytes", false, 3, 1, 16, 1024, {{8, 128}, {32, SBO}}, {{16, 1}, {2, 16}}},
    {"MN-major", true, 0, 0, 1024, 128, {{16, 1}, {32, SBO}}, {{8, 16}, {2, LBO}}},
    {"MN-major, 32 bytes", true, 1, 3, 512, 256, {{32, 1}, {32, LBO}}, {{8, 32}, {2, SBO}}},
    {"MN-major, 64 bytes", true, 2, 2, 1024, 512, {{64, 1}, {32, LBO}}, {{8, 64}, {2, SBO}}},
    {"MN-major, 128 bytes", true, 3, 1, 4096, 1024, {{128, 1}, {32, LBO}}, {{8, 128}, {2, SBO}}},
};

static uint32_t place(const Layout *l, uint32_t first, int bytes, int mn, int k)
{
    int index[] = {l->transposed ? mn * bytes : mn, l->transposed ? k : k * bytes};
    uint32_t at = first;
    for (int side = 0; side < 2; side++) {
        const Digit *d = side ? l->k : l->mn;
        for (int i = 0; i < 2; i++) {
            int stride = d[i].stride == LBO ? l->leading : d[i].stride == SBO ? l->stride : d[i].stride;
            at += (uint32_t)(index[side] % d[i].extent * stride);
            index[side] /= d[i].extent;
        }
    }
    for (int bit = 0; bit < l->swizzle; bit++)
        at ^= (at >> (7 + bit) & 1u) << (4 + bit);
    return at;
}

static uint64_t descriptor(const Layout *l, uint32_t first)
{
    return (uint64_t)((first & 0x3FFFF) >> 4) | (uint64_t)(l->leading >> 4) << 16 | (uint64_t)(l->stride >> 4) << 32 |
           (uint64_t)l->mode << 62;
}

/* ---- cases */

typedef struct Case {
    const char *type;
    int n, a, b /* layouts; a: -1: in registers */;
    bool adds;
    int scale_a, scale_b;
} Case;
static const Case CASES[] = {
    {"bf16", 64, 0, 0, true, 1, 1},   {"bf16", 8, 1, 1, true, 1, 1},   {"f16", 24, 2, 2, true, -1, 1},
    {"bf16", 64, 3, 3, false, 1, 1},  {"f16", 64, 4, 4, true, 1, -1},  {"bf16", 64, 5, 5, true, 1, 1},
    {"f16", 16, 6, 6, false, 1, 1},   {"bf16", 32, 7, 7, true, 1, 1},  {"bf16", 64, 8, 8, true, -1, -1},
    {"f16", 64, 4, 8, true, 1, 1},    {"bf16", 40, 8, 4, true, 1, 1},  {"bf16", 64, -1, 4, true, 1, 1},
    {"f16", 32, -1, 8, false, -1, 1}, {"tf32", 64, 0, 0, true, 1, 1},  {"tf32", 8, 2, 3, true, -1, 1},
    {"tf32", 64, 4, 4, false, 1, 1},  {"tf32", 64, -1, 4, true, 1, 1},
};

static int bytes_of(const Case *c) { return *c->type == 't' ? 4 : 2; }
static int depth_of(const Case *c) { return 32 / bytes_of(c); }

static int value_a(int row, int k) { return (row * 7 + k * 5 + row * k) % 17 - 8; }
static int value_b(int column, int k) { return (k * 3 + column * 11 + k * column) % 15 - 7; }

static uint32_t bits_of(const Case *c, int value) /* a whole number of -8 .. 8 as an element has it */
{
    float f = (float)value;
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    if (*c->type == 't')
        return bits | 0x1FFF; /* what tf32 leaves out */
    return *c->type == 'b' ? bits >> 16
           : value == 0    ? 0
                           : (bits >> 16 & 0x8000u) | ((bits >> 23 & 255u) - 112) << 10 | (bits >> 13 & 0x3FFu);
}

/* what all kernels here begin with: 16 KiB from `in` to shared memory, by 128 threads */
static const char BEGIN[] =
    ".reg .pred %p<8>; .reg .b32 %r<64>; .reg .b64 %d<16>; .reg .f32 %f<80>;\nmov.u32 %r31, %tid.x; and.b32 %r29, %r31, 127; mul.wide.u32 %d0, %r29, 16; ld.param.u64 %d1, [in]; add.s64 %d1, %d1, %d0;\n"
    "shl.b32 %r30, %r29, 4; mov.u32 %r0, room; add.u32 %r30, %r30, %r0; setp.eq.u32 %p0, %r31, %r31;\n";
static const char COPY[] =
    "{ .reg .u32 %c<4>; mov.u32 %c0, 0; AGAIN: ld.global.v4.u32 {%r20, %r21, %r22, %r23}, [%d1]; st.shared.v4.u32 [%r30], {%r20, %r21, %r22, %r23}; add.s64 %d1, %d1, 2048;\n"
    "add.u32 %r30, %r30, 2048; add.u32 %c0, %c0, 1; setp.lt.u32 %p1, %c0, 8; @%p1 bra AGAIN; }\n";

static void print_registers(const char *name, int first, int count)
{
    for (int i = 0; i < count; i++)
        add("%s%s%d", i ? ", " : "{", name, first + i);
    add("}");
}

static void print_wgmma(const Case *c)
{
    add("wgmma.mma_async.sync.aligned.m64n%dk%d.f32.%s.%s ", c->n, depth_of(c), c->type, c->type);
    print_registers("%f", 0, c->n / 2);
    if (c->a < 0) {
        add(", ");
        print_registers("%r", 40, 4);
    } else
        add(", %%d8");
    add(", %%d9, %%p0, %d, %d", c->scale_a, c->scale_b);
    if (*c->type != 't' && c->a >= 0)
        add(", %d", LAYOUTS[c->a].transposed);
    if (*c->type != 't')
        add(", %d", LAYOUTS[c->b].transposed);
    add(";\n");
}

/* D begins as 1, 2, .. in each thread's registers, and goes to out[thread][i] */
static void print_case(int number)
{
    const Case *c = &CASES[number];
    add(".visible .entry case%d(.param .u64 in, .param .u64 out)\n{\n.shared .align 1024 .b8 room[%d];\n%s%sfence.proxy.async.shared::cta;\nbar.sync 0;\n",
        number, IMAGE, BEGIN, COPY);
    add("mov.u64 %%d8, 0x%llx;\nmov.u64 %%d9, 0x%llx;\n", c->a < 0 ? 0ull : (unsigned long long)descriptor(&LAYOUTS[c->a], A_AT),
        (unsigned long long)descriptor(&LAYOUTS[c->b], B_AT));
    if (c->a < 0)
        add("mul.wide.u32 %%d0, %%r31, 16; ld.param.u64 %%d1, [in]; add.s64 %%d1, %%d1, %%d0; ld.global.v4.u32 {%%r40, %%r41, %%r42, %%r43}, [%%d1];\n");
    for (int i = 0; i < c->n / 2; i++)
        add("mov.b32 %%r1, %d; cvt.rn.f32.u32 %%f%d, %%r1;\n", i + 1, i);
    add("setp.%s.u32 %%p0, %%r31, %%r31;\nwgmma.fence.sync.aligned;\n", c->adds ? "eq" : "ne");
    print_wgmma(c);
    add("wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;\nld.param.u64 %%d1, [out]; mul.wide.u32 %%d0, %%r31, %d; add.s64 %%d1, %%d1, %%d0;\n",
        2 * c->n);
    for (int i = 0; i < c->n / 2; i++)
        add("st.global.f32 [%%d1+%d], %%f%d;\n", 4 * i, i);
    add("ret;\n}\n");
}

static void run_case(int number)
{
    const Case *c = &CASES[number];
    static uint8_t image[IMAGE];
    static float out[128 * MOST_N / 2];
    char kernel[20];
    int bytes = bytes_of(c), depth = depth_of(c);
    memset(image, 255, sizeof image);
    for (int k = 0; k < depth; k++) {
        for (int row = 0; row < 64; row++) {
            uint32_t bits = bits_of(c, value_a(row, k)), at = c->a < 0 ? 0 : place(&LAYOUTS[c->a], A_AT, bytes, row, k);
            /* lane 4 g + t of warp w: rows 16 w + g and 8 more, k of 2 t, 2 t + 1 and 8 more; tf32: t and 4 more */
            if (c->a < 0) {
                int t = bytes == 4 ? k % 4 : k % 8 / 2, r = row % 16 / 8 + (k >= depth / 2 ? 2 : 0);
                at = (uint32_t)(((row / 16 * 32 + row % 8 * 4 + t) * 4 + r) * 4 + (bytes == 2 ? k % 2 * 2 : 0));
            }
            memcpy(image + at, &bits, (size_t)bytes);
        }
        for (int column = 0; column < c->n; column++) {
            uint32_t bits = bits_of(c, value_b(column, k));
            memcpy(image + place(&LAYOUTS[c->b], B_AT, bytes, column, k), &bits, (size_t)bytes);
        }
    }
    snprintf(kernel, sizeof kernel, "case%d", number);
    MUST(cu->memcpy_htod_async(gpu[0].a, image, sizeof image, gpu[0].stream[0]));
    LAUNCH(0, 0, kernel, 1, 128, 0, &gpu[0].a, &gpu[0].b);
    download(0, out, gpu[0].b, 64 * c->n);
    for (int thread = 0; thread < 128; thread++)
        for (int i = 0; i < c->n / 2; i++) {
            int row = thread / 32 * 16 + thread % 32 / 4 + (i / 2 % 2) * 8, column = i / 4 * 8 + thread % 4 * 2 + i % 2;
            float sum = c->adds ? (float)(i + 1) : 0, got = out[thread * c->n / 2 + i];
            for (int k = 0; k < depth; k++)
                sum += (float)(c->scale_a * value_a(row, k) * c->scale_b * value_b(column, k));
            if (got != sum) {
                printf("thread %d, d%d: %g, not %g\n", thread, i, (double)got, (double)sum);
                return;
            }
        }
}

/* ---- planted errors. Shared memory is set, and A is in registers or by %d8, B by %d9. `$` is what differs */

typedef struct Planted {
    const char *name, *body, *right, *wrong, *kind, *text;
} Planted;
#define SET                                                                                                                      \
    "mov.f32 %f0, 0f00000000; mov.f32 %f1, %f0; mov.f32 %f2, %f0; mov.f32 %f3, %f0; mov.u32 %r40, 0; mov.u32 %r41, 0; mov.u32 %r42, 0; mov.u32 %r43, 0; "
#define FENCE "wgmma.fence.sync.aligned; "
#define MULTIPLY "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%f0, %f1, %f2, %f3}, %d8, %d9, %p0, 1, 1, 0, 0; "
#define FROM_REGISTERS                                                                                                           \
    "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%f0, %f1, %f2, %f3}, {%r40, %r41, %r42, %r43}, %d9, %p0, 1, 1, 0; "
#define COMMIT "wgmma.commit_group.sync.aligned; "
#define WAIT "wgmma.wait_group.sync.aligned 0; "
#define READY "fence.proxy.async; bar.sync 0; "
static const Planted PLANTED[] = {
    {"no wgmma.fence", READY SET "$ " MULTIPLY COMMIT WAIT, FENCE, "", "wgmma", "since the last wgmma.fence"},
    {"an accumulator is set after wgmma.fence", READY SET FENCE "$ " MULTIPLY COMMIT WAIT, "", "mov.f32 %f2, 0f3F800000;",
     "wgmma", "since the last wgmma.fence"},
    {"an accumulator is read between two products",
     READY SET FENCE MULTIPLY COMMIT WAIT "add.f32 %f4, %f1, %f1; $ " MULTIPLY COMMIT WAIT, FENCE, "", "wgmma",
     "since the last wgmma.fence"},
    {"an accumulator is read too early", READY SET FENCE MULTIPLY COMMIT "$ add.f32 %f4, %f3, %f3; " WAIT, WAIT, "", "wgmma",
     "that nobody has waited for"},
    {"a product of the last group is read",
     READY SET FENCE MULTIPLY COMMIT MULTIPLY COMMIT "wgmma.wait_group.sync.aligned $; add.f32 %f4, %f3, %f3; " WAIT, "0", "1",
     "wgmma", "that nobody has waited for"},
    {"an accumulator is written in flight", READY SET FENCE MULTIPLY "$ " COMMIT WAIT, "", "mov.f32 %f1, 0f3F800000;", "wgmma",
     "an accumulator was written"},
    {"other accumulators in flight",
     READY SET FENCE MULTIPLY COMMIT
     "$ " FENCE
     "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%f0, %f1, %f3, %f2}, %d8, %d9, %p0, 1, 1, 0, 0; " COMMIT WAIT,
     WAIT, "", "wgmma", "in another shape"},
    {"a register of A is written in flight", READY SET FENCE FROM_REGISTERS "$ " COMMIT WAIT, "", "mov.u32 %r42, 1;", "wgmma",
     "register of A was written"},
    {"a register of A is set after wgmma.fence", READY SET FENCE "$ " FROM_REGISTERS COMMIT WAIT, "", "mov.u32 %r42, 1;", "wgmma",
     "register of A was read or written"},
    {"a register of A that nobody set",
     READY
     "mov.f32 %f0, 0f00000000; mov.f32 %f1, %f0; mov.f32 %f2, %f0; mov.f32 %f3, %f0; mov.u32 %r40, 0; mov.u32 %r41, 0; $ mov.u32 %r43, 0; " FENCE
         FROM_REGISTERS COMMIT WAIT,
     "mov.u32 %r42, 0;", "", "uninitialised", "a register of A"},
    {"an accumulator that nobody set",
     READY "mov.f32 %f0, 0f00000000; mov.f32 %f1, %f0; mov.f32 %f2, %f0; $ " FENCE MULTIPLY COMMIT WAIT, "mov.f32 %f3, %f0;", "",
     "uninitialised", "an accumulator"},
    {"no fence.proxy.async", "$ bar.sync 0; " SET FENCE MULTIPLY COMMIT WAIT, "fence.proxy.async;", "", "proxy",
     "fence.proxy.async"},
    {"a store after fence.proxy.async", "fence.proxy.async; $ bar.sync 0; " SET FENCE MULTIPLY COMMIT WAIT, "",
     "add.u32 %r1, %r30, -16384; st.shared.u32 [%r1], 0;", "proxy", "fence.proxy.async"},
    {"no barrier before it", "fence.proxy.async; $ " SET FENCE MULTIPLY COMMIT WAIT, "bar.sync 0;", "", "", ""},
    {"no barrier before the next store",
     READY SET FENCE MULTIPLY COMMIT WAIT "$ add.u32 %r1, %r30, -16384; st.shared.u32 [%r1], 1;", "bar.sync 0;", "", "barrier",
     "has read it"},
    {"a store while it is in flight",
     READY SET FENCE MULTIPLY COMMIT
     "bar.sync 0; $ add.u32 %r1, %r30, -16384; mov.u32 %r2, 0xFFFFFFFF; st.shared.u32 [%r1], %r2; bar.sync 0; " WAIT,
     "wgmma.wait_group.sync.aligned 0; bar.sync 0;", "", "wgmma", "written while it was in flight"},
    {"nobody waits", READY SET FENCE MULTIPLY COMMIT "$", WAIT, "", "wgmma", "had not waited"},
    {"it belongs to no group", READY SET FENCE MULTIPLY "$ " WAIT, COMMIT, "", "wgmma", "had not waited"},
    {"a matrix outside shared memory", READY SET "$ " FENCE MULTIPLY COMMIT WAIT, "", "mov.u64 %d9, 0x0000000800400400;",
     "bounds", "outside"},
    {"a matrix that nobody set", "$ fence.proxy.async; bar.sync 0; " SET FENCE MULTIPLY COMMIT WAIT, "",
     "mov.u64 %d9, 0x0000000800100400;", "uninitialised", "no thread of this block"},
    {"bits of a descriptor that mean nothing", READY SET "$ " FENCE MULTIPLY COMMIT WAIT, "", "or.b64 %d9, %d9, 0x4000;",
     "alignment", "mean nothing"},
    {"a base offset", READY SET "$ " FENCE MULTIPLY COMMIT WAIT, "", "or.b64 %d9, %d9, 0x0002000000000000;", "alignment",
     "base offset"},
    {"a warp that does not come", READY SET "setp.lt.u32 %p2, %r31, $; " FENCE "@%p2 " MULTIPLY COMMIT WAIT, "128", "96", "lanes",
     "warpgroup"},
    {"another instruction for one warp",
     READY SET "setp.lt.u32 %p2, %r31, $; " FENCE "@!%p2 bra OTHER; " MULTIPLY "bra END;\nOTHER: " MULTIPLY "END: " COMMIT WAIT,
     "128", "96", "lanes", "different instructions"},
    {"descriptors that differ", READY SET "setp.lt.u32 %p2, %r31, $; @!%p2 add.s64 %d9, %d9, 16; " FENCE MULTIPLY COMMIT WAIT,
     "128", "127", "lanes", "different matrix descriptors"},
    {"scale-d that differs", READY SET "setp.lt.u32 %p0, %r31, $; " FENCE MULTIPLY COMMIT WAIT, "128", "64", "lanes",
     "different matrix descriptors"},
};

static void print_planted(void)
{
    for (int k = 0; k < COUNT(PLANTED); k++)
        for (int wrong = 0; wrong < 2; wrong++) {
            const Planted *p = &PLANTED[k];
            const char *at = strchr(p->body, '$');
            bool part = strcmp(p->name, "a matrix that nobody set") == 0;
            add(".visible .entry %s%d(.param .u64 in)\n{\n.shared .align 1024 .b8 room[%d];\n%s%s", wrong ? "wrong" : "right", k,
                IMAGE + (part ? 1024 : 0), BEGIN, COPY);
            add("mov.u64 %%d8, 0x%llx;\nmov.u64 %%d9, 0x%llx;\n%.*s%s%s\nret;\n}\n",
                (unsigned long long)descriptor(&LAYOUTS[4], A_AT), (unsigned long long)descriptor(&LAYOUTS[4], B_AT),
                (int)(at - p->body), p->body, wrong ? p->wrong : p->right, at + 1);
        }
    add(".visible .entry few(.param .u64 in)\n{\n.shared .align 1024 .b8 room[%d];\n%s%smov.u64 %%d8, 0; mov.u64 %%d9, 0; %sret;\n}\n",
        IMAGE, BEGIN, COPY, READY SET FENCE MULTIPLY COMMIT WAIT);
}

static const Planted *now;
static void run_planted(int wrong)
{
    char kernel[20];
    snprintf(kernel, sizeof kernel, "%s%d", wrong ? "wrong" : "right", (int)(now - PLANTED));
    MUST(try_launch(0, gpu[0].stream[0], kernel, 1, 128, 0, PARAMETERS(&gpu[0].a)));
}

/* a block of three warps; its twin has four */
static void run_few(int wrong)
{
    MUST(try_launch(0, gpu[0].stream[0], wrong ? "few" : "right0", 1, wrong ? 96 : 128, 0, PARAMETERS(&gpu[0].a)));
}

/* ---- what is refused when it is loaded */

static const struct {
    const char *name, *target, *body, *log;
} REFUSED[] = {
    {"an accumulator too few", "90a",
     "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%f0, %f1, %f2}, %d0, %d1, 1, 1, 1, 0, 0;",
     "another number of registers"},
    {"an accumulator twice", "90a",
     "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%f0, %f1, %f2, %f1}, %d0, %d1, 1, 1, 1, 0, 0;",
     "a register is there twice"},
    {"12 columns", "90a",
     "wgmma.mma_async.sync.aligned.m64n12k16.f32.bf16.bf16 {%f0, %f1, %f2, %f3, %f4, %f5}, %d0, %d1, 1, 1, 1, 0, 0;",
     "is not known"},
    {"264 columns", "90a", "wgmma.mma_async.sync.aligned.m64n264k16.f32.bf16.bf16 {%f0}, %d0, %d1, 1, 1, 1, 0, 0;",
     "is not known"},
    {"another depth", "90a", "wgmma.mma_async.sync.aligned.m64n8k8.f32.bf16.bf16 {%f0, %f1, %f2, %f3}, %d0, %d1, 1, 1, 1, 0, 0;",
     "is not known"},
    {"tf32 transposed", "90a",
     "wgmma.mma_async.sync.aligned.m64n8k8.f32.tf32.tf32 {%f0, %f1, %f2, %f3}, %d0, %d1, 1, 1, 1, 1, 0;",
     "the number of its operands"},
    {"A in registers, transposed", "90a",
     "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f0, %f1, %f2, %f3}, {%r0, %r1, %r2, %r3}, %d1, 1, 1, 1, 1, 0;",
     "the number of its operands"},
    {"a scale of 2", "90a", "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f0, %f1, %f2, %f3}, %d0, %d1, 1, 2, 1, 0, 0;",
     "the immediate operands are 1 or -1"},
    {"a GPU without", "90", "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f0, %f1, %f2, %f3}, %d0, %d1, 1, 1, 1, 0, 0;",
     "requires sm_90a"},
    {"a fence for a GPU without", "90", "wgmma.fence.sync.aligned;", "requires sm_90a"},
};

static void refuse(int number)
{
    char log[400] = "";
    CUmodule module;
    int option[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    void *value[] = {log, (void *)(uintptr_t)sizeof log};
    add(".version 8.0\n.target sm_%s\n.address_size 64\n.visible .entry k()\n{\n.reg .f32 %%f<8>; .reg .b32 %%r<8>; .reg .b64 %%d<2>;\n%s\nret;\n}\n",
        REFUSED[number].target, REFUSED[number].body);
    CUresult r = cu->module_load_data(&module, text, 2, option, value);
    if (r != CUDA_ERROR_INVALID_PTX || !strstr(log, REFUSED[number].log))
        printf("status %d: %s\n", r, log);
}

/* ---- all of it */

static void scenario(const char *name, Scenario *run, int number)
{
    char report[REPORT] = "";
    int status = 0;
    for (uint64_t seed = 1; seed <= 2 && !status && !*report; seed++)
        status = in_process(MACHINE, seed, "ptx", run, number, report);
    if (status && !*report)
        snprintf(report, sizeof report, "status %d", status);
    result(!status && !*report, name, report);
}

int main(void)
{
    const char *folder = getenv("TMPDIR"), *quick = getenv("QUICK_CC"), *full = getenv("MGPU_FULL");
    snprintf(scratch, sizeof scratch, "%s/wgmma_test.XXXXXX", folder ? folder : "/tmp");
    if (!mkdtemp(scratch))
        return 3;
    if (quick && *quick && !(full && *full)) /* for the translated kernels */
        setenv("CC", quick, 1);
    add("%s", HEAD);
    for (int k = 0; k < COUNT(CASES); k++)
        print_case(k);
    print_planted();
    write_module("ptx");
    for (int k = 0; k < COUNT(CASES); k++) {
        char name[120];
        snprintf(name, sizeof name, "%s, %d columns, A %s, B %s", CASES[k].type, CASES[k].n,
                 CASES[k].a < 0 ? "in registers" : LAYOUTS[CASES[k].a].name, LAYOUTS[CASES[k].b].name);
        scenario(name, run_case, k);
    }
    for (int k = 0; k < COUNT(REFUSED); k++)
        scenario(REFUSED[k].name, refuse, k);
    for (int k = 0; k < COUNT(PLANTED); k++) {
        now = &PLANTED[k];
        both(now->name, MACHINE, "ptx", run_planted, now->kind, now->text);
    }
    both("a block of three warps", MACHINE, "ptx", run_few, "lanes", "warpgroups of 128 threads");
    count_planted(27, "in PTX with wgmma");
    return failures != 0;
}
