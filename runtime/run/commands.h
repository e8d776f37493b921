/* commands.h: the commands, and the output of a run. */
#ifndef MGPU_RUNTIME_RUN_COMMANDS_H
#define MGPU_RUNTIME_RUN_COMMANDS_H

#include "runtime/base/base.h"
#include "runtime/base/options.h"
#include "runtime/data/sets.h"
#include "runtime/engine/engine.h"
#include "runtime/run/clock.h"

/* ---- options.c */
const char *mgpu_command_name(CommandKind);

/* ---- nan_origin.c: messages, which the caller frees. domain: the learning rate is not to blame. mgpu_find_bad_sample finds what
 * made the loss of an evaluation NaN or infinite; a single process repeats the evaluation for that */
char *mgpu_origin_text(const mgpu_plan *, const Dataset *, const Origin *, bool *domain);
char *mgpu_find_bad_sample(const Feed *, const Dataset *, int64_t applied, int64_t epoch, bool alone);

/* ---- run_settings.c: the options and settings of a run */
char *mgpu_command_line(const RunOptions *); /* quoted for a shell; the caller frees */
void mgpu_write_settings(FILE *, const mgpu_program *, const RunOptions *, bool params); /* "name":value, ... */
const char *mgpu_compiled_setting(const mgpu_program *, const char *setting);            /* its text in the program, or NULL */

/* ---- reporter.c: a run's output and its log */
typedef struct Reporter Reporter;
typedef struct Evaluation { /* numbers of one report: "loss", "loss.NAME" and metrics */
    const char *split;      /* "train", "valid" */
    int64_t samples;
    const char *const *names;
    const double *values;
    int count; /* values NULL: not evaluated */
    int best;  /* 0: not watched; 1: the best so far; -1: not the best */
} Evaluation;
typedef struct StartReport {
    const mgpu_program *program;
    const mgpu_plan *plan;
    const RunOptions *options;
    const Engine *engine;
    int64_t train_samples, valid_samples, step, epoch, total_steps;
    uint64_t seed;
    const char *threads; /* such as "2 threads on 2 cores" */
    int thread_count;
} StartReport;
typedef struct StepReport {
    int64_t step, epoch, samples, total_steps, steps_per_epoch;
    const char *const *names;
    const double *values;
    int count;                                                /* all reports of the phase */
    double finished_at, input_wait_ms, communication_wait_ms; /* waits: of the device that waits longest */
} StepReport;
typedef struct HostTimes { /* a host of several processes: medians in milliseconds; share: of the batch */
    char name[96];
    int ranks, devices;
    double share, computing, input, communication; /* see EpochTimes; over its ranks */
} HostTimes;
typedef struct EpochReport { /* a row of the table */
    int64_t epoch, step;
    double passed; /* epochs so far, if the row is for a validation within an epoch; else 0 */
    double loss, lr;
    Evaluation train, valid; /* split NULL: none */
    EpochTimes times;
    const mgpu_prediction *predicted;
    HostTimes *hosts;
    int host_count; /* times of several processes, by host name; else empty */
    int slowest;    /* the rank that computes longest */
} EpochReport;
/* Epochs count from 1. The log of a resumed run is continued; others are overwritten. */
Reporter *mgpu_reporter_open(const mgpu_program *, const RunOptions *);
bool mgpu_reporter_close(Reporter *);         /* returns whether the log is complete */
void mgpu_report_flush(Reporter *);           /* the buffered output */
int mgpu_screen_lost(const Reporter *);       /* SIGPIPE, SIGXFSZ: why stdout cannot be written any more; else 0 */
void mgpu_print_policy(const mgpu_program *); /* names --plan if mgpuc was given one */
void mgpu_report_start(Reporter *, const StartReport *);
struct Events *mgpu_report_events(const Reporter *); /* the files of --tensorboard, or NULL */
void mgpu_report_resume(Reporter *);                 /* steps begin (again): the time before belongs to no step */
void mgpu_report_step(Reporter *, const StepReport *);
/* evaluate.c: "nan", "inf" or "-inf" if the loss is one of these; NULL if it is a number or not reported */
const char *mgpu_bad_loss(const Evaluation *);
/* evaluate.c: the number of elements NAME[i,...] of one metric from `first` on; 1 for other numbers */
int mgpu_evaluation_elements(const Evaluation *, int first);
void mgpu_report_eval(Reporter *, const Evaluation *, int64_t epoch, int64_t step); /* epoch 0: of no epoch, by `eval` */
void mgpu_report_epoch(Reporter *, const EpochReport *);
typedef struct SaveTimes {
    double write_s, stall_s;
} SaveTimes; /* write_s: of the save; stall_s: of the run */
/* digests: an object of JSON (mgpu_saved_digests) */
void mgpu_report_checkpoint(Reporter *, const char *folder, int64_t step, int64_t epoch, const char *digests, const SaveTimes *);
void mgpu_report_warning(Reporter *, const char *pattern, ...) MGPU_PRINTF(2, 3);
void mgpu_report_notice(Reporter *, const char *kind, const char *text);         /* reports what the run has found about itself */
void mgpu_report_remark(Reporter *, const char *pattern, ...) MGPU_PRINTF(2, 3); /* prints a line to stderr */
void mgpu_report_end(Reporter *, int64_t step, int64_t epoch, int status, const char *reason);
/* NaN if it is missing */
double mgpu_report_value(const char *const *names, const double *values, int count, const char *name);

/* ---- options.c, help.c */
void mgpu_read_options(RunOptions *, const mgpu_program *, int argc, char **argv); /* exits for --help and --version */
/* mgpu_resume_command returns a shell command that resumes as this run does; the caller frees. mgpu_keep_options applies options
 * that a save has kept, unless this command line overrides them. It reports settings that the program does not have any more. */
char *mgpu_resume_command(const RunOptions *, const char *folder);
void mgpu_keep_options(RunOptions *, const mgpu_program *, char *const *kept, int count);
char *mgpu_set_text(const mgpu_set *); /* its reader and stages; the caller frees */
void mgpu_print_help(const mgpu_program *, const char *name, FILE *);

/* ---- devices.c: the devices of a run */
const DeviceKind *mgpu_kind_of(const mgpu_plan *);
bool mgpu_computes_here(const mgpu_plan *); /* on threads of this program, not on GPUs */
/* Returns the number of threads of a run of the plan, and text such as "2 threads on 2 cores"; 0 and "" for GPUs. */
int mgpu_used_threads(const RunOptions *, const mgpu_plan *, char *text, size_t capacity);
const mgpu_plan *mgpu_choose_plan(const mgpu_program *, const RunOptions *);
/* plans.c: Returns the plan with its unpacked schedule, or the plan itself if it has no image. mgpu_close_plans frees all of
 * them. */
struct OpenPlans *mgpu_no_plans(void);
const mgpu_plan *mgpu_open_plan(const RunOptions *, const mgpu_plan *of_the_table);
void mgpu_close_plans(RunOptions *);
void mgpu_print_gpus(const mgpu_program *); /* for `info`: the GPUs of this machine and those that have kernels */

/* ---- the commands return the exit status. loop.c, evaluate.c, predict.c, generate.c, export.c, help.c, bench.c */
int mgpu_train(const mgpu_program *, const RunOptions *);
int mgpu_evaluate(const mgpu_program *, const RunOptions *);
int mgpu_predict(const mgpu_program *, const RunOptions *);
int mgpu_generate(const mgpu_program *, const RunOptions *);
int mgpu_export(const mgpu_program *, const RunOptions *);
int mgpu_info(const mgpu_program *, const RunOptions *);
int mgpu_bench(const mgpu_program *, const RunOptions *);
double mgpu_bench_ms(const mgpu_program *, const mgpu_plan *, const RunOptions *, bool *virtual); /* median time of a step */
/* bench_table.c: whether bench should print several rows; that bench. */
bool mgpu_asks_for_rows(const RunOptions *);
int mgpu_bench_rows(const mgpu_program *, const RunOptions *);
int mgpu_check_gradients(const mgpu_program *, const RunOptions *); /* gradients.c; 1: finite differences disagree */
int mgpu_follow(const mgpu_program *, const RunOptions *);          /* watch.c: watch */
int mgpu_show(const mgpu_program *, const RunOptions *);            /* report_page.c: report */
int mgpu_compare(const RunOptions *);                               /* compare_runs.c: compare */
/* trained_weights.c: Opens an engine with the weights of the options, and reports them; initializes `feed`. */
Engine *mgpu_open_trained(const mgpu_program *, const RunOptions *, Feed *feed, Categories *, Collect *, void *context);
/* evaluator.c: The same with a file (NULL: initial values), without a report. saved: the save of the file, or NULL. */
struct TensorFile;
struct Saved;
Engine *mgpu_open_loaded(const mgpu_program *, const mgpu_plan *, const RunOptions *, struct TensorFile *file,
                         const struct Saved *saved, Feed *, Collect *, void *context);
char *mgpu_save_folder(const RunOptions *);             /* the caller frees */
void mgpu_collect_nothing(void *context, const Work *); /* predict.c */
FILE *mgpu_take_output(void); /* reserves standard output for results; other output goes to standard error from now on */

/* ---- compare_processes.c: for several processes. Exits if one differs from rank 0 or they cannot share the plan */
void mgpu_compare_program(const RunOptions *, const mgpu_program *, const mgpu_plan *);
void mgpu_compare_set(const RunOptions *, const Dataset *);
void mgpu_compare_weights(const RunOptions *, const Feed *);

/* ---- initials.c: the initial values of a fresh run: the program's files and those of --init. If engine is NULL, they are
 * printed. Returns how many tensors of the model are missing */
void mgpu_add_init(RunOptions *, const char *value); /* FILE or PATTERN=FILE of --init */
int mgpu_load_initials(const mgpu_program *, const mgpu_plan *, Engine *, const RunOptions *);
/* Only those of --init PATTERN=FILE; view: see WeightSource. */
int mgpu_load_parts(const mgpu_program *, const mgpu_plan *, Engine *, const RunOptions *, int view);
/* Returns for each variable whether it keeps the model's initial value despite the whole model's file: by --init PATTERN=none, or
 * by init = none of a rule, which is reported; evaluation of a trained file (step not -1) ignores rules. The caller frees. */
bool *mgpu_left_out_of(const mgpu_program *, const RunOptions *, int64_t step);
void mgpu_join_parts(Categories *, const RunOptions *); /* reads word tables of --init PART=FILE; reports differences */
bool mgpu_parts_suffice(const mgpu_program *, const RunOptions *); /* they are the whole model */
/* Loads the word tables of the whole model's file for a fresh run. If parts have other initial values, the classes of labels
 * (inputs that no output needs) may differ. */
void mgpu_begin_categories(Categories *, const mgpu_program *, const mgpu_plan *, const RunOptions *);
#endif
