/* temporary.c: what mgpuc must not leave behind: intermediate files, files that are not whole, compilers that run.
 *
 * All are noted, and go when mgpuc ends: by exit, or by a signal. Then the compilers are stopped first,
 * since they write; at last mgpuc dies by that signal, so that make and shells see why. The handler calls only what a
 * handler may (signal-safety(7)); the list of files grows at its front by one store. A compiler is a process group of its own,
 * so that the processes that it has started stop with it. */
#include "compiler/pieces.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { TRIES = 200, TRY_NS = 10000000 }; /* a compiler has 2 s to end */

typedef struct Temporary { struct Temporary *next; atomic_bool kept; char path[]; } Temporary;
static _Atomic(Temporary *) temporaries;
static _Atomic pid_t tools[MOST_TOOLS];

static const int SIGNALS[] = {SIGHUP, SIGINT, SIGTERM, SIGPIPE, SIGABRT};

static void stop_tools(void)
{
    for (int i = 0; i < MOST_TOOLS; i++)
        if (tools[i])
            kill(-tools[i], SIGTERM);
    for (int i = 0, tries = 0; i < MOST_TOOLS; i++) {
        while (tools[i] && waitpid(tools[i], NULL, WNOHANG) == 0 && tries++ < TRIES)
            nanosleep(&(struct timespec){0, TRY_NS}, NULL);
        if (tools[i])
            kill(-tools[i], SIGKILL);
        tools[i] = 0;
    }
}

void temporaries_remove(void)
{
    for (Temporary *t = temporaries; t; t = t->next)
        if (!t->kept && unlink(t->path))
            rmdir(t->path);
    temporaries = NULL;
}

static void end(void)
{
    stop_tools();
    temporaries_remove();
}

static void end_by_signal(int number)
{
    end();
    signal(number, SIG_DFL);
    raise(number); /* blocked until the handler returns */
}

sigset_t temporary_signals(void)
{
    sigset_t set;
    sigemptyset(&set);
    for (int i = 0; i < COUNT(SIGNALS); i++)
        sigaddset(&set, SIGNALS[i]);
    return set;
}

static void be_ready(void)
{
    static bool ready;
    if (ready)
        return;
    ready = true;
    atexit(end);
    for (int i = 0; i < COUNT(SIGNALS); i++) {
        struct sigaction old, action = {.sa_handler = end_by_signal, .sa_mask = temporary_signals()};
        if (sigaction(SIGNALS[i], NULL, &old) == 0 && old.sa_handler == SIG_DFL) /* nohup's stays ignored */
            sigaction(SIGNALS[i], &action, NULL);
    }
}

void temporary_add(const char *path)
{
    be_ready();
    size_t bytes = strlen(path) + 1;
    Temporary *t = calloc(1, sizeof *t + bytes);
    if (!t)
        no_memory(bytes);
    memcpy(t->path, path, bytes);
    t->next = temporaries;
    temporaries = t;
}

void temporary_keep(const char *path)
{
    for (Temporary *t = temporaries; t; t = t->next)
        if (strcmp(t->path, path) == 0)
            t->kept = true;
}

void tool_begins(pid_t process)
{
    be_ready();
    for (int i = 0; i < MOST_TOOLS; i++)
        if (!tools[i]) {
            tools[i] = process;
            return;
        }
    die("more than %d tools run", MOST_TOOLS);
}

void tool_ends(pid_t process)
{
    for (int i = 0; i < MOST_TOOLS; i++)
        if (tools[i] == process)
            tools[i] = 0;
}
