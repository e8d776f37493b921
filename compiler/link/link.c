/* link.c: build an executable from a Program with the system's C compiler.
 *
 * The program is written as translation units (translation_units.c). Those that the cache holds are taken from there, and the
 * others are compiled, as many at a time as there are cores, the longest first. Then the objects are linked with the runtime
 * library. Intermediate files live in a folder of their own under TMPDIR, which is removed. The executable is written beside its
 * final name and renamed, so a failure leaves an older program untouched. */
#include "compiler/ir/program.h"
#include "compiler/link/translation_units.h"
#include "compiler/plan/schedule.h"
#include "compiler/kernel/target.h"
#include "runtime/base/whole_file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

const char *runtime_folder(void)
{
    const char *home = getenv("MGPU_HOME");
    if (home && *home)
        return home;
    char path[4096];
    ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
    if (length <= 0)
        fail(3, "the path of mgpuc cannot be read from /proc/self/exe; set MGPU_HOME to the folder of libmgpu.a");
    path[length] = 0;
    for (int up = 0; up < 2; up++) {
        char *slash = strrchr(path, '/');
        if (slash)
            *slash = 0;
    }
    return format("%s/lib/mgpuc", path);
}

void write_text(const char *path, const Text *t)
{
    FILE *f = fopen(path, "wb");
    bool good = f && fwrite(text_of(t), 1, t->length, f) == t->length;
    if (!f || fclose(f) || !good)
        fail(3, "%s cannot be written: %s", path, strerror(errno));
}

struct Build {
    Program *program;
    const char *home, *folder; /* home: of the runtime library; folder: for temporary files */
    bool whole;                /* builds the program; false: --emit stops before */
    Cache cache;
    Compiler compiler;  /* only set if `whole` */
    Arguments mpicc;    /* for --mpi; else empty */
    CompilerTest *test; /* is made before the compiler's first use */
    TranslationUnit *units;
    int count;
    Images images;
    struct Job *jobs; /* one for each unit */
};

typedef struct Job { /* a translation unit and its object */
    const TranslationUnit *unit;
    const char *text, *object; /* file names */
    Digest key;
} Job;

static int longest_first(const void *a, const void *b)
{
    const Job *x = a, *y = b;
    if (x->unit->cost != y->unit->cost)
        return x->unit->cost < y->unit->cost ? 1 : -1;
    return x->unit < y->unit ? -1 : x->unit > y->unit;
}

static const Arguments *flags_of(const Compiler *c, const TranslationUnit *p)
{
    return p->kernels ? &c->kernel_flags : &c->table_flags;
}

static Digest key_of(const Compiler *c, const TranslationUnit *p)
{
    const Arguments *flags = flags_of(c, p);
    Sha256 h = mgpu_sha256_begin();
    mgpu_sha256_add_text(&h, "mgpuc object 2");
    mgpu_sha256_add(&h, c->identity.bytes, sizeof c->identity.bytes);
    for (int i = 0; i < flags->count; i++)
        mgpu_sha256_add_text(&h, flags->list[i]);
    mgpu_sha256_add_text(&h, "");
    mgpu_sha256_add(&h, text_of(&p->text), p->text.length);
    return mgpu_sha256_end(&h);
}

/* Returns whether CC asks for debugging or a sanitizer, whose reports name lines of the runtime library. */
static bool wants_lines(const Compiler *c)
{
    bool wanted = false;
    for (int i = 0; i < c->words.count; i++)
        wanted = wanted || strncmp(c->words.list[i], "-g", 2) == 0 || strncmp(c->words.list[i], "-fsanitize", 10) == 0;
    return wanted;
}

Arguments link_command(const Compiler *c, const Arguments *mpicc, const Arguments *objects, const char *home, const char *output)
{
    Arguments a = {0};
    add_arguments(&a, mpicc->count ? mpicc : &c->linker);
    for (int i = c->programs; mpicc->count && i < c->words.count; i++) /* the options of CC */
        add_argument(&a, c->words.list[i]);
    add_arguments(&a, objects);
    const char *rest[] = {format("%s/libmgpu.a", home), format("-L%s", home), "-o", output, "-lz", "-lm", "-lpthread", "-ldl"};
    for (int i = 0; i < COUNT(rest); i++)
        add_argument(&a, rest[i]);
    if (!wants_lines(c)) /* drops debugging information, a third of the program's size */
        add_argument(&a, "-Wl,-S");
    return a;
}

/* Writes a file for the user; if mgpuc is stopped meanwhile, the older file stays. */
static void write_file(const char *path, const char *bytes, size_t length)
{
    WholeFile file;
    int error = mgpu_open_whole(&file, path);
    if (error)
        fail(3, "%s cannot be written: %s", path, strerror(error));
    const char *beside = file.temporary ? format("%s", file.temporary) : NULL;
    if (beside)
        temporary_add(beside);
    fwrite(bytes, 1, length, file.f);
    error = mgpu_close_whole(&file);
    if (error)
        fail(3, "%s cannot be written: %s", path, strerror(error));
    if (beside)
        temporary_retain(beside);
}

/* Writes a text for the user, but never over a file whose first line shows that mgpuc did not write it. */
static void write_requested(const char *option, const char *path, const Text *t)
{
    char line[200] = "";
    FILE *was = fopen(path, "re");
    bool empty = !was || !fgets(line, sizeof line, was);
    if (was)
        fclose(was);
    if (!empty && !strstr(line, " by mgpuc ") && strncmp(line, "mgpu-schedule ", 14) != 0)
        fail(
            1,
            "%s writes %s, and a file of that name is there that mgpuc has not written; name another program with -o, or rename the file",
            option, path);
    write_file(path, text_of(t), t->length);
}

static void write_all_requested(const Program *p)
{
    const char *output = p->options->output;
    Text kernels = {0}, program = {0}, schedules = {0};
    p->target->print_all(p, &kernels);
    emit_program(p, &program);
    for (int i = 0; i < p->plan_count; i++)
        schedule_write(p->plans[i].schedule, &schedules);
    write_requested("-S", format("%s.c", output), &program);
    write_requested("-S", format("%s.kernels.%s", output, p->target->suffix), &kernels);
    write_requested("-S", format("%s.sched", output), &schedules);
}

/* Writes the header and the .pc file beside a library. */
static void write_header(const Program *p)
{
    Text header = {0}, package = {0};
    text_add(&header, "%s", shared_header(p));
    text_add(&package, "%s", shared_package(p));
    write_requested("--shared", path_of_shared(p->options->output, ".h"), &header);
    write_requested("--shared", path_of_shared(p->options->output, ".pc"), &package);
}

/* Checks that all tools are there, before anything is written. */
static void check_tools(Build *b)
{
    Program *p = b->program;
    const char *library = format("%s/libmgpu.a", b->home);
    if (access(library, R_OK))
        fail(3, "the runtime library %s cannot be read: %s; build it, or set MGPU_HOME to its folder", library, strerror(errno));
    if (p->options->mpi)
        b->mpicc = find_mpi();
    if (p->target->images)
        check_images(p);
    if (p->target->images && has_real_images(p))
        p->library_folders = toolkit_folders();
}

Build *build_begin(Program *p, CompilerTest *test)
{
    Build *b = NEW(Build);
    *b = (Build){.program = p, .home = runtime_folder(), .whole = !p->options->emit, .test = test};
    if (b->whole)
        check_tools(b);
    return b;
}

const char *build_texts(Build *b)
{
    const Options *o = b->program->options;
    if (b->whole) {
        remove_old_outputs(o->output, o->shared);
        if (o->keep && mgpu_in_place(o->output))
            fail(2, "-S keeps texts beside the program, and -o %s is no file", o->output);
        if (o->keep)
            write_all_requested(b->program);
        if (o->shared)
            write_header(b->program);
    }
    make_units(b->program, &b->units, &b->count);
    return format("C, in %d translation units that are compiled one by one", b->count);
}

/* Finds the C compiler and the cache before images are compiled, because it may be missing, and images take long. */
static void find_tools(Build *b)
{
    if (b->folder)
        return;
    if (b->whole)
        b->compiler = find_compiler(b->program->options->cc, false, b->home);
    b->cache = cache_open();
    b->folder = temporary_folder();
    if (b->whole) {
        ask_programs(&b->compiler, &b->cache, b->folder);
        ask_flags(&b->compiler, &b->cache, b->folder);
        if (!b->mpicc.count)
            ask_linker(&b->compiler, &b->cache, b->home, b->folder);
        if (!b->program->target->images)
            ask_test(&b->compiler, &b->cache, b->home, b->folder, b->test);
        if (b->program->options->shared)
            shared_flags(&b->compiler);
    }
}

const char *build_images(Build *b)
{
    if (!b->program->target->images && !b->whole)
        fail(2, "--emit images is for GPUs, and the program would be for host devices; add --devices cuda:1");
    if (!b->whole)
        check_images(b->program);
    if (!b->program->target->images)
        return "none: kernels are linked with the program";
    find_tools(b);
    b->images = make_images(b->program, b->home, b->folder, &b->cache, cores_available());
    if (b->images.failed)
        fail(3, "the kernels cannot be compiled for %s (the message is above)", b->images.failed);
    if (!b->whole)
        cache_close(&b->cache);
    TranslationUnit unit = {.uncached = true};
    images_text(&b->images, &unit.text);
    APPEND(b->units, b->count, unit);
    return format("%d images of kernels for GPUs; %d of them from the cache", b->images.files.count,
                  b->images.files.count - b->images.compiled);
}

void build_print_images(const Build *b, Text *t) { images_print(b->program, &b->images, t); }

/* Runs the C compiler for the units that the cache lacks. */
static int make_objects(Build *b)
{
    int missing = 0;
    Job *todo = NEW_ARRAY(Job, b->count);
    for (int i = 0; i < b->count; i++) {
        Job *job = &b->jobs[i];
        temporary_add(job->object);
        if (job->unit->uncached || !cache_fetch(&b->cache, &job->key, job->object))
            todo[missing++] = *job;
    }
    qsort(todo, (size_t)missing, sizeof *todo, longest_first);
    Arguments *commands = NEW_ARRAY(Arguments, missing);
    for (int i = 0; i < missing; i++) {
        temporary_add(todo[i].text);
        write_text(todo[i].text, &todo[i].unit->text);
        commands[i] = compile_command(&b->compiler, flags_of(&b->compiler, todo[i].unit), todo[i].text, todo[i].object);
    }
    int failed = run_tools(commands, missing, cores_available());
    if (failed >= 0)
        fail(3, "'%s' failed on %s (its message is above)%s", b->compiler.words.list[0],
             todo[failed].unit->kernels ? "the kernels" : "the tables", what_is_missing(&b->compiler, b->home, b->folder));
    for (int i = 0; i < missing; i++)
        if (!todo[i].unit->uncached)
            cache_store(&b->cache, &todo[i].key, todo[i].object);
    return missing;
}

const char *build_objects(Build *b)
{
    find_tools(b);
    b->jobs = NEW_ARRAY(Job, b->count);
    for (int i = 0; i < b->count; i++)
        b->jobs[i] = (Job){.unit = &b->units[i],
                           .text = format("%s/%d.c", b->folder, i),
                           .object = format("%s/%d.o", b->folder, i),
                           .key = key_of(&b->compiler, &b->units[i])};
    int compiled = make_objects(b);
    Text said = {0};
    text_add(&said, "%d translation units by the C compiler, %d at a time; %d from the cache%s%s", compiled, cores_available(),
             b->count - compiled, b->cache.folder ? " in " : "", b->cache.folder ? b->cache.folder : "");
    if (b->compiler.refused)
        text_add(&said, "\nwithout %s, which it does not take or warns of", b->compiler.refused);
    for (int i = 0; i < b->compiler.mistakes.count; i++)
        text_add(&said, "\nknown mistake of %s", b->compiler.mistakes.list[i]);
    return text_take(&said);
}

static void copy_program(const char *from, const char *to)
{
    size_t length;
    const char *bytes = read_file(from, &length);
    if (!bytes)
        fail(3, "%s cannot be read: %s", from, strerror(errno));
    write_file(to, bytes, length);
}

static void link_shared(const Build *b, Arguments *command)
{
    const char *output = b->program->options->output, *file = format("%s/exports", b->folder);
    Text exports = {0};
    shared_exports(output, &exports);
    temporary_add(file);
    write_text(file, &exports);
    shared_link(command, output, file);
}

const char *build_link(Build *b)
{
    const char *output = b->program->options->output;
    bool in_place = mgpu_in_place(output);
    const char *fresh = in_place ? format("%s/program", b->folder) : fresh_path(output);
    if (in_place)
        temporary_add(fresh);
    const char *mpi = b->mpicc.count ? compile_mpi(&b->mpicc, b->home, b->folder) : NULL;
    Arguments objects = {0};
    for (int i = 0; i < b->count; i++)
        add_argument(&objects, b->jobs[i].object);
    if (mpi)
        add_argument(&objects, mpi);
    Arguments command = link_command(&b->compiler, &b->mpicc, &objects, b->home, fresh);
    if (b->program->options->shared)
        link_shared(b, &command);
    if (run_tools(&command, 1, 1) >= 0)
        fail(3, "'%s' failed on linking (its message is above)%s", command.list[0],
             what_is_missing(&b->compiler, b->home, b->folder));
    if (in_place)
        copy_program(fresh, output);
    else if (rename(fresh, output))
        fail(3, "%s cannot be written: %s", output, strerror(errno));
    cache_close(&b->cache);
    return format("objects and the runtime library%s%s", b->cache.trouble ? "\n" : "",
                  b->cache.trouble ? plain_text(b->cache.trouble, false) : "");
}
