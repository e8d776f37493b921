/* plan_advice.c: conclusions from the rows of `mgpuc plan`, in words, each with its number. */
#include "compiler/driver/plan.h"
#include "compiler/plan/policy.h"

enum { MOST_TRIES = 9, TIMES = 4 };

static void say_best(Planning *p)
{
    const PlanRow *best = NULL;
    for (int i = 0; i < p->row_count; i++)
        if ((p->rows[i].memory <= 0 || p->rows[i].bytes <= p->rows[i].memory) &&
            (!best || p->rows[i].samples_per_s > best->samples_per_s))
            best = &p->rows[i];
    if (best)
        APPEND(p->advice, p->advice_count,
               format("fastest: %s at a global batch of %lld, %s samples a second, %.2f times one device",
                      devices_text(best->devices), (long long)best->batch, per_second_text(best->samples_per_s), best->speed_up));
}

/* Returns the batch from which on so many devices are as fast as one; 0: none was found. Step times are nearly linear in the
 * batch, so it extrapolates the difference of the times from the last two tries. fits: does it fit into memory? */
static int64_t batch_that_pays(Planning *p, const PlanRow *row, bool *fits)
{
    const Count devices = {row->nodes, row->devices};
    int64_t batch = row->batch;
    double before = 0, at = 0;
    for (int k = 0; k < MOST_TRIES && batch < INT32_MAX / TIMES; k++) {
        batch = k ? TIMES * batch : batch;
        PlanRow rows[2];
        plan_rows(p, &devices, 1, batch, rows);
        double longer = rows[1].step_us - rows[0].step_us;
        *fits = rows[1].fits < 0 || batch <= rows[1].fits;
        if (longer <= 0 && k > 0)
            return (int64_t)(at + before / (before - longer) * ((double)batch - at) + .999);
        before = longer;
        at = (double)batch;
    }
    return 0;
}

static void say_slower(Planning *p)
{
    const PlanRow *row = NULL;
    for (int i = 0; i < p->row_count; i++)
        if (!p->rows[i].weak && p->rows[i].devices > 1 && p->rows[i].speed_up < .995 &&
            (!row || p->rows[i].speed_up < row->speed_up))
            row = &p->rows[i];
    if (!row)
        return;
    if (!p->machine->device_count && row->nodes == 1) {
        APPEND(p->advice, p->advice_count,
               format("%s run at %.2fx of one: they share the %.0f cores that one has for itself", devices_text(row->devices),
                      row->speed_up, p->machine->host.cores.value));
        return;
    }
    bool fits = true;
    int64_t pays = batch_that_pays(p, row, &fits);
    double waiting = row->exposed_us + row->devices_us;
    APPEND(
        p->advice, p->advice_count,
        format(
            "%s run at %.2fx of one at a global batch of %lld: %s ms of communication are waited for, beside %s ms of computing; %s",
            devices_text(row->devices), row->speed_up, (long long)row->batch, ms_text(waiting), ms_text(row->computing_us),
            pays ? format("they pay from a global batch of about %lld%s", (long long)pays, fits ? "" : ", which does not fit")
                 : "a larger batch does not change that"));
}

static void say_sums(Planning *p)
{
    const PlanRow *row = NULL;
    for (int i = 0; i < p->row_count; i++)
        if (p->rows[i].sums_us > PLAN_WORTH * p->rows[i].step_us &&
            (!row || p->rows[i].sums_us / p->rows[i].step_us > row->sums_us / row->step_us))
            row = &p->rows[i];
    if (!row)
        return;
    StatisticsSamples own = statistics_samples(row->devices, row->least, row->most);
    bool single = row->sums == 1;
    APPEND(
        p->advice, p->advice_count,
        format(
            "%d all-reduce%s in the middle of a step, such as those of batchnorm, stop%s %s for %s ms of %s: %sbatchnorm(stats = %lld) takes %s away",
            row->sums, single ? "" : "s", single ? "s" : "", devices_text(row->devices), ms_text(row->sums_us),
            ms_text(row->step_us), own.batch ? format("with a batch of %lld, ", (long long)own.batch) : "",
            (long long)own.samples, single ? "it" : "them"));
}

static void say_units(Planning *p)
{
    const PlanRow *row = NULL;
    for (int i = 0; i < p->row_count; i++)
        if (p->rows[i].longer_us > PLAN_WORTH * p->rows[i].step_us &&
            (!row || p->rows[i].longer_us / p->rows[i].step_us > row->longer_us / row->step_us))
            row = &p->rows[i];
    if (row)
        APPEND(p->advice, p->advice_count,
               format("on %s kernels take %s ms of %s longer, as transfers have some of the SMs meanwhile "
                      "(by NCCL's number of channels; not measured)",
                      devices_text(row->devices), ms_text(row->longer_us), ms_text(row->step_us)));
}

static void say_gradients(Planning *p)
{
    const PlanRow *row = NULL;
    for (int i = 0; i < p->row_count; i++) {
        double rest = p->rows[i].exposed_us - p->rows[i].sums_us;
        if (rest > PLAN_WORTH * p->rows[i].step_us &&
            (!row || rest / p->rows[i].step_us > (row->exposed_us - row->sums_us) / row->step_us))
            row = &p->rows[i];
    }
    if (row)
        APPEND(p->advice, p->advice_count,
               format("on %s %s ms of %s are %s with nothing left to compute beside them%s; a larger batch has more to compute",
                      devices_text(row->devices), ms_text(row->exposed_us - row->sums_us), ms_text(row->step_us),
                      p->options->shard == SHARD_NOTHING ? "all-reduces of gradients" : "transfers of gradients and weights",
                      row->link ? format(" (%s is used to %.0f%%)", row->link, 100 * row->link_share) : ""));
}

/* Work that all devices duplicate could be divided among them. */
static void say_updates(Planning *p)
{
    const PlanRow *row = NULL;
    bool may = p->options->shard == SHARD_NOTHING && policy_is_auto(p->options->policy) && !p->options->from;
    for (int i = 0; i < p->row_count && may; i++)
        if (p->rows[i].updates_us * (1 - 1.0 / p->rows[i].devices) > PLAN_WORTH * p->rows[i].step_us &&
            (!row || p->rows[i].updates_us / p->rows[i].step_us > row->updates_us / row->step_us))
            row = &p->rows[i];
    if (!row)
        return;
    PlanRow parts = plan_row_sharded(p, SHARD_OPTIMIZER, (Count){row->nodes, row->devices}, row->batch);
    if (parts.step_us < (1 - PLAN_WORTH) * row->step_us)
        APPEND(
            p->advice, p->advice_count,
            format(
                "all of %s update all weights, which takes %s ms of %s; with --shard optimizer each updates a part: %s ms a step, and %s of memory in place of %s",
                devices_text(row->devices), ms_text(row->updates_us), ms_text(row->step_us), ms_text(parts.step_us),
                bytes_text(parts.bytes), bytes_text(row->bytes)));
}

static void say_input(Planning *p)
{
    const PlanRow *row = p->rows;
    for (int i = 1; i < p->row_count; i++)
        row = p->rows[i].decode_cores > row->decode_cores ? &p->rows[i] : row;
    double cores = p->machine->host.cores.value;
    for (int i = 0; i < p->row_count; i++) {
        const PlanRow *r = &p->rows[i];
        if (r->input_us <= PLAN_WORTH * r->step_us)
            continue;
        APPEND(p->advice, p->advice_count,
               format("%s wait%s for input: %s ms of %s; %s", devices_text(r->devices), r->devices == 1 ? "s" : "",
                      ms_text(r->input_us), ms_text(r->step_us), r->input));
        return;
    }
    if (row && row->decode_cores > .5 * cores)
        APPEND(p->advice, p->advice_count,
               format("decoding pictures for %s takes %.1f of the %.0f cores", devices_text(row->devices), row->decode_cores,
                      cores));
}

static void say_memory(Planning *p)
{
    for (int i = 0; i < p->row_count; i++) {
        const PlanRow *r = &p->rows[i];
        if (r->memory <= 0 || r->bytes <= r->memory)
            continue;
        APPEND(p->advice, p->advice_count,
               format("a global batch of %lld does not fit on %s: %s %s, there are %s%s", (long long)r->batch,
                      devices_text(r->devices), bytes_text(r->bytes), p->machine->device_count ? "on a device" : "in all",
                      bytes_text(r->memory),
                      r->fits > 0 ? format("; a batch of %lld fits", (long long)r->fits)
                      : r->cure   ? format("; %s", r->cure)
                                  : ""));
        if (r->recompute)
            APPEND(p->advice, p->advice_count, format("on %s %s", devices_text(r->devices), r->recompute));
    }
}

/* Explains it: different programs are compared, or kernels with fewer samples take less time per sample. */
static void say_efficiency(Planning *p)
{
    const PlanRow *row = NULL, *unlike = NULL;
    for (int i = 0; i < p->row_count; i++) {
        const PlanRow *r = &p->rows[i];
        if (r->devices > 1 && r->efficiency > 1.01 && (!row || r->efficiency > row->efficiency))
            row = r;
        if (r->unlike && r->efficiency <= 1.01)
            unlike = r;
    }
    if (row)
        APPEND(p->advice, p->advice_count,
               format("an efficiency of %.1f%% on %s: %s", 100 * row->efficiency, devices_text(row->devices),
                      row->unlike ? format("the one device that it is compared with %s", row->unlike)
                                  : format("kernels of %lld samples take a smaller part of those of the whole batch than 1/%d",
                                           (long long)row->most, row->devices)));
    if (unlike)
        APPEND(p->advice, p->advice_count,
               format("*: the one device that %s are compared with %s", devices_text(unlike->devices), unlike->unlike));
}

static void say_idle(Planning *p)
{
    for (int i = 0; i < p->row_count; i++)
        if (p->rows[i].idle)
            APPEND(p->advice, p->advice_count,
                   format("a batch of %lld leaves %d of %s without a sample", (long long)p->rows[i].batch, p->rows[i].idle,
                          devices_text(p->rows[i].devices)));
}

static void say_scaling(Planning *p)
{
    const PlanRow *last = NULL;
    for (int i = 0; i < p->row_count; i++)
        last = p->rows[i].weak ? last : &p->rows[i];
    if (last && last->devices > 1 && !p->options->weak && (p->machine->device_count || last->nodes > 1))
        APPEND(
            p->advice, p->advice_count,
            format(
                "strong scaling: the global batch stays at %lld, so %s have %lld sample%s each at most; with --weak each has %lld",
                (long long)last->batch, devices_text(last->devices), (long long)last->most, last->most == 1 ? "" : "s",
                (long long)last->batch));
}

static PlanRow *find_inexact(const Planning *p, const PlanRow *row)
{
    for (int i = 0; i < p->row_count; i++) {
        PlanRow *other = &p->rows[i];
        if (!other->exact && other->weak == row->weak && other->batch == row->batch && other->devices == row->devices &&
            other->nodes == row->nodes)
            return other;
    }
    return NULL;
}

/* Says what `exact` costs, of each row that has it. */
static void say_exact(Planning *p)
{
    Text t = {0};
    for (int i = 0; i < p->row_count; i++) {
        const PlanRow *row = &p->rows[i], *other = row->exact ? find_inexact(p, row) : NULL;
        if (other)
            text_add(&t, "%s %+.1f%% on %s at a global batch of %lld", t.length ? "," : "",
                     100 * (row->step_us / other->step_us - 1), devices_text(row->devices), (long long)row->batch);
    }
    if (t.length)
        APPEND(p->advice, p->advice_count,
               format("exact = %lld changes the time of a step by%s", (long long)p->rows->exact, text_of(&t)));
}

/* The advice is about the model's own rows, which are first. */
void plan_advise(Planning *p)
{
    int all = p->row_count;
    while (p->row_count > 0 && p->rows->exact && !p->rows[p->row_count - 1].exact)
        p->row_count--;
    say_best(p);
    say_slower(p);
    say_sums(p);
    say_gradients(p);
    say_units(p);
    say_updates(p);
    say_input(p);
    say_memory(p);
    say_efficiency(p);
    say_idle(p);
    say_scaling(p);
    p->row_count = all;
    say_exact(p);
}
