/* parameters.c: kernels that differ only in numbers share one function, to which launches pass the numbers.
 *
 * A deep model has the same element-wise kernels and sums for every width and resolution, and each would take NVRTC equally long.
 * In: the kernels of all phases, with their code, which contains extents, strides and constants of the model. Kernels whose code
 * is otherwise equal use the function of the first of them. Each number in which they differ becomes a word of a parameter by
 * value (mgpu_parameters), which instructions access as fast as constants. A division by an extent becomes a multiplication
 * (mgpu_divisor).
 *
 * Numbers that the compiler has to know are never parameters: unroll counts, numbers of lanes, sizes of arrays. And kernels stay
 * as they are if their threads do little but divide, or divide numbers of 64 bits, which is faster with constants. */
#include "compiler/kernel/identity.h"
#include "compiler/kernel/kernel.h"
#include "compiler/target/cuda/cuda.h"

#include <stdlib.h>
#include <string.h>

/* ---- kernels with one form */

typedef struct SharedFunction {
    Kernel **kernels;
    int count;
    Numbers *numbers; /* by kernel; those of the finishing function follow those of the function */
} SharedFunction;

static bool same_number(const Term *a, const Term *b) { return strcmp(a->word, b->word) == 0; }

static bool differs(const SharedFunction *f, int number)
{
    for (int k = 1; k < f->count; k++)
        if (!same_number(f->numbers[0].list[number], f->numbers[k].list[number]))
            return true;
    return false;
}

static bool same_in_all(const SharedFunction *f, int a, int b)
{
    for (int k = 0; k < f->count; k++)
        if (!same_number(f->numbers[k].list[a], f->numbers[k].list[b]))
            return false;
    return true;
}

enum { FEW_DIVISIONS = 3, MOST_NUMBERS = 256, MOST_WORDS = 256 /* a quarter of the 4 KiB of parameters */ };

/* Returns true if an index has 64 bits. */
static bool is_64_bit(const Nest *nest)
{
    bool large = !nest->mapping.narrow;
    for (int i = 0; i < nest->exprs->count && !large; i++)
        large = expr_is_index(nest->exprs->all[i]) && cuda_index_is_64_bit(nest, nest->exprs->all[i]);
    return large;
}

/* A thread that loads vectors waits for memory for so long that divisions take no time. */
static bool is_worth_it(const SharedFunction *f)
{
    static const int WORDS[] = {[NUMBER_INT] = 1, [NUMBER_DIVISOR] = 3, [NUMBER_F32] = 1, [NUMBER_F64] = 2};
    const Kernel *k = f->kernels[0];
    int divisions = 0, words = 0;
    bool large = false, vectors = false;
    for (int i = 0; i < k->nest_count; i++) {
        large = large || is_64_bit(&k->nests[i]);
        vectors = vectors || k->nests[i].mapping.vector > 1;
    }
    for (int i = 0; i < f->numbers[0].count; i++)
        if (differs(f, i)) {
            words += WORDS[f->numbers[0].list[i]->number];
            divisions += f->numbers[0].list[i]->number == NUMBER_DIVISOR;
        }
    return words <= MOST_WORDS && (divisions == 0 || (!large && (vectors || divisions <= FEW_DIVISIONS)));
}

/* ---- parameters: words of 32 bits */

/* Computes the mgpu_divisor of a number from 2 to 2^31. */
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

static void give(Kernel *k, const Term *n)
{
    double value = strtod(n->word, NULL);
    k->parameter_words = format("%s%s%s %s", k->parameter_count ? k->parameter_words : "", k->parameter_count ? ", " : "",
                                parameter_text(n->number, k->parameter_count), n->word);
    if (n->number == NUMBER_F32) {
        float single = strtof(n->word, NULL);
        uint32_t bits;
        memcpy(&bits, &single, sizeof bits);
        add_word(k, bits);
    } else if (n->number == NUMBER_F64) {
        uint64_t bits;
        memcpy(&bits, &value, sizeof bits);
        add_word(k, (uint32_t)bits);
        add_word(k, (uint32_t)(bits >> 32));
    } else {
        uint32_t words[3];
        cuda_divisor((uint32_t)value, words);
        for (int i = 0; i < (n->number == NUMBER_INT ? 1 : 3); i++)
            add_word(k, words[i]);
    }
}

/* Makes all kernels of a form use the functions of the first. */
static void make_one(const SharedFunction *f)
{
    int count = f->numbers[0].count, *first = NEW_ARRAY(int, count);
    Kernel *own = f->kernels[0];
    own->parameter_at = NEW_ARRAY(const char *, count);
    for (int i = 0; i < count; i++) {
        first[i] = -1;
        if (!differs(f, i))
            continue;
        NumberKind kind = f->numbers[0].list[i]->number;
        for (int k = 0; k < i && first[i] < 0; k++)
            if (first[k] >= 0 && f->numbers[0].list[k]->number == kind && same_in_all(f, k, i))
                first[i] = first[k];
        if (first[i] < 0) {
            first[i] = own->parameter_count;
            for (int k = 0; k < f->count; k++)
                give(f->kernels[k], f->numbers[k].list[i]);
        }
        own->parameter_at[i] = format("given.%s", parameter_text(kind, first[i]));
    }
    for (int k = 1; k < f->count; k++)
        f->kernels[k]->canonical = own;
}

static const char *shared_name_of(const Kernel *k)
{
    Text text = {0};
    code_print_canonical(k->code, &text);
    if (k->finish_code)
        code_print_canonical(k->finish_code, &text);
    Digest d = mgpu_sha256_of(text_of(&text), text.length);
    return identity_key(&d);
}

void cuda_give_numbers(Program *p)
{
    Map forms = {0};
    for (int i = 0; i < p->kernel_count; i++) {
        Kernel *k = p->kernels[i];
        if (!k->nest_count || k->canonical || k->path_count)
            continue;
        Numbers numbers = {0};
        code_numbers(k->code, &numbers);
        if (k->finish_code)
            code_numbers(k->finish_code, &numbers);
        const char *key = shared_name_of(k);
        SharedFunction *f = map_get(&forms, key);
        if (!f) {
            f = NEW(SharedFunction);
            map_set(&forms, key, f);
        }
        int last = f->count;
        APPEND(f->kernels, f->count, k);
        APPEND(f->numbers, last, numbers);
    }
    for (int i = 0; i < forms.count; i++) {
        SharedFunction *f = forms.values[i];
        if (f->count > 1 && f->numbers[0].count <= MOST_NUMBERS && is_worth_it(f))
            make_one(f);
    }
}

void cuda_print_with_parameters(const Kernel *k, bool finish, Text *t)
{
    Numbers before = {0};
    if (finish && k->parameter_at)
        code_numbers(k->code, &before);
    CodePrint how = {.kernel = k->name,
                     .given = k->parameter_at ? k->parameter_at + before.count : NULL,
                     .paths = k->paths,
                     .path_count = k->path_count};
    how.more = k->parameter_count ? format(", const __grid_constant__ mgpu_parameters<%d> given", k->parameter_count) : NULL;
    code_print(finish ? k->finish_code : k->code, &how, t);
}
