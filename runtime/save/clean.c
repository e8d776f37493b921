/* clean.c: what no save of a folder needs any more is removed. In: the save that counts, whose manifest says which others
 * are kept; out: DIR/saves with nothing else, DIR/step-N of those that are kept. Only after a switch, which is on the disk by
 * then. */
#include "runtime/base/base.h"
#include "runtime/save/save.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What cannot be removed stays, and is tried again after the next save: it harms nobody */
static bool is_known(const char *name)
{
    bool known = strcmp(name, MGPU_MANIFEST) == 0;
    for (int i = 0; i < SAVED_FILES; i++)
        known = known || strcmp(name, mgpu_saved_names[i]) == 0;
    return known;
}

/* calls `each` for the names in a folder, but for . and .. */
void mgpu_each_name(const char *folder, void each(void *context, const char *name), void *context)
{
    DIR *dir = opendir(folder);
    if (!dir)
        return;
    for (struct dirent *e; (e = readdir(dir));)
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
            each(context, e->d_name);
    closedir(dir);
}

static void remove_name(void *context, const char *name)
{
    char *path = mgpu_format("%s/%s", (const char *)context, name);
    unlink(path);
    free(path);
}

void mgpu_remove_flat(char *path)
{
    mgpu_each_name(path, remove_name, path);
    rmdir(path);
}

typedef struct Cleaning {
    SaveFolder *folder;
    const char *spared;
    bool only_known;
} Cleaning;

static void check_known(void *context, const char *name)
{
    Cleaning *c = context;
    c->only_known = c->only_known && is_known(name);
}

static void remove_save(void *context, const char *name)
{
    Cleaning *c = context;
    char *path = mgpu_format("%s/saves/%s", c->folder->path, name);
    if (!mgpu_same_folder(path, c->spared) && unlink(path) != 0)
        mgpu_remove_flat(path);
    free(path);
}

/* "step-12", if the run keeps no such step and nobody has put something else there: out of sight first, so that it is whole or
 * absent */
static void remove_step(void *context, const char *name)
{
    Cleaning *c = context;
    if (strncmp(name, "step-", 5) != 0 || !name[5] || name[5 + strspn(name + 5, "0123456789")])
        return;
    int64_t step = strtoll(name + 5, NULL, 10);
    for (int i = 0; i < c->folder->last.kept_count; i++)
        if (c->folder->last.kept[i] == step)
            return;
    char *path = mgpu_format("%s/%s", c->folder->path, name), *gone = mgpu_format("%s/saves/gone-%s", c->folder->path, name + 5);
    c->only_known = true;
    mgpu_each_name(path, check_known, c);
    if (c->only_known && !mgpu_same_folder(path, c->spared))
        rename(path, gone);
    free(path);
    free(gone);
}

void mgpu_clean_folder(SaveFolder *f, const char *path)
{
    Draft ignored = {0};
    Cleaning c = {.folder = f, .spared = path};
    char *saves = mgpu_format("%s/saves", f->path);
    mgpu_each_name(f->path, remove_step, &c);
    mgpu_draft_sync(&ignored, f->path);
    mgpu_each_name(saves, remove_save, &c);
    free(saves);
    free(ignored.error);
}
