/* arrange.c: tensors derived from tensors of a file: transposed, slices of rows, concatenated, summed, or with the rows of rotary
 * heads in another order. In: tensors of a file; out: tensors that are read in the same way, a range of elements at a time, so
 * that nothing is copied before it is read. */
#include "runtime/base/base.h"
#include "runtime/data/data.h"
#include "runtime/engine/processes.h"
#include "runtime/weights/rules.h"

#include <string.h>

typedef struct Arranged {
    SavedTensor saved; /* first, so that a SavedTensor can be cast to Arranged */
    SavedTensor *const *of;
    int count;    /* number of operands that are concatenated or summed */
    Strided walk; /* for one operand: where each element is, counted from its element `first` */
    int64_t first;
} Arranged;

/* Reads elements of the operand that are contiguous there at once. */
static void read_walk(const SavedTensor *t, mgpu_range elements, uint8_t *to)
{
    const Arranged *a = (const Arranged *)t;
    int64_t bytes = mgpu_dtype_bytes(t->tensor.dtype);
    int last = a->walk.rank - 1;
    Strided s = a->walk;
    mgpu_strided_begin(&s, elements.begin);
    for (int64_t at = elements.begin; at < elements.end;) {
        int64_t run = last >= 0 && s.stride[last] == 1 ? s.extent[last] - s.at[last] : 1;
        run = run < elements.end - at ? run : elements.end - at;
        mgpu_read_elements(a->of[0], (mgpu_range){a->first + s.offset, a->first + s.offset + run}, to);
        to += run * bytes;
        at += run;
        if (run > 1)
            s.at[last] += run - 1, s.offset += run - 1;
        mgpu_strided_next(&s);
    }
}

static void read_joined(const SavedTensor *t, mgpu_range elements, uint8_t *to)
{
    const Arranged *a = (const Arranged *)t;
    int64_t bytes = mgpu_dtype_bytes(t->tensor.dtype), begin = 0;
    for (int i = 0; i < a->count; i++) {
        int64_t end = begin + mgpu_elements(&a->of[i]->tensor);
        mgpu_range part = mgpu_overlap(elements, (mgpu_range){begin, end});
        if (part.begin < part.end)
            mgpu_read_elements(a->of[i], (mgpu_range){part.begin - begin, part.end - begin}, to);
        to += (part.end - part.begin) * bytes;
        begin = end;
    }
}

static void read_sum(const SavedTensor *t, mgpu_range elements, uint8_t *to)
{
    enum { AT_ONCE = 512 };
    const Arranged *a = (const Arranged *)t;
    for (int64_t at = elements.begin; at < elements.end; at += AT_ONCE) {
        int64_t count = elements.end - at < AT_ONCE ? elements.end - at : AT_ONCE;
        double total[AT_ONCE] = {0};
        for (int i = 0; i < a->count; i++) {
            double raw[AT_ONCE], more[AT_ONCE];
            mgpu_read_elements(a->of[i], (mgpu_range){at, at + count}, (uint8_t *)raw);
            mgpu_convert(more, t->tensor.dtype, raw, a->of[i]->tensor.dtype, count);
            for (int64_t k = 0; k < count; k++)
                total[k] += more[k];
        }
        memcpy(to + (at - elements.begin) * (int64_t)sizeof *total, total, (size_t)count * sizeof *total);
    }
}

static Arranged *arranged(TensorFile *file, ReadElements *read, SavedTensor *const *of, int count)
{
    Arranged *a = mgpu_adopt_memory(file, mgpu_allocate(1, sizeof *a));
    SavedTensor **kept = mgpu_adopt_memory(file, mgpu_allocate((size_t)count, sizeof *kept));
    memcpy(kept, of, (size_t)count * sizeof *kept);
    a->saved.tensor = of[0]->tensor;
    a->saved.read = read;
    a->of = kept;
    a->count = count;
    return a;
}

/* Derives an identical tensor that is read by strides. */
static Arranged *walked(TensorFile *file, SavedTensor *t)
{
    const Arranged *inner = (const Arranged *)t;
    if (t->read == read_walk && inner->walk.rank == t->tensor.rank) { /* combines two walks into one */
        Arranged *a = arranged(file, read_walk, inner->of, 1);
        a->saved.tensor = t->tensor;
        a->walk = inner->walk;
        a->first = inner->first;
        return a;
    }
    Arranged *a = arranged(file, read_walk, &t, 1);
    a->walk.rank = t->tensor.rank;
    bool any = mgpu_elements(&t->tensor) > 0; /* an empty tensor is never read, and its other extents may be huge */
    for (int64_t k = t->tensor.rank - 1, step = any; k >= 0; k--) {
        a->walk.extent[k] = t->tensor.extent[k];
        a->walk.stride[k] = step;
        step *= any ? t->tensor.extent[k] : 0;
    }
    return a;
}

SavedTensor *mgpu_transposed(TensorFile *file, SavedTensor *t, const int *order, int count)
{
    int rank = t->tensor.rank, swapped[MGPU_MAX_RANK];
    unsigned seen = 0;
    for (int k = 0; k < rank; k++)
        swapped[k] = k < rank - 2 ? k : 2 * rank - 3 - k;
    order = count ? order : swapped;
    if (count && count != rank)
        return NULL;
    if (!count && rank < 2)
        return t;
    Arranged *a = walked(file, t);
    Strided before = a->walk;
    for (int k = 0; k < rank; k++) {
        if (order[k] < 0 || order[k] >= rank || seen & 1u << order[k])
            return NULL;
        seen |= 1u << order[k];
        a->saved.tensor.extent[k] = a->walk.extent[k] = before.extent[order[k]];
        a->walk.stride[k] = before.stride[order[k]];
    }
    return &a->saved;
}

SavedTensor *mgpu_rows_of(TensorFile *file, SavedTensor *t, int64_t begin, int64_t end)
{
    if (!t->tensor.rank || begin < 0 || end < begin || end > t->tensor.extent[0])
        return NULL;
    Arranged *a = walked(file, t);
    a->first += begin * a->walk.stride[0];
    a->saved.tensor.extent[0] = a->walk.extent[0] = end - begin;
    return &a->saved;
}

SavedTensor *mgpu_joined(TensorFile *file, SavedTensor *const *of, int count)
{
    Arranged *a = arranged(file, read_joined, of, count);
    mgpu_tensor *to = &a->saved.tensor;
    for (int i = 1; i < count; i++) {
        const mgpu_tensor *t = &of[i]->tensor;
        bool fits = to->rank && t->rank == to->rank && t->dtype == to->dtype;
        for (int k = 1; fits && k < t->rank; k++)
            fits = t->extent[k] == to->extent[k];
        int64_t bytes = mgpu_dtype_bytes(to->dtype);
        if (!fits || __builtin_add_overflow(to->extent[0], t->extent[0], &to->extent[0]))
            return NULL;
        for (int k = 0; k < to->rank; k++)
            if (__builtin_mul_overflow(bytes, to->extent[k], &bytes))
                return NULL;
    }
    return &a->saved;
}

SavedTensor *mgpu_summed(TensorFile *file, SavedTensor *const *of, int count)
{
    Arranged *a = arranged(file, read_sum, of, count);
    mgpu_tensor *to = &a->saved.tensor;
    int64_t bytes = sizeof(double);
    to->dtype = MGPU_F64;
    for (int i = 1; i < count; i++)
        if (of[i]->tensor.rank != to->rank ||
            memcmp(of[i]->tensor.extent, to->extent, (size_t)to->rank * sizeof *to->extent) != 0)
            return NULL;
    for (int k = 0; k < to->rank; k++)
        if (__builtin_mul_overflow(bytes, to->extent[k], &bytes))
            return NULL;
    return &a->saved;
}

SavedTensor *mgpu_reshaped(TensorFile *file, SavedTensor *t, const mgpu_tensor *as)
{
    int at = 0;
    for (int k = 0; k < as->rank; k++) { /* both shapes are equal without their axes of extent 1 */
        while (as->extent[k] != 1 && at < t->tensor.rank && t->tensor.extent[at] == 1)
            at++;
        if (as->extent[k] != 1 && (at == t->tensor.rank || t->tensor.extent[at++] != as->extent[k]))
            return NULL;
    }
    for (; at < t->tensor.rank; at++)
        if (t->tensor.extent[at] != 1)
            return NULL;
    Arranged *a = arranged(file, read_joined, &t, 1);
    a->saved.tensor.rank = as->rank;
    memcpy(a->saved.tensor.extent, as->extent, sizeof as->extent);
    return &a->saved;
}

/* Transposes each head's rows as a matrix of `rows` columns; 0: of half as many columns as the head has rows. */
static SavedTensor *transposed_heads(TensorFile *file, SavedTensor *t, int64_t heads, int64_t rows)
{
    int rank = t->tensor.rank;
    if (!rank || rank + 2 > MGPU_MAX_RANK || heads < 1 || t->tensor.extent[0] % 2 || t->tensor.extent[0] / 2 % heads)
        return NULL;
    Arranged *a = walked(file, t);
    Strided *w = &a->walk, before = *w;
    int64_t of_head = t->tensor.extent[0] / heads, columns = (rows ? rows : of_head / 2), step = before.stride[0];
    const int64_t extent[] = {heads, columns, of_head / columns}, stride[] = {of_head * step, step, columns * step};
    w->rank = rank + 2;
    for (int k = 0; k < rank + 2; k++) {
        w->extent[k] = k < 3 ? extent[k] : before.extent[k - 2];
        w->stride[k] = k < 3 ? stride[k] : before.stride[k - 2];
    }
    return &a->saved;
}

/* llama.cpp stores the rows of each head in pairs (i, i + d / 2), as its rotation reads them: [h, d / 2, 2] -> [h, 2, d / 2]. */
SavedTensor *mgpu_unpaired(TensorFile *file, SavedTensor *t, int64_t heads) { return transposed_heads(file, t, heads, 2); }

SavedTensor *mgpu_paired(TensorFile *file, SavedTensor *t, int64_t heads) { return transposed_heads(file, t, heads, 0); }

/* Keras stores the gates of a GRU as z, r, h, and the two biases of one as rows. `hh`, [3u, u], tells the u; of a simple
 * recurrent layer it is [u, u], and nothing changes. */
SavedTensor *mgpu_gru_gates(TensorFile *file, SavedTensor *t, const SavedTensor *hh)
{
    int64_t rows = hh->tensor.extent[0], units = hh->tensor.extent[1];
    bool biases = t->tensor.rank == 2 && t->tensor.extent[0] == 2 && t->tensor.extent[1] == rows;
    if (hh->tensor.rank != 2 || !t->tensor.rank || (!biases && t->tensor.extent[0] != rows))
        return NULL;
    if (rows == units)
        return t;
    if (units < 1 || rows % 3 || rows / 3 != units)
        return NULL;
    SavedTensor *of[6];
    const mgpu_tensor flat = {.rank = 1, .extent = {rows}};
    static const int ORDER[] = {1, 0, 2};
    for (int i = 0; i < (biases ? 6 : 3); i++) {
        SavedTensor *x = biases ? mgpu_reshaped(file, mgpu_rows_of(file, t, i / 3, i / 3 + 1), &flat) : t;
        of[i] = mgpu_rows_of(file, x, ORDER[i % 3] * units, (ORDER[i % 3] + 1) * units);
    }
    return mgpu_joined(file, of, biases ? 6 : 3);
}

SavedTensor *mgpu_channels_last(TensorFile *file, SavedTensor *t, int64_t channels)
{
    int last = t->tensor.rank - 1;
    if (last < 1)
        return t; /* a bias */
    if (last + 1 >= MGPU_MAX_RANK || channels < 1 || t->tensor.extent[last] % channels)
        return NULL;
    Arranged *a = walked(file, t);
    Strided *w = &a->walk;
    int64_t places = t->tensor.extent[last] / channels, step = w->stride[last];
    w->rank++;
    w->extent[last] = places, w->extent[last + 1] = channels;
    w->stride[last + 1] = step * places; /* the columns are [c, h w]: those of one channel are contiguous */
    return &a->saved;
}

void mgpu_mark_used(const TensorFile *file, const SavedTensor *t)
{
    bool own = t >= file->tensors && t < file->tensors + file->count;
    if (own && t->unreadable)
        mgpu_fail(MGPU_BAD_INPUT, "%s", t->unreadable);
    if (own)
        file->used[t - file->tensors] = true;
    for (int i = 0; !own && i < ((const Arranged *)t)->count; i++)
        mgpu_mark_used(file, ((const Arranged *)t)->of[i]);
}
