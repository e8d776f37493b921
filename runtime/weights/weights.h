/* weights.h: files of named tensors, and the variables of an engine. */
#ifndef MGPU_RUNTIME_WEIGHTS_WEIGHTS_H
#define MGPU_RUNTIME_WEIGHTS_WEIGHTS_H

#include "runtime/base/base.h"

typedef struct Engine Engine;
typedef struct Categories Categories;

/* ---- safetensors.c */
typedef struct SavedTensor {           /* one tensor of a file: row-major, axes as declared */
    mgpu_tensor tensor;
    const uint8_t *data;               /* of a file that is read: at any alignment */
} SavedTensor;
typedef struct TensorFile {
    const char *path;
    SavedTensor *tensors; int count;   /* by name */
    bool *used;                        /* parallel: somebody has taken it */
    int64_t step;                      /* of __metadata__; -1: none */
    Json *header;                      /* owns the names */
    void *map; size_t map_bytes;
} TensorFile;
/* `fill` writes the elements of tensors[i]; they are asked for one by one */
typedef void FillTensor(void *context, int i, void *to);
typedef struct FileNotes { int64_t step; const char *categories; } FileNotes; /* __metadata__; categories NULL: none */
void mgpu_write_safetensors(FILE *, const SavedTensor *, int count, const FileNotes *, FillTensor *fill, void *context);
void mgpu_map_safetensors(TensorFile *, const char *path, int file); /* path: for messages */
SavedTensor *mgpu_find_tensor(const TensorFile *, const char *name); /* NULL: it has none */
void mgpu_close_safetensors(TensorFile *);

/* ---- match.c: names of the model -> tensors of a file */
typedef struct TensorView {                  /* variables, and what a file may call them */
    const char **name;                 /* of the model, and */
    int *below;                        /* from which character on it is below a part of it; 0: the file has the whole name */
    int *variable, count;
} TensorView;
typedef struct Match { SavedTensor **tensor; char **name; int found; } Match; /* by place in the view: NULL, if the file has none of
                                                                               * this name; how many it has */
void mgpu_match(Match *, const TensorFile *, const TensorView *); /* what is found is used */
void mgpu_close_match(Match *, const TensorView *);

/* ---- snapshot.c */
typedef struct Snapshot {              /* variables, as they are in memory; begins as {0} */
    const mgpu_program *program;
    const mgpu_plan *plan;
    const Engine *engine;
    bool copied;                       /* into data; else they are read of the engine, which has to stay drained */
    uint8_t *data;
    int64_t room, *place;              /* place: of each variable in data */
} Snapshot;
/* takes the memory for all of them; nothing else may use the snapshot meanwhile */
void mgpu_prepare_snapshot(Snapshot *, const mgpu_program *, const mgpu_plan *);
/* of a drained engine. all: what the optimizer and reports have, too; else the model alone. false: there is no memory for a copy */
bool mgpu_take_snapshot(Snapshot *, const mgpu_program *, const mgpu_plan *, const Engine *, bool all);
void mgpu_close_snapshot(Snapshot *);
void mgpu_read_snapshot(const Snapshot *, int device, int variable, void *to);
const char *mgpu_snapshot_not_finite(const Snapshot *);                  /* a weight or state with such elements, or NULL */
const char *mgpu_not_finite(const mgpu_program *, const Engine *);       /* likewise, of a drained engine */

/* ---- weights.c: variables of a drained engine <-> safetensors */
enum { MGPU_WEIGHTS_VIEW, MGPU_OPTIMIZER_VIEW, MGPU_MODEL_VIEW /* averages where there are some: what evaluation reads */ };
/* by all processes, to rank 0: what each device has a part of, for a checkpoint or for the model alone */
void mgpu_gather_variables(const mgpu_program *, const mgpu_plan *, Engine *, bool checkpoint);
void mgpu_write_view(FILE *, const Snapshot *, int view, const FileNotes *);
/* all of it, and the file holds nothing else */
void mgpu_read_view(const mgpu_program *, const mgpu_plan *, Engine *, const TensorFile *, int view);
/* weights and states but those that are left out, with which their averages begin; what else the file has is said */
void mgpu_load_weights(const mgpu_program *, const mgpu_plan *, Engine *, const TensorFile *, const bool *left_out);
void mgpu_load_model(const mgpu_program *, const mgpu_plan *, Engine *, const TensorFile *); /* likewise, as evaluation reads it */
void mgpu_place_variable(const mgpu_program *, const mgpu_plan *, Engine *, int variable, const SavedTensor *);
void mgpu_begin_averages(const mgpu_program *, const mgpu_plan *, Engine *); /* the variables that have been loaded */
typedef struct PartSource {
    const TensorFile *file;
    const char *begin;                 /* of errors: "model.net:12: fc.safetensors", "--init fc=fc.safetensors" */
    const bool *left_out;              /* by variable; NULL: none is */
    int view;                          /* MGPU_MODEL_VIEW: what evaluation reads */
} PartSource;
void mgpu_load_part(const mgpu_program *, const mgpu_plan *, Engine *, const mgpu_initial *, const PartSource *);
#endif
