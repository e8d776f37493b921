/* words.c: a program that uses the library of tests/shared.test: what it computes is compared with what `./words predict` has written. */
#include "words.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SAMPLES = 12 };

/* the elements of a .npy file of version 1, which is small */
static void *read_npy(const char *path)
{
    static char bytes[1 << 16];
    FILE *f = fopen(path, "rb");
    size_t length = f ? fread(bytes, 1, sizeof bytes, f) : 0, header = 10 + (unsigned char)bytes[8] + 256u * (unsigned char)bytes[9];
    if (!f || length < header)
        exit(3);
    fclose(f);
    return memcpy(malloc(length), bytes + header, length - header);
}

static int differ(const double *a, const double *b, int count)
{
    int different = 0;
    for (int i = 0; i < count; i++)
        different += !(fabs(a[i] - b[i]) <= 1e-10);
    return different;
}

int main(int argc, char **argv)
{
    words *model = words_open(argv[argc - 1], 2);
    if (!model) {
        fprintf(stderr, "%s\n", words_error());
        return 1;
    }
    const words_tensor *word = words_input(model, 0), *sum = words_output(model, 1);
    if (strcmp(word->name, "word") != 0 || word->rank != 1 || word->shape[0] != 4 || words_input(model, 2) || words_input(model, -1) ||
        strcmp(sum->name, "sum") != 0 || strcmp(sum->type, "f64") != 0 || sum->rank != 0 || sum->bytes != 8 || words_output(model, 2))
        return puts("inputs and outputs are not those of the model"), 1;
    const int *w = read_npy("word.npy");
    char *classes = calloc(SAMPLES, (size_t)word->bytes); /* in the input's type */
    for (int i = 0; i < SAMPLES * 4; i++)
        memcpy(classes + i * word->bytes / 4, &w[i], (size_t)word->bytes / 4);
    const double *x = read_npy("x.npy"), *wanted_h = read_npy("out-h.npy"), *wanted_sum = read_npy("out-sum.npy");
    for (int samples = SAMPLES; samples >= 1; samples--) {
        double h[SAMPLES * 8], sums[SAMPLES];
        int at = SAMPLES - samples;
        if (words_run(model, samples, (const void *[]){classes + at * word->bytes, x + 3 * at}, (void *[]){h, sums}) != 0)
            return printf("%d samples: %s\n", samples, words_error()), 1;
        if (differ(h, wanted_h + 8 * at, 8 * samples) || differ(sums, wanted_sum + at, samples))
            return printf("%d samples: other numbers than ./words predict writes\n", samples), 1;
    }
    words_close(model);
    return 0;
}
