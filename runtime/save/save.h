/* save.h: the folder of a run, for the files of runtime/save/.
 *
 *   DIR/lock                  held (flock) by the run that writes here; its host and process
 *   DIR/saves/17/             a save: its files and manifest.json, which says their sizes and SHA-256
 *   DIR/current -> saves/17   the save that counts: renaming this link is what makes a save the newest
 *   DIR/weights.safetensors -> current/weights.safetensors, and so on: for everybody else
 *   DIR/step-12/              a save that is kept: hard links to its files
 *
 * No file is written twice. All of a save is on the disk before the link is renamed, and that before another save is removed; so
 * whatever ends the program, or the machine, DIR has a whole save. Reading changes nothing. */
#ifndef MGPU_SAVE_H
#define MGPU_SAVE_H

#include "runtime/base/sha256.h"
#include "runtime/engine/processes.h"
#include "runtime/save/checkpoint.h"

enum { SAVED_WEIGHTS, SAVED_OPTIMIZER, SAVED_AVERAGE, SAVED_RUN, SAVED_BEST, SAVED_FILES };
extern const char *const mgpu_saved_names[SAVED_FILES];
#define MGPU_MANIFEST "manifest.json"

/* ---- save/manifest.c */
/* part: 0: sha256 is of all bytes; else of the SHA-256 of so many bytes, of the next, and so on, one after the other */
typedef struct SavedFile { bool there; int64_t bytes, part; Digest sha256; } SavedFile;
typedef struct Manifest {
    char run[33];                      /* which run: 32 random hexadecimal digits */
    int64_t number, step;              /* number: of the save within the folder; later ones have larger ones */
    SaveOrigin origin;
    SavedFile files[SAVED_FILES];
    int64_t *kept; int kept_count;     /* steps of the folders step-N that belong to the run, ascending */
} Manifest;
char *mgpu_manifest_text(const Manifest *, size_t *length);          /* the caller frees */
/* NULL, or what is wrong; the caller frees */
char *mgpu_parse_manifest(Manifest *, const char *text, size_t length);

/* ---- save/lock.c */
/* -> its descriptor, until the program ends. Fails with status 1 and says who holds it; -1: the file system has no locks */
int mgpu_lock_folder(const char *folder, const char *token);
bool mgpu_sees_lock(const char *folder, const char *token); /* that was taken with this token, and files can be made there */

/* ---- save/folder.c, save/draft.c, save/switch.c, save/clean.c. What fails is a text, which the caller frees; NULL: nothing did */
struct SaveFolder {
    char *path;
    int lock;
    char token[33];                    /* in the lock: random */
    char run[33];
    int64_t number;                    /* the largest that is taken */
    Manifest last;                     /* of the last save of this run here, */
    char *last_path;                   /* and where it is; NULL: there is none yet */
};
typedef struct Draft {                 /* a save that is being written */
    SaveFolder *folder;                /* NULL: rank 0 has it, and this process writes parts of files */
    char *path;
    Manifest manifest;
    char *error;                       /* of the first that failed */
    int which, file, number;           /* the file being written; the number of its first error */
    Sha256 hash;
} Draft;
void mgpu_draft_begin(Draft *, SaveFolder *);
void mgpu_draft_begin_as_last(Draft *, SaveFolder *);   /* of the step of the folder's last save, with what that keeps */
void mgpu_draft_keep(Draft *, const int64_t *steps, int count); /* that the save keeps; copies them */
FILE *mgpu_draft_open(Draft *, int which);              /* always a stream: what is written to it may go nowhere */
void mgpu_draft_close(Draft *, FILE *);
/* The same by all processes, each of which writes its part of the file */
void mgpu_from_rank_0(Processes *, void *data, int bytes);
FILE *mgpu_draft_open_part(Draft *, int which, Processes *, FilePart);
void mgpu_draft_close_part(Draft *, FILE *, Processes *, FilePart);
void mgpu_draft_link(Draft *, int which);               /* the file of the last save, if that has it */
void mgpu_draft_copy(Draft *, const Saved *, int which);
void mgpu_draft_fail(Draft *, const char *path, int number); /* errno */
void mgpu_draft_sync(Draft *, const char *folder);
int mgpu_write_new(const char *path, const char *text, size_t length); /* a file that is not there yet, synced; 0, or errno */
int mgpu_link_file(const char *from, const char *to);   /* or a copy, where there are no links; 0, or errno */
char *mgpu_draft_finish(Draft *, bool keep);            /* keep: also as DIR/step-N */
int mgpu_open_below(int parent, const char *name);      /* a folder; -1: it is none. A link is not followed */
void mgpu_each_name(int folder, void each(void *context, const char *name), void *context); /* but . and ..; -1: none */
bool mgpu_is_flat_save(const char *path);               /* a folder, no link, with files of a save and nothing else */
void mgpu_remove_draft(const char *path);               /* such a folder */
void mgpu_clean_folder(SaveFolder *, const char *path); /* of what is neither that save nor kept */

/* ---- save/read.c */
struct Saved {                         /* a whole save whose files are open: it stays what it is while another run goes on there */
    char *folder;                      /* as it was asked for */
    char *path;                        /* of the save */
    char *name[SAVED_FILES];           /* of its files, for messages */
    int file[SAVED_FILES];             /* descriptors; -1: it has no such file */
    bool sealed;                       /* it has a manifest; else it was written before there were any */
    bool older;                        /* than the newest, which is damaged */
    bool uncounted;                    /* whole, but `current` does not name it */
    Manifest manifest;
};
#endif
