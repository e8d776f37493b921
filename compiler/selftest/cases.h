/* cases.h: graphs whose kernels are compared with the interpreter, for `mgpuc selftest`, the test of a compiler before its first
 * use, and the project's own tests of kernels.
 *
 *   cases.c   models, values of their inputs and variables, comparing a graph's kernels with the interpreter
 *   graphs.c  random graphs: nests, views, constants, conditions, reductions, tables, matmuls, of every type
 *   scans.c   random loops
 *   chosen.c  graphs that a compiler has computed wrongly
 *   sums.c    all-reduces by the runtime library
 *   unit.c    compiles cases to one program, runs it, and compares the results
 *   test.c    the two tests: before the first use, and `mgpuc selftest` */
#ifndef MGPU_SELFTEST_CASES_H
#define MGPU_SELFTEST_CASES_H

#include "compiler/ir/program.h"
#include "compiler/kernel/phase.h"
#include "runtime/host/trial.h"

enum { SAMPLES = 5, FIRST_SAMPLE = 40, FIRST_PLACE = 2, STEP = 3, SEED = 11 };

/* ---- random numbers: the same ones after the same seed */
void seed_random(uint64_t); /* not 0 */
int64_t draw(int64_t below);
double uniform(void); /* in [-1, 1) */

/* ---- models: functions that make graphs also add inputs, and variables whose axes have any order in memory */
Model *new_model(int64_t batch); /* batch 0: it is not given */
Graph *new_graph(Model *);
Node *new_input(Graph *, Dtype, Shape, int64_t classes);
Node *new_variable(Graph *, Dtype, Shape);
Graph *random_graph(int number, Dtype real); /* real: F64 or F32, the type that it computes in */
Graph *random_loop(int number, Dtype real);
typedef struct ChosenGraph {
    const char *name;
    Graph *(*make)(Dtype real);
} ChosenGraph;
extern const ChosenGraph CHOSEN_GRAPHS[];
extern const int CHOSEN_GRAPH_COUNT;

/* ---- cases */
typedef struct Case {
    const char *name;
    double tolerance; /* relative for large numbers */
    double noise;     /* relative error allowed in each operation, which results may amplify; 0: no error is allowed */
    bool same_bits;   /* for any number of threads */
    bool fewer;       /* short runs of tests skip the run in one block */
    Graph *graph;
    Phase *fused, *separate;
    uint64_t values; /* seed of inputs and variables */
} Case;
Case new_case(const char *name, Graph *, Program *, bool separate); /* fused, and also with a kernel for each operation */

typedef struct CaseValues { /* inputs, variables, and what the interpreter computes from them */
    const Case *c;
    double **input, **variable, **node; /* row-major; node: by id */
    double **slack;
    int tries; /* for each result, how much noise changes it in so many tries; NULL: not computed */
} CaseValues;
CaseValues case_values(const Case *);
void case_values_free(CaseValues *);

/* What runs a case's kernels. */
typedef struct CaseRunner CaseRunner;
struct CaseRunner {
    char *(*memory)(CaseRunner *, int64_t bytes);               /* aligned to 64 bytes */
    const char *(*call)(CaseRunner *, const Kernel *, Trial *); /* now or later; returns what is wrong, or NULL */
    int64_t (*workspace)(const Kernel *, const Task *);         /* bytes for each thread; NULL: as the task says */
};
typedef struct CaseRun {
    const Phase *phase;
    char **memory; /* for each tensor */
    char **guard;  /* for each task, what follows its workspace and must stay untouched; NULL: none */
} CaseRun;
/* Fills the memory and makes the calls; returns what is wrong, or NULL. */
const char *case_start(const CaseValues *, const Phase *, int threads, CaseRunner *, CaseRun *);
/* Checks the results when all calls are done; returns what is wrong, with the kernel's name, or NULL. bits: a hash of all
 * results. */
const char *case_end(CaseValues *, const CaseRun *, uint64_t *bits);

#endif
