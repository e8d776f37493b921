/* calls.c: for LD_PRELOAD, in tests of saves: the calls that change files in the folder CALLS_IN (as the program names it),
 * numbered from 1. CALLS says what becomes of them:
 *   "count"        nothing
 *   "kill N"       the process is killed at call N; of a write half of it is done
 *   "fail N E"     call N fails with errno E
 *   "late N E"     rename N is done, but says that it failed with errno E
 *   "full N M"     calls N to M that need room (files, folders, links, writes) fail with ENOSPC
 *   "nolinks"      there are no links, neither hard nor symbolic, as on FAT
 *   "slow N"       each fsync takes N ms longer
 *   "trace"        each is a line of the file CALLS_LOG, and every file that is made gets a second name in the folder CALLS_KEEP,
 *                  so that what it held is known to the end
 * CALLS_LOG gets their number when the process ends, but for "trace". */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FILES = 1024 };
static char how[20], folder[200];
static long first, second, calls, made;
static long number_of[FILES]; /* of an open file; 0: it is not in the folder */
static char path_of[FILES][300];
static int trace_file = -1;

__attribute__((constructor)) static void begin(void)
{
    const char *wish = getenv("CALLS"), *in = getenv("CALLS_IN"), *log = getenv("CALLS_LOG");
    if (wish)
        sscanf(wish, "%19s %ld %ld", how, &first, &second);
    snprintf(folder, sizeof folder, "%s", in ? in : "");
    if (strcmp(how, "trace") == 0 && log)
        trace_file = open(log, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    unsetenv("LD_PRELOAD");
}

__attribute__((destructor)) static void end(void)
{
    const char *log = getenv("CALLS_LOG");
    FILE *f = log && trace_file < 0 ? fopen(log, "w") : NULL;
    if (f) {
        fprintf(f, "%ld\n", calls);
        fclose(f);
    }
}

static bool is_inside(const char *path)
{
    size_t length = strlen(folder);
    return length && strncmp(path, folder, length) == 0 && (path[length] == '/' || !path[length]);
}

/* true: the call is to fail, with errno set. half: what a write does before the process is killed */
static bool fails(bool needs_room, void half(void *), void *context)
{
    calls++;
    if (strcmp(how, "kill") == 0 && calls == first) {
        if (half)
            half(context);
        kill(getpid(), SIGKILL);
        for (;;)
            pause();
    }
    if (strcmp(how, "fail") == 0 && calls == first)
        return errno = (int)second, true;
    if (strcmp(how, "full") == 0 && calls >= first && calls <= second && needs_room)
        return errno = ENOSPC, true;
    return false;
}

static bool is_late(void)
{
    static long renames;
    return ++renames == first && strcmp(how, "late") == 0;
}

static void note(const char *pattern, ...)
{
    char line[1000];
    va_list arguments;
    va_start(arguments, pattern);
    int length = vsnprintf(line, sizeof line, pattern, arguments);
    va_end(arguments);
    ssize_t (*real)(int, const void *, size_t);
    void *found = dlsym(RTLD_NEXT, "write");
    memcpy(&real, &found, sizeof found);
    if (trace_file >= 0 && real(trace_file, line, (size_t)length) < 0)
        abort();
}

#define REAL(type, name, parameters)                                                                                             \
    type(*real) parameters;                                                                                                      \
    void *found = dlsym(RTLD_NEXT, #name);                                                                                       \
    memcpy(&real, &found, sizeof found)

/* a call on paths */
#define ON_PATHS(name, needs_room, inside, parameters, arguments, ...)                                                           \
    int name parameters;                                                                                                         \
    int name parameters                                                                                                          \
    {                                                                                                                            \
        REAL(int, name, parameters);                                                                                             \
        if (!(inside))                                                                                                           \
            return real arguments;                                                                                               \
        if (strcmp(how, "nolinks") == 0 && (strcmp(#name, "link") == 0 || strcmp(#name, "symlink") == 0))                        \
            return errno = EPERM, -1;                                                                                            \
        if (fails(needs_room, NULL, NULL))                                                                                       \
            return -1;                                                                                                           \
        int result = real arguments;                                                                                             \
        if (result == 0)                                                                                                         \
            note(__VA_ARGS__);                                                                                                   \
        return strcmp(#name, "rename") == 0 && is_late() ? (errno = (int)second, -1) : result;                                   \
    }

ON_PATHS(rename, false, is_inside(from) || is_inside(to), (const char *from, const char *to), (from, to), "rename %s %s\n", from,
         to)
ON_PATHS(link, true, is_inside(to), (const char *from, const char *to), (from, to), "link %s %s\n", from, to)
ON_PATHS(symlink, true, is_inside(path), (const char *target, const char *path), (target, path), "symlink %s %s\n", target, path)
ON_PATHS(unlink, false, is_inside(path), (const char *path), (path), "unlink %s\n", path)
ON_PATHS(rmdir, false, is_inside(path), (const char *path), (path), "rmdir %s\n", path)
ON_PATHS(mkdir, true, is_inside(path), (const char *path, mode_t mode), (path, mode), "mkdir %s\n", path)

/* ---- names within an open folder */
static bool is_watched(int file) { return file >= 0 && file < FILES && number_of[file]; }

static bool in_folder(char *path, size_t room, int at, const char *name)
{
    if (is_watched(at))
        snprintf(path, room, "%s/%s", path_of[at], name);
    else
        snprintf(path, room, "%s", name);
    return at == AT_FDCWD ? is_inside(name) : is_watched(at);
}

#define PATHS(path, at, name)                                                                                                    \
    char path[600];                                                                                                              \
    bool path##_inside = in_folder(path, sizeof path, at, name)

int unlinkat(int at, const char *name, int flags)
{
    REAL(int, unlinkat, (int, const char *, int));
    PATHS(path, at, name);
    if (path_inside && fails(false, NULL, NULL))
        return -1;
    int result = real(at, name, flags);
    if (result == 0 && path_inside)
        note(flags & AT_REMOVEDIR ? "rmdir %s\n" : "unlink %s\n", path);
    return result;
}

int renameat(int from_folder, const char *from_name, int to_folder, const char *to_name)
{
    REAL(int, renameat, (int, const char *, int, const char *));
    PATHS(from, from_folder, from_name);
    PATHS(to, to_folder, to_name);
    if ((from_inside || to_inside) && fails(false, NULL, NULL))
        return -1;
    int result = real(from_folder, from_name, to_folder, to_name);
    if (result == 0 && (from_inside || to_inside))
        note("rename %s %s\n", from, to);
    return (from_inside || to_inside) && is_late() ? (errno = (int)second, -1) : result;
}

int openat(int at, const char *name, int flags, ...)
{
    va_list arguments;
    va_start(arguments, flags);
    mode_t mode = flags & O_CREAT ? va_arg(arguments, mode_t) : 0;
    va_end(arguments);
    REAL(int, openat, (int, const char *, int, ...));
    PATHS(path, at, name);
    int file = real(at, name, flags, mode);
    if (file < 0 || file >= FILES)
        return file;
    number_of[file] = path_inside ? ++made : 0;
    snprintf(path_of[file], sizeof path_of[file], "%.*s", (int)sizeof path_of[file] - 1, path);
    return file;
}

static void keep(const char *path, long number)
{
    const char *where = getenv("CALLS_KEEP");
    char other[400];
    REAL(int, link, (const char *, const char *));
    snprintf(other, sizeof other, "%s/%ld", where ? where : ".", number);
    if (trace_file >= 0 && real(path, other) != 0)
        abort();
}

int open(const char *path, int flags, ...)
{
    va_list arguments;
    va_start(arguments, flags);
    mode_t mode = flags & O_CREAT ? va_arg(arguments, mode_t) : 0;
    va_end(arguments);
    REAL(int, open, (const char *, int, ...));
    bool inside = is_inside(path), makes = inside && (flags & O_CREAT), fresh = makes && access(path, F_OK) != 0;
    if (fresh && fails(true, NULL, NULL))
        return -1;
    int file = real(path, flags, mode);
    if (file < 0 || file >= FILES)
        return file;
    number_of[file] = inside ? ++made : 0;
    snprintf(path_of[file], sizeof path_of[file], "%s", path);
    if (fresh) {
        keep(path, made);
        note("create %s %ld\n", path, made);
    }
    return file;
}

typedef struct Half {
    int file;
    const void *bytes;
    size_t length;
} Half;

static void write_half(void *context)
{
    const Half *h = context;
    REAL(ssize_t, write, (int, const void *, size_t));
    if (real(h->file, h->bytes, h->length / 2) < 0)
        abort();
}

ssize_t write(int file, const void *bytes, size_t length)
{
    REAL(ssize_t, write, (int, const void *, size_t));
    Half half = {file, bytes, length};
    if (is_watched(file) && fails(true, write_half, &half))
        return -1;
    return real(file, bytes, length);
}

int fsync(int file)
{
    REAL(int, fsync, (int));
    struct stat s;
    if (!is_watched(file))
        return real(file);
    if (fails(false, NULL, NULL))
        return -1;
    if (strcmp(how, "slow") == 0)
        usleep((useconds_t)first * 1000);
    if (fstat(file, &s) == 0 && S_ISDIR(s.st_mode))
        note("sync-folder %s\n", path_of[file]);
    else
        note("sync %s %ld\n", path_of[file], number_of[file]);
    return real(file);
}

int close(int file)
{
    REAL(int, close, (int));
    if (file >= 0 && file < FILES)
        number_of[file] = 0;
    return real(file);
}
