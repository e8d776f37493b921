/* markup.c: HTML and SVG as mgpuc writes them, read by a scanner of its own that shares nothing with the compiler.
 *
 * Elements are those of the table, open and close in order, and have attributes of the other table, in double quotes. Scripts are
 * the page's own two kinds, of which one holds JSON without a "<". Between elements there is text, with no character of markup in
 * it and none that a terminal acts on. All else is text that went round runtime/report/plot.c: mgpu_svg_text. */
#include "tests/fuzz/markup.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { DEEPEST = 1000 };

static const char *const ELEMENTS[] = {"html",    "head",  "title",  "style", "body",   "header", "main",   "section", "h1",
                                       "h2",      "p",     "ul",     "li",    "div",    "span",   "button", "canvas",  "details",
                                       "summary", "table", "tr",     "th",    "td",     "i",      "svg",    "g",       "path",
                                       "rect",    "text",  "circle", "code",  "script", "meta",   "input",  NULL};
static const char *const EMPTY[] = {"meta", "input", NULL}; /* they have no end */
static const char *const ATTRIBUTES[] = {"lang",    "charset",     "name",       "content",  "http-equiv", "id",          "class",
                                         "type",    "placeholder", "aria-label", "tabindex", "hidden",     "style",       "open",
                                         "viewBox", "width",       "height",     "role",     "xmlns",      "x",           "y",
                                         "d",       "r",           "cx",         "cy",       "fill",       "text-anchor", NULL};

typedef struct Markup {
    const char *text, *at, *end;
    const char *open[DEEPEST];
    int depth; /* names of elements */
    char *problem;
    size_t room;
} Markup;

static const char *wrong(Markup *m, const char *what)
{
    int line = 1;
    for (const char *c = m->text; c < m->at; c++)
        line += *c == '\n';
    snprintf(m->problem, m->room, "line %d: %s: %.*s", line, what, (int)(m->end - m->at < 60 ? m->end - m->at : 60), m->at);
    return m->problem;
}

static bool starts(const Markup *m, const char *what) { return strncmp(m->at, what, strlen(what)) == 0; }

static const char *word_of(Markup *m, const char *const *table)
{
    size_t length = strspn(m->at, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-");
    for (; *table; table++)
        if (strlen(*table) == length && memcmp(*table, m->at, length) == 0) {
            m->at += length;
            return *table;
        }
    return NULL;
}

static bool is_empty(const char *name)
{
    for (int i = 0; EMPTY[i]; i++)
        if (strcmp(EMPTY[i], name) == 0)
            return true;
    return false;
}

/* characters up to one of `ends`; entities are &lt; and its like */
static const char *characters(Markup *m, const char *ends)
{
    static const char *const ENTITIES[] = {"&lt;", "&gt;", "&amp;", "&quot;", NULL};
    for (; m->at < m->end && !strchr(ends, *m->at); m->at++) {
        bool known = *m->at != '&';
        for (int i = 0; ENTITIES[i]; i++)
            known |= starts(m, ENTITIES[i]);
        if (!known || strchr("<>", *m->at))
            return wrong(m, "a character of markup in a text");
        if (((unsigned char)*m->at < 32 && *m->at != '\n' && *m->at != '\t') || *m->at == 127)
            return wrong(m, "a control character");
    }
    return m->at < m->end ? NULL : wrong(m, "a text does not end");
}

static const char *attributes(Markup *m)
{
    while (m->at < m->end && !strchr("/>", *m->at)) {
        if (*m->at++ != ' ')
            return wrong(m, "an element's name is not apart from what follows");
        if (!word_of(m, ATTRIBUTES))
            return wrong(m, "an attribute that mgpuc does not write");
        if (*m->at != '=')
            continue;
        m->at++;
        if (*m->at++ != '"')
            return wrong(m, "a value without quotes");
        const char *why = characters(m, "\"");
        if (why)
            return why;
        m->at++;
    }
    return NULL;
}

static const char *raw(Markup *m, const char *end, bool json) /* what is in a script, or in a style */
{
    const char *stop = strstr(m->at, end);
    if (!stop)
        return wrong(m, "a script or a style does not end");
    const char *less = memchr(m->at, '<', (size_t)(stop - m->at));
    if (json && less) {
        m->at = less;
        return wrong(m, "JSON in a script has a <");
    }
    m->at = stop;
    return NULL;
}

static const char *closing(Markup *m)
{
    m->at += 2;
    const char *name = word_of(m, ELEMENTS);
    if (!name || *m->at != '>' || m->depth == 0 || strcmp(m->open[m->depth - 1], name) != 0)
        return wrong(m, "an end of what is not open");
    m->at++;
    m->depth--;
    return NULL;
}

static const char *element(Markup *m)
{
    m->at++;
    bool json = starts(m, "script type=\"application/json\" ");
    const char *name = word_of(m, ELEMENTS), *why = name ? attributes(m) : wrong(m, "an element that mgpuc does not write");
    if (why)
        return why;
    bool ends = *m->at == '/';
    m->at += ends;
    if (m->at >= m->end || *m->at != '>')
        return wrong(m, "an element does not end");
    m->at++;
    if (ends || is_empty(name))
        return NULL;
    if (m->depth == DEEPEST)
        return wrong(m, "elements are too deep");
    m->open[m->depth++] = name;
    return strcmp(name, "script") == 0  ? raw(m, "</script>", json)
           : strcmp(name, "style") == 0 ? raw(m, "</style>", false)
                                        : NULL;
}

const char *markup_problem(const char *text, size_t length, char *problem, size_t room)
{
    Markup m = {.text = text, .at = text, .end = text + length, .problem = problem, .room = room};
    const char *why = NULL;
    if (starts(&m, "<!doctype html>\n"))
        m.at += strlen("<!doctype html>\n");
    while (!why && m.at < m.end)
        why = starts(&m, "</")                     ? closing(&m)
              : *m.at == '<'                       ? element(&m)
              : m.at + 1 == m.end && *m.at == '\n' ? (m.at++, NULL)
                                                   : characters(&m, "<");
    return why || !m.depth ? why : wrong(&m, "an element stays open");
}
