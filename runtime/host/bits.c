/* bits.c: codes of numbers as bits, and their sums: mgpu_bits.h. */
#include "runtime/host/reduce.h"

#include <string.h>

/* clang-format off */
#define SEGMENT_CODE(type, word)                                                                                       \
    typedef struct Code_##type { word value[2]; uint32_t bits[MGPU_SEGMENT_WORDS]; } Code_##type;                      \
                                                                                                                       \
    static bool encode_##type(Code_##type *code, const word *x, int64_t n)                                             \
    {                                                                                                                  \
        int64_t second = 0;                                                                                            \
        while (second + 1 < n && x[second] == x[0])                                                                    \
            second++;                                                                                                  \
        *code = (Code_##type){{x[0], x[second]}, {0}};                                                                 \
        word wrong = 0;                                                                                                \
        for (int64_t i = 0; i < n; i++) {                                                                              \
            code->bits[i / 32] |= (uint32_t)(x[i] != x[0]) << i % 32;                                                  \
            wrong |= (x[i] ^ x[0]) & (x[i] ^ x[second]);                                                               \
        }                                                                                                              \
        return wrong == 0;                                                                                             \
    }                                                                                                                  \
                                                                                                                       \
    static void add_##type(const void *const *codes, int members, int64_t segment, type *sum, int64_t n)               \
    {                                                                                                                  \
        for (int d = 0; d < members; d++) {                                                                            \
            const Code_##type *code = (const Code_##type *)codes[d] + segment;                                         \
            type value[2];                                                                                             \
            memcpy(value, code->value, sizeof value);                                                                  \
            for (int64_t i = 0; i < n; i++) {                                                                          \
                type x = value[code->bits[i / 32] >> i % 32 & 1];                                                      \
                sum[i] = d ? sum[i] + x : x;                                                                           \
            }                                                                                                          \
        }                                                                                                              \
    }
/* clang-format on */

SEGMENT_CODE(float, uint32_t)
SEGMENT_CODE(double, uint64_t)

static int64_t length(int64_t count, int64_t begin) { return count - begin < MGPU_SEGMENT ? count - begin : MGPU_SEGMENT; }

bool mgpu_encode(void *codes, const void *values, int64_t count, uint8_t dtype)
{
    bool two = true;
    for (int64_t k = 0, at = 0; at < count; k++, at += MGPU_SEGMENT)
        two = (dtype == MGPU_F64 ? encode_double((Code_double *)codes + k, (const uint64_t *)values + at, length(count, at))
                                 : encode_float((Code_float *)codes + k, (const uint32_t *)values + at, length(count, at))) &&
              two;
    return two;
}

void mgpu_add_codes(const void *const *codes, int members, void *sum, int64_t count, uint8_t dtype)
{
    for (int64_t k = 0, at = 0; at < count; k++, at += MGPU_SEGMENT)
        if (dtype == MGPU_F64)
            add_double(codes, members, k, (double *)sum + at, length(count, at));
        else
            add_float(codes, members, k, (float *)sum + at, length(count, at));
}
