/* machines.c: `mgpuc machines`: lists the machines that --machine knows by name, or prints the file of one, as a template; `mgpuc
 * probe`: measures this machine and writes its file. */
#include "compiler/driver/command.h"
#include "compiler/machine/cost.h"
#include "compiler/probe/probe.h"
#include "runtime/base/whole_file.h"
#include "runtime/cuda/gpus.h"

#include <string.h>

/* "12 GiB", "80 GB", as in data sheets */
static const char *memory_text(double bytes)
{
    double binary = bytes / 0x1p30;
    return binary == (double)(int64_t)binary ? format("%.0f GiB", binary) : format("%.0f GB", bytes / 1e9);
}

static const char *rate_text(double bytes_a_second) { return format("%.3g GB/s", bytes_a_second / 1e9); }

/* "6 x GTX 1070, 1 x GTX 1080" */
static const char *gpus_text(const Machine *m)
{
    Text t = {0};
    for (int d = 0, count; d < m->device_count; d += count) {
        for (count = 1; d + count < m->device_count && strcmp(m->devices[d].name, m->devices[d + count].name) == 0; count++)
            ;
        text_add(&t, "%s%d x %s, %s", d ? "; " : "", count, m->devices[d].name, memory_text(m->devices[d].memory.value));
    }
    return m->device_count ? text_take(&t) : "host devices alone";
}

/* Returns "up to 2048 nodes, 400 GB/s from each to the others": the rate of all devices of a node together. */
static const char *nodes_text(const Machine *m)
{
    int each = m->device_count ? m->device_count : 1;
    Members g = members_of(m, m->device_count ? PROCESSOR_CUDA : PROCESSOR_HOST, m->nodes, m->nodes * each);
    return format("up to %d nodes, %s from each to the others", m->nodes, rate_text(g.network));
}

static const char *links_text(const Machine *m)
{
    Route between, up;
    int cores = (int)m->host.cores.value;
    const char *host = format("%d core%s on the host", cores, cores == 1 ? "" : "s");
    if (m->device_count < 1 || !machine_route(m, machine_host(m), 0, &up))
        return host;
    if (m->device_count < 2 || !machine_route(m, 0, 1, &between))
        return format("%s to the host; %s", rate_text(up.rate), host);
    return format("%s between GPUs%s, %s to the host; %s", rate_text(between.rate), between.staged ? " (through the host)" : "",
                  rate_text(up.rate), host);
}

/* "kernels for sm_80", or that there are none */
static const char *kernels_text(const Machine *m)
{
    Text t = {0};
    for (int d = 0; d < m->device_count; d++) {
        int capability = m->devices[d].capability;
        if (capability < 10 * MGPU_OLDEST_GPU)
            return format("planned only: kernels are for compute capability %d.0 and newer, these have %d.%d", MGPU_OLDEST_GPU,
                          capability / 10, capability % 10);
        if (d == 0 || capability != m->devices[d - 1].capability)
            text_add(&t, "%ssm_%d", d ? ", " : "kernels for ", capability);
    }
    return m->device_count ? text_take(&t) : "kernels for its processor";
}

static int print_file(const char *name)
{
    size_t length;
    machine_named(name); /* reports errors in it */
    const MachineFile *known = machine_file(name);
    fputs(known ? known->text : plain_text(read_file(name, &length), true), stdout);
    return 0;
}

int command_machines(int argc, char **argv)
{
    const char **words =
        own_words("machines", argc, argv,
                  "mgpuc machines         the machines that --machine knows by name\n"
                  "mgpuc machines NAME    the file of one of them: mgpuc machines h100x8 > own.machine; change it; --machine "
                  "own.machine",
                  NULL, 1);
    if (words[0])
        return print_file(words[0]);
    for (const MachineFile *f = MACHINE_FILES; f->name; f++) {
        const char *name = copy_text(f->name, strlen(f->name) - strlen(".machine"));
        const Machine *m = machine_named(name);
        printf("%-10s  %s\n            %s\n            %s\n", name, gpus_text(m), links_text(m), kernels_text(m));
        if (m->nodes > 1)
            printf("            %s\n", nodes_text(m));
    }
    return 0;
}

int command_probe(int argc, char **argv)
{
    const char *output = NULL;
    const OwnOption options[] = {{"-o", .value = &output}, {.name = NULL}};
    own_words("probe", argc, argv,
              "mgpuc probe [-o FILE]   measures this machine: its host (a few seconds; best while nothing else runs), its GPUs "
              "and the links between\n"
              "                        them (less than 30 s in all), and writes a machine file, to FILE or to the terminal, for "
              "--machine FILE;\n"
              "                        the cache keeps it for --machine here",
              options, 0);
    WholeFile file = {.f = stdout};
    ProbedKind gpus = PROBED_NONE;
    int error = output ? mgpu_check_whole(output) : 0; /* before seconds of measurement */
    const char *text = error ? "" : measure_here(PROBE_LONG, host_memory(), &gpus);
    if (output && !error)
        error = mgpu_open_whole(&file, output);
    if (!error)
        fputs(text, file.f);
    if (output && !error)
        error = mgpu_close_whole(&file);
    if (error)
        fail(3, "%s cannot be written: %s", output, strerror(error));
    if (gpus == PROBED_OTHERS)
        fprintf(stderr,
                "mgpuc probe: note: the GPUs here are not measured: kernels are for compute capability %d.0 and newer, and for "
                "whole GPUs (no slices, MIG); "
                "'mgpuc machines' lists files with lines of GPUs to copy\n",
                MGPU_OLDEST_GPU);
    if (gpus == PROBED_VIRTUAL)
        fprintf(stderr,
                "mgpuc probe: note: the GPUs here are emulated, and so are their numbers; --machine here does not have them\n");
    return 0;
}
