/* whole_file.h: reads a whole file into memory; writes a file completely or not at all. */
#ifndef MGPU_BASE_WHOLE_H
#define MGPU_BASE_WHOLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* Returns its bytes and a NUL, which the caller frees. On failure returns NULL, with the reason in *refused or, if that is NULL,
 * in errno. Refuses what may never end: devices, and long output of a pipe. */
char *mgpu_read_whole(const char *path, size_t *length, const char **refused);
const char *mgpu_refused_kind(FILE *); /* why the file is not read; NULL: it is */
/* A file is written under another name in the same folder and renamed when it is complete. So the old contents stay until then,
 * and readers always see a complete file. Symbolic links are kept. Anything but a regular file (a device, a pipe, a terminal) is
 * written in place. Functions return 0, or errno. */
typedef struct WholeFile {
    FILE *f;
    char *path, *temporary; /* NULL: in place */
} WholeFile;
int mgpu_open_whole(WholeFile *, const char *path);
int mgpu_close_whole(WholeFile *);      /* on failure the old contents stay */
int mgpu_check_whole(const char *path); /* could it be written? changes nothing */
bool mgpu_in_place(const char *path);   /* it exists and is no regular file */
/* Returns a descriptor for writing, or -1 and errno. Waits for a reader of a pipe, and says so. */
int mgpu_open_in_place(const char *path, int flags);
bool mgpu_same_file(const char *, const char *); /* both exist and are the same file */
#endif
