/* target.c: CUDA as a target: kernels are functions of images, which NVRTC compiles, and are launched. */
#include "compiler/base/c_text.h"
#include "compiler/target/cuda/cuda.h"
#include "compiler/target/cuda/library.h"

#include <string.h>

enum {
    LANE = 16,
    LEAST_LANE = 4,
    BLOCKS = 128,
    BLOCK_SAMPLES = 4,        /* of a scan: enough blocks, each with few samples */
    ROW_ELEMENTS = 64,        /* a line of 128 bytes, in 16-bit elements */
    OTHER_TILES = 3,          /* with --tune: the tiles with the next best estimates */
    OVER_ROWS_COLUMNS = 8192, /* 32 for each thread of a block */
    LIBRARY_ALIGNMENT = 256   /* cublasLtMatmul: its workspace "must be 256B aligned" */
};

static int64_t lane(int64_t extent)
{
    int64_t lane = LANE;
    while (lane > LEAST_LANE && extent % lane)
        lane /= 2;
    return lane;
}

static int64_t chunk(int64_t samples)
{
    return samples > BLOCKS * BLOCK_SAMPLES ? (samples + BLOCKS - 1) / BLOCKS : BLOCK_SAMPLES;
}

static int64_t workspace(const Kernel *k, const char *archs, bool in_scan, int64_t *per_sample)
{
    return CUDA_KIND[k->kind].workspace(k, archs, in_scan, per_sample);
}

static int64_t workspace_for(const Kernel *k, int64_t samples, const char *archs)
{
    return cuda_contraction_or_library_workspace(k->contraction, samples, archs);
}

/* Adds a kernel that computes the contraction of another kernel in another way. */
static Kernel *add_alternative(Program *p, const Kernel *of, Contraction *contraction, const char *suffix)
{
    Kernel *k = NEW(Kernel);
    *k = *of;
    k->number = p->kernel_count;
    k->name = format("k%d", k->number);
    k->label = format("%s_%s", kernel_label(of), suffix);
    k->contraction = contraction;
    k->epilogue = NULL;
    const char *shared_name = cuda_contraction_shared_name(contraction);
    k->canonical = map_get(&p->kernels_known, shared_name);
    if (!k->canonical)
        map_set(&p->kernels_known, copy_text(shared_name, strlen(shared_name)), k);
    APPEND(p->kernels, p->kernel_count, k);
    return k;
}

static void add_all_tiles(Program *p)
{
    for (int i = 0, count = p->kernel_count; i < count; i++)
        for (int place = 1; place <= OTHER_TILES && p->kernels[i]->contraction; place++) {
            Contraction *other = cuda_contraction_in_tiles(p->kernels[i]->contraction, place, p->options->arch);
            if (other)
                add_alternative(p, p->kernels[i], other, format("tiles_%d", place))->in_tiles_of = p->kernels[i];
        }
}

/* Makes kernels share the functions of other kernels that can execute them. */
static void end_kernels(Program *p)
{
    if (p->options->tune)
        add_all_tiles(p);
    for (int i = 0; i < p->kernel_count; i++) {
        Kernel *k = p->kernels[i];
        const char *shared_name = k->contraction && !k->canonical ? cuda_contraction_split_shared_name(k->contraction) : NULL;
        k->canonical = shared_name ? map_get(&p->kernels_known, shared_name) : k->canonical;
    }
    for (int i = 0; i < p->kernel_count; i++)
        if (p->kernels[i]->canonical && p->kernels[i]->canonical->canonical)
            p->kernels[i]->canonical = p->kernels[i]->canonical->canonical;
    cuda_give_numbers(p);
    cuda_count_calls_per_launch(p);
}

/* ---- text */

static const char *shared_name(const Kernel *k) { return k->contraction ? cuda_contraction_shared_name(k->contraction) : NULL; }

/* ---- link */

static const char *words(const Kernel *k) /* several kernels share it */
{
    return k->contraction && cuda_contraction_shared_name(k->contraction) ? cuda_contraction_words(k->contraction) : NULL;
}

/* Returns kernels that libraries need: they copy weights of convolutions into another order. */
static const char *runtime_kernels(const Program *p)
{
    mgpu_library_convolution convolution;
    for (int i = 0; i < p->kernel_count; i++)
        if (p->kernels[i]->contraction && cuda_library_convolution(p->kernels[i]->contraction, &convolution) &&
            convolution.filter != MGPU_FILTER_OUT_TAPS_IN)
            return "#include \"mgpu_device_filters.h\"\n";
    return NULL;
}

static double begin_unit(const UnitNeeds *needs, size_t bytes, Text *t)
{
    emit_cuda_includes(needs, t);
    return (double)bytes * 1e-5 + 0.3 * needs->slow;
}

/* false: it is not computed by a library that needs a workspace */
static bool print_library(const Kernel *k, Text *t)
{
    mgpu_library_matmul matmul;
    mgpu_library_convolution convolution;
    bool own = k->contraction && !k->in_tiles_of, multiplies = own && cuda_library_call(k->contraction, &matmul);
    bool convolves = own && cuda_library_convolution(k->contraction, &convolution);
    if (multiplies)
        cuda_print_library_matmul(&matmul, t);
    if (convolves)
        cuda_print_library_convolution(&convolution, t);
    return multiplies;
}

static void print_row(const Kernel *k, const char *function, Text *t)
{
    mgpu_launch launch[2] = {{0}};
    cuda_launches(k, launch);
    text_add(t, "    {.name = %s, .line = %d, .launch = {", c_string(k->name), model_line(k->at));
    for (int i = 0; i < 2 && launch[i].function; i++) {
        const mgpu_launch *l = &launch[i];
        const char *name = c_string(format("%s%s", function, l->function + strlen(k->name)));
        text_add(t, "%s%s", i ? ", " : "",
                 C_ROW(C_TEXT("function", name), C_NUMBER("iterations", l->iterations),
                       C_NUMBER("iterations_per_sample", l->iterations_per_sample), C_NUMBER("group", l->group),
                       C_NUMBER("per_block", l->per_block), C_NUMBER("most", l->most), C_NUMBER("threads", l->threads),
                       C_NUMBER("shared_bytes", l->shared_bytes), C_NUMBER("from", l->from), C_NUMBER("to", l->to),
                       C_TEXT("waits", c_true(l->waits))));
    }
    text_add(t, "}");
    bool library = print_library(k, t), parts = k->contraction && cuda_contraction_is_split(k->contraction);
    cuda_print_epilogue(k, t);
    cuda_print_parameters(k, t);
    bool spare = k->contraction && k->canonical && cuda_contraction_is_split(k->canonical->contraction) && !parts;
    text_add(t, "%s%s", spare ? ", .unused_workspace = true" : "", library && !parts ? ", .library_work = true" : "");
    if (k->parameter_count || cuda_calls_per_launch(k))
        text_add(t, ", .calls_per_launch = %d, .words = %d", cuda_calls_per_launch(k), k->parameter_count);
    if (k->in_tiles_of)
        text_add(t, ", .in_tiles_of = %d", k->in_tiles_of->number + 1);
    const char *sums = kernel_types_of_sums(k);
    if (sums)
        text_add(t, ", .sums = %s", sums);
    text_add(t, "},\n");
}

static void print_table(const Text *rows, Text *t)
{
    text_add(t, "static const mgpu_gpu_kernel mgpu_kernels[] = {\n");
    text_bytes(t, text_of(rows), rows->length);
    text_add(t, "    {0},\n};\nextern const mgpu_image mgpu_images[];\n\n");
}

const Target cuda_target = {
    .name = "cuda",
    .suffix = "cu",
    .transfers = MGPU_IMPLEMENTATION_AUTO,
    .images = true,
    .own_memory = true,
    .workspace_alignment = LIBRARY_ALIGNMENT,
    .row_elements = ROW_ELEMENTS,
    .over_rows_columns = OVER_ROWS_COLUMNS,
    .convolution_cost = cuda_convolution_cost,
    .reads_reversed = true,
    .least_group = 4 /* half of a sector: reading terms twice costs less than columns */,
    .flops_of_byte = 2 * FLOPS_OF_BYTE,
    .lane = lane,
    .scalars_by_thread = true,
    .map_threads = cuda_map_threads,
    .may_pack = cuda_is_small,
    .packed = cuda_map_blocks,
    .may_join = cuda_may_join,
    .calls_per_launch = cuda_calls_per_launch,
    .chunk = chunk,
    .workspace = workspace,
    .workspace_for = workspace_for,
    .may_epilogue = cuda_may_epilogue,
    .epilogue_workspace = cuda_library_workspace,
    .end_kernels = end_kernels,
    .lower_scan = cuda_lower_scan,
    .lower = cuda_lower,
    .finishes = cuda_finishes,
    .shared_name = shared_name,
    .print = cuda_print,
    .print_all = emit_cuda,
    .words = words,
    .runtime_kernels = runtime_kernels,
    .needs = cuda_needs,
    .begin_unit = begin_unit,
    .print_row = print_row,
    .print_table = print_table,
    .launches = cuda_launches,
    .library_matmul = cuda_library_call,
};
