/* read_set.h: a data set of a model, opened and read, for targets that are readers of data sets. */
#ifndef MGPU_FUZZ_READ_SET_H
#define MGPU_FUZZ_READ_SET_H

#include "runtime/data/data.h"

#include <stddef.h>
#include <stdint.h>

typedef struct Variant {
    const char *inputs, *data;
} Variant; /* of a model; data: every %s stands for a path */

int choose_variant(int count, const uint8_t *data, size_t length); /* by the input's length and last byte */
/* opens the set, reads samples from both ends and looks at them; programs: by variant, filled as they come */
void read_set(const Variant *, const mgpu_program **programs, int which, const char *path);
#endif
