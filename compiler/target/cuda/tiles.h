/* tiles.h: matmuls of runtime/abi/mgpu_gemm.h as CUDA C.
 *
 *   plan       a table -> CudaMatmul: the table in the form of the device header, and its tiles
 *   print      CudaMatmul -> constant tables, and the functions NAME and NAME_finish (or one for a block of threads)
 *   launches   launches and workspace */
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
    mgpu_contraction table; /* its `axis` and `window` point to those below */
    mgpu_axis axis[4 * MGPU_AXES];
    mgpu_window window[MGPU_WINDOWS];
    mgpu_tiles tiles;
    CudaMatmul *next; /* another part of the same result, in tiles of the same shape; NULL: none */
};

/* type: stored types, MGPU_F32 ..., of A, B, C of the table; aligned: they begin at multiples of 16 bytes. samples: a likely
 * number. exact: results may not depend on their number. block: one block of threads computes it (mgpu_contract_block).
 * tf32: f32 operands may be rounded. place: 0: the tiles with the best estimate, 1: the next ones, ... */
typedef struct CudaOptions {
    uint8_t type[3];
    bool aligned[3];
    int64_t samples;
    bool block, tf32, exact;
    int place;
} CudaOptions;
CudaMatmul *cuda_matmul(const mgpu_contraction *, const CudaOptions *);
/* Gives the matmul the code of split-K. For its small depth that uses one part, so it needs no workspace and no finishing
 * function. false: impossible, or its result would change. */
bool cuda_split_depth(CudaMatmul *, int64_t samples);

/* Prints the tables NAME_axis, NAME_window, NAME_matmul, NAME_tiles; of several matmuls NAME_0_axis ... by_parameter: launches
 * pass the numbers. */
void cuda_print_matmul(const CudaMatmul *, bool by_parameter, const char *name, Text *);
/* Prints the statements of a kernel and of its finishing function. A, B, C and the workspace are called a, b, c and work; with
 * by_parameter the numbers are `numbers`. */
void cuda_print_calls(const CudaMatmul *, bool by_parameter, const char *name, const char *a, const char *b, Text *);
void cuda_print_block_calls(const CudaMatmul *, const char *name, const char *a, const char *b,
                            Text *);              /* for a block, from sample begin to end */
int cuda_matmul_shared_bytes(const CudaMatmul *); /* dynamic shared memory */
int cuda_matmul_blocks(const CudaMatmul *);       /* blocks that a multiprocessor should have room for: __launch_bounds__ */
void cuda_matmul_launches(const CudaMatmul *, const char *name, mgpu_launch launch[2]);
int64_t cuda_matmul_workspace(const CudaMatmul *); /* bytes; 0: none */
int cuda_matmul_shapes(const CudaMatmul *);        /* number of tile shapes to choose from */

/* ---- numbers that launches pass: cuda/numbers.c */
enum { CUDA_NUMBERS = 4 /* the most parts: the parameters of a kernel have at most 4 KiB */ };
int cuda_number_count(const CudaMatmul *); /* number of parts; 0: the numbers are constants of the code */
int cuda_number_list(const CudaMatmul *, mgpu_numbers to[CUDA_NUMBERS]); /* the same, and the numbers of each part */
mgpu_tiles cuda_moved_tiles(const CudaMatmul *);                         /* tiles of one part, with how its elements are copied */
/* The form is what the code depends on if launches pass the numbers. cuda_same_function compares two parts without their next
 * ones. */
void cuda_matmul_identity(Sha256 *, const CudaMatmul *);
bool cuda_same_function(const CudaMatmul *, const CudaMatmul *);
void cuda_print_numbers(const CudaMatmul *, Text *); /* prints the member `parameters` of mgpu_gpu_kernel */
void cuda_comment_numbers(const CudaMatmul *, Text *);

/* ---- the kernel of a contraction: cuda/contract.c */
/* Prints a comment, tables and functions. Their parameters are a, b, c, (work,) step, n (, numbers), in the order of the
 * arguments. known: name of functions that already exist; NULL: there are none. */
void cuda_print_contraction(const Contraction *, const char *kernel_name, const char *known, Text *);
void cuda_launches_contraction(const Contraction *, const char *kernel_name, mgpu_launch launch[2]);
/* Returns the identity of its functions, if launches pass the numbers: kernels with equal forms share functions; else NULL. */
const char *cuda_contraction_shared_name(const Contraction *);
/* The same for functions with split-K that compute this matmul as a single part; NULL: there are none. */
const char *cuda_contraction_split_shared_name(const Contraction *);
bool cuda_contraction_is_split(const Contraction *);     /* true if its functions have a workspace */
const char *cuda_contraction_words(const Contraction *); /* "matmul_128x64_": part of the functions' names */
void cuda_contraction_numbers(const Contraction *, Text *);
int cuda_contraction_parameters(const Contraction *, mgpu_numbers to[CUDA_NUMBERS]);
/* Returns the bytes of workspace, if a micro-batch has so many samples; the second includes what a library may need. */
int64_t cuda_contraction_workspace(const Contraction *, int64_t samples);
/* Returns the contraction in other tiles (`place` tiles are better); NULL: there are none, or they would not be timed. */
Contraction *cuda_contraction_in_tiles(const Contraction *, int place, const char *archs);
int64_t cuda_contraction_or_library_workspace(const Contraction *, int64_t samples, const char *archs);

/* The same for a block of threads (scans): static __device__ void NAME(a, b, c, char *shared, int64_t begin, int64_t end). All
 * CUDA_THREADS threads of the block call it, for some samples. */
void cuda_print_block_contraction(const Contraction *, const char *name, Text *);
int cuda_block_shared_bytes(const Contraction *);

/* ---- attention: cuda/attention.c. Parameters: operands, results, (work,) step, n */
void cuda_contraction_needs(const Contraction *, bool block, UnitNeeds *); /* what translation units need for it */
bool cuda_attention_by_warpgroups(const Attention *, bool block);
void cuda_print_attention(const Attention *, const char *kernel_name, Text *);
void cuda_launches_attention(const Attention *, const char *kernel_name, mgpu_launch launch[2]);
int64_t cuda_attention_workspace(const Attention *, int64_t *per_sample);
/* Prints a function for the first threads of a block, with barriers before and after it: NAME(operands, results, (work,) begin,
 * end). */
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
