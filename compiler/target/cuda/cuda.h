/* cuda.h: kernels as CUDA C; docs/cuda.md describes the result.
 *
 *   cuda/map_threads.c       how threads share a nest; launches
 *   cuda/nest.c        a nest: which thread takes which iterations
 *   cuda/iterations.c  what a thread does at its iterations (cuda/iterations.h)
 *   cuda/scan.c        a scan
 *   cuda/parameters.c  kernels that differ only in numbers
 *   cuda/call_tables.c    launches of several calls
 *   cuda/kinds.c       kinds of kernels
 *   cuda/kernels.c     functions, and the file of all kernels */
#ifndef MGPU_CUDA_H
#define MGPU_CUDA_H

#include "compiler/kernel/target.h"
#include "compiler/loops/lower.h"
#include "runtime/abi/mgpu.h"

enum { CUDA_THREADS = 256 /* threads of a block, for all kernels that are made of nests: MGPU_THREADS */ };

extern const Target cuda_target; /* cuda/target.c */

/* ---- cuda/map_threads.c */
bool cuda_index_is_64_bit(const Nest *, const Expr *); /* true if the index does not fit into an int */
/* Return the index at which the vector begins that a load or random number is a lane of, or that is stored; NULL: none. */
const Expr *cuda_vector(const Nest *, const Expr *);
const Expr *cuda_stored_vector(const Nest *, const Store *);
/* Implements map_threads of kernel/target.h. in_scan: a scan calls the kernel, in one block. */
void cuda_map_threads(Kernel *, const Model *, bool in_scan);
bool cuda_finishes(const Kernel *); /* true if it has a finishing function */
bool cuda_waits(const Kernel *);    /* true if its threads wait for the previous kernel, so that it may begin early */
bool cuda_is_small(const Kernel *); /* true if it has few blocks, whatever the samples */
void cuda_map_blocks(Kernel *);     /* gives each nest its own blocks, when all nests are there */
/* True if a launch may contain several such calls: by element, without samples, too large to be packed as a nest. */
bool cuda_may_join(const Kernel *);
enum { CUDA_FINISHED = 8 }; /* neighbouring results whose partial results a block adds up */
/* Set the launches of the one or two functions. */
void cuda_launches(const Kernel *, mgpu_launch launch[2]);
void cuda_launches_nests(const Kernel *, mgpu_launch launch[2]);

/* ---- cuda/call_tables.c: one launch of several calls */
void cuda_count_calls_per_launch(Program *); /* sets kernel->together */
int cuda_calls_per_launch(const Kernel *);
void cuda_print_call_table(const Kernel *, Text *); /* prints the function of such a kernel */

/* ---- cuda/nest.c */
void cuda_nest(Lowering *, const Nest *);

/* ---- cuda/scan.c */
void cuda_lower_scan(Kernel *); /* lowers the scan and the kernels that it calls */
void cuda_scan_print(const Kernel *, Text *);
mgpu_launch cuda_scan_launch(const Kernel *);
void cuda_print_block_scan(const Kernel *, Text *);
int cuda_scan_shared_bytes(const Kernel *);

/* ---- cuda/kinds.c */
enum { HEADER_CONTRACT = 1, HEADER_ATTENTION = 2, HEADER_ROWS = 4 }; /* bits of UnitNeeds.headers */
void cuda_needs(const Kernel *, UnitNeeds *);
typedef struct CudaKind {
    void (*print)(const Kernel *, Text *);
    void (*launches)(const Kernel *, mgpu_launch launch[2]);
    int64_t (*workspace)(const Kernel *, const char *archs, bool in_scan, int64_t *per_sample); /* kernel/target.h */
    /* As part of a scan: print_block prints a function of a block, whose name ends in `end` and which takes `given` after its
     * arguments; shared_bytes returns its dynamic shared memory; needs_barrier: a barrier must follow it. */
    void (*print_block)(const Kernel *, Text *);
    int (*shared_bytes)(const Kernel *);
    const char *end, *given;
    bool needs_barrier;
    unsigned header; /* HEADER_...; 0: none of its own */
} CudaKind;
extern const CudaKind CUDA_KIND[KERNEL_KINDS];

/* ---- cuda/parameters.c: kernels that differ only in numbers share functions */
void cuda_give_numbers(Program *);
void cuda_print_with_parameters(const Kernel *, bool finish, Text *); /* prints kernel->code, or finish_code */
void cuda_divisor(uint32_t by, uint32_t words[3]);

/* ---- cuda/kernels.c */
void emit_cuda_includes(const UnitNeeds *, Text *); /* prints the device headers */
const Code *cuda_lower(const Kernel *, bool finish);
const Code *cuda_lower_block(const Kernel *); /* a function of a block, with `begin` and `end` in place of n */
/* Prints the kernel's functions, whose names begin with its own, as in the file of all kernels. */
void cuda_print(const Kernel *, Text *);
void cuda_print_nests(const Kernel *, Text *);
void emit_cuda(const Program *, Text *);
void cuda_print_parameters(const Kernel *, Text *); /* prints the member of what its launches pass; nothing: they pass none */

/* ---- cuda/channels.c */
double cuda_convolution_cost(const ConvolutionSizes *);
#endif
