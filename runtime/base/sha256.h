/* sha256.h: SHA-256 (FIPS 180-4), for files of saves, and for names of mgpuc's cached objects and of kernels, which depend only
 * on their content. */
#ifndef MGPU_SHA256_H
#define MGPU_SHA256_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct Digest {
    uint8_t bytes[32];
} Digest;
typedef struct Sha256 {
    uint32_t state[8];
    uint64_t length;   /* bytes so far */
    uint8_t block[64]; /* the last length mod 64 of them */
    bool x86;          /* uses the CPU's instructions */
} Sha256;

Sha256 mgpu_sha256_begin(void);
void mgpu_sha256_add(Sha256 *, const void *bytes, size_t length);
void mgpu_sha256_add_text(Sha256 *, const char *); /* with its NUL, so that ("ab", "c") and ("a", "bc") differ */
Digest mgpu_sha256_end(const Sha256 *);            /* more may be added afterwards */
Digest mgpu_sha256_of(const void *bytes, size_t length);
const char *mgpu_digest_text(const Digest *, int bytes, char text[65]); /* the first `bytes` as hexadecimal digits */

/* Processes whole blocks. sha256_x86.c uses instructions of the CPU, if it has them. */
extern const uint32_t mgpu_sha256_rounds[64];
bool mgpu_sha256_has_x86(void);
void mgpu_sha256_mix_x86(uint32_t *state, const uint8_t *blocks, size_t count);
#endif
