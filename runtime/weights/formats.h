/* formats.h: readers of files of tensors. Each adds the tensors of one file to a TensorFile, which keeps the bytes mapped until
 * it is closed. Files are not trusted: an error in one ends the program with status 1 and the message "PATH: what is wrong". */
#ifndef MGPU_WEIGHTS_FORMATS_H
#define MGPU_WEIGHTS_FORMATS_H

#include "runtime/data/data.h"
#include "runtime/data/sets.h"
#include "runtime/weights/weights.h"

typedef struct TensorBytes { /* a file, or a member of an archive */
    const char *path;
    const uint8_t *data;
    int64_t bytes;
} TensorBytes;

/* ---- tensors.c */
SavedTensor *mgpu_add_tensor(TensorFile *);
const char *mgpu_file_copy_text(TensorFile *, const char *begin, int64_t length);
/* Ends the program with "PATH: tensor 'NAME': WHAT", or with "PATH: WHAT" if name is NULL. */
_Noreturn void mgpu_broken_tensors(const char *path, const char *name, const char *what);
/* Returns the bytes of a tensor of this shape and type. More than `capacity` are an error. */
int64_t mgpu_checked_bytes(const char *path, const mgpu_tensor *, int64_t capacity);
/* Maps a whole file that is in the same folder as `path`. */
TensorBytes mgpu_map_open(TensorFile *, const char *path, int file); /* maps an open file */
TensorBytes mgpu_map_in_folder_of(TensorFile *, const char *path, const char *name);
void mgpu_sort_tensors(TensorFile *); /* called after the last tensor is added */

/* ---- the formats */
typedef void ReadTensors(TensorFile *, const TensorBytes *);
ReadTensors mgpu_read_safetensors, mgpu_read_torch_archive;
/* X(reader, text, place): a file with this text at this offset is read by mgpu_read_READER. formats.c has the formats that are
 * known by their names or by their content, and those that are refused. */
#define TENSOR_FORMATS(X)                                                                                                        \
    X(gguf, "GGUF", 0)                                                                                                           \
    X(hdf5, "\x89HDF", 0)                                                                                                        \
    X(torch_legacy, MGPU_TORCH_MAGIC, 2)                                                                                         \
    X(torch_legacy, MGPU_TORCH_MAGIC, 11) /* after the frame header of protocol 4 */
#define MGPU_TORCH_MAGIC "\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19"
#define MGPU_READS(reader, ...) ReadTensors mgpu_read_##reader;
TENSOR_FORMATS(MGPU_READS)
#undef MGPU_READS
#endif
