/* programs.c: files that compiled programs read and write: samples as IDX; logs and weights, as traces. Apart from
 * models.c, because compiler and runtime have types of the same names. */
#include "tests/fuzz/trace.h"

#include "runtime/internal.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* ---- traces */
void trace_add(Trace *t, double value, const char *pattern, ...)
{
    char name[512];
    va_list arguments;
    va_start(arguments, pattern);
    vsnprintf(name, sizeof name, pattern, arguments);
    va_end(arguments);
    if ((t->count & (t->count - 1)) == 0)
        t->said = mgpu_resize(t->said, sizeof *t->said * (size_t)(t->count ? 2 * t->count : 1));
    t->said[t->count++] = (Said){mgpu_format("%s", name), value};
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const Said *)a)->name, ((const Said *)b)->name);
}

const char *trace_compare(const Trace *expected, const Trace *other, double tolerance, int *compared)
{
    Said *sorted = mgpu_allocate((size_t)expected->count, sizeof *sorted);
    memcpy(sorted, expected->said, (size_t)expected->count * sizeof *sorted);
    qsort(sorted, (size_t)expected->count, sizeof *sorted, by_name);
    *compared = 0;
    const char *why = NULL;
    for (int i = 0; i < other->count && !why; i++) {
        const Said *b = &other->said[i], *a = bsearch(b, sorted, (size_t)expected->count, sizeof *sorted, by_name);
        if (!a)
            continue;
        ++*compared;
        bool same = a->value == b->value || (isnan(a->value) && isnan(b->value)) ||
                    fabs(a->value - b->value) <= tolerance * (1 + fabs(a->value) + fabs(b->value));
        if (!same)
            why = mgpu_format("%s is %.17g, %.17g expected", b->name, b->value, a->value);
    }
    free(sorted);
    return why;
}

/* ---- samples */
bool write_samples(const char *path, const SampleFile *s, double (*value)(void *, long long sample, long long element),
                   void *context)
{
    FILE *f = fopen(path, "wb");
    if (!f)
        return false;
    long long elements = 1;
    fwrite((uint8_t[]){0, 0, s->kind ? 0x08 : 0x0E, (uint8_t)(s->rank + 1)}, 1, 4, f);
    for (int i = 0; i <= s->rank; i++) {
        long long n = i ? s->extent[i - 1] : s->samples;
        elements *= i ? n : 1;
        fwrite((uint8_t[]){(uint8_t)(n >> 24), (uint8_t)(n >> 16), (uint8_t)(n >> 8), (uint8_t)n}, 1, 4, f);
    }
    for (long long sample = 0; sample < s->samples; sample++)
        for (long long i = 0; i < elements; i++) {
            double v = value(context, sample, i);
            uint64_t bits;
            memcpy(&bits, &v, sizeof bits);
            if (s->kind)
                fputc((int)v, f);
            for (int b = 56; b >= 0 && !s->kind; b -= 8)
                fputc((int)(bits >> b & 255), f);
        }
    return fclose(f) == 0;
}

/* ---- what a run wrote */
static void add_member(Trace *t, const char *what, long long number, const Json *m)
{
    if (m->kind == JSON_NUMBER)
        trace_add(t, m->number, "%s %lld %s", what, number, m->key);
    for (const Json *k = m->first; m->kind == JSON_OBJECT && k; k = k->next)
        add_member(t, what, number, k);
}

static void read_event(Trace *t, const Json *event)
{
    const Json *kind = mgpu_json_member(event, "event");
    int64_t step = 0, epoch = 0;
    mgpu_json_whole(mgpu_json_member(event, "step"), &step);
    mgpu_json_whole(mgpu_json_member(event, "epoch"), &epoch);
    static const char *const NUMBERS[] = {"loss", "lr", "grad_norm", "metrics"};
    for (int i = 0; i < 4; i++) {
        const Json *m = mgpu_json_member(event, NUMBERS[i]);
        if (!m)
            continue;
        if (strcmp(kind->text, "step") == 0)
            add_member(t, "step", step, m);
        else if (strcmp(kind->text, "epoch") == 0 && m->kind == JSON_OBJECT)
            add_member(t, "train", epoch, m);
        else if (strcmp(kind->text, "eval") == 0)
            add_member(t, "eval", step, m);
    }
}

void read_log(Trace *t, const char *path)
{
    FILE *f = fopen(path, "r");
    char *line = NULL;
    size_t room = 0;
    ssize_t length;
    while (f && (length = getline(&line, &room, f)) > 0) {
        const char *error;
        Json *event = mgpu_json_read(line, (size_t)length, &error);
        const Json *kind = mgpu_json_member(event, "event");
        if (kind && kind->kind == JSON_TEXT)
            read_event(t, event);
        free(event);
    }
    free(line);
    if (f)
        fclose(f);
}

void read_weights(Trace *t, const char *path, const char *what)
{
    TensorFile file;
    mgpu_read_safetensors(&file, path);
    for (int i = 0; i < file.count; i++) {
        const mgpu_tensor *x = &file.tensors[i].tensor;
        for (int64_t k = 0; k < mgpu_elements(x); k++)
            trace_add(t, mgpu_to_double(file.tensors[i].data, x->dtype, k), "%s %s %lld", what, x->name, (long long)k);
    }
    mgpu_close_safetensors(&file);
}
