/* checkpoint.h: saving a run in a folder, and reading what is saved there. */
#ifndef MGPU_RUNTIME_SAVE_CHECKPOINT_H
#define MGPU_RUNTIME_SAVE_CHECKPOINT_H

#include "runtime/base/base.h"
#include "runtime/base/intervals.h"
#include "runtime/weights/weights.h"

/* ---- save/read.c, save/commit.c: the folder of a run (save.h) */
typedef struct Saved Saved;           /* a save that is open for reading */
typedef struct SaveFolder SaveFolder; /* the folder that this run saves into */
typedef struct SaveOrigin {           /* the model and data of a save; samples: -1 if unknown */
    char model[65];
    int64_t train_samples, valid_samples;
    char train_data[65], valid_data[65]; /* fingerprints (data/sets.h); "" if unknown */
} SaveOrigin;
enum { MGPU_NEED_RUN = 1, MGPU_NEED_MODEL, MGPU_NEED_LOCKED_RUN /* a run, in a folder locked by rank 0 */ };
/* Opens the newest save of the folder whose files are intact: all files of a run, or those of a model. Warns if the newest is
 * damaged. Ends the program if all are. Returns NULL if there is none, and why; the caller frees *why. */
Saved *mgpu_open_saved(const char *folder, int need, char **why);
void mgpu_close_saved(Saved *);
bool mgpu_has_saved_best(const Saved *);
bool mgpu_open_saved_model(TensorFile *, const Saved *, bool best, bool average); /* false if the save has no such file */
/* Opens a file of weights. Ends the program if it is part of a save and damaged. */
void mgpu_open_weights(TensorFile *, const char *path);
/* ---- save/compare.c: compares the saves of two folders. Prints the first step of those in both in which weights or states differ,
 * and the tensors. Returns whether there is one. Ends the program if a folder has no save, or no step is in both. */
bool mgpu_saves_differ(const char *a, const char *b, FILE *);
const SaveOrigin *mgpu_saved_origin(const Saved *); /* NULL if unknown */
/* what is saved and whether a run can resume, or NULL; caller frees */
char *mgpu_find_saved(const char *folder, bool *goes_on);
void mgpu_make_folder(const char *folder);
/* Opens the folder and locks it. Then mgpu_continue_saves takes over the save that the run resumes from. */
SaveFolder *mgpu_open_save_folder(const char *folder);
void mgpu_continue_saves(SaveFolder *, const Saved *from);
void mgpu_close_save_folder(SaveFolder *);
bool mgpu_share_folder(const SaveFolder *, Processes *); /* collective; true if all processes see rank 0's folder */
bool mgpu_same_folder(const char *, const char *);

/* ---- checkpoint.c */
typedef struct Progress {    /* the state of a run: run.json */
    int64_t step;            /* steps that have been applied */
    int64_t epoch, position; /* samples of the epoch that have been used */
    uint64_t seed;
    int64_t batch;
    double loss_sum, loss_samples; /* sums over the epoch, for its row of the table */
    double lr;                     /* learning rate of the last step; 0 if unknown */
    int64_t skipped;               /* number of steps without an update */
    int64_t validated;             /* step of the last validation */
    Watched best, plateau[MGPU_MAX_SETTINGS];
    char *log; /* absolute path of the log, also if the run has continued without one; or NULL */
    int64_t *kept;
    int kept_count; /* steps of the checkpoints with folders of their own, ascending */
} Progress;
/* Everything that is saved; it must not change while it is written. Functions return an error, after which the previous save
 * stays current, or NULL. */
typedef struct SaveJob {
    SaveFolder *folder; /* NULL in processes other than rank 0 */
    SaveOrigin origin;
    Snapshot variables;
    Progress at;
    char *tables; /* word tables, also in the snapshot's metadata; may be NULL */
    int64_t total_steps, steps_per_epoch;
    const char *const *options;
    int option_count;      /* options of the command line that the run keeps: Options.kept */
    int64_t keep;          /* if > 1: the last `keep` checkpoints are also kept in FOLDER/step-N */
    bool checkpoint, best; /* what to save: a checkpoint, which the first save of a folder must have; the best model */
} SaveJob;
char *mgpu_write_save(SaveJob *); /* Collective; rank 0 returns errors. A checkpoint replaces the list at.kept. */
/* The SHA-256 of the best model, or of the other files of tensors, of the last save, as JSON; the caller frees. */
char *mgpu_saved_digests(const SaveFolder *, bool best);
char *mgpu_bring_save(SaveFolder *, const Saved *from, int64_t step, const SaveOrigin *); /* copies it to another folder */
void mgpu_read_progress(Progress *, const mgpu_program *, const Saved *);
typedef struct Course {
    int64_t total_steps, steps_per_epoch;
    uint64_t seed;
    bool seeded;
} Course;                                                /* 0, false: unknown */
Course mgpu_read_course(const Saved *);                  /* the save may be incomplete */
int mgpu_read_kept_options(const Saved *, char ***told); /* returns the count; the caller frees */
void mgpu_load_checkpoint(const mgpu_program *, const mgpu_plan *, Engine *, const Progress *, const Saved *);
void mgpu_load_categories(Categories *, const char *path);   /* reads word tables from a file of weights, if it has them */
void mgpu_take_categories(Categories *, const TensorFile *); /* the same */
void mgpu_load_saved_categories(Categories *, const Saved *);
#endif
