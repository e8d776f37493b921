/* here_test: plans for GPUs are for those of this machine once `mgpuc probe` has measured them, as long as they are the same. The
 * GPUs are virtual ones, whose numbers mgpuc itself does not keep. At last, medians of measurements. */
#include "compiler/probe/probe.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const double MEMORY = 1e9;
static int failures;

static void check(bool good, const char *what)
{
    printf("%s %s\n", good ? "ok" : "not ok", what);
    failures += !good;
}

static void keep(int devices, const char *name)
{
    Text t = {0};
    text_add(&t, "machine A processor\ndevices %d\n", devices);
    if (devices)
        text_add(&t, "name * %s\nbandwidth * 3TB/s\nmemory * 80GiB\narithmetic * f32 60TFLOP/s\n", name);
    text_add(&t, "host cores 8\nhost bandwidth 40GB/s\nhost arithmetic f32 100GFLOP/s measured 2026-11-26\n");
    store_machine(&t, MEMORY, devices > 0);
}

static void write_file(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");
    if (!f || fputs(text, f) < 0 || fclose(f))
        exit(3);
}

int main(void)
{
    static const char NAME[] = "Virtual NVIDIA H100 80GB HBM3";
    char folder[] = "/tmp/here_test.XXXXXX";
    if (!mkdtemp(folder))
        return 3;
    write_file(format("%s/machine", folder), "devices 2\ncard * H100\n");
    setenv("MGPUC_CACHE", format("%s/cache", folder), 1);
    setenv("MGPU_VGPU", format("%s/machine", folder), 1);
    setenv("MGPU_CUDA_LIBRARIES", MGPU_BINARY "/vgpu", 1);
    check(!machine_here_with_gpus(MEMORY), "GPUs that nobody has measured");
    keep(0, NULL);
    check(!machine_here_with_gpus(MEMORY), "a machine that was measured without them");
    keep(2, NAME);
    const Machine *here = machine_here_with_gpus(MEMORY);
    check(here && here->device_count == 2, "GPUs that were measured");
    check(here && strcmp(here_text(here), "A processor, 8 cores, 2 x Virtual NVIDIA H100 80GB HBM3, measured 2026-11-26") == 0,
          "... are what it is called");
    check(machine_here(MEMORY, false) && machine_here(MEMORY, false)->device_count == 2, "... and its host is known, too");
    keep(3, NAME);
    check(!machine_here_with_gpus(MEMORY), "others than are here: one more");
    keep(2, "NVIDIA L4");
    check(!machine_here_with_gpus(MEMORY), "others than are here: another name");
    check(machine_here(MEMORY, false) && machine_here(MEMORY, false)->device_count == 0, "... then the host is known alone");
    Measurements many = {0};
    for (int i = 0; i < 56; i++) /* the pairs of 8 GPUs: the slow ones come last */
        add_measurement(&many, i < 20 ? 1 : 3);
    check(many.count == 56 && median_of(&many) == 3, "a median is that of all measurements");
    return system(format("rm -r %s", folder)) != 0 || failures;
}
