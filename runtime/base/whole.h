/* whole.h: a file, read into memory whole; a file that is written whole or not at all. */
#ifndef MGPU_BASE_WHOLE_H
#define MGPU_BASE_WHOLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* Its bytes and a NUL, which the caller frees. NULL: *refused says why, or is NULL, and errno does. What never ends is refused: devices, and
 * what goes on coming out of a pipe. */
char *mgpu_read_whole(const char *path, size_t *length, const char **refused);
const char *mgpu_refused_kind(FILE *);           /* why that file is not read; NULL: it is */
/* A file is written beside its place and renamed there when it is complete, so that what was there stays until then, and anybody who reads meets
 * all of it. A link stays one. What is there and no regular file (a device, a pipe, a terminal) is written in place, as a new file cannot do
 * its work. Each returns 0, or errno. */
typedef struct WholeFile { FILE *f; char *path, *beside; /* NULL: in place */ } WholeFile;
int mgpu_open_whole(WholeFile *, const char *path);
int mgpu_close_whole(WholeFile *);               /* on failure what was there before stays */
int mgpu_check_whole(const char *path);          /* whether it could be written; changes nothing */
bool mgpu_in_place(const char *path);            /* it is there, and no regular file */
/* a descriptor to write; -1: errno says why. A pipe is opened when somebody reads it; if nobody does yet, that is said */
int mgpu_open_in_place(const char *path, int flags);
bool mgpu_same_file(const char *, const char *);  /* both are there, and they are one file */
#endif
