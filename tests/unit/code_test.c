/* code_test.c: kernels as trees (code/code.h): how they are printed, with as few parentheses as C needs; their numbers, which may
 * be handed over; and which are of one form. */
#include "compiler/code/code.h"

#include <stdio.h>
#include <string.h>

/* if (i < bound) { y += number * mgpu_pow(name[factor * i], 2.5f); } */
static const Code *code(const char *name, const char *factor, const char *bound, const char *number)
{
    static const CodeParameter PARAMETER[] = {{"int64_t", NULL, NULL}};
    Code *c = NEW(Code);
    *c = (Code){.parameters = (CodeParameter *)(uintptr_t)PARAMETER, .parameter_count = 1};
    CodeBuilder b = {.code = c};
    const Term *i = term_word("i"), *x = term_name(name);
    code_declare(&b, "float", x, term_word("0"));
    c->body.list[0]->remark = name;
    code_if(&b, term_binary(LEVEL_LESS, i, "<", term_number(NUMBER_INT, bound, false)));
    const Term *load = term_element(x, term_times(term_number(NUMBER_INT, factor, false), i));
    const Term *power = term_fixed(CALL("mgpu_pow", load, term_number(NUMBER_F32, "2.5f", false)));
    code_set(&b, term_word("y"), "+=", term_times(term_number(NUMBER_F32, number, true), power));
    code_bare(&b);
    return c;
}

static const char *printed(const Code *c, const char *const *given)
{
    Text t = {0};
    code_print(c, &(CodePrint){.given = given}, &t);
    return text_take(&t);
}

static const char *form(const Code *c)
{
    Text t = {0};
    code_print_canonical(c, &t);
    return text_take(&t);
}

static const char *numbers(const Code *c)
{
    Numbers found = {0};
    Text t = {0};
    code_numbers(c, &found);
    for (int i = 0; i < found.count; i++)
        text_add(&t, "%d:%s ", (int)found.list[i]->number, found.list[i]->word);
    return text_take(&t);
}

static bool expect(const char *what, const char *is, const char *wanted)
{
    bool right = strcmp(is, wanted) == 0;
    printf(right ? "ok %s\n" : "not ok %s: \"%s\", not \"%s\"\n", what, is, wanted);
    return right;
}

static bool parentheses(void)
{
    const Term *a = term_word("a"), *b = term_word("b"), *c = term_word("c");
    const Term *sum = term_add(a, b), *less = term_binary(LEVEL_LESS, a, "<", b), *both = term_binary(LEVEL_AND, less, "&&", c);
    const struct {
        const Term *term;
        const char *text;
    } CASE[] = {
        {term_add(sum, c), "a + b + c"},
        {term_add(c, sum), "c + (a + b)"},
        {term_times(sum, c), "(a + b) * c"},
        {term_add(term_times(a, b), c), "a * b + c"},
        {term_binary(LEVEL_PRODUCT, a, "/", term_times(b, c)), "a / (b * c)"},
        {term_binary(LEVEL_AND, c, "&&", both), "c && a < b && c"},
        {term_binary(LEVEL_OR, both, "||", c), "(a < b && c) || c"},
        {term_binary(LEVEL_LESS, less, "<", c), "(a < b) < c"},
        {term_choice(both, term_choice(a, b, c), term_choice(a, b, c)), "a < b && c ? (a ? b : c) : a ? b : c"},
        {term_cast("float", sum), "(float)(a + b)"},
        {term_unary("-", term_unary("-", a)), "-(-a)"},
        {term_binary(LEVEL_SUM, a, "-", term_unary("-", b)), "a - -b"},
        {term_element(sum, sum), "(a + b)[a + b]"},
        {CALL("f", less, term_choice(a, b, c)), "f(a < b, a ? b : c)"},
        {term_formula(LEVEL_CHOICE, LEVEL_ATOM, "a / (1 + abs(b))", 2, (const Term *[]){sum, c}), "(a + b) / (1 + abs(c))"},
    };
    bool good = true;
    for (int i = 0; i < COUNT(CASE); i++)
        good = expect(CASE[i].text, term_text(CASE[i].term), CASE[i].text) && good;
    return good;
}

int main(void)
{
    const Code *c = code("x", "64", "100", "0.5f"), *other = code("other", "32", "7", "0.25f");
    const char *const given[] = {"given.at[0]", NULL, "given.at[1]"};
    bool good =
        expect("code as text", printed(c, NULL),
               "(int64_t)\n{\n    float x = 0; x\n    if (i < 100)\n        y += -0.5f * mgpu_pow(x[64 * i], 2.5f);\n}\n");
    good = expect("numbers but arguments, and those in indices", numbers(c), "0:100 2:0.5f 0:64 ") && good;
    good = expect("some numbers are replaced", printed(c, given),
                  "(int64_t)\n{\n    float x = 0; x\n    if (i < given.at[0])\n        y += -0.5f * mgpu_pow(x[given.at[1] * i], "
                  "2.5f);\n}\n") &&
           good;
    good = expect("names, numbers and remarks are no part of a form", form(other), form(c)) && good;
    good = expect("a form", form(c), "(int64_t)\n{\nfloat $0 = 0;\nif (i < #i)\ny += -#f * mgpu_pow($0[#i * i], 2.5f);\n}\n") &&
           good;
    good = expect("a copy is the same", printed(code_copy(c), NULL), printed(c, NULL)) && good;
    good = parentheses() && good;
    return !good;
}
