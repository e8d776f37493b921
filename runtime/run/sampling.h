/* sampling.h: which class follows a text, and where it ends. */
#ifndef MGPU_RUNTIME_RUN_SAMPLING_H
#define MGPU_RUNTIME_RUN_SAMPLING_H

#include "runtime/base/options.h"

/* chance: the probability of each class, -1 for one that may not follow; it is changed. number: which element of the text, 0, 1,
 * ...; text: which of several: equal seeds give equal texts */
int64_t mgpu_sample_class(double *chance, int64_t n, const Options *, int64_t number, int64_t text);
/* *said: how many bytes come before the first stop text, or before what may still become one; true: it is one, and the text ends
 */
bool mgpu_find_stop(const Options *, const char *text, size_t bytes, size_t *said);
#endif
