/* host.h: kernels as host C.
 *
 *   host/target.c       what other stages ask
 *   host/map_threads.c         how the workers of a thread pool share a kernel
 *   host/nest.c         a nest as rows or columns
 *   host/contraction.c  tables of contractions
 *   host/scan.c         a scan: functions that a loop calls, and the loop
 *   host/kernels.c      functions, and the file of all kernels
 */
#ifndef MGPU_HOST_H
#define MGPU_HOST_H

#include "compiler/kernel/target.h"
#include "compiler/loops/lower.h"

extern const Target host_target;

void host_map_threads(Kernel *, bool alone);         /* alone: one thread calls it, for any samples */
Code *host_function(void);                           /* (void *const *argument, ...) {} */
const Code *host_lower(const Kernel *, bool finish); /* finish: its end, if it has partial sums */
void host_nest(Lowering *, const Nest *);
/* its row in the table of all kernels */
void kernel_emit_row(const Kernel *, const char *function, Text *);
void emit_kernels(const Program *, Text *);
void host_lower_scan(Kernel *);
void scan_emit(const Kernel *, Text *);
void nests_emit(const Kernel *, Text *);
#endif
