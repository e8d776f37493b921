/* test.c: the test of a compiler before its first use, and its long form.
 *
 * Both use graphs that compilers have computed wrongly, and random ones. The short form uses the same few each time. The long
 * form makes new ones until its time is over, with matmuls by each instruction set of the runtime library in turn. */
#include "compiler/selftest/selftest.h"
#include "compiler/selftest/sums.h"
#include "compiler/selftest/unit.h"
#include "runtime/host/contract.h"

#include <stdio.h>
#include <string.h>

static void add_chosen(TestUnit **units, int count, bool separate)
{
    int next = 0;
    for (int i = 0; i < CHOSEN_GRAPH_COUNT; i++)
        for (int t = F32; t <= F64; t++) {
            seed_random((uint64_t)(2 * i + t) + 1);
            add_test(units[next++ % count], format("%s in %s", CHOSEN_GRAPHS[i].name, dtype_name((Dtype)t)),
                     CHOSEN_GRAPHS[i].make((Dtype)t), (Dtype)t, separate);
            TestUnit *u = units[(next - 1) % count];
            u->cases[u->count - 1].tolerance = 0x1p-20; /* some sums of f64 graphs are in f32 */
        }
}

/* Adds a random graph by its number: every third one is a loop, every second one is in f32. */
static void add_random(TestUnit *u, int number, bool separate)
{
    Dtype real = number % 2 ? F32 : F64;
    bool loop = number % 3 == 2;
    Graph *g = loop ? random_loop(number, real) : random_graph(number, real);
    add_test(u, format("random %s %d in %s", loop ? "loop" : "graph", number, dtype_name(real)), g, real, separate);
}

static int kernels_of(TestUnit **units, int count)
{
    int all = 0;
    for (int i = 0; i < count; i++)
        all += units[i]->program.kernel_count;
    return all;
}

static const char *name_of(const Compiler *c)
{
    Text t = {0};
    for (int i = 0; i < c->words.count; i++)
        text_add(&t, "%s%s", i ? " " : "", c->words.list[i]);
    return text_take(&t);
}

static const char *what_else(const Compiler *c)
{
    return c->mistakes.count ? "'mgpuc -v' names what is known of this version. " : "";
}

bool test_compiler(const Compiler *c, const char *folder)
{
    enum { UNITS = 2, RANDOM = 16 };
    double began = now_ms();
    Memory *own = memory_new(), *before = memory_use(own);
    TestUnit *units[UNITS];
    for (int i = 0; i < UNITS; i++)
        units[i] = new_test_unit(0);
    add_chosen(units, UNITS, false);
    for (int i = 0; i < RANDOM; i++)
        add_random(units[i % UNITS], i, false);
    int kernels = kernels_of(units, UNITS);
    const char *why;
    Verdict verdict = run_test_units(c, runtime_folder(), folder, units, UNITS, cores_available(), &why, NULL);
    if (verdict == WRONG)
        fail(
            3,
            "'%s' compiles kernels wrongly on this machine: %s. %sUse another compiler: CC=clang, or CC='%s -O0', which is slow; "
            "'mgpuc selftest' tests one, MGPUC_SELFTEST=off goes without a test",
            name_of(c), why, what_else(c), name_of(c));
    if (verdict == RIGHT)
        fprintf(stderr, "mgpuc: note: tested '%s' (%.1f s; kept for the next time): it makes right code of %d kernels\n",
                name_of(c), (now_ms() - began) / 1e3, kernels);
    else
        fprintf(stderr, "mgpuc: note: '%s' was not tested: %s\n", name_of(c), why);
    memory_use(before);
    memory_free(own);
    return verdict == RIGHT;
}

/* ---- the long form */

static int end_wrong(const SelfTest *s, const char *name, const char *why, const TestUnit *unit)
{
    printf("wrong: '%s': %s\n", name, why);
    if (!s->keep || !unit)
        return 1;
    Text t = {0};
    unit_text(unit, &t);
    write_text(s->keep, &t);
    printf("the kernels are in %s\n", s->keep);
    return 1;
}

int self_test(const SelfTest *s, const char *cc)
{
    enum { UNITS = 2, GRAPHS = 8 };
    const char *home = runtime_folder(), *folder = temporary_folder(), *why = NULL;
    Compiler c = find_compiler(cc, false, home);
    Cache cache = cache_open();
    ask_programs(&c, &cache, folder);
    ask_flags(&c, &cache, folder);
    ask_linker(&c, &cache, home, folder);
    cache_close(&cache);
    const char *name = name_of(&c);
    fprintf(stderr, "mgpuc selftest: tests '%s' for about %.0f s, and the runtime library\n", name, s->seconds);
    for (int i = 0; i < c.mistakes.count; i++)
        printf("known mistake of %s\n", c.mistakes.list[i]);
    why = test_sums();
    if (why)
        return end_wrong(s, "the runtime library", why, NULL);
    int graphs = 0, kernels = 0, variants = 1; /* of the runtime's matmuls, one at least */
    while (mgpu_contract_choice(variants))
        variants++;
    double end = now_ms() + s->seconds * 1e3;
    for (int round = 0; round == 0 || now_ms() < end; round++) {
        Memory *own = memory_new(), *before = memory_use(own);
        TestUnit *units[UNITS], *failed = NULL;
        for (int i = 0; i < UNITS; i++)
            units[i] = new_test_unit((round * UNITS + i) % variants);
        if (round == 0)
            add_chosen(units, UNITS, true);
        for (int i = 0; i < UNITS * GRAPHS; i++, graphs++)
            add_random(units[i % UNITS], (int)(s->seed % 1000000) * 1000 + graphs, true);
        kernels += kernels_of(units, UNITS);
        Verdict verdict = run_test_units(&c, home, folder, units, UNITS, cores_available(), &why, &failed);
        if (verdict == NOT_TESTED)
            fail(3, "'%s' cannot be tested: %s", name, why);
        if (verdict == WRONG)
            return end_wrong(s, name, why, failed);
        memory_use(before);
        memory_free(own);
    }
    Text sets = {0};
    for (int i = variants - 1; i >= 0; i--)
        text_add(&sets, "%s%s", mgpu_contract_choice(i)->name, i ? ", " : "");
    printf("right: '%s' and the runtime library (matmuls for %s): %d kernels of %d random graphs, seed %llu\n", name,
           text_of(&sets), kernels, graphs, (unsigned long long)s->seed);
    return 0;
}
