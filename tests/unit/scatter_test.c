/* scatter_test.c: the parts of a table that the workers own (runtime/abi/mgpu_scatter.h): together they cover the table
 * once, for any size, number of threads and index; a table whose rows are drawn as words are is shared out evenly. */
#include "runtime/abi/mgpu_scatter.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_THREADS = 17, TOKENS = 20000, WORDS = 50257 };

static int failed;

static void report(const char *name, bool good, const char *why)
{
    printf(good ? "ok scatter: %s\n" : "not ok scatter: %s: %s\n", name, why);
    failed += !good;
}

static mgpu_own own_of(int64_t rows, int64_t columns, int64_t grain, const void *index, uint8_t type, int64_t count, int thread,
                       int threads)
{
    mgpu_part part = {.samples = 1, .end = 1, .thread = thread, .threads = threads};
    return mgpu_own_part(rows, columns, grain, index, type, count, &part);
}

/* how often each element is owned, by counts at the rectangles' corners in each row */
static bool covers_once(int64_t rows, int64_t columns, int64_t grain, const void *index, uint8_t type, int64_t count, int threads)
{
    char *owned = calloc((size_t)(rows * columns) + 1, 1);
    bool good = true;
    for (int t = 0; t < threads; t++) {
        mgpu_own own = own_of(rows, columns, grain, index, type, count, t, threads);
        good = good && own.row >= 0 && own.row_end <= rows && own.column >= 0 && own.column_end <= columns &&
               (own.column % grain == 0 || own.column == columns);
        for (int64_t r = own.row; good && r < own.row_end; r++)
            for (int64_t c = own.column; c < own.column_end; c++)
                owned[r * columns + c]++;
    }
    for (int64_t i = 0; i < rows * columns; i++)
        good = good && owned[i] == 1;
    free(owned);
    return good;
}

static int32_t words[TOKENS];

/* word k about as often as 1 / (k + 3) */
static void draw_words(void)
{
    double *sum = malloc(sizeof *sum * WORDS), total = 0;
    uint64_t state = 1;
    for (int k = 0; k < WORDS; k++)
        sum[k] = total += 1.0 / (k + 3);
    for (int i = 0; i < TOKENS; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        double u = (double)(state >> 11) * 0x1p-53 * total;
        int low = 0, high = WORDS - 1;
        while (low < high) {
            int middle = (low + high) / 2;
            if (sum[middle] > u)
                high = middle;
            else
                low = middle + 1;
        }
        words[i] = low;
    }
    free(sum);
}

static void check_cover(void)
{
    static const int64_t ROWS[] = {0, 1, 2, 7, 65, 1023, 1024, 1025, 3000}, COLUMNS[] = {1, 3, 16, 17, 64, 300};
    static const int64_t GRAINS[] = {1, 2, 16};
    static uint8_t bytes[TOKENS];
    char why[200] = "";
    for (int i = 0; i < TOKENS; i++)
        bytes[i] = (uint8_t)words[i];
    for (int r = 0; r < 9; r++)
        for (int c = 0; c < 6; c++)
            for (int g = 0; g < 3; g++)
                for (int threads = 1; threads <= MOST_THREADS; threads++)
                    for (int kind = 0; kind < 4 && !why[0]; kind++) { /* no index; words, some outside; bytes; few */
                        const void *index = kind == 0 ? NULL : kind == 2 ? (const void *)bytes : words;
                        if (!covers_once(ROWS[r], COLUMNS[c], GRAINS[g], index, kind == 2 ? MGPU_U8 : MGPU_I32,
                                         kind == 3 ? 3 : TOKENS, threads))
                            snprintf(why, sizeof why, "[%lld, %lld], grain %lld, %d threads, index %d", (long long)ROWS[r],
                                     (long long)COLUMNS[c], (long long)GRAINS[g], threads, kind);
                    }
    report("every element has one owner", !why[0], why);
}

/* the work of the thread that has most, in the mean one's; a value is as much as two rows of zeros */
static void check_balance(void)
{
    char why[200];
    for (int threads = 2; threads <= 16; threads *= 2) {
        int64_t most = 0;
        for (int t = 0; t < threads; t++) {
            mgpu_own own = own_of(WORDS, 1, 1, words, MGPU_I32, TOKENS, t, threads);
            int64_t work = own.row_end - own.row;
            for (int i = 0; i < TOKENS; i++)
                work += words[i] >= own.row && words[i] < own.row_end ? 2 : 0;
            most = work > most ? work : most;
        }
        double ratio = (double)most * threads / (WORDS + 2 * TOKENS);
        char name[100];
        snprintf(name, sizeof name, "words are shared out evenly between %d threads", threads);
        snprintf(why, sizeof why, "one has %.2f times its share", ratio);
        report(name, ratio < 1.5, why);
    }
}

int main(void)
{
    draw_words();
    check_cover();
    check_balance();
    return failed != 0;
}
