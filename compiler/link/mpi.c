/* mpi.c: build programs of several processes (--mpi): find the installed MPI's compiler, compile the calls of that MPI to an
 * object, and link with it. Each MPI has a binary interface of its own, and its mpicc knows where its header and libraries
 * are. */
#include "compiler/link/translation_units.h"
#include "compiler/kernel/target.h"

#include <stdlib.h>
#include <string.h>

static const char *missing(const char *word)
{
    return format(
        "no MPI: '%s' cannot be run. Install one (Debian: apt-get install libopenmpi-dev openmpi-bin), or name the mpicc of yours: "
        "MPICC=/opt/mpi/bin/mpicc mgpuc --mpi ...; without --mpi no MPI is needed",
        word);
}

Arguments find_mpi(void)
{
    const char *named = getenv("MPICC");
    Arguments words = words_of(named ? named : "", "mpicc"), version = {0};
    Text output = {0};
    add_arguments(&version, &words);
    add_argument(&version, "--version");
    int status = run_tool(&version, &output);
    if (status < 0)
        fail(3, "%s", missing(words.list[0]));
    if (status)
        fail(3, "'%s --version' failed; MPICC names another mpicc; it says: %.*s", words.list[0],
             (int)strcspn(text_of(&output), "\n"), text_of(&output));
    return words;
}

const char *compile_mpi(const Arguments *mpicc, const char *home, const char *folder)
{
    const char *object = format("%s/mpi.o", folder), *rest[] = {"-O2", "-w", "-c", format("%s/mgpu_mpi.c", home), "-o", object};
    Arguments a = {0};
    add_arguments(&a, mpicc);
    for (int i = 0; i < COUNT(rest); i++)
        add_argument(&a, rest[i]);
    temporary_add(object);
    if (run_tools(&a, 1, 1) >= 0)
        fail(3, "'%s' failed on the calls of MPI (its message is above); MPICC names another mpicc", mpicc->list[0]);
    return object;
}
