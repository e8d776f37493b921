/* scatter: the gradient of an embedding on the host, in four ways that all give the same sums: every row of the table is the sum
 * of its tokens' gradients in the order of the tokens, whatever the number of threads.
 *
 * usage: scatter [most threads]
 * build: ninja scatter in the build folder makes bench/scatter there
 *
 *   columns   a thread has some columns of all rows: it clears them, then adds them for every token
 *   rows      a thread has some rows, equally many: it clears them, then looks at every token and adds those of its rows
 *   owned     what kernels do: the part of the table that runtime/host/scatter.c gives the thread, otherwise as rows
 *   sorted    likewise, but a thread sorts its tokens by row (a counting sort, stable) and makes row after row, once
 *
 * Tokens are drawn as words are: token k with a probability of about 1 / (k + 3), or all alike. The best of several turns. */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "runtime/abi/mgpu_scatter.h"

enum { MOST_THREADS = 64, TURNS = 15, GRAIN = 16 };

typedef struct Work {
    int64_t tokens, vocabulary, width;
    int32_t *index;
    float *gradient, *table;
    int threads, way;
    int32_t *scratch[MOST_THREADS];
    pthread_barrier_t barrier;
    double took[MOST_THREADS][TURNS];
} Work;

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int64_t share(int64_t extent, int64_t grain, int64_t index, int64_t parts)
{
    int64_t begin = (extent + grain - 1) / grain * index / parts * grain;
    return begin < extent ? begin : extent;
}

static void add_row(float *restrict to, const float *restrict from, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        to[i] += from[i];
}

static void columns(const Work *w, int thread)
{
    int64_t from = share(w->width, GRAIN, thread, w->threads), to = share(w->width, GRAIN, thread + 1, w->threads);
    if (from == to)
        return;
    for (int64_t r = 0; r < w->vocabulary; r++)
        memset(w->table + r * w->width + from, 0, (size_t)(to - from) * sizeof(float));
    for (int64_t i = 0; i < w->tokens; i++)
        add_row(w->table + w->index[i] * w->width + from, w->gradient + i * w->width + from, to - from);
}

static void add_own(const Work *w, int64_t from, int64_t to)
{
    memset(w->table + from * w->width, 0, (size_t)((to - from) * w->width) * sizeof(float));
    for (int64_t i = 0; i < w->tokens; i++)
        if (w->index[i] >= from && w->index[i] < to)
            add_row(w->table + w->index[i] * w->width, w->gradient + i * w->width, w->width);
}

static void rows(const Work *w, int thread)
{
    add_own(w, share(w->vocabulary, 1, thread, w->threads), share(w->vocabulary, 1, thread + 1, w->threads));
}

static mgpu_own own_of(const Work *w, int thread)
{
    mgpu_part part = {.samples = 1, .end = 1, .thread = thread, .threads = w->threads};
    bool small = w->vocabulary * w->width <= 1 << 18 || w->vocabulary <= 1024; /* as compiler/target/host/map_threads.c */
    mgpu_own own = mgpu_own_part(w->vocabulary, small ? w->width : 1, GRAIN, w->index, MGPU_I32, w->tokens, &part);
    own.column_end = small ? own.column_end : w->width;
    return own;
}

static void owned(const Work *w, int thread)
{
    mgpu_own own = own_of(w, thread);
    int64_t width = own.column_end - own.column;
    if (width == w->width)
        memset(w->table + own.row * width, 0, (size_t)((own.row_end - own.row) * width) * sizeof(float));
    for (int64_t r = own.row; r < own.row_end && width < w->width; r++)
        memset(w->table + r * w->width + own.column, 0, (size_t)width * sizeof(float));
    for (int64_t i = 0; i < w->tokens; i++)
        if (w->index[i] >= own.row && w->index[i] < own.row_end)
            add_row(w->table + w->index[i] * w->width + own.column, w->gradient + i * w->width + own.column, width);
}

static void sorted(const Work *w, int thread)
{
    mgpu_own own = own_of(w, thread);
    int64_t from = own.row, to = own.row_end, width = own.column_end - own.column;
    int32_t *end = w->scratch[thread], *list = end + (to - from) + 1;
    memset(end, 0, (size_t)(to - from + 1) * sizeof *end);
    for (int64_t i = 0; i < w->tokens; i++)
        if (w->index[i] >= from && w->index[i] < to)
            end[w->index[i] - from]++;
    int32_t sum = 0;
    for (int64_t r = 0; r < to - from; r++) {
        int32_t count = end[r];
        end[r] = sum;
        sum += count;
    }
    for (int64_t i = 0; i < w->tokens; i++)
        if (w->index[i] >= from && w->index[i] < to)
            list[end[w->index[i] - from]++] = (int32_t)i;
    int32_t at = 0;
    for (int64_t r = 0; r < to - from; r++) {
        float *row = w->table + (from + r) * w->width + own.column;
        const float *first = w->gradient + own.column;
        if (at < end[r])
            memcpy(row, first + list[at++] * w->width, (size_t)width * sizeof(float));
        else
            memset(row, 0, (size_t)width * sizeof(float));
        for (; at < end[r]; at++)
            add_row(row, first + list[at] * w->width, width);
    }
}

static void (*const WAY[])(const Work *, int) = {columns, rows, owned, sorted};
static const char *const NAME[] = {"columns", "rows", "owned", "sorted"};

typedef struct Thread {
    Work *work;
    int number;
} Thread;

static void *run(void *argument)
{
    const Thread *t = argument;
    Work *w = t->work;
    for (int i = 0; i < TURNS; i++) {
        pthread_barrier_wait(&w->barrier);
        double start = seconds();
        WAY[w->way](w, t->number);
        w->took[t->number][i] = seconds() - start;
    }
    return NULL;
}

static double measure(Work *w)
{
    pthread_t threads[MOST_THREADS];
    Thread each[MOST_THREADS];
    pthread_barrier_init(&w->barrier, NULL, (unsigned)w->threads);
    for (int t = 0; t < w->threads; t++) {
        each[t] = (Thread){w, t};
        pthread_create(&threads[t], NULL, run, &each[t]);
    }
    for (int t = 0; t < w->threads; t++)
        pthread_join(threads[t], NULL);
    pthread_barrier_destroy(&w->barrier);
    double best = 1e9;
    for (int i = 0; i < TURNS; i++) {
        double slowest = 0;
        for (int t = 0; t < w->threads; t++)
            slowest = w->took[t][i] > slowest ? w->took[t][i] : slowest;
        best = slowest < best ? slowest : best;
    }
    return best;
}

static void draw_tokens(Work *w, int words)
{
    uint64_t state = 1;
    double *sum = malloc(sizeof *sum * (size_t)w->vocabulary), total = 0;
    for (int64_t k = 0; k < w->vocabulary; k++)
        sum[k] = total += words ? 1.0 / (double)(k + 3) : 1.0;
    for (int64_t i = 0; i < w->tokens; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        double u = (double)(state >> 11) * 0x1p-53 * total;
        int64_t low = 0, high = w->vocabulary - 1;
        while (low < high) {
            int64_t middle = (low + high) / 2;
            if (sum[middle] > u)
                high = middle;
            else
                low = middle + 1;
        }
        w->index[i] = (int32_t)low;
    }
    free(sum);
}

int main(int argc, char **argv)
{
    static const int64_t SIZES[][3] = {{65, 64, 1024},    {65, 64, 8192},     {65, 384, 8192},   {50257, 64, 1024},
                                       {50257, 64, 8192}, {50257, 768, 1024}, {50257, 768, 8192}};
    int most = argc > 1 ? atoi(argv[1]) : 2;
    if (most < 1 || most > MOST_THREADS)
        return 2;
    printf("%-24s %-6s %8s %10s %10s %10s %10s   ms\n", "vocabulary width tokens", "drawn", "threads", NAME[0], NAME[1], NAME[2],
           NAME[3]);
    for (int s = 0; s < (int)(sizeof SIZES / sizeof *SIZES); s++)
        for (int words = 0; words < 2; words++) {
            Work w = {.vocabulary = SIZES[s][0], .width = SIZES[s][1], .tokens = SIZES[s][2]};
            size_t elements = (size_t)(w.vocabulary * w.width);
            w.index = malloc(sizeof *w.index * (size_t)w.tokens);
            w.gradient = aligned_alloc(64, sizeof(float) * (size_t)(w.tokens * w.width));
            w.table = aligned_alloc(64, sizeof(float) * elements);
            float *first = malloc(sizeof(float) * elements);
            for (int64_t i = 0; i < w.tokens * w.width; i++)
                w.gradient[i] = (float)((i * 2654435761u % 1000) - 500) * 1e-3f;
            draw_tokens(&w, words);
            for (w.threads = 1; w.threads <= most; w.threads *= 2) {
                for (int t = 0; t < w.threads; t++)
                    w.scratch[t] = malloc(sizeof(int32_t) * (size_t)(w.vocabulary + w.tokens + 2));
                printf("%9lld %5lld %8lld %-6s %8d", (long long)w.vocabulary, (long long)w.width, (long long)w.tokens,
                       words ? "words" : "alike", w.threads);
                for (w.way = 0; w.way < 4; w.way++) {
                    printf(" %10.4f", 1e3 * measure(&w));
                    if (w.threads == 1 && w.way == 0)
                        memcpy(first, w.table, sizeof(float) * elements);
                    else if (memcmp(first, w.table, sizeof(float) * elements) != 0)
                        printf(" DIFFERS");
                }
                printf("\n");
                for (int t = 0; t < w.threads; t++)
                    free(w.scratch[t]);
            }
            free(w.index);
            free(w.gradient);
            free(w.table);
            free(first);
        }
    return 0;
}
