/* diagnostics.c: errors and warnings as JSON, for `mgpuc check --json`: kept, and printed with the rest of check's output, or
 * separately if an error ends the run. */
#include "compiler/driver/command.h"
#include "dsl/tree.h"

#include <stdlib.h>

static Text kept;
static bool printed;

static void add_place(const Place *at, Text *t)
{
    text_add(t, "\"file\":");
    json_text(t, at->source->file);
    text_add(t, ",\"line\":%d,\"column\":%d", at->line, at->column);
    if (at->source->text)
        text_add(t, ",\"end_column\":%d", token_end(at->source, at->line, at->column));
}

static void keep(const Diagnostic *d)
{
    text_add(&kept, "%s{\"severity\":", kept.length ? "," : "");
    json_text(&kept, d->warning ? "warning" : "error");
    text_add(&kept, ",");
    if (d->name) {
        text_add(&kept, "\"name\":");
        json_text(&kept, d->name);
        text_add(&kept, ",");
    }
    if (d->at) {
        add_place(d->at, &kept);
        text_add(&kept, ",");
    }
    text_add(&kept, "\"message\":");
    json_text(&kept, d->message);
    text_add(&kept, ",\"related\":[");
    for (int i = 0; i < d->related_count; i++) {
        text_add(&kept, "%s{", i ? "," : "");
        add_place(d->related[i].at, &kept);
        text_add(&kept, ",\"message\":");
        json_text(&kept, d->related[i].text);
        text_add(&kept, "}");
    }
    text_add(&kept, "]}");
}

static void print_alone(void)
{
    if (!printed)
        printf("{\"diagnostics\":[%s]}\n", text_of(&kept));
}

void diagnostics_as_json(void)
{
    diagnostics_to(keep);
    atexit(print_alone);
}

const char *diagnostics_json(void)
{
    printed = true;
    return text_of(&kept);
}
