/* tensors_difference TOLERANCE A B: have two files of safetensors the same tensors, whose elements differ by no more than that?
 * Prints the tensor with the largest difference. --list A: prints a line for each tensor, with its first elements and a sum. */
#include "tests/tools/tensors.h"

#include <math.h>

static int list(const char *path)
{
    Tensors a = tensors_load(path);
    for (int k = 0; k < a.count; k++) {
        const Tensor *x = &a.list[k];
        double sum = 0;
        for (int64_t i = 0; i < x->count; i++)
            sum += tensors_get(x, i) * (double)(i % 7 + 1);
        printf("%s %.17g %.17g\n", x->name, x->count ? tensors_get(x, 0) : 0, sum);
    }
    return 0;
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "--list") == 0)
        return list(argv[2]);
    if (argc != 4) {
        fprintf(stderr, "usage: tensors_difference TOLERANCE A B | --list A\n");
        return 2;
    }
    Tensors a = tensors_load(argv[2]), b = tensors_load(argv[3]);
    const char *where = "no tensor";
    double most = 0;
    for (int k = 0; k < a.count; k++) {
        const Tensor *x = &a.list[k], *y = tensors_find(&b, x->name);
        if (!y || y->count != x->count || a.count != b.count) {
            printf("%s: not in both\n", x->name);
            return 1;
        }
        for (int64_t i = 0; i < x->count; i++) {
            double d = fabs(tensors_get(x, i) - tensors_get(y, i));
            if (!(d <= most)) {
                most = d;
                where = x->name;
            }
        }
    }
    printf("%s: %.3g\n", where, most);
    return !(most <= atof(argv[1]));
}
