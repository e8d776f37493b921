/* pieces.c: encodes a word, by the longest pieces (WordPiece: Wu et al. 2016, as in BERT) or by the most likely ones (Unigram:
 * Kudo 2018, with Viterbi's algorithm), with the rules of Hugging Face's tokenizers package. */
#include "runtime/base/base.h"
#include "runtime/data/vocabulary.h"

#include <stdlib.h>
#include <string.h>

void mgpu_add_to_list(TokenList *l, int64_t token) { MGPU_PUSH(l->tokens, l->count, (uint32_t)token); }

static int64_t length_at(const uint8_t *text, int64_t bytes, int64_t i)
{
    uint32_t c;
    return mgpu_decode_utf8(text, bytes, i, &c);
}

/* ---- WordPiece */
/* Returns the longest piece at i and its end, or -1. */
static int64_t longest_piece(const Vocabulary *v, const uint8_t *word, int64_t bytes, int64_t i, char *spelling, int64_t *end)
{
    int64_t prefix = i ? (int64_t)strlen(v->prefix) : 0, most = v->longest_token - prefix, found = -1;
    memcpy(spelling, v->prefix, (size_t)prefix);
    for (int64_t at = i, length; at < bytes && at - i < most; at += length) {
        length = length_at(word, bytes, at);
        if (at + length - i > most)
            break;
        memcpy(spelling + prefix + at - i, word + at, (size_t)length);
        int64_t token = mgpu_token_of(v, spelling, (size_t)(prefix + at + length - i));
        if (token < 0)
            continue;
        found = token;
        *end = at + length;
    }
    return found;
}

void mgpu_match_pieces(const Vocabulary *v, const uint8_t *word, int64_t bytes, TokenList *l)
{
    char *spelling = mgpu_allocate((size_t)v->longest_token + 4, 1);
    int64_t before = l->count, characters = 0, token = 0;
    for (int64_t i = 0; i < bytes; i += length_at(word, bytes, i))
        characters++;
    for (int64_t i = 0, end = 0; i < bytes && token >= 0 && characters <= v->longest_word; i = end) {
        token = longest_piece(v, word, bytes, i, spelling, &end);
        if (token >= 0)
            mgpu_add_to_list(l, token);
    }
    if (token < 0 || characters > v->longest_word) {
        l->count = before;
        mgpu_add_to_list(l, v->unknown);
    }
    free(spelling);
}

/* ---- Unigram */
typedef struct Best {
    double score;
    int64_t begin, word;
} Best; /* the last piece of the best way to a position; word -1: unknown */

static void better(Best *b, double score, int64_t begin, int64_t word)
{
    if (b->begin < 0 || score > b->score)
        *b = (Best){score, begin, word};
}

static void find_paths(const Vocabulary *v, const uint8_t *text, int64_t bytes, Best *best)
{
    static const double UNKNOWN = 10;
    for (int64_t i = 0, length; i < bytes; i += length) {
        length = length_at(text, bytes, i);
        bool single = false;
        for (int64_t end = i + length; end - i <= v->longest_token; end += length_at(text, bytes, end)) {
            int64_t word = mgpu_find_word(&v->spelling, (const char *)text + i, (size_t)(end - i));
            if (word >= 0)
                better(&best[end], best[i].score + v->score[word], i, word);
            single |= word >= 0 && end == i + length;
            if (end >= bytes)
                break;
        }
        if (!single)
            better(&best[i + length], best[i].score + (v->least_score - UNKNOWN), i, -1);
    }
}

/* Adds the bytes of a piece without a token if all of them have tokens, else the unknown token. */
static void add_unknown(const Vocabulary *v, const uint8_t *text, int64_t bytes, TokenList *l)
{
    int64_t token = mgpu_token_of(v, (const char *)text, (size_t)bytes);
    bool whole = v->byte_fallback && token < 0;
    for (int64_t i = 0; i < bytes && whole; i++)
        whole = v->byte_token[text[i]] != UINT32_MAX;
    for (int64_t i = 0; i < bytes && whole; i++)
        mgpu_add_to_list(l, v->byte_token[text[i]]);
    if (!whole)
        mgpu_add_to_list(l, token < 0 ? v->unknown : token);
}

void mgpu_find_likeliest(const Vocabulary *v, const uint8_t *word, int64_t bytes, TokenList *l)
{
    Best *best = mgpu_allocate((size_t)bytes + 1, sizeof *best);
    int64_t *ends = mgpu_allocate((size_t)bytes + 1, sizeof *ends), pieces = 0;
    for (int64_t i = 0; i <= bytes; i++)
        best[i] = (Best){0, i ? -1 : 0, -1};
    find_paths(v, word, bytes, best);
    for (int64_t end = bytes; end > 0; end = best[end].begin)
        ends[pieces++] = end;
    for (int64_t begin = 0; pieces; begin = ends[pieces]) {
        const Best *b = &best[ends[--pieces]];
        bool unknown = b->word < 0 || v->number[b->word] == v->unknown;
        while (unknown && v->joins_unknown && pieces &&
               (best[ends[pieces - 1]].word < 0 || v->number[best[ends[pieces - 1]].word] == v->unknown))
            pieces--;
        if (unknown)
            add_unknown(v, word + begin, ends[pieces] - begin, l);
        else
            mgpu_add_to_list(l, v->number[b->word]);
    }
    free(best);
    free(ends);
}
