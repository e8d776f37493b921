/* cores.h: how many threads compute; also for mgpuc, which says what a run would take. */
#ifndef MGPU_CORES_H
#define MGPU_CORES_H

#include "runtime/abi/mgpu.h"

#include <stddef.h>

enum { MGPU_MOST_THREADS = 1024 };
int mgpu_cores_available(char *why, size_t room); /* at least 1; why: "2 cores", "2 of 8 cores (...)" */
int *mgpu_cores_allowed(int *count);              /* the cores of the process's affinity; the caller frees */
/* processors that the control group of the process may use, infinite if nothing limits them; root: /sys/fs/cgroup,
 * membership: /proc/self/cgroup */
double mgpu_cgroup_limit(const char *root, const char *membership);
int mgpu_omp_threads(const char *value);          /* of OMP_NUM_THREADS; -1: it is no number of threads */
int mgpu_default_threads(const char *program);    /* the cores, at most OMP_NUM_THREADS */
int64_t mgpu_device_threads(int64_t threads, int devices, int device); /* of the device: its share of them, 1 at least */
int64_t mgpu_device_bytes(const mgpu_device *, int64_t threads); /* arena, workspaces of all its threads */
#endif
