/* sheet.h: the output stream of a page, and an arena for the texts and lists that it is built of. */
#ifndef MGPU_REPORT_SHEET_H
#define MGPU_REPORT_SHEET_H

#include "runtime/base/base.h"

typedef struct Kept Kept;
typedef struct Sheet { FILE *f; Kept *kept; } Sheet; /* f: not owned; NULL before printing */
void mgpu_sheet_end(Sheet *);                        /* frees the memory */
void *mgpu_keep(Sheet *, size_t count, size_t bytes); /* zeroed */
const char *mgpu_keep_text(Sheet *, const char *pattern, ...) MGPU_PRINTF(2, 3);
const char *mgpu_keep_copy(Sheet *, const char *text, size_t length);
const char *mgpu_keep_time(Sheet *, double us);      /* formatted as in runtime/view */
const char *mgpu_keep_bytes(Sheet *, double bytes);
void *mgpu_keep_grown(Sheet *, const void *old, size_t old_bytes, size_t bytes);
#define MGPU_KEEP(s, type, count) ((type *)mgpu_keep(s, (size_t)((count) > 0 ? (count) : 1), sizeof(type)))
/* Appends to a list whose capacity is the next power of two of `count`. */
#define MGPU_APPEND(s, list, count, item)                                                                                    \
    (((count) & ((count)-1)) == 0                                                                                            \
         ? (void)((list) = mgpu_keep_grown(s, list, sizeof *(list) * (size_t)(count), sizeof *(list) * (size_t)((count) ? 2 * (count) : 1))) \
         : (void)0,                                                                                                          \
     (list)[(count)++] = (item))
#endif
