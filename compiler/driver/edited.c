/* edited.c: `--schedule FILE`: replaces the schedules of the program's plans by schedules that a person has edited. */
#include "compiler/driver/command.h"
#include "compiler/ir/program.h"
#include "compiler/plan/plan.h"
#include "compiler/verify/proof.h"

#include <string.h>

static Schedule **read_edited(const char *file, const Source **source, int *count)
{
    Source *s = NEW(Source);
    *s = (Source){.file = file, .text = read_schedules(file)};
    s->length = strlen(s->text);
    *source = s;
    return schedules_read(s, count);
}

const char *edited_devices(const char *file)
{
    const Source *source;
    int count;
    Schedule **edited = read_edited(file, &source, &count);
    Text list = {0};
    for (int i = 0; i < count; i++)
        text_add(&list, "%s%s:%d", i ? "," : "", edited[i]->phase_count ? edited[i]->phases[0].devices[0].name : "host",
                 edited[i]->devices);
    return text_take(&list);
}

static Plan *plan_of(const Program *p, const Schedule *s)
{
    for (int i = 0; i < p->plan_count; i++)
        if (p->plans[i].devices == s->devices && p->plans[i].nodes == s->nodes)
            return &p->plans[i];
    return NULL;
}

void take_schedules(Program *p)
{
    const Source *source;
    int count;
    Schedule **edited = read_edited(p->options->edited, &source, &count);
    for (int i = 0; i < count; i++) {
        Plan *plan = plan_of(p, edited[i]);
        Place at = {.source = source, .line = edited[i]->model_line, .column = 1};
        if (!plan)
            error_at(&at, "the program has no plan for %d devices: leave --devices out, or name them there", edited[i]->devices);
        if (plan->edited)
            error_at(&at, "this is the second schedule for %d devices: a plan has one", edited[i]->devices);
        take_edited(p, plan, edited[i], source);
        plan->edited = true;
        const char *wrong = verify(plan->schedule);
        if (!wrong)
            continue;
        at.line = verify_line() ? verify_line() : at.line;
        error_at(&at, "this schedule cannot be proved, and is not run: %s", wrong);
    }
}
