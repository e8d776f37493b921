/* temporary.c: remove what mgpuc must not leave behind: intermediate files, incomplete files, running compilers.
 *
 * All of them are noted, and are removed when mgpuc ends, by exit or by a signal. The compilers are stopped first, since they
 * write files; at the end mgpuc dies by the same signal, so that make and shells see why. The handler calls only what a handler
 * may (signal-safety(7)), and the list of files grows at its front by a single store. Each compiler is a process group of its
 * own, so that processes it has started stop with it.
 *
 * A mgpuc that was killed (SIGKILL, out of memory) leaves its folder of intermediate files. As long as it lives, it holds a lock
 * on the file `lock` in the folder. If that lock is free, and the file says that it is ours, the next mgpuc removes the folder.
 * Files beside the output have the process number in their names instead, because linkers write them, and nobody holds a lock on
 * them. */
#include "compiler/link/translation_units.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    ABANDONED_S = 24 * 3600, /* for a folder that is empty, or whose file system has no locks */
    QUIET_S = 60             /* for an output whose process is not found here: it may run on another machine */
};
static const char PREFIX[] = "mgpuc-", LOCK[] = "lock", OURS[] = "intermediate files of mgpuc\n";
enum { TRIES = 200, TRY_NS = 10000000 }; /* a compiler has 2 s to end */

typedef struct Temporary {
    struct Temporary *next;
    atomic_bool kept;
    char path[];
} Temporary;
static _Atomic(Temporary *) temporaries;
static _Atomic pid_t tools[MOST_TOOLS];

static const int SIGNALS[] = {SIGHUP, SIGINT, SIGTERM, SIGPIPE, SIGXFSZ, SIGABRT};

static void stop_tools(void)
{
    for (int i = 0; i < MOST_TOOLS; i++)
        if (tools[i])
            kill(-tools[i], SIGTERM);
    for (int i = 0, tries = 0; i < MOST_TOOLS; i++) {
        while (tools[i] && waitpid(tools[i], NULL, WNOHANG) == 0 && tries++ < TRIES)
            nanosleep(&(struct timespec){0, TRY_NS}, NULL);
        if (tools[i])
            kill(-tools[i], SIGKILL);
        tools[i] = 0;
    }
}

static void remove_all(void)
{
    for (Temporary *t = temporaries; t; t = t->next)
        if (!t->kept && unlink(t->path))
            rmdir(t->path);
    temporaries = NULL;
}

static void end(void)
{
    stop_tools();
    remove_all();
}

static void end_by_signal(int number)
{
    end();
    signal(number, SIG_DFL);
    raise(number); /* is blocked until the handler returns */
}

sigset_t temporary_signals(void)
{
    sigset_t set;
    sigemptyset(&set);
    for (int i = 0; i < COUNT(SIGNALS); i++)
        sigaddset(&set, SIGNALS[i]);
    return set;
}

static void be_ready(void)
{
    static bool ready;
    if (ready)
        return;
    ready = true;
    atexit(end);
    for (int i = 0; i < COUNT(SIGNALS); i++) {
        struct sigaction old, action = {.sa_handler = end_by_signal, .sa_mask = temporary_signals()};
        if (sigaction(SIGNALS[i], NULL, &old) == 0 && old.sa_handler == SIG_DFL) /* with nohup, the signal stays ignored */
            sigaction(SIGNALS[i], &action, NULL);
    }
}

void temporary_add(const char *path)
{
    be_ready();
    size_t bytes = strlen(path) + 1;
    Temporary *t = calloc(1, sizeof *t + bytes);
    if (!t)
        no_memory(bytes);
    memcpy(t->path, path, bytes);
    t->next = temporaries;
    temporaries = t;
}

void temporary_retain(const char *path)
{
    for (Temporary *t = temporaries; t; t = t->next)
        if (strcmp(t->path, path) == 0)
            t->kept = true;
}

/* ---- the folder of intermediate files */

static bool is_ours(int lock)
{
    char text[sizeof OURS];
    return read(lock, text, sizeof text) == (ssize_t)strlen(OURS) && memcmp(text, OURS, strlen(OURS)) == 0;
}

/* Returns whether an mgpuc that no longer runs made the folder; `file` is the open folder. */
static bool is_left_over(int file, bool old)
{
    int held = openat(file, LOCK, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    bool left = held >= 0 && is_ours(held) && (flock(held, LOCK_EX | LOCK_NB) == 0 || (errno != EWOULDBLOCK && old));
    if (held >= 0)
        close(held);
    return left;
}

static void remove_left_over(int parent, const char *name)
{
    struct stat s;
    int file = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    bool own = file >= 0 && fstat(file, &s) == 0 && s.st_uid == geteuid() && !(s.st_mode & (S_IWGRP | S_IWOTH));
    bool old = own && time(NULL) - s.st_mtim.tv_sec > ABANDONED_S, left = own && is_left_over(file, old);
    DIR *d = left ? fdopendir(file) : NULL;
    for (struct dirent *e; d && (e = readdir(d));)
        unlinkat(file, e->d_name, 0); /* there are no folders in it */
    if (d)
        closedir(d);
    else if (file >= 0)
        close(file);
    if (left || old)
        unlinkat(parent, name, AT_REMOVEDIR); /* if it is empty */
}

static void remove_left_overs(const char *folder)
{
    DIR *d = opendir(folder);
    for (struct dirent *e; d && (e = readdir(d));)
        if (strncmp(e->d_name, PREFIX, strlen(PREFIX)) == 0 && strlen(e->d_name) == strlen(PREFIX) + strlen("XXXXXX"))
            remove_left_over(dirfd(d), e->d_name);
    if (d)
        closedir(d);
}

/* Locks a new folder until mgpuc ends, in whatever way. The lock file gets its content after it is locked; without content,
 * nobody removes the folder. */
static void lock_folder(const char *folder)
{
    const char *path = format("%s/%s", folder, LOCK);
    int held = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (held < 0)
        return;
    temporary_add(path);
    bool locked = flock(held, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK; /* or the file system has no locks */
    if (!locked || write(held, OURS, strlen(OURS)) < 0)
        close(held);
}

const char *temporary_folder(void)
{
    const char *parent = getenv("TMPDIR");
    parent = parent && *parent ? parent : "/tmp";
    remove_left_overs(parent);
    char *folder = (char *)(uintptr_t)format("%s/%sXXXXXX", parent, PREFIX);
    if (!mkdtemp(folder))
        fail(3, "%s cannot be made: %s; TMPDIR names another folder for intermediate files", folder, strerror(errno));
    temporary_add(folder);
    lock_folder(folder);
    return folder;
}

/* ---- files beside the output, which are renamed when they are complete */
static const char FRESH[] = ".new";

const char *fresh_path(const char *path)
{
    const char *fresh = format("%s.%ld%s", path, (long)getpid(), FRESH);
    temporary_add(fresh);
    return fresh;
}

/* Returns 123 for "p.123.new" and "p.123-4.new" (mgpu_open_whole) if `file` is p; else 0. */
static pid_t maker_of(const char *name, const char *file)
{
    size_t length = strlen(file);
    const char *number = name + length + 1;
    if (strncmp(name, file, length) != 0 || name[length] != '.' || *number < '1' || *number > '9')
        return 0;
    char *end;
    long process = strtol(number, &end, 10);
    if (*end == '-')
        end += 1 + strspn(end + 1, "0123456789");
    return strcmp(end, FRESH) == 0 && process <= INT32_MAX ? (pid_t)process : 0;
}

static bool is_nobodys(int folder, const char *name, pid_t maker)
{
    struct stat s;
    return kill(maker, 0) && errno == ESRCH && fstatat(folder, name, &s, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(s.st_mode) &&
           s.st_uid == geteuid() && time(NULL) - s.st_mtim.tv_sec > QUIET_S;
}

void remove_old_outputs(const char *output, bool shared)
{
    const char *slash = strrchr(output, '/'), *p = slash ? slash + 1 : output;
    const char *const files[] = {p,
                                 format("%s.c", p),
                                 format("%s.kernels.c", p),
                                 format("%s.kernels.cu", p),
                                 format("%s.sched", p),
                                 shared ? path_of_shared(p, ".h") : p,
                                 shared ? path_of_shared(p, ".pc") : p};
    DIR *d = opendir(!slash ? "." : slash == output ? "/" : copy_text(output, (size_t)(slash - output)));
    for (struct dirent *e; d && (e = readdir(d));)
        for (int i = 0; i < COUNT(files); i++) {
            pid_t maker = maker_of(e->d_name, files[i]);
            if (maker && is_nobodys(dirfd(d), e->d_name, maker))
                unlinkat(dirfd(d), e->d_name, 0);
        }
    if (d)
        closedir(d);
}

/* ---- running compilers */

void tool_begins(pid_t process)
{
    be_ready();
    for (int i = 0; i < MOST_TOOLS; i++)
        if (!tools[i]) {
            tools[i] = process;
            return;
        }
    die("more than %d tools run", MOST_TOOLS);
}

void tool_ends(pid_t process)
{
    for (int i = 0; i < MOST_TOOLS; i++)
        if (tools[i] == process)
            tools[i] = 0;
}
