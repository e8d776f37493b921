/* records.c: writes records by tables of their fields. */
#include "compiler/base/records.h"

#include <stdlib.h>
#include <string.h>

/* ---- writing */
void write_name(const char *name, Text *t) { mgpu_write_name(name, &(mgpu_writer){text_put, t}); }
void write_number(double v, Text *t) { mgpu_write_number(v, &(mgpu_writer){text_put, t}); }
void write_value(const mgpu_field *f, const void *base, Text *t) { mgpu_write_value(f, base, &(mgpu_writer){text_put, t}); }

/* ---- reading */
Place reader_place(const mgpu_reader *r)
{
    return (Place){.source = r->memory, .line = r->line, .column = (int)(r->at - r->line_start) + 1};
}

static _Noreturn void say_wrong(const mgpu_reader *r, const char *message)
{
    Place at = reader_place(r);
    error_at(&at, "%s", message);
}

static void *allocate_there(void *source, size_t bytes)
{
    (void)source;
    return allocate(bytes);
}

mgpu_reader text_reader(Source *source)
{
    return (mgpu_reader){.at = source->text,
                         .line_start = source->text,
                         .line = 1,
                         .wrong = say_wrong,
                         .allocate = allocate_there,
                         .memory = source};
}
