/* mgpu_transposed.h: launch parameters of the kernels of mgpu_device_filters.h. */
#ifndef MGPU_TRANSPOSED_H
#define MGPU_TRANSPOSED_H

enum { MGPU_TRANSPOSED = 32 /* side of a tile */, MGPU_TRANSPOSED_ROWS = 8 /* rows of threads in a block */ };
#endif
