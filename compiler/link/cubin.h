/* cubin.h: what the functions of a cubin use. */
#ifndef MGPU_CUBIN_H
#define MGPU_CUBIN_H

#include <stdbool.h>
#include <stddef.h>

/* shared_bytes: static shared memory only; local_bytes includes spilled registers */
typedef struct CubinFunction {
    int registers, shared_bytes, local_bytes;
} CubinFunction;
bool cubin_function(const char *bytes, size_t length, const char *name, CubinFunction *); /* false: there is no such function */
#endif
