/* measured_times.c: reads the file of `./train bench --measure`: times of kernels, each with its number of samples, and of
 * transfers, each with its bytes.
 *
 * Equal kernels with equal numbers of samples get the median of their times; likewise transfers of one kind and size. */
#include "compiler/plan/measured_times.h"
#include "runtime/base/base.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double LONGEST_US = 1e12; /* eleven days: no kernel takes longer */

struct Measured {
    const char *kind;
    int devices;
    MeasuredKernel *kernels;
    int count;
    MeasuredTransfer *transfers;
    int transfer_count;
};

static const char *read_text(const char *file, size_t *length)
{
    const char *text = read_file(file, length);
    if (!text)
        fail(errno == ENOENT ? 2 : 3, "--measured %s: it cannot be read: %s; a rate is written 219/s", file, strerror(errno));
    return text;
}

static _Noreturn void fail_format(const char *file, const char *what)
{
    fail(1, "--measured %s: %s; './train bench --measure FILE' writes what is expected here", file, what);
}

static const Json *member(const char *file, const Json *object, const char *key, JsonKind kind)
{
    const Json *found = object->kind == JSON_OBJECT ? mgpu_json_member(object, key) : NULL;
    if (!found || found->kind != kind)
        fail_format(file, format("there is no %s of the kind that was expected", key));
    return found;
}

static int64_t whole(const char *file, const Json *object, const char *key, int64_t most)
{
    int64_t value;
    if (!mgpu_json_whole(member(file, object, key, JSON_NUMBER), &value) || value < 1 || value > most)
        fail_format(file, format("%s is no number that is possible", key));
    return value;
}

static MeasuredKernel kernel_of(const char *file, const Json *op)
{
    char *end;
    const char *digits = member(file, op, "kernel", JSON_TEXT)->text;
    MeasuredKernel k = {.kernel = strtoull(digits, &end, 16),
                        .samples = whole(file, op, "samples", INT64_MAX),
                        .us = member(file, op, "us", JSON_NUMBER)->number};
    if (*end || end == digits || !(k.us >= 0 && k.us <= LONGEST_US))
        fail_format(file, "a kernel is no hexadecimal number, or its us no time");
    return k;
}

static int compare(const void *x, const void *y)
{
    const MeasuredKernel *a = x, *b = y;
    if (a->kernel != b->kernel)
        return a->kernel < b->kernel ? -1 : 1;
    if (a->samples != b->samples)
        return a->samples < b->samples ? -1 : 1;
    return (a->us > b->us) - (a->us < b->us);
}

/* Keeps the median of equal kernels and samples; the list is sorted. */
static void use_medians(Measured *m)
{
    int count = 0;
    for (int i = 0, n; i < m->count; i += n) {
        for (n = 1; i + n < m->count && m->kernels[i + n].kernel == m->kernels[i].kernel &&
                    m->kernels[i + n].samples == m->kernels[i].samples;)
            n++;
        m->kernels[count++] = m->kernels[i + n / 2];
    }
    m->count = count;
}

/* Files of older versions have no bytes of transfers; their transfers are ignored. */
static void add_transfer(Measured *m, const char *file, const Json *op)
{
    if (!mgpu_json_member(op, "bytes"))
        return;
    const char *kind = member(file, op, "kind", JSON_TEXT)->text;
    MeasuredTransfer t = {copy_text(kind, strlen(kind)), whole(file, op, "bytes", INT64_MAX),
                          member(file, op, "us", JSON_NUMBER)->number};
    if (!(t.us >= 0 && t.us <= LONGEST_US))
        fail_format(file, "the us of a transfer is no time");
    APPEND(m->transfers, m->transfer_count, t);
}

static int compare_transfers(const void *x, const void *y)
{
    const MeasuredTransfer *a = x, *b = y;
    int order = strcmp(a->kind, b->kind);
    if (order || a->bytes != b->bytes)
        return order ? order : a->bytes < b->bytes ? -1 : 1;
    return (a->us > b->us) - (a->us < b->us);
}

static void use_medians_of_transfers(Measured *m)
{
    int count = 0;
    if (m->transfer_count)
        qsort(m->transfers, (size_t)m->transfer_count, sizeof *m->transfers, compare_transfers);
    for (int i = 0, n; i < m->transfer_count; i += n) {
        for (n = 1; i + n < m->transfer_count && m->transfers[i + n].bytes == m->transfers[i].bytes &&
                    strcmp(m->transfers[i + n].kind, m->transfers[i].kind) == 0;)
            n++;
        m->transfers[count++] = m->transfers[i + n / 2];
    }
    m->transfer_count = count;
}

const Measured *measured_read(const char *file)
{
    size_t length;
    const char *text = read_text(file, &length), *error;
    Json *root = mgpu_json_read(text, length, &error);
    if (!root)
        fail_format(file, format("it is no JSON: %s", error));
    Measured *m = NEW(Measured);
    whole(file, root, "measured", INT64_MAX);
    const char *kind = member(file, root, "kind", JSON_TEXT)->text;
    m->kind = copy_text(kind, strlen(kind));
    m->devices = (int)whole(file, root, "devices", INT_MAX);
    for (const Json *op = member(file, root, "operations", JSON_LIST)->first; op; op = op->next)
        if (strcmp(member(file, op, "verb", JSON_TEXT)->text, "call") == 0)
            APPEND(m->kernels, m->count, kernel_of(file, op));
        else if (strcmp(member(file, op, "verb", JSON_TEXT)->text, "transfer") == 0)
            add_transfer(m, file, op);
    free(root);
    if (m->count)
        qsort(m->kernels, (size_t)m->count, sizeof *m->kernels, compare);
    use_medians(m);
    use_medians_of_transfers(m);
    return m;
}

const MeasuredKernel *measured_kernel(const Measured *m, uint64_t kernel, double samples)
{
    int low = 0, high = m->count;
    while (low < high) {
        int middle = (low + high) / 2;
        if (m->kernels[middle].kernel < kernel)
            low = middle + 1;
        else
            high = middle;
    }
    const MeasuredKernel *nearest = NULL;
    for (; low < m->count && m->kernels[low].kernel == kernel; low++)
        if (!nearest || fabs((double)m->kernels[low].samples - samples) < fabs((double)nearest->samples - samples))
            nearest = &m->kernels[low];
    return nearest;
}

const MeasuredTransfer *measured_transfers(const Measured *m, int *count)
{
    *count = m->transfer_count;
    return m->transfers;
}

int measured_devices(const Measured *m) { return m->devices; }
const char *measured_kind(const Measured *m) { return m->kind; }
