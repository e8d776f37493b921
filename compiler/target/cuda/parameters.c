/* given.c: kernels that differ in numbers alone are one function, and their launches give the numbers.
 *
 * A deep model has the same element-wise kernels and sums for every width and resolution, and NVRTC takes as long for each. In:
 * the kernels of all phases, with their text. Numbers in it are extents, strides and constants of the model. Kernels whose text
 * is the same without them are those of the first one; each number in which they differ is one of a parameter by value
 * (mgpu_parameters), from where instructions take them as they take constants. A division by an extent becomes a multiplication
 * (mgpu_divisor).
 *
 * What the compiler has to know stays in the text: how far loops are unrolled, how many lanes there are, how large arrays are.
 * And kernels stay as they are whose threads do little but divide, or divide numbers of 64 bits: there constants are faster. */
#include "compiler/kernel/kernel.h"
#include "compiler/target/cuda/cuda.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* ---- the numbers of a text */

typedef enum NumberKind { NUMBER_INT, NUMBER_DIVISOR, NUMBER_F32, NUMBER_F64 } NumberKind;
typedef struct Number { const char *at; int length; NumberKind kind; } Number;
typedef struct Numbers { Number *list; int count; } Numbers;

enum { NO_ARGUMENT = 0, ALL_ARGUMENTS = 0xFF };
/* arguments of the device header's functions that stay constants, as bits; of others, powers among them, all */
static const struct { const char *function; int constants; } ARGUMENTS[] = {
    {"mgpu_grid_thread", NO_ARGUMENT}, {"mgpu_grid_group", 1 << 0},         {"mgpu_slices", NO_ARGUMENT},
    {"mgpu_slices_add", 1 << 4},       {"mgpu_slices_larger", 1 << 4},
};

static bool is_word(const char *at) { return isalpha((unsigned char)*at) || *at == '_'; }

/* of the word, the number, the comment or the character there */
static int token_length(const char *at)
{
    int length = 1;
    if (strncmp(at, "/*", 2) == 0) {
        const char *end = strstr(at, "*/");
        return (int)(end ? end + 2 - at : (long)strlen(at));
    }
    if (is_word(at))
        while (isalnum((unsigned char)at[length]) || at[length] == '_')
            length++;
    else if (isdigit((unsigned char)*at))
        while (isalnum((unsigned char)at[length]) || at[length] == '.' ||
               ((at[length] == '-' || at[length] == '+') && at[length - 1] == 'e'))
            length++;
    return length;
}

typedef struct Bracket { bool constant; int constants, argument; /* of a function */ } Bracket;

enum { DEPTH = 256 };
typedef struct Reader {
    const char *at, *word[2]; /* the last two tokens, the later one first */
    int length[2];
    Bracket bracket[DEPTH];
    int depth;
} Reader;

static bool was_word(const Reader *r, int which) { return r->word[which] && is_word(r->word[which]); }

static bool is(const Reader *r, int which, const char *text)
{
    return r->word[which] && (int)strlen(text) == r->length[which] && memcmp(r->word[which], text, strlen(text)) == 0;
}

/* a loop that counts by one is unrolled, or may be */
static bool counts_by_one(const char *at)
{
    const char *end = strchr(at, '\n'), *step = strstr(at, "++) {");
    return step && end && step < end;
}

static Bracket opened(const Reader *r)
{
    bool outer = r->depth > 0 && r->bracket[r->depth - 1].constant;
    Bracket b = {.constant = outer};
    if (*r->at == '[') {
        b.constant =
            was_word(r, 0) && (was_word(r, 1) || is(r, 1, "*")) && !is(r, 1, "return"); /* "float sum[4]", not "x[4 * i]" */
    } else if (*r->at == '{' && is(r, 0, "=")) {
        b.constant = true; /* a static table */
    } else if (*r->at == '(' && is(r, 0, "for")) {
        b.constant = counts_by_one(r->at);
    } else if (*r->at == '(' && was_word(r, 0) && strncmp(r->word[0], "mgpu_", 5) == 0) {
        b.constant = false;
        b.constants = ALL_ARGUMENTS;
        for (int i = 0; i < COUNT(ARGUMENTS); i++)
            if (is(r, 0, ARGUMENTS[i].function))
                b.constants = ARGUMENTS[i].constants;
    } else if (*r->at == '(' && was_word(r, 0) && !is(r, 0, "if") && !is(r, 0, "return") && !is(r, 0, "while")) {
        b.constant = true; /* INT64_C and its like */
    } else if (*r->at == '(' && r->depth > 0) {
        b = r->bracket[r->depth - 1];
    }
    return b;
}

/* 0 and 1 are no numbers: texts with them are other texts */
static bool may_be_parameter(const Reader *r, int length, NumberKind *kind)
{
    const char *at = r->at;
    const Bracket *in = r->depth > 0 ? &r->bracket[r->depth - 1] : NULL;
    int argument = in && in->argument < 7 ? in->argument : 7;
    bool whole = strspn(at, "0123456789") == (size_t)length;
    double value = strtod(at, NULL);
    if (!in || in->constant || in->constants >> argument & 1)
        return false;
    if (value == 0 || value == 1 || (at[0] == '0' && (at[1] == 'x' || at[1] == 'X')))
        return false;
    *kind = at[length - 1] == 'f' ? NUMBER_F32 : NUMBER_F64;
    if (!whole)
        return strspn(at, "0123456789.e+-") + (at[length - 1] == 'f') == (size_t)length;
    *kind = is(r, 0, "/") || is(r, 0, "%") ? NUMBER_DIVISOR : NUMBER_INT;
    return value <= INT32_MAX;
}

/* appends the numbers of a function's text */
static void find_numbers(const char *text, Numbers *to)
{
    Reader r = {.at = text};
    while (*r.at) {
        int length = *r.at == '#' ? (int)strcspn(r.at, "\n") : token_length(r.at); /* '#': a line of the preprocessor */
        if (isspace((unsigned char)*r.at) || *r.at == '#' || strncmp(r.at, "/*", 2) == 0) {
            r.at += length;
            continue;
        }
        if (isdigit((unsigned char)*r.at)) {
            NumberKind kind;
            if (may_be_parameter(&r, length, &kind))
                APPEND(to->list, to->count, ((Number){r.at, length, kind}));
        } else if (strchr("([{", *r.at)) {
            if (r.depth == DEPTH)
                die("brackets of a kernel are nested too deeply");
            r.bracket[r.depth] = opened(&r);
            r.depth++;
        } else if (strchr(")]}", *r.at)) {
            r.depth--;
        } else if (*r.at == ',' && r.depth > 0) {
            r.bracket[r.depth - 1].argument++;
        }
        r.word[1] = r.word[0];
        r.length[1] = r.length[0];
        r.word[0] = r.at;
        r.length[0] = length;
        r.at += length;
    }
}

/* ---- kernels with one form */

typedef struct Form {
    Kernel **kernels; int count;
    Numbers *numbers; /* of each, those of its second function behind those of the first */
} Form;

static bool is_member(const char *text, const char *at)
{
    return (at > text && at[-1] == '.') || (at > text + 1 && at[-2] == '-' && at[-1] == '>');
}

/* The text without comments, with the kinds of numbers in their place, and names by number: not those of the language and the
 * device header, of functions and members. */
static void add_form(const char *text, const Number *number, Text *form)
{
    static const char *const KIND[] = {"#i", "#i", "#f", "#d"};
    Printer known = {.cuda = true};
    Map names = {0};
    emit_reserve(&known);
    for (const char *at = text, *end; *at; at = end) {
        end = at + token_length(at);
        if (strncmp(at, "/*", 2) == 0)
            continue;
        const char *name = copy_text(at, (size_t)(end - at));
        if (number->at == at) {
            text_add(form, "%s", KIND[number->kind]);
            number++;
        } else if (is_word(at) && *end != '(' && !is_member(text, at) && strncmp(at, "mgpu_", 5) != 0 &&
                   !map_get(&known.names, name)) {
            if (!map_get(&names, name))
                map_set(&names, name, (void *)(uintptr_t)format("$%d", names.count));
            text_add(form, "%s", (const char *)map_get(&names, name));
        } else {
            text_add(form, "%s", name);
        }
    }
}

static bool same_number(const Number *a, const Number *b)
{
    return a->length == b->length && memcmp(a->at, b->at, (size_t)a->length) == 0;
}

static bool differs(const Form *f, int number)
{
    for (int k = 1; k < f->count; k++)
        if (!same_number(&f->numbers[0].list[number], &f->numbers[k].list[number]))
            return true;
    return false;
}

static bool same_in_all(const Form *f, int a, int b)
{
    for (int k = 0; k < f->count; k++)
        if (!same_number(&f->numbers[k].list[a], &f->numbers[k].list[b]))
            return false;
    return true;
}

enum { FEW_DIVISIONS = 3, MOST_NUMBERS = 256, MOST_WORDS = 256 /* a quarter of what parameters may have in all, 4 KiB */ };

/* threads that take a vector at a time wait for memory for so long that divisions take no time */
static bool is_worth_it(const Form *f)
{
    const char *text = f->kernels[0]->text;
    static const int WORDS[] = {[NUMBER_INT] = 1, [NUMBER_DIVISOR] = 3, [NUMBER_F32] = 1, [NUMBER_F64] = 2};
    int differing = 0, divisions = 0, words = 0;
    bool wide = false, vectors = strstr(text, "mgpu_load_") || strstr(text, "mgpu_store_");
    for (const char *at = text; (at = strstr(at, "int64_t ")); at++)
        wide = wide || strncmp(at, "int64_t n)", 10) != 0;
    for (int i = 0; i < f->numbers[0].count; i++)
        if (differs(f, i)) {
            differing++;
            words += WORDS[f->numbers[0].list[i].kind];
            divisions += f->numbers[0].list[i].kind == NUMBER_DIVISOR;
        }
    return differing > 0 && words <= MOST_WORDS && (divisions == 0 || (!wide && (vectors || divisions <= FEW_DIVISIONS)));
}

/* ---- what is given: words of 32 bits */

/* mgpu_divisor of a number from 2 to 2^31 */
void cuda_divisor(uint32_t by, uint32_t words[3])
{
    uint32_t shift = 1;
    while (UINT64_C(1) << shift < by)
        shift++;
    words[0] = by;
    words[1] = (uint32_t)((((UINT64_C(1) << shift) - by) << 32) / by + 1);
    words[2] = shift - 1;
}

static void add_word(Kernel *k, uint32_t word) { APPEND(k->parameters, k->parameter_count, word); }

static const char *parameter_text(NumberKind kind, int word)
{
    static const char *const BEFORE[] = {"at[", "by(", "f32(", "f64("};
    return format("%s%d%s", BEFORE[kind], word, kind == NUMBER_INT ? "]" : ")");
}

static void give(Kernel *k, const Number *n)
{
    double value = strtod(n->at, NULL);
    k->parameter_words = format("%s%s%s %.*s", k->parameter_count ? k->parameter_words : "", k->parameter_count ? ", " : "",
                                parameter_text(n->kind, k->parameter_count), n->length, n->at);
    if (n->kind == NUMBER_F32) {
        float single = strtof(n->at, NULL);
        uint32_t bits;
        memcpy(&bits, &single, sizeof bits);
        add_word(k, bits);
    } else if (n->kind == NUMBER_F64) {
        uint64_t bits;
        memcpy(&bits, &value, sizeof bits);
        add_word(k, (uint32_t)bits);
        add_word(k, (uint32_t)(bits >> 32));
    } else {
        uint32_t words[3];
        cuda_divisor((uint32_t)value, words);
        for (int i = 0; i < (n->kind == NUMBER_INT ? 1 : 3); i++)
            add_word(k, words[i]);
    }
}

/* the text with what is given at words first[i] of number i (-1: as it is) */
static const char *with_parameters(const char *text, const Number *numbers, int count, const int *first, int words)
{
    static const char LAST_PARAMETER[] = "int64_t n)";
    Text t = {0};
    const char *at = strstr(text, LAST_PARAMETER) + strlen(LAST_PARAMETER) - 1;
    text_bytes(&t, text, (size_t)(at - text));
    text_add(&t, ", const __grid_constant__ mgpu_parameters<%d> given", words);
    for (int i = 0; i < count; i++) {
        const Number *n = &numbers[i];
        if (first[i] < 0)
            continue;
        text_bytes(&t, at, (size_t)(n->at - at));
        text_add(&t, "given.%s", parameter_text(n->kind, first[i]));
        at = n->at + n->length;
    }
    text_add(&t, "%s", at);
    return text_take(&t);
}

/* all kernels of a form become the first of them */
static void make_one(const Form *f)
{
    int count = f->numbers[0].count, *first = NEW_ARRAY(int, count);
    Kernel *own = f->kernels[0];
    for (int i = 0; i < count; i++) {
        first[i] = -1;
        if (!differs(f, i))
            continue;
        for (int k = 0; k < i && first[i] < 0; k++)
            if (first[k] >= 0 && f->numbers[0].list[k].kind == f->numbers[0].list[i].kind && same_in_all(f, k, i))
                first[i] = first[k];
        if (first[i] >= 0)
            continue;
        first[i] = own->parameter_count;
        for (int k = 0; k < f->count; k++)
            give(f->kernels[k], &f->numbers[k].list[i]);
    }
    for (int k = 1; k < f->count; k++)
        f->kernels[k]->canonical = own;
    int begin = 0; /* numbers of the first function */
    const char *behind = own->text + strlen(own->text);
    while (begin < count && f->numbers[0].list[begin].at >= own->text && f->numbers[0].list[begin].at < behind)
        begin++;
    own->text = with_parameters(own->text, f->numbers[0].list, begin, first, own->parameter_count);
    if (own->finish_text)
        own->finish_text =
            with_parameters(own->finish_text, f->numbers[0].list + begin, count - begin, first + begin, own->parameter_count);
}

void cuda_give_numbers(Program *p)
{
    Map forms = {0};
    for (int i = 0; i < p->kernel_count; i++) {
        Kernel *k = p->kernels[i];
        Text text = {0};
        Numbers numbers = {0};
        if (!k->nest_count || k->canonical || k->path_count)
            continue;
        find_numbers(k->text, &numbers);
        int begin = numbers.count;
        if (k->finish_text)
            find_numbers(k->finish_text, &numbers);
        APPEND(numbers.list, numbers.count, ((Number){0})); /* an end */
        numbers.count--;
        add_form(k->text, numbers.list, &text);
        if (k->finish_text)
            add_form(k->finish_text, numbers.list + begin, &text);
        const char *key = text_take(&text);
        Form *f = map_get(&forms, key);
        if (!f) {
            f = NEW(Form);
            map_set(&forms, key, f);
        }
        int last = f->count;
        APPEND(f->kernels, f->count, k);
        APPEND(f->numbers, last, numbers);
    }
    for (int i = 0; i < forms.count; i++) {
        Form *f = forms.values[i];
        if (f->count > 1 && f->numbers[0].count <= MOST_NUMBERS && is_worth_it(f))
            make_one(f);
    }
}
