/* kinds.h: kinds of kernels: what all targets ask of them. How a target prints them is said in its own table. */
#ifndef MGPU_KERNEL_KINDS_H
#define MGPU_KERNEL_KINDS_H

#include "compiler/kernel/kernel.h"
#include "runtime/base/sha256.h"

typedef struct KernelKindInfo {
    void (*identify)(Sha256 *, const Kernel *); /* what it is, besides its arguments: kernel/identity.h */
    void (*cost)(Task *, Kernel *);             /* and how the workers of a thread pool share it, if that is not known */
} KernelKindInfo;
extern const KernelKindInfo KERNEL_KIND[KERNEL_KINDS];
#endif
