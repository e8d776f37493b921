/* offsets_test.c: offsets of random blocks never overlap, are aligned, and are near the bound; and how long they take for
 * many. */
#include "compiler/plan/schedule_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static void check(bool right, const char *name) { printf("%sok %s\n", right ? "" : "not ", name); }

static uint64_t state = 1;
static int below(int n)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (int)((state >> 33) % (uint64_t)n);
}

/* a step of training: what a layer stores is needed again on the way back, and everything has buffers of a moment beside it */
static Block *step(int layers, int *count)
{
    Block *blocks = NEW_ARRAY(Block, 4 * layers);
    *count = 0;
    for (int i = 0; i < layers; i++) {
        int there = 2 * i, back = 4 * layers - 2 * i;
        blocks[(*count)++] = (Block){1 + below(1 << 20), 0, there, back};
        blocks[(*count)++] = (Block){1 + below(1 << 20), 0, there, there + 1 + below(4)};
        blocks[(*count)++] = (Block){1 + below(1 << 20), 0, back - 1, back + below(3)};
        if (below(4) == 0)
            blocks[(*count)++] = (Block){1 + below(1 << 22), 0, below(4 * layers), 4 * layers};
    }
    return blocks;
}

static Block *anything(int count, int positions)
{
    Block *blocks = NEW_ARRAY(Block, count);
    for (int i = 0; i < count; i++) {
        int first = below(positions);
        blocks[i] = (Block){below(8) ? below(100000) : 0, 0, first, first + below(positions)};
    }
    return blocks;
}

static bool are_apart(const Block *blocks, int count, int64_t used, int alignment)
{
    for (int i = 0; i < count; i++) {
        const Block *a = &blocks[i];
        if (a->offset % alignment || a->bytes % alignment || a->offset < 0 || (a->bytes && a->offset + a->bytes > used))
            return false;
        for (int k = 0; k < i; k++) {
            const Block *b = &blocks[k];
            if (a->first <= b->last && b->first <= a->last && a->offset < b->offset + b->bytes &&
                b->offset < a->offset + a->bytes)
                return false;
        }
    }
    return true;
}

static int64_t most_alive(const Block *blocks, int count)
{
    int64_t most = 0;
    for (int i = 0; i < count; i++) { /* the most begins where some block does */
        int64_t alive = 0;
        for (int k = 0; k < count; k++)
            alive += blocks[k].first <= blocks[i].first && blocks[i].first <= blocks[k].last ? blocks[k].bytes : 0;
        most = alive > most ? alive : most;
    }
    return most;
}

int main(void)
{
    bool apart = true, bounds = true, near = true, each = true;
    for (int round = 0; round < 300; round++) {
        int count = round < 100 ? below(60) : 0, alignment = round % 2 ? 64 : 256;
        Block *blocks = round < 100 ? anything(count, 1 + below(80)) : step(1 + below(60), &count);
        int64_t bound, used = place_blocks(blocks, count, true, alignment, &bound);
        apart = apart && are_apart(blocks, count, used, alignment);
        bounds = bounds && bound == most_alive(blocks, count) && used >= bound;
        near = near && (round < 100 || (double)used <= 1.05 * (double)bound);
        int64_t sum = 0, all = place_blocks(blocks, count, false, alignment, &bound);
        for (int i = 0; i < count; i++) {
            each = each && blocks[i].offset == sum;
            sum += blocks[i].bytes;
        }
        each = each && all == sum && bound == sum;
    }
    check(apart, "blocks that are needed at once do not overlap");
    check(bounds, "the bound is the most bytes alive");
    check(near, "offsets of steps of training are within 5 % of the bound");
    check(each, "without reuse one follows the other");

    int few, many;
    Block *some = step(2000, &few), *more = step(20000, &many);
    int64_t bound;
    clock_t begin = clock();
    place_blocks(some, few, true, 64, &bound);
    clock_t middle = clock();
    place_blocks(more, many, true, 64, &bound);
    double first = (double)(middle - begin), second = (double)(clock() - middle);
    check(second < 30 * first + 0.05 * CLOCKS_PER_SEC, "ten times the blocks take about ten times as long");
    return 0;
}
