/* main.c: the entry of mgpuc: its commands. The passes are in passes.c. */
#include "compiler/driver/command.h"
#include "compiler/link/translation_units.h"
#include "runtime/base/terminal.h"

#include <string.h>

/* Commands with a command line of their own; others share that of command.c. */
static const struct SeparateCommand {
    const char *name;
    int (*run)(int argc, char **argv);
} SEPARATE[] = {
    {"fmt", command_fmt},         {"doc", command_doc},           {"lsp", command_lsp},       {"diff", command_diff},
    {"devices", command_devices}, {"machines", command_machines}, {"probe", command_probe},   {"plot", command_plot},
    {"import", command_import},   {"selftest", command_selftest}, {"--nvrtc", command_nvrtc}, {"compare", command_compare},
};
static int (*const SHARED[])(const Options *) = {
    [COMMAND_COMPILE] = command_compile, [COMMAND_CHECK] = command_check, [COMMAND_VERIFY] = command_verify,
    [COMMAND_PLAN] = command_plan,       [COMMAND_BENCH] = command_bench, [COMMAND_SCHEDULE] = command_schedule,
    [COMMAND_REPORT] = command_report};

static int run(int argc, char **argv)
{
    for (int i = 0; i < COUNT(SEPARATE) && argc > 1; i++)
        if (strcmp(SEPARATE[i].name, argv[1]) == 0)
            return SEPARATE[i].run(argc - 2, argv + 2);
    Options options = parse_command(argc, argv);
    return SHARED[options.command](&options);
}

int main(int argc, char **argv)
{
    mgpu_hold_descriptors();
    int status = run(argc, argv);
    end_output();
    return status;
}
