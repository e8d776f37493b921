/* options.h: the command line of a program, parsed. */
#ifndef MGPU_RUNTIME_BASE_OPTIONS_H
#define MGPU_RUNTIME_BASE_OPTIONS_H

#include "runtime/base/base.h"

typedef enum CommandKind {
    COMMAND_TRAIN,
    COMMAND_EVAL,
    COMMAND_PREDICT,
    COMMAND_INFO,
    COMMAND_SCHEDULE,
    COMMAND_BENCH,
    COMMAND_GENERATE,
    COMMAND_WATCH,
    COMMAND_REPORT,
    COMMAND_CHECK_GRADIENTS,
    COMMAND_EXPORT,
    COMMAND_COMPARE
} CommandKind;
typedef enum WeightsChoice { WEIGHTS_USUAL, WEIGHTS_BEST, WEIGHTS_LAST } WeightsChoice; /* USUAL: best, if `best` is set */
enum { MGPU_STALL_S = 120 };                                                            /* without --stall */

typedef struct RunOptions {
    CommandKind command;
    const char *program; /* its name, without folders */
    const char *data, *init, *save, *resume, *log, *output, *devices, *measure, *trace, *trace_steps, *tensorboard, *batches;
    int64_t epochs, steps, warmup, stop_after, histograms; /* -1: not given */
    double stall;                                          /* --stall: seconds without progress until a report; 0: never */
    struct Hang *hang;                                     /* engine/hang.c; NULL: hangs are not looked for */
    uint64_t seed;
    int threads; /* compute threads of all devices; default: all cores that may be used */
    bool here;   /* a single host device executes steps on the thread that posts them: engine/single_host.c */
    bool seed_given, threads_given, ignore_eos, shuffle, evaluate, write, overwrite, json, profile, tune, weak, strong;
    WeightsChoice weights;
    int64_t samples;     /* predict; -1: not given */
    const char *only;    /* predict: names of the outputs to write, "a,b"; NULL: all */
    int64_t length;      /* generate: number of characters or tokens */
    double temperature;  /* generate */
    int64_t top_k;       /* generate: sample from the k likeliest classes; 0: from all */
    double top_p;        /* generate: of these, from the likeliest ones whose probabilities sum to this */
    const char *prompts; /* generate: a file with one text per line; NULL: not given */
    int64_t side;        /* generate: texts that are computed at the same time, at most; 0: not given */
    const char **stops;
    int stop_count;                               /* generate: texts at which it ends */
    int64_t failed_saves;                         /* failed saves in a row that end the run; -1: not given */
    double setting[MGPU_MAX_SETTINGS];            /* NaN: not given */
    mgpu_quantity validate, save_every, patience; /* unit NONE: not given */
    int64_t keep;                                 /* -1: not given */
    const char **parts;
    int part_count;              /* --init PATTERN=FILE, as given */
    const char *rules;           /* for files of --init and those that the program names; NULL: not given */
    const char *as, *vocabulary; /* export: the family; generate, export: the vocabulary's folder; NULL: not given */
    const char **config;
    int config_count; /* export: KEY=VALUE, or a file */
    const char **operands;
    int operand_count;                            /* after the command */
    const char *phase, *op, *layer, *at, *device; /* schedule: what is shown; NULL: not given */
    bool full, page, timeline;                    /* schedule */
    /* options that --resume repeats: "--epochs 30", "--set lr=0.05", "--no-shuffle" */
    const char **repeated;
    int repeated_count;
    int from_resumed; /* how many of these, the first ones, come from the resumed run */
    int argc;
    char **argv;                      /* the whole command line */
    double began;                     /* when main began, mgpu_seconds */
    struct OpenPlans *plans;          /* that have been unpacked: runtime/run/plans.c */
    struct mgpu_processes *processes; /* runtime/engine/processes.h; NULL: one process */
} RunOptions;

/* program: its name. What is derived from other options, such as threads, is 0. */
RunOptions mgpu_default_options(const mgpu_program *, const char *program);
#endif
