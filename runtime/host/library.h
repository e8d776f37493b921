/* library.h: the kernels of a host device that a library computes in place of our own code. */
#ifndef MGPU_LIBRARY_H
#define MGPU_LIBRARY_H

#include "runtime/abi/mgpu.h"

typedef struct Library Library;         /* of one device */
typedef struct LibraryCall LibraryCall; /* one operation of a phase */

/* Returns NULL if there is no library; description: its name, or the reason. shards: of an exact program: the first samples of
 * the device's virtual shards, and the end of the last one [shards + 1]. Then every call is for a unit of a shard
 * (mgpu_kernel), or for a whole one, so that its bits depend on the size of that shard alone. 0, NULL: of another program. */
Library *mgpu_library_open(int64_t samples, int threads, const int64_t *shard, int64_t shards, char *description,
                           size_t capacity);
void mgpu_library_close(Library *);
/* Operations of one region are prepared in sequence, between begin and end. Returns NULL if our own code computes it. */
void mgpu_library_begin_region(Library *, int64_t chunk);
LibraryCall *mgpu_library_prepare(Library *, const mgpu_kernel *, int64_t result_bytes);
void mgpu_library_end_region(Library *);
void mgpu_library_ready(Library *);          /* everything prepared may be run */
int64_t mgpu_library_bytes(const Library *); /* allocated for scratch, packed weights and partial sums */

/* Returns true if it was prepared for a call of `samples`, with `all` samples on the device, by so many threads. */
bool mgpu_library_takes(const Library *, const LibraryCall *, int64_t all, int64_t samples, int threads);
/* threads have partial sums: each calls library_finish after a barrier */
bool mgpu_library_partial(const LibraryCall *);
/* Called by each thread before it computes a call's samples. */
void mgpu_library_begin(Library *, LibraryCall *, void *const *argument, int thread);
/* Computes samples [begin, end), or the thread's share of what is not divided by samples. first: the thread's first call. Of
 * exact programs: also the sum over samples [begin, end). */
void mgpu_library_run(Library *, LibraryCall *, void *const *argument, int thread, int64_t begin, int64_t end, bool first);
void mgpu_library_finish(Library *, LibraryCall *, void *const *argument, int thread);
#endif
