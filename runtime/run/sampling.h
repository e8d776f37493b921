/* sampling.h: samples the class that follows a text, and finds where the text ends. */
#ifndef MGPU_RUNTIME_RUN_SAMPLING_H
#define MGPU_RUNTIME_RUN_SAMPLING_H

#include "runtime/base/options.h"

/* chance: probability of each class, -1 for classes that must not follow; modified. number: index of the element in the text;
 * text: index of the text. Equal seeds give equal texts. */
int64_t mgpu_sample_class(double *chance, int64_t n, const RunOptions *, int64_t number, int64_t text);
/* *said: number of bytes before the first stop text, or before what may still become one. Returns true if there is a stop
 * text. */
bool mgpu_find_stop(const RunOptions *, const char *text, size_t bytes, size_t *clean_bytes);
#endif
