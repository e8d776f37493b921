/* exchange_test.c: transfers between devices whose memory is the host's (runtime/host/reduce.c): of every row of the table, in
 * every type, over parts drawn at random, empty ones too. What a member receives is what the row says, to the bit, and nothing
 * else of its buffer changes; a reduce-scatter adds as an all-reduce does. All-reduces in rounds (mgpu_rounds.h) have orders of
 * their own, so they add whole numbers. What is sent as bits has two values in each segment, of f32 and f64: NaN, infinity and -0
 * may be among them. */
#include "runtime/host/reduce.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MEMBERS = 7, USUAL = 5, MOST = 2500, ROUNDS = 6, MARGIN = 64 /* bytes around each buffer */ };
static const uint8_t DTYPES[] = {MGPU_U8,  MGPU_I8,  MGPU_U16,  MGPU_I16, MGPU_U32, MGPU_I32,
                                 MGPU_I64, MGPU_F16, MGPU_BF16, MGPU_F32, MGPU_F64};

static int failures;
static uint64_t state = 1;

static int draw(int n)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return n > 0 ? (int)((state >> 33) % (uint64_t)n) : 0;
}

typedef struct Case {
    int64_t count, parts[MEMBERS + 1], tag;
    uint8_t dtype, way;
    int members;
    mgpu_participants parties;
    size_t bytes; /* of a buffer, margins too */
    uint8_t *before[MEMBERS], *after[MEMBERS];
    Reduction *reduction;
    bool agreed[MEMBERS];
} Case;
typedef struct Member {
    Case *c;
    int number;
} Member;

static void *exchange(void *argument)
{
    const Member *m = argument;
    Case *c = m->c;
    Operand o = {.name = "r0",
                 .buffer = "bucket0",
                 .data = c->after[m->number] + MARGIN,
                 .count = c->count,
                 .dtype = c->dtype,
                 .participants = c->parties,
                 .tag = c->tag,
                 .implementation = c->way};
    c->agreed[m->number] = mgpu_exchange(c->reduction, m->number, &o);
    return NULL;
}

static void run(Case *c)
{
    pthread_t threads[MEMBERS];
    Member members[MEMBERS];
    for (int d = 0; d < c->members; d++) {
        members[d] = (Member){c, d};
        memcpy(c->after[d], c->before[d], c->bytes);
        if (pthread_create(&threads[d], NULL, exchange, &members[d]) != 0)
            mgpu_fail(3, "a thread cannot be started");
    }
    for (int d = 0; d < c->members; d++)
        pthread_join(threads[d], NULL);
}

/* what the member should have at element i: added in the order of the devices, in the type (halves in double) */
static void sum_of(const Case *c, int64_t i, void *to)
{
    const void *x[MEMBERS];
    for (int d = 0; d < c->members; d++)
        x[d] = c->before[d] + MARGIN + i * mgpu_dtype_bytes(c->dtype);
    uint64_t whole = 0;
    float single = 0;
    double sum = mgpu_to_double(x[0], c->dtype, 0);
    for (int d = 0; d < c->members; d++) {
        uint64_t bits = 0;
        float own;
        memcpy(&bits, x[d], (size_t)mgpu_dtype_bytes(c->dtype));
        memcpy(&own, &bits, sizeof own);
        whole += bits;
        single = d ? single + own : own;
        sum = d ? sum + mgpu_to_double(x[d], c->dtype, 0) : sum;
    }
    if (c->dtype == MGPU_F32)
        memcpy(to, &single, 4);
    else if (c->dtype == MGPU_F64 || c->dtype == MGPU_F16 || c->dtype == MGPU_BF16)
        mgpu_from_double(to, c->dtype, 0, sum);
    else
        memcpy(to, &whole, (size_t)mgpu_dtype_bytes(c->dtype)); /* modulo 2^bits */
}

/* what each member has: so many elements, their mean, the sum of their squared distances from it */
static bool moments_are_right(const Case *c, int member)
{
    int64_t count = c->count / 3;
    bool good = true;
    for (int64_t i = 0; i < count && good; i++) {
        double n = 0, mean = 0, squares = 0, got[3];
        for (int d = 0; d < c->members; d++) {
            n += mgpu_to_double(c->before[d] + MARGIN, MGPU_F64, 3 * i);
            mean += mgpu_to_double(c->before[d] + MARGIN, MGPU_F64, 3 * i) *
                    mgpu_to_double(c->before[d] + MARGIN, MGPU_F64, 3 * i + 1);
        }
        mean /= n > 0 ? n : 1;
        for (int d = 0; d < c->members; d++) {
            double own = mgpu_to_double(c->before[d] + MARGIN, MGPU_F64, 3 * i),
                   away = mgpu_to_double(c->before[d] + MARGIN, MGPU_F64, 3 * i + 1) - mean;
            squares += own > 0 ? mgpu_to_double(c->before[d] + MARGIN, MGPU_F64, 3 * i + 2) + own * away * away : 0;
        }
        for (int k = 0; k < 3; k++)
            got[k] = mgpu_to_double(c->after[member] + MARGIN, MGPU_F64, 3 * i + k);
        good = got[0] == n &&
               (n == 0 || (fabs(got[1] - mean) < 1e-11 * (1 + fabs(mean)) && fabs(got[2] - squares) < 1e-11 * (1 + squares)));
        good = good && memcmp(c->after[member] + MARGIN, c->after[0] + MARGIN, (size_t)c->count * 8) == 0;
    }
    return good;
}

static bool has(mgpu_range s, int64_t i) { return s.begin <= i && i < s.end; }

static bool is_right(const Case *c, int member, int64_t i)
{
    size_t each = (size_t)mgpu_dtype_bytes(c->dtype), place = MARGIN + (size_t)i * each;
    uint8_t expected[8];
    memcpy(expected, c->before[member] + place, each);
    if (has(mgpu_received_by(&c->parties, c->count, member), i)) {
        if (mgpu_transfer_row(c->parties.transfer)->adds)
            sum_of(c, i, expected);
        for (int d = 0; d < c->members && !mgpu_transfer_row(c->parties.transfer)->adds; d++)
            if (has(mgpu_sent_by(&c->parties, c->count, d), i))
                memcpy(expected, c->before[d] + place, each);
    }
    return memcmp(expected, c->after[member] + place, each) == 0;
}

static bool check(const Case *c)
{
    bool good = true;
    for (int d = 0; d < c->members; d++) {
        size_t end = MARGIN + (size_t)(c->count * mgpu_dtype_bytes(c->dtype));
        good = good && c->agreed[d] && memcmp(c->before[d], c->after[d], MARGIN) == 0 &&
               memcmp(c->before[d] + end, c->after[d] + end, c->bytes - end) == 0;
        for (int64_t i = 0; i < c->count && good && c->parties.transfer != MGPU_TRANSFER_REDUCE_MOMENTS; i++)
            good = is_right(c, d, i);
        if (c->parties.transfer == MGPU_TRANSFER_REDUCE_MOMENTS)
            good = good && moments_are_right(c, d);
    }
    return good;
}

static int compare(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* in each segment one of two, the same to the bit: any but a NaN of the program's own, which an addition may change */
static void draw_bits(Case *c, uint8_t *to)
{
    double value[2] = {0, 0};
    for (int64_t i = 0; i < c->count; i++) {
        for (int k = 0; k < 2 && i % MGPU_SEGMENT == 0; k++)
            value[k] = draw(4) ? draw(2000) / 7.0 - 100 : (double[]){INFINITY, -0.0, 0.0, 1e-310}[draw(4)];
        mgpu_from_double(to, c->dtype, i, value[draw(5) == 0]);
    }
}

/* members without an element, too, whose means and sums are anything */
static void draw_moments(const Case *c, uint8_t *to)
{
    int64_t count = c->count / 3;
    for (int64_t i = 0; i < count; i++) {
        mgpu_from_double(to, MGPU_F64, 3 * i, draw(3) ? draw(100) : 0);
        mgpu_from_double(to, MGPU_F64, 3 * i + 1, 1e4 + draw(100) / 7.0);
        mgpu_from_double(to, MGPU_F64, 3 * i + 2, draw(1000) / 9.0);
    }
}

static bool takes(int transfer, uint8_t dtype)
{
    return transfer == MGPU_TRANSFER_REDUCE_MOMENTS
               ? dtype == MGPU_F64
               : transfer != MGPU_TRANSFER_REDUCE_BITS || dtype == MGPU_F32 || dtype == MGPU_F64;
}

static void draw_case(Case *c, int transfer, uint8_t dtype)
{
    c->count = transfer == MGPU_TRANSFER_REDUCE_MOMENTS ? 3 * draw(MOST / 3) : draw(MOST);
    c->dtype = dtype;
    c->tag++;
    for (int d = 1; d < c->members; d++)
        c->parts[d] = draw(4) ? draw((int)c->count + 1) : 0;
    c->parts[c->members] = c->count;
    qsort(c->parts, (size_t)c->members + 1, sizeof *c->parts, compare);
    int from = draw(c->members);
    c->parties = (mgpu_participants){(uint8_t)transfer, from, (from + 1 + draw(c->members - 1)) % c->members,
                                     mgpu_transfer_splits(transfer) ? c->parts : NULL};
    bool numbers = dtype == MGPU_F16 || dtype == MGPU_BF16 || dtype == MGPU_F32 || dtype == MGPU_F64;
    for (int d = 0; d < c->members; d++) {
        for (size_t i = 0; i < c->bytes; i++)
            c->before[d][i] = (uint8_t)draw(256);
        for (int64_t i = 0; i < c->count && numbers; i++)
            mgpu_from_double(c->before[d] + MARGIN, dtype, i,
                             c->way == MGPU_IMPLEMENTATION_AUTO ? draw(2000) / 7.0 - 100 : draw(16)); /* any order */
        if (transfer == MGPU_TRANSFER_REDUCE_BITS)
            draw_bits(c, c->before[d] + MARGIN);
        if (transfer == MGPU_TRANSFER_REDUCE_MOMENTS)
            draw_moments(c, c->before[d] + MARGIN);
    }
}

static void test(int transfer, Case *c)
{
    bool good = true;
    for (size_t t = 0; t < sizeof DTYPES; t++)
        for (int round = 0; round < ROUNDS && good && takes(transfer, DTYPES[t]); round++) {
            draw_case(c, transfer, DTYPES[t]);
            run(c);
            good = check(c);
            if (!good)
                printf("not ok %s: type %d, %lld elements, from %d to %d, parts %lld %lld %lld %lld\n",
                       mgpu_transfer_row(transfer)->kind, DTYPES[t], (long long)c->count, c->parties.from, c->parties.to,
                       (long long)c->parts[1], (long long)c->parts[2], (long long)c->parts[3], (long long)c->parts[4]);
        }
    if (good)
        printf("ok %s, %s, of %d in %d types\n", mgpu_transfer_row(transfer)->kind, mgpu_implementation_name(c->way), c->members,
               (int)sizeof DTYPES);
    failures += !good;
}

int main(void)
{
    Case c = {.bytes = MOST * 8 + 2 * MARGIN, .members = USUAL, .reduction = mgpu_reduction_open(USUAL)};
    for (int d = 0; d < MEMBERS; d++) {
        c.before[d] = mgpu_allocate(1, c.bytes);
        c.after[d] = mgpu_allocate(1, c.bytes);
    }
    for (int transfer = 0; transfer < MGPU_TRANSFERS; transfer++)
        test(transfer, &c);
    mgpu_reduction_close(c.reduction);
    for (c.way = MGPU_IMPLEMENTATION_RING; c.way < MGPU_IMPLEMENTATIONS; c.way++)
        for (c.members = 2; c.members <= MEMBERS; c.members++) {
            c.reduction = mgpu_reduction_open(c.members);
            test(MGPU_TRANSFER_REDUCE, &c);
            mgpu_reduction_close(c.reduction);
        }
    for (int d = 0; d < MEMBERS; d++) {
        free(c.before[d]);
        free(c.after[d]);
    }
    return failures != 0;
}
