/* machine.c: the machine that the file MGPU_VGPU describes, a line for each fact; # begins a comment. Devices are numbers or *.
 *
 *   devices 4
 *   name * "NVIDIA H200"           bus 0 0000:65:00.0
 *   capability * 9.0               multiprocessors * 4
 *   memory 0 1GiB                  bandwidth * 1000GB/s
 *   link 0 1 25GB/s                link * host 12GB/s          link 0 1 none
 *   seed 7                         order random | issued       patience 20        delay 100us
 *   nccl 23100
 *   fail cuLaunchKernel 17 CUDA_ERROR_LAUNCH_FAILED            the 17th call of the process answers so
 *   fail kernel k12 3 CUDA_ERROR_ILLEGAL_ADDRESS               its third run; known when somebody waits
 *   lost 1 after 30 CUDA_ERROR_ECC_UNCORRECTABLE               after 30 operations, for ever
 *   forget cuStreamWaitEvent 3                                 the third call does nothing and says it has
 *   hang ncclAllReduce 3                                       the third call begins what never ends
 *   hang kernel k12 3                                          its third run never ends
 *   hang cuLaunchKernel 3                                      the third call never returns; ... 3 all: nor does any other then
 *   deadline 5                                                 seconds for the program to end once something has gone wrong
 *   corrupt link 0 1 5                                         the fifth transfer flips a bit; * host; no number: every one
 */
#include "tests/vgpu/vgpu.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

Machine vgpu_machine;

static const struct { const char *name; int error; } ERRORS[] = {
#define E(name) {#name, name}
    E(CUDA_ERROR_INVALID_VALUE), E(CUDA_ERROR_OUT_OF_MEMORY), E(CUDA_ERROR_NOT_INITIALIZED), E(CUDA_ERROR_NO_DEVICE),
    E(CUDA_ERROR_INVALID_DEVICE), E(CUDA_ERROR_INVALID_IMAGE), E(CUDA_ERROR_INVALID_CONTEXT), E(CUDA_ERROR_NO_BINARY_FOR_GPU),
    E(CUDA_ERROR_INVALID_PTX), E(CUDA_ERROR_UNSUPPORTED_PTX_VERSION), E(CUDA_ERROR_INVALID_HANDLE), E(CUDA_ERROR_NOT_FOUND),
    E(CUDA_ERROR_NOT_READY), E(CUDA_ERROR_ILLEGAL_ADDRESS), E(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES),
    E(CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED), E(CUDA_ERROR_LAUNCH_FAILED), E(CUDA_ERROR_NOT_PERMITTED), E(CUDA_ERROR_NOT_SUPPORTED),
#undef E
    {"CUDA_ERROR_DEVICE_UNAVAILABLE", 46}, {"CUDA_ERROR_ECC_UNCORRECTABLE", 214}, {"CUDA_ERROR_LAUNCH_TIMEOUT", 702},
    {"CUDA_ERROR_PEER_ACCESS_NOT_ENABLED", 705}, {"CUDA_ERROR_MISALIGNED_ADDRESS", 716}, {"CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", 900},
    {"CUDA_ERROR_STREAM_CAPTURE_INVALIDATED", 901}, {"CUDA_ERROR_STREAM_CAPTURE_UNMATCHED", 903},
    {"CUDA_ERROR_STREAM_CAPTURE_UNJOINED", 904}, {"CUDA_ERROR_STREAM_CAPTURE_ISOLATION", 905}, {"CUDA_ERROR_CAPTURED_EVENT", 907},
    {"CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD", 908}, {"CUDA_ERROR_UNKNOWN", 999},
    {"ncclUnhandledCudaError", 1}, {"ncclSystemError", 2}, {"ncclInternalError", 3}, {"ncclInvalidArgument", 4},
    {"ncclInvalidUsage", 5}, {"ncclRemoteError", 6}, {"CUBLAS_STATUS_NOT_INITIALIZED", 1}, {"CUBLAS_STATUS_ALLOC_FAILED", 3},
    {"CUBLAS_STATUS_EXECUTION_FAILED", 13}, {"CUBLAS_STATUS_INTERNAL_ERROR", 14}, {"CUBLAS_STATUS_NOT_SUPPORTED", 15},
};

const char *vgpu_error_name(int error)
{
    for (size_t i = 0; i < sizeof ERRORS / sizeof *ERRORS; i++)
        if (ERRORS[i].error == error && strncmp(ERRORS[i].name, "CUDA", 4) == 0)
            return ERRORS[i].name;
    return NULL;
}

/* ---- the file */

typedef struct Line { const char *path; int number, count; char text[512], *word[12]; } Line;

static _Noreturn void wrong(const Line *l, const char *what)
{
    fprintf(stderr, "%s:%d: %s\n", l->path, l->number, what);
    exit(2);
}

static bool split(Line *l)
{
    l->count = 0;
    for (char *at = l->text;;) {
        while (isspace((unsigned char)*at))
            at++;
        if (!*at || *at == '#')
            return l->count > 0;
        bool quoted = *at == '"';
        at += quoted;
        if (l->count == 12)
            wrong(l, "too many words");
        l->word[l->count++] = at;
        while (*at && (quoted ? *at != '"' : !isspace((unsigned char)*at)))
            at++;
        if (*at)
            *at++ = 0;
    }
}

static const char *word(const Line *l, int k)
{
    if (k >= l->count)
        wrong(l, "a word is missing at its end");
    return l->word[k];
}

static double number(const Line *l, int k)
{
    char *end;
    double v = strtod(word(l, k), &end);
    if (end == l->word[k] || *end)
        wrong(l, "a number is no number");
    return v;
}

/* "1GiB", "25GB/s" */
static double amount(const Line *l, int k, const char *unit)
{
    static const struct { const char *prefix; double factor; } PREFIXES[] = {
        {"", 1}, {"K", 1e3}, {"M", 1e6}, {"G", 1e9}, {"T", 1e12}, {"u", 1e-6}, {"m", 1e-3}, {"Ki", 0x1p10}, {"Mi", 0x1p20}, {"Gi", 0x1p30}, {"Ti", 0x1p40}};
    char *end, want[16];
    double v = strtod(word(l, k), &end);
    for (size_t i = 0; i < sizeof PREFIXES / sizeof *PREFIXES && end != l->word[k]; i++) {
        snprintf(want, sizeof want, "%s%s", PREFIXES[i].prefix, unit);
        if (strcmp(end, want) == 0)
            return v * PREFIXES[i].factor;
    }
    wrong(l, "an amount needs a unit: 1GiB, 25GB/s");
}

static int error_of(const Line *l, int k)
{
    for (size_t i = 0; i < sizeof ERRORS / sizeof *ERRORS; i++)
        if (strcmp(ERRORS[i].name, word(l, k)) == 0)
            return ERRORS[i].error;
    return (int)number(l, k);
}

/* devices [*first, *last] */
static void devices(const Line *l, int k, int *first, int *last)
{
    bool all = strcmp(word(l, k), "*") == 0;
    *first = all ? 0 : (int)number(l, k);
    *last = all ? vgpu_machine.count - 1 : *first;
    if (*first < 0 || *last >= vgpu_machine.count)
        wrong(l, "there is no device of this number");
}

static void read_link(const Line *l)
{
    int first, last, begin = 0, end = -1;
    bool host = strcmp(word(l, 2), "host") == 0;
    double speed = strcmp(word(l, 3), "none") == 0 ? 0 : amount(l, 3, "B/s");
    devices(l, 1, &first, &last);
    if (!host)
        devices(l, 2, &begin, &end);
    for (int d = first; d <= last; d++) {
        if (host)
            vgpu_machine.device[d].host_link = speed;
        for (int e = begin; e <= end; e++)
            vgpu_machine.device[d].link[e] = vgpu_machine.device[e].link[d] = speed;
    }
}

static void read_fault(const Line *l)
{
    bool kernel = strcmp(word(l, 1), "kernel") == 0;
    int planted = strcmp(l->word[0], "forget") == 0 ? VGPU_FORGOTTEN : strcmp(l->word[0], "hang") == 0 ? VGPU_HANGS : 0;
    Fault **list = kernel ? &vgpu_machine.kernel_faults : &vgpu_machine.faults;
    int *count = kernel ? &vgpu_machine.kernel_fault_count : &vgpu_machine.fault_count;
    *list = realloc(*list, (size_t)(*count + 1) * sizeof **list);
    Fault *f = &(*list)[(*count)++];
    *f = (Fault){.number = (int64_t)number(l, 2 + kernel), .error = planted ? planted : error_of(l, 3 + kernel)};
    f->all = planted == VGPU_HANGS && l->count > 3 + kernel && strcmp(word(l, 3 + kernel), "all") == 0;
    snprintf(f->call, sizeof f->call, "%s", word(l, 1 + kernel));
}

static void read_corruption(const Line *l)
{
    Corruption c = {.number = l->count > 4 ? (int64_t)number(l, 4) : 0};
    int ends[2];
    for (int k = 0; k < 2; k++)
        ends[k] = strcmp(word(l, 2 + k), "host") == 0 ? -1 : strcmp(word(l, 2 + k), "*") == 0 ? -2 : (int)number(l, 2 + k);
    c.from = ends[0], c.to = ends[1];
    vgpu_machine.corruptions = realloc(vgpu_machine.corruptions, (size_t)(vgpu_machine.corruption_count + 1) * sizeof c);
    vgpu_machine.corruptions[vgpu_machine.corruption_count++] = c;
}

static void read_epilogue(const Line *l)
{
    if (strcmp(word(l, 2), "none") != 0)
        wrong(l, "an epilogue can be none");
    vgpu_machine.refused = realloc(vgpu_machine.refused, (size_t)(vgpu_machine.refused_count + 1) * sizeof *vgpu_machine.refused);
    vgpu_machine.refused[vgpu_machine.refused_count++] = (uint32_t)number(l, 1);
}

static void read_fact_of_devices(const Line *l)
{
    int first, last;
    const char *what = l->word[0];
    devices(l, 1, &first, &last);
    for (int d = first; d <= last; d++) {
        VirtualDevice *v = &vgpu_machine.device[d];
        if (strcmp(what, "name") == 0)
            snprintf(v->name, sizeof v->name, "%s", word(l, 2));
        else if (strcmp(what, "bus") == 0)
            snprintf(v->bus, sizeof v->bus, "%s", word(l, 2));
        else if (strcmp(what, "memory") == 0)
            v->memory = (size_t)amount(l, 2, "B");
        else if (strcmp(what, "bandwidth") == 0)
            v->bandwidth = amount(l, 2, "B/s");
        else if (strcmp(what, "multiprocessors") == 0)
            v->multiprocessors = (int)number(l, 2);
        else if (strcmp(what, "capability") == 0 && sscanf(word(l, 2), "%d.%d", &v->major, &v->minor) == 2)
            continue;
        else if (strcmp(what, "lost") == 0 && strcmp(word(l, 2), "after") == 0) {
            v->lost_after = (int64_t)number(l, 3);
            v->lost = l->count > 4 ? error_of(l, 4) : 999;
        } else
            wrong(l, "this line is not understood");
    }
}

static void set_devices(int count)
{
    for (int d = vgpu_machine.count; d < count; d++) {
        VirtualDevice *v = &vgpu_machine.device[d];
        *v = (VirtualDevice){.number = d, .memory = (size_t)16 << 30, .major = 8, .minor = 0, .multiprocessors = 4, .bandwidth = 1e12,
                             .host_link = 12e9, .lost_after = -1};
        snprintf(v->name, sizeof v->name, "Virtual GPU");
        snprintf(v->bus, sizeof v->bus, "0000:%02x:00.0", 0x10 + d);
        for (int k = 0; k < 16; k++)
            v->uuid.bytes[k] = (char)(k == 15 ? d : 17 * k);
        for (int e = 0; e < VGPU_DEVICES; e++)
            v->link[e] = e == d ? 0 : 25e9;
    }
    vgpu_machine.count = count;
}

static void read_line(const Line *l)
{
    const char *what = l->word[0];
    if (strcmp(what, "devices") == 0) {
        int count = (int)number(l, 1);
        if (count < 0 || count > VGPU_DEVICES)
            wrong(l, "there are 0 to 16 devices");
        set_devices(count);
    } else if (strcmp(what, "seed") == 0)
        vgpu_machine.seed = (uint64_t)number(l, 1);
    else if (strcmp(what, "patience") == 0)
        vgpu_machine.patience = number(l, 1);
    else if (strcmp(what, "deadline") == 0)
        vgpu_machine.deadline = number(l, 1);
    else if (strcmp(what, "nccl") == 0)
        vgpu_machine.nccl = (int)number(l, 1);
    else if (strcmp(what, "delay") == 0)
        vgpu_machine.delay = amount(l, 1, "s");
    else if (strcmp(what, "order") == 0) {
        vgpu_machine.order = strcmp(word(l, 1), "issued") == 0 ? ORDER_ISSUED : ORDER_RANDOM;
        if (vgpu_machine.order == ORDER_RANDOM && strcmp(word(l, 1), "random") != 0)
            wrong(l, "an order is random or issued");
    } else if (strcmp(what, "link") == 0)
        read_link(l);
    else if (strcmp(what, "fail") == 0 || strcmp(what, "forget") == 0 || strcmp(what, "hang") == 0)
        read_fault(l);
    else if (strcmp(what, "epilogue") == 0)
        read_epilogue(l);
    else if (strcmp(what, "biases") == 0 && strcmp(word(l, 1), "f32") == 0)
        vgpu_machine.wide_biases = true;
    else if (strcmp(what, "corrupt") == 0)
        read_corruption(l);
    else
        read_fact_of_devices(l);
}

/* by bus, if CUDA_DEVICE_ORDER says so, else as in the file */
static int device_of_index(int index)
{
    const char *order = getenv("CUDA_DEVICE_ORDER");
    const Machine *m = &vgpu_machine;
    if (!order || strcmp(order, "PCI_BUS_ID") != 0)
        return index;
    for (int d = 0; d < m->count; d++) {
        int before = 0;
        for (int e = 0; e < m->count; e++)
            before += strcmp(m->device[e].bus, m->device[d].bus) < 0;
        if (before == index)
            return d;
    }
    return index;
}

/* CUDA_VISIBLE_DEVICES: numbers, or beginnings of GPU-uuid; the list ends at the first that there is not */
static void show_devices(void)
{
    const char *at = getenv("CUDA_VISIBLE_DEVICES");
    Machine *m = &vgpu_machine;
    for (int d = 0; !at && d < m->count; d++)
        m->visible[m->visible_count++] = device_of_index(d);
    while (at && *at && m->visible_count < VGPU_DEVICES) {
        int found = -1, length = (int)strcspn(at, ",");
        for (int i = 0; i < m->count; i++) {
            char index[16], uuid[64];
            int end = snprintf(uuid, sizeof uuid, "GPU-"), d = device_of_index(i);
            snprintf(index, sizeof index, "%d", i);
            for (int k = 0; k < 16; k++)
                end += snprintf(uuid + end, sizeof uuid - (size_t)end, "%s%02x", k == 4 || k == 6 || k == 8 || k == 10 ? "-" : "",
                                (unsigned char)m->device[d].uuid.bytes[k]);
            if (((int)strlen(index) == length && strncmp(index, at, (size_t)length) == 0) || (length > 4 && strncmp(uuid, at, (size_t)length) == 0))
                found = d;
        }
        if (found < 0)
            return;
        m->visible[m->visible_count++] = found;
        at += length;
        at += *at == ',';
    }
}

void vgpu_read_machine(void)
{
    static bool read;
    const char *path = getenv("MGPU_VGPU");
    if (read)
        return;
    read = true;
    vgpu_machine.patience = 20;
    vgpu_machine.nccl = 22005;
    vgpu_machine.seed = 1;
    set_devices(1);
    if (path && *path) {
        Line line = {.path = path};
        FILE *f = fopen(path, "r");
        if (!f) {
            fprintf(stderr, "%s: cannot be read; MGPU_VGPU names the file that describes the virtual GPUs\n", path);
            exit(2);
        }
        while (fgets(line.text, sizeof line.text, f)) {
            line.number++;
            if (split(&line))
                read_line(&line);
        }
        fclose(f);
    }
    show_devices();
}

/* ---- what the file says is to go wrong */

static int fault_of(Fault *list, int count, const char *name, bool *all)
{
    int error = 0;
    for (int i = 0; i < count; i++)
        if (strcmp(list[i].call, name) == 0 && ++list[i].seen == list[i].number) {
            error = list[i].error;
            *all = list[i].all;
        }
    if (error > 0 || error == VGPU_HANGS)
        vgpu_begin_deadline(name);
    return error;
}

/* with the lock, which a call that never returns keeps where all others hang, too */
static _Noreturn void never_return(bool all)
{
    if (!all)
        pthread_mutex_unlock(&vgpu_lock);
    for (;;)
        pause();
}

int vgpu_fault(const char *call)
{
    bool all = false;
    int error = fault_of(vgpu_machine.faults, vgpu_machine.fault_count, call, &all);
    if (error == VGPU_HANGS && (all || strcmp(call, "ncclAllReduce") != 0))
        never_return(all);
    return error;
}

int vgpu_kernel_fault(const char *kernel)
{
    bool all;
    return fault_of(vgpu_machine.kernel_faults, vgpu_machine.kernel_fault_count, kernel, &all);
}

bool vgpu_corrupts(int from, int to)
{
    bool flips = false;
    for (int i = 0; i < vgpu_machine.corruption_count; i++) {
        Corruption *c = &vgpu_machine.corruptions[i];
        bool here = (c->from == -2 || c->from == from) && (c->to == -2 || c->to == to);
        if (here && (++c->seen == c->number || c->number == 0))
            flips = true;
    }
    return flips;
}

uint64_t vgpu_random(void)
{
    uint64_t z = vgpu_machine.seed += 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}
