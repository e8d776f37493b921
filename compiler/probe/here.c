/* here.c: the machine that mgpuc runs on: measured once, and kept in the cache (compiler/link/cache.c) by its processor, cores and memory,
 * so that machines that share a home have a file each. Without a cache nothing is measured unasked. */
#include "compiler/link/units.h"
#include "compiler/probe/probe.h"

#include <string.h>
#include <time.h>

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

static Digest key_of_here(double memory)
{
    Sha256 h = mgpu_sha256_begin();
    mgpu_sha256_add_text(&h, "a machine, measured, 2");
    mgpu_sha256_add_text(&h, processor_name());
    mgpu_sha256_add_text(&h, format("%d cores, %.0f bytes", cores_available(), memory));
    return mgpu_sha256_end(&h);
}

const char *measure_here(ProbeLength length, double memory)
{
    Text t = {0};
    text_add(&t, "# Made by mgpuc probe. Behind each number: the lowest and the highest of its measurements.\nmachine %s\ndevices 0\n", processor_name());
    probe_host(&t, length, memory);
    Cache c = cache_open();
    Digest key = key_of_here(memory);
    const char *file = format("%s/here.machine", temporary_folder());
    write_text(file, &t);
    cache_store(&c, &key, file);
    cache_close(&c);
    return text_take(&t);
}

const char *here_text(const Machine *m)
{
    int day = m->host.plain[F32].measured, cores = (int)m->host.cores.value;
    return format("%s, %d core%s, measured %d-%02d-%02d", m->name, cores, cores == 1 ? "" : "s", day / 10000, day / 100 % 100, day % 100);
}

static void say_measured(const Machine *m, double seconds)
{
    fprintf(stderr, "mgpuc: note: measured this machine (%.1f s; kept for the next time): %.0f core%s with %.0f GFLOP/s, %.0f GB/s of memory; "
                    "'mgpuc probe' takes longer and is more exact\n",
            seconds, m->host.cores.value, m->host.cores.value == 1 ? "" : "s", m->host.plain[F32].value / 1e9, m->host.bandwidth.value / 1e9);
}

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

const Machine *machine_here(double memory, bool asked)
{
    Cache c = cache_open();
    Digest key = key_of_here(memory);
    const char *file = format("%s/here.machine", temporary_folder());
    size_t length;
    const char *text = cache_fetch(&c, &key, file) ? read_file(file, &length) : NULL;
    if (text)
        return machine_read("here.machine", text, length);
    if (!c.folder && !asked)
        return NULL;
    double begin = seconds();
    text = measure_here(PROBE_SHORT, memory);
    const Machine *here = machine_read("here.machine", text, strlen(text));
    say_measured(here, seconds() - begin);
    return here;
}
