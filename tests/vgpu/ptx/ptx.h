/* ptx.h: PTX (NVIDIA's PTX ISA manual, version 9.0) -> C that runs on the virtual GPU: what the files of this folder share.
 *
 *     text --scan.c--> tokens --parse.c--> module --print.c, instructions.c--> C --load.c--> shared object, an image as any other
 *
 * The C includes device.h: what instructions do. Threads, barriers and warps are engine.cpp's, which is a part of
 * libcuda.so.1. */
#ifndef VGPU_PTX_H
#define VGPU_PTX_H

#include <setjmp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- what is translated, and why not */

typedef struct PtxRoom PtxRoom;
typedef struct Ptx {
    PtxRoom *room;   /* all memory of a translation */
    char wrong[400]; /* "line 12: ..." */
    jmp_buf end;     /* after something wrong */
} Ptx;
void *ptx_allocate(Ptx *, size_t bytes); /* zeros */
void ptx_free(Ptx *);
char *ptx_format(Ptx *, const char *format, ...) __attribute__((format(printf, 2, 3)));
_Noreturn void ptx_fail(Ptx *, int line, const char *format, ...) __attribute__((format(printf, 3, 4)));

typedef struct PtxText {
    char *data;
    size_t length, room;
} PtxText; /* grows; free() its data */
void ptx_add(PtxText *, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* ---- scan.c */

typedef enum { TOKEN_END, TOKEN_WORD, TOKEN_NUMBER, TOKEN_STRING, TOKEN_SIGN } TokenKind;
typedef struct Token {
    TokenKind kind;
    int line;
    const char *text; /* a word with its dots: "ld.global.nc.f32", "%tid.x", ".reg" */
    char sign;
    uint64_t bits;
    int digits; /* of a number; digits: 8 and 16 of 0f and 0d, which are bits of f32 and f64; else 0 */
} Token;
Token *ptx_scan(Ptx *, const char *text, size_t length); /* the last one is TOKEN_END */

/* ---- types */

typedef enum {
    TYPE_NONE,
    TYPE_PRED,
    TYPE_B8,
    TYPE_U8,
    TYPE_S8,
    TYPE_B16,
    TYPE_U16,
    TYPE_S16,
    TYPE_F16,
    TYPE_BF16,
    TYPE_B32,
    TYPE_U32,
    TYPE_S32,
    TYPE_F32,
    TYPE_F16X2,
    TYPE_BF16X2,
    TYPE_TF32,
    TYPE_B64,
    TYPE_U64,
    TYPE_S64,
    TYPE_F64,
    TYPE_B128,
    TYPES
} Type;
typedef struct TypeInfo {
    const char *name, *c;
    unsigned bytes;
    bool floating;
} TypeInfo; /* floating: float and double in C */
extern const TypeInfo ptx_types[TYPES];
Type ptx_type(const char *name, size_t length); /* "f32"; TYPE_NONE: it is none */

/* ---- parse.c */

typedef enum { SPACE_NONE, SPACE_REG, SPACE_PARAM, SPACE_GLOBAL, SPACE_CONST, SPACE_SHARED, SPACE_LOCAL, SPACES } Space;
Space ptx_space(const char *name, size_t length); /* "global", "shared::cta" */

/* of an initializer; name: the address of it */
typedef struct Value {
    uint64_t bits;
    int digits;
    const char *name;
    uint64_t offset;
} Value;
typedef struct Variable {
    Space space;
    Type type;
    const char *name;
    int line, align;
    uint64_t bytes;
    bool is_extern, used;
    int registers; /* %r<registers>; 0: one, of this name */
    int *async;    /* of each register its place among those of wgmma, from 1 on; 0: it is none. NULL: none is */
    Value *values;
    int value_count;
    uint64_t offset; /* shared: in its window; local: in the function's array */
    struct Variable *next;
} Variable;

/* clang-format off */
typedef enum { OPERAND_NAME, OPERAND_NUMBER, OPERAND_ADDRESS /* [..] */, OPERAND_VECTOR /* {..} */, OPERAND_LIST /* (..) */ } OperandKind;
/* clang-format on */
typedef struct Operand {
    OperandKind kind;
    const char *name; /* a register, variable, label; of an address NULL: a number */
    uint64_t bits;
    int digits;   /* a number; added to the address */
    bool negated; /* !p */
    struct Operand *parts;
    int count;              /* of a vector, a list */
    struct Operand *second; /* d|p */
} Operand;

enum { MODIFIERS = 16, OPERANDS = 8 };
typedef struct Modifier {
    const char *text;
    int length;
} Modifier;
typedef enum { STATEMENT_LABEL, STATEMENT_OPEN, STATEMENT_CLOSE, STATEMENT_VARIABLE, STATEMENT_INSTRUCTION } StatementKind;
typedef struct Statement {
    StatementKind kind;
    int line;
    Variable *variable;
    const char *name; /* of a label; the whole of an instruction, "setp.lt.s32" */
    Modifier modifier[MODIFIERS];
    int modifiers;  /* "setp", "lt", "s32" */
    Operand *guard; /* @p; NULL: always */
    Operand operand[OPERANDS];
    int operands;
    unsigned used_bytes; /* of a load, a bit for each; 0: all */
} Statement;

typedef struct Function {
    const char *name;
    int line;
    bool is_entry, is_defined;
    Variable *results, *parameters;
    Statement *statement;
    int count;
    uint64_t static_shared, most_threads; /* bytes; of a block, 0: any */
    int async;                            /* registers that wgmma reads and writes */
    struct Function *next;
} Function;
typedef struct Module {
    int version, target; /* 90, 80: 9.0, sm_80 */
    bool own;            /* for the target alone: sm_90a */
    Variable *variables;
    Function *functions;
} Module;
Module *ptx_parse(Ptx *, const Token *);

/* ---- print.c: the module as C */

/* both are freed by the caller; functions: for a while only */
void ptx_print(Ptx *, Module *, PtxText *functions, PtxText *all);

typedef struct Scope Scope;
typedef struct Printer {
    Ptx *ptx;
    Module *module;
    const Function *function;
    PtxText *out;
    Scope *scope;        /* registers and variables of the function */
    const Statement *at; /* the instruction */
    Type type;           /* its first type */
} Printer;

/* of the instruction that is printed. Texts are C, and ptx_allocate's */
bool ptx_has(const Statement *, const char *modifier);
_Noreturn void ptx_refuse(Printer *, const char *why);
char *ptx_source(Printer *, const Operand *, Type);                   /* its value as that type */
void ptx_assign(Printer *, const Operand *, Type, const char *value); /* prints operand = value; */
char *ptx_address(Printer *, const Operand *, Space);                 /* uint64_t, of this machine */
char *ptx_callee(Printer *, const char *name, const Function **);     /* of a function, in C */
char *ptx_label(Printer *, const char *name);
char *ptx_parameter(Printer *, const char *name); /* of a call: a pointer */
int ptx_async_place(Printer *, const Operand *);  /* of a register of wgmma, from 0 on */

/* ---- instructions.c, memory.c, warp.c */

void ptx_print_instruction(Printer *);
typedef void PrintInstruction(Printer *);
PrintInstruction ptx_print_load, ptx_print_store, ptx_print_atomic, ptx_print_copy, ptx_print_load_matrices,
    ptx_print_convert_address;
PrintInstruction ptx_print_barrier, ptx_print_shuffle, ptx_print_vote, ptx_print_matrices, ptx_print_reduce;
PrintInstruction ptx_print_group_fence, ptx_print_group_matrices;

/* ---- load.c */

enum { PTX_ANY = 1 << 20 /* capability, version: whatever the PTX is for */ };
/* PTX -> the bytes of a shared object (malloc's). NULL: log says why, *error is the status of CUDA that says so */
void *ptx_load(const char *text, int capability, int version, bool checked, size_t *bytes, int *error, char *log, size_t room);
bool ptx_is_text(const void *image); /* PTX, not the bytes of anything else */
#endif
