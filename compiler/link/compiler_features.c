/* compiler_features.c: find out what a compiler accepts, by trying it rather than by knowing its name.
 *
 * The sources that it is tried with are nearly empty. Which words of CC are programs, and which flags the compiler accepts, is
 * tried once; the cache keeps the answers. */
#include "compiler/link/translation_units.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char NOTHING[] = "int mgpu_nothing;\n";

typedef struct Question {
    const char *text, *object;
} Question; /* file names */

static Question ask_about(const char *folder, const char *content)
{
    Question q = {format("%s/ask.c", folder), format("%s/ask.o", folder)};
    temporary_add(q.text);
    temporary_add(q.object);
    Text t = {0};
    text_add(&t, "%s", content);
    write_text(q.text, &t);
    return q;
}

/* Returns whether the command succeeds and writes an object. The status alone says too little: `python3 -c FILE` may well
 * succeed. */
static bool makes_object(const Arguments *command, const char *object, Text *output)
{
    unlink(object);
    return run_tool(command, output) == 0 && access(object, R_OK) == 0;
}

static bool yes(const Arguments *command, const char *object)
{
    Text output = {0};
    return makes_object(command, object, &output);
}

static bool compiles(const Compiler *c, const Arguments *flags, const Question *q)
{
    Arguments command = compile_command(c, flags, q->text, q->object);
    return yes(&command, q->object);
}

/* ---- answers, which the cache keeps under the compiler's identity */
static Digest key_of(const Compiler *c, const char *question, const Arguments *flags)
{
    Sha256 h = mgpu_sha256_begin();
    mgpu_sha256_add_text(&h, question);
    mgpu_sha256_add_text(&h, format("%d", c->programs));
    mgpu_sha256_add(&h, c->identity.bytes, sizeof c->identity.bytes);
    for (int i = 0; i < flags->count; i++)
        mgpu_sha256_add_text(&h, flags->list[i]);
    return mgpu_sha256_end(&h);
}

static const char *answer_path(const char *folder)
{
    const char *file = format("%s/answer", folder);
    temporary_add(file);
    return file;
}

static const char *cached_answer(Cache *cache, const Digest *key, const char *folder) /* NULL: there is none */
{
    const char *file = answer_path(folder);
    size_t length;
    return cache_fetch(cache, key, file) ? read_file(file, &length) : NULL;
}

static void cache_answer(Cache *cache, const Digest *key, const char *folder, const Text *answer)
{
    const char *file = answer_path(folder);
    write_text(file, answer);
    cache_store(cache, key, file);
}

void ask_programs(Compiler *c, Cache *cache, const char *folder)
{
    if (c->programs == c->words.count)
        return;
    Digest key = key_of(c, "mgpuc programs 1", &(Arguments){0});
    const char *kept = cached_answer(cache, &key, folder);
    int programs = kept ? atoi(kept) : 0;
    if (programs >= c->programs && programs <= c->words.count) {
        c->programs = programs;
        return;
    }
    Question q = ask_about(folder, NOTHING);
    int guess = c->programs;
    Arguments flag = {0}; /* follows the programs */
    add_argument(&flag, "-w");
    while (c->programs < c->words.count && !compiles(c, &flag, &q))
        c->programs++;
    if (c->programs == c->words.count && !compiles(c, &flag, &q)) {
        c->programs = guess; /* It cannot compile at all. It will say why when it compiles the program. */
        return;
    }
    Text answer = {0};
    text_add(&answer, "%d\n", c->programs);
    cache_answer(cache, &key, folder, &answer);
}

/* Returns whether the compiler accepts the flags; with quiet, only if it prints no warning that -w lets through, as GCC 16 does
 * for -mstore-max. */
static bool takes_flags(const Compiler *c, const Arguments *flags, const Question *q, bool quiet)
{
    Arguments all = {0};
    add_arguments(&all, flags);
    add_argument(&all, "-w");
    Arguments command = compile_command(c, &all, q->text, q->object);
    Text output = {0};
    return makes_object(&command, q->object, &output) && !(quiet && output.length);
}

/* Adds the accepted tuning flags to kernel_flags, and lists the others in c->refused. */
static void take_flags(Compiler *c, const char *const *taken, int count)
{
    Text refused = {0};
    for (int i = 0; i < c->tuning_flags.count; i++) {
        const char *flag = c->tuning_flags.list[i];
        bool takes = false;
        for (int k = 0; k < count && !takes; k++)
            takes = strcmp(taken[k], flag) == 0;
        if (takes)
            add_argument(&c->kernel_flags, flag);
        else
            text_add(&refused, "%s%s", refused.length ? " " : "", flag);
    }
    c->refused = refused.length ? text_take(&refused) : NULL;
}

void ask_flags(Compiler *c, Cache *cache, const char *folder)
{
    Digest key = key_of(c, "mgpuc flags 2", &c->tuning_flags);
    Arguments taken = {0};
    const char *kept = cached_answer(cache, &key, folder);
    if (kept) {
        for (const char *at = kept; *at; at += strcspn(at, "\n"), at += *at == '\n')
            add_argument(&taken, copy_text(at, strcspn(at, "\n")));
        take_flags(c, taken.list, taken.count);
        return;
    }
    Question q = ask_about(folder, NOTHING);
    const Arguments none = {0};
    bool all = takes_flags(c, &c->tuning_flags, &q, true), quiet = all || takes_flags(c, &none, &q, true);
    bool any = quiet || takes_flags(c, &none, &q, false);
    Text list = {0};
    for (int i = 0; i < c->tuning_flags.count; i++) {
        Arguments one = {&c->tuning_flags.list[i], 1};
        if (any && !all && !takes_flags(c, &one, &q, quiet))
            continue;
        add_argument(&taken, one.list[0]);
        text_add(&list, "%s\n", one.list[0]);
    }
    take_flags(c, taken.list, taken.count);
    if (any)
        cache_answer(cache, &key, folder, &list);
}

/* Returns a file's size and modification time. They are part of the test's key, because mgpuc and its runtime library take part
 * in the test. */
static const char *state_of(const char *file)
{
    struct stat s;
    return stat(file, &s) ? "" : format("%lld %lld.%09ld", (long long)s.st_size, (long long)s.st_mtim.tv_sec, s.st_mtim.tv_nsec);
}

void ask_test(const Compiler *c, Cache *cache, const char *home, const char *folder, CompilerTest *test)
{
    const char *wish = getenv("MGPUC_SELFTEST");
    Arguments all = {0};
    add_arguments(&all, &c->kernel_flags);
    add_argument(&all, state_of("/proc/self/exe"));
    add_argument(&all, state_of(format("%s/libmgpu.a", home)));
    Digest key = key_of(c, "mgpuc test 1", &all);
    if (!cache->folder || (wish && strcmp(wish, "off") == 0) || cached_answer(cache, &key, folder))
        return;
    Text answer = {0};
    text_add(&answer, "%s\n", test(c, folder) ? "right" : "not tested");
    cache_answer(cache, &key, folder, &answer);
}

typedef struct NeededFeature {
    const char *text, *library, *what, *package;
} NeededFeature; /* library: NULL to compile without linking, "" to link without a library */
static const NeededFeature NEEDS[] = {
    {"#include <math.h>\n#include <stdint.h>\n#include <string.h>\n", NULL, "no headers of the C library", "libc6-dev"},
    {"int main(void) { return 0; }\n", "", "no C library to link with", "libc6-dev"},
    {"int main(void) { return 0; }\n", "-lz", "no zlib to link with (-lz)", "zlib1g-dev"},
};

static bool links(const Compiler *c, const char *home, const char *folder)
{
    Question q = ask_about(
        folder, "int mgpu_main(const void *, int, char **);\nint main(int c, char **v) { return mgpu_main(0, c, v); }\n");
    Arguments object = {0}, compile = compile_command(c, &c->table_flags, q.text, q.object);
    const char *program = format("%s/asked", folder);
    temporary_add(program);
    add_argument(&object, q.object);
    Arguments link = link_command(c, &(Arguments){0}, &object, home, program);
    return yes(&compile, q.object) && yes(&link, program);
}

/* Lets `cc` link if the compiler cannot. tcc, for example, cannot: its linker lacks thread-local variables, and what gcc's
 * library tells about the processor. */
void ask_linker(Compiler *c, Cache *cache, const char *home, const char *folder)
{
    Arguments library = {0};
    add_argument(&library, state_of(format("%s/libmgpu.a", home)));
    Digest key = key_of(c, "mgpuc linker 1", &library);
    const char *kept = cached_answer(cache, &key, folder);
    bool itself = kept ? strcmp(kept, "itself\n") == 0 : links(c, home, folder);
    if (!itself)
        c->linker = words_of("cc -Wl,-z,noexecstack", "cc"); /* objects of tcc do not say that they need no executable stack */
    if (kept)
        return;
    if (!itself && (*what_is_missing(c, home, folder) || !links(c, home, folder))) {
        c->linker = c->words; /* it will say what is wrong when it links the program */
        return;
    }
    if (!itself)
        fprintf(stderr, "mgpuc: note: '%s' cannot link the runtime library; 'cc' links what it compiles\n", c->words.list[0]);
    Text answer = {0};
    text_add(&answer, "%s\n", itself ? "itself" : "cc");
    cache_answer(cache, &key, folder, &answer);
}

const char *what_is_missing(const Compiler *c, const char *home, const char *folder)
{
    Question nothing = ask_about(folder, NOTHING);
    if (!compiles(c, &c->table_flags, &nothing)) /* so no missing package is the cause */
        return "";
    for (int i = 0; i < COUNT(NEEDS); i++) {
        const NeededFeature *n = &NEEDS[i];
        Question q = ask_about(folder, n->text);
        Arguments command = compile_command(c, &c->table_flags, q.text, q.object);
        if (n->library) {
            command = (Arguments){0};
            add_arguments(&command, &c->words);
            const char *rest[] = {q.text, format("-L%s", home), "-o", q.object, n->library};
            for (int k = 0; k < COUNT(rest) && *rest[k]; k++)
                add_argument(&command, rest[k]);
        }
        if (!yes(&command, q.object))
            return format("; '%s' finds %s. Install it (Debian: apt-get install %s)", c->words.list[0], n->what, n->package);
    }
    return "";
}
