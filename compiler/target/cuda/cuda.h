/* cuda.h: kernels as CUDA C; docs/cuda.md says what it looks like.
 *
 *   cuda/share.c    how threads share a nest; launches
 *   cuda/nest.c     a nest: which thread takes which iterations
 *   cuda/iterations.c   what it does at them (cuda/iterations.h)
 *   cuda/scan.c     a scan
 *   cuda/parameters.c    kernels that differ in numbers
 *   cuda/together.c      launches that do several calls
 *   cuda/kinds.c    kinds of kernels
 *   cuda/kernels.c  functions, and the file of all kernels
 */
#ifndef MGPU_CUDA_H
#define MGPU_CUDA_H

#include "compiler/kernel/target.h"
#include "compiler/loops/lower.h"
#include "runtime/abi/mgpu.h"

enum { CUDA_THREADS = 256 /* of a block of all kernels that are made of nests: MGPU_THREADS */ };

extern const Target cuda_target; /* cuda/target.c */

/* ---- cuda/share.c */
bool cuda_index_is_64_bit(const Nest *, const Expr *);  /* the index does not fit into an int */
/* where the vector begins that the load, or the random number, is a lane of, or that is stored; NULL: it is none */
const Expr *cuda_vector(const Nest *, const Expr *);
const Expr *cuda_stored_vector(const Nest *, const Store *);
/* kernel/target.h: map_threads; alone: one block calls it */
void cuda_share(Kernel *, const Model *, bool alone);
bool cuda_finishes(const Kernel *);                   /* it has a second function */
bool cuda_waits(const Kernel *);                      /* its threads wait for the kernel before it, so it may begin early */
bool cuda_is_little(const Kernel *);                  /* few blocks, whatever the samples */
void cuda_share_blocks(Kernel *);                     /* each nest begins with other blocks; once all are there */
/* element by element, without samples, and not so little that it is rather a nest among others: a launch may do several such calls */
bool cuda_may_join(const Kernel *);
enum { CUDA_FINISHED = 8 }; /* results side by side that a block adds up of partial ones */
/* how the functions are launched: one or two */
void cuda_launches(const Kernel *, mgpu_launch launch[2]);
void cuda_launches_nests(const Kernel *, mgpu_launch launch[2]);

/* ---- cuda/together.c: one launch for several calls */
void cuda_count_together(Program *);                  /* sets kernel->together */
int cuda_together(const Kernel *);
void cuda_print_together(const Kernel *, Text *);     /* the function of such a kernel */

/* ---- cuda/nest.c */
void cuda_nest(Lowering *, const Nest *);

/* ---- cuda/scan.c */
void cuda_lower_scan(Kernel *);                       /* gives it and its kernels their code */
void cuda_scan_print(const Kernel *, Text *);
mgpu_launch cuda_scan_launch(const Kernel *);
void cuda_print_block_scan(const Kernel *, Text *);
int cuda_scan_shared_bytes(const Kernel *);

/* ---- cuda/kinds.c */
enum { HEADER_CONTRACT = 1, HEADER_ATTENTION = 2, HEADER_ROWS = 4 }; /* of UnitNeeds */
void cuda_needs(const Kernel *, UnitNeeds *);
typedef struct CudaKind {
    void (*print)(const Kernel *, Text *);
    void (*launches)(const Kernel *, mgpu_launch launch[2]);
    int64_t (*workspace)(const Kernel *, const char *archs, bool alone, int64_t *per_sample); /* kernel/target.h */
    /* as a part of a scan: a function of a block, its dynamic shared memory; the end of its name, what it is given after its
     * arguments; the threads must meet after it */
    void (*print_block)(const Kernel *, Text *);
    int (*shared_bytes)(const Kernel *);
    const char *end, *given;
    bool meets;
    unsigned header;        /* HEADER_...; 0: none of its own */
} CudaKind;
extern const CudaKind CUDA_KIND[KERNEL_KINDS];

/* ---- cuda/parameters.c: kernels that differ in numbers alone become one */
void cuda_give_numbers(Program *);
void cuda_print_with_parameters(const Kernel *, bool finish, Text *); /* kernel->code, or finish_code */
void cuda_divisor(uint32_t by, uint32_t words[3]);

/* ---- cuda/kernels.c */
void emit_cuda_includes(const UnitNeeds *, Text *);   /* device headers */
/* functions of nests */
const Code *cuda_lower(const Kernel *, bool finish);
const Code *cuda_lower_block(const Kernel *);         /* a function of a block, with begin and end in place of n */
/* the kernel's functions, whose names begin with its own, as they are in the file of all kernels */
void cuda_print(const Kernel *, Text *);
void cuda_print_nests(const Kernel *, Text *);
void emit_cuda(const Program *, Text *);
void cuda_print_parameters(const Kernel *, Text *);        /* what its launches hand over: an initializer */

/* ---- cuda/channels.c */
double cuda_convolution_cost(const ConvolutionSizes *);
#endif
