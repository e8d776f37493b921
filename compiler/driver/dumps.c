/* dumps.c: what --emit prints after a pass, and --from reads in place of earlier ones. */
#include "compiler/base/json.h"
#include "compiler/driver/command.h"
#include "compiler/driver/passes.h"
#include "compiler/driver/plan.h"
#include "compiler/ir/dump.h"
#include "compiler/kernel/attention.h"
#include "compiler/kernel/target.h"
#include "compiler/plan/plan.h"
#include "compiler/plan/schedule.h"
#include "compiler/report/report.h"
#include "runtime/abi/mgpu_tables.h"

#include <string.h>

void dump_tree(const Compilation *c, Text *t) { tree_print(c->tree, t); }

static const char *const GRAPH_NAME[PHASE_KINDS] = {"init",         "prologue",    "accumulate", "train",  "eval",   "predict",
                                                    "report_train", "report_eval", "decode",     "train2", "train3", "train4",
                                                    "train5",       "train6",      "train7",     "train8"};

void dump_graphs(const Compilation *c, Text *t)
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

void dump_phases(const Compilation *c, Text *t)
{
    for (int i = 0; i < c->program->phase_count; i++)
        phase_print(c->program->phases[i], t);
}

void dump_split(const Compilation *c, Text *t)
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

void dump_memory(const Compilation *c, Text *t)
{
    for (int i = 0; i < c->program->plan_count; i++) {
        const Plan *plan = &c->program->plans[i];
        for (int d = 0; d < plan->devices; d++)
            text_add(t, "%s:%d device %d: %s bytes\n", plan->kind, plan->devices, d, grouped(device_bytes(c->program, plan, d)));
        memory_print(plan->schedule, t);
    }
}

void dump_schedules(const Compilation *c, Text *t)
{
    predict_plans(c->program);
    for (int i = 0; i < c->program->plan_count; i++)
        schedule_write(c->program->plans[i].schedule, t);
}

void dump_graph_dot(const Compilation *c, Text *t) { dot_graph(c->graphs[c->graphs[PHASE_TRAIN] ? PHASE_TRAIN : PHASE_EVAL], t); }

void dump_phase_dot(const Compilation *c, Text *t)
{
    for (int i = 0; i < c->program->phase_count; i++)
        if (c->program->phases[i]->kind == step_kind(c->program->predicts) && !c->program->phases[i]->partial_batch) {
            dot_phase(c->program->phases[i], t);
            return;
        }
}

void dump_trace(const Compilation *c, Text *t)
{
    const Program *p = c->program;
    const Plan *plan = &p->plans[p->plan_count - 1];
    SimulationInput in = simulation_input(p, plan);
    trace_print(p, plan, &in, planned_name(p->options, !p->target->own_memory), t);
}

void dump_kernels(const Compilation *c, Text *t) { c->program->target->print_all(c->program, t); }

/* Prints the members that --emit kernels and the schedule name: functions, samples for which they have work, blocks. */
static void launch_json(const Kernel *k, const mgpu_launch *l, Text *t)
{
    const Kernel *of = k->canonical ? k->canonical : k; /* which has the text */
    text_add(t, "{\"function\":");
    json_text(t, format("%s%s", of->name, l->function + strlen(k->name)));
    text_add(t, ",\"from\":%lld,\"to\":%lld,\"iterations\":%lld,\"iterations_per_sample\":%lld,\"group\":%lld",
             (long long)l->from, (long long)l->to, (long long)l->iterations, (long long)l->iterations_per_sample,
             (long long)l->group);
    text_add(t, ",\"per_block\":%lld,\"most\":%lld,\"threads\":%d,\"shared_bytes\":%d}", (long long)l->per_block,
             (long long)l->most, l->threads, l->shared_bytes);
}

static void kernel_json(const Target *target, const Kernel *k, Text *t)
{
    mgpu_launch launch[2] = {{0}};
    mgpu_library_matmul m;
    target->launches(k, launch);
    text_add(t, "{\"kernel\":");
    json_text(t, k->name);
    text_add(t, ",\"label\":");
    json_text(t, kernel_label(k));
    text_add(t, ",\"line\":%d,\"launches\":[", model_line(k->at));
    for (int i = 0; i < COUNT(launch) && launch[i].function; i++) {
        text_add(t, "%s", i ? "," : "");
        launch_json(k, &launch[i], t);
    }
    text_add(t, "]");
    if (k->attention) {
        text_add(t, ",\"attention\":");
        json_text(t, attention_table(k->attention)->backward ? "gradient" : "forward");
    }
    if (k->contraction && !k->in_tiles_of && target->library_matmul && target->library_matmul(k->contraction, &m))
        text_add(t, ",\"library_matmul\":{\"extent\":[%lld,%lld,%lld,%lld],\"sampled\":%d,\"pitch\":[%lld,%lld,%lld]}",
                 (long long)m.extent[0], (long long)m.extent[1], (long long)m.extent[2], (long long)m.extent[3], m.sampled,
                 (long long)m.a.pitch, (long long)m.b.pitch, (long long)m.d.pitch);
    if (k->epilogue)
        text_add(t, ",\"epilogue\":{\"reads\":%d,\"x\":%d}", k->read_count, k->epilogue->x);
    text_add(t, "}\n");
}

void dump_launches(const Compilation *c, Text *t)
{
    const Program *p = c->program;
    for (int i = 0; i < p->kernel_count && p->target->launches; i++) /* kernels of hosts are called */
        kernel_json(p->target, p->kernels[i], t);
}

void dump_images(const Compilation *c, Text *t) { build_print_images(c->build, t); }

Facts read_graphs(Compilation *c)
{
    /* A model without a loss has no graph train and, after update, one without a metric has no graph eval. */
    static const Facts FACT[PHASE_KINDS] = {
        [PHASE_INIT] = INIT, [PHASE_TRAIN] = TRAIN, [PHASE_EVAL] = TRAIN | EVAL, [PHASE_PREDICT] = TRAIN | EVAL};
    Model *m;
    int count;
    Facts facts = NOTHING;
    const char *stage = c->options->from;
    DumpedGraph *graphs =
        dump_read(c->source->file, c->source->text, c->source->length, &stage, GRAPH_NAME, PHASE_KINDS, &m, &count);
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
        facts |= graphs[i].steps == STEPS_PARTIAL ? NOTHING : FACT[kind];
    }
    return facts;
}
