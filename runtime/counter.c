/* counter.c: a number that only grows, on which threads wait.
 *
 * `wanted` is the smallest value that somebody sleeps for, 0: nobody sleeps. Who raises the number stores it and then
 * looks at `wanted`; who waits lowers `wanted` and then looks at the number once more. Both in sequentially consistent
 * order, so that one of them sees the other: no wake-up is lost, a raise that nobody sleeps for costs two memory
 * accesses, and a lane that waits for another's last operation is not woken by each one before it. Who wakes the
 * sleepers forgets them first, then changes `word`: those that want more announce themselves again.
 * The spin is short: two cores may carry seven devices. */
#include "runtime/internal.h"

#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { SPINS = 100 };

static void futex(_Atomic uint32_t *word, int operation, uint32_t value)
{
    syscall(SYS_futex, word, operation, value, NULL, NULL, 0);
}

static void pause_briefly(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#else
    atomic_thread_fence(memory_order_seq_cst);
#endif
}

void mgpu_counter_set(Counter *c, int64_t value)
{
    atomic_store(&c->value, value);
    int64_t wanted = atomic_load(&c->wanted);
    if (wanted && wanted <= value) {
        atomic_store(&c->wanted, 0);
        atomic_fetch_add(&c->word, 1);
        futex(&c->word, FUTEX_WAKE_PRIVATE, INT_MAX);
    }
}

void mgpu_counter_wait(Counter *c, int64_t at_least)
{
    mgpu_counter_wait_spinning(c, at_least, SPINS);
}

void mgpu_counter_wait_spinning(Counter *c, int64_t at_least, int spins)
{
    for (int i = 0; i < spins; i++) {
        if (atomic_load(&c->value) >= at_least)
            return;
        pause_briefly();
    }
    for (;;) {
        uint32_t seen = atomic_load(&c->word);
        int64_t wanted = atomic_load(&c->wanted);
        while ((!wanted || wanted > at_least) && !atomic_compare_exchange_weak(&c->wanted, &wanted, at_least))
            ;
        if (atomic_load(&c->value) >= at_least)
            break;
        futex(&c->word, FUTEX_WAIT_PRIVATE, seen);
    }
}
