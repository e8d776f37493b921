/* sheet.h: what a page is made on: the stream that it is printed to, and memory for the texts and lists that it is made of, which is given
 * back as a whole. */
#ifndef MGPU_REPORT_SHEET_H
#define MGPU_REPORT_SHEET_H

#include "runtime/base/base.h"

typedef struct Kept Kept;
typedef struct Sheet { FILE *f; Kept *kept; } Sheet; /* f: whose it was; NULL: nothing is printed yet */
void mgpu_sheet_end(Sheet *);                        /* gives the memory back */
void *mgpu_keep(Sheet *, size_t count, size_t bytes); /* zeroed */
const char *mgpu_keep_text(Sheet *, const char *pattern, ...) MGPU_PRINTF(2, 3);
const char *mgpu_keep_copy(Sheet *, const char *text, size_t length);
const char *mgpu_keep_time(Sheet *, double us);      /* as runtime/view says it */
const char *mgpu_keep_bytes(Sheet *, double bytes);
void *mgpu_keep_grown(Sheet *, const void *old, size_t old_bytes, size_t bytes);
#define MGPU_KEEP(s, type, count) ((type *)mgpu_keep(s, (size_t)((count) > 0 ? (count) : 1), sizeof(type)))
/* the list grows at powers of two; its room is implied by `count` */
#define MGPU_APPEND(s, list, count, item)                                                                                    \
    (((count) & ((count)-1)) == 0                                                                                            \
         ? (void)((list) = mgpu_keep_grown(s, list, sizeof *(list) * (size_t)(count), sizeof *(list) * (size_t)((count) ? 2 * (count) : 1))) \
         : (void)0,                                                                                                          \
     (list)[(count)++] = (item))
#endif
