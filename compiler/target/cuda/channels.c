/* channels.c: the cost of a convolution of few channels, by how many of them are contiguous. */
#include "compiler/machine/machine.h"
#include "compiler/target/cuda/cuda.h"

#include <math.h>

/* Cycles of one SM, for the work of all SMs of an H100 (bench/gpu/counts): warp instructions to copy a piece of x, and to
 * multiply 16 x 8 x 16 elements with all related ones; warp instructions per cycle; bytes of memory per cycle; cycles between two
 * kernels; the fraction of the shorter of computing and copying that does not overlap, since the few blocks of an SM load,
 * multiply and store in turn. */
static const double PIECE = 7, PIECE_BY_ELEMENTS = 12, MATRIX = 1.6, ISSUE = 4 * .72, BYTES = 12.5, GAP = 2100, APART = 1. / 3;
enum { DEPTH = 32, COLUMNS = 128 /* of a tile */, LEAST_PIECE = 4 /* bytes of an asynchronous copy */, VECTOR = 16 };

double cuda_convolution_cost(const ConvolutionSizes *s)
{
    bool half = dtype_is_half(s->type);
    if (!half && !(s->type == F32 && s->tf32))
        return 0;
    int64_t bytes = dtype_bytes(s->type), piece = VECTOR / bytes;
    while (s->channels % piece)
        piece /= 2;
    double copies = s->rows * ceil(s->columns / COLUMNS) * ceil(s->depth / DEPTH) * DEPTH / (double)piece / 32;
    double matrices = s->rows / 16 * ceil(s->columns / 16) * 2 * ceil(s->depth / 16) * (half ? 1 : 2);
    double units = CHIP[PROCESSOR_CUDA].units;
    double issue = (copies * (piece * bytes >= LEAST_PIECE ? PIECE : PIECE_BY_ELEMENTS) + matrices * MATRIX) / ISSUE / units;
    double memory = s->elements * (double)bytes / BYTES / units;
    return fmax(issue, memory) + APART * fmin(issue, memory) + s->moved * (double)bytes / BYTES / units + s->kernels * GAP;
}
