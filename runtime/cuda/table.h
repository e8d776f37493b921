/* table.h: the parameter of a launch that executes several calls of one function, as mgpu_calls in mgpu_device.h reads it: arrays
 * of the calls' samples, arguments, first blocks and parameters, each with room for the most calls of the function. */
#ifndef MGPU_TABLE_H
#define MGPU_TABLE_H

#include "runtime/abi/mgpu.h"

#include <string.h>

typedef struct CallTable {
    _Alignas(8) uint8_t bytes[MGPU_TABLE_BYTES];
    int64_t *n;
    void **argument;
    uint32_t *first;
    uint32_t *given;
    int capacity, arguments, words; /* capacity: most calls; of each call: arguments and words */
    int count;                      /* calls so far */
    unsigned blocks;                /* their blocks in all */
} CallTable;

/* Makes an empty table; returns false if `capacity` calls do not fit. */
static inline bool mgpu_begin_table(CallTable *t, int capacity, int arguments, int words)
{
    *t = (CallTable){.capacity = capacity, .arguments = arguments, .words = words > 0 ? words : 1};
    t->n = (int64_t *)(void *)t->bytes;
    t->argument = (void **)(t->n + capacity);
    t->first = (uint32_t *)(t->argument + (ptrdiff_t)capacity * arguments);
    t->given = t->first + capacity;
    if ((ptrdiff_t)capacity * mgpu_call_bytes(arguments, t->words) > MGPU_TABLE_BYTES)
        return false;
    for (int i = 0; i < capacity; i++)
        t->first[i] = UINT32_MAX;
    return true;
}

/* given NULL: the call has no parameters */
static inline void mgpu_add_call(CallTable *t, void *const *argument, int64_t n, const uint32_t *given, unsigned blocks)
{
    int row = t->count++;
    t->n[row] = n;
    memcpy(t->argument + (ptrdiff_t)row * t->arguments, argument, (size_t)t->arguments * sizeof *argument);
    t->first[row] = t->blocks;
    if (given)
        memcpy(t->given + (ptrdiff_t)row * t->words, given, (size_t)t->words * sizeof *given);
    t->blocks += blocks;
}
#endif
