/* snapshot.h: access to snapshots for the files of runtime/weights/. */
#ifndef MGPU_WEIGHTS_SNAPSHOT_H
#define MGPU_WEIGHTS_SNAPSHOT_H

#include "runtime/engine/processes.h"
#include "runtime/weights/view.h"

/* The size of a process's part of a file of so many bytes, and the byte range that a rank writes. */
int64_t mgpu_part_bytes(const Snapshot *, int64_t file);
mgpu_range mgpu_part_of_file(const Snapshot *, int64_t file, int rank);
/* Reads elements in declared order, which this process must hold. `device` selects the value if devices have different ones. */
void mgpu_read_snapshot(const Snapshot *, int device, int variable, mgpu_range elements, void *to);
#endif
