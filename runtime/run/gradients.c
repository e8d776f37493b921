/* gradients.c: `check-gradients`: compares gradients with finite differences, on the first batch of the training data (without
 * data: on random values, as in bench).
 *
 * In: a program in f64 that keeps its gradients (observe = "gradients"). A step computes the gradients. Then a few elements of
 * each weight are changed by +h and -h, and the step is repeated from the same state with the same random numbers. The central
 * differences of h and h / 2 are extrapolated (Richardson), so their error is of order h^4. Of three sizes of h the one with the
 * best agreement counts, since rounding spoils small ones, and kinks (relu) large ones. Of several objectives the first update of
 * each is such a step. Out: a row for each weight. */
#include "runtime/base/base.h"
#include "runtime/base/options.h"
#include "runtime/data/data.h"
#include "runtime/data/sets.h"
#include "runtime/engine/engine.h"
#include "runtime/run/commands.h"
#include "runtime/run/run.h"
#include "runtime/run/sets.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ELEMENTS = 4 }; /* compared elements of a weight */
static const double STEPS[] = {1e-3, 1e-4, 1e-5};
static const double TOLERANCE = 1e-4; /* limit of the relative difference */
static const double ROUNDING = 1e-13; /* relative to the loss: smaller differences of losses may be rounding */

typedef struct GradientCheck {
    Feed feed;
    Dataset train;  /* samples 0: there is no data, and random values are used */
    double loss;    /* loss of the last collected step */
    int objective;  /* of the step: its first update */
    uint8_t *state; /* values of all variables before the step */
} GradientCheck;

static void collect(void *context, const Work *work)
{
    GradientCheck *c = context;
    if (mgpu_is_train_kind(work->phase->kind))
        c->loss = mgpu_report_value(work->phase->reports, work->report, work->phase->report_count, "loss");
}

static int gradient_of(const mgpu_program *p, int weight)
{
    char *name = mgpu_format("%s.gradient", p->variables[weight].tensor.name);
    int found = -1;
    for (int v = 0; v < p->variable_count && found < 0; v++)
        if (p->variables[v].kind == MGPU_OBSERVED && strcmp(p->variables[v].tensor.name, name) == 0)
            found = v;
    free(name);
    return found;
}

/* Returns the loss of the first step after adding `by` to an element of a weight. */
static double loss_with(GradientCheck *c, int weight, double *values, int64_t element, double by)
{
    const mgpu_program *p = c->feed.program;
    mgpu_put_variables_back(&c->feed, c->state);
    double was = values ? values[element] : 0;
    if (values) {
        values[element] = was + by;
        for (int d = 0; d < c->feed.plan->devices; d++)
            mgpu_engine_write_variable(c->feed.engine, d, weight, values);
        values[element] = was;
    }
    Batch batch = {.set = c->train.samples ? &c->train : NULL, .samples = p->batch};
    for (int k = 0; k < c->objective; k++)
        batch.applied += p->objectives[k].times;
    if (c->train.samples && c->train.samples < p->batch)
        batch.samples = c->train.samples;
    mgpu_post_step(&c->feed, &batch);
    mgpu_engine_drain(c->feed.engine);
    return c->loss;
}

/* Returns the relative difference between the gradient and the closest finite difference. kink: the slopes on both sides differ,
 * so there is no derivative to compare with. */
static double difference(GradientCheck *c, int weight, double *values, int64_t element, double gradient, double loss, bool *kink)
{
    double least = INFINITY;
    *kink = false;
    for (int k = 0; k < MGPU_COUNT(STEPS) && least > TOLERANCE / 100; k++) {
        double h = STEPS[k] * fmax(1, fabs(values[element])), slope[2];
        for (int half = 0; half < 2; half++) {
            double at = half ? h / 2 : h;
            double above = loss_with(c, weight, values, element, at), below = loss_with(c, weight, values, element, -at);
            slope[half] = (above - below) / (2 * at);
            double bend = fabs(above + below - 2 * loss) / at, rounding = ROUNDING * fabs(loss) / at;
            *kink = bend > TOLERANCE * fabs(slope[half]) + rounding;
        }
        double best = (4 * slope[1] - slope[0]) / 3, scale = fmax(fabs(gradient), fabs(best)),
               rounding = ROUNDING * fabs(loss) / h;
        double off = fabs(gradient - best), relative = off == 0 ? 0 : off / scale;
        relative = relative == relative ? relative : INFINITY; /* NaN agrees with nothing */
        least = fmin(least, off <= rounding ? fmin(relative, TOLERANCE / 100) : relative);
    }
    return least;
}

/* Prints an index such as "[3, 17]". */
static void print_index(const mgpu_tensor *t, int64_t element)
{
    int64_t index[MGPU_MAX_RANK];
    for (int k = t->rank - 1; k >= 0; k--) {
        index[k] = element % t->extent[k];
        element /= t->extent[k];
    }
    putchar('[');
    for (int k = 0; k < t->rank; k++)
        printf("%s%lld", k ? ", " : "", (long long)index[k]);
    putchar(']');
}

/* Returns the element with the largest gradient, then elements of different parts of the tensor, at a varying offset in each. */
static int64_t element_of(const double *gradients, int64_t count, int k)
{
    int64_t largest = 0;
    for (int64_t i = 1; i < count; i++)
        if (fabs(gradients[i]) > fabs(gradients[largest]))
            largest = i;
    int64_t begin = count * (k - 1) / (ELEMENTS - 1), size = count * k / (ELEMENTS - 1) - begin;
    return k == 0 ? largest : size > 0 ? begin + size * (k * 37 % 100) / 100 : -1;
}

static double root_mean_square(const double *values, int64_t count)
{
    double sum = 0;
    for (int64_t i = 0; i < count; i++)
        sum += values[i] * values[i];
    return count ? sqrt(sum / (double)count) : 0;
}

/* Returns whether the gradients of the weight agree. flat: their root mean square is 0: the batch does not affect the weight. */
static bool check_weight(GradientCheck *c, int weight, const double *gradients, double loss, bool *flat)
{
    const mgpu_tensor *t = &c->feed.program->variables[weight].tensor;
    int64_t count = mgpu_elements(t), worst = 0;
    double *values = mgpu_allocate((size_t)count, sizeof *values), most = 0;
    int compared = 0, kinks = 0;
    mgpu_put_variables_back(&c->feed, c->state);
    mgpu_engine_read_whole(c->feed.engine, weight, values);
    for (int k = 0; k < ELEMENTS && count; k++) {
        int64_t element = element_of(gradients, count, k);
        if (element < 0)
            continue;
        bool kink;
        double off = difference(c, weight, values, element, gradients[element], loss, &kink);
        bool none = kink && off > TOLERANCE;
        kinks += none;
        compared += !none;
        if (!none && !(off <= most)) {
            most = off;
            worst = element;
        }
    }
    bool good = most <= TOLERANCE;
    printf("%-5s  %-40s  %d compared, largest relative difference %.1e", good ? "ok" : "WRONG", t->name, compared, most);
    if (!good) {
        printf(" at ");
        print_index(t, worst);
        printf(", whose gradient is %.10g", gradients[worst]);
    }
    if (kinks)
        printf(", %d at a kink", kinks);
    double size = root_mean_square(gradients, count);
    printf("; rms of the gradient %.1e, of the weight %.1e", size, root_mean_square(values, count));
    *flat = count && size == 0;
    putchar('\n');
    fflush(stdout);
    free(values);
    return good;
}

static void open_first_batch(GradientCheck *c, const RunOptions *o)
{
    const mgpu_program *p = c->feed.program;
    const mgpu_set *train = mgpu_find_set(p, "train");
    mgpu_check_later(p, "train");
    if (!train) {
        mgpu_engine_fill_staging(c->feed.engine, o->seed);
        return;
    }
    bool *wanted = mgpu_allocate((size_t)p->input_count, sizeof *wanted);
    mgpu_wanted_inputs(p, c->feed.plan, MGPU_EVERY_TRAIN_KIND, wanted);
    Categories *categories = mgpu_new_categories(false);
    mgpu_begin_categories(categories, p, c->feed.plan, o);
    mgpu_open_set(&c->train, p, train, wanted, o->data, categories);
    free(wanted);
}

static bool is_written(const mgpu_plan *plan, int kind, int variable)
{
    for (int k = 0; k < plan->phase_count; k++) {
        const mgpu_device_phase *p = &plan->phases[k].devices[0];
        for (int i = 0; i < p->op_count && plan->phases[k].kind == kind; i++)
            for (int w = 0; w < p->ops[i].write_count; w++) {
                const mgpu_buffer *b = &p->buffers[p->ops[i].writes[w].buffer];
                if (b->kind == MGPU_VARIABLE && b->index == variable)
                    return true;
            }
    }
    return false;
}

/* Checks the weights of one objective. Returns how many are wrong, and adds to *flat those without a gradient. */
static int check_objective(GradientCheck *c, int objective, int *flat)
{
    const mgpu_program *p = c->feed.program;
    int wrong = 0;
    c->objective = objective;
    double loss = loss_with(c, -1, NULL, 0, 0);
    if (p->objective_count) {
        fputs("objective ", stdout);
        mgpu_print_plain(p->objectives[objective].name);
        fputs(": ", stdout);
    }
    printf("loss of the first batch %.10g; gradients against finite differences in f64\n", loss);
    double **gradients = mgpu_allocate((size_t)p->variable_count, sizeof *gradients);
    for (int v = 0; v < p->variable_count; v++) {
        int g = p->variables[v].kind == MGPU_WEIGHT ? gradient_of(p, v) : -1;
        if (g < 0 || !is_written(c->feed.plan, mgpu_train_kind(objective), g))
            continue;
        gradients[v] = mgpu_allocate((size_t)mgpu_elements(&p->variables[v].tensor) + 1, sizeof **gradients);
        mgpu_engine_read_whole(c->feed.engine, g, gradients[v]);
    }
    for (int v = 0; v < p->variable_count; v++) {
        bool none = false;
        if (gradients[v])
            wrong += !check_weight(c, v, gradients[v], loss, &none);
        *flat += none;
        free(gradients[v]);
    }
    free(gradients);
    return wrong;
}

int mgpu_check_gradients(const mgpu_program *program, const RunOptions *o)
{
    bool observes = false, precise = true;
    for (int v = 0; v < program->variable_count; v++) {
        observes = observes || program->variables[v].kind == MGPU_OBSERVED;
        precise = precise && (program->variables[v].kind != MGPU_WEIGHT || program->variables[v].tensor.dtype == MGPU_F64);
    }
    if (!observes || !precise)
        mgpu_fail(MGPU_BAD_USAGE,
                  "check-gradients needs a program in f64 that keeps its gradients: mgpuc %s --set precision=f64 "
                  "--set observe=gradients",
                  program->model_file);
    GradientCheck c = {.feed = {.program = program,
                                .plan = mgpu_choose_plan(program, o),
                                .setting = o->setting,
                                .seed = o->seed,
                                .total_steps = 1,
                                .steps_per_epoch = 1}};
    c.feed.engine = mgpu_engine_open(mgpu_kind_of(c.feed.plan), program, c.feed.plan, o, collect, &c);
    mgpu_post_without_samples(&c.feed, MGPU_PHASE_INIT, 0, 0);
    mgpu_engine_drain(c.feed.engine);
    mgpu_load_initials(program, c.feed.plan, c.feed.engine, o);
    open_first_batch(&c, o);
    c.state = mgpu_copy_variables(&c.feed, NULL);
    int wrong = 0, flat = 0;
    for (int k = 0; k < (program->objective_count ? program->objective_count : 1); k++)
        wrong += check_objective(&c, k, &flat);
    mgpu_engine_close(c.feed.engine, "all gradients are compared");
    if (c.train.samples)
        mgpu_close_set(&c.train);
    free(c.state);
    if (flat)
        printf("weights whose gradient is 0 in this batch: %d; what goes into them is 0, or what is after them is flat, as a "
               "relu is whose "
               "inputs are all negative (a dead relu), or no loss depends on them\n",
               flat);
    if (wrong)
        printf("%d %s that finite differences contradict; this is meant for weights before a stop_gradient, where finite "
               "differences do "
               "not stop\n",
               wrong, wrong == 1 ? "weight has a gradient" : "weights have gradients");
    return wrong ? MGPU_BAD_INPUT : 0;
}
