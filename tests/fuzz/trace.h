/* trace.h: what a training run says, number by number, each with a name; and the two sides that models.c compares.
 *
 *   step 3 loss, step 3 lr, step 3 grad_norm, train 1 NAME (of epoch 1), eval 3 NAME (after step 3), weight NAME 5,
 *   average NAME 5 (element 5 at the end), output NAME 5 */
#ifndef MGPU_FUZZ_TRACE_H
#define MGPU_FUZZ_TRACE_H

#include <stdbool.h>

typedef struct Said {
    const char *name;
    double value, error; /* error: how far beside it is right, beyond the tolerance; INFINITY: it cannot be compared */
} Said;
typedef struct Trace {
    Said *said;
    int count;
} Trace;

void trace_add(Trace *, double value, const char *pattern, ...) __attribute__((format(printf, 3, 4)));
/* errors: `factor` of what is largest in a group; of weights, of how far they are from what they began with */
void trace_bound(Trace *, const Trace *initial, double factor);
/* the first number of `other` that is not that of `expected`, in words; NULL: none. What only one of them says does not
 * count; *compared: how many both say. */
/* a group: what is called the same but for the last number */
/* errors: what a group is off in the others, at most, times so much */
void trace_widen(Trace *, const Trace *const *others, int count, double factor);
const char *trace_compare(const Trace *expected, const Trace *other, double tolerance, int *compared);

/* ---- programs.c: what a compiled program says that has run in `folder` */
typedef struct SampleFile {
    const char *name;
    const char *type; /* as NumPy has it: "<f8", "|u1", ... */
    int rank;
    const long long *extent;
    long long samples;
} SampleFile;
bool write_samples(const char *path, const SampleFile *, double (*value)(void *, long long sample, long long element),
                   void *context);
void read_outputs(Trace *, const char *pattern); /* OUT.NAME.npy for each output, or OUT.npy for the only one, "first" */
void read_log(Trace *, const char *path);
void read_weights(Trace *, const char *path, const char *what); /* what: "weight", "average" */
#endif
