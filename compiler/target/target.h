/* target.h: the instances of kernel/target.h. */
#ifndef MGPU_TARGET_TARGET_H
#define MGPU_TARGET_TARGET_H

#include "compiler/kernel/target.h"

extern const Target host_target, cuda_target; /* host/target.c, cuda/target.c */
extern const Target *const TARGETS[];         /* targets.c: those of --devices; the last is NULL */
#endif
