/* grow_names.c: a grown model with hostile names: words that C knows for what it names with letters and a number, and texts that
 * might end a comment or a string for layers. What the model computes stays the same. */
#include "tests/fuzz/grow_parts.h"
#include "tests/fuzz/hostile.h"

#include <ctype.h>
#include <string.h>

enum { LONGEST_WORD = 64 };

static bool is_part(char c) { return isalnum((unsigned char)c) || c == '_'; }

typedef struct Renamer {
    Random r;
    Text out;
    Map words; /* of the model -> hostile ones; all of the model's own -> themselves */
    int next, used, names;
} Renamer;

static const char *word_at(const char *at)
{
    size_t length = 0;
    while (is_part(at[length]))
        length++;
    return copy_text(at, length);
}

/* layers that may have a name; of gru and walk patterns of train blocks have the number (grow_train.c) */
static const char *const LAYERS[] = {"dense",     "conv",        "conv_transpose", "rmsnorm", "layernorm", "groupnorm",
                                     "batchnorm", "transformer", "self_attention", "lstm",    "rnn",       "embedding",
                                     "block",     "depthwise",   "gate",           NULL};

static bool is_in(const char *const *list, const char *word)
{
    while (*list && strcmp(*list, word) != 0)
        list++;
    return *list != NULL;
}

static const char *const LANGUAGE[] = {"f16", "f32", "f64", "bf16", "u8", "u16", "u32", "i8", "i16", "i32", "i64", "relu6", NULL};

/* v12, but no word of the language or the library */
static bool is_own(const char *word, const char *behind)
{
    size_t letters = strspn(word, "abcdefghijklmnopqrstuvwxyz");
    return !is_in(LANGUAGE, word) && letters > 0 && word[letters] &&
           strspn(word + letters, "0123456789") == strlen(word + letters) && *behind != '(' && strncmp(word, "layer", 5) != 0;
}

static int count_of(const char *const *list)
{
    int count = 0;
    while (list[count])
        count++;
    return count;
}

/* each hostile word once, from some place of the list on; none that the model has already */
static const char *renamed(Renamer *n, const char *word)
{
    const char *known = map_get(&n->words, word);
    int count = count_of(HOSTILE_WORDS);
    for (; !known && n->used < count; n->used++) {
        const char *wish = HOSTILE_WORDS[(n->next + n->used) % count];
        if (!map_get(&n->words, wish)) {
            map_set(&n->words, word, (void *)(uintptr_t)wish);
            map_set(&n->words, wish, (void *)(uintptr_t)wish);
            known = wish;
        }
    }
    return known ? known : word;
}

/* a string's text that is another layer's nowhere */
static void add_name(Renamer *n, const char *before)
{
    const char *name = HOSTILE_NAMES[random_below(&n->r, (size_t)count_of(HOSTILE_NAMES))];
    text_add(&n->out, "\"%s%d", before, ++n->names);
    for (; *name; name++)
        if (*name == '\n' || *name == '\t')
            text_add(&n->out, "\\%c", *name == '\n' ? 'n' : 't');
        else
            text_add(&n->out, *name == '"' || *name == '\\' ? "\\%c" : "%c", *name);
    text_add(&n->out, "\"");
}

/* the length of a string, quotes and all */
static size_t string_length(const char *at)
{
    size_t length = 1;
    while (at[length] && at[length] != '"')
        length += at[length] == '\\' && at[length + 1] ? 2 : 1;
    return length + (at[length] == '"');
}

/* the end of a call whose '(' is there, if nothing in it has a name of its own; else NULL */
static const char *end_of_call(const char *at)
{
    int depth = 0;
    for (; *at && *at != '\n'; at++) {
        if (*at == '"')
            at += string_length(at) - 1;
        else if (strncmp(at, "name = ", 7) == 0)
            return NULL;
        else if (*at == '(' || *at == '[')
            depth++;
        else if ((*at == ')' || *at == ']') && --depth == 0)
            return at;
    }
    return NULL;
}

/* statements of the model itself: not in a loop or a layer, and no loss or output, whose layers keep their names for the train
 * block; no layer that is called twice */
static bool is_statement(const char *text, const char *line)
{
    const char *model = strstr(text, "\nmodel "), *own = copy_text(line, strcspn(line, "\n"));
    int depth = 0;
    for (const char *c = model ? model : line; c < line; c++) {
        if (*c == '"')
            c += string_length(c) - 1;
        else
            depth += (*c == '{') - (*c == '}');
    }
    return depth == 1 && own[strspn(own, " ")] == 'v' && !strstr(own, "bidirectional(") && !strstr(own, "shared(");
}

const char *grow_hostile(uint64_t seed, const char *text)
{
    Renamer n = {.r = {seed}};
    n.next = (int)random_below(&n.r, (size_t)count_of(HOSTILE_WORDS));
    for (const char *at = text; *at; at++)
        if (is_part(*at) && (at == text || !is_part(at[-1]))) {
            const char *word = word_at(at);
            if (!is_own(word, at + strlen(word)))
                map_set(&n.words, word, (void *)(uintptr_t)word);
        }
    const char *train = strstr(text, "\ntrain {"), *call_end = NULL, *layer = "";
    bool statement = false;
    for (const char *at = text; *at;) {
        if (at == text || at[-1] == '\n')
            statement = is_statement(text, at);
        if (at == call_end) {
            text_add(&n.out, at[-1] == '(' ? "name = " : ", name = ");
            add_name(&n, format("%s_", layer));
            call_end = NULL;
        }
        if (*at == '#') {
            size_t length = strcspn(at, "\n");
            text_bytes(&n.out, at, length);
            at += length;
        } else if (*at == '"') {
            size_t length = string_length(at);
            bool names = at > text + 7 && strncmp(at - 7, "name = ", 7) == 0 && (!train || at < train);
            if (names)
                add_name(&n, "");
            else
                text_bytes(&n.out, at, length);
            at += length;
        } else if (is_part(*at)) {
            const char *word = word_at(at), *behind = at + strlen(word);
            bool own = is_own(word, behind) && !isdigit((unsigned char)*at);
            text_add(&n.out, "%s", own ? renamed(&n, word) : word);
            if (statement && !call_end && *behind == '(' && at > text + 3 && strncmp(at - 3, "|> ", 3) == 0 &&
                is_in(LAYERS, word)) {
                call_end = end_of_call(behind);
                layer = word;
            }
            at = behind;
        } else {
            text_bytes(&n.out, at++, 1);
        }
    }
    return text_take(&n.out);
}
