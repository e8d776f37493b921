/* help.c: `--help` and `info`. */
#include "runtime/base/base.h"
#include "runtime/base/options.h"
#include "runtime/base/cores.h"
#include "runtime/base/intervals.h"
#include "runtime/engine/engine.h"
#include "runtime/schedule/schedule.h"
#include "runtime/run/commands.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char USAGE[] =
    "Usage: %1$s [train] [OPTION ...]        train the model on all devices of the plan\n"
    "       %1$s eval [SET ...]              loss and metrics of saved weights on the data sets valid and test\n"
    "       %1$s predict IN ... -o OUT       what the model puts out for new samples: new.csv, *.jpg, a folder, x.npy\n"
    "       %1$s generate TEXT               a text that a model of characters or tokens goes on with\n"
    "       %1$s export KIND PATH            the model with saved weights for other software: onnx FILE, torch FILE.py\n"
    "                                        (with FILE.safetensors), safetensors FILE, hf DIR, gguf FILE; docs/export.md\n"
    "       %1$s bench                       time of a step, on random data\n"
    "       %1$s check-gradients             gradients of the first batch against finite differences; compiled with --set precision=f64\n"
    "                                        --set observe=gradients\n"
    "       %1$s watch RUN.jsonl             follows the log of a run from another terminal\n"
    "       %1$s report RUN ... -o OUT.html  a page of its runs (folders of saves, logs), their timeline and what was predicted\n"
    "       %1$s compare A B                 whether two runs (logs, or folders of saves) are the same; else the first step that\n"
    "                                        differs and what differs there. Status 0: equal, 1: different, 2: neither\n"
    "       %1$s info                        what this program holds: weights, inputs, plans, settings; with --init FILE which\n"
    "                                        tensors of the file would be used, and how (status 1 if some are not there)\n"
    "       %1$s schedule                    what the plan does: a page on a terminal, else every instruction\n";

static const char OPTIONS[] =
    "\n"
    "Training\n"
    "  --data DIR         folder of the data files; default: the current one. A file and its .gz are the same.\n"
    "  --epochs N         passes over the training data, counted from the beginning of the run\n"
    "  --steps N          steps instead of epochs, likewise\n"
    "  --stop-after N     save and end when N steps are done, to go on later with --resume\n"
    "  --stall SECONDS    says what each device is at when nothing has moved for so long; default: 120. 0: never\n"
    "  --devices LIST     which plan: a count (2), a kind (host) or both (host:2); which GPUs: by index (cuda:0,2), UUID\n"
    "                     (cuda:GPU-8932f937) or bus id (cuda:0000:65:00.0); cuda:0x4: four devices on GPU 0. Default: of a\n"
    "                     host one device (else the fewest), of GPUs the most that there is a plan for\n"
    "  --threads N        that compute, all devices together; default: the cores that the process may use, at most\n"
    "                     OMP_NUM_THREADS. The variable MGPU_ONEDNN=off does without oneDNN; or it names its file\n"
    "                     (as MGPU_TURBOJPEG and MGPU_LIBPNG name those of the libraries that decode pictures)\n"
    "  --tune             on GPUs: times the program's kernels and what cuBLASLt and cuDNN offer, and takes the fastest;\n"
    "                     MGPUC_CACHE keeps what was found for the next run with --tune. Last bits may differ from a run without\n"
    "  --seed N           of the initial weights, the order of samples and all random numbers\n"
    "  --set NAME=VALUE   a setting of the train block, such as lr=0.05, validate=500steps, save=30min, keep=3 or patience=5;\n"
    "                     `info` lists them\n"
    "  --init FILE        begin with the weights of a file: safetensors, .pt, .pth or .bin of PyTorch, .npz, .gguf, an index of\n"
    "                     several, or a folder of Hugging Face's that holds one\n"
    "  --init PART=FILE   begin a part of the model, such as backbone, with a file that has the names of its weights, with or\n"
    "                     without the part's in front; may be repeated, and replaces the init of the train block's rule for\n"
    "                     the same pattern. PART=none: the part begins as the model says\n"
    "  --rules RULES      how names and shapes of the files of --init become the model's: gpt2, llama, bert, ... of the library, a file,\n"
    "                     or the rules themselves (\"fc.* = classifier.*\"); default: those of the library that are for such a file;\n"
    "                     none: by names alone\n"
    "  --as FAMILY        of export hf and gguf: gpt2, llama, bert, vit, resnet, ...; default: the first whose model this is\n"
    "  --config KEY=VALUE, --config FILE\n"
    "                     of export hf: what config.json has beside the model's numbers; a config.json to take it from\n"
    "  --vocabulary DIR   of export hf and gguf, and of generate: the folder of the tokenizer; default: that of the data block; of\n"
    "                     generate also that of --init, if it holds one\n"
    "  --resume DIR       go on with a saved run, with the --epochs, --steps, --set and --no-shuffle that it was begun with, unless\n"
    "                     they are given anew; the device count may be another\n"
    "  --save DIR         where to save: weights.safetensors, optimizer.safetensors, average.safetensors (with ema or swa),\n"
    "                     run.json; after every epoch or interval `save`, at the end and when interrupted; with `keep` the\n"
    "                     last ones also in DIR/step-N; with `best` the best model in DIR/best.safetensors.\n"
    "                     Default: the folder of --resume, else ./NAME.save. One run at a time saves into a folder\n"
    "  --overwrite        a folder that holds another run's saves gets this one's; they go when the first is complete\n"
    "  --failed-saves N   end when N saves in a row have failed (a full disk); without it a save that fails is said and tried\n"
    "                     again when the next is due, and only the one at the end must succeed\n"
    "  --no-save          save nothing\n"
    "  --no-shuffle       samples in the order of the files\n"
    "  --no-eval          no loss and metrics of the data set valid after an epoch\n"
    "  --log FILE         one JSON object per line: start, step, epoch, eval, checkpoint, notice, warning, end; a run that\n"
    "                     goes on (--resume) adds its lines to those that are there\n"
    "  --tensorboard DIR  event files of TensorBoard: losses, rates, samples/s and waits of each step, metrics\n"
    "  --histograms N     every N steps, and after the last one, how the values of each weight are spread, for TensorBoard\n"
    "                     (`mgpuc --set observe=gradients`: of each gradient, too; docs/logs.md)\n"
    "  --trace FILE       a timeline of some steps, for Perfetto and `mgpuc report`: what each lane of each device, the decoders "
    "and\n"
    "                     the loop did, and waited for (docs/traces.md)\n"
    "  --trace-steps A:B  of the steps A to B, counted from the beginning of the run; default: five steps soon after it begins "
    "or\n"
    "                     goes on\n"
    "\n"
    "eval, predict, generate and export use the weights of --init FILE, or of --resume DIR or --save DIR (default: ./NAME.save), and "
    "say\n"
    "which they are: the best where `best` is set, else the last; with ema or swa averages. Parts are those of --init "
    "PART=FILE.\n"
    "  --weights WHICH    best or last, of a saved run\n"
    "  IN                 one of: a data set of the model (train, valid, test); a table (new.csv, any name), with the columns\n"
    "                     of the data block, where labels may be missing; pictures (.jpg, .png) and folders of them, brought\n"
    "                     to size as the data set valid does it; for each input, in their order or as NAME=FILE, a file in\n"
    "                     IDX or .npy, many samples or one. - is standard input, and without -o standard output:\n"
    "                     rows of a table are answered there as they arrive\n"
    "  -o, --output OUT   .npy, or .csv, which begins with the sample's file or row and has columns that are called like the\n"
    "                     classes; of several outputs each gets a file with its name before the suffix. - is standard output\n"
    "  --only NAME,...    these outputs alone; without it all\n"
    "  --samples N        instead of IN, where the outputs depend on no input: how many\n"
    "  TEXT               what the text begins with; - is standard input\n"
    "  --length N         characters or tokens to generate (500)\n"
    "  --temperature T    1 samples each by its probability (and --seed), less than 1 prefers likely ones, 0 takes the likeliest "
    "(1)\n"
    "  --top-k N          only the N likeliest may be sampled\n"
    "  --top-p P          only the likeliest of these, whose probabilities are together at least P (1: all)\n"
    "  --prompts FILE     in place of TEXT: a text each line, in the order of which they are printed; - is standard input\n"
    "  --batch N          so many of these side by side, at most; without it as many as the program's batch has samples\n"
    "  --json             a line of JSON for each: {\"prompt\":..., \"text\":...}, text without the prompt\n"
    "  --stop TEXT        ends where this text would follow, which is not printed; may be given several times\n"
    "  --ignore-eos       goes on after the token that ends texts (eos_token_id of the vocabulary's folder)\n"
    "\n"
    "Bench\n"
    "  --steps N          steps that are timed (20)\n"
    "  --warmup N         steps before them (3)\n"
    "  --json             one line of JSON\n"
    "  --profile          so many further steps, and how long each operation takes, beside what was predicted\n"
    "  --measure FILE     likewise, as JSON: times that mgpuc plans with\n"
    "  --devices 1,2,4    the table of `mgpuc bench`: a row for each count, in turns, beside what was predicted\n"
    "  --batch LIST       of the table: 32,64; rows with the program's global batch, as it is compiled for one\n"
    "  --weak             of the table: each device has this batch; --strong: all devices together (default)\n"
    "  --strong           of the table: beside --weak, to have both\n"
    "\n"
    "Schedule\n"
    "  --page             step time, lanes, links, memory, longest operations, all-reduces, input; also into a pipe\n"
    "  --full             the file, also on a terminal\n"
    "  --timeline         the lanes of a step as bars, as wide as the terminal\n"
    "  --op NAME          an operation: what it waits for, who waits for it, and why\n"
    "  --layer PATH       all that a part of the model costs: layer3.2\n"
    "  --at TIME          what each lane does then, and what an idle one waits for: 3ms, 250us\n"
    "  --phase NAME       of this phase (train.full)\n"
    "  --device N         of this device (0; --timeline: all)\n"
    "\n"
    "  --version, --help\n"
    "\n"
    "Signals\n"
    "  INT TERM HUP       (Ctrl-C; the terminal is closed) finish the step, save, and end with status 130, 143 or 129; a second\n"
    "                     INT or TERM ends at once. nohup's SIGHUP stays ignored\n"
    "  PIPE XFSZ          likewise, with status 141 or 153: whoever read standard output has closed it, or it has reached the\n"
    "                     limit of a file's size\n"
    "  USR1               finish the step, save, and go on\n"
    "Exit status: 0 done; 1 the input is wrong (data, weights, checkpoint), or a loss is not finite; 2 wrong usage; 3 the\n"
    "machine failed (memory, disk, device), or the log could not be written to its end; 128 + N ended by signal N, and\n"
    "saved (not with --no-save).\n";

static void print_plans(const mgpu_program *p, FILE *f)
{
    for (int i = 0; i < p->plan_count; i++)
        fprintf(f, "%s%s:%d%s", i ? ", " : "", p->plans[i].kind, p->plans[i].devices,
                i == p->default_plan && p->plan_count > 1 ? " (default)" : "");
    if (p->gpus)
        fprintf(f, " (default: %s)", p->gpus);
}

void mgpu_print_help(const mgpu_program *p, const char *name, FILE *f)
{
    char text[32];
    fprintf(f, "%s %s the model %s of %s (%s parameters, %s). Compiled by mgpuc %s for ", name,
            p->predicts ? "predicts with" : "trains", p->name, p->model_file, mgpu_grouped(p->parameters, text), p->precision,
            MGPU_VERSION);
    print_plans(p, f);
    fputs(p->predicts ? ". It does not train: train, bench and check-gradients are refused.\n\n" : ".\n\n", f);
    fprintf(f, USAGE, name);
    fputs(OPTIONS, f);
}

static void print_tensor(FILE *f, const mgpu_tensor *t)
{
    char shape[200];
    fprintf(f, "%s%s", mgpu_dtype_name(t->dtype), t->rank ? mgpu_shape_text(t->rank, t->extent, shape) : "");
}

static void print_layers(const mgpu_program *p)
{
    int width = 5;
    char **name = mgpu_allocate((size_t)p->layer_count + 1, sizeof *name);
    for (int i = 0; i < p->layer_count; i++) {
        name[i] = mgpu_plain(p->layers[i].name);
        width = (int)strlen(name[i]) > width ? (int)strlen(name[i]) : width;
    }
    printf("\n%-*s  %6s  %14s  %s\n", width, "layer", "line", "parameters", "shape");
    for (int i = 0; i < p->layer_count; i++) {
        char shape[200], text[32];
        printf("%-*s  %6d  %14s  %s\n", width, name[i], p->layers[i].line, mgpu_grouped(p->layers[i].parameters, text),
               mgpu_shape_text(p->layers[i].shape.rank, p->layers[i].shape.extent, shape));
        free(name[i]);
    }
    free(name);
}

static void print_memory(const mgpu_program *p, const RunOptions *o)
{
    puts("\nplans");
    for (int i = 0; i < p->plan_count; i++) {
        const mgpu_plan *plan = mgpu_open_plan(o, &p->plans[i]);
        char text[32], digits[65];
        bool usual = i == p->default_plan;
        printf("  %s:%d%s%s%s%s\n", plan->kind, plan->devices, usual ? " (default" : "", usual && p->gpus ? ": " : "",
               usual && p->gpus ? p->gpus : "", usual ? ")" : "");
        if (plan->image)
            printf("    schedule %s\n", mgpu_image_digest(plan->image, 8, digits));
        for (int d = 0; d < plan->devices; d++)
            printf("    device %d: samples %lld..%lld of %lld, arena %s bytes\n", d, (long long)plan->device[d].shard.first,
                   (long long)(plan->device[d].shard.first + plan->device[d].shard.share), (long long)plan->micro,
                   mgpu_grouped(mgpu_device_bytes(
                                    &plan->device[d],
                                    mgpu_device_threads(mgpu_computes_here(plan) ? o->threads : plan->devices, plan->devices, d)),
                                text));
    }
}

/* Returns "csv("t.csv") |> part(0, 0.9)". The caller frees. */
char *mgpu_set_text(const mgpu_set *s)
{
    char *text;
    size_t length;
    FILE *f = mgpu_begin_text(&text, &length);
    for (int k = 0; k < s->call_count; k++) {
        fprintf(f, "%s%s(", k ? " |> " : "", s->calls[k].name);
        for (int i = 0; i < s->calls[k].option_count; i++) {
            const mgpu_option *o = &s->calls[k].options[i];
            fprintf(f, "%s%s = %s", i ? ", " : "", o->name, o->count > 1 ? "[" : "");
            for (int n = 0; n < o->count; n++)
                if (o->items[n].text)
                    fprintf(f, "%s\"%s\"", n ? ", " : "", o->items[n].text);
                else
                    fprintf(f, "%s%.9g", n ? ", " : "", o->items[n].number);
            fputs(o->count > 1 ? "]" : "", f);
        }
        fputc(')', f);
    }
    mgpu_end_text(f);
    return text;
}

/* Prints "train: csv("t.csv") |> part(0, 0.9)", then the columns. */
static void print_set(const mgpu_set *s)
{
    char *text = mgpu_set_text(s);
    printf("  %s: ", s->name);
    mgpu_print_plain(text);
    putchar('\n');
    free(text);
    for (int c = 0; c < s->column_count; c++) {
        fputs("    ", stdout);
        mgpu_print_plain(s->columns[c].name);
        for (int n = 0; n < s->columns[c].count; n++) {
            fputs(n ? ", " : " from ", stdout);
            mgpu_print_plain(s->columns[c].texts[n]);
        }
        putchar('\n');
    }
}

static void print_initials(const mgpu_program *p)
{
    for (int i = 0; i < p->initial_count; i++)
        printf("  begins with %s: %d tensor%s%s%s\n", p->initials[i].path ? p->initials[i].path : "no file", p->initials[i].count,
               p->initials[i].count == 1 ? "" : "s", p->initials[i].pattern ? " of " : "",
               p->initials[i].pattern ? p->initials[i].pattern : "");
}

static void print_course(const mgpu_program *p)
{
    static const char *const ON_NAN[] = {"stop", "skip", "ignore"};
    const mgpu_quantity epoch = {1, MGPU_UNIT_EPOCHS};
    char a[48], b[48], c[48];
    printf("  validate = %s, save = %s, keep = %lld, patience = %s\n",
           mgpu_quantity_text(p->validate.unit ? p->validate : epoch, a), mgpu_quantity_text(p->save.unit ? p->save : epoch, b),
           p->keep > 0 ? (long long)p->keep : 1LL, mgpu_quantity_text(p->patience, c));
    puts("\nthe course of a run");
    if (p->best.metric)
        printf("  best        %s(\"%s\")\n", p->best.highest ? "highest" : "lowest", p->best.metric);
    for (int i = 0; i < p->plateau_count; i++)
        printf("  plateau     a rate x %.9g, %s(\"%s\") not better within %s\n", p->plateaus[i].factor,
               p->plateaus[i].watch.highest ? "highest" : "lowest", p->plateaus[i].watch.metric,
               mgpu_quantity_text(p->plateaus[i].patience, a));
    if (p->average_count)
        printf("  averages    of %d variables; evaluation and prediction read them\n", p->average_count);
    print_initials(p);
    printf("  on_nan      %s\n", ON_NAN[p->on_nan]);
}

int mgpu_info(const mgpu_program *p, const RunOptions *o)
{
    if (o->init || o->part_count || o->rules)
        return mgpu_load_initials(p, NULL, NULL, o) ? 1 : 0;
    printf("model       %s (", p->name);
    mgpu_print_plain(p->model_file);
    printf(")\ncompiled    by mgpuc %s, interface %d%s", MGPU_VERSION, p->interface, p->command && *p->command ? ": " : "");
    mgpu_print_plain(p->command ? p->command : "");
    putchar('\n');
    char text[32];
    printf("precision   %s\nparameters  %s\n", p->precision, mgpu_grouped(p->parameters, text));
    printf("batch       %lld%s", (long long)p->batch, p->accumulate > 1 ? "" : "\n");
    if (p->accumulate > 1)
        printf(" in %lld micro-batches\n", (long long)p->accumulate);
    if (p->steps > 0 && !p->predicts)
        printf("steps       %lld\n", (long long)p->steps);
    else if (!p->predicts)
        printf("epochs      %lld\n", (long long)p->epochs);
    printf("seed        %llu\n", (unsigned long long)p->seed);
    if (p->policy)
        printf("plan        %s%s%s\n", p->policy, p->policy_label ? ": " : "", p->policy_label ? p->policy_label : "");
    char threads[200];
    if (mgpu_used_threads(o, mgpu_choose_plan(p, o), threads, sizeof threads))
        printf("threads     %s\n", threads);
    puts("\ninputs");
    for (int i = 0; i < p->input_count; i++) {
        if (p->inputs[i].hidden)
            continue;
        printf("  %s: ", p->inputs[i].tensor.name);
        print_tensor(stdout, &p->inputs[i].tensor);
        if (p->inputs[i].classes)
            printf(", one of %lld classes", (long long)p->inputs[i].classes);
        putchar('\n');
    }
    if (p->output_count)
        puts("\noutputs");
    for (int i = 0; i < p->output_count; i++) {
        printf("  %s: ", p->outputs[i].name);
        print_tensor(stdout, &p->outputs[i]);
        putchar('\n');
    }
    if (p->set_count)
        puts("\ndata");
    for (int i = 0; i < p->set_count; i++)
        print_set(&p->sets[i]);
    if (p->predicts)
        puts("\nthe course of a run\n  there is no training: the program predicts");
    else
        puts("\nsettings at run time (--set)");
    for (int i = 0; i < p->setting_count; i++) {
        if (p->settings[i].hidden || p->predicts)
            continue;
        if (isnan(p->settings[i].value))
            printf("  %s (computed)\n", p->settings[i].name);
        else
            printf("  %s = %.9g\n", p->settings[i].name, p->settings[i].value);
    }
    if (p->predicts) {
        print_initials(p);
    } else {
        puts("  epochs, steps, seed");
        print_course(p);
    }
    print_memory(p, o);
    if (p->gpu_kernels)
        mgpu_print_gpus(p);
    if (p->layer_count)
        print_layers(p);
    return 0;
}
