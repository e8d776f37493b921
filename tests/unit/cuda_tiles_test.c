/* cuda_tiles_test: matmuls as CUDA C (compiler/target/cuda/contract.c, runtime/abi/mgpu_device_contract.h) on the virtual GPU.
 *
 * Matmuls of contraction_cases.h against the interpreter, and every shape of a tile with operands that are in every way
 * against sums in double. Each runs twice, with different grids and orders of threads: the same bits. */
#include "compiler/kernel/phase.h"
#include "tests/unit/cuda_module.h"

#include "compiler/target/cuda/cuda.h"
#include "compiler/target/cuda/tiles.h"
#include "tests/unit/contraction_cases.h"

enum { MODULES = 6 };
static int failures;

static void conclude(const char *what, int count, int wrong)
{
    failures += wrong;
    if (wrong == 0)
        printf("ok %s, %d cases\n", what, count);
}

/* ---- cases of nodes */

typedef struct Run {
    const Case *item;
    Guarded memory[4];
    const double *expected;
    double limit;
} Run;

static double result_of(const Run *run, int64_t i)
{
    return fetch(run->memory[2].begin, run->item->tensor[2]->dtype, place_of(run->item, 2, i));
}

static const char *check_results(const Run *run, double *first, bool again)
{
    const Case *item = run->item;
    const Tensor *tensor = item->tensor[2];
    for (int64_t i = 0; i < elements(item, 2); i++) {
        double value = result_of(run, i), rounding = tensor->dtype == BF16  ? fabs(run->expected[i]) / 256
                                                     : tensor->dtype == F16 ? fabs(run->expected[i]) / 2048 + 0x1p-25
                                                                            : 0;
        if (!(fabs(value - run->expected[i]) <= run->limit + rounding))
            return format("element %lld is %.17g, not %.17g", (long long)i, value, run->expected[i]);
        if (again && value != first[i])
            return format("element %lld is %.17g, then %.17g", (long long)i, first[i], value);
        first[i] = value;
    }
    for (int64_t i = 0; i < room(item, 2) && tensor->pitch; i++)
        if (i % tensor->pitch >= shape_count(&tensor->shape) && !isnan(fetch(run->memory[2].begin, tensor->dtype, i)))
            return format("place %lld between two samples is written", (long long)i);
    return NULL;
}

static const char *run_case(void *module, CheckedGpu *gpu, const Case *item, const char *name, const double *expected, bool block)
{
    Run run = {.item = item, .expected = expected};
    int64_t work = cuda_contraction_workspace(item->plan, contraction_samples(item->plan));
    for (int i = 0; i < 3; i++)
        run.memory[i] = guarded(room(item, i) * dtype_bytes(item->tensor[i]->dtype));
    run.memory[3] = guarded(work);
    for (int i = 0; i < 2; i++) {
        double *values = NEW_ARRAY(double, elements(item, i));
        fill(values, elements(item, i), i + 1, item->tensor[i]->dtype);
        for (int64_t j = 0; j < elements(item, i); j++)
            store(run.memory[i].begin, item->tensor[i]->dtype, place_of(item, i, j), values[j]);
    }
    double flops, sampled, bytes, byte_samples, count = (double)elements(item, 2);
    contraction_cost(item->plan, &flops, &sampled, &bytes, &byte_samples);
    double depth = (flops + sampled * (double)item->samples) / 2 / (count > 0 ? count : 1);
    double most = 1;
    for (int64_t i = 0; i < elements(item, 2); i++)
        most = fabs(expected[i]) > most ? fabs(expected[i]) : most;
    run.limit = (item->node->dtype == F64 ? 2e-16 : 1.2e-7) * (8 + 2 * sqrt(depth)) * most;
    mgpu_launch launch[2] = {{.function = name, .iterations = 1, .per_block = 1, .most = 1, .threads = CUDA_THREADS}, {0}};
    if (block)
        launch[0].shared_bytes = cuda_block_shared_bytes(item->plan);
    else
        cuda_launches_contraction(item->plan, name, launch);
    mgpu_numbers numbers[CUDA_NUMBERS];
    launch_numbers = cuda_contraction_parameters(item->plan, numbers) > 0 ? numbers : NULL;
    bool works = !block && (launch[1].function != NULL || work > 0);
    void *arguments[4] = {run.memory[0].begin, run.memory[1].begin, run.memory[2].begin, run.memory[3].begin};
    double *first = NEW_ARRAY(double, elements(item, 2));
    const char *wrong = NULL;
    for (int turn = 0; turn < 2 && !wrong; turn++) {
        for (int64_t i = 0; i < room(item, 2); i++)
            store(run.memory[2].begin, item->tensor[2]->dtype, i, (double)NAN);
        memset(run.memory[3].begin, 0xff, (size_t)work);
        wrong =
            run_launches(module, launch, arguments, works ? 4 : 3, item->samples, turn ? 1 + draw(4) : 0, (uint64_t)turn * 77);
        wrong = wrong ? wrong : check_results(&run, first, turn > 0);
    }
    int64_t sizes[4] = {0, 0, 0, work};
    for (int i = 0; i < 3; i++)
        sizes[i] = room(item, i) * dtype_bytes(item->tensor[i]->dtype);
    if (gpu && !wrong)
        wrong = run_checked(gpu, launch, arguments, sizes, 2, works ? 4 : 3, item->samples);
    for (int i = 0; i < 4; i++)
        give_back(&run.memory[i]);
    return wrong;
}

/* a kernel that takes its samples in two parts, the second first */
static void print_block_kernel(const Case *item, const char *name, Text *text)
{
    static const char *const types[] = {[F32] = "float", [F64] = "double", [BF16] = "mgpu_bf16", [F16] = "mgpu_f16"};
    cuda_print_block_contraction(item->plan, format("%s_matmul_of", name), text);
    bool parts = item->tensor[2]->has_samples;
    text_add(text, "extern \"C\" __global__ void %s(const %s *a, const %s *b, %s *c, const mgpu_step *step, int64_t n)\n{\n",
             name, types[item->tensor[0]->dtype], types[item->tensor[1]->dtype], types[item->tensor[2]->dtype]);
    if (parts)
        text_add(text, "    %s_matmul_of(a, b, c, mgpu_dynamic_shared(), n / 2, n);\n", name);
    text_add(text, "    %s_matmul_of(a, b, c, mgpu_dynamic_shared(), 0, %s);\n}\n", name, parts ? "n / 2" : "n");
}

static const char *name_of(int i, bool block) { return format("%s%d", block ? "b" : "k", i); }

static bool has_block(int i) { return i % 5 == 0; }

static void print_cases(Text text[MODULES])
{
    for (int i = 0; i < case_count; i++) {
        Text *t = &text[i % MODULES];
        cuda_print_contraction(cases[i].plan, name_of(i, false), NULL, t);
        if (has_block(i)) {
            print_block_kernel(&cases[i], name_of(i, true), t);
            text_add(t, "MGPU_ENTRY(%s)\n", name_of(i, true));
        }
    }
}

static void run_cases(void *const *modules, CheckedGpu *gpu)
{
    int wrong_cases = 0;
    for (int i = 0; i < case_count; i++) {
        const Case *item = &cases[i];
        Interpretation run = {.samples = item->samples,
                              .leaf = leaf,
                              .context = (void *)item,
                              .values = NEW_ARRAY(double *, item->graph->node_count)};
        interpret(item->graph, &run);
        const double *expected = run.values[item->node->id];
        for (int block = 0; block <= has_block(i); block++) {
            const char *wrong =
                run_case(modules[i % MODULES], i % MODULES == MODULES - 1 ? gpu : NULL, item, name_of(i, block), expected, block);
            if (wrong)
                printf("not ok %s%s: %s\n", item->name, block ? " (by a block)" : "", wrong);
            wrong_cases += wrong != NULL;
        }
    }
    conclude("contractions on the virtual GPU", case_count, wrong_cases);
}

/* ---- every shape of a tile */

typedef struct Tile {
    int rows, columns, down, across;
} Tile;
typedef struct TileCase {
    CudaMatmul *matmul;
    uint8_t type[3];
    int64_t samples;
    double limit;
    const char *name;
} TileCase;
static TileCase *tile_cases;
static int tile_case_count;

static const char *type_name(uint8_t type)
{
    return type == MGPU_F64 ? "f64" : type == MGPU_F32 ? "f32" : type == MGPU_BF16 ? "bf16" : "f16";
}

/* with a tile and a split of its own */
static TileCase case_of(const mgpu_contraction *t, const Tile *tile, uint8_t arithmetic, const uint8_t type[3], int which,
                        int64_t samples)
{
    CudaOptions options = {
        .type = {type[0], type[1], type[2]}, .aligned = {true, true, true}, .samples = samples, .tf32 = arithmetic == MGPU_MMA};
    CudaMatmul *p = cuda_matmul(t, &options);
    mgpu_tiles *s = &p->tiles;
    s->arithmetic = arithmetic;
    s->rows = tile->rows;
    s->columns = tile->columns;
    s->down = tile->down;
    s->across = tile->across;
    s->depth = arithmetic == MGPU_MMA && type[0] != MGPU_F32 ? 32 : type[0] == MGPU_F64 ? 8 : 16;
    s->stages = 2 + which % 3;
    s->split_depth = s->depth;
    s->split_tiles = which % 2 ? 1 + draw(which % 4 == 1 ? 40 : 400) : 0; /* of many samples, the second are several parts */
    s->warpgroups = mgpu_may_be_by_warpgroups(s);
    double limit = type[2] == MGPU_F64 ? 1e-14 : arithmetic == MGPU_MMA && type[0] == MGPU_F32 ? 2e-3 : 2e-6;
    double rounding = type[2] == MGPU_BF16 ? 4e-3 : type[2] == MGPU_F16 ? 5e-4 : 0;
    return (TileCase){p, {type[0], type[1], type[2]}, samples, limit + rounding, NULL};
}

/* batch, M, N, K, the samples one of them, A and B each with rows or K along memory; pad: elements between rows */
static void tile_case(const Tile *tile, uint8_t arithmetic, const uint8_t type[3], int which)
{
    static const int64_t odd[] = {7, 11, 13, 19};
    bool a_rows = which & 1, b_rows = which >> 1 & 1, c_columns = which >> 2 & 1, even = which >> 3 & 1;
    int64_t m = tile->rows + odd[draw(4)], n = tile->columns + odd[draw(4)], k = 40 + odd[draw(4)],
            samples = which % 3 == 0 ? 3 : 17;
    if (even) {
        m = m / 8 * 8;
        n = n / 8 * 8;
        k = k / 8 * 8;
    }
    int64_t lda = a_rows ? m : k, ldb = b_rows ? n : k, ldc = c_columns ? m : n;
    int sampled = which / 5 % 5; /* 0: batch, 1: M, 2: N, 3: K, 4: nothing */
    if (sampled == 1 || sampled == 2)
        *(sampled == 1 ? &m : &n) = 3 + draw(20);
    lda = a_rows ? m : k, ldb = b_rows ? n : k, ldc = c_columns ? m : n;
    int64_t size_a = m * k, size_b = n * k, size_c = m * n;
    mgpu_axis *axis = NEW_ARRAY(mgpu_axis, 8);
    int count = 0;
    mgpu_contraction t = {.axis = axis, .type = arithmetic == MGPU_FMA ? (type[2] == MGPU_F64 ? MGPU_F64 : MGPU_F32) : MGPU_F32};
    if (sampled == 0) {
        axis[count++] = (mgpu_axis){MGPU_SAMPLES, size_a, size_b, size_c, 0, 0};
        t.batch = 1;
    }
    if (sampled == 1)
        axis[count++] = (mgpu_axis){MGPU_SAMPLES, size_a, 0, size_c, 0, 0};
    axis[count++] = (mgpu_axis){m, a_rows ? 1 : lda, 0, c_columns ? 1 : ldc, 0, 0};
    t.m = 1 + (sampled == 1);
    if (sampled == 2)
        axis[count++] = (mgpu_axis){MGPU_SAMPLES, 0, size_b, size_c, 0, 0};
    axis[count++] = (mgpu_axis){n, 0, b_rows ? 1 : ldb, c_columns ? ldc : 1, 0, 0};
    t.n = 1 + (sampled == 2);
    if (sampled == 3)
        axis[count++] = (mgpu_axis){MGPU_SAMPLES, size_a, size_b, 0, 0, 0};
    axis[count++] = (mgpu_axis){k, a_rows ? lda : 1, b_rows ? ldb : 1, 0, 0, 0};
    t.k = 1 + (sampled == 3);
    TileCase own = case_of(&t, tile, arithmetic, type, which, samples);
    own.name = format("%s %s x %s -> %s, tile %d x %d by %d x %d, %lld x %lld x %lld%s%s%s, samples in %s",
                      arithmetic == MGPU_MMA ? "mma" : "fma", type_name(type[0]), type_name(type[1]), type_name(type[2]),
                      tile->rows, tile->columns, tile->down, tile->across, (long long)m, (long long)n, (long long)k,
                      a_rows ? ", A transposed" : "", b_rows ? ", B transposed" : "", c_columns ? ", C transposed" : "",
                      (const char *const[]){"the batch", "M", "N", "K", "nothing"}[sampled]);
    APPEND(tile_cases, tile_case_count, own);
}

/* a convolution of a line, filters beside each other: padded windows of 3 over 40 channels, with a stride or without */
static void window_case(const Tile *tile, const uint8_t type[3], int which)
{
    int64_t step = 1 + which % 2, places = 11, length = (places - 1) * step + 1, channels = 40, filters = tile->columns + 8;
    mgpu_axis *axis = NEW_ARRAY(mgpu_axis, 5);
    mgpu_window *window = NEW_ARRAY(mgpu_window, 1);
    axis[0] = (mgpu_axis){MGPU_SAMPLES, length * channels, 0, places * filters, 0, 0};
    axis[1] = (mgpu_axis){places, 0, 0, filters, 1, step};
    axis[2] = (mgpu_axis){filters, 0, 3 * channels, 1, 0, 0};
    axis[3] = (mgpu_axis){3, 0, channels, 0, 1, 1};
    axis[4] = (mgpu_axis){channels, 1, 1, 0, 0, 0};
    *window = (mgpu_window){length, channels, -1, 1};
    mgpu_contraction t = {.axis = axis, .m = 2, .n = 1, .k = 2, .windows = 1, .window = window, .type = MGPU_F32};
    TileCase own = case_of(&t, tile, MGPU_MMA, type, which, 1 + tile->rows / places);
    own.name = format("mma %s convolve -> %s, tile %d x %d by %d x %d, a step of %lld", type_name(type[0]), type_name(type[2]),
                      tile->rows, tile->columns, tile->down, tile->across, (long long)step);
    APPEND(tile_cases, tile_case_count, own);
}

/* the gradient of its filters: 44 channels, so 8 bytes of A at once; without a stride, all of K is one stride apart */
static void window_gradient_case(const Tile *tile, const uint8_t type[3], int which)
{
    int64_t step = 1 + which % 2, places = 11, length = (places - 1) * step + 1, channels = 44, filters = tile->columns + 8;
    mgpu_axis *axis = NEW_ARRAY(mgpu_axis, 5);
    mgpu_window *window = NEW_ARRAY(mgpu_window, 1);
    axis[0] = (mgpu_axis){3, 0, 0, channels * filters, 1, 1};
    axis[1] = (mgpu_axis){channels, 1, 0, filters, 0, 0};
    axis[2] = (mgpu_axis){filters, 0, 1, 1, 0, 0};
    axis[3] = (mgpu_axis){MGPU_SAMPLES, length * channels, places * filters, 0, 0, 0};
    axis[4] = (mgpu_axis){places, 0, filters, 0, 1, step};
    *window = (mgpu_window){length, channels, -1, 1};
    mgpu_contraction t = {.axis = axis, .m = 2, .n = 1, .k = 2, .windows = 1, .window = window, .type = MGPU_F32};
    TileCase own = case_of(&t, tile, MGPU_MMA, type, which, 7);
    own.name = format("mma %s gradient of filters -> %s, tile %d x %d by %d x %d, a step of %lld", type_name(type[0]),
                      type_name(type[2]), tile->rows, tile->columns, tile->down, tile->across, (long long)step);
    APPEND(tile_cases, tile_case_count, own);
}

static void make_tile_cases(bool full)
{
    static const Tile fma[] = {{128, 128, 16, 16}, {128, 64, 16, 8}, {64, 128, 8, 16}, {64, 64, 8, 16},  {64, 32, 8, 8},
                               {32, 64, 8, 8},     {32, 32, 8, 8},   {128, 16, 32, 4}, {16, 128, 4, 32}, {64, 16, 16, 4},
                               {16, 64, 4, 16},    {64, 64, 16, 16}, {256, 16, 64, 4}, {16, 256, 4, 64}};
    static const Tile mma[] = {{128, 128, 2, 2}, {256, 64, 4, 1},  {64, 256, 1, 4}, {128, 64, 2, 2}, {64, 128, 1, 4},
                               {64, 64, 2, 2},   {128, 32, 4, 1},  {32, 128, 1, 4}, {64, 32, 2, 1},  {32, 64, 1, 2},
                               {32, 32, 2, 2},   {128, 16, 4, 1},  {16, 128, 1, 4}, {64, 16, 2, 1},  {16, 64, 1, 2},
                               {16, 128, 1, 8},  {128, 128, 2, 4}, {128, 64, 4, 2}, {64, 128, 2, 4}};
    static const uint8_t matrices[][3] = {{MGPU_BF16, MGPU_BF16, MGPU_BF16},
                                          {MGPU_BF16, MGPU_BF16, MGPU_F32},
                                          {MGPU_F16, MGPU_F16, MGPU_F16},
                                          {MGPU_F32, MGPU_F32, MGPU_F32}};
    static const uint8_t numbers[][3] = {{MGPU_F32, MGPU_F32, MGPU_F32},
                                         {MGPU_BF16, MGPU_F32, MGPU_F32},
                                         {MGPU_F32, MGPU_BF16, MGPU_BF16},
                                         {MGPU_F64, MGPU_F64, MGPU_F64}};
    int which = 0;
    for (int i = 0; i < COUNT(mma); i++)
        for (int j = 0; j < COUNT(matrices); j++, which += 5)
            if (full ? is_of_today(i + j, 3)
                     : (is_brief() ? i % 3 == 0 && (i / 3 + j) % 4 == 0 : i % 2 == 0 && (i / 2 + j) % 4 == 0))
                tile_case(&mma[i], MGPU_MMA, matrices[j], which);
    for (int i = 0; i < COUNT(mma); i++) /* those that warpgroups may have, and others */
        if (full ? is_of_today(i, 3) : mma[i].columns == 128 && (!is_brief() || i % 7 == 0))
            window_case(&mma[i], matrices[i % 3], i);
    for (int i = 0; i < COUNT(mma); i++)
        if (full ? is_of_today(i, 3) : i == 0 || i == 3)
            window_gradient_case(&mma[i], matrices[i % 3], i);
    for (int i = 0; i < COUNT(fma); i++)
        for (int j = 0; j < COUNT(numbers); j++, which += 5)
            if ((full ? is_of_today(i + j, 3) : (i + j) % 8 == 0 || (!is_brief() && (i + j) % 8 == 3)) &&
                (numbers[j][0] != MGPU_F64 || (fma[i].rows / fma[i].down <= 4 && fma[i].columns / fma[i].across <= 4)))
                tile_case(&fma[i], MGPU_FMA, numbers[j], which);
}

static const char *c_type(uint8_t type)
{
    return type == MGPU_F64 ? "double" : type == MGPU_F32 ? "float" : type == MGPU_BF16 ? "mgpu_bf16" : "mgpu_f16";
}

/* its numbers come with the launch; else they are constants, as those of a block's matmuls are */
static bool is_given(int tile_case) { return tile_case % 3 > 0; }

static void print_tile_cases(Text text[MODULES], int every)
{
    for (int i = 0; i < tile_case_count; i += every) {
        Text *t = &text[i % MODULES];
        const TileCase *own = &tile_cases[i];
        const char *name = format("t%d", i);
        bool given = is_given(i);
        cuda_print_matmul(own->matmul, given, name, t);
        const char *parameters =
            format("(const %s *__restrict__ a, const %s *__restrict__ b, %s *__restrict__ c, void *__restrict__ work, "
                   "const mgpu_step *step, int64_t n%s)",
                   c_type(own->type[0]), c_type(own->type[1]), c_type(own->type[2]),
                   given ? ", const __grid_constant__ mgpu_numbers numbers" : "");
        const char *numbers = given ? "numbers, " : "";
        int threads = mgpu_tiles_threads(&own->matmul->tiles);
        text_add(t,
                 "extern \"C\" __global__ void __launch_bounds__(%d, %d) %s%s\n{\n    mgpu_contract<%s_matmul, %s_tiles>(%sa, b, "
                 "c, work, n, 0);\n}\n"
                 "MGPU_ENTRY(%s)\n",
                 threads, cuda_matmul_blocks(own->matmul), name, parameters, name, name, numbers, name);
        if (own->matmul->tiles.split_tiles > 0)
            text_add(
                t,
                "extern \"C\" __global__ void %s_finish%s\n{\n    mgpu_contract_finish<%s_matmul, %s_tiles>(%swork, c, n);\n}\n"
                "MGPU_ENTRY(%s_finish)\n",
                name, parameters, name, name, numbers, name);
    }
}

static float from_f16(uint16_t v)
{
    int exponent = v >> 10 & 31, fraction = v & 1023;
    double size = exponent == 31 ? (double)NAN : exponent ? ldexp(1024 + fraction, exponent - 25) : ldexp(fraction, -24);
    return (float)(v >> 15 ? -size : size);
}

static double element_of(const void *memory, uint8_t type, int64_t i)
{
    return type == MGPU_F64    ? ((const double *)memory)[i]
           : type == MGPU_F32  ? (double)((const float *)memory)[i]
           : type == MGPU_BF16 ? from_bf16(((const uint16_t *)memory)[i])
                               : (double)from_f16(((const uint16_t *)memory)[i]);
}

/* values that all types have */
static void set_element(void *memory, uint8_t type, int64_t i, double v)
{
    if (type == MGPU_F16) { /* 3 binary digits, exponents -4 to 0 */
        int exponent;
        double fraction = frexp(fabs(v), &exponent);
        ((uint16_t *)memory)[i] = (uint16_t)((v < 0) << 15 | (exponent + 14) << 10 | (((int)(fraction * 2048)) & 1023));
    } else {
        store(memory, type == MGPU_F64 ? F64 : type == MGPU_F32 ? F32 : BF16, i, v);
    }
}

static int64_t offset_at(const mgpu_contraction *t, int list, int64_t index, int64_t samples, int tensor)
{
    int64_t offset = 0;
    for (int i = mgpu_list_first(t, list) + mgpu_list_count(t, list) - 1; i >= mgpu_list_first(t, list); i--) {
        const mgpu_axis *x = &t->axis[i];
        int64_t extent = x->extent == MGPU_SAMPLES ? samples : x->extent;
        offset += index % extent * (tensor == 0 ? x->a : tensor == 1 ? x->b : x->c);
        index /= extent;
    }
    return offset;
}

/* without the window's first */
static int64_t position_at(const mgpu_contraction *t, int list, int64_t index, int64_t samples, int window)
{
    int64_t position = 0;
    for (int i = mgpu_list_first(t, list) + mgpu_list_count(t, list) - 1; i >= mgpu_list_first(t, list); i--) {
        const mgpu_axis *x = &t->axis[i];
        int64_t extent = x->extent == MGPU_SAMPLES ? samples : x->extent;
        position += x->window == window + 1 ? index % extent * x->step : 0;
        index /= extent;
    }
    return position;
}

/* of A, where row m meets k: 0 outside of a window */
static double windowed(const TileCase *own, const void *a, int64_t place, int64_t m, int64_t k)
{
    const mgpu_contraction *t = &own->matmul->table;
    for (int w = 0; w < t->windows; w++) {
        int64_t position = t->window[w].first + position_at(t, MGPU_LIST_M, m, own->samples, w) +
                           position_at(t, MGPU_LIST_K, k, own->samples, w);
        if (position < 0 || position >= t->window[w].extent)
            return 0;
        place += position * t->window[w].stride;
    }
    return element_of(a, own->type[0], place);
}

static int64_t size_of(const mgpu_contraction *t, int64_t samples, int tensor)
{
    int64_t last = 0;
    for (int w = 0; w < t->windows && tensor == 0; w++)
        last += (t->window[w].extent - 1) * t->window[w].stride;
    for (int i = 0; i < t->batch + t->m + t->n + t->k; i++) {
        const mgpu_axis *x = &t->axis[i];
        last += ((x->extent == MGPU_SAMPLES ? samples : x->extent) - 1) * (tensor == 0 ? x->a : tensor == 1 ? x->b : x->c);
    }
    return last + 1;
}

static const char *check_tile_case(const TileCase *own, void *const *memory)
{
    const mgpu_contraction *t = &own->matmul->table;
    int64_t n = own->samples, extent[4];
    double most = 0, worst = 0;
    for (int list = 0; list < 4; list++)
        extent[list] = mgpu_list_extent(t, list, n);
    int64_t *along = malloc((size_t)extent[3] * 2 * sizeof *along); /* offsets of the reduction axes in a and b */
    for (int64_t k = 0; k < 2 * extent[3]; k++)
        along[k] = offset_at(t, 3, k / 2, n, (int)(k % 2));
    for (int64_t i = 0; i < extent[0] * extent[1] * extent[2]; i++) {
        const int64_t at[] = {i / extent[2] / extent[1], i / extent[2] % extent[1], i % extent[2]};
        int64_t first[3] = {0};
        double sum = 0;
        for (int list = 0; list < 3; list++)
            for (int tensor = 0; tensor < 3; tensor++)
                first[tensor] += offset_at(t, list, at[list], n, tensor);
        for (int64_t k = 0; k < extent[3]; k++)
            sum += windowed(own, memory[0], first[0] + along[2 * k], at[1], k) *
                   element_of(memory[1], own->type[1], first[1] + along[2 * k + 1]);
        double off = fabs(element_of(memory[2], own->type[2], first[2]) - sum);
        most = fabs(sum) > most ? fabs(sum) : most;
        worst = off <= worst ? worst : off; /* or no number */
    }
    free(along);
    return worst <= own->limit * most ? NULL : format("the worst is %g off, the largest %g", worst, most);
}

static const char *run_tile_case(const TileCase *own, const char *name, void *module, CheckedGpu *gpu)
{
    const CudaMatmul *p = own->matmul;
    mgpu_launch launch[2];
    Guarded memory[4];
    void *arguments[4], *first = NULL;
    const char *wrong = NULL;
    mgpu_numbers numbers[CUDA_NUMBERS];
    launch_numbers = cuda_number_list(p, numbers) > 0 ? numbers : NULL;
    cuda_matmul_launches(p, name, launch);
    for (int i = 0; i < 4; i++) {
        int64_t count = i < 3 ? size_of(&p->table, own->samples, i) : 0;
        memory[i] = guarded(i < 3 ? count * mgpu_type_bytes(own->type[i]) : cuda_matmul_workspace(p));
        arguments[i] = memory[i].begin;
        for (int64_t k = 0; k < count && i < 2; k++)
            set_element(memory[i].begin, own->type[i], k, (draw(2) ? 1 : -1) * (double)(4 + draw(4)) / (double)(8 << draw(3)));
    }
    int64_t bytes = size_of(&p->table, own->samples, 2) * mgpu_type_bytes(own->type[2]);
    for (int turn = 0; turn < 2 && !wrong; turn++) {
        memset(memory[2].begin, 0xff, (size_t)bytes);
        memset(memory[3].begin, 0xff, (size_t)cuda_matmul_workspace(p));
        wrong = run_launches(module, launch, arguments, 4, own->samples, turn ? 1 + draw(4) : 0, (uint64_t)turn * 1234567);
        if (turn == 0)
            first = memcpy(malloc((size_t)bytes), memory[2].begin, (size_t)bytes);
        else if (!wrong && memcmp(first, memory[2].begin, (size_t)bytes) != 0)
            wrong = "other results with another grid";
        wrong = wrong || turn ? wrong : check_tile_case(own, arguments);
    }
    const int64_t sizes[] = {size_of(&p->table, own->samples, 0) * mgpu_type_bytes(own->type[0]),
                             size_of(&p->table, own->samples, 1) * mgpu_type_bytes(own->type[1]), bytes,
                             cuda_matmul_workspace(p)};
    if (gpu && !wrong)
        wrong = run_checked(gpu, launch, arguments, sizes, 2, 4, own->samples);
    for (int i = 0; i < 4; i++)
        give_back(&memory[i]);
    free(first);
    return wrong;
}

static void run_tile_cases(void *const *modules, CheckedGpu *gpu)
{
    int wrong_cases = 0;
    for (int i = 0; i < tile_case_count; i++) {
        const char *wrong =
            run_tile_case(&tile_cases[i], format("t%d", i), modules[i % MODULES], i % MODULES == MODULES - 1 ? gpu : NULL);
        if (wrong)
            printf("not ok %s: %s\n", tile_cases[i].name, wrong);
        wrong_cases += wrong != NULL;
    }
    conclude("shapes of tiles", tile_case_count, wrong_cases);
}

/* ---- NVRTC: shapes of tiles, and some contractions, as it would see them */

static void compile_cases(bool full)
{
    static const char *const archs[] = {"sm_90a", "sm_90", "sm_80", "sm_100"};
    Nvrtc nvrtc;
    if (!open_nvrtc(&nvrtc)) {
        printf("skip NVRTC: it is not installed\n");
        return;
    }
    Text text[MODULES] = {{0}}, one = {0};
    int count = 0, wrong_archs = 0;
    if (full)
        print_cases(text);
    print_tile_cases(text, is_brief() ? tile_case_count : 1);
    text_add(&one, "%s", MODULE_HEAD);
    for (int i = 0; i < (full ? MODULES : 1); i++)
        text_bytes(&one, text[i].data, text[i].length);
    for (int i = 0; i < (full ? COUNT(archs) : 1); i++) { /* sm_90a, which has wgmma, and in long tests others in turn */
        if (i > 0 && !is_of_today(i, 3))
            continue;
        const char *wrong = wrong_with_nvrtc(&nvrtc, &one, archs[i]);
        if (wrong)
            printf("not ok NVRTC for %s: %s\n", archs[i], wrong);
        count++;
        wrong_archs += wrong != NULL;
    }
    conclude("NVRTC: no warning, no spilled register", count, wrong_archs);
}

/* ---- */

static const char *open_all(const char *folder, const Text text[MODULES], void *modules[MODULES])
{
    for (int i = 0; i < MODULES; i++)
        if (!write_text(format("%s/module%d.cu", folder, i), &text[i]))
            return "a text cannot be written";
    const char *wrong = build_modules(folder, "qqqqqc");
    return wrong ? wrong : open_modules(folder, MODULES, modules);
}

/* kernels compute places in bytes, of 32 bits: what is further apart is a constant of the code */
static void check_far(void)
{
    CudaMatmul p = *tile_cases[0].matmul;
    mgpu_axis axis[MGPU_NUMBERED_AXES];
    memcpy(axis, p.table.axis, (size_t)(p.table.batch + p.table.m + p.table.n + p.table.k) * sizeof *axis);
    p.table.axis = axis;
    axis[0].b = (1 << 28) - 1;
    int near = cuda_number_count(&p);
    axis[0].b = 1 << 28;
    bool right = near == 1 && cuda_number_count(&p) == 0;
    printf("%s rows 2 GiB apart\n", right ? "ok" : "not ok");
    failures += !right;
}

int main(void)
{
    char folder[] = "/tmp/cuda_tiles_test.XXXXXX";
    void *modules[MODULES];
    Text text[MODULES] = {{0}};
    if (!mkdtemp(folder)) {
        printf("skip matmuls for GPUs: no folder for kernels\n");
        return 0;
    }
    const char *all = getenv("MGPU_FULL");
    bool full = all && *all;
    reversals = true;
    chosen_cases(F64);
    if (full)
        chosen_cases(F32);
    gaps = true;
    drawn_cases(F32, full ? 20 : 5);
    gaps = false;
    drawn_cases(F64, full ? 20 : 5);
    narrow = 7;
    chosen_cases(F32);
    for (narrow = 1; narrow < 8; narrow++)
        drawn_cases(F32, full ? 5 : 1);
    half = F16;
    for (narrow = 1; narrow < 8; narrow += 2)
        drawn_cases(F32, full ? 5 : 1);
    int kept = 0;
    for (int i = 0; i < case_count; i++) /* gradients of weights and others take turns */
        /* few have strides and spreads with a divisor in common */
        if ((full ? is_of_today(i, 3) : i % (is_brief() ? 17 : 9) == 0) || strstr(cases[i].name, " s2 p1,0 d3 u4]"))
            cases[kept++] = cases[i];
    case_count = kept;
    make_tile_cases(full);
    check_far();
    for (int i = 0; i < MODULES; i++)
        text_add(&text[i], "%s", MODULE_HEAD);
    print_cases(text);
    print_tile_cases(text, 1);
    compile_cases(full);
    const char *wrong = open_all(folder, text, modules);
    if (wrong) {
        printf("not ok build of the kernels: %s\n", wrong);
        failures++;
    } else {
        CheckedGpu gpu = {0}, *checked = checked_gpu(&gpu, folder, MODULES - 1, &failures);
        run_tile_cases(modules, checked);
        run_cases(modules, checked);
    }
    if (!getenv("KEEP") && system(format("rm -r %s", folder)) != 0)
        printf("not ok remove %s\n", folder);
    return failures > 0;
}
