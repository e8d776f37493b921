/* digits.c: predictions by a library, in C. With the weights of examples/digits.net:
 *
 *     mgpuc examples/digits.net --shared -o libdigits.so
 *     cc -I. examples/library/digits.c -o predict -L. -l:libdigits.so -Wl,-rpath,.
 *     ./predict digits.save
 */
#include "digits.h"

#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    digits *model = digits_open(argc > 1 ? argv[1] : "digits.save", 0);
    if (!model) {
        fprintf(stderr, "%s\n", digits_error());
        return 1;
    }
    enum { SAMPLES = 2 };
    const digits_tensor *image = digits_input(model, 0), *probability = digits_output(model, 0);
    unsigned char *images = calloc(SAMPLES, (size_t)image->bytes);
    float *results = malloc(SAMPLES * (size_t)probability->bytes);
    for (int64_t i = 0; i < image->bytes; i += 28)
        images[i + 14] = 255; /* a vertical stroke; the second image is empty */
    if (digits_run(model, SAMPLES, (const void *[]){images}, (void *[]){results}) != 0) {
        fprintf(stderr, "%s\n", digits_error());
        return 1;
    }
    for (int s = 0; s < SAMPLES; s++)
        for (int k = 0; k < 10; k++)
            printf("%.3f%c", results[s * 10 + k], k < 9 ? ' ' : '\n');
    digits_close(model);
    free(images);
    free(results);
    return 0;
}
