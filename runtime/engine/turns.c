/* turns.c: which threads of host devices the scheduler of Linux prefers, where several devices share the cores.
 *
 * A thread that transfers runs for microseconds, and other devices wait for it. Woken on a core that computes, it waits for the end of the
 * turn there, 1 to 3 ms. It need not if its own turns are shorter (Linux 6.12, sched_setattr(2), sched_runtime of SCHED_OTHER) and it has not
 * had more than its share of the core, which nice(2) of those that compute makes larger. Both are wishes: a system that knows neither runs
 * the threads as before. mlp on two devices over 1 GB/s, two cores, ms a step: 4.87; with both 4.19; shorter turns alone 4.83, nice alone 5.02. */
#include "runtime/engine/internal.h"

#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

typedef struct Attributes { uint32_t size, policy; uint64_t flags; int32_t nice; uint32_t priority; uint64_t runtime, deadline, period; } Attributes;
enum { NICER = 5, TURN_NS = 100000 }; /* nicer by 3: 4.71 */

void mgpu_take_turns(bool computes)
{
    if (sched_getscheduler(0) != SCHED_OTHER)
        return; /* it was chosen for the program */
    int own = getpriority(PRIO_PROCESS, (id_t)getpid()); /* of the first thread, so it adds up for none */
    Attributes turns = {.size = sizeof turns, .policy = SCHED_OTHER, .nice = own, .runtime = TURN_NS};
    if (computes)
        setpriority(PRIO_PROCESS, 0, own + NICER);
    else
        syscall(SYS_sched_setattr, 0, &turns, 0);
}
