/* rows.c: running operations and TOP_K as CUDA C.
 *
 * In: Rows (kernel/rows.c). Out: their table, and a function that passes it to mgpu_device_rows.h. A group of threads takes a
 * row: a warp if rows are short, else a block. If neighbouring rows are contiguous, a block processes several of them side by
 * side. */
#include "compiler/base/c_text.h"
#include "compiler/kernel/phase.h"
#include "compiler/loops/lower.h"
#include "compiler/target/cuda/tiles.h"

enum {
    SHORT_RUNNING = 512,
    SHORT_ROW = 1024,
    FEW = 64, /* for a warp: elements of a row, and how many of them are selected */
    LEAST_ADJACENT = 8,
    ADJACENT_ROWS = 32,
    MANY_ROWS = 64 * 1024,
    SHARED_BYTES = 64 * 1024
};

static const char *const TYPE_NAME[] = {"BOOL", "U8", "I8", "U16", "I16", "U32", "I32", "I64", "F16", "BF16", "F32", "F64"};

static int64_t power_of_2(int64_t least)
{
    int64_t power = 32;
    while (power < least)
        power *= 2;
    return power;
}

static int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }

static bool are_adjacent(const mgpu_rows *t)
{
    if (t->axes == 0)
        return t->operand_sample == 1 && t->result_sample == 1;
    const mgpu_row_axis *last = &t->axis[t->axes - 1];
    return last->operand == 1 && last->result == 1 && last->extent >= LEAST_ADJACENT;
}

static mgpu_rows_tiles tiles_of(const Rows *plan, bool in_scan)
{
    const mgpu_rows *t = rows_table(plan);
    int64_t length = t->along.extent, k = t->k;
    mgpu_rows_tiles s = {.group = MGPU_ROWS_THREADS, .beside = 1, .alone = in_scan};
    if (op_is_running(rows_operation(plan))) {
        if (are_adjacent(t))
            s.beside = !in_scan && t->rows * rows_samples(plan) >= MANY_ROWS ? MGPU_ROWS_THREADS : ADJACENT_ROWS;
        else if (length <= SHORT_RUNNING)
            s.group = 32;
        return s;
    }
    if (length <= SHORT_ROW && k <= FEW)
        s.group = 32;
    /* many are collected before they are sorted */
    s.room = power_of_2(larger(2 * k, k + s.group) + (s.group == 32 ? 32 : 512));
    if (s.room > length)
        s.room = power_of_2(length);
    if (mgpu_rows_shared_bytes(t, &s) > SHARED_BYTES) {
        s.in_workspace = true;
        s.room = power_of_2(length);
    }
    return s;
}

void cuda_launches_rows(const Rows *plan, const char *name, mgpu_launch launch[2])
{
    const mgpu_rows *t = rows_table(plan);
    const mgpu_rows_tiles s = tiles_of(plan, false);
    bool sampled = t->result_sample > 0;
    launch[0] = (mgpu_launch){.function = name,
                              .iterations = sampled ? 0 : t->rows,
                              .iterations_per_sample = sampled ? t->rows : 0,
                              .per_block = s.beside > 1 ? s.beside : MGPU_ROWS_THREADS / s.group,
                              .most = s.in_workspace ? MGPU_ROWS_BLOCKS : INT32_MAX,
                              .threads = MGPU_ROWS_THREADS,
                              .shared_bytes = (int)mgpu_rows_shared_bytes(t, &s)};
    launch[1] = (mgpu_launch){.function = NULL};
}

static int64_t workspace(const Rows *plan, bool in_scan)
{
    const mgpu_rows_tiles s = tiles_of(plan, in_scan);
    return s.in_workspace ? (in_scan ? 1 : MGPU_ROWS_BLOCKS) * s.room * mgpu_key_bytes(rows_table(plan)->type) : 0;
}

int64_t cuda_rows_workspace(const Rows *plan) { return workspace(plan, false); }
int64_t cuda_block_rows_workspace(const Rows *plan) { return workspace(plan, true); }

/* ---- text */

static const char *axis_row(const mgpu_row_axis *a)
{
    return C_ORDERED_ROW(C_NUMBER("extent", a->extent), C_NUMBER("operand", a->operand), C_NUMBER("result", a->result));
}

static void print_tables(const mgpu_rows *t, const mgpu_rows_tiles *s, const char *name, Text *text)
{
    Text axes = {0};
    for (int i = 0; i < t->axes; i++)
        text_add(&axes, "%s%s", i > 0 ? ", " : "{", axis_row(&t->axis[i]));
    text_add(text, "static __device__ constexpr mgpu_rows %s_rows =\n    %s;\n", name,
             C_ORDERED_ROW(C_TEXT("type", format("MGPU_%s", TYPE_NAME[t->type])), C_TEXT("half", half_text(t->half)),
                           C_TEXT("backwards", c_true(t->backwards)), C_TEXT("along", axis_row(&t->along)), C_NUMBER("k", t->k),
                           C_NUMBER("axes", t->axes), C_TEXT("axis", t->axes > 0 ? format("%s}", text_of(&axes)) : "{}"),
                           C_NUMBER("rows", t->rows), C_NUMBER("operand_sample", t->operand_sample),
                           C_NUMBER("result_sample", t->result_sample), C_NUMBER("by_row", 0), C_NUMBER("operand", t->operand),
                           C_NUMBER("values", t->values), C_NUMBER("places", t->places), C_NUMBER("workspace", t->workspace)));
    text_add(text, "static __device__ constexpr mgpu_rows_tiles %s_tiles = %s;\n", name,
             C_ORDERED_ROW(C_NUMBER("group", s->group), C_NUMBER("beside", s->beside), C_NUMBER("room", s->room),
                           C_TEXT("in_workspace", c_true(s->in_workspace)), C_TEXT("alone", c_true(s->alone))));
}

/* Prints the parameters. */
static void print_parameters(const Rows *plan, const mgpu_rows_tiles *s, const char *qualifier, Text *text)
{
    const mgpu_rows *t = rows_table(plan);
    bool both = t->values >= 0 && t->places >= 0, first = t->values >= 0 && (!both || t->values < t->places);
    const char *values = format("%s *%svalues, ", element_type(t->type), qualifier);
    const char *places = format("int32_t *%splaces, ", qualifier);
    uint8_t stored = t->half == MGPU_HALF_BF16 ? MGPU_BF16 : t->half == MGPU_HALF_F16 ? MGPU_F16 : t->type;
    text_add(text, "const %s *%sx, %s%s", element_type(stored), qualifier, first ? values : places,
             both ? first ? places : values : "");
    if (s->in_workspace)
        text_add(text, "char *%swork, ", qualifier);
}

static const char *pointer(const char *name, int64_t sample, bool in_scan)
{
    return in_scan && sample > 0 ? format("%s + begin * %lld", name, (long long)sample) : name;
}

static void print_call(const Rows *plan, const mgpu_rows_tiles *s, const char *name, Text *text)
{
    const mgpu_rows *t = rows_table(plan);
    const char *x = pointer("x", t->operand_sample, s->alone), *n = s->alone ? "end - begin" : "n";
    if (op_is_running(rows_operation(plan)))
        text_add(text, "    mgpu_%s<%s_rows, %s_tiles>(%s, %s, %s);\n", OP_INFO[rows_operation(plan)].name, name, name, x,
                 pointer("values", t->result_sample, s->alone), n);
    else
        text_add(text, "    mgpu_top_k<%s_rows, %s_tiles>(%s, %s, %s, %s, %s);\n", name, name, x,
                 t->values >= 0 ? pointer("values", t->result_sample, s->alone) : "nullptr",
                 t->places >= 0 ? pointer("places", t->result_sample, s->alone) : "nullptr", s->in_workspace ? "work" : "nullptr",
                 n);
}

void cuda_print_rows(const Rows *plan, const char *name, Text *text)
{
    const mgpu_rows_tiles s = tiles_of(plan, false);
    rows_print_comment(plan, text);
    print_tables(rows_table(plan), &s, name, text);
    text_add(text, "extern \"C\" __global__ void __launch_bounds__(%d) %s(", MGPU_ROWS_THREADS, name);
    print_parameters(plan, &s, "MGPU_RESTRICT ", text);
    text_add(text, "const mgpu_step *step, int64_t n)\n{\n    " CUDA_FIRST "\n");
    print_call(plan, &s, name, text);
    text_add(text, "}\nMGPU_ENTRY(%s)\n", name);
}

/* ---- in one block */

void cuda_print_block_rows(const Rows *plan, const char *name, Text *text)
{
    const mgpu_rows_tiles s = tiles_of(plan, true);
    rows_print_comment(plan, text);
    print_tables(rows_table(plan), &s, name, text);
    text_add(text, "static __device__ void %s(", name);
    print_parameters(plan, &s, "", text);
    text_add(text, "int64_t begin, int64_t end)\n{\n");
    print_call(plan, &s, name, text);
    text_add(text, "}\n");
}

int cuda_block_rows_shared_bytes(const Rows *plan)
{
    const mgpu_rows_tiles s = tiles_of(plan, true);
    return (int)mgpu_rows_shared_bytes(rows_table(plan), &s);
}
