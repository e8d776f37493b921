/* whole_file.c: reads and writes whole files. */
#include "runtime/base/whole_file.h"
#include "runtime/base/base.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const size_t MOST_OF_A_PIPE = (size_t)256 << 20;

const char *mgpu_refused_kind(FILE *f)
{
    struct stat s;
    return fstat(fileno(f), &s) != 0 || S_ISREG(s.st_mode) || S_ISFIFO(s.st_mode) || S_ISDIR(s.st_mode) /* fails */
               ? NULL
               : "it is a device or a socket, which may never end; a file or a pipe is expected";
}

static char *read_stream(FILE *f, size_t most, size_t *length, const char **refused)
{
    size_t capacity = 1 << 14, used = 0;
    char *text = mgpu_allocate(capacity, 1);
    for (size_t got; (got = fread(text + used, 1, capacity - used - 1, f)) > 0;) {
        used += got;
        if (used > most) {
            *refused = "more than 256 MiB have come out of the pipe; write it to a file first";
            break;
        }
        if (used + 1 == capacity)
            text = mgpu_resize(text, capacity *= 2);
    }
    text[used] = 0;
    *length = used;
    if (!*refused && !ferror(f))
        return text;
    free(text);
    return NULL;
}

char *mgpu_read_whole(const char *path, size_t *length, const char **refused)
{
    struct stat s;
    *refused = NULL;
    FILE *f = fopen(path, "re");
    if (!f)
        return NULL;
    char *text = NULL;
    if (fstat(fileno(f), &s) == 0 && !(*refused = mgpu_refused_kind(f)))
        text = read_stream(f, S_ISREG(s.st_mode) ? SIZE_MAX : MOST_OF_A_PIPE, length, refused);
    int error = errno;
    fclose(f);
    errno = error;
    return text;
}

bool mgpu_same_file(const char *a, const char *b)
{
    struct stat x, y;
    return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

/* ---- writing */
bool mgpu_in_place(const char *path)
{
    struct stat s; /* /dev/stdout and the like are open files, which may have no name any more */
    return stat(path, &s) == 0 && (!S_ISREG(s.st_mode) || strncmp(path, "/dev/", 5) == 0 || strncmp(path, "/proc/", 6) == 0);
}

int mgpu_open_in_place(const char *path, int flags)
{
    int mode = O_WRONLY | O_CREAT | O_CLOEXEC | flags, file = open(path, mode | O_NONBLOCK, 0666);
    if (file < 0 && errno == ENXIO) {
        mgpu_say("%s: %s is a pipe that nobody reads yet: it is written when somebody does", program_invocation_short_name, path);
        return open(path, mode, 0666);
    }
    if (file >= 0)
        fcntl(file, F_SETFL, fcntl(file, F_GETFL) & ~O_NONBLOCK);
    return file;
}

/* Creates a new file in the folder of w->path; returns -1 and errno on failure. */
static int open_temporary(WholeFile *w)
{
    enum { TRIES = 100 };
    struct stat was;
    int file = -1;
    for (int i = 0; i < TRIES && file < 0 && (!i || errno == EEXIST); i++) {
        free(w->temporary);
        w->temporary = mgpu_format("%s.%ld%s%.0d.new", w->path, (long)getpid(), i ? "-" : "", i);
        file = open(w->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    }
    if (file >= 0 && stat(w->path, &was) == 0)
        fchmod(file, was.st_mode & 0777);
    return file;
}

int mgpu_open_whole(WholeFile *w, const char *path)
{
    char *real = mgpu_in_place(path) ? NULL : realpath(path, NULL);
    *w = (WholeFile){.path = mgpu_format("%s", real ? real : path)};
    free(real);
    int file = mgpu_in_place(path) ? -1 : open_temporary(w);
    if (file < 0) {
        bool fixed = mgpu_in_place(path) || (errno == EACCES && access(path, W_OK) == 0); /* its folder is not writable */
        free(w->temporary);
        w->temporary = NULL;
        file = fixed ? mgpu_open_in_place(path, O_TRUNC) : -1;
    }
    w->f = file < 0 ? NULL : fdopen(file, "w");
    int error = w->f ? 0 : errno;
    if (error)
        free(w->path);
    return error;
}

static void forget(WholeFile *w)
{
    free(w->path);
    free(w->temporary);
    *w = (WholeFile){0};
}

int mgpu_close_whole(WholeFile *w)
{
    int error = mgpu_finish_file(w->f, false);
    if (w->temporary && !error && rename(w->temporary, w->path) != 0)
        error = errno;
    if (w->temporary && error)
        unlink(w->temporary);
    forget(w);
    return error;
}

int mgpu_check_whole(const char *path)
{
    if (mgpu_in_place(path))
        return access(path, W_OK) == 0 ? 0 : errno;
    WholeFile w;
    int error = mgpu_open_whole(&w, path);
    if (error)
        return error;
    fclose(w.f);
    if (w.temporary)
        unlink(w.temporary);
    forget(&w);
    return 0;
}
