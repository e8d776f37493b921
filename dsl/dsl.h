/* dsl.h: the front end: text -> syntax tree -> Model (compiler/ir/graph.h).
 *
 * A user's mistake is said through error_at (base.h), which gives up the statement that it is in (recover.c); after all statements the run
 * ends, exit 1. What a later version will do
 * is a located "not yet" warning, counted in model->not_yet; the rest of the model is checked all the same.
 *
 * Composites. A call of a library layer that the compiler knows as a whole (composite_known) becomes a COMPOSITE
 * node where `training` is true:
 *   body     the layer's text, elaborated in a body; weights, states and tensors of the outside are captured, so
 *            that every ARG is a VARIABLE (told apart by the end of its name: ".weight", ".running_mean") or
 *            for an argument of the call; RUN, VALID, CONSTANT and RANDOM leaves are the body's own;
 *   results  what the layer returns, then the values of its `update` statements in the order of the text
 *            (batchnorm: y, running_mean, running_var);
 *   numbers  its parameters in order of declaration, except those whose argument is a tensor, a layer or a list: a
 *            number is itself, true 1, false 0, "batch" 0, "shard" -1, none and other strings NaN
 *            (batchnorm: momentum, eps, samples of a group with 0: the whole batch, -1: the shard). */
#ifndef MGPU_DSL_H
#define MGPU_DSL_H

#include "compiler/base/lints.h"
#include "compiler/ir/graph.h"
#include "dsl/tree.h"

/* ---- elaborate.c */
typedef struct Settings { /* what the command line says */
    const char *const *keys, *const *values; /* --set KEY=VALUE */
    int count;
    const char *model; /* --model NAME; NULL: the only one */
    LintSet silenced;  /* -Wno-NAME */
    void (*note)(const Tree *, const char *value); /* what a name of the user's text has become: at its node; NULL: nobody asks */
    bool part;         /* a file without a model is no mistake: it is for others to import */
} Settings;
Model *elaborate(const Tree *file, const Settings *); /* exit 1 after errors; NULL: a part */
#endif
