/* crash.c: what a kernel was doing when it crashed, without a global: a guarded thread takes signals on a stack of its
 * own whose first bytes, found by its alignment, say whom to ask. A crash elsewhere ends the program as ever. */
#include "runtime/internal.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>

enum { STACK_BYTES = 1 << 16 }; /* size and alignment */
static const uint64_t MAGIC = 0x6d67707563726173u;
static const int SIGNALS[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL};

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
    CrashGuard *guard = mgpu_allocate_aligned(STACK_BYTES, STACK_BYTES);
    *guard = (CrashGuard){.magic = MAGIC, .say = say, .context = context};
    stack_t stack = {.ss_sp = guard + 1, .ss_size = STACK_BYTES - sizeof *guard};
    sigaltstack(&stack, &guard->before);
    for (int i = 0; i < MGPU_COUNT(SIGNALS); i++) {
        struct sigaction action = {.sa_flags = SA_ONSTACK};
        action.sa_handler = handle;
        sigaction(SIGNALS[i], &action, NULL);
    }
    return guard;
}

void mgpu_guard_end(CrashGuard *guard)
{
    sigaltstack(&guard->before, NULL); /* sanitizers have one and free it at the thread's end */
    free(guard);
}
