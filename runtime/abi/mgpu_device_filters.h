/* mgpu_device_filters.h: weights of convolutions, from one order in memory to another: kernels of the runtime, for programs whose
 * convolutions a library may do (runtime/cuda/cudnn.c). `count` matrices are transposed: to[m][c][r] = from[m][r][c], in tiles
 * that go through shared memory, so that both are read and written along what is stored. Numbers are moved as they are. */
#ifndef MGPU_DEVICE_FILTERS_H
#define MGPU_DEVICE_FILTERS_H

#include "mgpu_device.h"
#include "mgpu_transposed.h"

/* pitch: from a row to the next; apart: from a matrix to the next */
template <class T>
MGPU_FUNCTION void mgpu_transpose(T *to, const T *from, int64_t count, int64_t rows, int64_t columns, int64_t from_pitch, int64_t from_apart,
                                  int64_t to_pitch, int64_t to_apart)
{
    constexpr int SIDE = MGPU_TRANSPOSED, STEP = MGPU_TRANSPOSED_ROWS;
    __shared__ T tile[SIDE][SIDE + 1]; /* one more: neighbours of a column are in different banks */
    const int64_t down = (rows + SIDE - 1) / SIDE, across = (columns + SIDE - 1) / SIDE;
    const int x = threadIdx.x % SIDE, y = threadIdx.x / SIDE;
    for (int64_t i = blockIdx.x; i < count * down * across; i += gridDim.x) {
        const int64_t matrix = i / (down * across), row = i / across % down * SIDE, column = i % across * SIDE;
        for (int k = y; k < SIDE; k += STEP)
            if (row + k < rows && column + x < columns)
                tile[k][x] = from[matrix * from_apart + (row + k) * from_pitch + column + x];
        __syncthreads();
        for (int k = y; k < SIDE; k += STEP)
            if (column + k < columns && row + x < rows)
                to[matrix * to_apart + (column + k) * to_pitch + row + x] = tile[x][k];
        __syncthreads();
    }
}

#define MGPU_TRANSPOSE(name, word)                                                                                     \
    extern "C" __global__ void mgpu_transpose_##name(word *__restrict__ to, const word *__restrict__ from,             \
                                                     int64_t count, int64_t rows, int64_t columns, int64_t from_pitch, \
                                                     int64_t from_apart, int64_t to_pitch, int64_t to_apart)           \
    {                                                                                                                  \
        mgpu_transpose(to, from, count, rows, columns, from_pitch, from_apart, to_pitch, to_apart);                    \
    }                                                                                                                  \
    MGPU_ENTRY(mgpu_transpose_##name)
MGPU_TRANSPOSE(2, uint16_t)
MGPU_TRANSPOSE(4, uint32_t)
MGPU_TRANSPOSE(8, uint64_t)
#undef MGPU_TRANSPOSE
#endif
