/* whole.c: see whole.h. */
#include "runtime/base/whole.h"
#include "runtime/base/base.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const size_t MOST_OF_A_PIPE = (size_t)256 << 20;

const char *mgpu_refused_kind(FILE *f)
{
    struct stat s;
    return fstat(fileno(f), &s) != 0 || S_ISREG(s.st_mode) || S_ISFIFO(s.st_mode) || S_ISDIR(s.st_mode) /* reading a folder fails */
               ? NULL
               : "it is a device or a socket, which may never end; a file or a pipe is expected";
}

static char *read_stream(FILE *f, size_t most, size_t *length, const char **refused)
{
    size_t room = 1 << 14, used = 0;
    char *text = mgpu_allocate(room, 1);
    for (size_t got; (got = fread(text + used, 1, room - used - 1, f)) > 0;) {
        used += got;
        if (used > most) {
            *refused = "more than 256 MiB have come out of the pipe; write it to a file first";
            break;
        }
        if (used + 1 == room)
            text = mgpu_resize(text, room *= 2);
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
