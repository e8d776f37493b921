/* words.c: formats numbers with units, and shortens names. */
#include "runtime/view/view.h"

#include <stdlib.h>
#include <string.h>

const char *mgpu_view_time(double us, char text[32])
{
    double size = us < 0 ? -us : us;
    snprintf(text, 32,
             size < 1000  ? "%.1f us"
             : size < 1e6 ? "%.2f ms"
                          : "%.2f s",
             size < 1000  ? us
             : size < 1e6 ? us / 1e3
                          : us / 1e6);
    return text;
}

const char *mgpu_view_bytes(double bytes, char text[32])
{
    static const char *const UNIT[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
    int u = 0;
    for (; (bytes >= 1024 || bytes <= -1024) && u + 1 < MGPU_COUNT(UNIT); u++)
        bytes /= 1024;
    snprintf(text, 32, u ? "%.1f %s" : "%.0f %s", bytes, UNIT[u]);
    return text;
}

const char *mgpu_view_number(double n, char text[32]) { return mgpu_grouped(n < 1e15 ? (int64_t)(n + .5) : (int64_t)1e15, text); }

const char *mgpu_view_ms(double us, char text[32])
{
    snprintf(text, 32, "%.*f", us >= 1e3 || us <= 0 ? 2 : us >= 100 ? 3 : 4, us / 1e3);
    return text;
}

const char *mgpu_view_rate(double per_s, char text[32])
{
    if (per_s >= 1e3)
        return mgpu_view_number(per_s, text);
    snprintf(text, 32, "%.1f", per_s);
    return text;
}

const char *mgpu_view_cut(const char *name, int width, char *text, size_t capacity)
{
    int length = (int)strlen(name), tail = (width - 2) / 2;
    width = width < 8 ? 8 : width;
    if (length <= width)
        snprintf(text, capacity, "%s", name);
    else
        snprintf(text, capacity, "%.*s..%s", width - 2 - tail, name, name + length - tail);
    return text;
}

double mgpu_view_time_of(const char *text)
{
    static const struct {
        const char *unit;
        double us;
    } UNITS[] = {{"us", 1}, {"ms", 1e3}, {"s", 1e6}};
    char *end;
    double n = strtod(text, &end);
    for (int i = 0; end != text && n >= 0 && i < MGPU_COUNT(UNITS); i++)
        if (strcmp(end, UNITS[i].unit) == 0)
            return n * UNITS[i].us;
    mgpu_fail(MGPU_BAD_USAGE, "--at %s: a time since the step began is expected, such as 3ms or 250us", text);
}
