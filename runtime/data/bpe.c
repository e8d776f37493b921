/* bpe.c: text <-> tokens of a vocabulary; byte-pair encoding (Sennrich et al. 2016; Radford et al. 2019) of bytes or of
 * characters.
 *
 * Special tokens such as <|endoftext|> are searched for first; at each place the longest one wins. The rest is normalized
 * (normalize.c) and split into words (pretokens.c). Adjacent symbols of a word are merged: the merge with the lowest rank first,
 * among equal ones the leftmost. A heap of pairs makes that O(n log n). pieces.c has the other models. Words that have been
 * encoded before are looked up in a table. */
#include "runtime/base/base.h"
#include "runtime/data/data.h"
#include "runtime/data/vocabulary.h"

#include <stdlib.h>
#include <string.h>

enum { LONGEST_KEPT = 32, MOST_KEPT = 1 << 20 }; /* words in the table: their length in bytes, their number */

/* ---- the vocabulary */
int64_t mgpu_token_of(const Vocabulary *v, const char *spelling, size_t length)
{
    int64_t word = mgpu_find_word(&v->spelling, spelling, length);
    return word < 0 ? -1 : v->number[word];
}

void mgpu_add_token(Vocabulary *v, const char *spelling, int64_t number)
{
    int64_t before = v->spelling.words.count, word = mgpu_intern(&v->spelling, spelling, strlen(spelling));
    if (word == before && (word & (word - 1)) == 0) {
        v->number = mgpu_resize(v->number, (size_t)(word ? 2 * word : 1) * sizeof *v->number);
        v->score = mgpu_resize(v->score, (size_t)(word ? 2 * word : 1) * sizeof *v->score);
    }
    v->number[word] = number;
    v->longest_token = (int64_t)strlen(spelling) > v->longest_token ? (int64_t)strlen(spelling) : v->longest_token;
    v->largest = number > v->largest ? number : v->largest;
}

SpecialToken *mgpu_add_special(Vocabulary *v, const char *text, int64_t number)
{
    MGPU_PUSH(v->specials, v->special_count,
              (SpecialToken){.text = mgpu_format("%s", text), .length = strlen(text), .token = number});
    v->begins[(uint8_t)*text] = true;
    v->largest = number > v->largest ? number : v->largest;
    return &v->specials[v->special_count - 1];
}

static bool is_printable(int b) /* in Latin-1 */ { return (b >= '!' && b <= '~') || (b >= 0xA1 && b <= 0xAC) || b >= 0xAE; }

/* Printable bytes are spelled as themselves; the others are the characters from U+0100 on, in order. */
static void find_bytes(Vocabulary *v, const char *where)
{
    for (int b = 0; b < 256 && v->model != BYTE_BPE; b++) {
        char spelling[8];
        snprintf(spelling, sizeof spelling, "<0x%02X>", (unsigned)b);
        v->byte_token[b] = v->byte_fallback ? (uint32_t)mgpu_token_of(v, spelling, 6) : UINT32_MAX;
    }
    for (int b = 0, next = 0x100; b < 256 && v->model == BYTE_BPE; b++) {
        int code = is_printable(b) ? b : next++;
        char *spelling = v->byte_spelling[b];
        spelling[0] = (char)code;
        if (code >= 0x80) {
            spelling[0] = (char)(0xC0 | code >> 6);
            spelling[1] = (char)(0x80 | (code & 0x3F));
        }
        int64_t token = mgpu_token_of(v, spelling, strlen(spelling));
        if (token < 0)
            mgpu_fail(MGPU_BAD_INPUT, "%s%s: there is no token '%s' for the byte 0x%02x: it is no byte-level vocabulary", where,
                      v->folder, spelling, b);
        v->byte_token[b] = (uint32_t)token;
    }
}

static Merge *find_merge(const Vocabulary *v, uint64_t pair)
{
    uint64_t at = (pair * 0x9E3779B97F4A7C15u >> 20) & (v->merge_slots - 1);
    while (v->merges[at].rank && v->merges[at].pair != pair)
        at = (at + 1) & (v->merge_slots - 1);
    return &v->merges[at];
}

void mgpu_begin_merges(Vocabulary *v, int64_t most, const char *where)
{
    find_bytes(v, where);
    for (v->merge_slots = 64; v->merge_slots < 2 * (uint64_t)most;)
        v->merge_slots *= 2;
    v->merges = mgpu_allocate(v->merge_slots, sizeof *v->merges);
}

void mgpu_add_merge(Vocabulary *v, const char *left, size_t left_bytes, const char *right, size_t right_bytes, uint32_t rank,
                    const char *place)
{
    char *joined = mgpu_allocate(left_bytes + right_bytes + 1, 1);
    memcpy(joined, left, left_bytes);
    memcpy(joined + left_bytes, right, right_bytes);
    int64_t a = mgpu_token_of(v, left, left_bytes), b = mgpu_token_of(v, right, right_bytes),
            token = mgpu_token_of(v, joined, left_bytes + right_bytes);
    if (!left_bytes || !right_bytes || a < 0 || b < 0 || token < 0)
        mgpu_fail(MGPU_BAD_INPUT, "%s: '%.*s%s%.*s' is no merge of two tokens of the vocabulary", place,
                  (int)(left_bytes < 80 ? left_bytes : 80), left, right_bytes ? " " : "",
                  (int)(right_bytes < 80 ? right_bytes : 80), right);
    Merge *m = find_merge(v, (uint64_t)a << 32 | (uint64_t)b);
    if (!m->rank)
        *m = (Merge){(uint64_t)a << 32 | (uint64_t)b, rank, (uint32_t)token};
    free(joined);
}

/* ---- merging a word */
typedef struct Node {
    uint32_t token;
    int64_t before, after;
} Node; /* before, after: -1 if there is none */
typedef struct Neighbours {
    uint32_t rank, token;
    int64_t left;
    uint64_t pair;
} Neighbours;
typedef struct Word {
    Node *nodes;
    int64_t capacity;
    Neighbours *heap;
    int64_t count, heap_room;
    TokenList list; /* tokens before merging; in other models the result */
} Word;

static bool sooner(const Neighbours *a, const Neighbours *b)
{
    return a->rank != b->rank ? a->rank < b->rank : a->left < b->left;
}

static void push(Word *w, Neighbours n)
{
    if (w->count == w->heap_room) {
        w->heap_room = w->heap_room ? 2 * w->heap_room : 64;
        w->heap = mgpu_resize(w->heap, (size_t)w->heap_room * sizeof *w->heap);
    }
    int64_t at = w->count++;
    for (; at > 0 && sooner(&n, &w->heap[(at - 1) / 2]); at = (at - 1) / 2)
        w->heap[at] = w->heap[(at - 1) / 2];
    w->heap[at] = n;
}

static Neighbours pop(Word *w)
{
    Neighbours top = w->heap[0], last = w->heap[--w->count];
    int64_t at = 0, child;
    for (; (child = 2 * at + 1) < w->count; at = child) {
        child += child + 1 < w->count && sooner(&w->heap[child + 1], &w->heap[child]);
        if (!sooner(&w->heap[child], &last))
            break;
        w->heap[at] = w->heap[child];
    }
    w->heap[at] = last;
    return top;
}

static void push_pair(const Vocabulary *v, Word *w, int64_t left)
{
    int64_t right = left < 0 ? -1 : w->nodes[left].after;
    if (right < 0)
        return;
    uint64_t pair = (uint64_t)w->nodes[left].token << 32 | w->nodes[right].token;
    const Merge *m = find_merge(v, pair);
    if (m->rank)
        push(w, (Neighbours){m->rank, m->token, left, pair});
}

static void make_nodes(Word *w, int64_t count)
{
    if (count <= w->capacity)
        return;
    w->capacity = 2 * count;
    w->nodes = mgpu_resize(w->nodes, (size_t)w->capacity * sizeof *w->nodes);
}

/* Stores the token in nodes[0] if the word is one and the vocabulary takes whole words. */
static bool whole_word(const Vocabulary *v, Word *w, const uint8_t *text, int64_t bytes)
{
    if (!v->whole_words)
        return false;
    char *spelling = mgpu_allocate((size_t)(2 * bytes) + 1, 1), *end = spelling;
    for (int64_t i = 0; i < bytes && v->model == BYTE_BPE; i++)
        end = stpcpy(end, v->byte_spelling[text[i]]);
    int64_t token = v->model == BYTE_BPE ? mgpu_token_of(v, spelling, (size_t)(end - spelling))
                                         : mgpu_token_of(v, (const char *)text, (size_t)bytes);
    free(spelling);
    make_nodes(w, 1);
    w->nodes[0] = (Node){(uint32_t)token, -1, -1};
    return token >= 0;
}

/* Adds the tokens of characters. A character without one becomes the tokens of its bytes, the unknown token, or nothing. */
static void add_characters(const Vocabulary *v, const uint8_t *text, int64_t bytes, TokenList *l)
{
    bool pending = false; /* an unknown token to be added; as in the tokenizers package, bytes that follow precede it */
    uint32_t code;
    for (int64_t i = 0, length; i < bytes; i += length) {
        length = mgpu_decode_utf8(text, bytes, i, &code);
        int64_t token = mgpu_token_of(v, (const char *)text + i, (size_t)length);
        bool known = v->byte_fallback && token < 0;
        for (int64_t k = i; k < i + length && known; k++)
            known = v->byte_token[text[k]] != UINT32_MAX;
        if (token < 0 && !known) {
            if (pending && !v->joins_unknown)
                mgpu_add_to_list(l, v->unknown);
            pending = v->unknown >= 0;
            continue;
        }
        if (token >= 0 && pending)
            mgpu_add_to_list(l, v->unknown);
        pending = pending && token < 0;
        for (int64_t k = i; k < i + length && token < 0; k++)
            mgpu_add_to_list(l, v->byte_token[text[k]]);
        if (token >= 0)
            mgpu_add_to_list(l, token);
    }
    if (pending)
        mgpu_add_to_list(l, v->unknown);
}

/* Returns the number of tokens. They are in nodes[0] and its successors. */
static int64_t merge_word(const Vocabulary *v, Word *w, const uint8_t *text, int64_t bytes)
{
    w->list.count = 0;
    for (int64_t i = 0; i < bytes && v->model == BYTE_BPE; i++)
        mgpu_add_to_list(&w->list, v->byte_token[text[i]]);
    if (v->model == CHARACTER_BPE)
        add_characters(v, text, bytes, &w->list);
    int64_t symbols = w->list.count, left = symbols;
    make_nodes(w, symbols);
    for (int64_t i = 0; i < symbols; i++)
        w->nodes[i] = (Node){w->list.tokens[i], i - 1, i + 1 < symbols ? i + 1 : -1};
    w->count = 0;
    for (int64_t i = 0; i + 1 < symbols; i++)
        push_pair(v, w, i);
    while (w->count) {
        Neighbours n = pop(w);
        Node *a = &w->nodes[n.left];
        if (a->after < 0 || a->token == UINT32_MAX || ((uint64_t)a->token << 32 | w->nodes[a->after].token) != n.pair)
            continue; /* one of the two has been merged with another symbol */
        Node *b = &w->nodes[a->after];
        a->token = n.token;
        a->after = b->after;
        b->token = UINT32_MAX;
        if (a->after >= 0)
            w->nodes[a->after].before = n.left;
        left--;
        push_pair(v, w, a->before);
        push_pair(v, w, n.left);
    }
    return left;
}

/* ---- encoding a text */
typedef struct Known {
    uint64_t hash;
    const uint8_t *text;
    int64_t at;
    uint32_t length, tokens;
} Known; /* length 0: an empty slot */
typedef struct Encoder {
    const Vocabulary *vocabulary;
    Word word;
    Known *known;
    int64_t known_count;
    uint8_t dtype;
    void *tokens;
    int64_t count, capacity;
    Bytes *kept;
    int kept_count; /* memory that words point to */
} Encoder;

static void reserve(Encoder *e, int64_t more)
{
    if (e->count + more <= e->capacity)
        return;
    e->capacity = 2 * (e->count + more) + 1024;
    e->tokens = mgpu_resize(e->tokens, (size_t)(e->capacity * mgpu_dtype_bytes(e->dtype)));
}

static Known *find_known(const Encoder *e, const uint8_t *text, int64_t length)
{
    uint64_t h = 14695981039346656037ull;
    for (int64_t i = 0; i < length; i++)
        h = (h ^ text[i]) * 1099511628211ull;
    h ^= h >> 32;
    uint64_t at = h & (2 * MOST_KEPT - 1);
    while (e->known[at].length && (e->known[at].hash != h || e->known[at].length != (uint32_t)length ||
                                   memcmp(e->known[at].text, text, (size_t)length) != 0))
        at = (at + 1) & (2 * MOST_KEPT - 1);
    e->known[at].hash = h;
    return &e->known[at];
}

/* Puts the tokens into w->list. Returns their number. */
static int64_t tokens_of_word(const Vocabulary *v, Word *w, const uint8_t *text, int64_t length)
{
    if (v->model == WORDPIECE || v->model == UNIGRAM) {
        w->list.count = 0;
        (v->model == WORDPIECE ? mgpu_match_pieces : mgpu_find_likeliest)(v, text, length, &w->list);
        return w->list.count;
    }
    int64_t tokens = whole_word(v, w, text, length) ? 1 : merge_word(v, w, text, length), at = 0;
    w->list.count = 0;
    for (int64_t k = 0; k < tokens; k++, at = w->nodes[at].after)
        mgpu_add_to_list(&w->list, w->nodes[at].token);
    return tokens;
}

static void encode_word(void *state, const uint8_t *text, int64_t length)
{
    Encoder *e = state;
    int64_t element = mgpu_dtype_bytes(e->dtype);
    Known *known = length <= LONGEST_KEPT ? find_known(e, text, length) : NULL;
    if (known && known->length) {
        reserve(e, known->tokens);
        memcpy((uint8_t *)e->tokens + e->count * element, (uint8_t *)e->tokens + known->at * element,
               (size_t)(known->tokens * element));
        e->count += known->tokens;
        return;
    }
    int64_t tokens = tokens_of_word(e->vocabulary, &e->word, text, length);
    reserve(e, tokens);
    if (known && e->known_count < MOST_KEPT) {
        *known = (Known){known->hash, text, e->count, (uint32_t)length, (uint32_t)tokens};
        e->known_count++;
    }
    for (int64_t k = 0; k < tokens; k++)
        mgpu_from_double(e->tokens, e->dtype, e->count++, e->word.list.tokens[k]);
}

static void close_steps(Step *steps, int count)
{
    for (int i = 0; i < count; i++) {
        free(steps[i].text);
        free(steps[i].by);
    }
    free(steps);
}

void mgpu_close_vocabulary(Vocabulary *v)
{
    mgpu_free_words(&v->spelling);
    free(v->number);
    free(v->merges);
    for (int i = 0; i < v->special_count; i++)
        free(v->specials[i].text);
    free(v->specials);
    close_steps(v->normalizers, v->normalizer_count);
    close_steps(v->cuts, v->cut_count);
    free(v->score);
    free(v->begin);
    free(v->end);
    free(v->blank);
    free(v->prefix);
    free(v->folder);
    free(v);
}

/* Returns the longest special token that begins at i, or NULL. */
static const SpecialToken *special_at(const Vocabulary *v, const uint8_t *text, int64_t bytes, int64_t i, bool normalized)
{
    const SpecialToken *found = NULL;
    for (int k = 0; v->begins[text[i]] && k < v->special_count; k++) {
        const SpecialToken *s = &v->specials[k];
        if (s->normalized == normalized && (int64_t)s->length <= bytes - i && memcmp(text + i, s->text, s->length) == 0 &&
            (!found || s->length > found->length))
            found = s;
    }
    return found;
}

/* Returns the start of the blanks that end at `end`, or the end of those that begin at `begin`. */
static int64_t next_to_blanks(const uint8_t *text, int64_t begin, int64_t end, bool before)
{
    uint32_t code;
    int64_t at = before ? end : begin;
    for (int64_t i = begin, length; i < end; i += length) {
        length = mgpu_decode_utf8(text, end, i, &code);
        bool blank = length && mgpu_is_blank(code);
        length = length ? length : 1;
        at = !before ? i + (blank ? length : 0) : blank ? (at == end ? i : at) : end;
        if (!before && !blank)
            break;
    }
    return at;
}

static void encode_part(Encoder *, const uint8_t *text, int64_t bytes, bool first, bool normalized);

/* Encodes the text between special tokens. */
static void encode_between(Encoder *e, const uint8_t *text, int64_t bytes, bool first, bool normalized)
{
    const Vocabulary *v = e->vocabulary;
    int64_t wrong;
    Bytes made;
    if (normalized) {
        mgpu_cut_words(v, text, bytes, first, &e->kept, &e->kept_count, encode_word, e);
        return;
    }
    if (bytes == 0)
        return;
    if (!mgpu_normalize(v, text, bytes, &made, &wrong))
        mgpu_fail(MGPU_BAD_INPUT, "the text is not UTF-8, which the vocabulary %s is for: byte 0x%02x after %.*s", v->folder,
                  text[wrong], (int)(wrong < 40 ? wrong : 40), text + (wrong < 40 ? 0 : wrong - 40));
    MGPU_PUSH(e->kept, e->kept_count, made);
    encode_part(e, made.data, made.count, first, true);
}

static void encode_part(Encoder *e, const uint8_t *text, int64_t bytes, bool first, bool normalized)
{
    int64_t begin = 0;
    for (int64_t i = 0; i < bytes; i++) {
        const SpecialToken *special = special_at(e->vocabulary, text, bytes, i, normalized);
        if (!special)
            continue;
        int64_t end = i + (int64_t)special->length, before = special->strips_left ? next_to_blanks(text, begin, i, true) : i;
        encode_between(e, text + begin, before - begin, first && begin == 0, normalized);
        reserve(e, 1);
        mgpu_from_double(e->tokens, e->dtype, e->count++, (double)special->token);
        begin = special->strips_right ? next_to_blanks(text, end, bytes, false) : end;
        i = begin - 1;
    }
    encode_between(e, text + begin, bytes - begin, first && begin == 0, normalized);
}

void *mgpu_encode_text(const Vocabulary *v, const uint8_t *text, int64_t bytes, uint8_t *dtype, int64_t *count)
{
    Encoder e = {
        .vocabulary = v, .dtype = v->largest < 65536 ? MGPU_U16 : MGPU_U32, .known = mgpu_allocate(2 * MOST_KEPT, sizeof(Known))};
    encode_part(&e, text, bytes, true, false);
    *dtype = e.dtype;
    *count = e.count;
    for (int i = 0; i < e.kept_count; i++)
        free(e.kept[i].data);
    free(e.kept);
    free(e.known);
    free(e.word.nodes);
    free(e.word.heap);
    free(e.word.list.tokens);
    return mgpu_resize(e.tokens, (size_t)(e.count * mgpu_dtype_bytes(e.dtype)));
}

/* ---- decoding */
/* Returns the byte that a character of a spelling stands for, the inverse of find_bytes, or -1 for other characters, which
 * special tokens have. */
static int byte_of(uint32_t code)
{
    for (int b = 0, next = 0x100; b < 256; b++)
        if ((is_printable(b) ? (uint32_t)b : (uint32_t)next++) == code)
            return b;
    return -1;
}

static void spell_bytes(const char *spelling, FILE *f)
{
    int64_t bytes = (int64_t)strlen(spelling);
    uint32_t code;
    for (int64_t i = 0, length; i < bytes; i += length) {
        length = mgpu_decode_utf8((const uint8_t *)spelling, bytes, i, &code);
        int byte = length ? byte_of(code) : -1;
        if (byte >= 0)
            fputc(byte, f);
        else
            fwrite(spelling + i, 1, (size_t)(length ? length : 1), f);
        length = length ? length : 1;
    }
}

/* Prints a piece of WordPiece with the blank before it; with cleans_up without blanks before punctuation and contractions. */
static void spell_piece(const Vocabulary *v, const char *spelling, bool first, FILE *f)
{
    static const char *const TIDY[][2] = {{" .", "."},   {" ?", "?"},     {" !", "!"},    {" ,", ","},
                                          {" ' ", "'"},  {" n't", "n't"}, {" 'm", "'m"},  {" do not", " don't"},
                                          {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
    size_t length = strlen(v->prefix);
    bool goes_on = !first && length && strncmp(spelling, v->prefix, length) == 0;
    char *text = mgpu_format("%s%s", first || goes_on ? "" : " ", spelling + (goes_on ? length : 0));
    for (int k = 0; k < MGPU_COUNT(TIDY) && v->cleans_up; k++)
        for (char *at = strstr(text, TIDY[k][0]); at; at = strstr(at + strlen(TIDY[k][1]), TIDY[k][0])) {
            size_t from = strlen(TIDY[k][0]), to = strlen(TIDY[k][1]);
            memcpy(at, TIDY[k][1], to);
            memmove(at + to, at + from, strlen(at + from) + 1);
        }
    fputs(text, f);
    free(text);
}

/* Prints a spelling with its blanks restored. */
static void spell_characters(const Vocabulary *v, const char *spelling, bool first, FILE *f)
{
    size_t length = v->blank ? strlen(v->blank) : 0;
    for (const char *at = spelling; *at;) {
        bool blank = length && strncmp(at, v->blank, length) == 0;
        if (blank && !(first && (v->first == FIRST_WITHOUT_BLANKS || (v->first == FIRST_STRIPPED && at == spelling))))
            fputc(' ', f);
        else if (!blank)
            fputc(*at, f);
        at += blank ? length : 1;
    }
}

bool mgpu_spell_token(const Vocabulary *v, int64_t token, bool first, FILE *f)
{
    int64_t word = 0;
    const char *special = NULL;
    for (int i = 0; i < v->special_count && !special; i++)
        special = v->specials[i].token == token ? v->specials[i].text : NULL;
    while (!special && word < v->spelling.words.count && v->number[word] != token)
        word++;
    if (!special && word == v->spelling.words.count)
        return false;
    const char *spelling = special ? special : v->spelling.words.text[word];
    for (int b = 0; b < 256 && v->byte_fallback; b++)
        if (v->byte_token[b] == token) {
            if (!(first && b == ' ' && v->first == FIRST_STRIPPED))
                fputc(b, f);
            return true;
        }
    if (v->model == WORDPIECE)
        spell_piece(v, spelling, first, f);
    else if (v->model == BYTE_BPE && special)
        fputs(special, f);
    else if (v->model == BYTE_BPE)
        spell_bytes(spelling, f);
    else
        spell_characters(v, spelling, first, f);
    return true;
}
