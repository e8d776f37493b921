/* checkpoint.h: the folder of a run: what is saved there, and read. */
#ifndef MGPU_RUNTIME_SAVE_CHECKPOINT_H
#define MGPU_RUNTIME_SAVE_CHECKPOINT_H

#include "runtime/base/base.h"
#include "runtime/base/watch.h"
#include "runtime/weights/weights.h"

/* ---- save/read.c, save/switch.c: the folder of a run (save.h) */
typedef struct Saved Saved;            /* a save that is read */
typedef struct SaveFolder SaveFolder;  /* that this run writes into */
typedef struct SaveOrigin {            /* what a save belongs to; samples: -1, if not known */
    char model[65];
    int64_t train_samples, valid_samples;
    char train_data[65], valid_data[65]; /* fingerprints (data/sets.h); "": not known */
} SaveOrigin;
enum { MGPU_NEED_RUN = 1, MGPU_NEED_MODEL, MGPU_NEED_LOCKED_RUN /* a run, of a folder that this one, or its rank 0, holds the lock of */ };
/* The newest save of the folder whose files are whole, those that are needed: all of a run, or some model. If the newest is damaged,
 * that is said. NULL: there is none; *why: the caller frees. Damage ends the program if there is no whole one */
Saved *mgpu_open_saved(const char *folder, int need, char **why);
void mgpu_close_saved(Saved *);
bool mgpu_has_saved_best(const Saved *);
bool mgpu_open_saved_model(TensorFile *, const Saved *, bool best, bool average); /* false: the save has no such file */
/* a file of weights; ends the program if it is one of a save, and damaged */
void mgpu_open_weights(TensorFile *, const char *path);
const SaveOrigin *mgpu_saved_origin(const Saved *);         /* NULL: it does not say */
char *mgpu_find_saved(const char *folder, bool *goes_on);   /* words for what is saved there, and whether a run can go on with it; NULL: nothing. The caller frees */
void mgpu_make_folder(const char *folder);
/* locks it; from: the save in it that the run goes on from, or NULL */
SaveFolder *mgpu_open_save_folder(const char *folder);
void mgpu_continue_saves(SaveFolder *, const Saved *from);
void mgpu_close_save_folder(SaveFolder *);
bool mgpu_share_folder(const SaveFolder *, Processes *); /* every process calls it, rank 0 with the folder: all see the same one */
bool mgpu_same_folder(const char *, const char *);

/* ---- checkpoint.c */
typedef struct Progress {              /* how far a run is; run.json */
    int64_t step;                      /* applied */
    int64_t epoch, position;           /* samples of the epoch that are done */
    uint64_t seed;
    int64_t batch;
    double loss_sum, loss_samples;     /* of the epoch, for its row in the table */
    double lr;                         /* of the last step; 0: not known */
    int64_t skipped;                   /* steps without an update */
    int64_t validated;                 /* the step of the last validation */
    Watched best, plateau[MGPU_MAX_SETTINGS];
    char *log;                         /* that the run writes, or wrote before it went on without one; absolute; NULL: none */
    int64_t *kept; int kept_count;     /* steps of the checkpoints that are in folders of their own, ascending */
} Progress;
/* All that a save is made of: nothing of it changes while it is written. What fails is returned, and the save before counts; NULL:
 * nothing did */
typedef struct SaveJob {
    SaveFolder *folder;                /* NULL: rank 0 has it */
    SaveOrigin origin;
    Snapshot variables;
    Progress at;
    char *tables;                      /* of categories; NULL: there are none. The snapshot's notes have it, too */
    int64_t total_steps, steps_per_epoch;
    const char *const *told; int told_count; /* what the run keeps of its command line: Options.kept */
    int64_t keep;                      /* > 1: the last so many checkpoints are also in FOLDER/step-N */
    bool checkpoint, best;             /* what is saved: how far the run is, as always by the first save of a folder; the model, as the best one */
} SaveJob;
char *mgpu_write_save(SaveJob *);      /* a checkpoint: at.kept becomes another list. By all processes; what fails is returned by rank 0 */
char *mgpu_bring_save(SaveFolder *, const Saved *from, int64_t step, const SaveOrigin *); /* of a run that goes on in another folder */
void mgpu_read_progress(Progress *, const mgpu_program *, const Saved *);
typedef struct Course { int64_t total_steps, steps_per_epoch; uint64_t seed; bool seeded; } Course; /* of a run; 0, false: not known */
Course mgpu_read_course(const Saved *);                     /* of a save that need not be whole */
int mgpu_read_told(const Saved *, char ***told);            /* -> how many; the caller frees */
void mgpu_load_checkpoint(const mgpu_program *, const mgpu_plan *, Engine *, const Progress *, const Saved *);
void mgpu_load_categories(Categories *, const char *path);  /* of a file of weights: its words' classes, if it has any */
void mgpu_take_categories(Categories *, const TensorFile *); /* likewise */
void mgpu_load_saved_categories(Categories *, const Saved *);
#endif
