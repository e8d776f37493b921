/* spans.c: a log of spans, in blocks, so that appending never moves spans. */
#include "runtime/base/base.h"
#include "runtime/base/trace.h"

#include <stdlib.h>

enum { BLOCK = 2048 };

typedef struct SpanBlock {
    Span spans[BLOCK];
} SpanBlock;
struct SpanLog {
    SpanBlock **blocks;
    int64_t count;
};

SpanLog *mgpu_spans_open(void) { return mgpu_allocate(1, sizeof(SpanLog)); }

void mgpu_spans_close(SpanLog *l)
{
    for (int64_t i = 0; l && i < (l->count + BLOCK - 1) / BLOCK; i++)
        free(l->blocks[i]);
    if (l)
        free(l->blocks);
    free(l);
}

void mgpu_spans_add(SpanLog *l, const Span *s)
{
    int64_t block = l->count / BLOCK;
    if (l->count % BLOCK == 0) {
        l->blocks = mgpu_resize(l->blocks, (size_t)(block + 1) * sizeof *l->blocks);
        l->blocks[block] = mgpu_allocate(1, sizeof(SpanBlock));
    }
    l->blocks[block]->spans[l->count++ % BLOCK] = *s;
}

int64_t mgpu_spans_count(const SpanLog *l) { return l->count; }

const Span *mgpu_spans_next(const SpanLog *l, int64_t *at)
{
    const Span *s = *at < l->count ? &l->blocks[*at / BLOCK]->spans[*at % BLOCK] : NULL;
    ++*at;
    return s;
}
