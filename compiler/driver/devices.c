/* devices.c: the devices of this machine: `mgpuc devices`, and the meaning of --devices cuda and of a missing --arch. It uses the
 * code of programs, so indices and CUDA_VISIBLE_DEVICES mean the same. */
#include "compiler/driver/command.h"
#include "compiler/link/translation_units.h"
#include "runtime/cuda/gpus.h"

#include <stdlib.h>
#include <string.h>

int gpus_found(const char **why)
{
    GpuList list;
    *why = mgpu_list_gpus(&list);
    return *why ? 0 : list.count;
}

const char *architectures_found(void)
{
    GpuList list;
    Text text = {0};
    if (mgpu_list_gpus(&list))
        return NULL;
    for (int i = 0; i < list.count; i++) {
        bool known = list.gpus[i].major < MGPU_OLDEST_GPU;
        for (int k = 0; k < i; k++)
            known = known || (list.gpus[k].major == list.gpus[i].major && list.gpus[k].minor == list.gpus[i].minor);
        if (!known)
            text_add(&text, "%ssm_%d%d", text.length ? "," : "", list.gpus[i].major, list.gpus[i].minor);
    }
    if (!text.length)
        fail(
            3,
            "the GPU here (%s) has compute capability %d.%d, kernels need %d.0 (A100, 2020) or newer; --devices host compiles for the CPU, "
            "--arch sm_%d0 for another machine",
            list.gpus->name, list.gpus->major, list.gpus->minor, MGPU_OLDEST_GPU, MGPU_OLDEST_GPU);
    return text_take(&text);
}

int command_devices(int argc, char **argv)
{
    own_words("devices", argc, argv,
              "mgpuc devices: the devices of this machine, in the order of nvidia-smi, or those that CUDA_VISIBLE_DEVICES shows "
              "in its\n"
              "order; nothing is started on them",
              NULL, 0);
    GpuList list;
    const char *why = mgpu_list_gpus(&list);
    for (int i = 0; !why && i < list.count; i++) {
        const Gpu *g = &list.gpus[i];
        printf("cuda:%-3d %-28s sm_%d%d  %7.1f GiB  %s  %s%s\n", i, g->name, g->major, g->minor, (double)g->memory / (1 << 30),
               g->bus, g->uuid, g->slice ? "  a slice (MIG)" : "");
    }
    if (list.remark)
        printf("         %s\n", list.remark);
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    if (why)
        printf("no GPU   %s\n", why);
    else if (visible)
        printf("         CUDA_VISIBLE_DEVICES=%s shows these, in this order\n", visible);
    int cores = cores_available();
    printf("host     %d core%s\n", cores, cores == 1 ? "" : "s");
    return 0;
}
