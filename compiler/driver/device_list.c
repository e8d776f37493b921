/* device_list.c: --devices and --arch: the device counts and kind that a program has plans for, and its GPU architectures. With a
 * machine of several nodes, 4x8 are 4 nodes with 8 devices each; after cuda: it is GPU 4, eight times. */
#include "compiler/driver/command.h"
#include "compiler/ir/program.h"
#include "compiler/machine/machine.h"
#include "compiler/plan/plan.h"
#include "compiler/target/target.h"
#include "runtime/cuda/gpus.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

static int read_number(const char **at, const char *list, int most)
{
    char *end;
    long n = strtol(*at, &end, 10);
    if (end == *at || n < 1 || n > most)
        fail(2, "--devices %s: a count between 1 and %d is expected at '%s'%s", list, most, *at,
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

/* With --machine, 4x8 are nodes and devices, but cuda:4x8 is not. */
static bool names_gpus(const char *list, const Machine *named)
{
    const char *at = selected_gpus(list);
    if (!named)
        return at;
    while (at && *at && !(strncmp(at, "cuda:", 5) == 0 && mgpu_names_gpu(at + 5))) {
        at += strcspn(at, ",");
        at += *at == ',';
    }
    return at && *at;
}

/* A list of GPUs is parsed as a program does, and becomes the default of its runs. A single number would be a count here, and a
 * GPU there. */
static const Target *parse_gpus(const char *list, const Machine *named, Plan **plans, int *count)
{
    DeviceList d;
    if (named)
        fail(
            2,
            "--devices %s names GPUs of the machine where the program runs; with --machine write how many: --devices cuda:4, or 4x8 for 4 nodes with 8 each",
            list);
    if (strncmp(list, "cuda:", 5) != 0)
        fail(2, "--devices %s names GPUs, which follow cuda: as in cuda:0x4 and cuda:GPU-8932f937%s", list,
             list[strspn(list, "0123456789")] == 'x' ? "; nodes with so many devices each are planned with --machine" : "");
    char *wrong = mgpu_read_devices(list, &d);
    if (wrong)
        fail(2, "--devices %s", wrong);
    for (const char *at = list + strlen("cuda:"); *at; at += *at == ',') {
        int length = (int)strcspn(at, ",");
        if (!mgpu_names_gpu(at))
            fail(2, "--devices %s: GPUs and a number alone, which is a count; GPU %.*s is written %.*sx1", list, length, at,
                 length, at);
        at += length;
    }
    APPEND(*plans, *count, ((Plan){.nodes = 1, .devices = d.count, .kind = cuda_target.name}));
    mgpu_free_devices(&d);
    return &cuda_target;
}

/* Parses "host", or "host:" before a count; returns false if no count follows. */
static bool read_kind(const char **at, const char *list, const Target **kind, bool *given)
{
    for (int k = 0; TARGETS[k]; k++) {
        const char *name = TARGETS[k]->name;
        size_t length = strlen(name);
        if (strncmp(*at, name, length) != 0)
            continue;
        if (*given && *kind != TARGETS[k])
            fail(2, "--devices %s: a program is for one kind of device; write %s or %s, and compile twice for both", list,
                 (*kind)->name, name);
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

/* Returns the GPUs of the machine that --machine names, else of this one. */
static int gpus_of(const Machine *named, const char **why)
{
    *why = "";
    return named ? named->device_count : gpus_found(why);
}

static void check_nodes(const Machine *named, const char *list, int nodes)
{
    if (!named || named->nodes < 2)
        fail(
            2,
            "--devices %s: nodes are those of a machine that has several, and %s; name one with --machine ('mgpuc machines' lists them), or write how many devices: "
            "--devices 8",
            list, named ? format("'%s' is one", named->name) : "none is named");
    if (nodes > named->nodes)
        fail(
            2,
            "--devices %s: the machine '%s' has %d nodes; for more of them make a machine file of your own ('mgpuc machines --help')",
            list, named->name, named->nodes);
}

/* most: devices of a node */
static void check_machine(const Machine *m, const char *list, const Target *kind, int most)
{
    if (!kind->own_memory)
        return;
    if (!m->device_count)
        fail(
            2,
            "--devices %s: the machine '%s' has no GPU; write --devices host:4, or name another machine ('mgpuc machines' lists them)",
            list, m->name);
    if (most > m->device_count)
        fail(
            2,
            "--devices %s: the machine '%s' has %d GPU%s%s; for more of them %smake a machine file of your own ('mgpuc machines --help')",
            list, m->name, m->device_count, m->device_count == 1 ? "" : "s", m->nodes > 1 ? " in each of its nodes" : "",
            m->nodes > 1 && !strchr(list, 'x') ? format("name nodes, as in --devices %dx%d, or ",
                                                        (most + m->device_count - 1) / m->device_count, m->device_count)
                                               : "");
}

static int compare_plans(const void *a, const void *b)
{
    const Plan *x = a, *y = b;
    return x->devices != y->devices ? (x->devices > y->devices) - (x->devices < y->devices)
                                    : (x->nodes > y->nodes) - (x->nodes < y->nodes);
}

typedef struct Wanted {
    Plan *plans;
    int count, most; /* most: devices of a node */
} Wanted;

static void want(Wanted *w, int nodes, int each)
{
    Plan p = {.nodes = nodes, .devices = nodes * each};
    for (int i = 0; i < w->count; i++)
        if (compare_plans(&w->plans[i], &p) == 0)
            return;
    APPEND(w->plans, w->count, p);
    w->most = each > w->most ? each : w->most;
}

/* Parses "4", "1-8", "4x8". */
static void read_counts(Wanted *w, const char **at, const char *list, const Machine *named)
{
    int from = read_number(at, list, named && named->nodes > 1 ? MOST_NODES : MOST_DEVICES), to = from;
    if (**at == 'x' && isdigit((unsigned char)(*at)[1])) {
        ++*at;
        check_nodes(named, list, from);
        to = read_number(at, list, MOST_DEVICES);
        if (from > MOST_PLANNED / to)
            fail(2, "--devices %s: at most %d devices are planned", list, MOST_PLANNED);
        want(w, from, to);
        return;
    }
    if (**at == '-') {
        ++*at;
        to = read_number(at, list, MOST_DEVICES);
        if (to < from)
            fail(2, "--devices %s: the range %d-%d is empty", list, from, to);
    }
    for (int n = from; n <= to; n++)
        want(w, 1, n);
}

/* GPUs if the machine has any, for a list without a kind; all of them without a list. */
static const Target *usual_kind(Wanted *w, const char *list, const Machine *named)
{
    const char *none;
    int here = gpus_of(named, &none);
    if (!list)
        want(w, 1, here > 0 ? here : 1);
    return here > 0 ? &cuda_target : TARGETS[0];
}

const Target *parse_devices(const char *list, const Machine *named, Plan **plans, int *count)
{
    Wanted w = {0};
    bool given = false;
    const Target *kind = TARGETS[0];
    *plans = NULL;
    *count = 0;
    if (names_gpus(list, named))
        return parse_gpus(list, named, plans, count);
    for (const char *at = list; at; at = *at ? at + 1 : NULL) {
        const char *why;
        if (read_kind(&at, list, &kind, &given)) {
            read_counts(&w, &at, list, named);
        } else if (kind->own_memory) { /* all GPUs of the machine */
            int here = gpus_of(named, &why);
            if (!here && !named)
                fail(3,
                     "--devices %s: no GPU was found here: %s; a program for other machines says for how many: --devices cuda:4",
                     list, why);
            want(&w, 1, here);
        } else {
            want(&w, 1, 1);
        }
        if (*at && *at != ',')
            fail(2, "--devices %s: '%s' is not understood; write 4   1,2,4   1-8   host:3   cuda:4", list, at);
    }
    kind = given ? kind : usual_kind(&w, list, named);
    if (named && list)
        check_machine(named, list, kind, w.most);
    qsort(w.plans, (size_t)w.count, sizeof *w.plans, compare_plans);
    for (int i = 0; i < w.count; i++)
        w.plans[i].kind = kind->name;
    *plans = w.plans;
    *count = w.count;
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
        fail(
            1,
            "the GPUs of the machine '%s' (%s) have compute capability %d.%d, and kernels are made for %d.0 (A100, 2020) and newer. Such a machine can be "
            "planned: mgpuc plan, mgpuc check, or --emit schedule. --arch sm_%d0 compiles for other GPUs",
            m->name, m->devices->name, m->devices->capability / 10, m->devices->capability % 10, MGPU_OLDEST_GPU,
            MGPU_OLDEST_GPU);
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
        bool letter = (code || ptx) && digits && (number[digits] == 'a' || number[digits] == 'f') && !number[digits + 1];
        bool virtual = strcmp(arch, "vgpu") == 0 || strcmp(arch, "vgpu-check") == 0;
        if (!virtual && (digits < 2 || digits > 3 || (number[digits] && !letter)))
            fail(2, "--arch %s: '%s' is not understood; write sm_90   sm_80,sm_100   vgpu", list, arch);
        if (!virtual && atoi(number) < 10 * MGPU_OLDEST_GPU)
            fail(2, "--arch %s: kernels are for sm_%d0 (A100, 2020) and newer, not for %s; --devices host compiles for the CPU",
                 list, MGPU_OLDEST_GPU, arch);
        if (!map_get(&known, arch))
            text_add(&text, "%s%s", text.length ? "," : "", arch);
        map_set(&known, arch, &known);
        at += length;
        at += *at == ',';
    }
    return text_take(&text);
}
