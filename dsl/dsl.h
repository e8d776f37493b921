/* dsl.h: the front end: text -> syntax tree -> Model (compiler/ir/graph.h).
 *
 * A user's mistake is reported through error_at (base.h), which abandons the statement that contains it (recover.c). After all
 * statements the run ends with status 1. A feature of a later version is a located "not yet" warning, counted in model->not_yet;
 * the rest of the model is still checked.
 *
 * Composites. A call of a library layer that the compiler knows as a whole (composite_known) becomes a COMPOSITE node where
 * `training` is true:
 *   body     the layer's text, elaborated in a graph of its own. Weights, states and tensors of the caller are captured: an ARG
 *            stands for a VARIABLE (recognized by the end of its name: ".weight", ".running_mean") or for an argument of the
 *            call. RUN, VALID, CONSTANT and RANDOM leaves belong to the body;
 *   results  what the layer returns, then the values of its `update` statements in the order of the text (batchnorm: y,
 *            running_mean, running_var);
 *   numbers  its parameters in order of declaration, except those whose argument is a tensor, a layer or a list: a number is
 *            itself, true 1, false 0, "batch" 0, "shard" -1, none and other strings NaN (batchnorm: momentum, eps, samples of a
 *            group, where 0 is the whole batch and -1 the shard). */
#ifndef MGPU_DSL_H
#define MGPU_DSL_H

#include "compiler/base/lints.h"
#include "compiler/ir/graph.h"
#include "dsl/tree.h"

/* ---- elaborate.c */
typedef struct Settings {                    /* the command line's options */
    const char *const *keys, *const *values; /* --set KEY=VALUE */
    int count;
    const char *model; /* --model NAME; NULL if the file has only one */
    LintSet silenced;  /* -Wno-NAME */
    /* called with the value that each name of the user's text gets; may be NULL */
    void (*report_value)(const Tree *, const char *value);
    bool part; /* a file without a model is accepted: others import it */
} Settings;
Model *elaborate(const Tree *file, const Settings *); /* exits with 1 after errors; NULL: a file without a model */
#endif
