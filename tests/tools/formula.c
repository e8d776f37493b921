/* formula: test data that two programs can compute alike.
 *
 *     formula weights IN.safetensors OUT.safetensors     every float tensor of IN by the formula below
 *     formula list IN.safetensors                        a line for each tensor: its name and a checksum of its bytes
 *     formula idx FILE MODULUS EXTENT...                 an IDX file of bytes
 *
 * Weight element i of the tensor NAME: a sin(0.37 i + 0.1 (sum of NAME's bytes)), a = 1 / sqrt(product of all extents but the
 * first) for rank 2 and more; rank 1: 0.1 sin(...), plus 1 if the name ends in "weight"; names ending in running_mean and
 * running_var keep what they are. Byte i of an IDX file: (i * 2654435761 mod 2^32) >> 13, modulo MODULUS. */
#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void stop(const char *what, const char *path)
{
    fprintf(stderr, "formula: %s: %s\n", path, what);
    exit(3);
}

static int ends(const char *s, const char *end)
{
    size_t a = strlen(s), b = strlen(end);
    return a >= b && strcmp(s + a - b, end) == 0;
}

/* one entry of the header: "NAME":{"dtype":"F64","shape":[2,3],"data_offsets":[0,48]} */
static void fill(const char *name, const char *entry, unsigned char *data)
{
    const char *dtype = strstr(entry, "\"dtype\":\""), *shape = strstr(entry, "\"shape\":["), *offsets = strstr(entry, "\"data_offsets\":[");
    if (!dtype || !shape || !offsets || ends(name, "running_mean") || ends(name, "running_var"))
        return;
    int wide = strncmp(dtype + 9, "F64", 3) == 0;
    if (!wide && strncmp(dtype + 9, "F32", 3) != 0)
        return;
    int64_t count = 1, inner = 1;
    int rank = 0;
    for (char *at = (char *)(uintptr_t)shape + 9; *at != ']'; rank++) {
        int64_t n = strtoll(at, &at, 10);
        count *= n;
        inner *= rank ? n : 1;
        if (*at == ',')
            at++;
    }
    int64_t begin = strtoll(offsets + 16, NULL, 10);
    double shift = 0;
    for (const char *c = name; *c; c++)
        shift += 0.1 * (unsigned char)*c;
    double a = rank >= 2 ? 1 / sqrt((double)inner) : 0.1, base = rank == 1 && ends(name, "weight") ? 1 : 0;
    for (int64_t i = 0; i < count; i++) {
        double v = base + a * sin(0.37 * (double)i + shift);
        float f = (float)v;
        memcpy(data + begin + i * (wide ? 8 : 4), wide ? (void *)&v : (void *)&f, wide ? 8 : 4);
    }
}

static void list(const char *name, const char *entry, const unsigned char *data)
{
    const char *offsets = strstr(entry, "\"data_offsets\":[");
    if (!offsets)
        stop("a tensor without offsets", name);
    char *comma;
    int64_t begin = strtoll(offsets + 16, &comma, 10), end = strtoll(comma + 1, NULL, 10);
    uint64_t hash = 14695981039346656037u;
    for (int64_t i = begin; i < end; i++)
        hash = (hash ^ data[i]) * 1099511628211u;
    printf("%s %016" PRIx64 "\n", name, hash);
}

/* each tensor by the formula, into the file `out`; out NULL: they are listed */
static int weights(const char *in, const char *out)
{
    FILE *f = fopen(in, "rb");
    if (!f)
        stop("cannot be read", in);
    fseek(f, 0, SEEK_END);
    long size = ftell(f);
    rewind(f);
    unsigned char *file = malloc((size_t)size + 1);
    if (!file || fread(file, 1, (size_t)size, f) != (size_t)size)
        stop("cannot be read", in);
    fclose(f);
    uint64_t head;
    memcpy(&head, file, 8);
    char *text = malloc(head + 1);
    if (!text)
        stop("out of memory", in);
    memcpy(text, file + 8, head);
    text[head] = 0;
    for (char *at = strchr(text, '"'); at;) {
        char *end = strchr(at + 1, '"'), *open = strchr(end, '{'), *close = open ? strchr(open, '}') : NULL;
        if (!close)
            break;
        *end = 0;
        *close = 0;
        bool tensor = strcmp(at + 1, "__metadata__") != 0;
        if (tensor && out)
            fill(at + 1, open, file + 8 + head);
        else if (tensor)
            list(at + 1, open, file + 8 + head);
        at = strchr(close + 1, '"');
    }
    f = out ? fopen(out, "wb") : NULL;
    if (out && (!f || fwrite(file, 1, (size_t)size, f) != (size_t)size || fclose(f)))
        stop("cannot be written", out);
    free(text);
    free(file);
    return 0;
}

static int idx(const char *path, uint32_t modulus, int rank, char **extents)
{
    FILE *f = fopen(path, "wb");
    if (!f || modulus == 0 || rank > 8)
        stop("cannot be written", path);
    unsigned char head[4] = {0, 0, 8, (unsigned char)rank};
    fwrite(head, 1, 4, f);
    int64_t count = 1;
    for (int i = 0; i < rank; i++) {
        uint32_t n = (uint32_t)strtoul(extents[i], NULL, 10);
        unsigned char b[4] = {(unsigned char)(n >> 24), (unsigned char)(n >> 16), (unsigned char)(n >> 8), (unsigned char)n};
        fwrite(b, 1, 4, f);
        count *= n;
    }
    for (int64_t i = 0; i < count; i++)
        fputc((int)(((uint32_t)i * 2654435761u >> 13) % modulus), f);
    if (fclose(f))
        stop("cannot be written", path);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc == 4 && strcmp(argv[1], "weights") == 0)
        return weights(argv[2], argv[3]);
    if (argc == 3 && strcmp(argv[1], "list") == 0)
        return weights(argv[2], NULL);
    if (argc >= 5 && strcmp(argv[1], "idx") == 0)
        return idx(argv[2], (uint32_t)strtoul(argv[3], NULL, 10), argc - 4, argv + 4);
    fprintf(stderr, "usage: formula weights IN OUT | list IN | idx FILE MODULUS EXTENT...\n");
    return 2;
}
