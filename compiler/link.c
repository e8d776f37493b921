/* link.c: emitted C -> executable, by the system's C compiler, run without a shell.
 *
 * The two texts are compiled side by side (the kernels take nearly all the time), then linked with the runtime library.
 * Intermediate files live in a folder of their own under TMPDIR, removed afterwards; the program is written beside its
 * name and renamed, so that a failure leaves an older program as it was. */
#include "compiler/command.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST_ARGUMENTS = 64 };

typedef struct Arguments { const char *list[MOST_ARGUMENTS]; int count; } Arguments;

static void add(Arguments *a, const char *argument)
{
    if (a->count + 1 >= MOST_ARGUMENTS)
        fail(2, "CC holds too many words");
    a->list[a->count++] = argument;
}

/* CC may hold flags: "gcc -fsanitize=address" */
static void add_compiler(Arguments *a, const char *cc)
{
    for (const char *at = cc; *at;) {
        size_t space = strspn(at, " \t");
        size_t length = strcspn(at + space, " \t");
        if (length)
            add(a, copy_text(at + space, length));
        at += space + length;
    }
    if (!a->count)
        add(a, "cc");
}

static pid_t start(Arguments *a, int output) /* output: a descriptor for what it prints, or -1 */
{
    fflush(NULL);
    pid_t child = fork();
    if (child < 0)
        fail(3, "the C compiler cannot be run: %s", strerror(errno));
    if (child == 0) {
        if (output >= 0 && (dup2(output, STDOUT_FILENO) < 0 || dup2(output, STDERR_FILENO) < 0))
            _exit(126);
        execvp(a->list[0], (char *const *)(uintptr_t)a->list);
        _exit(127); /* as a shell says that there is no such command */
    }
    return child;
}

static void finish(pid_t child, const char *compiler, const char *what)
{
    int status;
    while (waitpid(child, &status, 0) < 0)
        if (errno != EINTR)
            fail(3, "waiting for %s: %s", compiler, strerror(errno));
    if (WIFEXITED(status) && WEXITSTATUS(status) == 127)
        fail(3, "no C compiler: '%s' cannot be run. Install one (Debian: apt-get install gcc libc6-dev zlib1g-dev) or name "
                "yours: CC=clang mgpuc ...", compiler);
    if (!WIFEXITED(status) || WEXITSTATUS(status))
        fail(3, "'%s' failed on %s (its message is above)", compiler, what);
}

static const char *runtime_folder(void)
{
    const char *home = getenv("MGPU_HOME");
    if (home && *home)
        return home;
    char path[4096];
    ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
    if (length <= 0)
        fail(3, "where mgpuc lies cannot be read from /proc/self/exe; set MGPU_HOME to the folder of libmgpu.a");
    path[length] = 0;
    for (int up = 0; up < 2; up++) {
        char *slash = strrchr(path, '/');
        if (slash)
            *slash = 0;
    }
    return format("%s/lib/mgpuc", path);
}

static void write_text(const char *path, const Text *t)
{
    FILE *f = fopen(path, "wb");
    if (!f || fwrite(text_of(t), 1, t->length, f) != t->length || fclose(f))
        fail(3, "%s cannot be written: %s", path, strerror(errno));
}

static bool is_clang(const char *cc)
{
    Arguments a = {0};
    add_compiler(&a, cc);
    add(&a, "--version");
    add(&a, NULL);
    int ends[2];
    if (pipe(ends))
        fail(3, "the C compiler cannot be run: %s", strerror(errno));
    pid_t child = start(&a, ends[1]);
    close(ends[1]);
    char text[4096];
    size_t length = 0;
    for (ssize_t got; length < sizeof text - 1 && (got = read(ends[0], text + length, sizeof text - 1 - length)) > 0;)
        length += (size_t)got;
    text[length] = 0;
    close(ends[0]);
    finish(child, a.list[0], "--version");
    return strstr(text, "clang") != NULL;
}

static const char *const KERNEL_FLAGS[] = {"-O2", "-march=native", "-fopenmp-simd", "-ffp-contract=fast", "-fno-math-errno",
                                           "-fno-trapping-math", "-DMGPU_KERNELS"};
/* for gcc: the vectoriser, without two passes that keep it from pooling and masking loops (measured: the kernels of
 * mnist_cnn 44 -> 23 ms); clang vectorises at -O2 and knows none of them. -fno-thread-jumps is needed for right results:
 * with it on, gcc 12 reads uninitialised lanes in simd loops that reduce a maximum, a sum and a conditional sum. */
static const char *const GCC_FLAGS[] = {"-ftree-vectorize", "-fvect-cost-model=dynamic", "-fno-tree-pre", "-fno-thread-jumps"};

void link_program(const Options *o, const char *program_c, const char *kernels_c, const char *output)
{
    const char *home = runtime_folder(), *library = format("%s/libmgpu.a", home), *include = format("-I%s", home);
    if (access(library, R_OK))
        fail(3, "the runtime library %s cannot be read: %s; build it, or set MGPU_HOME to its folder", library, strerror(errno));
    const char *objects[2] = {format("%s.o", kernels_c), format("%s.o", program_c)};
    pid_t children[2];
    bool clang = is_clang(o->cc);
    const char *compiler = NULL;
    for (int i = 0; i < 2; i++) {
        Arguments a = {0};
        add_compiler(&a, o->cc);
        compiler = a.list[0];
        add(&a, "-std=gnu11");
        add(&a, "-w");
        for (int k = 0; i == 0 && k < COUNT(KERNEL_FLAGS); k++)
            add(&a, KERNEL_FLAGS[k]);
        for (int k = 0; i == 0 && !clang && k < COUNT(GCC_FLAGS); k++)
            add(&a, GCC_FLAGS[k]);
        add(&a, include);
        add(&a, "-c");
        add(&a, i == 0 ? kernels_c : program_c);
        add(&a, "-o");
        add(&a, objects[i]);
        add(&a, NULL);
        children[i] = start(&a, -1);
    }
    finish(children[0], compiler, "the kernels");
    finish(children[1], compiler, "the tables");
    const char *fresh = format("%s.new", output);
    Arguments a = {0};
    add_compiler(&a, o->cc);
    const char *rest[] = {objects[1], objects[0], library, "-o", fresh, "-lz", "-lm", "-lpthread", NULL};
    for (int i = 0; i < COUNT(rest); i++)
        add(&a, rest[i]);
    finish(start(&a, -1), compiler, "linking");
    if (rename(fresh, output))
        fail(3, "%s cannot be written: %s", output, strerror(errno));
    unlink(objects[0]);
    unlink(objects[1]);
}

void write_program(const Program *p)
{
    const Options *o = p->options;
    Text kernels = {0}, program = {0}, schedules = {0};
    emit_kernels(p, &kernels);
    emit_program(p, &program);
    for (int i = 0; i < p->plan_count; i++)
        schedule_write(p->plans[i].schedule, &schedules);
    const char *temporary = getenv("TMPDIR");
    char *folder = (char *)(uintptr_t)format("%s/mgpuc-XXXXXX", temporary && *temporary ? temporary : "/tmp");
    if (!mkdtemp(folder))
        fail(3, "%s cannot be made: %s", folder, strerror(errno));
    const char *program_c = format("%s/program.c", folder), *kernels_c = format("%s/kernels.c", folder);
    write_text(program_c, &program);
    write_text(kernels_c, &kernels);
    if (o->keep) {
        write_text(format("%s.c", o->output), &program);
        write_text(format("%s.kernels.c", o->output), &kernels);
        write_text(format("%s.sched", o->output), &schedules);
    }
    link_program(o, program_c, kernels_c, o->output);
    unlink(program_c);
    unlink(kernels_c);
    rmdir(folder);
}
