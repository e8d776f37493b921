/* analysis.c: analyses a document in a child process: its tree, the values of its names, and its diagnostics. */
#include "compiler/lsp/lsp.h"
#include "dsl/tree.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { REQUEST_FAILED = -32803 };

void write_answer(const char *text, size_t length)
{
    for (ssize_t n; length > 0; text += n, length -= (size_t)n)
        if ((n = write(ANSWERS, text, length)) <= 0)
            _exit(1);
}

void answer_error(int code, const char *message)
{
    Text t = {0};
    text_add(&t, "E{\"code\":%d,\"message\":", code);
    json_text(&t, message);
    text_add(&t, "}\n");
    write_answer(text_of(&t), t.length);
    _exit(0);
}

static void say_nothing(const Diagnostic *d) { (void)d; }

static void put_documents_in_place(void)
{
    for (int i = 0; i < document_count; i++)
        source_in_place(documents[i].path, documents[i].text, documents[i].length);
}

static const Source *source_of_document(const Document *d)
{
    const char *why;
    put_documents_in_place();
    const Source *s = find_source(d->path, &why);
    if (s)
        return s;
    Source *own = NEW(Source); /* a document that is no file, such as "untitled:1" */
    *own = (Source){.file = d->path, .text = d->text, .length = d->length};
    return own;
}

/* Converts the request's position to the compiler's line and column, and finds the token there. */
static void find_place(Analysis *a, const Json *position)
{
    double line = mgpu_json_number(position, "line"), character = mgpu_json_number(position, "character");
    if (!(line >= 0 && line < 1e9 && character >= 0 && character < 1e9))
        answer_error(REQUEST_FAILED, "the request has no position");
    size_t at = offset_at(a->source->text, a->source->length, (int)line, (int)character);
    const char *text = a->source->text, *from = text + at;
    while (from > text && from[-1] != '\n')
        from--;
    a->line = (int)line + 1;
    a->column = (int)(text + at - from) + 1;
    if (a->line == 1 && a->source->length >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0)
        a->column = a->column > 3 ? a->column - 3 : 1;
    for (int i = 0; i < a->tokens.count; i++) {
        const Token *t = &a->tokens.list[i];
        bool here = t->line == a->line && t->column <= a->column && a->column <= t->column + t->length;
        bool word =
            (*t->text >= 'a' && *t->text <= 'z') || (*t->text >= 'A' && *t->text <= 'Z') || *t->text == '_' || *t->text == '"';
        bool between = a->token && t->column == a->column; /* in f"a", the position is at the end of f, too */
        if (here && word && !between && t->kind != TOKEN_COMMENT)
            a->token = t;
    }
}

Analysis analyse(const Json *params)
{
    const Document *d = document_of(mgpu_json_text(mgpu_json_member(params, "textDocument"), "uri"));
    if (!d)
        answer_error(REQUEST_FAILED, "this document is not open");
    diagnostics_to(say_nothing);
    Analysis a = {.source = source_of_document(d)};
    a.tree = parse(a.source);
    a.tokens = scan_tokens(a.source);
    const Json *position = mgpu_json_member(params, "position");
    if (position)
        find_place(&a, position);
    return a;
}

/* ---- values */

static Map values; /* place of a name -> descriptions of its distinct values */

static const char *key_of(const Tree *t) { return format("%s:%d:%d", t->source->file, t->line, t->column); }

static void add_value(const Tree *t, const char *value)
{
    enum { LONGEST = 200 };
    const char *key = key_of(t), *known = map_get(&values, key);
    if (!known)
        map_set(&values, key, (void *)(uintptr_t)value);
    else if (!strstr(known, value) && strlen(known) < LONGEST)
        map_set(&values, key, (void *)(uintptr_t)format("%s; %s", known, value));
}

static bool has_model(const Tree *file)
{
    for (const Tree *t = file->first; t; t = t->next)
        if (t->kind == TREE_MODEL)
            return true;
    return false;
}

static const char *first_model(const Tree *file)
{
    int count = 0;
    const char *name = NULL;
    for (const Tree *t = file->first; t; t = t->next)
        if (t->kind == TREE_MODEL && count++ == 0)
            name = t->text;
    return count > 1 ? name : NULL;
}

void know_values(const Analysis *a)
{
    Settings settings = {
        .report_value = add_value, .part = !has_model(a->tree), .model = first_model(a->tree), .silenced = ~(LintSet)0};
    Recovery r;
    if (setjmp(*recovery_begin(&r)) == 0) {
        elaborate(a->tree, &settings);
        recovery_end(&r);
    }
}

const char *value_at(const Tree *name) { return map_get(&values, key_of(name)); }

/* ---- diagnostics: lines for server.c */

static Text lines;
static Map dependencies;
static bool ended;

static void add_diagnostic(const Diagnostic *d)
{
    const Place *at = d->at;
    const char *uri = at ? uri_of_source(at->source) : NULL;
    Text t = {0};
    text_add(&t, "{\"range\":");
    if (uri)
        add_range(&t, at->source, at->line, at->column, at->line, token_end(at->source, at->line, at->column));
    else
        text_add(&t, "{\"start\":{\"line\":0,\"character\":0},\"end\":{\"line\":0,\"character\":0}}");
    text_add(&t, ",\"severity\":%d,\"source\":\"mgpuc\"", d->warning ? 2 : 1);
    if (d->name) {
        text_add(&t, ",\"code\":");
        json_text(&t, d->name);
    }
    text_add(&t, ",\"message\":");
    json_text(&t, d->message);
    text_add(&t, ",\"relatedInformation\":[");
    for (int i = 0, n = 0; i < d->related_count; i++) {
        const Place *p = d->related[i].at;
        const char *there = p->source->text ? uri_of_source(p->source) : NULL;
        if (!there)
            continue;
        text_add(&t, "%s{\"location\":{\"uri\":", n++ ? "," : "");
        json_text(&t, there);
        text_add(&t, ",\"range\":");
        add_range(&t, p->source, p->line, p->column, p->line, token_end(p->source, p->line, p->column));
        text_add(&t, "},\"message\":");
        json_text(&t, d->related[i].text);
        text_add(&t, "}");
    }
    text_add(&t, "]}");
    text_add(&lines, "D%s\t%s\n", uri ? uri : (const char *)map_get(&dependencies, "main"), text_take(&t));
}

/* Writes the lines, then S: the diagnostics up to here are complete. */
static void write_lines(void)
{
    if (ended)
        return;
    text_add(&lines, "S\n");
    write_answer(text_of(&lines), lines.length);
    lines.length = 0;
}

static void add_dependencies(const Source *source, const Tree *tree)
{
    for (const Tree *t = tree->first; t; t = t->next) {
        const char *path = t->kind == TREE_IMPORT ? path_in_folder_of(source->file, t->text) : NULL,
                   *uri = path ? uri_of_path(path) : NULL, *why;
        if (!uri || map_get(&dependencies, uri))
            continue;
        map_set(&dependencies, uri, &dependencies);
        const Source *s = find_source(path, &why);
        if (s)
            add_dependencies(s, parse(s));
    }
}

static void add_dependency_lines(void)
{
    for (int i = 0; i < dependencies.count; i++)
        if (strcmp(dependencies.keys[i], "main") != 0)
            text_add(&lines, "F%s\n", dependencies.keys[i]);
}

void diagnose(const Document *d, void (*check)(const char *path))
{
    map_set(&dependencies, "main", d->uri);
    const Source *source = source_of_document(d);
    diagnostics_to(add_diagnostic);
    atexit(write_lines);
    const Tree *tree = parse(source);
    add_dependencies(source, tree);
    add_dependency_lines();
    Settings settings = {.part = !has_model(tree), .model = first_model(tree)};
    Model *m = elaborate(tree, &settings); /* exits after errors */
    stop_after_errors();
    write_lines();
    if (!m || settings.model || m->not_yet) {
        ended = true;
        return;
    }
    add_dependency_lines();
    check(source->file);
    write_lines();
    ended = true;
}
