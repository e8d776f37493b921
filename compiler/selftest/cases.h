/* cases.h: graphs whose kernels are compared with the interpreter: what `mgpuc selftest`, the test of a compiler before its first use, and
 * the project's own tests of kernels share.
 *
 *   cases.c   models, values of their inputs and variables, kernels of a graph beside the interpreter
 *   graphs.c  random graphs: nests, views, constants, conditions, reductions, tables, matmuls, of every type
 *   scans.c   random loops
 *   chosen.c  graphs that a compiler has computed wrongly
 *   sums.c    sums over devices by the runtime library
 *   unit.c    cases as one program of the C compiler, and what came of it
 *   test.c    the two tests: before the first use, and `mgpuc selftest`
 */
#ifndef MGPU_SELFTEST_CASES_H
#define MGPU_SELFTEST_CASES_H

#include "compiler/ir/program.h"
#include "compiler/kernel/phase.h"
#include "runtime/host/trial.h"

enum { SAMPLES = 5, FIRST_SAMPLE = 40, STEP = 3, SEED = 11 };

/* ---- random numbers: the same ones after the same seed */
void seed_random(uint64_t); /* not 0 */
int64_t draw(int64_t below);
double uniform(void);       /* in [-1, 1) */

/* ---- models: what makes them adds inputs, and variables whose axes are in any order in memory */
Model *new_model(int64_t batch); /* batch 0: none is said */
Graph *new_graph(Model *);
Node *new_input(Graph *, Dtype, Shape, int64_t classes);
Node *new_variable(Graph *, Dtype, Shape);
Graph *random_graph(int number, Dtype real);            /* real: F64 or F32, the type that it calculates in */
Graph *random_loop(int number, Dtype real);
typedef struct ChosenGraph { const char *name; Graph *(*make)(Dtype real); } ChosenGraph;
extern const ChosenGraph CHOSEN_GRAPHS[];
extern const int CHOSEN_GRAPH_COUNT;

/* ---- cases */
typedef struct Case {
    const char *name;
    double tolerance;           /* relative where numbers are large */
    double noise;               /* of what each operation may be off, relative: what hangs on that may differ by as much; 0: nothing may */
    bool same_bits;             /* whatever the number of threads */
    bool fewer;                 /* in short runs of tests not in one block */
    Graph *graph;
    Phase *fused, *separate;
    uint64_t values;            /* seed of inputs and variables */
} Case;
Case new_case(const char *name, Graph *, Program *, bool separate); /* fused, and also with a kernel for each operation */

typedef struct CaseValues { /* inputs, variables, and what the interpreter computes of them */
    const Case *c;
    double **input, **variable, **node; /* row-major; node: by id */
    double **slack; int tries;          /* by result: what noise changes, in so many tries; NULL: none */
} CaseValues;
CaseValues case_values(const Case *);
void case_values_free(CaseValues *);

/* Who runs a case's kernels. */
typedef struct CaseRunner CaseRunner;
struct CaseRunner {
    char *(*memory)(CaseRunner *, int64_t bytes);                  /* at a multiple of 64 */
    const char *(*call)(CaseRunner *, const Kernel *, Trial *);    /* now or later; -> what is wrong, or NULL */
    int64_t (*workspace)(const Kernel *, const Task *);            /* of a thread, in bytes; NULL: as the task says */
};
typedef struct CaseRun {
    const Phase *phase;
    char **memory;            /* by tensor */
    char **behind;            /* by task: what is after its workspace, which nobody may touch; NULL: none */
} CaseRun;
/* fills memory and makes the calls; -> what is wrong, or NULL */
const char *case_start(const CaseValues *, const Phase *, int threads, CaseRunner *, CaseRun *);
/* when the calls are done: -> what is wrong, with the kernel's name, or NULL; bits: of all results, as one number */
const char *case_end(CaseValues *, const CaseRun *, uint64_t *bits);


#endif
