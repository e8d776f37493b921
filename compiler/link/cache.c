/* cache.c: keep compiled objects under a hash of what they were compiled from.
 *
 *   FOLDER/ab/cdef...      an object; its name is the SHA-256 of all that it depends on (the key). The 32 bytes after the
 *                          object are the SHA-256 of key and object, so damage is noticed. Its file time is that of its last use.
 *   FOLDER/size            the total bytes of all objects, as a number; whoever changes it holds its lock (flock)
 *   FOLDER/CACHEDIR.TAG    tells backup programs that these files need no copies
 *
 * Objects are written to a new file beside their place and renamed, so any number of compilers may share a folder. When there are
 * more bytes than the limit, the least recently used objects are removed until four fifths of the limit are left. The number in
 * `size` may drift (two compilers may store the same object); whoever removes objects counts anew, and whoever does not get the
 * lock in time removes the file, so that the next one counts anew.
 *
 * An object is code that will run. So a folder that other users may write to is not used, nor is an object that another user
 * owns. Links are not followed, and only files with the name of an object are removed. */
#include "compiler/link/translation_units.h"
#include "runtime/base/folder_owner.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* after this time, a file that was never renamed is taken for a leftover of a compiler that died */
enum { FORGOTTEN_S = 3600 };
enum { LOCK_TRIES = 100, LOCK_TRY_NS = 10000000 }; /* one second; others hold the lock while they list the folder */
static const int64_t DEFAULT_LIMIT = 1 << 30;

/* ---- the folder and its limit */

static int64_t limit_given(const char *text)
{
    double bytes = bytes_in_text(text);
    if (bytes < 0)
        fail(2, "MGPUC_CACHE_SIZE is '%s': a number of bytes is expected, or a size such as 500MB or 2GiB", text);
    return (int64_t)bytes;
}

/* Makes the folders of a path. Those beyond the first `from` characters are for this user alone. */
static void make_folders(const char *path, size_t from)
{
    for (const char *at = path + 1; *at; at++)
        if (*at == '/')
            mkdir(copy_text(path, (size_t)(at - path)), (size_t)(at - path) < from ? 0777 : 0700);
    mkdir(path, 0700);
}

/* Turns the cache off if others may write there: an object of theirs would run as this user's code. */
static void refuse_what_others_write(Cache *c)
{
    static bool said;
    char why[4200];
    make_folders(c->folder, strlen(c->folder));
    if (!mgpu_others_may_write(c->folder, why, sizeof why))
        return;
    c->trouble = format("the cache %s is not used: others may write there (%s)", c->folder, why);
    if (!said)
        fprintf(stderr, "mgpuc: warning: %s; remove it, or name one that only you may write: MGPUC_CACHE=DIR\n",
                plain_text(c->trouble, false));
    said = true;
    c->folder = NULL;
}

Cache cache_open(void)
{
    Cache c = {.limit = DEFAULT_LIMIT};
    const char *folder = getenv("MGPUC_CACHE"), *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    const char *limit = getenv("MGPUC_CACHE_SIZE");
    if (limit && *limit)
        c.limit = limit_given(limit);
    if (folder && strcmp(folder, "off") == 0)
        c.trouble = "MGPUC_CACHE=off";
    else if (folder && *folder)
        c.folder = folder;
    else if (xdg && *xdg == '/') /* the XDG Base Directory Specification says to ignore relative ones */
        c.folder = format("%s/mgpuc", xdg);
    else if (home && *home)
        c.folder = format("%s/.cache/mgpuc", home);
    else
        c.trouble = "HOME is not set";
    if (c.folder)
        refuse_what_others_write(&c);
    return c;
}

static const char *path_of(const Cache *c, const Digest *key)
{
    char name[65];
    mgpu_digest_text(key, COUNT(key->bytes), name);
    return format("%s/%.2s/%s", c->folder, name, name + 2);
}

static Digest seal_of(const Digest *key, const void *object, size_t length)
{
    Sha256 h = mgpu_sha256_begin();
    mgpu_sha256_add(&h, key->bytes, sizeof key->bytes);
    mgpu_sha256_add(&h, object, length);
    return mgpu_sha256_end(&h);
}

/* ---- files */

static bool write_all(int file, const void *bytes, size_t length)
{
    for (const char *at = bytes; length;) {
        ssize_t done = write(file, at, length);
        if (done < 0 && errno == EINTR)
            continue;
        if (done < 0)
            return false;
        at += done;
        length -= (size_t)done;
    }
    return true;
}

/* Returns the rest of an open file; the caller frees it. */
static char *read_all(int file, size_t *length)
{
    struct stat s;
    if (fstat(file, &s) || s.st_size < 0 || !S_ISREG(s.st_mode))
        return NULL;
    char *bytes = malloc((size_t)s.st_size + 1);
    for (*length = 0; bytes && *length < (size_t)s.st_size;) {
        ssize_t got = read(file, bytes + *length, (size_t)s.st_size - *length);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0) {
            free(bytes);
            return NULL;
        }
        *length += (size_t)got;
    }
    return bytes;
}

/* ---- one object */

bool cache_fetch(Cache *c, const Digest *key, const char *path)
{
    const char *name = c->folder ? path_of(c, key) : NULL;
    int from = name ? open(name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK) : -1;
    if (from < 0)
        return false;
    size_t length = 0;
    struct stat status;
    char *bytes = fstat(from, &status) == 0 && mgpu_is_trusted(&status) ? read_all(from, &length) : NULL;
    Digest seal;
    bool good = bytes && length >= sizeof seal;
    if (good) {
        length -= sizeof seal;
        seal = seal_of(key, bytes, length);
        good = memcmp(bytes + length, &seal, sizeof seal) == 0;
    }
    if (!good) {
        unlink(name);
        c->trouble = format("%s was damaged", name);
    } else {
        futimens(from, NULL);
        int to = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
        good = to >= 0 && write_all(to, bytes, length);
        good = to >= 0 && close(to) == 0 && good;
    }
    free(bytes);
    close(from);
    return good;
}

/* Writes a new file, and renames it to `name` when it is complete. */
static bool write_object(const char *name, const Digest *key, const char *bytes, size_t length)
{
    char *fresh = (char *)(uintptr_t)format("%.*s/new.XXXXXX", (int)(strrchr(name, '/') - name), name);
    int to = mkostemp(fresh, O_CLOEXEC);
    if (to < 0)
        return false;
    temporary_add(fresh);
    Digest seal = seal_of(key, bytes, length);
    bool good = write_all(to, bytes, length) && write_all(to, &seal, sizeof seal);
    good = close(to) == 0 && good && rename(fresh, name) == 0;
    if (!good) {
        int error = errno;
        unlink(fresh);
        errno = error;
    }
    temporary_retain(fresh);
    return good;
}

void cache_store(Cache *c, const Digest *key, const char *path)
{
    if (!c->folder)
        return;
    int from = open(path, O_RDONLY | O_CLOEXEC);
    size_t length = 0;
    char *bytes = from >= 0 ? read_all(from, &length) : NULL;
    if (from >= 0)
        close(from);
    const char *name = path_of(c, key);
    bool good = bytes && write_object(name, key, bytes, length);
    if (bytes && !good && errno == ENOENT) { /* it is the first object of its folder */
        make_folders(copy_text(name, (size_t)(strrchr(name, '/') - name)), strlen(c->folder));
        good = write_object(name, key, bytes, length);
    }
    if (good)
        c->stored += (int64_t)length + (int64_t)sizeof(Digest);
    else
        c->trouble = format("%s cannot be written: %s", c->folder, strerror(errno));
    free(bytes);
}

/* ---- all objects */

typedef struct CacheEntry {
    const char *path;
    int64_t bytes;
    struct timespec used;
} CacheEntry;
typedef struct Entries {
    CacheEntry *list;
    int count;
    int64_t bytes;
} Entries;

/* matches the names that path_of() and write_object() make */
static bool is_object(const char *name)
{
    size_t length = 2 * sizeof(Digest) - 2;
    return strlen(name) == length && strspn(name, "0123456789abcdef") == length;
}

static bool is_unfinished(const char *name) { return strncmp(name, "new.", 4) == 0 && strlen(name) == strlen("new.XXXXXX"); }

static void list_folder(const char *folder, Entries *all)
{
    int file = open(folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *d = file < 0 ? NULL : fdopendir(file);
    if (!d) {
        if (file >= 0)
            close(file);
        return;
    }
    time_t now = time(NULL);
    for (struct dirent *e; (e = readdir(d));) {
        struct stat s;
        if (fstatat(file, e->d_name, &s, AT_SYMLINK_NOFOLLOW) || !S_ISREG(s.st_mode))
            continue;
        const char *path = format("%s/%s", folder, e->d_name);
        if (is_unfinished(e->d_name) && now - s.st_mtim.tv_sec > FORGOTTEN_S)
            unlink(path);
        if (!is_object(e->d_name))
            continue;
        CacheEntry entry = {path, s.st_size, s.st_mtim};
        APPEND(all->list, all->count, entry);
        all->bytes += entry.bytes;
    }
    closedir(d);
}

static int by_use(const void *a, const void *b)
{
    const struct timespec *x = &((const CacheEntry *)a)->used, *y = &((const CacheEntry *)b)->used;
    if (x->tv_sec != y->tv_sec)
        return x->tv_sec < y->tv_sec ? -1 : 1;
    return x->tv_nsec < y->tv_nsec ? -1 : x->tv_nsec > y->tv_nsec;
}

/* Counts all bytes, removes objects if there are too many, and returns the bytes that are left. */
static int64_t trim(const Cache *c)
{
    Entries all = {0};
    for (int i = 0; i < 256; i++)
        list_folder(format("%s/%02x", c->folder, i), &all);
    if (all.bytes <= c->limit)
        return all.bytes;
    qsort(all.list, (size_t)all.count, sizeof *all.list, by_use);
    for (int i = 0; i < all.count && all.bytes > c->limit / 5 * 4; i++)
        if (unlink(all.list[i].path) == 0 || errno == ENOENT)
            all.bytes -= all.list[i].bytes;
    return all.bytes;
}

/* Returns false if another process holds the lock for long; it may be stopped, or hang. */
static bool lock(int file)
{
    for (int tries = 0; flock(file, LOCK_EX | LOCK_NB); tries++) {
        if (tries == LOCK_TRIES || (errno != EWOULDBLOCK && errno != EINTR))
            return false;
        nanosleep(&(struct timespec){0, LOCK_TRY_NS}, NULL);
    }
    return true;
}

/* Updates the open and locked file `size`; returns false, with the reason in errno, if it cannot. */
static bool update_size(const Cache *c, int file)
{
    size_t length;
    char *text = read_all(file, &length), *end = text;
    if (text)
        text[length] = 0;
    int64_t bytes = text ? strtoll(text, &end, 10) + c->stored : 0;
    if (end == text || bytes < c->stored || bytes > c->limit)
        bytes = trim(c);
    free(text);
    const char *number = format("%lld\n", (long long)bytes);
    return ftruncate(file, 0) == 0 && pwrite(file, number, strlen(number), 0) == (ssize_t)strlen(number);
}

static void write_tag(Cache *c)
{
    int tag = open(format("%s/CACHEDIR.TAG", c->folder), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    static const char SIGNATURE[] = "Signature: 8a477f597d28d172789f06886806bc55\n# objects of mgpuc: see bford.info/cachedir\n";
    if (tag < 0)
        return;
    if (!write_all(tag, SIGNATURE, sizeof SIGNATURE - 1))
        c->trouble = format("%s cannot be written: %s", c->folder, strerror(errno));
    close(tag);
}

void cache_close(Cache *c)
{
    if (!c->folder || !c->stored)
        return;
    write_tag(c);
    const char *path = format("%s/size", c->folder);
    int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
    if (file >= 0 && !lock(file)) {
        unlink(path); /* the next mgpuc creates another one and counts */
        c->trouble = format("another process holds the lock of %s", path);
    } else if (file < 0 || !update_size(c, file)) {
        c->trouble = format("%s cannot be written: %s", path, strerror(errno));
    }
    if (file >= 0)
        close(file);
}
