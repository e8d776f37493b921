/* sums_avx2.c: sums of pixels for x86-64 with AVX2. CMakeLists.txt sets the compiler's flags; without them, this variant never
 * runs. */
#if defined(__AVX2__)
#include "runtime/data/image/sums.h"

const ImageSums mgpu_image_sums_avx2 = {"avx2", sum_rows, sum_pixels};
#else
#include "runtime/data/image/image.h"

const ImageSums mgpu_image_sums_avx2 = {.name = "avx2"};
#endif
