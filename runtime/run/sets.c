/* sets.c: opens data sets by a program's tables: the reader's stream, then each stage's, bound to the inputs. The tables
 * are those of data.h. */
#include "runtime/base/base.h"
#include "runtime/data/image/image.h"
#include "runtime/run/sets.h"

#include <stdlib.h>
#include <string.h>

typedef struct CallRow {
    const char *name;
    OpenStream *open;
} CallRow;
#define ROW(name) {#name, mgpu_open_##name},
static const CallRow READERS[] = {MGPU_READERS(ROW)};
static const CallRow STAGES[] = {MGPU_STAGES(ROW){"resize", mgpu_open_image_stage},
                                 {"center_crop", mgpu_open_image_stage},
                                 {"random_crop", mgpu_open_image_stage},
                                 {"random_resized_crop", mgpu_open_image_stage}};

static OpenStream *find_call(const CallRow *rows, int count, const char *name)
{
    for (int i = 0; i < count; i++)
        if (strcmp(rows[i].name, name) == 0)
            return rows[i].open;
    return NULL;
}

void mgpu_check_later(const mgpu_program *p, const char *name)
{
    for (int i = 0; i < p->later_count; i++)
        if (strcmp(p->later[i].name, name) == 0)
            mgpu_fail(MGPU_BAD_INPUT,
                      "%s:%d: the data set '%s' needs %s, which this version does not have yet; leave it out and compile again",
                      p->model_file, p->later[i].line, name, p->later[i].what);
}

_Noreturn void mgpu_fail_no_set(const mgpu_program *p, const char *name, const char *where)
{
    mgpu_check_later(p, name);
    const char **names = mgpu_allocate((size_t)p->set_count, sizeof *names);
    char near[128];
    for (int i = 0; i < p->set_count; i++)
        names[i] = p->sets[i].name;
    mgpu_did_you_mean(name, names, p->set_count, near);
    mgpu_fail(MGPU_BAD_USAGE, "%s%s has no data set '%s'%s%s", where, p->model_file, name,
              *near || !p->set_count ? near : "; it has: ", *near ? "" : mgpu_join_names(names, p->set_count));
}

/* Returns the columns of wanted inputs, or all if a stage makes inputs of other columns. The caller frees. */
static mgpu_column *wanted_columns(const mgpu_set *set, const bool *wanted, int *count)
{
    mgpu_column *columns = mgpu_allocate((size_t)set->column_count, sizeof *columns);
    bool all = false;
    *count = 0;
    for (int i = 0; i < set->column_count; i++)
        all = all || set->columns[i].input < 0;
    for (int i = 0; i < set->column_count; i++)
        if (all || wanted[set->columns[i].input])
            columns[(*count)++] = set->columns[i];
    return columns;
}

/* True for a stage of pictures whose inputs are not wanted. */
static bool is_idle(OpenStream *open, const Opening *o)
{
    if (open != mgpu_open_image_stage || o->column_count == o->set->column_count)
        return false;
    for (int c = 0; c < o->from->column_count; c++)
        if (o->from->columns[c].image)
            return false;
    return true;
}

static void open_calls(Dataset *d, const mgpu_program *p, const mgpu_set *set, const bool *wanted, const char *folder, bool fresh,
                       Inflow *inflow, Categories *categories)
{
    *d = (Dataset){.name = set->name, .program = p};
    Opening o = {.program = p, .set = set, .fresh = fresh, .inflow = inflow};
    const char *before = mgpu_doing(inflow ? NULL : "a data set is being opened"); /* rows that arrive may take their time */
    mgpu_column *columns = wanted_columns(set, wanted, &o.column_count);
    o.columns = columns;
    for (int i = 0; i < set->call_count; i++) {
        o.call = &set->calls[i];
        OpenStream *open =
            i ? find_call(STAGES, MGPU_COUNT(STAGES), o.call->name) : find_call(READERS, MGPU_COUNT(READERS), o.call->name);
        if (i && is_idle(open, &o))
            continue;
        bool given = fresh && i == 0; /* a path on the command line is not relative to the data folder */
        char *where = given ? mgpu_format("%s", "") : mgpu_format("%s:%d: ", p->model_file, o.call->line);
        o.where = where;
        o.folder = given ? NULL : folder;
        if (!open)
            mgpu_die("%sno reader or stage is called '%s'", where, o.call->name);
        o.from = open(&o);
        free(where);
    }
    free(columns);
    if (!o.from)
        mgpu_die("the data set '%s' has no reader", set->name);
    d->stream = o.from;
    mgpu_bind_set(d, wanted, categories);
    mgpu_doing(before);
}

void mgpu_open_set(Dataset *d, const mgpu_program *p, const mgpu_set *set, const bool *wanted, const char *folder,
                   Categories *categories)
{
    open_calls(d, p, set, wanted, folder, false, NULL, categories);
}

void mgpu_open_new_table(Dataset *d, const mgpu_program *p, const mgpu_set *set, const bool *wanted, const char *folder,
                         Inflow *inflow, Categories *categories)
{
    open_calls(d, p, set, wanted, folder, true, inflow, categories);
}
