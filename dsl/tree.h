/* tree.h: the syntax tree. One node type, children in a list; everything lives until exit.
 *
 * Text in: parse() scans from memory and builds the tree. A statement with a syntax error is reported and becomes a BROKEN node; what
 * cannot go on from that calls stop_after_errors(). The tree is syntax alone: it knows no layer, primitive, setting or type. Each
 * kind's children are said in its row. */
#ifndef MGPU_TREE_H
#define MGPU_TREE_H

#include "compiler/base/base.h"

enum { MAX_HEIGHT = 1000 }; /* later stages recurse over the tree */

#define TREE_KINDS(KIND)                                                                                              \
    KIND(FILE, "file")         /* items */                                                                            \
    KIND(IMPORT, "import")     /* text = path */                                                                      \
    KIND(PARAM, "param")       /* text = name; value */                                                               \
    KIND(LAYER, "layer")       /* text = name; params, block */                                                       \
    KIND(MODEL, "model")       /* text = name; block */                                                               \
    KIND(DATA, "data")         /* block */                                                                            \
    KIND(TRAIN, "train")       /* block */                                                                            \
    KIND(BLOCK, "block")       /* statements */                                                                       \
    KIND(ASSIGN, "assign")     /* names, value */                                                                     \
    KIND(INPUT, "input")       /* text = name; type */                                                                \
    KIND(WEIGHT, "weight")     /* text = name; type, value */                                                         \
    KIND(STATE, "state")       /* text = name; type, value */                                                         \
    KIND(UPDATE, "update")     /* text = name; value */                                                               \
    KIND(LOSS, "loss")         /* named or unnamed */                                                                 \
    KIND(METRIC, "metric")     /* named or unnamed */                                                                 \
    KIND(OUTPUT, "output")     /* named or unnamed */                                                                 \
    KIND(ASSERT, "assert")     /* condition, [message] */                                                             \
    KIND(RETURN, "return")     /* exprs */                                                                            \
    KIND(IF, "if")             /* condition, block, [block or if] */                                                  \
    KIND(FOR, "for")           /* names, list, block */                                                               \
    KIND(SCAN, "scan")         /* names, exprs, block */                                                              \
    KIND(RULE, "rule")         /* patterns, block */                                                                  \
    KIND(NAMES, "names")       /* name ... */                                                                         \
    KIND(PATTERNS, "patterns") /* string ... */                                                                       \
    KIND(PARAMS, "params")     /* required or optional ... */                                                         \
    KIND(REQUIRED, "required") /* text = name; [type] */                                                              \
    KIND(OPTIONAL, "optional") /* text = name; [type], value */                                                       \
    KIND(TYPE, "type")         /* text = its name or NULL; [args], [dims] */                                          \
    KIND(DIMS, "dims")         /* value or dots ... */                                                                \
    KIND(DOTS, "dots")                                                                                                \
    KIND(NAMED, "named")       /* text = name; value */                                                               \
    KIND(UNNAMED, "unnamed")   /* value */                                                                            \
    KIND(CHOICE, "choice")     /* condition, value, value */                                                          \
    KIND(SECTION, "section")   /* a step of a pipeline without a beginning */                                         \
    KIND(PIPE, "pipe")         /* value, step */                                                                      \
    KIND(BINARY, "binary")     /* text = operator; value, value */                                                    \
    KIND(UNARY, "unary")       /* text = operator; value */                                                           \
    KIND(NAME, "name")         /* text */                                                                             \
    KIND(NUMBER, "number")     /* text */                                                                             \
    KIND(QUANTITY, "quantity") /* text */                                                                             \
    KIND(STRING, "string")     /* text, unescaped */                                                                  \
    KIND(BOOL, "bool")         /* text = true or false */                                                             \
    KIND(NONE, "none")                                                                                                \
    KIND(LIST, "list")         /* values */                                                                           \
    KIND(FIELD, "field")       /* text = name; value */                                                               \
    KIND(CALL, "call")         /* callee, args */                                                                     \
    KIND(INDEX, "index")       /* value, subs */                                                                      \
    KIND(ARGS, "args")         /* value or named ... */                                                               \
    KIND(SUBS, "subs")         /* value, dots or slice ... */                                                         \
    KIND(SLICE, "slice")       /* start, end, [step]; each a value or none */                                         \
    KIND(EXPRS, "exprs")       /* values */                                                                           \
    KIND(BROKEN, "broken")     /* a statement or item with a syntax error; text: its first word */

typedef enum TreeKind {
#define KIND(name, text) TREE_##name,
    TREE_KINDS(KIND)
#undef KIND
} TreeKind;

typedef struct Tree Tree;
struct Tree {
    TreeKind kind;
    int line, column, height; /* where messages point: a name, an operator; height: of the tree below */
    int from_line, from_column, to_line, to_column; /* all of it; `to` is after its last character */
    int id;                   /* unique; part of an instance's place */
    const Source *source;
    const char *text;         /* name, literal or operator; NULL if none */
    Tree *first, *last, *next;
};

const char *tree_kind_name(TreeKind);
Tree *tree_leaf(const Source *, TreeKind, const char *text, int line, int column); /* of no extent */
Tree *tree_add(Tree *parent, Tree *child); /* child may be NULL */
int tree_count(const Tree *);              /* its children */

/* the text as its layout sees it: tokens as they are written, comments among them (format.c, document.c) */
enum { TOKEN_COMMENT = 1 }; /* every other kind is parse.y's */
typedef struct Token {
    int kind;
    const char *text; /* as written; a comment with its '#', without blanks at its end */
    int length, line, column, last_line;
} Token;
typedef struct Tokens { Token *list; int count; } Tokens;
Tokens scan_tokens(const Source *); /* what is no token is of a kind of its own, and not reported */
int token_end(const Source *, int line, int column); /* the column after the token that begins there */
int token_at(const Tokens *, int line, int column); /* the first that begins there or later, or the last */

/* what the scanner and the parser share */
typedef struct Parse {
    const Source *source;
    Tree *tree;
    Tokens *tokens;  /* where comments go; NULL while parsing: they are dropped */
    bool expression; /* the text is one expression; told to the parser by a first token of its own */
    int end_line, end_column;       /* where the last token ends */
    int before_line, before_column; /* where the one before it does */
    bool broken;                    /* there was a syntax error */
    int braces, braces_before, item_column;        /* open '{'; where the last item begins */
    int skip_line, skip_column, skipped_braces; /* after a syntax error: where the broken statement begins; line 0: nothing is skipped */
    int closing;     /* '}' that the parser gets before `again` */
    Token again[2];  /* tokens that it gets once more */
    int again_count;
} Parse;

/* ---- scan.l */
bool is_reserved_word(const char *text);
bool is_item_word(const char *text);       /* begins one: layer, model, ... */
bool ends_statement(const Token *);        /* may a statement begin after it: is it a value, a bracket of a block or a comment? */

/* ---- tree.c */
Source *read_source(const char *path); /* "-": standard input; exit 1 if it cannot be read */
Source *find_source(const char *path, const char **why); /* NULL: why it cannot be read */
void source_in_place(const char *path, const char *text, size_t length); /* what an editor has of that file; path: as real_path has it */
const char *real_path(const char *path); /* without links; the file itself may be missing. NULL: its folder is */
const char *path_beside(const char *file, const char *path); /* as an import in that file names it */
Tree *parse(const Source *);
Tree *parse_setting(const char *key, const char *text); /* --set KEY=TEXT: the text is one expression */
void tree_print(const Tree *, Text *);  /* `--emit ast`: a node per line: kind, text, @line:column */
const char *string_literal(const char *); /* as a model would write it */
const char *tree_text(const Tree *);    /* an expression as it is written */

/* ---- format.c */
Text format_source(const Source *);      /* the text in the house layout; ends with the parser's message */
void format_line(const Tokens *, int first, int last, Text *); /* these tokens on one line, without comments */
#endif
