/* identity.h: which kernels are the same, whatever the target prints for them. */
#ifndef MGPU_KERNEL_IDENTITY_H
#define MGPU_KERNEL_IDENTITY_H

#include "compiler/kernel/phase.h"
#include "runtime/base/sha256.h"

#include <string.h>

/* The identity depends on all that a kernel's text is made of except names: structure, types, numbers. Paths of random numbers
 * are parameters: expressions refer to their places in kernel->paths. Kernels with equal identities are one function, which is
 * called with different paths. */
const char *kernel_shared_name(const Kernel *); /* Returns the identity as a key for maps. */
const char *identity_key(const Digest *);

void nests_identity(Sha256 *, const Kernel *);
void scan_identity(Sha256 *, const Kernel *);

/* ---- helpers for the files that identify one kind of kernel */
static inline void identity_numbers(Sha256 *sha, const int64_t *numbers, int count)
{
    mgpu_sha256_add(sha, numbers, sizeof *numbers * (size_t)count);
}
#define IDENTITY_ADD(sha, ...) identity_numbers((sha), (const int64_t[]){__VA_ARGS__}, COUNT(((const int64_t[]){__VA_ARGS__})))
static inline void identity_double(Sha256 *sha, double number)
{
    int64_t bits;
    memcpy(&bits, &number, sizeof bits);
    identity_numbers(sha, &bits, 1);
}
#endif
