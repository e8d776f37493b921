/* compile.c: `mgpuc MODEL.net` and `mgpuc check`: all passes, or those up to what is asked for. `mgpuc plan` needs those up to the
 * schedule. */
#include "compiler/driver/command.h"
#include "compiler/driver/passes.h"
#include "compiler/kernel/target.h"
#include "compiler/machine/machine.h"
#include "compiler/plan/measured.h"

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
    c.program->machine = options->planned ? options->planned : host && options->here ? options->here : machine_default(host ? PROCESSOR_HOST : PROCESSOR_CUDA);
    if (options->measured && options->measured_rate <= 0)
        c.program->measured = read_measured(options->measured, c.program->target->name);
    c.program->gpus = selected_gpus(options->devices);
    c.source = read_source(options->file);
    return c;
}

int command_compile(const Options *o)
{
    const Pass *last = o->emit ? emitted_pass(o->emit) : NULL, *from = from_pass(o);
    if (last && from && last < from)
        fail(2, "--emit %s: this stage comes before %s, which --from names", last->name, from->name);
    Compilation c = begin(o);
    run_passes(&c, o->emit);
    if (last) {
        Text text = {0};
        last->dump(&c, &text);
        fwrite(text_of(&text), 1, text.length, stdout);
    }
    return 0;
}

Program *make_schedules(const Options *o)
{
    Compilation c = begin(o);
    run_passes(&c, "schedule");
    return c.program;
}

/* Everything up to the schedule is tried, so that what passes here compiles. What is not there yet are settings of the run: the model
 * compiles without them. */
int command_check(const Options *o)
{
    Compilation c = begin(o);
    run_passes(&c, "schedule");
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
