/* safetensors.c: `export safetensors FILE`: the weights that `predict` would use, in one file; and what the kinds of export have in common. */
#include "runtime/export/export.h"
#include "runtime/weights/snapshot.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

const mgpu_tensor *mgpu_exported_tensor(const Export *e, int i) { return &e->program->variables[e->weights.variable[i]].tensor; }

void mgpu_read_exported(const Export *e, int i, mgpu_stretch elements, void *to)
{
    mgpu_read_snapshot(e->snapshot, 0, e->weights.variable[i], elements, to);
}

WholeFile mgpu_begin_export(const char *path)
{
    WholeFile file;
    int error = mgpu_open_whole(&file, path);
    if (error)
        mgpu_fail(MGPU_MACHINE_FAILED, "%s cannot be written: %s", path, strerror(error));
    return file;
}

void mgpu_end_export(WholeFile *file, const char *path, const char *what)
{
    int error = mgpu_close_whole(file);
    if (error)
        mgpu_fail(MGPU_MACHINE_FAILED, "%s cannot be written: %s", path, strerror(error));
    mgpu_print_plain(path);
    printf(": %s\n", what);
}

void mgpu_export_safetensors(const Export *e)
{
    WholeFile file = mgpu_begin_export(e->path);
    mgpu_write_view(file.f, e->snapshot, MGPU_MODEL_VIEW);
    char *what = mgpu_format("%d tensors", e->weights.count);
    mgpu_end_export(&file, e->path, what);
    free(what);
}
