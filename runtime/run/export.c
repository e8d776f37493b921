/* export.c: `export KIND PATH`: writes the model, and the weights that `predict` would use, for other software. The table has a
 * row for each kind. */
#include "runtime/base/base.h"
#include "runtime/base/options.h"
#include "runtime/data/data.h"
#include "runtime/export/export.h"
#include "runtime/run/commands.h"
#include "runtime/weights/view.h"

#include <stdlib.h>
#include <string.h>

typedef struct ExportKind {
    const char *name, *path;
    WriteExport *write;
} ExportKind;

static const struct mgpu_family_exports *families(const Export *e)
{
    if (!e->program->families)
        mgpu_fail(MGPU_BAD_INPUT,
                  "transformers and llama.cpp have code for families of models: with attention, which this model lacks, ResNet "
                  "and ConvNeXt; %s",
                  ANY_MODEL);
    return e->program->families;
}

static void write_hf(const Export *e) { families(e)->hf(e); }

static void write_gguf(const Export *e) { families(e)->gguf(e); }

static const ExportKind KINDS[] = {
    {"onnx", "FILE.onnx", mgpu_export_onnx},
    {"torch", "FILE.py", mgpu_export_torch},
    {"safetensors", "FILE.safetensors", mgpu_export_safetensors},
    {"hf", "DIR", write_hf},
    {"gguf", "FILE.gguf", write_gguf},
};

static const ExportKind *find_kind(const RunOptions *o)
{
    const char *names[MGPU_COUNT(KINDS)], *given = o->operand_count ? o->operands[0] : "";
    char near[128], *all = mgpu_format("%s", "");
    for (int i = 0; i < MGPU_COUNT(KINDS); i++) {
        names[i] = KINDS[i].name;
        if (strcmp(given, names[i]) == 0 && o->operand_count == 2)
            return &KINDS[i];
        if (strcmp(given, names[i]) == 0)
            mgpu_fail(MGPU_BAD_USAGE, "export %s writes one file or folder, which is named after it: %s export %s %s", names[i],
                      o->program, names[i], KINDS[i].path);
        char *longer = mgpu_format("%s%s%s %s", all, *all ? ", " : "", names[i], KINDS[i].path);
        free(all);
        all = longer;
    }
    mgpu_fail(MGPU_BAD_USAGE, "export takes a kind and what to write, as %s export %s%s%s%s%s", o->program, all,
              o->operand_count ? "; there is no kind '" : "", given, o->operand_count ? "'" : "",
              mgpu_did_you_mean(given, names, MGPU_COUNT(KINDS), near));
}

/* A data set's stages run before the graph; those of valid have no randomness. */
static int find_facts(const mgpu_program *p, const Snapshot *s, ExportFact *facts)
{
    int count = 0;
    const mgpu_set *set = mgpu_find_set(p, "valid");
    set = set ? set : mgpu_find_set(p, "train");
    if (set)
        facts[count++] = (ExportFact){MGPU_FACT_BEFORE, mgpu_set_text(set)};
    if (s->metadata.step >= 0)
        facts[count++] = (ExportFact){"step", mgpu_format("%lld", (long long)s->metadata.step)};
    if (s->metadata.categories)
        facts[count++] = (ExportFact){"categories", mgpu_format("%s", s->metadata.categories)};
    return count;
}

int mgpu_export(const mgpu_program *program, const RunOptions *o)
{
    const ExportKind *kind = find_kind(o);
    Feed feed;
    Categories *categories = mgpu_new_categories(true);
    Engine *engine = mgpu_open_trained(program, o, &feed, categories, mgpu_collect_nothing, NULL);
    Snapshot snapshot = {.program = program, .plan = feed.plan, .engine = engine};
    Export e = {.program = program, .options = o, .path = o->operands[1], .snapshot = &snapshot, .categories = categories};
    e.weights = mgpu_view_of(program, feed.plan, MGPU_MODEL_VIEW);
    snapshot.metadata = (FileMetadata){feed.applied, mgpu_categories_text(categories)};
    mgpu_take_snapshot(&snapshot, engine, false);
    ExportFact facts[3];
    e.fact_count = find_facts(program, &snapshot, e.facts = facts);
    kind->write(&e);
    for (int i = 0; i < e.fact_count; i++)
        free(facts[i].text);
    free((char *)(uintptr_t)snapshot.metadata.categories);
    mgpu_engine_close(engine, "the export is written");
    mgpu_close_view(&e.weights);
    mgpu_close_snapshot(&snapshot);
    mgpu_free_categories(categories);
    return 0;
}
