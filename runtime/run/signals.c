/* signals.c: what a training run does when a signal asks it to stop or to save.
 *
 * The signals are blocked in all threads; one thread waits for them (no handler, no globals):
 *   SIGINT, SIGTERM, SIGHUP    finish the step, save the run, and end with 128 + the signal's number
 *   SIGPIPE, SIGXFSZ           the same. A write to a closed pipe, or beyond the limit of a file's size, fails with EPIPE or
 *   EFBIG
 *                              instead of ending the program: the reporter notices it (mgpu_screen_lost)
 *   SIGUSR1                    finish the step and save the run, which continues
 * A SIGINT or SIGTERM after another of these ends the program at once. A SIGHUP does not, since a terminal that is closed sends
 * several (its shell, and the kernel when the shell ends), nor do signals caused by writes. Ignored SIGHUP and SIGUSR1 stay
 * ignored (nohup). */
#include "runtime/base/base.h"
#include "runtime/run/commands.h"
#include "runtime/run/run.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static bool is_ignored(int number)
{
    struct sigaction now;
    return sigaction(number, NULL, &now) == 0 && !(now.sa_flags & SA_SIGINFO) && now.sa_handler == SIG_IGN;
}

static sigset_t watched_signals(void)
{
    static const int ALWAYS[] = {SIGINT, SIGTERM, SIGPIPE, SIGXFSZ}, UNLESS_IGNORED[] = {SIGHUP, SIGUSR1};
    sigset_t set;
    sigemptyset(&set);
    for (int i = 0; i < MGPU_COUNT(ALWAYS); i++)
        sigaddset(&set, ALWAYS[i]);
    for (int i = 0; i < MGPU_COUNT(UNLESS_IGNORED); i++)
        if (!is_ignored(UNLESS_IGNORED[i]))
            sigaddset(&set, UNLESS_IGNORED[i]);
    return set;
}

/* Consumes the signals that this write itself causes in this thread. */
static void say(const Run *run, const char *text)
{
    if (!mgpu_speaks(run->options->processes))
        return;
    char line[200];
    int length = snprintf(line, sizeof line, "\n%s\n", text); /* below the live line */
    if (write(STDERR_FILENO, line, (size_t)length) < 0)
        errno = 0; /* nobody reads it */
    sigset_t own;
    sigemptyset(&own);
    sigaddset(&own, SIGPIPE);
    sigaddset(&own, SIGXFSZ);
    while (sigtimedwait(&own, NULL, &(struct timespec){0}) > 0)
        ;
}

/* With several processes, launchers also end all in this way when one is lost, so the message comes later (mgpu_run_obeyed). */
static void say_interrupted(const Run *run)
{
    say(run, run->options->write ? "interrupted: the step is finished and the run saved; once more ends it at once"
                                 : "interrupted: the step is finished, nothing is saved (--no-save); once more ends it at once");
}

static void *watch_signals(void *argument)
{
    Run *run = argument;
    sigset_t set = watched_signals();
    for (;;) {
        int number;
        if (sigwait(&set, &number) != 0)
            continue;
        if (atomic_load(&run->finished))
            return NULL;
        if (number == SIGUSR1) {
            if (!run->options->write)
                say(run, "SIGUSR1: nothing is saved (--no-save); the run goes on");
            atomic_store(&run->save_asked, run->options->write);
            continue;
        }
        bool first = !atomic_load(&run->signal);
        if (!first && (number == SIGINT || number == SIGTERM))
            _exit(128 + number);
        if (!first)
            continue;
        if (!run->options->processes)
            say_interrupted(run);
        atomic_store(&run->signal, number);
    }
    return NULL;
}

void mgpu_run_watch(Run *run)
{
    sigset_t set = watched_signals();
    pthread_sigmask(SIG_BLOCK, &set, NULL); /* all threads inherit it */
    mgpu_start_thread(&run->watcher, watch_signals, run);
}

void mgpu_run_unwatch(Run *run)
{
    atomic_store(&run->finished, true);
    pthread_kill(run->watcher, SIGTERM); /* wakes it; a cancelled thread would leave its stack poisoned under ASan */
    pthread_join(run->watcher, NULL);
}

void mgpu_run_obeyed(const Run *run)
{
    if (run->options->processes && atomic_load(&run->signal))
        say_interrupted(run);
}

int mgpu_run_signal(Run *run)
{
    int number = atomic_load(&run->signal), lost = number ? 0 : mgpu_screen_lost(run->reporter);
    if (!lost)
        return number;
    char text[160];
    snprintf(text, sizeof text, "standard output %s: the step is finished%s",
             lost == SIGPIPE ? "was closed by its reader" : "has reached the limit of a file's size (ulimit -f)",
             run->options->write ? " and the run saved" : ", nothing is saved (--no-save)");
    say(run, text);
    int none = 0;
    atomic_compare_exchange_strong(&run->signal, &none, lost);
    return atomic_load(&run->signal);
}
