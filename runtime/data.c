/* data.c: a program's tables of data sets -> opened sets: the reader's stream, then each stage's, bound to the inputs. */
#include "runtime/image.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct CallRow { const char *name; OpenStream *open; } CallRow;
static const CallRow READERS[] = {{"idx", mgpu_open_idx},       {"npy", mgpu_open_npy},       {"csv", mgpu_open_csv},
                                  {"cifar", mgpu_open_cifar},   {"tokens", mgpu_open_tokens}, {"characters", mgpu_open_characters},
                                  {"text", mgpu_open_text},
                                  {"images", mgpu_open_images}};
static const CallRow STAGES[] = {{"part", mgpu_open_part},
                                 {"pairs", mgpu_open_pairs},
                                 {"decode", mgpu_open_decode},
                                 {"resize", mgpu_open_image_stage},
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

const mgpu_set *mgpu_find_set(const mgpu_program *p, const char *name)
{
    for (int i = 0; i < p->set_count; i++)
        if (strcmp(p->sets[i].name, name) == 0)
            return &p->sets[i];
    return NULL;
}

_Noreturn void mgpu_fail_no_set(const mgpu_program *p, const char *name, const char *where)
{
    const char **names = mgpu_allocate((size_t)p->set_count, sizeof *names);
    char near[128], *all = mgpu_format("%s", p->set_count ? "; it has: " : "");
    for (int i = 0; i < p->set_count; i++) {
        names[i] = p->sets[i].name;
        all = mgpu_format("%s%s%s", all, i ? ", " : "", names[i]);
    }
    mgpu_near_miss(name, names, p->set_count, near);
    mgpu_fail(MGPU_BAD_USAGE, "%s%s has no data set '%s'%s", where, p->model_file, name, *near ? near : all);
}

/* those of the inputs that are wanted; all, if a stage makes columns of others. The caller frees */
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

void mgpu_open_set(Dataset *d, const mgpu_program *p, const mgpu_set *set, const bool *wanted, const char *folder,
                   Categories *categories)
{
    *d = (Dataset){.name = set->name, .program = p};
    Opening o = {.program = p, .set = set, .folder = folder};
    mgpu_column *columns = wanted_columns(set, wanted, &o.column_count);
    o.columns = columns;
    for (int i = 0; i < set->call_count; i++) {
        o.call = &set->calls[i];
        OpenStream *open =
            i ? find_call(STAGES, MGPU_COUNT(STAGES), o.call->name) : find_call(READERS, MGPU_COUNT(READERS), o.call->name);
        char *where = mgpu_format("%s:%d: ", p->model_file, o.call->line);
        o.where = where;
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
}

static bool ends_with(const char *text, const char *end)
{
    size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

void mgpu_open_files(Dataset *d, const mgpu_program *p, const char *const *paths)
{
    *d = (Dataset){.name = "predict", .program = p};
    bool *wanted = mgpu_allocate((size_t)p->input_count, sizeof *wanted);
    int columns = 0;
    for (int i = 0; i < p->input_count; i++)
        columns += wanted[i] = paths[i] != NULL;
    Opening o = {.program = p, .where = ""};
    d->stream = mgpu_array_stream(&o, columns);
    for (int i = 0, c = 0; i < p->input_count; i++) {
        if (!paths[i])
            continue;
        Array a;
        if (access(paths[i], F_OK) != 0)
            mgpu_fail(MGPU_BAD_INPUT, "%s: %s", paths[i], strerror(errno));
        struct stat status;
        if (mgpu_is_picture(paths[i]) || (stat(paths[i], &status) == 0 && S_ISDIR(status.st_mode)))
            mgpu_read_pictures(&a, p, &p->inputs[i], paths[i]);
        else if (ends_with(paths[i], ".npy") || ends_with(paths[i], ".npz"))
            mgpu_read_npy(&a, paths[i], "", p->inputs[i].tensor.rank, false, p->inputs[i].tensor.name);
        else
            mgpu_read_idx(&a, paths[i], "", false);
        mgpu_set_array(d->stream, c++, p->inputs[i].tensor.name, &p->inputs[i], &a, paths[i], "");
    }
    mgpu_bind_set(d, wanted, NULL);
    free(wanted);
}
