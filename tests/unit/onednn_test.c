/* onednn_test: matmuls by oneDNN (runtime/host/onednn.h) against sums in double.
 *
 * usage: onednn_test [LIBRARY ...]      default: $MGPU_ONEDNN, libdnnl.so.3, libdnnl.so.2
 * Every library that can be opened is tested in a process of its own; without any there is one line "skip". The tables are
 * those that the compiler prints for EINSUM, CONVOLVE and CONVOLVE_WEIGHT, chosen ones and some drawn from a fixed seed. The
 * reference adds up along the table's axes and windows, so it also checks what the table says of convolutions. Every case
 * runs whole, in shares, from a later sample on, with packed weights, and by several threads at once. */
#include <dirent.h>
#include <dlfcn.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "compiler/kernel/contraction.h"
#include "compiler/kernel/phase.h"
#include "runtime/host/onednn.h"

#ifndef MGPU_SOURCE
#define MGPU_SOURCE "."
#endif

enum { THREADS = 3, SKIP = 100 };

typedef struct Case {
    const char *name;
    Contraction *plan;
    Tensor *tensor[3];
    int64_t samples;
    bool expected; /* the library must be able to do it */
    const mgpu_contraction *table;
} Case;

static Case *cases;
static int case_count, failures;
static int half; /* of the cases that are made: which of a, b and the result (bits 0, 1, 2) are bf16 */
static uint64_t random_state = 88172645463325252u;

static int64_t draw(int64_t below)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (int64_t)(random_state % (uint64_t)below);
}

/* ---- making cases */

static Node *new_leaf(Graph *graph, const char *name, Shape shape, bool has_samples)
{
    Model *model = graph->model;
    if (has_samples) {
        model->inputs[model->input_count++] =
            (Input){.name = name, .dtype = F32, .shape = shape, .ignore = NO_LABEL, .other = NO_LABEL};
        return graph_input(graph, model->input_count - 1);
    }
    model->variables[model->variable_count++] =
        (Variable){.name = name, .kind = WEIGHT, .dtype = F32, .shape = shape, .owner = -1};
    return graph_variable(graph, model->variable_count - 1);
}

/* order 0: as declared; 1: taps, in, out, as variables lie; 2: out, taps, in */
static Tensor *tensor_of(Node *node, int which, int order)
{
    Tensor *tensor = NEW(Tensor);
    bool is_half = (half >> which & 1) && (which < 2 || node->has_samples); /* sums over samples stay f32 */
    *tensor = (Tensor){.kind = TENSOR_TEMPORARY,
                       .name = "t",
                       .dtype = is_half ? BF16 : F32,
                       .shape = node->shape,
                       .has_samples = node->has_samples,
                       .node = node};
    if (node->has_samples)
        return tensor;
    Model *model = node->graph->model;
    int rank = node->shape.rank, index = which == 2 ? model->variable_count++ : (int)node->ints[0];
    Variable *variable = &model->variables[index];
    tensor->kind = TENSOR_VARIABLE;
    tensor->index = index;
    for (int i = 0; i < rank; i++) {
        variable->order[i] = order == 0   ? i
                             : order == 1 ? (i + 2 < rank ? i + 2 : rank - 1 - i)
                                          : (i == 0         ? 0
                                             : i + 1 < rank ? i + 1
                                                            : 1);
        tensor->shape.extent[i] = node->shape.extent[variable->order[i]];
    }
    return tensor;
}

static void add_case(const char *name, Node *node, int64_t samples, int order, bool expected)
{
    Case item = {.samples = samples, .expected = expected};
    item.name = format("%s n=%lld%s", name, (long long)samples, half == 0 ? "" : format(", bf16 %d", half));
    for (int i = 0; i < 3; i++)
        item.tensor[i] = tensor_of(i < 2 ? node->in[i] : node, i, order);
    item.plan = contraction_plan(node, item.tensor[0], item.tensor[1], item.tensor[2], false);
    APPEND(cases, case_count, item);
}

static Graph *new_graph(void)
{
    static const Source source = {.file = "test.net", .text = "", .length = 0};
    Model *model = NEW(Model);
    model->name = "test";
    model->source = NEW(Source);
    *model->source = source;
    model->inputs = NEW_ARRAY(Input, 2);
    model->variables = NEW_ARRAY(Variable, 3);
    return graph_new(model, "test", NULL);
}

/* has_samples: bit 0: a, bit 1: b, bit 2: the result */
static void einsum_case(const char *spec, Shape a, Shape b, int has_samples, int64_t samples, bool expected)
{
    Graph *graph = new_graph();
    Node *in[] = {new_leaf(graph, "a", a, has_samples & 1), new_leaf(graph, "b", b, (has_samples & 2) != 0)};
    Node *node = has_samples & 4 ? graph_node(graph, OP_EINSUM, in, 2, NULL, 0, spec) : graph_einsum(graph, spec, in, 2, true);
    add_case(format("%s, %s %s", spec, shape_text(&a), shape_text(&b)), node, samples, 0, expected);
}

typedef struct Window {
    int64_t kernel, stride, before, after, dilation, input_dilation;
} Window;

static void convolution_case(int dims, int64_t side, Window window, int64_t in, int64_t out, int64_t groups, bool weight,
                             int64_t samples, int order, bool expected)
{
    Graph *graph = new_graph();
    Shape x = {.rank = dims + 1}, w = {.rank = dims + 2}, y = {.rank = dims + 1};
    int64_t ints[64] = {dims}, *at = ints + 1;
    const int64_t each[] = {window.stride, window.before, window.after, window.dilation, window.input_dilation};
    for (int i = 0; i < COUNT(each); i++)
        for (int d = 0; d < dims; d++)
            *at++ = each[i];
    *at++ = groups;
    for (int d = 0; d < dims; d++) {
        x.extent[d] = side + d;
        int64_t room =
            (x.extent[d] - 1) * window.input_dilation + 1 + window.before + window.after - window.dilation * (window.kernel - 1);
        y.extent[d] = (room - 1) / window.stride + 1;
        w.extent[2 + d] = window.kernel;
        if (weight)
            *at++ = window.kernel;
    }
    x.extent[dims] = in;
    y.extent[dims] = w.extent[0] = out;
    w.extent[1] = in / groups;
    Node *arguments[] = {new_leaf(graph, "x", x, true), new_leaf(graph, weight ? "g" : "w", weight ? y : w, weight)};
    Node *node = graph_node(graph, weight ? OP_CONVOLVE_WEIGHT : OP_CONVOLVE, arguments, 2, ints, (int)(at - ints), NULL);
    add_case(format("%s %dd side %lld, kernel %lld stride %lld pad %lld %lld dilation %lld input_dilation %lld, %lld > %lld in "
                    "%lld groups",
                    weight ? "convolve_weight" : "convolve", dims, (long long)side, (long long)window.kernel,
                    (long long)window.stride, (long long)window.before, (long long)window.after, (long long)window.dilation,
                    (long long)window.input_dilation, (long long)in, (long long)out, (long long)groups),
             node, samples, order, expected);
}

static void make_matmul(void)
{
    einsum_case("a,ba->b", SHAPE(48), SHAPE(80, 48), 5, 33, true);
    einsum_case("b,ba->a", SHAPE(80), SHAPE(80, 48), 5, 33, true);
    einsum_case("b,a->ba", SHAPE(80), SHAPE(48), 3, 33, true);
    einsum_case("a,ab->b", SHAPE(37), SHAPE(37, 53), 5, 29, true);
    einsum_case("ab,cb->ac", SHAPE(24, 32), SHAPE(40, 32), 5, 3, true);
    einsum_case("ab,ac->cb", SHAPE(24, 32), SHAPE(24, 40), 3, 3, true);
    einsum_case("abd,ebd->bae", SHAPE(20, 3, 16), SHAPE(24, 3, 16), 7, 4, true); /* heads */
    einsum_case("bae,ebd->abd", SHAPE(3, 20, 24), SHAPE(24, 3, 16), 7, 4, true);
    einsum_case("ab,cb->ac", SHAPE(24, 32), SHAPE(40, 32), 7, 4, true); /* one head */
    einsum_case("ab,b->a", SHAPE(64, 96), SHAPE(96), 5, 5, true);
    einsum_case("abc,dc->bad", SHAPE(7, 9, 32), SHAPE(40, 32), 5, 3, true); /* M does not fold */
    einsum_case("abc,bca->", SHAPE(4, 5, 6), SHAPE(5, 6, 4), 7, 3, false);
    einsum_case("ab,ab->a", SHAPE(16, 16), SHAPE(16, 16), 7, 3, false);
}

static void make_convolutions(void)
{
    const Window same = {3, 1, 1, 1, 1, 1}, five = {5, 1, 2, 2, 1, 1}, strided = {3, 2, 1, 1, 1, 1}, one = {1, 1, 0, 0, 1, 1};
    const Window skipping = {1, 2, 0, 0, 1, 1}, dilated = {3, 1, 2, 2, 2, 1}, uneven = {4, 3, 2, 1, 1, 1};
    const Window input_dilation = {3, 1, 1, 2, 1, 2}, dilated_one = {1, 1, 0, 1, 1, 2}, dilated_three = {4, 1, 2, 3, 1, 3};
    for (int weight = 0; weight < 2; weight++)
        for (int order = 0; order < 3; order++) {
            convolution_case(2, 9, same, 16, 32, 1, weight, 5, order, true);
            convolution_case(2, 8, five, 1, 6, 1, weight, 4, order, true);
            convolution_case(2, 8, five, 6, 17, 1, weight, 4, order, true);
            convolution_case(2, 11, strided, 16, 16, 1, weight, 4, order, true);
            convolution_case(2, 10, one, 32, 16, 1, weight, 3, order, true);
            convolution_case(2, 9, skipping, 16, 48, 1, weight, 3, order, true);
            convolution_case(2, 12, dilated, 16, 16, 1, weight, 3, order, true);
            convolution_case(2, 13, uneven, 3, 20, 1, weight, 3, order, true);
            convolution_case(2, 9, same, 32, 32, 2, weight, 3, order, true);
            convolution_case(2, 9, same, 16, 16, 16, weight, 3, order, true);
            convolution_case(1, 30, five, 16, 32, 1, weight, 4, order, true);
            convolution_case(3, 5, same, 16, 16, 1, weight, 2, order, true);
        }
    for (int order = 0; order < 3; order++) {
        convolution_case(2, 6, input_dilation, 32, 16, 1, false, 4, order, true);
        convolution_case(2, 6, dilated_one, 32, 16, 1, false, 4, order, true);
        convolution_case(2, 5, dilated_three, 16, 3, 1, false, 4, order, true);
        convolution_case(2, 6, input_dilation, 32, 32, 2, false, 4, order, true);
        convolution_case(1, 9, input_dilation, 16, 16, 1, false, 4, order, true);
        convolution_case(2, 6, input_dilation, 8, 8, 1, true, 4, order, false);
    }
    for (int i = 0; i < 40; i++) {
        Window window = {1 + draw(4), 1 + draw(3), draw(3), draw(3), 1 + draw(2), 1};
        if (draw(4) == 0)
            window.stride = 1, window.input_dilation = 2;
        int64_t groups = draw(4) == 0 ? 2 : 1;
        convolution_case(1 + (int)draw(3), 7 + draw(5), window, groups * (1 + draw(20)), groups * (1 + draw(20)), groups, draw(2),
                         1 + draw(5), (int)draw(3), false);
    }
}

static void make_cases(void)
{
    make_matmul();
    make_convolutions();
    for (half = 3; half < 8; half += 4) {
        make_matmul();
        make_convolutions();
    }
    half = 7; /* large enough for several calls of the primitive in a run */
    einsum_case("ab,cb->ac", SHAPE(126, 1000), SHAPE(40, 1000), 5, 3, true);
    const Window window = {2, 1, 0, 1, 1, 1};
    for (int weight = 0; weight < 2; weight++)
        for (int samples = 7; samples < 9; samples++)
            convolution_case(2, 40, window, 16, 16, 1, weight, samples, 1, true);
    half = 0;
}

/* ---- the reference */

static double from_bf16(uint16_t value)
{
    union {
        uint32_t bits;
        float value;
    } wide = {.bits = (uint32_t)value << 16};
    return (double)wide.value;
}

static uint16_t to_bf16(double value)
{
    union {
        float value;
        uint32_t bits;
    } wide = {.value = (float)value};
    return (uint16_t)((wide.bits + 0x7fff + (wide.bits >> 16 & 1)) >> 16);
}

static double get(const void *memory, int64_t place, bool is_half)
{
    return is_half ? from_bf16(((const uint16_t *)memory)[place]) : (double)((const float *)memory)[place];
}

/* sum and sum of absolute values over axis[0 .. count) of a and b from (a, b) on; position: of every window so far */
typedef struct Sum {
    double value, size;
} Sum;

static Sum add_up(const mgpu_contraction *table, const mgpu_axis *axis, int count, int64_t samples, const void *const *memory,
                  int64_t a, int64_t b, const int64_t position[MGPU_WINDOWS])
{
    Sum sum = {0};
    if (count == 0) {
        for (int w = 0; w < table->windows; w++) {
            const mgpu_window *window = &table->window[w];
            int64_t at = window->first + position[w];
            if (at < 0 || at % window->input_dilation != 0 || at / window->input_dilation >= window->extent)
                return sum;
            a += at / window->input_dilation * window->stride;
        }
        double left = get(memory[0], a, table->half_a), right = get(memory[1], b, table->half_b);
        return (Sum){left * right, fabs(left * right)};
    }
    for (int64_t i = 0; i < (axis->extent == MGPU_SAMPLES ? samples : axis->extent); i++) {
        int64_t moved[MGPU_WINDOWS];
        memcpy(moved, position, sizeof moved);
        if (axis->window > 0)
            moved[axis->window - 1] += i * axis->step;
        Sum more = add_up(table, axis + 1, count - 1, samples, memory, a + i * axis->a, b + i * axis->b, moved);
        sum.value += more.value;
        sum.size += more.size;
    }
    return sum;
}

/* every element of C: `axes` are still to be chosen */
static void expect(const mgpu_contraction *table, const mgpu_axis *axis, int axes, int64_t samples, const void *const *memory,
                   int64_t a, int64_t b, int64_t c, const int64_t position[MGPU_WINDOWS], Sum *result)
{
    if (axes == 0) {
        result[c] = add_up(table, axis, table->k, samples, memory, a, b, position);
        return;
    }
    for (int64_t i = 0; i < (axis->extent == MGPU_SAMPLES ? samples : axis->extent); i++) {
        int64_t moved[MGPU_WINDOWS];
        memcpy(moved, position, sizeof moved);
        if (axis->window > 0)
            moved[axis->window - 1] += i * axis->step;
        expect(table, axis + 1, axes - 1, samples, memory, a + i * axis->a, b + i * axis->b, c + i * axis->c, moved, result);
    }
}

/* ---- running cases */

typedef struct Run {
    const Case *item;
    void *memory[3];
    int64_t bytes[3], elements[3]; /* of `samples` samples */
    Sum *expected;
} Run;

static bool has_half(const Case *item, int i) { return item->tensor[i]->dtype == BF16; }

static void fill(Run *run)
{
    const Case *item = run->item;
    for (int i = 0; i < 3; i++) {
        run->elements[i] = shape_count(&item->tensor[i]->shape) * (item->tensor[i]->has_samples ? item->samples : 1);
        run->bytes[i] = run->elements[i] * (has_half(item, i) ? 2 : 4);
        run->memory[i] = malloc((size_t)run->bytes[i]);
        for (int64_t j = 0; i < 2 && j < run->elements[i]; j++) {
            double value = (double)(draw(2001) - 1000) / 1000;
            if (has_half(item, i))
                ((uint16_t *)run->memory[i])[j] = to_bf16(value);
            else
                ((float *)run->memory[i])[j] = (float)value;
        }
    }
    const mgpu_contraction *table = item->table;
    const void *const operand[] = {run->memory[table->swapped], run->memory[!table->swapped]};
    const int64_t position[MGPU_WINDOWS] = {0};
    run->expected = calloc((size_t)run->elements[2], sizeof *run->expected);
    expect(table, table->axis, table->batch + table->m + table->n, item->samples, operand, table->a, table->b, 0, position,
           run->expected);
}

/* got[from, to): against the sums */
static bool compare(const Run *run, const double *got, int64_t from, int64_t to, const char *how, const char *said)
{
    for (int64_t i = from; i < to; i++) {
        Sum sum = run->expected[i];
        double most = 1e-5 * sum.size + (has_half(run->item, 2) ? fabs(sum.value) / 200 : 0) + 1e-7;
        if (!(fabs(got[i] - sum.value) <= most)) {
            printf("not ok %s, %s (%s): element %lld is %.9g, not %.9g\n", run->item->name, how, said, (long long)i, got[i],
                   sum.value);
            failures++;
            return false;
        }
    }
    return true;
}

static void *scratch_for(const MgpuLibraryMatmul *matmul)
{
    size_t bytes = ((size_t)mgpu_onednn_scratch(matmul) + 64) / 64 * 64;
    void *scratch = aligned_alloc(64, bytes);
    memset(scratch, 0xff, bytes);
    return scratch;
}

static void add_result(const Run *run, const void *c, double *sum, bool adds)
{
    for (int64_t i = 0; i < run->elements[2]; i++)
        sum[i] = get(c, i, has_half(run->item, 2)) + (adds ? sum[i] : 0);
}

/* the work of `shares`, one after the other; false: the library cannot */
static bool run_shares(const Run *run, int shares, bool packs)
{
    const Case *item = run->item;
    double *sum = calloc((size_t)run->elements[2], sizeof *sum);
    char *c = run->memory[2];
    const char *said = "";
    memset(c, 0xff, (size_t)run->bytes[2]);
    bool whole = true, partial = false;
    for (int share = 0; share < shares && whole; share++) {
        MgpuPart want = {.samples = item->samples, .index = share, .count = shares, .threads = THREADS, .any_speed = true};
        MgpuLibraryMatmul *matmul = mgpu_onednn_prepare(item->table, &want);
        if (matmul == NULL) {
            whole = false;
            break;
        }
        void *scratch = scratch_for(matmul), *packed = NULL;
        if (packs && mgpu_onednn_packed(matmul) > 0) {
            packed = aligned_alloc(64, (size_t)mgpu_onednn_packed(matmul));
            mgpu_onednn_pack(matmul, run->memory[1], packed, scratch, 0);
        }
        mgpu_onednn_run(matmul, run->memory[0], run->memory[1], c, packed, 0, scratch, share % THREADS);
        partial = mgpu_onednn_partial(matmul);
        if (partial)
            add_result(run, c, sum, share > 0);
        said = format("%s", mgpu_onednn_implementation(matmul));
        free(packed);
        free(scratch);
        mgpu_onednn_free(matmul);
    }
    if (whole) {
        if (!partial)
            add_result(run, c, sum, false);
        compare(run, sum, 0, run->elements[2], format("%d shares%s", shares, packs ? ", packed" : ""), said);
    } else if (item->expected || shares > 1) {
        printf("not ok %s: no matmul for %d shares\n", item->name, shares);
        failures++;
    }
    free(sum);
    return whole;
}

/* the last sample alone, where the samples are an axis of C, with weights that were packed before: those of all samples */
static void run_last(const Run *run)
{
    const Case *item = run->item;
    MgpuPart want = {.samples = 1, .index = 0, .count = 1, .threads = 1, .any_speed = true};
    MgpuLibraryMatmul *matmul =
        item->tensor[2]->has_samples && item->samples > 1 ? mgpu_onednn_prepare(item->table, &want) : NULL;
    if (matmul == NULL)
        return;
    double *got = calloc((size_t)run->elements[2], sizeof *got);
    void *scratch = scratch_for(matmul), *packed = NULL;
    if (mgpu_onednn_packed(matmul) > 0) {
        packed = aligned_alloc(64, (size_t)mgpu_onednn_packed(matmul));
        mgpu_onednn_pack(matmul, run->memory[1], packed, scratch, 0);
    }
    memset(run->memory[2], 0xff, (size_t)run->bytes[2]);
    mgpu_onednn_run(matmul, run->memory[0], run->memory[1], run->memory[2], packed, item->samples - 1, scratch, 0);
    add_result(run, run->memory[2], got, false);
    int64_t per_sample = run->elements[2] / item->samples;
    compare(run, got, run->elements[2] - per_sample, run->elements[2], "the last sample", mgpu_onednn_implementation(matmul));
    for (int64_t i = 0; i < run->elements[2] - per_sample; i++)
        if (!isnan(got[i])) {
            printf("not ok %s: writes other samples\n", item->name);
            failures++;
            break;
        }
    free(packed);
    free(scratch);
    free(got);
    mgpu_onednn_free(matmul);
}

typedef struct Worker {
    const Run *run;
    MgpuLibraryMatmul *matmul;
    int thread;
    char *c;
} Worker;

static void *work(void *context)
{
    Worker *worker = context;
    void *scratch = scratch_for(worker->matmul);
    for (int i = 0; i < 20; i++)
        mgpu_onednn_run(worker->matmul, worker->run->memory[0], worker->run->memory[1], worker->c, NULL, 0, scratch,
                        worker->thread);
    free(scratch);
    return NULL;
}

/* one matmul, several threads at once, each with its own result */
static void run_threads(const Run *run)
{
    MgpuPart want = {.samples = run->item->samples, .index = 0, .count = 1, .threads = THREADS, .any_speed = true};
    MgpuLibraryMatmul *matmul = mgpu_onednn_prepare(run->item->table, &want);
    pthread_t thread[THREADS];
    Worker worker[THREADS];
    for (int i = 0; i < THREADS; i++) {
        worker[i] = (Worker){run, matmul, i, malloc((size_t)run->bytes[2])};
        pthread_create(&thread[i], NULL, work, &worker[i]);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(thread[i], NULL);
        if (memcmp(worker[i].c, worker[0].c, (size_t)run->bytes[2]) != 0) {
            printf("not ok %s: threads differ\n", run->item->name);
            failures++;
        }
    }
    double *got = calloc((size_t)run->elements[2], sizeof *got);
    add_result(run, worker[0].c, got, false);
    compare(run, got, 0, run->elements[2], "threads", mgpu_onednn_implementation(matmul));
    for (int i = 0; i < THREADS; i++)
        free(worker[i].c);
    free(got);
    mgpu_onednn_free(matmul);
}

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* of this process; 1 where there is no /proc */
static int count_threads(void)
{
    DIR *folder = opendir("/proc/self/task");
    int count = 0;
    for (struct dirent *entry; folder != NULL && (entry = readdir(folder)) != NULL;)
        count += entry->d_name[0] != '.';
    if (folder != NULL)
        closedir(folder);
    return folder != NULL ? count : 1;
}

/* a call may cost little more than its work, and must not start threads: 16 x 16 x 16 in less than 10 us of one thread */
static void check_overhead(void)
{
    static const mgpu_axis axis[] = {{16, 16, 0, 16, 0, 0}, {16, 0, 1, 1, 0, 0}, {16, 1, 16, 0, 0, 0}};
    static const mgpu_contraction table = {.m = 1, .n = 1, .k = 1, .axis = axis, .type = MGPU_F32};
    static float a[256], b[256], c[256];
    MgpuPart want = {.samples = 1, .index = 0, .count = 1, .threads = 1, .any_speed = true};
    MgpuLibraryMatmul *matmul = mgpu_onednn_prepare(&table, &want);
    if (matmul == NULL) {
        printf("not ok no small matmul\n");
        failures++;
        return;
    }
    void *scratch = scratch_for(matmul);
    double best = 1;
    for (int i = 0; i < 200; i++) {
        double begin = seconds();
        for (int j = 0; j < 10; j++)
            mgpu_onednn_run(matmul, a, b, c, NULL, 0, scratch, 0);
        double time = (seconds() - begin) / 10;
        best = time < best ? time : best;
    }
    free(scratch);
    mgpu_onednn_free(matmul);
    if (count_threads() != 1) {
        printf("not ok the library has threads of its own\n");
        failures++;
    }
    if (best > 10e-6) {
        printf("not ok a call costs %.1f us\n", best * 1e6);
        failures++;
    }
}

/* 0: no failures; 1; SKIP: no library */
static int test_library(const char *name)
{
    char said[300];
    if (name != NULL)
        setenv("MGPU_ONEDNN", name, 1);
    if (!mgpu_onednn_open(said, sizeof said)) {
        printf("skip %s: %s\n", name, said);
        fflush(stdout);
        return SKIP;
    }
    const char *all = getenv("MGPU_FULL");
    int done = 0, every = all && *all ? 1 : 3; /* of so many matmuls one */
    for (int i = 0; i < case_count; i += every) {
        Run run = {.item = &cases[i]};
        fill(&run);
        if (run_shares(&run, 1, false)) {
            run_shares(&run, 2, true);
            run_shares(&run, 5, false);
            run_shares(&run, 1, true);
            run_last(&run);
            if (done % 7 == 0)
                run_threads(&run);
            done++;
        }
        for (int j = 0; j < 3; j++)
            free(run.memory[j]);
        free(run.expected);
    }
    check_overhead();
    printf("%s %d of %d matmuls, %s\n", failures == 0 ? "ok" : "not ok", done, case_count, said);
    fflush(stdout);
    return failures != 0;
}

/* on a CPU without AVX-512 matmuls of bf16 are not the library's, and some of f32 are */
static int test_narrow(const char *name)
{
    char said[300];
    setenv("MGPU_ONEDNN", name, 1);
    setenv("DNNL_MAX_CPU_ISA", "AVX2", 1);
    setenv("ONEDNN_MAX_CPU_ISA", "AVX2", 1);
    if (!mgpu_onednn_open(said, sizeof said))
        return SKIP;
    int taken[2] = {0, 0};
    for (int i = 0; i < case_count; i++) {
        MgpuPart want = {.samples = cases[i].samples, .index = 0, .count = 1, .threads = 1};
        MgpuLibraryMatmul *matmul = mgpu_onednn_prepare(cases[i].table, &want);
        taken[has_half(&cases[i], 0) || has_half(&cases[i], 1)] += matmul != NULL;
        if (matmul != NULL)
            mgpu_onednn_free(matmul);
    }
    bool good = taken[0] > 0 && taken[1] == 0;
    printf("%s without AVX-512, %s: %d matmuls of f32, %d of bf16\n", good ? "ok" : "not ok", said, taken[0], taken[1]);
    fflush(stdout);
    return !good;
}

/* the compiler's text -> tables */
static void build_tables(void)
{
    Text text = {0};
    char folder[] = "/tmp/onednn_test.XXXXXX";
    if (mkdtemp(folder) == NULL)
        fail(3, "no folder for tables");
    text_add(&text, "#include \"runtime/abi/mgpu_gemm.h\"\n");
    static const char *const CALLED[] = {"mgpu_contract", "mgpu_contract_shared"}; /* never here */
    for (int i = 0; i < COUNT(CALLED); i++)
        text_add(&text,
                 "void %s(const mgpu_contraction *table, void *const *argument, const mgpu_part *part)\n{\n"
                 "    (void)table, (void)argument, (void)part;\n}\n",
                 CALLED[i]);
    for (int i = 0; i < case_count; i++)
        contraction_print(cases[i].plan, format("kernel%d", i), &text);
    text_add(&text, "const mgpu_contraction *const tables[] = {");
    for (int i = 0; i < case_count; i++)
        text_add(&text, "&kernel%d_contraction, ", i);
    text_add(&text, "};\n");
    FILE *file = fopen(format("%s/tables.c", folder), "w");
    fwrite(text.data, 1, text.length, file);
    fclose(file);
    int status = system(format("cc -O0 -w -I%s -fPIC -shared -o %s/tables.so %s/tables.c", MGPU_SOURCE, folder, folder));
    void *handle = status == 0 ? dlopen(format("%s/tables.so", folder), RTLD_NOW) : NULL;
    if (handle == NULL)
        fail(3, "the tables in %s cannot be built: %s", folder, status == 0 ? dlerror() : "the C compiler failed");
    const mgpu_contraction *const *tables = (const mgpu_contraction *const *)dlsym(handle, "tables");
    for (int i = 0; i < case_count; i++)
        cases[i].table = tables[i];
    if (system(format("rm -r %s", folder)) != 0)
        fail(3, "%s cannot be removed", folder);
}

int main(int argc, char **argv)
{
    static const char *const USUAL[] = {NULL, "libdnnl.so.3", "libdnnl.so.2"};
    const char *wish = getenv("MGPU_ONEDNN");
    make_cases();
    build_tables();
    int status = 0, count = argc > 1 ? argc - 1 : COUNT(USUAL);
    for (int i = 0; i < 2 * count; i++) {
        const char *name = argc > 1 ? argv[1 + i / 2] : i < 2 ? wish : USUAL[i / 2];
        if (name == NULL)
            continue;
        fflush(stdout);
        pid_t child = fork();
        if (child == 0)
            _exit(i % 2 ? test_narrow(name) : test_library(name));
        int result;
        if (child < 0 || waitpid(child, &result, 0) != child || !WIFEXITED(result)) {
            printf("not ok %s: the process ended badly\n", name);
            status = 1;
        } else if (WEXITSTATUS(result) != SKIP) {
            status |= WEXITSTATUS(result);
        }
    }
    return status;
}
