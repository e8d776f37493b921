/* training.h: a model, trained by the reference interpreter on made-up data, one way or the other; see models.c. */
#ifndef MGPU_FUZZ_TRAINING_H
#define MGPU_FUZZ_TRAINING_H

#include "compiler/plan/plan.h"
#include "tests/fuzz/trace.h"
#include "tests/unit/machine.h"

enum { STEPS = 4, SEED = 11 }; /* of a run */

/* ---- data: a function of input, sample and element; samples of valid are after those of train */
enum { VALID = 1000 };
extern int64_t first_of_set; /* 0, VALID */
extern int shaken;           /* not 0: inputs and weights begin a little beside their values, and so does what is computed, each
                                number in its own way */
extern double shaken_by;     /* how much: what the precision of the model rounds by */
double data_value(const Model *, int input, int64_t sample, int64_t element);
int64_t train_samples(const Model *);
int64_t valid_samples(const Model *);

/* ---- the graphs of a model, one way or the other */
typedef struct Way {
    const char *name;
    bool bodies, raw, whole; /* raw: loops written out, never simplified; whole: no micro-batches */
    int devices;
} Way;
extern const Way REFERENCE;

typedef struct Net {
    Model *m;
    Plan plan;
    Graph *init, *train[2], *eval[2], *accumulate[2], *prologue[2], *report_train, *report_eval, *plain; /* [partial_batch] */
} Net;
Model *elaborated(const char *text);
Net build(const char *text, const Way *);

/* ---- running */
typedef struct Trainer {
    const Net *net;
    Machine machine;
    double run[RUN_SCALARS], *settings; /* settings: NaN but for plateaus */
    struct Plateaued {
        double best;
        bool any;
        int bad;
    } * plateaus;
    Trace *trace;
} Trainer;

void begin(Trainer *, const Net *, Trace *); /* variables have their initial values */
void first_variables(const Net *, Trace *);  /* weights before the first step, as run_training says them after the last */
void run_training(const Net *, Trace *);     /* what it says: trace.h */
#endif
