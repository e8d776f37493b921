/* ptx_text.h: modules of PTX that a test writes for the virtual GPU. */
#ifndef PTX_TEXT_H
#define PTX_TEXT_H

#include "vgpu_machine.h"

#include <stdarg.h>

static char text[1 << 18]; /* a module */
static size_t length;

static __attribute__((format(printf, 1, 2))) void add(const char *format, ...)
{
    va_list list;
    va_start(list, format);
    length += (size_t)vsnprintf(text + length, sizeof text - length, format, list);
    va_end(list);
}

/* what open_machine loads as an image of that name */
static inline void write_module(const char *name)
{
    char path[300];
    snprintf(path, sizeof path, "%s/%s.so", scratch, name);
    FILE *f = fopen(path, "w");
    fwrite(text, 1, length, f);
    fclose(f);
    length = 0;
}
#endif
