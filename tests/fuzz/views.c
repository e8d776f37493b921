/* views.c: what people look at, made of files that others wrote: pages of schedules, curves and reports of runs, a run that is
 * followed. Whatever is in the files, what is printed has no control character in it, and what a browser shows no markup. */
#include "tests/fuzz/fuzz.h"

#include "compiler/base/base.h"
#include "compiler/plan/schedule.h"
#include "runtime/base/base.h"
#include "runtime/view/view.h"
#include "tests/fuzz/markup.h"
#include "tests/fuzz/readers.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int mgpuc_main(int argc, char **argv); /* compiler/driver/main.c */

static void look_at(const char *what, const char *text)
{
    if (strcmp(plain_text(text, true), text) != 0)
        fuzz_wrong("%s has a control character", what);
}

/* ---- text of a schedule -> its pages; what it changes in itself is nothing */
static void show(const char *text, const char *phase)
{
    char *said;
    size_t length;
    FILE *f = mgpu_begin_text(&said, &length);
    ViewRequest r = {.device = -1, .width = 80, .phase = phase};
    View *v = mgpu_view_read(&(ViewSource){.text = text}, phase);
    mgpu_view_page(v, &r, f);
    mgpu_view_timeline(v, &r, f);
    r.at = format("%gus", v->end_us / 2);
    for (r.device = 0; v->end_us > 0 && v->end_us < 1e9 && r.device < v->schedule->devices && r.device < 2; r.device++)
        mgpu_view_at(v, &r, f);
    r.device = -1;
    for (int d = 0; d < v->schedule->devices && d < 2; d++)
        for (int i = 0; i < v->devices[d].op_count && i < 4; i++) {
            r.op = format("d%d.%s", d, v->devices[d].ops[i].id);
            r.layer = v->devices[d].ops[i].layer;
            if (mgpu_view_find_op(&v->devices[d], v->devices[d].ops[i].id) == i)
                mgpu_view_op(v, &r, f);
            r.device = d;
            if (*r.layer)
                mgpu_view_layer(v, &r, f);
            r.device = -1;
        }
    mgpu_view_free(v);
    mgpu_end_text(f);
    look_at("a page", said);
    free(said);
}

void run_view(const uint8_t *data, size_t length)
{
    enum { MOST_PHASES = 3 };
    const char *text = (const char *)data;
    const Schedule *s = schedule_read("case", text);
    for (int i = 0; i < s->phase_count && i < MOST_PHASES; i++)
        show(text, s->phases[i].name);
    char *said;
    FILE *f = mgpu_begin_text(&said, &length);
    mgpu_view_diff(text, text, s->phase_count ? s->phases[0].name : NULL, f);
    mgpu_end_text(f);
    look_at("a difference", said);
    if (!strstr(said, "no difference"))
        fuzz_wrong("a schedule differs from itself: %s", said);
    free(said);
}

/* ---- logs of runs and timelines -> what `watch`, `mgpuc plot` and `mgpuc report` make of them */
static const char *printed(int file) /* since it was emptied */
{
    size_t length;
    fflush(stdout);
    const char *text = read_file(format("/proc/self/fd/%d", file), &length);
    if (!text)
        fuzz_wrong("a file in memory cannot be read");
    if (ftruncate(file, 0) || lseek(file, 0, SEEK_SET))
        fuzz_wrong("a file in memory cannot be emptied");
    return text;
}

static void look_at_markup(int file)
{
    char problem[256];
    const char *text = printed(file), *why = markup_problem(text, strlen(text), problem, sizeof problem);
    if (why)
        fuzz_wrong("%s", why);
    look_at("a page", text);
}

static void mgpuc(const char *command, const char *path, const char *output)
{
    char *words[] = {
        "mgpuc", (char *)(uintptr_t)command, (char *)(uintptr_t)path, output ? "-o" : NULL, (char *)(uintptr_t)output, NULL};
    mgpuc_main(output ? 5 : 3, words);
}

void run_log(const uint8_t *data, size_t length)
{
    static const char END[] = "\n{\"event\":\"end\"}\n"; /* nobody waits for more */
    static int out = -1, page = -1;
    if (out < 0) {
        out = memfd_create("printed", 0);
        page = memfd_create("page", 0);
    }
    if (dup2(out, STDOUT_FILENO) < 0)
        fuzz_wrong("a file in memory cannot be written");
    printed(out);
    bool timeline = strstr((const char *)data, "\"traceEvents\"");
    char *log = allocate(length + sizeof END);
    memcpy(log, data, length);
    memcpy(log + length, END, sizeof END);
    const char *path = fuzz_file((const uint8_t *)log, length + (timeline ? 0 : sizeof END - 1)),
               *pages = format("/proc/self/fd/%d", page);
    if (!timeline) {
        follow_log(path);
        look_at("what watch says", printed(out));
    }
    mgpuc("report", path, pages);
    look_at_markup(page);
    if (timeline)
        return;
    mgpuc("plot", path, pages);
    look_at_markup(page);
    mgpuc("plot", path, NULL);
    look_at("what plot says", printed(out));
}
