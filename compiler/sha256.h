/* sha256.h: SHA-256 (FIPS 180-4): names of cached objects and of kernels that depend on nothing but their content. */
#ifndef MGPU_SHA256_H
#define MGPU_SHA256_H

#include <stddef.h>
#include <stdint.h>

typedef struct Digest { uint8_t bytes[32]; } Digest;
typedef struct Sha256 {
    uint32_t state[8];
    uint64_t length;     /* bytes so far */
    uint8_t block[64];   /* the last length mod 64 of them */
} Sha256;

Sha256 sha256_begin(void);
void sha256_add(Sha256 *, const void *bytes, size_t length);
void sha256_add_text(Sha256 *, const char *); /* with its end, so that ("ab", "c") and ("a", "bc") differ */
Digest sha256_end(const Sha256 *);            /* more may be added afterwards */
Digest sha256_of(const void *bytes, size_t length);
const char *digest_text(const Digest *, int bytes); /* the first of them as hexadecimal digits */
#endif
