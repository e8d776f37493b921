/* machine.c: the devices of this machine: `mgpuc devices`, and what --devices cuda and --arch mean without a number. GPUs are
 * asked for through NVIDIA's management library, which makes no context: looking costs nothing of them. */
#include "compiler/command.h"
#include "compiler/pieces.h"
#include "runtime/gpus.h"

#include <stdlib.h>
#include <string.h>

/* NULL, or why none was found */
static const char *find_gpus(GpuList *list)
{
    char *why = mgpu_nvml_gpus(list);
    const CudaDriver *driver;
    if (why) /* the driver knows them too */
        why = mgpu_find_gpus(list, &driver);
    return why ? why : list->count ? NULL : "there is none";
}

int gpus_found(const char **why)
{
    GpuList list;
    *why = find_gpus(&list);
    return *why ? 0 : list.count;
}

const char *architectures_found(void)
{
    GpuList list;
    Text text = {0};
    if (find_gpus(&list))
        return NULL;
    for (int i = 0; i < list.count; i++) {
        bool known = false;
        for (int k = 0; k < i; k++)
            known = known || (list.gpus[k].major == list.gpus[i].major && list.gpus[k].minor == list.gpus[i].minor);
        if (!known)
            text_add(&text, "%ssm_%d%d", text.length ? "," : "", list.gpus[i].major, list.gpus[i].minor);
    }
    return text_take(&text);
}

int command_devices(int argc, char **argv)
{
    if (argc > 0 && (strcmp(argv[0], "--help") == 0 || strcmp(argv[0], "-h") == 0)) {
        puts("mgpuc devices: the devices of this machine, in the order of nvidia-smi; nothing is started on them");
        return 0;
    }
    if (argc > 0)
        fail(2, "mgpuc devices takes no arguments; what is '%s'?", argv[0]);
    GpuList list;
    const char *why = find_gpus(&list);
    for (int i = 0; !why && i < list.count; i++) {
        const Gpu *g = &list.gpus[i];
        printf("cuda:%-3d %-28s sm_%d%d  %7.1f GiB  %s  %s%s\n", i, g->name, g->major, g->minor, (double)g->memory / (1 << 30), g->bus,
               g->uuid, g->divided ? "  divided into parts (MIG): not supported" : "");
    }
    if (why)
        printf("no GPU   %s\n", why);
    int cores = cores_available();
    printf("host     %d core%s\n", cores, cores == 1 ? "" : "s");
    return 0;
}
