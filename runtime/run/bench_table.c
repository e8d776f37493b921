/* bench_table.c: `bench` with several numbers of devices, --batch, --weak or --strong: prints the rows of `mgpuc bench` that the
 * program has.
 *
 * A program has one global batch; a smaller one would run as a partial batch and take as long. So it measures the rows with this
 * batch (with --weak, 32 on each of two devices are 64), and prints the command that compiles for the others. Rows are measured
 * in turns, since no machine is quiet for long; each run opens its devices again. */
#include "runtime/base/base.h"
#include "runtime/base/options.h"
#include "runtime/report/grid.h"
#include "runtime/run/commands.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

typedef struct Rows {
    const mgpu_program *program;
    const RunOptions *options;
    Grid grid;
    const mgpu_plan **plans; /* plan of each row */
    const mgpu_plan **counts;
    int count;     /* the plans of --devices in their order */
    bool left_out; /* some rows have other batches than the program */
} Rows;

/* ---- --devices: counts and ranges, after one kind */
/* Returns the length of "host:" in host:1,2, or of "cuda:" in cuda:2 only, since cuda:1,2 are two GPUs. */
static size_t kind_length(const char *list)
{
    bool host = strncmp(list, "host:", 5) == 0, cuda = strncmp(list, "cuda:", 5) == 0;
    return host || (cuda && !list[5 + strspn(list + 5, "0123456789")]) ? 5 : 0;
}

static bool names_several(const char *list)
{
    const char *at = list + kind_length(list);
    size_t digits = strspn(at, "0123456789");
    return digits && (at[digits] == ',' || at[digits] == '-');
}

bool mgpu_asks_for_rows(const RunOptions *o)
{
    return o->command == COMMAND_BENCH && (o->batches || o->weak || o->strong || (o->devices && names_several(o->devices)));
}

static void add_count(Rows *r, int at, const mgpu_plan *plan)
{
    for (int i = 0; i < r->count; i++)
        if (r->counts[i] == plan)
            return;
    r->counts = mgpu_resize(r->counts, (size_t)(r->count + 1) * sizeof *r->counts);
    memmove(r->counts + at + 1, r->counts + at, (size_t)(r->count++ - at) * sizeof *r->counts);
    r->counts[at] = plan;
}

/* Reads a number and moves *at past it. Returns 0 if there is none. */
static int64_t read_number(const char **at)
{
    char *end;
    errno = 0;
    long long n = **at >= '0' && **at <= '9' ? strtoll(*at, &end, 10) : 0;
    if (n < 1 || n > INT32_MAX || errno)
        return 0;
    *at = end;
    return n;
}

static void read_counts(Rows *r)
{
    const char *list = r->options->devices, *at = list + kind_length(list);
    for (bool more = true; more; at += more) {
        int64_t first = read_number(&at), last = first;
        if (*at == '-') {
            at++;
            last = read_number(&at);
        }
        if (!first || last < first || (*at && *at != ','))
            mgpu_fail(
                MGPU_BAD_USAGE,
                "--devices %s: numbers of devices are expected, as in --devices 1,2,4; CUDA_VISIBLE_DEVICES says which GPUs they are",
                list);
        for (int64_t n = first; n <= last; n++) {
            RunOptions one = *r->options;
            char *devices = mgpu_format("%.*s%lld", (int)kind_length(list), list, (long long)n);
            one.devices = devices;
            add_count(r, r->count, mgpu_choose_plan(r->program, &one));
            free(devices);
        }
        more = *at == ',';
    }
}

/* Lists the plans of --devices, or all, and that of one device, with which the others are compared. */
static void list_counts(Rows *r)
{
    const mgpu_program *p = r->program;
    const char *list = r->options->devices, *kind = p->plans[p->default_plan].kind;
    if (list) {
        read_counts(r);
        kind = r->counts[0]->kind;
    }
    for (int i = 0; i < p->plan_count; i++)
        if (strcmp(p->plans[i].kind, kind) == 0 && (!list || p->plans[i].devices == 1))
            add_count(r, list ? 0 : r->count, mgpu_open_plan(r->options, &p->plans[i]));
}

/* ---- rows */
static void add_rows(Rows *r, bool weak, int64_t batch)
{
    Grid *g = &r->grid;
    int one = -1;
    for (int i = 0; i < r->count; i++) {
        int64_t all = weak ? batch * r->counts[i]->devices : batch;
        if (all != r->program->batch) {
            r->left_out = true;
            continue;
        }
        one = r->counts[i]->devices == 1 ? g->row_count : one;
        g->rows = mgpu_resize(g->rows, (size_t)(g->row_count + 1) * sizeof *g->rows);
        r->plans = mgpu_resize(r->plans, (size_t)(g->row_count + 1) * sizeof *r->plans);
        r->plans[g->row_count] = r->counts[i];
        g->rows[g->row_count++] = (GridRow){.weak = weak,
                                            .devices = r->counts[i]->devices,
                                            .batch = all,
                                            .one = one,
                                            .predicted_ms = r->counts[i]->predicted.step_us / 1e3,
                                            .from = r->counts[i]->predicted.from};
    }
}

static void list_rows(Rows *r)
{
    const RunOptions *o = r->options;
    for (int weak = 0; weak < 2; weak++) {
        const char *at = o->batches ? o->batches : "";
        if (!(weak ? o->weak : o->strong || !o->weak))
            continue;
        if (!o->batches)
            add_rows(r, weak, r->program->batch);
        for (bool more = o->batches; more; at += more) {
            int64_t batch = read_number(&at);
            if (!batch || (*at && *at != ','))
                mgpu_fail(MGPU_BAD_USAGE, "--batch %s: numbers of samples are expected, as in --batch 32,64", o->batches);
            add_rows(r, weak, batch);
            more = *at == ',';
        }
    }
}

/* Returns the command that measures the missing rows. The caller frees. */
static char *command_for_all(const Rows *r)
{
    const RunOptions *o = r->options;
    char *devices = mgpu_format("%s", "");
    for (int i = 0; i < r->count; i++) {
        char *longer = mgpu_format("%s%s%d", devices,
                                   i                              ? ","
                                   : r->counts[0]->kind[0] == 'c' ? "cuda:"
                                                                  : "",
                                   r->counts[i]->devices);
        free(devices);
        devices = longer;
    }
    char *text = mgpu_format("mgpuc bench %s --devices %s%s%s%s%s, with the other options of: %s", r->program->model_file,
                             devices, o->batches ? " --batch " : "", o->batches ? o->batches : "", o->weak ? " --weak" : "",
                             o->strong ? " --strong" : "", r->program->command);
    free(devices);
    return text;
}

int mgpu_bench_rows(const mgpu_program *program, const RunOptions *o)
{
    Rows r = {.program = program, .options = o};
    list_counts(&r);
    list_rows(&r);
    char *others = command_for_all(&r);
    Grid *g = &r.grid;
    if (!g->row_count)
        mgpu_fail(MGPU_BAD_USAGE,
                  "the program is compiled for a batch of %lld, which no row of this table has; to compile and measure: %s",
                  (long long)program->batch, others);
    g->model = program->name;
    g->kind = r.plans[0]->kind;
    g->precision = program->precision;
    g->machine = r.plans[0]->predicted.step_us > 0 ? r.plans[0]->predicted.machine : "no machine";
    g->policy = program->policy;
    g->policy_label = program->policy_label;
    g->steps = o->steps > 0 ? o->steps : 20;
    for (int i = 0; i < r.count; i++)
        mgpu_compare_program(o, program, r.counts[i]);
    for (int round = 0; round < MGPU_ROUNDS; round++)
        for (int i = 0; i < g->row_count; i++) {
            RunOptions one = *o;
            one.steps = g->steps;
            char *devices = mgpu_format("%s:%d", g->kind, r.plans[i]->devices);
            one.devices = devices;
            g->rows[i].ms[round] = mgpu_bench_ms(program, r.plans[i], &one, &g->virtual);
            free(devices);
        }
    mgpu_grid_end(g);
    (o->json ? mgpu_grid_json : mgpu_grid_print)(g, stdout);
    if (r.left_out)
        mgpu_say(
            "%s: rows with other batches than %lld, for which the program is compiled, are left out; to compile and measure all: %s",
            o->program, (long long)program->batch, others);
    free(others);
    free(g->rows);
    free(r.plans);
    free(r.counts);
    return 0;
}
