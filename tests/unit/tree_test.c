/* tree_test.c: the tree of mgpu_exact.h. For N = 1 to 32 shards and 1 to N devices, sums within devices and then between them are
 * those of the tree over all shards, bit for bit, in all types, and so are sums of slices; of numbers at random, and of those where
 * each other order is wrong: they cancel, are infinite, have signed zeros, overflow. The tree over all shards is compared with one
 * that is written down here by itself. Moments likewise. */
#include "runtime/abi/mgpu_exact.h"
#include "runtime/abi/mgpu_half.h"
#include "runtime/abi/mgpu_moments.h"
#include "runtime/base/base.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void mgpu_from_double(void *data, uint8_t dtype, int64_t index, double value);
double mgpu_to_double(const void *data, uint8_t dtype, int64_t index);

enum { SHARDS = 32, COUNT = 1200 }; /* COUNT: more than two blocks of exact.c */

static int failures;
static uint64_t state = 1;

static double uniform(void)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (double)(state >> 11) * 0x1p-53;
}

static const struct {
    uint8_t type;
    const char *name;
    double largest;
    bool whole;
} TYPES[] = {{MGPU_F32, "f32", 0x1.fffffep127, false},
             {MGPU_F64, "f64", 0x1.fffffffffffffp1023, false},
             {MGPU_BF16, "bf16", 0x1.fep127, false},
             {MGPU_F16, "f16", 65504, false},
             {MGPU_U8, "u8", 255, true},
             {MGPU_I8, "i8", 127, true},
             {MGPU_U16, "u16", 65535, true},
             {MGPU_I16, "i16", 32767, true},
             {MGPU_U32, "u32", 4294967295.0, true},
             {MGPU_I32, "i32", 2147483647, true},
             {MGPU_I64, "i64", 0x1p62, true}};

/* Element i of a shard: of six kinds, by i. */
static double number(int i, double largest, bool whole)
{
    double u = uniform(), sign = uniform() < 0.5 ? -1 : 1;
    if (whole)
        return floor(u * largest);
    switch (i % 6) {
    case 0: return sign * u;
    case 1: return sign * ldexp(u, (int)(uniform() * 12) - 6);                        /* exponents of all sizes */
    case 2: return uniform() < 0.4 ? sign * largest / 4 : sign * u;                   /* what is large cancels */
    case 3: return uniform() < 0.1 ? sign * (double)INFINITY : sign * u;              /* inf - inf is NaN */
    case 4: return sign * 0.0;                                                        /* -0 only if all are */
    default: return uniform() < 0.5 ? sign * largest * (0.5 + u / 2) : sign * u * 10; /* overflows, or not, by the order */
    }
}

static double stored(double x, uint8_t type)
{
    uint64_t room = 0;
    mgpu_from_double(&room, type, 0, x);
    return mgpu_to_double(&room, type, 0);
}

/* Returns what two numbers of a type make: rounded once to float, then to a half. */
static double plus(double a, double b, uint8_t type)
{
    return stored(type == MGPU_F64 ? a + b : (double)((float)a + (float)b), type);
}

/* The tree over a power of two, as it is defined: both halves, then their sum. */
static double halves(const double *x, int count, uint8_t type)
{
    return count == 1 ? x[0] : plus(halves(x, count / 2, type), halves(x + count / 2, count / 2, type), type);
}

static void verdict(const char *name, const char *what, int bad, int of)
{
    printf("%s %s: %s: %d of %d differ\n", bad ? "not ok" : "ok", name, what, bad, of);
    failures += bad != 0;
}

static void test_sums(int t)
{
    uint8_t type = TYPES[t].type;
    size_t bytes = (size_t)COUNT * (size_t)mgpu_dtype_bytes(type);
    char *shard[SHARDS], *sum[SHARDS], *all = malloc(bytes), *to = malloc(bytes);
    int bad = 0, tried = 0, bad_tree = 0, bad_parts = 0;
    for (int k = 0; k < SHARDS; k++) {
        shard[k] = malloc(bytes);
        sum[k] = malloc(bytes);
        for (int i = 0; i < COUNT; i++)
            mgpu_from_double(shard[k], type, i, number(i, TYPES[t].largest, TYPES[t].whole));
    }
    for (int n = 1; n <= SHARDS; n *= 2) {
        mgpu_add_tree(all, (const void *const *)shard, n, type, 0, COUNT);
        for (int i = 0; i < COUNT && !TYPES[t].whole; i++) {
            double x[SHARDS], is = mgpu_to_double(all, type, i);
            for (int k = 0; k < n; k++)
                x[k] = mgpu_to_double(shard[k], type, i);
            double expected = halves(x, n, type);
            bad_tree += expected != expected ? is == is : is != expected || !signbit(is) != !signbit(expected);
        }
        for (int devices = 1; devices <= n; devices++, tried++) {
            for (int d = 0; d < devices; d++) {
                int64_t first = mgpu_first_shard(n, devices, d), end = mgpu_first_shard(n, devices, d + 1);
                mgpu_add_tree(sum[d], (const void *const *)shard + first, end - first, type, 0, COUNT);
            }
            memset(to, 1, bytes);
            for (int slice = 0; slice < 3; slice++) /* each device, or thread, adds a slice */
                mgpu_add_tree(to, (const void *const *)sum, devices, type, COUNT * slice / 3, COUNT * (slice + 1) / 3);
            bad += memcmp(to, all, bytes) != 0;
            mgpu_add_tree(sum[0], (const void *const *)sum, devices, type, 0, COUNT); /* in place */
            bad += memcmp(sum[0], all, bytes) != 0;
        }
        /* partial sums of one kernel's calls, in double, rounded to the type: a tree of the same values */
        double *held = calloc((size_t)n * COUNT, sizeof *held);
        for (int k = 0; k < n; k++)
            for (int i = 0; i < COUNT; i++)
                held[k * COUNT + i] = mgpu_to_double(shard[k], type, i) * (type == MGPU_F64 ? 1 : 1 + 0x1p-40);
        mgpu_part part = {.threads = n, .stride = COUNT * sizeof *held};
        if (!TYPES[t].whole)
            mgpu_add_shards(held, COUNT, MGPU_F64, type, &part);
        for (int i = 0; i < COUNT && !TYPES[t].whole; i++) {
            double expected = mgpu_to_double(all, type, i);
            bad_parts += expected != expected ? held[i] == held[i] : memcmp(&held[i], &expected, sizeof expected) != 0;
        }
        free(held);
    }
    for (int k = 0; k < SHARDS; k++) {
        free(shard[k]);
        free(sum[k]);
    }
    free(all);
    free(to);
    verdict(TYPES[t].name, "within devices, then between them", bad, tried);
    if (TYPES[t].whole)
        return;
    verdict(TYPES[t].name, "halves of halves", bad_tree, 6 * COUNT);
    verdict(TYPES[t].name, "partial sums in double", bad_parts, 6 * COUNT);
}

static void test_moments(void)
{
    enum { NUMBERS = 3 * 50 };
    static double shard[SHARDS][NUMBERS], sum[SHARDS][NUMBERS];
    double all[NUMBERS], held[SHARDS][NUMBERS];
    const double *terms[SHARDS];
    int bad = 0, bad_parts = 0, tried = 0;
    for (int k = 0; k < SHARDS; k++)
        for (int i = 0; i < NUMBERS; i += 3) {
            double n = floor(uniform() * 4); /* some have no samples */
            shard[k][i] = n;
            shard[k][i + 1] = n > 0 ? 100 + uniform() : 0;
            shard[k][i + 2] = n > 1 ? uniform() : 0;
        }
    for (int n = 1; n <= SHARDS; n *= 2) {
        for (int k = 0; k < n; k++)
            terms[k] = shard[k];
        mgpu_merge_tree(all, terms, n, NUMBERS);
        for (int devices = 1; devices <= n; devices++, tried++) {
            for (int d = 0; d < devices; d++) {
                for (int64_t k = mgpu_first_shard(n, devices, d), first = k; k < mgpu_first_shard(n, devices, d + 1); k++)
                    terms[k - first] = shard[k];
                mgpu_merge_tree(sum[d], terms, mgpu_first_shard(n, devices, d + 1) - mgpu_first_shard(n, devices, d), NUMBERS);
            }
            for (int d = 0; d < devices; d++)
                terms[d] = sum[d];
            double to[NUMBERS];
            mgpu_merge_tree(to, terms, devices, NUMBERS);
            bad += memcmp(to, all, sizeof all) != 0;
        }
        memcpy(held, shard, sizeof held);
        mgpu_part part = {.threads = n, .stride = sizeof held[0]};
        for (int i = 0; i < NUMBERS; i += 3)
            mgpu_merge_shards(&held[0][i], &held[0][i + 1], &held[0][i + 2], 1, &part);
        bad_parts += memcmp(held[0], all, sizeof all) != 0;
    }
    verdict("moments", "within devices, then between them", bad, tried);
    verdict("moments", "of one kernel's calls", bad_parts, 6);
}

/* every shard and sample has one owner, in order, and devices are as even as subtrees are */
static void test_shares(void)
{
    int bad = 0, tried = 0;
    for (int n = 1; n <= 256; n *= 2) {
        for (int devices = 1; devices <= n; devices++, tried++) {
            int64_t most = 0, least = n;
            bad += mgpu_first_shard(n, devices, 0) != 0 || mgpu_first_shard(n, devices, devices) != n;
            for (int d = 0; d < devices; d++) {
                int64_t first = mgpu_first_shard(n, devices, d), share = mgpu_first_shard(n, devices, d + 1) - first;
                bad += share < 1 || (share & (share - 1)) || first % share;
                most = share > most ? share : most;
                least = share < least ? share : least;
            }
            bad += most > 2 * least;
        }
        for (int groups = 1; groups < 300; groups += 7)
            for (int k = 0; k < n; k++) {
                int64_t share = mgpu_shard_groups(groups, n, k + 1) - mgpu_shard_groups(groups, n, k);
                bad += share < groups / n || share > (groups + n - 1) / n || (k == 0 && mgpu_shard_groups(groups, n, 0)) ||
                       (k == n - 1 && mgpu_shard_groups(groups, n, n) != groups);
            }
    }
    verdict("shares", "subtrees, each shard once", bad, tried);
}

int main(void)
{
    for (size_t t = 0; t < sizeof TYPES / sizeof *TYPES; t++)
        test_sums((int)t);
    test_moments();
    test_shares();
    return failures != 0;
}
