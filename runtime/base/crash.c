/* crash.c: reports what a kernel was doing when it crashed, without a global. A guarded thread handles signals on an aligned
 * stack of its own, whose first bytes say which function to call. A crash elsewhere ends the program as usual. The report uses no
 * stdio, locks or allocation, as the thread may have crashed while it held a lock. */
#include "runtime/base/base.h"
#include "runtime/base/context.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

enum { STACK_BYTES = 1 << 16 }; /* size and alignment */
static const uint64_t MAGIC = 0x6d67707563726173u;
static const struct {
    int number;
    const char *name;
} SIGNALS[] = {{SIGSEGV, "Segmentation fault"},
               {SIGBUS, "Bus error"},
               {SIGFPE, "Floating point exception"},
               {SIGILL, "Illegal instruction"}};

struct CrashGuard {
    uint64_t magic;
    void (*say)(void *context, int signal);
    void *context;
    stack_t before;
};

static void handle(int number)
{
    uintptr_t here = (uintptr_t)__builtin_frame_address(0);
    const CrashGuard *guard = (const void *)(here & ~(uintptr_t)(STACK_BYTES - 1));
    if (guard->magic == MAGIC)
        guard->say(guard->context, number);
    signal(number, SIG_DFL);
    raise(number);
}

CrashGuard *mgpu_guard_begin(void (*say)(void *context, int signal), void *context)
{
    if (mgpu_context()) /* the caller handles signals */
        return NULL;
    CrashGuard *guard = mgpu_allocate_aligned(STACK_BYTES, STACK_BYTES);
    *guard = (CrashGuard){.magic = MAGIC, .say = say, .context = context};
    stack_t stack = {.ss_sp = guard + 1, .ss_size = STACK_BYTES - sizeof *guard};
    sigaltstack(&stack, &guard->before);
    for (int i = 0; i < MGPU_COUNT(SIGNALS); i++) {
        struct sigaction action = {.sa_flags = SA_ONSTACK};
        action.sa_handler = handle;
        sigaction(SIGNALS[i].number, &action, NULL);
    }
    return guard;
}

void mgpu_guard_end(CrashGuard *guard)
{
    if (!guard)
        return;
    sigaltstack(&guard->before, NULL); /* sanitizers have installed one, which they free at the thread's end */
    free(guard);
}

/* ---- the report */
void mgpu_add_text(SafeText *t, const char *text)
{
    for (; *text && t->length + 1 < t->capacity; text++)
        t->text[t->length++] = *text;
    t->text[t->length] = 0;
}

void mgpu_add_number(SafeText *t, int64_t number)
{
    char digits[24];
    int at = sizeof digits - 1;
    uint64_t left = number < 0 ? 0 - (uint64_t)number : (uint64_t)number;
    digits[at] = 0;
    do
        digits[--at] = (char)('0' + left % 10);
    while (left /= 10);
    if (number < 0)
        digits[--at] = '-';
    mgpu_add_text(t, digits + at);
}

_Noreturn void mgpu_end_crashed(const char *kind, const char *where, const char *what, int signal, const char *after)
{
    char capacity[1000];
    SafeText t = {capacity, sizeof capacity, 0};
    mgpu_add_text(&t, isatty(STDERR_FILENO) ? "\r\033[K" : ""); /* overwrites the progress line */
    mgpu_add_text(&t, program_invocation_short_name);
    mgpu_add_text(&t, kind);
    mgpu_add_text(&t, where);
    mgpu_add_text(&t, what);
    for (int i = 0; i < MGPU_COUNT(SIGNALS); i++)
        mgpu_add_text(&t, SIGNALS[i].number == signal ? SIGNALS[i].name : "");
    mgpu_add_text(&t, after);
    mgpu_add_text(&t, "\n");
    if (write(STDERR_FILENO, t.text, t.length) < 0)
        errno = 0; /* there is no other way to report it */
    _exit(MGPU_MACHINE_FAILED);
}
