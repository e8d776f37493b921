/* safetensors.c: `export safetensors FILE`: writes the weights that `predict` would use to one file. Also functions that all
 * formats share. */
#include "runtime/export/export.h"
#include "runtime/weights/snapshot.h"

#include <stdlib.h>
#include <string.h>
#include <zlib.h>

const mgpu_tensor *mgpu_exported_tensor(const Export *e, int i) { return &e->program->variables[e->weights.variable[i]].tensor; }

void mgpu_read_exported(const Export *e, int i, mgpu_range elements, void *to)
{
    mgpu_read_snapshot(e->snapshot, 0, e->weights.variable[i], elements, to);
}

int mgpu_exported_place(const Export *e, int variable)
{
    for (int i = 0; i < e->weights.count; i++)
        if (strcmp(e->weights.name[i], e->program->variables[variable].tensor.name) == 0)
            return i;
    mgpu_die("'%s' is in no file of weights", e->program->variables[variable].tensor.name);
}

ExportedText mgpu_exported_text(const Export *e, const char *kind)
{
    const mgpu_program *p = e->program;
    for (int i = 0; i < p->exported_count; i++) {
        const mgpu_exported *x = &p->exported[i];
        if (strcmp(x->kind, kind) != 0)
            continue;
        if (x->refused)
            mgpu_fail(MGPU_BAD_INPUT, "the model cannot be exported: %s", x->refused);
        ExportedText t = {x, mgpu_allocate((size_t)x->bytes + 1, 1), x->bytes};
        uLongf bytes = (uLongf)x->bytes;
        if (uncompress((Bytef *)t.text, &bytes, (const Bytef *)x->packed, (uLong)x->packed_bytes) != Z_OK ||
            (int64_t)bytes != x->bytes)
            mgpu_die("what the program holds for export %s is damaged", kind);
        return t;
    }
    mgpu_fail(MGPU_BAD_INPUT, "%s has no outputs, which are what is exported: write `output e` in the model", p->model_file);
}

void mgpu_say_facts(const Export *e)
{
    for (int i = 0; i < e->fact_count; i++)
        if (strcmp(e->facts[i].key, MGPU_FACT_BEFORE) == 0)
            mgpu_print("left to who uses it, as the program does it before the model: %s\n", e->facts[i].text);
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
