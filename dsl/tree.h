/* tree.h: the syntax tree. It has one node type with a list of children, and lives until exit.
 *
 * parse() scans a text in memory and builds the tree. A statement with a syntax error is reported and becomes a BROKEN node; a
 * caller that cannot continue after errors calls stop_after_errors(). The tree is pure syntax: it knows no layer, primitive,
 * setting or type. The row of each kind lists its children. */
#ifndef MGPU_TREE_H
#define MGPU_TREE_H

#include "compiler/base/base.h"

enum { MAX_HEIGHT = 1000 }; /* later stages recurse over the tree */

/* clang-format off */
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
    KIND(SECTION, "section")   /* chain of steps: a pipeline without a value before it */                             \
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
/* clang-format on */

typedef enum TreeKind {
#define KIND(name, text) TREE_##name,
    TREE_KINDS(KIND)
#undef KIND
} TreeKind;

typedef struct Tree Tree;
struct Tree {
    TreeKind kind;
    int line, column, height; /* line, column: a name's or operator's, for messages; height of the subtree */
    int from_line, from_column, to_line, to_column; /* extent of the node; `to` is after its last character */
    int id;                                         /* unique; part of the key of an instance */
    const Source *source;
    const char *text; /* name, literal or operator; NULL if none */
    Tree *first, *last, *next;
};

const char *tree_kind_name(TreeKind);
Tree *tree_leaf(const Source *, TreeKind, const char *text, int line, int column); /* Makes a node without extent. */
Tree *tree_add(Tree *parent, Tree *child);                                         /* child may be NULL */
int tree_count(const Tree *);                                                      /* the number of its children */

/* Tokens as they are written, comments included (format.c, document.c). */
enum { TOKEN_COMMENT = 1 }; /* all other kinds are those of parse.y */
typedef struct Token {
    int kind;
    const char *text; /* as written; a comment includes its '#', but no trailing blanks */
    int length, line, column, last_line;
} Token;
typedef struct Tokens {
    Token *list;
    int count;
} Tokens;
Tokens scan_tokens(const Source *);                  /* Invalid characters become tokens of kind YYerror and are not reported. */
int token_end(const Source *, int line, int column); /* column after the token that begins there */
/* index of the first token that begins there or later, or of the last one */
int token_at(const Tokens *, int line, int column);

/* The state that scanner and parser share. */
typedef struct Parse {
    const Source *source;
    Tree *tree;
    Tokens *tokens;                             /* receives comments; NULL while parsing, which drops them */
    bool expression;                            /* the text is one expression: the scanner sends EXPRESSION first */
    int end_line, end_column;                   /* end of the last token */
    int before_line, before_column;             /* end of the token before it */
    bool broken;                                /* a syntax error has occurred */
    int braces, braces_before, item_column;     /* open '{' now and before this token; column of the last item */
    int skip_line, skip_column, skipped_braces; /* start of the broken statement that is being skipped; line 0: none */
    int closing;                                /* number of '}' to send to the parser before `again` */
    Token again[2];                             /* tokens to send to the parser once more */
    int again_count;
} Parse;

/* ---- scan.l */
bool is_reserved_word(const char *text);
bool is_item_word(const char *text); /* true for words that begin an item: layer, model, ... */
bool ends_statement(const Token *);  /* true for values, brackets of blocks and comments: a statement may begin after them */

/* ---- tree.c */
Source *read_source(const char *path); /* Reads a file, or standard input for "-". Exits with status 1 on failure. */
Source *find_source(const char *path, const char **why); /* Returns NULL and the reason in *why if the file cannot be read. */
void source_in_place(const char *path, const char *text, size_t length); /* replaces a file's text; path: of real_path */
const char *real_path(const char *path); /* Resolves links. The file itself may be missing; returns NULL if its folder is. */
const char *path_in_folder_of(const char *file, const char *path); /* resolves an import of `path` in `file` */
Tree *parse(const Source *);
Tree *parse_setting(const char *key, const char *text); /* Parses the TEXT of --set KEY=TEXT, which is one expression. */
void tree_print(const Tree *, Text *);                  /* prints `--emit ast`, one node a line: kind, text, @line:column */
const char *string_literal(const char *);               /* quotes and escapes a string as in a model */
const char *tree_text(const Tree *);                    /* prints an expression as source text */

/* ---- format.c */
/* Returns the text in the house layout. Exits with the parser's message on a syntax error. */
Text format_source(const Source *);
void format_line(const Tokens *, int first, int last, Text *); /* prints tokens on one line, without comments */
#endif
