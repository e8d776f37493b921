/* gradient_difference BEFORE A B MOMENTUM: how far apart the gradients of one step are, from the velocities of sgd in three
 * optimizer.safetensors: g = velocity - MOMENTUM * velocity before. Prints |gA - gB| / |gA| over all tensors. */
#include "tests/tools/tensors.h"

#include <math.h>

int main(int argc, char **argv)
{
    if (argc != 5) {
        fprintf(stderr, "usage: gradient_difference BEFORE A B MOMENTUM\n");
        return 2;
    }
    Tensors before = tensors_load(argv[1]), a = tensors_load(argv[2]), b = tensors_load(argv[3]);
    double momentum = atof(argv[4]), difference = 0, norm = 0;
    for (int k = 0; k < a.count; k++) {
        const Tensor *x = &a.list[k], *p = tensors_find(&before, x->name), *y = tensors_find(&b, x->name);
        const char *dot = strrchr(x->name, '.');
        if (!dot || strcmp(dot, ".velocity") != 0)
            continue;
        if (!p || !y || p->count != x->count || y->count != x->count) {
            fprintf(stderr, "gradient_difference: %s is not alike in all files\n", x->name);
            return 3;
        }
        for (int64_t i = 0; i < x->count; i++) {
            double was = momentum * tensors_get(p, i), g = tensors_get(x, i) - was, h = tensors_get(y, i) - was;
            difference += (g - h) * (g - h);
            norm += g * g;
        }
    }
    if (norm == 0) {
        fprintf(stderr, "gradient_difference: no velocity was found\n");
        return 3;
    }
    printf("%.3g\n", sqrt(difference / norm));
    return 0;
}
