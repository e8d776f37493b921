/* attention.c: ATTENTION and its gradients as CUDA C.
 *
 * In: an Attention (kernel/attention.c). Out: its table, and functions that pass it to mgpu_device_attention.h: k12, and for the
 * gradients of keys and values k12_finish, which needs what k12 leaves of each query. */
#include "compiler/base/c_text.h"
#include "compiler/kernel/phase.h"
#include "compiler/machine/machine.h"
#include "compiler/target/cuda/tiles.h"

enum {
    RESULT_ELEMENTS = 128, /* of a row, in the registers of a block */
    LEAST_GROUP_ROWS = 16, /* least queries and keys for warpgroups: with fewer, most of a matrix is padding */
    /* most columns of matrices with rows in registers: mgpu_multiply_warpgroup has no variant for more, and would do nothing */
    MOST_GROUP_COLUMNS = 64
};

static uint8_t type_of(const mgpu_attention *t, const mgpu_attention_operand *o)
{
    return o->half == MGPU_HALF_BF16 ? MGPU_BF16 : o->half == MGPU_HALF_F16 ? MGPU_F16 : t->type;
}

/* Returns the width of tiles along a row: with the least padding of d and e, and the largest such width. */
static int part_of(const mgpu_attention *t, bool matrices)
{
    static const int parts[] = {64, 32, 16};
    int best = 64;
    int64_t least = INT64_MAX;
    if (!matrices)
        return t->type == MGPU_F64 ? 16 : 32;
    for (int i = 0; i < COUNT(parts); i++) {
        int64_t p = parts[i], all = (t->d + p - 1) / p * p + (t->e + p - 1) / p * p;
        if (all < least) {
            least = all;
            best = parts[i];
        }
    }
    return best;
}

static bool has_long_rows(const mgpu_attention *t) { return t->d > 64 || t->e > 64; }

enum { SHAPES = 2 };
typedef struct TileShape {
    int rows, columns, warp_rows;
} TileShape;

/* Shapes for which a block has registers, from the first one on. On an H100 blocks of 128 queries, of which fewer fit at a time,
 * took 208 us in place of 168 forward and 252 in place of 204 backward (GPT-2's, 32 x 1024 in bf16). */
static const TileShape *shapes_of(const mgpu_attention *t, bool matrices, bool tf32, int *first)
{
    static const TileShape by_matrices[SHAPES] = {{64, 64, 16}, {64, 32, 16}};
    static const TileShape numbers[SHAPES] = {{64, 32, 64}, {32, 32, 32}}, wide[SHAPES] = {{32, 16, 32}, {32, 16, 32}};
    *first = t->backward && (has_long_rows(t) || tf32); /* NVRTC 13.0 spilled registers of the larger one for sm_100 */
    return matrices ? by_matrices : t->type == MGPU_F64 ? wide : numbers;
}

static bool has_halves(const mgpu_attention *t) { return t->q.half || t->k.half || t->v.half || (t->backward && t->g.half); }

static mgpu_attention_tiles tiles_of(const Attention *plan, bool in_scan)
{
    const mgpu_attention *t = attention_table(plan);
    bool half = t->q.half != MGPU_HALF_NOT && t->k.half == t->q.half && t->v.half == t->q.half &&
                (!t->backward || t->g.half == t->q.half);
    bool tf32 = attention_is_tf32(plan) && !has_halves(t), matrices = half || tf32,
         large = t->queries >= LEAST_GROUP_ROWS && t->keys >= LEAST_GROUP_ROWS;
    int first;
    const TileShape *shape = shapes_of(t, matrices, tf32, &first);
    mgpu_attention_tiles s = {.arithmetic = matrices ? MGPU_MMA : MGPU_FMA,
                              .q = type_of(t, &t->q),
                              .k = type_of(t, &t->k),
                              .v = type_of(t, &t->v),
                              .g = type_of(t, &t->g),
                              .y = type_of(t, &t->y),
                              .dq = type_of(t, &t->dq),
                              .dk = type_of(t, &t->dk),
                              .dv = type_of(t, &t->dv),
                              .aligned = attention_is_aligned(plan) && !in_scan,
                              .part = part_of(t, matrices),
                              .resident = true,
                              .alone = in_scan};
    s.results = RESULT_ELEMENTS / s.part;
    for (s.stages = 2; s.stages > 0; s.stages--)
        for (int i = first; i < SHAPES; i++) {
            s.rows = shape[i].rows;
            s.columns = shape[i].columns;
            s.warp_rows = shape[i].warp_rows;
            s.warpgroups = large && s.columns <= MOST_GROUP_COLUMNS && mgpu_attention_may_be_by_warpgroups(&s);
            if (mgpu_attention_shared_bytes(t, &s) <= CHIP[PROCESSOR_CUDA].shared_bytes)
                return s;
        }
    s.warpgroups = false;
    s.stages = 1;
    s.resident = false;
    return s;
}

/* ---- launches */

static bool has_samples(const mgpu_attention *t)
{
    return t->q.sample > 0 || t->k.sample > 0 || t->v.sample > 0 || (t->backward && t->g.sample > 0);
}

static mgpu_launch launch_of(const mgpu_attention *t, const mgpu_attention_tiles *s, const char *name, int64_t blocks)
{
    return (mgpu_launch){.function = name,
                         .iterations = has_samples(t) ? 0 : blocks,
                         .iterations_per_sample = has_samples(t) ? blocks : 0,
                         .per_block = 1,
                         .most = INT32_MAX,
                         .threads = mgpu_attention_threads(s),
                         .shared_bytes = (int)mgpu_attention_shared_bytes(t, s)};
}

void cuda_launches_attention(const Attention *plan, const char *name, mgpu_launch launch[2])
{
    const mgpu_attention *t = attention_table(plan);
    const mgpu_attention_tiles s = tiles_of(plan, false);
    int64_t d = mgpu_attention_parts(&s, t->d), e = mgpu_attention_parts(&s, t->e);
    int64_t parts = !t->backward ? e : t->dq.argument >= 0 ? d : 1;
    launch[0] = launch_of(t, &s, name, mgpu_attention_blocks(&s, t->queries, parts) * t->heads);
    launch[1] = (mgpu_launch){.function = NULL};
    int64_t of_k = t->dk.argument >= 0 ? d : 0, of_v = t->dv.argument >= 0 ? e : 0;
    if (t->backward && of_k + of_v > 0)
        launch[1] = launch_of(t, &s, format("%s_finish", name),
                              mgpu_attention_blocks(&s, t->keys, of_k > of_v ? of_k : of_v) * t->groups);
}

int64_t cuda_attention_workspace(const Attention *plan, int64_t *per_sample)
{
    const mgpu_attention *t = attention_table(plan);
    /* an mgpu_attended_query for each */
    int64_t bytes = t->backward ? t->heads * t->queries * (t->type == MGPU_F64 ? 32 : 16) : 0;
    *per_sample = has_samples(t) ? bytes : 0;
    return has_samples(t) ? 0 : bytes;
}

/* ---- text */

static const char *type_name(uint8_t type)
{
    return type == MGPU_F64 ? "MGPU_F64" : type == MGPU_BF16 ? "MGPU_BF16" : type == MGPU_F16 ? "MGPU_F16" : "MGPU_F32";
}

static const char *c_type(uint8_t type)
{
    return type == MGPU_F64 ? "double" : type == MGPU_BF16 ? "mgpu_bf16" : type == MGPU_F16 ? "mgpu_f16" : "float";
}

static const char *operand_row(const mgpu_attention_operand *o)
{
    if (o->argument < 0)
        return C_ORDERED_ROW(C_NUMBER("argument", -1));
    return C_ORDERED_ROW(C_NUMBER("argument", o->argument), C_NUMBER("first", o->first), C_NUMBER("sample", o->sample),
                         C_NUMBER("row", o->row), C_NUMBER("head", o->head), C_TEXT("half", half_text(o->half)));
}

enum { IN_TABLE = 9 };

/* Returns the operands in the order of the table. */
static void operands_of(const mgpu_attention *t, const mgpu_attention_operand *operand[IN_TABLE])
{
    const mgpu_attention_operand *const all[IN_TABLE] = {&t->q, &t->k, &t->v, &t->g, &t->y, &t->sums, &t->dq, &t->dk, &t->dv};
    memcpy(operand, all, sizeof all);
}

#define OPERAND(name, o) C_TEXT(name, operand_row(&(o)))

static void print_table(const mgpu_attention *t, const char *name, Text *text)
{
    text_add(text, "static __device__ constexpr mgpu_attention %s_attention =\n    %s;\n", name,
             C_ORDERED_ROW(C_TEXT("type", type_name(t->type)), C_NUMBER("backward", t->backward), C_NUMBER("causal", t->causal),
                           C_NUMBER("queries", t->queries), C_NUMBER("keys", t->keys), C_NUMBER("heads", t->heads),
                           C_NUMBER("groups", t->groups), C_NUMBER("d", t->d), C_NUMBER("e", t->e), C_NUMBER("window", t->window),
                           C_TEXT("scale", format("%.17g", t->scale)), C_NUMBER("rows", 0), OPERAND("q", t->q),
                           OPERAND("k", t->k), OPERAND("v", t->v), OPERAND("g", t->g), OPERAND("y", t->y),
                           OPERAND("sums", t->sums), OPERAND("dq", t->dq), OPERAND("dk", t->dk), OPERAND("dv", t->dv)));
}

static const char *suffix(bool finish) { return finish ? "_finish" : ""; }

static void print_tiles(const mgpu_attention_tiles *s, const char *name, bool finish, Text *text)
{
    text_add(text, "static __device__ constexpr mgpu_attention_tiles %s%s_tiles =\n    %s;\n", name, suffix(finish),
             C_ORDERED_ROW(C_TEXT("arithmetic", s->arithmetic == MGPU_MMA ? "MGPU_MMA" : "MGPU_FMA"),
                           C_TEXT("q", type_name(s->q)), C_TEXT("k", type_name(s->k)), C_TEXT("v", type_name(s->v)),
                           C_TEXT("g", type_name(s->g)), C_TEXT("y", type_name(s->y)), C_TEXT("dq", type_name(s->dq)),
                           C_TEXT("dk", type_name(s->dk)), C_TEXT("dv", type_name(s->dv)), C_TEXT("aligned", c_true(s->aligned)),
                           C_NUMBER("rows", s->rows), C_NUMBER("columns", s->columns), C_NUMBER("warp_rows", s->warp_rows),
                           C_NUMBER("part", s->part), C_NUMBER("stages", s->stages), C_TEXT("resident", c_true(s->resident)),
                           C_NUMBER("results", s->results), C_TEXT("alone", c_true(s->alone)),
                           C_TEXT("warpgroups", s->warpgroups ? "MGPU_BY_WARPGROUPS" : NULL)));
}

/* Returns the parameter that is argument `number`. */
static const char *parameter(const mgpu_attention *t, int number)
{
    static const char *const name[IN_TABLE] = {"q", "k", "v", "g", "y", "sums", "dq", "dk", "dv"};
    const mgpu_attention_operand *operand[IN_TABLE];
    operands_of(t, operand);
    if (number == t->dq.argument && number == t->dk.argument)
        return "dqkv";
    for (int i = 0; i < IN_TABLE; i++)
        if (operand[i]->argument == number)
            return name[i];
    die("argument %d of attention is none of its operands", number);
}

static void print_parameters(const mgpu_attention *t, const char *qualifier, Text *text)
{
    const mgpu_attention_operand *operand[IN_TABLE];
    operands_of(t, operand);
    for (int i = 0; i < t->workspace; i++) {
        uint8_t type = MGPU_F32;
        for (int k = 0; k < IN_TABLE; k++)
            type = operand[k]->argument == i ? type_of(t, operand[k]) : type;
        text_add(text, "%s%s *%s%s, ", i < (t->backward ? 6 : 3) ? "const " : "", c_type(type), qualifier, parameter(t, i));
    }
    if (t->backward)
        text_add(text, "char *%swork, ", qualifier);
}

static const char *operand_text(const mgpu_attention *t, const mgpu_attention_operand *o, bool in_scan)
{
    const char *name = o->argument < 0 ? "nullptr" : parameter(t, o->argument);
    return in_scan && o->argument >= 0 && o->sample > 0 ? format("%s + begin * %lld", name, (long long)o->sample) : name;
}

static void print_call(const mgpu_attention *t, const char *name, bool finish, bool in_scan, Text *text)
{
    const mgpu_attention_operand *const forward[] = {&t->q, &t->k, &t->v, &t->y, &t->sums};
    const mgpu_attention_operand *const queries[] = {&t->q, &t->k, &t->v, &t->g, &t->y, &t->sums, &t->dq};
    const mgpu_attention_operand *const keys[] = {&t->q, &t->k, &t->v, &t->g, &t->dk, &t->dv};
    const mgpu_attention_operand *const *operand = !t->backward ? forward : finish ? keys : queries;
    int count = !t->backward ? COUNT(forward) : finish ? COUNT(keys) : COUNT(queries);
    text_add(text, "mgpu_attend_%s<%s_attention, %s%s_tiles>(",
             !t->backward ? "forward"
             : finish     ? "keys"
                          : "queries",
             name, name, suffix(finish));
    for (int i = 0; i < count; i++)
        text_add(text, "%s, ", operand_text(t, operand[i], in_scan));
    text_add(text, "%s%s);\n", t->backward ? "work, " : "", in_scan ? "end - begin" : "n");
}

/* Returns the blocks of a multiprocessor for which registers are reserved. With warpgroups, blocks hide each other's latency, as
 * far as registers allow; blocks of keys have two results and would spill them. Without, four blocks would spill some, too, if
 * only beside other kernels in a translation unit. */
static const char *blocks_text(const mgpu_attention *t, const mgpu_attention_tiles *s, bool keys)
{
    bool few = !s->warpgroups || has_long_rows(t) || keys;
    return few ? "2" : t->backward ? "MGPU_HAS_WARPGROUPS ? 3 : 2" : "MGPU_HAS_WARPGROUPS ? 4 : 2";
}

static void print_function(const Attention *plan, const char *name, bool finish, Text *text)
{
    const mgpu_attention *t = attention_table(plan);
    const mgpu_attention_tiles own = tiles_of(plan, false), *s = &own;
    print_tiles(s, name, finish, text);
    text_add(text, "extern \"C\" __global__ void __launch_bounds__(%d, %s) %s%s(\n    ", mgpu_attention_threads(s),
             blocks_text(t, s, finish), name, suffix(finish));
    print_parameters(t, "__restrict__ ", text);
    text_add(text, "const mgpu_step *step, int64_t n)\n{\n    ");
    print_call(t, name, finish, false, text);
    text_add(text, "}\nMGPU_ENTRY(%s%s)\n", name, suffix(finish));
}

static bool has_finish(const mgpu_attention *t) { return t->backward && (t->dk.argument >= 0 || t->dv.argument >= 0); }

static void print_head(const Attention *plan, const mgpu_attention_tiles *s, const char *name, Text *text)
{
    attention_print_comment(
        plan, format("; blocks of %d by %s", s->rows, s->arithmetic == MGPU_MMA ? "matrix instructions" : "multiplications"),
        text);
    print_table(attention_table(plan), name, text);
}

bool cuda_attention_by_warpgroups(const Attention *plan, bool block) { return tiles_of(plan, block).warpgroups; }

void cuda_print_attention(const Attention *plan, const char *name, Text *text)
{
    const mgpu_attention_tiles s = tiles_of(plan, false);
    print_head(plan, &s, name, text);
    print_function(plan, name, false, text);
    if (has_finish(attention_table(plan)))
        print_function(plan, name, true, text);
}

/* ---- in one block */

void cuda_print_block_attention(const Attention *plan, const char *name, Text *text)
{
    const mgpu_attention *t = attention_table(plan);
    const mgpu_attention_tiles s = tiles_of(plan, true); /* those of keys are the same */
    const char *some = format("    if (threadIdx.x < %d)\n        ", mgpu_attention_threads(&s));
    print_head(plan, &s, name, text);
    for (int finish = 0; finish <= has_finish(t); finish++)
        print_tiles(&s, name, finish, text);
    text_add(text, "static __device__ void %s(", name);
    print_parameters(t, "", text);
    text_add(text, "int64_t begin, int64_t end)\n{\n%s", some);
    print_call(t, name, false, true, text);
    if (has_finish(t)) {
        text_add(text, "    __syncthreads();\n%s", some);
        print_call(t, name, true, true, text);
    }
    text_add(text, "}\n");
}

int cuda_block_attention_shared_bytes(const Attention *plan)
{
    const mgpu_attention_tiles s = tiles_of(plan, true);
    return (int)mgpu_attention_shared_bytes(attention_table(plan), &s);
}
