/* remove_old.c: removes what no save of a folder needs. In: the current save, whose manifest lists the others that are kept. Out:
 * DIR/saves has only the current save, and DIR/step-N exists for those that are kept. It runs after a switch, when the new save
 * is on the disk.
 *
 * The folder may have come from an untrusted archive, and users put things of their own into it. So every name is resolved in an
 * open folder, no link is followed, and a folder is removed only if its name and all names in it are those of saves. */
#include "runtime/base/base.h"
#include "runtime/save/save.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool is_known(const char *name)
{
    bool known = strcmp(name, MGPU_MANIFEST) == 0;
    for (int i = 0; i < SAVED_FILES; i++)
        known = known || strcmp(name, mgpu_saved_names[i]) == 0;
    return known;
}

int mgpu_open_below(int parent, const char *name)
{
    return openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

void mgpu_each_name(int folder, void each(void *context, const char *name), void *context)
{
    int own = folder < 0 ? -1 : mgpu_open_below(folder, ".");
    DIR *dir = own < 0 ? NULL : fdopendir(own);
    for (struct dirent *e; dir && (e = readdir(dir));)
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
            each(context, e->d_name);
    if (dir)
        closedir(dir);
    else if (own >= 0)
        close(own);
}

static void check_known(void *context, const char *name)
{
    bool *only_known = context;
    *only_known = *only_known && is_known(name);
}

static bool has_only_known(int folder)
{
    bool only_known = true;
    mgpu_each_name(folder, check_known, &only_known);
    return only_known;
}

bool mgpu_is_flat_save(const char *path)
{
    int folder = mgpu_open_below(AT_FDCWD, path);
    bool is = folder >= 0 && has_only_known(folder);
    if (folder >= 0)
        close(folder);
    return is;
}

static void remove_name(void *context, const char *name) { unlinkat(*(const int *)context, name, 0); }

static bool is_folder(int folder, const struct stat *wanted)
{
    struct stat s;
    return fstat(folder, &s) != 0 || (s.st_dev == wanted->st_dev && s.st_ino == wanted->st_ino);
}

/* Removes a folder of a save, unless it is `spared`, the current one; spared may be NULL. What cannot be removed does no harm and
 * is tried again after the next save. */
static void remove_flat(int parent, const char *name, const struct stat *spared)
{
    int folder = mgpu_open_below(parent, name);
    if (folder < 0)
        return;
    if (!(spared && is_folder(folder, spared)) && has_only_known(folder)) {
        mgpu_each_name(folder, remove_name, &folder);
        unlinkat(parent, name, AT_REMOVEDIR);
    }
    close(folder);
}

void mgpu_remove_draft(const char *path) { remove_flat(AT_FDCWD, path, NULL); }

typedef struct Cleaning {
    const SaveFolder *folder;
    int root, saves; /* DIR, DIR/saves */
    struct stat spared;
} Cleaning;

/* True for names such as "17", "17.step", "17.gone" and "gone-12". */
static bool is_of_saves(const char *name)
{
    static const char GONE[] = "gone-";
    bool step = strncmp(name, GONE, sizeof GONE - 1) == 0;
    const char *number = name + (step ? sizeof GONE - 1 : 0), *rest = number + strspn(number, "0123456789");
    return rest > number && (!*rest || (!step && (strcmp(rest, ".step") == 0 || strcmp(rest, ".gone") == 0)));
}

static void remove_save(void *context, const char *name)
{
    const Cleaning *c = context;
    if (is_of_saves(name))
        remove_flat(c->saves, name, &c->spared);
}

/* Removes "step-12" if the run does not keep it. It is first renamed, so that it is either complete or absent. */
static void remove_step(void *context, const char *name)
{
    const Cleaning *c = context;
    if (strncmp(name, "step-", 5) != 0 || !name[5] || name[5 + strspn(name + 5, "0123456789")])
        return;
    int64_t step = strtoll(name + 5, NULL, 10);
    for (int i = 0; i < c->folder->last.kept_count; i++)
        if (c->folder->last.kept[i] == step)
            return;
    int folder = mgpu_open_below(c->root, name);
    if (folder < 0)
        return;
    char *gone = mgpu_format("gone-%s", name + 5);
    if (!is_folder(folder, &c->spared) && has_only_known(folder))
        renameat(c->root, name, c->saves, gone);
    close(folder);
    free(gone);
}

void mgpu_clean_folder(SaveFolder *f, const char *path)
{
    Draft ignored = {0};
    Cleaning c = {.folder = f, .root = open(f->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
    c.saves = c.root < 0 ? -1 : mgpu_open_below(c.root, "saves");
    if (c.saves >= 0 && stat(path, &c.spared) == 0) {
        mgpu_each_name(c.root, remove_step, &c);
        mgpu_draft_sync(&ignored, f->path);
        mgpu_each_name(c.saves, remove_save, &c);
    }
    if (c.saves >= 0)
        close(c.saves);
    if (c.root >= 0)
        close(c.root);
    free(ignored.error);
}
