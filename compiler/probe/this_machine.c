/* this_machine.c: measure the machine that mgpuc runs on, once, and keep the result in the cache (compiler/link/cache.c). The key
 * holds processor, cores and memory, so that machines with a common home directory have separate files. Without a cache, nothing
 * is measured unless asked for.
 *
 * The load that other programs put on the cores meanwhile is kept, too. A machine that was measured under load is measured again
 * when the load is gone. */
#include "compiler/link/translation_units.h"
#include "compiler/probe/probe.h"
#include "runtime/cuda/gpus.h"

#include <string.h>
#include <time.h>

enum { LOADED = 15 }; /* percent of the cores; from this load on, other programs disturb measurements */

static const char *processor_name(void)
{
    char line[512], *colon;
    const char *name = "this machine";
    FILE *f = fopen("/proc/cpuinfo", "re");
    while (f && fgets(line, sizeof line, f))
        if (strncmp(line, "model name", 10) == 0 && (colon = strchr(line, ':'))) {
            name = copy_text(colon + 2, strcspn(colon + 2, "\n#"));
            break;
        }
    if (f)
        fclose(f);
    return name;
}

static Digest key_of_here(double memory, bool gpus)
{
    Sha256 h = mgpu_sha256_begin();
    mgpu_sha256_add_text(&h, gpus ? "a machine with its GPUs, measured" : "a machine, measured, 2");
    mgpu_sha256_add_text(&h, processor_name());
    mgpu_sha256_add_text(&h, format("%d cores, %.0f bytes", cores_available(), memory));
    return mgpu_sha256_end(&h);
}

void store_machine(const Text *t, double memory, bool gpus)
{
    Cache c = cache_open();
    Digest key = key_of_here(memory, gpus);
    const char *file = format("%s/here.machine", temporary_folder());
    temporary_add(file);
    write_text(file, t);
    cache_store(&c, &key, file);
    cache_close(&c);
}

static void write_head(Text *t, int gpus)
{
    text_add(
        t, "# Made by mgpuc probe. Behind each number: the lowest and the highest of its measurements.\nmachine %s\ndevices %d\n",
        processor_name(), gpus);
}

/* The host also has a file of its own, for when other GPUs, or none, are here. Emulated GPUs are not kept, so that only plans
 * that ask for them use them. */
const char *measure_here(ProbeLength length, double memory, ProbedKind *gpus)
{
    Text host = {0}, all = {0}, kept = {0}, of_gpus = {0};
    int count = 0, before = probe_load(), after, load;
    *gpus = length == PROBE_LONG ? probe_gpus(&of_gpus, &count) : PROBED_NONE;
    probe_host(&host, length, memory);
    after = probe_load();
    load = before > after ? before : after;
    if (load >= LOADED)
        text_add(&host, "host load %d\n", load);
    if (load >= LOADED && length == PROBE_LONG)
        fprintf(stderr,
                "mgpuc: warning: other programs took %d %% of the cores, so what was measured may be too slow; measure again "
                "when they have ended\n",
                load);
    write_head(&all, count);
    text_add(&all, "%s%s", text_of(&of_gpus), text_of(&host));
    write_head(&kept, 0);
    text_add(&kept, "%s", text_of(&host));
    store_machine(&kept, memory, false);
    if (*gpus == PROBED_REAL)
        store_machine(&all, memory, true);
    return text_take(&all);
}

const char *here_text(const Machine *m)
{
    int day = m->host.plain[F32].measured, cores = (int)m->host.cores.value;
    Text t = {0};
    text_add(&t, "%s, %d core%s", m->name, cores, cores == 1 ? "" : "s");
    for (int d = 0, next; d < m->device_count; d = next) {
        for (next = d + 1; next < m->device_count && strcmp(m->devices[next].name, m->devices[d].name) == 0;)
            next++;
        text_add(&t, ", %d x %s", next - d, m->devices[d].name);
    }
    text_add(&t, ", measured %d-%02d-%02d", day / 10000, day / 100 % 100, day % 100);
    if (m->host.load)
        text_add(&t, " while others took %d %% of the cores", m->host.load);
    return text_take(&t);
}

/* load: during the earlier measurement; 0: there was none, or no load */
static void say_measured(const Machine *m, int load, double seconds)
{
    fprintf(
        stderr,
        "mgpuc: note: measured this machine %s(%.1f s; kept for the next time): %.0f core%s with %.0f GFLOP/s, %.0f GB/s of "
        "memory; "
        "'mgpuc probe' takes longer and is more exact%s\n",
        load ? format("again, as other programs took %d %% of its cores the last time ", load) : "", seconds, m->host.cores.value,
        m->host.cores.value == 1 ? "" : "s", m->host.plain[F32].value / 1e9, m->host.bandwidth.value / 1e9,
        m->host.load ? format("; other programs took %d %% of the cores: it is measured again when they are gone", m->host.load)
                     : "");
}

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* NULL: nothing is kept */
static const Machine *stored_machine(double memory, bool gpus, bool *off)
{
    Cache c = cache_open();
    Digest key = key_of_here(memory, gpus);
    const char *file = format("%s/here.machine", temporary_folder());
    size_t length;
    temporary_add(file);
    const char *text = cache_fetch(&c, &key, file) ? read_file(file, &length) : NULL;
    *off = !c.folder;
    return text ? machine_read("here.machine", text, length) : NULL;
}

const Machine *machine_here_with_gpus(double memory)
{
    bool off;
    const Machine *here = stored_machine(memory, true, &off);
    GpuList list = {0};
    bool same = here && !mgpu_list_gpus(&list) && list.count == here->device_count;
    for (int i = 0; i < list.count && same; i++)
        same = strcmp(list.gpus[i].name, here->devices[i].name) == 0;
    mgpu_free_gpus(&list);
    return same ? here : NULL;
}

const Machine *machine_here(double memory, bool asked)
{
    bool off;
    ProbedKind gpus;
    const Machine *here = machine_here_with_gpus(memory);
    if (here)
        return here;
    here = stored_machine(memory, false, &off);
    int load = here ? here->host.load : 0;
    if ((here && (!load || probe_load() >= LOADED)) || (!here && off && !asked))
        return here;
    double begin = seconds();
    const char *text = measure_here(PROBE_SHORT, memory, &gpus);
    here = machine_read("here.machine", text, strlen(text));
    say_measured(here, load, seconds() - begin);
    return here;
}
