/* names.c: resolves a name to a value, param or parameter of the layer around it, or to a layer of the files. Scopes are those of
 * dsl/lookup.c: a call of a layer is one scope, including its blocks; the last assignment before a use counts. */
#include "compiler/lsp/lsp.h"
#include "dsl/tree.h"

#include <string.h>

/* ---- files */

static void add_file(Files *files, Map *seen, const Source *source, const Tree *tree)
{
    const char *real = real_path(source->file), *why;
    real = real ? real : source->file;
    if (map_get(seen, real))
        return;
    map_set(seen, real, seen);
    APPEND(files->list, files->count, ((File){source, tree}));
    for (const Tree *t = tree->first; t; t = t->next) {
        const Source *s = t->kind == TREE_IMPORT ? find_source(path_in_folder_of(source->file, t->text), &why) : NULL;
        if (s)
            add_file(files, seen, s, parse(s));
    }
}

Files files_of(const Analysis *a, bool all)
{
    Files files = {0};
    Map seen = {0};
    const char *why;
    add_file(&files, &seen, a->source, a->tree);
    for (int i = 0; all && i < document_count; i++) {
        const Source *s = find_source(documents[i].path, &why);
        if (s)
            add_file(&files, &seen, s, parse(s));
    }
    return files;
}

/* ---- positions */

static bool is_before(int line, int column, int other_line, int other_column)
{
    return line < other_line || (line == other_line && column < other_column);
}

static bool covers(const Tree *t, int line, int column)
{
    return !is_before(line, column, t->from_line, t->from_column) && !is_before(t->to_line, t->to_column, line, column);
}

const Tree *item_at(const Tree *file, int line, int column)
{
    const Tree *last = NULL;
    for (const Tree *t = file->first; t; t = t->next) {
        if (covers(t, line, column))
            return t;
        if (!is_before(line, column, t->from_line, t->from_column))
            last = t;
    }
    return last && last->kind == TREE_BROKEN ? NULL : last; /* an unfinished item may end anywhere */
}

/* Returns whether the node binds its name in its item. */
static bool binds(const Tree *t, const Tree *parent)
{
    return t->kind == TREE_REQUIRED || t->kind == TREE_OPTIONAL || t->kind == TREE_INPUT || t->kind == TREE_WEIGHT ||
           t->kind == TREE_STATE || (t->kind == TREE_NAME && parent->kind == TREE_NAMES) ||
           (t->kind == TREE_NAME && parent->kind == TREE_DIMS); /* extents of parameters */
}

/* Calls `each` for the nodes below with this name (all if NULL), except names of arguments. */
typedef void Visit(void *context, const Tree *t, const Tree *parent);
static void visit(const Tree *t, const Tree *parent, const char *name, Visit *each, void *context)
{
    bool named = t->kind == TREE_NAME || t->kind == TREE_REQUIRED || t->kind == TREE_OPTIONAL || t->kind == TREE_INPUT ||
                 t->kind == TREE_WEIGHT || t->kind == TREE_STATE || t->kind == TREE_UPDATE;
    if (named && (!name || strcmp(t->text, name) == 0))
        each(context, t, parent);
    for (const Tree *c = t->first; c; c = c->next)
        visit(c, t, name, each, context);
}

static void add_binding(void *names, const Tree *t, const Tree *parent)
{
    if (binds(t, parent) && !map_get(names, t->text))
        map_set(names, t->text, (void *)(uintptr_t)t);
}

static bool is_scope(const Tree *item)
{
    return item && item->kind != TREE_PARAM && item->kind != TREE_IMPORT && item->kind != TREE_TRAIN;
}

void local_names(const Tree *item, Map *names)
{
    if (is_scope(item))
        visit(item, item, NULL, add_binding, names);
}

typedef struct BindingSearch {
    int line, column;
    const Tree *before, *first;
} BindingSearch;
static void find_binding(void *context, const Tree *t, const Tree *parent)
{
    BindingSearch *s = context;
    if (!binds(t, parent))
        return;
    s->first = s->first ? s->first : t;
    if (!is_before(s->line, s->column, t->line, t->column))
        s->before = t;
}

const Tree *binding_before(const Tree *item, const char *name, int line, int column)
{
    BindingSearch s = {.line = line, .column = column};
    if (is_scope(item))
        visit(item, item, name, find_binding, &s);
    return s.before ? s.before : s.first;
}

static const Tree *item_called(const Files *files, const char *name, TreeKind kind)
{
    for (int i = 0; i < files->count; i++)
        for (const Tree *t = files->list[i].tree->first; t; t = t->next)
            if (t->kind == kind && strcmp(t->text, name) == 0)
                return t;
    return NULL;
}

/* ---- the call around a position, from the tokens, since it may be incomplete */

const char *callee_at(const Analysis *a, int *argument)
{
    int depth = 0, last = -1;
    *argument = 0;
    for (int i = 0; i < a->tokens.count; i++) {
        const Token *t = &a->tokens.list[i];
        if (!is_before(t->line, t->column, a->line, a->column))
            break;
        if (t->kind != TOKEN_COMMENT)
            last = i;
    }
    for (int i = last; i >= 0; i--) {
        const Token *t = &a->tokens.list[i];
        char c = t->kind == TOKEN_COMMENT ? ' ' : *t->text;
        if (c == '{' || c == '}')
            return NULL;
        if (c == ')' || c == ']')
            depth++;
        else if ((c == '(' || c == '[') && depth > 0)
            depth--;
        else if (c == ',' && depth == 0)
            *argument += 1;
        else if (c == '[')
            *argument = 0; /* a list within the call */
        else if (c == '(') {
            const Token *name = i > 0 ? &a->tokens.list[i - 1] : NULL;
            bool word = name && ((*name->text >= 'a' && *name->text <= 'z') || (*name->text >= 'A' && *name->text <= 'Z') ||
                                 *name->text == '_');
            if (word && !is_reserved_word(name->text))
                return name->text;
            *argument = 0; /* parentheses around an expression */
        }
    }
    return NULL;
}

/* Returns the callee if the token names an argument, as in f(name = value), else NULL. */
static const char *argument_of(const Analysis *a)
{
    int i = (int)(a->token - a->tokens.list), argument;
    bool named = i + 1 < a->tokens.count && strcmp(a->tokens.list[i + 1].text, "=") == 0;
    return named ? callee_at(a, &argument) : NULL;
}

Meaning meaning_of(const Analysis *a, const Files *files)
{
    Meaning m = {0};
    if (!a->token || *a->token->text == '"')
        return m;
    const char *name = a->token->text, *callee = argument_of(a);
    const Tree *item = item_at(a->tree, a->line, a->column);
    m.name = name;
    if (item && (item->kind == TREE_LAYER || item->kind == TREE_PARAM) && item->line == a->token->line &&
        item->column == a->token->column)
        return (Meaning){item->kind == TREE_LAYER ? NAME_LAYER : NAME_PARAM, name, NULL, item};
    if (callee) {
        m.kind = NAME_ARGUMENT;
        m.item = item_called(files, callee, TREE_LAYER);
        for (const Tree *p = m.item ? m.item->first->first : NULL; p; p = p->next)
            if (strcmp(p->text, name) == 0)
                m.definition = p;
        return m;
    }
    const Tree *local = binding_before(item, name, a->token->line, a->token->column);
    const Tree *param = local ? NULL : item_called(files, name, TREE_PARAM),
               *layer = local || param ? NULL : item_called(files, name, TREE_LAYER);
    m.kind = local ? NAME_LOCAL : param ? NAME_PARAM : layer ? NAME_LAYER : NAME_NOTHING;
    m.item = local ? item : NULL;
    m.definition = local ? local : param ? param : layer;
    return m;
}

/* ---- uses of a name: answer_references, answer_rename */

typedef struct Uses {
    const Source *source;
    Text *out;
    const char *between, *new_text;
    size_t length;
    bool settings;
    const char *name;
} Uses; /* settings: in a train block, assigned names are settings, not uses */

static void add_use(Uses *u, int line, int column)
{
    text_add(u->out, "%s", u->out->length && u->out->data[u->out->length - 1] == '}' ? "," : "");
    text_add(u->out, "{%s", u->new_text ? "" : u->between);
    text_add(u->out, "\"range\":");
    add_range(u->out, u->source, line, column, line, column + (int)u->length);
    if (u->new_text) {
        text_add(u->out, ",\"newText\":");
        json_text(u->out, u->new_text);
    }
    text_add(u->out, "}");
}

static void use_of_name(void *context, const Tree *t, const Tree *parent)
{
    Uses *u = context;
    if (!(u->settings && parent->kind == TREE_NAMES))
        add_use(u, t->line, t->column);
}

/* Adds the arguments with this name in calls of `callee`; if that is NULL, in all calls: readers of data name inputs. */
static void uses_of_argument(Uses *u, const Tree *t, const char *callee)
{
    const Tree *args = t->kind == TREE_CALL ? t->first->next : NULL;
    bool fits = args && (!callee || (t->first->kind == TREE_NAME && strcmp(t->first->text, callee) == 0));
    for (const Tree *a = fits ? args->first : NULL; a; a = a->next)
        if (a->kind == TREE_NAMED && strcmp(a->text, u->name) == 0)
            add_use(u, a->line, a->column);
    for (const Tree *c = t->first; c; c = c->next)
        uses_of_argument(u, c, callee);
}

static void uses_in_file(Uses *u, const Meaning *m, const File *f)
{
    const Tree *owner = m->kind == NAME_ARGUMENT || (m->kind == NAME_LOCAL && m->item->kind == TREE_LAYER) ? m->item : NULL;
    bool parameter = owner && m->definition && (m->definition->kind == TREE_REQUIRED || m->definition->kind == TREE_OPTIONAL);
    bool input = m->kind == NAME_LOCAL && m->definition->kind == TREE_INPUT;
    for (const Tree *item = f->tree->first; item; item = item->next) {
        u->settings = item->kind == TREE_TRAIN;
        bool own = m->item && (m->kind == NAME_LOCAL || m->kind == NAME_ARGUMENT);
        if (own && item->line == m->item->line && item->column == m->item->column &&
            strcmp(f->source->file, m->item->source->file) == 0)
            visit(item, item, m->name, use_of_name, u);
        if (parameter)
            uses_of_argument(u, item, owner->text);
        if (input && item->kind == TREE_DATA && strcmp(f->source->file, m->item->source->file) == 0)
            uses_of_argument(u, item, NULL);
        if (own || binding_before(item, m->name, 1, 1))
            continue;
        if ((item->kind == TREE_LAYER || item->kind == TREE_PARAM) && strcmp(item->text, m->name) == 0)
            add_use(u, item->line, item->column);
        visit(item, item, m->name, use_of_name, u);
    }
}

/* Lists the uses in a file as {"range":...}, with new_text as edits. */
static const char *uses_text(const File *f, const Meaning *m, const char *new_text)
{
    Text t = {0}, between = {0};
    text_add(&between, "\"uri\":");
    json_text(&between, uri_of_source(f->source));
    text_add(&between, ",");
    Uses u = {.source = f->source,
              .out = &t,
              .between = text_take(&between),
              .new_text = new_text,
              .length = strlen(m->name),
              .name = m->name};
    uses_in_file(&u, m, f);
    return text_take(&t);
}

const char *answer_references(const Json *params)
{
    Analysis a = analyse(params);
    Files files = files_of(&a, true);
    Meaning m = meaning_of(&a, &files);
    Text t = {0};
    int count = 0;
    text_add(&t, "[");
    for (int i = 0; m.definition && i < files.count; i++) {
        const char *uses = uses_text(&files.list[i], &m, NULL);
        text_add(&t, "%s%s", *uses && count++ ? "," : "", uses);
    }
    text_add(&t, "]");
    return text_take(&t);
}

enum { REQUEST_FAILED = -32803 };

static Meaning renamed(const Analysis *a, const Files *files)
{
    Meaning m = meaning_of(a, files);
    if (!m.definition)
        answer_error(REQUEST_FAILED, m.name ? format("'%s' is no name that your files make", m.name) : "there is no name here");
    return m;
}

const char *answer_prepare_rename(const Json *params)
{
    Analysis a = analyse(params);
    Files files = files_of(&a, true);
    renamed(&a, &files);
    Text t = {0};
    add_range(&t, a.source, a.token->line, a.token->column, a.token->line, a.token->column + a.token->length);
    return text_take(&t);
}

static void check_new_name(const Files *files, const Meaning *m, const char *name)
{
    static const char LETTERS[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_";
    if (!*name || strspn(name, "0123456789") || strspn(name, format("%s0123456789", LETTERS)) != strlen(name))
        answer_error(REQUEST_FAILED, format("'%s' is no name: a letter, then letters, digits and _", name));
    if (is_reserved_word(name))
        answer_error(REQUEST_FAILED, format("'%s' is a reserved word", name));
    bool local = m->kind == NAME_LOCAL || m->kind == NAME_ARGUMENT;
    const Tree *other = local ? binding_before(m->item, name, 1, 1) : item_called(files, name, TREE_LAYER);
    other = other || local ? other : item_called(files, name, TREE_PARAM);
    if (other)
        answer_error(REQUEST_FAILED, format("'%s' is there already, in line %d of %s", name, other->line, other->source->file));
}

const char *answer_rename(const Json *params)
{
    Analysis a = analyse(params);
    Files files = files_of(&a, true);
    Meaning m = renamed(&a, &files);
    const char *name = mgpu_json_text(params, "newName");
    check_new_name(&files, &m, name);
    Text t = {0};
    int count = 0;
    text_add(&t, "{\"changes\":{");
    for (int i = 0; i < files.count; i++) {
        const char *uses = uses_text(&files.list[i], &m, name);
        if (!*uses)
            continue;
        text_add(&t, "%s", count++ ? "," : "");
        json_text(&t, uri_of_source(files.list[i].source));
        text_add(&t, ":[%s]", uses);
    }
    text_add(&t, "}}");
    return text_take(&t);
}
