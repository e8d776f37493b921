/* compare_runs.c: `mgpuc compare A B`: compares two runs as programs do (runtime/run/compare_runs.c). */
#include "compiler/driver/command.h"
#include "runtime/run/compare_runs.h"

static const char HELP[] =
    "mgpuc compare A B\n"
    "\n"
    "  whether two runs are the same: the first step in which they differ, and what differs there\n"
    "  of two logs (./PROGRAM --log): losses, metrics and norms of gradients, and the SHA-256 of saves\n"
    "  of two folders of saves (./PROGRAM --save; DIR, DIR/step-N): each tensor that differs, in how many\n"
    "  elements and at most by how much\n"
    "  exit status: 0: they are equal; 1: they differ; 2: they cannot be compared\n"
    "\n"
    "  -h, --help           this text";

int command_compare(int argc, char **argv)
{
    const OwnOption options[] = {{.name = NULL}};
    const char **runs = own_words("compare", argc, argv, HELP, options, 2);
    if (!runs[0] || !runs[1])
        fail(2, "mgpuc compare takes two folders of saves or two logs: mgpuc compare a.save b.save");
    return mgpu_compare_runs(runs[0], runs[1]);
}
