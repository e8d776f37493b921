/* view.h: which variables a file contains, for the files of runtime/weights/. */
#ifndef MGPU_WEIGHTS_VIEW_H
#define MGPU_WEIGHTS_VIEW_H

#include "runtime/weights/weights.h"

bool mgpu_as_declared(const mgpu_variable *); /* memory and files have the same order of axes */
bool mgpu_is_partial(const mgpu_variable *);  /* the value is the sum of the devices' values */
void mgpu_reorder(const mgpu_variable *, mgpu_range elements, uint8_t *declared, uint8_t *memory, bool save);
TensorView mgpu_new_view(int capacity);
void mgpu_view_add(TensorView *, const char *name, int variable);
void mgpu_close_view(TensorView *);
TensorView mgpu_view_of(const mgpu_program *, const mgpu_plan *, int which); /* `which` is MGPU_WEIGHTS_VIEW, ... */
int *mgpu_read_instead(const mgpu_program *, int which); /* for each variable: the one to read for it; the caller frees */
typedef struct ViewFile {
    TensorView view;
    SavedTensor *tensors;
    FileLayout layout;
} ViewFile; /* a view and its file */
ViewFile mgpu_view_file(const mgpu_program *, const mgpu_plan *, int which, const FileMetadata *);
void mgpu_close_view_file(ViewFile *);
#endif
