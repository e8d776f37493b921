/* scatter.c: mgpu_own_part (mgpu_scatter.h).
 *
 * In: the size of a table and the indices of what is added to it. Out: the rectangle of the calling thread. The rectangles of all
 * threads cover the table once.
 *
 * Columns are divided first, because all columns have equally many additions, but rows do not. Remaining threads divide the rows
 * so that each part has equal work, by a histogram of at most LOOKED of the indices. */
#include "runtime/abi/mgpu_scatter.h"

enum { BINS = 1024, LOOKED = 4096, ROW_COST = 1, VALUE_COST = 2 };

static int64_t share(int64_t extent, int64_t grain, int64_t index, int64_t parts)
{
    int64_t begin = (extent + grain - 1) / grain * index / parts * grain;
    return begin < extent ? begin : extent;
}

/* Returns the number of parts of columns; the remaining threads divide rows. */
static int64_t column_parts(int64_t columns, int64_t grain, int64_t threads)
{
    int64_t grains = (columns + grain - 1) / grain, best = 1;
    double least = 0;
    for (int64_t c = threads < grains ? threads : grains; c >= 1; c--) {
        double work = (double)((grains + c - 1) / c) / (double)(threads / c); /* of the busiest thread */
        if (least == 0 || work < least) {
            least = work;
            best = c;
        }
    }
    return best;
}

#define COUNT_OF(name, element)                                                                                                  \
    static void count_##name(int64_t *cost, const element *index, int64_t count, int64_t from, int64_t to, int shift)            \
    {                                                                                                                            \
        const int64_t step = (count + LOOKED - 1) / LOOKED;                                                                      \
        for (int64_t i = 0; i < count; i += step)                                                                                \
            if ((int64_t)index[i] >= from && (int64_t)index[i] < to)                                                             \
                cost[((int64_t)index[i] - from) >> shift] += VALUE_COST * step;                                                  \
    }
COUNT_OF(u8, uint8_t)
COUNT_OF(i8, int8_t)
COUNT_OF(u16, uint16_t)
COUNT_OF(i16, int16_t)
COUNT_OF(u32, uint32_t)
COUNT_OF(i32, int32_t)
COUNT_OF(i64, int64_t)

typedef struct Index {
    const void *numbers;
    uint8_t type;
    int64_t count;
} Index;

/* Computes the cost of rows [from, to), in bins of 1 << shift rows. */
static void count_rows(int64_t *cost, const Index *x, int64_t from, int64_t to, int shift)
{
    int64_t bins = ((to - from - 1) >> shift) + 1;
    for (int64_t i = 0; i < bins; i++)
        cost[i] = (int64_t)ROW_COST << shift;
    cost[bins - 1] = ROW_COST * (to - from - ((bins - 1) << shift));
    switch (x->type) {
    case MGPU_U8: count_u8(cost, x->numbers, x->count, from, to, shift); break;
    case MGPU_I8: count_i8(cost, x->numbers, x->count, from, to, shift); break;
    case MGPU_U16: count_u16(cost, x->numbers, x->count, from, to, shift); break;
    case MGPU_I16: count_i16(cost, x->numbers, x->count, from, to, shift); break;
    case MGPU_U32: count_u32(cost, x->numbers, x->count, from, to, shift); break;
    case MGPU_I32: count_i32(cost, x->numbers, x->count, from, to, shift); break;
    case MGPU_I64: count_i64(cost, x->numbers, x->count, from, to, shift); break;
    default: break;
    }
}

/* Returns the first row of a part: the last row before which there is at most the work due to earlier parts; first by bins, then
 * within one. */
static int64_t first_row(int64_t rows, const Index *x, int64_t part, int64_t parts)
{
    int64_t cost[BINS], from = 0, to = rows;
    double total = 0, before = 0;
    if (part == 0 || part == parts)
        return part ? rows : 0;
    for (;;) {
        int shift = 0;
        while ((to - from - 1) >> shift >= BINS)
            shift++;
        count_rows(cost, x, from, to, shift);
        int64_t bins = ((to - from - 1) >> shift) + 1, bin = 0;
        for (int64_t i = 0; from == 0 && to == rows && i < bins; i++)
            total += (double)cost[i];
        double due = total * (double)part / (double)parts;
        for (; bin + 1 < bins && before + (double)cost[bin] <= due; bin++)
            before += (double)cost[bin];
        from += bin << shift;
        if (shift == 0)
            return from;
        to = from + ((int64_t)1 << shift) < to ? from + ((int64_t)1 << shift) : to;
    }
}

mgpu_own mgpu_own_part(int64_t rows, int64_t columns, int64_t grain, const void *index, uint8_t type, int64_t count,
                       const mgpu_part *part)
{
    int64_t across = column_parts(columns, grain, part->threads), down = part->threads / across;
    int64_t column = part->thread % across, row = part->thread / across;
    mgpu_own own = {0, 0, share(columns, grain, column, across), share(columns, grain, column + 1, across)};
    if (row >= down || rows < 1)
        return own;
    own.row_end = rows;
    if (down > 1 && index && count > 0) {
        const Index x = {index, type, count};
        own.row = first_row(rows, &x, row, down);
        own.row_end = first_row(rows, &x, row + 1, down);
    } else if (down > 1) {
        own.row = share(rows, 1, row, down);
        own.row_end = share(rows, 1, row + 1, down);
    }
    return own;
}
