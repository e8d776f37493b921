/* torch.c: `export torch FILE.py`: writes the module that the compiler has generated, and its weights to FILE.safetensors. */
#include "runtime/export/export.h"

#include <stdlib.h>
#include <string.h>

void mgpu_export_torch(const Export *e)
{
    const char *suffix = strrchr(e->path, '.'), *slash = strrchr(e->path, '/');
    if (!suffix || strcmp(suffix, ".py") != 0 || suffix == e->path || (slash && suffix == slash + 1))
        mgpu_fail(MGPU_BAD_USAGE,
                  "export torch %s: the name has to end in .py; the weights go into a file of safetensors beside it", e->path);
    ExportedText t = mgpu_exported_text(e, "torch");
    char *weights = mgpu_format("%.*s.safetensors", (int)(suffix - e->path), e->path);
    WholeFile file = mgpu_begin_export(e->path);
    fprintf(file.f, "\"\"\"%s as a module of PyTorch, exported by a program of mgpuc %s.\n\n", e->program->name, MGPU_VERSION);
    fwrite(t.text, 1, (size_t)t.bytes, file.f);
    mgpu_end_export(&file, e->path, "a module of PyTorch");
    Export beside = *e;
    beside.path = weights;
    mgpu_export_safetensors(&beside);
    mgpu_say_facts(e);
    free(weights);
    free(t.text);
}
