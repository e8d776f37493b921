/* cores.h: the number of compute threads; used by programs, and by mgpuc to predict a run. */
#ifndef MGPU_CORES_H
#define MGPU_CORES_H

#include "runtime/abi/mgpu.h"

#include <stddef.h>

enum { MGPU_MOST_THREADS = 1024 };
int mgpu_cores_available(char *why, size_t capacity); /* at least 1; why: "2 cores", "2 of 8 cores (...)" */
int *mgpu_cores_allowed(int *count);                  /* the affinity of the process; the caller frees */
/* Returns the CPU limit of the process's control groups in cores, or infinity. root: /sys/fs/cgroup, membership:
 * /proc/self/cgroup. */
double mgpu_cgroup_limit(const char *root, const char *membership);
int mgpu_omp_threads(const char *value);                               /* of OMP_NUM_THREADS; -1: invalid */
int mgpu_default_threads(const char *program);                         /* cores, at most OMP_NUM_THREADS */
int64_t mgpu_device_threads(int64_t threads, int devices, int device); /* of one device, at least 1 */
int64_t mgpu_device_bytes(const mgpu_device *, int64_t threads);       /* arena and workspaces of all its threads */
#endif
