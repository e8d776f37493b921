/* options.h: the command line of a program, as the parts of the runtime read it. */
#ifndef MGPU_RUNTIME_BASE_OPTIONS_H
#define MGPU_RUNTIME_BASE_OPTIONS_H

#include "runtime/base/base.h"

typedef enum CommandKind { COMMAND_TRAIN, COMMAND_EVAL, COMMAND_PREDICT, COMMAND_INFO, COMMAND_SCHEDULE, COMMAND_BENCH, COMMAND_GENERATE, COMMAND_WATCH, COMMAND_REPORT,
    COMMAND_CHECK_GRADIENTS, COMMAND_EXPORT } CommandKind;
typedef enum WeightsChoice { WEIGHTS_USUAL, WEIGHTS_BEST, WEIGHTS_LAST } WeightsChoice; /* USUAL: best, where `best` is set */
enum { MGPU_STALL_S = 120 }; /* without --stall */

typedef struct Options {
    CommandKind command;
    const char *program;                     /* as it was called, without folders */
    const char *data, *init, *save, *resume, *log, *output, *devices, *measure, *trace, *trace_steps, *tensorboard, *batches;
    int64_t epochs, steps, warmup, stop_after, histograms; /* -1: not given */
    double stall;                            /* seconds without any progress after which that is said; 0: never */
    struct Hang *hang;                       /* who looks on (engine/hang.c); NULL: nobody */
    uint64_t seed;
    int threads;                             /* that compute, of all devices: what may be used, unless given */
    bool here;                               /* who posts a step computes it, where there is one host device: engine/here.c */
    bool seed_given, threads_given, ignore_eos, shuffle, evaluate, write, overwrite, json, profile, tune, weak, strong;
    WeightsChoice weights;
    int64_t samples;                         /* of predict; -1: not given */
    const char *only;                        /* likewise: the outputs that are written, "a,b"; NULL: all */
    int64_t length;                          /* of generate: how many characters or tokens */
    double temperature;                      /* likewise */
    int64_t top_k;                           /* likewise: so many classes, the likeliest, may be sampled; 0: all */
    double top_p;                            /* likewise: of these the likeliest, whose probabilities reach it together */
    const char *prompts;                     /* likewise: a file with a text each line; NULL: not given */
    int64_t side;                            /* likewise: so many of these are computed side by side, at most; 0: not given */
    const char **stops; int stop_count;      /* likewise: texts at which it ends */
    int64_t failed_saves;                    /* in a row, that end the run; -1: not given */
    double setting[MGPU_MAX_SETTINGS];       /* NaN: not given */
    mgpu_quantity validate, save_every, patience; /* unit NONE: not given */
    int64_t keep;                            /* -1: not given */
    const char **parts; int part_count;      /* of --init PATTERN=FILE, as given */
    const char *rules;                       /* of the files of --init, and of those that the program names; NULL: not given */
    const char *as, *vocabulary;             /* of export: the family; of generate, too: the folder of the vocabulary; NULL: not given */
    const char **config; int config_count;   /* likewise: KEY=VALUE, or a file */
    const char **operands; int operand_count;/* after the command */
    const char *phase, *op, *layer, *at, *device; /* of schedule: what is shown; NULL: not given */
    bool full, page, timeline;               /* likewise */
    const char **kept; int kept_count;       /* what a run keeps when it goes on: "--epochs 30", "--set lr=0.05", "--no-shuffle" */
    int again;                               /* so many of these, the first, are from the run that goes on */
    int argc; char **argv;                   /* all of it */
    double began;                            /* when main began */
    struct mgpu_processes *processes;        /* runtime/engine/processes.h; NULL: one */
} Options;

/* program: as it was called. What is worked out when all are read, such as the threads, is 0 */
Options mgpu_default_options(const mgpu_program *, const char *program);
#endif
