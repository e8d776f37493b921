/* generate.c: `generate`: a text that the model continues, a character or token at a time.
 *
 * The window that the model reads holds the text's last elements, from its first place on; the output's row at the last of
 * them has the probabilities of the next one, which is sampled by --temperature and --seed and joins the text. Places after
 * it hold 0; that they do not matter is tried at first. While the text fits into the window, a program that has the phase for it
 * computes the row of one place alone (decode.c), if that is what the whole window gives for the text's first elements; else
 * every element is a whole pass of the window. */
#include "runtime/base/base.h"
#include "runtime/base/options.h"
#include "runtime/base/terminal.h"
#include "runtime/data/data.h"
#include "runtime/data/sets.h"
#include "runtime/data/vocabulary.h"
#include "runtime/engine/engine.h"
#include "runtime/engine/processes.h"
#include "runtime/run/commands.h"
#include "runtime/run/decode.h"
#include "runtime/run/sampling.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct Text {
    const mgpu_input *input;
    bool numbers;             /* texts are tokens' numbers: no vocabulary is known */
    const Words *characters;  /* by class; NULL: the digits of its number */
    Vocabulary *vocabulary;   /* of text and tokens */
    int64_t *tokens, count, room;
} Text;

typedef struct Screen {
    FILE *file;
    bool terminal;
    char held[8];
    char *kept; size_t kept_bytes; /* of the generated text: what may be the beginning of a stop text */
} Screen;

typedef struct Writer {
    const mgpu_program *program;
    Feed feed;
    Text text;
    int output;         /* which one holds the probabilities */
    bool logits;        /* or what their softmax is taken of */
    uint8_t **result;   /* by output */
    int32_t *window;    /* that the data set reads */
    Dataset data;
    double *row, *chance; /* by class: of the output after the text's last element; scratch */
    Decoder decoder;
    bool ordered, checked, decodes; /* what check_order and check_decoder have found */
    Processes *processes;
} Writer;

/* ---- is it a model of text? */
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
            mgpu_fail(MGPU_BAD_INPUT, "generate continues a text, of which the model reads a window, as input token: class(65)[64]; its "
                      "outputs depend on the input '%s'%s", in->tensor.name, found ? ", too" : "");
        found = wanted[i] ? in : found;
    }
    return found;
}

static int output_of_text(const mgpu_program *p, const mgpu_input *in)
{
    for (int i = 0; i < p->output_count; i++)
        if (in && p->outputs[i].rank == 2 && p->outputs[i].extent[0] == in->tensor.extent[0] && p->outputs[i].extent[1] == in->classes)
            return i;
    mgpu_fail(MGPU_BAD_INPUT, "%s has no output with the probabilities of what follows each place of the text: write "
              "`output probability = softmax(logits)` in the model%s", p->model_file,
              in ? mgpu_format(", of the shape [%lld, %lld]", (long long)in->tensor.extent[0], (long long)in->classes) : "");
}

/* ---- text <-> elements */
static void add_token(Text *t, int64_t token)
{
    if (t->count == t->room) {
        t->room = t->room ? 2 * t->room : 256;
        t->tokens = mgpu_resize(t->tokens, (size_t)t->room * sizeof *t->tokens);
    }
    t->tokens[t->count++] = token;
}

static int64_t class_of_character(const Text *t, const char *text, int length)
{
    if (!t->characters)
        return length == 1 && *text >= '0' && *text <= '9' && *text - '0' < (int64_t)t->input->classes ? *text - '0' : -1;
    for (int64_t k = 0; k < t->characters->count; k++)
        if (t->characters->text[k] && strlen(t->characters->text[k]) == (size_t)length && memcmp(t->characters->text[k], text, (size_t)length) == 0)
            return k;
    return -1;
}

static void read_characters(Text *t, const char *prompt, int64_t bytes)
{
    uint32_t code;
    for (int64_t i = 0, length; i < bytes; i += length) {
        length = mgpu_decode_utf8((const uint8_t *)prompt, bytes, i, &code);
        if (!length)
            mgpu_fail(MGPU_BAD_INPUT, "the prompt's byte %lld (0x%02x) is not UTF-8", (long long)i, (unsigned char)prompt[i]);
        int64_t class = class_of_character(t, prompt + i, (int)length);
        if (class < 0 && t->input->other == MGPU_NO_LABEL)
            mgpu_fail(MGPU_BAD_INPUT, "the prompt's character %lld, '%.*s', is in no text that trained the model: leave it out",
                      (long long)t->count + 1, (int)length, prompt + i);
        add_token(t, class < 0 ? t->input->other : class);
    }
}

static void add_known_token(Text *t, int64_t token)
{
    if (token >= t->input->classes)
        mgpu_fail(MGPU_BAD_INPUT, "the prompt has the token %lld; input '%s' has the classes 0 to %lld", (long long)token,
                  t->input->tensor.name, (long long)t->input->classes - 1);
    add_token(t, token);
}

static void read_numbers(Text *t, const char *prompt)
{
    static const char BLANKS[] = " \t\r\n";
    for (const char *at = prompt + strspn(prompt, BLANKS), *end; *at; at = end + strspn(end, BLANKS)) {
        end = at + strspn(at, "0123456789");
        if (end == at || end - at > 18 || !strchr(BLANKS, *end))
            mgpu_fail(MGPU_BAD_INPUT, "no vocabulary is known for the tokens of this model, so a prompt is their numbers, as in '15 27', not '%s': "
                      "--vocabulary FOLDER names one, which has tokenizer.json, or vocab.json and merges.txt; "
                      "tokens(..., vocabulary = \"FOLDER\") of the data block does, too", prompt);
        add_known_token(t, strtoll(at, NULL, 10));
    }
}

static void read_prompt(Text *t, const char *prompt, int64_t bytes)
{
    if (t->numbers) {
        read_numbers(t, prompt);
    } else if (!t->vocabulary) {
        read_characters(t, prompt, bytes);
    } else {
        uint8_t dtype;
        int64_t count;
        void *tokens = mgpu_encode_text(t->vocabulary, (const uint8_t *)prompt, bytes, &dtype, &count);
        for (int i = 0; i < t->vocabulary->begin_count; i++)
            add_known_token(t, t->vocabulary->begin[i]);
        for (int64_t i = 0; i < count; i++)
            add_known_token(t, (int64_t)mgpu_to_double(tokens, dtype, i));
        free(tokens);
    }
    if (!t->count)
        mgpu_fail(MGPU_BAD_INPUT, "the prompt '%s' has no tokens: generate continues a text", prompt);
}

static bool is_known(const Text *t, int64_t class)
{
    return t->vocabulary || !t->characters || (class < t->characters->count && t->characters->text[class]);
}

/* how many of the last bytes begin a character that is not whole yet */
static size_t begun(const char *bytes, size_t count)
{
    for (size_t k = 1; k <= 3 && k <= count; k++) {
        unsigned char c = (unsigned char)bytes[count - k];
        if (c >= 0xC0)
            return k < (c >= 0xF0 ? 4u : c >= 0xE0 ? 3u : 2u) ? k : 0;
        if (c < 0x80)
            break;
    }
    return 0;
}

/* A terminal gets plain text, by whole characters: `held` is the beginning of one, of which tokens may be parts. */
static void show(Screen *s, const char *bytes, size_t count, bool last)
{
    if (!s->terminal) {
        fwrite(bytes, 1, count, s->file);
        return;
    }
    char *joined = mgpu_format("%s%.*s", s->held, (int)count, bytes);
    size_t whole = strlen(joined) - (last ? 0 : begun(joined, strlen(joined)));
    snprintf(s->held, sizeof s->held, "%s", joined + whole);
    joined[whole] = 0;
    char *plain = mgpu_plain_text(joined, true);
    fputs(plain ? plain : "", s->file);
    free(plain);
    free(joined);
}

/* the bytes of a token; the caller frees */
static char *spell(const Text *t, int64_t token, size_t *count)
{
    char *bytes;
    FILE *one = mgpu_begin_text(&bytes, count);
    if (t->vocabulary)
        mgpu_spell_token(t->vocabulary, token, false, one);
    else if (t->characters)
        fputs(t->characters->text[token], one);
    else
        fprintf(one, t->numbers ? " %lld" : "%lld", (long long)token);
    mgpu_end_text(one);
    return bytes;
}

/* false: a stop text would follow */
static bool show_token(const Text *t, int64_t token, Screen *screen, const Options *o)
{
    size_t count, said;
    char *bytes = spell(t, token, &count);
    screen->kept = mgpu_resize(screen->kept, screen->kept_bytes + count + 1);
    memcpy(screen->kept + screen->kept_bytes, bytes, count);
    free(bytes);
    bool ends = mgpu_find_stop(o, screen->kept, count += screen->kept_bytes, &said);
    show(screen, screen->kept, said, false);
    screen->kept_bytes = ends ? 0 : count - said;
    memmove(screen->kept, screen->kept + said, screen->kept_bytes);
    return !ends;
}

/* a file, or standard input, without the last line's end; the caller frees */
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

/* the operand, or what a file has; the caller frees */
static char *prompt_of(const Options *o, size_t *bytes)
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

/* rank 0's, which alone has standard input; the caller frees */
static char *shared_prompt(const Options *o, size_t *bytes)
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
        mgpu_fail(MGPU_BAD_INPUT, "the output '%s' is no distribution: a row has the sum %.4g%s; write `output %s = softmax(...)`", t->name,
                  sum, least < 0 ? " and negative elements" : "", t->name);
}

/* the class after the text's last element; number: of elements that were sampled before; text: of prompts before */
static int64_t sample_token(const Writer *w, const Options *o, int64_t number, int64_t text)
{
    int64_t n = w->text.input->classes;
    double sum = 0, least = 0;
    for (int64_t k = 0; k < n; k++) {
        sum += w->row[k];
        least = w->row[k] < least ? w->row[k] : least;
        w->chance[k] = is_known(&w->text, k) ? w->row[k] : -1;
    }
    check_chances(w, sum, least);
    return mgpu_sample_class(w->chance, n, o, number, text);
}

/* rows of the output, from the process that has the window's device, to all: so all sample the same */
static void bring(const Writer *w, int64_t first, int64_t rows)
{
    Processes *p = w->processes;
    const mgpu_tensor *t = &w->program->outputs[w->output];
    int64_t bytes = w->text.input->classes * mgpu_dtype_bytes(t->dtype), at[mgpu_ranks(p) + 1];
    at[0] = 0;
    for (int r = 0; r < mgpu_ranks(p); r++) {
        mgpu_stretch its = mgpu_samples_of(p, w->feed.plan, r);
        at[r + 1] = at[r] + (its.begin == 0 && its.end > 0 ? rows * bytes : 0);
    }
    if (p)
        p->gather(p, w->result[w->output] + first * bytes, at);
}

/* how many elements of the text are in the window */
static int64_t in_window(const Text *t) { return t->count < t->input->tensor.extent[0] ? t->count : t->input->tensor.extent[0]; }

/* of logits their softmax */
static void finish_row(const Writer *w, double *row)
{
    int64_t n = w->text.input->classes;
    double most = row[0], sum = 0;
    if (!w->logits)
        return;
    for (int64_t k = 1; k < n; k++)
        most = row[k] > most ? row[k] : most;
    for (int64_t k = 0; k < n; k++)
        sum += row[k] = exp(row[k] - most);
    for (int64_t k = 0; k < n; k++)
        row[k] /= sum;
}

/* of the window's outputs the row of a place */
static void take_row(const Writer *w, int64_t place, double *row)
{
    for (int64_t k = 0, n = w->text.input->classes; k < n; k++)
        row[k] = mgpu_to_double(w->result[w->output], w->program->outputs[w->output].dtype, place * n + k);
    finish_row(w, row);
}

static void decode_row(Writer *w, int64_t count)
{
    mgpu_decode(&w->decoder, w->text.tokens, count, w->processes, w->row);
    finish_row(w, w->row);
}

/* the window's outputs, with `rest` after the text; the rows from `first` on are there for all processes */
static void pass(Writer *w, int32_t rest, int64_t first)
{
    const Text *t = &w->text;
    int64_t length = t->input->tensor.extent[0], count = in_window(t);
    for (int64_t i = 0; i < length; i++)
        w->window[i] = i < count ? (int32_t)t->tokens[t->count - count + i] : rest;
    Batch batch = {.set = &w->data, .samples = 1, .applied = w->feed.applied, .fetch = w->result};
    mgpu_post(&w->feed, MGPU_PHASE_PREDICT, &batch, 0);
    mgpu_engine_drain(w->feed.engine);
    bring(w, first, count - first);
    take_row(w, count - 1, w->row);
}

static double largest_difference(const double *a, const double *b, int64_t n)
{
    double most = 0;
    for (int64_t k = 0; k < n; k++)
        most = fabs(a[k] - b[k]) <= most ? most : fabs(a[k] - b[k]);
    return most;
}

/* what is after the text must not matter */
static void check_order(Writer *w)
{
    int64_t n = w->text.input->classes;
    pass(w, (int32_t)n - 1, 0);
    memcpy(w->chance, w->row, (size_t)n * sizeof *w->row);
    pass(w, 0, 0);
    if (largest_difference(w->row, w->chance, n) > 1e-3)
        mgpu_fail(MGPU_BAD_INPUT, "the output '%s' depends on places after the one it is for, so it cannot go on with a text: "
                  "transformer(..., causal = true), gru and lstm see earlier places only", w->program->outputs[w->output].name);
}

/* Is the row of one place alone, computed of what the places before have left, what the whole window has there? */
static bool check_decoder(Writer *w)
{
    const char *precision = w->program->precision;
    double allowed = strcmp(precision, "f64") == 0 ? 1e-10 : strcmp(precision, "f32") == 0 ? 1e-3 : 5e-2;
    int64_t n = w->text.input->classes;
    if (w->text.count > w->text.input->tensor.extent[0] || !mgpu_open_decoder(&w->decoder, &w->feed))
        return false;
    for (int64_t i = 0; i < w->text.count; i++) {
        decode_row(w, i + 1);
        take_row(w, i, w->chance);
        double most = largest_difference(w->row, w->chance, n);
        if (most <= allowed)
            continue;
        fprintf(stderr, "%s: place %lld alone gives other probabilities than the whole window (by %.2g), so each token is "
                        "computed with all of the window\n", w->program->model_file, (long long)i + 1, most);
        return false;
    }
    return true;
}

/* the row after the text's last element */
static void next_row(Writer *w)
{
    if (w->decodes && w->text.count <= w->text.input->tensor.extent[0])
        decode_row(w, w->text.count);
    else
        pass(w, 0, in_window(&w->text) - 1);
}

/* a data set of one sample: the window */
static void open_window(Writer *w, const bool *wanted)
{
    const mgpu_input *in = w->text.input;
    int64_t length = in->tensor.extent[0];
    w->window = mgpu_allocate((size_t)length, sizeof *w->window);
    Array a = {.dtype = MGPU_I32, .rank = 1, .extent = {length}, .samples = 1, .sample_bytes = length * (int64_t)sizeof *w->window,
               .data = (const uint8_t *)w->window, .owned = w->window};
    Opening opening = {.program = w->program, .where = ""};
    w->data = (Dataset){.name = "generate", .program = w->program, .stream = mgpu_array_stream(&opening, 1)};
    mgpu_set_array(w->data.stream, 0, in->tensor.name, in, &a, "the text", "");
    mgpu_bind_set(&w->data, wanted, NULL);
}

static void close_writer(Writer *w)
{
    mgpu_close_set(&w->data);
    for (int i = 0; i < w->program->output_count; i++)
        free(w->result[i]);
    free(w->result);
    free(w->chance);
    free(w->row);
    mgpu_close_decoder(&w->decoder);
    free(w->text.tokens);
    if (w->text.vocabulary)
        mgpu_close_vocabulary(w->text.vocabulary);
}

/* ---- texts */
/* what follows the prompt in w->text, the number-th of several */
static void go_on(Writer *w, int64_t number, Screen *screen, const Options *o)
{
    for (int64_t i = 0; i < o->length; i++) {
        next_row(w);
        add_token(&w->text, sample_token(w, o, i, number));
        if (!show_token(&w->text, w->text.tokens[w->text.count - 1], screen, o) || fflush(screen->file) != 0)
            break; /* of an error mgpu_finish_file says why */
    }
    show(screen, screen->kept, screen->kept_bytes, false);
    screen->kept_bytes = 0;
}

static void begin_text(Writer *w, const char *prompt, size_t bytes)
{
    w->text.count = 0;
    w->decoder.count = 0;
    read_prompt(&w->text, prompt, (int64_t)bytes);
    if (w->checked || (w->ordered && w->text.count > w->text.input->tensor.extent[0]))
        return;
    check_order(w);
    w->ordered = true;
    w->checked = w->text.count <= w->text.input->tensor.extent[0];
    w->decodes = w->checked && check_decoder(w);
}

static void write_text(Writer *w, const char *prompt, size_t bytes, int64_t number, Screen *screen, const Options *o)
{
    char *text;
    size_t length;
    begin_text(w, prompt, bytes);
    if (!o->json) {
        show(screen, prompt, bytes, false);
        go_on(w, number, screen, o);
        show(screen, "\n", 1, true);
        return;
    }
    Screen made = {.file = mgpu_begin_text(&text, &length)};
    go_on(w, number, &made, o);
    mgpu_end_text(made.file);
    char *begin = mgpu_format("%.*s", (int)bytes, prompt);
    fputs("{\"prompt\":", screen->file);
    mgpu_json_write_text(screen->file, begin);
    fputs(",\"text\":", screen->file);
    mgpu_json_write_text(screen->file, text);
    fputs("}\n", screen->file);
    fflush(screen->file);
    free(begin);
    free(text);
    free(made.kept);
}

/* a prompt, or a line each */
static void write_texts(Writer *w, const char *prompts, size_t bytes, Screen *screen, const Options *o)
{
    int64_t number = 0;
    if (!o->prompts)
        write_text(w, prompts, bytes, number, screen, o);
    for (const char *at = prompts, *end = prompts + bytes, *stop; o->prompts && at <= end && !ferror(screen->file);
         at = stop + 1) {
        stop = memchr(at, '\n', (size_t)(end - at));
        stop = stop ? stop : end;
        if (stop == at)
            mgpu_fail(MGPU_BAD_INPUT, "line %lld of the prompts is empty: generate continues texts", (long long)number + 1);
        write_text(w, at, (size_t)(stop - at), number++, screen, o);
    }
}

static void open_text_vocabulary(Text *t, const mgpu_program *program, const Options *o)
{
    char *folder = mgpu_vocabulary_folder(program, o, true);
    t->numbers = !folder;
    if (folder)
        t->vocabulary = mgpu_read_vocabulary(folder, "");
    free(folder);
}

int mgpu_generate(const mgpu_program *program, const Options *o)
{
    Writer w = {.program = program, .processes = o->processes};
    bool *wanted = mgpu_allocate((size_t)program->input_count, sizeof *wanted);
    size_t bytes;
    char *prompt = shared_prompt(o, &bytes);
    const mgpu_call *reader = mgpu_reader_of_text(program);
    if (!reader)
        mgpu_fail(MGPU_BAD_INPUT, "generate continues a text: %s reads none; data { train = characters(\"input.txt\") } does", program->model_file);
    mgpu_wanted_inputs(program, mgpu_choose_plan(program, o), 1u << MGPU_PHASE_PREDICT, wanted);
    w.text.input = input_of_text(program, wanted);
    w.output = output_of_text(program, w.text.input);
    w.logits = strcmp(program->outputs[w.output].name, "logits") == 0;
    Screen screen = {.terminal = isatty(STDOUT_FILENO)};
    screen.file = mgpu_speaks(o->processes) ? mgpu_take_output() : fopen("/dev/null", "we");
    if (!screen.file)
        mgpu_fail(MGPU_MACHINE_FAILED, "/dev/null cannot be opened: %s", strerror(errno));
    Categories *categories = mgpu_new_categories(true);
    Engine *engine = mgpu_open_trained(program, o, &w.feed, categories, mgpu_collect_nothing, NULL);
    if (strcmp(reader->name, "characters") == 0)
        w.text.characters = mgpu_words_of_classes(categories, w.text.input);
    else
        open_text_vocabulary(&w.text, program, o);
    open_window(&w, wanted);
    w.chance = mgpu_allocate((size_t)w.text.input->classes, sizeof *w.chance);
    w.row = mgpu_allocate((size_t)w.text.input->classes, sizeof *w.row);
    w.result = mgpu_allocate((size_t)program->output_count, sizeof *w.result);
    for (int i = 0; i < program->output_count; i++)
        w.result[i] = mgpu_allocate(1, (size_t)mgpu_tensor_bytes(&program->outputs[i]));
    write_texts(&w, prompt, bytes, &screen, o);
    free(screen.kept);
    int error = mgpu_finish_file(screen.file, false);
    if (error)
        mgpu_fail(MGPU_MACHINE_FAILED, "standard output cannot be written: %s", strerror(error));
    mgpu_engine_close(engine, "the text is written");
    close_writer(&w);
    mgpu_free_categories(categories);
    free(prompt);
    free(wanted);
    return 0;
}
