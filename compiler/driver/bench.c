/* bench.c: `mgpuc bench`: the table of `mgpuc plan`, measured on this machine. A program is compiled for each batch, in a
 * temporary folder; its bench times each number of devices, and training gives a score, if one is asked for.
 *
 * Machines are noisy, so rows alternate: a round is one run of each. A row's step time is the median over its rounds. */
#include "compiler/driver/command.h"
#include "compiler/driver/plan.h"
#include "compiler/kernel/target.h"
#include "compiler/link/translation_units.h"
#include "compiler/plan/policy.h"
#include "runtime/report/grid.h"
#include "runtime/report/plot.h"
#include "runtime/base/base.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct Bench {
    const Options *options;
    const char *folder;
    Grid grid;
} Bench;

/* ---- rows */
static int64_t whole_number(const char *option, const char *text, int64_t otherwise)
{
    char *end;
    long long n = text ? strtoll(text, &end, 10) : otherwise;
    if (text && (end == text || *end || n < 1 || n > INT32_MAX))
        fail(2, "%s %s: a positive number is expected", option, text);
    return n;
}

/* ascending, including 1, which is the baseline */
static int *list_counts(const Options *o, const Plan *plans, int plan_count, int *number)
{
    enum { POWERS = 32 };
    int *counts = NEW_ARRAY(int, plan_count + POWERS), count = 0, most = plans[plan_count - 1].devices;
    if (!o->devices) { /* all devices here: 1, 2, 4 ... and all */
        for (int k = 1; k < most; k *= 2)
            counts[count++] = k;
        counts[count++] = most;
        *number = count;
        return counts;
    }
    if (plans[0].devices > 1)
        counts[count++] = 1;
    for (int i = 0; i < plan_count; i++)
        counts[count++] = plans[i].devices;
    *number = count;
    return counts;
}

static void add_rows(Bench *b, bool weak, int64_t batch, const int *counts, int count)
{
    int one = b->grid.row_count;
    for (int i = 0; i < count; i++) {
        int64_t all = batch;
        if (weak && (__builtin_mul_overflow(batch, counts[i], &all) || all > INT32_MAX))
            fail(2, "--weak: %lld samples on each of %d devices are more than a batch may have", (long long)batch, counts[i]);
        GridRow row = {.weak = weak, .devices = counts[i], .batch = all, .one = one};
        APPEND(b->grid.rows, b->grid.row_count, row);
    }
}

/* ---- programs: one for each batch */
static const char *program_of(const Bench *b, int64_t batch) { return format("%s/batch%lld", b->folder, (long long)batch); }

static Arguments command_of(const char *program)
{
    Arguments a = {0};
    add_argument(&a, program);
    return a;
}

/* Runs it and returns its output; if it fails, exits with the same status. */
static const char *given_by(const Arguments *a, const char *what)
{
    Text output = {0};
    int status = run_tool(a, &output);
    if (status < 0)
        fail(3, "'%s' cannot be started: %s", a->list[0], strerror(errno));
    if (status) {
        fwrite(text_of(&output), 1, output.length, stderr);
        fail(status == 1 || status == 2 ? status : 3, "%s ended with status %d", what, status);
    }
    return text_of(&output);
}

static void compile(const Bench *b, int64_t batch)
{
    const char *path = program_of(b, batch);
    Arguments a = command_of("/proc/self/exe");
    add_argument(&a, b->options->file);
    Text devices = {0};
    for (int i = 0; i < b->grid.row_count; i++)
        if (b->grid.rows[i].batch == batch)
            text_add(&devices, "%s%s:%d", devices.length ? "," : "", b->grid.kind, b->grid.rows[i].devices);
    add_argument(&a, format("--devices=%s", text_of(&devices)));
    compile_words(b->options, &a.list, &a.count);
    add_argument(&a, format("--set=batch=%lld", (long long)batch));
    add_argument(&a, format("--output=%s", path));
    temporary_add(path);
    given_by(&a, format("compiling for a batch of %lld", (long long)batch));
}

static bool is_first_of_batch(const Bench *b, int row)
{
    for (int i = 0; i < row; i++)
        if (b->grid.rows[i].batch == b->grid.rows[row].batch)
            return false;
    return true;
}

/* ---- runs */
static double number_of(const Json *object, const char *key)
{
    const Json *found = object && object->kind == JSON_OBJECT ? mgpu_json_member(object, key) : NULL;
    return found && found->kind == JSON_NUMBER ? found->number : 0;
}

/* A program prints its JSON last, after any warnings. */
static const Json *last_object(const char *output)
{
    const char *line = output, *error;
    for (const char *at = output; (at = strstr(at, "\n{")); at++)
        line = at + 1;
    return mgpu_json_read(line, strlen(line), &error);
}

static const char *name_of_row(const GridRow *r)
{
    return format("%d device%s with a batch of %lld", r->devices, r->devices == 1 ? "" : "s", (long long)r->batch);
}

static void time_steps(Bench *b, GridRow *r, int round)
{
    Arguments a = command_of(program_of(b, r->batch));
    add_argument(&a, "bench");
    add_argument(&a, "--json");
    add_argument(&a, "--devices");
    add_argument(&a, format("%d", r->devices));
    add_argument(&a, "--steps");
    add_argument(&a, format("%lld", (long long)b->grid.steps));
    const Json *found = last_object(given_by(&a, format("bench of %s", name_of_row(r))));
    const Json *times = found && found->kind == JSON_OBJECT ? mgpu_json_member(found, "step_ms") : NULL;
    if (!times || times->kind != JSON_LIST || !times->first || !times->first->next)
        die("bench of %s says no times", name_of_row(r));
    r->ms[round] = times->first->next->number;
    r->predicted_ms = number_of(found, "predicted_ms");
    r->from = mgpu_json_text(found, "predicted_from");
    b->grid.virtual = mgpu_json_member(found, "virtual") != NULL;
}

/* Finds the last record of its log with the metric, of validation if there is one. */
static void find_score(const char *log, const char *metric, GridRow *r)
{
    bool found = false, validated = false;
    size_t length;
    char *text = read_file(log, &length);
    if (!text)
        fail(3, "%s cannot be read: %s", log, strerror(errno));
    for (char *line = text, *end; line < text + length; line = end + 1) {
        end = memchr(line, '\n', (size_t)(text + length - line));
        if (!end)
            break;
        const char *error;
        const Json *record = mgpu_json_read(line, (size_t)(end - line), &error);
        const Json *event = record && record->kind == JSON_OBJECT ? mgpu_json_member(record, "event") : NULL;
        bool eval = event && event->kind == JSON_TEXT && strcmp(event->text, "eval") == 0;
        if (!eval && (validated || !event || event->kind != JSON_TEXT || strcmp(event->text, "epoch") != 0))
            continue;
        const Json *from = strcmp(metric, "loss") == 0 ? record : mgpu_json_member(record, "metrics");
        const Json *value = from && from->kind == JSON_OBJECT ? mgpu_json_member(from, metric) : NULL;
        if (!value || (value->kind != JSON_NUMBER && value->kind != JSON_NULL))
            continue;
        r->score = value->kind == JSON_NUMBER ? value->number : NAN; /* JSON has no number for it */
        found = true;
        validated = validated || eval;
    }
    if (!found)
        fail(1, "--metric %s: a run has no metric of this name; './train info' of the program lists them", metric);
}

static void train(const Bench *b, GridRow *r)
{
    const char *log = format("%s/log", b->folder);
    temporary_add(log);
    unlink(log);
    Arguments a = command_of(program_of(b, r->batch));
    const char *words[] = {"--devices",
                           format("%d", r->devices),
                           "--epochs",
                           b->options->epochs,
                           "--no-save",
                           "--log",
                           log,
                           "--data",
                           b->options->data ? b->options->data : "."};
    for (int i = 0; i < COUNT(words); i++)
        add_argument(&a, words[i]);
    given_by(&a, format("training on %s", name_of_row(r)));
    find_score(log, b->grid.metric, r);
}

/* ---- as SVG: samples per second, and the score, over devices; a line for each batch */
enum { PLOT_WIDTH = 560, PLOT_HEIGHT = 340 };
typedef enum Curve { CURVE_MEASURED, CURVE_PREDICTED, CURVE_SCORE } Curve;

static double value_of(const GridRow *r, Curve what)
{
    double predicted = r->predicted_ms > 0 ? 1e3 * (double)r->batch / r->predicted_ms : NAN;
    return what == CURVE_MEASURED ? mgpu_grid_rate(r) : what == CURVE_PREDICTED ? predicted : r->score;
}

/* Adds the rows of a batch: those after its first, which has one device. */
static void add_curve(const Bench *b, int first, int last, int colour, Curve what, Plot *plot)
{
    const GridRow *one = &b->grid.rows[first];
    double *x = NEW_ARRAY(double, last - first), *y = NEW_ARRAY(double, last - first);
    for (int i = first; i < last; i++) {
        x[i - first] = b->grid.rows[i].devices;
        y[i - first] = value_of(&b->grid.rows[i], what);
    }
    const char *name = what == CURVE_PREDICTED
                           ? NULL
                           : format("%s, batch %lld%s", mgpu_grid_scaling(one), (long long)one->batch, one->weak ? " each" : "");
    APPEND(plot->lines, plot->line_count,
           ((PlotLine){.name = name,
                       .x = x,
                       .y = y,
                       .count = last - first,
                       .colour = colour,
                       .points = what != CURVE_PREDICTED,
                       .dashed = what == CURVE_PREDICTED}));
}

static void write_curves(const Bench *b, const char *file)
{
    Plot plots[2] = {
        {.title = format("%s, %s%s: samples a second, measured; dashed: predicted for %s", b->grid.model, b->grid.precision,
                         policy_text(b->options), b->grid.machine),
         .x_label = "devices",
         .from_zero = true},
        {.title = b->grid.metric ? format("%s after %s epochs", b->grid.metric, b->options->epochs) : "", .x_label = "devices"}};
    for (int first = 0, last, colour = 0; first < b->grid.row_count; first = last, colour++) {
        for (last = first + 1; last < b->grid.row_count && b->grid.rows[last].one == first;)
            last++;
        add_curve(b, first, last, colour, CURVE_MEASURED, &plots[0]);
        add_curve(b, first, last, colour, CURVE_PREDICTED, &plots[0]);
        if (b->grid.metric)
            add_curve(b, first, last, colour, CURVE_SCORE, &plots[1]);
    }
    int count = b->grid.metric ? 2 : 1;
    char *svg;
    size_t length;
    Sheet sheet = {.f = mgpu_begin_text(&svg, &length)};
    mgpu_svg_begin(PLOT_WIDTH, count * PLOT_HEIGHT, format("bench of %s", b->grid.model), &sheet);
    for (int i = 0; i < count; i++)
        mgpu_plot_svg(&plots[i], (Box){0, i * PLOT_HEIGHT, PLOT_WIDTH, PLOT_HEIGHT}, &sheet);
    fputs("</svg>\n", sheet.f);
    mgpu_end_text(sheet.f);
    Text t = {0};
    text_bytes(&t, svg, length);
    mgpu_sheet_end(&sheet);
    free(svg);
    write_text(file, &t);
}

/* ---- the command */
/* Checks the model, so that its warnings are printed once. */
static int64_t check_model(Bench *b)
{
    Memory *own = memory_new(), *outer = memory_use(own);
    Options one = *b->options;
    one.devices = format("%s:1", b->grid.kind);
    const Model *m = make_schedules(&one, NULL)->model;
    int64_t batch = m->batch;
    if (!m->train)
        fail(1, "%s has no loss: what bench measures is a step that trains; mgpuc plan says how fast it predicts",
             b->options->file);
    memory_use(outer);
    b->grid.model = copy_text(m->name, strlen(m->name));
    b->grid.precision = dtype_name(m->precision);
    memory_free(own);
    return batch;
}

int command_bench(const Options *o)
{
    Plan *plans;
    int plan_count, count;
    int64_t batches[MOST_BATCHES];
    const Policy *policy = policy_of(o);
    Bench b = {.options = o,
               .grid = {.metric = o->metric   ? o->metric
                                  : o->epochs ? "loss"
                                              : NULL,
                        .steps = whole_number("--steps", o->steps, 20),
                        .policy = policy_is_auto(policy) ? NULL : policy->name,
                        .policy_label = policy_label(policy)}};
    whole_number("--epochs", o->epochs, 1);
    if (!o->epochs && (o->metric || o->data))
        fail(2, "%s is of a run: say how long it trains with --epochs", o->metric ? "--metric" : "--data");
    if (o->csv && o->json)
        fail(2, "--csv and --json: one of them");
    if (selected_gpus(o->devices))
        fail(2, "--devices %s: numbers of devices are expected, as in cuda:1,2,4; CUDA_VISIBLE_DEVICES says which GPUs they are",
             o->devices);
    b.grid.kind = parse_devices(o->devices, NULL, &plans, &plan_count)->name;
    b.grid.machine = planned_name(o, strcmp(b.grid.kind, "host") == 0);
    const int *counts = list_counts(o, plans, plan_count, &count);
    int batch_count = read_batches(o->batches, batches);
    int64_t batch = check_model(&b);
    if (!batch_count)
        batches[batch_count++] = batch;
    for (int weak = 0; weak < 2; weak++)
        for (int i = 0; i < batch_count && (weak ? o->weak : o->strong || !o->weak); i++)
            add_rows(&b, weak, batches[i], counts, count);
    b.folder = temporary_folder();
    for (int i = 0; i < b.grid.row_count; i++)
        if (is_first_of_batch(&b, i))
            compile(&b, b.grid.rows[i].batch);
    for (int round = 0; round < MGPU_ROUNDS; round++)
        for (int i = 0; i < b.grid.row_count; i++)
            time_steps(&b, &b.grid.rows[i], round);
    mgpu_grid_end(&b.grid);
    for (int i = 0; i < b.grid.row_count && b.grid.metric; i++)
        train(&b, &b.grid.rows[i]);
    if (o->svg)
        write_curves(&b, o->svg);
    (o->json ? mgpu_grid_json : o->csv ? mgpu_grid_csv : mgpu_grid_print)(&b.grid, stdout);
    return 0;
}
