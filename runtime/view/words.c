/* words.c: numbers with units, names that fit, and which view is asked for. */
#include "runtime/view/view.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

const char *mgpu_view_time(double us, char text[32])
{
    double size = us < 0 ? -us : us;
    snprintf(text, 32, size < 1000 ? "%.1f us" : size < 1e6 ? "%.2f ms" : "%.2f s", size < 1000 ? us : size < 1e6 ? us / 1e3 : us / 1e6);
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

const char *mgpu_view_cut(const char *name, int width, char *text, size_t room)
{
    int length = (int)strlen(name), tail = (width - 2) / 2;
    width = width < 8 ? 8 : width;
    if (length <= width)
        snprintf(text, room, "%s", name);
    else
        snprintf(text, room, "%.*s..%s", width - 2 - tail, name, name + length - tail);
    return text;
}

int mgpu_view_device(const char *text)
{
    char *end;
    long n = strtol(text, &end, 10);
    if (end == text || *end || n < 0 || n > INT32_MAX)
        mgpu_fail(MGPU_BAD_USAGE, "--device %s: the number of a device is expected, counted from 0", text);
    return (int)n;
}

/* ---- which view */
static int width_of_terminal(FILE *f)
{
    struct winsize size;
    const char *columns = getenv("COLUMNS");
    int width = isatty(fileno(f)) && ioctl(fileno(f), TIOCGWINSZ, &size) == 0 && size.ws_col ? size.ws_col : columns ? atoi(columns) : 0;
    return width <= 0 ? 80 : width < 60 ? 60 : width > 400 ? 400 : width;
}

static bool shows_colours(FILE *f)
{
    const char *no = getenv("NO_COLOR"), *terminal = getenv("TERM");
    return isatty(fileno(f)) && !(no && *no) && terminal && strcmp(terminal, "dumb") != 0;
}

bool mgpu_view_is_file(const ViewRequest *r, FILE *f)
{
    bool asked = r->page || r->timeline || r->op || r->layer || r->phase || r->device >= 0;
    return r->full || (!asked && !isatty(fileno(f)));
}

void mgpu_view_print(const char *text, const ViewRequest *asked, FILE *f)
{
    ViewRequest r = *asked;
    if (mgpu_view_is_file(asked, f)) {
        fputs(text, f);
        return;
    }
    r.width = r.width ? r.width : width_of_terminal(f);
    r.colour = r.colour || shows_colours(f);
    View *v = mgpu_view_read(text, r.phase);
    if (r.device >= v->device_count)
        mgpu_fail(MGPU_BAD_USAGE, "--device %d: the schedule has %d device%s, numbered from 0", r.device, v->device_count, v->device_count == 1 ? "" : "s");
    if (r.op)
        mgpu_view_op(v, &r, f);
    if (r.layer)
        mgpu_view_layer(v, &r, f);
    if (r.timeline)
        mgpu_view_timeline(v, &r, f);
    if (r.page || (!r.op && !r.layer && !r.timeline))
        mgpu_view_page(v, &r, f);
    mgpu_view_free(v);
}
