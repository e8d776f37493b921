/* hostile.c: see hostile.h. */
#include "tests/fuzz/hostile.h"

#include <stddef.h>

const char *const HOSTILE_WORDS[] = {
    /* C and C++ */
    "auto", "break", "case", "char", "const", "continue", "default", "do", "double", "enum", "extern", "float", "goto", "inline", "int", "long",
    "register", "restrict", "short", "signed", "sizeof", "static", "struct", "switch", "typedef", "union", "unsigned", "void", "volatile", "while",
    "_Bool", "_Complex", "_Atomic", "_Generic", "_Alignas", "_Noreturn", "_Static_assert", "_Thread_local", "_Float16", "bool", "asm", "typeof",
    "__typeof__", "__attribute__", "__asm__", "__extension__", "__func__", "alignas", "alignof", "bitand", "catch", "class", "compl", "concept",
    "constexpr", "decltype", "delete", "explicit", "export", "friend", "mutable", "namespace", "new", "noexcept", "nullptr", "operator",
    "private", "public", "requires", "template", "this", "throw", "try", "typeid", "typename", "using", "virtual", "wchar_t", "xor",
    /* macros of compilers and headers */
    "linux", "unix", "i386", "__linux__", "__FILE__", "__LINE__", "__COUNTER__", "__VA_ARGS__", "__STDC__", "__STDC_", "__cplusplus",
    "__CUDA_ARCH__", "NULL", "EOF", "I", "M_PI", "M_PI_2", "M_E", "NAN", "INFINITY", "HUGE_VAL", "SIZE_MAX", "INT_MAX", "INT64_MIN", "INT64_C",
    "UINT64_MAX", "CHAR_BIT", "RAND_MAX", "BUFSIZ", "FLT_EPSILON", "errno", "stdin", "stdout", "stderr", "assert", "isnan", "signbit", "offsetof",
    "va_list", "va_arg", "complex", "imaginary", "noreturn", "S_IFMT", "st_mtime", "sa_handler", "PIPE_BUF", "environ",
    /* types and functions */
    "size_t", "int64_t", "uint8_t", "uint64_t", "FILE", "memcpy", "memset", "malloc", "free", "printf", "main", "exit", "system", "fabs",
    "fmin", "pow", "j0", "j1", "y0", "y1", "jn", "gamma", "index", "signal", "time", "div",
    /* CUDA */
    "threadIdx", "blockIdx", "blockDim", "gridDim", "warpSize", "half", "float4", "dim3", "__global__", "__device__", "__shared__",
    "__syncthreads", "__launch_bounds__", "atomicAdd", "CUDART_VERSION",
    /* of emitted text and of the runtime */
    "argument", "step", "part", "n", "begin", "end", "path", "work", "given", "numbers", "own", "fresh", "chunks", "first", "last", "i", "j",
    "t", "v", "v_", "v_x", "v0", "v_0", "k0", "k1_finish", "f0", "partial", "key", "tile", "row", "at", "inside", "draw", "folded",
    "mgpu", "mgpu_step", "mgpu_share", "mgpu_exact_f16", "MGPU_KERNELS", "MGPU_SMALL", "MGPU_ENTRY", "mgpu_kernels", "OUTPUTS", NULL};

static const char LONG[10001] = {[0 ... 9999] = 'l'};
const char *const HOSTILE_NAMES[] = {
    "*/", "/*", "*/ /* ?\?/", "?\?/", "?\?/\n", "*\\\n/", "*?\?/\n/", "\\", "a\\", "\"", "\\\"", "\", \"", "\"}}; /*", "'", "%s%n%d", "%", "a\nb",
    "\n#error\n", "\n#include \"/dev/null\"\n", "//", "// \\\n", "a\rb", "a\tb", "\x01\x1b[31m", "\x7f", "$(exit 9)", "`", ";", "{", "}",
    "*/ int i = 0; /*", "*/\n#undef NULL\n/*", "?\?<", "?\?=define i j", "-", "--", "#", "@", "k0", "v_0", "mgpu_step", "e.g. this",
    "\xc3\xa9t\xc3\xa9", "\xe6\x97\xa5\xe6\x9c\xac", "\xf0\x9f\xa6\x86", "a\xe2\x80\xae" "b", "\xe2\x81\xa6*/\xe2\x81\xa9", "\xe2\x80\xa8", "\xef\xbb\xbf",
    "\xc2\xa0", "\xc2\xad", "\xef\xbf\xbf", LONG, NULL};
