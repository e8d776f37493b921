/* folder.c: opens the folder that a run saves into: creates and locks it, and reads which saves it has. */
#include "runtime/base/base.h"
#include "runtime/save/save.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

/* Syncs the parent of a new folder, which a power failure might remove otherwise, with its contents. */
static void sync_parent(const char *path)
{
    Draft d = {0};
    const char *slash = strrchr(path, '/');
    char *parent = mgpu_format("%.*s", slash > path ? (int)(slash - path) : 1, slash ? path : ".");
    mgpu_draft_sync(&d, parent);
    if (d.error)
        mgpu_fail(MGPU_MACHINE_FAILED, "%s", d.error);
    free(parent);
}

void mgpu_make_folder(const char *folder)
{
    char *path = mgpu_format("%s", folder);
    for (char *slash = path + 1; *path; slash++) {
        char c = *slash;
        if (c && c != '/')
            continue;
        *slash = 0;
        if (mkdir(path, 0777) == 0)
            sync_parent(path);
        else if (errno != EEXIST)
            mgpu_fail(MGPU_MACHINE_FAILED, "the folder %s cannot be made: %s", path, strerror(errno));
        *slash = c;
        if (!c)
            break;
    }
    struct stat status;
    if (stat(folder, &status) != 0 || !S_ISDIR(status.st_mode))
        mgpu_fail(MGPU_BAD_USAGE, "--save %s: this is no folder; name another one", folder);
    free(path);
}

bool mgpu_same_folder(const char *a, const char *b)
{
    struct stat x, y;
    return a && b && stat(a, &x) == 0 && stat(b, &y) == 0 && S_ISDIR(x.st_mode) && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

/* Finds the largest number, including those of interrupted and damaged saves. */
static void find_number(void *context, const char *name)
{
    SaveFolder *f = context;
    int64_t number = strtoll(name, NULL, 10);
    if (number > f->number && number < INT64_MAX / 2)
        f->number = number;
}

static void draw_digits(char to[33])
{
    Digest id = {0};
    char digits[65];
    if (getrandom(id.bytes, 16, 0) != 16)
        mgpu_fail(MGPU_MACHINE_FAILED, "the system has no random numbers: %s", strerror(errno));
    memcpy(to, mgpu_digest_text(&id, 16, digits), 33);
}

SaveFolder *mgpu_open_save_folder(const char *folder)
{
    SaveFolder *f = mgpu_allocate(1, sizeof *f);
    f->path = mgpu_format("%s", folder);
    draw_digits(f->run);
    draw_digits(f->token);
    f->lock = mgpu_lock_folder(folder, f->token);
    char *path = mgpu_format("%s/saves", folder);
    int saves = mgpu_open_below(AT_FDCWD, path);
    if (saves < 0 && errno != ENOENT)
        mgpu_fail(
            MGPU_BAD_INPUT,
            "%s is a link, or no folder that can be read: no save is made through it; rename it, or name another folder with --save",
            path);
    mgpu_each_name(saves, find_number, f);
    if (saves >= 0)
        close(saves);
    free(path);
    return f;
}

bool mgpu_share_folder(const SaveFolder *f, Processes *p)
{
    struct {
        char path[PATH_MAX], token[33];
    } at = {"", ""};
    if (f && realpath(f->path, at.path))
        memcpy(at.token, f->token, sizeof f->token);
    mgpu_from_rank_0(p, &at, sizeof at);
    int *sees = mgpu_allocate((size_t)p->count, sizeof *sees), count = 0;
    sees[p->rank] = *at.token && mgpu_sees_lock(at.path, at.token);
    mgpu_gather_each(p, sees, sizeof *sees);
    for (int r = 0; r < p->count; r++)
        count += sees[r];
    free(sees);
    return count == p->count;
}

/* Makes the last save the current one, under a new number. */
static void count_last(SaveFolder *f)
{
    Draft d;
    mgpu_draft_begin_as_last(&d, f);
    for (int i = 0; i < SAVED_FILES; i++)
        mgpu_draft_link(&d, i);
    char *error = mgpu_draft_finish(&d, false);
    if (error) /* the next save may succeed */
        mgpu_say("%s: warning: the save of step %lld in %s does not count yet: %s", program_invocation_short_name,
                 (long long)f->last.step, f->path, error);
    free(error);
}

void mgpu_continue_saves(SaveFolder *f, const Saved *from)
{
    f->number = from->manifest.number > f->number ? from->manifest.number : f->number;
    if (!from->sealed)
        return;
    memcpy(f->run, from->manifest.run, sizeof f->run);
    f->last = from->manifest;
    f->last.kept = mgpu_allocate((size_t)f->last.kept_count, sizeof *f->last.kept);
    for (int i = 0; i < f->last.kept_count; i++)
        f->last.kept[i] = from->manifest.kept[i];
    f->last_path = mgpu_format("%s", from->path);
    if (from->uncounted)
        count_last(f);
    else if (!from->older) /* a damaged save stays until the next one, so that the user can look at it */
        mgpu_clean_folder(f, f->last_path);
}

void mgpu_close_save_folder(SaveFolder *f)
{
    if (!f)
        return;
    if (f->lock >= 0)
        close(f->lock);
    free(f->path);
    free(f->last.kept);
    free(f->last_path);
    free(f);
}
