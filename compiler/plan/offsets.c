/* offsets.c: blocks, each needed from one position to another -> offsets, such that no two blocks overlap that are needed at
 * once.
 *
 * This is dynamic storage allocation, which is NP-hard; the lower bound is the most bytes that are needed at once. There are two
 * methods, and the better result is used. A sweep over time puts every block into the first hole (by address) that is large
 * enough; holes are in a treap that knows the largest hole of every subtree: n log n. If the sweep exceeds the bound, rounds
 * follow: blocks are placed in descending order of bytes x time, each into the smallest gap between the placed blocks that are
 * needed at the same time. Blocks that end above the bound weigh more in the next round. A round takes n^2, so there are few
 * rounds for many blocks. */
#include "compiler/plan/schedule_internal.h"

#include <stdlib.h>
#include <string.h>

static const int64_t MOST_BYTES = (int64_t)1 << 62;
static const double NEAR = 1.002;  /* times the bound: good enough to stop */
static const double HEAVIER = 1.5; /* factor for the weight of blocks that end above the bound, in the next round */
static const int ROUNDS = 32;
static const double PAIRS = 4e6; /* of blocks that are compared, in all rounds */

_Noreturn void fail_too_large(void)
{
    fail(1, "a device would need more than 2^62 bytes; a smaller batch or more devices may help");
}

int64_t add_bytes(int64_t a, int64_t b)
{
    if (a > MOST_BYTES - b)
        fail_too_large();
    return a + b;
}

int64_t align_to(int64_t bytes, int alignment) { return add_bytes(bytes, alignment - 1) / alignment * alignment; }

/* ---- holes: a treap by address */
typedef struct Hole Hole;
struct Hole {
    int64_t begin, size, largest; /* largest size in the subtree */
    uint64_t priority;
    Hole *left, *right;
};

static Hole *with_largest(Hole *h)
{
    h->largest = h->size;
    if (h->left && h->left->largest > h->largest)
        h->largest = h->left->largest;
    if (h->right && h->right->largest > h->largest)
        h->largest = h->right->largest;
    return h;
}

static Hole *merge(Hole *a, Hole *b) /* all of a is before all of b */
{
    if (!a || !b)
        return a ? a : b;
    if (a->priority > b->priority) {
        a->right = merge(a->right, b);
        return with_largest(a);
    }
    b->left = merge(a, b->left);
    return with_largest(b);
}

static void cut(Hole *h, int64_t at, Hole **before, Hole **after) /* splits into holes that begin before `at`, and the others */
{
    if (!h) {
        *before = *after = NULL;
    } else if (h->begin < at) {
        cut(h->right, at, &h->right, after);
        *before = with_largest(h);
    } else {
        cut(h->left, at, before, &h->left);
        *after = with_largest(h);
    }
}

static int64_t take(Hole **root, int64_t bytes) /* takes bytes from the first hole that is large enough */
{
    Hole *h = *root;
    int64_t begin;
    if (!h)
        die("no hole of %lld bytes", (long long)bytes);
    if (h->left && h->left->largest >= bytes) {
        begin = take(&h->left, bytes);
    } else if (h->size >= bytes) {
        begin = h->begin;
        h->begin += bytes;
        h->size -= bytes;
        if (h->size == 0) {
            *root = merge(h->left, h->right);
            return begin;
        }
    } else {
        begin = take(&h->right, bytes);
    }
    with_largest(h);
    return begin;
}

static Hole *give_back(Hole *root, int64_t begin, int64_t size)
{
    Hole *before, *after;
    cut(root, begin, &before, &after);
    Hole *last = before, *next = after;
    while (last && last->right)
        last = last->right;
    while (next && next->left)
        next = next->left;
    if (last && last->begin + last->size == begin) {
        Hole *rest, *alone;
        cut(before, last->begin, &rest, &alone);
        before = rest;
        begin = last->begin;
        size += last->size;
    }
    if (next && begin + size == next->begin) {
        Hole *alone, *rest;
        cut(after, next->begin + 1, &alone, &rest);
        after = rest;
        size += next->size;
    }
    Hole *hole = NEW(Hole);
    *hole = (Hole){.begin = begin, .size = size, .largest = size, .priority = hash_bytes(0, &begin, sizeof begin)};
    return merge(merge(before, hole), after);
}

/* ---- orders of blocks */
typedef struct Key {
    int64_t a, b;
    int number;
} Key; /* ascending */
static int compare_key(const void *x, const void *y)
{
    const Key *k = x, *l = y;
    if (k->a != l->a)
        return k->a < l->a ? -1 : 1;
    if (k->b != l->b)
        return k->b < l->b ? -1 : 1;
    return (k->number > l->number) - (k->number < l->number);
}

static Key *sorted_keys(const Block *blocks, int count, Key (*key)(const Block *, int))
{
    Key *keys = NEW_ARRAY(Key, count);
    for (int i = 0; i < count; i++)
        keys[i] = key(&blocks[i], i);
    qsort(keys, (size_t)count, sizeof *keys, compare_key);
    return keys;
}

static Key by_birth(const Block *b, int i) { return (Key){b->first, -b->bytes, i}; }
static Key by_death(const Block *b, int i) { return (Key){b->last, b->first, i}; }

/* ---- the sweep; *bound: the most bytes that are needed at once */
static int64_t sweep(Block *blocks, int count, int64_t *bound)
{
    Key *births = sorted_keys(blocks, count, by_birth), *deaths = sorted_keys(blocks, count, by_death);
    Hole *holes = give_back(NULL, 0, MOST_BYTES);
    int64_t used = 0, alive = 0;
    *bound = 0;
    for (int i = 0, dead = 0; i < count; i++) {
        Block *b = &blocks[births[i].number];
        for (; blocks[deaths[dead].number].last < b->first; dead++) {
            const Block *gone = &blocks[deaths[dead].number];
            alive -= gone->bytes;
            if (gone->bytes)
                holes = give_back(holes, gone->offset, gone->bytes);
        }
        if (b->bytes == 0)
            continue;
        if (!holes || holes->largest < b->bytes)
            fail_too_large();
        b->offset = take(&holes, b->bytes);
        alive += b->bytes;
        *bound = alive > *bound ? alive : *bound;
        used = b->offset + b->bytes > used ? b->offset + b->bytes : used;
    }
    return used;
}

/* ---- rounds: the heaviest first, each into the smallest gap */
typedef struct Heavy {
    double weight;
    int first, number;
} Heavy;
static int compare_heavy(const void *x, const void *y)
{
    const Heavy *a = x, *b = y;
    if (a->weight != b->weight)
        return a->weight > b->weight ? -1 : 1;
    if (a->first != b->first)
        return a->first < b->first ? -1 : 1;
    return (a->number > b->number) - (a->number < b->number);
}

typedef struct Placed {
    int first, last;
    int64_t begin, end;
} Placed; /* a block that has its offset in this round */

typedef struct Rounds {
    const Block *blocks;
    int count;
    double *weight;   /* by block */
    int *order;       /* blocks, the heaviest first */
    Placed *placed;   /* ascending by offset */
    int *overlapping; /* indices into `placed`: blocks that are needed together with the current one */
    int64_t *offsets; /* by block */
} Rounds;

/* without branches that depend on lifetimes: their mispredictions took most of the planner's time */
static int find_overlapping(const Rounds *r, int placed_count, const Block *b)
{
    int count = 0;
    for (int k = 0; k < placed_count; k++) {
        r->overlapping[count] = k;
        count += (r->placed[k].first <= b->last) & (r->placed[k].last >= b->first);
    }
    return count;
}

static int64_t smallest_gap(const Rounds *r, int placed_count, const Block *b)
{
    int64_t best = -1, best_gap = INT64_MAX, at = 0;
    for (int i = 0, count = find_overlapping(r, placed_count, b); i < count; i++) {
        const Placed *other = &r->placed[r->overlapping[i]];
        int64_t gap = other->begin - at;
        if (gap >= b->bytes && gap < best_gap) {
            best = at;
            best_gap = gap;
        }
        at = other->end > at ? other->end : at;
    }
    return best >= 0 ? best : at;
}

static int64_t place_in_order(Rounds *r)
{
    int64_t used = 0;
    for (int i = 0, placed_count = 0; i < r->count; i++) {
        int number = r->order[i];
        const Block *b = &r->blocks[number];
        if (b->bytes == 0)
            continue;
        int64_t offset = r->offsets[number] = smallest_gap(r, placed_count, b);
        int low = 0, high = placed_count;
        while (low < high) {
            int middle = (low + high) / 2;
            if (r->placed[middle].begin <= offset)
                low = middle + 1;
            else
                high = middle;
        }
        memmove(r->placed + low + 1, r->placed + low, sizeof *r->placed * (size_t)(placed_count++ - low));
        r->placed[low] = (Placed){b->first, b->last, offset, offset + b->bytes};
        used = offset + b->bytes > used ? offset + b->bytes : used;
    }
    return used;
}

static void sort_by_weight(Rounds *r)
{
    Heavy *keys = NEW_ARRAY(Heavy, r->count);
    for (int i = 0; i < r->count; i++)
        keys[i] = (Heavy){r->weight[i], r->blocks[i].first, i};
    qsort(keys, (size_t)r->count, sizeof *keys, compare_heavy);
    for (int i = 0; i < r->count; i++)
        r->order[i] = keys[i].number;
}

/* Tries to find better offsets than those that take `used` bytes; returns the bytes of the best. */
static int64_t place_in_rounds(Block *blocks, int count, int64_t used, int64_t bound)
{
    Rounds r = {blocks,
                count,
                NEW_ARRAY(double, count),
                NEW_ARRAY(int, count),
                NEW_ARRAY(Placed, count),
                NEW_ARRAY(int, count),
                NEW_ARRAY(int64_t, count)};
    for (int i = 0; i < count; i++)
        r.weight[i] = (double)blocks[i].bytes * (blocks[i].last - blocks[i].first + 1);
    double pairs = (double)count * count / 2;
    for (int round = 0; round < ROUNDS && (round + 1) * pairs <= PAIRS && (double)used > NEAR * (double)bound; round++) {
        sort_by_weight(&r);
        int64_t bytes = place_in_order(&r);
        for (int i = 0; i < count; i++)
            if (r.offsets[i] + blocks[i].bytes > bound)
                r.weight[i] *= HEAVIER;
        if (bytes >= used)
            continue;
        used = bytes;
        for (int i = 0; i < count; i++)
            blocks[i].offset = r.offsets[i];
    }
    return used;
}

int64_t place_blocks(Block *blocks, int count, bool reuse, int alignment, int64_t *bound)
{
    int64_t used = 0;
    for (int i = 0; i < count; i++) {
        blocks[i].bytes = align_to(blocks[i].bytes, alignment);
        blocks[i].offset = used;
        used = reuse ? 0 : add_bytes(used, blocks[i].bytes);
    }
    *bound = used;
    if (!reuse)
        return used;
    used = sweep(blocks, count, bound);
    return place_in_rounds(blocks, count, used, *bound);
}
