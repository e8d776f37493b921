/* read.c: finds the save of a folder to read. In: a folder, which another run may be writing into; out: open files of one intact
 * save.
 *
 * DIR/current names the newest save. Its manifest and files are opened and compared with the manifest's sizes and SHA-256. If a
 * file is missing because the run has switched to another save, this is repeated. Open files stay readable if the run removes
 * them. If the newest save is damaged, the newest intact one is taken: from DIR/saves, where an interrupted run may have left
 * some, and DIR/step-N.
 *
 * A folder may itself be a save (DIR/step-N), or have the layout without manifests, with the files in it. There, if run.json.new
 * is complete, a save was interrupted while it renamed files: those that are still called NAME.new are part of it. */
#include "runtime/base/base.h"
#include "runtime/save/save.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST_TRIES = 1000 };
static const char SAVES[] = "saves/";

/* ---- files */
typedef struct FileBytes {
    const void *data;
    size_t length;
} FileBytes;

/* Maps a file. Anything but a regular file is empty. */
static FileBytes map(int file, const char *path)
{
    struct stat s;
    FileBytes b = {"", 0};
    if (fstat(file, &s) != 0)
        mgpu_fail(MGPU_MACHINE_FAILED, "%s cannot be read: %s", path, strerror(errno));
    if (!S_ISREG(s.st_mode) || !s.st_size)
        return b;
    b.length = (size_t)s.st_size;
    b.data = mmap(NULL, b.length, PROT_READ, MAP_PRIVATE, file, 0);
    if (b.data == MAP_FAILED)
        mgpu_fail(MGPU_MACHINE_FAILED, "%s cannot be read: %s", path, strerror(errno));
    return b;
}

static void unmap(const FileBytes *b)
{
    if (b->length)
        munmap((void *)(uintptr_t)b->data, b->length);
}

static Saved *new_saved(const char *folder, char *path)
{
    Saved *s = mgpu_allocate(1, sizeof *s);
    s->folder = mgpu_format("%s", folder);
    s->path = path;
    s->manifest.origin = (SaveOrigin){.train_samples = -1, .valid_samples = -1};
    for (int i = 0; i < SAVED_FILES; i++)
        s->file[i] = -1;
    return s;
}

void mgpu_close_saved(Saved *s)
{
    if (!s)
        return;
    for (int i = 0; i < SAVED_FILES; i++) {
        if (s->file[i] >= 0)
            close(s->file[i]);
        free(s->name[i]);
    }
    free(s->manifest.kept);
    free(s->folder);
    free(s->path);
    free(s);
}

/* ---- a save with a manifest */

/* Returns NULL or an error. *gone: a file is missing. shown: the folder to name in messages. */
static char *open_files(Saved *s, const char *shown, bool *gone)
{
    char *path = mgpu_format("%s/%s", s->path, MGPU_MANIFEST), *wrong = NULL;
    mgpu_doing_with(path);
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    *gone = file < 0 && errno == ENOENT;
    if (file < 0) {
        wrong = mgpu_format("%s: %s", path, strerror(errno));
    } else {
        FileBytes text = map(file, path);
        char *why = mgpu_parse_manifest(&s->manifest, text.data, text.length);
        wrong = why ? mgpu_format("%s: %s", path, why) : NULL;
        free(why);
        unmap(&text);
    }
    if (file >= 0)
        close(file);
    free(path);
    s->sealed = true;
    for (int i = 0; i < SAVED_FILES && !wrong; i++) {
        if (!s->manifest.files[i].there)
            continue;
        char *file_path = mgpu_format("%s/%s", s->path, mgpu_saved_names[i]);
        s->name[i] = mgpu_format("%s/%s", shown, mgpu_saved_names[i]);
        mgpu_doing_with(file_path);
        s->file[i] = open(file_path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
        *gone = s->file[i] < 0 && errno == ENOENT;
        if (s->file[i] < 0)
            wrong = mgpu_format("%s: %s", s->name[i], strerror(errno));
        free(file_path);
    }
    return wrong;
}

/* Computes the SHA-256 as in the manifest. */
static Digest digest_of(const FileBytes *b, int64_t part)
{
    Sha256 all = mgpu_sha256_begin();
    if (!part)
        return mgpu_sha256_of(b->data, b->length);
    for (size_t at = 0, left; at < b->length; at += (size_t)part) {
        left = b->length - at;
        Digest d = mgpu_sha256_of((const uint8_t *)b->data + at, left < (size_t)part ? left : (size_t)part);
        mgpu_sha256_add(&all, &d, sizeof d);
    }
    return mgpu_sha256_end(&all);
}

static char *compare(const Saved *s, int which)
{
    const SavedFile *wanted = &s->manifest.files[which];
    FileBytes b = map(s->file[which], s->name[which]);
    char *wrong = NULL;
    Digest d = {0};
    if ((int64_t)b.length != wanted->bytes)
        wrong = mgpu_format("%s has %lld bytes, its manifest says %lld; the file is damaged", s->name[which], (long long)b.length,
                            (long long)wanted->bytes);
    else if (d = digest_of(&b, wanted->part), memcmp(&d, &wanted->sha256, sizeof d) != 0)
        wrong = mgpu_format("%s is damaged: its SHA-256 is not the one that its manifest says", s->name[which]);
    unmap(&b);
    return wrong;
}

static char *check(const Saved *s, int need)
{
    char *wrong = NULL;
    for (int i = 0; i < SAVED_FILES && !wrong; i++)
        if (s->manifest.files[i].there &&
            (need != MGPU_NEED_MODEL || i == SAVED_WEIGHTS || i == SAVED_AVERAGE || i == SAVED_BEST))
            wrong = compare(s, i);
    return wrong;
}

/* Returns the target of DIR/current: "saves/17", or "current" if a copy of the folder has a folder there or the link has another
 * target, or NULL if there is none. The caller frees. */
static char *read_current(const char *folder)
{
    char *path = mgpu_format("%s/current", folder), target[300];
    ssize_t length = readlink(path, target, sizeof target - 1);
    if (length < 0 && errno == EINVAL) { /* no link, but a file: the file system has no links */
        int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
        length = file < 0 ? -1 : read(file, target, sizeof target - 1);
        if (file >= 0)
            close(file);
    }
    struct stat status;
    bool copied = length < 0 && stat(path, &status) == 0 && S_ISDIR(status.st_mode);
    free(path);
    if (copied)
        return mgpu_format("current");
    if (length <= 0)
        return NULL;
    target[length] = 0;
    size_t digits = strncmp(target, SAVES, strlen(SAVES)) == 0 ? strspn(target + strlen(SAVES), "0123456789") : 0;
    return mgpu_format("%s", digits && !target[strlen(SAVES) + digits] ? target : "current");
}

/* Returns NULL and *wrong if the save is damaged, NULL twice if there is none. Before its first checkpoint a run may have saved
 * only its best model. */
static Saved *open_newest(const char *folder, int need, char **wrong)
{
    *wrong = NULL;
    char *target = read_current(folder);
    for (int tries = 0; target; tries++) {
        Saved *s = new_saved(folder, mgpu_format("%s/%s", folder, target));
        bool gone = false;
        char *why = open_files(s, folder, &gone), *now = read_current(folder);
        bool moved = gone && now && strcmp(now, target) != 0 && tries < MOST_TRIES;
        free(target);
        target = now;
        bool any = why || need == MGPU_NEED_MODEL || s->manifest.files[SAVED_RUN].there;
        if (!why && any)
            why = check(s, need);
        if (!why) {
            free(now);
            if (!any)
                mgpu_close_saved(s);
            return any ? s : NULL;
        }
        mgpu_close_saved(s);
        if (!moved) {
            free(now);
            *wrong = why;
            return NULL;
        }
        free(why);
    }
    return NULL;
}

/* ---- another save, if the newest is damaged, or if another one is newer and intact */

/* Returns NULL if the save is damaged, lacks what is needed, or has a number of at most `above`. */
static Saved *open_one(const char *folder, char *path, int need, int64_t above)
{
    Saved *s = new_saved(folder, path);
    bool gone;
    char *why = open_files(s, s->path, &gone);
    bool wanted = !why && s->manifest.number > above && (need == MGPU_NEED_MODEL || s->file[SAVED_RUN] >= 0);
    if (wanted)
        why = check(s, need);
    if (wanted && !why)
        return s;
    free(why);
    mgpu_close_saved(s);
    return NULL;
}

static void search(Saved **best, const char *folder, const char *below, const char *prefix, int need, int64_t above)
{
    char *where = mgpu_format("%s%s", folder, below);
    DIR *dir = opendir(where);
    for (struct dirent *e; dir && (e = readdir(dir));) {
        if (*e->d_name == '.' || strncmp(e->d_name, prefix, strlen(prefix)) != 0)
            continue;
        Saved *s = open_one(folder, mgpu_format("%s/%s", where, e->d_name), need, *best ? (*best)->manifest.number : above);
        if (s) {
            mgpu_close_saved(*best);
            *best = s;
        }
    }
    if (dir)
        closedir(dir);
    free(where);
}

/* Returns NULL if there is none. */
static Saved *find_whole(const char *folder, int need)
{
    Saved *best = NULL;
    search(&best, folder, "/saves", "", need, -1);
    search(&best, folder, "", "step-", need, -1);
    return best;
}

/* Returns an intact save DIR/step-N that is newer than s, because the run stopped or the disk was full before it became current,
 * or s if there is none. */
static Saved *prefer_newer(const char *folder, Saved *s, int need)
{
    Saved *newer = NULL;
    search(&newer, folder, "", "step-", need, s->manifest.number);
    if (!newer || strcmp(newer->manifest.run, s->manifest.run) != 0) {
        mgpu_close_saved(newer);
        return s;
    }
    mgpu_say(
        "%s: warning: the save of step %lld in %s is whole, but something ended it before it became the one that counts; it is taken, not that of "
        "step %lld",
        program_invocation_short_name, (long long)newer->manifest.step, newer->path, (long long)s->manifest.step);
    mgpu_close_saved(s);
    newer->uncounted = true;
    return newer;
}

static Saved *open_older(const char *folder, int need, const char *wrong)
{
    Saved *best = find_whole(folder, need);
    if (!best)
        mgpu_fail(MGPU_BAD_INPUT, "%s; no whole save is in %s", wrong, folder);
    best->older = true;
    fflush(stdout);
    mgpu_say("%s: warning: %s; the newest whole save is taken, that of step %lld, %s", program_invocation_short_name, wrong,
             (long long)best->manifest.step, best->path);
    return best;
}

/* ---- files without a manifest */
static bool is_json(const char *path)
{
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    bool good = file >= 0;
    if (good) {
        FileBytes b = map(file, path);
        const char *error;
        Json *json = b.length ? mgpu_json_read(b.data, b.length, &error) : NULL;
        good = json != NULL;
        free(json);
        unmap(&b);
    }
    if (file >= 0)
        close(file);
    return good;
}

static Saved *open_plain(const char *folder)
{
    Saved *s = new_saved(folder, mgpu_format("%s", folder));
    char *fresh = mgpu_format("%s/run.json.new", folder);
    bool interrupted = is_json(fresh), any = false;
    for (int i = 0; i < SAVED_FILES; i++) {
        s->name[i] = mgpu_format("%s/%s%s", folder, mgpu_saved_names[i], interrupted && i != SAVED_BEST ? ".new" : "");
        s->file[i] = open(s->name[i], O_RDONLY | O_CLOEXEC | O_NONBLOCK);
        if (s->file[i] < 0) {
            free(s->name[i]);
            s->name[i] = mgpu_format("%s/%s", folder, mgpu_saved_names[i]);
            s->file[i] = open(s->name[i], O_RDONLY | O_CLOEXEC | O_NONBLOCK);
        }
        s->manifest.files[i].there = s->file[i] >= 0;
        any = any || s->file[i] >= 0;
    }
    free(fresh);
    if (any)
        return s;
    mgpu_close_saved(s);
    return NULL;
}

/* ---- */
static bool has_what(const Saved *s, int need) { return s && (need == MGPU_NEED_MODEL || s->file[SAVED_RUN] >= 0); }

/* Explains why the folder has no run. s: what it has, or NULL. */
static char *why_none(const char *folder, const Saved *s)
{
    if (s && s->file[SAVED_BEST] >= 0)
        return mgpu_format(
            "%s alone is there, of a run that ended before its first checkpoint; --init takes that file, and --overwrite lets the "
            "new run save there",
            s->name[SAVED_BEST]);
    char *run = mgpu_format("%s/run.json", folder);
    char *why = mgpu_format("%s: %s", run, strerror(access(run, R_OK) == 0 ? ENOENT : errno));
    free(run);
    return why;
}

/* Warns that a copy has lost links, or that the current save only has the best model of a run. */
static void take_uncounted(Saved *s, const char *folder)
{
    char *current = read_current(folder);
    mgpu_say("%s: warning: %s %s; the newest whole save is taken, that of step %lld, %s", program_invocation_short_name, folder,
             current ? "has no run in the save that counts" : "has no 'current', which says which save counts",
             (long long)s->manifest.step, s->path);
    s->uncounted = true;
    free(current);
}

Saved *mgpu_open_saved(const char *folder, int need, char **why)
{
    char *wrong;
    *why = NULL;
    Saved *s = open_newest(folder, need, &wrong);
    char *own = mgpu_format("%s/%s", folder, MGPU_MANIFEST);
    if (!s && wrong) {
        s = open_older(folder, need, wrong);
    } else if (!s && access(own, F_OK) == 0) {
        bool gone;
        s = new_saved(folder, mgpu_format("%s", folder));
        if ((wrong = open_files(s, s->path, &gone)) || (wrong = check(s, need)))
            mgpu_fail(MGPU_BAD_INPUT, "%s", wrong);
    } else if (!s && !has_what(s = open_plain(folder), need)) {
        Saved *whole = find_whole(folder, need);
        *why = whole ? NULL : why_none(folder, s);
        mgpu_close_saved(s);
        s = whole;
        if (s)
            take_uncounted(s, folder);
    } else if (s && need == MGPU_NEED_LOCKED_RUN && s->sealed) {
        s = prefer_newer(folder, s, need);
    }
    free(own);
    free(wrong);
    return s;
}

/* Ends the program if the file is part of a save and damaged. */
static void check_file(const char *path, int file)
{
    char *real = realpath(path, NULL), *slash = real ? strrchr(real, '/') : NULL;
    struct stat there, opened;
    if (!slash || stat(real, &there) != 0 || fstat(file, &opened) != 0 || there.st_ino != opened.st_ino ||
        there.st_dev != opened.st_dev) {
        free(real); /* another run has just removed it */
        return;
    }
    int which = SAVED_FILES - 1;
    while (which >= 0 && strcmp(mgpu_saved_names[which], slash + 1) != 0)
        which--;
    Saved *s = new_saved(path, mgpu_format("%.*s", (int)(slash - real), real));
    bool gone;
    char *wrong = which < 0 ? mgpu_format("%s", "") : open_files(s, s->path, &gone); /* without a manifest it is no save */
    if (!wrong && s->file[which] >= 0 && (wrong = compare(s, which)))
        mgpu_fail(MGPU_BAD_INPUT, "%s", wrong);
    free(wrong);
    mgpu_close_saved(s);
    free(real);
}

static int open_file(const char *path)
{
    int f = -1;
    for (int tries = 0; f < 0 && tries < MOST_TRIES; tries++) { /* if a run is saving, a link may point to a removed file */
        struct stat status;
        f = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
        if (f < 0 && (errno != ENOENT || lstat(path, &status) != 0 || !S_ISLNK(status.st_mode)))
            break;
    }
    if (f < 0)
        mgpu_fail(MGPU_BAD_INPUT, "%s: %s", path, strerror(errno));
    return f;
}

void mgpu_open_weights(TensorFile *file, const char *path)
{
    char *found = mgpu_weights_of_folder(path);
    int f = open_file(found);
    check_file(found, f);
    mgpu_open_tensors(file, found, f);
    mgpu_adopt_memory(file, found);
    close(f);
}

bool mgpu_has_saved_best(const Saved *s) { return s->file[SAVED_BEST] >= 0; }

bool mgpu_open_saved_model(TensorFile *file, const Saved *s, bool best, bool average)
{
    int which = best ? SAVED_BEST : average ? SAVED_AVERAGE : SAVED_WEIGHTS;
    if (s->file[which] < 0)
        return false;
    mgpu_open_tensors(file, s->name[which], s->file[which]);
    return true;
}

const SaveOrigin *mgpu_saved_origin(const Saved *s) { return s->sealed ? &s->manifest.origin : NULL; }

static char *words_for(const Saved *s, bool *goes_on)
{
    *goes_on = s->file[SAVED_RUN] >= 0;
    return *goes_on ? mgpu_format("a run, at step %lld", (long long)s->manifest.step)
                    : mgpu_format("the best model of a run that ended before its first checkpoint");
}

/* Describes the current save, intact or not, or returns NULL. */
static char *find_current(const char *folder, bool *goes_on)
{
    char *target = read_current(folder), *found = NULL;
    if (target) {
        Saved *s = new_saved(folder, mgpu_format("%s/%s", folder, target));
        bool gone;
        char *wrong = open_files(s, s->path, &gone);
        found = wrong ? mgpu_format("a run") : words_for(s, goes_on);
        free(wrong);
        mgpu_close_saved(s);
    }
    free(target);
    return found;
}

/* Names a file without a manifest. */
static char *find_plain(const char *folder, bool *goes_on)
{
    Saved *s = open_plain(folder);
    char *found = NULL;
    for (int i = 0; i < SAVED_FILES && s && !found; i++)
        if (s->file[i] >= 0)
            found = mgpu_format("%s", mgpu_saved_names[i]);
    *goes_on = has_what(s, MGPU_NEED_RUN);
    mgpu_close_saved(s);
    return found;
}

char *mgpu_find_saved(const char *folder, bool *goes_on)
{
    *goes_on = true;
    char *found = find_current(folder, goes_on);
    if (!found)
        found = find_plain(folder, goes_on);
    Saved *whole = found && *goes_on ? NULL : find_whole(folder, MGPU_NEED_RUN);
    if (whole) {
        free(found);
        found = words_for(whole, goes_on);
    }
    mgpu_close_saved(whole);
    return found;
}
