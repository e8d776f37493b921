/* c_text_test.c: whatever a text holds, its comment ends where it should, its string has its bytes, its name is an identifier.
 * Texts of the signs that matter to C, and of all bytes; read by the scanner of tests/fuzz/emitted.c. */
#include "compiler/base/c_text.h"
#include "tests/fuzz/emitted.h"

#include <stdlib.h>
#include <string.h>

static int failures;

static void expect(const char *name, const char *said, const char *wanted)
{
    bool good = said && strcmp(said, wanted) == 0;
    printf(good ? "ok %s\n" : "not ok %s: %s\n", name, said ? said : "none");
    failures += !good;
}

static void examples(void)
{
    expect("harmless comments stay as they are", c_comment("k%d: relu(conv_1 + \"b\")  a/b.net:3", 3),
           "/* k3: relu(conv_1 + \"b\")  a/b.net:3 */");
    expect("a comment's end in a text", c_comment("%s", "a */ b"), "/* a *\\x2f b */");
    expect("a comment's end made of two texts", c_comment("%s%s", "*", "/"), "/* *\\x2f */");
    expect("a comment's beginning", c_comment("%s", "/*/"), "/* /\\x2a/ */");
    expect("a backslash at the end of a line", c_comment("%s", "*\\\n/"), "/* *\\x5c\\x0a/ */");
    expect("trigraphs", c_comment("%s", "*?\?/"), "/* *?\\x3f/ */");
    expect("two lines", c_comment_lines((const char *const[]){"a\nb", "*/"}, 2), "/* a\\x0ab\n * *\\x2f */");
    expect("letters", c_comment("%s", "\xc3\xa9 \xf0\x9f\xa6\x86"), "/* \xc3\xa9 \xf0\x9f\xa6\x86 */");
    expect("directions", c_comment("%s", "\xe2\x80\xae"), "/* \\xe2\\x80\\xae */");
    expect("harmless strings stay as they are", c_string("w.fc.weight, \xc3\xa9"), "\"w.fc.weight, \xc3\xa9\"");
    expect("quotes, backslashes, lines, trigraphs", c_string("\"\\\n?\?/\t1"), "\"\\\"\\\\\\n\\077\\077/\\0111\"");
    expect("names keep their letters", c_name("fc1.weight"), "v_fc1_weight");
    expect("words of C", c_name("M_PI"), "v_M_PI");
    expect("long names", c_name("abcdefghijklmnopqrstuvwxyz0123456789abcdefghij"), "v_abcdefghijklmnopqrstuvwxyz0123456789abcd");
    expect("no letters", c_name("*/") ? "some" : "none", "none");
}

static uint64_t state = 7;

static int below(int n)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (int)((state >> 33) % (uint64_t)n);
}

/* the bytes of a string literal */
static size_t value_of(const char *literal, char *value)
{
    size_t length = 0;
    for (const char *at = literal + 1; *at && strcmp(at, "\"") != 0;) {
        if (*at != '\\') {
            value[length++] = *at++;
        } else if (at[1] >= '0' && at[1] <= '7') {
            char digits[4] = {at[1], at[2], at[3]};
            value[length++] = (char)strtol(digits, NULL, 8);
            at += 4;
        } else {
            value[length++] = at[1] == 'n' ? '\n' : at[1];
            at += 2;
        }
    }
    value[length] = 0;
    return length;
}

static void any_text(char *text, int length)
{
    static const char *const SIGNS[] = {"*", "/", "\\", "\n", "?",  "\"",           "'",       "=", "<", "#",
                                        "%", "a", "1",  " ",  "\r", "\xe2\x80\xae", "\xc3\xa9"};
    *text = 0;
    for (int i = 0; i < length; i++) {
        char byte[2] = {(char)(1 + below(255)), 0};
        strcat(text, below(8) ? SIGNS[below(COUNT(SIGNS))] : byte);
    }
}

int main(void)
{
    examples();
    enum { TEXTS = 20000, MOST = 24 };
    const char *why = NULL;
    for (int i = 0; i < TEXTS && !why; i++) {
        char text[4 * MOST], more[4 * MOST], value[4 * MOST], problem[256];
        any_text(text, below(MOST));
        any_text(more, below(MOST));
        Memory *own = memory_new(), *outer = memory_use(own);
        const char *string = c_string(text), *name = c_name(text), *lines[] = {text, more};
        const char *all = format("%s%s%s%s", c_comment("%s%s", text, more), c_comment_lines(lines, 2), string, name ? name : "");
        value_of(string, value);
        why = emitted_problem(all, strlen(all), problem, sizeof problem) ? format("%s", problem)
              : strcmp(value, text)                                      ? "a string has other bytes"
                                                                         : NULL;
        if (why)
            printf("not ok text of any characters, %d: %s, of %s\n", i, why, c_string(text));
        memory_use(outer);
        memory_free(own);
    }
    if (!why)
        printf("ok text of any characters\n");
    return failures || why;
}
