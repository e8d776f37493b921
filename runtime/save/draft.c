/* draft.c: writes the files of a save, syncs each and computes its SHA-256 on the way. The draft keeps the first error, after
 * which nothing more is written. If several processes write a file, rank 0 creates it, and each process opens, writes and syncs
 * its part; rank 0 collects the errors and the SHA-256 of the pieces. A part has whole pieces, so the SHA-256 in the manifest
 * depends on the bytes of the file alone, not on the number of processes. */
#include "runtime/base/base.h"
#include "runtime/save/save.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- calls whose errors go into the draft */
void mgpu_draft_fail(Draft *d, const char *path, int number)
{
    if (!d->error)
        d->error = mgpu_format("%s cannot be written: %s", path, strerror(number));
}

void mgpu_draft_sync(Draft *d, const char *folder)
{
    int f = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (f < 0 || (fsync(f) != 0 && errno != EINVAL)) /* some file systems cannot sync folders */
        mgpu_draft_fail(d, folder, errno);
    if (f >= 0)
        close(f);
}

/* Returns 0 or errno. */
static int write_all(int file, const char *bytes, size_t length)
{
    for (size_t done = 0; done < length;) {
        ssize_t n = write(file, bytes + done, length - done);
        if (n < 0 && errno != EINTR)
            return errno;
        done += n > 0 ? (size_t)n : 0;
    }
    return 0;
}

/* Syncs and closes. Returns `error`, or the first error here. */
static int finish(int file, int error)
{
    if (!error && fsync(file) != 0)
        error = errno;
    return close(file) != 0 && !error ? errno : error;
}

static int create(const char *path)
{
    mgpu_doing_with(path);
    return open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
}

int mgpu_write_new(const char *path, const char *text, size_t length)
{
    int file = create(path);
    return file < 0 ? errno : finish(file, write_all(file, text, length));
}

/* ---- a file of the draft: a stream that writes to the disk and to the SHA-256 */
static void end_piece(Draft *d)
{
    MGPU_PUSH(d->pieces, d->piece_count, mgpu_sha256_end(&d->hash));
    d->hash = mgpu_sha256_begin();
}

static void hash_pieces(Draft *d, const char *bytes, size_t length)
{
    while (length) {
        size_t left = MGPU_FILE_PIECE - (size_t)d->hash.length, now = length < left ? length : left;
        mgpu_sha256_add(&d->hash, bytes, now);
        if (now == left)
            end_piece(d);
        bytes += now;
        length -= now;
    }
}

static ssize_t write_hashed(void *cookie, const char *bytes, size_t length)
{
    Draft *d = cookie;
    if (!d->number)
        d->number = write_all(d->file, bytes, length);
    hash_pieces(d, bytes, length);
    d->manifest.files[d->which].bytes += (int64_t)length;
    return (ssize_t)length; /* errors are in the draft, so the stream continues */
}

static char *path_of(const Draft *d, int which) { return mgpu_format("%s/%s", d->path, mgpu_saved_names[which]); }

/* file: -1 if it could not be opened; then `number` is errno. */
static FILE *begin_file(Draft *d, int which, int file, int number)
{
    d->which = which;
    d->file = file;
    d->number = number;
    d->hash = mgpu_sha256_begin();
    d->piece_count = 0;
    d->manifest.files[which] = (SavedFile){.there = true};
    FILE *f = fopencookie(d, "w", (cookie_io_functions_t){.write = write_hashed});
    if (!f)
        mgpu_no_memory(BUFSIZ);
    return f;
}

static void end_file(Draft *d, FILE *f)
{
    fclose(f); /* its errors are in d->number */
    if (d->file >= 0)
        d->number = finish(d->file, d->number);
    if (d->hash.length)
        end_piece(d);
}

/* Sets the file's SHA-256 from those of its pieces. */
static void seal(SavedFile *file, const Digest *pieces, size_t count)
{
    file->part = count > 1 ? MGPU_FILE_PIECE : 0;
    file->sha256 = count == 1 ? *pieces : mgpu_sha256_of(pieces, count * sizeof *pieces);
}

static void fail_file(Draft *d, int number, int rank)
{
    char *path = path_of(d, d->which), *by = rank ? mgpu_format("%s, by rank %d,", path, rank) : NULL;
    if (number)
        mgpu_draft_fail(d, by ? by : path, number);
    free(path);
    free(by);
}

FILE *mgpu_draft_open(Draft *d, int which)
{
    char *path = path_of(d, which);
    int file = d->error ? -1 : create(path), number = file < 0 ? errno : 0;
    free(path);
    return begin_file(d, which, file, number);
}

void mgpu_draft_close(Draft *d, FILE *f)
{
    end_file(d, f);
    seal(&d->manifest.files[d->which], d->pieces, (size_t)d->piece_count);
    free(d->pieces);
    d->pieces = NULL;
    fail_file(d, d->number, 0);
}

/* ---- a file that several processes write */

void mgpu_from_rank_0(Processes *p, void *data, int bytes)
{
    int sent[p->count], got[p->count], at[p->count];
    char *from = mgpu_allocate((size_t)bytes, 1);
    memcpy(from, data, (size_t)bytes);
    for (int r = 0; r < p->count; r++) {
        sent[r] = p->rank ? 0 : bytes;
        got[r] = r ? 0 : bytes;
        at[r] = 0;
    }
    p->exchange(p, from, sent, at, data, got, at);
    free(from);
}

/* Gathers `own` of all processes in `all` of rank 0, which knows how many bytes each sends. */
static void to_rank_0(Processes *p, const void *own, int own_bytes, void *all, const int *bytes)
{
    int sent[p->count], got[p->count], at[p->count], none[p->count];
    for (int r = 0; r < p->count; r++) {
        sent[r] = r ? 0 : own_bytes;
        got[r] = p->rank ? 0 : bytes[r];
        at[r] = r ? at[r - 1] + got[r - 1] : 0;
        none[r] = 0;
    }
    p->exchange(p, own, sent, none, all, got, at);
}

FILE *mgpu_draft_open_part(Draft *d, int which, Processes *p, int64_t begin)
{
    char path[PATH_MAX] = "";
    FILE *f = NULL;
    if (!p->rank) {
        f = mgpu_draft_open(d, which);
        char *own = path_of(d, which);
        if (d->file >= 0 && !realpath(own, path))
            *path = 0;
        free(own);
    }
    mgpu_from_rank_0(p, path, sizeof path);
    if (f)
        return f;
    int file = *path ? open(path, O_WRONLY | O_CLOEXEC) : -1;
    f = begin_file(d, which, file, file >= 0 || !*path ? 0 : errno);
    if (file >= 0 && lseek(file, begin, SEEK_SET) < 0)
        d->number = errno;
    return f;
}

void mgpu_draft_close_part(Draft *d, FILE *f, Processes *p)
{
    typedef struct PartResult {
        int64_t bytes;
        int number, pieces;
    } PartResult;
    SavedFile *file = &d->manifest.files[d->which];
    PartResult *results = mgpu_allocate((size_t)p->count, sizeof *results);
    int bytes[p->count];
    size_t pieces = 0;
    end_file(d, f);
    PartResult own = {file->bytes, d->number, d->piece_count};
    for (int r = 0; r < p->count; r++)
        bytes[r] = sizeof own;
    to_rank_0(p, &own, sizeof own, results, bytes);
    file->bytes = 0;
    for (int r = 0; r < p->count && !p->rank; r++) {
        fail_file(d, results[r].number, r);
        file->bytes += results[r].bytes;
        pieces += (size_t)results[r].pieces;
        bytes[r] = results[r].pieces * (int)sizeof(Digest);
    }
    Digest *all = mgpu_allocate(pieces, sizeof *all);
    to_rank_0(p, d->pieces, d->piece_count * (int)sizeof *all, all, bytes);
    seal(file, all, pieces);
    free(all);
    free(results);
    free(d->pieces);
    d->pieces = NULL;
}

void mgpu_draft_copy(Draft *d, const Saved *saved, int which)
{
    enum { PIECE = 1 << 16 };
    char *piece = mgpu_allocate(PIECE, 1);
    FILE *f = mgpu_draft_open(d, which);
    ssize_t n;
    for (int64_t at = 0; (n = pread(saved->file[which], piece, PIECE, at)) > 0; at += n)
        fwrite(piece, 1, (size_t)n, f);
    if (n < 0 && !d->error)
        d->error = mgpu_format("%s cannot be read: %s", saved->name[which], strerror(errno));
    mgpu_draft_close(d, f);
    free(piece);
}

/* Links, or copies where links are impossible. Returns 0 or errno. */
int mgpu_link_file(const char *from, const char *to)
{
    if (link(from, to) == 0)
        return 0;
    if (errno != EPERM && errno != EMLINK && errno != EOPNOTSUPP && errno != ENOSYS)
        return errno;
    int in = open(from, O_RDONLY | O_CLOEXEC), out = in < 0 ? -1 : create(to), error = errno;
    if (out >= 0) {
        char piece[1 << 14];
        ssize_t n;
        for (error = 0; !error && (n = read(in, piece, sizeof piece)) != 0;)
            error = n < 0 ? errno : write_all(out, piece, (size_t)n);
        error = finish(out, error);
    }
    if (in >= 0)
        close(in);
    return error;
}

void mgpu_draft_link(Draft *d, int which)
{
    SaveFolder *f = d->folder;
    if (d->error || !f->last_path || !f->last.files[which].there)
        return;
    char *from = mgpu_format("%s/%s", f->last_path, mgpu_saved_names[which]), *to = path_of(d, which);
    int error = mgpu_link_file(from, to);
    if (error)
        mgpu_draft_fail(d, to, error);
    d->manifest.files[which] = f->last.files[which];
    free(from);
    free(to);
}

void mgpu_draft_begin(Draft *d, SaveFolder *folder)
{
    *d = (Draft){.folder = folder, .file = -1};
    memcpy(d->manifest.run, folder->run, sizeof folder->run);
    char *saves = mgpu_format("%s/saves", folder->path);
    if (mkdir(saves, 0777) != 0 && errno != EEXIST)
        mgpu_draft_fail(d, saves, errno);
    free(saves);
    do {
        free(d->path);
        d->manifest.number = ++folder->number;
        d->path = mgpu_format("%s/saves/%lld", folder->path, (long long)folder->number);
        errno = 0;
    } while (!d->error && mkdir(d->path, 0777) != 0 && errno == EEXIST);
    if (errno)
        mgpu_draft_fail(d, d->path, errno);
}

void mgpu_draft_keep(Draft *d, const int64_t *kept, int count)
{
    d->manifest.kept_count = count;
    d->manifest.kept = mgpu_allocate((size_t)count, sizeof *kept);
    for (int i = 0; i < count; i++)
        d->manifest.kept[i] = kept[i];
}

void mgpu_draft_begin_as_last(Draft *d, SaveFolder *folder)
{
    mgpu_draft_begin(d, folder);
    d->manifest.origin = folder->last.origin;
    d->manifest.step = folder->last.step;
    mgpu_draft_keep(d, folder->last.kept, folder->last.kept_count);
}
