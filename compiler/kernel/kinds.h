/* kinds.h: what all targets need to know of each kind of kernel. How a target prints a kind is in the target's own table. */
#ifndef MGPU_KERNEL_KINDS_H
#define MGPU_KERNEL_KINDS_H

#include "compiler/kernel/kernel.h"
#include "runtime/base/sha256.h"

typedef struct KernelKindInfo {
    void (*identify)(Sha256 *, const Kernel *); /* adds the kernel except its arguments to an identity (kernel/identity.h) */
    void (*cost)(Task *, Kernel *);             /* sets the task's cost, and the kernel's `split` where it is still unknown */
} KernelKindInfo;
extern const KernelKindInfo KERNEL_KIND[KERNEL_KINDS];
#endif
