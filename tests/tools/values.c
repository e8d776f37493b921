/* values: what programs leave in their weights, held against reference values.
 *
 *     values begin NAMES.values OUT.safetensors            a file of weights to begin with
 *     values hold PREFIX NAMES.values FILE.safetensors TOLERANCE [CASE=TOLERANCE...]
 *     values near PREFIX NAMES.values FILE.safetensors TOLERANCE EXACT.safetensors [CASE=TOLERANCE...]
 *
 * NAMES.values has a line for each tensor: its name, its extents ("-": a number), the sum of its elements, and their sum
 * weighted by cos(k). A case is what stands before a name's first dot; there is an `ok` or `not ok` for each.
 *
 * begin: element i of NAME is +-(128 ... 255) / 256, halved 0, 1 or 2 times, so that every precision holds it; positive if
 * NAME ends in running_var. hold: both sums, to TOLERANCE of the sum of absolute values. near: the norm of the difference
 * to the same tensor of EXACT, to TOLERANCE of that tensor's norm; where that is 0 in exact arithmetic (the bias of keys),
 * of the norm of the case's gradient at its input. */
#include "tests/tools/tensors.h"

#include <math.h>
#include <stdbool.h>

enum { NAME = 256, CASES = 1024 };

typedef struct Value {
    char name[NAME];
    int rank;
    int64_t extent[8], count;
    double sum, weighted;
} Value;
typedef struct Values {
    Value *list;
    int count;
} Values;

static Values load(const char *path)
{
    Values all = {0};
    FILE *f = fopen(path, "r");
    char line[512], extents[128];
    if (!f)
        tensors_fail(path, "cannot be read");
    while (fgets(line, sizeof line, f)) {
        Value v = {.count = 1};
        if (sscanf(line, "%255s %127s %lf %lf", v.name, extents, &v.sum, &v.weighted) != 4)
            tensors_fail(path, "a line that is no value");
        for (char *at = extents; *at && *at != '-' && v.rank < 8; at += *at == ',') {
            v.extent[v.rank] = strtoll(at, &at, 10);
            v.count *= v.extent[v.rank++];
        }
        all.list = realloc(all.list, (size_t)(all.count + 1) * sizeof *all.list);
        if (!all.list)
            tensors_fail(path, "there is no memory left");
        all.list[all.count++] = v;
    }
    fclose(f);
    return all;
}

/* ---- weights to begin with */

static uint32_t mixed(uint32_t h) /* the finaliser of MurmurHash3 */
{
    h = (h ^ h >> 16) * 0x85EBCA6Bu;
    h = (h ^ h >> 13) * 0xC2B2AE35u;
    return h ^ h >> 16;
}

static double number(const char *name, uint32_t i)
{
    uint32_t salt = 2166136261u;
    for (const char *c = name; *c; c++)
        salt = (salt ^ (unsigned char)*c) * 16777619u;
    uint32_t h = mixed(i * 2654435761u + salt);
    double v = ldexp(128 + (double)(h >> 1 & 127), -8 - (int)((h >> 8) % 3));
    size_t length = strlen(name);
    bool positive = length >= 11 && strcmp(name + length - 11, "running_var") == 0;
    return h & 1 && !positive ? -v : v;
}

static int begin(const Values *all, const char *path)
{
    FILE *f = fopen(path, "wb");
    size_t room = (size_t)all->count * (NAME + 256) + 16, length = 0;
    char *header = tensors_room(room);
    int64_t at = 0;
    for (int k = 0; k < all->count; k++) {
        const Value *v = &all->list[k];
        length +=
            (size_t)snprintf(header + length, room - length, "%c\"%s\":{\"dtype\":\"F64\",\"shape\":[", k ? ',' : '{', v->name);
        for (int i = 0; i < v->rank; i++)
            length += (size_t)snprintf(header + length, room - length, "%s%lld", i ? "," : "", (long long)v->extent[i]);
        length += (size_t)snprintf(header + length, room - length, "],\"data_offsets\":[%lld,%lld]}", (long long)at,
                                   (long long)(at + 8 * v->count));
        at += 8 * v->count;
    }
    length += (size_t)snprintf(header + length, room - length, "}");
    while (length % 8)
        header[length++] = ' ';
    uint64_t head = length;
    if (!f || fwrite(&head, 8, 1, f) != 1 || fwrite(header, 1, length, f) != length)
        tensors_fail(path, "cannot be written");
    for (int k = 0; k < all->count; k++)
        for (int64_t i = 0; i < all->list[k].count; i++) {
            double d = number(all->list[k].name, (uint32_t)i);
            fwrite(&d, 8, 1, f);
        }
    if (fclose(f))
        tensors_fail(path, "cannot be written");
    return 0;
}

/* ---- verdicts, a case at a time */

typedef struct Verdicts {
    char name[CASES][NAME], why[CASES][512];
    bool bad[CASES];
    int count;
} Verdicts;

static int case_of(Verdicts *all, const char *name)
{
    size_t length = strcspn(name, ".");
    for (int k = 0; k < all->count; k++)
        if (strlen(all->name[k]) == length && strncmp(all->name[k], name, length) == 0)
            return k;
    if (all->count == CASES)
        tensors_fail(name, "too many cases");
    memcpy(all->name[all->count], name, length);
    return all->count++;
}

static int close_cases(const Verdicts *all, const char *prefix)
{
    int bad = 0;
    for (int k = 0; k < all->count; k++) {
        if (all->bad[k])
            printf("not ok %s%s: %s\n", prefix, all->name[k], all->why[k]);
        else
            printf("ok %s%s\n", prefix, all->name[k]);
        bad |= all->bad[k];
    }
    return bad || !all->count;
}

static const Tensor *same_shape(const Tensors *file, const Value *v)
{
    const Tensor *t = tensors_find(file, v->name);
    bool same = t && t->width && t->rank == v->rank;
    for (int i = 0; same && i < v->rank; i++)
        same = t->extent[i] == v->extent[i];
    return same ? t : NULL;
}

/* CASE=TOLERANCE among the arguments, else the common one */
static double tolerance_of(const char *name, double common, char *const *own)
{
    size_t length = strlen(name);
    for (; *own; own++)
        if (strncmp(*own, name, length) == 0 && (*own)[length] == '=')
            common = atof(*own + length + 1);
    return common;
}

static const char *hold(const Value *v, const Tensor *t, double tolerance)
{
    static char why[320];
    double sum = 0, weighted = 0, size = 0;
    for (int64_t i = 0; i < t->count; i++) {
        sum += tensors_get(t, i);
        weighted += tensors_get(t, i) * cos((double)i);
        size += fabs(tensors_get(t, i));
    }
    double room = tolerance * (size > 1e-6 ? size : 1e-6);
    snprintf(why, sizeof why, "%s: sums %.12g and %.12g, expected %.12g and %.12g", v->name, sum, weighted, v->sum, v->weighted);
    return fabs(sum - v->sum) <= room && fabs(weighted - v->weighted) <= room ? NULL : why;
}

static double norm(const Tensor *a, const Tensor *b)
{
    double sum = 0;
    for (int64_t i = 0; i < a->count; i++) {
        double d = tensors_get(a, i) - (b ? tensors_get(b, i) : 0);
        sum += d * d;
    }
    return sqrt(sum);
}

static const char *near(const Value *v, const Tensor *t, const Tensors *exact, const char *name, double tolerance)
{
    static char why[320], input[NAME + 4];
    snprintf(input, sizeof input, "%s.x", name);
    const Tensor *e = same_shape(exact, v), *x = tensors_find(exact, input);
    if (!e)
        return "the exact one is missing";
    double whole = norm(e, NULL), of_input = x ? norm(x, NULL) : 0, difference = norm(t, e);
    if (whole < 1e-9 * of_input)
        whole = of_input;
    snprintf(why, sizeof why, "%s: differs by %.2g of its norm", v->name, difference / whole);
    return difference <= tolerance * whole ? NULL : why;
}

static int compare(const Values *all, const char *prefix, const Tensors *file, double common, const Tensors *exact,
                   char *const *own)
{
    static Verdicts verdicts;
    for (int k = 0; k < all->count; k++) {
        const Value *v = &all->list[k];
        const Tensor *t = same_shape(file, v);
        int at = case_of(&verdicts, v->name);
        double tolerance = tolerance_of(verdicts.name[at], common, own);
        const char *why = !t      ? "a tensor is missing"
                          : exact ? near(v, t, exact, verdicts.name[at], tolerance)
                                  : hold(v, t, tolerance);
        if (why && !verdicts.bad[at])
            snprintf(verdicts.why[at], sizeof verdicts.why[at], "%s", why);
        verdicts.bad[at] = verdicts.bad[at] || why;
    }
    return close_cases(&verdicts, prefix);
}

int main(int argc, char **argv)
{
    if (argc == 4 && strcmp(argv[1], "begin") == 0) {
        Values all = load(argv[2]);
        return begin(&all, argv[3]);
    }
    bool nears = argc > 1 && strcmp(argv[1], "near") == 0;
    if ((!nears || argc < 7) && (argc < 6 || strcmp(argv[1], "hold") != 0)) {
        fprintf(stderr, "usage: values begin NAMES OUT | hold PREFIX NAMES FILE TOLERANCE [CASE=TOLERANCE...] |\n"
                        "       near PREFIX NAMES FILE TOLERANCE EXACT [CASE=TOLERANCE...]\n");
        return 2;
    }
    Values all = load(argv[3]);
    Tensors file = tensors_load(argv[4]), exact = {0};
    if (nears)
        exact = tensors_load(argv[6]);
    return compare(&all, argv[2], &file, atof(argv[5]), nears ? &exact : NULL, argv + (nears ? 7 : 6));
}
