/* sha256_x86.c: SHA-256 by the SHA extensions of x86 CPUs (Intel, since 2016 to 2019): four rounds take two instructions. The
 * state is in two vectors, ABEF and CDGH, as the instructions require. */
#include "runtime/base/sha256.h"

#ifdef __x86_64__
#include <cpuid.h>
#include <immintrin.h>

static bool asks(void)
{
    unsigned a, b, c, d;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_SSE4_1) || !(c & bit_SSSE3))
        return false;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b & 1u << 29);
}

bool mgpu_sha256_has_x86(void) /* queried once: CPUID is slow in virtual machines, where it traps */
{
    static _Atomic int known; /* 1: no, 2: yes */
    if (!known)
        known = asks() ? 2 : 1;
    return known == 2;
}

__attribute__((target("sha,sse4.1,ssse3"))) void mgpu_sha256_mix_x86(uint32_t *state, const uint8_t *blocks, size_t count)
{
    const __m128i swap = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
    __m128i dcba = _mm_loadu_si128((const __m128i *)(const void *)state);
    __m128i hgfe = _mm_loadu_si128((const __m128i *)(const void *)(state + 4));
    __m128i cdab = _mm_shuffle_epi32(dcba, 0xb1), efgh = _mm_shuffle_epi32(hgfe, 0x1b);
    __m128i abef = _mm_alignr_epi8(cdab, efgh, 8), cdgh = _mm_blend_epi16(efgh, cdab, 0xf0);
    for (; count; count--, blocks += 64) {
        __m128i w[4], first = abef, second = cdgh;
        for (int i = 0; i < 4; i++)
            w[i] = _mm_shuffle_epi8(_mm_loadu_si128((const __m128i *)(const void *)(blocks + 16 * i)), swap);
        for (int i = 0; i < 16; i++) { /* four rounds each */
            __m128i words = w[i & 3];
            if (i >= 4) {
                __m128i middle = _mm_alignr_epi8(w[(i + 3) & 3], w[(i + 2) & 3], 4);
                words = _mm_add_epi32(_mm_sha256msg1_epu32(words, w[(i + 1) & 3]), middle);
                words = w[i & 3] = _mm_sha256msg2_epu32(words, w[(i + 3) & 3]);
            }
            words = _mm_add_epi32(words, _mm_loadu_si128((const __m128i *)(const void *)(mgpu_sha256_rounds + 4 * i)));
            cdgh = _mm_sha256rnds2_epu32(cdgh, abef, words);
            abef = _mm_sha256rnds2_epu32(abef, cdgh, _mm_shuffle_epi32(words, 0x0e));
        }
        abef = _mm_add_epi32(abef, first);
        cdgh = _mm_add_epi32(cdgh, second);
    }
    __m128i feba = _mm_shuffle_epi32(abef, 0x1b), dchg = _mm_shuffle_epi32(cdgh, 0xb1);
    _mm_storeu_si128((__m128i *)(void *)state, _mm_blend_epi16(feba, dchg, 0xf0));
    _mm_storeu_si128((__m128i *)(void *)(state + 4), _mm_alignr_epi8(dchg, feba, 8));
}

#else
bool mgpu_sha256_has_x86(void) { return false; }

void mgpu_sha256_mix_x86(uint32_t *state, const uint8_t *blocks, size_t count) { (void)state, (void)blocks, (void)count; }
#endif
