/* strided.c: visits elements of a tensor in row-major order if they are stored in another order: Fortran's (npy.c), that of
 * PyTorch's views, or the order of axes that the compiler has chosen (runtime/weights/). */
#include "runtime/base/base.h"
#include "runtime/data/data.h"

void mgpu_strided_begin(Strided *s, int64_t element)
{
    s->offset = 0;
    for (int k = s->rank - 1; k >= 0; k--) {
        s->at[k] = s->extent[k] ? element % s->extent[k] : 0;
        element = s->extent[k] ? element / s->extent[k] : 0;
        s->offset += s->at[k] * s->stride[k];
    }
}

void mgpu_strided_next(Strided *s)
{
    for (int k = s->rank - 1; k >= 0; k--) {
        s->offset += s->stride[k];
        if (++s->at[k] < s->extent[k])
            return;
        s->offset -= s->stride[k] * s->extent[k];
        s->at[k] = 0;
    }
}
