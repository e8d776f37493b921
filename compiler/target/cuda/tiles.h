/* tiles.h: matmuls of runtime/abi/mgpu_gemm.h as CUDA C.
 *
 *   plan       a table -> CudaMatmul: the table as the device header likes it, and how it is cut into tiles
 *   print      CudaMatmul -> constant tables, and the functions NAME and NAME_finish (or one for a block of threads)
 *   launches   how they are launched; the workspace that they need */
#ifndef MGPU_CUDA_TILES_H
#define MGPU_CUDA_TILES_H

#include "compiler/kernel/attention.h"
#include "compiler/kernel/contraction.h"
#include "compiler/kernel/epilogue.h"
#include "compiler/kernel/identity.h"
#include "compiler/kernel/rows.h"
#include "compiler/kernel/target.h"
#include "compiler/machine/machine.h"
#include "runtime/abi/mgpu.h"
#include "runtime/abi/mgpu_tiles.h"

#define CUDA_FIRST_CALL "mgpu_wait_for_grids()"
#define CUDA_FIRST CUDA_FIRST_CALL ";" /* what each thread of a kernel that waits does first (mgpu_device.h) */

typedef struct CudaMatmul CudaMatmul;
struct CudaMatmul {
    mgpu_contraction table;     /* its axis and window iteration to those below */
    mgpu_axis axis[4 * MGPU_AXES];
    mgpu_window window[MGPU_WINDOWS];
    mgpu_tiles tiles;
    CudaMatmul *next;          /* another part of the same result, in tiles of the same shape; NULL: none */
};

/* types: as they are stored, MGPU_F32 ...; aligned: they begin at multiples of 16 bytes; A, B, C of the table. samples: a
 * likely number. block: one block of threads computes it (mgpu_contract_block). tf32: f32 operands may be rounded to it. whole: K is not split. place: 0: in the
 * tiles that the estimate prefers; 1: in the next ones, ... */
typedef struct CudaOptions { uint8_t type[3]; bool aligned[3]; int64_t samples; bool block, tf32, whole; int place; } CudaOptions;
CudaMatmul *cuda_matmul(const mgpu_contraction *, const CudaOptions *);
/* false: it cannot be, or would change; true: its code from now on is that of a matmul with split-K. Of so small a depth
 * it makes one part, so it needs no workspace and no end */
bool cuda_put_in_parts(CudaMatmul *, int64_t samples);

/* tables NAME_axis, NAME_window, NAME_matmul, NAME_tiles; of several matmuls NAME_0_axis ... by_parameter: numbers come with the
 * launch */
void cuda_print_matmul(const CudaMatmul *, bool by_parameter, const char *name, Text *);
/* statements of a kernel (or of its end): A, B, C and the workspace are called a, b, c and work, what is by_parameter `numbers`
 */
void cuda_print_calls(const CudaMatmul *, bool by_parameter, const char *name, const char *a, const char *b, Text *);
void cuda_print_block_calls(const CudaMatmul *, const char *name, const char *a, const char *b,
                            Text *);              /* of a block, from sample begin to end */
int cuda_matmul_shared_bytes(const CudaMatmul *); /* dynamic */
int cuda_matmul_blocks(const CudaMatmul *); /* that a processor should have room for: __launch_bounds__ */
void cuda_matmul_launches(const CudaMatmul *, const char *name, mgpu_launch launch[2]);
int64_t cuda_matmul_workspace(const CudaMatmul *); /* bytes; 0: none */
int cuda_matmul_column_list(const CudaMatmul *); /* MGPU_LIST_M or MGPU_LIST_N: the columns of its tiles */
int cuda_matmul_shapes(const CudaMatmul *); /* of tiles, among which one was chosen */

/* ---- numbers that launches hand over: cuda/numbers.c */
enum { CUDA_NUMBERS = 4 /* at most: parameters of a kernel are 4 KiB */ };
int cuda_number_count(const CudaMatmul *);            /* its parts; 0: their numbers are constants of the code */
int cuda_number_list(const CudaMatmul *, mgpu_numbers to[CUDA_NUMBERS]); /* likewise, and their numbers */
mgpu_tiles cuda_moved_tiles(const CudaMatmul *);      /* of one part, with how its elements are moved */
/* its form: what its code depends on when launches hand over the numbers; and do two parts, each without the next, have the same? */
void cuda_matmul_form(Sha256 *, const CudaMatmul *);
bool cuda_same_form(const CudaMatmul *, const CudaMatmul *);
void cuda_print_numbers(const CudaMatmul *, Text *);  /* an initializer: the end of a row of mgpu_gpu_kernel */
void cuda_comment_numbers(const CudaMatmul *, Text *);

/* ---- the kernel of a contraction: cuda/contract.c */
/* a comment, tables, functions: parameters a, b, c, (work,) step, n (, numbers); in order of the arguments. known: the functions
 * are there already, under this name; else NULL */
void cuda_print_contraction(const Contraction *, const char *kernel_name, const char *known, Text *);
void cuda_launches_contraction(const Contraction *, const char *kernel_name, mgpu_launch launch[2]);
/* the identity of its functions, if launches hand over the numbers: kernels with equal forms are one; else NULL */
const char *cuda_contraction_form(const Contraction *);
/* likewise, of functions that do this matmul as one part of many that it does not have; NULL: there are none */
const char *cuda_contraction_form_in_parts(const Contraction *);
bool cuda_contraction_in_parts(const Contraction *); /* its functions have a workspace */
const char *cuda_contraction_words(const Contraction *); /* "matmul_128x64_": a part of the functions' names */
void cuda_contraction_numbers(const Contraction *, Text *);
int cuda_contraction_parameters(const Contraction *, mgpu_numbers to[CUDA_NUMBERS]);
/* bytes, if the model has so many samples in a micro-batch; the library may do it, too */
int64_t cuda_contraction_workspace(const Contraction *, int64_t samples);
/* the same in other tiles, of which it has `place` better ones, with the same arguments; NULL: there are none, or nobody times them */
Contraction *cuda_contraction_in_tiles(const Contraction *, int place, const char *archs);
int64_t cuda_contraction_or_library_workspace(const Contraction *, int64_t samples, const char *archs);
/* The same with statistics of the result, whose kernel is k: moments of its columns, which k has a call for (EPILOGUE_STATISTICS). Parameters: what k reads; a, b;
 * what k writes; c; work, step, n, numbers. Never with split-K */
bool cuda_contraction_may_have_statistics(const Contraction *, const Kernel *k);
Contraction *cuda_contraction_with_statistics(const Contraction *, const Kernel *k);
bool cuda_statistics_are_faster(const Contraction *, const Machine *); /* than a library's matmul, and then the sums, by the cost model */
int64_t cuda_statistics_workspace(const Contraction *, const Kernel *k, int64_t *per_sample);

/* the same for a block of threads (scans): static __device__ void NAME(a, b, c, char *shared, int64_t begin, int64_t end); it
 * is called by all threads of a block, of CUDA_THREADS, for some samples */
void cuda_print_block_contraction(const Contraction *, const char *name, Text *);
int cuda_block_shared_bytes(const Contraction *);

/* ---- attention: cuda/attention.c. Parameters: operands, results, (work,) step, n */
void cuda_contraction_needs(const Contraction *, bool block, UnitNeeds *); /* what translation units need for it */
bool cuda_attention_by_warpgroups(const Attention *, bool block);
void cuda_print_attention(const Attention *, const char *kernel_name, Text *);
void cuda_launches_attention(const Attention *, const char *kernel_name, mgpu_launch launch[2]);
int64_t cuda_attention_workspace(const Attention *, int64_t *per_sample);
/* by the first threads of a block, which meets before and after: NAME(operands, results, (work,) begin, end) */
void cuda_print_block_attention(const Attention *, const char *name, Text *);
int cuda_block_attention_shared_bytes(const Attention *);

/* ---- running sums and the k largest: cuda/rows.c. Parameters: the operand, results, (work,) step, n */
void cuda_print_rows(const Rows *, const char *kernel_name, Text *);
void cuda_launches_rows(const Rows *, const char *kernel_name, mgpu_launch launch[2]);
int64_t cuda_rows_workspace(const Rows *);
void cuda_print_block_rows(const Rows *, const char *name, Text *); /* likewise: NAME(operand, results, (work,) begin, end) */
int cuda_block_rows_shared_bytes(const Rows *);
int64_t cuda_block_rows_workspace(const Rows *);
#endif
