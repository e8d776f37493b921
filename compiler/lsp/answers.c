/* answers.c: answers requests for hover, definition, symbols and formatting. */
#include "compiler/lsp/lsp.h"
#include "dsl/document.h"
#include "dsl/tree.h"

#include <string.h>

/* ---- hover: the text of `mgpuc doc`, and the value of a name */

static void add_entry_text(Text *t, const Entry *e)
{
    text_add(t, "%s```mgpu\n%s\n```\n", t->length ? "\n---\n" : "", e->signature);
    if (e->about[0])
        text_add(t, "%s\n", e->about);
    text_add(t, "\n*%s*\n",
             e->file ? format("%s%s%s:%d", strcmp(e->group, e->file) == 0 ? "" : e->group,
                              strcmp(e->group, e->file) == 0 ? "" : ", ", e->file, e->line)
                     : e->group);
}

/* Returns the entries of the files, then those of the library and of the language. */
static Entries all_entries(const Files *files)
{
    Entries all = {0};
    for (int i = 0; i < files->count; i++)
        layer_entries(files->list[i].source, files->list[i].source->file, &all);
    library_entries(&all);
    builtin_entries(&all);
    return all;
}

static bool is_group(const Entry *e, const char *group) { return strcmp(e->group, group) == 0; }

/* Settings of train match only names that are assigned in a train block, and nothing else matches these. */
static bool may_be_meant(const Entry *e, const Tree *item, bool assigned)
{
    if (is_group(e, "Settings of train"))
        return item && item->kind == TREE_TRAIN && assigned;
    return !(item && item->kind == TREE_TRAIN && assigned);
}

static const char *word_of(const Analysis *a) { return a->token ? a->token->text : ""; }

static void add_meaning(Text *t, const Analysis *a, const Meaning *m, const Entries *all)
{
    const Token *next = a->token + 1 < a->tokens.list + a->tokens.count ? a->token + 1 : NULL;
    const Tree *item = item_at(a->tree, a->line, a->column);
    bool assigned = next && strcmp(next->text, "=") == 0;
    int argument;
    const char *callee = m->kind == NAME_ARGUMENT ? callee_at(a, &argument) : NULL;
    for (int k = 0, said = 0; k < all->count && m->kind != NAME_LOCAL; k++) {
        const Entry *e = &all->list[k];
        bool hidden = said && m->kind == NAME_LAYER; /* by the layer of the user's files */
        if (strcmp(e->name, callee ? callee : word_of(a)) != 0 || hidden || (!callee && !may_be_meant(e, item, assigned)))
            continue;
        add_entry_text(t, e);
        said++;
    }
}

const char *answer_hover(const Json *params)
{
    Analysis a = analyse(params);
    Files files = files_of(&a, false);
    Meaning m = meaning_of(&a, &files);
    Entries all = all_entries(&files);
    Text t = {0};
    if (!a.token)
        return "null";
    know_values(&a);
    Tree here = {.source = a.source, .line = a.token->line, .column = a.token->column};
    const char *value = value_at(&here); /* the value of a call or of a name assigned here */
    value = value || m.kind != NAME_LOCAL ? value : value_at(m.definition);
    if (m.kind == NAME_LOCAL || value)
        text_add(&t, "```mgpu\n%s: %s\n```\n", m.name ? m.name : word_of(&a), value ? value : "its value is not known");
    if (m.kind == NAME_PARAM)
        text_add(&t, "```mgpu\nparam %s = %s\n```\n", m.name, tree_text(m.definition->first));
    add_meaning(&t, &a, &m, &all);
    if (!t.length)
        return "null";
    Text out = {0};
    text_add(&out, "{\"contents\":{\"kind\":\"markdown\",\"value\":");
    json_text(&out, text_of(&t));
    text_add(&out, "},\"range\":");
    add_range(&out, a.source, a.token->line, a.token->column, a.token->line, a.token->column + a.token->length);
    text_add(&out, "}");
    return text_take(&out);
}

/* ---- definition */

static const char *location(const Source *s, int line, int column, int length)
{
    Text t = {0};
    const char *uri = uri_of_source(s);
    if (!uri)
        return "null";
    text_add(&t, "{\"uri\":");
    json_text(&t, uri);
    text_add(&t, ",\"range\":");
    add_range(&t, s, line, column, line, column + length);
    text_add(&t, "}");
    return text_take(&t);
}

static const Tree *import_at(const Analysis *a)
{
    for (const Tree *t = a->tree->first; t; t = t->next)
        if (t->kind == TREE_IMPORT && t->line == a->token->line && t->column == a->token->column)
            return t;
    return NULL;
}

/* The location of a layer of the library is in a copy of its file. */
static const char *library_location(const char *name)
{
    Entries all = {0};
    library_entries(&all);
    for (int k = 0; k < all.count; k++) {
        const Entry *e = &all.list[k];
        if (strcmp(e->name, name) != 0)
            continue;
        const char *text = library_text(e->file);
        Source *s = NEW(Source);
        *s = (Source){.file = e->file, .text = text, .length = strlen(text), .library = true};
        return location(s, e->line, (int)strlen("layer ") + 1, (int)strlen(name));
    }
    return "null";
}

const char *answer_definition(const Json *params)
{
    Analysis a = analyse(params);
    Files files = files_of(&a, false);
    Meaning m = meaning_of(&a, &files);
    const Tree *import = a.token ? import_at(&a) : NULL;
    const char *why;
    if (import) {
        const Source *s = find_source(path_in_folder_of(a.source->file, import->text), &why);
        return s ? location(s, 1, 1, 0) : "null";
    }
    if (m.definition)
        return location(m.definition->source, m.definition->line, m.definition->column, (int)strlen(m.name));
    int argument;
    const char *callee = m.kind == NAME_ARGUMENT ? callee_at(&a, &argument) : NULL;
    return m.name ? library_location(callee ? callee : m.name) : "null";
}

/* ---- symbols */

enum { MODULE = 2, CLASS = 5, FIELD = 8, FUNCTION = 12, VARIABLE = 13, CONSTANT = 14, OBJECT = 19, EVENT = 24 };

static void begin_symbol(Text *t, const Tree *n, const char *name, int kind)
{
    text_add(t, "%s{\"name\":", t->length && t->data[t->length - 1] == '}' ? "," : "");
    json_text(t, *name ? name : "(no name)");
    text_add(t, ",\"kind\":%d,\"range\":", kind);
    add_range(t, n->source, n->from_line, n->from_column, n->to_line, n->to_column);
    text_add(t, ",\"selectionRange\":");
    add_range(t, n->source, n->line, n->column, n->line, token_end(n->source, n->line, n->column));
}

static void add_values(Text *t, const Tree *block, Map *seen)
{
    for (const Tree *s = block->first; s; s = s->next) {
        bool declared = s->kind == TREE_INPUT || s->kind == TREE_WEIGHT || s->kind == TREE_STATE;
        for (const Tree *n = declared ? s : s->kind == TREE_ASSIGN ? s->first->first : NULL; n; n = declared ? NULL : n->next)
            if (!map_get(seen, n->text)) {
                map_set(seen, n->text, seen);
                begin_symbol(t, n, n->text, s->kind == TREE_INPUT ? FIELD : declared ? CONSTANT : VARIABLE);
                text_add(t, "}");
            }
        for (const Tree *c = s->kind == TREE_IF || s->kind == TREE_FOR || s->kind == TREE_SCAN ? s->first : NULL; c; c = c->next)
            if (c->kind == TREE_BLOCK)
                add_values(t, c, seen);
    }
}

const char *answer_symbols(const Json *params)
{
    Analysis a = analyse(params);
    Text t = {0};
    text_add(&t, "[");
    for (const Tree *i = a.tree->first; i; i = i->next) {
        bool block = i->kind == TREE_LAYER || i->kind == TREE_MODEL || i->kind == TREE_DATA || i->kind == TREE_TRAIN;
        if (!block && i->kind != TREE_PARAM && i->kind != TREE_IMPORT)
            continue;
        begin_symbol(&t, i, i->text ? i->text : tree_kind_name(i->kind),
                     i->kind == TREE_LAYER    ? FUNCTION
                     : i->kind == TREE_MODEL  ? CLASS
                     : i->kind == TREE_PARAM  ? CONSTANT
                     : i->kind == TREE_IMPORT ? MODULE
                                              : OBJECT);
        text_add(&t, ",\"detail\":");
        json_text(&t, tree_kind_name(i->kind));
        text_add(&t, ",\"children\":[");
        Map seen = {0};
        if (block)
            add_values(&t, i->last, &seen);
        text_add(&t, "]}");
    }
    text_add(&t, "]");
    return text_take(&t);
}

/* ---- formatting, as by mgpuc fmt: null if the text does not parse */

const char *answer_format(const Json *params)
{
    Analysis a = analyse(params);
    if (error_count())
        return "null";
    Text made = format_source(a.source), t = {0};
    if (made.length == a.source->length && memcmp(text_of(&made), a.source->text, made.length) == 0)
        return "[]";
    int lines = 1;
    for (size_t i = 0; i < a.source->length; i++)
        lines += a.source->text[i] == '\n';
    text_add(&t,
             "[{\"range\":{\"start\":{\"line\":0,\"character\":0},\"end\":{\"line\":%d,\"character\":0}},\"newText\":", lines);
    json_text(&t, text_of(&made));
    text_add(&t, "}]");
    return text_take(&t);
}
