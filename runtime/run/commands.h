/* commands.h: what users see of a run, and the commands. */
#ifndef MGPU_RUNTIME_RUN_COMMANDS_H
#define MGPU_RUNTIME_RUN_COMMANDS_H

#include "runtime/base/base.h"
#include "runtime/base/options.h"
#include "runtime/data/sets.h"
#include "runtime/engine/engine.h"
#include "runtime/run/clock.h"

/* ---- options.c */
const char *mgpu_command_name(CommandKind);

/* ---- origin.c: in words, which the caller frees. domain: it is no matter of rates. What made the loss of an evaluation NaN or infinite,
 * which is done once more for it if one process is alone */
char *mgpu_origin_text(const mgpu_plan *, const Dataset *, const Origin *, bool *domain);
char *mgpu_find_bad_sample(const Feed *, const Dataset *, int64_t applied, int64_t epoch, bool alone);

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
    double finished_at, input_wait_ms, communication_wait_ms; /* the longest of a device */
} StepReport;
typedef struct HostTimes {             /* of a host of several processes: medians in milliseconds; share: of a batch */
    char name[96];
    int ranks, devices;
    double share, computing, input, communication; /* as EpochTimes has them, over its ranks */
} HostTimes;
typedef struct EpochReport {           /* a row of the table */
    int64_t epoch, step;
    double passed;                     /* epochs, if the row is one of validation within an epoch; else 0 */
    double loss, lr;
    Evaluation train, valid;           /* split NULL: none */
    EpochTimes times;
    const mgpu_prediction *predicted;
    HostTimes *hosts; int host_count;  /* of several processes, by name; else none */
    int slowest;                       /* the rank that computes longest */
} EpochReport;
/* Epochs count from 1. The log of a run that goes on gets further lines, else it is written anew */
Reporter *mgpu_reporter_open(const mgpu_program *, const Options *);
bool mgpu_reporter_close(Reporter *);  /* -> whether the log is whole */
void mgpu_report_flush(Reporter *);    /* what others have printed */
int mgpu_screen_lost(const Reporter *); /* SIGPIPE, SIGXFSZ: why nothing can be written to stdout any more; else 0 */
void mgpu_print_policy(const mgpu_program *); /* a line that names --plan, if mgpuc was told one */
void mgpu_report_start(Reporter *, const StartReport *);
struct Events *mgpu_report_events(const Reporter *); /* of --tensorboard; NULL: there are none */
void mgpu_report_resume(Reporter *);   /* steps begin (again): the time before is no step's */
void mgpu_report_step(Reporter *, const StepReport *);
/* evaluate.c: "nan", "inf" or "-inf" if the loss is one of these; NULL: it is a number, or none is reported */
const char *mgpu_bad_loss(const Evaluation *);
/* evaluate.c: of a metric of many elements, NAME[i,...] one after the other: how many from the first on; else 1 */
int mgpu_evaluation_elements(const Evaluation *, int first);
void mgpu_report_eval(Reporter *, const Evaluation *, int64_t epoch, int64_t step);
void mgpu_report_epoch(Reporter *, const EpochReport *);
typedef struct SaveTimes { double write_s, stall_s; } SaveTimes; /* of writing a save; of these the run waited so long, also for its copy */
void mgpu_report_checkpoint(Reporter *, const char *folder, int64_t step, int64_t epoch, const SaveTimes *);
void mgpu_report_warning(Reporter *, const char *pattern, ...) MGPU_PRINTF(2, 3);
void mgpu_report_notice(Reporter *, const char *kind, const char *text); /* what a run has found out about itself */
void mgpu_report_note(Reporter *, const char *pattern, ...) MGPU_PRINTF(2, 3); /* a line on stderr */
void mgpu_report_end(Reporter *, int64_t step, int64_t epoch, int status, const char *reason);
double mgpu_report_value(const char *const *names, const double *values, int count, const char *name); /* NaN: not there */

/* ---- options.c, help.c */
void mgpu_read_options(Options *, const mgpu_program *, int argc, char **argv); /* ends the program for --help, --version */
/* Of a run that goes on: what its save has kept of the command line that began it (as Options has it), as far as this one does not say it
 * anew. `kept` is not needed afterwards. A setting that the program has no more is said */
char *mgpu_resume_command(const Options *, const char *folder); /* for a shell: what goes on there as this run does; the caller frees */
void mgpu_keep_options(Options *, const mgpu_program *, char *const *kept, int count);
char *mgpu_set_text(const mgpu_set *); /* its reader and stages; the caller frees */
void mgpu_print_help(const mgpu_program *, const char *name, FILE *);

/* ---- devices.c: what a run computes with */
const DeviceKind *mgpu_kind_of(const mgpu_plan *);
bool mgpu_computes_here(const mgpu_plan *);             /* with threads of this program; else on GPUs */
/* of a run of the plan, and in words: "2 threads on 2 cores"; 0 and no words if GPUs compute */
int mgpu_used_threads(const Options *, const mgpu_plan *, char *text, size_t room);
const mgpu_plan *mgpu_choose_plan(const mgpu_program *, const Options *);
void mgpu_print_gpus(const mgpu_program *);             /* for `info`: those that are here, and what there are kernels for */

/* ---- the commands; they return the exit status. loop.c, evaluate.c, predict.c, generate.c, export.c, help.c, bench.c */
int mgpu_train(const mgpu_program *, const Options *);
int mgpu_evaluate(const mgpu_program *, const Options *);
int mgpu_predict(const mgpu_program *, const Options *);
int mgpu_generate(const mgpu_program *, const Options *);
int mgpu_export(const mgpu_program *, const Options *);
int mgpu_info(const mgpu_program *, const Options *);
int mgpu_bench(const mgpu_program *, const Options *);
double mgpu_bench_ms(const mgpu_program *, const mgpu_plan *, const Options *, bool *virtual); /* the median of a step */
/* rows.c: whether options of bench ask for several rows; and that bench */
bool mgpu_asks_for_rows(const Options *);
int mgpu_bench_rows(const mgpu_program *, const Options *);
int mgpu_check_gradients(const mgpu_program *, const Options *); /* gradients.c: 1: finite differences contradict */
int mgpu_follow(const mgpu_program *, const Options *); /* follow.c: watch */
int mgpu_show(const mgpu_program *, const Options *);   /* show.c: report */
/* trained.c: an engine with the weights that the options name, which it says, for who does not train; initialises `feed` */
Engine *mgpu_open_trained(const mgpu_program *, const Options *, Feed *feed, Categories *, Collect *, void *context);
/* loaded.c: the same of a file (NULL: what the model begins with), which says nothing; saved: that it is of, or NULL */
struct TensorFile;
struct Saved;
Engine *mgpu_open_loaded(const mgpu_program *, const mgpu_plan *, const Options *, struct TensorFile *file,
                         const struct Saved *saved, Feed *, Collect *, void *context);
char *mgpu_save_folder(const Options *); /* the caller frees */
void mgpu_collect_nothing(void *context, const Work *); /* predict.c */
FILE *mgpu_take_output(void); /* standard output for results alone: what else is said goes to standard error from now on */

/* ---- same.c: of several processes; each ends the program where one differs from rank 0, or where they cannot share the plan */
void mgpu_compare_program(const Options *, const mgpu_program *, const mgpu_plan *);
void mgpu_compare_set(const Options *, const Dataset *);
void mgpu_compare_weights(const Options *, const Feed *);

/* ---- initials.c: what a fresh run begins with: the program's files and those of --init. With an engine NULL that is printed; ->
 * how many tensors of the model are not there */
void mgpu_add_init(Options *, const char *value); /* of --init: FILE or PATTERN=FILE */
int mgpu_load_initials(const mgpu_program *, const mgpu_plan *, Engine *, const Options *);
/* those of --init PATTERN=FILE alone; view as in PartSource */
int mgpu_load_parts(const mgpu_program *, const mgpu_plan *, Engine *, const Options *, int view);
/* by variable: begins as the model says, whatever the file of the whole model has, by --init PATTERN=none, and, unless a trained
 * model's file (step: not -1) is read to evaluate, by init = none of a rule, which it says. The caller frees */
bool *mgpu_left_out_of(const mgpu_program *, const Options *, int64_t step);
void mgpu_join_parts(Categories *, const Options *);    /* tables of words of the files of --init PART=FILE; says where they differ */
bool mgpu_parts_suffice(const mgpu_program *, const Options *);          /* they are all of the model */
/* the classes that a fresh run begins with: those of the file of the whole model. Where parts begin otherwise, labels (inputs that
 * no output needs) may be others */
void mgpu_begin_categories(Categories *, const mgpu_program *, const mgpu_plan *, const Options *);
#endif
