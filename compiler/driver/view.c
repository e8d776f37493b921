/* view.c: `mgpuc schedule FILE` prints the schedules of a file or a model for people; `mgpuc diff A B` prints how schedule B
 * differs from A. runtime/view formats the text. The text is parsed first, so that an error names its place. */
#include "compiler/driver/command.h"
#include "compiler/driver/plan.h"
#include "runtime/view/view.h"

#include <string.h>

void view_print(const Options *o, Text *text)
{
    ViewRequest r = {.phase = o->phase,
                     .op = o->op,
                     .layer = o->layer,
                     .at = o->at,
                     .device = o->device ? mgpu_view_device(o->device) : -1,
                     .full = o->full,
                     .page = o->page,
                     .timeline = o->timeline};
    int count = 0;
    if (mgpu_view_is_file(&r, stdout)) {
        fputs(text_of(text), stdout);
        return;
    }
    for (char *at = text->data, *next; at; at = next) {
        next = cut_schedule(at);
        if (count++)
            putchar('\n');
        mgpu_view_print(&(ViewSource){.text = at}, &r, stdout);
    }
}

int command_schedule(const Options *o)
{
    Text text = {0};
    if (is_model_file(o->file)) {
        Program *p = make_schedules(o, NULL);
        predict_plans(p);
        for (int i = 0; i < p->plan_count; i++)
            schedule_write(p->plans[i].schedule, &text);
    } else {
        char *all = read_schedules(o->file);
        text_add(&text, "%s", plain_text(all, true)); /* comments included */
        for (char *at = all, *next; at; at = next) {
            next = cut_schedule(at);
            schedule_read(o->file, at);
        }
    }
    view_print(o, &text);
    return 0;
}

/* ---- mgpuc diff */
static const char DIFF_HELP[] =
    "mgpuc diff A.sched B.sched\n"
    "\n"
    "  what the schedule B changes in A, in words and numbers: step time, lanes, memory, links, all-reduces,\n"
    "  kernels, operations by layer. Schedules: mgpuc --emit schedule, ./PROGRAM schedule, -S; of a file with\n"
    "  several plans, those for as many devices are compared\n"
    "\n"
    "  --phase NAME         compare this phase (train.full)\n"
    "  -h, --help           this text";

typedef struct Plans {
    char **text;
    int count;
    int *devices;
} Plans;

static Plans plans_of(const char *file)
{
    Plans p = {0};
    for (char *at = read_schedules(file), *next; at; at = next) {
        next = cut_schedule(at);
        int devices = schedule_read(file, at)->devices, count = p.count;
        APPEND(p.text, p.count, at);
        APPEND(p.devices, count, devices);
    }
    return p;
}

int command_diff(int argc, char **argv)
{
    const char *phase = NULL;
    const OwnOption options[] = {{"--phase", .value = &phase}, {.name = NULL}};
    const char **files = own_words("diff", argc, argv, DIFF_HELP, options, 2);
    if (!files[0] || !files[1])
        fail(2, "mgpuc diff compares two schedules: mgpuc diff A.sched B.sched");
    Plans a = plans_of(files[0]), b = plans_of(files[1]);
    bool one = a.count == 1 && b.count == 1, any = false;
    for (int i = 0; i < a.count; i++)
        for (int k = 0; k < b.count; k++) {
            if (!one && a.devices[i] != b.devices[k])
                continue;
            if (any)
                putchar('\n');
            mgpu_view_diff(a.text[i], b.text[k], phase, stdout);
            any = true;
        }
    if (!any)
        fail(1, "%s and %s have no plan for as many devices", files[0], files[1]);
    return 0;
}
