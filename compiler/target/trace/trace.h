/* trace.h: kernels as pseudo-code, for tests of fusion, and to show what a target needs. No --devices names it. */
#ifndef MGPU_TRACE_H
#define MGPU_TRACE_H

#include "compiler/kernel/target.h"

extern const Target trace_target;
#endif
