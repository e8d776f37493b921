/* sheet.h: the output stream of a page, and an arena for the texts and lists that it is built of. */
#ifndef MGPU_REPORT_SHEET_H
#define MGPU_REPORT_SHEET_H

#include "runtime/base/base.h"

typedef struct SheetMemory SheetMemory;
typedef struct Sheet {
    FILE *f;
    SheetMemory *memory;
} Sheet;                                                        /* f: not owned; NULL before printing */
void mgpu_sheet_end(Sheet *);                                   /* frees the memory */
void *mgpu_sheet_allocate(Sheet *, size_t count, size_t bytes); /* zeroed */
const char *mgpu_sheet_text(Sheet *, const char *pattern, ...) MGPU_PRINTF(2, 3);
const char *mgpu_sheet_copy(Sheet *, const char *text, size_t length);
const char *mgpu_sheet_time(Sheet *, double us); /* formatted as in runtime/view */
const char *mgpu_sheet_bytes(Sheet *, double bytes);
void *mgpu_sheet_grow(Sheet *, const void *old, size_t old_bytes, size_t bytes);
#define MGPU_SHEET_NEW(s, type, count) ((type *)mgpu_sheet_allocate(s, (size_t)((count) > 0 ? (count) : 1), sizeof(type)))
/* Appends to a list whose capacity is the next power of two of `count`. */
#define MGPU_APPEND(s, list, count, item)                                                                                        \
    (((count) & ((count)-1)) == 0 ? (void)((list) = mgpu_sheet_grow(s, list, sizeof *(list) * (size_t)(count),                   \
                                                                    sizeof *(list) * (size_t)((count) ? 2 * (count) : 1)))       \
                                  : (void)0,                                                                                     \
     (list)[(count)++] = (item))
#endif
