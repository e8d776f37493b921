/* complete.c: answers requests for completion: arguments in a call, settings and data sets at the start of statements of train
 * and data, layers after |>, else names; and for signatures: the parameters of the call around the position. */
#include "compiler/lsp/lsp.h"
#include "dsl/document.h"
#include "dsl/tree.h"

#include <string.h>

enum { METHOD = 2, FUNCTION = 3, FIELD = 5, VARIABLE = 6, PROPERTY = 10, KEYWORD = 14, CONSTANT = 21 };

typedef struct Items {
    Text out;
    Map seen;
} Items;

static void add_item(Items *items, const char *label, int kind, const char *detail, const char *about, const char *insert)
{
    Text *t = &items->out;
    const char *key = format("%s %d", label, kind == PROPERTY || kind == FIELD);
    if (map_get(&items->seen, key))
        return;
    text_add(t, "%s{\"label\":", items->seen.count ? "," : "");
    map_set(&items->seen, key, items);
    json_text(t, label);
    text_add(t, ",\"kind\":%d", kind);
    if (detail && *detail) {
        text_add(t, ",\"detail\":");
        json_text(t, detail);
    }
    if (about && *about) {
        text_add(t, ",\"documentation\":");
        json_text(t, about);
    }
    if (insert) {
        text_add(t, ",\"insertText\":");
        json_text(t, insert);
    }
    text_add(t, "}");
}

/* ---- the context of the position, from the tokens before it */

typedef struct CursorContext {
    bool statement, pipe, rule;
    const Token *item, *before;
} CursorContext; /* item: the keyword of the item around the position, or NULL */

static CursorContext context_at(const Analysis *a)
{
    CursorContext c = {0};
    int depth = 0, last = -1;
    for (int i = 0; i < a->tokens.count; i++) { /* up to the word at the position */
        const Token *t = &a->tokens.list[i];
        bool before = t->line < a->line || (t->line == a->line && t->column + t->length <= a->column && t != a->token);
        if (!before)
            break;
        if (t->kind == TOKEN_COMMENT)
            continue;
        char sign = *t->text;
        bool word = is_item_word(t->text) && depth == 0;
        c.item = word ? t : c.item;
        depth += sign == '{' ? 1 : sign == '}' && depth ? -1 : 0;
        if (depth == 0 && sign == '}')
            c.item = NULL;
        last = i;
    }
    c.before = last >= 0 ? &a->tokens.list[last] : NULL;
    if (!depth)
        c.item = NULL;
    c.rule = depth > 1;
    c.pipe = c.before && strcmp(c.before->text, "|>") == 0;
    c.statement = !c.before || ends_statement(c.before);
    return c;
}

/* Returns whether the position is in a comment or in a string, where nothing is completed. */
static bool is_in_text(const Analysis *a)
{
    for (int i = 0; i < a->tokens.count; i++) {
        const Token *t = &a->tokens.list[i];
        if (t->line == a->line && t->column < a->column &&
            (t->kind == TOKEN_COMMENT || (*t->text == '"' && a->column < t->column + t->length)))
            return true;
    }
    return false;
}

static bool item_is(const CursorContext *c, const char *word) { return c->item && strcmp(c->item->text, word) == 0; }

/* ---- parameters of a signature such as "dense(x, width, bias = true)" */

static int parameters_of(const char *signature, const char **list, int most)
{
    int count = 0, depth = 0;
    const char *at = strchr(signature, '('), *from = at ? at + 1 : NULL;
    for (at = from; at && *at && count < most; at++) {
        depth += strchr("([", *at) ? 1 : strchr(")]", *at) ? -1 : 0;
        if (depth >= 0 && !(depth == 0 && *at == ','))
            continue;
        from += strspn(from, " ");
        if (at > from)
            list[count++] = copy_text(from, (size_t)(at - from));
        from = at + 1;
        if (depth < 0)
            break;
    }
    return count;
}
enum { MOST_SHOWN = 64 };

static const Entry *called(const Entries *all, const char *name)
{
    for (int k = 0; name && k < all->count; k++)
        if (strcmp(all->list[k].name, name) == 0 && strncmp(all->list[k].signature, name, strlen(name)) == 0 &&
            all->list[k].signature[strlen(name)] == '(')
            return &all->list[k];
    return NULL;
}

static void add_arguments(Items *items, const Entry *e)
{
    const char *list[MOST_SHOWN];
    int count = parameters_of(e->signature, list, MOST_SHOWN);
    for (int i = 0; i < count; i++) {
        const char *name = copy_text(list[i], strcspn(list[i], " :=."));
        if (*name)
            add_item(items, name, FIELD, list[i], e->about, format("%s = ", name));
    }
    if (e->file)
        add_item(items, "name", FIELD, "name = \"...\"", "the name of this call's weights", "name = ");
}

static Entries entries_of(const Analysis *a)
{
    Entries all = {0};
    Files files = files_of(a, false);
    for (int i = 0; i < files.count; i++)
        layer_entries(files.list[i].source, files.list[i].source->file, &all);
    library_entries(&all);
    builtin_entries(&all);
    return all;
}

static bool is_group(const Entry *e, const char *group) { return strcmp(e->group, group) == 0; }

static void add_names(Items *items, const Analysis *a, const CursorContext *c, const Entries *all)
{
    Map locals = {0};
    Files files = files_of(a, false);
    local_names(item_at(a->tree, a->line, a->column), &locals);
    if (locals.count)
        know_values(a);
    for (int k = 0; k < locals.count && !c->pipe; k++)
        if (!a->token || locals.values[k] == NULL || ((const Tree *)locals.values[k])->line != a->token->line ||
            ((const Tree *)locals.values[k])->column != a->token->column)
            add_item(items, locals.keys[k], VARIABLE, value_at(locals.values[k]), NULL, NULL);
    for (int i = 0; i < files.count && !c->pipe; i++)
        for (const Tree *t = files.list[i].tree->first; t; t = t->next)
            if (t->kind == TREE_PARAM)
                add_item(items, t->text, CONSTANT, format("param %s = %s", t->text, tree_text(t->first)), NULL, NULL);
    for (int k = 0; k < all->count; k++) {
        const Entry *e = &all->list[k];
        bool plain = strspn(e->name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789") == strlen(e->name);
        bool word = is_group(e, "Statements") || is_group(e, "Fields of a tensor") || is_group(e, "Settings of train");
        bool reader = strstr(e->group, " of data"), option = strstr(e->group, "Options of") != NULL;
        if (plain && !word && !option && !(reader && !item_is(c, "data")) && (!c->pipe || strchr(e->signature, '(')))
            add_item(items, e->name, FUNCTION, e->signature, e->about, NULL);
    }
}

static void add_words(Items *items, const char *const *words)
{
    for (; *words; words++)
        add_item(items, *words, KEYWORD, NULL, NULL, NULL);
}

static void add_settings(Items *items, const CursorContext *c, const Entries *all)
{
    static const char *const RULE_KEYS[] = {"lr", "decay", "frozen", "init", "optimizer", "clip", "rules", NULL};
    for (int i = 0; c->rule && RULE_KEYS[i]; i++)
        add_item(items, RULE_KEYS[i], PROPERTY, NULL, NULL, format("%s = ", RULE_KEYS[i]));
    for (int k = 0; k < all->count && !c->rule; k++)
        if (is_group(&all->list[k], "Settings of train"))
            add_item(items, all->list[k].name, PROPERTY, all->list[k].signature, all->list[k].about,
                     format("%s = ", all->list[k].name));
}

const char *answer_completion(const Json *params)
{
    static const char *const ITEMS[] = {"import", "param", "layer", "model", "data", "train", NULL}, *const SETS[] = {
                                                                                                         "train", "valid", "test",
                                                                                                         NULL};
    Analysis a = analyse(params);
    Entries all = entries_of(&a);
    CursorContext c = context_at(&a);
    Items items = {0};
    int argument;
    const Entry *call = called(&all, callee_at(&a, &argument));
    if (is_in_text(&a))
        return "[]";
    if (call && c.before && strchr("(,", *c.before->text))
        add_arguments(&items, call);
    if (c.statement && !call && !c.item)
        add_words(&items, ITEMS);
    else if (c.statement && !call && item_is(&c, "train"))
        add_settings(&items, &c, &all);
    else if (c.statement && !call && item_is(&c, "data"))
        for (int i = 0; SETS[i]; i++)
            add_item(&items, SETS[i], PROPERTY, NULL, NULL, format("%s = ", SETS[i]));
    else
        add_names(&items, &a, &c, &all);
    for (int k = 0; c.statement && !call && c.item && !item_is(&c, "train") && !item_is(&c, "data") && k < all.count; k++)
        if (is_group(&all.list[k], "Statements") && !is_item_word(all.list[k].name))
            add_item(&items, all.list[k].name, KEYWORD, all.list[k].signature, all.list[k].about, NULL);
    return format("[%s]", text_of(&items.out));
}

const char *answer_signature(const Json *params)
{
    Analysis a = analyse(params);
    Entries all = entries_of(&a);
    int argument;
    const Entry *e = called(&all, callee_at(&a, &argument));
    if (!e)
        return "null";
    const char *list[MOST_SHOWN];
    int count = parameters_of(e->signature, list, MOST_SHOWN);
    Text t = {0};
    text_add(&t, "{\"signatures\":[{\"label\":");
    json_text(&t, e->signature);
    text_add(&t, ",\"documentation\":");
    json_text(&t, e->about);
    text_add(&t, ",\"parameters\":[");
    for (int i = 0; i < count; i++) {
        text_add(&t, "%s{\"label\":", i ? "," : "");
        json_text(&t, list[i]);
        text_add(&t, "}");
    }
    text_add(&t, "]}],\"activeSignature\":0,\"activeParameter\":%d}", argument < count ? argument : count);
    return text_take(&t);
}
