/* sums_base.c: sums of pixels for any processor, and the selection of a variant. */
#include "runtime/data/image/sums.h"

const ImageSums mgpu_image_sums_base = {"base", sum_rows, sum_pixels};

const ImageSums *mgpu_image_sums_choice(int number)
{
#if defined(__x86_64__)
    if (mgpu_image_sums_avx2.rows != NULL && __builtin_cpu_supports("avx2") && number-- == 0)
        return &mgpu_image_sums_avx2;
#endif
    return number == 0 ? &mgpu_image_sums_base : NULL;
}
