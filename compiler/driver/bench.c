/* bench.c: `mgpuc bench`: the table of `mgpuc plan`, measured on this machine. A program is compiled for each batch, in a folder that
 * goes when mgpuc ends; its bench times each number of devices, and its training brings a score, where one is asked for.
 *
 * A machine is never quiet, so all rows take turns: a round is one run of each. A row's step time is the median over its rounds. */
#include "compiler/driver/command.h"
#include "compiler/driver/plan.h"
#include "compiler/kernel/target.h"
#include "compiler/link/units.h"
#include "compiler/plan/policy.h"
#include "runtime/report/plot.h"
#include "runtime/base/base.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ROUNDS = 3, BAR = 40 };

typedef struct BenchRow {
    bool weak;
    int devices;
    int64_t batch;
    double ms[ROUNDS];      /* medians of the rounds, ascending in the end */
    double predicted_ms;    /* 0: nothing is predicted */
    double score;           /* of the metric; only with --epochs */
    int one;                /* the row of one device that it is compared with */
} BenchRow;

typedef struct Bench {
    const Options *options;
    const char *folder, *kind, *model, *precision, *metric, *machine;
    BenchRow *rows; int row_count;
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

/* in ascending order, 1 among them: the others are compared with it */
static int *list_counts(const Options *o, const Plan *plans, int plan_count, int *number)
{
    enum { POWERS = 32 };
    int *counts = NEW_ARRAY(int, plan_count + POWERS), count = 0, most = plans[plan_count - 1].devices;
    if (!o->devices) { /* all that are here: 1, 2, 4 ... and all */
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
    int one = b->row_count;
    for (int i = 0; i < count; i++) {
        int64_t all = batch;
        if (weak && (__builtin_mul_overflow(batch, counts[i], &all) || all > INT32_MAX))
            fail(2, "--weak: %lld samples on each of %d devices are more than a batch may have", (long long)batch, counts[i]);
        BenchRow row = {.weak = weak, .devices = counts[i], .batch = all, .one = one};
        APPEND(b->rows, b->row_count, row);
    }
}

/* ---- programs: one for each batch */
static const char *program_of(const Bench *b, int64_t batch)
{
    return format("%s/batch%lld", b->folder, (long long)batch);
}

static Arguments command_of(const char *program)
{
    Arguments a = {0};
    add_argument(&a, program);
    return a;
}

/* runs it, and fails as it fails */
static const char *said_by(const Arguments *a, const char *what)
{
    Text said = {0};
    int status = tool_says(a, &said);
    if (status < 0)
        fail(3, "'%s' cannot be started: %s", a->list[0], strerror(errno));
    if (status) {
        fwrite(text_of(&said), 1, said.length, stderr);
        fail(status == 1 || status == 2 ? status : 3, "%s ended with status %d", what, status);
    }
    return text_of(&said);
}

static void compile(const Bench *b, int64_t batch)
{
    const char *path = program_of(b, batch);
    Arguments a = command_of("/proc/self/exe");
    add_argument(&a, b->options->file);
    Text devices = {0};
    for (int i = 0; i < b->row_count; i++)
        if (b->rows[i].batch == batch)
            text_add(&devices, "%s%s:%d", devices.length ? "," : "", b->kind, b->rows[i].devices);
    add_argument(&a, format("--devices=%s", text_of(&devices)));
    compile_words(b->options, &a.list, &a.count);
    add_argument(&a, format("--set=batch=%lld", (long long)batch));
    add_argument(&a, format("--output=%s", path));
    temporary_add(path);
    said_by(&a, format("compiling for a batch of %lld", (long long)batch));
}

static bool is_first_of_batch(const Bench *b, int row)
{
    for (int i = 0; i < row; i++)
        if (b->rows[i].batch == b->rows[row].batch)
            return false;
    return true;
}

/* ---- runs */
static double number_of(const Json *object, const char *key)
{
    const Json *found = object && object->kind == JSON_OBJECT ? mgpu_json_member(object, key) : NULL;
    return found && found->kind == JSON_NUMBER ? found->number : 0;
}

/* a program says its JSON last, whatever it warns of before */
static const Json *last_object(const char *said)
{
    const char *line = said, *error;
    for (const char *at = said; (at = strstr(at, "\n{")); at++)
        line = at + 1;
    return mgpu_json_read(line, strlen(line), &error);
}

static const char *name_of_row(const BenchRow *r)
{
    return format("%d device%s with a batch of %lld", r->devices, r->devices == 1 ? "" : "s", (long long)r->batch);
}

static void time_steps(const Bench *b, BenchRow *r, int round)
{
    Arguments a = command_of(program_of(b, r->batch));
    add_argument(&a, "bench");
    add_argument(&a, "--json");
    add_argument(&a, "--devices");
    add_argument(&a, format("%d", r->devices));
    add_argument(&a, "--steps");
    add_argument(&a, b->options->steps ? b->options->steps : "20");
    const Json *found = last_object(said_by(&a, format("bench of %s", name_of_row(r))));
    const Json *times = found && found->kind == JSON_OBJECT ? mgpu_json_member(found, "step_ms") : NULL;
    if (!times || times->kind != JSON_LIST || !times->first || !times->first->next)
        die("bench of %s says no times", name_of_row(r));
    r->ms[round] = times->first->next->number;
    r->predicted_ms = number_of(found, "predicted_ms");
}

/* the last record of its log that has the metric: of validation, if there is one */
static void find_score(const char *log, const char *metric, BenchRow *r)
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

static void train(const Bench *b, BenchRow *r)
{
    const char *log = format("%s/log", b->folder);
    temporary_add(log);
    unlink(log);
    Arguments a = command_of(program_of(b, r->batch));
    const char *words[] = {"--devices", format("%d", r->devices), "--epochs", b->options->epochs, "--no-save", "--log", log,
                           "--data", b->options->data ? b->options->data : "."};
    for (int i = 0; i < COUNT(words); i++)
        add_argument(&a, words[i]);
    said_by(&a, format("training on %s", name_of_row(r)));
    find_score(log, b->metric, r);
}

/* ---- what is printed */
static int compare(const void *x, const void *y)
{
    double a = *(const double *)x, b = *(const double *)y;
    return (a > b) - (a < b);
}

static double median_ms(const BenchRow *r) { return r->ms[ROUNDS / 2]; }
static double rate_of(const BenchRow *r) { return 1e3 * (double)r->batch / median_ms(r); }
static double speed_up(const Bench *b, const BenchRow *r) { return rate_of(r) / rate_of(&b->rows[r->one]); }
static const char *scaling(const BenchRow *r) { return r->weak ? "weak" : "strong"; }
static double error_of(const BenchRow *r) { return 100 * (r->predicted_ms / median_ms(r) - 1); }

static const char *each_text(const BenchRow *r)
{
    int64_t least = r->batch / r->devices, most = (r->batch + r->devices - 1) / r->devices;
    return least == most ? format("%lld", (long long)most) : format("%lld-%lld", (long long)least, (long long)most);
}

static void print_table(const Bench *b, Text *t)
{
    text_add(t, "%s, %s%s; medians of %d runs of %s steps, which took turns; predicted for %s\n\n", b->model, b->precision, policy_said(b->options), ROUNDS,
             b->options->steps ? b->options->steps : "20", b->machine);
    text_add(t, "%-7s %7s %7s %9s %10s %10s %10s %11s %8s %10s %12s %7s", "scaling", "devices", "batch", "each", "step ms", "least", "most", "samples/s",
             "speed-up", "efficiency", "predicted ms", "off by");
    if (b->metric)
        text_add(t, " %10s", b->metric);
    text_add(t, "\n");
    double most = 0;
    for (int i = 0; i < b->row_count; i++) {
        const BenchRow *r = &b->rows[i];
        text_add(t, "%-7s %7d %7lld %9s %10.3f %10.3f %10.3f %11.1f %8.2f %9.1f%%", scaling(r), r->devices, (long long)r->batch, each_text(r), median_ms(r),
                 r->ms[0], r->ms[ROUNDS - 1], rate_of(r), speed_up(b, r), 100 * speed_up(b, r) / r->devices);
        if (r->predicted_ms > 0)
            text_add(t, " %12.3f %6.0f%%", r->predicted_ms, error_of(r));
        else
            text_add(t, " %12s %7s", "-", "-");
        if (b->metric)
            text_add(t, " %10.6g", r->score);
        text_add(t, "\n");
        most = rate_of(r) > most ? rate_of(r) : most;
    }
    text_add(t, "\nsamples/s\n");
    for (int i = 0; i < b->row_count; i++) {
        const BenchRow *r = &b->rows[i];
        int length = (int)ceil(BAR * rate_of(r) / most);
        text_add(t, "%-7s %3d x %-6s |%.*s%*s %.1f\n", scaling(r), r->devices, each_text(r), length, "========================================",
                 BAR - length, "", rate_of(r));
    }
}

static void print_csv(const Bench *b, Text *t)
{
    text_add(t, "scaling,devices,batch,step_ms,least_ms,most_ms,samples_per_s,speed_up,efficiency,predicted_ms%s%s\n", b->metric ? "," : "",
             b->metric ? b->metric : "");
    for (int i = 0; i < b->row_count; i++) {
        const BenchRow *r = &b->rows[i];
        text_add(t, "%s,%d,%lld,%.9g,%.9g,%.9g,%.9g,%.9g,%.9g,", scaling(r), r->devices, (long long)r->batch, median_ms(r), r->ms[0], r->ms[ROUNDS - 1],
                 rate_of(r), speed_up(b, r), speed_up(b, r) / r->devices);
        if (r->predicted_ms > 0)
            text_add(t, "%.9g", r->predicted_ms);
        if (b->metric)
            text_add(t, ",%.9g", r->score);
        text_add(t, "\n");
    }
}

static void print_json(const Bench *b, Text *t)
{
    text_add(t, "{\"model\":");
    json_text(t, b->model);
    text_add(t, ",\"kind\":\"%s\",\"precision\":\"%s\",\"plan\":\"%s\",\"plan_label\":%s,\"machine\":", b->kind, b->precision, policy_of(b->options)->name,
             policy_label(policy_of(b->options)) ? format("\"%s\"", policy_label(policy_of(b->options))) : "null");
    json_text(t, b->machine);
    text_add(t, ",\"runs\":%d,\"metric\":", ROUNDS);
    if (b->metric)
        json_text(t, b->metric);
    else
        text_add(t, "null");
    text_add(t, ",\"rows\":[");
    for (int i = 0; i < b->row_count; i++) {
        const BenchRow *r = &b->rows[i];
        text_add(t, "%s{\"scaling\":\"%s\",\"devices\":%d,\"batch\":%lld,\"step_ms\":%.9g,\"least_ms\":%.9g,\"most_ms\":%.9g,\"samples_per_s\":%.9g,", i ? "," : "",
                 scaling(r), r->devices, (long long)r->batch, median_ms(r), r->ms[0], r->ms[ROUNDS - 1], rate_of(r));
        text_add(t, "\"speed_up\":%.9g,\"efficiency\":%.9g,\"predicted_ms\":%s,\"score\":%s}", speed_up(b, r), speed_up(b, r) / r->devices,
                 r->predicted_ms > 0 ? format("%.9g", r->predicted_ms) : "null", b->metric && isfinite(r->score) ? format("%.9g", r->score) : "null");
    }
    text_add(t, "]}\n");
}

/* ---- as SVG: samples a second, and the score, over devices; a line for each batch */
enum { PLOT_WIDTH = 560, PLOT_HEIGHT = 340 };
typedef enum Curve { CURVE_MEASURED, CURVE_PREDICTED, CURVE_SCORE } Curve;

static double value_of(const BenchRow *r, Curve what)
{
    double predicted = r->predicted_ms > 0 ? 1e3 * (double)r->batch / r->predicted_ms : NAN;
    return what == CURVE_MEASURED ? rate_of(r) : what == CURVE_PREDICTED ? predicted : r->score;
}

/* the rows of a batch: those after its first, which has one device */
static void add_curve(const Bench *b, int first, int last, int colour, Curve what, Plot *plot)
{
    const BenchRow *one = &b->rows[first];
    double *x = NEW_ARRAY(double, last - first), *y = NEW_ARRAY(double, last - first);
    for (int i = first; i < last; i++) {
        x[i - first] = b->rows[i].devices;
        y[i - first] = value_of(&b->rows[i], what);
    }
    const char *name = what == CURVE_PREDICTED ? NULL : format("%s, batch %lld%s", scaling(one), (long long)one->batch, one->weak ? " each" : "");
    APPEND(plot->lines, plot->line_count,
           ((PlotLine){.name = name, .x = x, .y = y, .count = last - first, .colour = colour, .points = what != CURVE_PREDICTED, .dashed = what == CURVE_PREDICTED}));
}

static void write_curves(const Bench *b, const char *file)
{
    Plot plots[2] = {{.title = format("%s, %s%s: samples a second, measured; dashed: predicted for %s", b->model, b->precision, policy_said(b->options), b->machine), .x_label = "devices", .from_zero = true},
                     {.title = b->metric ? format("%s after %s epochs", b->metric, b->options->epochs) : "", .x_label = "devices"}};
    for (int first = 0, last, colour = 0; first < b->row_count; first = last, colour++) {
        for (last = first + 1; last < b->row_count && b->rows[last].one == first;)
            last++;
        add_curve(b, first, last, colour, CURVE_MEASURED, &plots[0]);
        add_curve(b, first, last, colour, CURVE_PREDICTED, &plots[0]);
        if (b->metric)
            add_curve(b, first, last, colour, CURVE_SCORE, &plots[1]);
    }
    int count = b->metric ? 2 : 1;
    char *svg;
    size_t length;
    Sheet sheet = {.f = mgpu_begin_text(&svg, &length)};
    mgpu_svg_begin(PLOT_WIDTH, count * PLOT_HEIGHT, format("bench of %s", b->model), &sheet);
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
/* what is wrong with the model is said here, once */
static int64_t look_at_model(Bench *b)
{
    Memory *own = memory_new(), *outer = memory_use(own);
    Options one = *b->options;
    one.devices = format("%s:1", b->kind);
    const Model *m = make_schedules(&one)->model;
    int64_t batch = m->batch;
    memory_use(outer);
    b->model = copy_text(m->name, strlen(m->name));
    b->precision = dtype_name(m->precision);
    memory_free(own);
    return batch;
}

int command_bench(const Options *o)
{
    Plan *plans;
    int plan_count, count;
    int64_t batches[MOST_BATCHES];
    Bench b = {.options = o, .metric = o->metric ? o->metric : o->epochs ? "loss" : NULL};
    whole_number("--steps", o->steps, 20);
    whole_number("--epochs", o->epochs, 1);
    if (!o->epochs && (o->metric || o->data))
        fail(2, "%s is of a run: say how long it trains with --epochs", o->metric ? "--metric" : "--data");
    if (o->csv && o->json)
        fail(2, "--csv and --json: one of them");
    if (selected_gpus(o->devices))
        fail(2, "--devices %s: numbers of devices are expected, as in cuda:1,2,4; CUDA_VISIBLE_DEVICES says which GPUs they are", o->devices);
    b.kind = parse_devices(o->devices, NULL, &plans, &plan_count)->name;
    b.machine = planned_name(o, strcmp(b.kind, "host") == 0);
    const int *counts = list_counts(o, plans, plan_count, &count);
    int batch_count = read_batches(o->batches, batches);
    int64_t batch = look_at_model(&b);
    if (!batch_count)
        batches[batch_count++] = batch;
    for (int weak = 0; weak < 2; weak++)
        for (int i = 0; i < batch_count && (weak ? o->weak : o->strong || !o->weak); i++)
            add_rows(&b, weak, batches[i], counts, count);
    b.folder = temporary_folder();
    for (int i = 0; i < b.row_count; i++)
        if (is_first_of_batch(&b, i))
            compile(&b, b.rows[i].batch);
    for (int round = 0; round < ROUNDS; round++)
        for (int i = 0; i < b.row_count; i++)
            time_steps(&b, &b.rows[i], round);
    for (int i = 0; i < b.row_count; i++)
        qsort(b.rows[i].ms, ROUNDS, sizeof *b.rows[i].ms, compare);
    for (int i = 0; i < b.row_count && b.metric; i++)
        train(&b, &b.rows[i]);
    if (o->svg)
        write_curves(&b, o->svg);
    Text text = {0};
    (o->json ? print_json : o->csv ? print_csv : print_table)(&b, &text);
    fputs(o->json ? text_of(&text) : plain_text(text_of(&text), true), stdout);
    return 0;
}
