/* internal.h: what the files of the runtime share, grouped by file. Nothing here is seen by a generated program.
 *
 * No globals: a Run (loop.c) owns an Engine, which owns the devices. Everything that is exported begins with mgpu_. */
#ifndef MGPU_INTERNAL_H
#define MGPU_INTERNAL_H

#include "runtime/cores.h"
#include "runtime/mgpu.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>

#define MGPU_PRINTF(a, b) __attribute__((format(printf, a, b)))
#define MGPU_COUNT(array) ((int)(sizeof(array) / sizeof *(array)))

/* ---- support.c: errors, memory, names, time */
enum { MGPU_BAD_INPUT = 1, MGPU_BAD_USAGE = 2, MGPU_MACHINE_FAILED = 3 };
/* "PROGRAM: error: ..." on stderr, then the end of the program; of several threads the first one speaks */
_Noreturn void mgpu_fail(int status, const char *pattern, ...) MGPU_PRINTF(2, 3);
/* ours, not the user's: "PROGRAM: internal error: ...", status 3 */
_Noreturn void mgpu_die(const char *pattern, ...) MGPU_PRINTF(1, 2);
void mgpu_say(const char *pattern, ...) MGPU_PRINTF(1, 2); /* a line on stderr */
void mgpu_print_plain(const char *text);             /* on stdout; as terminal.h says */
#define MGPU_OUR_MISTAKE "\nThis is a mistake in mgpuc; please report it with the model."
_Noreturn void mgpu_no_memory(size_t bytes);
void mgpu_end_output(void);                          /* flushes standard output; fails with status 3 if something was lost */
int mgpu_finish_file(FILE *, bool sync);            /* closes it; 0, or errno of the first thing that failed */
void *mgpu_allocate(size_t count, size_t bytes);    /* zeroed; fails with status 3 */
void *mgpu_allocate_aligned(size_t alignment, size_t bytes); /* likewise */
void *mgpu_resize(void *old, size_t bytes);
FILE *mgpu_begin_text(char **text, size_t *length);  /* a stream that makes a text, which the caller frees */
void mgpu_end_text(FILE *);
void mgpu_start_thread(pthread_t *, void *(*run)(void *), void *argument); /* fails with status 3 */
char *mgpu_format(const char *pattern, ...) MGPU_PRINTF(1, 2); /* the caller frees */
char *mgpu_vformat(const char *pattern, va_list) MGPU_PRINTF(1, 0);
/* "; did you mean 'lr'?" into `text`, or "" */
const char *mgpu_near_miss(const char *word, const char *const *names, int count, char text[128]);
double mgpu_seconds(void);                          /* a clock that never goes back */
double mgpu_seconds_since_start(double main_began); /* of this process */

/* ---- dtype.c */
int64_t mgpu_dtype_bytes(uint8_t dtype);
const char *mgpu_dtype_name(uint8_t dtype);         /* "f32" */
bool mgpu_dtype_is_float(uint8_t dtype);
double mgpu_to_double(const void *data, uint8_t dtype, int64_t index);
void mgpu_from_double(void *data, uint8_t dtype, int64_t index, double value);
void mgpu_convert(void *to, uint8_t to_dtype, const void *from, uint8_t from_dtype, int64_t count);
/* whether every value is a value of the other type too; *bad: the first that is not */
bool mgpu_values_fit(const void *data, uint8_t dtype, int64_t count, uint8_t other, int64_t *bad);
int64_t mgpu_elements(const mgpu_tensor *);
int64_t mgpu_tensor_bytes(const mgpu_tensor *);
const char *mgpu_shape_text(int rank, const int64_t *extent, char text[200]); /* "[28, 28]" */

/* ---- counter.c: a number that only grows; others wait until it is large enough: a short spin, then sleep */
enum { MGPU_WAITING_KINDS = 6 };        /* a counter is one line of the cache */
typedef struct Counter {
    _Alignas(64) _Atomic int64_t value; /* at least 0 */
    _Atomic int64_t wanted[MGPU_WAITING_KINDS];
    _Atomic uint32_t word;
} Counter;
void mgpu_counter_set(Counter *, int64_t value);
void mgpu_counter_wait(Counter *, int64_t at_least);
void mgpu_counter_wait_spinning(Counter *, int64_t at_least, int spins); /* looks so often before it sleeps */

/* ---- crash.c: if the calling thread crashes before guard_end, `say` is called, which ends the program */
typedef struct CrashGuard CrashGuard;
CrashGuard *mgpu_guard_begin(void (*say)(void *context, int signal), void *context);
void mgpu_guard_end(CrashGuard *);
/* text that is cut where there is no more room, made of what a signal handler may call */
typedef struct SafeText { char *text; size_t room, length; } SafeText;
void mgpu_add_text(SafeText *, const char *);
void mgpu_add_number(SafeText *, int64_t);
/* PROGRAM KIND WHERE WHAT SIGNAL BEHIND, and the program ends with status 3 */
_Noreturn void mgpu_end_crashed(const char *kind, const char *where, const char *what, int signal, const char *behind);

/* ---- json.c: a small strict reader, and the way that we write text and numbers */
typedef enum JsonKind { JSON_NULL, JSON_FALSE, JSON_TRUE, JSON_NUMBER, JSON_TEXT, JSON_LIST, JSON_OBJECT } JsonKind;
typedef struct Json Json;
struct Json {
    JsonKind kind;
    const char *key;          /* member of an object */
    const char *text;         /* TEXT: its characters; NUMBER: as written */
    double number;
    Json *first, *next;       /* LIST, OBJECT: members in order */
};
/* NULL and *error for what is not JSON. The result is one block: free(it). */
Json *mgpu_json_read(const char *text, size_t length, const char **error);
const Json *mgpu_json_member(const Json *object, const char *key); /* NULL if there is none */
bool mgpu_json_whole(const Json *, int64_t *value);                /* an exact whole number */
void mgpu_json_write_text(FILE *, const char *text);               /* quoted; bytes that are no UTF-8 become U+FFFD */
void mgpu_json_write_bytes(FILE *, const char *text);              /* ... become \\udc80 .. \\udcff, which are read as these bytes */
void mgpu_json_write_number(FILE *, double, int digits);           /* null if it is not finite */

/* ---- options.c */
typedef enum CommandKind { COMMAND_TRAIN, COMMAND_EVAL, COMMAND_PREDICT, COMMAND_INFO, COMMAND_SCHEDULE, COMMAND_BENCH, COMMAND_GENERATE } CommandKind;
typedef enum WeightsChoice { WEIGHTS_USUAL, WEIGHTS_BEST, WEIGHTS_LAST } WeightsChoice; /* USUAL: best, where `best` is set */
typedef struct Options {
    CommandKind command;
    const char *program;                     /* as it was called, without folders */
    const char *data, *init, *save, *resume, *log, *output, *devices;
    int64_t epochs, steps, warmup, stop_after; /* -1: not given */
    uint64_t seed;
    int threads;                             /* that compute, of all devices: what may be used, unless given */
    bool seed_given, threads_given, shuffle, evaluate, write, overwrite, json, profile, tune;
    WeightsChoice weights;
    int64_t samples;                         /* of predict; -1: not given */
    int64_t length;                          /* of generate: how many characters or tokens */
    double temperature;                      /* likewise */
    int64_t failed_saves;                    /* in a row, that end the run; -1: not given */
    double setting[MGPU_MAX_SETTINGS];       /* NaN: not given */
    mgpu_quantity validate, save_every, patience; /* unit NONE: not given */
    int64_t keep;                            /* -1: not given */
    const char **parts; int part_count;      /* of --init PATTERN=FILE, as given */
    const char **operands; int operand_count;/* after the command */
    int argc; char **argv;                   /* all of it */
    double began;                            /* when main began */
} Options;
void mgpu_read_options(Options *, const mgpu_program *, int argc, char **argv); /* ends the program for --help, --version */
const mgpu_plan *mgpu_choose_plan(const mgpu_program *, const Options *);
void mgpu_print_help(const mgpu_program *, const char *name, FILE *);           /* help.c */

/* ---- cores.c: how many threads compute */
enum { MGPU_MOST_THREADS = 1024 };
int *mgpu_cores_allowed(int *count);                     /* the cores of the process's affinity; the caller frees */
/* processors that the control group of the process may use, infinite if nothing limits them; root: /sys/fs/cgroup,
 * membership: /proc/self/cgroup */
double mgpu_cgroup_limit(const char *root, const char *membership);
int mgpu_omp_threads(const char *value);                 /* of OMP_NUM_THREADS; -1: it is no number of threads */
/* of a run of the plan, and in words: "2 threads on 2 cores"; 0 and no words if GPUs compute */
int mgpu_used_threads(const Options *, const mgpu_plan *, char *text, size_t room);
int64_t mgpu_device_bytes(const mgpu_plan *, int64_t threads, int device); /* arena, workspaces of all its threads */

/* ---- data sets: data.c opens them, batch.c brings samples to the model's inputs, order.c says in which order; data.h has
 * what readers and stages are made of */
typedef struct Array {         /* what a file holds: samples of one shape, elements in this machine's byte order */
    uint8_t dtype;
    int rank;                  /* of one sample */
    int64_t extent[MGPU_MAX_RANK];
    int64_t samples, sample_bytes;
    const uint8_t *data;       /* at any alignment */
    void *owned;               /* to be freed; NULL: data lies in a mapped file */
    void *map; size_t map_bytes;
} Array;
/* Errors end the program with status 1: path: what is wrong. `where` is put in front ("model.net:12: "). Plain files are
 * mapped where their elements lie in them as they are, unless `load`. */
void mgpu_read_idx(Array *, const char *path, const char *where, bool load);
/* `member`: which array of an .npz file; NULL: none is read */
void mgpu_read_npy(Array *, const char *path, const char *where, int sample_rank, bool load, const char *member);
void mgpu_free_array(Array *);
void mgpu_swap_bytes(void *data, int64_t count, int64_t bytes); /* each element's bytes in reverse */
void mgpu_write_npy(FILE *, uint8_t dtype, int rank, const int64_t *extent, const void *data);

typedef struct Categories Categories; /* categories.c: the classes of words, fixed by the set that trains */
typedef struct Dataset {
    const char *name;
    const mgpu_program *program;
    int64_t samples, shuffle;  /* shuffle: as in Stream */
    struct Stream *stream;
    struct Bound *bound;       /* by input: where it comes from */
    struct Workers *workers;   /* NULL: samples cost nothing */
} Dataset;
/* The columns of the inputs that `wanted` names. Words get the classes that `categories` knows; of a set that trains
 * they are added there. */
void mgpu_open_set(Dataset *, const mgpu_program *, const mgpu_set *, const bool *wanted, const char *folder, Categories *);
void mgpu_close_set(Dataset *);
const mgpu_set *mgpu_find_set(const mgpu_program *, const char *name);
void mgpu_check_later(const mgpu_program *, const char *name); /* ends the program if mgpuc could not make this set */
_Noreturn void mgpu_fail_no_set(const mgpu_program *, const char *name, const char *where); /* where: in front of the message */
/* The samples at n places of the set: to[i] (NULL: not wanted) gets the elements of input i, one sample behind the other.
 * Any number of threads may call it. Evaluation has seed 0 and epoch 0. */
void mgpu_read_samples(const Dataset *, uint8_t *const *to, const int64_t *index, int64_t n, uint64_t seed, int64_t epoch);
/* These will be asked for soon: where samples are costly, threads begin to read them. Returns at once */
void mgpu_read_ahead(const Dataset *, const int64_t *index, int64_t n, uint64_t seed, int64_t epoch);
/* shuffle 0: as they lie; 1: a random order; n: random blocks of n samples, in random order inside */
void mgpu_permutation(int64_t *order, int64_t n, uint64_t seed, int64_t epoch, int64_t shuffle);
void mgpu_fill_random(void *to, const mgpu_input *, int64_t samples, uint64_t seed); /* bench */
uint64_t mgpu_hash_text(const char *);   /* as the compiler hashes paths */

/* ---- reduce.c: sums over the devices in the order of the devices: the same bits on every device */
typedef struct Reduction Reduction;
Reduction *mgpu_reduction_open(int members);
void mgpu_reduction_close(Reduction *);
/* Every member calls it with its own data and the same count, dtype and tag; returns when all have their sums.
 * false: the members disagree about what they reduce. */
bool mgpu_reduce(Reduction *, int member, void *data, int64_t count, uint8_t dtype, int64_t tag);
void mgpu_meet(Reduction *);           /* every member calls it; returns when all have */

/* ---- engine.c, lane.c, ahead.c: devices, lanes and the execution of a plan. check.c: is the plan well formed? */
enum { MGPU_AHEAD = 4, MGPU_RING = 8 }; /* steps posted beyond the last one done everywhere; records kept */
typedef struct Work {                   /* one step of the run: one phase on all devices */
    int64_t number;                     /* q: 1, 2, ...; step q lies at q mod MGPU_RING */
    const mgpu_phase *_Atomic phase;    /* NULL: no operations, only what is owed of the step before */
    const Dataset *set;                 /* NULL: staging is left as it is (bench) */
    int64_t *index;                     /* places in the set of the micro-batch's samples; at least one, for the dead to copy */
    int64_t sample_count;               /* the living */
    mgpu_step *block;                   /* by device */
    uint8_t **fetch;                    /* by output: where sample 0 of the micro-batch goes; NULL: not wanted */
    _Atomic int64_t step;               /* as its blocks say it: for messages, also of other threads */
    int64_t applied, epoch, samples;    /* for who collects it */
    double *report;                     /* phase->report_count numbers, once reported */
    _Atomic bool reported;
    _Atomic int unfinished;             /* lanes comp and comm that still work on it */
    _Atomic int64_t input_wait_ns;      /* the longest that a device's comp lane waited for its input */
    _Atomic double finished_at;         /* mgpu_seconds, once unfinished is 0 */
} Work;
typedef void Collect(void *context, const Work *); /* called by the thread that posts, in order of the steps */

typedef struct Engine Engine;
/* o->threads: that compute, shared by the devices; each has one at least. o->devices: which GPUs */
Engine *mgpu_engine_open(const mgpu_program *, const mgpu_plan *, const Options *o, Collect *, void *context);
void mgpu_engine_close(Engine *, const char *achieved);
const mgpu_phase *mgpu_engine_phase(const Engine *, int kind, bool ragged); /* NULL: the plan has none */
Work *mgpu_engine_next(Engine *);      /* the record of the next step, to be filled; waits while too many are under way */
void mgpu_engine_post(Engine *);
void mgpu_engine_drain(Engine *);      /* returns when all posted is done and collected */
void mgpu_engine_set_ahead(Engine *, int steps); /* 2 .. MGPU_AHEAD */
/* check.c: a call of an epilogue's kernel that has a product's operands, too; the lane comp's operation before; NULL: none */
bool mgpu_is_joined(const mgpu_gpu_kernel *, const mgpu_op *);
const mgpu_op *mgpu_comp_before(const mgpu_device_phase *, const mgpu_op *);
bool mgpu_computes_here(const mgpu_plan *);      /* with threads of this program; else on GPUs */
const char *mgpu_engine_library(const Engine *); /* what computes: the library of products, or why there is none; the GPUs */
int64_t mgpu_engine_library_bytes(const Engine *); /* of all devices, beside the arenas */
int64_t mgpu_engine_launches(const Engine *, double *seconds); /* on GPUs, by all devices' lanes comp so far; the host's time in them */
int64_t mgpu_engine_arena_bytes(const Engine *, int device); /* allocated */
typedef struct Profile Profile;        /* profile.h */
void mgpu_engine_set_profile(Engine *, Profile *); /* of a drained engine: times of operations go there from now on; NULL: nowhere */
/* of a drained engine: a variable as it lies in memory; random inputs in all slots (bench) */
void mgpu_engine_read_variable(const Engine *, int device, int variable, void *to);
void mgpu_engine_write_variable(Engine *, int device, int variable, const void *from);
void mgpu_engine_fill_staging(Engine *, uint64_t seed);
void mgpu_check_plan(const mgpu_program *, const mgpu_plan *);
const char *mgpu_kernel_name(const mgpu_program *, int kernel);

/* agree.c: of a drained engine: NULL, or which variable differs on which devices. The caller frees it */
char *mgpu_disagreement(const mgpu_program *, const mgpu_plan *, const Engine *);

/* audit.c: where the first NaN or infinity of a step comes from */
typedef struct Audit Audit;
enum { AUDIT_INFINITE = 1, AUDIT_NAN = 2 };
typedef struct Origin {
    int device;
    const mgpu_op *op;                 /* that made it; NULL: it was there before: */
    const char *variable, *input;      /* in one of these */
    unsigned bits;
    int64_t sample;                    /* of the device's; -1: of none, or not known */
} Origin;
void mgpu_audit_begin(Engine *);       /* of a drained engine: what is posted from now on runs operation by operation */
bool mgpu_audit_end(Engine *, Origin *); /* likewise; false: all was finite */

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
void mgpu_read_safetensors(TensorFile *, const char *path);
void mgpu_map_safetensors(TensorFile *, const char *path, int file); /* path: for messages */
SavedTensor *mgpu_find_tensor(const TensorFile *, const char *name); /* NULL: it has none */
void mgpu_close_safetensors(TensorFile *);

/* ---- watch.c: intervals, the best number so far, patience */
typedef struct Pace { double steps_per_epoch, batch; } Pace;
typedef struct Watched {               /* a number of validation */
    bool any;
    double best, scale;                /* scale: of a plateau's rate */
    int64_t best_step, since, bad;     /* since: the step of the last better value, or when the rate was lowered; bad:
                                          validations from then on */
} Watched;
mgpu_quantity mgpu_read_quantity(const char *name, const char *text, bool validations); /* of --set NAME=TEXT */
const char *mgpu_quantity_text(mgpu_quantity, char text[48]);
double mgpu_in_steps(mgpu_quantity, const Pace *);       /* infinite for never and for times */
bool mgpu_interval_over(mgpu_quantity, const Pace *, int64_t before, int64_t now); /* between these steps; not for times */
bool mgpu_watch_value(Watched *, const mgpu_watch *, double value, int64_t step); /* true: it is the best so far */
bool mgpu_out_of_patience(const Watched *, mgpu_quantity, const Pace *, int64_t step);
void mgpu_lower(Watched *, double factor, int64_t step);

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
void mgpu_view_engine(Snapshot *, const mgpu_program *, const mgpu_plan *, const Engine *);
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
void mgpu_write_view(FILE *, const Snapshot *, int view, const FileNotes *);
/* all of it, and the file holds nothing else */
void mgpu_read_view(const mgpu_program *, const mgpu_plan *, Engine *, const TensorFile *, int view);
/* weights and states but those that are left out, with which their averages begin; what else the file has is said */
void mgpu_load_weights(const mgpu_program *, const mgpu_plan *, Engine *, const char *path, const bool *left_out);
void mgpu_load_model(const mgpu_program *, const mgpu_plan *, Engine *, const TensorFile *); /* likewise, as evaluation reads it */
void mgpu_place_variable(const mgpu_program *, const mgpu_plan *, Engine *, int variable, const SavedTensor *);
void mgpu_begin_averages(const mgpu_program *, const mgpu_plan *, Engine *); /* the variables that have been loaded */
typedef struct PartSource {
    const char *path, *begin;          /* begin: of errors, "model.net:12: fc.safetensors", "--init fc=fc.safetensors" */
    const bool *left_out;              /* by variable; NULL: none is */
    int view;                          /* MGPU_MODEL_VIEW: what evaluation reads */
} PartSource;
void mgpu_load_part(const mgpu_program *, const mgpu_plan *, Engine *, const mgpu_initial *, const PartSource *);

/* initials.c: what a fresh run begins with: the program's files and those of --init */
void mgpu_load_initials(const mgpu_program *, const mgpu_plan *, Engine *, const Options *);
/* those of --init PATTERN=FILE alone; view as in PartSource */
void mgpu_load_parts(const mgpu_program *, const mgpu_plan *, Engine *, const Options *, int view);
bool mgpu_parts_suffice(const mgpu_program *, const Options *);          /* they are all of the model */
/* the classes that a fresh run begins with: those of the file of the whole model. Where parts begin otherwise, labels (inputs that
 * no output needs) may be others */
void mgpu_begin_categories(Categories *, const mgpu_program *, const mgpu_plan *, const Options *);
char *mgpu_whole_initial(const mgpu_program *, const Options *); /* the file of the whole model, or NULL; the caller frees */

/* ---- save_read.c, save_switch.c: the folder of a run (save.h) */
typedef struct Saved Saved;            /* a save that is read */
typedef struct SaveFolder SaveFolder;  /* that this run writes into */
typedef struct SaveOrigin {            /* what a save belongs to; samples: -1, if not known */
    char model[65];
    int64_t train_samples, valid_samples;
} SaveOrigin;
enum { MGPU_NEED_RUN = 1, MGPU_NEED_MODEL = 2 };
/* The newest save of the folder whose files are whole, those that are needed: all of a run, or some model. If the newest is damaged,
 * that is said. NULL: there is none; *why: the caller frees. Damage ends the program if there is no whole one */
Saved *mgpu_open_saved(const char *folder, int need, char **why);
void mgpu_close_saved(Saved *);
bool mgpu_has_saved_best(const Saved *);
bool mgpu_open_saved_model(TensorFile *, const Saved *, bool best, bool average); /* false: the save has no such file */
/* ends the program if the file, open as `file`, is one of a save, and damaged */
void mgpu_check_saved_file(const char *path, int file);
const SaveOrigin *mgpu_saved_origin(const Saved *);         /* NULL: it does not say */
char *mgpu_find_saved(const char *folder);                  /* words for what is saved there; NULL: nothing. The caller frees */
void mgpu_make_folder(const char *folder);
/* locks it; from: the save in it that the run goes on from, or NULL */
SaveFolder *mgpu_open_save_folder(const char *folder);
void mgpu_continue_saves(SaveFolder *, const Saved *from);
void mgpu_close_save_folder(SaveFolder *);
bool mgpu_same_folder(const char *, const char *);

/* ---- checkpoint.c */
typedef struct Progress {              /* where a run stands; run.json */
    int64_t step;                      /* applied */
    int64_t epoch, position;           /* samples of the epoch that are done */
    uint64_t seed;
    int64_t batch;
    double loss_sum, loss_samples;     /* of the epoch, for its row in the table */
    int64_t skipped;                   /* steps without an update */
    int64_t validated;                 /* the step of the last validation */
    Watched best, plateau[MGPU_MAX_SETTINGS];
    int64_t *kept; int kept_count;     /* steps of the checkpoints that lie in folders of their own, ascending */
} Progress;
/* All that a save is made of: nothing of it changes while it is written. What fails is returned, and the save before counts; NULL:
 * nothing did */
typedef struct SaveJob {
    SaveFolder *folder;
    SaveOrigin origin;
    Snapshot variables;
    Progress at;
    char *tables;                      /* of categories; NULL: there are none */
    int64_t keep;                      /* > 1: the last so many checkpoints are also in FOLDER/step-N */
    bool checkpoint, best;             /* what is saved: where the run stands; the model, as the best one */
} SaveJob;
char *mgpu_write_save(SaveJob *);      /* a checkpoint: at.kept becomes another list */
char *mgpu_bring_best(SaveFolder *, const Saved *from, const SaveOrigin *); /* of a run that goes on in another folder */
void mgpu_read_progress(Progress *, const mgpu_program *, const Saved *);
void mgpu_load_checkpoint(const mgpu_program *, const mgpu_plan *, Engine *, const Progress *, const Saved *);
void mgpu_load_categories(Categories *, const char *path);  /* of a file of weights: its words' classes, if it has any */
void mgpu_take_categories(Categories *, const TensorFile *); /* likewise */
void mgpu_load_saved_categories(Categories *, const Saved *);

/* ---- told.c: what a run was told */
char *mgpu_command_line(const Options *);               /* as a shell takes it; the caller frees */
void mgpu_write_told(FILE *, const mgpu_program *, const Options *, bool params); /* "name":value, ... of settings, or of params */
const char *mgpu_told_text(const mgpu_program *, const char *setting); /* its text in the program, or NULL */

/* ---- report.c: what the user sees of a run, and its log */
typedef struct Reporter Reporter;
typedef struct Evaluation {            /* numbers of one report: "loss", "loss.NAME" and metrics */
    const char *split;                 /* "train", "valid" */
    int64_t samples;
    const char *const *names; const double *values; int count; /* values NULL: not evaluated */
    int best;                          /* 0: nobody watches; 1: the best so far; -1: it is not */
} Evaluation;
typedef struct StartReport {
    const mgpu_program *program;
    const mgpu_plan *plan;
    const Options *options;
    const Engine *engine;
    int64_t train_samples, valid_samples, step, epoch, total_steps;
    uint64_t seed;
    const char *threads;               /* "2 threads on 2 cores" */
    int thread_count;
} StartReport;
typedef struct StepReport {
    int64_t step, epoch, samples, total_steps, steps_per_epoch;
    const char *const *names; const double *values; int count; /* all of the phase's reports */
    double finished_at, input_wait_ms;
} StepReport;
typedef struct EpochReport {           /* a row of the table */
    int64_t epoch, step;
    double passed;                     /* epochs, if the row is one of validation within an epoch; else 0 */
    double loss, lr;
    Evaluation train, valid;           /* split NULL: none */
} EpochReport;
/* Epochs count from 1. goes_on: the log gets further lines, else it is written anew */
Reporter *mgpu_reporter_open(const mgpu_program *, const char *log_path, bool goes_on);
bool mgpu_reporter_close(Reporter *);  /* -> whether the log is whole */
void mgpu_report_flush(Reporter *);    /* what others have printed */
int mgpu_screen_lost(const Reporter *); /* SIGPIPE, SIGXFSZ: why nothing can be written to stdout any more; else 0 */
void mgpu_report_start(Reporter *, const StartReport *);
void mgpu_report_resume(Reporter *);   /* steps begin (again): the time before is no step's */
void mgpu_report_step(Reporter *, const StepReport *);
/* evaluate.c: of a metric of many elements, NAME[i,...] one behind the other: how many from the first on; else 1 */
int mgpu_evaluation_elements(const Evaluation *, int first);
void mgpu_report_eval(Reporter *, const Evaluation *, int64_t epoch, int64_t step);
void mgpu_report_epoch(Reporter *, const EpochReport *);
typedef struct SaveTimes { double write_s, stall_s; } SaveTimes; /* of writing a save; of these the run waited so long, also for its copy */
void mgpu_report_checkpoint(Reporter *, const char *folder, int64_t step, int64_t epoch, const SaveTimes *);
void mgpu_report_warning(Reporter *, const char *pattern, ...) MGPU_PRINTF(2, 3);
void mgpu_report_note(Reporter *, const char *pattern, ...) MGPU_PRINTF(2, 3); /* a line on stderr */
void mgpu_report_end(Reporter *, int64_t step, int64_t epoch, int status, const char *reason);
double mgpu_report_value(const char *const *names, const double *values, int count, const char *name); /* NaN: not there */
const char *mgpu_grouped(int64_t n, char text[32]); /* 12,345 */

/* ---- steps.c: posting steps, for all commands */
typedef struct Feed {                  /* what steps are made of */
    const mgpu_program *program;
    const mgpu_plan *plan;
    const double *setting;             /* of Options */
    Engine *engine;
    uint64_t seed;
    double total_steps, steps_per_epoch;
} Feed;
typedef struct Batch {                 /* samples [place, place + samples) of the order: a whole step */
    const Dataset *set;                /* NULL: staging stays as it is */
    const int64_t *order;              /* NULL: as they lie */
    int64_t place, samples;
    int64_t applied, epoch;
    uint8_t **fetch;                   /* by output: where the step's first sample goes; NULL: nowhere */
} Batch;
bool mgpu_post(const Feed *, int kind, const Batch *, int64_t micro); /* one micro-batch; false: the plan has no such phase */
void mgpu_post_step(const Feed *, const Batch *);                     /* prologues, accumulating, train */
bool mgpu_post_alone(const Feed *, int kind, int64_t applied, int64_t epoch); /* init and reports: no samples */
/* all of a set through phase `kind`, a micro-batch a step, until *stop is not 0 (NULL: never) */
void mgpu_post_set(const Feed *, int kind, const Dataset *, int64_t applied, int64_t epoch, uint8_t **fetch, const _Atomic int *stop);
void mgpu_wanted_inputs(const mgpu_program *, const mgpu_plan *, unsigned kinds, bool *wanted); /* kinds: bits 1 << kind */

/* ---- the commands; they return the exit status. loop.c, evaluate.c, predict.c, generate.c, help.c, bench.c */
int mgpu_train(const mgpu_program *, const Options *);
int mgpu_evaluate(const mgpu_program *, const Options *);
int mgpu_predict(const mgpu_program *, const Options *);
int mgpu_generate(const mgpu_program *, const Options *);
int mgpu_info(const mgpu_program *, const Options *);
int mgpu_bench(const mgpu_program *, const Options *);
/* trained.c: an engine with the weights that the options name, which it says, for who does not train; initialises `feed` */
Engine *mgpu_open_trained(const mgpu_program *, const Options *, Feed *feed, Categories *, Collect *, void *context);
char *mgpu_save_folder(const Options *); /* the caller frees */
void mgpu_collect_nothing(void *context, const Work *); /* predict.c */
FILE *mgpu_take_output(void); /* standard output for results alone: what else is said goes to standard error from now on */
#endif
