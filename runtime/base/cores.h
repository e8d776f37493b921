/* cores.h: how many threads compute; also for mgpuc, which says what a run would take. */
#ifndef MGPU_CORES_H
#define MGPU_CORES_H

#include <stddef.h>
#include <stdint.h>

int mgpu_cores_available(char *why, size_t room); /* at least 1; why: "2 cores", "2 of 8 cores (...)" */
int mgpu_default_threads(const char *program);    /* the cores, at most OMP_NUM_THREADS */
int64_t mgpu_device_threads(int64_t threads, int devices, int device); /* of the device: its share of them, 1 at least */
#endif
