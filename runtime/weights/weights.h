/* weights.h: files of named tensors, and the variables of an engine. */
#ifndef MGPU_RUNTIME_WEIGHTS_WEIGHTS_H
#define MGPU_RUNTIME_WEIGHTS_WEIGHTS_H

#include "runtime/base/base.h"

typedef struct Engine Engine;
typedef struct Categories Categories;
typedef struct mgpu_processes Processes;

/* ---- tensors.c, formats.c: files of named tensors */
typedef struct SavedTensor SavedTensor;
typedef void ReadElements(const SavedTensor *, mgpu_stretch elements, uint8_t *to); /* to: in the tensor's type, aligned */
struct SavedTensor {                   /* one tensor of a file: row-major, axes as declared */
    mgpu_tensor tensor;
    const uint8_t *data;               /* of a file that is read: at any alignment */
    ReadElements *read;                /* NULL: data are its elements, one after the other */
    int64_t stride[MGPU_MAX_RANK];     /* in elements; of a reader whose data are laid out otherwise */
    int packing;                       /* of a reader that unpacks: its own row */
};
typedef struct FileFact {
    const char *key, *text;
} FileFact;
typedef struct TensorFile {
    const char *path;
    SavedTensor *tensors; int count;   /* by name */
    bool *used;                        /* parallel: somebody has taken it */
    int64_t step;                      /* of __metadata__; -1: none */
    const Json *notes;                 /* __metadata__ of safetensors; NULL: none */
    FileFact *facts;
    int fact_count;          /* of GGUF: its notes that are a text or a whole number */
    struct RuleSet *library; /* the library's, once they are read (rules.c); NULL: not yet */
    void **maps; size_t *map_bytes; int map_count;
    void **owned; int owned_count;     /* names, what was unpacked, ... */
} TensorFile;
/* A file, or an index of several, that is open for reading; path: for messages, and where files beside it are. Errors end the program with
 * status 1. */
void mgpu_open_tensors(TensorFile *, const char *path, int file);
void mgpu_close_tensors(TensorFile *);
SavedTensor *mgpu_find_tensor(const TensorFile *, const char *name); /* NULL: it has none */
void mgpu_read_elements(const SavedTensor *, mgpu_stretch elements, uint8_t *to); /* to: in the tensor's type, aligned */
void *mgpu_own_memory(TensorFile *, void *); /* is freed when the file is closed; -> itself */
/* of a folder: the file of weights that Hugging Face's libraries, or a run, would take of it; else the path itself. The caller frees */
char *mgpu_weights_of_folder(const char *path);

/* ---- safetensors.c, written */
typedef struct FileNotes { int64_t step; const char *categories; } FileNotes; /* __metadata__; categories NULL: none */
typedef struct FileLayout {            /* what is where in a file that is to be written */
    const SavedTensor *tensors; int count;
    uint8_t *header; int64_t header_bytes; /* all before the data */
    int *order;                        /* of the tensors in the file */
    int64_t *at;                       /* [count + 1]: in that order, bytes of the data from which on each is */
    int64_t bytes;                     /* of the file */
} FileLayout;
FileLayout mgpu_lay_out(const SavedTensor *, int count, const FileNotes *);
void mgpu_close_layout(FileLayout *);
typedef void EachTensor(void *context, int i, mgpu_stretch elements);
/* in the file's order, what of each tensor is in these bytes of the file, which begin and end at multiples of 8, or at its end */
void mgpu_each_tensor(const FileLayout *, mgpu_stretch bytes, EachTensor *, void *context);

/* ---- match.c: names of the model -> tensors of a file, or what is made of these (rules.h) */
typedef struct TensorView {                  /* variables, and what a file may call them */
    const char **name;                 /* of the model, and */
    int *below;                        /* from which character on it is below a part of it; 0: the file has the whole name */
    int *variable, count;
} TensorView;
typedef struct Match {
    SavedTensor **tensor;      /* by place in the view: of the file, or made of its tensors; NULL: it has none */
    char **name;               /* what that is, in words, or what it would be called */
    const char **why;          /* there is none although its names are there; else NULL */
    int found;                 /* how many there are */
    const struct RuleSet *set; /* the rules that were followed; NULL: none, or those of the caller */
} Match;
Match mgpu_new_match(const TensorView *);
/* rules: a name of the library, a path or a text; "none"; NULL: those of the library that are for such a file. What is found is
 * used */
void mgpu_match(Match *, const mgpu_program *, TensorFile *, const TensorView *, const char *rules);
bool mgpu_same_shape(const mgpu_tensor *, const mgpu_tensor *);
void mgpu_close_match(Match *, const TensorView *);

/* ---- snapshot.c */
typedef struct Snapshot {              /* variables, as they are in memory, as far as this process saves them; begins as {0} */
    const mgpu_program *program;
    const mgpu_plan *plan;
    const Engine *engine;
    Processes *processes;
    bool in_parts;                     /* each process writes a part of a file; else rank 0 all of it */
    FileNotes notes;                   /* of the files */
    mgpu_stretch *held;                /* of each variable, the elements that are here; of sums of which devices have parts, of each device */
    bool copied;                       /* into data; else they are read of the engine, which has to stay drained */
    uint8_t *data;
    int64_t room, *place;              /* place: of each variable in data */
} Snapshot;
/* takes the memory for a checkpoint; nothing else may use the snapshot meanwhile */
void mgpu_prepare_snapshot(Snapshot *);
/* of a drained engine. all: what the optimizer and reports have, too; else the model alone. false: there is no memory for a copy */
bool mgpu_take_snapshot(Snapshot *, const Engine *, bool all);
void mgpu_close_snapshot(Snapshot *);
/* every process calls these: a weight or state with such elements, or NULL; of all that a drained engine has */
const char *mgpu_snapshot_not_finite(const Snapshot *);
const char *mgpu_not_finite(const mgpu_program *, const mgpu_plan *, const Engine *, Processes *);

/* ---- parts.c: a file is written by rank 0, or each process writes a part */
typedef struct FilePart { int64_t begin, bytes; } FilePart; /* where this process's part of a file begins; of each part, but the last, which may be smaller */
FilePart mgpu_view_part(const Snapshot *, int view);
/* This process's part, if it has one; else NULL. All call it, in one order, from the threads that write saves */
void mgpu_write_view(FILE *, const Snapshot *, int view);

/* ---- weights.c: safetensors -> variables of a drained engine */
enum { MGPU_WEIGHTS_VIEW, MGPU_OPTIMIZER_VIEW, MGPU_MODEL_VIEW /* averages where there are some: what evaluation reads */ };
/* all of it, and the file holds nothing else */
void mgpu_read_view(const mgpu_program *, const mgpu_plan *, Engine *, TensorFile *, int view);
typedef struct WeightSource {
    TensorFile *file;
    const char *begin;    /* of errors about a part: "model.net:12: fc.safetensors", "--init fc=fc.safetensors" */
    const char *rules;    /* as of mgpu_match */
    const bool *left_out; /* by variable; NULL: none is */
    int view;             /* MGPU_WEIGHTS_VIEW; MGPU_MODEL_VIEW: what evaluation reads */
} WeightSource;
/* Weights and states but those that are left out, of which averages begin; what else the file has is said. With an engine NULL
 * nothing is loaded: what would be is printed. Returns how many tensors of the model are not there then. */
int mgpu_load_weights(const mgpu_program *, const mgpu_plan *, Engine *, const WeightSource *);
int mgpu_load_part(const mgpu_program *, const mgpu_plan *, Engine *, const mgpu_initial *, const WeightSource *); /* likewise */
void mgpu_place_variable(const mgpu_program *, const mgpu_plan *, Engine *, int variable, const SavedTensor *);
void mgpu_begin_averages(const mgpu_program *, const mgpu_plan *, Engine *); /* the variables that have been loaded */
#endif
