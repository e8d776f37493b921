/* formats.h: readers of files of tensors. Each adds the tensors of one file to a TensorFile, whose bytes stay mapped as long as
 * that is open. Nothing of a file is trusted: what is wrong in it ends the program with status 1 and "PATH: what is wrong". */
#ifndef MGPU_WEIGHTS_FORMATS_H
#define MGPU_WEIGHTS_FORMATS_H

#include "runtime/data/data.h"
#include "runtime/data/sets.h"
#include "runtime/weights/weights.h"

typedef struct TensorBytes { /* of one file, or of a member of an archive */
    const char *path;
    const uint8_t *data;
    int64_t bytes;
} TensorBytes;

/* ---- tensors.c */
SavedTensor *mgpu_add_tensor(TensorFile *);
const char *mgpu_own_text(TensorFile *, const char *begin, int64_t length);
/* "PATH: tensor 'NAME': WHAT"; name NULL: "PATH: WHAT" */
_Noreturn void mgpu_broken_tensors(const char *path, const char *name, const char *what);
/* The bytes of a tensor of this shape and type, if they are not more than `room`; else an error */
int64_t mgpu_checked_bytes(const char *path, const mgpu_tensor *, int64_t room);
/* all of a file beside the first one, mapped */
TensorBytes mgpu_map_open(TensorFile *, const char *path, int file); /* of an open one */
TensorBytes mgpu_map_beside(TensorFile *, const char *path, const char *name);
void mgpu_sort_tensors(TensorFile *); /* when all have been added */

/* ---- the formats */
typedef void ReadTensors(TensorFile *, const TensorBytes *);
ReadTensors mgpu_read_safetensors, mgpu_read_torch_archive, mgpu_read_torch_legacy, mgpu_read_gguf, mgpu_read_hdf5;
#endif
