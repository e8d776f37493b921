/* snapshot.h: what is in a snapshot, for the files of runtime/weights/. */
#ifndef MGPU_WEIGHTS_SNAPSHOT_H
#define MGPU_WEIGHTS_SNAPSHOT_H

#include "runtime/engine/processes.h"
#include "runtime/weights/view.h"

/* bytes of a part of a file, and those that a rank writes, of so many */
int64_t mgpu_part_bytes(const Snapshot *, int64_t file);
mgpu_stretch mgpu_part_of_file(const Snapshot *, int64_t file, int rank);
/* elements as they are declared, all of which are held: as `device` of this process has them, if each has a value of its own */
void mgpu_read_snapshot(const Snapshot *, int device, int variable, mgpu_stretch elements, void *to);
#endif
