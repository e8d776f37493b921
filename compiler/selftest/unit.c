/* unit.c: compiles the cases of a unit to one program, runs it, and compares the results. As for models, the C compiler gets the
 * kernels' flags, and the program is linked with the runtime library. A file has the tensors of all cases and the calls of their
 * kernels (runtime/host/trial.h). The program executes the calls on the mapped file; then the tensors are compared with the
 * interpreter's. */
#include "compiler/selftest/unit.h"
#include "compiler/kernel/kernel.h"
#include "compiler/kernel/target.h"
#include "compiler/target/target.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

TestUnit *new_test_unit(int variant)
{
    TestUnit *u = NEW(TestUnit);
    *u = (TestUnit){.program = {.target = &host_target}, .variant = variant};
    return u;
}

void add_test(TestUnit *u, const char *name, Graph *g, Dtype real, bool separate)
{
    Case c = new_case(name, g, &u->program, separate);
    if (real == F32) {
        c.tolerance = 0x1p-20;
        c.noise = 0x1p-21;
    } else {
        c.noise = 0x1p-49;
    }
    APPEND(u->cases, u->count, c);
}

void unit_text(const TestUnit *u, Text *t)
{
    u->program.target->print_all(&u->program, t);
    text_add(t, "int mgpu_run_trials(const char *file, const mgpu_kernel *);\n"
                "int main(int argc, char **argv) { return argc == 2 ? mgpu_run_trials(argv[1], mgpu_kernels) : 2; }\n");
}

/* ---- the file of calls */

typedef struct TrialFile {
    CaseRunner runner; /* must be first: it is cast to a TrialFile */
    const char *path;
    char *memory;
    int64_t size, used;
    int64_t *guards; /* the pages after tensors, as offsets */
    int guard_count;
    TrialCall *calls;
    int count;
    const char **name; /* for each call: the case and the kernel */
    const char *at;    /* the case whose calls are being added */
    int variant;
} TrialFile;

/* Returns memory of the file that ends where a page does. No access is permitted to the next page, so a kernel that reads or
 * writes beyond the end of a tensor ends the program. */
static char *take(CaseRunner *runner, int64_t bytes)
{
    TrialFile *f = (TrialFile *)runner;
    int64_t page = sysconf(_SC_PAGESIZE), end = (f->used + bytes + page - 1) / page * page;
    if (end + page > f->size)
        die("a unit of the self-test has more than %lld bytes", (long long)f->size);
    APPEND(f->guards, f->guard_count, end);
    f->used = end + page;
    return f->memory + end - bytes;
}

/* Allocates memory in the file for descriptions of calls. */
static char *take_table(TrialFile *f, int64_t bytes)
{
    int64_t begin = (f->used + 63) / 64 * 64;
    if (begin + bytes > f->size)
        die("a unit of the self-test has more than %lld bytes", (long long)f->size);
    f->used = begin + bytes;
    return f->memory + begin;
}

static const char *record_call(CaseRunner *runner, const Kernel *k, Trial *t)
{
    TrialFile *f = (TrialFile *)runner;
    int64_t *offsets = (int64_t *)take_table(f, t->work_argument * (int64_t)sizeof *offsets);
    for (int i = 0; i < t->work_argument; i++)
        offsets[i] = (char *)t->arguments[i] - f->memory;
    TrialCall c = {.kernel = k->number,
                   .threads = t->threads,
                   .samples = t->samples,
                   .work = t->work - f->memory,
                   .stride = t->stride,
                   .arguments = (char *)offsets - f->memory,
                   .work_argument = t->work_argument,
                   .random = t->random,
                   .variant = f->variant,
                   .shared = t->shared,
                   .step = t->step};
    int count = f->count;
    APPEND(f->calls, f->count, c);
    APPEND(f->name, count, format("%s: kernel %s (%s)", f->at, k->name, k->title));
    return NULL;
}

static bool open_file(TrialFile *f)
{
    f->size = (int64_t)1 << 30; /* untouched parts take no space */
    int opened = open(f->path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    bool good = opened >= 0 && ftruncate(opened, f->size) == 0;
    f->memory = good ? mmap(NULL, (size_t)f->size, PROT_READ | PROT_WRITE, MAP_SHARED, opened, 0) : MAP_FAILED;
    if (opened >= 0)
        close(opened);
    take_table(f, sizeof(TrialHead));
    return f->memory != MAP_FAILED;
}

static void end_calls(TrialFile *f)
{
    TrialCall *calls = (TrialCall *)take_table(f, f->count * (int64_t)sizeof *calls);
    int64_t *guards = (int64_t *)take_table(f, f->guard_count * (int64_t)sizeof *guards);
    if (f->count) /* otherwise there is no list, and memcpy takes no null pointer, not even for 0 bytes */
        memcpy(calls, f->calls, (size_t)f->count * sizeof *calls);
    if (f->guard_count)
        memcpy(guards, f->guards, (size_t)f->guard_count * sizeof *guards);
    *(TrialHead *)f->memory = (TrialHead){.calls = (char *)calls - f->memory,
                                          .count = f->count,
                                          .guards = (char *)guards - f->memory,
                                          .guard_count = f->guard_count};
}

/* ---- a unit */

static const int THREADS[] = {1, 3};
enum { VARIANTS = 2 * COUNT(THREADS) }; /* with each number of threads, fused and separate */

static const Phase *phase_of(const Case *c, int way) /* NULL: fused and separate are the same */
{
    return way % 2 == 0 ? c->fused : c->separate != c->fused ? c->separate : NULL;
}

/* Runs the kernels of `program` on the file `path`. Returns an error, or NULL. *tested: whether the program could be run. */
static const char *run_unit(const TestUnit *u, const char *program, const char *path, bool *tested)
{
    TrialFile f = {.runner = {.memory = take, .call = record_call}, .path = path, .variant = u->variant};
    CaseValues *values = NEW_ARRAY(CaseValues, u->count);
    CaseRun *runs = NEW_ARRAY(CaseRun, u->count * VARIANTS);
    const char *wrong = NULL;
    temporary_add(path);
    *tested = open_file(&f);
    if (!*tested)
        return format("no file for it can be made: %s", strerror(errno));
    for (int i = 0; i < u->count; i++) {
        f.at = u->cases[i].name;
        values[i] = case_values(&u->cases[i]);
        for (int way = 0; way < VARIANTS && !wrong; way++)
            if (phase_of(&u->cases[i], way))
                wrong =
                    case_start(&values[i], phase_of(&u->cases[i], way), THREADS[way / 2], &f.runner, &runs[i * VARIANTS + way]);
    }
    end_calls(&f);
    TrialHead *head = (TrialHead *)f.memory;
    Arguments command = {0};
    add_argument(&command, program);
    add_argument(&command, path);
    Text said = {0};
    int status = wrong ? 0 : run_tool(&command, &said);
    /* The program is for another processor, its folder does not allow execution, or a library is missing. */
    if (status < 0 || (status > 0 && head->begun == 0)) {
        *tested = false;
        wrong = status < 0 ? format("the program that it makes cannot be run: %s", strerror(errno))
                           : "the program that it makes cannot be run";
    } else if (status > 0) {
        wrong =
            format("%s ends the program%s", f.name[head->begun - 1], status > 128 ? format(" by signal %d", status - 128) : "");
    }
    for (int i = 0; i < u->count; i++) {
        for (int way = 0; way < VARIANTS && !wrong; way++) {
            uint64_t bits = 0;
            const char *why = phase_of(&u->cases[i], way) ? case_end(&values[i], &runs[i * VARIANTS + way], &bits) : NULL;
            if (why)
                wrong = format("%s, %d thread%s%s: %s", u->cases[i].name, THREADS[way / 2], THREADS[way / 2] == 1 ? "" : "s",
                               way % 2 ? ", not fused" : "", why);
        }
        case_values_free(&values[i]);
    }
    munmap(f.memory, (size_t)f.size);
    unlink(path);
    return wrong;
}

Verdict run_test_units(const Compiler *c, const char *home, const char *folder, TestUnit **units, int count, int at_a_time,
                       const char **why, TestUnit **failed)
{
    Arguments *compiles = NEW_ARRAY(Arguments, count), *links = NEW_ARRAY(Arguments, count);
    for (int i = 0; i < count; i++) {
        const char *text = format("%s/test%d.c", folder, i), *object = format("%s/test%d.o", folder, i),
                   *program = format("%s/test%d", folder, i);
        const char *all[] = {text, object, program};
        for (int k = 0; k < COUNT(all); k++)
            temporary_add(all[k]);
        Text t = {0};
        unit_text(units[i], &t);
        write_text(text, &t);
        compiles[i] = compile_command(c, &c->kernel_flags, text, object);
        Arguments objects = {0};
        add_argument(&objects, object);
        links[i] = link_command(c, &(Arguments){0}, &objects, home, program);
    }
    *why = "it does not compile them";
    if (run_tools(compiles, count, at_a_time) >= 0)
        return NOT_TESTED;
    *why = "it does not link them";
    if (run_tools(links, count, at_a_time) >= 0)
        return NOT_TESTED;
    *why = NULL;
    for (int i = 0; i < count && !*why; i++) {
        bool tested;
        *why = run_unit(units[i], format("%s/test%d", folder, i), format("%s/test%d.calls", folder, i), &tested);
        unlink(format("%s/test%d", folder, i));
        if (*why && !tested)
            return NOT_TESTED;
        if (*why && failed)
            *failed = units[i];
    }
    return *why ? WRONG : RIGHT;
}
