/* run.h: the state of a training run, shared by its files; loop.c runs it, replay.c explains a failure. */
#ifndef MGPU_RUN_H
#define MGPU_RUN_H

#include "runtime/base/options.h"
#include "runtime/base/intervals.h"
#include "runtime/data/data.h"
#include "runtime/data/sets.h"
#include "runtime/engine/engine.h"
#include "runtime/engine/processes.h"
#include "runtime/run/commands.h"
#include "runtime/save/checkpoint.h"

/* A state from which steps can be repeated: a copy of the variables, or on GPUs, which are not copied, the checkpoint `from`, or
 * the initial state if it is NULL. */
typedef struct ReplayState {
    bool known;
    uint8_t *data;
    const Saved *from;
    double setting[MGPU_MAX_SETTINGS], when;
    Progress at;
} ReplayState;
typedef struct Rates {
    int64_t step;
    double setting[MGPU_MAX_SETTINGS];
} Rates; /* settings of plateaus, from this step on */

typedef struct Numbers {
    double *values;
    const mgpu_phase *phase;
} Numbers; /* the last report of a kind; phase NULL: none */

typedef struct Run {
    StepClock *clock;
    const mgpu_program *program;
    const mgpu_plan *plan;
    const RunOptions *options;    /* points to `effective_options` */
    RunOptions effective_options; /* the command line's, with those that a resumed run has kept */
    Engine *engine;
    Reporter *reporter;
    Feed feed;
    double setting[MGPU_MAX_SETTINGS]; /* current values, from the options and plateaus */
    Dataset train, valid;              /* valid.samples 0: there is none */
    Categories *categories;
    int64_t *order;  /* order of the samples in an epoch */
    int64_t ordered; /* the epoch of `order`; -1: none */
    Pace pace;
    int64_t steps_per_epoch, total_steps;
    mgpu_quantity validate, save, patience;
    int64_t keep;
    int64_t audit; /* MGPU_AUDIT: interval in steps of comparing the devices' variables; 0: never */
    Progress at;   /* the last posted step; loss_* and skipped: the last collected one */
    Numbers train_report, eval_report;
    double lr, last_finish;
    double began, validated_at, saved_at; /* times by mgpu_seconds */
    bool warned, slow_rank_reported;
    int slow_rank;     /* 1 + the rank that others waited for in the previous row; 0: none */
    Trace *trace;      /* the trace of --trace; NULL if there is none or it has been written */
    char *folder;      /* folder for saves; NULL: none */
    SaveFolder *saves; /* that folder, locked */
    Saved *from;       /* the save that the run resumes from, or NULL */
    SaveOrigin origin;
    char *save_error;     /* why the last save failed, or NULL */
    int64_t failed_saves; /* consecutive ones */
    bool saved;           /* rank 0 saves the run */
    bool save_refused;    /* a save was skipped because weights were not finite; reported once */
    bool best_due;        /* the model is the best so far and not saved yet */
    SaveJob job;          /* the last save */
    bool preparing;       /* the thread `saver` allocates memory for copies */
    bool saving;          /* the thread `saver` writes the save */
    pthread_t saver;
    _Atomic bool job_done;
    char *job_error; /* the result of the save */
    int64_t job_epoch;
    double job_began, job_seconds, job_stall; /* start and duration of the save; time that the run waited */
    double stalled;                           /* sum of the waits for all saves but the last */
    int64_t saves_begun;                      /* number of these saves */
    char *best_error;                         /* why the best model could not be saved, or NULL */
    int failure_status;                       /* exit status of a failure that is not numerical; else 0 */
    int64_t saved_step;                       /* step of the last checkpoint in the folder; -1: none */
    bool out_of_patience;
    int64_t bad_validations, bad_validation; /* number of those whose loss was not finite; step of the first */
    int64_t begun_at, begun_skipped;         /* step and skipped steps when this process began */
    int64_t steps_before;                    /* planned steps of the run that is resumed, if different; else 0 */
    double first_loss;                       /* loss of step 1; NaN if unknown */
    double early_loss, last_loss;            /* mean losses of the first and last epoch rows; NaN if unknown */
    int64_t early_step;                      /* step of the first row */
    char *failure;                           /* why the run stops: numbers are not finite, or saving failed; else NULL */
    int64_t failed_step;                     /* the step with the bad numbers; 0: none */
    ReplayState replay_state;
    Rates *rates;
    int rate_count;          /* ascending by step; for GPUs */
    _Atomic int signal;      /* the signal that asks to stop; 0: none */
    _Atomic bool save_asked; /* by SIGUSR1 */
    pthread_t watcher;       /* waits for signals */
    _Atomic bool finished;   /* the watcher may end */
} Run;

/* ---- step_results.c */
void mgpu_run_collect(void *run, const Work *);
void mgpu_run_fail(Run *, int64_t step, char *what); /* numbers of the step are not finite: stops the run; takes over `what` */

/* ---- loop.c */
void mgpu_run_order(Run *, int64_t epoch); /* computes run->order of that epoch */
void mgpu_run_post(Run *);                 /* posts the next step */
/* Sets a drained engine to the run's initial state, or to that of the checkpoint `from`, which is at `at`. */
void mgpu_run_begin_at(Run *, const Progress *at, const Saved *from);

/* ---- saves.c */
void mgpu_run_find_folder(Run *);       /* exits if it has another run or is locked */
void mgpu_run_open_saved(Run *);        /* opens the save of --resume */
void mgpu_run_open_folder(Run *);       /* opens the folder to save in */
void mgpu_run_set_origin(Run *);        /* sets `origin` from open data */
void mgpu_run_take_fingerprints(Run *); /* fingerprints open data for the origin */
void mgpu_run_compare_origin(Run *);    /* reports differences from the run that is resumed */
void mgpu_run_compare_model(Run *);     /* the same, after its weights are loaded */
/* Saves a drained engine, unless weights are not finite. last: the run ends here. */
void mgpu_run_save(Run *, int64_t epoch, bool last);
void mgpu_run_save_best(Run *); /* saves the model, with the next checkpoint or mgpu_run_save_due */
void mgpu_run_save_due(Run *, int64_t epoch);
void mgpu_run_prepare_saves(Run *);       /* in parallel with the first steps */
void mgpu_run_end_save(Run *, bool wait); /* completes the current save if it is done, or waits */
void mgpu_run_print_saves(const Run *, double seconds);
void mgpu_run_end_saves(Run *); /* a last save that failed is the run's failure */
void mgpu_run_close_folder(Run *);

/* ---- signals.c */
void mgpu_run_watch(Run *); /* signals are requests from here on */
void mgpu_run_unwatch(Run *);
void mgpu_run_compare_times(Run *, EpochReport *); /* rank_times.c: collective call */
void mgpu_run_obeyed(const Run *);                 /* with several processes: reports that the last step is done */
int mgpu_run_signal(Run *); /* the signal that asks to stop, or SIGPIPE, SIGXFSZ if stdout is lost; 0: none */

/* ---- trace.c */
void mgpu_run_open_trace(Run *); /* before the engine is used */
void mgpu_run_trace_step(Run *); /* after each step: writes the trace when it is complete */
void mgpu_run_end_trace(Run *);  /* writes what there is */

/* ---- compare_devices.c */
uint64_t mgpu_hash(const uint8_t *data, int64_t bytes);
void mgpu_run_choose_audit(Run *); /* reads MGPU_AUDIT */
bool mgpu_run_audit_due(const Run *);
bool mgpu_run_histograms_due(const Run *);
void mgpu_run_histograms(Run *); /* histograms.c: of a drained engine */
void mgpu_run_audit(Run *);      /* fails if variables of a drained engine differ between devices */

/* ---- compare_processes.c */
void mgpu_run_compare_data(Run *);  /* after fingerprints are taken */
void mgpu_run_compare_state(Run *); /* before training starts */

/* ---- replay.c */
/* Copies all variables of a drained engine of one process to `data`, which is resized and freed by the caller, and back. */
uint8_t *mgpu_copy_variables(const Feed *, uint8_t *data);
void mgpu_put_variables_back(const Feed *, const uint8_t *data);
void mgpu_run_keep_state(Run *);   /* keeps the state of a drained engine for a replay */
void mgpu_run_record_rates(Run *); /* run->setting has changed after the last posted step */
void mgpu_run_explain(Run *);      /* completes the message in run->failure */
void mgpu_run_forget(Run *);
#endif
