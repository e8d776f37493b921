/* outline.h: access to the rows of a program's outline (mgpu.h). */
#ifndef MGPU_EXPORT_OUTLINE_H
#define MGPU_EXPORT_OUTLINE_H

#include "runtime/export/export.h"

#include <math.h>
#include <string.h>

typedef struct RowView { /* first element and extents of a view of a row; row -1: none */
    int row, rank;
    int64_t first, extent[MGPU_MAX_RANK];
} RowView;

static inline const mgpu_option *option_of(const mgpu_call *row, const char *name)
{
    for (int i = 0; i < row->option_count; i++)
        if (strcmp(row->options[i].name, name) == 0)
            return &row->options[i];
    return NULL;
}

static inline const char *text_of(const mgpu_call *row, const char *name)
{
    const mgpu_option *o = option_of(row, name);
    return o && o->count && o->items[0].text ? o->items[0].text : "";
}

static inline double number_of(const mgpu_call *row, const char *name)
{
    const mgpu_option *o = option_of(row, name);
    return o && o->count && !o->items[0].text ? o->items[0].number : NAN;
}

static inline RowView view_of(const mgpu_call *row, const char *name)
{
    const mgpu_option *o = option_of(row, name);
    RowView v = {.row = -1};
    if (!o || o->count < 2 || o->items[1].number < 0)
        return v;
    v.row = (int)o->items[0].number;
    v.first = (int64_t)o->items[1].number;
    for (int i = 2; i < o->count; i++)
        v.extent[v.rank++] = (int64_t)o->items[i].number;
    return v;
}

static inline int64_t elements(const RowView *v)
{
    int64_t all = 1;
    for (int i = 0; i < v->rank; i++)
        all *= v->extent[i];
    return all;
}

/* Returns the elements at one position of a sequence, or all of other shapes. all: of a picture, those at one pixel. */
static inline int64_t features(const RowView *v, bool all)
{
    if (all && v->rank == 3)
        return v->extent[2];
    return v->rank > 1 && v->extent[0] ? elements(v) / v->extent[0] : elements(v);
}

static inline bool is(const mgpu_call *row, const char *name) { return strcmp(row->name, name) == 0; }
#endif
