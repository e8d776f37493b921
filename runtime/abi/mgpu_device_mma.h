/* mgpu_device_mma.h: what tiles of contractions need of a GPU's own instructions: copies to shared memory that run ahead, 8 x 8
 * matrices from shared memory to the registers of a warp, contractions of small matrices by a warp, numbers of 16 bits. PTX ISA
 * 8.0, sections 9.7.8.25 (cp.async), 9.7.13.4 (mma, ldmatrix). Everything has a body for the virtual GPU. */
#ifndef MGPU_DEVICE_MMA_H
#define MGPU_DEVICE_MMA_H

#include "mgpu_device.h"
#include "mgpu_tiles.h"

/* ---- elements as they are stored, and what sums are made of */

template <int TYPE> struct mgpu_element;
#define MGPU_ELEMENT(TYPE, in_memory, of_sums, from, to)                                                                  \
    template <> struct mgpu_element<TYPE> {                                                                               \
        typedef in_memory stored;                                                                                         \
        typedef of_sums sum;                                                                                              \
        MGPU_FUNCTION sum widen(stored v) { return from(v); }                                                             \
        MGPU_FUNCTION stored narrow(sum v) { return to(v); }                                                              \
    };
MGPU_ELEMENT(MGPU_F64, double, double, , )
MGPU_ELEMENT(MGPU_F32, float, float, , )
MGPU_ELEMENT(MGPU_BF16, mgpu_bf16, float, mgpu_from_bf16, mgpu_to_bf16)
MGPU_ELEMENT(MGPU_F16, mgpu_f16, float, mgpu_from_f16, mgpu_to_f16)
#undef MGPU_ELEMENT

/* two of them in one register, the first in the low half */
template <int TYPE> MGPU_FUNCTION uint32_t mgpu_narrow_pair(float low, float high)
{
    return TYPE == MGPU_F16 ? mgpu_pair_f16(low, high) : mgpu_pair_bf16(low, high);
}

/* ---- addresses in shared memory */

#ifdef MGPU_VGPU
typedef uintptr_t mgpu_shared;
MGPU_FUNCTION mgpu_shared mgpu_shared_address(const void *p) { return (mgpu_shared)p; }
#else
typedef uint32_t mgpu_shared;
MGPU_FUNCTION mgpu_shared mgpu_shared_address(const void *p) { return (mgpu_shared)__cvta_generic_to_shared(p); }
#endif

/* The same number, which the compiler from now on has in a register: else it rather computes addresses anew in each iteration of
 * a loop than has a register less for it. What a lane gives itself nobody knows how to compute. All lanes of a warp come here. */
MGPU_FUNCTION uint32_t mgpu_kept(uint32_t number)
{
#ifndef MGPU_VGPU
    asm volatile("shfl.sync.idx.b32 %0, %0, %1, 0x1f, 0xffffffff;" : "+r"(number) : "r"(threadIdx.x % 32));
#endif
    return number;
}
MGPU_FUNCTION uint64_t mgpu_kept(uint64_t number)
{
#ifdef MGPU_VGPU
    return number;
#else
    return (uint64_t)mgpu_kept((uint32_t)(number >> 32)) << 32 | mgpu_kept((uint32_t)number);
#endif
}

/* ---- copies from global to shared memory that run ahead: mgpu_copy_ahead begins one of 4, 8 or 16 bytes, zeros if it is not
 * valid: then nothing is read, and `from` may be anywhere; mgpu_copies_end closes a group of them; mgpu_copies_wait waits for all
 * groups of this thread but the last LEFT. Others see what it copied after a barrier. */

template <int BYTES> MGPU_FUNCTION void mgpu_copy_ahead(mgpu_shared to, const void *from, bool valid)
{
#ifdef MGPU_VGPU
    mgpu_vgpu_copy_async((void *)to, from, BYTES, valid ? 0 : BYTES);
#else
    int bytes = valid ? BYTES : 0;
    if (BYTES == 16)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes) : "memory");
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(to), "l"(from), "n"(BYTES), "r"(bytes) : "memory");
#endif
}

MGPU_FUNCTION void mgpu_copies_end(void)
{
#ifdef MGPU_VGPU
    mgpu_vgpu_copy_commit();
#else
    asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

template <int LEFT> MGPU_FUNCTION void mgpu_copies_wait(void)
{
#ifdef MGPU_VGPU
    mgpu_vgpu_copy_wait(LEFT);
#else
    asm volatile("cp.async.wait_group %0;" ::"n"(LEFT) : "memory");
#endif
}

enum { MGPU_SHARED_ALIGNMENT = 256 };
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
enum { MGPU_DYNAMIC_ALIGNMENT = 1024 }; /* of matrices that warpgroups read, which are permuted by bits of their addresses */
#else
enum { MGPU_DYNAMIC_ALIGNMENT = MGPU_SHARED_ALIGNMENT };
#endif

/* the block's dynamic shared memory */
MGPU_FUNCTION char *mgpu_dynamic_shared(void)
{
#ifdef MGPU_VGPU
    return (char *)mgpu_vgpu_dynamic_shared();
#else
    extern __shared__ __align__(MGPU_DYNAMIC_ALIGNMENT) char mgpu_dynamic[];
    return mgpu_dynamic;
#endif
}

/* ---- four 8 x 8 matrices of 16 bits (or 8 x 4 of 32) from shared memory: lane i has the address of row i % 8 of matrix i / 8,
 * 16 bytes. Lane 4 g + t gets elements 2 t and 2 t + 1 of row g of each; transposed, of column g */

template <bool TURNED> MGPU_FUNCTION void mgpu_load_matrices(uint32_t matrix[4], mgpu_shared row)
{
#ifdef MGPU_VGPU
    const char *rows[32], *own = (const char *)row;
    mgpu_vgpu_gather(0xFFFFFFFFu, own, rows);
    int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
    for (int i = 0; i < 4; i++)
        if (TURNED)
            matrix[i] = *(const uint16_t *)(rows[8 * i + 2 * t] + 2 * g) |
                        (uint32_t)*(const uint16_t *)(rows[8 * i + 2 * t + 1] + 2 * g) << 16;
        else
            matrix[i] = *(const uint32_t *)(rows[8 * i + g] + 4 * t);
#else
    if (TURNED)
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(matrix[0]), "=r"(matrix[1]), "=r"(matrix[2]), "=r"(matrix[3]) : "r"(row) : "memory");
    else
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(matrix[0]), "=r"(matrix[1]), "=r"(matrix[2]), "=r"(matrix[3]) : "r"(row) : "memory");
#endif
}

/* 32 bits from shared memory */
MGPU_FUNCTION uint32_t mgpu_load_shared(mgpu_shared from)
{
#ifdef MGPU_VGPU
    return *(const uint32_t *)from;
#else
    uint32_t value;
    asm volatile("ld.shared.b32 %0, [%1];" : "=r"(value) : "r"(from) : "memory");
    return value;
#endif
}

/* f32 -> tf32, to the nearest, as matrix instructions take it */
MGPU_FUNCTION uint32_t mgpu_to_tf32(uint32_t f32)
{
#ifdef MGPU_VGPU
    return (f32 & 0x7F800000u) == 0x7F800000u ? f32 : (f32 + 0x1000u) & 0xFFFFE000u;
#else
    uint32_t rounded;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(rounded) : "f"(__uint_as_float(f32)));
    return rounded;
#endif
}

/* ---- c [16, 8] += a [16, K] b [K, 8] by a warp; K = 16 of BF16 and F16, two to a register, 8 of F32 (tf32). Lane 4 g + t:
 *     c: rows g, g, g + 8, g + 8; columns 2 t, 2 t + 1, 2 t, 2 t + 1
 *     a: rows g, g + 8, g, g + 8; k of 2 t and 2 t + 1, the last two 8 more; of F32 k of t, the last two 4 more
 *     b: column g; k as those of a */
template <int TYPE> MGPU_FUNCTION void mgpu_multiply_matrices(float c[4], const uint32_t a[4], const uint32_t b[2])
{
#ifdef MGPU_VGPU
    const struct fragments { uint32_t a[4], b[2]; } own = {{a[0], a[1], a[2], a[3]}, {b[0], b[1]}};
    struct fragments warp[32];
    mgpu_vgpu_gather(0xFFFFFFFFu, own, warp);
    int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
    for (int i = 0; i < 4; i++) {
        int column = 2 * t + i % 2;
        float sum = 0;
        for (int lane = 0; lane < 4; lane++)
            for (int half = 0; half < 2; half++) {
                uint32_t x = warp[4 * g + lane].a[i / 2 + 2 * half], y = warp[4 * column + lane].b[half];
                if (TYPE == MGPU_F32)
                    sum += __uint_as_float(x & 0xFFFFE000u) * __uint_as_float(y & 0xFFFFE000u);
                else
                    for (int k = 0; k < 32; k += 16)
                        sum += mgpu_element<TYPE == MGPU_F32 ? MGPU_BF16 : TYPE>::widen((uint16_t)(x >> k)) *
                               mgpu_element<TYPE == MGPU_F32 ? MGPU_BF16 : TYPE>::widen((uint16_t)(y >> k));
            }
        c[i] += sum;
    }
#else
    if (TYPE == MGPU_BF16)
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                     : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
    else if (TYPE == MGPU_F16)
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                     : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
    else
        asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                     : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#endif
}
#endif
