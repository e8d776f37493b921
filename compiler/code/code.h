/* code.h: a function of a kernel as a tree: statements over terms. Targets make trees of kernels (loops/, target/host/,
 * target/cuda/), and one printer prints them (code/print.c). No code reads printed text: kernels are compared, and their numbers
 * found, in the tree. */
#ifndef MGPU_CODE_H
#define MGPU_CODE_H

#include "compiler/base/base.h"
#include "compiler/ir/graph.h"

/* ---- terms */
/* clang-format off */
typedef enum Level { /* precedence of a term, by C's levels */
    LEVEL_CHOICE, LEVEL_OR, LEVEL_AND, LEVEL_BITS, LEVEL_EQUAL, LEVEL_LESS, LEVEL_SUM, LEVEL_PRODUCT, LEVEL_UNARY, LEVEL_ATOM
} Level;
/* clang-format on */

typedef enum TermKind {
    TERM_WORD,    /* `word`: of the language or the runtime; a number that is in every function of this form */
    TERM_NAME,    /* `word`: a variable, an argument or a table of the function */
    TERM_KERNEL,  /* a function of the kernel: the kernel's name followed by `word` */
    TERM_NUMBER,  /* `word`: a number without sign, which may become a launch parameter (cuda/parameters.c) */
    TERM_PATH,    /* hash of the path of random numbers */
    TERM_UNARY,   /* `word` before in[0] */
    TERM_BINARY,  /* in[0] `word` in[1] */
    TERM_CHOICE,  /* in[0] ? in[1] : in[2] */
    TERM_CALL,    /* `word`(in ...) */
    TERM_CALL_OF, /* in[0](in[1] ...) */
    /* likewise, of a function that returns the thread's place among the threads of the launch, or of its part of it */
    TERM_GRID,
    TERM_ELEMENT, /* in[0][in[1]] */
    TERM_MEMBER,  /* in[0].`word` */
    TERM_LIST,    /* {in ...} */
    TERM_FORMULA, /* `word`: C text, in which a, b, c stand for in[0], in[1], in[2] */
} TermKind;

typedef enum NumberKind { NUMBER_INT, NUMBER_DIVISOR, NUMBER_F32, NUMBER_F64 } NumberKind;

typedef struct Term Term;
struct Term {
    TermKind kind;
    Level level;
    NumberKind number;
    /* its numbers are never TERM_NUMBER, except in the index of an element: arguments of functions, since a power of 2 is a
     * shift; bounds of unrolled loops */
    bool fixed;
    const char *word;
    Level operands; /* of TERM_FORMULA: least precedence of a, b and c in it */
    uint64_t hash;
    const Term **in;
    int count;
};

const Term *term_word(const char *);
const Term *term_whole(int64_t); /* a TERM_WORD */
const Term *term_name(const char *);
const Term *term_kernel(const char *end);
const Term *term_number(NumberKind, const char *digits, bool negative);
const Term *term_path(uint64_t hash);
const Term *term_unary(const char *sign, const Term *);
const Term *term_cast(const char *type, const Term *);
const Term *term_binary(Level, const Term *, const char *sign, const Term *);
const Term *term_add(const Term *, const Term *);
const Term *term_times(const Term *, const Term *);
const Term *term_choice(const Term *, const Term *, const Term *);
const Term *term_call(const char *function, int count, const Term *const *);
const Term *term_call_of(const Term *function, int count, const Term *const *);
#define CALL(function, ...)                                                                                                      \
    term_call(function, (int)(sizeof((const Term *[]){__VA_ARGS__}) / sizeof(Term *)), (const Term *[]){__VA_ARGS__})
const Term *term_grid(const char *function, int count, const Term *const *);
const Term *term_element(const Term *pointer, const Term *index);
const Term *term_member(const Term *, const char *member);
const Term *term_list(int count, const Term *const *);
const Term *term_formula(Level, Level operands, const char *formula, int count, const Term *const *);
const Term *term_fixed(const Term *);   /* a copy that is fixed */
const Term *term_divisor(const Term *); /* a copy as an operand after / or % */
bool term_is_word(const Term *, const char *);
int term_length(const Term *); /* characters */

/* ---- statements */
typedef enum StatementKind {
    CODE_DECLARE, /* type `to`[extent] = value; `remark`. value NULL: no initializer; no extents: no array */
    CODE_SET,     /* to `sign` value; */
    CODE_DO,      /* value; */
    CODE_IF,      /* if (value) body */
    CODE_FOR,     /* for (type to = from; value; steps) body */
    CODE_BLOCK,   /* { body } */
    CODE_TABLE,   /* constants */
} StatementKind;

typedef struct Statement Statement;
typedef struct Statements {
    Statement **list;
    int count;
} Statements;
struct Statement {
    StatementKind kind;
    bool unrolled; /* a loop, whole */
    bool bare;     /* one statement without braces */
    bool joins;    /* in one statement with the previous declaration or expression */
    const char *type, *sign, *remark;
    const Term *to, *from, *value;
    const Term **extent;
    int extent_count;
    Statements steps, body;
    Dtype dtype; /* of a table */
    const double *constants;
    int64_t constant_count;
};

typedef struct CodeParameter {
    const char *type;
    const Term *name;
    const char *remark;
} CodeParameter; /* name NULL: the parameter is not used */
typedef struct Code {
    CodeParameter *parameters;
    int parameter_count;
    bool lines;          /* each parameter is on its own line */
    const char *by_path; /* type of a last parameter `path`, if functions take the paths of their random numbers; else NULL */
    Statements body;
} Code;

/* ---- builder: statements are added to the innermost open body */
typedef struct CodeBuilder {
    Code *code;
    Statements *open[64];
    int depth;
} CodeBuilder;
Statement *code_add(CodeBuilder *, StatementKind);
void code_declare(CodeBuilder *, const char *type, const Term *name, const Term *value);
Statement *code_array(CodeBuilder *, const char *type, const Term *name, const Term *extent, const Term *value);
void code_declare_too(CodeBuilder *, const Term *name, const Term *value); /* declares another name of the previous type */
void code_set(CodeBuilder *, const Term *to, const char *sign, const Term *value);
void code_do(CodeBuilder *, const Term *);
void code_if(CodeBuilder *, const Term *condition); /* opens its body */
void code_block(CodeBuilder *);
Statement *code_for(CodeBuilder *, const char *type, const Term *name, const Term *from, const Term *condition);
void code_step(Statement *loop, const Term *to, const char *sign, const Term *value);
Statement *code_count(CodeBuilder *, const char *type, const Term *name, const Term *from, const Term *to,
                      const Term *step); /* step NULL: 1 */
void code_bare(CodeBuilder *);           /* makes the innermost open body one without braces, and closes it */
void code_close(CodeBuilder *);
void code_close_to(CodeBuilder *, int depth);

const Code *code_copy(const Code *); /* a deep copy */

/* ---- print.c */
typedef struct CodePrint {
    const char *kernel;       /* its name */
    const char *const *given; /* by number, in the order of the text: the text to print in its place; NULL: the number itself */
    const char *more;         /* text of further parameters, beginning with ", "; NULL: none */
    const char *grid;         /* prefix of functions of TERM_GRID; NULL: mgpu_grid_ */
    const uint64_t *paths;
    int path_count; /* paths that are a parameter */
} CodePrint;
void code_print(const Code *, const CodePrint *, Text *); /* parameters and body */
/* Prints a form, with names by order and numbers by kind: equal forms differ only in numbers. */
void code_print_canonical(const Code *, Text *);
typedef struct Numbers {
    const Term **list;
    int count;
} Numbers;
void code_numbers(const Code *, Numbers *); /* appends the numbers that are not fixed, in the order of the text */
const char *term_text(const Term *);
const char *code_literal(double, Dtype); /* C text that reads back as the same number */
#endif
