/* report.h: output for people: timelines and graphs.
 *
 *   trace.c                         simulates a plan and writes a timeline (runtime/base/trace.h): `mgpuc --emit trace`
 *   dot.c                           writes graphs for Graphviz: `mgpuc --emit graphdot`, `dot`
 *
 * Reports and curves are in runtime/report, because programs make them, too. */
#ifndef MGPU_REPORT_H
#define MGPU_REPORT_H

#include "compiler/ir/program.h"
#include "compiler/plan/plan.h"
#include "compiler/simulate/simulate.h"

/* ---- trace.c: a training step on the input's machine, with the plan's schedule. machine: its name */
void trace_print(const Program *, const Plan *, const SimulationInput *, const char *machine, Text *);
const char *op_name(const PhaseSchedule *, const ScheduledOp *); /* "fc1.backward.weight", "upload", "all-reduce fc1.bias" */
/* ---- dot.c: for Graphviz: a graph; the kernels of a phase */
void dot_graph(const Graph *, Text *);
void dot_phase(const Phase *, Text *);
#endif
