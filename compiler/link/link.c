/* link.c: Program -> executable, by the system's C compiler.
 *
 * The program is written as pieces (pieces.c). Those that the cache holds are taken from there, all others are compiled,
 * as many at a time as there are cores, the longest first; then the objects are linked with the runtime library.
 * Intermediate files live in a folder of their own under TMPDIR, which is removed; the program is written beside its name
 * and renamed, so that a failure leaves an older program as it was. */
#include "compiler/ir/program.h"
#include "compiler/link/pieces.h"
#include "compiler/plan/schedule.h"
#include "compiler/kernel/target.h"

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

void write_text(const char *path, const Text *t)
{
    FILE *f = fopen(path, "wb");
    bool good = f && fwrite(text_of(t), 1, t->length, f) == t->length;
    if (!f || fclose(f) || !good)
        fail(3, "%s cannot be written: %s", path, strerror(errno));
}

typedef struct Job { /* a piece on its way to an object */
    const Piece *piece;
    const char *text, *object; /* files */
    Digest key;
} Job;

static int longest_first(const void *a, const void *b)
{
    const Job *x = a, *y = b;
    if (x->piece->cost != y->piece->cost)
        return x->piece->cost < y->piece->cost ? 1 : -1;
    return x->piece < y->piece ? -1 : x->piece > y->piece;
}

static Digest key_of(const Compiler *c, const Piece *p)
{
    const Arguments *flags = p->kernels ? &c->kernel_flags : &c->table_flags;
    Sha256 h = mgpu_sha256_begin();
    mgpu_sha256_add_text(&h, "mgpuc object 2");
    mgpu_sha256_add(&h, c->identity.bytes, sizeof c->identity.bytes);
    for (int i = 0; i < flags->count; i++)
        mgpu_sha256_add_text(&h, flags->list[i]);
    mgpu_sha256_add_text(&h, "");
    mgpu_sha256_add(&h, text_of(&p->text), p->text.length);
    return mgpu_sha256_end(&h);
}

static Arguments link_command(const Compiler *c, const Job *jobs, int count, const char *home, const char *output)
{
    Arguments a = {0};
    add_arguments(&a, &c->words);
    for (int i = 0; i < count; i++)
        add_argument(&a, jobs[i].object);
    const char *rest[] = {format("%s/libmgpu.a", home), format("-L%s", home), "-o", output, "-lz", "-lm", "-lpthread", "-ldl"};
    for (int i = 0; i < COUNT(rest); i++)
        add_argument(&a, rest[i]);
    return a;
}

/* makes the objects of all jobs; returns the number of the one that cannot be compiled, else -1 */
static int make_objects(const Compiler *c, Cache *cache, Job *jobs, int count, Linked *linked)
{
    int missing = 0;
    Job *todo = NEW_ARRAY(Job, count);
    for (int i = 0; i < count; i++) {
        jobs[i].key = key_of(c, jobs[i].piece);
        temporary_add(jobs[i].object);
        if (jobs[i].piece->passing || !cache_fetch(cache, &jobs[i].key, jobs[i].object))
            todo[missing++] = jobs[i];
    }
    qsort(todo, (size_t)missing, sizeof *todo, longest_first);
    Arguments *commands = NEW_ARRAY(Arguments, missing);
    for (int i = 0; i < missing; i++) {
        temporary_add(todo[i].text);
        write_text(todo[i].text, &todo[i].piece->text);
        commands[i] = compile_command(c, todo[i].piece->kernels ? &c->kernel_flags : &c->table_flags, todo[i].text, todo[i].object);
    }
    linked->compiled = missing;
    linked->at_a_time = cores_available();
    int failed = run_tools(commands, missing, linked->at_a_time);
    for (int i = 0; i < missing && failed < 0; i++)
        if (!todo[i].piece->passing)
            cache_store(cache, &todo[i].key, todo[i].object);
    return failed < 0 ? -1 : (int)(todo[failed].piece - jobs[0].piece);
}

/* an older file stays until the new one is whole */
static void keep_text(const char *path, const Text *t)
{
    const char *fresh = fresh_path(path);
    write_text(fresh, t);
    if (rename(fresh, path))
        fail(3, "%s cannot be written: %s", path, strerror(errno));
}

static void keep_texts(const Program *p)
{
    const char *output = p->options->output;
    Text kernels = {0}, program = {0}, schedules = {0};
    p->target->print_all(p, &kernels);
    emit_program(p, &program);
    for (int i = 0; i < p->plan_count; i++)
        schedule_write(p->plans[i].schedule, &schedules);
    keep_text(format("%s.c", output), &program);
    keep_text(format("%s.kernels.%s", output, p->target->suffix), &kernels);
    keep_text(format("%s.sched", output), &schedules);
}

static Images all_images(const Program *p, const char *home, const char *folder, Cache *cache)
{
    Images images = make_images(p, home, folder, cache, cores_available());
    if (images.failed)
        fail(3, "the kernels cannot be compiled for %s (the message is above)", images.failed);
    return images;
}

void emit_images(const Program *p, Text *t)
{
    if (!p->target->images)
        fail(2, "--emit images is for GPUs, and the program would be for host devices; add --devices cuda:1");
    check_images(p);
    Cache cache = cache_open();
    Images images = all_images(p, runtime_folder(), temporary_folder(), &cache);
    images_print(p, &images, t);
    cache_close(&cache);
}

Linked write_program(Program *p)
{
    const Options *o = p->options;
    const char *home = runtime_folder(), *library = format("%s/libmgpu.a", home);
    if (access(library, R_OK))
        fail(3, "the runtime library %s cannot be read: %s; build it, or set MGPU_HOME to its folder", library, strerror(errno));
    if (p->target->images)
        check_images(p);
    if (p->target->images && has_real_images(p))
        p->library_folders = toolkit_folders();
    remove_old_outputs(o->output);
    double start = now_ms();
    if (o->keep)
        keep_texts(p);
    Piece *pieces;
    int count;
    make_pieces(p, &pieces, &count);
    Linked linked = {.pieces = count, .emit_ms = now_ms() - start};
    start = now_ms();
    Compiler compiler = find_compiler(o->cc, false, home);
    Cache cache = cache_open();
    const char *folder = temporary_folder();
    ask_programs(&compiler, folder);
    ask_flags(&compiler, &cache, folder);
    if (p->target->images) {
        Images images = all_images(p, home, folder, &cache);
        Piece piece = {.passing = true};
        images_text(&images, &piece.text);
        APPEND(pieces, count, piece);
        linked.pieces = count;
        linked.images = images.files.count;
        linked.images_compiled = images.compiled;
    }
    Job *jobs = NEW_ARRAY(Job, count);
    for (int i = 0; i < count; i++)
        jobs[i] = (Job){.piece = &pieces[i], .text = format("%s/%d.c", folder, i), .object = format("%s/%d.o", folder, i)};
    int failed = make_objects(&compiler, &cache, jobs, count, &linked);
    if (failed >= 0)
        fail(3, "'%s' failed on %s (its message is above)%s", compiler.words.list[0], pieces[failed].kernels ? "the kernels" : "the tables",
             what_is_missing(&compiler, home, folder));
    linked.compile_ms = now_ms() - start;
    start = now_ms();
    const char *fresh = fresh_path(o->output);
    Arguments command = link_command(&compiler, jobs, count, home, fresh);
    failed = run_tools(&command, 1, 1);
    if (failed >= 0)
        fail(3, "'%s' failed on linking (its message is above)%s", compiler.words.list[0], what_is_missing(&compiler, home, folder));
    if (rename(fresh, o->output))
        fail(3, "%s cannot be written: %s", o->output, strerror(errno));
    cache_close(&cache);
    linked.link_ms = now_ms() - start;
    linked.cache = cache.folder;
    linked.trouble = cache.trouble;
    linked.refused = compiler.refused;
    linked.mistakes = compiler.mistakes.list;
    linked.mistake_count = compiler.mistakes.count;
    return linked;
}
