/* mgpu_device_warpgroup.h: sums of a tile by matrix instructions of a warpgroup (4 warps), which read their operands from shared
 * memory, the first one also from registers, while the warps go on. PTX ISA 9.0, section 9.7.15 (wgmma). Of compute capability
 * 9.0 alone: images for sm_90a. */
#ifndef MGPU_DEVICE_WARPGROUP_H
#define MGPU_DEVICE_WARPGROUP_H

#include "mgpu_device_tile.h"

constexpr bool MGPU_BY_WARPGROUPS = true; /* of mgpu_tiles */

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

/* what this thread has put into shared memory is there for those instructions, after the next barrier */
MGPU_FUNCTION void mgpu_show_warpgroups(void) { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

/* c [64, COLUMNS] = or += a [64, 16] b [16, COLUMNS] by a warpgroup; a, b: descriptors, whose matrices have elements of K side by
 * side or (ROWS_A, ROWS_B) rows and columns. Or a is in registers, as mgpu_multiply_matrices has it. Thread 32 w + 4 g + t: p:
 * row 16 w + g, q: 8 more; of each 8 columns two from 2 t on. Not there before mgpu_warpgroup_tile::wait */
#define MGPU_D8(how, i) how(p[i]), how(p[(i) + 1]), how(q[i]), how(q[(i) + 1]) /* of 8 columns */
#define MGPU_D16(how, i) MGPU_D8(how, i), MGPU_D8(how, (i) + 2)
#define MGPU_D32(how, i) MGPU_D16(how, i), MGPU_D16(how, (i) + 4)
#define MGPU_D64(how, i) MGPU_D32(how, i), MGPU_D32(how, (i) + 8)
#define MGPU_D128(how, i) MGPU_D64(how, i), MGPU_D64(how, (i) + 16)
#define MGPU_D256(how, i) MGPU_D128(how, i), MGPU_D128(how, (i) + 32)
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

#define MGPU_SUM(v) "+f"(v)
#define MGPU_NEW(v) "=f"(v)
#define MGPU_WGMMA(type, columns, how, a, adds, layouts, ...)                                                                \
    asm volatile("wgmma.mma_async.sync.aligned.m64n" #columns "k16.f32." type "." type " {" MGPU_R##columns "}, " a ", " adds ", 1, 1, " layouts ";" \
                 : MGPU_D##columns(how, 0) : __VA_ARGS__)
#define MGPU_BOTH_TYPES(columns, how, ...)                                                                                \
    if constexpr (COLUMNS == columns && TYPE == MGPU_BF16)                                                                  \
        MGPU_WGMMA("bf16", columns, how, __VA_ARGS__);                                                                       \
    else if constexpr (COLUMNS == columns)                                                                                 \
        MGPU_WGMMA("f16", columns, how, __VA_ARGS__);
#define MGPU_BOTH_SUMS(columns, a, layouts, ...)                                                                         \
    if constexpr (ADDS) {                                                                                                 \
        MGPU_BOTH_TYPES(columns, MGPU_SUM, a, "1", layouts, __VA_ARGS__)                                                     \
    } else {                                                                                                             \
        MGPU_BOTH_TYPES(columns, MGPU_NEW, a, "0", layouts, __VA_ARGS__)                                                     \
    }
#define MGPU_OF_MEMORY(columns, n0, n1, n2, n3)                                                                             \
    MGPU_BOTH_SUMS(columns, "%" #n0 ", %" #n1, "%" #n2 ", %" #n3, "l"(a), "l"(b), "n"((int)ROWS_A), "n"((int)ROWS_B))
template <int TYPE, int COLUMNS, bool ROWS_A, bool ROWS_B, bool ADDS> MGPU_FUNCTION void mgpu_multiply_warpgroup(float *p, float *q, uint64_t a, uint64_t b)
{
    static_assert(COLUMNS == 16 || COLUMNS == 32 || COLUMNS == 64 || COLUMNS == 128 || COLUMNS == 256, "one of these forms");
    MGPU_OF_MEMORY(16, 8, 9, 10, 11)
    MGPU_OF_MEMORY(32, 16, 17, 18, 19)
    MGPU_OF_MEMORY(64, 32, 33, 34, 35)
    MGPU_OF_MEMORY(128, 64, 65, 66, 67)
    MGPU_OF_MEMORY(256, 128, 129, 130, 131)
}
#define MGPU_OF_REGISTERS(columns, n0, n1, n2, n3, n4, n5)                                                                  \
    MGPU_BOTH_SUMS(columns, "{%" #n0 ", %" #n1 ", %" #n2 ", %" #n3 "}, %" #n4, "%" #n5, "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "n"((int)ROWS_B))
template <int TYPE, int COLUMNS, bool ROWS_B, bool ADDS> MGPU_FUNCTION void mgpu_multiply_warpgroup(float *p, float *q, const uint32_t a[4], uint64_t b)
{
    static_assert(COLUMNS == 16 || COLUMNS == 32 || COLUMNS == 64, "one of these forms");
    MGPU_OF_REGISTERS(16, 8, 9, 10, 11, 12, 13)
    MGPU_OF_REGISTERS(32, 16, 17, 18, 19, 20, 21)
    MGPU_OF_REGISTERS(64, 32, 33, 34, 35, 36, 37)
}
#undef MGPU_OF_REGISTERS
#undef MGPU_OF_MEMORY
#undef MGPU_BOTH_SUMS
#undef MGPU_BOTH_TYPES
#undef MGPU_WGMMA
#undef MGPU_NEW
#undef MGPU_SUM

/* a warpgroup has OWN_ROWS x OWN_COLUMNS, in matrices of 64 x OWN_COLUMNS */
template <int TYPE, typename ROWS, typename COLUMNS, int THREADS> struct mgpu_warpgroup_tile {
    typedef float sum;
    static constexpr bool ASYNC = true;
    static constexpr int GROUPS = THREADS / 128, GROUPS_DOWN = GROUPS < ROWS::ROWS / 64 ? GROUPS : ROWS::ROWS / 64;
    static constexpr int OWN_ROWS = ROWS::ROWS / GROUPS_DOWN, OWN_COLUMNS = COLUMNS::ROWS / (GROUPS / GROUPS_DOWN);
    static constexpr int DOWN = OWN_ROWS / 32, ACROSS = OWN_COLUMNS / 4, RUN = 2, LANES = 4, DEPTH = 16;
    static_assert(OWN_ROWS % 64 == 0 && COLUMNS::DEPTH % DEPTH == 0, "whole matrices");
    sum value[DOWN][ACROSS];

    MGPU_FUNCTION uint32_t first_row() { return GROUPS == 1 ? 0 : threadIdx.x / 128 % GROUPS_DOWN * OWN_ROWS; }
    MGPU_FUNCTION uint32_t first_column() { return GROUPS == 1 ? 0 : threadIdx.x / 128 / GROUPS_DOWN * OWN_COLUMNS; }
    MGPU_FUNCTION int row(int i) { return (int)(first_row() + threadIdx.x % 128 / 32 * 16 + threadIdx.x % 32 / 4) + i / 2 * 64 + i % 2 * 8; }
    MGPU_FUNCTION int column(int j) { return (int)(first_column() + 2 * (threadIdx.x % 4)) + j / 2 * 8 + j % 2; }

    /* The descriptor of LINES from a row on (a multiple of 8, or a line along rows), at an address in 16 bytes: bytes that chunks
     * are permuted in, 8 lines further, and LINES along rows that are longer than 8 chunks: from a part to the next. All in 16
     * bytes */
    template <typename LINES> MGPU_FUNCTION uint64_t descriptor(uint32_t at)
    {
        constexpr uint32_t mode = LINES::LINE_BYTES == 128 ? 1 : LINES::LINE_BYTES == 64 ? 2 : 3;
        static_assert(LINES::LINE_BYTES == 128 || LINES::LINE_BYTES == 64 || LINES::LINE_BYTES == 32, "widths that chunks are permuted in");
        constexpr uint32_t high = mode << 30 | 8 * LINES::LINE_BYTES / 16, low = (uint32_t)(LINES::PART_BYTES / 16) << 16;
        return (uint64_t)high << 32 | (low + at); /* a half never carries into the other */
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

    /* ---- sums begin between `ready` and `go`, and are there after `wait`: those of all but the last LEFT times */

    MGPU_FUNCTION void ready(void) { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
    MGPU_FUNCTION void go(void) { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
    template <int LEFT> __device__ __forceinline__ void wait(void)
    {
        asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(LEFT) : "memory");
        hold();
    }
    /* Each sum (each pair of an operand) is in a register of its own, which nobody has read sooner. Before `ready` of what is
     * added to, or read: compilers have equal ones in one register, and would give each its own only after it */
    __device__ __forceinline__ void hold(void)
    {
#pragma unroll
        for (int i = 0; i < DOWN; i++)
#pragma unroll
            for (int j = 0; j < ACROSS; j++)
                asm volatile("" : "+f"(value[i][j]));
    }
    MGPU_FUNCTION void hold(uint32_t x[COLUMNS::DEPTH / DEPTH][OWN_ROWS / 64][4])
    {
#pragma unroll
        for (int i = 0; i < COLUMNS::DEPTH / DEPTH * (OWN_ROWS / 64) * 4; i++)
            asm volatile("" : "+r"((&x[0][0][0])[i]));
    }

    /* sums over a stage's part of K; ADDS: to what there is */
    template <bool ADDS> __device__ __forceinline__ void sum_up(const sources &from)
    {
        constexpr bool rows_a = !ROWS::ALONG_K, rows_b = !COLUMNS::ALONG_K;
#pragma unroll
        for (int at_k = 0; at_k < COLUMNS::DEPTH; at_k += DEPTH)
#pragma unroll
            for (int i = 0; i < OWN_ROWS / 64; i++) {
                const uint64_t a = descriptor<ROWS>(from.down + byte_of<ROWS>(64 * i, at_k) / 16);
                const uint64_t b = descriptor<COLUMNS>(from.across + byte_of<COLUMNS>(0, at_k) / 16);
                if (ADDS || at_k > 0)
                    mgpu_multiply_warpgroup<TYPE, OWN_COLUMNS, rows_a, rows_b, true>(value[2 * i], value[2 * i + 1], a, b);
                else
                    mgpu_multiply_warpgroup<TYPE, OWN_COLUMNS, rows_a, rows_b, false>(value[2 * i], value[2 * i + 1], a, b);
            }
    }
    /* x: the rows' matrices; across: COLUMNS in shared memory, in 16 bytes */
    template <bool ADDS> __device__ __forceinline__ void sum_up(const uint32_t x[COLUMNS::DEPTH / DEPTH][OWN_ROWS / 64][4], uint32_t across)
    {
        constexpr bool rows_b = !COLUMNS::ALONG_K;
#pragma unroll
        for (int at_k = 0; at_k < COLUMNS::DEPTH; at_k += DEPTH)
#pragma unroll
            for (int i = 0; i < OWN_ROWS / 64; i++) {
                const uint32_t *const a = x[at_k / DEPTH][i];
                const uint64_t b = descriptor<COLUMNS>(across + byte_of<COLUMNS>(0, at_k) / 16);
                if (ADDS || at_k > 0)
                    mgpu_multiply_warpgroup<TYPE, OWN_COLUMNS, rows_b, true>(value[2 * i], value[2 * i + 1], a, b);
                else
                    mgpu_multiply_warpgroup<TYPE, OWN_COLUMNS, rows_b, false>(value[2 * i], value[2 * i + 1], a, b);
            }
    }

    __device__ __forceinline__ void start(const sources &from, uint32_t bytes)
    {
        hold();
        ready();
        sum_up<true>({from.down + bytes / 16, from.across + bytes / 16});
        go();
    }
    __device__ __forceinline__ void multiply(const sources &, uint32_t) { wait<0>(); }
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
