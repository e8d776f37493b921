/* generate.c: `generate`: continues texts by one character or token at a time.
 *
 * next.c computes the output rows of several texts side by side. The next element is sampled with --temperature and --seed, and
 * appended to its text. Random numbers depend on the seed, the prompt's number and the element's, so that a text does not depend
 * on the others. Texts are printed in the order of their prompts; later ones wait. */
#include "runtime/base/base.h"
#include "runtime/base/options.h"
#include "runtime/base/terminal.h"
#include "runtime/data/data.h"
#include "runtime/data/sets.h"
#include "runtime/data/vocabulary.h"
#include "runtime/engine/engine.h"
#include "runtime/engine/processes.h"
#include "runtime/run/commands.h"
#include "runtime/run/next.h"
#include "runtime/run/sampling.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* a prompt and its continuation */
typedef struct Continued {
    NextText next; /* first, so that a NextText can be cast to Continued */
    const char *prompt;
    size_t prompt_bytes;
    int64_t number, sampled; /* index of the prompt; number of elements after it */
    char *made; /* the continuation, in which a stop text may begin after `stop_begin` bytes; `printed` bytes are printed */
    size_t made_bytes, stop_begin, printed;
    bool begun, ended; /* the prompt has been printed; the text has ended */
} Continued;

typedef struct Writer {
    const mgpu_program *program;
    const RunOptions *options;
    TextCode code;
    int output;  /* index of the output with the probabilities */
    bool logits; /* the output has logits, to which softmax is applied */
    Next next;
    double *chance; /* for each class; scratch */
    Continued *texts;
    int64_t count, ended; /* ended: number of texts that have ended */
    Screen screen;
} Writer;

/* ---- does the model read text? */
const mgpu_call *mgpu_reader_of_text(const mgpu_program *p)
{
    static const char *const READERS[] = {"characters", "text", "tokens"};
    for (int i = 0; i < p->set_count; i++)
        for (int k = 0; k < MGPU_COUNT(READERS); k++)
            if (strcmp(p->sets[i].calls[0].name, READERS[k]) == 0)
                return &p->sets[i].calls[0];
    return NULL;
}

static const mgpu_input *input_of_text(const mgpu_program *p, const bool *wanted)
{
    const mgpu_input *found = NULL;
    for (int i = 0; i < p->input_count; i++) {
        const mgpu_input *in = &p->inputs[i];
        if (wanted[i] && (found || strcmp(in->tensor.name, "token") != 0 || in->tensor.rank != 1 || !in->classes))
            mgpu_fail(MGPU_BAD_INPUT,
                      "generate continues a text, of which the model reads a window, as input token: class(65)[64]; its "
                      "outputs depend on the input '%s'%s",
                      in->tensor.name, found ? ", too" : "");
        found = wanted[i] ? in : found;
    }
    return found;
}

static int output_of_text(const mgpu_program *p, const mgpu_input *in)
{
    for (int i = 0; i < p->output_count; i++)
        if (in && p->outputs[i].rank == 2 && p->outputs[i].extent[0] == in->tensor.extent[0] &&
            p->outputs[i].extent[1] == in->classes)
            return i;
    mgpu_fail(MGPU_BAD_INPUT,
              "%s has no output with the probabilities of what follows each place of the text: write "
              "`output probability = softmax(logits)` in the model%s",
              p->model_file,
              in ? mgpu_format(", of the shape [%lld, %lld]", (long long)in->tensor.extent[0], (long long)in->classes) : "");
}

/* Returns the contents of a file, or of standard input, without the last newline. The caller frees. */
static char *read_all(const char *path, size_t *bytes)
{
    bool input = strcmp(path, "-") == 0;
    int fd = input ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
    char *text, piece[4096];
    FILE *f = mgpu_begin_text(&text, bytes);
    ssize_t n = fd < 0 ? -1 : 0;
    while (fd >= 0 && (n = read(fd, piece, sizeof piece)) > 0)
        fwrite(piece, 1, (size_t)n, f);
    if (n < 0)
        mgpu_fail(MGPU_BAD_INPUT, "%s: %s", input ? "standard input" : path, strerror(errno));
    mgpu_end_text(f);
    if (!input)
        close(fd);
    *bytes -= *bytes && text[*bytes - 1] == '\n';
    text[*bytes] = 0;
    if (!*bytes)
        mgpu_fail(MGPU_BAD_INPUT, "%s is empty: generate continues a text", input ? "standard input" : path);
    return text;
}

/* Returns the operand, or the contents of a file. The caller frees. */
static char *prompt_of(const RunOptions *o, size_t *bytes)
{
    if (o->prompts && o->operand_count)
        mgpu_fail(MGPU_BAD_USAGE, "generate continues one text, or those of --prompts %s: leave '%s' out", o->prompts,
                  o->operands[0]);
    if (!o->prompts && (o->operand_count != 1 || !*o->operands[0]))
        mgpu_fail(MGPU_BAD_USAGE, "generate continues one text: %s generate 'Once upon a time' (- is standard input)",
                  o->program);
    if (o->prompts || strcmp(o->operands[0], "-") == 0)
        return read_all(o->prompts ? o->prompts : "-", bytes);
    *bytes = strlen(o->operands[0]);
    return mgpu_format("%s", o->operands[0]);
}

/* Returns rank 0's prompt, since only rank 0 has standard input. The caller frees. */
static char *shared_prompt(const RunOptions *o, size_t *bytes)
{
    Processes *p = o->processes;
    char *prompt = mgpu_speaks(p) ? prompt_of(o, bytes) : NULL;
    if (!p)
        return prompt;
    *bytes = (size_t)p->follow(p, prompt ? (int)*bytes : 0);
    int64_t at[p->count + 1];
    for (int r = 0; r <= p->count; r++)
        at[r] = r ? (int64_t)*bytes : 0;
    prompt = prompt ? prompt : mgpu_allocate(*bytes + 1, 1);
    p->gather(p, prompt, at);
    return prompt;
}

/* ---- the next element */
static void check_chances(const Writer *w, double sum, double least)
{
    const mgpu_tensor *t = &w->program->outputs[w->output];
    if (!isfinite(sum))
        mgpu_fail(MGPU_BAD_INPUT, "the output '%s' is not finite", t->name);
    if (least < 0 || fabs(sum - 1) > 0.02)
        mgpu_fail(MGPU_BAD_INPUT,
                  "the output '%s' is no distribution: a row has the sum %.4g%s; write `output %s = softmax(...)`", t->name, sum,
                  least < 0 ? " and negative elements" : "", t->name);
}

/* Samples the class after the text's last element. */
static int64_t sample_class(const Writer *w, const Continued *c, const double *row)
{
    int64_t n = w->code.input->classes;
    double sum = 0, least = 0;
    for (int64_t k = 0; k < n; k++) {
        sum += row[k];
        least = row[k] < least ? row[k] : least;
        w->chance[k] = mgpu_may_follow(&w->code, k) ? row[k] : -1;
    }
    check_chances(w, sum, least);
    return mgpu_sample_class(w->chance, n, w->options, c->sampled, c->number);
}

static void take_softmax(double *row, int64_t n)
{
    double most = row[0], sum = 0;
    for (int64_t k = 1; k < n; k++)
        most = row[k] > most ? row[k] : most;
    for (int64_t k = 0; k < n; k++)
        sum += row[k] = exp(row[k] - most);
    for (int64_t k = 0; k < n; k++)
        row[k] /= sum;
}

/* Samples an element and appends it. The text ends at a stop text or an end token of the vocabulary. */
static void go_on(void *writer, NextText *next, double *row)
{
    Writer *w = writer;
    Continued *c = (Continued *)next;
    size_t count, said;
    if (w->logits)
        take_softmax(row, w->code.input->classes);
    int64_t element = sample_class(w, c, row);
    bool last = !w->options->ignore_eos && mgpu_ends_text(&w->code, element);
    if (!last) {
        mgpu_add_element(&next->text, element);
        char *bytes = mgpu_spell_element(&w->code, element, &count);
        c->made = mgpu_resize(c->made, c->made_bytes + count + 1);
        memcpy(c->made + c->made_bytes, bytes, count);
        free(bytes);
        c->made_bytes += count;
        c->ended = mgpu_find_stop(w->options, c->made + c->stop_begin, c->made_bytes - c->stop_begin, &said);
        c->stop_begin += said;
    }
    if (!c->ended && (last || ++c->sampled == w->options->length)) {
        c->ended = true;
        c->stop_begin = c->made_bytes;
    }
    if (!c->ended)
        return;
    mgpu_end_next(&w->next, next);
    w->ended++;
}

/* ---- texts */
static void show_json(const Continued *c, FILE *f)
{
    char *prompt = mgpu_format("%.*s", (int)c->prompt_bytes, c->prompt),
         *text = mgpu_format("%.*s", (int)c->stop_begin, c->made ? c->made : "");
    fputs("{\"prompt\":", f);
    mgpu_json_write_text(f, prompt);
    fputs(",\"text\":", f);
    mgpu_json_write_text(f, text);
    fputs("}\n", f);
    free(prompt);
    free(text);
}

/* Prints what there is of the first unfinished text. */
static void show(Writer *w, Continued *c)
{
    Screen *s = &w->screen;
    if (w->options->json) {
        if (c->ended)
            show_json(c, s->file);
    } else {
        if (!c->begun)
            mgpu_show_text(s, c->prompt, c->prompt_bytes, false);
        mgpu_show_text(s, c->made + c->printed, c->stop_begin - c->printed, false);
        if (c->ended)
            mgpu_show_text(s, "\n", 1, true);
        c->printed = c->stop_begin;
        c->begun = true;
    }
    fflush(s->file); /* mgpu_finish_file reports errors */
}

/* Computes at most `most` texts at a time. */
static void write_texts(Writer *w, int64_t most)
{
    int64_t begun = 0, shown = 0;
    while (shown < w->count && !ferror(w->screen.file)) {
        for (; begun < w->count && begun - w->ended < most; begun++)
            mgpu_begin_next(&w->next, &w->texts[begun].next);
        show(w, &w->texts[shown]);
        if (w->texts[shown].ended)
            shown++;
        else
            mgpu_step_next(&w->next, go_on, w);
    }
}

static void add_text(Writer *w, const char *prompt, size_t bytes, const char *where)
{
    Continued c = {.prompt = prompt, .prompt_bytes = bytes, .number = w->count};
    char *alone = mgpu_allocate(bytes + 1, 1);
    memcpy(alone, prompt, bytes);
    mgpu_read_prompt(&w->code, &c.next.text, alone, (int64_t)bytes, where);
    free(alone);
    MGPU_PUSH(w->texts, w->count, c);
}

/* Reads one prompt, or one from each line. */
static void read_prompts(Writer *w, const char *prompts, size_t bytes)
{
    if (!w->options->prompts)
        add_text(w, prompts, bytes, "");
    for (const char *at = prompts, *end = prompts + bytes, *stop; w->options->prompts && at <= end; at = stop + 1) {
        char where[64];
        stop = memchr(at, '\n', (size_t)(end - at));
        stop = stop ? stop : end;
        if (stop == at)
            mgpu_fail(MGPU_BAD_INPUT, "line %lld of the prompts is empty: generate continues texts", (long long)w->count + 1);
        snprintf(where, sizeof where, "line %lld of the prompts: ", (long long)w->count + 1);
        add_text(w, at, (size_t)(stop - at) - (stop - at > 1 && stop[-1] == '\r'), where);
    }
}

static void open_text_vocabulary(TextCode *c, const mgpu_program *program, const RunOptions *o)
{
    char *folder = mgpu_vocabulary_folder(program, o, true);
    c->numbers = !folder;
    if (folder)
        c->vocabulary = mgpu_read_vocabulary(folder, "");
    free(folder);
}

/* Returns the maximal number of texts that are computed side by side. */
static int64_t find_most(const RunOptions *o, const mgpu_plan *plan)
{
    if (o->side > plan->micro)
        mgpu_fail(MGPU_BAD_USAGE, "--batch %lld: the program computes batches of %lld: mgpuc --set batch=%lld makes one for more",
                  (long long)o->side, (long long)plan->micro, (long long)o->side);
    return o->side > 0 ? o->side : plan->micro;
}

static void close_writer(Writer *w)
{
    mgpu_close_next(&w->next);
    for (int64_t i = 0; i < w->count; i++) {
        free(w->texts[i].next.text.of);
        free(w->texts[i].made);
    }
    free(w->texts);
    free(w->chance);
    if (w->code.vocabulary)
        mgpu_close_vocabulary(w->code.vocabulary);
}

int mgpu_generate(const mgpu_program *program, const RunOptions *o)
{
    Writer w = {.program = program, .options = o};
    bool *wanted = mgpu_allocate((size_t)program->input_count, sizeof *wanted);
    size_t bytes;
    char *prompt = shared_prompt(o, &bytes);
    const mgpu_call *reader = mgpu_reader_of_text(program);
    const mgpu_plan *plan = mgpu_choose_plan(program, o);
    Feed feed;
    if (!reader)
        mgpu_fail(MGPU_BAD_INPUT, "generate continues a text: %s reads none; data { train = characters(\"input.txt\") } does",
                  program->model_file);
    mgpu_wanted_inputs(program, plan, 1u << MGPU_PHASE_PREDICT, wanted);
    w.code.input = input_of_text(program, wanted);
    w.output = output_of_text(program, w.code.input);
    w.logits = strcmp(program->outputs[w.output].name, "logits") == 0;
    int64_t most = find_most(o, plan);
    w.screen = (Screen){.terminal = isatty(STDOUT_FILENO)};
    w.screen.file = mgpu_speaks(o->processes) ? mgpu_take_output() : fopen("/dev/null", "we");
    if (!w.screen.file)
        mgpu_fail(MGPU_MACHINE_FAILED, "/dev/null cannot be opened: %s", strerror(errno));
    Categories *categories = mgpu_new_categories(true);
    Engine *engine = mgpu_open_trained(program, o, &feed, categories, mgpu_collect_nothing, NULL);
    if (strcmp(reader->name, "characters") == 0)
        w.code.characters = mgpu_words_of_classes(categories, w.code.input);
    else
        open_text_vocabulary(&w.code, program, o);
    read_prompts(&w, prompt, bytes);
    mgpu_open_next(&w.next, program, &feed, o->processes, w.code.input, w.output, wanted);
    w.chance = mgpu_allocate((size_t)w.code.input->classes, sizeof *w.chance);
    write_texts(&w, most);
    int error = mgpu_finish_file(w.screen.file, false);
    if (error)
        mgpu_fail(MGPU_MACHINE_FAILED, "standard output cannot be written: %s", strerror(error));
    mgpu_engine_close(engine, "the text is written");
    close_writer(&w);
    mgpu_free_categories(categories);
    free(prompt);
    free(wanted);
    return 0;
}
