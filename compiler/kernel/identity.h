/* identity.h: which kernels are the same one, whatever the target prints of them. */
#ifndef MGPU_KERNEL_IDENTITY_H
#define MGPU_KERNEL_IDENTITY_H

#include "compiler/kernel/phase.h"
#include "runtime/base/sha256.h"

#include <string.h>

/* Of all that a kernel's text is made of besides names: structure, types, numbers. Paths of random numbers are parameters: their
 * they are places in kernel->paths. Kernels with equal identities are one function, which is called with other paths. */
const char *kernel_form(const Kernel *); /* as a key of maps */
const char *identity_key(const Digest *);

void nests_identity(Sha256 *, const Kernel *);
void scan_identity(Sha256 *, const Kernel *);

/* ---- what the files of kinds say of their own part */
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
