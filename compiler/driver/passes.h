/* passes.h: the compiler as a table of passes (passes.c), and the state that they work on. */
#ifndef MGPU_DRIVER_PASSES_H
#define MGPU_DRIVER_PASSES_H

#include "compiler/ir/program.h"
#include "compiler/kernel/phase.h"
#include "compiler/link/link.h"
#include "dsl/dsl.h"

/* Properties that hold after a pass. The driver checks that each pass has what it needs. */
/* clang-format off */
#define FACTS(F)                                                                                                                 \
    F(TREE, "the syntax tree")                                                                                                   \
    F(INIT, "a graph init")                                                                                                      \
    F(TRAIN, "a graph train")                                                                                                    \
    F(EVAL, "a graph eval")                                                                                                      \
    F(COMPOSITES, "library layers as one node each")                                                                             \
    F(SIMPLE, "folded graphs, with einsums of two operands")                                                                     \
    F(GRADIENTS, "gradients of the trained variables")                                                                           \
    F(STEP, "the whole step: optimizer, metrics, reports, predict")                                                              \
    F(DISTRIBUTION, "nodes with a placement, and reductions")                                                                    \
    F(PRECISION, "types of the model's precision")                                                                               \
    F(LAYOUT, "the order of variables in memory")                                                                                \
    F(VARIANTS, "full and partial graphs")                                                                                        \
    F(KERNELS, "phases of tasks and kernels")                                                                                    \
    F(SHARES, "samples per device")                                                                                              \
    F(SCHEDULES, "schedules")                                                                                                    \
    F(PROOF, "proved schedules")                                                                                                 \
    F(UNITS, "C in translation units")                                                                                           \
    F(IMAGES, "images of kernels for GPUs")                                                                                      \
    F(OBJECTS, "objects")                                                                                                        \
    F(PROGRAM, "the program")
/* clang-format on */
#define FACT_NUMBER(name, text) name##_FACT,
#define FACT_BIT(name, text) name = 1 << name##_FACT,
enum { FACTS(FACT_NUMBER) FACT_COUNT };
enum { NOTHING = 0, FACTS(FACT_BIT) GRAPHS = INIT | TRAIN | EVAL };
typedef unsigned Facts;

typedef struct Pass Pass;
typedef struct Compilation {
    const Options *options;
    const Pass *next; /* the first pass that has not run; NULL: none has */
    Facts facts;
    Source *source;
    Tree *tree;
    Program *program;
    Graph *graphs[PHASE_KINDS];      /* NULL: the program has no such phase */
    Graph *variants[PHASE_KINDS][2]; /* [partial]: specialized */
    Build *build;
    const char *remark; /* a remark of the last pass for -v; NULL: none */
} Compilation;

struct Pass {
    const char *name;                          /* for --emit and -v */
    void (*run)(Compilation *);                /* NULL: the row only prints another view */
    void (*dump)(const Compilation *, Text *); /* what --emit prints; NULL: nothing */
    Facts needs, makes, breaks;
    const char *why; /* it is at this place */
};

/* passes.c */
const Pass *emitted_pass(const char *name);       /* --emit; exit 2 if there is none */
const Pass *from_pass(const Options *);           /* --from; NULL: not given; exit 2 if the pass prints no graphs */
void stages_print(bool graphs, Text *);           /* the names that --emit, or --from, accepts */
void run_passes(Compilation *, const char *last); /* remaining passes up to and including `last`; NULL: all */

/* stages.c: the passes of the table */
void pass_parse(Compilation *), pass_elaborate(Compilation *), pass_resolve(Compilation *), pass_simplify(Compilation *),
    pass_loops(Compilation *), pass_differentiate(Compilation *), pass_update(Compilation *), pass_distribute(Compilation *),
    pass_precision(Compilation *), pass_shard(Compilation *), pass_layout(Compilation *), pass_phases(Compilation *),
    pass_fuse(Compilation *), pass_split(Compilation *), pass_recompute(Compilation *), pass_schedule(Compilation *),
    pass_verify(Compilation *), pass_emit(Compilation *), pass_images(Compilation *), pass_compile(Compilation *),
    pass_link(Compilation *);

void check_memory(const Compilation *); /* of the schedules: an error if more is needed than a given limit */

/* dumps.c: what --emit prints and --from reads */
void dump_tree(const Compilation *, Text *), dump_graphs(const Compilation *, Text *), dump_phases(const Compilation *, Text *),
    dump_split(const Compilation *, Text *), dump_schedules(const Compilation *, Text *),
    dump_memory(const Compilation *, Text *), dump_kernels(const Compilation *, Text *), dump_images(const Compilation *, Text *),
    dump_launches(const Compilation *, Text *), dump_trace(const Compilation *, Text *),
    dump_graph_dot(const Compilation *, Text *), dump_phase_dot(const Compilation *, Text *);
Facts read_graphs(Compilation *); /* replaces the passes up to the one that printed them; returns the graphs read */
#endif
