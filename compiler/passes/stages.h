/* stages.h: the stages that work on graphs, in the order in which the driver calls them. */
#ifndef MGPU_PASSES_STAGES_H
#define MGPU_PASSES_STAGES_H

#include "compiler/ir/graph.h"
#include "compiler/ir/program.h"
#include "compiler/passes/simplify/simplify.h" /* the first stage, and again after others */

/* ---- the stages, by file. A stage that takes a Graph returns a new one and leaves the old one unchanged. */
/* resolve.c        gradients and substitutions that the text asks for -> the nodes that compute them */
Graph *resolve(Graph *);
/* loops.c          loops: what does not depend on carries is computed outside, for all steps at once */
Graph *hoist_loops(Graph *);
/* composite.c      COMPOSITE nodes -> primitives: the table's forward (with its own gradient in differentiate), or the body */
bool composite_known(const char *layer, bool training); /* library layers that the elaborator keeps as composites */
Graph *inline_bodies(Graph *);                          /* every composite by its library body */
Graph *inline_marked(Graph *, const bool *marked);      /* composites that are marked by node; one level of nesting */
Graph *inline_groups(Graph *, int64_t least); /* groupnorm with at least so many channels per group; else the table's form */
/* differentiate.c  ROLE_LOSS -> ROLE_GRADIENT per trained variable, and ROLE_REPORT loss; composites are expanded */
Graph *differentiate(Graph *train);
/* report.c         evaluation is split: predict has the outputs (NULL: there are none), rest everything else */
void split_outputs(Graph *eval, Graph **predict, Graph **rest);
/* metrics and losses -> accumulators, and the graphs that turn them into numbers */
void make_reports(Model *, Graph **trains, int train_count, Graph **eval, Graph **report_train, Graph **report_eval);
const char *new_variable_name(const Model *, const char *like);
/* decode.c         predict of a window of text -> one place of it, given the previous ones; NULL: the model reads no text. The
 * graph must be simple and without composites; caches and settings are added to the model */
Graph *derive_decode(Graph *predict);
/* delay.c          gradients -> those of the previous step */
Graph *delay_gradients(Graph *train);
/* update.c         GRADIENT leaves -> gradients; clipping; ROLE_REPORT grad_norm; skipped steps; averages; OBSERVED. objective:
 * the graph's, from 1; 0: it is the only one. begun, by variable, for the graphs of a model in turn: its average has begun;
 * NULL: it is the only one */
Graph *update(Graph *train, int objective, bool *begun);
Graph *count_applied(Graph *); /* `step` in other graphs, if steps may be skipped */
/* distribute.c     every node's placement; REDUCE where Partial must become Replicated */
Graph *distribute(Graph *);
/* accumulate.c     accumulate > 1: cuts at the reductions; adds accumulators to the model */
bool has_micro_batches(Model *, const Graph *train); /* reports an error if the model requires them and they are impossible */
void split_micro_batches(Model *, Graph *train, Graph **train_last, Graph **accumulate, Graph **prologue);
/* Of exact models: returns an evaluation that adds to its sums after the last micro-batch of a step, by the tree over them. */
Graph *evaluate_micro_batches(Model *, Graph *eval);
/* precision.c      F32 -> the model's precision; for bf16, variables that contractions read get rounded copies first */
void find_rounded_variables(Model *, Graph **graphs, int graph_count);
Graph *choose_precision(Graph *);
/* one_bit.c        REDUCE of gradients -> REDUCE_BITS; adds residuals to the model */
Graph *send_one_bit(Graph *train);
/* bf16_gradients.c        REDUCE and REDUCE_SCATTER of gradients in bf16, after shard */
Graph *round_gradients(Graph *);
/* shard.c          gradients to REDUCE_SCATTER, updates of the own part, ALL_GATHER; variables placed. graphs: of all phases */
void shard(Model *, Sharding, const Graph *train, Graph *const *graphs, int graph_count, Graph **sharded);
/* layout.c         order of variables in memory */
void choose_layout(Model *, Graph **graphs, int graph_count);
/* phases.c         full: VALID is true and the number of samples known; partial: unchanged */
Graph *specialise(Graph *, bool partial_batch);
#endif
