/* devices.c: chooses what a run computes with: the kinds of devices, the plan, the threads, the GPUs. */
#include "runtime/base/cores.h"
#include "runtime/cuda/device_cuda.h"
#include "runtime/cuda/gpus.h"
#include "runtime/engine/engine.h"
#include "runtime/engine/processes.h"
#include "runtime/host/device_host.h"
#include "runtime/run/commands.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- kinds */
const DeviceKind *mgpu_kind_of(const mgpu_plan *plan)
{
    static const DeviceKind *const KINDS[] = {&mgpu_device_host, &mgpu_device_cuda};
    for (int i = 0; i < MGPU_COUNT(KINDS); i++)
        if (strcmp(KINDS[i]->name, plan->kind) == 0)
            return KINDS[i];
    mgpu_die("a plan for devices of the kind '%s'", plan->kind);
}

bool mgpu_computes_here(const mgpu_plan *plan) { return !mgpu_kind_of(plan)->async; }

int mgpu_used_threads(const RunOptions *o, const mgpu_plan *plan, char *text, size_t capacity)
{
    if (!mgpu_computes_here(plan)) {
        text[0] = 0;
        return 0;
    }
    int devices = mgpu_first_device(o->processes, plan->devices, 1); /* rank 0 prints it */
    char why[120];
    int cores = mgpu_cores_available(why, sizeof why), threads = devices * mgpu_threads_each(o->processes, plan, o->threads);
    const char *from = "";
    if (o->threads < devices)
        from = ", one for each device";
    else if (threads > cores)
        from = ": more threads than cores";
    else if (threads < o->threads)
        from = ", as many for each device";
    else if (threads < cores && !o->threads_given)
        from = threads == MGPU_MOST_THREADS ? " (the most)" : " (OMP_NUM_THREADS)";
    snprintf(text, capacity, "%d thread%s on %s%s", threads, threads == 1 ? "" : "s", why, from);
    return threads;
}

/* ---- choosing a plan */
static _Noreturn void fail_no_plan(const mgpu_program *p, const char *kind, long devices)
{
    char list[512];
    int length = 0;
    list[0] = 0;
    for (int i = 0; i < p->plan_count && length < (int)sizeof list - 40; i++) {
        bool same_kind = strcmp(p->plans[i].kind, p->plans[0].kind) == 0;
        length += snprintf(list + length, sizeof list - (size_t)length, "%s%d%s%s", i ? ", " : "", p->plans[i].devices,
                           same_kind ? "" : " ", same_kind ? "" : p->plans[i].kind);
    }
    bool one = p->plan_count == 1 && p->plans[0].devices == 1;
    mgpu_fail(MGPU_BAD_USAGE,
              "this program holds %s for %s %s%sdevice%s, not %ld%s%s; compile with: mgpuc --devices %s%s%ld %s -o %s",
              p->plan_count == 1 ? "a plan" : "plans", list, *kind ? p->plans[0].kind : "", *kind ? " " : "", one ? "" : "s",
              devices, *kind ? " " : "", kind, kind, *kind ? ":" : "", devices, p->model_file, program_invocation_short_name);
}

const mgpu_plan *mgpu_choose_plan(const mgpu_program *p, const RunOptions *o)
{
    DeviceList wanted;
    if (!o->devices)
        return mgpu_open_plan(o, &p->plans[p->default_plan]);
    char *wrong = mgpu_read_devices(o->devices, &wanted);
    if (wrong)
        mgpu_fail(MGPU_BAD_USAGE, "--devices %s", wrong);
    const mgpu_plan *found = NULL, *usual = &p->plans[p->default_plan];
    if (!wanted.count && strcmp(usual->kind, wanted.kind) == 0)
        found = usual;
    for (int i = 0; i < p->plan_count && !found; i++)
        if (p->plans[i].devices == wanted.count && (!*wanted.kind || strcmp(p->plans[i].kind, wanted.kind) == 0))
            found = &p->plans[i];
    if (!found)
        fail_no_plan(p, wanted.kind, wanted.count ? wanted.count : 1);
    mgpu_free_devices(&wanted);
    return mgpu_open_plan(o, found);
}

/* ---- GPUs */
void mgpu_print_gpus(const mgpu_program *p)
{
    const CudaDriver *driver;
    GpuList list;
    char *why = mgpu_find_gpus(&list, &driver), text[32];
    puts("\nGPUs");
    if (why)
        printf("  none: %s\n", why);
    for (int i = 0; i < list.count; i++) {
        const Gpu *g = &list.gpus[i];
        printf("  %d  %s, %s, %s, %s bytes, compute capability %d.%d%s\n", i, g->name, g->bus, g->uuid,
               mgpu_grouped(g->memory, text), g->major, g->minor, g->slice ? ", a slice (MIG)" : "");
    }
    if (list.remark)
        printf("  %s\n", list.remark);
    char *archs = mgpu_image_archs(p->images);
    printf("  kernels for %s\n", archs);
    free(archs);
    mgpu_free_gpus(&list);
    free(why);
}
