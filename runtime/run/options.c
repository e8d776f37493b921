/* options.c: parses the command line of a program into RunOptions. Mistakes end it with status 2; messages say what to type. */
#include "runtime/base/cores.h"
#include "runtime/base/base.h"
#include "runtime/base/options.h"
#include "runtime/base/intervals.h"
#include "runtime/run/commands.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* clang-format off */
enum { TRAIN = 1 << COMMAND_TRAIN, EVAL = 1 << COMMAND_EVAL, PREDICT = 1 << COMMAND_PREDICT, INFO = 1 << COMMAND_INFO,
       SCHEDULE = 1 << COMMAND_SCHEDULE, BENCH = 1 << COMMAND_BENCH, GENERATE = 1 << COMMAND_GENERATE, REPORT = 1 << COMMAND_REPORT,
       GRADIENTS = 1 << COMMAND_CHECK_GRADIENTS, EXPORT = 1 << COMMAND_EXPORT,
       TRAINED = EVAL | PREDICT | GENERATE | EXPORT, ANY = -1 };
/* clang-format on */

static const char *const COMMANDS[] = {"train", "eval",   "predict",         "info",   "schedule", "bench", "generate",
                                       "watch", "report", "check-gradients", "export", "compare"};

const char *mgpu_command_name(CommandKind command) { return COMMANDS[command]; }

/* FLAG, NO_FLAG: a bool that becomes true or false. TEXT: the value itself. WHOLE: an int64_t of at least `least`. QUANTITY: a
 * mgpu_quantity. READ: the function `read` parses the value. */
typedef enum OptionKind { FLAG, NO_FLAG, TEXT, WHOLE, QUANTITY, READ } OptionKind;
typedef struct OptionInfo {
    const char *name;
    int commands; /* bits of CommandKind: the commands that use the option */
    OptionKind kind;
    size_t at; /* offset of the member of RunOptions */
    int64_t least;
    void (*read)(RunOptions *, const mgpu_program *, const char *option, const char *value); /* stores the value; NULL: by kind */
    bool kept;     /* a resumed run (--resume) keeps the option */
    bool repeated; /* mgpu_resume_command repeats the option */
} OptionInfo;

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

static void read_temperature(RunOptions *o, const mgpu_program *p, const char *option, const char *text)
{
    char *end;
    (void)p;
    o->temperature = strtod(text, &end);
    if (end == text || *end || !isfinite(o->temperature) || o->temperature < 0)
        mgpu_fail(MGPU_BAD_USAGE,
                  "%s takes a number from 0 on, not '%s': 0 takes the likeliest, 1 samples by the model's probabilities", option,
                  text);
}

static void read_top_p(RunOptions *o, const mgpu_program *p, const char *option, const char *text)
{
    char *end;
    (void)p;
    o->top_p = strtod(text, &end);
    if (end == text || *end || !(o->top_p > 0 && o->top_p <= 1))
        mgpu_fail(MGPU_BAD_USAGE,
                  "%s takes a number above 0 and at most 1, not '%s': 0.9 samples from the likeliest whose probabilities are "
                  "together 0.9, 1 from all",
                  option, text);
}

static void read_stop(RunOptions *o, const mgpu_program *p, const char *option, const char *text)
{
    (void)p;
    if (!*text)
        mgpu_fail(MGPU_BAD_USAGE, "%s takes the text at which generation ends, which is not empty", option);
    MGPU_PUSH(o->stops, o->stop_count, text);
}

static void read_config(RunOptions *o, const mgpu_program *p, const char *option, const char *text)
{
    (void)p, (void)option;
    MGPU_PUSH(o->config, o->config_count, text);
}

static void read_init(RunOptions *o, const mgpu_program *p, const char *option, const char *text)
{
    (void)p, (void)option;
    mgpu_add_init(o, text);
}

static void read_stall(RunOptions *o, const mgpu_program *p, const char *option, const char *text)
{
    (void)p;
    o->stall = (double)whole_number(option, text, 0);
}

static void read_batch(RunOptions *o, const mgpu_program *p, const char *option, const char *text)
{
    (void)p;
    if (o->command == COMMAND_GENERATE)
        o->side = whole_number(option, text, 1);
    else
        o->batches = text;
}

static void read_threads(RunOptions *o, const mgpu_program *p, const char *option, const char *text)
{
    (void)p;
    int64_t n = whole_number(option, text, 1);
    if (n > MGPU_MOST_THREADS)
        mgpu_fail(MGPU_BAD_USAGE, "%s takes a whole number, at most %d, not '%s'", option, MGPU_MOST_THREADS, text);
    o->threads = (int)n;
    o->threads_given = true;
}

static void read_seed(RunOptions *o, const mgpu_program *p, const char *option, const char *text)
{
    char *end;
    (void)p;
    errno = 0;
    o->seed = strtoull(text, &end, 10);
    if (end == text || *end || errno || !isdigit((unsigned char)*text))
        mgpu_fail(MGPU_BAD_USAGE, "%s takes a whole number below 2^64, not '%s'", option, text);
    o->seed_given = true;
}

static void read_weights(RunOptions *o, const mgpu_program *p, const char *option, const char *value)
{
    (void)p;
    if (strcmp(value, "best") != 0 && strcmp(value, "last") != 0)
        mgpu_fail(MGPU_BAD_USAGE,
                  "%s takes best or last, not '%s'; --save DIR takes the weights of the run in DIR, --init a file", option,
                  value);
    o->weights = *value == 'b' ? WEIGHTS_BEST : WEIGHTS_LAST;
}

static void read_patience(RunOptions *o, const mgpu_program *p, const char *option, const char *text)
{
    o->patience = mgpu_read_quantity("patience", text, true);
    if (!p->best.metric)
        mgpu_fail(MGPU_BAD_USAGE, "%s%s: the program watches no number; compile it with --set 'best=lowest(\"loss\")'", option,
                  text);
}

static void say_version(RunOptions *o, const mgpu_program *p, const char *option, const char *value)
{
    (void)option, (void)value;
    printf("%s (%s): mgpuc %s, interface %d\n", o->program, p->name, MGPU_VERSION, MGPU_INTERFACE);
    mgpu_end_output();
    exit(0);
}

static void say_help(RunOptions *o, const mgpu_program *p, const char *option, const char *value)
{
    (void)option, (void)value;
    mgpu_print_help(p, o->program, stdout);
    mgpu_end_output();
    exit(0);
}

/* Settings of every program that --set takes, besides the settings of its train block. */
static const OptionInfo SETTINGS[] = {
    {"epochs", ANY, WHOLE, .at = offsetof(RunOptions, epochs), .least = 1},
    {"steps", ANY, WHOLE, .at = offsetof(RunOptions, steps), .least = 1},
    {"seed", ANY, READ, .read = read_seed},
    {"validate", ANY, QUANTITY, .at = offsetof(RunOptions, validate)},
    {"save", ANY, QUANTITY, .at = offsetof(RunOptions, save_every)},
    {"keep", ANY, WHOLE, .at = offsetof(RunOptions, keep), .least = 1},
    {"patience", ANY, READ, .read = read_patience},
};

static bool named(const char *name, const char *text, size_t length)
{
    return strlen(name) == length && memcmp(name, text, length) == 0;
}

static const OptionInfo *find_setting(const char *text, size_t length)
{
    for (int i = 0; i < MGPU_COUNT(SETTINGS); i++)
        if (named(SETTINGS[i].name, text, length))
            return &SETTINGS[i];
    return NULL;
}

/* Explains how to compile a program with this setting. */
static _Noreturn void fail_fixed(const mgpu_program *p, const char *setting, size_t length)
{
    const char *command = p->command && *p->command ? p->command : NULL;
    mgpu_fail(MGPU_BAD_USAGE, "'%.*s' is fixed when the program is compiled; compile again with: %s%s --set %s%s%s", (int)length,
              setting, command ? command : "mgpuc ", command ? "" : p->model_file, setting, command ? "" : " -o ",
              command ? "" : program_invocation_short_name);
}

static _Noreturn void fail_unknown_setting(const mgpu_program *p, const char *text, size_t length)
{
    int count = 0;
    const char **names = mgpu_allocate((size_t)(p->setting_count + p->fixed_setting_count + MGPU_COUNT(SETTINGS)), sizeof *names);
    for (int i = 0; i < p->setting_count; i++)
        if (!p->settings[i].hidden)
            names[count++] = p->settings[i].name;
    int first_fixed = count;
    for (int i = 0; i < p->fixed_setting_count; i++)
        names[count++] = p->fixed_settings[i];
    for (int i = 0; i < MGPU_COUNT(SETTINGS); i++)
        names[count++] = SETTINGS[i].name;
    char word[64], near[128];
    snprintf(word, sizeof word, "%.*s", (int)length, text);
    if (*mgpu_did_you_mean(word, names, count, near))
        mgpu_fail(MGPU_BAD_USAGE, "--set %s: the program has no setting '%.*s'%s", text, (int)length, text, near);
    int taken = 0; /* names that are not of fixed settings */
    for (int i = 0; i < count; i++)
        if (i < first_fixed || i >= first_fixed + p->fixed_setting_count)
            names[taken++] = names[i];
    mgpu_fail(MGPU_BAD_USAGE,
              "--set %s: the program has no setting '%.*s'; here --set takes %s; see mgpuc --help for what is fixed at "
              "compile time",
              text, (int)length, text, mgpu_join_names(names, taken));
}

static void apply(RunOptions *, const mgpu_program *, const OptionInfo *, const char *name, const char *value);

static void read_setting(RunOptions *o, const mgpu_program *p, const char *option, const char *text)
{
    const char *equals = strchr(text, '=');
    (void)option;
    if (!equals || equals == text || !equals[1])
        mgpu_fail(MGPU_BAD_USAGE, "--set takes NAME=VALUE, as in --set lr=0.05, not '%s'", text);
    size_t length = (size_t)(equals - text);
    const OptionInfo *own = find_setting(text, length);
    if (own) {
        char name[32];
        snprintf(name, sizeof name, "--set %s=", own->name);
        apply(o, p, own, name, equals + 1);
        return;
    }
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
    if (o->setting[found] < 0) /* as for lr and decay in the train block */
        mgpu_fail(MGPU_BAD_USAGE, "--set %s: %s must not be negative", text, p->settings[found].name);
}

static bool takes_setting(const mgpu_program *p, const char *text)
{
    size_t length = strcspn(text, "=");
    const OptionInfo *own = find_setting(text, length);
    if (own)
        return own->read == read_patience ? p->best.metric != NULL : own->read != read_seed;
    for (int i = 0; i < p->setting_count; i++)
        if (!p->settings[i].hidden && named(p->settings[i].name, text, length))
            return true;
    return false;
}

static const OptionInfo OPTIONS[] = {
    {"--data", TRAIN | TRAINED | GRADIENTS, TEXT, .at = offsetof(RunOptions, data), .repeated = true},
    {"--epochs", TRAIN, WHOLE, .at = offsetof(RunOptions, epochs), .least = 1, .kept = true},
    {"--steps", TRAIN | BENCH, WHOLE, .at = offsetof(RunOptions, steps), .least = 1, .kept = true},
    {"--stop-after", TRAIN, WHOLE, .at = offsetof(RunOptions, stop_after), .least = 1},
    {"--stall", TRAIN | TRAINED | BENCH | GRADIENTS, READ, .read = read_stall},
    {"--devices", ANY, TEXT, .at = offsetof(RunOptions, devices), .repeated = true},
    {"--threads", TRAIN | TRAINED | INFO | BENCH | GRADIENTS, READ, .read = read_threads, .repeated = true},
    {"--seed", TRAIN | BENCH | TRAINED | GRADIENTS, READ, .read = read_seed},
    {"--set", TRAIN | TRAINED | BENCH | GRADIENTS, READ, .read = read_setting, .kept = true},
    {"--init", TRAIN | TRAINED | GRADIENTS | INFO, READ, .read = read_init},
    {"--as", EXPORT, TEXT, .at = offsetof(RunOptions, as)},
    {"--config", EXPORT, READ, .read = read_config},
    {"--vocabulary", GENERATE | EXPORT, TEXT, .at = offsetof(RunOptions, vocabulary)},
    {"--rules", TRAIN | TRAINED | GRADIENTS | INFO, TEXT, .at = offsetof(RunOptions, rules)},
    {"--save", TRAIN | TRAINED, TEXT, .at = offsetof(RunOptions, save)},
    {"--no-save", TRAIN, NO_FLAG, .at = offsetof(RunOptions, write)},
    {"--overwrite", TRAIN, FLAG, .at = offsetof(RunOptions, overwrite)},
    {"--failed-saves", TRAIN, WHOLE, .at = offsetof(RunOptions, failed_saves), .least = 1, .repeated = true},
    {"--resume", TRAIN | TRAINED, TEXT, .at = offsetof(RunOptions, resume)},
    {"--weights", TRAINED, READ, .read = read_weights},
    {"--log", TRAIN | EVAL, TEXT, .at = offsetof(RunOptions, log), .repeated = true},
    {"--tensorboard", TRAIN, TEXT, .at = offsetof(RunOptions, tensorboard), .repeated = true},
    {"--histograms", TRAIN, WHOLE, .at = offsetof(RunOptions, histograms), .least = 1, .repeated = true},
    {"--trace", TRAIN, TEXT, .at = offsetof(RunOptions, trace)},
    {"--trace-steps", TRAIN, TEXT, .at = offsetof(RunOptions, trace_steps)},
    {"--no-shuffle", TRAIN, NO_FLAG, .at = offsetof(RunOptions, shuffle), .kept = true},
    {"--no-eval", TRAIN, NO_FLAG, .at = offsetof(RunOptions, evaluate), .repeated = true},
    {"--output", PREDICT | REPORT, TEXT, .at = offsetof(RunOptions, output)},
    {"-o", PREDICT | REPORT, TEXT, .at = offsetof(RunOptions, output)},
    {"--only", PREDICT, TEXT, .at = offsetof(RunOptions, only)},
    {"--samples", PREDICT, WHOLE, .at = offsetof(RunOptions, samples), .least = 1},
    {"--length", GENERATE, WHOLE, .at = offsetof(RunOptions, length), .least = 1},
    {"--temperature", GENERATE, READ, .read = read_temperature},
    {"--top-k", GENERATE, WHOLE, .at = offsetof(RunOptions, top_k), .least = 1},
    {"--top-p", GENERATE, READ, .read = read_top_p},
    {"--stop", GENERATE, READ, .read = read_stop},
    {"--prompts", GENERATE, TEXT, .at = offsetof(RunOptions, prompts)},
    {"--ignore-eos", GENERATE, FLAG, .at = offsetof(RunOptions, ignore_eos)},
    {"--warmup", BENCH, WHOLE, .at = offsetof(RunOptions, warmup)},
    {"--json", BENCH | GENERATE, FLAG, .at = offsetof(RunOptions, json)},
    {"--profile", BENCH, FLAG, .at = offsetof(RunOptions, profile)},
    {"--measure", BENCH, TEXT, .at = offsetof(RunOptions, measure)},
    {"--batch", BENCH | GENERATE, READ, .read = read_batch},
    {"--weak", BENCH, FLAG, .at = offsetof(RunOptions, weak)},
    {"--strong", BENCH, FLAG, .at = offsetof(RunOptions, strong)},
    {"--tune", TRAIN | TRAINED | BENCH, FLAG, .at = offsetof(RunOptions, tune), .repeated = true},
    {"--page", SCHEDULE, FLAG, .at = offsetof(RunOptions, page)},
    {"--full", SCHEDULE, FLAG, .at = offsetof(RunOptions, full)},
    {"--timeline", SCHEDULE, FLAG, .at = offsetof(RunOptions, timeline)},
    {"--op", SCHEDULE, TEXT, .at = offsetof(RunOptions, op)},
    {"--layer", SCHEDULE, TEXT, .at = offsetof(RunOptions, layer)},
    {"--at", SCHEDULE, TEXT, .at = offsetof(RunOptions, at)},
    {"--phase", SCHEDULE, TEXT, .at = offsetof(RunOptions, phase)},
    {"--device", SCHEDULE, TEXT, .at = offsetof(RunOptions, device)},
    {"--version", ANY, FLAG, .read = say_version},
    {"--help", ANY, FLAG, .read = say_help},
    {"-h", ANY, FLAG, .read = say_help},
};

static bool takes_value(const OptionInfo *option) { return option->kind != FLAG && option->kind != NO_FLAG; }

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
    usage("there is no option ", word, mgpu_did_you_mean(word, names, MGPU_COUNT(OPTIONS), near));
}

static void apply(RunOptions *o, const mgpu_program *p, const OptionInfo *option, const char *name, const char *value)
{
    void *member = (char *)o + option->at;
    if (option->read)
        option->read(o, p, name, value);
    else if (option->kind == WHOLE)
        *(int64_t *)member = whole_number(name, value, option->least);
    else if (option->kind == QUANTITY)
        *(mgpu_quantity *)member = mgpu_read_quantity(option->name, value, false);
    else if (option->kind == TEXT)
        *(const char **)member = value;
    else
        *(bool *)member = option->kind == FLAG;
}

/* Sets o->command by the first word that is neither an option nor its value, and returns its index; 0: there is none. */
static int find_command(RunOptions *o, const mgpu_program *p, int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        if (argv[i][0] == '-' && argv[i][1]) {
            size_t length = strcspn(argv[i], "=");
            if (takes_value(find_option(p, argv[i], length)) && !argv[i][length])
                i++;
            continue;
        }
        for (int k = 0; k < MGPU_COUNT(COMMANDS); k++)
            if (strcmp(argv[i], COMMANDS[k]) == 0) {
                o->command = (CommandKind)k;
                return i;
            }
        char near[128];
        usage("there is no command '", argv[i],
              mgpu_format("'%s", mgpu_did_you_mean(argv[i], COMMANDS, MGPU_COUNT(COMMANDS), near)));
    }
    return 0;
}

/* ---- options that a resumed run (--resume) keeps unless they are given again */

static void keep_option(RunOptions *o, const OptionInfo *option, const char *value)
{
    bool seed = option->read == read_setting && named("seed", value, strcspn(value, "="));
    if (option->kept && !seed)
        MGPU_PUSH(o->repeated, o->repeated_count, value ? mgpu_format("%s %s", option->name, value) : option->name);
}

/* Quotes a word for a shell. */
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

char *mgpu_resume_command(const RunOptions *o, const char *folder)
{
    char *program = quoted(o->argc ? o->argv[0] : o->program), *place = quoted(folder);
    char *all = mgpu_format("%s --resume %s", program, place);
    for (int i = 1; i < o->argc; i++) {
        if (o->argv[i][0] != '-' || !o->argv[i][1])
            continue;
        size_t length = strcspn(o->argv[i], "=");
        const OptionInfo *option = find_option(NULL, o->argv[i], length); /* the option is known */
        const char *value = !takes_value(option) ? NULL : o->argv[i][length] ? o->argv[i] + length + 1 : o->argv[++i];
        if (!option->repeated)
            continue;
        char *word = value ? quoted(value) : NULL,
             *longer = mgpu_format("%s %s%s%s", all, option->name, word ? " " : "", word ? word : "");
        free(all);
        free(word);
        all = longer;
    }
    free(program);
    free(place);
    return all;
}

/* Finds what an option sets: "lr" in "--set lr=0.05"; steps count as epochs. Returns the length of the name. */
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

static bool given_anew(const RunOptions *o, const char *text)
{
    const char *name, *other;
    size_t length = kept_name(text, &name);
    for (int i = 0; i < o->repeated_count; i++)
        if (kept_name(o->repeated[i], &other) == length && memcmp(name, other, length) == 0)
            return true;
    return false;
}

void mgpu_keep_options(RunOptions *o, const mgpu_program *p, char *const *kept, int count)
{
    RunOptions now = *o;
    o->repeated = NULL;
    o->repeated_count = 0;
    for (int i = 0; i < count; i++) {
        size_t length = strcspn(kept[i], " ");
        const char *value = kept[i][length] ? kept[i] + length + 1 : NULL;
        const OptionInfo *option = NULL;
        for (int k = 0; k < MGPU_COUNT(OPTIONS); k++)
            if (named(OPTIONS[k].name, kept[i], length) && takes_value(&OPTIONS[k]) == (value != NULL))
                option = &OPTIONS[k];
        if (!option || given_anew(&now, kept[i]))
            continue;
        if (option->read == read_setting && !takes_setting(p, value)) {
            mgpu_say("%s: warning: the run in %s was begun with %s, which this program has no setting for", o->program, o->resume,
                     kept[i]);
            continue;
        }
        int before = o->repeated_count;
        keep_option(o, option, value);
        if (o->repeated_count > before) /* the value is in the copy, because `kept` is freed */
            apply(o, p, option, option->name, value ? strchr(o->repeated[before], ' ') + 1 : NULL);
    }
    o->from_resumed = o->repeated_count;
    for (int i = 0; i < now.repeated_count; i++)
        MGPU_PUSH(o->repeated, o->repeated_count, now.repeated[i]);
}

static void check_combination(const RunOptions *o, const mgpu_program *p)
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
        usage("--save ", o->save,
              mgpu_format(": the program was compiled with --plan %s (%s), whose weights are no checkpoint", p->policy,
                          p->policy_label));
    bool training = o->command == COMMAND_TRAIN || o->command == COMMAND_BENCH || o->command == COMMAND_CHECK_GRADIENTS;
    if (p->predicts && training && p->policy_label)
        usage("the program was compiled with --plan ", p->policy,
              ", which has no loss to train: it predicts and evaluates. Leave --plan out to train");
    if (p->predicts && training)
        mgpu_fail(MGPU_BAD_USAGE,
                  "the model of %s has no loss, so there is nothing to train: the program predicts (%s predict IN -o OUT). To "
                  "train it, write loss cross_entropy(logits, label) or the like into the model, and compile it again",
                  p->model_file, o->program);
    if (mgpu_asks_for_rows(o) && (o->profile || o->measure))
        usage(o->profile ? "--profile" : "--measure", "", " is of one number of devices and the program's batch: --devices 2");
    if (o->command == COMMAND_TRAIN && o->operand_count)
        usage("what is '", o->operands[0], "'? Training takes options only");
    if ((o->command == COMMAND_INFO || o->command == COMMAND_SCHEDULE || o->command == COMMAND_BENCH ||
         o->command == COMMAND_CHECK_GRADIENTS) &&
        o->operand_count)
        usage("what is '", o->operands[0], "'?");
}

void mgpu_read_options(RunOptions *o, const mgpu_program *p, int argc, char **argv)
{
    const char *slash = argc ? strrchr(argv[0], '/') : NULL;
    *o = mgpu_default_options(p, slash ? slash + 1 : argc ? argv[0] : p->name);
    o->plans = mgpu_no_plans();
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
        if (value && !takes_value(option))
            usage(option->name, " takes no value", "");
        if (!value && takes_value(option) && !(value = ++i < argc ? argv[i] : NULL))
            usage(option->name, " needs a value", "");
        if (!(option->commands & 1 << o->command))
            usage(option->name, " means nothing to the command ", COMMANDS[o->command]);
        apply(o, p, option, option->name, value);
        keep_option(o, option, value);
    }
    check_combination(o, p);
    o->write = o->write && !p->unsaved;
    if (!o->threads_given)
        o->threads = mgpu_default_threads(o->program);
}
