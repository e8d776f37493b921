/* commit.c: makes a new save the current one (save.h describes the layout). In: files, one by one; out: DIR/current names them.
 *
 *   1. DIR/saves/N is created and gets its files; each is synced and its SHA-256 computed as it is written
 *   2. the manifest is written; then the folder and saves/ are synced
 *   3. DIR/step-N, if the save is kept, is completed under another name and renamed
 *   4. DIR is synced; the link current.new is renamed to current; DIR is synced. This is the switch
 *   5. saves that no manifest lists are removed
 *
 * Nothing that exists changes before step 4. If a run stops in steps 1 to 3, the next run removes what they have left. */
#include "runtime/base/base.h"
#include "runtime/save/save.h"

#include <errno.h>
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

/* A rename may succeed although it returns an error (ENOENT or EIO over a network). Then `from`, which nobody else removes, is
 * gone. */
static void move(Draft *d, const char *from, const char *to)
{
    if (d->error || rename(from, to) == 0)
        return;
    int error = errno;
    if (!is_missing(from) || is_missing(to))
        mgpu_draft_fail(d, to, error);
}

/* Moves an old file or folder away. A folder of a save moves to `saves`, where it is removed later; anything else stays next to
 * it. */
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

/* Makes DIR/step-N, with links to the draft's files. */
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

/* Makes a link to a save, or where links are impossible a file with its name; readers accept both. */
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

/* Makes DIR/NAME for other programs. `replace` replaces a file of an earlier layout, after its save has become obsolete. Where
 * symbolic links are impossible it is a hard link to the file. */
static void show_file(Draft *d, int which, bool replace)
{
    const char *name = mgpu_saved_names[which];
    char *path = mgpu_format("%s/%s", d->folder->path, name), *fresh = mgpu_format("%s.new", path);
    char *target = mgpu_format("current/%s", name), *own = mgpu_format("%s/%s", d->path, name);
    struct stat s;
    bool there = lstat(path, &s) == 0, good = there && S_ISLNK(s.st_mode);
    if (replace)
        unlink(fresh); /* also that of an interrupted save of the earlier layout */
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

/* A copy of the folder may have a folder instead of the link. Then DIR/weights.safetensors and the others are files. */
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

char *mgpu_saved_digests(const SaveFolder *f, bool best)
{
    char *text;
    size_t length;
    FILE *memory = mgpu_begin_text(&text, &length);
    mgpu_write_digests(memory, &f->last, best);
    mgpu_end_text(memory);
    return text;
}

/* Makes the draft the folder's last save. */
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
