/* compile.c: `mgpuc MODEL.net` and `mgpuc check`: all passes, or those up to a stage. `mgpuc plan` runs those up to the
 * schedule. */
#include "compiler/base/progress.h"
#include "compiler/driver/command.h"
#include "compiler/driver/passes.h"
#include "compiler/kernel/target.h"
#include "compiler/machine/machine.h"
#include "compiler/plan/measured_times.h"
#include "compiler/plan/durations.h"

#include <math.h>
#include <string.h>

static const Measured *read_measured(const char *file, const char *kind)
{
    const Measured *m = measured_read(file);
    if (strcmp(measured_kind(m), kind) != 0)
        fail(2, "--measured %s: it was measured on %s devices, the plan is for %s devices; --devices names others", file,
             measured_kind(m), kind);
    return m;
}

static Compilation begin(const Options *options)
{
    Compilation c = {.options = options, .program = NEW(Program)};
    c.program->options = options;
    c.program->target = parse_devices(options->devices, options->planned, &c.program->plans, &c.program->plan_count);
    bool host = !c.program->target->own_memory;
    c.program->machine = options->planned ? options->planned
                         : options->here  ? options->here
                                          : machine_default(host ? PROCESSOR_HOST : PROCESSOR_CUDA);
    if (options->measured && options->measured_rate <= 0)
        c.program->measured = read_measured(options->measured, c.program->target->name);
    c.program->gpus = options->planned ? NULL : selected_gpus(options->devices);
    c.source = read_source(options->file);
    return c;
}

/* For the plan that lacks most: bytes needed, those of variables, and bytes available. hopeless: its variables do not fit. */
typedef struct Fit {
    bool fits, hopeless;
    double needed, variables, there;
} Fit;

static Fit fit_of(const Program *p)
{
    Fit fit = {.fits = true};
    double lack = 0;
    for (int i = 0; i < p->plan_count; i++) {
        double needed = needed_bytes(p, &p->plans[i], NULL), there = memory_there(p, &p->plans[i]), more = needed - there;
        if (i == 0 || more > lack) {
            double variables = variables_needed(p, &p->plans[i]);
            lack = more;
            fit = (Fit){more <= 0, variables > there, needed, variables, there};
        }
    }
    return fit;
}

static Options *with_accumulate(const Options *o, int64_t parts)
{
    Options *with = NEW(Options);
    int values = 0;
    *with = *o;
    with->set_keys = with->set_values = NULL;
    with->set_count = 0;
    for (int i = 0; i < o->set_count; i++) {
        APPEND(with->set_keys, with->set_count, o->set_keys[i]);
        APPEND(with->set_values, values, o->set_values[i]);
    }
    APPEND(with->set_keys, with->set_count, "accumulate");
    APPEND(with->set_values, values, format("%lld", (long long)parts));
    with->elaborated = true;
    return with;
}

/* ---- kernels shared by programs for different devices */
typedef struct Kernels {
    int64_t parts; /* micro-batches; 0: the model's number */
    Compilation c;
} Kernels;
struct KernelCache {
    Memory *memory;
    Kernels *each;
    int count;
};

KernelCache *kernel_cache_new(void)
{
    Memory *own = memory_new(), *outer = memory_use(own);
    KernelCache *cache = NEW(KernelCache);
    cache->memory = own;
    memory_use(outer);
    return cache;
}

void kernel_cache_free(KernelCache *cache) { memory_free(cache->memory); }

static Compilation make_kernels(const Options *o, int64_t parts)
{
    Compilation c = begin(parts ? with_accumulate(o, parts) : o);
    run_passes(&c, "fused");
    return c;
}

static const Compilation *known_kernels(const KernelCache *cache, int64_t parts)
{
    for (int i = 0; i < cache->count; i++)
        if (cache->each[i].parts == parts)
            return &cache->each[i].c;
    return NULL;
}

static const Compilation *cached_kernels(KernelCache *cache, const Options *o, int64_t parts)
{
    const Compilation *known = known_kernels(cache, parts);
    if (known)
        return known;
    Memory *outer = memory_use(cache->memory);
    APPEND(cache->each, cache->count, ((Kernels){parts, make_kernels(o, parts)}));
    memory_use(outer);
    return &cache->each[cache->count - 1].c;
}

/* The passes up to "fused" do not depend on devices. kernels_of: the number of micro-batches whose kernels are used. */
static Compilation kernels_for(KernelCache *cache, const Options *o, int64_t parts, int64_t kernels_of)
{
    if (!cache)
        return make_kernels(o, parts);
    Compilation c = *cached_kernels(cache, o, kernels_of);
    Program *p = NEW(Program);
    *p = *c.program;
    c.options = p->options = parts ? with_accumulate(o, parts) : o;
    if (kernels_of != parts) {
        Model *m = NEW(Model);
        *m = *p->model;
        m->accumulate = parts;
        p->model = m;
    }
    parse_devices(o->devices, o->planned, &p->plans, &p->plan_count);
    c.program = p;
    return c;
}

/* ---- accumulate = "auto" */
typedef struct Try {
    Compilation c;
    Memory *own; /* its memory */
    bool searched;
    Fit fit;   /* if searched */
    double us; /* of a step, as predicted; 0: not known yet */
} Try;

/* parts: micro-batches; 0: the model's number. kernels_of: as in kernels_for */
static Try try_kernels(KernelCache *cache, const Options *o, int64_t parts, int64_t kernels_of)
{
    Try t = {.own = memory_new()};
    Memory *outer = memory_use(t.own);
    Stage stage;
    if (parts)
        stage_begin(&stage, "does it fit?", "%lld micro-batch%s", (long long)parts, parts == 1 ? "" : "es");
    t.c = kernels_for(cache, o, parts, kernels_of);
    const Model *m = t.c.program->model;
    t.searched = t.c.program->tries = parts || (m->fit_accumulate && !m->not_yet);
    run_passes(&t.c, "schedule");
    if (t.searched)
        t.fit = fit_of(t.c.program);
    if (parts)
        stage_end(&stage);
    memory_use(outer);
    return t;
}

static Try try_accumulate(KernelCache *cache, const Options *o, int64_t parts) { return try_kernels(cache, o, parts, parts); }

static double step_of(Try *t)
{
    Memory *outer = memory_use(t->own);
    t->us = t->us > 0 ? t->us : predicted_step_us(t->c.program);
    memory_use(outer);
    return t->us;
}

static void take_if(Try *best, Try t, bool better)
{
    memory_free(better ? best->own : t.own);
    *best = better ? t : *best;
}

/* Finds the fewest micro-batches that fit, or those with the fewest bytes. whole: the step without micro-batches, which does not
 * fit. */
static Try find_accumulate(KernelCache *cache, const Options *o, int64_t batch, Try whole)
{
    int64_t low = 1, high = 0;
    Try best = whole;
    for (int64_t parts = 2; parts <= batch && !high; parts = 2 * parts < batch || parts == batch ? 2 * parts : batch) {
        Try t = try_accumulate(cache, o, parts);
        *(t.fit.fits ? &high : &low) = parts;
        take_if(&best, t, parts == 2 || t.fit.fits || t.fit.needed < best.fit.needed);
    }
    while (high - low > 1) {
        int64_t middle = low + (high - low) / 2;
        Try t = try_accumulate(cache, o, middle);
        *(t.fit.fits ? &high : &low) = middle;
        take_if(&best, t, t.fit.fits);
    }
    return best;
}

static int64_t most_devices(const Program *p)
{
    int64_t most = 1;
    for (int i = 0; i < p->plan_count; i++)
        most = p->plans[i].devices > most ? p->plans[i].devices : most;
    return most;
}

/* Returns a number of micro-batches in [least, most] that divides a device's samples evenly, since a step of uneven ones takes as
 * long as one of more samples; else `otherwise`, or 0 if there are fewer samples than that. */
static int64_t even_micro_batches(int64_t samples, int64_t least, int64_t most, int64_t otherwise)
{
    for (int64_t n = least; n <= most && n <= samples; n++)
        if (samples % n == 0)
            return n;
    return otherwise <= samples ? otherwise : 0;
}

static int64_t more_micro_batches(int64_t samples, int64_t parts)
{
    return even_micro_batches(samples, samples % parts ? parts + 1 : 2 * parts, 4 * parts, 2 * parts);
}

/* Returns the time of the step without what it recomputes. */
static double kept_step_of(Try *t) { return step_of(t) / (1 + t->c.program->dropped.time); }

/* Recomputing in `parts` micro-batches: bytes of samples that would be kept without it, bytes available for them, and its
 * microseconds per step. */
typedef struct Recomputing {
    int64_t parts;
    double kept, available, us;
} Recomputing;

static Recomputing recomputing_of(Try *t, int64_t parts)
{
    double kept = t->fit.needed + t->c.program->dropped.bytes - t->fit.variables;
    return (Recomputing){parts, kept, t->fit.there - t->fit.variables, step_of(t) - kept_step_of(t)};
}

/* Returns the micro-batches for which nothing has to be recomputed, as bytes shrink with the samples of one; 0: more than there
 * are samples. */
static int64_t micro_batches_that_keep(const Recomputing *r, int64_t samples)
{
    double least = r->available > 0 ? ceil((double)r->parts * r->kept / r->available) : (double)samples + 1;
    return least > (double)samples ? 0 : even_micro_batches(samples, (int64_t)least, 2 * (int64_t)least - 1, (int64_t)least);
}

/* Estimates the time of recomputing with n micro-batches. The first bytes cost less than later ones: a third of the mean in a
 * ViT, as much in a Llama. */
static double recomputed_us(const Recomputing *r, int64_t n)
{
    return r->us / 2 * (r->kept * (double)r->parts / (double)n - r->available) / (r->kept - r->available);
}

static const double GAIN = .01; /* fraction of a step: the search ignores smaller gains */

typedef struct Search {
    KernelCache *cache;
    const Options *options;
    Try best;
    bool taken;           /* the best is no longer what the search began with */
    bool fits;            /* of the last try */
    double recomputed_us; /* of the last try: time of recomputing in a step */
} Search;

static bool is_faster(Try *t, Try *best) { return t->fit.fits && (!best->fit.fits || step_of(t) < (1 - GAIN) * step_of(best)); }

/* Kernels hardly depend on the number of micro-batches, but take most of the time of a try. So a number is tried with those of
 * the best first, if they are known, and with its own only if it was better. */
static bool take_if_faster(Search *s, int64_t parts)
{
    int64_t like = s->best.c.program->model->accumulate;
    bool other = s->cache && like > 1 && known_kernels(s->cache, like) && !known_kernels(s->cache, parts);
    Try t = try_kernels(s->cache, s->options, parts, other ? like : parts);
    bool better = is_faster(&t, &s->best);
    if (better && other) {
        memory_free(t.own);
        t = try_accumulate(s->cache, s->options, parts);
        better = is_faster(&t, &s->best);
    }
    s->fits = t.fit.fits;
    s->recomputed_us = step_of(&t) - kept_step_of(&t);
    s->taken |= better;
    take_if(&s->best, t, better);
    return better;
}

/* Estimates the least time of a step in so many micro-batches: that of the try without what it recomputes, and with what its
 * kernels take longer for fewer samples. */
static double least_step_us(Try *t, int64_t parts)
{
    const Program *p = t->c.program;
    double us = kept_step_of(t);
    for (int i = 0; i < p->plan_count; i++)
        us += kernels_us(p, &p->plans[i], parts) - kernels_us(p, &p->plans[i], p->model->accumulate);
    return us;
}

/* Tries so many micro-batches, then more while it does not fit, or while the step may become shorter and something is still
 * recomputed. Returns whether fewer than the first may be faster; *least_us: fewer recompute no less than that. */
static bool try_more(Search *s, int64_t first, int64_t samples, double *least_us)
{
    bool better = true;
    for (int64_t n = first; n; n = more_micro_batches(samples, n)) {
        better = (!s->taken || least_step_us(&s->best, n) < step_of(&s->best)) && take_if_faster(s, n);
        *least_us = n == first ? s->recomputed_us : *least_us;
        if (s->best.fit.fits && (!better || s->best.c.program->dropped.time <= GAIN))
            break;
    }
    return s->best.fit.fits && (better || !s->taken);
}

/* Finds the fewest micro-batches that fit, as long as fewer are faster. low: a number that does not fit. */
static void try_fewer(Search *s, int64_t low)
{
    for (int64_t high = s->best.c.program->model->accumulate; high - low > 1;) {
        int64_t middle = low + (high - low) / 2;
        if (take_if_faster(s, middle))
            high = middle;
        else if (s->fits)
            return;
        else
            low = middle;
    }
}

/* More micro-batches keep less at a time, so less is recomputed. Tries first as many as keep everything, or more; then fewer, if
 * the overhead of micro-batches exceeds what they save. best: fits, or does not although values are recomputed. */
static Try find_faster(KernelCache *cache, const Options *o, Try best)
{
    const Program *p = best.c.program;
    if (p->one_batch || (best.fit.fits && p->dropped.time <= GAIN))
        return best;
    int64_t samples = p->model->batch / most_devices(p), parts = p->model->accumulate > 1 ? p->model->accumulate : 1;
    const Recomputing r = recomputing_of(&best, parts);
    const double kept_us = kept_step_of(&best);
    int64_t first = micro_batches_that_keep(&r, samples), low = best.fit.fits ? 0 : parts; /* low: does not fit; 0: none */
    double least_us = 0;
    Search s = {.cache = cache, .options = o, .best = best};
    first = first > parts ? first : more_micro_batches(samples, parts);
    bool fewer = try_more(&s, first, samples, &least_us);
    for (int64_t n = first / 2; n > parts && fewer; n /= 2) {
        double us = step_of(&s.best);
        bool worth = us - kept_us - fmax(recomputed_us(&r, n), least_us) >= GAIN * us;
        int64_t even = even_micro_batches(samples, n, 2 * n - 1, n);
        if (worth && take_if_faster(&s, even))
            continue;
        fewer = worth && !s.taken;
        low = low && worth && !s.fits ? even : 0;
    }
    if (low && s.best.fit.fits)
        try_fewer(&s, low);
    return s.best;
}

/* Compiles, and finds the number of micro-batches if it is to be found. */
static Try settled(const Options *o, KernelCache *cache)
{
    Try t = try_accumulate(cache, o, 0);
    if (!t.searched || t.fit.hopeless)
        return t;
    if (t.fit.fits || t.c.program->dropped.tensors)
        t = find_faster(cache, o, t);
    if (t.fit.fits)
        return t;
    t = find_accumulate(cache, o, t.c.program->model->batch, t);
    return t.fit.fits ? find_faster(cache, o, t) : t;
}

static Compilation schedules_of(const Options *o, KernelCache *cache)
{
    Try t = settled(o, cache);
    memory_join(memory_in_use(), t.own);
    if (t.searched) {
        t.c.program->tries = false;
        check_memory(&t.c);
    }
    return t.c;
}

/* Stages before the schedule are printed as they were, so they run again, with as many micro-batches as the schedule has. */
static Compilation before_schedules(const Options *o)
{
    Compilation c = begin(o);
    run_passes(&c, "simplify");
    if (!c.program->model->fit_accumulate || c.program->model->not_yet || o->shared)
        return c;
    Try t = settled(o, NULL);
    int64_t parts = t.c.program->model->accumulate;
    memory_free(t.own);
    return parts > 1 ? begin(with_accumulate(o, parts)) : c;
}

int command_compile(const Options *o)
{
    const Pass *last = o->emit ? emitted_pass(o->emit) : NULL, *from = from_pass(o);
    if (last && from && last < from)
        fail(2, "--emit %s: this stage comes before %s, which --from names", last->name, from->name);
    bool early = o->from || (last && last <= emitted_pass("simplify")), shown = last && last < emitted_pass("schedule");
    Compilation c = early ? begin(o) : shown ? before_schedules(o) : schedules_of(o, NULL);
    run_passes(&c, o->emit);
    stop_after_errors(); /* of syntax */
    if (last) {
        Text text = {0};
        last->dump(&c, &text);
        if (last->dump == dump_schedules)
            view_print(o, &text);
        else
            fwrite(text_of(&text), 1, text.length, stdout);
    }
    return 0;
}

const Model *read_model(const Options *o)
{
    Options *quiet = NEW(Options);
    *quiet = *o;
    quiet->silenced = ~(LintSet)0; /* warnings are printed when the model is compiled */
    quiet->verbose = false;
    Compilation c = begin(quiet);
    run_passes(&c, "simplify");
    return c.program->model;
}

Program *make_schedules(const Options *o, KernelCache *cache) { return schedules_of(o, cache).program; }

const char *check_whole(const Options *o)
{
    Compilation c = schedules_of(o, NULL);
    const Model *m = c.program->model;
    Text text = {0};
    check_print(m, c.program, o->json, &text);
    if (!o->json)
        fwrite(text_of(&text), 1, text.length, stdout);
    fflush(stdout);
    warn_of_initials(m, o->silenced);
    for (int i = 0; i < c.program->plan_count; i++)
        warn_of_memory(m, c.program, &c.program->plans[i]);
    warn_of_plans(c.program);
    return text_take(&text);
}

/* Everything up to the schedule is tried, so that a model that passes also compiles. Only unsupported settings of the run are
 * accepted: the model compiles without them. */
int command_check(const Options *o)
{
    if (o->init_count || o->rules)
        return show_initials(read_model(o), o);
    if (o->json)
        diagnostics_as_json();
    const char *json = check_whole(o);
    if (o->json)
        printf("%s,\"diagnostics\":[%s]}\n", json, diagnostics_json());
    return 0;
}
