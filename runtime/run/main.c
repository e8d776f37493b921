/* main.c: mgpu_main, which a generated program calls: runs the command of the command line. */
#include "runtime/base/base.h"
#include "runtime/base/options.h"
#include "runtime/base/terminal.h"
#include "runtime/engine/processes.h"
#include "runtime/run/commands.h"
#include "runtime/view/view.h"

#include <stdlib.h>

static int print_schedule(const mgpu_program *p, const RunOptions *o)
{
    ViewRequest r = {.phase = o->phase,
                     .op = o->op,
                     .layer = o->layer,
                     .at = o->at,
                     .device = o->device ? mgpu_view_device(o->device) : -1,
                     .full = o->full,
                     .page = o->page,
                     .timeline = o->timeline};
    mgpu_view_print(&(ViewSource){.image = mgpu_choose_plan(p, o)->image}, &r, stdout);
    return 0;
}

static int run(const mgpu_program *p, const RunOptions *o)
{
    switch (o->command) {
    case COMMAND_EVAL: return mgpu_evaluate(p, o);
    case COMMAND_PREDICT: return mgpu_predict(p, o);
    case COMMAND_WATCH: return mgpu_follow(p, o);
    case COMMAND_REPORT: return mgpu_show(p, o);
    case COMMAND_GENERATE: return mgpu_generate(p, o);
    case COMMAND_INFO: return mgpu_info(p, o);
    case COMMAND_SCHEDULE: return print_schedule(p, o);
    case COMMAND_CHECK_GRADIENTS: return mgpu_check_gradients(p, o);
    case COMMAND_EXPORT: return mgpu_export(p, o);
    case COMMAND_BENCH: return mgpu_bench(p, o);
    case COMMAND_COMPARE: return mgpu_compare(o);
    default: return mgpu_train(p, o);
    }
}

/* With several processes, the others only compute, and rank 0 does everything else. */
static void share(RunOptions *o, Processes *p)
{
    if (!p)
        return;
    o->processes = p;
    if (o->command != COMMAND_TRAIN && o->command != COMMAND_EVAL && o->command != COMMAND_PREDICT &&
        o->command != COMMAND_GENERATE && o->command != COMMAND_BENCH)
        mgpu_fail(
            MGPU_BAD_USAGE,
            "several processes train, evaluate, predict, generate and bench, and do nothing else; start `%s %s` without mpirun",
            o->program, mgpu_command_name(o->command));
    if (p->rank == 0)
        return;
    o->log = o->tensorboard = o->trace = NULL;
    o->write = false;
}

int mgpu_main(const mgpu_program *p, int argc, char **argv)
{
    mgpu_hold_descriptors();
    if (p->interface != MGPU_INTERFACE)
        mgpu_fail(MGPU_MACHINE_FAILED,
                  "the program was compiled for interface %d of the runtime, this one has %d; compile %s again", p->interface,
                  MGPU_INTERFACE, p->model_file);
    RunOptions options;
    Hang *hang = mgpu_hang_begin(MGPU_STALL_S, NULL);
    mgpu_doing("the processes look for each other");
    Processes *processes = p->processes ? p->processes() : NULL;
    mgpu_doing(NULL);
    mgpu_read_options(&options, p, argc, argv);
    share(&options, processes);
    mgpu_hang_set(hang, options.stall, processes);
    options.hang = hang;
    int status = run(p, &options);
    mgpu_hang_set(hang, options.stall, NULL);
    free(options.operands);
    free(options.parts);
    mgpu_close_plans(&options);
    mgpu_end_output();
    mgpu_doing("the processes end together");
    if (processes)
        processes->close(processes);
    mgpu_doing(NULL);
    mgpu_hang_end(hang);
    return status;
}
