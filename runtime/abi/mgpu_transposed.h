/* mgpu_transposed.h: how the kernels of mgpu_device_filters.h are launched: for them, and for who launches them. */
#ifndef MGPU_TRANSPOSED_H
#define MGPU_TRANSPOSED_H

enum { MGPU_TRANSPOSED = 32 /* rows and columns of a tile */, MGPU_TRANSPOSED_ROWS = 8 /* threads of a block: rows of so many */ };
#endif
