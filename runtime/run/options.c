/* options.c: the command line of a generated program -> Options. Mistakes end it with status 2 and say what to type. */
#include "runtime/base/cores.h"
#include "runtime/base/base.h"
#include "runtime/base/options.h"
#include "runtime/base/watch.h"
#include "runtime/run/commands.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef enum OptionId {
    OPTION_DATA,
    OPTION_EPOCHS,
    OPTION_STEPS,
    OPTION_STOP_AFTER,
    OPTION_STALL,
    OPTION_DEVICES,
    OPTION_THREADS,
    OPTION_SEED,
    OPTION_SET,
    OPTION_INIT, OPTION_RULES, OPTION_AS, OPTION_CONFIG, OPTION_VOCABULARY,
    OPTION_SAVE,
    OPTION_NO_SAVE,
    OPTION_OVERWRITE,
    OPTION_FAILED_SAVES,
    OPTION_RESUME,
    OPTION_WEIGHTS,
    OPTION_LOG,
    OPTION_TRACE,
    OPTION_TRACE_STEPS,
    OPTION_TENSORBOARD,
    OPTION_HISTOGRAMS,
    OPTION_NO_SHUFFLE,
    OPTION_NO_EVAL,
    OPTION_OUTPUT,
    OPTION_ONLY,
    OPTION_SAMPLES,
    OPTION_LENGTH,
    OPTION_TEMPERATURE,
    OPTION_TOP_K,
    OPTION_TOP_P,
    OPTION_STOP,
    OPTION_PROMPTS,
    OPTION_IGNORE_EOS,
    OPTION_WARMUP,
    OPTION_JSON,
    OPTION_PROFILE,
    OPTION_MEASURE,
    OPTION_BATCH,
    OPTION_WEAK,
    OPTION_STRONG,
    OPTION_TUNE,
    OPTION_FULL,
    OPTION_PAGE,
    OPTION_TIMELINE,
    OPTION_PHASE,
    OPTION_OP,
    OPTION_LAYER,
    OPTION_AT,
    OPTION_DEVICE,
    OPTION_VERSION,
    OPTION_HELP
} OptionId;

enum { TRAIN = 1 << COMMAND_TRAIN, EVAL = 1 << COMMAND_EVAL, PREDICT = 1 << COMMAND_PREDICT, INFO = 1 << COMMAND_INFO,
       SCHEDULE = 1 << COMMAND_SCHEDULE, BENCH = 1 << COMMAND_BENCH, GENERATE = 1 << COMMAND_GENERATE, REPORT = 1 << COMMAND_REPORT,
       GRADIENTS = 1 << COMMAND_CHECK_GRADIENTS, EXPORT = 1 << COMMAND_EXPORT,
       TRAINED = EVAL | PREDICT | GENERATE | EXPORT, ANY = -1 };

typedef struct OptionInfo { const char *name; OptionId id; bool takes_value; int commands; } OptionInfo;
static const OptionInfo OPTIONS[] = {
    {"--data", OPTION_DATA, true, TRAIN | TRAINED | GRADIENTS},
    {"--epochs", OPTION_EPOCHS, true, TRAIN},
    {"--steps", OPTION_STEPS, true, TRAIN | BENCH},
    {"--stop-after", OPTION_STOP_AFTER, true, TRAIN},
    {"--stall", OPTION_STALL, true, TRAIN | TRAINED | BENCH | GRADIENTS},
    {"--devices", OPTION_DEVICES, true, ANY},
    {"--threads", OPTION_THREADS, true, TRAIN | TRAINED | INFO | BENCH | GRADIENTS},
    {"--seed", OPTION_SEED, true, TRAIN | BENCH | TRAINED | GRADIENTS},
    {"--set", OPTION_SET, true, TRAIN | TRAINED | BENCH | GRADIENTS},
    {"--init", OPTION_INIT, true, TRAIN | TRAINED | GRADIENTS | INFO},
    {"--as", OPTION_AS, true, EXPORT},
    {"--config", OPTION_CONFIG, true, EXPORT},
    {"--vocabulary", OPTION_VOCABULARY, true, GENERATE | EXPORT},
    {"--rules", OPTION_RULES, true, TRAIN | TRAINED | GRADIENTS | INFO},
    {"--save", OPTION_SAVE, true, TRAIN | TRAINED},
    {"--no-save", OPTION_NO_SAVE, false, TRAIN},
    {"--overwrite", OPTION_OVERWRITE, false, TRAIN},
    {"--failed-saves", OPTION_FAILED_SAVES, true, TRAIN},
    {"--resume", OPTION_RESUME, true, TRAIN | TRAINED},
    {"--weights", OPTION_WEIGHTS, true, TRAINED},
    {"--log", OPTION_LOG, true, TRAIN | EVAL},
    {"--tensorboard", OPTION_TENSORBOARD, true, TRAIN},
    {"--histograms", OPTION_HISTOGRAMS, true, TRAIN},
    {"--trace", OPTION_TRACE, true, TRAIN},
    {"--trace-steps", OPTION_TRACE_STEPS, true, TRAIN},
    {"--no-shuffle", OPTION_NO_SHUFFLE, false, TRAIN},
    {"--no-eval", OPTION_NO_EVAL, false, TRAIN},
    {"--output", OPTION_OUTPUT, true, PREDICT | REPORT},
    {"-o", OPTION_OUTPUT, true, PREDICT | REPORT},
    {"--only", OPTION_ONLY, true, PREDICT},
    {"--samples", OPTION_SAMPLES, true, PREDICT},
    {"--length", OPTION_LENGTH, true, GENERATE},
    {"--temperature", OPTION_TEMPERATURE, true, GENERATE},
    {"--top-k", OPTION_TOP_K, true, GENERATE},
    {"--top-p", OPTION_TOP_P, true, GENERATE},
    {"--stop", OPTION_STOP, true, GENERATE},
    {"--prompts", OPTION_PROMPTS, true, GENERATE},
    {"--ignore-eos", OPTION_IGNORE_EOS, false, GENERATE},
    {"--warmup", OPTION_WARMUP, true, BENCH},
    {"--json", OPTION_JSON, false, BENCH | GENERATE},
    {"--profile", OPTION_PROFILE, false, BENCH},
    {"--measure", OPTION_MEASURE, true, BENCH},
    {"--batch", OPTION_BATCH, true, BENCH | GENERATE},
    {"--weak", OPTION_WEAK, false, BENCH},
    {"--strong", OPTION_STRONG, false, BENCH},
    {"--tune", OPTION_TUNE, false, TRAIN | TRAINED | BENCH},
    {"--page", OPTION_PAGE, false, SCHEDULE},
    {"--full", OPTION_FULL, false, SCHEDULE},
    {"--timeline", OPTION_TIMELINE, false, SCHEDULE},
    {"--op", OPTION_OP, true, SCHEDULE},
    {"--layer", OPTION_LAYER, true, SCHEDULE},
    {"--at", OPTION_AT, true, SCHEDULE},
    {"--phase", OPTION_PHASE, true, SCHEDULE},
    {"--device", OPTION_DEVICE, true, SCHEDULE},
    {"--version", OPTION_VERSION, false, ANY},
    {"--help", OPTION_HELP, false, ANY},
    {"-h", OPTION_HELP, false, ANY},
};

static const char *const COMMANDS[] = {"train", "eval", "predict", "info", "schedule", "bench", "generate", "watch", "report", "check-gradients",
    "export"};

const char *mgpu_command_name(CommandKind command) { return COMMANDS[command]; }

static _Noreturn void usage(const char *message, const char *about, const char *more)
{
    mgpu_fail(MGPU_BAD_USAGE, "%s%s%s; %s --help shows the options", message, about, more, program_invocation_short_name);
}

static int64_t whole_number(const char *option, const char *text, int64_t least)
{
    char *end;
    errno = 0;
    long long n = strtoll(text, &end, 10);
    if (end == text || *end || errno || n < least)
        mgpu_fail(MGPU_BAD_USAGE, "%s takes a whole number, at least %lld, not '%s'", option, (long long)least, text);
    return n;
}

static double temperature_of(const char *option, const char *text)
{
    char *end;
    double t = strtod(text, &end);
    if (end == text || *end || !isfinite(t) || t < 0)
        mgpu_fail(MGPU_BAD_USAGE, "%s takes a number from 0 on, not '%s': 0 takes the likeliest, 1 samples by the model's probabilities",
                  option, text);
    return t;
}

static double read_top_p(const char *option, const char *text)
{
    char *end;
    double p = strtod(text, &end);
    if (end == text || *end || !(p > 0 && p <= 1))
        mgpu_fail(MGPU_BAD_USAGE,
                  "%s takes a number above 0 and at most 1, not '%s': 0.9 samples from the likeliest whose probabilities are "
                  "together 0.9, 1 from all",
                  option, text);
    return p;
}

static void read_stop(Options *o, const char *option, const char *text)
{
    if (!*text)
        mgpu_fail(MGPU_BAD_USAGE, "%s takes the text at which generation ends, which is not empty", option);
    o->stops = mgpu_resize(o->stops, (size_t)(o->stop_count + 1) * sizeof *o->stops);
    o->stops[o->stop_count++] = text;
}

static void add_config(Options *o, const char *text)
{
    o->config = mgpu_resize(o->config, (size_t)(o->config_count + 1) * sizeof *o->config);
    o->config[o->config_count++] = text;
}

static int thread_count(const char *option, const char *text)
{
    int64_t n = whole_number(option, text, 1);
    if (n > MGPU_MOST_THREADS)
        mgpu_fail(MGPU_BAD_USAGE, "%s takes a whole number, at most %d, not '%s'", option, MGPU_MOST_THREADS, text);
    return (int)n;
}

static uint64_t read_seed(const char *option, const char *text)
{
    char *end;
    errno = 0;
    unsigned long long n = strtoull(text, &end, 10);
    if (end == text || *end || errno || *text == '-')
        mgpu_fail(MGPU_BAD_USAGE, "%s takes a whole number below 2^64, not '%s'", option, text);
    return n;
}

/* what mgpuc has to be called with to get the setting in */
static _Noreturn void fail_fixed(const mgpu_program *p, const char *setting, size_t length)
{
    const char *command = p->command && *p->command ? p->command : NULL;
    mgpu_fail(MGPU_BAD_USAGE, "'%.*s' is fixed when the program is compiled; compile again with: %s%s --set %s%s%s", (int)length,
              setting, command ? command : "mgpuc ", command ? "" : p->model_file, setting, command ? "" : " -o ",
              command ? "" : program_invocation_short_name);
}

static bool named(const char *name, const char *text, size_t length)
{
    return strlen(name) == length && memcmp(name, text, length) == 0;
}

static _Noreturn void fail_unknown_setting(const mgpu_program *p, const char *text, size_t length)
{
    static const char *const OWN[] = {"epochs", "steps", "seed", "validate", "save", "keep", "patience"};
    int count = 0;
    const char **names = mgpu_allocate((size_t)(p->setting_count + p->fixed_setting_count + MGPU_COUNT(OWN)), sizeof *names);
    for (int i = 0; i < p->setting_count; i++)
        if (!p->settings[i].hidden)
            names[count++] = p->settings[i].name;
    int first_fixed = count;
    for (int i = 0; i < p->fixed_setting_count; i++)
        names[count++] = p->fixed_settings[i];
    for (int i = 0; i < MGPU_COUNT(OWN); i++)
        names[count++] = OWN[i];
    char word[64], near[128];
    snprintf(word, sizeof word, "%.*s", (int)length, text);
    if (*mgpu_near_miss(word, names, count, near))
        mgpu_fail(MGPU_BAD_USAGE, "--set %s: the program has no setting '%.*s'%s", text, (int)length, text, near);
    int taken = 0; /* those that are not fixed */
    for (int i = 0; i < count; i++)
        if (i < first_fixed || i >= first_fixed + p->fixed_setting_count)
            names[taken++] = names[i];
    mgpu_fail(MGPU_BAD_USAGE, "--set %s: the program has no setting '%.*s'; here --set takes %s; see mgpuc --help for what is fixed at "
              "compile time", text, (int)length, text, mgpu_join_names(names, taken));
}

static void read_setting(Options *o, const mgpu_program *p, const char *text)
{
    const char *equals = strchr(text, '=');
    if (!equals || equals == text || !equals[1])
        mgpu_fail(MGPU_BAD_USAGE, "--set takes NAME=VALUE, as in --set lr=0.05, not '%s'", text);
    size_t length = (size_t)(equals - text);
    if (named("epochs", text, length)) {
        o->epochs = whole_number("--set epochs=", equals + 1, 1);
    } else if (named("steps", text, length)) {
        o->steps = whole_number("--set steps=", equals + 1, 1);
    } else if (named("seed", text, length)) {
        o->seed = read_seed("--set seed=", equals + 1);
        o->seed_given = true;
    } else if (named("validate", text, length)) {
        o->validate = mgpu_read_quantity("validate", equals + 1, false);
    } else if (named("save", text, length)) {
        o->save_every = mgpu_read_quantity("save", equals + 1, false);
    } else if (named("patience", text, length)) {
        o->patience = mgpu_read_quantity("patience", equals + 1, true);
        if (!p->best.metric)
            mgpu_fail(MGPU_BAD_USAGE, "--set %s: the program watches no number; compile it with --set 'best=lowest(\"loss\")'",
                      text);
    } else if (named("keep", text, length)) {
        o->keep = whole_number("--set keep=", equals + 1, 1);
    } else {
        for (int i = 0; i < p->fixed_setting_count; i++)
            if (named(p->fixed_settings[i], text, length))
                fail_fixed(p, text, length);
        int found = 0;
        while (found < p->setting_count && (p->settings[found].hidden || !named(p->settings[found].name, text, length)))
            found++;
        if (found == p->setting_count || found >= MGPU_MAX_SETTINGS)
            fail_unknown_setting(p, text, length);
        char *end;
        o->setting[found] = strtod(equals + 1, &end);
        if (*end || !isfinite(o->setting[found]))
            mgpu_fail(MGPU_BAD_USAGE, "--set %s: a number was expected after the =", text);
        if (o->setting[found] < 0) /* lr and decay, as in the train block */
            mgpu_fail(MGPU_BAD_USAGE, "--set %s: %s must not be negative", text, p->settings[found].name);
    }
}

static bool takes_setting(const mgpu_program *p, const char *text)
{
    static const char *const OWN[] = {"epochs", "steps", "validate", "save", "keep"};
    size_t length = strcspn(text, "=");
    for (int i = 0; i < MGPU_COUNT(OWN); i++)
        if (named(OWN[i], text, length))
            return true;
    for (int i = 0; i < p->setting_count; i++)
        if (!p->settings[i].hidden && named(p->settings[i].name, text, length))
            return true;
    return named("patience", text, length) && p->best.metric;
}

static const OptionInfo *find_option(const mgpu_program *p, const char *text, size_t length)
{
    for (int i = 0; i < MGPU_COUNT(OPTIONS); i++)
        if (named(OPTIONS[i].name, text, length))
            return &OPTIONS[i];
    if (length > 2 && takes_setting(p, text + 2))
        mgpu_fail(MGPU_BAD_USAGE, "there is no option %.*s; settings of the train block are written --set %.*s=VALUE",
                  (int)length, text, (int)length - 2, text + 2);
    const char *names[MGPU_COUNT(OPTIONS)];
    for (int i = 0; i < MGPU_COUNT(OPTIONS); i++)
        names[i] = OPTIONS[i].name;
    char word[64], near[128];
    snprintf(word, sizeof word, "%.*s", (int)length, text);
    usage("there is no option ", word, mgpu_near_miss(word, names, MGPU_COUNT(OPTIONS), near));
}

static WeightsChoice read_weights(const char *value)
{
    if (strcmp(value, "best") != 0 && strcmp(value, "last") != 0)
        mgpu_fail(MGPU_BAD_USAGE,
                  "--weights takes best or last, not '%s'; --save DIR takes the weights of the run in DIR, --init a file", value);
    return *value == 'b' ? WEIGHTS_BEST : WEIGHTS_LAST;
}

static void apply(Options *o, const mgpu_program *p, const OptionInfo *option, const char *value)
{
    switch (option->id) {
    case OPTION_DATA: o->data = value; break;
    case OPTION_EPOCHS: o->epochs = whole_number(option->name, value, 1); break;
    case OPTION_STEPS: o->steps = whole_number(option->name, value, 1); break;
    case OPTION_STOP_AFTER: o->stop_after = whole_number(option->name, value, 1); break;
    case OPTION_STALL: o->stall = (double)whole_number(option->name, value, 0); break;
    case OPTION_DEVICES: o->devices = value; break;
    case OPTION_THREADS:
        o->threads = thread_count(option->name, value);
        o->threads_given = true;
        break;
    case OPTION_SEED:
        o->seed = read_seed(option->name, value);
        o->seed_given = true;
        break;
    case OPTION_SET: read_setting(o, p, value); break;
    case OPTION_INIT: mgpu_add_init(o, value); break;
    case OPTION_RULES: o->rules = value; break;
    case OPTION_AS: o->as = value; break;
    case OPTION_CONFIG: add_config(o, value); break;
    case OPTION_VOCABULARY: o->vocabulary = value; break;
    case OPTION_SAVE: o->save = value; break;
    case OPTION_WEIGHTS: o->weights = read_weights(value); break;
    case OPTION_SAMPLES: o->samples = whole_number(option->name, value, 1); break;
    case OPTION_LENGTH: o->length = whole_number(option->name, value, 1); break;
    case OPTION_TEMPERATURE: o->temperature = temperature_of(option->name, value); break;
    case OPTION_TOP_K: o->top_k = whole_number(option->name, value, 1); break;
    case OPTION_TOP_P: o->top_p = read_top_p(option->name, value); break;
    case OPTION_PROMPTS: o->prompts = value; break;
    case OPTION_STOP: read_stop(o, option->name, value); break;
    case OPTION_NO_SAVE: o->write = false; break;
    case OPTION_OVERWRITE: o->overwrite = true; break;
    case OPTION_FAILED_SAVES: o->failed_saves = whole_number(option->name, value, 1); break;
    case OPTION_RESUME: o->resume = value; break;
    case OPTION_LOG: o->log = value; break;
    case OPTION_TENSORBOARD: o->tensorboard = value; break;
    case OPTION_HISTOGRAMS: o->histograms = whole_number(option->name, value, 1); break;
    case OPTION_TRACE: o->trace = value; break;
    case OPTION_TRACE_STEPS: o->trace_steps = value; break;
    case OPTION_NO_SHUFFLE: o->shuffle = false; break;
    case OPTION_NO_EVAL: o->evaluate = false; break;
    case OPTION_OUTPUT: o->output = value; break;
    case OPTION_ONLY: o->only = value; break;
    case OPTION_WARMUP: o->warmup = whole_number(option->name, value, 0); break;
    case OPTION_JSON: o->json = true; break;
    case OPTION_PROFILE: o->profile = true; break;
    case OPTION_MEASURE: o->measure = value; break;
    case OPTION_IGNORE_EOS: o->ignore_eos = true; break;
    case OPTION_BATCH:
        if (o->command == COMMAND_GENERATE)
            o->side = whole_number(option->name, value, 1);
        else
            o->batches = value;
        break;
    case OPTION_WEAK: o->weak = true; break;
    case OPTION_STRONG: o->strong = true; break;
    case OPTION_FULL: o->full = true; break;
    case OPTION_PAGE: o->page = true; break;
    case OPTION_TIMELINE: o->timeline = true; break;
    case OPTION_PHASE: o->phase = value; break;
    case OPTION_OP: o->op = value; break;
    case OPTION_LAYER: o->layer = value; break;
    case OPTION_AT:
        o->at = value;
        break;
    case OPTION_DEVICE: o->device = value; break;
    case OPTION_TUNE: o->tune = true; break;
    case OPTION_VERSION:
        printf("%s (%s): mgpuc %s, interface %d\n", o->program, p->name, MGPU_VERSION, MGPU_INTERFACE);
        mgpu_end_output();
        exit(0);
    case OPTION_HELP:
        mgpu_print_help(p, o->program, stdout);
        mgpu_end_output();
        exit(0);
    }
}

/* the command is the first word that is no option; it may be after options. Values are skipped. */
static int find_command(Options *o, const mgpu_program *p, int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        if (argv[i][0] == '-' && argv[i][1]) {
            size_t length = strcspn(argv[i], "=");
            if (find_option(p, argv[i], length)->takes_value && !argv[i][length])
                i++;
            continue;
        }
        for (int k = 0; k < MGPU_COUNT(COMMANDS); k++)
            if (strcmp(argv[i], COMMANDS[k]) == 0) {
                o->command = (CommandKind)k;
                return i;
            }
        char near[128];
        usage("there is no command '", argv[i], mgpu_format("'%s", mgpu_near_miss(argv[i], COMMANDS, MGPU_COUNT(COMMANDS), near)));
    }
    return 0;
}

/* ---- what a run keeps when it goes on (--resume), unless it is told otherwise */

static void keep_option(Options *o, const OptionInfo *option, const char *value)
{
    bool kept = option->id == OPTION_EPOCHS || option->id == OPTION_STEPS || option->id == OPTION_NO_SHUFFLE ||
                (option->id == OPTION_SET && !named("seed", value, strcspn(value, "=")));
    if (!kept)
        return;
    o->kept = mgpu_resize(o->kept, (size_t)(o->kept_count + 1) * sizeof *o->kept);
    o->kept[o->kept_count++] = value ? mgpu_format("%s %s", option->name, value) : option->name;
}

/* as a shell takes it */
static char *quoted(const char *word)
{
    static const char PLAIN[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=:,./@%";
    if (*word && !word[strspn(word, PLAIN)])
        return mgpu_format("%s", word);
    char *all = mgpu_format("'");
    for (const char *part = word; part;) {
        const char *quote = strchr(part, '\'');
        char *longer = mgpu_format("%s%.*s%s", all, quote ? (int)(quote - part) : (int)strlen(part), part, quote ? "'\\''" : "'");
        free(all);
        all = longer;
        part = quote ? quote + 1 : NULL;
    }
    return all;
}

char *mgpu_resume_command(const Options *o, const char *folder)
{
    static const OptionId GIVEN[] = {OPTION_DATA, OPTION_DEVICES, OPTION_THREADS, OPTION_FAILED_SAVES, OPTION_LOG, OPTION_TENSORBOARD,
                                     OPTION_HISTOGRAMS, OPTION_NO_EVAL, OPTION_TUNE};
    char *program = quoted(o->argc ? o->argv[0] : o->program), *place = quoted(folder);
    char *all = mgpu_format("%s --resume %s", program, place);
    for (int i = 1; i < o->argc; i++) {
        if (o->argv[i][0] != '-' || !o->argv[i][1])
            continue;
        size_t length = strcspn(o->argv[i], "=");
        const OptionInfo *option = find_option(NULL, o->argv[i], length); /* which is known */
        const char *value = !option->takes_value ? NULL : o->argv[i][length] ? o->argv[i] + length + 1 : o->argv[++i];
        bool again = false;
        for (int k = 0; k < MGPU_COUNT(GIVEN); k++)
            again = again || option->id == GIVEN[k];
        if (!again)
            continue;
        char *word = value ? quoted(value) : NULL, *longer = mgpu_format("%s %s%s%s", all, option->name, word ? " " : "", word ? word : "");
        free(all);
        free(word);
        all = longer;
    }
    free(program);
    free(place);
    return all;
}

/* what it is about: of "--set lr=0.05" "lr"; how long a run is has one name */
static size_t kept_name(const char *text, const char **name)
{
    static const char *const SET = "--set ";
    *name = strncmp(text, SET, strlen(SET)) == 0 ? text + strlen(SET) : text + strspn(text, "-");
    size_t length = strcspn(*name, "= ");
    if (named("steps", *name, length)) {
        *name = "epochs";
        length = strlen(*name);
    }
    return length;
}

static bool said_anew(const Options *o, const char *text)
{
    const char *name, *other;
    size_t length = kept_name(text, &name);
    for (int i = 0; i < o->kept_count; i++)
        if (kept_name(o->kept[i], &other) == length && memcmp(name, other, length) == 0)
            return true;
    return false;
}

void mgpu_keep_options(Options *o, const mgpu_program *p, char *const *kept, int count)
{
    Options now = *o;
    o->kept = NULL;
    o->kept_count = 0;
    for (int i = 0; i < count; i++) {
        size_t length = strcspn(kept[i], " ");
        const char *value = kept[i][length] ? kept[i] + length + 1 : NULL;
        const OptionInfo *option = NULL;
        for (int k = 0; k < MGPU_COUNT(OPTIONS); k++)
            if (named(OPTIONS[k].name, kept[i], length) && OPTIONS[k].takes_value == (value != NULL))
                option = &OPTIONS[k];
        if (!option || said_anew(&now, kept[i]))
            continue;
        if (option->id == OPTION_SET && !takes_setting(p, value)) {
            mgpu_say("%s: warning: the run in %s was begun with %s, which this program has no setting for", o->program, o->resume, kept[i]);
            continue;
        }
        int before = o->kept_count;
        keep_option(o, option, value);
        if (o->kept_count > before) /* of its copy, which lives on */
            apply(o, p, option, value ? strchr(o->kept[before], ' ') + 1 : NULL);
    }
    o->again = o->kept_count;
    for (int i = 0; i < now.kept_count; i++) {
        o->kept = mgpu_resize(o->kept, (size_t)(o->kept_count + 1) * sizeof *o->kept);
        o->kept[o->kept_count++] = now.kept[i];
    }
}

static void check_together(const Options *o, const mgpu_program *p)
{
    if ((o->init || (o->part_count && o->command == COMMAND_TRAIN)) && o->resume)
        usage("--init and --resume exclude each other", "", ": a resumed run has its weights");
    if (o->init && o->weights != WEIGHTS_USUAL)
        usage("--weights and --init FILE exclude each other", "", ": it chooses among the files of a saved run");
    if (o->histograms > 0 && !o->tensorboard)
        usage("--histograms", "", ": --tensorboard DIR names the folder of the event files that have them");
    if (o->trace_steps && !o->trace)
        usage("--trace-steps ", o->trace_steps, ": --trace FILE names the file that the trace goes to");
    if (o->save && !o->write)
        usage("--save and --no-save exclude each other", "", "");
    if (o->save && p->unsaved)
        usage("--save ", o->save, mgpu_format(": the program was compiled with --plan %s (%s), whose weights are no checkpoint", p->policy, p->policy_label));
    bool training = o->command == COMMAND_TRAIN || o->command == COMMAND_BENCH || o->command == COMMAND_CHECK_GRADIENTS;
    if (p->predicts && training && p->policy_label)
        usage("the program was compiled with --plan ", p->policy, ", which has no loss to train: it predicts and evaluates. Leave --plan out to train");
    if (p->predicts && training)
        mgpu_fail(MGPU_BAD_USAGE,
                  "the model of %s has no loss, so there is nothing to train: the program predicts (%s predict IN -o OUT). To "
                  "train it, write loss cross_entropy(logits, label) or the like into the model, and compile it again",
                  p->model_file, o->program);
    if (mgpu_asks_for_rows(o) && (o->profile || o->measure))
        usage(o->profile ? "--profile" : "--measure", "", " is of one number of devices and the program's batch: --devices 2");
    if (o->command == COMMAND_TRAIN && o->operand_count)
        usage("what is '", o->operands[0], "'? Training takes options only");
    if ((o->command == COMMAND_INFO || o->command == COMMAND_SCHEDULE || o->command == COMMAND_BENCH || o->command == COMMAND_CHECK_GRADIENTS) && o->operand_count)
        usage("what is '", o->operands[0], "'?");
}

void mgpu_read_options(Options *o, const mgpu_program *p, int argc, char **argv)
{
    const char *slash = argc ? strrchr(argv[0], '/') : NULL;
    *o = mgpu_default_options(p, slash ? slash + 1 : argc ? argv[0] : p->name);
    o->argc = argc;
    o->argv = argv;
    o->began = mgpu_seconds();
    o->operands = mgpu_allocate((size_t)argc, sizeof *o->operands);
    int command = find_command(o, p, argc, argv);
    for (int i = 1; i < argc; i++) {
        if (i == command)
            continue;
        if (argv[i][0] != '-' || !argv[i][1]) {
            o->operands[o->operand_count++] = argv[i];
            continue;
        }
        size_t length = strcspn(argv[i], "=");
        const OptionInfo *option = find_option(p, argv[i], length);
        const char *value = argv[i][length] ? argv[i] + length + 1 : NULL;
        if (value && !option->takes_value)
            usage(option->name, " takes no value", "");
        if (!value && option->takes_value && !(value = ++i < argc ? argv[i] : NULL))
            usage(option->name, " needs a value", "");
        if (!(option->commands & 1 << o->command))
            usage(option->name, " means nothing to the command ", COMMANDS[o->command]);
        apply(o, p, option, value);
        keep_option(o, option, value);
    }
    check_together(o, p);
    o->write = o->write && !p->unsaved;
    if (!o->threads_given)
        o->threads = mgpu_default_threads(o->program);
}
