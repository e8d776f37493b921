/* compare_devices.c: checks that all devices have the same variables. In: a drained engine; out: NULL, or which variable differs
 * on which devices.
 *
 * Every device computes the same update from the same sums, so weights, states and averages are bitwise equal everywhere. A link
 * that corrupts a transfer after the first step, or a device that computes wrongly, breaks that, possibly with plausible numbers.
 * MGPU_AUDIT=K compares hashes every K steps and before each save, so that no save has variables that differ. Devices outside of
 * the largest group that agrees are reported; of two devices, nobody can tell which one is right. */
#include "runtime/base/base.h"
#include "runtime/engine/engine.h"
#include "runtime/run/run.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

enum { HASH_LANES = 4 };

static const uint64_t FACTOR = 0x9e3779b97f4a7c15u;

/* Uses several lanes, so that multiplications overlap: as fast as memory is read. */
uint64_t mgpu_hash(const uint8_t *data, int64_t bytes)
{
    uint64_t lane[HASH_LANES] = {1, 2, 3, 4}, word[HASH_LANES];
    int64_t at = 0;
    for (; at + (int64_t)sizeof word <= bytes; at += (int64_t)sizeof word) {
        memcpy(word, data + at, sizeof word);
        for (int k = 0; k < HASH_LANES; k++) {
            lane[k] = (lane[k] ^ word[k]) * FACTOR;
            lane[k] ^= lane[k] >> 32;
        }
    }
    uint64_t hash = (uint64_t)bytes;
    for (; at < bytes; at++)
        lane[0] = (lane[0] ^ data[at]) * FACTOR;
    for (int k = 0; k < HASH_LANES; k++) {
        hash = (hash ^ lane[k]) * FACTOR;
        hash ^= hash >> 32;
    }
    return hash;
}

/* True for variables of which every device has its own shard or value. */
static bool differs_anyway(const mgpu_variable *v)
{
    return v->split || v->sharded || (v->kind == MGPU_ACCUMULATOR && v->partial);
}

/* Returns a device of the largest group with equal hashes; of groups of the same size, the first. */
static int most_common(const uint64_t *hash, int devices, int *group)
{
    int best = 0;
    *group = 0;
    for (int d = 0; d < devices; d++) {
        int same = 0;
        for (int e = 0; e < devices; e++)
            same += hash[e] == hash[d];
        if (same > *group) {
            *group = same;
            best = d;
        }
    }
    return best;
}

static char *describe(const char *name, const uint64_t *hash, int devices)
{
    char *text;
    size_t length;
    FILE *to = mgpu_begin_text(&text, &length);
    int group, right = most_common(hash, devices, &group), wrong = devices - group, said = 0;
    fprintf(to, "'%s' ", name);
    if (2 * group <= devices) {
        fprintf(to, "differs among devices 0 to %d", devices - 1);
    } else {
        fprintf(to, "on device%s ", wrong == 1 ? "" : "s");
        for (int d = 0; d < devices; d++)
            if (hash[d] != hash[right])
                fprintf(to, "%s%d", !said++ ? "" : said == wrong ? " and " : ", ", d);
        fprintf(to, " is not what the other %d hold", group);
    }
    mgpu_end_text(to);
    return text;
}

/* Hashes the variables of a device: 0 for those that may differ. data: buffer for any variable. */
static void hash_variables(const Run *run, int device, uint8_t *data, uint64_t *hash)
{
    for (int v = 0; v < run->program->variable_count; v++) {
        const mgpu_variable *variable = &run->program->variables[v];
        if (differs_anyway(variable))
            continue;
        mgpu_engine_read_variable(run->engine, device, v, data);
        hash[v] = mgpu_hash(data, mgpu_tensor_bytes(&variable->tensor));
    }
}

/* Returns NULL, or which variable differs on which devices of all processes. The caller frees. */
static char *disagreement(const Run *run)
{
    Processes *p = run->options->processes;
    int devices = run->plan->devices, count = run->program->variable_count;
    int64_t most = 1;
    for (int v = 0; v < count; v++)
        if (mgpu_tensor_bytes(&run->program->variables[v].tensor) > most)
            most = mgpu_tensor_bytes(&run->program->variables[v].tensor);
    uint8_t *data = mgpu_allocate((size_t)most, 1);
    uint64_t *all = mgpu_allocate((size_t)devices * (size_t)count, sizeof *all),
             *hash = mgpu_allocate((size_t)devices, sizeof *hash);
    DeviceSpan own = mgpu_local_devices(p, devices);
    for (int d = own.first; d < own.end; d++)
        hash_variables(run, d, data, all + (int64_t)d * count);
    if (p)
        mgpu_gather_devices(p, all, count * (int64_t)sizeof *all, devices);
    char *text = NULL;
    for (int v = 0; v < count && !text; v++) {
        bool same = true;
        for (int d = 0; d < devices; d++) {
            hash[d] = all[(int64_t)d * count + v];
            same = same && hash[d] == hash[0];
        }
        if (!same)
            text = describe(run->program->variables[v].tensor.name, hash, devices);
    }
    free(hash);
    free(all);
    free(data);
    return text;
}

/* ---- audits of a run */
static int64_t wanted_audit(void)
{
    const char *value = getenv("MGPU_AUDIT");
    char *end = NULL;
    if (!value || !*value || strcmp(value, "off") == 0)
        return 0;
    long long steps = strtoll(value, &end, 10);
    if (*end || steps < 1 || steps == INT64_MAX)
        mgpu_fail(MGPU_BAD_USAGE, "MGPU_AUDIT is a number of steps, at least 1, or off, not '%s'", value);
    return steps < INT_MAX ? steps : INT_MAX;
}

void mgpu_run_choose_audit(Run *run)
{
    run->audit = mgpu_of_rank_0(run->options->processes, run->plan->devices < 2 ? 0 : (int)wanted_audit());
}

bool mgpu_run_audit_due(const Run *run) { return run->audit && run->at.step % run->audit == 0; }

void mgpu_run_audit(Run *run)
{
    if (!run->audit || run->failure)
        return;
    char *what = disagreement(run);
    if (!what)
        return;
    char *saved = run->saved_step < 0
                      ? mgpu_format("nothing was saved")
                      : mgpu_format("the checkpoint in %s is that of step %lld", run->folder, (long long)run->saved_step);
    run->failure = mgpu_format(
        "step %lld: the devices do not hold the same weights: %s, so a link or a device changes numbers; %s%s",
        (long long)run->at.step, what, saved,
        mgpu_computes_here(run->plan) || run->options->processes ? "" : "; MGPU_COLLECTIVE=host sums through the host");
    run->failure_status = MGPU_MACHINE_FAILED;
    free(saved);
    free(what);
}
