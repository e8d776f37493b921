/* formula: test data that two programs can compute alike.
 *
 *     formula weights IN.safetensors OUT.safetensors     every float tensor of IN by the formula below
 *     formula list IN.safetensors                        a line for each tensor: its name and a checksum of its bytes
 *     formula idx FILE MODULUS EXTENT...                 an IDX file of bytes
 *
 * Weight element i of the tensor NAME: a sin(0.37 i + 0.1 (sum of NAME's bytes)), a = 1 / sqrt(product of all extents but the
 * first) for rank 2 and more; rank 1: 0.1 sin(...), plus 1 if the name ends in "weight"; names ending in running_mean and
 * running_var keep what they are. Byte i of an IDX file: (i * 2654435761 mod 2^32) >> 13, modulo MODULUS. */
#include "tests/tools/tensors.h"

#include <inttypes.h>
#include <math.h>

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

static void fill(const Tensor *t)
{
    if (!t->width || ends(t->name, "running_mean") || ends(t->name, "running_var"))
        return;
    int64_t inner = 1;
    for (int k = 1; k < t->rank; k++)
        inner *= t->extent[k];
    double shift = 0;
    for (const char *c = t->name; *c; c++)
        shift += 0.1 * (unsigned char)*c;
    double a = t->rank >= 2 ? 1 / sqrt((double)inner) : 0.1, base = t->rank == 1 && ends(t->name, "weight") ? 1 : 0;
    for (int64_t i = 0; i < t->count; i++)
        tensors_set(t, i, base + a * sin(0.37 * (double)i + shift));
}

static int weights(const char *in, const char *out)
{
    Tensors file = tensors_load(in);
    for (int i = 0; i < file.count; i++)
        fill(&file.list[i]);
    FILE *f = fopen(out, "wb");
    if (!f || fwrite(file.bytes, 1, file.size, f) != file.size || fclose(f))
        stop("cannot be written", out);
    return 0;
}

static int list(const char *in)
{
    Tensors file = tensors_load(in);
    for (int i = 0; i < file.count; i++) {
        uint64_t hash = 14695981039346656037u;
        for (int64_t k = 0; k < file.list[i].bytes; k++)
            hash = (hash ^ file.list[i].data[k]) * 1099511628211u;
        printf("%s %016" PRIx64 "\n", file.list[i].name, hash);
    }
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
        return list(argv[2]);
    if (argc >= 5 && strcmp(argv[1], "idx") == 0)
        return idx(argv[2], (uint32_t)strtoul(argv[3], NULL, 10), argc - 4, argv + 4);
    fprintf(stderr, "usage: formula weights IN OUT | list IN | idx FILE MODULUS EXTENT...\n");
    return 2;
}
