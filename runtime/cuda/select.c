/* select.c: parses --devices of a program: how many devices of which kind, and which GPUs.
 *
 *   devices = NUMBER | kind | kind ":" NUMBER | "cuda:" gpu { "," gpu }
 *   gpu     = (INDEX | UUID | BUS) [ "x" NUMBER ]     x: so many devices on it; the UUID of a slice is MIG-...
 *
 * A single number is a count, so a single GPU is written INDEX x 1. mgpuc itself reads all single numbers as counts. */
#include "runtime/base/base.h"
#include "runtime/cuda/gpus.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { MOST_DEVICES = 1024 };

/* Parses text[0 .. length) as a number up to MOST_DEVICES; returns -1 if it is none. */
static int number_of(const char *text, size_t length)
{
    int n = 0;
    for (size_t i = 0; i < length; i++) {
        if (!isdigit((unsigned char)text[i]) || n > MOST_DEVICES)
            return -1;
        n = 10 * n + text[i] - '0';
    }
    return length ? n : -1;
}

static bool is_uuid(const char *text) { return strncasecmp(text, "GPU-", 4) == 0 || strncasecmp(text, "MIG-", 4) == 0; }

static bool is_gpu(const char *text)
{
    char bus[24];
    mgpu_bus_text(text, bus);
    return *bus || is_uuid(text) || number_of(text, strlen(text)) >= 0;
}

bool mgpu_names_gpu(const char *text)
{
    size_t digits = strspn(text, "0123456789");
    return is_uuid(text) || (digits && text[digits] == 'x' && isdigit((unsigned char)text[digits + 1])) ||
           (digits && text[strspn(text, "0123456789abcdefABCDEF")] == ':');
}

static char *read_gpu(const char *text, size_t length, DeviceList *d)
{
    size_t cross = length;
    while (cross > 0 && text[cross - 1] != 'x')
        cross--;
    int copies = cross > 1 ? number_of(text + cross, length - cross) : 1;
    char *name = mgpu_format("%.*s", (int)(cross > 1 ? cross - 1 : length), text);
    if (copies < 1 || copies + d->count > MOST_DEVICES || !is_gpu(name)) {
        free(name);
        return mgpu_format(
            "'%.*s' is no GPU: an index as in nvidia-smi (0), a UUID (GPU-...), a bus id (0000:65:00.0), each with x4 "
            "after it for four devices on it",
            (int)length, text);
    }
    d->gpus = mgpu_resize(d->gpus, (size_t)(d->count + copies) * sizeof *d->gpus);
    for (int i = 0; i < copies; i++)
        d->gpus[d->count++] = mgpu_format("%s", name);
    free(name);
    return NULL;
}

char *mgpu_read_devices(const char *text, DeviceList *d)
{
    size_t word = strspn(text, "abcdefghijklmnopqrstuvwxyz");
    *d = (DeviceList){0};
    if (mgpu_names_gpu(text))
        return mgpu_format("%s names GPUs, which follow cuda: as in cuda:0x4 and cuda:GPU-8932f937", text);
    if (word >= sizeof d->kind || (word && text[word] && text[word] != ':'))
        return mgpu_format("takes one count or kind at run time, as in 2 or host:2, not '%s'", text);
    snprintf(d->kind, sizeof d->kind, "%.*s", (int)word, text);
    if (word && strcmp(d->kind, "host") != 0 && strcmp(d->kind, "cuda") != 0)
        return mgpu_format("%s: a count is a number, as in 2, a kind host or cuda, as in host:2", text);
    if (word && !text[word]) {
        d->count = strcmp(d->kind, "host") == 0;
        return NULL;
    }
    const char *rest = word ? text + word + 1 : text;
    d->count = number_of(rest, strlen(rest));
    if (d->count > 0)
        return NULL;
    if (strcmp(d->kind, "cuda") == 0 && d->count == 0)
        return mgpu_format("%s is for no device, as a number alone is a count; GPU 0 alone is cuda:0x1", text);
    if (strcmp(d->kind, "cuda") != 0 || d->count == 0)
        return mgpu_format("takes one count or kind at run time, as in 2 or host:2, not '%s'", text);
    d->count = 0;
    char *wrong = NULL;
    do {
        size_t length = strcspn(rest, ",");
        wrong = read_gpu(rest, length, d);
        rest += length;
    } while (!wrong && *rest++);
    return wrong;
}

void mgpu_free_devices(DeviceList *d)
{
    for (int i = 0; d->gpus && i < d->count; i++)
        free(d->gpus[i]);
    free(d->gpus);
}

/* ---- selecting GPUs */
static _Noreturn void fail_gpu(const GpuList *list, const DeviceList *d, const char *name, const char *what)
{
    char *found = mgpu_format("%s", ""), *shown = mgpu_visible_by();
    for (int i = 0; i < list->count; i++) {
        const Gpu *g = &list->gpus[i];
        char *longer = mgpu_format("%s%sGPU %d (%s, %s, %s)", found, i ? ", " : "", i, g->name, g->bus, g->uuid);
        free(found);
        found = longer;
    }
    mgpu_fail(MGPU_MACHINE_FAILED, "--devices %s: %s; here %s %s%s%s", name, what, list->count == 1 ? "is" : "are", found, shown,
              d->compiled ? "; mgpuc --devices named it, --devices at run time takes other GPUs" : "");
}

static const Gpu *find_gpu(const GpuList *list, const DeviceList *d, const char *name)
{
    char bus[24];
    mgpu_bus_text(name, bus);
    int index = number_of(name, strlen(name)), found = -1;
    if (index >= list->count)
        fail_gpu(list, d, name, "there is no GPU of that index");
    if (index >= 0)
        return &list->gpus[index];
    for (int i = 0; i < list->count; i++) {
        if (*bus ? strcmp(list->gpus[i].bus, bus) != 0 : strncasecmp(list->gpus[i].uuid, name, strlen(name)) != 0)
            continue;
        if (found >= 0)
            fail_gpu(list, d, name,
                     *bus ? "several slices (MIG) of one GPU are there, which their UUIDs tell apart"
                          : "several GPUs' UUIDs begin like that");
        found = i;
    }
    if (found < 0)
        fail_gpu(list, d, name, *bus ? "there is no GPU at that place of the bus" : "no GPU has such a UUID");
    return &list->gpus[found];
}

static const char *of_slices(const GpuList *list)
{
    for (int i = 0; i < list->count; i++)
        if (list->gpus[i].slice)
            return "; of a GPU that is divided each slice (MIG) is one, of which drivers before 570 show a process one alone";
    return "";
}

void mgpu_select_gpus(const GpuList *list, const DeviceList *d, int first, int end, int place, const Gpu **chosen)
{
    int count = end - first;
    if (!d->gpus && place && place + count > list->count)
        mgpu_fail(
            MGPU_MACHINE_FAILED,
            "the processes on this host want %d GPUs or more, there %s %d%s; start fewer of them on each host, or compile for "
            "fewer devices%s",
            place + count, list->count == 1 ? "is" : "are", list->count, mgpu_visible_by(), of_slices(list));
    if (!d->gpus && count > list->count)
        mgpu_fail(MGPU_MACHINE_FAILED,
                  "the program wants %d GPUs, there %s %d%s; --devices says how many, --devices cuda:0x%d makes one GPU "
                  "do for all%s",
                  count, list->count == 1 ? "is" : "are", list->count, mgpu_visible_by(), count, of_slices(list));
    for (int i = first; i < end; i++)
        chosen[i] = d->gpus ? find_gpu(list, d, d->gpus[i]) : &list->gpus[place + i - first];
}
