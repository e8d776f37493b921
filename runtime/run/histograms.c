/* histograms.c: `--histograms N`: every N steps, writes histograms of each weight, and of each gradient that a program with
 * observe = "gradients" keeps, to the event file of `--tensorboard`. The values are read from a drained engine, one variable at a
 * time; device 0 has them, or each device has its shard. */
#include "runtime/base/base.h"
#include "runtime/engine/engine.h"
#include "runtime/run/commands.h"
#include "runtime/run/events.h"
#include "runtime/run/run.h"

#include <stdlib.h>

bool mgpu_run_histograms_due(const Run *run)
{
    int64_t every = run->options->histograms;
    return every > 0 && (run->at.step % every == 0 || run->at.step >= run->total_steps);
}

void mgpu_run_histograms(Run *run)
{
    Events *events = mgpu_report_events(run->reporter);
    if (!mgpu_run_histograms_due(run))
        return;
    for (int i = 0; i < run->program->variable_count; i++) {
        const mgpu_variable *v = &run->program->variables[i];
        if ((v->kind != MGPU_WEIGHT && v->kind != MGPU_OBSERVED) || !mgpu_dtype_is_float(v->tensor.dtype))
            continue;
        if (!events && !v->split) /* other processes than rank 0 only send their shards */
            continue;
        void *values = mgpu_allocate((size_t)mgpu_tensor_bytes(&v->tensor) + 1, 1);
        mgpu_engine_read_whole(run->engine, i, values);
        if (events)
            mgpu_events_histogram(events, v->kind == MGPU_WEIGHT ? "weights" : "gradients", v->tensor.name, run->at.step, values,
                                  v->tensor.dtype, mgpu_elements(&v->tensor));
        free(values);
    }
}
