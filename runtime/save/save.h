/* save.h: the folder of a run, for the files of runtime/save/.
 *
 *   DIR/lock                  locked (flock) by the run that saves here; has its host and process
 *   DIR/saves/17/             a save: its files, and manifest.json with their sizes and SHA-256
 *   DIR/current -> saves/17   the current save: renaming this link makes a save the newest
 *   DIR/weights.safetensors -> current/weights.safetensors, and so on: for other programs
 *   DIR/step-12/              a save that is kept: hard links to its files
 *
 * No file is written twice. All of a save is on the disk before the link is renamed, and the link before another save is removed.
 * So whenever the program or the machine stops, DIR has an intact save. Reading changes nothing. */
#ifndef MGPU_SAVE_H
#define MGPU_SAVE_H

#include "runtime/base/sha256.h"
#include "runtime/engine/processes.h"
#include "runtime/save/checkpoint.h"

enum { SAVED_WEIGHTS, SAVED_OPTIMIZER, SAVED_AVERAGE, SAVED_RUN, SAVED_BEST, SAVED_FILES };
extern const char *const mgpu_saved_names[SAVED_FILES];
#define MGPU_MANIFEST "manifest.json"

/* ---- save/manifest.c */
/* part: 0: sha256 is that of the file; else that of the concatenated SHA-256 of each `part` bytes of it. Files of more than
 * MGPU_FILE_PIECE bytes are written with parts of that size; earlier versions made one part for each process. */
typedef struct SavedFile {
    bool there;
    int64_t bytes, part;
    Digest sha256;
} SavedFile;
typedef struct Manifest {
    char run[33];         /* identifies the run: 32 random hexadecimal digits */
    int64_t number, step; /* number: counts the saves of the folder */
    SaveOrigin origin;
    SavedFile files[SAVED_FILES];
    int64_t *kept;
    int kept_count; /* steps of the folders step-N that belong to the run, ascending */
} Manifest;
char *mgpu_manifest_text(const Manifest *, size_t *length); /* the caller frees */
/* Writes {"weights.safetensors":"SHA-256", ...}, of the best model or of the other files of tensors. */
void mgpu_write_digests(FILE *, const Manifest *, bool best);
/* Returns NULL or an error, which the caller frees. */
char *mgpu_parse_manifest(Manifest *, const char *text, size_t length);

/* ---- save/lock.c */
/* Returns the lock's descriptor, held until the program ends; -1: the file system has no locks. Exits if another run has the
 * lock. */
int mgpu_lock_folder(const char *folder, const char *token);
bool mgpu_sees_lock(const char *folder, const char *token); /* the lock has this token, and the folder is writable */

/* ---- save/folder.c, save/draft.c, save/commit.c, save/remove_old.c. They return NULL or an error, which the caller frees. */
struct SaveFolder {
    char *path;
    int lock;
    char token[33]; /* random; written to the lock file */
    char run[33];
    int64_t number;  /* the largest number of a save in the folder */
    Manifest last;   /* the last save of this run in the folder */
    char *last_path; /* its path; NULL if there is none yet */
};
typedef struct Draft {  /* a save that is being written */
    SaveFolder *folder; /* NULL in processes other than rank 0, which write parts of files */
    char *path;
    Manifest manifest;
    char *error;             /* the first error */
    int which, file, number; /* the file being written; errno of its first error */
    Sha256 hash;             /* of the piece of the file that is being written */
    Digest *pieces;          /* of those before it */
    int piece_count;
} Draft;
void mgpu_draft_begin(Draft *, SaveFolder *);
void mgpu_draft_begin_as_last(Draft *, SaveFolder *);           /* starts with the step and kept saves of the last save */
void mgpu_draft_keep(Draft *, const int64_t *steps, int count); /* the steps of kept saves; copies them */
FILE *mgpu_draft_open(Draft *, int which);                      /* never NULL; after an error, writes are dropped */
void mgpu_draft_close(Draft *, FILE *);
/* Collective versions, in which each process writes its part of the file. */
void mgpu_from_rank_0(Processes *, void *data, int bytes);
FILE *mgpu_draft_open_part(Draft *, int which, Processes *, int64_t begin);
void mgpu_draft_close_part(Draft *, FILE *, Processes *);
void mgpu_draft_link(Draft *, int which); /* links the file of the last save, if there is one */
void mgpu_draft_copy(Draft *, const Saved *, int which);
void mgpu_draft_fail(Draft *, const char *path, int number); /* number: errno */
void mgpu_draft_sync(Draft *, const char *folder);
int mgpu_write_new(const char *path, const char *text, size_t length); /* creates a file and syncs it; returns 0 or errno */
int mgpu_link_file(const char *from, const char *to);                  /* copies if links are impossible; returns 0 or errno */
char *mgpu_draft_finish(Draft *, bool keep);                           /* keep: also as DIR/step-N */
int mgpu_open_below(int parent, const char *name);                     /* opens a folder that is no link; -1 on failure */
void mgpu_each_name(int folder, void each(void *context, const char *name), void *context); /* except . and ..; none if -1 */
bool mgpu_is_flat_save(const char *path);               /* a folder, no link, that has only files of a save */
void mgpu_remove_draft(const char *path);               /* only if mgpu_is_flat_save */
void mgpu_clean_folder(SaveFolder *, const char *path); /* removes saves other than `path` and the kept ones */

/* ---- save/read.c */
struct Saved {               /* An intact save whose files are open, so that they stay readable if a run removes them. */
    char *folder;            /* as given by the user */
    char *path;              /* path of the save */
    char *name[SAVED_FILES]; /* paths of its files, for messages */
    int file[SAVED_FILES];   /* descriptors; -1 if it has no such file */
    bool sealed;             /* has a manifest; otherwise the layout without manifests */
    bool older;              /* the newest save is damaged, and this one is older */
    bool uncounted;          /* intact, but `current` does not name it */
    Manifest manifest;
};
#endif
