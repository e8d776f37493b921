/* threads.h: how many threads compute. */
#ifndef MGPU_RUNTIME_BASE_THREADS_H
#define MGPU_RUNTIME_BASE_THREADS_H

#include "runtime/base/base.h"
#include "runtime/base/options.h"

/* ---- cores.c: how many threads compute */
enum { MGPU_MOST_THREADS = 1024 };
int *mgpu_cores_allowed(int *count);                     /* the cores of the process's affinity; the caller frees */
/* processors that the control group of the process may use, infinite if nothing limits them; root: /sys/fs/cgroup,
 * membership: /proc/self/cgroup */
double mgpu_cgroup_limit(const char *root, const char *membership);
int mgpu_omp_threads(const char *value);                 /* of OMP_NUM_THREADS; -1: it is no number of threads */
/* of a run of the plan, and in words: "2 threads on 2 cores"; 0 and no words if GPUs compute */
int mgpu_used_threads(const Options *, const mgpu_plan *, char *text, size_t room);
int64_t mgpu_device_bytes(const mgpu_plan *, int64_t threads, int device); /* arena, workspaces of all its threads */
#endif
