/* show.c: chooses the view by the request and by whether the output is a terminal. */
#include "runtime/base/terminal.h"
#include "runtime/view/view.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int mgpu_view_device(const char *text)
{
    char *end;
    long n = strtol(text, &end, 10);
    if (end == text || *end || n < 0 || n > INT32_MAX)
        mgpu_fail(MGPU_BAD_USAGE, "--device %s: the number of a device is expected, counted from 0", text);
    return (int)n;
}

/* ---- which view */
static int page_width(FILE *f)
{
    enum { USUAL = 80, LEAST = 60, MOST = 400 };
    int columns = mgpu_terminal_columns(f);
    return !columns ? USUAL : columns < LEAST ? LEAST : columns > MOST ? MOST : columns;
}

static bool shows_colours(FILE *f)
{
    const char *no = getenv("NO_COLOR"), *terminal = getenv("TERM");
    return isatty(fileno(f)) && !(no && *no) && terminal && strcmp(terminal, "dumb") != 0;
}

bool mgpu_view_is_file(const ViewRequest *r, FILE *f)
{
    bool asked = r->page || r->timeline || r->op || r->layer || r->at || r->phase || r->device >= 0;
    return r->full || (!asked && !isatty(fileno(f)));
}

static void print_text(const ViewSource *from, FILE *f)
{
    if (from->text) {
        fputs(from->text, f);
        return;
    }
    mgpu_block *memory = NULL;
    mgpu_reader r = {.wrong = mgpu_wrong_image, .allocate = mgpu_take_memory, .memory = &memory};
    mgpu_writer w = mgpu_file_writer(f);
    mgpu_schedule_write(mgpu_schedule_unpack(&r, from->image), &w);
    mgpu_free_memory(&memory);
}

void mgpu_view_print(const ViewSource *from, const ViewRequest *asked, FILE *f)
{
    ViewRequest r = *asked;
    if (mgpu_view_is_file(asked, f)) {
        print_text(from, f);
        return;
    }
    r.width = r.width ? r.width : page_width(f);
    r.colour = r.colour || shows_colours(f);
    View *v = mgpu_view_read(from, r.phase);
    if (r.device >= v->schedule->devices)
        mgpu_fail(MGPU_BAD_USAGE, "--device %d: the schedule has %d device%s, numbered from 0", r.device, v->schedule->devices,
                  v->schedule->devices == 1 ? "" : "s");
    if (r.op)
        mgpu_view_op(v, &r, f);
    if (r.layer)
        mgpu_view_layer(v, &r, f);
    if (r.at)
        mgpu_view_at(v, &r, f);
    if (r.timeline)
        mgpu_view_timeline(v, &r, f);
    if (r.page || (!r.op && !r.layer && !r.at && !r.timeline))
        mgpu_view_page(v, &r, f);
    mgpu_view_free(v);
}
