/* sheet.c: see sheet.h. */
#include "runtime/report/sheet.h"
#include "runtime/view/view.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

struct SheetMemory {
    SheetMemory *before;
    _Alignas(16) char bytes[];
};

void *mgpu_sheet_allocate(Sheet *s, size_t count, size_t bytes)
{
    if (bytes && count > (SIZE_MAX - sizeof(SheetMemory)) / bytes)
        mgpu_no_memory(SIZE_MAX);
    SheetMemory *k = mgpu_allocate(1, sizeof *k + count * bytes);
    k->before = s->memory;
    s->memory = k;
    return k->bytes;
}

void *mgpu_sheet_grow(Sheet *s, const void *old, size_t old_bytes, size_t bytes)
{
    void *list = mgpu_sheet_allocate(s, 1, bytes);
    return old_bytes ? memcpy(list, old, old_bytes) : list;
}

const char *mgpu_sheet_copy(Sheet *s, const char *text, size_t length)
{
    return memcpy(mgpu_sheet_allocate(s, 1, length + 1), text, length);
}

const char *mgpu_sheet_text(Sheet *s, const char *pattern, ...)
{
    va_list arguments;
    va_start(arguments, pattern);
    char *text = mgpu_vformat(pattern, arguments);
    va_end(arguments);
    const char *kept = mgpu_sheet_copy(s, text, strlen(text));
    free(text);
    return kept;
}

const char *mgpu_sheet_time(Sheet *s, double us)
{
    char text[32];
    return mgpu_sheet_text(s, "%s", mgpu_view_time(us, text));
}

const char *mgpu_sheet_bytes(Sheet *s, double bytes)
{
    char text[32];
    return mgpu_sheet_text(s, "%s", mgpu_view_bytes(bytes, text));
}

void mgpu_sheet_end(Sheet *s)
{
    for (SheetMemory *k = s->memory, *before; k; k = before) {
        before = k->before;
        free(k);
    }
    s->memory = NULL;
}
