/* python.c: writes names, texts, numbers and tuples of Python. */
#include "compiler/export/python.h"

#include <ctype.h>
#include <math.h>
#include <string.h>

const char *python_word(const char *label)
{
    static const char *const TAKEN[] = {"and",   "as",     "assert",   "break",   "class", "continue", "def",   "del",    "elif",
                                        "else",  "except", "finally",  "for",     "from",  "global",   "if",    "import", "in",
                                        "is",    "lambda", "nonlocal", "not",     "or",    "pass",     "raise", "return", "try",
                                        "while", "with",   "yield",    "None",    "True",  "False",    "async", "await",  "torch",
                                        "math",  "F",      "nn",       "pathlib", "self",  "range",    "len"};
    char name[64];
    size_t length = 0;
    for (const char *p = label; *p && length < sizeof name - 1; p++)
        name[length++] = (char)(isalnum((unsigned char)*p) ? *p : '_');
    name[length] = 0;
    bool bad = !isalpha((unsigned char)name[0]) && name[0] != '_';
    for (int i = 0; i < COUNT(TAKEN); i++)
        bad = bad || strcmp(name, TAKEN[i]) == 0;
    return format("%s%s", bad ? "v_" : "", name);
}

const char *python_name(Map *used, const char *label)
{
    const char *word = python_word(label), *name = word;
    for (int n = 2; map_get(used, name); n++)
        name = format("%s_%d", word, n);
    map_set(used, name, used);
    return name;
}

const char *python_text(const char *text)
{
    Text t = {0};
    text_add(&t, "\"");
    for (; *text; text++)
        text_add(&t,
                 *text == '"' || *text == '\\' ? "\\%c"
                 : (unsigned char)*text < ' '  ? "\\x%02x"
                                               : "%c",
                 (unsigned char)*text);
    text_add(&t, "\"");
    return text_of(&t);
}

const char *python_number(double v, Dtype t)
{
    if (t == BOOL)
        return v != 0 ? "True" : "False";
    if (!dtype_is_float(t))
        return format("%.0f", v);
    if (isnan(v))
        return "math.nan";
    if (isinf(v))
        return v < 0 ? "-math.inf" : "math.inf";
    const char *text = format("%.15g", v);
    double back = 0;
    if (sscanf(text, "%lf", &back) != 1 || back != v)
        text = format("%.17g", v);
    return strpbrk(text, ".e") ? text : format("%s.0", text);
}

const char *python_dtype(Dtype t)
{
    static const char *const WORDS[DTYPES] = {"bool",  "uint8", "int8",    "uint16",   "int16",   "uint32",
                                              "int32", "int64", "float16", "bfloat16", "float32", "float64"};
    return format("torch.%s", WORDS[t]);
}

const char *python_tuple(const int64_t *v, int count)
{
    Text t = {0};
    text_add(&t, "(");
    for (int i = 0; i < count; i++)
        text_add(&t, "%s%lld", i ? ", " : "", (long long)v[i]);
    text_add(&t, count == 1 ? ",)" : ")");
    return text_of(&t);
}

const char *python_each(const int64_t *v, int count)
{
    for (int i = 1; i < count; i++)
        if (v[i] != v[0])
            return python_tuple(v, count);
    return count ? format("%lld", (long long)v[0]) : "()";
}
