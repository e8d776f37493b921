/* support.c: errors, memory, text, near misses and time. */
#include "runtime/base/base.h"
#include "runtime/base/context.h"
#include "runtime/base/spelling.h"
#include "runtime/base/terminal.h"

#include <errno.h>
#include <stdarg.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* How this process prints messages, if it is one of several (runtime/mpi/processes.c). Any function may fail, so this is no
 * argument. */
static struct {
    const char *name;
    bool silent;
    void (*leave)(int status);
    char **messages;
    int message_count; /* lines of mgpu_say_once */
} self;

void mgpu_speak_as(const char *speaker, bool speaks, void (*leave)(int status))
{
    self.name = speaker;
    self.silent = !speaks;
    self.leave = leave;
}

static _Noreturn void end(int status, const char *kind, const char *pattern, va_list arguments, const char *after)
{
    enum { LONGEST_S = 3 };
    mgpu_context_fail(status == MGPU_MACHINE_FAILED && *after ? "internal error: " : "", pattern, arguments, after);
    if (self.silent && status == MGPU_BAD_USAGE)
        sleep(LONGEST_S); /* all processes have this error: the speaking one reports it and ends all */
    flockfile(stderr);    /* never unlocked: a second thread that fails waits here until the process ends */
    fflush(stdout);
    char *text = NULL;
    size_t length = 0;
    FILE *whole = open_memstream(&text, &length), *to = whole ? whole : stderr; /* one write: launchers mix processes */
    if (isatty(STDERR_FILENO))
        fputs("\r\033[K", to); /* overwrites the progress line */
    fprintf(to, "%s: %s%s: ", program_invocation_short_name, self.name ? self.name : "", kind);
    mgpu_print_message(to, pattern, arguments);
    fprintf(to, "%s\n", after);
    if (whole && fclose(whole) == 0)
        fwrite(text, 1, length, stderr);
    fflush(stderr);
    if (self.leave)
        self.leave(status);
    _exit(status); /* other threads may still run: no handlers, no destructors */
}

_Noreturn void mgpu_fail(int status, const char *pattern, ...)
{
    va_list arguments;
    va_start(arguments, pattern);
    end(status, "error", pattern, arguments, "");
}

void mgpu_complain(char **complaint, const char *pattern, ...)
{
    va_list arguments;
    va_start(arguments, pattern);
    if (!complaint)
        end(MGPU_BAD_INPUT, "error", pattern, arguments, "");
    if (!*complaint)
        *complaint = mgpu_vformat(pattern, arguments);
    va_end(arguments);
}

void mgpu_say(const char *pattern, ...)
{
    va_list arguments;
    if (self.silent || mgpu_context())
        return;
    va_start(arguments, pattern);
    flockfile(stderr);
    mgpu_print_message(stderr, pattern, arguments);
    fputc('\n', stderr);
    funlockfile(stderr);
    va_end(arguments);
}

void mgpu_say_once(const char *pattern, ...)
{
    va_list arguments;
    char *line = NULL;
    if (mgpu_context())
        return;
    va_start(arguments, pattern);
    if (vasprintf(&line, pattern, arguments) < 0)
        mgpu_fail(MGPU_MACHINE_FAILED, "out of memory");
    va_end(arguments);
    for (int i = 0; i < self.message_count; i++)
        if (strcmp(self.messages[i], line) == 0) {
            free(line);
            return;
        }
    MGPU_PUSH(self.messages, self.message_count, line);
    mgpu_say("%s", line);
}

void mgpu_print(const char *pattern, ...)
{
    va_list arguments;
    va_start(arguments, pattern);
    if (!mgpu_context())
        vprintf(pattern, arguments);
    va_end(arguments);
}

void mgpu_warn_of_this(const char *pattern, ...)
{
    va_list arguments;
    if (mgpu_context())
        return;
    va_start(arguments, pattern);
    flockfile(stderr);
    fprintf(stderr, "%s: %swarning: ", program_invocation_short_name, self.name ? self.name : "");
    mgpu_print_message(stderr, pattern, arguments);
    fputc('\n', stderr);
    funlockfile(stderr);
    va_end(arguments);
}

char *mgpu_plain(const char *text)
{
    char *plain = mgpu_plain_text(text, false);
    if (!plain)
        mgpu_no_memory(strlen(text));
    return plain;
}

void mgpu_print_plain(const char *text)
{
    char *plain = mgpu_plain(text);
    fputs(plain, stdout);
    free(plain);
}

/* Returns 0, or why something could not be written. A stream remembers a failure but not its reason; one more write shows it. */
static int error_of(FILE *f, bool sync)
{
    errno = 0;
    if (fflush(f) == 0 && !ferror(f) && (!sync || fsync(fileno(f)) == 0))
        return 0;
    if (!errno && write(fileno(f), "\n", 1) == 1)
        errno = ENOSPC;
    return errno;
}

int mgpu_finish_file(FILE *f, bool sync)
{
    int error = error_of(f, sync);
    return fclose(f) != 0 && !error ? errno : error;
}

void mgpu_end_output(void)
{
    int error = error_of(stdout, false);
    if (error)
        mgpu_fail(MGPU_MACHINE_FAILED, "standard output cannot be written: %s", strerror(error));
}

_Noreturn void mgpu_die(const char *pattern, ...)
{
    va_list arguments;
    va_start(arguments, pattern);
    end(MGPU_MACHINE_FAILED, "internal error", pattern, arguments, MGPU_OUR_MISTAKE);
}

_Noreturn void mgpu_no_memory(size_t bytes)
{
    mgpu_fail(MGPU_MACHINE_FAILED, "no memory for %zu bytes more; a smaller batch, fewer --devices or fewer --threads need less",
              bytes);
}

void *mgpu_allocate(size_t count, size_t bytes)
{
    void *p = calloc(count ? count : 1, bytes ? bytes : 1);
    if (!p)
        mgpu_no_memory(bytes && count > SIZE_MAX / bytes ? SIZE_MAX : count * bytes);
    return p;
}

void *mgpu_allocate_aligned(size_t alignment, size_t bytes)
{
    bytes = (bytes + alignment - 1) / alignment * alignment;
    void *p = aligned_alloc(alignment, bytes);
    if (!p)
        mgpu_no_memory(bytes);
    return memset(p, 0, bytes);
}

void *mgpu_resize(void *old, size_t bytes)
{
    void *p = realloc(old, bytes ? bytes : 1);
    if (!p)
        mgpu_no_memory(bytes);
    return p;
}

FILE *mgpu_begin_text(char **text, size_t *length)
{
    FILE *f = open_memstream(text, length);
    if (!f)
        mgpu_no_memory(BUFSIZ);
    return f;
}

void mgpu_end_text(FILE *f)
{
    if (fclose(f) != 0)
        mgpu_no_memory(BUFSIZ);
}

/* All signals except those caused by the thread itself are for the threads that wait for them. A thread that starts before they
 * are blocked would otherwise receive them and end the program. */
static sigset_t signals_of_others(void)
{
    static const int OWN[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP, SIGSYS, SIGPROF};
    sigset_t set;
    sigfillset(&set);
    for (int i = 0; i < MGPU_COUNT(OWN); i++)
        sigdelset(&set, OWN[i]);
    return set;
}

typedef struct Start {
    Context *context;
    void *(*run)(void *);
    void *argument;
} Start;

static void *run_started(void *argument)
{
    Start start = *(Start *)argument;
    free(argument);
    return start.run(start.argument);
}

static void *run_in_context(void *start) { return mgpu_context_run(((Start *)start)->context, run_started, start); }

void mgpu_start_thread(pthread_t *thread, void *(*run)(void *), void *argument)
{
    sigset_t set = signals_of_others(), before;
    if (mgpu_context()) {
        Start *start = mgpu_allocate(1, sizeof *start);
        *start = (Start){mgpu_context(), run, argument};
        run = run_in_context;
        argument = start;
    }
    pthread_sigmask(SIG_BLOCK, &set, &before); /* inherited */
    int error = pthread_create(thread, NULL, run, argument);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error)
        mgpu_fail(MGPU_MACHINE_FAILED, "no further thread can be started: %s; fewer --threads or --devices need fewer",
                  strerror(error));
}

char *mgpu_vformat(const char *pattern, va_list arguments)
{
    char *text;
    if (vasprintf(&text, pattern, arguments) < 0)
        mgpu_no_memory(strlen(pattern));
    return text;
}

char *mgpu_format(const char *pattern, ...)
{
    va_list arguments;
    va_start(arguments, pattern);
    char *text = mgpu_vformat(pattern, arguments);
    va_end(arguments);
    return text;
}

const char *mgpu_kernel_name(const mgpu_program *p, int kernel)
{
    return p->gpu_kernels ? p->gpu_kernels[kernel].name : p->kernels[kernel].name;
}

void mgpu_two_numbers(double a, double b, char text[2][32])
{
    for (int digits = 9; digits <= 17; digits += 8) {
        snprintf(text[0], 32, "%.*g", digits, a);
        snprintf(text[1], 32, "%.*g", digits, b);
        if (strcmp(text[0], text[1]) != 0)
            break;
    }
}

const char *mgpu_grouped(int64_t n, char text[32])
{
    char digits[32];
    int length = snprintf(digits, sizeof digits, "%lld", (long long)n), out = 0;
    for (int i = 0; i < length; i++) {
        if (i && digits[i - 1] != '-' && (length - i) % 3 == 0)
            text[out++] = ',';
        text[out++] = digits[i];
    }
    text[out] = 0;
    return text;
}

const char *mgpu_did_you_mean(const char *word, const char *const *names, int count, char text[128])
{
    const char *best = mgpu_nearest(word, names, count);
    text[0] = 0;
    if (best)
        snprintf(text, 128, "; did you mean '%s'?", best);
    return text;
}

char *mgpu_join_names(const char *const *names, int count)
{
    char *all = mgpu_format("%s", "");
    for (int i = 0; i < count; i++) {
        char *longer = mgpu_format("%s%s%s", all, i ? ", " : "", names[i]);
        free(all);
        all = longer;
    }
    return all;
}

bool mgpu_ends_with(const char *text, const char *end)
{
    size_t length = strlen(text), last = strlen(end);
    return length >= last && strcmp(text + length - last, end) == 0;
}

static double read_clock(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

double mgpu_seconds(void) { return read_clock(CLOCK_MONOTONIC); }

/* Field 22 of /proc/self/stat is the start in clock ticks since boot. It is coarse, but includes loading the program. If it is
 * not plausible (containers with their own clock), the time since main is returned. */
double mgpu_seconds_since_start(double main_began)
{
    double since_main = mgpu_seconds() - main_began;
    char text[1024];
    FILE *f = fopen("/proc/self/stat", "r");
    if (!f)
        return since_main;
    size_t length = fread(text, 1, sizeof text - 1, f);
    fclose(f);
    text[length] = 0;
    const char *at = strrchr(text, ')'); /* the program's name may contain blanks */
    for (int field = 2; at && field < 22; field++)
        at = strchr(at + 1, ' ');
    if (!at)
        return since_main;
    double since_start = read_clock(CLOCK_BOOTTIME) - strtod(at, NULL) / (double)sysconf(_SC_CLK_TCK);
    return since_start >= since_main && since_start < since_main + 10 ? since_start : since_main;
}

int mgpu_compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}
