/* pairs.c: the stage pairs(same = 0.5): makes left, right and same from sample i of a labelled stream and a partner.
 *
 * With probability `same` the partner is another sample with i's label, otherwise one with another label, each equally likely.
 * Random numbers depend on (seed, epoch, i): training sees new pairs in every epoch, evaluation always the same. */
#include "runtime/base/base.h"
#include "runtime/data/data.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LEFT, RIGHT, SAME };

typedef struct Labelled {
    double label;
    int64_t whole; /* the label of i64, since several of them may be one double; else 0 */
    int64_t sample;
} Labelled;
typedef struct Pairs {
    double same;
    int value;            /* column of the previous stream that left and right come from */
    Labelled *sorted;     /* sorted by label */
    int64_t *place;       /* for each sample: its index in `sorted` */
    int64_t *begin, *end; /* for each index: the range of its label */
} Pairs;

static int64_t partner(const Pairs *p, int64_t samples, int64_t sample, const Reading *r, bool *same)
{
    uint64_t key = mgpu_stage_key(r, "pairs");
    int64_t place = p->place[sample], begin = p->begin[place], end = p->end[place], alike = end - begin;
    *same = mgpu_stage_random(r, key, sample, 0) < p->same;
    double u = mgpu_stage_random(r, key, sample, 1);
    if (*same && alike == 1)
        return sample;
    if (*same) {
        int64_t k = begin + (int64_t)(u * (double)(alike - 1));
        return p->sorted[k >= place ? k + 1 : k].sample;
    }
    int64_t k = (int64_t)(u * (double)(samples - alike));
    return p->sorted[k >= begin ? k + alike : k].sample;
}

static void take(Item *to, const Item *from)
{
    bool wanted = to->wanted;
    *to = *from;
    to->wanted = wanted;
}

static void read_pair(const Stream *s, int64_t sample, Reading *r, Item *items)
{
    const Pairs *p = s->state;
    Item before[s->from->column_count];
    bool same, *answer = mgpu_reading_allocate(r, sizeof *answer);
    int64_t other = partner(p, s->samples, sample, r, &same);
    for (int side = LEFT; side <= RIGHT; side++) {
        if (!items[side].wanted)
            continue;
        memset(before, 0, sizeof before);
        before[p->value].wanted = true;
        s->from->read(s->from, side == LEFT ? sample : other, r, before);
        take(&items[side], &before[p->value]);
    }
    *answer = same;
    items[SAME].dtype = MGPU_BOOL;
    items[SAME].rank = 0;
    items[SAME].data = answer;
}

static void describe_pair(const Stream *s, int64_t sample, int column, char *text, size_t capacity)
{
    const Pairs *p = s->state;
    if (column == LEFT)
        mgpu_describe(s->from, sample, p->value, text, capacity);
    else
        snprintf(text, capacity, "pair %lld", (long long)sample);
}

static const char *name_pair(const Stream *s, int64_t sample, char *text, size_t capacity)
{
    (void)s;
    snprintf(text, capacity, "%lld", (long long)sample);
    return "pair";
}

static void close_pairs(Stream *s)
{
    Pairs *p = s->state;
    free(p->sorted);
    free(p->place);
    free(p->begin);
    free(p->end);
    free(p);
}

static int by_label(const void *a, const void *b)
{
    const Labelled *x = a, *y = b;
    return x->label != y->label   ? (x->label > y->label) - (x->label < y->label)
           : x->whole != y->whole ? (x->whole > y->whole) - (x->whole < y->whole)
                                  : (x->sample > y->sample) - (x->sample < y->sample);
}

static bool same_label(const Labelled *a, const Labelled *b) { return a->label == b->label && a->whole == b->whole; }

static Labelled read_label(const Stream *s, int64_t sample, int label, const Item *item)
{
    char place[600];
    Labelled l = {.label = mgpu_to_double(item->data, item->dtype, 0), .sample = sample};
    if (item->dtype == MGPU_I64)
        memcpy(&l.whole, item->data, sizeof l.whole);
    if (isnan(l.label)) {
        mgpu_describe(s->from, sample, label, place, sizeof place);
        mgpu_fail(MGPU_BAD_INPUT, "%s%s: the label is nan; pairs are made of labels that are equal or differ", s->where, place);
    }
    return l;
}

static void sort_labels(Stream *s, Pairs *p, int label)
{
    Item items[s->from->column_count];
    Reading r = {0};
    int64_t n = s->samples;
    p->sorted = mgpu_allocate((size_t)n, sizeof *p->sorted);
    p->place = mgpu_allocate((size_t)n, sizeof *p->place);
    p->begin = mgpu_allocate((size_t)n, sizeof *p->begin);
    p->end = mgpu_allocate((size_t)n, sizeof *p->end);
    for (int64_t i = 0; i < n; i++) {
        memset(items, 0, sizeof items);
        items[label].wanted = true;
        s->from->read(s->from, i, &r, items);
        p->sorted[i] = read_label(s, i, label, &items[label]);
        mgpu_reading_reset(&r);
    }
    mgpu_reading_close(&r);
    qsort(p->sorted, (size_t)n, sizeof *p->sorted, by_label);
    for (int64_t begin = 0, end; begin < n; begin = end) {
        for (end = begin; end < n && same_label(&p->sorted[end], &p->sorted[begin]); end++)
            p->place[p->sorted[end].sample] = end;
        for (int64_t k = begin; k < end; k++) {
            p->begin[k] = begin;
            p->end[k] = end;
        }
    }
}

Stream *mgpu_open_pairs(const Opening *o)
{
    static const char *const NAMES[] = {"left", "right", "same"};
    Stream *s = mgpu_new_stream(o, MGPU_COUNT(NAMES));
    Pairs *p = s->state = mgpu_allocate(1, sizeof *p);
    int label = mgpu_find_column(o->from, "label");
    p->same = mgpu_option_number(o->call, "same", 0.5);
    p->value = label == 0;
    if (label < 0 || o->from->column_count != 2 || o->from->columns[label].rank != 0)
        mgpu_fail(MGPU_BAD_INPUT, "%spairs needs a column 'label' of numbers and one other", o->where);
    sort_labels(s, p, label);
    if (s->samples && p->same < 1 && p->end[0] == s->samples)
        mgpu_fail(MGPU_BAD_INPUT, "%sall %lld samples have one label: there are no pairs that differ", o->where,
                  (long long)s->samples);
    for (int c = 0; c < MGPU_COUNT(NAMES); c++) {
        s->columns[c] = c == SAME ? (StreamColumn){.uniform = true, .dtype = MGPU_BOOL} : o->from->columns[p->value];
        s->columns[c].name = NAMES[c];
    }
    s->read = read_pair;
    s->describe = describe_pair;
    s->name = name_pair;
    s->close = close_pairs;
    return s;
}
