/* format.c: text -> the same text in the house layout (`mgpuc fmt`; docs/language.md, section 16, describes the layout).
 *
 * Works on the tokens of a text that parses, comments included, and changes only blanks and line breaks. Statements are found
 * without the tree, since nothing that continues an expression can begin a statement: outside of parentheses and brackets, a
 * name, string, `if`, `for` or `return` after the end of an operand or block begins one.
 *
 *   classify      matches brackets, finds statements, and decides the role of words, colons and signs
 *   set_breaks    decides which tokens begin a line; keeps the user's breaks inside statements where they are allowed
 *   align         decides the blanks before `=`, types and `{` in runs of statements that the user aligned
 *   lay_out       prints the lines from left to right; columns depend only on what is printed, never on old columns
 *   place_comments   keeps the column of comments after code if the code leaves room for them
 *
 * All steps depend only on tokens, line breaks and "two blanks or more", which the output keeps: formatting it again changes
 * nothing. */
#include "dsl/parse.tab.h"
#include "dsl/tree.h"

#include <string.h>

enum { INDENT = 4, FARTHEST_COMMENT = 120 };

/* clang-format off */
typedef enum StatementClass { /* statements of one class are aligned with each other */
    NO_CLASS, PARAM_CLASS, ASSIGN_CLASS, INPUT_CLASS, WEIGHT_CLASS, UPDATE_CLASS, RESULT_CLASS, BLOCK_CLASS
} StatementClass;
/* clang-format on */
typedef enum Stop { TYPE_STOP, WORD_STOP, EQUALS_STOP, BRACE_STOP, STOPS } Stop;

typedef struct Item {   /* a token and its role */
    int partner;        /* index of the matching bracket; -1 for other tokens */
    int block;          /* index of the innermost enclosing '{'; -1 if there is none */
    bool starts;        /* begins a statement or item */
    bool word;          /* a word such as input, loss or train that begins a statement */
    bool sign;          /* a unary minus */
    bool call;          /* a '(' or '[' that follows an operand */
    bool slice;         /* a ':' in a subscript */
    bool choice;        /* a then or else of a conditional expression */
    bool one_line;      /* a '{' whose block is on one line */
    bool breaks, blank; /* begins a line; follows an empty line */
    int pad;            /* additional blanks before it */
} Item;

typedef struct FormattedStatement {
    int first, last; /* tokens */
    int next;        /* index of the next one in the same block; -1 if there is none */
    StatementClass class;
    int stop[STOPS]; /* tokens that may be aligned; -1 if there is none */
    bool row, seen;  /* alone on its line; already in a run */
} FormattedStatement;

typedef struct Line {
    Text text;
    const Token *comment;
} Line;

typedef struct Formatter {
    const Token *token;
    int count;
    Item *item;
    FormattedStatement *statements;
    int statement_count;
    Line *lines;
    int line_count;
} Formatter;

static bool is_comment(const Formatter *l, int i) { return l->token[i].kind == TOKEN_COMMENT; }
static int next_of(const Formatter *l, int i) /* the next token that is no comment, or count */
{
    for (i++; i < l->count && is_comment(l, i); i++)
        ;
    return i;
}
static int kind_at(const Formatter *l, int i) { return i >= 0 && i < l->count ? l->token[i].kind : END; }

static bool is_word(int kind)
{
    switch (kind) {
    case ASSERT:
    case DATA:
    case IMPORT:
    case INPUT:
    case LAYER:
    case LOSS:
    case METRIC:
    case MODEL:
    case OUTPUT:
    case PARAM:
    case SCAN:
    case STATE:
    case TRAIN:
    case UPDATE:
    case WEIGHT: return true;
    default: return false;
    }
}

static bool ends_operand(const Formatter *l, int i)
{
    switch (kind_at(l, i)) {
    case IDENT:
    case NUMBER:
    case QUANTITY:
    case STRING:
    case TRUE:
    case FALSE:
    case NONE:
    case DOTS:
    case ')':
    case ']': return true;
    default: return i >= 0 && is_word(l->token[i].kind) && !l->item[i].word;
    }
}

static bool may_start(int kind)
{
    return kind == IDENT || kind == STRING || kind == IF || kind == FOR || kind == RETURN || is_word(kind);
}

static void classify(Formatter *l)
{
    int *open = NULL, depth = 0, block = -1;
    for (int i = 0, before = -1; i < l->count; i++) {
        Item *it = &l->item[i];
        *it = (Item){.partner = -1, .block = block};
        int kind = l->token[i].kind, prior = kind_at(l, before);
        if (kind == TOKEN_COMMENT)
            continue;
        bool free = depth == 0 || kind_at(l, open[depth - 1]) == '{';
        it->starts = free && may_start(kind) && (before < 0 || prior == '{' || prior == '}' || ends_operand(l, before));
        int after = kind_at(l, next_of(l, i));
        it->word = it->starts && is_word(kind) && after != '=' && after != ',';
        it->sign = kind == '-' && !ends_operand(l, before);
        it->call = (kind == '(' || kind == '[') && ends_operand(l, before);
        it->slice = kind == ':' && depth > 0 && kind_at(l, open[depth - 1]) == '[';
        it->choice = kind == THEN || (kind == ELSE && prior != '}');
        if (kind == '(' || kind == '[' || kind == '{') {
            APPEND(open, depth, i);
            if (kind == '{')
                block = i;
        } else if (depth > 0 && (kind == ')' || kind == ']' || kind == '}')) {
            int from = open[--depth];
            it->partner = from;
            l->item[from].partner = i;
            if (kind == '}') {
                it->block = from;
                block = l->item[from].block;
                l->item[from].one_line = i == from + 1 || l->token[from].line == l->token[i].line;
            }
        }
        before = i;
    }
}

/* ---- line breaks */

static bool in_line(const Formatter *l, int i) /* true inside a block on one line */
{
    int b = l->item[i].block;
    return b >= 0 && l->item[b].one_line;
}

static bool may_break(const Formatter *l, int before, int i)
{
    int prior = kind_at(l, before), kind = l->token[i].kind;
    const Item *a = &l->item[before], *b = &l->item[i];
    if (kind == ',' || kind == '.' || kind == ':' || kind == '=' || kind == IN || kind == '{' || b->call)
        return false;
    if (kind == ')' || kind == ']')
        return l->item[b->partner + 1].breaks || is_comment(l, b->partner + 1);
    return !(prior == '.' || prior == ':' || prior == NOT || prior == RETURN || prior == FOR || prior == IF || prior == IN ||
             prior == THEN || prior == ELSE || prior == PIPE || a->sign || a->word);
}

static void set_breaks(Formatter *l)
{
    bool *wished = NEW_ARRAY(bool, l->count + 1); /* the user broke the line before this token */
    for (int i = 1; i < l->count; i++)
        wished[i] = l->token[i].line > l->token[i - 1].last_line;
    for (int i = 1; i < l->count; i++) { /* a break before a comma moves after it, one after an arrow moves before it */
        if (l->token[i].kind == ',' && wished[i] && i + 1 < l->count && !is_comment(l, i + 1))
            wished[i + 1] = true;
        if (l->token[i].kind == PIPE && i + 1 < l->count && wished[i + 1] && !is_comment(l, i + 1) && ends_operand(l, i - 1))
            wished[i] = true;
    }
    int statement = -1;
    for (int i = 0; i < l->count; i++) {
        Item *it = &l->item[i];
        int before = i - 1;
        if (before >= 0 && is_comment(l, before)) {
            it->breaks = true;
        } else if (is_comment(l, i) || before < 0) {
            it->breaks = before < 0 || wished[i];
        } else if (it->starts) {
            int prior = l->token[before].kind;
            bool long_before = statement >= 0 && l->token[statement].line != l->token[before].last_line;
            it->breaks = !in_line(l, i) && (wished[i] || it->block < 0 || prior == '{' || prior == '}' || long_before);
        } else if (l->token[i].kind == '}') {
            it->breaks = !l->item[it->partner].one_line;
        } else if (l->token[i].kind == ELSE && !it->choice) {
            it->breaks = false;
        } else {
            it->breaks = wished[i] && may_break(l, before, i);
        }
        if (it->starts)
            statement = i;
    }
    for (int i = 1, inside = 0; i < l->count; i++) {
        int prior = l->token[i - 1].kind, next = is_comment(l, i) ? next_of(l, i) : i;
        inside += prior == '(' || prior == '[' ? 1 : prior == ')' || prior == ']' ? -1 : 0;
        int kind = kind_at(l, next);
        bool note = next > i, first = prior == '(' || prior == '[' || prior == '{';
        bool between =
            inside ? note || (kind != ')' && kind != ']') : next == l->count || l->item[next].starts || (note && kind == '}');
        between = between && !first;
        l->item[i].blank = l->item[i].breaks && between && l->token[i].line > l->token[i - 1].last_line + 1;
    }
}

/* the number of blanks between two tokens of a line */
static int blanks(const Formatter *l, int before, int i)
{
    if (before < 0)
        return 0;
    int prior = l->token[before].kind, kind = l->token[i].kind;
    const Item *a = &l->item[before], *b = &l->item[i];
    if (prior == '{')
        return kind != '}';
    if (b->starts)
        return 2;
    if (kind == ')' || kind == ']' || kind == ',' || kind == '.' || prior == '(' || prior == '[' || prior == '.')
        return 0;
    if (prior == ',')
        return 1;
    return !(kind == ':' || b->call || (prior == ':' && a->slice) || a->sign);
}

/* ---- runs of aligned statements */

static void find_statements(Formatter *l)
{
    int *open = NULL, depth = 0, last = -1; /* open: the last statement of each enclosing block; last: of this block */
    for (int i = 0; i < l->count; i++) {
        int kind = l->token[i].kind;
        if (l->item[i].starts) {
            FormattedStatement s = {.first = i, .last = i, .next = -1, .stop = {-1, -1, -1, -1}};
            if (last >= 0)
                l->statements[last].next = l->statement_count;
            last = l->statement_count;
            APPEND(l->statements, l->statement_count, s);
        }
        if (kind == '{') {
            APPEND(open, depth, last);
            last = -1;
        } else if (kind == '}' && depth > 0) {
            last = open[--depth];
        }
        if (last >= 0 && kind != TOKEN_COMMENT)
            l->statements[last].last = i;
    }
}

static StatementClass class_of(const Formatter *l, int i)
{
    int kind = l->token[i].kind;
    if (kind == STRING)
        return BLOCK_CLASS;
    if (!l->item[i].word)
        return kind == IDENT || is_word(kind) ? ASSIGN_CLASS : NO_CLASS;
    switch (kind) {
    case PARAM: return PARAM_CLASS;
    case INPUT: return INPUT_CLASS;
    case WEIGHT:
    case STATE: return WEIGHT_CLASS;
    case UPDATE: return UPDATE_CLASS;
    case LOSS:
    case METRIC:
    case OUTPUT: return RESULT_CLASS;
    case DATA:
    case TRAIN: return BLOCK_CLASS;
    default: return NO_CLASS;
    }
}

static void find_stops(const Formatter *l, FormattedStatement *s)
{
    s->class = class_of(l, s->first);
    int depth = 0;
    for (int i = s->first; i <= s->last; i++) {
        int kind = l->token[i].kind;
        if (i > s->first && (l->item[i].breaks || kind == TOKEN_COMMENT))
            return; /* the rest of the statement is on other lines */
        if (i == s->first + 1 && s->class == RESULT_CLASS)
            s->stop[WORD_STOP] = i;
        if (depth == 0 && kind == ':' && i < s->last && !l->item[i + 1].breaks && !is_comment(l, i + 1))
            s->stop[TYPE_STOP] = i + 1;
        if (depth == 0 && kind == '=') {
            s->stop[EQUALS_STOP] = i;
            return;
        }
        if (kind == '{') {
            if (s->class == BLOCK_CLASS && l->item[i].one_line)
                s->stop[BRACE_STOP] = i;
            return;
        }
        depth += kind == '(' || kind == '[' ? 1 : kind == ')' || kind == ']' ? -1 : 0;
    }
}

static int width_before(const Formatter *l, const FormattedStatement *s, int stop)
{
    int width = 0;
    for (int i = s->first; i < stop; i++)
        width += l->token[i].length + (i > s->first ? blanks(l, i - 1, i) + l->item[i].pad : 0);
    return width;
}

/* true if they are on consecutive lines */
static bool joined(const Formatter *l, const FormattedStatement *a, const FormattedStatement *b)
{
    return b->row && a->class == b->class && !l->item[b->first].blank &&
           !(is_comment(l, b->first - 1) && l->item[b->first - 1].breaks);
}

static void align_stop(Formatter *l, FormattedStatement *const *run, int count, Stop stop)
{
    int widest = 0;
    bool wished = false;
    for (int k = 0; k < count; k++) {
        int i = run[k]->stop[stop], width = width_before(l, run[k], i);
        const Token *a = &l->token[i - 1], *b = &l->token[i];
        wished |= a->last_line == b->line && b->column - a->column - a->length >= 2;
        widest = width > widest ? width : widest;
    }
    for (int k = 0; k < count && wished; k++)
        l->item[run[k]->stop[stop]].pad = widest - width_before(l, run[k], run[k]->stop[stop]);
}

static void align(Formatter *l)
{
    find_statements(l);
    for (int k = 0; k < l->statement_count; k++) {
        FormattedStatement *s = &l->statements[k];
        find_stops(l, s);
        s->row = s->class != NO_CLASS && l->item[s->first].breaks &&
                 (s->next < 0 ? !in_line(l, s->first) : l->item[l->statements[s->next].first].breaks);
    }
    FormattedStatement **run = NULL;
    for (int k = 0; k < l->statement_count; k++) {
        if (!l->statements[k].row || l->statements[k].seen)
            continue;
        int count = 0;
        for (FormattedStatement *s = &l->statements[k];; s = &l->statements[s->next]) {
            s->seen = true;
            APPEND(run, count, s);
            if (s->next < 0 || !joined(l, s, &l->statements[s->next]))
                break;
        }
        for (Stop stop = 0; stop < STOPS; stop++)
            for (int from = 0, to; from < count; from = to + (to == from)) {
                for (to = from; to < count && run[to]->stop[stop] >= 0; to++)
                    ;
                align_stop(l, run + from, to - from, stop);
            }
    }
}

/* ---- lines */

typedef struct LayoutContext { /* an open bracket or block, or the file */
    int column;                /* column of the first element of a bracket; -1 if it is no bracket */
    int base;                  /* indentation of the line that opens it, or of the statement */
    int pipe;                  /* column of the element's first arrow; -1 if there is none */
    int choices;               /* number of open conditional expressions when the element began */
} LayoutContext;

typedef struct Pen {
    LayoutContext *context;
    int depth;
    int *choice, choices; /* columns of the `if` of each open conditional expression */
    int chain;            /* column of the `if` whose `else` was printed last; in `else if` the next `if` inherits it */
    int indent;           /* indentation of the current line */
} Pen;

static void new_element(Pen *p, LayoutContext *c)
{
    c->pipe = -1;
    c->choices = p->choices;
}

static int column_for(const Formatter *l, Pen *p, int i) /* the column of a token that begins a line */
{
    LayoutContext *c = &p->context[p->depth - 1];
    const Item *it = &l->item[i];
    int kind = kind_at(l, i);
    if (kind == ')' || kind == ']')
        return c->base;
    if (kind == THEN || kind == ELSE)
        return it->choice && p->choices > c->choices ? p->choice[p->choices - 1] : c->base;
    if (kind == PIPE && c->pipe >= 0)
        return c->pipe;
    if (kind == PIPE && c->column >= 0)
        return c->column + INDENT;
    if (kind == '{')
        return c->base;
    return c->column >= 0 ? c->column : c->base + INDENT;
}

static int outer_indent(const Formatter *l, int block) /* the indentation of statements in a block */
{
    int depth = 0;
    for (; block >= 0; block = l->item[block].block)
        depth++;
    return depth * INDENT;
}

static void begin_line(Formatter *l, Pen *p, int i)
{
    int next = is_comment(l, i) ? next_of(l, i) : i;
    if (i > 0 && l->item[i].blank) {
        Line empty = {0};
        APPEND(l->lines, l->line_count, empty);
    }
    Line line = {0};
    APPEND(l->lines, l->line_count, line);
    if (next == l->count)
        p->indent = 0;
    else if (l->token[next].kind == '}')
        p->indent = outer_indent(l, next == i ? l->item[l->item[next].partner].block : l->item[next].block);
    else if (l->item[next].starts)
        p->indent = outer_indent(l, l->item[next].block);
    else
        p->indent = column_for(l, p, next);
    text_add(&l->lines[l->line_count - 1].text, "%*s", p->indent, "");
}

static void push_context(Pen *p, int column, int base)
{
    LayoutContext c = {.column = column, .base = base};
    new_element(p, &c);
    APPEND(p->context, p->depth, c);
}

static void after_token(const Formatter *l, Pen *p, int i, int column) /* column: where the token was printed */
{
    LayoutContext *c = &p->context[p->depth - 1];
    int kind = l->token[i].kind;
    if (kind == '(' || kind == '[') {
        bool hangs = i + 1 < l->count && (l->item[i + 1].breaks || is_comment(l, i + 1));
        push_context(p, hangs ? p->indent + INDENT : column + 1, p->indent);
    } else if (kind == '{') {
        push_context(p, -1, p->indent);
    } else if (kind == ')' || kind == ']' || kind == '}') {
        p->depth--;
        p->choices = c->choices;
    } else if (kind == ',' || kind == '=') {
        p->choices = c->choices;
        new_element(p, c);
    } else if (kind == PIPE) {
        c->pipe = c->pipe < 0 ? column : c->pipe;
    } else if (kind == IF && !l->item[i].starts) {
        int mine = i > 0 && l->item[i - 1].choice && l->token[i - 1].kind == ELSE ? p->chain : column;
        APPEND(p->choice, p->choices, mine);
    } else if (l->item[i].choice) {
        c->pipe = -1;
        if (kind == ELSE && p->choices > c->choices)
            p->chain = p->choice[--p->choices];
    }
}

static void lay_out(Formatter *l)
{
    Pen pen = {0};
    push_context(&pen, -1, 0);
    for (int i = 0; i < l->count; i++) {
        const Token *t = &l->token[i];
        if (l->item[i].breaks)
            begin_line(l, &pen, i);
        else if (is_comment(l, i)) {
            l->lines[l->line_count - 1].comment = t;
            continue;
        }
        Text *line = &l->lines[l->line_count - 1].text;
        if (!l->item[i].breaks)
            text_add(line, "%*s", blanks(l, i - 1, i) + l->item[i].pad, "");
        if (l->item[i].starts) {
            LayoutContext *c = &pen.context[pen.depth - 1];
            c->base = pen.indent;
            pen.choices = c->choices;
            new_element(&pen, c);
        }
        int column = (int)line->length;
        text_bytes(line, t->text, (size_t)t->length);
        if (!is_comment(l, i))
            after_token(l, &pen, i, column);
    }
}

static Text place_comments(Formatter *l)
{
    Text out = {0};
    for (int from = 0, to; from < l->line_count; from = to) {
        const Token *note = l->lines[from].comment;
        int widest = 0;
        bool fits = true;
        for (to = from; to < l->line_count; to++) {
            const Token *other = l->lines[to].comment;
            if (to > from && (!note || !other || other->column != note->column))
                break;
            int width = (int)l->lines[to].text.length;
            widest = width > widest ? width : widest;
            fits = fits && note && note->column - 1 > width && note->column - 1 <= FARTHEST_COMMENT;
        }
        for (int k = from; k < to; k++) {
            const Line *line = &l->lines[k];
            text_add(&out, "%s", text_of(&line->text));
            if (line->comment) {
                int column = fits ? note->column - 1 : widest + 2;
                text_add(&out, "%*s", column - (int)line->text.length, "");
                text_bytes(&out, line->comment->text, (size_t)line->comment->length);
            }
            text_add(&out, "\n");
        }
    }
    return out;
}

static void prepare(Formatter *l, const Tokens *t)
{
    *l = (Formatter){.token = t->list, .count = t->count, .item = NEW_ARRAY(Item, t->count + 1)};
    classify(l);
}

/* Dies if the new text does not have the same tokens. */
static void compare(const Tokens *a, const char *text, const Text *made)
{
    Source again = {.file = text, .text = text_of(made), .length = made->length};
    Tokens b = scan_tokens(&again);
    bool same = a->count == b.count;
    for (int i = 0; same && i < a->count; i++)
        same = a->list[i].kind == b.list[i].kind && a->list[i].length == b.list[i].length &&
               memcmp(a->list[i].text, b.list[i].text, (size_t)a->list[i].length) == 0;
    if (!same)
        die("the layout of %s would change its meaning", text);
}

Text format_source(const Source *source)
{
    parse(source);
    stop_after_errors();
    Tokens tokens = scan_tokens(source);
    Formatter l;
    prepare(&l, &tokens);
    set_breaks(&l);
    align(&l);
    lay_out(&l);
    Text out = place_comments(&l);
    compare(&tokens, source->file, &out);
    return out;
}

void format_line(const Tokens *tokens, int first, int last, Text *out)
{
    Formatter l;
    prepare(&l, tokens);
    for (int i = first, before = -1; i <= last; i++) {
        if (is_comment(&l, i))
            continue;
        if (before >= 0)
            text_add(out, "%*s", blanks(&l, before, i), "");
        text_bytes(out, l.token[i].text, (size_t)l.token[i].length);
        before = i;
    }
}
