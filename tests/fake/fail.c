/* fail.c: for LD_PRELOAD, in tests: one function of the system fails, as FAIL says:
 *   FAIL="rename 2"          its second call, with errno EIO
 *   FAIL="dlopen 1"          every call
 *   FAIL="slow x.jpg"        opening a file whose path ends so takes 3 s (it does not fail)
 *   FAIL="calloc 100000"     every call for so many bytes or more, with ENOMEM (calloc, mmap, posix_memalign)
 * MGPU_FAIL_ERRNO gives another errno. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <time.h>

void *__libc_calloc(size_t, size_t);

static char wish[80];

/* programs that are started in turn do not fail */
__attribute__((constructor)) static void begin(void)
{
    const char *text = getenv("FAIL");
    snprintf(wish, sizeof wish, "%s", text ? text : "");
    unsetenv("LD_PRELOAD");
}

static long limit_of(const char *function) /* 0: it does not fail */
{
    size_t length = strlen(function);
    return strncmp(wish, function, length) == 0 && wish[length] == ' ' ? strtol(wish + length + 1, NULL, 10) : 0;
}

static int error_number(int usual)
{
    const char *text = getenv("MGPU_FAIL_ERRNO");
    return text ? (int)strtol(text, NULL, 10) : usual;
}

static bool fails_now(const char *function, int *calls)
{
    long limit = limit_of(function);
    bool fails = limit && ++*calls == limit;
    if (fails)
        errno = error_number(EIO);
    return fails;
}

static bool is_too_large(const char *function, size_t bytes)
{
    long limit = limit_of(function);
    bool fails = limit && bytes >= (size_t)limit;
    if (fails)
        errno = error_number(ENOMEM);
    return fails;
}

static void *next(const char *function) { return dlsym(RTLD_NEXT, function); }

/* a function that fails by a value */
#define FAILING(type, name, failure, parameters, arguments)                                                                      \
    type name parameters;                                                                                                        \
    type name parameters                                                                                                         \
    {                                                                                                                            \
        static int calls;                                                                                                        \
        type(*real) parameters;                                                                                                  \
        void *found = next(#name);                                                                                               \
        memcpy(&real, &found, sizeof found);                                                                                     \
        return fails_now(#name, &calls) ? (failure) : real arguments;                                                            \
    }

FAILING(int, rename, -1, (const char *from, const char *to), (from, to))
FAILING(int, link, -1, (const char *from, const char *to), (from, to))
FAILING(int, unlink, -1, (const char *path), (path))
FAILING(int, fsync, -1, (int file), (file))
FAILING(int, symlink, -1, (const char *target, const char *path), (target, path))
FAILING(int, mkdir, -1, (const char *path, mode_t mode), (path, mode))
FAILING(int, flock, -1, (int file, int operation), (file, operation))
FAILING(ssize_t, getrandom, -1, (void *to, size_t bytes, unsigned flags), (to, bytes, flags))
FAILING(int, pipe2, -1, (int ends[2], int flags), (ends, flags))
FAILING(pid_t, waitpid, -1, (pid_t child, int *status, int options), (child, status, options))
FAILING(ssize_t, readlink, -1, (const char *path, char *text, size_t room), (path, text, room))
FAILING(int, pthread_create, EAGAIN, (pthread_t * thread, const pthread_attr_t *attributes, void *(*run)(void *), void *argument),
        (thread, attributes, run, argument))
FAILING(int, posix_spawnp, error_number(EIO),
        (pid_t * child, const char *file, const posix_spawn_file_actions_t *actions, const posix_spawnattr_t *attributes,
         char *const words[], char *const environment[]),
        (child, file, actions, attributes, words, environment))

void *dlopen(const char *file, int flags)
{
    void *(*real)(const char *, int);
    void *found = next("dlopen");
    memcpy(&real, &found, sizeof found);
    return limit_of("dlopen") ? NULL : real(file, flags);
}

int open(const char *path, int flags, ...)
{
    int (*real)(const char *, int, mode_t);
    void *found = next("open");
    memcpy(&real, &found, sizeof found);
    va_list arguments;
    va_start(arguments, flags);
    mode_t mode = flags & O_CREAT ? va_arg(arguments, mode_t) : 0;
    va_end(arguments);
    size_t length = strlen(path), end = strlen(wish) > 5 ? strlen(wish) - 5 : 0;
    if (end && strncmp(wish, "slow ", 5) == 0 && length >= end && strcmp(path + length - end, wish + 5) == 0)
        nanosleep(&(struct timespec){3, 0}, NULL);
    return real(path, flags, mode);
}

void *calloc(size_t count, size_t bytes) { return is_too_large("calloc", count * bytes) ? NULL : __libc_calloc(count, bytes); }

int posix_memalign(void **to, size_t alignment, size_t bytes)
{
    int (*real)(void **, size_t, size_t);
    void *found = next("posix_memalign");
    memcpy(&real, &found, sizeof found);
    return is_too_large("posix_memalign", bytes) ? ENOMEM : real(to, alignment, bytes);
}

void *mmap(void *at, size_t bytes, int protection, int flags, int file, off_t offset)
{
    void *(*real)(void *, size_t, int, int, int, off_t);
    void *found = next("mmap");
    memcpy(&real, &found, sizeof found);
    return is_too_large("mmap", bytes) ? MAP_FAILED : real(at, bytes, protection, flags, file, offset);
}
