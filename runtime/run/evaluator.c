/* evaluator.c: opens an engine that evaluates with the weights of a file; shared by programs and libraries. */
#include "runtime/base/base.h"
#include "runtime/base/options.h"
#include "runtime/engine/engine.h"
#include "runtime/run/commands.h"
#include "runtime/save/checkpoint.h"
#include "runtime/weights/weights.h"

#include <stdlib.h>

/* Sets step, epoch and progress to those of the run that saved the weights. A file without a run, or a save of an earlier
 * version, counts as the end of a run of one epoch. */
static void set_course(Feed *feed, const RunOptions *o, const TensorFile *file, const Saved *saved)
{
    Course c = saved ? mgpu_read_course(saved) : (Course){0};
    feed->applied = file->step > 0 ? file->step : 0;
    int64_t total = c.total_steps ? c.total_steps : feed->applied ? feed->applied : 1;
    feed->total_steps = (double)total;
    feed->steps_per_epoch = (double)(c.steps_per_epoch ? c.steps_per_epoch : total);
    if (c.seeded && !o->seed_given)
        feed->seed = c.seed;
}

Engine *mgpu_open_loaded(const mgpu_program *program, const mgpu_plan *plan, const RunOptions *o, TensorFile *file,
                         const Saved *saved, Feed *feed, Collect *collect, void *context)
{
    Engine *engine = mgpu_engine_open(mgpu_kind_of(plan), program, plan, o, collect, context);
    *feed = (Feed){.program = program,
                   .plan = plan,
                   .setting = o->setting,
                   .engine = engine,
                   .seed = o->seed,
                   .total_steps = 1,
                   .steps_per_epoch = 1};
    mgpu_post_without_samples(feed, MGPU_PHASE_INIT, 0, 0);
    mgpu_engine_drain(engine);
    if (!file)
        return engine;
    set_course(feed, o, file, saved);
    const char *before = mgpu_doing("weights are being loaded");
    bool *none = mgpu_left_out_of(program, o, file->step);
    mgpu_begin_averages(program, plan, engine); /* also of variables that are left out */
    WeightSource source = {.file = file, .left_out = none, .view = MGPU_MODEL_VIEW, .rules = o->init ? o->rules : NULL};
    mgpu_load_weights(program, plan, engine, &source);
    free(none);
    mgpu_doing(before);
    return engine;
}
