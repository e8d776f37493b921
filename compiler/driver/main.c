/* main.c: mgpuc, the driver. The table PASSES is the compiler on one screen: text to tree to graphs to tasks to
 * schedules to C to a program. Only the driver looks at options, takes times, verifies and dumps. */
#include "compiler/driver/command.h"
#include "compiler/ir/dump.h"
#include "compiler/ir/program.h"
#include "compiler/kernel/phase.h"
#include "compiler/kernel/target.h"
#include "compiler/link/pieces.h"
#include "compiler/machine/machine.h"
#include "compiler/passes/stages.h"
#include "compiler/plan/plan.h"
#include "compiler/plan/schedule.h"
#include "compiler/verify/proof.h"
#include "dsl/dsl.h"
#include "runtime/base/terminal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- what the passes work on */
typedef struct Compilation {
    const Options *options;
    Source *source;
    Tree *tree;
    Program *program;
    Graph *graphs[PHASE_KINDS];         /* NULL: the program has no such phase */
    Graph *variants[PHASE_KINDS][2];    /* [partial]: specialised */
} Compilation;

typedef Graph *GraphPass(Graph *);

/* the model's outputs are described by nodes of its graph `eval`, so that one stays */
static void replace(Graph **at, Graph *by)
{
    Graph *old = *at;
    *at = by;
    if (old && old != by && old != old->model->eval)
        graph_free(old);
}

static void each_graph(Compilation *c, GraphPass *pass)
{
    for (int k = 0; k < PHASE_KINDS; k++)
        if (c->graphs[k])
            replace(&c->graphs[k], pass(c->graphs[k]));
}

static void each_variant(Compilation *c, GraphPass *pass)
{
    for (int k = 0; k < PHASE_KINDS; k++)
        for (int r = 0; r < 2; r++)
            if (c->variants[k][r])
                replace(&c->variants[k][r], pass(c->variants[k][r]));
}

static void run_parse(Compilation *c) { c->tree = parse(c->source); }

static void run_elaborate(Compilation *c)
{
    Settings settings = {c->options->set_keys, c->options->set_values, c->options->set_count, c->options->model};
    Model *m = elaborate(c->tree, &settings);
    c->program->model = m;
    m->identity = graph_identity(m->train);
    c->graphs[PHASE_INIT] = m->init;
    c->graphs[PHASE_TRAIN] = m->train;
    c->graphs[PHASE_EVAL] = m->eval;
}

static void run_simplify(Compilation *c)
{
    if (c->options->exact_bodies)
        each_graph(c, inline_bodies);
    each_graph(c, simplify);
}

static void run_loops(Compilation *c)
{
    each_graph(c, hoist_loops);
    each_graph(c, simplify);
}

static void run_differentiate(Compilation *c)
{
    replace(&c->graphs[PHASE_TRAIN], differentiate(c->graphs[PHASE_TRAIN]));
    replace(&c->graphs[PHASE_TRAIN], simplify(c->graphs[PHASE_TRAIN]));
}

/* evaluation splits: predict has the outputs, eval all else; what a graph does not need, simplify drops */
static Graph *part_of(Graph *eval, const char *name, bool outputs)
{
    Graph *g = graph_new(eval->model, name, NULL);
    for (int i = 0; i < eval->node_count; i++)
        eval->nodes[i]->mapped = graph_copy_node(g, eval->nodes[i]);
    graph_copy_results(g, eval);
    int kept = 0;
    for (int i = 0; i < g->result_count; i++)
        if ((g->results[i].role == ROLE_OUTPUT) == outputs)
            g->results[kept++] = g->results[i];
    g->result_count = kept;
    return g;
}

static void run_update(Compilation *c)
{
    Graph *predict = part_of(c->graphs[PHASE_EVAL], "predict", true);
    replace(&c->graphs[PHASE_EVAL], part_of(c->graphs[PHASE_EVAL], "eval", false));
    if (predict->result_count)
        c->graphs[PHASE_PREDICT] = predict;
    Graph *train = c->graphs[PHASE_TRAIN], *eval = c->graphs[PHASE_EVAL];
    make_reports(c->program->model, &train, &eval, &c->graphs[PHASE_REPORT_TRAIN], &c->graphs[PHASE_REPORT_EVAL]);
    replace(&c->graphs[PHASE_TRAIN], train);
    replace(&c->graphs[PHASE_EVAL], eval);
    replace(&c->graphs[PHASE_TRAIN], update(train));
    for (int k = 0; k < PHASE_KINDS; k++)
        if (c->graphs[k] && k != PHASE_TRAIN && k != PHASE_INIT)
            replace(&c->graphs[k], count_applied(c->graphs[k]));
    each_graph(c, simplify);
}

static void run_distribute(Compilation *c)
{
    each_graph(c, distribute);
    if (c->program->model->accumulate > 1) {
        Graph *train = c->graphs[PHASE_TRAIN];
        split_micro_batches(c->program->model, train, &train, &c->graphs[PHASE_ACCUMULATE], &c->graphs[PHASE_PROLOGUE]);
        replace(&c->graphs[PHASE_TRAIN], train);
    }
}

static int all_graphs(const Compilation *c, Graph **all)
{
    int count = 0;
    for (int k = 0; k < PHASE_KINDS; k++)
        if (c->graphs[k])
            all[count++] = c->graphs[k];
    return count;
}

static void run_precision(Compilation *c)
{
    Graph *all[PHASE_KINDS];
    find_rounded_variables(c->program->model, all, all_graphs(c, all));
    each_graph(c, choose_precision);
}

static void run_layout(Compilation *c)
{
    Graph *all[PHASE_KINDS];
    choose_layout(c->program->model, all, all_graphs(c, all));
}

static bool has_samples(PhaseKind kind) { return kind >= PHASE_PROLOGUE && kind <= PHASE_PREDICT; }

static void run_specialise(Compilation *c)
{
    for (int k = 0; k < PHASE_KINDS; k++) {
        if (!c->graphs[k])
            continue;
        c->variants[k][0] = specialise(c->graphs[k], false);
        if (has_samples((PhaseKind)k))
            c->variants[k][1] = specialise(c->graphs[k], true);
        replace(&c->graphs[k], NULL);
    }
    each_variant(c, distribute);
}

static void run_fuse(Compilation *c)
{
    Program *p = c->program;
    for (int k = 0; k < PHASE_KINDS; k++)
        for (int r = 0; r < 2; r++)
            if (c->variants[k][r]) {
                Phase *phase = fuse(p, c->variants[k][r], (PhaseKind)k, r == 1);
                APPEND(p->phases, p->phase_count, phase);
            }
    if (p->target->end_kernels)
        p->target->end_kernels(p);
}

static void run_split(Compilation *c)
{
    Program *p = c->program;
    for (int i = 0; i < p->plan_count; i++)
        split(p, &p->plans[i]);
}

static void run_schedule(Compilation *c)
{
    for (int i = 0; i < c->program->plan_count; i++)
        c->program->plans[i].schedule = schedule(c->program, &c->program->plans[i]);
}

static void run_verify(Compilation *c)
{
    for (int i = 0; i < c->program->plan_count; i++) {
        const char *wrong = verify(c->program->plans[i].schedule);
        if (wrong)
            die("the schedule for %d devices is wrong: %s", c->program->plans[i].devices, wrong);
    }
}

/* ---- dumps */
static void dump_tree(const Compilation *c, Text *t) { tree_print(c->tree, t); }

static const char *const GRAPH_NAME[PHASE_KINDS] = {"init",    "prologue",     "accumulate", "train", "eval",
                                                    "predict", "report_train", "report_eval"};

static void dump_graphs(const Compilation *c, Text *t)
{
    DumpedGraph graphs[3 * PHASE_KINDS];
    int count = 0;
    for (int k = 0; k < PHASE_KINDS; k++) {
        if (c->graphs[k])
            graphs[count++] = (DumpedGraph){c->graphs[k], STEPS_ANY};
        for (int r = 0; r < 2; r++)
            if (c->variants[k][r])
                graphs[count++] = (DumpedGraph){c->variants[k][r], r ? STEPS_PARTIAL : STEPS_FULL};
    }
    dump_write(c->options->emit, c->program->model, graphs, count, t);
}

static void dump_phases(const Compilation *c, Text *t)
{
    for (int i = 0; i < c->program->phase_count; i++)
        phase_print(c->program->phases[i], t);
}

static void dump_split(const Compilation *c, Text *t)
{
    for (int i = 0; i < c->program->plan_count; i++) {
        const Plan *p = &c->program->plans[i];
        text_add(t, "plan %s:%d micro %lld%s\n", p->kind, p->devices, (long long)p->micro,
                 p->always_partial ? " always partial" : "");
        for (int d = 0; d < p->devices; d++)
            text_add(t, "  device %d samples %lld..%lld capacity %lld\n", d, (long long)p->shards[d].first,
                     (long long)(p->shards[d].first + p->shards[d].share), (long long)p->shards[d].capacity);
    }
}

static void dump_memory(const Compilation *c, Text *t)
{
    for (int i = 0; i < c->program->plan_count; i++)
        memory_print(c->program->plans[i].schedule, t);
}

static void dump_schedules(const Compilation *c, Text *t)
{
    for (int i = 0; i < c->program->plan_count; i++)
        schedule_write(c->program->plans[i].schedule, t);
}

static void dump_kernels(const Compilation *c, Text *t)
{
    c->program->target->print_all(c->program, t);
}

static void dump_images(const Compilation *c, Text *t) { emit_images(c->program, t); }

/* ---- the compiler. A pass needs what those above it made. */
static const struct Pass {
    const char *name; /* of --emit */
    void (*run)(Compilation *);
    void (*dump)(const Compilation *, Text *);
    const char *why;
} PASSES[] = {
    {"ast", run_parse, dump_tree, "text to tree: knows no layer, no primitive"},
    {"graph", run_elaborate, dump_graphs, "names, shapes and weights are settled; nothing below sees the language"},
    {"simplify", run_simplify, dump_graphs, "before differentiation, so that rules meet few forms"},
    {"loops", run_loops, dump_graphs, "what a loop need not compute step by step leaves it, and is differentiated as usual"},
    {"grad", run_differentiate, dump_graphs, "composites still stand, and bring gradients of their own"},
    {"update", run_update, dump_graphs, "gradients exist; metrics become sums over a report"},
    {"dist", run_distribute, dump_graphs, "the whole step is there: reductions stand where Partial must end"},
    {"precision", run_precision, dump_graphs, "after distribution: what is summed over devices is known"},
    {"layout", run_layout, dump_graphs, "all uses of a weight in all phases are known"},
    {"phases", run_specialise, dump_graphs, "full and partial steps part: one assumes every sample, one selects"},
    {"fused", run_fuse, dump_phases, "graphs to kernels, the same for every device count"},
    {"split", run_split, dump_split, "samples per device; from here on once per plan"},
    {"schedule", run_schedule, dump_schedules, "buckets, offsets, lanes, order and waits"},
    {"verify", run_verify, dump_schedules, "by a prover that shares no code with the scheduler"},
};
/* dumps that show an other side of a pass's result */
static const struct View { const char *name, *after; void (*dump)(const Compilation *, Text *); } VIEWS[] = {
    {"memory", "schedule", dump_memory},
    {"kernels", "schedule", dump_kernels},
    {"images", "schedule", dump_images},
};

static const char *last_pass(const char *emit, void (**dump)(const Compilation *, Text *))
{
    const char *names[COUNT(PASSES) + COUNT(VIEWS)];
    int count = 0;
    for (int i = 0; i < COUNT(PASSES); i++) {
        names[count++] = PASSES[i].name;
        if (strcmp(PASSES[i].name, emit) == 0) {
            *dump = PASSES[i].dump;
            return PASSES[i].name;
        }
    }
    for (int i = 0; i < COUNT(VIEWS); i++) {
        names[count++] = VIEWS[i].name;
        if (strcmp(VIEWS[i].name, emit) == 0) {
            *dump = VIEWS[i].dump;
            return VIEWS[i].after;
        }
    }
    Text list = {0};
    for (int i = 0; i < count; i++)
        text_add(&list, "%s%s", i ? " " : "", names[i]);
    fail(2, "no stage is called '%s'%s; there are: %s", emit, did_you_mean(emit, names, count), text_of(&list));
}

/* the pass whose graphs --from reads; -1: the text of a model is compiled */
static int first_pass(const Options *o)
{
    const char *names[COUNT(PASSES)];
    int count = 0;
    for (int i = 0; i < COUNT(PASSES); i++)
        if (PASSES[i].dump == dump_graphs)
            names[count++] = PASSES[i].name;
    if (!o->from)
        return -1;
    for (int i = 0; i < COUNT(PASSES); i++)
        if (PASSES[i].dump == dump_graphs && strcmp(PASSES[i].name, o->from) == 0)
            return i;
    Text list = {0};
    for (int i = 0; i < count; i++)
        text_add(&list, " %s", names[i]);
    fail(2, "--from %s: this stage prints no graphs%s; those that do:%s", o->from, did_you_mean(o->from, names, count), text_of(&list));
}

/* what --emit printed after a pass, in place of all passes up to that one */
static void read_graphs(Compilation *c)
{
    Model *m;
    int count;
    const char *stage = c->options->from;
    DumpedGraph *graphs = dump_read(c->source->file, c->source->text, c->source->length, &stage, GRAPH_NAME, PHASE_KINDS, &m, &count);
    bool phases = strcmp(stage, "phases") == 0;
    m->source = c->source;
    c->program->model = m;
    for (int i = 0; i < count; i++) {
        int kind = 0;
        while (strcmp(GRAPH_NAME[kind], graphs[i].graph->name) != 0)
            kind++;
        if (phases != (graphs[i].steps != STEPS_ANY))
            fail(1,
                 "%s: graph %s is %s; 'full' and 'partial' are graphs of the stage phases, and all of its graphs are one of them",
                 c->options->file, GRAPH_NAME[kind],
                 graphs[i].steps ? STEPS_NAME[graphs[i].steps] : "neither 'full' nor 'partial'");
        *(phases ? &c->variants[kind][graphs[i].steps == STEPS_PARTIAL] : &c->graphs[kind]) = graphs[i].graph;
    }
}

/* tests read some graphs of a model; what a pass makes of them needs those that every model has */
static void need_graphs(const Compilation *c, const char *pass)
{
    static const struct { const char *pass; PhaseKind kinds[3]; int count; } NEEDS[] = {
        {"grad", {PHASE_TRAIN}, 1},
        {"update", {PHASE_TRAIN, PHASE_EVAL}, 2},
        {"fused", {PHASE_INIT, PHASE_TRAIN, PHASE_EVAL}, 3},
    };
    for (int i = 0; i < COUNT(NEEDS); i++)
        for (int k = 0; strcmp(NEEDS[i].pass, pass) == 0 && k < NEEDS[i].count; k++)
            if (!c->graphs[NEEDS[i].kinds[k]] && !c->variants[NEEDS[i].kinds[k]][0])
                fail(1, "%s: the stage %s needs a graph %s, which the file lacks; --emit a stage before it", c->options->file, pass,
                     GRAPH_NAME[NEEDS[i].kinds[k]]);
}

/* Runs the passes up to and including `last` (NULL: all). */
static void run_passes(Compilation *c, const char *last)
{
    int first = first_pass(c->options);
    if (first >= 0) {
        read_graphs(c);
        if (c->program->model->not_yet && !c->options->emit)
            fail(1, "%s uses what this version does not compile yet; 'mgpuc check' of its source says what", c->options->file);
        if (c->options->command == COMMAND_COMPILE && !c->options->emit)
            check_sources(c->program->model, c->options);
        if (last && strcmp(last, PASSES[first].name) == 0)
            return;
    }
    for (int i = first + 1; i < COUNT(PASSES); i++) {
        if (first >= 0)
            need_graphs(c, PASSES[i].name);
        double begin = now_ms();
        PASSES[i].run(c);
        if (c->options->verbose)
            fprintf(stderr, "%-10s %9.1f ms  %s\n", PASSES[i].name, now_ms() - begin, PASSES[i].why);
        if (last && strcmp(last, PASSES[i].name) == 0)
            return;
        if (strcmp(PASSES[i].name, "graph") == 0 && c->options->command == COMMAND_COMPILE && !c->options->emit)
            check_sources(c->program->model, c->options);
        if (strcmp(PASSES[i].name, "graph") == 0 && c->program->model->not_yet && c->options->command != COMMAND_CHECK)
            fail(1, "%s uses what this version does not compile yet (see above); 'mgpuc check' accepts it", c->options->file);
    }
}

static void print_linked(const Linked *l)
{
    fprintf(stderr, "%-10s %9.1f ms  C, in %d pieces that are compiled one by one\n", "emit", l->emit_ms, l->pieces);
    fprintf(stderr, "%-10s %9.1f ms  %d pieces by the C compiler, %d at a time; %d from the cache%s%s\n", "compile", l->compile_ms,
            l->compiled, l->at_a_time, l->pieces - l->compiled, l->cache ? " in " : "", l->cache ? l->cache : "");
    if (l->refused)
        fprintf(stderr, "%-10s %9s     without %s, which it does not take\n", "", "", l->refused);
    for (int i = 0; i < l->mistake_count; i++)
        fprintf(stderr, "%-10s %9s     known mistake of %s\n", "", "", l->mistakes[i]);
    if (l->images)
        fprintf(stderr, "%-10s %9s     %d images of kernels for GPUs; %d of them from the cache\n", "", "", l->images, l->images - l->images_compiled);
    if (l->trouble)
        fprintf(stderr, "%-10s %9s     %s\n", "", "", plain_text(l->trouble, false));
    fprintf(stderr, "%-10s %9.1f ms  objects and the runtime library\n", "link", l->link_ms);
}

static Compilation begin(const Options *options)
{
    Compilation c = {.options = options, .program = NEW(Program)};
    c.program->options = options;
    c.program->target = parse_devices(options->devices, options->planned, &c.program->plans, &c.program->plan_count);
    c.program->machine = options->planned ? options->planned : machine_default(c.program->target->own_memory ? PROCESSOR_CUDA : PROCESSOR_HOST);
    c.program->gpus = selected_gpus(options->devices);
    c.source = read_source(options->file);
    return c;
}

/* --emit says what --from has not passed already */
static void check_order(const char *last, int first)
{
    for (int i = 0; i < first; i++)
        if (strcmp(PASSES[i].name, last) == 0)
            fail(2, "--emit %s: this stage comes before %s, which --from names", last, PASSES[first].name);
}

static int command_compile(const Options *options)
{
    void (*dump)(const Compilation *, Text *) = NULL;
    const char *last = options->emit ? last_pass(options->emit, &dump) : NULL;
    if (options->from && last)
        check_order(last, first_pass(options));
    Compilation c = begin(options);
    if (options->emit) {
        run_passes(&c, last);
        Text text = {0};
        dump(&c, &text);
        fwrite(text_of(&text), 1, text.length, stdout);
        return 0;
    }
    run_passes(&c, NULL);
    Linked l = write_program(c.program);
    if (options->verbose)
        print_linked(&l);
    return 0;
}

/* Everything up to the split is tried, so that what passes here compiles. */
static int command_check(const Options *options)
{
    Compilation c = begin(options);
    run_passes(&c, "graph");
    Model *m = c.program->model;
    Compilation whole = c; /* what is not there yet are settings of the run: the model compiles without them */
    for (int i = 2; i < COUNT(PASSES) && strcmp(PASSES[i - 1].name, "verify") != 0; i++)
        PASSES[i].run(&whole);
    Text text = {0};
    check_print(m, c.program, options->json, &text);
    fwrite(text_of(&text), 1, text.length, stdout);
    fflush(stdout);
    warn_of_initials(m);
    for (int i = 0; i < c.program->plan_count; i++)
        if (c.program->plans[i].schedule)
            warn_of_memory(m, c.program, &c.program->plans[i]);
    return 0;
}

/* a schedule is text: bytes behind a NUL would be read by nobody */
static void refuse_nul(const char *file, const char *text, size_t length)
{
    const char *nul = length ? memchr(text, 0, length) : NULL, *line = text;
    if (!nul)
        return;
    Source source = {.file = file, .text = text, .length = length};
    Place at = {.source = &source, .line = 1};
    for (const char *p = text; p < nul; p++)
        if (*p == '\n') {
            at.line++;
            line = p + 1;
        }
    at.column = (int)(nul - line) + 1;
    error_at(&at, "here is a NUL character, and a schedule is text: write it anew with ./PROGRAM schedule or mgpuc --emit schedule");
}

static int command_verify(const Options *options)
{
    size_t length;
    char *text = read_file(options->file, &length);
    if (!text)
        fail(1, "%s cannot be read: %m", options->file);
    refuse_nul(options->file, text, length);
    const char *file = plain_text(options->file, false);
    /* one file may hold the schedules of several plans, one behind the other */
    for (char *at = text; at;) {
        char *next = *at ? strstr(at + 1, "\nmgpu-schedule ") : NULL;
        if (next)
            *next++ = 0;
        Schedule *s = schedule_read(options->file, at);
        const char *wrong = verify(s);
        if (wrong) {
            fprintf(stderr, "%s: error: %d device%s: %s\n", file, s->devices, s->devices == 1 ? "" : "s", plain_text(wrong, true));
            return 1;
        }
        printf("%s: proved for %d device%s: no two operations that may overlap touch the same bytes, no deadlock, collectives match, "
               "each sample once, every call one of the table of kernels, on the values that its digest says, every variable updated once%s\n", file, s->devices, s->devices == 1 ? "" : "s",
               s->devices == 1 ? "" : ", all devices run one program");
        at = next;
    }
    printf("%s: trusted: what each kernel reads and writes (a program compiled with --arch vgpu-check checks it as it runs), and that the digests are the model's\n", file);
    return 0;
}

static int run(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "fmt") == 0)
        return command_fmt(argc - 2, argv + 2);
    if (argc > 1 && strcmp(argv[1], "doc") == 0)
        return command_doc(argc - 2, argv + 2);
    if (argc > 1 && strcmp(argv[1], "devices") == 0)
        return command_devices(argc - 2, argv + 2);
    if (argc > 1 && strcmp(argv[1], "machines") == 0)
        return command_machines(argc - 2, argv + 2);
    if (argc > 1 && strcmp(argv[1], "--nvrtc") == 0)
        return command_nvrtc(argc - 2, argv + 2);
    Options options = parse_command(argc, argv);
    switch (options.command) {
    case COMMAND_CHECK: return command_check(&options);
    case COMMAND_VERIFY: return command_verify(&options);
    case COMMAND_COMPILE: return command_compile(&options);
    }
    return 2;
}

int main(int argc, char **argv)
{
    mgpu_hold_descriptors();
    int status = run(argc, argv);
    end_output();
    return status;
}
