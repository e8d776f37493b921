/* run.h: a training run, for its files: loop.c is its course, replay.c says what ended it. */
#ifndef MGPU_RUN_H
#define MGPU_RUN_H

#include "runtime/base/options.h"
#include "runtime/base/watch.h"
#include "runtime/data/data.h"
#include "runtime/data/sets.h"
#include "runtime/engine/engine.h"
#include "runtime/engine/processes.h"
#include "runtime/run/commands.h"
#include "runtime/save/checkpoint.h"

/* From where steps can be run once more: a copy of the variables; or, on GPUs, which nothing is copied from while all is well, a
 * checkpoint of `from`, or (NULL) what the run began with */
typedef struct KeptState {
    bool known;
    uint8_t *data;
    const Saved *from;
    double setting[MGPU_MAX_SETTINGS], when;
    Progress at;
} KeptState;
typedef struct Rates { int64_t step; double setting[MGPU_MAX_SETTINGS]; } Rates; /* from this step on, by plateaus */

typedef struct Numbers { double *values; const mgpu_phase *phase; } Numbers; /* the last report of a kind; phase NULL: none */

typedef struct Run {
    StepClock *clock;
    const mgpu_program *program;
    const mgpu_plan *plan;
    const Options *options;        /* those below */
    Options own;                   /* the command line's, with what a run that goes on has kept */
    Engine *engine;
    Reporter *reporter;
    Feed feed;
    double setting[MGPU_MAX_SETTINGS]; /* the options', and those of plateaus */
    Dataset train, valid;          /* valid.samples 0: there is none */
    Categories *categories;
    int64_t *order;                /* of an epoch's samples, */
    int64_t ordered;               /* and which epoch's; -1: none */
    Pace pace;
    int64_t steps_per_epoch, total_steps;
    mgpu_quantity validate, save, patience;
    int64_t keep;
    int64_t audit;                 /* MGPU_AUDIT: compare the devices' variables every so many steps; 0: never */
    Progress at;                   /* what is posted; loss_*, skipped: what is collected */
    Numbers train_report, eval_report;
    double lr, last_finish;
    double began, validated_at, saved_at; /* mgpu_seconds */
    bool warned, slow_rank_said;
    int slow_rank;                 /* of the row before, which others waited for, + 1; 0: none */
    Trace *trace;                  /* of --trace; NULL: none, or it is written */
    char *folder;                  /* where to save; NULL: nowhere */
    SaveFolder *saves;             /* that folder, locked */
    Saved *from;                   /* that the run goes on from; NULL: it begins */
    SaveOrigin origin;
    char *save_error;              /* why the last save failed; NULL: it did not */
    int64_t failed_saves;          /* in a row */
    bool saved;                    /* rank 0 saves the run */
    bool save_refused;             /* once, since weights were not finite */
    bool best_due;                 /* the model is the best so far, and not saved yet */
    SaveJob job;                   /* the last save, */
    bool preparing;                /* a thread, saver, takes memory for copies */
    bool saving;                   /* it is writing the save: */
    pthread_t saver;
    _Atomic bool job_done;
    char *job_error;               /* what it returned */
    int64_t job_epoch;
    double job_began, job_seconds, job_stall; /* when it began; that it took; that the run waited */
    double stalled;                /* by all saves but the last, */
    int64_t saves_begun;           /* and how many these were */
    char *best_error;              /* why the best model could not be saved; NULL: it could */
    int failure_status;            /* of a failure that is no number's; else 0 */
    int64_t saved_step;            /* of the last checkpoint there; -1: none */
    bool out_of_patience;
    int64_t bad_validations, bad_validation; /* whose loss was not finite; the step of the first */
    int64_t begun_at, begun_skipped; /* step and skipped steps when this process began */
    int64_t steps_before;          /* the length of the run that goes on, if it was another one; else 0 */
    double first_loss;             /* of step 1; NaN: not known */
    double early_loss, last_loss;  /* of the first and the last row of an epoch, their means; NaN: not known */
    int64_t early_step;            /* at which that first row was */
    char *failure;                 /* numbers are not finite, and the run stops; NULL: it goes on */
    int64_t failed_step;           /* where; 0: at no step */
    KeptState kept;
    Rates *rates; int rate_count;  /* ascending, of GPUs */
    _Atomic int signal;            /* that asks to stop; 0: none */
    _Atomic bool save_asked;       /* by SIGUSR1 */
    pthread_t watcher;             /* waits for signals */
    _Atomic bool finished;         /* nobody needs to watch for one any more */
} Run;

/* ---- collect.c */
void mgpu_run_collect(void *run, const Work *);
void mgpu_run_fail(Run *, int64_t step, char *what); /* numbers of the step are not finite: the run stops. It frees `what` */

/* ---- loop.c */
void mgpu_run_order(Run *, int64_t epoch); /* run->order becomes that epoch's */
void mgpu_run_post(Run *);                 /* the next step */
/* a drained engine: the state that a run begins with, or (from) that of a checkpoint, which is at `at` */
void mgpu_run_begin_at(Run *, const Progress *at, const Saved *from);

/* ---- saves.c */
void mgpu_run_find_folder(Run *);          /* ends the program if it holds another run, or another run writes there */
void mgpu_run_open_saved(Run *);           /* of --resume */
void mgpu_run_open_folder(Run *);          /* to write into it */
void mgpu_run_set_origin(Run *);           /* of open data */
void mgpu_run_take_fingerprints(Run *);     /* of open data, for the origin */
void mgpu_run_compare_origin(Run *);       /* says what differs from the run that goes on */
void mgpu_run_compare_model(Run *);           /* likewise, once its weights are loaded */
/* of a drained engine. Weights that are not finite do not replace a checkpoint. last: the run ends here */
void mgpu_run_save(Run *, int64_t epoch, bool last);
void mgpu_run_save_best(Run *);            /* the model, with the checkpoint of this step or by mgpu_run_save_due */
void mgpu_run_save_due(Run *, int64_t epoch);
void mgpu_run_prepare_saves(Run *);        /* beside the first steps */
void mgpu_run_end_save(Run *, bool wait);  /* the save that is being written, if it is done: what came of it */
void mgpu_run_print_saves(const Run *, double seconds);
void mgpu_run_end_saves(Run *);            /* a last save that failed is the run's failure */
void mgpu_run_close_folder(Run *);

/* ---- signals.c */
void mgpu_run_watch(Run *);                /* signals are requests from here on */
void mgpu_run_unwatch(Run *);
void mgpu_run_compare_times(Run *, EpochReport *); /* ranks.c: of several processes, all of which call it */
void mgpu_run_obeyed(const Run *);         /* of several processes: the step is finished that a signal asked to be the last */
int mgpu_run_signal(Run *);                /* that asks to stop, or SIGPIPE, SIGXFSZ where stdout is lost; 0: none */

/* ---- trace.c */
void mgpu_run_open_trace(Run *);           /* of an engine that has done nothing yet */
void mgpu_run_trace_step(Run *);           /* a step has been posted: writes the trace if it is whole */
void mgpu_run_end_trace(Run *);            /* writes what there is */

/* ---- agree.c */
uint64_t mgpu_hash(const uint8_t *data, int64_t bytes);
void mgpu_run_choose_audit(Run *);         /* what MGPU_AUDIT says */
bool mgpu_run_audit_due(const Run *);
bool mgpu_run_histograms_due(const Run *);
void mgpu_run_histograms(Run *);           /* of a drained engine, if they are due: histograms.c */
void mgpu_run_audit(Run *);                /* of a drained engine, if there is an audit: devices that differ are a failure */

/* ---- same.c, too */
void mgpu_run_compare_data(Run *);         /* open data, of which fingerprints are taken */
void mgpu_run_compare_state(Run *);        /* of an engine that is about to train */

/* ---- replay.c */
/* all variables of a drained engine of one process, into `data`, which is resized (NULL: new); the caller frees. And back. */
uint8_t *mgpu_copy_variables(const Feed *, uint8_t *data);
void mgpu_put_variables_back(const Feed *, const uint8_t *data);
void mgpu_run_keep(Run *);                 /* of a drained engine: its state, to begin there once more */
void mgpu_run_note_rates(Run *);           /* run->setting has changed after the step that was posted last */
void mgpu_run_explain(Run *);              /* failure becomes a whole message */
void mgpu_run_forget(Run *);
#endif
