/* compare_processes.c: checks that all processes run the same program. In: what each is about to do; out: an error with the first
 * rank that differs from rank 0, and its host. This happens before anything is computed, since processes that differ would wait
 * for each other or add up unrelated values. */
#include "runtime/base/sha256.h"
#include "runtime/run/run.h"
#include "runtime/schedule/schedule.h"

#include <stdlib.h>
#include <string.h>

static uint64_t short_digest(Sha256 *h)
{
    Digest digest = mgpu_sha256_end(h);
    uint64_t first;
    memcpy(&first, digest.bytes, sizeof first);
    return first;
}

static void add_quantity(Sha256 *h, mgpu_quantity q)
{
    mgpu_sha256_add(h, &q.amount, sizeof q.amount);
    mgpu_sha256_add(h, &q.unit, sizeof q.unit);
}

static uint64_t digest_program(const mgpu_program *p, const mgpu_plan *plan)
{
    Sha256 h = mgpu_sha256_begin();
    mgpu_sha256_add_text(&h, p->identity ? p->identity : "");
    if (plan->image)
        mgpu_sha256_add(&h, plan->image, (size_t)mgpu_image_words(plan->image) * sizeof *plan->image);
    for (int i = 0; i < p->kernel_count && p->kernel_digests; i++)
        mgpu_sha256_add(&h, &p->kernel_digests[i], sizeof p->kernel_digests[i]);
    return short_digest(&h);
}

/* Hashes the command and the options that affect steps; paths of files may differ. */
static uint64_t digest_options(const RunOptions *o)
{
    const int64_t NUMBERS[] = {o->epochs,     o->steps,         o->stop_after,     (int64_t)o->seed,
                               o->shuffle,    o->evaluate,      o->resume != NULL, o->profile || o->measure,
                               o->histograms, o->operand_count, o->samples,        o->warmup,
                               o->length,     o->top_k,         o->stop_count,     o->prompts != NULL,
                               o->command,    o->weights,       o->side,           o->ignore_eos};
    Sha256 h = mgpu_sha256_begin();
    mgpu_sha256_add(&h, NUMBERS, sizeof NUMBERS);
    for (int i = 0; i < MGPU_MAX_SETTINGS; i++)
        if (o->setting[i] == o->setting[i]) {
            mgpu_sha256_add(&h, &i, sizeof i);
            mgpu_sha256_add(&h, &o->setting[i], sizeof o->setting[i]);
        }
    mgpu_sha256_add(&h, &o->temperature, sizeof o->temperature);
    mgpu_sha256_add(&h, &o->top_p, sizeof o->top_p);
    for (int i = 0; i < o->stop_count; i++)
        mgpu_sha256_add_text(&h, o->stops[i]);
    mgpu_sha256_add_text(&h, o->only ? o->only : "");
    add_quantity(&h, o->validate);
    add_quantity(&h, o->save_every);
    add_quantity(&h, o->patience);
    return short_digest(&h);
}

void mgpu_compare_program(const RunOptions *o, const mgpu_program *program, const mgpu_plan *plan)
{
    Processes *p = o->processes;
    if (!p)
        return;
    p->check(p, program, plan);
    p->compare(p, "another program, or another plan of it,", "copy one program to all hosts", digest_program(program, plan));
    p->compare(p, "other options", "start all with the same", digest_options(o));
}

static void compare_samples(Processes *p, Sha256 *h)
{
    p->compare(p, "other samples", "copy the data to all hosts, or name them with --data", short_digest(h));
}

void mgpu_compare_set(const RunOptions *o, const Dataset *set)
{
    char text[65] = "";
    Sha256 h = mgpu_sha256_begin();
    if (!o->processes)
        return;
    mgpu_sha256_add(&h, &set->samples, sizeof set->samples);
    mgpu_doing("samples are being compared with those of the other processes");
    if (set->samples > 0)
        mgpu_fingerprint(set, text);
    mgpu_doing(NULL);
    mgpu_sha256_add_text(&h, text);
    compare_samples(o->processes, &h);
}

void mgpu_run_compare_data(Run *run)
{
    Sha256 h = mgpu_sha256_begin();
    mgpu_sha256_add_text(&h, run->origin.train_data);
    mgpu_sha256_add_text(&h, run->origin.valid_data);
    char *words = mgpu_categories_text(run->categories); /* a save contains them */
    mgpu_sha256_add_text(&h, words ? words : "");
    free(words);
    compare_samples(run->options->processes, &h);
}

/* Hashes the variables that each device has as a whole. */
static void add_variables(Sha256 *h, const Processes *p, const Feed *feed)
{
    for (int v = 0; v < feed->program->variable_count; v++) {
        const mgpu_variable *variable = &feed->program->variables[v];
        int64_t bytes = mgpu_tensor_bytes(&variable->tensor);
        if ((variable->kind == MGPU_ACCUMULATOR && variable->partial) || variable->split || variable->sharded)
            continue;
        uint8_t *data = mgpu_allocate((size_t)bytes, 1);
        mgpu_engine_read_variable(feed->engine, mgpu_local_devices(p, feed->plan->devices).first, v, data);
        uint64_t hash = mgpu_hash(data, bytes);
        mgpu_sha256_add(h, &hash, sizeof hash);
        free(data);
    }
}

void mgpu_compare_weights(const RunOptions *o, const Feed *feed)
{
    Sha256 h = mgpu_sha256_begin();
    if (!o->processes)
        return;
    add_variables(&h, o->processes, feed);
    o->processes->compare(o->processes, "other weights", "let all read one file", short_digest(&h));
}

void mgpu_run_compare_state(Run *run)
{
    Processes *p = run->options->processes;
    const Progress *at = &run->at;
    const int64_t PLACE[] = {at->step, at->epoch, at->position, (int64_t)at->seed, at->validated};
    Sha256 h = mgpu_sha256_begin();
    mgpu_sha256_add(&h, PLACE, sizeof PLACE);
    add_variables(&h, p, &run->feed);
    p->compare(p, "other weights, or another saved run,", "let all read one file", short_digest(&h));
}
