/* named.c: a name -> Machine: one of those in compiler/machine/files, which are embedded, or a file. */
#include "compiler/machine/machine.h"

#include <string.h>

const MachineFile *machine_file(const char *name)
{
    const char *with_suffix = format("%s.machine", name);
    for (const MachineFile *f = MACHINE_FILES; f->name; f++)
        if (strcmp(f->name, with_suffix) == 0)
            return f;
    return NULL;
}

/* Returns the names of the embedded machines. */
static const char *machine_names(void)
{
    Text t = {0};
    for (const MachineFile *f = MACHINE_FILES; f->name; f++)
        text_add(&t, "%s%.*s", t.length ? " " : "", (int)(strlen(f->name) - strlen(".machine")), f->name);
    return text_take(&t);
}

static Machine *read_known(const MachineFile *f) { return machine_read(f->name, f->text, strlen(f->text)); }

Machine *machine_named(const char *name)
{
    const MachineFile *known = machine_file(name);
    size_t length;
    if (known)
        return read_known(known);
    char *text = read_file(name, &length);
    if (text)
        return machine_read(name, text, length);
    if (strpbrk(name, "./"))
        fail(1, "%s cannot be read: %m; a machine is a file or one of: %s", name, machine_names());
    const char *names[64];
    int count = 0;
    for (const MachineFile *f = MACHINE_FILES; f->name && count < COUNT(names); f++)
        names[count++] = copy_text(f->name, strlen(f->name) - strlen(".machine"));
    fail(2, "no machine is called '%s'%s; there are: %s; or name a file", name, did_you_mean(name, names, count),
         machine_names());
}

/* Host: an L1 cache, and half of the L2 cache of a core of today's servers. GPUs: the SMs of an H100 and its plain rates; the
 * rates of matrix units are those of sm_80's instructions, which kernels use. All GPUs since sm_80 have more shared memory. */
const Chip CHIP[PROCESSORS] = {
    [PROCESSOR_HOST] = {.first_cache_bytes = 32 << 10,
                        .cache_bytes = 1 << 20,
                        .one_thread_iterations = 8192,
                        .part_iterations = 4096},
    [PROCESSOR_CUDA] = {.units = 132,
                        .shared_bytes = 96 << 10,
                        .multiply_adds = {.f64 = 64, .f32 = 128, .tf32 = 512, .half = 1024}},
};

Machine *machine_default(Processor p) { return read_known(machine_file(p == PROCESSOR_HOST ? "host2" : "h100x8")); }
