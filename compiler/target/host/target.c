/* target.c: the host as a target: kernels are C functions that are linked with the program. */
#include "compiler/target/host/host.h"

enum { WIDEST_LANE = 32 };

static int64_t lane(int64_t extent)
{
    int64_t lane = extent <= WIDEST_LANE ? extent : WIDEST_LANE;
    while (lane > NARROWEST_LANE && extent % lane)
        lane--;
    return lane;
}

static void map_threads(Kernel *k, const Model *m, bool in_scan)
{
    (void)m;
    if (!k->scan)
        host_map_threads(k, in_scan);
}

/* ---- kinds of kernels */

static void emit_contraction(const Kernel *k, Text *t) { contraction_print(k->contraction, k->name, t); }
static void emit_attention(const Kernel *k, Text *t) { attention_print(k->attention, k->name, t); }
static void emit_rows(const Kernel *k, Text *t) { rows_print(k->rows, k->name, t); }

static int64_t bytes_of_nests(const Kernel *k, int64_t *per_sample) { return (void)per_sample, k->partial_bytes; }
static int64_t bytes_of_contraction(const Kernel *k, int64_t *per_sample)
{
    return contraction_workspace(k->contraction, per_sample);
}
static int64_t bytes_of_attention(const Kernel *k, int64_t *per_sample)
{
    return (void)per_sample, attention_workspace(k->attention);
}
static int64_t bytes_of_rows(const Kernel *k, int64_t *per_sample) { return (void)per_sample, rows_workspace(k->rows); }
static int64_t bytes_of_scan(const Kernel *k, int64_t *per_sample) { return (void)per_sample, k->scan->work_bytes; }

static const struct HostKind {
    void (*print)(const Kernel *, Text *);
    int64_t (*workspace)(const Kernel *, int64_t *per_sample);
} KIND[KERNEL_KINDS] = {
    [KERNEL_NESTS] = {nests_emit, bytes_of_nests},
    [KERNEL_CONTRACTION] = {emit_contraction, bytes_of_contraction},
    [KERNEL_ATTENTION] = {emit_attention, bytes_of_attention},
    [KERNEL_ROWS] = {emit_rows, bytes_of_rows},
    [KERNEL_SCAN] = {scan_emit, bytes_of_scan},
};

static void print(const Kernel *k, Text *t) { KIND[k->kind].print(k, t); }

static int64_t workspace(const Kernel *k, const char *archs, bool in_scan, int64_t *per_sample)
{
    (void)archs, (void)in_scan;
    return KIND[k->kind].workspace(k, per_sample);
}

static bool finishes(const Kernel *k) { return k->partial_bytes > 0; }

/* ---- link */

static double begin_unit(const UnitNeeds *needs, size_t bytes, Text *t)
{
    (void)needs;
    text_add(t, "#define MGPU_KERNELS 1\n#include \"mgpu.h\"\n");
    return 0.03 + (double)bytes * 9e-6;
}

/* Emits external names for the table of kernels, since the functions in a kernel's text are static. */
static void export_kernel(const Kernel *k, const char *name, const char *function, Text *t)
{
    text_add(t, "MGPU_EXPORT(%s, %s);\n", name, function);
    if (k->partial_bytes)
        text_add(t, "MGPU_EXPORT(%s_finish, %s_finish);\n", name, function);
    if (k->contraction)
        text_add(t, "MGPU_EXPORT_DATA(const mgpu_contraction, %s_contraction, %s_contraction);\n", name, function);
}

static void declare_kernel(const Kernel *k, const char *name, Text *t)
{
    text_add(t, "extern mgpu_kernel_function %s;\n", name);
    if (k->partial_bytes)
        text_add(t, "extern mgpu_kernel_function %s_finish;\n", name);
    if (k->contraction)
        text_add(t, "extern const struct mgpu_contraction %s_contraction;\n", name);
}

static void print_table(const Text *rows, Text *t)
{
    text_add(t, "static const mgpu_kernel mgpu_kernels[] = {\n%s    {0},\n};\n\n", text_of(rows));
}

const Target host_target = {
    .name = "host",
    .suffix = "c",
    .transfers = MGPU_IMPLEMENTATION_HOST,
    .regions = true,
    .workspace_alignment = 64,
    .flops_of_byte = FLOPS_OF_BYTE,
    .lane = lane,
    .random_in_arrays = true,
    .stores_runs = true,
    .least_group = 32, /* for vectors */
    .map_threads = map_threads,
    .workspace = workspace,
    .lower_scan = host_lower_scan,
    .lower = host_lower,
    .finishes = finishes,
    .bodies = true,
    .print = print,
    .print_all = emit_kernels,
    .begin_unit = begin_unit,
    .export = export_kernel,
    .declare = declare_kernel,
    .print_row = kernel_emit_row,
    .print_table = print_table,
};
