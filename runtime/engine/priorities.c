/* priorities.c: scheduling of the threads of host devices, where several devices share the cores.
 *
 * A thread that transfers runs for microseconds, while other devices wait for it. If it wakes up on a core that is computing, it
 * waits for the end of the current time slice, 1 to 3 ms. It preempts instead if its own slice is shorter (Linux 6.12,
 * sched_setattr(2), sched_runtime of SCHED_OTHER) and it has not used more than its share of the core, which a higher nice(2) of
 * computing threads makes larger. A system that knows neither runs the threads as before. mlp on two devices over 1 GB/s, two
 * cores, ms per step: 4.87; with both 4.19; short slices alone 4.83, nice alone 5.02. */
#include "runtime/engine/internal.h"

#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

typedef struct Attributes {
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime, deadline, period;
} Attributes;
enum { NICER = 5, SLICE_NS = 100000 }; /* nicer by 3: 4.71 ms */

void mgpu_set_priority(bool computes)
{
    if (sched_getscheduler(0) != SCHED_OTHER)
        return;                                          /* the user chose the policy */
    int own = getpriority(PRIO_PROCESS, (id_t)getpid()); /* of the main thread, so that repeated calls do not add up */
    Attributes attributes = {.size = sizeof attributes, .policy = SCHED_OTHER, .nice = own, .runtime = SLICE_NS};
    if (computes)
        setpriority(PRIO_PROCESS, 0, own + NICER);
    else
        syscall(SYS_sched_setattr, 0, &attributes, 0);
}
