/* reduce.c: all-reduce in shared memory.
 *
 * Members meet; each sums its slice of the elements over all devices, in the order of the devices, and writes the sum
 * to all of them; they part. A slice is touched by one member only between the two meetings, so it works in place, and
 * since the order of additions is fixed and every device gets the same sum, all hold the same bits. Slices begin at
 * multiples of a cache line. Sums of f16 and bf16 are formed in double. */
#include "runtime/base/base.h"
#include "runtime/engine/collective.h"
#include "runtime/host/reduce.h"

#include <stdlib.h>
#include <string.h>

typedef struct Member { void *data; int64_t count, tag; uint8_t dtype; } Member;
struct Reduction {
    int members;
    _Atomic int arrived;
    Counter meetings; /* how many are over */
    Member *member;
};

Reduction *mgpu_reduction_open(int members)
{
    Reduction *r = mgpu_allocate_aligned(_Alignof(Reduction), sizeof *r);
    r->members = members;
    r->member = mgpu_allocate((size_t)members, sizeof *r->member);
    return r;
}

void mgpu_reduction_close(Reduction *r)
{
    free(r->member);
    free(r);
}

void mgpu_meet(Reduction *r)
{
    int64_t meeting = atomic_load(&r->meetings.value) + 1;
    if (atomic_fetch_add(&r->arrived, 1) + 1 == r->members) {
        atomic_store(&r->arrived, 0);
        mgpu_counter_set(&r->meetings, meeting);
    } else {
        mgpu_counter_wait(&r->meetings, meeting);
    }
}

enum { BLOCK = 1024 }; /* elements summed at once: they stay in the first-level cache */

#define SUM_SLICE(name, type)                                                                                          \
    static void name(Reduction *r, int64_t begin, int64_t end)                                                         \
    {                                                                                                                  \
        type sum[BLOCK];                                                                                               \
        for (int64_t at = begin; at < end; at += BLOCK) {                                                              \
            int64_t n = end - at < BLOCK ? end - at : BLOCK;                                                           \
            memcpy(sum, (const type *)r->member[0].data + at, (size_t)n * sizeof(type));                               \
            for (int d = 1; d < r->members; d++) {                                                                     \
                const type *restrict x = (const type *)r->member[d].data + at;                                         \
                for (int64_t i = 0; i < n; i++)                                                                        \
                    sum[i] = (type)(sum[i] + x[i]);                                                                    \
            }                                                                                                          \
            for (int d = 0; d < r->members; d++)                                                                       \
                memcpy((type *)r->member[d].data + at, sum, (size_t)n * sizeof(type));                                 \
        }                                                                                                              \
    }

SUM_SLICE(sum_f32, float)
SUM_SLICE(sum_f64, double)
SUM_SLICE(sum_u8, uint8_t) /* whole numbers add up modulo 2^n: the sign does not matter */
SUM_SLICE(sum_u16, uint16_t)
SUM_SLICE(sum_u32, uint32_t)
SUM_SLICE(sum_u64, uint64_t)

static void sum_other(Reduction *r, int64_t begin, int64_t end)
{
    uint8_t dtype = r->member[0].dtype;
    for (int64_t i = begin; i < end; i++) {
        double sum = 0;
        for (int d = 0; d < r->members; d++)
            sum += mgpu_to_double(r->member[d].data, dtype, i);
        for (int d = 0; d < r->members; d++)
            mgpu_from_double(r->member[d].data, dtype, i, sum);
    }
}

static void sum_slice(Reduction *r, int64_t begin, int64_t end)
{
    switch (r->member[0].dtype) {
    case MGPU_F32: sum_f32(r, begin, end); break;
    case MGPU_F64: sum_f64(r, begin, end); break;
    case MGPU_U8:
    case MGPU_I8: sum_u8(r, begin, end); break;
    case MGPU_U16:
    case MGPU_I16: sum_u16(r, begin, end); break;
    case MGPU_U32:
    case MGPU_I32: sum_u32(r, begin, end); break;
    case MGPU_I64: sum_u64(r, begin, end); break;
    default: sum_other(r, begin, end);
    }
}

bool mgpu_reduce(Reduction *r, int member, void *data, int64_t count, uint8_t dtype, int64_t tag)
{
    if (r->members == 1)
        return true;
    r->member[member] = (Member){data, count, tag, dtype};
    mgpu_meet(r);
    for (int d = 0; d < r->members; d++)
        if (r->member[d].count != count || r->member[d].tag != tag || r->member[d].dtype != dtype)
            return false;
    int64_t line = 64 / mgpu_dtype_bytes(dtype);
    int64_t slice = ((count + r->members - 1) / r->members + line - 1) / line * line;
    int64_t begin = slice * member < count ? slice * member : count;
    int64_t end = begin + slice < count ? begin + slice : count;
    sum_slice(r, begin, end);
    mgpu_meet(r);
    return true;
}

/* ---- as a collective of devices whose arenas are host memory */
typedef struct InMemory { Collective collective; Reduction *reduction; } InMemory;

static bool sum_in_memory(Collective *c, int member, const Operand *o)
{
    return mgpu_reduce(((InMemory *)c)->reduction, member, o->data, o->count, o->dtype, o->tag);
}

static void close_in_memory(Collective *c)
{
    mgpu_reduction_close(((InMemory *)c)->reduction);
    free(c);
}

Collective *mgpu_collective_in_memory(int members)
{
    InMemory *c = mgpu_allocate(1, sizeof *c);
    *c = (InMemory){{.name = "host", .sum = sum_in_memory, .close = close_in_memory}, mgpu_reduction_open(members)};
    return &c->collective;
}
