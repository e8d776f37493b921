/* device_list.c: --devices and --arch: how many devices of which kind a program has plans for, and what its GPUs may be. */
#include "compiler/driver/command.h"
#include "compiler/ir/program.h"
#include "compiler/machine/machine.h"
#include "compiler/plan/plan.h"
#include "compiler/target/target.h"
#include "runtime/cuda/gpus.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>


static int device_number(const char **at, const char *list)
{
    char *end;
    long n = strtol(*at, &end, 10);
    if (end == *at || n < 1 || n > MOST_DEVICES)
        fail(2, "--devices %s: a count between 1 and %d is expected at '%s'%s", list, MOST_DEVICES, *at,
             isalpha((unsigned char)**at) ? ", as in 4   1-8   host:3   cuda:4"
             : strstr(list, "cuda")
                 ? "; numbers are counts here, GPUs by index are cuda:0x1,2x1, or at run time: ./train --devices cuda:0,2"
                 : "");
    *at = end;
    return (int)n;
}

const char *selected_gpus(const char *list)
{
    for (const char *at = list; at && *at; at += *at == ',') {
        if (mgpu_names_gpu(at + (strncmp(at, "cuda:", 5) == 0 ? 5 : 0)))
            return list;
        at += strcspn(at, ",");
    }
    return NULL;
}

/* A list of GPUs is read as a program reads it, and is its own for runs that say nothing. A number alone would be a count here
 * and a GPU there. */
static const Target *parse_gpus(const char *list, const Machine *named, Plan **plans, int *count)
{
    DeviceList d;
    if (named)
        fail(2, "--devices %s names GPUs of the machine where the program runs; with --machine write how many: --devices cuda:4", list);
    if (strncmp(list, "cuda:", 5) != 0)
        fail(2, "--devices %s names GPUs, which follow cuda: as in cuda:0x4 and cuda:GPU-8932f937", list);
    char *wrong = mgpu_read_devices(list, &d);
    if (wrong)
        fail(2, "--devices %s", wrong);
    for (const char *at = list + strlen("cuda:"); *at; at += *at == ',') {
        int length = (int)strcspn(at, ",");
        if (!mgpu_names_gpu(at))
            fail(2, "--devices %s: GPUs and a number alone, which is a count; GPU %.*s is written %.*sx1", list, length, at, length, at);
        at += length;
    }
    APPEND(*plans, *count, ((Plan){.devices = d.count, .kind = cuda_target.name}));
    mgpu_free_devices(&d);
    return &cuda_target;
}

/* "host", "host:" before a count; false: no count follows */
static bool read_kind(const char **at, const char *list, const Target **kind, bool *given)
{
    for (int k = 0; TARGETS[k]; k++) {
        const char *name = TARGETS[k]->name;
        size_t length = strlen(name);
        if (strncmp(*at, name, length) != 0)
            continue;
        if (*given && *kind != TARGETS[k])
            fail(2, "--devices %s: a program is for one kind of device; write %s or %s, and compile twice for both", list, (*kind)->name, name);
        *kind = TARGETS[k];
        *given = true;
        *at += length;
        if (**at == 0 || **at == ',')
            return false;
        if (**at != ':')
            fail(2, "--devices %s: write %s:3 for three devices of kind %s", list, name, name);
        ++*at;
        return true;
    }
    return true;
}

/* GPUs of the machine that --machine names, else of this one */
static int gpus_of(const Machine *named, const char **why)
{
    *why = "";
    return named ? named->device_count : gpus_found(why);
}

static void check_machine(const Machine *m, const char *list, const Target *kind, int most)
{
    if (!kind->own_memory)
        return;
    if (!m->device_count)
        fail(2, "--devices %s: the machine '%s' has no GPU; write --devices host:4, or name another machine ('mgpuc machines' lists them)", list, m->name);
    if (most > m->device_count)
        fail(2, "--devices %s: the machine '%s' has %d GPU%s; for more of them make a machine file of your own ('mgpuc machines --help')", list, m->name,
             m->device_count, m->device_count == 1 ? "" : "s");
}

const Target *parse_devices(const char *list, const Machine *named, Plan **plans, int *count)
{
    bool wanted[MOST_DEVICES + 1] = {false}, given = false;
    const Target *kind = TARGETS[0];
    const char *at = list ? list : "1";
    *plans = NULL;
    *count = 0;
    if (selected_gpus(list))
        return parse_gpus(list, named, plans, count);
    for (bool more = true; more;) {
        int from = 1, to = 1;
        const char *why;
        if (read_kind(&at, list, &kind, &given)) {
            from = to = device_number(&at, list);
            if (*at == '-') {
                at++;
                to = device_number(&at, list);
                if (to < from)
                    fail(2, "--devices %s: the range %d-%d is empty", list, from, to);
            }
        } else if (kind->own_memory) { /* all that are here */
            from = to = gpus_of(named, &why);
            if (!to && !named)
                fail(3, "--devices %s: no GPU was found here: %s; a program for other machines says for how many: --devices cuda:4", list, why);
        }
        for (int n = from; n <= to; n++)
            wanted[n] = true;
        more = *at == ',';
        if (more)
            at++;
        else if (*at)
            fail(2, "--devices %s: '%s' is not understood; write 4   1,2,4   1-8   host:3   cuda:4", list, at);
    }
    const char *none;
    int here = given ? 0 : gpus_of(named, &none); /* without a kind: GPUs if there are any, and all of them without a count */
    if (here > 0) {
        kind = &cuda_target;
        wanted[1] = wanted[1] && (list || here == 1);
        wanted[here] = wanted[here] || !list;
    }
    int most = 0;
    for (int n = 1; n <= MOST_DEVICES; n++)
        most = wanted[n] ? n : most;
    if (named)
        check_machine(named, list, kind, most);
    for (int n = 1; n <= MOST_DEVICES; n++)
        if (wanted[n]) {
            Plan p = {.devices = n, .kind = kind->name};
            APPEND(*plans, *count, p);
        }
    return kind;
}

const char *planned_architectures(const Machine *m, bool any)
{
    Text text = {0};
    Map known = {0};
    for (int d = 0; d < m->device_count; d++) {
        const char *arch = format("sm_%d", m->devices[d].capability);
        if (m->devices[d].capability < 10 * MGPU_OLDEST_GPU || map_get(&known, arch))
            continue;
        map_set(&known, arch, &known);
        text_add(&text, "%s%s", text.length ? "," : "", arch);
    }
    if (!text.length && !any)
        fail(1, "the GPUs of the machine '%s' (%s) have compute capability %d.%d, and kernels are made for %d.0 (A100, 2020) and newer. Such a machine can be "
                "planned: mgpuc plan, mgpuc check, or --emit schedule. --arch sm_%d0 compiles for other GPUs", m->name, m->devices->name, m->devices->capability / 10,
             m->devices->capability % 10, MGPU_OLDEST_GPU, MGPU_OLDEST_GPU);
    return text.length ? text_take(&text) : NULL;
}

const char *check_architectures(const char *list)
{
    Text text = {0};
    Map known = {0};
    if (!list)
        list = architectures_found();
    if (!list)
        list = "sm_80,sm_90";
    if (!*list)
        fail(2, "--arch needs an architecture: sm_90   sm_80,sm_100   vgpu");
    for (const char *at = list; *at;) {
        size_t length = strcspn(at, ",");
        const char *arch = copy_text(at, length);
        bool ptx = strncmp(arch, "compute_", 8) == 0, code = strncmp(arch, "sm_", 3) == 0;
        const char *number = arch + (ptx ? 8 : code ? 3 : 0);
        size_t digits = ptx || code ? strspn(number, "0123456789") : 0;
        bool letter = code && digits && (number[digits] == 'a' || number[digits] == 'f') && !number[digits + 1];
        bool virtual = strcmp(arch, "vgpu") == 0 || strcmp(arch, "vgpu-check") == 0;
        if (!virtual && (digits < 2 || digits > 3 || (number[digits] && !letter)))
            fail(2, "--arch %s: '%s' is not understood; write sm_90   sm_80,sm_100   vgpu", list, arch);
        if (!virtual && atoi(number) < 10 * MGPU_OLDEST_GPU)
            fail(2, "--arch %s: kernels are for sm_%d0 (A100, 2020) and newer, not for %s; --devices host compiles for the CPU", list, MGPU_OLDEST_GPU, arch);
        if (!map_get(&known, arch))
            text_add(&text, "%s%s", text.length ? "," : "", arch);
        map_set(&known, arch, &known);
        at += length;
        at += *at == ',';
    }
    return text_take(&text);
}
