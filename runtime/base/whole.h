/* whole.h: a file, read into memory whole. */
#ifndef MGPU_BASE_WHOLE_H
#define MGPU_BASE_WHOLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* Its bytes and a NUL, which the caller frees. NULL: *refused says why, or is NULL, and errno does. What never ends is refused: devices, and
 * what goes on coming out of a pipe. */
char *mgpu_read_whole(const char *path, size_t *length, const char **refused);
const char *mgpu_refused_kind(FILE *);           /* why that file is not read; NULL: it is */
bool mgpu_same_file(const char *, const char *);  /* both are there, and they are one file */
#endif
