/* mgpu_device_warpgroup.h: sums of a tile by matrix instructions of a warpgroup (4 warps), which read both operands from shared memory
 * while the warps go on. PTX ISA 9.0, section 9.7.15 (wgmma). Of compute capability 9.0 alone: images for sm_90a. */
#ifndef MGPU_DEVICE_WARPGROUP_H
#define MGPU_DEVICE_WARPGROUP_H

#include "mgpu_device_tile.h"

constexpr bool MGPU_BY_WARPGROUPS = true; /* of mgpu_tiles; by this name mgpuc knows kernels that have an image for sm_90a */

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

/* what this thread has put into shared memory is there for those instructions, after the next barrier */
MGPU_FUNCTION void mgpu_show_warpgroups(void) { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

/* c [64, COLUMNS] += a [64, 16] b [16, COLUMNS] by a warpgroup; a, b: descriptors, whose matrices have elements of K side by side or
 * (ROWS_A, ROWS_B) rows and columns. Thread 32 w + 4 g + t: p: row 16 w + g, q: 8 more; of each 8 columns two from 2 t on. Not there
 * before mgpu_warpgroup_wait */
template <int TYPE, int COLUMNS, bool ROWS_A, bool ROWS_B> MGPU_FUNCTION void mgpu_multiply_warpgroup(float *p, float *q, uint64_t a, uint64_t b);

#define MGPU_D8(i) "+f"(p[i]), "+f"(p[(i) + 1]), "+f"(q[i]), "+f"(q[(i) + 1]) /* of 8 columns */
#define MGPU_D16(i) MGPU_D8(i), MGPU_D8((i) + 2)
#define MGPU_D32(i) MGPU_D16(i), MGPU_D16((i) + 4)
#define MGPU_D64(i) MGPU_D32(i), MGPU_D32((i) + 8)
#define MGPU_D128(i) MGPU_D64(i), MGPU_D64((i) + 16)
#define MGPU_D256(i) MGPU_D128(i), MGPU_D128((i) + 32)
#define MGPU_R16 "%0, %1, %2, %3, %4, %5, %6, %7"
#define MGPU_R32 MGPU_R16 ", %8, %9, %10, %11, %12, %13, %14, %15"
#define MGPU_R64 MGPU_R32 ", %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define MGPU_R128                                                                                                         \
    MGPU_R64 ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, "      \
             "%53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define MGPU_R256                                                                                                         \
    MGPU_R128 ", %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, %80, %81, %82, %83, %84, %85, " \
              "%86, %87, %88, %89, %90, %91, %92, %93, %94, %95, %96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, "  \
              "%107, %108, %109, %110, %111, %112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"

#define MGPU_MULTIPLY_WARPGROUP(type, columns, a_number, b_number, rows_a_number, rows_b_number)                            \
    asm volatile("wgmma.mma_async.sync.aligned.m64n" #columns "k16.f32." type "." type " {" MGPU_R##columns "}, %" #a_number ", %" #b_number \
                 ", 1, 1, 1, %" #rows_a_number ", %" #rows_b_number ";"                                                        \
                 : MGPU_D##columns(0) : "l"(a), "l"(b), "n"((int)ROWS_A), "n"((int)ROWS_B))
#define MGPU_WARPGROUP_COLUMNS(columns, a_number, b_number, rows_a_number, rows_b_number)                                    \
    if constexpr (COLUMNS == columns && TYPE == MGPU_BF16)                                                                   \
        MGPU_MULTIPLY_WARPGROUP("bf16", columns, a_number, b_number, rows_a_number, rows_b_number);                            \
    else if constexpr (COLUMNS == columns)                                                                                  \
        MGPU_MULTIPLY_WARPGROUP("f16", columns, a_number, b_number, rows_a_number, rows_b_number);
template <int TYPE, int COLUMNS, bool ROWS_A, bool ROWS_B> MGPU_FUNCTION void mgpu_multiply_warpgroup(float *p, float *q, uint64_t a, uint64_t b)
{
    MGPU_WARPGROUP_COLUMNS(16, 8, 9, 10, 11)
    MGPU_WARPGROUP_COLUMNS(32, 16, 17, 18, 19)
    MGPU_WARPGROUP_COLUMNS(64, 32, 33, 34, 35)
    MGPU_WARPGROUP_COLUMNS(128, 64, 65, 66, 67)
    MGPU_WARPGROUP_COLUMNS(256, 128, 129, 130, 131)
}
#undef MGPU_WARPGROUP_COLUMNS
#undef MGPU_MULTIPLY_WARPGROUP

/* a warpgroup has OWN_ROWS x OWN_COLUMNS, in matrices of 64 x OWN_COLUMNS */
template <int TYPE, typename ROWS, typename COLUMNS, int THREADS> struct mgpu_warpgroup_tile {
    typedef float sum;
    static constexpr bool ASYNC = true;
    static constexpr int GROUPS = THREADS / 128, GROUPS_DOWN = GROUPS < ROWS::ROWS / 64 ? GROUPS : ROWS::ROWS / 64;
    static constexpr int OWN_ROWS = ROWS::ROWS / GROUPS_DOWN, OWN_COLUMNS = COLUMNS::ROWS / (GROUPS / GROUPS_DOWN);
    static constexpr int DOWN = OWN_ROWS / 32, ACROSS = OWN_COLUMNS / 4, RUN = 2, DEPTH = 16;
    static_assert(OWN_ROWS % 64 == 0 && COLUMNS::DEPTH % DEPTH == 0, "whole matrices");
    sum value[DOWN][ACROSS];

    MGPU_FUNCTION uint32_t first_row() { return GROUPS == 1 ? 0 : threadIdx.x / 128 % GROUPS_DOWN * OWN_ROWS; }
    MGPU_FUNCTION uint32_t first_column() { return GROUPS == 1 ? 0 : threadIdx.x / 128 / GROUPS_DOWN * OWN_COLUMNS; }
    MGPU_FUNCTION int row(int i) { return (int)(first_row() + threadIdx.x % 128 / 32 * 16 + threadIdx.x % 32 / 4) + i / 2 * 64 + i % 2 * 8; }
    MGPU_FUNCTION int column(int j) { return (int)(first_column() + 2 * (threadIdx.x % 4)) + j / 2 * 8 + j % 2; }

    /* The descriptor of LINES from a row on (a multiple of 8, or a line along rows), without its address: bytes that chunks are permuted in,
     * 8 lines further, and LINES along rows that are longer than 8 chunks: from a part to the next. All in 16 bytes */
    template <typename LINES> MGPU_FUNCTION uint64_t descriptor()
    {
        constexpr uint64_t mode = LINES::LINE_BYTES == 128 ? 1 : LINES::LINE_BYTES == 64 ? 2 : 3;
        static_assert(LINES::LINE_BYTES == 128 || LINES::LINE_BYTES == 64 || LINES::LINE_BYTES == 32, "widths that chunks are permuted in");
        return mode << 62 | (uint64_t)(8 * LINES::LINE_BYTES / 16) << 32 | (uint64_t)(LINES::PART_BYTES / 16) << 16;
    }
    /* the byte of a row at an element of K */
    template <typename LINES> MGPU_FUNCTION uint32_t byte_of(uint32_t row, int at_k)
    {
        constexpr int chunk = LINES::CHUNK;
        return LINES::ALONG_K ? row * LINES::LINE_BYTES + at_k / chunk * MGPU_CHUNK_BYTES : LINES::further(row / chunk) + at_k * LINES::LINE_BYTES;
    }

    struct sources {
        uint32_t down, across; /* in 16 bytes */
        MGPU_FUNCTION sources of(const char *down, const char *across)
        {
            uint32_t own_rows = byte_of<ROWS>(first_row(), 0), own_columns = byte_of<COLUMNS>(first_column(), 0);
            return {(mgpu_shared_address(down) + own_rows) / 16, (mgpu_shared_address(across) + own_columns) / 16};
        }
        MGPU_FUNCTION sources kept(const sources &s) { return s; }
    };

    /* a stage's products begin; they are there after `multiply` */
    __device__ __forceinline__ void start(const sources &from, uint32_t bytes)
    {
        asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
        for (int at_k = 0; at_k < COLUMNS::DEPTH; at_k += DEPTH)
#pragma unroll
            for (int i = 0; i < OWN_ROWS / 64; i++)
                mgpu_multiply_warpgroup<TYPE, OWN_COLUMNS, !ROWS::ALONG_K, !COLUMNS::ALONG_K>(
                    value[2 * i], value[2 * i + 1], descriptor<ROWS>() + (from.down + bytes / 16 + byte_of<ROWS>(64 * i, at_k) / 16),
                    descriptor<COLUMNS>() + (from.across + bytes / 16 + byte_of<COLUMNS>(0, at_k) / 16));
        asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    }
    __device__ __forceinline__ void multiply(const sources &, uint32_t)
    {
        asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
#pragma unroll
        for (int i = 0; i < DOWN; i++)
#pragma unroll
            for (int j = 0; j < ACROSS; j++)
                asm volatile("" : "+f"(value[i][j])); /* nobody reads it sooner */
    }
};
#undef MGPU_D8
#undef MGPU_D16
#undef MGPU_D32
#undef MGPU_D64
#undef MGPU_D128
#undef MGPU_D256
#undef MGPU_R16
#undef MGPU_R32
#undef MGPU_R64
#undef MGPU_R128
#undef MGPU_R256
enum { MGPU_HAS_WARPGROUPS = 1 };
#else
MGPU_FUNCTION void mgpu_show_warpgroups(void) {}
template <int TYPE, typename ROWS, typename COLUMNS, int THREADS> struct mgpu_warpgroup_tile;
enum { MGPU_HAS_WARPGROUPS = 0 };
#endif
#endif
