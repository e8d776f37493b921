/* intervals.c: intervals of a run in steps; the best validation result so far, and what happens when it stops improving (the run
 * ends early, a plateau lowers a rate).
 *
 * Steps count from 1. An interval of I steps ends after the steps I, 2 I, ..., so that an interrupted run has the same intervals.
 * Epochs are converted to steps; I need not be an integer. */
#include "runtime/base/base.h"
#include "runtime/base/intervals.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double ROUNDING = 1e-9;

/* ---- quantities */
static const struct {
    const char *text;
    uint8_t unit;
    double factor;
} UNITS[] = {
    {"steps", MGPU_UNIT_STEPS, 1},  {"step", MGPU_UNIT_STEPS, 1},      {"epochs", MGPU_UNIT_EPOCHS, 1},
    {"epoch", MGPU_UNIT_EPOCHS, 1}, {"samples", MGPU_UNIT_SAMPLES, 1}, {"sample", MGPU_UNIT_SAMPLES, 1},
    {"s", MGPU_UNIT_SECONDS, 1},    {"min", MGPU_UNIT_SECONDS, 60},    {"h", MGPU_UNIT_SECONDS, 3600},
};

mgpu_quantity mgpu_read_quantity(const char *name, const char *text, bool validations)
{
    if (strcmp(text, "none") == 0)
        return (mgpu_quantity){0, MGPU_UNIT_NEVER};
    char *end;
    errno = 0;
    double amount = strtod(text, &end);
    bool number = end != text && !errno && isfinite(amount) && amount > 0 && text[strspn(text, " ")] != '-';
    if (number && validations && !*end && amount == floor(amount))
        return (mgpu_quantity){amount, MGPU_UNIT_TIMES};
    for (int i = 0; number && i < MGPU_COUNT(UNITS); i++)
        if (strcmp(end, UNITS[i].text) == 0 && !(validations && UNITS[i].unit == MGPU_UNIT_SECONDS))
            return (mgpu_quantity){amount * UNITS[i].factor, UNITS[i].unit};
    if (validations)
        mgpu_fail(MGPU_BAD_USAGE,
                  "--set %s=%s: a number of validations was expected, or a quantity such as 5epochs or "
                  "2000steps, or none",
                  name, text);
    mgpu_fail(MGPU_BAD_USAGE, "--set %s=%s: a quantity was expected, such as 1epoch, 500steps, 10000samples or 30min, or none",
              name, text);
}

const char *mgpu_quantity_text(mgpu_quantity q, char text[48])
{
    static const char *const NAMES[] = {[MGPU_UNIT_STEPS] = "step",
                                        [MGPU_UNIT_EPOCHS] = "epoch",
                                        [MGPU_UNIT_SAMPLES] = "sample",
                                        [MGPU_UNIT_SECONDS] = "s",
                                        [MGPU_UNIT_TIMES] = "validation"};
    if (q.unit == MGPU_UNIT_NONE || q.unit == MGPU_UNIT_NEVER)
        return "none";
    bool seconds = q.unit == MGPU_UNIT_SECONDS;
    snprintf(text, 48, "%.9g%s%s%s", q.amount, seconds || q.unit == MGPU_UNIT_TIMES ? " " : "", NAMES[q.unit],
             seconds || q.amount == 1 ? "" : "s");
    return text;
}

/* Returns infinity for never and for MGPU_UNIT_TIMES. */
static double in_steps(mgpu_quantity q, const Pace *pace)
{
    switch (q.unit) {
    case MGPU_UNIT_STEPS: return q.amount;
    case MGPU_UNIT_EPOCHS: return q.amount * pace->steps_per_epoch;
    case MGPU_UNIT_SAMPLES: return q.amount / pace->batch;
    default: return INFINITY;
    }
}

bool mgpu_interval_over(mgpu_quantity q, const Pace *pace, int64_t before, int64_t now)
{
    double steps = in_steps(q, pace);
    if (isinf(steps))
        return false;
    return now > before && floor((double)now / steps + ROUNDING) > floor((double)before / steps + ROUNDING);
}

/* ---- watched results */
bool mgpu_watch_value(Watched *w, const mgpu_watch *watch, double value, int64_t step)
{
    bool better = !isnan(value) && (!w->any || (watch->highest ? value > w->best : value < w->best));
    if (better) {
        w->any = true;
        w->best = value;
        w->best_step = w->since = step;
        w->bad = 0;
    } else {
        w->bad++;
    }
    return better;
}

bool mgpu_out_of_patience(const Watched *w, mgpu_quantity patience, const Pace *pace, int64_t step)
{
    if (!w->bad || patience.unit == MGPU_UNIT_NONE || patience.unit == MGPU_UNIT_NEVER)
        return false;
    if (patience.unit == MGPU_UNIT_TIMES)
        return (double)w->bad >= patience.amount;
    return (double)(step - w->since) >= in_steps(patience, pace) - ROUNDING;
}

void mgpu_lower(Watched *w, double factor, int64_t step)
{
    w->scale *= factor;
    w->bad = 0;
    w->since = step;
}
