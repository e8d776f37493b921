/* document.c: source texts and tables -> entries of `mgpuc doc` and docs/layers.md.
 *
 * The description of a layer is the comment directly above it and after its '{'. "# ---- title: ..." begins a section. */
#include "dsl/document.h"

#include "dsl/elaborate.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>

static const struct {
    const char *file, *title;
} FILES[] = {
    {"core.net", "Helpers"},  {"init.net", "Initialisers"}, {"layers.net", "Layers"},
    {"losses.net", "Losses"}, {"optim.net", "Optimizers"},
};

static const char WORDS_GROUP[] = "Statements", TYPES_GROUP[] = "Types", NAMES_GROUP[] = "Names known everywhere",
                  FIELDS_GROUP[] = "Fields of a tensor", SETTINGS_GROUP[] = "Settings of train";
static const struct {
    const char *group, *name, *signature, *about;
} TEXTS[] = {
    {WORDS_GROUP, "import", "import \"file.net\"", "layers and params of another file, by a path relative to this one"},
    {WORDS_GROUP, "param", "param name = value", "a number, string or list of compile time, which --set name=value replaces"},
    {WORDS_GROUP, "layer", "layer name(x: [h, w, c], width, stride = 1) { ... }",
     "a function that may own weights; every call is a new instance"},
    {WORDS_GROUP, "model", "model name { input ...  loss ... }",
     "what is computed for one sample; one per program, or --model NAME"},
    {WORDS_GROUP, "data", "data { train = ...  valid = ...  test = ... }",
     "where samples come from: readers and stages, joined by |>"},
    {WORDS_GROUP, "train", "train { batch = 128  epochs = 10  lr = 0.01  \"*.bias\" { decay = 0 } }",
     "how the model is trained: settings, and rules for weights whose names match a pattern (lr decay frozen init "
     "optimizer clip loss times)"},
    {WORDS_GROUP, "input", "input image: u8[28, 28]", "a column of the data; in a model"},
    {WORDS_GROUP, "weight", "weight name: f32[out, in] = he()", "a trained tensor and its initialiser"},
    {WORDS_GROUP, "state", "state name: f32[c] = 0", "a tensor that is kept and saved, not trained; `update` sets it"},
    {WORDS_GROUP, "update", "update name = value", "sets a state after the step, in training only"},
    {WORDS_GROUP, "loss", "loss [name =] value",
     "its mean over the samples of the global batch is minimised; several add up; a model without one only predicts"},
    {WORDS_GROUP, "metric", "metric [name =] value",
     "its mean over the samples of a report is printed and logged; what is no mean uses total(x)"},
    {WORDS_GROUP, "output", "output [name =] value", "a column of what `predict` writes"},
    {WORDS_GROUP, "assert", "assert condition [, message]", "ends compilation with the message where the condition is false"},
    {WORDS_GROUP, "return", "return value, ...", "the results of a layer"},
    {WORDS_GROUP, "if", "if condition { ... } else { ... },  if a then b else c",
     "decided at compile time; of tensors: where(c, a, b)"},
    {WORDS_GROUP, "for", "for name, ... in list { ... }", "unrolled at compile time; over the steps of a tensor: scan"},
    {WORDS_GROUP, "scan", "scan name, ... in tensor, ... { ... }",
     "a loop at run time along axis 0: names that were there are carried, new ones are stacked"},
    {TYPES_GROUP, "class", "input label: class(10, ignore = 255, other = 0)",
     "a whole number below 10, or a word that the reader numbers. ignore: one more label, which no loss or metric counts; other: the class "
     "of words that are missing or that training did not see"},
    {TYPES_GROUP, "f32", "f32[3, 4]", "the model's real numbers, which `precision` makes others. f32(x) casts"},
    {TYPES_GROUP, "f64", "f64[3, 4]", "real numbers of 64 bits, of which 53 are precision"},
    {TYPES_GROUP, "bf16", "bf16[3, 4]", "real numbers of 16 bits, with the range of f32 and 8 bits of precision"},
    {TYPES_GROUP, "f16", "f16[3, 4]", "real numbers of 16 bits up to 65504, with 11 bits of precision"},
    {TYPES_GROUP, "u8", "u8[28, 28]", "whole numbers of 8 bits, 0 to 255"},
    {TYPES_GROUP, "i8", "i8[28, 28]", "whole numbers of 8 bits, -128 to 127"},
    {TYPES_GROUP, "u16", "u16[128]", "whole numbers of 16 bits, 0 to 65535"},
    {TYPES_GROUP, "i16", "i16[128]", "whole numbers of 16 bits, -32768 to 32767"},
    {TYPES_GROUP, "u32", "u32[128]", "whole numbers of 32 bits, 0 to 2^32 - 1"},
    {TYPES_GROUP, "i32", "i32[128]", "whole numbers of 32 bits, -2^31 to 2^31 - 1. i32(x) casts"},
    {TYPES_GROUP, "i64", "i64[128]", "whole numbers of 64 bits, -2^63 to 2^63 - 1"},
    {TYPES_GROUP, "bool", "bool[10]", "true or false, as comparisons make them; f32(x) makes 1 and 0 of them"},
    {NAMES_GROUP, "training", "training",
     "true where the model is built for training, false for evaluation and prediction, and in frozen parts"},
    {NAMES_GROUP, "step", "step", "number of the update: 1, 2, ..."},
    {NAMES_GROUP, "epoch", "epoch", "passes over the training data so far, with a fraction"},
    {NAMES_GROUP, "progress", "progress", "share of the run that is done: 0 to 1"},
    {NAMES_GROUP, "pi", "pi", "3.14159..."},
    {NAMES_GROUP, "inf", "inf", "infinity"},
    {FIELDS_GROUP, "shape", "x.shape", "the extents of a sample's axes, a list"},
    {FIELDS_GROUP, "rank", "x.rank", "how many axes a sample has"},
    {FIELDS_GROUP, "channels", "x.channels", "the last extent"},
    {FIELDS_GROUP, "type", "x.type", "the element type: x.type == f32"},
    {FIELDS_GROUP, "classes", "label.classes", "n of an input class(n), and of views of it; else none"},
    {FIELDS_GROUP, "ignore", "label.ignore", "the label of class(n, ignore = k) that no loss or metric counts; else none"},
    {FIELDS_GROUP, "value", "l.value", "of a value with weights (weighted): without them"},
    {FIELDS_GROUP, "weight", "l.weight", "of a value with weights (weighted): these"},
    {SETTINGS_GROUP, "batch", "batch = 32", "samples of a step, over all devices"},
    {SETTINGS_GROUP, "epochs", "epochs = 10", "passes over the training data"},
    {SETTINGS_GROUP, "steps", "steps = N", "updates, instead of epochs"},
    {SETTINGS_GROUP, "lr", "lr = 0.01",
     "learning rate: a number or a rate such as cosine(0.1, warmup = 5epochs); also in rules and at run time"},
    {SETTINGS_GROUP, "decay", "decay = 0", "weight decay, as the optimizer understands it; also in rules and at run time"},
    {SETTINGS_GROUP, "optimizer", "optimizer = sgd()",
     "a layer f(w, g, lr, decay, ...) that returns the new weight; lr and decay are given by the settings"},
    {SETTINGS_GROUP, "precision", "precision = f32",
     "f32; bf16 or f16 for what is kept between operations (f16: with a loss scale, found as it goes); tf32: GPUs may round the operands of products; f64 for checking"},
    {SETTINGS_GROUP, "accumulate", "accumulate = 1", "micro-batches of a step; \"auto\": the fewest that fit into memory"},
    {SETTINGS_GROUP, "clip", "clip = none",
     "limit of the gradient: 1.0 by its global norm, by_maximum(1.0) by its largest element, by_norm(1.0) for each weight, by_value(0.5) "
     "for each element, adaptive(0.01) for each unit by the norm of its weights"},
    {SETTINGS_GROUP, "seed", "seed = 1", "of initial weights, the order of samples and all random numbers; also at run time"},
    {SETTINGS_GROUP, "ema", "ema = 0.999", "moving average of the weights, used for evaluation and saved"},
    {SETTINGS_GROUP, "swa", "swa = 0.75", "plain average of the weights from this share of the run on"},
    {SETTINGS_GROUP, "init", "init = \"weights.safetensors\"", "a file of weights to begin with; also in rules"},
    {SETTINGS_GROUP, "rules", "rules = \"gpt2\"",
     "how names and shapes of the file of `init` become the model's: a set of the library, a file, or a list of rules; also in rules"},
    {SETTINGS_GROUP, "validate", "validate = 1epochs", "how often loss and metrics of `valid` are taken"},
    {SETTINGS_GROUP, "save", "save = 1epochs", "how often the run is saved"},
    {SETTINGS_GROUP, "keep", "keep = 1", "how many saved states are kept"},
    {SETTINGS_GROUP, "patience", "patience = 3epochs", "the run ends after so long without a better `best`"},
    {SETTINGS_GROUP, "best", "best = lowest(\"loss\")",
     "which weights are kept as the best: highest(\"metric\") or lowest(\"metric\"); of equal values the first"},
    {SETTINGS_GROUP, "on_nan", "on_nan = \"stop\"", "what happens when the loss is no number"},
    {SETTINGS_GROUP, "observe", "observe = \"metrics\"",
     "what is known of every step: \"metrics\" in its record of --log, \"gradients\": their norm there, and each in --histograms; \"all\": both"},
    {SETTINGS_GROUP, "memory", "memory = 10GiB", "limit for a device"},
    {SETTINGS_GROUP, "recompute", "recompute = \"auto\"",
     "what does not fit into memory is computed again in the backward pass; none: all is kept"},
    {SETTINGS_GROUP, "workers", "workers = 4", "threads that read data"},
    {SETTINGS_GROUP, "exact", "exact = 8",
     "the same bits on 1 to 8 devices, with any number of threads: sums over samples are a fixed binary tree of 8 virtual shards; none: to rounding"},
};
static const struct {
    const char *name, *about;
} FUNCTIONS[] = {
    {"len", "how many elements a list has"},
    {"range", "[start, start + step, ...], up to but without the end; range(n): 0 to n - 1"},
    {"enumerate", "[[0, first], [1, second], ...]"},
    {"zip", "lists of the first elements, of the second ...; the lists are of equal lengths"},
    {"repeat", "a list of so many times the value"},
    {"is_list", "whether it is a list"},
    {"shared", "one instance of a layer, with one set of weights, however often it is called"},
    {"weighted", "values with weights: in losses and metrics the mean is sum(w e) / sum(w) over the global batch"},
    {"weights", "the trained weights that a value depends on, as a list, by the pattern of their names: grad(l, weights(l))"},
    {"portion", "a quantity's share of the run, 0 to 1: portion(5epochs)"},
    {"scaled", "lr * batch / base"},
    {"plateau", "a rate that falls when a metric no longer improves"},
    {"file", "an initialiser: the numbers of a .npy file"},
    {"by_norm", "for `clip`: each weight's gradient by its own norm"},
    {"by_value", "for `clip`: each element of the gradient"},
    {"by_maximum", "for `clip`: all gradients by the largest of their elements, the infinity norm"},
    {"adaptive", "for `clip`: the gradient of each unit by the norm of its weights (AGC); Brock et al. 2021"},
    {"highest", "for `best`: the highest value of a metric"},
    {"lowest", "for `best`: the lowest value of a metric or of \"loss\""},
};

/* ---- layers */

static int closing(const Tokens *t, int i, int open, int close)
{
    for (int depth = 0; i < t->count; i++) {
        int kind = t->list[i].kind;
        depth += kind == open ? 1 : kind == close ? -1 : 0;
        if (depth == 0)
            return i;
    }
    return t->count - 1; /* the text has a syntax error */
}

static bool is_on_own_line(const Tokens *t, int i) { return i == 0 || t->list[i].line > t->list[i - 1].last_line; }
static bool begins_section(const Token *t) { return strncmp(t->text, "# ----", 6) == 0; }

static void add_comment(Text *about, const Token *t)
{
    int skip = (int)strspn(t->text, "# ");
    if (t->length > skip)
        text_add(about, "%s%.*s", about->length ? " " : "", t->length - skip, t->text + skip);
}

static const char *comment_of(const Tokens *t, int word, int brace, int end)
{
    Text about = {0};
    int first = word;
    for (; first > 0; first--) {
        const Token *above = &t->list[first - 1];
        if (above->kind != TOKEN_COMMENT || !is_on_own_line(t, first - 1) || begins_section(above) ||
            above->line + 1 != t->list[first].line)
            break;
    }
    for (int i = first; i < word; i++)
        add_comment(&about, &t->list[i]);
    for (int k = 0; k < 2; k++) { /* after the '{', and after the '}' of a layer on one line */
        int i = (k == 0 ? brace : end) + 1;
        if (i < t->count && t->list[i].kind == TOKEN_COMMENT && t->list[i].line == t->list[brace].line)
            add_comment(&about, &t->list[i]);
    }
    return text_take(&about);
}

/* Returns lines `first` to `last` of the text. */
static const char *lines_of(const Source *s, int first, int last)
{
    const char *from = s->text, *to;
    for (int n = 1; n < first; n++)
        from = strchr(from, '\n') + 1;
    to = from;
    for (int n = first; n <= last && *to; n++) {
        to += strcspn(to, "\n");
        to += *to == '\n';
    }
    return copy_text(from, (size_t)(to - from));
}

static const char *section_title(const Token *t)
{
    const char *from = t->text + strspn(t->text, "#- ");
    int length = (int)strcspn(from, ":,;");
    char *title = (char *)(uintptr_t)copy_text(from, (size_t)length);
    title[0] = (char)toupper((unsigned char)title[0]);
    return title;
}

void layer_entries(const Source *s, const char *group, Entries *out)
{
    Tokens t = scan_tokens(s);
    int seen = 0;
    for (const Tree *l = parse(s)->first; l; l = l->next) {
        if (l->kind != TREE_LAYER)
            continue;
        int name = token_at(&t, l->line, l->column), word = name - 1;
        while (t.list[word].kind == TOKEN_COMMENT)
            word--;
        for (; seen < word && s->library; seen++)
            if (t.list[seen].kind == TOKEN_COMMENT && begins_section(&t.list[seen]))
                group = section_title(&t.list[seen]);
        int parenthesis = closing(&t, name + 1, '(', ')'), brace = parenthesis + 1;
        while (brace + 1 < t.count && t.list[brace].kind == TOKEN_COMMENT)
            brace++;
        int end = closing(&t, brace, '{', '}');
        Text signature = {0};
        format_line(&t, name, parenthesis, &signature);
        Entry e = {.group = group,
                   .name = l->text,
                   .signature = plain_text(text_of(&signature), false),
                   .about = plain_text(comment_of(&t, word, brace, end), false),
                   .file = s->file,
                   .line = t.list[word].line,
                   .text = plain_text(lines_of(s, t.list[word].line, t.list[end].line), true),
                   .lines = t.list[end].line - t.list[word].line + 1};
        APPEND(out->list, out->count, e);
    }
}

const char *library_text(const char *file)
{
    for (const LibraryFile *f = LIBRARY_FILES; f->name; f++)
        if (strcmp(f->name, file) == 0 || strcmp(format("dsl/%s", f->name), file) == 0)
            return f->text;
    return NULL;
}

void library_entries(Entries *out)
{
    for (const LibraryFile *f = LIBRARY_FILES; f->name; f++) {
        const char *base = strrchr(f->name, '/'), *group = f->name;
        base = base ? base + 1 : f->name;
        for (int k = 0; k < COUNT(FILES); k++)
            if (strcmp(FILES[k].file, base) == 0)
                group = FILES[k].title;
        Source *s = NEW(Source);
        *s = (Source){.file = format("dsl/%s", f->name), .text = f->text, .length = strlen(f->text), .library = true};
        layer_entries(s, group, out);
    }
}

static void add_file(const char *path, Map *seen, Entries *out)
{
    const char *key = real_path(path);
    if (!key)
        fail(1, "%s cannot be read: %s", path, strerror(errno));
    if (map_get(seen, key))
        return;
    map_set(seen, key, seen);
    const Source *s = read_source(path);
    layer_entries(s, path, out);
    for (const Tree *t = parse(s)->first; t; t = t->next)
        if (t->kind == TREE_IMPORT)
            add_file(path_in_folder_of(path, t->text), seen, out);
}

void file_entries(const char *path, Entries *out)
{
    Map seen = {0};
    add_file(path, &seen, out);
    stop_after_errors();
}

/* ---- tables */

/* Adds an operation's entries. A signature such as "einsum(spec, a, ...), a @ b" names two: einsum and @. */
static void add_primitive(Entries *out, const OpInfo *op)
{
    static const char GROUP[] = "Primitives", OPERATORS[] = " + - * / ** % == < <= and or @ ";
    const char *s = op->signature;
    for (const char *word = s; *word;) {
        size_t n = strcspn(word, " (),");
        const char *name = copy_text(word, n);
        bool call = word[n] == '(' && n && strspn(name, "abcdefghijklmnopqrstuvwxyz_0123456789") == n;
        bool sign = n && strstr(OPERATORS, format(" %s ", name)) && word > s && word[n] == ' ' && n != strlen(word);
        if (call || sign || (word == s && strcmp(name, "not") == 0))
            add_entry(out, GROUP, strcmp(op->name, "cast") == 0 ? "cast" : name, s, op->equation);
        if (call) /* skip its arguments */
            for (int depth = 0; word[n]; n++) {
                depth += word[n] == '(' ? 1 : word[n] == ')' ? -1 : 0;
                if (depth == 0)
                    break;
            }
        word += n + (word[n] != 0);
    }
    if (strcmp(op->name, "gather") == 0)
        add_entry(out, GROUP, "gather", s, op->equation);
}

void builtin_entries(Entries *out)
{
    for (int k = 0; k < OPS; k++)
        if (OP_INFO[k].signature)
            add_primitive(out, &OP_INFO[k]);
    for (const Builtin *b = COMPILE_TIME; b->name; b++) {
        const char *about = NULL;
        for (int k = 0; k < COUNT(FUNCTIONS); k++)
            if (strcmp(FUNCTIONS[k].name, b->name) == 0)
                about = FUNCTIONS[k].about;
        add_entry(out, "Functions of compile time", b->name, format("%s(%s)", b->name, b->parameters), about ? about : "");
    }
    data_entries(out);
    for (int k = 0; k < COUNT(TEXTS); k++)
        add_entry(out, TEXTS[k].group, TEXTS[k].name, TEXTS[k].signature, TEXTS[k].about);
}
