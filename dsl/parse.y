/* parse.y: the grammar. It only builds a tree: it knows no layer, primitive, setting or type.
 *
 * Newlines have no meaning. This works because
 *   - a statement begins with a word, a name or (rules) a string, and none of these can continue an expression;
 *   - there is no expression statement, no juxtaposition and no brace in an expression.
 * The statement words (input, loss, weight, train ...) are ordinary names except at the start of a statement.
 *
 * After a syntax error the statement or item that contains it becomes a BROKEN node, and tokens are skipped up to the probable
 * start of the next one: the first word of a line that is not indented more than the broken one, or the '}' of its block. */
%code requires {
#include "dsl/tree.h"
}
%define api.pure full
%define api.location.type {struct YYLTYPE}
%code requires {
struct YYLTYPE { int first_line, first_column, last_line, last_column; };
typedef struct YYLTYPE YYLTYPE;
#define YYLTYPE_IS_DECLARED 1
#define YYLTYPE_IS_TRIVIAL 1
}
%locations
%define parse.error custom
%define parse.lac full
%param {void *scanner}
%parse-param {Parse *p}
%expect 0
%initial-action { @$ = (YYLTYPE){1, 1, 1, 1}; }

%union { const char *text; Tree *node; }

%token <text> IDENT "a name" NUMBER "a number" QUANTITY "a quantity" STRING "a string"
%token <text> ASSERT "assert" DATA "data" IMPORT "import" INPUT "input" LAYER "layer" LOSS "loss" METRIC "metric"
%token <text> MODEL "model" OUTPUT "output" PARAM "param" SCAN "scan" STATE "state" TRAIN "train" UPDATE "update"
%token <text> WEIGHT "weight"
%token AND "and" ELSE "else" FALSE "false" FOR "for" IF "if" IN "in" NONE "none" NOT "not" OR "or" RETURN "return"
%token THEN "then" TRUE "true" EXPRESSION "an expression"
%token PIPE "|>" POWER "**" FLOOR "//" EQ "==" NE "!=" LE "<=" GE ">=" DOTS "..."
%token END 0 "end of the file"

%left OR
%left AND
%precedence NOT
%nonassoc EQ NE '<' '>' LE GE
%left '+' '-'
%left '*' '/' FLOOR '%' '@'
%precedence NEGATE
%right POWER

%type <text> name
%type <node> file item block stmts stmt targets binding message otherwise patterns
%type <node> params param_list param type dims dim_list dim
%type <node> expr value chain pipeline exprs args arg_list arg subs sub bound

%code {
#include <string.h>

int yylex(YYSTYPE *value, YYLTYPE *at, void *scanner);
static void yyerror(YYLTYPE *at, void *scanner, Parse *p, const char *message);
int parse_tokens(void *scanner, Parse *p);

#define YYMAXDEPTH 8000

struct Parse *yyget_extra(void *scanner);
int word_kind(const char *text);
static bool begins_item(int kind)
{
    return kind == IMPORT || kind == PARAM || kind == LAYER || kind == MODEL || kind == DATA || kind == TRAIN;
}

static bool begins_statement(int kind)
{
    return begins_item(kind) || kind == IDENT || kind == STRING || kind == ASSERT || kind == INPUT || kind == LOSS || kind == METRIC ||
           kind == OUTPUT || kind == SCAN || kind == STATE || kind == UPDATE || kind == WEIGHT || kind == RETURN || kind == IF || kind == FOR;
}

/* Returns whether parsing resumes at this token. A '}' of a block within the broken statement does not end it. */
static bool is_next(Parse *p, int kind, const YYLTYPE *at)
{
    bool first = at->first_line > p->before_line, after = at->first_line > p->skip_line;
    bool next = kind == END || (kind == '}' && p->skipped_braces == 0 && p->braces > 0) ||
                (first && after && at->first_column <= p->skip_column && (p->braces ? begins_statement(kind) : begins_item(kind)));
    p->skipped_braces += kind == '{' ? 1 : kind == '}' && p->skipped_braces ? -1 : 0;
    return next;
}

static int given_token(Parse *p, YYSTYPE *value, YYLTYPE *at, void *scanner)
{
    if (p->closing) {
        p->closing--;
        return '}';
    }
    if (p->again_count) {
        const Token *t = &p->again[--p->again_count];
        value->text = t->text;
        *at = (YYLTYPE){t->line, t->column, t->last_line, t->column + t->length};
        return t->kind;
    }
    int kind = yylex(value, at, scanner);
    p->before_line = p->end_line;
    p->before_column = p->end_column;
    p->end_line = at->last_line;
    p->end_column = at->last_column;
    return kind;
}

static int next_token(YYSTYPE *value, YYLTYPE *at, void *scanner)
{
    Parse *p = yyget_extra(scanner);
    int kind = given_token(p, value, at, scanner);
    while (p->skip_line && !is_next(p, kind, at))
        kind = given_token(p, value, at, scanner);
    p->skip_line = 0;
    p->braces_before = p->braces;
    if (kind == END && p->braces && p->broken) { /* a '}' is missing; the user already has a message about it */
        p->again[p->again_count++] = (Token){.kind = END, .line = at->first_line, .column = at->first_column, .last_line = at->first_line};
        kind = '}';
    }
    if (begins_item(kind) && !p->braces)
        p->item_column = at->first_column;
    p->braces += kind == '{' ? 1 : kind == '}' && p->braces ? -1 : 0;
    return kind;
}
#define yylex next_token

#define LEAF(at, kind, text) with_extent(tree_leaf(p->source, TREE_##kind, text, (at).first_line, (at).first_column), &(at))
#define N(at, kind, text, ...) with_extent(tree(LEAF(at, kind, text), (Tree *[]){__VA_ARGS__, NULL}), &yyloc)
static Tree *with_extent(Tree *t, const YYLTYPE *at)
{
    t->from_line = at->first_line;
    t->from_column = at->first_column;
    t->to_line = at->last_line;
    t->to_column = at->last_column;
    return t;
}

static Tree *tree(Tree *n, Tree **child)
{
    for (; *child; child++)
        tree_add(n, *child);
    return n;
}

/* Appends to a list a child that ends at `at`. */
static Tree *longer(Tree *list, Tree *child, const YYLTYPE *at)
{
    list->to_line = at->last_line;
    list->to_column = at->last_column;
    return tree_add(list, child);
}

/* Returns whether `before` may be the start of the broken statement, as in y = lambda x: x. */
static bool may_be_its_part(const Tree *before, const Tree *broken)
{
    return before && broken->kind == TREE_BROKEN && before->to_line == broken->line;
}

static bool say(const Parse *p, const YYLTYPE *at, const char *message) /* returns true */
{
    Place place = {.source = p->source, .line = at->first_line, .column = at->first_column};
    show_error_at(&place, "%s", message);
    return true;
}

static const char *word_at(const Parse *, const YYLTYPE *);

static Token token_of(int kind, const char *text, const YYLTYPE *at)
{
    return (Token){.kind = kind, .text = text, .length = at->last_column - at->first_column, .line = at->first_line,
                   .column = at->first_column, .last_line = at->last_line};
}

/* Decides where parsing resumes after the broken statement, which begins at `from`. Returns whether to drop the token `got`. */
static bool resume(Parse *p, const YYLTYPE *from, int got, const char *text, const YYLTYPE *at)
{
    bool progress = at->first_line > from->first_line || at->first_column > from->first_column;
    int braces = p->braces;
    p->broken = true;
    p->skipped_braces = 0;
    if (got == YYEMPTY)
        got = YYUNDEF;
    if (got == END && p->braces)
        p->again[p->again_count++] = token_of(END, "", at);
    if (got == END)
        return p->braces;
    p->braces = p->braces_before;
    if (p->braces && from->first_column <= p->item_column && progress && begins_item(word_kind(word_at(p, from))) &&
        (got == IDENT || got == STRING || got == '{')) { /* a new item begins: a '}' is missing before it */
        p->again[p->again_count++] = token_of(got, text, at);
        p->again[p->again_count++] = token_of(word_kind(word_at(p, from)), word_at(p, from), from);
        p->closing = p->braces;
        return true;
    }
    p->skip_line = from->first_line;
    p->skip_column = from->first_column;
    if (!progress || !is_next(p, got, at))
        return true;
    p->skip_line = 0;
    p->braces = braces;
    return false;
}
#define RESUME(at)                                                                                                    \
    yyerrok;                                                                                                          \
    if (resume(p, &(at), yychar, yychar == IDENT || yychar == STRING ? yylval.text : "", &yylloc))                    \
    yyclearin


/* Later stages recurse over the tree. The parser itself does not recurse on left-deep chains, so the height is limited here. */
#define CHECK(n, at) if ((n)->height > MAX_HEIGHT) { say(p, &(at), "nested more than 1000 deep; give parts of it names"); YYABORT; }
}

%%

start:
    file                                        { p->tree = $1; }
  | EXPRESSION expr                             { p->tree = $2; }

file:
    %empty                                      { $$ = LEAF(@$, FILE, NULL); }
  | file item                                   { $$ = longer($1, $2, &@2); }

item:
    IMPORT STRING                               { $$ = N(@2, IMPORT, $2, NULL); }
  | PARAM name '=' expr                         { $$ = N(@2, PARAM, $2, $4); }
  | LAYER name '(' params ')' block             { $$ = N(@2, LAYER, $2, $4, $6); }
  | MODEL name block                            { $$ = N(@2, MODEL, $2, $3); }
  | DATA block                                  { $$ = N(@1, DATA, NULL, $2); }
  | TRAIN block                                 { $$ = N(@1, TRAIN, NULL, $2); }
  | error                                       { $$ = LEAF(@1, BROKEN, word_at(p, &@1)); RESUME(@1); }

block: '{' stmts '}'                            { $$ = with_extent($2, &@$); CHECK($$, @1); }

stmts:
    %empty                                      { $$ = LEAF(@$, BLOCK, NULL); }
  | stmts stmt                                  { if (may_be_its_part($1->last, $2)) $1->last->kind = TREE_BROKEN;
                                                  $$ = longer($1, $2, &@2); }

stmt:
    targets '=' expr                            { $$ = N(@1, ASSIGN, NULL, $1, $3); }
  | INPUT name ':' type                         { $$ = N(@2, INPUT, $2, $4); }
  | WEIGHT name ':' type '=' expr               { $$ = N(@2, WEIGHT, $2, $4, $6); }
  | STATE name ':' type '=' expr                { $$ = N(@2, STATE, $2, $4, $6); }
  | UPDATE name '=' expr                        { $$ = N(@2, UPDATE, $2, $4); }
  | LOSS binding                                { $$ = N(@1, LOSS, NULL, $2); }
  | METRIC binding                              { $$ = N(@1, METRIC, NULL, $2); }
  | OUTPUT binding                              { $$ = N(@1, OUTPUT, NULL, $2); }
  | ASSERT expr message                         { $$ = N(@1, ASSERT, NULL, $2, $3); }
  | RETURN exprs                                { $$ = N(@1, RETURN, NULL, $2); }
  | IF expr block otherwise                     { $$ = N(@1, IF, NULL, $2, $3, $4); CHECK($$, @1); }
  | FOR targets IN expr block                   { $$ = N(@1, FOR, NULL, $2, $4, $5); }
  | SCAN targets IN exprs block                 { $$ = N(@1, SCAN, NULL, $2, $4, $5); }
  | patterns block                              { $$ = N(@1, RULE, NULL, $1, $2); }
  | error                                       { $$ = LEAF(@1, BROKEN, word_at(p, &@1)); RESUME(@1); }

targets:
    name                                        { $$ = N(@1, NAMES, NULL, LEAF(@1, NAME, $1)); }
  | targets ',' name                            { $$ = longer($1, LEAF(@3, NAME, $3), &@3); }

binding:
    expr                                        { $$ = N(@1, UNNAMED, NULL, $1); }
  | name '=' expr                               { $$ = N(@1, NAMED, $1, $3); }

message:
    %empty                                      { $$ = NULL; }
  | ',' expr                                    { $$ = $2; }

otherwise:
    %empty                                      { $$ = NULL; }
  | ELSE block                                  { $$ = $2; }
  | ELSE IF expr block otherwise                { $$ = N(@2, IF, NULL, $3, $4, $5); CHECK($$, @1); }

patterns:
    STRING                                      { $$ = N(@1, PATTERNS, NULL, LEAF(@1, STRING, $1)); }
  | patterns ',' STRING                         { $$ = longer($1, LEAF(@3, STRING, $3), &@3); }

/* ---- parameters and types */

params:
    %empty                                      { $$ = LEAF(@$, PARAMS, NULL); }
  | param_list
  | param_list ','                              { $$ = longer($1, NULL, &@2); }

param_list:
    param                                       { $$ = N(@1, PARAMS, NULL, $1); }
  | param_list ',' param                        { $$ = longer($1, $3, &@3); }

param:
    name                                        { $$ = N(@1, REQUIRED, $1, NULL); }
  | name ':' type                               { $$ = N(@1, REQUIRED, $1, $3); }
  | name '=' expr                               { $$ = N(@1, OPTIONAL, $1, $3); }
  | name ':' type '=' expr                      { $$ = N(@1, OPTIONAL, $1, $3, $5); }

type:
    '[' dims ']'                                { $$ = N(@1, TYPE, NULL, $2); }
  | IDENT                                       { $$ = LEAF(@1, TYPE, $1); }
  | IDENT '[' dims ']'                          { $$ = N(@1, TYPE, $1, $3); }
  | IDENT '(' args ')'                          { $$ = N(@1, TYPE, $1, $3); }
  | IDENT '(' args ')' '[' dims ']'             { $$ = N(@1, TYPE, $1, $3, $6); }

dims:
    %empty                                      { $$ = LEAF(@$, DIMS, NULL); }
  | dim_list
  | dim_list ','                                { $$ = longer($1, NULL, &@2); }

dim_list:
    dim                                         { $$ = N(@1, DIMS, NULL, $1); }
  | dim_list ',' dim                            { $$ = longer($1, $3, &@3); }

dim:
    expr
  | DOTS                                        { $$ = LEAF(@1, DOTS, NULL); }

/* ---- expressions: choices and pipelines bind weakest and need parentheses to be operands of operators */

expr:
    value                                       { $$ = $1; CHECK($$, @1); }
  | pipeline                                    { $$ = $1; CHECK($$, @1); }
  | IF expr THEN expr ELSE expr                 { $$ = N(@1, CHOICE, NULL, $2, $4, $6); CHECK($$, @1); }

pipeline:
    PIPE chain                                  { $$ = N(@1, SECTION, NULL, $2); }
  | value PIPE chain                            { $$ = N(@2, PIPE, NULL, $1, $3); }
  | pipeline PIPE chain                         { $$ = N(@2, PIPE, NULL, $1, $3); }

value:
    chain
  | value OR value                              { $$ = N(@2, BINARY, "or", $1, $3); }
  | value AND value                             { $$ = N(@2, BINARY, "and", $1, $3); }
  | NOT value                                   { $$ = N(@1, UNARY, "not", $2); }
  | value EQ value                              { $$ = N(@2, BINARY, "==", $1, $3); }
  | value NE value                              { $$ = N(@2, BINARY, "!=", $1, $3); }
  | value '<' value                             { $$ = N(@2, BINARY, "<", $1, $3); }
  | value '>' value                             { $$ = N(@2, BINARY, ">", $1, $3); }
  | value LE value                              { $$ = N(@2, BINARY, "<=", $1, $3); }
  | value GE value                              { $$ = N(@2, BINARY, ">=", $1, $3); }
  | value '+' value                             { $$ = N(@2, BINARY, "+", $1, $3); }
  | value '-' value                             { $$ = N(@2, BINARY, "-", $1, $3); }
  | value '*' value                             { $$ = N(@2, BINARY, "*", $1, $3); }
  | value '/' value                             { $$ = N(@2, BINARY, "/", $1, $3); }
  | value FLOOR value                           { $$ = N(@2, BINARY, "//", $1, $3); }
  | value '%' value                             { $$ = N(@2, BINARY, "%", $1, $3); }
  | value '@' value                             { $$ = N(@2, BINARY, "@", $1, $3); }
  | value POWER value                           { $$ = N(@2, BINARY, "**", $1, $3); }
  | '-' value %prec NEGATE                      { $$ = N(@1, UNARY, "-", $2); }

chain:
    name                                        { $$ = LEAF(@1, NAME, $1); }
  | NUMBER                                      { $$ = LEAF(@1, NUMBER, $1); }
  | QUANTITY                                    { $$ = LEAF(@1, QUANTITY, $1); }
  | STRING                                      { $$ = LEAF(@1, STRING, $1); }
  | TRUE                                        { $$ = LEAF(@1, BOOL, "true"); }
  | FALSE                                       { $$ = LEAF(@1, BOOL, "false"); }
  | NONE                                        { $$ = LEAF(@1, NONE, NULL); }
  | '(' expr ')'                                { $$ = $2; }
  | '[' ']'                                     { $$ = N(@1, LIST, NULL, NULL); }
  | '[' exprs ']'                               { $$ = with_extent($2, &@$); $$->kind = TREE_LIST; }
  | '[' exprs ',' ']'                           { $$ = with_extent($2, &@$); $$->kind = TREE_LIST; }
  | chain '.' name                              { $$ = N(@3, FIELD, $3, $1); }
  | chain '(' args ')'                          { $$ = N(@1, CALL, NULL, $1, $3); }
  | chain '[' subs ']'                          { $$ = N(@2, INDEX, NULL, $1, $3); }

exprs:
    expr                                        { $$ = N(@1, EXPRS, NULL, $1); }
  | exprs ',' expr                              { $$ = longer($1, $3, &@3); }

args:
    %empty                                      { $$ = LEAF(@$, ARGS, NULL); }
  | arg_list
  | arg_list ','                                { $$ = longer($1, NULL, &@2); }

arg_list:
    arg                                         { $$ = N(@1, ARGS, NULL, $1); }
  | arg_list ',' arg                            { $$ = longer($1, $3, &@3); }

arg:
    expr
  | name '=' expr                               { $$ = N(@1, NAMED, $1, $3); }

subs:
    sub                                         { $$ = N(@1, SUBS, NULL, $1); }
  | subs ',' sub                                { $$ = longer($1, $3, &@3); }

sub:
    expr
  | DOTS                                        { $$ = LEAF(@1, DOTS, NULL); }
  | bound ':' bound                             { $$ = N(@2, SLICE, NULL, $1, $3); }
  | bound ':' bound ':' bound                   { $$ = N(@2, SLICE, NULL, $1, $3, $5); }

bound:
    %empty                                      { $$ = LEAF(@$, NONE, NULL); }
  | expr

/* A statement word is a name except where it begins a statement. */
name:
    IDENT | ASSERT | DATA | IMPORT | INPUT | LAYER | LOSS | METRIC | MODEL | OUTPUT | PARAM | SCAN | STATE | TRAIN
  | UPDATE | WEIGHT

%%

int parse_tokens(void *scanner, Parse *p) { return yyparse(scanner, p); }

/* Called only if the parser's stack overflows; syntax errors go to yyreport_syntax_error. */
static void yyerror(YYLTYPE *at, void *scanner, Parse *p, const char *message)
{
    (void)scanner, (void)message;
    say(p, at, "nested more than 1000 deep; give parts of it names");
}

static bool reserved(yysymbol_kind_t k)
{
    return k == YYSYMBOL_AND || k == YYSYMBOL_ELSE || k == YYSYMBOL_FALSE || k == YYSYMBOL_FOR || k == YYSYMBOL_IF ||
           k == YYSYMBOL_IN || k == YYSYMBOL_NONE || k == YYSYMBOL_NOT || k == YYSYMBOL_OR || k == YYSYMBOL_RETURN ||
           k == YYSYMBOL_THEN || k == YYSYMBOL_TRUE;
}

typedef struct Expected { bool pipe, block, name, number, plus, comma, colon, equals, item, then, bracket, parenthesis; int count; } Expected;

static const char *hint_for(const Expected *e, yysymbol_kind_t got, const char *g)
{
    bool compares = got == YYSYMBOL_EQ || got == YYSYMBOL_NE || got == YYSYMBOL_LE || got == YYSYMBOL_GE ||
                    strcmp(g, "'<'") == 0 || strcmp(g, "'>'") == 0;
    bool operates = compares || got == YYSYMBOL_POWER || got == YYSYMBOL_FLOOR || got == YYSYMBOL_AND ||
                    got == YYSYMBOL_OR || (g[0] == '\'' && strchr("+-*/%@", g[1]));
    bool value = got == YYSYMBOL_IDENT || got == YYSYMBOL_NUMBER || got == YYSYMBOL_QUANTITY || got == YYSYMBOL_STRING;
    if (e->pipe && compares && e->plus)
        return "; comparisons do not chain: join them with 'and'";
    if (strcmp(g, "'@'") == 0 && !e->plus && !e->pipe)
        return "; it is written between the two operands of a matrix product; devices are not named in a model: mgpuc --devices 1-4";
    if (got == YYSYMBOL_FLOOR)
        return e->pipe && !e->plus ? "; a comment begins with '#'; an operator cannot follow a pipeline" : "; a comment begins with '#'";
    if (e->pipe && operates && !e->plus)
        return "; an operator cannot follow a pipeline: put the pipeline in parentheses";
    if (got == YYSYMBOL_IF && e->number)
        return "; inside an operation a choice needs parentheses";
    if (e->name && !e->number && reserved(got))
        return "; it is a reserved word";
    if (e->block && got == YYSYMBOL_YYEOF)
        return "; a '{' is not closed";
    if (e->comma && e->equals && e->count == 2 && strcmp(g, "'('") == 0)
        return "; a call is no statement: write 'name = call(...)', or 'loss', 'metric', 'output' before it; in a pipeline '|>' comes "
               "before it";
    if (e->comma && e->equals && e->count == 2 && operates)
        return "; a statement is 'name = value', as in 'x = x + 1'";
    if (e->comma && e->equals && e->count == 2)
        return "; a statement is 'name = value'";
    if (e->block && e->plus && strcmp(g, "','") == 0)
        return "; between statements there is a blank or the end of a line, no comma; several values are a list: a, b = [x, y]";
    if (e->block && (g[1] == '(' || g[1] == '['))
        return "; a statement cannot begin with it: it begins with a name or a word such as 'loss'";
    if (e->item)
        return "; expected 'import', 'param', 'layer', 'model', 'data' or 'train'";
    if ((got == YYSYMBOL_ELSE || got == YYSYMBOL_IF) && e->plus)
        return "; a choice is written if c then a else b, and where(c, a, b) if c is a tensor";
    if (e->then)
        return "; a choice of values is 'if a then b else c'";
    if (e->comma && (e->bracket || e->parenthesis) && value)
        return "; is a comma missing?";
    if (e->bracket)
        return "; a '[' is not closed";
    if (e->parenthesis && e->comma)
        return "; a '(' is not closed";
    if (e->number)
        return "; a value is missing here";
    if (e->name && !e->block)
        return "; a name is missing here";
    if (e->colon && e->count == 1)
        return "; ':' and a type are missing here, as in 'x: f32[3]'";
    if (e->equals && e->count == 1)
        return "; '=' and a value are missing here";
    return NULL;
}

static const char *start_of(const Parse *p, const YYLTYPE *at)
{
    const char *text = p->source->text, *end = text + p->source->length;
    for (int line = 1; line < at->first_line; line++) {
        const char *next = memchr(text, '\n', (size_t)(end - text));
        text = next ? next + 1 : end;
    }
    return end - text < at->first_column - 1 ? end : text + at->first_column - 1;
}

static const char *word_at(const Parse *p, const YYLTYPE *at)
{
    const char *from = start_of(p, at);
    return copy_text(from, strspn(from, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789"));
}

/* Returns a token for messages: "'in'", "'+'", or a name, number or string as written. */
static const char *shown(const Parse *p, const YYLTYPE *at, yysymbol_kind_t k)
{
    enum { LONGEST = 40 };
    const char *name = yysymbol_name(k);
    int length = at->last_column - at->first_column;
    if (k == YYSYMBOL_STRING)
        return length > LONGEST ? name : copy_text(start_of(p, at), (size_t)length);
    if (k == YYSYMBOL_IDENT || k == YYSYMBOL_NUMBER || k == YYSYMBOL_QUANTITY)
        return length > LONGEST ? name : format("'%.*s'", length, start_of(p, at));
    if (k == YYSYMBOL_YYEOF)
        return p->source->setting ? "end" : name;
    return name[0] == '\'' ? name : format("'%s'", name);
}

/* Returns the word before the token, and its place. */
static const char *word_before(const Parse *p, YYLTYPE *place)
{
    *place = (YYLTYPE){p->before_line, p->before_column, p->before_line, p->before_column};
    if (!p->before_line)
        return "";
    const char *text = p->source->text, *end = start_of(p, place), *from = end;
    while (from > text && ((from[-1] >= 'a' && from[-1] <= 'z') || from[-1] == '_'))
        from--;
    place->first_column -= (int)(end - from);
    return copy_text(from, (size_t)(end - from));
}

/* Returns the first word of the line of `at`. */
static const char *first_word(const Parse *p, const YYLTYPE *at)
{
    const char *from = start_of(p, &(YYLTYPE){at->first_line, 1, at->first_line, 1});
    from += strspn(from, " \t");
    return copy_text(from, strspn(from, "abcdefghijklmnopqrstuvwxyz"));
}

/* True for "10 epochs": the word at `at` is a unit, separated from its number. */
static bool is_unit_apart(const Parse *p, const YYLTYPE *at, const char *word)
{
    static const char *const UNITS[] = {"steps", "step", "epochs", "epoch", "samples", "min", "h", "s"};
    const char *text = p->source->text, *c = start_of(p, at);
    bool unit = false;
    for (int i = 0; i < COUNT(UNITS); i++)
        unit |= strcmp(UNITS[i], word) == 0;
    while (unit && c > text && c[-1] == ' ')
        c--;
    return unit && c > text && c[-1] >= '0' && c[-1] <= '9';
}

/* Reports "for = 3", "modle m {", "imput x: f32", "data {" in an open block, or "10 epochs". Returns whether it did. */
static bool said_of_words(const Parse *p, const YYLTYPE *at, const Expected *e, yysymbol_kind_t got, const char *g)
{
    static const char *const ITEMS[] = {"import", "param", "layer", "model", "data", "train"};
    static const char *const WORDS[] = {"input", "weight", "state", "update", "loss", "metric", "output", "assert", "scan", "return",
                                        "for", "if"};
    YYLTYPE there;
    const char *word = word_before(p, &there), *near = "";
    bool statement = e->comma && e->equals && e->count == 2, item = false;
    for (int i = 0; i < COUNT(ITEMS); i++)
        item |= strcmp(ITEMS[i], word) == 0;
    const char *line = first_word(p, at);
    static const char *const HEADS[] = {"for", "if", "else", "while", "def", "class"};
    for (int i = 0; strcmp(g, "':'") == 0 && i < COUNT(HEADS); i++)
        if (strcmp(line, HEADS[i]) == 0)
            return say(p, at, "unexpected ':'; a block is written in braces, as in for i in range(3) { ... }");
    if (got == YYSYMBOL_IDENT && (strcmp(word, "def") == 0 || strcmp(word, "class") == 0))
        return say(p, &there, format("unexpected '%s'; a layer of one's own is written layer name(x) { ... return y }, outside of the model", word));
    if (strcmp(g, "'='") == 0 && is_reserved_word(word))
        return say(p, &there, format("'%s' is a reserved word, which cannot be assigned", word));
    if (e->item && got == YYSYMBOL_IDENT) {
        there = *at;
        word = copy_text(start_of(p, at), (size_t)(at->last_column - at->first_column));
        near = did_you_mean(word, ITEMS, COUNT(ITEMS));
    } else if (statement && item && (got == YYSYMBOL_IDENT || strcmp(g, "'{'") == 0)) {
        return say(p, &there, format("unexpected '%s'; is a '}' missing before it?", word));
    } else if (statement && is_unit_apart(p, &there, word)) {
        return say(p, &there, format("unexpected '%s'; a unit comes directly after its number, as in 10epochs", word));
    } else if (statement && got == YYSYMBOL_IDENT) {
        near = did_you_mean(word, WORDS, COUNT(WORDS));
    }
    return near[0] && say(p, &there, format("unexpected '%s'%s", word, near));
}

static const char *expected_name(yysymbol_kind_t k)
{
    const char *name = yysymbol_name(k);
    return name[0] == '\'' || strchr(name, ' ') ? name : format("'%s'", name);
}

static int yyreport_syntax_error(const yypcontext_t *c, void *scanner, Parse *p)
{
    (void)scanner;
    enum { MOST = 80 };
    yysymbol_kind_t want[MOST], got = yypcontext_token(c);
    int n = yypcontext_expected_tokens(c, want, MOST);
    const YYLTYPE *at = yypcontext_location(c);
    const char *few = "";
    Expected e = {0};
    for (int i = 0; i < n; i++) {
        const char *name = yysymbol_name(want[i]);
        e.pipe |= want[i] == YYSYMBOL_PIPE;
        e.block |= want[i] == YYSYMBOL_RETURN;
        e.name |= want[i] == YYSYMBOL_IDENT;
        e.number |= want[i] == YYSYMBOL_NUMBER;
        e.item |= want[i] == YYSYMBOL_PARAM;
        e.then |= want[i] == YYSYMBOL_THEN;
        e.plus |= strcmp(name, "'+'") == 0;
        e.comma |= strcmp(name, "','") == 0;
        e.colon |= strcmp(name, "':'") == 0;
        e.equals |= strcmp(name, "'='") == 0;
        e.bracket |= strcmp(name, "']'") == 0;
        e.parenthesis |= strcmp(name, "')'") == 0;
        if (want[i] == YYSYMBOL_EXPRESSION)
            continue;
        if (e.count < 6)
            few = format("%s%s%s", few, e.count ? ", " : "", expected_name(want[i]));
        e.count++;
    }
    e.item = e.item && !e.name && !e.block;
    const char *g = yysymbol_name(got), *hint = hint_for(&e, got, g);
    /* an earlier error made braces wrong */
    if (p->broken && e.item && (at->first_column > p->item_column || strcmp(g, "'}'") == 0))
        return 0;
    if (said_of_words(p, at, &e, got, g))
        return 0;
    bool name_all = !hint && e.count > 0 && e.count <= 5;
    bool missing = hint && (strstr(hint, " missing") || strstr(hint, "not closed"));
    YYLTYPE end = {p->before_line, p->before_column, p->before_line, p->before_column};
    if (missing && got != YYSYMBOL_YYEOF && p->before_line && p->before_line < at->first_line)
        say(p, &end, hint + strlen("; ")); /* report the end of the previous token, where something is missing */
    else
        say(p, at, format("unexpected %s%s%s%s", shown(p, at, got), name_all ? ", expected " : "", name_all ? few : "", hint ? hint : ""));
    return 0;
}
