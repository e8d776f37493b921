/* tools.c: find the C compiler, choose its flags, and run it: without a shell, several at a time.
 *
 * A compiler's identity is a hash of all that its output depends on besides source and flags: the files that the words of CC name
 * (paths, sizes and times), what it says of its version, the environment variables that compilers read, this processor
 * (-march=native), and the runtime's headers. */
#include "compiler/link/translation_units.h"
#include "runtime/base/cores.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

/* ---- running */

void add_argument(Arguments *a, const char *text) { APPEND(a->list, a->count, text); }

void add_arguments(Arguments *a, const Arguments *more)
{
    for (int i = 0; i < more->count; i++)
        add_argument(a, more->list[i]);
}

/* Starts a tool in a process group of its own, so that what it starts in turn ends with it. `output`: a descriptor for what it
 * prints, or -1. Returns its process number, or 0 and errno if it cannot be started. */
static pid_t start_tool(const Arguments *a, int output)
{
    const char **list = NEW_ARRAY(const char *, a->count + 1);
    for (int i = 0; i < a->count; i++)
        list[i] = a->list[i];
    sigset_t held = temporary_signals(), before;
    sigprocmask(SIG_BLOCK, &held, &before);
    posix_spawnattr_t attributes;
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK);
    posix_spawnattr_setsigmask(&attributes, &before);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0); /* the terminal isn't its group's */
    if (output >= 0) {
        posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
        posix_spawn_file_actions_adddup2(&actions, output, STDERR_FILENO);
    }
    pid_t child = 0;
    fflush(NULL);
    int error = posix_spawnp(&child, list[0], &actions, &attributes, (char *const *)(uintptr_t)list, environ);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    if (!error)
        tool_begins(child);
    sigprocmask(SIG_SETMASK, &before, NULL);
    errno = error;
    return error ? 0 : child;
}

/* Waits for one of the processes to end and returns its index; *status is as from waitpid. */
static int wait_for_one(const pid_t *children, int count, int *status)
{
    for (;;) {
        pid_t ended = waitpid(-1, status, 0);
        if (ended < 0 && errno != EINTR)
            fail(3, "the compiler cannot be waited for: %s", strerror(errno));
        for (int i = 0; ended > 0 && i < count; i++)
            if (children[i] == ended) {
                tool_ends(ended);
                return i;
            }
    }
}

/* Prints a tool's output, collected in a file, at once, so that outputs of parallel tools stay apart. */
static void show(int file)
{
    Text text = {0};
    char part[4096];
    lseek(file, 0, SEEK_SET);
    for (ssize_t got; (got = read(file, part, sizeof part)) > 0;)
        text_bytes(&text, part, (size_t)got);
    fwrite(text_of(&text), 1, text.length, stderr);
}

int run_tools(const Arguments *tools, int count, int at_a_time)
{
    pid_t *children = NEW_ARRAY(pid_t, count);
    int *outputs = NEW_ARRAY(int, count);
    int started = 0, running = 0, failed = -1;
    while (running || (started < count && failed < 0)) {
        if (started < count && running < at_a_time && running < MOST_TOOLS && failed < 0) {
            outputs[started] = memfd_create("output", MFD_CLOEXEC);
            children[started] = start_tool(&tools[started], outputs[started]);
            if (!children[started])
                fail(3, "'%s' cannot be started: %s", tools[started].list[0], strerror(errno));
            started++;
            running++;
            continue;
        }
        int status, ended = wait_for_one(children, started, &status);
        bool first = failed < 0, good = WIFEXITED(status) && WEXITSTATUS(status) == 0;
        children[ended] = 0;
        running--;
        if (first && outputs[ended] >= 0)
            show(outputs[ended]);
        if (outputs[ended] >= 0)
            close(outputs[ended]);
        if (good || !first)
            continue;
        failed = ended;
        for (int i = 0; i < started; i++)
            if (children[i] > 0)
                kill(-children[i], SIGTERM);
    }
    return failed;
}

int run_tool(const Arguments *tool, Text *said)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC))
        fail(3, "no pipe to '%s' can be made: %s", tool->list[0], strerror(errno));
    pid_t child = start_tool(tool, ends[1]);
    int error = errno;
    close(ends[1]);
    char part[4096];
    for (ssize_t got; child && ((got = read(ends[0], part, sizeof part)) > 0 || (got < 0 && errno == EINTR));)
        text_bytes(said, part, got > 0 ? (size_t)got : 0);
    close(ends[0]);
    int status = -1;
    if (child)
        wait_for_one(&child, 1, &status);
    errno = error;
    return !child ? -1 : WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* ---- the compiler */

Arguments words_of(const char *cc, const char *otherwise)
{
    Arguments a = {0};
    for (const char *at = cc; *at;) {
        size_t space = strspn(at, " \t"), length = strcspn(at + space, " \t");
        if (length)
            add_argument(&a, copy_text(at + space, length));
        at += space + length;
    }
    if (!a.count)
        add_argument(&a, otherwise);
    return a;
}

typedef struct Language {
    const char *name, *packages, *variable, *example, *zig;
} Language;
static const Language C = {"C", "gcc libc6-dev zlib1g-dev", "CC", "clang", "cc"}, CXX = {"C++", "g++", "CXX", "clang++", "c++"};

static const char *version_of(const Arguments *words, const Language *l)
{
    Arguments a = {0};
    add_arguments(&a, words);
    add_argument(&a, "--version");
    Text said = {0};
    int status = run_tool(&a, &said);
    if (status < 0 && errno != ENOENT && errno != EACCES && errno != ENOEXEC)
        fail(3, "'%s' cannot be started: %s", words->list[0], strerror(errno));
    if (status < 0)
        fail(3,
             "no %s compiler: '%s' cannot be run. Install one (Debian: apt-get install %s; anywhere: pip install ziglang, "
             "and %s=\"python3 -m ziglang %s\"), or name yours: %s=%s mgpuc ...",
             l->name, words->list[0], l->packages, l->variable, l->zig, l->variable, l->example);
    if (status)
        fail(3, "'%s --version' failed; CC and CXX name the compilers; it says: %.*s", words->list[0],
             (int)strcspn(text_of(&said), "\n"), text_of(&said));
    return text_take(&said);
}

/* Adds the path, size and modification time of a word of CC that is a program; returns false if it is none. */
static bool add_program(Sha256 *h, const char *word)
{
    const char *path = getenv("PATH");
    Text list = {0};
    text_add(&list, "%s", strchr(word, '/') || !path ? "" : path);
    for (const char *at = text_of(&list);; at++) {
        size_t length = strcspn(at, ":");
        const char *file = strchr(word, '/') ? word : format("%.*s/%s", (int)length, length ? at : ".", word);
        char real[PATH_MAX];
        struct stat s;
        if (stat(file, &s) == 0 && S_ISREG(s.st_mode) && access(file, X_OK) == 0 && realpath(file, real)) {
            mgpu_sha256_add_text(h, format("%s %s %lld %lld.%09ld", file, real, (long long)s.st_size, (long long)s.st_mtim.tv_sec,
                                           s.st_mtim.tv_nsec));
            return true;
        }
        at += length;
        if (!*at)
            return false;
    }
}

/* Adds the first processor as the kernel describes it, without values that change at run time. */
static void add_processor(Sha256 *h)
{
    FILE *f = fopen("/proc/cpuinfo", "re");
    char *line = NULL;
    size_t capacity = 0;
    while (f && getline(&line, &capacity, f) > 1)
        if (!strcasestr(line, "mhz") && strncasecmp(line, "bogomips", 8) != 0 && strncasecmp(line, "processor", 9) != 0)
            mgpu_sha256_add_text(h, line);
    free(line);
    if (f)
        fclose(f);
}

static int by_name(const struct dirent **a, const struct dirent **b) { return strcmp((*a)->d_name, (*b)->d_name); }

static int is_header(const struct dirent *entry)
{
    size_t length = strlen(entry->d_name);
    return length > 2 && strcmp(entry->d_name + length - 2, ".h") == 0;
}

void add_headers(Sha256 *h, const char *home)
{
    struct dirent **entries;
    int count = scandir(home, &entries, is_header, by_name);
    for (int i = 0; i < count; i++) {
        size_t length;
        const char *text = read_file(format("%s/%s", home, entries[i]->d_name), &length);
        mgpu_sha256_add_text(h, format("%s %zu", entries[i]->d_name, text ? length : 0));
        mgpu_sha256_add(h, text, text ? length : 0);
        free(entries[i]);
    }
    if (count >= 0)
        free(entries);
}

/* -fwrapv: integers wrap, as in the interpreter, while overflow is undefined in C. (Measured: the kernels of gpt_mini, resnet20,
 * lstm_lm and mnist_cnn have as many vector instructions with it as without.) */
static const char *const KERNEL_FLAGS[] = {"-O2", "-DMGPU_KERNELS", "-fwrapv"};
/* Those of them that the compiler takes. Loops are printed as vectors, and multiply-adds as such (compiler/loops/vector.c):
 * nothing is left to the compiler's vectorizers, pattern recognition and contraction, whose mistakes gave wrong numbers
 * (compiler/link/compiler_bugs.c), so results do not depend on the compiler. -mno-red-zone: in functions that call none, gcc 12
 * with AVX-512 lays arrays into the red zone at odd multiples of 8 bytes and stores to them as if they were aligned to 16.
 * -mprefer-vector-width=512: for clang, which halves vectors without it. Without PRE and a second scheduling gcc is faster,
 * and kernels are as fast. */
static const char *const TUNING_FLAGS[] = {"-march=native",
                                           "-ffp-contract=off",
                                           "-fno-math-errno",
                                           "-fno-trapping-math",
#ifdef __x86_64__
                                           "-mprefer-vector-width=512",
                                           "-mno-red-zone",
#endif
                                           "-fno-tree-vectorize",
                                           "-fno-tree-slp-vectorize",
                                           "-fno-tree-loop-distribute-patterns",
                                           "-fno-tree-pre",
                                           "-fno-schedule-insns2"};
/* those that a compiler of CUDA C for the virtual GPU is told, if it takes them (compiler/link/images.c has the others): there
 * gcc 12 copies arrays of constants by vector constants that repeat a prefix (compiler/link/compiler_bugs.c), unless it does by
 * 128 bits. GCC 16 warns of the second flag, and goes without it. */
static const char *const VIRTUAL_TUNING_FLAGS[] = {
#ifdef __x86_64__
    "-mmove-max=128", "-mstore-max=128",
#endif
    "-w"};
/* the environment variables that gcc and clang read */
static const char *const VARIABLES[] = {"CPATH", "C_INCLUDE_PATH", "GCC_EXEC_PREFIX", "COMPILER_PATH", "LIBRARY_PATH"};

Compiler find_compiler(const char *cc, bool cxx, const char *home)
{
    Compiler c = {.words = words_of(cc, cxx ? "c++" : "cc"), .programs = 1, .include = format("-I%s", home)};
    const char *version = version_of(&c.words, cxx ? &CXX : &C);
    c.linker = c.words;
    c.mistakes = known_mistakes(version);
    Sha256 h = mgpu_sha256_begin();
    mgpu_sha256_add_text(&h, version);
    for (int i = 0; i < c.words.count; i++) {
        mgpu_sha256_add_text(&h, c.words.list[i]);
        if (c.words.list[i][0] != '-' && add_program(&h, c.words.list[i]))
            c.programs = i + 1;
    }
    for (int i = 0; i < COUNT(VARIABLES); i++) {
        const char *value = getenv(VARIABLES[i]);
        mgpu_sha256_add_text(&h, value ? format("%s=%s", VARIABLES[i], value) : "");
    }
    add_processor(&h);
    add_headers(&h, home);
    c.identity = mgpu_sha256_end(&h);
    for (int i = 0; i < COUNT(VIRTUAL_TUNING_FLAGS) && cxx; i++)
        add_argument(&c.tuning_flags, VIRTUAL_TUNING_FLAGS[i]);
    if (cxx)
        return c;
    add_argument(&c.table_flags, "-std=gnu11");
    add_argument(&c.table_flags, "-w");
    add_arguments(&c.kernel_flags, &c.table_flags);
    for (int i = 0; i < COUNT(KERNEL_FLAGS); i++)
        add_argument(&c.kernel_flags, KERNEL_FLAGS[i]);
    for (int i = 0; i < COUNT(TUNING_FLAGS); i++)
        add_argument(&c.tuning_flags, TUNING_FLAGS[i]);
    return c;
}

Arguments compile_command(const Compiler *c, const Arguments *flags, const char *text, const char *object)
{
    Arguments a = {0};
    for (int i = 0; i < c->programs; i++)
        add_argument(&a, c->words.list[i]);
    add_arguments(&a, flags);
    for (int i = c->programs; i < c->words.count; i++) /* after our flags, so that CC="cc -O0" has an effect */
        add_argument(&a, c->words.list[i]);
    const char *rest[] = {c->include, "-c", text, "-o", object};
    for (int i = 0; i < COUNT(rest); i++)
        add_argument(&a, rest[i]);
    return a;
}

/* ---- how many run at a time */

int cores_available(void)
{
    char why[200];
    return mgpu_cores_available(why, sizeof why);
}
