/* emitted.c: emitted C and CUDA C, read by a scanner of its own that shares nothing with the compiler.
 *
 * Comments and strings hold characters that mean nothing but themselves: no end, no escape, no trigraph and no direction that is
 * the model's. Beside them stand words of C, of the runtime (mgpu_...), of the compiler (below, with a number or without), names
 * of kernels and tables, and what a model names: v_... . All else is text that went around compiler/base/c_text.c. */
#include "tests/fuzz/emitted.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const EMITTED_WORDS[] = {
    /* axes, accumulators, values */
    "i", "j", "k", "l", "m", "o", "q", "r", "s", "u", "v", "w", "z", "group", "at", "inside", "rand", "value", "sum", "most",
    "at_most", "sum_best", "most_best", "at_most_best", "folded", "row", "tile", "tile_end", "partial", "key", "own", "constant",
    "from", "to",
    /* of threads of a GPU */
    "slices", "slice", "lanes", "rows", "turn", "reduced", "item", "column", "bits", "look", "mine", "hit", "point", "points",
    "in_group", "before", "across", "shift",
    /* of the parts of moments */
    "number", "mean", "squares",
    /* parameters, and what scans have */
    "argument", "step", "part", "n", "begin", "end", "path", "work", "given", "calls", "numbers", "fresh", "chunks", "chunk", "t",
    "last", "shared", "a", "b", "c", "g", "y", "dq", "dk", "dv", "dqkv", "x", "sums", "values", "places",
    /* tables of the program */
    "argc", "argv", "main", "program", "plans", "variables", "copies", "averages", "inputs", "outputs", "sets", "settings",
    "told", "later", "fixed_settings", "layers", "plateaus", "initials", "kernel_digests", "exported", "outline", "export_onnx",
    "export_torch", "export_onnx_variables", "export_torch_variables", NULL};

/* of C, C++, CUDA and their libraries; and OUTPUTS, of the program */
static const char *const LANGUAGE[] = {"const",
                                       "static",
                                       "extern",
                                       "struct",
                                       "enum",
                                       "void",
                                       "char",
                                       "int",
                                       "unsigned",
                                       "bool",
                                       "float",
                                       "double",
                                       "size_t",
                                       "int8_t",
                                       "uint8_t",
                                       "int16_t",
                                       "uint16_t",
                                       "int32_t",
                                       "uint32_t",
                                       "int64_t",
                                       "uint64_t",
                                       "for",
                                       "if",
                                       "else",
                                       "while",
                                       "break",
                                       "continue",
                                       "return",
                                       "sizeof",
                                       "true",
                                       "false",
                                       "NULL",
                                       "nullptr",
                                       "INFINITY",
                                       "NAN",
                                       "INT64_C",
                                       "INT8_MIN",
                                       "INT16_MIN",
                                       "INT32_MIN",
                                       "INT64_MIN",
                                       "memcpy",
                                       "memset",
                                       "restrict",
                                       "__restrict__",
                                       "constexpr",
                                       "__attribute__",
                                       "alias",
                                       "__asm__",
                                       "__builtin_nan",
                                       "__global__",
                                       "__device__",
                                       "__launch_bounds__",
                                       "__grid_constant__",
                                       "__syncthreads",
                                       "__ffs",
                                       "__ballot_sync",
                                       "blockIdx",
                                       "gridDim",
                                       "threadIdx",
                                       "OUTPUTS",
                                       NULL};

typedef struct Scanner {
    const char *text, *at, *end;
    char *problem;
    size_t room;
} Scanner;

static const char *wrong(Scanner *s, const char *what)
{
    int line = 1;
    for (const char *c = s->text; c < s->at; c++)
        line += *c == '\n';
    int length = 0;
    while (length < 60 && s->at + length < s->end && s->at[length] != '\n')
        length++;
    snprintf(s->problem, s->room, "line %d: %s: %.*s", line, what, length, s->at);
    return s->problem;
}

static bool starts(const Scanner *s, const char *what) { return strncmp(s->at, what, strlen(what)) == 0; }
static bool is_digit(char c) { return c >= '0' && c <= '9'; }
static bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }

/* of a character beyond ASCII: its length; 0: it is no UTF-8, or none that is seen and keeps its place */
static int visible(const unsigned char *c)
{
    int length = c[0] >= 0xF0 ? 4 : c[0] >= 0xE0 ? 3 : 2;
    unsigned code = c[0] & (0x7Fu >> length);
    for (int i = 1; i < length; i++) {
        if ((c[i] & 0xC0) != 0x80)
            return 0;
        code = code << 6 | (c[i] & 0x3Fu);
    }
    static const unsigned HIDDEN[][2] = {{0, 0x9F},        {0x61C, 0x61C},   {0x200E, 0x200F}, {0x2028, 0x202E},
                                         {0x2066, 0x2069}, {0xD800, 0xDFFF}, {0x110000, ~0u}};
    for (size_t i = 0; i < sizeof HIDDEN / sizeof *HIDDEN; i++)
        if (code >= HIDDEN[i][0] && code <= HIDDEN[i][1])
            return 0;
    return c[0] >= 0xC2 && c[0] < 0xF5 ? length : 0;
}

/* one character that means nothing but itself */
static const char *character(Scanner *s)
{
    if ((unsigned char)*s->at >= 128) {
        int length = visible((const unsigned char *)s->at);
        if (!length)
            return wrong(s, "a character that is not seen as it is compiled");
        s->at += length;
        return NULL;
    }
    if (((unsigned char)*s->at < 32 && *s->at != '\n') || *s->at == 127)
        return wrong(s, "a control character");
    if (starts(s, "??"))
        return wrong(s, "a trigraph may begin");
    s->at++;
    return NULL;
}

static const char *comment(Scanner *s)
{
    for (s->at += 2; s->at < s->end && !starts(s, "*/");) {
        if (starts(s, "/*"))
            return wrong(s, "a comment begins in a comment");
        if (starts(s, "\\\n"))
            return wrong(s, "a line of a comment goes on");
        const char *why = character(s);
        if (why)
            return why;
    }
    if (s->at >= s->end)
        return wrong(s, "a comment does not end");
    s->at += 2;
    return NULL;
}

static const char *string(Scanner *s)
{
    for (s->at++; s->at < s->end && *s->at != '"';) {
        if (*s->at == '\n')
            return wrong(s, "a string does not end on its line");
        const char *why = NULL;
        if (*s->at != '\\')
            why = character(s);
        else if (strchr("\"\\n", s->at[1]))
            s->at += 2;
        else if (is_digit(s->at[1]) && is_digit(s->at[2]) && is_digit(s->at[3]))
            s->at += 4;
        else
            why = wrong(s, "an escape of a string");
        if (why)
            return why;
    }
    if (s->at >= s->end)
        return wrong(s, "a string does not end");
    s->at++;
    return NULL;
}

static const char *directive(Scanner *s)
{
    if (!starts(s, "#include \"mgpu") && !starts(s, "#define MGPU_") && !starts(s, "#pragma omp ") &&
        !starts(s, "#pragma unroll") && !starts(s, "#pragma GCC "))
        return wrong(s, "a line of the preprocessor");
    while (s->at < s->end && *s->at != '\n')
        s->at++;
    return NULL;
}

static bool is_in(const char *const *list, const char *word, size_t length)
{
    for (; *list; list++)
        if (strlen(*list) == length && memcmp(*list, word, length) == 0)
            return true;
    return false;
}

static bool begins(const char *word, size_t length, const char *with)
{
    size_t own = strlen(with);
    return length >= own && memcmp(word, with, own) == 0;
}

static bool is_known(const char *word, size_t length)
{
    static const char *const PREFIX[] = {"mgpu_", "MGPU_", "v_", "k_", "columns_", "calls_", NULL};
    static const char *const NUMBERED[] = {"k",    "v",    "f", "a",
                                           "host", "cuda", NULL}; /* kernels, plans: with a number, and more */
    for (int i = 0; PREFIX[i]; i++)
        if (begins(word, length, PREFIX[i]))
            return true;
    for (int i = 0; NUMBERED[i]; i++)
        if (begins(word, length, NUMBERED[i]) && length > strlen(NUMBERED[i]) && is_digit(word[strlen(NUMBERED[i])]))
            return true;
    if (is_in(LANGUAGE, word, length) || is_in(EMITTED_WORDS, word, length))
        return true;
    size_t number = length;
    while (number > 0 && is_digit(word[number - 1]))
        number--;
    return number < length && number > 1 && word[number - 1] == '_' && is_in(EMITTED_WORDS, word, number - 1);
}

static const char *word(Scanner *s)
{
    const char *begin = s->at;
    bool member = begin > s->text && (begin[-1] == '.' || (begin > s->text + 1 && begin[-2] == '-' && begin[-1] == '>'));
    while (s->at < s->end && (is_letter(*s->at) || is_digit(*s->at)))
        s->at++;
    if (member || is_known(begin, (size_t)(s->at - begin)))
        return NULL;
    s->at = begin;
    return wrong(s, "a name that is neither the language's nor the compiler's");
}

const char *emitted_problem(const char *text, size_t length, char *problem, size_t room)
{
    Scanner s = {text, text, text + length, problem, room};
    const char *why = NULL;
    while (!why && s.at < s.end) {
        if (starts(&s, "/*")) {
            why = comment(&s);
        } else if (starts(&s, "//") || *s.at == '\\' || *s.at == '\'' || *s.at == '`' || *s.at == '@' || *s.at == '$' ||
                   (unsigned char)*s.at >= 128) {
            why = wrong(&s, "a character that no emitted text has");
        } else if (*s.at == '"') {
            why = string(&s);
        } else if (*s.at == '#') {
            why = directive(&s);
        } else if (is_letter(*s.at)) {
            why = word(&s);
        } else if (is_digit(*s.at)) { /* a number, with its letters */
            while (s.at < s.end &&
                   (is_digit(*s.at) || is_letter(*s.at) || *s.at == '.' || (strchr("+-", *s.at) && strchr("eE", s.at[-1]))))
                s.at++;
        } else {
            why = character(&s);
        }
    }
    return why;
}
