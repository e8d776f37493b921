/* compile.c: `mgpuc MODEL.net` and `mgpuc check`: all passes, or those up to what is asked for. `mgpuc plan` needs those up to the
 * schedule. */
#include "compiler/base/progress.h"
#include "compiler/driver/command.h"
#include "compiler/driver/passes.h"
#include "compiler/kernel/target.h"
#include "compiler/machine/machine.h"
#include "compiler/plan/measured.h"

#include <math.h>
#include <string.h>

static const Measured *read_measured(const char *file, const char *kind)
{
    const Measured *m = measured_read(file);
    if (strcmp(measured_kind(m), kind) != 0)
        fail(2, "--measured %s: it was measured on %s devices, the plan is for %s devices; --devices names others", file, measured_kind(m), kind);
    return m;
}

static Compilation begin(const Options *options)
{
    Compilation c = {.options = options, .program = NEW(Program)};
    c.program->options = options;
    c.program->target = parse_devices(options->devices, options->planned, &c.program->plans, &c.program->plan_count);
    bool host = !c.program->target->own_memory;
    c.program->machine = options->planned ? options->planned : options->here ? options->here : machine_default(host ? PROCESSOR_HOST : PROCESSOR_CUDA);
    if (options->measured && options->measured_rate <= 0)
        c.program->measured = read_measured(options->measured, c.program->target->name);
    c.program->gpus = options->planned ? NULL : selected_gpus(options->devices);
    c.source = read_source(options->file);
    return c;
}

/* ---- accumulate = "auto" */
typedef struct Fit { bool fits, hopeless; double needed; } Fit; /* of the plan that lacks most bytes; hopeless: its variables alone do not fit */

static Fit fit_of(const Program *p)
{
    Fit fit = {.fits = true};
    double lack = 0;
    for (int i = 0; i < p->plan_count; i++) {
        double needed = needed_bytes(p, &p->plans[i], NULL), there = memory_there(p, &p->plans[i]), more = needed - there;
        if (i == 0 || more > lack) {
            lack = more;
            fit = (Fit){more <= 0, variables_needed(p, &p->plans[i]) > there, needed};
        }
    }
    return fit;
}

static Options *with_accumulate(const Options *o, int64_t parts)
{
    Options *with = NEW(Options);
    int values = 0;
    *with = *o;
    with->set_keys = with->set_values = NULL;
    with->set_count = 0;
    for (int i = 0; i < o->set_count; i++) {
        APPEND(with->set_keys, with->set_count, o->set_keys[i]);
        APPEND(with->set_values, values, o->set_values[i]);
    }
    APPEND(with->set_keys, with->set_count, "accumulate");
    APPEND(with->set_values, values, format("%lld", (long long)parts));
    with->elaborated = true;
    return with;
}

static Fit try_accumulate(const Options *o, int64_t parts)
{
    Memory *own = memory_new(), *outer = memory_use(own);
    Options *quiet = with_accumulate(o, parts);
    Stage stage;
    stage_begin(&stage, "does it fit?", "%lld micro-batch%s", (long long)parts, parts == 1 ? "" : "es");
    quiet->verbose = false;
    Compilation c = begin(quiet);
    c.program->tries = true;
    run_passes(&c, "schedule");
    Fit fit = fit_of(c.program);
    stage_end(&stage);
    memory_use(outer);
    memory_free(own);
    return fit;
}

/* the fewest micro-batches that fit; where no number does, the one with the fewest bytes */
static int64_t find_accumulate(const Options *o, int64_t batch)
{
    int64_t low = 1, high = 0, best = 1;
    double least = INFINITY;
    for (int64_t parts = 2; parts <= batch && !high; parts = 2 * parts < batch || parts == batch ? 2 * parts : batch) {
        Fit fit = try_accumulate(o, parts);
        if (fit.needed < least)
            best = parts;
        least = fit.needed < least ? fit.needed : least;
        if (fit.fits)
            high = parts;
        else
            low = parts;
    }
    while (high - low > 1) {
        int64_t middle = low + (high - low) / 2;
        if (try_accumulate(o, middle).fits)
            high = middle;
        else
            low = middle;
    }
    return high ? high : best;
}

/* the graphs; where the number of micro-batches is to be found, with as many as it takes */
static Compilation settled(const Options *o)
{
    Compilation c = begin(o);
    run_passes(&c, "simplify");
    if (!c.program->model->fit_accumulate || c.program->model->not_yet || o->shared)
        return c;
    Fit whole = try_accumulate(o, 1);
    return whole.fits || whole.hopeless ? c : begin(with_accumulate(o, find_accumulate(o, c.program->model->batch)));
}

static Compilation schedules_of(const Options *o)
{
    Compilation c = settled(o);
    run_passes(&c, "schedule");
    return c;
}

int command_compile(const Options *o)
{
    const Pass *last = o->emit ? emitted_pass(o->emit) : NULL, *from = from_pass(o);
    if (last && from && last < from)
        fail(2, "--emit %s: this stage comes before %s, which --from names", last->name, from->name);
    bool early = o->from || (last && last <= emitted_pass("simplify"));
    Compilation c = early ? begin(o) : settled(o);
    run_passes(&c, o->emit);
    if (last) {
        Text text = {0};
        last->dump(&c, &text);
        if (last->dump == dump_schedules)
            view_print(o, &text);
        else
            fwrite(text_of(&text), 1, text.length, stdout);
    }
    return 0;
}

const Model *read_model(const Options *o)
{
    Options *quiet = NEW(Options);
    *quiet = *o;
    quiet->silenced = ~(LintSet)0; /* what is wrong with it is said when it is compiled */
    quiet->verbose = false;
    Compilation c = begin(quiet);
    run_passes(&c, "simplify");
    return c.program->model;
}

Program *make_schedules(const Options *o)
{
    return schedules_of(o).program;
}

/* Everything up to the schedule is tried, so that what passes here compiles. What is not there yet are settings of the run: the model
 * compiles without them. */
int command_check(const Options *o)
{
    Compilation c = schedules_of(o);
    const Model *m = c.program->model;
    Text text = {0};
    check_print(m, c.program, o->json, &text);
    fwrite(text_of(&text), 1, text.length, stdout);
    fflush(stdout);
    warn_of_initials(m, o->silenced);
    for (int i = 0; i < c.program->plan_count; i++)
        warn_of_memory(m, c.program, &c.program->plans[i]);
    warn_of_plans(c.program);
    return 0;
}
