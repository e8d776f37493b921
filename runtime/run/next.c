/* next.c: computes what follows each of several texts side by side.
 *
 * A text occupies a sample of each step. The model's window has the last elements of the text from its first position on, and
 * the output row at the last of them is the result. Later positions are 0; check_order tests that they do not matter. While a
 * text fits into the window, a program with the phase `decode` computes only the row of one position (decode.c), if check_decoder
 * has found that its rows equal those of the window for the first text. Otherwise each element takes a pass over all of it.
 *
 * Texts are distributed evenly over the devices, which compute their samples up to the last one with a text. The rows of a text
 * depend on other texts only by rounding, since the order of sums in matmuls depends on the number of samples. */
#include "runtime/run/next.h"
#include "runtime/base/base.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const int64_t MOST_RESULTS = (int64_t)1 << 30; /* limit of the bytes of window outputs, unless one has more */

static int64_t row_bytes(const Next *n, uint8_t dtype) { return n->input->classes * mgpu_dtype_bytes(dtype); }

/* Returns how many elements of the text are in the window. */
static int64_t in_window(const Next *n, const NextText *t)
{
    int64_t length = n->input->tensor.extent[0];
    return t->text.count < length ? t->text.count : length;
}

static bool fits(const Next *n, const NextText *t) { return t->text.count <= n->input->tensor.extent[0]; }

/* ---- the sample of a text */
/* Returns the first free sample below `end` on the device with the fewest texts, or -1. */
static int64_t free_sample(const mgpu_plan *plan, NextText *const *at, int64_t end)
{
    int64_t best = -1, fewest = INT64_MAX;
    for (int d = 0; d < plan->devices; d++) {
        const mgpu_shard *s = &plan->device[d].shard;
        int64_t used = 0, first = -1;
        for (int64_t i = s->first; i < s->first + s->share && i < end; i++) {
            used += at[i] != NULL;
            first = at[i] || first >= 0 ? first : i;
        }
        if (first >= 0 && used < fewest) {
            best = first;
            fewest = used;
        }
    }
    return best;
}

static int device_of(const mgpu_plan *plan, int64_t sample)
{
    int d = 0;
    while (sample >= plan->device[d].shard.first + plan->device[d].shard.share)
        d++;
    return d;
}

/* Returns how many samples each device computes: up to the last one of a text in n->now. */
static const int64_t *count_valid(Next *n)
{
    const mgpu_plan *plan = n->feed.plan;
    memset(n->valid, 0, (size_t)plan->devices * sizeof *n->valid);
    for (int64_t i = 0; i < plan->micro; i++)
        if (n->now[i]) {
            int d = device_of(plan, i);
            n->valid[d] = i - plan->device[d].shard.first + 1;
        }
    return n->valid;
}

/* Gathers n->rows, of which each process has those of its devices, so that all processes continue with the same texts. */
static void distribute_rows(const Next *n, int64_t bytes)
{
    Processes *p = n->processes;
    int64_t at[mgpu_ranks(p) + 1], rows = 0;
    for (int r = 0; p && r < p->count; r++) {
        mgpu_range own = mgpu_samples_of(p, n->feed.plan, r);
        at[r] = rows * bytes;
        for (int64_t i = own.begin; i < own.end; i++)
            rows += n->now[i] != NULL;
    }
    at[mgpu_ranks(p)] = rows * bytes;
    if (p)
        p->gather(p, n->rows, at);
}

static double *read_row(const Next *n, const uint8_t *from, uint8_t dtype, double *row)
{
    for (int64_t c = 0; c < n->input->classes; c++)
        row[c] = mgpu_to_double(from, dtype, c);
    return row;
}

/* ---- steps */
/* Computes the windows of n->now, with the element `rest` after each text. */
static void pass(Next *n, int32_t rest)
{
    int64_t length = n->input->tensor.extent[0], end = 0;
    for (int64_t i = 0; i < n->feed.plan->micro; i++) {
        const NextText *t = n->now[i];
        int64_t count = t ? in_window(n, t) : 0;
        for (int64_t k = 0; t && k < length; k++)
            n->window[i * length + k] = k < count ? (int32_t)t->text.of[t->text.count - count + k] : rest;
        end = t ? i + 1 : end;
    }
    int which = (int)(n->output - n->program->outputs);
    if (end > n->windows) {
        free(n->result[which]);
        n->result[which] = mgpu_allocate((size_t)end, (size_t)mgpu_tensor_bytes(n->output));
        n->windows = end;
    }
    Batch batch = {
        .set = &n->data, .samples = n->feed.plan->micro, .applied = n->feed.applied, .fetch = n->result, .valid = count_valid(n)};
    mgpu_post(&n->feed, MGPU_PHASE_PREDICT, &batch, 0);
    mgpu_engine_drain(n->feed.engine);
}

static uint8_t *window_row(const Next *n, int64_t sample, int64_t place)
{
    return n->result[n->output - n->program->outputs] + sample * mgpu_tensor_bytes(n->output) +
           place * row_bytes(n, n->output->dtype);
}

/* Decodes the next position of each text in n->now. */
static void decode(Next *n)
{
    for (int64_t i = 0; i < n->feed.plan->micro; i++) {
        NextText *t = n->now[i];
        n->decoder.token[i] = t ? (int32_t)t->text.of[t->decoded] : 0;
        n->decoder.place[i] = t ? (int32_t)t->decoded++ : 0;
    }
    mgpu_decode(&n->decoder, count_valid(n));
}

/* Reads the rows of the last decoded positions of the texts in n->now. */
static void fetch_rows(Next *n)
{
    int64_t rows = 0, bytes = row_bytes(n, n->program->variables[n->decoder.row].tensor.dtype);
    for (int64_t i = 0; i < n->feed.plan->micro; i++) {
        int d = n->now[i] ? device_of(n->feed.plan, i) : 0;
        if (n->now[i] && mgpu_engine_has(n->feed.engine, d))
            mgpu_decoded_row(&n->decoder, d, i, n->rows + rows * bytes);
        rows += n->now[i] != NULL;
    }
    distribute_rows(n, bytes);
}

/* Keeps the texts in n->now whose last element has been decoded. Returns their number. */
static int64_t store_decoded(Next *n)
{
    int64_t kept = 0;
    for (int64_t i = 0; i < n->feed.plan->micro; i++) {
        if (n->now[i] && n->now[i]->decoded < n->now[i]->text.count)
            n->now[i] = NULL;
        kept += n->now[i] != NULL;
    }
    return kept;
}

static void give_rows(Next *n, uint8_t dtype, TakeRow *take, void *context)
{
    int64_t rows = 0;
    for (int64_t i = 0; i < n->feed.plan->micro; i++)
        if (n->now[i])
            take(context, n->now[i], read_row(n, n->rows + rows++ * row_bytes(n, dtype), dtype, n->row));
}

/* Computes texts as whole windows, as many at a time as fit into memory. */
static void step_by_windows(Next *n, NextText **texts, int64_t count, TakeRow *take, void *context)
{
    int64_t micro = n->feed.plan->micro, most = MOST_RESULTS / mgpu_tensor_bytes(n->output),
            bytes = row_bytes(n, n->output->dtype);
    for (int64_t done = 0, rows = 0; done < count; rows = 0) {
        memset(n->now, 0, (size_t)micro * sizeof *n->now);
        for (int64_t i; done < count && (i = free_sample(n->feed.plan, n->now, most < 1 ? 1 : most < micro ? most : micro)) >= 0;)
            n->now[i] = texts[done++];
        pass(n, 0);
        for (int64_t i = 0; i < micro; i++)
            if (n->now[i])
                memcpy(n->rows + rows++ * bytes, window_row(n, i, in_window(n, n->now[i]) - 1), (size_t)bytes);
        distribute_rows(n, bytes);
        give_rows(n, n->output->dtype, take, context);
    }
}

/* Selects the texts that can be decoded, or the others. Returns their number. */
static int64_t choose(Next *n, bool decoded)
{
    int64_t count = 0;
    for (int64_t i = 0; i < n->feed.plan->micro; i++) {
        NextText *t = n->at[i];
        n->now[i] = t && (n->decodes && fits(n, t)) == decoded ? t : NULL;
        count += n->now[i] != NULL;
    }
    return count;
}

/* Rows that check_decoder has decoded are not decoded again. */
static void step_by_places(Next *n, TakeRow *take, void *context)
{
    if (!choose(n, true))
        return;
    if (!store_decoded(n)) {
        choose(n, true);
        decode(n);
        store_decoded(n);
    }
    fetch_rows(n);
    give_rows(n, n->program->variables[n->decoder.row].tensor.dtype, take, context);
}

void mgpu_step_next(Next *n, TakeRow *take, void *context)
{
    int64_t count = choose(n, false), k = 0;
    NextText **others = mgpu_allocate((size_t)count + 1, sizeof *others);
    for (int64_t i = 0; i < n->feed.plan->micro; i++)
        if (n->now[i])
            others[k++] = n->now[i];
    step_by_places(n, take, context);
    step_by_windows(n, others, count, take, context);
    free(others);
}

/* ---- tests of the shortcuts */
static double largest(const double *a, int64_t count)
{
    double most = 0;
    for (int64_t k = 0; k < count; k++)
        most = fabs(a[k]) <= most ? most : fabs(a[k]);
    return most;
}

/* Returns the difference of two rows, relative to the largest element if that is above 1, as in logits. Overwrites b. */
static double difference(const Next *n, const double *a, double *b)
{
    double scale = fmax(1, largest(b, n->input->classes));
    for (int64_t c = 0; c < n->input->classes; c++)
        b[c] -= a[c];
    return largest(b, n->input->classes) / scale;
}

/* Computes the window of one text in the first sample, and gathers its rows for all processes. */
static void run_single_pass(Next *n, NextText *t, int32_t rest)
{
    Processes *p = n->processes;
    int64_t at[mgpu_ranks(p) + 1], bytes = in_window(n, t) * row_bytes(n, n->output->dtype);
    memset(n->now, 0, (size_t)n->feed.plan->micro * sizeof *n->now);
    n->now[0] = t;
    pass(n, rest);
    at[0] = 0;
    for (int r = 0; r < mgpu_ranks(p); r++) {
        mgpu_range its = mgpu_samples_of(p, n->feed.plan, r);
        at[r + 1] = at[r] + (its.begin == 0 && its.end > 0 ? bytes : 0);
    }
    if (p)
        p->gather(p, window_row(n, 0, 0), at);
}

/* Fails if positions after the text matter. */
static void check_order(Next *n, NextText *t)
{
    double *other = mgpu_allocate((size_t)n->input->classes, sizeof *other);
    int64_t last = in_window(n, t) - 1;
    run_single_pass(n, t, (int32_t)n->input->classes - 1);
    read_row(n, window_row(n, 0, last), n->output->dtype, other);
    run_single_pass(n, t, 0);
    read_row(n, window_row(n, 0, last), n->output->dtype, n->row);
    if (difference(n, n->row, other) > 1e-3)
        mgpu_fail(MGPU_BAD_INPUT,
                  "the output '%s' depends on places after the one it is for, so it cannot go on with a text: "
                  "transformer(..., causal = true), gru and lstm see earlier places only",
                  n->output->name);
    free(other);
}

/* Returns whether decoding position by position gives the rows of the window, whose outputs have been computed. */
static bool check_decoder(Next *n, NextText *t, int64_t sample)
{
    const char *precision = n->program->precision;
    double allowed = strcmp(precision, "f64") == 0 ? 1e-10 : strcmp(precision, "f32") == 0 ? 1e-3 : 5e-2, most = 0;
    if (!mgpu_open_decoder(&n->decoder, &n->feed))
        return false;
    double *other = mgpu_allocate((size_t)n->input->classes, sizeof *other);
    while (t->decoded < t->text.count && most <= allowed) {
        memset(n->now, 0, (size_t)n->feed.plan->micro * sizeof *n->now);
        n->now[sample] = t;
        read_row(n, window_row(n, 0, t->decoded), n->output->dtype, other);
        decode(n);
        fetch_rows(n);
        read_row(n, n->rows, n->program->variables[n->decoder.row].tensor.dtype, n->row);
        most = difference(n, n->row, other);
    }
    free(other);
    if (most > allowed)
        fprintf(stderr,
                "%s: place %lld alone gives other probabilities than the whole window (by %.2g), so each token is "
                "computed with all of the window\n",
                n->program->model_file, (long long)t->decoded, most);
    return most <= allowed;
}

/* ---- texts */
void mgpu_begin_next(Next *n, NextText *t)
{
    int64_t sample = free_sample(n->feed.plan, n->at, n->feed.plan->micro);
    if (sample < 0)
        mgpu_die("more texts than samples");
    n->at[sample] = t;
    if (n->checked || (n->ordered && !fits(n, t)))
        return;
    check_order(n, t);
    n->ordered = true;
    n->checked = fits(n, t);
    n->decodes = n->checked && check_decoder(n, t, sample);
}

void mgpu_end_next(Next *n, NextText *t)
{
    for (int64_t i = 0; i < n->feed.plan->micro; i++)
        if (n->at[i] == t)
            n->at[i] = NULL;
}

/* Opens a data set of the windows of a step. */
static void open_windows(Next *n, const bool *wanted)
{
    int64_t length = n->input->tensor.extent[0], micro = n->feed.plan->micro;
    n->window = mgpu_allocate((size_t)(micro * length), sizeof *n->window);
    Array a = {.dtype = MGPU_I32,
               .rank = 1,
               .extent = {length},
               .samples = micro,
               .sample_bytes = length * (int64_t)sizeof *n->window,
               .data = (const uint8_t *)n->window,
               .owned = n->window};
    n->data = (Dataset){.name = "generate",
                        .program = n->program,
                        .stream = mgpu_array_stream(&(Opening){.program = n->program, .where = ""}, 1)};
    mgpu_set_array(n->data.stream, 0, n->input->tensor.name, n->input, &a, "the text", "");
    mgpu_bind_set(&n->data, wanted, NULL);
}

void mgpu_open_next(Next *n, const mgpu_program *program, const Feed *feed, Processes *processes, const mgpu_input *input,
                    int output, const bool *wanted)
{
    size_t micro = (size_t)feed->plan->micro, classes = (size_t)input->classes;
    *n = (Next){.program = program, .input = input, .output = &program->outputs[output], .feed = *feed, .processes = processes};
    n->at = mgpu_allocate(micro, sizeof *n->at);
    n->now = mgpu_allocate(micro, sizeof *n->now);
    n->valid = mgpu_allocate((size_t)feed->plan->devices, sizeof *n->valid);
    n->rows = mgpu_allocate(micro * classes, sizeof *n->row); /* of any type */
    n->row = mgpu_allocate(classes, sizeof *n->row);
    n->result = mgpu_allocate((size_t)program->output_count, sizeof *n->result);
    open_windows(n, wanted);
}

void mgpu_close_next(Next *n)
{
    mgpu_close_set(&n->data);
    mgpu_close_decoder(&n->decoder);
    free(n->result[n->output - n->program->outputs]);
    free(n->result);
    free(n->at);
    free(n->now);
    free(n->valid);
    free(n->rows);
    free(n->row);
}
