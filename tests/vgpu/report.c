/* report.c: what was found wrong: printed as it is found, and kept for tests. */
#include "tests/vgpu/vgpu.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { KEPT = 32, TEXT = 1024, LATE = 98 /* the process's status */ };
static char violations[KEPT][TEXT];
static int violation_count;

static void *end_late(void *what)
{
    char text[TEXT];
    double s = vgpu_machine.deadline;
    nanosleep(&(struct timespec){(time_t)s, (long)(1e9 * (s - (double)(time_t)s))}, NULL);
    int length =
        snprintf(text, sizeof text, "virtual GPU: the program still runs %g s after %s has failed\n", s, (const char *)what);
    _exit(write(STDERR_FILENO, text, (size_t)length) < 0 ? LATE + 1 : LATE); /* another thread may hold stderr's lock */
}

void vgpu_begin_deadline(const char *what)
{
    static bool begun;
    pthread_t thread;
    if (begun || vgpu_machine.deadline <= 0)
        return;
    begun = true;
    if (pthread_create(&thread, NULL, end_late, (void *)(uintptr_t)vgpu_keep(what)) == 0)
        pthread_detach(thread);
}

void vgpu_violation(VirtualDevice *device, int error, const char *kind, const char *format, ...)
{
    char text[TEXT];
    int length = snprintf(text, sizeof text, "%s: ", kind);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text + length, sizeof text - (size_t)length, format, arguments);
    va_end(arguments);
    for (VirtualDevice *d = vgpu_machine.device; d < vgpu_machine.device + vgpu_machine.count; d++)
        if ((d == device || !device) && !d->failed)
            d->failed = error;
    for (int i = 0; i < violation_count; i++)
        if (strcmp(violations[i], text) == 0)
            return;
    if (violation_count == KEPT)
        return;
    vgpu_begin_deadline("an operation");
    memcpy(violations[violation_count++], text, sizeof text);
    fprintf(stderr, "virtual GPU: %s\n", text);
}

const char *vgpuViolation(int index) { return index >= 0 && index < violation_count ? violations[index] : NULL; }

/* ---- texts that stay */

typedef struct Kept {
    struct Kept *next;
    char text[];
} Kept;
static Kept *kept[1024];

const char *vgpu_keep(const char *text)
{
    unsigned hash = 2166136261u;
    for (const char *at = text; *at; at++)
        hash = (hash ^ (unsigned char)*at) * 16777619u;
    Kept **list = &kept[hash % 1024];
    for (Kept *k = *list; k; k = k->next)
        if (strcmp(k->text, text) == 0)
            return k->text;
    Kept *k = malloc(sizeof *k + strlen(text) + 1);
    if (!k)
        abort();
    strcpy(k->text, text);
    k->next = *list;
    *list = k;
    return k->text;
}
