/* differences.c: compares two files of tensors. In: two open files; out: a line for each tensor whose bytes differ, with the
 * number of elements, and the largest difference, absolute and in units in the last place.
 *
 * Units in the last place (ULP) are counted as steps from one floating-point number of the type to the next: bits of numbers
 * above zero are ordered as integers, and those below zero likewise after their sign is taken off. */
#include "runtime/base/base.h"
#include "runtime/weights/weights.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { PIECE = 1 << 14 }; /* elements that are read at once */

typedef struct Difference {
    int64_t elements, at; /* that differ; at: which has the largest absolute difference */
    double most, a, b;    /* the values there */
    uint64_t most_steps;
    int64_t not_finite; /* elements that differ of which one is not finite; they are in no largest difference */
} Difference;

/* The position of a floating-point number among those of its type; zeros have 0. */
static int64_t position(const uint8_t *element, int64_t bytes)
{
    uint64_t bits = 0;
    memcpy(&bits, element, (size_t)bytes); /* little-endian */
    uint64_t sign = (uint64_t)1 << (8 * bytes - 1);
    return bits & sign ? -(int64_t)(bits & ~sign) : (int64_t)bits;
}

static void add_element(Difference *d, uint8_t dtype, const uint8_t *a, const uint8_t *b, int64_t i, int64_t index)
{
    int64_t bytes = mgpu_dtype_bytes(dtype);
    if (memcmp(a + i * bytes, b + i * bytes, (size_t)bytes) == 0)
        return;
    double x = mgpu_to_double(a, dtype, i), y = mgpu_to_double(b, dtype, i), size = fabs(x - y);
    bool first = d->elements++ == d->not_finite;
    if (!isfinite(x) || !isfinite(y)) {
        d->not_finite++;
        return;
    }
    if (first || size > d->most)
        d->most = size, d->a = x, d->b = y, d->at = index;
    if (!mgpu_dtype_is_float(dtype))
        return;
    int64_t p = position(a + i * bytes, bytes), q = position(b + i * bytes, bytes);
    uint64_t steps = p > q ? (uint64_t)p - (uint64_t)q : (uint64_t)q - (uint64_t)p;
    d->most_steps = steps > d->most_steps ? steps : d->most_steps;
}

static Difference difference_of(const SavedTensor *a, const SavedTensor *b)
{
    Difference d = {0};
    int64_t count = mgpu_elements(&a->tensor), bytes = mgpu_dtype_bytes(a->tensor.dtype);
    uint8_t *x = mgpu_allocate(PIECE, (size_t)bytes), *y = mgpu_allocate(PIECE, (size_t)bytes);
    for (int64_t at = 0; at < count; at += PIECE) {
        mgpu_range piece = {at, at + PIECE < count ? at + PIECE : count};
        mgpu_read_elements(a, piece, x);
        mgpu_read_elements(b, piece, y);
        int64_t now = piece.end - piece.begin;
        bool same = memcmp(x, y, (size_t)(now * bytes)) == 0;
        for (int64_t i = same ? now : 0; i < now; i++)
            add_element(&d, a->tensor.dtype, x, y, i, at + i);
    }
    free(x);
    free(y);
    return d;
}

static void print_kind(FILE *out, const mgpu_tensor *t)
{
    char shape[200];
    fprintf(out, "%s%s", mgpu_dtype_name(t->dtype), mgpu_shape_text(t->rank, t->extent, shape));
}

static void print_place(FILE *out, const mgpu_tensor *t, int64_t element)
{
    int64_t index[MGPU_MAX_RANK] = {0};
    char text[200];
    for (int k = t->rank - 1; k >= 0; k--) {
        index[k] = element % t->extent[k];
        element /= t->extent[k];
    }
    fprintf(out, " at %s", mgpu_shape_text(t->rank, index, text));
}

static void print_difference(FILE *out, const mgpu_tensor *t, const Difference *d)
{
    char grouped[2][32], value[2][32];
    int64_t count = mgpu_elements(t);
    fprintf(out, ": %s of %s element%s differ%s", mgpu_grouped(d->elements, grouped[0]), mgpu_grouped(count, grouped[1]),
            count == 1 ? "" : "s", d->elements == 1 ? "s" : "");
    if (d->elements > d->not_finite) {
        mgpu_two_numbers(d->a, d->b, value);
        fprintf(out, ", at most by %.6g", d->most);
        if (t->rank)
            print_place(out, t, d->at);
        fprintf(out, " (%s and %s)", value[0], value[1]);
        if (mgpu_dtype_is_float(t->dtype))
            fprintf(out, ", at most by %" PRIu64 " unit%s in the last place", d->most_steps, d->most_steps == 1 ? "" : "s");
    }
    if (d->not_finite)
        fprintf(out, "; %s of them %s not finite in one of the two", mgpu_grouped(d->not_finite, grouped[0]),
                d->not_finite == 1 ? "is" : "are");
    fputc('\n', out);
}

/* Returns whether they differ. */
static bool compare_tensors(const SavedTensor *a, const SavedTensor *b, const char *file, FILE *out)
{
    if (a->tensor.dtype != b->tensor.dtype || !mgpu_same_shape(&a->tensor, &b->tensor)) {
        fprintf(out, "  %s, %s: ", file, a->tensor.name);
        print_kind(out, &a->tensor);
        fputs(" and ", out);
        print_kind(out, &b->tensor);
        fputc('\n', out);
        return true;
    }
    Difference d = difference_of(a, b);
    if (!d.elements)
        return false;
    fprintf(out, "  %s, %s, ", file, a->tensor.name);
    print_kind(out, &a->tensor);
    print_difference(out, &a->tensor, &d);
    return true;
}

int mgpu_compare_tensors(const TensorFile *a, const TensorFile *b, const char *name, FILE *out)
{
    int differ = 0;
    for (int i = 0, k = 0; i < a->count || k < b->count;) {
        int order = i == a->count ? 1 : k == b->count ? -1 : strcmp(a->tensors[i].tensor.name, b->tensors[k].tensor.name);
        if (order)
            fprintf(out, "  %s, %s: only in %s\n", name, (order < 0 ? &a->tensors[i] : &b->tensors[k])->tensor.name,
                    (order < 0 ? a : b)->path);
        differ += order || compare_tensors(&a->tensors[i], &b->tensors[k], name, out);
        i += order <= 0;
        k += order >= 0;
    }
    return differ;
}
