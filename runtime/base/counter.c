/* counter.c: a number that only increases, and for which threads wait.
 *
 * Each element of `wanted` is the smallest value that a sleeping thread waits for, or 0; every thread uses one of them. A thread
 * that raises the number stores it and then reads `wanted`; a waiting thread lowers its element and then reads the number again.
 * Both use sequentially consistent order, so one of them sees the other's store, and no wake-up is lost. Raising a number for
 * which nobody sleeps touches one cache line, and a lane that waits for another's last operation is not woken by earlier ones.
 * The waking thread clears the element first and then changes `word`; threads that wait for more set their element again.
 * Spinning is short, because two cores may run seven devices. */
#include "runtime/base/base.h"
#include "runtime/base/context.h"

#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { SPINS = 100 };

/* kind: the bits of the threads to wake */
static void futex(_Atomic uint32_t *word, int operation, uint32_t value, int kind)
{
    syscall(SYS_futex, word, operation | FUTEX_PRIVATE_FLAG, value, NULL, NULL, kind);
}

/* Returns this thread's element of `wanted`. Threads that share one are woken together. */
static int own_kind(void)
{
    static _Atomic unsigned threads;
    static _Thread_local int kind = -1;
    if (kind < 0)
        kind = (int)(atomic_fetch_add(&threads, 1) % MGPU_WAITING_KINDS);
    return kind;
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
    int meant = 0;
    atomic_store(&c->value, value);
    for (int k = 0; k < MGPU_WAITING_KINDS; k++) {
        int64_t wanted = atomic_load(&c->wanted[k]);
        if (wanted && wanted <= value) {
            atomic_store(&c->wanted[k], 0);
            meant |= 1 << k;
        }
    }
    if (meant) {
        atomic_fetch_add(&c->word, 1);
        futex(&c->word, FUTEX_WAKE_BITSET, INT_MAX, meant);
    }
}

void mgpu_counter_wait(Counter *c, int64_t at_least) { mgpu_counter_wait_spinning(c, at_least, SPINS); }

bool mgpu_counter_spin(const Counter *c, int64_t at_least, int spins)
{
    for (int i = 0; i < spins; i++) {
        if (atomic_load(&c->value) >= at_least)
            return true;
        pause_briefly();
    }
    return false;
}

void mgpu_counter_wait_spinning(Counter *c, int64_t at_least, int spins)
{
    if (mgpu_counter_spin(c, at_least, spins))
        return;
    int kind = own_kind();
    for (;;) {
        uint32_t seen = atomic_load(&c->word);
        int64_t wanted = atomic_load(&c->wanted[kind]);
        while ((!wanted || wanted > at_least) && !atomic_compare_exchange_weak(&c->wanted[kind], &wanted, at_least))
            ;
        if (atomic_load(&c->value) >= at_least)
            break;
        Sleeper sleeper;
        mgpu_sleep_begin(&sleeper, &c->word);
        futex(&c->word, FUTEX_WAIT_BITSET, seen, 1 << kind);
        mgpu_sleep_end(&sleeper);
    }
}
