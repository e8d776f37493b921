/* gradient_difference BEFORE A B MOMENTUM: how far apart the gradients of one step are, from the velocities of sgd in three
 * optimizer.safetensors: g = velocity - MOMENTUM * velocity before. Prints |gA - gB| / |gA| over all tensors. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct File { char *header; unsigned char *data; } File;

static File load(const char *path)
{
    FILE *f = fopen(path, "rb");
    uint64_t head = 0;
    if (!f || fread(&head, 8, 1, f) != 1) {
        fprintf(stderr, "gradient_difference: %s cannot be read\n", path);
        exit(3);
    }
    fseek(f, 0, SEEK_END);
    size_t size = (size_t)ftell(f) - 8;
    fseek(f, 8, SEEK_SET);
    unsigned char *all = malloc(size + 1);
    if (!all || head > size || fread(all, 1, size, f) != size) {
        fprintf(stderr, "gradient_difference: %s cannot be read\n", path);
        exit(3);
    }
    fclose(f);
    char *header = malloc(head + 1);
    if (!header)
        exit(3);
    memcpy(header, all, head);
    header[head] = 0;
    return (File){header, all + head};
}

/* the bytes of tensor `name` (quoted); NULL: not there */
static const unsigned char *find(const File *f, const char *quoted, int64_t *bytes, int *wide)
{
    const char *at = strstr(f->header, quoted);
    if (!at)
        return NULL;
    const char *offsets = strstr(at, "\"data_offsets\":["), *dtype = strstr(at, "\"dtype\":\"");
    char *end;
    int64_t from = strtoll(offsets + 16, &end, 10), to = strtoll(end + 1, NULL, 10);
    *bytes = to - from;
    *wide = strncmp(dtype + 9, "F64", 3) == 0;
    return f->data + from;
}

static double value(const unsigned char *p, int64_t i, int wide)
{
    float f;
    double d;
    if (wide) {
        memcpy(&d, p + 8 * i, 8);
        return d;
    }
    memcpy(&f, p + 4 * i, 4);
    return f;
}

int main(int argc, char **argv)
{
    if (argc != 5) {
        fprintf(stderr, "usage: gradient_difference BEFORE A B MOMENTUM\n");
        return 2;
    }
    File before = load(argv[1]), a = load(argv[2]), b = load(argv[3]);
    double momentum = atof(argv[4]), difference = 0, norm = 0;
    int tensors = 0;
    for (const char *at = strstr(a.header, ".velocity\""); at; at = strstr(at + 1, ".velocity\"")) {
        const char *start = at;
        while (*start != '"')
            start--;
        char name[512];
        snprintf(name, sizeof name, "%.*s.velocity\"", (int)(at - start), start);
        int64_t bytes[3];
        int wide;
        const unsigned char *p = find(&before, name, &bytes[0], &wide), *x = find(&a, name, &bytes[1], &wide), *y = find(&b, name, &bytes[2], &wide);
        if (!p || !x || !y || bytes[0] != bytes[1] || bytes[1] != bytes[2]) {
            fprintf(stderr, "gradient_difference: %s is not alike in all files\n", name);
            return 3;
        }
        for (int64_t i = 0; i < bytes[0] / (wide ? 8 : 4); i++) {
            double g = value(x, i, wide) - momentum * value(p, i, wide), h = value(y, i, wide) - momentum * value(p, i, wide);
            difference += (g - h) * (g - h);
            norm += g * g;
        }
        tensors++;
    }
    if (!tensors || norm == 0) {
        fprintf(stderr, "gradient_difference: no velocity was found\n");
        return 3;
    }
    printf("%.3g\n", sqrt(difference / norm));
    return 0;
}
