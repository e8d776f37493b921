/* sha256.c: SHA-256 by FIPS 180-4: blocks of 64 bytes, each mixed into eight words in 64 rounds; the text is padded by a bit 1,
 * zeros, and its length in bits. */
#include "runtime/base/sha256.h"

#include <string.h>

const uint32_t mgpu_sha256_rounds[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5, 0xd807aa98, 0x12835b01,
    0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc,
    0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147,
    0x06ca6351, 0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116, 0x1e376c08,
    0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3, 0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208,
    0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

static uint32_t rotate(uint32_t x, int by) { return x >> by | x << (32 - by); }

static void mix(uint32_t *state, const uint8_t *block)
{
    uint32_t w[64];
    for (int i = 0; i < 16; i++)
        w[i] =
            (uint32_t)block[4 * i] << 24 | (uint32_t)block[4 * i + 1] << 16 | (uint32_t)block[4 * i + 2] << 8 | block[4 * i + 3];
    for (int i = 16; i < 64; i++)
        w[i] = w[i - 16] + (rotate(w[i - 15], 7) ^ rotate(w[i - 15], 18) ^ w[i - 15] >> 3) + w[i - 7] +
               (rotate(w[i - 2], 17) ^ rotate(w[i - 2], 19) ^ w[i - 2] >> 10);
    uint32_t a = state[0], b = state[1], c = state[2], d = state[3], e = state[4], f = state[5], g = state[6], h = state[7];
    for (int i = 0; i < 64; i++) {
        uint32_t t = h + (rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25)) + ((e & f) ^ (~e & g)) + mgpu_sha256_rounds[i] + w[i];
        uint32_t u = (rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
        h = g, g = f, f = e, e = d + t;
        d = c, c = b, b = a, a = t + u;
    }
    const uint32_t sum[8] = {a, b, c, d, e, f, g, h};
    for (int i = 0; i < 8; i++)
        state[i] += sum[i];
}

static void mix_blocks(Sha256 *h, const uint8_t *blocks, size_t count)
{
    if (h->x86)
        mgpu_sha256_mix_x86(h->state, blocks, count);
    for (size_t i = 0; i < count && !h->x86; i++)
        mix(h->state, blocks + 64 * i);
}

Sha256 mgpu_sha256_begin(void)
{
    return (Sha256){.x86 = mgpu_sha256_has_x86(),
                    .state = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19}};
}

void mgpu_sha256_add(Sha256 *h, const void *bytes, size_t length)
{
    const uint8_t *at = bytes;
    size_t used = h->length % sizeof h->block, part = sizeof h->block - used, whole;
    h->length += length;
    if (used) { /* an incomplete block */
        part = part < length ? part : length;
        memcpy(h->block + used, at, part);
        at += part;
        length -= part;
        if (used + part == sizeof h->block)
            mix_blocks(h, h->block, 1);
    }
    whole = length / sizeof h->block;
    if (whole)
        mix_blocks(h, at, whole);
    if (length % sizeof h->block)
        memcpy(h->block, at + whole * sizeof h->block, length % sizeof h->block);
}

void mgpu_sha256_add_text(Sha256 *h, const char *text) { mgpu_sha256_add(h, text, strlen(text) + 1); }

Digest mgpu_sha256_end(const Sha256 *text)
{
    Sha256 h = *text;
    static const uint8_t PADDING[64] = {0x80};
    uint8_t bits[8];
    for (int i = 0; i < 8; i++)
        bits[i] = (uint8_t)(text->length * 8 >> (56 - 8 * i));
    mgpu_sha256_add(&h, PADDING, 1 + (119 - text->length % 64) % 64);
    mgpu_sha256_add(&h, bits, sizeof bits);
    Digest d;
    for (int i = 0; i < 32; i++)
        d.bytes[i] = (uint8_t)(h.state[i / 4] >> (24 - 8 * (i % 4)));
    return d;
}

Digest mgpu_sha256_of(const void *bytes, size_t length)
{
    Sha256 h = mgpu_sha256_begin();
    mgpu_sha256_add(&h, bytes, length);
    return mgpu_sha256_end(&h);
}

const char *mgpu_digest_text(const Digest *d, int bytes, char text[65])
{
    static const char DIGITS[] = "0123456789abcdef";
    for (int i = 0; i < bytes; i++) {
        text[2 * i] = DIGITS[d->bytes[i] >> 4];
        text[2 * i + 1] = DIGITS[d->bytes[i] & 15];
    }
    text[2 * bytes] = 0;
    return text;
}
