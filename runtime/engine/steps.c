/* steps.c: posts steps for given samples: shards, step blocks, and the choice between full and partial phases.
 *
 * Micro-batch m of a step has the existing ones of its samples [m micro, (m + 1) micro). Device d has `share` of them, from
 * shard.first on. */
#include "runtime/base/base.h"
#include "runtime/engine/engine.h"

#include <string.h>

static int64_t at_least_0(int64_t n) { return n > 0 ? n : 0; }

static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

static void fill_block(const Feed *f, mgpu_step *block, const mgpu_shard *shard, const Batch *batch, int64_t micro, int64_t count)
{
    *block = (mgpu_step){
        .step = batch->applied + 1,
        .sample = batch->place + micro * f->plan->micro + shard->first,
        .batch = batch->place,
        .valid = smaller(at_least_0(count - shard->first), shard->share),
        .samples = batch->samples,
        .micro = micro,
        .total_steps = (int64_t)f->total_steps,
        .epoch = (double)batch->applied / f->steps_per_epoch,
        .progress = (double)batch->applied / f->total_steps,
        .total_epochs = f->total_steps / f->steps_per_epoch,
        .seed = f->seed,
    };
    memcpy(block->setting, f->setting, sizeof block->setting);
}

/* Phases without samples (init, reports) are not partial. Of exact programs all micro-batches of a batch are, or none: kernels of
 * partial phases may add the elements of a sample in another order. */
static bool is_partial_batch(const Feed *f, int kind, const Work *work)
{
    bool sums = kind >= MGPU_PHASE_PROLOGUE && kind <= MGPU_PHASE_EVAL;
    if (f->plan->always_partial || (f->program->exact && sums && work->samples < f->program->batch))
        return true;
    for (int d = 0; d < f->plan->devices; d++)
        if (work->block[d].valid < f->plan->device[d].shard.capacity)
            return true;
    return false;
}

double mgpu_input_wait_ms(const mgpu_plan *plan, const Work *work)
{
    int64_t longest = 0;
    for (int d = 0; d < plan->devices; d++)
        longest = atomic_load(&work->times[d].input) > longest ? atomic_load(&work->times[d].input) : longest;
    return 1e-6 * (double)longest;
}

double mgpu_communication_wait_ms(const mgpu_plan *plan, const Work *work)
{
    int64_t longest = 0;
    for (int d = 0; d < plan->devices; d++)
        longest = atomic_load(&work->times[d].communication) > longest ? atomic_load(&work->times[d].communication) : longest;
    return 1e-6 * (double)longest;
}

bool mgpu_post(const Feed *f, int kind, const Batch *batch, int64_t micro)
{
    if (!mgpu_engine_phase(f->engine, kind, false))
        return false;
    mgpu_engine_change_kind(f->engine, kind);
    Work *work = mgpu_engine_next(f->engine);
    int64_t begin = micro * f->plan->micro, count = smaller(at_least_0(batch->samples - begin), f->plan->micro);
    work->set = batch->set;
    work->sample_count = count;
    work->step = batch->applied + 1;
    work->applied = batch->applied;
    work->epoch = batch->epoch;
    work->samples = batch->samples;
    for (int64_t i = 0; i < count; i++)
        work->index[i] = batch->order ? batch->order[batch->place + begin + i] : batch->place + begin + i;
    if (!count) /* padding samples copy this one */
        work->index[0] = batch->order ? batch->order[batch->place] : batch->place;
    for (int d = 0; d < f->plan->devices; d++)
        fill_block(f, &work->block[d], &f->plan->device[d].shard, batch, micro, count);
    work->valid_only = batch->valid != NULL;
    for (int d = 0; work->valid_only && d < f->plan->devices; d++)
        work->block[d].valid = batch->valid[d];
    for (int i = 0; batch->fetch && i < f->program->output_count; i++)
        work->fetch[i] = !batch->fetch[i] ? NULL : batch->fetch[i] + begin * mgpu_tensor_bytes(&f->program->outputs[i]);
    work->phase = mgpu_engine_phase(f->engine, kind, is_partial_batch(f, kind, work));
    mgpu_engine_post(f->engine);
    return true;
}

typedef struct Round {
    int64_t updates, batches;
} Round;

static Round round_of(const mgpu_program *p)
{
    Round round = {0, 1};
    for (int k = 0; k < p->objective_count; k++) {
        round.updates += p->objectives[k].times;
        round.batches += p->objectives[k].times - 1;
    }
    round.updates += !p->objective_count;
    return round;
}

Turn mgpu_turn(const mgpu_program *p, int64_t applied)
{
    const Round round = round_of(p);
    int64_t place = applied % round.updates, before = 0;
    Turn turn = {.batch_ends = place + 1 == round.updates};
    for (int k = 0; k < p->objective_count; before += p->objectives[k++].times)
        if (place >= before && place < before + p->objectives[k].times) {
            turn.objective = k;
            turn.batch_ends = turn.batch_ends || place + 1 < before + p->objectives[k].times;
        }
    return turn;
}

int64_t mgpu_updates_of(const mgpu_program *p, int64_t batches)
{
    const Round round = round_of(p);
    int64_t updates;
    if (__builtin_mul_overflow(batches / round.batches, round.updates, &updates) || updates > INT64_MAX - round.updates)
        return -1;
    for (int64_t left = batches % round.batches; left > 0; updates++)
        left -= mgpu_turn(p, updates).batch_ends;
    return updates;
}

int64_t mgpu_batches_of(const mgpu_program *p, int64_t updates)
{
    const Round round = round_of(p);
    int64_t batches = updates / round.updates * round.batches;
    for (int64_t u = updates - updates % round.updates; u < updates; u++)
        batches += mgpu_turn(p, u).batch_ends;
    return batches;
}

int64_t mgpu_updates_of_round(const mgpu_program *p) { return round_of(p).updates; }

double mgpu_updates_per_batch(const mgpu_program *p)
{
    const Round round = round_of(p);
    return (double)round.updates / (double)round.batches;
}

void mgpu_post_step(const Feed *f, const Batch *batch)
{
    int64_t last = f->program->accumulate > 1 ? f->program->accumulate - 1 : 0;
    for (int64_t micro = 0; last && micro <= last; micro++)
        mgpu_post(f, MGPU_PHASE_PROLOGUE, batch, micro);
    for (int64_t micro = 0; micro < last; micro++)
        mgpu_post(f, MGPU_PHASE_ACCUMULATE, batch, micro);
    mgpu_post(f, mgpu_train_kind(mgpu_turn(f->program, batch->applied).objective), batch, last);
}

bool mgpu_post_without_samples(const Feed *f, int kind, int64_t applied, int64_t epoch)
{
    const mgpu_phase *phase = mgpu_engine_phase(f->engine, kind, false);
    if (!phase)
        return false;
    mgpu_engine_change_kind(f->engine, kind);
    Work *work = mgpu_engine_next(f->engine);
    Batch batch = {.applied = applied, .epoch = epoch};
    work->phase = phase;
    work->step = kind == MGPU_PHASE_INIT ? 0 : applied + 1;
    work->applied = applied;
    work->epoch = epoch;
    work->samples = 0;
    for (int d = 0; d < f->plan->devices; d++) {
        fill_block(f, &work->block[d], &f->plan->device[d].shard, &batch, 0, 0);
        if (kind == MGPU_PHASE_INIT)
            work->block[d].step = work->block[d].sample = 0;
    }
    mgpu_engine_post(f->engine);
    return true;
}

void mgpu_post_set(const Feed *f, int kind, const Dataset *set, int64_t applied, int64_t epoch, uint8_t **fetch,
                   const _Atomic int *stop)
{
    uint8_t *at[f->program->output_count + 1];
    /* an exact program evaluates a batch in micro-batches, too, so that their number changes no sum over a batch */
    bool cut = f->program->exact && f->program->accumulate > 1 && kind == MGPU_PHASE_EVAL;
    int64_t parts = cut ? f->program->accumulate : 1;
    for (int64_t place = 0; place < set->samples && !(stop && atomic_load(stop)); place += parts * f->plan->micro) {
        for (int i = 0; fetch && i < f->program->output_count; i++)
            at[i] = !fetch[i] ? NULL : fetch[i] + place * mgpu_tensor_bytes(&f->program->outputs[i]);
        Batch batch = {.set = set,
                       .place = place,
                       .samples = smaller(set->samples - place, parts * f->plan->micro),
                       .applied = applied,
                       .epoch = epoch,
                       .fetch = fetch ? at : NULL};
        for (int64_t micro = 0; micro < parts; micro++)
            mgpu_post(f, kind, &batch, micro);
    }
}

void mgpu_wanted_inputs(const mgpu_program *program, const mgpu_plan *plan, unsigned kinds, bool *wanted)
{
    memset(wanted, 0, (size_t)program->input_count * sizeof *wanted);
    for (int k = 0; k < plan->phase_count; k++)
        for (int d = 0; kinds >> plan->phases[k].kind & 1 && d < plan->devices; d++) {
            const mgpu_device_phase *p = &plan->phases[k].devices[d];
            for (int i = 0; i < p->op_count; i++)
                for (int w = 0; p->ops[i].verb == MGPU_READ && w < p->ops[i].write_count; w++) {
                    int index = p->buffers[mgpu_access_of(&p->ops[i], p->ops[i].read_count + w)->buffer].index;
                    if (index >= 0)
                        wanted[index] = true;
                }
        }
}
