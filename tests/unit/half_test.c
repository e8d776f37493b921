/* half_test.c: floats of 16 bits: mgpu_half.h against runtime/base/dtype.c, which goes by powers and nearbyint: all numbers of
 * 16 bits, floats between neighbours and on the middle between them, and floats at random. */
#include "runtime/abi/mgpu.h"
#include "runtime/abi/mgpu_half.h"

#include <math.h>
#include <stdio.h>

double mgpu_to_double(const void *data, uint8_t dtype, int64_t index);
void mgpu_from_double(void *data, uint8_t dtype, int64_t index, double value);

static int failures;

static void verdict(const char *name, int bad, float example)
{
    if (bad)
        printf("not ok %s: %d wrong, one is %a\n", name, bad, (double)example);
    else
        printf("ok %s\n", name);
    failures += bad != 0;
}

static uint16_t to_half(uint8_t dtype, float v) { return dtype == MGPU_F16 ? mgpu_to_f16(v) : mgpu_to_bf16(v); }
static float from_half(uint8_t dtype, uint16_t h) { return dtype == MGPU_F16 ? mgpu_from_f16(h) : mgpu_from_bf16(h); }

static bool same_to(uint8_t dtype, float v)
{
    uint16_t expected, is = to_half(dtype, v);
    mgpu_from_double(&expected, dtype, 0, (double)v);
    return v != v ? isnan(from_half(dtype, is)) : is == expected;
}

static void test(uint8_t dtype, const char *name)
{
    int bad_from = 0, bad_to = 0;
    float from = 0, to = 0;
    uint64_t state = 1;
    for (int i = 0; i < 65536; i++) {
        uint16_t h = (uint16_t)i;
        float v = from_half(dtype, h);
        double expected = mgpu_to_double(&h, dtype, 0);
        if (expected != expected ? v == v : (double)v != expected || !signbit(v) != !signbit(expected))
            bad_from++, from = v;
        uint32_t bits = mgpu_bits_of(v), half_way = dtype == MGPU_F16 ? 0x1000 : 0x8000;
        for (int k = -1; k < 3; k++) { /* around the number, and the middle between it and the next */
            float near = mgpu_float_of(k < 0 ? bits - 1 : k == 0 ? bits : bits + half_way + (uint32_t)k - 1);
            if (!same_to(dtype, near))
                bad_to++, to = near;
        }
        for (int k = 0; k < 64; k++) {
            state = state * 6364136223846793005u + 1442695040888963407u;
            float v2 = mgpu_float_of((uint32_t)(state >> 32));
            if (!same_to(dtype, v2))
                bad_to++, to = v2;
        }
    }
    char text[40];
    snprintf(text, sizeof text, "%s to float", name);
    verdict(text, bad_from, from);
    snprintf(text, sizeof text, "float to %s", name);
    verdict(text, bad_to, to);
}

/* numbers in NaNs: as they are, after conversions, and none where there is none */
static void test_numbers(void)
{
    static const double NUMBERS[] = {0, 1, -1, 7, -100, 255, 65535, -65536, 2097150, -2097150},
                        NONE[] = {2097151, -2097151, 0.5, 1e30, -INFINITY, NAN};
    static const uint32_t OTHER[] = {0x7FC00000u, 0xFFC00000u, 0x7FFFFFFFu, 0xFFFFFFFFu, 0x7FE00000u};
    int bad = 0, bad_none = 0;
    int32_t number;
    for (int i = 0; i < (int)(sizeof NUMBERS / sizeof *NUMBERS); i++) {
        float single = mgpu_nan_withf((float)NUMBERS[i]);
        double wide = mgpu_nan_with_double(NUMBERS[i]);
        bad += !mgpu_said_by((double)single, &number) || number != (int32_t)NUMBERS[i];
        bad += !mgpu_said_by(wide, &number) || number != (int32_t)NUMBERS[i];
        bad += !mgpu_said_by((double)(float)wide, &number) || number != (int32_t)NUMBERS[i];
        bad_none +=
            mgpu_said_by((double)mgpu_round_bf16(single), &number) || mgpu_said_by((double)mgpu_round_f16(single), &number);
    }
    for (int i = 0; i < (int)(sizeof NONE / sizeof *NONE); i++)
        bad_none +=
            mgpu_said_by(mgpu_nan_with_double(NONE[i]), &number) || mgpu_said_by((double)mgpu_nan_withf((float)NONE[i]), &number);
    for (int i = 0; i < (int)(sizeof OTHER / sizeof *OTHER); i++)
        bad_none += mgpu_said_by((double)mgpu_float_of(OTHER[i]), &number);
    bad_none += mgpu_said_by(1.5, &number);
    verdict("numbers in NaNs", bad, 0);
    verdict("NaNs without a number", bad_none, 0);
}

int main(void)
{
    test(MGPU_F16, "f16");
    test(MGPU_BF16, "bf16");
    test_numbers();
    return failures != 0;
}
