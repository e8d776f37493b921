/* tree.c: text -> syntax tree (through scan.l and parse.y), and the tree as text. */
#include "dsl/tree.h"

#include "dsl/dsl.h"
#include "runtime/base/whole_file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const off_t LONGEST_FILE = 1 << 30; /* the scanner counts bytes in 31 bits */

int scan_and_parse(Parse *p);

static const char *const KIND_NAME[] = {
#define KIND(name, text) text,
    TREE_KINDS(KIND)
#undef KIND
};
const char *tree_kind_name(TreeKind kind) { return KIND_NAME[kind]; }

Tree *tree_leaf(const Source *source, TreeKind kind, const char *text, int line, int column)
{
    static int ids;
    Tree *t = NEW(Tree);
    *t = (Tree){.kind = kind, .text = text, .line = line, .column = column, .source = source, .id = ++ids};
    return t;
}

Tree *tree_add(Tree *parent, Tree *child)
{
    if (!child)
        return parent;
    if (parent->last)
        parent->last->next = child;
    else
        parent->first = child;
    parent->last = child;
    if (parent->height <= child->height)
        parent->height = child->height + 1;
    return parent;
}

int tree_count(const Tree *t)
{
    int count = 0;
    for (const Tree *c = t->first; c; c = c->next)
        count++;
    return count;
}

static Tree *parse_as(const Source *source, bool expression)
{
    Parse p = {.source = source, .expression = expression};
    if (scan_and_parse(&p) == 0 && p.tree)
        return p.tree;
    if (!error_count())
        die("the parser failed without a message");
    if (expression)
        give_up();
    return tree_add(tree_leaf(source, TREE_FILE, NULL, 1, 1), tree_leaf(source, TREE_BROKEN, NULL, 1, 1)); /* nested too deep */
}

Tree *parse(const Source *source) { return parse_as(source, false); }

Tree *parse_setting(const char *key, const char *text)
{
    Source *s = NEW(Source);
    *s = (Source){.setting = true, .file = format("--set %s", key), .text = text, .length = strlen(text)};
    return parse_as(s, true);
}

const char *real_path(const char *path)
{
    char *real = realpath(path, NULL), *slash = strrchr(path, '/');
    const char *kept = real ? copy_text(real, strlen(real)) : NULL;
    free(real);
    if (kept || errno != ENOENT)
        return kept;
    real = realpath(slash ? copy_text(path, (size_t)(slash - path) + 1) : ".", NULL);
    kept = real ? format("%s/%s", real, slash ? slash + 1 : path) : NULL;
    free(real);
    return kept;
}

const char *path_in_folder_of(const char *file, const char *path)
{
    const char *slash = strrchr(file, '/');
    return path[0] == '/' || !slash ? path : format("%.*s/%s", (int)(slash - file), file, path);
}

static Map in_place; /* path -> Source with the editor's text */

void source_in_place(const char *path, const char *text, size_t length)
{
    Source *s = NEW(Source);
    *s = (Source){.file = path, .text = text, .length = length};
    map_set(&in_place, path, s);
}

Source *find_source(const char *path, const char **why)
{
    Source *s = NEW(Source);
    const char *real = in_place.count ? real_path(path) : NULL;
    const Source *open = real ? map_get(&in_place, real) : NULL;
    struct stat status;
    if (open)
        *s = *open;
    s->file = path;
    *why = "more than 1 GiB; is it a model?";
    if (open || (stat(path, &status) == 0 && status.st_size > LONGEST_FILE))
        return open ? s : NULL;
    s->text = mgpu_read_whole(path, &s->length, why);
    *why = *why ? *why : strerror(errno);
    return s->text ? s : NULL;
}

static Source *standard_input(void)
{
    Source *s = NEW(Source);
    s->file = "<stdin>";
    Text t = {0};
    char block[1 << 14];
    size_t got;
    while ((got = fread(block, 1, sizeof block, stdin)) > 0)
        text_bytes(&t, block, got);
    if (ferror(stdin))
        fail(1, "standard input cannot be read: %s", strerror(errno));
    text_bytes(&t, "", 0);
    s->text = text_of(&t);
    s->length = t.length;
    return s;
}

Source *read_source(const char *path)
{
    if (strcmp(path, "-") == 0)
        return standard_input();
    const char *why;
    Source *s = find_source(path, &why);
    if (!s)
        fail(1, "%s cannot be read: %s", path, why);
    return s;
}

static void print_quoted(const char *s, Text *out)
{
    text_add(out, "\"");
    for (; *s; s++) {
        if (*s == '"' || *s == '\\')
            text_add(out, "\\%c", *s);
        else if (*s == '\n')
            text_add(out, "\\n");
        else if (*s == '\t')
            text_add(out, "\\t");
        else
            text_bytes(out, s, 1);
    }
    text_add(out, "\"");
}

const char *string_literal(const char *text)
{
    Text t = {0};
    print_quoted(text, &t);
    return text_of(&t);
}

static void print_at(const Tree *t, int depth, Text *out)
{
    text_add(out, "%*s%s", 2 * depth, "", tree_kind_name(t->kind));
    if (t->text) {
        text_add(out, " ");
        if (t->kind == TREE_STRING || t->kind == TREE_IMPORT)
            print_quoted(t->text, out);
        else
            text_add(out, "%s", t->text);
    }
    text_add(out, " @%d:%d\n", t->line, t->column);
    for (const Tree *c = t->first; c; c = c->next)
        print_at(c, depth + 1, out);
}

void tree_print(const Tree *t, Text *out) { print_at(t, 0, out); }

/* ---- an expression as text */

/* The precedence of operators, as in parse.y. */
static const struct {
    const char *operator;
    int level;
} BINDING[] = {
    {"or", 1}, {"and", 2}, {"not", 3}, {"==", 4}, {"!=", 4}, {"<", 4}, {">", 4}, {"<=", 4}, {">=", 4},
    {"+", 5},  {"-", 5},   {"*", 6},   {"/", 6},  {"//", 6}, {"%", 6}, {"@", 6}, {"**", 8},
};
enum { BINDS_LEAST, BINDS_NEGATION = 7, BINDS_MOST = 9 };

static int binding(const Tree *t)
{
    if (t->kind == TREE_CHOICE || t->kind == TREE_PIPE || t->kind == TREE_SECTION)
        return BINDS_LEAST;
    if (t->kind == TREE_UNARY && *t->text == '-')
        return BINDS_NEGATION;
    for (int k = 0; (t->kind == TREE_BINARY || t->kind == TREE_UNARY) && k < COUNT(BINDING); k++)
        if (strcmp(BINDING[k].operator, t->text) == 0)
            return BINDING[k].level;
    return BINDS_MOST;
}

static void add_expression(const Tree *t, Text *out);

static void add_operand(const Tree *t, int least, Text *out)
{
    bool loose = binding(t) < least;
    text_add(out, loose ? "(" : "");
    add_expression(t, out);
    text_add(out, loose ? ")" : "");
}

static void add_list(const Tree *t, Text *out)
{
    for (const Tree *c = t->first; c; c = c->next) {
        add_expression(c, out);
        text_add(out, c->next ? ", " : "");
    }
}

static void add_expression(const Tree *t, Text *out)
{
    const Tree *a = t->first, *b = a ? a->next : NULL;
    int level = binding(t);
    switch (t->kind) {
    case TREE_STRING: print_quoted(t->text, out); break;
    case TREE_NONE: text_add(out, "none"); break;
    case TREE_DOTS: text_add(out, "..."); break;
    case TREE_NAMED:
        text_add(out, "%s = ", t->text);
        add_expression(a, out);
        break;
    case TREE_LIST:
        text_add(out, "[");
        add_list(t, out);
        text_add(out, "]");
        break;
    case TREE_ARGS:
    case TREE_SUBS: add_list(t, out); break;
    case TREE_SLICE:
        for (const Tree *c = t->first; c; c = c->next) {
            if (c->kind != TREE_NONE)
                add_expression(c, out);
            text_add(out, c->next ? ":" : "");
        }
        break;
    case TREE_FIELD:
        add_operand(a, BINDS_MOST, out);
        text_add(out, ".%s", t->text);
        break;
    case TREE_CALL:
        add_operand(a, BINDS_MOST, out);
        text_add(out, "(");
        add_expression(b, out);
        text_add(out, ")");
        break;
    case TREE_INDEX:
        add_operand(a, BINDS_MOST, out);
        text_add(out, "[");
        add_expression(b, out);
        text_add(out, "]");
        break;
    case TREE_UNARY:
        text_add(out, *t->text == '-' ? "-" : "not ");
        add_operand(a, level, out);
        break;
    case TREE_BINARY:
        add_operand(a, level + (strcmp(t->text, "**") == 0), out);
        text_add(out, " %s ", t->text);
        add_operand(b, level + (strcmp(t->text, "**") != 0), out);
        break;
    case TREE_SECTION:
        text_add(out, "|> ");
        add_expression(a, out);
        break;
    case TREE_PIPE:
        add_expression(a, out);
        text_add(out, " |> ");
        add_expression(b, out);
        break;
    case TREE_CHOICE:
        text_add(out, "if ");
        add_expression(a, out);
        text_add(out, " then ");
        add_expression(b, out);
        text_add(out, " else ");
        add_expression(b->next, out);
        break;
    default: text_add(out, "%s", t->text); break; /* a name, a number, a quantity, true or false */
    }
}

const char *tree_text(const Tree *t)
{
    Text text = {0};
    add_expression(t, &text);
    return text_take(&text);
}
