/* slow_device.c: MGPU_SLOW and MGPU_LINK_GBPS. The slowed thread sleeps, so that others can use its core. Short sleeps are
 * accumulated, since a system does not wake a thread to the microsecond. */
#include "runtime/base/base.h"
#include "runtime/engine/slow_device.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const double LEAST_SLEEP_S = 2e-4;

static _Noreturn void fail_slow(const char *value)
{
    mgpu_fail(MGPU_BAD_USAGE,
              "MGPU_SLOW is DEVICE:FACTOR or read:FACTOR, as in 2:1.5 or 0:2,read:4, with factors from 1 on, not '%s'", value);
}

void mgpu_slow_read(double *factor, int devices, double *reading)
{
    const char *value = getenv("MGPU_SLOW");
    for (const char *at = value; at && *at;) {
        char *end = NULL;
        bool reads = strncmp(at, "read:", strlen("read:")) == 0;
        long device = reads ? 0 : strtol(at, &end, 10);
        if (!reads && (end == at || *end != ':' || device < 0))
            fail_slow(value);
        at = reads ? at + strlen("read") : end;
        double times = strtod(at + 1, &end);
        if (end == at + 1 || (*end && *end != ',') || (*end && !end[1]) || !isfinite(times) || times < 1)
            fail_slow(value);
        if (reads)
            *reading = times;
        else if (device < devices)
            factor[device] = times;
        at = *end ? end + 1 : end;
    }
}

void mgpu_sleep_until(double when)
{
    double left = when - mgpu_seconds();
    struct timespec t = {(time_t)left, (long)(1e9 * (left - floor(left)))};
    if (left > 0)
        nanosleep(&t, NULL);
}

/* proc(5), /proc/PID/schedstat: nanoseconds on a core, then nanoseconds waiting for one; 0 if the system does not count them */
static double waited_for_a_core(void)
{
    double waited = 0;
    FILE *file = fopen("/proc/thread-self/schedstat", "re");
    if (file && fscanf(file, "%*s %lf", &waited) != 1)
        waited = 0;
    if (file)
        fclose(file);
    return 1e-9 * waited;
}

double mgpu_slow_begin(const Slow *s) { return s->factor > 1 ? mgpu_seconds() - waited_for_a_core() : 0; }

void mgpu_slow_end(Slow *s, double began)
{
    if (s->factor <= 1)
        return;
    /* The kernel measures waiting by another clock, so the difference can be slightly negative. A large factor would turn that
     * into minutes without a slowdown. */
    double now = mgpu_seconds(), worked = now - waited_for_a_core() - began;
    s->pending_s += (s->factor - 1) * (worked > 0 ? worked : 0);
    if (s->pending_s < LEAST_SLEEP_S)
        return;
    mgpu_sleep_until(now + s->pending_s);
    s->pending_s -= mgpu_seconds() - now;
}

/* Transfers data up to the present: flows with bytes left share the bandwidth equally. */
static void advance(SlowLink *k, double rate)
{
    double now = mgpu_seconds(), bytes = rate * (now - k->at);
    for (int active = 1; active && bytes > 0;) {
        double least = 0;
        active = 0;
        for (int i = 0; i < SLOW_FLOWS; i++)
            if (k->left[i] > 0) {
                least = active && least < k->left[i] ? least : k->left[i];
                active++;
            }
        double each = active && least * active > bytes ? bytes / active : least;
        for (int i = 0; i < SLOW_FLOWS; i++)
            k->left[i] = k->left[i] > each ? k->left[i] - each : 0;
        bytes -= each * active;
    }
    k->at = now;
}

void mgpu_slow_link_begin(SlowLink *k, int flow, double bytes, double rate)
{
    pthread_mutex_lock(&k->lock);
    advance(k, rate);
    k->left[flow] = bytes;
    pthread_mutex_unlock(&k->lock);
}

void mgpu_slow_link_end(SlowLink *k, int flow, double rate)
{
    for (double left = 1; left > 0;) {
        pthread_mutex_lock(&k->lock);
        advance(k, rate);
        left = k->left[flow];
        pthread_mutex_unlock(&k->lock);
        mgpu_sleep_until(mgpu_seconds() + left / rate);
    }
}

double mgpu_link_rate(void)
{
    const char *value = getenv("MGPU_LINK_GBPS");
    if (!value || !*value)
        return 0;
    char *end;
    double rate = strtod(value, &end);
    if (end == value || *end || !isfinite(rate) || rate <= 0)
        mgpu_fail(MGPU_BAD_USAGE, "MGPU_LINK_GBPS is a rate in GB/s, such as 0.5, not '%s'", value);
    return 1e9 * rate;
}
