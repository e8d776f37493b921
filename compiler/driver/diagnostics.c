/* diagnostics.c: errors and warnings as JSON, for `mgpuc check --json`: kept, and printed with the rest of check's output, or
 * separately if an error ends the run. */
#include "compiler/driver/command.h"
#include "dsl/tree.h"

#include <stdlib.h>

static Text diagnostics;
static bool printed;

static void add_place(const Place *at, Text *t)
{
    text_add(t, "\"file\":");
    json_text(t, at->source->file);
    text_add(t, ",\"line\":%d,\"column\":%d", at->line, at->column);
    if (at->source->text)
        text_add(t, ",\"end_column\":%d", token_end(at->source, at->line, at->column));
}

static void add_diagnostic(const Diagnostic *d)
{
    text_add(&diagnostics, "%s{\"severity\":", diagnostics.length ? "," : "");
    json_text(&diagnostics, d->warning ? "warning" : "error");
    text_add(&diagnostics, ",");
    if (d->name) {
        text_add(&diagnostics, "\"name\":");
        json_text(&diagnostics, d->name);
        text_add(&diagnostics, ",");
    }
    if (d->at) {
        add_place(d->at, &diagnostics);
        text_add(&diagnostics, ",");
    }
    text_add(&diagnostics, "\"message\":");
    json_text(&diagnostics, d->message);
    text_add(&diagnostics, ",\"related\":[");
    for (int i = 0; i < d->related_count; i++) {
        text_add(&diagnostics, "%s{", i ? "," : "");
        add_place(d->related[i].at, &diagnostics);
        text_add(&diagnostics, ",\"message\":");
        json_text(&diagnostics, d->related[i].text);
        text_add(&diagnostics, "}");
    }
    text_add(&diagnostics, "]}");
}

static void print_at_exit(void)
{
    if (!printed)
        printf("{\"diagnostics\":[%s]}\n", text_of(&diagnostics));
}

void diagnostics_as_json(void)
{
    diagnostics_to(add_diagnostic);
    atexit(print_at_exit);
}

const char *diagnostics_json(void)
{
    printed = true;
    return text_of(&diagnostics);
}
