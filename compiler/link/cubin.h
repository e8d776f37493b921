/* cubin.h: what a cubin says of its functions. */
#ifndef MGPU_CUBIN_H
#define MGPU_CUBIN_H

#include <stdbool.h>
#include <stddef.h>

typedef struct CubinFunction { int registers, shared_bytes, local_bytes; } CubinFunction; /* shared: static; local: spilled registers, too */
bool cubin_function(const char *bytes, size_t length, const char *name, CubinFunction *); /* false: it is not there */
#endif
