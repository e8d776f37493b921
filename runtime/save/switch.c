/* switch.c: a new save becomes the one that counts (save.h has the layout). In: files, one by one; out: DIR/current names
 * them.
 *
 *   1. DIR/saves/N, which is new, gets its files; each is synced and its SHA-256 taken as it is written
 *   2. the manifest; then the folder and saves/ are synced
 *   3. DIR/step-N, if it is to be kept, is made whole under another name and renamed
 *   4. DIR is synced; the link current.new is renamed to current; DIR is synced. This is the switch
 *   5. what no manifest lists any more is removed
 *
 * Until 4 nothing that is there changes; what 1 to 3 leave in a run that ends there, the next run removes. */
#include "runtime/base/base.h"
#include "runtime/save/save.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- steps of it */
static bool is_missing(const char *path)
{
    struct stat s;
    return lstat(path, &s) != 0 && errno == ENOENT;
}

/* A rename may be done although its answer is an error (over a network, as ENOENT or EIO): then `from`, which nobody else removes,
 * is there no more */
static void move(Draft *d, const char *from, const char *to)
{
    if (d->error || rename(from, to) == 0)
        return;
    int error = errno;
    if (!is_missing(from) || is_missing(to))
        mgpu_draft_fail(d, to, error);
}

/* out of the way of a new one: a folder of a save is removed later, under `saves`; what else people have put there stays, beside it */
static void move_aside(Draft *d, const char *path)
{
    char *gone = mgpu_is_flat_save(path) ? mgpu_format("%s.gone", d->path)
                                         : mgpu_format("%s.before-%lld", path, (long long)d->manifest.number);
    if (!d->error && !is_missing(path))
        move(d, path, gone);
    free(gone);
}

static void write_manifest(Draft *d)
{
    char *path = mgpu_format("%s/%s", d->path, MGPU_MANIFEST);
    size_t length;
    char *text = mgpu_manifest_text(&d->manifest, &length);
    int error = mgpu_write_new(path, text, length);
    if (error)
        mgpu_draft_fail(d, path, error);
    free(text);
    free(path);
}

/* DIR/step-N, of links to the draft's files */
static void keep_step(Draft *d, const char *saves)
{
    char *fresh = mgpu_format("%s.step", d->path),
         *step = mgpu_format("%s/step-%lld", d->folder->path, (long long)d->manifest.step);
    if (mkdir(fresh, 0777) != 0)
        mgpu_draft_fail(d, fresh, errno);
    for (int i = 0; i <= SAVED_FILES && !d->error; i++) {
        if (i < SAVED_FILES && !d->manifest.files[i].there)
            continue;
        const char *name = i < SAVED_FILES ? mgpu_saved_names[i] : MGPU_MANIFEST;
        char *from = mgpu_format("%s/%s", d->path, name), *to = mgpu_format("%s/%s", fresh, name);
        int error = mgpu_link_file(from, to);
        if (error)
            mgpu_draft_fail(d, to, error);
        free(from);
        free(to);
    }
    mgpu_draft_sync(d, fresh);
    mgpu_draft_sync(d, saves);
    move_aside(d, step);
    move(d, fresh, step);
    free(fresh);
    free(step);
}

/* a link to a save, or where there are no links a file that says its name; readers take either */
static void point(Draft *d, const char *path, const char *target)
{
    char *fresh = mgpu_format("%s.new", path);
    if (unlink(fresh) != 0 && errno != ENOENT)
        mgpu_draft_fail(d, fresh, errno);
    if (!d->error && symlink(target, fresh) != 0) {
        int error = errno;
        if (error == EPERM || error == EOPNOTSUPP || error == ENOSYS)
            error = mgpu_write_new(fresh, target, strlen(target));
        if (error)
            mgpu_draft_fail(d, fresh, error);
    }
    move(d, fresh, path);
    free(fresh);
}

/* DIR/NAME for everybody else. A file of an earlier layout is replaced when the save it belonged to counts no more (replace);
 * where there are no links it is a link to the file itself */
static void show_file(Draft *d, int which, bool replace)
{
    const char *name = mgpu_saved_names[which];
    char *path = mgpu_format("%s/%s", d->folder->path, name), *fresh = mgpu_format("%s.new", path);
    char *target = mgpu_format("current/%s", name), *own = mgpu_format("%s/%s", d->path, name);
    struct stat s;
    bool there = lstat(path, &s) == 0, good = there && S_ISLNK(s.st_mode);
    if (replace)
        unlink(fresh); /* of a save of the earlier layout that was interrupted, too */
    if (!d->manifest.files[which].there) {
        if (replace && there)
            unlink(path);
    } else if (replace ? !good : !there) {
        if (symlink(target, replace ? fresh : path) == 0) {
            if (replace)
                move(d, fresh, path);
        } else if (errno != EPERM && errno != EOPNOTSUPP && errno != ENOSYS) {
            mgpu_draft_fail(d, path, errno);
        } else if (replace) {
            int error = mgpu_link_file(own, fresh);
            if (error)
                mgpu_draft_fail(d, path, error);
            move(d, fresh, path);
        }
    }
    free(path);
    free(fresh);
    free(target);
    free(own);
}

/* a copy of the folder may have a folder there, with what the link led to; then DIR/weights.safetensors and the others are files
 */
static void clear_place(Draft *d, const char *current)
{
    struct stat s;
    if (lstat(current, &s) == 0 && S_ISDIR(s.st_mode))
        move_aside(d, current);
}

static void abandon(Draft *d)
{
    char *step = mgpu_format("%s.step", d->path);
    mgpu_remove_draft(step);
    mgpu_remove_draft(d->path);
    free(step);
    free(d->path);
    free(d->manifest.kept);
}

/* what the folder's last save is from now on */
static void take(Draft *d)
{
    SaveFolder *f = d->folder;
    free(f->last_path);
    free(f->last.kept);
    f->last_path = d->path;
    f->last = d->manifest;
}

char *mgpu_draft_finish(Draft *d, bool keep)
{
    SaveFolder *f = d->folder;
    char *saves = mgpu_format("%s/saves", f->path), *current = mgpu_format("%s/current", f->path);
    char *target = mgpu_format("saves/%lld", (long long)d->manifest.number);
    if (!d->error)
        write_manifest(d);
    if (!d->error)
        mgpu_draft_sync(d, d->path);
    if (!d->error)
        mgpu_draft_sync(d, saves);
    if (!d->error && keep)
        keep_step(d, saves);
    for (int i = 0; i < SAVED_FILES && !d->error; i++)
        show_file(d, i, false);
    if (!d->error)
        mgpu_draft_sync(d, f->path);
    if (!d->error)
        clear_place(d, current);
    if (!d->error)
        point(d, current, target);
    if (d->error) {
        abandon(d);
    } else {
        take(d);
        mgpu_draft_sync(d, f->path);
        for (int i = 0; i < SAVED_FILES && !d->error; i++)
            show_file(d, i, true);
        if (!d->error)
            mgpu_clean_folder(f, d->path);
    }
    free(saves);
    free(current);
    free(target);
    return d->error;
}
