/* passes.c: the compiler on one screen: text to tree to graphs to kernels to schedules to C to a program. Only the driver looks
 * at options, checks what passes need, takes times and prints. --emit, --from, --help, `mgpuc -v` and docs/generate read the
 * table. */
#include "compiler/driver/passes.h"
#include "compiler/base/progress.h"
#include "compiler/driver/command.h"
#include "compiler/plan/policy.h"

#include <string.h>

/* Name, function, what --emit prints; what it needs, makes, breaks; why it is here. */
/* clang-format off */
static const Pass PASSES[] = {
    {"ast", pass_parse, dump_tree, NOTHING, TREE, NOTHING,
     "text to tree: knows no layer, no primitive"},
    {"graph", pass_elaborate, dump_graphs, TREE, GRAPHS | COMPOSITES, NOTHING,
     "names, shapes and weights are settled; nothing below sees the language"},
    {"resolve", pass_resolve, dump_graphs, COMPOSITES, NOTHING, NOTHING,
     "gradients that the text asks for, while every value that it names is computed from others and others from it"},
    {"simplify", pass_simplify, dump_graphs, COMPOSITES, SIMPLE, NOTHING,
     "before differentiation, so that rules meet few forms"},
    {"graphdot", NULL, dump_graph_dot, SIMPLE | TRAIN, NOTHING, NOTHING,
     "the model's training graph by layers, for Graphviz"},
    {"loops", pass_loops, dump_graphs, SIMPLE, NOTHING, NOTHING,
     "what a loop need not compute step by step leaves it, and is differentiated as usual"},
    {"grad", pass_differentiate, dump_graphs, SIMPLE | COMPOSITES, GRADIENTS, COMPOSITES,
     "composites are still there, and bring gradients of their own"},
    {"update", pass_update, dump_graphs, EVAL | GRADIENTS, STEP, NOTHING,
     "gradients exist; metrics become sums over a report"},
    {"dist", pass_distribute, dump_graphs, STEP, DISTRIBUTION, NOTHING,
     "the whole step is there: reductions are where Partial must end"},
    {"precision", pass_precision, dump_graphs, DISTRIBUTION, PRECISION, NOTHING,
     "after distribution: what is summed over devices is known"},
    {"shard", pass_shard, dump_graphs, STEP | PRECISION, NOTHING, NOTHING,
     "updates and rounded copies are there: what each device needs a part of is known"},
    {"layout", pass_layout, dump_graphs, STEP | PRECISION, LAYOUT, NOTHING,
     "all uses of a weight in all phases are known"},
    {"phases", pass_phases, dump_graphs, DISTRIBUTION | LAYOUT, VARIANTS, NOTHING,
     "full and partial steps part: one assumes every sample, one selects"},
    {"fused", pass_fuse, dump_phases, GRAPHS | VARIANTS | SIMPLE, KERNELS, VARIANTS,
     "graphs to kernels, the same for every device count"},
    {"dot", NULL, dump_phase_dot, KERNELS, NOTHING, NOTHING,
     "the kernels of a training step by layers, for Graphviz"},
    {"split", pass_split, dump_split, KERNELS, SHARES, NOTHING,
     "samples per device; from here on once per plan"},
    {"recompute", pass_recompute, dump_phases, KERNELS | SHARES, NOTHING, NOTHING,
     "the bytes of a device follow from its samples; what is dropped must fit before it is scheduled"},
    {"schedule", pass_schedule, dump_schedules, KERNELS | SHARES, SCHEDULES, NOTHING,
     "buckets, offsets, lanes, order and waits"},
    {"verify", pass_verify, dump_schedules, SCHEDULES, PROOF, NOTHING,
     "by a prover that shares no code with the scheduler"},
    {"memory", NULL, dump_memory, SCHEDULES, NOTHING, NOTHING,
     "the schedules' buffers and their offsets"},
    {"trace", NULL, dump_trace, SCHEDULES, NOTHING, NOTHING,
     "the predicted timeline of the plan with the most devices, for Perfetto"},
    {"kernels", NULL, dump_kernels, KERNELS, NOTHING, NOTHING,
     "the text of all kernels, as the target prints them"},
    {"launches", NULL, dump_launches, KERNELS, NOTHING, NOTHING,
     "what a GPU launches for each kernel, as JSON"},
    {"emit", pass_emit, NULL, KERNELS | PROOF, UNITS, NOTHING,
     "code generation: C in translation units that are compiled one by one"},
    {"images", pass_images, dump_images, UNITS, IMAGES, NOTHING,
     "the tables take in the images of kernels for GPUs"},
    {"compile", pass_compile, NULL, UNITS | IMAGES, OBJECTS, NOTHING,
     "translation units to objects, by the C compiler or from the cache"},
    {"link", pass_link, NULL, OBJECTS, PROGRAM, NOTHING,
     "objects and the runtime library"},
};
/* clang-format on */

/* ---- names */
typedef bool Wanted(const Pass *);

static bool prints(const Pass *p) { return p->dump != NULL; }
static bool prints_graphs(const Pass *p) { return p->dump == dump_graphs; }

static int pass_names(Wanted *wanted, const char **names)
{
    int count = 0;
    for (int i = 0; i < COUNT(PASSES); i++)
        if (wanted(&PASSES[i]))
            names[count++] = PASSES[i].name;
    return count;
}

void stages_print(bool graphs, Text *t)
{
    const char *names[COUNT(PASSES)];
    int count = pass_names(graphs ? prints_graphs : prints, names);
    for (int i = 0; i < count; i++)
        text_add(t, "%s%s", i ? " " : "", names[i]);
}

static const Pass *find_pass(const char *name)
{
    for (int i = 0; i < COUNT(PASSES); i++)
        if (strcmp(PASSES[i].name, name) == 0)
            return &PASSES[i];
    return NULL;
}

static const char *nearest(const char *name, Wanted *wanted)
{
    const char *names[COUNT(PASSES)];
    return did_you_mean(name, names, pass_names(wanted, names));
}

const Pass *emitted_pass(const char *name)
{
    const Pass *p = find_pass(name);
    Text list = {0};
    if (p && prints(p))
        return p;
    stages_print(false, &list);
    fail(2, "no stage is called '%s'%s; there are: %s", name, nearest(name, prints), text_of(&list));
}

const Pass *from_pass(const Options *o)
{
    const Pass *p = o->from ? find_pass(o->from) : NULL;
    Text list = {0};
    if (!o->from || (p && prints_graphs(p)))
        return p;
    stages_print(true, &list);
    fail(2, "--from %s: this stage prints no graphs%s; those that do: %s", o->from, nearest(o->from, prints_graphs),
         text_of(&list));
}

/* ---- running passes */
static void advance(Compilation *c, const Pass *p) { c->facts = (c->facts & ~p->breaks) | p->makes; }

/* A file of --from may lack graphs; any other missing fact is a mistake in the table. */
static void check_needs(const Compilation *c, const Pass *p)
{
#define FACT_TEXT(name, text) text,
    static const char *const WHAT[] = {FACTS(FACT_TEXT)};
    for (int f = 0; f < FACT_COUNT; f++) {
        Facts fact = 1u << f;
        if (!(p->needs & fact) || c->facts & fact)
            continue;
        if (!(fact & GRAPHS) || !c->options->from)
            die("the pass %s needs %s, which no pass before it makes", p->name, WHAT[f]);
        fail(1, "%s: the stage %s needs %s, which the file lacks; --emit a stage before it", c->options->file, p->name, WHAT[f]);
    }
}

static void print_pass(const char *name, double ms, const char *remark)
{
    fprintf(stderr, "%-10s %9.1f ms  ", name, ms);
    for (; *remark; remark++) {
        fputc(*remark, stderr);
        if (*remark == '\n')
            fprintf(stderr, "%-10s %9s     ", "", "");
    }
    fputc('\n', stderr);
}

static void run_pass(Compilation *c, const Pass *p)
{
    check_needs(c, p);
    if (p->run) {
        double begin = now_ms();
        Stage stage;
        c->remark = p->why;
        stage_begin(&stage, p->why, "%s", p->name);
        p->run(c);
        stage_end(&stage);
        if (c->options->verbose)
            print_pass(p->name, now_ms() - begin, c->remark);
    }
    advance(c, p);
}

/* Called once the model is elaborated: rejects outputs that would overwrite sources, and models that are not supported yet. */
static void check_model(const Compilation *c)
{
    const Options *o = c->options;
    const Model *m = c->program->model;
    if (o->command == COMMAND_COMPILE && !o->emit)
        check_sources(m, o);
    if (m->not_yet && o->from && !o->emit)
        fail(1, "%s uses what this version does not compile yet; 'mgpuc check' of its source says what", o->file);
    if (m->not_yet && !o->from && o->command != COMMAND_CHECK)
        fail(1, "%s uses what this version does not compile yet (see above); 'mgpuc check' accepts it", o->file);
}

static void run_from(Compilation *c)
{
    const Pass *from = from_pass(c->options);
    if (c->options->shard != SHARD_NOTHING && from >= find_pass("shard"))
        fail(2, "--shard means nothing with --from %s: what is split was settled when the graphs were printed; give it there",
             from->name);
    if (policy_of(c->options)->gradients != GRADIENTS_EXACT && from >= find_pass("shard"))
        fail(
            2,
            "--plan %s means nothing with --from %s: which gradients are sent as bits was settled when the graphs were printed; give it there",
            policy_of(c->options)->name, from->name);
    Facts there = read_graphs(c);
    for (const Pass *p = PASSES; p <= from; p++)
        advance(c, p);
    c->facts = (c->facts & ~(Facts)GRAPHS) | there;
    c->next = from + 1;
    check_model(c);
}

void run_passes(Compilation *c, const char *last)
{
    const Pass *end = last ? find_pass(last) + 1 : PASSES + COUNT(PASSES);
    if (!c->next && c->options->from)
        run_from(c);
    for (const Pass *p = c->next ? c->next : PASSES; p < end; c->next = ++p) {
        run_pass(c, p);
        if (p->run == pass_elaborate && p + 1 < end)
            check_model(c);
    }
}
