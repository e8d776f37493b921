/* target.h: kernels as text. */
#ifndef MGPU_TARGET_TARGET_H
#define MGPU_TARGET_TARGET_H

#include "compiler/base/base.h"

typedef struct Program Program;

/* host/kernels.c   host C of all kernels; cuda/kernels.c: CUDA C; link/program.c: tables */
void emit_kernels(const Program *, Text *);
void emit_cuda(const Program *, Text *);
void emit_program(const Program *, Text *);
/* link.c           pieces.h, command.h: runs the C compiler; exit 3 if it is missing or fails */
#endif
