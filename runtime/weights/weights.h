/* weights.h: files of named tensors, and reading and writing an engine's variables. */
#ifndef MGPU_RUNTIME_WEIGHTS_WEIGHTS_H
#define MGPU_RUNTIME_WEIGHTS_WEIGHTS_H

#include "runtime/base/base.h"

typedef struct Engine Engine;
typedef struct Categories Categories;
typedef struct mgpu_processes Processes;

/* ---- tensors.c, formats.c: files of named tensors */
typedef struct SavedTensor SavedTensor;
typedef void ReadElements(const SavedTensor *, mgpu_range elements, uint8_t *to); /* to: in the tensor's type, aligned */
struct SavedTensor { /* one tensor of a file: row-major, axes as declared */
    mgpu_tensor tensor;
    const uint8_t *data;           /* unaligned bytes of the file that is read */
    ReadElements *read;            /* NULL if `data` is row-major and needs no decoding */
    int64_t stride[MGPU_MAX_RANK]; /* in elements; for readers of other layouts */
    int packing;                   /* row in the table of packings, for the reader that unpacks */
    const char *unreadable;        /* the message that using it ends with; NULL if it can be read */
};
typedef struct FileFact {
    const char *key, *text;
} FileFact;
typedef struct TensorFile {
    const char *path;
    SavedTensor *tensors;
    int count;            /* sorted by name */
    bool *used;           /* for each tensor: it has been used */
    int64_t step;         /* from __metadata__; -1 if there is none */
    bool channels_last;   /* of Keras: flattened pictures are as here */
    const Json *metadata; /* __metadata__ of safetensors, or NULL */
    FileFact *facts;
    int fact_count;          /* GGUF's metadata that are texts or whole numbers */
    struct RuleSet *library; /* the library's sets, or NULL before they are read (rules.c) */
    void **maps;
    size_t *map_bytes;
    int map_count;
    void **owned;
    int owned_count; /* names, unpacked data, ... */
} TensorFile;
/* Opens a file or an index of several. `path` is used in messages and to find files in the same folder. Errors end the program
 * with status 1. */
void mgpu_open_tensors(TensorFile *, const char *path, int file);
void mgpu_close_tensors(TensorFile *);
SavedTensor *mgpu_find_tensor(const TensorFile *, const char *name); /* NULL if the file has none */
/* to: in the tensor's type, aligned. Ends the program if the tensor is unreadable. */
void mgpu_read_elements(const SavedTensor *, mgpu_range elements, uint8_t *to);
void *mgpu_adopt_memory(TensorFile *, void *); /* frees the memory when the file is closed; returns it */
/* Returns a folder's file of weights, of Hugging Face's libraries or a run, or the path itself. The caller frees. */
char *mgpu_weights_of_folder(const char *path);

/* ---- safetensors.c, writing */
typedef struct FileMetadata {
    int64_t step;
    const char *categories;
} FileMetadata;             /* __metadata__; categories may be NULL */
typedef struct FileLayout { /* the layout of a file that is to be written */
    const SavedTensor *tensors;
    int count;
    uint8_t *header;
    int64_t header_bytes; /* everything before the data */
    int *order;           /* order of the tensors in the file */
    int64_t *at;          /* [count + 1]: for each tensor in that order, its first byte in the data */
    int64_t bytes;        /* size of the file */
} FileLayout;
FileLayout mgpu_lay_out(const SavedTensor *, int count, const FileMetadata *);
void mgpu_close_layout(FileLayout *);
typedef void EachTensor(void *context, int i, mgpu_range elements);
/* Visits the tensors in a range of the file, in order. The range begins and ends at multiples of 8, or at the file's end. */
void mgpu_each_tensor(const FileLayout *, mgpu_range bytes, EachTensor *, void *context);

/* ---- differences.c: prints the tensors of two files that differ, and returns their number. name: of both files */
int mgpu_compare_tensors(const TensorFile *, const TensorFile *, const char *name, FILE *);

/* ---- match.c: finds tensors of a file for names of the model, or makes them from its tensors (rules.h) */
typedef struct TensorView { /* variables, and the names that a file may use */
    const char **name;      /* full name in the model */
    int *below; /* length of the name's prefix that belongs to a part of the model; 0: the file must have the full name */
    int *variable, count;
} TensorView;
typedef struct Match {
    SavedTensor **tensor;      /* for each variable of the view, from the file's tensors; NULL if there is none */
    char **name;               /* description of the tensor, or the name that was expected */
    const char **why;          /* why it is NULL although the tensors that it needs exist; else NULL */
    int found;                 /* number of tensors that are not NULL */
    const struct RuleSet *set; /* the rules that were applied, or NULL if there were none */
} Match;
Match mgpu_new_match(const TensorView *);
/* Matches a view. rules: a library name, a path or a text; "none"; NULL for the library's rules that apply to the file. Tensors
 * that are found are marked as used. */
void mgpu_match(Match *, const mgpu_program *, TensorFile *, const TensorView *, const char *rules);
bool mgpu_same_shape(const mgpu_tensor *, const mgpu_tensor *);
void mgpu_close_match(Match *, const TensorView *);

/* ---- snapshot.c */
typedef struct Snapshot { /* the variables that this process saves, as they are in memory; initialize with {0} */
    const mgpu_program *program;
    const mgpu_plan *plan;
    const Engine *engine;
    Processes *processes;
    bool in_parts;         /* each process writes a part of each file; otherwise rank 0 writes all of it */
    FileMetadata metadata; /* metadata of the files */
    mgpu_range *held;      /* for each variable the elements in this process; for partial sums, those of each device */
    bool copied;           /* values are in `data`; otherwise they are read from the engine, which must stay drained */
    uint8_t *data;
    int64_t capacity, *place; /* place: offset of each variable in data */
} Snapshot;
/* Allocates memory for a checkpoint. Until it returns, nothing else may use the snapshot. */
void mgpu_prepare_snapshot(Snapshot *);
/* Copies a drained engine's model, and with `all` its optimizer states and reports. Returns false without memory for a copy. */
bool mgpu_take_snapshot(Snapshot *, const Engine *, bool all);
void mgpu_close_snapshot(Snapshot *);
/* Collective calls. Return the name of a weight or state that is not finite, or NULL. The second checks a drained engine. */
const char *mgpu_snapshot_not_finite(const Snapshot *);
const char *mgpu_not_finite(const mgpu_program *, const mgpu_plan *, const Engine *, Processes *);

/* ---- write_view.c: rank 0 writes a file, or each process writes a part of it */
enum { MGPU_FILE_PIECE = 1 << 16 }; /* bytes: parts of several processes begin at multiples of it (save/draft.c) */
int64_t mgpu_view_part(const Snapshot *, int view); /* the offset of this process's part */
/* Writes this process's part to f, or NULL if it has none. A collective call in one order, from the threads that write saves. */
void mgpu_write_view(FILE *, const Snapshot *, int view);

/* ---- weights.c: safetensors -> variables of a drained engine */
enum { MGPU_WEIGHTS_VIEW, MGPU_OPTIMIZER_VIEW, MGPU_MODEL_VIEW /* the weights of evaluation: averages if they exist */ };
/* Reads all variables of the view. Other tensors in the file are an error. */
void mgpu_read_view(const mgpu_program *, const mgpu_plan *, Engine *, TensorFile *, int view);
typedef struct WeightSource {
    TensorFile *file;
    const char *begin;    /* prefix of errors about a part: "model.net:12: fc.safetensors", "--init fc=fc.safetensors" */
    const char *rules;    /* see mgpu_match */
    const bool *left_out; /* for each variable; NULL if all are loaded */
    int view;             /* MGPU_WEIGHTS_VIEW, or MGPU_MODEL_VIEW for what evaluation reads */
} WeightSource;
/* Loads weights and states that are not left out, and starts averages from them. Reports unused tensors of the file. If engine is
 * NULL, prints what would be loaded instead, and returns how many tensors of the model are missing. */
int mgpu_load_weights(const mgpu_program *, const mgpu_plan *, Engine *, const WeightSource *);
/* of a part */
int mgpu_load_part(const mgpu_program *, const mgpu_plan *, Engine *, const mgpu_initial *, const WeightSource *);
void mgpu_place_variable(const mgpu_program *, const mgpu_plan *, Engine *, int variable, const SavedTensor *);
void mgpu_begin_averages(const mgpu_program *, const mgpu_plan *, Engine *); /* copies loaded variables to their averages */
#endif
