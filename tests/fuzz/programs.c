/* programs.c: files that compiled programs read and write: samples as IDX; logs and weights, as traces. Apart from
 * models.c, because compiler and runtime have types of the same names. */
#include "tests/fuzz/trace.h"

#include "runtime/base/base.h"
#include "runtime/save/checkpoint.h"

#include <glob.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* ---- traces */
void trace_add(Trace *t, double value, const char *pattern, ...)
{
    va_list arguments, again;
    va_start(arguments, pattern);
    va_copy(again, arguments);
    size_t room = (size_t)vsnprintf(NULL, 0, pattern, again) + 1;
    char *name = mgpu_allocate(room, 1);
    vsnprintf(name, room, pattern, arguments);
    va_end(again);
    va_end(arguments);
    if ((t->count & (t->count - 1)) == 0)
        t->said = mgpu_resize(t->said, sizeof *t->said * (size_t)(t->count ? 2 * t->count : 1));
    t->said[t->count++] = (Said){name, value, 0};
}

static int by_name(const void *a, const void *b) { return strcmp(((const Said *)a)->name, ((const Said *)b)->name); }

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
        bool same = a->value == b->value || (isnan(a->value) && isnan(b->value)) || isinf(a->error) ||
                    fabs(a->value - b->value) <= a->error + tolerance * (1 + fabs(a->value) + fabs(b->value));
        if (!same)
            why = mgpu_format("%s is %.17g, %.17g expected", b->name, b->value, a->value);
    }
    free(sorted);
    return why;
}

static size_t group_length(const char *name)
{
    const char *blank = strrchr(name, ' ');
    return blank && strspn(blank + 1, "0123456789") == strlen(blank + 1) ? (size_t)(blank - name) : strlen(name);
}

static int group_end(const Trace *t, int from)
{
    int to = from;
    size_t length = group_length(t->said[from].name);
    while (to < t->count && group_length(t->said[to].name) == length &&
           strncmp(t->said[to].name, t->said[from].name, length) == 0)
        to++;
    return to;
}

void trace_widen(Trace *t, const Trace *const *others, int count, double factor)
{
    for (int from = 0, to; from < t->count; from = to) {
        double most = 0, size = 0;
        to = group_end(t, from);
        for (int i = from; i < to; i++) {
            size = fmax(size, fabs(t->said[i].value));
            for (int k = 0; k < count; k++) {
                double off = fabs(others[k]->said[i].value - t->said[i].value);
                most = off <= most ? most : off == off ? off : INFINITY;
            }
        }
        for (int i = from; i < to; i++)
            t->said[i].error = factor * most < 0.05 * (1 + size) ? factor * most : INFINITY;
    }
}

/* A gradient that is zero but for rounding is compared with the others: a tenth of them */
void trace_bound(Trace *t, const Trace *initial, double factor)
{
    double largest = 0;
    for (int round = 0; round < 2; round++) /* the largest change is known in the second */
        for (int from = 0, to, first = 0; from < t->count; from = to) {
            to = group_end(t, from);
            bool changes = first < initial->count && strcmp(initial->said[first].name, t->said[from].name) == 0;
            double size = 0;
            for (int i = from; i < to; i++)
                size = fmax(size, fabs(t->said[i].value - (changes ? initial->said[first + i - from].value : 0)));
            first += changes ? to - from : 0;
            largest = changes ? fmax(largest, size) : largest;
            for (int i = from; i < to; i++)
                t->said[i].error =
                    strstr(t->said[i].name, "accuracy") ? INFINITY : factor * (changes ? fmax(size, 0.1 * largest) : size);
        }
}

/* ---- samples, as .npy */
static void write_number(FILE *f, const char *type, double value)
{
    int bytes = type[2] - '0';
    uint64_t bits;
    if (type[1] == 'f')
        memcpy(&bits, &value, sizeof bits);
    else
        bits = value < 0 ? (uint64_t)(int64_t)value : (uint64_t)value;
    for (int b = 0; b < bytes; b++)
        fputc((int)(bits >> 8 * b & 255), f);
}

bool write_samples(const char *path, const SampleFile *s, double (*value)(void *, long long sample, long long element),
                   void *context)
{
    FILE *f = fopen(path, "wb");
    if (!f)
        return false;
    long long elements = 1;
    char head[256];
    int length = snprintf(head, sizeof head, "{'descr': '%s', 'fortran_order': False, 'shape': (%lld,", s->type, s->samples);
    for (int i = 0; i < s->rank; i++) {
        length += snprintf(head + length, sizeof head - (size_t)length, " %lld,", s->extent[i]);
        elements *= s->extent[i];
    }
    length += snprintf(head + length, sizeof head - (size_t)length, ")}");
    int whole = (10 + length + 1 + 63) / 64 * 64 - 10; /* the numbers begin at a multiple of 64 */
    fwrite("\x93NUMPY\x01", 1, 7, f);
    fwrite((uint8_t[]){0, (uint8_t)(whole & 255), (uint8_t)(whole >> 8)}, 1, 3, f);
    fprintf(f, "%-*s\n", whole - 1, head);
    for (long long sample = 0; sample < s->samples; sample++)
        for (long long i = 0; i < elements; i++)
            write_number(f, s->type, value(context, sample, i));
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

/* what the graph of a step calls metric.NAME */
static void add_observed(Trace *t, long long step, const Json *metrics)
{
    for (const Json *k = metrics->first; metrics->kind == JSON_OBJECT && k; k = k->next)
        if (k->kind == JSON_NUMBER)
            trace_add(t, k->number, "step %lld metric.%s", step, k->key);
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
        if (strcmp(kind->text, "step") == 0 && m->kind == JSON_OBJECT)
            add_observed(t, step, m);
        else if (strcmp(kind->text, "step") == 0)
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
    mgpu_open_weights(&file, path);
    for (int i = 0; i < file.count; i++) {
        const mgpu_tensor *x = &file.tensors[i].tensor;
        for (int64_t k = 0; k < mgpu_elements(x); k++)
            trace_add(t, mgpu_to_double(file.tensors[i].data, x->dtype, k), "%s %s %lld", what, x->name, (long long)k);
    }
    mgpu_close_tensors(&file);
}

static void read_output(Trace *t, const char *path, const char *name, size_t length)
{
    FILE *f = fopen(path, "rb");
    uint8_t head[10];
    char text[1024] = "";
    size_t size = f && fread(head, 1, sizeof head, f) == sizeof head ? head[8] + 256u * head[9] : sizeof text;
    bool read = size < sizeof text && fread(text, 1, size, f) == size;
    bool wide = read && strstr(text, "'<f8'"), narrow = read && strstr(text, "'<f4'");
    double d;
    float e;
    for (long long i = 0; (wide && fread(&d, sizeof d, 1, f) == 1) || (narrow && fread(&e, sizeof e, 1, f) == 1); i++)
        trace_add(t, wide ? d : (double)e, "output %.*s %lld", (int)length, name, i);
    if (f)
        fclose(f);
}

void read_outputs(Trace *t, const char *pattern)
{
    glob_t g;
    if (glob(pattern, 0, NULL, &g) == 0)
        for (size_t i = 0; i < g.gl_pathc; i++) {
            const char *name = strrchr(g.gl_pathv[i], '/') + strlen("/out"), *end = strrchr(name, '.');
            if (end == name) /* the only one */
                read_output(t, g.gl_pathv[i], "first", 5);
            else
                read_output(t, g.gl_pathv[i], name + 1, (size_t)(end - name - 1));
        }
    globfree(&g);
}
