/* library.h: a host device's kernels that a library computes instead of our own code: which, for how many samples a call,
 * in which memory. */
#ifndef MGPU_LIBRARY_H
#define MGPU_LIBRARY_H

#include "runtime/abi/mgpu.h"

typedef struct Library Library;          /* of one device */
typedef struct LibraryCall LibraryCall;  /* one operation of a phase */

/* NULL: there is no library; said: which one, or why none */
Library *mgpu_library_open(int64_t samples, int threads, char *said, size_t room);
void mgpu_library_close(Library *);
/* Operations of one region are prepared one after the other, between begin and end. NULL: our own code does it. */
void mgpu_library_begin_region(Library *, int64_t chunk);
LibraryCall *mgpu_library_prepare(Library *, const mgpu_kernel *, int64_t result_bytes);
void mgpu_library_end_region(Library *);
void mgpu_library_ready(Library *);      /* all that have been prepared may be run */
int64_t mgpu_library_bytes(const Library *); /* that it has allocated: scratch, packed weights, partial sums */

/* whether it was prepared for a call of so many samples, of `all` of the device, by so many threads */
bool mgpu_library_takes(const Library *, const LibraryCall *, int64_t all, int64_t samples, int threads);
/* a sum over the threads is pending: every thread calls library_finish after a barrier */
bool mgpu_library_partial(const LibraryCall *);
/* samples [begin, end), or the thread's share of what is not divided by samples; first: the thread's first call */
void mgpu_library_run(Library *, LibraryCall *, void *const *argument, int thread, int64_t begin, int64_t end, bool first);
void mgpu_library_finish(Library *, LibraryCall *, void *const *argument, int thread);
#endif
