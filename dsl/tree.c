/* tree.c: text -> syntax tree (through scan.l and parse.y), and the tree as text. */
#include "dsl/tree.h"

#include "dsl/dsl.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

static const off_t LONGEST_FILE = 1 << 30; /* the scanner counts in 31 bits */

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

static Tree *parse_as(const Source *source, bool expression)
{
    Parse p = {.source = source, .expression = expression};
    if (scan_and_parse(&p) != 0 || !p.tree)
        die("the parser failed without a message");
    return p.tree;
}

Tree *parse(const Source *source) { return parse_as(source, false); }
Tree *parse_expression(const Source *source) { return parse_as(source, true); }

bool is_too_long(const char *path)
{
    struct stat status;
    return stat(path, &status) == 0 && status.st_size > LONGEST_FILE;
}

Source *read_source(const char *path)
{
    Source *s = NEW(Source);
    if (is_too_long(path))
        fail(1, "%s has more than 1 GiB: is it a model?", path);
    s->file = path;
    s->text = read_file(path, &s->length);
    if (!s->text)
        fail(1, "%s cannot be read: %s", path, strerror(errno));
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
