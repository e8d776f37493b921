/* gather_starts.c: when the gathers of weights begin that devices hold in parts.
 *
 * In: the gathers of a phase in the order of their first readers; how long each takes; when each call begins if nothing is waited
 * for. Out: before which call each begins: as late as possible, because gathered weights take memory, but so early that their
 * reader need not wait. AHEAD times the predicted time is reserved for it: predictions are not exact, and in the backward pass
 * reduce-scatters use the lane, too. If devices compute faster than they gather, all gathers would begin at once. So weights that
 * are gathered and not used yet may have at most `share` of all bytes, which follows from the available memory (driver/memory.c),
 * or BUDGET if that is more. */
#include "compiler/plan/schedule_internal.h"

#include <math.h>

/* of the bytes of all gathers: those of the forward and of the backward pass */
static const double TIME_RESERVE = 2, BUDGET = 1.0 / 32;

/* Returns the last of the calls 0 ... last that begins at this time or earlier. */
static int call_at(const double *begin_us, int last, double us)
{
    int low = 0, high = last;
    while (low < high) {
        int middle = low + (high - low + 1) / 2;
        if (begin_us[middle] <= us)
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

void place_gather_copies(GatherCopy *copies, int count, const double *begin_us, double share)
{
    double free_us = INFINITY;
    int64_t all = 0, ahead = 0;
    for (int k = count - 1; k >= 0; k--) {
        GatherCopy *l = &copies[k];
        free_us = (begin_us[l->reader] < free_us ? begin_us[l->reader] : free_us) - TIME_RESERVE * l->us;
        l->place = call_at(begin_us, l->reader, free_us);
        all = add_bytes(all, l->bytes);
    }
    for (int k = 0, first = 0; k < count; k++) { /* first ... k - 1 are not used yet */
        for (; first < k && (double)ahead > fmax(share, BUDGET) * (double)all; first++)
            ahead -= copies[first].bytes;
        ahead += copies[k].bytes;
        int earliest = first > 0 ? copies[first - 1].reader : 0;
        copies[k].place = copies[k].place > earliest ? copies[k].place : earliest;
    }
}
