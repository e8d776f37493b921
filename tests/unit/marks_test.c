/* marks_test.c: what a printed text knows of its numbers (c/marks.h): which may be handed over, and which texts are of one form. */
#include "compiler/target/c/marks.h"

#include <stdio.h>
#include <string.h>

static Printer printer = {.marks = true};

static const char *line(const char *name, int64_t factor, int64_t bound, double number)
{
    Printer *p = &printer;
    const char *x = emit_marked_name(p, name);
    const char *load = emit_element(p, x, format("%s * i", emit_count(p, factor)));
    return format("if (i < %s)%s y += %s * mgpu_pow(%s);\n", emit_count(p, bound), emit_remark(p, " /* all */"), emit_number(p, number, F32),
                  emit_constants(p, format("%s, %s", load, emit_number(p, 2.5, F32))));
}

static const char *plain(const char *text, const char *const *instead)
{
    Text t = {0};
    marked_print(text, instead, NULL, NULL, &t);
    return text_take(&t);
}

static const char *form(const char *text)
{
    Text t = {0};
    marked_form(text, &t);
    return text_take(&t);
}

static const char *numbers(const char *text)
{
    Numbers found = {0};
    Text t = {0};
    marked_numbers(text, &found);
    for (int i = 0; i < found.count; i++)
        text_add(&t, "%d:%.*s ", found.list[i].kind, found.list[i].length, found.list[i].at);
    return text_take(&t);
}

static bool expect(const char *what, const char *is, const char *wanted)
{
    bool right = strcmp(is, wanted) == 0;
    printf(right ? "ok %s\n" : "not ok %s: \"%s\", not \"%s\"\n", what, is, wanted);
    return right;
}

int main(void)
{
    const char *text = line("x", 64, 100, -0.5);
    const char *const instead[] = {"given.at[0]", NULL, "given.at[1]"};
    bool good = expect("a text without its marks", plain(text, NULL), "if (i < 100) /* all */ y += -0.5f * mgpu_pow(x[64 * i], 2.5f);\n");
    good = expect("numbers but arguments, and those in indices", numbers(text), "0:100 2:0.5f 0:64 ") && good;
    good = expect("some numbers are replaced", plain(text, instead),
                  "if (i < given.at[0]) /* all */ y += -0.5f * mgpu_pow(x[given.at[1] * i], 2.5f);\n") && good;
    good = expect("names, numbers and remarks are no part of a form", form(line("other", 32, 7, -0.25)), form(text)) && good;
    good = expect("a form", form(text), "if (i < #i) y += -#f * mgpu_pow($0[#i * i], 2.5f);\n") && good;
    good = expect("1 is no number", numbers(line("x", 1, 0, 1)), "") && good;
    good = expect("nor is what an int cannot hold", numbers(line("x", INT64_C(1) << 40, 100, 1)), "0:100 ") && good;
    good = expect("a count behind a division", numbers(format("i / %s", emit_over(emit_count(&printer, 12)))), "1:12 ") && good;
    good = expect("a name behind a division", emit_over("n"), "n") && good;
    good = expect("the length is what a reader sees", format("%d", (int)emit_length(emit_count(&printer, 1234))), "4") && good;
    printer.marks = false;
    good = expect("a printer without marks", line("x", 64, 100, -0.5), "if (i < 100) /* all */ y += -0.5f * mgpu_pow(x[64 * i], 2.5f);\n") && good;
    return !good;
}
