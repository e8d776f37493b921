/* library_test.c: the layers, losses, metrics and optimizers of dsl/stdlib against an independent framework. The model
 * is tests/reference/library.net; its graphs are interpreted in double with inputs, weights and states that are
 * formulas of their names; tests/reference/library.values (written by library.py) says what must come out: how many
 * elements, their sum, their sum weighted by cos(k). Rates are compared with their formulas. */
#include "dsl/dsl.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SAMPLES = 3, STEP = 3, STEPS = 100, EPOCHS = 10 };
static const double PROGRESS = 0.35;

static double name_number(const char *name)
{
    int sum = 0;
    for (; *name; name++)
        sum += (unsigned char)*name;
    return sum;
}

static double wave(const char *name, int64_t sample, int64_t element)
{
    return sin(0.61 * (double)(element + 1) + 2.3 * (double)sample + name_number(name));
}

static bool is_positive(const char *name)
{
    static const char *const ENDS[] = {"running_var", "v", "square", "change", "u"};
    const char *dot = strrchr(name, '.');
    for (int k = 0; k < COUNT(ENDS); k++)
        if (strcmp(dot ? dot + 1 : name, ENDS[k]) == 0)
            return true;
    return false;
}

static double input_value(const Input *in, int64_t sample, int64_t element)
{
    if (!in->classes)
        return wave(in->name, sample, element);
    if (in->ignore >= 0 && (element + sample) % 3 == 0)
        return (double)in->ignore;
    return (double)((7 * element + 3 * sample + (int64_t)name_number(in->name)) % in->classes);
}

static double run_scalar(RunScalar which)
{
    switch (which) {
    case RUN_STEP: return STEP;
    case RUN_SAMPLES: return SAMPLES;
    case RUN_PROGRESS: return PROGRESS;
    case RUN_EPOCH: return PROGRESS * EPOCHS;
    case RUN_TOTAL_STEPS: return STEPS;
    case RUN_TOTAL_EPOCHS: return EPOCHS;
    case RUN_SETTING: return NAN;
    default: return 0;
    }
}

static bool leaf(void *context, const Node *n, double *out, int64_t count)
{
    const Model *m = context;
    int64_t each = shape_count(&n->shape);
    for (int64_t i = 0; i < count; i++) {
        if (n->op == OP_INPUT) {
            out[i] = input_value(&m->inputs[n->ints[0]], i / each, i % each);
        } else if (n->op == OP_VARIABLE) {
            const char *name = m->variables[n->ints[0]].name;
            out[i] = 0.5 * wave(name, 0, i);
            if (is_positive(name))
                out[i] = fabs(out[i]) + 0.1;
        } else if (n->op == OP_GRADIENT) {
            out[i] = wave("gradient", 0, i);
        } else if (n->op == OP_ALIVE) {
            out[i] = 1;
        } else if (n->op == OP_RUN) {
            out[i] = run_scalar((RunScalar)n->ints[0]);
        } else {
            return false;
        }
    }
    return true;
}

/* ---- what must come out */

typedef struct Expected { const char *name; int64_t count; double sum, weighted; bool seen; } Expected;
static Expected *expected;
static int expected_count, failed;

static void load(const char *path)
{
    size_t length;
    char *text = read_file(path, &length);
    if (!text)
        fail(3, "%s cannot be read; the test runs in the project's folder", path);
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
        char name[64];
        Expected e = {0};
        long long count;
        if (sscanf(line, "%63s %lld %lf %lf", name, &count, &e.sum, &e.weighted) != 4)
            fail(3, "%s: a line that cannot be read: %s", path, line);
        e.name = copy_text(name, strlen(name));
        e.count = count;
        APPEND(expected, expected_count, e);
    }
}

static void compare(const char *name, const double *values, int64_t count)
{
    Expected *e = NULL;
    for (int k = 0; k < expected_count; k++)
        if (strcmp(expected[k].name, name) == 0)
            e = &expected[k];
    if (!e)
        return;
    e->seen = true;
    double sum = 0, weighted = 0, size = 1;
    for (int64_t i = 0; i < count; i++) {
        sum += values[i];
        weighted += values[i] * cos((double)i);
        size += fabs(values[i]);
    }
    bool equal = count == e->count && fabs(sum - e->sum) <= 1e-10 * size && fabs(weighted - e->weighted) <= 1e-10 * size;
    if (equal) {
        printf("ok library.%s\n", name);
        return;
    }
    printf("not ok library.%s: %lld elements, sums %.15g and %.15g; expected %lld, %.15g and %.15g\n", name, (long long)count,
           sum, weighted, (long long)e->count, e->sum, e->weighted);
    failed = 1;
}

static void run(const Model *m, const Graph *g, const char *prefix)
{
    Interpretation run = {.samples = SAMPLES, .step = STEP, .seed = 1, .leaf = leaf, .context = (void *)(uintptr_t)m};
    run.values = NEW_ARRAY(double *, g->node_count);
    interpret(g, &run);
    for (int k = 0; k < g->result_count; k++) {
        const Result *r = &g->results[k];
        bool training = g == m->train;
        const char *name = r->role == ROLE_UPDATE ? m->variables[r->index].name : r->name;
        if (r->role == ROLE_OUTPUT || (r->role == ROLE_METRIC && training == (strncmp(name, "t_", 2) == 0)) ||
            (r->role == ROLE_UPDATE && training))
            compare(prefix ? prefix : name, run.values[r->value->id],
                    shape_count(&r->value->shape) * (r->value->sharded ? SAMPLES : 1));
    }
}

static const struct { const char *name, *text; } OPTIMIZERS[] = {
    {"sgd", "sgd()"}, {"sgd_momentum", "sgd(momentum = 0.9)"}, {"sgd_nesterov", "sgd(momentum = 0.9, nesterov = true)"},
    {"adam", "adam()"}, {"adamw", "adamw()"}, {"adamax", "adamax()"}, {"rmsprop", "rmsprop(momentum = 0.9)"},
    {"adagrad", "adagrad()"}, {"adadelta", "adadelta()"},
};

static void run_optimizer(const char *name, const char *text)
{
    Source *s = NEW(Source);
    s->file = name;
    s->text = format("model o {\n    input x: f32\n    weight w: f32[3, 2] = 0\n    loss x * sum(w)\n}\n"
                     "train {\n    lr = 0.1\n    decay = 0.02\n    optimizer = %s\n}\n", text);
    s->length = strlen(s->text);
    const Model *m = elaborate(parse(s), &(Settings){0});
    Graph *g = m->train;
    int kept = 0;
    for (int k = 0; k < g->result_count; k++) /* the weight alone */
        if (g->results[k].role == ROLE_UPDATE && m->variables[g->results[k].index].kind == WEIGHT)
            g->results[kept++] = g->results[k];
    g->result_count = kept;
    run(m, g, format("optimizer.%s", name));
}

/* ---- rates, at 0.35 of a run of 10 epochs, 100 steps */

static void run_rate(const char *text, double want)
{
    Source *s = NEW(Source);
    s->file = "rate";
    s->text = format("model r {\n    input x: f32\n    loss x\n}\ntrain {\n    batch = 50\n    lr = %s\n}\n", text);
    s->length = strlen(s->text);
    const Model *m = elaborate(parse(s), &(Settings){0});
    Interpretation run = {.samples = SAMPLES, .step = STEP, .seed = 1, .leaf = leaf, .context = (void *)(uintptr_t)m};
    run.values = NEW_ARRAY(double *, m->train->node_count);
    interpret(m->train, &run);
    for (int k = 0; k < m->train->result_count; k++) {
        const Result *r = &m->train->results[k];
        if (r->role != ROLE_REPORT)
            continue;
        double got = run.values[r->value->id][0];
        bool equal = fabs(got - want) <= 1e-13;
        printf(equal ? "ok library.rate %s\n" : "not ok library.rate %s: %.17g, expected %.17g\n", text, got, want);
        failed |= !equal;
    }
}

static void run_rates(void)
{
    const double pi = acos(-1), t = PROGRESS, after = (t - 0.1) / 0.9;
    run_rate("0.1", 0.1);
    run_rate("constant(0.1)", 0.1);
    run_rate("constant(0.1, warmup = 7epochs)", 0.1 * t / 0.7);
    run_rate("linear(0.2, end = 0.1)", 0.2 - 0.1 * t);
    run_rate("linear(0.2, warmup = 10steps)", 0.2 * (1 - after));
    run_rate("polynomial(0.2, power = 2, end = 0.1)", 0.1 + 0.1 * (1 - t) * (1 - t));
    run_rate("cosine(0.1, warmup = 1epoch)", 0.05 * (1 + cos(pi * after)));
    run_rate("cosine(0.1, end = 0.02, warmup = 7epochs)", 0.1 * t / 0.7);
    run_rate("cosine(0.1, cycles = 4)", 0.05 * (1 + cos(pi * 0.4)));
    run_rate("multistep(0.1, at = [2epochs, 30steps, 9epochs], factor = 0.5)", 0.025);
    run_rate("staircase(0.1, every = 500samples, factor = 0.5)", 0.0125);
    run_rate("exponential(0.1, every = 1epoch, factor = 0.5)", 0.1 * pow(0.5, 3.5));
    run_rate("inverse_sqrt(0.1, warmup = 1epoch)", 0.1 * sqrt(0.1 / t));
    run_rate("one_cycle(0.1)", 0.1 * (1e-4 + (1 - 1e-4) * 0.5 * (1 + cos(pi * (t - 0.3) / 0.7))));
    run_rate("scaled(0.1, base = 200)", 0.025);
    run_rate("1e-3 * (1 - progress) ** 2", 1e-3 * (1 - t) * (1 - t));
}

int main(void)
{
    load("tests/reference/library.values");
    Source *s = read_source("tests/reference/library.net");
    const Model *m = elaborate(parse(s), &(Settings){0});
    run(m, m->eval, NULL);
    run(m, m->train, NULL);
    for (int k = 0; k < COUNT(OPTIMIZERS); k++)
        run_optimizer(OPTIMIZERS[k].name, OPTIMIZERS[k].text);
    run_rates();
    for (int k = 0; k < expected_count; k++)
        if (!expected[k].seen) {
            printf("not ok library.%s: the model has no such result\n", expected[k].name);
            failed = 1;
        }
    return failed;
}
