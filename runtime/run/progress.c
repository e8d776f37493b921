/* progress.c: formats the progress of a run as a line. */
#include "runtime/run/progress.h"

#include <math.h>

const char *mgpu_duration(double seconds, char text[32])
{
    long long s = (long long)(seconds + 0.5);
    if (s >= 3600)
        snprintf(text, 32, "%lld:%02lld:%02lld", s / 3600, s / 60 % 60, s % 60);
    else
        snprintf(text, 32, "%lld:%02lld", s / 60, s % 60);
    return text;
}

int64_t mgpu_steps_of_epoch(int64_t step, int64_t steps_per_epoch, int64_t total_steps)
{
    int64_t left = total_steps - (step - 1) / steps_per_epoch * steps_per_epoch;
    return left < steps_per_epoch ? left : steps_per_epoch;
}

char *mgpu_place_text(const RunPlace *p)
{
    char rate[32], left[32], epoch[32], epochs[32], step[32], steps[32], lr[40] = "", waits[40] = "", end[48] = "";
    if (!isnan(p->lr))
        snprintf(lr, sizeof lr, "  lr %.4g", p->lr);
    if (p->waiting >= .005)
        snprintf(waits, sizeof waits, "  waits %.0f%%", 100 * fmin(p->waiting, 1));
    if (!isnan(p->seconds_left))
        snprintf(end, sizeof end, "  %s left", mgpu_duration(p->seconds_left, left));
    return mgpu_format("epoch %s/%s  step %s/%s  loss %.5g%s  %s samples/s%s%s", mgpu_grouped(p->epoch, epoch),
                       mgpu_grouped(p->epochs, epochs), mgpu_grouped(p->step, step), mgpu_grouped(p->steps, steps),
                       isnan(p->loss) ? (double)NAN : p->loss, lr, mgpu_grouped((int64_t)p->rate, rate), waits, end);
}
