/* sums.c: test all-reduces by the runtime's own code, which mgpuc contains as programs do. */
#include "compiler/base/base.h"
#include "compiler/selftest/sums.h"
#include "runtime/abi/mgpu_half.h"
#include "runtime/host/reduce.h"

static double read_element(uint8_t dtype, const void *from, int64_t i)
{
    switch (dtype) {
    case MGPU_F64: return ((const double *)from)[i];
    case MGPU_F32: return (double)((const float *)from)[i];
    case MGPU_BF16: return (double)mgpu_from_bf16(((const mgpu_bf16 *)from)[i]);
    default: return (double)mgpu_from_f16(((const mgpu_f16 *)from)[i]);
    }
}

static void write_element(uint8_t dtype, void *to, int64_t i, double v)
{
    switch (dtype) {
    case MGPU_F64: ((double *)to)[i] = v; break;
    case MGPU_F32: ((float *)to)[i] = (float)v; break;
    case MGPU_BF16: ((mgpu_bf16 *)to)[i] = mgpu_to_bf16((float)v); break;
    default: ((mgpu_f16 *)to)[i] = mgpu_to_f16((float)v); break;
    }
}

/* Adds numbers whose sums all these types represent exactly; returns what is wrong, or NULL. */
const char *test_sums(void)
{
    static const uint8_t TYPES[] = {MGPU_F64, MGPU_F32, MGPU_BF16, MGPU_F16};
    enum { MOST_MEMBERS = 7, MOST = 2100 };
    static double data[MOST_MEMBERS + 1][MOST];
    for (int t = 0; t < COUNT(TYPES); t++)
        for (int members = 1; members <= MOST_MEMBERS; members++)
            for (int64_t count = 1; count <= MOST; count = count < 70 ? count + 1 : count * 3 / 2) {
                Operand operands[MOST_MEMBERS + 1];
                for (int m = 0; m <= members; m++) {
                    operands[m] = (Operand){.name = "test",
                                            .buffer = "test",
                                            .data = data[m],
                                            .count = count,
                                            .dtype = TYPES[t],
                                            .participants = {.transfer = MGPU_TRANSFER_REDUCE}};
                    for (int64_t i = 0; i < count; i++)
                        write_element(TYPES[t], data[m], i, m < members ? (double)((i * 7 + m * 5 + count) % 17 - 8) : 99);
                }
                mgpu_add_operands(operands, members, (mgpu_range){0, count});
                for (int64_t i = 0; i < count; i++) {
                    double sum = 0, got = read_element(TYPES[t], data[members], i);
                    for (int m = 0; m < members; m++)
                        sum += read_element(TYPES[t], data[m], i);
                    if (got != sum)
                        return format("the runtime's sum of %d devices: element %lld of %lld of type %d is %.17g, %.17g expected",
                                      members, (long long)i, (long long)count, t, got, sum);
                }
            }
    return NULL;
}
