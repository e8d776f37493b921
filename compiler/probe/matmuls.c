/* matmuls.c: measure large matmuls on GPUs, as programs compute them: with cuBLASLt if it is there, else with our kernels.
 *
 * For each type, a program is compiled whose step consists of two matmuls of SIDE x SIDE x SIDE, and `bench --measure` gives the
 * time of each: the forward one, and that of the weight's gradient. It runs on the first of GPUs of the same name. Virtual GPUs
 * run only f32, and a small one, because their times are made up. */
#include "compiler/link/translation_units.h"
#include "compiler/probe/gpu.h"
#include "runtime/base/base.h"

#include <string.h>
#include <unistd.h>

static const struct {
    const char *type;
    int side;
} TYPE[] = {{"f32", 4096}, {"bf16", 4096}, {"f16", 4096}, {"f64", 2048}};
enum { TYPES = COUNT(TYPE), VIRTUAL_SIDE = 64 };

static const char MODEL[] = "param side = 64\nmodel probe {\n    input x: f32[side]\n    input label: class(side)\n"
                            "    loss cross_entropy(x |> dense(side, bias = false), label)\n}\n"
                            "train { batch = 64  lr = 1e-6 }\n";

typedef struct Probe {
    const ProbedGpus *all;
    const char *folder, *model;
    int types;
} Probe;

static int side_of(const Probe *p, int type) { return p->all->virtual ? VIRTUAL_SIDE : TYPE[type].side; }
static const char *program_of(const Probe *p, int type) { return format("%s/%s", p->folder, TYPE[type].type); }

static const char *architectures_of(const Probe *p)
{
    Text t = {0};
    for (int d = 0; d < p->all->count && !p->all->virtual; d++) {
        const char *arch = format("%ssm_%d%d", d ? "," : "", p->all->gpus[d].gpu->major, p->all->gpus[d].gpu->minor);
        if (!strstr(text_of(&t), arch + (d > 0)))
            text_add(&t, "%s", arch);
    }
    return p->all->virtual ? "vgpu" : text_take(&t);
}

static Arguments compile_of(const Probe *p, int type)
{
    Arguments a = {0};
    const char *side = format("%d", side_of(p, type));
    const char *words[] = {"/proc/self/exe",
                           p->model,
                           "--devices=cuda:1",
                           "--machine=default",
                           format("--arch=%s", architectures_of(p)),
                           format("--set=precision=%s", TYPE[type].type),
                           format("--set=side=%s", side),
                           format("--set=batch=%s", side),
                           "-o",
                           program_of(p, type)};
    for (int i = 0; i < COUNT(words); i++)
        add_argument(&a, words[i]);
    return a;
}

/* Returns the time of the longest operation of the dense layer whose name contains the word. */
static double longest_us(const Json *operations, const char *word)
{
    double us = 0;
    for (const Json *o = operations->first; o; o = o->next) {
        const Json *name = mgpu_json_member(o, "operation"), *its = mgpu_json_member(o, "us");
        if (name && its && name->kind == JSON_TEXT && strstr(name->text, "dense") && strstr(name->text, word) && its->number > us)
            us = its->number;
    }
    return us;
}

static void run(const Probe *p, int type, int gpu, Measurements *m)
{
    Arguments a = {0};
    Text said = {0};
    const char *file = format("%s/%s.json", p->folder, TYPE[type].type), *error;
    const char *words[] = {program_of(p, type), "bench", "--devices", format("cuda:%dx1", gpu),
                           "--steps",           "10",    "--measure", file};
    for (int i = 0; i < COUNT(words); i++)
        add_argument(&a, words[i]);
    temporary_add(file);
    int status = run_tool(&a, &said);
    size_t length;
    const char *text = status == 0 ? read_file(file, &length) : NULL;
    const Json *found = text ? mgpu_json_read(text, length, &error) : NULL,
               *operations = found && found->kind == JSON_OBJECT ? mgpu_json_member(found, "operations") : NULL;
    while (said.length && said.data[said.length - 1] == '\n')
        said.data[--said.length] = 0;
    if (!operations || operations->kind != JSON_LIST)
        fail(3, "mgpuc probe: a program that measures matmuls of %s ended with status %d: %s", TYPE[type].type, status,
             text_of(&said));
    double side = side_of(p, type), each = 2e6 * side * side * side;
    static const char *const WORD[] = {".forward", ".backward"};
    for (int w = 0; w < COUNT(WORD); w++)
        if (longest_us(operations, WORD[w]) > 0)
            add_measurement(m, each / longest_us(operations, WORD[w]));
}

void probe_matmuls(Text *t, const ProbedGpus *all)
{
    Probe p = {all, temporary_folder(), NULL, all->virtual ? 1 : TYPES};
    p.model = format("%s/probe.net", p.folder);
    Text model = {0};
    text_add(&model, "%s", MODEL);
    temporary_add(p.model);
    write_text(p.model, &model);
    Arguments commands[TYPES];
    for (int k = 0; k < p.types; k++) {
        commands[k] = compile_of(&p, k);
        temporary_add(program_of(&p, k));
    }
    if (run_tools(commands, p.types, cores_available()) >= 0)
        fail(3, "mgpuc probe: a program that measures matmuls does not compile");
    for (int first = 0, next; first < all->count; first = next) {
        next = next_name(all, first);
        for (int k = 0; k < p.types; k++) {
            Measurements m = {0};
            run(&p, k, first, &m);
            write_measured(t, format("matmul %s %s", gpus_text(first, next), TYPE[k].type), &m, CHOOSE_MEDIAN, 1e12, "TFLOP/s",
                           all->virtual ? "emulation" : NULL);
        }
    }
}
