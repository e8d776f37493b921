/* command.c: mgpuc's command line. One table describes every option; --help, the parser and suggestions use it. */
#include "compiler/driver/command.h"
#include "compiler/driver/passes.h"
#include "compiler/kernel/target.h"
#include "compiler/ir/program.h"
#include "compiler/kernel/phase.h"
#include "compiler/link/link.h"
#include "compiler/machine/machine.h"
#include "compiler/probe/probe.h"
#include "compiler/passes/stages.h"
#include "compiler/plan/plan.h"
#include "compiler/plan/policy.h"
#include "compiler/plan/schedule.h"
#include "compiler/verify/proof.h"
#include "runtime/base/whole_file.h"
#include "runtime/abi/mgpu.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* clang-format off */
enum { COMPILING = 1 << COMMAND_COMPILE, CHECKING = 1 << COMMAND_CHECK, PLANNING = 1 << COMMAND_PLAN,
       BENCHING = 1 << COMMAND_BENCH, SHOWING = 1 << COMMAND_SCHEDULE, REPORTING = 1 << COMMAND_REPORT,
       ALL = COMPILING | CHECKING | PLANNING | BENCHING | SHOWING | REPORTING };
/* clang-format on */
typedef enum OptionKind {
    FLAG,
    VALUE,
    STAGE,
    GRAPH_STAGE /* help lists the values */,
    REPEATED,
    LINT /* -Wno-NAME; likewise */,
    PLAN /* likewise */
} OptionKind;
static const struct OptionRow {
    const char *name, *letter; /* long and short spelling */
    OptionKind kind;
    size_t at; /* offset in Options */
    const char *argument, *help;
    unsigned commands; /* bits 1 << command: commands that accept it */
} OPTIONS[] = {
    {"--output", "-o", VALUE, offsetof(Options, output), "FILE",
     "the program to write (default: the model's file name without .net); of\n                       report: the HTML file (default: report.html)",
     COMPILING | REPORTING},
    {"--devices", NULL, VALUE, offsetof(Options, devices), "LIST",
     "device counts to plan for: 4   1,2,4   1-8   host:3   cuda:4   cuda:0x4\n"
     "                       (4 logical devices on GPU 0, where the program then runs\n"
     "                       unless told otherwise); of a machine with nodes 4x8 (4 nodes\n"
     "                       with 8 each); default: all GPUs of one, or one host device if\n"
     "                       there are none",
     ALL},
    {"--machine", NULL, VALUE, offsetof(Options, machine), "NAME",
     "plan for this machine: a name of 'mgpuc machines', a file,\n"
     "                       here (this one, measured), or default (host2, for GPUs\n"
     "                       h100x8); without it --emit and check take default, all\n"
     "                       else takes here for host devices",
     ALL},
    {"--arch", NULL, VALUE, offsetof(Options, arch), "LIST",
     "GPU architectures to make kernels for: sm_80,sm_90;\n"
     "                       compute_80: PTX alone; vgpu, vgpu-check: the virtual GPU\n"
     "                       (default: those of the GPUs found here, else sm_80,sm_90)",
     ALL},
    {"--set", NULL, REPEATED, 0, "KEY=VALUE",
     "change a param, or a setting of train: --set width=128 --set optimizer.momentum=0.8", ALL},
    {"--mpi", NULL, FLAG, offsetof(Options, mpi), NULL,
     "link with the MPI whose mpicc is found, or that MPICC names: several\n"
     "                       processes of mpirun share the devices (docs/cluster.md)",
     COMPILING},
    {"--shared", NULL, FLAG, offsetof(Options, shared), NULL,
     "write a library that predicts, libNAME.so, with NAME.h and NAME.pc\n"
     "                       beside it, for programs in C and other languages (docs/library.md)",
     COMPILING},
    {"--tune", NULL, FLAG, offsetof(Options, tune), NULL,
     "GPUs: contractions in several tiles, of which the program's --tune takes\n"
     "                       the fastest; compiling takes longer",
     COMPILING},
    {NULL, "-S", FLAG, offsetof(Options, keep), NULL, "keep the emitted files: OUT.c, OUT.kernels.c (or .cu), OUT.sched",
     COMPILING},
    {NULL, "-v", FLAG, offsetof(Options, verbose), NULL, "print the time of each stage", ALL},
    {"--emit", NULL, STAGE, offsetof(Options, emit), "STAGE", "print a stage's result and stop:", COMPILING},
    {"--model", NULL, VALUE, offsetof(Options, model), "NAME", "the model to compile, if the file has several", ALL},
    {"--from", NULL, GRAPH_STAGE, offsetof(Options, from), "STAGE",
     "FILE is a dump of this stage's graphs: go on from there:", COMPILING},
    {"--json", NULL, FLAG, offsetof(Options, json), NULL, "check, plan, bench: as JSON; of check with all errors and warnings",
     CHECKING | PLANNING | BENCHING},
    {"--init", NULL, REPEATED, offsetof(Options, inits), "FILE",
     "check: which tensors of FILE the weights would begin with, and how; status 1 if\n"
     "                       some are not there. PART=FILE: those of a part",
     CHECKING},
    {"--rules", NULL, VALUE, offsetof(Options, rules), "RULES",
     "check: how names and shapes of FILE become the model's: a name of the library\n"
     "                       (gpt2, llama, ...), a file, or the rules; none (docs/language.md)",
     CHECKING},
    {"--batch", NULL, VALUE, offsetof(Options, batches), "LIST", "plan, bench: batches: 32,64 (default: the model's)",
     PLANNING | BENCHING | REPORTING},
    {"--weak", NULL, FLAG, offsetof(Options, weak), NULL,
     "plan, bench: each device has this batch; --strong: all devices together (default)", PLANNING | BENCHING | REPORTING},
    {"--strong", NULL, FLAG, offsetof(Options, strong), NULL, "plan, bench: beside --weak, to have both",
     PLANNING | BENCHING | REPORTING},
    {"--fit", NULL, FLAG, offsetof(Options, fit), NULL,
     "plan: the largest batch that fits on so many devices, and how fast it is", PLANNING},
    {"--compare", NULL, FLAG, offsetof(Options, compare), NULL, "plan: the plans of --plan side by side, on as many devices",
     PLANNING},
    {"--steps", NULL, VALUE, offsetof(Options, steps), "N", "bench: steps of a run that are timed (20)", BENCHING},
    {"--epochs", NULL, VALUE, offsetof(Options, epochs), "N", "bench: train so long, too, and print the --metric", BENCHING},
    {"--metric", NULL, VALUE, offsetof(Options, metric), "NAME", "bench: of the last validation, else of training (loss)",
     BENCHING},
    {"--data", NULL, VALUE, offsetof(Options, data), "DIR", "bench: folder of the data that --epochs trains on (.)", BENCHING},
    {"--csv", NULL, FLAG, offsetof(Options, csv), NULL, "bench: the table as CSV", BENCHING},
    {"--svg", NULL, VALUE, offsetof(Options, svg), "FILE", "bench: also write the curves, measured and predicted, as SVG",
     BENCHING},
    {"--measured", NULL, VALUE, offsetof(Options, measured), "FILE",
     "plan with the times in a file that './train bench' measured; of plan\n"
     "                       also 219/s: samples a second that one device was measured to train",
     ALL},
    {"--page", NULL, FLAG, offsetof(Options, page), NULL,
     "schedule: step time, lanes, links, memory, longest operations; also into a pipe", SHOWING},
    {"--full", NULL, FLAG, offsetof(Options, full), NULL, "schedule: the file, also on a terminal", SHOWING},
    {"--timeline", NULL, FLAG, offsetof(Options, timeline), NULL, "schedule: the lanes of a step as bars", SHOWING},
    {"--op", NULL, VALUE, offsetof(Options, op), "NAME", "schedule: an operation, what it waits for, who waits for it, and why",
     SHOWING},
    {"--layer", NULL, VALUE, offsetof(Options, layer), "PATH", "schedule: all that a part of the model costs: layer3.2", SHOWING},
    {"--at", NULL, VALUE, offsetof(Options, at), "TIME",
     "schedule: what each lane does then, and what an idle one waits for: 3ms", SHOWING},
    {"--phase", NULL, VALUE, offsetof(Options, phase), "NAME", "schedule: of this phase (train.full)", SHOWING},
    {"--device", NULL, VALUE, offsetof(Options, device), "N", "schedule: of this device (0; --timeline: all)", SHOWING},
    {NULL, "-Wno-NAME", LINT, 0, NULL, "no warnings of this kind (docs/warnings.md):", ALL},
    {"--no-fuse", NULL, FLAG, offsetof(Options, no_fuse), NULL, "make a kernel for each operation (slow; the reference of tests)",
     ALL},
    {"--no-reuse", NULL, FLAG, offsetof(Options, no_reuse), NULL, "no two tensors share memory (large; the reference of tests)",
     ALL},
    {"--bodies", NULL, FLAG, offsetof(Options, exact_bodies), NULL,
     "compile library layers from their text, not from built-in forms (the reference of tests)", ALL},
    {"--memory", NULL, VALUE, offsetof(Options, memory), "SIZE",
     "80GiB: more on a device (host devices: all together) is an error", ALL},
    {"--split", NULL, VALUE, offsetof(Options, split), "LIST",
     "proportions of the devices' shares of a batch: 10,10,3 (default: even, or\n"
     "                       by predicted times, where the devices of --machine differ)",
     ALL},
    {"--plan", NULL, PLAN, offsetof(Options, plan), "NAME",
     "how devices share the work; NAME,input=slice changes a policy\n"
     "                       of it (docs/planning.md). The plans:",
     ALL},
    {"--shard", NULL, VALUE, offsetof(Options, sharding), "WHAT",
     "what devices hold in parts: optimizer (its states), gradients (these,\n"
     "                       too), weights (all three, gathered where they are read);\n"
     "                       default: none",
     ALL},
    {"--schedule", NULL, VALUE, offsetof(Options, edited), "FILE",
     "run what this schedule says, if it can be proved: one that --emit schedule or\n"
     "                       ./PROGRAM schedule printed and you have changed (docs/schedule.md)",
     COMPILING},
    {"--bucket", NULL, VALUE, offsetof(Options, bucket), "BYTES", "size of a gradient bucket: 25MB (default: by cost)", ALL},
};

/* Prints an option's help, and the stages or warnings that it may name in as many lines as necessary. */
static void print_option_help(const struct OptionRow *o)
{
    enum { INDENT = 23, WIDTH = 92 };
    Text names = {0};
    const char *line = strrchr(o->help, '\n');
    int at = line ? (int)strlen(line + 1) : INDENT + (int)strlen(o->help);
    fputs(o->help, stdout);
    if (o->kind == STAGE || o->kind == GRAPH_STAGE)
        stages_print(o->kind == GRAPH_STAGE, &names);
    for (int i = 0; o->kind == LINT && i < LINT_COUNT; i++)
        text_add(&names, "%s%s", i ? " " : "", lint_name((Lint)i));
    for (const Policy *p = PRESETS; o->kind == PLAN && p->name; p++)
        text_add(&names, "%s%s", p == PRESETS ? "" : " ", p->split ? "weights=10,10,3" : p->name);
    for (const char *word = text_of(&names); *word;) {
        int length = (int)strcspn(word, " ");
        bool fits = at + 1 + length <= WIDTH;
        printf("%s%.*s", fits ? " " : "\n                       ", length, word);
        at = (fits ? at + 1 : INDENT) + length;
        word += length + (word[length] == ' ');
    }
    putchar('\n');
}

/* The commands that print_help lists. Those that share this command line have options here; others handle --help themselves. */
static const struct CommandRow {
    const char *name;
    int command;
    const char *usage, *help;
} COMMANDS[] = {
    {"check", COMMAND_CHECK, "check MODEL.net",
     "check only: layers, shapes, parameters, FLOPs, bytes per device; -: standard input"},
    {"plan", COMMAND_PLAN, "plan MODEL.net", "predict how fast it trains on which devices, and why"},
    {"bench", COMMAND_BENCH, "bench MODEL.net", "measure that here: compile, run, and compare with what was predicted"},
    {"schedule", COMMAND_SCHEDULE, "schedule FILE",
     "what a schedule (FILE.sched), or that of a model or program, does: step time, lanes, memory, ..."},
    {"diff", -1, "diff A.sched B.sched", "what another schedule changes, in words and numbers"},
    {"verify", COMMAND_VERIFY, "verify FILE", "prove a schedule, or those of a program, free of races and deadlocks"},
    {"fmt", -1, "fmt FILE.net ...", "rewrite models in the standard layout; fmt --check, fmt -, fmt --help"},
    {"devices", -1, "devices", "the GPUs of this machine, and its cores"},
    {"machines", -1, "machines [NAME]", "the machines that --machine knows by name"},
    {"probe", -1, "probe [-o FILE]", "measure this machine and its GPUs, for --machine FILE"},
    {"selftest", -1, "selftest", "does the C compiler (CC) make right code of kernels here? selftest --help"},
    {"report", COMMAND_REPORT, "report [MODEL.net] [RUN.jsonl ...] [TRACE.json] -o REPORT.html",
     "one page: plan, timelines, memory, kernels, layers, curves of runs"},
    {"import", -1, "import MODEL.onnx", "a network of ONNX as readable text, and its weights; import --help"},
    {"compare", -1, "compare A B",
     "whether two runs, as logs or folders of saves, are the same, and where they differ; compare --help"},
    {"plot", -1, "plot RUN.jsonl ...", "curves of runs that ./PROGRAM --log wrote, over each other; plot --help"},
    {"doc", -1, "doc [NAME] [FILE.net]", "what a layer, primitive, reader, setting or word means; doc --help"},
    {"lsp", -1, "lsp", "a language server for editors (docs/editors.md); lsp --help"},
};

static void print_usage(const struct CommandRow *c)
{
    enum { COLUMN = 22 };
    bool fits = strlen(c->usage) <= COLUMN;
    printf("  mgpuc %-*s%s%s\n", COLUMN, c->usage, fits ? " " : "\n                               ", c->help);
}

static void print_options(unsigned commands)
{
    puts("\nOptions");
    for (int i = 0; i < COUNT(OPTIONS); i++) {
        const struct OptionRow *o = &OPTIONS[i];
        const char *spelling = format("%s%s%s%s%s", o->letter ? o->letter : "", o->letter && o->name ? ", " : "",
                                      o->name ? o->name : "", o->argument ? " " : "", o->argument ? o->argument : "");
        if (!(o->commands & commands))
            continue;
        printf("  %-20s ", spelling);
        print_option_help(o);
    }
}

static void print_command_help(const struct CommandRow *c)
{
    print_usage(c);
    print_options(1u << c->command);
    puts("  -h, --help           this text; mgpuc --help has all commands, the environment and exit statuses");
}

static void print_help(void)
{
    puts("mgpuc: compiles a network into a program that trains it\n"
         "\n"
         "  mgpuc MODEL.net -o PROGRAM   compile; then ./PROGRAM --help");
    for (int i = 0; i < COUNT(COMMANDS); i++)
        print_usage(&COMMANDS[i]);
    print_options(ALL);
    puts(
        "  -h, --help           this text\n"
        "  --version            the version\n"
        "\n"
        "Environment: CC, the C compiler to run (default cc); CXX, the C++ compiler for --arch vgpu (default c++);\n"
        "MGPU_NVRTC, the file of NVRTC, which compiles kernels for GPUs (default: the first that is not too new for the\n"
        "driver, from CUDA_HOME, wheels in VIRTUAL_ENV or CONDA_PREFIX, the system, python3's wheels); MGPU_HOME,\n"
        "the folder that holds the runtime library and its headers (default: ../lib/mgpuc beside mgpuc).\n"
        "Compiled objects are kept in MGPUC_CACHE (default $XDG_CACHE_HOME/mgpuc, else ~/.cache/mgpuc;\n"
        "off: nowhere), at most MGPUC_CACHE_SIZE bytes (default 1GiB; 500MB, 2G and the like are understood); -v says what was found.\n"
        "A folder that others may write is not used. MGPUC_MACHINE, what --machine is where it is not given.\n"
        "MGPUC_PYTHON, the Python that imports (default: python3 beside mgpuc, else on the path).\n"
        "MGPUC_SELFTEST=off: no test of a C compiler before its first use.\n"
        "MGPUC_PATIENCE, the seconds after which stderr says which stage takes so long (default 2; 0: it never does).\n"
        "MGPUC_LOAD, the percentage of the cores that other programs take while this machine is measured (default: it is found "
        "out).\n"
        "Exit status: 0 done; 1 the model is wrong; 2 usage; 3 the machine failed (no compiler, disk, memory).\n"
        "The language: docs/language.md. First steps: README.md.");
}

static const char LINT_PREFIX[] = "-Wno-";

static bool names_lint(const char *word) { return strncmp(word, LINT_PREFIX, strlen(LINT_PREFIX)) == 0; }

static const struct OptionRow *find_option(const char *word, size_t length)
{
    for (int i = 0; i < COUNT(OPTIONS); i++)
        if (OPTIONS[i].kind == LINT && names_lint(word))
            return &OPTIONS[i];
    for (int i = 0; i < COUNT(OPTIONS); i++) {
        const char *spellings[] = {OPTIONS[i].name, OPTIONS[i].letter};
        for (int k = 0; k < 2; k++)
            if (spellings[k] && strlen(spellings[k]) == length && strncmp(spellings[k], word, length) == 0)
                return &OPTIONS[i];
    }
    const char *names[COUNT(OPTIONS)];
    int count = 0;
    for (int i = 0; i < COUNT(OPTIONS); i++)
        if (OPTIONS[i].name)
            names[count++] = OPTIONS[i].name;
    const char *given = copy_text(word, length);
    fail(2, "unknown option %s%s; see mgpuc --help", given, did_you_mean(given, names, count));
}

static void add_setting(Options *o, const char *text)
{
    const char *equals = strchr(text, '=');
    if (!equals || equals == text || !equals[1])
        fail(2, "--set %s: write --set KEY=VALUE", text);
    int count = o->set_count;
    APPEND(o->set_keys, o->set_count, copy_text(text, (size_t)(equals - text)));
    APPEND(o->set_values, count, copy_text(equals + 1, strlen(equals + 1)));
}

/* The first of two positional arguments is a command: `mgpuc chek model.net`. */
static _Noreturn void two_words(const char *first, const char *second)
{
    const char *names[COUNT(COMMANDS)];
    for (int i = 0; i < COUNT(COMMANDS); i++)
        names[i] = COMMANDS[i].name;
    if (!strpbrk(first, "./"))
        fail(2, "there is no command '%s'%s; see mgpuc --help", first, did_you_mean(first, names, COUNT(COMMANDS)));
    if (!strpbrk(second, "./"))
        fail(2, "what is '%s'? A command comes first: mgpuc check %s", second, first);
    fail(2, "one model at a time: %s and %s were given", first, second);
}

static const char *default_output(const char *file)
{
    const char *slash = strrchr(file, '/'), *base = slash ? slash + 1 : file;
    size_t length = strlen(base);
    static const char *const SUFFIXES[] = {".net", ".graph"};
    for (int i = 0; i < COUNT(SUFFIXES); i++) {
        size_t suffix = strlen(SUFFIXES[i]);
        if (length > suffix && strcmp(base + length - suffix, SUFFIXES[i]) == 0)
            return copy_text(base, length - suffix);
    }
    return format("%s.out", base);
}

/* Checked before a model is compiled, which may take long. */
static void check_output(const char *option, const char *path)
{
    struct stat status;
    if (stat(path, &status) == 0 && S_ISDIR(status.st_mode))
        fail(2, "%s %s: this is a folder; name a file in it", option, path);
    const char *slash = strrchr(path, '/'), *folder = !slash          ? "."
                                                      : slash == path ? "/"
                                                                      : copy_text(path, (size_t)(slash - path));
    if (access(folder, F_OK))
        fail(2, "%s %s: there is no folder %s", option, path, folder);
    if (access(folder, W_OK))
        fail(3, "%s cannot be written: %s", path, strerror(errno));
}

void check_apart(const char *output, const char *input)
{
    if (mgpu_same_file(output, input))
        fail(2, "-o %s: %s is read; name another file", output, input);
}

void check_sources(const Model *m, const Options *o)
{
    static const char *const SUFFIXES[] = {"", ".c", ".kernels.c", ".kernels.cu", ".sched"}; /* all except the first: of -S */
    for (int i = 0; i < (o->keep ? COUNT(SUFFIXES) : 1); i++) {
        const char *path = format("%s%s", o->output, SUFFIXES[i]);
        for (int k = 0; k < m->file_count + (o->edited != NULL); k++) {
            const char *source = k < m->file_count ? m->files[k] : o->edited;
            if (mgpu_same_file(path, source))
                fail(2, "-o %s: %s is a source of the program%s; name another file", o->output, source,
                     i ? ", and -S would write there" : "");
        }
    }
}

void compile_words(const Options *o, const char ***words, int *count)
{
    for (int i = 0; i < COUNT(OPTIONS); i++) {
        const struct OptionRow *row = &OPTIONS[i];
        if (!(row->commands & COMPILING) || !(row->commands & BENCHING) || row->at == offsetof(Options, devices))
            continue;
        const char *name = row->name ? row->name : row->letter;
        if (row->kind == FLAG) {
            if (*(const bool *)((const char *)o + row->at))
                APPEND(*words, *count, name);
        } else if (row->kind == VALUE || row->kind == PLAN) {
            const char *value = *(const char *const *)((const char *)o + row->at);
            if (value)
                APPEND(*words, *count, format("%s=%s", name, value));
        } else if (row->kind == REPEATED) {
            for (int k = 0; k < o->set_count; k++)
                APPEND(*words, *count, format("%s=%s=%s", name, o->set_keys[k], o->set_values[k]));
        } else if (row->kind == LINT) {
            for (int k = 0; k < LINT_COUNT; k++)
                if (o->silenced >> k & 1)
                    APPEND(*words, *count, format("%s%s", LINT_PREFIX, lint_name((Lint)k)));
        }
    }
}

/* given: a bit for each row of OPTIONS */
static void check_options(const Options *o, uint64_t given)
{
    static const char *const NAMES[] = {
        [COMMAND_COMPILE] = "mgpuc MODEL.net", [COMMAND_CHECK] = "mgpuc check", [COMMAND_VERIFY] = "mgpuc verify",
        [COMMAND_PLAN] = "mgpuc plan",         [COMMAND_BENCH] = "mgpuc bench", [COMMAND_SCHEDULE] = "mgpuc schedule",
        [COMMAND_REPORT] = "mgpuc report"};
    for (int i = 0; i < COUNT(OPTIONS); i++)
        if (given >> i & 1 && !(OPTIONS[i].commands >> o->command & 1))
            fail(2, "%s means nothing to %s; %s", OPTIONS[i].name ? OPTIONS[i].name : OPTIONS[i].letter, NAMES[o->command],
                 OPTIONS[i].at == offsetof(Options, batches) ? "--set batch=64 changes the model's" : "see mgpuc --help");
    if (o->json && (o->init_count || o->rules))
        fail(2, "--json means nothing with --init, of which a table is printed; leave one of them out");
    if (o->fit && (o->batches || o->weak || o->strong || o->compare))
        fail(2, "--fit finds the batches: it goes without %s",
             o->batches  ? "--batch"
             : o->weak   ? "--weak"
             : o->strong ? "--strong"
                         : "--compare");
    if (o->from && (o->set_count || o->model))
        fail(2, "%s means nothing with --from: what it chooses was settled when the graphs were printed; give it there",
             o->model ? "--model" : "--set");
}

/* Parses 80GiB; a unit is required. */
static double read_memory(const char *text)
{
    double bytes = isalpha((unsigned char)(*text ? text[strlen(text) - 1] : 0)) ? bytes_in_text(text) : -1;
    if (bytes <= 0)
        fail(2, "--memory %s: a size with its unit is expected, as in 80GiB or 500MB", text);
    return bytes;
}

/* Parses 25MB, or a number of bytes. */
static int64_t read_bucket(const char *text)
{
    double bytes = bytes_in_text(text);
    if (bytes < 1)
        fail(2, "--bucket %s: a positive number of bytes is expected, or a size such as 25MB", text);
    return (int64_t)bytes;
}

/* Maps the name that others use to ours; NULL if it is none. */
static const char *known_as(const char *word)
{
    static const char *const NAMES[][2] = {{"zero", "optimizer"}, {"zero1", "optimizer"}, {"zero2", "gradients"},
                                           {"zero3", "weights"},  {"fsdp", "weights"},    {"fsdp1", "weights"},
                                           {"fsdp2", "weights"}};
    for (int i = 0; i < COUNT(NAMES); i++)
        if (strcasecmp(word, NAMES[i][0]) == 0)
            return NAMES[i][1];
    return NULL;
}

static Sharding read_sharding(const char *word)
{
    static const char *const WORDS[SHARDINGS] = {
        [SHARD_NOTHING] = "none", [SHARD_OPTIMIZER] = "optimizer", [SHARD_GRADIENTS] = "gradients", [SHARD_WEIGHTS] = "weights"};
    for (int i = 0; i < SHARDINGS; i++)
        if (strcmp(word, WORDS[i]) == 0)
            return (Sharding)i;
    const char *known = known_as(word);
    fail(2, "--shard %s: none, optimizer, gradients or weights is expected%s", word,
         known ? format("; %s is --shard %s here", word, known) : did_you_mean(word, WORDS, SHARDINGS));
}

static void read_weights(Options *o)
{
    double *weights = NULL;
    for (const char *at = o->split;;) {
        char *end;
        double w = strtod(at, &end);
        if (end == at || !(w > 0) || w > 1e9 || (*end && *end != ','))
            fail(2, "--split %s: a list of positive numbers is expected, one for each device, as in 10,10,3", o->split);
        APPEND(weights, o->weight_count, w);
        if (!*end)
            break;
        at = end + 1;
    }
    o->weights = weights;
}

static void check_weights(const Options *o, const Plan *plans, int count)
{
    for (int i = 0; i < count; i++)
        if (plans[i].devices > o->weight_count)
            fail(
                2,
                "--split %s has %d number%s, and --devices asks for a plan for %d devices; give one for each (plans for fewer devices take the first)",
                o->split, o->weight_count, o->weight_count == 1 ? "" : "s", plans[i].devices);
}

/* A compile makes one program, whose run chooses a plan by the number of devices. */
static void check_plans(const Options *o, const Plan *plans, int count)
{
    for (int i = 0; i < count; i++) {
        if (plans[i].devices > MOST_DEVICES)
            fail(2, "--devices %s: a program is for at most %d devices, all nodes together; mgpuc plan simulates more",
                 o->devices, MOST_DEVICES);
        if (i > 0 && plans[i].devices == plans[i - 1].devices)
            fail(2, "--devices %s: two plans are for %d devices; a program has one, so compile twice", o->devices,
                 plans[i].devices);
    }
}

/* Checks that a plan for several nodes can all-reduce gradients there. */
static void check_policy(const Options *o, const Plan *plans, int count)
{
    for (int i = 0; i < count; i++)
        if (plans[i].nodes > 1 && !policy_spans_nodes(o->policy))
            fail(
                2,
                "--plan %s: its variables or its sums are in the memory of one node, and --devices %s has several; plans whose variables are replicated and whose "
                "reduce is auto or nccl go over nodes",
                o->plan, o->devices);
}

/* Parses "219/s"; returns 0 if it names a file. */
static double measured_rate(const Options *o)
{
    const char *text = o->measured;
    size_t length = text ? strlen(text) : 0;
    if (length < 2 || strcmp(text + length - 2, "/s") != 0)
        return 0;
    char *end;
    double v = strtod(text, &end);
    if (end == text || strcmp(end, "/s") != 0 || !(v > 0 && v < 1e15))
        fail(
            2,
            "--measured %s: samples a second that one device trains are expected, as in --measured 219/s, or a file of './train bench --measure'",
            text);
    if (o->command != COMMAND_PLAN)
        fail(2, "--measured %s: a rate is for mgpuc plan; here a file of './train bench --measure FILE' is expected", text);
    return v;
}

/* Sets o->planned and o->here by --machine or MGPUC_MACHINE: "here" is this machine, "default" the one that gives the same output
 * everywhere. If neither is given, `plan` uses this machine, or the default for GPUs. Returns false if none is named. */
static bool choose_machine(Options *o)
{
    const char *given = getenv("MGPUC_MACHINE"), *name = o->machine ? o->machine : given && *given ? given : NULL;
    bool plans = o->command == COMMAND_PLAN || o->command == COMMAND_REPORT;
    bool cuda = o->devices && strncmp(o->devices, "cuda", strlen("cuda")) == 0, fixed = name && strcmp(name, "default") == 0;
    bool here = name ? strcmp(name, "here") == 0 : plans && !cuda;
    o->machine = fixed ? NULL : name;
    if (here)
        o->here = machine_here(host_memory(), name);
    else if (!name && plans && cuda)
        o->here = machine_here_with_gpus(host_memory());
    o->planned = o->here ? o->here : o->machine ? machine_named(o->machine) : NULL;
    if (!o->planned && plans)
        o->planned = machine_default(cuda ? PROCESSOR_CUDA : PROCESSOR_HOST);
    return name;
}

/* GPUs of several processes transfer by NCCL, on one lane (runtime/cuda/collective.c), so policies chosen by cost become that. */
static void choose_library(Policy *p, const char *plan)
{
    bool other = p->reduce != REDUCE_BY_COST && p->reduce != REDUCE_NCCL;
    if (other || p->variables != VARIABLES_REPLICATED || p->waited == WAITED_SYNC)
        fail(
            2,
            "--mpi: the GPUs of several processes transfer by NCCL, on the lane comm, and have all variables; --plan %s is another: leave it or --mpi out",
            plan);
    p->reduce = REDUCE_NCCL;
    p->waited = WAITED_COMM;
}

Options parse_command(int argc, char **argv)
{
    Options o = {0};
    const struct CommandRow *named = NULL;
    uint64_t given = 0;
    for (int i = 1; i < argc; i++) {
        const char *word = argv[i];
        if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0) {
            if (named)
                print_command_help(named);
            else
                print_help();
            end_output();
            exit(0);
        }
        if (strcmp(word, "--version") == 0) {
            puts("mgpuc " MGPU_VERSION);
            end_output();
            exit(0);
        }
        if (word[0] != '-' || !word[1]) {
            const struct CommandRow *command = NULL;
            for (int k = 0; k < COUNT(COMMANDS) && !named && !o.file; k++)
                if (COMMANDS[k].command >= 0 && strcmp(COMMANDS[k].name, word) == 0)
                    command = &COMMANDS[k];
            if (command) {
                o.command = (Command)command->command;
                named = command;
            } else if (o.file && o.command == COMMAND_REPORT) {
                APPEND(o.more, o.more_count, word);
            } else if (o.file) {
                two_words(o.file, word);
            } else {
                o.file = word;
            }
            continue;
        }
        const char *equals = word[1] == '-' ? strchr(word, '=') : NULL;
        size_t length = equals ? (size_t)(equals - word) : strlen(word);
        const struct OptionRow *row = find_option(word, length);
        given |= (uint64_t)1 << (row - OPTIONS);
        if (row->kind == LINT) {
            lint_silence(&o.silenced, word + strlen(LINT_PREFIX));
            continue;
        }
        if (row->kind == FLAG) {
            if (equals)
                fail(2, "%s takes no value", row->name ? row->name : row->letter);
            *(bool *)((char *)&o + row->at) = true;
            continue;
        }
        const char *value = equals ? equals + 1 : i + 1 < argc ? argv[++i] : NULL;
        if (!value)
            fail(2, "%s needs a value: %s %s", word, word, row->argument);
        if (row->kind == REPEATED && row->at == offsetof(Options, inits))
            APPEND(o.inits, o.init_count, value);
        else if (row->kind == REPEATED)
            add_setting(&o, value);
        else
            *(const char **)((char *)&o + row->at) = value;
    }
    if (!o.file) {
        if (argc == 1) {
            print_help();
            exit(2);
        }
        fail(2, "no model was given: mgpuc MODEL.net -o PROGRAM");
    }
    check_options(&o, given);
    if (o.edited && !o.devices)
        o.devices = edited_devices(o.edited);
    Text line = {0};
    text_add(&line, "mgpuc");
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "-S") != 0 && strcmp(argv[i], "-v") != 0)
            text_add(&line, " %s", argv[i]);
    o.command_line = text_of(&line);
    o.measured_rate = measured_rate(&o);
    if (o.bucket)
        o.bucket_bytes = read_bucket(o.bucket);
    Policy *policy = NEW(Policy);
    *policy = o.plan ? policy_read(o.plan, &o.split) : PRESETS[0];
    o.policy = policy;
    if (o.split)
        read_weights(&o);
    if (o.sharding)
        o.shard = read_sharding(o.sharding);
    if (o.shard != SHARD_NOTHING && !policy_shards(policy))
        fail(
            2,
            "--shard %s is for plans whose variables are replicated, whose order is synchronous and whose gradients are exact or bf16; --plan %s is another",
            o.sharding, o.plan);
    if (o.memory)
        o.memory_bytes = read_memory(o.memory);
    if (!o.output)
        o.output = o.command == COMMAND_REPORT ? "report.html"
                   : o.shared                  ? format("lib%s.so", default_output(o.file))
                                               : default_output(o.file);
    if (o.shared) {
        check_library_name(o.output);
        o.silenced = ~(LintSet)0; /* warnings are about training */
    }
    if (o.command == COMMAND_REPORT || (o.command == COMMAND_COMPILE && !o.emit))
        check_output("-o", o.output);
    if (o.svg)
        check_output("--svg", o.svg);
    o.cc = getenv("CC");
    if (!o.cc || !*o.cc)
        o.cc = "cc";
    o.cxx = getenv("CXX");
    if (!o.cxx || !*o.cxx)
        o.cxx = "c++";
    Plan *plans; /* errors in them are reported before anything is compiled */
    int count;
    bool fixed = choose_machine(&o);
    const Target *target = parse_devices(o.devices, o.planned, &plans, &count);
    if (o.command != COMMAND_PLAN && o.command != COMMAND_VERIFY)
        check_plans(&o, plans, count);
    check_policy(&o, plans, count);
    if (!fixed && !o.here && (o.command == COMMAND_BENCH || (o.command == COMMAND_COMPILE && !o.emit)))
        o.here = target->own_memory ? machine_here_with_gpus(host_memory()) : machine_here(host_memory(), false);
    if (o.split)
        check_weights(&o, plans, count);
    if (o.shared && o.mpi)
        fail(2, "--shared is for a library in one process; leave --mpi out");
    if (o.mpi && target->images)
        choose_library(policy, o.plan);
    if (o.arch && !target->images)
        fail(2, "--arch %s is for GPUs, and the program would be for host devices; add --devices cuda:1", o.arch);
    if (target->images)
        o.arch = check_architectures(
            o.arch      ? o.arch
            : o.planned ? planned_architectures(o.planned, (o.command != COMMAND_COMPILE && o.command != COMMAND_BENCH) || o.emit)
                        : NULL);
    return o;
}
